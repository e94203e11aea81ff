/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Threads with a stream each, which write blocks of one pool and have them checked, there or on
 * another's stream, and free them without waiting for anything.  What is handed out too early is
 * written before it was checked: with what a pool does against that taken out, this must be seen.
 *
 * On a GPU kernels write and check, as fast as they can be put there.  The fake driver has no
 * kernels: it writes and copies, and streams are held up until others have come by. */

#include <string.h>

#include "order-fixture.h"
#include "order.h"

#define N_THREADS 8
#define BATCH 64 /* rounds of a thread between two looks at what was copied */
#define N_LETTERS 4
#define PATIENCE 10 /* seconds, until something wrong must have been seen */

static const gsize sizes[] = { 1 << 20, 250 << 10, 64 << 10 };

typedef struct
{
  const gchar *path;
  TarnTestingCudaKind kind;
  gboolean is_limited; /* to what can be in use at a time: most of it was another stream's before */
  /* Puts something in the place of what keeps memory from being handed out too early; NULL: it is
   * as it should be. */
  void (*damage) (TarnAllocatorOps *ops);
} Case;

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
  const Case *item;
  Fixture fixture;
  CUmodule module;
  CUfunction write, check;
  CUdeviceptr n_wrong; /* a word, that kernels count in */
  CUstream streams[N_THREADS];
  TarnMutex lock;
  Letter mailbox[N_LETTERS]; /* whose block is NULL is empty */
  gint64 deadline;
  gint n_rounds;   /* atomic */
  gint n_settling; /* atomic: threads that wait for the device */
  gint is_over;    /* atomic */
  gint is_wrong;   /* atomic: that has been seen, which is what a damaged one is for */
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

/* Bytes: the fake driver copies one word of each block, and is a processor. */
static gsize
get_size (gint i)
{
  return launch != NULL ? sizes[i] : sizes[i] / 1024;
}

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
  SUCCEED (cuda.cuCtxSynchronize ());
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

/* The other stream waits, and has the block to itself. */
static void
check_moved (Worker *worker, TarnBlock *block, guint value)
{
  CUstream other = choose_stream (worker);
  g_autoptr (GError) error = NULL;

  tarn_cuda_block_move_to_stream (block, other, &error);
  g_assert_no_error (error);
  put_check (worker, block, value, other);
}

/* In bytes.  Where memory is not kept from being used too early, it must not be given back. */
static gsize
choose_size (const Worker *worker)
{
  gint n_sizes = worker->shared->item->damage != NULL ? 1 : G_N_ELEMENTS (sizes);

  return get_size (g_rand_int_range (worker->random, 0, n_sizes));
}

static void
run_round (Worker *worker)
{
  gboolean is_whole = worker->shared->item->damage == NULL;
  guint value = g_rand_int (worker->random);
  TarnBlock *block;

  if (launch == NULL && value % 4 == 0)
    fake->put_work (worker->stream);
  block = take (&worker->shared->fixture, choose_size (worker), worker->stream);
  put_pattern (worker, block, value, worker->stream);
  switch (g_rand_int_range (worker->random, 0, is_whole ? 5 : 4))
    {
    case 0:
      read_letter (worker,
                   exchange (worker, (Letter){ block, value, record_event (worker->stream) }));
      return;
    case 1:
      check_elsewhere (worker, block, value);
      break;
    case 4:
      check_moved (worker, block, value);
      break;
    default:
      put_check (worker, block, value, worker->stream);
      break;
    }
  tarn_block_free (block);
}

/* Kernels count for all threads. */
static gboolean
has_wrong_words (const Worker *worker)
{
  guint n_wrong = 0;

  SUCCEED (cuda.cuMemcpyDtoH (&n_wrong, worker->shared->n_wrong, sizeof n_wrong));
  return n_wrong > 0 || worker->n_wrong > 0;
}

static gpointer
run_worker (gpointer data)
{
  Worker *worker = data;
  Shared *shared = worker->shared;
  CUcontext popped;

  SUCCEED (tarn->cuCtxPushCurrent (shared->fixture.test->context));
  while (g_get_monotonic_time () < shared->deadline && !g_atomic_int_get (&shared->is_wrong))
    {
      for (guint i = 0; i < BATCH; i++)
        {
          run_round (worker);
          g_atomic_int_inc (&shared->n_rounds);
        }
      worker->n_rounds += BATCH;
      settle (worker);
      if (shared->item->damage != NULL && has_wrong_words (worker))
        g_atomic_int_set (&shared->is_wrong, TRUE);
    }
  SUCCEED (tarn->cuCtxPopCurrent (&popped));
  return NULL;
}

