/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Makes cached memory of other queues available to a request's queue.  A queue's share is the
 * cached blocks that only this queue has used.  Another queue can use them only after an event.  So
 * a request asks for an event on the queue that has the share, and a later call records the event.
 * The event is called late, because it may also cover commands that came after the free.  When the
 * event has completed, the blocks are idle, and any queue can use them.
 *
 * This file also decides for which block sizes the frees record events themselves. */

#include "order/order-private.h"
#include "pool/cache-private.h"

/* many_have () returns TRUE if at least this many queues have blocks of one size in their shares
 * (free lists). */
#define MANY_SHARES 64

/* Functions whose callers hold the pool's lock */

/* Returns TRUE if the pool exceeds its bound on cached bytes, and could not record an event on
 * @queue when some of the cached blocks were freed.  The next call that names the queue then tries
 * again to record one, so that the pool can return these blocks. */
static gboolean
has_unrecorded_excess (const TarnPool *pool, const TarnQueue *queue)
{
  return queue->has_unrecorded && _tarn_pool_has_excess (pool);
}

/* Returns TRUE if a call that names @queue has to record an event on the queue.  The caller holds
 * the pool's lock.  The call has to record an event in two cases:
 * - Requests of other queues want the queue's cached blocks.
 * - The pool exceeds its bound on cached bytes, and an earlier attempt to record an event on the
 *   queue failed. */
gboolean
_tarn_pool_wants_event (const TarnPool *pool, const TarnQueue *queue)
{
  return queue != NULL && (queue->is_wanted || has_unrecorded_excess (pool, queue));
}

/* Turns on timely events for one size: each of the next TARN_RECORDED_FREES frees of blocks of
 * that size records an event.  Another queue that gets such a block then waits for this event
 * only, and not for commands that came after the free.  Call this if a block of the size was
 * handed over to another queue, or if memory ran short and only other queues had such blocks. */
void
_tarn_pool_hand_on (TarnPool *pool, guint32 number)
{
  _tarn_assert_locked (&pool->lock);
  if (!_tarn_pool_records_frees (pool, number))
    _tarn_pool_empty_bins_of_size (pool, number);
  _tarn_pool_set_to_record (pool, number, TARN_RECORDED_FREES);
}

/* Returns TRUE if @queue has used cached blocks of a size, and the use of one of these blocks has
 * no event, because recording the event failed. */
static gboolean
has_unrecorded (TarnPool *pool, guint32 number, const TarnQueue *queue)
{
  TarnBin *bin = _tarn_bins_get (pool->store.recorded_bins, number);

  _tarn_assert_locked (&pool->lock);
  for (TarnBlock *block = bin != NULL ? bin->top : NULL; block != NULL; block = block->below)
    for (guint i = 0; i < block->n_uses; i++)
      if (block->uses[i].queue == queue && block->uses[i].event == NULL)
        return TRUE;
  return FALSE;
}

/* Moves blocks of a size to the shares (free lists) of their queues: the blocks in the calling
 * thread's cache, and the blocks that threads have handed over to other threads. */
static void
fill_shares (TarnPool *pool, guint32 number)
{
  TarnCache *cache = _tarn_cache_of (_tarn_current_thread, pool);

  _tarn_assert_locked (&pool->lock);
  if (_tarn_pool_records_frees (pool, number))
    /* Each free of a block of this size records events now, and puts no block into a cache. */
    return;
  if (cache != NULL)
    _tarn_cache_empty_bins_of_size (cache, number);
  _tarn_pool_take_from_transfers (pool, number);
}

/* Makes the next call that names @queue record an event on it.  For this, empties the queue's bins
 * in thread caches, because a call that a thread's cache serves would not record the event. */
static void
want_event (TarnPool *pool, TarnQueue *queue)
{
  _tarn_assert_locked (&pool->lock);
  if (!queue->is_wanted)
    _tarn_pool_empty_bins_of_queue (pool, queue->handle);
  queue->is_wanted = TRUE;
}

/* Arranges that an event is recorded on @queue, which has cached blocks that a request could use.
 * If the backend keeps queues alive, adds the queue to the request's list, and the request itself
 * records the event later.  Otherwise the next call that names the queue records the event. */
