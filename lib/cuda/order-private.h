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

/* Gets the context of a pool's memory; NULL: it is of another backend. */
const TarnCudaContext *_tarn_cuda_pool_get_context (TarnPool *pool);

/* Gets what a pool knows a stream by, and the stream. */
gpointer _tarn_cuda_stream_to_handle (CUstream stream);
CUstream _tarn_cuda_stream_of_handle (gpointer handle);

/* Tells whether a handle is that of the default stream that all threads share, or of the calling
 * thread's if it is of one of a thread's own. */
gboolean _tarn_cuda_handle_is_legacy (gpointer handle);
gboolean _tarn_cuda_handle_is_known (gpointer handle);
CUstream _tarn_cuda_get_legacy_stream (void);

/* Checks that a stream is of a context: TARN_ERROR_INVALID_ARGUMENT. */
gboolean _tarn_cuda_check_stream (const TarnCudaContext *context, gpointer handle, GError **error);

/* FALSE, after a g_critical () that names the function, for a block of another backend. */
gboolean _tarn_cuda_check_block (const gchar *function, const TarnBlock *block);

/* Sets the functions for streams, of an allocator whose user_data begins with its home. */
void _tarn_cuda_set_order (TarnAllocatorOps *ops);

#endif
