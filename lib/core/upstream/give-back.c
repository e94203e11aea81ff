/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Returns memory to the upstream allocator.  A thread takes blocks out of the free lists and
 * announces, in the same critical section, that it returns them.  Then it returns them without the
 * lock, and does not wait for other threads meanwhile.  A request that is out of memory waits for
 * such threads.  So the request also gets the memory of blocks that have left the free lists but
 * have not reached upstream yet. */

#include "base/fork-private.h"
#include "debug/debug-private.h"
#include "pool/cache-private.h"
#include "record/record-private.h"
#include "upstream/reclaim-group-private.h"
#include "upstream/upstream-private.h"

/* Returns a number that changes when cached memory returns to upstream, either of the pool or of
 * another pool of its reclaim group.  The number is the sum of three counts: the finished calls
 * that have returned memory of the pool, those that have returned memory of any pool of the group,
 * and the blocks of the pool that went from thread caches to their arenas.  The caller holds the
 * pool's lock. */
guint64
_tarn_pool_get_ended (const TarnPool *pool)
{
  return pool->returning.calls.ended + pool->returning.n_to_arenas
         + (pool->reclaim.group != NULL ? _tarn_group_get_ended (pool->reclaim.group) : 0);
}

/* Announces that this thread is about to return the blocks in the list @blocks to upstream.  The
 * list may be empty.  The caller has taken the blocks out of the free lists in the same critical
 * section, and still holds the pool's lock.  So for other threads, each block is either cached or
 * being returned at every moment. */
void
_tarn_pool_begin_give_back (TarnPool *pool, TarnGiveBack *give_back, TarnBlock *blocks)
{
  _tarn_assert_locked (&pool->lock);
  give_back->blocks = blocks;
  give_back->stuck = NULL;
  give_back->n_untold = 0;
  give_back->untold_bytes = 0;
  give_back->is_foreign = FALSE;
  give_back->unreserved_bytes = 0;
  if (blocks != NULL)
    __atomic_store_n (&pool->generation, pool->generation + 1, __ATOMIC_RELEASE);
  for (const TarnBlock *block = blocks; block != NULL; block = block->below)
    give_back->unreserved_bytes += block->alloc_size;
  pool->returning.bytes += give_back->unreserved_bytes;
  _tarn_tickets_begin (&pool->returning.calls, &give_back->ticket);
  give_back->group
      = pool->reclaim.group != NULL ? tarn_reclaim_group_ref (pool->reclaim.group) : NULL;
  if (give_back->group != NULL)
    _tarn_group_begin_give_back (give_back->group, &give_back->group_ticket);
}

/* Makes requests check the limit again if they have reserved bytes of stuck blocks (blocks that
 * could not be returned to upstream).  The caller has just cached the stuck blocks again.  So the
 * pool may have more bytes than its limit until the requests have checked it.  The caller holds the
 * pool's lock. */
static void
note_stuck (TarnPool *pool)
{
  _tarn_assert_locked (&pool->lock);
  pool->limit.n_came_back++;
  _tarn_pool_fit_ceiling (pool);
}

/* Ends a call that has returned blocks to upstream, and wakes the threads that wait for it.  Frees
 * the structs of the returned blocks.  Makes blocks that could not be returned (stuck blocks)
 * cached again.  The caller holds the pool's lock. */
static void
end_give_back (TarnPool *pool, TarnGiveBack *give_back)
{
  gboolean has_given = give_back->blocks != NULL, has_stuck = give_back->stuck != NULL;
  TarnBlock *block;

  _tarn_assert_locked (&pool->lock);
  while ((block = give_back->blocks) != NULL)
    {
      give_back->blocks = block->below;
      _tarn_block_chunks_put (&pool->blocks.chunks, block);
    }
  while ((block = give_back->stuck) != NULL)
    {
      give_back->stuck = block->below;
      _tarn_pool_hold_stuck (pool, block);
    }
  pool->returning.bytes -= give_back->unreserved_bytes;
  if (has_stuck)
    note_stuck (pool);
  if (has_given)
    _tarn_pool_note_room (pool);
  else
    _tarn_pool_note_failed_call (pool);
  pool->returning.n_foreign -= give_back->is_foreign;
  _tarn_tickets_end (&pool->returning.calls, &give_back->ticket, has_given);
  if (give_back->group != NULL)
    _tarn_group_end_give_back (give_back->group, &give_back->group_ticket, has_given);
}

