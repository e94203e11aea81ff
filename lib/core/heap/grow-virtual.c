/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Pieces of virtual memory: a backing each, mapped at the end of the range that needs it.  As long
 * as the heap has little more than was ever in use, it takes fresh memory; then idle pieces move,
 * those of the same queue before it is done with them.
 *
 * Addresses are never used again once a piece has moved away from them, except for the last ones.
 * There are far more of them than memory; a region in which they have come to an end is followed by
 * another, and goes when its last piece has. */

#include "heap/heap-private.h"
#include "record/record-private.h"

#define MIB ((gsize) 1 << 20)

/* The largest request for the range of small ones. */
#define MAX_SMALL_BYTES ((gsize) 256 << 10)

/* The most that a piece has: large enough for few calls of the driver, and small enough to be idle
 * often.  It is one byte in PIECE_SHARE of what the arena will have, but no less than the first and
 * no more than the second of these.  As a multiple of the first it is filled by blocks of, say, 16
 * or 128 MiB. */
#define SMALL_PIECE_BYTES (16 * MIB)
#define MAX_PIECE_BYTES (32 * MIB)
#define PIECE_SHARE 32

/* A request that misses this many bytes takes many pieces. */
#define PROBED_BYTES (64 * MAX_PIECE_BYTES)

/* The room of a heap: the bytes that it may have besides its peak of bytes in use.  It is MIN_ROOM,
 * and one byte in ROOM_SHARE of the peak. */
#define MIN_ROOM (8 * MIB)
#define ROOM_SHARE 64

/* The largest piece in a heap with a limit, as a share of that.  A piece cannot move while anything
 * in it is in use; if pieces are small, that holds little memory back. */
#define LIMIT_PIECE_SHARE 256

/* How many addresses a range reserves at first: more than a device has memory, and few enough for
 * hundreds of queues; or where there are 4 GiB in all, a share of what drivers have of them. */
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

/* Regions */

/* Reserves addresses for a range: if there are not as many, then half as many, as long as a request
 * has room. */
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
      if (size / 2 < needed)
        {
          g_propagate_error (error, g_steal_pointer (&local));
          g_free (region);
          return NULL;
        }
      size = _tarn_round_up (size / 2, ops_of (heap)->virtual_granularity);
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

/* Gets the bytes at the end of a range that are free already. */
static gsize
get_free_at_end (const TarnHeapRange *range)
{
  const TarnExtent *last = range->region != NULL ? range->region->last_extent : NULL;

  return last != NULL && last->is_free ? last->size : 0;
}

/* Gets the bytes by which a range is too short for a request. */
static gsize
get_missing (const TarnHeapRange *range, gsize size)
{
  gsize free_bytes = get_free_at_end (range);

  g_assert (size > free_bytes);
  return _tarn_round_up (size - free_bytes, ops_of (range->heap)->virtual_granularity);
}

/* Sees to it that there are addresses for a request at the end of a range. */
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
    range->old_regions = g_list_prepend (range->old_regions, range->region);
  range->region = region;
  return TRUE;
}

/* Gives addresses back that the range has no piece at any more, and does not grow in. */
static void
virtual_tidy (TarnHeapRange *range)
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

/* Gives all addresses of a heap back that has no piece any more. */
static void
virtual_clear (TarnHeapRange *range)
{
  g_assert (range->pieces.length == 0);
  for (GList *link = range->old_regions; link != NULL; link = link->next)
    release_region (range->heap, link->data);
  g_clear_pointer (&range->old_regions, g_list_free);
  if (range->region != NULL)
    release_region (range->heap, range->region);
  range->region = NULL;
}

/* Pieces */

/* Gives a piece's memory back, which is not mapped. */
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

