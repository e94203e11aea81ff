/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Frees that name a queue: tarn_block_free_on (). */

#include "lib/order-fixture.h"

#define SIZE 5000

/* The queue that the free names is done before a third queue uses the memory. */
static void
test_free_on (Order *order, gconstpointer unused)
{
  TarnBlock *block;

  (void) unused;
  for (guint i = 0; i < 3; i++)
    {
      block = order_take (order, SIZE, order->a);
      tarn_testing_queue_follow (order->queues, order->b, order->a);
      order_put (order, block, order->b);
      tarn_block_free_on (block, order->b);
      tarn_block_free (order_take (order, SIZE, i % 2 == 0 ? order->c : order->a));
    }
}

/* The queue that the block is anyway: nothing is recorded, and the queue has it again at once. */
static void
test_free_on_own_queue (Order *order, gconstpointer unused)
{
  TarnBlock *block = order_take (order, SIZE, order->a);
  gpointer memory = tarn_block_get_memory (block).pointer;

  (void) unused;
  tarn_block_free_on (block, order->a);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 0);
  block = order_take (order, SIZE, order->a);
  g_assert_true (tarn_block_get_memory (block).pointer == memory);
  tarn_block_free_on (block, NULL);
  tarn_block_free_on (NULL, order->a);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 0);
}

/* Each holder names the queue that it used. */
static void
test_free_on_shared (Order *order, gconstpointer unused)
{
  TarnBlock *block = order_take (order, SIZE, order->a);

  (void) unused;
  tarn_block_ref (block);
  tarn_testing_queue_follow (order->queues, order->b, order->a);
  order_put (order, block, order->b);
  tarn_block_free_on (block, order->b);
  tarn_block_free_on (block, order->a);
  tarn_block_free (order_take (order, SIZE, order->c));
}

typedef struct
{
  TarnBlock *block;
  gpointer queue;
  gint *n_ready; /* atomic */
} Holder;

static gpointer
free_on_own_queue (gpointer data)
{
  const Holder *holder = data;

  g_atomic_int_inc (holder->n_ready);
  while (g_atomic_int_get (holder->n_ready) < 2)
    g_thread_yield ();
  tarn_block_free_on (holder->block, holder->queue);
  return NULL;
}

/* ... at the same time. */
static void
test_free_on_threads (Order *order, gconstpointer unused)
{
  (void) unused;
  for (guint round = 0; round < 100; round++)
    {
      TarnBlock *block = order_take (order, SIZE, order->a);
      gint n_ready = 0;
      Holder holders[] = { { block, order->a, &n_ready }, { block, order->b, &n_ready } };
      GThread *thread;

      tarn_block_ref (block);
      thread = g_thread_new ("holder", free_on_own_queue, &holders[1]);
      free_on_own_queue (&holders[0]);
      g_thread_join (thread);
    }
  g_assert_cmpuint (tarn_pool_get_active_blocks (order->pool), ==, 0);
}

static void
test_free_on_without_pool (Order *order, gconstpointer unused)
{
  TarnBlock *block = tarn_allocator_allocate (order->allocator, SIZE, NULL);

  (void) unused;
  order_put (order, block, order->a);
  tarn_block_ref (block);
  tarn_block_free_on (block, order->a);
  assert_live (order, 1);
  tarn_block_free_on (block, order->a);
  assert_live (order, 0);
}

/* A block that nobody could tell idle stays in use, and the message says so. */
static void
test_free_on_fails (Order *order, gconstpointer unused)
{
  TarnBlock *block = order_take (order, SIZE, order->a);

  (void) unused;
  tarn_testing_queues_fail (order->queues, TARN_TESTING_CALL_QUEUE_REF, 1, FALSE);
  g_test_expect_message ("Tarn", G_LOG_LEVEL_MESSAGE, "*: a block of 5000 bytes stays in use");
  tarn_block_free_on (block, order->b);
  g_test_assert_expected_messages ();
  g_assert_cmpuint (tarn_pool_get_active_blocks (order->pool), ==, 1);
  tarn_block_free (block);
  g_assert_cmpuint (tarn_pool_get_active_blocks (order->pool), ==, 0);
}

#define ADD(path, func)                                                                            \
  g_test_add ("/core/free-on/" path, Order, NULL, order_set_up, func, order_tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("other-queue", test_free_on);
  ADD ("own-queue", test_free_on_own_queue);
  ADD ("shared", test_free_on_shared);
  ADD ("threads", test_free_on_threads);
  ADD ("no-pool", test_free_on_without_pool);
  ADD ("failure", test_free_on_fails);
  return g_test_run ();
}
