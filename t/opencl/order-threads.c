/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Threads with a queue each, and memory of one pool that goes around between them: freed while its
 * last command may not have begun, or handed over in use.  Kernels write a value that is nobody
 * else's, and count the words that are another one. */

#include <string.h>

#include "common/lock-private.h"
#include "queues.h"

#define MAX_THREADS 8
#define N_SLOTS 4
#define MIN_SIZE 4096   /* bytes */
#define N_SIZES 6       /* each twice the one before */
#define ROUNDS_AHEAD 16 /* what a thread puts on its queue before it waits */

static const gchar source[]
    = "kernel void fill (global uint *words, uint value)\n"
      "{\n"
      "  words[get_global_id (0)] = value;\n"
      "}\n"
      "kernel void check (global const uint *words, uint value, global uint *wrong)\n"
      "{\n"
      "  if (words[get_global_id (0)] != value)\n"
      "    atomic_inc (wrong);\n"
      "}\n";

/* A block in use, whose last command so far is @written. */
typedef struct
{
  TarnBlock *block;
  guint32 value;
  cl_event written;
} Item;

typedef struct
{
  TarnPool *pool;
  TarnMutex lock;
  Item slots[N_SLOTS];
  gint64 deadline;
} Ring;

typedef struct
{
  Ring *ring;
  guint32 number;
  guint32 seed;
  cl_command_queue queue;
  cl_kernel fill, check;
  cl_mem wrong;
  guint64 n_rounds;
} Worker;

static void
set_pointer (cl_kernel kernel, TarnBlock *block)
{
  const gchar *kind = tarn_allocator_get_name (tarn_block_get_allocator (block));
  cl_int (*set_svm) (cl_kernel, cl_uint, gconstpointer);
  cl_int status;
  cl_mem buffer;

  if (strcmp (kind, "opencl-svm") == 0)
    {
      *(gpointer *) &set_svm = opencl_find_function ("clSetKernelArgSVMPointer");
      status = set_svm (kernel, 0, tarn_opencl_block_get_svm (block));
    }
  else
    {
      buffer = tarn_opencl_block_get_buffer (block);
      status = clSetKernelArg (kernel, 0, sizeof buffer, &buffer);
    }
  g_assert_cmpint (status, ==, CL_SUCCESS);
}

static void
launch (const Worker *worker, cl_kernel kernel, const Item *item, cl_event *event)
{
  size_t n_words = tarn_block_get_size (item->block) / sizeof (cl_uint);

  set_pointer (kernel, item->block);
  g_assert_cmpint (clSetKernelArg (kernel, 1, sizeof item->value, &item->value), ==, CL_SUCCESS);
  g_assert_cmpint (
      clEnqueueNDRangeKernel (worker->queue, kernel, 1, NULL, &n_words, NULL, 0, NULL, event), ==,
      CL_SUCCESS);
  g_assert_cmpint (clFlush (worker->queue), ==, CL_SUCCESS);
}

/* Another thread's block is the worker's from now on: half of them are moved to its queue; for the
 * others the queue is made to wait here, and the pool told that it uses them. */
static void
take_over (const Worker *worker, const Item *item, gboolean is_moved)
{
  g_autoptr (GError) error = NULL;

  if (is_moved)
    tarn_opencl_block_move_to_queue (item->block, worker->queue, &error);
  else
    {
      g_assert_cmpint (clEnqueueBarrierWithWaitList (worker->queue, 1, &item->written, NULL), ==,
                       CL_SUCCESS);
      tarn_opencl_block_record_use (item->block, worker->queue, &error);
    }
  g_assert_no_error (error);
  launch (worker, worker->check, item, NULL);
}

static Item
exchange (Ring *ring, guint slot, Item given)
{
  Item taken;

  _tarn_mutex_lock (&ring->lock);
  taken = ring->slots[slot];
  ring->slots[slot] = given;
  _tarn_mutex_unlock (&ring->lock);
  return taken;
}

static void
item_clear (Item *item)
{
  tarn_block_free (item->block);
  if (item->written != NULL)
    clReleaseEvent (item->written);
}

static void
work_once (Worker *worker, GRand *rand)
{
  gsize size = (gsize) MIN_SIZE << g_rand_int_range (rand, 0, N_SIZES);
  guint32 value = worker->number << 24 | (guint32) (worker->n_rounds & 0xffffff);
  Item item = { opencl_allocate (worker->ring->pool, size, worker->queue), value, NULL };

  launch (worker, worker->fill, &item, NULL);
  launch (worker, worker->check, &item, &item.written);
  if (g_rand_boolean (rand))
    {
      item = exchange (worker->ring, (guint) g_rand_int_range (rand, 0, N_SLOTS), item);
      if (item.block != NULL)
        take_over (worker, &item, g_rand_boolean (rand));
    }
  item_clear (&item);
}

static gpointer
work (gpointer data)
{
  Worker *worker = data;
  g_autoptr (GRand) rand = g_rand_new_with_seed (worker->seed);

  while (g_get_monotonic_time () < worker->ring->deadline)
    {
      work_once (worker, rand);
      if (++worker->n_rounds % ROUNDS_AHEAD == 0)
        g_assert_cmpint (clFinish (worker->queue), ==, CL_SUCCESS);
    }
  return NULL;
}

