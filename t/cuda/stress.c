/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Threads that do all that a program may do, at random, on the fake CUDA driver:
 *
 *     stress.t [--seed=N] [--seconds=N] [--threads=N] [--verbose-messages]
 *
 * The run is divided into epochs.  Each has a context, pools and threads of its own, and leaves
 * nothing behind.  An epoch is divided into rounds.  Between two rounds no call is in flight.  The
 * test checks these things:
 *
 *     - each command finds what was written to its block before, and no two blocks in use overlap
 *     - a pool manages no more than its limit, and without a shared heap the driver has given it no
 *       more; a limit at what it manages is kept, and a request that fits in a raised one succeeds
 *     - between rounds, and after a request, a pool holds no more than TarnPoolOptions.hold_bytes
 *       allows
 *     - no call ends the capture of a stream
 *     - nothing that the driver has is left after an epoch, and the process does not grow
 *     - a child of fork () makes no pool and no heap, and frees nothing
 *     - no call hangs, and nothing is g_critical ()
 *
 * A seed repeats the epochs of a run, but not the run: threads run as the machine schedules them.
 */

#include <errno.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
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
#define ROUNDS 3                  /* of an epoch */
#define OPERATIONS 200            /* of a thread in a round */
#define FIRST_LIMIT 4             /* MiB of a pool */
#define BUDGET (24 * MIB)         /* of the device, where it is to run out */
#define NON_BLOCKING 1            /* CU_STREAM_NON_BLOCKING */
#define CAPTURE_MODES 3           /* CU_STREAM_CAPTURE_MODE_GLOBAL, _THREAD_LOCAL, _RELAXED */
#define GROWTH (4 * 1024)         /* KiB, by which the process may grow */
#define CHILD_SECONDS 60          /* in which a child of fork () ends */
#define HANG (G_TIME_SPAN_MINUTE) /* a call that takes as long */

static gint seconds = 3, n_threads = 4;
static gint64 seed = -1;
static gboolean shows_messages;

/* The most that a pool over a heap holds with the default hold_bytes, as <tarn/pool.h> has it, and
 * how much of that each thread may keep beside the rest. */
#define HOLD_BYTES (8 * MIB)
#define HOLD_SHARE 200
#define THREAD_BYTES (5 * MIB)

static const TarnTestingCuda *fake;

typedef struct
{
  TarnBlock *block; /* NULL: none */
  gsize size;
  gint pool;
  guint value; /* that all of it was written with; 0: nobody knows */
} Item;

/* A word that a command reads, and the value expected there. */
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

typedef enum
{
  NO_HEAP,
  SHARED_HEAP, /* of the pools */
  OWN_HEAPS    /* a pool's each: tarn_cuda_pool_new () */
} Heaps;

typedef enum
{
  FAILS_NEVER,
  FAILS_SOFTLY, /* only calls fail that lose nothing */
  FAILS_HARD    /* any call fails */
} Failing;

/* The settings of an epoch, and what it has. */
typedef struct
{
  gint64 number;
  CUcontext context;
  Heaps heaps;
  Failing failing;
  gboolean is_plain, has_limit, has_budget, captures, may_block;
  const gchar *debug;
  TarnAllocator *allocator;
  gsize lost_bytes; /* of the device, in epochs before */
  TarnPool *pools[N_POOLS];
  gsize hold_bytes[N_POOLS];   /* as in TarnPoolOptions */
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
  gboolean captures[N_STREAMS]; /* whether the stream is being captured */
  GSList *checks;               /* of Check */
  guint n_writes, number;

  const gchar *what; /* atomic, as is the next: what it is in the midst of; NULL: nothing */
  gint64 since;
};

static Worker workers[MAX_THREADS];
static gint is_over;          /* atomic: the threads beside the workers are to end */
static gint clock_ahead;      /* atomic: seconds */
static gchar *folder;         /* for recordings and snapshots */
static gint n_done, n_errors; /* atomic: operations, and requests that failed, */
static gint n_captures;       /* and captures */

/* Where workers wait until the next round begins. */
static struct
{
  TarnMutex lock; /* guards: */
  TarnCond changed;
  gint n_waiting;
  guint round;
} gate = { TARN_MUTEX_INIT, TARN_COND_INIT, 0, 0 };

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

