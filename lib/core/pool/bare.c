/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memory without a block, for allocators that are built on a pool (another pool, say).  The size
 * that comes back with it does not say what is behind it, since a block may be an exact-size one;
 * so the pool remembers the block by its memory. */

#include "pool/pool-private.h"

GHashTable *
_tarn_bare_table_new (void)
{
  return g_hash_table_new (g_int64_hash, g_int64_equal);
}

/* Puts a chain of blocks of the same memory in the table, in place of what was there: a key is
 * the memory field of its own first block. */
static void
set_chain (GHashTable *bare, TarnBlock *first)
{
  g_assert (first != NULL);
  g_hash_table_replace (bare, &first->memory.address, first);
}

/* The hooks below have the signatures of TarnAllocatorOps. */

/* Allocates memory of the pool, and remembers its block by it. */
gboolean
_tarn_pool_allocate_bare (gpointer user_data, gsize size, TarnMemory *memory, GError **error)
{
  TarnPool *pool = user_data;
  TarnBlock *block = tarn_allocator_allocate (&pool->base, size, error);

  if (block == NULL)
    return FALSE;
  *memory = block->memory;

  _tarn_mutex_lock (&pool->lock);
  block->below = g_hash_table_lookup (pool->bare, &block->memory.address);
  set_chain (pool->bare, block);
  _tarn_mutex_unlock (&pool->lock);
  return TRUE;
}

/* Takes the block of a piece of memory and a size out of the table. Only a backend whose pieces
 * of memory have no value of their own (NULL, say) makes chains. */
static TarnBlock *
steal_block (GHashTable *bare, TarnMemory memory, gsize size)
{
  TarnBlock *first = g_hash_table_lookup (bare, &memory.address);
  TarnBlock *before = NULL;
  TarnBlock *block = first;

  while (block != NULL && block->size != size)
    {
      before = block;
      block = block->below;
    }
  if (block == NULL)
    return NULL;
  if (before != NULL)
    before->below = block->below;
  else if (block->below != NULL)
    set_chain (bare, block->below);
  else
    g_hash_table_remove (bare, &memory.address);
  block->below = NULL;
  return block;
}

/* Frees the block of a piece of memory. */
void
_tarn_pool_free_bare (gpointer user_data, TarnMemory memory, gsize size)
{
  TarnPool *pool = user_data;
  TarnBlock *block;

  _tarn_mutex_lock (&pool->lock);
  block = steal_block (pool->bare, memory, size);
  _tarn_mutex_unlock (&pool->lock);

  if (block != NULL)
    tarn_block_free (block);
  else
    g_critical ("%s: memory 0x%" G_GINT64_MODIFIER "x of %" G_GSIZE_FORMAT " bytes is not in use",
                pool->base.label, memory.address, size);
}
