/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Checks the invariants of a heap: walks over all its queues, ranges, segments and extents. */

#include "base/check-private.h"
#include "heap/heap-private.h"

/* A check of a heap's invariants, and the sums that the check has added up so far. */
typedef struct
{
  TarnHeap *heap;
  gsize used_bytes, free_bytes, pieces, idle, idle_bytes, used_extents, free_extents, remembered;
  gsize aliases;    /* the sum of n_aliases of all segments */
  guint arenas;     /* the sum of n_arenas of all queues */
  gchar *violation; /* the first violation found; NULL if there is none */
} Walk;

/* Reports a violation if the number that the check has counted differs from the heap's own counter.
 * @what: the words between the two numbers in the message. */
static void
demand_equal (Walk *walk, gsize counted, const gchar *what, gsize counter)
{
  TARN_DEMAND (walk, counted == counter, "%" G_GSIZE_FORMAT " %s %" G_GSIZE_FORMAT, counted, what,
               counter);
}

static guint64
end_of (const TarnExtent *extent)
{
  return extent->start + extent->size;
}

/* Gets the granularity of a segment: the size of each extent that begins in the segment must be a
 * multiple of it, unless the extent ends where the segment ends.  The granularity is usually the
 * heap's alignment.  It is lower if the segment's address has a lower alignment.  Then the heap may
 * skip some bytes at the start of the segment to reach an aligned address.  The skipped bytes are
 * an extent, whose size need not be a multiple of the heap's alignment. */
static gsize
get_granularity (const TarnHeap *heap, const TarnPiece *piece)
{
  guint64 address = piece->region != NULL ? piece->start : piece->memory.address;
  gsize lowest = (gsize) (address & -address);

  return heap->has_addresses && lowest != 0 ? MIN (heap->alignment, lowest) : heap->alignment;
}

static void
check_extent (Walk *walk, const TarnExtent *extent)
{
  const TarnExtent *after = extent->after;

  TARN_DEMAND (walk, extent->size > 0, "an extent of no bytes");
  TARN_DEMAND (walk,
               extent->size % get_granularity (walk->heap, extent->piece) == 0
                   || end_of (extent) == extent->piece->start + extent->piece->size,
               "%" G_GSIZE_FORMAT " bytes are no multiple of the alignment", extent->size);
  if (after != NULL)
    {
      TARN_DEMAND (walk, after->before == extent, "a neighbour that does not know this extent");
      TARN_DEMAND (walk, after->start == end_of (extent), "a gap between two neighbours");
      TARN_DEMAND (walk, !after->is_free || !extent->is_free, "two neighbours are free");
    }
  if (extent->is_free)
    {
      walk->free_bytes += extent->size;
      walk->free_extents++;
      return;
    }
  walk->used_bytes += extent->size;
  walk->used_extents++;
  if (g_hash_table_lookup (walk->heap->table, extent) == extent)
    walk->remembered++;
}

/* Checks the extents that begin in a segment.  Returns the number of extents in use that have bytes
 * in the segment. */
static guint
walk_piece (Walk *walk, const TarnPiece *piece)
{
  guint64 end = piece->start + piece->size;
  guint n_used = 0;

  TARN_DEMAND (walk, piece->extent->start <= piece->start && end_of (piece->extent) > piece->start,
               "a piece whose extent does not have its first byte");
  for (const TarnExtent *extent = piece->extent;
       walk->violation == NULL && extent != NULL && extent->start < end; extent = extent->after)
    {
      n_used += !extent->is_free;
      if (extent->start < piece->start)
        continue;
      TARN_DEMAND (walk, extent->piece == piece, "an extent that does not know its piece");
      check_extent (walk, extent);
    }
  return n_used;
}

static void
check_piece (Walk *walk, const TarnPiece *piece)
{
  const TarnPiece *after = piece->after;
  guint n_used;

  n_used = walk_piece (walk, piece);
  demand_equal (walk, n_used, "extents in use in a piece that counts", piece->n_used);
  TARN_DEMAND (walk, after == NULL || (after->before == piece && after->range == piece->range),
               "a neighbour that does not know this piece");
  TARN_DEMAND (walk, after == NULL || after->start == piece->start + piece->size,
               "a gap between two neighbouring pieces");
  if (piece->region != NULL)
    TARN_DEMAND (walk, piece->start + piece->size <= piece->region->end,
                 "a piece beyond the end of its region");
  walk->pieces++;
  walk->aliases += piece->n_aliases;
  walk->idle += piece->n_used == 0;
  walk->idle_bytes += piece->n_used == 0 ? piece->size : 0;
}

