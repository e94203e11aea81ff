/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The allocator that Tarn puts between a debugged pool and its upstream allocator.  To the pool, it
 * looks like a direct allocator (one that calls a backend), with the backend's queues.  The pool
 * frees a block to this allocator only after all commands that use the block are done. */

#include "debug/debug-private.h"

#include "base/fork-private.h"
#include "record/record-private.h"

/* The smallest margin in bytes.  The margin holds the guards before the user's part of a block.
 * The user's part begins right after the margin, so the margin is a multiple of every alignment
 * that programs rely on.  If a heap's alignment is larger, the margin has the size of that
 * alignment. */
#define LEAST_MARGIN ((gsize) 512)

/* Returns TRUE if a call failed because the context is lost, so that nobody can use the context's
 * memory any more. */
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

/* Returns TRUE if Tarn fills freed blocks with the poison byte.  Returns FALSE if the backend is
 * deferred, that is, if the backend itself keeps freed memory until the commands that use it are
 * done.  Such a backend has no queues, so Tarn cannot know whether commands still use the block,
 * and must not fill it. */
static gboolean
poisons_freed (const TarnGuarded *self)
{
  return poisons (self) && !self->direct->ops.deferred;
}

/* Functions that fill new blocks, count their bytes, and return their memory */

static gboolean
fill_fresh (const TarnGuarded *self, const TarnDebugBlock *block, GError **error)
{
  if (block->margin > 0 && !_tarn_guards_fill (self, block, error))
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

/* Adds the @size bytes of a block that the caller is about to allocate to self->taken_bytes.
 * Returns FALSE with an error if the sum would exceed the limit. */
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
  TARN_LOCKED (&self->lock);

  self->taken_bytes -= size;
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

void
_tarn_guarded_give_back (TarnGuarded *self, TarnDebugBlock *block)
{
  release_part (self, block);
  give_whole_back (self, block);
  g_free (block);
}

void
_tarn_guarded_say_unreachable (TarnGuarded *self, const gchar *what, const GError *error)
{
  if (is_lost (error)
      || (g_error_matches (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED)
          && !g_atomic_int_compare_and_exchange (&self->is_captured_said, FALSE, TRUE)))
    return;
  g_message ("%s: %s: %s", self->label, what, error->message);
}

/* Functions that allocate and free blocks for the pool */

/* The layouts of a block, in the order in which Tarn tries them: with unmapped addresses after the
 * block, with margins, and without guards.  The last layout is for a program that needs all memory
 * of a device, or the largest block that a device has: guards must not make that request fail. */
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
         || (self->margin > 0 && MAX (block->size, block->alignment) <= G_MAXSIZE / 4
             && (way == WITH_MARGINS
                 || ((self->settings.flags & TARN_DEBUG_GAPS) != 0 && _tarn_gaps_are_there (self)
                     && block->alignment <= self->direct->ops.virtual_granularity)));
}

static void
measure (const TarnGuarded *self, TarnDebugBlock *block, Way way)
{
  if (way == WITH_GAP)
    {
      _tarn_gaps_measure (self, block);
      return;
    }
  block->margin = way == WITH_MARGINS ? MAX (self->margin, block->alignment) : 0;
  block->whole_size = way == WITH_MARGINS
                          ? block->margin + _tarn_round_up (block->size, 16) + self->margin
                          : block->size;
}

/* Allocates the whole memory of a block, including its guards.  If the memory comes from a heap,
 * its address is a multiple of block->alignment.  Other allocators do not guarantee this. */
static gboolean
take_below (const TarnGuarded *self, TarnDebugBlock *block, GError **error)
{
  const TarnAllocatorClass *klass = self->below->klass;

  if (block->alignment != 0 && klass->allocate_aligned != NULL)
    return klass->allocate_aligned (self->below, block->whole_size, block->alignment, &block->whole,
                                    error);
  return tarn_allocator_allocate_memory (self->below, block->whole_size, &block->whole, error);
}

static gboolean
take_in_way (TarnGuarded *self, TarnDebugBlock *block, Way way, GError **error)
{
  gboolean is_taken;

  measure (self, block, way);
  if (!reserve (self, block->whole_size, error))
    return FALSE;
  is_taken
      = way == WITH_GAP ? _tarn_gaps_take (self, block, error) : take_below (self, block, error);
  if (!is_taken)
    end_reservation (self, block->whole_size);
  return is_taken;
}

