/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Measures the cost of recording.  A pool serves a held block, which is then freed: without
 * recording, with it, with tags, and with stacks.  If LTTng is installed, it is measured, too, with
 * a tracepoint for each request and each free instead of Tarn's events.  Each repetition goes
 * through all ways, so that a disturbance affects all of them.  Times depend on the machine: read
 * the ratios. */

#include <glib/gstdio.h>
#include <stdio.h>
#include <stdlib.h>
#include <tarn/tarn.h>
#include <unistd.h>

#include "bench/record-lttng.h"

#define MAX_THREADS 64
#define REPETITIONS 9
#define BYTES 4096
#define EVENTS 2 /* of a pair: a request and a free */
#define DEPTH 32 /* frames below the loop, so that every stack is as deep as it may be */

typedef struct
{
  const gchar *name;
  gboolean is_recorded, has_tags, has_tracepoints;
  guint stack_depth;
} Way;

/* The ways; the others are compared with the first one. */
static const Way ways[] = {
  { .name = "nothing recorded" },
  { .name = "recorded", .is_recorded = TRUE },
  { .name = "with tags", .is_recorded = TRUE, .has_tags = TRUE },
  { .name = "with 8 frames", .is_recorded = TRUE, .stack_depth = 8 },
  { .name = "with 24 frames", .is_recorded = TRUE, .stack_depth = 24 },
  { .name = "LTTng, no session", .has_tracepoints = TRUE },
  { .name = "LTTng, recorded", .has_tracepoints = TRUE },
};

enum
{
  LTTNG_IDLE = 5,
  LTTNG_RECORDED
};

typedef struct
{
  const Way *way;
  TarnPool *pool;
  const gchar *path;
  gint ready;      /* atomic: threads that wait for the start */
  gint is_started; /* atomic */
  guint n_threads;
  guint n_pairs; /* for each thread */
} Run;

typedef struct
{
  gdouble times[G_N_ELEMENTS (ways)][REPETITIONS]; /* nanoseconds of a pair, in each thread */
  guint64 lost[G_N_ELEMENTS (ways)];
} Results;

static gboolean
allocate (gpointer next, gsize size, TarnMemory *memory, GError **error)
{
  (void) size;
  (void) error;
  memory->address = __atomic_add_fetch ((guint64 *) next, BYTES, __ATOMIC_RELAXED);
  return TRUE;
}

static void
free_nothing (gpointer next, TarnMemory memory, gsize size)
{
  (void) next;
  (void) memory;
  (void) size;
}

static TarnPool *
pool_new (guint64 *next)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  g_autoptr (TarnAllocator) allocator = NULL;

  ops.name = "nothing";
  ops.allocate = allocate;
  ops.free = free_nothing;
  allocator = tarn_allocator_new (&ops, next, NULL);
  return tarn_pool_new (allocator, NULL, NULL);
}

static void
use (TarnPool *pool, guint n)
{
  for (guint i = 0; i < n; i++)
    tarn_block_free (tarn_pool_allocate (pool, BYTES, NULL));
}

/* Makes pairs with tags that change each time. */
static void
use_with_tags (TarnPool *pool, guint n)
{
  for (guint i = 0; i < n; i++)
    {
      TARN_TAG_SCOPE (i % 2 == 0 ? "forward" : "backward");
      tarn_block_free (tarn_pool_allocate (pool, BYTES, NULL));
    }
}

/* Makes pairs with tracepoints that have the same values as Tarn's events: a request's pool, block,
 * size and address; a free's block. */
static void
use_with_tracepoints (TarnPool *pool, guint n)
{
  for (guint i = 0; i < n; i++)
    {
      TarnBlock *block = tarn_pool_allocate (pool, BYTES, NULL);

      TRACE_REQUEST (pool, block, BYTES, tarn_block_get_memory (block).address);
      TRACE_FREE (pool, block);
      tarn_block_free (block);
    }
}

/* Calls itself, to make stacks deep.  Volatile keeps the compiler from making a loop of it. */
static __attribute__ ((noinline)) guint
go_down (const Run *run, guint depth, guint n)
{
  if (depth > 0)
    {
      volatile guint below = go_down (run, depth - 1, n);

      return below + 1;
    }
  if (run->way->has_tags)
    use_with_tags (run->pool, n);
  else if (run->way->has_tracepoints)
    use_with_tracepoints (run->pool, n);
  else
    use (run->pool, n);
  return 0;
}

static gpointer
run_thread (gpointer data)
{
  Run *run = data;
  guint depth = go_down (run, DEPTH, 100);

  g_atomic_int_inc (&run->ready);
  while (!g_atomic_int_get (&run->is_started))
    g_thread_yield ();
  depth += go_down (run, DEPTH, run->n_pairs);
  g_assert_cmpuint (depth, ==, 2 * DEPTH);
  return NULL;
}

/* Gets the nanoseconds of a pair, as each thread sees it. */
static gdouble
run_threads (Run *run)
{
  GThread *threads[MAX_THREADS];
  gint64 start;

  run->ready = 0;
  run->is_started = FALSE;
  for (guint i = 0; i < run->n_threads; i++)
    threads[i] = g_thread_new ("record-cost", run_thread, run);
  while (g_atomic_int_get (&run->ready) < (gint) run->n_threads)
    g_thread_yield ();
  start = g_get_monotonic_time ();
  g_atomic_int_set (&run->is_started, TRUE);
  for (guint i = 0; i < run->n_threads; i++)
    g_thread_join (threads[i]);
  return (gdouble) (g_get_monotonic_time () - start) * 1000 / run->n_pairs;
}

