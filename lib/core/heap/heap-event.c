/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Finds out when no command uses an idle segment any more.  A segment of memory is idle if all its
 * extents (contiguous ranges) are free.  Commands on the queue may still use free extents.  So the
 * heap records an event on the queue after the segment became idle.  When the event is done, these
 * commands are done too.
 *
 * A segment has no event of its own.  Each event of a queue has a number, and covers all segments
 * of the queue that became idle before the heap began to record the event.
 *
 * With some backends (event_record_all), a queue may be destroyed although the heap has a reference
 * to it.  The heap then records an event on a queue only in a call that names the queue.  When
 * memory has run out, it records one event on all queues instead.  It also does so if queues that
 * the program no longer names have very much memory (grow.c).
 *
 * The caller of each function here holds the heap's lock.  The functions release the lock for each
 * driver call.  A function that works only on events allows read sections, so other threads can
 * allocate without the lock meanwhile. */

#include "heap/heap-private.h"

/* The number of the last event that the heap records on a queue, when it forgets the queue.  The
 * event covers all commands that the queue ever had. */
#define LAST (G_MAXUINT64 - 1)

/* Every PASSES-th call that names a queue asks the driver whether the queue's event is done.  While
 * segments of the queue are still mapped at old addresses, every PASSES_OF_ALIASES-th call asks,
 * because other queues cannot use these segments before the event is done. */
#define PASSES 16
#define PASSES_OF_ALIASES 4

/* The heap assumes that the program no longer names a queue if two things are true: the heap has
 * added MANY_LATER other queues since it added this queue, and the queue's segments have been idle
 * for UNNAMED_TIME microseconds.  If such queues have too much idle memory, the host waits for them
 * (grow.c).  So the host does not wait in a program that alternates between MANY_LATER or fewer
 * queues. */
#define MANY_LATER 288
#define UNNAMED_TIME (20 * G_TIME_SPAN_MILLISECOND)

/* Returns TRUE if an idle segment is quiet: events show that no command uses any of the addresses
 * at which the segment is mapped. */
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
  _tarn_call_queue (direct, event_release, event->handle);
  g_free (event);
  _tarn_heap_lock_open (heap);
}

/* Records that a queue's event with the number @number is done, and that all earlier events of the
 * queue are done too. */
static void
note_done (TarnHeapQueue *queue, guint64 number)
{
  queue->n_done = MAX (queue->n_done, number + 1);
}

/* Records in a queue that one of its events is done.  Releases the caller's reference to the event.
 * Also removes the event from the queue's list and releases the queue's reference, unless another
 * call has done so already. */
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

/* Records an event on a queue, and gives the event the number @number.  If the context is lost,
 * counts the event as done instead, because nothing uses the context's memory any more.  @is_named
 * is TRUE if the caller guarantees that the queue is alive.  Returns FALSE with an error if the
 * driver cannot record the event. */
