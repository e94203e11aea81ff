/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Aliases: old mappings of pieces (segments of memory) that have moved.  An idle piece, which has
 * no extent in use, can move to another address within its queue although earlier commands of the
 * queue may still use the piece.  The heap then maps the piece at the new address as well; commands
 * that use the new address run after those commands, because the queue executes them in order.  The
 * heap unmaps the old address, the alias, when an event shows that the earlier commands are done.
 * Until then the heap can neither return the piece nor move it to another queue.
 *
 * The caller of each function here holds the heap's lock. */

#include "heap/heap-private.h"

/* Returns TRUE if an idle piece can move to a range now.  It can if no command uses the piece, or
 * if the range belongs to the piece's queue and upstream can map the piece at two addresses. */
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

/* Records that a piece which moved within its queue is still mapped at @start, its old address. */
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

/* Unmaps the oldest alias of a queue.  The caller must make sure that no command uses that alias.
 * Releases the heap's lock meanwhile. */
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

/* Unmaps the aliases that no command uses any more, as far as the heap knows without asking the
 * driver.  The caller must have set TarnHeap.is_changing. */
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

/* Forgets the aliases of a queue whose pieces are lost.  The aliases stay mapped. */
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
