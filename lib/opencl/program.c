/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Builds OpenCL programs from their source. */

#include "driver-private.h"
#include "program-private.h"

#include <string.h>

#include "status-private.h"

/* The largest part of a build log that an error message contains, in bytes.  A log may have
 * megabytes, but the cause of the failure is at its beginning. */
#define MAX_LOG_SIZE (64 * 1024)

/* Cuts a build log that is too long.  Takes over the log. */
static gchar *
cut_log (gchar *log)
{
  gsize size = strlen (log);
  gchar *cut;

  if (size <= MAX_LOG_SIZE)
    return log;
  log[MAX_LOG_SIZE] = '\0';
  cut = g_strdup_printf ("%s\n[%" G_GSIZE_FORMAT " more bytes of the build log are left out]", log,
                         size - MAX_LOG_SIZE);
  g_free (log);
  return cut;
}

/* Returns the build log of a program, or an empty string if there is none, transfer full. */
static gchar *
get_build_log (cl_program program, cl_device_id device)
{
  size_t size = 0;
  gchar *log;

  if (_tarn_cl.clGetProgramBuildInfo (program, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size)
      != CL_SUCCESS)
    size = 0;
  log = g_malloc0 (size + 1);
  if (size > 0
      && _tarn_cl.clGetProgramBuildInfo (program, device, CL_PROGRAM_BUILD_LOG, size, log, NULL)
             != CL_SUCCESS)
    log[0] = '\0';
  return cut_log (g_strstrip (log));
}

/* Builds a program for a device.  If that fails, returns FALSE with the build log in the error. */
static gboolean
build_for_device (cl_program program, cl_device_id device, const gchar *options, GError **error)
{
  cl_int status = _tarn_cl.clBuildProgram (program, 1, &device, options, NULL, NULL);
  g_autofree gchar *log = NULL;

  if (status == CL_SUCCESS)
    return TRUE;
  log = get_build_log (program, device);
  if (log[0] != '\0')
    _tarn_opencl_set_error_with_text (error, "clBuildProgram", status, log);
  else
    _tarn_opencl_set_error (error, "clBuildProgram", status);
  return FALSE;
}

/* Makes a program from @source and builds it for one device, transfer full.  If that fails, returns
 * NULL with an error, which contains the compiler's log if the build failed. */
cl_program
_tarn_opencl_build_program (cl_context context, cl_device_id device, const gchar *source,
                            const gchar *options, GError **error)
{
  cl_int status;
  cl_program program = _tarn_cl.clCreateProgramWithSource (context, 1, &source, NULL, &status);

  if (!_tarn_opencl_check (status, "clCreateProgramWithSource", error))
    return NULL;
  if (build_for_device (program, device, options, error))
    return program;
  _tarn_opencl_report_release ("clReleaseProgram", _tarn_cl.clReleaseProgram (program));
  return NULL;
}
