/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The allocator between a pool and its upstream allocator.  To the pool it is a direct one, with
 * the queues of the backend, and it must not be given memory that is still in use. */

#include "debug/debug-private.h"

#include "base/fork-private.h"
#include "common/shorten-private.h"
#include "record/record-private.h"

/* A multiple of all alignments that programs rely on. */
#define LEAST_MARGIN ((gsize) 512)

/* The bytes that one call fills about as fast as a single byte. */
#define MAX_FILLED ((gsize) 256 << 10)

/* Returns TRUE if memory cannot be reached because its context is gone.  Then it belongs to no
 * block. */
static gboolean
is_lost (const GError *error)
{
  return g_error_matches (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST);
}

static gboolean
poisons (const TarnGuarded *self)
{
  return self->has_contents && (self->settings.flags & TARN_DEBUG_POISON) != 0;
}

/* Returns TRUE if freed blocks are filled with POISON.  Those of a deferred allocator are not: it
 * has no queue, so Tarn cannot know whether commands still use the memory, which such a backend
 * keeps for them. */
static gboolean
poisons_freed (const TarnGuarded *self)
{
  return poisons (self) && !self->direct->ops.deferred;
}

/* Returns the offset of the rest behind the user's part, from the start of the whole. */
static gsize
get_end (const TarnDebugBlock *block)
{
  return block->margin + block->size;
}

/* Returns the offset of the guards in front of the user's part.  Of a mapping, a small part there
 * is enough. */
static gsize
get_front (const TarnGuarded *self, const TarnDebugBlock *block)
{
  return block->margin - MIN (block->margin, self->margin);
}

/* New blocks */

/* Fills the guards.  For a small block, one call fills them and the user's part between them. */
static gboolean
fill_guards (const TarnGuarded *self, const TarnDebugBlock *block, GError **error)
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

static gboolean
fill_fresh (const TarnGuarded *self, const TarnDebugBlock *block, GError **error)
{
  if (block->margin > 0 && !fill_guards (self, block, error))
    return FALSE;
  return !poisons (self)
         || _tarn_contents_fill (self, block->whole, block->margin, block->size,
                                 TARN_DEBUG_POISON_BYTE, error);
}

static gboolean
make_part (const TarnGuarded *self, TarnDebugBlock *block, GError **error)
{
  block->memory = block->whole;
  return block->margin == 0
         || _tarn_call (self->direct, part_new, block->whole, block->margin, block->size,
                        &block->memory, error);
}

static void
release_part (const TarnGuarded *self, const TarnDebugBlock *block)
{
  const TarnAllocatorOps *ops = &self->direct->ops;

  if (block->margin > 0 && ops->part_release != NULL)
    _tarn_call (self->direct, part_release, block->memory, block->size);
}

/* Counts bytes that are about to be allocated.  Returns FALSE if they would exceed the limit. */
static gboolean
reserve (TarnGuarded *self, gsize size, GError **error)
{
  gsize limit, taken;

  _tarn_mutex_lock (&self->lock);
  limit = self->limit_bytes;
  taken = self->taken_bytes;
  if (limit == 0 || size <= limit - MIN (taken, limit))
    {
      self->taken_bytes += size;
      _tarn_mutex_unlock (&self->lock);
      return TRUE;
    }
  _tarn_mutex_unlock (&self->lock);
  g_set_error (error, TARN_ERROR, TARN_ERROR_LIMIT,
               "%s: %" G_GSIZE_FORMAT " bytes beside %" G_GSIZE_FORMAT
               " of blocks, their guards and freed ones are more than the limit of %" G_GSIZE_FORMAT
               " bytes allows",
               self->label, size, taken, limit);
  return FALSE;
}

static void
end_reservation (TarnGuarded *self, gsize size)
{
  _tarn_mutex_lock (&self->lock);
  self->taken_bytes -= size;
  _tarn_mutex_unlock (&self->lock);
}

static void
give_whole_back (TarnGuarded *self, const TarnDebugBlock *block)
{
  if (block->has_gap)
    _tarn_gaps_give_back (self, block);
  else
    tarn_allocator_free_memory (self->below, block->whole, block->whole_size);
  end_reservation (self, block->whole_size);
}

