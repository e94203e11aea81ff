/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Requests that threads' caches do not serve: what can be had at once, and then what the driver has
 * to be asked about. */

#include "base/fork-private.h"
#include "order/order-private.h"
#include "pool/cache-private.h"
#include "upstream/upstream-private.h"

/* About how many events the driver is asked about before a block is taken that has to be waited
 * for.
 */
#define MAX_ASKED 4

/* How many blocks of a bin are looked at, without a call, for one that the request can have. */
#define MAX_SEEN 64

/* Tells whether a request of a queue can have a block.  The lock is held. */
typedef gboolean (*Suits) (const TarnBlock *block, const TarnQueue *queue);

/* Takes the first block of a bin that suits for a request of a queue; NULL: none of the first
 * MAX_SEEN does.  The lock is held. */
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

/* What can be had at once.  The lock is held. */

/* Takes a block that nobody uses for a queue, also from this thread's cache. */
static TarnBlock *
take_idle (TarnPool *pool, TarnCache *cache, const TarnQueue *queue, gsize size, guint32 number)
{
  TarnCacheBin *own = cache != NULL ? _tarn_cache_find_bin (cache, number, NULL) : NULL;

  if (own != NULL && own->top != NULL)
    _tarn_cache_empty_bin (cache, own);
  else if (!_tarn_bins_have (pool->idle_bins, number)
           && !_tarn_pool_take_from_abandoned (pool, number, NULL))
    _tarn_pool_take_from_idle (pool, number, NULL);
  return take_first (pool, _tarn_bins_get (pool->idle_bins, number), size, queue,
                     _tarn_block_is_ready_for);
}

/* Takes a recorded block that a queue need not wait for.  One that another queue has just given up
 * is handed on. */
static TarnBlock *
take_recorded (TarnPool *pool, TarnQueue *queue, gsize size, guint32 number, Suits suits)
{
  TarnBlock *block
      = take_first (pool, _tarn_bins_get (pool->recorded_bins, number), size, queue, suits);

  if (block != NULL && block->n_uses == 1 && block->uses->queue != queue
      && block->uses->event != NULL && !block->uses->event->is_late)
    _tarn_pool_hand_on (pool, number);
  return block;
}

/* Takes a block for a request without any call of the driver: what the queue had before, from the
 * thread's cache or its share, what nobody uses, or what is ready for it.  @queue: NULL for a
 * request that names none; @cache: this thread's, or NULL. */
TarnBlock *
_tarn_pool_take_at_once (TarnPool *pool, TarnCache *cache, TarnQueue *queue, gsize size,
                         guint32 number)
{
  TarnBlock *block = NULL;

  _tarn_assert_locked (&pool->lock);
  if (_tarn_door_is_closed (&pool->door) || _tarn_pool_wants_event (queue))
    cache = NULL; /* it would take more of what others want */
  if (queue == NULL || queue->in_order)
    block = _tarn_pool_take_from_share (pool, cache, queue, number, size);
  if (block != NULL)
    return block;
  if (queue != NULL)
    {
      queue->n_refs++; /* the block's may be the last one */
      block = take_idle (pool, cache, queue, size, number);
    }
  if (block == NULL)
    block = take_recorded (pool, queue, size, number, _tarn_block_is_ready_for);
  if (block != NULL)
    _tarn_block_set_queue (pool, block, queue);
  if (queue != NULL)
    _tarn_queue_unref (pool, queue);
  return block;
}

/* What the driver has to be asked about.  The lock is not held, but for functions that say so. */

typedef struct
{
  gsize size;
  guint32 number;
  TarnQueue *queue; /* a reference of the call's; NULL: the host */
} Request;

/* Counts a request that ended in an error. */
static void
count_failure (TarnPool *pool)
{
  _tarn_mutex_lock (&pool->lock);
  pool->stats.failures++;
  _tarn_mutex_unlock (&pool->lock);
}

/* Takes a block that the request can have at once.  The lock is held. */
static TarnBlock *
take_for (TarnPool *pool, const Request *request)
{
  return _tarn_pool_take_at_once (pool, _tarn_cache_of (_tarn_current_thread, pool), request->queue,
                                  request->size, request->number);
}

/* Lists references on the events that stand between a queue and the first blocks of a bin, with a
 * NULL after those of each block; of neighbours that share them once.  The lock is held. */
