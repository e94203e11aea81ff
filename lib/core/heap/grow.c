/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Gets pieces (segments of memory) from upstream, and returns them.  Only one thread at a time
 * changes the set of pieces.  That thread calls upstream without the heap's lock. */

#include "base/duty-private.h"
#include "heap/heap-private.h"

/* Returns TRUE if this thread may wait for other threads.  A backend's function may call Tarn to
 * allocate or free memory.  In such a call the thread must not wait, because it could wait for
 * itself. */
static gboolean
may_wait (const TarnHeap *heap)
{
  return _tarn_may_await (heap->base.level, TARN_DUTY_ASK);
}

/* Waits until no other thread changes the set of pieces.  Returns FALSE if this thread must not
 * wait. */
static gboolean
await_change (TarnHeap *heap)
{
  _tarn_assert_locked (&heap->lock);
  heap->n_waiting++;
  while (heap->is_changing && may_wait (heap))
    _tarn_heap_wait (heap);
  heap->n_waiting--;
  return !heap->is_changing;
}

/* Begins a call that changes the set of pieces.  Only one such call may be in progress at a time:
 * the caller must make sure that there is no other. */
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

/* Gets the limit of the heap in bytes; 0: there is none. */
gsize
_tarn_heap_get_limit (const TarnHeap *heap)
{
  if (heap->limit_bytes == 0 || heap->pool_limit == 0)
    return MAX (heap->limit_bytes, heap->pool_limit);
  return MIN (heap->limit_bytes, heap->pool_limit);
}

/* Returns TRUE if @size more bytes are within the heap's limit.  Without a limit, tests whether a
 * gsize can count the bytes, because a device may have more memory than the host has addresses. */
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
                 "%s has %" G_GSIZE_FORMAT " bytes, and cannot count %" G_GSIZE_FORMAT " more",
                 heap->base.label, used, size);
  else
    g_set_error (error, TARN_ERROR, TARN_ERROR_LIMIT,
                 "%s has %" G_GSIZE_FORMAT " bytes of a limit of %" G_GSIZE_FORMAT
                 ", and needs %" G_GSIZE_FORMAT " more",
                 heap->base.label, used, limit, size);
  return FALSE;
}

/* Updates the peak of upstream bytes.  Call this after upstream_bytes has counted a new piece. */
void
_tarn_heap_note_peak (TarnHeap *heap)
{
  TarnHeapStats *stats = &heap->stats;

  _tarn_assert_locked (&heap->lock);
  stats->peak_upstream_bytes = MAX (stats->peak_upstream_bytes, stats->upstream_bytes);
}

/* Returns TRUE if a request failed because memory has run out, and for no other reason. */
gboolean
_tarn_heap_has_run_out (const GError *error)
{
  return tarn_error_is_no_memory (error);
}

static void
refuse_to_wait (const TarnHeap *heap, gsize size, GError **error)
{
  g_set_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY,
               "%s is asked for %" G_GSIZE_FORMAT " bytes by what is called to get it more memory",
               heap->base.label, size);
}

/* Begins a call that changes the set of pieces, for a request of @size bytes.  Waits until no other
 * thread is in such a call.  Returns FALSE if this thread must not wait. */
gboolean
_tarn_heap_begin_change (TarnHeap *heap, gsize size, GError **error)
{
  if (!await_change (heap))
    {
      refuse_to_wait (heap, size, error);
      return FALSE;
    }
  begin_change (heap);
  return TRUE;
}

/* Adds a piece to a range that has no free extent for a request.  Waits instead if another thread
 * is changing the set of pieces.  Returns TRUE if the caller should search the range again. */
