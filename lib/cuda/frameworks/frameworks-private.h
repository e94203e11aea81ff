/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memory for frameworks that take an allocator as two C functions, which know memory by its
 * address. */

#ifndef TARN_CUDA_FRAMEWORKS_PRIVATE_H
#define TARN_CUDA_FRAMEWORKS_PRIVATE_H

#include "cuda/graph-pieces-private.h"
#include "cuda/shared-pool-private.h"

/* Allocates from the pool that the process shares on a device, or for the graph that the stream
 * captures, and records the block by its address. */
TarnBlock *_tarn_cuda_framework_allocate (gsize size, CUdevice device, CUstream stream,
                                          GError **error);

/* Frees the block at an address.  Logs a g_critical () if there is none. */
void _tarn_cuda_framework_free (const gchar *function, gconstpointer address);

/* Finds the block of an address, which the caller has in use.  Returns NULL if there is none. */
TarnBlock *_tarn_cuda_framework_find (gconstpointer address);

/* Returns a block's address. */
static inline gpointer
_tarn_cuda_framework_address (const TarnBlock *block)
{
  return GSIZE_TO_POINTER ((gsize) tarn_block_get_memory (block).address);
}

/* Returns TRUE if commands on a stream are being captured. */
gboolean _tarn_cuda_is_capturing (CUstream stream);

/* Functions for PyTorch's hooks about the memory of a capture, with its name for it.  Ends and
 * releases without a begin do nothing. */
gboolean _tarn_cuda_graph_memory_begin (CUdevice device, TarnCudaTorchPoolId id, GError **error);
void _tarn_cuda_graph_memory_end (CUdevice device, TarnCudaTorchPoolId id);
void _tarn_cuda_graph_memory_release (CUdevice device, TarnCudaTorchPoolId id);

/* Allocates for a stream that is being captured. */
TarnBlock *_tarn_cuda_graph_memory_allocate (gsize size, CUdevice device, CUstream stream,
                                             GError **error);

/* Notes that several streams of a graph use a block: once freed, it is not reused while the graph
 * lives.  Returns FALSE if it is not of a graph. */
gboolean _tarn_cuda_graph_memory_record (TarnBlock *block);

/* Keeps a block that is being freed, if it was noted like that.  Returns FALSE if not. */
gboolean _tarn_cuda_graph_memory_keep (TarnBlock *block);

/* Throws PyTorch's own exception (out of memory, or any other) with a message, which it frees.
 * Returns if PyTorch is not in the process. */
void _tarn_cuda_torch_throw (gboolean is_out_of_memory, gchar *message);

#endif
