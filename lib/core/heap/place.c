/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Finds places where a heap of virtual memory can map a segment.  A range (set of segments) usually
 * maps its segments one after another, at the end of a region (reserved addresses).  Segments that
 * move away leave gaps in the region.  A gap often lies beside a free extent of a segment that
 * could not move.  If the heap maps a segment in the gap, a request can use that free extent too,
 * and so needs less other memory than at the region's end.
 *
 * For example, a program allocates a block of 20 MiB + 1 KiB after it has freed one of 20 MiB.  A
 * segment of 2 MiB beside the free extent is enough.  At the region's end, the heap would need
 * 22 MiB.  Near the heap's limit, there may be no other free memory.
 *
 * The caller holds the heap's lock, has forbidden read sections, and has set
 * TarnHeap.is_changing. */

#include "heap/heap-private.h"

#define MIB ((gsize) 1 << 20)

/* Constants that tell when the heap maps a request's memory at a place apart, with free addresses
 * before and after it, so that the block can be larger the next time (_tarn_range_find_place ()).
 * For a request of @size bytes, all of these must be true:
 * - @size is at least LEAST_APART.
 * - The range's largest free extent has at least @size - @size / NEARLY_SHARE bytes, so the request
 *   nearly fits into it.
 * - The heap's limit allows @size more bytes.
 * - The region has at least APART_SHARE * @size bytes of free addresses at its end.
 * - A gap right after a free extent is not the place where the heap must map the fewest bytes.
 * - One of two things is true: fewer than @size / APART_FREE_SHARE bytes are free at the range's
 *   end; or in a gap right before a free extent, the heap would map fewer bytes than at the range's
 *   end. */
#define LEAST_APART (8 * MIB)
#define NEARLY_SHARE 256
#define APART_FREE_SHARE 8
#define APART_SHARE 16

/* Adjacent addresses of a region that are mapped: a run of neighbouring segments, or one alias. */
typedef struct
{
  guint64 start, end;
  TarnHeapRegion *region;
  TarnPiece *first, *last; /* the first and the last of the run's segments; NULL for an alias */
} Span;

static gint
compare_spans (gconstpointer a, gconstpointer b)
{
  const Span *left = a, *right = b;

  return left->start < right->start ? -1 : left->start > right->start;
}

/* Appends to @spans the runs of neighbouring segments of a range. */
static void
list_runs (const TarnHeapRange *range, GArray *spans)
{
  for (const GList *link = range->pieces.head; link != NULL; link = link->next)
    {
      TarnPiece *piece = link->data;
      Span span = { .start = piece->start, .region = piece->region, .first = piece };

      if (piece->before != NULL)
        continue;
      for (span.last = piece; span.last->after != NULL; span.last = span.last->after)
        ;
      span.end = span.last->start + span.last->size;
      g_array_append_val (spans, span);
    }
}

/* Lists all mapped addresses of a queue in ascending order.  No other queue has segments in the
 * regions of this queue. */
static GArray *
list_spans (const TarnHeapQueue *queue)
{
  GArray *spans = g_array_new (FALSE, FALSE, sizeof (Span));

  for (guint i = 0; i < queue->n_arenas * TARN_N_RANGES; i++)
    list_runs (&queue->arenas[i / TARN_N_RANGES]->ranges[i % TARN_N_RANGES], spans);
  for (const GList *link = queue->aliases.head; link != NULL; link = link->next)
    {
      const TarnAlias *alias = link->data;
      Span span = { .start = alias->start,
                    .end = alias->start + alias->piece->size,
                    .region = alias->region };

      g_array_append_val (spans, span);
    }
  g_array_sort (spans, compare_spans);
  return spans;
}

/* Returns the size of an extent if it is free, and 0 otherwise. */
static gsize
get_free_bytes (const TarnExtent *extent)
{
  return extent != NULL && extent->is_free ? extent->size : 0;
}

/* Replaces *best by the gap @place if a request of @size bytes needs less memory there, or needs as
 * much memory there but leaves fewer bytes free.  @beside is the number of free bytes beside the
 * gap that the request uses.  @missing is the number of bytes that the heap must map. */
static void
choose (TarnPlace *best, TarnPlace place, gsize size, gsize beside, gsize missing)
{
  place.missing = missing;
  place.left_over = beside + missing - size;
  if (missing < best->missing || (missing == best->missing && place.left_over < best->left_over))
    *best = place;
}

/* Gets the number of bytes that the heap must map for a request of @size bytes.  The request also
 * uses @beside bytes, which are mapped and free already. */
static gsize
get_missing (const TarnHeapRange *range, gsize size, gsize beside)
{
  return size > beside
             ? _tarn_round_up (size - beside, range->heap->upstream->ops.virtual_granularity)
             : 0;
}

