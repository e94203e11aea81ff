/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The list of a pool's thread caches: how the pool makes, hands over and frees caches, and how it
 * stops read sections.  While read sections are stopped, no thread is in a read section, so no
 * thread uses its cache without the pool's lock.  A pool's "door", in the code, tells whether read
 * sections are stopped (closed) or allowed (open).  TarnCaches (pool-private.h) has the
 * invariants. */

#include "pool/arenas-private.h"

#include <stdlib.h>

#include "base/fork-private.h"
#include "record/record-private.h"

/* Frees a cache whose thread has ended, after moving the cache's blocks and counts to the pool.
 * The pool must have at least two other caches.  The reason: in a pool with only one cache, the
 * peak of this cache counts as the peak of the pool (count.c).  If only one other cache were left,
 * its peak would lack the bytes of the freed cache.  The caller holds the pool's lock. */
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

/* Marks a cache as abandoned, because its thread has ended.  Any thread that holds the pool's lock
 * can then use the cache.  But if the pool already has TARN_MAX_ABANDONED abandoned caches, frees
 * the cache instead. */
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

/* Allows read sections of the pool, depending on the pool's state:
 * - While blocks are traced, allows only traced read sections.
 * - If the index must contain all blocks in use, or if another pool may serve the requests
 *   (redirect), allows only fenced read sections, in which the reader itself executes a memory
 *   fence.  Then requests take a slower path, which adds their blocks to the index, or asks the
 *   program's redirect function which pool serves the request.
 * - Otherwise allows all read sections. */
void
_tarn_pool_open_door (TarnPool *pool)
{
  if (_tarn_follows ())
    _tarn_door_open_as (&pool->door, TARN_DOOR_OPEN_FOLLOWED);
  else if (pool->policy.is_findable || pool->redirect != NULL)
    _tarn_door_open_as (&pool->door, TARN_DOOR_OPEN_WATCHED);
  else
    _tarn_door_open (&pool->door);
}

/* Prepares a new pool for thread caches.  Allows read sections if the pool's options give threads
 * caches. */
void
_tarn_pool_init_caches (TarnPool *pool)
{
  pool->door = TARN_DOOR_CLOSED;
  if (_tarn_forked ())
    return;
  pool->slot = _tarn_threads_take_slot (abandon);
  _tarn_pool_init_transfers (pool);
  if (pool->policy.thread_cache_blocks > 0 && pool->policy.thread_cache_bytes > 0)
    _tarn_pool_open_door (pool);
}

/* Moves the blocks of all caches to the pool's bins, and sets the capacity of the caches' bins to
 * 0.  The caller has added a cache, so that each cache now gets a smaller part of the pool's bound
 * on held bytes.  The caller holds the pool's lock. */
static void
share_anew (TarnPool *pool)
{
  gboolean was_open = _tarn_pool_close (pool);

  for (TarnCache *cache = pool->caches.first; cache != NULL; cache = cache->next)
    _tarn_cache_empty (cache);
  _tarn_pool_open (pool, was_open);
}

/* Makes a cache of the pool for the calling thread.  The caller holds the pool's lock. */
static TarnCache *
cache_new (TarnPool *pool)
{
  TarnCache *cache = _tarn_aligned_new0 (TarnCache);
  TarnPoolStats stats;

  _tarn_assert_locked (&pool->lock);
  cache->seen_hits = G_MAXUINT64;
  cache->pool = pool;
  cache->granted_bytes = TARN_NO_GRANT;
  /* While the pool has only one cache, the peak of this cache is the peak of the pool.  So the pool
   * counts the peak before it adds a second cache. */
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

/* Takes over an abandoned cache, whose thread has ended, for the calling thread.  The blocks stay
 * in the cache.  Returns NULL if there is no abandoned cache.  The caller holds the pool's lock. */
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

/* Takes the pool's lock, and gets the calling thread's cache.  Makes a cache if the thread has
 * none.  Returns NULL if the thread has no cache and read sections are stopped, or if the thread is
 * ending.
 *
 * To add a cache to the thread, the function releases the lock for a moment, because a thread must
 * take the lock of the list of threads before the pool's lock.  In that moment another thread may
 * stop read sections and leave them stopped.  So the caller has to check whether they are stopped,
 * even if it gets a cache. */
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

/* Frees all caches of a pool that is being destroyed.  The caller makes sure that no thread calls
 * the pool any more, and that the caches have no blocks. */
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

/* Functions that stop read sections, and allow them again */

/* Stops the pool's read sections: from now on no thread can enter one, and the function waits until
 * no thread is in one.  Returns TRUE if read sections were allowed until this call.  In this case,
 * the caller must call _tarn_pool_open () later.  The caller holds the pool's lock. */
gboolean
_tarn_pool_close (TarnPool *pool)
{
  _tarn_assert_locked (&pool->lock);
  if (_tarn_door_is_closed (&pool->door))
    return FALSE;
  _tarn_door_close (&pool->door);
  return TRUE;
}

/* Allows the pool's read sections again, after _tarn_pool_close () has returned @was_open.  Does
 * nothing if @was_open is FALSE, or if the pool has stopped holding blocks.  The caller holds the
 * pool's lock. */
void
_tarn_pool_open (TarnPool *pool, gboolean was_open)
{
  _tarn_assert_locked (&pool->lock);
  if (was_open && !pool->store.has_ended)
    _tarn_pool_open_door (pool);
}
