/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Blocks: what an allocation is to its user.  A block in use is not shared: its fields change only
 * when it is handed out and when it is freed. */

#include "allocator/block-private.h"

#include "allocator/allocator-private.h"
#include "base/fork-private.h"
#include "common/lock-private.h"

/* Makes a block without a pool, and takes over the caller's reference on the allocator. Blocks of
 * pools stand in chunks (pool/block-chunk.c). */
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

/* Frees the struct of a block without a pool; the memory behind it is the caller's to give back. */
void
_tarn_block_destroy (TarnBlock *block)
{
  g_assert (block->state == TARN_BLOCK_RETIRED && block->n_uses == 0);
  g_free (block->uses);
  free (block);
}

/* Says that a block was freed which is not in use. */
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

/* Blocks without a pool that are SHARED, as TarnBlocks.shared has those of a pool. */
static TarnMutex shared_lock = TARN_MUTEX_INIT;
static GHashTable *shared_blocks;

/* Takes a reference on a block without a pool. */
void
_tarn_direct_ref_block (TarnBlock *block)
{
  _tarn_mutex_lock (&shared_lock);
  g_atomic_int_compare_and_exchange (&block->state, TARN_BLOCK_ACTIVE, TARN_BLOCK_SHARED);
  if (g_atomic_int_get (&block->state) == TARN_BLOCK_SHARED)
    _tarn_block_count_reference (&shared_blocks, block);
  else
    g_critical ("tarn_block_ref: %p is not a block in use", (void *) block);
  _tarn_mutex_unlock (&shared_lock);
}

/* Drops a reference on a SHARED block without a pool.  Returns FALSE if it was the last one. */
static gboolean
drop_direct_reference (TarnBlock *block)
{
  gboolean has_others;

  _tarn_mutex_lock (&shared_lock);
  has_others = _tarn_block_drop_reference (shared_blocks, block);
  if (!has_others)
    g_atomic_int_set (&block->state, TARN_BLOCK_ACTIVE);
  _tarn_mutex_unlock (&shared_lock);
  return has_others;
}

/* Ends the use of a block without a pool.  Returns FALSE if others use it; or, with a message,
 * somebody freed it before.  A block whose struct is gone can be told only by what malloc left of
 * it. */
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

/**
 * Gets the memory of a block, in its backend's terms. A backend has an accessor with its own type,
 * such as tarn_opencl_block_get_buffer().
 *
 * @param block  a block in use; any thread may call it
 * @return (transfer none): valid until tarn_block_free()
 * @since 0.1
 */
TarnMemory
tarn_block_get_memory (const TarnBlock *block)
{
  TarnMemory none = { .address = 0 };

  g_return_val_if_fail (block != NULL, none);
  return block->memory;
}

/**
 * Gets the size that was asked for when a block was allocated.
 *
 * @param block  a block in use; any thread may call it
 * @return bytes
 * @since 0.1
 */
gsize
tarn_block_get_size (const TarnBlock *block)
{
  g_return_val_if_fail (block != NULL, 0);
  return block->size;
}

/**
 * Gets the size of the memory behind a block. It is at least what was asked for, and all of it may
 * be used.
 *
 * @param block  a block in use; any thread may call it
 * @return bytes
 * @since 0.1
 */
gsize
tarn_block_get_alloc_size (const TarnBlock *block)
{
  g_return_val_if_fail (block != NULL, 0);
  return block->alloc_size;
}

/**
 * Gets the direct allocator that a block's memory comes from. Pools in between are passed over.
 *
 * @param block  a block in use; any thread may call it
 * @return (transfer none): valid until tarn_block_free(), and longer with tarn_allocator_ref()
 * @since 0.1
 */
TarnAllocator *
tarn_block_get_allocator (const TarnBlock *block)
{
  g_return_val_if_fail (block != NULL, NULL);
  return _tarn_allocator_get_backend (block->source);
}

/**
 * Takes a reference on a block. Each holder of a reference frees the block, and the last of them
 * gives its memory back. It is for handles that are counted; a block that has one owner needs none,
 * and its free is faster.
 *
 * @param block  a block in use, of which the caller has a reference; any thread may call it
 * @return (transfer full): @p block, for tarn_block_free(); in a child of fork () no reference is
 *         taken, as none is dropped there
 * @since 0.1
 */
TarnBlock *
tarn_block_ref (TarnBlock *block)
{
  g_return_val_if_fail (block != NULL, NULL);

  if (!_tarn_forked ())
    block->source->klass->ref_block (block);
  return block;
}

/**
 * Frees a block: gives its memory back to the pool or to the allocator it is from. The pool's or
 * allocator's last reference may be gone; a block's memory keeps what it needs alive. To free a
 * block twice is a programming error, and reported as g_critical wherever it can be seen, which it
 * is not where two threads do it at the same moment. In a child of fork () nothing is done, and a
 * pool counts it. Where tarn_block_ref() has given out references, the last one frees the block.
 *
 * @param block  (transfer full): a block; NULL is allowed. Any thread may call it.
 * @since 0.1
 */
void
tarn_block_free (TarnBlock *block)
{
  if (block != NULL)
    block->source->klass->free_block (block);
}

/**
 * Frees a block that a queue may still use. It records the queue as tarn_block_record_use() does,
 * unless the block is that queue's anyway, and frees the block. The memory is not used again before
 * the queue has done what it was given so far. It is for programs that know only at the end which
 * queue they used.
 *
 * If the queue cannot be recorded, the block stays in use, and a message says why: nobody could
 * tell when its memory may be used again.
 *
 * @param block  (transfer full): a block; NULL is allowed. Any thread may call it.
 * @param queue  nullable: as for tarn_block_record_use(); NULL: as tarn_block_free(). A backend has
 *               a function with its own type, such as tarn_opencl_block_free_on().
 * @since 0.1
 */
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
