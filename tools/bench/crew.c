/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Starts the threads of a crew, and times them. */

#include "crew.h"

#include <math.h>
#include <pthread.h>
#include <time.h>

/* A crew: threads that run a loop at the same time. */
typedef struct
{
  const Job *job;
  pthread_mutex_t lock;      /* held until all threads were created, or one could not be created */
  gboolean is_off;           /* a thread could not be created, so all threads end */
  pthread_barrier_t barrier; /* for the crew's threads and the thread that stops them */
  gint stop;                 /* atomic; nonzero tells the threads to stop */
} Crew;

/* A thread of a crew. */
typedef struct
{
  Crew *crew;
  GThread *thread;
  Pattern pattern;
  Lane lane;
  gsize sizes[N_SIZES];
  guint64 count;
  gint64 start, end;            /* times of the clock, in nanoseconds */
  gchar apart[CACHE_LINE_PAIR]; /* the next Worker shares no cache line with this one */
} Worker;

gint64
clock_now (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  return (gint64) now.tv_sec * 1000000000 + now.tv_nsec;
}

static gsize
get_mixed_size (guint i)
{
  gdouble range = log2 ((gdouble) MAX_MIXED_SIZE / MIN_MIXED_SIZE);

  return (gsize) lrint (exp2 (range * i / (N_MIXED_SIZES - 1)) * MIN_MIXED_SIZE);
}

/* Fills in the sizes that a thread takes in turn.  Mixed sizes are shuffled in groups of
 * N_MIXED_SIZES: in another order for each thread, but the same in every run. */
static void
fill_sizes (gsize *sizes, Sizes which, guint thread)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (thread);

  for (guint i = 0; i < N_SIZES; i++)
    {
      guint first = i - i % N_MIXED_SIZES;
      guint other = (guint) g_rand_int_range (random, (gint32) first, (gint32) i + 1);

      /* Shuffles the array (Fisher and Yates) while it is filled. */
      sizes[i] = sizes[other];
      sizes[other] = which == SIZES_ONE ? ONE_SIZE : get_mixed_size (i - first);
    }
}

guint64
crew_get_window_peak (const Job *job, guint thread)
{
  gsize sizes[N_SIZES];
  guint64 bytes = 0, peak = 0;

  fill_sizes (sizes, job->sizes, thread);
  /* Moves a window of WINDOW_BLOCKS sizes along the list, twice: after the last size of the list, a
   * thread goes on with the first one. */
  for (guint i = 0; i < 2 * N_SIZES; i++)
    {
      if (i >= WINDOW_BLOCKS)
        bytes -= sizes[(i - WINDOW_BLOCKS) % N_SIZES];
      bytes += sizes[i % N_SIZES];
      peak = MAX (peak, bytes);
    }
  return peak;
}

/* Runs a loop once before it is timed, to fill pools and caches.  The stop flag is set, so a loop
 * ends after one chunk of allocations.  The chunk has N_SIZES allocations, one for each element of
 * the list of sizes.  For a driver, which keeps nothing, one allocation is enough. */
static void
warm_up (Worker *worker, Loop loop)
{
  static const gint stop_at_once = TRUE;
  Lane *lane = &worker->lane;
  guint chunk = lane->chunk;

  lane->stop = &stop_at_once;
  lane->chunk = worker->crew->job->subject == SUBJECT_DRIVER ? 1 : N_SIZES;
  loop (lane);
  lane->chunk = chunk;
  lane->stop = &worker->crew->stop;
  lane->next = 0;
}

/* Waits until all threads were created.  Returns FALSE if a thread could not be created. */
static gboolean
await_others (Crew *crew)
{
  gboolean is_off;

  pthread_mutex_lock (&crew->lock);
  is_off = crew->is_off;
  pthread_mutex_unlock (&crew->lock);
  return !is_off;
}

static gpointer
run_worker (gpointer data)
{
  Worker *worker = data;
  const Job *job = worker->crew->job;
  Loop loop = loops[worker->pattern][job->subject];

  if (!await_others (worker->crew))
    return NULL;
  if (job->source->kind->enter != NULL)
    job->source->kind->enter (job->source->handle);
  if (worker->lane.error == NULL)
    warm_up (worker, loop);
  pthread_barrier_wait (&worker->crew->barrier);
  worker->start = clock_now ();
  if (worker->lane.error == NULL)
    worker->count = loop (&worker->lane);
  worker->end = clock_now ();
  loops_clear_window (&worker->lane, job->subject);
  return NULL;
}

