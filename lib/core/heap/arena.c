/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Arenas: sets of memory ranges of a queue, from which threads allocate without the heap's lock
 * (arena-private.h).  They do so in read sections, while the heap's door is open (heap-door.c). */

#include "heap/heap-private.h"
#include "record/record-private.h"

/* A thread that waits for an arena's lock yields N_YIELDS times, and then sleeps for SLEEP
 * microseconds at a time. */
#define N_YIELDS 100
#define SLEEP 20

/* A thread that finds the heap's door closed checks N_LOOKS times whether the door is open.  After
 * that it waits for the heap's lock. */
#define N_LOOKS 64

/* An arena's bytes in use may grow by PEAK_STEP, or by the heap's peak divided by PEAK_SHARE if
 * that is more, before a thread in a read section computes the heap's peak again. */
#define PEAK_STEP ((gsize) 256 << 10)
#define PEAK_SHARE 1024

/* An arena asks for an event at most once per TAKEN_PER_EVENT extents that are taken from it. */
#define TAKEN_PER_EVENT 512

/* A queue gets more arenas when MANY_WAITS of TAKES_OF_WAITS requests to one of its arenas had to
 * wait for that arena's lock.  MANY_WAITS is high because a wait costs little, and because other
 * queues cannot use the free memory in an arena. */
#define MANY_WAITS 128
#define TAKES_OF_WAITS 1024

/* An arena gets pieces from the queue's other arenas when it had no extent for FIRST_POOR requests,
 * if these were at least one in POOR_SHARE of its requests.  The threshold doubles each time that
 * the arena gets pieces, at most MAX_SHARED times, because the pieces may not help. */
#define FIRST_POOR 32
#define MAX_SHARED 10
#define POOR_SHARE 16

/* Meeting arenas */

/* Counts that a thread had to wait for another thread in an arena.  Returns TRUE if this has
 * happened so often that the queue should get more arenas.  Returns FALSE if no thread uses read
 * sections, because more arenas do not help threads that all take the heap's lock. */
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

/* Adds arenas to an arena's queue if too many requests waited for the arena. */
void
_tarn_arena_relieve (TarnArena *arena)
{
  _tarn_assert_locked (&arena->heap->lock);
  if (!arena->is_crowded)
    return;
  arena->is_crowded = FALSE;
  _tarn_queue_add_arenas (arena->queue);
}

/* Returns TRUE if an arena lacked extents so often that it should get others' pieces. */
static inline gboolean
is_poor (const TarnArena *arena)
{
  return arena->n_poor >= (guint) FIRST_POOR << arena->n_shared;
}

/* Moves pieces from the queue's other arenas to an arena that lacked extents too often. */
static void
enrich (TarnArena *arena)
{
  if (!is_poor (arena))
    return;
  _tarn_arena_share_out (arena);
  arena->n_poor = 0;
  arena->n_shared = MIN (arena->n_shared + 1, MAX_SHARED);
}

/* Returns TRUE if an arena should grow for a request before it uses memory of its queue's other
 * arenas.  It should if the heap has room for the request and several threads use the queue,
 * because then the other threads need the memory of the other arenas. */
static inline gboolean
grows_first (const TarnArena *arena, gsize size, gsize room_bytes)
{
  guint64 threads = arena->queue->threads;

  return size <= room_bytes && (threads & (threads - 1)) != 0;
}

/* Takes @size bytes from an arena, or else from another arena of its queue, unless the arena should
 * grow instead.  @takes_any: the arena never grows instead, and any large enough extent will do.
 * Returns NULL if none of these arenas has an extent.  The caller holds the heap's lock. */
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

/* Gets a reference to the arenas of the queue with a handle (NULL: to the arenas for no queue).
 * Adds the queue to the heap if it is new.  Returns FALSE with an error if the heap cannot add the
 * queue.  Returns FALSE without an error while another thread makes the heap forget the queue. */
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

/* Does periodic work for the heap after the calling thread has used the arenas of a queue: adds
 * arenas to the queue if threads wait for each other, records an event if one is due, and returns
 * memory that has been idle too long.  Does nothing if another thread holds the heap's lock,
 * because that thread does such work itself. */
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
      queue->n_passed = 0; /* makes _tarn_queue_record_if_idle () check this time */
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

