/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Grows a heap of virtual memory.  A segment is a backing (physical memory) that the heap maps at
 * the end of the range (set of segments) that needs it.  As long as the heap has little more memory
 * than its peak of bytes in use, it allocates fresh memory.  After that it moves idle segments, in
 * which no extent is in use, to the range.  If the segment and the range belong to the same queue,
 * the segment can move even before the queue's commands are done.
 *
 * After a segment has moved away, its old addresses become a gap in the region (reserved
 * addresses), or free addresses at the region's end.  If the heap has little memory left for a
 * request, it looks for the gap beside the best free extent, and maps segments there (place.c).
 * Most gaps stay free, because there are far more addresses than memory.  If a region has no
 * addresses left, the range reserves another region.  The heap releases the old region after the
 * last segment in it has gone. */

#include "heap/heap-private.h"
#include "record/record-private.h"

#define MIB ((gsize) 1 << 20)

/* The size in bytes of the largest request that the range (set of segments) for small requests
 * serves. */
#define MAX_SMALL_BYTES ((gsize) 256 << 10)

/* Constants for the largest size of a fresh segment.  This size is the bytes of the arena (set of
 * ranges), with the bytes that the request lacks, divided by PIECE_SHARE, but at least
 * SMALL_PIECE_BYTES and at most MAX_PIECE_BYTES.  Larger segments would seldom be idle, and smaller
 * ones would need many driver calls.  The size is a multiple of SMALL_PIECE_BYTES, so that blocks
 * of, say, 16 or 128 MiB fill segments completely. */
#define SMALL_PIECE_BYTES (16 * MIB)
#define MAX_PIECE_BYTES (32 * MIB)
#define PIECE_SHARE 32

/* A request that lacks this number of bytes or more needs many segments, so the heap first tests
 * whether upstream has the bytes (needs_probe ()). */
#define PROBED_BYTES (64 * MAX_PIECE_BYTES)

/* The room of a heap is the bytes that it may have above its peak of bytes in use: MIN_ROOM plus
 * the peak divided by ROOM_SHARE. */
#define MIN_ROOM (8 * MIB)
#define ROOM_SHARE 66

/* In a heap with a limit, a segment has at most as many bytes as the limit divided by
 * LIMIT_PIECE_SHARE.  A segment cannot move while any extent in it is in use, so its free bytes are
 * then stuck in it.  In a small segment, only few bytes can be stuck. */
#define LIMIT_PIECE_SHARE 512

/* The sizes in bytes of the regions (contiguous addresses) that the ranges for large and for small
 * requests reserve.  With 64-bit addresses, a large region has 256 GiB.  That is more than a
 * device's memory, and the address space has room for hundreds of such regions, one for each
 * queue.  With 32-bit addresses, a large region has 512 MiB, an eighth of all addresses. */
#define LARGE_REGION_BYTES ((gsize) ((guint64) 1 << (sizeof (gsize) > 4 ? 38 : 29)))
#define SMALL_REGION_BYTES (LARGE_REGION_BYTES / 64)

static inline const TarnAllocatorOps *
ops_of (const TarnHeap *heap)
{
  return &heap->upstream->ops;
}

static TarnMemory
memory_at (guint64 address)
{
  TarnMemory memory = { .address = address };

  return memory;
}

/* Functions that reserve and release regions of addresses, and find free addresses */

/* Reserves a region of addresses for a range.  If the driver refuses the usual size, tries half of
 * it, and so on, down to @needed bytes. */
static TarnHeapRegion *
reserve (TarnHeapRange *range, gsize needed, GError **error)
{
  const TarnHeap *heap = range->heap;
  gsize usual = range->kind == TARN_RANGE_SMALL ? SMALL_REGION_BYTES : LARGE_REGION_BYTES;
  gsize size = needed > usual / 4 ? needed : usual;
  TarnHeapRegion *region = g_new0 (TarnHeapRegion, 1);

  for (;;)
    {
      g_autoptr (GError) local = NULL;

      if (_tarn_call (heap->upstream, addresses_reserve, size, &region->addresses, &local))
        break;
      if (size == needed)
        {
          g_propagate_error (error, g_steal_pointer (&local));
          g_free (region);
          return NULL;
        }
      size = MAX (_tarn_round_up (size / 2, ops_of (heap)->virtual_granularity), needed);
    }
  region->range = range;
  region->size = size;
  region->end = region->addresses.address;
  return region;
}

