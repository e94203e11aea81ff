/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Who waits for whom before memory is used again: requests, and the events that frees record
 * for them. */

#include "lib/order-fixture.h"

#include "lib/conformance.h"
#include "lib/in-child.h"
#include "pool/pool-private.h"

/* One of each of two bins; every size is the largest of its bin. */
#define SIZE 1023
#define OTHER_SIZE 4095

/* One queue: nothing is called, whatever is done. */
static void
test_one_queue (Order *order, gconstpointer unused)
{
  (void) unused;
  for (guint i = 0; i < 100; i++)
    {
      TarnBlock *first = order_take (order, SIZE, order->a);
      TarnBlock *second = order_take (order, SIZE + i, order->a);

      order_record (order, first, order->a);
      tarn_block_free (first);
      order_record (order, second, order->a);
      tarn_block_free (second);
    }
  assert_calls (order, TARN_TESTING_CALL_QUEUE_REF, 1);
  assert_calls (order, TARN_TESTING_CALL_QUEUE_UNREF, 0);
  order_drop_pool (order);
  assert_calls (order, TARN_TESTING_CALL_QUEUE_REF, 1);
  assert_calls (order, TARN_TESTING_CALL_QUEUE_UNREF, 1);
  assert_calls (order, TARN_TESTING_CALL_ANY, 1);
  assert_calls (order, TARN_TESTING_CALL_EVENT_IS_DONE, 0);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RELEASE, 0);
}

/* Where nothing remembers the only queue, the next one is the only queue, too. */
static void
test_one_queue_after_another (Order *order, gconstpointer unused)
{
  (void) unused;
  order_hold (order, SIZE, order->a, 3);
  tarn_pool_free_held (order->pool);
  g_assert_cmpuint (tarn_testing_queues_get_refs (order->queues), ==, 0);
  order_hold (order, SIZE, order->b, 3);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 0);
}

/* What waits does so for what was on the queue at the free, and for nothing else. */
static void
test_waits_for_the_free (Order *order, gconstpointer unused)
{
  TarnBlock *first, *second, *later;

  (void) unused;
  order_meet_second_queue (order, SIZE);
  tarn_testing_queues_run_all (order->queues);
  first = order_take (order, SIZE, order->a);
  tarn_block_free (first);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 1);
  later = order_take (order, OTHER_SIZE, order->a);

  second = order_take (order, SIZE, order->b);
  g_assert_true (second == first);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 1);
  assert_calls (order, TARN_TESTING_CALL_HOST_WAIT, 0);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 1);
  g_assert_cmpuint (tarn_testing_queue_run (order->queues, order->b), ==, 0);
  g_assert_true (tarn_testing_queue_run_one (order->queues, order->a));
  g_assert_cmpuint (tarn_testing_queue_run (order->queues, order->b), ==, 2);
  assert_pending (order, order->a, 1);
  tarn_block_free (second);
  tarn_block_free (later);
}

/* What another queue holds is nobody else's before it is idle, however long that takes: the queue
 * has fresh memory, and waits for nothing.  The event that tells is recorded at once where queues
 * are kept alive, else by the next call that names the queue. */
static void
test_held_before (Order *order, gconstpointer flags)
{
  const gboolean records_all = (GPOINTER_TO_UINT (flags) & TARN_TESTING_QUEUES_RECORDS_ALL) != 0;
  static const gsize sizes[] = { 15, 31, 63, 127, 255, 511 };
  TarnBlock *blocks[G_N_ELEMENTS (sizes)][2];

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    order_hold (order, sizes[i], order->a, 2);
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      blocks[i][0] = order_take (order, sizes[i], order->b);
      assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, records_all ? i : i + 1);
      blocks[i][1] = order_take (order, sizes[i], order->a);
      assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, i + 1);
    }
  g_assert_cmpuint (order_get_stats (order).misses, ==, 3 * G_N_ELEMENTS (sizes));
  g_assert_cmpuint (tarn_testing_queue_run (order->queues, order->b), ==, G_N_ELEMENTS (sizes));

  tarn_testing_queues_run_all (order->queues);
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      TarnBlock *idle = order_take (order, sizes[i], order->b);

      tarn_block_free (blocks[i][0]);
      tarn_block_free (blocks[i][1]);
      tarn_block_free (idle);
    }
  g_assert_cmpuint (order_get_stats (order).misses, ==, 3 * G_N_ELEMENTS (sizes));
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD_ALL, 0);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 0);
  assert_calls (order, TARN_TESTING_CALL_HOST_WAIT, 0);
}

