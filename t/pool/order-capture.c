/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Who waits for whom before memory is used again: queues that are being captured, for which no
 * call can be made. */

#include "lib/order-fixture.h"

#include "lib/conformance.h"

#define SIZE 1023
#define OTHER_SIZE 4095

static void
assert_refused (Order *order, gsize size, gpointer queue)
{
  const TarnPoolStats before = order_get_stats (order);
  guint n_calls
      = tarn_testing_device_get_allocate_calls (tarn_testing_queues_get_device (order->queues));
  g_autoptr (GError) error = NULL;

  g_assert_null (tarn_pool_allocate_ordered (order->pool, size, queue, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
  g_assert_cmpuint (order_get_stats (order).failures, ==, before.failures + 1);
  g_assert_cmpuint (order_get_stats (order).hits, ==, before.hits);
  g_assert_cmpuint (order_get_stats (order).misses, ==, before.misses);
  g_assert_cmpuint (
      tarn_testing_device_get_allocate_calls (tarn_testing_queues_get_device (order->queues)), ==,
      n_calls);
  assert_valid (order->pool);
}

static void
test_capture (Order *order, gconstpointer unused)
{
  TarnBlock *captured = order_take (order, SIZE, order->a);
  TarnBlock *block, *second;

  (void) unused;
  order_hold (order, 15, order->b, 1);
  tarn_testing_queue_set_capturing (order->queues, order->a, TRUE);
  tarn_block_free (captured);
  g_assert_true (order_take (order, SIZE, order->a) == captured);
  tarn_block_free (captured);
  block = order_take (order, SIZE, order->b);
  g_assert_true (block != captured);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 0);
  assert_refused (order, OTHER_SIZE, order->a);
  tarn_testing_queue_set_capturing (order->queues, order->a, FALSE);

  /* An event is recorded when others ask again, by the next call that names the queue at the
   * latest.
   */
  second = order_take (order, SIZE, order->b);
  g_assert_true (second != captured);
  tarn_block_free (order_take (order, OTHER_SIZE, order->a));
  tarn_testing_queues_run_all (order->queues);
  g_assert_true (order_take (order, SIZE, order->b) == captured);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 0);
  tarn_block_free (captured);
  tarn_block_free (second);
  tarn_block_free (block);
}

/* Where the second queue appears meanwhile, too. */
static void
test_capture_before (Order *order, gconstpointer unused)
{
  TarnBlock *block;

  (void) unused;
  order_hold (order, SIZE, order->a, 2);
  tarn_testing_queue_set_capturing (order->queues, order->a, TRUE);
  block = order_take (order, SIZE, order->b);
  g_assert_cmpuint (order_get_stats (order).misses, ==, 3);
  tarn_block_free (block);
  order_hold (order, SIZE, order->a, 2);
  g_assert_cmpuint (order_get_stats (order).misses, ==, 3);
  tarn_testing_queue_set_capturing (order->queues, order->a, FALSE);
  order_hold (order, SIZE, order->a, 2);
  order_hold (order, SIZE, order->b, 2);
  g_assert_cmpuint (order_get_stats (order).misses, ==, 4);
  order_hold (order, SIZE, order->a, 1);
  tarn_testing_queues_run_all (order->queues);
  order_hold (order, SIZE, order->b, 3);
  g_assert_cmpuint (order_get_stats (order).misses, ==, 4);
}

/* An out-of-order queue cannot have what it cannot wait for, nor can the host. */
static void
test_capture_out_of_order (Order *order, gconstpointer unused)
{
  TarnBlock *block = order_take (order, SIZE, order->loose);
  TarnBlock *other;

  (void) unused;
  tarn_testing_queue_set_capturing (order->queues, order->loose, TRUE);
  tarn_block_free (block);
  assert_refused (order, SIZE, order->loose);
  other = order_take (order, SIZE, NULL);
  g_assert_true (other != block);
  tarn_testing_queue_set_capturing (order->queues, order->loose, FALSE);
  tarn_block_free (other);
}

