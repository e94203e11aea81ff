/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#ifndef TARN_CUDA_ORDER_PRIVATE_H
#define TARN_CUDA_ORDER_PRIVATE_H

#include "common/lock-private.h"
#include "context-private.h"

/* What every allocator of ours begins with. */
typedef struct
{
  TarnCudaContext context; /* constant */
  TarnMutex lock;          /* of events */
  GPtrArray *events;       /* of CUevent, not in use: to make one costs more than to record it */
} TarnCudaHome;

gboolean _tarn_cuda_home_init (TarnCudaHome *home, CUcontext context, GError **error);
void _tarn_cuda_home_clear (TarnCudaHome *home);

/* FALSE, after a g_critical () that names the function, for a block of another backend. */
gboolean _tarn_cuda_check_block (const gchar *function, const TarnBlock *block);

/* Sets the functions for streams, of an allocator whose user_data begins with its home. */
void _tarn_cuda_set_order (TarnAllocatorOps *ops);

#endif
