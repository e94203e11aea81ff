/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Finds out how much memory devices have, and how much of it is free. */

#include "device-private.h"
#include "driver-private.h"
#include "order-private.h"
#include "status-private.h"

/* CL_DEVICE_GLOBAL_FREE_MEMORY_AMD, a query of the extension cl_amd_device_attribute_query.  Its
 * answer is two numbers, in KiB: the free memory, and the size of the largest free range. */
#define FREE_MEMORY_AMD 0x4039
#define FREE_MEMORY_EXTENSION "cl_amd_device_attribute_query"

/* Asks the driver how much memory a device has, and how much of it is free.  Sets *free_bytes to
 * G_MAXUINT64 if the driver does not state the free memory. */
static gboolean
ask_device (cl_device_id device, guint64 *bytes, guint64 *free_bytes, GError **error)
{
  g_autofree gchar *extensions
      = _tarn_opencl_get_device_string (device, CL_DEVICE_EXTENSIONS, error);
  size_t free_kib[2] = { 0, 0 };
  cl_ulong total;
  cl_int status;

  *free_bytes = G_MAXUINT64;
  if (extensions == NULL
      || !_tarn_opencl_get_device_value (device, CL_DEVICE_GLOBAL_MEM_SIZE, &total, sizeof total,
                                         error))
    return FALSE;
  *bytes = total;
  if (!_tarn_opencl_has_extension (extensions, FREE_MEMORY_EXTENSION))
    return TRUE;
  status = _tarn_cl.clGetDeviceInfo (device, FREE_MEMORY_AMD, sizeof free_kib, free_kib, NULL);
  if (status == CL_INVALID_VALUE) /* older versions of the extension lack this query */
    return TRUE;
  *free_bytes = (guint64) free_kib[0] << 10;
  return _tarn_opencl_check (status, "clGetDeviceInfo", error);
}

static GArray *
list_devices (const TarnOpenclHome *home, GError **error)
{
  cl_device_id device;
  GArray *devices;

  if (home->queue == NULL)
    return _tarn_opencl_list_devices (home->context, error);
  if (!_tarn_opencl_get_queue_value (home->queue, CL_QUEUE_DEVICE, &device, sizeof device, error))
    return NULL;
  devices = g_array_new (FALSE, FALSE, sizeof device);
  g_array_append_val (devices, device);
  return devices;
}

gboolean
_tarn_opencl_get_memory (gpointer user_data, guint64 *device_bytes, guint64 *free_bytes,
                         GError **error)
{
  g_autoptr (GArray) devices = list_devices (user_data, error);
  guint64 least = G_MAXUINT64, least_free = G_MAXUINT64;

  if (devices == NULL)
    return FALSE;
  for (guint i = 0; i < devices->len; i++)
    {
      guint64 bytes, unused;

      if (!ask_device (g_array_index (devices, cl_device_id, i), &bytes, &unused, error))
        return FALSE;
      least = MIN (least, bytes);
      least_free = MIN (least_free, unused);
    }
  *device_bytes = least;
  *free_bytes = least_free;
  return TRUE;
}
