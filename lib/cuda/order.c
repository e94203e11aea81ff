/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Lets streams wait for each other: Tarn records an event on one stream, and another stream waits
 * for the event.
 *
 * Nothing keeps a stream alive, and the driver crashes if it is called with a destroyed stream.  So
 * Tarn records an event only on the stream that the program has just named in a call.  To wait for
 * commands on other streams, it makes the host wait for all streams of the context.
 *
 * Tarn must not end the capture of a graph.  So before it calls the driver with a stream, it asks
 * whether that stream is being captured.  Captures of other streams go on, because
 * _tarn_cuda_context_enter () relaxes the thread's capture mode, and _tarn_cuda_context_await ()
 * waits in a way that ends no capture. */

#include "common/argument-private.h"
#include "order-private.h"

/* The CUstreams of default streams are small numbers: CU_STREAM_LEGACY is 1, and
 * CU_STREAM_PER_THREAD is 2.  CU_STREAM_PER_THREAD means another stream in each thread, so a pool
 * needs a different handle for each of these streams.  Tarn numbers the threads from 1 on.  The
 * handle of thread t's default stream is t * 4 + 2. */
#define LEGACY GUINT_TO_POINTER (1)
#define PER_THREAD GUINT_TO_POINTER (2)
#define IS_PER_THREAD(handle) ((GPOINTER_TO_SIZE (handle) & 3) == 2)

/* The event that stands for commands that are already done.  It is no event of the driver, so Tarn
 * never passes it to the driver. */
#define DONE GUINT_TO_POINTER (1)

/* The maximum number of unused events that an allocator keeps. */
#define MAX_EVENTS 256

static gpointer
get_own_per_thread (void)
{
  static gsize n_threads; /* atomic; the number of threads that have a number */
  static _Thread_local gsize number;

  if (number == 0)
    number = __atomic_add_fetch (&n_threads, 1, __ATOMIC_RELAXED);
  return GSIZE_TO_POINTER (number * 4 + 2);
}

gpointer
_tarn_cuda_stream_to_handle (CUstream stream)
{
  if (stream == NULL)
    return LEGACY;
  return stream == PER_THREAD ? get_own_per_thread () : (gpointer) stream;
}

gboolean
_tarn_cuda_handle_is_known (gpointer handle)
{
  return !IS_PER_THREAD (handle) || handle == get_own_per_thread ();
}

CUstream
_tarn_cuda_stream_of_handle (gpointer handle)
{
  if (!_tarn_cuda_handle_is_known (handle))
    return (CUstream) LEGACY;
  return IS_PER_THREAD (handle) ? PER_THREAD : handle;
}

gboolean
_tarn_cuda_handle_is_legacy (gpointer handle)
{
  return handle == LEGACY;
}

/* Makes an allocator's context current by _tarn_cuda_context_enter ().  Fails with
 * TARN_ERROR_CONTEXT_LOST if the context was destroyed, and also if the driver is gone because the
 * process exits.  In either case no command runs any more. */
static gboolean
enter_home (const TarnCudaHome *home, TarnCudaScope *scope, GError **error)
{
  GError *local = NULL;

  if (_tarn_cuda_context_enter (&home->context, scope, &local))
    return TRUE;
  if (g_error_matches (local, TARN_CUDA_ERROR, TARN_CUDA_ERROR_DEINITIALIZED))
    {
      local->domain = TARN_ERROR;
      local->code = TARN_ERROR_CONTEXT_LOST;
    }
  g_propagate_error (error, local);
  return FALSE;
}

static void
leave_home (const TarnCudaHome *home, const TarnCudaScope *scope)
{
  _tarn_cuda_context_leave (&home->context, scope);
}

/* Functions that take, keep and destroy events */

gboolean
_tarn_cuda_home_init (TarnCudaHome *home, CUcontext context, GError **error)
{
  if (!_tarn_cuda_context_init (&home->context, context, error))
    return FALSE;
  _tarn_mutex_init (&home->lock);
  home->events = g_ptr_array_new ();
  return TRUE;
}

/* Logs that events could not be destroyed.  Logs nothing if the context or the driver is gone,
 * because the events no longer exist. */
static void
report_lost (guint n_events, const GError *error)
{
  if (!g_error_matches (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST)
      && !g_error_matches (error, TARN_CUDA_ERROR, TARN_CUDA_ERROR_DEINITIALIZED))
    g_message ("%s: %u CUDA events may be lost", error->message, n_events);
}

static void
destroy_events (const TarnCudaHome *home, gpointer *events, guint n)
{
  const TarnCudaDriver *driver = home->context.driver;
  g_autoptr (GError) error = NULL;
  TarnCudaScope scope;
  guint n_lost = 0;

  if (!enter_home (home, &scope, &error))
    {
      report_lost (n, error);
      return;
    }
  for (guint i = 0; i < n; i++)
    n_lost += !_tarn_cuda_check (driver, "cuEventDestroy", driver->cuEventDestroy (events[i]),
                                 error == NULL ? &error : NULL);
  leave_home (home, &scope);
  if (n_lost > 0)
    report_lost (n_lost, error);
}

