/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The table of the queues that a pool knows.  A queue stays in the table as long as a block or a
 * running call has a reference to it.  If the backend does not keep queues alive, a queue without
 * references stays in the table for a while.  The reason is that a queue is often without
 * references for a short time only, while its memory is handed over from queue to queue. */

#include "base/duty-private.h"
#include "base/fork-private.h"
#include "common/argument-private.h"
#include "order/order-private.h"
#include "pool/cache-private.h"
#include "record/record-private.h"
#include "upstream/upstream-private.h"

/* If the pool's table has this many queues without references, the pool removes all of them when it
 * adds a new queue. */
#define MAX_UNUSED 64

/* Functions whose callers hold the pool's lock */

/* Takes a reference to a queue that is in the pool's table. */
static TarnQueue *
queue_ref (TarnPool *pool, TarnQueue *queue)
{
  _tarn_assert_locked (&pool->lock);
  g_assert (queue->is_known);
  if (queue->n_refs++ == 0)
    pool->queues.n_unused--;
  return queue;
}

/* Finds a queue in the pool's table by its handle.  Returns NULL if the table does not have it. */
static TarnQueue *
look_up (TarnPool *pool, gpointer handle)
{
  _tarn_assert_locked (&pool->lock);
  if (pool->queues.latest == NULL || pool->queues.latest->handle != handle)
    {
      TarnQueue *queue = g_hash_table_lookup (pool->queues.table, handle);

      if (queue == NULL)
        return NULL;
      pool->queues.latest = queue;
    }
  return pool->queues.latest;
}

/* Finds a queue in the pool's table by its handle, and takes a reference.  Returns NULL if the
 * table does not have it. */
TarnQueue *
_tarn_pool_find_queue (TarnPool *pool, gpointer handle)
{
  TarnQueue *queue = look_up (pool, handle);

  _tarn_assert_locked (&pool->lock);
  return queue != NULL ? queue_ref (pool, queue) : NULL;
}

/* Sets or clears has_unrecorded, a flag of a queue.  It is TRUE if the pool could not record an
 * event on the queue when some of the queue's cached blocks were freed.  Also adds the queue to the
 * pool's list of such queues, or removes it from the list. */
void
_tarn_queue_set_unrecorded (TarnPool *pool, TarnQueue *queue, gboolean has_unrecorded)
{
  _tarn_assert_locked (&pool->lock);
  has_unrecorded = has_unrecorded && queue->is_known;
  if (has_unrecorded && !queue->has_unrecorded)
    g_queue_push_tail_link (&pool->queues.unrecorded, &queue->unrecorded_link);
  else if (!has_unrecorded && queue->has_unrecorded)
    g_queue_unlink (&pool->queues.unrecorded, &queue->unrecorded_link);
  queue->has_unrecorded = has_unrecorded;
}

/* Marks a queue as one on which this thread is recording an event.  Call this while the pool's lock
 * is held, then release the lock, record the event, and call _tarn_queue_end_recording ().  A
 * thread that makes the pool forget the queue waits until the recording has ended, because the
 * program may destroy the queue as soon as the pool has forgotten it.  The caller has a reference
 * to the queue, and the queue is alive. */
void
_tarn_queue_begin_recording (TarnPool *pool, TarnQueue *queue)
{
  _tarn_assert_locked (&pool->lock);
  g_assert (queue->n_refs > 0);
  queue->n_recording++;
  _tarn_duty_begin (pool->base.level, TARN_DUTY_RECORD);
}

void
_tarn_queue_end_recording (TarnPool *pool, TarnQueue *queue)
{
  _tarn_assert_locked (&pool->lock);
  g_assert (queue->n_recording > 0);
  _tarn_duty_end (pool->base.level, TARN_DUTY_RECORD);
  if (--queue->n_recording == 0 && !queue->is_known)
    _tarn_cond_broadcast (&pool->queues.recording_ended);
}

/* Removes a queue from the pool's table.  If a call later names a queue with the same handle, the
 * pool treats it as a new queue. */
static void
make_unknown (TarnPool *pool, TarnQueue *queue)
{
  _tarn_assert_locked (&pool->lock);
  if (!queue->is_known)
    return;
  _tarn_queue_set_unrecorded (pool, queue, FALSE);
  queue->is_known = FALSE;
  g_hash_table_remove (pool->queues.table, queue->handle);
  if (pool->queues.latest == queue)
    pool->queues.latest = NULL;
}

/* Adds an unreferenced queue to a list.  The next call of _tarn_pool_unlock_and_sweep () frees the
 * structs of the queues on this list, and releases the references to these queues in the
 * backend. */
static void
leave_to_sweep (TarnPool *pool, TarnQueue *queue)
{
  _tarn_assert_locked (&pool->lock);
  queue->next = pool->queues.gone;
  pool->queues.gone = queue;
}

