/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Requests in pools that have met queues, and what the caller says of blocks in use. */

#include "base/fork-private.h"
#include "order/order-private.h"
#include "pool/cache-private.h"
#include "upstream/upstream-private.h"

/* About how many blocks of a bin the driver is asked before one is taken that has to be waited for.
 */
#define MAX_ASKED 4

/* How many blocks of a bin are looked at, without a call, for one that the request can have. */
#define MAX_SEEN 64

/* Tells whether a request of a queue can have a block.  The lock is held. */
typedef gboolean (*Suits) (const TarnBlock *block, const TarnQueue *queue);

/* Takes the first block of a bin that suits for a request of a queue; NULL: none of the first
 * MAX_SEEN does.  The lock is held. */
static TarnBlock *
take_first (TarnPool *pool, guint32 number, gsize size, const TarnQueue *queue, Suits suits)
{
  TarnBin *bin = _tarn_pool_get_bin (pool, number);
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

/* Lists references on the events that stand between a queue and the first blocks of a bin, with a
 * NULL after those of each block.  The lock is held. */
static GPtrArray *
list_events (TarnPool *pool, guint32 number, const TarnQueue *queue)
{
  TarnBin *bin = _tarn_pool_get_bin (pool, number);
  GPtrArray *events = g_ptr_array_new ();
  guint n_asked = 0;

  _tarn_assert_locked (&pool->lock);
  for (TarnBlock *block = bin != NULL ? bin->top : NULL; block != NULL && n_asked < MAX_ASKED;
       block = block->below)
    {
      if (!_tarn_block_can_be_awaited (block, queue))
        continue;
      n_asked++;
      _tarn_block_add_events (events, block, queue);
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

/* Gives a block in use to a queue alone (NULL: to nobody), if nobody has to wait for that.  The
 * lock is not held, nor in what follows, but for functions that say so. */
static gboolean
set_queue_if_ready (TarnPool *pool, TarnBlock *block, TarnQueue *queue)
{
  gboolean is_ready;

  _tarn_assert_not_locked (&pool->lock);
  _tarn_mutex_lock (&pool->lock);
  g_assert (queue == NULL || queue->n_refs > 0);
  is_ready = _tarn_block_is_ready_for (block, queue);
  if (is_ready)
    _tarn_block_set_queue (pool, block, queue);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);
  return is_ready;
}

/* Gives a block in use to a queue alone, which waits where it has to; NULL: the host waits, and the
 * block is nobody's.  No other call has the block; the caller has a reference on the queue. */
static gboolean
move_to_queue (TarnPool *pool, TarnBlock *block, TarnQueue *queue, GError **error)
{
  _tarn_assert_not_locked (&pool->lock);
  if (set_queue_if_ready (pool, block, queue))
    return TRUE;
  if (!_tarn_pool_await_uses (pool, block, queue, error))
    return FALSE;
  _tarn_mutex_lock (&pool->lock);
  _tarn_block_set_queue (pool, block, queue);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);
  return TRUE;
}

/* Gives a block that was just taken or allocated to a queue; if the queue cannot be made to wait,
 * the pool holds the block, and NULL comes back with an error. */
static TarnBlock *
move_or_put_back (TarnPool *pool, TarnBlock *block, TarnQueue *queue, GError **error)
{
  if (move_to_queue (pool, block, queue, error))
    return block;
  _tarn_pool_put_back (pool, block);
  return NULL;
}

/* Takes a block that a queue can have without any call of the driver.  The lock is held, and the
 * caller has a reference on the queue. */
static TarnBlock *
take_ready (TarnPool *pool, gsize size, guint32 number, TarnQueue *queue)
{
  TarnBlock *block = take_first (pool, number, size, queue, _tarn_block_is_ready_for);

  _tarn_assert_locked (&pool->lock);
  g_assert (queue == NULL || queue->n_refs > 0);
  if (block != NULL)
    _tarn_block_set_queue (pool, block, queue);
  return block;
}

/* Takes a block for a request without any call of the driver: what the thread's cache or the bins
 * have, or where there is order what is ready for the queue.  NULL: there is none, or the pool has
 * yet to meet the queue, or to become ordered for this request.  @cache is this thread's, and not
 * NULL while the door is open.  The lock is held. */
TarnBlock *
_tarn_pool_take_at_once (TarnPool *pool, TarnCache *cache, gsize size, guint32 number,
                         gpointer handle)
{
  TarnQueue *queue = handle != NULL ? _tarn_pool_look_up_queue (pool, handle) : NULL;
  TarnBlock *block;

  _tarn_assert_locked (&pool->lock);
  if (handle != NULL && queue == NULL)
    return NULL;
  if (pool->is_ordered)
    {
      if (queue != NULL)
        queue->n_refs++;
      block = take_ready (pool, size, number, queue);
      if (queue != NULL)
        _tarn_queue_unref (pool, queue);
      return block;
    }
  if (queue != pool->latest_queue)
    return NULL;
  block = _tarn_pool_take_shared (pool, cache, number, size);
  if (block != NULL && block->n_uses == 0 && queue != NULL)
    _tarn_block_add_use (block, queue);
  return block;
}

/* Takes a block about which the driver has to be asked, or for which the queue has to wait.  NULL
 * without an error: the pool holds nothing of the kind. */
static TarnBlock *
take_after_asking (TarnPool *pool, gsize size, guint32 number, TarnQueue *queue, GError **error)
{
  TarnBlock *block, *busy = NULL;
  GPtrArray *events;

  _tarn_assert_not_locked (&pool->lock);
  _tarn_mutex_lock (&pool->lock);
  events = list_events (pool, number, queue);
  _tarn_mutex_unlock (&pool->lock);
  query_events (pool, events);
  _tarn_mutex_lock (&pool->lock);
  block = take_ready (pool, size, number, queue);
  if (block == NULL)
    busy = take_first (pool, number, size, queue, _tarn_block_can_be_awaited);
  _tarn_pool_unref_events (pool, events);
  _tarn_mutex_unlock (&pool->lock);
  return busy != NULL ? move_or_put_back (pool, busy, queue, error) : block;
}

/* Gets the queue on which the allocator makes memory ready, with a reference; *fresh is NULL if
 * there is no such queue.  That comes before there is any memory: memory must not be held as idle
 * because this failed. */
static gboolean
enter_fresh (TarnPool *pool, TarnQueue **fresh, GError **error)
{
  TarnAllocator *direct = pool->upstream->direct;
  gpointer handle
      = direct->ops.fresh_queue != NULL ? direct->ops.fresh_queue (direct->user_data) : NULL;

  *fresh = handle != NULL ? _tarn_pool_enter_queue (pool, handle, error) : NULL;
  return handle == NULL || *fresh != NULL;
}

/* Adds a queue to those that use a block. */
static void
add_use (TarnPool *pool, TarnBlock *block, TarnQueue *queue)
{
  _tarn_mutex_lock (&pool->lock);
  _tarn_block_add_use (block, queue);
  _tarn_mutex_unlock (&pool->lock);
}

/* Counts a request that ended in an error. */
static void
count_failure (TarnPool *pool)
{
  _tarn_mutex_lock (&pool->lock);
  pool->stats.failures++;
  _tarn_mutex_unlock (&pool->lock);
}

/* Allocates for a queue what no held block serves, from upstream or, after memory has run out, from
 * what was freed meanwhile; the queue waits for what makes or leaves it ready. */
static TarnBlock *
allocate_fresh (TarnPool *pool, gsize size, guint32 number, TarnQueue *queue, GError **error)
{
  TarnQueue *fresh = NULL;
  TarnBlock *block;

  if (queue != NULL && !enter_fresh (pool, &fresh, error))
    {
      count_failure (pool);
      return NULL;
    }
  block = _tarn_pool_allocate_miss (pool, size, number, error);
  if (block != NULL && fresh != NULL && !block->is_hit)
    add_use (pool, block, fresh);
  _tarn_pool_leave_queue (pool, fresh);
  return block != NULL ? move_or_put_back (pool, block, queue, error) : NULL;
}

/* Has the host wait for what uses a block, for a request without a queue in a pool that had met
 * none when the request began: other threads, or reclaim functions, may have freed it meanwhile. */
TarnBlock *
_tarn_pool_move_to_host (TarnPool *pool, TarnBlock *block, GError **error)
{
  if (block->n_uses == 0)
    return block;
  _tarn_mutex_lock (&pool->lock);
  if (!pool->is_ordered)
    _tarn_pool_begin_order (pool);
  _tarn_mutex_unlock (&pool->lock);
  block = move_or_put_back (pool, block, NULL, error);
  _tarn_pool_leave_queue (pool, NULL);
  return block;
}

/* Allocates a block for a queue that the caller has a reference on; NULL: for the host. */
static TarnBlock *
allocate_for (TarnPool *pool, gsize size, guint32 number, TarnQueue *queue, GError **error)
{
  GError *local = NULL;
  TarnBlock *block;

  _tarn_assert_not_locked (&pool->lock);
  _tarn_mutex_lock (&pool->lock);
  if (queue == NULL && !pool->is_ordered)
    _tarn_pool_begin_order (pool);
  block = take_ready (pool, size, number, queue);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);
  if (block != NULL)
    return block;
  if (queue != NULL && !_tarn_allocator_check_queue (pool->upstream->direct, queue->handle, error))
    {
      count_failure (pool);
      return NULL;
    }
  block = take_after_asking (pool, size, number, queue, &local);
  if (block == NULL && local == NULL)
    block = allocate_fresh (pool, size, number, queue, &local);
  if (local != NULL)
    g_propagate_error (error, local);
  return block;
}

