/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memory of CUDA graphs: tarn_cuda_pool_begin_graph () and its companions. */

#include <string.h>
#include <tarn/heap.h>

#include "lib/in-child.h"
#include "order-fixture.h"

#define MIB ((gsize) 1 << 20)
#define N_BLOCKS 16
#define N_THREADS 4
#define GLOBAL_MODE 0 /* CU_STREAM_CAPTURE_MODE_GLOBAL; 1 is _THREAD_LOCAL */
#define THREAD_LOCAL_MODE 1

/* Where a pool has its memory from. */
typedef enum
{
  HEAP,  /* as tarn_cuda_pool_new () makes it */
  WHOLE, /* the driver, block for block */
  HOST,  /* page-locked memory, over a heap */
  N_WAYS
} Way;

static const gchar *const way_names[] = { "heap", "whole", "host" };

typedef struct
{
  const TarnCudaTest *test;
  Way way;
  TarnPool *pool; /* with TARN_POOL_FINDABLE; NULL: it was dropped */
  CUstream a, b;  /* neither waits for the default stream */
  guint
      live[TARN_TESTING_CUDA_MAPPING + 1]; /* what there was before, as failing calls leave some */
} World;

static guint
count_live (guint kind)
{
  return fake != NULL && kind != TARN_TESTING_CUDA_CONTEXT ? fake->get_live (kind) : 0;
}

static TarnPool *
host_pool_new (const TarnCudaTest *test, const TarnPoolOptions *options, GError **error)
{
  TarnHeapOptions heap_options = TARN_HEAP_OPTIONS_INIT;
  g_autoptr (TarnAllocator) host = tarn_cuda_host_allocator_new (test->context, 0, error);
  g_autoptr (TarnAllocator) heap = NULL;

  heap_options.follows_pool_limit = TRUE;
  if (host != NULL)
    heap = tarn_heap_allocator_new (host, &heap_options, error);
  return heap != NULL ? tarn_pool_new (heap, options, error) : NULL;
}

static void
world_init (World *world, const TarnCudaTest *test, Way way)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (GError) error = NULL;

  order_load ();
  if (fake != NULL)
    fake->reset ();
  *world = (World){ .test = test, .way = way };
  for (guint i = 0; i < G_N_ELEMENTS (world->live); i++)
    world->live[i] = count_live (i);
  options.name = "graphs";
  options.flags = TARN_POOL_FINDABLE;
  if (way == WHOLE)
    options.flags |= TARN_POOL_WHOLE_BUFFERS;
  world->pool = way == HOST ? host_pool_new (test, &options, &error)
                            : tarn_cuda_pool_new (test->context, &options, &error);
  g_assert_no_error (error);
  world->a = order_stream_new ();
  world->b = order_stream_new ();
}

/* All is back, and nothing is left in the driver. */
static void
world_clear (World *world)
{
  g_clear_pointer (&world->pool, tarn_pool_unref);
  order_stream_free (world->a);
  order_stream_free (world->b);
  for (guint i = 0; i < G_N_ELEMENTS (world->live); i++)
    g_assert_cmpuint (count_live (i), ==, world->live[i]);
}

/* Gets the bytes that are in use: those of graphs, too, which a heap may have lent. */
static gsize
get_used (TarnPool *pool)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  TarnHeapStats heap = TARN_HEAP_STATS_INIT;

  tarn_pool_get_stats (pool, &stats);
  if (!tarn_heap_get_stats (tarn_pool_get_upstream (pool), &heap))
    return stats.active_bytes;
  return heap.used_bytes - (stats.managed_bytes - stats.active_bytes);
}

/* Graphs */

static guint64
begin_memory (TarnPool *pool, CUstream stream)
{
  g_autoptr (GError) error = NULL;
  guint64 graph = 0;

  g_assert_true (tarn_cuda_pool_begin_graph (pool, stream, &graph, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (graph, !=, 0);
  return graph;
}

static void
end_memory (TarnPool *pool, guint64 graph)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (tarn_cuda_pool_end_graph (pool, graph, &error));
  g_assert_no_error (error);
}

static void
release_memory (TarnPool *pool, guint64 graph)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (tarn_cuda_pool_release_graph (pool, graph, &error));
  g_assert_no_error (error);
}

