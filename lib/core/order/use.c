/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Implements the calls by which the program says that a queue uses a block, or moves a block from
 * one queue to another. */

#include "order/order-private.h"
#include "pool/cache-private.h"

/* Returns TRUE if a queue is among the queues that use a block.  The caller holds the pool's
 * lock. */
static gboolean
is_used_by (const TarnBlock *block, const TarnQueue *queue)
{
  for (guint i = 0; i < block->n_uses; i++)
    if (block->uses[i].queue == queue)
      return TRUE;
  return FALSE;
}

/* Adds a queue to the queues that use a block of a pool. */
gboolean
_tarn_pool_record_use (TarnBlock *block, gpointer handle, GError **error)
{
  TarnPool *pool = _tarn_pool_of (block->source);
  TarnQueue *queue = _tarn_pool_enter_queue (pool, handle, error);

  if (queue == NULL)
    return FALSE;
  _tarn_mutex_lock (&pool->lock);
  _tarn_pool_settle (pool, block);
  if (!is_used_by (block, queue))
    {
      block->is_away |= pool->heap != NULL && block->n_uses == 0;
      _tarn_block_add_use (block, queue);
    }
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);
  _tarn_pool_leave_queue (pool, queue);
  return TRUE;
}

/* Drops the events that a failed attempt to move a block has recorded.  The block stays on its
 * queues, and later commands of these queues will use it, too.  An event does not cover these later
 * commands, so it would say too early that the block is idle.  Keeps the event of a queue that the
 * pool has forgotten, because no later commands of that queue use the block. */
static void
drop_events (TarnPool *pool, TarnBlock *block)
{
  TARN_LOCKED (&pool->lock);

  for (guint i = 0; i < block->n_uses; i++)
    if (block->uses[i].queue->is_known)
      _tarn_use_clear_event (pool, &block->uses[i]);
  _tarn_block_update_share (block);
}

/* Makes the queue with the given handle the only user of a block, after this queue has waited for
 * the block's other queues.  If @handle is NULL, the host waits, and no queue uses the block
 * afterwards.  If another queue used the block before, and @handle is not NULL, the block's free
 * will record an event.  After this event, the other queue can get the block again for one of its
 * next requests. */
gboolean
_tarn_pool_move_to_queue (TarnBlock *block, gpointer handle, GError **error)
{
  TarnPool *pool = _tarn_pool_of (block->source);
  TarnQueue *queue = handle != NULL ? _tarn_pool_enter_queue (pool, handle, error) : NULL;
  gboolean is_moved, is_other;

  if (handle != NULL && queue == NULL)
    return FALSE;
  _tarn_mutex_lock (&pool->lock);
  _tarn_pool_settle (pool, block);
  _tarn_mutex_unlock (&pool->lock);
  is_other = block->n_uses > 1 || (block->n_uses == 1 && block->uses->queue != queue);
  is_moved = _tarn_block_move (pool, block, queue, TRUE, error);
  if (!is_moved)
    drop_events (pool, block);
  _tarn_mutex_lock (&pool->lock);
  block->is_handed_on |= is_moved && is_other && queue != NULL;
  _tarn_block_update_share (block);
  if (queue != NULL)
    _tarn_queue_unref (pool, queue);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_pool_unlock_and_sweep (pool);
  return is_moved;
}
