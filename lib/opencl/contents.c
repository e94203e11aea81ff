/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What memory contains, for TARN_DEBUG: read and filled on the allocator's queue, behind what the
 * program has put there; without one on a queue that is made for it. */

#include "contents-private.h"

#include <dlfcn.h>

#include "device-private.h"
#include "status-private.h"

/* Bytes of a buffer that the host must not read are copied to one that it may. */
#define UNREADABLE (CL_MEM_HOST_NO_ACCESS | CL_MEM_HOST_WRITE_ONLY)

static cl_command_queue
make_queue (cl_context context, GError **error)
{
  g_autoptr (GArray) devices = _tarn_opencl_list_devices (context, error);
  cl_command_queue queue;
  cl_int status;

  if (devices == NULL)
    return NULL;
  queue = clCreateCommandQueue (context, g_array_index (devices, cl_device_id, 0), 0, &status);
  return _tarn_opencl_check (status, "clCreateCommandQueue", error) ? queue : NULL;
}

/* Tells whether what is put on a queue is in order with what the program puts there. */
static gboolean
is_in_order (const TarnOpenclHome *home)
{
  return home->queue != NULL && _tarn_opencl_check_in_order (home->queue, NULL);
}

/* Gets a queue; NULL with an error: there is none.  What the program has put there is done before
 * what comes now. */
static cl_command_queue
begin (const TarnOpenclHome *home, GError **error)
{
  if (home->queue == NULL)
    return make_queue (home->context, error);
  if (!is_in_order (home) && !_tarn_opencl_check (clFinish (home->queue), "clFinish", error))
    return NULL;
  clRetainCommandQueue (home->queue);
  return home->queue;
}

/* ... and what comes now before what the program puts there. */
static gboolean
end (const TarnOpenclHome *home, cl_command_queue queue, gboolean is_done, GError **error)
{
  if (is_done && !is_in_order (home))
    is_done = _tarn_opencl_check (clFinish (queue), "clFinish", error);
  clReleaseCommandQueue (queue);
  return is_done;
}

static gboolean
read_copy (cl_context context, cl_command_queue queue, cl_mem buffer, gsize offset, gsize size,
           gpointer bytes, GError **error)
{
  cl_int status;
  cl_mem copy = clCreateBuffer (context, CL_MEM_READ_WRITE, size, NULL, &status);
  gboolean is_read;

  if (!_tarn_opencl_check (status, "clCreateBuffer", error))
    return FALSE;
  is_read = _tarn_opencl_check (
                clEnqueueCopyBuffer (queue, buffer, copy, offset, 0, size, 0, NULL, NULL),
                "clEnqueueCopyBuffer", error)
            && _tarn_opencl_check (
                clEnqueueReadBuffer (queue, copy, CL_TRUE, 0, size, bytes, 0, NULL, NULL),
                "clEnqueueReadBuffer", error);
  clReleaseMemObject (copy);
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
        clEnqueueReadBuffer (queue, buffer, CL_TRUE, offset, size, bytes, 0, NULL, NULL),
        "clEnqueueReadBuffer", error);
  return end (home, queue, is_read, error);
}

gboolean
_tarn_opencl_fill_buffer (const TarnOpenclHome *home, cl_mem buffer, gsize offset, gsize size,
                          guint8 byte, GError **error)
{
  cl_command_queue queue = begin (home, error);

  return queue != NULL
         && end (home, queue,
                 _tarn_opencl_check (clEnqueueFillBuffer (queue, buffer, &byte, sizeof byte, offset,
                                                          size, 0, NULL, NULL),
                                     "clEnqueueFillBuffer", error),
                 error);
}

/* Shared virtual memory: functions that loaders of OpenCL 1.2 do not have, and which are called
 * only where there is such memory. */

typedef cl_int (*CopyFunc) (cl_command_queue queue, cl_bool is_blocking, gpointer to,
                            gconstpointer from, size_t size, cl_uint n_events,
                            const cl_event *events, cl_event *event);
typedef cl_int (*FillFunc) (cl_command_queue queue, gpointer to, gconstpointer pattern,
                            size_t pattern_size, size_t size, cl_uint n_events,
                            const cl_event *events, cl_event *event);

gboolean
_tarn_opencl_read_svm (const TarnOpenclHome *home, gconstpointer memory, gsize size, gpointer bytes,
                       GError **error)
{
  cl_command_queue queue = begin (home, error);
  CopyFunc copy;

  if (queue == NULL)
    return FALSE;
  *(gpointer *) &copy = dlsym (RTLD_DEFAULT, "clEnqueueSVMMemcpy");
  return end (home, queue,
              _tarn_opencl_check (copy (queue, CL_TRUE, bytes, memory, size, 0, NULL, NULL),
                                  "clEnqueueSVMMemcpy", error),
              error);
}

gboolean
_tarn_opencl_fill_svm (const TarnOpenclHome *home, gpointer memory, gsize size, guint8 byte,
                       GError **error)
{
  cl_command_queue queue = begin (home, error);
  FillFunc fill;

  if (queue == NULL)
    return FALSE;
  *(gpointer *) &fill = dlsym (RTLD_DEFAULT, "clEnqueueSVMMemFill");
  return end (home, queue,
              _tarn_opencl_check (fill (queue, memory, &byte, sizeof byte, size, 0, NULL, NULL),
                                  "clEnqueueSVMMemFill", error),
              error);
}
