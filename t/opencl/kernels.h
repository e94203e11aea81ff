/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Kernels of a memo, and how often they are built: a few functions of the OpenCL loader's are
 * defined here, which take the loader's place for the library, too, and pass on, whichever loader
 * it is.  They count, and one can be had to say what no compiler would. */

#ifndef TARN_OPENCL_KERNELS_H
#define TARN_OPENCL_KERNELS_H

#include <tarn/opencl.h>

/* The key of a kernel for the device. */
TarnOpenclKernelKey opencl_kernel_key (const TarnOpenclDevice *device, const gchar *source,
                                       const gchar *name);

/* A reference, without an error. */
cl_kernel opencl_get_kernel (TarnMemo *kernels, cl_context context, const TarnOpenclKernelKey *key);

/* The same, and gives it back. */
void opencl_touch_kernel (TarnMemo *kernels, cl_context context, const TarnOpenclKernelKey *key);

gsize opencl_count_entries (TarnMemo *memo);

/* Calls since opencl_calls_reset (); any thread may call these. */
guint opencl_calls_get_builds (void);  /* clBuildProgram */
guint opencl_calls_get_kernels (void); /* clCreateKernel */
guint opencl_calls_get_retained_devices (void);
void opencl_calls_reset (void);

/* Every build log is this one, which must last, from now on; NULL: the compiler's. */
void opencl_calls_pretend_log (const gchar *log);

#endif
