/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Kernels that many threads ask for and use, on each device: built once, however many ask; each
 * thread has one of its own, so that arguments do not mix; cleared while they are used. */

#include <pthread.h>
#include <string.h>

#include "device.h"
#include "kernels.h"

#define N_THREADS 64
#define N_ITEMS 32
#define N_ROUNDS 20

static const gchar source[] = "kernel void line (global int *out, int a, int b)\n"
                              "{ out[get_global_id (0)] = a * (int) get_global_id (0) + b; }\n";

/* What all threads of a test share. */
typedef struct
{
  TarnMemo *kernels;
  TarnOpenclKernelKey key;
  cl_context context;
  pthread_barrier_t barrier; /* of all threads */
  gint is_over;              /* atomic */
} Common;

typedef struct
{
  Common *common;
  cl_int number;
  cl_kernel kernel, again; /* what it was given; no references any more */
  GThread *thread;
} Worker;

static cl_kernel
get_kernel (Common *common)
{
  return opencl_get_kernel (common->kernels, common->context, &common->key);
}

static void
common_init (Common *common, const TarnOpenclDevice *device)
{
  *common = (Common){ .kernels = tarn_opencl_kernel_memo_new (),
                      .key = opencl_kernel_key (device, source, "line"),
                      .context = opencl_context_new (device) };
  pthread_barrier_init (&common->barrier, NULL, N_THREADS);
}

static void
common_clear (Common *common)
{
  tarn_memo_forget_everywhere (common->context);
  opencl_context_release (common->context);
  tarn_memo_unref (common->kernels);
  pthread_barrier_destroy (&common->barrier);
}

static void
start (Worker *workers, guint n, Common *common, GThreadFunc func)
{
  for (guint i = 0; i < n; i++)
    {
      workers[i] = (Worker){ .common = common, .number = (cl_int) i };
      workers[i].thread = g_thread_new ("worker", func, &workers[i]);
    }
}

static void
join (Worker *workers, guint n)
{
  for (guint i = 0; i < n; i++)
    g_thread_join (workers[i].thread);
}

/* Asking */

/* At the same time as all others, and while all others live. */
static gpointer
ask (gpointer data)
{
  Worker *worker = data;

  pthread_barrier_wait (&worker->common->barrier);
  worker->kernel = get_kernel (worker->common);
  worker->again = get_kernel (worker->common);
  pthread_barrier_wait (&worker->common->barrier);
  g_assert_cmpint (clReleaseKernel (worker->again), ==, CL_SUCCESS);
  g_assert_cmpint (clReleaseKernel (worker->kernel), ==, CL_SUCCESS);
  return NULL;
}

/* Each thread always has the same one, and no other thread has it. */
static void
assert_own (const Worker *workers)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (NULL, NULL);

  for (guint i = 0; i < N_THREADS; i++)
    {
      g_assert_true (workers[i].again == workers[i].kernel);
      g_assert_true (g_hash_table_add (seen, workers[i].kernel));
    }
}

static void
test_asking (const TarnOpenclDevice *device, OpenclState *state)
{
  Worker workers[N_THREADS];
  TarnMemoStats stats = TARN_MEMO_STATS_INIT;
  Common common;

  (void) state;
  common_init (&common, device);
  opencl_calls_reset ();
  start (workers, N_THREADS, &common, ask);
  join (workers, N_THREADS);
  g_assert_cmpuint (opencl_calls_get_builds (), ==, 1);
  assert_own (workers);
  tarn_memo_get_stats (common.kernels, &stats);
  g_assert_cmpuint (stats.entries, ==, 1);
  g_assert_cmpuint (stats.misses, ==, 1);
  g_assert_cmpuint (stats.hits + stats.waits, ==, 2 * N_THREADS - 1);

  /* Those of threads that have ended serve as many others. */
  opencl_calls_reset ();
  start (workers, N_THREADS, &common, ask);
  join (workers, N_THREADS);
  g_assert_cmpuint (opencl_calls_get_kernels (), <=, 1);
  assert_own (workers);
  common_clear (&common);
}

static gpointer
ask_alone (gpointer data)
{
  g_assert_cmpint (clReleaseKernel (get_kernel (data)), ==, CL_SUCCESS);
  return NULL;
}

/* One after the other: there are never more kernels than there were threads at a time. */
static void
test_sequence (const TarnOpenclDevice *device, OpenclState *state)
{
  Common common;

  (void) state;
  common_init (&common, device);
  opencl_calls_reset ();
  for (guint i = 0; i < 200; i++)
    g_thread_join (g_thread_new ("worker", ask_alone, &common));
  g_assert_cmpuint (opencl_calls_get_kernels (), <=, 2); /* what all share, and one for a thread */
  g_assert_cmpuint (opencl_calls_get_builds (), ==, 1);
  common_clear (&common);
}

/* Running */

typedef struct
{
  cl_command_queue queue;
  cl_mem buffer;
} Own;

