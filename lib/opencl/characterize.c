/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Finds out facts about devices and platforms, such as the size of a SIMD group, by which programs
 * choose a device.  No single OpenCL query states such a fact for all drivers. */

#include <stdio.h>
#include <string.h>

#include "common/argument-private.h"
#include "common/shorten-private.h"
#include "device-private.h"
#include "driver-private.h"

/* Returns TRUE if a vendor's name, converted to lower case, contains the text @words.  The caller
 * passes @words in lower case. */
static gboolean
names (const gchar *vendor, const gchar *words)
{
  g_autofree gchar *lower = g_ascii_strdown (vendor, -1);

  return strstr (lower, words) != NULL;
}

static gboolean
is_nvidia (const gchar *vendor)
{
  return names (vendor, "nvidia");
}

/* Returns TRUE if the vendor is AMD.  Does not search the vendor's name for "ati", because
 * "Corporation" contains these letters, too. */
static gboolean
is_amd (const gchar *vendor)
{
  return names (vendor, "advanced micro devices");
}

static gboolean
has_extension (cl_device_id device, const gchar *name, gboolean *supported, GError **error)
{
  g_autofree gchar *extensions = NULL;

  if (!_tarn_opencl_load (error))
    return FALSE;
  extensions = _tarn_opencl_get_device_string (device, CL_DEVICE_EXTENSIONS, error);
  if (extensions == NULL)
    return FALSE;
  if (supported != NULL)
    *supported = _tarn_opencl_has_extension (extensions, name);
  return TRUE;
}

gboolean
tarn_opencl_has_double_support (cl_device_id device, gboolean *supported, GError **error)
{
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (device, FALSE);

  return has_extension (device, "cl_khr_fp64", supported, error);
}

gboolean
tarn_opencl_has_amd_double_support (cl_device_id device, gboolean *supported, GError **error)
{
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (device, FALSE);

  return has_extension (device, "cl_amd_fp64", supported, error);
}

gboolean
tarn_opencl_nv_compute_capability (cl_device_id device, guint *major, guint *minor, GError **error)
{
  cl_uint found_major, found_minor = 0;

  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (device, FALSE);

  if (!_tarn_opencl_load (error)
      || !_tarn_opencl_get_device_extra (device, TARN_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV,
                                         &found_major, error)
      || (found_major > 0
          && !_tarn_opencl_get_device_extra (device, TARN_DEVICE_COMPUTE_CAPABILITY_MINOR_NV,
                                             &found_minor, error)))
    return FALSE;
  if (major != NULL)
    *major = found_major;
  if (minor != NULL)
    *minor = found_minor;
  return TRUE;
}

/* Finds the SIMD group size of a device that does not state its warp size, from the vendor and
 * type.  Sets *size to 0 if the size is unknown. */
static gboolean
find_simd_group_size (cl_device_id device, gsize *size, GError **error)
{
  g_autofree gchar *platform = NULL;
  g_autofree gchar *vendor = NULL;
  cl_device_type type;

  platform = _tarn_opencl_get_device_platform_string (device, CL_PLATFORM_VENDOR, error);
  if (platform == NULL)
    return FALSE;
  vendor = _tarn_opencl_get_device_string (device, CL_DEVICE_VENDOR, error);
  if (vendor == NULL
      || !_tarn_opencl_get_device_value (device, CL_DEVICE_TYPE, &type, sizeof type, error))
    return FALSE;
  if (is_nvidia (platform) || is_nvidia (vendor))
    *size = 32;
  else if ((type & CL_DEVICE_TYPE_GPU) != 0 && (is_amd (platform) || is_amd (vendor)))
    return tarn_opencl_reasonable_work_group_size_multiple (device, NULL, size, error);
  else
    *size = (type & CL_DEVICE_TYPE_CPU) != 0 ? 1 : 0;
  return TRUE;
}

