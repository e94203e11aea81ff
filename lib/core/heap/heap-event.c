/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Finds out when no command uses an idle piece any more.  A piece is idle if all its extents are
 * free, but commands on the queue may still use free extents.  An event that the heap records after
 * the piece became idle is done when these commands are done.
 *
 * The heap numbers the events of a queue.  A piece has no event of its own: an event covers all
 * pieces of the queue that became idle before its recording began.
 *
 * With some backends (event_record_all) a reference does not keep a queue alive.  The heap then
 * records an event on a queue only in a call that names the queue, or, when memory has run out, one
 * event on all queues.
 *
 * The caller of each function here holds the heap's lock.  The functions release it for each driver
 * call.  The heap's door stays open while only events change, so allocating threads need not
 * wait. */

#include "heap/heap-private.h"

/* The number of a queue's last event, which covers all commands that the queue ever had. */
#define LAST (G_MAXUINT64 - 1)

/* In one of PASSES calls that name a queue, the heap asks the driver whether the queue's event is
 * done.  While pieces of the queue are mapped at old addresses, the heap asks in one of
 * PASSES_OF_ALIASES calls, because other queues cannot use these pieces before the event is
 * done. */
#define PASSES 16
#define PASSES_OF_ALIASES 4

/* Returns TRUE if an idle piece is quiet: events show that no command uses any of its addresses. */
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

/* Notes that a queue's event with a number, and all events before that event, are done. */
static void
note_done (TarnHeapQueue *queue, guint64 number)
{
  queue->n_done = MAX (queue->n_done, number + 1);
}

/* Notes that an event is done.  Drops the caller's reference to the event, and the queue's
 * reference if another call has not dropped it already. */
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

/* Records an event with a number on a queue.  If the context is lost, the event counts as done,
 * because nothing uses the context's memory any more. */
static gboolean
record (TarnHeapQueue *queue, guint64 number, gboolean is_named, GError **error)
{
  TarnHeap *heap = queue->heap;
  g_autoptr (GError) local = NULL;
  gpointer made, handle = queue->handle; /* alive while n_calls counts this call */
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

/* Records an event on a queue, for all its pieces that became idle until now.  @is_named: the
 * caller guarantees that the queue is alive. */
static gboolean
record_event (TarnHeapQueue *queue, gboolean is_named)
{
  guint64 number;

  _tarn_heap_close (queue->heap);
  number = queue->n_begun++;
  queue->has_unrecorded = FALSE;
  return record (queue, number, is_named, NULL);
}

/* Records a queue's last event, which covers all memory that the queue used.  The caller must make
 * sure that the queue gets no more commands that use the heap's memory. */
gboolean
_tarn_queue_record_last_event (TarnHeapQueue *queue, GError **error)
{
  gboolean is_recorded = record (queue, LAST, TRUE, error);

  _tarn_heap_close (queue->heap);
  return is_recorded;
}

/* Drops a queue's references to its events.  The caller makes sure that the heap needs these
 * events no more. */
void
_tarn_queue_drop_events (TarnHeapQueue *queue)
{
  TarnHeapEvent *event;

  while ((event = g_queue_pop_head (&queue->events)) != NULL)
    event_unref (queue->heap, event);
  _tarn_heap_close (queue->heap);
}

/* Asks the driver whether a queue's events are done, from the oldest on, until it finds one that is
 * not.  The heap's door may be open afterwards. */
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

/* Returns TRUE if the heap needs events: if it can return a piece only after an event, or if there
 * is another queue that could use the piece. */
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

/* Records an event if pieces of a queue became idle or moved since the last recording began.  The
 * caller guarantees that the queue is alive.  If an event is pending, records no other, because a
 * queue that is far behind needs no more events; asks the driver now and then whether the pending
 * event is done.  The heap's door may be open afterwards. */
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

/* Makes the host wait for an event.  Returns TRUE if the event is done, or its context is lost,
 * even if the wait itself failed. */
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

/* Makes the host wait for all commands that a queue has had.  Returns FALSE if the heap cannot find
 * out when the commands are done. */
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

/* Lists the queues that have idle pieces which commands may still use.  Increments n_calls of each
 * queue; the caller must decrement it. */
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

/* Asks the driver about the events of all queues, and unmaps the aliases (old mappings of pieces)
 * that no command uses any more.  Records an event on each queue that has idle pieces but no event,
 * if a reference keeps the queue alive.  If not, the next call that names the queue records the
 * event.  The caller must have set is_changing. */
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
          ask (queue); /* the event of a queue without commands is done at once */
        }
    }
  _tarn_heap_close (heap);
  _tarn_heap_end_aliases (heap);
}

/* Makes the host wait until no command uses the pieces that are idle now, as far as the heap can
 * find out.  Other threads may change the set of pieces meanwhile, because a queue may wait for
 * their next calls.  Returns TRUE if commands may have used such pieces. */
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