static void
want_event_for (TarnPool *pool, TarnRequest *request, TarnQueue *queue)
{
  g_assert (request->n_others < TARN_MAX_OTHERS);
  request->others_have = TRUE;
  if (!_tarn_pool_keeps_queues_alive (pool))
    {
      want_event (pool, queue);
      return;
    }
  queue->n_refs++;
  request->others[request->n_others++] = queue;
}

/* Arranges that an event is recorded on each other queue that has blocks of a request's size in its
 * share (free list), except queues for which an earlier request has done so already.  To find these
 * queues, goes through the list TarnBin.unasked, because a list of all queues could be long.  If
 * the backend keeps queues alive, the request itself will record an event on each queue in its
 * list.  So the function stops when the list has @max queues. */
static void
want_shares (TarnPool *pool, TarnRequest *request, guint max)
{
  TarnBin *of_all = _tarn_bins_get (pool->store.recorded_bins, request->number);
  TarnBin *next;

  _tarn_assert_locked (&pool->lock);
  for (TarnBin *bin = of_all != NULL ? of_all->unasked : NULL;
       bin != NULL && request->n_others < max; bin = next)
    {
      next = bin->next;
      if (bin->queue == request->queue)
        continue;
      _tarn_bin_want (bin);
      want_event_for (pool, request, bin->queue);
    }
}

/* Arranges that events are recorded on other queues that have used cached blocks of a request's
 * size, if no event could be recorded when these blocks were freed. */
static void
want_unrecorded (TarnPool *pool, TarnRequest *request)
{
  _tarn_assert_locked (&pool->lock);
  for (GList *link = pool->queues.unrecorded.head;
       link != NULL && request->n_others < TARN_MAX_OTHERS; link = link->next)
    if (link->data != request->queue && has_unrecorded (pool, request->number, link->data))
      want_event_for (pool, request, link->data);
}

/* Returns TRUE if queues other than the request's own have blocks of the requested size in their
 * shares (free lists). */
static gboolean
others_have (TarnPool *pool, const TarnRequest *request)
{
  const TarnBin *of_all = _tarn_bins_get (pool->store.recorded_bins, request->number);
  TarnBins *own = request->queue != NULL ? request->queue->bins : NULL;

  return of_all != NULL && of_all->n_shares > (guint) _tarn_bins_have (own, request->number);
}

/* Arranges that events are recorded on other queues that have cached blocks of a request's size.
 * When the events have completed, later requests can use these blocks. */
void
_tarn_pool_want_others (TarnPool *pool, TarnRequest *request)
{
  _tarn_assert_locked (&pool->lock);
  if (g_hash_table_size (pool->queues.table) <= (request->queue != NULL)
      || !pool->policy.moves_blocks)
    return; /* no other queue exists, or the pool moves no blocks between queues */
  fill_shares (pool, request->number);
  request->others_have = others_have (pool, request);
  want_shares (pool, request, TARN_MAX_OTHERS);
  want_unrecorded (pool, request);
}

/* Returns TRUE if many queues (MANY_SHARES) have blocks of a size in their shares (free lists). */
static gboolean
many_have (TarnPool *pool, guint32 number)
{
  const TarnBin *of_all = _tarn_bins_get (pool->store.recorded_bins, number);

  return of_all != NULL && of_all->n_shares >= MANY_SHARES;
}

/* If many queues have blocks of a request's size in their shares (free lists), arranges that an
 * event is recorded on one of these queues.  When this event has completed, later requests can use
 * the blocks of that queue.  The caller has taken a block of another queue's share for the request.
 * If the backend does not keep queues alive, does nothing.
 *
 * A program that makes a new queue for each task leaves a share behind with each old queue.  Only
 * requests of later queues can use the blocks in these shares.  So each request that takes such a
 * block makes the blocks of one more share available.  Otherwise some requests would find no block,
 * and take fresh memory, as long as the program runs.
 *
 * If only few queues have blocks of the size, these queues will use the blocks again themselves.
 * An event would only move blocks back and forth between the queues. */