static void
give_back (TarnGuarded *self, TarnDebugBlock *block)
{
  release_part (self, block);
  give_whole_back (self, block);
  g_free (block);
}

/* Logs why memory cannot be reached.  It logs nothing if the context is lost.  A capture of a
 * stream concerns all blocks at that time, so it is logged once. */
static void
say_unreachable (TarnGuarded *self, const gchar *what, const GError *error)
{
  if (is_lost (error)
      || (g_error_matches (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED)
          && !g_atomic_int_compare_and_exchange (&self->is_captured_said, FALSE, TRUE)))
    return;
  g_message ("%s: %s: %s", self->label, what, error->message);
}

/* Quarantine */

static void
check_poison (TarnGuarded *self, const TarnDebugBlock *block, TarnFindings *findings)
{
  g_autoptr (GError) error = NULL;
  TarnContentsChange change;
  gboolean is_changed;

  if (!_tarn_contents_compare (self, block->whole, block->margin, block->size,
                               TARN_DEBUG_POISON_BYTE, &is_changed, &change, &error))
    say_unreachable (self, "a freed block cannot be looked at", error);
  else if (is_changed)
    _tarn_findings_add (findings, self, block,
                        "written after it was freed, at offset %" G_GSIZE_FORMAT
                        ": 0x%02x, and up to offset %" G_GSIZE_FORMAT,
                        change.first - block->margin, change.byte, change.last - block->margin);
}

/* Leaves a block that is to be freed to the threads that read it.  Returns FALSE if none does.  The
 * lock is held. */
static gboolean
leave_to_look (TarnDebugBlock *block)
{
  block->is_left = block->n_looks > 0;
  return block->is_left;
}

/* Takes the oldest block out of the quarantine if that has more than @max_bytes; returns FALSE if
 * not. *popped becomes NULL if the block is left to a thread that reads it. */
static gboolean
pop_excess (TarnGuarded *self, gsize max_bytes, TarnDebugBlock **popped)
{
  gboolean is_excess;
  TarnDebugBlock *block;

  _tarn_mutex_lock (&self->lock);
  is_excess = self->quarantined_bytes > max_bytes;
  if (is_excess)
    {
      block = g_queue_peek_head (&self->quarantine);
      g_queue_unlink (&self->quarantine, &block->link);
      self->quarantined_bytes -= block->whole_size;
      g_hash_table_remove (self->blocks, &block->memory.address);
      *popped = leave_to_look (block) ? NULL : block;
    }
  _tarn_mutex_unlock (&self->lock);
  return is_excess;
}

/* Frees a block that was in quarantine. */
static void
end_quarantine (TarnGuarded *self, TarnDebugBlock *block, TarnFindings *findings)
{
  check_poison (self, block, findings);
  give_back (self, block);
}

static guint
count_quarantine (TarnGuarded *self)
{
  guint n;

  _tarn_mutex_lock (&self->lock);
  n = self->quarantine.length;
  _tarn_mutex_unlock (&self->lock);
  return n;
}

/* Frees blocks of the quarantine, the oldest first, until it has at most @max_bytes.  Frees no more
 * blocks than there were at first, so that it ends even if other threads add some.  Returns the
 * number of bytes; 0: there were none. */
static gsize
shorten_quarantine (TarnGuarded *self, gsize max_bytes)
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

/* The functions of the allocator */

/* The ways to take memory for a block, in this order.  A program that needs all memory of a device,
 * or its largest block, must not fail because of guards. */
typedef enum
{
  WITH_GAP,
  WITH_MARGINS,
  BARE,
  N_WAYS
} Way;

static gboolean
has_way (const TarnGuarded *self, const TarnDebugBlock *block, Way way)
{
  return way == BARE
         || (self->margin > 0 && block->size <= G_MAXSIZE / 2
             && (way == WITH_MARGINS
                 || ((self->settings.flags & TARN_DEBUG_GAPS) != 0
                     && _tarn_gaps_are_there (self))));
}

