/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Functions by which allocators of CUDA memory order the uses of a block on different streams. */

#ifndef TARN_CUDA_ORDER_PRIVATE_H
#define TARN_CUDA_ORDER_PRIVATE_H

#include "common/lock-private.h"
#include "context-private.h"

/* The fields that all allocators of CUDA memory have.  The user data of each such allocator begins
 * with this struct. */
typedef struct
{
  TarnCudaContext context; /* constant */
  TarnMutex lock;          /* guards @events */
  /* unused CUevents; the allocator keeps them, because recording a kept event is cheaper than
   * making a new event */
  GPtrArray *events;
} TarnCudaHome;

gboolean _tarn_cuda_home_init (TarnCudaHome *home, CUcontext context, GError **error);
void _tarn_cuda_home_clear (TarnCudaHome *home);

/* Returns the context of a pool's memory.  Returns NULL if the pool's memory is not CUDA's. */
const TarnCudaContext *_tarn_cuda_pool_get_context (TarnPool *pool);

/* These functions convert between a stream and the handle by which a pool knows the stream.  This
 * thread has no CUstream for another thread's default stream.  For the handle of such a stream,
 * _tarn_cuda_stream_of_handle () returns the legacy stream instead, because the legacy stream
 * and each default stream wait for each other. */
gpointer _tarn_cuda_stream_to_handle (CUstream stream);
CUstream _tarn_cuda_stream_of_handle (gpointer handle);

/* Returns TRUE if a handle is the legacy default stream, which all threads share. */
gboolean _tarn_cuda_handle_is_legacy (gpointer handle);

/* Returns TRUE if this thread has a CUstream for a handle.  Returns FALSE if the handle is another
 * thread's default stream, because CU_STREAM_PER_THREAD means the calling thread's own default
 * stream. */
gboolean _tarn_cuda_handle_is_known (gpointer handle);

/* Fails with TARN_ERROR_INVALID_ARGUMENT if a stream does not belong to a context. */
gboolean _tarn_cuda_check_stream (const TarnCudaContext *context, gpointer handle, GError **error);

/* Returns TRUE if a block's memory is CUDA's.  If not, returns FALSE, and calls g_critical ().
 * @function: the caller's name, for that message. */
gboolean _tarn_cuda_check_block (const gchar *function, const TarnBlock *block);

/* Sets an allocator's functions for streams.  The allocator's user data must begin with a
 * TarnCudaHome. */
void _tarn_cuda_set_order (TarnAllocatorOps *ops);

#endif
