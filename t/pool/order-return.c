/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Who waits for whom before memory is used again: memory that the pool returns to the driver,
 * or cannot return because a wait fails.  The fake sees whether memory is returned under
 * commands. */

#include "lib/order-fixture.h"

#include "lib/conformance.h"
#include "pool/pool-private.h"

#define SIZE 1023
#define OTHER_SIZE 4095

static gboolean
frees_in_order (gconstpointer flags)
{
  return (GPOINTER_TO_UINT (flags) & TARN_TESTING_QUEUES_FREES_IN_ORDER) != 0;
}

/* How often the host has waited and the backend was asked for an event, where it must be at all. */
static void
assert_waited (Order *order, gconstpointer flags, guint n)
{
  assert_calls (order, TARN_TESTING_CALL_HOST_WAIT, frees_in_order (flags) ? 0 : n);
  g_assert_cmpuint (order_get_stats (order).queue_waits, ==, frees_in_order (flags) ? 0 : n);
}

static void
test_free_held (Order *order, gconstpointer flags)
{
  order_hold (order, SIZE, order->a, 1);
  order_hold (order, OTHER_SIZE, NULL, 1);
  order_hold (order, SIZE, order->a, 2);
  tarn_pool_free_held (order->pool);
  assert_live (order, 0);
  assert_waited (order, flags, 1); /* one event is enough for both */
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, frees_in_order (flags) ? 0 : 1);
  assert_pending (order, order->a, frees_in_order (flags) ? 3 : 0);
  g_assert_cmpuint (tarn_testing_queues_get_refs (order->queues), ==, 0);
}

/* What is recorded already is not recorded again, and what came later is not waited for. */
static void
test_free_recorded (Order *order, gconstpointer flags)
{
  TarnBlock *later;

  order_hand_on (order, 15);
  order_hand_on (order, SIZE);
  order_hold (order, 15, order->b, 1);
  order_hold (order, SIZE, order->a, 1);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 2);
  later = order_take (order, OTHER_SIZE, order->a);
  tarn_pool_free_held (order->pool);
  assert_live (order, 1);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 2);
  assert_waited (order, flags, 2);
  assert_pending (order, order->a, frees_in_order (flags) ? 2 : 1);
  tarn_block_free (later);
}

static void
test_stop_holding (Order *order, gconstpointer flags)
{
  TarnBlock *block = order_take (order, SIZE, order->a);

  order_hold (order, OTHER_SIZE, order->a, 1);
  tarn_pool_stop_holding (order->pool);
  assert_live (order, 1);
  assert_waited (order, flags, 1);
  order_record (order, block, order->loose);
  tarn_block_free (block);
  assert_live (order, 0);
  assert_waited (order, flags, 3);
}

/* A block that is freed is recorded by its own queue, which the caller says is alive, and so the
 * host does not wait for other queues. */
static void
test_freed_for_good (Order *order, gconstpointer unused)
{
  TarnBlock *other = order_take (order, OTHER_SIZE, order->b);
  TarnBlock *block = order_take (order, SIZE, order->a);

  (void) unused;
  tarn_pool_stop_holding (order->pool);
  tarn_block_free (block);
  assert_live (order, 1);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 1);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD_ALL, 0);
  assert_pending (order, order->b, 1);
  tarn_block_free (other);
}

static void
test_out_of_memory (Order *order, gconstpointer flags)
{
  TarnBlock *block;

  tarn_testing_device_set_budget (tarn_testing_queues_get_device (order->queues), OTHER_SIZE);
  order_hold (order, OTHER_SIZE, order->a, 1);
  block = order_take (order, SIZE, order->b);
  assert_live (order, 1);
  assert_waited (order, flags, 1);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 0);
  tarn_block_free (block);
}

typedef struct
{
  Order *order;
  TarnBlock *block;
} Reclaimable;

static gboolean
use_and_free (TarnPool *pool, gsize wanted, gpointer data)
{
  Reclaimable *reclaimable = data;

  (void) pool;
  (void) wanted;
  order_record (reclaimable->order, reclaimable->block, reclaimable->order->a);
  tarn_block_free (reclaimable->block);
  return FALSE;
}

/* What is found in the bin once others were asked may be in use, although the pool had not met a
 * queue when the request began. */
static void
test_found_again (Order *order, gconstpointer unused)
{
  Reclaimable reclaimable = { order, NULL };
  TarnBlock *block;

  (void) unused;
  tarn_testing_device_set_budget (tarn_testing_queues_get_device (order->queues), SIZE);
  reclaimable.block = order_take (order, SIZE, NULL);
  tarn_pool_add_reclaim_func (order->pool, use_and_free, &reclaimable, NULL);
  block = order_take (order, SIZE, NULL);
  g_assert_true (block == reclaimable.block);
  assert_calls (order, TARN_TESTING_CALL_HOST_WAIT, 1);
  tarn_block_free (block);
}