static void
check_region (Walk *walk, const TarnHeapRegion *region)
{
  const TarnPiece *piece = region->last_piece;
  const TarnExtent *extent = region->last_extent;

  TARN_DEMAND (walk, (piece == NULL) == (extent == NULL), "a last piece without a last extent");
  TARN_DEMAND (walk, region->end - region->addresses.address <= region->size,
               "a region that goes on behind its addresses");
  if (piece == NULL)
    return;
  TARN_DEMAND (walk, piece->start + piece->size == region->end && piece->after == NULL,
               "a last piece that is not");
  TARN_DEMAND (walk, piece->range == region->range, "a last piece that another range has");
  TARN_DEMAND (walk, end_of (extent) == region->end && extent->after == NULL,
               "a last extent that is not");
}

/* Checks a treap (search tree) of free extents of one class, and counts them. */
static gsize
check_treap (Walk *walk, const TarnExtent *extent, guint class)
{
  const TarnExtent *children[2];
  gsize n = 1;

  if (extent == NULL)
    return 0;
  children[0] = extent->less;
  children[1] = extent->greater;
  TARN_DEMAND (walk, extent->is_free, "an extent in use is in the index");
  TARN_DEMAND (walk, _tarn_free_index_get_class (extent->size) == class,
               "an extent in another's class");
  for (guint i = 0; i < 2 && walk->violation == NULL; i++)
    {
      const TarnExtent *child = children[i];
      gboolean comes_before;

      if (child == NULL)
        continue;
      comes_before = child->size < extent->size
                     || (child->size == extent->size && child->start < extent->start);
      TARN_DEMAND (walk, comes_before == (i == 0), "an extent on the wrong side of another");
      TARN_DEMAND (walk, child->priority <= extent->priority,
                   "an extent above one that it gives way to");
      n += check_treap (walk, child, class);
    }
  return n;
}

/* Checks a range's index of free extents, and counts its extents.  If a class has extents, but its
 * bit is not set, does not count these extents.  The caller then finds that the range has more free
 * extents than the index. */
static gsize
check_free_index (Walk *walk, const TarnFreeIndex *index)
{
  gsize n = 0;

  for (guint i = 0; i < G_N_ELEMENTS (index->bits); i++)
    {
      TARN_DEMAND (walk, (index->bits[i] != 0) == (index->words >> i & 1),
                   "a word of classes that does not say whether one has extents");
      for (guint64 bits = index->bits[i]; bits != 0; bits &= bits - 1)
        {
          guint class = i * 64 + (guint) __builtin_ctzll (bits);

          TARN_DEMAND (walk, index->roots[class] != NULL, "a class that has no extent says it has");
          n += check_treap (walk, index->roots[class], class);
        }
    }
  return n;
}

/* Compares a range's counters of bytes with the sums over the range's segments. */
static void
check_bytes (Walk *walk, const TarnHeapRange *range, gsize used, gsize idle, gsize all)
{
  demand_equal (walk, all, "bytes in a range that counts", range->bytes);
  demand_equal (walk, used, "bytes in use in a range that counts", range->used_bytes);
  demand_equal (walk, idle, "bytes in idle pieces of a range that counts", range->idle_bytes);
}

static void
check_range (Walk *walk, const TarnHeapRange *range)
{
  gsize free_before = walk->free_extents, n;
  gsize used_bytes = walk->used_bytes, free_bytes = walk->free_bytes, idle = walk->idle_bytes;

  for (const GList *link = range->pieces.head; link != NULL; link = link->next)
    {
      const TarnPiece *piece = link->data;

      TARN_DEMAND (walk, piece->range == range, "a piece of another range");
      TARN_DEMAND (walk, piece->n_used > 0 || piece->idle_since <= range->arena->queue->n_begun,
                   "a piece that is idle since an event to come");
      check_piece (walk, piece);
    }
  used_bytes = walk->used_bytes - used_bytes;
  check_bytes (walk, range, used_bytes, walk->idle_bytes - idle,
               used_bytes + walk->free_bytes - free_bytes);
  n = check_free_index (walk, &range->free);
  TARN_DEMAND (walk, n == walk->free_extents - free_before,
               "%" G_GSIZE_FORMAT " extents in the index, but %" G_GSIZE_FORMAT " are free", n,
               walk->free_extents - free_before);
  if (range->region != NULL)
    check_region (walk, range->region);
  for (const GList *link = range->old_regions; link != NULL; link = link->next)
    check_region (walk, link->data);
}

