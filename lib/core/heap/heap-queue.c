/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The queues for which a heap has ranges.  A heap adds a queue when a request names it, and keeps
 * it as long as the queue has a piece, unless the program tells the heap to forget it.
 *
 * A forgotten queue leaves its memory behind.  Another queue takes it over as it is, once the last
 * event of the forgotten one is done.  So a program that makes a queue for each task needs the
 * memory of one task, and makes no driver call between tasks. */

#include "heap/heap-private.h"

#include <string.h>

/* The most forgotten queues that a new queue asks about. */
#define MAX_ASKED 4

/* Takes an unused struct of @size bytes, and zeroes it from an offset on.  Returns NULL if there is
 * none. */
static gpointer
take_dead (GSList **dead, gsize offset, gsize size)
{
  gchar *taken;

  if (*dead == NULL)
    return NULL;
  taken = (*dead)->data;
  *dead = g_slist_delete_link (*dead, *dead);
  memset (taken + offset, 0, size - offset);
  return taken;
}

/* Adds an arena to a queue. */
static void
add_arena (TarnHeapQueue *queue)
{
  TarnHeap *heap = queue->heap;
  TarnArena *arena
      = take_dead (&heap->dead_arenas, G_STRUCT_OFFSET (TarnArena, queue), sizeof *arena);

  if (arena == NULL)
    arena = _tarn_aligned_new0 (TarnArena);
  arena->queue = queue;
  arena->heap = heap;
  for (guint i = 0; i < TARN_N_RANGES; i++)
    {
      arena->ranges[i].heap = heap;
      arena->ranges[i].arena = arena;
      arena->ranges[i].kind = (TarnRangeKind) i;
    }
  arena->link.data = arena;
  arena->helper = queue->n_arenas + 1;
  g_queue_push_tail_link (&heap->arenas, &arena->link);
  queue->arenas[queue->n_arenas] = arena;
  __atomic_store_n (&queue->n_arenas, queue->n_arenas + 1, __ATOMIC_RELEASE);
}

/* Sets the number of a queue, which threads with a reference to its arenas check. */
static void
set_number (TarnHeapQueue *queue, guint64 number)
{
  __atomic_store_n (&queue->number, number, __ATOMIC_RELAXED);
}

/* Makes a heap's queue, which takes over the caller's reference to the backend's queue.  @handle:
 * NULL for requests that name no queue. */
TarnHeapQueue *
_tarn_heap_queue_new (TarnHeap *heap, gpointer handle)
{
  TarnHeapQueue *queue
      = take_dead (&heap->dead_queues, G_STRUCT_OFFSET (TarnHeapQueue, heap), sizeof *queue);

  if (queue == NULL)
    queue = _tarn_aligned_new0 (TarnHeapQueue);
  queue->heap = heap;
  queue->handle = handle;
  set_number (queue, handle != NULL ? ++heap->last_number : 0);
  queue->n_begun = 1; /* fresh pieces have been idle since event 0 */
  queue->n_done = handle == NULL ? G_MAXUINT64 : 1;
  queue->link.data = queue->forgotten_link.data = queue;
  g_queue_push_tail_link (&heap->all_queues, &queue->link);
  add_arena (queue);
  return queue;
}

/* Returns TRUE if two of the threads that have used a queue use the same arena of it. */
static gboolean
has_shared_arena (const TarnHeapQueue *queue)
{
  guint64 seen = 0, threads = queue->threads;

  for (; threads != 0; threads &= threads - 1)
    {
      guint64 arena = (guint64) 1 << (guint) __builtin_ctzll (threads) % queue->n_arenas;

      if ((seen & arena) != 0)
        return TRUE;
      seen |= arena;
    }
  return FALSE;
}

/* Notes that the calling thread uses a queue. */
void
_tarn_queue_note_thread (TarnHeapQueue *queue)
{
  guint64 bit = (guint64) 1 << _tarn_current_thread->number % 64;

  _tarn_assert_locked (&queue->heap->lock);
  if ((queue->threads & bit) != 0)
    return;
  queue->threads |= bit;
  queue->has_shared_arena = has_shared_arena (queue);
}

/* Doubles the number of a queue's arenas, up to the maximum, unless each thread has its own. */
void
_tarn_queue_add_arenas (TarnHeapQueue *queue)
{
  guint n = MIN (2 * queue->n_arenas, TARN_QUEUE_ARENAS);

  _tarn_assert_locked (&queue->heap->lock);
  while (queue->has_shared_arena && queue->n_arenas < n)
    add_arena (queue);
  queue->has_shared_arena = has_shared_arena (queue);
}

