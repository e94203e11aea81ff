/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The heap's lock, and functions that forbid and allow read sections.  In a read section, a thread
 * allocates memory from the heap's arenas, or frees memory into them, without the heap's lock.  A
 * thread that holds the lock can also forbid read sections, so that no other thread uses the heap.
 * That thread then updates the heap's counters with the changes that other threads made in read
 * sections.  The field TarnHeap.door, a readers-writer lock, tells threads whether read sections
 * are forbidden ("closed") or allowed ("open"). */

#include "heap/heap-private.h"
#include "record/record-private.h"

/* A thread in a read section asks the heap to record an event only after many bytes of segments
 * have become idle in an arena: EVENT_STEP, or the heap's peak of bytes in use divided by
 * EVENT_SHARE if that is more. */
#define EVENT_STEP ((gsize) 8 << 20)
#define EVENT_SHARE 64

/* Sets TarnPiece.idle_at, the time when a segment became idle, in those idle segments of an arena
 * where this field is still 0.  Threads that make segments idle in read sections do not set the
 * field, because they do not read the clock. */
static void
date_idle (TarnArena *arena)
{
  gint64 now = 0;

  for (GList *link = arena->idle.tail; link != NULL; link = link->prev)
    {
      TarnPiece *piece = link->data;

      if (piece->idle_at != 0)
        return;
      if (now == 0)
        now = _tarn_clock_now ();
      piece->idle_at = now;
    }
}

/* Adds to the heap's counters the change of an arena's bytes in use since the last call for this
 * arena.  Segments of the arena may have become idle, so adds the arena's queue to the list
 * TarnHeap.watched. */
static void
add_uncounted (TarnArena *arena)
{
  TarnHeap *heap = arena->heap;
  gsize bytes = arena->uncounted_bytes;

  heap->stats.used_bytes += bytes;
  heap->stats.free_bytes -= bytes;
  __atomic_store_n (&arena->uncounted_bytes, 0, __ATOMIC_RELAXED);
  arena->noted_bytes = 0;
  date_idle (arena);
  _tarn_queue_watch (arena->queue);
}

/* Raises the heap's peaks of bytes in use to @used if they are lower. */
static void
raise_peaks (TarnHeap *heap, gsize used)
{
  heap->stats.peak_used_bytes = MAX (heap->stats.peak_used_bytes, used);
  heap->peak_lately = MAX (heap->peak_lately, used);
  heap->peak_with_lent = MAX (heap->peak_with_lent, used + heap->lent_bytes);
}

/* Updates the heap's counters with the change of an arena's bytes in use since the last call for
 * this arena.  The caller holds the heap's lock and has forbidden read sections. */
void
_tarn_arena_count (TarnArena *arena)
{
  _tarn_heap_assert_closed (arena->heap);
  add_uncounted (arena);
  raise_peaks (arena->heap, arena->heap->stats.used_bytes);
}

/* Frees the extents in TarnArena.left_extents.  Threads put extents into that list instead of
 * waiting for the arena's lock.  The caller holds the arena's lock in a read section, or it holds
 * the heap's lock and has forbidden read sections. */
void
_tarn_arena_drain (TarnArena *arena)
{
  TarnExtent *extent = __atomic_exchange_n (&arena->left_extents, NULL, __ATOMIC_ACQUIRE);

  while (extent != NULL)
    {
      TarnExtent *next = extent->next;

      arena->n_unnamed--;
      _tarn_range_put_quickly (extent->piece->range, extent);
      extent = next;
    }
}

/* Adds an arena's n_unnamed to the heap's n_unnamed, and sets the arena's n_unnamed to 0.  The two
 * fields count extents in use that are not in the heap's table of extents in use. */
void
_tarn_arena_count_unnamed (TarnArena *arena)
{
  arena->heap->n_unnamed += arena->n_unnamed;
  arena->n_unnamed = 0;
}

