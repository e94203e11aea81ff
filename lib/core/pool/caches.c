/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The list of a pool's thread caches: how caches begin and end, and the pool's door.  While the
 * door is closed, no thread is in a read section, so none uses its cache without the pool's lock.
 * TarnCaches (pool-private.h) has the invariants. */

#include "pool/arenas-private.h"

#include <stdlib.h>

#include "base/fork-private.h"
#include "record/record-private.h"

/* The factors by which a hash of a bin's number gives the index of its home slot in a cache.  With
 * few leading bits, the low bits of the number differ between sizes that programs often use.  With
 * more, and over a heap, each size has a bin of its own, and the low bits are mostly equal (0 for a
 * power of two).  Then the factor has to mix all bits: 2^32 divided by the golden ratio. */
#define COARSE_SPREAD (1U << TARN_SPREAD_SHIFT)
#define FINE_SPREAD 0x9e3779b1U

/* The most leading bits with which each bin of sizes below 4 GiB has a home slot of its own.  For
 * example, 4 leading bits make 16 bins for each of 32 powers of two: 512 bins. */
#define MOST_COARSE_BITS (TARN_CACHE_HOME_BITS - 5)

/* Frees a cache whose thread has ended.  Moves its blocks and counts to the pool.  At least two
 * other caches must remain: the peak of a pool's only cache counts as the pool's, and would not
 * include the bytes that this cache had.  The caller holds the lock. */
static void
cache_free (TarnCache *cache)
{
  TarnPool *pool = cache->pool;

  _tarn_assert_locked (&pool->lock);
  g_assert (pool->caches.n_abandoned > 1 && !cache->is_abandoned);
  _tarn_cache_empty (cache);
  _tarn_cache_give_spare (cache, 0);
  _tarn_cache_count_active (cache);
  _tarn_cache_give_up_unused_room (cache);
  pool->caches.n--;
  pool->stats.hits += cache->hits;
  pool->stats.misses += cache->misses;
  _tarn_block_chunks_leave (&pool->blocks.chunks, cache->chunk);
  *cache->link = cache->next;
  if (cache->next != NULL)
    cache->next->link = cache->link;
  free (cache);
}

/* Abandons a cache whose thread has ended, so that any thread with the lock can use the cache.
 * Frees the cache instead if the pool already has TARN_MAX_ABANDONED abandoned ones. */
static void
abandon (gpointer item)
{
  TarnCache *cache = item;
  TarnPool *pool = cache->pool;

  _tarn_mutex_lock (&pool->lock);
  _tarn_cache_return_all_kept (cache);
  if (pool->caches.n_abandoned < TARN_MAX_ABANDONED)
    {
      cache->is_abandoned = TRUE;
      pool->caches.n_abandoned++;
    }
  else
    cache_free (cache);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);
}

/* Opens the door to the read sections that are allowed now: usually to all, but only to traced ones
 * while blocks are traced.  If the index has blocks in use, or another pool may serve the requests
 * (redirect), opens it to fenced read sections only.  Then requests take a slower path, which adds
 * their blocks to the index, or asks the other pool. */
void
_tarn_pool_open_door (TarnPool *pool)
{
  if (_tarn_follows ())
    _tarn_door_open_followed (&pool->door);
  else if (pool->policy.is_findable || pool->redirect != NULL)
    _tarn_door_open_watched (&pool->door);
  else
    _tarn_door_open (&pool->door);
}

/* Opens the door of a new pool, unless its threads have no caches. */
void
_tarn_pool_init_caches (TarnPool *pool)
{
  pool->door = TARN_DOOR_CLOSED;
  if (_tarn_forked ())
    return;
  pool->slot = _tarn_threads_take_slot (abandon);
  pool->policy.spread = pool->leading_bits > MOST_COARSE_BITS ? FINE_SPREAD : COARSE_SPREAD;
  _tarn_pool_init_transfers (pool);
  if (pool->policy.thread_cache_blocks > 0 && pool->policy.thread_cache_bytes > 0)
    _tarn_pool_open_door (pool);
}

/* Moves all blocks from all caches to the pool, and sets the caches' capacity to 0.  The caller
 * adds a cache, so each cache gets a smaller part of the pool's bound.  The caller holds the
 * lock. */
