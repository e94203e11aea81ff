/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The fake driver's streams, events and captures. */

#define _GNU_SOURCE 1 /* RTLD_NEXT */

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include "cuda-fixture.h"

static CUstream
create_stream (void)
{
  CUstream stream;

  SUCCEED (cuStreamCreate (&stream, 1));
  return stream;
}

static CUevent
create_event (void)
{
  CUevent event;

  SUCCEED (cuEventCreate (&event, 2));
  return event;
}

static void
test_streams (void)
{
  CUcontext context = create_context (), of_stream;
  CUstream a = create_stream (), b = create_stream ();
  CUevent first = create_event (), second = create_event ();

  SUCCEED (cuEventQuery (first)); /* never recorded */
  fake->put_work (a);
  SUCCEED (cuEventRecord (first, a));
  fake->put_work (a);
  SUCCEED (cuStreamWaitEvent (b, first, 0));
  SUCCEED (cuEventRecord (second, b));
  SUCCEED (cuEventRecord (first, a)); /* b waits for what it was */
  ASSERT_STATUS (cuStreamQuery (a), FAKE_CUDA_NOT_READY);
  ASSERT_STATUS (cuEventQuery (second), FAKE_CUDA_NOT_READY);
  fake->finish_work (a);
  SUCCEED (cuEventQuery (second));
  SUCCEED (cuStreamSynchronize (b));
  ASSERT_STATUS (cuEventQuery (first), FAKE_CUDA_NOT_READY);
  SUCCEED (cuCtxRecordEvent (context, second));
  ASSERT_STATUS (cuEventQuery (second), FAKE_CUDA_NOT_READY);
  SUCCEED (cuStreamGetCtx (a, &of_stream));
  g_assert_true (of_stream == context);
  SUCCEED (cuStreamDestroy_v2 (a));
  ASSERT_STATUS (cuEventQuery (first), FAKE_CUDA_NOT_READY);
  g_assert_true (create_stream () == a);
  SUCCEED (cuStreamQuery (a));
  fake->finish_all_work ();
  SUCCEED (cuEventQuery (first));
  SUCCEED (cuEventQuery (second));
  SUCCEED (cuEventSynchronize (second));
  SUCCEED (cuEventDestroy_v2 (first));
  ASSERT_STATUS (cuEventQuery (first), FAKE_CUDA_CONTEXT_IS_DESTROYED);
  ASSERT_STATUS (cuEventQuery (NULL), FAKE_CUDA_INVALID_HANDLE);
  g_assert_true (create_event () == first);
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_STREAM), ==, 2);
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_EVENT), ==, 2);
  SUCCEED (cuCtxDestroy_v2 (context));
  ASSERT_STATUS (cuEventQuery (second), FAKE_CUDA_CONTEXT_IS_DESTROYED);
}

static void
test_foreign_event (void)
{
  CUcontext a = create_context (), b;
  CUstream stream = create_stream ();
  CUevent event;

  b = create_context ();
  event = create_event ();
  ASSERT_STATUS (cuEventRecord (event, stream), FAKE_CUDA_INVALID_HANDLE);
  SUCCEED (cuEventRecord (event, NULL));
  SUCCEED (cuStreamWaitEvent (stream, event, 0));
  SUCCEED (cuCtxDestroy_v2 (b));
  SUCCEED (cuCtxDestroy_v2 (a));
}

static void
test_destroyed_stream (void)
{
  CUstream stream;

  if (!g_test_subprocess ())
    {
      assert_crash ("*cuStreamQuery: 0x* is no stream, or was destroyed*");
      return;
    }
  create_context ();
  stream = create_stream ();
  SUCCEED (cuStreamDestroy_v2 (stream));
  cuStreamQuery (stream);
}

static gpointer
finish_later (gpointer data)
{
  Turns *turns = data;

  take_turn (turns, 1);
  g_usleep (10000);
  fake->finish_work (turns->stream);
  return NULL;
}

