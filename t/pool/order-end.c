/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Who waits for whom before memory is used again: queues that end, and that the program forgets
 * or destroys.  The fake sees whether a queue that is gone is called. */

#include "lib/order-fixture.h"

#include "lib/conformance.h"

#define SIZE 1023
#define OTHER_SIZE 4095

static void
test_forget (Order *order, gconstpointer flags)
{
  TarnBlock *held = order_take (order, OTHER_SIZE, order->a);
  TarnBlock *active = order_take (order, SIZE, order->a);
  TarnBlock *fresh;
  gpointer next;

  tarn_block_free (held);
  assert_calls (order, TARN_TESTING_CALL_ANY, 1);
  g_assert_true (tarn_pool_forget_queue (order->pool, order->a, NULL));
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 1);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD_ALL, 0);
  assert_valid (order->pool);
  tarn_testing_queue_destroy (order->queues, order->a);
  next = tarn_testing_queue_new (order->queues, TRUE);
  g_assert_true ((next == order->a) == (GPOINTER_TO_UINT (flags) != 0));

  tarn_block_free (active);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 1);
  fresh = order_take (order, OTHER_SIZE, next);
  g_assert_true (fresh != held);
  tarn_testing_queues_run_all (order->queues);
  g_assert_true (order_take (order, OTHER_SIZE, next) == held);
  g_assert_true (order_take (order, SIZE, next) == active);
  assert_calls (order, TARN_TESTING_CALL_QUEUE_REF, 2);
  assert_calls (order, TARN_TESTING_CALL_QUEUE_UNREF, 1);
  tarn_block_free (fresh);
  tarn_block_free (held);
  tarn_block_free (active);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 1);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 0);
}

/* The block that is in use is recorded with the queue that has the same handle. */
static void
test_forget_and_record (Order *order, gconstpointer unused)
{
  TarnBlock *block = order_take (order, SIZE, order->a);
  gpointer next;

  (void) unused;
  g_assert_true (tarn_pool_forget_queue (order->pool, order->a, NULL));
  tarn_testing_queue_follow (order->queues, order->b, order->a);
  tarn_testing_queue_destroy (order->queues, order->a);
  next = tarn_testing_queue_new (order->queues, TRUE);
  g_assert_true (next == order->a);
  tarn_testing_queue_follow (order->queues, next, order->b);
  g_assert_true (tarn_block_record_use (block, next, NULL));
  order_put (order, block, next);
  tarn_block_free (block);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 2);
  tarn_block_free (order_take (order, SIZE, order->c));
  tarn_testing_queues_run_all (order->queues);
  g_assert_true (order_take (order, SIZE, next) == block);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 0);
  tarn_block_free (block);
}

/* Several queues that were met are forgotten. */
static void
test_forget_second (Order *order, gconstpointer unused)
{
  (void) unused;
  order_hold (order, SIZE, order->a, 1);
  order_hold (order, OTHER_SIZE, order->b, 1);
  g_assert_true (tarn_pool_forget_queue (order->pool, order->a, NULL));
  g_assert_true (tarn_pool_forget_queue (order->pool, order->b, NULL));
  tarn_testing_queue_destroy (order->queues, order->a);
  tarn_testing_queue_destroy (order->queues, order->b);
  order_hold (order, SIZE, order->c, 1);
  order_hold (order, OTHER_SIZE, order->c, 1);
  assert_live (order, 4);
  tarn_testing_queues_run_all (order->queues);
  order_hold (order, SIZE, order->c, 2);
  order_hold (order, OTHER_SIZE, order->c, 2);
  assert_live (order, 4);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 0);
}

static void
test_forget_unknown (Order *order, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;

  (void) unused;
  g_assert_true (tarn_pool_forget_queue (order->pool, order->a, &error));
  order_hold (order, SIZE, order->a, 1);
  g_assert_true (tarn_pool_forget_queue (order->pool, order->b, &error));
  g_assert_no_error (error);
  assert_calls (order, TARN_TESTING_CALL_ANY, 1);
}

static void
test_forget_fails (Order *order, gconstpointer unused)
{
  TarnBlock *active = order_take (order, OTHER_SIZE, order->a);
  g_autoptr (GError) error = NULL;

  (void) unused;
  order_hold (order, SIZE, order->a, 1);
  tarn_testing_queues_fail (order->queues, TARN_TESTING_CALL_EVENT_RECORD, 1, FALSE);
  g_assert_false (tarn_pool_forget_queue (order->pool, order->a, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_FAILED);
  assert_valid (order->pool);
  order_hold (order, SIZE, order->a, 1);
  assert_calls (order, TARN_TESTING_CALL_QUEUE_REF, 1);
  order_put (order, active, order->a);
  order_hand_on (order, OTHER_SIZE);
  tarn_block_free (active);
  order_hold (order, OTHER_SIZE, order->b, 1);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 1);
}