/* Chooses the number of allocations between two checks of the stop flag: N_MIXED_SIZES, so that a
 * thread has allocated each size equally often when it stops.  For a driver and blocks of one size
 * it is 1, because a driver is slow. */
static guint
choose_chunk (const Job *job)
{
  return job->subject == SUBJECT_DRIVER && job->sizes == SIZES_ONE ? 1 : N_MIXED_SIZES;
}

static void
worker_init (Worker *worker, Crew *crew, guint index, Ring *rings)
{
  const Job *job = crew->job;
  gboolean is_pair = job->pattern == PATTERN_PRODUCE;

  worker->crew = crew;
  worker->pattern = is_pair && index % 2 == 1 ? PATTERN_CONSUME : job->pattern;
  worker->lane.pool = job->pool;
  worker->lane.driver = job->source->allocator;
  if (job->subject == SUBJECT_ORDERED)
    worker->lane.queue
        = source_get_queue (job->source, job->has_one_queue ? 0 : index, &worker->lane.error);
  else if (job->subject == SUBJECT_TURNS
           && source_get_queue (job->source, job->n_queues - 1, &worker->lane.error) != NULL)
    {
      worker->lane.queues = job->source->queues->pdata;
      worker->lane.n_queues = job->n_queues;
    }
  worker->lane.sizes = worker->sizes;
  worker->lane.chunk = choose_chunk (job);
  worker->lane.ring = is_pair ? &rings[index / 2] : NULL;
  fill_sizes (worker->sizes, job->sizes, index);
}

/* Computes the result: the nanoseconds that a thread takes for one block.  The time runs from the
 * start of the first thread to the end of the last one.  A thread that waits for a processor when
 * the flag is set stops later than the others; the blocks that it allocates until then count,
 * too. */
static gboolean
sum_up (Worker *workers, const Job *job, gdouble *ns, GError **error)
{
  gboolean is_pair = job->pattern == PATTERN_PRODUCE;
  gint64 start = G_MAXINT64, end = G_MININT64;
  GError *first = NULL;
  guint64 count = 0;

  for (guint i = 0; i < job->n_threads; i++)
    {
      start = MIN (start, workers[i].start);
      end = MAX (end, workers[i].end);
      count += is_pair && i % 2 == 0 ? 0 : workers[i].count;
      if (first == NULL)
        first = g_steal_pointer (&workers[i].lane.error);
      g_clear_error (&workers[i].lane.error);
    }
  if (first != NULL)
    {
      g_propagate_error (error, first);
      return FALSE;
    }
  *ns = (gdouble) (end - start) * (is_pair ? job->n_threads / 2 : job->n_threads)
        / (gdouble) MAX (count, 1);
  return TRUE;
}

/* Starts the threads.  If a thread cannot be created, returns FALSE with an error, and the others
 * end. */
static gboolean
start_workers (Crew *crew, Worker *workers, Ring *rings, GError **error)
{
  pthread_mutex_lock (&crew->lock);
  for (guint i = 0; i < crew->job->n_threads && !crew->is_off; i++)
    {
      worker_init (&workers[i], crew, i, rings);
      workers[i].thread = g_thread_try_new ("bench", run_worker, &workers[i], error);
      crew->is_off = workers[i].thread == NULL;
    }
  pthread_mutex_unlock (&crew->lock);
  return !crew->is_off;
}

static void
join_workers (Worker *workers, guint n)
{
  for (guint i = 0; i < n; i++)
    if (workers[i].thread != NULL)
      g_thread_join (workers[i].thread);
}

gboolean
crew_run (const Job *job, gdouble *ns, GError **error)
{
  Crew crew = { .job = job };
  g_autofree Worker *workers = g_new0 (Worker, job->n_threads);
  g_autofree Ring *rings = g_new0 (Ring, job->n_threads / 2 + 1);
  gboolean have_started;

  pthread_mutex_init (&crew.lock, NULL);
  pthread_barrier_init (&crew.barrier, NULL, job->n_threads + 1);
  have_started = start_workers (&crew, workers, rings, error);
  if (have_started)
    {
      pthread_barrier_wait (&crew.barrier);
      g_usleep ((gulong) (job->seconds * 1e6));
      __atomic_store_n (&crew.stop, TRUE, __ATOMIC_RELAXED);
    }
  join_workers (workers, job->n_threads);
  pthread_barrier_destroy (&crew.barrier);
  pthread_mutex_destroy (&crew.lock);
  if (have_started)
    return sum_up (workers, job, ns, error);
  for (guint i = 0; i < job->n_threads; i++)
    g_clear_error (&workers[i].lane.error);
  return FALSE;
}
