/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Blocks out of and into a pool's bins and threads' caches.  The lock is held in all of this. */

#include "pool/cache-private.h"

/* Holds a block whose use has ended: in the thread's cache, if it has one (else NULL) and the block
 * is for it, or in the pool's bin. */
static void
hold (TarnPool *pool, TarnCache *cache, TarnBlock *block)
{
  _tarn_assert_locked (&pool->lock);
  if (cache != NULL && _tarn_cache_keep (cache, block))
    return;
  _tarn_block_set_state (block, TARN_BLOCK_HELD);
  _tarn_pool_put_block (pool, block);
}

/* Takes a block for a request of a thread whose cache (NULL: it has none) could not serve it, or
 * was not asked: from the bins, from caches that are abandoned or idle. NULL: upstream has to be
 * asked. */
TarnBlock *
_tarn_pool_take_shared (TarnPool *pool, TarnCache *cache, guint32 number, gsize size)
{
  TarnCacheBin *own;

  _tarn_assert_locked (&pool->lock);
  if (_tarn_door_is_closed (&pool->door))
    return _tarn_pool_take_held (pool, number, size);
  _tarn_pool_count_own (pool);
  own = cache != NULL ? _tarn_cache_get_bin (cache, number) : NULL;
  if (own != NULL && own->number == number && own->top != NULL)
    return _tarn_cache_pop (cache, own, size);
  if (_tarn_pool_is_empty (pool, number) && !_tarn_pool_take_from_abandoned (pool, number)
      && !_tarn_pool_take_from_idle (pool, number))
    return NULL;
  if (own != NULL && _tarn_cache_fill (cache, number))
    return _tarn_cache_pop (cache, own, size);
  return _tarn_pool_take_held (pool, number, size);
}

/* Ends the use of a block that is being freed: it is held, or else retired, and then TRUE: the
 * caller gives it back to upstream.  @cache is this thread's; NULL: the pool's bin is to have the
 * block. */
gboolean
_tarn_pool_end_use (TarnPool *pool, TarnCache *cache, TarnBlock *block)
{
  _tarn_assert_locked (&pool->lock);
  g_assert (block->source == &pool->base);
  if (_tarn_door_is_closed (&pool->door))
    cache = NULL;
  _tarn_pool_count_own (pool);
  pool->stats.active_bytes -= block->size;
  if (!pool->stop_holding && !block->exact)
    {
      hold (pool, cache, block);
      return FALSE;
    }
  _tarn_pool_retire (pool, block);
  block->below = NULL;
  return TRUE;
}