static GPtrArray *
list_events (TarnPool *pool, const Request *request)
{
  TarnBin *bin = _tarn_bins_get (pool->recorded_bins, request->number);
  GPtrArray *events = g_ptr_array_new ();
  const TarnEvent *last = NULL;
  guint n_asked = 0;

  _tarn_assert_locked (&pool->lock);
  for (TarnBlock *block = bin != NULL ? bin->top : NULL; block != NULL && n_asked < MAX_ASKED;
       block = block->below)
    {
      if (!_tarn_block_is_recorded (block, request->queue)
          || (block->n_uses == 1 && block->uses->event == last))
        continue;
      last = block->n_uses == 1 ? block->uses->event : NULL;
      n_asked++;
      _tarn_block_add_events (events, block, request->queue);
      g_ptr_array_add (events, NULL);
    }
  return events;
}

/* Asks the driver about listed events until the events of one block are all done. */
static void
query_events (TarnPool *pool, const GPtrArray *events)
{
  TarnAllocator *direct = pool->upstream->direct;
  gboolean are_done = TRUE;

  _tarn_assert_not_locked (&pool->lock);
  for (guint i = 0; i < events->len; i++)
    {
      TarnEvent *event = g_ptr_array_index (events, i);

      if (event == NULL && are_done)
        return;
      if (event == NULL)
        are_done = TRUE;
      else if (are_done && direct->ops.event_is_done (direct->user_data, event->handle))
        g_atomic_int_set (&event->is_done, TRUE);
      else
        are_done = FALSE;
    }
}

/* Drops a list of references, among which are NULLs.  The lock is held. */
static void
unref_events (TarnPool *pool, GPtrArray *events)
{
  _tarn_assert_locked (&pool->lock);
  for (guint i = 0; i < events->len; i++)
    if (g_ptr_array_index (events, i) != NULL)
      _tarn_event_unref (pool, g_ptr_array_index (events, i));
  g_ptr_array_unref (events);
}

/* Gives a block that was just taken or allocated to a request's queue; if the queue cannot be made
 * to wait, the pool holds the block, and NULL comes back with an error. */
static TarnBlock *
move_or_put_back (TarnPool *pool, TarnBlock *block, const Request *request, gboolean may_be_late,
                  GError **error)
{
  if (_tarn_block_move (pool, block, request->queue, may_be_late, error))
    return block;
  _tarn_pool_put_back (pool, block);
  return NULL;
}

/* Tells whether some idle blocks of a size have yet to be made ready for a queue.  The lock is
 * held. */
static gboolean
has_unready (TarnPool *pool, const Request *request)
{
  TarnBin *bin = _tarn_bins_get (pool->idle_bins, request->number);

  for (TarnBlock *block = bin != NULL ? bin->top : NULL; block != NULL; block = block->below)
    if (block->is_unready)
      return request->queue != NULL;
  return FALSE;
}

/* Moves idle blocks of a size that nobody has waited for to the share of the queue that makes them
 * ready. */
static gboolean
give_unready (TarnPool *pool, const Request *request, GError **error)
{
  TarnQueue *fresh = NULL;
  TarnBin *bin;

  if (!_tarn_pool_enter_fresh (pool, &fresh, error))
    return FALSE;
  _tarn_mutex_lock (&pool->lock);
  bin = _tarn_bins_get (pool->idle_bins, request->number);
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

/* Takes a block about which the driver has to be asked, or for which the queue has to wait.  NULL
 * without an error: the pool holds nothing of the kind. */
static TarnBlock *
take_after_asking (TarnPool *pool, const Request *request, GError **error)
{
  TarnBlock *block, *busy = NULL;
  gboolean are_unready;
  GPtrArray *events;

  _tarn_assert_not_locked (&pool->lock);
  _tarn_mutex_lock (&pool->lock);
  are_unready = has_unready (pool, request);
  _tarn_mutex_unlock (&pool->lock);
  if (are_unready && !give_unready (pool, request, error))
    {
      count_failure (pool);
      return NULL;
    }
  _tarn_mutex_lock (&pool->lock);
  events = list_events (pool, request);
  _tarn_mutex_unlock (&pool->lock);
  query_events (pool, events);
  _tarn_mutex_lock (&pool->lock);
  block = take_for (pool, request);
  if (block == NULL)
    busy = take_recorded (pool, request->queue, request->size, request->number,
                          _tarn_block_can_be_awaited);
  unref_events (pool, events);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);
  return busy != NULL ? move_or_put_back (pool, busy, request, FALSE, error) : block;
}