static void
release_region (const TarnHeap *heap, TarnHeapRegion *region)
{
  g_assert (region->n_pieces == 0);
  if (!region->has_lost)
    _tarn_call (heap->upstream, addresses_release, region->addresses, region->size);
  g_free (region);
}

static gsize
get_free_addresses (const TarnHeapRegion *region)
{
  return region->size - (gsize) (region->end - region->addresses.address);
}

/* Gets the size of the free extent at the end of a range.  Returns 0 if there is no such extent. */
static gsize
get_free_at_end (const TarnHeapRange *range)
{
  const TarnExtent *last = range->region != NULL ? range->region->last_extent : NULL;

  return last != NULL && last->is_free ? last->size : 0;
}

/* Gets the number of bytes that the heap must add at a range's end for a request of @size bytes. */
static gsize
get_missing (const TarnHeapRange *range, gsize size)
{
  gsize free_bytes = get_free_at_end (range);

  g_assert (size > free_bytes);
  return _tarn_round_up (size - free_bytes, ops_of (range->heap)->virtual_granularity);
}

/* Releases each old region (reserved addresses) of a range if the region has no segment any more.
 * Releases the heap's lock during each driver call. */
static void
tidy (TarnHeapRange *range)
{
  TarnHeap *heap = range->heap;
  GList *next;

  _tarn_assert_locked (&heap->lock);
  for (GList *link = range->old_regions; link != NULL; link = next)
    {
      TarnHeapRegion *region = link->data;

      next = link->next;
      if (region->n_pieces > 0)
        continue;
      range->old_regions = g_list_delete_link (range->old_regions, link);
      _tarn_heap_unlock (heap);
      release_region (heap, region);
      _tarn_heap_lock (heap);
    }
}

/* Adds the region (reserved addresses) of a range to the range's old regions.  The range then
 * reserves another region when it next needs addresses. */
static void
retire_region (TarnHeapRange *range)
{
  range->old_regions = g_list_prepend (range->old_regions, range->region);
  range->region = NULL;
}

/* Releases all regions (reserved addresses) of a heap that have no segment, so that other queues
 * and other heaps can reserve the addresses.  Does nothing in a heap without virtual memory, which
 * has no regions.  The caller has set TarnHeap.is_changing.  Releases the heap's lock during each
 * driver call. */
void
_tarn_heap_release_regions (TarnHeap *heap)
{
  g_assert (heap->is_changing);
  TARN_FOR_EACH_ARENA (arena, heap)
    for (guint i = 0; i < TARN_N_RANGES; i++)
      {
        TarnHeapRange *range = &arena->ranges[i];

        if (range->region != NULL && range->region->n_pieces == 0)
          retire_region (range);
        tidy (range);
      }
}

/* Makes sure that a range has free addresses at its end for a request.  If the range has too few,
 * releases the heap's lock, reserves a new region of addresses for the range, and takes the lock
 * again. */
static gboolean
ensure_addresses (TarnHeapRange *range, gsize size, GError **error)
{
  TarnHeap *heap = range->heap;
  TarnHeapRegion *region;

  if (range->region != NULL && get_missing (range, size) <= get_free_addresses (range->region))
    return TRUE;
  _tarn_heap_unlock (heap);
  region = reserve (range, _tarn_round_up (size, ops_of (heap)->virtual_granularity), error);
  _tarn_heap_lock (heap);
  if (region == NULL)
    return FALSE;
  if (range->region != NULL)
    retire_region (range);
  range->region = region;
  return TRUE;
}

/* Releases all regions (reserved addresses) of a range.  Segments of the same queue's other ranges
 * can be mapped in these regions, so call this only when none of the queue's ranges has a
 * segment. */
void
_tarn_range_clear (TarnHeapRange *range)
{
  g_assert (range->pieces.length == 0);
  for (GList *link = range->old_regions; link != NULL; link = link->next)
    release_region (range->heap, link->data);
  g_clear_pointer (&range->old_regions, g_list_free);
  if (range->region != NULL)
    release_region (range->heap, range->region);
  range->region = NULL;
}

/* Functions that add segments to a range, or move segments into it */

/* Gets the place at the end of a range's region, where the heap can map segments for a request of
 * @size bytes.  A place is a set of free addresses (TarnPlace).  Call this only if no free extent
 * of the range is large enough for the request, so that some bytes are missing. */
