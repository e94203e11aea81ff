/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Serves requests from held (cached) blocks: first from blocks that a request can use at once, then
 * from blocks that it can use only after the pool has asked the driver about events.
 *
 * A use of a block is a queue that may still run commands with the block.  A recorded block is a
 * cached block that has an event for each of its uses.  When the event of a use has completed, the
 * queue does not use the block any more.  Recorded blocks are in free lists of their own, the
 * recorded bins. */

#include "order/order-private.h"
#include "pool/cache-private.h"
#include "upstream/upstream-private.h"

/* The most blocks of a free list that one request looks at to find a block for itself. */
#define MAX_SEEN 64

/* A function that returns TRUE if a request of @queue (NULL: of the host) can use a block.  The
 * caller holds the pool's lock. */
typedef gboolean (*Suits) (const TarnBlock *block, const TarnQueue *queue);

/* Takes the first block of a bin (a free list) for which @suits returns TRUE.  Returns NULL if
 * @suits returns FALSE for the first MAX_SEEN blocks.  The caller holds the pool's lock. */
static TarnBlock *
take_first (TarnPool *pool, TarnBin *bin, gsize size, const TarnQueue *queue, Suits suits)
{
  guint n_seen = 0;

  _tarn_assert_locked (&pool->lock);
  if (bin == NULL)
    return NULL;
  for (TarnBlock **link = &bin->top; *link != NULL && n_seen < MAX_SEEN; link = &(*link)->below)
    if (suits (*link, queue))
      return _tarn_pool_take_block (pool, bin, link, size);
    else
      n_seen++;
  return NULL;
}

/* Functions that take blocks which a request can use at once.  Their callers hold the pool's
 * lock. */

/* Takes an idle block, which no queue uses, for a request.  Before that, moves idle blocks of the
 * request's size to the pool's idle bin.  Looks in these places, one after another, and stops at
 * the first one that has such blocks:
 *
 *     1. this thread's cache
 *     2. the blocks that threads have handed over to other threads
 *     3. if the idle bin is empty: the caches of ended threads
 *     4. if the idle bin is empty: the caches of idle threads */
static TarnBlock *
take_idle (TarnPool *pool, TarnCache *cache, const TarnRequest *request)
{
  guint32 number = request->number;
  TarnCacheBin *own = cache != NULL ? _tarn_cache_find_bin (cache, number, NULL) : NULL;

  if (own != NULL && own->top != NULL)
    _tarn_cache_empty_bin (cache, own);
  else if (!_tarn_pool_take_from_transfer (pool, number, NULL)
           && !_tarn_bins_have (pool->store.idle_bins, number)
           && !_tarn_pool_take_from_abandoned (pool, number, NULL))
    _tarn_pool_take_from_idle_threads (pool, number, NULL);
  return take_first (pool, _tarn_bins_get (pool->store.idle_bins, number), request->size,
                     request->queue, _tarn_block_is_ready_for);
}

/* Takes a recorded block (a cached block whose uses have events) for which @suits returns TRUE.  If
 * the block comes from another queue, makes more blocks available to later requests:
 *
 * - If the block's free recorded the event, makes the next frees of this size record events, too.
 * - If the event was recorded later, and many queues have cached blocks of this size, arranges that
 *   an event is recorded on one more of these queues. */
static TarnBlock *
take_recorded (TarnPool *pool, TarnRequest *request, Suits suits)
{
  TarnBlock *block = take_first (pool, _tarn_bins_get (pool->store.recorded_bins, request->number),
                                 request->size, request->queue, suits);

  _tarn_assert_locked (&pool->lock);
  if (block == NULL || block->n_uses != 1 || block->uses->queue == request->queue
      || block->uses->event == NULL)
    return block;
  if (!pool->policy.moves_blocks)
    return block;
  if (block->uses->event->is_late)
    _tarn_pool_want_next (pool, request);
  else
    _tarn_pool_hand_on (pool, request->number);
  return block;
}

/* Takes a recorded block (a cached block whose uses have events) for which the request's queue need
 * not wait.  Makes this queue the block's only user. */
static TarnBlock *
take_done (TarnPool *pool, TarnRequest *request)
{
  TarnBlock *block = take_recorded (pool, request, _tarn_block_is_ready_for);

  if (block != NULL)
    _tarn_block_set_queue (pool, block, request->queue);
  return block;
}

/* Takes a block for a request without calling the driver.  Takes the first of these that exists:
 *
 *     1. a block that only the request's queue has used, from the thread's cache (@cache, nullable)
 *        or from the queue's free lists
 *     2. an idle block, which no queue uses
 *     3. a block whose events are known to have completed */
