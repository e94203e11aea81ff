/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Grows a heap whose segments are allocated by the upstream allocator.  A segment is memory that
 * upstream allocated in one call, and extents are ranges of bytes in it.  A segment is idle if no
 * extent in it is in use.  Segments cannot move, so idle segments often cannot serve a request.  If
 * a new segment would give the heap too many bytes, the heap first returns the segments that have
 * been idle for the longest time.  A huge request usually gets a segment of its own, which has only
 * the request's size, rounded up to a multiple of UNIT if the heap can spare the bytes.  Such
 * segments are in a range (set of segments) that serves no small request, because a small block in
 * use would prevent the next huge request from using its segment.
 *
 * A free extent is stranded if another extent of its segment is in use: the heap cannot return such
 * a segment to upstream.  The file spare.c bounds the stranded memory of a heap near its limit.
 *
 * The constants below did best on traces of programs: heaps had little more memory than their peak
 * of bytes in use, and made few driver calls. */

#include "heap/heap-private.h"

#define MIB ((gsize) 1 << 20)

/* The size of a segment is a multiple of UNIT bytes, unless memory is short. */
#define UNIT (2 * MIB)

/* A request is small if it has at most MAX_SMALL_BYTES.  It is huge if it has more than
 * MIN_HUGE_BYTES, and also more than the heap's peak of bytes in use divided by HUGE_SHARE.  All
 * other requests are large.  Each arena has a range (set of segments) for each of the three kinds.
 * If the heap has a limit, smaller requests can be huge, too (parts_choose ()). */
#define MAX_SMALL_BYTES ((gsize) 64 << 10)
#define MIN_HUGE_BYTES (64 * MIB)
#define HUGE_SHARE 8

/* A request can get an idle segment that is larger than the request needs.  In two cases, the
 * segment may be larger by at most the needed bytes divided by HUGE_SLACK:
 * - A huge request takes another queue's segment.
 * - The heap has a limit, and the request needs more than the limit divided by TARN_MUCH_SHARE. */
#define HUGE_SLACK 8

/* Bounds for a heap with a limit:
 * - A new segment has at most the limit divided by LIMIT_PIECE_SHARE, unless its request needs
 *   more.
 * - A request is small only if it has at most the limit divided by LIMIT_SMALL_SHARE.
 * - If the limit is below MIN_UNIT_LIMIT bytes, the heap does not round segment sizes up to
 *   UNIT. */
#define LIMIT_PIECE_SHARE 256
#define LIMIT_SMALL_SHARE 1024
#define MIN_UNIT_LIMIT (1024 * UNIT)

/* The least number of bytes in a segment of a reservation, unless the reservation has fewer. */
#define LEAST_SHARED ((gsize) 4 << 10)

/* Constants for the usual size of a new segment.  Each arena (set of ranges) has a step, the number
 * of bytes by which the arena should grow (_tarn_arena_get_step ()).
 * - In the range for small requests, the segment has the step, but at most SMALL_PIECE_BYTES.
 * - In the range for large requests, the segment has the step if the step is at most
 *   LARGE_PIECE_BYTES.  If the step is more, the segment has LARGE_PIECE_BYTES, or the step divided
 *   by PIECE_SHARE, whichever is more. */
#define SMALL_PIECE_BYTES (16 * MIB)
#define LARGE_PIECE_BYTES (128 * MIB)
#define PIECE_SHARE 8

/* The room of a heap is the bytes that it may have above its peak of bytes in use: MIN_ROOM plus
 * the peak divided by ROOM_SHARE.  A new segment may be larger than its request needs, if the heap
 * then has at most GROWTH_ROOM bytes more than the sum of peak and room.  The heap allows this
 * excess because a heap that grows usually goes on to grow. */
#define MIN_ROOM (112 * MIB)
#define ROOM_SHARE 48
#define GROWTH_ROOM (64 * MIB)

/* Computes the most bytes that the heap should have.  Ignores @size, which only heaps of virtual
 * memory use. */
static gsize
get_target (const TarnHeap *heap, gsize size)
{
  (void) size;
  return MIN (_tarn_heap_get_target (heap, 0, ROOM_SHARE, MIN_ROOM), _tarn_heap_get_most (heap));
}

/* Gets the number of bytes by which an idle segment may be larger than the request of @size bytes
 * that it serves. */
