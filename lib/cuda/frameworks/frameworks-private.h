/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memory for frameworks whose allocator is a pair of C functions.  The frameworks, PyTorch and
 * CuPy, know memory only by its address. */

#ifndef TARN_CUDA_FRAMEWORKS_PRIVATE_H
#define TARN_CUDA_FRAMEWORKS_PRIVATE_H

#include "cuda/graph-pieces-private.h"
#include "cuda/shared-pool-private.h"

/* Allocates a block, and stores it under its address.  The block comes from the shared pool of the
 * device or, if the stream is being captured, from the memory of the captured graph. */
TarnBlock *_tarn_cuda_framework_allocate (gsize size, CUdevice device, CUstream stream,
                                          GError **error);

/* Frees the block at an address.  Logs a g_critical () if there is none. */
void _tarn_cuda_framework_free (const gchar *function, gconstpointer address);

/* Finds the block in use at an address.  Returns NULL if there is none.  The caller ensures that no
 * thread frees the block meanwhile. */
TarnBlock *_tarn_cuda_framework_find (gconstpointer address);

static inline gpointer
_tarn_cuda_framework_address (const TarnBlock *block)
{
  return GSIZE_TO_POINTER ((gsize) tarn_block_get_memory (block).address);
}

/* Returns TRUE if commands on a stream are being captured. */
gboolean _tarn_cuda_is_capturing (CUstream stream);

/* PyTorch's hooks call these functions when a capture begins or ends, or when its graph is gone.
 * @id: PyTorch's name for the capture's memory.  Ends and releases without a begin do nothing. */
gboolean _tarn_cuda_graph_memory_begin (CUdevice device, TarnCudaTorchPoolId id, GError **error);
void _tarn_cuda_graph_memory_end (CUdevice device, TarnCudaTorchPoolId id);
void _tarn_cuda_graph_memory_release (CUdevice device, TarnCudaTorchPoolId id);

/* Allocates for a stream that is being captured. */
TarnBlock *_tarn_cuda_graph_memory_allocate (gsize size, CUdevice device, CUstream stream,
                                             GError **error);

/* Records that several streams of a graph use a block.  After the block is freed, its memory is not
 * reused while the graph lives.  Returns FALSE if the block is not of a graph's memory. */
gboolean _tarn_cuda_graph_memory_record (TarnBlock *block);

/* Takes over a block that is being freed, if _tarn_cuda_graph_memory_record () recorded it, and
 * keeps the block while the graph lives.  Otherwise returns FALSE: the caller frees the block. */
gboolean _tarn_cuda_graph_memory_keep (TarnBlock *block);

/* Throws PyTorch's exception for out of memory, or for other errors, with a message.  Takes over
 * the message.  Returns only if PyTorch is not in the process. */
void _tarn_cuda_torch_throw (gboolean is_out_of_memory, gchar *message);

#endif
