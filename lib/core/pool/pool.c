/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Takes blocks from a pool's bins and thread caches for requests, and puts freed blocks there.  The
 * caller of each function holds the pool's lock. */

#include "pool/cache-private.h"

/* Puts a freed block into @cache, the calling thread's cache.  Returns FALSE if the cache has no
 * room for the block. */
static gboolean
keep (const TarnPool *pool, TarnCache *cache, TarnBlock *block)
{
  gboolean is_temporary = _tarn_cache_note_free (cache, block);

  if (block->share == TARN_NO_SHARE)
    return FALSE;
  return block->alloc_size <= (is_temporary ? pool->policy.max_temporary : pool->policy.max_kept)
         && _tarn_cache_keep (cache, block);
}

/* Returns TRUE if a freed block is too large to be cached, so that the pool should return it to
 * upstream at once.  The block is too large if it is larger than policy.max_held, or if it alone
 * would exceed the most bytes that the pool's bins may hold.  Returns FALSE if the pool would have
 * to wait for commands before it could return the block: then a bin may have the block in spite of
 * its size. */
static gboolean
is_too_large (const TarnPool *pool, const TarnBlock *block)
{
  if (block->share == TARN_NO_SHARE)
    return FALSE;
  return block->alloc_size > pool->policy.max_held
         || ((block->share == NULL || pool->store.share_ages == &pool->store.ready)
             && block->alloc_size > _tarn_pool_get_room (pool));
}

/* Caches ("holds") a freed block.  Puts it into the thread's cache @cache if that is not NULL and
 * has room.  Otherwise puts it into the pool's bin.  Returns FALSE if the caller should return the
 * block to upstream. */
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

/* Serves a request with the topmost block of a bin of a thread cache.  Stores in the block that the
 * request was a hit and needed no driver call. */
static TarnBlock *
pop_hit (TarnCache *cache, TarnCacheBin *bin, gsize size)
{
  TarnBlock *block = _tarn_cache_pop (cache, bin, size);

  block->is_hit = TRUE;
  block->called_driver = FALSE;
  return block;
}

/* Finds a cached block for a request that the thread's cache could not serve without the pool's
 * lock.  Takes only blocks that no queue except @queue has used.  If @queue is NULL, takes only
 * blocks that no queue uses.  Looks again in @cache (the thread's cache, or NULL if the thread has
 * none), then in transfer bins (for blocks that threads hand over), in the pool's bins, and in the
 * caches of threads that have ended or are idle.  Returns NULL if there is no such block. */
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

/* Takes a freed block out of use: caches it in @cache or in the pool's bin, or takes it out of the
 * pool.  @cache is the calling thread's cache, or NULL if only the pool's bin may get the block.
 * Returns a list of blocks whose memory the caller has to return to upstream, or NULL.  The list
 * has the freed block, if it was not cached, and cached blocks that the pool may not hold any
 * longer. */
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
