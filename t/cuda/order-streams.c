/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Streams that are destroyed, whose next one has the same handle; streams and threads that are of
 * another context, or of none; contexts that go first.  Both drivers crash where a destroyed stream
 * is asked anything. */

#include "order-fixture.h"
#include "order.h"

static void
forget (const Fixture *fixture, CUstream stream)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (tarn_cuda_pool_forget_stream (fixture->pool, stream, &error));
  g_assert_no_error (error);
}

static void
destroy (CUstream *stream)
{
  order_stream_free (g_steal_pointer (stream));
}

/* With the handle of one that was destroyed just now, if the driver gives it. */
static CUstream
make_heir (CUstream handle)
{
  CUstream heir = order_stream_new ();

  g_test_message ("the next stream has %s handle", heir == handle ? "the same" : "another");
  if (fake != NULL)
    g_assert_true (heir == handle);
  return heir;
}

/* A block that the destroyed stream still uses is nobody's before it is idle, its heir's neither.
 */
static void
test_forgotten (const TarnCudaTest *test, gconstpointer is_second)
{
  Fixture fixture;
  CUstream handle;
  TarnBlock *block, *fresh;
  guint64 address;

  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  if (GPOINTER_TO_INT (is_second))
    use_once (&fixture, OTHER_SIZE, fixture.b);
  handle = fixture.a;
  block = take (&fixture, SIZE, fixture.a);
  address = get_address (block);
  gate_close (&fixture.gate, fixture.a);
  put_write (block, 1, fixture.a);
  tarn_block_free (block);
  forget (&fixture, fixture.a);
  assert_valid (fixture.pool);
  destroy (&fixture.a);

  fixture.a = make_heir (handle);
  fresh = take (&fixture, SIZE, fixture.a);
  g_assert_cmphex (get_address (fresh), !=, address);
  put_write (fresh, 2, fixture.a);
  if (fake != NULL) /* a device may put it behind the one that was destroyed */
    SUCCEED (cuda.cuStreamSynchronize (fixture.a));
  gate_open (&fixture.gate);
  SUCCEED (cuda.cuCtxSynchronize ());
  block = take (&fixture, SIZE, fixture.a);
  g_assert_cmphex (get_address (block), ==, address);
  g_assert_cmphex (read_word (&fixture, block), ==, 1);
  g_assert_cmphex (read_word (&fixture, fresh), ==, 2);
  tarn_block_free (fresh);
  tarn_block_free (block);
  fixture_clear (&fixture);
}

/* A block in use may be freed after its stream is gone. */
static void
test_forgotten_in_use (const TarnCudaTest *test, gconstpointer unused)
{
  Fixture fixture;
  CUstream handle;
  TarnBlock *block, *next, *fresh;
  guint64 address;

  (void) unused;
  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  handle = fixture.a;
  block = take (&fixture, SIZE, fixture.a);
  address = get_address (block);
  tarn_cuda_block_record_use (block, fixture.b, NULL);
  gate_close (&fixture.gate, fixture.a);
  put_write (block, 1, fixture.a);
  forget (&fixture, fixture.a);
  destroy (&fixture.a);
  fixture.a = make_heir (handle);
  g_assert_true (tarn_cuda_block_record_use (block, fixture.a, NULL));
  tarn_block_free (block);

  fresh = take (&fixture, SIZE, fixture.c);
  g_assert_cmphex (get_address (fresh), !=, address);
  gate_open (&fixture.gate);
  SUCCEED (cuda.cuCtxSynchronize ());
  next = take (&fixture, SIZE, fixture.c);
  g_assert_cmphex (get_address (next), ==, address);
  g_assert_cmphex (read_word (&fixture, next), ==, 1);
  tarn_block_free (fresh);
  tarn_block_free (next);
  fixture_clear (&fixture);
}