/* Returns the memory of a block to upstream.  The block is in no free list any more.  Returns FALSE
 * with an error if the driver cannot tell whether commands still use the memory. */
static gboolean
give_back_block (TarnPool *pool, TarnBlock *block, gboolean is_wanted, GError **error)
{
  if (block->is_own) /* the block's part (a sub-buffer), if any, is released already */
    {
      _tarn_arena_return (pool->heap, block->extent);
      block->uses = NULL;
      block->is_own = FALSE;
      return TRUE;
    }
  if (block->n_uses > 0)
    return pool->base.klass->give_back_used (block, is_wanted, error);
  tarn_allocator_free_memory (pool->upstream, block->memory, block->alloc_size);
  return TRUE;
}

/* Adds a block to the list of blocks that could not be returned to upstream (stuck blocks).  Also
 * adds the block's bytes to the next message about such blocks, unless an earlier message has
 * reported the block. */
static void
add_stuck (const TarnPool *pool, TarnGiveBack *give_back, TarnBlock *block)
{
  block->below = give_back->stuck;
  give_back->stuck = block;
  if (pool->policy.is_debugged)
    _tarn_debug_note_stuck (pool->upstream, block->memory);
  if (block->is_told)
    return;
  block->is_told = TRUE;
  give_back->n_untold++;
  give_back->untold_bytes += block->alloc_size;
}

/* Returns the memory of a call's blocks to upstream.  Moves blocks that cannot be returned to the
 * call's list of stuck blocks.  Returns the number of bytes of the stuck blocks.  Sets *error to
 * the reason why the first stuck block could not be returned. */
static gsize
give_back_blocks (TarnPool *pool, TarnGiveBack *give_back, gboolean is_wanted, GError **error)
{
  TarnBlock **link = &give_back->blocks;
  gsize stuck_bytes = 0;
  TarnBlock *block;

  pool->base.klass->record_returning (&pool->base, give_back->blocks, is_wanted);
  while ((block = *link) != NULL)
    if (give_back_block (pool, block, is_wanted, *error == NULL ? error : NULL))
      link = &block->below;
    else
      {
        *link = block->below;
        add_stuck (pool, give_back, block);
        stuck_bytes += block->alloc_size;
      }
  return stuck_bytes;
}

/* Logs how many bytes could not be returned to upstream, and why. */
static void
tell_stuck (const TarnPool *pool, const TarnGiveBack *give_back, const GError *error)
{
  g_autofree gchar *number
      = give_back->n_untold > 1
            ? g_strdup_printf (" in %" G_GSIZE_FORMAT " blocks", give_back->n_untold)
            : g_strdup ("");

  g_message ("%s: %s: the pool does not return " TARN_BYTES_FORMAT
             "%s to its allocator, because commands may still use them",
             pool->base.label, error->message, TARN_BYTES (give_back->untold_bytes), number);
}

/* Returns to upstream the blocks that the caller has taken out of the free lists and announced by
 * _tarn_pool_begin_give_back ().  @is_wanted: TRUE if a request needs the memory now; then the host
 * waits for commands that still use the memory.
 *
 * If the driver cannot tell whether commands still use a block, the pool caches this block again.
 * Returns the number of bytes that are cached again for this reason.  If the pool's last reference
 * was dropped, the function may free the pool.  The caller does not hold the pool's lock. */
gsize
_tarn_pool_give_back (TarnPool *pool, TarnGiveBack *give_back, gboolean is_wanted)
{
  TarnReclaimGroup *group = give_back->group;
  g_autoptr (GError) error = NULL;
  gsize stuck_bytes;
  gboolean last;

  _tarn_assert_not_locked (&pool->lock);
  _tarn_duty_begin (pool->base.level, TARN_DUTY_GIVE_BACK);
  stuck_bytes = give_back_blocks (pool, give_back, is_wanted, &error);
  if (give_back->n_untold > 0)
    tell_stuck (pool, give_back, error);
  _tarn_duty_end (pool->base.level, TARN_DUTY_GIVE_BACK);

  _tarn_mutex_lock (&pool->lock);
  end_give_back (pool, give_back);
  last = pool->orphaned && pool->blocks.n == pool->store.n_stuck
         && pool->returning.calls.oldest == NULL;
  _tarn_mutex_unlock (&pool->lock);
  if (last)
    pool->base.klass->finalize (&pool->base);
  tarn_reclaim_group_unref (group);
  return stuck_bytes;
}

