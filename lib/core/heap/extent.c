/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Extents: how pieces are split and joined.  The lock is held in all of this.
 *
 * Each piece knows the extent that has its first byte.  A free extent may go over many pieces, so
 * that what becomes of them is written to as few as can be: where two extents are joined, the
 * larger one's struct stays, and where one is split, that of what remains. */

#include "heap/heap-private.h"
#include "record/record-private.h"

static void
record (TarnTraceKind kind, const TarnHeap *heap, guint64 start, gsize size)
{
  _tarn_record_numbers (kind, heap->base.id, start, size);
}

static inline guint64
end_of (const TarnExtent *extent)
{
  return extent->start + extent->size;
}

static inline guint64
end_of_piece (const TarnPiece *piece)
{
  return piece->start + piece->size;
}

/* Gets a struct, with a priority. */
static TarnExtent *
extent_new (TarnHeap *heap)
{
  TarnExtent *extent = heap->spare;

  if (extent != NULL)
    {
      heap->spare = extent->after;
      return extent;
    }
  extent = g_new0 (TarnExtent, 1);
  heap->chance = heap->chance * 1664525 + 1013904223; /* a full period; what matters is on top */
  extent->priority = heap->chance >> 8;
  return extent;
}

static void
extent_free (TarnHeap *heap, TarnExtent *extent)
{
  extent->after = heap->spare;
  heap->spare = extent;
}

/* Frees the structs that are kept for extents to come. */
void
_tarn_heap_free_spare (TarnHeap *heap)
{
  TarnExtent *extent;

  while ((extent = heap->spare) != NULL)
    {
      heap->spare = extent->after;
      g_free (extent);
    }
}

/* Gets the first piece that begins inside an extent; NULL: none does. */
static TarnPiece *
first_piece_inside (const TarnExtent *extent)
{
  TarnPiece *piece = extent->piece;

  if (piece->start < extent->start)
    piece = piece->after;
  return piece != NULL && piece->start < end_of (extent) ? piece : NULL;
}

/* Has the pieces that begin inside an extent know it, or another one that takes its place. */
static void
tell_pieces (const TarnExtent *extent, TarnExtent *owner)
{
  for (TarnPiece *piece = first_piece_inside (extent);
       piece != NULL && piece->start < end_of (extent); piece = piece->after)
    piece->extent = owner;
}

/* Gets the piece that has the byte at an address, from one on that lies before it. */
static TarnPiece *
find_piece (TarnPiece *piece, guint64 address)
{
  while (end_of_piece (piece) <= address)
    piece = piece->after;
  return piece;
}

static void
set_neighbours (TarnExtent *extent, TarnExtent *before, TarnExtent *after)
{
  extent->before = before;
  extent->after = after;
  if (before != NULL)
    before->after = extent;
  if (after != NULL)
    after->before = extent;
}

/* Splits the first bytes off a free extent, which is not in the index, and gets them as another
 * one. */
static TarnExtent *
split (TarnHeap *heap, TarnExtent *extent, gsize size)
{
  TarnExtent *first = extent_new (heap);

  g_assert (0 < size && size < extent->size);
  first->start = extent->start;
  first->size = size;
  first->piece = extent->piece;
  first->is_free = TRUE;
  set_neighbours (first, extent->before, extent);
  extent->start += size;
  extent->size -= size;
  extent->piece = find_piece (extent->piece, extent->start);
  tell_pieces (first, first);
  return first;
}

/* Makes two of an extent in use: the first so many bytes, and the rest, which it gets. */
TarnExtent *
_tarn_extent_split (TarnHeap *heap, TarnExtent *extent, gsize size)
{
  TarnExtent *rest = extent_new (heap);
  TarnHeapRegion *region = extent->piece->region;

  _tarn_assert_locked (&heap->lock);
  g_assert (!extent->is_free && 0 < size && size < extent->size);
  rest->start = extent->start + size;
  rest->size = extent->size - size;
  rest->piece = find_piece (extent->piece, rest->start);
  rest->is_free = FALSE;
  extent->size = size;
  set_neighbours (rest, extent, extent->after);
  tell_pieces (rest, rest);
  if (region != NULL && region->last_extent == extent)
    region->last_extent = rest;
  rest->piece->range->queue->n_used++;
  rest->piece->n_used += rest->piece->start < rest->start; /* which both are in now */
  TARN_PROBE (extent_free, heap->base.id, extent->start, extent->size + rest->size);
  TARN_PROBE (extent, heap->base.id, extent->start, extent->size);
  TARN_PROBE (extent, heap->base.id, rest->start, rest->size);
  if (_tarn_records ())
    {
      record (TARN_TRACE_EXTENT_FREE, heap, extent->start, extent->size + rest->size);
      record (TARN_TRACE_EXTENT, heap, extent->start, extent->size);
      record (TARN_TRACE_EXTENT, heap, rest->start, rest->size);
    }
  return rest;
}

