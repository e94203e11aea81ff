/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Blocks by their memory.  Only a backend whose pieces of memory have no value of their own (NULL,
 * say) has several blocks of the same memory. */

#include "pool/index-private.h"

#include "allocator/block-private.h"

void
_tarn_index_init (TarnIndex *index)
{
  for (guint i = 0; i < TARN_INDEX_PARTS; i++)
    {
      _tarn_mutex_init (&index->parts[i].lock);
      index->parts[i].blocks = g_hash_table_new (g_int64_hash, g_int64_equal);
    }
}

void
_tarn_index_clear (TarnIndex *index)
{
  for (guint i = 0; i < TARN_INDEX_PARTS; i++)
    {
      g_assert (g_hash_table_size (index->parts[i].blocks) == 0);
      g_hash_table_unref (index->parts[i].blocks);
      _tarn_mutex_clear (&index->parts[i].lock);
    }
}

/* Takes the lock of the part for a piece of memory.  Addresses are alike in their low bits. */
static TarnIndexPart *
lock_part (TarnIndex *index, TarnMemory memory)
{
  guint64 spread = memory.address * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);
  TarnIndexPart *part = &index->parts[(spread >> 32) % TARN_INDEX_PARTS];

  _tarn_mutex_lock (&part->lock);
  return part;
}

/* Puts a list of blocks of the same memory in place of what was there: the key is the memory field
 * of the list's own first block. */
static void
set_list (TarnIndexPart *part, GSList *blocks)
{
  TarnBlock *first = blocks->data;

  g_hash_table_replace (part->blocks, &first->memory.address, blocks);
}

void
_tarn_index_add (TarnIndex *index, TarnBlock *block)
{
  TarnIndexPart *part = lock_part (index, block->memory);

  set_list (part,
            g_slist_prepend (g_hash_table_lookup (part->blocks, &block->memory.address), block));
  _tarn_mutex_unlock (&part->lock);
}

static void
remove_link (TarnIndexPart *part, GSList *blocks, GSList *link)
{
  TarnBlock *block = link->data;

  blocks = g_slist_delete_link (blocks, link);
  if (blocks != NULL)
    set_list (part, blocks);
  else
    g_hash_table_remove (part->blocks, &block->memory.address);
}

/* A block that is not there was freed already, or is no block: whoever frees it says so. */
void
_tarn_index_remove (TarnIndex *index, TarnBlock *block)
{
  TarnIndexPart *part = lock_part (index, block->memory);
  GSList *blocks = g_hash_table_lookup (part->blocks, &block->memory.address);
  GSList *link = g_slist_find (blocks, block);

  if (link != NULL)
    remove_link (part, blocks, link);
  _tarn_mutex_unlock (&part->lock);
}

TarnBlock *
_tarn_index_find (TarnIndex *index, TarnMemory memory)
{
  TarnIndexPart *part = lock_part (index, memory);
  GSList *blocks = g_hash_table_lookup (part->blocks, &memory.address);
  TarnBlock *block = blocks != NULL ? blocks->data : NULL;

  _tarn_mutex_unlock (&part->lock);
  return block;
}

static gint
compare_size (gconstpointer block, gconstpointer size)
{
  return ((const TarnBlock *) block)->size != *(const gsize *) size;
}

TarnBlock *
_tarn_index_steal (TarnIndex *index, TarnMemory memory, gsize size)
{
  TarnIndexPart *part = lock_part (index, memory);
  GSList *blocks = g_hash_table_lookup (part->blocks, &memory.address);
  GSList *link = g_slist_find_custom (blocks, &size, compare_size);
  TarnBlock *block = link != NULL ? link->data : NULL;

  if (link != NULL)
    remove_link (part, blocks, link);
  _tarn_mutex_unlock (&part->lock);
  return block;
}