static void
test_pool_dies (Order *order, gconstpointer flags)
{
  TarnBlock *block = order_take (order, SIZE, order->a);
  TarnBlock *other = order_take (order, SIZE, order->b);

  order_hold (order, OTHER_SIZE, order->a, 1);
  order_drop_pool (order);
  assert_live (order, 2);
  assert_calls (order, TARN_TESTING_CALL_HOST_WAIT, frees_in_order (flags) ? 0 : 1);
  tarn_block_free (block);
  assert_live (order, 1);
  tarn_block_free (other);
  assert_live (order, 0);
  assert_calls (order, TARN_TESTING_CALL_HOST_WAIT, frees_in_order (flags) ? 0 : 3);
}

/* A block of an exact size is never held. */
static void
test_exact_size (Order *order, gconstpointer flags)
{
  TarnBlock *block;

  tarn_testing_device_set_max_size (tarn_testing_queues_get_device (order->queues), 2048);
  block = order_take (order, 2048, order->a);
  tarn_block_free (block);
  assert_live (order, 0);
  assert_waited (order, flags, 1);

  order_hold (order, SIZE, order->b, 1);
  block = order_take (order, 2048, order->a);
  tarn_block_free (block);
  assert_live (order, 1);
  assert_waited (order, flags, 2);
}

/* What a pool gets back it hands out to anybody. */
static void
test_pool_over_pool (Order *order, gconstpointer unused)
{
  g_autoptr (TarnPool) inner = g_steal_pointer (&order->pool);
  TarnBlock *block;

  (void) unused;
  order->pool = tarn_pool_new (TARN_ALLOCATOR (inner), NULL, NULL);
  order_hand_on (order, SIZE);
  order_hold (order, SIZE, order->a, 1);
  order_hold (order, SIZE, order->b, 1);
  tarn_pool_free_held (order->pool);
  g_assert_cmpuint (tarn_pool_get_held_blocks (inner), ==, 1);
  assert_calls (order, TARN_TESTING_CALL_HOST_WAIT, 1);

  block = allocate (inner, SIZE);
  order_own (order, block);
  tarn_testing_queues_touch (order->queues, tarn_block_get_memory (block));
  tarn_block_free (block);
  order_hold (order, SIZE, order->c, 1);
  assert_live (order, 1);
  order_drop_pool (order);
}

/* What cannot be waited for does not go back, and there is a message; it goes with the next. */
static void
test_wait_fails (Order *order, gconstpointer unused)
{
  static const TarnTestingCall calls[]
      = { TARN_TESTING_CALL_EVENT_RECORD, TARN_TESTING_CALL_HOST_WAIT };

  (void) unused;
  for (guint i = 0; i < G_N_ELEMENTS (calls); i++)
    {
      order_hold (order, SIZE, order->a, 1);
      tarn_testing_queues_fail (order->queues, calls[i], 1, FALSE);
      if (calls[i]
          == TARN_TESTING_CALL_EVENT_RECORD) /* for all that goes, and then for this block */
        tarn_testing_queues_fail (order->queues, calls[i], 1, TRUE);
      g_test_expect_message ("Tarn", G_LOG_LEVEL_MESSAGE, "*fails*does not return 1023 bytes*");
      tarn_pool_free_held (order->pool);
      g_test_assert_expected_messages ();
      assert_live (order, 1);
      assert_valid (order->pool);
      g_assert_cmpuint (tarn_pool_get_held_blocks (order->pool), ==, 1);
      tarn_testing_queues_fail (order->queues, TARN_TESTING_CALL_ANY, 0, FALSE);
      tarn_pool_free_held (order->pool);
      assert_live (order, 0);
      assert_valid (order->pool);
    }
}

/* In a pool that holds nothing any more, too, where several queues use a block. */
static void
test_one_wait_fails (Order *order, gconstpointer unused)
{
  TarnBlock *block = order_take (order, SIZE, order->a);

  (void) unused;
  order_record (order, block, order->loose);
  order_record (order, block, order->b);
  tarn_pool_stop_holding (order->pool);
  tarn_testing_queues_fail (order->queues, TARN_TESTING_CALL_HOST_WAIT, 2, FALSE);
  g_test_expect_message ("Tarn", G_LOG_LEVEL_MESSAGE, "*does not return*");
  tarn_block_free (block);
  g_test_assert_expected_messages ();
  assert_live (order, 1);
  assert_valid (order->pool);
  tarn_testing_queues_fail (order->queues, TARN_TESTING_CALL_ANY, 0, FALSE);
  tarn_block_free (order_take (order, OTHER_SIZE, order->b));
  assert_live (order, 0);
}