static TarnPlace
get_place_at_end (const TarnHeapRange *range, gsize size)
{
  TarnHeapRegion *region = range->region;
  TarnPlace place = { .region = region,
                      .start = region->end,
                      .end = region->addresses.address + region->size,
                      .before = region->last_piece,
                      .below = region->last_extent,
                      .missing = get_missing (range, size) };

  place.left_over = get_free_at_end (range) + place.missing - size;
  return place;
}

static gsize
get_free_addresses_at (const TarnPlace *place)
{
  return (gsize) (place->end - place->start);
}

/* Computes the address where a segment of @size bytes is mapped at a place: at the start of the
 * place's free addresses, or at their end. */
static guint64
get_address (const TarnPlace *place, gsize size)
{
  return place->goes_down ? place->end - size : place->start;
}

/* Returns TRUE if a segment must stay where it is: its free bytes are beside the free addresses of
 * @place, and the request will use them together with the segments that the heap maps there. */
static gboolean
is_beside (const TarnPiece *piece, const TarnPlace *place)
{
  return piece->extent == place->below || piece->extent == place->above;
}

/* Returns a segment's memory to upstream.  The segment must not be mapped. */
static void
discard (TarnHeap *heap, TarnPiece *piece)
{
  _tarn_direct_release_backing (heap->upstream, piece->size, piece->memory);
  g_free (piece);
}

static void
virtual_release (TarnHeap *heap, TarnPiece *piece)
{
  _tarn_assert_not_locked (&heap->lock);
  _tarn_call (heap->upstream, backing_unmap, memory_at (piece->start), piece->size);
  discard (heap, piece);
}

/* Maps a segment at a place (free addresses of a region).  If that fails, returns the segment's
 * memory to upstream. */
static gboolean
map_at (TarnHeapRange *range, const TarnPlace *place, TarnPiece *piece, GError **error)
{
  TarnHeap *heap = range->heap;
  gboolean is_mapped;

  _tarn_assert_locked (&heap->lock);
  piece->region = place->region;
  piece->start = get_address (place, piece->size);
  _tarn_heap_unlock (heap);
  is_mapped = _tarn_call (heap->upstream, backing_map, piece->memory, piece->size,
                          memory_at (piece->start), error);
  _tarn_heap_lock (heap);
  if (is_mapped)
    {
      _tarn_range_add_piece (range, piece, place);
      return TRUE;
    }
  heap->stats.upstream_bytes -= piece->size;
  heap->stats.upstream_frees++;
  _tarn_heap_unlock (heap);
  discard (heap, piece);
  _tarn_heap_lock (heap);
  return FALSE;
}

/* Counts and traces the move of a segment to a place.  The caller has removed the segment from its
 * old range, and has not yet added it to the new one. */
static void
note_move (const TarnHeapRange *range, const TarnPlace *place, const TarnPiece *piece)
{
  TarnHeap *heap = range->heap;

  heap->stats.moves++;
  TARN_EVENT (piece_moved, TARN_TRACE_PIECE_MOVED, heap->base.id, piece->start, piece->size,
              get_address (place, piece->size), GPOINTER_TO_SIZE (range->arena->queue->handle));
}

/* Moves an idle segment, which no command uses, to a place (free addresses of a region). */
static gboolean
move_quiet (TarnHeapRange *range, const TarnPlace *place, TarnPiece *piece, GError **error)
{
  TarnHeap *heap = range->heap;

  _tarn_range_cut_piece (piece, FALSE);
  _tarn_heap_begin_generation (heap);
  _tarn_heap_unlock (heap);
  _tarn_call (heap->upstream, backing_unmap, memory_at (piece->start), piece->size);
  _tarn_heap_lock (heap);
  note_move (range, place, piece);
  return map_at (range, place, piece, error);
}

/* Moves an idle segment to a place of a range of its queue, although the queue's commands may still
 * use the segment at its old address.  The segment stays mapped there as well.  If upstream fails
 * to map the segment twice, the segment does not move, and the heap makes no more moves of this
 * kind, for some time or for ever (_tarn_heap_note_no_alias ()). */