/* Gets the same with recording, and adds up lost events.  All others must be in the file. */
static gdouble
run_recorded (Run *run, guint64 *lost)
{
  TarnTraceOptions options = TARN_TRACE_OPTIONS_INIT;
  TarnTraceStats stats = TARN_TRACE_STATS_INIT;
  g_autoptr (GError) error = NULL;
  gdouble time;

  options.stack_depth = run->way->stack_depth;
  if (!tarn_trace_start (run->path, &options, &error))
    g_error ("%s", error->message);
  time = run_threads (run);
  if (!tarn_trace_stop (&error))
    g_error ("%s", error->message);
  tarn_trace_get_stats (&stats);
  if (stats.events + stats.lost_events < (guint64) EVENTS * run->n_pairs * run->n_threads)
    g_error ("%" G_GUINT64_FORMAT " events were recorded, and %" G_GUINT64_FORMAT " lost",
             stats.events, stats.lost_events);
  *lost += stats.lost_events;
  return time;
}

/* Tells whether a way can be measured here: whether a session of LTTng's has these tracepoints is
 * not for this program to change. */
static gboolean
is_there (gsize way)
{
  if (!ways[way].has_tracepoints)
    return TRUE;
  return HAS_LTTNG && way == (LTTNG_IS_RECORDING () ? LTTNG_RECORDED : LTTNG_IDLE);
}

static void
measure (const gchar *path, guint n_threads, guint n_pairs, Results *results)
{
  guint64 next = 0;
  g_autoptr (TarnPool) pool = pool_new (&next);
  Run run = { .pool = pool, .path = path, .n_threads = n_threads, .n_pairs = n_pairs };

  for (guint i = 0; i < REPETITIONS; i++)
    for (gsize way = 0; way < G_N_ELEMENTS (ways); way++)
      {
        run.way = &ways[way];
        if (is_there (way))
          results->times[way][i] = run.way->is_recorded ? run_recorded (&run, &results->lost[way])
                                                        : run_threads (&run);
      }
}

static int
compare (const void *a, const void *b)
{
  gdouble left = *(const gdouble *) a, right = *(const gdouble *) b;

  return left < right ? -1 : left > right;
}

static gdouble
get_median (const gdouble *numbers)
{
  gdouble sorted[REPETITIONS];

  for (guint i = 0; i < REPETITIONS; i++)
    sorted[i] = numbers[i];
  qsort (sorted, REPETITIONS, sizeof *sorted, compare);
  return sorted[REPETITIONS / 2];
}

/* Prints medians, also of ratios and differences, which are computed for each repetition. */
static void
print_row (const Results *results, gsize way, guint n_threads)
{
  const gdouble *times = results->times[way], *nothing = results->times[0];
  gdouble ratios[REPETITIONS], costs[REPETITIONS];

  for (guint i = 0; i < REPETITIONS; i++)
    {
      ratios[i] = times[i] / nothing[i];
      costs[i] = (times[i] - nothing[i]) / EVENTS;
    }
  printf ("%-20s %7u %9.1f %9.2f %9.1f", ways[way].name, n_threads, get_median (times),
          get_median (ratios), get_median (costs));
  if (ways[way].is_recorded)
    printf (" %9" G_GUINT64_FORMAT, results->lost[way]);
  printf ("\n");
}

static void
run_all (const gchar *path, guint max_threads, guint n_pairs)
{
  printf ("%-20s %7s %9s %9s %9s %9s\n", "", "threads", "ns", "x nothing", "ns/event", "lost");
  for (guint n = 1; n <= max_threads; n *= 2)
    {
      Results results = { .lost = { 0 } };

      measure (path, n, n_pairs, &results);
      for (gsize way = 0; way < G_N_ELEMENTS (ways); way++)
        if (is_there (way))
          print_row (&results, way, n);
    }
}

int
main (int argc, char **argv)
{
  gint threads = (gint) g_get_num_processors (), thousands = 200;
  g_autofree gchar *directory = NULL;
  const GOptionEntry entries[] = {
    { "threads", 't', 0, G_OPTION_ARG_INT, &threads, "Up to N threads (default: processors)", "N" },
    { "pairs", 'n', 0, G_OPTION_ARG_INT, &thousands, "N thousand pairs in each thread (200)", "N" },
    { "directory", 'd', 0, G_OPTION_ARG_FILENAME, &directory,
      "Write recordings there (default: where temporary files are)", "DIR" },
    { NULL, 0, 0, 0, NULL, NULL, NULL }
  };
  g_autoptr (GOptionContext) context = g_option_context_new ("- what recording costs");
  g_autoptr (GError) error = NULL;
  g_autofree gchar *path = NULL;
  gint fd;

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error))
    {
      fprintf (stderr, "%s\n", error->message);
      return 2;
    }
  if (argc > 1 || threads < 1 || threads > MAX_THREADS || thousands < 1 || thousands > 100000)
    {
      fprintf (stderr, "1 to %d threads, 1 to 100000 thousand pairs, and nothing else\n",
               MAX_THREADS);
      return 2;
    }
  path = g_build_filename (directory != NULL ? directory : g_get_tmp_dir (), "record-cost-XXXXXX",
                           NULL);
  fd = g_mkstemp (path);
  if (fd < 0)
    {
      fprintf (stderr, "%s: cannot be made\n", path);
      return 2;
    }
  close (fd);
  run_all (path, (guint) threads, (guint) thousands * 1000);
  g_unlink (path);
  return 0;
}
