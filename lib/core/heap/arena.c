/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Allocates memory for commands on a queue, and frees it, without the heap's lock.  A thread does
 * so in a read section, while the heap allows read sections (heap-door.c), and takes only the lock
 * of an arena.  An arena is one of the queue's sets of memory ranges (arena-private.h).  A request
 * gets an extent, which is a contiguous part of a range.  A range consists of segments, which the
 * heap got from upstream. */

#include "heap/heap-private.h"
#include "record/record-private.h"

/* A thread that waits for an arena's lock yields N_YIELDS times, and then sleeps for SLEEP
 * microseconds at a time. */
#define N_YIELDS 100
#define SLEEP 20

/* A thread that finds read sections forbidden checks N_LOOKS times whether the heap allows them
 * again.  After that it waits for the heap's lock. */
#define N_LOOKS 64

/* Threads in read sections do not update the heap's peak of bytes in use with each request.  A
 * thread updates the peak when the bytes in use of one arena have grown by PEAK_STEP since the last
 * update, or by the peak divided by PEAK_SHARE if that is more. */
#define PEAK_STEP ((gsize) 256 << 10)
#define PEAK_SHARE 1024

/* A thread in a read section asks the heap to record an event on an arena's queue only after
 * threads have taken at least TAKEN_PER_EVENT extents from the arena since a thread last asked.
 * (note_taken () has the other conditions.) */
#define TAKEN_PER_EVENT 512

/* The heap adds arenas to a queue if MANY_WAITS of TAKES_OF_WAITS requests to one of the queue's
 * arenas had to wait for that arena's lock.  MANY_WAITS is high because a wait costs less than a
 * further arena: other queues cannot use the free memory in that arena. */
#define MANY_WAITS 128
#define TAKES_OF_WAITS 1024

/* An arena is poor if at least FIRST_POOR of its recent requests found no extent in it, and at
 * least one request in POOR_SHARE was of this kind.  A poor arena gets segments from the queue's
 * other arenas.  The moved segments may not help.  So after each move, it takes twice as many
 * requests without an extent until the arena counts as poor again.  The number doubles at most
 * MAX_SHARED times. */
#define FIRST_POOR 32
#define MAX_SHARED 10
#define POOR_SHARE 16

/* Functions that keep a queue's arenas balanced, and functions that take the heap's lock */

/* Counts a request that had to wait because another thread used the same arena.  Returns TRUE if so
 * many requests had to wait that the queue should get more arenas.  Returns FALSE without counting
 * if the queue has the most arenas that it can have, or if no thread uses read sections.  In the
 * latter case all threads take the heap's lock, so more arenas would not help. */
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

/* Adds arenas to the queue of @arena if too many requests waited for the lock of @arena. */
void
_tarn_arena_relieve (TarnArena *arena)
{
  _tarn_assert_locked (&arena->heap->lock);
  if (!arena->is_crowded)
    return;
  arena->is_crowded = FALSE;
  _tarn_queue_add_arenas (arena->queue);
}

/* Returns TRUE if an arena is poor: so many of its requests found no extent in it (FIRST_POOR) that
 * it should get segments from the queue's other arenas. */
static inline gboolean
is_poor (const TarnArena *arena)
{
  return arena->n_poor >= (guint) FIRST_POOR << arena->n_shared;
}

/* Moves segments from the queue's other arenas to @arena, if @arena is poor, that is, if many
 * requests found no extent in it. */
static void
enrich (TarnArena *arena)
{
  if (!is_poor (arena))
    return;
  _tarn_arena_share_out (arena);
  arena->n_poor = 0;
  arena->n_shared = MIN (arena->n_shared + 1, MAX_SHARED);
}

/* Returns TRUE if several threads use the queue of @arena, and the heap has room for @size bytes
 * (@room_bytes: the bytes for which it has room).  In this case, @arena should get a new segment
 * for a request of @size bytes, so that other threads keep the memory of the queue's other
 * arenas. */