static void
move_unquiet (TarnHeapRange *range, const TarnPlace *place, TarnPiece *piece)
{
  TarnHeap *heap = range->heap;
  TarnHeapRange *old_range = piece->range;
  TarnHeapRegion *old_region = piece->region;
  guint64 old_start = piece->start;
  g_autoptr (GError) error = NULL;
  gboolean is_mapped;

  _tarn_range_cut_piece (piece, TRUE);
  _tarn_heap_unlock (heap);
  is_mapped = _tarn_call (heap->upstream, backing_map, piece->memory, piece->size,
                          memory_at (get_address (place, piece->size)), &error);
  _tarn_heap_lock (heap);
  if (!is_mapped)
    {
      _tarn_heap_note_no_alias (heap, error);
      _tarn_range_add_busy_piece (old_range, piece, NULL);
      return;
    }
  note_move (range, place, piece);
  _tarn_piece_add_alias (piece, range->arena->queue, old_region, old_start);
  piece->region = place->region;
  piece->start = get_address (place, piece->size);
  _tarn_range_add_busy_piece (range, piece, place);
}

/* Moves an idle segment to a place (free addresses of a region).  Returns TRUE if the caller should
 * search the range again.  If upstream refuses to map the segment twice, the segment does not move
 * (move_unquiet ()).  The result is TRUE then as well, and the caller tries other memory. */
static gboolean
move (TarnHeapRange *range, TarnPlace *place, TarnPiece *piece, GError **error)
{
  if (place->before == piece)
    place->before = NULL;
  if (place->after == piece)
    place->after = NULL;
  if (_tarn_piece_is_quiet (piece))
    return move_quiet (range, place, piece, error);
  move_unquiet (range, place, piece);
  return TRUE;
}

/* Returns TRUE if the heap may move idle segments of any size into a range instead of adding fresh
 * memory.  Returns FALSE for a range for small requests, which gets only segments of the smallest
 * size: a large segment there would be in use for as long as the smallest block in it. */
static gboolean
moves_in (const TarnHeapRange *range)
{
  return range->kind != TARN_RANGE_SMALL;
}

/* Chooses the idle segment that should move to a place: the smallest segment that has at least the
 * missing bytes.  If all idle segments are smaller, chooses the largest one.  Leaves out segments
 * that must stay beside the place, and segments that cannot move now.  If idle segments may move
 * into the range (moves_in ()), also leaves out segments that are larger than the free addresses at
 * the place. */
static TarnPiece *
choose_idle (const TarnHeapRange *range, const TarnPlace *place)
{
  gsize missing = place->missing;
  TarnPiece *best = NULL;

  TARN_FOR_EACH_IDLE (piece, next, range->heap)
    {
      gboolean is_enough = piece->size >= missing;

      if (is_beside (piece, place) || !_tarn_piece_can_move_to (piece, range)
          || (moves_in (range) && piece->size > get_free_addresses_at (place)))
        continue;
      if (best == NULL
          || (is_enough ? piece->size < best->size || best->size < missing
                        : piece->size > best->size))
        best = piece;
    }
  return best;
}

/* Computes the most bytes that the heap should have while it serves a request of @size bytes. */
static gsize
get_target (const TarnHeap *heap, gsize size)
{
  return _tarn_heap_get_target (heap, size, ROOM_SHARE, MIN_ROOM);
}

/* Computes the number of bytes of fresh memory that the heap may allocate for a request of @size
 * bytes.  If the request lacks more bytes than that, the heap tries to move an idle segment to the
 * range that serves the request. */
static gsize
get_room (const TarnHeap *heap, gsize size)
{
  gsize wanted = get_target (heap, size);

  return wanted > heap->stats.upstream_bytes ? wanted - heap->stats.upstream_bytes : 0;
}

/* Gets the largest size of a fresh segment if the program did not set a size.  @bytes is the
 * largest size in a heap without a limit.  In a heap with a limit, the result is also at most the
 * limit divided by LIMIT_PIECE_SHARE.  It is at least the granularity of virtual memory. */
static gsize
get_most_of_piece (const TarnHeap *heap, gsize bytes)
{
  gsize share = _tarn_heap_get_share (heap, LIMIT_PIECE_SHARE);
  gsize granularity = ops_of (heap)->virtual_granularity;

  return MAX (MIN (bytes, share & ~(granularity - 1)), granularity);
}

/* Chooses the size of a fresh segment:
 * - If the program set a size, the segment has that size, or the bytes that the request lacks if
 *   these are more.
 * - In a range for small requests, the segment has the smallest possible size.
 * - In a range for large requests, the segment has about as many bytes as the arena already has,
 *   or fewer if the heap has many arenas (_tarn_arena_get_step ()).  So an arena that needs
 *   little memory stays small.  The segment has at most the bytes that the heap may still get
 *   (get_room ()).  If the request lacks more bytes than that, the segment is made large enough
 *   for the request, up to the largest size of a segment (get_most_of_piece ()).
 * - During a reservation, the segment in such a range is only as large as the request needs.
 *
 * In all cases, the segment must fit into the place. */
