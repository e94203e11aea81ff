/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Blocks: the handles of allocations that a program gets.  While a block is in use, its fields are
 * constant, except those for its uses and its state. */

#include "allocator/block-private.h"

#include "allocator/allocator-private.h"
#include "base/fork-private.h"
#include "common/lock-private.h"

/* Makes a block without a pool.  Takes ownership of the caller's reference to the allocator.
 * (Blocks of pools are in chunks: pool/block-chunk.c.) */
TarnBlock *
_tarn_block_new (TarnAllocator *source, TarnMemory memory, gsize size)
{
  TarnBlock *block = _tarn_aligned_new0 (TarnBlock);

  block->memory = memory;
  block->size = size;
  block->alloc_size = size;
  block->source = source;
  g_atomic_int_set (&block->state, TARN_BLOCK_ACTIVE);
  return block;
}

/* Frees the struct of a block without a pool, but not the block's memory. */
void
_tarn_block_destroy (TarnBlock *block)
{
  g_assert (block->state == TARN_BLOCK_RETIRED && block->n_uses == 0);
  g_free (block->uses);
  free (block);
}

/* Logs that the program freed a block twice, or freed something that is not a block. */
void
_tarn_block_report_double_free (const TarnBlock *block, gint state)
{
  if (state == TARN_BLOCK_HELD || state == TARN_BLOCK_ENDING || state == TARN_BLOCK_RETIRED)
    g_critical ("tarn_block_free: block %p was freed already", (const void *) block);
  else
    g_critical ("tarn_block_free: %p is not a block", (const void *) block);
}

void
_tarn_block_count_reference (GHashTable **shared, TarnBlock *block)
{
  if (*shared == NULL)
    *shared = g_hash_table_new (NULL, NULL);
  g_hash_table_insert (
      *shared, block,
      GUINT_TO_POINTER (GPOINTER_TO_UINT (g_hash_table_lookup (*shared, block)) + 1));
}

gboolean
_tarn_block_drop_reference (GHashTable *shared, TarnBlock *block)
{
  guint n = GPOINTER_TO_UINT (g_hash_table_lookup (shared, block));

  if (n > 1)
    g_hash_table_insert (shared, block, GUINT_TO_POINTER (n - 1));
  else if (n == 1)
    g_hash_table_remove (shared, block);
  return n > 0;
}

/* A table of the blocks without a pool that have several references (state SHARED).  For each
 * block, the table has the number of references minus 1.  The blocks of a pool are in a table of
 * the same kind, TarnBlocks.shared. */
static TarnMutex shared_lock = TARN_MUTEX_INIT;
static GHashTable *shared_blocks;

/* Takes a reference on a block without a pool. */
void
_tarn_direct_ref_block (TarnBlock *block)
{
  TARN_LOCKED (&shared_lock);

  g_atomic_int_compare_and_exchange (&block->state, TARN_BLOCK_ACTIVE, TARN_BLOCK_SHARED);
  if (g_atomic_int_get (&block->state) == TARN_BLOCK_SHARED)
    _tarn_block_count_reference (&shared_blocks, block);
  else
    g_critical ("tarn_block_ref: %p is not a block in use", (void *) block);
}

/* Drops a reference to a block without a pool that is in state SHARED.  Returns FALSE if it was the
 * block's last reference: then the caller has to free the block. */
static gboolean
drop_direct_reference (TarnBlock *block)
{
  gboolean has_others;
  TARN_LOCKED (&shared_lock);

  has_others = _tarn_block_drop_reference (shared_blocks, block);
  if (!has_others)
    g_atomic_int_set (&block->state, TARN_BLOCK_ACTIVE);
  return has_others;
}

/* Marks a block without a pool as RETIRED, so that the caller can free its memory, and returns
 * TRUE.  If the block has several references, only drops one, and returns FALSE.  If the program
 * has freed the block before, logs a message, and returns FALSE.  In this case the struct is in
 * freed memory.  But malloc usually leaves the state there intact, so the function can detect the
 * second free. */
gboolean
_tarn_block_retire (TarnBlock *block)
{
  if (g_atomic_int_get (&block->state) == TARN_BLOCK_SHARED && drop_direct_reference (block))
    return FALSE;
  if (g_atomic_int_compare_and_exchange (&block->state, TARN_BLOCK_ACTIVE, TARN_BLOCK_RETIRED))
    return TRUE;
  _tarn_block_report_double_free (block, g_atomic_int_get (&block->state));
  return FALSE;
}

TarnMemory
tarn_block_get_memory (const TarnBlock *block)
{
  TarnMemory none = { .address = 0 };

  g_return_val_if_fail (block != NULL, none);
  return block->memory;
}

gsize
tarn_block_get_size (const TarnBlock *block)
{
  g_return_val_if_fail (block != NULL, 0);
  return block->size;
}

gsize
tarn_block_get_alloc_size (const TarnBlock *block)
{
  g_return_val_if_fail (block != NULL, 0);
  return block->alloc_size;
}

TarnAllocator *
tarn_block_get_allocator (const TarnBlock *block)
{
  g_return_val_if_fail (block != NULL, NULL);
  return _tarn_allocator_get_backend (block->source);
}

TarnBlock *
tarn_block_ref (TarnBlock *block)
{
  g_return_val_if_fail (block != NULL, NULL);

  if (!_tarn_forked ())
    block->source->klass->ref_block (block);
  return block;
}

void
tarn_block_free (TarnBlock *block)
{
  if (block != NULL)
    block->source->klass->free_block (block);
}

void
tarn_block_free_on (TarnBlock *block, gpointer queue)
{
  g_autoptr (GError) error = NULL;

  if (block == NULL)
    return;
  if (_tarn_forked () || _tarn_block_use_last (block, queue, &error))
    tarn_block_free (block);
  else
    g_message ("%s: %s: a block of %" G_GSIZE_FORMAT " bytes stays in use", block->source->label,
               error->message, block->size);
}
