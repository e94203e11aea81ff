/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Finds out who has to wait before a block can be used, and waits. */

#include "order/order-private.h"

/* The lock is held. */

/* Returns TRUE if a use is known to be done, or if it is on the same in-order queue, whose later
 * commands run after it.  @queue: NULL: the host. */
static gboolean
is_done_for (const TarnUse *use, const TarnQueue *queue)
{
  return (queue != NULL && queue->in_order && use->queue == queue)
         || (_tarn_use_has_event (use) && g_atomic_int_get (&use->event->is_done));
}

/* Returns TRUE if a request can make its queue wait for a use. */
static gboolean
is_timely (const TarnUse *use)
{
  return _tarn_use_has_event (use) && !use->event->is_late;
}

/* Returns TRUE if a queue (NULL: the host) can use a block without a wait. */
gboolean
_tarn_block_is_ready_for (const TarnBlock *block, const TarnQueue *queue)
{
  if (block->is_unready && queue != NULL)
    return FALSE;
  for (guint i = 0; i < block->n_uses; i++)
    if (!is_done_for (&block->uses[i], queue))
      return FALSE;
  return TRUE;
}

/* Returns TRUE if events say when a queue can use a block. */
gboolean
_tarn_block_is_recorded (const TarnBlock *block, const TarnQueue *queue)
{
  for (guint i = 0; i < block->n_uses; i++)
    if (!_tarn_use_has_event (&block->uses[i]) && !is_done_for (&block->uses[i], queue))
      return FALSE;
  return TRUE;
}

/* Returns TRUE if a queue can use a block after waiting for timely events. */
gboolean
_tarn_block_can_be_awaited (const TarnBlock *block, const TarnQueue *queue)
{
  for (guint i = 0; i < block->n_uses; i++)
    if (!is_timely (&block->uses[i]) && !is_done_for (&block->uses[i], queue))
      return FALSE;
  return TRUE;
}

/* Adds the events that a request's queue would have to wait for, to use a block, to those to ask
 * the driver about, and a NULL behind them; as many as there is room for.  Takes references on
 * them. */
void
_tarn_request_add_events (TarnRequest *request, const TarnBlock *block)
{
  for (guint i = 0; i < block->n_uses && request->n_events < TARN_MAX_ASKED; i++)
    if (!is_done_for (&block->uses[i], request->queue))
      request->events[request->n_events++] = _tarn_event_ref (block->uses[i].event);
  if (request->n_events < TARN_MAX_ASKED)
    request->events[request->n_events++] = NULL;
}

/* Drops all uses of a block. */
void
_tarn_block_clear_uses (TarnPool *pool, TarnBlock *block)
{
  _tarn_assert_locked (&pool->lock);
  for (guint i = 0; i < block->n_uses; i++)
    {
      _tarn_use_clear_event (pool, &block->uses[i]);
      _tarn_queue_unref (pool, block->uses[i].queue);
    }
  block->n_uses = 0;
  _tarn_block_update_share (block);
}

/* Adds the queue that makes fresh memory ready (NULL: there is none) to the uses of an unready
 * block. */
void
_tarn_block_use_fresh (TarnBlock *block, TarnQueue *fresh)
{
  g_assert (block->is_unready);
  if (fresh != NULL)
    _tarn_block_add_use (block, fresh);
  block->is_unready = FALSE;
}

/* Makes a queue, or none (NULL), the only user of a block.  Does not wait: the block's uses are
 * done, or the caller has waited for them.  The caller has a reference to the queue, because the
 * block's may be the last one. */
void
_tarn_block_set_queue (TarnPool *pool, TarnBlock *block, TarnQueue *queue)
{
  _tarn_assert_locked (&pool->lock);
  if (queue != NULL)
    block->is_unready = FALSE;
  if (block->n_uses == 1 && block->uses[0].queue == queue && block->uses[0].event == NULL)
    return;
  _tarn_block_clear_uses (pool, block);
  g_assert (queue == NULL || queue->n_refs > 0);
  block->is_away = pool->heap != NULL && queue != NULL; /* as far as is known */
  if (queue != NULL)
    _tarn_block_add_use (block, queue);
}

/* The lock is not held. */

/* The obstacle between a queue and a use. */
typedef enum
{
  NOTHING,
  A_TIMELY_EVENT,
  A_LATE_EVENT /* or none as yet */
} Obstacle;

static Obstacle
get_obstacle (TarnPool *pool, const TarnUse *use, const TarnQueue *queue)
{
  Obstacle obstacle;

  _tarn_assert_not_locked (&pool->lock);
  _tarn_mutex_lock (&pool->lock);
  if (is_done_for (use, queue))
    obstacle = NOTHING;
  else
    obstacle = is_timely (use) ? A_TIMELY_EVENT : A_LATE_EVENT;
  _tarn_mutex_unlock (&pool->lock);
  return obstacle;
}

