/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Moves segments of memory from one arena of a queue to another arena of the same queue.  An arena
 * is a set of segments from which some of the queue's threads allocate.  The segments keep their
 * addresses and their extents (ranges in use or free), and the heap calls no driver function.
 * Even extents in use may move, because the queue executes its commands in order, no matter which
 * of its arenas has the memory.
 *
 * A queue has one arena at first.  When the heap adds arenas to the queue, all the queue's memory
 * is in the first arena.  A thread that finds no extent in its own arena has to search the other
 * arenas.  If threads had to search other arenas too often, the heap moves segments to the arena of
 * these threads.  It takes the segments from the queue's arena that has the most bytes, until both
 * arenas have about the same number of bytes.
 *
 * The caller of each function here holds the heap's lock and has forbidden read sections, in which
 * threads use arenas without that lock. */

#include "heap/heap-private.h"

/* Returns TRUE if the heap can separate a segment from the next one: no extent in use has bytes in
 * both segments.  The caller ensures that there is a next segment. */
static gboolean
can_part_behind (const TarnPiece *piece)
{
  const TarnExtent *extent = piece->after->extent;

  return extent->is_free || extent->start == piece->after->start;
}

/* Finds the longest run of adjacent segments that can move to another arena.  The run begins with
 * @first and has at most @most bytes.  The heap must be able to separate the run from the segment
 * after it.  Returns the run's last segment, and sets *bytes to the bytes of the run.  Returns NULL
 * if there is no such run.  The caller ensures that no segment is before @first.  The run does not
 * include the last segment of a region (reserved addresses): that segment must stay in the range
 * that adds segments at the region's end. */
static TarnPiece *
find_stretch (TarnPiece *first, gsize most, gsize *bytes)
{
  TarnPiece *last = NULL;
  gsize n = 0;

  for (TarnPiece *piece = first; piece != NULL && piece->size <= most - n; piece = piece->after)
    {
      n += piece->size;
      if (piece->after == NULL ? piece->region == NULL || piece->region->last_piece != piece
                               : can_part_behind (piece))
        {
          last = piece;
          *bytes = n;
        }
    }
  return last;
}

/* Finds the range that has the most bytes, among the ranges of one kind (for small, large or huge
 * requests) in all arenas of a queue. */
static TarnHeapRange *
find_richest (const TarnHeapQueue *queue, TarnRangeKind kind)
{
  TarnHeapRange *richest = &queue->arenas[0]->ranges[kind];

  for (guint i = 1; i < queue->n_arenas; i++)
    if (queue->arenas[i]->ranges[kind].bytes > richest->bytes)
      richest = &queue->arenas[i]->ranges[kind];
  return richest;
}

/* Moves segments to @range from the range that has the most bytes, among the ranges of the same
 * kind in all arenas of the queue.  Stops when both ranges have about the same number of bytes.
 * Stops earlier if extents in use span too many boundaries between segments. */
static void
even_out (TarnHeapRange *range)
{
  TarnHeapRange *richest = find_richest (range->arena->queue, range->kind);
  gsize wanted = (richest->bytes - range->bytes) / 2, bytes;
  GList *next;

  for (GList *link = richest->pieces.head; link != NULL && wanted > 0; link = next)
    {
      TarnPiece *first = link->data, *last;

      next = link->next;
      if (first->before != NULL || (last = find_stretch (first, wanted, &bytes)) == NULL)
        continue;
      _tarn_range_take_over (range, first, last);
      wanted -= bytes;
      next = richest->pieces.head;
    }
}

/* Moves segments to @arena from the other arenas of its queue.  Call this after too many requests
 * have found no extent in @arena.  Does nothing while another thread adds or removes segments. */
void
_tarn_arena_share_out (TarnArena *arena)
{
  TarnHeap *heap = arena->heap;

  _tarn_assert_locked (&heap->lock);
  if (heap->is_changing)
    return;
  for (guint i = 0; i < TARN_N_RANGES; i++)
    even_out (&arena->ranges[i]);
  _tarn_heap_check_if_full_debug (heap);
}
