/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Streams of blocks: how allocators of CUDA memory are ordered. */

#ifndef TARN_CUDA_ORDER_PRIVATE_H
#define TARN_CUDA_ORDER_PRIVATE_H

#include "common/lock-private.h"
#include "context-private.h"

/* The start of the user data of every allocator here. */
typedef struct
{
  TarnCudaContext context; /* constant */
  TarnMutex lock;          /* guards events */
  GPtrArray *events; /* CUevents that are not in use: making one costs more than recording it */
} TarnCudaHome;

gboolean _tarn_cuda_home_init (TarnCudaHome *home, CUcontext context, GError **error);
void _tarn_cuda_home_clear (TarnCudaHome *home);

/* Returns the context of a pool's memory.  Returns NULL if it is of another backend. */
const TarnCudaContext *_tarn_cuda_pool_get_context (TarnPool *pool);

/* Convert a stream to the handle by which a pool knows it, and back. */
gpointer _tarn_cuda_stream_to_handle (CUstream stream);
CUstream _tarn_cuda_stream_of_handle (gpointer handle);

/* Returns TRUE for the default stream that all threads share. */
gboolean _tarn_cuda_handle_is_legacy (gpointer handle);

/* Returns FALSE for the default stream of another thread, which this thread cannot name. */
gboolean _tarn_cuda_handle_is_known (gpointer handle);
CUstream _tarn_cuda_get_legacy_stream (void);

/* Fails with TARN_ERROR_INVALID_ARGUMENT if a stream is not of a context. */
gboolean _tarn_cuda_check_stream (const TarnCudaContext *context, gpointer handle, GError **error);

/* Returns FALSE, after a g_critical () that names the function, for a block of another backend. */
gboolean _tarn_cuda_check_block (const gchar *function, const TarnBlock *block);

/* Sets the functions for streams of an allocator.  Its user_data must begin with its home. */
void _tarn_cuda_set_order (TarnAllocatorOps *ops);

#endif
