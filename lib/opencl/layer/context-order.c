/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The order of a context's queues.  As long as a context has one queue, and the queue is in order,
 * the layer reuses released memory at once (LAYER_ONE_QUEUE), because a later command of the queue
 * runs after the commands that used the memory.  In all other cases a released buffer waits for the
 * commands that use it.  If the layer has reused memory at once, and the program then adds queues,
 * each new queue first waits for the commands of the queue that was the only one. */

#include "layer-private.h"

gboolean
_tarn_layer_context_try_early_reuse (LayerContext *self)
{
  if (__atomic_load_n (&self->order, __ATOMIC_RELAXED) > LAYER_ONE_QUEUE
      || _tarn_layer_is_debugged (self))
    return FALSE;
  {
    TARN_LOCKED (&self->lock);

    if (self->order == LAYER_ONE_QUEUE)
      {
        self->has_reused_early = TRUE;
        self->reused_number = _tarn_layer_queue_get_enqueued (self->only_queue);
      }
    return self->order <= LAYER_ONE_QUEUE;
  }
}

/* Enqueues a marker on @queue, which is the context's only queue until now.  Returns the marker's
 * event, which is complete when all earlier commands of the queue are done.  If the commands with
 * numbers up to @number are known to be done, returns NULL without a marker.  If the driver refuses
 * the marker, waits until the queue's commands are done, and returns NULL. */
static cl_event
record_event (LayerQueue *queue, guint64 number)
{
  cl_event event = NULL;

  if (_tarn_layer_queue_is_done (queue, number))
    return NULL;
  if (_tarn_layer_driver->clEnqueueMarkerWithWaitList (queue->base.handle, 0, NULL, &event)
      == CL_SUCCESS)
    {
      /* Another queue will wait for the marker.  Without a flush, the marker might never run. */
      _tarn_layer_driver->clFlush (queue->base.handle);
      return event;
    }
  /* This call of clFinish () cannot hang: commands can wait for the program only by user events,
   * and all of these are complete. */
  _tarn_layer_driver->clFinish (queue->base.handle);
  return NULL;
}

/* Sets the state of a context's queues to @order.  @only_queue: the context's queue if @order is
 * LAYER_ONE_QUEUE, otherwise NULL.  The caller holds the context's lock. */
static void
set_order_locked (LayerContext *self, LayerOrder order, LayerQueue *only_queue)
{
  _tarn_assert_locked (&self->lock);
  g_assert ((order == LAYER_ONE_QUEUE) == (only_queue != NULL));
  __atomic_store_n (&self->order, order, __ATOMIC_RELAXED);
  self->only_queue = only_queue;
}

/* Ends the state LAYER_ONE_QUEUE, in which released memory is reused at once.  First waits until no
 * other thread is ending the state (LAYER_BECOMING_MANY).
 * - If memory was reused before the commands that used it were done, sets LAYER_BECOMING_MANY, and
 *   returns a reference to the queue with these commands.  The caller puts a marker on this queue,
 *   for which new queues then wait, and sets LAYER_MANY_QUEUES.
 * - Otherwise sets LAYER_MANY_QUEUES and returns NULL.
 *
 * @queue: NULL, or a queue that will soon be closed or run its commands out of order.  If @queue is
 * not NULL and not the only queue, the function keeps the state and returns NULL, because the order
 * of the only queue's commands does not change. */
static LayerQueue *
begin_many_queues (LayerContext *self, LayerQueue *queue)
{
  TARN_LOCKED (&self->lock);
  LayerQueue *only = NULL;

  if (queue != NULL)
    queue->leaves = TRUE;
  while (self->order == LAYER_BECOMING_MANY)
    _tarn_cond_wait (&self->changed, &self->lock);
  if (queue != NULL && queue != self->only_queue)
    return NULL;
  if (self->order == LAYER_ONE_QUEUE && self->has_reused_early)
    {
      only = _tarn_layer_ref (self->only_queue);
      set_order_locked (self, LAYER_BECOMING_MANY, NULL);
    }
  else
    set_order_locked (self, LAYER_MANY_QUEUES, NULL);
  return only;
}

void
_tarn_layer_context_end_one_queue (LayerContext *self, LayerQueue *queue)
{
  LAYER_AUTO LayerQueue *only = begin_many_queues (self, queue);
  cl_event event, before;

  if (only == NULL)
    return;
  /* No thread changes reused_number now: threads change it only in the state LAYER_ONE_QUEUE, which
   * has ended. */
  event = record_event (only, self->reused_number);
  {
    TARN_LOCKED (&self->lock);

    g_assert (self->order == LAYER_BECOMING_MANY);
    before = self->only_event;
    self->only_event = event;
    set_order_locked (self, LAYER_MANY_QUEUES, NULL);
    _tarn_cond_broadcast (&self->changed);
  }
  if (before != NULL)
    _tarn_layer_release_event (before);
}