static void
check_arena (Walk *walk, const TarnArena *arena)
{
  gsize used_before = walk->used_extents, pieces_before = walk->pieces, idle_before = walk->idle;

  TARN_DEMAND (walk,
               !arena->is_touched && arena->uncounted_bytes == 0 && arena->n_unnamed == 0
                   && arena->left_extents == NULL,
               "an arena that was changed, and not visited since");
  for (guint i = 0; i < TARN_N_RANGES; i++)
    check_range (walk, &arena->ranges[i]);
  demand_equal (walk, walk->used_extents - used_before, "extents in use of an arena that counts",
                arena->n_used);
  demand_equal (walk, walk->idle - idle_before, "idle pieces of an arena that counts",
                arena->idle.length);
  demand_equal (walk, walk->pieces - pieces_before, "pieces of an arena that counts",
                arena->n_pieces);
}

static void
check_queue (Walk *walk, const TarnHeapQueue *queue)
{
  gsize aliases_before = walk->aliases, pieces_before = walk->pieces, idle_before = walk->idle;

  for (guint i = 0; i < queue->n_arenas; i++)
    check_arena (walk, queue->arenas[i]);
  walk->arenas += queue->n_arenas;
  TARN_DEMAND (walk,
               queue->is_watched
                   || (walk->pieces > pieces_before && walk->idle == idle_before
                       && queue->events.length == 0 && queue->aliases.length == 0),
               "a queue that nobody watches");
  TARN_DEMAND (walk,
               walk->heap->is_changing || walk->aliases - aliases_before == queue->aliases.length,
               "%" G_GSIZE_FORMAT " aliases of a queue that has %u", walk->aliases - aliases_before,
               queue->aliases.length);
  TARN_DEMAND (walk, queue->handle == NULL || queue->n_done <= queue->n_begun,
               "events are done that nobody has begun");
  TARN_DEMAND (walk,
               queue->handle == NULL
                   || g_hash_table_lookup (walk->heap->queues, queue->handle) == queue,
               "a queue that is not in the table");
}

static void
check_totals (Walk *walk)
{
  const TarnHeap *heap = walk->heap;
  const TarnHeapStats *stats = &heap->stats;
  gsize counted = stats->used_bytes + stats->free_bytes + heap->lent_bytes;

  demand_equal (walk, walk->used_bytes, "bytes in use, not", stats->used_bytes);
  demand_equal (walk, walk->free_bytes, "bytes free, not", stats->free_bytes);
  demand_equal (walk, walk->pieces, "pieces, not", stats->pieces);
  TARN_DEMAND (
      walk, heap->is_changing ? stats->upstream_bytes >= counted : stats->upstream_bytes == counted,
      "%" G_GSIZE_FORMAT " bytes from upstream, not %" G_GSIZE_FORMAT, counted,
      stats->upstream_bytes);
  TARN_DEMAND (walk, walk->used_extents == walk->remembered + heap->n_unnamed,
               "%" G_GSIZE_FORMAT " extents in use, of which %" G_GSIZE_FORMAT
               " are in the table and %" G_GSIZE_FORMAT " on their way",
               walk->used_extents, walk->remembered, heap->n_unnamed);
  TARN_DEMAND (walk, walk->remembered == g_hash_table_size (heap->table),
               "there is more in the table than in use");
  TARN_DEMAND (walk, stats->peak_used_bytes >= stats->used_bytes, "a peak below what is in use");
  TARN_DEMAND (walk, heap->is_changing || stats->peak_upstream_bytes >= stats->upstream_bytes,
               "a peak below what there is");
}

/* Checks all invariants of a heap.  Ends the program if one is violated. */
void
_tarn_heap_assert_valid (TarnHeap *heap)
{
  Walk walk = { .heap = heap };

  _tarn_assert_locked (&heap->lock);
  for (const GList *link = heap->all_queues.head; link != NULL; link = link->next)
    check_queue (&walk, link->data);
  demand_equal (&walk, heap->arenas.length, "arenas of queues that have", walk.arenas);
  check_totals (&walk);
  if (walk.violation != NULL)
    g_error ("%s: %s", heap->base.label, walk.violation);
}