/* Allocates a block for a queue; NULL: for the host, in a pool that has met queues. */
TarnBlock *
_tarn_pool_allocate_slowly (TarnPool *pool, gsize size, guint32 bin, gpointer handle,
                            GError **error)
{
  TarnQueue *queue = handle != NULL ? _tarn_pool_enter_queue (pool, handle, error) : NULL;
  TarnBlock *block;

  _tarn_assert_not_locked (&pool->lock);
  if (handle != NULL && queue == NULL)
    {
      count_failure (pool);
      return NULL;
    }
  block = allocate_for (pool, size, bin, queue, error);
  _tarn_pool_leave_queue (pool, queue);
  return block;
}

/* What the caller says of a block in use */

/* Tells whether a block's uses have a queue.  The lock is held. */
static gboolean
is_used_by (const TarnBlock *block, const TarnQueue *queue)
{
  for (guint i = 0; i < block->n_uses; i++)
    if (block->uses[i].queue == queue)
      return TRUE;
  return FALSE;
}

/* Adds a queue to those that use a block of a pool. */
gboolean
_tarn_pool_record_use (TarnBlock *block, gpointer handle, GError **error)
{
  TarnPool *pool = _tarn_pool_of (block->source);
  TarnQueue *queue = _tarn_pool_enter_queue (pool, handle, error);

  if (queue == NULL)
    return FALSE;
  _tarn_mutex_lock (&pool->lock);
  if (!is_used_by (block, queue))
    _tarn_block_add_use (block, queue);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);
  _tarn_pool_leave_queue (pool, queue);
  return TRUE;
}

/* Gives a block of a pool to a queue alone; NULL: the host waits, and the block is nobody's. */
gboolean
_tarn_pool_move_to_queue (TarnBlock *block, gpointer handle, GError **error)
{
  TarnPool *pool = _tarn_pool_of (block->source);
  TarnQueue *queue = handle != NULL ? _tarn_pool_enter_queue (pool, handle, error) : NULL;
  gboolean is_moved;

  if (handle != NULL && queue == NULL)
    return FALSE;
  is_moved = move_to_queue (pool, block, queue, error);
  if (!is_moved)
    _tarn_pool_drop_events (pool, block);
  _tarn_pool_leave_queue (pool, queue);
  return is_moved;
}
