/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Queues.  A marker is done when all commands are that were put on the queue before it, whether it
 * runs them in order or not (OpenCL 3.0 specification, section 5.12). */

#include "layer-private.h"

/* For so many buffers, or bytes of them, a marker is worth it. */
#define MANY_WAITS 16
#define MANY_BYTES ((gsize) 16 << 20)

typedef struct
{
  LayerBuffer *buffer; /* a reference */
  guint64 number;      /* the queue's latest command's when it began to wait */
} LayerWait;

typedef struct
{
  cl_event event;   /* a reference */
  guint64 number;   /* commands up to it are done when the event is */
  guint references; /* atomic: the queue's, and of who asks the driver about it */
  gpointer ticket;  /* atomic: of the driver's call when it is reached; NULL: it is not to call */
} LayerMark;

void
_tarn_layer_release_event (cl_event event)
{
  static gboolean once;

  if (_tarn_layer_driver->clReleaseEvent (event) != CL_SUCCESS)
    _tarn_layer_warn (&once, "clReleaseEvent failed: an event may be lost");
}

/* Keeps the driver's queue for the time of a call; FALSE: it is gone. */
static gboolean
keep (LayerQueue *self)
{
  guint n = __atomic_load_n (&self->users, __ATOMIC_RELAXED);

  while (n > 0
         && !__atomic_compare_exchange_n (&self->users, &n, n + 1, FALSE, __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED))
    ;
  return n > 0;
}

void
_tarn_layer_queue_leave (LayerQueue *self)
{
  static gboolean once;

  if (__atomic_sub_fetch (&self->users, 1, __ATOMIC_ACQ_REL) == 0
      && _tarn_layer_driver->clReleaseCommandQueue (self->base.handle) != CL_SUCCESS)
    _tarn_layer_warn (&once, "clReleaseCommandQueue failed: a queue may be lost");
}

/* Gets a reference to it, besides the queue's. */
static LayerMark *
add_mark (LayerQueue *self, cl_event event, guint64 number)
{
  LayerMark *mark = g_new (LayerMark, 1);
  GList *link;

  *mark = (LayerMark){ event, number, 2, NULL };
  {
    LAYER_LOCKED (&self->lock);

    /* Two threads may have put markers on the queue at once. */
    for (link = self->marks.tail; link != NULL && ((LayerMark *) link->data)->number > number;)
      link = link->prev;
    g_queue_insert_after (&self->marks, link, mark);
  }
  return mark;
}

/* Gets a reference to the mark that is reached first, or last, which stays for others to see; NULL:
 * there is none. */
static LayerMark *
get_mark (LayerQueue *self, gboolean last)
{
  LAYER_LOCKED (&self->lock);
  LayerMark *mark = last ? g_queue_peek_tail (&self->marks) : g_queue_peek_head (&self->marks);

  if (mark != NULL)
    __atomic_add_fetch (&mark->references, 1, __ATOMIC_RELAXED);
  return mark;
}

static void
mark_unref (gpointer data)
{
  LayerMark *mark = data;

  if (__atomic_sub_fetch (&mark->references, 1, __ATOMIC_ACQ_REL) > 0)
    return;
  if (mark->ticket != NULL)
    _tarn_layer_unref (_tarn_layer_ticket_take (mark->ticket));
  _tarn_layer_release_event (mark->event);
  g_free (mark);
}

/* Takes from the queue what all commands up to a number being done is the end of. */
static void
take_done (LayerQueue *self, guint64 number, GSList **buffers, GSList **marks, GSList **waiters)
{
  LAYER_LOCKED (&self->lock);

  if (!_tarn_layer_queue_is_done (self, number))
    __atomic_store_n (&self->done, number, __ATOMIC_RELEASE);
  while (self->waiting.head != NULL && ((LayerWait *) self->waiting.head->data)->number <= number)
    {
      LayerWait *wait = g_queue_pop_head (&self->waiting);

      *buffers = g_slist_prepend (*buffers, wait->buffer);
      g_free (wait);
    }
  while (self->marks.head != NULL && ((LayerMark *) self->marks.head->data)->number <= number)
    *marks = g_slist_prepend (*marks, g_queue_pop_head (&self->marks));
  *waiters = _tarn_layer_take_waiters_locked (self, number);
}

static gboolean
is_over (LayerQueue *self)
{
  LAYER_LOCKED (&self->lock);

  return self->closed && self->waiting.length == 0 && self->marks.length == 0
         && self->waiters.length == 0;
}

void
_tarn_layer_queue_end_if_over (LayerQueue *self)
{
  if (is_over (self))
    _tarn_layer_context_drop_queue (self->context, self);
}