static void
share_anew (TarnPool *pool)
{
  gboolean was_open = _tarn_pool_close (pool);

  for (TarnCache *cache = pool->caches.first; cache != NULL; cache = cache->next)
    _tarn_cache_empty (cache);
  _tarn_pool_open (pool, was_open);
}

/* Makes a cache of the pool for the calling thread.  The caller holds the lock. */
static TarnCache *
cache_new (TarnPool *pool)
{
  TarnCache *cache = _tarn_aligned_new0 (TarnCache);
  TarnPoolStats stats;

  _tarn_assert_locked (&pool->lock);
  cache->seen_hits = G_MAXUINT64;
  cache->pool = pool;
  cache->spread = pool->policy.spread;
  /* The peak of the only cache is the pool's, so count it before a second cache is added. */
  if (pool->caches.first != NULL && pool->caches.first->next == NULL)
    _tarn_pool_count (pool, &stats);
  cache->next = pool->caches.first;
  cache->link = &pool->caches.first;
  if (cache->next != NULL)
    cache->next->link = &cache->next;
  pool->caches.first = cache;
  pool->caches.n++;
  if (_tarn_pool_counts_room (pool) && cache->next != NULL)
    share_anew (pool);
  return cache;
}

/* Takes over an abandoned cache, with its blocks, for the calling thread.  Returns NULL if there is
 * none.  The caller holds the lock. */
static TarnCache *
take_over (TarnPool *pool)
{
  TarnCache *cache = pool->caches.first;

  _tarn_assert_locked (&pool->lock);
  if (pool->caches.n_abandoned == 0)
    return NULL;
  while (!cache->is_abandoned)
    cache = cache->next;
  cache->is_abandoned = FALSE;
  cache->seen_hits = G_MAXUINT64;
  pool->caches.n_abandoned--;
  return cache;
}

/* Takes the lock, and gets the calling thread's cache.  Makes a cache if the thread has none.
 * Returns NULL if the thread has no cache and the door is closed, or if the thread is ending.  To
 * add a cache to the thread, releases the lock for a moment, because a thread must take the lock of
 * the list of threads before the pool's.  Another thread may close the door for good in that
 * moment, so the caller has to check the door. */
TarnCache *
_tarn_pool_lock (TarnPool *pool)
{
  TarnCache *cache = _tarn_cache_of (_tarn_current_thread, pool);

  _tarn_mutex_lock_adaptively (&pool->lock);
  if (cache != NULL || _tarn_door_is_closed (&pool->door)
      || _tarn_current_thread == &_tarn_ended_thread)
    return cache;
  cache = take_over (pool);
  if (cache == NULL)
    cache = cache_new (pool);
  _tarn_mutex_unlock (&pool->lock);
  _tarn_thread_set_item (_tarn_thread_self (), pool->slot, cache);
  _tarn_mutex_lock (&pool->lock);
  return cache;
}

/* Frees all caches of a pool that ends.  The caller makes sure that no thread calls the pool any
 * more, and that all blocks are gone. */
void
_tarn_pool_free_caches (TarnPool *pool)
{
  TarnCache *cache;

  _tarn_threads_give_slot (pool->slot);
  while ((cache = pool->caches.first) != NULL)
    {
      pool->caches.first = cache->next;
      _tarn_cache_give_spare (cache, 0);
      free (cache);
    }
}

/* The door */

/* Closes the door to read sections, and waits until no thread is in one.  Returns TRUE if the door
 * was open; then the caller must call _tarn_pool_open () later.  The caller holds the lock. */
gboolean
_tarn_pool_close (TarnPool *pool)
{
  _tarn_assert_locked (&pool->lock);
  if (_tarn_door_is_closed (&pool->door))
    return FALSE;
  _tarn_door_close (&pool->door);
  return TRUE;
}

/* Opens the door again if @was_open is TRUE, unless the pool has stopped holding blocks since.  The
 * caller holds the lock. */
void
_tarn_pool_open (TarnPool *pool, gboolean was_open)
{
  _tarn_assert_locked (&pool->lock);
  if (was_open && !pool->store.has_ended)
    _tarn_pool_open_door (pool);
}