/* One event tells of all blocks of a size that a queue holds, and the queue has them as before. */
static void
test_one_event_for_all (Order *order, gconstpointer unused)
{
  TarnBlock *blocks[20];

  (void) unused;
  order_hold (order, SIZE, order->a, G_N_ELEMENTS (blocks));
  tarn_block_free (order_take (order, SIZE, order->b));
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 1);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = order_take (order, SIZE, order->a);
  g_assert_cmpuint (order_get_stats (order).misses, ==, G_N_ELEMENTS (blocks) + 1);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    tarn_block_free (blocks[i]);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 1);

  tarn_testing_queues_run_all (order->queues);
  blocks[0] = order_take (order, SIZE, order->b);
  tarn_block_free (order_take (order, SIZE, order->b));
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 2);
  tarn_block_free (blocks[0]);
}

/* The event that a free records is for what was on the queue until then, also where the free is the
 * first call that names the queue after others wanted its memory. */
static void
test_wanted_at_the_free (Order *order, gconstpointer unused)
{
  TarnBlock *active = order_take (order, OTHER_SIZE, order->a);

  (void) unused;
  order_hold (order, SIZE, order->a, 1);
  tarn_block_free (order_take (order, SIZE, order->b));
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 0);
  tarn_block_free (active);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 1);
  tarn_block_free (order_take (order, OTHER_SIZE, order->a));
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 1);
}

/* Where no event can be recorded, the memory stays with its queue; and is wanted again when another
 * one asks again. */
static void
test_wanted_in_vain (Order *order, gconstpointer unused)
{
  TarnBlock *blocks[2];

  (void) unused;
  order_hold (order, SIZE, order->a, 2);
  tarn_testing_queues_fail (order->queues, TARN_TESTING_CALL_EVENT_RECORD, 1, FALSE);
  g_test_expect_message ("Tarn", G_LOG_LEVEL_MESSAGE, "*fails*on its own queue only*");
  blocks[0] = order_take (order, SIZE, order->b);
  g_test_assert_expected_messages ();
  tarn_testing_queues_run_all (order->queues);
  blocks[1] = order_take (order, SIZE, order->b);
  g_assert_cmpuint (order_get_stats (order).misses, ==, 4);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 2);
  tarn_testing_queues_run_all (order->queues);
  tarn_block_free (order_take (order, SIZE, order->b));
  tarn_block_free (order_take (order, SIZE, order->a));
  g_assert_cmpuint (order_get_stats (order).misses, ==, 4);
  for (guint i = 0; i < 2; i++)
    tarn_block_free (blocks[i]);
}

/* An out-of-order queue is another one to itself. */
static void
test_out_of_order (Order *order, gconstpointer unused)
{
  TarnBlock *block = order_take (order, SIZE, order->loose);

  (void) unused;
  tarn_block_free (block);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 1);
  g_assert_true (order_take (order, SIZE, order->loose) == block);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 1);
  tarn_block_free (block);
  tarn_testing_queues_run_all (order->queues);
  g_assert_true (order_take (order, SIZE, order->loose) == block);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 1);
  tarn_block_free (block);
  g_assert_true (order_take (order, SIZE, order->a) == block);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 2);
  tarn_block_free (block);
}

/* A queue in order has its own memory before that of an out-of-order one, for which it waits. */
static void
test_out_of_order_second (Order *order, gconstpointer unused)
{
  TarnBlock *own;

  (void) unused;
  order_hold (order, SIZE, order->a, 1);
  tarn_block_free (order_take (order, SIZE, order->loose));
  own = order_take (order, SIZE, order->a);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 0);
  tarn_block_free (order_take (order, SIZE, order->a));
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 1);
  g_assert_cmpuint (order_get_stats (order).misses, ==, 2);
  tarn_block_free (own);
}

