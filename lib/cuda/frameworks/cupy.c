/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The two functions for cupy.cuda.CFunctionAllocator. */

#include "frameworks-private.h"

/**
 * Allocates for CuPy, as cupy.cuda.CFunctionAllocator calls it. The guide has the few lines of
 * Python that a program needs, which turn NULL into CuPy's OutOfMemoryError. The memory is of
 * tarn_cuda_get_shared_pool().
 *
 * @param param   the address of a TarnCudaStreamFunc that tells CuPy's current stream, or NULL:
 *                what is allocated is for the default stream
 * @param size    bytes; 0 gives NULL
 * @param device  as cuDeviceGet() gives it
 * @return the address, for tarn_cuda_cupy_free(), or NULL with a g_message() that says why. Any
 *         thread may call it.
 * @since 0.1
 */
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

/**
 * Frees what tarn_cuda_cupy_malloc() gave, for what is put on its stream later. The address is
 * enough. Any thread may call it.
 *
 * @param param   not looked at
 * @param memory  the address; NULL is allowed; one that is not in use is a g_critical()
 * @param device  not looked at
 * @since 0.1
 */
void
tarn_cuda_cupy_free (void *param, void *memory, int device)
{
  (void) param;
  (void) device;
  _tarn_cuda_framework_free (G_STRFUNC, memory);
}