static void
measure (const TarnGuarded *self, TarnDebugBlock *block, Way way)
{
  if (way == WITH_GAP)
    {
      _tarn_gaps_measure (self, block);
      return;
    }
  block->margin = way == WITH_MARGINS ? self->margin : 0;
  block->whole_size
      = way == WITH_MARGINS ? _tarn_round_up (block->size, 16) + 2 * block->margin : block->size;
}

static gboolean
take_in_way (TarnGuarded *self, TarnDebugBlock *block, Way way, GError **error)
{
  gboolean is_taken;

  measure (self, block, way);
  if (!reserve (self, block->whole_size, error))
    return FALSE;
  is_taken = way == WITH_GAP ? _tarn_gaps_take (self, block, error)
                             : tarn_allocator_allocate_memory (self->below, block->whole_size,
                                                               &block->whole, error);
  if (!is_taken)
    end_reservation (self, block->whole_size);
  return is_taken;
}

/* Returns TRUE if a request failed for lack of memory, which the quarantine may have. */
static gboolean
is_short (const GError *error)
{
  return tarn_error_is_no_memory (error);
}

/* Takes memory for a block, after freeing the quarantine if there is none. */
static gboolean
take_whole (TarnGuarded *self, TarnDebugBlock *block, GError **error)
{
  GError *local = NULL;

  for (Way way = 0; way < N_WAYS && !is_lost (local); way++)
    {
      if (!has_way (self, block, way))
        continue;
      g_clear_error (&local);
      if (take_in_way (self, block, way, &local))
        return TRUE;
      if (!is_short (local) || shorten_quarantine (self, 0) == 0)
        continue;
      g_clear_error (&local);
      if (take_in_way (self, block, way, &local))
        return TRUE;
    }
  g_propagate_error (error, local);
  return FALSE;
}

/* Adds a block to the table, unless another one has its address: such memory cannot be told apart
 * by address, and has no contents. */
static void
note_block (TarnGuarded *self, TarnDebugBlock *block)
{
  gboolean is_nameless;

  _tarn_mutex_lock (&self->lock);
  is_nameless = !self->has_contents && g_hash_table_contains (self->blocks, &block->memory.address);
  if (is_nameless)
    self->is_nameless = TRUE;
  else
    g_hash_table_insert (self->blocks, &block->memory.address, block);
  _tarn_mutex_unlock (&self->lock);
  if (is_nameless)
    g_free (block);
}

/* Guards that the host sees */

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

/* Tries whether the host sees the device's writes, and not an older copy: fills the guards with
 * another byte, which the host must see.  The caller fills them again. */
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

/* Finds the host's address of a block, before its guards are filled. */
static void
find_host (TarnGuarded *self, TarnDebugBlock *block)
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

/* Registers the guards with dying.c, if the host sees them.  They are filled. */
static void
watch_host (const TarnGuarded *self, TarnDebugBlock *block)
{
  if (block->host != NULL && !block->is_unguarded && host_sees_guards (self, block))
    block->slot = _tarn_dying_watch (self, block, get_front (self, block));
  else
    block->host = NULL;
}

static void
forget_host (TarnDebugBlock *block)
{
  if (block->slot != NULL)
    _tarn_dying_forget (g_steal_pointer (&block->slot));
}

/* Fills a new block and its guards.  While a stream is being captured that cannot be done, and the
 * block has no guards. */
static gboolean
prepare_fresh (TarnGuarded *self, TarnDebugBlock *block, GError **error)
{
  g_autoptr (GError) local = NULL;

  if (fill_fresh (self, block, &local))
    return TRUE;
  if (!g_error_matches (local, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED))
    {
      g_propagate_error (error, g_steal_pointer (&local));
      return FALSE;
    }
  block->is_unguarded = TRUE;
  say_unreachable (self, "a block has no guards", local);
  return TRUE;
}

