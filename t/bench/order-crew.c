/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "order-crew.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define CACHE_LINE_PAIR 128 /* bytes, which processors fetch together */
#define N_WARM_UPS 4

typedef struct
{
  const OrderBench *bench;
  Round round;
  guint n_threads;
  pthread_barrier_t
      barrier;  /* of the threads and of who measures: where repetitions begin and end */
  gint is_over; /* atomic: the repetition is over */
  TarnPool *pools[MAX_THREADS];
  guint n_pools;
  guint64 n_pairs, n_calls; /* in all repetitions */
} Crew;

typedef struct
{
  Crew *crew;
  GThread *thread;
  Lane lane;
  guint64 n_rounds;             /* in the latest repetition */
  gint64 start, end;            /* nanoseconds */
  gchar apart[CACHE_LINE_PAIR]; /* the next one shares no cache line with this one */
} Worker;

static gint64
clock_now (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  return (gint64) now.tv_sec * 1000000000 + now.tv_nsec;
}

static void
run_repetition (Worker *worker)
{
  const Crew *crew = worker->crew;
  const guint64 most = crew->bench->n_rounds != 0 ? crew->bench->n_rounds : G_MAXUINT64;

  worker->n_rounds = 0;
  worker->start = clock_now ();
  while (worker->lane.error == NULL && worker->n_rounds < most
         && !__atomic_load_n (&crew->is_over, __ATOMIC_RELAXED))
    {
      crew->round (&worker->lane);
      worker->n_rounds++;
    }
  worker->end = clock_now ();
}

static gpointer
run_worker (gpointer data)
{
  Worker *worker = data;
  Crew *crew = worker->crew;

  if (crew->bench->backend->enter != NULL)
    crew->bench->backend->enter ();
  for (guint i = 0; i < N_WARM_UPS && worker->lane.error == NULL; i++)
    crew->round (&worker->lane);
  for (guint i = 0; i < crew->bench->n_repetitions; i++)
    {
      pthread_barrier_wait (&crew->barrier); /* the device is idle */
      pthread_barrier_wait (&crew->barrier);
      run_repetition (worker);
      pthread_barrier_wait (&crew->barrier);
    }
  return NULL;
}

/* Computes the time of a repetition.  It is from the first start to the last end, because a thread
 * that had no processor at the end stops later and does more. */
static gdouble
get_time (const Worker *workers, guint n)
{
  gint64 start = G_MAXINT64, end = G_MININT64;
  guint64 n_rounds = 0;

  for (guint i = 0; i < n; i++)
    {
      start = MIN (start, workers[i].start);
      end = MAX (end, workers[i].end);
      n_rounds += workers[i].n_rounds;
    }
  return (gdouble) (end - start) * n / (gdouble) (MAX (n_rounds, 1) * ROUND_PAIRS);
}

static void
settle (const Crew *crew, const Worker *workers, guint n_queues)
{
  if (crew->bench->backend->settle != NULL)
    for (guint i = 0; i < crew->n_threads; i++)
      for (guint j = 0; j < n_queues; j++)
        crew->bench->backend->settle (workers[i].lane.queues[j]);
}

static guint
count_calls (const Crew *crew)
{
  return crew->bench->backend->count_calls != NULL ? crew->bench->backend->count_calls () : 0;
}

/* Waits for all queues, so that their work does not disturb the next repetition. */
static void
repeat (Crew *crew, const Worker *workers, guint n_queues, gdouble *times)
{
  for (guint i = 0; i < crew->bench->n_repetitions; i++)
    {
      guint n_calls;

      pthread_barrier_wait (&crew->barrier);
      settle (crew, workers, n_queues);
      crew->is_over = FALSE;
      n_calls = count_calls (crew);
      pthread_barrier_wait (&crew->barrier);
      if (crew->bench->n_rounds == 0)
        {
          g_usleep ((gulong) (crew->bench->seconds * G_USEC_PER_SEC));
          __atomic_store_n (&crew->is_over, TRUE, __ATOMIC_RELAXED);
        }
      pthread_barrier_wait (&crew->barrier);
      times[i] = get_time (workers, crew->n_threads);
      crew->n_calls += count_calls (crew) - n_calls;
      for (guint j = 0; j < crew->n_threads; j++)
        crew->n_pairs += workers[j].n_rounds * ROUND_PAIRS;
    }
}

/* Pools */

