/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The guards: bytes before and after a block in use that no program may write.  This file fills
 * them, and finds the bytes that have changed.  If the host can read the memory, the host checks
 * the guards without the driver, and dying.c can check them when a signal ends the program. */

#include "debug/debug-private.h"

/* The largest number of bytes that a backend fills in about the same time as one byte. */
#define MAX_FILLED ((gsize) 256 << 10)

/* Returns the offset, in a block's memory, of the guards after the user's part. */
static gsize
get_end (const TarnDebugBlock *block)
{
  return block->margin + block->size;
}

/* Returns the offset, in a block's memory, of the guards before the user's part.  If a gap
 * (unmapped addresses, gaps.c) follows the block, only the last bytes before the user's part are
 * guards. */
static gsize
get_front (const TarnGuarded *self, const TarnDebugBlock *block)
{
  return block->margin - MIN (block->margin, self->margin);
}

/* Fills a block's guards.  If the block is small, fills the guards on both sides and the user's
 * part between them with one call, because that is faster than two calls. */
gboolean
_tarn_guards_fill (const TarnGuarded *self, const TarnDebugBlock *block, GError **error)
{
  gsize front = get_front (self, block), end = get_end (block);

  if (block->size <= MAX_FILLED)
    return _tarn_contents_fill (self, block->whole, front, block->whole_size - front,
                                TARN_DEBUG_GUARD_BYTE, error);
  return _tarn_contents_fill (self, block->whole, front, block->margin - front,
                              TARN_DEBUG_GUARD_BYTE, error)
         && _tarn_contents_fill (self, block->whole, end, block->whole_size - end,
                                 TARN_DEBUG_GUARD_BYTE, error);
}

/* Functions that find out whether the host can read guards without the driver, and check guards */

static gboolean
host_sees (const TarnDebugBlock *block, gsize start, gsize end, guint8 byte)
{
  guint8 bytes[256];

  for (gsize n; start < end; start += n)
    {
      n = MIN (end - start, sizeof bytes);
      if (!_tarn_dying_read ((const guint8 *) block->host + start, bytes, n))
        return FALSE;
      for (gsize i = 0; i < n; i++)
        if (bytes[i] != byte)
          return FALSE;
    }
  return TRUE;
}

static gboolean
host_sees_guards (const TarnGuarded *self, const TarnDebugBlock *block)
{
  return host_sees (block, get_front (self, block), block->margin, TARN_DEBUG_GUARD_BYTE)
         && host_sees (block, get_end (block), block->whole_size, TARN_DEBUG_GUARD_BYTE);
}

/* Returns TRUE if the host reads from a block what the device has just written, and not an older
 * copy.  For the test, the device fills the guards with another byte, and the host reads them.  The
 * caller then fills the guards again. */
static gboolean
try_host_sees_writes (const TarnGuarded *self, const TarnDebugBlock *block)
{
  const guint8 other = (guint8) ~TARN_DEBUG_GUARD_BYTE;
  gsize front = get_front (self, block), end = get_end (block);

  return _tarn_contents_fill (self, block->whole, front, block->margin - front, other, NULL)
         && _tarn_contents_fill (self, block->whole, end, block->whole_size - end, other, NULL)
         && host_sees (block, front, block->margin, other)
         && host_sees (block, end, block->whole_size, other);
}

void
_tarn_guards_find_host (TarnGuarded *self, TarnDebugBlock *block)
{
  gint shows = g_atomic_int_get (&self->shows_host);

  if (self->direct->ops.find_host == NULL || block->margin == 0 || shows == FALSE)
    return;
  block->host = _tarn_call (self->direct, find_host, block->whole, block->whole_size);
  if (shows < 0)
    {
      shows = block->host != NULL && try_host_sees_writes (self, block);
      g_atomic_int_set (&self->shows_host, shows);
    }
  if (!shows)
    block->host = NULL;
}

void
_tarn_guards_watch (const TarnGuarded *self, TarnDebugBlock *block)
{
  if (block->host != NULL && !block->is_unguarded && host_sees_guards (self, block))
    block->slot = _tarn_dying_watch (self, block, get_front (self, block));
  else
    block->host = NULL;
}

void
_tarn_guards_forget (TarnDebugBlock *block)
{
  if (block->slot != NULL)
    _tarn_dying_forget (g_steal_pointer (&block->slot));
}

static void
check_margin (const TarnGuarded *self, const TarnDebugBlock *block, gboolean is_behind,
              TarnFindings *findings, GError **error)
{
  gsize start = is_behind ? get_end (block) : get_front (self, block);
  gsize size = (is_behind ? block->whole_size : block->margin) - start;
  TarnContentsChange change;
  gboolean is_changed;

  if (!_tarn_contents_compare (self, block->whole, start, size, TARN_DEBUG_GUARD_BYTE, &is_changed,
                               &change, error)
      || !is_changed)
    return;
  if (is_behind)
    _tarn_findings_add (findings, self, block,
                        "written behind its end, at offset %" G_GSIZE_FORMAT
                        ": 0x%02x, and up to offset %" G_GSIZE_FORMAT,
                        change.first - block->margin, change.byte, change.last - block->margin);
  else
    _tarn_findings_add (findings, self, block,
                        "written before its beginning, at offset -%" G_GSIZE_FORMAT
                        ", and from offset -%" G_GSIZE_FORMAT " on: 0x%02x",
                        block->margin - change.last, block->margin - change.first, change.byte);
}

static gboolean
is_said (TarnGuarded *self, const TarnDebugBlock *block)
{
  TARN_LOCKED (&self->lock);

  return block->is_said;
}

static void
set_said (TarnGuarded *self, TarnDebugBlock *block)
{
  TarnDyingSlot *slot;

  _tarn_mutex_lock (&self->lock);
  block->is_said = TRUE;
  /* Take the block's slot (its record in dying.c) while holding the lock: several threads may check
   * the block at the same time, and only one of them may free the slot. */
  slot = g_steal_pointer (&block->slot);
  _tarn_mutex_unlock (&self->lock);
  if (slot != NULL)
    _tarn_dying_forget (slot);
}

/* Checks a block's guards, the bytes around the user's part.  Adds a finding (a message) if a
 * program has written to them, unless the block already has such a finding.  If the host can read
 * the guards and finds no change, no driver call is needed. */
void
_tarn_guards_check (TarnGuarded *self, TarnDebugBlock *block, TarnFindings *findings)
{
  g_autoptr (GError) error = NULL;
  guint n_before = findings->len;

  if (block->margin == 0 || block->is_unguarded || is_said (self, block)
      || (block->host != NULL && host_sees_guards (self, block)))
    return;
  check_margin (self, block, FALSE, findings, &error);
  if (error == NULL)
    check_margin (self, block, TRUE, findings, &error);
  if (error != NULL)
    _tarn_guarded_say_unreachable (self, "the guards of a block cannot be looked at", error);
  if (findings->len > n_before)
    set_said (self, block);
}
