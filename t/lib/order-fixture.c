/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "order-fixture.h"

#include "conformance.h"

void
order_set_up (Order *order, gconstpointer flags)
{
  order->queues = tarn_testing_queues_new (G_MAXUINT64, GPOINTER_TO_UINT (flags));
  order->allocator = tarn_testing_queues_allocator_new (order->queues);
  order->pool = tarn_pool_new (order->allocator, NULL, NULL);
  order->a = tarn_testing_queue_new (order->queues, TRUE);
  order->b = tarn_testing_queue_new (order->queues, TRUE);
  order->c = tarn_testing_queue_new (order->queues, TRUE);
  order->loose = tarn_testing_queue_new (order->queues, FALSE);
}

void
order_drop_pool (Order *order)
{
  assert_valid (order->pool);
  tarn_pool_unref (g_steal_pointer (&order->pool));
}

void
order_tear_down (Order *order, gconstpointer unused)
{
  (void) unused;
  if (order->pool != NULL)
    order_drop_pool (order);
  tarn_allocator_unref (order->allocator);
  tarn_testing_queues_run_all (order->queues);
  tarn_testing_queues_free (order->queues);
}

TarnBlock *
order_take (Order *order, gsize size, gpointer queue)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_pool_allocate_ordered (order->pool, size, queue, &error);
  TarnMemory memory;

  g_assert_no_error (error);
  assert_valid (order->pool);
  g_assert_true (tarn_block_get_queue (block) == queue);
  memory = tarn_block_get_memory (block);
  tarn_testing_queues_own (order->queues, memory);
  if (queue != NULL)
    tarn_testing_queue_put (order->queues, queue, memory, TARN_TESTING_COMMAND_WRITE,
                            ++order->n_writes);
  else
    tarn_testing_queues_touch (order->queues, memory);
  return block;
}

void
order_hand_on (Order *order, gsize size)
{
  hand_on (order->pool, size);
}

void
order_meet_second_queue (Order *order, gsize size)
{
  tarn_block_free (order_take (order, 15, order->a));
  tarn_block_free (order_take (order, 31, order->b));
  order_hand_on (order, size);
}

void
order_hold (Order *order, gsize size, gpointer queue, guint n)
{
  g_autofree TarnBlock **blocks = g_new (TarnBlock *, n);

  for (guint i = 0; i < n; i++)
    blocks[i] = order_take (order, size, queue);
  for (guint i = 0; i < n; i++)
    tarn_block_free (blocks[i]);
  assert_valid (order->pool);
}

void
order_put (Order *order, TarnBlock *block, gpointer queue)
{
  tarn_testing_queue_put (order->queues, queue, tarn_block_get_memory (block),
                          TARN_TESTING_COMMAND_USE, 0);
}

void
order_record (Order *order, TarnBlock *block, gpointer queue)
{
  gpointer first = tarn_block_get_queue (block);
  g_autoptr (GError) error = NULL;

  if (first != NULL && first != queue)
    tarn_testing_queue_follow (order->queues, queue, first);
  g_assert_true (tarn_block_record_use (block, queue, &error));
  g_assert_no_error (error);
  assert_valid (order->pool);
  order_put (order, block, queue);
}

void
order_own (Order *order, TarnBlock *block)
{
  tarn_testing_queues_own (order->queues, tarn_block_get_memory (block));
}

TarnPoolStats
order_get_stats (Order *order)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;

  tarn_pool_get_stats (order->pool, &stats);
  return stats;
}
