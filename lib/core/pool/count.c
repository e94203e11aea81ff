/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Adds up the counters of a pool and its thread caches.  The public counters are the sums at one
 * moment.  To get these sums, the pool stops its read sections, so that no thread changes the
 * counters of its cache meanwhile. */

#include "pool/cache-private.h"

/* Returns the new peak of active bytes: the old peak @peak, or the count @active if that is
 * higher.  Ignores a negative count.  (The count is negative if the pool has counted the free of a
 * block, and a thread's cache has not reported yet that it allocated the block.)  As a gsize, a
 * negative count is higher than @managed, the managed bytes.  The function cannot test the sign bit
 * instead, because a pool may have more than half of the bytes that a gsize can count. */
static gsize
max_active (gsize managed, gsize peak, gsize active)
{
  return active > peak && active <= managed ? active : peak;
}

/* Adds up the managed bytes of the pool and all caches.  The sum is exact only if the caller has
 * stopped the pool's read sections.  Otherwise threads may change the counters of their caches
 * meanwhile.  The caller holds the pool's lock. */
gsize
_tarn_pool_get_managed (const TarnPool *pool)
{
  gsize managed = pool->stats.managed_bytes;

  _tarn_assert_locked (&pool->lock);
  if (pool->heap == NULL)
    return managed;
  for (const TarnCache *cache = pool->caches.first; cache != NULL; cache = cache->next)
    managed += __atomic_load_n (&cache->managed_bytes, __ATOMIC_RELAXED);
  return managed;
}

/* Raises the peak of managed bytes to the present number of managed bytes, if that is higher.
 * Computes this number only once, because other threads change it meanwhile.  The caller holds the
 * pool's lock. */
void
_tarn_pool_note_managed_peak (TarnPool *pool)
{
  gsize managed = _tarn_pool_get_managed (pool);

  pool->stats.peak_managed_bytes = MAX (pool->stats.peak_managed_bytes, managed);
}

/* Adds up the bytes that count against the pool's limit: the managed bytes, the charged bytes
 * (which the program allocates without the pool), and the bytes that threads may still allocate
 * without the pool's lock (their grants).  The caller holds the pool's lock. */
gsize
_tarn_pool_get_committed (const TarnPool *pool)
{
  gsize committed = pool->stats.managed_bytes + pool->limit.charged_bytes;

  _tarn_assert_locked (&pool->lock);
  if (pool->limit.bytes == 0)
    return _tarn_pool_get_managed (pool) + pool->limit.charged_bytes;
  for (const TarnCache *cache = pool->caches.first; cache != NULL; cache = cache->next)
    committed += (gsize) MAX (cache->granted_bytes,
                              (gssize) __atomic_load_n (&cache->managed_bytes, __ATOMIC_RELAXED));
  return committed;
}

/* Adds up the active bytes of the pool and all caches.  The sum is exact only if the caller has
 * stopped the pool's read sections.  Otherwise, if one thread frees a block and another allocates
 * it meanwhile, the block may count twice, or not at all.  The caller holds the pool's lock. */
static gsize
sum_active (const TarnPool *pool)
{
  gsize active = pool->stats.active_bytes;

  _tarn_assert_locked (&pool->lock);
  for (const TarnCache *cache = pool->caches.first; cache != NULL; cache = cache->next)
    active += __atomic_load_n (&cache->active_bytes, __ATOMIC_RELAXED);
  return active;
}

/* Raises the pool's peak of active bytes to the present number, if that is higher.  First counts
 * without stopping the read sections.  This count may be wrong, so the function may miss a peak.
 * If the count looks like a new peak, the function stops the read sections and counts again,
 * exactly.  So the peak is never too high.
 *
 * Even the first count takes time, because it reads all caches.  So _tarn_pool_count_own () calls
 * this function only if the pool's own count exceeds noted_bytes, the highest count so far.  The
 * caller holds the pool's lock. */
void
_tarn_pool_note_peak (TarnPool *pool)
{
  TarnPoolStats *stats = &pool->stats;
  gsize peak = stats->peak_active_bytes;
  gsize active = sum_active (pool);
  gboolean was_open = FALSE;

  _tarn_assert_locked (&pool->lock);
  if (max_active (_tarn_pool_get_managed (pool), peak, active) != peak && pool->caches.first != NULL
      && pool->caches.first->next != NULL && (was_open = _tarn_pool_close (pool)))
    active = sum_active (pool);
  stats->peak_active_bytes = max_active (_tarn_pool_get_managed (pool), peak, active);
  pool->noted_bytes
      = max_active (_tarn_pool_get_managed (pool), stats->peak_active_bytes, stats->active_bytes);
  _tarn_pool_open (pool, was_open);
}

/* Adds to *stats the changes that a cache has not reported to the pool yet.  Uses the cache's peak
 * only if the pool has no other cache.  Otherwise it is unknown how many bytes the other caches had
 * at the time of the peak. */
static void
add_active (const TarnCache *cache, TarnPoolStats *stats)
{
  gboolean is_sole = cache->pool->caches.first == cache && cache->next == NULL;

  if (is_sole)
    stats->peak_active_bytes
        = MAX (stats->peak_active_bytes, stats->active_bytes + (gsize) cache->peak);
  stats->active_bytes += cache->active_bytes;
  if (is_sole && cache->managed_peak > 0)
    stats->peak_managed_bytes
        = MAX (stats->peak_managed_bytes, stats->managed_bytes + (gsize) cache->managed_peak);
  stats->managed_bytes += cache->managed_bytes;
}

