/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Who waits for whom before memory is used again: which of the cached blocks a request gets,
 * how often the backend is asked for that, and blocks that queues hand over to each other. */

#include "lib/order-fixture.h"

#include "order/order-private.h"

/* The largest size of its bin. */
#define SIZE 1023

/* Where there is one block for two queues, the first request has the host wait, and those after it
 * the queue, for the event of the free: one event, one wait, and at most one question. */
static void
test_handed_on_within_a_limit (Order *order, gconstpointer unused)
{
  gpointer queues[] = { order->b, order->a };
  TarnBlock *first;

  (void) unused;
  tarn_pool_set_limit_bytes (order->pool, SIZE);
  first = order_take (order, SIZE, order->a);
  tarn_block_free (first);
  tarn_block_free (order_take (order, SIZE, order->b));
  assert_calls (order, TARN_TESTING_CALL_HOST_WAIT, 1);
  for (guint i = 0; i < 100; i++)
    {
      guint n_calls[3]
          = { tarn_testing_queues_get_calls (order->queues, TARN_TESTING_CALL_EVENT_RECORD),
              tarn_testing_queues_get_calls (order->queues, TARN_TESTING_CALL_EVENT_IS_DONE),
              tarn_testing_queues_get_calls (order->queues, TARN_TESTING_CALL_EVENT_WAIT) };

      tarn_block_free (order_take (order, SIZE, queues[(i + 1) % 2]));
      if (i == 0)
        continue; /* it records for the first time */
      assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, n_calls[0] + 1);
      assert_calls_at_most (order, TARN_TESTING_CALL_EVENT_IS_DONE, n_calls[1] + 1);
      assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, n_calls[2] + 1);
    }
  assert_calls (order, TARN_TESTING_CALL_HOST_WAIT, 1);
  g_assert_cmpuint (order_get_stats (order).misses, ==, 2);
}

/* A queue that is alone with a size again, and needs no more than it has, records no more events.
 */
static void
test_handed_on_no_more (Order *order, gconstpointer unused)
{
  (void) unused;
  order_hand_on (order, SIZE);
  for (guint i = 0; i < 2 * TARN_RECORDED_FREES; i++)
    order_hold (order, SIZE, order->a, 1);
  assert_calls_at_most (order, TARN_TESTING_CALL_EVENT_RECORD, TARN_RECORDED_FREES);
}

/* What goes from a copying to a computing queue in use has an event once it is freed, for which the
 * first queue waits when it asks again. */
static void
test_moved (Order *order, gconstpointer unused)
{
  (void) unused;
  for (guint i = 0; i < 50; i++)
    {
      TarnBlock *block = order_take (order, SIZE, order->a);

      g_assert_true (tarn_block_move_to_queue (block, order->b, NULL));
      order_own (order, block);
      order_put (order, block, order->b);
      tarn_block_free (block);
      assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 2 * (i + 1));
    }
  g_assert_cmpuint (order_get_stats (order).misses, ==, 1);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 99);
}

/* The block that was last used on the same queue, wherever in the bin it is. */
static void
test_prefers_same_queue (Order *order, gconstpointer unused)
{
  TarnBlock *blocks[3];
  TarnBlock *block;

  (void) unused;
  blocks[0] = order_take (order, SIZE, order->a);
  blocks[1] = order_take (order, SIZE, order->b);
  blocks[2] = order_take (order, SIZE, order->c);
  for (guint i = 0; i < 3; i++)
    tarn_block_free (blocks[i]);
  block = order_take (order, SIZE, order->a);
  g_assert_true (block == blocks[0]);
  tarn_block_free (block);
  block = order_take (order, SIZE, order->b);
  g_assert_true (block == blocks[1]);
  tarn_block_free (block);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 0);
  assert_calls (order, TARN_TESTING_CALL_EVENT_IS_DONE, 0);
}

/* Also below more of others' than the driver would be asked about. */
static void
test_prefers_same_queue_below (Order *order, gconstpointer unused)
{
  TarnBlock *own = order_take (order, SIZE, order->a);
  TarnBlock *others[8];

  (void) unused;
  for (guint i = 0; i < G_N_ELEMENTS (others); i++)
    others[i] = order_take (order, SIZE, i % 2 == 0 ? order->b : order->c);
  tarn_block_free (own);
  for (guint i = 0; i < G_N_ELEMENTS (others); i++)
    tarn_block_free (others[i]);
  g_assert_true (order_take (order, SIZE, order->a) == own);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 0);
  assert_calls (order, TARN_TESTING_CALL_EVENT_IS_DONE, 0);
  tarn_block_free (own);
}

