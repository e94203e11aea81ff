/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Finds free extents (contiguous ranges of a heap's memory) for requests.  Each in-order queue has
 * arenas of its own, which are sets of memory segments.  A request first searches the arenas of the
 * queue that it names.  If it finds no extent there, the heap adds a segment to one of these
 * arenas.  If the heap cannot add a segment, the request takes an extent from another queue's
 * arena.  The caller of each function here holds the heap's lock. */

#include "heap/heap-private.h"

/* A heap has few idle segments if these have at most the heap's bytes divided by TIGHT_SHARE. */
#define TIGHT_SHARE 8

/* Frees an extent in use that is not in the heap's table of extents in use: either the caller has
 * removed it from the table, or it was never added. */
void
_tarn_heap_put (TarnHeap *heap, TarnExtent *extent)
{
  _tarn_heap_close (heap);
  _tarn_arena_put_with_lock (extent);
}

/* Takes a free extent of at least @size bytes from the arenas of a queue.  Searches the calling
 * thread's own arena first.  The caller must add the extent to the heap's table of extents in use.
 * Returns NULL if no free extent is large enough.  If @takes_any is FALSE, also returns NULL in
 * two other cases.  In the first case, the extents that are large enough do not suit the request
 * (TarnHeapGrowth.suits).  In the second case, the thread's own arena should grow before the
 * request uses the queue's other arenas. */
TarnExtent *
_tarn_heap_take_own (TarnHeapQueue *queue, gsize size, gboolean takes_any)
{
  TarnExtent *extent = _tarn_queue_take (_tarn_queue_get_arena (queue), size, takes_any);

  queue->heap->n_unnamed += extent != NULL;
  return extent;
}

/* Takes a free extent of at least @size bytes from any arena of a queue.  Does not check whether
 * the extent suits the request (TarnHeapGrowth.suits).  If @alignment is not 0, @size bytes of the
 * extent begin at a multiple of @alignment.  Returns NULL if there is no such free extent. */
static TarnExtent *
take_anywhere (TarnHeapQueue *queue, gsize size, gsize alignment)
{
  TarnExtent *extent = NULL;

  for (guint i = 0; i < queue->n_arenas * TARN_N_RANGES && extent == NULL; i++)
    {
      TarnHeapRange *range = &queue->arenas[i / TARN_N_RANGES]->ranges[i % TARN_N_RANGES];

      extent = alignment == 0 ? _tarn_range_take (range, size, TRUE)
                              : _tarn_range_take_aligned (range, size, alignment);
    }
  queue->heap->n_unnamed += extent != NULL;
  return extent;
}

/* Makes the host wait for all commands on the queue @other, because they may still use the memory
 * of @extent, which a request for another queue has taken.  Does not wait if @other is
 * heap->nobody, whose free memory no command uses.  If the wait fails, frees the extent and returns
 * NULL.  Releases the heap's lock during the wait. */
static TarnExtent *
await_for (TarnHeapQueue *other, TarnExtent *extent)
{
  if (other == other->heap->nobody || _tarn_queue_await (other))
    return extent;
  _tarn_heap_put (other->heap, extent);
  return NULL;
}

/* Takes a free extent, as take_anywhere () does, from the queue @other, which the request did not
 * name.  Makes the host wait for the commands of @other, and releases the heap's lock during the
 * wait. */
static TarnExtent *
take_from_other (TarnHeapQueue *other, gsize size, gsize alignment)
{
  TarnExtent *extent = take_anywhere (other, size, alignment);

  return extent != NULL ? await_for (other, extent) : NULL;
}

/* Takes any free extent that take_anywhere () finds, from @queue or else from other queues.  This
 * is a request's last resort.  Releases the heap's lock while the host waits for the commands of
 * another queue.  During that wait the other queue's n_calls is not 0, so no thread removes that
 * queue from the list all_queues. */
static TarnExtent *
take_what_there_is (TarnHeapQueue *queue, gsize size, gsize alignment)
{
  TarnExtent *extent = take_anywhere (queue, size, alignment);
  GList *link = queue->heap->all_queues.head;

  while (extent == NULL && link != NULL)
    {
      TarnHeapQueue *other = link->data;

      other->n_calls++;
      if (other != queue)
        extent = take_from_other (other, size, alignment);
      link = link->next;
      other->n_calls--;
    }
  return extent;
}

/* Returns TRUE if a request of @size bytes should leave the idle segments of virtual memory to
 * larger requests.  This is so if the request is smaller than any segment, and if the heap can get
 * no more memory from upstream and has few idle segments.  A request that is larger than a segment
 * needs idle segments, and would fail without them. */
static gboolean
is_tight (const TarnHeap *heap, gsize size)
{
  gsize granularity = heap->upstream->ops.virtual_granularity;

  return heap->growth == &_tarn_heap_virtual_growth && size < granularity
         && (_tarn_heap_is_short (heap) || !_tarn_heap_has_room (heap, granularity, NULL))
         && _tarn_heap_get_idle_bytes (heap) <= heap->stats.upstream_bytes / TIGHT_SHARE
         && !_tarn_heap_stays (heap);
}

/* Gets the size of the free extent that a range would use for a request of @size bytes.  Returns
 * G_MAXSIZE if there is no such extent, or if the extent has bytes in an idle segment. */
static gsize
get_hole (TarnHeapRange *range, gsize size)
{
  TarnExtent *extent = _tarn_free_index_take (&range->free, size);
  gsize bytes;

  if (extent == NULL)
    return G_MAXSIZE;
  _tarn_free_index_add (&range->free, extent);
  bytes = extent->size;
  for (const TarnPiece *piece = extent->piece;
       piece != NULL && piece->start < extent->start + extent->size; piece = piece->after)
    if (piece->n_used == 0)
      bytes = G_MAXSIZE;
  return bytes;
}

/* Finds the range that has the smallest hole for a request of @size bytes.  A hole is a free extent
 * with no bytes in an idle segment.  Searches the arenas of @queue if @is_own is TRUE, and the
 * arenas of other queues otherwise.  Returns NULL if there is no hole. */
static TarnHeapRange *
find_hole (const TarnHeapQueue *queue, gsize size, gboolean is_own)
{
  TarnHeapRange *best = NULL;
  gsize least = G_MAXSIZE;

  TARN_FOR_EACH_ARENA (arena, queue->heap)
    for (guint i = 0; i < TARN_N_RANGES && (arena->queue == queue) == is_own; i++)
      {
        gsize bytes = get_hole (&arena->ranges[i], size);

        if (bytes < least)
          best = &arena->ranges[i];
        least = MIN (least, bytes);
      }
  return best;
}

/* Takes free bytes beside extents in use, from the arenas of any queue, if the heap is short of
 * idle segments (is_tight ()).  So idle segments stay free for larger requests.  If the bytes
 * belong to another queue, the host waits for that queue's commands, and the heap's lock is
 * released during the wait.  Returns NULL if there are no such bytes. */
static TarnExtent *
take_hole (TarnHeapQueue *queue, gsize size)
{
  TarnHeapRange *range = NULL;
  TarnHeapQueue *other;
  TarnExtent *extent;

  if (!is_tight (queue->heap, size))
    return NULL;
  range = find_hole (queue, size, TRUE);
  if (range == NULL)
    range = find_hole (queue, size, FALSE);
  if (range == NULL)
    return NULL;
  other = range->arena->queue;
  extent = _tarn_range_take (range, size, TRUE);
  queue->heap->n_unnamed++;
  if (other == queue)
    return extent;
  other->n_calls++;
  extent = await_for (other, extent);
  other->n_calls--;
  return extent;
}

/* Returns the range (set of segments) that should grow for a request of @size bytes.  The range
 * belongs to the calling thread's own arena. */
static TarnHeapRange *
get_range (const TarnHeapQueue *queue, gsize size)
{
  return _tarn_arena_get_range (_tarn_queue_get_arena (queue), size);
}

/* Takes a free extent, as take_anywhere () does, after the heap could not grow by @size +
 * @alignment bytes for an aligned request.  Grows the heap by only @size bytes, because the first
 * byte of a segment usually has the alignment.  Does not grow any more when an extent of @size
 * bytes is free, even if that extent does not have the alignment.  Releases the heap's lock during
 * driver calls. */
static TarnExtent *
take_aligned_growing (TarnHeapQueue *queue, gsize size, gsize alignment)
{
  TarnHeapRange *range = get_range (queue, size);
  TarnHeapAttempt attempt = { .moves = TARN_MOVES_UNDECIDED };
  const TarnExtent *largest = NULL;
  TarnExtent *extent;

  while ((extent = take_anywhere (queue, size, alignment)) == NULL
         && (largest == NULL || largest->size < size)
         && _tarn_heap_grow (range, size, &attempt, NULL))
    largest = _tarn_free_index_get_largest (&range->free);
  return extent;
}

/* Takes a free extent of at least @size bytes for a request that names @queue.  Tries these steps,
 * one after another:
 * - It takes an extent from an arena of @queue.
 * - If the heap is nearly full, it takes free bytes beside extents in use of any queue
 *   (take_hole ()).
 * - The heap adds a segment to an arena of @queue, and the search begins again.  If queues that the
 *   program no longer names have very much memory, the host first waits for them once.
 * - If memory has run out, the host waits once until no command uses the idle segments, and the
 *   search begins again.
 * - It takes an extent from the arena of another queue.
 *
 * If the heap could not grow enough, it returns the segments that it has added and that nobody uses
 * to upstream.
 *
 * If @alignment is not 0, @size bytes of the extent begin at a multiple of @alignment.  Each extent
 * of @size + @alignment bytes has such bytes, so the first steps look for an extent of that size.
 * If these steps fail because memory has run out, the heap grows by only @size bytes, and the
 * request takes any extent that has such bytes.  The last step follows only if this fails, too.
 *
 * The caller must add the extent to the heap's table of extents in use.  Releases the heap's lock
 * during driver calls and waits. */
TarnExtent *
_tarn_heap_take (TarnHeapQueue *queue, gsize size, gsize alignment, GError **error)
{
  TarnHeap *heap = queue->heap;
  gsize enough = size + alignment;
  g_autoptr (GError) local = NULL;
  TarnHeapAttempt attempt = { .moves = TARN_MOVES_UNDECIDED };
  gboolean was_awaited = FALSE;
  guint64 n_made = heap->n_made;
  TarnExtent *extent;
  /* The number of times that the heap grew for this request.  After the second time, the request
   * takes any extent that is large enough, even if the extent does not suit (TarnHeapGrowth.suits).
   * This ensures that the request ends: otherwise other threads could make each new extent
   * unsuitable, again and again. */
  guint n_grown = 0;

  _tarn_assert_locked (&heap->lock);
  while ((extent = _tarn_heap_take_own (queue, enough, n_grown > 1)) == NULL
         && (extent = take_hole (queue, enough)) == NULL)
    if (_tarn_heap_grow (get_range (queue, enough), enough, &attempt, &local))
      n_grown++;
    else if (queue->n_arenas > 1 && (extent = take_anywhere (queue, size, alignment)) != NULL)
      /* The heap could not grow.  So take any extent of the queue that is large enough, even if the
       * search above left it out because the thread's own arena should grow first. */
      break;
    else
      {
        if (was_awaited || !_tarn_heap_await_more (heap, local))
          break;
        was_awaited = TRUE;
        g_clear_error (&local);
      }
  if (extent == NULL && alignment != 0 && tarn_error_is_no_memory (local))
    extent = take_aligned_growing (queue, size, alignment);
  if (extent == NULL)
    extent = take_what_there_is (queue, size, alignment);
  if (local != NULL)
    _tarn_queue_release_unused (queue, n_made);
  if (extent == NULL)
    {
      _tarn_heap_describe_free (heap, &local);
      g_propagate_error (error, g_steal_pointer (&local));
    }
  return extent;
}

/* Takes an extent of at least @size bytes whose address is a multiple of @alignment.  If the heap
 * does not know addresses, the extent's offset in its segment is a multiple of @alignment instead.
 * The caller holds the heap's lock.  The function releases the lock during driver calls and
 * waits. */
TarnExtent *
_tarn_heap_take_aligned (TarnHeapQueue *queue, gsize size, gsize alignment, GError **error)
{
  gsize rounded = _tarn_round_up (size, queue->heap->alignment);
  TarnExtent *extent = _tarn_heap_take (queue, rounded, alignment, error);

  if (extent == NULL)
    return NULL;
  return _tarn_range_narrow (extent, _tarn_extent_get_gap (extent, alignment), rounded);
}
