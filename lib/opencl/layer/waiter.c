/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Waiters: uses whose buffer waits for one command, by the command's event, and not for all
 * commands of a queue.  A use is the record of a command that uses a buffer.  After the program has
 * released the buffer, the layer destroys the buffer when the commands of its uses are done.
 *
 * The layer polls the events of waiters.  Most drivers wake a thread for each callback, so the
 * layer asks the driver to call back only if perhaps no thread polls any more.  In that case the
 * layer polls the events as well, because PoCL, at least up to 3.1, does not call back for commands
 * that fail. */

#include "layer-private.h"

/* The largest number of events whose state _tarn_layer_poll_waiters () queries in one call. */
#define MAX_POLLS 1000

/* Functions for a queue's list of waiters */

/* Adds a use to its queue's list of waiters. */
static void
add (LayerUse *self)
{
  TARN_LOCKED (&self->queue->lock);

  g_assert (!self->is_waiter);
  self->is_waiter = TRUE;
  g_queue_push_tail_link (&self->queue->waiters, &self->link);
}

/* Removes a use from its queue's list of waiters.  The caller holds the queue's lock. */
static void
remove_locked (LayerUse *self)
{
  _tarn_assert_locked (&self->queue->lock);
  g_assert (self->is_waiter);
  self->is_waiter = FALSE;
  g_queue_unlink (&self->queue->waiters, &self->link);
}

/* Removes a use (the record of a command) from its queue's list of waiters.  Returns FALSE if
 * another thread has removed the use already. */
static gboolean
take (LayerUse *self)
{
  TARN_LOCKED (&self->queue->lock);

  if (!self->is_waiter)
    return FALSE;
  remove_locked (self);
  return TRUE;
}

void
_tarn_layer_take_waiters_locked (LayerQueue *queue, guint64 number, GQueue *taken)
{
  GList *next;

  _tarn_assert_locked (&queue->lock);
  for (GList *link = queue->waiters.head; link != NULL; link = next)
    {
      LayerUse *use = link->data;

      next = link->next;
      if (use->number > number)
        continue;
      remove_locked (use);
      g_queue_push_tail_link (taken, link);
    }
}

/* Functions that end waits, poll waiters, and begin waits */

void
_tarn_layer_use_end_wait (LayerUse *self)
{
  if (self->ticket != NULL)
    _tarn_layer_unref (_tarn_layer_ticket_take (self->ticket));
  _tarn_layer_buffer_commands_done (self->buffer); /* this call may free @self, the use */
}

/* Ends a buffer's wait for a command that is done or has failed.  The caller has removed the use
 * from the list of waiters. */
static void
settle (LayerUse *self)
{
  _tarn_layer_queue_end_if_over (self->queue);
  _tarn_layer_use_end_wait (self);
}

/* The driver's callback for a waiter's command that is done or has failed.  Goes through all uses
 * of the buffer, because two of them may have this event. */
static void CL_CALLBACK
on_done (cl_event event, cl_int status, void *ticket)
{
  LAYER_AUTO LayerBuffer *buffer = _tarn_layer_ticket_take (ticket);

  (void) status;
  for (guint i = 0; buffer != NULL && i < buffer->n_uses; i++)
    {
      LayerUse *use = &_tarn_layer_buffer_get_uses (buffer)[i];

      if (use->event == event && take (use))
        settle (use);
    }
}

/* Returns the first waiter of a queue (a use whose buffer waits for one command), with a reference
 * to the record of that buffer.  Returns NULL if the queue has no waiter. */
static LayerUse *
get_first (LayerQueue *queue)
{
  TARN_LOCKED (&queue->lock);
  LayerUse *first = g_queue_peek_head (&queue->waiters);

  if (first != NULL)
    _tarn_layer_ref (first->buffer);
  return first;
}

/* Moves a waiter (a use whose buffer waits for one command) to the end of its queue's list.  Does
 * nothing if another thread has removed the waiter. */
static void
postpone (LayerUse *self)
{
  TARN_LOCKED (&self->queue->lock);

  if (!self->is_waiter)
    return;
  g_queue_unlink (&self->queue->waiters, &self->link);
  g_queue_push_tail_link (&self->queue->waiters, &self->link);
}

/* Asks the driver for the state of a waiter's command.  If the command is done, ends the wait of
 * the waiter's buffer for it and returns TRUE.  Otherwise moves the waiter to the end of its
 * queue's list and returns FALSE. */
static gboolean
poll_waiter (LayerUse *self)
{
  if (_tarn_layer_get_state (self->event) > CL_COMPLETE)
    {
      postpone (self);
      return FALSE;
    }
  if (take (self))
    settle (self);
  return TRUE;
}

void
_tarn_layer_poll_waiters (LayerQueue *queue)
{
  guint n_running = 0;

  for (guint i = 0; i < MAX_POLLS && n_running < 2; i++)
    {
      LayerUse *waiter = get_first (queue);
      G_GNUC_UNUSED LAYER_AUTO LayerBuffer *kept = waiter != NULL ? waiter->buffer : NULL;

      if (waiter == NULL)
        break;
      if (!poll_waiter (waiter))
        n_running++;
    }
}

void
_tarn_layer_wait_for_event (LayerUse *self, gboolean notify)
{
  gpointer ticket = notify ? _tarn_layer_ticket_new (self->buffer) : NULL;

  self->ticket = ticket;
  /* After this call, the use is in its queue's list of waiters, and any thread may end the buffer's
   * wait. */
  add (self);
  if (notify)
    {
      if (_tarn_layer_driver->clSetEventCallback (self->event, CL_COMPLETE, on_done, ticket)
          != CL_SUCCESS)
        _tarn_layer_queue_put_marker (self->queue, TRUE);
    }
  /* If the program has released the context meanwhile, perhaps no thread polls any more.  So put a
   * marker; the driver calls back when the marker is done. */
  else if (__atomic_load_n (&self->queue->context->ended, __ATOMIC_ACQUIRE))
    _tarn_layer_queue_put_marker (self->queue, TRUE);
}
