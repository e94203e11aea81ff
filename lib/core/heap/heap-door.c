/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The heap's lock and its door.  The door is a readers-writer lock: while it is open, it admits
 * threads in read sections, which allocate without the heap's lock.  A thread that holds the heap's
 * lock closes the door to have the heap alone, and then adds the changes that other threads made in
 * read sections to the heap's counters. */

#include "heap/heap-private.h"
#include "record/record-private.h"

/* A thread in a read section asks for an event after EVENT_STEP bytes of its arena, or the peak of
 * bytes in use divided by EVENT_SHARE if that is more, have become idle. */
#define EVENT_STEP ((gsize) 8 << 20)
#define EVENT_SHARE 64

/* Sets the time (idle_at) of the pieces that have become idle since the last call. */
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

/* Adds the changes of an arena's bytes in use since the last call to the heap's counters. */
void
_tarn_arena_count (TarnArena *arena)
{
  TarnHeap *heap = arena->heap;
  gsize bytes = arena->uncounted_bytes;

  _tarn_heap_assert_closed (heap);
  heap->stats.used_bytes += bytes;
  heap->stats.free_bytes -= bytes;
  __atomic_store_n (&arena->uncounted_bytes, 0, __ATOMIC_RELAXED);
  arena->noted_bytes = 0;
  heap->stats.peak_used_bytes = MAX (heap->stats.peak_used_bytes, heap->stats.used_bytes);
  heap->peak_lately = MAX (heap->peak_lately, heap->stats.used_bytes);
  date_idle (arena);
}

/* Frees the extents that threads left in an arena's list instead of waiting for its lock. */
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

/* Adds an arena's n_unnamed (extents in use that are not in the heap's table) to the heap's. */
void
_tarn_arena_count_unnamed (TarnArena *arena)
{
  arena->heap->n_unnamed += arena->n_unnamed;
  arena->n_unnamed = 0;
}

/* Adds all changes that threads made in read sections to the heap's counters.  The caller holds the
 * heap's lock and has closed the door. */
static void
collect (TarnHeap *heap)
{
  guint64 peak;

  TARN_FOR_EACH_ARENA (arena, heap)
    {
      _tarn_arena_drain (arena);
      _tarn_arena_count (arena);
      _tarn_arena_count_unnamed (arena);
    }
  peak = __atomic_load_n (&heap->peak_in_visits, __ATOMIC_RELAXED);
  heap->stats.peak_used_bytes = MAX (heap->stats.peak_used_bytes, (gsize) peak);
  heap->peak_lately = MAX (heap->peak_lately, (gsize) peak);
  __atomic_store_n (&heap->peak_in_visits, 0, __ATOMIC_RELAXED);
}

/* Closes the door of a heap, unless it is closed already: waits until no thread is in a read
 * section.  The caller holds the heap's lock. */
void
_tarn_heap_close (TarnHeap *heap)
{
  _tarn_assert_locked (&heap->lock);
  if (_tarn_door_is_closed (&heap->door))
    return;
  _tarn_door_close (&heap->door);
  collect (heap);
}

/* Opens the heap's door if it is closed and threads use read sections.  Leaves the door closed
 * while allocations are traced, because traced allocations need the heap's lock. */
static void
open_door (TarnHeap *heap)
{
  if (!_tarn_door_is_closed (&heap->door))
    return;
  heap->max_unchecked
      = heap->growth->suits == NULL ? G_MAXSIZE : _tarn_heap_get_max_unchecked (heap);
  heap->event_bytes = MAX (EVENT_STEP, heap->stats.peak_used_bytes / EVENT_SHARE);
  heap->room_bytes = _tarn_heap_get_room (heap);
  if (heap->has_visitors && !_tarn_follows ())
    _tarn_door_open (&heap->door);
}

/* Takes the lock of a heap, and closes the door. */
void
_tarn_heap_lock (TarnHeap *heap)
{
  _tarn_mutex_lock_adaptively (&heap->lock);
  _tarn_heap_close (heap);
}

/* Takes the heap's lock, and leaves the door open, so that other threads go on to use read
 * sections.  The caller may use only data that no read section reads: the table of memory in use,
 * and events.  To close the door would mean to wait for each thread in a read section, and make
 * others wait. */
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

/* Waits until another thread signals TarnHeap.changed, and releases the heap's lock meanwhile. */
void
_tarn_heap_wait (TarnHeap *heap)
{
  open_door (heap);
  _tarn_cond_wait (&heap->changed, &heap->lock);
  _tarn_heap_close (heap);
}
