/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memory of CUDA graphs when something fails: mistakes of the program, a capture that has failed,
 * and each call of the driver in turn. */

#include "graphs-fixture.h"

#define ASSERT_INVALID(call)                                                                       \
  G_STMT_START                                                                                     \
  {                                                                                                \
    g_assert_false (call);                                                                         \
    g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);                               \
    g_clear_error (&error);                                                                        \
  }                                                                                                \
  G_STMT_END

/* Mistakes are errors, and change nothing. */
static void
test_mistakes (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (MIB);
  g_autoptr (TarnAllocator) foreign = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) other = tarn_pool_new (foreign, NULL, NULL);
  g_autoptr (GError) error = NULL;
  guint64 graph, none = 17;
  World world, second;

  (void) unused;
  world_init (&world, test, HEAP);
  world_init (&second, test, WHOLE);
  ASSERT_INVALID (tarn_cuda_pool_begin_graph (other, world.a, &none, &error));
  ASSERT_INVALID (tarn_cuda_pool_begin_graph (world.pool, NULL, &none, &error));
  ASSERT_INVALID (tarn_cuda_pool_begin_graph (world.pool, LEGACY, &none, &error));
  graph = begin_memory (world.pool, world.a);
  ASSERT_INVALID (tarn_cuda_pool_begin_graph (world.pool, world.a, &none, &error));
  g_assert_cmpuint (none, ==, 17);
  ASSERT_INVALID (tarn_cuda_pool_end_graph (second.pool, graph, &error));
  ASSERT_INVALID (tarn_cuda_pool_release_graph (second.pool, graph, &error));
  ASSERT_INVALID (tarn_cuda_pool_end_graph (world.pool, graph + 1, &error));
  end_memory (world.pool, graph);
  ASSERT_INVALID (tarn_cuda_pool_end_graph (world.pool, graph, &error));
  release_memory (world.pool, graph);
  ASSERT_INVALID (tarn_cuda_pool_end_graph (world.pool, graph, &error));
  ASSERT_INVALID (tarn_cuda_pool_release_graph (world.pool, graph, &error));
  g_clear_pointer (&second.pool, tarn_pool_unref);
  order_stream_free (second.a);
  order_stream_free (second.b);
  world_clear (&world);
}

static void
test_other_context (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;
  CUcontext other = cuda_context_new (test->device), popped;
  CUstream stream;
  guint64 graph;
  World world;

  (void) unused;
  world_init (&world, test, HEAP);
  SUCCEED (tarn->cuCtxPushCurrent (other));
  stream = order_stream_new ();
  ASSERT_INVALID (tarn_cuda_pool_begin_graph (world.pool, stream, &graph, &error));
  /* The current context is no matter. */
  graph = begin_graph (world.pool, world.a);
  tarn_block_free (take_block (world.pool, MIB, world.a));
  end_graph (world.pool, graph, world.a);
  release_memory (world.pool, graph);
  order_stream_free (stream);
  SUCCEED (tarn->cuCtxPopCurrent (&popped));
  SUCCEED (tarn->cuCtxDestroy (other));
  world_clear (&world);
}

/* A capture that has failed. */
static void
test_failed (const TarnCudaTest *test, gconstpointer unused)
{
  World world;
  CUgraph captured = NULL;
  CUdeviceptr address;
  guint64 graph;

  (void) unused;
  world_init (&world, test, HEAP);
  graph = begin_graph (world.pool, world.a);
  tarn_block_free (take_block (world.pool, MIB, world.a));
  if (tarn->cuMemAlloc (&address, 100) == TARN_CUDA_SUCCESS) /* which ends it */
    SUCCEED (tarn->cuMemFree (address));
  g_assert_cmpuint (cuda.cuStreamEndCapture (world.a, &captured), !=, TARN_CUDA_SUCCESS);
  end_memory (world.pool, graph);
  graph = begin_graph (world.pool, world.a);
  tarn_block_free (take_block (world.pool, MIB, world.a));
  end_graph (world.pool, graph, world.a);
  release_memory (world.pool, graph);
  release_memory (world.pool, graph - 1);
  g_assert_cmpuint (get_used (world.pool), ==, 0);
  world_clear (&world);
}