static gsize
get_spare (const TarnHeap *heap, gsize size)
{
  gsize spare = _tarn_heap_get_spare (heap, size);

  return _tarn_heap_is_much (heap, size) ? MIN (spare, size / HUGE_SLACK) : spare;
}

/* Gets the smallest size of a new segment for a request: the request's size, rounded up to a
 * multiple of UNIT.  If the heap cannot spare the added bytes, or if the heap's limit is below
 * MIN_UNIT_LIMIT, returns the request's size instead. */
static gsize
get_needed (const TarnHeap *heap, gsize size)
{
  gsize rounded = _tarn_round_up (size, UNIT);

  if (_tarn_heap_get_most (heap) >= MIN_UNIT_LIMIT && rounded - size <= get_spare (heap, size))
    return rounded;
  return size;
}

/* Returns TRUE if a request may use @extent, which may be larger than the request.  The rest of the
 * extent may then be stranded, that is, free but not returnable to upstream.  If the heap cannot
 * spare these bytes, returns FALSE, so that the request gets other memory. */
static gboolean
parts_suits (const TarnHeapRange *range, const TarnExtent *extent, gsize size)
{
  const TarnHeap *heap = range->heap;

  if (range->kind == TARN_RANGE_SMALL || extent->size == size)
    return TRUE;
  return extent->piece->n_used > 0 ? _tarn_heap_may_share_piece (heap, extent->piece, size)
                                   : extent->size - size <= get_spare (heap, size);
}

/* Gets the size of the largest segment that may serve a request of @size bytes: @size plus the
 * bytes that the request may strand, that is, leave free but not returnable to upstream. */
static gsize
get_most_suiting (const TarnHeap *heap, gsize size)
{
  return size + MIN (get_spare (heap, size), G_MAXSIZE - size);
}

/* Chooses the size of a new segment: @needed bytes at least, and usually more, so that later
 * requests need no segment.  During a reservation, a segment has @needed bytes, or the size that
 * the program has set if that is more. */
static gsize
choose_size (const TarnHeapRange *range, gsize size, gsize needed)
{
  const TarnHeap *heap = range->heap;
  gsize has = _tarn_arena_get_step (range->arena), all = heap->stats.upstream_bytes;
  gsize most = _tarn_heap_get_target (heap, 0, ROOM_SHARE, MIN_ROOM + GROWTH_ROOM);
  gsize usual = heap->growth_bytes;
  gsize share = _tarn_heap_get_share (heap, LIMIT_PIECE_SHARE);
  gsize least = 0;

  if (range->kind == TARN_RANGE_SMALL)
    least = _tarn_heap_get_share (heap, LIMIT_SMALL_SHARE);
  if (usual == 0 && heap->n_reservations == 0)
    {
      if (range->kind == TARN_RANGE_SMALL)
        usual = MIN (SMALL_PIECE_BYTES, has);
      else if (range->kind == TARN_RANGE_LARGE)
        usual = MAX (MIN (LARGE_PIECE_BYTES, has), has / PIECE_SHARE);
      usual = MIN (usual, most > all ? most - all : 0);
    }
  usual = _tarn_round_up (MIN (usual, share), heap->alignment);
  return MAX (needed, MIN (usual, MAX (get_most_suiting (heap, size), least)));
}

/* Returns TRUE if the heap may return fresh memory to upstream before the backend's queue has made
 * the memory ready.  The heap may do so in three cases:
 * - The driver accepts a free while commands use the memory.
 * - Upstream is a pool, which itself keeps track of that queue.
 * - Upstream is a heap, whose memory is always ready. */
static gboolean
may_go_unready (const TarnHeap *heap)
{
  return heap->frees_in_order || heap->upstream != heap->base.direct;
}

/* Makes the host wait for all commands that @queue has been given until now.  Returns FALSE if the
 * wait failed, for example because one of the commands failed.  Sets *is_done to TRUE if the
 * commands are known to be done, even if the wait failed. */