/* Maps a piece at the end of a range.  Where that fails its memory goes back. */
static gboolean
map_at_end (TarnHeapRange *range, TarnPiece *piece, GError **error)
{
  TarnHeap *heap = range->heap;
  gboolean is_mapped;

  _tarn_assert_locked (&heap->lock);
  piece->region = range->region;
  piece->start = range->region->end;
  _tarn_heap_unlock (heap);
  is_mapped = _tarn_call (heap->upstream, backing_map, piece->memory, piece->size,
                          memory_at (piece->start), error);
  _tarn_heap_lock (heap);
  if (is_mapped)
    {
      _tarn_range_add_piece (range, piece);
      return TRUE;
    }
  heap->stats.upstream_bytes -= piece->size;
  heap->stats.upstream_frees++;
  _tarn_heap_unlock (heap);
  discard (heap, piece);
  _tarn_heap_lock (heap);
  return FALSE;
}

/* Notes that a piece, which is in no range, moves to the end of one. */
static void
note_move (const TarnHeapRange *range, const TarnPiece *piece)
{
  TarnHeap *heap = range->heap;

  heap->stats.moves++;
  TARN_EVENT (piece_moved, TARN_TRACE_PIECE_MOVED, heap->base.id, piece->start, piece->size,
              range->region->end, GPOINTER_TO_SIZE (range->arena->queue->handle));
}

/* Moves a quiet piece to the end of a range. */
static gboolean
move_quiet (TarnHeapRange *range, TarnPiece *piece, GError **error)
{
  TarnHeap *heap = range->heap;

  _tarn_range_cut_piece (piece);
  _tarn_heap_begin_generation (heap);
  _tarn_heap_unlock (heap);
  _tarn_call (heap->upstream, backing_unmap, memory_at (piece->start), piece->size);
  _tarn_heap_lock (heap);
  note_move (range, piece);
  return map_at_end (range, piece, error);
}

/* Moves an idle piece to the end of a range of its queue, which may still use it at its old
 * address. Where upstream does not map it twice it stays where it was, and no other is tried. */
static void
move_unquiet (TarnHeapRange *range, TarnPiece *piece)
{
  TarnHeap *heap = range->heap;
  TarnHeapRange *old_range = piece->range;
  TarnHeapRegion *old_region = piece->region;
  guint64 old_start = piece->start;
  gboolean is_mapped;

  _tarn_range_cut_mapped_piece (piece);
  _tarn_heap_unlock (heap);
  is_mapped = _tarn_call (heap->upstream, backing_map, piece->memory, piece->size,
                          memory_at (range->region->end), NULL);
  _tarn_heap_lock (heap);
  if (!is_mapped)
    {
      heap->refuses_aliases = TRUE;
      _tarn_range_add_busy_piece (old_range, piece);
      return;
    }
  note_move (range, piece);
  _tarn_piece_add_alias (piece, range->arena->queue, old_region, old_start);
  piece->region = range->region;
  piece->start = range->region->end;
  _tarn_range_add_busy_piece (range, piece);
}

/* Moves an idle piece to the end of a range.  Returns TRUE if to look again may help. */
static gboolean
move (TarnHeapRange *range, TarnPiece *piece, GError **error)
{
  if (_tarn_piece_is_quiet (piece))
    return move_quiet (range, piece, error);
  move_unquiet (range, piece);
  return TRUE;
}

/* Returns TRUE if pieces are to move into a range rather than fresh memory.  A large piece among
 * small ones would be in use for as long as the smallest block in it. */
static gboolean
moves_in (const TarnHeapRange *range)
{
  return range->kind != TARN_RANGE_SMALL;
}

/* Chooses the piece that is to serve a range: the smallest that is large enough, or else the
 * largest.  Those at its end already are no help, nor those that would have to move there and for
 * which there are no addresses. */
static TarnPiece *
choose_idle (const TarnHeapRange *range, gsize missing)
{
  const TarnExtent *last = get_free_at_end (range) > 0 ? range->region->last_extent : NULL;
  TarnPiece *best = NULL;

  TARN_FOR_EACH_IDLE (piece, next, range->heap)
    {
      gboolean is_enough = piece->size >= missing;

      if ((last != NULL && piece->extent == last) || !_tarn_piece_can_move_to (piece, range)
          || (moves_in (range) && piece->size > get_free_addresses (range->region)))
        continue;
      if (best == NULL
          || (is_enough ? piece->size < best->size || best->size < missing
                        : piece->size > best->size))
        best = piece;
    }
  return best;
}

