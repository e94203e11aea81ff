/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Arenas (arena-private.h).  The heap's lock and door, which stand before them, are in heap-door.c.
 */

#include "heap/heap-private.h"
#include "record/record-private.h"

/* How often a thread that waits for an arena's lock yields before it sleeps, and for how many
 * microseconds. */
#define N_YIELDS 100
#define SLEEP 20

/* How often a thread looks whether the door is open before it waits for the heap's lock. */
#define N_LOOKS 64

/* How far the bytes in use may pass their peak before it is counted: so much, or one byte in
 * PEAK_SHARE of it. */
#define PEAK_STEP ((gsize) 256 << 10)
#define PEAK_SHARE 1024

/* The extents that must be taken from one event to the next. */
#define TAKEN_PER_EVENT 512

/* A queue has more arenas once threads had to wait for the lock of one so often, in so many
 * requests.  A wait costs little.  Memory that is free in an arena is of no use to other queues. */
#define MANY_WAITS 128
#define TAKES_OF_WAITS 1024

/* An arena gets memory of the queue's others once it had none for so many requests, if that is one
 * in POOR_SHARE; and each time for twice as many as the last time, as it might be of no use. */
#define FIRST_POOR 32
#define MAX_SHARED 10
#define POOR_SHARE 16

/* Meeting arenas */

/* Counts that a thread has met another one in an arena.  Returns TRUE if that has happened so often
 * that the queue is to have more of them, if each thread does not have its own.  Where threads have
 * the heap's lock to take memory that is no help. */
gboolean
_tarn_arena_note_wait (TarnArena *arena)
{
  const TarnHeapQueue *queue = arena->queue;

  if (!arena->heap->has_visitors || queue->n_arenas == TARN_QUEUE_ARENAS
      || ++arena->n_waits < MANY_WAITS)
    return FALSE;
  arena->n_waits = 0;
  arena->is_crowded = TRUE;
  return TRUE;
}

/* Adds arenas to the queue of a crowded one. */
void
_tarn_arena_relieve (TarnArena *arena)
{
  _tarn_assert_locked (&arena->heap->lock);
  if (!arena->is_crowded)
    return;
  arena->is_crowded = FALSE;
  _tarn_queue_add_arenas (arena->queue);
}

/* Returns TRUE if an arena is to get memory of the queue's others. */
static inline gboolean
is_poor (const TarnArena *arena)
{
  return arena->n_poor >= (guint) FIRST_POOR << arena->n_shared;
}

/* Makes an arena get memory of the others of its queue. */
static void
enrich (TarnArena *arena)
{
  if (!is_poor (arena))
    return;
  _tarn_arena_share_out (arena);
  arena->n_poor = 0;
  arena->n_shared = MIN (arena->n_shared + 1, MAX_SHARED);
}

/* Returns TRUE if an arena is to grow, rather than take what others of its queue have, where the
 * heap has so much room.  What others have is for other threads, if there are any. */
static inline gboolean
grows_first (const TarnArena *arena, gsize size, gsize room_bytes)
{
  guint64 threads = arena->queue->threads;

  return size <= room_bytes && (threads & (threads - 1)) != 0;
}

/* Takes @size bytes from an arena, or else, if that need not grow, from another one of its queue.
 * The lock is held. */
TarnExtent *
_tarn_queue_take (TarnArena *arena, gsize size, gboolean takes_any)
{
  const TarnHeapQueue *queue = arena->queue;
  TarnExtent *extent = _tarn_range_take (_tarn_arena_get_range (arena, size), size, takes_any);
  gboolean takes_of_others
      = takes_any || !grows_first (arena, size, _tarn_heap_get_room (arena->heap));

  for (guint i = 0; takes_of_others && extent == NULL && i < queue->n_arenas; i++)
    if (queue->arenas[i] != arena)
      extent = _tarn_range_take (_tarn_arena_get_range (queue->arenas[i], size), size, takes_any);
  return extent;
}

/* Gets the arenas of a queue (@handle NULL: of nobody).  Returns FALSE if the heap cannot meet the
 * queue, or another thread is in a call that makes the heap forget it. */