/* Allocates memory for a block, in the first layout that succeeds.  If memory is short for a
 * layout, frees the blocks in quarantine, and tries that layout once more. */
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
      if (!tarn_error_is_no_memory (local) || _tarn_quarantine_shorten (self, 0) == 0)
        continue;
      g_clear_error (&local);
      if (take_in_way (self, block, way, &local))
        return TRUE;
    }
  g_propagate_error (error, local);
  return FALSE;
}

/* Adds a block to the table.  A backend that cannot read memory, such as one that only counts
 * bytes, may give several blocks the same address.  If the table already has a block with this
 * address, frees the struct of @block instead.  The program still uses the block's memory, and
 * guarded_free () can return the memory without the struct. */
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

/* Fills a new block and its guards.  While a stream is being captured, the backend cannot fill
 * memory, so the function marks the block as one without guards, and succeeds. */
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
  _tarn_guarded_say_unreachable (self, "a block has no guards", local);
  return TRUE;
}

/* Allocates a block for the pool.  @alignment: 0 for the backend's default alignment. */
static gboolean
allocate (TarnGuarded *self, gsize size, gsize alignment, TarnMemory *memory, GError **error)
{
  TarnDebugBlock *block = g_new0 (TarnDebugBlock, 1);

  block->link.data = block;
  block->size = size;
  block->alignment = alignment;
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
  _tarn_guards_find_host (self, block);
  if (!prepare_fresh (self, block, error))
    {
      _tarn_guarded_give_back (self, block);
      return FALSE;
    }
  _tarn_guards_watch (self, block);
  *memory = block->memory;
  note_block (self, block);
  return TRUE;
}

static gboolean
guarded_allocate (gpointer user_data, gsize size, TarnMemory *memory, GError **error)
{
  return allocate (user_data, size, 0, memory, error);
}

gboolean
_tarn_debug_allocate_aligned (TarnAllocator *upstream, gsize size, gsize alignment,
                              TarnMemory *memory, GError **error)
{
  g_assert (upstream->given != NULL);
  return allocate (upstream->user_data, size, alignment, memory, error);
}

/* If the block at @memory was freed before, adds a finding (a message about a double free) and
 * returns TRUE.  The caller holds the lock. */
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

void
_tarn_guarded_note_free (TarnDebugBlock *block)
{
  block->freed_stack = _tarn_stack_take ();
  block->freed_thread = _tarn_record_get_thread ();
}

/* Looks up a block that the program frees, removes it from the table of blocks, and returns it.
 *
 * Returns NULL in three cases.  If another thread is reading the block, sets *is_left, and that
 * thread frees the block later.  If the block was freed before, adds a finding.  If the table lacks
 * the block, adds a finding, too, unless the table is incomplete (is_nameless). */
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
        block = NULL; /* the table has another block with this address */
      else if (block != NULL && !_tarn_guarded_leave_to_look (block))
        g_hash_table_remove (self->blocks, &memory.address);
      else if (block == NULL && !self->is_nameless)
        _tarn_findings_add_unknown (findings, self, memory, size);
    }
  *is_left = block != NULL && block->is_left;
  if (*is_left && block->freed_thread == 0)
    _tarn_guarded_note_free (block);
  _tarn_mutex_unlock (&self->lock);
  return *is_left ? NULL : block;
}

void
_tarn_guarded_end_block (TarnGuarded *self, TarnDebugBlock *block)
{
  _tarn_guards_forget (block);
  /* Fill every freed block with the poison byte, even a block that is too large for the quarantine.
   * A program that reads freed memory then sees this byte. */
  if (!poisons_freed (self) || !_tarn_quarantine_poison (self, block)
      || block->whole_size > self->settings.quarantine_bytes)
    {
      _tarn_guarded_give_back (self, block);
      return;
    }
  _tarn_quarantine_put (self, block);
  _tarn_quarantine_shorten (self, self->settings.quarantine_bytes);
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
      _tarn_guards_check (self, block, findings);
      _tarn_guarded_end_block (self, block);
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
  gsize bytes = _tarn_quarantine_shorten (self, 0);

  return _tarn_allocator_reclaim (self->direct) || bytes > 0;
}

/* Frees the blocks in quarantine, then trims the allocator from which blocks are allocated, such as
 * a heap.  Returns the number of bytes freed.  The program calls this function through the
 * allocator's trim ().  Another pool of the same reclaim group (pools that free memory for one
 * another) may call it, too. */
static gsize
guarded_trim (gpointer user_data, gsize keep_bytes)
{
  TarnGuarded *self = user_data;
  gsize bytes = _tarn_quarantine_shorten (self, 0);
  gsize bytes_below = _tarn_allocator_trim (self->below, keep_bytes);

  /* Return the larger number, not the sum, because both numbers usually count the blocks that have
   * just left the quarantine.  If the allocator below keeps the memory of these blocks for other
   * pools, only the number "bytes" counts the blocks. */
  return MAX (bytes, bytes_below);
}