/* Chooses a stream of the worker's own that lives and is not being captured; NULL: none. */
static CUstream *
choose_stream (Worker *worker)
{
  gint i = below (worker, N_STREAMS);

  return worker->streams[i] != NULL && !worker->captures[i] ? &worker->streams[i] : NULL;
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
  if (epoch->failing == FAILS_NEVER
      && !(epoch->captures && g_error_matches (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED))
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
  item->block = tarn_cuda_pool_allocate (epoch->pools[item->pool], item->size, *stream, &error);
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

/* Exchanges a block for one that another thread has put into the epoch's list, or for none. */
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

/* Moves a block, whoever has written it, to a stream of the worker's own. */
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

/* Lets a second stream read a block, after the commands on the first one. */
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
  guint flags = worker->epoch->may_block && one_in (worker, 2) ? 0 : NON_BLOCKING;

  if (*stream == NULL && cuStreamCreate (stream, flags) != FAKE_CUDA_SUCCESS)
    *stream = NULL;
}

static void
destroy_stream (CUstream *stream)
{
  while (*stream != NULL && cuStreamDestroy_v2 (*stream) != FAKE_CUDA_SUCCESS)
    ;
  *stream = NULL;
}

/* Forgets and destroys a stream that may have work; its blocks live on. */
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

static gsize
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

/* Children of fork () */

/* Tells whether a child may make errors while no other thread of the parent makes any: GLib before
 * 2.76 allocates them with g_slice_alloc (), whose lock a thread may have held for good. */
static gboolean
may_make_errors (void)
{
  const gchar *slice = g_getenv ("G_SLICE");

  return glib_check_version (2, 76, 0) == NULL
         || (slice != NULL && strstr (slice, "always-malloc") != NULL);
}

/* Exits with @status unless a call has failed, with an error if it was asked for one. */
static void
exit_unless_refused (gconstpointer made, GError **error, gint status)
{
  if (made != NULL || (error != NULL && !g_error_matches (*error, TARN_ERROR, TARN_ERROR_FORKED)))
    _exit (status);
  if (error != NULL)
    g_clear_error (error);
}

static void
make_in_child (const Epoch *epoch, gboolean has_errors)
{
  GError *error = NULL, **to = has_errors ? &error : NULL;

  exit_unless_refused (tarn_pool_new (epoch->allocator, NULL, to), to, 1);
  exit_unless_refused (tarn_heap_allocator_new (epoch->allocator, NULL, to), to, 2);
  exit_unless_refused (tarn_cuda_pool_new (epoch->context, NULL, to), to, 3);
  exit_unless_refused (tarn_cuda_device_allocator_new (epoch->context, to), to, 4);
  exit_unless_refused (tarn_cuda_pool_allocate (epoch->pools[0], 1000, NULL, to), to, 5);
}

/* Calls functions that free, which do nothing in a child. */
static void
free_in_child (Worker *worker)
{
  const Epoch *epoch = worker->epoch;
  gsize managed[N_POOLS], held[N_POOLS];

  for (guint i = 0; i < N_POOLS; i++)
    {
      managed[i] = tarn_pool_get_managed_bytes (epoch->pools[i]);
      held[i] = tarn_pool_get_held_blocks (epoch->pools[i]);
    }
  for (guint i = 0; i < N_SLOTS; i++)
    tarn_block_free (worker->items[i].block);
  for (guint i = 0; i < N_POOLS; i++)
    {
      tarn_pool_free_held (epoch->pools[i]);
      tarn_pool_trim (epoch->pools[i], 0);
      if (managed[i] != tarn_pool_get_managed_bytes (epoch->pools[i])
          || held[i] != tarn_pool_get_held_blocks (epoch->pools[i]))
        _exit (6);
    }
  tarn_pool_unref (epoch->pools[1]);
}

static void
run_child (Worker *worker, gboolean has_errors)
{
  gint status = 0;
  pid_t child = fork ();

  if (child == 0)
    {
      alarm (CHILD_SECONDS);
      make_in_child (worker->epoch, has_errors);
      free_in_child (worker);
      _exit (0);
    }
  g_assert_cmpint (child, >, 0);
  while (waitpid (child, &status, 0) < 0)
    g_assert_cmpint (errno, ==, EINTR);
  if (status != 0)
    g_error ("a child of fork () ended with status 0x%x", (guint) status);
}

/* Forks while other threads may be in any call, even in one that makes an error. */
static void
fork_child (Worker *worker)
{
  if (one_in (worker, 10))
    run_child (worker, FALSE);
}

/* Captures */

/* Ends a capture, whatever fails. */
static guint
end_capture_hard (CUstream stream, CUgraph *graph)
{
  unsigned int is_capturing = 1;
  guint status = FAKE_CUDA_SUCCESS;

  while (is_capturing != 0)
    {
      status = cuStreamEndCapture (stream, graph);
      while (cuStreamIsCapturing (stream, &is_capturing) != FAKE_CUDA_SUCCESS)
        ;
    }
  return status;
}

static void
end_capture (const Worker *worker, CUstream stream, guint mode)
{
  gboolean is_hard = worker->epoch->failing == FAILS_HARD;
  CUgraph graph = NULL;
  guint status = is_hard ? end_capture_hard (stream, &graph) : cuStreamEndCapture (stream, &graph);

  if (status != FAKE_CUDA_SUCCESS && !is_hard)
    g_error ("some call has ended a capture in mode %u: %u", mode, status);
  while (graph != NULL && cuGraphDestroy (graph) != FAKE_CUDA_SUCCESS)
    ;
}

/* Allocates for a stream that is being captured, without a command there. */
static void
allocate_in_capture (Worker *worker, CUstream stream)
{
  Item *item = &worker->items[below (worker, N_SLOTS)];
  GError *error = NULL;

  free_item (worker->epoch, item);
  item->size = one_in (worker, 2) ? 4096 : sizeof item->value + choose_size (worker);
  item->value = 0;
  item->pool = below (worker, N_POOLS);
  item->block
      = tarn_cuda_pool_allocate (worker->epoch->pools[item->pool], item->size, stream, &error);
  if (item->block != NULL)
    add_range (worker->epoch, item->block, item->size);
  else
    note_error (worker, error);
}

/* Has a stream that is being captured use a block, too. */
static void
record_in_capture (Worker *worker, CUstream stream)
{
  Item *item = choose_item (worker);
  GError *error = NULL;

  if (item != NULL && !tarn_cuda_block_record_use (item->block, stream, &error))
    note_error (worker, error);
}

/* Makes calls that fail during a capture, because they need the driver, or because their wait would
 * become part of the graph.  They succeed if the pool has never met the stream, or if the block is
 * the stream's. */
static void
be_refused_in_capture (Worker *worker, CUstream stream)
{
  Item *item = choose_item (worker);
  gint i = below (worker, N_POOLS);

  tarn_cuda_pool_forget_stream (worker->epoch->pools[i], stream, NULL);
  if (item != NULL)
    tarn_cuda_block_move_to_stream (item->block, stream, NULL);
}

static void do_one (Worker *worker);

/* Captures a stream of the worker's.  No command is put on it meanwhile, but the worker does
 * anything else. */
static void
capture (Worker *worker)
{
  static void (*const acts[]) (Worker *, CUstream)
      = { allocate_in_capture, allocate_in_capture, record_in_capture, be_refused_in_capture };
  const CUstream *stream = choose_stream (worker);
  guint mode = (guint) below (worker, CAPTURE_MODES);

  if (!worker->epoch->captures || stream == NULL
      || cuStreamBeginCapture_v2 (*stream, mode) != FAKE_CUDA_SUCCESS)
    return;
  worker->captures[stream - worker->streams] = TRUE;
  for (gint i = below (worker, 16); i > 0; i--)
    {
      if (one_in (worker, 2))
        do_one (worker);
      else
        acts[below (worker, G_N_ELEMENTS (acts))](worker, *stream);
    }
  worker->captures[stream - worker->streams] = FALSE;
  end_capture (worker, *stream, mode);
  g_atomic_int_inc (&n_captures);
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

static void
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
static void
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

static void
wait_for_workers (void)
{
  _tarn_mutex_lock (&gate.lock);
  while (gate.n_waiting < n_threads)
    _tarn_cond_wait (&gate.changed, &gate.lock);
  gate.n_waiting = 0;
  _tarn_mutex_unlock (&gate.lock);
}

static void
begin_next_round (void)
{
  _tarn_mutex_lock (&gate.lock);
  gate.round++;
  _tarn_cond_broadcast (&gate.changed);
  _tarn_mutex_unlock (&gate.lock);
}

static gpointer
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
  return epoch->heaps == SHARED_HEAP ? tarn_heap_allocator_new (direct, NULL, NULL)
                                     : g_steal_pointer (&direct);
}

static TarnPool *
pool_new (const Epoch *epoch, gsize hold_bytes, GRand *rand)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (GError) error = NULL;
  TarnPool *pool;

  options.hold_bytes = hold_bytes;
  options.debug = epoch->debug;
  options.limit_bytes = epoch->has_limit ? FIRST_LIMIT * MIB : 0;
  if (g_rand_int_range (rand, 0, 3) == 0)
    options.thread_cache_blocks = (guint) g_rand_int_range (rand, 0, 4);
  pool = epoch->heaps == OWN_HEAPS ? tarn_cuda_pool_new (epoch->context, &options, &error)
                                   : tarn_pool_new (epoch->allocator, &options, &error);
  g_assert_no_error (error);
  return pool;
}

