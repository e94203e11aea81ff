/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Finds out which kinds of shared virtual memory a device has (OpenCL 3.0 specification, section
 * 3.3.3, "Memory Model: Shared Virtual Memory"). */

#include "common/argument-private.h"
#include "device-private.h"
#include "driver-private.h"

/* CL_DEVICE_SVM_CAPABILITIES, which headers of OpenCL 1.2 lack. */
#define DEVICE_SVM_CAPABILITIES 0x1053

typedef enum
{
  COARSE_GRAIN_BUFFER = 1 << 0,
  FINE_GRAIN_BUFFER = 1 << 1,
  FINE_GRAIN_SYSTEM = 1 << 2,
  ATOMICS = 1 << 3
} Capability;

/* Finds out which kinds of shared virtual memory a device has.  A device older than OpenCL 2.0 has
 * no shared virtual memory, and does not know the query.  So this function does not query such a
 * device, and sets *capabilities to 0. */
static gboolean
get_capabilities (cl_device_id device, cl_bitfield *capabilities, GError **error)
{
  guint major, minor;

  if (!_tarn_opencl_get_device_version (device, &major, &minor, error))
    return FALSE;
  *capabilities = 0;
  return major < 2
         || _tarn_opencl_get_device_value (device, DEVICE_SVM_CAPABILITIES, capabilities,
                                           sizeof *capabilities, error);
}

static gboolean
has (cl_device_id device, cl_bitfield wanted, gboolean *supported, GError **error)
{
  cl_bitfield capabilities;

  if (!_tarn_opencl_load (error) || !get_capabilities (device, &capabilities, error))
    return FALSE;
  if (supported != NULL)
    *supported = (capabilities & wanted) == wanted;
  return TRUE;
}

gboolean
tarn_opencl_has_coarse_grain_buffer_svm (cl_device_id device, gboolean *supported, GError **error)
{
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (device, FALSE);

  return has (device, COARSE_GRAIN_BUFFER, supported, error);
}

gboolean
tarn_opencl_has_fine_grain_buffer_svm (cl_device_id device, gboolean *supported, GError **error)
{
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (device, FALSE);

  return has (device, FINE_GRAIN_BUFFER, supported, error);
}

gboolean
tarn_opencl_has_fine_grain_system_svm (cl_device_id device, gboolean *supported, GError **error)
{
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (device, FALSE);

  return has (device, FINE_GRAIN_SYSTEM, supported, error);
}

gboolean
tarn_opencl_has_fine_grain_buffer_svm_atomics (cl_device_id device, gboolean *supported,
                                               GError **error)
{
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (device, FALSE);

  return has (device, FINE_GRAIN_BUFFER | ATOMICS, supported, error);
}

gboolean
tarn_opencl_has_fine_grain_system_svm_atomics (cl_device_id device, gboolean *supported,
                                               GError **error)
{
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (device, FALSE);

  return has (device, FINE_GRAIN_SYSTEM | ATOMICS, supported, error);
}