static inline gboolean
grows_first (const TarnArena *arena, gsize size, gsize room_bytes)
{
  guint64 threads = arena->queue->threads;

  return size <= room_bytes && (threads & (threads - 1)) != 0;
}

/* Takes an extent of @size bytes from @arena, or else from one of the queue's other arenas.  Does
 * not search the other arenas if @arena should get a new segment first (grows_first ()).  If
 * @takes_any is TRUE, always searches them, and also takes an extent that does not suit the request
 * (TarnHeapGrowth.suits).  Returns NULL if it finds no extent.  The caller holds the heap's
 * lock. */
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

/* Stores a reference to the arenas of a queue in *ref.  @handle is the backend's queue, or NULL for
 * the arenas that serve requests without a queue.  Adds the queue to the heap if the queue is new.
 * Returns FALSE with an error if the heap cannot add the queue.  Returns FALSE without an error
 * while another thread makes the heap forget the queue. */
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

/* Does periodic work for a heap, after the calling thread has used the arenas of a queue: adds
 * arenas to the queue if threads often wait for an arena's lock, moves segments between the arenas,
 * records an event if one is due, and returns to upstream the segments that have been idle for too
 * long.  Does nothing if another thread holds the heap's lock, because that thread does such work
 * itself. */
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
      /* Only every n-th call of _tarn_queue_record_if_idle () asks the driver and records an event:
       * a call that finds a multiple of n in n_passed.  So set n_passed to 0 for the call below. */
      queue->n_passed = 0;
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

/* Returns TRUE if the arenas that @ref refers to still belong to the same queue as when the caller
 * got @ref. */
gboolean
_tarn_arena_is_met (const TarnArenaRef *ref)
{
  return __atomic_load_n (&ref->queue->number, __ATOMIC_RELAXED) == ref->number;
}

/* Adds an extent to the heap's table of extents in use.  A thread took the extent in a read
 * section.  @memory is the user's memory, by which the table finds the extent. */
void
_tarn_arena_name (TarnHeap *heap, TarnExtent *extent, TarnMemory memory)
{
  _tarn_heap_lock_open (heap);
  _tarn_heap_remember (extent, memory);
  _tarn_heap_unlock (heap);
}

/* Frees an extent whose part (sub-buffer) the caller has released.  The extent's arena may belong
 * to another queue by now.  That is safe, because an arena gets a new queue only after the former
 * queue's last event is done, and that event covers all uses of the extent. */
void
_tarn_arena_return (TarnHeap *heap, TarnExtent *extent)
{
  _tarn_heap_lock (heap);
  _tarn_arena_put_with_lock (extent);
  _tarn_heap_unlock (heap);
}

/* Functions that take and free extents in a read section */

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

/* Takes an arena's lock.  A thread that holds such a lock is in a read section and never waits, so
 * it releases the lock after a few dozen instructions, unless the kernel deschedules it. */
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

/* Adds an arena to the list TarnHeap.touched, unless another thread has begun to add this arena. */
static __attribute__ ((noinline)) void
add_touched (TarnArena *arena)
{
  TarnHeap *heap = arena->heap;

  if (__atomic_exchange_n (&arena->is_touched, TRUE, __ATOMIC_RELAXED))
    return;
  arena->next_touched = __atomic_load_n (&heap->touched, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n (&heap->touched, &arena->next_touched, arena, TRUE,
                                       __ATOMIC_RELEASE, __ATOMIC_RELAXED))
    ;
}

/* Adds an arena to the list TarnHeap.touched, unless the arena is in the list already.  A thread
 * calls this in a read section that changes the arena.  The next thread that forbids read sections
 * then updates the heap's counters with this arena's changes. */
static inline void
touch (TarnArena *arena)
{
  if (TARN_UNLIKELY (!__atomic_load_n (&arena->is_touched, __ATOMIC_RELAXED)))
    add_touched (arena);
}

/* Computes the bytes that are in use in the heap now, and raises TarnHeap.peak_in_visits to this
 * number if the field is lower.  Sets TarnArena.noted_bytes, a threshold: a thread calls the
 * function again when TarnArena.uncounted_bytes exceeds it. */
