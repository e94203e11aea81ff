/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memory for frameworks that take an allocator as two C functions, which know memory by its
 * address. */

#ifndef TARN_CUDA_FRAMEWORKS_PRIVATE_H
#define TARN_CUDA_FRAMEWORKS_PRIVATE_H

#include "cuda/shared-pool-private.h"

/* Allocates of the pool that the process shares on a device, and remembers the block by its
 * address.  Not in a capture. */
TarnBlock *_tarn_cuda_framework_allocate (gsize size, CUdevice device, CUstream stream,
                                          GError **error);

/* Frees what is at an address; a g_critical () if that is nothing. */
void _tarn_cuda_framework_free (const gchar *function, gconstpointer address);

/* Finds the block of an address; NULL: there is none.  The caller has it in use. */
TarnBlock *_tarn_cuda_framework_find (gconstpointer address);

/* Remembers a block by its address. */
void _tarn_cuda_framework_keep (TarnBlock *block);

/* Forgets the block of an address, and gets it; NULL: there is none. */
TarnBlock *_tarn_cuda_framework_take (gconstpointer address);

/* Throws PyTorch's own exception (out of memory, or any other) with a message, which it frees.  It
 * returns where PyTorch is not in the process. */
void _tarn_cuda_torch_throw (gboolean is_out_of_memory, gchar *message);

#endif
