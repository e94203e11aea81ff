/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The types and functions that arenas.c, made-parts.c and stock.c share: they serve requests and
 * frees without a lock. */

#ifndef TARN_POOL_ARENAS_PRIVATE_H
#define TARN_POOL_ARENAS_PRIVATE_H

#include "pool/cache-private.h"
#include "record/record-private.h"

/* The most unused structs that a thread keeps. */
#define TARN_MAX_SPARE 128

/* A thread keeps a large block if it freed this many of them, each before it allocated the next.  A
 * block that it keeps has at most TARN_MAX_TEMPORARY_BYTES. */
#define TARN_MANY_TEMPORARIES 16
#define TARN_MAX_TEMPORARY_BYTES ((gsize) 4 << 20)

/* A request. */
typedef struct
{
  gsize size;
  gsize alloc_size; /* that of its bin */
  guint32 bin;
  gpointer handle; /* the queue's handle; NULL: it names no queue */
} TarnWanted;

/* An extent that a request has taken, and for which upstream has yet to make a part.  NULL:
 * none. */
typedef struct
{
  TarnExtent *extent;
  TarnArenaRef ref;
} TarnTaken;

/* Counts the read sections that a thread tries to enter for one request or free.  If the thread
 * finds a door closed, it waits until the door is open, and tries again.  After a few tries it
 * takes the locks instead. */
typedef struct
{
  TarnPool *pool;
  guint n; /* the number that it tried to enter */
} TarnVisits;

/* Gives a block that is being freed back to its arena, or begins to do so.  May give back another
 * block in its place.  Sets *goes to the block that is given back.  Returns FALSE if it could give
 * back neither.  The thread is in a read section. */
typedef gboolean (*TarnFreeInside) (const TarnPool *pool, TarnCache *cache, TarnBlock *block,
                                    TarnBlock **goes);

/* arenas.c.  The thread is in no read section. */
gboolean _tarn_visits_begin (TarnVisits *visits);
gboolean _tarn_cache_free_in_visits (TarnCache *cache, TarnBlock *block, TarnFreeInside inside,
                                     TarnBlock **goes);

/* made-parts.c.  The thread is in no read section. */
TarnBlock *_tarn_pool_finish_part (TarnPool *pool, TarnCache *cache, const TarnWanted *wanted,
                                   const TarnTaken *taken);

/* stock.c.  The lock is held in the first, and not in the second. */
void _tarn_cache_give_spare (TarnCache *cache, guint n_kept);
void _tarn_cache_change_spare (TarnCache *cache);

static inline void
_tarn_visits_end (const TarnVisits *visits)
{
  (void) visits;
  _tarn_thread_leave (_tarn_current_thread);
}

/* In a read section */

/* Returns TRUE if a thread may allocate @bytes bytes without the lock. */
static inline gboolean
_tarn_cache_is_granted (const TarnPool *pool, const TarnCache *cache, gsize bytes)
{
  return TARN_LIKELY (pool->limit.bytes == 0)
         || (gssize) (cache->managed_bytes + bytes) <= cache->granted_bytes;
}

/* Counts bytes and blocks that come to the pool, or, modulo 2^64, leave it. */
static inline void
_tarn_cache_count_managed (TarnCache *cache, gsize bytes, gsize n_blocks)
{
  gsize managed = cache->managed_bytes + bytes;

  __atomic_store_n (&cache->managed_bytes, managed, __ATOMIC_RELAXED);
  if ((gssize) managed > cache->managed_peak)
    cache->managed_peak = (gssize) managed;
  cache->n_blocks += n_blocks;
}

/* Makes a block from an extent. */
static inline TarnBlock *
_tarn_cache_make_block (TarnPool *pool, TarnCache *cache, const TarnWanted *wanted,
                        TarnExtent *extent, TarnMemory memory)
{
  TarnBlock *block = cache->spare;
  guint16 number = block->number;

  cache->spare = block->below;
  cache->n_spare--;
  *block = (TarnBlock){ .memory = memory,
                        .alloc_size = wanted->alloc_size,
                        .source = &pool->base,
                        .bin = wanted->bin,
                        .number = number,
                        .share = wanted->handle,
                        .is_own = TRUE };
  block->extent = extent;
  _tarn_cache_activate (cache, block, wanted->size);
  __atomic_store_n (&cache->misses, cache->misses + 1, __ATOMIC_RELAXED);
  _tarn_cache_count_managed (cache, wanted->alloc_size, 1);
  return block;
}

/* Gets the place of a queue in TarnCache.kept. */
static inline TarnBlock **
_tarn_cache_get_kept_place (TarnCache *cache, gpointer handle)
{
  return &cache->kept[_tarn_spread (0, handle) % TARN_CACHE_KEPT];
}

/* Finds the queue to whose arenas a block that is being freed can be returned.  Returns NULL if
 * there is none. */
static inline TarnMetQueue *
_tarn_cache_find_met_for (const TarnPool *pool, const TarnCache *cache, const TarnBlock *block)
{
  return block->is_own && block->state == TARN_BLOCK_ACTIVE && cache->n_spare < TARN_MAX_SPARE
             ? _tarn_pool_find_met (pool, block->share)
             : NULL;
}

/* Ends a block whose memory was returned. */
static inline void
_tarn_cache_end_block (TarnCache *cache, TarnBlock *block)
{
  TARN_PROBE (gone, cache->pool->base.id, block, block->alloc_size);
  _tarn_cache_count_managed (cache, -block->alloc_size, (gsize) -1);
  _tarn_block_set_state (block, TARN_BLOCK_RETIRED);
  block->below = cache->spare;
  cache->spare = block;
  cache->n_spare++;
}

/* Chooses the block to return to its arena when @block is freed.  It is @block, unless the
 * thread keeps @block from now on: then it is the block that the thread kept before, or NULL if it
 * kept none.  A thread keeps the largest of a queue's temporaries, which are large blocks that it
 * frees before it allocates the next. */
static inline TarnBlock *
_tarn_cache_choose_to_go (TarnCache *cache, TarnBlock *block)
{
  TarnBlock *kept;

  if (block != cache->latest_own || cache->n_own_temporaries < TARN_MANY_TEMPORARIES
      || block->alloc_size <= TARN_HEAP_MAX_ROUNDED
      || block->alloc_size > MIN (TARN_MAX_TEMPORARY_BYTES, cache->pool->policy.asked_cache_bytes))
    return block;
  kept = *_tarn_cache_get_kept_place (cache, block->share);
  return kept != NULL && kept->share == block->share && kept->alloc_size >= block->alloc_size
             ? block
             : kept;
}

#endif
