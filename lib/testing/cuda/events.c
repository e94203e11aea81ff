/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Events of the fake CUDA driver.  An event that was never recorded counts as completed.  A stream
 * that waits for an event waits for the event's latest recording at the time of the call, not for a
 * later recording. */

#include "testing/cuda/fake-private.h"

typedef struct
{
  CUevent handle;
  guint64 context_id;
  /* The point in a stream at which the event was recorded; owned.  NULL if the event was never
   * recorded, or was last recorded in a capture. */
  Mark *mark;
  Capture *capture; /* the capture in which the event was recorded, or NULL */
} Event;

/* The lock of the fake driver guards these variables. */
static HandleTable handles = { .base = FAKE_HANDLES (3) };
static GPtrArray *events; /* an array of Event, owned */

static void
free_event (gpointer data)
{
  Event *event = data;

  fake_handle_free (&handles, event->handle);
  fake_mark_unref (event->mark);
  g_free (event);
}

static void __attribute__ ((constructor)) make_events (void)
{
  events = g_ptr_array_new_with_free_func (free_event);
}

/* Functions that only the fake driver calls.  The caller of each of these functions holds the
 * lock. */

void
fake_free_events_of (guint64 context_id)
{
  for (guint i = events->len; i > 0; i--)
    if (((Event *) g_ptr_array_index (events, i - 1))->context_id == context_id)
      g_ptr_array_remove_index_fast (events, i - 1);
}

void
fake_forget_captured_events (const Capture *capture)
{
  for (guint i = 0; i < events->len; i++)
    {
      Event *event = g_ptr_array_index (events, i);

      if (event->capture == capture)
        event->capture = NULL;
    }
}

guint
fake_count_events (void)
{
  return events->len;
}

/* Finds an event by its handle.  If the event was destroyed, returns
 * CUDA_ERROR_CONTEXT_IS_DESTROYED, as an H200 does even if the event's context still exists. */
static Status
find_event (CUevent handle, Event **event)
{
  *event = fake_handle_get (&handles, handle);
  if (*event != NULL)
    return FAKE_CUDA_SUCCESS;
  return fake_handle_was (&handles, handle) ? FAKE_CUDA_CONTEXT_IS_DESTROYED
                                            : FAKE_CUDA_INVALID_HANDLE;
}

/* Finds an event for a call in which the host queries the event or waits for it.  Such a call ends
 * captures (see fake_end_captures ()).  If the event was recorded in a capture, invalidates that
 * capture, and fails. */
static Status
find_askable (CUevent handle, Event **event)
{
  Status status = find_event (handle, event);

  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  if ((*event)->capture == NULL)
    return fake_end_captures ();
  fake_invalidate_capture ((*event)->capture);
  return FAKE_CUDA_CAPTURED_EVENT;
}

static void
record (Event *event, Stream *stream)
{
  g_clear_pointer (&event->mark, fake_mark_unref);
  event->capture = fake_get_capture (stream);
  if (fake_is_legacy (stream))
    fake_wait_for_blocking (stream);
  if (event->capture == NULL)
    event->mark = fake_stream_record (stream);
}

/* Functions of CUDA's driver API, which the program calls */

/* Makes an event.  Valid flags: CU_EVENT_BLOCKING_SYNC, _DISABLE_TIMING, _INTERPROCESS. */
Status
cuEventCreate (CUevent *handle, unsigned int flags)
{
  Context *context;
  Event *event;
  Status status;
  ENTER (cuEventCreate);
  LOCKED;
  REQUIRE (handle != NULL && flags <= 7, FAKE_CUDA_INVALID_VALUE);

  status = fake_get_context (&context);
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  event = g_new0 (Event, 1);
  event->context_id = context->id;
  *handle = event->handle = fake_handle_new (&handles, event);
  g_ptr_array_add (events, event);
  return FAKE_CUDA_SUCCESS;
}

Status
cuEventDestroy_v2 (CUevent handle)
{
  Event *event;
  Status status;
  ENTER (cuEventDestroy);
  LOCKED;

  status = find_event (handle, &event);
  if (status == FAKE_CUDA_SUCCESS)
    g_ptr_array_remove_fast (events, event);
  return status;
}

Status
cuEventRecord (CUevent handle, CUstream stream_handle)
{
  Event *event;
  Stream *stream;
  Status status;
  ENTER (cuEventRecord);
  LOCKED;

  status = find_event (handle, &event);
  if (status == FAKE_CUDA_SUCCESS)
    status = fake_find_stream ("cuEventRecord", stream_handle, &stream);
  if (status == FAKE_CUDA_SUCCESS)
    status = fake_check_legacy (stream);
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  REQUIRE (event->context_id == stream->context_id, FAKE_CUDA_INVALID_HANDLE);
  record (event, stream);
  return FAKE_CUDA_SUCCESS;
}

#if FAKE_CUDA_VERSION >= 12050
Status
cuCtxRecordEvent (CUcontext context_handle, CUevent handle)
{
  Event *event;
  Context *context;
  Status status;
  ENTER (cuCtxRecordEvent);
  LOCKED;

  status = find_event (handle, &event);
  if (status == FAKE_CUDA_SUCCESS)
    status = fake_find_handle (context_handle, &context);
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  REQUIRE (event->context_id == context->id, FAKE_CUDA_INVALID_HANDLE);
  status = fake_end_captures_of (context->id);
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  g_clear_pointer (&event->mark, fake_mark_unref);
  event->capture = NULL;
  event->mark = fake_context_record (context->id);
  return FAKE_CUDA_SUCCESS;
}
#endif

Status
cuEventQuery (CUevent handle)
{
  Event *event;
  Status status;
  ENTER (cuEventQuery);
  LOCKED;

  status = find_askable (handle, &event);
  if (status == FAKE_CUDA_SUCCESS && event->mark != NULL && !event->mark->is_reached)
    status = FAKE_CUDA_NOT_READY;
  return status;
}

Status
cuEventSynchronize (CUevent handle)
{
  Event *event;
  Status status;
  ENTER (cuEventSynchronize);
  LOCKED;

  status = find_askable (handle, &event);
  if (status == FAKE_CUDA_SUCCESS && event->mark != NULL)
    fake_mark_wait (event->mark);
  return status;
}

/* Makes a stream wait for an event.  If the event was recorded in a capture of another stream, this
 * stream joins the capture. */
Status
cuStreamWaitEvent (CUstream stream_handle, CUevent handle, unsigned int flags)
{
  Event *event;
  Stream *stream;
  Capture *capture;
  Status status;
  ENTER (cuStreamWaitEvent);
  LOCKED;
  REQUIRE (flags <= 1, FAKE_CUDA_INVALID_VALUE);

  status = find_event (handle, &event);
  if (status == FAKE_CUDA_SUCCESS)
    status = fake_find_stream ("cuStreamWaitEvent", stream_handle, &stream);
  if (status == FAKE_CUDA_SUCCESS)
    status = fake_check_legacy (stream);
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  capture = fake_get_capture (stream);
  if (event->capture != NULL && capture == NULL)
    fake_join_capture (stream, event->capture);
  else if (event->capture == NULL && capture != NULL && event->mark != NULL)
    {
      fake_invalidate_capture (capture);
      return FAKE_CUDA_STREAM_CAPTURE_ISOLATION;
    }
  else if (event->mark != NULL)
    {
      fake_stream_wait (stream, event->mark);
      if (fake_is_legacy (stream))
        fake_let_blocking_wait (stream, event->mark);
    }
  return FAKE_CUDA_SUCCESS;
}
