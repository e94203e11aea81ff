/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Which queue a block is used on: blocks of pools, and of the allocator itself, which wait when
 * they are freed. */

#include "lib/order-fixture.h"

#include "lib/conformance.h"
#include "pool/pool-private.h"

#define SIZE 1023
#define OTHER_SIZE 4095

/* What the tests below do to both kinds of block, by the user_data of the fixture. */
#define IS_DIRECT (1u << 16)

static gboolean
is_direct (gconstpointer flags)
{
  return (GPOINTER_TO_UINT (flags) & IS_DIRECT) != 0;
}

static void
set_up (Order *order, gconstpointer flags)
{
  order_set_up (order, GUINT_TO_POINTER (GPOINTER_TO_UINT (flags) & ~IS_DIRECT));
}

/* A block that the queue has written. */
static TarnBlock *
take (Order *order, gconstpointer flags, gpointer queue)
{
  TarnBlock *block;

  if (!is_direct (flags))
    return order_take (order, SIZE, queue);
  block = tarn_allocator_allocate (order->allocator, SIZE, NULL);
  g_assert_nonnull (block);
  order_record (order, block, queue);
  return block;
}

/* With no queue the host waits. */
static gboolean
try_move (TarnBlock *block, gpointer queue, GError **error)
{
  return queue != NULL ? tarn_block_move_to_queue (block, queue, error)
                       : tarn_block_wait (block, error);
}

/* To be another owner is what makes the fake look whether the move waits for all there was. */
static void
move (Order *order, TarnBlock *block, gpointer queue)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (try_move (block, queue, &error));
  g_assert_no_error (error);
  assert_valid (order->pool);
  g_assert_true (tarn_block_get_queue (block) == queue);
  order_own (order, block);
  if (queue != NULL)
    order_put (order, block, queue);
  else
    tarn_testing_queues_touch (order->queues, tarn_block_get_memory (block));
}

static void
assert_not_moved (Order *order, TarnBlock *block, gpointer queue)
{
  g_autoptr (GError) error = NULL;

  g_assert_false (try_move (block, queue, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_FAILED);
  assert_valid (order->pool);
}

static void
test_move (Order *order, gconstpointer flags)
{
  TarnBlock *block = take (order, flags, order->a);

  move (order, block, order->b);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 1);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 1);
  move (order, block, order->loose);
  move (order, block, order->loose);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 3);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 3);
  move (order, block, order->a);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 4);
  assert_calls (order, TARN_TESTING_CALL_HOST_WAIT, 0);
  tarn_block_free (block);
}

static void
test_move_to_same (Order *order, gconstpointer flags)
{
  TarnBlock *block = take (order, flags, order->a);

  move (order, block, order->a);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 0);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 0);
  tarn_block_free (block);
}

static void
test_move_to_host (Order *order, gconstpointer flags)
{
  TarnBlock *block = take (order, flags, order->a);

  order_record (order, block, order->b);
  move (order, block, NULL);
  assert_calls (order, TARN_TESTING_CALL_HOST_WAIT, 2);
  move (order, block, NULL);
  assert_calls (order, TARN_TESTING_CALL_HOST_WAIT, 2);
  move (order, block, order->c);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 0);
  tarn_block_free (block);
}

/* All that used it are waited for, but for the one that it moves to. */
static void
test_move_recorded (Order *order, gconstpointer flags)
{
  TarnBlock *block = take (order, flags, order->a);

  order_record (order, block, order->b);
  order_record (order, block, order->c);
  move (order, block, order->b);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 2);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 2);
  tarn_block_free (block);
}

/* In a pool that has met one queue only. */
static void
test_move_to_host_alone (Order *order, gconstpointer flags)
{
  TarnBlock *block = take (order, flags, order->a);

  move (order, block, NULL);
  assert_calls (order, TARN_TESTING_CALL_HOST_WAIT, 1);
  tarn_block_free (block);
}

/* What was put on a queue after a move that failed is waited for all the same. */
static void
test_move_fails (Order *order, gconstpointer flags)
{
  static const TarnTestingCall calls[]
      = { TARN_TESTING_CALL_QUEUE_REF, TARN_TESTING_CALL_EVENT_RECORD,
          TARN_TESTING_CALL_EVENT_WAIT };

  for (guint i = 0; i < G_N_ELEMENTS (calls); i++)
    for (guint nth = 1; nth <= 2; nth++)
      {
        TarnBlock *block = take (order, flags, order->a);
        guint n_refs;

        order_record (order, block, order->loose);
        n_refs = tarn_testing_queues_get_refs (order->queues);
        tarn_testing_queues_fail (order->queues, calls[i], nth, FALSE);
        if (tarn_block_move_to_queue (block, order->b, NULL))
          g_assert_cmpuint (tarn_testing_queues_get_failed (order->queues), ==, 0);
        else
          {
            assert_valid (order->pool);
            g_assert_cmpuint (tarn_testing_queues_get_refs (order->queues), ==, n_refs);
            g_assert_true (tarn_block_get_queue (block) == order->a);
            order_put (order, block, order->a);
            order_put (order, block, order->loose);
          }
        tarn_testing_queues_fail (order->queues, TARN_TESTING_CALL_ANY, 0, FALSE);
        move (order, block, order->c);
        tarn_block_free (block);
        tarn_block_free (take (order, flags, order->b));
      }
}

static void
test_move_to_host_fails (Order *order, gconstpointer flags)
{
  static const TarnTestingCall calls[]
      = { TARN_TESTING_CALL_EVENT_RECORD, TARN_TESTING_CALL_HOST_WAIT };

  for (guint i = 0; i < G_N_ELEMENTS (calls); i++)
    {
      TarnBlock *block = take (order, flags, order->a);

      tarn_testing_queues_fail (order->queues, calls[i], 1, FALSE);
      assert_not_moved (order, block, NULL);
      order_put (order, block, order->a);
      tarn_testing_queues_fail (order->queues, TARN_TESTING_CALL_ANY, 0, FALSE);
      tarn_block_free (block);
      tarn_block_free (take (order, flags, order->b));
      tarn_pool_free_held (order->pool);
    }
}