gboolean
_tarn_heap_meet_arena (TarnHeap *heap, gpointer handle, TarnArenaRef *ref, GError **error)
{
  TarnHeapQueue *queue;
  gboolean is_met;

  _tarn_heap_lock (heap);
  heap->has_visitors = TRUE;
  queue = _tarn_heap_enter_queue (heap, handle, error);
  is_met = queue != NULL && (handle == NULL || queue->number != 0);
  if (is_met)
    *ref = (TarnArenaRef){ heap, queue, queue->number };
  if (queue != NULL)
    queue->n_calls--;
  _tarn_heap_unlock (heap);
  return is_met;
}

/* Looks after a heap on behalf of a thread that has used the arenas of a queue: sees whether events
 * are to be recorded, or memory to go back, and has the queue have more arenas where threads wait
 * for one.  If another thread has the lock, it does all that, and nothing is done here. */
void
_tarn_heap_look_after (TarnHeap *heap, gpointer handle)
{
  TarnHeapQueue *queue;
  TarnArena *arena;

  if (!_tarn_heap_trylock (heap))
    return;
  queue = _tarn_heap_find_queue (heap, handle);
  if (queue != NULL)
    {
      queue->n_calls++;
      queue->n_passed = 0; /* many requests have passed */
      _tarn_queue_note_thread (queue);
      arena = _tarn_queue_get_arena (queue);
      __atomic_store_n (&arena->seen_growths, heap->n_growths, __ATOMIC_RELAXED);
      _tarn_arena_relieve (arena);
      enrich (arena);
      _tarn_queue_record_if_idle (queue);
      queue->n_calls--;
    }
  _tarn_heap_expire (heap);
  _tarn_heap_unlock (heap);
}

/* Returns TRUE if the arenas still belong to the queue that was met. */
gboolean
_tarn_arena_is_met (const TarnArenaRef *ref)
{
  return __atomic_load_n (&ref->queue->number, __ATOMIC_RELAXED) == ref->number;
}

/* Makes an extent that was taken in a visit one that the heap knows by its memory. */
void
_tarn_arena_name (TarnHeap *heap, TarnExtent *extent, TarnMemory memory)
{
  _tarn_heap_lock_open (heap);
  _tarn_heap_remember (extent, memory);
  _tarn_heap_unlock (heap);
}

/* Puts an extent without a part back, whosever its arena is by now: what the queue was given before
 * it was forgotten is what its last event stands for. */
void
_tarn_arena_return (TarnHeap *heap, TarnExtent *extent)
{
  _tarn_heap_lock (heap);
  _tarn_arena_put_with_lock (extent);
  _tarn_heap_unlock (heap);
}

/* In a visit */

static gboolean
try_lock (TarnArena *arena)
{
  return !__atomic_load_n (&arena->is_taken, __ATOMIC_RELAXED)
         && !__atomic_exchange_n (&arena->is_taken, TRUE, __ATOMIC_ACQUIRE);
}

static void
unlock (TarnArena *arena)
{
  __atomic_store_n (&arena->is_taken, FALSE, __ATOMIC_RELEASE);
}

/* Takes an arena's lock.  Whoever has it is in a visit, too, and waits for nobody: after some dozen
 * instructions it is free, unless the system has taken the processor away. */
static void
lock (TarnArena *arena)
{
  for (guint pause = 1; pause <= TARN_MAX_PAUSE; pause *= 2)
    {
      if (TARN_LIKELY (try_lock (arena)))
        return;
      _tarn_pause (pause);
    }
  for (guint n = 0; !try_lock (arena); n++)
    if (n < N_YIELDS)
      g_thread_yield ();
    else
      g_usleep (SLEEP);
}