void
_tarn_layer_queue_set_done (LayerQueue *self, guint64 number)
{
  GSList *buffers = NULL, *marks = NULL, *waiters = NULL;

  take_done (self, number, &buffers, &marks, &waiters);
  g_slist_free_full (marks, mark_unref);
  buffers = g_slist_reverse (buffers);
  for (GSList *link = buffers; link != NULL; link = link->next)
    _tarn_layer_buffer_commands_done (link->data);
  g_slist_free_full (buffers, _tarn_layer_unref);
  _tarn_layer_settle_waiters (waiters);
  _tarn_layer_queue_end_if_over (self);
}

gboolean
_tarn_layer_queue_add_waiting (LayerQueue *self, LayerBuffer *buffer, guint64 number)
{
  g_autofree LayerWait *wait = g_new (LayerWait, 1);
  LAYER_LOCKED (&self->lock);

  /* Under the lock: nobody takes the waits of a closed queue that is done. */
  if (_tarn_layer_queue_is_done (self, number))
    return FALSE;
  *wait = (LayerWait){ _tarn_layer_ref (buffer), _tarn_layer_queue_get_enqueued (self) };
  g_queue_push_tail (&self->waiting, g_steal_pointer (&wait));
  return TRUE;
}

/* Tells whether something waits that no mark is for. */
static gboolean
lacks_mark (LayerQueue *self)
{
  LAYER_LOCKED (&self->lock);
  const LayerMark *last = g_queue_peek_tail (&self->marks);
  const LayerWait *newest = g_queue_peek_tail (&self->waiting);

  return !self->closed && newest != NULL && (last == NULL || last->number < newest->number);
}

static gboolean
is_finishing (LayerQueue *self)
{
  return __atomic_load_n (&self->finishing, __ATOMIC_ACQUIRE);
}

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
      _tarn_layer_queue_mark (self, TRUE);
    }
  else
    _tarn_layer_warn (&once, "clFinish failed: buffers may be lost");
  _tarn_layer_queue_leave (self);
  return NULL;
}

/* Starts a thread that waits for all commands; FALSE: none can be made. */
static gboolean
start_finishing (LayerQueue *self)
{
  static gboolean once;
  GThread *thread;

  if (!keep (self))
    return FALSE;
  thread = g_thread_try_new ("tarn-layer", finish, _tarn_layer_ref (self), NULL);
  if (thread != NULL)
    {
      g_thread_unref (thread);
      return TRUE;
    }
  _tarn_layer_warn (&once, "no thread can wait for a queue: its buffers are freed later, or lost");
  _tarn_layer_queue_leave (self);
  _tarn_layer_unref (self);
  return FALSE;
}

/* Waits for all commands in a thread of its own, with clFinish ().  A marker does not do: it fails
 * as soon as a command before it fails, while others go on, and later markers may not wait for
 * these.  If no thread can be made, markers count again, and the next look at one that failed tries
 * once more. */
static void
finish_aside (LayerQueue *self)
{
  if (!__atomic_exchange_n (&self->finishing, TRUE, __ATOMIC_ACQ_REL) && !start_finishing (self))
    __atomic_store_n (&self->finishing, FALSE, __ATOMIC_RELEASE);
}

/* Looks which markers are reached.  @reached: nullable; the event of one that is, as far as no
 * earlier one failed.  The driver is not asked about it: rusticl of Mesa 22.3 calls back with a
 * lock that it would wait for. */
static void
look (LayerQueue *self, cl_event reached)
{
  LayerMark *mark;
  cl_int state = CL_COMPLETE;

  while (state == CL_COMPLETE && !is_finishing (self) && (mark = get_mark (self, FALSE)) != NULL)
    {
      state = mark->event == reached ? CL_COMPLETE : _tarn_layer_get_state (mark->event);
      if (state == CL_COMPLETE)
        _tarn_layer_queue_set_done (self, mark->number);
      else if (state < CL_COMPLETE)
        finish_aside (self);
      mark_unref (mark);
    }
  _tarn_layer_look_at_waiters (self);
  _tarn_layer_queue_end_if_over (self);
}

void
_tarn_layer_queue_look (LayerQueue *self)
{
  look (self, NULL);
}

/* The driver's: what was put on the queue before the marker is done, or something failed. */
static void CL_CALLBACK
on_mark (cl_event event, cl_int status, void *ticket)
{
  LAYER_AUTO LayerQueue *self = _tarn_layer_ticket_take (ticket);

  if (self == NULL)
    return;
  if (status < CL_COMPLETE)
    finish_aside (self);
  else
    look (self, event);
}