/* Joins two free neighbours, which are not in the index. */
static TarnExtent *
join (TarnHeap *heap, TarnExtent *left, TarnExtent *right)
{
  TarnExtent *stays = left->size >= right->size ? left : right;
  TarnExtent *goes = stays == left ? right : left;
  TarnHeapRegion *region = left->piece->region;

  g_assert (left->is_free && right->is_free && end_of (left) == right->start);
  tell_pieces (goes, stays);
  if (region != NULL && region->last_extent == right)
    region->last_extent = stays;
  stays->size = left->size + right->size;
  stays->start = left->start;
  stays->piece = left->piece;
  set_neighbours (stays, left->before, right->after);
  extent_free (heap, goes);
  return stays;
}

/* Counts an extent among those that are in use, in each of its pieces. */
static void
begin_use (TarnHeap *heap, TarnExtent *extent)
{
  extent->is_free = FALSE;
  extent->piece->range->queue->n_used++;
  for (TarnPiece *piece = extent->piece; piece != NULL && piece->start < end_of (extent);
       piece = piece->after)
    if (piece->n_used++ == 0)
      {
        g_queue_unlink (&heap->idle, &piece->idle_link);
        heap->idle_bytes -= piece->size;
        piece->range->queue->n_idle--;
      }
  TARN_PROBE (extent, heap->base.id, extent->start, extent->size);
  if (_tarn_records ())
    record (TARN_TRACE_EXTENT, heap, extent->start, extent->size);
  heap->stats.used_bytes += extent->size;
  heap->stats.free_bytes -= extent->size;
  heap->stats.peak_used_bytes = MAX (heap->stats.peak_used_bytes, heap->stats.used_bytes);
  heap->peak_lately = MAX (heap->peak_lately, heap->stats.used_bytes);
}

/* Counts a piece among the idle ones.  Commands of its queue may still use it. */
static void
begin_idle (TarnHeap *heap, TarnPiece *piece)
{
  TarnHeapQueue *queue = piece->range->queue;

  piece->idle_since = queue->n_begun;
  piece->idle_at = _tarn_clock_now ();
  queue->has_unmarked = TRUE;
  queue->n_idle++;
  heap->idle_bytes += piece->size;
  g_queue_push_tail_link (&heap->idle, &piece->idle_link);
}

static void
end_use (TarnHeap *heap, TarnExtent *extent)
{
  g_assert (!extent->is_free);
  TARN_PROBE (extent_free, heap->base.id, extent->start, extent->size);
  if (_tarn_records ())
    record (TARN_TRACE_EXTENT_FREE, heap, extent->start, extent->size);
  extent->is_free = TRUE;
  extent->piece->range->queue->n_used--;
  for (TarnPiece *piece = extent->piece; piece != NULL && piece->start < end_of (extent);
       piece = piece->after)
    if (--piece->n_used == 0)
      begin_idle (heap, piece);
  heap->stats.used_bytes -= extent->size;
  heap->stats.free_bytes += extent->size;
}

/* Takes @size bytes out of a range for use, rounded up to the alignment if the extent has as many.
 * NULL: no free extent is large enough; or, unless @takes_any, the smallest one that is does not
 * suit. */
TarnExtent *
_tarn_range_take (TarnHeapRange *range, gsize size, gboolean takes_any)
{
  TarnHeap *heap = range->heap;
  TarnExtent *extent = _tarn_free_index_find (&range->free, size), *rest = extent;
  gsize rounded = _tarn_round_up (size, heap->alignment);

  _tarn_assert_locked (&heap->lock);
  if (extent == NULL
      || (!takes_any && heap->growth->suits != NULL && !heap->growth->suits (range, extent, size)))
    return NULL;
  _tarn_free_index_remove (&range->free, extent);
  if (extent->size > rounded)
    {
      extent = split (heap, rest, rounded);
      _tarn_free_index_add (&range->free, rest);
    }
  begin_use (heap, extent);
  return extent;
}

/* Joins a free extent, which is not in the index, with its free neighbours, and puts it there. */
static void
add_free (TarnHeapRange *range, TarnExtent *extent)
{
  TarnExtent *before = extent->before, *after = extent->after;

  if (after != NULL && after->is_free)
    {
      _tarn_free_index_remove (&range->free, after);
      extent = join (range->heap, extent, after);
    }
  if (before != NULL && before->is_free)
    {
      _tarn_free_index_remove (&range->free, before);
      extent = join (range->heap, before, extent);
    }
  _tarn_free_index_add (&range->free, extent);
}

/* Puts an extent back that is not used any more. */
void
_tarn_range_put (TarnHeapRange *range, TarnExtent *extent)
{
  _tarn_assert_locked (&range->heap->lock);
  end_use (range->heap, extent);
  add_free (range, extent);
}

/* Adds a piece, which is all free, and which no command uses.  One that does not begin at the end
 * of its region has no neighbours. */
