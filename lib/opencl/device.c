/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What a device says of itself. */

#include "device-private.h"

/* A string of any length, transfer full; NULL, and *status, if the driver does not say. */
gchar *
_tarn_opencl_get_device_string (cl_device_id device, cl_device_info info, cl_int *status)
{
  g_autofree gchar *text = NULL;
  size_t size = 0;

  *status = clGetDeviceInfo (device, info, 0, NULL, &size);
  text = g_malloc0 (size + 1);
  if (*status == CL_SUCCESS)
    *status = clGetDeviceInfo (device, info, size, text, NULL);
  return *status == CL_SUCCESS ? g_steal_pointer (&text) : NULL;
}
