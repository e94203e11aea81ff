/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Queues: counts the commands of each queue, and finds out by markers which commands are done.  A
 * marker is a command whose event completes when all commands are done that the program enqueued
 * before the marker, also on an out-of-order queue (OpenCL 3.0 specification, section 5.12).
 *
 * A use is the record of a command that uses a buffer.  After the program has released a buffer,
 * the buffer waits for the commands of its uses: the layer destroys the buffer when these commands
 * are done. */

#include "layer-private.h"

/* A released buffer waits for its uses (the records of commands that use it).  A queue gets a new
 * marker when MANY_WAITS such uses come after its last marker, or when the buffers of these uses
 * have MANY_BYTES bytes. */
#define MANY_WAITS 64
#define MANY_BYTES ((gsize) 16 << 20)

/* The record of a marker on a queue. */
typedef struct
{
  cl_event event; /* a reference to the marker command's event */
  /* All commands of the queue up to this number are done when @event completes. */
  guint64 number;
  guint references; /* atomic: references, 1 for the queue's list and 1 for each thread that uses
                       the marker */
  gpointer ticket;  /* atomic: the argument of the driver's callback; NULL if no callback is set */
} LayerMarker;

void
_tarn_layer_release_event (cl_event event)
{
  static gboolean once;

  if (_tarn_layer_driver->clReleaseEvent (event) != CL_SUCCESS)
    _tarn_layer_warn (&once, "clReleaseEvent failed: an event may be lost");
}

/* Adds a user of the driver's queue, so that the queue stays alive during a call.  Returns FALSE if
 * the layer has already released the queue to the driver. */
static gboolean
try_add_user (LayerQueue *self)
{
  guint n = __atomic_load_n (&self->users, __ATOMIC_RELAXED);

  while (n > 0
         && !__atomic_compare_exchange_n (&self->users, &n, n + 1, FALSE, __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED))
    ;
  return n > 0;
}

void
_tarn_layer_queue_drop_user (LayerQueue *self)
{
  static gboolean once;
  guint n = __atomic_fetch_sub (&self->users, 1, __ATOMIC_ACQ_REL);

  g_assert (n > 0);
  if (n == 1 && _tarn_layer_driver->clReleaseCommandQueue (self->base.handle) != CL_SUCCESS)
    _tarn_layer_warn (&once, "clReleaseCommandQueue failed: a queue may be lost");
}

/* Returns TRUE if the command with this number comes after the queue's last marker.  The caller
 * holds the queue's lock. */
static gboolean
is_behind_locked (LayerQueue *self, guint64 number)
{
  const LayerMarker *last = g_queue_peek_tail (&self->markers);

  _tarn_assert_locked (&self->lock);
  return last == NULL || number > last->number;
}

/* Returns TRUE if the first and last elements of the queue's lists, and the counters, satisfy the
 * queue's invariants.  The caller holds the queue's lock. */
static gboolean G_GNUC_UNUSED
are_lists_valid_locked (LayerQueue *self)
{
  const LayerUse *first = g_queue_peek_head (&self->waiting);
  const LayerUse *last = g_queue_peek_tail (&self->waiting);
  const LayerMarker *first_marker = g_queue_peek_head (&self->markers);
  const LayerMarker *last_marker = g_queue_peek_tail (&self->markers);

  _tarn_assert_locked (&self->lock);
  return _tarn_layer_queue_get_enqueued (self) >= self->done
         && (first == NULL || (first->number > self->done && first->number <= last->number))
         && (first_marker == NULL || first_marker->number <= last_marker->number)
         && self->n_behind <= self->waiting.length
         && (self->n_behind > 0) == (last != NULL && is_behind_locked (self, last->number))
         && (self->n_behind > 0 || self->bytes_behind == 0);
}

/* Adds a use to the counts of uses that come after the queue's last marker, or subtracts it if
 * @more is FALSE.  A use is the record of a command that uses a buffer which the program has
 * released.  The caller holds the queue's lock. */
static void
count_behind_locked (LayerQueue *self, const LayerUse *use, gboolean more)
{
  gsize size = use->buffer->size;

  __atomic_store_n (&self->n_behind, more ? self->n_behind + 1 : self->n_behind - 1,
                    __ATOMIC_RELAXED);
  __atomic_store_n (&self->bytes_behind,
                    more ? self->bytes_behind + size : self->bytes_behind - size, __ATOMIC_RELAXED);
}

/* Sets n_behind and bytes_behind, the counts of uses (records of commands) that come after the last
 * marker, from the list @waiting.  Call this when another marker has become the last one.  The
 * caller holds the queue's lock. */
