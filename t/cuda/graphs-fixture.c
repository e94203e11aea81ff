/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The fixture of the tests of memory of CUDA graphs. */

#include "graphs-fixture.h"

static const gchar *const way_names[] = { "heap", "whole", "host" };

static guint
count_live (guint kind)
{
  return fake != NULL && kind != TARN_TESTING_CUDA_CONTEXT ? fake->get_live (kind) : 0;
}

TarnPool *
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

void
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
void
world_clear (World *world)
{
  g_clear_pointer (&world->pool, tarn_pool_unref);
  order_stream_free (world->a);
  order_stream_free (world->b);
  for (guint i = 0; i < G_N_ELEMENTS (world->live); i++)
    if (count_live (i) != world->live[i])
      g_error ("there are %u objects of kind %u, and were %u", count_live (i), i, world->live[i]);
}

gsize
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

guint64
begin_memory (TarnPool *pool, CUstream stream)
{
  g_autoptr (GError) error = NULL;
  guint64 graph = 0;

  g_assert_true (tarn_cuda_pool_begin_graph (pool, stream, &graph, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (graph, !=, 0);
  return graph;
}

void
end_memory (TarnPool *pool, guint64 graph)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (tarn_cuda_pool_end_graph (pool, graph, &error));
  g_assert_no_error (error);
}

void
release_memory (TarnPool *pool, guint64 graph)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (tarn_cuda_pool_release_graph (pool, graph, &error));
  g_assert_no_error (error);
}

guint64
begin_graph (TarnPool *pool, CUstream stream)
{
  guint64 graph = begin_memory (pool, stream);

  SUCCEED (cuda.cuStreamBeginCapture (stream, GLOBAL_MODE));
  return graph;
}

void
end_capture (CUstream stream)
{
  CUgraph graph = NULL;

  SUCCEED (cuda.cuStreamEndCapture (stream, &graph));
  g_assert_nonnull (graph);
  SUCCEED (cuda.cuGraphDestroy (graph));
}

void
end_graph (TarnPool *pool, guint64 graph, CUstream stream)
{
  end_capture (stream);
  end_memory (pool, graph);
}

void
follow (CUstream stream, CUstream other)
{
  CUevent event;

  SUCCEED (tarn->cuEventCreate (&event, 2));
  SUCCEED (tarn->cuEventRecord (event, other));
  SUCCEED (tarn->cuStreamWaitEvent (stream, event, 0));
  SUCCEED (tarn->cuEventDestroy (event));
}

/* Blocks */

TarnBlock *
take_block (TarnPool *pool, gsize size, CUstream stream)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_cuda_pool_allocate (pool, size, stream, &error);

  g_assert_no_error (error);
  return block;
}

gboolean
overlap (guint64 a, gsize a_size, guint64 b, gsize b_size)
{
  return a < b + b_size && b < a + a_size;
}

void
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

void
add_ways (const gchar *path, TarnCudaTestFunc func, Way end)
{
  for (guint way = 0; way < end; way++)
    {
      g_autofree gchar *full = g_strdup_printf ("graphs/%s/%s", path, way_names[way]);

      tarn_cuda_test_add (full, func, GUINT_TO_POINTER (way));
    }
}
