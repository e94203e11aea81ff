/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Serves requests from held blocks: first from those that are ready at once, then from those for
 * which the driver has to be asked whether their events have completed.  Recorded blocks are held
 * blocks whose uses have events; they are in the recorded bins. */

#include "order/order-private.h"
#include "pool/cache-private.h"
#include "upstream/upstream-private.h"

/* The most blocks of a bin that a request looks at to find one that it can use now, or after a
 * wait. */
#define MAX_SEEN 64

/* A condition: returns TRUE if a block suits a request of a queue.  The caller holds the pool's
 * lock. */
typedef gboolean (*Suits) (const TarnBlock *block, const TarnQueue *queue);

/* Takes the first block of a bin that suits a request of a queue.  Returns NULL if none of the
 * first MAX_SEEN blocks suits.  The caller holds the pool's lock. */
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

/* Blocks that a request can use at once.  Callers of the functions below hold the pool's lock. */

/* Takes a block that no queue uses for a request's queue.  First moves blocks to the idle bin: from
 * this thread's cache; or else from blocks handed over between threads; or else, if the bin is
 * empty, from caches of ended or idle threads. */
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

/* Takes a recorded block that suits a request.  If the block comes from another queue and its event
 * is timely (recorded at the free), makes the next frees of its size record events, too.  If its
 * event is late (recorded after the free, on request), requests an event on one more queue if
 * needed. */
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

/* Takes a recorded block for which the request's queue need not wait, and makes that queue the
 * block's only user. */
static TarnBlock *
take_done (TarnPool *pool, TarnRequest *request)
{
  TarnBlock *block = take_recorded (pool, request, _tarn_block_is_ready_for);

  if (block != NULL)
    _tarn_block_set_queue (pool, block, request->queue);
  return block;
}

/* Takes a block for a request without a call of the driver: from the thread's cache or the queue's
 * share; or else an idle block; or else a block whose events have completed.  @cache: this thread's
 * cache, or NULL. */
static TarnBlock *
take_ready (TarnPool *pool, TarnCache *cache, TarnRequest *request)
{
  TarnQueue *queue = request->queue;
  TarnBlock *block = NULL;

  _tarn_assert_locked (&pool->lock);
  if (_tarn_door_is_closed (&pool->door) || _tarn_pool_wants_event (pool, queue))
    cache = NULL; /* leave these blocks to the queues that want them */
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

/* Blocks that a request may use after a wait.  Callers of the functions below hold the pool's
 * lock. */

/* Returns TRUE if an event is already in a request's list of events to ask the driver about. */
static gboolean
asks_about (const TarnRequest *request, const TarnEvent *event)
{
  for (guint i = 0; i < request->n_events; i++)
    if (request->events[i] == event)
      return TRUE;
  return FALSE;
}

/* Adds to a request the events to ask the driver about: those of some of the topmost MAX_SEEN
 * recorded blocks, an event that blocks share only once.  Takes alternately the lowest of these
 * blocks, which were recorded first, and the topmost.  The lowest are usually done first, if the
 * host runs ahead of the queues.  But if a few of the lowest have long work, the request must still
 * find the idle blocks above them. */
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

/* Drops a request's references to those events about which it asks the driver. */
static void
clear_events (TarnPool *pool, TarnRequest *request)
{
  _tarn_assert_locked (&pool->lock);
  for (guint i = 0; i < request->n_events; i++)
    if (request->events[i] != NULL)
      _tarn_event_unref (pool, request->events[i]);
  request->n_events = 0;
}

/* Drops a request's references to its events and to its queue.  Keeps its references to the other
 * queues on which it wants events; _tarn_pool_end_wants () drops those. */
void
_tarn_pool_clear_request (TarnPool *pool, TarnRequest *request)
{
  _tarn_assert_locked (&pool->lock);
  clear_events (pool, request);
  if (request->queue != NULL)
    _tarn_queue_unref (pool, g_steal_pointer (&request->queue));
}

/* Serves a request of the host, or of a queue that the pool knows, from a block that is ready, and
 * clears the request.  If no block is ready, adds to the request the events to ask the driver
 * about.  If there are no such events, and no idle blocks of the size are left either, requests
 * events on other queues.  (Idle blocks that are left are those that no queue has made ready.)  The
 * caller holds the pool's lock. */
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

/* Blocks about which the driver has to be asked.  Callers of the functions below do not hold the
 * pool's lock. */

/* Tries again to serve a request at once.  If no block is ready, replaces the request's events by
 * the current ones. */
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
  _tarn_mutex_lock (&pool->lock);
  pool->stats.failures++;
  _tarn_mutex_unlock (&pool->lock);
}

/* Makes a request's queue the only user of a block that the caller has just taken or allocated.  If
 * the wait for the block's former users fails, puts the block back into the pool, and returns NULL
 * with an error. */
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

/* Asks the driver which of a request's events have completed.  Stops at the first block whose
 * events all have. */
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
      else if (are_done && _tarn_call (direct, event_is_done, event->handle))
        g_atomic_int_set (&event->is_done, TRUE);
      else
        are_done = FALSE;
    }
}

/* Moves the unready idle blocks of a request's size to the share of the queue on which the backend
 * makes fresh memory ready.  Returns FALSE with an error if that queue cannot be looked up. */
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

/* Asks the driver about recorded blocks.  Takes a block whose events have completed, or else one
 * for whose events the request's queue can wait.  If there is neither, requests events on other
 * queues, and returns NULL without an error. */
static TarnBlock *
take_after_asking (TarnPool *pool, TarnRequest *request, GError **error)
{
  TarnBlock *block, *busy = NULL;

  query_events (pool, request);
  _tarn_mutex_lock (&pool->lock);
  pool->store.has_done = TRUE; /* some events may have completed */
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

/* Serves a request from held blocks, and asks the driver as needed whether they are idle.  Returns
 * NULL without an error if no block suits. */
TarnBlock *
_tarn_pool_take_held (TarnPool *pool, TarnRequest *request, GError **error)
{
  TarnBlock *block;

  _tarn_assert_not_locked (&pool->lock);
  if (request->queue != NULL
      && !_tarn_allocator_check_queue (pool->upstream->direct, request->queue->handle, error))
    {
      _tarn_pool_count_failure (pool);
      return NULL;
    }
  if (request->finds_unready)
    {
      if (!give_unready (pool, request, error))
        {
          _tarn_pool_count_failure (pool);
          return NULL;
        }
      block = serve_again (pool, request);
      if (block != NULL)
        return block;
    }
  return request->n_events > 0 ? take_after_asking (pool, request, error) : NULL;
}
