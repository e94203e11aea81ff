/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Threads that do all that a program may do, at random, on the fake CUDA driver:
 *
 *     stress.t [--seed=N] [--seconds=N] [--threads=N] [--verbose-messages]
 *
 * The run is divided into epochs.  Each has a context, pools and threads of its own, and leaves
 * nothing behind.  What is checked:
 *
 *     - each command finds what was written to its block before, and no two blocks in use overlap
 *     - a pool manages no more than its limit, and holds no more than its bound
 *     - nothing that the driver has is left after an epoch, and the process does not grow
 *     - no call hangs, and nothing is g_critical ()
 *
 * Threads run as the machine has them run, so a seed does not bring back a run, but its epochs. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tarn/clock.h>
#include <tarn/cuda.h>
#include <tarn/debug.h>
#include <tarn/snapshot.h>
#include <tarn/trace.h>
#include <unistd.h>

#include "common/lock-private.h"
#include "testing/cuda/fake-cuda.h"

#define KIB ((gsize) 1 << 10)
#define MIB ((gsize) 1 << 20)
#define MAX_THREADS 32
#define N_POOLS 2
#define N_SLOTS 12  /* blocks that a thread has for itself */
#define N_SHARED 16 /* blocks that threads hand over to each other */
#define N_STREAMS 4 /* of a thread */
#define WRITTEN (8 * KIB)
#define OPERATIONS 600            /* of a thread in an epoch */
#define FIRST_LIMIT 4             /* MiB of a pool */
#define BUDGET (24 * MIB)         /* of the device, where it is to run out */
#define NON_BLOCKING 1            /* CU_STREAM_NON_BLOCKING */
#define HANG (G_TIME_SPAN_MINUTE) /* a call that takes as long */

static gint seconds = 3, n_threads = 4;
static gint64 seed = -1;
static gboolean shows_messages;

static const TarnTestingCuda *fake;

typedef struct
{
  TarnBlock *block; /* NULL: none */
  gsize size;
  gint pool;
  guint value; /* that all of it was written with; 0: nobody knows */
} Item;

/* What a command is to read. */
typedef struct
{
  guint expected, found;
} Check;

typedef struct
{
  guint64 address;
  gsize size;
} Range;

typedef struct _Worker Worker;

/* What an epoch is like. */
typedef struct
{
  gint64 number;
  CUcontext context;
  gboolean has_heap, is_plain, has_limit, has_budget, fails, captures;
  const gchar *debug;
  TarnAllocator *allocator;
  TarnPool *pools[N_POOLS];
  gint max_limit_mib[N_POOLS]; /* atomic: the highest; 0: none */

  TarnMutex lock; /* guards: */
  Item shared[N_SHARED];
  Range ranges[MAX_THREADS * N_SLOTS + N_SHARED + MAX_THREADS];
  guint n_ranges;
} Epoch;

struct _Worker
{
  Epoch *epoch;
  GRand *rand;
  GThread *thread;
  Item items[N_SLOTS];
  CUstream streams[N_STREAMS];
  GSList *checks; /* of Check */
  guint n_writes, number;

  const gchar *what; /* atomic, as is the next: what it is in the midst of; NULL: nothing */
  gint64 since;
};

static Worker workers[MAX_THREADS];
static gint is_over;          /* atomic: the threads beside the workers are to end */
static gint clock_ahead;      /* atomic: seconds */
static gchar *folder;         /* for recordings and snapshots */
static gint n_done, n_errors; /* atomic: operations, and requests that failed */

static gint
below (Worker *worker, gint end)
{
  return g_rand_int_range (worker->rand, 0, end);
}

static gboolean
one_in (Worker *worker, gint n)
{
  return below (worker, n) == 0;
}

static gint64
get_time (void)
{
  return g_get_monotonic_time () + g_atomic_int_get (&clock_ahead) * G_TIME_SPAN_SECOND;
}

/* Ranges in use */

