/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Gets extents for requests that have the heap's lock: from the queue's own ranges, from a range
 * that grows, and at last from other queues. */

#include "heap/heap-private.h"

/* Frees an extent that is not in the table any more.  The lock is held. */
void
_tarn_heap_put (TarnHeap *heap, TarnExtent *extent)
{
  _tarn_heap_close (heap);
  heap->n_unnamed--;
  _tarn_range_put (extent->piece->range, extent);
  _tarn_heap_check_if_full_debug (heap);
}

/* Takes an extent of a queue, from the calling thread's arena if that has one.  The caller has to
 * add it to the table.  Returns NULL if there is none, or, unless @takes_any, none that suits. */
TarnExtent *
_tarn_heap_take_own (TarnHeapQueue *queue, gsize size, gboolean takes_any)
{
  TarnExtent *extent = _tarn_queue_take (_tarn_queue_get_arena (queue), size, takes_any);

  queue->heap->n_unnamed += extent != NULL;
  return extent;
}

/* Takes an extent from any range of a queue. */
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

/* Takes an extent of another queue, and makes the host wait for that queue. */
static TarnExtent *
take_from_other (TarnHeapQueue *other, gsize size)
{
  TarnExtent *extent = take_anywhere (other, size);

  if (extent == NULL || other == other->heap->nobody || _tarn_queue_await (other))
    return extent;
  _tarn_heap_put (other->heap, extent);
  return NULL;
}

/* Takes an extent that is not the best choice, because there is no other: from any range of the
 * queue, or else from other queues.  Releases the lock meanwhile; the other queue stays in the
 * list. */
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

/* Gets the range that grows for a request. */
static TarnHeapRange *
get_range (const TarnHeapQueue *queue, gsize size)
{
  return _tarn_arena_get_range (_tarn_queue_get_arena (queue), size);
}

/* Takes an extent for a request by all means: from the queue's ranges, by growing, by waiting, and
 * from other queues.  The caller has to add it to the table.  The lock is held, and released
 * meanwhile. */
TarnExtent *
_tarn_heap_take (TarnHeapQueue *queue, gsize size, GError **error)
{
  TarnHeap *heap = queue->heap;
  g_autoptr (GError) local = NULL;
  TarnHeapAttempt attempt = { TARN_MOVES_UNDECIDED, FALSE };
  gboolean was_awaited = FALSE;
  TarnExtent *extent;
  guint n_grown = 0; /* after two tries any extent will do, because other threads may make each one
                        unsuitable */

  _tarn_assert_locked (&heap->lock);
  while ((extent = _tarn_heap_take_own (queue, size, n_grown > 1)) == NULL)
    if (_tarn_heap_grow (get_range (queue, size), size, &attempt, &local))
      n_grown++;
    else if (queue->n_arenas > 1 && (extent = take_anywhere (queue, size)) != NULL)
      break; /* from another arena: there was no room to grow after all */
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

/* Takes an extent whose address is a multiple of @alignment.  In a heap whose memory is handles,
 * the offset in its piece is a multiple. */
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
