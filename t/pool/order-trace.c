/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Random operations on a pool and its queues, by one thread and by several: the fake sees whether
 * any memory is used, or freed, before those who had it before are done.  --seed=SEED, as it is
 * printed, brings the run of one thread back. */

#include <tarn/testing.h>

#include "common/lock-private.h"
#include "lib/conformance.h"
#include "pool/pool-private.h"

#define N_QUEUES 6
#define N_BLOCKS 24
#define N_OPERATIONS 20000

/* A few bins, so that blocks are found again. */
static const gsize sizes[] = { 31, 1000, 49151, 57343, 61439, 65535 };

typedef struct
{
  TarnBlock *block;
  gpointer queue;      /* that it was allocated for or moved to; NULL: the host */
  gboolean is_orphan;  /* the queue is gone */
  guint value;         /* that was written */
  gboolean is_checked; /* the queue keeps to the order in which it is written and checked */
} Live;

typedef struct
{
  gpointer handle;
  gboolean in_order;
} Queue;

typedef struct
{
  TarnTestingQueues *queues;
  TarnPool *pool;
  GRand *rand;
  guint flags;
  gboolean has_fresh; /* a queue of the allocator's: then each request names one */
  Queue all[N_QUEUES];
  guint n_queues;
  Live live[N_BLOCKS];
  guint n_writes;
  guint64 n_requests, n_forgotten, n_failed;
} Trace;

static guint
below (Trace *trace, guint end)
{
  return (guint) g_rand_int_range (trace->rand, 0, (gint32) end);
}

static Queue *
random_queue (Trace *trace)
{
  return &trace->all[below (trace, trace->n_queues)];
}

static Live *
random_live (Trace *trace)
{
  return &trace->live[below (trace, N_BLOCKS)];
}

/* The owner has changed: whoever it is writes. */
static void
begin_use (Trace *trace, Live *live, const Queue *queue)
{
  TarnMemory memory = tarn_block_get_memory (live->block);

  live->queue = queue != NULL ? queue->handle : NULL;
  live->is_orphan = FALSE;
  live->is_checked = queue != NULL && queue->in_order;
  live->value = ++trace->n_writes;
  tarn_testing_queues_own (trace->queues, memory);
  if (queue != NULL)
    tarn_testing_queue_put (trace->queues, queue->handle, memory, TARN_TESTING_COMMAND_WRITE,
                            live->value);
  else
    tarn_testing_queues_touch (trace->queues, memory);
}

static void
allocate_for (Trace *trace, Live *live, const Queue *queue)
{
  gsize size = sizes[below (trace, G_N_ELEMENTS (sizes))];
  g_autoptr (GError) error = NULL;

  trace->n_requests++;
  live->block = tarn_pool_allocate_ordered (trace->pool, size, queue != NULL ? queue->handle : NULL,
                                            &error);
  if (live->block != NULL)
    begin_use (trace, live, queue);
  else
    {
      g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
      trace->n_failed++;
    }
}

static void
free_one (Live *live)
{
  tarn_block_free (g_steal_pointer (&live->block));
}

/* The owner has the other queue wait, as it must, and so this queue must be there. */
static void
record (Trace *trace, Live *live, const Queue *queue)
{
  g_autoptr (GError) error = NULL;

  if (live->is_orphan)
    return;
  if (live->queue != NULL)
    tarn_testing_queue_follow (trace->queues, queue->handle, live->queue);
  g_assert_true (tarn_block_record_use (live->block, queue->handle, &error));
  tarn_testing_queue_put (trace->queues, queue->handle, tarn_block_get_memory (live->block),
                          TARN_TESTING_COMMAND_USE, 0);
}

static void
move (Trace *trace, Live *live, const Queue *queue)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (queue != NULL ? tarn_block_move_to_queue (live->block, queue->handle, &error)
                               : tarn_block_wait (live->block, &error));
  g_assert_no_error (error);
  begin_use (trace, live, queue);
}

static void
use_again (Trace *trace, Live *live)
{
  if (live->queue != NULL && !live->is_orphan)
    tarn_testing_queue_put (
        trace->queues, live->queue, tarn_block_get_memory (live->block),
        live->is_checked ? TARN_TESTING_COMMAND_CHECK : TARN_TESTING_COMMAND_USE, live->value);
}

static void
operate_on_live (Trace *trace, Live *live)
{
  guint kind = below (trace, 20);

  if (kind < 10)
    free_one (live);
  else if (kind < 14)
    use_again (trace, live);
  else if (kind < 18)
    record (trace, live, random_queue (trace));
  else
    move (trace, live, kind == 18 ? random_queue (trace) : NULL);
}

