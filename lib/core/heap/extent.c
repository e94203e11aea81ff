/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Splits segments into extents, and merges extents.  A segment is memory that upstream allocated in
 * one call.  An extent is a contiguous range of addresses, in use or free.  The caller of each
 * function here holds the heap's lock and has forbidden read sections.  In the functions whose
 * names end in _quickly, the caller may instead be in a read section and hold the arena's lock.
 *
 * Each segment has a pointer to the extent that has the segment's first byte.  A free extent may
 * span many segments, so the code updates as few of these pointers as it can: a merge keeps the
 * struct of the larger extent.  A split makes a new struct for the bytes that the request gets, at
 * the front, and keeps the old struct for the rest, which is usually larger. */

#include "heap/heap-private.h"
#include "record/record-private.h"

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

/* Allocates a slab: an array of TarnExtent structs for an arena.  Sets the priority that each
 * struct has in trees of free extents (free-index.c) to a hash of the struct's address.  The hash
 * is as good as a random number, because no program can predict the address. */
static __attribute__ ((noinline)) void
add_slab (TarnArena *arena)
{
  TarnExtentSlab *slab = _tarn_aligned_new0 (TarnExtentSlab);

  slab->next = arena->slabs;
  arena->slabs = slab;
  for (guint i = 0; i < TARN_SLAB_EXTENTS; i++)
    {
      TarnExtent *extent = &slab->extents[i];

      extent->priority = (guint32) (GPOINTER_TO_SIZE (extent) >> 6) * 2654435761U;
      extent->next = arena->spare;
      arena->spare = extent;
    }
}

/* Frees the slabs (arrays of TarnExtent structs) of an arena.  The caller must make sure that no
 * arena uses a struct of these slabs. */
void
_tarn_arena_free_slabs (TarnArena *arena)
{
  TarnExtentSlab *slab;

  while ((slab = arena->slabs) != NULL)
    {
      arena->slabs = slab->next;
      free (slab);
    }
}

static inline TarnExtent *
extent_new (TarnArena *arena)
{
  TarnExtent *extent;

  if (TARN_UNLIKELY (arena->spare == NULL))
    add_slab (arena);
  extent = arena->spare;
  arena->spare = extent->next;
  return extent;
}

static void
extent_free (TarnArena *arena, TarnExtent *extent)
{
  extent->next = arena->spare;
  arena->spare = extent;
}

/* Gets the segment after @piece.  Returns NULL if there is none, or if @extent ends before that
 * segment.  Usually the extent ends in @piece, and then the function saves time: it does not read
 * the pointer to the next segment. */
static inline TarnPiece *
next_piece (const TarnExtent *extent, const TarnPiece *piece)
{
  return TARN_LIKELY (end_of (extent) <= end_of_piece (piece)) ? NULL : piece->after;
}

/* Makes each segment that begins in @extent point to @owner: either to @extent itself, or to the
 * extent that replaces it. */
static inline void
tell_pieces (const TarnExtent *extent, TarnExtent *owner)
{
  TarnPiece *piece = extent->piece;

  if (piece->start == extent->start)
    piece->extent = owner;
  while ((piece = next_piece (extent, piece)) != NULL)
    piece->extent = owner;
}

/* Finds the segment that has the byte at @address.  Searches @piece, which must not begin after
 * @address, and the segments after it. */
static inline TarnPiece *
find_piece (TarnPiece *piece, guint64 address)
{
  while (end_of_piece (piece) <= address)
    piece = piece->after;
  return piece;
}

static inline void
set_neighbours (TarnExtent *extent, TarnExtent *before, TarnExtent *after)
{
  extent->before = before;
  extent->after = after;
  if (before != NULL)
    before->after = extent;
  if (after != NULL)
    after->before = extent;
}

/* Splits a free extent.  Returns a new extent that has the first @size bytes; @extent keeps the
 * rest.  The caller must have removed @extent from the index of free extents. */
