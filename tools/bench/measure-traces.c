/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Measures replays of traces: how much memory the pool takes from the driver compared with the
 * bytes in use, how many driver calls it needs, and how long the replay takes.  Each replay begins
 * with an empty pool. */

#include "measures.h"
#include "replay.h"

#define MAX_POINTS 1000 /* the most points of a trace that are kept for a plot */

typedef void (*TraceFunc) (const Bench *bench, const Source *source, const Measure *measure,
                           const Trace *trace);

/* Measures each trace.  Measures made-up traces only on memory that needs no device, because they
 * need more memory than a device may have. */
static void
for_each_trace (const Bench *bench, const Source *source, const Measure *measure, TraceFunc func)
{
  for (guint i = 0; i < bench->made_traces->len && source->kind->backend == NULL; i++)
    {
      func (bench, source, measure, g_ptr_array_index (bench->made_traces, i));
      bench_hand_over (bench);
    }
  for (guint i = 0; i < bench->read_traces->len; i++)
    {
      func (bench, source, measure, g_ptr_array_index (bench->read_traces, i));
      bench_hand_over (bench);
    }
}

/* Functions that count bytes and driver calls of the heap, or of the pool if there is no heap */

static gsize
get_bytes (const Replay *replay)
{
  TarnHeapStats heap = TARN_HEAP_STATS_INIT;

  return tarn_heap_get_stats (replay->allocator, &heap)
             ? heap.upstream_bytes
             : tarn_pool_get_managed_bytes (replay->pool);
}

static gsize
get_peak_bytes (const Replay *replay)
{
  TarnHeapStats heap = TARN_HEAP_STATS_INIT;
  TarnPoolStats pool = TARN_POOL_STATS_INIT;

  if (tarn_heap_get_stats (replay->allocator, &heap))
    return heap.peak_upstream_bytes;
  tarn_pool_get_stats (replay->pool, &pool);
  return pool.peak_managed_bytes;
}

/* Counts the driver calls for memory.  Each move of a segment counts as one call. */
static guint64
get_calls (const Replay *replay)
{
  TarnHeapStats heap = TARN_HEAP_STATS_INIT;
  TarnPoolStats pool = TARN_POOL_STATS_INIT;

  if (tarn_heap_get_stats (replay->allocator, &heap))
    return heap.driver_calls + heap.moves;
  tarn_pool_get_stats (replay->pool, &pool);
  return pool.driver_calls;
}

/* Functions that measure how much memory a replay takes */

/* Adds a point for event @index of @n_events.  If the trace has more than MAX_POINTS events,
 * divides it into MAX_POINTS stretches, and keeps only the point of each stretch that has the most
 * managed bytes. */
static void
add_point (GArray *points, TracePoint point, guint index, guint n_events)
{
  guint stretch = (guint) ((guint64) index * MAX_POINTS / MAX (n_events, MAX_POINTS));
  TracePoint *last;

  if (stretch >= points->len)
    {
      g_array_append_val (points, point);
      return;
    }
  last = &g_array_index (points, TracePoint, points->len - 1);
  if (point.managed > last->managed
      || (point.managed == last->managed && point.active > last->active))
    *last = point;
}

/* The bytes during a replay: the result so far, and the present sum. */
typedef struct
{
  TraceResult *result;
  gdouble active; /* bytes in use now */
} Bytes;

/* Adds a point with the bytes after an event.  The active bytes are computed from the trace; the
 * managed bytes are those of the heap or pool. */
static void
count_bytes (const Replay *replay, guint i, gpointer data)
{
  const GArray *events = replay->trace->events;
  const TraceEvent *event = &g_array_index (events, TraceEvent, i);
  guint64 start = g_array_index (events, TraceEvent, 0).time;
  Bytes *bytes = data;
  TracePoint point = { .time = (gdouble) (event->time - start) };

  bytes->active += event->is_free ? -(gdouble) event->size : (gdouble) event->size;
  point.active = bytes->active;
  point.managed = (gdouble) get_bytes (replay);
  add_point (bytes->result->points, point, i, events->len);
}