static gboolean
toss (GRand *rand)
{
  return g_rand_boolean (rand);
}

static void
choose_epoch (Epoch *epoch, GRand *rand)
{
  static const gchar *const debug[] = { "", "", "", "guards,poison", "check=100" };
  static const Failing failing[]
      = { FAILS_NEVER, FAILS_NEVER, FAILS_NEVER, FAILS_NEVER, FAILS_SOFTLY, FAILS_HARD };

  epoch->heaps = (Heaps) g_rand_int_range (rand, NO_HEAP, OWN_HEAPS + 1);
  epoch->is_plain = epoch->heaps != OWN_HEAPS && toss (rand);
  epoch->has_limit = toss (rand);
  epoch->has_budget = g_rand_int_range (rand, 0, 3) == 0;
  epoch->failing = failing[g_rand_int_range (rand, 0, G_N_ELEMENTS (failing))];
  epoch->captures = toss (rand);
  epoch->debug = debug[g_rand_int_range (rand, 0, G_N_ELEMENTS (debug))];
  /* Guards are read on the legacy stream, which ends a capture of a blocking stream that begins at
   * that moment. */
  epoch->may_block = strstr (epoch->debug, "guards") == NULL && toss (rand);
}

static void
make_pools (Epoch *epoch, TarnReclaimGroup *group, GRand *rand)
{
  static const gsize hold_bytes[] = { 0, 0, 0, 1, 64 * KIB, MIB, 4 * MIB, G_MAXSIZE };

  epoch->allocator = allocator_new (epoch);
  for (guint i = 0; i < N_POOLS; i++)
    {
      epoch->hold_bytes[i] = hold_bytes[g_rand_int_range (rand, 0, G_N_ELEMENTS (hold_bytes))];
      epoch->pools[i] = pool_new (epoch, epoch->hold_bytes[i], rand);
      epoch->max_limit_mib[i] = FIRST_LIMIT;
      tarn_pool_set_reclaim_group (epoch->pools[i], group);
    }
}

