/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * vector-expression on OpenCL. */

#include <stdio.h>
#include <tarn/opencl.h>

#include "vector-expression.h"

struct _Session
{
  cl_context context;
  cl_command_queue queue; /* in order */
  cl_program program;
  cl_kernel kernels[N_OPERATORS];
};

static const gchar *const kernel_names[N_OPERATORS]
    = { "ramp", "add", "subtract", "multiply", "scale", "square_root" };

static const gchar kernel_source[]
    = "#define OPERATOR(name, result)                                            \\\n"
      "  kernel void name (global const float *a, global const float *b, float c, \\\n"
      "                    global float *out, ulong length)                      \\\n"
      "  {                                                                       \\\n"
      "    size_t i = get_global_id (0);                                         \\\n"
      "    if (i < length)                                                       \\\n"
      "      out[i] = result;                                                    \\\n"
      "  }\n"
      "OPERATOR (ramp, 1 + (i % (size_t) c) / 4096.0f)\n"
      "OPERATOR (add, a[i] + b[i])\n"
      "OPERATOR (subtract, a[i] - b[i])\n"
      "OPERATOR (multiply, a[i] * b[i])\n"
      "OPERATOR (scale, a[i] * c)\n"
      "OPERATOR (square_root, sqrt (a[i]))\n";

static gboolean
check_status (cl_int status, const gchar *call, GError **error)
{
  if (status == CL_SUCCESS)
    return TRUE;
  g_set_error (error, TARN_OPENCL_ERROR, status, "%s: %s (%d)", call,
               tarn_opencl_status_name (status), status);
  return FALSE;
}

/* Devices */

static gboolean
get_info (cl_device_id id, cl_device_info info, gpointer value, gsize size, GError **error)
{
  return check_status (clGetDeviceInfo (id, info, size, value, NULL), "clGetDeviceInfo", error);
}

static gboolean
add_device (GArray *devices, cl_device_id id, guint platform, guint index, GError **error)
{
  Device device = { .backend = &opencl_backend, .id.pointer = id };
  cl_device_type type;
  cl_ulong max_bytes, total_bytes;

  if (!get_info (id, CL_DEVICE_NAME, device.name, sizeof device.name, error)
      || !get_info (id, CL_DEVICE_TYPE, &type, sizeof type, error)
      || !get_info (id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, &max_bytes, sizeof max_bytes, error)
      || !get_info (id, CL_DEVICE_GLOBAL_MEM_SIZE, &total_bytes, sizeof total_bytes, error))
    return FALSE;
  g_snprintf (device.selector, sizeof device.selector, "%u:%u", platform, index);
  device.is_gpu = (type & CL_DEVICE_TYPE_GPU) != 0;
  device.max_bytes = max_bytes;
  device.total_bytes = total_bytes;
  g_array_append_val (devices, device);
  return TRUE;
}

/* A missing platform or device is not an error: the list is just shorter. */
static gboolean
find_devices (GArray *devices, GError **error)
{
  cl_platform_id platforms[32];
  cl_device_id ids[32];
  cl_uint n_platforms, n_ids;

  if (clGetPlatformIDs (G_N_ELEMENTS (platforms), platforms, &n_platforms) != CL_SUCCESS)
    n_platforms = 0;
  for (guint i = 0; i < MIN (n_platforms, G_N_ELEMENTS (platforms)); i++)
    {
      if (clGetDeviceIDs (platforms[i], CL_DEVICE_TYPE_ALL, G_N_ELEMENTS (ids), ids, &n_ids)
          != CL_SUCCESS)
        n_ids = 0;
      for (guint j = 0; j < MIN (n_ids, G_N_ELEMENTS (ids)); j++)
        if (!add_device (devices, ids[j], i, j, error))
          return FALSE;
    }
  return TRUE;
}

/* Sessions */

static void
close_session (Session *session)
{
  for (guint i = 0; i < N_OPERATORS; i++)
    if (session->kernels[i] != NULL)
      clReleaseKernel (session->kernels[i]);
  if (session->program != NULL)
    clReleaseProgram (session->program);
  if (session->queue != NULL)
    clReleaseCommandQueue (session->queue);
  if (session->context != NULL)
    clReleaseContext (session->context);
  g_free (session);
}

