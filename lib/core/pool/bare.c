/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Allocates memory for allocators that are built on a pool, such as another pool.  Such an
 * allocator does not get a block, only the block's memory.  When it frees memory, it passes only
 * the memory and the memory's size.  But the pool needs the block, to see whether it may go into a
 * bin: a block that the pool has not rounded up to its bin's size (TarnBlock.exact) must not.  So
 * the pool looks up the block by its memory, in an index. */

#include "pool/pool-private.h"

/* Implementations of two functions of a pool's TarnAllocatorOps: allocate and free.  Allocators
 * that are built on the pool call them. */

/* Allocates a block and adds it to the index.  Stores the block's memory in *memory, and does not
 * return the block. */
gboolean
_tarn_pool_allocate_bare (gpointer user_data, gsize size, TarnMemory *memory, GError **error)
{
  TarnPool *pool = user_data;
  TarnBlock *block = tarn_allocator_allocate (&pool->base, size, error);

  if (block == NULL)
    return FALSE;
  *memory = block->memory;
  /* A findable pool (TARN_POOL_FINDABLE) has already added its own blocks to its index.  But if the
   * pool has redirected the request to another pool, the index may lack the block. */
  if (!pool->policy.is_findable || block->source != &pool->base)
    _tarn_index_add (&pool->index, block);
  return TRUE;
}

/* Finds the block that has the memory, and frees it. */
void
_tarn_pool_free_bare (gpointer user_data, TarnMemory memory, gsize size)
{
  TarnPool *pool = user_data;
  TarnBlock *block = _tarn_index_steal (&pool->index, memory, size);

  if (block != NULL)
    tarn_block_free (block);
  else
    g_critical ("%s: memory 0x%" G_GINT64_MODIFIER "x of " TARN_BYTES_FORMAT " is not in use",
                pool->base.label, memory.address, TARN_BYTES (size));
}