/* Updates the heap's counters with all changes that threads made in read sections.  Looks only at
 * the arenas in the list TarnHeap.touched, and empties this list: a heap can have thousands of
 * arenas, and threads change few of them before read sections are forbidden again.  The caller
 * holds the heap's lock and has forbidden read sections. */
static void
collect (TarnHeap *heap)
{
  for (TarnArena *arena = __atomic_exchange_n (&heap->touched, NULL, __ATOMIC_RELAXED);
       arena != NULL; arena = arena->next_touched)
    {
      __atomic_store_n (&arena->is_touched, FALSE, __ATOMIC_RELAXED);
      _tarn_arena_drain (arena);
      add_uncounted (arena);
      _tarn_arena_count_unnamed (arena);
    }
  /* Raise the peaks only after the loop: bytes may have been freed in one arena and then allocated
   * in another, and the sum is right only when both arenas are counted. */
  raise_peaks (heap, heap->stats.used_bytes);
  raise_peaks (heap, (gsize) __atomic_load_n (&heap->peak_in_visits, __ATOMIC_RELAXED));
  __atomic_store_n (&heap->peak_in_visits, 0, __ATOMIC_RELAXED);
}

/* Forbids read sections of a heap, and waits until no thread is in a read section.  Then updates
 * the heap's counters with the changes that threads made in read sections.  Does nothing if read
 * sections are forbidden already.  The caller holds the heap's lock. */
void
_tarn_heap_close (TarnHeap *heap)
{
  _tarn_assert_locked (&heap->lock);
  if (_tarn_door_is_closed (&heap->door))
    return;
  _tarn_door_close (&heap->door);
  collect (heap);
}

/* Allows read sections again.  Does nothing if they are allowed already.  First updates three
 * fields that threads in read sections read: max_unchecked, event_bytes and room_bytes.  If no
 * threads use read sections, only updates max_unchecked.  While allocations are traced, updates the
 * fields, but does not allow read sections, because traced allocations need the heap's lock. */
static void
open_door (TarnHeap *heap)
{
  if (!_tarn_door_is_closed (&heap->door))
    return;
  heap->max_unchecked
      = heap->growth->suits == NULL ? G_MAXSIZE : _tarn_heap_get_max_unchecked (heap);
  if (!heap->has_visitors)
    return;
  heap->event_bytes = MAX (EVENT_STEP, heap->stats.peak_used_bytes / EVENT_SHARE);
  heap->room_bytes = _tarn_heap_get_room (heap);
  if (!_tarn_follows ())
    _tarn_door_open (&heap->door);
}

/* Takes the lock of a heap, and forbids read sections. */
void
_tarn_heap_lock (TarnHeap *heap)
{
  _tarn_mutex_lock_adaptively (&heap->lock);
  _tarn_heap_close (heap);
}

/* Takes the heap's lock without forbidding read sections.  The caller may use only data that
 * threads in read sections do not use: the table of extents in use, and events.  Forbidding read
 * sections costs more: the caller has to wait for each thread in a read section, and other threads
 * have to wait for the caller. */
void
_tarn_heap_lock_open (TarnHeap *heap)
{
  _tarn_mutex_lock_adaptively (&heap->lock);
}

gboolean
_tarn_heap_trylock (TarnHeap *heap)
{
  if (!_tarn_mutex_trylock (&heap->lock))
    return FALSE;
  _tarn_heap_close (heap);
  return TRUE;
}

void
_tarn_heap_unlock (TarnHeap *heap)
{
  open_door (heap);
  _tarn_mutex_unlock (&heap->lock);
}

/* Releases the heap's lock, waits until another thread signals TarnHeap.changed, and takes the lock
 * again.  Allows read sections during the wait, and forbids them afterwards. */
void
_tarn_heap_wait (TarnHeap *heap)
{
  open_door (heap);
  _tarn_cond_wait (&heap->changed, &heap->lock);
  _tarn_heap_close (heap);
}