/* Drops a reference to a queue.  If this was the last reference, and the backend keeps queues
 * alive, removes the queue from the pool's table.  If the backend does not keep queues alive, the
 * queue stays in the table for a while.  An unreferenced queue has no cached blocks, because each
 * block in its free lists has a reference to the queue. */
void
_tarn_queue_unref (TarnPool *pool, TarnQueue *queue)
{
  _tarn_assert_locked (&pool->lock);
  g_assert (queue->n_refs > 0);
  if (--queue->n_refs > 0)
    return;
  if (queue->is_known && !_tarn_pool_keeps_queues_alive (pool))
    {
      queue->is_wanted = FALSE;
      _tarn_queue_set_unrecorded (pool, queue, FALSE);
      _tarn_bins_free (g_steal_pointer (&queue->bins));
      pool->queues.n_unused++;
      return;
    }
  /* Frees the bins here, where this thread holds the lock, and not together with the queue's
   * struct: _tarn_pool_unlock_and_sweep () frees the struct without the lock. */
  _tarn_bins_free (g_steal_pointer (&queue->bins));
  make_unknown (pool, queue);
  leave_to_sweep (pool, queue);
}

/* Drops the references in the array TarnQueues.released.  These are references to queues whose
 * arenas were removed from the pool's table of arenas. */
void
_tarn_pool_drop_released_queues (TarnPool *pool)
{
  while (pool->queues.released->len > 0)
    _tarn_queue_unref (pool, g_ptr_array_steal_index_fast (pool->queues.released, 0));
}

/* Removes unreferenced queues from the pool's table. */
void
_tarn_pool_drop_unused_queues (TarnPool *pool)
{
  GHashTableIter iter;
  gpointer item;

  _tarn_assert_locked (&pool->lock);
  _tarn_pool_drop_released_queues (pool);
  pool->queues.latest = NULL;
  g_hash_table_iter_init (&iter, pool->queues.table);
  while (pool->queues.n_unused > 0 && g_hash_table_iter_next (&iter, NULL, &item))
    {
      TarnQueue *queue = item;

      if (queue->n_refs > 0)
        continue;
      queue->is_known = FALSE;
      g_hash_table_iter_remove (&iter);
      leave_to_sweep (pool, queue);
      pool->queues.n_unused--;
    }
}

/* Makes the struct of a queue.  The caller has taken a reference to the queue in the backend; the
 * struct now owns this reference. */
static TarnQueue *
queue_new (gpointer handle, gboolean in_order)
{
  TarnQueue *queue = g_new (TarnQueue, 1);

  *queue = (TarnQueue){ .handle = handle, .in_order = in_order };
  queue->unrecorded_link.data = queue;
  return queue;
}

/* Adds a queue to the pool's table and returns it, with a reference for the caller.  The caller has
 * taken a reference to the queue in the backend, and this function takes it over.  Another thread
 * may have added the queue after the caller last looked into the table.  Then the table keeps that
 * thread's reference, and the next _tarn_pool_unlock_and_sweep () releases the caller's reference
 * in the backend. */
TarnQueue *
_tarn_pool_meet_queue (TarnPool *pool, gpointer handle, gboolean in_order)
{
  TarnQueue *queue = _tarn_pool_find_queue (pool, handle);

  _tarn_assert_locked (&pool->lock);
  if (queue != NULL)
    {
      leave_to_sweep (pool, queue_new (handle, in_order));
      return queue;
    }
  if (pool->queues.n_unused >= MAX_UNUSED)
    _tarn_pool_drop_unused_queues (pool);
  queue = queue_new (handle, in_order);
  queue->n_refs = 1;
  queue->is_known = TRUE;
  g_hash_table_insert (pool->queues.table, handle, queue);
  return queue;
}

/* Functions whose callers do not hold the pool's lock */

/* Returns the queue with the given handle, with a reference.  Adds the queue to the pool's table if
 * the table does not have it yet.  Returns NULL with an error if the backend refuses the queue. */
TarnQueue *
_tarn_pool_enter_queue (TarnPool *pool, gpointer handle, GError **error)
{
  gboolean in_order;
  TarnQueue *queue;

  _tarn_mutex_lock (&pool->lock);
  queue = _tarn_pool_find_queue (pool, handle);
  _tarn_mutex_unlock (&pool->lock);
  if (queue != NULL
      || !_tarn_allocator_ref_queue (pool->upstream->direct, handle, &in_order, error))
    return queue;
  _tarn_mutex_lock (&pool->lock);
  queue = _tarn_pool_meet_queue (pool, handle, in_order);
  _tarn_pool_unlock_and_sweep (pool);
  return queue;
}

