/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Gets segments for a heap from its upstream allocator, and returns them to upstream.  A segment is
 * memory that upstream allocated in one call.  A segment is idle if no extent (range of bytes) in
 * it is in use.  Only one thread at a time adds or removes segments: the thread that has set
 * TarnHeap.is_changing.  That thread calls upstream without the heap's lock. */

#include "base/duty-private.h"
#include "common/limit-private.h"
#include "heap/heap-private.h"

/* The heap waits for queues that the program no longer names if their idle segments have more than
 * UNRECORDED_SHARE times the bytes that the heap should have (await_unrecorded ()). */
#define UNRECORDED_SHARE 2

/* Returns TRUE if the calling thread may wait until another thread has added or removed segments.
 * A function of the backend, called by Tarn, may itself call Tarn.  In this nested call, the thread
 * must not wait if the outer call may be changing the segments, because the outer call can end only
 * after the nested call (base/duty-private.h). */
static gboolean
may_wait (const TarnHeap *heap)
{
  return _tarn_may_await (heap->base.level, TARN_DUTY_ASK);
}

/* Waits until no thread adds or removes segments.  Returns FALSE with an error if a thread still
 * does so, but the calling thread must not wait (may_wait ()).  The error names @size as the size
 * of the request. */
static gboolean
await_change (TarnHeap *heap, gsize size, GError **error)
{
  _tarn_assert_locked (&heap->lock);
  heap->n_waiting++;
  while (heap->is_changing && may_wait (heap))
    _tarn_heap_wait (heap);
  heap->n_waiting--;
  if (heap->is_changing)
    g_set_error (
        error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY,
        "%s: a function that the heap calls to get more memory requests " TARN_BYTES_FORMAT,
        heap->base.label, TARN_BYTES (size));
  return !heap->is_changing;
}

/* Sets TarnHeap.is_changing, so that the calling thread may add and remove segments.  The caller
 * must make sure that no other thread has set is_changing. */
static void
begin_change (TarnHeap *heap)
{
  g_assert (!heap->is_changing);
  heap->is_changing = TRUE;
  _tarn_duty_begin (heap->base.level, TARN_DUTY_ASK);
}

void
_tarn_heap_end_change (TarnHeap *heap)
{
  g_assert (heap->is_changing);
  _tarn_heap_drop_queues (heap);
  _tarn_duty_end (heap->base.level, TARN_DUTY_ASK);
  heap->is_changing = FALSE;
  if (heap->n_waiting > 0)
    _tarn_cond_broadcast (&heap->changed);
}

/* Gets the heap's limit in bytes: the limit that the program set for the heap or the limit of the
 * pool over the heap, whichever is lower.  Returns 0 if neither limit is set. */
gsize
_tarn_heap_get_limit (const TarnHeap *heap)
{
  return _tarn_limit_get_lower (heap->limit_bytes, heap->pool_limit);
}

/* Gets the heap's limit as _tarn_heap_get_limit () does.  The caller does not hold the heap's
 * lock. */
gsize
_tarn_heap_read_limit (TarnHeap *heap)
{
  gsize limit;

  _tarn_heap_lock_open (heap);
  limit = _tarn_heap_get_limit (heap);
  _tarn_heap_unlock (heap);
  return limit;
}

/* Makes the limit of @pool, a pool over the heap, a limit of the heap too.  @limit_bytes is 0 if
 * the pool has no limit.  If @is_latest is TRUE, the program has just made the pool or set its
 * limit, and from now on the heap takes its limit from this pool.  Does nothing if the heap takes
 * its limit from another pool, or if the program did not set TarnHeapOptions.follows_pool_limit.
 * In a heap of virtual memory, rounds the limit up to a multiple of the granularity, because such a
 * heap allocates only such multiples.  Returns TRUE if the heap takes its limit from this pool, and
 * has more bytes than its limit. */
gboolean
_tarn_heap_set_pool_limit (TarnHeap *heap, gconstpointer pool, gboolean is_latest,
                           gsize limit_bytes)
{
  gboolean is_virtual = heap->growth == &_tarn_heap_virtual_growth;
  gsize unit = is_virtual ? heap->upstream->ops.virtual_granularity : 1;
  gboolean is_followed, has_more;
  gsize limit;

  if (!heap->follows_pool)
    return FALSE;
  _tarn_heap_lock (heap);
  if (is_latest)
    heap->followed_pool = pool;
  is_followed = heap->followed_pool == pool;
  if (is_followed)
    heap->pool_limit = _tarn_round_up (MIN (limit_bytes, G_MAXSIZE - unit), unit);
  limit = _tarn_heap_get_limit (heap);
  has_more = is_followed && limit != 0 && heap->stats.upstream_bytes > limit;
  _tarn_heap_unlock (heap);
  return has_more;
}

