/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What a heap says of itself. */

#include "base/fork-private.h"
#include "common/struct-private.h"
#include "heap/heap-private.h"

static gsize
get_largest (const TarnHeapRange *range)
{
  const TarnExtent *extent = range->root;

  while (extent != NULL && extent->greater != NULL)
    extent = extent->greater;
  return extent != NULL ? extent->size : 0;
}

/* Gets all counters.  The lock is held, but in a child of fork (). */
static void
count (const TarnHeap *heap, TarnHeapStats *stats)
{
  *stats = heap->stats;
  stats->largest_free_bytes = 0;
  for (guint i = 0; i < TARN_N_RANGES; i++)
    stats->largest_free_bytes = MAX (stats->largest_free_bytes, get_largest (&heap->ranges[i]));
  stats->idle_pieces = heap->idle.length;
}

/**
 * Gets what a heap has, all at one moment.
 *
 * @param heap   an allocator; any thread may call it
 * @param stats  out: start from TARN_HEAP_STATS_INIT; what this version of the library does not
 *               know becomes 0
 * @return FALSE, with @p stats as it was: @p heap is no heap
 * @since 0.1
 */
gboolean
tarn_heap_get_stats (TarnAllocator *heap, TarnHeapStats *stats)
{
  TarnHeap *known;
  TarnHeapStats now;

  g_return_val_if_fail (heap != NULL, FALSE);
  g_return_val_if_fail (_tarn_struct_has_size (stats), FALSE);

  known = _tarn_heap_of (heap);
  if (known == NULL)
    return FALSE;
  if (_tarn_forked ())
    count (known, &now); /* nobody has the lock, or else nobody ever gives it up */
  else
    {
      _tarn_mutex_lock (&known->lock);
      count (known, &now);
      _tarn_mutex_unlock (&known->lock);
    }
  _tarn_struct_write (stats, &now, sizeof now);
  return TRUE;
}
