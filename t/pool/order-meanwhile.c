/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What other threads may do to a pool while it calls the backend, done by the backend: each window
 * is hit each time, and a lock that is held would be seen. */

#include "lib/order-fixture.h"

#include "lib/conformance.h"
#include "pool/pool-private.h"

#define SIZE 1023
#define OTHER_SIZE 4095

/* Milliseconds for another thread to go on that must not. */
#define N_PATIENT 50

typedef struct
{
  Order order;
  TarnBlock *block; /* what the test is about */
  TarnBlock *others[2];
  gboolean is_done;
  GThread *forgets;
  gint is_forgotten; /* atomic */
} Meanwhile;

static void
set_up (Meanwhile *test, gconstpointer flags)
{
  order_set_up (&test->order, flags);
}

/* Frees of SIZE record events. */
static void
set_up_handing_on (Meanwhile *test, gconstpointer flags)
{
  set_up (test, flags);
  order_hand_on (&test->order, SIZE);
}

static void
tear_down (Meanwhile *test, gconstpointer unused)
{
  g_assert_true (test->is_done);
  for (guint i = 0; i < 2; i++)
    tarn_block_free (test->others[i]);
  order_tear_down (&test->order, unused);
}

static void
at_next (Meanwhile *test, TarnTestingCall call, void (*hook) (gpointer))
{
  tarn_testing_queues_set_hook (test->order.queues, call, hook, test);
}

/* Two threads meet the same queue. */
static void
take_for_b (gpointer data)
{
  Meanwhile *test = data;

  test->others[0] = order_take (&test->order, OTHER_SIZE, test->order.b);
  test->is_done = TRUE;
}

static void
test_meet_twice (Meanwhile *test, gconstpointer unused)
{
  (void) unused;
  order_hold (&test->order, SIZE, test->order.a, 1);
  at_next (test, TARN_TESTING_CALL_QUEUE_REF, take_for_b);
  tarn_block_free (order_take (&test->order, SIZE, test->order.b));
  assert_calls_at_most (&test->order, TARN_TESTING_CALL_QUEUE_REF, 3);
  g_assert_cmpuint (tarn_testing_queues_get_refs (test->order.queues), <=, 2);
}

/* An event is being recorded for what another queue wants: its own queue can have it meanwhile, and
 * others cannot. */
static void
take_what_is_not_recorded (gpointer data)
{
  Meanwhile *test = data;

  test->others[0] = order_take (&test->order, SIZE, test->order.c);
  g_assert_true (test->others[0] != test->block);
  test->others[1] = order_take (&test->order, SIZE, test->order.a);
  g_assert_true (test->others[1] == test->block);
  test->is_done = TRUE;
}

static void
test_not_recorded_yet (Meanwhile *test, gconstpointer unused)
{
  (void) unused;
  test->block = order_take (&test->order, SIZE, test->order.a);
  tarn_block_free (test->block);
  at_next (test, TARN_TESTING_CALL_EVENT_RECORD, take_what_is_not_recorded);
  tarn_block_free (order_take (&test->order, SIZE, test->order.b));
  assert_calls (&test->order, TARN_TESTING_CALL_EVENT_WAIT, 0);
  g_assert_cmpuint (order_get_stats (&test->order).misses, ==, 3);
}

/* ... or is given back. */
static void
free_held (gpointer data)
{
  Meanwhile *test = data;

  tarn_pool_free_held (test->order.pool);
  test->is_done = TRUE;
}

static void
test_given_back_before (Meanwhile *test, gconstpointer unused)
{
  (void) unused;
  order_hold (&test->order, SIZE, test->order.a, 3);
  at_next (test, TARN_TESTING_CALL_EVENT_RECORD, free_held);
  tarn_block_free (order_take (&test->order, SIZE, test->order.b));
  assert_calls_at_most (&test->order, TARN_TESTING_CALL_HOST_WAIT, 3);
  assert_live (&test->order, 1);
}

/* A block is freed again while it is being freed. */
static void
free_again (gpointer data)
{
  Meanwhile *test = data;

  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, "*freed already*");
  tarn_block_free (test->block);
  g_test_assert_expected_messages ();
  assert_valid (test->order.pool);
  test->is_done = TRUE;
}

