/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Bounds the memory that may be stranded in a heap that is near its limit.
 *
 * A free extent in a piece that is in use cannot be returned to upstream.  If pieces cannot move,
 * such stranded bytes are lost for a request that is too large for each extent.  That does not
 * matter as long as the heap is far from its limit.  Near it, the most bytes that the program has
 * lately used and the stranded bytes must fit into the limit together.  The difference is the
 * number of bytes that a request may strand in addition.
 *
 * A request for much of the limit could strand much as soon as the program uses more.  So for such
 * a request the heap assumes that the program will use a quarter more.  In all, such requests may
 * strand a small share of the limit.  Bytes that other requests strand are not part of it: they are
 * usually more, and then each large request would need a piece of exactly its size.  If the
 * heap has nothing to spare, the request gets a piece of exactly its size.  Such a request may
 * share a piece that is in use only as long as the program has used less than a quarter of the
 * limit, because the other extents of the piece would strand all of its bytes once it is freed.
 *
 * If no limit is set, the heap learns it when upstream runs out.  The lock is held in all functions
 * here. */

#include "heap/heap-private.h"

/* The share of the limit that requests for much of it may strand. */
#define STRANDED_SHARE 64

/* A heap whose peak is below these shares of its limit is far from it, and very far. */
#define FAR_SHARE 6
#define VERY_FAR_SHARE 16

/* Gets the most bytes that the heap can have, as far as it knows; G_MAXSIZE if it does not know. */
gsize
_tarn_heap_get_most (const TarnHeap *heap)
{
  gsize limit = _tarn_heap_get_limit (heap);

  return MIN (limit != 0 ? limit : G_MAXSIZE, heap->full_bytes);
}

/* Gets the most bytes that the heap can have divided by @share; G_MAXSIZE / 2 if it does not know
 * them. */
gsize
_tarn_heap_get_share (const TarnHeap *heap, gsize share)
{
  gsize most = _tarn_heap_get_most (heap);

  return most != G_MAXSIZE ? most / share : G_MAXSIZE / 2;
}

/* Returns TRUE if a request is for much of the bytes that the heap can have. */
gboolean
_tarn_heap_is_much (const TarnHeap *heap, gsize size)
{
  gsize most = _tarn_heap_get_most (heap);

  return most != G_MAXSIZE && size > most / TARN_MUCH_SHARE;
}

/* Gets the bytes that are stranded. */
static gsize
get_stranded (const TarnHeap *heap)
{
  return heap->stats.free_bytes - _tarn_heap_get_idle_bytes (heap);
}

/* Gets the bytes that a heap with a limit has left, besides the stranded bytes and the most that
 * the program is expected to use: its lately used bytes, plus @quarters quarters of them. */
static gsize
get_left (const TarnHeap *heap, gsize size, gsize quarters)
{
  gsize most = _tarn_heap_get_most (heap), used = heap->stats.used_bytes;
  gsize peak = MAX (heap->peak_lately, heap->peak_before), left;

  _tarn_assert_locked (&heap->lock);
  peak = MAX (peak, used + MIN (size, G_MAXSIZE - used));
  left = most - MIN (most, peak);
  left -= MIN (left, quarters * (MIN (peak, G_MAXSIZE / 4) / 4));
  return left - MIN (left, get_stranded (heap));
}

/* Gets the number of bytes that a request may strand. */
gsize
_tarn_heap_get_spare (const TarnHeap *heap, gsize size)
{
  gsize strandable, stranded;

  if (_tarn_heap_get_most (heap) == G_MAXSIZE)
    return G_MAXSIZE;
  if (!_tarn_heap_is_much (heap, size))
    return get_left (heap, size, 0);
  strandable = _tarn_heap_get_share (heap, STRANDED_SHARE);
  stranded = _tarn_heap_get_stranded_by_huge (heap);
  return MIN (get_left (heap, size, 1), strandable - MIN (strandable, stranded));
}

/* Returns TRUE if a request may share a piece that is in use. */
gboolean
_tarn_heap_may_share (const TarnHeap *heap, gsize size)
{
  return _tarn_heap_get_most (heap) == G_MAXSIZE
         || get_left (heap, size, _tarn_heap_is_much (heap, size) ? 12 : 0) > 0;
}

/* Gets the largest request that may use any free extent, without a check of the stranded bytes.  If
 * the heap is far from its limit, these are all requests except those for much of it; if very far,
 * all. */
gsize
_tarn_heap_get_max_unchecked (const TarnHeap *heap)
{
  gsize most = _tarn_heap_get_most (heap);
  gsize had = MAX (MAX (heap->peak_lately, heap->peak_before), heap->stats.upstream_bytes);

  if (most == G_MAXSIZE || had < most / VERY_FAR_SHARE)
    return G_MAXSIZE;
  return had < most / FAR_SHARE ? most / TARN_MUCH_SHARE : 0;
}

/* Begins a new period if the last one has ended.  The heap then forgets the peaks before that one,
 * and that upstream ran out. */
void
_tarn_heap_age_peaks (TarnHeap *heap)
{
  gint64 now;

  _tarn_assert_locked (&heap->lock);
  if (_tarn_heap_get_most (heap) == G_MAXSIZE || heap->idle_time == G_MAXINT64)
    return;
  now = _tarn_clock_now ();
  if (now - heap->peak_at < heap->idle_time)
    return;
  heap->peak_at = now;
  heap->peak_before = heap->peak_lately;
  heap->peak_lately = heap->stats.used_bytes;
  heap->full_bytes = G_MAXSIZE; /* upstream fails again if it still has no more */
}

/* Notes that upstream had less than @size bytes left besides those of the heap, which has no idle
 * pieces. */
void
_tarn_heap_note_full (TarnHeap *heap, gsize size)
{
  gsize all = heap->stats.upstream_bytes;

  _tarn_assert_locked (&heap->lock);
  heap->full_bytes = MIN (heap->full_bytes, all + MIN (size, G_MAXSIZE - all));
}

/* Notes that the heap has grown: upstream may have more memory than when it ran out. */
void
_tarn_heap_note_growth (TarnHeap *heap)
{
  _tarn_assert_locked (&heap->lock);
  if (heap->stats.upstream_bytes >= heap->full_bytes)
    heap->full_bytes = G_MAXSIZE;
}