/* Checks that a request for so many bytes fails because of the limit. */
static void
assert_refused_at_limit (Order *order, gsize size)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (tarn_pool_allocate_ordered (order->pool, size, order->b, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
}

/* A limit counts what could not go back: the request fails, and nothing is above the limit. */
static void
test_stuck_within_a_limit (Order *order, gconstpointer unused)
{
  (void) unused;
  tarn_pool_set_limit_bytes (order->pool, OTHER_SIZE);
  order_hold (order, OTHER_SIZE, order->a, 1);
  tarn_testing_queues_fail (order->queues, TARN_TESTING_CALL_EVENT_RECORD, 1, TRUE);
  g_test_expect_message ("Tarn", G_LOG_LEVEL_MESSAGE, "*fails*does not return 4095 bytes*");
  assert_refused_at_limit (order, SIZE);
  g_test_assert_expected_messages ();
  assert_valid (order->pool);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (order->pool), ==, OTHER_SIZE);
  tarn_testing_queues_fail (order->queues, TARN_TESTING_CALL_ANY, 0, FALSE);
  order_hold (order, SIZE, order->b, 1);
  assert_live (order, 1);
}

/* Memory that cannot be freed stays above a lower limit.  A message says so once, whatever is
 * requested meanwhile, and once more when it happens again. */
static void
test_stuck_above_a_limit (Order *order, gconstpointer unused)
{
  (void) unused;
  for (guint round = 0; round < 2; round++)
    {
      order_hold (order, OTHER_SIZE, order->a, 4);
      tarn_testing_queues_fail (order->queues, TARN_TESTING_CALL_EVENT_RECORD, 1, TRUE);
      g_test_expect_message ("Tarn", G_LOG_LEVEL_MESSAGE,
                             "*fails*the pool does not return 8190 bytes in 2 blocks to its "
                             "allocator, because commands may "
                             "still use them");
      tarn_pool_set_limit_bytes (order->pool, (gsize) 2 * OTHER_SIZE);
      assert_valid (order->pool);
      for (guint i = 0; i < 3; i++)
        {
          assert_refused_at_limit (order, SIZE);
          tarn_pool_free_held (order->pool);
          assert_valid (order->pool);
        }
      g_assert_cmpuint (tarn_pool_get_managed_bytes (order->pool), ==, (gsize) 4 * OTHER_SIZE);
      g_test_assert_expected_messages ();
      tarn_testing_queues_fail (order->queues, TARN_TESTING_CALL_ANY, 0, FALSE);
      tarn_pool_free_held (order->pool);
      assert_live (order, 0);
      tarn_pool_set_limit_bytes (order->pool, 0);
    }
}

/* The largest block cannot go back while its queue is captured, so a smaller one goes. */
static void
test_stuck_largest (Order *order, gconstpointer unused)
{
  (void) unused;
  tarn_pool_set_limit_bytes (order->pool, OTHER_SIZE + SIZE);
  order_hold (order, OTHER_SIZE, order->a, 1);
  order_hold (order, SIZE, order->b, 1);
  tarn_testing_queue_set_capturing (order->queues, order->a, TRUE);
  g_test_expect_message ("Tarn", G_LOG_LEVEL_MESSAGE, "*does not return 4095 bytes*");
  tarn_block_free (order_take (order, SIZE / 2, order->c));
  g_test_assert_expected_messages ();
  tarn_testing_queue_set_capturing (order->queues, order->a, FALSE);
}

static TarnPool *
member_new (TarnTestingQueues *queues, TarnReclaimGroup *group)
{
  g_autoptr (TarnAllocator) allocator = tarn_testing_queues_allocator_new (queues);
  TarnPool *pool = tarn_pool_new (allocator, NULL, NULL);

  tarn_pool_set_reclaim_group (pool, group);
  return pool;
}

/* As long as the richest member of a group can return nothing, another one does. */
static void
test_stuck_richest (void)
{
  TarnTestingQueues *queues = tarn_testing_queues_new (5 * SIZE, 0);
  TarnReclaimGroup *group = tarn_reclaim_group_new ();
  gpointer a = tarn_testing_queue_new (queues, TRUE), b = tarn_testing_queue_new (queues, TRUE);
  TarnPool *pools[3];
  TarnBlock *blocks[4];
  GError *error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (pools); i++)
    pools[i] = member_new (queues, group);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = tarn_pool_allocate_ordered (pools[0], SIZE, a, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    tarn_block_free (blocks[i]);
  tarn_block_free (tarn_pool_allocate_ordered (pools[1], SIZE, b, NULL));
  tarn_testing_queue_set_capturing (queues, a, TRUE);
  g_test_expect_message ("Tarn", G_LOG_LEVEL_MESSAGE, "*does not return 1023 bytes*");
  tarn_block_free (tarn_pool_allocate_ordered (pools[2], SIZE, b, &error));
  g_assert_no_error (error);
  g_test_assert_expected_messages ();
  tarn_testing_queue_set_capturing (queues, a, FALSE);
  for (guint i = 0; i < G_N_ELEMENTS (pools); i++)
    {
      assert_valid (pools[i]);
      tarn_pool_unref (pools[i]);
    }
  tarn_reclaim_group_unref (group);
  tarn_testing_queue_destroy (queues, a);
  tarn_testing_queue_destroy (queues, b);
  tarn_testing_queues_free (queues);
}