static gboolean
await_queue (TarnAllocator *direct, gpointer queue, gboolean *is_done, GError **error)
{
  g_autoptr (GError) local = NULL;
  gpointer event = _tarn_allocator_record_event (direct, queue, TRUE, &local);
  gboolean has_waited = event != NULL && _tarn_allocator_wait (direct, event, NULL, &local);

  *is_done = has_waited || g_error_matches (local, TARN_ERROR, TARN_ERROR_CONTEXT_LOST)
             || (event != NULL && _tarn_call_queue (direct, event_is_done, event));
  if (event != NULL)
    _tarn_call_queue (direct, event_release, event);
  if (!has_waited)
    g_propagate_error (error, g_steal_pointer (&local));
  return has_waited;
}

/* Makes the host wait until fresh memory is ready, if the backend has a queue that makes fresh
 * memory ready.  Waits also if upstream is a pool, because the pool may have just got the memory
 * from the backend.  Returns FALSE if the wait failed.  Then *busy tells what the caller has to do
 * with the memory.  If *busy is NULL, the caller can return the memory to upstream.  Otherwise
 * *busy is the backend's queue, whose commands may still use the memory, so the caller must keep
 * the memory. */
static gboolean
await_ready (TarnHeap *heap, gpointer *busy, GError **error)
{
  TarnAllocator *direct = heap->base.direct;
  gpointer queue = _tarn_allocator_get_fresh_queue (direct);
  gboolean is_done;

  *busy = NULL;
  if (queue == NULL)
    return TRUE;
  _tarn_heap_lock_open (heap);
  heap->stats.host_waits++;
  _tarn_heap_unlock (heap);
  if (await_queue (direct, queue, &is_done, error))
    return TRUE;
  if (!is_done && !may_go_unready (heap))
    *busy = queue;
  return FALSE;
}

/* Allocates memory from upstream, and makes the host wait until the memory is ready.  Returns FALSE
 * if the allocation or the wait failed.  Then *busy is usually NULL, and nothing is allocated.  If
 * *busy is not NULL, *memory is allocated, but commands on the queue *busy may still be making the
 * memory ready.  The heap must then keep this memory, and must allocate no more until the host can
 * wait for that queue.  The caller does not hold the heap's lock. */
static gboolean
allocate (TarnHeap *heap, gsize size, TarnMemory *memory, gpointer *busy, GError **error)
{
  gpointer unused;

  *busy = NULL;
  if ((heap->is_unready && !await_ready (heap, &unused, error))
      || !tarn_allocator_allocate_memory (heap->upstream, size, memory, error))
    return FALSE;
  if (await_ready (heap, busy, error))
    return TRUE;
  if (*busy == NULL)
    tarn_allocator_free_memory (heap->upstream, *memory, size);
  return FALSE;
}

/* Makes the struct of a segment for memory that upstream allocated.  Each byte of the segment gets
 * a number, which extents use instead of an address. */
static TarnPiece *
piece_new (TarnHeap *heap, TarnMemory memory, gsize size)
{
  TarnPiece *piece = _tarn_piece_new (heap, memory, size);

  piece->start = heap->next_start;
  heap->next_start += _tarn_round_up (size, UNIT) + UNIT;
  return piece;
}

/* Keeps memory that a queue may not have made ready yet: adds the memory to the heap as an idle
 * segment of that queue.  After the queue's commands are done, other queues can use the segment, or
 * the heap can return it.  If the heap does not know the queue and cannot add it, logs a message,
 * and returns FALSE: the memory is then lost. */
static gboolean
keep_unready (TarnHeap *heap, gpointer handle, TarnRangeKind kind, TarnMemory memory, gsize size)
{
  g_autoptr (GError) error = NULL;
  TarnHeapQueue *queue = _tarn_heap_enter_queue (heap, handle, &error);

  _tarn_assert_locked (&heap->lock);
  if (queue != NULL)
    {
      _tarn_range_add_busy_piece (&_tarn_queue_get_arena (queue)->ranges[kind],
                                  piece_new (heap, memory, size), NULL);
      queue->n_calls--;
      return TRUE;
    }
  _tarn_heap_unlock (heap);
  g_message ("%s: %s: the heap does not return " TARN_BYTES_FORMAT
             " to its allocator, because commands may still use them",
             heap->base.label, error->message, TARN_BYTES (size));
  _tarn_heap_lock (heap);
  return FALSE;
}

