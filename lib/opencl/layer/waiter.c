/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Waiters: buffers that wait for one command, rather than for all commands of its queue.  Tarn
 * polls the command's event.  It asks the driver to call back only if nobody may poll any more,
 * because most drivers wake a thread for a callback.  It polls such events as well: PoCL, at least
 * up to 3.1, does not call back for commands that fail. */

#include "layer-private.h"

#define MAX_POLLS 1000 /* events that are polled one after the other */

static void
waiter_finalize (gpointer record)
{
  LayerWaiter *self = record;

  g_assert (self->link.data == NULL);
  _tarn_layer_release_event (self->event);
  _tarn_layer_unref (self->buffer);
  _tarn_layer_unref (self->queue);
  g_free (self);
}

/* Makes a waiter, which takes the event over. */
static LayerWaiter *
waiter_new (LayerBuffer *buffer, LayerQueue *queue, guint64 number, cl_event event)
{
  LayerWaiter *self = g_new0 (LayerWaiter, 1);

  self->base = (LayerObject){ LAYER_WAITER, 1, 0, NULL, waiter_finalize };
  self->buffer = _tarn_layer_ref (buffer);
  self->queue = _tarn_layer_ref (queue);
  self->number = number;
  self->event = event;
  return self;
}

/* The queue's list of waiters, which has a reference to each */

/* Adds a waiter to the list, with the queue's lock held. */
static void
add_locked (LayerWaiter *self)
{
  _tarn_assert_locked (&self->queue->lock);
  g_assert (self->link.data == NULL);
  self->link.data = _tarn_layer_ref (self);
  g_queue_push_tail_link (&self->queue->waiters, &self->link);
}

/* Removes a waiter from the list, with the queue's lock held.  Returns FALSE if another thread has
 * done so. */
static gboolean
remove_locked (LayerWaiter *self)
{
  _tarn_assert_locked (&self->queue->lock);
  if (self->link.data == NULL)
    return FALSE;
  g_assert (self->link.data == self);
  g_queue_unlink (&self->queue->waiters, &self->link);
  self->link.data = NULL;
  return TRUE;
}

static void
add (LayerWaiter *self)
{
  LAYER_LOCKED (&self->queue->lock);

  add_locked (self);
}

/* Takes a waiter out of the list, and its reference.  Returns FALSE if another thread has done
 * so. */
static gboolean
take (LayerWaiter *self)
{
  LAYER_LOCKED (&self->queue->lock);

  return remove_locked (self);
}

GSList *
_tarn_layer_take_waiters_locked (LayerQueue *queue, guint64 number)
{
  GSList *taken = NULL;
  GList *next;

  _tarn_assert_locked (&queue->lock);
  for (GList *link = queue->waiters.head; link != NULL; link = next)
    {
      LayerWaiter *waiter = link->data;

      next = link->next;
      if (waiter->number <= number && remove_locked (waiter))
        taken = g_slist_prepend (taken, waiter);
    }
  return taken;
}

/* The end of a wait */

/* Ends the wait of a waiter that was taken out of the list, and drops the list's reference.  A
 * command that failed may be done before earlier commands of a queue in order, so the buffer then
 * waits for these as well. */
static void
settle (LayerWaiter *self, gboolean has_failed)
{
  g_assert (self->link.data == NULL);
  if (has_failed && __atomic_load_n (&self->queue->in_order, __ATOMIC_ACQUIRE)
      && _tarn_layer_queue_add_waiting (self->queue, self->buffer, self->number))
    _tarn_layer_queue_put_marker (self->queue, TRUE);
  else
    _tarn_layer_buffer_commands_done (self->buffer);
  if (self->ticket != NULL)
    _tarn_layer_unref (_tarn_layer_ticket_take (self->ticket));
  _tarn_layer_queue_end_if_over (self->queue);
  _tarn_layer_unref (self);
}

void
_tarn_layer_settle_waiters (GSList *waiters)
{
  for (GSList *link = waiters; link != NULL; link = link->next)
    settle (link->data, FALSE);
  g_slist_free (waiters);
}

/* Handles the driver's callback: the command is done, or has failed. */
static void CL_CALLBACK
on_done (cl_event event, cl_int status, void *ticket)
{
  LAYER_AUTO LayerWaiter *self = _tarn_layer_ticket_take (ticket);

  (void) event;
  if (self != NULL && take (self))
    settle (self, status < CL_COMPLETE);
}

/* Returns a reference to the first waiter, and moves it to the end of the list.  Returns NULL if
 * there is none. */
static LayerWaiter *
get_next (LayerQueue *queue)
{
  LAYER_LOCKED (&queue->lock);
  LayerWaiter *first = g_queue_peek_head (&queue->waiters);

  if (first == NULL)
    return NULL;
  g_queue_unlink (&queue->waiters, &first->link);
  g_queue_push_tail_link (&queue->waiters, &first->link);
  return _tarn_layer_ref (first);
}

/* Asks the driver about a waiter's command.  Returns FALSE if it is not done. */
static gboolean
poll_waiter (LayerWaiter *self)
{
  cl_int state = _tarn_layer_get_state (self->event);

  if (state > CL_COMPLETE)
    return FALSE;
  if (take (self))
    settle (self, state < CL_COMPLETE);
  return TRUE;
}

void
_tarn_layer_poll_waiters (LayerQueue *queue)
{
  guint n_running = 0;

  for (guint i = 0; i < MAX_POLLS && n_running < 2; i++)
    {
      LAYER_AUTO LayerWaiter *waiter = get_next (queue);

      if (waiter == NULL)
        break;
      if (!poll_waiter (waiter))
        n_running++;
    }
}

void
_tarn_layer_wait_for_event (LayerBuffer *buffer, LayerQueue *queue, guint64 number, cl_event event,
                            gboolean notify)
{
  LAYER_AUTO LayerWaiter *self = waiter_new (buffer, queue, number, event);

  if (notify)
    self->ticket = _tarn_layer_ticket_new (self);
  add (self);
  if (notify)
    {
      if (_tarn_layer_driver->clSetEventCallback (event, CL_COMPLETE, on_done, self->ticket)
          != CL_SUCCESS)
        _tarn_layer_queue_put_marker (queue, TRUE);
    }
  /* Nobody may poll a context that has ended meanwhile. */
  else if (__atomic_load_n (&queue->context->ended, __ATOMIC_ACQUIRE))
    _tarn_layer_queue_put_marker (queue, TRUE);
}