static gsize
choose_size (const TarnHeapRange *range, const TarnPlace *place, gsize size)
{
  gsize missing = place->missing;
  const TarnHeap *heap = range->heap;
  gsize granularity = ops_of (heap)->virtual_granularity;
  gsize bytes = CLAMP ((_tarn_arena_get_bytes (range->arena) + missing) / PIECE_SHARE,
                       SMALL_PIECE_BYTES, MAX_PIECE_BYTES);
  gsize most = get_most_of_piece (heap, bytes & ~(SMALL_PIECE_BYTES - 1));
  gsize usual = _tarn_round_up (heap->growth_bytes, granularity);

  if (heap->growth_bytes != 0)
    most = G_MAXSIZE;
  else if (range->kind == TARN_RANGE_SMALL)
    usual = granularity;
  else if (heap->n_reservations > 0)
    usual = 0;
  else
    usual = MIN (_tarn_round_up (_tarn_arena_get_step (range->arena), granularity),
                 get_room (heap, size) / granularity * granularity);
  usual = CLAMP (usual, MIN (missing, most), most);
  return MIN (usual, get_free_addresses_at (place));
}

/* Allocates a fresh segment of @size bytes from upstream, and maps the segment at a place (free
 * addresses of a region). */
static gboolean
add (TarnHeapRange *range, const TarnPlace *place, gsize size, GError **error)
{
  TarnHeap *heap = range->heap;
  TarnMemory backing = { .address = 0 };
  gboolean has_memory;

  if (!_tarn_heap_has_room (heap, size, error))
    return FALSE;
  heap->stats.upstream_bytes += size;
  _tarn_heap_unlock (heap);
  has_memory = _tarn_direct_take_backing (heap->upstream, size, &backing, error);
  _tarn_heap_lock (heap);
  if (!has_memory)
    {
      heap->stats.upstream_bytes -= size;
      return FALSE;
    }
  _tarn_heap_note_peak (heap);
  return map_at (range, place, _tarn_piece_new (heap, backing, size), error);
}

/* Adds up the bytes of the idle segments that can move to a place (free addresses of a region). */
static gsize
count_movable (const TarnHeapRange *range, const TarnPlace *place)
{
  gsize bytes = 0;

  TARN_FOR_EACH_IDLE (piece, next, range->heap)
    {
      if (!is_beside (piece, place) && _tarn_piece_can_move_to (piece, range))
        bytes += piece->size;
    }
  return bytes;
}

/* Tests whether upstream has @size bytes, by allocating and releasing them.  Without the test, the
 * heap would map all memory that there is, segment by segment, before it learns that the memory is
 * not enough.  These calls would take seconds, and other programs would find no memory
 * meanwhile. */
static gboolean
probe (TarnHeap *heap, gsize size, GError **error)
{
  TarnMemory backing = { .address = 0 };
  gboolean is_there;

  if (!_tarn_heap_has_room (heap, size, error))
    return FALSE;
  _tarn_heap_unlock (heap);
  _tarn_direct_count_call (heap->upstream);
  is_there = _tarn_call (heap->upstream, backing_new, size, &backing, error);
  if (is_there)
    _tarn_call (heap->upstream, backing_release, backing, size);
  _tarn_heap_lock (heap);
  heap->is_short = FALSE;
  if (!is_there)
    _tarn_heap_note_short (heap);
  return is_there;
}

/* Finds the idle segment that serves a request if upstream has no more memory: usually a segment
 * that can move to @place.  If @place is the end of a region, and no segment can move there, finds
 * a segment that the heap can return to upstream.  This happens with 32-bit addresses, where the
 * free addresses at the end of a region are often fewer than any segment needs.  If @place is a gap
 * and too small, the request tries the end of the region instead (should_skip_gaps ()). */
static TarnPiece *
find_idle (const TarnHeapRange *range, const TarnPlace *place)
{
  TarnPiece *idle = choose_idle (range, place);

  if (idle != NULL || place->is_gap)
    return idle;
  TARN_FOR_EACH_IDLE (piece, next, range->heap)
    {
      if (!is_beside (piece, place) && _tarn_piece_can_go (piece))
        return piece;
    }
  return NULL;
}

