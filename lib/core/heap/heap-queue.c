/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The in-order queues for which a heap has memory.  A heap adds a queue when a request names the
 * queue for the first time.  The heap keeps the queue as long as the queue has a segment of memory,
 * unless the program tells the heap to forget the queue.
 *
 * When the heap forgets a queue, it records a last event on the queue, and keeps the queue's
 * memory.  After the last event is done, a new queue can take over the memory with all its extents
 * (ranges in use or free).  So a program that makes a queue for each task needs the memory of one
 * task only, and allocates none from the driver between tasks. */

#include "heap/heap-private.h"

#include <string.h>

/* When the heap adds a queue, it asks the driver about the last events of at most MAX_ASKED
 * forgotten queues. */
#define MAX_ASKED 4

/* Removes an unused struct of @size bytes from a list, so that the caller can reuse the struct.
 * Sets the struct's bytes from @offset on to 0; the fields before @offset keep their values.
 * If the list is empty, returns a new struct, in which all bytes are 0. */
static gpointer
take_dead (GSList **dead, gsize offset, gsize size)
{
  gchar *taken;

  if (*dead == NULL)
    return _tarn_aligned_alloc0 (TARN_CACHE_LINES, size);
  taken = (*dead)->data;
  *dead = g_slist_delete_link (*dead, *dead);
  memset (taken + offset, 0, size - offset);
  return taken;
}

/* Adds an empty arena to a queue. */
static void
add_arena (TarnHeapQueue *queue)
{
  TarnHeap *heap = queue->heap;
  TarnArena *arena
      = take_dead (&heap->dead_arenas, G_STRUCT_OFFSET (TarnArena, queue), sizeof *arena);

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

/* Sets the number of a queue.  0 means that the queue has no number.  Threads in read sections
 * compare this number with TarnArenaRef.number, to find out whether the arenas still belong to the
 * queue. */
static void
set_number (TarnHeapQueue *queue, guint64 number)
{
  __atomic_store_n (&queue->number, number, __ATOMIC_RELAXED);
}

/* Adds a queue to the list TarnHeap.watched.  Call this when the queue may have got an idle
 * segment, an alias or an event.  The caller holds the heap's lock, unless the heap is new. */
void
_tarn_queue_watch (TarnHeapQueue *queue)
{
  if (queue->is_watched)
    return;
  queue->is_watched = TRUE;
  g_queue_push_tail_link (&queue->heap->watched, &queue->watched_link);
}

static void
unwatch (TarnHeapQueue *queue)
{
  if (queue->is_watched)
    g_queue_unlink (&queue->heap->watched, &queue->watched_link);
  queue->is_watched = FALSE;
}

/* Makes the heap's struct for the backend's queue @handle.  The struct takes over the caller's
 * reference to that queue.  If @handle is NULL, makes the struct heap->nobody, for requests that
 * name no queue. */
TarnHeapQueue *
_tarn_heap_queue_new (TarnHeap *heap, gpointer handle)
{
  TarnHeapQueue *queue
      = take_dead (&heap->dead_queues, G_STRUCT_OFFSET (TarnHeapQueue, heap), sizeof *queue);

  queue->heap = heap;
  queue->handle = handle;
  set_number (queue, handle != NULL ? ++heap->last_number : 0);
  /* The first event gets the number 1, because 0 is TarnPiece.idle_since of a fresh segment. */
  queue->n_begun = 1;
  queue->n_done = handle == NULL ? G_MAXUINT64 : 1;
  queue->link.data = queue->watched_link.data = queue->forgotten_link.data = queue;
  g_queue_push_tail_link (&heap->all_queues, &queue->link);
  _tarn_queue_watch (queue);
  add_arena (queue);
  return queue;
}

/* Returns TRUE if two of the threads that have used a queue use the same arena.  Each thread uses
 * the arena whose index is the thread's number modulo the number of the queue's arenas. */
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

/* Records in a queue that the calling thread uses the queue. */
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

/* Doubles the number of a queue's arenas, up to TARN_QUEUE_ARENAS.  Does nothing if no two of the
 * threads that use the queue use the same arena. */
void
_tarn_queue_add_arenas (TarnHeapQueue *queue)
{
  guint n = MIN (2 * queue->n_arenas, TARN_QUEUE_ARENAS);

  _tarn_assert_locked (&queue->heap->lock);
  while (queue->has_shared_arena && queue->n_arenas < n)
    add_arena (queue);
  queue->has_shared_arena = has_shared_arena (queue);
}

static gboolean
has_pieces (const TarnHeapQueue *queue)
{
  for (guint i = 0; i < queue->n_arenas; i++)
    if (queue->arenas[i]->n_pieces > 0)
      return TRUE;
  return FALSE;
}

/* Returns the heap's struct for the backend's queue @handle, or NULL if the heap does not know that
 * queue.  Returns heap->nobody if @handle is NULL. */
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

/* Releases a reference to a queue of the backend.  The caller holds the heap's lock.  The function
 * releases the lock during the driver call. */
static void
unref_handle (TarnHeap *heap, gpointer handle)
{
  _tarn_assert_locked (&heap->lock);
  _tarn_heap_unlock (heap);
  _tarn_allocator_unref_queue (heap->base.direct, handle);
  _tarn_heap_lock (heap);
}

/* Finds a forgotten queue whose last event is done, and removes the queue from the list of
 * forgotten queues.  Increments the queue's n_calls, which the caller must decrement.  Asks the
 * driver only about the first MAX_ASKED queues in the list.  Returns NULL if it finds none.
 * Releases the heap's lock during driver calls.
 *
 * Does not return a queue that another call uses.  That call may be recording an event on the
 * forgotten queue.  This event must not count as an event of the new queue that takes over the
 * struct. */
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
        /* A last event of the queue is done.  If two calls made the heap forget this queue, the
         * queue has two last events; the heap does not need the second one, so drop it. */
        _tarn_queue_drop_events (queue);
      if (queue->n_done == G_MAXUINT64 && queue->n_calls == 1 && queue->events.length == 0)
        {
          if (queue->left != NULL)
            unref_handle (heap, g_steal_pointer (&queue->left));
          /* Reuse the queue only if no call began to use it while unref_handle () had released the
           * lock. */
          if (queue->n_calls == 1)
            return queue;
        }
      queue->n_calls--;
      g_queue_push_tail_link (&heap->forgotten_queues, &queue->forgotten_link);
    }
  return NULL;
}

