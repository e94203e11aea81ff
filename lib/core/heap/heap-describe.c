/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Describes a heap's options, memory and counters for recordings and snapshots. */

#include "heap/heap-private.h"
#include "record/record-private.h"

static void
tell_options (const TarnHeap *heap, TarnListener *listener)
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

  listener->object (listener, &heap->base, heap->upstream, properties,
                    G_N_ELEMENTS (properties) / 2);
}

/* Adds to the recording the memory (an address or a handle) that the user of an extent got, if it
 * differs from the extent's start.  It differs in heaps whose segments cannot move.  There, start
 * is only a number, and the user gets a part of the segment, such as a sub-buffer. */
void
_tarn_heap_record_part (const TarnExtent *extent)
{
  if (extent->memory.address != extent->start)
    _tarn_record_numbers (TARN_TRACE_PART, extent->piece->range->heap->base.id, extent->start,
                          extent->memory.address);
}

static void
tell_pieces (const TarnArena *arena, TarnListener *listener)
{
  for (guint i = 0; i < TARN_N_RANGES; i++)
    for (const GList *link = arena->ranges[i].pieces.head; link != NULL; link = link->next)
      {
        const TarnPiece *piece = link->data;

        listener->piece (listener, &arena->heap->base, piece->start, piece->size,
                         arena->queue->handle);
      }
}

/* Describes the extents in use that begin in a segment. */
static void
tell_extents (const TarnHeap *heap, const TarnPiece *piece, TarnListener *listener)
{
  for (const TarnExtent *extent = piece->extent;
       extent != NULL && extent->start < piece->start + piece->size; extent = extent->after)
    if (extent->start >= piece->start && !extent->is_free && extent->has_memory)
      listener->extent (listener, &heap->base, extent->start, extent->size, extent->memory.address);
}

static void
tell_extents_of_arena (const TarnArena *arena, TarnListener *listener)
{
  for (guint i = 0; i < TARN_N_RANGES; i++)
    for (const GList *link = arena->ranges[i].pieces.head; link != NULL; link = link->next)
      tell_extents (arena->heap, link->data, listener);
}

void
_tarn_heap_freeze (TarnAllocator *allocator)
{
  _tarn_heap_lock (_tarn_heap_of (allocator));
}

void
_tarn_heap_thaw (TarnAllocator *allocator)
{
  _tarn_heap_unlock (_tarn_heap_of (allocator));
}

void
_tarn_heap_tell (TarnAllocator *allocator, TarnListener *listener)
{
  TarnHeap *heap = _tarn_heap_of (allocator);

  _tarn_assert_locked (&heap->lock);
  tell_options (heap, listener);
  TARN_FOR_EACH_ARENA (arena, heap)
    tell_pieces (arena, listener);
  TARN_FOR_EACH_ARENA (arena, heap)
    tell_extents_of_arena (arena, listener);
}

void
_tarn_heap_tell_counters (TarnAllocator *allocator, TarnListener *listener)
{
  const TarnHeap *heap = _tarn_heap_of (allocator);
  TarnHeapStats stats = heap->stats;
  const guint64 properties[] = {
    TARN_TRACE_UPSTREAM_BYTES,  stats.upstream_bytes,  TARN_TRACE_PEAK_UPSTREAM_BYTES,
    stats.peak_upstream_bytes,  TARN_TRACE_USED_BYTES, stats.used_bytes,
    TARN_TRACE_PEAK_USED_BYTES, stats.peak_used_bytes, TARN_TRACE_FREE_BYTES,
    stats.free_bytes,           TARN_TRACE_PIECES,     stats.pieces,
    TARN_TRACE_DRIVER_CALLS,    stats.driver_calls,    TARN_TRACE_UPSTREAM_FREES,
    stats.upstream_frees,       TARN_TRACE_MOVES,      stats.moves,
  };

  _tarn_assert_locked (&heap->lock);
  listener->counters (listener, allocator, properties, G_N_ELEMENTS (properties) / 2);
}
