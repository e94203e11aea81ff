/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Who waits for whom before memory is used again: memory that goes back to where it came from,
 * queues that end, and queues that are being captured.  That memory is given back under commands,
 * and that a queue which is gone is called, is for the fake to see. */

#include "lib/order-fixture.h"

#include "lib/conformance.h"
#include "order/order-private.h"

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

/* Memory goes back */

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
      g_test_expect_message ("Tarn", G_LOG_LEVEL_MESSAGE, "*fails*1023 bytes*not given back*");
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
  g_test_expect_message ("Tarn", G_LOG_LEVEL_MESSAGE, "*not given back*");
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
  g_test_expect_message ("Tarn", G_LOG_LEVEL_MESSAGE, "*fails*4095 bytes*not given back*");
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
                             "*fails*8190 bytes in 2 blocks*not given back*");
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
  g_test_expect_message ("Tarn", G_LOG_LEVEL_MESSAGE, "*fails*4095 bytes*not given back*");
  tarn_pool_free_held (order->pool);
  g_thread_join (claim.thread);
  g_test_assert_expected_messages ();
  assert_valid (order->pool);
  g_assert_cmpuint (order_get_stats (order).peak_managed_bytes, ==, OTHER_SIZE);
  tarn_testing_queues_fail (order->queues, TARN_TESTING_CALL_ANY, 0, FALSE);
}

/* Queues end */

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
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 3);
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
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD,
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
  assert_calls (order, TARN_TESTING_CALL_QUEUE_REF, stays ? 2 : 20);
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
  g_assert_cmpuint (most, ==, (stays ? 65 : 1));
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

/* Capture: no call for the queue can be made */

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
#define ADD_CAPTURE(path, func)                                                                    \
  ADD_WITH (path, func, TARN_TESTING_QUEUES_CHECKS_QUEUES);                                        \
  ADD_WITH (path "/events-all", func,                                                              \
            TARN_TESTING_QUEUES_CHECKS_QUEUES | TARN_TESTING_QUEUES_RECORDS_ALL)

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
  ADD ("give-back/awaited-comes-back", test_awaited_comes_back);
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
  ADD_CAPTURE ("capture", test_capture);
  ADD_WITH ("capture/asks-in-vain", test_capture_asks_in_vain, TARN_TESTING_QUEUES_CHECKS_QUEUES);
  ADD_CAPTURE ("capture/before", test_capture_before);
  ADD_CAPTURE ("capture/out-of-order", test_capture_out_of_order);
  ADD_CAPTURE ("capture/many", test_capture_many);
  return g_test_run ();
}