/* Turns the struct of a forgotten queue, which steal_quiet () has returned, into the struct of the
 * new queue @handle.  The new queue gets the forgotten queue's arenas, and takes over the caller's
 * reference to the backend's queue.  Decrements n_calls. */
static void
take_over (TarnHeapQueue *queue, gpointer handle)
{
  g_assert (queue->handle == NULL && queue->n_done == G_MAXUINT64);
  queue->handle = handle;
  set_number (queue, ++queue->heap->last_number);
  queue->threads = 0;
  queue->has_shared_arena = FALSE;
  queue->n_calls--;
  /* The last event of the forgotten queue is done, so no command uses the queue's idle segments.
   * To make these segments quiet, set n_done to more than their idle_since. */
  queue->n_done = ++queue->n_begun;
}

/* Adds a queue to the list of forgotten queues, so that a new queue may take over its arenas.  The
 * caller has recorded the queue's last event. */
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

/* Adds the backend's queue @handle to the heap.  The caller has a new reference to that queue,
 * which this function takes over.  Reuses the struct and the arenas of a forgotten queue if
 * possible.  If another thread has added @handle while the lock was released, returns the struct
 * that the other thread made, and releases the caller's reference.  Releases the heap's lock during
 * driver calls. */
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

/* Returns the heap's struct for the backend's queue @handle, or heap->nobody if @handle is NULL.
 * Adds the queue if the heap does not know it yet.  Increments n_calls of the struct, which the
 * caller must decrement.  Returns NULL with an error if the heap cannot get a reference to the
 * backend's queue.  Releases the heap's lock during driver calls. */
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

/* Records a queue's last event, and makes the heap forget the queue.  The program must keep the
 * queue alive until the function returns.  The program must not give the queue any more commands
 * that use the heap's memory.  If the heap cannot record the event, returns FALSE, and the heap
 * does not forget the queue. */