void
_tarn_cuda_home_clear (TarnCudaHome *home)
{
  if (home->events->len > 0)
    destroy_events (home, home->events->pdata, home->events->len);
  g_ptr_array_unref (home->events);
  _tarn_mutex_clear (&home->lock);
  _tarn_cuda_context_clear (&home->context);
}

/* Takes an unused event of an allocator, or makes an event if there is none.  The caller has made
 * the context current. */
static CUevent
take_event (TarnCudaHome *home, GError **error)
{
  const unsigned int no_timing = 2; /* CU_EVENT_DISABLE_TIMING of <cuda.h> */
  const TarnCudaDriver *driver = home->context.driver;
  CUevent event = NULL;

  _tarn_mutex_lock (&home->lock);
  if (home->events->len > 0)
    event = g_ptr_array_remove_index_fast (home->events, home->events->len - 1);
  _tarn_mutex_unlock (&home->lock);
  if (event != NULL
      || _tarn_cuda_check (driver, "cuEventCreate", driver->cuEventCreate (&event, no_timing),
                           error))
    return event;
  return NULL;
}

static gboolean
keep_event (TarnCudaHome *home, CUevent event)
{
  gboolean is_kept;

  _tarn_mutex_lock (&home->lock);
  is_kept = home->events->len < MAX_EVENTS;
  if (is_kept)
    g_ptr_array_add (home->events, event);
  _tarn_mutex_unlock (&home->lock);
  return is_kept;
}

static void
event_release (gpointer user_data, gpointer event)
{
  TarnCudaHome *home = user_data;

  if (event != DONE && !keep_event (home, event))
    destroy_events (home, &event, 1);
}

/* Functions that order the uses of memory on streams, and the public functions */

gboolean
_tarn_cuda_check_stream (const TarnCudaContext *context, gpointer handle, GError **error)
{
  const TarnCudaDriver *driver = context->driver;
  CUcontext own = context->handle;

  if (handle == PER_THREAD)
    {
      g_set_error_literal (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                           "CU_STREAM_PER_THREAD is no queue, because it is another stream in each "
                           "thread: call tarn_cuda_stream_get_queue ()");
      return FALSE;
    }
  if (!_tarn_cuda_context_check (context, error))
    return FALSE;
  if (handle != LEGACY && !IS_PER_THREAD (handle) && driver->cuStreamGetCtx != NULL
      && !_tarn_cuda_check (driver, "cuStreamGetCtx", driver->cuStreamGetCtx (handle, &own), error))
    return FALSE;
  if (own != context->handle)
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                   "CUDA stream %p is of another context than the memory", handle);
      return FALSE;
    }
  return TRUE;
}

static gboolean
queue_ref (gpointer user_data, gpointer handle, gboolean *in_order, GError **error)
{
  const TarnCudaHome *home = user_data;

  if (!_tarn_cuda_check_stream (&home->context, handle, error))
    return FALSE;
  *in_order = TRUE;
  return TRUE;
}

static void
queue_unref (gpointer user_data, gpointer handle)
{
  (void) user_data;
  (void) handle;
}

static gboolean
check_capture (const TarnCudaHome *home, gpointer handle, GError **error)
{
  return _tarn_cuda_context_check_capture (&home->context, _tarn_cuda_stream_of_handle (handle),
                                           error);
}

/* Fails if a stream is being captured.  Succeeds if the context is gone, because no stream of that
 * context is being captured, and the caller's next driver call reports that the context is gone. */
static gboolean
check_queue (gpointer user_data, gpointer handle, GError **error)
{
  const TarnCudaHome *home = user_data;
  GError *local = NULL;
  TarnCudaScope scope;
  gboolean is_fine;

  if (!enter_home (home, &scope, &local))
    {
      is_fine = g_error_matches (local, TARN_ERROR, TARN_ERROR_CONTEXT_LOST);
      if (is_fine)
        g_error_free (local);
      else
        g_propagate_error (error, local);
      return is_fine;
    }
  is_fine = check_capture (home, handle, error);
  leave_home (home, &scope);
  return is_fine;
}

/* Records an event on a stream.  The caller has made the context current, and has checked that the
 * stream is not being captured.  Another thread may begin to capture the stream after that check.
 * Then the event is part of the captured graph, and a stream that waited for the event would
 * become part of the graph, too.  So checks again after the recording, and fails if the stream is
 * being captured. */
static gpointer
record (TarnCudaHome *home, gpointer handle, GError **error)
{
  const TarnCudaDriver *driver = home->context.driver;
  CUevent event = take_event (home, error);

  if (event == NULL)
    return NULL;
  if (_tarn_cuda_check (driver, "cuEventRecord",
                        driver->cuEventRecord (event, _tarn_cuda_stream_of_handle (handle)), error)
      && check_capture (home, handle, error))
    return event;
  event_release (home, event);
  return NULL;
}