/* All recorded queues are recorded once, and waited for by who is not one of them. */
static void
test_recorded (Order *order, gconstpointer unused)
{
  TarnBlock *block = order_take (order, SIZE, order->a);

  (void) unused;
  order_record (order, block, order->b);
  order_record (order, block, order->c);
  order_record (order, block, order->b);
  order_record (order, block, order->a);
  g_assert_true (tarn_block_get_queue (block) == order->a);
  tarn_block_free (block);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 3);
  g_assert_true (order_take (order, SIZE, order->b) == block);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 2);
  order_record (order, block, order->loose);
  tarn_block_free (block);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 5);
  g_assert_true (order_take (order, SIZE, order->loose) == block);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 4);
  tarn_block_free (block);
  g_assert_cmpuint (order_get_stats (order).queue_waits, ==, 4);
}

/* Some of what uses a block may be done. */
static void
test_recorded_and_done (Order *order, gconstpointer unused)
{
  TarnBlock *block = order_take (order, SIZE, order->a);

  (void) unused;
  g_assert_true (tarn_block_record_use (block, order->b, NULL));
  order_put (order, block, order->b);
  tarn_block_free (block);
  tarn_testing_queue_run (order->queues, order->b);
  g_assert_true (order_take (order, SIZE, order->a) == block);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 0);
  tarn_block_free (block);
}

/* A request that names no queue is the host's, which is one more. */
static void
test_host_waits (Order *order, gconstpointer unused)
{
  TarnBlock *block;

  (void) unused;
  order_hand_on (order, SIZE);
  order_hold (order, SIZE, order->a, 1);
  tarn_block_free (order_take (order, OTHER_SIZE, order->a));
  block = order_take (order, SIZE, NULL);
  assert_calls (order, TARN_TESTING_CALL_EVENT_RECORD, 1);
  assert_calls (order, TARN_TESTING_CALL_HOST_WAIT, 1);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 0);
  g_assert_cmpuint (order_get_stats (order).queue_waits, ==, 1);
  tarn_block_free (block);

  /* Nobody has used it since. */
  g_assert_true (order_take (order, SIZE, order->b) == block);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 0);
  tarn_block_free (block);
}

/* The host waits for what was on the queue at the free. */
static void
test_host_waits_for_the_free (Order *order, gconstpointer unused)
{
  TarnBlock *later;

  (void) unused;
  order_meet_second_queue (order, SIZE);
  order_hold (order, SIZE, order->a, 1);
  later = order_take (order, OTHER_SIZE, order->a);
  tarn_block_free (order_take (order, SIZE, NULL));
  assert_calls (order, TARN_TESTING_CALL_HOST_WAIT, 1);
  assert_pending (order, order->a, 1);
  tarn_block_free (later);
}

/* What was allocated for no queue is nobody's, until a queue is recorded. */
static void
test_without_queue (Order *order, gconstpointer unused)
{
  TarnBlock *block;

  (void) unused;
  tarn_block_free (allocate (order->pool, SIZE));
  order_meet_second_queue (order, SIZE);
  block = order_take (order, SIZE, order->a);
  tarn_block_free (block);
  tarn_testing_queues_run_all (order->queues);
  block = order_take (order, SIZE, NULL);
  tarn_block_free (block);
  assert_calls (order, TARN_TESTING_CALL_HOST_WAIT, 0);

  block = order_take (order, SIZE, NULL);
  order_record (order, block, order->b);
  g_assert_true (tarn_block_get_queue (block) == order->b);
  tarn_block_free (block);
  tarn_block_free (order_take (order, SIZE, order->a));
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 1);
}

/* A pool that has met no queue does not care. */
static void
test_no_queue (Order *order, gconstpointer unused)
{
  (void) unused;
  for (guint i = 0; i < 10; i++)
    tarn_block_free (allocate (order->pool, SIZE));
  order_drop_pool (order);
  assert_calls (order, TARN_TESTING_CALL_ANY, 0);
}

/* Fresh memory is used already, where the allocator says so. */
static void
test_fresh (Order *order, gconstpointer unused)
{
  TarnBlock *block;

  (void) unused;
  tarn_testing_queues_set_fresh (order->queues, order->a);
  tarn_block_free (order_take (order, SIZE, order->a));
  assert_calls (order, TARN_TESTING_CALL_ANY, 1);
  block = order_take (order, OTHER_SIZE, order->b);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 1);
  tarn_block_free (block);
  g_assert_cmpuint (order_get_stats (order).misses, ==, 2);
  g_assert_cmpuint (order_get_stats (order).queue_waits, ==, 1);
}

