/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Counts the references to the events of pools, and records events on the queues that use
 * blocks. */

#include "order/order-private.h"

/* Functions that count references to events.  Their callers hold the pool's lock.  When the last
 * reference to an event or a queue is dropped, the event or queue is put on a list.  The next call
 * of _tarn_pool_unlock_and_sweep () releases the lock, and then frees the events and queues on the
 * list. */

/* Makes a TarnEvent with one reference.  @handle is the backend's event.  If @handle is NULL, the
 * caller is going to record the backend's event, and then sets TarnEvent.handle.  @is_late is TRUE
 * if a block may already be free when its event is recorded.  Such an event may also cover commands
 * that the queue got after the free. */
TarnEvent *
_tarn_event_new (gpointer handle, gboolean is_late)
{
  /* Does not call g_new0 (), because calloc () is slower here: it does not use malloc's cache of
   * freed memory. */
  TarnEvent *event = g_new (TarnEvent, 1);

  *event = (TarnEvent){ .handle = handle, .n_refs = 1, .is_late = is_late };
  return event;
}

TarnEvent *
_tarn_event_ref (TarnEvent *event)
{
  g_assert (event->n_refs > 0);
  event->n_refs++;
  return event;
}

/* Drops a reference to an event.  When the last reference is dropped, the next call of
 * _tarn_pool_unlock_and_sweep () releases the event. */
void
_tarn_event_unref (TarnPool *pool, TarnEvent *event)
{
  _tarn_assert_locked (&pool->lock);
  g_assert (event->n_refs > 0);
  if (--event->n_refs > 0)
    return;
  event->next = pool->queues.gone_events;
  pool->queues.gone_events = event;
}

static void
release_events (TarnAllocator *direct, TarnEvent *events)
{
  TarnEvent *event;

  while ((event = events) != NULL)
    {
      events = event->next;
      if (event->handle != NULL)
        _tarn_call_queue (direct, event_release, event->handle);
      g_free (event);
    }
}

static void
release_queues (TarnAllocator *direct, TarnQueue *queues)
{
  TarnQueue *queue;

  while ((queue = queues) != NULL)
    {
      queues = queue->next;
      _tarn_allocator_unref_queue (direct, queue->handle);
      g_assert (queue->bins == NULL);
      g_free (queue);
    }
}

/* Releases the pool's lock, and then releases in the driver the events and queues whose last
 * reference was dropped. */
void
_tarn_pool_unlock_and_sweep (TarnPool *pool)
{
  TarnAllocator *direct = pool->upstream->direct;
  TarnEvent *events;
  TarnQueue *queues;

  _tarn_pool_drop_released_queues (pool);
  events = g_steal_pointer (&pool->queues.gone_events);
  queues = g_steal_pointer (&pool->queues.gone);
  _tarn_mutex_unlock (&pool->lock);
  release_events (direct, events);
  release_queues (direct, queues);
}

/* Functions for uses of blocks: a use has a queue that may use the block, and possibly an event
 * after which the queue does not use the block any more.  The callers hold the pool's lock. */

/* Returns TRUE if an event was recorded for a use of a block. */
gboolean
_tarn_use_has_event (const TarnUse *use)
{
  return use->event != NULL && g_atomic_pointer_get (&use->event->handle) != NULL;
}

void
_tarn_use_clear_event (TarnPool *pool, TarnUse *use)
{
  _tarn_assert_locked (&pool->lock);
  if (use->event != NULL)
    _tarn_event_unref (pool, g_steal_pointer (&use->event));
}

/* Returns TRUE if @use, the use of @block by a queue, needs an event.  A use without an event needs
 * one.  A use whose event is not recorded yet needs another event if the block is cached, because
 * recording may still fail.  If the block is still being freed, the use must keep its event,
 * because the free is recording this event without the lock. */
static gboolean
needs_event (const TarnBlock *block, const TarnUse *use)
{
  return use->event == NULL || (block->state == TARN_BLOCK_HELD && !_tarn_use_has_event (use));
}

/* Sets @event as the event after which @queue does not use @block any more.  Does nothing if the
 * queue does not use the block, or if this use needs no event (needs_event ()). */
void
_tarn_block_share_event (TarnPool *pool, TarnBlock *block, const TarnQueue *queue, TarnEvent *event)
{
  _tarn_assert_locked (&pool->lock);
  for (guint i = 0; i < block->n_uses; i++)
    if (block->uses[i].queue == queue && needs_event (block, &block->uses[i]))
      {
        _tarn_use_clear_event (pool, &block->uses[i]);
        block->uses[i].event = _tarn_event_ref (event);
      }
}

/* Functions that record events.  Their callers do not hold the pool's lock, unless a function's
 * comment says that they do. */

/* Logs @error: no event could be recorded on a queue, so only this queue can reuse the memory that
 * it has used.  Does not log two errors that are expected: the backend has no events on this queue,
 * or the context is lost. */