gboolean
_tarn_queue_has_pieces (const TarnHeapQueue *queue)
{
  for (guint i = 0; i < queue->n_arenas; i++)
    if (queue->arenas[i]->n_pieces > 0)
      return TRUE;
  return FALSE;
}

/* Finds the queue with a handle (NULL: heap->nobody).  Returns NULL if the heap does not know
 * it. */
TarnHeapQueue *
_tarn_heap_find_queue (TarnHeap *heap, gpointer handle)
{
  TarnHeapQueue *queue = heap->latest_queue;

  _tarn_assert_locked (&heap->lock);
  if (handle == NULL)
    return heap->nobody;
  if (queue == NULL || queue->handle != handle)
    queue = g_hash_table_lookup (heap->queues, handle);
  if (queue != NULL)
    heap->latest_queue = queue;
  return queue;
}

static void
unref_handle (TarnHeap *heap, gpointer handle)
{
  _tarn_assert_locked (&heap->lock);
  _tarn_heap_unlock (heap);
  _tarn_allocator_unref_queue (heap->base.direct, handle);
  _tarn_heap_lock (heap);
}

/* Takes a forgotten queue whose last event is done out of the list, and counts a call that uses
 * it.  Asks only about the queues that were forgotten first.  Returns NULL if there is none.  No
 * other call may use the queue, because an event whose recording began for the old queue must not
 * count for the new one. */
static TarnHeapQueue *
steal_quiet (TarnHeap *heap)
{
  TarnHeapQueue *queue;

  for (guint i = 0; i < MAX_ASKED && (queue = g_queue_peek_head (&heap->forgotten_queues)) != NULL;
       i++)
    {
      g_queue_unlink (&heap->forgotten_queues, &queue->forgotten_link);
      queue->n_calls++;
      _tarn_queue_ask (queue);
      if (queue->n_done == G_MAXUINT64)
        _tarn_queue_drop_events (queue); /* two calls that forgot it may have left some */
      if (queue->n_done == G_MAXUINT64 && queue->n_calls == 1 && queue->events.length == 0)
        {
          if (queue->left != NULL)
            unref_handle (heap, g_steal_pointer (&queue->left));
          if (queue->n_calls == 1) /* still: the lock was released */
            return queue;
        }
      queue->n_calls--;
      g_queue_push_tail_link (&heap->forgotten_queues, &queue->forgotten_link);
    }
  return NULL;
}

/* Gives a stolen queue struct a new handle, with the backend's reference.  The new queue takes over
 * the memory that the forgotten one left behind. */
static void
take_over (TarnHeapQueue *queue, gpointer handle)
{
  g_assert (queue->handle == NULL && queue->n_done == G_MAXUINT64);
  queue->handle = handle;
  set_number (queue, ++queue->heap->last_number);
  queue->threads = 0;
  queue->has_shared_arena = FALSE;
  queue->n_calls--;
  queue->n_done = ++queue->n_begun; /* all pieces that are idle now are quiet */
}

/* Forgets a queue: other queues may take over its ranges. */
static void
make_forgotten (TarnHeapQueue *queue)
{
  TarnHeap *heap = queue->heap;

  g_hash_table_remove (heap->queues, queue->handle);
  if (heap->latest_queue == queue)
    heap->latest_queue = NULL;
  queue->has_unrecorded = FALSE;
  set_number (queue, 0);
  g_queue_push_tail_link (&heap->forgotten_queues, &queue->forgotten_link);
  queue->left = g_steal_pointer (&queue->handle);
}

/* Adds a queue for which the backend has just given a reference, unless another thread was
 * faster. */
static TarnHeapQueue *
meet (TarnHeap *heap, gpointer handle)
{
  TarnHeapQueue *left, *queue;

  left = steal_quiet (heap);
  queue = _tarn_heap_find_queue (heap, handle);
  if (queue != NULL)
    {
      if (left != NULL)
        {
          g_queue_push_head_link (&heap->forgotten_queues, &left->forgotten_link);
          left->n_calls--;
        }
      queue->n_calls++;
      unref_handle (heap, handle);
      queue->n_calls--;
      return queue;
    }
  if (left != NULL)
    take_over (left, handle);
  queue = left != NULL ? left : _tarn_heap_queue_new (heap, handle);
  g_hash_table_insert (heap->queues, handle, queue);
  return queue;
}

/* Gets the queue with a handle (NULL: heap->nobody), and adds it if the heap does not know it yet.
 * Counts a call that uses the queue. */
