/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memory of a heap that a queue makes ready, and requests that fail because nobody can wait for
 * that queue. */

#include "queues-fixture.h"

/* Memory that a pool below hands on, and that a queue makes ready, is ready. */
static void
test_ready (QueuesFixture *fixture, gconstpointer data)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  g_autoptr (TarnAllocator) heap = NULL;
  TarnHeapStats stats = TARN_HEAP_STATS_INIT;
  TarnMemory memory;
  TarnPool *lower;

  if (((const QueuesWay *) data)->is_virtual)
    {
      g_test_skip ("a pool has no virtual memory");
      return;
    }
  lower = tarn_pool_new (_tarn_heap_of (fixture->heap)->upstream, NULL, NULL);
  options.alignment = TARN_TESTING_ORDER_GRANULE;
  heap = tarn_heap_allocator_new (TARN_ALLOCATOR (lower), &options, NULL);
  tarn_testing_queues_set_fresh (fixture->queues, fixture->first);
  g_assert_true (tarn_allocator_allocate_memory (heap, MIB, &memory, NULL));
  g_assert_cmpuint (tarn_testing_queues_get_calls (fixture->queues, TARN_TESTING_CALL_HOST_WAIT),
                    ==, 1);
  g_assert_true (tarn_heap_get_stats (heap, &stats));
  g_assert_cmpuint (stats.host_waits, ==, 1);
  tarn_allocator_free_memory (heap, memory, MIB);
  g_clear_pointer (&heap, tarn_allocator_unref);
  tarn_pool_unref (lower);
  tarn_testing_queues_set_fresh (fixture->queues, NULL);
}

/* Makes requests that fail, because nobody can wait until their memory is ready.  Gets how many
 * times the driver allocated memory for them. */
static guint
fail_to_be_ready (QueuesFixture *fixture, TarnTestingCall call, guint n_requests)
{
  gsize before = tarn_testing_pages_get_used_bytes (fixture->pages);

  tarn_testing_queues_fail (fixture->queues, call, 1, TRUE);
  for (guint i = 0; i < n_requests; i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_null (tarn_pool_allocate_ordered (fixture->pool, 2 * MIB, fixture->second, &error));
      g_assert_error (error, TARN_ERROR, TARN_ERROR_FAILED);
      queues_assert_valid (fixture);
    }
  tarn_testing_queues_fail (fixture->queues, call, 0, FALSE);
  g_assert_null (tarn_testing_queues_steal_fault (fixture->queues));
  return (guint) ((tarn_testing_pages_get_used_bytes (fixture->pages) - before) / (2 * MIB));
}

/* A heap keeps memory that a queue may not have made ready yet, and asks for no more, however often
 * a request fails because nobody can wait for the queue.  Others get the memory once it is ready.
 */
static void
test_unready (QueuesFixture *fixture, gconstpointer data)
{
  const TarnTestingCall calls[] = { TARN_TESTING_CALL_HOST_WAIT, TARN_TESTING_CALL_EVENT_RECORD };
  gpointer fresh = tarn_testing_queue_new (fixture->queues, TRUE);
  gboolean records_all = (((const QueuesWay *) data)->flags & TARN_TESTING_QUEUES_RECORDS_ALL) != 0;

  if (queues_skip_always_ready (data))
    return;
  queues_put (fixture, queues_take (fixture, 2 * MIB, fixture->second)); /* both queues are known */
  tarn_testing_queues_set_fresh (fixture->queues, fresh);
  for (guint i = 0; i < (records_all ? 1 : G_N_ELEMENTS (calls)); i++)
    {
      TarnBlock *busy = queues_take (fixture, 2 * MIB, fixture->second), *block;

      g_assert_cmpuint (fail_to_be_ready (fixture, calls[i], 10), ==, 1);
      block = queues_take (fixture, 2 * MIB, fixture->second);
      queues_put (fixture, queues_take (fixture, 2 * MIB, fixture->second));
      queues_put (fixture, block);
      queues_put (fixture, busy);
      tarn_pool_free_held (fixture->pool);
      g_assert_cmpuint (tarn_testing_pages_get_used_bytes (fixture->pages), ==, 0);
    }
  tarn_testing_queues_set_fresh (fixture->queues, NULL);
}

/* A request of the backend itself fails, because its queue cannot be referenced.  No block may be
 * freed then while the queue makes it ready. */
static void
test_unready_block (QueuesFixture *fixture, gconstpointer data)
{
  TarnAllocator *upstream = _tarn_heap_of (fixture->heap)->upstream;
  g_autoptr (GError) error = NULL;

  if (queues_skip_always_ready (data))
    return;
  tarn_testing_queues_set_fresh (fixture->queues, fixture->first);
  tarn_testing_queues_fail (fixture->queues, TARN_TESTING_CALL_QUEUE_REF, 1, FALSE);
  g_assert_null (tarn_allocator_allocate (upstream, MIB, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_FAILED);
  g_assert_null (tarn_testing_queues_steal_fault (fixture->queues));
  g_assert_cmpuint (tarn_testing_pages_get_used_bytes (fixture->pages), ==, 0);

  tarn_testing_pages_set_budget (fixture->pages, queues_get_heap_stats (fixture).upstream_bytes);
  g_assert_null (tarn_allocator_allocate (upstream, MIB, NULL));
  g_assert_cmpuint (tarn_testing_queues_get_refs (fixture->queues), ==, 0);
  tarn_testing_queues_set_fresh (fixture->queues, NULL);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  queues_add ("ready", test_ready);
  queues_add ("unready", test_unready);
  queues_add ("unready/block", test_unready_block);
  return g_test_run ();
}
