/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The kinds of memory of each backend. */

#ifndef KINDS_PRIVATE_H
#define KINDS_PRIVATE_H

#include "kinds.h"

extern const Backend opencl_backend;
TarnAllocator *make_opencl_deferred (gpointer handle, GError **error);
TarnAllocator *make_opencl_immediate (gpointer handle, GError **error);
TarnAllocator *make_opencl_svm (gpointer handle, GError **error);

extern const Backend cuda_backend;
TarnAllocator *make_cuda_device (gpointer handle, GError **error);
TarnAllocator *make_cuda_host (gpointer handle, GError **error);
TarnAllocator *make_cuda_managed (gpointer handle, GError **error);
TarnAllocator *make_cuda_async (gpointer handle, GError **error);
void enter_cuda_async (gpointer handle);

#endif