void
_tarn_pool_report_unrecorded (const TarnPool *pool, const GError *error)
{
  if (!g_error_matches (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED)
      && !g_error_matches (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST))
    g_message ("%s: %s: memory can be used again on its own queue only", pool->base.label,
               error->message);
}

/* Sets the event of a use of a block to the backend's event @handle.  The event is late: it was not
 * recorded by the block's free.  While this thread recorded the event, another thread may have made
 * the pool forget the queue, and so have given the use an event.  In this case, keeps that event,
 * and drops the new one. */
static void
set_event (TarnPool *pool, TarnBlock *block, TarnUse *use, gpointer handle)
{
  TarnEvent *event = _tarn_event_new (handle, TRUE);
  TARN_LOCKED (&pool->lock);

  if (!_tarn_use_has_event (use))
    {
      _tarn_use_clear_event (pool, use);
      use->event = _tarn_event_ref (event);
    }
  _tarn_event_unref (pool, event);
  _tarn_block_update_share (block);
}

/* If a use of a block has no event, records one on the use's queue.  The event counts as late,
 * because it may cover commands after the block's free.  The caller makes sure that no other thread
 * works on the block.  If @is_named is TRUE, the caller guarantees that the queue is alive.  If
 * @is_named is FALSE, and the backend cannot keep queues alive, the backend records the event on
 * all its queues.  Returns FALSE with an error if the event cannot be recorded. */
gboolean
_tarn_block_record_use (TarnPool *pool, TarnBlock *block, TarnUse *use, gboolean is_named,
                        GError **error)
{
  TarnQueue *queue = use->queue;
  gboolean has_event;
  gpointer handle;

  _tarn_assert_not_locked (&pool->lock);
  _tarn_mutex_lock (&pool->lock);
  has_event = _tarn_use_has_event (use);
  if (!has_event && is_named)
    _tarn_queue_begin_recording (pool, queue);
  _tarn_mutex_unlock (&pool->lock);
  if (has_event)
    return TRUE;
  handle = _tarn_allocator_record_event (pool->upstream->direct, queue->handle, is_named, error);
  if (handle != NULL)
    set_event (pool, block, use, handle);
  if (!is_named)
    return handle != NULL;
  _tarn_mutex_lock (&pool->lock);
  _tarn_queue_end_recording (pool, queue);
  _tarn_mutex_unlock (&pool->lock);
  return handle != NULL;
}

/* Records the event of one use of a block that is being freed.  The caller has called
 * _tarn_queue_begin_recording () for the use's queue, and this function calls
 * _tarn_queue_end_recording ().  The function logs an error only after that call.  Until that call,
 * another thread may be waiting to make the pool forget the queue, and that thread must not also
 * wait for the program's message handler. */
static void
record_timely (TarnPool *pool, TarnUse *use)
{
  g_autoptr (GError) error = NULL;
  gpointer handle
      = _tarn_allocator_record_event (pool->upstream->direct, use->queue->handle, TRUE, &error);

  if (handle != NULL)
    g_atomic_pointer_set (&use->event->handle, handle);
  _tarn_mutex_lock (&pool->lock);
  _tarn_queue_end_recording (pool, use->queue);
  _tarn_mutex_unlock (&pool->lock);
  if (handle == NULL)
    _tarn_pool_report_unrecorded (pool, error);
}

/* Records an event on each queue that uses a block which is being freed.  Skips queues that the
 * pool has forgotten, because their uses of the block have events already.  The program that frees
 * the block guarantees that the other queues are alive.  If no event can be recorded on a queue,
 * the use of the block by this queue has no event afterwards.  The caller holds the pool's lock;
 * this function releases the lock while it records, and takes it again. */
void
_tarn_block_record_free (TarnPool *pool, TarnBlock *block)
{
  _tarn_assert_locked (&pool->lock);
  g_assert (block->state == TARN_BLOCK_ENDING);
  for (guint i = 0; i < block->n_uses; i++)
    {
      if (block->uses[i].event == NULL)
        block->uses[i].event = _tarn_event_new (NULL, FALSE);
      if (!_tarn_use_has_event (&block->uses[i]))
        _tarn_queue_begin_recording (pool, block->uses[i].queue);
    }
  _tarn_block_update_share (block);
  _tarn_mutex_unlock (&pool->lock);

  for (guint i = 0; i < block->n_uses; i++)
    if (!_tarn_use_has_event (&block->uses[i]))
      record_timely (pool, &block->uses[i]);

  _tarn_mutex_lock (&pool->lock);
  for (guint i = 0; i < block->n_uses; i++)
    if (!_tarn_use_has_event (&block->uses[i]))
      {
        _tarn_use_clear_event (pool, &block->uses[i]);
        _tarn_queue_set_unrecorded (pool, block->uses[i].queue, TRUE);
      }
  _tarn_block_update_share (block);
}