static TarnBlock *
take_ready (TarnPool *pool, TarnCache *cache, TarnRequest *request)
{
  TarnQueue *queue = request->queue;
  TarnBlock *block = NULL;

  _tarn_assert_locked (&pool->lock);
  if (_tarn_door_is_closed (&pool->door) || _tarn_pool_wants_event (pool, queue))
    cache = NULL; /* do not fill the cache with blocks that other queues want */
  if (queue == NULL || queue->in_order)
    block = _tarn_pool_take_from_share (pool, cache, queue, request->number, request->size);
  if (block != NULL)
    return block;
  if (queue != NULL && pool->policy.moves_blocks)
    block = take_idle (pool, cache, request);
  if (block == NULL)
    return take_done (pool, request);
  _tarn_block_set_queue (pool, block, queue);
  return block;
}

/* Functions that find blocks which a request may use after a wait.  Their callers hold the pool's
 * lock. */

/* Returns TRUE if an event is in the list of events about which a request asks the driver. */
static gboolean
asks_about (const TarnRequest *request, const TarnEvent *event)
{
  for (guint i = 0; i < request->n_events; i++)
    if (request->events[i] == event)
      return TRUE;
  return FALSE;
}

/* Adds to a request the events about which it asks the driver.  These are events of recorded blocks
 * (cached blocks with events) of the request's size, as many as the request has room for.  Looks
 * only at the topmost MAX_SEEN blocks of the bin.  If several blocks have only one event each, and
 * it is the same event, adds this event once.
 *
 * Takes one block from the bottom, then one from the top, and so on.  The events of the lowest
 * blocks were recorded first, so they have usually completed first if the host runs ahead of the
 * queues.  But if long-running commands use the lowest blocks, idle blocks may be at the top. */
static void
note_events (TarnPool *pool, TarnRequest *request)
{
  const TarnBin *bin = _tarn_bins_get (pool->store.recorded_bins, request->number);
  const TarnBlock *seen[MAX_SEEN];
  guint n_seen = 0, n_noted = 0;
  gboolean is_top = FALSE;

  g_assert (request->n_events == 0);
  _tarn_assert_locked (&pool->lock);
  for (const TarnBlock *block = bin != NULL ? bin->top : NULL; block != NULL && n_seen < MAX_SEEN;
       block = block->below)
    seen[n_seen++] = block;
  while (n_seen > n_noted && request->n_events < TARN_MAX_ASKED)
    {
      const TarnBlock *block = is_top ? seen[n_noted++] : seen[--n_seen];

      if (!_tarn_block_is_recorded (block, request->queue)
          || (block->n_uses == 1 && asks_about (request, block->uses->event)))
        continue;
      _tarn_request_add_events (request, block);
      is_top = !is_top;
    }
}

/* Drops a request's references to the events about which it was to ask the driver. */
static void
clear_events (TarnPool *pool, TarnRequest *request)
{
  _tarn_assert_locked (&pool->lock);
  for (guint i = 0; i < request->n_events; i++)
    if (request->events[i] != NULL)
      _tarn_event_unref (pool, request->events[i]);
  request->n_events = 0;
}

/* Drops a request's references to its queue, and to the events about which the request asks the
 * driver.  Keeps the references to the other queues on which the request records events;
 * _tarn_pool_end_wants () drops these references. */
void
_tarn_pool_clear_request (TarnPool *pool, TarnRequest *request)
{
  _tarn_assert_locked (&pool->lock);
  clear_events (pool, request);
  if (request->queue != NULL)
    _tarn_queue_unref (pool, g_steal_pointer (&request->queue));
}

/* Serves a request of the host, or of a queue in the pool's table, from a block that the request
 * can use without a call to the driver.  Then drops the request's references
 * (_tarn_pool_clear_request ()).  If there is no such block, returns NULL, and prepares the request
 * for the next step:
 *
 *     - It adds the events about which the pool has to ask the driver.
 *     - It sets finds_unready if the request is for a queue and the pool has idle blocks of the
 *       size: their memory is fresh, and the queue must wait until the backend has made it ready.
 *     - If it finds neither such events nor such blocks, it arranges that events are recorded on
 *       other queues.
 *
 * The caller holds the pool's lock. */
TarnBlock *
_tarn_pool_take_at_once (TarnPool *pool, TarnCache *cache, TarnRequest *request)
{
  TarnBlock *block = take_ready (pool, cache, request);

  _tarn_assert_locked (&pool->lock);
  if (block != NULL)
    {
      _tarn_pool_clear_request (pool, request);
      return block;
    }
  request->asks_recorded = _tarn_pool_needs_recorded (pool);
  request->finds_unready = request->queue != NULL && pool->policy.moves_blocks
                           && _tarn_bins_have (pool->store.idle_bins, request->number);
  note_events (pool, request);
  if (!request->finds_unready && request->n_events == 0)
    _tarn_pool_want_others (pool, request);
  return NULL;
}

/* Functions that ask the driver about events.  Their callers do not hold the pool's lock. */

/* Tries again to serve a request without a call to the driver.  If there is no suitable block,
 * makes a new list of the events about which the request asks the driver. */