/* A queue ends, and another one begins.  Where queues are retained it need not be forgotten. */
static void
replace_queue (Trace *trace, Queue *queue)
{
  g_autoptr (GError) error = NULL;

  if ((trace->flags & TARN_TESTING_QUEUES_RECORDS_ALL) != 0 || below (trace, 2) == 0)
    g_assert_true (tarn_pool_forget_queue (trace->pool, queue->handle, &error));
  for (guint i = 0; i < N_BLOCKS; i++)
    if (trace->live[i].queue == queue->handle)
      trace->live[i].is_orphan = TRUE;
  tarn_testing_queue_destroy (trace->queues, queue->handle);
  queue->in_order = below (trace, 3) != 0;
  queue->handle = tarn_testing_queue_new (trace->queues, queue->in_order);
  trace->n_forgotten++;
}

static void
change_budget (Trace *trace)
{
  TarnTestingDevice *device = tarn_testing_queues_get_device (trace->queues);

  tarn_testing_device_set_budget (device, below (trace, 2) == 0 ? G_MAXUINT64 : 600000);
}

/* The allocator's queue is the last one, and stays. */
static void
operate_on_pool (Trace *trace)
{
  guint kind = below (trace, 4);

  if (kind == 0)
    tarn_pool_free_held (trace->pool);
  else if (kind == 1)
    change_budget (trace);
  else
    replace_queue (trace, &trace->all[below (trace, trace->n_queues - (trace->has_fresh ? 1 : 0))]);
}

static void
operate (Trace *trace)
{
  Live *live = random_live (trace);
  guint kind = below (trace, 1000);

  if (kind < 12)
    operate_on_pool (trace);
  else if (kind < 300)
    tarn_testing_queues_run_one (trace->queues);
  else if (live->block != NULL)
    operate_on_live (trace, live);
  else
    allocate_for (trace, live, kind < 320 && !trace->has_fresh ? NULL : random_queue (trace));
}

/* Whether the last one is in order is what decides that the allocator's queue is. */
static Trace *
trace_new (guint n_queues, guint flags, gboolean has_fresh)
{
  Trace *trace = g_new0 (Trace, 1);
  g_autoptr (TarnAllocator) allocator = NULL;

  trace->queues = tarn_testing_queues_new (G_MAXUINT64, flags);
  trace->rand = g_rand_new_with_seed ((guint32) g_test_rand_int ());
  trace->flags = flags;
  trace->has_fresh = has_fresh;
  allocator = tarn_testing_queues_allocator_new (trace->queues);
  trace->pool = tarn_pool_new (allocator, NULL, NULL);
  trace->n_queues = n_queues;
  for (guint i = 0; i < n_queues; i++)
    {
      trace->all[i].in_order = n_queues == 1 || below (trace, 3) != 0;
      trace->all[i].handle = tarn_testing_queue_new (trace->queues, trace->all[i].in_order);
    }
  if (has_fresh)
    tarn_testing_queues_set_fresh (trace->queues, trace->all[n_queues - 1].handle);
  return trace;
}

static void
assert_no_fault (TarnTestingQueues *queues, guint operation)
{
  g_autofree gchar *fault = tarn_testing_queues_steal_fault (queues);

  if (fault != NULL)
    g_error ("operation %u: %s", operation, fault);
}

static void
compare_stats (Trace *trace)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;

  tarn_pool_get_stats (trace->pool, &stats);
  g_assert_cmpuint (stats.hits + stats.misses + stats.failures, ==, trace->n_requests);
  g_assert_cmpuint (stats.failures, ==, trace->n_failed);
  g_test_message ("%" G_GUINT64_FORMAT " hits, %" G_GUINT64_FORMAT " misses, %" G_GUINT64_FORMAT
                  " failures, %" G_GUINT64_FORMAT " waits, %u for the host, %" G_GUINT64_FORMAT
                  " queues replaced",
                  stats.hits, stats.misses, stats.failures, stats.queue_waits,
                  tarn_testing_queues_get_calls (trace->queues, TARN_TESTING_CALL_HOST_WAIT),
                  trace->n_forgotten);
  g_assert_cmpuint (stats.hits, >, trace->n_requests / 10);
  g_assert_cmpuint (stats.queue_waits, >, 0);
}

