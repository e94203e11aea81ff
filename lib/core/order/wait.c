/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Decides whether a queue or the host has to wait before it can use a block, and makes it wait.
 *
 * A use of a block has two parts: a queue that may run commands with the block, and an event after
 * which the queue does not use the block any more.  The event is timely if the block's free
 * recorded it.  The event is late if it was recorded at another time, and may also cover commands
 * after the free. */

#include "order/order-private.h"

/* Functions whose callers hold the pool's lock */

/* Returns TRUE if @queue (NULL: the host) can use a block without waiting for @use, the use of the
 * block by some queue.  This is so in two cases:
 * - The use's event is known to have completed.
 * - The use is by @queue itself, and @queue is in order: its later commands run after its earlier
 *   ones. */
static gboolean
is_done_for (const TarnUse *use, const TarnQueue *queue)
{
  return (queue != NULL && queue->in_order && use->queue == queue)
         || (_tarn_use_has_event (use) && g_atomic_int_get (&use->event->is_done));
}

/* Returns TRUE if the event of a use is recorded and timely (recorded by the block's free).  A
 * request can make its queue wait for such an event. */
static gboolean
is_timely (const TarnUse *use)
{
  return _tarn_use_has_event (use) && !use->event->is_late;
}

/* Returns TRUE if a queue (NULL: the host) can use a block without a wait.  If the block has
 * is_unready set, each queue has to wait, because the block's fresh memory may not be ready yet. */
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

/* Returns TRUE if each use of a block has a recorded event, except uses for which @queue (NULL: the
 * host) need not wait. */
gboolean
_tarn_block_is_recorded (const TarnBlock *block, const TarnQueue *queue)
{
  for (guint i = 0; i < block->n_uses; i++)
    if (!_tarn_use_has_event (&block->uses[i]) && !is_done_for (&block->uses[i], queue))
      return FALSE;
  return TRUE;
}

/* Returns TRUE if @queue (NULL: the host) can use a block after it has waited for timely events
 * only (events that the block's free recorded). */
gboolean
_tarn_block_can_be_awaited (const TarnBlock *block, const TarnQueue *queue)
{
  for (guint i = 0; i < block->n_uses; i++)
    if (!is_timely (&block->uses[i]) && !is_done_for (&block->uses[i], queue))
      return FALSE;
  return TRUE;
}

/* Adds to a request the events, with references, for which the request's queue would have to wait
 * to use a block.  Then adds a NULL.  The request is going to ask the driver about these events.
 * Leaves out events for which the request's array has no room. */
void
_tarn_request_add_events (TarnRequest *request, const TarnBlock *block)
{
  for (guint i = 0; i < block->n_uses && request->n_events < TARN_MAX_ASKED; i++)
    if (!is_done_for (&block->uses[i], request->queue))
      request->events[request->n_events++] = _tarn_event_ref (block->uses[i].event);
  if (request->n_events < TARN_MAX_ASKED)
    request->events[request->n_events++] = NULL;
}

/* Drops all uses of a block, with their references to queues and events. */
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

/* Adds @fresh to the queues that use a block.  @fresh is the queue on which the backend makes fresh
 * memory ready.  It is NULL if there is no such queue.  Clears is_unready of the block in both
 * cases, because from now on any other queue that gets the block waits for @fresh. */
void
_tarn_block_use_fresh (TarnBlock *block, TarnQueue *fresh)
{
  g_assert (block->is_unready);
  if (fresh != NULL)
    _tarn_block_add_use (block, fresh);
  block->is_unready = FALSE;
}

/* Makes a queue the only user of a block, or leaves the block without a user if @queue is NULL.
 * Does not wait: call this only if all uses of the block are done, or if the queue or the host has
 * been made to wait for them.  The caller has its own reference to the queue, because this function
 * drops the block's references to queues before it adds the new one. */
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
  /* If the pool is over a heap, assume that the heap allocated the block's memory for another queue
   * than @queue (is_away).  This saves a call that asks the heap. */
  block->is_away = pool->heap != NULL && queue != NULL;
  if (queue != NULL)
    _tarn_block_add_use (block, queue);
}

/* Functions whose callers do not hold the pool's lock */

/* The kind of event for which a queue or the host has to wait before it can use a block that
 * another queue has used. */
typedef enum
{
  NOTHING,
  A_TIMELY_EVENT, /* an event that the block's free recorded */
  A_LATE_EVENT    /* an event that is not recorded yet, or that was recorded at another time and may
                     also cover commands after the free */
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

/* Makes the host wait for an event.  A wait may fail because an earlier command has failed,
 * although the event has completed.  In this case, returns TRUE. */
static gboolean
await_on_host (TarnPool *pool, TarnEvent *event, GError **error)
{
  TarnAllocator *direct = pool->upstream->direct;
  GError *local = NULL;

  _tarn_assert_not_locked (&pool->lock);
  if (!_tarn_allocator_wait (direct, event->handle, NULL, &local)
      && !_tarn_call_queue (direct, event_is_done, event->handle))
    {
      g_propagate_error (error, local);
      return FALSE;
    }
  g_clear_error (&local);
  g_atomic_int_set (&event->is_done, TRUE);
  return TRUE;
}

/* Makes @queue (NULL: the host) wait for a use of a block by another queue.  If the use has no
 * event, first records one and stores it in the use.  Usually @queue itself waits for the event.
 * If @may_be_late is FALSE and the event is late, the host waits instead: a late event may also
 * cover commands after the block's free.  The caller makes sure that no other thread works on the
 * block.  The program keeps the queues that use a block alive while the block is in use. */
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
  /* If the host waited above, the event of this use has completed.  Cached blocks may share this
   * event, so let the pool search for blocks whose events have completed. */
  pool->store.has_done = TRUE;
  _tarn_mutex_unlock (&pool->lock);
  return TRUE;
}

/* Makes a queue (NULL: the host) wait for all uses of a block.  If @may_be_late is FALSE, the host
 * waits in place of the queue for late events, because they may also cover commands after the
 * block's free.  The caller makes sure that no other thread works on the block. */
gboolean
_tarn_block_await (TarnPool *pool, TarnBlock *block, const TarnQueue *queue, gboolean may_be_late,
                   GError **error)
{
  for (guint i = 0; i < block->n_uses; i++)
    if (!await_use (pool, block, &block->uses[i], queue, may_be_late, error))
      return FALSE;
  return TRUE;
}

/* Looks up the queue on which the backend makes fresh memory ready, and adds it to the queues that
 * use a block.  Call this only if the block's is_unready is TRUE. */
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

/* Makes a queue the only user of a block, and returns TRUE, if the queue can use the block without
 * a wait.  If the queue would have to wait, changes nothing and returns FALSE.  @queue is NULL for
 * the host: if the host can use the block without a wait, the block has no user afterwards. */
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

/* Makes a queue the only user of a block.  If commands of other queues may still use the block, the
 * queue first waits for them.  If @queue is NULL, the host waits, and no queue uses the block
 * afterwards.  The caller has a reference to the queue, and makes sure that no other thread works
 * on the block.  If @may_be_late is FALSE, the host waits in place of the queue for late events
 * (events that may also cover commands after the block's free). */
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
