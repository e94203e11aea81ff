/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Moves pieces (segments of memory) from one arena of a queue to another arena of the same queue.
 * The pieces keep their addresses and their extents, even those in use, and the heap calls no
 * driver function.  This is safe because the queue executes its commands in order, no matter which
 * of the queue's arenas has the memory.
 *
 * A queue has one arena at first.  When it gets more arenas, all its memory is in the first one.
 * Threads that find no extent in their own arena have to search the others.  If that happens too
 * often, the heap moves pieces to their arena from the arena of the queue that has most bytes,
 * until both have about the same number of bytes.
 *
 * The caller of each function here holds the heap's lock and has closed the heap's door. */

#include "heap/heap-private.h"

/* Returns TRUE if a piece can be separated from the piece after it: no extent in use spans their
 * boundary.  There must be a piece after it. */
static gboolean
can_part_behind (const TarnPiece *piece)
{
  const TarnExtent *extent = piece->after->extent;

  return extent->is_free || extent->start == piece->after->start;
}

/* Finds the longest run of adjacent pieces that begins with @first, has at most @most bytes, and
 * can be separated from the piece after it.  Returns the last piece of the run, and sets *bytes to
 * the bytes of the run.  Returns NULL if there is no such run.  There must be no piece before
 * @first.  The run never includes the last piece of a region, because that piece stays in the range
 * that adds pieces at the region's end. */
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

/* Adds up the sizes of a range's pieces in bytes. */
static gsize
count_bytes (const TarnHeapRange *range)
{
  gsize bytes = 0;

  for (const GList *link = range->pieces.head; link != NULL; link = link->next)
    bytes += ((const TarnPiece *) link->data)->size;
  return bytes;
}

/* Finds the range with the most bytes among the ranges of one kind in all arenas of a queue.  Sets
 * *most to the bytes of that range. */
static TarnHeapRange *
find_richest (const TarnHeapQueue *queue, TarnRangeKind kind, gsize *most)
{
  TarnHeapRange *richest = NULL;

  *most = 0;
  for (guint i = 0; i < queue->n_arenas; i++)
    {
      gsize bytes = count_bytes (&queue->arenas[i]->ranges[kind]);

      if (richest == NULL || bytes > *most)
        {
          richest = &queue->arenas[i]->ranges[kind];
          *most = bytes;
        }
    }
  return richest;
}

/* Moves pieces to a range from the richest range, which has the most bytes of all ranges of the
 * same kind and queue, until both have about the same number of bytes.  Moves fewer if extents in
 * use span too many boundaries between pieces. */
static void
even_out (TarnHeapRange *range)
{
  gsize most, bytes, own = count_bytes (range);
  TarnHeapRange *richest = find_richest (range->arena->queue, range->kind, &most);
  gsize wanted = (most - own) / 2;
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

/* Moves pieces from the other arenas of a queue to @arena.  Does nothing while another thread
 * changes the set of pieces.  Call this if @arena had no extent for too many requests. */
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
