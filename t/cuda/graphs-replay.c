/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Launches of captured CUDA graphs: a graph finds in its memory what it has put there. */

#include <string.h>

#include "graphs-fixture.h"

/* Replays: the graph finds in its memory what it has put there, whatever others do. */

typedef struct
{
  unsigned int (*instantiate) (gpointer *exec, CUgraph graph, unsigned long long flags);
  unsigned int (*launch) (gpointer exec, CUstream stream);
  unsigned int (*destroy) (gpointer exec);
} Launcher;

static gboolean
launcher_init (Launcher *launcher)
{
  *(gpointer *) &launcher->instantiate = order_find_function ("cuGraphInstantiateWithFlags");
  *(gpointer *) &launcher->launch = order_find_function ("cuGraphLaunch");
  *(gpointer *) &launcher->destroy = order_find_function ("cuGraphExecDestroy");
  return launcher->instantiate != NULL && launcher->launch != NULL && launcher->destroy != NULL;
}

/* Captures temporaries that are written and freed, and a result that is read: the number of the
 * graph. */
static TarnBlock *
capture_work (const World *world, guint value, guint words[N_BLOCKS], gpointer *exec,
              const Launcher *launcher)
{
  TarnBlock *result = take_block (world->pool, MIB, world->a);
  CUgraph captured = NULL;

  for (guint i = 0; i < N_BLOCKS; i++)
    {
      TarnBlock *block = take_block (world->pool, MIB + i * 4096, world->a);

      put_write (block, value + i, world->a);
      SUCCEED (cuda.cuMemcpyDtoHAsync (&words[i], tarn_cuda_block_get_device_pointer (block),
                                       sizeof (guint), world->a));
      tarn_block_free (block);
    }
  put_write (result, value, world->a);
  SUCCEED (cuda.cuStreamEndCapture (world->a, &captured));
  SUCCEED (launcher->instantiate (exec, captured, 0));
  SUCCEED (cuda.cuGraphDestroy (captured));
  return result;
}

static void
launch (const Launcher *launcher, gpointer exec, CUstream stream)
{
  SUCCEED (launcher->launch (exec, stream));
  SUCCEED (cuda.cuStreamSynchronize (stream));
}

static guint
read_first (const TarnBlock *block)
{
  guint word = 0;

  SUCCEED (cuda.cuMemcpyDtoH (&word, tarn_cuda_block_get_device_pointer (block), sizeof word));
  return word;
}

static void
test_replay (const TarnCudaTest *test, gconstpointer way)
{
  g_autoptr (TarnAllocator) host = NULL;
  TarnBlock *words, *results[2], *beside;
  Launcher launcher;
  gpointer execs[2];
  guint64 graphs[2];
  World world;
  guint *numbers;

  if (!launcher_init (&launcher))
    {
      g_test_skip ("the driver launches no graphs");
      return;
    }
  world_init (&world, test, GPOINTER_TO_UINT (way));
  host = tarn_cuda_host_allocator_new (test->context, 0, NULL);
  words = tarn_allocator_allocate (host, 2 * N_BLOCKS * sizeof (guint), NULL);
  numbers = tarn_cuda_block_get_host_pointer (words);
  for (guint i = 0; i < 2; i++)
    {
      graphs[i] = begin_graph (world.pool, world.a);
      results[i]
          = capture_work (&world, 1000 * (i + 1), numbers + i * N_BLOCKS, &execs[i], &launcher);
      end_memory (world.pool, graphs[i]);
    }
  beside = take_block (world.pool, 8 * MIB, world.b);
  for (guint round = 0; round < 20; round++)
    {
      gsize used = get_used (world.pool);

      memset (numbers, 0, 2 * N_BLOCKS * sizeof (guint));
      put_write (beside, round, world.b);
      launch (&launcher, execs[round % 2], world.a);
      tarn_block_free (take_block (world.pool, (round + 1) * MIB, world.a));
      launch (&launcher, execs[(round + 1) % 2], world.b);
      SUCCEED (cuda.cuCtxSynchronize ());
      for (guint i = 0; i < 2 * N_BLOCKS; i++)
        g_assert_cmpuint (numbers[i], ==, 1000 * (i / N_BLOCKS + 1) + i % N_BLOCKS);
      for (guint i = 0; i < 2; i++)
        g_assert_cmpuint (read_first (results[i]), ==, 1000 * (i + 1));
      g_assert_cmpuint (read_first (beside), ==, round);
      g_assert_cmpuint (get_used (world.pool), ==, used);
      tarn_pool_free_held (world.pool);
    }
  for (guint i = 0; i < 2; i++)
    {
      launch (&launcher, execs[i], world.a);
      SUCCEED (launcher.destroy (execs[i]));
      release_memory (world.pool, graphs[i]);
      g_assert_cmpuint (read_first (results[i]), ==, 1000 * (i + 1));
      tarn_block_free (results[i]);
    }
  tarn_block_free (beside);
  tarn_block_free (words);
  g_assert_cmpuint (get_used (world.pool), ==, 0);
  world_clear (&world);
}

int
main (int argc, char **argv)
{
  order_init (cuda_get_fake ());
  g_test_init (&argc, &argv, NULL);
  add_ways ("replay", test_replay, HOST); /* it reads the device's addresses */
  return g_test_run ();
}
