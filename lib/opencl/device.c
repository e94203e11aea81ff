/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Functions that query a device, its platform, and the devices of a context. */

#include "device-private.h"

#include <stdio.h>

#include "common/shorten-private.h"
#include "driver-private.h"
#include "status-private.h"

gboolean
_tarn_opencl_get_device_value (cl_device_id device, cl_device_info info, gpointer value, gsize size,
                               GError **error)
{
  return _tarn_opencl_check (_tarn_cl.clGetDeviceInfo (device, info, size, value, NULL),
                             "clGetDeviceInfo", error);
}

/* Asks a device for a number, by a query that only some drivers know.  Sets *value to 0 if the
 * driver does not know the query, that is, returns CL_INVALID_VALUE or CL_INVALID_OPERATION.  Does
 * not check the device's list of extensions: a driver may know the query although the list lacks
 * its extension, as PoCL's driver for CUDA does. */
gboolean
_tarn_opencl_get_device_extra (cl_device_id device, cl_device_info info, cl_uint *value,
                               GError **error)
{
  cl_uint answer = 0;
  cl_int status = _tarn_cl.clGetDeviceInfo (device, info, sizeof answer, &answer, NULL);

  if (status == CL_INVALID_VALUE || status == CL_INVALID_OPERATION)
    answer = 0;
  else if (!_tarn_opencl_check (status, "clGetDeviceInfo", error))
    return FALSE;
  *value = answer;
  return TRUE;
}

/* Gets a device's string of any length, transfer full.  Returns NULL with an error on failure. */
gchar *
_tarn_opencl_get_device_string (cl_device_id device, cl_device_info info, GError **error)
{
  g_autofree gchar *text = NULL;
  size_t size = 0;
  cl_int status = _tarn_cl.clGetDeviceInfo (device, info, 0, NULL, &size);

  text = g_malloc0 (size + 1);
  if (status == CL_SUCCESS)
    status = _tarn_cl.clGetDeviceInfo (device, info, size, text, NULL);
  return _tarn_opencl_check (status, "clGetDeviceInfo", error) ? g_steal_pointer (&text) : NULL;
}

/* Asks a platform for a string, transfer full.  Returns NULL with an error if the query fails. */
gchar *
_tarn_opencl_get_platform_string (cl_platform_id platform, cl_platform_info info, GError **error)
{
  g_autofree gchar *text = NULL;
  size_t size = 0;
  cl_int status = _tarn_cl.clGetPlatformInfo (platform, info, 0, NULL, &size);

  text = g_malloc0 (size + 1);
  if (status == CL_SUCCESS)
    status = _tarn_cl.clGetPlatformInfo (platform, info, size, text, NULL);
  return _tarn_opencl_check (status, "clGetPlatformInfo", error) ? g_steal_pointer (&text) : NULL;
}

/* Asks a device's platform for a string, transfer full.  Returns NULL with an error on failure. */
gchar *
_tarn_opencl_get_device_platform_string (cl_device_id device, cl_platform_info info, GError **error)
{
  cl_platform_id platform;

  if (!_tarn_opencl_get_device_value (device, CL_DEVICE_PLATFORM, &platform, sizeof platform,
                                      error))
    return NULL;
  return _tarn_opencl_get_platform_string (platform, info, error);
}

/* Reads a version from a text that begins like "OpenCL 3.0".  The vendor may append any text.
 * @call is the function that the text is from. */
static gboolean
parse_version (const gchar *text, const gchar *call, guint *major, guint *minor, GError **error)
{
  g_autofree gchar *quoted = NULL;

  if (sscanf (text, "OpenCL %u.%u", major, minor) == 2)
    return TRUE;
  quoted = _tarn_shorten (text);
  g_set_error (error, TARN_ERROR, TARN_ERROR_FAILED, "%s: '%s' is not an OpenCL version", call,
               quoted);
  return FALSE;
}

/* Finds the version of OpenCL whose functions may be called for a device: the version of the device
 * or of its platform, whichever is older.  A platform that passes on the devices of others (SOCL)
 * can have newer devices than itself, and then lacks the newer functions. */
gboolean
_tarn_opencl_get_device_version (cl_device_id device, guint *major, guint *minor, GError **error)
{
  g_autofree gchar *own = _tarn_opencl_get_device_string (device, CL_DEVICE_VERSION, error);
  g_autofree gchar *of_platform = NULL;
  guint platform_major, platform_minor;

  if (own == NULL || !parse_version (own, "clGetDeviceInfo", major, minor, error))
    return FALSE;
  of_platform = _tarn_opencl_get_device_platform_string (device, CL_PLATFORM_VERSION, error);
  if (of_platform == NULL
      || !parse_version (of_platform, "clGetPlatformInfo", &platform_major, &platform_minor, error))
    return FALSE;
  if (platform_major < *major || (platform_major == *major && platform_minor < *minor))
    {
      *major = platform_major;
      *minor = platform_minor;
    }
  return TRUE;
}

/* Finds out whether a device is older than OpenCL 1.2. */
gboolean
_tarn_opencl_is_old (cl_device_id device, gboolean *is_old, GError **error)
{
  guint major, minor;

  if (!_tarn_opencl_get_device_version (device, &major, &minor, error))
    return FALSE;
  *is_old = major < 1 || (major == 1 && minor < 2);
  return TRUE;
}

/* Retains a device, which may be a sub-device.  Does nothing if the device is older than OpenCL
 * 1.2.  Such a device is no sub-device, and its driver lacks clRetainDevice (): OpenCL loaders
 * would call the missing function without a check.  Returns FALSE on failure. */
gboolean
_tarn_opencl_ref_device (cl_device_id device)
{
  gboolean is_old;

  return _tarn_opencl_is_old (device, &is_old, NULL)
         && (is_old || _tarn_cl.clRetainDevice (device) == CL_SUCCESS);
}

/* Releases a reference that _tarn_opencl_ref_device () has taken. */
void
_tarn_opencl_unref_device (cl_device_id device)
{
  gboolean is_old;

  if (_tarn_opencl_is_old (device, &is_old, NULL) && !is_old)
    _tarn_opencl_report_release ("clReleaseDevice", _tarn_cl.clReleaseDevice (device));
}

/* Returns TRUE if @extensions contains the extension @name.  @extensions is the text of
 * CL_DEVICE_EXTENSIONS: names with spaces between them. */
gboolean
_tarn_opencl_has_extension (const gchar *extensions, const gchar *name)
{
  g_auto (GStrv) words = g_strsplit (extensions, " ", -1);

  return g_strv_contains ((const gchar *const *) words, name);
}

/* Lists the devices of a context, transfer full.  Returns NULL with an error if that fails. */
GArray *
_tarn_opencl_list_devices (cl_context context, GError **error)
{
  g_autoptr (GArray) devices = g_array_new (FALSE, TRUE, sizeof (cl_device_id));
  size_t size = 0;
  cl_int status = _tarn_cl.clGetContextInfo (context, CL_CONTEXT_DEVICES, 0, NULL, &size);

  g_array_set_size (devices, (guint) (size / sizeof (cl_device_id)));
  if (status == CL_SUCCESS)
    status = _tarn_cl.clGetContextInfo (context, CL_CONTEXT_DEVICES, size, devices->data, NULL);
  return _tarn_opencl_check (status, "clGetContextInfo", error) ? g_steal_pointer (&devices) : NULL;
}