gboolean
tarn_opencl_get_simd_group_size (cl_device_id device, guint *size, GError **error)
{
  cl_uint warp_size;
  gsize found;

  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (device, FALSE);

  if (!_tarn_opencl_load (error)
      || !_tarn_opencl_get_device_extra (device, TARN_DEVICE_WARP_SIZE_NV, &warp_size, error))
    return FALSE;
  found = warp_size;
  if (warp_size == 0 && !find_simd_group_size (device, &found, error))
    return FALSE;
  if (size != NULL)
    *size = (guint) found;
  return TRUE;
}

gchar *
tarn_opencl_get_fast_inaccurate_build_options (cl_device_id device, GError **error)
{
  g_autofree gchar *vendor = NULL;

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  TARN_REFUSE_NULL (device, NULL);

  if (!_tarn_opencl_load (error))
    return NULL;
  vendor = _tarn_opencl_get_device_string (device, CL_DEVICE_VENDOR, error);
  if (vendor == NULL)
    return NULL;
  return g_strconcat ("-cl-mad-enable -cl-fast-relaxed-math -cl-no-signed-zeros",
                      is_amd (vendor) || is_nvidia (vendor) ? " -cl-strict-aliasing" : NULL, NULL);
}

/* Reads PoCL's version from a text of CL_PLATFORM_VERSION, such as "OpenCL 3.0 PoCL 3.1+debian".
 * Returns FALSE if the text contains no version of PoCL. */
static gboolean
parse_pocl_version (const gchar *version, guint *major, guint *minor)
{
  gchar name[5] = "";

  return sscanf (version, "OpenCL %*u.%*u %4s %9u.%9u", name, major, minor) == 3
         && g_ascii_strcasecmp (name, "pocl") == 0;
}

gboolean
tarn_opencl_get_pocl_version (cl_platform_id platform, guint fallback_major, guint fallback_minor,
                              guint *major, guint *minor, gchar **guess, GError **error)
{
  g_autofree gchar *name = NULL;
  g_autofree gchar *version = NULL;
  g_autofree gchar *quoted = NULL;
  g_autofree gchar *why = NULL;
  guint found_major = 0, found_minor = 0;

  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (platform, FALSE);

  if (!_tarn_opencl_load (error))
    return FALSE;
  name = _tarn_opencl_get_platform_string (platform, CL_PLATFORM_NAME, error);
  if (name == NULL)
    return FALSE;
  if (g_str_equal (name, TARN_POCL_NAME))
    {
      version = _tarn_opencl_get_platform_string (platform, CL_PLATFORM_VERSION, error);
      if (version == NULL)
        return FALSE;
      if (!parse_pocl_version (version, &found_major, &found_minor))
        {
          found_major = fallback_major;
          found_minor = fallback_minor;
          quoted = _tarn_shorten (version);
          why = g_strdup_printf ("'%s' has no version of PoCL that can be read", quoted);
        }
    }
  if (major != NULL)
    *major = found_major;
  if (minor != NULL)
    *minor = found_minor;
  if (guess != NULL)
    *guess = g_steal_pointer (&why);
  return TRUE;
}

gboolean
tarn_opencl_has_src_build_cache (cl_device_id device, TarnOpenclAnswer *answer, GError **error)
{
  g_autofree gchar *name = NULL;
  TarnOpenclAnswer found = TARN_OPENCL_UNKNOWN;

  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (device, FALSE);

  if (!_tarn_opencl_load (error))
    return FALSE;
  name = _tarn_opencl_get_device_platform_string (device, CL_PLATFORM_NAME, error);
  if (name == NULL)
    return FALSE;
  if (g_str_equal (name, TARN_POCL_NAME) || is_nvidia (name))
    found = TARN_OPENCL_YES;
  else if (g_str_equal (name, "AMD Accelerated Parallel Processing"))
    found = TARN_OPENCL_NO;
  if (answer != NULL)
    *answer = found;
  return TRUE;
}