static void
recount_behind_locked (LayerQueue *self)
{
  __atomic_store_n (&self->n_behind, 0, __ATOMIC_RELAXED);
  __atomic_store_n (&self->bytes_behind, 0, __ATOMIC_RELAXED);
  for (GList *link = self->waiting.tail;
       link != NULL && is_behind_locked (self, ((LayerUse *) link->data)->number);
       link = link->prev)
    count_behind_locked (self, link->data, TRUE);
}

/* Makes the record of a marker, and adds it to the queue's list.  Returns a second reference to the
 * record, for the caller. */
static LayerMarker *
add_marker (LayerQueue *self, cl_event event, guint64 number)
{
  LayerMarker *marker = g_new (LayerMarker, 1);
  GList *link;

  *marker = (LayerMarker){ event, number, 2, NULL };
  {
    TARN_LOCKED (&self->lock);

    /* Another thread may have put a marker with a larger number into the list meanwhile.  So find
     * the position that keeps the list in the order of the markers' numbers. */
    for (link = self->markers.tail; link != NULL && ((LayerMarker *) link->data)->number > number;)
      link = link->prev;
    g_queue_insert_after (&self->markers, link, marker);
    recount_behind_locked (self);
    g_assert (are_lists_valid_locked (self));
  }
  return marker;
}

/* Returns a reference to the queue's last marker if @last is TRUE, or to its first marker if @last
 * is FALSE.  The marker stays in the queue's list.  Returns NULL if the queue has no marker. */
static LayerMarker *
get_marker (LayerQueue *self, gboolean last)
{
  TARN_LOCKED (&self->lock);
  LayerMarker *marker
      = last ? g_queue_peek_tail (&self->markers) : g_queue_peek_head (&self->markers);

  if (marker != NULL)
    __atomic_add_fetch (&marker->references, 1, __ATOMIC_RELAXED);
  return marker;
}

static void
marker_unref (gpointer data)
{
  LayerMarker *marker = data;
  guint n = __atomic_fetch_sub (&marker->references, 1, __ATOMIC_ACQ_REL);

  g_assert (n > 0);
  if (n > 1)
    return;
  if (marker->ticket != NULL)
    _tarn_layer_unref (_tarn_layer_ticket_take (marker->ticket));
  _tarn_layer_release_event (marker->event);
  g_free (marker);
}

/* Records that the queue's commands up to @number are done.  Moves the uses (records of commands)
 * up to this number from the queue's lists to @uses, and the markers up to this number to
 * @markers.  The caller then calls _tarn_layer_use_end_wait () for each use in @uses, so that the
 * released buffer does not wait for this command any more.  The caller also drops the references in
 * @markers. */
static void
take_done (LayerQueue *self, guint64 number, GQueue *uses, GQueue *markers)
{
  TARN_LOCKED (&self->lock);

  if (!_tarn_layer_queue_is_done (self, number))
    __atomic_store_n (&self->done, number, __ATOMIC_RELEASE);
  while (self->waiting.head != NULL && ((LayerUse *) self->waiting.head->data)->number <= number)
    {
      GList *link = g_queue_pop_head_link (&self->waiting);
      const LayerUse *use = link->data;

      if (is_behind_locked (self, use->number))
        count_behind_locked (self, use, FALSE);
      g_queue_push_tail_link (uses, link);
    }
  while (self->markers.head != NULL && ((LayerMarker *) self->markers.head->data)->number <= number)
    g_queue_push_tail_link (markers, g_queue_pop_head_link (&self->markers));
  _tarn_layer_take_waiters_locked (self, number, uses);
  g_assert (are_lists_valid_locked (self));
}

/* Returns TRUE if the queue takes no more commands. */
static gboolean
is_closed (LayerQueue *self)
{
  return __atomic_load_n (&self->closed, __ATOMIC_ACQUIRE);
}

/* Returns TRUE if the queue takes no more commands, its markers are done, and no released buffer
 * waits for its commands. */
static gboolean
is_over (LayerQueue *self)
{
  TARN_LOCKED (&self->lock);

  return self->closed && self->waiting.length == 0 && self->markers.length == 0
         && self->waiters.length == 0;
}

void
_tarn_layer_queue_end_if_over (LayerQueue *self)
{
  /* Check @closed without the lock first.  If another thread closes the queue just after this
   * check, that thread polls the queue later, and the poll calls this function again. */
  if (is_closed (self) && is_over (self))
    _tarn_layer_context_drop_queue (self->context, self);
}