/* Removes the heap's limit that comes from @pool, if the heap has such a limit.  Call this when the
 * pool's last reference was dropped. */
void
_tarn_heap_end_pool_limit (TarnHeap *heap, gconstpointer pool)
{
  _tarn_heap_lock (heap);
  if (heap->followed_pool == pool)
    {
      heap->followed_pool = NULL;
      heap->pool_limit = 0;
    }
  _tarn_heap_unlock (heap);
}

/* Returns TRUE if the heap may get @size more bytes from upstream within its limit.  If the heap
 * has no limit, its bytes must still fit into a gsize, because a device may have more memory than a
 * 32-bit host has addresses. */
gboolean
_tarn_heap_has_room (const TarnHeap *heap, gsize size, GError **error)
{
  gsize used = heap->stats.upstream_bytes, limit = _tarn_heap_get_limit (heap);
  gsize most = limit != 0 ? limit : G_MAXSIZE;

  _tarn_assert_locked (&heap->lock);
  if (used <= most && size <= most - used)
    return TRUE;
  if (limit == 0)
    g_set_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY,
                 "%s has " TARN_BYTES_FORMAT ", and cannot count %" G_GSIZE_FORMAT " more",
                 heap->base.label, TARN_BYTES (used), size);
  else
    g_set_error (error, TARN_ERROR, TARN_ERROR_LIMIT,
                 "%s has " TARN_BYTES_FORMAT " of a limit of %" G_GSIZE_FORMAT
                 ", and needs %" G_GSIZE_FORMAT " more",
                 heap->base.label, TARN_BYTES (used), limit, size);
  return FALSE;
}

/* Updates stats.peak_upstream_bytes, the largest value that stats.upstream_bytes has had.  Call
 * this after stats.upstream_bytes has counted a new segment. */
void
_tarn_heap_note_peak (TarnHeap *heap)
{
  TarnHeapStats *stats = &heap->stats;

  _tarn_assert_locked (&heap->lock);
  stats->peak_upstream_bytes = MAX (stats->peak_upstream_bytes, stats->upstream_bytes);
}

/* Sets TarnHeap.is_changing, so that the calling thread may add and remove segments.  First waits
 * until no other thread adds or removes segments.  If the calling thread must not wait, returns
 * FALSE with an error, which names @size as the size of the request. */
gboolean
_tarn_heap_begin_change (TarnHeap *heap, gsize size, GError **error)
{
  if (!await_change (heap, size, error))
    return FALSE;
  begin_change (heap);
  return TRUE;
}

/* Makes the host wait until no command uses idle segments, if queues that the program no longer
 * names have too many bytes in such segments (UNRECORDED_SHARE).  Returns TRUE if the host has
 * waited: the caller should then search the range again.  Waits at most once for each request.
 *
 * The wait is needed only if the backend has event_record_all ().  Then the heap records an event
 * on a queue only when the program names the queue, and without an event no other queue can use the
 * queue's idle segments.  So without the wait, a program that uses a new queue for each task, or a
 * new thread with its own default stream, would allocate until the driver has no memory left. */
static gboolean
await_unrecorded (TarnHeap *heap, gsize size, TarnHeapAttempt *attempt)
{
  gsize target, most;

  if (attempt->has_awaited || heap->base.direct->ops.event_record_all == NULL)
    return FALSE;
  target = heap->growth->get_target (heap, size);
  most = MIN (target, G_MAXSIZE / UNRECORDED_SHARE) * UNRECORDED_SHARE;
  if (heap->stats.upstream_bytes <= most || _tarn_heap_count_unrecorded (heap) <= most
      || !may_wait (heap))
    return FALSE;
  attempt->has_awaited = TRUE;
  return _tarn_heap_await_idle (heap);
}

/* Adds a segment to a range (a set of segments) that has no free extent for a request.  If another
 * thread is adding or removing segments, waits for that thread instead.  Returns TRUE if the caller
 * should search the range again. */
gboolean
_tarn_heap_grow (TarnHeapRange *range, gsize size, TarnHeapAttempt *attempt, GError **error)
{
  TarnHeap *heap = range->heap;
  gboolean has_grown;
  guint64 n_before;

  _tarn_assert_locked (&heap->lock);
  if (heap->is_changing)
    return await_change (heap, size, error);
  if (await_unrecorded (heap, size, attempt))
    return TRUE;
  begin_change (heap);
  heap->n_growths++;
  n_before = _tarn_direct_get_calls ();
  _tarn_heap_end_aliases (heap);
  has_grown = heap->growth->grow (range, size, attempt, error);
  heap->stats.driver_calls += _tarn_direct_get_calls () - n_before;
  _tarn_heap_end_change (heap);
  return has_grown;
}