/* A queue that is retained may be destroyed without a word. */
static void
test_retained (Order *order, gconstpointer unused)
{
  TarnBlock *block = order_take (order, SIZE, order->a);

  (void) unused;
  order_hand_on (order, SIZE);
  order_hold (order, OTHER_SIZE, order->a, 1);
  tarn_testing_queue_destroy (order->queues, order->a);
  order_hold (order, OTHER_SIZE, order->b, 1); /* fresh, and has an event recorded for the other */
  tarn_block_free (block);
  order_hold (order, SIZE, order->b, 1);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 1);
  assert_calls_at_most (order, TARN_TESTING_CALL_EVENT_RECORD, 3);
  assert_calls (order, TARN_TESTING_CALL_QUEUE_UNREF, 0);
  tarn_testing_queues_run_all (order->queues);
  order_hold (order, OTHER_SIZE, order->b, 2);
  assert_live (order, 3);
  assert_calls (order, TARN_TESTING_CALL_QUEUE_UNREF, 1);
}

/* Queues that nobody vouches for are not called: an event for what they hold is recorded where
 * memory has run out, for all queues. */
static void
test_destroyed (Order *order, gconstpointer unused)
{
  TarnBlock *own;

  (void) unused;
  order_hold (order, SIZE, order->a, 1);
  tarn_testing_queue_run (order->queues, order->a);
  tarn_testing_queue_destroy (order->queues, order->a);
  order_hold (order, OTHER_SIZE, order->b, 1);
  own = order_take (order, SIZE, order->b);
  assert_live (order, 3);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD_ALL, 0);
  tarn_testing_device_set_budget (tarn_testing_queues_get_device (order->queues),
                                  2 * SIZE + OTHER_SIZE);
  order_hold (order, SIZE, order->b, 1);
  assert_live (order, 3);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD_ALL, 1);
  assert_calls_at_most (order, TARN_TESTING_CALL_EVENT_RECORD,
                        1); /* of b, which names itself: it is handed on */
  tarn_block_free (own);
}

static void
test_destroyed_at_the_end (Order *order, gconstpointer unused)
{
  (void) unused;
  order_hold (order, SIZE, order->a, 1);
  tarn_testing_queue_destroy (order->queues, order->a);
  order_drop_pool (order);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD_ALL, 1);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 0);
  assert_calls (order, TARN_TESTING_CALL_HOST_WAIT, 1);
}

/* Queues that nothing remembers */

/* Puts the pool's one block on a queue, and lets it be done. */
static void
pass_on (Order *order, gpointer queue)
{
  order_hold (order, SIZE, queue, 1);
  tarn_testing_queues_run_all (order->queues);
  assert_valid (order->pool);
  assert_live (order, 1);
}

/* Memory that goes back and forth leaves each of its queues known, unless that would keep the queue
 * alive. */
static void
test_back_and_forth (Order *order, gconstpointer flags)
{
  gboolean stays = (GPOINTER_TO_UINT (flags) & TARN_TESTING_QUEUES_RECORDS_ALL) != 0;

  tarn_pool_set_limit_bytes (order->pool, 1024);
  for (guint i = 0; i < 10; i++)
    {
      pass_on (order, order->a);
      pass_on (order, order->b);
    }
  assert_calls_at_most (order, TARN_TESTING_CALL_QUEUE_REF, stays ? 2 : 20);
  order_drop_pool (order);
  g_assert_cmpuint (tarn_testing_queues_get_refs (order->queues), ==, 0);
}

/* A program that makes a queue for each thing to do. */
static void
test_many_come (Order *order, gconstpointer flags)
{
  gboolean stays = (GPOINTER_TO_UINT (flags) & TARN_TESTING_QUEUES_RECORDS_ALL) != 0;
  guint most = 0;

  tarn_pool_set_limit_bytes (order->pool, 1024);
  for (guint i = 0; i < 200; i++)
    {
      pass_on (order, tarn_testing_queue_new (order->queues, TRUE));
      most = MAX (most, tarn_testing_queues_get_refs (order->queues));
    }
  g_assert_cmpuint (most, <=, (stays ? 65 : 1));
}