static void
test_double_free (Meanwhile *test, gconstpointer unused)
{
  (void) unused;
  order_hold (&test->order, OTHER_SIZE, test->order.b, 1);
  test->block = order_take (&test->order, SIZE, test->order.a);
  at_next (test, TARN_TESTING_CALL_EVENT_RECORD, free_again);
  tarn_block_free (test->block);
  g_assert_cmpuint (tarn_pool_get_held_blocks (test->order.pool), ==, 2);
}

/* The pool holds nothing any more when the block has been recorded. */
static void
stop_holding (gpointer data)
{
  Meanwhile *test = data;

  tarn_pool_stop_holding (test->order.pool);
  test->is_done = TRUE;
}

static void
test_stop_holding (Meanwhile *test, gconstpointer unused)
{
  (void) unused;
  order_hold (&test->order, OTHER_SIZE, test->order.b, 1);
  test->block = order_take (&test->order, SIZE, test->order.a);
  at_next (test, TARN_TESTING_CALL_EVENT_RECORD, stop_holding);
  tarn_block_free (test->block);
  assert_live (&test->order, 0);
  assert_calls (&test->order, TARN_TESTING_CALL_HOST_WAIT, 2);
}

/* The pool's last reference goes while a free records what another queue wants: the block that is
 * being freed keeps the pool alive. */
static void
drop_pool (gpointer data)
{
  Meanwhile *test = data;

  order_drop_pool (&test->order);
  test->is_done = TRUE;
}

static void
test_last_reference (Meanwhile *test, gconstpointer unused)
{
  (void) unused;
  order_hold (&test->order, SIZE, test->order.a, 1);
  test->block = order_take (&test->order, OTHER_SIZE, test->order.a);
  tarn_block_free (order_take (&test->order, SIZE, test->order.b));
  at_next (test, TARN_TESTING_CALL_EVENT_RECORD, drop_pool);
  tarn_block_free (test->block);
  assert_live (&test->order, 0);
}

/* The queue that is being recorded is forgotten by another thread, and recorded for that.  As it
 * may be destroyed then, that ends after the call which records. */
static gpointer
forget (gpointer data)
{
  Meanwhile *test = data;

  g_assert_true (tarn_pool_forget_queue (test->order.pool, test->order.a, NULL));
  g_atomic_int_set (&test->is_forgotten, TRUE);
  return NULL;
}

static void
begin_to_forget (gpointer data)
{
  Meanwhile *test = data;
  TarnTestingQueues *queues = test->order.queues;
  guint before = tarn_testing_queues_get_calls (queues, TARN_TESTING_CALL_EVENT_RECORD);

  test->forgets = g_thread_new ("forgets", forget, test);
  while (tarn_testing_queues_get_calls (queues, TARN_TESTING_CALL_EVENT_RECORD) == before
         && !g_atomic_int_get (&test->is_forgotten))
    g_thread_yield ();
  for (guint i = 0; i < N_PATIENT && !g_atomic_int_get (&test->is_forgotten); i++)
    g_usleep (1000);
  g_assert_false (g_atomic_int_get (&test->is_forgotten));
  test->is_done = TRUE;
}

static void
test_forget (Meanwhile *test, gconstpointer unused)
{
  (void) unused;
  order_hold (&test->order, OTHER_SIZE, test->order.b, 1);
  test->block = order_take (&test->order, SIZE, test->order.a);
  at_next (test, TARN_TESTING_CALL_EVENT_RECORD, begin_to_forget);
  tarn_block_free (test->block);
  g_thread_join (test->forgets);
  g_assert_true (g_atomic_int_get (&test->is_forgotten));
  assert_calls (&test->order, TARN_TESTING_CALL_EVENT_RECORD, 2);
  g_assert_true (order_take (&test->order, SIZE, test->order.a) == test->block);
  assert_calls (&test->order, TARN_TESTING_CALL_EVENT_WAIT, 1);
  tarn_block_free (test->block);
}

/* What a queue is made to wait for is nobody else's. */
static void
take_another (gpointer data)
{
  Meanwhile *test = data;

  test->others[0] = order_take (&test->order, SIZE, test->order.a);
  g_assert_true (test->others[0] != test->block);
  test->is_done = TRUE;
}