static void
test_synchronize (void)
{
  CUcontext context = create_context ();

  for (guint how = 0; how < 3; how++)
    {
      Turns turns;
      GThread *thread;

      turns_init (&turns);
      turns.stream = create_stream ();
      turns.event = create_event ();
      fake->put_work (turns.stream);
      SUCCEED (cuEventRecord (turns.event, turns.stream));
      thread = g_thread_new ("finisher", finish_later, &turns);
      give_turn (&turns, 1);
      SUCCEED (how == 0   ? cuStreamSynchronize (turns.stream)
               : how == 1 ? cuEventSynchronize (turns.event)
                          : cuCtxSynchronize ());
      SUCCEED (cuEventQuery (turns.event));
      g_thread_join (thread);
      turns_clear (&turns);
    }
  SUCCEED (cuCtxDestroy_v2 (context));
}

/* Commands are done in their turn, and those of the default streams by whoever they are for. */
static gpointer
write_elsewhere (gpointer data)
{
  Turns *turns = data;

  SUCCEED (cuCtxPushCurrent_v2 (turns->context));
  SUCCEED (cuMemsetD32Async (turns->address, 2, 1, (CUstream) 2));
  return NULL;
}

static void
test_commands (void)
{
  static const CUstream streams[] = { NULL, (CUstream) 1, (CUstream) 2 };
  Turns turns;
  guint word = 0;

  turns_init (&turns);
  turns.context = create_context ();
  turns.address = allocate (4);
  for (guint i = 0; i < 3; i++)
    {
      SUCCEED (cuMemsetD32_v2 (turns.address, 0, 1));
      fake->put_work (streams[i]);
      g_assert_false (fake->is_idle (streams[i]));
      SUCCEED (cuMemsetD32Async (turns.address, 1, 1, streams[i]));
      SUCCEED (cuMemcpyDtoHAsync_v2 (&word, turns.address, 4, streams[i]));
      g_thread_join (g_thread_new ("elsewhere", write_elsewhere, &turns));
      SUCCEED (cuMemcpyDtoH_v2 (&word, turns.address, 4));
      g_assert_cmpuint (word, ==, 2); /* no thread is held up by another's stream */
      fake->finish_work (i == 0 ? (CUstream) 1 : i == 1 ? NULL : streams[i]);
      g_assert_true (fake->is_idle (streams[i]));
      g_assert_cmpuint (word, ==, 1);
    }
  ASSERT_STATUS (cuMemsetD32Async (turns.address, 1, 2, NULL), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuMemsetD32Async (turns.address + 1, 1, 1, NULL), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuMemcpyDtoHAsync_v2 (&word, turns.address, 5, NULL), FAKE_CUDA_INVALID_VALUE);
  SUCCEED (cuCtxDestroy_v2 (turns.context));
  turns_clear (&turns);
}

/* Page-locked memory is read when the copy is done, and other memory when it is put on the stream.
 */
static void
test_upload (void)
{
  CUcontext context = create_context ();
  CUdeviceptr address = allocate (8);
  guint pageable = 1, found[2] = { 0, 0 };
  guint *locked;

  SUCCEED (cuMemHostAlloc ((void **) &locked, sizeof *locked, 0));
  *locked = 1;
  fake->put_work (NULL);
  SUCCEED (cuMemcpyHtoDAsync_v2 (address, locked, 4, NULL));
  SUCCEED (cuMemcpyHtoDAsync_v2 (address + 4, &pageable, 4, NULL));
  *locked = 2;
  pageable = 2;
  fake->finish_work (NULL);
  SUCCEED (cuMemcpyDtoH_v2 (found, address, 8));
  g_assert_cmpuint (found[0], ==, 2);
  g_assert_cmpuint (found[1], ==, 1);
  ASSERT_STATUS (cuMemcpyHtoDAsync_v2 (address, locked, 9, NULL), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuMemcpyHtoDAsync_v2 (address, NULL, 4, NULL), FAKE_CUDA_INVALID_VALUE);
  SUCCEED (cuMemFreeHost (locked));
  SUCCEED (cuCtxDestroy_v2 (context));
}