static void
add_range (Epoch *epoch, const TarnBlock *block, gsize size)
{
  guint64 address = tarn_block_get_memory (block).address;

  _tarn_mutex_lock (&epoch->lock);
  for (guint i = 0; i < epoch->n_ranges; i++)
    if (address < epoch->ranges[i].address + epoch->ranges[i].size
        && epoch->ranges[i].address < address + size)
      g_error ("0x%" G_GINT64_MODIFIER "x, %zu bytes, overlaps 0x%" G_GINT64_MODIFIER
               "x, %zu bytes",
               address, size, epoch->ranges[i].address, epoch->ranges[i].size);
  g_assert_cmpuint (epoch->n_ranges, <, G_N_ELEMENTS (epoch->ranges));
  epoch->ranges[epoch->n_ranges++] = (Range){ address, size };
  _tarn_mutex_unlock (&epoch->lock);
}

static void
remove_range (Epoch *epoch, const TarnBlock *block)
{
  guint64 address = tarn_block_get_memory (block).address;
  guint i = 0;

  _tarn_mutex_lock (&epoch->lock);
  while (i < epoch->n_ranges && epoch->ranges[i].address != address)
    i++;
  g_assert_cmpuint (i, <, epoch->n_ranges);
  epoch->ranges[i] = epoch->ranges[--epoch->n_ranges];
  _tarn_mutex_unlock (&epoch->lock);
}

/* Commands, on a stream of the worker's that the block is for */

static void
write_item (Worker *worker, Item *item, CUstream stream)
{
  CUdeviceptr address = tarn_cuda_block_get_device_pointer (item->block);
  guint value = (worker->number << 24) + (++worker->n_writes & 0xffffff);
  gsize n = MIN (item->size, WRITTEN) / sizeof value;

  item->value = 0;
  if (n == 0 || cuMemsetD32Async (address, value, n, stream) != FAKE_CUDA_SUCCESS)
    return;
  n = item->size / sizeof value;
  if (cuMemsetD32Async (address + (n - 1) * sizeof value, value, 1, stream) == FAKE_CUDA_SUCCESS)
    item->value = value;
}

/* Has a command read one of the words that were written. */
static void
check_item (Worker *worker, const Item *item, CUstream stream)
{
  CUdeviceptr address = tarn_cuda_block_get_device_pointer (item->block);
  gsize n = item->size / sizeof item->value;
  gsize at = one_in (worker, 4)
                 ? n - 1
                 : (gsize) below (worker, (gint) MIN (n, WRITTEN / sizeof item->value));
  Check *check;

  if (item->value == 0)
    return;
  check = g_new (Check, 1);
  *check = (Check){ item->value, ~item->value };
  if (cuMemcpyDtoHAsync_v2 (&check->found, address + at * sizeof item->value, sizeof check->found,
                            stream)
      == FAKE_CUDA_SUCCESS)
    worker->checks = g_slist_prepend (worker->checks, check);
  else
    g_free (check);
}

/* When all commands are done. */
static void
end_checks (Worker *worker)
{
  for (const GSList *link = worker->checks; link != NULL; link = link->next)
    {
      const Check *check = link->data;

      g_assert_cmphex (check->found, ==, check->expected);
    }
  g_slist_free_full (g_steal_pointer (&worker->checks), g_free);
}

/* Blocks */

static gsize
choose_size (Worker *worker)
{
  switch (below (worker, 8))
    {
    case 0:
      return (gsize) below (worker, (gint) (3 * MIB));
    case 1:
    case 2:
      return (gsize) 4096 << below (worker, 6);
    default:
      return (gsize) below (worker, 16 << 10);
    }
}

/* A stream of the worker's own that lives; NULL: it has none. */
static CUstream *
choose_stream (Worker *worker)
{
  CUstream *stream = &worker->streams[below (worker, N_STREAMS)];

  return *stream != NULL ? stream : NULL;
}

static Item *
choose_item (Worker *worker)
{
  Item *item = &worker->items[below (worker, N_SLOTS)];

  return item->block != NULL ? item : NULL;
}

static void
note_error (const Worker *worker, GError *error)
{
  const Epoch *epoch = worker->epoch;

  g_atomic_int_inc (&n_errors);
  if (!epoch->fails && !epoch->captures
      && !(epoch->has_limit && g_error_matches (error, TARN_ERROR, TARN_ERROR_LIMIT))
      && !(epoch->has_budget && g_error_matches (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY)))
    g_error ("%s", error->message);
  g_error_free (error);
}

