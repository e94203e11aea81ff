/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Checks the blocks in use and in quarantine while other threads use the pool: the guards of blocks
 * in use, and the poison of blocks in quarantine.  No lock is held while the driver reads memory,
 * so the thread that checks a block registers as a reader of the block. */

#include "debug/debug-private.h"

gboolean
_tarn_guarded_leave_to_look (TarnDebugBlock *block)
{
  block->is_left = block->n_looks > 0;
  return block->is_left;
}

/* Registers the calling thread as a reader of the block at an address, so that no other thread
 * frees the block meanwhile, and returns the block.  Returns NULL if the address has neither a
 * block with guards nor a block in quarantine, or if another thread has just freed the block. */
static TarnDebugBlock *
begin_look (TarnGuarded *self, guint64 address)
{
  TarnDebugBlock *block;
  TARN_LOCKED (&self->lock);

  block = g_hash_table_lookup (self->blocks, &address);
  if (block != NULL && (block->is_left || (!block->is_freed && block->margin == 0)))
    block = NULL;
  if (block != NULL)
    block->n_looks++;
  return block;
}

/* Unregisters the calling thread as a reader of a block.  Returns TRUE if the caller has to free
 * the block, because another thread has freed it meanwhile and no other thread is reading it. */
static gboolean
end_look (TarnGuarded *self, TarnDebugBlock *block)
{
  gboolean is_mine;
  TARN_LOCKED (&self->lock);

  is_mine = --block->n_looks == 0 && block->is_left;
  if (is_mine && !block->is_freed)
    g_hash_table_remove (self->blocks, &block->memory.address);
  return is_mine;
}

static void
look (TarnGuarded *self, guint64 address, TarnFindings *findings)
{
  TarnDebugBlock *block = begin_look (self, address);
  guint n_before = findings->len;

  if (block == NULL)
    return;
  if (block->is_freed)
    _tarn_quarantine_check (self, block, findings);
  else
    _tarn_guards_check (self, block, findings);
  if (!end_look (self, block))
    return;
  if (block->is_freed)
    _tarn_guarded_give_back (self, block);
  else
    {
      /* Another thread has freed the block since the check above.  It left the rest of the free to
       * this thread, because this thread was reading the block.  If the check above found nothing,
       * check the guards again: a kernel may have written to them in between. */
      if (findings->len == n_before)
        _tarn_guards_check (self, block, findings);
      _tarn_guarded_end_block (self, block);
    }
}

/* Returns the addresses of all blocks in use and in quarantine. */
static GArray *
list_addresses (TarnGuarded *self)
{
  GArray *addresses = g_array_new (FALSE, FALSE, sizeof (guint64));
  GHashTableIter iter;
  gpointer address;
  TARN_LOCKED (&self->lock);

  g_hash_table_iter_init (&iter, self->blocks);
  while (g_hash_table_iter_next (&iter, &address, NULL))
    g_array_append_vals (addresses, address, 1);
  return addresses;
}

void
_tarn_guarded_check (TarnGuarded *self, TarnFindings *findings)
{
  g_autoptr (GArray) addresses = list_addresses (self);

  for (guint i = 0; i < addresses->len; i++)
    look (self, g_array_index (addresses, guint64, i), findings);
}