/* Half of the blocks outlive the pool. */
static void
trace_free (Trace *trace)
{
  for (guint i = 0; i < N_BLOCKS; i++)
    {
      if (i == N_BLOCKS / 2)
        tarn_pool_unref (trace->pool);
      free_one (&trace->live[i]);
    }
  tarn_testing_queues_run_all (trace->queues);
  tarn_testing_queues_free (trace->queues);
  g_rand_free (trace->rand);
  g_free (trace);
}

static void
run_trace (guint n_queues, guint flags, gboolean has_fresh, guint n_operations)
{
  Trace *trace = trace_new (n_queues, flags, has_fresh);

  for (guint i = 0; i < n_operations; i++)
    {
      operate (trace);
      assert_valid (trace->pool);
      assert_no_fault (trace->queues, i);
    }
  compare_stats (trace);
  if (n_operations == N_OPERATIONS)
    g_assert_cmpuint (trace->n_failed, >, 0);
  trace_free (trace);
}

static void
test_trace (gconstpointer flags)
{
  for (guint n_queues = 1; n_queues <= N_QUEUES; n_queues++)
    run_trace (n_queues, GPOINTER_TO_UINT (flags), FALSE, N_OPERATIONS / N_QUEUES);
  run_trace (N_QUEUES, GPOINTER_TO_UINT (flags), FALSE, N_OPERATIONS);
}

static void
test_trace_fresh (gconstpointer flags)
{
  run_trace (N_QUEUES, GPOINTER_TO_UINT (flags), TRUE, N_OPERATIONS);
}

/* Threads: each has queues of its own, and what one allocates another one frees. */

#define N_THREADS 8
#define N_EXCHANGED 16
#define N_ROUNDS 2000

/* Room for all blocks that there can be at a time, were they of the greatest size. */
#define THREADS_BUDGET ((N_EXCHANGED + N_THREADS) * 65535)

typedef struct
{
  TarnTestingQueues *queues;
  TarnPool *pool;
  TarnMutex lock; /* guards what stands below it */
  TarnBlock *exchanged[N_EXCHANGED];
} Shared;

typedef struct
{
  Shared *shared;
  GRand *rand;
  guint number;
  Queue own[2]; /* the second one is out of order */
} Worker;

static guint
worker_below (Worker *worker, guint end)
{
  return (guint) g_rand_int_range (worker->rand, 0, (gint32) end);
}

/* Leaves a block to whoever comes next, and takes one, or NULL. */
static TarnBlock *
exchange (Worker *worker, TarnBlock *block)
{
  TarnBlock **place = &worker->shared->exchanged[worker_below (worker, N_EXCHANGED)];
  TarnBlock *other;

  _tarn_mutex_lock (&worker->shared->lock);
  other = *place;
  *place = block;
  _tarn_mutex_unlock (&worker->shared->lock);
  return other;
}

static TarnBlock *
worker_allocate (Worker *worker, const Queue *queue)
{
  gsize size = sizes[worker_below (worker, G_N_ELEMENTS (sizes))];
  gpointer handle = queue != NULL ? queue->handle : NULL;
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_pool_allocate_ordered (worker->shared->pool, size, handle, &error);

  g_assert_no_error (error);
  tarn_testing_queues_own (worker->shared->queues, tarn_block_get_memory (block));
  return block;
}

/* Two commands of an in-order queue: nobody writes in between. */
static void
write_and_check (Worker *worker, TarnBlock *block, const Queue *queue, guint value)
{
  TarnMemory memory = tarn_block_get_memory (block);

  tarn_testing_queue_put (worker->shared->queues, queue->handle, memory, TARN_TESTING_COMMAND_WRITE,
                          value);
  if (queue->in_order)
    tarn_testing_queue_put (worker->shared->queues, queue->handle, memory,
                            TARN_TESTING_COMMAND_CHECK, value);
}

static void
use_other_queue (Worker *worker, TarnBlock *block, const Queue *first, const Queue *other)
{
  tarn_testing_queue_follow (worker->shared->queues, other->handle, first->handle);
  g_assert_true (tarn_block_record_use (block, other->handle, NULL));
  tarn_testing_queue_put (worker->shared->queues, other->handle, tarn_block_get_memory (block),
                          TARN_TESTING_COMMAND_USE, 0);
}

static void
allocate_and_exchange (Worker *worker, guint round)
{
  guint i = worker_below (worker, 2);
  gboolean is_hosts = worker_below (worker, 16) == 0;
  TarnBlock *block = worker_allocate (worker, is_hosts ? NULL : &worker->own[i]);

  if (is_hosts)
    tarn_testing_queues_touch (worker->shared->queues, tarn_block_get_memory (block));
  else
    {
      write_and_check (worker, block, &worker->own[i], round * N_THREADS + worker->number);
      if (worker_below (worker, 4) == 0)
        use_other_queue (worker, block, &worker->own[i], &worker->own[1 - i]);
    }
  tarn_block_free (exchange (worker, block));
}

