/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Lists the measures, and runs those that compare the cost of a loop over a pool or a driver (the
 * subject) with the cost of the same loop over malloc () (the yardstick). */

#include "measures.h"

#include <math.h>

#include "../terminal.h"

static void measure_cost (const Bench *bench, const Source *source, const Measure *measure);

/* An element of measures[]: the cost of a loop that repeats PATTERN_##pattern with
 * SUBJECT_##subject. */
#define COST(name, pattern, subject, sizes, threads)                                               \
  {                                                                                                \
    name, measure_cost, SUBJECT_##subject != SUBJECT_DRIVER, FALSE, PATTERN_##pattern,             \
        SUBJECT_##subject, SIZES_##sizes, THREADS_##threads, 0                                     \
  }

/* An element of measures[]: the cost of a loop in which one thread uses @n queues in turn. */
#define TURNS(n)                                                                                   \
  {                                                                                                \
    "turns", measure_cost, TRUE, FALSE, PATTERN_WINDOW, SUBJECT_TURNS, SIZES_MIXED, THREADS_ONE, n \
  }

/* The measures, in the order in which they are run and printed. */
const Measure measures[] = {
  COST ("driver", PAIRS, DRIVER, ONE, ONE),
  COST ("driver", PAIRS, DRIVER, MIXED, ONE),
  COST ("hits", PAIRS, POOL, ONE, ALL),
  COST ("mixed", PAIRS, POOL, MIXED, ALL),
  COST ("window", WINDOW, POOL, MIXED, ALL),
  TURNS (8),
  TURNS (64),
  TURNS (256),
  COST ("exchange", PRODUCE, POOL, ONE, PAIRS),
  COST ("miss", ROUNDS, POOL, ONE, ONE),
  { .name = "recovery", .run = measure_recovery, .needs_pool = TRUE },
  { .name = "taken", .run = measure_taken, .needs_pool = TRUE },
  { .name = "overhead", .run = measure_overhead, .needs_pool = TRUE },
  { .name = "calls", .run = measure_calls, .needs_pool = TRUE },
  { .name = "replay", .run = measure_replay, .needs_pool = TRUE },
  { .name = "what-if", .run = measure_what_if, .needs_pool = TRUE },
  { .name = "memory", .run = measure_memory, .needs_pool = TRUE, .needs_counter = TRUE },
};
const gsize n_measures = G_N_ELEMENTS (measures);

gboolean
measure_applies (const Measure *measure, const Bench *bench, const Kind *kind)
{
  return !(measure->needs_pool && kind->is_pool) && (measure->n_queues == 0 || bench->has_queues)
         && !(measure->needs_counter && kind->backend != NULL);
}

void
bench_show_progress (const Bench *bench, guint repetition)
{
  g_autofree gchar *text
      = g_strdup_printf ("%s, %u of %u", bench->step, repetition + 1, bench->n_repetitions);

  terminal_set_progress (text);
}

void
bench_hand_over (const Bench *bench)
{
  results_compute_gains (bench->results);
  report_take (bench->report, bench->results);
}

/* Functions that measure the cost of loops */

/* A row of the results, with its own pool. */
typedef struct
{
  Result *result;
  Job job;
  gdouble *costs, *yardsticks; /* one cost for each repetition, in nanoseconds */
  TarnPoolStats first;         /* counters after the first repetition */
} Cost;

static void
cost_clear (gpointer data)
{
  Cost *cost = data;

  g_clear_pointer (&cost->job.pool, tarn_pool_unref);
  g_free (cost->costs);
  g_free (cost->yardsticks);
}

static gchar *
describe (const Measure *measure)
{
  if (measure->subject == SUBJECT_TURNS)
    return g_strdup_printf ("%u queues", measure->n_queues);
  if (measure->pattern == PATTERN_WINDOW)
    return g_strdup_printf ("%d mixed", WINDOW_BLOCKS);
  return g_strdup (measure->sizes == SIZES_ONE ? "64 KiB" : "mixed");
}

static void
add_cost (GArray *costs, const Bench *bench, const Source *source, const Measure *measure,
          guint n_threads)
{
  Cost cost = { .first = TARN_POOL_STATS_INIT,
                .job = { source, NULL, measure->subject, measure->pattern, measure->sizes,
                         n_threads, bench->seconds, bench->has_one_queue, measure->n_queues } };
  gboolean is_pool = measure->needs_pool;
  GError *error = NULL;

  cost.result
      = results_add (bench->results, source, measure->name, n_threads, describe (measure), "ns");
  cost.costs = g_new0 (gdouble, bench->n_repetitions);
  cost.yardsticks = g_new0 (gdouble, bench->n_repetitions);
  if (measure->subject == SUBJECT_POOL && bench->has_queues)
    cost.job.subject = SUBJECT_ORDERED;
  if (is_pool && (cost.job.pool = tarn_pool_new (source->allocator, NULL, &error)) == NULL)
    result_fail (cost.result, error);
  g_array_append_val (costs, cost);
}

static GArray *
make_costs (const Bench *bench, const Source *source, const Measure *measure)
{
  GArray *costs = g_array_new (FALSE, FALSE, sizeof (Cost));
  guint last = 0;

  g_array_set_clear_func (costs, cost_clear);
  for (guint i = 0; i < bench->threads->len && (last == 0 || measure->threads != THREADS_ONE); i++)
    {
      guint n = g_array_index (bench->threads, guint, i);

      if (measure->threads == THREADS_ONE)
        n = 1;
      else if (measure->threads == THREADS_PAIRS)
        n = MAX (n - n % 2, 2);
      if (n != last)
        add_cost (costs, bench, source, measure, n);
      last = n;
    }
  return costs;
}

/* Runs a repetition: first the loop over malloc () as the yardstick, and then the subject.  So both
 * run under the same conditions. */
static void
repeat (Cost *cost, guint repetition)
{
  Job yardstick = cost->job;
  GError *error = NULL;

  yardstick.subject = SUBJECT_MALLOC;
  if (!crew_run (&yardstick, &cost->yardsticks[repetition], &error)
      || !crew_run (&cost->job, &cost->costs[repetition], &error))
    result_fail (cost->result, error);
  if (repetition == 0 && cost->job.pool != NULL)
    tarn_pool_get_stats (cost->job.pool, &cost->first);
}

static gdouble
compute_hit_share (const Cost *cost)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  guint64 served, without_driver;

  tarn_pool_get_stats (cost->job.pool, &stats);
  served = stats.hits + stats.misses - cost->first.hits - cost->first.misses;
  without_driver = stats.served_without_driver - cost->first.served_without_driver;
  return served > 0 ? (gdouble) without_driver / (gdouble) served : (gdouble) NAN;
}

/* Measures all rows.  Each repetition runs every row once, so that rows with one thread and with
 * several threads are measured under the same conditions and can be compared. */
static void
measure_cost (const Bench *bench, const Source *source, const Measure *measure)
{
  g_autoptr (GArray) costs = make_costs (bench, source, measure);

  for (guint i = 0; i < bench->n_repetitions; i++)
    {
      bench_show_progress (bench, i);
      for (guint j = 0; j < costs->len; j++)
        if (g_array_index (costs, Cost, j).result->error == NULL)
          repeat (&g_array_index (costs, Cost, j), i);
    }
  for (guint j = 0; j < costs->len; j++)
    {
      Cost *cost = &g_array_index (costs, Cost, j);

      if (cost->result->error != NULL)
        continue;
      result_set_beside (cost->result, cost->costs, cost->yardsticks, bench->n_repetitions);
      if (cost->job.pool != NULL)
        cost->result->hit_share = compute_hit_share (cost);
    }
}
