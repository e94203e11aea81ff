/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Pieces as the upstream allocator gives them, of which blocks are parts.  They cannot move, so
 * that a heap keeps fewer of them: where a new one would be too much, those go back first that have
 * been idle for longest.  What a huge request had is no piece for others, because some small extent
 * would be left in it when the next huge request comes; it has a piece of just its size, in a range
 * of such pieces.
 *
 * The bounds below are those that did best on traces of programs: memory of what was in use at
 * most, and few calls of the driver. */

#include "heap/heap-private.h"

#define MIB ((gsize) 1 << 20)

/* Requests have pieces of a multiple of this. */
#define UNIT (2 * MIB)

/* The largest request for the range of small ones, and for that of large ones in a small heap; in a
 * larger one the latter is a share of what was in use at most. */
#define MAX_SMALL_BYTES ((gsize) 64 << 10)
#define MIN_HUGE_BYTES (64 * MIB)
#define HUGE_SHARE 8

/* A huge request takes no other queue's piece that is larger by more than one byte in so many. */
#define HUGE_SLACK 8

/* What a piece has at least, in a heap that has as much already, and the share of the heap that one
 * has where the heap is large. */
#define SMALL_PIECE_BYTES (16 * MIB)
#define LARGE_PIECE_BYTES (128 * MIB)
#define PIECE_SHARE 8

/* What a heap may have besides what was in use at most: MIN_ROOM, and one byte in ROOM_SHARE.  What
 * a new piece has more than its request needs may be GROWTH_ROOM beyond that, because a heap that
 * grows goes on to grow, mostly. */
#define MIN_ROOM (112 * MIB)
#define ROOM_SHARE 48
#define GROWTH_ROOM (64 * MIB)

/* Reckons how many bytes the heap should have at most. */
static gsize
get_target (const TarnHeap *heap)
{
  return _tarn_heap_get_target (heap, ROOM_SHARE, MIN_ROOM);
}

static gsize
get_room (const TarnHeap *heap)
{
  gsize target = get_target (heap), all = heap->stats.upstream_bytes;

  return target > all ? target - all : 0;
}

/* Chooses how large a piece is to be for a request. */
static gsize
choose_size (const TarnHeapRange *range, gsize needed)
{
  const TarnHeap *heap = range->heap;
  gsize has = range->queue->bytes, all = heap->stats.upstream_bytes;
  gsize most = _tarn_heap_get_target (heap, ROOM_SHARE, MIN_ROOM + GROWTH_ROOM);
  gsize usual = heap->growth_bytes;

  if (usual == 0)
    {
      if (range->kind == TARN_RANGE_SMALL)
        usual = MIN (SMALL_PIECE_BYTES, has);
      else if (range->kind == TARN_RANGE_LARGE)
        usual = MAX (MIN (LARGE_PIECE_BYTES, has), has / PIECE_SHARE);
      usual = MIN (usual, most > all ? most - all : 0);
    }
  return MAX (needed, _tarn_round_up (usual, heap->alignment));
}

/* Has the host wait until fresh memory is ready, where a queue makes it so; also memory that a pool
 * below has, for nobody may have waited for it there. */
static gboolean
await_ready (const TarnHeap *heap, GError **error)
{
  TarnAllocator *direct = heap->base.direct;
  gpointer queue
      = direct->ops.fresh_queue != NULL ? direct->ops.fresh_queue (direct->user_data) : NULL;
  gpointer event;
  gboolean is_ready;

  if (queue == NULL)
    return TRUE;
  event = _tarn_allocator_record_event (direct, queue, TRUE, error);
  if (event == NULL)
    return FALSE;
  is_ready = _tarn_allocator_wait (direct, event, NULL, error);
  direct->ops.event_release (direct->user_data, event);
  return is_ready;
}

/* Asks upstream for memory that is ready.  The lock is not held. */
static gboolean
allocate (const TarnHeap *heap, gsize size, TarnMemory *memory, GError **error)
{
  if (!tarn_allocator_allocate_memory (heap->upstream, size, memory, error))
    return FALSE;
  if (await_ready (heap, error))
    return TRUE;
  tarn_allocator_free_memory (heap->upstream, *memory, size);
  return FALSE;
}

/* Makes a piece, and numbers for its extents. */
static TarnPiece *
piece_new (TarnHeap *heap, TarnMemory memory, gsize size)
{
  TarnPiece *piece = _tarn_piece_new (memory, size);

  piece->start = heap->next_start;
  heap->next_start += _tarn_round_up (size, UNIT) + UNIT;
  return piece;
}

