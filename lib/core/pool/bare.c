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

/* Puts a list of blocks of the same memory in the table, in place of what was there: a key is the
 * memory field of the list's own first block. */
static void
set_list (GHashTable *bare, GSList *blocks)
{
  TarnBlock *first = blocks->data;

  g_hash_table_replace (bare, &first->memory.address, blocks);
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
  set_list (
      pool->blocks.bare,
      g_slist_prepend (g_hash_table_lookup (pool->blocks.bare, &block->memory.address), block));
  _tarn_mutex_unlock (&pool->lock);
  return TRUE;
}

/* Compares a block's size with a wanted one. */
static gint
compare_size (gconstpointer block, gconstpointer size)
{
  return ((const TarnBlock *) block)->size != *(const gsize *) size;
}

/* Takes the block of a piece of memory and a size out of the table. Only a backend whose pieces
 * of memory have no value of their own (NULL, say) has several of the same memory. */
static TarnBlock *
steal_block (GHashTable *bare, TarnMemory memory, gsize size)
{
  GSList *blocks = g_hash_table_lookup (bare, &memory.address);
  GSList *link = g_slist_find_custom (blocks, &size, compare_size);
  TarnBlock *block;

  if (link == NULL)
    return NULL;
  block = link->data;
  blocks = g_slist_delete_link (blocks, link);
  if (blocks != NULL)
    set_list (bare, blocks);
  else
    g_hash_table_remove (bare, &memory.address);
  return block;
}

/* Frees the block of a piece of memory. */
void
_tarn_pool_free_bare (gpointer user_data, TarnMemory memory, gsize size)
{
  TarnPool *pool = user_data;
  TarnBlock *block;

  _tarn_mutex_lock (&pool->lock);
  block = steal_block (pool->blocks.bare, memory, size);
  _tarn_mutex_unlock (&pool->lock);

  if (block != NULL)
    tarn_block_free (block);
  else
    g_critical ("%s: memory 0x%" G_GINT64_MODIFIER "x of %" G_GSIZE_FORMAT " bytes is not in use",
                pool->base.label, memory.address, size);
}