static void
test_gone_source (void)
{
  CUdeviceptr address;
  gpointer locked;

  if (!g_test_subprocess ())
    {
      assert_crash ("*cuMemcpyHtoDAsync: the memory is gone*");
      return;
    }
  create_context ();
  address = allocate (4);
  SUCCEED (cuMemHostAlloc (&locked, 4, 0));
  create_context ();
  fake->put_work (NULL);
  SUCCEED (cuMemcpyHtoDAsync_v2 (address, locked, 4, NULL));
  SUCCEED (cuMemFreeHost (locked));
  fake->finish_work (NULL);
}

/* Freeing waits for the streams of the memory's own context, and not for those of others. */
static void
test_gone_memory (void)
{
  CUdeviceptr address;

  if (!g_test_subprocess ())
    {
      assert_crash ("*cuMemsetD32Async: the memory is gone*");
      return;
    }
  create_context ();
  address = allocate (4);
  create_context ();
  fake->put_work (NULL);
  SUCCEED (cuMemsetD32Async (address, 1, 1, NULL));
  SUCCEED (cuMemFree_v2 (address));
  fake->finish_work (NULL);
}

static void
take_first_turn (gpointer turns)
{
  take_turn (turns, 1);
}

/* The stream waits for a function of the host, and no other does. */
static void
test_host_function (void)
{
  Turns turns;
  CUstream other;

  turns_init (&turns);
  turns.context = create_context ();
  turns.stream = create_stream ();
  other = create_stream ();
  SUCCEED (cuLaunchHostFunc (turns.stream, take_first_turn, &turns));
  ASSERT_STATUS (cuStreamQuery (turns.stream), FAKE_CUDA_NOT_READY);
  SUCCEED (cuStreamSynchronize (other));
  give_turn (&turns, 1);
  SUCCEED (cuStreamSynchronize (turns.stream));
  SUCCEED (cuCtxDestroy_v2 (turns.context));
  turns_clear (&turns);
}

/* No thread can be made */

static gint refuses_threads; /* atomic */

/* In place of the C library's, for GLib. */
int
pthread_create (pthread_t *thread, const pthread_attr_t *attributes, void *(*func) (void *),
                void *data)
{
  int (*create) (pthread_t *, const pthread_attr_t *, void *(*) (void *), void *);

  if (g_atomic_int_get (&refuses_threads))
    return EAGAIN;
  *(gpointer *) &create = dlsym (RTLD_NEXT, "pthread_create");
  return create (thread, attributes, func, data);
}

static void
fail_to_be_called (gpointer unused)
{
  (void) unused;
  g_error ("a function of the host was called");
}

/* If no thread can be made for a function of the host, the call fails, and the stream goes on.  A
 * function that its stream never comes to is not called. */
static void
test_no_host_function (void)
{
  CUcontext context = create_context ();
  CUstream stream = create_stream ();

  g_atomic_int_set (&refuses_threads, TRUE);
  ASSERT_STATUS (cuLaunchHostFunc (stream, fail_to_be_called, NULL), FAKE_CUDA_OUT_OF_MEMORY);
  g_atomic_int_set (&refuses_threads, FALSE);
  SUCCEED (cuStreamSynchronize (stream));
  fake->put_work (stream);
  SUCCEED (cuLaunchHostFunc (stream, fail_to_be_called, NULL));
  SUCCEED (cuCtxDestroy_v2 (context));
}

static void
note_call (const gchar *function, gpointer text)
{
  CUcontext context;

  g_string_append_printf (text, "%s ", function);
  SUCCEED (cuCtxGetCurrent (&context)); /* this call is not hooked */
}

