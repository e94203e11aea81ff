/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Finds out when no command uses an idle piece any more.  Commands on a queue may still use the
 * free extents of a piece.  An event that is recorded after the piece became idle is done when
 * these commands are done.
 *
 * Events are numbered, and pieces have none of their own: an event covers all pieces of the queue
 * that became idle before its recording began.
 *
 * If a reference does not keep a queue alive, calls that name the queue record its events; or, when
 * memory has run out, one call records an event on all queues.  The lock is held in all functions
 * here, and released for each driver call.  The door is open while only events change, so that
 * threads which allocate need not wait. */

#include "heap/heap-private.h"

/* The number of an event that covers all commands that a queue ever had. */
#define LAST (G_MAXUINT64 - 1)

/* One in PASSES calls that name a queue asks the driver about its event; one in PASSES_OF_ALIASES
 * while pieces are mapped at old addresses, because other queues can use these pieces only after
 * that. */
#define PASSES 16
#define PASSES_OF_ALIASES 4

/* Returns TRUE if no command uses an idle piece, at any of its addresses. */
gboolean
_tarn_piece_is_quiet (const TarnPiece *piece)
{
  g_assert (piece->n_used == 0);
  return piece->idle_since < piece->range->arena->queue->n_done && piece->n_aliases == 0;
}

static TarnHeapEvent *
event_ref (TarnHeapEvent *event)
{
  event->n_refs++;
  return event;
}

static void
event_unref (TarnHeap *heap, TarnHeapEvent *event)
{
  const TarnAllocator *direct = heap->base.direct;

  _tarn_assert_locked (&heap->lock);
  if (--event->n_refs > 0)
    return;
  _tarn_heap_unlock (heap);
  _tarn_call (direct, event_release, event->handle);
  g_free (event);
  _tarn_heap_lock_open (heap);
}

/* Notes that the event of a number is done. */
static void
note_done (TarnHeapQueue *queue, guint64 number)
{
  queue->n_done = MAX (queue->n_done, number + 1);
}

/* Notes that an event is done, and drops the references of the caller and the queue.  If
 * another call has already done so, the queue has no reference any more.
 */
static void
settle (TarnHeapQueue *queue, TarnHeapEvent *event)
{
  if (g_queue_remove (&queue->events, event))
    {
      note_done (queue, event->number);
      event_unref (queue->heap, event);
    }
  event_unref (queue->heap, event);
}

/* Records an event with a number.  If the context is lost, the event counts as done, because
 * nothing uses the context's memory any more. */
static gboolean
record (TarnHeapQueue *queue, guint64 number, gboolean is_named, GError **error)
{
  TarnHeap *heap = queue->heap;
  g_autoptr (GError) local = NULL;
  gpointer made, handle = queue->handle; /* alive as long as this call is counted */
  TarnHeapEvent *event;

  _tarn_assert_locked (&heap->lock);
  g_assert (handle != NULL);
  queue->n_calls++;
  _tarn_heap_unlock (heap);
  made = _tarn_allocator_record_event (heap->base.direct, handle, is_named, &local);
  _tarn_heap_lock_open (heap);
  queue->n_calls--;
  if (made != NULL)
    {
      event = g_new (TarnHeapEvent, 1);
      *event = (TarnHeapEvent){ .handle = made, .number = number, .n_refs = 1 };
      g_queue_push_tail (&queue->events, event);
      return TRUE;
    }
  if (g_error_matches (local, TARN_ERROR, TARN_ERROR_CONTEXT_LOST))
    {
      note_done (queue, number);
      return TRUE;
    }
  __atomic_store_n (&queue->has_unrecorded, TRUE, __ATOMIC_RELAXED);
  g_propagate_error (error, g_steal_pointer (&local));
  return FALSE;
}

/* Records an event for all pieces that became idle until now.  @is_named: the caller guarantees
 * that the queue is alive. */
static gboolean
record_event (TarnHeapQueue *queue, gboolean is_named)
{
  guint64 number;

  _tarn_heap_close (queue->heap);
  number = queue->n_begun++;
  queue->has_unrecorded = FALSE;
  return record (queue, number, is_named, NULL);
}

/* Records an event for all memory that a queue used.  The queue gets no more commands. */
gboolean
_tarn_queue_record_last_event (TarnHeapQueue *queue, GError **error)
{
  gboolean is_recorded = record (queue, LAST, TRUE, error);

  _tarn_heap_close (queue->heap);
  return is_recorded;
}

/* Drops all events of a queue that no other thread uses. */
void
_tarn_queue_drop_events (TarnHeapQueue *queue)
{
  TarnHeapEvent *event;

  while ((event = g_queue_pop_head (&queue->events)) != NULL)
    event_unref (queue->heap, event);
  _tarn_heap_close (queue->heap);
}

/* Asks the driver whether events of a queue are done, the oldest first, until one is not.  The door
 * may be open afterwards. */
static void
ask (TarnHeapQueue *queue)
{
  TarnHeap *heap = queue->heap;
  const TarnAllocator *direct = heap->base.direct;
  gboolean is_done = TRUE;

  _tarn_assert_locked (&heap->lock);
  queue->n_calls++;
  while (is_done && queue->events.head != NULL)
    {
      TarnHeapEvent *event = event_ref (queue->events.head->data);

      _tarn_heap_unlock (heap);
      is_done = _tarn_call (direct, event_is_done, event->handle);
      _tarn_heap_lock_open (heap);
      if (is_done)
        settle (queue, event);
      else
        event_unref (heap, event);
    }
  queue->n_calls--;
}