/* Frees the structs of blocks that are still in the allocator's table (self->blocks) when the
 * allocator is destroyed.  Commands may still use these blocks, so the blocks' memory stays
 * allocated. */
static void
forget_stuck (TarnGuarded *self)
{
  GHashTableIter iter;
  gpointer block;

  g_hash_table_iter_init (&iter, self->blocks);
  while (g_hash_table_iter_next (&iter, NULL, &block))
    {
      const TarnDebugBlock *stuck = block;

      _tarn_guards_forget (block);
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
  _tarn_quarantine_shorten (self, 0);
  forget_stuck (self);
  g_hash_table_unref (self->blocks);
  _tarn_mutex_clear (&self->lock);
  g_free (self->label);
  tarn_allocator_unref (self->given);
  g_free (self);
}

/* Functions that make the allocator */

static gsize
choose_margin (const TarnGuarded *self)
{
  const TarnAllocatorOps *ops = &self->direct->ops;
  const TarnAllocatorClass *klass = self->given->klass;
  gsize alignment
      = klass->get_alignment != NULL ? klass->get_alignment (self->given) : ops->part_alignment;

  if ((self->settings.flags & TARN_DEBUG_GUARDS) == 0 || !self->has_contents
      || ops->part_new == NULL)
    return 0;
  return MAX (alignment, LEAST_MARGIN);
}

/* Returns the allocator from which blocks are allocated.  Usually this is the allocator that the
 * program gave the pool, such as a heap.
 *
 * Blocks with guards are an exception if the backend's sub-buffers are objects that have to be
 * released.  Such a sub-buffer may not have sub-buffers of its own.  The user's part of a block
 * with guards is a sub-buffer of the block's memory, so this memory must not be a sub-buffer.
 * Memory from a heap may be one, so these blocks come from the direct allocator below the heap. */
static TarnAllocator *
choose_below (const TarnGuarded *self)
{
  return self->margin > 0 && self->direct->ops.part_release != NULL ? self->direct : self->given;
}

/* Copies the backend's functions for queues and events to @ops, the allocator's own functions.
 * Their first argument stays the backend's data (TarnAllocator.queue_data). */
static void
copy_queue_functions (TarnAllocatorOps *ops, const TarnAllocatorOps *direct)
{
  if (direct->queue_ref == NULL)
    return;
  ops->queue_ref = direct->queue_ref;
  ops->queue_unref = direct->queue_unref;
  ops->event_record = direct->event_record;
  ops->event_is_done = direct->event_is_done;
  ops->event_wait = direct->event_wait;
  ops->event_release = direct->event_release;
  ops->event_record_all = direct->event_record_all;
  ops->fresh_queue = direct->fresh_queue;
  ops->check_queue = direct->check_queue;
}

static TarnAllocator *
guarded_new (TarnAllocator *upstream, const TarnDebugSettings *settings, const gchar *pool_name)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  TarnGuarded *self = g_new0 (TarnGuarded, 1);
  g_autofree gchar *pool = _tarn_allocator_make_label ("pool", pool_name);
  TarnAllocator *allocator;

  self->given = tarn_allocator_ref (upstream);
  self->direct = upstream->direct;
  self->label = g_strdup_printf ("%s over %s", pool, self->direct->label);
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
  copy_queue_functions (&ops, &self->direct->ops);
  allocator = self->self = _tarn_allocator_new_between (&ops, self, guarded_destroy, upstream);
  allocator->queue_data = self->direct->queue_data;
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

  if (given == NULL) /* @upstream is not an allocator for debugging */
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

  if (upstream->given == NULL) /* @upstream is not an allocator for debugging */
    return;
  _tarn_quarantine_shorten (self, 0);
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
    _tarn_guarded_note_free (block);
  _tarn_mutex_unlock (&self->lock);
}

void
_tarn_debug_report_use (TarnAllocator *upstream, TarnMemory memory)
{
  TarnGuarded *self = upstream->user_data;
  TarnFindings *findings;
  const TarnDebugBlock *block;

  if (upstream->given == NULL)
    return;
  findings = _tarn_findings_new ();
  _tarn_mutex_lock (&self->lock);
  block = g_hash_table_lookup (self->blocks, &memory.address);
  if (block != NULL && !block->is_freed)
    _tarn_findings_add_use (findings, self, block);
  _tarn_mutex_unlock (&self->lock);
  _tarn_findings_report (findings);
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
