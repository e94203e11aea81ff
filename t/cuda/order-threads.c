/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Threads with a stream each, which write blocks of one pool and have them checked, there or on
 * another's stream, and free them without waiting for anything.  What is handed out too early is
 * written before it was checked.
 *
 * On a GPU kernels write and check, as fast as they can be put there.  The fake driver has no
 * kernels: it writes and copies, and streams are held up until others have come by. */

#include <string.h>

#include "order-fixture.h"
#include "order.h"

#define N_THREADS 8
#define BATCH 64 /* rounds of a thread between two looks at what was copied */

static const gsize sizes[] = { 64 << 10, 250 << 10, 1 << 20 };

/* Kernels: text of a version and a target that every driver and GPU of the last years takes, or
 * else the next one. */

static const gchar *const targets[] = { "sm_52", "sm_75" };

/* What both kernels begin with, after their names and first parameters. */
#define PTX_START                                                                                  \
  "  .reg .pred is_end, is_wrong;\n"                                                               \
  "  .reg .u32 block, width, thread, number, value, found, one;\n"                                 \
  "  .reg .u64 index, step, length, offset, address, counter;\n"                                   \
  "  mov.u32 block, %ctaid.x;\n"                                                                   \
  "  mov.u32 width, %ntid.x;\n"                                                                    \
  "  mov.u32 thread, %tid.x;\n"                                                                    \
  "  cvt.u64.u32 index, thread;\n"                                                                 \
  "  mad.wide.u32 index, block, width, index;\n"                                                   \
  "  mov.u32 number, %nctaid.x;\n"                                                                 \
  "  mul.wide.u32 step, number, width;\n"                                                          \
  "  ld.param.u64 length, [param_length];\n"                                                       \
  "LOOP:\n"                                                                                        \
  "  setp.ge.u64 is_end, index, length;\n"                                                         \
  "  @is_end bra DONE;\n"                                                                          \
  "  ld.param.u64 address, [param_address];\n"                                                     \
  "  cvta.to.global.u64 address, address;\n"                                                       \
  "  shl.b64 offset, index, 2;\n"                                                                  \
  "  add.u64 address, address, offset;\n"                                                          \
  "  ld.param.u32 value, [param_value];\n"                                                         \
  "  cvt.u32.u64 number, index;\n"                                                                 \
  "  add.u32 value, value, number;\n"
#define PTX_END                                                                                    \
  "  add.u64 index, index, step;\n"                                                                \
  "  bra LOOP;\n"                                                                                  \
  "DONE:\n"                                                                                        \
  "  ret;\n"                                                                                       \
  "}\n"

static const gchar kernels[]
    = "\n"
      ".address_size 64\n"
      ".visible .entry write_words (.param .u64 param_address, .param .u64 param_length,\n"
      "  .param .u32 param_value)\n"
      "{\n" PTX_START "  st.global.u32 [address], value;\n" PTX_END
      ".visible .entry check_words (.param .u64 param_address, .param .u64 param_length,\n"
      "  .param .u32 param_value, .param .u64 param_counter)\n"
      "{\n" PTX_START "  ld.volatile.global.u32 found, [address];\n"
      "  setp.eq.u32 is_wrong, found, value;\n"
      "  @is_wrong bra NEXT;\n"
      "  ld.param.u64 counter, [param_counter];\n"
      "  cvta.to.global.u64 counter, counter;\n"
      "  mov.u32 one, 1;\n"
      "  atom.global.add.u32 found, [counter], one;\n"
      "NEXT:\n" PTX_END;

/* NULL where the driver runs no kernels, which is the fake one. */
static unsigned int (*launch) (CUfunction function, unsigned int grid_x, unsigned int grid_y,
                               unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                               unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                               void **arguments, void **extra);

typedef struct
{
  TarnBlock *block;
  guint value;
  CUevent event; /* it is written */
} Letter;