void
_tarn_pool_want_next (TarnPool *pool, TarnRequest *request)
{
  _tarn_assert_locked (&pool->lock);
  if (!_tarn_pool_keeps_queues_alive (pool))
    return;
  if (!many_have (pool, request->number))
    fill_shares (pool, request->number);
  if (many_have (pool, request->number))
    want_shares (pool, request, 1);
}

/* Clears a request's list of queues on which it records events, and drops its references to these
 * queues.  If the request failed before it recorded an event on a queue, marks the queue's blocks
 * as unwanted, so that later requests can ask for the event. */
void
_tarn_pool_end_wants (TarnPool *pool, TarnRequest *request)
{
  _tarn_assert_locked (&pool->lock);
  for (guint i = 0; i < request->n_others; i++)
    {
      TarnBin *bin = _tarn_bins_get (request->others[i]->bins, request->number);

      if (bin != NULL)
        _tarn_bin_unwant (pool, bin);
      _tarn_queue_unref (pool, request->others[i]);
    }
  request->n_others = 0;
}

/* Sets @event in each cached block that @queue uses, and for which recording an event on the queue
 * failed before.  Closes the pool's door (a readers-writer lock) meanwhile, so that no thread is in
 * a read section.  In a read section, a thread could change the states of blocks in its cache
 * without the lock. */
static void
give_unrecorded (TarnPool *pool, const TarnQueue *queue, TarnEvent *event)
{
  gboolean was_open = _tarn_pool_close (pool);

  TARN_FOR_EACH_BLOCK (block, &pool->blocks.chunks)
    if (block->state == TARN_BLOCK_HELD && _tarn_block_get_share (block) == TARN_NO_SHARE)
      _tarn_block_share_event (pool, block, queue, event);
  _tarn_pool_open (pool, was_open);
}

/* Gives @event, which the caller is going to record on @queue, to cached blocks of the queue: those
 * that requests of other queues want.  Moves these blocks from the queue's share to the recorded
 * bins, the free lists of blocks that have events.
 *
 * If an earlier attempt to record an event on the queue failed, some cached blocks of the queue
 * still lack an event.  These blocks get @event too.  If the pool also exceeds its bound on cached
 * bytes, all other blocks of the share get @event, so that the pool can return them to upstream
 * when the event has completed. */
static void
give_event (TarnPool *pool, TarnQueue *queue, TarnEvent *event)
{
  gboolean is_all_wanted = has_unrecorded_excess (pool, queue);
  GHashTableIter iter;
  gpointer item;

  _tarn_assert_locked (&pool->lock);
  queue->is_wanted = FALSE;
  if (queue->has_unrecorded)
    give_unrecorded (pool, queue, event);
  _tarn_queue_set_unrecorded (pool, queue, FALSE);
  if (queue->bins == NULL)
    return;
  g_hash_table_iter_init (&iter, queue->bins->table);
  while (g_hash_table_iter_next (&iter, NULL, &item))
    {
      TarnBin *bin = item;

      if (!bin->is_wanted && !is_all_wanted)
        continue;
      bin->is_wanted = FALSE;
      for (TarnBlock *block = bin->top; block != NULL; block = block->below)
        block->uses->event = _tarn_event_ref (event);
      _tarn_bin_move (pool, bin);
    }
}

/* Removes an event from the uses of a block. */
static void
take_from_block (TarnPool *pool, TarnBlock *block, const TarnEvent *event)
{
  gboolean had_it = FALSE;

  for (guint i = 0; i < block->n_uses; i++)
    if (block->uses[i].event == event)
      {
        _tarn_use_clear_event (pool, &block->uses[i]);
        had_it = TRUE;
      }
  /* The block may belong to a queue's share now: a share has blocks that only this queue uses, and
   * that have no event. */
  if (had_it)
    _tarn_block_update_share (block);
}

/* Removes @event, which could not be recorded on @queue, from all blocks.  Then moves each block
 * that only @queue uses back to the queue's share (free lists).  Other blocks stay in the recorded
 * bins, without an event. */
