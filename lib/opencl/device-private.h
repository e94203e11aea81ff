/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Functions that query devices, platforms and contexts. */

#ifndef TARN_OPENCL_DEVICE_PRIVATE_H
#define TARN_OPENCL_DEVICE_PRIVATE_H

#include <tarn/opencl.h>

/* Constants of the extension cl_nv_device_attribute_query, for _tarn_opencl_get_device_extra (). */
#define TARN_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV 0x4000
#define TARN_DEVICE_COMPUTE_CAPABILITY_MINOR_NV 0x4001
#define TARN_DEVICE_WARP_SIZE_NV 0x4003

/* The name of PoCL's platform (CL_PLATFORM_NAME). */
#define TARN_POCL_NAME "Portable Computing Language"

gboolean _tarn_opencl_get_device_value (cl_device_id device, cl_device_info info, gpointer value,
                                        gsize size, GError **error);
gboolean _tarn_opencl_get_device_extra (cl_device_id device, cl_device_info info, cl_uint *value,
                                        GError **error);
gchar *_tarn_opencl_get_device_string (cl_device_id device, cl_device_info info, GError **error);
gchar *_tarn_opencl_get_platform_string (cl_platform_id platform, cl_platform_info info,
                                         GError **error);
gchar *_tarn_opencl_get_device_platform_string (cl_device_id device, cl_platform_info info,
                                                GError **error);
gboolean _tarn_opencl_get_device_version (cl_device_id device, guint *major, guint *minor,
                                          GError **error);
gboolean _tarn_opencl_is_old (cl_device_id device, gboolean *is_old, GError **error);
gboolean _tarn_opencl_ref_device (cl_device_id device);
void _tarn_opencl_unref_device (cl_device_id device);
gboolean _tarn_opencl_has_extension (const gchar *extensions, const gchar *name);
GArray *_tarn_opencl_list_devices (cl_context context, GError **error);

#endif
