/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Functions that return or describe the counters of a heap. */

#include "base/fork-private.h"
#include "common/struct-private.h"
#include "heap/heap-private.h"

/* Returns the size in bytes of the largest free extent (contiguous range of memory) of a range. */
static gsize
get_largest (const TarnHeapRange *range)
{
  const TarnExtent *extent = _tarn_free_index_get_largest (&range->free);

  return extent != NULL ? extent->size : 0;
}

/* Returns the size in bytes of the largest free extent (contiguous range of memory) of a heap. */
static gsize
get_largest_of_all (const TarnHeap *heap)
{
  gsize largest = 0;

  _tarn_assert_locked (&heap->lock);
  TARN_FOR_EACH_ARENA (arena, heap)
    for (guint i = 0; i < TARN_N_RANGES; i++)
      largest = MAX (largest, get_largest (&arena->ranges[i]));
  return largest;
}

/* Adds two numbers to the message of the error *error: the heap's free bytes, and the size of its
 * largest free extent.  Does nothing if *error does not say that memory has run out, or if the heap
 * has no segments. */
void
_tarn_heap_describe_free (const TarnHeap *heap, GError **error)
{
  g_autofree gchar *message = NULL;

  _tarn_assert_locked (&heap->lock);
  if (*error == NULL || !tarn_error_is_no_memory (*error) || heap->stats.pieces == 0)
    return;
  message = g_steal_pointer (&(*error)->message);
  (*error)->message = g_strdup_printf (
      "%s: " TARN_BYTES_FORMAT " %s free in %" G_GSIZE_FORMAT
      " segment%s, and the largest free range has %" G_GSIZE_FORMAT,
      message, TARN_BYTES (heap->stats.free_bytes), heap->stats.free_bytes == 1 ? "is" : "are",
      heap->stats.pieces, heap->stats.pieces == 1 ? "" : "s", get_largest_of_all (heap));
}

/* Returns the heap's generation: the number of times that the heap has begun to unmap memory, or to
 * return memory to upstream. */
guint64
_tarn_heap_get_generation (const TarnHeap *heap)
{
  return __atomic_load_n (&heap->generation, __ATOMIC_ACQUIRE);
}

gboolean
tarn_heap_get_stats (TarnAllocator *heap, TarnHeapStats *stats)
{
  TarnHeap *known;
  TarnHeapStats now;
  gsize lent_bytes, peak_with_lent;

  g_return_val_if_fail (heap != NULL, FALSE);
  g_return_val_if_fail (_tarn_struct_has_size (stats), FALSE);

  known = _tarn_heap_of (heap);
  if (known == NULL)
    return FALSE;
  if (_tarn_forked ())
    {
      /* This process is the child of a fork (), so take no lock.  Another thread may have been
       * changing the counters during fork (), so they may not agree with each other. */
      now = known->stats;
      lent_bytes = known->lent_bytes;
      peak_with_lent = known->peak_with_lent;
      now.idle_pieces = _tarn_heap_count_idle (known);
    }
  else
    {
      _tarn_heap_lock (known);
      now = known->stats;
      lent_bytes = known->lent_bytes;
      peak_with_lent = known->peak_with_lent;
      now.idle_pieces = _tarn_heap_count_idle (known);
      now.largest_free_bytes = get_largest_of_all (known);
      _tarn_heap_unlock (known);
    }
  now.used_bytes += lent_bytes;
  now.peak_used_bytes = MAX (peak_with_lent, now.used_bytes);
  _tarn_struct_write (stats, &now, sizeof now);
  return TRUE;
}
