/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memory for frameworks that take an allocator as two C functions, which know memory by its
 * address. */

#ifndef TARN_CUDA_FRAMEWORKS_PRIVATE_H
#define TARN_CUDA_FRAMEWORKS_PRIVATE_H

#include "cuda/graph-pieces-private.h"
#include "cuda/shared-pool-private.h"

/* Allocates of the pool that the process shares on a device, or for the graph that the stream
 * captures, and remembers the block by its address. */
TarnBlock *_tarn_cuda_framework_allocate (gsize size, CUdevice device, CUstream stream,
                                          GError **error);

/* Frees what is at an address; a g_critical () if that is nothing. */
void _tarn_cuda_framework_free (const gchar *function, gconstpointer address);

/* Finds the block of an address; NULL: there is none.  The caller has it in use. */
TarnBlock *_tarn_cuda_framework_find (gconstpointer address);

/* Gets a block's address. */
static inline gpointer
_tarn_cuda_framework_address (const TarnBlock *block)
{
  return GSIZE_TO_POINTER ((gsize) tarn_block_get_memory (block).address);
}

/* Tells whether commands on a stream are captured. */
gboolean _tarn_cuda_is_capturing (CUstream stream);

/* What PyTorch says of a capture's memory, by its name for it.  Ends and releases that were not
 * begun are nothing. */
gboolean _tarn_cuda_graph_memory_begin (CUdevice device, TarnCudaTorchPoolId id, GError **error);
void _tarn_cuda_graph_memory_end (CUdevice device, TarnCudaTorchPoolId id);
void _tarn_cuda_graph_memory_release (CUdevice device, TarnCudaTorchPoolId id);

/* Allocates for a stream that captures. */
TarnBlock *_tarn_cuda_graph_memory_allocate (gsize size, CUdevice device, CUstream stream,
                                             GError **error);

/* Has a block of a graph not be handed out again, once it is freed, while the graph lives, as more
 * than one of its streams use it.  FALSE: it is of no graph. */
gboolean _tarn_cuda_graph_memory_record (TarnBlock *block);

/* Takes a block that is freed, if it has to be kept like that. */
gboolean _tarn_cuda_graph_memory_keep (TarnBlock *block);

/* Throws PyTorch's own exception (out of memory, or any other) with a message, which it frees.  It
 * returns where PyTorch is not in the process. */
void _tarn_cuda_torch_throw (gboolean is_out_of_memory, gchar *message);

#endif
