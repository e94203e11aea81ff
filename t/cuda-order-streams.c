/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Streams that are destroyed, whose next one has the same handle, and streams of another context.
 * Both drivers crash where a destroyed stream is asked anything. */

#include "cuda-order-fixture.h"
#include "cuda-order.h"

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

/* A block that the destroyed stream still uses goes to its heir, and to nobody without a wait. */
static void
test_forgotten (const TarnCudaTest *test, gconstpointer is_second)
{
  Fixture fixture;
  CUstream handle;
  TarnBlock *block;
  guint64 address;

  fixture_init (&fixture, test, FAKE_CUDA_DEVICE_MEMORY);
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
  block = take (&fixture, SIZE, fixture.a);
  g_assert_cmphex (get_address (block), ==, address);
  put_write (block, 2, fixture.a);
  assert_waits (&fixture, fixture.a);
  gate_open (&fixture.gate);
  SUCCEED (cuda.cuStreamSynchronize (fixture.a));
  g_assert_cmphex (read_word (&fixture, block), ==, 2);
  tarn_block_free (block);
  fixture_clear (&fixture);
}

/* A block in use may be freed after its stream is gone. */
static void
test_forgotten_in_use (const TarnCudaTest *test, gconstpointer unused)
{
  Fixture fixture;
  CUstream handle;
  TarnBlock *block, *next;
  guint64 address;

  (void) unused;
  fixture_init (&fixture, test, FAKE_CUDA_DEVICE_MEMORY);
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

  next = take (&fixture, SIZE, fixture.c);
  g_assert_cmphex (get_address (next), ==, address);
  put_write (next, 2, fixture.c);
  assert_waits (&fixture, fixture.c);
  gate_open (&fixture.gate);
  SUCCEED (cuda.cuStreamSynchronize (fixture.c));
  g_assert_cmphex (read_word (&fixture, next), ==, 2);
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
  fixture_init (&fixture, test, FAKE_CUDA_DEVICE_MEMORY);
  use_once (&fixture, SIZE, fixture.a);
  use_once (&fixture, OTHER_SIZE, fixture.a);
  SUCCEED (cuda.cuStreamSynchronize (fixture.a));
  destroy (&fixture.a);
  use_once (&fixture, SIZE, fixture.b); /* what is held gets its marks */
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

  fixture_init (&fixture, test, FAKE_CUDA_DEVICE_MEMORY);
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
  fixture_init (&fixture, test, FAKE_CUDA_DEVICE_MEMORY);
  forget (&fixture, fixture.a);
  forget (&fixture, NULL);
  forget (&fixture, PER_THREAD);
  use_once (&fixture, SIZE, fixture.a);
  forget (&fixture, fixture.b);
  g_assert_false (fixture.pool->is_ordered);
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
  g_assert_false (fixture->pool->is_ordered);
}

static void
test_refused (const TarnCudaTest *test, gconstpointer unused)
{
  Fixture fixture;
  CUcontext other;
  CUstream foreign;

  (void) unused;
  fixture_init (&fixture, test, FAKE_CUDA_DEVICE_MEMORY);
  SUCCEED (tarn->cuCtxCreate (&other, 0, test->device));
  foreign = order_stream_new ();
  assert_refused (&fixture, foreign); /* while its context is current, and while it is not */
  SUCCEED (tarn->cuCtxPopCurrent (&other));
  assert_refused (&fixture, foreign);
  assert_refused (&fixture, PER_THREAD);
  SUCCEED (tarn->cuCtxDestroy (other));
  fixture_clear (&fixture);
}

void
order_add_streams (void)
{
  tarn_cuda_test_add ("order/streams/forgotten", test_forgotten, GINT_TO_POINTER (FALSE));
  tarn_cuda_test_add ("order/streams/forgotten-of-two", test_forgotten, GINT_TO_POINTER (TRUE));
  tarn_cuda_test_add ("order/streams/forgotten-in-use", test_forgotten_in_use, NULL);
  tarn_cuda_test_add ("order/streams/idle-destroyed", test_idle_destroyed, NULL);
  tarn_cuda_test_add ("order/streams/unknown", test_unknown, NULL);
  tarn_cuda_test_add ("order/streams/refused", test_refused, NULL);
}
