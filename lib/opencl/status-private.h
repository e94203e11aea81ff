/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Converts OpenCL's statuses to errors (GError). */

#ifndef TARN_OPENCL_STATUS_PRIVATE_H
#define TARN_OPENCL_STATUS_PRIVATE_H

#include <tarn/opencl.h>

gboolean _tarn_opencl_check (cl_int status, const gchar *call, GError **error);
void _tarn_opencl_set_error (GError **error, const gchar *call, cl_int status);
void _tarn_opencl_set_error_for_size (GError **error, const gchar *call, cl_int status, gsize size);
void _tarn_opencl_set_error_with_text (GError **error, const gchar *call, cl_int status,
                                       const gchar *text);

/* Logs a g_message () if @status shows that an object could not be released.  The program's call,
 * in which Tarn released the object, does not fail. */
void _tarn_opencl_report_release (const gchar *call, cl_int status);

#endif