/* Takes a piece of a size. */
static gboolean
add (TarnHeapRange *range, gsize size, GError **error)
{
  TarnHeap *heap = range->heap;
  TarnMemory memory = { .address = 0 };
  gboolean has_memory;

  if (!_tarn_heap_has_room (heap, size, error))
    return FALSE;
  heap->stats.upstream_bytes += size;
  _tarn_mutex_unlock (&heap->lock);
  has_memory = allocate (heap, size, &memory, error);
  _tarn_mutex_lock (&heap->lock);
  if (has_memory)
    {
      _tarn_heap_note_peak (heap);
      _tarn_range_add_piece (range, piece_new (heap, memory, size));
    }
  else
    heap->stats.upstream_bytes -= size;
  return has_memory;
}

/* Gets the piece that has been idle for longest of those that can go; NULL: none can. */
static TarnPiece *
find_oldest (const TarnHeap *heap)
{
  for (GList *link = heap->idle.head; link != NULL; link = link->next)
    if (_tarn_piece_can_go (link->data))
      return link->data;
  return NULL;
}

/* Gives idle pieces back until a new one is no more than the heap should have. */
static void
make_room (TarnHeapRange *range, gsize needed)
{
  TarnHeap *heap = range->heap;
  gsize target = get_target (heap);
  TarnPiece *piece;

  while ((needed > target || heap->stats.upstream_bytes > target - needed)
         && (piece = find_oldest (heap)) != NULL)
    _tarn_heap_release_idle (heap, piece);
}

/* Gets the smallest quiet piece of another queue that has so many bytes, but not too many for what
 * has a piece of its own; NULL: there is none. */
static TarnPiece *
find_of_others (const TarnHeapRange *range, gsize needed)
{
  gsize most = range->kind == TARN_RANGE_HUGE ? needed + needed / HUGE_SLACK : G_MAXSIZE;
  TarnPiece *best = NULL;

  for (GList *link = range->heap->idle.head; link != NULL; link = link->next)
    {
      TarnPiece *piece = link->data;

      if (piece->range != range && piece->range->kind == range->kind && piece->size >= needed
          && piece->size <= most && _tarn_piece_is_quiet (piece)
          && (best == NULL || piece->size < best->size))
        best = piece;
    }
  return best;
}

/* Has a range take a quiet piece over from another queue. */
static gboolean
take_of_others (TarnHeapRange *range, gsize needed)
{
  TarnPiece *piece = find_of_others (range, needed);

  if (piece == NULL)
    return FALSE;
  _tarn_range_cut_piece (piece);
  _tarn_range_add_piece (range, piece);
  range->heap->stats.moves++;
  return TRUE;
}

/* A piece of the usual size, or of what is needed; or else once what is idle has gone, and then of
 * the very bytes. */
static gboolean
parts_grow (TarnHeapRange *range, gsize size, GError **error)
{
  TarnHeap *heap = range->heap;
  gsize needed = _tarn_round_up (size, UNIT), bytes;
  g_autoptr (GError) local = NULL;

  _tarn_heap_ask_marks (heap);
  if (take_of_others (range, needed))
    return TRUE;
  make_room (range, needed);
  bytes = choose_size (range, needed);
  heap->is_short = FALSE;
  while (!add (range, bytes, &local))
    {
      if (!_tarn_heap_has_run_out (local)
          || (bytes == size && _tarn_heap_release_idle (heap, NULL) == 0))
        {
          g_propagate_error (error, g_steal_pointer (&local));
          return FALSE;
        }
      heap->is_short = TRUE;
      bytes = bytes > needed ? needed : size;
      g_clear_error (&local);
    }
  return TRUE;
}

static void
parts_release (TarnHeap *heap, TarnPiece *piece)
{
  _tarn_assert_not_locked (&heap->lock);
  tarn_allocator_free_memory (heap->upstream, piece->memory, piece->size);
  g_free (piece);
}

/* Pieces are all that such a range has. */
static void
parts_tidy (TarnHeapRange *range)
{
  (void) range;
}

static TarnRangeKind
parts_choose (const TarnHeap *heap, gsize size)
{
  if (size <= MAX_SMALL_BYTES)
    return TARN_RANGE_SMALL;
  return size <= MAX (MIN_HUGE_BYTES, heap->stats.peak_used_bytes / HUGE_SHARE) ? TARN_RANGE_LARGE
                                                                                : TARN_RANGE_HUGE;
}

/* A larger block that a pool holds keeps a piece in use which could go back, or be split. */
const TarnHeapGrowth _tarn_heap_parts_growth = {
  .max_small = MAX_SMALL_BYTES,
  .max_held = MAX_SMALL_BYTES,
  .choose = parts_choose,
  .get_room = get_room,
  .grow = parts_grow,
  .release = parts_release,
  .tidy = parts_tidy,
  .clear = parts_tidy,
};