static void
take_event_back (TarnPool *pool, TarnQueue *queue, const TarnEvent *event)
{
  gboolean was_open;

  _tarn_assert_locked (&pool->lock);
  was_open = _tarn_pool_close (pool);
  TARN_FOR_EACH_BLOCK (block, &pool->blocks.chunks)
    take_from_block (pool, block, event);
  _tarn_pool_open (pool, was_open);
  _tarn_queue_set_unrecorded (pool, queue, TRUE);
  _tarn_bins_move (pool, pool->store.recorded_bins);
}

/* Functions whose callers do not hold the pool's lock */

/* Returns TRUE if an earlier attempt to record an event on @queue failed, and the queue is still
 * being captured (into a CUDA graph, for example).  Another attempt would fail, too.  It would only
 * move all blocks of the queue's share (free lists) to the recorded bins and back.
 *
 * The program has named the queue in this call, so the queue is alive when the check begins.  It
 * stays alive during the check, because the pool counts the check as an attempt to record an event,
 * and waits for all attempts on a queue before it forgets the queue. */
static gboolean
is_captured_still (TarnPool *pool, TarnQueue *queue)
{
  gboolean has_unrecorded, is_captured;

  _tarn_mutex_lock (&pool->lock);
  has_unrecorded = queue->has_unrecorded;
  if (has_unrecorded)
    _tarn_queue_begin_recording (pool, queue);
  _tarn_mutex_unlock (&pool->lock);
  if (!has_unrecorded)
    return FALSE;
  is_captured = !_tarn_allocator_check_queue (pool->upstream->direct, queue->handle, NULL);
  _tarn_mutex_lock (&pool->lock);
  _tarn_queue_end_recording (pool, queue);
  _tarn_mutex_unlock (&pool->lock);
  return is_captured;
}

/* Records one event on @queue, for two kinds of blocks: the blocks in the queue's share (free
 * lists) that other queues want, and @freed, a block of the queue that the caller is freeing.
 * @freed is NULL if there is no such block.  The caller has a reference to the queue.  If @is_named
 * is TRUE, the caller also guarantees that the queue is alive. */
void
_tarn_pool_record_share (TarnPool *pool, TarnQueue *queue, TarnBlock *freed, gboolean is_named)
{
  g_autoptr (GError) error = NULL;
  gpointer handle = NULL;
  TarnEvent *event;

  _tarn_assert_not_locked (&pool->lock);
  if (is_named && is_captured_still (pool, queue))
    return;
  event = _tarn_event_new (NULL, TRUE);
  _tarn_mutex_lock (&pool->lock);
  g_assert (queue->n_refs > 0);
  give_event (pool, queue, event);
  if (freed != NULL && freed->share == queue->handle)
    {
      freed->uses->event = _tarn_event_ref (event);
      _tarn_block_update_share (freed);
    }
  if (event->n_refs > 1)
    {
      /* It is safe to release the lock while the event is recorded: the program has freed all
       * blocks that share the event, and no other queue can get these blocks before the event is
       * recorded. */
      if (is_named)
        _tarn_queue_begin_recording (pool, queue);
      _tarn_mutex_unlock (&pool->lock);
      handle
          = _tarn_allocator_record_event (pool->upstream->direct, queue->handle, is_named, &error);
      _tarn_mutex_lock (&pool->lock);
      if (is_named)
        _tarn_queue_end_recording (pool, queue);
      if (handle != NULL)
        g_atomic_pointer_set (&event->handle, handle);
      else
        take_event_back (pool, queue, event);
    }
  if (freed != NULL)
    _tarn_block_update_share (freed);
  _tarn_event_unref (pool, event);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_pool_unlock_and_sweep (pool);
  if (error != NULL)
    _tarn_pool_report_unrecorded (pool, error);
}

/* Records an event on each queue in a request's list of other queues, and clears the list.  The
 * backend keeps these queues alive. */
void
_tarn_pool_record_others (TarnPool *pool, TarnRequest *request)
{
  if (request->n_others == 0)
    return;
  for (guint i = 0; i < request->n_others; i++)
    _tarn_pool_record_share (pool, request->others[i], NULL, FALSE);
  _tarn_mutex_lock (&pool->lock);
  _tarn_pool_end_wants (pool, request);
  _tarn_pool_unlock_and_sweep (pool);
}