static __attribute__ ((noinline)) void
note_peak (TarnArena *arena)
{
  TarnHeap *heap = arena->heap;
  guint64 used = heap->stats.used_bytes, peak;

  for (const TarnArena *each = __atomic_load_n (&heap->touched, __ATOMIC_ACQUIRE); each != NULL;
       each = each->next_touched)
    used += __atomic_load_n (&each->uncounted_bytes, __ATOMIC_RELAXED);
  peak = __atomic_load_n (&heap->peak_in_visits, __ATOMIC_RELAXED);
  while ((gint64) used > (gint64) peak
         && !__atomic_compare_exchange_n (&heap->peak_in_visits, &peak, used, FALSE,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    ;
  arena->noted_bytes = (gssize) arena->uncounted_bytes
                       + (gssize) MAX (PEAK_STEP, heap->stats.peak_used_bytes / PEAK_SHARE);
}

/* Returns TRUE if a thread in a read section may use the heap's arenas now.  Always returns FALSE
 * if the kernel has no membarrier (2), because a thread that forbids read sections then cannot make
 * the threads in read sections execute a memory fence. */
static gboolean
is_open (const TarnHeap *heap)
{
#ifdef TARN_THREAD_SANITIZER
  return __atomic_load_n (&heap->door, __ATOMIC_SEQ_CST) != TARN_DOOR_CLOSED;
#else
  return __atomic_load_n (&heap->door, __ATOMIC_ACQUIRE) == TARN_DOOR_OPEN;
#endif
}

/* Waits for a short time if the heap forbids read sections.  Usually a thread that holds the heap's
 * lock has forbidden them, so this function takes and releases that lock.  Returns TRUE if the heap
 * allows read sections afterwards, and FALSE if it still forbids them.  The caller must be in no
 * read section. */
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

/* Returns TRUE if the heap forbids read sections now.  A thread that could not take or free an
 * extent in a read section calls this, to decide whether to wait and try again. */
gboolean
_tarn_heap_refuses_visits (const TarnHeap *heap)
{
  return !is_open (heap);
}

/* Returns TRUE if the heap has had to grow since _tarn_heap_look_after () was last called for the
 * calling thread's arena.  The caller should then call that function, because other queues may need
 * idle memory of the arena's queue. */
gboolean
_tarn_arena_is_due (const TarnArenaRef *ref)
{
  return is_open (ref->heap) && _tarn_arena_is_met (ref)
         && __atomic_load_n (&_tarn_queue_get_arena (ref->queue)->seen_growths, __ATOMIC_RELAXED)
                != ref->heap->n_growths;
}

/* Counts an extent that the caller has just taken from an arena.  The extent is not in the heap's
 * table of extents in use.  If the heap's users get addresses, stores the extent's address in
 * *memory.  Sets *is_due to TRUE if the heap should record an event on the arena's queue. */
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

/* Takes an extent of @size bytes from an arena, whose lock the caller holds.  Returns NULL if no
 * free extent is large enough. */
static inline TarnExtent *
take (TarnArena *arena, gsize size, TarnMemory *memory, gboolean *is_due)
{
  TarnExtent *extent;

  if (TARN_UNLIKELY (__atomic_load_n (&arena->left_extents, __ATOMIC_RELAXED) != NULL))
    _tarn_arena_drain (arena);
  extent = _tarn_range_take_quickly (_tarn_arena_get_range (arena, size), size);
  if (extent == NULL)
    return NULL;
  touch (arena);
  note_taken (arena, extent, memory, is_due);
  if (TARN_UNLIKELY ((gssize) arena->uncounted_bytes > arena->noted_bytes))
    note_peak (arena);
  return extent;
}

/* Takes an extent of @size bytes from the arena @other, if that arena seems to have one, and stores
 * the extent in *extent (NULL if there is none).  Returns FALSE if the function did not search
 * @other, because another thread holds the lock of @other and @waits is FALSE. */
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

/* Takes @size bytes from the queue's other arenas.  First tries the arenas whose locks no thread
 * holds.  Then waits for the locks of the arenas that it has not tried.  Returns NULL if it finds
 * no extent. */
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

/* Waits for an arena's lock, takes it, and counts the wait. */
static __attribute__ ((noinline)) void
wait_for_lock (TarnArena *arena, gboolean *is_due)
{
  lock (arena);
  *is_due |= _tarn_arena_note_wait (arena);
}

/* Counts a request for which an arena had no extent.  Returns TRUE if the arena should now get
 * segments from the queue's other arenas. */
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

/* Takes an extent of at least @size bytes from the calling thread's arena of a queue.  If that
 * arena has no such extent, takes one from another arena of the queue.  If the heap's users get
 * addresses, stores the extent's address in *memory.  Sets *is_due to TRUE if the caller should
 * call _tarn_heap_look_after ().  Returns NULL if
 * - the heap forbids read sections
 * - the arenas belong to another queue by now
 * - the request is larger than TarnHeap.max_unchecked
 * - no free extent is large enough
 * - the thread's arena should get a new segment first (grows_first ()) */
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

/* Takes an extent as _tarn_arena_take () does, but with the heap's lock instead of a read section.
 * The pool calls this while it traces allocations, because traced allocations need the heap's
 * lock. */
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

/* Removes a user's memory from the heap's table of extents in use, and returns the memory's extent.
 * The caller can later free the extent without the heap's lock.  Returns NULL if the memory is not
 * in an arena of the reference's queue.  The caller ensures that no other queue may still use the
 * memory. */
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

/* Takes the heap's lock, so that the caller can free extents into the arenas of @ref.  If the
 * function returns TRUE, the caller holds the lock until it calls _tarn_arena_end_put ().  Returns
 * FALSE without the lock if the arenas belong to another queue by now. */
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

/* Frees an extent into its arena.  If another thread holds the arena's lock, adds the extent to the
 * list TarnArena.left_extents instead.  A later holder of that lock frees the extents in the
 * list. */
static inline __attribute__ ((always_inline)) void
put (TarnArena *arena, TarnExtent *extent)
{
  touch (arena);
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
 * Returns NULL if the arena belongs to another queue by now, or the heap forbids read sections.
 * The result stays valid until the caller's read section ends. */
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
 * queue by now, or the heap forbids read sections. */
gboolean
_tarn_arena_put (const TarnArenaRef *ref, TarnExtent *extent)
{
  TarnArena *arena = get_arena_of (ref, extent);

  if (arena != NULL)
    put (arena, extent);
  return arena != NULL;
}

/* Stores in an extent the part (sub-buffer) that the driver made for it.  Returns FALSE, and stores
 * nothing, if the extent's arena belongs to another queue by now, or if the heap forbids read
 * sections at the moment. */
gboolean
_tarn_arena_begin_part (const TarnArenaRef *ref, TarnExtent *extent, TarnMemory memory)
{
  if (get_arena_of (ref, extent) == NULL)
    return FALSE;
  extent->memory = memory;
  extent->has_memory = TRUE;
  return TRUE;
}

/* Records that an extent's part (sub-buffer) is not valid from now on: the caller is about to free
 * the extent.  Returns FALSE, and does nothing, if the extent's arena belongs to another queue by
 * now, or the heap forbids read sections. */
gboolean
_tarn_arena_end_part (const TarnArenaRef *ref, TarnExtent *extent)
{
  if (get_arena_of (ref, extent) == NULL)
    return FALSE;
  extent->has_memory = FALSE;
  return TRUE;
}

/* Frees an extent whose part (sub-buffer) the caller has released.  Returns FALSE if the heap
 * forbids read sections; the caller must then call _tarn_arena_return (). */
gboolean
_tarn_arena_put_without_part (const TarnHeap *heap, TarnExtent *extent)
{
  if (!is_open (heap))
    return FALSE;
  put (extent->piece->range->arena, extent);
  return TRUE;
}
