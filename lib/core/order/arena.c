/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Adds the arenas of a queue to the pool's table of arenas.  An arena is a set of ranges of a
 * heap's memory for one queue.  Threads look up an arena in the table, and allocate from it without
 * a lock (pool/arenas.c).
 *
 * In some arenas each block has a part: a handle that upstream makes for a range of a segment, such
 * as an OpenCL sub-buffer.  This file also frees the blocks of such arenas.  A thread releases a
 * part by a call to upstream.  The thread must not make such a call in a read section, in which it
 * uses its cache and the arenas without a lock.  So the thread ends its read section, releases the
 * part, and then returns the memory to the arena in a second read section. */

#include "order/order-private.h"
#include "pool/cache-private.h"
#include "upstream/upstream-private.h"

/* Adds the arenas of a queue to the pool's table of arenas.  If @handle is NULL, adds the arenas
 * for requests without a queue.  If the pool uses no arenas, or knows no in-order queue @handle,
 * adds none, and removes the arenas that the table has for @handle. */
static void
add_met (TarnPool *pool, gpointer handle, const TarnArenaRef *ref)
{
  TarnQueue *queue = handle != NULL ? _tarn_pool_find_queue (pool, handle) : NULL;

  if (!pool->has_arenas || (handle != NULL && (queue == NULL || !queue->in_order)))
    {
      if (queue != NULL)
        _tarn_queue_unref (pool, queue);
      _tarn_pool_drop_met (pool, handle);
      return;
    }
  if (queue != NULL)
    queue->owner = ref->number;
  _tarn_pool_add_met (pool, handle, queue, ref);
}

/* Assigns a block to the arena of the block's queue.  From then on, a free puts the block into the
 * thread's cache or back into the arena, and not into a bin of the pool.  Does nothing if another
 * queue may still use the block.  The caller has just allocated the block for a request, so no
 * other thread uses the block. */
static void
adopt (TarnPool *pool, TarnCache *cache, const TarnMetQueue *met, TarnBlock *block)
{
  TarnExtent *extent;

  if (block->is_own || block->exact || block->share != met->handle || block->n_uses > 1
      || (block->n_uses == 1 && !_tarn_pool_can_go_at_once (pool, block)))
    return;
  extent = _tarn_arena_adopt (&met->ref, block->memory);
  if (extent == NULL)
    return;
  _tarn_block_clear_uses (pool, block);
  g_free (block->uses);
  block->is_own = TRUE;
  block->extent = extent;
  block->share = met->handle;
  cache->latest_own = block;
}

/* Returns TRUE if the pool's table of queues says that a queue is out of order: such a queue has no
 * arenas. */
static gboolean
has_none (const TarnPool *pool, gpointer handle)
{
  const TarnQueue *queue = handle != NULL ? g_hash_table_lookup (pool->queues.table, handle) : NULL;

  return queue != NULL && !queue->in_order;
}

/* Lets threads allocate without a lock from the arenas of the queue @handle, or from the arenas for
 * requests without a queue if @handle is NULL.  For this, adds the arenas to the pool's table,
 * unless the table has them.
 *
 * The caller has just allocated @block for a request of the queue.  If no other queue may still use
 * @block, assigns @block to one of the arenas. */
void
_tarn_pool_meet_arena (TarnPool *pool, gpointer handle, TarnBlock *block)
{
  TarnCache *cache = _tarn_cache_of (_tarn_current_thread, pool);
  const TarnMetQueue *met;
  gboolean is_known, is_done;
  TarnArenaRef ref;

  if (cache == NULL || !__atomic_load_n (&pool->has_arenas, __ATOMIC_RELAXED))
    return;
  _tarn_mutex_lock (&pool->lock);
  met = _tarn_pool_find_met (pool, handle);
  is_known = met != NULL && cache->spare != NULL && _tarn_arena_is_met (&met->ref);
  if (is_known)
    {
      adopt (pool, cache, met, block);
      _tarn_cache_grant (cache);
    }
  /* Do not return yet if the table has arenas of an earlier queue with this handle, because
   * add_met () removes these arenas. */
  is_done = is_known || (met == NULL && has_none (pool, handle));
  _tarn_mutex_unlock (&pool->lock);
  if (is_done || !_tarn_heap_meet_arena (pool->heap, handle, &ref, NULL))
    return;
  _tarn_mutex_lock (&pool->lock);
  met = _tarn_pool_find_met (pool, handle);
  /* Add the arenas if the table has none for the queue, or has arenas of an earlier queue with this
   * handle. */
  if (met == NULL || met->ref.number < ref.number)
    add_met (pool, handle, &ref);
  met = _tarn_pool_find_met (pool, handle);
  if (met != NULL)
    adopt (pool, cache, met, block);
  _tarn_cache_refill_spare (cache);
  _tarn_cache_grant (cache);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_pool_unlock_and_sweep (pool);
}

/* Frees a block that belongs to an arena: takes the pool's lock, and returns the memory to the
 * arena.  The caller has already released the block's part: the handle that upstream made for the
 * block's memory, such as a sub-buffer. */
static void
go_with_lock (TarnPool *pool, TarnBlock *block)
{
  _tarn_mutex_lock (&pool->lock);
  _tarn_pool_count_own (pool);
  pool->stats.active_bytes -= block->size;
  _tarn_pool_retire (pool, block);
  block->below = NULL;
  _tarn_pool_unlock_and_give_back (pool, block, FALSE);
}

/* Frees a block that belongs to an arena, and whose memory is a part: a handle that upstream made,
 * such as a sub-buffer.  Returns FALSE, and does nothing, if the caller has to free the block with
 * the pool's lock. */
gboolean
_tarn_pool_put_part (TarnPool *pool, TarnCache *cache, TarnBlock *block)
{
  TarnBlock *goes;

  if (!_tarn_pool_begin_to_go (cache, block, &goes))
    return FALSE;
  if (goes == NULL)
    return TRUE;
  _tarn_heap_release_part (pool->heap, goes->extent, goes->memory);
  if (!_tarn_pool_go_without_part (pool, cache, goes))
    go_with_lock (pool, goes);
  return TRUE;
}