static gboolean
record (TarnHeapQueue *queue, guint64 number, gboolean is_named, GError **error)
{
  TarnHeap *heap = queue->heap;
  g_autoptr (GError) local = NULL;
  /* As long as n_calls is not 0, the heap keeps its reference to the backend's queue.  So the
   * handle stays valid while this function releases the lock. */
  gpointer made, handle = queue->handle;
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
      _tarn_queue_watch (queue);
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

/* Records an event on a queue, for all segments of the queue that have become idle until now.
 * @is_named is TRUE if the caller guarantees that the queue is alive. */
static gboolean
record_event (TarnHeapQueue *queue, gboolean is_named)
{
  guint64 number;

  _tarn_heap_close (queue->heap);
  number = queue->n_begun++;
  queue->has_unrecorded = FALSE;
  return record (queue, number, is_named, NULL);
}

/* Records the last event on a queue that the heap is about to forget.  The event covers all memory
 * that the queue used.  The caller ensures that the queue gets no more commands that use the heap's
 * memory. */
gboolean
_tarn_queue_record_last_event (TarnHeapQueue *queue, GError **error)
{
  gboolean is_recorded = record (queue, LAST, TRUE, error);

  _tarn_heap_close (queue->heap);
  return is_recorded;
}

/* Releases a queue's references to its events, and empties the queue's list of events.  The caller
 * ensures that the heap does not need these events any more. */
void
_tarn_queue_drop_events (TarnHeapQueue *queue)
{
  TarnHeapEvent *event;

  while ((event = g_queue_pop_head (&queue->events)) != NULL)
    event_unref (queue->heap, event);
  _tarn_heap_close (queue->heap);
}

/* Asks the driver which of a queue's events are done.  Begins with the oldest event, and stops at
 * the first event that is not done.  Releases the heap's lock for each driver call, and does not
 * forbid read sections when it takes the lock again. */
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
      is_done = _tarn_call_queue (direct, event_is_done, event->handle);
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

/* Returns TRUE if the heap needs events.  The heap needs events if it can return a segment to
 * upstream only after an event is done.  It also needs events if there are several queues, because
 * another queue can use a segment only after an event is done. */
static gboolean
needs_events (const TarnHeap *heap)
{
  return !heap->frees_in_order || g_hash_table_size (heap->queues) > 1;
}

gboolean
_tarn_queue_has_idle (const TarnHeapQueue *queue)
{
  for (guint i = 0; i < queue->n_arenas; i++)
    if (queue->arenas[i]->idle.length > 0)
      return TRUE;
  return FALSE;
}

/* Records an event on a queue if segments of the queue have become idle or have moved since the
 * heap last recorded an event.  First asks the driver whether the queue's earlier events are done.
 * If an earlier event is still pending, records no new event, because one pending event is enough
 * even for a queue that has much work to do.  Only every PASSES-th call for the queue (or every
 * PASSES_OF_ALIASES-th) does this; the other calls return at once.  The caller guarantees that the
 * queue is alive.  The function may release the heap's lock, and then does not forbid read sections
 * when it takes the lock again. */
void
_tarn_queue_record_if_idle (TarnHeapQueue *queue)
{
  guint passes = queue->aliases.length > 0 ? PASSES_OF_ALIASES : PASSES;

  if (!queue->has_unrecorded || (!_tarn_queue_has_idle (queue) && queue->aliases.length == 0)
      || queue->handle == NULL || !needs_events (queue->heap) || queue->n_passed++ % passes != 0)
    return;
  ask (queue);
  if (queue->events.length == 0 && queue->handle != NULL)
    record_event (queue, TRUE);
}

/* Makes the host wait for an event.  Returns TRUE if the event is done or its context is lost, even
 * if the driver's wait function failed. */
static gboolean
await (TarnHeap *heap, TarnHeapEvent *event)
{
  const TarnAllocator *direct = heap->base.direct;
  g_autoptr (GError) error = NULL;
  gboolean is_done;

  _tarn_heap_unlock (heap);
  is_done = _tarn_allocator_wait (direct, event->handle, NULL, &error)
            || g_error_matches (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST)
            || _tarn_call_queue (direct, event_is_done, event->handle);
  _tarn_heap_lock_open (heap);
  heap->stats.host_waits++;
  return is_done;
}

/* Makes the host wait for all commands that a queue has got until now.  Returns FALSE if the heap
 * cannot find out whether the commands are done. */
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

/* Returns the queues that have idle segments which commands may still use.  Increments n_calls of
 * each of these queues, so that the heap does not free the queue.  The caller must decrement
 * n_calls of each queue again. */
static GPtrArray *
enter_unquiet (const TarnHeap *heap)
{
  GPtrArray *queues = g_ptr_array_new ();

  TARN_FOR_EACH_IDLE (piece, next, heap)
    {
      TarnHeapQueue *queue = piece->range->arena->queue;

      if (_tarn_piece_is_quiet (piece)
          || (queues->len > 0 && g_ptr_array_index (queues, queues->len - 1) == queue))
        continue;
      queue->n_calls++;
      g_ptr_array_add (queues, queue);
    }
  return queues;
}

/* Asks the driver which events of all queues are done, and unmaps the aliases (mappings of segments
 * at old addresses) that no command uses any more.  Also records an event on each queue that has no
 * pending event, if segments of the queue have become idle or moved since the last event.  Records
 * no events if the backend has event_record_all (): such a backend cannot keep a queue alive, so
 * the heap records an event on a queue only in a call to which the program passes that queue.  The
 * caller must have set is_changing. */
void
_tarn_heap_poll_events (TarnHeap *heap)
{
  g_assert (heap->is_changing);
  for (GList *link = heap->watched.head; link != NULL; link = link->next)
    {
      TarnHeapQueue *queue = link->data;

      ask (queue);
      if (queue->handle != NULL && __atomic_load_n (&queue->has_unrecorded, __ATOMIC_RELAXED)
          && queue->events.length == 0 && heap->base.direct->ops.event_record_all == NULL)
        {
          record_event (queue, FALSE);
          /* Ask the driver about the new event at once: if the queue has no unfinished commands,
           * the event may be done already. */
          ask (queue);
        }
    }
  _tarn_heap_close (heap);
  _tarn_heap_end_aliases (heap);
}

/* Counts the bytes of idle segments that only their own queue can use: commands may still use the
 * segments, and the heap has recorded no event, because it can record one only when the program
 * names the queue again.  Leaves out queues that the program may name again soon (MANY_LATER). */
gsize
_tarn_heap_count_unrecorded (const TarnHeap *heap)
{
  gint64 since = _tarn_clock_now () - UNNAMED_TIME;
  gsize bytes = 0;

  TARN_FOR_EACH_IDLE (piece, next, heap)
    {
      const TarnHeapQueue *queue = piece->range->arena->queue;

      if (heap->last_number - queue->number >= MANY_LATER && piece->idle_at != 0
          && piece->idle_at <= since && queue->events.length == 0 && !_tarn_piece_is_quiet (piece))
        bytes += piece->size;
    }
  return bytes;
}

/* Makes the host wait for each queue whose commands may still use idle segments (segments without
 * an extent in use).  Ignores waits that fail.  During the wait, other threads may add and remove
 * segments.  This is necessary because the commands may depend on work that these threads still
 * have to submit.  Returns TRUE if there were such queues. */
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