/* Counts the bytes that the driver has given. */
static gsize
count_given (void)
{
  return (gsize) (fake->get_live_bytes (TARN_TESTING_CUDA_DEVICE_MEMORY)
                  + fake->get_live_bytes (TARN_TESTING_CUDA_BACKING));
}

static void
begin_epoch (Epoch *epoch, gint64 number, GRand *rand)
{
  static const gchar *const heaps[] = { "", " heap", " heaps" };
  static const gchar *const failing[] = { "", " fails softly", " fails" };
  g_autoptr (TarnReclaimGroup) group = toss (rand) ? tarn_reclaim_group_new () : NULL;
  CUcontext popped;

  memset (epoch, 0, sizeof *epoch);
  epoch->number = number;
  epoch->lost_bytes = count_given ();
  choose_epoch (epoch, rand);
  _tarn_mutex_init (&epoch->lock);
  fake->set_budget (0, epoch->has_budget ? epoch->lost_bytes + BUDGET : G_MAXUINT64);
  g_assert_cmpuint (cuCtxCreate_v2 (&epoch->context, 0, 0), ==, FAKE_CUDA_SUCCESS);
  make_pools (epoch, group, rand);
  cuCtxPopCurrent_v2 (&popped);
  g_test_message ("epoch %" G_GINT64_FORMAT ":%s%s%s%s%s%s%s%s hold=%zd,%zd %s", number,
                  heaps[epoch->heaps], epoch->is_plain ? " plain" : "",
                  epoch->has_limit ? " limit" : "", epoch->has_budget ? " budget" : "",
                  failing[epoch->failing], epoch->captures ? " captures" : "",
                  epoch->may_block ? " blocking" : "", group != NULL ? " group" : "",
                  (gssize) epoch->hold_bytes[0], (gssize) epoch->hold_bytes[1], epoch->debug);
}