/* Blocks that others have may still be used there: the queue is retained. */
static void
worker_replace_queue (Worker *worker)
{
  Queue *queue = &worker->own[worker_below (worker, 2)];

  tarn_testing_queue_destroy (worker->shared->queues, queue->handle);
  queue->handle = tarn_testing_queue_new (worker->shared->queues, queue->in_order);
}

static gpointer
work (gpointer data)
{
  Worker *worker = data;

  for (guint i = 0; i < N_ROUNDS; i++)
    {
      allocate_and_exchange (worker, i);
      for (guint n = worker_below (worker, 4); n > 0; n--)
        tarn_testing_queues_run_one (worker->shared->queues);
      if (worker_below (worker, 100) == 0)
        tarn_pool_free_held (worker->shared->pool);
      if (worker_below (worker, 200) == 0)
        worker_replace_queue (worker);
    }
  return NULL;
}

static void
worker_init (Worker *worker, Shared *shared, guint number)
{
  worker->shared = shared;
  worker->number = number;
  worker->rand = g_rand_new_with_seed ((guint32) g_test_rand_int ());
  for (guint i = 0; i < 2; i++)
    {
      worker->own[i].in_order = i == 0;
      worker->own[i].handle = tarn_testing_queue_new (shared->queues, i == 0);
    }
}

static void
shared_clear (Shared *shared)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;

  assert_no_fault (shared->queues, 0);
  for (guint i = 0; i < N_EXCHANGED; i++)
    tarn_block_free (shared->exchanged[i]);
  assert_valid (shared->pool);
  tarn_pool_get_stats (shared->pool, &stats);
  g_test_message ("%" G_GUINT64_FORMAT " hits, %" G_GUINT64_FORMAT " misses, %" G_GUINT64_FORMAT
                  " waits, %" G_GUINT64_FORMAT " times out of memory",
                  stats.hits, stats.misses, stats.queue_waits, stats.reclaims);
  g_assert_cmpuint (stats.hits + stats.misses, ==, N_THREADS * N_ROUNDS);
  tarn_pool_unref (shared->pool);
  tarn_testing_queues_run_all (shared->queues);
  tarn_testing_queues_free (shared->queues);
  _tarn_mutex_clear (&shared->lock);
}

static void
test_threads (gconstpointer flags)
{
  Shared shared = { .queues = tarn_testing_queues_new (THREADS_BUDGET, GPOINTER_TO_UINT (flags)) };
  g_autoptr (TarnAllocator) allocator = tarn_testing_queues_allocator_new (shared.queues);
  GThread *threads[N_THREADS];
  Worker workers[N_THREADS];

  _tarn_mutex_init (&shared.lock);
  shared.pool = tarn_pool_new (allocator, NULL, NULL);
  for (guint i = 0; i < N_THREADS; i++)
    worker_init (&workers[i], &shared, i);
  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("worker", work, &workers[i]);
  for (guint i = 0; i < N_THREADS; i++)
    {
      g_thread_join (threads[i]);
      g_rand_free (workers[i].rand);
    }
  g_clear_pointer (&allocator, tarn_allocator_unref);
  shared_clear (&shared);
}

int
main (int argc, char **argv)
{
#define ADD(path, func, flags)                                                                     \
  g_test_add_data_func ("/core/order/trace/" path, GUINT_TO_POINTER (flags), func)
  g_test_init (&argc, &argv, NULL);
  ADD ("retained", test_trace, 0);
  ADD ("events-all", test_trace, TARN_TESTING_QUEUES_RECORDS_ALL);
  ADD ("frees-in-order", test_trace,
       TARN_TESTING_QUEUES_FREES_IN_ORDER | TARN_TESTING_QUEUES_CHECKS_QUEUES);
  ADD ("fresh", test_trace_fresh, 0);
  ADD ("fresh/events-all", test_trace_fresh, TARN_TESTING_QUEUES_RECORDS_ALL);
  ADD ("threads", test_threads, 0);
  ADD ("threads/frees-in-order", test_threads,
       TARN_TESTING_QUEUES_FREES_IN_ORDER | TARN_TESTING_QUEUES_CHECKS_QUEUES);
  return g_test_run ();
}