static gboolean
replay_bytes (Replay *replay, TraceResult *result, GError **error)
{
  Bytes bytes = { result, 0 };

  if (!replay_in_order (replay, count_bytes, &bytes, error))
    return FALSE;
  result->peak_managed = get_peak_bytes (replay);
  result->peak_active = replay->trace->peak_active;
  result->n_allocations = replay->trace->n_allocations;
  return TRUE;
}

static Result *
add_result (const Bench *bench, const Source *source, const Measure *measure, const Trace *trace,
            const gchar *unit)
{
  return results_add (bench->results, source, measure->name,
                      bench->has_queues ? trace->n_threads : 1, g_strdup (trace->name), unit);
}

/* Measures the memory that one replay of a trace takes.  Does not repeat the replay, because each
 * replay would take the same memory. */
static void
measure_trace_overhead (const Bench *bench, const Source *source, const Measure *measure,
                        const Trace *trace)
{
  Result *result = add_result (bench, source, measure, trace, "ratio");
  TraceResult *bytes = results_add_trace (bench->results, source, trace->name);
  g_auto (Replay) replay = { .trace = trace };
  GError *error = NULL;

  if (!replay_init (&replay, trace, source, bench->has_queues, &error)
      || !replay_bytes (&replay, bytes, &error))
    {
      result_fail (result, error);
      g_ptr_array_remove (bench->results->traces, bytes);
    }
  else if (bytes->peak_active > 0)
    result_set (result,
                spread_of_one ((gdouble) bytes->peak_managed / (gdouble) bytes->peak_active));
  else
    result_fail (result, g_error_new_literal (TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
                                              "it never has a byte in use"));
}

void
measure_overhead (const Bench *bench, const Source *source, const Measure *measure)
{
  for_each_trace (bench, source, measure, measure_trace_overhead);
}

/* Functions that count the driver calls of a replay */

/* Counts the driver calls of one replay of a trace.  Does not repeat the replay, because each
 * replay would make the same calls. */
static void
measure_trace_calls (const Bench *bench, const Source *source, const Measure *measure,
                     const Trace *trace)
{
  Result *result = add_result (bench, source, measure, trace, "calls");
  g_auto (Replay) replay = { .trace = trace };
  GError *error = NULL;

  if (replay_init (&replay, trace, source, bench->has_queues, &error)
      && replay_in_order (&replay, NULL, NULL, &error))
    result_set (result, spread_of_one ((gdouble) get_calls (&replay)));
  else
    result_fail (result, error);
}

void
measure_calls (const Bench *bench, const Source *source, const Measure *measure)
{
  for_each_trace (bench, source, measure, measure_trace_calls);
}

/* Functions that time a replay, and the one that measures a trace */

/* Times a replay with malloc (64), the yardstick, and then a replay with the pool. */
static gboolean
time_both (const Bench *bench, const Source *source, const Trace *trace, gdouble *yardstick,
           gdouble *cost, GError **error)
{
  g_auto (Replay) with_malloc = { .trace = trace };
  g_auto (Replay) replay = { .trace = trace };

  replay_init_malloc (&with_malloc, trace, bench->has_queues);
  return replay_time (&with_malloc, yardstick, error)
         && replay_init (&replay, trace, source, bench->has_queues, error)
         && replay_time (&replay, cost, error);
}

static void
measure_trace_time (const Bench *bench, const Source *source, const Measure *measure,
                    const Trace *trace)
{
  Result *result = add_result (bench, source, measure, trace, "ns");
  g_autofree gdouble *costs = g_new (gdouble, bench->n_repetitions);
  g_autofree gdouble *yardsticks = g_new (gdouble, bench->n_repetitions);
  GError *error = NULL;

  for (guint i = 0; i < bench->n_repetitions && error == NULL; i++)
    {
      bench_show_progress (bench, i);
      time_both (bench, source, trace, &yardsticks[i], &costs[i], &error);
    }
  if (error != NULL)
    {
      result_fail (result, error);
      return;
    }
  result_set_beside (result, costs, yardsticks, bench->n_repetitions);
}

void
measure_replay (const Bench *bench, const Source *source, const Measure *measure)
{
  for_each_trace (bench, source, measure, measure_trace_time);
}
