/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Pieces at two addresses.  An idle piece can move within its queue although commands of the queue
 * may still use it: it is mapped at the new address as well, and commands that use the new address
 * come later on the same queue.  The old mapping, an alias, ends when an event says that the
 * earlier commands are done.  Until then the piece can neither be returned nor move to another
 * queue.
 *
 * The lock is held in all functions here. */

#include "heap/heap-private.h"

/* Returns TRUE if an idle piece can move to a range now: if it is quiet, or if it can be mapped at
 * two addresses within its queue. */
gboolean
_tarn_piece_can_move_to (const TarnPiece *piece, const TarnHeapRange *range)
{
  const TarnHeap *heap = range->heap;

  if (_tarn_heap_stays (heap))
    return FALSE;
  if (_tarn_piece_is_quiet (piece))
    return TRUE;
  return piece->range->arena->queue == range->arena->queue && range->kind != TARN_RANGE_SMALL
         && heap->upstream->ops.backing_aliases && !heap->refuses_aliases;
}

/* Notes that a piece which moved within a queue is still mapped at its old address. */
void
_tarn_piece_add_alias (TarnPiece *piece, TarnHeapQueue *queue, TarnHeapRegion *region,
                       guint64 start)
{
  TarnAlias *alias = g_new (TarnAlias, 1);

  _tarn_assert_locked (&queue->heap->lock);
  *alias
      = (TarnAlias){ .piece = piece, .region = region, .start = start, .moved_at = queue->n_begun };
  g_queue_push_tail (&queue->aliases, alias);
  queue->has_unrecorded = TRUE;
  piece->n_aliases++;
  region->n_pieces++;
}

/* Unmaps the oldest alias of a queue.  The caller has made sure that no command uses that alias.
 * Releases the lock meanwhile. */
static void
end_alias (TarnHeapQueue *queue)
{
  TarnHeap *heap = queue->heap;
  g_autofree TarnAlias *alias = g_queue_pop_head (&queue->aliases);
  TarnMemory address = { .address = alias->start };

  _tarn_heap_begin_generation (heap);
  _tarn_heap_unlock (heap);
  _tarn_call (heap->upstream, backing_unmap, address, alias->piece->size);
  _tarn_heap_lock (heap);
  alias->piece->n_aliases--;
  alias->region->n_pieces--;
}

/* Unmaps the aliases that no command uses any more, as far as events are known to be done.  The
 * caller has set is_changing. */
void
_tarn_heap_end_aliases (TarnHeap *heap)
{
  g_assert (heap->is_changing);
  for (GList *link = heap->all_queues.head; link != NULL; link = link->next)
    {
      TarnHeapQueue *queue = link->data;
      const TarnAlias *oldest;

      while ((oldest = g_queue_peek_head (&queue->aliases)) != NULL
             && oldest->moved_at < queue->n_done)
        end_alias (queue);
    }
}

/* Drops the aliases of a queue whose pieces are lost.  Their addresses stay mapped. */
void
_tarn_queue_lose_aliases (TarnHeapQueue *queue)
{
  TarnAlias *alias;

  while ((alias = g_queue_pop_head (&queue->aliases)) != NULL)
    {
      alias->region->n_pieces--;
      alias->region->has_lost = TRUE;
      g_free (alias);
    }
}