/* Releases the pool's lock, and then returns @blocks to upstream.  @blocks is a list, which may be
 * empty, of blocks that the caller has taken out of the free lists while it held the lock.  Returns
 * the number of bytes that are cached again, and may free the pool: see _tarn_pool_give_back (). */
gsize
_tarn_pool_unlock_and_give_back (TarnPool *pool, TarnBlock *blocks, gboolean is_wanted)
{
  TarnGiveBack give_back;

  _tarn_assert_locked (&pool->lock);
  if (blocks != NULL)
    _tarn_pool_begin_give_back (pool, &give_back, blocks);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);
  return blocks != NULL ? _tarn_pool_give_back (pool, &give_back, is_wanted) : 0;
}

/* Returns cached blocks of at least @wanted bytes in total to upstream, or all cached blocks if
 * they have fewer bytes.  If none of the chosen blocks can be returned, because commands may still
 * use them, tries all cached blocks.  Returns the number of bytes that were returned to upstream.
 * The caller does not hold the pool's lock. */
gsize
_tarn_pool_give_back_held (TarnPool *pool, gsize wanted)
{
  TarnBlock *blocks;
  gsize bytes;

  _tarn_assert_not_locked (&pool->lock);
  _tarn_mutex_lock (&pool->lock);
  _tarn_pool_flush (pool);
  bytes = pool->stats.held_bytes;
  blocks = _tarn_pool_take_excess_after (pool, _tarn_pool_take_largest (pool, wanted));
  bytes -= pool->stats.held_bytes;
  bytes -= _tarn_pool_unlock_and_give_back (pool, blocks, TRUE);
  if (bytes > 0 || blocks == NULL || wanted == G_MAXSIZE)
    return bytes;
  return _tarn_pool_give_back_held (pool, G_MAXSIZE);
}

/* Returns cached blocks to upstream, the largest first, until at most @keep_bytes are cached.  Then
 * makes upstream return its unused memory, until upstream's unused memory and the pool's cached
 * blocks together have at most @keep_bytes.  @stop_holding: TRUE if the pool shall cache no more
 * blocks from now on.  The caller does not hold the pool's lock. */
void
_tarn_pool_trim (TarnPool *pool, gsize keep_bytes, gboolean stop_holding)
{
  g_autoptr (TarnAllocator) upstream = tarn_allocator_ref (pool->upstream);
  TarnBlock *blocks = NULL;
  gsize held_bytes;

  _tarn_assert_not_locked (&pool->lock);
  TARN_EVENT (trim, TARN_TRACE_TRIM, pool->base.id, keep_bytes, (guint64) stop_holding);
  _tarn_pool_free_aside (pool);
  _tarn_mutex_lock (&pool->lock);
  if (stop_holding)
    {
      _tarn_pool_set_bins (pool, TARN_HEAP_EXACT_BINS);
      _tarn_pool_end_arenas (pool);
    }
  pool->store.has_ended |= stop_holding;
  _tarn_pool_flush (pool);
  if (pool->stats.held_bytes > keep_bytes)
    blocks = _tarn_pool_take_largest (pool, pool->stats.held_bytes - keep_bytes);
  blocks = _tarn_pool_take_excess_after (pool, blocks);
  held_bytes = pool->stats.held_bytes;
  _tarn_pool_unlock_and_give_back (pool, blocks, FALSE);
  _tarn_allocator_trim (upstream, _tarn_subtract (keep_bytes, held_bytes));
}

void
tarn_pool_free_held (TarnPool *pool)
{
  g_return_if_fail (pool != NULL);

  if (!_tarn_forked ())
    _tarn_pool_trim (pool, 0, FALSE);
}

void
tarn_pool_trim (TarnPool *pool, gsize keep_bytes)
{
  g_return_if_fail (pool != NULL);

  if (!_tarn_forked ())
    _tarn_pool_trim (pool, keep_bytes, FALSE);
}

void
tarn_pool_stop_holding (TarnPool *pool)
{
  g_return_if_fail (pool != NULL);

  if (!_tarn_forked ())
    _tarn_pool_trim (pool, 0, TRUE);
}
