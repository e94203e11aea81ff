/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The index that finds blocks by the address of their memory.  Several blocks may have the same
 * address (NULL, for example) if the backend's memory has no addresses.  So each hash table of the
 * index is a set of blocks, hashed by address.  To look up a block, the code makes a probe: a block
 * struct in which only the address and the size are set. */

#include "pool/index-private.h"

#include "allocator/block-private.h"

/* The size of a probe (a struct with which the index is searched) that matches blocks of all sizes.
 * No block has this size. */
#define ANY_SIZE G_MAXSIZE

static guint
hash_memory (gconstpointer data)
{
  /* The factor, 2^64 divided by the golden ratio, mixes the bits of the address. */
  guint64 spread
      = ((const TarnBlock *) data)->memory.address * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);

  return (guint) (spread >> 32);
}

/* Returns TRUE if @a and @b are the same block.  If one of them is a probe (a struct with which the
 * index is searched), returns TRUE if both have the same address, and the same size or ANY_SIZE.
 * The field source is NULL in a probe, and in no other block. */
static gboolean
is_match (gconstpointer a, gconstpointer b)
{
  const TarnBlock *block = a, *other = b;

  if (block->source != NULL && other->source != NULL)
    return block == other;
  return block->memory.address == other->memory.address
         && (block->size == other->size || block->size == ANY_SIZE || other->size == ANY_SIZE);
}

void
_tarn_index_init (TarnIndex *index, guint n_parts)
{
  index->n_parts = n_parts;
  index->parts = _tarn_aligned_alloc0 (TARN_CACHE_LINES, sizeof *index->parts * n_parts);
  for (guint i = 0; i < n_parts; i++)
    _tarn_mutex_init (&index->parts[i].lock);
}

void
_tarn_index_clear (TarnIndex *index)
{
  for (guint i = 0; i < index->n_parts; i++)
    {
      g_assert (index->parts[i].blocks == NULL || g_hash_table_size (index->parts[i].blocks) == 0);
      g_clear_pointer (&index->parts[i].blocks, g_hash_table_unref);
      _tarn_mutex_clear (&index->parts[i].lock);
    }
  free (index->parts);
}

static TarnIndexPart *
lock_part (TarnIndex *index, const TarnBlock *block)
{
  TarnIndexPart *part = &index->parts[(hash_memory (block) >> 16) & (index->n_parts - 1)];

  _tarn_mutex_lock_adaptively (&part->lock);
  if (G_UNLIKELY (part->blocks == NULL))
    part->blocks = g_hash_table_new (hash_memory, is_match);
  return part;
}

void
_tarn_index_add (TarnIndex *index, TarnBlock *block)
{
  TarnIndexPart *part = lock_part (index, block);

  g_hash_table_add (part->blocks, block);
  _tarn_mutex_unlock (&part->lock);
}

/* Removes a block from the index.  Does nothing if the index does not contain the block.  In this
 * case, the program has already freed the block, or has passed a pointer to something else.  Later,
 * the function that frees the block reports this error. */
void
_tarn_index_remove (TarnIndex *index, TarnBlock *block)
{
  TarnIndexPart *part = lock_part (index, block);

  g_hash_table_remove (part->blocks, block);
  _tarn_mutex_unlock (&part->lock);
}

static TarnBlock *
look_up (TarnIndex *index, const TarnBlock *probe, gboolean takes_out)
{
  TarnIndexPart *part = lock_part (index, probe);
  gpointer block = NULL;

  if (takes_out)
    g_hash_table_steal_extended (part->blocks, probe, &block, NULL);
  else
    g_hash_table_lookup_extended (part->blocks, probe, &block, NULL);
  _tarn_mutex_unlock (&part->lock);
  return block;
}

TarnBlock *
_tarn_index_find (TarnIndex *index, TarnMemory memory)
{
  const TarnBlock probe = { .memory = memory, .size = ANY_SIZE };

  return look_up (index, &probe, FALSE);
}

TarnBlock *
_tarn_index_steal (TarnIndex *index, TarnMemory memory, gsize size)
{
  const TarnBlock probe = { .memory = memory, .size = size };

  return look_up (index, &probe, TRUE);
}