static void
allocate_item (Worker *worker)
{
  Epoch *epoch = worker->epoch;
  Item *item = &worker->items[below (worker, N_SLOTS)];
  CUstream *stream = choose_stream (worker);
  GError *error = NULL;

  if (item->block != NULL || stream == NULL)
    return;
  item->pool = below (worker, N_POOLS);
  item->size = sizeof item->value + choose_size (worker);
  item->value = 0;
  item->block = tarn_pool_allocate_ordered (epoch->pools[item->pool], item->size, *stream, &error);
  if (item->block == NULL)
    {
      note_error (worker, error);
      return;
    }
  add_range (epoch, item->block, item->size);
  write_item (worker, item, *stream);
}

static void
free_item (Epoch *epoch, Item *item)
{
  if (item->block == NULL)
    return;
  remove_range (epoch, item->block);
  tarn_block_free (g_steal_pointer (&item->block));
}

static void
free_one (Worker *worker)
{
  Item *item = choose_item (worker);

  if (item != NULL)
    free_item (worker->epoch, item);
}

/* Has a block of some other thread, and gives it one. */
static void
exchange_item (Worker *worker)
{
  Item *own = &worker->items[below (worker, N_SLOTS)];
  Item *other = &worker->epoch->shared[below (worker, N_SHARED)], kept = *own;

  _tarn_mutex_lock (&worker->epoch->lock);
  *own = *other;
  *other = kept;
  _tarn_mutex_unlock (&worker->epoch->lock);
}

/* Has a stream of the worker's alone go on with a block, whoever has written it. */
static gboolean
move_item (Worker *worker, Item *item, CUstream stream)
{
  GError *error = NULL;

  if (tarn_cuda_block_move_to_stream (item->block, stream, &error))
    return TRUE;
  note_error (worker, error);
  return FALSE;
}

static void
use_item (Worker *worker)
{
  Item *item = choose_item (worker);
  CUstream *stream = choose_stream (worker);

  if (item == NULL || stream == NULL || !move_item (worker, item, *stream))
    return;
  check_item (worker, item, *stream);
  if (one_in (worker, 3))
    write_item (worker, item, *stream);
}

/* Has another stream read a block, too, after what is on the first one. */
static void
share_item (Worker *worker)
{
  Item *item = choose_item (worker);
  CUstream *first = choose_stream (worker), *second = choose_stream (worker);
  GError *error = NULL;
  CUevent event;

  if (item == NULL || first == NULL || second == NULL || first == second
      || !move_item (worker, item, *first))
    return;
  if (!tarn_cuda_block_record_use (item->block, *second, &error))
    {
      note_error (worker, error);
      return;
    }
  if (cuEventCreate (&event, 2) != FAKE_CUDA_SUCCESS)
    return;
  if (cuEventRecord (event, *first) == FAKE_CUDA_SUCCESS
      && cuStreamWaitEvent (*second, event, 0) == FAKE_CUDA_SUCCESS)
    check_item (worker, item, *second);
  while (cuEventDestroy_v2 (event) != FAKE_CUDA_SUCCESS)
    ;
}

static void
wait_for_item (Worker *worker)
{
  Item *item = choose_item (worker);
  GError *error = NULL;

  if (item != NULL && !tarn_block_wait (item->block, &error))
    note_error (worker, error);
}

/* Streams */

static void
make_stream (Worker *worker)
{
  CUstream *stream = &worker->streams[below (worker, N_STREAMS)];

  if (*stream == NULL && cuStreamCreate (stream, NON_BLOCKING) != FAKE_CUDA_SUCCESS)
    *stream = NULL;
}

static void
destroy_stream (CUstream *stream)
{
  while (*stream != NULL && cuStreamDestroy_v2 (*stream) != FAKE_CUDA_SUCCESS)
    ;
  *stream = NULL;
}

/* A stream that has work is destroyed, and blocks of it live on. */
static void
end_stream (Worker *worker)
{
  CUstream *stream = choose_stream (worker);
  GError *error = NULL;

  if (stream == NULL)
    return;
  for (guint i = 0; i < N_POOLS; i++)
    if (!tarn_cuda_pool_forget_stream (worker->epoch->pools[i], *stream, &error))
      {
        note_error (worker, error);
        return;
      }
  destroy_stream (stream);
}