static guint64
begin (TarnPool *pool, CUstream stream)
{
  guint64 graph = begin_memory (pool, stream);

  SUCCEED (cuda.cuStreamBeginCapture (stream, GLOBAL_MODE));
  return graph;
}

/* Nothing has ended the capture before. */
static void
end_capture (CUstream stream)
{
  CUgraph graph = NULL;

  SUCCEED (cuda.cuStreamEndCapture (stream, &graph));
  g_assert_nonnull (graph);
  SUCCEED (cuda.cuGraphDestroy (graph));
}

static void
end (TarnPool *pool, guint64 graph, CUstream stream)
{
  end_capture (stream);
  end_memory (pool, graph);
}

/* Has a stream wait for another, which puts it into the capture of that one. */
static void
follow (CUstream stream, CUstream other)
{
  CUevent event;

  SUCCEED (tarn->cuEventCreate (&event, 2));
  SUCCEED (tarn->cuEventRecord (event, other));
  SUCCEED (tarn->cuStreamWaitEvent (stream, event, 0));
  SUCCEED (tarn->cuEventDestroy (event));
}

/* Blocks */

static TarnBlock *
take_block (TarnPool *pool, gsize size, CUstream stream)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_cuda_pool_allocate (pool, size, stream, &error);

  g_assert_no_error (error);
  return block;
}

static gboolean
overlap (guint64 a, gsize a_size, guint64 b, gsize b_size)
{
  return a < b + b_size && b < a + a_size;
}

/* Takes and gives back memory of many sizes on a stream; none of it is what is not to be had. */
static void
assert_apart (TarnPool *pool, CUstream stream, const guint64 *addresses, guint n, gsize size)
{
  for (guint round = 0; round < 20; round++)
    {
      TarnBlock *taken[N_BLOCKS];
      gsize wanted = size >> round % 5;

      for (guint i = 0; i < N_BLOCKS; i++)
        {
          taken[i] = take_block (pool, wanted, stream);
          for (guint j = 0; j < n; j++)
            g_assert_false (overlap (get_address (taken[i]), wanted, addresses[j], size));
        }
      for (guint i = 0; i < N_BLOCKS; i++)
        tarn_block_free (taken[i]);
    }
}