/* Lets the fake driver's streams go on, now and then, and where the threads do not: they may all
 * wait for memory. */
static gpointer
run_device (gpointer data)
{
  Shared *shared = data;
  gint last = 0, seen = 0;
  guint n_looks = 0;

  while (!g_atomic_int_get (&shared->is_over))
    {
      gint now = g_atomic_int_get (&shared->n_rounds);

      n_looks = now == seen ? n_looks + 1 : 0;
      seen = now;
      if (now - last >= 2 * N_THREADS || g_atomic_int_get (&shared->n_settling) > 0
          || n_looks > 1000)
        {
          last = now;
          n_looks = 0;
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

/* The threads' own blocks, and those that are under way. */
static void
set_limit (TarnPool *pool)
{
  gsize block_bytes = tarn_pool_alloc_size (pool, tarn_pool_bin_number (pool, get_size (0)));

  tarn_pool_set_limit_bytes (pool, (N_THREADS + N_LETTERS) * block_bytes);
}

static gdouble
choose_seconds (const Case *item)
{
  if (item->damage != NULL)
    return PATIENCE;
  return fake != NULL ? 0.4 : g_test_slow () ? 30 : 2;
}

static void
shared_init (Shared *shared, const TarnCudaTest *test, const Case *item)
{
  memset (shared, 0, sizeof *shared);
  shared->item = item;
  fixture_init (&shared->fixture, test, item->kind);
  _tarn_mutex_init (&shared->lock);
  *(gpointer *) &launch = order_find_function ("cuLaunchKernel");
  g_assert_true (launch != NULL || fake != NULL);
  if (launch != NULL)
    load_kernels (shared);
  SUCCEED (tarn->cuMemAlloc (&shared->n_wrong, sizeof (guint)));
  SUCCEED (cuda.cuMemsetD32Async (shared->n_wrong, 0, 1, NULL));
  SUCCEED (cuda.cuCtxSynchronize ());
  for (guint i = 0; i < N_THREADS; i++)
    shared->streams[i] = order_stream_new ();
  if (item->is_limited)
    set_limit (shared->fixture.pool);
  if (item->damage != NULL)
    item->damage (&shared->fixture.allocator->ops);
  shared->deadline = g_get_monotonic_time () + (gint64) (choose_seconds (item) * G_USEC_PER_SEC);
}

static guint
shared_clear (Shared *shared)
{
  guint n_wrong = 0;

  SUCCEED (cuda.cuCtxSynchronize ());
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
test_threads (const TarnCudaTest *test, gconstpointer data)
{
  const Case *item = data;
  Shared shared;
  Worker *workers[N_THREADS];
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  guint64 n_rounds = 0, n_words = 0, n_wrong = 0;

  shared_init (&shared, test, item);
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
  if (item->damage == NULL)
    {
      g_assert_cmpuint (n_wrong, ==, 0);
      g_assert_cmpuint (stats.queue_waits, >, 0);
    }
  else
    g_assert_cmpuint (n_wrong, >, 0);
}

/* What can be taken out: that a stream is made to wait, and that what is not done is known to be
 * so. The host waits as ever. */

static gboolean (*wait_for_event) (gpointer user_data, gpointer event, gpointer queue,
                                   GError **error);

static gboolean
wait_on_host_only (gpointer user_data, gpointer event, gpointer queue, GError **error)
{
  return queue != NULL || wait_for_event (user_data, event, queue, error);
}

static void
take_out_wait (TarnAllocatorOps *ops)
{
  wait_for_event = ops->event_wait;
  ops->event_wait = wait_on_host_only;
}

static gboolean
say_done (gpointer user_data, gpointer event)
{
  (void) user_data;
  (void) event;
  return TRUE;
}

static void
take_out_question (TarnAllocatorOps *ops)
{
  ops->event_is_done = say_done;
}

void
order_add_threads (void)
{
  static const Case cases[] = {
    { "order/threads/device", TARN_TESTING_CUDA_DEVICE_MEMORY, FALSE, NULL },
    { "order/threads/host", TARN_TESTING_CUDA_HOST_MEMORY, FALSE, NULL },
    { "order/threads/managed", TARN_TESTING_CUDA_MANAGED_MEMORY, FALSE, NULL },
    { "order/threads/limited", TARN_TESTING_CUDA_DEVICE_MEMORY, TRUE, NULL },
    { "order/threads/without-wait", TARN_TESTING_CUDA_DEVICE_MEMORY, TRUE, take_out_wait },
    { "order/threads/without-question", TARN_TESTING_CUDA_DEVICE_MEMORY, TRUE, take_out_question },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    tarn_cuda_test_add (cases[i].path, test_threads, &cases[i]);
}