static void
hold_stream_up (Worker *worker)
{
  const CUstream *stream = choose_stream (worker);

  if (stream != NULL)
    fake->put_work (*stream);
}

/* Limits, and what is held */

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

  tarn_pool_get_stats (worker->epoch->pools[below (worker, N_POOLS)], &stats);
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

/* What is seen of it all.  Another thread may have begun, or ended, a recording. */
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

/* Has one of the driver's next calls fail, of whichever thread. */
static void
fail (Worker *worker)
{
  if (worker->epoch->fails)
    fake->fail (NULL, (guint) below (worker, 40) + 1, FALSE,
                one_in (worker, 2) ? FAKE_CUDA_OUT_OF_MEMORY : FAKE_CUDA_INVALID_HANDLE);
}

/* What a child may do, and then it exits.  It asks for no errors: GLib before 2.76 allocates them
 * with g_slice_alloc (), whose lock another thread of the parent may have held for good. */
static void
play_child (Worker *worker)
{
  Epoch *epoch = worker->epoch;

  alarm (60);
  if (tarn_pool_allocate_ordered (epoch->pools[0], 1000, worker->streams[0], NULL) != NULL)
    _exit (1);
  for (guint i = 0; i < N_SLOTS; i++)
    tarn_block_free (worker->items[i].block);
  tarn_pool_get_managed_bytes (epoch->pools[0]);
  tarn_pool_free_held (epoch->pools[0]);
  tarn_pool_unref (epoch->pools[1]);
  _exit (0);
}

static void
fork_child (Worker *worker)
{
  gint status = 0;
  pid_t child;

  if (!one_in (worker, 10))
    return;
  child = fork ();
  if (child == 0)
    play_child (worker);
  g_assert_cmpint (child, >, 0);
  while (waitpid (child, &status, 0) < 0)
    g_assert_cmpint (errno, ==, EINTR);
  if (status != 0)
    g_error ("a child of fork () ended with status 0x%x", status);
}

/* Whatever fails. */
static void
end_capture (CUstream stream)
{
  unsigned int is_capturing = 1;
  CUgraph graph = NULL;

  while (is_capturing != 0)
    {
      cuStreamEndCapture (stream, &graph);
      while (cuStreamIsCapturing (stream, &is_capturing) != FAKE_CUDA_SUCCESS)
        ;
    }
  while (graph != NULL && cuGraphDestroy (graph) != FAKE_CUDA_SUCCESS)
    ;
}

/* A capture of the worker's own stream, in which it puts nothing there.  Others' calls may end it:
 * what the driver says then is for tests of captures. */
static void
capture (Worker *worker)
{
  const CUstream *stream = choose_stream (worker);

  if (!worker->epoch->captures || stream == NULL
      || cuStreamBeginCapture_v2 (*stream, one_in (worker, 2) ? 1 : 2) != FAKE_CUDA_SUCCESS)
    return;
  for (gint i = below (worker, 6); i > 0; i--)
    {
      Item *item = &worker->items[below (worker, N_SLOTS)];

      free_item (worker->epoch, item);
      item->size = 4096;
      item->value = 0;
      item->pool = 0;
      item->block = tarn_pool_allocate_ordered (worker->epoch->pools[0], item->size, *stream, NULL);
      if (item->block != NULL)
        add_range (worker->epoch, item->block, item->size);
    }
  end_capture (*stream);
}

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
  { "trim", trim, 3 },
  { "look", look, 4 },
  { "jump", jump, 2 },
  { "record", record, 2 },
  { "take a snapshot", take_snapshot, 1 },
  { "fail", fail, 4 },
  { "fork", fork_child, 1 },
  { "capture", capture, 4 },
};

static void
do_one (Worker *worker)
{
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
  __atomic_store_n (&worker->since, g_get_monotonic_time (), __ATOMIC_RELAXED);
  __atomic_store_n (&worker->what, operations[i].name, __ATOMIC_RELEASE);
  operations[i].func (worker);
  __atomic_store_n (&worker->what, NULL, __ATOMIC_RELEASE);
  g_atomic_int_inc (&n_done);
}

/* A call that failed may have left its context behind. */
static void
leave_context (void)
{
  CUcontext popped;

  while (fake->get_context_stack_depth () > 0)
    cuCtxPopCurrent_v2 (&popped);
}

