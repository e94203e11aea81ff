/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Blocks out of and into a pool's bins and threads' caches.  The lock is held in all of this. */

#include "pool/cache-private.h"

/* Makes a thread's cache keep a block whose use has ended. */
static gboolean
keep (const TarnPool *pool, TarnCache *cache, TarnBlock *block)
{
  gboolean is_temporary = _tarn_cache_note_free (cache, block);

  if (block->share == TARN_NO_SHARE)
    return FALSE;
  return (is_temporary || block->alloc_size <= pool->policy.max_kept)
         && _tarn_cache_keep (cache, block);
}

/* Returns TRUE if a block that is being freed should go back at once: it can, and is larger than
 * what the pool may hold.  If the pool kept it, all other held blocks would have to go for it. */
static gboolean
is_too_large (const TarnPool *pool, const TarnBlock *block)
{
  if (block->share == TARN_NO_SHARE)
    return FALSE;
  return block->alloc_size > pool->policy.max_held
         || ((block->share == NULL || pool->store.share_ages == &pool->store.ready)
             && block->alloc_size > _tarn_pool_get_room (pool));
}

/* Holds a block whose use has ended: in the thread's cache, if it has one (else NULL) and the block
 * is for it, or in the pool's bin.  Returns FALSE if the block is better given back, which needs no
 * wait. */
static gboolean
hold (TarnPool *pool, TarnCache *cache, TarnBlock *block)
{
  _tarn_assert_locked (&pool->lock);
  if (pool->store.has_ended || block->exact)
    return FALSE;
  if (cache != NULL && keep (pool, cache, block))
    return TRUE;
  _tarn_pool_settle (pool, block);
  if (is_too_large (pool, block))
    return FALSE;
  _tarn_block_set_state (block, TARN_BLOCK_HELD);
  _tarn_pool_put_block (pool, block);
  return TRUE;
}

/* Takes a block of the cache's, whatever its last request was. */
static TarnBlock *
pop_hit (TarnCache *cache, TarnCacheBin *bin, gsize size)
{
  TarnBlock *block = _tarn_cache_pop (cache, bin, size);

  block->is_hit = TRUE;
  block->called_driver = FALSE;
  return block;
}

/* Takes a block of a queue's share (NULL: nobody's) for a request of a thread whose cache (NULL: it
 * has none) could not serve it, or was not asked: from that cache, from what was handed over, from
 * the bins, from caches that are abandoned or idle.  Returns NULL if there is none. */
TarnBlock *
_tarn_pool_take_from_share (TarnPool *pool, TarnCache *cache, const TarnQueue *queue,
                            guint32 number, gsize size)
{
  gpointer handle = queue != NULL ? queue->handle : NULL;
  TarnCacheBin *own;

  _tarn_assert_locked (&pool->lock);
  _tarn_pool_count_own (pool);
  if (_tarn_door_is_closed (&pool->door))
    return _tarn_pool_take_top (pool, _tarn_pool_get_share (pool, queue), number, size);
  own = cache != NULL ? _tarn_cache_find_bin (cache, number, handle) : NULL;
  if (own != NULL && own->top != NULL)
    return pop_hit (cache, own, size);
  if (!_tarn_pool_take_from_transfer (pool, number, handle)
      && !_tarn_bins_have (_tarn_pool_get_share (pool, queue), number)
      && !_tarn_pool_take_from_abandoned (pool, number, handle)
      && !_tarn_pool_take_from_idle_threads (pool, number, handle))
    return NULL;
  if (cache != NULL && _tarn_cache_fill (cache, number, handle, _tarn_pool_get_share (pool, queue)))
    return pop_hit (cache, _tarn_cache_find_bin (cache, number, handle), size);
  return _tarn_pool_take_top (pool, _tarn_pool_get_share (pool, queue), number, size);
}

/* Ends the use of a block that is being freed: it is held, or else retired.  Gets what is retired,
 * as a list for the caller to give back to upstream: the block with what is stuck, or what is held
 * beyond what the pool may hold.  Returns NULL if there is nothing.  @cache is this thread's.
 * Returns NULL if the pool's bin is to have the block. */
TarnBlock *
_tarn_pool_end_use (TarnPool *pool, TarnCache *cache, TarnBlock *block)
{
  _tarn_assert_locked (&pool->lock);
  g_assert (block->source == &pool->base);
  if (_tarn_door_is_closed (&pool->door))
    cache = NULL;
  _tarn_pool_count_own (pool);
  pool->stats.active_bytes -= block->size;
  block->is_handed_on = FALSE;
  _tarn_block_update_share (block);
  if (hold (pool, cache, block))
    {
      _tarn_pool_note_room (pool);
      return _tarn_pool_take_excess (pool);
    }
  _tarn_pool_settle (pool, block);
  _tarn_pool_retire (pool, block);
  block->below = pool->store.has_ended || block->exact ? _tarn_pool_take_stuck (pool)
                                                       : _tarn_pool_take_excess (pool);
  return block;
}
