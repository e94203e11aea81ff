/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The quarantine: freed blocks that are filled with the poison byte and stay allocated for a while.
 * When a block leaves the quarantine, or when the program asks for a check, Tarn compares its
 * contents with the poison byte, and so finds writes after the free. */

#include "debug/debug-private.h"

void
_tarn_quarantine_check (TarnGuarded *self, const TarnDebugBlock *block, TarnFindings *findings)
{
  g_autoptr (GError) error = NULL;
  TarnContentsChange change;
  gboolean is_changed;

  if (!_tarn_contents_compare (self, block->whole, block->margin, block->size,
                               TARN_DEBUG_POISON_BYTE, &is_changed, &change, &error))
    _tarn_guarded_say_unreachable (self, "a freed block cannot be looked at", error);
  else if (is_changed)
    _tarn_findings_add (findings, self, block,
                        "written after it was freed, at offset %" G_GSIZE_FORMAT
                        ": 0x%02x, and up to offset %" G_GSIZE_FORMAT,
                        change.first - block->margin, change.byte, change.last - block->margin);
}

/* If the quarantine has more than @max_bytes bytes, removes its oldest block and returns TRUE.
 * Otherwise returns FALSE.  Sets *popped to the removed block.  If another thread is reading that
 * block, sets *popped to NULL instead, and the reading thread frees the block. */
static gboolean
pop_excess (TarnGuarded *self, gsize max_bytes, TarnDebugBlock **popped)
{
  gboolean is_excess;
  TarnDebugBlock *block;
  TARN_LOCKED (&self->lock);

  is_excess = self->quarantined_bytes > max_bytes;
  if (is_excess)
    {
      block = g_queue_peek_head (&self->quarantine);
      g_queue_unlink (&self->quarantine, &block->link);
      self->quarantined_bytes -= block->whole_size;
      g_hash_table_remove (self->blocks, &block->memory.address);
      *popped = _tarn_guarded_leave_to_look (block) ? NULL : block;
    }
  return is_excess;
}

/* Checks and frees a block that the caller has removed from the quarantine. */
static void
end_quarantine (TarnGuarded *self, TarnDebugBlock *block, TarnFindings *findings)
{
  _tarn_quarantine_check (self, block, findings);
  _tarn_guarded_give_back (self, block);
}

static guint
count_quarantine (TarnGuarded *self)
{
  TARN_LOCKED (&self->lock);

  return self->quarantine.length;
}

gsize
_tarn_quarantine_shorten (TarnGuarded *self, gsize max_bytes)
{
  guint n_left = count_quarantine (self);
  gsize bytes = 0;
  TarnDebugBlock *block;

  while (n_left-- > 0 && pop_excess (self, max_bytes, &block))
    {
      TarnFindings *findings;

      if (block == NULL)
        continue;
      findings = _tarn_findings_new ();
      bytes += block->whole_size;
      end_quarantine (self, block, findings);
      _tarn_findings_report (findings);
    }
  return bytes;
}

gboolean
_tarn_quarantine_poison (TarnGuarded *self, const TarnDebugBlock *block)
{
  g_autoptr (GError) error = NULL;

  if (_tarn_contents_fill (self, block->whole, block->margin, block->size, TARN_DEBUG_POISON_BYTE,
                           &error))
    return TRUE;
  _tarn_guarded_say_unreachable (self, "a freed block cannot be filled", error);
  return FALSE;
}

void
_tarn_quarantine_put (TarnGuarded *self, TarnDebugBlock *block)
{
  block->is_freed = TRUE;
  block->is_left = FALSE;
  if (block->freed_thread == 0)
    _tarn_guarded_note_free (block);
  _tarn_mutex_lock (&self->lock);
  g_hash_table_insert (self->blocks, &block->memory.address, block);
  g_queue_push_tail_link (&self->quarantine, &block->link);
  self->quarantined_bytes += block->whole_size;
  _tarn_mutex_unlock (&self->lock);
}