static gboolean
guarded_allocate (gpointer user_data, gsize size, TarnMemory *memory, GError **error)
{
  TarnGuarded *self = user_data;
  TarnDebugBlock *block = g_new0 (TarnDebugBlock, 1);

  block->link.data = block;
  block->size = size;
  block->tag = _tarn_tag_get_current ();
  block->stack = _tarn_stack_take ();
  block->thread = _tarn_record_get_thread ();
  if (!take_whole (self, block, error))
    {
      g_free (block);
      return FALSE;
    }
  if (!make_part (self, block, error))
    {
      give_whole_back (self, block);
      g_free (block);
      return FALSE;
    }
  find_host (self, block);
  if (!prepare_fresh (self, block, error))
    {
      give_back (self, block);
      return FALSE;
    }
  watch_host (self, block);
  *memory = block->memory;
  note_block (self, block);
  return TRUE;
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
  gboolean is_said;

  _tarn_mutex_lock (&self->lock);
  is_said = block->is_said;
  _tarn_mutex_unlock (&self->lock);
  return is_said;
}

static void
set_said (TarnGuarded *self, TarnDebugBlock *block)
{
  TarnDyingSlot *slot;

  _tarn_mutex_lock (&self->lock);
  block->is_said = TRUE;
  slot = g_steal_pointer (&block->slot); /* one of several threads that check forgets it */
  _tarn_mutex_unlock (&self->lock);
  if (slot != NULL)
    _tarn_dying_forget (slot);
}

/* Checks guards, unless they have been reported, without a command of the driver's if the host sees
 * them. */
static void
check_guards (TarnGuarded *self, TarnDebugBlock *block, TarnFindings *findings)
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
    say_unreachable (self, "the guards of a block cannot be looked at", error);
  if (findings->len > n_before)
    set_said (self, block);
}

/* Adds a finding if a block is freed twice.  Returns FALSE if it is not.  The lock is held. */
static gboolean
add_double_free (TarnGuarded *self, TarnMemory memory, TarnFindings *findings)
{
  const TarnDebugBlock *block = g_hash_table_lookup (self->blocks, &memory.address);

  if (block == NULL || (!block->is_freed && !block->is_left))
    return FALSE;
  _tarn_findings_add (findings, self, block, "freed once more, by thread %u",
                      _tarn_record_get_thread ());
  return TRUE;
}

static void
note_free (TarnDebugBlock *block)
{
  block->freed_stack = _tarn_stack_take ();
  block->freed_thread = _tarn_record_get_thread ();
}

/* Takes a block that is being freed out of the table.  Returns NULL with *is_left if it is left to
 * a thread that reads it.  Returns NULL otherwise if the table has no such block; a finding says
 * so, unless blocks may be missing there (is_nameless). */
static TarnDebugBlock *
take_block (TarnGuarded *self, TarnMemory memory, gsize size, gboolean *is_left,
            TarnFindings *findings)
{
  TarnDebugBlock *block = NULL;

  _tarn_mutex_lock (&self->lock);
  if (!add_double_free (self, memory, findings))
    {
      block = g_hash_table_lookup (self->blocks, &memory.address);
      if (block != NULL && self->is_nameless && block->size != size)
        block = NULL; /* another one */
      else if (block != NULL && !leave_to_look (block))
        g_hash_table_remove (self->blocks, &memory.address);
      else if (block == NULL && !self->is_nameless)
        _tarn_findings_add_unknown (findings, self, memory, size);
    }
  *is_left = block != NULL && block->is_left;
  if (*is_left && block->freed_thread == 0)
    note_free (block);
  _tarn_mutex_unlock (&self->lock);
  return *is_left ? NULL : block;
}

/* Fills a freed block with POISON.  Returns FALSE if the memory cannot be reached. */
static gboolean
poison_freed (TarnGuarded *self, const TarnDebugBlock *block)
{
  g_autoptr (GError) error = NULL;

  if (_tarn_contents_fill (self, block->whole, block->margin, block->size, TARN_DEBUG_POISON_BYTE,
                           &error))
    return TRUE;
  say_unreachable (self, "a freed block cannot be filled", error);
  return FALSE;
}

static void
put_into_quarantine (TarnGuarded *self, TarnDebugBlock *block)
{
  block->is_freed = TRUE;
  block->is_left = FALSE;
  if (block->freed_thread == 0)
    note_free (block);
  _tarn_mutex_lock (&self->lock);
  g_hash_table_insert (self->blocks, &block->memory.address, block);
  g_queue_push_tail_link (&self->quarantine, &block->link);
  self->quarantined_bytes += block->whole_size;
  _tarn_mutex_unlock (&self->lock);
}