typedef struct
{
  Fixture fixture;
  CUmodule module;
  CUfunction write, check;
  CUdeviceptr n_wrong; /* a word, that kernels count in */
  CUstream streams[N_THREADS];
  TarnMutex lock;
  Letter mailbox[4]; /* whose block is NULL is empty */
  gint64 deadline;
  gint n_rounds;   /* atomic */
  gint n_settling; /* atomic: threads that wait for the device */
  gint is_over;    /* atomic */
} Shared;

/* What was copied to the host, to be looked at when it has come. */
typedef struct
{
  guint expected, found;
} Copy;

typedef struct
{
  Shared *shared;
  CUstream stream; /* its own */
  GRand *random;
  Copy copies[2 * BATCH];
  guint n_copies;
  guint64 n_rounds, n_words, n_wrong;
} Worker;

/* The device's part */

static void
launch_kernel (CUfunction function, CUstream stream, void **arguments)
{
  SUCCEED (launch (function, 16, 1, 1, 256, 1, 1, 0, stream, arguments, NULL));
}

static void
put_pattern (Worker *worker, const TarnBlock *block, guint value, CUstream stream)
{
  CUdeviceptr address = (CUdeviceptr) get_address (block);
  guint64 length = tarn_block_get_size (block) / 4;
  void *arguments[] = { &address, &length, &value };

  if (launch != NULL)
    launch_kernel (worker->shared->write, stream, arguments);
  else
    put_write (block, value, stream);
}

static void
put_check (Worker *worker, const TarnBlock *block, guint value, CUstream stream)
{
  CUdeviceptr address = (CUdeviceptr) get_address (block);
  guint64 length = tarn_block_get_size (block) / 4;
  void *arguments[] = { &address, &length, &value, &worker->shared->n_wrong };
  Copy *copy = &worker->copies[worker->n_copies];

  worker->n_words += launch != NULL ? length : 1;
  if (launch != NULL)
    {
      launch_kernel (worker->shared->check, stream, arguments);
      return;
    }
  *copy = (Copy){ .expected = value };
  worker->n_copies++;
  SUCCEED (cuda.cuMemcpyDtoHAsync (&copy->found, address, sizeof copy->found, stream));
}

/* Waits for all copies, and looks at them. */
static void
settle (Worker *worker)
{
  g_atomic_int_inc (&worker->shared->n_settling);
  SUCCEED (tarn->cuCtxSynchronize ());
  g_atomic_int_add (&worker->shared->n_settling, -1);
  for (guint i = 0; i < worker->n_copies; i++)
    worker->n_wrong += worker->copies[i].found != worker->copies[i].expected;
  worker->n_copies = 0;
}

/* The host's part */

static void
make_wait (CUstream stream, CUevent event)
{
  SUCCEED (tarn->cuStreamWaitEvent (stream, event, 0));
  SUCCEED (tarn->cuEventDestroy (event));
}

static CUevent
record_event (CUstream stream)
{
  CUevent event;

  SUCCEED (tarn->cuEventCreate (&event, 2));
  SUCCEED (tarn->cuEventRecord (event, stream));
  return event;
}

static void
record_use (TarnBlock *block, CUstream stream)
{
  g_autoptr (GError) error = NULL;

  tarn_cuda_block_record_use (block, stream, &error);
  g_assert_no_error (error);
}

static CUstream
choose_stream (const Worker *worker)
{
  return worker->shared->streams[g_rand_int_range (worker->random, 0, N_THREADS)];
}

/* Puts a block where any thread may find it, and takes what was there. */
static Letter
exchange (Worker *worker, Letter letter)
{
  Shared *shared = worker->shared;
  Letter *place
      = &shared->mailbox[g_rand_int_range (worker->random, 0, G_N_ELEMENTS (shared->mailbox))];
  Letter found;

  _tarn_mutex_lock (&shared->lock);
  found = *place;
  *place = letter;
  _tarn_mutex_unlock (&shared->lock);
  return found;
}

