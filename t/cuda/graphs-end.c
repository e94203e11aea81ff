/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Ends of memory of CUDA graphs: blocks that outlive their graph, every order of releases, a
 * context that is destroyed, a child of fork (). */

#include "graphs-fixture.h"
#include "lib/in-child.h"

/* A block may outlive its graph; it keeps the piece that it is in, and no other, until it is freed;
 * also while another graph is captured. */
static void
test_outlives (const TarnCudaTest *test, gconstpointer way)
{
  World world;
  TarnBlock *survivor, *blocks[N_BLOCKS];
  guint64 address, graph, other;

  world_init (&world, test, GPOINTER_TO_UINT (way));
  graph = begin_graph (world.pool, world.a);
  survivor = take_block (world.pool, 1000, world.a);
  address = get_address (survivor);
  for (guint i = 0; i < N_BLOCKS; i++)
    blocks[i] = take_block (world.pool, 8 * MIB, world.a);
  for (guint i = 0; i < N_BLOCKS; i++)
    tarn_block_free (blocks[i]);
  end_graph (world.pool, graph, world.a);
  g_assert_cmpuint (get_used (world.pool), >=, N_BLOCKS * 8 * MIB);
  release_memory (world.pool, graph);
  g_assert_cmpuint (get_used (world.pool), >=, 1000);
  g_assert_cmpuint (get_used (world.pool), <=, 64 * MIB);
  assert_apart (world.pool, world.a, &address, 1, 1000);
  g_assert_true (tarn_pool_find (world.pool, tarn_block_get_memory (survivor)) == survivor);

  other = begin_graph (world.pool, world.b);
  tarn_block_free (survivor);
  g_assert_cmpuint (get_used (world.pool), >=, 1000);
  end_graph (world.pool, other, world.b);
  g_assert_cmpuint (get_used (world.pool), ==, 0);
  release_memory (world.pool, other);

  graph = begin_graph (world.pool, world.a);
  survivor = take_block (world.pool, 1000, world.a);
  end_graph (world.pool, graph, world.a);
  release_memory (world.pool, graph);
  tarn_block_free (survivor);
  g_assert_cmpuint (get_used (world.pool), ==, 0);
  world_clear (&world);
}

/* The pool, the graph and its block may go in any order. */
static void
test_ends (const TarnCudaTest *test, gconstpointer way)
{
  static const guint orders[][3]
      = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };

  for (guint i = 0; i < G_N_ELEMENTS (orders); i++)
    {
      World world;
      TarnBlock *block;
      TarnPool *pool;
      guint64 graph;

      world_init (&world, test, GPOINTER_TO_UINT (way));
      pool = world.pool;
      graph = begin_graph (pool, world.a);
      block = take_block (pool, MIB, world.a);
      tarn_block_free (take_block (pool, MIB, world.a));
      if (i % 2 == 0)
        end_graph (pool, graph, world.a);
      else
        end_capture (world.a); /* and the memory is not ended */
      for (guint j = 0; j < 3; j++)
        if (orders[i][j] == 0)
          g_clear_pointer (&world.pool, tarn_pool_unref);
        else if (orders[i][j] == 1)
          release_memory (pool, graph);
        else
          tarn_block_free (block);
      world_clear (&world);
    }
}

/* A context that is gone takes the memory along. */
static void
test_lost (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;
  TarnCudaTest other = *test;
  CUcontext context, popped;
  World world;
  TarnBlock *block;
  guint64 graph;

  (void) unused;
  order_load ();
  if (tarn->cuCtxGetId == NULL)
    {
      g_test_skip ("the driver cannot tell that a context is gone");
      return;
    }
  context = cuda_context_new (test->device);
  SUCCEED (tarn->cuCtxPushCurrent (context));
  other.context = context;
  world_init (&world, &other, HEAP);
  graph = begin_graph (world.pool, world.a);
  block = take_block (world.pool, MIB, world.a);
  tarn_block_free (take_block (world.pool, MIB, world.a));
  end_graph (world.pool, graph, world.a);
  SUCCEED (tarn->cuCtxPopCurrent (&popped));
  SUCCEED (tarn->cuCtxDestroy (context));
  release_memory (world.pool, graph);
  g_assert_false (tarn_cuda_pool_begin_graph (world.pool, PER_THREAD, &graph, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST);
  tarn_block_free (block);
  tarn_pool_unref (world.pool);
}

static void
use_in_child (gpointer data)
{
  World *world = data;
  g_autoptr (GError) error = NULL;
  guint64 graph;

  g_assert_false (tarn_cuda_pool_begin_graph (world->pool, world->b, &graph, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_FORKED);
  g_clear_error (&error);
  g_assert_null (tarn_cuda_pool_allocate (world->pool, MIB, world->a, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_FORKED);
}

/* A child of fork () leaves everything as it is. */
static void
test_fork (const TarnCudaTest *test, gconstpointer unused)
{
  World world;
  TarnBlock *block;
  guint64 graph;

  (void) unused;
  world_init (&world, test, HEAP);
  graph = begin_graph (world.pool, world.a);
  block = take_block (world.pool, MIB, world.a);
  in_child (use_in_child, &world);
  tarn_block_free (block);
  end_graph (world.pool, graph, world.a);
  release_memory (world.pool, graph);
  world_clear (&world);
}

int
main (int argc, char **argv)
{
  order_init (cuda_get_fake ());
  g_test_init (&argc, &argv, NULL);
  add_ways ("outlives", test_outlives, N_WAYS);
  add_ways ("ends", test_ends, N_WAYS);
  tarn_cuda_test_add ("graphs/lost", test_lost, NULL);
  tarn_cuda_test_add ("graphs/fork", test_fork, NULL);
  return g_test_run ();
}
