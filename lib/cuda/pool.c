/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The pool that most programs want. */

#include <tarn/cuda.h>

#include "common/heap-pool-private.h"

/**
 * Makes a pool of device memory as most programs want it. It is over a heap, which is over
 * tarn_cuda_device_allocator_new(), and has little more than what is in use, whatever sizes the
 * program asks for, and seldom calls the driver. Where the device has virtual memory, blocks are of
 * that. For cuIpcGetMemHandle(), which takes the beginning of what cuMemAlloc gave, make a pool
 * straight over that allocator.
 *
 * @param context  where memory belongs; NULL: the current one
 * @param options  nullable: the defaults; start from TARN_POOL_OPTIONS_INIT. A limit is the
 *                 heap's, too: no more is taken of the driver. tarn_pool_set_limit_bytes()
 *                 changes both.
 * @param error    return location, or NULL: as tarn_cuda_device_allocator_new(),
 *                 tarn_heap_allocator_new() and tarn_pool_new()
 * @return (transfer full): an empty pool, which any thread may use, or NULL with @p error set
 * @since 0.1
 */
TarnPool *
tarn_cuda_pool_new (CUcontext context, const TarnPoolOptions *options, GError **error)
{
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  return _tarn_pool_new_over_heap (tarn_cuda_device_allocator_new (context, error), options, error);
}