gboolean
_tarn_heap_grow (TarnHeapRange *range, gsize size, TarnHeapAttempt *attempt, GError **error)
{
  TarnHeap *heap = range->heap;
  gboolean has_grown;
  guint64 n_before;

  _tarn_assert_locked (&heap->lock);
  if (heap->is_changing)
    {
      has_grown = await_change (heap);
      if (!has_grown)
        refuse_to_wait (heap, size, error);
      return has_grown;
    }
  begin_change (heap);
  heap->n_growths++;
  n_before = _tarn_direct_get_calls ();
  _tarn_heap_end_aliases (heap);
  has_grown = heap->growth->grow (range, size, attempt, error);
  if (!has_grown && _tarn_heap_stays (heap))
    _tarn_heap_release_idle (heap, NULL); /* only pieces that no request has used can go */
  heap->stats.driver_calls += _tarn_direct_get_calls () - n_before;
  _tarn_heap_end_change (heap);
  return has_grown;
}

/* Makes the host wait until no command uses the idle pieces, after a range could not grow for lack
 * of memory.  Returns TRUE if the host waited, so that the caller should try again. */
gboolean
_tarn_heap_await_more (TarnHeap *heap, const GError *error)
{
  return may_wait (heap) && _tarn_heap_has_run_out (error) && _tarn_heap_await_idle (heap);
}

/* Makes a piece (TarnPiece) of memory that came from upstream. */
TarnPiece *
_tarn_piece_new (TarnMemory memory, gsize size)
{
  TarnPiece *piece = g_new0 (TarnPiece, 1);

  piece->memory = memory;
  piece->size = size;
  piece->link.data = piece;
  piece->idle_link.data = piece;
  return piece;
}

/* Returns TRUE if the heap can return an idle piece to upstream now. */
gboolean
_tarn_piece_can_go (const TarnPiece *piece)
{
  return (!piece->was_used || !_tarn_heap_stays (piece->range->heap))
         && (piece->range->heap->frees_in_order || _tarn_piece_is_quiet (piece));
}

/* Returns to upstream the pieces that the caller has removed from their ranges. */
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
  _tarn_range_cut_piece (piece);
  g_queue_push_tail_link (pieces, &piece->link);
}

/* Removes idle pieces from their ranges, until at most @keep_bytes are idle, and adds them to a
 * list.  Removes only pieces that the heap can return now: in each arena, first those that have
 * been idle for the longest time. */
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

/* Returns to upstream the pieces that the caller has removed from their ranges.  The caller must
 * have set is_changing.  Releases the heap's lock meanwhile.  Gets the number of bytes returned. */
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

/* Returns an idle piece (NULL: all that can be returned) to upstream.  The caller must have set
 * is_changing.  Releases the heap's lock meanwhile.  Gets the number of bytes returned. */
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

/* Returns to upstream the pieces that have been idle for at least the heap's idle_time. */
static void
release_expired (TarnHeap *heap, gint64 now)
{
  GQueue pieces = G_QUEUE_INIT;

  TARN_FOR_EACH_IDLE (piece, next, heap)
    if (now - piece->idle_at >= heap->idle_time && _tarn_piece_can_go (piece))
      cut (piece, &pieces);
  release (heap, &pieces);
}

/* Returns to upstream the pieces that have been idle for at least the heap's idle_time.  Checks for
 * such pieces only at intervals.  The caller holds the heap's lock, but need not close its door. */
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

/* Makes the host wait for the commands that use idle pieces, and then returns idle pieces until at
 * most @keep_bytes are idle.  Gets the number of bytes returned.  Returns 0 if another thread is
 * changing the set of pieces and the calling thread must not wait for it. */
gsize
_tarn_heap_trim (TarnHeap *heap, gsize keep_bytes)
{
  GQueue pieces = G_QUEUE_INIT;
  gsize bytes;

  if (keep_bytes > 0 && _tarn_heap_get_idle_bytes (heap) <= keep_bytes)
    return 0;
  if (!heap->frees_in_order)
    _tarn_heap_await_idle (heap);
  if (!await_change (heap))
    return 0;
  begin_change (heap);
  _tarn_heap_end_aliases (heap);
  cut_idle (heap, keep_bytes, &pieces);
  bytes = release (heap, &pieces);
  TARN_FOR_EACH_ARENA (arena, heap)
    for (guint i = 0; i < TARN_N_RANGES; i++)
      heap->growth->tidy (&arena->ranges[i]);
  _tarn_heap_end_change (heap);
  return bytes;
}
