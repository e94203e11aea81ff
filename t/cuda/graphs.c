/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memory of CUDA graphs, tarn_cuda_pool_begin_graph () and its companions: which memory a capture
 * gets, which streams it is for, and that nobody else gets it.  graphs-*.c test the rest. */

#include "graphs-fixture.h"

/* What a graph has written to is nobody else's, freed or not, until the graph is released. */
static void
test_apart (const TarnCudaTest *test, gconstpointer way)
{
  World world;
  TarnBlock *blocks[N_BLOCKS];
  guint64 addresses[N_BLOCKS], graph;

  world_init (&world, test, GPOINTER_TO_UINT (way));
  tarn_block_free (take_block (world.pool, MIB, world.a)); /* what a hit would be */
  graph = begin_graph (world.pool, world.a);
  for (guint i = 0; i < N_BLOCKS; i++)
    {
      blocks[i] = take_block (world.pool, MIB, world.a);
      addresses[i] = get_address (blocks[i]);
      if (world.way != HOST)
        put_write (blocks[i], i, world.a);
    }
  for (guint i = 0; i < N_BLOCKS; i += 2)
    tarn_block_free (blocks[i]);
  assert_apart (world.pool, world.b, addresses, N_BLOCKS, MIB);
  end_graph (world.pool, graph, world.a);
  for (guint i = 1; i < N_BLOCKS; i += 2)
    tarn_block_free (blocks[i]);
  g_assert_cmpuint (get_used (world.pool), >=, N_BLOCKS * MIB);
  tarn_pool_free_held (world.pool);
  assert_apart (world.pool, world.a, addresses, N_BLOCKS, MIB);
  assert_apart (world.pool, NULL, addresses, N_BLOCKS, MIB);
  g_assert_cmpuint (get_used (world.pool), >=, N_BLOCKS * MIB);
  release_memory (world.pool, graph);
  g_assert_cmpuint (get_used (world.pool), ==, 0);
  world_clear (&world);
}

/* What is freed is allocated again by the same stream of the graph, in other sizes, too, but not by
 * one that joined. */
static void
test_again (const TarnCudaTest *test, gconstpointer way)
{
  World world;
  TarnBlock *block;
  guint64 first, graph;

  world_init (&world, test, GPOINTER_TO_UINT (way));
  graph = begin_graph (world.pool, world.a);
  block = take_block (world.pool, MIB, world.a);
  first = get_address (block);
  tarn_block_free (block);
  block = take_block (world.pool, MIB, world.a);
  g_assert_cmpuint (get_address (block), ==, first);
  tarn_block_free (block);
  for (guint i = 0; i < 1000; i++)
    tarn_block_free (take_block (world.pool, MIB - i * 1024, world.a));
  g_assert_cmpuint (get_used (world.pool), <=, 16 * MIB);
  follow (world.b, world.a);
  assert_apart (world.pool, world.b, &first, 1, MIB);
  follow (world.a, world.b);
  end_graph (world.pool, graph, world.a);
  release_memory (world.pool, graph);
  g_assert_cmpuint (get_used (world.pool), ==, 0);
  world_clear (&world);
}

/* A stream that joins the capture has memory of the graph, and one that does not join has none. */
static void
test_joined (const TarnCudaTest *test, gconstpointer unused)
{
  World world;
  TarnBlock *block;
  guint64 graph, address[2];

  (void) unused;
  world_init (&world, test, HEAP);
  graph = begin_graph (world.pool, world.a);
  block = take_block (world.pool, MIB, world.b); /* which is not in it yet */
  address[0] = get_address (block);
  tarn_block_free (block);
  follow (world.b, world.a);
  block = take_block (world.pool, MIB, world.b); /* the first request of the capture */
  g_assert_cmpuint (get_address (block), !=, address[0]);
  address[1] = get_address (block);
  tarn_block_free (block);
  follow (world.a, world.b);
  end_graph (world.pool, graph, world.a);
  block = take_block (world.pool, MIB, world.b);
  g_assert_cmpuint (get_address (block), ==, address[0]);
  tarn_block_free (block);
  assert_apart (world.pool, world.b, &address[1], 1, MIB);
  release_memory (world.pool, graph);
  world_clear (&world);
}

