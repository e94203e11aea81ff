/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What a thread keeps of a pool for itself, in front of the pool's bins, so that most hits and
 * frees take no lock and write nothing that another thread reads.
 *
 * A thread uses its cache inside the pool's door (thread-private.h), or with the lock.  Whoever
 * needs what others keep, or exact counters, holds the lock and closes the door.  It stays closed
 * once blocks are marked when they are freed (order/order-private.h), and once nothing is held any
 * more.
 *
 * The cache of a thread that has ended is nobody's: whoever has the lock may empty it, and the next
 * thread that needs one takes it as it is.  In a child of fork () no thread has a cache.
 *
 * A thread's cache has what it freed last, newest first; what does not fit goes to the pool's bin,
 * oldest first.  So a thread that has a pool for itself gets back last what it freed first. */

#ifndef TARN_POOL_CACHE_PRIVATE_H
#define TARN_POOL_CACHE_PRIVATE_H

#include "base/thread-private.h"
#include "pool/bin-private.h"
#include "pool/pool-private.h"

/* A power of two.  With four leading bits each bin of sizes below 4 GiB has a place of its own. */
#define TARN_CACHE_BINS 512

typedef struct
{
  TarnBlock *top;   /* through TarnBlock.below */
  guint32 number;   /* behind the lock: of the pool's bin, if there is room for any block */
  guint16 length;   /* atomic, as others look at it */
  guint16 capacity; /* behind the lock: as much room as it has ever taken, and the bytes allowed */
} TarnCacheBin;

/* Invariants, whenever the lock is held and the door is closed:
 *
 *     reserved_bytes == sum of capacity * alloc_size over the bins
 *     reserved_bytes <= thread_cache_bytes of the pool
 *     length of each bin <= its capacity <= thread_cache_blocks
 *     blocks are HELD, used by the pool's fast_queue alone, or by none if there is no such queue */
struct _TarnCache
{
  gsize active_bytes; /* atomic: since the pool's counters knew; modulo 2^64, it may be less */
  gssize peak;        /* the most that it was since they knew; 0 if it was always less */
  guint64 hits;       /* atomic: here, ever, without the lock */

  /* Behind the lock */
  guint64 seen_hits; /* and bytes, when somebody looked for blocks here, */
  gsize seen_bytes;
  gint64 seen_at;        /* and first saw so many: as g_get_monotonic_time () */
  gboolean is_abandoned; /* its thread has ended */
  gsize reserved_bytes;
  gsize counted_bytes; /* active_bytes that the pool's counters have, ever */

  TarnPool *pool;
  TarnCache *next;       /* of the pool */
  TarnBlockChunk *chunk; /* for this thread's misses; NULL before the first */

  TarnCacheBin bins[TARN_CACHE_BINS];     /* near enough to the beginning for short instructions */
  guint64 has_room[TARN_CACHE_BINS / 64]; /* behind the lock: bins that have a capacity */
} __attribute__ ((aligned (TARN_CACHE_LINES)));

/* cache.c.  The lock is held in all but the first four, and in the first, too, unless this is
 * a child of fork (). */
void _tarn_pool_sum (const TarnPool *pool, TarnPoolStats *stats);
void _tarn_pool_init_caches (TarnPool *pool, const TarnPoolOptions *options);
TarnCache *_tarn_pool_lock (TarnPool *pool);
void _tarn_pool_free_caches (TarnPool *pool);
gboolean _tarn_pool_close (TarnPool *pool);
void _tarn_pool_open (TarnPool *pool, gboolean was_open);
void _tarn_pool_flush (TarnPool *pool);
void _tarn_pool_flush_closed (TarnPool *pool);
void _tarn_pool_count (TarnPool *pool, TarnPoolStats *stats);
void _tarn_pool_count_own (TarnPool *pool);
void _tarn_pool_count_closed (TarnPool *pool);
void _tarn_pool_note_peak (TarnPool *pool);
void _tarn_pool_set_fast_queue (TarnPool *pool, gpointer handle);
void _tarn_cache_empty_bin (TarnCache *cache, TarnCacheBin *bin);
gboolean _tarn_cache_fill (TarnCache *cache, guint32 number);
gboolean _tarn_cache_keep (TarnCache *cache, TarnBlock *block);
gboolean _tarn_pool_take_from_abandoned (TarnPool *pool, guint32 number);
gboolean _tarn_pool_take_from_idle (TarnPool *pool, guint32 number);

static inline TarnCacheBin *
_tarn_cache_get_bin (TarnCache *cache, guint32 number)
{
  return &cache->bins[number % TARN_CACHE_BINS];
}

static inline void
_tarn_cache_bin_set (TarnCacheBin *bin, TarnBlock *top, guint length)
{
  bin->top = top;
  __atomic_store_n (&bin->length, (guint16) length, __ATOMIC_RELAXED);
}