/* What is true while no call is in flight */

/* A heap takes virtual memory up to the limit rounded up to the driver's granularity. */
static void
assert_within_limits (Epoch *epoch)
{
  gsize most = epoch->heaps == OWN_HEAPS ? N_POOLS * FAKE_CUDA_GRANULARITY : 0;

  for (gint i = 0; i < N_POOLS && epoch->has_limit; i++)
    {
      g_assert_cmpuint (tarn_pool_get_managed_bytes (epoch->pools[i]), <=,
                        get_highest_limit (epoch, i));
      most += get_highest_limit (epoch, i);
    }
  if (epoch->has_limit && epoch->heaps != SHARED_HEAP && epoch->failing == FAILS_NEVER)
    g_assert_cmpuint (count_given () - epoch->lost_bytes, <=, most);
}

/* Gets the most bytes that a pool may hold. */
static gsize
get_hold_bound (const Epoch *epoch, guint pool)
{
  gsize managed = tarn_pool_get_managed_bytes (epoch->pools[pool]);

  if (epoch->hold_bytes[pool] != 0)
    return epoch->hold_bytes[pool];
  if (epoch->heaps == NO_HEAP)
    return G_MAXSIZE;
  return MAX (HOLD_BYTES, managed / HOLD_SHARE) + ((gsize) n_threads + 1) * THREAD_BYTES;
}

/* Makes a request for each stream.  Only then a pool can record an event for memory that was freed
 * while the stream was being captured. */
static void
name_streams (TarnPool *pool)
{
  for (gint i = 0; i < n_threads; i++)
    for (guint k = 0; k < N_STREAMS; k++)
      if (workers[i].streams[k] != NULL)
        tarn_block_free (tarn_cuda_pool_allocate (pool, 5 * MIB, workers[i].streams[k], NULL));
}

/* Checks that a pool holds no more than it may.  First it makes the pool ask the driver what is
 * done: by a request for a new stream, and by forgetting that. */
static void
assert_holds_little (const Epoch *epoch, guint i)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  CUstream stream = NULL;

  if (epoch->captures)
    name_streams (epoch->pools[i]);
  g_assert_cmpuint (cuStreamCreate (&stream, NON_BLOCKING), ==, FAKE_CUDA_SUCCESS);
  tarn_block_free (tarn_cuda_pool_allocate (epoch->pools[i], 20000, stream, NULL));
  g_assert_true (tarn_cuda_pool_forget_stream (epoch->pools[i], stream, NULL));
  destroy_stream (&stream);
  tarn_pool_get_stats (epoch->pools[i], &stats);
  if (stats.held_bytes > get_hold_bound (epoch, i))
    g_error ("pool %u holds %" G_GSIZE_FORMAT " bytes, and may hold %" G_GSIZE_FORMAT, i,
             (gsize) stats.held_bytes, get_hold_bound (epoch, i));
}

/* Ends the test if a request at a limit got a wrong answer. */
static void
check_answer (const Epoch *epoch, TarnBlock *block, GError *error, gboolean may_be_limited)
{
  if (block == NULL
      && !(epoch->has_budget && g_error_matches (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY))
      && !(may_be_limited && g_error_matches (error, TARN_ERROR, TARN_ERROR_LIMIT)))
    g_error ("a request %s: %s", may_be_limited ? "at the limit" : "in a raised limit",
             error->message);
  g_clear_error (&error);
  tarn_block_free (block);
}

/* Checks that a pool keeps to a limit of what it has now, and serves a request once the limit is
 * raised. */
