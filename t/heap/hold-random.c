/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Random operations on pools that cache no more than their bound, with queues that come and go,
 * with threads, and with bounds that change.
 *
 * --seed=SEED, as it is printed, repeats a run. */

#include "hold-fixture.h"

#include "common/lock-private.h"

#define N_QUEUES 4
#define N_BLOCKS 24
#define N_WORKERS 3
#define N_OPERATIONS 300
#define MAX_BYTES (MIB + MIB / 2)

typedef struct
{
  HoldFixture fixture;
  GRand *rand;
  gpointer queues[N_QUEUES];
  TarnBlock *live[N_BLOCKS];
  TarnMutex lock;
  TarnCond changed;
  guint turn; /* behind the lock: whose it is, of N_WORKERS + 1; the last is the test's own */
  gboolean is_over;
  gboolean is_changing; /* the bound changes now and then */
} Trace;

typedef struct
{
  Trace *trace;
  guint number;
  GThread *thread;
} Worker;

static guint
below (Trace *trace, guint end)
{
  return (guint) g_rand_int_range (trace->rand, 0, (gint32) end);
}

static gpointer
random_queue (Trace *trace)
{
  return trace->queues[below (trace, N_QUEUES)];
}

static void
replace_queue (Trace *trace)
{
  gpointer *queue = &trace->queues[below (trace, N_QUEUES)];

  if (below (trace, 2) == 0)
    tarn_testing_queue_run (trace->fixture.queues, *queue);
  hold_forget_queue (&trace->fixture, *queue);
  *queue = tarn_testing_queue_new (trace->fixture.queues, TRUE);
}

/* Half of the sizes are a few that come again. */
static gsize
random_size (Trace *trace)
{
  gsize size = (gsize) 1 << below (trace, 20);

  return below (trace, 2) == 0 ? size : size + below (trace, (guint) MIN (size, MAX_BYTES - size));
}

static void
use_live (Trace *trace, TarnBlock **live)
{
  if (below (trace, 4) == 0)
    g_assert_true (tarn_block_record_use (*live, random_queue (trace), NULL));
  else
    g_clear_pointer (live, tarn_block_free);
}

static void
change_bound (Trace *trace)
{
  const gsize bounds[] = { 0, 1, 64 * KIB, MIB, 16 * MIB, G_MAXSIZE };

  hold_set_bound (&trace->fixture, bounds[below (trace, G_N_ELEMENTS (bounds))]);
  g_assert_cmpuint (get_stats (trace->fixture.pool).held_bytes, <=,
                    hold_get_bound (&trace->fixture, N_WORKERS + 1));
}

static void
operate (Trace *trace)
{
  TarnBlock **live = &trace->live[below (trace, N_BLOCKS)];
  guint kind = below (trace, 100);

  if (kind < 3)
    replace_queue (trace);
  else if (kind < 6 && trace->is_changing)
    change_bound (trace);
  else if (kind < 30)
    tarn_testing_queues_run_one (trace->fixture.queues);
  else if (*live != NULL)
    use_live (trace, live);
  else
    *live = hold_take (&trace->fixture, random_size (trace),
                       below (trace, 5) == 0 ? NULL : random_queue (trace));
}

static gboolean
await_turn (Trace *trace, guint turn)
{
  while (trace->turn != turn && !trace->is_over)
    _tarn_cond_wait (&trace->changed, &trace->lock);
  return !trace->is_over;
}

static void
pass_turn (Trace *trace, guint turn)
{
  trace->turn = turn;
  _tarn_cond_broadcast (&trace->changed);
}

/* No lock is held during an operation. */
static gpointer
work (gpointer data)
{
  Worker *worker = data;
  Trace *trace = worker->trace;

  _tarn_mutex_lock (&trace->lock);
  while (await_turn (trace, worker->number))
    {
      _tarn_mutex_unlock (&trace->lock);
      operate (trace);
      _tarn_mutex_lock (&trace->lock);
      pass_turn (trace, N_WORKERS);
    }
  _tarn_mutex_unlock (&trace->lock);
  return NULL;
}

static void
have_turn (Trace *trace)
{
  guint i = below (trace, N_WORKERS + 1);

  if (i == N_WORKERS)
    {
      operate (trace);
      return;
    }
  _tarn_mutex_lock (&trace->lock);
  pass_turn (trace, i);
  await_turn (trace, N_WORKERS);
  _tarn_mutex_unlock (&trace->lock);
}

/* Checks the bound while no call is in flight.  Before that, a request that takes the lock lets the
 * pool ask the driver. */
static void
check_held (Trace *trace, guint operation)
{
  HoldFixture *fixture = &trace->fixture;
  gsize bound;

  tarn_testing_queues_run_all (fixture->queues);
  tarn_block_free (hold_take (fixture, 2 * MAX_BYTES, NULL));
  bound = hold_get_bound (fixture, N_WORKERS + 1);
  if (get_stats (fixture->pool).held_bytes > bound)
    g_error ("operation %u: %" G_GSIZE_FORMAT " bytes are held, and may be %" G_GSIZE_FORMAT,
             operation, get_stats (fixture->pool).held_bytes, bound);
}

static void
trace_end (Trace *trace, const Worker *workers)
{
  _tarn_mutex_lock (&trace->lock);
  trace->is_over = TRUE;
  _tarn_cond_broadcast (&trace->changed);
  _tarn_mutex_unlock (&trace->lock);
  for (guint i = 0; i < N_WORKERS; i++)
    g_thread_join (workers[i].thread);
  _tarn_cond_clear (&trace->changed);
  _tarn_mutex_clear (&trace->lock);
  for (guint i = 0; i < N_BLOCKS; i++)
    tarn_block_free (trace->live[i]);
  check_held (trace, N_OPERATIONS);
  hold_end (&trace->fixture);
  g_rand_free (trace->rand);
}

static void
run_trace (const HoldWay *way, gsize hold_bytes, gboolean is_changing)
{
  Trace trace = { .rand = g_rand_new_with_seed ((guint32) g_test_rand_int ()),
                  .turn = N_WORKERS,
                  .is_changing = is_changing };
  Worker workers[N_WORKERS];

  hold_begin (&trace.fixture, way, hold_bytes, 32);
  for (guint i = 0; i < N_QUEUES; i++)
    trace.queues[i] = tarn_testing_queue_new (trace.fixture.queues, TRUE);
  _tarn_mutex_init (&trace.lock);
  _tarn_cond_init (&trace.changed);
  for (guint i = 0; i < N_WORKERS; i++)
    {
      workers[i] = (Worker){ .trace = &trace, .number = i };
      workers[i].thread = g_thread_new ("worker", work, &workers[i]);
    }
  for (guint i = 0; i < N_OPERATIONS; i++)
    {
      have_turn (&trace);
      assert_valid (trace.fixture.pool);
      if (below (&trace, 4) == 0)
        check_held (&trace, i);
    }
  trace_end (&trace, workers);
}

static void
test_random (gconstpointer way)
{
  const gsize bounds[] = { 0, 1, 64 * KIB, MIB, 16 * MIB };

  for (guint i = 0; i < G_N_ELEMENTS (bounds); i++)
    run_trace (way, bounds[i], FALSE);
}

static void
test_random_changes (gconstpointer way)
{
  const gsize bounds[] = { 0, MIB, G_MAXSIZE };

  for (guint i = 0; i < G_N_ELEMENTS (bounds); i++)
    run_trace (way, bounds[i], TRUE);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  hold_add ("random", test_random);
  hold_add ("random-changes", test_random_changes);
  return g_test_run ();
}
