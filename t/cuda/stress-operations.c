/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What a worker of the stress test does: the operations, with their weights, and rounds of them. */

#include "stress.h"

#include <tarn/debug.h>
#include <tarn/snapshot.h>
#include <tarn/trace.h>

#define OPERATIONS 200 /* of a thread in a round */

/* Where workers wait until the next round begins. */
static struct
{
  TarnMutex lock; /* guards: */
  TarnCond changed;
  gint n_waiting;
  guint round;
} gate = { TARN_MUTEX_INIT, TARN_COND_INIT, 0, 0 };

/* Limits, and what is held */

gsize
get_highest_limit (Epoch *epoch, gint pool)
{
  return (gsize) g_atomic_int_get (&epoch->max_limit_mib[pool]) * MIB;
}

static void
set_limit (Worker *worker)
{
  Epoch *epoch = worker->epoch;
  gint i = below (worker, N_POOLS), limit = FIRST_LIMIT + below (worker, 4 * FIRST_LIMIT), highest;

  if (!epoch->has_limit)
    return;
  do
    highest = g_atomic_int_get (&epoch->max_limit_mib[i]);
  while (limit > highest
         && !g_atomic_int_compare_and_exchange (&epoch->max_limit_mib[i], highest, limit));
  tarn_pool_set_limit_bytes (epoch->pools[i], (gsize) limit * MIB);
}

/* Asks for about as much memory as the limit allows. */
static void
reach_limit (Worker *worker)
{
  Epoch *epoch = worker->epoch;
  gint i = below (worker, N_POOLS);
  gsize size = get_highest_limit (epoch, i) - (gsize) below (worker, (gint) MIB);
  CUstream *stream = choose_stream (worker);
  GError *error = NULL;
  TarnBlock *block;

  if (!epoch->has_limit || stream == NULL)
    return;
  block = tarn_cuda_pool_allocate (epoch->pools[i], size, *stream, &error);
  if (block == NULL)
    note_error (worker, error);
  tarn_block_free (block);
}

static void
trim (Worker *worker)
{
  TarnPool *pool = worker->epoch->pools[below (worker, N_POOLS)];

  if (one_in (worker, 2))
    tarn_pool_free_held (pool);
  else
    tarn_pool_trim (pool, (gsize) below (worker, (gint) (4 * MIB)));
}

static void
look (Worker *worker)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  gint i = below (worker, N_POOLS);

  tarn_pool_get_stats (worker->epoch->pools[i], &stats);
  if (worker->epoch->has_limit)
    g_assert_cmpuint (stats.managed_bytes, <=, get_highest_limit (worker->epoch, i));
  g_assert_cmpuint (stats.held_bytes, <=, stats.managed_bytes);
  g_assert_cmpuint (stats.managed_bytes, <=, stats.peak_managed_bytes);
  if (one_in (worker, 4))
    tarn_debug_check ();
}

static void
jump (Worker *worker)
{
  g_atomic_int_add (&clock_ahead, below (worker, 30));
}

/* Begins or ends a recording; another thread may have done so before. */
static void
record (Worker *worker)
{
  g_autofree gchar *path = g_build_filename (folder, "trace", NULL);

  if (one_in (worker, 2))
    tarn_trace_stop (NULL);
  else
    tarn_trace_start (path, NULL, NULL);
}

static void
take_snapshot (Worker *worker)
{
  g_autofree gchar *path = g_strdup_printf ("%s/snapshot-%u", folder, worker->number);
  g_autoptr (GError) error = NULL;

  tarn_snapshot_set_follow (one_in (worker, 2));
  g_assert_true (tarn_snapshot_write (path, &error));
  g_assert_no_error (error);
}

/* Makes one of the driver's next calls fail, in whichever thread.  A call that fails softly loses
 * nothing, and leaves captures as they are. */