/* The cache that a thread has; NULL if there is none. */
static inline TarnCache *
_tarn_cache_of (const TarnThread *thread, const TarnPool *pool)
{
  return TARN_LIKELY (pool->slot < thread->n_items) ? thread->items[pool->slot] : NULL;
}

/* The block that was freed last of those in a bin, active. */
static inline __attribute__ ((always_inline)) TarnBlock *
_tarn_cache_pop (TarnCache *cache, TarnCacheBin *bin, gsize size)
{
  TarnBlock *block = bin->top;
  gsize active;

  _tarn_cache_bin_set (bin, block->below, bin->length - 1U);
  _tarn_block_set_state (block, TARN_BLOCK_ACTIVE);
  block->size = size;
  active = cache->active_bytes + size;
  __atomic_store_n (&cache->active_bytes, active, __ATOMIC_RELAXED);
  if ((gssize) active > cache->peak)
    cache->peak = (gssize) active;
  __atomic_store_n (&cache->hits, cache->hits + 1, __ATOMIC_RELAXED);
  return block;
}

typedef gboolean (*TarnBeginVisit) (TarnThread *thread, guint visit, const TarnDoor *door);

/* A block for a request of the queue, active; NULL: the lock has to be taken.  How a visit begins
 * is known when this is compiled. */
static inline __attribute__ ((always_inline)) TarnBlock *
_tarn_pool_take (TarnPool *pool, gsize size, gpointer queue, TarnBeginVisit begin)
{
  TarnThread *thread = _tarn_current_thread;
  TarnCache *cache = _tarn_cache_of (thread, pool);
  guint32 number = _tarn_bin_number (size, pool->leading_bits);
  TarnBlock *block = NULL;
  TarnCacheBin *bin;
  guint visit;

  if (TARN_UNLIKELY (cache == NULL))
    return NULL;
  visit = thread->visits + 1;
  if (TARN_UNLIKELY (!begin (thread, visit, &pool->door)))
    return NULL;
  bin = _tarn_cache_get_bin (cache, number);
  if (TARN_LIKELY (bin->number == number && bin->top != NULL && pool->fast_queue == queue))
    block = _tarn_cache_pop (cache, bin, size);
  _tarn_thread_end_visit (thread, visit);
  return block;
}

static inline __attribute__ ((always_inline)) TarnBlock *
_tarn_pool_take_fast (TarnPool *pool, gsize size, gpointer queue)
{
  return _tarn_pool_take (pool, size, queue, _tarn_thread_begin_visit);
}

/* When that was in vain: the same where there must be a fence. */
static inline TarnBlock *
_tarn_pool_take_fenced (TarnPool *pool, gsize size, gpointer queue)
{
  return _tarn_door_needs_fence (&pool->door)
             ? _tarn_pool_take (pool, size, queue, _tarn_thread_begin_fenced_visit)
             : NULL;
}

static inline void
_tarn_cache_push (TarnCacheBin *bin, TarnBlock *block)
{
  block->below = bin->top;
  _tarn_block_set_state (block, TARN_BLOCK_HELD);
  _tarn_cache_bin_set (bin, block, bin->length + 1U);
}

/* Whether the block is held now; FALSE: the lock has to be taken. */
static inline __attribute__ ((always_inline)) gboolean
_tarn_pool_put (TarnPool *pool, TarnBlock *block, TarnBeginVisit begin)
{
  TarnThread *thread = _tarn_current_thread;
  TarnCache *cache = _tarn_cache_of (thread, pool);
  gboolean is_held = FALSE;
  TarnCacheBin *bin;
  guint visit;

  if (TARN_UNLIKELY (cache == NULL))
    return FALSE;
  visit = thread->visits + 1;
  if (TARN_UNLIKELY (!begin (thread, visit, &pool->door)))
    return FALSE;
  bin = _tarn_cache_get_bin (cache, block->bin);
  if (TARN_LIKELY (block->state == TARN_BLOCK_ACTIVE && !block->exact
                   && block->n_uses == pool->n_fast_uses && bin->number == block->bin
                   && bin->length < bin->capacity))
    {
      __atomic_store_n (&cache->active_bytes, cache->active_bytes - block->size, __ATOMIC_RELAXED);
      _tarn_cache_push (bin, block);
      is_held = TRUE;
    }
  _tarn_thread_end_visit (thread, visit);
  return is_held;
}

static inline __attribute__ ((always_inline)) gboolean
_tarn_pool_put_fast (TarnPool *pool, TarnBlock *block)
{
  return _tarn_pool_put (pool, block, _tarn_thread_begin_visit);
}

static inline gboolean
_tarn_pool_put_fenced (TarnPool *pool, TarnBlock *block)
{
  return _tarn_door_needs_fence (&pool->door)
         && _tarn_pool_put (pool, block, _tarn_thread_begin_fenced_visit);
}

#endif