static void
limit_to_one_block (TarnPool *pool)
{
  tarn_pool_set_limit_bytes (
      pool, tarn_pool_alloc_size (pool, tarn_pool_bin_number (pool, REQUEST_SIZE)));
}

static void
make_pools (Crew *crew, Pools which)
{
  crew->n_pools = which == POOL_NONE ? 0 : which == POOL_FOR_EACH ? crew->n_threads : 1;
  for (guint i = 0; i < crew->n_pools; i++)
    crew->pools[i] = tarn_pool_new (crew->bench->allocator, NULL, NULL);
  if (which == POOL_LIMITED)
    limit_to_one_block (crew->pools[0]);
}

/* Reads the pools' counters, without those of warming up. */
static void
count_all (const Crew *crew, OrderResult *result)
{
  gdouble n_pairs = (gdouble) (crew->n_pairs + N_WARM_UPS * ROUND_PAIRS * crew->n_threads);

  result->has_calls = count_calls (crew) > 0;
  result->calls = (gdouble) crew->n_calls / (gdouble) MAX (crew->n_pairs, 1);
  result->has_pool = crew->n_pools > 0;
  for (guint i = 0; i < crew->n_pools; i++)
    {
      TarnPoolStats stats = TARN_POOL_STATS_INIT;

      tarn_pool_get_stats (crew->pools[i], &stats);
      result->waits += (gdouble) stats.queue_waits / n_pairs;
      result->misses += (gdouble) stats.misses / n_pairs;
    }
}

/* Workers */

static void
worker_init (Worker *worker, Crew *crew, const Way *way, guint number, guint n_queues)
{
  const OrderBackend *backend = crew->bench->backend;

  worker->crew = crew;
  if (crew->n_pools > 0)
    worker->lane.pool = crew->pools[number % crew->n_pools];
  for (guint i = 0; i < ROUND_PAIRS; i++)
    worker->lane.queues[i]
        = i < n_queues ? backend->queue_new () : worker->lane.queues[i % n_queues];
  order_fill_sizes (worker->lane.sizes, way->sizes, number, n_queues);
}

static void
worker_clear (Worker *worker, guint n_queues, GError **first)
{
  for (guint i = 0; i < n_queues; i++)
    worker->crew->bench->backend->queue_free (worker->lane.queues[i]);
  if (*first == NULL)
    *first = g_steal_pointer (&worker->lane.error);
  g_clear_error (&worker->lane.error);
}

static int
compare (const void *a, const void *b)
{
  gdouble left = *(const gdouble *) a, right = *(const gdouble *) b;

  return left < right ? -1 : left > right;
}

static void
run_crew (Crew *crew, Worker *workers, guint n_queues, OrderResult *result)
{
  gdouble times[MAX_REPETITIONS];
  const guint n = crew->bench->n_repetitions;

  pthread_barrier_init (&crew->barrier, NULL, crew->n_threads + 1);
  for (guint i = 0; i < crew->n_threads; i++)
    workers[i].thread = g_thread_new ("bench", run_worker, &workers[i]);
  repeat (crew, workers, n_queues, times);
  for (guint i = 0; i < crew->n_threads; i++)
    g_thread_join (workers[i].thread);
  pthread_barrier_destroy (&crew->barrier);
  settle (crew, workers, n_queues);

  qsort (times, n, sizeof *times, compare);
  *result = (OrderResult){ .median = times[n / 2], .least = times[0], .most = times[n - 1] };
  count_all (crew, result);
}

gboolean
order_measure (const OrderBench *bench, const Way *way, guint n_threads, guint n_queues,
               OrderResult *result, GError **error)
{
  Crew crew = { .bench = bench, .n_threads = n_threads };
  g_autofree Worker *workers = g_new0 (Worker, n_threads);
  GError *first = NULL;

  crew.round = way->round != NULL ? way->round : bench->backend->use_direct;
  make_pools (&crew, way->pools);
  for (guint i = 0; i < n_threads; i++)
    worker_init (&workers[i], &crew, way, i, n_queues);
  run_crew (&crew, workers, n_queues, result);
  for (guint i = 0; i < crew.n_pools; i++)
    tarn_pool_unref (crew.pools[i]);
  for (guint i = 0; i < n_threads; i++)
    worker_clear (&workers[i], n_queues, &first);
  if (first == NULL)
    return TRUE;
  g_propagate_error (error, first);
  return FALSE;
}
