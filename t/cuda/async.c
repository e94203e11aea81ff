/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memory of CUDA's own pools, on the fake driver, on one of CUDA 10.1, which has none, and on the
 * machine's. */

#include <string.h>

#include "async-pools.h"

#define MEMPOOL_USED_MEM_CURRENT 7 /* CU_MEMPOOL_ATTR_USED_MEM_CURRENT */
#define POOLS_SUPPORTED 115        /* CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED */

/* NULL: there is nothing to test with. */
static const gchar *
get_reason (CUdevice device)
{
  int value = 0;

  if (pools.cuMemPoolCreate == NULL)
    return "the driver has no memory pools";
  SUCCEED (tarn->cuDeviceGetAttribute (&value, POOLS_SUPPORTED, device));
  return value != 0 ? NULL : "the device has no memory pools";
}

static guint64
get_used (CUmemoryPool pool)
{
  guint64 bytes = 0;

  SUCCEED (pools.cuMemPoolGetAttribute (pool, MEMPOOL_USED_MEM_CURRENT, &bytes));
  return bytes;
}

/* Drivers and devices without it */

static void
assert_not_supported (CUmemoryPool pool, const gchar *what)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (tarn_cuda_async_allocator_new (NULL, pool, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
  if (strstr (error->message, what) == NULL)
    g_error ("'%s' does not say '%s'", error->message, what);
}

/* The function that is missing is named, and so is the device. */
static void
test_not_supported (const TarnCudaTest *test, gconstpointer unused)
{
  g_autofree gchar *device = g_strdup_printf ("device %d", test->device);

  (void) unused;
  async_load ();
  if (pools.cuMemPoolCreate == NULL)
    {
      assert_not_supported (NULL, "cuMemAllocAsync");
      assert_not_supported ((CUmemoryPool) &pools, "cuMemAllocFromPoolAsync");
      return;
    }
  fake->reset ();
  fake->set_attribute (test->device, POOLS_SUPPORTED, 0);
  assert_not_supported (NULL, device);
  fake->reset ();
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_STREAM), ==, 0);
}

/* A test with streams, a gate, and an allocator; they are skipped where there can be none. */

typedef struct
{
  Fixture base;
  TarnAllocator *allocator;
  guint n_live; /* of the fixture's own memory */
} Async;

static TarnAllocator *
make (CUmemoryPool pool)
{
  g_autoptr (GError) error = NULL;
  TarnAllocator *allocator = tarn_cuda_async_allocator_new (NULL, pool, &error);

  g_assert_no_error (error);
  return allocator;
}

/* Takes a little memory first, as a driver may wait for streams when it makes a pool. */
static gboolean
async_init (Async *self, const TarnCudaTest *test)
{
  async_load ();
  if (get_reason (test->device) != NULL)
    {
      g_test_skip (get_reason (test->device));
      return FALSE;
    }
  fixture_init (&self->base, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  self->allocator = make (NULL);
  tarn_block_free (tarn_allocator_allocate (self->allocator, SIZE, NULL));
  self->n_live = fake != NULL ? fake->get_live (TARN_TESTING_CUDA_DEVICE_MEMORY) : 0;
  return TRUE;
}

static void
async_clear (Async *self)
{
  tarn_allocator_unref (self->allocator);
  fixture_clear (&self->base);
}

/* So many pieces of memory are there still; a real driver cannot be asked. */
static void
assert_live (const Async *self, guint n)
{
  if (fake != NULL)
    g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_DEVICE_MEMORY) - self->n_live, ==, n);
}

static TarnBlock *
take_direct (const Async *self, CUstream stream)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_allocator_allocate (self->allocator, SIZE, &error);

  g_assert_no_error (error);
  if (stream != NULL)
    g_assert_true (tarn_cuda_block_record_use (block, stream, &error));
  g_assert_no_error (error);
  return block;
}