/* Makes the host wait until all commands on all streams of the context are done.  Returns DONE, the
 * event for commands that are done already. */
static gpointer
event_record_all (gpointer user_data, GError **error)
{
  const TarnCudaHome *home = user_data;
  TarnCudaScope scope;
  gboolean is_done;

  if (!enter_home (home, &scope, error))
    return NULL;
  is_done = _tarn_cuda_context_await (&home->context, error);
  leave_home (home, &scope);
  return is_done ? DONE : NULL;
}

static gpointer
event_record (gpointer user_data, gpointer handle, GError **error)
{
  TarnCudaHome *home = user_data;
  TarnCudaScope scope;
  gpointer event = NULL;

  if (!enter_home (home, &scope, error))
    return NULL;
  if (check_capture (home, handle, error))
    event = record (home, handle, error);
  leave_home (home, &scope);
  return event;
}

/* Returns TRUE if an event is completed.  Also returns TRUE if the event's context is gone, because
 * no command runs in that context any more.  Returns FALSE if the driver reports an error. */
static gboolean
event_is_done (gpointer user_data, gpointer event)
{
  TarnCudaHome *home = user_data;
  g_autoptr (GError) error = NULL;
  TarnCudaScope scope;
  unsigned int status;

  if (event == DONE)
    return TRUE;
  if (!enter_home (home, &scope, &error))
    return g_error_matches (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST);
  status = home->context.driver->cuEventQuery (event);
  leave_home (home, &scope);
  return status == TARN_CUDA_SUCCESS;
}

static gboolean
event_wait (gpointer user_data, gpointer event, gpointer handle, GError **error)
{
  TarnCudaHome *home = user_data;
  const TarnCudaDriver *driver = home->context.driver;
  TarnCudaScope scope;
  gboolean is_fine;

  if (event == DONE)
    return TRUE;
  if (!enter_home (home, &scope, error))
    return FALSE;
  if (handle != NULL)
    is_fine
        = check_capture (home, handle, error)
          && _tarn_cuda_check (
              driver, "cuStreamWaitEvent",
              driver->cuStreamWaitEvent (_tarn_cuda_stream_of_handle (handle), event, 0), error);
  else
    is_fine = _tarn_cuda_check (driver, "cuEventSynchronize", driver->cuEventSynchronize (event),
                                error);
  leave_home (home, &scope);
  return is_fine;
}

void
_tarn_cuda_set_order (TarnAllocatorOps *ops)
{
  ops->queue_ref = queue_ref;
  ops->queue_unref = queue_unref;
  ops->event_record = event_record;
  ops->event_is_done = event_is_done;
  ops->event_wait = event_wait;
  ops->event_release = event_release;
  ops->event_record_all = event_record_all;
  ops->check_queue = check_queue;
}

gpointer
tarn_cuda_stream_get_queue (CUstream stream)
{
  return _tarn_cuda_stream_to_handle (stream);
}

TarnBlock *
tarn_cuda_pool_allocate (TarnPool *pool, gsize size, CUstream stream, GError **error)
{
  return tarn_pool_allocate_ordered (pool, size, _tarn_cuda_stream_to_handle (stream), error);
}

gboolean
tarn_cuda_block_record_use (TarnBlock *block, CUstream stream, GError **error)
{
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (block, FALSE);
  if (!_tarn_cuda_check_block (G_STRFUNC, block))
    return FALSE;

  return tarn_block_record_use (block, _tarn_cuda_stream_to_handle (stream), error);
}

void
tarn_cuda_block_free_on (TarnBlock *block, CUstream stream)
{
  if (block == NULL || _tarn_cuda_check_block (G_STRFUNC, block))
    tarn_block_free_on (block, _tarn_cuda_stream_to_handle (stream));
}

TarnBlock *
tarn_cuda_pool_find (TarnPool *pool, CUdeviceptr address)
{
  return tarn_pool_find (pool, (TarnMemory){ .address = address });
}

gboolean
tarn_cuda_block_move_to_stream (TarnBlock *block, CUstream stream, GError **error)
{
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (block, FALSE);
  if (!_tarn_cuda_check_block (G_STRFUNC, block))
    return FALSE;

  return tarn_block_move_to_queue (block, _tarn_cuda_stream_to_handle (stream), error);
}

gboolean
tarn_cuda_block_get_stream (const TarnBlock *block, CUstream *stream)
{
  gpointer handle;

  g_return_val_if_fail (block != NULL, FALSE);
  g_return_val_if_fail (stream != NULL, FALSE);
  if (!_tarn_cuda_check_block (G_STRFUNC, block))
    return FALSE;

  handle = tarn_block_get_queue (block);
  if (handle == NULL || !_tarn_cuda_handle_is_known (handle))
    return FALSE;
  *stream = _tarn_cuda_stream_of_handle (handle);
  return TRUE;
}

gboolean
tarn_cuda_pool_forget_stream (TarnPool *pool, CUstream stream, GError **error)
{
  return tarn_pool_forget_queue (pool, _tarn_cuda_stream_to_handle (stream), error);
}