/* What cannot be waited for is skipped, however much of it there is. */
static void
test_capture_many (Order *order, gconstpointer unused)
{
  TarnBlock *blocks[10];
  TarnBlock *block;

  (void) unused;
  order_hand_on (order, SIZE);
  order_hold (order, 15, order->b, 1);
  block = order_take (order, SIZE, order->b);
  for (guint i = 0; i < 10; i++)
    blocks[i] = order_take (order, SIZE, order->a);
  tarn_block_free (block);
  tarn_testing_queue_set_capturing (order->queues, order->a, TRUE);
  for (guint i = 0; i < 10; i++)
    tarn_block_free (blocks[i]);
  g_assert_true (order_take (order, SIZE, order->c) == block);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 1);
  tarn_block_free (block);
  tarn_testing_queue_set_capturing (order->queues, order->a, FALSE);
}

/* A request that fails has asked for nothing: the next one has what is there. */
static void
test_capture_asks_in_vain (Order *order, gconstpointer unused)
{
  (void) unused;
  order_hold (order, SIZE, order->a, 1);
  tarn_testing_queue_set_capturing (order->queues, order->b, TRUE);
  assert_refused (order, SIZE, order->b);
  tarn_testing_queue_set_capturing (order->queues, order->b, FALSE);
  order_hold (order, SIZE, order->b, 1); /* fresh, and the other one gets its event */
  assert_live (order, 2);
  tarn_testing_queues_run_all (order->queues);
  order_hold (order, SIZE, order->b, 2);
  assert_live (order, 2);
  assert_valid (order->pool);
}

typedef struct
{
  Order *order;
  guint n_asked;
} Forgetting;

static void
forget_asked (gpointer data)
{
  Forgetting *self = data;
  g_autoptr (GError) error = NULL;

  self->n_asked++;
  g_assert_false (tarn_pool_forget_queue (self->order->pool, self->order->a, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_RECURSION);
}

/* While a free asks the backend whether a queue is captured still, nobody can make the pool forget
 * the queue, and then destroy it. */
static void
test_capture_forgotten (Order *order, gconstpointer unused)
{
  Forgetting self = { .order = order };
  TarnBlock *blocks[3], *others[2];

  (void) unused;
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = order_take (order, SIZE, order->a);
  order_hold (order, 15, order->b, 1);
  tarn_testing_queue_set_capturing (order->queues, order->a, TRUE);
  tarn_block_free (blocks[0]);
  others[0] = order_take (order, SIZE, order->b); /* wants an event */
  tarn_block_free (blocks[1]);                    /* cannot record it */
  tarn_testing_queue_set_capturing (order->queues, order->a, FALSE);
  others[1] = order_take (order, SIZE, order->b);
  tarn_testing_queues_set_hook (order->queues, TARN_TESTING_CALL_CHECK_QUEUE, forget_asked, &self);
  tarn_block_free (blocks[2]);
  tarn_testing_queues_set_hook (order->queues, TARN_TESTING_CALL_CHECK_QUEUE, NULL, NULL);
  g_assert_cmpuint (self.n_asked, ==, 1);
  for (guint i = 0; i < G_N_ELEMENTS (others); i++)
    tarn_block_free (others[i]);
  assert_valid (order->pool);
}

int
main (int argc, char **argv)
{
#define ADD_WITH(path, func, flags)                                                                \
  g_test_add ("/core/order/" path, Order, GUINT_TO_POINTER (flags), order_set_up, func,            \
              order_tear_down)
#define ADD_CAPTURE(path, func)                                                                    \
  ADD_WITH (path, func, TARN_TESTING_QUEUES_CHECKS_QUEUES);                                        \
  ADD_WITH (path "/events-all", func,                                                              \
            TARN_TESTING_QUEUES_CHECKS_QUEUES | TARN_TESTING_QUEUES_RECORDS_ALL)
  g_test_init (&argc, &argv, NULL);
  ADD_CAPTURE ("capture", test_capture);
  ADD_WITH ("capture/asks-in-vain", test_capture_asks_in_vain, TARN_TESTING_QUEUES_CHECKS_QUEUES);
  ADD_CAPTURE ("capture/before", test_capture_before);
  ADD_CAPTURE ("capture/out-of-order", test_capture_out_of_order);
  ADD_CAPTURE ("capture/many", test_capture_many);
  ADD_WITH ("capture/forgotten", test_capture_forgotten,
            TARN_TESTING_QUEUES_CHECKS_QUEUES | TARN_TESTING_QUEUES_RECORDS_ALL);
  return g_test_run ();
}
