/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Measures OpenCL's kinds of memory, in a context and a queue of its own. */

#include "../opencl-calls.h"

#include "kinds-private.h"

/* An open device. */
typedef struct
{
  cl_context context;
  cl_command_queue queue;
  cl_device_id device;
} Handle;

static void
handle_free (gpointer data)
{
  Handle *handle = data;

  if (handle->queue != NULL)
    {
      /* Waits for the driver, which may not have processed all allocations yet. */
      OPENCL (clFinish) (handle->queue);
      OPENCL (clReleaseCommandQueue) (handle->queue);
    }
  if (handle->context != NULL)
    OPENCL (clReleaseContext) (handle->context);
  g_free (handle);
}

static gboolean
fail (const gchar *call, cl_int status, GError **error)
{
  g_set_error (error, TARN_OPENCL_ERROR, status, "%s: %s (%d)", call,
               tarn_opencl_status_name (status), status);
  return FALSE;
}

static gboolean
handle_open (const Device *device, gpointer *handle, GError **error)
{
  const TarnOpenclDevice *found = device->opencl;
  const cl_context_properties properties[]
      = { CL_CONTEXT_PLATFORM, (cl_context_properties) found->platform, 0 };
  cl_int status;
  /* if a call fails, source_close () frees the Handle */
  Handle *opened = *handle = g_new0 (Handle, 1);

  opened->device = found->device;
  opened->context = OPENCL (clCreateContext) (properties, 1, &found->device, NULL, NULL, &status);
  if (status != CL_SUCCESS)
    return fail ("clCreateContext", status, error);
  opened->queue = OPENCL (clCreateCommandQueue) (opened->context, found->device, 0, &status);
  return status == CL_SUCCESS || fail ("clCreateCommandQueue", status, error);
}

static gpointer
queue_new (gpointer handle, GError **error)
{
  const Handle *opened = handle;
  cl_int status;
  cl_command_queue queue
      = OPENCL (clCreateCommandQueue) (opened->context, opened->device, 0, &status);

  if (status != CL_SUCCESS)
    fail ("clCreateCommandQueue", status, error);
  return status == CL_SUCCESS ? queue : NULL;
}

static void
queue_free (gpointer unused, gpointer queue)
{
  (void) unused;
  OPENCL (clReleaseCommandQueue) (queue);
}

const Backend opencl_backend = { "opencl", handle_open, handle_free, queue_new, queue_free };

TarnAllocator *
make_opencl_deferred (gpointer handle, GError **error)
{
  return tarn_opencl_deferred_allocator_new (((Handle *) handle)->context, CL_MEM_READ_WRITE,
                                             error);
}

TarnAllocator *
make_opencl_immediate (gpointer handle, GError **error)
{
  return tarn_opencl_immediate_allocator_new (((Handle *) handle)->queue, CL_MEM_READ_WRITE, error);
}

TarnAllocator *
make_opencl_svm (gpointer handle, GError **error)
{
  const Handle *opened = handle;

  return tarn_opencl_svm_allocator_new (opened->context, 0, CL_MEM_READ_WRITE, NULL, error);
}