static void
test_wait (Meanwhile *test, gconstpointer unused)
{
  TarnBlock *block;

  (void) unused;
  order_hold (&test->order, OTHER_SIZE, test->order.b, 1);
  test->block = order_take (&test->order, SIZE, test->order.a);
  tarn_block_free (test->block);
  at_next (test, TARN_TESTING_CALL_EVENT_WAIT, take_another);
  block = order_take (&test->order, SIZE, test->order.b);
  g_assert_true (block == test->block);
  tarn_block_free (block);
}

/* What the backend is asked about is taken, or given back: its events stay until it has answered.
 */
static void
take_what_is_asked_about (gpointer data)
{
  Meanwhile *test = data;

  test->others[0] = order_take (&test->order, SIZE, test->order.a);
  g_assert_true (test->others[0] == test->block);
  test->is_done = TRUE;
}

static void
test_is_done (Meanwhile *test, gconstpointer unused)
{
  TarnBlock *block;

  (void) unused;
  order_hold (&test->order, OTHER_SIZE, test->order.b, 1);
  test->block = order_take (&test->order, SIZE, test->order.a);
  tarn_block_free (test->block);
  at_next (test, TARN_TESTING_CALL_EVENT_IS_DONE, take_what_is_asked_about);
  block = order_take (&test->order, SIZE, test->order.b);
  g_assert_true (block != test->block);
  assert_calls (&test->order, TARN_TESTING_CALL_EVENT_WAIT, 0);
  tarn_block_free (block);
}

static void
test_done_and_given_back (Meanwhile *test, gconstpointer unused)
{
  (void) unused;
  order_hold (&test->order, OTHER_SIZE, test->order.b, 1);
  order_hold (&test->order, SIZE, test->order.a, 2);
  at_next (test, TARN_TESTING_CALL_EVENT_IS_DONE, free_held);
  tarn_block_free (order_take (&test->order, SIZE, test->order.b));
  g_assert_cmpuint (order_get_stats (&test->order).misses, ==, 4);
}

/* A block that moves is in use as before, with its events: another thread finds nothing wrong with
 * it, and is the first to come with a second queue. */
static void
meet_b (gpointer data)
{
  Meanwhile *test = data;

  assert_valid (test->order.pool);
  take_for_b (data);
}

static void
test_move (Meanwhile *test, gconstpointer unused)
{
  (void) unused;
  test->block = order_take (&test->order, SIZE, test->order.a);
  at_next (test, TARN_TESTING_CALL_HOST_WAIT, meet_b);
  g_assert_true (tarn_block_wait (test->block, NULL));
  order_own (&test->order, test->block);
  tarn_testing_queues_touch (test->order.queues, tarn_block_get_memory (test->block));
  tarn_block_free (test->block);
}

int
main (int argc, char **argv)
{
#define ADD(path, func)                                                                            \
  g_test_add ("/core/order/meanwhile/" path, Meanwhile, NULL, set_up, func, tear_down)
#define ADD_HANDING_ON(path, func)                                                                 \
  g_test_add ("/core/order/meanwhile/" path, Meanwhile, NULL, set_up_handing_on, func, tear_down)
  g_test_init (&argc, &argv, NULL);
  ADD ("meet-twice", test_meet_twice);
  ADD ("not-recorded-yet", test_not_recorded_yet);
  ADD ("given-back-before", test_given_back_before);
  ADD_HANDING_ON ("double-free", test_double_free);
  ADD_HANDING_ON ("stop-holding", test_stop_holding);
  g_test_add ("/core/order/meanwhile/last-reference", Meanwhile,
              GUINT_TO_POINTER (TARN_TESTING_QUEUES_RECORDS_ALL), set_up, test_last_reference,
              tear_down);
  ADD_HANDING_ON ("forget", test_forget);
  ADD_HANDING_ON ("wait", test_wait);
  ADD_HANDING_ON ("done", test_is_done);
  ADD_HANDING_ON ("done/and-given-back", test_done_and_given_back);
  ADD ("move", test_move);
  return g_test_run ();
}