static gboolean
build_kernels (Session *session, cl_device_id device, GError **error)
{
  const gchar *source = kernel_source;
  gchar log[4096] = "";
  cl_int status;

  session->program = clCreateProgramWithSource (session->context, 1, &source, NULL, &status);
  if (!check_status (status, "clCreateProgramWithSource", error))
    return FALSE;
  status = clBuildProgram (session->program, 1, &device, "", NULL, NULL);
  if (!check_status (status, "clBuildProgram", error))
    {
      clGetProgramBuildInfo (session->program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
      fputs (log, stderr);
      return FALSE;
    }
  for (guint i = 0; i < N_OPERATORS; i++)
    {
      session->kernels[i] = clCreateKernel (session->program, kernel_names[i], &status);
      if (!check_status (status, "clCreateKernel", error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
fill_session (Session *session, cl_device_id device, GError **error)
{
  cl_int status;

  session->context = clCreateContext (NULL, 1, &device, NULL, NULL, &status);
  if (!check_status (status, "clCreateContext", error))
    return FALSE;
  session->queue = clCreateCommandQueue (session->context, device, 0, &status);
  return check_status (status, "clCreateCommandQueue", error)
         && build_kernels (session, device, error);
}

static Session *
open_session (const Device *device, GError **error)
{
  Session *session = g_new0 (Session, 1);

  if (fill_session (session, device->id.pointer, error))
    return session;
  close_session (session);
  return NULL;
}

/* The pool has an immediate allocator.  With a deferred one, memory runs out in a later command,
 * where the pool cannot free its cached blocks and retry. */
static TarnAllocator *
allocator_new (Session *session, GError **error)
{
  return tarn_opencl_immediate_allocator_new (session->queue, CL_MEM_READ_WRITE, error);
}

static TarnPool *
pool_new (Session *session, GError **error)
{
  return tarn_opencl_pool_new (session->queue, CL_MEM_READ_WRITE, NULL, error);
}

/* Kernels */

static cl_mem
buffer_of (const TarnBlock *vector)
{
  return vector != NULL ? tarn_opencl_block_get_buffer (vector) : NULL;
}

static gboolean
launch (Session *session, Operator op, const TarnBlock *a, const TarnBlock *b, gfloat c,
        const TarnBlock *out, guint64 length, GError **error)
{
  cl_kernel kernel = session->kernels[op];
  cl_mem a_buffer = buffer_of (a), b_buffer = buffer_of (b), out_buffer = buffer_of (out);
  cl_ulong n = length;
  gsize n_items = (length + 63) / 64 * 64; /* can be divided into work-groups of a good size */
  cl_int status;

  if ((status = clSetKernelArg (kernel, 0, sizeof a_buffer, &a_buffer)) != CL_SUCCESS
      || (status = clSetKernelArg (kernel, 1, sizeof b_buffer, &b_buffer)) != CL_SUCCESS
      || (status = clSetKernelArg (kernel, 2, sizeof c, &c)) != CL_SUCCESS
      || (status = clSetKernelArg (kernel, 3, sizeof out_buffer, &out_buffer)) != CL_SUCCESS
      || (status = clSetKernelArg (kernel, 4, sizeof n, &n)) != CL_SUCCESS)
    return check_status (status, "clSetKernelArg", error);
  status = clEnqueueNDRangeKernel (session->queue, kernel, 1, NULL, &n_items, NULL, 0, NULL, NULL);
  return check_status (status, "clEnqueueNDRangeKernel", error);
}

static gboolean
finish (Session *session, GError **error)
{
  return check_status (clFinish (session->queue), "clFinish", error);
}

static gboolean
read_vector (Session *session, const TarnBlock *vector, gsize offset, gsize size, gpointer data,
             GError **error)
{
  cl_int status = clEnqueueReadBuffer (session->queue, buffer_of (vector), CL_TRUE, offset, size,
                                       data, 0, NULL, NULL);

  return check_status (status, "clEnqueueReadBuffer", error);
}

const Backend opencl_backend = {
  .name = "opencl",
  .without_device = "no OpenCL device; PoCL, for one, makes a device of the CPU",
  .find_devices = find_devices,
  .open = open_session,
  .close = close_session,
  .allocator_new = allocator_new,
  .pool_new = pool_new,
  .launch = launch,
  .finish = finish,
  .read = read_vector,
};
