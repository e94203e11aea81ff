/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#ifndef TARN_OPENCL_ORDER_PRIVATE_H
#define TARN_OPENCL_ORDER_PRIVATE_H

#include <tarn/opencl.h>

/* What every allocator of ours begins with; constant after it is made. */
typedef struct
{
  cl_context context;     /* a reference */
  cl_command_queue queue; /* a reference; NULL: none */
} TarnOpenclHome;

/* Retains both, or neither. */
gboolean _tarn_opencl_home_init (TarnOpenclHome *home, cl_context context, cl_command_queue queue,
                                 GError **error);
void _tarn_opencl_home_clear (TarnOpenclHome *home);

/* Sets the functions for queues, of an allocator whose user_data begins with its home. */
void _tarn_opencl_set_order (TarnAllocatorOps *ops);

gboolean _tarn_opencl_get_queue_value (cl_command_queue queue, cl_command_queue_info info,
                                       gpointer value, gsize size, GError **error);
gboolean _tarn_opencl_is_in_order (cl_command_queue queue, gboolean *in_order, GError **error);

/* TARN_ERROR_INVALID_ARGUMENT for one of another context. */
gboolean _tarn_opencl_check_queue (cl_command_queue queue, cl_context context, GError **error);

#endif
