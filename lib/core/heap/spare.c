/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Bounds the memory that may be stranded in a heap that is near its limit.
 *
 * A heap divides pieces (segments of memory) into extents.  A free extent is stranded if another
 * extent of its piece is in use, because the heap cannot return that piece to upstream.  If pieces
 * cannot move, a request that is larger than each stranded extent cannot use the stranded bytes.
 * That does not matter as long as the heap is far from its limit.  Near the limit, two numbers of
 * bytes must fit into the limit together: the most bytes in use lately, and the stranded bytes.
 * The rest of the limit are spare bytes, which a request may strand in addition.
 *
 * A request for much of the limit can strand many bytes, which are missing when the program later
 * uses more.  So for such a large request the heap assumes that the program will use a quarter more
 * than lately.  Besides, all large requests together may strand only a small share of the limit.
 * Bytes that other requests strand do not count towards this share: usually they are more than the
 * share, so every large request would then need a piece of exactly its size.  If the heap has no
 * spare bytes, a large request does get a piece of exactly its size.  A piece that is in
 * use may serve a large request only if the most bytes in use lately, with this request, are less
 * than a quarter of the limit.  If they are more, the other extents of the piece would strand all
 * bytes of the large extent as soon as the program frees that extent.
 *
 * If no limit is set, the heap learns one when upstream refuses memory: the bytes that the heap
 * would have in all with that memory.  The caller of each function here holds the heap's lock. */

#include "heap/heap-private.h"

/* All requests for much of the limit together may strand the limit divided by STRANDED_SHARE. */
#define STRANDED_SHARE 64

/* A heap is far from its limit if its peak is below the limit divided by FAR_SHARE, and very far if
 * its peak is below the limit divided by VERY_FAR_SHARE. */
#define FAR_SHARE 6
#define VERY_FAR_SHARE 16

/* Gets the heap's limit: the most bytes that the heap may have, or can get from upstream as far as
 * is known.  Returns G_MAXSIZE if no limit is set or known. */
gsize
_tarn_heap_get_most (const TarnHeap *heap)
{
  gsize limit = _tarn_heap_get_limit (heap);

  return MIN (limit != 0 ? limit : G_MAXSIZE, heap->full_bytes);
}

/* Gets the heap's limit divided by @share, or G_MAXSIZE / 2 if no limit is set or known. */
gsize
_tarn_heap_get_share (const TarnHeap *heap, gsize share)
{
  gsize most = _tarn_heap_get_most (heap);

  return most != G_MAXSIZE ? most / share : G_MAXSIZE / 2;
}

/* Returns TRUE if a request of @size bytes is for much of the limit: more than the limit divided by
 * TARN_MUCH_SHARE. */
gboolean
_tarn_heap_is_much (const TarnHeap *heap, gsize size)
{
  gsize most = _tarn_heap_get_most (heap);

  return most != G_MAXSIZE && size > most / TARN_MUCH_SHARE;
}

/* Gets the number of stranded bytes: free bytes in pieces that are in use. */
static gsize
get_stranded (const TarnHeap *heap)
{
  return heap->stats.free_bytes - _tarn_heap_get_idle_bytes (heap);
}

/* Computes the bytes of the heap's limit that are left after a request of @size bytes, if the
 * program then uses as much as the heap expects.  Subtracts from the limit the most bytes in use
 * lately (or the bytes in use with this request, if these are more), @quarters quarters of these
 * bytes, and the stranded bytes. */
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

/* Gets the number of bytes that a request of @size bytes may strand. */
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

/* Returns TRUE if a request of @size bytes may take a free extent of a piece in which other extents
 * are in use. */
gboolean
_tarn_heap_may_share (const TarnHeap *heap, gsize size)
{
  return _tarn_heap_get_most (heap) == G_MAXSIZE
         || get_left (heap, size, _tarn_heap_is_much (heap, size) ? 12 : 0) > 0;
}

/* Gets the size of the largest request that may use any free extent, without a check of the
 * stranded bytes.  If the heap is very far from its limit, every request may.  If the heap is far
 * from its limit, every request may except those for much of the limit.  Otherwise no request may:
 * returns 0. */
gsize
_tarn_heap_get_max_unchecked (const TarnHeap *heap)
{
  gsize most = _tarn_heap_get_most (heap);
  gsize had = MAX (MAX (heap->peak_lately, heap->peak_before), heap->stats.upstream_bytes);

  if (most == G_MAXSIZE || had < most / VERY_FAR_SHARE)
    return G_MAXSIZE;
  return had < most / FAR_SHARE ? most / TARN_MUCH_SHARE : 0;
}

/* Begins a new period of the peaks if the current period has lasted for TarnHeap.idle_time.  The
 * heap keeps the peak of the period that ends, and forgets the peak of the period before.  It also
 * forgets that upstream ran out of memory. */
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
  heap->full_bytes = G_MAXSIZE; /* set again if upstream runs out again */
}

/* Records that upstream could not allocate @size bytes more for the heap, so the heap can have less
 * than its present bytes plus @size.  The caller has returned all idle pieces that the heap can
 * return. */
void
_tarn_heap_note_full (TarnHeap *heap, gsize size)
{
  gsize all = heap->stats.upstream_bytes;

  _tarn_assert_locked (&heap->lock);
  heap->full_bytes = MIN (heap->full_bytes, all + MIN (size, G_MAXSIZE - all));
}

/* Forgets that upstream ran out of memory, if the heap has got as many bytes since as upstream
 * refused then.  The heap calls this after it has grown. */
void
_tarn_heap_note_growth (TarnHeap *heap)
{
  _tarn_assert_locked (&heap->lock);
  if (heap->stats.upstream_bytes >= heap->full_bytes)
    heap->full_bytes = G_MAXSIZE;
}
