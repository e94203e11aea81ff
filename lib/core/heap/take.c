/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Gets extents (contiguous parts of the heap's memory) for requests whose thread holds the heap's
 * lock.  Takes an extent from the queue's own ranges if one suits, or else makes a range grow, or
 * else takes an extent from another queue. */

#include "heap/heap-private.h"

/* Frees an extent that a request has taken, but that the heap's table of extents in use does not
 * have yet.  The caller holds the heap's lock. */
void
_tarn_heap_put (TarnHeap *heap, TarnExtent *extent)
{
  _tarn_heap_close (heap);
  heap->n_unnamed--;
  _tarn_range_put (extent->piece->range, extent);
  _tarn_heap_check_if_full_debug (heap);
}

/* Takes an extent of at least @size bytes from the arenas of a queue, and from the calling thread's
 * own arena if possible.  The caller must add the extent to the heap's table.  Returns NULL if no
 * free extent is large enough, or if none suits (TarnHeapGrowth.suits) and @takes_any is FALSE. */
TarnExtent *
_tarn_heap_take_own (TarnHeapQueue *queue, gsize size, gboolean takes_any)
{
  TarnExtent *extent = _tarn_queue_take (_tarn_queue_get_arena (queue), size, takes_any);

  queue->heap->n_unnamed += extent != NULL;
  return extent;
}

/* Takes an extent of at least @size bytes from any range of a queue, whether it suits or not. */
static TarnExtent *
take_anywhere (TarnHeapQueue *queue, gsize size)
{
  TarnExtent *extent = NULL;

  for (guint i = 0; i < queue->n_arenas * TARN_N_RANGES && extent == NULL; i++)
    extent = _tarn_range_take (&queue->arenas[i / TARN_N_RANGES]->ranges[i % TARN_N_RANGES], size,
                               TRUE);
  queue->heap->n_unnamed += extent != NULL;
  return extent;
}

/* Takes an extent of another queue than the request's.  Makes the host wait for all commands of
 * that queue, unless it is heap->nobody.  Frees the extent again and returns NULL if the wait
 * fails. */
static TarnExtent *
take_from_other (TarnHeapQueue *other, gsize size)
{
  TarnExtent *extent = take_anywhere (other, size);

  if (extent == NULL || other == other->heap->nobody || _tarn_queue_await (other))
    return extent;
  _tarn_heap_put (other->heap, extent);
  return NULL;
}

/* Takes any extent of at least @size bytes, from any range of the queue or else from other queues.
 * The heap uses this as the last resort.  Releases the heap's lock while the host waits for another
 * queue; that queue's n_calls keeps the queue in all_queues meanwhile. */
static TarnExtent *
take_what_there_is (TarnHeapQueue *queue, gsize size)
{
  TarnExtent *extent = take_anywhere (queue, size);
  GList *link = queue->heap->all_queues.head;

  while (extent == NULL && link != NULL)
    {
      TarnHeapQueue *other = link->data;

      other->n_calls++;
      if (other != queue)
        extent = take_from_other (other, size);
      link = link->next;
      other->n_calls--;
    }
  return extent;
}

/* Gets the range that should grow for a request: one of the calling thread's arena. */
static TarnHeapRange *
get_range (const TarnHeapQueue *queue, gsize size)
{
  return _tarn_arena_get_range (_tarn_queue_get_arena (queue), size);
}

/* Takes an extent of at least @size bytes for a request on a queue.  Searches the queue's ranges,
 * makes a range grow, makes the host wait until idle pieces are free, and at last searches other
 * queues.  The caller must add the extent to the heap's table.  The caller holds the heap's lock;
 * the function releases it during driver calls and waits. */
TarnExtent *
_tarn_heap_take (TarnHeapQueue *queue, gsize size, GError **error)
{
  TarnHeap *heap = queue->heap;
  g_autoptr (GError) local = NULL;
  TarnHeapAttempt attempt = { TARN_MOVES_UNDECIDED, FALSE };
  gboolean was_awaited = FALSE;
  TarnExtent *extent;
  guint n_grown = 0; /* how often the heap grew.  After the second time any extent will do, because
                        other threads may make each extent that suits unsuitable */

  _tarn_assert_locked (&heap->lock);
  while ((extent = _tarn_heap_take_own (queue, size, n_grown > 1)) == NULL)
    if (_tarn_heap_grow (get_range (queue, size), size, &attempt, &local))
      n_grown++;
    else if (queue->n_arenas > 1 && (extent = take_anywhere (queue, size)) != NULL)
      break; /* the queue's other arenas had it, and the heap could not grow */
    else
      {
        if (was_awaited || !_tarn_heap_await_more (heap, local))
          break;
        was_awaited = TRUE;
        g_clear_error (&local);
      }
  if (extent == NULL)
    extent = take_what_there_is (queue, size);
  if (extent == NULL)
    {
      _tarn_heap_describe_free (heap, &local);
      g_propagate_error (error, g_steal_pointer (&local));
    }
  return extent;
}

/* Takes an extent of at least @size bytes whose address is a multiple of @alignment.  If the heap
 * has no addresses, the extent's offset in its piece is a multiple of @alignment instead.  The
 * caller holds the heap's lock; the function releases it during driver calls and waits. */
TarnExtent *
_tarn_heap_take_aligned (TarnHeapQueue *queue, gsize size, gsize alignment, GError **error)
{
  TarnHeap *heap = queue->heap;
  gsize rounded = _tarn_round_up (size, heap->alignment);
  TarnExtent *extent = _tarn_heap_take (queue, rounded + alignment, error);
  guint64 place;

  if (extent == NULL)
    return NULL;
  place = heap->has_addresses ? _tarn_extent_get_address (extent)
                              : extent->start - extent->piece->start;
  return _tarn_range_narrow (extent, (gsize) (-place & (alignment - 1)), rounded);
}
