/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * User events: events that the program completes itself (OpenCL 3.0 specification, section 5.11).
 * Usually, if a context has one in-order queue, the layer reuses a released buffer's memory early,
 * before the commands that used the buffer are done.  The layer does not reuse memory early while
 * the context has a user event that is not complete.  The reason is that a command may wait for the
 * user event, and fails if the event fails.  After a command has failed, a driver may run later
 * commands before earlier commands are done.  For the same reason the layer trusts no marker after
 * a user event has failed (LayerContext.has_failed). */

#include "layer-private.h"

cl_event CL_API_CALL
layer_clCreateUserEvent (cl_context handle, cl_int *status)
{
  LAYER_AUTO LayerContext *self = _tarn_layer_find_context (handle);
  cl_event event;

  if (self == NULL)
    return _tarn_layer_driver->clCreateUserEvent (handle, status);
  _tarn_layer_context_add_user_event (self);
  event = _tarn_layer_driver->clCreateUserEvent (handle, status);
  if (event == NULL)
    _tarn_layer_context_drop_user_event (self);
  return event;
}

/* The longest time for which clSetUserEventStatus () waits for earlier commands before it sets an
 * error, in microseconds.  The time is limited because a driver that has called the program back
 * may run no command until the program returns. */
#define MAX_WAIT (10 * G_TIME_SPAN_SECOND)

/* Waits for the commands whose memory may have been reused early, because the program is about to
 * make a user event fail.  A command that waits for the event then fails, too.  A driver may run
 * the commands after the failed command before earlier commands are done: PoCL 3.1 does.  The
 * calling thread waits itself.  If another thread waited and made the event fail later, the program
 * could meanwhile enqueue more commands, which might fail with the event. */
static void
await_only_event (LayerContext *context)
{
  cl_event event = _tarn_layer_context_begin_await (context);
  gint64 end = g_get_monotonic_time () + MAX_WAIT;

  while (event != NULL && _tarn_layer_get_state (event) > CL_COMPLETE
         && g_get_monotonic_time () < end)
    g_usleep (100);
  _tarn_layer_context_end_await (context);
}

/* Prepares the context for the failure of commands that wait for a user event.  Call this before
 * the program's call that makes the event fail.  From now on the layer trusts no marker of the
 * context (queue.c).  If the event is not complete yet, also waits for the commands whose memory
 * was reused early, that is, before they were done (see await_only_event ()). */
static void
begin_failing (LayerContext *context, cl_event event)
{
  __atomic_store_n (&context->has_failed, TRUE, __ATOMIC_RELEASE);
  if (_tarn_layer_get_state (event) > CL_COMPLETE)
    await_only_event (context);
}

/* Returns a reference to the context of a user event.  Returns NULL for other events. */
static LayerContext *
find_context (cl_event event)
{
  cl_command_type type = 0;
  cl_context handle = NULL;

  if (_tarn_layer_driver->clGetEventInfo (event, CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL)
          != CL_SUCCESS
      || type != CL_COMMAND_USER
      || _tarn_layer_driver->clGetEventInfo (event, CL_EVENT_CONTEXT, sizeof handle, &handle, NULL)
             != CL_SUCCESS)
    return NULL;
  return _tarn_layer_find_context (handle);
}

/* Sets the status of a user event.  A failed event counts as not complete for ever, so the context
 * never reuses memory early again.  The reason is that after a failed command, the driver may run
 * later commands before earlier commands are done (see await_only_event ()). */
cl_int CL_API_CALL
layer_clSetUserEventStatus (cl_event event, cl_int execution_status)
{
  /* Find the event's context before the call of the driver, because the program may release the
   * event as soon as it is complete. */
  LAYER_AUTO LayerContext *self = find_context (event);
  cl_int status;

  if (self != NULL && execution_status < 0)
    begin_failing (self, event);
  status = _tarn_layer_driver->clSetUserEventStatus (event, execution_status);
  if (self != NULL && status == CL_SUCCESS && execution_status == CL_COMPLETE)
    _tarn_layer_context_drop_user_event (self);
  return status;
}