/* Has the driver call when a mark is reached. */
static void
have_notified (LayerQueue *self, LayerMark *mark)
{
  gpointer none = NULL, ticket = _tarn_layer_ticket_new (self);

  if (!__atomic_compare_exchange_n (&mark->ticket, &none, ticket, FALSE, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
    _tarn_layer_unref (_tarn_layer_ticket_take (ticket)); /* it is to call already */
  else if (_tarn_layer_driver->clSetEventCallback (mark->event, CL_COMPLETE, on_mark, ticket)
           != CL_SUCCESS)
    finish_aside (self);
}

/* Puts a marker on a queue that the driver has; FALSE: it does not. */
static gboolean
put_mark_on (LayerQueue *self, gboolean notify)
{
  /* First: what is enqueued meanwhile may be behind the marker. */
  guint64 number = _tarn_layer_queue_get_enqueued (self);
  cl_event event = NULL;
  LayerMark *mark;

  if (_tarn_layer_driver->clEnqueueMarkerWithWaitList (self->base.handle, 0, NULL, &event)
      != CL_SUCCESS)
    return FALSE;
  mark = add_mark (self, event, number);
  if (notify)
    have_notified (self, mark);
  mark_unref (mark);
  return TRUE;
}

/* The same for a queue that another thread may release meanwhile. */
static gboolean
put_mark (LayerQueue *self, gboolean notify)
{
  gboolean put;

  if (!keep (self))
    return FALSE;
  put = put_mark_on (self, notify);
  if (!put && notify)
    finish_aside (self);
  _tarn_layer_queue_leave (self);
  return put;
}

/* The driver's call for a queue that takes no more markers. */
static void
notify_of_last (LayerQueue *self)
{
  LayerMark *last = get_mark (self, TRUE);

  if (last == NULL)
    return;
  have_notified (self, last);
  mark_unref (last);
}

static gboolean
is_closed (LayerQueue *self)
{
  LAYER_LOCKED (&self->lock);

  return self->closed;
}

static gboolean
has_waiting (LayerQueue *self)
{
  LAYER_LOCKED (&self->lock);

  return self->waiting.length > 0 || self->waiters.length > 0;
}

void
_tarn_layer_queue_mark (LayerQueue *self, gboolean notify)
{
  if (notify && is_closed (self))
    notify_of_last (self);
  else if (notify ? has_waiting (self) : lacks_mark (self))
    put_mark (self, notify);
}

/* Tells whether more waits behind the last mark than should be kept. */
static gboolean
has_many (LayerQueue *self)
{
  LAYER_LOCKED (&self->lock);
  const LayerMark *last = g_queue_peek_tail (&self->marks);
  gsize bytes = 0;
  guint n = 0;

  for (GList *link = self->waiting.tail; link != NULL && n < MANY_WAITS && bytes < MANY_BYTES;
       link = link->prev)
    {
      const LayerWait *wait = link->data;

      if (last != NULL && wait->number <= last->number)
        break;
      bytes += wait->buffer->size;
      n++;
    }
  return n >= MANY_WAITS || bytes >= MANY_BYTES;
}

void
_tarn_layer_queue_mark_now_and_then (LayerQueue *self)
{
  if (has_many (self))
    _tarn_layer_queue_mark (self, FALSE);
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

  if (_tarn_layer_queue_is_done (self, number) || !keep (self))
    return FALSE;
  status = _tarn_layer_driver->clFinish (self->base.handle);
  _tarn_layer_queue_leave (self);
  if (status == CL_SUCCESS)
    _tarn_layer_queue_set_done (self, number);
  return status == CL_SUCCESS;
}

gboolean
_tarn_layer_queue_wait (LayerQueue *self)
{
  LayerMark *mark;
  gboolean waited;
  cl_int status;

  /* Out of order, buffers wait for their own commands. */
  if (!__atomic_load_n (&self->in_order, __ATOMIC_ACQUIRE))
    return _tarn_layer_queue_finish (self);
  _tarn_layer_queue_mark (self, FALSE);
  mark = get_mark (self, TRUE);
  if (mark == NULL)
    return FALSE;
  if (keep (self))
    {
      _tarn_layer_driver->clFlush (self->base.handle);
      _tarn_layer_queue_leave (self);
    }
  status = _tarn_layer_driver->clWaitForEvents (1, &mark->event);
  waited = status == CL_SUCCESS;
  _tarn_layer_queue_look (self);
  mark_unref (mark);
  return waited;
}

/* The program's queues */

static void
queue_finalize (gpointer record)
{
  LayerQueue *self = record;

  /* Where the driver took no marker, buffers may be left that wait for ever. */
  g_queue_clear_full (&self->marks, mark_unref);
  _tarn_layer_unref (self->context);
  _tarn_mutex_clear (&self->lock);
  g_free (self);
}

/* Lists a queue that the driver has made, unless it is one of a device's. */
static void
add_queue (cl_command_queue handle, cl_context context_handle)
{
  LAYER_AUTO LayerContext *context = _tarn_layer_find (LAYER_CONTEXT, context_handle);
  LAYER_AUTO LayerQueue *self = NULL;
  cl_command_queue_properties properties = 0;

  if (context == NULL || context->device == NULL)
    return;
  /* A queue that cannot be asked may be anything: out of order is the more careful guess. */
  if (_tarn_layer_driver->clGetCommandQueueInfo (handle, CL_QUEUE_PROPERTIES, sizeof properties,
                                                 &properties, NULL)
      != CL_SUCCESS)
    properties = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
  if ((properties & CL_QUEUE_ON_DEVICE) != 0)
    return;
  self = g_new0 (LayerQueue, 1);
  self->base = (LayerObject){ LAYER_QUEUE, 1, 1, handle, queue_finalize };
  self->users = 1;
  self->context = _tarn_layer_ref (context);
  self->in_order = (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0;
  _tarn_mutex_init (&self->lock);
  g_queue_init (&self->waiting);
  g_queue_init (&self->marks);
  g_queue_init (&self->waiters);
  _tarn_layer_list (self);
  _tarn_layer_context_add_queue (context, self, self->in_order);
}

cl_command_queue CL_API_CALL
layer_clCreateCommandQueue (cl_context context, cl_device_id device,
                            cl_command_queue_properties properties, cl_int *status)
{
  cl_command_queue queue
      = _tarn_layer_driver->clCreateCommandQueue (context, device, properties, status);

  if (queue != NULL)
    add_queue (queue, context);
  return queue;
}

cl_command_queue CL_API_CALL
layer_clCreateCommandQueueWithProperties (cl_context context, cl_device_id device,
                                          const cl_queue_properties *properties, cl_int *status)
{
  cl_command_queue queue = _tarn_layer_driver->clCreateCommandQueueWithProperties (
      context, device, properties, status);

  if (queue != NULL)
    add_queue (queue, context);
  return queue;
}

/* Only drivers of OpenCL 1.0 do it. */
cl_int CL_API_CALL
layer_clSetCommandQueueProperty (cl_command_queue queue, cl_command_queue_properties properties,
                                 cl_bool enable, cl_command_queue_properties *old)
{
  LAYER_AUTO LayerQueue *self = _tarn_layer_find (LAYER_QUEUE, queue);

  if (self != NULL && (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0)
    {
      _tarn_layer_context_end_one_queue (self->context, self);
      __atomic_store_n (&self->in_order, FALSE, __ATOMIC_RELEASE);
    }
  return _tarn_layer_driver->clSetCommandQueueProperty (queue, properties, enable, old);
}

cl_int CL_API_CALL
layer_clRetainCommandQueue (cl_command_queue queue)
{
  cl_int status = _tarn_layer_driver->clRetainCommandQueue (queue);
  LAYER_AUTO LayerQueue *self = _tarn_layer_find (LAYER_QUEUE, queue);

  if (self != NULL && status == CL_SUCCESS)
    _tarn_layer_hold (self);
  return status;
}

/* Puts a marker on the queue for all that is on it, or waits for that. */
static void
put_last_mark (LayerQueue *self)
{
  if (!put_mark (self, __atomic_load_n (&self->context->ended, __ATOMIC_ACQUIRE)))
    finish_aside (self);
}

/* As long as that can be done. */
static void
close_queue (LayerQueue *self)
{
  _tarn_layer_context_end_one_queue (self->context, self);
  if (!_tarn_layer_queue_is_done (self, _tarn_layer_queue_get_enqueued (self)))
    put_last_mark (self);
  /* As a release does; the driver releases the queue once that is over, and nobody uses it here. */
  _tarn_layer_driver->clFlush (self->base.handle);
  {
    LAYER_LOCKED (&self->lock);

    self->closed = TRUE;
  }
  _tarn_layer_queue_look (self);
}

cl_int CL_API_CALL
layer_clReleaseCommandQueue (cl_command_queue queue)
{
  LAYER_AUTO LayerQueue *self = _tarn_layer_find (LAYER_QUEUE, queue);

  if (self == NULL || !_tarn_layer_let_go (self))
    return _tarn_layer_driver->clReleaseCommandQueue (queue);
  _tarn_layer_unlist (self);
  close_queue (self);
  return CL_SUCCESS;
}

cl_int CL_API_CALL
layer_clFinish (cl_command_queue queue)
{
  LAYER_AUTO LayerQueue *self = _tarn_layer_find (LAYER_QUEUE, queue);
  guint64 number = self != NULL ? _tarn_layer_queue_get_enqueued (self) : 0;
  cl_int status = _tarn_layer_driver->clFinish (queue);

  if (self != NULL && status == CL_SUCCESS)
    {
      _tarn_layer_queue_set_done (self, number);
      _tarn_layer_debug_look (self->context);
    }
  return status;
}
