/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Bounds the memory that a heap near its limit may strand.  The caller of each function here holds
 * the heap's lock.
 *
 * A heap divides segments of memory into extents.  A free extent is stranded if another extent of
 * its segment is in use.  The heap cannot return such a segment to upstream.  If segments cannot
 * move, the heap also cannot merge stranded extents of several segments to serve a larger request.
 * That does no harm as long as the heap is far from its limit.  Near the limit, the heap computes
 * its spare bytes:
 *
 *     spare bytes = limit - peak - stranded bytes
 *
 * The peak is the most bytes in use lately, or the bytes in use with the request if these are more.
 * A request may strand at most the spare bytes.  If there are no spare bytes, a request that is not
 * small gets a segment of exactly its size.
 *
 * A request for much of the limit (more than 1/512 of it) can strand many bytes.  So the rules for
 * such requests are stricter:
 * - The heap subtracts 1.25 times the peak, because the program may soon use more memory.
 * - These requests use the segments for huge requests.  Together these segments may strand at most
 *   1/64 of the limit.  Stranded bytes in other segments do not count for this bound.  The stranded
 *   bytes in other segments usually exceed 1/64 of the limit: if they counted, every request for
 *   much of the limit would need a segment of exactly its size.
 * - These requests may take an extent of a segment in use only if the segment has at most 1/64 of
 *   the limit, and if 4 times the peak plus the stranded bytes are less than the limit.  When the
 *   program frees that extent, the segment's other extents may still be in use, and then all bytes
 *   of the extent are stranded.  So the segment must be small, and the heap far from its limit.
 *
 * When upstream refuses memory, the heap learns a limit: the heap's bytes at that time plus the
 * bytes that upstream refused.  The learnt limit holds if no limit is set, or if the set limit is
 * higher. */

#include "heap/heap-private.h"

/* A divisor of the heap's limit.  All requests for more bytes than the limit divided by
 * TARN_MUCH_SHARE together may strand at most the limit divided by STRANDED_SHARE.  Stranded bytes
 * are free, but the heap cannot return them to upstream. */
#define STRANDED_SHARE 64

/* A divisor of the heap's limit.  The heap is far from its limit if its bytes and its peak are
 * below the limit divided by FAR_SHARE. */
#define FAR_SHARE 6

/* Returns the heap's limit in bytes: the limit that the program or the pool has set, or the limit
 * that the heap has learnt when upstream refused memory, whichever is less.  Returns G_MAXSIZE if
 * there is no limit. */
gsize
_tarn_heap_get_most (const TarnHeap *heap)
{
  gsize limit = _tarn_heap_get_limit (heap);

  return MIN (limit != 0 ? limit : G_MAXSIZE, heap->full_bytes);
}

/* Returns the heap's limit in bytes divided by @share.  If the heap has no limit, returns
 * G_MAXSIZE / 2: no request has that many bytes, and a caller can round this number up without
 * overflow. */
gsize
_tarn_heap_get_share (const TarnHeap *heap, gsize share)
{
  gsize most = _tarn_heap_get_most (heap);

  return most != G_MAXSIZE ? most / share : G_MAXSIZE / 2;
}

/* Returns TRUE if a request of @size bytes needs much of the heap's limit: more than the limit
 * divided by TARN_MUCH_SHARE. */
gboolean
_tarn_heap_is_much (const TarnHeap *heap, gsize size)
{
  gsize most = _tarn_heap_get_most (heap);

  return most != G_MAXSIZE && size > most / TARN_MUCH_SHARE;
}

/* Returns the number of stranded bytes, which are the free bytes in segments that are in use. */
static gsize
get_stranded (const TarnHeap *heap)
{
  return heap->stats.free_bytes - _tarn_heap_get_idle_bytes (heap);
}

/* Computes the bytes of the heap's limit that remain after a request of @size bytes:
 *
 *     limit - peak - @quarters * peak / 4 - stranded bytes
 *
 * Returns 0 if this is negative.  The peak is the most bytes in use lately, or the bytes in use
 * with this request if these are more.  @quarters is the number of quarters of the peak that stay
 * reserved, because the program may use more memory later. */
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

/* Computes how many bytes a request of @size bytes may strand, that is, leave free in a segment
 * that is in use.  Returns G_MAXSIZE if the heap has no limit. */
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

