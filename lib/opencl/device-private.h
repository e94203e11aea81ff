/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#ifndef TARN_OPENCL_DEVICE_PRIVATE_H
#define TARN_OPENCL_DEVICE_PRIVATE_H

#include <tarn/opencl.h>

gchar *_tarn_opencl_get_device_string (cl_device_id device, cl_device_info info, cl_int *status);

#endif