/* The free of a block waits for its streams, and the host for none of them. */
static void
test_free (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block;
  Async self;

  (void) unused;
  if (!async_init (&self, test))
    return;
  block = take_direct (&self, self.base.a);
  g_assert_true (tarn_cuda_block_record_use (block, self.base.b, &error));
  g_assert_no_error (error);
  gate_close (&self.base.gate, self.base.b);
  put_write (block, 1, self.base.b);
  tarn_block_free (block);
  assert_waits (&self.base, self.base.a);
  assert_live (&self, 1);
  gate_open (&self.base.gate);
  SUCCEED (cuda.cuStreamSynchronize (self.base.a));
  assert_live (&self, 0);
  async_clear (&self);
}

/* It can be named when the block is freed, too. */
static void
test_free_on (const TarnCudaTest *test, gconstpointer unused)
{
  TarnBlock *block;
  Async self;

  (void) unused;
  if (!async_init (&self, test))
    return;
  block = take_direct (&self, NULL);
  gate_close (&self.base.gate, self.base.a);
  put_write (block, 1, self.base.a);
  tarn_cuda_block_free_on (block, self.base.a);
  assert_waits (&self.base, self.base.a);
  assert_live (&self, 1);
  gate_open (&self.base.gate);
  SUCCEED (cuda.cuStreamSynchronize (self.base.a));
  assert_live (&self, 0);
  /* The allocator's own stream waits for no default stream; on a device it would for ever. */
  gate_close (&self.base.gate, LEGACY);
  tarn_block_free (take_direct (&self, NULL));
  gate_open (&self.base.gate);
  assert_live (&self, 0);
  async_clear (&self);
}

typedef struct
{
  Async *self;
  TarnBlock *block;
} Hold;

/* In a thread that ends: its default stream goes on. */
static gpointer
use_own_stream (gpointer data)
{
  Hold *hold = data;

  SUCCEED (tarn->cuCtxPushCurrent (hold->self->base.test->context));
  hold->block = take_direct (hold->self, PER_THREAD);
  gate_close (&hold->self->base.gate, PER_THREAD);
  put_write (hold->block, 1, PER_THREAD);
  return NULL;
}

/* The default stream of another thread cannot be named, and is waited for. */
static void
test_other_thread (const TarnCudaTest *test, gconstpointer unused)
{
  Hold hold;
  Async self;

  (void) unused;
  if (!async_init (&self, test))
    return;
  hold.self = &self;
  g_thread_join (g_thread_new ("own", use_own_stream, &hold));
  tarn_block_free (hold.block);
  assert_live (&self, 1);
  gate_open (&self.base.gate);
  SUCCEED (cuda.cuStreamSynchronize (LEGACY));
  SUCCEED (cuda.cuCtxSynchronize ());
  assert_live (&self, 0);
  async_clear (&self);
}

/* A pool gives back what a stream has used while another one is held up: cuMemFree would wait. */
static void
test_pool (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;
  TarnPool *pool;
  TarnBlock *block;
  Async self;

  (void) unused;
  if (!async_init (&self, test))
    return;
  pool = tarn_pool_new (self.allocator, NULL, &error);
  g_assert_no_error (error);
  block = tarn_cuda_pool_allocate (pool, SIZE, self.base.a, &error);
  g_assert_no_error (error);
  put_write (block, 42, self.base.a);
  g_assert_cmpuint (tarn_cuda_block_get_device_pointer (block), !=, 0);
  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_CRITICAL,
                         "tarn_cuda_block_get_host_pointer: *'cuda-async', but must be*");
  g_assert_null (tarn_cuda_block_get_host_pointer (block));
  g_test_assert_expected_messages ();
  SUCCEED (cuda.cuStreamSynchronize (self.base.a));
  g_assert_cmpuint (read_word (&self.base, block), ==, 42);
  /* The pool then knows the stream to be done without waiting for all of the others. */
  g_assert_true (tarn_block_wait (block, &error));
  g_assert_no_error (error);
  gate_close (&self.base.gate, self.base.b);
  tarn_block_free (block);
  tarn_pool_free_held (pool);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (pool), ==, 0);
  assert_live (&self, 0);
  gate_open (&self.base.gate);
  tarn_pool_unref (pool);
  async_clear (&self);
}