/* Returns the handle of the queue on which the backend makes fresh memory ready, or NULL if there
 * is none.  A pool over a heap has none, because a heap's memory is ready at once. */
gpointer
_tarn_pool_get_fresh_queue (const TarnPool *pool)
{
  return pool->heap != NULL ? NULL : _tarn_allocator_get_fresh_queue (pool->upstream->direct);
}

/* Sets *fresh to the queue on which the backend makes fresh memory ready, with a reference, or to
 * NULL if there is no such queue.  Returns FALSE with an error if the queue cannot be looked up. */
gboolean
_tarn_pool_enter_fresh (TarnPool *pool, TarnQueue **fresh, GError **error)
{
  gpointer handle = _tarn_pool_get_fresh_queue (pool);

  *fresh = handle != NULL ? _tarn_pool_enter_queue (pool, handle, error) : NULL;
  return handle == NULL || *fresh != NULL;
}

/* Drops the caller's reference to a queue.  @queue may be NULL. */
void
_tarn_pool_leave_queue (TarnPool *pool, TarnQueue *queue)
{
  _tarn_mutex_lock (&pool->lock);
  if (queue != NULL)
    _tarn_queue_unref (pool, queue);
  _tarn_pool_unlock_and_sweep (pool);
}

/* Functions that make a pool forget a queue. */

/* Sets @event as the event after which @queue does not use @block any more, if the queue uses the
 * block.  The event is the queue's last one, because the pool is forgetting the queue. */
static void
share_last_event (TarnPool *pool, TarnBlock *block, const TarnQueue *queue, TarnEvent *event)
{
  _tarn_block_share_event (pool, block, queue, event);
  _tarn_block_update_share (block);
}

/* Moves all blocks of the queue's share (its free lists) to the recorded bins (the free lists of
 * blocks with events).  Sets the event of each block to @event, the queue's last event.  Returns
 * the number of blocks. */
static guint
record_own (TarnPool *pool, TarnQueue *queue, TarnEvent *event)
{
  GHashTableIter iter;
  gpointer bin;
  guint n = 0;

  _tarn_assert_locked (&pool->lock);
  if (queue->bins == NULL)
    return 0;
  g_hash_table_iter_init (&iter, queue->bins->table);
  while (g_hash_table_iter_next (&iter, NULL, &bin))
    for (TarnBlock *block = ((TarnBin *) bin)->top; block != NULL; block = block->below, n++)
      share_last_event (pool, block, queue, event);
  _tarn_bins_move (pool, queue->bins);
  return n;
}

/* Returns TRUE if @queue uses a block, and the event of this use is not @event, the queue's last
 * event. */
static gboolean
is_used_still (const TarnBlock *block, const TarnQueue *queue, const TarnEvent *event)
{
  for (guint i = 0; i < block->n_uses; i++)
    if (block->uses[i].queue == queue)
      return block->uses[i].event != event;
  return FALSE;
}

/* Makes a pool forget a queue.  @event covers all commands that were put on the queue.  Sets this
 * event in all blocks that the queue uses, and moves the blocks of the queue's share (free lists)
 * to the recorded bins, the free lists of blocks with events.
 *
 * The queue may also use blocks that are not in its share, but usually uses none.  The queue's
 * number of references tells how many there are: the caller has one reference, and each use of a
 * block by the queue has one.  The search for these blocks ends when it has found that many. */
static void
forget (TarnPool *pool, TarnQueue *queue, TarnEvent *event)
{
  gboolean was_open;
  guint n_left;

  _tarn_assert_locked (&pool->lock);
  g_assert (queue->n_refs > 0);
  /* Let no thread begin a read section, because threads read TarnBlock.share there without the
   * lock. */
  was_open = _tarn_pool_close (pool);
  _tarn_pool_drop_met (pool, queue->handle);
  _tarn_pool_empty_bins_of_queue (pool, queue->handle);
  n_left = queue->n_refs - 1 - record_own (pool, queue, event);
  for (TarnBlock *block = _tarn_block_chunks_next (&pool->blocks.chunks, NULL);
       block != NULL && n_left > 0; block = _tarn_block_chunks_next (&pool->blocks.chunks, block))
    if (is_used_still (block, queue, event))
      {
        share_last_event (pool, block, queue, event);
        n_left--;
      }
  make_unknown (pool, queue);
  _tarn_pool_open (pool, was_open);
}

/* Returns the blocks in a queue's share (free lists) to the heap, if the heap still knows the
 * queue.  The heap makes other queues wait for the queue's commands before they get this memory. */
static void
give_back_share (TarnPool *pool, TarnQueue *queue)
{
  TarnBlock *blocks = NULL;

  _tarn_assert_not_locked (&pool->lock);
  _tarn_mutex_lock (&pool->lock);
  _tarn_pool_empty_bins_of_queue (pool, queue->handle);
  if (_tarn_pool_heap_knows (pool, queue))
    blocks = _tarn_pool_take_share (pool, queue->bins);
  _tarn_pool_unlock_and_give_back (pool, blocks, FALSE);
}