void
_tarn_queue_ask (TarnHeapQueue *queue)
{
  ask (queue);
  _tarn_heap_close (queue->heap);
}

/* Returns TRUE if events are needed: because pieces can be returned only after one, or because
 * another queue could use them. */
static gboolean
needs_events (const TarnHeap *heap)
{
  return !heap->frees_in_order || g_hash_table_size (heap->queues) > 1;
}

static gboolean
has_idle (const TarnHeapQueue *queue)
{
  for (guint i = 0; i < queue->n_arenas; i++)
    if (queue->arenas[i]->idle.length > 0)
      return TRUE;
  return FALSE;
}

/* Records an event if pieces of a queue, which the caller names, became idle or moved since the
 * last recording began.  If an event is pending, it only asks now and then whether that is done,
 * because a queue that is far behind needs no more of them.  The door may be open afterwards. */
void
_tarn_queue_record_if_idle (TarnHeapQueue *queue)
{
  guint passes = queue->aliases.length > 0 ? PASSES_OF_ALIASES : PASSES;

  if (!queue->has_unrecorded || (!has_idle (queue) && queue->aliases.length == 0)
      || queue->handle == NULL || !needs_events (queue->heap) || queue->n_passed++ % passes != 0)
    return;
  ask (queue);
  if (queue->events.length == 0 && queue->handle != NULL)
    record_event (queue, TRUE);
}

/* Makes the host wait for an event.  Returns TRUE also if the wait failed, but the event is done or
 * its context is lost. */
static gboolean
await (TarnHeap *heap, TarnHeapEvent *event)
{
  const TarnAllocator *direct = heap->base.direct;
  g_autoptr (GError) error = NULL;
  gboolean is_done;

  _tarn_heap_unlock (heap);
  is_done = _tarn_allocator_wait (direct, event->handle, NULL, &error)
            || g_error_matches (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST)
            || _tarn_call (direct, event_is_done, event->handle);
  _tarn_heap_lock_open (heap);
  heap->stats.host_waits++;
  return is_done;
}

/* Makes the host wait for all commands that a queue has had.  Returns FALSE if it cannot find out
 * when they are done. */
gboolean
_tarn_queue_await (TarnHeapQueue *queue)
{
  guint64 number = queue->handle != NULL ? queue->n_begun : LAST;

  if (queue->handle != NULL && !record_event (queue, FALSE))
    {
      _tarn_heap_close (queue->heap);
      return FALSE;
    }
  queue->n_calls++;
  while (queue->n_done <= number && queue->events.tail != NULL)
    {
      TarnHeapEvent *event = event_ref (queue->events.tail->data);

      if (!await (queue->heap, event))
        {
          event_unref (queue->heap, event);
          break;
        }
      settle (queue, event);
    }
  queue->n_calls--;
  _tarn_heap_close (queue->heap);
  return queue->n_done > number;
}

/* Lists the queues that have idle pieces which are not quiet, and counts a call for each. */
static GPtrArray *
enter_unquiet (const TarnHeap *heap)
{
  GPtrArray *queues = g_ptr_array_new ();

  TARN_FOR_EACH_IDLE (piece, next, heap)
    {
      TarnHeapQueue *queue = piece->range->arena->queue;

      if (_tarn_piece_is_quiet (piece) || g_ptr_array_find (queues, queue, NULL))
        continue;
      queue->n_calls++;
      g_ptr_array_add (queues, queue);
    }
  return queues;
}

/* Asks the driver about the events of all queues.  Records an event if a queue has idle pieces but
 * no event, and a reference keeps it alive; otherwise the next call that names the queue records
 * one.  Ends the aliases that events allow to end.  The caller has set is_changing. */
void
_tarn_heap_poll_events (TarnHeap *heap)
{
  g_assert (heap->is_changing);
  for (GList *link = heap->all_queues.head; link != NULL; link = link->next)
    {
      TarnHeapQueue *queue = link->data;

      ask (queue);
      if (queue->handle != NULL && __atomic_load_n (&queue->has_unrecorded, __ATOMIC_RELAXED)
          && queue->events.length == 0 && heap->base.direct->ops.event_record_all == NULL)
        {
          record_event (queue, FALSE);
          ask (queue); /* a queue without commands is done at once */
        }
    }
  _tarn_heap_close (heap);
  _tarn_heap_end_aliases (heap);
}

/* Makes the host wait until all pieces that are idle now are quiet, as far as it can find out.
 * Other threads may change the set of pieces meanwhile, because a queue may wait for their next
 * calls.  Returns TRUE if there were such pieces. */
gboolean
_tarn_heap_await_idle (TarnHeap *heap)
{
  g_autoptr (GPtrArray) queues = enter_unquiet (heap);

  _tarn_assert_locked (&heap->lock);
  for (guint i = 0; i < queues->len; i++)
    {
      TarnHeapQueue *queue = g_ptr_array_index (queues, i);

      _tarn_queue_await (queue);
      queue->n_calls--;
    }
  return queues->len > 0;
}