static gpointer
work (gpointer data)
{
  Worker *worker = data;

  while (cuCtxSetCurrent (worker->epoch->context) != FAKE_CUDA_SUCCESS)
    ;
  for (guint i = 0; i < OPERATIONS; i++)
    do_one (worker);
  leave_context ();
  return NULL;
}

/* Beside the workers */

/* Ends work now and then, as a device does. */
static gpointer
run_device (gpointer unused)
{
  (void) unused;
  while (!g_atomic_int_get (&is_over))
    {
      g_usleep (1000);
      fake->finish_all_work ();
    }
  return NULL;
}

static gpointer
watch (gpointer unused)
{
  (void) unused;
  while (!g_atomic_int_get (&is_over))
    {
      g_usleep (100 * 1000);
      for (gint i = 0; i < n_threads; i++)
        {
          const gchar *what = __atomic_load_n (&workers[i].what, __ATOMIC_ACQUIRE);
          gint64 since = __atomic_load_n (&workers[i].since, __ATOMIC_RELAXED);
          gint64 taken = g_get_monotonic_time () - since;

          if (what != NULL && taken > HANG)
            g_error ("seed %" G_GINT64_FORMAT ": thread %d: %s has taken %.1f s", seed, i, what,
                     (gdouble) taken / 1e6);
        }
    }
  return NULL;
}

/* Epochs */

static TarnAllocator *
allocator_new (const Epoch *epoch)
{
  TarnCudaDeviceOptions options = TARN_CUDA_DEVICE_OPTIONS_INIT;
  g_autoptr (TarnAllocator) direct = NULL;
  g_autoptr (GError) error = NULL;

  options.plain_memory = epoch->is_plain;
  direct = tarn_cuda_device_allocator_new_with_options (epoch->context, &options, &error);
  g_assert_no_error (error);
  return epoch->has_heap ? tarn_heap_allocator_new (direct, NULL, NULL) : g_steal_pointer (&direct);
}

static TarnPool *
pool_new (const Epoch *epoch, GRand *rand)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (GError) error = NULL;
  TarnPool *pool;

  options.debug = epoch->debug;
  options.limit_bytes = epoch->has_limit ? FIRST_LIMIT * MIB : 0;
  if (g_rand_int_range (rand, 0, 3) == 0)
    options.thread_cache_blocks = (guint) g_rand_int_range (rand, 0, 4);
  pool = tarn_pool_new (epoch->allocator, &options, &error);
  g_assert_no_error (error);
  return pool;
}

static gboolean
toss (GRand *rand)
{
  return g_rand_boolean (rand);
}

static void
begin_epoch (Epoch *epoch, gint64 number, GRand *rand)
{
  static const gchar *const debug[] = { "", "", "", "guards,poison", "check=100" };
  g_autoptr (TarnReclaimGroup) group = toss (rand) ? tarn_reclaim_group_new () : NULL;
  CUcontext popped;

  memset (epoch, 0, sizeof *epoch);
  epoch->number = number;
  epoch->has_heap = toss (rand);
  epoch->is_plain = toss (rand);
  epoch->has_limit = toss (rand);
  epoch->has_budget = g_rand_int_range (rand, 0, 3) == 0;
  epoch->fails = g_rand_int_range (rand, 0, 4) == 0;
  epoch->captures = g_rand_int_range (rand, 0, 4) == 0;
  epoch->debug = debug[g_rand_int_range (rand, 0, G_N_ELEMENTS (debug))];
  _tarn_mutex_init (&epoch->lock);
  fake->set_budget (0, epoch->has_budget ? BUDGET : G_MAXUINT64);
  g_assert_cmpuint (cuCtxCreate_v2 (&epoch->context, 0, 0), ==, FAKE_CUDA_SUCCESS);
  epoch->allocator = allocator_new (epoch);
  for (guint i = 0; i < N_POOLS; i++)
    {
      epoch->pools[i] = pool_new (epoch, rand);
      epoch->max_limit_mib[i] = FIRST_LIMIT;
      tarn_pool_set_reclaim_group (epoch->pools[i], group);
    }
  cuCtxPopCurrent_v2 (&popped);
  g_test_message ("epoch %" G_GINT64_FORMAT ":%s%s%s%s%s%s%s%s", number,
                  epoch->has_heap ? " heap" : "", epoch->is_plain ? " plain" : "",
                  epoch->has_limit ? " limit" : "", epoch->has_budget ? " budget" : "",
                  epoch->fails ? " fails" : "", epoch->captures ? " captures" : "",
                  group != NULL ? " group " : " ", epoch->debug);
}