/* Uses an idle segment for a range, because upstream has no more memory.  Moves the segment to
 * @place, if idle segments may move into the range (moves_in ()) and the segment fits there.
 * Otherwise returns the segment to upstream, which can then allocate a fresh one.  Returns TRUE if
 * the caller should search the range again. */
static gboolean
use_idle (TarnHeapRange *range, TarnPlace *place, TarnPiece *idle, GError **error)
{
  if (moves_in (range) && idle->size <= get_free_addresses_at (place))
    return move (range, place, idle, error);
  _tarn_heap_release_idle (range->heap, idle);
  return TRUE;
}

/* Returns TRUE if the heap should not ask upstream for a segment smaller than @size, in two cases:
 * - No smaller size exists.
 * - A smaller segment would not be enough for the request, and the heap could not return this
 *   segment, because upstream forbids returns for now. */
static gboolean
is_least (const TarnHeap *heap, gsize size, gsize missing)
{
  return size == ops_of (heap)->virtual_granularity || (size <= missing && _tarn_heap_stays (heap));
}

/* Adds memory at a place (free addresses of a region) for a request of @wanted bytes.  Tries these,
 * one after another:
 * - a fresh segment of the usual size
 * - a fresh segment of the missing bytes, if that is less
 * - an idle segment
 * - fresh segments of half the size, a quarter of the size and so on, down to the granularity of
 *   virtual memory */
static gboolean
add_or_move (TarnHeapRange *range, TarnPlace *place, gsize wanted, GError **error)
{
  gsize granularity = ops_of (range->heap)->virtual_granularity, missing = place->missing;
  gsize size = choose_size (range, place, wanted);
  g_autoptr (GError) local = NULL;
  TarnPiece *idle;

  while (!add (range, place, size, &local))
    {
      if (!tarn_error_is_no_memory (local)
          || (is_least (range->heap, size, missing) && find_idle (range, place) == NULL))
        {
          g_propagate_error (error, g_steal_pointer (&local));
          return FALSE;
        }
      if (size <= missing && (idle = find_idle (range, place)) != NULL)
        return use_idle (range, place, idle, error);
      _tarn_heap_note_short (range->heap);
      size = size > missing ? missing : MAX (_tarn_round_up (size / 2, granularity), granularity);
      g_clear_error (&local);
    }
  return TRUE;
}

/* Finds a segment of another arena that can move to a range for small requests: an idle segment
 * that has the smallest size and that no command uses.  Returns NULL if there is none.  Takes none
 * from the same arena's large range, because the next large request would need the segment
 * again. */
static TarnPiece *
find_least_idle (const TarnHeapRange *range)
{
  gsize least = ops_of (range->heap)->virtual_granularity;

  TARN_FOR_EACH_IDLE (piece, next, range->heap)
    {
      if (piece->size == least && piece->range->arena != range->arena
          && _tarn_piece_can_move_to (piece, range) && least <= get_free_addresses (range->region))
        return piece;
    }
  return NULL;
}

/* Chooses the idle segment that moves for a request.  Returns NULL if the heap should allocate
 * fresh memory instead: because it has room for the missing bytes, because no segment can move, or
 * because segments have moved too often lately (churn.c). */
static TarnPiece *
choose_moving (TarnHeapRange *range, const TarnPlace *place, gsize size, TarnHeapMoves *moves)
{
  TarnHeap *heap = range->heap;
  gsize missing = place->missing;
  TarnPiece *idle;

  if (missing <= get_room (heap, size))
    return NULL;
  idle = moves_in (range) ? choose_idle (range, place) : find_least_idle (range);
  if (idle != NULL && *moves == TARN_MOVES_UNDECIDED)
    *moves = _tarn_heap_pay_for_moves (heap, missing, get_target (heap, size)) ? TARN_MOVES_PIECES
                                                                               : TARN_MOVES_NONE;
  return *moves == TARN_MOVES_PIECES ? idle : NULL;
}

/* Returns TRUE if the heap should first test whether upstream has the bytes that a request lacks at
 * @place.  Then sets *bytes to the number of bytes to test: the missing bytes, minus the bytes of
 * the idle segments that can move.  No test is needed if one fresh segment can supply these bytes.
 * Otherwise, a test is needed in three cases:
 * - The request lacks so many bytes that it needs many segments (PROBED_BYTES).
 * - Memory ran out lately.
 * - Upstream forbids returns of segments for now, so the heap could not return the segments of a
 *   request that fails. */