/* What a graph has written to is nobody else's, freed or not, until the graph is released. */
static void
test_apart (const TarnCudaTest *test, gconstpointer way)
{
  World world;
  TarnBlock *blocks[N_BLOCKS];
  guint64 addresses[N_BLOCKS], graph;

  world_init (&world, test, GPOINTER_TO_UINT (way));
  tarn_block_free (take_block (world.pool, MIB, world.a)); /* what a hit would be */
  graph = begin (world.pool, world.a);
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
  end (world.pool, graph, world.a);
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
  graph = begin (world.pool, world.a);
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
  end (world.pool, graph, world.a);
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
  graph = begin (world.pool, world.a);
  block = take_block (world.pool, MIB, world.b); /* which is not in it yet */
  address[0] = get_address (block);
  tarn_block_free (block);
  follow (world.b, world.a);
  block = take_block (world.pool, MIB, world.b); /* the first request of the capture */
  g_assert_cmpuint (get_address (block), !=, address[0]);
  address[1] = get_address (block);
  tarn_block_free (block);
  follow (world.a, world.b);
  end (world.pool, graph, world.a);
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
  graph = begin (world.pool, world.a);
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
  end (world.pool, graph, world.a);
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
  graph = begin (world.pool, world.a);
  tarn_block_free (take_block (world.pool, MIB, world.a));
  end_capture (world.a);
  SUCCEED (cuda.cuStreamBeginCapture (world.a, GLOBAL_MODE));
  g_assert_null (tarn_cuda_pool_allocate (world.pool, MIB, world.a, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
  end (world.pool, graph, world.a);
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
  graph = begin (world.pool, world.a);
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
  end (world.pool, graph, world.a);
  release_memory (world.pool, graph);
  world_clear (&world);
}

/* A block may outlive its graph; it keeps the piece that it is in, and no other, until it is freed;
 * also while another graph is captured. */
static void
test_outlives (const TarnCudaTest *test, gconstpointer way)
{
  World world;
  TarnBlock *survivor, *blocks[N_BLOCKS];
  guint64 address, graph, other;

  world_init (&world, test, GPOINTER_TO_UINT (way));
  graph = begin (world.pool, world.a);
  survivor = take_block (world.pool, 1000, world.a);
  address = get_address (survivor);
  for (guint i = 0; i < N_BLOCKS; i++)
    blocks[i] = take_block (world.pool, 8 * MIB, world.a);
  for (guint i = 0; i < N_BLOCKS; i++)
    tarn_block_free (blocks[i]);
  end (world.pool, graph, world.a);
  g_assert_cmpuint (get_used (world.pool), >=, N_BLOCKS * 8 * MIB);
  release_memory (world.pool, graph);
  g_assert_cmpuint (get_used (world.pool), >=, 1000);
  g_assert_cmpuint (get_used (world.pool), <=, 64 * MIB);
  assert_apart (world.pool, world.a, &address, 1, 1000);
  g_assert_true (tarn_pool_find (world.pool, tarn_block_get_memory (survivor)) == survivor);

  other = begin (world.pool, world.b);
  tarn_block_free (survivor);
  g_assert_cmpuint (get_used (world.pool), >=, 1000);
  end (world.pool, other, world.b);
  g_assert_cmpuint (get_used (world.pool), ==, 0);
  release_memory (world.pool, other);

  graph = begin (world.pool, world.a);
  survivor = take_block (world.pool, 1000, world.a);
  end (world.pool, graph, world.a);
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
      graph = begin (pool, world.a);
      block = take_block (pool, MIB, world.a);
      tarn_block_free (take_block (pool, MIB, world.a));
      if (i % 2 == 0)
        end (pool, graph, world.a);
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
  graphs[1] = begin (host, world.a);
  blocks[0] = take_block (world.pool, MIB, world.a);
  blocks[1] = take_block (host, MIB, world.a);
  g_assert_nonnull (tarn_cuda_block_get_host_pointer (blocks[1]));
  end (world.pool, graphs[0], world.a);
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
  graph = begin (world.pool, world.a);
  tarn_block_free (take_block (world.pool, MIB, world.a));
  end (world.pool, graph, world.a);
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
  graph = begin (world.pool, world.a);
  tarn_block_free (take_block (world.pool, MIB, world.a));
  if (tarn->cuMemAlloc (&address, 100) == TARN_CUDA_SUCCESS) /* which ends it */
    SUCCEED (tarn->cuMemFree (address));
  g_assert_cmpuint (cuda.cuStreamEndCapture (world.a, &captured), !=, TARN_CUDA_SUCCESS);
  end_memory (world.pool, graph);
  graph = begin (world.pool, world.a);
  tarn_block_free (take_block (world.pool, MIB, world.a));
  end (world.pool, graph, world.a);
  release_memory (world.pool, graph);
  release_memory (world.pool, graph - 1);
  g_assert_cmpuint (get_used (world.pool), ==, 0);
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
  graph = begin (world.pool, world.a);
  block = take_block (world.pool, 20 * MIB, world.a);
  g_assert_null (tarn_cuda_pool_allocate (world.pool, 100 * MIB, world.a, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
  g_clear_error (&error);
  tarn_block_free (block);
  end (world.pool, graph, world.a);
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
  graph = begin (world.pool, world.a);
  tarn_block_free (take_block (world.pool, 100 * MIB, world.a));
  end (world.pool, graph, world.a);
  g_assert_true (tarn_heap_get_stats (tarn_pool_get_upstream (world.pool), &stats)
                 || world.way == WHOLE);
  g_assert_cmpuint (stats.upstream_bytes, <, 150 * MIB);
  release_memory (world.pool, graph);
  world_clear (&world);
}

/* A capture does not mind what others allocate meanwhile: with events to look at, fresh memory, and
 * memory that goes back. */
static void
test_meanwhile (const TarnCudaTest *test, gconstpointer way)
{
  World world;
  guint64 graph;

  world_init (&world, test, GPOINTER_TO_UINT (way));
  for (guint i = 0; i < N_BLOCKS; i++)
    {
      TarnBlock *block = take_block (world.pool, (i + 1) * MIB, world.b);

      g_assert_true (tarn_cuda_block_record_use (block, NULL, NULL));
      tarn_block_free (block);
    }
  graph = begin (world.pool, world.a);
  for (guint i = 0; i < N_BLOCKS; i++)
    {
      TarnBlock *blocks[3] = { take_block (world.pool, (i + 2) * MIB, NULL),
                               take_block (world.pool, (i + 3) * MIB, world.b),
                               take_block (world.pool, (i + 1) * 1000, world.a) };

      for (guint j = 0; j < 3; j++)
        tarn_block_free (blocks[j]);
    }
  end (world.pool, graph, world.a);
  release_memory (world.pool, graph);
  world_clear (&world);
}

/* Two captures at once, in one thread, and the release of one while the other goes on: memory
 * waits for that one's end. */
static void
test_two (const TarnCudaTest *test, gconstpointer way)
{
  World world;
  TarnBlock *blocks[2];
  guint64 graphs[2];

  world_init (&world, test, GPOINTER_TO_UINT (way));
  graphs[0] = begin_memory (world.pool, world.a);
  graphs[1] = begin_memory (world.pool, world.b);
  SUCCEED (cuda.cuStreamBeginCapture (world.b, GLOBAL_MODE));
  SUCCEED (cuda.cuStreamBeginCapture (world.a, GLOBAL_MODE));
  blocks[0] = take_block (world.pool, MIB, world.a);
  blocks[1] = take_block (world.pool, MIB, world.b);
  g_assert_false (overlap (get_address (blocks[0]), MIB, get_address (blocks[1]), MIB));
  for (guint i = 0; i < 2; i++)
    tarn_block_free (blocks[i]);
  end (world.pool, graphs[0], world.a);
  release_memory (world.pool, graphs[0]);
  tarn_block_free (take_block (world.pool, 2 * MIB, world.b));
  g_assert_cmpuint (get_used (world.pool), >=, 2 * MIB);
  end (world.pool, graphs[1], world.b);
  release_memory (world.pool, graphs[1]);
  g_assert_cmpuint (get_used (world.pool), ==, 0);
  world_clear (&world);
}

/* Whichever of many that have begun captures first. */
static void
test_many (const TarnCudaTest *test, gconstpointer unused)
{
  guint64 graphs[N_BLOCKS];
  CUstream streams[N_BLOCKS];
  World world;

  (void) unused;
  world_init (&world, test, WHOLE);
  for (guint i = 0; i < N_BLOCKS; i++)
    {
      streams[i] = order_stream_new ();
      graphs[i] = begin_memory (world.pool, streams[i]);
    }
  for (guint i = 0; i < N_BLOCKS; i++)
    {
      guint k = i * 7 % N_BLOCKS; /* each once, in another order */

      SUCCEED (cuda.cuStreamBeginCapture (streams[k], GLOBAL_MODE));
      tarn_block_free (take_block (world.pool, MIB, streams[k]));
      end (world.pool, graphs[k], streams[k]);
      release_memory (world.pool, graphs[k]);
    }
  g_assert_cmpuint (get_used (world.pool), ==, 0);
  for (guint i = 0; i < N_BLOCKS; i++)
    order_stream_free (streams[i]);
  world_clear (&world);
}

/* Sizes, frees, streams and graphs at random, beside what is no graph's. */
typedef struct
{
  TarnBlock *block; /* NULL: none */
  CUstream stream;
} Slot;

static void
use_slot (const World *world, Slot *slots, guint n, guint i)
{
  gsize size = (gsize) g_random_int_range (1, 3 * (gint) MIB);

  if (slots[i].block != NULL && g_random_int_range (0, 20) == 0)
    g_assert_true (tarn_cuda_block_record_use (slots[i].block, world->b, NULL));
  tarn_block_free (slots[i].block);
  slots[i].stream = g_random_int_range (0, 3) == 0 ? world->b : world->a;
  slots[i].block = take_block (world->pool, size, slots[i].stream);
  for (guint j = 0; j < n; j++)
    g_assert_true (j == i || slots[j].block == NULL
                   || !overlap (get_address (slots[i].block), size, get_address (slots[j].block),
                                tarn_block_get_size (slots[j].block)));
}

static void
test_random (const TarnCudaTest *test, gconstpointer way)
{
  World world;
  Slot slots[64] = { { NULL, NULL } };
  guint64 graphs[10];

  world_init (&world, test, GPOINTER_TO_UINT (way));
  for (guint i = 0; i < G_N_ELEMENTS (graphs); i++)
    {
      graphs[i] = begin (world.pool, world.a);
      if (i % 2 == 0)
        follow (world.b, world.a);
      for (guint round = 0; round < 300; round++)
        use_slot (&world, slots, G_N_ELEMENTS (slots),
                  (guint) g_random_int_range (0, G_N_ELEMENTS (slots)));
      if (i % 2 == 0)
        follow (world.a, world.b);
      end (world.pool, graphs[i], world.a);
      for (guint round = 0; round < 50; round++)
        use_slot (&world, slots, G_N_ELEMENTS (slots),
                  (guint) g_random_int_range (0, G_N_ELEMENTS (slots)));
      if (i >= 4)
        release_memory (world.pool, graphs[i - 4]);
    }
  for (guint i = G_N_ELEMENTS (graphs) - 4; i < G_N_ELEMENTS (graphs); i++)
    release_memory (world.pool, graphs[i]);
  for (guint i = 0; i < G_N_ELEMENTS (slots); i++)
    tarn_block_free (slots[i].block);
  world_clear (&world);
}

/* Threads */

typedef struct
{
  World *world;
  TarnMutex lock;
  GHashTable *owners; /* address -> GThread; behind the lock */
} Crew;

static void
own (Crew *crew, const TarnBlock *block, gboolean begins)
{
  gpointer key = GSIZE_TO_POINTER ((gsize) get_address (block));

  _tarn_mutex_lock (&crew->lock);
  if (begins)
    g_assert_true (g_hash_table_insert (crew->owners, key, g_thread_self ()));
  else
    g_assert_true (g_hash_table_remove (crew->owners, key));
  _tarn_mutex_unlock (&crew->lock);
}

static gpointer
capture_in_thread (gpointer data)
{
  Crew *crew = data;
  TarnPool *pool = crew->world->pool;
  CUstream stream;
  CUcontext popped;

  SUCCEED (tarn->cuCtxPushCurrent (crew->world->test->context));
  stream = order_stream_new ();
  for (guint round = 0; round < 10; round++)
    {
      guint64 graph = begin_memory (pool, stream);
      guint64 address = 0;

      SUCCEED (cuda.cuStreamBeginCapture (stream, THREAD_LOCAL_MODE));
      for (guint i = 0; i < 50; i++)
        {
          TarnBlock *blocks[3];

          for (guint j = 0; j < 3; j++)
            {
              blocks[j] = take_block (pool, 1000 << (i + j) % 8, stream);
              own (crew, blocks[j], TRUE);
            }
          if (i == 0)
            address = get_address (blocks[0]);
          for (guint j = 0; j < 3; j++)
            {
              own (crew, blocks[j], FALSE);
              tarn_block_free (blocks[j]);
            }
        }
      end_capture (stream);
      end_memory (pool, graph);
      assert_apart (pool, stream, &address, 1, 1000);
      release_memory (pool, graph);
    }
  order_stream_free (stream);
  SUCCEED (tarn->cuCtxPopCurrent (&popped));
  return NULL;
}

static void
test_threads (const TarnCudaTest *test, gconstpointer way)
{
  GThread *threads[N_THREADS];
  World world;
  Crew crew = { .world = &world };

  world_init (&world, test, GPOINTER_TO_UINT (way));
  _tarn_mutex_init (&crew.lock);
  crew.owners = g_hash_table_new (NULL, NULL);
  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("capture", capture_in_thread, &crew);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  g_assert_cmpuint (get_used (world.pool), ==, 0);
  g_hash_table_unref (crew.owners);
  _tarn_mutex_clear (&crew.lock);
  world_clear (&world);
}

/* Another thread allocates for the stream that captures, as one that computes gradients does. */
typedef struct
{
  World *world;
  TarnBlock *block;
} Other;

static gpointer
take_in_thread (gpointer data)
{
  Other *other = data;

  other->block = take_block (other->world->pool, MIB, other->world->a);
  return NULL;
}

static void
test_thread (const TarnCudaTest *test, gconstpointer unused)
{
  World world;
  Other other = { &world, NULL };
  TarnBlock *block;
  guint64 address, graph;

  (void) unused;
  world_init (&world, test, HEAP);
  graph = begin (world.pool, world.a);
  block = take_block (world.pool, MIB, world.a);
  g_thread_join (g_thread_new ("gradients", take_in_thread, &other));
  address = get_address (other.block);
  g_assert_false (overlap (get_address (block), MIB, address, MIB));
  tarn_block_free (block);
  tarn_block_free (other.block);
  end (world.pool, graph, world.a);
  assert_apart (world.pool, world.a, &address, 1, MIB);
  release_memory (world.pool, graph);
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
      graph = begin (world.pool, world.a);
      tarn_block_free (take_block (world.pool, MIB, world.a));
      end (world.pool, graph, world.a);
      release_memory (world.pool, graph);
      g_assert_cmpuint (get_used (world.pool), ==, 0);
      g_clear_pointer (&world.pool, tarn_pool_unref);
      order_stream_free (world.a);
      order_stream_free (world.b);
    }
  g_log_remove_handler ("Tarn-CUDA", handler);
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
  graph = begin (world.pool, world.a);
  block = take_block (world.pool, MIB, world.a);
  tarn_block_free (take_block (world.pool, MIB, world.a));
  end (world.pool, graph, world.a);
  SUCCEED (tarn->cuCtxPopCurrent (&popped));
  SUCCEED (tarn->cuCtxDestroy (context));
  release_memory (world.pool, graph);
  g_assert_false (tarn_cuda_pool_begin_graph (world.pool, PER_THREAD, &graph, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST);
  tarn_block_free (block);
  tarn_pool_unref (world.pool);
}

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
      graphs[i] = begin (world.pool, world.a);
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
  graph = begin (world.pool, world.a);
  block = take_block (world.pool, MIB, world.a);
  in_child (use_in_child, &world);
  tarn_block_free (block);
  end (world.pool, graph, world.a);
  release_memory (world.pool, graph);
  world_clear (&world);
}

static void
add_ways (const gchar *path, TarnCudaTestFunc func)
{
  for (guint way = 0; way < N_WAYS; way++)
    {
      g_autofree gchar *full = g_strdup_printf ("graphs/%s/%s", path, way_names[way]);

      if (func != test_replay || way != HOST) /* which reads the device's addresses */
        tarn_cuda_test_add (full, func, GUINT_TO_POINTER (way));
    }
}

int
main (int argc, char **argv)
{
  order_init (cuda_get_fake ());
  g_test_init (&argc, &argv, NULL);
  add_ways ("apart", test_apart);
  add_ways ("again", test_again);
  tarn_cuda_test_add ("graphs/joined", test_joined, NULL);
  add_ways ("recorded", test_recorded);
  tarn_cuda_test_add ("graphs/within", test_within, NULL);
  tarn_cuda_test_add ("graphs/not-told", test_not_told, NULL);
  add_ways ("block", test_block);
  add_ways ("outlives", test_outlives);
  add_ways ("ends", test_ends);
  tarn_cuda_test_add ("graphs/mistakes", test_mistakes, NULL);
  tarn_cuda_test_add ("graphs/two-pools", test_two_pools, NULL);
  tarn_cuda_test_add ("graphs/other-context", test_other_context, NULL);
  tarn_cuda_test_add ("graphs/failed", test_failed, NULL);
  add_ways ("limit", test_limit);
  tarn_cuda_test_add ("graphs/free-held", test_free_held, NULL);
  add_ways ("meanwhile", test_meanwhile);
  add_ways ("two", test_two);
  tarn_cuda_test_add ("graphs/many", test_many, NULL);
  add_ways ("random", test_random);
  add_ways ("threads", test_threads);
  tarn_cuda_test_add ("graphs/thread", test_thread, NULL);
  add_ways ("failures", test_failures);
  tarn_cuda_test_add ("graphs/lost", test_lost, NULL);
  add_ways ("replay", test_replay);
  tarn_cuda_test_add ("graphs/fork", test_fork, NULL);
  return g_test_run ();
}