/* Returns TRUE if a reference's arenas still belong to the queue that they had belonged to. */
gboolean
_tarn_arena_is_met (const TarnArenaRef *ref)
{
  return __atomic_load_n (&ref->queue->number, __ATOMIC_RELAXED) == ref->number;
}

/* Adds an extent, which a thread took in a read section, to the heap's table of memory in use. */
void
_tarn_arena_name (TarnHeap *heap, TarnExtent *extent, TarnMemory memory)
{
  _tarn_heap_lock_open (heap);
  _tarn_heap_remember (extent, memory);
  _tarn_heap_unlock (heap);
}

/* Frees an extent whose part (sub-buffer) was released.  The extent's arena may belong to another
 * queue by now.  That is safe, because the former queue's last event covers all memory it used. */
void
_tarn_arena_return (TarnHeap *heap, TarnExtent *extent)
{
  _tarn_heap_lock (heap);
  _tarn_arena_put_with_lock (extent);
  _tarn_heap_unlock (heap);
}

/* For threads in a read section */

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

/* Takes an arena's lock.  The thread that holds the lock is in a read section, as the caller is,
 * and does not wait while it holds the lock.  So it releases the lock after a few dozen
 * instructions, unless it is descheduled. */
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

/* Raises TarnHeap.peak_in_visits, the most bytes in use of all queues seen in read sections. */
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

/* Returns TRUE if a thread in a read section may use a heap's arenas now.  Always returns FALSE if
 * the kernel has no membarrier (2), which executes memory fences on behalf of readers, because the
 * thread may have begun its read section without a fence of its own. */
static gboolean
is_open (const TarnHeap *heap)
{
#ifdef TARN_THREAD_SANITIZER
  return __atomic_load_n (&heap->door, __ATOMIC_SEQ_CST) != TARN_DOOR_CLOSED;
#else
  return __atomic_load_n (&heap->door, __ATOMIC_ACQUIRE) == TARN_DOOR_OPEN;
#endif
}

/* Waits until a heap's door is open.  Another thread that holds the heap's lock may have closed it.
 * Returns FALSE if the door stays closed.  The caller must be in no read section. */
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

/* Returns TRUE if a heap's door is closed.  A thread in a read section that could not get or free
 * an extent calls this, to decide whether to wait for the door and try again. */
gboolean
_tarn_heap_refuses_visits (const TarnHeap *heap)
{
  return !is_open (heap);
}

/* Returns TRUE if the caller should call _tarn_heap_look_after (): the heap has had to grow since
 * the last such call for this arena, and other queues may need the idle memory of this arena's
 * queue.  The caller is in a read section. */
gboolean
_tarn_arena_is_due (const TarnArenaRef *ref)
{
  return is_open (ref->heap) && _tarn_arena_is_met (ref)
         && __atomic_load_n (&_tarn_queue_get_arena (ref->queue)->seen_growths, __ATOMIC_RELAXED)
                != ref->heap->n_growths;
}

/* Counts an extent that the caller has just taken from an arena, and that is not in the heap's
 * table of memory in use.  Sets *memory if the heap's memory is addresses.  Sets *is_due to TRUE if
 * the heap should record an event on the queue. */
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

/* Takes @size bytes from an arena, whose lock the caller holds.  Returns NULL if no free extent is
 * large enough. */
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

/* Searches another arena of the queue for @size bytes, if that arena seems to have them, and stores
 * the extent in *extent.  Returns FALSE if it did not search the arena because another thread holds
 * the arena's lock and @waits is FALSE. */
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

/* Takes @size bytes from the queue's other arenas.  Tries those whose locks are free first. */
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

/* Waits for an arena's lock, and counts the wait. */
static __attribute__ ((noinline)) void
wait_for_lock (TarnArena *arena, gboolean *is_due)
{
  lock (arena);
  *is_due |= _tarn_arena_note_wait (arena);
}

