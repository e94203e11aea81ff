/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Returns memory to the upstream allocator while commands may still use the memory: records events
 * on the queues that use the memory, and waits for these events if needed. */

#include "order/order-private.h"
#include "pool/bin-private.h"
#include "pool/cache-private.h"
#include "upstream/upstream-private.h"

/* The most rounds in which one call returns blocks that exceed the pool's bound on cached bytes.
 * Without this limit, the call might never end while other threads free more blocks. */
#define MAX_ROUNDS 100

/* Returns TRUE if the host has to wait for the commands that use a block's memory before the pool
 * returns this memory to upstream.  Returns FALSE if upstream is a direct allocator whose memory
 * Tarn may free while commands still use it (frees_in_order). */
gboolean
_tarn_pool_waits_before_free (const TarnPool *pool)
{
  return !pool->upstream->direct->ops.frees_in_order || pool->upstream->direct != pool->upstream;
}

/* Returns TRUE if the pool can return a block to the heap while commands still use the block.  This
 * is so if all these commands are on one in-order queue, and the heap allocated the memory for this
 * queue. */
gboolean
_tarn_pool_can_go_at_once (const TarnPool *pool, const TarnBlock *block)
{
  const TarnUse *use = block->uses;

  return pool->heap != NULL && block->n_uses == 1 && !block->is_away && !block->is_handed_on
         && use->event == NULL && use->queue->in_order && use->queue->is_known;
}

/* Returns TRUE if the heap below the pool still knows a queue by the number that the pool has
 * stored for it (TarnQueue.owner).  Returns FALSE if the heap has forgotten the queue because
 * another pool over the same heap has forgotten it. */
gboolean
_tarn_pool_heap_knows (const TarnPool *pool, const TarnQueue *queue)
{
  return queue->owner != 0 && _tarn_heap_knows_owner (pool->heap, queue->handle, queue->owner);
}

/* Returns TRUE if each use of a cached block has an event that is known to have completed, so that
 * no command uses the block any more. */
gboolean
_tarn_block_is_done (const TarnBlock *block)
{
  return _tarn_block_is_ready_for (block, NULL);
}

/* Returns TRUE if the pool can free memory on a queue while commands still use the memory: the
 * backend then frees the memory after all earlier commands of the queue.  Returns FALSE in these
 * cases:
 *
 * - the backend has no such function, or does not keep queues alive
 * - the backend is not directly below the pool
 * - @is_wanted is TRUE: the memory has to be free when the call returns
 * - the pool has a limit: the pool would count the bytes as free before they are free */
static gboolean
frees_on_queue (TarnPool *pool, gboolean is_wanted)
{
  const TarnAllocator *direct = pool->upstream->direct;
  gsize limit_bytes;

  if (is_wanted || direct->ops.free_on_queue == NULL || !_tarn_pool_keeps_queues_alive (pool)
      || direct != pool->upstream)
    return FALSE;
  _tarn_mutex_lock (&pool->lock);
  limit_bytes = pool->limit.bytes;
  _tarn_mutex_unlock (&pool->lock);
  return limit_bytes == 0;
}

/* Returns the event that covers the commands on @queue, and records it if @events does not have it
 * yet.  @events maps queues to the events recorded so far.  If the backend does not keep queues
 * alive, one event covers all queues (event_record_all ()).  Returns NULL if the event cannot be
 * recorded. */
static TarnEvent *
ensure_event (TarnPool *pool, GHashTable *events, TarnQueue *queue)
{
  TarnAllocator *direct = pool->upstream->direct;
  gpointer key = _tarn_pool_keeps_queues_alive (pool) ? queue : NULL;
  TarnEvent *event = g_hash_table_lookup (events, key);
  gpointer handle;

  _tarn_assert_not_locked (&pool->lock);
  if (event != NULL || g_hash_table_contains (events, key))
    return event;
  handle = _tarn_allocator_record_event (direct, queue->handle, FALSE, NULL);
  event = handle != NULL ? _tarn_event_new (handle, TRUE) : NULL;
  g_hash_table_insert (events, key, event);
  return event;
}

/* Returns the heap's number for the queue that uses a block, if the pool can return the block to
 * the heap while the queue still uses the block.  Returns 0 otherwise.  The caller holds the pool's
 * lock. */
static guint64
find_owner (const TarnPool *pool, const TarnBlock *block)
{
  const TarnQueue *queue;

  if (!_tarn_pool_can_go_at_once (pool, block))
    return 0;
  queue = block->uses->queue;
  return _tarn_pool_heap_knows (pool, queue) ? queue->owner : 0;
}

/* Returns the heap's number for the queue that uses a block, or 0, like find_owner ().  Takes the
 * pool's lock for this. */
