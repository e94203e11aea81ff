/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Aliases: old mappings of segments that have moved to other addresses.  A segment is memory that
 * upstream allocated in one call.
 *
 * A segment is idle if none of its memory is in use.  An idle segment can move to another address
 * within its queue, although earlier commands of the queue may still use the old address.  The heap
 * then maps the segment at the new address, and keeps the old mapping, the alias.  Commands that
 * use the new address run after the earlier commands, because the queue executes its commands in
 * order.  The heap unmaps the alias when an event shows that the earlier commands are done.  Until
 * then the heap can neither return the segment to upstream nor move it to another queue.
 *
 * The caller of each function here holds the heap's lock. */

#include "heap/heap-private.h"

/* Returns TRUE if an idle segment can move to a range (a set of segments of one queue) now:
 * - While upstream forbids moves (_tarn_heap_stays ()), no segment can move.
 * - A segment that no command uses can move to any range.
 * - A segment that commands may still use can move only to a range for large requests of its own
 *   queue, and only if upstream can map the segment at two addresses. */
gboolean
_tarn_piece_can_move_to (const TarnPiece *piece, const TarnHeapRange *range)
{
  const TarnHeap *heap = range->heap;

  if (_tarn_heap_stays (heap))
    return FALSE;
  if (_tarn_piece_is_quiet (piece))
    return TRUE;
  return piece->range->arena->queue == range->arena->queue && range->kind != TARN_RANGE_SMALL
         && heap->upstream->ops.backing_aliases
         && (heap->aliases_at == 0 || _tarn_clock_now () >= heap->aliases_at);
}

/* Records that upstream failed, with @error, to map a segment at a second address.  If upstream had
 * no memory for that, the heap tries again after some time.  Otherwise it never does. */
void
_tarn_heap_note_no_alias (TarnHeap *heap, const GError *error)
{
  _tarn_assert_locked (&heap->lock);
  heap->aliases_at
      = tarn_error_is_no_memory (error) ? _tarn_clock_now () + TARN_SHORT_TIME : G_MAXINT64;
}

/* Adds an alias to @queue: the segment @piece has moved within the queue, but is still mapped at
 * its old address @start. */
void
_tarn_piece_add_alias (TarnPiece *piece, TarnHeapQueue *queue, TarnHeapRegion *region,
                       guint64 start)
{
  TarnAlias *alias = g_new (TarnAlias, 1);

  _tarn_assert_locked (&queue->heap->lock);
  *alias
      = (TarnAlias){ .piece = piece, .region = region, .start = start, .moved_at = queue->n_begun };
  g_queue_push_tail (&queue->aliases, alias);
  _tarn_queue_watch (queue);
  queue->has_unrecorded = TRUE;
  piece->n_aliases++;
  region->n_pieces++;
}

/* Unmaps the oldest alias (old mapping of a moved segment) of a queue.  The caller must make sure
 * that no command uses the alias.  Releases the heap's lock during the driver call. */
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

/* Unmaps the aliases (old mappings of moved segments) that no command uses any more.  Does not ask
 * the driver whether more events are done.  The caller has set TarnHeap.is_changing.  Releases the
 * heap's lock during each driver call. */
void
_tarn_heap_end_aliases (TarnHeap *heap)
{
  g_assert (heap->is_changing);
  for (GList *link = heap->watched.head; link != NULL; link = link->next)
    {
      TarnHeapQueue *queue = link->data;
      const TarnAlias *oldest;

      while ((oldest = g_queue_peek_head (&queue->aliases)) != NULL
             && oldest->moved_at < queue->n_done)
        end_alias (queue);
    }
}

/* Frees the structs of a queue's aliases (old mappings of moved segments).  The heap calls this
 * when the heap itself is freed.  Commands may still use the aliases, so these mappings stay, and
 * the heap never releases their addresses (TarnHeapRegion.has_lost). */
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
