/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Finds out facts that OpenCL states only for a kernel: builds a small kernel, and queries it. */

#include "common/argument-private.h"
#include "device-private.h"
#include "driver-private.h"
#include "program-private.h"
#include "status-private.h"

/* A small kernel, its program and its context.  Each field is a reference, or NULL until the object
 * is made. */
typedef struct
{
  cl_context context; /* the context made for the kernel; NULL if it uses the caller's context */
  cl_program program;
  cl_kernel kernel;
} Probe;

static void
probe_clear (Probe *probe)
{
  if (probe->kernel != NULL)
    _tarn_opencl_report_release ("clReleaseKernel", _tarn_cl.clReleaseKernel (probe->kernel));
  if (probe->program != NULL)
    _tarn_opencl_report_release ("clReleaseProgram", _tarn_cl.clReleaseProgram (probe->program));
  if (probe->context != NULL)
    _tarn_opencl_report_release ("clReleaseContext", _tarn_cl.clReleaseContext (probe->context));
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Probe, probe_clear)

static cl_context
make_context (cl_device_id device, GError **error)
{
  cl_int status;
  cl_context context = _tarn_cl.clCreateContext (NULL, 1, &device, NULL, NULL, &status);

  if (context == NULL)
    _tarn_opencl_set_error (error, "clCreateContext", status);
  return context;
}

/* Builds @source, and makes its kernel "probe".  The caller clears @probe even after a failure. */
static gboolean
test_program_init (Probe *probe, cl_device_id device, cl_context context, const gchar *source,
                   GError **error)
{
  cl_int status;

  if (context == NULL)
    context = probe->context = make_context (device, error);
  if (context == NULL)
    return FALSE;
  probe->program = _tarn_opencl_build_program (context, device, source, "", error);
  if (probe->program == NULL)
    return FALSE;
  probe->kernel = _tarn_cl.clCreateKernel (probe->program, "probe", &status);
  if (probe->kernel != NULL)
    return TRUE;
  _tarn_opencl_set_error (error, "clCreateKernel", status);
  return FALSE;
}

static gboolean
get_preferred_multiple (cl_device_id device, cl_context context, gsize *multiple, GError **error)
{
  g_auto (Probe) probe = { NULL, NULL, NULL };
  cl_int status;

  if (!test_program_init (&probe, device, context,
                          "kernel void probe (global int *a) { a[get_global_id (0)] += 1; }",
                          error))
    return FALSE;
  status = _tarn_cl.clGetKernelWorkGroupInfo (probe.kernel, device,
                                              CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE,
                                              sizeof *multiple, multiple, NULL);
  if (status == CL_SUCCESS)
    return TRUE;
  _tarn_opencl_set_error (error, "clGetKernelWorkGroupInfo", status);
  return FALSE;
}

gboolean
tarn_opencl_reasonable_work_group_size_multiple (cl_device_id device, cl_context context,
                                                 gsize *multiple, GError **error)
{
  cl_uint warp_size;
  gsize found;

  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (device, FALSE);

  if (!_tarn_opencl_load (error)
      || !_tarn_opencl_get_device_extra (device, TARN_DEVICE_WARP_SIZE_NV, &warp_size, error))
    return FALSE;
  found = warp_size;
  if (warp_size == 0 && !get_preferred_multiple (device, context, &found, error))
    return FALSE;
  if (multiple != NULL)
    *multiple = found;
  return TRUE;
}

/* Finds out how many arguments a driver counts in a kernel whose only argument is a struct of two
 * members.  The right count is 1. */
static gboolean
count_struct_arguments (cl_device_id device, cl_context context, cl_uint *count, GError **error)
{
  g_auto (Probe) probe = { NULL, NULL, NULL };
  cl_int status;

  if (!test_program_init (&probe, device, context,
                          "struct pair { long first, second; };\n"
                          "kernel void probe (struct pair a) {}",
                          error))
    return FALSE;
  status = _tarn_cl.clGetKernelInfo (probe.kernel, CL_KERNEL_NUM_ARGS, sizeof *count, count, NULL);
  if (status == CL_SUCCESS)
    return TRUE;
  _tarn_opencl_set_error (error, "clGetKernelInfo", status);
  return FALSE;
}

/* Finds out whether PoCL counts a struct argument as several arguments.  PoCL 0.13 and older do.
 * 0.14 may do so, so for 0.14 this function builds a kernel and asks PoCL for the count. */
static gboolean
has_pocl_bug (cl_device_id device, cl_context context, gboolean *has_bug, GError **error)
{
  cl_platform_id platform;
  guint major, minor;
  cl_uint count = 1;

  if (!_tarn_opencl_get_device_value (device, CL_DEVICE_PLATFORM, &platform, sizeof platform, error)
      || !tarn_opencl_get_pocl_version (platform, 0, 14, &major, &minor, NULL, error))
    return FALSE;
  if (major == 0 && minor == 14 && !count_struct_arguments (device, context, &count, error))
    return FALSE;
  *has_bug = (major == 0 && minor <= 13) || count == 2;
  return TRUE;
}

/* Finds out whether a driver miscounts the arguments of kernels with a struct argument.  If so,
 * sets *bug to the static string "apple" or "pocl", which names the driver.  If the driver counts
 * right, sets *bug to NULL. */
static gboolean
find_bug (cl_device_id device, cl_context context, const gchar **bug, GError **error)
{
  g_autofree gchar *platform
      = _tarn_opencl_get_device_platform_string (device, CL_PLATFORM_NAME, error);
  cl_device_type type;
  gboolean has_bug = FALSE;

  if (platform == NULL
      || !_tarn_opencl_get_device_value (device, CL_DEVICE_TYPE, &type, sizeof type, error))
    return FALSE;
  *bug = NULL;
  if (g_str_equal (platform, "Apple") && (type & CL_DEVICE_TYPE_CPU) != 0)
    *bug = "apple";
  if (!g_str_equal (platform, TARN_POCL_NAME))
    return TRUE;
  if (!has_pocl_bug (device, context, &has_bug, error))
    return FALSE;
  if (has_bug)
    *bug = "pocl";
  return TRUE;
}

gboolean
tarn_opencl_has_struct_arg_count_bug (cl_device_id device, cl_context context, const gchar **bug,
                                      GError **error)
{
  const gchar *found;

  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (device, FALSE);

  if (!_tarn_opencl_load (error) || !find_bug (device, context, &found, error))
    return FALSE;
  if (bug != NULL)
    *bug = found;
  return TRUE;
}
