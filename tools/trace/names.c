/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "names.h"

#include <tarn/error.h>

static const gchar *const kinds[TARN_TRACE_N_KINDS] = {
  [TARN_TRACE_STRING] = "string",
  [TARN_TRACE_FRAME] = "frame",
  [TARN_TRACE_STACK] = "stack",
  [TARN_TRACE_THREAD] = "thread",
  [TARN_TRACE_USE] = "use",
  [TARN_TRACE_QUEUE] = "queue",
  [TARN_TRACE_TAG] = "tag",
  [TARN_TRACE_SET_STACK] = "set-stack",
  [TARN_TRACE_OBJECT] = "object",
  [TARN_TRACE_END] = "end",
  [TARN_TRACE_STATS] = "stats",
  [TARN_TRACE_BLOCK] = "block",
  [TARN_TRACE_HIT] = "hit",
  [TARN_TRACE_MISS] = "miss",
  [TARN_TRACE_LENT] = "lent",
  [TARN_TRACE_FAIL] = "fail",
  [TARN_TRACE_FREE] = "free",
  [TARN_TRACE_GONE] = "gone",
  [TARN_TRACE_ALLOCATED] = "allocated",
  [TARN_TRACE_FREED] = "freed",
  [TARN_TRACE_MARK] = "mark",
  [TARN_TRACE_WAIT] = "wait",
  [TARN_TRACE_RECORD_USE] = "record-use",
  [TARN_TRACE_MOVE] = "move",
  [TARN_TRACE_FORGET] = "forget",
  [TARN_TRACE_TRIM] = "trim",
  [TARN_TRACE_LIMIT] = "limit",
  [TARN_TRACE_RECLAIM] = "reclaim",
  [TARN_TRACE_OUT_OF_MEMORY] = "out-of-memory",
  [TARN_TRACE_PIECE] = "piece",
  [TARN_TRACE_PIECE_GONE] = "piece-gone",
  [TARN_TRACE_PIECE_MOVED] = "piece-moved",
  [TARN_TRACE_EXTENT] = "extent",
  [TARN_TRACE_EXTENT_FREE] = "extent-free",
  [TARN_TRACE_LOST] = "lost",
  [TARN_TRACE_STOP] = "stop",
};

static const gchar *const classes[] = {
  [0] = "unknown",
  [TARN_TRACE_DIRECT] = "allocator",
  [TARN_TRACE_HEAP] = "heap",
  [TARN_TRACE_POOL] = "pool",
};

static const gchar *const properties[] = {
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
  [TARN_TRACE_UPSTREAM_CALLS] = "upstream_calls",
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

static const gchar *const errors[] = {
  [TARN_ERROR_OUT_OF_MEMORY] = "out-of-memory",
  [TARN_ERROR_INVALID_SIZE] = "invalid-size",
  [TARN_ERROR_INVALID_ARGUMENT] = "invalid-argument",
  [TARN_ERROR_INVALID_SELECTION] = "invalid-selection",
  [TARN_ERROR_NO_DEVICE] = "no-device",
  [TARN_ERROR_NO_DRIVER] = "no-driver",
  [TARN_ERROR_NO_CONTEXT] = "no-context",
  [TARN_ERROR_NOT_SUPPORTED] = "not-supported",
  [TARN_ERROR_LIMIT] = "limit",
  [TARN_ERROR_CONTEXT_LOST] = "context-lost",
  [TARN_ERROR_FORKED] = "forked",
  [TARN_ERROR_RECURSION] = "recursion",
  [TARN_ERROR_FAILED] = "failed",
};

const gchar *
name_kind (TarnTraceKind kind)
{
  g_assert (kind > 0 && kind < TARN_TRACE_N_KINDS);
  return kinds[kind];
}

gboolean
name_find_kind (const gchar *name, TarnTraceKind *kind)
{
  for (guint i = TARN_TRACE_OBJECT; i < TARN_TRACE_N_KINDS; i++)
    if (g_str_equal (kinds[i], name))
      {
        *kind = (TarnTraceKind) i;
        return TRUE;
      }
  return FALSE;
}

const gchar *
name_class (TarnTraceClass object_class)
{
  g_assert ((guint) object_class < G_N_ELEMENTS (classes));
  return classes[object_class];
}

const gchar *
name_property (guint32 property)
{
  return property < G_N_ELEMENTS (properties) ? properties[property] : NULL;
}

const gchar *
name_error (guint64 error)
{
  return error > 0 && error <= G_N_ELEMENTS (errors) ? errors[error - 1] : NULL;
}
