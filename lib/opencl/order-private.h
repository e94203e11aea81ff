/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Functions by which allocators of OpenCL memory order the uses of a block on different queues. */

#ifndef TARN_OPENCL_ORDER_PRIVATE_H
#define TARN_OPENCL_ORDER_PRIVATE_H

#include <tarn/opencl.h>

/* Adds OpenCL's default, CL_MEM_READ_WRITE, to flags that name no access by kernels.  Without this
 * addition, the flags that some drivers report for an object (CL_MEM_FLAGS) name no access
 * either. */
static inline cl_bitfield
_tarn_opencl_add_access (cl_bitfield flags)
{
  const cl_bitfield access = CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY;

  return (flags & access) != 0 ? flags : flags | CL_MEM_READ_WRITE;
}

/* An allocator's context and queue.  The user data of every OpenCL allocator begins with this
 * struct.  Its fields are constant. */
typedef struct
{
  cl_context context;     /* a reference to the allocator's context */
  cl_command_queue queue; /* a reference to the allocator's queue; NULL if it has none */
} TarnOpenclHome;

/* Retains the context and the queue.  Returns FALSE with an error, and retains neither, on failure.
 */
gboolean _tarn_opencl_home_init (TarnOpenclHome *home, cl_context context, cl_command_queue queue,
                                 GError **error);
void _tarn_opencl_home_clear (TarnOpenclHome *home);

/* Sets the callbacks in @ops that retain queues, and those that order the uses of memory on
 * different queues.  The allocator's user_data must begin with a TarnOpenclHome. */
void _tarn_opencl_set_order (TarnAllocatorOps *ops);

gboolean _tarn_opencl_get_queue_value (cl_command_queue queue, cl_command_queue_info info,
                                       gpointer value, gsize size, GError **error);

/* Checks that a queue runs its commands in order.  Returns FALSE with the error CL_INVALID_VALUE
 * if it is an out-of-order queue. */
gboolean _tarn_opencl_check_in_order (cl_command_queue queue, GError **error);

/* Checks that a queue belongs to @context.  Returns FALSE with TARN_ERROR_INVALID_ARGUMENT if the
 * queue belongs to another context. */
gboolean _tarn_opencl_check_queue (cl_command_queue queue, cl_context context, GError **error);

/* Finds how much memory an allocator's device has, and how much of it is free.  The device is that
 * of the allocator's queue.  If there is no queue, takes the least numbers among the context's
 * devices.  Implements TarnAllocatorOps.get_memory.  @user_data begins with a TarnOpenclHome. */
gboolean _tarn_opencl_get_memory (gpointer user_data, guint64 *device_bytes, guint64 *free_bytes,
                                  GError **error);

/* Each of these functions returns TRUE if a block's memory is of the kind that the function's name
 * states: a buffer, an image, or shared virtual memory. */
gboolean _tarn_opencl_is_buffer (const TarnBlock *block);
gboolean _tarn_opencl_is_image (const TarnBlock *block);
gboolean _tarn_opencl_is_svm (const TarnBlock *block);

#endif