/* The allocator's queue may be the second one that the pool meets, or an out-of-order one. */
static void
test_fresh_first (Order *order, gconstpointer unused)
{
  TarnBlock *block;

  (void) unused;
  tarn_testing_queues_set_fresh (order->queues, order->a);
  block = order_take (order, SIZE, order->b);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 1);
  tarn_block_free (block);
  tarn_testing_queues_set_fresh (order->queues, order->loose);
  block = order_take (order, OTHER_SIZE, order->loose);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 2);
  tarn_block_free (block);
}

/* Where the allocator's queue cannot be had, nothing is left of the request, in no bin either. */
static void
test_fresh_fails (Order *order, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;

  (void) unused;
  tarn_testing_queues_set_fresh (order->queues, order->a);
  tarn_testing_queues_fail (order->queues, TARN_TESTING_CALL_QUEUE_REF, 2, FALSE);
  g_assert_null (tarn_pool_allocate_ordered (order->pool, SIZE, order->b, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_FAILED);
  assert_valid (order->pool);
  g_assert_cmpuint (order_get_stats (order).failures, ==, 1);
  g_assert_cmpuint (order_get_stats (order).misses, ==, 0);
  tarn_testing_queues_fail (order->queues, TARN_TESTING_CALL_ANY, 0, FALSE);
  tarn_block_free (order_take (order, SIZE, order->b));
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 1);
}

/* Every request is a hit, a miss or a failure. */
static void
test_stats (Order *order, gconstpointer unused)
{
  TarnPoolStats stats;

  (void) unused;
  order_hand_on (order, SIZE);
  order_hold (order, SIZE, order->a, 2);
  order_hold (order, SIZE, order->b, 3);
  order_hold (order, SIZE, order->loose, 1);
  order_hold (order, SIZE, NULL, 2);
  stats = order_get_stats (order);
  g_assert_cmpuint (stats.misses, ==, 3);
  g_assert_cmpuint (stats.hits, ==, 2 + 3 - 3 + 1 + 2);
  g_assert_cmpuint (stats.failures, ==, 0);
  g_assert_cmpuint (
      stats.queue_waits, ==,
      tarn_testing_queues_get_calls (order->queues, TARN_TESTING_CALL_EVENT_WAIT)
          + tarn_testing_queues_get_calls (order->queues, TARN_TESTING_CALL_HOST_WAIT));
  g_assert_cmpuint (stats.queue_waits, >=, 4);
}