static inline TarnExtent *
split (TarnArena *arena, TarnExtent *extent, gsize size)
{
  TarnExtent *first = extent_new (arena);

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

/* Merges two free extents that are neighbours, and returns the merged extent.  The caller must have
 * removed both extents from the index of free extents. */
static inline TarnExtent *
join (TarnArena *arena, TarnExtent *left, TarnExtent *right)
{
  /* Choose the extent by an index into an array, not by a branch, because processors could not
   * predict the branch. */
  gboolean right_stays = left->size < right->size;
  TarnExtent *both[] = { left, right };
  TarnExtent *stays = both[right_stays], *goes = both[!right_stays];
  TarnHeapRegion *region = left->piece->region;

  g_assert (left->is_free && right->is_free && end_of (left) == right->start);
  tell_pieces (goes, stays);
  if (region != NULL && region->range == left->piece->range && region->last_extent == right)
    region->last_extent = stays;
  stays->size = left->size + right->size;
  stays->start = left->start;
  stays->piece = left->piece;
  set_neighbours (stays, left->before, right->after);
  extent_free (arena, goes);
  return stays;
}

/* Removes a segment from the list of idle segments of its arena. */
static void
end_idle (TarnPiece *piece)
{
  TarnHeapRange *range = piece->range;

  g_queue_unlink (&range->arena->idle, &piece->idle_link);
  range->idle_bytes -= piece->size;
}

/* Adds a segment to the list of idle segments of its arena.  Does not read the clock:
 * _tarn_arena_count () later sets TarnPiece.idle_at, with the heap's lock. */
static void
begin_idle (TarnPiece *piece)
{
  TarnHeapRange *range = piece->range;

  piece->idle_at = 0;
  g_queue_push_tail_link (&range->arena->idle, &piece->idle_link);
  range->idle_bytes += piece->size;
}

/* Adds @bytes to the bytes in use of a range, and to TarnArena.uncounted_bytes: the change of the
 * arena's bytes in use that the heap has not counted yet. */
static void
add_used (TarnHeapRange *range, gsize bytes)
{
  TarnArena *arena = range->arena;

  range->used_bytes += bytes;
  __atomic_store_n (&arena->uncounted_bytes, arena->uncounted_bytes + bytes, __ATOMIC_RELAXED);
}

/* Marks an extent as in use, and counts it in each segment in which it has bytes. */
static inline void
begin_use (TarnHeapRange *range, TarnExtent *extent)
{
  extent->is_free = FALSE;
  extent->has_memory = FALSE;
  range->arena->n_used++;
  for (TarnPiece *piece = extent->piece; piece != NULL; piece = next_piece (extent, piece))
    if (piece->n_used++ == 0)
      {
        end_idle (piece);
        piece->was_used = TRUE;
      }
  add_used (range, extent->size);
}

/* Records that commands of an arena's queue may still use a segment that has just become idle (no
 * extent in it is in use).  These commands are done when the queue's next event is done. */
static void
note_unrecorded (TarnArena *arena, TarnPiece *piece)
{
  TarnHeapQueue *queue = arena->queue;

  piece->idle_since = queue->n_begun;
  /* Do not write has_unrecorded if it is TRUE already: a write would slow down the threads that
   * read the cache line of this field. */
  if (!__atomic_load_n (&queue->has_unrecorded, __ATOMIC_RELAXED))
    __atomic_store_n (&queue->has_unrecorded, TRUE, __ATOMIC_RELAXED);
}

/* Marks an extent as free, and no longer counts it in the segments in which it has bytes.  A
 * segment without any extent in use becomes idle, but commands of the queue may still use it. */
static inline void
end_use (TarnHeapRange *range, TarnExtent *extent)
{
  TarnArena *arena = range->arena;

  g_assert (!extent->is_free);
  extent->is_free = TRUE;
  arena->n_used--;
  for (TarnPiece *piece = extent->piece; piece != NULL; piece = next_piece (extent, piece))
    if (--piece->n_used == 0)
      {
        note_unrecorded (arena, piece);
        arena->unrecorded_bytes += piece->size;
        begin_idle (piece);
      }
  add_used (range, -extent->size);
}

/* Allocates @rounded bytes from a free extent, which the caller has removed from the index of free
 * extents.  If the extent is larger, adds the rest of it to the index. */
static inline TarnExtent *
take (TarnHeapRange *range, TarnExtent *extent, gsize rounded)
{
  TarnExtent *rest = extent;

  if (extent->size > rounded)
    {
      extent = split (range->arena, rest, rounded);
      _tarn_free_index_add (&range->free, rest);
    }
  begin_use (range, extent);
  return extent;
}

/* Merges a free extent with its free neighbours, and adds the merged extent to the index of free
 * extents.  The extent itself must not be in the index. */
static inline void
add_free (TarnHeapRange *range, TarnExtent *extent)
{
  TarnExtent *before = extent->before, *after = extent->after;

  if (after != NULL && after->is_free)
    {
      _tarn_free_index_remove (&range->free, after);
      extent = join (range->arena, extent, after);
    }
  if (before != NULL && before->is_free)
    {
      _tarn_free_index_remove (&range->free, before);
      extent = join (range->arena, before, extent);
    }
  _tarn_free_index_add (&range->free, extent);
}

static inline void
put (TarnHeapRange *range, TarnExtent *extent)
{
  end_use (range, extent);
  add_free (range, extent);
}

/* Functions whose caller either is in a read section and holds the arena's lock, or holds the
 * heap's lock */

/* Allocates an extent of @size bytes, a multiple of the heap's alignment, from a range.  Returns
 * NULL if no free extent is large enough. */
TarnExtent *
_tarn_range_take_quickly (TarnHeapRange *range, gsize size)
{
  TarnExtent *extent = _tarn_free_index_take (&range->free, size);

  if (extent == NULL)
    return NULL;
  extent = take (range, extent, size);
  TARN_PROBE (extent, range->heap->base.id, extent->start, extent->size);
  return extent;
}

/* Frees an extent of a range. */
void
_tarn_range_put_quickly (TarnHeapRange *range, TarnExtent *extent)
{
  TARN_PROBE (extent_free, range->heap->base.id, extent->start, extent->size);
  put (range, extent);
}

/* Functions whose caller holds the heap's lock */

/* Allocates @size bytes from the smallest free extent of a range that is large enough.  Rounds
 * @size up to the heap's alignment if the extent has that many bytes.  Returns NULL if no free
 * extent is large enough.  Also returns NULL if @takes_any is FALSE and the smallest such extent
 * does not suit the request (TarnHeapGrowth.suits). */
TarnExtent *
_tarn_range_take (TarnHeapRange *range, gsize size, gboolean takes_any)
{
  TarnHeap *heap = range->heap;
  TarnExtent *extent = _tarn_free_index_take (&range->free, size);

  _tarn_heap_assert_closed (heap);
  if (extent == NULL)
    return NULL;
  if (!takes_any && heap->growth->suits != NULL && !heap->growth->suits (range, extent, size))
    {
      _tarn_free_index_add (&range->free, extent);
      return NULL;
    }
  extent = take (range, extent, _tarn_round_up (size, heap->alignment));
  TARN_EVENT (extent, TARN_TRACE_EXTENT, heap->base.id, extent->start, extent->size);
  _tarn_arena_count (range->arena);
  return extent;
}

/* Allocates a whole free extent in which @size bytes begin at a multiple of @alignment.  Returns
 * NULL if there is no such extent. */
TarnExtent *
_tarn_range_take_aligned (TarnHeapRange *range, gsize size, gsize alignment)
{
  TarnExtent *extent = _tarn_free_index_take_aligned (&range->free, size, alignment);

  _tarn_heap_assert_closed (range->heap);
  if (extent == NULL)
    return NULL;
  begin_use (range, extent);
  TARN_EVENT (extent, TARN_TRACE_EXTENT, range->heap->base.id, extent->start, extent->size);
  _tarn_arena_count (range->arena);
  return extent;
}

/* Splits an extent after @size bytes, frees one part and returns the other.  Frees the first part
 * if @puts_first is TRUE, and the second part otherwise.  The extent must be neither in use nor in
 * the index of free extents. */
static TarnExtent *
split_and_put (TarnHeapRange *range, TarnExtent *extent, gsize size, gboolean puts_first)
{
  TarnExtent *first = split (range->arena, extent, size);
  TarnExtent *kept = puts_first ? extent : first;

  kept->is_free = FALSE; /* so that add_free () does not merge the two parts again */
  add_free (range, puts_first ? first : extent);
  kept->is_free = TRUE;
  return kept;
}

/* Shrinks an extent in use: keeps @size bytes from @offset on, and frees its other bytes.  Returns
 * the extent that remains in use.  The caller passes a multiple of the heap's alignment as @size,
 * and also as @offset if the segment's address is such a multiple. */
TarnExtent *
_tarn_range_narrow (TarnExtent *extent, gsize offset, gsize size)
{
  TarnHeapRange *range = extent->piece->range;

  _tarn_heap_assert_closed (range->heap);
  g_assert (offset + size <= extent->size);
  TARN_EVENT (extent_free, TARN_TRACE_EXTENT_FREE, range->heap->base.id, extent->start,
              extent->size);
  end_use (range, extent);
  if (offset > 0)
    extent = split_and_put (range, extent, offset, TRUE);
  if (extent->size > size)
    extent = split_and_put (range, extent, size, FALSE);
  begin_use (range, extent);
  TARN_EVENT (extent, TARN_TRACE_EXTENT, range->heap->base.id, extent->start, extent->size);
  _tarn_arena_count (range->arena);
  return extent;
}

/* Frees an extent of a range, and updates the heap's counters. */
void
_tarn_range_put (TarnHeapRange *range, TarnExtent *extent)
{
  _tarn_heap_assert_closed (range->heap);
  TARN_EVENT (extent_free, TARN_TRACE_EXTENT_FREE, range->heap->base.id, extent->start,
              extent->size);
  put (range, extent);
  _tarn_arena_count (range->arena);
}

/* Adds a segment to a range.  The caller must make sure that all of the segment is free and that no
 * command uses it.  @place is the place where the segment is mapped: the segment becomes a
 * neighbour of the segments beside that place.  If @place is NULL, the segment has no neighbours.
 */
void
_tarn_range_add_piece (TarnHeapRange *range, TarnPiece *piece, const TarnPlace *place)
{
  TarnHeap *heap = range->heap;
  TarnHeapRegion *region = piece->region;
  TarnExtent *extent = extent_new (range->arena);
  TarnPiece *before = NULL, *after = NULL;

  _tarn_heap_assert_closed (heap);
  if (place != NULL && piece->start == place->start)
    before = place->before;
  if (place != NULL && end_of_piece (piece) == place->end)
    after = place->after;
  extent->start = piece->start;
  extent->size = piece->size;
  extent->piece = piece;
  extent->is_free = TRUE;
  set_neighbours (extent, before != NULL ? _tarn_piece_get_last_extent (before) : NULL,
                  after != NULL ? after->extent : NULL);
  piece->range = range;
  piece->extent = extent;
  piece->n_used = 0;
  piece->idle_since = 0;
  piece->before = before;
  piece->after = after;
  if (before != NULL)
    before->after = piece;
  if (after != NULL)
    after->before = piece;
  if (region != NULL)
    region->n_pieces++;
  if (region != NULL && piece->start >= region->end)
    {
      region->end = end_of_piece (piece);
      region->last_piece = piece;
      region->last_extent = extent;
    }
  g_queue_push_tail_link (&range->pieces, &piece->link);
  begin_idle (piece);
  piece->idle_at = _tarn_clock_now ();
  _tarn_queue_watch (range->arena->queue);
  range->arena->n_pieces++;
  range->bytes += piece->size;
  heap->stats.pieces++;
  heap->stats.free_bytes += piece->size;
  TARN_EVENT (piece, TARN_TRACE_PIECE, heap->base.id, piece->start, piece->size,
              GPOINTER_TO_SIZE (range->arena->queue->handle));
  add_free (range, extent);
}

/* Adds a free segment to a range, although commands of the range's queue may still use it. */
void
_tarn_range_add_busy_piece (TarnHeapRange *range, TarnPiece *piece, const TarnPlace *place)
{
  _tarn_range_add_piece (range, piece, place);
  note_unrecorded (range->arena, piece);
}

/* Removes a segment's bytes from the free extent that has them.  The caller has removed this extent
 * from the index of free extents.  The extent's bytes before the segment and after it become
 * extents of their own, which this function adds to the index.  Returns the extent before the
 * segment, free or in use, or NULL if there is none. */
static TarnExtent *
cut_extent (TarnPiece *piece)
{
  TarnExtent *extent = piece->extent, *before = extent->before, *after;
  TarnArena *arena = piece->range->arena;

  g_assert (extent->is_free);
  if (extent->start < piece->start)
    before = split (arena, extent, piece->start - extent->start);
  after = extent->after;
  if (extent->size > piece->size)
    {
      split (arena, extent, piece->size);
      after = extent;
      extent = piece->extent;
    }
  if (before != NULL)
    before->after = NULL;
  if (after != NULL)
    after->before = NULL;
  extent_free (arena, extent);
  if (before != NULL && before->is_free)
    _tarn_free_index_add (&piece->range->free, before);
  if (after != NULL && after->is_free)
    _tarn_free_index_add (&piece->range->free, after);
  return before;
}

/* Updates a region (reserved addresses) after the removal of @piece, the region's last segment.  If
 * the segment is not mapped any more, the region gets shorter: it ends where the segment began.  If
 * @is_mapped is TRUE, the segment stays mapped, and the region keeps its end. */
static void
shrink_region (TarnHeapRegion *region, const TarnPiece *piece, TarnExtent *last_extent,
               gboolean is_mapped)
{
  if (!is_mapped)
    region->end = piece->start;
  region->last_piece = is_mapped ? NULL : piece->before;
  region->last_extent = is_mapped ? NULL : last_extent;
}

/* Removes an idle segment from its range (a set of segments for one queue).  @stays_mapped is TRUE
 * if the segment stays mapped at its addresses.  Otherwise the heap reuses the addresses if the
 * segment was the last one in its region.  A region is a part of the range's reserved addresses. */
void
_tarn_range_cut_piece (TarnPiece *piece, gboolean stays_mapped)
{
  TarnHeapRange *range = piece->range;
  TarnHeap *heap = range->heap;
  TarnExtent *before;

  _tarn_heap_assert_closed (heap);
  g_assert (piece->n_used == 0);
  _tarn_free_index_remove (&range->free, piece->extent);
  before = cut_extent (piece);
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
  end_idle (piece);
  range->arena->n_pieces--;
  range->bytes -= piece->size;
  heap->stats.pieces--;
  heap->stats.free_bytes -= piece->size;
  TARN_EVENT (piece_gone, TARN_TRACE_PIECE_GONE, heap->base.id, piece->start, piece->size);
}

/* Separates a segment from the segment after it, so that they are no neighbours any more.  If a
 * free extent spans the boundary of the two, splits this extent.  The caller makes sure that no
 * extent in use spans the boundary. */
static void
part_behind (TarnPiece *piece)
{
  TarnHeapRange *range = piece->range;
  TarnPiece *after = piece->after;
  TarnExtent *extent = after->extent;

  if (extent->start < after->start)
    {
      _tarn_free_index_remove (&range->free, extent);
      _tarn_free_index_add (&range->free,
                            split (range->arena, extent, (gsize) (after->start - extent->start)));
      _tarn_free_index_add (&range->free, extent);
    }
  if (extent->before != NULL)
    extent->before->after = NULL;
  extent->before = NULL;
  after->before = NULL;
  piece->after = NULL;
}

/* Adds a segment to the list of idle segments of its arena, which is sorted by the time when the
 * segments became idle. */
static void
insert_idle (TarnPiece *piece)
{
  TarnArena *arena = piece->range->arena;
  GList *before = arena->idle.tail;

  while (before != NULL && ((const TarnPiece *) before->data)->idle_at > piece->idle_at)
    before = before->prev;
  g_queue_insert_after_link (&arena->idle, before, &piece->idle_link);
  piece->range->idle_bytes += piece->size;
}

/* Moves a segment from its range to another range.  The caller moves the segment's extents. */
static void
change_range (TarnPiece *piece, TarnHeapRange *range)
{
  TarnHeapRange *old = piece->range;

  if (piece->n_used == 0)
    end_idle (piece);
  g_queue_unlink (&old->pieces, &piece->link);
  old->arena->n_pieces--;
  old->bytes -= piece->size;
  piece->range = range;
  g_queue_push_tail_link (&range->pieces, &piece->link);
  range->arena->n_pieces++;
  range->bytes += piece->size;
  if (piece->n_used == 0)
    insert_idle (piece);
}

/* Moves the neighbouring segments from @first to @last, with their extents, to another range of the
 * same queue.  There must be no segment before @first, and no extent in use may span the end of
 * @last. */
void
_tarn_range_take_over (TarnHeapRange *range, TarnPiece *first, TarnPiece *last)
{
  TarnHeapRange *old = first->range;

  _tarn_heap_assert_closed (range->heap);
  g_assert (first->before == NULL && old->arena->queue == range->arena->queue);
  if (last->after != NULL)
    part_behind (last);
  for (TarnExtent *extent = first->extent; extent != NULL; extent = extent->after)
    if (extent->is_free)
      {
        _tarn_free_index_remove (&old->free, extent);
        _tarn_free_index_add (&range->free, extent);
      }
    else
      {
        old->arena->n_used--;
        old->used_bytes -= extent->size;
        range->arena->n_used++;
        range->used_bytes += extent->size;
      }
  for (TarnPiece *piece = first; piece != NULL; piece = piece->after)
    change_range (piece, range);
}

/* Gets the extent at the end of a segment that has no neighbour after it. */
TarnExtent *
_tarn_piece_get_last_extent (const TarnPiece *piece)
{
  TarnExtent *extent = piece->extent;

  g_assert (piece->after == NULL);
  while (extent->after != NULL)
    extent = extent->after;
  return extent;
}

gsize
_tarn_heap_get_idle_bytes (const TarnHeap *heap)
{
  gsize bytes = 0;

  TARN_FOR_EACH_ARENA (arena, heap)
    for (guint i = 0; i < TARN_N_RANGES; i++)
      bytes += arena->ranges[i].idle_bytes;
  return bytes;
}

/* Computes the number of stranded bytes in the ranges for huge requests (grow-parts.c): free bytes
 * in segments that are in use, and that the heap therefore cannot return to upstream. */
gsize
_tarn_heap_get_stranded_by_huge (const TarnHeap *heap)
{
  gsize bytes = 0;

  _tarn_heap_assert_closed (heap);
  TARN_FOR_EACH_ARENA (arena, heap)
    {
      const TarnHeapRange *huge = &arena->ranges[TARN_RANGE_HUGE];

      bytes += huge->bytes - huge->idle_bytes - huge->used_bytes;
    }
  return bytes;
}

gsize
_tarn_arena_get_bytes (const TarnArena *arena)
{
  gsize bytes = 0;

  for (guint i = 0; i < TARN_N_RANGES; i++)
    bytes += arena->ranges[i].bytes;
  return bytes;
}

guint
_tarn_heap_count_idle (const TarnHeap *heap)
{
  guint n = 0;

  TARN_FOR_EACH_ARENA (arena, heap)
    n += arena->idle.length;
  return n;
}