/* What a queue that was forgotten has used stays recorded when a move fails. */
static void
test_move_of_forgotten_fails (Order *order, gconstpointer unused)
{
  TarnBlock *block = order_take (order, SIZE, order->a);
  gpointer next;

  (void) unused;
  g_assert_true (tarn_pool_forget_queue (order->pool, order->a, NULL));
  tarn_testing_queue_destroy (order->queues, order->a);
  next = tarn_testing_queue_new (order->queues, TRUE);
  tarn_testing_queues_fail (order->queues, TARN_TESTING_CALL_EVENT_WAIT, 1, FALSE);
  assert_not_moved (order, block, order->b);
  tarn_testing_queues_fail (order->queues, TARN_TESTING_CALL_EVENT_WAIT, 0, FALSE);
  move (order, block, next);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 1);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD_ALL, 0);
  tarn_block_free (block);
}

/* A block without a pool waits at its end. */
static void
test_direct_free (Order *order, gconstpointer flags)
{
  gboolean in_order = (GPOINTER_TO_UINT (flags) & TARN_TESTING_QUEUES_FREES_IN_ORDER) != 0;
  TarnBlock *block = take (order, flags, order->a);

  g_assert_true (tarn_block_get_queue (block) == order->a);
  order_record (order, block, order->loose);
  order_record (order, block, order->a);
  assert_calls (order, TARN_TESTING_CALL_QUEUE_REF, 2);
  tarn_block_free (block);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, in_order ? 0 : 2);
  assert_calls (order, TARN_TESTING_CALL_HOST_WAIT, in_order ? 0 : 2);
  assert_calls (order, TARN_TESTING_CALL_QUEUE_UNREF, 2);
  assert_live (order, 0);
}

static void
test_direct_without_queue (Order *order, gconstpointer unused)
{
  TarnBlock *block = tarn_allocator_allocate (order->allocator, SIZE, NULL);

  (void) unused;
  g_assert_null (tarn_block_get_queue (block));
  tarn_block_free (block);
  assert_calls (order, TARN_TESTING_CALL_ANY, 0);
}

static void
test_direct_free_fails (Order *order, gconstpointer flags)
{
  static const TarnTestingCall calls[]
      = { TARN_TESTING_CALL_EVENT_RECORD, TARN_TESTING_CALL_HOST_WAIT };

  for (guint i = 0; i < G_N_ELEMENTS (calls); i++)
    {
      TarnBlock *block = take (order, flags, order->a);
      TarnMemory memory = tarn_block_get_memory (block);

      tarn_testing_queues_fail (order->queues, calls[i], 1, FALSE);
      g_test_expect_message ("Tarn", G_LOG_LEVEL_MESSAGE,
                             "*fails*the allocator does not free a block of 1023 bytes, because "
                             "commands may still use it");
      tarn_block_free (block);
      g_test_assert_expected_messages ();
      assert_live (order, 1);
      tarn_testing_queues_run_all (order->queues);
      tarn_allocator_free_memory (order->allocator, memory, SIZE);
    }
}

/* The host is no queue. */
static void
test_move_nowhere (Order *order, gconstpointer flags)
{
  TarnBlock *block = take (order, flags, order->a);
  g_autoptr (GError) error = NULL;

  g_assert_false (tarn_block_move_to_queue (block, NULL, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_true (tarn_block_get_queue (block) == order->a);
  assert_calls (order, TARN_TESTING_CALL_HOST_WAIT, 0);
  tarn_block_free (block);
}

int
main (int argc, char **argv)
{
#define ADD(path, func, flags)                                                                     \
  g_test_add ("/core/order/blocks/" path, Order, GUINT_TO_POINTER (flags), set_up, func,           \
              order_tear_down)
#define ADD_BOTH(path, func)                                                                       \
  ADD (path "/pool", func, 0);                                                                     \
  ADD (path "/pool/events-all", func, TARN_TESTING_QUEUES_RECORDS_ALL);                            \
  ADD (path "/direct", func, IS_DIRECT)
  g_test_init (&argc, &argv, NULL);
  ADD ("move/pool", test_move, 0);
  ADD ("move/direct", test_move, IS_DIRECT);
  ADD_BOTH ("move-to-same", test_move_to_same);
  ADD_BOTH ("move-to-host", test_move_to_host);
  ADD_BOTH ("move-to-host-alone", test_move_to_host_alone);
  ADD ("move-recorded/pool", test_move_recorded, 0);
  ADD ("move-recorded/direct", test_move_recorded, IS_DIRECT);
  ADD_BOTH ("move-fails", test_move_fails);
  ADD ("move-to-host-fails/pool", test_move_to_host_fails, 0);
  ADD ("move-to-host-fails/direct", test_move_to_host_fails, IS_DIRECT);
  ADD_BOTH ("move-nowhere", test_move_nowhere);
  ADD ("move-of-forgotten-fails", test_move_of_forgotten_fails, TARN_TESTING_QUEUES_RECORDS_ALL);
  ADD ("direct-free", test_direct_free, IS_DIRECT);
  ADD ("direct-free/frees-in-order", test_direct_free,
       IS_DIRECT | TARN_TESTING_QUEUES_FREES_IN_ORDER);
  ADD ("direct-free/without-queue", test_direct_without_queue, IS_DIRECT);
  ADD ("direct-free/fails", test_direct_free_fails, IS_DIRECT);
  return g_test_run ();
}
