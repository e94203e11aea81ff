/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Writes the state of allocators to a recording, as events. */

#include "allocator/allocator-private.h"
#include "allocator/block-private.h"
#include "record/record-private.h"

static void
record_object (TarnListener *listener, const TarnAllocator *allocator,
               const TarnAllocator *upstream, const guint64 *properties, gsize n_properties)
{
  (void) listener;
  _tarn_record_object (allocator->id, allocator->klass->trace_class,
                       upstream != NULL ? upstream->id : 0, allocator->klass->kind,
                       allocator->ops.name, properties, n_properties);
}

static void
record_counters (TarnListener *listener, const TarnAllocator *allocator, const guint64 *properties,
                 gsize n_properties)
{
  (void) listener;
  _tarn_record_stats (allocator->id, properties, n_properties);
}

static void
record_block (TarnListener *listener, const TarnBlock *block, gboolean is_active)
{
  (void) listener;
  _tarn_block_record (block, is_active);
}

static void
record_piece (TarnListener *listener, const TarnAllocator *heap, guint64 start, gsize size,
              gconstpointer queue)
{
  (void) listener;
  _tarn_record_numbers (TARN_TRACE_PIECE, heap->id, start, size, GPOINTER_TO_SIZE (queue));
}

static void
record_extent (TarnListener *listener, const TarnAllocator *heap, guint64 start, gsize size,
               guint64 address)
{
  (void) listener;
  _tarn_record_numbers (TARN_TRACE_EXTENT, heap->id, start, size);
  if (address != start)
    _tarn_record_numbers (TARN_TRACE_PART, heap->id, start, address);
}

TarnListener _tarn_recording_listener = {
  .object = record_object,
  .counters = record_counters,
  .block = record_block,
  .piece = record_piece,
  .extent = record_extent,
};

/* Writes to the recording a block that was allocated before the recording began. */
void
_tarn_block_record (const TarnBlock *block, gboolean is_active)
{
  _tarn_record_numbers (TARN_TRACE_BLOCK, block->source->id, GPOINTER_TO_SIZE (block),
                        is_active ? block->size : 0, block->alloc_size, block->memory.address,
                        (guint64) is_active);
}