static void
check_limit (Epoch *epoch, gint i)
{
  gsize limit = MAX (tarn_pool_get_managed_bytes (epoch->pools[i]), 1), size = 3 * MIB + 1;
  GError *error = NULL;
  TarnBlock *block;

  tarn_pool_set_limit_bytes (epoch->pools[i], limit);
  block = tarn_cuda_pool_allocate (epoch->pools[i], size, NULL, &error);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (epoch->pools[i]), <=, limit);
  check_answer (epoch, block, g_steal_pointer (&error), TRUE);
  limit = MAX (limit, count_given ()) + 16 * MIB;
  tarn_pool_set_limit_bytes (epoch->pools[i], limit);
  block = tarn_cuda_pool_allocate (epoch->pools[i], size, NULL, &error);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (epoch->pools[i]), <=, limit);
  check_answer (epoch, block, error, FALSE);
}

/* Checks what is true between two rounds.  Where calls have failed, memory may be lost, or held
 * because nobody can tell whether it is still used. */
static void
check_quiet (Epoch *epoch, gboolean is_last)
{
  fake->fail (NULL, 0, FALSE, 0);
  g_assert_cmpuint (cuCtxSetCurrent (epoch->context), ==, FAKE_CUDA_SUCCESS);
  assert_within_limits (epoch);
  fake->finish_all_work ();
  for (gint i = 0; i < N_POOLS && epoch->failing == FAILS_NEVER; i++)
    assert_holds_little (epoch, (guint) i);
  assert_within_limits (epoch);
  for (gint i = 0; i < N_POOLS && epoch->failing == FAILS_NEVER && is_last; i++)
    check_limit (epoch, i);
  tarn_debug_check ();
  run_child (&workers[0], may_make_errors ());
  leave_context ();
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
  for (guint round = 0; round < ROUNDS; round++)
    {
      wait_for_workers ();
      check_quiet (epoch, round == ROUNDS - 1);
      begin_next_round ();
    }
  for (gint i = 0; i < n_threads; i++)
    g_thread_join (workers[i].thread);
}

/* Frees all blocks, and ends all commands on streams. */
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
      if (epoch->failing != FAILS_HARD)
        g_assert_cmpuint (tarn_pool_get_managed_bytes (epoch->pools[i]), ==, 0);
    }
}

static void
end_epoch (Epoch *epoch)
{
  g_assert_cmpuint (fake->get_calls_after_fork (), ==, 0);
  g_assert_cmpuint (cuCtxSetCurrent (epoch->context), ==, FAKE_CUDA_SUCCESS);
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

/* Checks that nothing is left after an epoch.  Memory that was lost to failed calls goes with the
 * context, except virtual memory. */
static void
assert_nothing_is_left (const Epoch *epoch)
{
  static guint lost[FAKE_CUDA_N_KINDS];

  for (guint i = 0; i < FAKE_CUDA_N_KINDS && epoch->failing != FAILS_HARD; i++)
    if (i != TARN_TESTING_CUDA_CONTEXT && fake->get_live (i) != lost[i])
      g_error ("%u of kind %u are left: %s", fake->get_live (i) - lost[i], i,
               fake->describe_live ());
  g_assert_cmpuint (cuCtxDestroy_v2 (epoch->context), ==, FAKE_CUDA_SUCCESS);
  for (guint i = 0; i < FAKE_CUDA_N_KINDS; i++)
    lost[i] = fake->get_live (i);
  g_assert_cmpuint (lost[TARN_TESTING_CUDA_CONTEXT], ==, 0);
}

/* Gets the KiB that the process has in memory, without what malloc () keeps. */
static gulong
get_resident (void)
{
  g_autofree gchar *text = NULL;
  gulong pages = 0;

#ifdef __GLIBC__
  malloc_trim (0);
#endif
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
  g_test_message (
      "seed %" G_GINT64_FORMAT ": %" G_GINT64_FORMAT
      " epochs, %d operations, %d errors, %d captures; %lu KiB, %lu KiB half way, %" G_GSIZE_FORMAT
      " KiB of the device lost to calls that failed",
      seed, number, n_done, n_errors, n_captures, most, resident, count_given () / 1024);
  if (resident > 0 && !is_watched ())
    g_assert_cmpuint (most, <=, resident + GROWTH + count_given () / 1024);
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
          { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL } };
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

#ifdef __GLIBC__
  mallopt (M_ARENA_MAX, 1); /* others than the first keep what was freed */
#endif
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
