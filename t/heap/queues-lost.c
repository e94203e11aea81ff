/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memory of a heap that is lost, with a message, because nobody can tell when the commands that
 * use it are done.  That is no mistake of the program's, even if nothing else is in use when the
 * heap ends. */

#include <string.h>
#include <tarn/debug.h>

#include "queues-fixture.h"

static guint n_lost_messages;

static void
count_lost_messages (const gchar *domain, GLogLevelFlags level, const gchar *message,
                     gpointer unused)
{
  (void) unused;
  g_assert_cmpstr (domain, ==, "Tarn");
  g_assert_true ((level & G_LOG_LEVEL_MESSAGE) != 0);
  g_assert_nonnull (strstr (message, "because commands may still use"));
  n_lost_messages++;
}

/* Leaves the device with the lost memory behind, and makes a new one for the next test. */
static void
leave_order (QueuesFixture *fixture, gconstpointer data)
{
  static GSList *left;

  left = g_slist_prepend (left, fixture->order);
  queues_set_up (fixture, data);
}

/* Frees a block that two queues use, while no wait succeeds. */
static void
free_unwaited (QueuesFixture *fixture, TarnBlock *block)
{
  g_assert_true (tarn_block_record_use (block, fixture->second, NULL));
  tarn_testing_queue_follow (fixture->queues, fixture->second, fixture->first);
  tarn_testing_order_put (fixture->order, fixture->second, tarn_block_get_memory (block), 3 * MIB,
                          TARN_TESTING_COMMAND_USE, 0);
  tarn_testing_queues_fail (fixture->queues, TARN_TESTING_CALL_HOST_WAIT, 1, TRUE);
  tarn_block_free (block);
}

/* Ends the pool and the heap.  Gets how many messages there were. */
static guint
end_heap (QueuesFixture *fixture)
{
  guint handler = g_log_set_handler ("Tarn", G_LOG_LEVEL_MASK, count_lost_messages, NULL);

  n_lost_messages = 0;
  g_clear_pointer (&fixture->pool, tarn_pool_unref);
  g_clear_pointer (&fixture->heap, tarn_allocator_unref);
  g_log_remove_handler ("Tarn", handler);
  g_assert_cmpuint (tarn_testing_pages_get_used_bytes (fixture->pages), >, 0);
  return n_lost_messages;
}

static void
test_lost (QueuesFixture *fixture, gconstpointer data)
{
  free_unwaited (fixture, queues_take (fixture, 3 * MIB, fixture->first));
  g_assert_cmpuint (end_heap (fixture), ==, 2); /* the pool's and the heap's */
  leave_order (fixture, data);
}

/* The lost memory is a block's that has no pool. */
static void
test_lost_block (QueuesFixture *fixture, gconstpointer data)
{
  TarnBlock *block = tarn_allocator_allocate (fixture->heap, 3 * MIB, NULL);

  g_assert_true (tarn_block_record_use (block, fixture->first, NULL));
  g_test_expect_message (
      "Tarn", G_LOG_LEVEL_MESSAGE,
      "*the allocator does not free a block of * bytes, because commands may still use it");
  free_unwaited (fixture, block);
  g_test_assert_expected_messages ();
  g_assert_cmpuint (end_heap (fixture), ==, 1);
  leave_order (fixture, data);
}

/* The lost memory is a piece's that a queue may not have made ready, because the backend does not
 * know the queue. */
static void
test_lost_unready (QueuesFixture *fixture, gconstpointer data)
{
  if (queues_skip_always_ready (data))
    return;
  tarn_testing_queues_set_fresh (fixture->queues, fixture->first);
  tarn_testing_queues_fail (fixture->queues, TARN_TESTING_CALL_ANY, 1, TRUE);
  g_test_expect_message (
      "Tarn", G_LOG_LEVEL_MESSAGE,
      "*the heap does not return * bytes to its allocator, because commands may still use them");
  for (guint i = 0; i < 10; i++)
    g_assert_false (
        tarn_allocator_allocate_memory (fixture->heap, 2 * MIB, &(TarnMemory){ 0 }, NULL));
  g_test_assert_expected_messages ();
  g_assert_cmpuint (tarn_testing_pages_get_used_bytes (fixture->pages), ==, 2 * MIB);
  g_assert_cmpuint (queues_get_heap_stats (fixture).upstream_bytes, ==, 0);
  g_assert_cmpuint (end_heap (fixture), ==, 0);
  leave_order (fixture, data);
}

/* The search for leaks does not report lost memory. */
static void
test_lost_debugged (QueuesFixture *fixture, gconstpointer data)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  gsize n_found = tarn_debug_check ();

  options.debug = "leaks";
  tarn_pool_unref (fixture->pool);
  fixture->pool = tarn_pool_new (fixture->heap, &options, NULL);
  g_test_expect_message (
      "Tarn", G_LOG_LEVEL_MESSAGE,
      "*the pool does not return * bytes to its allocator, because commands may still use them");
  free_unwaited (fixture, queues_take (fixture, 3 * MIB, fixture->first));
  g_test_assert_expected_messages ();
  g_assert_cmpuint (end_heap (fixture), ==, 1);
  g_assert_cmpuint (tarn_debug_check (), ==, n_found);
  leave_order (fixture, data);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  queues_add ("lost", test_lost);
  queues_add ("lost/block", test_lost_block);
  queues_add ("lost/unready", test_lost_unready);
  queues_add ("lost/debugged", test_lost_debugged);
  return g_test_run ();
}
