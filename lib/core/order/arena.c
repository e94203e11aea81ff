/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Meeting the arenas of queues, from which threads then take memory without a lock (pool/arenas.c).
 */

#include "order/order-private.h"
#include "pool/cache-private.h"

/* Adds an arena to this thread's cache, in place of one that it has not used last.  The lock is
 * held.
 */
static void
add_arena (TarnPool *pool, TarnCache *cache, gpointer handle, const TarnArenaRef *ref)
{
  TarnQueue *queue = handle != NULL ? _tarn_pool_find_queue (pool, handle) : NULL;
  gboolean was_open;
  guint i = 0;

  if (!pool->has_arenas || (handle != NULL && (queue == NULL || !queue->in_order)))
    {
      if (queue != NULL)
        _tarn_queue_unref (pool, queue);
      return;
    }
  while (i < TARN_CACHE_ARENAS && cache->arenas[i].ref.arena != NULL)
    i++;
  if (i == TARN_CACHE_ARENAS)
    i = (cache->latest_arena + 1) % TARN_CACHE_ARENAS;
  was_open = _tarn_pool_close (pool);
  _tarn_cache_drop_arena (cache, &cache->arenas[i]);
  if (queue != NULL)
    queue->owner = ref->number;
  cache->arenas[i] = (TarnCacheArena){ handle, queue, *ref, NULL };
  cache->latest_arena = i;
  _tarn_pool_open (pool, was_open);
}

/* Makes a block that its queue alone has used (@handle NULL: nobody) its arena's own, so that it
 * goes back there, and need not be held.  It is in use by this thread.  The lock is held. */
static void
adopt (TarnPool *pool, TarnCache *cache, const TarnCacheArena *arena, TarnBlock *block)
{
  TarnExtent *extent;

  if (block->is_own || block->exact || block->share != arena->handle || block->n_uses > 1
      || (block->n_uses == 1 && !_tarn_pool_can_go_at_once (pool, block)))
    return;
  extent = _tarn_arena_adopt (&arena->ref, block->memory);
  if (extent == NULL)
    return;
  _tarn_block_clear_uses (pool, block);
  g_free (block->uses);
  block->is_own = TRUE;
  block->extent = extent;
  block->share = arena->handle;
  cache->latest_own = block;
}

/* Tells whether a thread can go on with what it has met.  The lock is held. */
static gboolean
has_met (TarnCache *cache, gpointer handle)
{
  const TarnCacheArena *arena = _tarn_cache_find_arena (cache, handle);

  return arena != NULL && cache->spare != NULL && _tarn_arena_is_met (&arena->ref);
}

/* Has this thread know the arena of a queue (NULL: of nobody) that the pool has served a request
 * of, with a block. */
void
_tarn_pool_meet_arena (TarnPool *pool, gpointer handle, TarnBlock *block)
{
  TarnCache *cache = _tarn_cache_of (_tarn_current_thread, pool);
  TarnCacheArena *known;
  TarnArenaRef ref;
  gboolean is_known;

  if (cache == NULL || !__atomic_load_n (&pool->has_arenas, __ATOMIC_RELAXED))
    return;
  _tarn_mutex_lock (&pool->lock);
  is_known = has_met (cache, handle);
  if (is_known)
    {
      adopt (pool, cache, _tarn_cache_find_arena (cache, handle), block);
      _tarn_cache_grant (cache);
    }
  _tarn_mutex_unlock (&pool->lock);
  if (is_known || !_tarn_heap_meet_arena (pool->upstream, handle, &ref, NULL))
    return;
  _tarn_mutex_lock (&pool->lock);
  known = _tarn_cache_find_arena (cache, handle);
  if (known != NULL && known->ref.number != ref.number)
    _tarn_pool_drop_arena (pool, handle);
  if (_tarn_cache_find_arena (cache, handle) == NULL)
    add_arena (pool, cache, handle, &ref);
  known = _tarn_cache_find_arena (cache, handle);
  if (known != NULL)
    adopt (pool, cache, known, block);
  _tarn_cache_refill_spare (cache);
  _tarn_cache_grant (cache);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_pool_unlock_and_sweep (pool);
}

/* Has this thread use another arena of a queue than the one that it has met. */
void
_tarn_pool_change_arena (TarnPool *pool, gpointer handle, const TarnArenaRef *ref)
{
  TarnCache *cache = _tarn_cache_of (_tarn_current_thread, pool);
  TarnCacheArena *known;

  if (cache == NULL)
    return;
  _tarn_mutex_lock (&pool->lock);
  known = _tarn_cache_find_arena (cache, handle);
  if (known != NULL && known->ref.number == ref->number)
    known->ref.arena = ref->arena;
  _tarn_mutex_unlock (&pool->lock);
}
