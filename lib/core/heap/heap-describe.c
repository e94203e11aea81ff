/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What a recording says of a heap besides what happens: its options, the memory that it had before,
 * and its counters. */

#include "heap/heap-private.h"
#include "record/record-private.h"

static void
record_heap (const TarnHeap *heap)
{
  const guint64 properties[] = {
    TARN_TRACE_LIMIT_BYTES,   heap->limit_bytes,
    TARN_TRACE_GROWTH_BYTES,  heap->growth_bytes,
    TARN_TRACE_ALIGNMENT,     heap->alignment,
    TARN_TRACE_IS_VIRTUAL,    heap->growth == &_tarn_heap_virtual_growth,
    TARN_TRACE_GRANULARITY,   heap->upstream->ops.virtual_granularity,
    TARN_TRACE_FOLLOWS_LIMIT, (guint64) heap->follows_pool,
    TARN_TRACE_IDLE_SECONDS,  (guint64) (heap->idle_time / G_TIME_SPAN_SECOND),
  };

  _tarn_record_object (heap->base.id, TARN_TRACE_HEAP, heap->upstream->id, heap->base.klass->kind,
                       heap->base.ops.name, properties, G_N_ELEMENTS (properties) / 2);
}

/* Records that a range has a piece. */
void
_tarn_heap_record_piece (const TarnPiece *piece)
{
  const TarnHeapQueue *queue = piece->range->queue;

  _tarn_record_numbers (TARN_TRACE_PIECE, queue->heap->base.id, piece->start, piece->size,
                        GPOINTER_TO_SIZE (queue->handle));
}

static void
record_pieces (const TarnHeapQueue *queue)
{
  for (guint i = 0; i < TARN_N_RANGES; i++)
    for (const GList *link = queue->ranges[i].pieces.head; link != NULL; link = link->next)
      _tarn_heap_record_piece (link->data);
}

static void
record_extents (const TarnHeap *heap)
{
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, heap->table);
  while (g_hash_table_iter_next (&iter, &value, NULL))
    {
      const TarnExtent *extent = value;

      _tarn_record_numbers (TARN_TRACE_EXTENT, heap->base.id, extent->start, extent->size);
    }
}

void
_tarn_heap_describe (TarnAllocator *allocator)
{
  TarnHeap *heap = _tarn_heap_of (allocator);

  if (!_tarn_records ())
    return;
  _tarn_mutex_lock (&heap->lock);
  record_heap (heap);
  for (const GList *link = heap->all_queues.head; link != NULL; link = link->next)
    record_pieces (link->data);
  record_extents (heap);
  _tarn_mutex_unlock (&heap->lock);
}

void
_tarn_heap_report (TarnAllocator *allocator)
{
  TarnHeapStats stats = TARN_HEAP_STATS_INIT;

  tarn_heap_get_stats (allocator, &stats);
  {
    const guint64 properties[] = {
      TARN_TRACE_UPSTREAM_BYTES,  stats.upstream_bytes,       TARN_TRACE_PEAK_UPSTREAM_BYTES,
      stats.peak_upstream_bytes,  TARN_TRACE_USED_BYTES,      stats.used_bytes,
      TARN_TRACE_PEAK_USED_BYTES, stats.peak_used_bytes,      TARN_TRACE_FREE_BYTES,
      stats.free_bytes,           TARN_TRACE_PIECES,          stats.pieces,
      TARN_TRACE_UPSTREAM_CALLS,  stats.upstream_allocations, TARN_TRACE_UPSTREAM_FREES,
      stats.upstream_frees,       TARN_TRACE_MOVES,           stats.moves,
    };

    _tarn_record_stats (allocator->id, properties, G_N_ELEMENTS (properties) / 2);
  }
}