void
_tarn_range_add_piece (TarnHeapRange *range, TarnPiece *piece)
{
  TarnHeap *heap = range->heap;
  TarnHeapRegion *region = piece->region;
  TarnExtent *extent = extent_new (heap);
  gboolean is_at_end = region != NULL && piece->start == region->end;

  _tarn_assert_locked (&heap->lock);
  extent->start = piece->start;
  extent->size = piece->size;
  extent->piece = piece;
  extent->is_free = TRUE;
  set_neighbours (extent, is_at_end ? region->last_extent : NULL, NULL);
  piece->range = range;
  piece->extent = extent;
  piece->n_used = 0;
  piece->idle_since = 0;
  piece->idle_at = _tarn_clock_now ();
  piece->before = is_at_end ? region->last_piece : NULL;
  piece->after = NULL;
  if (piece->before != NULL)
    piece->before->after = piece;
  if (region != NULL)
    region->n_pieces++;
  if (is_at_end)
    {
      region->end += piece->size;
      region->last_piece = piece;
      region->last_extent = extent;
    }
  g_queue_push_tail_link (&range->pieces, &piece->link);
  g_queue_push_tail_link (&heap->idle, &piece->idle_link);
  heap->idle_bytes += piece->size;
  range->queue->n_pieces++;
  range->queue->n_idle++;
  range->queue->bytes += piece->size;
  heap->stats.pieces++;
  heap->stats.free_bytes += piece->size;
  TARN_PROBE (piece, range->heap->base.id, piece->start, piece->size, range->queue->handle);
  if (_tarn_records ())
    _tarn_heap_record_piece (piece);
  add_free (range, extent);
}

/* Adds a piece that is all free, although commands of the range's queue may still use it. */
void
_tarn_range_add_busy_piece (TarnHeapRange *range, TarnPiece *piece)
{
  TarnHeapQueue *queue = range->queue;

  _tarn_range_add_piece (range, piece);
  piece->idle_since = queue->n_begun;
  queue->has_unmarked = TRUE;
}

/* Cuts a piece out of the free extent that goes over it, and gets what remains on its right. */
static TarnExtent *
cut_extent (TarnHeap *heap, TarnPiece *piece)
{
  TarnExtent *extent = piece->extent, *before = extent->before, *after;

  g_assert (extent->is_free);
  if (extent->start < piece->start)
    before = split (heap, extent, piece->start - extent->start);
  after = extent->after;
  if (extent->size > piece->size)
    {
      split (heap, extent, piece->size);
      after = extent;
      extent = piece->extent;
    }
  if (before != NULL)
    before->after = NULL;
  if (after != NULL)
    after->before = NULL;
  extent_free (heap, extent);
  if (before != NULL && before->is_free)
    _tarn_free_index_add (&piece->range->free, before);
  if (after != NULL && after->is_free)
    _tarn_free_index_add (&piece->range->free, after);
  return before;
}

/* Has a region's end be where the next piece goes, now that its last one has gone: in the place of
 * that one, unless it is still mapped there. */
static void
shrink_region (TarnHeapRegion *region, const TarnPiece *piece, TarnExtent *last_extent,
               gboolean is_mapped)
{
  if (!is_mapped)
    region->end = piece->start;
  region->last_piece = is_mapped ? NULL : piece->before;
  region->last_extent = is_mapped ? NULL : last_extent;
}

static void
cut_piece (TarnPiece *piece, gboolean stays_mapped)
{
  TarnHeapRange *range = piece->range;
  TarnHeap *heap = range->heap;
  TarnExtent *before;

  _tarn_assert_locked (&heap->lock);
  g_assert (piece->n_used == 0);
  _tarn_free_index_remove (&range->free, piece->extent);
  before = cut_extent (heap, piece);
  if (piece->before != NULL)
    piece->before->after = NULL;
  if (piece->after != NULL)
    piece->after->before = NULL;
  if (piece->region != NULL)
    {
      piece->region->n_pieces--;
      if (piece->region->last_piece == piece)
        shrink_region (piece->region, piece, before, stays_mapped);
    }
  g_queue_unlink (&range->pieces, &piece->link);
  g_queue_unlink (&heap->idle, &piece->idle_link);
  heap->idle_bytes -= piece->size;
  range->queue->n_pieces--;
  range->queue->n_idle--;
  range->queue->bytes -= piece->size;
  heap->stats.pieces--;
  heap->stats.free_bytes -= piece->size;
  TARN_PROBE (piece_gone, heap->base.id, piece->start, piece->size);
  if (_tarn_records ())
    record (TARN_TRACE_PIECE_GONE, heap, piece->start, piece->size);
}

/* Takes an idle piece out of its range.  Its addresses are not used again, unless it was the last
 * in its region. */
void
_tarn_range_cut_piece (TarnPiece *piece)
{
  cut_piece (piece, FALSE);
}

/* Takes an idle piece out of its range, which stays mapped where it is. */
void
_tarn_range_cut_mapped_piece (TarnPiece *piece)
{
  cut_piece (piece, TRUE);
}