static void
test_not_supported (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = tarn_pool_new (allocator, NULL, NULL);
  g_autoptr (TarnBlock) block = allocate (pool, SIZE);
  g_autoptr (TarnBlock) direct = tarn_allocator_allocate (allocator, SIZE, NULL);
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  TarnBlock *const blocks[] = { block, direct };
  g_autoptr (GError) error = NULL;

  g_assert_null (tarn_pool_allocate_ordered (pool, SIZE, &stats, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
  tarn_pool_get_stats (pool, &stats);
  g_assert_cmpuint (stats.failures, ==, 1);
  for (guint i = 0; i < 2; i++)
    {
      g_clear_error (&error);
      g_assert_false (tarn_block_record_use (blocks[i], &stats, &error));
      g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
      g_clear_error (&error);
      g_assert_false (tarn_block_move_to_queue (blocks[i], &stats, &error));
      g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
      g_clear_error (&error);
      g_assert_true (tarn_block_wait (blocks[i], &error));
      g_assert_null (tarn_block_get_queue (blocks[i]));
    }
  g_assert_true (tarn_pool_forget_queue (pool, &stats, &error));
  g_assert_no_error (error);
  assert_valid (pool);
}

/* What the backend says of a queue is what the caller is told. */
static void
test_bad_queue (Order *order, gconstpointer unused)
{
  g_autoptr (TarnBlock) block = order_take (order, SIZE, order->a);
  g_autoptr (GError) error = NULL;

  (void) unused;
  tarn_testing_queues_fail (order->queues, TARN_TESTING_CALL_QUEUE_REF, 1, TRUE);
  g_assert_null (tarn_pool_allocate_ordered (order->pool, SIZE, order->b, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_FAILED);
  g_assert_cmpuint (order_get_stats (order).failures, ==, 1);
  g_clear_error (&error);
  g_assert_false (tarn_block_record_use (block, order->b, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_FAILED);
  g_clear_error (&error);
  g_assert_false (tarn_block_move_to_queue (block, order->b, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_FAILED);
  g_assert_true (tarn_block_get_queue (block) == order->a);
  assert_valid (order->pool);
  tarn_testing_queues_fail (order->queues, TARN_TESTING_CALL_QUEUE_REF, 0, FALSE);
}

static void
use_in_child (gpointer data)
{
  Order *order = data;
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  TarnBlock *block = _tarn_block_chunks_next (&order->pool->blocks.chunks, NULL);
  GError *error = NULL;

  STEP (1, tarn_pool_allocate_ordered (order->pool, SIZE, order->a, &error) == NULL);
  STEP (2, g_error_matches (error, TARN_ERROR, TARN_ERROR_FORKED));
  g_clear_error (&error);
  STEP (3, !tarn_block_record_use (block, order->b, &error));
  STEP (4, g_error_matches (error, TARN_ERROR, TARN_ERROR_FORKED));
  g_clear_error (&error);
  STEP (5, !tarn_block_move_to_queue (block, order->b, &error));
  STEP (6, g_error_matches (error, TARN_ERROR, TARN_ERROR_FORKED));
  g_clear_error (&error);
  STEP (7, !tarn_block_wait (block, &error));
  STEP (8, g_error_matches (error, TARN_ERROR, TARN_ERROR_FORKED));
  g_clear_error (&error);
  STEP (9, tarn_pool_forget_queue (order->pool, order->a, NULL));
  STEP (10, tarn_block_get_queue (block) == order->a);
  tarn_block_free (block);
  tarn_pool_get_stats (order->pool, &stats);
  STEP (11, stats.ignored_frees == 1 && stats.active_blocks == 1);
  STEP (12,
        tarn_testing_queues_get_calls (order->queues, TARN_TESTING_CALL_ANY) == order->n_writes);
}

/* While the pool's lock is held, as if another thread had it at the moment of the fork. */
static void
test_fork (Order *order, gconstpointer unused)
{
  TarnBlock *block;

  (void) unused;
  order_meet_second_queue (order, SIZE);
  block = order_take (order, SIZE, order->a);
  order->n_writes = tarn_testing_queues_get_calls (order->queues, TARN_TESTING_CALL_ANY);
  _tarn_mutex_lock (&order->pool->lock);
  in_child (use_in_child, order);
  _tarn_mutex_unlock (&order->pool->lock);
  tarn_block_free (block);
}

int
main (int argc, char **argv)
{
#define ADD_WITH(path, func, flags)                                                                \
  g_test_add ("/core/order/" path, Order, GUINT_TO_POINTER (flags), order_set_up, func,            \
              order_tear_down)
#define ADD(path, func) ADD_WITH (path, func, 0)
  g_test_init (&argc, &argv, NULL);
  ADD_WITH ("one-queue", test_one_queue, TARN_TESTING_QUEUES_FREES_IN_ORDER);
  ADD_WITH ("one-queue/events-all", test_one_queue,
            TARN_TESTING_QUEUES_FREES_IN_ORDER | TARN_TESTING_QUEUES_RECORDS_ALL);
  ADD ("one-queue/after-another", test_one_queue_after_another);
  ADD ("waits-for-the-free", test_waits_for_the_free);
  ADD ("held-before", test_held_before);
  ADD_WITH ("held-before/events-all", test_held_before, TARN_TESTING_QUEUES_RECORDS_ALL);
  ADD ("one-event-for-all", test_one_event_for_all);
  ADD_WITH ("wanted/at-the-free", test_wanted_at_the_free, TARN_TESTING_QUEUES_RECORDS_ALL);
  ADD ("wanted/in-vain", test_wanted_in_vain);
  ADD ("out-of-order", test_out_of_order);
  ADD ("out-of-order/second", test_out_of_order_second);
  ADD ("recorded", test_recorded);
  ADD ("recorded/and-done", test_recorded_and_done);
  ADD ("host-waits", test_host_waits);
  ADD ("host-waits/for-the-free", test_host_waits_for_the_free);
  ADD ("without-queue", test_without_queue);
  ADD ("no-queue", test_no_queue);
  ADD ("fresh", test_fresh);
  ADD ("fresh/first", test_fresh_first);
  ADD ("fresh/fails", test_fresh_fails);
  ADD ("stats", test_stats);
  g_test_add_func ("/core/order/not-supported", test_not_supported);
  ADD ("bad-queue", test_bad_queue);
  ADD ("fork", test_fork);
  return g_test_run ();
}