/* Each call of the driver failing in turn, once: what was begun can be ended, and all comes back,
 * at the latest with the next graph. */

static gboolean
capture_once (const World *world, guint64 *graph, GError **error)
{
  TarnBlock *blocks[3] = { NULL };
  gboolean is_fine = TRUE;
  unsigned int status;
  CUgraph captured;

  if (!tarn_cuda_pool_begin_graph (world->pool, world->a, graph, error))
    return FALSE;
  if (cuda.cuStreamBeginCapture (world->a, GLOBAL_MODE) != TARN_CUDA_SUCCESS)
    return FALSE; /* without an error: it is the test's call */
  for (guint i = 0; i < 3 && is_fine; i++)
    {
      blocks[i] = tarn_cuda_pool_allocate (world->pool, MIB << i, world->a, error);
      is_fine = blocks[i] != NULL;
    }
  for (guint i = 0; i < 3; i++)
    tarn_block_free (blocks[i]);
  status = cuda.cuStreamEndCapture (world->a, &captured);
  if (status != TARN_CUDA_SUCCESS && status != FAKE_CUDA_STREAM_CAPTURE_INVALIDATED)
    SUCCEED (cuda.cuStreamEndCapture (world->a, &captured)); /* it was this call that failed */
  return is_fine;
}

static gboolean
run_failing (World *world, guint nth)
{
  g_autoptr (GError) error = NULL;
  unsigned int mode = GLOBAL_MODE;
  guint64 graph = 0;
  gboolean is_fine;

  fake->fail (NULL, nth, FALSE, FAKE_CUDA_OUT_OF_MEMORY);
  is_fine = capture_once (world, &graph, &error);
  if (graph != 0)
    {
      end_memory (world->pool, graph);
      release_memory (world->pool, graph);
    }
  if (error != NULL)
    g_assert_false (is_fine);
  is_fine = fake->get_failed () == NULL;
  fake->fail (NULL, 0, FALSE, 0);
  SUCCEED (tarn->cuThreadExchangeStreamCaptureMode (&mode)); /* which may have failed, too */
  return is_fine;
}

static void
ignore (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer unused)
{
  (void) domain;
  (void) level;
  (void) unused;
  g_test_message ("%s", message);
}

static void
test_failures (const TarnCudaTest *test, gconstpointer way)
{
  guint handler = g_log_set_handler ("Tarn-CUDA", G_LOG_LEVEL_MESSAGE, ignore, NULL);
  gboolean is_over = FALSE;

  if (fake == NULL)
    g_test_skip ("a driver does not fail on demand");
  if (sizeof (gpointer) < 8 && test->device == 0)
    {
      g_test_skip ("the next device's tests need the addresses that a failing driver loses");
      is_over = TRUE;
    }
  for (guint nth = 1; fake != NULL && !is_over; nth++)
    {
      World world;
      guint64 graph;

      g_assert_cmpuint (nth, <, 1000);
      world_init (&world, test, GPOINTER_TO_UINT (way));
      is_over = run_failing (&world, nth);
      graph = begin_graph (world.pool, world.a);
      tarn_block_free (take_block (world.pool, MIB, world.a));
      end_graph (world.pool, graph, world.a);
      release_memory (world.pool, graph);
      g_assert_cmpuint (get_used (world.pool), ==, 0);
      g_clear_pointer (&world.pool, tarn_pool_unref);
      order_stream_free (world.a);
      order_stream_free (world.b);
    }
  g_log_remove_handler ("Tarn-CUDA", handler);
}

int
main (int argc, char **argv)
{
  order_init (cuda_get_fake ());
  g_test_init (&argc, &argv, NULL);
  tarn_cuda_test_add ("graphs/mistakes", test_mistakes, NULL);
  tarn_cuda_test_add ("graphs/other-context", test_other_context, NULL);
  tarn_cuda_test_add ("graphs/failed", test_failed, NULL);
  add_ways ("failures", test_failures, N_WAYS);
  return g_test_run ();
}
