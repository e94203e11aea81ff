/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memory objects: functions for buffers and for images. */

#include "memory-object-private.h"

#include <string.h>

#include "device-private.h"
#include "driver-private.h"
#include "status-private.h"

#define NVIDIA 0x10de /* NVIDIA's vendor number on the PCI bus */
#define NVIDIA_PLATFORM "NVIDIA CUDA"

/* Chooses the command that makes the driver allocate the memory of a new buffer or image:
 *
 * - usually a migration to the device;
 * - before OpenCL 1.2, which brought migrations, a write of the first bytes;
 * - on NVIDIA's devices, a fill of the first bytes, which is legal whatever access the flags give
 *   to the host.  With NVIDIA's driver 580, a migration crashes a thread of the driver if another
 *   thread enqueues at the same time, even without Tarn.  OpenCL promises that threads may enqueue
 *   on one queue at the same time (OpenCL 3.0 specification, appendix A.2, "Multiple Host
 *   Threads"). */
static gboolean
choose_command (cl_device_id device, cl_uint vendor, TarnOpenclCommand *command, GError **error)
{
  gboolean is_old;

  if (!_tarn_opencl_is_old (device, &is_old, error))
    return FALSE;
  if (is_old)
    *command = TARN_OPENCL_WRITE;
  else
    *command = vendor == NVIDIA ? TARN_OPENCL_FILL : TARN_OPENCL_MIGRATE;
  return TRUE;
}

/* Finds out whether reference counts (CL_MEM_REFERENCE_COUNT) count only the program's references.
 * Drivers do not state this.  The following was seen while a command waited for a user event:
 * NVIDIA's driver does not count the commands that use an object.  PoCL counts commands that use a
 * sub-buffer in the count of the whole buffer.  rusticl and Oclgrind count all commands. */
static gboolean
find_trust (cl_device_id device, cl_uint vendor, TarnOpenclTraits *traits, GError **error)
{
  g_autofree gchar *platform
      = _tarn_opencl_get_device_platform_string (device, CL_PLATFORM_NAME, error);

  if (platform == NULL)
    return FALSE;
  traits->trusts_whole = vendor == NVIDIA && strcmp (platform, NVIDIA_PLATFORM) == 0;
  traits->trusts_parts = traits->trusts_whole || strcmp (platform, TARN_POCL_NAME) == 0;
  return TRUE;
}

gboolean
_tarn_opencl_find_traits (cl_device_id device, TarnOpenclTraits *traits, GError **error)
{
  cl_uint vendor = 0;

  return _tarn_opencl_get_device_value (device, CL_DEVICE_VENDOR_ID, &vendor, sizeof vendor, error)
         && choose_command (device, vendor, &traits->command, error)
         && find_trust (device, vendor, traits, error);
}

gboolean
_tarn_opencl_check_flags (cl_mem_flags flags, GError **error)
{
  if ((flags & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR)) == 0)
    return TRUE;
  g_set_error (error, TARN_OPENCL_ERROR, CL_INVALID_VALUE,
               "flags 0x%" G_GINT64_MODIFIER "x: CL_INVALID_VALUE (%d): CL_MEM_USE_HOST_PTR and "
               "CL_MEM_COPY_HOST_PTR need a host pointer, which an allocator has not",
               (guint64) flags, CL_INVALID_VALUE);
  return FALSE;
}

/* Returns FALSE after a single query if the reference count is 1, which is the usual case. */
gboolean
_tarn_opencl_is_retained (cl_mem object, const TarnOpenclTraits *traits)
{
  cl_mem whole = NULL;
  cl_uint n = 0;
  cl_int status = _tarn_cl.clGetMemObjectInfo (object, CL_MEM_REFERENCE_COUNT, sizeof n, &n, NULL);

  if (status == CL_SUCCESS && n <= 1)
    return FALSE;
  if (status == CL_SUCCESS)
    status = _tarn_cl.clGetMemObjectInfo (object, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof whole, &whole,
                                          NULL);
  if (status == CL_SUCCESS)
    return whole != NULL ? traits->trusts_parts : traits->trusts_whole;
  g_message ("clGetMemObjectInfo: %s (%d): memory is freed as if the program did not retain it",
             tarn_opencl_status_name (status), status);
  return FALSE;
}

void
_tarn_opencl_release_memory (cl_mem object, const gchar *what, gsize size)
{
  cl_int status = _tarn_cl.clReleaseMemObject (object);

  if (status != CL_SUCCESS)
    g_message ("clReleaseMemObject: %s (%d): %s of %" G_GSIZE_FORMAT " bytes may be lost",
               tarn_opencl_status_name (status), status, what, size);
}
