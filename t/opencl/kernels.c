/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#define _GNU_SOURCE 1 /* RTLD_NEXT */

#include "kernels.h"

#include <dlfcn.h>
#include <string.h>

TarnOpenclKernelKey
opencl_kernel_key (const TarnOpenclDevice *device, const gchar *source, const gchar *name)
{
  TarnOpenclKernelKey key = TARN_OPENCL_KERNEL_KEY_INIT;

  key.source = source;
  key.kernel_name = name;
  key.device = device->device;
  return key;
}

cl_kernel
opencl_get_kernel (TarnMemo *kernels, cl_context context, const TarnOpenclKernelKey *key)
{
  g_autoptr (GError) error = NULL;
  cl_kernel kernel = NULL;

  g_assert_true (tarn_opencl_kernel_memo_get (kernels, context, key, &kernel, &error));
  g_assert_no_error (error);
  g_assert_nonnull (kernel);
  return kernel;
}

void
opencl_touch_kernel (TarnMemo *kernels, cl_context context, const TarnOpenclKernelKey *key)
{
  g_assert_cmpint (clReleaseKernel (opencl_get_kernel (kernels, context, key)), ==, CL_SUCCESS);
}

gsize
opencl_count_entries (TarnMemo *memo)
{
  TarnMemoStats stats = TARN_MEMO_STATS_INIT;

  tarn_memo_get_stats (memo, &stats);
  return stats.entries;
}

/* Calls.  All of these are atomic. */

static gint n_builds, n_kernels, n_retained_devices;
static const gchar *pretended_log;

/* The loader's own, into a pointer to it. */
static void
find_next (const gchar *name, gpointer function)
{
  gpointer found = dlsym (RTLD_NEXT, name);

  if (found == NULL)
    g_error ("the OpenCL loader has no %s", name);
  memcpy (function, &found, sizeof found);
}

cl_int
clBuildProgram (cl_program program, cl_uint n, const cl_device_id *devices, const char *options,
                void (CL_CALLBACK *notify) (cl_program program, void *user_data), void *user_data)
{
  cl_int (*next) (cl_program, cl_uint, const cl_device_id *, const char *,
                  void (CL_CALLBACK *) (cl_program, void *), void *);

  g_atomic_int_inc (&n_builds);
  find_next ("clBuildProgram", &next);
  return next (program, n, devices, options, notify, user_data);
}

cl_kernel
clCreateKernel (cl_program program, const char *name, cl_int *status)
{
  cl_kernel (*next) (cl_program, const char *, cl_int *);

  g_atomic_int_inc (&n_kernels);
  find_next ("clCreateKernel", &next);
  return next (program, name, status);
}

cl_int
clGetProgramBuildInfo (cl_program program, cl_device_id device, cl_program_build_info name,
                       size_t size, void *value, size_t *size_ret)
{
  const gchar *log = g_atomic_pointer_get (&pretended_log);
  cl_int (*next) (cl_program, cl_device_id, cl_program_build_info, size_t, void *, size_t *);

  if (log == NULL || name != CL_PROGRAM_BUILD_LOG)
    {
      find_next ("clGetProgramBuildInfo", &next);
      return next (program, device, name, size, value, size_ret);
    }
  if (value != NULL && size <= strlen (log))
    return CL_INVALID_VALUE;
  if (value != NULL)
    memcpy (value, log, strlen (log) + 1);
  if (size_ret != NULL)
    *size_ret = strlen (log) + 1;
  return CL_SUCCESS;
}

cl_int
clRetainDevice (cl_device_id device)
{
  cl_int (*next) (cl_device_id);

  find_next ("clRetainDevice", &next);
  g_atomic_int_inc (&n_retained_devices);
  return next (device);
}

guint
opencl_calls_get_builds (void)
{
  return (guint) g_atomic_int_get (&n_builds);
}

guint
opencl_calls_get_kernels (void)
{
  return (guint) g_atomic_int_get (&n_kernels);
}

guint
opencl_calls_get_retained_devices (void)
{
  return (guint) g_atomic_int_get (&n_retained_devices);
}

void
opencl_calls_reset (void)
{
  g_atomic_int_set (&n_builds, 0);
  g_atomic_int_set (&n_kernels, 0);
  g_atomic_int_set (&n_retained_devices, 0);
}

void
opencl_calls_pretend_log (const gchar *log)
{
  g_atomic_pointer_set (&pretended_log, log);
}