static gboolean
forget (TarnHeapQueue *queue, gpointer handle, GError **error)
{
  gboolean is_recorded;

  _tarn_assert_locked (&queue->heap->lock);
  queue->n_calls++;
  if (queue->n_forgetting++ == 0)
    queue->former_number = queue->number;
  /* If a thread freed memory to the queue after the last event was recorded, the event would not
   * cover the commands that use this memory.  So first set the queue's number to 0: threads free
   * memory only to queues that have a number. */
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

/* Makes the heap forget the queue @handle.  The program must keep the queue alive until the
 * function returns, and must not give it any more commands that use the heap's memory.  Returns
 * TRUE also if the heap does not know the queue.  Returns FALSE if the heap cannot record a last
 * event on the queue.  The caller does not hold the heap's lock. */
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

/* Releases the reserved addresses of an arena, and adds the arena's struct to a list for reuse.
 * Call this only when the arena's queue has no segment.  The caller has removed the arena from
 * TarnHeap.arenas.  Releases the heap's lock during driver calls. */
static void
free_arena (TarnArena *arena)
{
  TarnHeap *heap = arena->heap;

  _tarn_heap_unlock (heap);
  for (guint i = 0; i < TARN_N_RANGES; i++)
    _tarn_range_clear (&arena->ranges[i]);
  _tarn_heap_lock (heap);
  heap->dead_arenas = g_slist_prepend (heap->dead_arenas, arena);
}

/* Frees a queue with its arenas and events.  Keeps the structs of the queue and of the arenas for
 * reuse.  The queue must have no segment and no alias (a mapping of a segment at an old address),
 * and no call may use the queue.  The caller has removed the queue from all lists and tables of the
 * heap except all_queues.  Releases the heap's lock during driver calls. */
void
_tarn_heap_free_queue (TarnHeap *heap, TarnHeapQueue *queue)
{
  gpointer handle = queue->handle != NULL ? queue->handle : queue->left;

  _tarn_assert_locked (&heap->lock);
  g_assert (!has_pieces (queue) && queue->n_calls == 0 && queue->aliases.length == 0);
  g_queue_unlink (&heap->all_queues, &queue->link);
  unwatch (queue);
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

/* Removes a queue from the heap's lists and tables, and frees the queue.  The queue must have no
 * segment, and no call may use the queue.  Releases the heap's lock during driver calls. */
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

/* Returns TRUE if a queue need not be in the list TarnHeap.watched: it has segments, none of them
 * is idle, and it has no event and no alias (a mapping of a segment at an old address). */
static gboolean
is_dull (const TarnHeapQueue *queue)
{
  return has_pieces (queue) && !_tarn_queue_has_idle (queue) && queue->events.length == 0
         && queue->aliases.length == 0;
}

/* Frees the queues that have no segment and that no call uses, except heap->nobody.  Removes queues
 * from the list TarnHeap.watched that need not be in the list any more.  The caller has set
 * is_changing, so no other thread removes a queue from this list meanwhile.
 *
 * Releases the heap's lock for each queue that it frees.  Other threads may then add queues at the
 * end of the list.  The loop does not visit these new queues, because it might then never end: when
 * the heap calls the backend to release a reference, the backend may call the heap with a new queue
 * each time. */
void
_tarn_heap_drop_queues (TarnHeap *heap)
{
  const GList *last = heap->watched.tail;
  GList *next;

  g_assert (heap->is_changing);
  for (GList *link = heap->watched.head; link != NULL; link = next)
    {
      TarnHeapQueue *queue = link->data;

      next = link != last ? link->next : NULL;
      if (queue != heap->nobody && !has_pieces (queue) && queue->n_calls == 0)
        drop (heap, queue);
      else if (is_dull (queue))
        unwatch (queue);
    }
}

/* Gets the next arena after @arena in the order of the queues in the list TarnHeap.watched.  If
 * @arena is NULL, gets the first arena of the first queue. */
static const TarnArena *
next_watched (const TarnHeap *heap, const TarnArena *arena)
{
  const GList *link = arena != NULL ? arena->queue->watched_link.next : heap->watched.head;

  for (guint i = 1; arena != NULL && i < arena->queue->n_arenas; i++)
    if (arena->queue->arenas[i - 1] == arena)
      return arena->queue->arenas[i];
  return link != NULL ? ((const TarnHeapQueue *) link->data)->arenas[0] : NULL;
}

/* Gets the idle segment after @piece, in the order of TARN_FOR_EACH_IDLE.  If @piece is NULL, gets
 * the first idle segment.  Returns NULL if there is no such segment. */
TarnPiece *
_tarn_heap_next_idle (const TarnHeap *heap, const TarnPiece *piece)
{
  const GList *link = piece != NULL ? piece->idle_link.next : NULL;
  const TarnArena *arena = piece != NULL ? piece->range->arena : NULL;

  _tarn_heap_assert_closed (heap);
  while (link == NULL && (arena = next_watched (heap, arena)) != NULL)
    link = arena->idle.head;
  return link != NULL ? link->data : NULL;
}
