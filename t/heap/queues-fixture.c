/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "queues-fixture.h"

#include "lib/conformance.h"

static void
assert_heap_valid (gpointer heap)
{
  _tarn_heap_lock (heap);
  _tarn_heap_assert_valid (heap);
  _tarn_heap_unlock (heap);
}

void
queues_set_up (QueuesFixture *fixture, gconstpointer data)
{
  const QueuesWay *way = data;
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  g_autoptr (TarnAllocator) upstream = NULL;

  fixture->order = tarn_testing_order_new (G_MAXUINT64, way->is_virtual, way->flags);
  fixture->queues = tarn_testing_order_get_queues (fixture->order);
  fixture->pages = tarn_testing_order_get_pages (fixture->order);
  upstream = tarn_testing_order_allocator_new (fixture->order);
  options.alignment = TARN_TESTING_ORDER_GRANULE;
  fixture->heap = tarn_heap_allocator_new (upstream, &options, NULL);
  /* Others have the lock while the heap calls upstream. */
  tarn_testing_pages_set_hook (fixture->pages, assert_heap_valid, _tarn_heap_of (fixture->heap));
  fixture->pool = tarn_pool_new (fixture->heap, NULL, NULL);
  fixture->first = tarn_testing_queue_new (fixture->queues, TRUE);
  fixture->second = tarn_testing_queue_new (fixture->queues, TRUE);
}

static void
queues_tear_down (QueuesFixture *fixture, gconstpointer unused)
{
  (void) unused;
  g_clear_pointer (&fixture->pool, tarn_pool_unref);
  tarn_allocator_unref (fixture->heap);
  tarn_testing_queues_run_all (fixture->queues);
  tarn_testing_order_free (fixture->order);
}

void
queues_assert_valid (QueuesFixture *fixture)
{
  assert_valid (fixture->pool);
  assert_heap_valid (fixture->heap);
}

TarnBlock *
queues_take_unchecked (QueuesFixture *fixture, gsize size, gpointer queue)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_pool_allocate_ordered (fixture->pool, size, queue, &error);

  g_assert_no_error (error);
  tarn_testing_order_own (fixture->order, tarn_block_get_memory (block), size);
  if (queue != NULL)
    tarn_testing_order_put (fixture->order, queue, tarn_block_get_memory (block), size,
                            TARN_TESTING_COMMAND_WRITE, 1);
  else
    tarn_testing_order_touch (fixture->order, tarn_block_get_memory (block), size);
  return block;
}

TarnBlock *
queues_take (QueuesFixture *fixture, gsize size, gpointer queue)
{
  TarnBlock *block = queues_take_unchecked (fixture, size, queue);

  queues_assert_valid (fixture);
  return block;
}

void
queues_put (QueuesFixture *fixture, TarnBlock *block)
{
  tarn_block_free (block);
  queues_assert_valid (fixture);
}

TarnHeapStats
queues_get_heap_stats (QueuesFixture *fixture)
{
  TarnHeapStats stats = TARN_HEAP_STATS_INIT;

  g_assert_true (tarn_heap_get_stats (fixture->heap, &stats));
  return stats;
}

guint
queues_get_waits (QueuesFixture *fixture)
{
  return tarn_testing_queues_get_calls (fixture->queues, TARN_TESTING_CALL_EVENT_WAIT)
         + tarn_testing_queues_get_calls (fixture->queues, TARN_TESTING_CALL_HOST_WAIT);
}

TarnHeapQueue *
queues_find (QueuesFixture *fixture, gpointer handle)
{
  return g_hash_table_lookup (_tarn_heap_of (fixture->heap)->queues, handle);
}

gboolean
queues_skip_in_order (const QueuesWay *way)
{
  if ((way->flags & TARN_TESTING_QUEUES_FREES_IN_ORDER) != 0)
    g_test_skip ("what is freed may still be used");
  return (way->flags & TARN_TESTING_QUEUES_FREES_IN_ORDER) != 0;
}

void
queues_name (QueuesFixture *fixture, gpointer queue)
{
  for (guint i = 0; i < 2 * 256; i++)
    tarn_block_free (tarn_pool_allocate_ordered (fixture->pool, MIB, queue, NULL));
}

gboolean
queues_skip_always_ready (const QueuesWay *way)
{
  if (way->is_virtual)
    g_test_skip ("no queue makes virtual memory ready");
  return way->is_virtual || queues_skip_in_order (way);
}

void
queues_add (const gchar *name, void (*test) (QueuesFixture *, gconstpointer))
{
  static const struct
  {
    const gchar *name;
    QueuesWay way;
  } ways[] = { { "virtual", { TRUE, 0 } },
               { "virtual/events-all",
                 { TRUE, TARN_TESTING_QUEUES_RECORDS_ALL | TARN_TESTING_QUEUES_CHECKS_QUEUES } },
               { "parts", { FALSE, 0 } },
               { "parts/events-all", { FALSE, TARN_TESTING_QUEUES_RECORDS_ALL } },
               { "parts/frees-in-order", { FALSE, TARN_TESTING_QUEUES_FREES_IN_ORDER } } };

  for (gsize i = 0; i < G_N_ELEMENTS (ways); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/core/heap/queues/%s/%s", name, ways[i].name);

      g_test_add (path, QueuesFixture, &ways[i].way, queues_set_up, test, queues_tear_down);
    }
}
