/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The names of allocators' properties and counters in recordings and snapshots, for tools. */

#ifndef TARN_TRACE_NAMES_PRIVATE_H
#define TARN_TRACE_NAMES_PRIVATE_H

#include "common/trace-format-private.h"

/* Returns the name of a property or counter, or NULL if this version does not know it. */
static inline const gchar *
_tarn_trace_name_property (guint32 property)
{
  static const gchar *const names[] = {
    [TARN_TRACE_LEADING_BITS] = "leading_bits",
    [TARN_TRACE_LIMIT_BYTES] = "limit_bytes",
    [TARN_TRACE_THREAD_CACHE_BLOCKS] = "thread_cache_blocks",
    [TARN_TRACE_THREAD_CACHE_BYTES] = "thread_cache_bytes",
    [TARN_TRACE_HOLD_BYTES] = "hold_bytes",
    [TARN_TRACE_GROWTH_BYTES] = "growth_bytes",
    [TARN_TRACE_ALIGNMENT] = "alignment",
    [TARN_TRACE_IS_VIRTUAL] = "is_virtual",
    [TARN_TRACE_GRANULARITY] = "granularity",
    [TARN_TRACE_FOLLOWS_LIMIT] = "follows_limit",
    [TARN_TRACE_HAS_QUEUES] = "has_queues",
    [TARN_TRACE_IDLE_SECONDS] = "idle_seconds",
    [TARN_TRACE_PART_ALIGNMENT] = "part_alignment",
    [TARN_TRACE_RELEASES_PARTS] = "releases_parts",
    [TARN_TRACE_FREES_IN_ORDER] = "frees_in_order",
    [TARN_TRACE_RECORDS_ALL] = "records_all",
    [TARN_TRACE_HITS] = "hits",
    [TARN_TRACE_MISSES] = "misses",
    [TARN_TRACE_FAILURES] = "failures",
    [TARN_TRACE_DRIVER_CALLS] = "driver_calls",
    [TARN_TRACE_UPSTREAM_FAILURES] = "upstream_failures",
    [TARN_TRACE_HELD_BLOCKS] = "held_blocks",
    [TARN_TRACE_ACTIVE_BLOCKS] = "active_blocks",
    [TARN_TRACE_MANAGED_BYTES] = "managed_bytes",
    [TARN_TRACE_ACTIVE_BYTES] = "active_bytes",
    [TARN_TRACE_HELD_BYTES] = "held_bytes",
    [TARN_TRACE_PEAK_MANAGED_BYTES] = "peak_managed_bytes",
    [TARN_TRACE_PEAK_ACTIVE_BYTES] = "peak_active_bytes",
    [TARN_TRACE_UPSTREAM_BYTES] = "upstream_bytes",
    [TARN_TRACE_PEAK_UPSTREAM_BYTES] = "peak_upstream_bytes",
    [TARN_TRACE_USED_BYTES] = "used_bytes",
    [TARN_TRACE_PEAK_USED_BYTES] = "peak_used_bytes",
    [TARN_TRACE_FREE_BYTES] = "free_bytes",
    [TARN_TRACE_PIECES] = "pieces",
    [TARN_TRACE_MOVES] = "moves",
    [TARN_TRACE_UPSTREAM_FREES] = "upstream_frees",
  };

  return property < G_N_ELEMENTS (names) ? names[property] : NULL;
}

static inline const gchar *
_tarn_trace_name_class (TarnTraceClass class)
{
  static const gchar *const names[] = {
    [0] = "unknown",
    [TARN_TRACE_DIRECT] = "allocator",
    [TARN_TRACE_HEAP] = "heap",
    [TARN_TRACE_POOL] = "pool",
  };

  return (guint) class < G_N_ELEMENTS (names) ? names[class] : NULL;
}

#endif
