/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Moves pieces from one arena of a queue to another one, as they are: with their extents in use, at
 * the same addresses, and without a driver call.  This is safe because the queue executes its
 * commands in order, in whichever of its arenas the memory is.
 *
 * A queue has one arena at first, and all its memory is there when it gets more of them.  An arena
 * whose threads find no extent there, and have to search the others, gets as much memory as the one
 * that has most.
 *
 * The lock is held in all functions here, and the door is closed. */

#include "heap/heap-private.h"

/* Returns TRUE if no extent in use spans the end of a piece, which has a neighbour there. */
static gboolean
can_part_behind (const TarnPiece *piece)
{
  const TarnExtent *extent = piece->after->extent;

  return extent->is_free || extent->start == piece->after->start;
}

/* Finds the longest run of adjacent pieces that begins with @first, has at most @most bytes, and
 * can be separated.  Returns its last piece, and sets *bytes to its size.  Returns NULL if there is
 * none.  @first has no neighbour before it.  The last piece of a region stays with the range that
 * grows there. */
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

/* Adds up the bytes of a range's pieces. */
static gsize
count_bytes (const TarnHeapRange *range)
{
  gsize bytes = 0;

  for (const GList *link = range->pieces.head; link != NULL; link = link->next)
    bytes += ((const TarnPiece *) link->data)->size;
  return bytes;
}

/* Finds the range of a kind that has the most bytes, among the arenas of a queue. */
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

/* Moves pieces to a range, until it has as many bytes as the one of its queue that has most, as far
 * as pieces can be separated. */
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

/* Moves pieces of the queue's other arenas to an arena that had no extent for too many requests. */
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