static void
test_hook (void)
{
  g_autoptr (GString) text = g_string_new (NULL);
  CUcontext context;

  fake->set_hook (note_call, text);
  context = create_context ();
  ASSERT_STATUS (cuStreamQuery (NULL), FAKE_CUDA_SUCCESS);
  fake->set_hook (NULL, NULL);
  SUCCEED (cuCtxDestroy_v2 (context));
  g_assert_cmpstr (text->str, ==, "cuCtxCreate cuStreamQuery ");
}

/* Captures */

typedef struct
{
  CUcontext context;
  CUstream captured, other;
  CUevent old, event;
  CUdeviceptr address;
} Capture;

static guint
get_capturing (CUstream stream)
{
  guint capturing, same;
  guint64 id = 0;

  SUCCEED (cuStreamIsCapturing (stream, &capturing));
  SUCCEED (cuStreamGetCaptureInfo (stream, &same, &id));
  g_assert_cmpuint (same, ==, capturing);
  g_assert_cmpuint (id != 0, ==, capturing == 1);
  return capturing;
}

static void
capture_init (Capture *capture, guint mode)
{
  capture->context = get_current ();
  capture->captured = create_stream ();
  capture->other = create_stream ();
  capture->old = create_event ();
  capture->event = create_event ();
  capture->address = allocate (100);
  SUCCEED (cuEventRecord (capture->old, capture->other));
  SUCCEED (cuStreamBeginCapture_v2 (capture->captured, mode));
  g_assert_cmpuint (get_capturing (capture->captured), ==, 1);
}

static void
capture_end (Capture *capture, gboolean is_valid)
{
  CUgraph graph = (CUgraph) capture;

  g_assert_cmpuint (get_capturing (capture->captured), ==, is_valid ? 1 : 2);
  ASSERT_STATUS (cuStreamEndCapture (capture->captured, &graph),
                 is_valid ? FAKE_CUDA_SUCCESS : FAKE_CUDA_STREAM_CAPTURE_INVALIDATED);
  g_assert_true ((graph != NULL) == is_valid);
  if (is_valid)
    SUCCEED (cuGraphDestroy (graph));
  g_assert_cmpuint (get_capturing (capture->captured), ==, 0);
  g_assert_cmpuint (get_capturing (capture->other), ==, 0);
  SUCCEED (cuStreamQuery (capture->captured));
}

/* Every call that ends a capture, and what it returns. */
static guint
call_in_capture (guint which, const Capture *capture)
{
  CUdeviceptr address;
  void *pointer;

  switch (which)
    {
    case 0:
      return cuMemAlloc_v2 (&address, 1);
    case 1:
      return cuMemFree_v2 (capture->address);
    case 2:
      return cuMemFreeHost (NULL);
    case 3:
      return cuMemAllocManaged (&address, 1, 1);
    case 4:
      return cuEventQuery (capture->old);
    case 5:
      return cuEventSynchronize (capture->old);
    case 6:
      return cuStreamQuery (capture->other);
    case 7:
      return cuStreamSynchronize (capture->other);
    case 8:
      return cuCtxSynchronize ();
    case 9:
      return cuStreamWaitEvent (capture->captured, capture->old, 0);
    case 10:
      SUCCEED (cuEventRecord (capture->event, capture->captured));
      return cuEventQuery (capture->event);
    case 11:
      return cuCtxRecordEvent (capture->context, capture->event);
    default:
      return cuMemHostAlloc (&pointer, 1, 0);
    }
}