/* A library's memory and ours are of one pool: the device's current one, or one that is given. */
static void
test_shared (const TarnCudaTest *test, gconstpointer unused)
{
  CUmemoryPool before = NULL, own, given;
  TarnAllocator *from_given;
  TarnBlock *block, *second;
  CUdeviceptr theirs = 0;
  Async self;

  (void) unused;
  if (!async_init (&self, test))
    return;
  SUCCEED (pools.cuDeviceGetMemPool (&before, test->device));
  own = async_pool_create (test->device);
  given = async_pool_create (test->device);
  from_given = make (given);
  SUCCEED (pools.cuDeviceSetMemPool (test->device, own));
  SUCCEED (pools.cuMemAllocAsync (&theirs, SIZE, self.base.a));
  g_assert_cmpuint (get_used (own), >=, SIZE);
  block = take_direct (&self, NULL);
  g_assert_cmpuint (get_used (own), >=, 2 * SIZE);
  g_assert_cmpuint (get_used (given), ==, 0);
  second = tarn_allocator_allocate (from_given, SIZE, NULL);
  g_assert_nonnull (second);
  g_assert_cmpuint (get_used (given), >=, SIZE);
  SUCCEED (pools.cuMemFreeAsync (theirs, self.base.a));
  tarn_block_free (second);
  tarn_block_free (block);
  SUCCEED (cuda.cuCtxSynchronize ());
  g_assert_cmpuint (get_used (own), ==, 0);
  g_assert_cmpuint (get_used (given), ==, 0);
  tarn_allocator_unref (from_given);
  SUCCEED (pools.cuDeviceSetMemPool (test->device, before));
  SUCCEED (pools.cuMemPoolDestroy (own));
  SUCCEED (pools.cuMemPoolDestroy (given));
  async_clear (&self);
}

/* On the fake driver */

static void
finish_if_synchronized (const gchar *function, gpointer n)
{
  if (!g_str_equal (function, "cuStreamSynchronize"))
    return;
  ++*(guint *) n;
  fake->finish_all_work ();
}

/* Memory that a stream of a library's is still to free: whoever has it next may use it on any
 * stream at once, so the host has waited. */
static void
test_ready (const TarnCudaTest *test, gconstpointer unused)
{
  CUdeviceptr theirs = 0;
  TarnBlock *block;
  guint n = 0;
  Async self;

  (void) unused;
  if (!async_init (&self, test))
    return;
  fake->set_budget (test->device, 2 * SIZE); /* the fixture's own, and one more */
  SUCCEED (pools.cuMemAllocAsync (&theirs, SIZE, self.base.a));
  fake->put_work (self.base.a);
  SUCCEED (pools.cuMemFreeAsync (theirs, self.base.a));
  assert_live (&self, 1);
  fake->set_hook (finish_if_synchronized, &n);
  block = take_direct (&self, NULL);
  fake->set_hook (NULL, NULL);
  g_assert_cmpuint (n, ==, 1);
  g_assert_true (tarn_cuda_block_get_device_pointer (block) == theirs);
  put_write (block, 42, self.base.b); /* ends the test if it is too early */
  g_assert_cmpuint (read_word (&self.base, block), ==, 42);
  tarn_block_free (block);
  assert_live (&self, 0);
  async_clear (&self);
}

/* What is allocated and freed meanwhile has nothing to do with the graph, in any mode. */
static void
test_capture (const TarnCudaTest *test, gconstpointer unused)
{
  Async self;

  (void) unused;
  if (!async_init (&self, test))
    return;
  for (guint mode = 0; mode < 3; mode++)
    {
      CUgraph graph = NULL;

      SUCCEED (cuda.cuStreamBeginCapture (self.base.a, mode));
      tarn_block_free (take_direct (&self, NULL));
      tarn_block_free (take_direct (&self, self.base.b));
      SUCCEED (cuda.cuStreamEndCapture (self.base.a, &graph));
      SUCCEED (cuda.cuGraphDestroy (graph));
      assert_live (&self, 0);
    }
  async_clear (&self);
}