/* Returns TRUE if no thread is recording an event on a queue, or if this thread may wait until the
 * recording has ended (base/duty-private.h).  Otherwise returns FALSE with an error.  The caller
 * holds the pool's lock. */
static gboolean
can_await_recording (TarnPool *pool, const TarnQueue *queue, GError **error)
{
  _tarn_assert_locked (&pool->lock);
  if (queue->n_recording == 0 || _tarn_may_await (pool->base.level, TARN_DUTY_RECORD))
    return TRUE;
  g_set_error (
      error, TARN_ERROR, TARN_ERROR_RECURSION,
      "%s: a queue cannot be forgotten from inside a function of the backend while an event "
      "is being recorded on it",
      pool->base.label);
  return FALSE;
}

/* Makes a pool forget a queue, and then waits until no other thread is recording an event on the
 * queue.  @event covers all commands that were put on the queue; this function drops the caller's
 * reference to the event.  If this thread must not wait for other threads, the pool does not forget
 * the queue, and the function returns FALSE with an error. */
static gboolean
forget_and_wait (TarnPool *pool, TarnQueue *queue, TarnEvent *event, GError **error)
{
  gboolean can_forget;

  _tarn_mutex_lock (&pool->lock);
  can_forget = can_await_recording (pool, queue, error);
  if (can_forget)
    forget (pool, queue, event);
  _tarn_event_unref (pool, event);
  while (can_forget && queue->n_recording > 0)
    _tarn_cond_wait (&pool->queues.recording_ended, &pool->lock);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);
  return can_forget;
}

/* Makes a pool forget a queue.  If the pool is over a heap, first returns the queue's memory to the
 * heap.  The heap must still know the queue then, so the caller makes the heap forget the queue
 * only after this function.  If blocks still refer to the queue, records a last event on the queue.
 * The program keeps the queue alive until this function returns, because other threads may be
 * recording events on the queue.  Returns FALSE with an error if the event cannot be recorded, or
 * if this thread must not wait for other threads. */
static gboolean
forget_in_pool (TarnPool *pool, TarnQueue *queue, GError **error)
{
  gboolean is_used, can_forget;
  gpointer handle;

  _tarn_assert_not_locked (&pool->lock);
  if (pool->heap != NULL)
    {
      _tarn_mutex_lock (&pool->lock);
      _tarn_pool_drop_met (pool, queue->handle);
      _tarn_pool_unlock_and_sweep (pool);
      give_back_share (pool, queue);
    }
  _tarn_mutex_lock (&pool->lock);
  /* Another thread may have added the queue's arenas to the table after this thread removed them
   * above and released the lock, so remove them a second time. */
  _tarn_pool_drop_met (pool, queue->handle);
  is_used = queue->n_refs > 1;
  if (!is_used)
    make_unknown (pool, queue);
  can_forget = !is_used || can_await_recording (pool, queue, error);
  _tarn_mutex_unlock (&pool->lock);
  if (!is_used || !can_forget)
    return can_forget;
  handle = _tarn_allocator_record_event (pool->upstream->direct, queue->handle, TRUE, error);
  return handle != NULL && forget_and_wait (pool, queue, _tarn_event_new (handle, TRUE), error);
}

/* Makes a pool forget the queue with the given handle, if the pool's table has it.  Then returns
 * cached blocks to upstream if they exceed the pool's bound. */
static gboolean
forget_handle (TarnPool *pool, gpointer handle, GError **error)
{
  gboolean is_forgotten;
  TarnQueue *queue;

  _tarn_mutex_lock (&pool->lock);
  queue = _tarn_pool_find_queue (pool, handle);
  _tarn_mutex_unlock (&pool->lock);
  if (queue == NULL)
    return TRUE;
  is_forgotten = forget_in_pool (pool, queue, error);
  _tarn_pool_leave_queue (pool, queue);
  if (is_forgotten && _tarn_pool_get_hold_bound (pool) != G_MAXSIZE)
    _tarn_pool_give_back_excess (pool);
  return is_forgotten;
}

gboolean
tarn_pool_forget_queue (TarnPool *pool, gpointer queue, GError **error)
{
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (pool, FALSE);
  TARN_REFUSE_NULL (queue, FALSE);

  if (_tarn_forked ())
    return TRUE;
  TARN_EVENT (forget, TARN_TRACE_FORGET, pool->base.id, GPOINTER_TO_SIZE (queue));
  return forget_handle (pool, queue, error)
         && (pool->heap == NULL || _tarn_heap_forget_queue (pool->heap, queue, error));
}
