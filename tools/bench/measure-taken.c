/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Measures the memory that threads take from the driver while each keeps a window of live blocks.
 * Compares this memory with the most bytes that all threads together have in use at a moment, and
 * with the sum of the threads' own peaks.  Also counts how often the heap moves a segment
 * (TarnHeapStats.moves) after the first run. */

#include "measures.h"

/* The rows of results for one number of threads. */
typedef struct
{
  /* of_use: bytes taken from the driver, divided by the most bytes in use.  of_peaks: bytes taken
   * from the driver, divided by the sum of the threads' own peaks.  moves: how many times the heap
   * moved a segment; NULL if there is no heap. */
  Result *of_use, *of_peaks, *moves;
} Rows;

/* Counters so far: the most bytes taken from the driver, the most bytes in use, and the number of
 * segments that the heap moved. */
typedef struct
{
  gdouble taken, active;
  guint64 moves;
} Count;

static Rows
add_rows (const Bench *bench, const Source *source, const Measure *measure, guint n_threads)
{
  Results *results = bench->results;
  const gchar *name = measure->name;
  Rows rows = { .moves = NULL };

  rows.of_use = results_add (results, source, name, n_threads, g_strdup ("of in use"), "ratio");
  rows.of_peaks
      = results_add (results, source, name, n_threads, g_strdup ("of own peaks"), "ratio");
  if (source->kind->has_heap)
    rows.moves = results_add (results, source, name, n_threads, g_strdup ("later"), "moves");
  return rows;
}

static Count
count (const Job *job, TarnAllocator *allocator)
{
  TarnHeapStats heap = TARN_HEAP_STATS_INIT;
  TarnPoolStats pool = TARN_POOL_STATS_INIT;
  Count counted = { 0 };

  tarn_pool_get_stats (job->pool, &pool);
  counted.taken = (gdouble) pool.peak_managed_bytes;
  counted.active = (gdouble) pool.peak_active_bytes;
  if (tarn_heap_get_stats (allocator, &heap))
    {
      counted.taken = (gdouble) heap.peak_upstream_bytes;
      counted.moves = heap.moves;
    }
  return counted;
}

/* Runs the threads once, and then once for each repetition. */
static gboolean
run (const Bench *bench, const Job *job, TarnAllocator *allocator, Count *first, Count *all,
     GError **error)
{
  gdouble ns;

  for (guint i = 0; i <= bench->n_repetitions; i++)
    {
      bench_show_progress (bench, MIN (i, bench->n_repetitions - 1));
      if (!crew_run (job, &ns, error))
        return FALSE;
      if (i == 0)
        *first = count (job, allocator);
    }
  *all = count (job, allocator);
  return TRUE;
}

static void
set_rows (const Rows *rows, const Job *job, const Count *first, const Count *all)
{
  gdouble peaks = 0;

  for (guint i = 0; i < job->n_threads; i++)
    peaks += (gdouble) crew_get_window_peak (job, i);
  result_set (rows->of_use, spread_of_one (all->taken / all->active));
  result_set (rows->of_peaks, spread_of_one (all->taken / peaks));
  if (rows->moves != NULL)
    result_set (rows->moves, spread_of_one ((gdouble) (all->moves - first->moves)));
}

static void
fail_rows (const Rows *rows, GError *error)
{
  result_fail (rows->of_use, g_error_copy (error));
  if (rows->moves != NULL)
    result_fail (rows->moves, g_error_copy (error));
  result_fail (rows->of_peaks, error);
}

/* Measures with @n_threads threads.  Uses a new allocator, because earlier measurements leave
 * memory in the source's allocator. */
static void
measure_threads (const Bench *bench, const Source *source, const Measure *measure, guint n_threads)
{
  Rows rows = add_rows (bench, source, measure, n_threads);
  Job job = { source,
              NULL,
              bench->has_queues ? SUBJECT_ORDERED : SUBJECT_POOL,
              PATTERN_WINDOW,
              SIZES_MIXED,
              n_threads,
              bench->seconds,
              bench->has_one_queue,
              0 };
  GError *error = NULL;
  g_autoptr (TarnAllocator) allocator = source_make_allocator (source, &error);
  g_autoptr (TarnPool) pool = allocator != NULL ? tarn_pool_new (allocator, NULL, &error) : NULL;
  Count first, all;

  job.pool = pool;
  if (pool != NULL && run (bench, &job, allocator, &first, &all, &error))
    set_rows (&rows, &job, &first, &all);
  else
    fail_rows (&rows, error);
}

void
measure_taken (const Bench *bench, const Source *source, const Measure *measure)
{
  for (guint i = 0; i < bench->threads->len; i++)
    measure_threads (bench, source, measure, g_array_index (bench->threads, guint, i));
}