/* Makes the host wait until no command uses the heap's idle segments.  Call this after a range
 * failed to grow with @error.  Returns FALSE without a wait if memory has not run out, or if the
 * thread must not wait.  Returns TRUE if the caller should try to grow the range again. */
gboolean
_tarn_heap_await_more (TarnHeap *heap, const GError *error)
{
  return may_wait (heap) && tarn_error_is_no_memory (error) && _tarn_heap_await_idle (heap);
}

/* Makes the struct of a segment: @size bytes of memory that the caller got from upstream. */
TarnPiece *
_tarn_piece_new (TarnHeap *heap, TarnMemory memory, gsize size)
{
  TarnPiece *piece = g_new0 (TarnPiece, 1);

  _tarn_assert_locked (&heap->lock);
  piece->number = ++heap->n_made;
  piece->memory = memory;
  piece->size = size;
  piece->link.data = piece;
  piece->idle_link.data = piece;
  return piece;
}

/* Returns TRUE if the heap may return an idle segment to upstream now.  This is so if upstream does
 * not forbid the return (_tarn_heap_stays ()), and if no command uses the segment.  Some upstream
 * allocators also accept memory that commands still use (frees_in_order). */
gboolean
_tarn_piece_can_go (const TarnPiece *piece)
{
  return (!piece->was_used || !_tarn_heap_stays (piece->range->heap))
         && (piece->range->heap->frees_in_order || _tarn_piece_is_quiet (piece));
}

/* Returns the segments of a list to upstream.  The caller has removed the segments from their
 * ranges. */
static void
release_all (TarnHeap *heap, GQueue *pieces)
{
  GList *link;

  _tarn_assert_not_locked (&heap->lock);
  while ((link = g_queue_pop_head_link (pieces)) != NULL)
    heap->growth->release (heap, link->data);
}

static void
cut (TarnPiece *piece, GQueue *pieces)
{
  _tarn_range_cut_piece (piece, FALSE);
  g_queue_push_tail_link (pieces, &piece->link);
}

/* Removes idle segments from their ranges, until at most @keep_bytes are idle, and appends them to
 * the list @pieces.  Removes only segments that the heap may return to upstream now.  In each
 * arena, begins with the segment that has been idle for the longest time. */
static void
cut_idle (TarnHeap *heap, gsize keep_bytes, GQueue *pieces)
{
  gsize bytes = _tarn_heap_get_idle_bytes (heap);

  TARN_FOR_EACH_IDLE (piece, next, heap)
    if (bytes > keep_bytes && _tarn_piece_can_go (piece))
      {
        bytes -= piece->size;
        cut (piece, pieces);
      }
}

static gsize
count_bytes (const GQueue *pieces)
{
  gsize bytes = 0;

  for (const GList *link = pieces->head; link != NULL; link = link->next)
    bytes += ((const TarnPiece *) link->data)->size;
  return bytes;
}

/* Returns the segments of a list to upstream.  The result is the number of their bytes.  The caller
 * has removed the segments from their ranges, and has set TarnHeap.is_changing.  Releases the
 * heap's lock during the driver calls. */
static gsize
release (TarnHeap *heap, GQueue *pieces)
{
  gsize bytes = count_bytes (pieces);

  g_assert (heap->is_changing);
  heap->stats.upstream_frees += pieces->length;
  if (bytes == 0)
    return 0;
  _tarn_heap_begin_generation (heap);
  _tarn_heap_unlock (heap);
  release_all (heap, pieces);
  _tarn_heap_lock (heap);
  heap->stats.upstream_bytes -= bytes;
  return bytes;
}

/* Returns the idle segment @piece to upstream.  If @piece is NULL, returns all idle segments that
 * the heap may return now.  The result is the number of bytes returned.  The caller has set
 * TarnHeap.is_changing.  Releases the heap's lock during the driver calls. */
gsize
_tarn_heap_release_idle (TarnHeap *heap, TarnPiece *piece)
{
  GQueue pieces = G_QUEUE_INIT;

  if (piece != NULL)
    cut (piece, &pieces);
  else
    cut_idle (heap, 0, &pieces);
  return release (heap, &pieces);
}

/* Returns idle segments to upstream: those that the heap has made since the counter TarnHeap.n_made
 * had the value @n_made.  If @queue is not NULL, returns only segments of this queue.  The caller
 * has set is_changing. */