static void
read_letter (Worker *worker, Letter letter)
{
  if (letter.block == NULL)
    return;
  record_use (letter.block, worker->stream);
  make_wait (worker->stream, letter.event);
  put_check (worker, letter.block, letter.value, worker->stream);
  tarn_block_free (letter.block);
}

static void
check_elsewhere (Worker *worker, TarnBlock *block, guint value)
{
  CUstream other = choose_stream (worker);

  record_use (block, other);
  make_wait (other, record_event (worker->stream));
  put_check (worker, block, value, other);
}

static void
run_round (Worker *worker)
{
  gsize size = sizes[g_rand_int_range (worker->random, 0, G_N_ELEMENTS (sizes))];
  guint value = g_rand_int (worker->random);
  TarnBlock *block;

  if (launch == NULL && value % 4 == 0)
    fake->put_work (worker->stream);
  block = take (&worker->shared->fixture, launch != NULL ? size : size / 1024, worker->stream);
  put_pattern (worker, block, value, worker->stream);
  switch (g_rand_int_range (worker->random, 0, 4))
    {
    case 0:
      read_letter (worker,
                   exchange (worker, (Letter){ block, value, record_event (worker->stream) }));
      return;
    case 1:
      check_elsewhere (worker, block, value);
      break;
    default:
      put_check (worker, block, value, worker->stream);
      break;
    }
  tarn_block_free (block);
}

static gpointer
run_worker (gpointer data)
{
  Worker *worker = data;
  Shared *shared = worker->shared;
  CUcontext popped;

  SUCCEED (tarn->cuCtxPushCurrent (shared->fixture.test->context));
  while (g_get_monotonic_time () < shared->deadline)
    {
      for (guint i = 0; i < BATCH; i++)
        {
          run_round (worker);
          g_atomic_int_inc (&shared->n_rounds);
        }
      worker->n_rounds += BATCH;
      settle (worker);
    }
  SUCCEED (tarn->cuCtxPopCurrent (&popped));
  return NULL;
}

/* Lets the fake driver's streams go on, now and then. */
static gpointer
run_device (gpointer data)
{
  Shared *shared = data;
  gint last = 0;

  while (!g_atomic_int_get (&shared->is_over))
    {
      gint now = g_atomic_int_get (&shared->n_rounds);

      if (now - last >= 2 * N_THREADS || g_atomic_int_get (&shared->n_settling) > 0)
        {
          last = now;
          fake->finish_all_work ();
        }
      g_thread_yield ();
    }
  return NULL;
}

/* A test */

static void
load_kernels (Shared *shared)
{
  unsigned int status = 1;

  for (gsize i = 0; i < G_N_ELEMENTS (targets) && status != 0; i++)
    {
      g_autofree gchar *text = g_strconcat (".version 6.3\n.target ", targets[i], kernels, NULL);

      status = tarn->cuModuleLoadDataEx (&shared->module, text, 0, NULL, NULL);
    }
  SUCCEED (status);
  SUCCEED (tarn->cuModuleGetFunction (&shared->write, shared->module, "write_words"));
  SUCCEED (tarn->cuModuleGetFunction (&shared->check, shared->module, "check_words"));
}

static void
shared_init (Shared *shared, const TarnCudaTest *test, FakeCudaKind kind)
{
  gdouble seconds = fake != NULL ? 0.4 : g_test_slow () ? 30 : 2;

  memset (shared, 0, sizeof *shared);
  fixture_init (&shared->fixture, test, kind);
  _tarn_mutex_init (&shared->lock);
  *(gpointer *) &launch = order_find_function ("cuLaunchKernel");
  g_assert_true (launch != NULL || fake != NULL);
  if (launch != NULL)
    load_kernels (shared);
  SUCCEED (tarn->cuMemAlloc (&shared->n_wrong, sizeof (guint)));
  SUCCEED (cuda.cuMemsetD32Async (shared->n_wrong, 0, 1, NULL));
  SUCCEED (tarn->cuCtxSynchronize ());
  for (guint i = 0; i < N_THREADS; i++)
    shared->streams[i] = order_stream_new ();
  shared->deadline = g_get_monotonic_time () + (gint64) (seconds * G_USEC_PER_SEC);
}