/* Replaces *best by a gap if a request of @size bytes fits better there (choose ()).  The request
 * is for @range, so it can use the free extents beside the gap only if they belong to @range.  The
 * gap lies between two mapped spans, @below and @above.  @below is NULL if the gap begins at the
 * region's start, and @above is NULL if the gap ends at the region's end. */
static void
try_gap (const TarnHeapRange *range, const Span *below, const Span *above, gsize size,
         TarnPlace *best)
{
  TarnHeapRegion *region = below != NULL ? below->region : above->region;
  TarnPlace up = { .region = region,
                   .start = below != NULL ? below->end : region->addresses.address,
                   .end = above != NULL ? above->start : region->end,
                   .is_gap = TRUE };
  gsize gap = (gsize) (up.end - up.start), left, right;
  TarnPlace down, all;

  if (gap == 0)
    return;
  if (below != NULL && below->last != NULL && below->last->range == range)
    up.before = below->last;
  if (above != NULL && above->first != NULL && above->first->range == range)
    up.after = above->first;
  all = down = up;
  down.goes_down = TRUE;
  up.below = all.below = up.before != NULL ? _tarn_piece_get_last_extent (up.before) : NULL;
  down.above = all.above = up.after != NULL ? up.after->extent : NULL;
  left = get_free_bytes (all.below);
  right = get_free_bytes (all.above);
  if (left > 0 && get_missing (range, size, left) <= gap)
    choose (best, up, size, left, get_missing (range, size, left));
  if (right > 0 && get_missing (range, size, right) <= gap)
    choose (best, down, size, right, get_missing (range, size, right));
  if (left > 0 && right > 0 && left + gap + right >= size)
    choose (best, all, size, left + right, gap);
}

/* Searches for the gap where the heap has to map the fewest bytes for a request of @size bytes.
 * Looks at all gaps in the regions (reserved addresses) of the range's queue.  Replaces *best by
 * the gap if it is better (choose ()). */
static void
find_gap (const TarnHeapRange *range, gsize size, TarnPlace *best)
{
  g_autoptr (GArray) spans = list_spans (range->arena->queue);
  const Span *below = NULL;

  for (guint i = 0; i < spans->len; i++)
    {
      const Span *above = &g_array_index (spans, Span, i);

      if (below != NULL && below->region != above->region)
        {
          try_gap (range, below, NULL, size, best);
          below = NULL;
        }
      try_gap (range, below, above, size, best);
      below = above;
    }
  if (below != NULL)
    try_gap (range, below, NULL, size, best);
}

/* Returns TRUE if @size is large, and a free extent of the range has nearly @size bytes.  Then the
 * program has probably freed a block to allocate a slightly larger one, and will do so again. */
static gboolean
nearly_fits (const TarnHeapRange *range, gsize size)
{
  const TarnExtent *largest = _tarn_free_index_get_largest (&range->free);

  return size >= LEAST_APART && largest != NULL && largest->size >= size - size / NEARLY_SHARE;
}

/* Gets a place (free addresses where the heap can map memory) with a gap between it and all memory
 * that is mapped in a range's region.  Returns FALSE if there are too few addresses. */
static gboolean
get_place_apart (const TarnHeapRange *range, gsize size, TarnPlace *place)
{
  TarnHeapRegion *region = range->region;
  gsize bytes = get_missing (range, size, 0);

  *place = (TarnPlace){ .region = region,
                        .start = region->end + bytes,
                        .end = region->addresses.address + region->size,
                        .missing = bytes,
                        .left_over = bytes - size };
  return bytes <= (place->end - region->end) / APART_SHARE;
}

/* Replaces *place, which is the end of a range's region, by a better place for a request of @size
 * bytes, if there is one: a gap where the heap has to map fewer bytes, or a place apart.
 *
 * A place apart has free addresses before and after it.  The heap chooses such a place if a free
 * extent has nearly @size bytes, and a gap after a free extent is not the place where the heap must
 * map the fewest bytes.  The reason is that a slightly larger request probably follows after the
 * program has freed this request's block.  At a place apart, that request needs only one small
 * segment more, even while commands still use old addresses of moved segments.
 *
 * If the heap adds several segments for the request, only the first may be apart (@is_first):
 * otherwise segments could move to and fro between that place and a gap. */
void
_tarn_range_find_place (const TarnHeapRange *range, gsize size, gboolean is_first, TarnPlace *place)
{
  TarnPlace apart;
  gboolean goes_apart = is_first && nearly_fits (range, size)
                        && get_place_apart (range, size, &apart)
                        && _tarn_heap_has_room (range->heap, apart.missing, NULL);

  if (goes_apart && get_free_bytes (place->below) < size / APART_FREE_SHARE)
    *place = apart;
  find_gap (range, size, place);
  if (goes_apart && place->goes_down)
    *place = apart;
}