static guint64
get_owner (TarnPool *pool, const TarnBlock *block)
{
  TARN_LOCKED (&pool->lock);

  return find_owner (pool, block);
}

/* Returns TRUE if commands may still use a block in @blocks, a list of blocks to return to
 * upstream.  Ignores blocks that the pool can return to the heap while their queue uses them. */
static gboolean
are_used (TarnPool *pool, const TarnBlock *blocks)
{
  gboolean are_used = FALSE;

  while (blocks != NULL && blocks->n_uses == 0)
    blocks = blocks->below;
  if (blocks == NULL)
    return FALSE;
  _tarn_mutex_lock (&pool->lock);
  for (const TarnBlock *block = blocks; block != NULL && !are_used; block = block->below)
    are_used = block->n_uses > 0 && find_owner (pool, block) == 0;
  _tarn_mutex_unlock (&pool->lock);
  return are_used;
}

/* Goes through the uses of a block.  If a use has no event yet, sets its event: to the one that
 * @events has for the use's queue, or else to a new one.  @events maps queues to the events that
 * were recorded for other blocks.  Does nothing if the pool can return the block to the heap while
 * the block's queue still uses the block. */
static void
record_block (TarnPool *pool, GHashTable *events, TarnBlock *block)
{
  if (get_owner (pool, block) != 0)
    return;
  for (guint i = 0; i < block->n_uses; i++)
    {
      TarnUse *use = &block->uses[i];
      gboolean has_event;
      TarnEvent *event;

      _tarn_mutex_lock (&pool->lock);
      has_event = _tarn_use_has_event (use);
      _tarn_mutex_unlock (&pool->lock);
      event = has_event ? NULL : ensure_event (pool, events, use->queue);
      if (event == NULL)
        continue;
      _tarn_mutex_lock (&pool->lock);
      _tarn_block_share_event (pool, block, use->queue, event);
      _tarn_mutex_unlock (&pool->lock);
    }
}

/* Records the events for which the host must wait before the pool returns the blocks in the list
 * @blocks to upstream.  Usually records one event on each queue that uses the blocks.  If the
 * backend does not keep queues alive, the program may have destroyed some of these queues.  Then
 * records a single event, which covers all queues of the backend (event_record_all ()).  If an
 * event cannot be recorded, _tarn_pool_give_back_used () tries again, and reports the error. */
void
_tarn_pool_record_returning (TarnAllocator *allocator, TarnBlock *blocks, gboolean is_wanted)
{
  TarnPool *pool = _tarn_pool_of (allocator);
  g_autoptr (GHashTable) events = NULL;
  GHashTableIter iter;
  gpointer event;

  if (!are_used (pool, blocks) || !_tarn_pool_waits_before_free (pool)
      || frees_on_queue (pool, is_wanted))
    return;
  events = g_hash_table_new (NULL, NULL);
  for (TarnBlock *block = blocks; block != NULL; block = block->below)
    record_block (pool, events, block);
  _tarn_mutex_lock (&pool->lock);
  g_hash_table_iter_init (&iter, events);
  while (g_hash_table_iter_next (&iter, NULL, &event))
    if (event != NULL)
      _tarn_event_unref (pool, event);
  _tarn_pool_unlock_and_sweep (pool);
}

/* Frees a block's memory on the first queue that uses the block, after all commands that use the
 * block.  First makes this queue wait for timely events of the block's other queues (events that
 * the block's free recorded).  Makes the host wait for late events (events that may also cover
 * commands after the free).  Returns FALSE if the backend cannot free on the queue, or if a wait
 * failed. */
static gboolean
free_on_queue (TarnPool *pool, TarnBlock *block)
{
  TarnAllocator *direct = pool->upstream->direct;
  TarnQueue *queue = block->uses[0].queue;
  g_autoptr (GError) error = NULL;

  _tarn_assert_not_locked (&pool->lock);
  if (_tarn_block_await (pool, block, queue, FALSE, &error))
    return _tarn_direct_call_free_on_queue (direct, block->memory, block->alloc_size,
                                            queue->handle);
  if (!g_error_matches (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST))
    g_message ("%s: %s: the host waits instead", pool->base.label, error->message);
  return FALSE;
}

/* Makes the host wait until all commands that use a block are done.  If the context is lost, its
 * commands count as done.  Returns FALSE with an error if the driver cannot tell when they are
 * done. */
static gboolean
await_end (TarnPool *pool, TarnBlock *block, GError **error)
{
  GError *local = NULL;

  _tarn_assert_not_locked (&pool->lock);
  if (_tarn_block_await (pool, block, NULL, FALSE, &local)
      || g_error_matches (local, TARN_ERROR, TARN_ERROR_CONTEXT_LOST))
    {
      g_clear_error (&local);
      return TRUE;
    }
  g_propagate_error (error, local);
  return FALSE;
}