/* Adds the queue that makes fresh memory ready to those that use a block. */
static void
add_use (TarnPool *pool, TarnBlock *block, TarnQueue *fresh)
{
  _tarn_mutex_lock (&pool->lock);
  _tarn_block_add_use (block, fresh);
  _tarn_mutex_unlock (&pool->lock);
}

/* Notes that a block was allocated for nobody, while a queue may be yet to make it ready. */
static void
set_unready (TarnPool *pool, TarnBlock *block)
{
  const TarnAllocator *direct = pool->upstream->direct;

  if (direct->ops.fresh_queue == NULL || direct->ops.fresh_queue (direct->user_data) == NULL)
    return;
  _tarn_mutex_lock (&pool->lock);
  block->is_unready = TRUE;
  _tarn_mutex_unlock (&pool->lock);
}

/* Allocates for a queue what no held block serves, from upstream or, after memory has run out, from
 * what was freed meanwhile; the queue waits for what makes or leaves it ready.  The queue that
 * makes it ready is looked up before there is any memory: memory must not be held as idle because
 * that failed. */
static TarnBlock *
allocate_fresh (TarnPool *pool, const Request *request, gboolean *was_short, GError **error)
{
  TarnQueue *fresh = NULL;
  TarnBlock *block;

  if (request->queue != NULL && !_tarn_pool_enter_fresh (pool, &fresh, error))
    {
      count_failure (pool);
      return NULL;
    }
  block = _tarn_pool_allocate_miss (pool, request->size, request->number, was_short, error);
  if (block != NULL && !block->is_hit && fresh != NULL)
    add_use (pool, block, fresh);
  else if (block != NULL && !block->is_hit && request->queue == NULL)
    set_unready (pool, block);
  if (fresh != NULL)
    _tarn_pool_leave_queue (pool, fresh);
  if (block == NULL || (block->n_uses == 0 && request->queue == NULL))
    return block;
  return move_or_put_back (pool, block, request, !block->is_hit, error);
}

/* Allocates for a request what the pool cannot serve at once. */
static TarnBlock *
allocate_for (TarnPool *pool, const Request *request, GError **error)
{
  GError *local = NULL;
  gboolean others_have, was_short = FALSE;
  TarnBlock *block;

  if (request->queue != NULL
      && !_tarn_allocator_check_queue (pool->upstream->direct, request->queue->handle, error))
    {
      count_failure (pool);
      return NULL;
    }
  block = take_after_asking (pool, request, &local);
  if (block != NULL || local != NULL)
    {
      if (local != NULL)
        g_propagate_error (error, local);
      return block;
    }
  others_have = _tarn_pool_ask_others (pool, request->number, request->queue);
  block = allocate_fresh (pool, request, &was_short, error);
  if (others_have && was_short)
    {
      _tarn_mutex_lock (&pool->lock);
      _tarn_pool_hand_on (pool, request->number);
      _tarn_mutex_unlock (&pool->lock);
    }
  return block;
}

/* Meets a request's queue, and takes a block that it can have at once, if there is one. */
static gboolean
meet_queue (TarnPool *pool, Request *request, gpointer handle, TarnBlock **block, GError **error)
{
  request->queue = _tarn_pool_enter_queue (pool, handle, error);
  if (request->queue == NULL)
    {
      count_failure (pool);
      return FALSE;
    }
  _tarn_mutex_lock (&pool->lock);
  *block = take_for (pool, request);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);
  return TRUE;
}

/* Allocates a block for a queue (@handle NULL: for the host) that could not be had at once.  @queue
 * is a reference, which is dropped; NULL: the pool is yet to meet it. */
TarnBlock *
_tarn_pool_allocate_slowly (TarnPool *pool, gsize size, guint32 number, gpointer handle,
                            TarnQueue *queue, GError **error)
{
  Request request = { size, number, queue };
  TarnBlock *block = NULL;

  _tarn_assert_not_locked (&pool->lock);
  if (handle != NULL && queue == NULL && !meet_queue (pool, &request, handle, &block, error))
    return NULL;
  if (block == NULL)
    block = allocate_for (pool, &request, error);
  _tarn_pool_leave_queue (pool, request.queue);
  return block;
}