/* Raises the peak that visits have seen, of all queues together. */
static __attribute__ ((noinline)) void
note_peak (TarnArena *arena)
{
  TarnHeap *heap = arena->heap;
  guint64 used = heap->stats.used_bytes, peak;

  TARN_FOR_EACH_ARENA (each, heap)
    used += __atomic_load_n (&each->uncounted_bytes, __ATOMIC_RELAXED);
  peak = __atomic_load_n (&heap->peak_in_visits, __ATOMIC_RELAXED);
  while ((gint64) used > (gint64) peak
         && !__atomic_compare_exchange_n (&heap->peak_in_visits, &peak, used, FALSE,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    ;
  arena->noted_bytes = (gssize) arena->uncounted_bytes
                       + (gssize) MAX (PEAK_STEP, heap->stats.peak_used_bytes / PEAK_SHARE);
}

/* Returns TRUE if a thread that is in a visit may use a heap's arenas.  Where the kernel executes
 * no fences for readers nobody may: the visit may be one without a fence of its own. */
static gboolean
is_open (const TarnHeap *heap)
{
#ifdef TARN_THREAD_SANITIZER
  return __atomic_load_n (&heap->door, __ATOMIC_SEQ_CST) != TARN_DOOR_CLOSED;
#else
  return __atomic_load_n (&heap->door, __ATOMIC_ACQUIRE) == TARN_DOOR_OPEN;
#endif
}

/* Waits until a heap's door is open: another thread that has the lock may have closed it.  Returns
 * FALSE if it stays closed.  The thread is in no visit. */
gboolean
_tarn_heap_await_door (TarnHeap *heap)
{
  for (guint i = 0; i < N_LOOKS; i++)
    {
      if (is_open (heap))
        return TRUE;
      _tarn_pause (TARN_MAX_PAUSE);
    }
  _tarn_mutex_lock (&heap->lock);
  _tarn_mutex_unlock (&heap->lock);
  return is_open (heap);
}

/* Returns TRUE if a heap's door is closed, for a thread in a visit that got nothing of an arena. */
gboolean
_tarn_heap_refuses_visits (const TarnHeap *heap)
{
  return !is_open (heap);
}

/* Returns TRUE if somebody has grown the heap since events were recorded of a queue: others may
 * want what it does not use.  In a visit. */
gboolean
_tarn_arena_is_due (const TarnArenaRef *ref)
{
  return is_open (ref->heap) && _tarn_arena_is_met (ref)
         && __atomic_load_n (&_tarn_queue_get_arena (ref->queue)->seen_growths, __ATOMIC_RELAXED)
                != ref->heap->n_growths;
}

/* Marks an extent that was just taken as in use, though it is not known by its memory. */
static inline void
note_taken (TarnArena *arena, TarnExtent *extent, TarnMemory *memory, gboolean *is_due)
{
  arena->n_unnamed++;
  if (TARN_LIKELY (arena->heap->has_addresses))
    {
      extent->memory.address = _tarn_extent_get_address (extent);
      extent->has_memory = TRUE;
      *memory = extent->memory;
    }
  if (TARN_UNLIKELY (++arena->n_taken >= TAKEN_PER_EVENT
                     && arena->unrecorded_bytes >= arena->heap->event_bytes
                     && arena->seen_growths != arena->heap->n_growths))
    {
      arena->unrecorded_bytes = 0;
      arena->n_taken = 0;
      __atomic_store_n (&arena->seen_growths, arena->heap->n_growths, __ATOMIC_RELAXED);
      *is_due = TRUE;
    }
}

/* Takes @size bytes from an arena whose lock the thread has.  Returns NULL if it has no extent for
 * them. */
static inline TarnExtent *
take (TarnArena *arena, gsize size, TarnMemory *memory, gboolean *is_due)
{
  TarnExtent *extent;

  if (TARN_UNLIKELY (__atomic_load_n (&arena->left_extents, __ATOMIC_RELAXED) != NULL))
    _tarn_arena_drain (arena);
  extent = _tarn_range_take_quickly (_tarn_arena_get_range (arena, size), size);
  if (extent == NULL)
    return NULL;
  note_taken (arena, extent, memory, is_due);
  if (TARN_UNLIKELY ((gssize) arena->uncounted_bytes > arena->noted_bytes))
    note_peak (arena);
  return extent;
}

/* Asks another arena for @size bytes.  Returns FALSE if its lock was taken, and nothing was
 * done. */
static gboolean
ask_other (TarnArena *other, gboolean waits, gsize size, TarnMemory *memory, gboolean *is_due,
           TarnExtent **extent)
{
  if (!_tarn_free_index_may_have (&_tarn_arena_get_range (other, size)->free, size))
    return TRUE;
  if (waits)
    lock (other);
  else if (!try_lock (other))
    return FALSE;
  *extent = take (other, size, memory, is_due);
  unlock (other);
  return TRUE;
}

/* Takes @size bytes from another arena of the queue: of one whose lock is free, or else of any. */
static __attribute__ ((noinline)) TarnExtent *
take_of_others (TarnArena *arena, gsize size, TarnMemory *memory, gboolean *is_due)
{
  const TarnHeapQueue *queue = arena->queue;
  gboolean was_asked[TARN_QUEUE_ARENAS] = { FALSE };
  TarnExtent *extent = NULL;
  guint n = queue->n_arenas;
  guint first = __atomic_load_n (&arena->helper, __ATOMIC_RELAXED);

  for (guint i = first; extent == NULL && i < first + 2 * n; i++)
    if (queue->arenas[i % n] != arena && !was_asked[i % n])
      {
        was_asked[i % n]
            = ask_other (queue->arenas[i % n], i >= first + n, size, memory, is_due, &extent);
        if (extent != NULL)
          __atomic_store_n (&arena->helper, i % n, __ATOMIC_RELAXED);
      }
  return extent;
}

/* Waits for an arena's lock, and counts that. */
static __attribute__ ((noinline)) void
wait_for_lock (TarnArena *arena, gboolean *is_due)
{
  lock (arena);
  *is_due |= _tarn_arena_note_wait (arena);
}

/* Counts that an arena had nothing for a request.  Returns TRUE if it is to get memory of
 * others. */
static __attribute__ ((noinline)) gboolean
note_poor (TarnArena *arena)
{
  if (arena->queue->n_arenas == 1)
    return FALSE;
  if (arena->n_poor == 0 || (arena->n_takes - arena->poor_since) / POOR_SHARE > arena->n_poor)
    {
      arena->n_poor = 0;
      arena->poor_since = arena->n_takes;
    }
  arena->n_poor++;
  return is_poor (arena);
}

/* Takes an extent of at least @size bytes from the thread's arena of a queue, or else from another
 * one; *memory becomes what its user has, and *is_due TRUE if the caller is to look after the heap.
 * Returns NULL if the arenas are another queue's by now, or there is no such extent, or others use
 * the heap. */
TarnExtent *
_tarn_arena_take (const TarnArenaRef *ref, gsize size, TarnMemory *memory, gboolean *is_due)
{
  TarnHeap *heap = ref->heap;
  gsize rounded = _tarn_round_up (MAX (size, 1), heap->alignment);
  TarnExtent *extent = NULL;
  TarnArena *arena;

  if (!is_open (heap) || !_tarn_arena_is_met (ref) || rounded > heap->max_unchecked)
    return NULL;
  arena = _tarn_queue_get_arena (ref->queue);
  if (TARN_UNLIKELY (!try_lock (arena)))
    wait_for_lock (arena, is_due);
  if (TARN_UNLIKELY (++arena->n_takes % TAKES_OF_WAITS == 0))
    arena->n_waits = 0;
  extent = take (arena, rounded, memory, is_due);
  if (TARN_UNLIKELY (extent == NULL))
    *is_due |= note_poor (arena);
  unlock (arena);
  if (TARN_UNLIKELY (extent == NULL) && arena->queue->n_arenas > 1
      && !grows_first (arena, rounded, heap->room_bytes))
    extent = take_of_others (arena, rounded, memory, is_due);
  return extent;
}

/* Does as _tarn_arena_take () does, with the heap's lock, which what is followed needs. */
TarnExtent *
_tarn_arena_take_with_lock (const TarnArenaRef *ref, gsize size, TarnMemory *memory,
                            gboolean *is_due)
{
  TarnHeap *heap = ref->heap;
  gsize rounded = _tarn_round_up (MAX (size, 1), heap->alignment);
  TarnExtent *extent = NULL;
  TarnArena *arena;

  _tarn_heap_lock (heap);
  if (_tarn_arena_is_met (ref) && rounded <= heap->max_unchecked)
    extent = _tarn_queue_take (_tarn_queue_get_arena (ref->queue), rounded, TRUE);
  if (extent != NULL)
    {
      arena = extent->piece->range->arena;
      note_taken (arena, extent, memory, is_due);
      _tarn_arena_count_unnamed (arena);
    }
  _tarn_heap_unlock (heap);
  return extent;
}

/* Makes memory that a queue alone uses an extent which the heap does not know by it any more.
 * Returns NULL if it is another queue's. */
TarnExtent *
_tarn_arena_adopt (const TarnArenaRef *ref, TarnMemory memory)
{
  TarnHeap *heap = ref->heap;
  TarnExtent *extent;

  _tarn_heap_lock_open (heap);
  extent = g_hash_table_lookup (heap->table, &memory);
  g_assert (extent != NULL);
  if (_tarn_arena_is_met (ref) && extent->piece->range->arena->queue == ref->queue)
    {
      g_hash_table_remove (heap->table, extent);
      heap->n_unnamed++;
    }
  else
    extent = NULL;
  _tarn_heap_check_if_full_debug (heap);
  _tarn_heap_unlock (heap);
  return extent;
}

/* Begins to put extents back to their arena with the heap's lock.  Returns TRUE if it is held until
 * _tarn_arena_end_put ().  Returns FALSE if the arenas are another queue's by now. */
gboolean
_tarn_arena_begin_put (const TarnArenaRef *ref)
{
  _tarn_heap_lock (ref->heap);
  if (_tarn_arena_is_met (ref))
    return TRUE;
  _tarn_heap_unlock (ref->heap);
  return FALSE;
}

/* Puts an extent back.  The heap's lock is held. */
void
_tarn_arena_put_with_lock (TarnExtent *extent)
{
  TarnHeap *heap = extent->piece->range->heap;

  _tarn_assert_locked (&heap->lock);
  heap->n_unnamed--;
  _tarn_range_put (extent->piece->range, extent);
  _tarn_heap_check_if_full_debug (heap);
}

void
_tarn_arena_end_put (const TarnArenaRef *ref)
{
  _tarn_heap_unlock (ref->heap);
}

/* Puts an extent back to its arena, or leaves it for others to put back. */
static inline __attribute__ ((always_inline)) void
put (TarnArena *arena, TarnExtent *extent)
{
  if (TARN_LIKELY (try_lock (arena)))
    {
      arena->n_unnamed--;
      _tarn_range_put_quickly (extent->piece->range, extent);
      unlock (arena);
      return;
    }
  extent->next = __atomic_load_n (&arena->left_extents, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n (&arena->left_extents, &extent->next, extent, TRUE,
                                       __ATOMIC_RELEASE, __ATOMIC_RELAXED))
    ;
}

/* Gets the arena that an extent in use can go back to now.  Returns NULL if it is another queue's
 * by now, or the heap's door is not open.  It stays the same as long as the visit lasts. */
static inline TarnArena *
get_arena_of (const TarnArenaRef *ref, const TarnExtent *extent)
{
  TarnArena *arena;

  if (!is_open (ref->heap))
    return NULL;
  arena = extent->piece->range->arena;
  return __atomic_load_n (&arena->queue->number, __ATOMIC_RELAXED) == ref->number ? arena : NULL;
}

/* Puts an extent back to its arena, of the queue of one that was met.  Returns FALSE if it is
 * another queue's by now, or the heap's door is not open, and nothing was done. */
gboolean
_tarn_arena_put (const TarnArenaRef *ref, TarnExtent *extent)
{
  TarnArena *arena = get_arena_of (ref, extent);

  if (arena != NULL)
    put (arena, extent);
  return arena != NULL;
}

/* Says what part was made of an extent that was taken.  Returns FALSE if its arena is another
 * queue's by now. */
gboolean
_tarn_arena_begin_part (const TarnArenaRef *ref, TarnExtent *extent, TarnMemory memory)
{
  if (get_arena_of (ref, extent) == NULL)
    return FALSE;
  extent->memory = memory;
  extent->has_memory = TRUE;
  return TRUE;
}

/* Begins to put an extent back: nobody has its part from now on.  Returns FALSE if its arena is
 * another queue's by now, and nothing was done. */
gboolean
_tarn_arena_end_part (const TarnArenaRef *ref, TarnExtent *extent)
{
  if (get_arena_of (ref, extent) == NULL)
    return FALSE;
  extent->has_memory = FALSE;
  return TRUE;
}

/* Ends it, when the part was released.  Returns FALSE if others use the heap; see
 * _tarn_arena_return (). */
gboolean
_tarn_arena_put_without_part (const TarnHeap *heap, TarnExtent *extent)
{
  if (!is_open (heap))
    return FALSE;
  put (extent->piece->range->arena, extent);
  return TRUE;
}