/* Everything that a pool does with what an idle stream has left, which nobody had to announce. */
static void
test_idle_destroyed (const TarnCudaTest *test, gconstpointer unused)
{
  Fixture fixture;
  TarnBlock *block;

  (void) unused;
  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  use_once (&fixture, SIZE, fixture.a);
  use_once (&fixture, OTHER_SIZE, fixture.a);
  SUCCEED (cuda.cuStreamSynchronize (fixture.a));
  destroy (&fixture.a);
  use_once (&fixture, SIZE, fixture.b); /* wants what is held */
  use_once (&fixture, OTHER_SIZE, fixture.c);
  use_once (&fixture, SIZE, PER_THREAD);
  block = take (&fixture, SIZE, fixture.b);
  tarn_cuda_block_record_use (block, fixture.c, NULL);
  tarn_block_free (block);
  SUCCEED (cuda.cuStreamSynchronize (fixture.b));
  SUCCEED (cuda.cuStreamSynchronize (fixture.c));
  destroy (&fixture.b);
  destroy (&fixture.c);
  tarn_block_free (tarn_pool_allocate (fixture.pool, SIZE, NULL));
  tarn_pool_free_held (fixture.pool);
  use_once (&fixture, SIZE, fixture.apart);
  fixture_clear (&fixture);

  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  use_once (&fixture, SIZE, fixture.a);
  destroy (&fixture.a);
  fixture_clear (&fixture); /* and gives back */
}

/* What the pool has never met it need not forget. */
static void
test_unknown (const TarnCudaTest *test, gconstpointer unused)
{
  Fixture fixture;

  (void) unused;
  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  forget (&fixture, fixture.a);
  forget (&fixture, NULL);
  forget (&fixture, PER_THREAD);
  use_once (&fixture, SIZE, fixture.a);
  forget (&fixture, fixture.b);
  fixture_clear (&fixture);
}

