/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Describes a pool to recordings and snapshots: its options, its blocks and its counters. The
 * functions here implement function pointers of TarnAllocatorClass, which documents them. */

#include "pool/cache-private.h"
#include "record/record-private.h"

void
_tarn_pool_freeze (TarnAllocator *allocator)
{
  TarnPool *pool = _tarn_pool_of (allocator);

  _tarn_mutex_lock (&pool->lock);
  pool->was_open = _tarn_pool_close (pool);
  if (pool->was_open)
    _tarn_pool_count_closed (pool);
}

void
_tarn_pool_thaw (TarnAllocator *allocator)
{
  TarnPool *pool = _tarn_pool_of (allocator);

  _tarn_pool_open (pool, pool->was_open);
  _tarn_mutex_unlock (&pool->lock);
}

static void
tell_options (const TarnPool *pool, TarnListener *listener)
{
  /* If a pool has no bound on held bytes, hold_bytes is G_MAXSIZE.  This number differs between
   * 32-bit and 64-bit programs, so the recording gets another number for "no bound". */
  guint64 hold_bytes = pool->policy.hold_bytes != G_MAXSIZE ? pool->policy.hold_bytes
                       : pool->heap != NULL                 ? G_MAXUINT64
                                                            : 0;
  const guint64 properties[][2] = {
    { TARN_TRACE_LEADING_BITS, MIN (pool->leading_bits, TARN_MAX_LEADING_BITS) },
    { TARN_TRACE_LIMIT_BYTES, pool->limit.bytes },
    { TARN_TRACE_THREAD_CACHE_BLOCKS, pool->policy.thread_cache_blocks },
    { TARN_TRACE_THREAD_CACHE_BYTES, pool->policy.asked_cache_bytes },
    { TARN_TRACE_HOLD_BYTES, hold_bytes },
    { TARN_TRACE_HAS_QUEUES, pool->upstream->direct->ops.queue_ref != NULL },
  };

  listener->object (listener, &pool->base, _tarn_allocator_get_given (pool->upstream),
                    properties[0], G_N_ELEMENTS (properties));
}

void
_tarn_pool_tell (TarnAllocator *allocator, TarnListener *listener)
{
  TarnPool *pool = _tarn_pool_of (allocator);

  _tarn_assert_locked (&pool->lock);
  tell_options (pool, listener);
  TARN_FOR_EACH_BLOCK (block, &pool->blocks.chunks)
    listener->block (listener, block, block->state != TARN_BLOCK_HELD);
}

void
_tarn_pool_tell_counters (TarnAllocator *allocator, TarnListener *listener)
{
  TarnPoolStats stats;

  _tarn_pool_count (_tarn_pool_of (allocator), &stats);
  {
    const guint64 properties[][2] = {
      { TARN_TRACE_HITS, stats.hits },
      { TARN_TRACE_MISSES, stats.misses },
      { TARN_TRACE_FAILURES, stats.failures },
      { TARN_TRACE_DRIVER_CALLS, stats.driver_calls },
      { TARN_TRACE_UPSTREAM_FAILURES, stats.upstream_failures },
      { TARN_TRACE_UPSTREAM_FREES, stats.upstream_frees },
      { TARN_TRACE_HELD_BLOCKS, stats.held_blocks },
      { TARN_TRACE_ACTIVE_BLOCKS, stats.active_blocks },
      { TARN_TRACE_MANAGED_BYTES, stats.managed_bytes },
      { TARN_TRACE_ACTIVE_BYTES, stats.active_bytes },
      { TARN_TRACE_HELD_BYTES, stats.held_bytes },
      { TARN_TRACE_PEAK_MANAGED_BYTES, stats.peak_managed_bytes },
      { TARN_TRACE_PEAK_ACTIVE_BYTES, stats.peak_active_bytes },
    };

    listener->counters (listener, allocator, properties[0], G_N_ELEMENTS (properties));
  }
}
