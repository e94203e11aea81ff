/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * How much memory may be stranded in a heap that is near its limit.
 *
 * A free extent in a piece that is in use cannot go back to upstream.  Where pieces cannot move,
 * such stranded bytes are lost for a request that is too large for each of them.  That does not
 * matter as long as the heap is far from its limit.  So the heap compares: what the program has
 * lately used at most, and what is stranded, must fit into the limit together.  The difference is
 * what a request may strand more.
 *
 * A request for much of the limit could strand much as soon as the program uses more.  So the heap
 * reckons with a program that goes on to use a quarter more; and in all, such requests strand
 * a small share of the limit, which is the most that a program cannot use of it.  With nothing to
 * spare, a request gets a piece of exactly its size.  A piece that is in use such a request may
 * share only as long as the program has used less than a quarter of the limit: the others in the
 * piece would strand all of its bytes once it is freed.
 *
 * Without a limit, the heap learns it when upstream runs out.  The lock is held in all of this. */

#include "heap/heap-private.h"

/* The share of the limit that requests for much of it may strand. */
#define STRANDED_SHARE 64

/* A heap that has had less than these shares of the most that it can have is far from that, and
 * very far. */
#define FAR_SHARE 6
#define VERY_FAR_SHARE 16

/* Gets the most bytes that the heap can have, as far as it knows; G_MAXSIZE: it does not know. */
gsize
_tarn_heap_get_most (const TarnHeap *heap)
{
  gsize limit = _tarn_heap_get_limit (heap);

  return MIN (limit != 0 ? limit : G_MAXSIZE, heap->full_bytes);
}

/* Gets one byte in @share of what the heap can have; G_MAXSIZE / 2: it does not know that. */
gsize
_tarn_heap_get_share (const TarnHeap *heap, gsize share)
{
  gsize most = _tarn_heap_get_most (heap);

  return most != G_MAXSIZE ? most / share : G_MAXSIZE / 2;
}

/* Returns TRUE if a request is for much of what the heap can have. */
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

/* Gets the bytes that a heap with a limit has left, beside stranded bytes and the most that the
 * program is going to use: its lately used bytes, and @quarters quarters of these. */
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

/* Gets how many bytes a request may strand. */
gsize
_tarn_heap_get_spare (const TarnHeap *heap, gsize size)
{
  gsize stranded, strandable;

  if (_tarn_heap_get_most (heap) == G_MAXSIZE)
    return G_MAXSIZE;
  if (!_tarn_heap_is_much (heap, size))
    return get_left (heap, size, 0);
  stranded = get_stranded (heap);
  strandable = _tarn_heap_get_share (heap, STRANDED_SHARE);
  return MIN (get_left (heap, size, 1), strandable - MIN (strandable, stranded));
}

/* Returns TRUE if a request may share a piece that others use. */
gboolean
_tarn_heap_may_share (const TarnHeap *heap, gsize size)
{
  return _tarn_heap_get_most (heap) == G_MAXSIZE
         || get_left (heap, size, _tarn_heap_is_much (heap, size) ? 12 : 0) > 0;
}

/* Gets the largest request that any free extent may serve, without a look at what is stranded.
 * Where the heap is far from its limit, these are all but requests for much of it; where it is very
 * far, all. */
gsize
_tarn_heap_get_max_unchecked (const TarnHeap *heap)
{
  gsize most = _tarn_heap_get_most (heap);
  gsize had = MAX (MAX (heap->peak_lately, heap->peak_before), heap->stats.upstream_bytes);

  if (most == G_MAXSIZE || had < most / VERY_FAR_SHARE)
    return G_MAXSIZE;
  return had < most / FAR_SHARE ? most / TARN_MUCH_SHARE : 0;
}

/* Begins a new period if the last one has ended.  Peaks before that one are forgotten, and so is
 * that upstream ran out. */
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
  heap->full_bytes = G_MAXSIZE; /* upstream says so again if it still has no more */
}

/* Notes that upstream had less than @size bytes left, besides those of the heap, which has no idle
 * pieces. */
void
_tarn_heap_note_full (TarnHeap *heap, gsize size)
{
  gsize all = heap->stats.upstream_bytes;

  _tarn_assert_locked (&heap->lock);
  heap->full_bytes = MIN (heap->full_bytes, all + MIN (size, G_MAXSIZE - all));
}

/* Notes that the heap has grown: upstream may have more than it had once. */
void
_tarn_heap_note_growth (TarnHeap *heap)
{
  _tarn_assert_locked (&heap->lock);
  if (heap->stats.upstream_bytes >= heap->full_bytes)
    heap->full_bytes = G_MAXSIZE;
}