typedef struct
{
  Order *order;
  GThread *thread;
} Claim;

/* Asks for what another thread is giving back. */
static gpointer
claim_returning (gpointer data)
{
  Claim *claim = data;

  assert_refused_at_limit (claim->order, SIZE);
  return NULL;
}

/* Lets the wait fail only after the other thread has reserved the bytes. */
static void
let_claim (gpointer data)
{
  Claim *claim = data;
  TarnPool *pool = claim->order->pool;
  gsize reserved_bytes;

  claim->thread = g_thread_new ("claim", claim_returning, claim);
  do
    {
      g_thread_yield ();
      _tarn_mutex_lock (&pool->lock);
      reserved_bytes = pool->limit.reserved_bytes;
      _tarn_mutex_unlock (&pool->lock);
    }
  while (reserved_bytes == 0);
}

/* A request waits for memory that another thread gives back.  If that cannot go, the pool still has
 * no more than its limit. */
static void
test_awaited_comes_back (Order *order, gconstpointer unused)
{
  Claim claim = { .order = order };

  (void) unused;
  tarn_pool_set_limit_bytes (order->pool, OTHER_SIZE);
  order_hold (order, OTHER_SIZE, order->a, 1);
  tarn_testing_queues_set_hook (order->queues, TARN_TESTING_CALL_HOST_WAIT, let_claim, &claim);
  tarn_testing_queues_fail (order->queues, TARN_TESTING_CALL_HOST_WAIT, 1, TRUE);
  g_test_expect_message ("Tarn", G_LOG_LEVEL_MESSAGE, "*fails*does not return 4095 bytes*");
  tarn_pool_free_held (order->pool);
  g_thread_join (claim.thread);
  g_test_assert_expected_messages ();
  assert_valid (order->pool);
  g_assert_cmpuint (order_get_stats (order).peak_managed_bytes, ==, OTHER_SIZE);
  tarn_testing_queues_fail (order->queues, TARN_TESTING_CALL_ANY, 0, FALSE);
}

int
main (int argc, char **argv)
{
#define ADD_WITH(path, func, flags)                                                                \
  g_test_add ("/core/order/" path, Order, GUINT_TO_POINTER (flags), order_set_up, func,            \
              order_tear_down)
#define ADD(path, func) ADD_WITH (path, func, 0)
#define ADD_GIVE_BACK(path, func)                                                                  \
  ADD (path, func);                                                                                \
  ADD_WITH (path "/frees-in-order", func, TARN_TESTING_QUEUES_FREES_IN_ORDER)
  g_test_init (&argc, &argv, NULL);
  ADD_GIVE_BACK ("give-back/free-held", test_free_held);
  ADD_GIVE_BACK ("give-back/recorded", test_free_recorded);
  ADD_GIVE_BACK ("give-back/stop-holding", test_stop_holding);
  ADD_WITH ("give-back/freed-for-good", test_freed_for_good, TARN_TESTING_QUEUES_RECORDS_ALL);
  ADD_GIVE_BACK ("give-back/out-of-memory", test_out_of_memory);
  ADD ("found-again", test_found_again);
  ADD_GIVE_BACK ("give-back/pool-dies", test_pool_dies);
  ADD_GIVE_BACK ("give-back/exact-size", test_exact_size);
  ADD_GIVE_BACK ("give-back/pool-over-pool", test_pool_over_pool);
  ADD ("give-back/wait-fails", test_wait_fails);
  ADD ("give-back/one-wait-fails", test_one_wait_fails);
  ADD ("give-back/stuck-within-a-limit", test_stuck_within_a_limit);
  ADD ("give-back/stuck-above-a-limit", test_stuck_above_a_limit);
  ADD ("give-back/stuck-largest", test_stuck_largest);
  g_test_add_func ("/core/order/give-back/stuck-richest", test_stuck_richest);
  ADD ("give-back/awaited-comes-back", test_awaited_comes_back);
  return g_test_run ();
}