void
_tarn_layer_queue_set_done (LayerQueue *self, guint64 number)
{
  GQueue uses = G_QUEUE_INIT, markers = G_QUEUE_INIT;
  GList *link;

  take_done (self, number, &uses, &markers);
  g_queue_clear_full (&markers, marker_unref);
  while ((link = g_queue_pop_head_link (&uses)) != NULL)
    _tarn_layer_use_end_wait (link->data);
  _tarn_layer_queue_end_if_over (self);
}

gboolean
_tarn_layer_queue_add_waiting (LayerUse *use)
{
  LayerQueue *self = use->queue;
  TARN_LOCKED (&self->lock);

  /* Hold the lock from this check until the use is in @waiting.  Otherwise another thread could
   * record the commands as done before the use is in @waiting, and so not take this use.  If the
   * queue is closed, perhaps no thread would ever take this use, and its buffer would wait
   * forever. */
  if (_tarn_layer_queue_is_done (self, use->number))
    return FALSE;
  use->number = _tarn_layer_queue_get_enqueued (self);
  g_queue_push_tail_link (&self->waiting, &use->link);
  if (is_behind_locked (self, use->number))
    count_behind_locked (self, use, TRUE);
  g_assert (are_lists_valid_locked (self));
  return TRUE;
}

/* Returns TRUE if the queue needs a marker: a released buffer waits for commands that come after
 * the last marker, and the queue is not closed. */
static gboolean
lacks_marker (LayerQueue *self)
{
  TARN_LOCKED (&self->lock);

  return !self->closed && self->n_behind > 0;
}

static gboolean
is_finishing (LayerQueue *self)
{
  return __atomic_load_n (&self->finishing, __ATOMIC_ACQUIRE);
}

/* The function of a thread that finish_aside () starts: waits for all commands of a queue.  If
 * clFinish () succeeds, released buffers do not wait for these commands any more. */
static gpointer
finish (gpointer data)
{
  LAYER_AUTO LayerQueue *self = data;
  static gboolean once;
  guint64 number = _tarn_layer_queue_get_enqueued (self);
  cl_int status = _tarn_layer_driver->clFinish (self->base.handle);

  __atomic_store_n (&self->finishing, FALSE, __ATOMIC_RELEASE);
  if (status == CL_SUCCESS)
    {
      _tarn_layer_queue_set_done (self, number);
      _tarn_layer_queue_put_marker (self, TRUE);
    }
  else
    _tarn_layer_warn (&once, "clFinish failed: buffers may be lost");
  _tarn_layer_queue_drop_user (self);
  return NULL;
}

/* Starts a thread that waits for all commands of the queue.  Returns FALSE if that fails. */
static gboolean
start_finishing (LayerQueue *self)
{
  static gboolean once;
  GThread *thread;

  if (!try_add_user (self))
    return FALSE;
  thread = g_thread_try_new ("tarn-layer", finish, _tarn_layer_ref (self), NULL);
  if (thread != NULL)
    {
      g_thread_unref (thread);
      return TRUE;
    }
  _tarn_layer_warn (&once, "no thread can wait for a queue: its buffers are freed later, or lost");
  _tarn_layer_queue_drop_user (self);
  _tarn_layer_unref (self);
  return FALSE;
}

/* Starts a thread that calls clFinish (), which waits for all commands of the queue.  Call this
 * when a marker has failed, or when the driver refuses a marker.  New markers do not help after a
 * command has failed: a marker may fail at once, and later markers may complete, while other
 * commands still run.  If no thread can be started, the next poll that finds a failed marker tries
 * again. */
static void
finish_aside (LayerQueue *self)
{
  if (!__atomic_exchange_n (&self->finishing, TRUE, __ATOMIC_ACQ_REL) && !start_finishing (self))
    __atomic_store_n (&self->finishing, FALSE, __ATOMIC_RELEASE);
}

/* Returns TRUE if the commands before a marker are certainly done when the marker is done.  This is
 * so until the program makes a user event fail (LayerContext.has_failed). */
static gboolean
trusts_markers (LayerQueue *self)
{
  return !__atomic_load_n (&self->context->has_failed, __ATOMIC_ACQUIRE);
}

/* Returns the state of a marker: CL_COMPLETE, a larger value if it is not done, or a negative
 * error.  Also returns an error if the marker is done, but earlier commands may not be done: see
 * trusts_markers ().  @reached: see poll (). */
static cl_int
get_marker_state (LayerQueue *self, const LayerMarker *marker, cl_event reached)
{
  cl_int state = marker->event == reached ? CL_COMPLETE : _tarn_layer_get_state (marker->event);

  return state == CL_COMPLETE && !trusts_markers (self) ? CL_OUT_OF_RESOURCES : state;
}