/* Makes the host wait for an event.  A failed wait is good enough if the event has completed: an
 * earlier command has failed. */
static gboolean
await_on_host (TarnPool *pool, TarnEvent *event, GError **error)
{
  TarnAllocator *direct = pool->upstream->direct;
  GError *local = NULL;

  _tarn_assert_not_locked (&pool->lock);
  if (!_tarn_allocator_wait (direct, event->handle, NULL, &local)
      && !_tarn_call (direct, event_is_done, event->handle))
    {
      g_propagate_error (error, local);
      return FALSE;
    }
  g_clear_error (&local);
  g_atomic_int_set (&event->is_done, TRUE);
  return TRUE;
}

/* Makes a queue, or the host, wait for a use of a block that no other call works on.  If this
 * records an event, the use keeps it until the block changes hands.  @may_be_late: the queue may
 * wait for a late event; else the host does.  The queues that use a block live as long as it is in
 * use.
 */
static gboolean
await_use (TarnPool *pool, TarnBlock *block, TarnUse *use, const TarnQueue *queue,
           gboolean may_be_late, GError **error)
{
  gboolean is_named
      = may_be_late && (block->state == TARN_BLOCK_ACTIVE || block->state == TARN_BLOCK_SHARED);
  Obstacle obstacle = get_obstacle (pool, use, queue);

  if (obstacle == NOTHING)
    return TRUE;
  if (!_tarn_block_record_use (pool, block, use, is_named, error))
    return FALSE;
  if (queue == NULL || (obstacle == A_LATE_EVENT && !may_be_late))
    {
      if (!await_on_host (pool, use->event, error))
        return FALSE;
    }
  else if (!_tarn_allocator_wait (pool->upstream->direct, use->event->handle, queue->handle, error))
    return FALSE;
  _tarn_mutex_lock (&pool->lock);
  pool->stats.queue_waits++;
  pool->store.has_done = TRUE; /* others may share the event */
  _tarn_mutex_unlock (&pool->lock);
  return TRUE;
}

/* Makes a queue, or the host, wait for all uses of a block that no other call works on.
 * @may_be_late: the queue may wait for late events, too; else the queue waits for timely events
 * only, and the host for the others. */
gboolean
_tarn_block_await (TarnPool *pool, TarnBlock *block, const TarnQueue *queue, gboolean may_be_late,
                   GError **error)
{
  for (guint i = 0; i < block->n_uses; i++)
    if (!await_use (pool, block, &block->uses[i], queue, may_be_late, error))
      return FALSE;
  return TRUE;
}

/* Adds the queue that makes fresh memory ready to the uses of an unready block. */
static gboolean
use_fresh_queue (TarnPool *pool, TarnBlock *block, GError **error)
{
  TarnQueue *fresh = NULL;

  if (!_tarn_pool_enter_fresh (pool, &fresh, error))
    return FALSE;
  _tarn_mutex_lock (&pool->lock);
  _tarn_block_use_fresh (block, fresh);
  _tarn_mutex_unlock (&pool->lock);
  _tarn_pool_leave_queue (pool, fresh);
  return TRUE;
}

/* Makes a queue the only user of a block if this needs no wait.  Returns FALSE if it does. */
static gboolean
set_queue_if_ready (TarnPool *pool, TarnBlock *block, TarnQueue *queue)
{
  gboolean is_ready;

  _tarn_assert_not_locked (&pool->lock);
  _tarn_mutex_lock (&pool->lock);
  g_assert (queue == NULL || queue->n_refs > 0);
  is_ready = _tarn_block_is_ready_for (block, queue);
  if (is_ready)
    _tarn_block_set_queue (pool, block, queue);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);
  return is_ready;
}

/* Makes a queue the only user of a block in use; it waits if necessary.  @queue: NULL: the host
 * waits, and the block has no queue.  No other call works on the block; the caller has a reference
 * to the queue.  @may_be_late is for _tarn_block_await (). */
gboolean
_tarn_block_move (TarnPool *pool, TarnBlock *block, TarnQueue *queue, gboolean may_be_late,
                  GError **error)
{
  gboolean was_unready = block->is_unready && queue != NULL;

  if (set_queue_if_ready (pool, block, queue))
    return TRUE;
  if (was_unready && !use_fresh_queue (pool, block, error))
    return FALSE;
  if (!_tarn_block_await (pool, block, queue, may_be_late || was_unready, error))
    return FALSE;
  _tarn_mutex_lock (&pool->lock);
  _tarn_block_set_queue (pool, block, queue);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);
  return TRUE;
}