/* Each of these leaves blocks that others can have once there is an event for them: the program is
 * to need as much memory as it uses, however long it runs. */
static void
test_one_for_each_task (Order *order, gconstpointer unused)
{
  (void) unused;
  for (guint i = 0; i < 1000; i++)
    {
      gpointer queue = tarn_testing_queue_new (order->queues, TRUE);

      order_hold (order, SIZE, queue, 1);
      tarn_testing_queues_run_all (order->queues);
      tarn_testing_queue_destroy (order->queues, queue);
    }
  g_assert_cmpuint (tarn_testing_device_get_live (tarn_testing_queues_get_device (order->queues)),
                    <=, 80);
  assert_valid (order->pool);
}

/* A few tasks that take long, and are forgotten, do not cost those that come after them anything.
 */
static void
test_long_tasks (Order *order, gconstpointer unused)
{
  TarnTestingDevice *device = tarn_testing_queues_get_device (order->queues);
  gpointer queues[4];

  (void) unused;
  for (guint i = 0; i < 4; i++)
    {
      queues[i] = tarn_testing_queue_new (order->queues, TRUE);
      order_hold (order, SIZE, queues[i], 1);
      g_assert_true (tarn_pool_forget_queue (order->pool, queues[i], NULL));
    }
  for (guint i = 0; i < 200; i++)
    {
      gpointer queue = tarn_testing_queue_new (order->queues, TRUE);

      order_hold (order, SIZE, queue, 1);
      g_assert_true (tarn_pool_forget_queue (order->pool, queue, NULL));
      tarn_testing_queue_run (order->queues, queue);
      tarn_testing_queue_destroy (order->queues, queue);
    }
  g_assert_cmpuint (tarn_testing_device_get_live (device), <=, 8);
  assert_valid (order->pool);
}

/* One that is forgotten, is so, also if nothing remembers it: without an event. */
static void
test_forget_unused (Order *order, gconstpointer unused)
{
  guint n_recorded;

  (void) unused;
  tarn_pool_set_limit_bytes (order->pool, 1024);
  pass_on (order, order->a);
  pass_on (order, order->b);
  g_assert_cmpuint (tarn_testing_queues_get_refs (order->queues), ==, 2);
  n_recorded = tarn_testing_queues_get_calls (order->queues, TARN_TESTING_CALL_EVENT_RECORD);
  g_assert_true (tarn_pool_forget_queue (order->pool, order->a, NULL));
  g_assert_cmpuint (tarn_testing_queues_get_calls (order->queues, TARN_TESTING_CALL_EVENT_RECORD),
                    ==, n_recorded);
  assert_valid (order->pool);
  g_assert_cmpuint (tarn_testing_queues_get_refs (order->queues), ==, 1);
}

int
main (int argc, char **argv)
{
#define ADD_WITH(path, func, flags)                                                                \
  g_test_add ("/core/order/" path, Order, GUINT_TO_POINTER (flags), order_set_up, func,            \
              order_tear_down)
#define ADD(path, func) ADD_WITH (path, func, 0)
  g_test_init (&argc, &argv, NULL);
  ADD ("forget", test_forget);
  ADD_WITH ("forget/events-all", test_forget, TARN_TESTING_QUEUES_RECORDS_ALL);
  ADD_WITH ("forget/and-record", test_forget_and_record, TARN_TESTING_QUEUES_RECORDS_ALL);
  ADD_WITH ("forget/second", test_forget_second, TARN_TESTING_QUEUES_RECORDS_ALL);
  ADD ("forget/unknown", test_forget_unknown);
  ADD ("forget/fails", test_forget_fails);
  ADD ("retained", test_retained);
  ADD_WITH ("destroyed", test_destroyed, TARN_TESTING_QUEUES_RECORDS_ALL);
  ADD_WITH ("destroyed/at-the-end", test_destroyed_at_the_end, TARN_TESTING_QUEUES_RECORDS_ALL);
  ADD ("unused/back-and-forth", test_back_and_forth);
  ADD_WITH ("unused/back-and-forth/events-all", test_back_and_forth,
            TARN_TESTING_QUEUES_RECORDS_ALL);
  ADD ("unused/many-come", test_many_come);
  ADD_WITH ("unused/many-come/events-all", test_many_come, TARN_TESTING_QUEUES_RECORDS_ALL);
  ADD_WITH ("unused/forget", test_forget_unused, TARN_TESTING_QUEUES_RECORDS_ALL);
  ADD ("one-for-each-task", test_one_for_each_task);
  ADD ("long-tasks", test_long_tasks);
  return g_test_run ();
}