/* What several streams of the graph use is not allocated again in it. */
static void
test_recorded (const TarnCudaTest *test, gconstpointer way)
{
  World world;
  TarnBlock *blocks[2];
  guint64 addresses[2], graph;
  g_autoptr (GError) error = NULL;

  world_init (&world, test, GPOINTER_TO_UINT (way));
  graph = begin_graph (world.pool, world.a);
  for (guint i = 0; i < 2; i++)
    {
      blocks[i] = take_block (world.pool, MIB, world.a);
      addresses[i] = get_address (blocks[i]);
    }
  follow (world.b, world.a);
  g_assert_true (tarn_cuda_block_record_use (blocks[0], world.b, &error));
  g_assert_no_error (error);
  g_assert_false (tarn_cuda_block_move_to_stream (blocks[0], world.b, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
  tarn_block_free (blocks[0]);
  tarn_cuda_block_free_on (blocks[1], world.b);
  assert_apart (world.pool, world.a, addresses, 2, MIB);
  assert_apart (world.pool, world.b, addresses, 2, MIB);
  follow (world.a, world.b);
  end_graph (world.pool, graph, world.a);
  release_memory (world.pool, graph);
  g_assert_cmpuint (get_used (world.pool), ==, 0);
  world_clear (&world);
}

/* It may begin right after the capture has begun, and end before that ends. */
static void
test_within (const TarnCudaTest *test, gconstpointer unused)
{
  World world;
  TarnBlock *block;
  guint64 address, graph;

  (void) unused;
  world_init (&world, test, HEAP);
  SUCCEED (cuda.cuStreamBeginCapture (world.a, GLOBAL_MODE));
  graph = begin_memory (world.pool, world.a);
  block = take_block (world.pool, MIB, world.a);
  address = get_address (block);
  tarn_block_free (block);
  end_memory (world.pool, graph);
  end_capture (world.a);
  assert_apart (world.pool, world.a, &address, 1, MIB);
  release_memory (world.pool, graph);
  world_clear (&world);
}

/* A second capture on the stream, of which Tarn was not told, is not the graph's. */
static void
test_not_told (const TarnCudaTest *test, gconstpointer unused)
{
  World world;
  g_autoptr (GError) error = NULL;
  guint64 graph;

  (void) unused;
  world_init (&world, test, WHOLE);
  graph = begin_graph (world.pool, world.a);
  tarn_block_free (take_block (world.pool, MIB, world.a));
  end_capture (world.a);
  SUCCEED (cuda.cuStreamBeginCapture (world.a, GLOBAL_MODE));
  g_assert_null (tarn_cuda_pool_allocate (world.pool, MIB, world.a, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
  end_graph (world.pool, graph, world.a);
  release_memory (world.pool, graph);
  world_clear (&world);
}

/* What a program asks of a block it can ask of a graph's. */
static void
test_block (const TarnCudaTest *test, gconstpointer way)
{
  World world;
  CUstream stream = NULL;
  g_autoptr (GError) error = NULL;
  TarnBlock *block, *other;
  TarnMemory memory;
  guint64 graph;

  world_init (&world, test, GPOINTER_TO_UINT (way));
  graph = begin_graph (world.pool, world.a);
  block = take_block (world.pool, 1000, world.a);
  memory = tarn_block_get_memory (block);
  if (world.way == HOST)
    g_assert_true (tarn_cuda_block_get_host_pointer (block)
                   == GSIZE_TO_POINTER ((gsize) memory.address));
  else
    g_assert_true (tarn_cuda_block_get_device_pointer (block) == memory.address);
  g_assert_true (tarn_cuda_block_get_stream (block, &stream));
  g_assert_true (stream == world.a);
  g_assert_true (tarn_pool_find (world.pool, memory) == block);
  g_assert_cmpuint (tarn_cuda_allocator_get_lost_bytes (tarn_block_get_allocator (block)), ==, 0);
  g_assert_true (tarn_pool_free_memory (world.pool, memory, world.a, &error));
  g_assert_no_error (error);
  g_assert_null (tarn_pool_find (world.pool, memory));
  other = tarn_pool_allocate_aligned (world.pool, 1000, 64, world.a, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (get_address (other) % 64, ==, 0);
  tarn_block_free (other);
  end_graph (world.pool, graph, world.a);
  release_memory (world.pool, graph);
  world_clear (&world);
}

/* Two pools may each have memory of one graph, and a stream of another context none. */
static void
test_two_pools (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;
  World world;
  TarnPool *host;
  TarnBlock *blocks[2];
  guint64 graphs[2];

  (void) unused;
  world_init (&world, test, HEAP);
  host = host_pool_new (test, NULL, &error);
  g_assert_no_error (error);
  graphs[0] = begin_memory (world.pool, world.a);
  graphs[1] = begin_graph (host, world.a);
  blocks[0] = take_block (world.pool, MIB, world.a);
  blocks[1] = take_block (host, MIB, world.a);
  g_assert_nonnull (tarn_cuda_block_get_host_pointer (blocks[1]));
  end_graph (world.pool, graphs[0], world.a);
  end_memory (host, graphs[1]);
  for (guint i = 0; i < 2; i++)
    tarn_block_free (blocks[i]);
  g_assert_cmpuint (get_used (host), >=, MIB);
  release_memory (host, graphs[1]);
  g_assert_cmpuint (get_used (host), ==, 0);
  g_assert_cmpuint (get_used (world.pool), >=, MIB);
  release_memory (world.pool, graphs[0]);
  tarn_pool_unref (host);
  world_clear (&world);
}

/* A limit counts what graphs have, and no memory is an error that the capture survives. */
static void
test_limit (const TarnCudaTest *test, gconstpointer way)
{
  g_autoptr (GError) error = NULL;
  World world;
  TarnBlock *block;
  guint64 graph;

  world_init (&world, test, GPOINTER_TO_UINT (way));
  tarn_pool_set_limit_bytes (world.pool, 64 * MIB);
  graph = begin_graph (world.pool, world.a);
  block = take_block (world.pool, 20 * MIB, world.a);
  g_assert_null (tarn_cuda_pool_allocate (world.pool, 100 * MIB, world.a, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
  g_clear_error (&error);
  tarn_block_free (block);
  end_graph (world.pool, graph, world.a);
  g_assert_null (tarn_cuda_pool_allocate (world.pool, 50 * MIB, world.a, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
  release_memory (world.pool, graph);
  tarn_block_free (take_block (world.pool, 50 * MIB, world.a));
  world_clear (&world);
}

/* What is held for another stream is no graph's, and goes back before a capture. */
static void
test_free_held (const TarnCudaTest *test, gconstpointer unused)
{
  World world;
  TarnHeapStats stats = TARN_HEAP_STATS_INIT;
  guint64 graph;

  (void) unused;
  world_init (&world, test, HEAP);
  tarn_block_free (take_block (world.pool, 100 * MIB, world.b));
  tarn_pool_free_held (world.pool);
  graph = begin_graph (world.pool, world.a);
  tarn_block_free (take_block (world.pool, 100 * MIB, world.a));
  end_graph (world.pool, graph, world.a);
  g_assert_true (tarn_heap_get_stats (tarn_pool_get_upstream (world.pool), &stats)
                 || world.way == WHOLE);
  g_assert_cmpuint (stats.upstream_bytes, <, 150 * MIB);
  release_memory (world.pool, graph);
  world_clear (&world);
}

/* Allocates blocks of different sizes, 1 to 8 times @unit, with @most bytes in all or a few more.
 * Then frees them in another order. */
static void
use_much (TarnPool *pool, CUstream stream, gsize unit, gsize most)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (1);
  g_autoptr (GPtrArray) blocks = g_ptr_array_new ();

  for (gsize sum = 0, size; sum < most; sum += size)
    {
      size = (gsize) g_rand_int_range (rand, 1, 9) * unit;
      g_ptr_array_add (blocks, take_block (pool, size, stream));
    }
  while (blocks->len > 0)
    tarn_block_free (g_ptr_array_steal_index_fast (
        blocks, (guint) g_rand_int_range (rand, 0, (gint32) blocks->len)));
}

/* Blocks that the pool holds are no reason to refuse memory to a graph, whatever the bound. */
static void
test_hold_bytes (const TarnCudaTest *test, gconstpointer way)
{
  static const gsize bounds[] = { 0, 100 * MIB, G_MAXSIZE };

  for (guint i = 0; i < 4 * G_N_ELEMENTS (bounds); i++)
    {
      gsize unit = MIB >> i % 4;
      guint64 graph;
      World world;

      world_init (&world, test, GPOINTER_TO_UINT (way));
      tarn_pool_set_hold_bytes (world.pool, bounds[i / 4]);
      tarn_pool_set_limit_bytes (world.pool, 512 * MIB);
      use_much (world.pool, world.b, unit, 480 * MIB);
      graph = begin_graph (world.pool, world.a);
      use_much (world.pool, world.a, unit, 240 * MIB);
      end_graph (world.pool, graph, world.a);
      release_memory (world.pool, graph);
      world_clear (&world);
    }
}

int
main (int argc, char **argv)
{
  order_init (cuda_get_fake ());
  g_test_init (&argc, &argv, NULL);
  add_ways ("apart", test_apart, N_WAYS);
  add_ways ("again", test_again, N_WAYS);
  tarn_cuda_test_add ("graphs/joined", test_joined, NULL);
  add_ways ("recorded", test_recorded, N_WAYS);
  tarn_cuda_test_add ("graphs/within", test_within, NULL);
  tarn_cuda_test_add ("graphs/not-told", test_not_told, NULL);
  add_ways ("block", test_block, N_WAYS);
  tarn_cuda_test_add ("graphs/two-pools", test_two_pools, NULL);
  add_ways ("limit", test_limit, N_WAYS);
  tarn_cuda_test_add ("graphs/free-held", test_free_held, NULL);
  add_ways ("hold-bytes", test_hold_bytes, N_WAYS);
  return g_test_run ();
}
