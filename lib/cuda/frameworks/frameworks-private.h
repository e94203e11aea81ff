/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Allocators for PyTorch and CuPy.  A program can replace the allocator of such a framework by a
 * pair of C functions, one that allocates and one that frees.  When the framework frees memory, it
 * passes only the address. */

#ifndef TARN_CUDA_FRAMEWORKS_PRIVATE_H
#define TARN_CUDA_FRAMEWORKS_PRIVATE_H

#include "cuda/graph-pieces-private.h"
#include "cuda/shared-pool-private.h"

/* Allocates a block, and adds it to the hash tables of blocks in use (addresses.c).  If the stream
 * is being captured into a CUDA graph, the block comes from the memory of that graph.  If not, the
 * block comes from the shared pool of the device. */
TarnBlock *_tarn_cuda_framework_allocate (gsize size, CUdevice device, CUstream stream,
                                          GError **error);

/* Frees the block at an address.  Calls g_critical () if no block in use has this address.
 * @function: the caller's name, for that message. */
void _tarn_cuda_framework_free (const gchar *function, gconstpointer address);

/* Finds the block in use at an address.  Returns NULL if there is none.  The caller ensures that no
 * other thread frees the block while the caller uses it. */
TarnBlock *_tarn_cuda_framework_find (gconstpointer address);

static inline gpointer
_tarn_cuda_framework_address (const TarnBlock *block)
{
  return GSIZE_TO_POINTER ((gsize) tarn_block_get_memory (block).address);
}

/* Returns TRUE if commands on a stream are being captured into a CUDA graph. */
gboolean _tarn_cuda_is_capturing (CUstream stream);

/* The hooks in torch.c call these three functions in this order: when PyTorch begins to capture a
 * CUDA graph, when it ends the capture, and when it has destroyed the graph.  @id: the two numbers
 * by which PyTorch names the memory of the capture.  The second and third function do nothing if
 * the first one was not called with the same @id. */
gboolean _tarn_cuda_graph_memory_begin (CUdevice device, TarnCudaTorchPoolId id, GError **error);
void _tarn_cuda_graph_memory_end (CUdevice device, TarnCudaTorchPoolId id);
void _tarn_cuda_graph_memory_release (CUdevice device, TarnCudaTorchPoolId id);

/* Allocates a block for a stream that is being captured, from the memory of the graph. */
TarnBlock *_tarn_cuda_graph_memory_allocate (gsize size, CUdevice device, CUstream stream,
                                             GError **error);

/* Records that several streams of a captured graph use a block.  After the program frees the block,
 * the block's memory is not reused as long as the graph exists.  Returns FALSE if the block's
 * memory does not belong to a graph. */
gboolean _tarn_cuda_graph_memory_record (TarnBlock *block);

/* If _tarn_cuda_graph_memory_record () has recorded a block, keeps the block as long as its graph
 * exists, and returns TRUE.  Otherwise returns FALSE.  Call this when the program frees the block:
 * if it returns FALSE, the caller frees the block. */
gboolean _tarn_cuda_graph_memory_keep (TarnBlock *block);

/* Throws a C++ exception of PyTorch with a message: a c10::OutOfMemoryError if @is_out_of_memory is
 * TRUE, or a c10::Error if it is FALSE.  Frees the message.  If the process has not loaded PyTorch,
 * logs the message and returns. */
void _tarn_cuda_torch_throw (gboolean is_out_of_memory, gchar *message);

#endif
