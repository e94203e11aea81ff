/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What a recording says of a pool besides what happens: its options, the blocks that it had before,
 * and its counters. */

#include "pool/cache-private.h"
#include "record/record-private.h"

/* Records a block that the recording has no request of. */
void
_tarn_pool_record_block (const TarnPool *pool, const TarnBlock *block, gboolean is_active)
{
  _tarn_record_numbers (TARN_TRACE_BLOCK, pool->base.id, GPOINTER_TO_SIZE (block),
                        is_active ? block->size : 0, block->alloc_size, block->memory.address,
                        (guint64) is_active);
}

static void
record_pool (const TarnPool *pool)
{
  const guint64 properties[] = {
    TARN_TRACE_LEADING_BITS,
    pool->leading_bits,
    TARN_TRACE_LIMIT_BYTES,
    pool->limit_bytes,
    TARN_TRACE_THREAD_CACHE_BLOCKS,
    pool->thread_cache_blocks,
    TARN_TRACE_THREAD_CACHE_BYTES,
    pool->asked_cache_bytes,
    TARN_TRACE_HOLD_BYTES,
    pool->is_over_heap || pool->hold_bytes != G_MAXSIZE ? pool->hold_bytes : 0,
    TARN_TRACE_HAS_QUEUES,
    pool->upstream->direct->ops.queue_ref != NULL,
  };

  _tarn_record_object (pool->base.id, TARN_TRACE_POOL, pool->upstream->id, pool->base.klass->kind,
                       pool->base.ops.name, properties, G_N_ELEMENTS (properties) / 2);
}

/* Records what the pool is and has, if anything is recorded; has requests and frees be followed, or
 * not any more, by its door. */
void
_tarn_pool_describe (TarnAllocator *allocator)
{
  TarnPool *pool = _tarn_pool_of (allocator);
  gboolean was_open;

  if (!_tarn_records () && _tarn_door_is_followed (&pool->door) == _tarn_follows ())
    return;
  _tarn_mutex_lock (&pool->lock);
  was_open = _tarn_pool_close (pool);
  if (_tarn_records ())
    {
      record_pool (pool);
      TARN_FOR_EACH_BLOCK (block, &pool->chunks)
        _tarn_pool_record_block (
            pool, block, block->state == TARN_BLOCK_ACTIVE || block->state == TARN_BLOCK_ENDING);
    }
  _tarn_pool_open (pool, was_open);
  _tarn_mutex_unlock (&pool->lock);
}

/* Records the pool's counters. */
void
_tarn_pool_report (TarnAllocator *allocator)
{
  TarnPool *pool = _tarn_pool_of (allocator);
  TarnPoolStats stats;

  _tarn_mutex_lock (&pool->lock);
  _tarn_pool_count (pool, &stats);
  _tarn_mutex_unlock (&pool->lock);
  {
    const guint64 properties[] = {
      TARN_TRACE_HITS,
      stats.hits,
      TARN_TRACE_MISSES,
      stats.misses,
      TARN_TRACE_FAILURES,
      stats.failures,
      TARN_TRACE_UPSTREAM_CALLS,
      stats.upstream_allocations + stats.upstream_failures,
      TARN_TRACE_UPSTREAM_FAILURES,
      stats.upstream_failures,
      TARN_TRACE_UPSTREAM_FREES,
      stats.upstream_frees,
      TARN_TRACE_HELD_BLOCKS,
      stats.held_blocks,
      TARN_TRACE_ACTIVE_BLOCKS,
      stats.active_blocks,
      TARN_TRACE_MANAGED_BYTES,
      stats.managed_bytes,
      TARN_TRACE_ACTIVE_BYTES,
      stats.active_bytes,
      TARN_TRACE_HELD_BYTES,
      stats.held_bytes,
      TARN_TRACE_PEAK_MANAGED_BYTES,
      stats.peak_managed_bytes,
      TARN_TRACE_PEAK_ACTIVE_BYTES,
      stats.peak_active_bytes,
    };

    _tarn_record_stats (pool->base.id, properties, G_N_ELEMENTS (properties) / 2);
  }
}