/* Polls a queue: asks the driver which markers are done, the oldest first, until it finds one that
 * is not done.  Then polls the queue's waiters (waiter.c).  @reached: the event of a done marker if
 * the driver is calling back for that marker, otherwise NULL.  The function does not ask about
 * @reached, because rusticl of Mesa 22.3 calls back while it holds a lock that the query needs. */
static void
poll (LayerQueue *self, cl_event reached)
{
  LayerMarker *marker;
  cl_int state = CL_COMPLETE;

  while (state == CL_COMPLETE && !is_finishing (self)
         && (marker = get_marker (self, FALSE)) != NULL)
    {
      state = get_marker_state (self, marker, reached);
      if (state == CL_COMPLETE)
        _tarn_layer_queue_set_done (self, marker->number);
      else if (state < CL_COMPLETE)
        finish_aside (self);
      marker_unref (marker);
    }
  _tarn_layer_poll_waiters (self);
  _tarn_layer_queue_end_if_over (self);
}

void
_tarn_layer_queue_poll (LayerQueue *self)
{
  poll (self, NULL);
}

/* The driver's callback for a marker that is done or has failed. */
static void CL_CALLBACK
on_marker (cl_event event, cl_int status, void *ticket)
{
  LAYER_AUTO LayerQueue *self = _tarn_layer_ticket_take (ticket);

  if (self == NULL)
    return;
  if (status < CL_COMPLETE)
    finish_aside (self);
  else
    poll (self, event);
}