static void
run_workers (Epoch *epoch)
{
  for (gint i = 0; i < n_threads; i++)
    {
      Worker *worker = &workers[i];

      worker->epoch = epoch;
      worker->number = (guint) i + 1;
      worker->rand = g_rand_new_with_seed ((guint32) (seed * 1000003 + epoch->number * 64 + i));
      worker->thread = g_thread_new ("worker", work, worker);
    }
  for (gint i = 0; i < n_threads; i++)
    g_thread_join (workers[i].thread);
}

static void
assert_within_limits (Epoch *epoch)
{
  for (guint i = 0; i < N_POOLS && epoch->has_limit; i++)
    g_assert_cmpuint (tarn_pool_get_managed_bytes (epoch->pools[i]), <=,
                      (gsize) g_atomic_int_get (&epoch->max_limit_mib[i]) * MIB);
}

/* Has nothing be in use, or on a stream. */
static void
quiesce (Epoch *epoch)
{
  for (gint i = 0; i < n_threads; i++)
    for (guint k = 0; k < N_SLOTS; k++)
      free_item (epoch, &workers[i].items[k]);
  for (guint i = 0; i < N_SHARED; i++)
    free_item (epoch, &epoch->shared[i]);
  fake->finish_all_work ();
  for (gint i = 0; i < n_threads; i++)
    end_checks (&workers[i]);
}

static void
assert_all_goes_back (Epoch *epoch)
{
  for (guint i = 0; i < N_POOLS; i++)
    {
      g_assert_cmpuint (tarn_pool_get_active_blocks (epoch->pools[i]), ==, 0);
      tarn_pool_free_held (epoch->pools[i]);
      if (!epoch->fails)
        g_assert_cmpuint (tarn_pool_get_managed_bytes (epoch->pools[i]), ==, 0);
    }
}

static void
end_epoch (Epoch *epoch)
{
  fake->fail (NULL, 0, FALSE, 0);
  g_assert_cmpuint (fake->get_calls_after_fork (), ==, 0);
  g_assert_cmpuint (cuCtxSetCurrent (epoch->context), ==, FAKE_CUDA_SUCCESS);
  assert_within_limits (epoch);
  quiesce (epoch);
  assert_all_goes_back (epoch);
  for (guint i = 0; i < N_POOLS; i++)
    tarn_pool_unref (epoch->pools[i]);
  tarn_allocator_unref (epoch->allocator);
  for (gint i = 0; i < n_threads; i++)
    {
      for (guint k = 0; k < N_STREAMS; k++)
        destroy_stream (&workers[i].streams[k]);
      g_rand_free (workers[i].rand);
    }
  leave_context ();
  _tarn_mutex_clear (&epoch->lock);
}

/* The context goes last: what was lost to calls that failed goes with it, but for virtual memory.
 */
static void
assert_nothing_is_left (const Epoch *epoch)
{
  static guint lost[FAKE_CUDA_N_KINDS];

  for (guint i = 0; i < FAKE_CUDA_N_KINDS && !epoch->fails; i++)
    if (i != TARN_TESTING_CUDA_CONTEXT && fake->get_live (i) != lost[i])
      g_error ("%u of kind %u are left: %s", fake->get_live (i) - lost[i], i,
               fake->describe_live ());
  g_assert_cmpuint (cuCtxDestroy_v2 (epoch->context), ==, FAKE_CUDA_SUCCESS);
  for (guint i = 0; i < FAKE_CUDA_N_KINDS; i++)
    lost[i] = fake->get_live (i);
  g_assert_cmpuint (lost[TARN_TESTING_CUDA_CONTEXT], ==, 0);
}

