/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads and fills the memory of blocks, for the checks that TARN_DEBUG switches on.  A read or a
 * fill runs on the allocator's queue, after the commands that the program has already enqueued
 * there.  If the allocator has no queue, this file uses a new queue. */

#include "contents-private.h"

#include <string.h>

#include "device-private.h"
#include "driver-private.h"
#include "status-private.h"

/* Flags of buffers that the host must not read.  The host reads a copy of such a buffer instead. */
#define UNREADABLE (CL_MEM_HOST_NO_ACCESS | CL_MEM_HOST_WRITE_ONLY)

/* The most bytes of shared virtual memory that one copy fills. */
#define MAX_COPY_BYTES ((gsize) 1 << 20)

static cl_command_queue
make_queue (cl_context context, GError **error)
{
  g_autoptr (GArray) devices = _tarn_opencl_list_devices (context, error);
  cl_command_queue queue;
  cl_int status;

  if (devices == NULL)
    return NULL;
  queue = _tarn_cl.clCreateCommandQueue (context, g_array_index (devices, cl_device_id, 0), 0,
                                         &status);
  return _tarn_opencl_check (status, "clCreateCommandQueue", error) ? queue : NULL;
}

/* Returns TRUE if an allocator has a queue (home->queue), and this queue runs commands in order. */
static gboolean
is_in_order (const TarnOpenclHome *home)
{
  return home->queue != NULL && _tarn_opencl_check_in_order (home->queue, NULL);
}

/* Returns the queue for a read or a fill: the allocator's queue, or a new one if the allocator has
 * none.  If the queue is out of order, the host first waits until the program's earlier commands
 * are done, because the read or fill could otherwise run before them.  Returns NULL with an error
 * on failure. */
static cl_command_queue
begin (const TarnOpenclHome *home, GError **error)
{
  if (home->queue == NULL)
    return make_queue (home->context, error);
  if (!is_in_order (home)
      && !_tarn_opencl_check (_tarn_cl.clFinish (home->queue), "clFinish", error))
    return NULL;
  return home->queue;
}

static void
end (const TarnOpenclHome *home, cl_command_queue queue)
{
  if (queue != home->queue)
    _tarn_opencl_report_release ("clReleaseCommandQueue", _tarn_cl.clReleaseCommandQueue (queue));
}

static gboolean
read_copy (cl_context context, cl_command_queue queue, cl_mem buffer, gsize offset, gsize size,
           gpointer bytes, GError **error)
{
  cl_int status;
  cl_mem copy = _tarn_cl.clCreateBuffer (context, CL_MEM_READ_WRITE, size, NULL, &status);
  gboolean is_read;

  if (!_tarn_opencl_check (status, "clCreateBuffer", error))
    return FALSE;
  is_read = _tarn_opencl_check (
                _tarn_cl.clEnqueueCopyBuffer (queue, buffer, copy, offset, 0, size, 0, NULL, NULL),
                "clEnqueueCopyBuffer", error)
            && _tarn_opencl_check (
                _tarn_cl.clEnqueueReadBuffer (queue, copy, CL_TRUE, 0, size, bytes, 0, NULL, NULL),
                "clEnqueueReadBuffer", error);
  _tarn_cl.clReleaseMemObject (copy);
  return is_read;
}

gboolean
_tarn_opencl_read_buffer (const TarnOpenclHome *home, cl_mem_flags flags, cl_mem buffer,
                          gsize offset, gsize size, gpointer bytes, GError **error)
{
  cl_command_queue queue = begin (home, error);
  gboolean is_read;

  if (queue == NULL)
    return FALSE;
  if ((flags & UNREADABLE) != 0)
    is_read = read_copy (home->context, queue, buffer, offset, size, bytes, error);
  else
    is_read = _tarn_opencl_check (
        _tarn_cl.clEnqueueReadBuffer (queue, buffer, CL_TRUE, offset, size, bytes, 0, NULL, NULL),
        "clEnqueueReadBuffer", error);
  end (home, queue);
  return is_read;
}

/* Fills bytes of a buffer.  If the allocator's queue is in order, the host does not wait: later
 * commands on the queue run after the fill, and OpenCL keeps a released buffer until its commands
 * are done.  If the queue is out of order, or the allocator has no queue, the host waits, because
 * later commands might run before the fill. */
gboolean
_tarn_opencl_fill_buffer (const TarnOpenclHome *home, cl_mem buffer, gsize offset, gsize size,
                          guint8 byte, GError **error)
{
  cl_command_queue queue = begin (home, error);
  gboolean is_filled;

  if (queue == NULL)
    return FALSE;
  is_filled = _tarn_opencl_check (
      _tarn_cl.clEnqueueFillBuffer (queue, buffer, &byte, sizeof byte, offset, size, 0, NULL, NULL),
      "clEnqueueFillBuffer", error);
  if (is_filled && !is_in_order (home))
    is_filled = _tarn_opencl_check (_tarn_cl.clFinish (queue), "clFinish", error);
  end (home, queue);
  return is_filled;
}

/* Functions for shared virtual memory, which only OpenCL 2.0 or newer has */

static gboolean
copy_svm (cl_command_queue queue, gpointer to, gconstpointer from, gsize size, GError **error)
{
  return _tarn_opencl_check (
      _tarn_cl.clEnqueueSVMMemcpy (queue, CL_TRUE, to, from, size, 0, NULL, NULL),
      "clEnqueueSVMMemcpy", error);
}

gboolean
_tarn_opencl_read_svm (const TarnOpenclHome *home, gconstpointer memory, gsize size, gpointer bytes,
                       GError **error)
{
  cl_command_queue queue = begin (home, error);
  gboolean is_read;

  if (queue == NULL)
    return FALSE;
  is_read = copy_svm (queue, bytes, memory, size, error);
  end (home, queue);
  return is_read;
}

/* Fills shared virtual memory by blocking copies: when the call that enqueues a copy returns, the
 * copy is complete or has failed.  If the host did not wait, a copy could run after the memory was
 * freed, and overwrite the bytes of the memory's next owner. */
gboolean
_tarn_opencl_fill_svm (const TarnOpenclHome *home, gpointer memory, gsize size, guint8 byte,
                       GError **error)
{
  const gsize max_bytes = MIN (size, MAX_COPY_BYTES);
  cl_command_queue queue = begin (home, error);
  g_autofree guint8 *bytes = NULL;
  gsize done = 0;

  if (queue == NULL)
    return FALSE;
  bytes = g_malloc (max_bytes);
  memset (bytes, byte, max_bytes);
  for (gsize n; done < size; done += n)
    {
      n = MIN (size - done, max_bytes);
      if (!copy_svm (queue, (guint8 *) memory + done, bytes, n, error))
        break;
    }
  end (home, queue);
  return done == size;
}