static guint
shared_clear (Shared *shared)
{
  guint n_wrong = 0;

  SUCCEED (tarn->cuCtxSynchronize ());
  SUCCEED (cuda.cuMemcpyDtoH (&n_wrong, shared->n_wrong, sizeof n_wrong));
  for (guint i = 0; i < G_N_ELEMENTS (shared->mailbox); i++)
    if (shared->mailbox[i].block != NULL)
      {
        SUCCEED (tarn->cuEventDestroy (shared->mailbox[i].event));
        tarn_block_free (shared->mailbox[i].block);
      }
  for (guint i = 0; i < N_THREADS; i++)
    order_stream_free (shared->streams[i]);
  SUCCEED (tarn->cuMemFree (shared->n_wrong));
  if (launch != NULL)
    SUCCEED (tarn->cuModuleUnload (shared->module));
  fixture_clear (&shared->fixture);
  _tarn_mutex_clear (&shared->lock);
  return n_wrong;
}

static Worker *
worker_new (Shared *shared, guint number)
{
  Worker *worker = g_new0 (Worker, 1);

  worker->shared = shared;
  worker->stream = shared->streams[number];
  worker->random = g_rand_new_with_seed ((guint32) g_test_rand_int ());
  return worker;
}

static void
run_workers (Shared *shared, Worker **workers)
{
  GThread *threads[N_THREADS];
  GThread *device = fake != NULL ? g_thread_new ("device", run_device, shared) : NULL;

  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("worker", run_worker, workers[i]);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  g_atomic_int_set (&shared->is_over, TRUE);
  if (device != NULL)
    g_thread_join (device);
}

static void
test_threads (const TarnCudaTest *test, gconstpointer kind)
{
  Shared shared;
  Worker *workers[N_THREADS];
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  guint64 n_rounds = 0, n_words = 0, n_wrong = 0;

  shared_init (&shared, test, (FakeCudaKind) GPOINTER_TO_UINT (kind));
  for (guint i = 0; i < N_THREADS; i++)
    workers[i] = worker_new (&shared, i);
  run_workers (&shared, workers);
  for (guint i = 0; i < N_THREADS; i++)
    {
      n_rounds += workers[i]->n_rounds;
      n_words += workers[i]->n_words;
      n_wrong += workers[i]->n_wrong;
      g_rand_free (workers[i]->random);
      g_free (workers[i]);
    }
  tarn_pool_get_stats (shared.fixture.pool, &stats);
  n_wrong += shared_clear (&shared);
  g_test_message ("%" G_GUINT64_FORMAT " rounds: %" G_GUINT64_FORMAT " hits, %" G_GUINT64_FORMAT
                  " misses, %" G_GUINT64_FORMAT " waits; %" G_GUINT64_FORMAT
                  " words checked, %" G_GUINT64_FORMAT " wrong",
                  n_rounds, stats.hits, stats.misses, stats.queue_waits, n_words, n_wrong);
  g_assert_cmpuint (n_wrong, ==, 0);
  g_assert_cmpuint (stats.queue_waits, >, 0);
}

void
order_add_threads (void)
{
  tarn_cuda_test_add ("order/threads/device", test_threads,
                      GUINT_TO_POINTER (FAKE_CUDA_DEVICE_MEMORY));
  tarn_cuda_test_add ("order/threads/host", test_threads, GUINT_TO_POINTER (FAKE_CUDA_HOST_MEMORY));
  tarn_cuda_test_add ("order/threads/managed", test_threads,
                      GUINT_TO_POINTER (FAKE_CUDA_MANAGED_MEMORY));
}