/* Allocates a segment of @size bytes, and adds it to a range. */
static gboolean
add (TarnHeapRange *range, gsize size, GError **error)
{
  TarnHeap *heap = range->heap;
  TarnMemory memory = { .address = 0 };
  gboolean is_ready, is_kept;
  gpointer busy;

  if (!_tarn_heap_has_room (heap, size, error))
    return FALSE;
  heap->stats.upstream_bytes += size;
  _tarn_heap_unlock (heap);
  is_ready = allocate (heap, size, &memory, &busy, error);
  _tarn_heap_lock (heap);
  heap->is_unready = !is_ready && (busy != NULL || heap->is_unready);
  is_kept = is_ready || (busy != NULL && keep_unready (heap, busy, range->kind, memory, size));
  if (is_ready)
    _tarn_range_add_piece (range, piece_new (heap, memory, size), NULL);
  if (is_kept)
    _tarn_heap_note_peak (heap);
  else
    heap->stats.upstream_bytes -= size;
  return is_ready;
}

/* Gets the segment that has been idle for the longest time, of all segments that the heap may
 * return to upstream now.  Returns NULL if there is none. */
static TarnPiece *
find_oldest (const TarnHeap *heap)
{
  TarnPiece *oldest = NULL;

  TARN_FOR_EACH_IDLE (piece, next, heap)
    if (_tarn_piece_can_go (piece) && (oldest == NULL || piece->idle_at < oldest->idle_at))
      oldest = piece;
  return oldest;
}

/* Returns TRUE if the heap would have too many bytes with a new segment of @needed bytes. */
static gboolean
is_too_much (const TarnHeap *heap, gsize needed)
{
  gsize target = get_target (heap, needed);

  return needed > target || heap->stats.upstream_bytes > target - needed;
}

/* Searches all ranges that serve the same kind of requests (small, large or huge) as @range, except
 * @range itself.  Returns the smallest quiet segment (a segment that no command uses) of at least
 * @needed bytes, or NULL if there is none.  For a huge request, or near the heap's limit, leaves
 * out segments that have many more bytes than @needed. */
static TarnPiece *
find_of_others (const TarnHeapRange *range, gsize size, gsize needed)
{
  gsize most = get_most_suiting (range->heap, size);
  TarnPiece *best = NULL;

  if (range->kind == TARN_RANGE_HUGE)
    most = MIN (most, needed + needed / HUGE_SLACK);
  TARN_FOR_EACH_IDLE (piece, next, range->heap)
    {
      if (piece->range != range && piece->range->kind == range->kind && piece->size >= needed
          && piece->size <= most && _tarn_piece_is_quiet (piece)
          && (best == NULL || piece->size < best->size))
        best = piece;
    }
  return best;
}

/* Returns TRUE if a request should get a segment by a move from another queue, or by the return of
 * idle segments to upstream.  Each of these makes all threads wait, and another queue may soon need
 * the segment again.  So if the heap has moved or returned segments too often lately, returns
 * FALSE: the heap then allocates a little fresh memory instead.  Always returns TRUE if this fresh
 * memory would exceed the heap's limit. */
static gboolean
pay_for_move (TarnHeap *heap, gsize needed)
{
  gsize target = get_target (heap, needed), all = heap->stats.upstream_bytes;
  gsize room = target > all ? target - all : 0, most = _tarn_heap_get_most (heap);

  return all > most || needed > most - all
         || _tarn_heap_pay_for_moves (heap, needed - MIN (needed, room), target);
}

/* Returns idle segments to upstream until the heap has room for a new segment of @needed bytes.
 * Returns no segment if the heap has returned segments too often lately (pay_for_move ()).  In that
 * case, the program probably alternates between several sizes that each need a segment, so it is
 * better to get more memory.  Searches the heap again for each segment, because each return
 * releases the heap's lock. */
static void
make_room (TarnHeapRange *range, gsize needed)
{
  TarnHeap *heap = range->heap;
  TarnPiece *piece;

  if (!is_too_much (heap, needed) || find_oldest (heap) == NULL || !pay_for_move (heap, needed))
    return;
  while (is_too_much (heap, needed) && (piece = find_oldest (heap)) != NULL)
    _tarn_heap_release_idle (heap, piece);
}

/* Moves a quiet segment (a segment that no command uses) from another range to @range.  The other
 * range usually belongs to another queue.  Returns FALSE if there is no such segment, or if the
 * heap should allocate fresh memory instead. */