static void
fail (Worker *worker)
{
  static const gchar *const soft[]
      = { "cuMemAlloc",          "cuMemCreate",       "cuMemMap",           "cuMemSetAccess",
          "cuMemAddressReserve", "cuEventCreate",     "cuEventRecord",      "cuEventQuery",
          "cuEventSynchronize",  "cuStreamWaitEvent", "cuStreamIsCapturing" };
  guint status = one_in (worker, 2) ? FAKE_CUDA_OUT_OF_MEMORY : FAKE_CUDA_INVALID_HANDLE;

  if (worker->epoch->failing == FAILS_HARD)
    fake->fail (NULL, (guint) below (worker, 40) + 1, FALSE, status);
  else if (worker->epoch->failing == FAILS_SOFTLY)
    fake->fail (soft[below (worker, G_N_ELEMENTS (soft))], (guint) below (worker, 6),
                one_in (worker, 3), status);
}

/* Rounds */

static const struct
{
  const gchar *name;
  void (*func) (Worker *worker);
  gint weight;
} operations[] = {
  { "allocate", allocate_item, 60 },
  { "free", free_one, 40 },
  { "exchange", exchange_item, 20 },
  { "move", use_item, 20 },
  { "record use", share_item, 8 },
  { "block wait", wait_for_item, 2 },
  { "make a stream", make_stream, 12 },
  { "forget a stream", end_stream, 4 },
  { "hold a stream up", hold_stream_up, 10 },
  { "set a limit", set_limit, 3 },
  { "reach a limit", reach_limit, 2 },
  { "trim", trim, 3 },
  { "look", look, 4 },
  { "jump", jump, 2 },
  { "record", record, 2 },
  { "take a snapshot", take_snapshot, 1 },
  { "fail", fail, 4 },
  { "fork", fork_child, 1 },
  { "capture", capture, 4 },
};

/* Notes the operation that a worker is doing; NULL: none. */
static void
note_what (Worker *worker, const gchar *what)
{
  __atomic_store_n (&worker->since, g_get_monotonic_time (), __ATOMIC_RELAXED);
  __atomic_store_n (&worker->what, what, __ATOMIC_RELEASE);
}

void
do_one (Worker *worker)
{
  const gchar *outer = __atomic_load_n (&worker->what, __ATOMIC_RELAXED);
  static gint sum;
  guint i = 0;
  gint at;

  if (g_atomic_int_get (&sum) == 0)
    {
      gint new_sum = 0;

      for (guint k = 0; k < G_N_ELEMENTS (operations); k++)
        new_sum += operations[k].weight;
      g_atomic_int_set (&sum, new_sum);
    }
  for (at = below (worker, g_atomic_int_get (&sum)); at >= operations[i].weight; i++)
    at -= operations[i].weight;
  note_what (worker, operations[i].name);
  operations[i].func (worker);
  note_what (worker, outer);
  g_atomic_int_inc (&n_done);
}

/* A call that failed may have left its context behind. */
void
leave_context (void)
{
  CUcontext popped;

  while (fake->get_context_stack_depth () > 0)
    cuCtxPopCurrent_v2 (&popped);
}

static void
wait_for_next_round (void)
{
  guint round;

  _tarn_mutex_lock (&gate.lock);
  round = gate.round;
  gate.n_waiting++;
  _tarn_cond_broadcast (&gate.changed);
  while (gate.round == round)
    _tarn_cond_wait (&gate.changed, &gate.lock);
  _tarn_mutex_unlock (&gate.lock);
}

void
wait_for_workers (void)
{
  _tarn_mutex_lock (&gate.lock);
  while (gate.n_waiting < n_threads)
    _tarn_cond_wait (&gate.changed, &gate.lock);
  gate.n_waiting = 0;
  _tarn_mutex_unlock (&gate.lock);
}

void
begin_next_round (void)
{
  _tarn_mutex_lock (&gate.lock);
  gate.round++;
  _tarn_cond_broadcast (&gate.changed);
  _tarn_mutex_unlock (&gate.lock);
}

gpointer
work (gpointer data)
{
  Worker *worker = data;

  for (guint round = 0; round < ROUNDS; round++)
    {
      while (cuCtxSetCurrent (worker->epoch->context) != FAKE_CUDA_SUCCESS)
        ;
      for (guint i = 0; i < OPERATIONS; i++)
        do_one (worker);
      leave_context ();
      wait_for_next_round ();
    }
  return NULL;
}