static void
end_block (TarnGuarded *self, TarnDebugBlock *block)
{
  forget_host (block);
  /* Filled even if there is no room in quarantine, so that later reads find it. */
  if (!poisons_freed (self) || !poison_freed (self, block)
      || block->whole_size > self->settings.quarantine_bytes)
    {
      give_back (self, block);
      return;
    }
  put_into_quarantine (self, block);
  shorten_quarantine (self, self->settings.quarantine_bytes);
}

static void
guarded_free (gpointer user_data, TarnMemory memory, gsize size)
{
  TarnGuarded *self = user_data;
  TarnFindings *findings = _tarn_findings_new ();
  gboolean is_left;
  TarnDebugBlock *block = take_block (self, memory, size, &is_left, findings);

  if (block != NULL)
    {
      check_guards (self, block, findings);
      end_block (self, block);
    }
  else if (!is_left && findings->len == 0)
    {
      tarn_allocator_free_memory (self->below, memory, size);
      end_reservation (self, size);
    }
  _tarn_findings_report (findings);
}

static gboolean
guarded_reclaim (gpointer user_data)
{
  TarnGuarded *self = user_data;
  gsize bytes = shorten_quarantine (self, 0);

  return _tarn_allocator_reclaim (self->direct) || bytes > 0;
}

/* Frees the quarantine, and memory that a heap then has of it.  A TarnAllocatorOps.trim, called for
 * other pools of a group, or by the program. */
static gsize
guarded_trim (gpointer user_data)
{
  TarnGuarded *self = user_data;
  gsize bytes = shorten_quarantine (self, 0);

  return MAX (bytes,
              _tarn_allocator_trim (self->below)); /* a heap may keep it for its other pools */
}

/* Forgets blocks that are left when the pool has ended.  The pool could not find out whether they
 * are still in use, so their memory stays allocated. */
static void
forget_stuck (TarnGuarded *self)
{
  GHashTableIter iter;
  gpointer block;

  g_hash_table_iter_init (&iter, self->blocks);
  while (g_hash_table_iter_next (&iter, NULL, &block))
    {
      const TarnDebugBlock *stuck = block;

      forget_host (block);
      if (!stuck->has_gap)
        _tarn_allocator_lose (self->below, stuck->whole, stuck->whole_size);
      g_free (block);
    }
}

static void
guarded_destroy (gpointer user_data)
{
  TarnGuarded *self = user_data;

  _tarn_leaks_forget (self);
  shorten_quarantine (self, 0);
  forget_stuck (self);
  g_hash_table_unref (self->blocks);
  _tarn_mutex_clear (&self->lock);
  g_free (self->label);
  tarn_allocator_unref (self->given);
  g_free (self);
}

/* Queues are the backend's. */

#define DIRECT(user_data) (((TarnGuarded *) (user_data))->direct)
#define CALL(user_data, func, ...) _tarn_call (DIRECT (user_data), func, __VA_ARGS__)

static gboolean
guarded_queue_ref (gpointer user_data, gpointer queue, gboolean *in_order, GError **error)
{
  return CALL (user_data, queue_ref, queue, in_order, error);
}

static void
guarded_queue_unref (gpointer user_data, gpointer queue)
{
  CALL (user_data, queue_unref, queue);
}

static gpointer
guarded_event_record (gpointer user_data, gpointer queue, GError **error)
{
  return CALL (user_data, event_record, queue, error);
}

static gboolean
guarded_event_is_done (gpointer user_data, gpointer event)
{
  return CALL (user_data, event_is_done, event);
}

static gboolean
guarded_event_wait (gpointer user_data, gpointer event, gpointer queue, GError **error)
{
  return CALL (user_data, event_wait, event, queue, error);
}

static void
guarded_event_release (gpointer user_data, gpointer event)
{
  CALL (user_data, event_release, event);
}

static gpointer
guarded_event_record_all (gpointer user_data, GError **error)
{
  return CALL (user_data, event_record_all, error);
}

static gpointer
guarded_fresh_queue (gpointer user_data)
{
  return _tarn_call_plain (DIRECT (user_data), fresh_queue);
}

static gboolean
guarded_check_queue (gpointer user_data, gpointer queue, GError **error)
{
  return CALL (user_data, check_queue, queue, error);
}