static void
assert_refused (Fixture *fixture, CUstream stream)
{
  TarnBlock *block = take (fixture, SIZE, fixture->a);
  g_autoptr (GError) error = NULL;
  g_autoptr (GError) record_error = NULL;

  g_assert_null (tarn_pool_allocate_ordered (fixture->pool, SIZE, stream, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_false (tarn_block_record_use (block, stream, &record_error));
  g_assert_error (record_error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  tarn_block_free (block);
}

static void
test_refused (const TarnCudaTest *test, gconstpointer unused)
{
  Fixture fixture;
  CUcontext other;
  CUstream foreign;

  (void) unused;
  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  SUCCEED (tarn->cuCtxCreate (&other, 0, test->device));
  foreign = order_stream_new ();
  assert_refused (&fixture, foreign); /* while its context is current, and while it is not */
  SUCCEED (tarn->cuCtxPopCurrent (&other));
  assert_refused (&fixture, foreign);
  assert_refused (&fixture, PER_THREAD);
  SUCCEED (tarn->cuCtxDestroy (other));
  fixture_clear (&fixture);
}

/* Threads whose current context is none, or another one */

static gpointer
use_all_streams (gpointer data)
{
  Fixture *fixture = data;
  const CUstream streams[] = { NULL, PER_THREAD, fixture->a, LEGACY, fixture->b, PER_THREAD };

  for (gsize i = 0; i < G_N_ELEMENTS (streams); i++)
    {
      g_autoptr (GError) error = NULL;
      TarnBlock *block = take (fixture, SIZE, streams[i]);

      tarn_cuda_block_record_use (block, NULL, &error);
      g_assert_no_error (error);
      tarn_cuda_block_record_use (block, PER_THREAD, &error);
      g_assert_no_error (error);
      tarn_block_free (block);
      use_once (fixture, SIZE * 2, streams[i]);
    }
  tarn_cuda_pool_forget_stream (fixture->pool, PER_THREAD, NULL);
  tarn_pool_free_held (fixture->pool);
  return NULL;
}

static void
test_no_context (const TarnCudaTest *test, gconstpointer unused)
{
  Fixture fixture;
  CUcontext other;

  (void) unused;
  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  g_thread_join (g_thread_new ("no-context", use_all_streams, &fixture));
  SUCCEED (tarn->cuCtxCreate (&other, 0, test->device));
  use_all_streams (&fixture);
  SUCCEED (tarn->cuCtxDestroy (other));
  fixture_clear (&fixture);
}

/* Blocks that are handed over, or waited for: NULL is a stream, and none is the host */

static void
assert_stream (const TarnBlock *block, CUstream expected)
{
  CUstream stream = NULL;

  g_assert_true (tarn_cuda_block_get_stream (block, &stream));
  g_assert_true (stream == expected);
}

static void
assert_no_stream (const TarnBlock *block)
{
  CUstream stream = PER_THREAD;

  g_assert_false (tarn_cuda_block_get_stream (block, &stream));
  g_assert_true (stream == PER_THREAD);
}

/* Its own per-thread stream is another one. */
static gpointer
look_from_elsewhere (gpointer block)
{
  assert_no_stream (block);
  return NULL;
}

static void
check_move (Fixture *fixture, TarnBlock *block, CUstream stream)
{
  g_autoptr (GError) error = NULL;

  gate_close (&fixture->gate, fixture->a);
  put_write (block, 0x01d, fixture->a);
  g_assert_true (tarn_cuda_block_move_to_stream (block, stream, &error));
  g_assert_no_error (error);
  assert_stream (block, stream != NULL ? stream : LEGACY);
  if (stream == PER_THREAD)
    g_thread_join (g_thread_new ("elsewhere", look_from_elsewhere, block));
  put_write (block, 0x4e3, stream);
  assert_waits (fixture, stream);
  gate_open (&fixture->gate);
  g_assert_true (tarn_block_wait (block, &error));
  g_assert_no_error (error);
  assert_no_stream (block);
  g_assert_cmphex (read_word (fixture, block), ==, 0x4e3);
}

static void
test_move (const TarnCudaTest *test, gconstpointer is_direct)
{
  Fixture fixture;
  CUstream streams[] = { NULL, LEGACY, PER_THREAD, NULL };

  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  streams[3] = fixture.b;
  for (gsize i = 0; i < G_N_ELEMENTS (streams); i++)
    {
      g_autoptr (TarnBlock) block = is_direct != NULL
                                        ? tarn_allocator_allocate (fixture.allocator, SIZE, NULL)
                                        : tarn_pool_allocate (fixture.pool, SIZE, NULL);

      assert_no_stream (block);
      g_assert_true (tarn_cuda_block_record_use (block, fixture.a, NULL));
      assert_stream (block, fixture.a);
      check_move (&fixture, block, streams[i]);
    }
  fixture_clear (&fixture);
}

/* A context that is destroyed first */

typedef struct
{
  CUcontext context;
  TarnAllocator *allocator;
  TarnPool *pool;
  CUstream a, b;
  TarnBlock *blocks[3];
} Doomed;

/* What a program may have: blocks in use, and held, recorded and not; waits; a stream forgotten. */
static void
doomed_init (Doomed *doomed, CUdevice device)
{
  g_autoptr (GError) error = NULL;
  CUstream third;

  SUCCEED (tarn->cuCtxCreate (&doomed->context, 0, device));
  doomed->a = order_stream_new ();
  doomed->b = order_stream_new ();
  third = order_stream_new ();
  doomed->allocator = tarn_cuda_device_allocator_new (NULL, &error);
  doomed->pool = tarn_pool_new (doomed->allocator, NULL, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (doomed->blocks); i++)
    doomed->blocks[i]
        = tarn_cuda_pool_allocate (doomed->pool, SIZE, i == 0 ? doomed->a : doomed->b, &error);
  g_assert_no_error (error);
  tarn_cuda_block_record_use (doomed->blocks[1], third, &error);
  tarn_cuda_block_record_use (doomed->blocks[2], NULL, &error);
  tarn_block_free (tarn_cuda_pool_allocate (doomed->pool, OTHER_SIZE, third, &error));
  tarn_block_free (tarn_cuda_pool_allocate (doomed->pool, OTHER_SIZE, doomed->a, &error));
  tarn_block_free (tarn_cuda_pool_allocate (doomed->pool, 2 * SIZE, doomed->a, &error));
  tarn_cuda_pool_forget_stream (doomed->pool, third, &error);
  g_assert_no_error (error);
  SUCCEED (tarn->cuCtxPopCurrent (&doomed->context));
}

/* Of @stream, which is the handle of one that died with the context, or a default one. */
static void
assert_lost (TarnPool *pool, CUstream stream)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (tarn_cuda_pool_allocate (pool, 100 * SIZE, stream, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST);
  assert_valid (pool);
}

static void
use_lost (Doomed *doomed)
{
  g_autoptr (GError) error = NULL;

  tarn_block_free (doomed->blocks[0]);
  g_assert_false (tarn_cuda_block_record_use (doomed->blocks[1], PER_THREAD, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST);
  g_clear_error (&error);
  tarn_cuda_pool_forget_stream (doomed->pool, NULL, &error);
  g_assert_error (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST);
  tarn_block_free (doomed->blocks[1]);
  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_MESSAGE, "*context was destroyed*once*");
  assert_lost (doomed->pool, NULL); /* which stops holding */
  g_test_assert_expected_messages ();
  g_assert_cmpuint (tarn_pool_get_held_blocks (doomed->pool), ==, 0);
  assert_lost (doomed->pool, PER_THREAD);
  assert_lost (doomed->pool, doomed->a);
  g_assert_null (tarn_pool_allocate (doomed->pool, SIZE, NULL));
}

static void
count_calls (const gchar *function, gpointer data)
{
  (void) function;
  ++*(guint *) data;
}

static void
test_lost (const TarnCudaTest *test, gconstpointer unused)
{
  Fixture fixture;
  Doomed doomed;
  guint n_calls = 0, n_asked;
  gsize bytes;

  (void) unused;
  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  if (tarn->cuCtxGetId == NULL)
    {
      g_test_skip ("this driver cannot tell a context from a later one at its address");
      fixture_clear (&fixture);
      return;
    }
  doomed_init (&doomed, test->device);
  bytes = tarn_pool_get_managed_bytes (doomed.pool);
  SUCCEED (tarn->cuCtxDestroy (doomed.context));
  if (fake != NULL)
    fake->set_hook (count_calls, &n_calls);
  n_asked = fake != NULL ? fake->get_calls ("cuCtxGetId") : 0;
  use_lost (&doomed);
  tarn_pool_unref (doomed.pool);
  tarn_block_free (doomed.blocks[2]);
  g_assert_cmpuint (tarn_cuda_allocator_get_lost_bytes (doomed.allocator), ==, bytes);
  tarn_allocator_unref (doomed.allocator);
  if (fake != NULL)
    {
      g_assert_cmpuint (fake->get_calls ("cuCtxGetId") - n_asked, ==, n_calls);
      fake->set_hook (NULL, NULL); /* which counts here */
    }
  fixture_clear (&fixture);
}

/* A program makes a stream for each task, which it forgets and destroys: the pool holds no more
 * than it may after each, and the heap has one task's memory. */
static void
test_tasks (const TarnCudaTest *test, gconstpointer unused)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  g_autoptr (TarnPool) pool = NULL;
  TarnBlock *blocks[8];
  Fixture fixture;

  (void) unused;
  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  pool = tarn_cuda_pool_new (test->context, NULL, NULL);
  for (guint i = 0; i < 100; i++)
    {
      CUstream stream = order_stream_new ();

      for (guint round = 0; round < 32; round++)
        {
          guint j = round % 8;

          blocks[j] = tarn_cuda_pool_allocate (pool, 10007 * (1 + (i * 37 + round * 11) % 100),
                                               stream, NULL);
          for (j = 0; round % 8 == 7 && j < 8; j++)
            tarn_block_free (blocks[j]);
        }
      SUCCEED (cuda.cuStreamSynchronize (stream));
      g_assert_true (tarn_cuda_pool_forget_stream (pool, stream, NULL));
      order_stream_free (stream);
      tarn_pool_get_stats (pool, &stats);
      g_assert_cmpuint (stats.held_bytes, <=, 8 << 20);
    }
  g_clear_pointer (&pool, tarn_pool_unref);
  fixture_clear (&fixture);
}

static gpointer
get_own_queue (gpointer unused)
{
  (void) unused;
  return tarn_cuda_stream_get_queue (PER_THREAD);
}

/* Functions that take queues know no default streams. */
static void
test_queues (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;
  Fixture fixture;
  const CUstream streams[] = { NULL, LEGACY, PER_THREAD };
  TarnBlock *block;

  (void) unused;
  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  for (gsize i = 0; i < G_N_ELEMENTS (streams); i++)
    {
      gpointer queue = tarn_cuda_stream_get_queue (streams[i]);

      block = tarn_pool_allocate_timeout (fixture.pool, SIZE, queue, 0, &error);
      g_assert_no_error (error);
      assert_stream (block, i == 2 ? PER_THREAD : LEGACY);
      tarn_block_free (block);
      g_assert_true (tarn_pool_reserve (fixture.pool, SIZE, queue, &error));
    }
  g_assert_true (tarn_cuda_stream_get_queue (fixture.a) == fixture.a);
  g_assert_true (g_thread_join (g_thread_new ("elsewhere", get_own_queue, NULL))
                 != tarn_cuda_stream_get_queue (PER_THREAD));

  g_assert_null (tarn_pool_allocate_ordered (fixture.pool, SIZE, PER_THREAD, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "tarn_cuda_stream_get_queue"));
  g_clear_error (&error);
  g_assert_false (tarn_pool_reserve (fixture.pool, SIZE, PER_THREAD, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  fixture_clear (&fixture);
}

/* A request that a thread makes for the default stream of another one. */
typedef struct
{
  Fixture *fixture;
  gpointer queue; /* the other one's */
  TarnBlock *block;
} Errand;

static gpointer
request_for_another (gpointer data)
{
  Errand *errand = data;
  g_autoptr (GError) error = NULL;

  errand->block = tarn_pool_allocate_ordered (errand->fixture->pool, SIZE, errand->queue, &error);
  g_assert_no_error (error);
  return NULL;
}

static gpointer
move_for_another (gpointer data)
{
  Errand *errand = data;
  g_autoptr (GError) error = NULL;

  errand->block = take (errand->fixture, SIZE, errand->fixture->a);
  tarn_block_move_to_queue (errand->block, errand->queue, &error);
  g_assert_no_error (error);
  return NULL;
}

typedef gpointer (*ErrandFunc) (gpointer data);

/* The queue of a thread's default stream may be named in any thread: that stream waits, and not the
 * other thread's. */
static void
run_errand (Fixture *fixture, ErrandFunc func)
{
  Errand errand = { fixture, tarn_cuda_stream_get_queue (PER_THREAD), NULL };
  TarnBlock *before = take (fixture, SIZE, fixture->a);
  guint64 address = get_address (before);

  gate_close (&fixture->gate, fixture->a);
  put_write (before, 1, fixture->a);
  tarn_block_free (before);
  g_thread_join (g_thread_new ("errand", func, &errand));
  g_assert_cmphex (get_address (errand.block), ==, address);
  put_write (errand.block, 2, PER_THREAD);
  assert_waits (fixture, PER_THREAD);
  gate_open (&fixture->gate);
  SUCCEED (cuda.cuStreamSynchronize (PER_THREAD));
  g_assert_cmpuint (read_word (fixture, errand.block), ==, 2);
  tarn_block_free (errand.block);
}

static void
test_errands (const TarnCudaTest *test, gconstpointer unused)
{
  Fixture fixture;

  (void) unused;
  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  use_once (&fixture, OTHER_SIZE, fixture.c);
  hand_on (fixture.pool, SIZE);
  run_errand (&fixture, request_for_another);
  run_errand (&fixture, move_for_another);
  fixture_clear (&fixture);
}

void
order_add_streams (void)
{
  tarn_cuda_test_add ("order/streams/other-threads-default", test_errands, NULL);
  tarn_cuda_test_add ("order/streams/queues", test_queues, NULL);
  tarn_cuda_test_add ("order/streams/forgotten", test_forgotten, GINT_TO_POINTER (FALSE));
  tarn_cuda_test_add ("order/streams/forgotten-of-two", test_forgotten, GINT_TO_POINTER (TRUE));
  tarn_cuda_test_add ("order/streams/forgotten-in-use", test_forgotten_in_use, NULL);
  tarn_cuda_test_add ("order/streams/idle-destroyed", test_idle_destroyed, NULL);
  tarn_cuda_test_add ("order/streams/unknown", test_unknown, NULL);
  tarn_cuda_test_add ("order/streams/refused", test_refused, NULL);
  tarn_cuda_test_add ("order/streams/no-context", test_no_context, NULL);
  tarn_cuda_test_add ("order/streams/lost", test_lost, NULL);
  tarn_cuda_test_add ("order/streams/tasks", test_tasks, NULL);
  tarn_cuda_test_add ("order/streams/move", test_move, GINT_TO_POINTER (FALSE));
  tarn_cuda_test_add ("order/streams/move-without-pool", test_move, GINT_TO_POINTER (TRUE));
}
