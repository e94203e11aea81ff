/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A function that builds an OpenCL program from its source. */

#ifndef TARN_OPENCL_PROGRAM_PRIVATE_H
#define TARN_OPENCL_PROGRAM_PRIVATE_H

#include <tarn/opencl.h>

cl_program _tarn_opencl_build_program (cl_context context, cl_device_id device, const gchar *source,
                                       const gchar *options, GError **error);

#endif