/* Adds the blocks in the bins of a cache to *stats. */
static void
add_held (const TarnCache *cache, TarnPoolStats *stats)
{
  TARN_FOR_EACH_BIN_WITH_ROOM (i, cache)
  {
    const TarnCacheBin *bin = &cache->bins[i];

    stats->held_blocks += bin->length;
    stats->held_bytes += bin->length * _tarn_cache_get_alloc_size (cache, bin->number);
  }
}

/* Adds to *stats the blocks in TarnCache.kept: large blocks that the thread allocates and frees
 * again and again. */
static void
add_kept (const TarnCache *cache, TarnPoolStats *stats)
{
  for (guint i = 0; i < TARN_CACHE_KEPT; i++)
    if (cache->kept[i] != NULL)
      {
        stats->held_blocks++;
        stats->held_bytes += cache->kept[i]->alloc_size;
      }
}

/* Adds up the counters of the pool and all caches.  The caller holds the pool's lock and has
 * stopped the pool's read sections, or is a child of fork (), which cannot take locks. */
void
_tarn_pool_sum (const TarnPool *pool, TarnPoolStats *stats)
{
  gsize n_blocks = pool->blocks.n;

  *stats = pool->stats;
  for (const TarnCache *cache = pool->caches.first; cache != NULL; cache = cache->next)
    {
      add_active (cache, stats);
      add_held (cache, stats);
      add_kept (cache, stats);
      stats->hits += cache->hits;
      stats->misses += cache->misses;
      n_blocks += cache->n_blocks;
    }
  stats->served_without_driver = stats->hits + stats->misses - pool->n_after_driver_calls;
  _tarn_pool_add_transfers (pool, stats);
  stats->active_blocks = n_blocks - stats->held_blocks;
  stats->peak_active_bytes
      = max_active (stats->managed_bytes, stats->peak_active_bytes, stats->active_bytes);
  if (stats->managed_bytes != pool->stats.managed_bytes)
    stats->peak_managed_bytes = MAX (stats->peak_managed_bytes, stats->managed_bytes);
}

/* Adds the changes that a cache has not reported yet to the pool's counters.  The caller holds the
 * pool's lock.  If the cache is not the calling thread's, the caller has also stopped the pool's
 * read sections. */
void
_tarn_cache_count_active (TarnCache *cache)
{
  TarnPoolStats *stats = &cache->pool->stats;
  gboolean has_managed = cache->managed_bytes != 0;

  _tarn_assert_locked (&cache->pool->lock);
  add_active (cache, stats);
  cache->counted_bytes += cache->active_bytes;
  __atomic_store_n (&cache->active_bytes, 0, __ATOMIC_RELAXED);
  cache->peak = 0;
  if (cache->granted_bytes != TARN_NO_GRANT)
    cache->granted_bytes -= (gssize) cache->managed_bytes;
  __atomic_store_n (&cache->managed_bytes, 0, __ATOMIC_RELAXED);
  cache->managed_peak = 0;
  cache->pool->blocks.n += cache->n_blocks;
  cache->n_blocks = 0;
  if (has_managed)
    _tarn_pool_note_managed_peak (cache->pool);
}

/* Adds the changes that the calling thread's cache has not reported yet to the pool's counters, and
 * updates the peak.  The caller holds the pool's lock.
 *
 * Call this before you change the pool's own active_bytes.  While a pool has only one cache, its
 * peak is the sum of the cache's peak and the pool's own active_bytes.  This is right only if
 * active_bytes does not change between two reports of the cache.
 *
 * A thread that is ending has no cache, but the pool's only cache may be another thread's.  So for
 * a thread without a cache, adds the changes of all caches, if read sections are allowed. */
void
_tarn_pool_count_own (TarnPool *pool)
{
  TarnCache *cache = _tarn_cache_of (_tarn_current_thread, pool);
  TarnPoolStats stats;

  _tarn_assert_locked (&pool->lock);
  if (cache != NULL)
    _tarn_cache_count_active (cache);
  else if (!_tarn_door_is_closed (&pool->door))
    _tarn_pool_count (pool, &stats);
  if (max_active (_tarn_pool_get_managed (pool), pool->noted_bytes, pool->stats.active_bytes)
      != pool->noted_bytes)
    _tarn_pool_note_peak (pool);
}

/* Adds the changes that all caches have not reported yet to the pool's counters, and updates the
 * peak.  The caller holds the pool's lock and has stopped the pool's read sections. */
void
_tarn_pool_count_closed (TarnPool *pool)
{
  _tarn_assert_locked (&pool->lock);
  g_assert (_tarn_door_is_closed (&pool->door));
  for (TarnCache *cache = pool->caches.first; cache != NULL; cache = cache->next)
    _tarn_cache_count_active (cache);
  _tarn_pool_note_peak (pool);
}

/* Gets the counters of the pool and its caches at one moment.  Stops the pool's read sections
 * meanwhile.  The caller holds the pool's lock. */
void
_tarn_pool_count (TarnPool *pool, TarnPoolStats *stats)
{
  gboolean was_open = _tarn_pool_close (pool);

  _tarn_assert_locked (&pool->lock);
  if (was_open)
    _tarn_pool_count_closed (pool);
  _tarn_pool_sum (pool, stats);
  _tarn_pool_open (pool, was_open);
}