static void
set_queue_functions (TarnAllocatorOps *ops, const TarnAllocatorOps *direct)
{
  if (direct->queue_ref == NULL)
    return;
  ops->queue_ref = guarded_queue_ref;
  ops->queue_unref = guarded_queue_unref;
  ops->event_record = guarded_event_record;
  ops->event_is_done = guarded_event_is_done;
  ops->event_wait = guarded_event_wait;
  ops->event_release = guarded_event_release;
  ops->event_record_all = direct->event_record_all != NULL ? guarded_event_record_all : NULL;
  ops->fresh_queue = direct->fresh_queue != NULL ? guarded_fresh_queue : NULL;
  ops->check_queue = direct->check_queue != NULL ? guarded_check_queue : NULL;
}

/* Making one */

static gsize
choose_margin (const TarnGuarded *self)
{
  const TarnAllocatorOps *ops = &self->direct->ops;

  if ((self->settings.flags & TARN_DEBUG_GUARDS) == 0 || !self->has_contents
      || ops->part_new == NULL)
    return 0;
  return MAX (ops->part_alignment, LEAST_MARGIN);
}

/* Chooses the source of memory.  A heap's blocks may be parts, of which some backends cannot make
 * parts; then it is the heap's direct allocator. */
static TarnAllocator *
choose_below (const TarnGuarded *self)
{
  return self->margin > 0 && self->direct->ops.part_release != NULL ? self->direct : self->given;
}

static gchar *
make_label (const gchar *pool_name, const TarnAllocator *direct)
{
  g_autofree gchar *quoted = pool_name != NULL ? _tarn_shorten (pool_name) : NULL;

  return quoted != NULL ? g_strdup_printf ("pool '%s' over %s", quoted, direct->label)
                        : g_strdup_printf ("an unnamed pool over %s", direct->label);
}

static TarnAllocator *
guarded_new (TarnAllocator *upstream, const TarnDebugSettings *settings, const gchar *pool_name)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  TarnGuarded *self = g_new0 (TarnGuarded, 1);
  TarnAllocator *allocator;

  self->given = tarn_allocator_ref (upstream);
  self->direct = upstream->direct;
  self->label = make_label (pool_name, self->direct);
  self->settings = *settings;
  self->has_contents = self->direct->ops.read != NULL;
  self->shows_host = -1;
  self->margin = choose_margin (self);
  self->below = choose_below (self);
  self->blocks = g_hash_table_new (g_int64_hash, g_int64_equal);
  _tarn_mutex_init (&self->lock);
  ops.name = upstream->ops.name;
  ops.deferred = upstream->ops.deferred;
  ops.allocate = guarded_allocate;
  ops.free = guarded_free;
  ops.reclaim = guarded_reclaim;
  set_queue_functions (&ops, &self->direct->ops);
  allocator = self->self = _tarn_allocator_new_between (&ops, self, guarded_destroy, upstream);
  allocator->level = upstream->level + 1;
  allocator->trim = guarded_trim;
  _tarn_leaks_watch (self);
  return allocator;
}

TarnAllocator *
_tarn_debug_stand_on (TarnAllocator *upstream, const gchar *pool_name,
                      const TarnDebugSettings *settings)
{
  if ((settings->flags & ~(guint) TARN_DEBUG_CHECK) == 0 || _tarn_allocator_is_debugged (upstream))
    return tarn_allocator_ref (upstream);
  return guarded_new (upstream, settings, pool_name);
}

gboolean
_tarn_debug_set_limit (TarnAllocator *upstream, gsize limit_bytes)
{
  TarnGuarded *self = upstream->user_data;
  TarnAllocator *given = upstream->given;
  gboolean has_more;

  if (given == NULL) /* another pool */
    return FALSE;
  _tarn_mutex_lock (&self->lock);
  self->limit_bytes = limit_bytes;
  has_more = limit_bytes != 0 && self->taken_bytes > limit_bytes;
  _tarn_mutex_unlock (&self->lock);
  return has_more;
}

