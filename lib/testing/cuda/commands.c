/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Commands of the fake CUDA driver that take effect when their stream reaches them: they write
 * memory, read memory, or call a function of the host.  If the stream is being captured, the driver
 * adds commands that access memory to the graph, and drops calls of host functions.
 *
 * A real driver waits for all streams before it frees memory.  The fake driver frees the memory
 * first, and then waits.  A command on freed memory ends the test, so a test detects a program that
 * relies on the wait. */

#include "testing/cuda/fake-private.h"

#include <string.h>

/* Functions that put commands on streams and run them */

typedef struct
{
  const gchar *function;
  CUdeviceptr address;
  gsize size;         /* the number of bytes that the command accesses */
  unsigned int value; /* the value that a fill writes */
  void *to;           /* the destination of a read; NULL if the command writes */
  const void *from;   /* the source of a write; NULL if the command writes @value */
  gboolean is_locked; /* TRUE if @from is page-locked memory, which must still exist when the stream
                         reads it */
  CUdevice device;    /* the device of the stream */
  /* the unique number of the allocation that had the memory when the command was put on its stream;
   * 0 if the memory is not a pool's */
  guint64 allocation;
} Access;

static gboolean
is_page_locked (const void *pointer)
{
  TarnTestingCudaMemory memory;

  return fake_find_memory ((CUdeviceptr) (guintptr) pointer, &memory)
         && memory.kind == TARN_TESTING_CUDA_HOST_MEMORY;
}

/* Runs a command that accesses memory.  The caller holds the lock. */
static void
run_access (gpointer data)
{
  const Access *access = data;
  guint8 *bytes;

  if (!fake_find_bytes (access->address, access->size, access->device, &bytes)
      || (access->is_locked && !is_page_locked (access->from)))
    g_error ("%s: the memory is gone before the command is done", access->function);
  if (access->allocation != 0)
    fake_check_ready (access->function, access->address, access->allocation);
  if (access->to != NULL)
    memcpy (access->to, bytes, access->size);
  else if (access->from != NULL)
    memcpy (bytes, access->from, access->size);
  else
    for (gsize i = 0; i < access->size; i += sizeof access->value)
      memcpy (bytes + i, &access->value, sizeof access->value);
}

/* Copies a command for a stream.  If the command writes bytes from memory that is not page-locked,
 * copies these bytes to the end of the struct, because the program may change them as soon as the
 * call returns. */
static Access *
copy_access (const Access *access)
{
  gboolean takes_source = access->from != NULL && !access->is_locked;
  Access *copy = g_malloc (sizeof *copy + (takes_source ? access->size : 0));

  *copy = *access;
  if (takes_source)
    copy->from = memcpy (copy + 1, access->from, access->size);
  return copy;
}

/* Puts a command that accesses memory on a stream, or adds it to the graph if the stream is being
 * captured.  The caller holds the lock. */
static Status
put_access (CUstream handle, Access access)
{
  const Context *context;
  Stream *stream;
  guint8 *bytes;
  Status status = fake_find_stream (access.function, handle, &stream);

  if (status == FAKE_CUDA_SUCCESS)
    status = fake_check_legacy (stream);
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  context = fake_find_context (stream->context_id);
  g_assert (context != NULL);
  access.device = context->device;
  REQUIRE (fake_find_bytes (access.address, access.size, access.device, &bytes),
           FAKE_CUDA_INVALID_VALUE);
  access.allocation = fake_get_allocation (access.function, access.address);
  if (fake_get_capture (stream) != NULL)
    {
      fake_capture_do (fake_get_capture (stream), run_access, &access, sizeof access);
      return FAKE_CUDA_SUCCESS;
    }
  fake_stream_do (stream, run_access, copy_access (&access));
  return FAKE_CUDA_SUCCESS;
}

Status
cuMemsetD32Async (CUdeviceptr to, unsigned int value, size_t n, CUstream stream)
{
  ENTER (cuMemsetD32Async);
  LOCKED;
  REQUIRE (to % sizeof value == 0 && n <= G_MAXSIZE / sizeof value, FAKE_CUDA_INVALID_VALUE);

  return put_access (stream, (Access){ .function = "cuMemsetD32Async",
                                       .address = to,
                                       .size = n * sizeof value,
                                       .value = value });
}

Status
cuMemcpyDtoHAsync_v2 (void *to, CUdeviceptr from, size_t size, CUstream stream)
{
  ENTER (cuMemcpyDtoHAsync);
  LOCKED;
  REQUIRE (to != NULL, FAKE_CUDA_INVALID_VALUE);

  return put_access (
      stream, (Access){ .function = "cuMemcpyDtoHAsync", .address = from, .size = size, .to = to });
}

Status
cuMemcpyHtoDAsync_v2 (CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
  ENTER (cuMemcpyHtoDAsync);
  LOCKED;
  REQUIRE (from != NULL, FAKE_CUDA_INVALID_VALUE);

  return put_access (stream, (Access){ .function = "cuMemcpyHtoDAsync",
                                       .address = to,
                                       .size = size,
                                       .from = from,
                                       .is_locked = is_page_locked (from) });
}

/* Calls of host functions.  Each host function runs in its own thread.  Meanwhile the stream of the
 * call waits, until the thread reports that the function has returned. */

typedef struct
{
  void (*function) (void *);
  void *data;
  /* Two points in the order of commands, owned references.  When the stream reaches @begin, the
   * function may run.  When the function has returned, its thread sets @end to reached. */
  Mark *begin;
  Mark *end;
} HostCall;

/* Waits until the stream reaches the call of a host function.  Returns FALSE if the stream's
 * context is destroyed before that. */
static gboolean
await_begin (HostCall *call)
{
  LOCKED;

  fake_mark_wait (call->begin);
  return !call->begin->is_dropped;
}

static gpointer
run_host_call (gpointer data)
{
  HostCall *call = data;

  if (await_begin (call))
    call->function (call->data);
  {
    LOCKED;

    fake_mark_reach (call->end);
    fake_mark_unref (call->begin);
    fake_mark_unref (call->end);
  }
  g_free (call);
  return NULL;
}

/* Puts a call of a host function on a stream.  Starts the function's thread now, because the driver
 * could not report later that no thread can be started.  The caller holds the lock. */
static Status
put_host_call (Stream *stream, HostCall call)
{
  HostCall *copy = g_new (HostCall, 1);
  GThread *thread;

  call.begin = fake_stream_record (stream);
  call.end = fake_mark_new ();
  *copy = call;
  thread = g_thread_try_new ("host-function", run_host_call, copy, NULL);
  if (thread == NULL)
    {
      fake_mark_unref (call.begin);
      fake_mark_unref (call.end);
      g_free (copy);
      return FAKE_CUDA_OUT_OF_MEMORY;
    }
  g_thread_unref (thread);
  fake_stream_wait (stream, call.end);
  return FAKE_CUDA_SUCCESS;
}

Status
cuLaunchHostFunc (CUstream handle, void (*function) (void *), void *data)
{
  Stream *stream;
  Status status;
  ENTER (cuLaunchHostFunc);
  LOCKED;
  REQUIRE (function != NULL, FAKE_CUDA_INVALID_VALUE);

  status = fake_find_stream ("cuLaunchHostFunc", handle, &stream);
  if (status == FAKE_CUDA_SUCCESS)
    status = fake_check_legacy (stream);
  if (status != FAKE_CUDA_SUCCESS || fake_get_capture (stream) != NULL)
    return status;
  return put_host_call (stream, (HostCall){ function, data, NULL, NULL });
}