/* The block that nobody uses: one without a queue, one whose event is done. */
static void
test_prefers_idle (Order *order, gconstpointer unused)
{
  TarnBlock *blocks[3];
  TarnBlock *block;

  (void) unused;
  order_meet_second_queue (order, SIZE);
  blocks[0] = order_take (order, SIZE, NULL);
  blocks[1] = order_take (order, SIZE, order->b);
  blocks[2] = order_take (order, SIZE, order->a);
  for (guint i = 0; i < 3; i++)
    tarn_block_free (blocks[i]);
  block = order_take (order, SIZE, order->c);
  g_assert_true (block == blocks[0]);
  assert_calls (order, TARN_TESTING_CALL_EVENT_IS_DONE, 0);
  tarn_block_free (block);

  tarn_testing_queue_run (order->queues, order->b);
  g_assert_true (order_take (order, SIZE, order->loose) == blocks[1]);
  assert_calls (order, TARN_TESTING_CALL_EVENT_IS_DONE, 1);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 0);
  tarn_block_free (blocks[1]);
}

/* Frees eight blocks one after the other, some of them from the first on, on the second queue. */
static void
free_eight (Order *order, TarnBlock **blocks, guint first, guint n, gpointer queue, gpointer second)
{
  order_meet_second_queue (order, SIZE);
  tarn_testing_queues_run_all (order->queues);
  for (guint i = 0; i < 8; i++)
    blocks[i] = order_take (order, SIZE, first <= i && i < first + n ? second : queue);
  for (guint i = 0; i < 8; i++)
    tarn_block_free (blocks[i]);
}

/* With more blocks in the bin than are asked about, some of which are idle by now. */
static void
test_asks_at_most_four (Order *order, gconstpointer unused)
{
  TarnBlock *blocks[8];
  TarnBlock *block;

  (void) unused;
  free_eight (order, blocks, 2, 4, order->a, order->b);
  tarn_testing_queue_run (order->queues, order->b);
  block = order_take (order, SIZE, order->c);
  g_assert_true (block == blocks[7]);
  assert_calls_at_most (order, TARN_TESTING_CALL_EVENT_IS_DONE, 4);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 1);
  tarn_block_free (block);
}

/* What was freed first is idle first. */
static void
test_asks_oldest_first (Order *order, gconstpointer unused)
{
  TarnBlock *blocks[8];
  TarnBlock *block;

  (void) unused;
  free_eight (order, blocks, 0, 4, order->a, order->b);
  tarn_testing_queue_run (order->queues, order->b);
  block = order_take (order, SIZE, order->c);
  g_assert_true (block == blocks[0]);
  assert_calls (order, TARN_TESTING_CALL_EVENT_IS_DONE, 1);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 0);
  tarn_block_free (block);
}

/* Unless it is of queues that take long, which do not hide what others have freed since. */
static void
test_asks_newest_too (Order *order, gconstpointer unused)
{
  TarnBlock *blocks[8];
  TarnBlock *block;

  (void) unused;
  free_eight (order, blocks, 4, 4, order->a, order->b);
  tarn_testing_queue_run (order->queues, order->b);
  block = order_take (order, SIZE, order->c);
  g_assert_true (block == blocks[7]);
  assert_calls_at_most (order, TARN_TESTING_CALL_EVENT_IS_DONE, 2);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 0);
  tarn_block_free (block);
}

/* Asking ends where the answer is yes, and is not done again. */
static void
test_is_done (Order *order, gconstpointer unused)
{
  TarnBlock *block;

  (void) unused;
  order_meet_second_queue (order, SIZE);
  order_hold (order, SIZE, order->a, 8);
  tarn_testing_queues_run_all (order->queues);
  block = order_take (order, SIZE, order->b);
  assert_calls (order, TARN_TESTING_CALL_EVENT_IS_DONE, 1);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 0);
  tarn_block_free (block);
  g_assert_cmpuint (order_get_stats (order).queue_waits, ==, 0);
}

/* The use that was waited for is over for good. */
static void
test_next_free_records_own_queue (Order *order, gconstpointer unused)
{
  TarnBlock *block;
  guint n_events;

  (void) unused;
  order_meet_second_queue (order, SIZE);
  order_hold (order, SIZE, order->a, 1);
  block = order_take (order, SIZE, order->b);
  n_events = tarn_testing_queues_get_calls (order->queues, TARN_TESTING_CALL_EVENT_RECORD);
  tarn_block_free (block);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, n_events + 1);
  g_assert_true (order_take (order, SIZE, order->c) == block);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 2);
  tarn_block_free (block);
}

int
main (int argc, char **argv)
{
#define ADD(path, func)                                                                            \
  g_test_add ("/core/order/" path, Order, NULL, order_set_up, func, order_tear_down)

  g_test_init (&argc, &argv, NULL);
  ADD ("handed-on/within-a-limit", test_handed_on_within_a_limit);
  ADD ("handed-on/no-more", test_handed_on_no_more);
  ADD ("moved", test_moved);
  ADD ("prefers/same-queue", test_prefers_same_queue);
  ADD ("prefers/same-queue-below", test_prefers_same_queue_below);
  ADD ("prefers/idle", test_prefers_idle);
  ADD ("asks-at-most-four", test_asks_at_most_four);
  ADD ("asks-oldest-first", test_asks_oldest_first);
  ADD ("asks-newest-too", test_asks_newest_too);
  ADD ("done", test_is_done);
  ADD ("next-free-events-own-queue", test_next_free_records_own_queue);
  return g_test_run ();
}