static void
test_captures (void)
{
  static const guint expected[]
      = { 900, 900, 900, 900, 900, 900, 900, 900, 900, 905, 907, 900, 900 };
  CUcontext context = create_context ();
  Capture capture;

  for (guint i = 0; i < G_N_ELEMENTS (expected); i++)
    {
      capture_init (&capture, 0);
      ASSERT_STATUS (call_in_capture (i, &capture), expected[i]);
      capture_end (&capture, FALSE);
    }
  capture_init (&capture, 0);
  SUCCEED (cuEventRecord (capture.old, capture.other));
  SUCCEED (cuEventRecord (capture.event, capture.captured));
  SUCCEED (cuStreamWaitEvent (capture.other, capture.event, 0));
  g_assert_cmpuint (get_capturing (capture.other), ==, 1);
  g_assert_cmpuint (get_capturing (NULL), ==, 0);
  SUCCEED (cuMemsetD8_v2 (capture.address, 0, 1));
  create_event ();
  create_stream ();
  capture_end (&capture, TRUE);
  SUCCEED (cuEventQuery (capture.event)); /* a capture's no longer */
  capture_init (&capture, 2);
  allocate (1);
  capture_end (&capture, TRUE);
  SUCCEED (cuCtxDestroy_v2 (context));
}

/* Calls that put something on the legacy stream, while a blocking stream is being captured in
 * relaxed mode. */
static guint
call_on_legacy (guint which, const Capture *capture)
{
  guint8 byte;

  switch (which)
    {
    case 0:
      return cuMemsetD8_v2 (capture->address, 0, 1);
    case 1:
      return cuMemcpyDtoH_v2 (&byte, capture->address, 1);
    case 2:
      return cuEventRecord (capture->old, NULL);
    case 3:
      return cuStreamQuery (NULL);
    default:
      return cuStreamSynchronize (NULL);
    }
}

static void
test_legacy (void)
{
  CUcontext context = create_context ();
  CUstream blocking;
  Capture capture;
  unsigned int capturing;
  CUgraph graph;

  SUCCEED (cuStreamCreate (&blocking, 0));
  for (guint i = 0; i < 5; i++)
    {
      capture_init (&capture, 2);
      SUCCEED (cuStreamBeginCapture_v2 (blocking, 2));
      ASSERT_STATUS (cuStreamIsCapturing (NULL, &capturing), FAKE_CUDA_STREAM_CAPTURE_IMPLICIT);
      g_assert_cmpuint (get_capturing (blocking), ==, 1);
      ASSERT_STATUS (call_on_legacy (i, &capture), FAKE_CUDA_STREAM_CAPTURE_IMPLICIT);
      ASSERT_STATUS (cuStreamEndCapture (blocking, &graph), FAKE_CUDA_STREAM_CAPTURE_INVALIDATED);
      capture_end (&capture, TRUE); /* its stream does not block */
    }
  capture_init (&capture, 2);
  ASSERT_STATUS (cuCtxSynchronize (), FAKE_CUDA_STREAM_CAPTURE_UNSUPPORTED);
  capture_end (&capture, FALSE);
  SUCCEED (cuCtxDestroy_v2 (context));
}

static gpointer
allocate_elsewhere (gpointer context)
{
  CUdeviceptr address;

  SUCCEED (cuCtxPushCurrent_v2 (context));
  return GUINT_TO_POINTER (cuMemAlloc_v2 (&address, 1));
}

/* Modes: global, thread-local. */
static void
test_capture_and_threads (void)
{
  static const guint expected[] = { 900, 0 };
  CUcontext context = create_context ();
  Capture capture;

  for (guint mode = 0; mode < 2; mode++)
    {
      GThread *thread;

      capture_init (&capture, mode);
      thread = g_thread_new ("other", allocate_elsewhere, context);
      ASSERT_STATUS (GPOINTER_TO_UINT (g_thread_join (thread)), expected[mode]);
      capture_end (&capture, mode == 1);
    }
  SUCCEED (cuCtxDestroy_v2 (context));
}

static guint
read_word (CUdeviceptr address)
{
  guint word;

  SUCCEED (cuMemcpyDtoH_v2 (&word, address, sizeof word));
  return word;
}

/* A graph does at each launch what was captured, and not when it is; on whichever stream, behind
 * what that was given, and into another graph. */
