/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * When nothing uses an idle piece any more.  Commands on a queue may still use what is free in its
 * ranges; an event that is recorded once a piece is idle, a mark, tells when they do not.
 *
 * Marks are numbered, rather than each piece having one: a mark stands for all pieces of the queue
 * that became idle before it was begun.
 *
 * Where a reference keeps no queue alive, a mark is recorded by calls that name the queue, or else
 * on all queues at once, when memory has run out.  The lock is held in all of this, and given up
 * for each call of the driver.  The door is open while only marks are changed, so that threads
 * which use memory need not wait. */

#include "heap/heap-private.h"

/* The number of a mark that stands for all that a queue was ever given. */
#define LAST (G_MAXUINT64 - 1)

/* Every so many calls that name a queue, one asks the driver about its mark; more often while
 * memory has old addresses, because nobody else can use these. */
#define PASSES 16
#define PASSES_OF_ALIASES 4

/* Tells whether no command uses an idle piece, at any of its addresses. */
gboolean
_tarn_piece_is_quiet (const TarnPiece *piece)
{
  g_assert (piece->n_used == 0);
  return piece->idle_since < piece->range->arena->queue->n_done && piece->n_aliases == 0;
}

static TarnMark *
mark_ref (TarnMark *mark)
{
  mark->n_refs++;
  return mark;
}

static void
mark_unref (TarnHeap *heap, TarnMark *mark)
{
  const TarnAllocator *direct = heap->base.direct;

  _tarn_assert_locked (&heap->lock);
  if (--mark->n_refs > 0)
    return;
  _tarn_heap_unlock (heap);
  _tarn_call (direct, event_release, mark->handle);
  g_free (mark);
  _tarn_heap_lock_open (heap);
}

/* Notes that a mark of a number is done. */
static void
note_done (TarnHeapQueue *queue, guint64 number)
{
  queue->n_done = MAX (queue->n_done, number + 1);
}

/* Notes that a mark is done, which the caller has a reference on, and drops that; and the queue's.
 * If another call has done so before, the mark may be of a queue that is no more. */
static void
settle (TarnHeapQueue *queue, TarnMark *mark)
{
  if (g_queue_remove (&queue->marks, mark))
    {
      note_done (queue, mark->number);
      mark_unref (queue->heap, mark);
    }
  mark_unref (queue->heap, mark);
}

/* Has the driver record a mark of a number.  What was used in a context that is lost is not. */
static gboolean
record (TarnHeapQueue *queue, guint64 number, gboolean is_named, GError **error)
{
  TarnHeap *heap = queue->heap;
  g_autoptr (GError) local = NULL;
  gpointer event, handle = queue->handle; /* alive as long as this call counts */
  TarnMark *mark;

  _tarn_assert_locked (&heap->lock);
  g_assert (handle != NULL);
  queue->n_calls++;
  _tarn_heap_unlock (heap);
  event = _tarn_allocator_record_event (heap->base.direct, handle, is_named, &local);
  _tarn_heap_lock_open (heap);
  queue->n_calls--;
  if (event != NULL)
    {
      mark = g_new (TarnMark, 1);
      *mark = (TarnMark){ .handle = event, .number = number, .n_refs = 1 };
      g_queue_push_tail (&queue->marks, mark);
      return TRUE;
    }
  if (g_error_matches (local, TARN_ERROR, TARN_ERROR_CONTEXT_LOST))
    {
      note_done (queue, number);
      return TRUE;
    }
  __atomic_store_n (&queue->has_unmarked, TRUE, __ATOMIC_RELAXED);
  g_propagate_error (error, g_steal_pointer (&local));
  return FALSE;
}

/* Records a mark for all that became idle until now.  @is_named: the caller vouches that the queue
 * lives. */
static gboolean
mark_idle (TarnHeapQueue *queue, gboolean is_named)
{
  guint64 number;

  _tarn_heap_close (queue->heap);
  number = queue->n_begun++;
  queue->has_unmarked = FALSE;
  return record (queue, number, is_named, NULL);
}

/* Records a mark on a queue that is given no more commands, for whatever it used. */
gboolean
_tarn_queue_mark_last (TarnHeapQueue *queue, GError **error)
{
  gboolean is_marked = record (queue, LAST, TRUE, error);

  _tarn_heap_close (queue->heap);
  return is_marked;
}

/* Drops all marks of a queue, which nobody else has. */
void
_tarn_queue_drop_marks (TarnHeapQueue *queue)
{
  TarnMark *mark;

  while ((mark = g_queue_pop_head (&queue->marks)) != NULL)
    mark_unref (queue->heap, mark);
  _tarn_heap_close (queue->heap);
}

