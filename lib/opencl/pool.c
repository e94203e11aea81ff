/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The pool that most programs want. */

#include <tarn/opencl.h>

#include "common/argument-private.h"
#include "common/heap-pool-private.h"

/**
 * Makes a pool of buffers as most programs want it. It is over a heap, which is over
 * tarn_opencl_immediate_allocator_new(), and has little more than what is in use, whatever sizes
 * the program asks for, and seldom calls the driver.
 *
 * Its buffers are sub-buffers of larger ones. To kernels and commands they are buffers as any
 * other; but clCreateSubBuffer makes none of them, their CL_MEM_ASSOCIATED_MEMOBJECT is the larger
 * buffer, and they are aligned to CL_DEVICE_MEM_BASE_ADDR_ALIGN only. For a program to which that
 * matters, and for one whose sizes always come again, a pool straight over the allocator is as
 * good. In a context of several devices name a queue in each request (tarn_opencl_pool_allocate()):
 * then no buffer has blocks of two queues in it, which some drivers would move as a whole.
 *
 * @param queue    of the device; retained, as its context is. It makes memory ready.
 * @param flags    for clCreateBuffer, as tarn_opencl_immediate_allocator_new() takes them; 0 for
 *                 CL_MEM_READ_WRITE
 * @param options  nullable: the defaults; start from TARN_POOL_OPTIONS_INIT. A limit is the
 *                 heap's, too: no more is taken of the driver. tarn_pool_set_limit_bytes()
 *                 changes both.
 * @param error    return location, or NULL: as tarn_opencl_immediate_allocator_new(),
 *                 tarn_heap_allocator_new() and tarn_pool_new()
 * @return (transfer full): an empty pool, which any thread may use, or NULL with @p error set
 * @since 0.1
 */
TarnPool *
tarn_opencl_pool_new (cl_command_queue queue, cl_mem_flags flags, const TarnPoolOptions *options,
                      GError **error)
{
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  TARN_REFUSE_NULL (queue, NULL);

  return _tarn_pool_new_over_heap (tarn_opencl_immediate_allocator_new (queue, flags, error),
                                   options, error);
}