/* Enters the state LAYER_ONE_QUEUE, in which released memory is reused at once, if all of these
 * conditions hold.  Otherwise does nothing.
 * - The state is LAYER_MANY_QUEUES.
 * - The context has exactly one queue.  It is in order, and will not soon be closed or run its
 *   commands out of order.
 * - If the context has dropped queues, all their commands are done.
 * - No thread uses only_event (n_joining is 0), the event for which a new queue waits.
 * - Every user event is complete. */
static void
begin_one_queue (LayerContext *self)
{
  TARN_LOCKED (&self->lock);
  LayerQueue *queue = self->queues->len == 1 ? self->queues->pdata[0] : NULL;

  if (self->order != LAYER_MANY_QUEUES || queue == NULL || queue->leaves || self->n_joining > 0
      || !__atomic_load_n (&queue->in_order, __ATOMIC_ACQUIRE) || self->n_user_events > 0
      || self->has_lost_queue)
    return;
  self->has_reused_early = FALSE;
  set_order_locked (self, LAYER_ONE_QUEUE, queue);
}

/* Makes a new queue wait for the context's only_event, if it is not NULL.  While the context had
 * only one queue, later buffers got the memory of released ones before the commands that used it
 * were done.  The event is complete when these commands are done.  The caller has added 1 to
 * n_joining, so no other thread replaces only_event. */
static void
wait_for_only (LayerContext *self, LayerQueue *queue)
{
  cl_event event;

  {
    TARN_LOCKED (&self->lock);

    event = self->only_event;
  }
  if (event != NULL
      && _tarn_layer_driver->clEnqueueBarrierWithWaitList (queue->base.handle, 1, &event, NULL)
             != CL_SUCCESS)
    _tarn_layer_driver->clWaitForEvents (1, &event);
}

/* Adds a queue to the context's list.  If the queue is in order and is the context's first, makes
 * it the only queue (LAYER_ONE_QUEUE), and returns TRUE.  Otherwise returns FALSE.  The caller then
 * has to make the queue wait for only_event (see wait_for_only ()).  So that no thread replaces
 * this event meanwhile, the function adds 1 to n_joining, and the caller calls end_joining () after
 * the wait. */
static gboolean
set_only (LayerContext *self, LayerQueue *queue, gboolean in_order)
{
  TARN_LOCKED (&self->lock);

  g_ptr_array_add (self->queues, _tarn_layer_ref (queue));
  if (self->order != LAYER_NO_QUEUE || !in_order)
    {
      self->n_joining++;
      return FALSE;
    }
  set_order_locked (self, LAYER_ONE_QUEUE, queue);
  return TRUE;
}

static void
end_joining (LayerContext *self)
{
  TARN_LOCKED (&self->lock);

  g_assert (self->n_joining > 0);
  self->n_joining--;
}

void
_tarn_layer_context_add_queue (LayerContext *self, LayerQueue *queue, gboolean in_order)
{
  _tarn_layer_context_poll (self);
  if (set_only (self, queue, in_order))
    return;
  _tarn_layer_context_end_one_queue (self, NULL);
  wait_for_only (self, queue);
  end_joining (self);
  begin_one_queue (self);
}

void
_tarn_layer_context_drop_queue (LayerContext *self, LayerQueue *queue)
{
  gboolean had;

  {
    TARN_LOCKED (&self->lock);

    had = g_ptr_array_remove_fast (self->queues, queue);
    self->has_lost_queue
        |= had && !_tarn_layer_queue_is_done (queue, _tarn_layer_queue_get_enqueued (queue));
  }
  if (!had)
    return;
  _tarn_layer_queue_drop_user (queue);
  _tarn_layer_unref (queue);
  begin_one_queue (self);
}

void
_tarn_layer_context_add_user_event (LayerContext *self)
{
  {
    TARN_LOCKED (&self->lock);

    __atomic_store_n (&self->n_user_events, self->n_user_events + 1, __ATOMIC_RELEASE);
  }
  _tarn_layer_context_end_one_queue (self, NULL);
}

void
_tarn_layer_context_drop_user_event (LayerContext *self)
{
  {
    TARN_LOCKED (&self->lock);

    g_assert (self->n_user_events > 0);
    __atomic_store_n (&self->n_user_events, self->n_user_events - 1, __ATOMIC_RELEASE);
  }
  begin_one_queue (self);
}

cl_event
_tarn_layer_context_begin_await (LayerContext *self)
{
  TARN_LOCKED (&self->lock);

  while (self->order == LAYER_BECOMING_MANY)
    _tarn_cond_wait (&self->changed, &self->lock);
  self->n_joining++;
  return self->order == LAYER_MANY_QUEUES ? self->only_event : NULL;
}

void
_tarn_layer_context_end_await (LayerContext *self)
{
  end_joining (self);
  begin_one_queue (self);
}
