/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Supplies threads with what they need to make blocks without the pool's lock (arenas.c): unused
 * block structs; and, if the pool has a limit, a grant.  A grant is a number of bytes that the
 * thread may allocate before it has to take the lock again. */

#include "pool/arenas-private.h"

/* A thread's grant (the bytes that it may allocate without the pool's lock) has at most MAX_GRANT
 * bytes, or the pool's limit divided by GRANT_SHARE if that is less. */
#define GRANT_SHARE 64
#define MAX_GRANT ((gsize) 64 << 20)

/* The least number of unused block structs that a thread's cache has after the pool has refilled
 * it. */
#define N_SPARE 32

/* Functions for unused block structs.  The caller holds the pool's lock.  If @cache is not the
 * calling thread's, the caller has also stopped the pool's read sections. */

/* Returns unused block structs from a cache to the pool's chunks, until the cache has only @n_kept
 * of them. */
void
_tarn_cache_give_spare (TarnCache *cache, guint n_kept)
{
  while (cache->n_spare > n_kept)
    {
      TarnBlock *block = cache->spare;

      cache->spare = block->below;
      cache->n_spare--;
      block->uses = NULL;
      block->state = TARN_BLOCK_RETIRED;
      _tarn_block_chunks_put (&cache->pool->blocks.chunks, block);
    }
}

/* Adds or removes unused block structs, so that a cache has at least N_SPARE and at most
 * TARN_MAX_SPARE / 2 of them. */
void
_tarn_cache_refill_spare (TarnCache *cache)
{
  _tarn_assert_locked (&cache->pool->lock);
  _tarn_cache_give_spare (cache, TARN_MAX_SPARE / 2);
  while (cache->n_spare < N_SPARE)
    {
      TarnBlock *block = _tarn_block_chunks_take (&cache->pool->blocks.chunks, &cache->chunk);

      block->below = cache->spare;
      cache->spare = block;
      cache->n_spare++;
    }
}

/* Functions for the size classes of bins.  The caller holds the pool's lock. */

/* If a pool has a limit of fewer than MIN_SHARING_LIMIT bytes, each size has its own bin.  If sizes
 * shared bins, small blocks in thread caches would keep too large a share of the memory from larger
 * requests. */
#define MIN_SHARING_LIMIT ((gsize) 128 << 20)

/* Chooses the size classes of a pool's bins, for a limit of @limit_bytes bytes (0: no limit).
 * Returns a value of leading_bits (bin-private.h), which has an effect only if threads use arenas.
 *
 * With a limit, the pool must not waste memory.  So a size shares a bin only with sizes for which
 * the heap takes equally many bytes.  Even these sizes have their own bins in two cases:
 * - The limit is low (MIN_SHARING_LIMIT).
 * - The heap does not have the same limit.  Then the pool's limit counts the sizes of blocks, and a
 *   block of a shared bin would count as larger than the request. */
guint
_tarn_pool_choose_bins (const TarnPool *pool, gsize limit_bytes)
{
  if (limit_bytes == 0)
    return TARN_HEAP_BINS;
  return limit_bytes >= MIN_SHARING_LIMIT && pool->heap != NULL
                 && _tarn_heap_follows_pool (pool->heap)
                 && _tarn_heap_get_alignment (pool->heap) >= 512
             ? TARN_HEAP_ALIGNED_BINS
             : TARN_HEAP_EXACT_BINS;
}

/* Sets the size classes of a pool's bins, if its threads allocate from arenas of the heap. */
void
_tarn_pool_set_bins (TarnPool *pool, guint leading_bits)
{
  _tarn_assert_locked (&pool->lock);
  if (pool->has_arenas)
    __atomic_store_n (&pool->leading_bits, leading_bits, __ATOMIC_RELAXED);
}

/* Records that memory has run out: from now on, each size has its own bin. */
void
_tarn_pool_note_short (TarnPool *pool)
{
  _tarn_assert_locked (&pool->lock);
  pool->store.short_at = _tarn_clock_now ();
  _tarn_pool_set_bins (pool, TARN_HEAP_EXACT_BINS);
}

/* Lets sizes share bins again, if memory has not run out for TARN_SHORT_TIME. */
void
_tarn_pool_forget_short (TarnPool *pool, gint64 now)
{
  if (now - pool->store.short_at >= TARN_SHORT_TIME)
    _tarn_pool_set_bins (pool, _tarn_pool_choose_bins (pool, pool->limit.bytes));
}

/* Functions for grants: a grant is the number of bytes that a thread may allocate without the
 * pool's lock.  The caller holds the pool's lock. */

/* Ends the grants of all threads.  The threads have to take the pool's lock to get new grants.
 * Until then, a thread may not even allocate the bytes that it frees, because the pool may be above
 * a limit that was lowered. */
void
_tarn_pool_end_grants (TarnPool *pool)
{
  gboolean was_open;

  if (!pool->has_arenas)
    return;
  was_open = _tarn_pool_close (pool);
  for (TarnCache *cache = pool->caches.first; cache != NULL; cache = cache->next)
    cache->granted_bytes = TARN_NO_GRANT;
  _tarn_pool_open (pool, was_open);
}

/* Gives the cache's thread a new grant: at most half of the bytes that are left below the pool's
 * limit.  The thread may then allocate these bytes without the pool's lock.  Does nothing if the
 * pool has no limit or no arenas, if the thread's grant is still large, or if read sections are
 * stopped, for example because a request waits for memory.  If the pool is above its limit, the
 * thread gets no grant. */
void
_tarn_cache_grant (TarnCache *cache)
{
  const TarnPool *pool = cache->pool;
  gssize managed = (gssize) cache->managed_bytes;
  gsize most = MIN (pool->limit.bytes / GRANT_SHARE, MAX_GRANT), committed, left;

  if (!pool->has_arenas || pool->limit.bytes == 0 || _tarn_door_is_closed (&pool->door)
      || (cache->granted_bytes != TARN_NO_GRANT && cache->granted_bytes - managed >= (gssize) most))
    return;
  cache->granted_bytes = TARN_NO_GRANT;
  committed = _tarn_pool_get_committed (pool) + pool->limit.reserved_bytes + pool->returning.bytes;
  if (committed > pool->limit.bytes)
    return;
  left = pool->limit.bytes - committed;
  cache->granted_bytes = managed + (gssize) MIN (most, left / 2);
}

/* A function for a thread that does not hold the pool's lock */

/* Gets unused block structs for a thread that has none left, or returns some to the pool if the
 * thread has too many.  A thread whose blocks are freed by other threads often runs out of
 * structs.  The thread is not in a read section. */
void
_tarn_cache_change_spare (TarnCache *cache)
{
  _tarn_mutex_lock (&cache->pool->lock);
  _tarn_cache_refill_spare (cache);
  _tarn_mutex_unlock (&cache->pool->lock);
}