/* A graph has memory of its own from a pool over such memory, until it is released. */
static void
test_graph (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;
  CUgraph captured = NULL;
  TarnBlock *block, *other;
  CUdeviceptr address;
  guint64 graph = 0;
  TarnPool *pool;
  Async self;

  (void) unused;
  if (!async_init (&self, test))
    return;
  pool = tarn_pool_new (self.allocator, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (tarn_cuda_pool_begin_graph (pool, self.base.a, &graph, &error));
  g_assert_no_error (error);
  SUCCEED (cuda.cuStreamBeginCapture (self.base.a, 0));
  block = tarn_cuda_pool_allocate (pool, SIZE, self.base.a, &error);
  g_assert_no_error (error);
  address = tarn_cuda_block_get_device_pointer (block);
  put_write (block, 1, self.base.a);
  tarn_block_free (block);
  SUCCEED (cuda.cuStreamEndCapture (self.base.a, &captured));
  g_assert_true (tarn_cuda_pool_end_graph (pool, graph, &error));
  g_assert_no_error (error);
  tarn_pool_free_held (pool);
  block = tarn_cuda_pool_allocate (pool, SIZE, self.base.a, &error);
  g_assert_no_error (error);
  other = take_direct (&self, NULL);
  g_assert_true (tarn_cuda_block_get_device_pointer (block) != address);
  g_assert_true (tarn_cuda_block_get_device_pointer (other) != address);
  tarn_block_free (other);
  tarn_block_free (block);
  SUCCEED (cuda.cuGraphDestroy (captured));
  g_assert_true (tarn_cuda_pool_release_graph (pool, graph, &error));
  g_assert_no_error (error);
  tarn_pool_unref (pool);
  assert_live (&self, 0);
  async_clear (&self);
}

/* The stream of a block is captured when it is freed: the free must not go into the graph, nobody
 * can tell when the stream is done, and so the memory is kept, with a message. */
static void
test_captured_free (const TarnCudaTest *test, gconstpointer unused)
{
  CUgraph graph = NULL;
  TarnBlock *block;
  CUdeviceptr address;
  Async self;

  (void) unused;
  if (!async_init (&self, test))
    return;
  block = take_direct (&self, self.base.a);
  address = tarn_cuda_block_get_device_pointer (block);
  SUCCEED (cuda.cuStreamBeginCapture (self.base.a, 0));
  g_test_expect_message ("Tarn", G_LOG_LEVEL_MESSAGE,
                         "*captures a graph*the allocator does not free a block of 65536 bytes, "
                         "because commands may still use it");
  tarn_block_free (block);
  g_test_assert_expected_messages ();
  SUCCEED (cuda.cuStreamEndCapture (self.base.a, &graph));
  SUCCEED (cuda.cuGraphDestroy (graph));
  assert_live (&self, 1);
  SUCCEED (pools.cuMemFreeAsync (address, self.base.a));
  async_clear (&self);
}

/* Begins to capture a stream when memory is about to be freed on it, as another thread may. */
static void
capture_at_free (const gchar *function, gpointer data)
{
  CUstream *stream = data;

  if (strcmp (function, "cuMemFreeAsync") != 0 || *stream == NULL)
    return;
  SUCCEED (cuda.cuStreamBeginCapture (*stream, 0));
  *stream = NULL;
}

/* A free of memory right after its stream began to be captured does as little to the graph as one
 * during the capture, and the memory is kept, too. */
static void
test_captured_just_then (const TarnCudaTest *test, gconstpointer unused)
{
  CUgraph graph = NULL;
  CUstream stream;
  TarnBlock *block;
  CUdeviceptr address;
  Async self;

  (void) unused;
  if (!async_init (&self, test))
    return;
  block = take_direct (&self, self.base.a);
  address = tarn_cuda_block_get_device_pointer (block);
  stream = self.base.a;
  g_test_expect_message ("Tarn", G_LOG_LEVEL_MESSAGE,
                         "*captures a graph*the allocator does not free a block of 65536 bytes, "
                         "because commands may still use it");
  fake->set_hook (capture_at_free, &stream);
  tarn_block_free (block);
  fake->set_hook (NULL, NULL);
  g_test_assert_expected_messages ();
  g_assert_null (stream);
  SUCCEED (cuda.cuStreamEndCapture (self.base.a, &graph));
  SUCCEED (cuda.cuGraphDestroy (graph));
  assert_live (&self, 1);
  SUCCEED (pools.cuMemFreeAsync (address, self.base.a));
  async_clear (&self);
}

/* What went with its context is counted, and a stream of a dead context is not touched. */
static void
test_lost (const TarnCudaTest *test, gconstpointer unused)
{
  CUcontext doomed = cuda_context_new (test->device);
  g_autoptr (GError) error = NULL;
  TarnAllocator *allocator;
  TarnBlock *block, *used;
  CUstream stream;

  (void) unused;
  async_load ();
  SUCCEED (tarn->cuCtxPushCurrent (doomed));
  allocator = make (NULL);
  stream = order_stream_new ();
  SUCCEED (tarn->cuCtxPopCurrent (&doomed));
  block = tarn_allocator_allocate (allocator, 1000, &error);
  used = tarn_allocator_allocate (allocator, 2000, &error);
  g_assert_no_error (error);
  g_assert_true (tarn_cuda_block_record_use (used, stream, &error));
  SUCCEED (tarn->cuCtxDestroy (doomed));
  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_MESSAGE, "*1000 bytes*context was destroyed*");
  tarn_block_free (block);
  g_test_assert_expected_messages ();
  tarn_block_free (used);
  g_assert_cmpuint (tarn_cuda_allocator_get_lost_bytes (allocator), ==, 3000);
  g_assert_null (tarn_allocator_allocate (allocator, 1000, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST);
  tarn_allocator_unref (allocator);
}

/* Threads allocate and free on streams of their own. */

#define N_THREADS 4
#define N_ROUNDS 500

typedef struct
{
  const Async *self;
  TarnPool *pool;
} Work;

static gpointer
work (gpointer data)
{
  const Work *own = data;
  CUcontext popped;
  CUstream stream;

  SUCCEED (tarn->cuCtxPushCurrent (own->self->base.test->context));
  stream = order_stream_new ();
  for (guint i = 0; i < N_ROUNDS; i++)
    {
      TarnBlock *direct = take_direct (own->self, stream);
      TarnBlock *block = tarn_cuda_pool_allocate (own->pool, SIZE + i, stream, NULL);

      g_assert_nonnull (block);
      put_write (direct, i, stream);
      put_write (block, i, stream);
      tarn_block_free (direct);
      tarn_block_free (block);
      if (i % 50 == 0)
        tarn_pool_free_held (own->pool);
    }
  SUCCEED (cuda.cuStreamSynchronize (stream));
  g_assert_true (tarn_cuda_pool_forget_stream (own->pool, stream, NULL));
  order_stream_free (stream);
  SUCCEED (tarn->cuCtxPopCurrent (&popped));
  return NULL;
}

static void
test_threads (const TarnCudaTest *test, gconstpointer unused)
{
  GThread *threads[N_THREADS];
  Async self;
  Work own;

  (void) unused;
  if (!async_init (&self, test))
    return;
  own = (Work){ &self, tarn_pool_new (self.allocator, NULL, NULL) };
  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("work", work, &own);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  tarn_pool_unref (own.pool);
  assert_live (&self, 0);
  async_clear (&self);
}

int
main (int argc, char **argv)
{
  order_init (cuda_get_fake ());
  g_test_init (&argc, &argv, NULL);
  if (fake != NULL)
    tarn_cuda_test_add ("async/not-supported", test_not_supported, NULL);
  tarn_cuda_test_add ("async/free", test_free, NULL);
  tarn_cuda_test_add ("async/free-on", test_free_on, NULL);
  tarn_cuda_test_add ("async/other-thread", test_other_thread, NULL);
  tarn_cuda_test_add ("async/pool", test_pool, NULL);
  tarn_cuda_test_add ("async/shared", test_shared, NULL);
  tarn_cuda_test_add ("async/capture", test_capture, NULL);
  tarn_cuda_test_add ("async/graph", test_graph, NULL);
  tarn_cuda_test_add ("async/threads", test_threads, NULL);
  if (fake == NULL || FAKE_CUDA_VERSION < 11020)
    return g_test_run ();
  tarn_cuda_test_add ("async/ready", test_ready, NULL);
  tarn_cuda_test_add ("async/captured-free", test_captured_free, NULL);
  tarn_cuda_test_add ("async/captured-just-then", test_captured_just_then, NULL);
  tarn_cuda_test_add ("async/lost", test_lost, NULL);
  return g_test_run ();
}