TarnHeapQueue *
_tarn_heap_enter_queue (TarnHeap *heap, gpointer handle, GError **error)
{
  TarnHeapQueue *queue = _tarn_heap_find_queue (heap, handle);
  gboolean is_met, in_order;

  _tarn_assert_locked (&heap->lock);
  if (queue == NULL)
    {
      _tarn_heap_unlock (heap);
      is_met = _tarn_allocator_ref_queue (heap->base.direct, handle, &in_order, error);
      _tarn_heap_lock (heap);
      if (!is_met)
        return NULL;
      queue = meet (heap, handle);
    }
  _tarn_queue_note_thread (queue);
  if (queue->n_calls++ > 0 && _tarn_arena_note_wait (_tarn_queue_get_arena (queue)))
    _tarn_arena_relieve (_tarn_queue_get_arena (queue));
  return queue;
}

/* Forgets a queue that is alive.  The program gives it no more commands that use the heap's
 * memory. */
static gboolean
forget (TarnHeapQueue *queue, gpointer handle, GError **error)
{
  gboolean is_recorded;

  _tarn_assert_locked (&queue->heap->lock);
  queue->n_calls++;
  if (queue->n_forgetting++ == 0)
    queue->former_number = queue->number;
  /* The event does not cover memory that is freed for the queue from now on. */
  set_number (queue, 0);
  is_recorded = _tarn_queue_record_last_event (queue, error);
  queue->n_forgetting--;
  if (is_recorded && queue->handle == handle)
    make_forgotten (queue);
  else if (!is_recorded && queue->handle == handle && queue->n_forgetting == 0)
    set_number (queue, queue->former_number);
  queue->n_calls--;
  return is_recorded;
}

/* Forgets a queue if the heap knows it.  The lock is not held. */
gboolean
_tarn_heap_forget_queue (TarnHeap *heap, gpointer handle, GError **error)
{
  gboolean is_forgotten;
  TarnHeapQueue *queue;

  _tarn_heap_lock (heap);
  queue = _tarn_heap_find_queue (heap, handle);
  is_forgotten = queue == NULL || forget (queue, handle, error);
  _tarn_heap_check_if_full_debug (heap);
  _tarn_heap_unlock (heap);
  return is_forgotten;
}

/* Ends an arena that has no piece, and is in no list.  Releases the lock meanwhile. */
static void
free_arena (TarnArena *arena)
{
  TarnHeap *heap = arena->heap;

  _tarn_heap_unlock (heap);
  for (guint i = 0; i < TARN_N_RANGES; i++)
    heap->growth->clear (&arena->ranges[i]);
  _tarn_heap_lock (heap);
  heap->dead_arenas = g_slist_prepend (heap->dead_arenas, arena);
}

/* Ends a queue that has no piece, and is in no list except all_queues. */
void
_tarn_heap_free_queue (TarnHeap *heap, TarnHeapQueue *queue)
{
  gpointer handle = queue->handle != NULL ? queue->handle : queue->left;

  _tarn_assert_locked (&heap->lock);
  g_assert (!_tarn_queue_has_pieces (queue) && queue->n_calls == 0 && queue->aliases.length == 0);
  g_queue_unlink (&heap->all_queues, &queue->link);
  for (guint i = 0; i < queue->n_arenas; i++)
    g_queue_unlink (&heap->arenas, &queue->arenas[i]->link);
  set_number (queue, 0);
  _tarn_queue_drop_events (queue);
  for (guint i = 0; i < queue->n_arenas; i++)
    free_arena (queue->arenas[i]);
  if (handle != NULL)
    unref_handle (heap, handle);
  heap->dead_queues = g_slist_prepend (heap->dead_queues, queue);
}

/* Drops a queue that has no piece, and that no call uses. */
static void
drop (TarnHeap *heap, TarnHeapQueue *queue)
{
  if (queue->handle == NULL)
    g_queue_unlink (&heap->forgotten_queues, &queue->forgotten_link);
  else
    g_hash_table_remove (heap->queues, queue->handle);
  if (heap->latest_queue == queue)
    heap->latest_queue = NULL;
  _tarn_heap_free_queue (heap, queue);
}

/* Frees the queues that have no pieces and no calls.  The caller has set is_changing, so no other
 * thread removes a queue from the list meanwhile.  Others may add queues at its end; these stay for
 * the next time.  Otherwise the loop would not end if the backend named a queue again each time
 * that a queue is released. */
void
_tarn_heap_drop_queues (TarnHeap *heap)
{
  const GList *last = heap->all_queues.tail;
  GList *next;

  g_assert (heap->is_changing);
  for (GList *link = heap->all_queues.head; link != NULL; link = next)
    {
      TarnHeapQueue *queue = link->data;

      next = link != last ? link->next : NULL;
      if (queue != heap->nobody && !_tarn_queue_has_pieces (queue) && queue->n_calls == 0)
        drop (heap, queue);
    }
}