static void
release_made (TarnHeap *heap, const TarnHeapQueue *queue, guint64 n_made)
{
  GQueue pieces = G_QUEUE_INIT;

  TARN_FOR_EACH_IDLE (piece, next, heap)
    if (piece->number > n_made && (queue == NULL || piece->range->arena->queue == queue)
        && _tarn_piece_can_go (piece))
      cut (piece, &pieces);
  release (heap, &pieces);
}

/* Returns idle segments of a queue to upstream: those that the heap has made since the counter
 * TarnHeap.n_made had the value @n_made.  Call this after a request has failed, because nobody may
 * need the segments that the heap added for it.  While upstream forbids moves
 * (_tarn_heap_stays ()), only the range of the request could use them. */
void
_tarn_queue_release_unused (TarnHeapQueue *queue, guint64 n_made)
{
  TarnHeap *heap = queue->heap;

  if (heap->n_made == n_made || !await_change (heap, 0, NULL))
    return;
  begin_change (heap);
  release_made (heap, queue, n_made);
  _tarn_heap_end_change (heap);
}

/* Begins a reservation: until it ends, the heap makes no segment larger than its request needs.
 * Returns the number of segments that the heap has made until now.  The caller passes the number to
 * _tarn_heap_end_reservation (). */
guint64
_tarn_heap_begin_reservation (TarnHeap *heap)
{
  guint64 n_made;

  _tarn_heap_lock_open (heap);
  n_made = heap->n_made;
  heap->n_reservations++;
  _tarn_heap_unlock (heap);
  return n_made;
}

/* Ends a reservation.  If it has failed, returns to upstream the idle segments that the heap has
 * made since _tarn_heap_begin_reservation () returned @n_made.  If upstream accepts only memory
 * that no command uses, first makes the host wait for the commands that use idle segments. */
void
_tarn_heap_end_reservation (TarnHeap *heap, guint64 n_made, gboolean has_failed)
{
  gboolean has_unused;

  _tarn_heap_lock (heap);
  heap->n_reservations--;
  has_unused = has_failed && heap->n_made != n_made;
  if (has_unused && !heap->frees_in_order)
    _tarn_heap_await_idle (heap);
  if (has_unused && await_change (heap, 0, NULL))
    {
      begin_change (heap);
      _tarn_heap_end_aliases (heap);
      release_made (heap, NULL, n_made);
      _tarn_heap_end_change (heap);
    }
  _tarn_heap_check_if_full_debug (heap);
  _tarn_heap_unlock (heap);
}

/* Returns to upstream the segments that have been idle for TarnHeap.idle_time or longer. */
static void
release_expired (TarnHeap *heap, gint64 now)
{
  GQueue pieces = G_QUEUE_INIT;

  TARN_FOR_EACH_IDLE (piece, next, heap)
    if (now - piece->idle_at >= heap->idle_time && _tarn_piece_can_go (piece))
      cut (piece, &pieces);
  release (heap, &pieces);
}

/* Returns to upstream the segments that have been idle for TarnHeap.idle_time or longer.  Does
 * nothing if the last such check was a short time ago.  The caller holds the heap's lock.  The
 * function forbids read sections (heap-door.c) itself. */
void
_tarn_heap_expire (TarnHeap *heap)
{
  gint64 now;

  _tarn_assert_locked (&heap->lock);
  if (heap->idle_time == G_MAXINT64 || heap->is_changing)
    return;
  now = _tarn_clock_now ();
  if (now < heap->look_at)
    return;
  heap->look_at = now + heap->idle_time / TARN_LOOKS;
  _tarn_heap_close (heap);
  if (_tarn_heap_next_idle (heap, NULL) == NULL)
    return;
  begin_change (heap);
  _tarn_heap_poll_events (heap);
  release_expired (heap, now);
  _tarn_heap_end_change (heap);
}

/* If upstream accepts only memory that no command uses, makes the host wait for the commands that
 * use idle segments.  Then returns idle segments to upstream until at most @keep_bytes are idle,
 * and releases reserved addresses in which no segment is left.  The result is the number of bytes
 * returned.  It is 0 if another thread is adding or removing segments and the calling thread must
 * not wait. */
gsize
_tarn_heap_trim (TarnHeap *heap, gsize keep_bytes)
{
  GQueue pieces = G_QUEUE_INIT;
  gsize bytes;

  if (keep_bytes > 0 && _tarn_heap_get_idle_bytes (heap) <= keep_bytes)
    return 0;
  if (!heap->frees_in_order)
    _tarn_heap_await_idle (heap);
  if (!await_change (heap, 0, NULL))
    return 0;
  begin_change (heap);
  _tarn_heap_end_aliases (heap);
  cut_idle (heap, keep_bytes, &pieces);
  bytes = release (heap, &pieces);
  _tarn_heap_release_regions (heap);
  _tarn_heap_end_change (heap);
  return bytes;
}
