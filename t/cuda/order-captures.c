/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * While a stream captures a graph, in the mode that most calls of the driver would end. */

#include <string.h>

#include "order-fixture.h"
#include "order.h"

#define GLOBAL_MODE 0 /* CU_STREAM_CAPTURE_MODE_GLOBAL */

static void
begin_capture (CUstream stream)
{
  SUCCEED (cuda.cuStreamBeginCapture (stream, GLOBAL_MODE));
}

/* Nothing has ended it before. */
static void
end_capture (CUstream stream)
{
  CUgraph graph = NULL;

  SUCCEED (cuda.cuStreamEndCapture (stream, &graph));
  g_assert_nonnull (graph);
  SUCCEED (cuda.cuGraphDestroy (graph));
}

static guint
count_calls (void)
{
  return fake != NULL ? fake->get_calls (NULL) : 0;
}

static void
assert_not_supported (Fixture *fixture, gsize size, CUstream stream)
{
  g_autoptr (GError) error = NULL;
  guint64 waits = get_queue_waits (fixture);

  g_assert_null (tarn_cuda_pool_allocate (fixture->pool, size, stream, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
  g_assert_nonnull (strstr (error->message, "captures"));
  g_assert_cmpuint (get_queue_waits (fixture), ==, waits);
  assert_valid (fixture->pool);
}

/* The pool's only stream. */
static void
test_alone (const TarnCudaTest *test, gconstpointer unused)
{
  Fixture fixture;
  TarnBlock *block;
  guint n_calls;

  (void) unused;
  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  use_once (&fixture, SIZE, fixture.a);
  begin_capture (fixture.a);
  n_calls = count_calls ();
  for (guint i = 0; i < 100; i++)
    {
      block = take (&fixture, SIZE, fixture.a);
      g_assert_true (tarn_cuda_block_record_use (block, fixture.a, NULL));
      tarn_block_free (block);
    }
  g_assert_cmpuint (count_calls (), ==, n_calls);
  block = take (&fixture, SIZE, fixture.a);
  put_write (block, 1, fixture.a);
  assert_not_supported (&fixture, SIZE, fixture.a);
  assert_not_supported (&fixture, OTHER_SIZE, fixture.a);
  tarn_block_free (block);
  end_capture (fixture.a);
  use_once (&fixture, OTHER_SIZE, fixture.a);
  fixture_clear (&fixture);
}

/* A pool that has met none meets the one that captures, and has nothing for it. */
static void
test_first (const TarnCudaTest *test, gconstpointer unused)
{
  Fixture fixture;

  (void) unused;
  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  begin_capture (fixture.a);
  assert_not_supported (&fixture, SIZE, fixture.a);
  end_capture (fixture.a);

  tarn_block_free (tarn_pool_allocate (fixture.pool, SIZE, NULL));
  begin_capture (fixture.a);
  use_once (&fixture, SIZE, fixture.a);
  end_capture (fixture.a);
  fixture_clear (&fixture);
}

/* A second stream that captures has no memory that was used, or fresh; but it can use the first
 * one's block. */
static void
test_second (const TarnCudaTest *test, gconstpointer unused)
{
  Fixture fixture;
  TarnBlock *block;

  (void) unused;
  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  use_once (&fixture, SIZE, fixture.a);
  block = take (&fixture, OTHER_SIZE, fixture.a);
  begin_capture (fixture.b);
  assert_not_supported (&fixture, SIZE, fixture.b);
  assert_not_supported (&fixture, 2 * SIZE, fixture.b);
  g_assert_true (tarn_cuda_block_record_use (block, fixture.b, NULL));
  if (fake != NULL)
    g_assert_cmpuint (fake->get_calls ("cuEventCreate"), ==, 0);
  end_capture (fixture.b);
  tarn_block_free (block);
  fixture_clear (&fixture);
}

static void
count_message (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer count)
{
  (void) domain;
  (void) level;
  g_test_message ("%s", message);
  ++*(guint *) count;
}

/* A second one that appears while the first captures: no event can be recorded for what is held,
 * which is no news, and it stays with the first. */
static void
test_meanwhile (const TarnCudaTest *test, gconstpointer unused)
{
  guint n_messages = 0;
  guint handler = g_log_set_handler ("Tarn", G_LOG_LEVEL_MESSAGE, count_message, &n_messages);
  CUgraph graph = NULL;
  Fixture fixture;
  TarnBlock *kept, *block;
  guint64 address;

  (void) unused;
  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  kept = take (&fixture, OTHER_SIZE, fixture.a); /* so that the pool goes on to know the stream */
  block = take (&fixture, SIZE, fixture.a);
  address = get_address (block);
  tarn_block_free (block);
  begin_capture (fixture.a);
  /* The driver may refuse fresh memory in the mode of this capture. */
  block = tarn_cuda_pool_allocate (fixture.pool, SIZE, fixture.b, NULL);
  g_assert_true (block == NULL || get_address (block) != address);
  g_assert_cmpuint (n_messages, ==, 0);
  if (cuda.cuStreamEndCapture (fixture.a, &graph) == FAKE_CUDA_SUCCESS)
    SUCCEED (cuda.cuGraphDestroy (graph));
  tarn_block_free (block);
  tarn_block_free (kept);
  fixture_clear (&fixture);
  g_log_remove_handler ("Tarn", handler);
}

/* A pool with several streams.  What is freed in a capture stays with its stream until that is
 * named after it. */
static void
test_several (const TarnCudaTest *test, gconstpointer unused)
{
  Fixture fixture;
  TarnBlock *block, *other;
  guint64 address;

  (void) unused;
  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  use_once (&fixture, OTHER_SIZE, fixture.b);
  block = take (&fixture, SIZE, fixture.a);
  address = get_address (block);
  begin_capture (fixture.a);
  assert_not_supported (&fixture, OTHER_SIZE, fixture.a); /* b used it last */
  put_write (block, 1, fixture.a);
  tarn_block_free (block);
  for (guint i = 0; i < 3; i++)
    {
      block = take (&fixture, SIZE, fixture.a);
      g_assert_cmphex (get_address (block), ==, address);
      tarn_block_free (block);
    }
  g_assert_false (tarn_cuda_pool_forget_stream (fixture.pool, fixture.a, NULL));
  end_capture (fixture.a);

  other = take (&fixture, SIZE, fixture.b);
  g_assert_cmphex (get_address (other), !=, address);
  use_once (&fixture, 2 * SIZE, fixture.a); /* an event is recorded */
  SUCCEED (cuda.cuStreamSynchronize (fixture.a));
  gate_close (&fixture.gate, fixture.a);
  block = take (&fixture, SIZE, fixture.b);
  g_assert_cmphex (get_address (block), ==, address);
  gate_open (&fixture.gate);
  tarn_block_free (block);
  tarn_block_free (other);
  SUCCEED (cuda.cuStreamSynchronize (fixture.a));
  fixture_clear (&fixture);
}

/* An event that comes later than the free is not waited for: the memory is another stream's once it
 * is idle. */
static void
test_left_over (const TarnCudaTest *test, gconstpointer is_forgotten)
{
  Fixture fixture;
  TarnBlock *block, *fresh[2];
  guint64 address;

  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  use_once (&fixture, OTHER_SIZE, fixture.b);
  block = take (&fixture, SIZE, fixture.a);
  address = get_address (block);
  begin_capture (fixture.a);
  tarn_block_free (block);
  end_capture (fixture.a);
  gate_close (&fixture.gate, fixture.a);
  fresh[0] = take (&fixture, SIZE, fixture.b); /* wants what the other holds */
  if (GPOINTER_TO_INT (is_forgotten))
    g_assert_true (tarn_cuda_pool_forget_stream (fixture.pool, fixture.a, NULL));
  else
    use_once (&fixture, OTHER_SIZE, fixture.a);
  fresh[1] = take (&fixture, SIZE, fixture.b);
  for (guint i = 0; i < 2; i++)
    {
      g_assert_cmphex (get_address (fresh[i]), !=, address);
      put_write (fresh[i], 2, fixture.b);
      SUCCEED (cuda.cuStreamSynchronize (fixture.b));
    }
  gate_open (&fixture.gate);
  SUCCEED (cuda.cuStreamSynchronize (fixture.a));
  block = take (&fixture, SIZE, fixture.b);
  g_assert_cmphex (get_address (block), ==, address);
  tarn_block_free (fresh[0]);
  tarn_block_free (fresh[1]);
  tarn_block_free (block);
  fixture_clear (&fixture);
}

/* The driver refuses to say in another stream's capture what is done, and that is no yes. */
static void
test_another_captures (const TarnCudaTest *test, gconstpointer unused)
{
  Fixture fixture;
  TarnBlock *block;
  CUgraph graph = NULL;
  guint64 address;

  (void) unused;
  fixture_init (&fixture, test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  hand_on (fixture.pool, SIZE);
  use_once (&fixture, OTHER_SIZE, fixture.b);
  block = take (&fixture, SIZE, fixture.a);
  address = get_address (block);
  gate_close (&fixture.gate, fixture.a);
  put_write (block, 1, fixture.a);
  tarn_block_free (block);
  begin_capture (fixture.c);
  block = take (&fixture, SIZE, fixture.b);
  g_assert_cmphex (get_address (block), ==, address);
  put_write (block, 2, fixture.b);
  if (cuda.cuStreamEndCapture (fixture.c, &graph) == FAKE_CUDA_SUCCESS)
    SUCCEED (cuda.cuGraphDestroy (graph));
  assert_waits (&fixture, fixture.b);
  gate_open (&fixture.gate);
  SUCCEED (cuda.cuStreamSynchronize (fixture.b));
  g_assert_cmphex (read_word (&fixture, block), ==, 2);
  tarn_block_free (block);
  fixture_clear (&fixture);
}

void
order_add_captures (void)
{
  tarn_cuda_test_add ("order/captures/alone", test_alone, NULL);
  tarn_cuda_test_add ("order/captures/first", test_first, NULL);
  tarn_cuda_test_add ("order/captures/second", test_second, NULL);
  tarn_cuda_test_add ("order/captures/meanwhile", test_meanwhile, NULL);
  tarn_cuda_test_add ("order/captures/several", test_several, NULL);
  tarn_cuda_test_add ("order/captures/left-over", test_left_over, GINT_TO_POINTER (FALSE));
  tarn_cuda_test_add ("order/captures/left-over-forgotten", test_left_over, GINT_TO_POINTER (TRUE));
  tarn_cuda_test_add ("order/captures/another", test_another_captures, NULL);
}