/* Returns TRUE if a request of @size bytes may take a free extent of a segment that has other
 * extents in use.  When the program frees the extent later, the extent may be stranded: free, but
 * in a segment that the heap cannot return to upstream.  So the result is FALSE if the heap is near
 * its limit. */
gboolean
_tarn_heap_may_share (const TarnHeap *heap, gsize size)
{
  return _tarn_heap_get_most (heap) == G_MAXSIZE
         || get_left (heap, size, _tarn_heap_is_much (heap, size) ? 12 : 0) > 0;
}

/* Returns TRUE if a request of @size bytes may take a free extent of @piece, a segment that has
 * other extents in use.  A request for more bytes than the heap's limit divided by TARN_MUCH_SHARE
 * may do so only if the segment is small (STRANDED_SHARE). */
gboolean
_tarn_heap_may_share_piece (const TarnHeap *heap, const TarnPiece *piece, gsize size)
{
  return _tarn_heap_may_share (heap, size)
         && (!_tarn_heap_is_much (heap, size)
             || piece->size <= _tarn_heap_get_share (heap, STRANDED_SHARE));
}

/* Computes the size of the largest request that may take any free extent without a check of the
 * bytes that it strands (leaves free in a segment that the heap then cannot return to upstream).
 * If there is no limit, this is G_MAXSIZE, so no request needs the check.  If the heap's bytes and
 * its peak are below 1/6 of the limit (FAR_SHARE), it is the limit divided by TARN_MUCH_SHARE.
 * Otherwise it is 0, so every request needs the check. */
gsize
_tarn_heap_get_max_unchecked (const TarnHeap *heap)
{
  gsize most = _tarn_heap_get_most (heap);
  gsize had = MAX (MAX (heap->peak_lately, heap->peak_before), heap->stats.upstream_bytes);

  if (most == G_MAXSIZE)
    return G_MAXSIZE;
  return had < most / FAR_SHARE ? most / TARN_MUCH_SHARE : 0;
}

/* Begins a new period of the heap's recent peak of bytes in use, if the present period has lasted
 * for TarnHeap.idle_time.  The heap keeps the peak of the period that is over and begins the peak
 * of the new period.  It forgets the peaks of all periods before.  Also forgets the limit that the
 * heap learnt when upstream refused memory, if that was TARN_SHORT_TIME ago: the heap learns one
 * again if upstream refuses memory again. */
void
_tarn_heap_age_peaks (TarnHeap *heap)
{
  gint64 now;

  _tarn_assert_locked (&heap->lock);
  if (_tarn_heap_get_most (heap) == G_MAXSIZE)
    return;
  now = _tarn_clock_now ();
  if (now - heap->short_at >= TARN_SHORT_TIME)
    heap->full_bytes = G_MAXSIZE;
  if (heap->idle_time == G_MAXINT64 || now - heap->peak_at < heap->idle_time)
    return;
  heap->peak_at = now;
  heap->peak_before = heap->peak_lately;
  heap->peak_lately = heap->stats.used_bytes;
}

/* Records that upstream has run out of memory. */
void
_tarn_heap_note_short (TarnHeap *heap)
{
  _tarn_assert_locked (&heap->lock);
  heap->is_short = TRUE;
  heap->short_at = _tarn_clock_now ();
}

/* Records that upstream refused @size more bytes for the heap.  The heap's present bytes plus @size
 * become the limit that the heap has learnt, unless it has learnt a lower one.  Before the call,
 * the caller returns all idle segments that the heap can return. */
void
_tarn_heap_note_full (TarnHeap *heap, gsize size)
{
  gsize all = heap->stats.upstream_bytes;

  _tarn_assert_locked (&heap->lock);
  heap->short_at = _tarn_clock_now ();
  heap->full_bytes = MIN (heap->full_bytes, all + MIN (size, G_MAXSIZE - all));
}

/* Forgets the limit that the heap learnt when upstream refused memory, if the heap has at least
 * that many bytes now.  The heap calls this function after it has grown. */
void
_tarn_heap_note_growth (TarnHeap *heap)
{
  _tarn_assert_locked (&heap->lock);
  if (heap->stats.upstream_bytes >= heap->full_bytes)
    heap->full_bytes = G_MAXSIZE;
}