/* Asks the driver to call back when a marker is done. */
static void
set_callback (LayerQueue *self, LayerMarker *marker)
{
  gpointer none = NULL, ticket = _tarn_layer_ticket_new (self);

  if (!__atomic_compare_exchange_n (&marker->ticket, &none, ticket, FALSE, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
    /* drop the ticket: another thread has set the callback */
    _tarn_layer_unref (_tarn_layer_ticket_take (ticket));
  else if (_tarn_layer_driver->clSetEventCallback (marker->event, CL_COMPLETE, on_marker, ticket)
           != CL_SUCCESS)
    finish_aside (self);
}

/* Puts a marker on a queue.  The caller makes sure that no other thread releases the driver's queue
 * during the call.  @notify: TRUE if the driver shall call back when the marker is done.  Returns
 * FALSE if the driver refuses the marker. */
static gboolean
put_marker_on (LayerQueue *self, gboolean notify)
{
  /* Read the latest command's number before the marker is enqueued.  Commands with later numbers
   * may come after the marker, so they need not be done when the marker is done. */
  guint64 number = _tarn_layer_queue_get_enqueued (self);
  cl_event event = NULL;
  LayerMarker *marker;

  if (_tarn_layer_driver->clEnqueueMarkerWithWaitList (self->base.handle, 0, NULL, &event)
      != CL_SUCCESS)
    return FALSE;
  marker = add_marker (self, event, number);
  if (notify)
    {
      set_callback (self, marker);
      /* Some drivers run no command before a flush.  The program may have flushed its own commands,
       * and wait now for a destructor callback.  The layer calls that callback when this marker is
       * done.  So flush the queue here. */
      _tarn_layer_driver->clFlush (self->base.handle);
    }
  marker_unref (marker);
  return TRUE;
}

/* Puts a marker on a queue that another thread may release during the call.  @notify: TRUE if the
 * driver shall call back when the marker is done.  Returns FALSE if the queue has been released, or
 * if the driver refuses the marker. */
static gboolean
put_marker (LayerQueue *self, gboolean notify)
{
  gboolean put;

  if (!try_add_user (self))
    return FALSE;
  put = put_marker_on (self, notify);
  if (!put && notify)
    finish_aside (self);
  _tarn_layer_queue_drop_user (self);
  return put;
}

/* Asks the driver to call back when the last marker of a closed queue is done. */
static void
notify_at_last_marker (LayerQueue *self)
{
  LayerMarker *last = get_marker (self, TRUE);

  if (last == NULL)
    return;
  set_callback (self, last);
  marker_unref (last);
}

/* Returns TRUE if released buffers wait for commands of the queue. */
static gboolean
has_waiting (LayerQueue *self)
{
  TARN_LOCKED (&self->lock);

  return self->waiting.length > 0 || self->waiters.length > 0;
}

void
_tarn_layer_queue_put_marker (LayerQueue *self, gboolean notify)
{
  if (notify && is_closed (self))
    notify_at_last_marker (self);
  else if (notify ? has_waiting (self) : lacks_marker (self))
    put_marker (self, notify);
}

/* Returns TRUE if many released buffers, or buffers with many bytes in all, wait for commands that
 * come after the queue's last marker.  Then the queue needs a new marker. */
static gboolean
has_many (LayerQueue *self)
{
  return __atomic_load_n (&self->n_behind, __ATOMIC_RELAXED) >= MANY_WAITS
         || __atomic_load_n (&self->bytes_behind, __ATOMIC_RELAXED) >= MANY_BYTES;
}

void
_tarn_layer_queue_put_marker_if_many (LayerQueue *self)
{
  if (has_many (self))
    _tarn_layer_queue_put_marker (self, FALSE);
}

cl_int
_tarn_layer_get_state (cl_event event)
{
  cl_int state = CL_QUEUED;

  _tarn_layer_driver->clGetEventInfo (event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state,
                                      &state, NULL);
  return state;
}

gboolean
_tarn_layer_queue_finish (LayerQueue *self)
{
  guint64 number = _tarn_layer_queue_get_enqueued (self);
  cl_int status;

  if (_tarn_layer_queue_is_done (self, number) || !try_add_user (self))
    return FALSE;
  status = _tarn_layer_driver->clFinish (self->base.handle);
  _tarn_layer_queue_drop_user (self);
  if (status == CL_SUCCESS)
    _tarn_layer_queue_set_done (self, number);
  return status == CL_SUCCESS;
}

/* The times, in microseconds, after which a request for memory stops waiting for a queue on which
 * no command completes.  PATIENCE is the usual time.  SHORT_PATIENCE is the time if the last
 * request that waited for the queue gave up.  The wait has a limit because it could be a
 * deadlock: the queue may be waiting for a callback of the program, and the callback for a mutex
 * that this thread holds. */
#define PATIENCE (10 * G_TIME_SPAN_SECOND)
#define SHORT_PATIENCE (G_TIME_SPAN_SECOND / 100)

/* Waits for a marker.  Gives up if no command of the queue completes for too long: see PATIENCE.
 * Returns TRUE if the marker is done. */
static gboolean
await_patiently (LayerQueue *self, cl_event marker)
{
  gint64 patience = __atomic_load_n (&self->is_stuck, __ATOMIC_RELAXED) ? SHORT_PATIENCE : PATIENCE;
  gint64 end = g_get_monotonic_time () + patience;
  guint64 done = __atomic_load_n (&self->done, __ATOMIC_ACQUIRE), now_done;
  cl_int state;

  while ((state = _tarn_layer_get_state (marker)) > CL_COMPLETE && g_get_monotonic_time () < end)
    {
      g_usleep (50);
      _tarn_layer_queue_poll (self);
      now_done = __atomic_load_n (&self->done, __ATOMIC_ACQUIRE);
      if (now_done != done)
        end = g_get_monotonic_time () + PATIENCE;
      done = now_done;
    }
  __atomic_store_n (&self->is_stuck, state > CL_COMPLETE, __ATOMIC_RELAXED);
  return state == CL_COMPLETE;
}

gboolean
_tarn_layer_queue_wait (LayerQueue *self)
{
  LayerMarker *marker;
  gboolean waited;

  /* On an out-of-order queue, buffers wait for the events of commands, so usually no marker is
   * needed.  But this function waits for the last marker, so put a marker if buffers wait. */
  if (__atomic_load_n (&self->in_order, __ATOMIC_ACQUIRE))
    _tarn_layer_queue_put_marker (self, FALSE);
  else if (has_waiting (self))
    put_marker (self, FALSE);
  marker = get_marker (self, TRUE);
  if (marker == NULL)
    return FALSE;
  /* Put the marker on the queue before asking if the host may wait.  The layer counts a user event
   * before the driver makes the event.  So if all counted user events are complete now, no command
   * before the marker waits for a user event that is not complete. */
  if (!_tarn_layer_context_may_wait (self->context))
    {
      marker_unref (marker);
      return FALSE;
    }
  if (try_add_user (self))
    {
      _tarn_layer_driver->clFlush (self->base.handle);
      _tarn_layer_queue_drop_user (self);
    }
  waited = await_patiently (self, marker->event);
  _tarn_layer_queue_poll (self);
  marker_unref (marker);
  return waited;
}

void
_tarn_layer_queue_put_last_marker (LayerQueue *self)
{
  if (!put_marker (self, __atomic_load_n (&self->context->ended, __ATOMIC_ACQUIRE)))
    finish_aside (self);
}

void
_tarn_layer_queue_clear_markers (LayerQueue *self)
{
  g_queue_clear_full (&self->markers, marker_unref);
}