static void
own_init (Own *own, Common *common)
{
  cl_int status;

  own->queue = clCreateCommandQueue (common->context, common->key.device, 0, &status);
  g_assert_cmpint (status, ==, CL_SUCCESS);
  own->buffer = clCreateBuffer (common->context, CL_MEM_READ_WRITE, N_ITEMS * sizeof (cl_int), NULL,
                                &status);
  g_assert_cmpint (status, ==, CL_SUCCESS);
}

static void
own_clear (Own *own)
{
  g_assert_cmpint (clReleaseMemObject (own->buffer), ==, CL_SUCCESS);
  g_assert_cmpint (clReleaseCommandQueue (own->queue), ==, CL_SUCCESS);
}

static void
set_arguments (cl_kernel kernel, const Own *own, cl_int a, cl_int b)
{
  g_assert_cmpint (clSetKernelArg (kernel, 0, sizeof own->buffer, &own->buffer), ==, CL_SUCCESS);
  g_assert_cmpint (clSetKernelArg (kernel, 1, sizeof a, &a), ==, CL_SUCCESS);
  g_assert_cmpint (clSetKernelArg (kernel, 2, sizeof b, &b), ==, CL_SUCCESS);
}

static void
run (cl_kernel kernel, const Own *own)
{
  const gsize n = N_ITEMS;

  g_assert_cmpint (clEnqueueNDRangeKernel (own->queue, kernel, 1, NULL, &n, NULL, 0, NULL, NULL),
                   ==, CL_SUCCESS);
}

static void
assert_line (const Own *own, cl_int a, cl_int b)
{
  cl_int out[N_ITEMS] = { 0 };

  g_assert_cmpint (
      clEnqueueReadBuffer (own->queue, own->buffer, CL_TRUE, 0, sizeof out, out, 0, NULL, NULL), ==,
      CL_SUCCESS);
  for (cl_int i = 0; i < N_ITEMS; i++)
    g_assert_cmpint (out[i], ==, a * i + b);
}

/* All threads have set their arguments before any of them runs: of a kernel that is shared, every
 * one would run with those of the last. */
static gpointer
run_rounds (gpointer data)
{
  Worker *worker = data;
  Own own;

  own_init (&own, worker->common);
  worker->kernel = get_kernel (worker->common);
  for (cl_int round = 0; round < N_ROUNDS; round++)
    {
      cl_int a = worker->number + 1, b = 1000 * worker->number + round;

      set_arguments (worker->kernel, &own, a, b);
      if (round < 3) /* the others in no order */
        pthread_barrier_wait (&worker->common->barrier);
      run (worker->kernel, &own);
      assert_line (&own, a, b);
    }
  g_assert_cmpint (clReleaseKernel (worker->kernel), ==, CL_SUCCESS);
  own_clear (&own);
  return NULL;
}

static void
test_running (const TarnOpenclDevice *device, OpenclState *state)
{
  Worker workers[N_THREADS];
  Common common;

  (void) state;
  common_init (&common, device);
  start (workers, N_THREADS, &common, run_rounds);
  join (workers, N_THREADS);
  common_clear (&common);
}

/* Clearing */

#define N_USERS 8
#define N_CLEARS 10

static gpointer
run_until_over (gpointer data)
{
  Worker *worker = data;
  Own own;

  own_init (&own, worker->common);
  for (cl_int round = 0; !g_atomic_int_get (&worker->common->is_over); round++)
    {
      cl_kernel kernel = get_kernel (worker->common);

      set_arguments (kernel, &own, worker->number, round);
      run (kernel, &own);
      assert_line (&own, worker->number, round);
      g_assert_cmpint (clReleaseKernel (kernel), ==, CL_SUCCESS);
    }
  own_clear (&own);
  return NULL;
}

/* What a thread has been given stays good, whoever clears; at the end nothing is left. */
static void
test_cleared_meanwhile (const TarnOpenclDevice *device, OpenclState *state)
{
  Worker workers[N_USERS];
  Common common;
  guint n_builds;

  (void) state;
  common_init (&common, device);
  opencl_calls_reset ();
  start (workers, N_USERS, &common, run_until_over);
  for (guint i = 0; i < N_CLEARS; i++)
    {
      n_builds = opencl_calls_get_builds ();
      tarn_memo_forget_everywhere (common.context);
      while (opencl_calls_get_builds () == n_builds) /* so that there is something to clear */
        g_thread_yield ();
    }
  g_atomic_int_set (&common.is_over, TRUE);
  join (workers, N_USERS);
  common_clear (&common);
}

/* @data is an OpenclCase. */
static void
run_case (const TarnOpenclTest *test, gconstpointer data)
{
  const gchar *reason = opencl_no_threads (test->info);

  if (reason != NULL)
    g_test_skip (reason);
  else
    ((const OpenclCase *) data)->func (test->info, NULL);
}

int
main (int argc, char **argv)
{
  static const OpenclCase cases[] = {
    { "memo/threads/asking", test_asking },
    { "memo/threads/sequence", test_sequence },
    { "memo/threads/running", test_running },
    { "memo/threads/cleared-meanwhile", test_cleared_meanwhile },
  };

  g_test_init (&argc, &argv, NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    tarn_opencl_test_add (cases[i].path, run_case, &cases[i]);
  return g_test_run ();
}