static cl_program
build (const OpenclState *state)
{
  const gchar *text = source;
  cl_int status;
  cl_program program = clCreateProgramWithSource (state->context, 1, &text, NULL, &status);

  g_assert_cmpint (status, ==, CL_SUCCESS);
  g_assert_cmpint (clBuildProgram (program, 0, NULL, NULL, NULL, NULL), ==, CL_SUCCESS);
  return program;
}

static Worker
worker_init (Ring *ring, const OpenclState *state, cl_program program, guint32 number)
{
  Worker worker = { .ring = ring, .number = number, .seed = g_test_rand_int () };
  cl_uint none = 0;
  cl_int status[3];

  worker.queue = opencl_queue_new (state, FALSE);
  worker.fill = clCreateKernel (program, "fill", &status[0]);
  worker.check = clCreateKernel (program, "check", &status[1]);
  worker.wrong
      = clCreateBuffer (state->context, CL_MEM_COPY_HOST_PTR, sizeof none, &none, &status[2]);
  for (guint i = 0; i < G_N_ELEMENTS (status); i++)
    g_assert_cmpint (status[i], ==, CL_SUCCESS);
  g_assert_cmpint (clSetKernelArg (worker.check, 2, sizeof worker.wrong, &worker.wrong), ==,
                   CL_SUCCESS);
  return worker;
}

/* Gives the number of wrong words. */
static guint
worker_clear (Worker *worker)
{
  cl_uint wrong = 0;

  g_assert_cmpint (clEnqueueReadBuffer (worker->queue, worker->wrong, CL_TRUE, 0, sizeof wrong,
                                        &wrong, 0, NULL, NULL),
                   ==, CL_SUCCESS);
  clReleaseMemObject (worker->wrong);
  clReleaseKernel (worker->check);
  clReleaseKernel (worker->fill);
  return wrong;
}

static void
report (TarnPool *pool, const Worker *workers, guint n)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  guint64 n_rounds = 0;

  for (guint i = 0; i < n; i++)
    n_rounds += workers[i].n_rounds;
  tarn_pool_get_stats (pool, &stats);
  g_test_message ("%u threads, %" G_GUINT64_FORMAT " rounds, %" G_GUINT64_FORMAT
                  " hits, %" G_GUINT64_FORMAT " waits",
                  n, n_rounds, (guint64) stats.hits, (guint64) stats.queue_waits);
  g_assert_cmpuint (stats.hits, >, 0);
  g_assert_cmpuint (stats.queue_waits, >, 0);
}

static gboolean
is_rusticl (cl_context context)
{
  cl_device_id device = NULL;
  cl_platform_id platform = NULL;
  gchar name[64] = "";

  clGetContextInfo (context, CL_CONTEXT_DEVICES, sizeof device, &device, NULL);
  clGetDeviceInfo (device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
  clGetPlatformInfo (platform, CL_PLATFORM_NAME, sizeof name, name, NULL);
  return g_str_equal (name, "rusticl");
}

/* Of a block in use: bins round sizes up. */
static gsize
get_largest (TarnPool *pool)
{
  gsize size = (gsize) MIN_SIZE << (N_SIZES - 1);

  return tarn_pool_alloc_size (pool, tarn_pool_bin_number (pool, size));
}

/* @data: whether the pool has no more than can be in use at a time, so that what a queue has freed
 * is another one's next. */
static void
test_threads (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  const guint n = g_test_slow () ? MAX_THREADS : 4, seconds = g_test_slow () ? 30 : 1;
  Ring ring = { .pool = opencl_pool_new (state, memory) };
  cl_program program = build (state);
  GThread *threads[MAX_THREADS];
  Worker workers[MAX_THREADS];
  guint wrong = 0;

  if (is_rusticl (state->context))
    {
      g_test_skip ("rusticl was seen not to come to an end here");
      tarn_pool_unref (ring.pool);
      clReleaseProgram (program);
      return;
    }
  if (GPOINTER_TO_INT (data))
    tarn_pool_set_limit_bytes (ring.pool, (n + N_SLOTS) * get_largest (ring.pool));
  _tarn_mutex_init (&ring.lock);
  ring.deadline = g_get_monotonic_time () + seconds * G_TIME_SPAN_SECOND;
  for (guint i = 0; i < n; i++)
    {
      workers[i] = worker_init (&ring, state, program, i + 1);
      threads[i] = g_thread_new ("worker", work, &workers[i]);
    }
  for (guint i = 0; i < n; i++)
    g_thread_join (threads[i]);
  for (guint i = 0; i < N_SLOTS; i++)
    item_clear (&ring.slots[i]);
  for (guint i = 0; i < n; i++)
    wrong += worker_clear (&workers[i]);
  report (ring.pool, workers, n);
  g_assert_cmpuint (wrong, ==, 0);
  tarn_pool_unref (ring.pool);
  for (guint i = 0; i < n; i++)
    opencl_queue_free (workers[i].queue);
  _tarn_mutex_clear (&ring.lock);
  clReleaseProgram (program);
}

int
main (int argc, char **argv)
{
  static const OpenclQueueCase cases[] = {
    { "order/threads", test_threads, OPENCL_NEEDS_THREADS, GINT_TO_POINTER (FALSE) },
    { "order/threads-within-a-limit", test_threads, OPENCL_NEEDS_THREADS, GINT_TO_POINTER (TRUE) },
  };

  g_test_init (&argc, &argv, NULL);
  /* Each pool over a deferred allocator has one, which t/pool/allocator.c is about. */
  opencl_ignore_messages ();
  opencl_add_for_memories (cases, G_N_ELEMENTS (cases));
  return g_test_run ();
}