/* KiB that the process has in memory. */
static gulong
get_resident (void)
{
  g_autofree gchar *text = NULL;
  gulong pages = 0;

  if (g_file_get_contents ("/proc/self/statm", &text, NULL, NULL))
    sscanf (text, "%*u %lu", &pages);
  return pages * (gulong) sysconf (_SC_PAGESIZE) / 1024;
}

static void
run_epoch (gint64 number)
{
  GRand *rand = g_rand_new_with_seed ((guint32) (seed * 7919 + number));
  Epoch epoch;

  begin_epoch (&epoch, number, rand);
  run_workers (&epoch);
  end_epoch (&epoch);
  assert_nothing_is_left (&epoch);
  g_rand_free (rand);
}

/* Sanitizers and valgrind keep what was freed. */
static gboolean
is_watched (void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return TRUE;
#else
  const gchar *preloaded = g_getenv ("LD_PRELOAD");

  return preloaded != NULL && strstr (preloaded, "valgrind") != NULL;
#endif
}

static void
remove_folder (void)
{
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  const gchar *name;

  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree gchar *path = g_build_filename (folder, name, NULL);

      remove (path);
    }
  rmdir (folder);
}

static void
test_stress (void)
{
  gint64 start = g_get_monotonic_time (), end = start + seconds * G_TIME_SPAN_SECOND;
  GThread *device = g_thread_new ("device", run_device, NULL);
  GThread *watchdog = g_thread_new ("watchdog", watch, NULL);
  gulong resident = 0, most = 0;
  gint64 number = 0;

  for (; number == 0 || g_get_monotonic_time () < end; number++)
    {
      run_epoch (number);
      if (g_get_monotonic_time () < start + (end - start) / 2)
        resident = get_resident ();
      most = get_resident ();
    }
  tarn_trace_stop (NULL);
  g_atomic_int_set (&is_over, TRUE);
  g_thread_join (device);
  g_thread_join (watchdog);
  g_test_message ("seed %" G_GINT64_FORMAT ": %" G_GINT64_FORMAT
                  " epochs, %d operations, %d errors; %lu KiB, %lu KiB half way",
                  seed, number, n_done, n_errors, most, resident);
  if (resident > 0 && !is_watched ())
    g_assert_cmpuint (most, <=, 2 * resident + 64 * 1024);
}

/* Of calls that fail, say. */
static void
ignore_message (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer unused)
{
  (void) unused;
  if (shows_messages)
    g_printerr ("%s %d: %s\n", domain, (gint) level, message);
}

static void
read_options (int *argc, char ***argv)
{
  const GOptionEntry entries[]
      = { { "seed", 0, 0, G_OPTION_ARG_INT64, &seed, NULL, NULL },
          { "seconds", 0, 0, G_OPTION_ARG_INT, &seconds, NULL, NULL },
          { "threads", 0, 0, G_OPTION_ARG_INT, &n_threads, NULL, NULL },
          { "verbose-messages", 0, 0, G_OPTION_ARG_NONE, &shows_messages, NULL, NULL },
          { NULL } };
  GOptionContext *context = g_option_context_new (NULL);

  g_option_context_add_main_entries (context, entries, NULL);
  g_option_context_set_ignore_unknown_options (context, TRUE);
  g_option_context_set_help_enabled (context, FALSE);
  g_option_context_parse (context, argc, argv, NULL);
  g_option_context_free (context);
  n_threads = CLAMP (n_threads, 1, MAX_THREADS);
  if (seed < 0)
    seed = g_random_int_range (0, G_MAXINT);
}

int
main (int argc, char **argv)
{
  gint status;

  read_options (&argc, &argv);
  g_test_init (&argc, &argv, NULL);
  fake = tarn_fake_cuda ();
  tarn_clock_set (get_time);
  g_assert_cmpuint (cuInit (0), ==, FAKE_CUDA_SUCCESS);
  folder = g_dir_make_tmp ("tarn-stress-XXXXXX", NULL);
  g_assert_nonnull (folder);
  g_log_set_handler ("Tarn", G_LOG_LEVEL_MESSAGE, ignore_message, NULL);
  g_log_set_handler ("Tarn-CUDA", G_LOG_LEVEL_MESSAGE, ignore_message, NULL);
  g_test_add_func ("/cuda/stress", test_stress);
  status = g_test_run ();
  remove_folder ();
  return status;
}