/* Computes how many bytes the heap should have at most with a request of @size bytes. */
static gsize
get_target (const TarnHeap *heap, gsize size)
{
  return _tarn_heap_get_target (heap, size, ROOM_SHARE, MIN_ROOM);
}

/* Reckons how much fresh memory there may be for a request; if it needs more, a piece is moved
 * instead. */
static gsize
get_room (const TarnHeap *heap, gsize size)
{
  gsize wanted = get_target (heap, size);

  return wanted > heap->stats.upstream_bytes ? wanted - heap->stats.upstream_bytes : 0;
}

/* Gets the size of the largest piece, unless the program sets it: at most @bytes, and a share of
 * the limit. */
static gsize
get_most_of_piece (const TarnHeap *heap, gsize bytes)
{
  gsize share = _tarn_heap_get_share (heap, LIMIT_PIECE_SHARE);
  gsize granularity = ops_of (heap)->virtual_granularity;

  return MAX (MIN (bytes, share & ~(granularity - 1)), granularity);
}

/* Chooses how large a fresh piece is to be.  Where a program does not say, it is as large as all
 * that the arena has, so that who needs little has little; but no larger than there is room for,
 * unless the request needs more. */
static gsize
choose_size (const TarnHeapRange *range, gsize size, gsize missing)
{
  const TarnHeap *heap = range->heap;
  gsize granularity = ops_of (heap)->virtual_granularity;
  gsize bytes
      = CLAMP ((range->arena->bytes + missing) / PIECE_SHARE, SMALL_PIECE_BYTES, MAX_PIECE_BYTES);
  gsize most = get_most_of_piece (heap, bytes & ~(SMALL_PIECE_BYTES - 1));
  gsize usual = _tarn_round_up (heap->growth_bytes, granularity);

  if (heap->growth_bytes != 0)
    most = G_MAXSIZE;
  else if (range->kind == TARN_RANGE_SMALL)
    usual = granularity;
  else
    usual = MIN (_tarn_round_up (_tarn_arena_get_step (range->arena), granularity),
                 get_room (heap, size) / granularity * granularity);
  usual = CLAMP (usual, MIN (missing, most), most);
  return MIN (usual, get_free_addresses (range->region));
}

/* Takes fresh memory of a size, and maps it at the end of a range. */
static gboolean
add (TarnHeapRange *range, gsize size, GError **error)
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
  return map_at_end (range, _tarn_piece_new (backing, size), error);
}

/* Adds up the pieces that can move to a range's end. */
static gsize
count_movable (const TarnHeapRange *range)
{
  const TarnExtent *last = get_free_at_end (range) > 0 ? range->region->last_extent : NULL;
  gsize bytes = 0;

  TARN_FOR_EACH_IDLE (piece, next, range->heap)
    {
      if ((last == NULL || piece->extent != last) && _tarn_piece_can_move_to (piece, range))
        bytes += piece->size;
    }
  return bytes;
}

/* Sees whether upstream has @size bytes.  To map all that there is piece by piece, only to learn
 * that it is not enough, takes seconds, in which others have none. */
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
  heap->is_short = !is_there;
  return is_there;
}

/* Makes an idle piece serve a range where upstream has no more: it moves there, or goes back for
 * what upstream can give instead.  Returns TRUE if to look again may help. */
static gboolean
use_idle (TarnHeapRange *range, TarnPiece *idle, GError **error)
{
  if (moves_in (range))
    return move (range, idle, error);
  _tarn_heap_release_idle (range->heap, idle);
  return TRUE;
}

/* Returns TRUE if it is no use to ask for a smaller piece: there is none as small, or, as pieces
 * stay, what is not enough could not go back. */
static gboolean
is_least (const TarnHeap *heap, gsize size, gsize missing)
{
  return size == ops_of (heap)->virtual_granularity || (size <= missing && _tarn_heap_stays (heap));
}