/* Returns a block's memory to the heap, which keeps the memory for the queue that may still use it.
 * Returns FALSE, and does nothing, if several queues use the block, or if the heap does not know
 * the queue. */
static gboolean
free_for_owner (TarnPool *pool, TarnBlock *block)
{
  guint64 owner = get_owner (pool, block);

  return owner != 0 && _tarn_heap_free_for (pool->heap, block->memory, owner);
}

/* Returns a block's memory to upstream although commands may still use it.  The caller has taken
 * the block out of the free lists.  If @is_wanted is TRUE, the memory is free when this function
 * returns.  If @is_wanted is FALSE, the driver may free the memory later, when the commands are
 * done.  If the driver cannot tell when the commands are done, does not return the memory, and
 * returns FALSE with an error. */
gboolean
_tarn_pool_give_back_used (TarnBlock *block, gboolean is_wanted, GError **error)
{
  TarnPool *pool = _tarn_pool_of (block->source);

  g_assert (block->state == TARN_BLOCK_RETIRED && block->n_uses > 0);
  if (!free_for_owner (pool, block)
      && (!_tarn_pool_waits_before_free (pool) || !frees_on_queue (pool, is_wanted)
          || !free_on_queue (pool, block)))
    {
      if (_tarn_pool_waits_before_free (pool) && !await_end (pool, block, error))
        return FALSE;
      tarn_allocator_free_memory (pool->upstream, block->memory, block->alloc_size);
    }
  _tarn_mutex_lock (&pool->lock);
  _tarn_block_clear_uses (pool, block);
  _tarn_pool_unlock_and_sweep (pool);
  return TRUE;
}

/* Returns the first of a block's events that is not known to have completed, or NULL if there is
 * none. */
static TarnEvent *
get_undone (const TarnBlock *block)
{
  for (guint i = 0; i < block->n_uses; i++)
    if (_tarn_use_has_event (&block->uses[i]) && !g_atomic_int_get (&block->uses[i].event->is_done))
      return block->uses[i].event;
  return NULL;
}

/* Searches recorded blocks (cached blocks with events) for an event that is not known to have
 * completed.  Begins at @block, and continues with blocks that were cached later.  Returns the
 * event with a reference, or NULL if there is none.  Sets asked_next to the block that has the
 * event; the next search begins at this block. */
static TarnEvent *
find_undone (TarnPool *pool, TarnBlock *block)
{
  TarnEvent *event = NULL;

  _tarn_assert_locked (&pool->lock);
  for (; block != NULL && (event = get_undone (block)) == NULL;
       block = _tarn_block_get_age (block)->newer)
    pool->store.has_done |= _tarn_block_is_done (block);
  pool->store.recorded.asked_next = block;
  return event != NULL ? _tarn_event_ref (event) : NULL;
}

/* Returns the next event about which to ask the driver, with a reference, or NULL if there is none.
 * Searches the recorded blocks (cached blocks with events) from the oldest to newer ones.  After
 * an event that had not completed, the next search begins at the next newer block.  So a few blocks
 * with long-running commands do not hide newer blocks that are idle. */
static TarnEvent *
find_unasked (TarnPool *pool)
{
  TarnEvent *event = find_undone (pool, pool->store.recorded.asked_next);

  return event != NULL ? event : find_undone (pool, pool->store.recorded.oldest);
}

/* Makes the next search for an event begin at the next newer block.  The caller has asked the
 * driver about the event that the last search found, and this event has not completed. */
static void
skip_asked (TarnPool *pool)
{
  const TarnBlock *block = pool->store.recorded.asked_next;

  _tarn_assert_locked (&pool->lock);
  if (block != NULL)
    pool->store.recorded.asked_next = _tarn_block_get_age (block)->newer;
}

/* Asks the driver about events of recorded blocks (cached blocks with events).  Stops at the first
 * event that has not completed, or after TARN_MAX_ASKED events.  Returns TRUE if all events that it
 * asked about have completed, and there may be more to ask about. */
gboolean
_tarn_pool_ask_recorded (TarnPool *pool)
{
  TarnAllocator *direct = pool->upstream->direct;
  TarnEvent *event;
  gboolean is_done = TRUE;

  for (guint n = 0; n < TARN_MAX_ASKED && is_done; n++)
    {
      _tarn_mutex_lock (&pool->lock);
      event = find_unasked (pool);
      _tarn_mutex_unlock (&pool->lock);
      if (event == NULL)
        return FALSE;
      is_done = _tarn_call_queue (direct, event_is_done, event->handle);
      if (is_done)
        g_atomic_int_set (&event->is_done, TRUE);
      _tarn_mutex_lock (&pool->lock);
      pool->store.has_done |= is_done;
      if (!is_done)
        skip_asked (pool);
      _tarn_event_unref (pool, event);
      _tarn_pool_unlock_and_sweep (pool);
    }
  return is_done;
}

