/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The types and functions that arenas.c, made-parts.c and stock.c share.  These files allocate
 * blocks from a heap's arenas, and return blocks to the arenas.  Usually they do so in a read
 * section, without the pool's lock.  An arena is a part of a heap's memory that serves one
 * queue. */

#ifndef TARN_POOL_ARENAS_PRIVATE_H
#define TARN_POOL_ARENAS_PRIVATE_H

#include "pool/cache-private.h"
#include "record/record-private.h"

/* A thread's cache has at most this many unused block structs, from which the thread makes its next
 * blocks. */
#define TARN_MAX_SPARE 128

/* A temporary is a block that a thread frees before it allocates the next one.  After
 * TARN_MANY_TEMPORARIES temporaries in succession, a thread keeps large temporaries in its cache:
 * blocks of up to TARN_MAX_TEMPORARY_BYTES bytes. */
#define TARN_MANY_TEMPORARIES 16
#define TARN_MAX_TEMPORARY_BYTES ((gsize) 4 << 20)

/* A request for a block. */
typedef struct
{
  gsize size;
  gsize alloc_size; /* the size in bytes of each block in the request's bin */
  guint32 bin;
  gpointer handle; /* the queue's handle; NULL: the request names no queue */
} TarnWanted;

/* An extent (a range of a heap's memory) that a request has taken from an arena.  The upstream
 * allocator must still make an object for the extent, such as a sub-buffer.  This object is called
 * the extent's part.  The field extent is NULL if the request has taken no extent. */
typedef struct
{
  TarnExtent *extent;
  TarnArenaRef ref;
} TarnTaken;

/* Counts how often a thread has tried to enter a read section for one request or free.  If another
 * thread has stopped read sections of the pool or the heap, the thread waits until read sections
 * are allowed, and tries again.  After MAX_TRIES tries (arenas.c) it takes the locks of the pool
 * and the heap instead. */
typedef struct
{
  TarnPool *pool;
  guint n; /* the number of tries of this request or free until now */
} TarnVisits;

/* A function that frees @block in a read section.  Returns FALSE, and changes no block, if the
 * caller has to take the pool's lock.  Otherwise returns TRUE, and stores in *goes the block whose
 * memory returns to its arena (the heap's memory for the block's queue).
 *
 * Usually this block is @block.  But the thread's cache may keep @block for the next request.  Then
 * *goes is the block that the cache kept until now, or NULL if the cache kept none.
 *
 * If the heap's memory has addresses, the function itself returns the memory of *goes to the arena.
 * Otherwise it sets the state of *goes to ENDING, and the caller returns the memory. */
typedef gboolean (*TarnFreeInside) (const TarnPool *pool, TarnCache *cache, TarnBlock *block,
                                    TarnBlock **goes);

/* Functions of arenas.c.  The caller is not in a read section. */
gboolean _tarn_visits_begin (TarnVisits *visits);
gboolean _tarn_cache_free_in_visits (TarnCache *cache, TarnBlock *block, TarnFreeInside inside,
                                     TarnBlock **goes);

/* A function of made-parts.c.  The caller is not in a read section. */
TarnBlock *_tarn_pool_finish_part (TarnPool *pool, TarnCache *cache, const TarnWanted *wanted,
                                   const TarnTaken *taken);

/* Functions of stock.c.  The caller of _tarn_cache_give_spare () holds the pool's lock.  The caller
 * of _tarn_cache_change_spare () must not hold the pool's lock. */
void _tarn_cache_give_spare (TarnCache *cache, guint n_kept);
void _tarn_cache_change_spare (TarnCache *cache);

static inline void
_tarn_visits_end (const TarnVisits *visits)
{
  (void) visits;
  _tarn_thread_leave (_tarn_current_thread);
}

/* Functions that a thread calls in a read section of the pool, or while it holds the pool's lock */

/* Returns TRUE if a thread may allocate @bytes more bytes without the pool's lock.  The thread may
 * do so if the pool has no limit, or if the thread's grant is large enough.  A grant is the number
 * of bytes that a thread may allocate before it has to take the pool's lock. */
static inline gboolean
_tarn_cache_is_granted (const TarnPool *pool, const TarnCache *cache, gsize bytes)
{
  return TARN_LIKELY (pool->limit.bytes == 0)
         || (gssize) (cache->managed_bytes + bytes) <= cache->granted_bytes;
}

/* Counts, in a thread's cache, bytes and blocks that the pool gets from upstream.  To count bytes
 * and blocks that leave the pool, the caller passes negative numbers, modulo 2^64. */
static inline void
_tarn_cache_count_managed (TarnCache *cache, gsize bytes, gsize n_blocks)
{
  gsize managed = cache->managed_bytes + bytes;

  __atomic_store_n (&cache->managed_bytes, managed, __ATOMIC_RELAXED);
  if ((gssize) managed > cache->managed_peak)
    cache->managed_peak = (gssize) managed;
  cache->n_blocks += n_blocks;
}

/* Makes an active block from an extent (a range of an arena's memory) that a request has taken.
 * The caller makes sure that the thread's cache has an unused block struct. */
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

/* Gets a queue's element of TarnCache.kept, in which a cache keeps a large block that its thread
 * allocates and frees again and again.  Several queues may share an element. */
static inline TarnBlock **
_tarn_cache_get_kept_place (TarnCache *cache, gpointer handle)
{
  return &cache->kept[_tarn_spread (0, handle) % TARN_CACHE_KEPT];
}

/* Finds the entry of a block's queue in the pool's table of arenas, so that the caller can return
 * the block to its arena.  Returns NULL if the block cannot return to an arena now:
 * - The table has no entry for the queue.
 * - The block is not active, or belongs to no arena.
 * - The thread already has TARN_MAX_SPARE unused block structs, so it cannot keep the struct of the
 *   block. */
static inline TarnMetQueue *
_tarn_cache_find_met_for (const TarnPool *pool, const TarnCache *cache, const TarnBlock *block)
{
  return block->state == TARN_BLOCK_ACTIVE && block->is_own && cache->n_spare < TARN_MAX_SPARE
             ? _tarn_pool_find_met (pool, block->share)
             : NULL;
}

/* Subtracts a block, whose memory returns to the heap, from the counts of the pool's bytes and
 * blocks.  Adds the block's struct to the cache's list of unused structs. */
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

/* Chooses the block that returns to its arena (the heap's memory for the block's queue) when a
 * thread frees @block.  Usually this is @block.
 *
 * But if the thread allocates and frees a large block again and again, its cache keeps the block
 * for the next request.  For each queue it keeps the largest of these blocks.  If @block is larger
 * than the block that the cache keeps for the queue now, the caller puts @block into the cache, and
 * the kept block returns to its arena.  Then this function returns the kept block, or NULL if the
 * cache keeps none. */
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
