/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Where the next piece comes from, and how pieces go back.  One thread at a time does either; calls
 * of upstream are made without the lock. */

#include "base/duty-private.h"
#include "heap/heap-private.h"

/* Returns TRUE if this thread may wait for others.  A backend's function may call Tarn to allocate
 * or free memory.  In such a call the thread must not wait: it could wait for itself. */
static gboolean
may_wait (const TarnHeap *heap)
{
  return _tarn_may_await (heap->base.level, TARN_DUTY_ASK);
}

/* Waits until nobody else changes what pieces there are.  Returns FALSE if this thread must not
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

/* Begins a call that changes what pieces there are; there is one at a time, and this is not
 * another. */
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

/* Gets the most bytes that the heap may have; 0: as many as there are. */
gsize
_tarn_heap_get_limit (const TarnHeap *heap)
{
  if (heap->limit_bytes == 0 || heap->pool_limit == 0)
    return MAX (heap->limit_bytes, heap->pool_limit);
  return MIN (heap->limit_bytes, heap->pool_limit);
}

/* Returns TRUE if so many bytes more are within the heap's limit; without one, whether they can be
 * counted: a device may have more memory than the host has addresses. */
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

/* Raises the peak of bytes, after a piece's bytes were counted. */
void
_tarn_heap_note_peak (TarnHeap *heap)
{
  TarnHeapStats *stats = &heap->stats;

  _tarn_assert_locked (&heap->lock);
  stats->peak_upstream_bytes = MAX (stats->peak_upstream_bytes, stats->upstream_bytes);
}

/* Returns TRUE if there is no more to be had, as opposed to another failure. */
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

/* Begins a call that changes what pieces there are, for a request of @size bytes, once nobody else
 * does.  Returns FALSE if this thread must not wait for them. */
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

/* Adds a piece to a range that has no free extent for a request, or waits for somebody who does so.
 * Returns TRUE if to look again may help. */
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
    _tarn_heap_release_idle (heap, NULL); /* nobody used these pieces: they were not enough */
  heap->stats.driver_calls += _tarn_direct_get_calls () - n_before;
  _tarn_heap_end_change (heap);
  return has_grown;
}

/* After a range could not grow, has the host wait for what may be there then.  Returns TRUE if it
 * did, so that to try again may help. */
gboolean
_tarn_heap_await_more (TarnHeap *heap, const GError *error)
{
  return may_wait (heap) && _tarn_heap_has_run_out (error) && _tarn_heap_await_idle (heap);
}

/* Makes a piece of what upstream gave. */
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

/* Returns TRUE if an idle piece can go back now. */
gboolean
_tarn_piece_can_go (const TarnPiece *piece)
{
  return (!piece->was_used || !_tarn_heap_stays (piece->range->heap))
         && (piece->range->heap->frees_in_order || _tarn_piece_is_quiet (piece));
}

/* Gives a list of pieces back that were cut out. */
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

/* Cuts out all idle pieces that can go back now. */
static void
cut_idle (TarnHeap *heap, GQueue *pieces)
{
  TARN_FOR_EACH_IDLE (piece, next, heap)
    if (_tarn_piece_can_go (piece))
      cut (piece, pieces);
}

static gsize
count_bytes (const GQueue *pieces)
{
  gsize bytes = 0;

  for (const GList *link = pieces->head; link != NULL; link = link->next)
    bytes += ((const TarnPiece *) link->data)->size;
  return bytes;
}

/* Gives pieces back that were cut out, in a call that changes what pieces there are.  Gets their
 * bytes. */
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

/* Gives an idle piece back that can go (NULL: all there are), in a call that changes what pieces
 * there are.  Gets the bytes. */
gsize
_tarn_heap_release_idle (TarnHeap *heap, TarnPiece *piece)
{
  GQueue pieces = G_QUEUE_INIT;

  if (piece != NULL)
    cut (piece, &pieces);
  else
    cut_idle (heap, &pieces);
  return release (heap, &pieces);
}

/* Gives back pieces that have been idle for longer than the heap keeps them. */
static void
release_expired (TarnHeap *heap, gint64 now)
{
  GQueue pieces = G_QUEUE_INIT;

  TARN_FOR_EACH_IDLE (piece, next, heap)
    if (now - piece->idle_at >= heap->idle_time && _tarn_piece_can_go (piece))
      cut (piece, &pieces);
  release (heap, &pieces);
}

/* Looks now and then whether pieces have been idle for so long that nobody seems to need them, and
 * gives them back.  The door need not be closed. */
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

/* Gives back all idle pieces that can go, once the host has waited for what uses them.  Gets their
 * bytes; 0 also if this thread must not wait for those who change what pieces there are. */
gsize
_tarn_heap_trim (TarnHeap *heap)
{
  gsize bytes;

  if (!heap->frees_in_order)
    _tarn_heap_await_idle (heap);
  if (!await_change (heap))
    return 0;
  begin_change (heap);
  _tarn_heap_end_aliases (heap);
  bytes = _tarn_heap_release_idle (heap, NULL);
  TARN_FOR_EACH_ARENA (arena, heap)
    for (guint i = 0; i < TARN_N_RANGES; i++)
      heap->growth->tidy (&arena->ranges[i]);
  _tarn_heap_end_change (heap);
  return bytes;
}
