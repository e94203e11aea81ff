/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "hold-fixture.h"

/* As documented: a pool over a heap with the default bound lets each thread keep so much beside it.
 */
#define THREAD_BYTES (5 * MIB)

static void
make_heap (HoldFixture *fixture)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  g_autoptr (TarnAllocator) device = NULL;

  fixture->order
      = tarn_testing_order_new (G_MAXUINT64, fixture->way->is_virtual, fixture->way->flags);
  fixture->queues = tarn_testing_order_get_queues (fixture->order);
  device = tarn_testing_order_allocator_new (fixture->order);
  options.alignment = TARN_TESTING_ORDER_GRANULE;
  fixture->upstream = tarn_heap_allocator_new (device, &options, NULL);
}

static void
make_device (HoldFixture *fixture)
{
  fixture->order = NULL;
  fixture->queues = tarn_testing_queues_new (G_MAXUINT64, fixture->way->flags);
  fixture->upstream = tarn_testing_queues_allocator_new (fixture->queues);
}

void
hold_begin (HoldFixture *fixture, const HoldWay *way, gsize hold_bytes, guint thread_cache_blocks)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;

  fixture->way = way;
  fixture->hold_bytes = hold_bytes;
  if (way->has_heap)
    make_heap (fixture);
  else
    make_device (fixture);
  options.hold_bytes = hold_bytes;
  options.thread_cache_blocks = thread_cache_blocks;
  fixture->pool = tarn_pool_new (fixture->upstream, &options, NULL);
}

void
hold_end (HoldFixture *fixture)
{
  g_autofree gchar *fault = tarn_testing_queues_steal_fault (fixture->queues);

  g_assert_cmpstr (fault, ==, NULL);
  tarn_pool_unref (fixture->pool);
  tarn_allocator_unref (fixture->upstream);
  tarn_testing_queues_run_all (fixture->queues);
  if (fixture->order != NULL)
    tarn_testing_order_free (fixture->order);
  else
    tarn_testing_queues_free (fixture->queues);
}

/* Has a queue, or the host (NULL), write to memory of its own from now on. */
static void
use (HoldFixture *fixture, TarnMemory memory, gsize size, gpointer queue)
{
  TarnTestingCommand command = TARN_TESTING_COMMAND_WRITE;

  if (fixture->order != NULL)
    tarn_testing_order_own (fixture->order, memory, size);
  else
    tarn_testing_queues_own (fixture->queues, memory);
  if (fixture->order != NULL && queue != NULL)
    tarn_testing_order_put (fixture->order, queue, memory, size, command, 1);
  else if (fixture->order != NULL)
    tarn_testing_order_touch (fixture->order, memory, size);
  else if (queue != NULL)
    tarn_testing_queue_put (fixture->queues, queue, memory, command, 1);
  else
    tarn_testing_queues_touch (fixture->queues, memory);
}

TarnBlock *
hold_take (HoldFixture *fixture, gsize size, gpointer queue)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_pool_allocate_ordered (fixture->pool, size, queue, &error);

  g_assert_no_error (error);
  use (fixture, tarn_block_get_memory (block), size, queue);
  return block;
}

void
hold_take_some (HoldFixture *fixture, gsize size, TarnBlock **blocks, guint n)
{
  for (guint i = 0; i < n; i++)
    blocks[i] = hold_take (fixture, size, NULL);
}

void
hold_free_some (TarnBlock **blocks, guint n)
{
  for (guint i = 0; i < n; i++)
    tarn_block_free (blocks[i]);
}

void
hold_forget_queue (HoldFixture *fixture, gpointer queue)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (tarn_pool_forget_queue (fixture->pool, queue, &error));
  g_assert_no_error (error);
  tarn_testing_queue_destroy (fixture->queues, queue);
}

gsize
hold_get_bound (HoldFixture *fixture, guint n_threads)
{
  if (fixture->hold_bytes != 0)
    return fixture->hold_bytes;
  if (!fixture->way->has_heap)
    return G_MAXSIZE;
  return MAX (8 * MIB, get_stats (fixture->pool).managed_bytes / 200) + n_threads * THREAD_BYTES;
}

gpointer
hold_fill_cache (gpointer data)
{
  const HoldThread *part = data;
  TarnBlock *blocks[40];

  for (guint round = 0; round < 3; round++)
    for (guint size = 1; size <= 10; size++)
      {
        for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
          blocks[i] = tarn_pool_allocate_ordered (part->fixture->pool, size * part->step,
                                                  part->queue, NULL);
        for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
          tarn_block_free (blocks[i]);
      }
  return NULL;
}

void
hold_set_bound (HoldFixture *fixture, gsize hold_bytes)
{
  fixture->hold_bytes = hold_bytes;
  tarn_pool_set_hold_bytes (fixture->pool, hold_bytes);
  g_assert_cmpuint (tarn_pool_get_hold_bytes (fixture->pool), ==, hold_bytes);
  assert_valid (fixture->pool);
}

void
hold_add (const gchar *name, void (*test) (gconstpointer way))
{
  static const struct
  {
    const gchar *name;
    HoldWay way;
  } ways[] = { { "virtual", { TRUE, TRUE, 0 } },
               { "virtual/events-all", { TRUE, TRUE, TARN_TESTING_QUEUES_RECORDS_ALL } },
               { "parts", { FALSE, TRUE, 0 } },
               { "parts/frees-in-order", { FALSE, TRUE, TARN_TESTING_QUEUES_FREES_IN_ORDER } },
               { "no-heap", { FALSE, FALSE, 0 } },
               { "no-heap/events-all", { FALSE, FALSE, TARN_TESTING_QUEUES_RECORDS_ALL } },
               { "no-heap/frees-in-order", { FALSE, FALSE, TARN_TESTING_QUEUES_FREES_IN_ORDER } } };

  for (gsize i = 0; i < G_N_ELEMENTS (ways); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/core/heap/hold/%s/%s", name, ways[i].name);

      g_test_add_data_func (path, &ways[i].way, test);
    }
}
