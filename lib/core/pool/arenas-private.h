/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The types and functions that arenas.c, made-parts.c and stock.c share.  These files allocate
 * blocks from a heap's arenas, and return them there, in read sections, without the pool's lock. */

#ifndef TARN_POOL_ARENAS_PRIVATE_H
#define TARN_POOL_ARENAS_PRIVATE_H

#include "pool/cache-private.h"
#include "record/record-private.h"

/* The most unused block structs that a thread keeps for its next blocks. */
#define TARN_MAX_SPARE 128

/* A temporary is a block that a thread frees before it allocates the next one.  After this many
 * temporaries in succession the thread keeps a large one in its cache.  The kept block has at
 * most TARN_MAX_TEMPORARY_BYTES. */
#define TARN_MANY_TEMPORARIES 16
#define TARN_MAX_TEMPORARY_BYTES ((gsize) 4 << 20)

/* A request for a block. */
typedef struct
{
  gsize size;
  gsize alloc_size; /* the allocation size of the request's bin */
  guint32 bin;
  gpointer handle; /* the queue's handle; NULL: the request names no queue */
} TarnWanted;

/* An extent (a range of a heap's memory) that a request has taken, and for which the upstream
 * allocator must still make a part, such as a sub-buffer.  extent is NULL if there is none. */
typedef struct
{
  TarnExtent *extent;
  TarnArenaRef ref;
} TarnTaken;

/* Counts the read sections that a thread tries to enter for one request or free.  If the thread
 * finds a door (of the pool or the heap) closed, it waits until the door is open, and tries again.
 * After MAX_TRIES tries (arenas.c) the caller takes the locks instead. */
typedef struct
{
  TarnPool *pool;
  guint n; /* the number of read sections that the thread tried to enter */
} TarnVisits;

/* A function that frees @block in a read section: it returns a block to its arena, or marks that
 * block as ending, so that the caller can return it.  The function stores that block in *goes:
 * @block itself, or the block in whose place the thread's cache keeps @block (NULL: there was
 * none).  Returns FALSE, and changes no block, if the caller has to take the lock. */
typedef gboolean (*TarnFreeInside) (const TarnPool *pool, TarnCache *cache, TarnBlock *block,
                                    TarnBlock **goes);

/* arenas.c.  Call these outside read sections. */
gboolean _tarn_visits_begin (TarnVisits *visits);
gboolean _tarn_cache_free_in_visits (TarnCache *cache, TarnBlock *block, TarnFreeInside inside,
                                     TarnBlock **goes);

/* made-parts.c.  Call it outside read sections. */
TarnBlock *_tarn_pool_finish_part (TarnPool *pool, TarnCache *cache, const TarnWanted *wanted,
                                   const TarnTaken *taken);

/* stock.c.  The caller of the first function holds the pool's lock.  The caller of the second
 * must not hold it. */
void _tarn_cache_give_spare (TarnCache *cache, guint n_kept);
void _tarn_cache_change_spare (TarnCache *cache);

static inline void
_tarn_visits_end (const TarnVisits *visits)
{
  (void) visits;
  _tarn_thread_leave (_tarn_current_thread);
}

/* Functions that a thread calls in a read section of the pool's door, or with the pool's lock */

/* Returns TRUE if a thread's grant covers @bytes bytes more, or if the pool has no limit.  A
 * grant is the number of bytes that a thread may allocate until it has to take the pool's lock. */
static inline gboolean
_tarn_cache_is_granted (const TarnPool *pool, const TarnCache *cache, gsize bytes)
{
  return TARN_LIKELY (pool->limit.bytes == 0)
         || (gssize) (cache->managed_bytes + bytes) <= cache->granted_bytes;
}

/* Counts bytes and blocks that the pool gets through a thread's cache.  For bytes and blocks that
 * leave the pool, both numbers are negative, modulo 2^64. */
static inline void
_tarn_cache_count_managed (TarnCache *cache, gsize bytes, gsize n_blocks)
{
  gsize managed = cache->managed_bytes + bytes;

  __atomic_store_n (&cache->managed_bytes, managed, __ATOMIC_RELAXED);
  if ((gssize) managed > cache->managed_peak)
    cache->managed_peak = (gssize) managed;
  cache->n_blocks += n_blocks;
}

/* Makes an active block for a request from an extent of an arena.  The caller makes sure that the
 * thread's cache has an unused struct. */
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

/* Gets the element of TarnCache.kept for blocks of a queue.  Several queues may share an
 * element. */
static inline TarnBlock **
_tarn_cache_get_kept_place (TarnCache *cache, gpointer handle)
{
  return &cache->kept[_tarn_spread (0, handle) % TARN_CACHE_KEPT];
}

/* Finds the arena table's entry for the queue of a block that is being freed, so that the block
 * can be returned to the queue's arenas.  Returns NULL if the table has no such entry, the block
 * is not an arena's own, or the cache has no room for another unused struct. */
static inline TarnMetQueue *
_tarn_cache_find_met_for (const TarnPool *pool, const TarnCache *cache, const TarnBlock *block)
{
  return block->is_own && block->state == TARN_BLOCK_ACTIVE && cache->n_spare < TARN_MAX_SPARE
             ? _tarn_pool_find_met (pool, block->share)
             : NULL;
}

/* Retires a block whose memory was returned to the heap, and keeps its struct in the cache's list
 * of unused ones. */
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

/* Chooses the block to return to its arena when a thread frees @block.  Usually this is @block.
 * However, if the thread often frees a large block before it allocates the next (a temporary), its
 * cache keeps the largest such block of each queue.  If the cache is to keep @block, returns the
 * block that the cache kept before; NULL if it kept none. */
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
