/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Traces, replayed one event after the other: how much memory a pool takes for what is in use, and
 * how long it takes.  Each replay begins with an empty pool. */

#include <stdlib.h>

#include "measures.h"
#include "trace.h"

#define MAX_POINTS 1000 /* of a trace that are kept for a plot */

typedef struct
{
  const Trace *trace;
  TarnAllocator *allocator;
  TarnPool *pool;
  TarnBlock **blocks; /* by slot */
} Replay;

static void
replay_clear (Replay *replay)
{
  for (guint i = 0; i < replay->trace->n_slots; i++)
    tarn_block_free (replay->blocks[i]);
  g_free (replay->blocks);
  g_clear_pointer (&replay->pool, tarn_pool_unref);
  g_clear_pointer (&replay->allocator, tarn_allocator_unref);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Replay, replay_clear)

static gboolean
replay_init (Replay *replay, const Source *source, GError **error)
{
  replay->blocks = g_new0 (TarnBlock *, MAX (replay->trace->n_slots, 1));
  return (replay->allocator = source_make_allocator (source, error)) != NULL
         && (replay->pool = tarn_pool_new (replay->allocator, NULL, error)) != NULL;
}

static gboolean
replay_event (Replay *replay, const TraceEvent *event, GError **error)
{
  TarnBlock **block = &replay->blocks[event->slot];

  if (event->is_free)
    g_clear_pointer (block, tarn_block_free);
  else
    *block = tarn_pool_allocate (replay->pool, event->size, error);
  return event->is_free || *block != NULL;
}

typedef void (*TraceFunc) (const Bench *bench, const Source *source, const Measure *measure,
                           const Trace *trace);

/* Those that were made ask for more memory than a device may have, and more than anyone would want
 * to be taken: they are for memory that needs none. */
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

/* What there is of the driver: the heap has it, or else the pool. */

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

/* How often it was asked for some: a piece that was mapped anew counts as one that it gave. */
static guint64
get_calls (const Replay *replay)
{
  TarnHeapStats heap = TARN_HEAP_STATS_INIT;
  TarnPoolStats pool = TARN_POOL_STATS_INIT;

  if (tarn_heap_get_stats (replay->allocator, &heap))
    return heap.upstream_allocations + heap.moves;
  tarn_pool_get_stats (replay->pool, &pool);
  return pool.upstream_allocations;
}

/* Overhead */

/* Of those in a stretch of the trace, the one with the most managed bytes stays. */
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

/* Active bytes are known from the trace itself, and managed bytes from the pool. */
static gboolean
replay_bytes (Replay *replay, TraceResult *result, GError **error)
{
  const GArray *events = replay->trace->events;
  guint64 start = g_array_index (events, TraceEvent, 0).time;
  gdouble active = 0;

  for (guint i = 0; i < events->len; i++)
    {
      const TraceEvent *event = &g_array_index (events, TraceEvent, i);
      TracePoint point = { .time = (gdouble) (event->time - start) };

      if (!replay_event (replay, event, error))
        return FALSE;
      active += event->is_free ? -(gdouble) event->size : (gdouble) event->size;
      point.active = active;
      point.managed = (gdouble) get_bytes (replay);
      add_point (result->points, point, i, events->len);
    }
  result->peak_managed = get_peak_bytes (replay);
  result->peak_active = replay->trace->peak_active;
  result->n_allocations = replay->trace->n_allocations;
  return TRUE;
}

/* It is the same each time: repetitions would tell nothing. */
static void
measure_trace_overhead (const Bench *bench, const Source *source, const Measure *measure,
                        const Trace *trace)
{
  Result *result
      = results_add (bench->results, source, measure->name, 1, g_strdup (trace->name), "ratio");
  TraceResult *bytes = results_add_trace (bench->results, source, trace->name);
  g_auto (Replay) replay = { .trace = trace };
  GError *error = NULL;

  if (!replay_init (&replay, source, &error) || !replay_bytes (&replay, bytes, &error))
    {
      result_fail (result, error);
      g_ptr_array_remove (bench->results->traces, bytes);
    }
  else if (bytes->peak_active > 0)
    result_set (result,
                spread_of_one ((gdouble) bytes->peak_managed / (gdouble) bytes->peak_active));
  else
    result_fail (result, g_error_new_literal (TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
                                              "no byte of it was ever in use"));
}

void
measure_overhead (const Bench *bench, const Source *source, const Measure *measure)
{
  for_each_trace (bench, source, measure, measure_trace_overhead);
}

/* Calls */

static gboolean
replay_all (Replay *replay, GError **error)
{
  const GArray *events = replay->trace->events;

  for (guint i = 0; i < events->len; i++)
    if (!replay_event (replay, &g_array_index (events, TraceEvent, i), error))
      return FALSE;
  return TRUE;
}

/* It is the same each time. */
static void
measure_trace_calls (const Bench *bench, const Source *source, const Measure *measure,
                     const Trace *trace)
{
  Result *result
      = results_add (bench->results, source, measure->name, 1, g_strdup (trace->name), "calls");
  g_auto (Replay) replay = { .trace = trace };
  GError *error = NULL;

  if (replay_init (&replay, source, &error) && replay_all (&replay, &error))
    result_set (result, spread_of_one ((gdouble) get_calls (&replay)));
  else
    result_fail (result, error);
}

void
measure_calls (const Bench *bench, const Source *source, const Measure *measure)
{
  for_each_trace (bench, source, measure, measure_trace_calls);
}

/* Time */

/* malloc (64) for each allocation. */
static gdouble
time_yardstick (const Trace *trace)
{
  const GArray *events = trace->events;
  g_autofree gpointer *blocks = g_new0 (gpointer, MAX (trace->n_slots, 1));
  gint64 start = clock_now ();

  for (guint i = 0; i < events->len; i++)
    {
      const TraceEvent *event = &g_array_index (events, TraceEvent, i);

      if (event->is_free)
        g_clear_pointer (&blocks[event->slot], free);
      else
        blocks[event->slot] = malloc (64);
    }
  start = clock_now () - start;
  for (guint i = 0; i < trace->n_slots; i++)
    free (blocks[i]);
  return (gdouble) start / (gdouble) trace->n_allocations;
}

static gboolean
time_replay (const Trace *trace, const Source *source, gdouble *ns, GError **error)
{
  g_auto (Replay) replay = { .trace = trace };
  gint64 start;

  if (!replay_init (&replay, source, error))
    return FALSE;
  start = clock_now ();
  if (!replay_all (&replay, error))
    return FALSE;
  *ns = (gdouble) (clock_now () - start) / (gdouble) trace->n_allocations;
  return TRUE;
}

static void
measure_trace_time (const Bench *bench, const Source *source, const Measure *measure,
                    const Trace *trace)
{
  Result *result
      = results_add (bench->results, source, measure->name, 1, g_strdup (trace->name), "ns");
  g_autofree gdouble *costs = g_new (gdouble, bench->n_repetitions);
  g_autofree gdouble *yardsticks = g_new (gdouble, bench->n_repetitions);
  GError *error = NULL;

  for (guint i = 0; i < bench->n_repetitions && error == NULL; i++)
    {
      bench_show_progress (bench, i);
      yardsticks[i] = time_yardstick (trace);
      time_replay (trace, source, &costs[i], &error);
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