static TarnBlock *
serve_again (TarnPool *pool, TarnRequest *request)
{
  TarnCache *cache = _tarn_cache_of (_tarn_current_thread, pool);
  TarnBlock *block;

  _tarn_mutex_lock (&pool->lock);
  clear_events (pool, request);
  _tarn_pool_end_wants (pool, request);
  block = _tarn_pool_take_at_once (pool, cache, request);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_pool_unlock_and_sweep (pool);
  return block;
}

/* Counts a request that ended in an error. */
void
_tarn_pool_count_failure (TarnPool *pool)
{
  TARN_LOCKED (&pool->lock);

  pool->stats.failures++;
}

/* Makes the queue or the host wait for the former users of a block, and then makes a request's
 * queue the block's only user.  The caller has just taken or allocated the block for the request.
 * If the wait fails, puts the block back into the pool, and returns NULL with an error. */
TarnBlock *
_tarn_pool_move_or_put_back (TarnPool *pool, TarnBlock *block, const TarnRequest *request,
                             gboolean may_be_late, GError **error)
{
  _tarn_assert_not_locked (&pool->lock);
  if (_tarn_block_move (pool, block, request->queue, may_be_late, error))
    return block;
  _tarn_pool_put_back (pool, block);
  return NULL;
}

/* Asks the driver which events in a request's list have completed, block by block.  Stops after the
 * first block whose events have all completed. */
static void
query_events (TarnPool *pool, const TarnRequest *request)
{
  TarnAllocator *direct = pool->upstream->direct;
  gboolean are_done = TRUE;

  _tarn_assert_not_locked (&pool->lock);
  for (guint i = 0; i < request->n_events; i++)
    {
      TarnEvent *event = request->events[i];

      if (event == NULL && are_done)
        return;
      if (event == NULL)
        are_done = TRUE;
      else if (are_done && _tarn_call_queue (direct, event_is_done, event->handle))
        g_atomic_int_set (&event->is_done, TRUE);
      else
        are_done = FALSE;
    }
}

/* Moves the unready blocks of a request's size to the free list of the queue on which the backend
 * makes fresh memory ready.  An idle block of fresh memory is unready as long as no queue has
 * waited until this memory is ready.  Returns FALSE with an error if the queue for fresh memory
 * cannot be looked up. */
static gboolean
give_unready (TarnPool *pool, const TarnRequest *request, GError **error)
{
  TarnQueue *fresh = NULL;
  TarnBin *bin;

  _tarn_assert_not_locked (&pool->lock);
  if (!_tarn_pool_enter_fresh (pool, &fresh, error))
    return FALSE;
  _tarn_mutex_lock (&pool->lock);
  bin = _tarn_bins_get (pool->store.idle_bins, request->number);
  for (TarnBlock *block = bin != NULL ? bin->top : NULL; block != NULL; block = block->below)
    if (block->is_unready)
      _tarn_block_use_fresh (block, fresh);
  if (bin != NULL)
    _tarn_bin_move (pool, bin);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);
  _tarn_pool_leave_queue (pool, fresh);
  return TRUE;
}

/* Asks the driver which events of a request have completed.  Then takes a block whose events have
 * all completed, or else a block for whose events the request's queue can wait.  If there is
 * neither, arranges that events are recorded on other queues, and returns NULL without an error. */
static TarnBlock *
take_after_asking (TarnPool *pool, TarnRequest *request, GError **error)
{
  TarnBlock *block, *busy = NULL;

  query_events (pool, request);
  _tarn_mutex_lock (&pool->lock);
  /* Events of cached blocks may have completed, so let the pool search again for blocks whose
   * events have completed. */
  pool->store.has_done = TRUE;
  block = take_done (pool, request);
  if (block == NULL)
    busy = take_recorded (pool, request, _tarn_block_can_be_awaited);
  if (block != NULL)
    _tarn_pool_clear_request (pool, request);
  else if (busy == NULL)
    _tarn_pool_want_others (pool, request);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_pool_unlock_and_sweep (pool);
  return busy != NULL ? _tarn_pool_move_or_put_back (pool, busy, request, FALSE, error) : block;
}

/* Serves a request from cached blocks that queues may still use: asks the driver which of the
 * blocks' events have completed.  Returns NULL without an error if the request can use no block. */
TarnBlock *
_tarn_pool_take_held (TarnPool *pool, TarnRequest *request, GError **error)
{
  const TarnQueue *queue = request->queue;
  TarnBlock *block = NULL;

  _tarn_assert_not_locked (&pool->lock);
  if ((queue != NULL && !_tarn_allocator_check_queue (pool->upstream->direct, queue->handle, error))
      || (request->finds_unready && !give_unready (pool, request, error)))
    {
      _tarn_pool_count_failure (pool);
      return NULL;
    }
  if (request->finds_unready)
    block = serve_again (pool, request);
  if (block != NULL || request->n_events == 0)
    return block;
  return take_after_asking (pool, request, error);
}
