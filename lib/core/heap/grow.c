/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Where the next piece comes from, and how pieces go back.  One thread at a time does either; calls
 * of upstream are made without the lock. */

#include "heap/heap-private.h"

/* Waits until nobody else changes what pieces there are, and is the one who does. */
static void
begin_change (TarnHeap *heap)
{
  _tarn_assert_locked (&heap->lock);
  while (heap->is_changing)
    _tarn_cond_wait (&heap->changed, &heap->lock);
  heap->is_changing = TRUE;
}

static void
end_change (TarnHeap *heap)
{
  g_assert (heap->is_changing);
  heap->is_changing = FALSE;
  _tarn_cond_broadcast (&heap->changed);
}

/* Tells whether so many bytes more are within the heap's limit. */
gboolean
_tarn_heap_has_room (const TarnHeap *heap, gsize size, GError **error)
{
  gsize used = heap->stats.upstream_bytes;

  if (heap->limit_bytes == 0 || (used <= heap->limit_bytes && size <= heap->limit_bytes - used))
    return TRUE;
  g_set_error (error, TARN_ERROR, TARN_ERROR_LIMIT,
               "%s has %" G_GSIZE_FORMAT " bytes of a limit of %" G_GSIZE_FORMAT
               ", and needs %" G_GSIZE_FORMAT " more",
               heap->base.label, used, heap->limit_bytes, size);
  return FALSE;
}

/* Counts bytes that upstream is asked for; if it has none they are taken off again. */
void
_tarn_heap_count_upstream (TarnHeap *heap, gsize size)
{
  _tarn_assert_locked (&heap->lock);
  heap->stats.upstream_bytes += size;
  heap->stats.peak_upstream_bytes
      = MAX (heap->stats.peak_upstream_bytes, heap->stats.upstream_bytes);
}

/* Adds a piece to a range that has no free extent for a request, or waits for somebody who does so.
 * TRUE: to look again may help. */
gboolean
_tarn_heap_grow (TarnHeapRange *range, gsize size, GError **error)
{
  TarnHeap *heap = range->heap;
  gboolean has_grown;

  _tarn_assert_locked (&heap->lock);
  if (heap->is_changing)
    {
      _tarn_cond_wait (&heap->changed, &heap->lock);
      return TRUE;
    }
  begin_change (heap);
  has_grown = heap->growth->grow (range, size, error);
  end_change (heap);
  return has_grown;
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

/* Cuts idle pieces out; all of them if only is NULL. Gets their bytes. */
static gsize
cut_idle (TarnHeap *heap, TarnPiece *only, GQueue *pieces)
{
  gsize bytes = 0;
  TarnPiece *piece;

  _tarn_assert_locked (&heap->lock);
  while ((piece = only != NULL ? only : g_queue_peek_head (&heap->idle)) != NULL)
    {
      _tarn_range_cut_piece (piece);
      g_queue_push_tail_link (pieces, &piece->link);
      bytes += piece->size;
      heap->stats.upstream_frees++;
      if (only != NULL)
        break;
    }
  return bytes;
}

/* Gives an idle piece back (NULL: all there are), in a call that changes what pieces there are.
 * Gets the bytes. */
gsize
_tarn_heap_release_idle (TarnHeap *heap, TarnPiece *piece)
{
  GQueue pieces = G_QUEUE_INIT;
  gsize bytes = cut_idle (heap, piece, &pieces);

  g_assert (heap->is_changing);
  if (bytes == 0)
    return 0;
  _tarn_mutex_unlock (&heap->lock);
  release_all (heap, &pieces);
  _tarn_mutex_lock (&heap->lock);
  heap->stats.upstream_bytes -= bytes;
  return bytes;
}

/* Gives all idle pieces back.  Gets their bytes. */
gsize
_tarn_heap_trim (TarnHeap *heap)
{
  gsize bytes;

  begin_change (heap);
  bytes = _tarn_heap_release_idle (heap, NULL);
  for (guint i = 0; i < TARN_N_RANGES; i++)
    heap->growth->tidy (&heap->ranges[i]);
  end_change (heap);
  return bytes;
}