static gboolean
take_of_others (TarnHeapRange *range, gsize size, gsize needed)
{
  TarnPiece *piece = find_of_others (range, size, needed);

  if (piece == NULL || !pay_for_move (range->heap, needed))
    return FALSE;
  _tarn_range_cut_piece (piece, FALSE);
  _tarn_range_add_piece (range, piece, NULL);
  range->heap->stats.moves++;
  return TRUE;
}

/* Returns idle segments to upstream if @error says that memory has run out or that a limit is
 * reached.  The result is TRUE if any were returned.  If upstream's memory has run out and no
 * segment was returned, the heap from now on has a limit: its present bytes plus @size
 * (_tarn_heap_note_full ()). */
static gboolean
release_for (TarnHeap *heap, gsize size, const GError *error)
{
  if (!tarn_error_is_no_memory (error))
    return FALSE;
  if (_tarn_heap_release_idle (heap, NULL) > 0)
    return TRUE;
  if (_tarn_is_out_of_memory (error))
    _tarn_heap_note_full (heap, size);
  return FALSE;
}

/* Adds a segment to a range.  Tries the usual size first, then the request's size rounded up
 * (get_needed ()), and then the exact size of the request, because a driver may refuse a size for
 * another reason than lack of memory.  If memory has run out, returns the idle segments to upstream
 * and tries again. */
static gboolean
parts_grow (TarnHeapRange *range, gsize size, TarnHeapAttempt *attempt, GError **error)
{
  TarnHeap *heap = range->heap;
  g_autoptr (GError) local = NULL;
  gsize needed, bytes;

  (void) attempt;
  _tarn_heap_poll_events (heap);
  _tarn_heap_age_peaks (heap);
  needed = get_needed (heap, size);
  if (take_of_others (range, size, needed))
    return TRUE;
  make_room (range, needed);
  bytes = choose_size (range, size, needed);
  heap->is_short = FALSE;
  while (!add (range, bytes, &local))
    {
      if (bytes == size && !release_for (heap, size, local))
        {
          g_propagate_error (error, g_steal_pointer (&local));
          return FALSE;
        }
      if (tarn_error_is_no_memory (local))
        _tarn_heap_note_short (heap);
      bytes = bytes > needed ? needed : size;
      g_clear_error (&local);
    }
  _tarn_heap_note_growth (heap);
  return TRUE;
}

static void
parts_release (TarnHeap *heap, TarnPiece *piece)
{
  _tarn_assert_not_locked (&heap->lock);
  tarn_allocator_free_memory (heap->upstream, piece->memory, piece->size);
  g_free (piece);
}

static TarnRangeKind
parts_choose (const TarnHeap *heap, gsize size)
{
  gsize max_large = MAX (MIN_HUGE_BYTES, heap->stats.peak_used_bytes / HUGE_SHARE);

  if (size <= MIN (MAX_SMALL_BYTES, _tarn_heap_get_share (heap, LIMIT_SMALL_SHARE)))
    return TARN_RANGE_SMALL;
  return size <= max_large && !_tarn_heap_is_much (heap, size)
                 && (size <= heap->max_unchecked || _tarn_heap_may_share (heap, size))
             ? TARN_RANGE_LARGE
             : TARN_RANGE_HUGE;
}

/* Gets the size of the largest request that usually shares its segment with other requests.  A
 * larger request can be huge, and then gets a segment of its own.  The result is a multiple of the
 * heap's alignment.  With a very low limit, the result is LEAST_SHARED bytes or the alignment,
 * although these are huge then: a reservation would otherwise be many segments of a few bytes. */
static gsize
parts_get_max_shared (const TarnHeap *heap)
{
  gsize most = MIN (MIN_HUGE_BYTES, _tarn_heap_get_share (heap, TARN_MUCH_SHARE));

  return MAX (MAX (most, LEAST_SHARED) & ~(heap->alignment - 1), heap->alignment);
}

/* The functions of heaps whose segments cannot move.  The field max_held bounds the size of the
 * blocks that a pool may cache, because a larger block would keep a segment in use that the heap
 * could otherwise return or split. */
const TarnHeapGrowth _tarn_heap_parts_growth = {
  .max_small = MAX_SMALL_BYTES,
  .max_held = MAX_SMALL_BYTES,
  .choose = parts_choose,
  .get_max_shared = parts_get_max_shared,
  .get_target = get_target,
  .grow = parts_grow,
  .suits = parts_suits,
  .release = parts_release,
};