void
_tarn_debug_end_pool (TarnAllocator *upstream)
{
  TarnGuarded *self = upstream->user_data;

  if (upstream->given == NULL) /* another pool */
    return;
  shorten_quarantine (self, 0);
  if ((self->settings.flags & TARN_DEBUG_LEAKS) != 0)
    _tarn_leaks_report (self, "the pool ends");
  _tarn_mutex_lock (&self->lock);
  self->has_ended = TRUE;
  _tarn_mutex_unlock (&self->lock);
}

void
_tarn_debug_note_free (TarnAllocator *upstream, TarnMemory memory)
{
  TarnGuarded *self = upstream->user_data;
  TarnDebugBlock *block;

  if (upstream->given == NULL)
    return;
  _tarn_mutex_lock (&self->lock);
  block = g_hash_table_lookup (self->blocks, &memory.address);
  if (block != NULL && !block->is_freed && !block->is_left)
    note_free (block);
  _tarn_mutex_unlock (&self->lock);
}

void
_tarn_debug_note_stuck (TarnAllocator *upstream, TarnMemory memory)
{
  TarnGuarded *self = upstream->user_data;
  TarnDebugBlock *block;

  if (upstream->given == NULL)
    return;
  _tarn_mutex_lock (&self->lock);
  block = g_hash_table_lookup (self->blocks, &memory.address);
  if (block != NULL)
    block->is_stuck = TRUE;
  _tarn_mutex_unlock (&self->lock);
}

gboolean
_tarn_debug_report_double_free (TarnAllocator *upstream, TarnMemory memory)
{
  TarnGuarded *self = upstream->user_data;
  TarnFindings *findings;
  gboolean is_known;

  if (upstream->given == NULL)
    return FALSE;
  findings = _tarn_findings_new ();
  _tarn_mutex_lock (&self->lock);
  is_known = add_double_free (self, memory, findings);
  _tarn_mutex_unlock (&self->lock);
  _tarn_findings_report (findings);
  return is_known;
}

/* Checks of blocks in use, or in quarantine */

/* Begins to read the block at an address.  Returns NULL if there is no block with guards or in
 * quarantine, or if another thread has just freed it. */
static TarnDebugBlock *
begin_look (TarnGuarded *self, guint64 address)
{
  TarnDebugBlock *block;

  _tarn_mutex_lock (&self->lock);
  block = g_hash_table_lookup (self->blocks, &address);
  if (block != NULL && (block->is_left || (!block->is_freed && block->margin == 0)))
    block = NULL;
  if (block != NULL)
    block->n_looks++;
  _tarn_mutex_unlock (&self->lock);
  return block;
}

/* Ends reading a block.  Returns TRUE if the block was freed meanwhile, and the caller is to free
 * its memory. */
static gboolean
end_look (TarnGuarded *self, TarnDebugBlock *block)
{
  gboolean is_mine;

  _tarn_mutex_lock (&self->lock);
  is_mine = --block->n_looks == 0 && block->is_left;
  if (is_mine && !block->is_freed)
    g_hash_table_remove (self->blocks, &block->memory.address);
  _tarn_mutex_unlock (&self->lock);
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
    check_poison (self, block, findings);
  else
    check_guards (self, block, findings);
  if (!end_look (self, block))
    return;
  if (block->is_freed)
    give_back (self, block);
  else
    {
      if (findings->len == n_before) /* writes since then */
        check_guards (self, block, findings);
      end_block (self, block);
    }
}

/* Lists the addresses of all blocks. */
static GArray *
list_addresses (TarnGuarded *self)
{
  GArray *addresses = g_array_new (FALSE, FALSE, sizeof (guint64));
  GHashTableIter iter;
  gpointer address;

  _tarn_mutex_lock (&self->lock);
  g_hash_table_iter_init (&iter, self->blocks);
  while (g_hash_table_iter_next (&iter, &address, NULL))
    g_array_append_vals (addresses, address, 1);
  _tarn_mutex_unlock (&self->lock);
  return addresses;
}

void
_tarn_guarded_check (TarnGuarded *self, TarnFindings *findings)
{
  g_autoptr (GArray) addresses = list_addresses (self);

  for (guint i = 0; i < addresses->len; i++)
    look (self, g_array_index (addresses, guint64, i), findings);
}