/* Counts a request for which an arena had no extent.  Returns TRUE if the arena should now get
 * pieces from the queue's other arenas. */
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

/* Takes an extent of at least @size bytes from the calling thread's arena of a queue, or else from
 * another arena of the queue.  Stores the user's memory in *memory.  Sets *is_due to TRUE if the
 * caller should call _tarn_heap_look_after ().  Returns NULL if the arenas belong to another queue
 * by now, no extent fits, the heap should grow instead, or the heap's door is closed. */
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

/* Takes an extent as _tarn_arena_take () does, but takes the heap's lock first.  The pool calls
 * this while allocations are traced, because traced allocations need the heap's lock. */
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
      if (heap->has_addresses && _tarn_records ())
        _tarn_heap_record_part (extent);
      _tarn_arena_count_unnamed (arena);
    }
  _tarn_heap_unlock (heap);
  return extent;
}

/* Removes memory in use from the heap's table, so that the caller can later free its extent without
 * the heap's lock, and returns the extent.  Returns NULL if the memory does not belong to the queue
 * of the reference.  Only that queue may have used the memory. */
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

/* Takes the heap's lock, so that the caller can free extents into the arenas of a queue.  If it
 * returns TRUE, the caller holds the lock until it calls _tarn_arena_end_put ().  Returns FALSE,
 * and releases the lock, if the arenas belong to another queue by now. */
gboolean
_tarn_arena_begin_put (const TarnArenaRef *ref)
{
  _tarn_heap_lock (ref->heap);
  if (_tarn_arena_is_met (ref))
    return TRUE;
  _tarn_heap_unlock (ref->heap);
  return FALSE;
}

/* Frees an extent.  The caller holds the heap's lock. */
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

/* Frees an extent into its arena.  If another thread holds the arena's lock, puts the extent into
 * the arena's list of left extents, which a later holder of that lock frees. */
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

/* Gets the arena of an extent in use, if the caller may free the extent into the arena now.
 * Returns NULL if the arena belongs to another queue by now, or the heap's door is not open.  The
 * result stays valid until the caller's read section ends. */
static inline TarnArena *
get_arena_of (const TarnArenaRef *ref, const TarnExtent *extent)
{
  TarnArena *arena;

  if (!is_open (ref->heap))
    return NULL;
  arena = extent->piece->range->arena;
  return __atomic_load_n (&arena->queue->number, __ATOMIC_RELAXED) == ref->number ? arena : NULL;
}

/* Frees an extent into its arena.  Returns FALSE, and does nothing, if the arena belongs to another
 * queue by now, or the heap's door is not open. */
gboolean
_tarn_arena_put (const TarnArenaRef *ref, TarnExtent *extent)
{
  TarnArena *arena = get_arena_of (ref, extent);

  if (arena != NULL)
    put (arena, extent);
  return arena != NULL;
}

/* Stores the part (sub-buffer) that the driver made of an extent in use.  Returns FALSE if the
 * extent's arena belongs to another queue by now, or the heap's door is not open. */
gboolean
_tarn_arena_begin_part (const TarnArenaRef *ref, TarnExtent *extent, TarnMemory memory)
{
  if (get_arena_of (ref, extent) == NULL)
    return FALSE;
  extent->memory = memory;
  extent->has_memory = TRUE;
  return TRUE;
}

/* Begins to free an extent: its part (sub-buffer) is not valid from now on.  Returns FALSE, and
 * does nothing, if its arena belongs to another queue by now, or the heap's door is not open. */
gboolean
_tarn_arena_end_part (const TarnArenaRef *ref, TarnExtent *extent)
{
  if (get_arena_of (ref, extent) == NULL)
    return FALSE;
  extent->has_memory = FALSE;
  return TRUE;
}

/* Frees an extent whose part (sub-buffer) was released.  Returns FALSE if the heap's door is
 * closed; the caller must then call _tarn_arena_return (). */
gboolean
_tarn_arena_put_without_part (const TarnHeap *heap, TarnExtent *extent)
{
  if (!is_open (heap))
    return FALSE;
  put (extent->piece->range->arena, extent);
  return TRUE;
}