/* Asks whether marks of a queue are done, the oldest first, until one is not.  The door may be open
 * afterwards. */
static void
ask (TarnHeapQueue *queue)
{
  TarnHeap *heap = queue->heap;
  const TarnAllocator *direct = heap->base.direct;
  gboolean is_done = TRUE;

  _tarn_assert_locked (&heap->lock);
  queue->n_calls++;
  while (is_done && queue->marks.head != NULL)
    {
      TarnMark *mark = mark_ref (queue->marks.head->data);

      _tarn_heap_unlock (heap);
      is_done = _tarn_call (direct, event_is_done, mark->handle);
      _tarn_heap_lock_open (heap);
      if (is_done)
        settle (queue, mark);
      else
        mark_unref (heap, mark);
    }
  queue->n_calls--;
}

void
_tarn_queue_ask (TarnHeapQueue *queue)
{
  ask (queue);
  _tarn_heap_close (queue->heap);
}

/* Tells whether marks are of use: where pieces go back only with one, or could go to another queue.
 */
static gboolean
uses_marks (const TarnHeap *heap)
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

/* Records a mark if pieces of a queue, which the caller names, became idle or moved since the last
 * one was begun.  Not while another is on its way, which is asked about now and then: a queue that
 * is far behind needs no more of them.  The door may be open afterwards. */
void
_tarn_queue_mark_if_idle (TarnHeapQueue *queue)
{
  guint passes = queue->aliases.length > 0 ? PASSES_OF_ALIASES : PASSES;

  if (!queue->has_unmarked || (!has_idle (queue) && queue->aliases.length == 0)
      || queue->handle == NULL || !uses_marks (queue->heap) || queue->n_passed++ % passes != 0)
    return;
  ask (queue);
  if (queue->marks.length == 0 && queue->handle != NULL)
    mark_idle (queue, TRUE);
}

/* Has the host wait for a mark.  A wait that fails is good enough where the event is done, or went
 * with its context. */
static gboolean
await (TarnHeap *heap, TarnMark *mark)
{
  const TarnAllocator *direct = heap->base.direct;
  g_autoptr (GError) error = NULL;
  gboolean is_done;

  _tarn_heap_unlock (heap);
  is_done = _tarn_allocator_wait (direct, mark->handle, NULL, &error)
            || g_error_matches (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST)
            || _tarn_call (direct, event_is_done, mark->handle);
  _tarn_heap_lock_open (heap);
  return is_done;
}

/* Has the host wait for all that a queue was given until now.  FALSE: nobody can tell when that is
 * done. */
gboolean
_tarn_queue_await (TarnHeapQueue *queue)
{
  guint64 number = queue->handle != NULL ? queue->n_begun : LAST;

  if (queue->handle != NULL && !mark_idle (queue, FALSE))
    {
      _tarn_heap_close (queue->heap);
      return FALSE;
    }
  queue->n_calls++;
  while (queue->n_done <= number && queue->marks.tail != NULL)
    {
      TarnMark *mark = mark_ref (queue->marks.tail->data);

      if (!await (queue->heap, mark))
        {
          mark_unref (queue->heap, mark);
          break;
        }
      settle (queue, mark);
    }
  queue->n_calls--;
  _tarn_heap_close (queue->heap);
  return queue->n_done > number;
}

/* Lists the queues that have idle pieces which are not quiet.  The caller counts among the calls
 * that use each. */
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

/* Asks about the marks of all queues, and has one recorded where there is none for idle pieces and
 * a reference keeps queues alive.  Else the next call that names the queue does so.  Ends the
 * aliases that marks allow to end.  For who changes what pieces there are. */
void
_tarn_heap_ask_marks (TarnHeap *heap)
{
  g_assert (heap->is_changing);
  for (GList *link = heap->all_queues.head; link != NULL; link = link->next)
    {
      TarnHeapQueue *queue = link->data;

      ask (queue);
      if (queue->handle != NULL && __atomic_load_n (&queue->has_unmarked, __ATOMIC_RELAXED)
          && queue->marks.length == 0 && heap->base.direct->ops.event_record_all == NULL)
        {
          mark_idle (queue, FALSE);
          ask (queue); /* it may have nothing to do */
        }
    }
  _tarn_heap_close (heap);
  _tarn_heap_end_aliases (heap);
}

/* Has the host wait until all pieces that are idle now are quiet, of which that can be told.  Other
 * threads may change what pieces there are meanwhile, because a queue may wait for what they do
 * next.  TRUE: there were such pieces. */
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