static gboolean
needs_probe (const TarnHeapRange *range, const TarnPlace *place, gsize size, gsize *bytes)
{
  gsize missing = place->missing, movable;

  if (!_tarn_heap_is_short (range->heap) && missing < PROBED_BYTES
      && !_tarn_heap_stays (range->heap))
    return FALSE;
  movable = count_movable (range, place);
  *bytes = missing - MIN (missing, movable);
  return *bytes > choose_size (range, place, size);
}

/* Returns TRUE if a request that lacks @missing bytes at the end of a range should look for a gap
 * between segments instead, where it may lack fewer bytes.  The search takes time, so a heap that
 * has room does not look for gaps. */
static gboolean
looks_for_gaps (const TarnHeapRange *range, gsize size, gsize missing)
{
  const TarnHeap *heap = range->heap;

  return moves_in (range) && heap->growth_bytes == 0
         && (missing > get_room (heap, size) || _tarn_heap_is_short (heap)
             || !_tarn_heap_has_room (heap, missing, NULL));
}

/* Finds the place where the heap should map memory for a request of @size bytes. */
static TarnPlace
find_place (const TarnHeapRange *range, gsize size, const TarnHeapAttempt *attempt)
{
  TarnPlace place = get_place_at_end (range, size);

  if (!attempt->skips_gaps && looks_for_gaps (range, size, place.missing))
    _tarn_range_find_place (range, size, !attempt->has_begun, &place);
  return place;
}

/* Returns TRUE if a request should stop looking at gaps, and try the end of the range.  The caller
 * has found a gap, but too little memory for it.  An idle segment that is larger than the gap
 * cannot move there, but can move to the range's end.  So the result is TRUE if the free bytes at
 * the end, with all idle segments that can move there, are enough for the request. */
static gboolean
should_skip_gaps (const TarnHeapRange *range, gsize size)
{
  TarnPlace end;

  if (get_free_at_end (range) >= size)
    return TRUE;
  end = get_place_at_end (range, size);
  return count_movable (range, &end) >= end.missing;
}

/* Adds memory for a request at a place (free addresses of a region), or moves an idle segment
 * there.  Returns TRUE if the caller should search the range again. */
static gboolean
grow_at (TarnHeapRange *range, TarnPlace *place, gsize size, TarnHeapAttempt *attempt,
         GError **error)
{
  TarnPiece *idle = choose_moving (range, place, size, &attempt->moves);
  gsize bytes;

  attempt->has_begun = TRUE;
  if (idle != NULL)
    return move (range, place, idle, error);
  if (!attempt->has_probed && needs_probe (range, place, size, &bytes))
    {
      if (!probe (range->heap, bytes, error))
        return FALSE;
      attempt->has_probed = TRUE;
    }
  return add_or_move (range, place, size, error);
}

static gboolean
virtual_grow (TarnHeapRange *range, gsize size, TarnHeapAttempt *attempt, GError **error)
{
  g_autoptr (GError) local = NULL;
  TarnPlace place;

  /* Release old regions here, because they may have no segments by now. */
  tidy (range);
  if (get_free_at_end (range) < size && get_missing (range, size) > get_room (range->heap, size))
    _tarn_heap_poll_events (range->heap);
  if (get_free_at_end (range) >= size)
    /* While the lock was released above, another thread has freed enough bytes at the range's
     * end. */
    return TRUE;
  /* Reserve addresses only now.  While the lock was released above, another thread may have taken
   * free bytes at the range's end, and then the request needs more addresses. */
  if (!ensure_addresses (range, size, error))
    return FALSE;
  place = find_place (range, size, attempt);
  if (place.missing == 0 || grow_at (range, &place, size, attempt, &local))
    return TRUE;
  if (place.is_gap && tarn_error_is_no_memory (local) && should_skip_gaps (range, size))
    {
      attempt->skips_gaps = TRUE;
      return TRUE;
    }
  g_propagate_error (error, g_steal_pointer (&local));
  return FALSE;
}

const TarnHeapGrowth _tarn_heap_virtual_growth = {
  .max_small = MAX_SMALL_BYTES,
  .max_held = G_MAXSIZE,
  .get_target = get_target,
  .grow = virtual_grow,
  .release = virtual_release,
};
