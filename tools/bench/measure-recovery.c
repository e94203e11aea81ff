/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Measures the recovery from out-of-memory.  All memory that the pool may have is in small cached
 * blocks when a large block is requested.  So the pool must return cached blocks to the driver
 * before it can serve the request.  The measurement does not fill a device: the pool has a limit
 * instead. */

#include "counter.h"
#include "measures.h"

#define N_HELD 256
#define HELD_SIZE ((gsize) 64 << 10) /* bytes of each small request, and of its block */
#define WANTED_SIZE ((gsize) 8 << 20)

/* The cost of a recovery. */
typedef struct
{
  gdouble ns;
  guint64 calls; /* number of driver calls */
} Recovery;

/* Creates a fake allocator (a counter) with @room bytes, for memory that needs no device.  Puts a
 * heap over it if the kind of memory has one. */
static TarnAllocator *
make_counter (const Source *source, gsize room, GError **error)
{
  gboolean is_plain = g_str_has_prefix (source->kind->name, "null-plain");
  const CounterOptions options
      = { .budget = room, .granularity = is_plain ? 0 : COUNTER_GRANULARITY };
  g_autoptr (TarnAllocator) counter = counter_new (&options);

  return source->kind->has_heap ? tarn_heap_allocator_new (counter, NULL, error)
                                : g_steal_pointer (&counter);
}

static TarnPool *
make_pool (const Source *source, GError **error)
{
  g_autoptr (TarnAllocator) counter = NULL;
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnPool) any = tarn_pool_new (source->allocator, NULL, error);
  gsize room;

  if (any == NULL)
    return NULL;
  room = N_HELD * tarn_pool_alloc_size (any, tarn_pool_bin_number (any, HELD_SIZE));
  if (source->kind->backend != NULL)
    options.limit_bytes = room;
  else if ((counter = make_counter (source, room, error)) == NULL)
    return NULL;
  return tarn_pool_new (counter != NULL ? counter : source->allocator, &options, error);
}

static gboolean
fill (TarnPool *pool, GError **error)
{
  g_autoptr (GPtrArray) blocks = g_ptr_array_new_with_free_func ((GDestroyNotify) tarn_block_free);

  for (guint i = 0; i < N_HELD; i++)
    {
      TarnBlock *block = tarn_pool_allocate (pool, HELD_SIZE, error);

      if (block == NULL)
        return FALSE;
      g_ptr_array_add (blocks, block);
    }
  return TRUE;
}

static guint64
count_calls (TarnPool *pool)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;

  tarn_pool_get_stats (pool, &stats);
  return stats.driver_calls + stats.upstream_frees;
}

static gboolean
recover_once (TarnPool *pool, Recovery *recovery, GError **error)
{
  g_autoptr (TarnBlock) block = NULL;
  guint64 calls;
  gint64 start;

  tarn_pool_free_held (pool);
  if (!fill (pool, error))
    return FALSE;
  calls = count_calls (pool);
  start = clock_now ();
  block = tarn_pool_allocate (pool, WANTED_SIZE, error);
  recovery->ns += (gdouble) (clock_now () - start);
  recovery->calls += count_calls (pool) - calls;
  return block != NULL;
}

/* Repeats recover_once () until @seconds have passed, but at least once.  Stores the mean time and
 * the mean number of driver calls. */
static gboolean
recover (TarnPool *pool, gdouble seconds, Recovery *mean, GError **error)
{
  gint64 end = clock_now () + (gint64) (seconds * 1e9);
  Recovery sum = { 0, 0 };
  guint n = 0;

  do
    if (!recover_once (pool, &sum, error))
      return FALSE;
  while (++n, clock_now () < end);
  *mean = (Recovery){ sum.ns / n, sum.calls / n };
  return TRUE;
}

void
measure_recovery (const Bench *bench, const Source *source, const Measure *measure)
{
  Result *time = results_add (bench->results, source, measure->name, 1,
                              g_strdup_printf ("%d held", N_HELD), "ns");
  Result *calls
      = results_add (bench->results, source, measure->name, 1, g_strdup (time->parameter), "calls");
  g_autofree gdouble *ns = g_new (gdouble, bench->n_repetitions);
  g_autofree gdouble *counts = g_new (gdouble, bench->n_repetitions);
  GError *error = NULL;
  g_autoptr (TarnPool) pool = make_pool (source, &error);

  for (guint i = 0; i < bench->n_repetitions && error == NULL; i++)
    {
      Recovery mean = { 0, 0 };

      bench_show_progress (bench, i);
      recover (pool, bench->seconds, &mean, &error);
      ns[i] = mean.ns;
      counts[i] = (gdouble) mean.calls;
    }
  if (error != NULL)
    {
      result_fail (calls, g_error_copy (error));
      result_fail (time, error);
      return;
    }
  result_set (time, spread_of (ns, bench->n_repetitions));
  result_set (calls, spread_of (counts, bench->n_repetitions));
}