static void
test_graph (void)
{
  CUcontext context = create_context ();
  CUstream captured = create_stream (), other = create_stream ();
  CUdeviceptr address = allocate (4 * sizeof (guint));
  CUgraphExec execs[2] = { NULL };
  CUgraph graphs[2];
  guint word = 0;

  SUCCEED (cuMemsetD32_v2 (address, 7, 1));
  SUCCEED (cuStreamBeginCapture_v2 (captured, 0));
  SUCCEED (cuMemcpyDtoHAsync_v2 (&word, address, sizeof word, captured));
  SUCCEED (cuMemsetD32Async (address, 5, 1, captured));
  SUCCEED (cuStreamEndCapture (captured, &graphs[0]));
  g_assert_cmpuint (read_word (address), ==, 7);
  SUCCEED (cuGraphInstantiateWithFlags (&execs[0], graphs[0], 0));
  SUCCEED (cuGraphDestroy (graphs[0]));
  fake->put_work (other);
  SUCCEED (cuGraphLaunch (execs[0], other));
  g_assert_cmpuint (read_word (address), ==, 7);
  fake->finish_work (other);
  g_assert_cmpuint (word, ==, 7);
  g_assert_cmpuint (read_word (address), ==, 5);
  SUCCEED (cuGraphLaunch (execs[0], captured));
  g_assert_cmpuint (word, ==, 5);

  SUCCEED (cuMemsetD32_v2 (address, 9, 1));
  SUCCEED (cuStreamBeginCapture_v2 (captured, 0));
  SUCCEED (cuGraphLaunch (execs[0], captured));
  SUCCEED (cuStreamEndCapture (captured, &graphs[1]));
  g_assert_cmpuint (read_word (address), ==, 9);
  SUCCEED (cuGraphInstantiateWithFlags (&execs[1], graphs[1], 0));
  SUCCEED (cuGraphDestroy (graphs[1]));
  ASSERT_STATUS (cuGraphDestroy (graphs[1]), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuGraphInstantiateWithFlags (&execs[1], graphs[1], 0), FAKE_CUDA_INVALID_VALUE);
  SUCCEED (cuGraphExecDestroy (execs[0]));
  ASSERT_STATUS (cuGraphExecDestroy (execs[0]), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuGraphLaunch (execs[0], captured), FAKE_CUDA_INVALID_VALUE);
  SUCCEED (cuGraphLaunch (execs[1], NULL));
  g_assert_cmpuint (word, ==, 9);
  g_assert_cmpuint (read_word (address), ==, 5);
  SUCCEED (cuGraphExecDestroy (execs[1]));
  SUCCEED (cuMemFree_v2 (address));
  SUCCEED (cuStreamDestroy_v2 (captured));
  SUCCEED (cuStreamDestroy_v2 (other));
  SUCCEED (cuCtxDestroy_v2 (context));
}

int
main (int argc, char **argv)
{
  static const Case cases[] = {
    { "/cuda/fake/streams/order", test_streams },
    { "/cuda/fake/streams/foreign-event", test_foreign_event },
    { "/cuda/fake/streams/destroyed", test_destroyed_stream },
    { "/cuda/fake/streams/synchronize", test_synchronize },
    { "/cuda/fake/streams/commands", test_commands },
    { "/cuda/fake/streams/upload", test_upload },
    { "/cuda/fake/streams/gone-source", test_gone_source },
    { "/cuda/fake/streams/gone-memory", test_gone_memory },
    { "/cuda/fake/streams/host-function", test_host_function },
    { "/cuda/fake/streams/host-function/none", test_no_host_function },
    { "/cuda/fake/streams/hook", test_hook },
    { "/cuda/fake/captures/calls", test_captures },
    { "/cuda/fake/captures/legacy", test_legacy },
    { "/cuda/fake/captures/threads", test_capture_and_threads },
    { "/cuda/fake/captures/graph", test_graph },
  };

  fake = tarn_fake_cuda ();
  g_test_init (&argc, &argv, NULL);
  add_cases (cases, G_N_ELEMENTS (cases));
  return g_test_run ();
}