/* Takes fresh memory for a request of so many bytes: of the usual size, or what is missing; or uses
 * what is idle; or takes as much as there is, down to the granularity. */
static gboolean
add_or_move (TarnHeapRange *range, gsize wanted, gsize missing, GError **error)
{
  gsize granularity = ops_of (range->heap)->virtual_granularity;
  gsize size = choose_size (range, wanted, missing);
  g_autoptr (GError) local = NULL;
  TarnPiece *idle;

  while (!add (range, size, &local))
    {
      if (!_tarn_heap_has_run_out (local)
          || (is_least (range->heap, size, missing) && choose_idle (range, missing) == NULL))
        {
          g_propagate_error (error, g_steal_pointer (&local));
          return FALSE;
        }
      if (size <= missing && (idle = choose_idle (range, missing)) != NULL)
        return use_idle (range, idle, error);
      range->heap->is_short = TRUE;
      size = size > missing ? missing : MAX (_tarn_round_up (size / 2, granularity), granularity);
      g_clear_error (&local);
    }
  return TRUE;
}

/* Chooses the piece that is to move for a request, rather than fresh memory.  Returns NULL if none
 * is. */
static TarnPiece *
choose_moving (TarnHeapRange *range, gsize size, gsize missing, TarnHeapMoves *moves)
{
  TarnHeap *heap = range->heap;
  TarnPiece *idle;

  if (!moves_in (range) || missing <= get_room (heap, size))
    return NULL;
  idle = choose_idle (range, missing);
  if (idle != NULL && *moves == TARN_MOVES_UNDECIDED)
    *moves = _tarn_heap_pay_for_moves (heap, missing, get_target (heap, size)) ? TARN_MOVES_PIECES
                                                                               : TARN_MOVES_NONE;
  return *moves == TARN_MOVES_PIECES ? idle : NULL;
}

/* Returns TRUE if upstream is to be asked first whether it has all that a request is missing.  It
 * is if the request takes many pieces, if memory ran out before, or if pieces have to stay, as
 * those of a request that fails could not go back. *bytes becomes what idle pieces do not have of
 * it. */
static gboolean
needs_probe (const TarnHeapRange *range, gsize size, gsize missing, gsize *bytes)
{
  gsize movable;

  if (!range->heap->is_short && missing < PROBED_BYTES && !_tarn_heap_stays (range->heap))
    return FALSE;
  movable = count_movable (range);
  *bytes = missing - MIN (missing, movable);
  return *bytes > choose_size (range, size, missing);
}

static gboolean
virtual_grow (TarnHeapRange *range, gsize size, TarnHeapAttempt *attempt, GError **error)
{
  gsize missing, bytes;
  TarnPiece *idle;

  virtual_tidy (range); /* also where all that moves stays mapped for a while */
  if (get_free_at_end (range) < size && get_missing (range, size) > get_room (range->heap, size))
    _tarn_heap_poll_events (range->heap);
  if (get_free_at_end (range) >= size)
    return TRUE; /* somebody has freed that meanwhile */
  /* Only now, because the lock was given up: somebody may have taken what was free at the end. */
  if (!ensure_addresses (range, size, error))
    return FALSE;
  missing = get_missing (range, size);
  idle = choose_moving (range, size, missing, &attempt->moves);
  if (idle != NULL)
    return move (range, idle, error);
  if (!attempt->has_probed && needs_probe (range, size, missing, &bytes))
    {
      if (!probe (range->heap, bytes, error))
        return FALSE;
      attempt->has_probed = TRUE;
    }
  return add_or_move (range, size, missing, error);
}

const TarnHeapGrowth _tarn_heap_virtual_growth = {
  .max_small = MAX_SMALL_BYTES,
  .max_held = G_MAXSIZE,
  .get_target = get_target,
  .grow = virtual_grow,
  .release = virtual_release,
  .tidy = virtual_tidy,
  .clear = virtual_clear,
};
