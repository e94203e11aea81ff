/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The functions that a program passes to cupy.cuda.CFunctionAllocator: one allocates, one frees. */

#include "frameworks-private.h"

void *
tarn_cuda_cupy_malloc (void *param, gsize size, int device)
{
  TarnCudaStreamFunc get_stream = NULL;
  g_autoptr (GError) error = NULL;
  TarnBlock *block;

  if (size == 0)
    return NULL;
  *(void **) &get_stream = param;
  block = _tarn_cuda_framework_allocate (size, device, get_stream != NULL ? get_stream () : NULL,
                                         &error);
  if (block != NULL)
    return _tarn_cuda_framework_address (block);
  g_message ("%s", error->message);
  return NULL;
}

void
tarn_cuda_cupy_free (void *param, void *memory, int device)
{
  (void) param;
  (void) device;
  _tarn_cuda_framework_free (G_STRFUNC, memory);
}