/* Returns cached blocks to the heap.  If @sparing is TARN_SPARING_ALL, returns all blocks that the
 * pool can return.  Otherwise returns the blocks that only @queue uses (if @queue is NULL, idle
 * blocks), and blocks whose events have completed. */
static void
spare (TarnPool *pool, const TarnQueue *queue, TarnSparing sparing)
{
  TarnBlock *blocks;

  _tarn_mutex_lock (&pool->lock);
  if (sparing == TARN_SPARING_QUEUE)
    _tarn_pool_flush_queue (pool, queue != NULL ? queue->handle : NULL);
  if (sparing == TARN_SPARING_ALL)
    {
      _tarn_pool_flush (pool);
      blocks = _tarn_pool_retire_idle (pool, 0);
    }
  else
    blocks = _tarn_pool_take_sparable (pool, _tarn_pool_get_share (pool, queue));
  _tarn_pool_unlock_and_give_back (pool, blocks, FALSE);
}

/* Returns cached blocks to the heap.  Call this if the heap has no free memory of the request's
 * queue (@queue is NULL if the request has no queue), before the pool asks the heap for new memory.
 * A free must not call this function, because this function asks the driver about events. */
void
_tarn_pool_spare_heap (TarnPool *pool, guint32 number, TarnQueue *queue)
{
  TarnSparing sparing;

  _tarn_assert_not_locked (&pool->lock);
  if (queue != NULL)
    _tarn_pool_note_turn (pool, queue);
  if (_tarn_pool_get_hold_bound (pool) != 0)
    return;
  sparing = _tarn_heap_choose_sparing (
      pool->heap, _tarn_bin_alloc_size (number, _tarn_pool_get_leading_bits (pool)),
      __atomic_load_n (&pool->has_arenas, __ATOMIC_RELAXED));
  _tarn_pool_ask_recorded (pool);
  spare (pool, queue, sparing);
}

/* If the pool has more cached blocks than its bound allows, returns to upstream as many of them as
 * are known to be idle.  So the function neither waits nor asks the driver.  Returns TRUE if the
 * pool still exceeds its bound, or has cached a block with events for a long time.  The caller
 * should then ask the driver which other blocks are idle. */
static gboolean
give_back_ready_excess (TarnPool *pool)
{
  gboolean needs_recorded;
  TarnBlock *blocks;

  _tarn_assert_not_locked (&pool->lock);
  _tarn_mutex_lock (&pool->lock);
  blocks = _tarn_pool_take_excess (pool);
  needs_recorded = _tarn_pool_needs_recorded (pool);
  _tarn_pool_unlock_and_give_back (pool, blocks, FALSE);
  return needs_recorded;
}

/* If the pool exceeds its bound on cached bytes, returns cached blocks to upstream, except blocks
 * for which the host would have to wait.  A free must not call this function, because this function
 * asks the driver about events. */
void
_tarn_pool_give_back_excess (TarnPool *pool)
{
  for (guint n = 0; n < MAX_ROUNDS && give_back_ready_excess (pool); n++)
    if (!_tarn_pool_ask_recorded (pool))
      {
        give_back_ready_excess (pool);
        return;
      }
}

/* Does periodic work for a pool over a heap.  Requests that took no lock call this now and then.
 * Returns to upstream the blocks that exceed the pool's bound or were cached for long.  Also makes
 * the heap do its periodic work for the queue @handle (NULL if the requests had no queue).
 *
 * If another thread holds the pool's lock, usually returns without a wait, because that thread does
 * the same work.  A wait could also start a lock convoy: threads that sleep for a lock make one
 * another slow.  Waits for the lock only if frees have left work for which the pool has to ask the
 * driver (has_late). */
void
_tarn_pool_look_after (TarnPool *pool, gpointer handle)
{
  _tarn_assert_not_locked (&pool->lock);
  if (__atomic_exchange_n (&pool->store.has_late, FALSE, __ATOMIC_RELAXED))
    _tarn_pool_give_back_excess (pool);
  if (!_tarn_mutex_trylock (&pool->lock))
    return;
  _tarn_pool_unlock_and_give_back (pool, _tarn_pool_take_excess (pool), FALSE);
  _tarn_heap_look_after (pool->heap, handle);
}
