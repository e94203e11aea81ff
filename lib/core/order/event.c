/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Events: references on them, and recording them for the uses of blocks. */

#include "order/order-private.h"

/* References.  The lock is held; _tarn_pool_unlock_and_sweep () frees unreferenced events and
 * queues after it has released the lock. */

/* Makes an event of a backend's handle, with one reference.  @handle: NULL: it is yet to be
 * recorded. */
TarnEvent *
_tarn_event_new (gpointer handle, gboolean is_late)
{
  TarnEvent *event = g_new (TarnEvent, 1); /* g_new0 () takes longer: no cache of malloc's */

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

/* Drops a reference.  _tarn_pool_unlock_and_sweep () releases the event after the last one. */
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
        _tarn_call (direct, event_release, event->handle);
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

/* Releases the lock, and then returns unreferenced events and queues to the driver. */
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

/* Uses.  The lock is held. */

/* Returns TRUE if an event was recorded for a use. */
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

/* Returns TRUE if a use has no event, or if the event of a held block is not recorded yet, because
 * recording it may fail.  An event that a free is recording counts as present. */
static gboolean
needs_event (const TarnBlock *block, const TarnUse *use)
{
  return use->event == NULL || (block->state == TARN_BLOCK_HELD && !_tarn_use_has_event (use));
}

/* Gives an event to those uses of a block by a queue that need one. */
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

/* Recording.  The lock is not held. */

/* Logs that no event could be recorded, so that only its own queue can reuse the memory.  Logs
 * nothing if that is expected. */
void
_tarn_pool_report_unrecorded (const TarnPool *pool, const GError *error)
{
  if (!g_error_matches (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED)
      && !g_error_matches (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST))
    g_message ("%s: %s: memory can be used again on its own queue only", pool->base.label,
               error->message);
}

/* Sets the event of a use.  Another thread may have set one meanwhile, because it forgets the
 * queue; then that one stays, and this one is dropped. */
static void
set_event (TarnPool *pool, TarnBlock *block, TarnUse *use, gpointer handle)
{
  TarnEvent *event = _tarn_event_new (handle, TRUE);

  _tarn_mutex_lock (&pool->lock);
  if (!_tarn_use_has_event (use))
    {
      TarnEvent *before = use->event;

      use->event = event;
      event = before;
    }
  if (event != NULL)
    _tarn_event_unref (pool, event);
  _tarn_block_update_share (block);
  _tarn_mutex_unlock (&pool->lock);
}

/* Records a late event for a use that has none, of a block that no other call works on.  @is_named:
 * the caller guarantees that the queue is alive. */
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

/* Records the event of a use of a block that is being freed, after _tarn_queue_begin_recording ().
 * Ends the recording before it logs a message: a thread that forgets the queue waits for the
 * recording, and must not wait for the program's message handler. */
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

/* Records events for all uses of a block that is being freed.  Uses by forgotten queues have an
 * event already; the caller of the free guarantees that the other queues are alive.  If an event
 * cannot be recorded, the use has none afterwards.  The lock is held, and is released meanwhile. */
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
