/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The backend's functions for queues failing, one call after the other, once and for ever: whoever
 * asked is told, or else there is a message; nothing is lost, and memory is as safe as before. */

#include "lib/order-fixture.h"

#include <string.h>

#include "lib/conformance.h"
#include "pool/pool-private.h"

#define SIZE 1023
#define OTHER_SIZE 4095

typedef struct
{
  Order order;
  guint n_errors, n_messages, n_requests;
} Run;

static void
count_message (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer data)
{
  Run *run = data;

  (void) domain;
  g_assert_cmpuint (level & G_LOG_LEVEL_MASK, ==, G_LOG_LEVEL_MESSAGE);
  g_assert_true (strstr (message, "fake: call") != NULL
                 || strstr (message, "failed without saying why") != NULL);
  run->n_messages++;
}

/* TRUE if it has succeeded. */
static gboolean
check (Run *run, gboolean is_fine, GError **error)
{
  g_assert_true (is_fine == (*error == NULL));
  if (*error != NULL)
    g_assert_error (*error, TARN_ERROR, TARN_ERROR_FAILED);
  run->n_errors += *error != NULL;
  g_clear_error (error);
  assert_valid (run->order.pool);
  return is_fine;
}

/* NULL if it fails. */
static TarnBlock *
take (Run *run, gsize size, gpointer queue)
{
  GError *error = NULL;
  TarnBlock *block = tarn_pool_allocate_ordered (run->order.pool, size, queue, &error);

  run->n_requests++;
  if (!check (run, block != NULL, &error))
    return NULL;
  order_own (&run->order, block);
  if (queue != NULL)
    order_put (&run->order, block, queue);
  else
    tarn_testing_queues_touch (run->order.queues, tarn_block_get_memory (block));
  return block;
}

static void
record (Run *run, TarnBlock *block, gpointer queue)
{
  gpointer first = block != NULL ? tarn_block_get_queue (block) : NULL;
  GError *error = NULL;

  if (block == NULL || !check (run, tarn_block_record_use (block, queue, &error), &error))
    return;
  if (first != NULL && first != queue)
    tarn_testing_queue_follow (run->order.queues, queue, first);
  order_put (&run->order, block, queue);
}

/* What fails leaves the block where it is. */
static void
move (Run *run, TarnBlock *block, gpointer queue)
{
  gpointer before = block != NULL ? tarn_block_get_queue (block) : NULL;
  GError *error = NULL;

  if (block == NULL)
    return;
  if (check (run,
             queue != NULL ? tarn_block_move_to_queue (block, queue, &error)
                           : tarn_block_wait (block, &error),
             &error))
    {
      order_own (&run->order, block);
      before = queue;
    }
  g_assert_true (tarn_block_get_queue (block) == before);
  if (before != NULL)
    order_put (&run->order, block, before);
}

static void
forget (Run *run, gpointer queue)
{
  GError *error = NULL;

  check (run, tarn_pool_forget_queue (run->order.pool, queue, &error), &error);
}

static void
use_several_queues (Run *run)
{
  Order *order = &run->order;
  TarnBlock *first = take (run, SIZE, order->a);
  TarnBlock *second = take (run, SIZE, order->a);
  TarnBlock *third;

  tarn_block_free (first);
  third = take (run, OTHER_SIZE, order->b);
  record (run, third, order->c);
  tarn_block_free (second);
  first = take (run, SIZE, order->c);
  record (run, first, order->loose);
  second = take (run, SIZE, order->loose);
  tarn_block_free (third);
  third = take (run, OTHER_SIZE, order->loose);
  tarn_block_free (first);
  tarn_block_free (second);
  tarn_block_free (third);
}

static void
use_host_and_move (Run *run)
{
  Order *order = &run->order;
  TarnBlock *first = take (run, SIZE, NULL);
  TarnBlock *second = take (run, SIZE, order->a);

  move (run, first, order->b);
  move (run, second, order->b);
  record (run, second, order->loose);
  move (run, second, NULL);
  move (run, first, order->loose);
  tarn_block_free (first);
  tarn_block_free (second);
  first = take (run, 15, order->a);
  tarn_block_free (first);
  tarn_pool_free_held (order->pool);
  assert_valid (order->pool);
}

static void
use_direct (Run *run)
{
  Order *order = &run->order;
  TarnBlock *block = tarn_allocator_allocate (order->allocator, SIZE, NULL);
  TarnTestingDevice *device = tarn_testing_queues_get_device (order->queues);
  TarnMemory memory = tarn_block_get_memory (block);
  guint n_live = tarn_testing_device_get_live (device);

  record (run, block, order->a);
  record (run, block, order->loose);
  move (run, block, order->b);
  move (run, block, NULL);
  record (run, block, order->b);
  tarn_block_free (block);
  if (tarn_testing_device_get_live (device) < n_live)
    return;
  /* Nobody could tell when the queue was done, and there was a message. */
  tarn_testing_queues_run_all (order->queues);
  tarn_allocator_free_memory (order->allocator, memory, SIZE);
}

static void
use_and_forget (Run *run)
{
  Order *order = &run->order;
  TarnBlock *first = take (run, SIZE, order->b);
  TarnBlock *second = take (run, OTHER_SIZE, order->b);

  tarn_block_free (first);
  forget (run, order->b);
  first = take (run, SIZE, order->c);
  tarn_block_free (second);
  second = take (run, OTHER_SIZE, order->a);
  tarn_block_free (first);
  tarn_block_free (second);
}

static void
assert_requests (const Run *run)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;

  tarn_pool_get_stats (run->order.pool, &stats);
  g_assert_cmpuint (stats.hits + stats.misses + stats.failures, ==, run->n_requests);
  g_assert_cmpuint (stats.active_blocks, ==, 0);
}

/* With one call failing, whoever is told of it is told once; nobody is where a second call did. */
static void
assert_told (const Run *run, gboolean for_ever)
{
  guint n_failed = tarn_testing_queues_get_failed (run->order.queues);

  if (for_ever && n_failed > 0)
    g_assert_cmpuint (run->n_errors + run->n_messages, >, 0);
  else
    g_assert_cmpuint (run->n_errors + run->n_messages, <=, n_failed);
}

/* Everything above with the nth call failing; FALSE if there is no nth call. */
static gboolean
run_with_failure (guint flags, gboolean fresh, TarnTestingCall call, guint nth, gboolean for_ever)
{
  Run run = { .n_errors = 0 };
  guint handler = g_log_set_handler ("Tarn", G_LOG_LEVEL_MESSAGE, count_message, &run);
  gboolean has_failed;

  order_set_up (&run.order, GUINT_TO_POINTER (flags));
  if (fresh)
    tarn_testing_queues_set_fresh (run.order.queues, run.order.c);
  tarn_testing_queues_fail (run.order.queues, call, nth, for_ever);
  use_several_queues (&run);
  if (!fresh) /* which only requests that name a queue wait for, in a pool */
    {
      use_host_and_move (&run);
      use_direct (&run);
    }
  use_and_forget (&run);
  assert_requests (&run);
  has_failed = tarn_testing_queues_get_failed (run.order.queues) > 0;
  if (has_failed)
    assert_told (&run, for_ever);

  /* The next call works, and so does the end, but for what could not be waited for. */
  tarn_testing_queues_fail (run.order.queues, TARN_TESTING_CALL_ANY, 0, FALSE);
  order_hold (&run.order, SIZE, run.order.a, 2);
  order_hold (&run.order, OTHER_SIZE, run.order.loose, 2);
  run.n_messages = 0;
  order_tear_down (&run.order, NULL);
  g_assert_cmpuint (run.n_messages, ==, 0);
  g_log_remove_handler ("Tarn", handler);
  return has_failed;
}

static void
fail_each (TarnTestingCall call, guint min)
{
  static const guint flags[]
      = { 0, TARN_TESTING_QUEUES_RECORDS_ALL, TARN_TESTING_QUEUES_CHECKS_QUEUES,
          TARN_TESTING_QUEUES_FREES_IN_ORDER,
          TARN_TESTING_QUEUES_SAYS_NOTHING | TARN_TESTING_QUEUES_RECORDS_ALL
              | TARN_TESTING_QUEUES_CHECKS_QUEUES };
  guint n = 0;

  for (guint i = 0; i < G_N_ELEMENTS (flags); i++)
    for (guint mode = 0; mode < 4; mode++)
      {
        guint nth = 1;

        while (run_with_failure (flags[i], mode >= 2, call, nth, mode % 2 == 1))
          nth++;
        n = MAX (n, nth - 1);
      }
  g_test_message ("up to %u calls failed in turn", n);
  g_assert_cmpuint (n, >=, min);
}

static void
test_queue_ref (void)
{
  fail_each (TARN_TESTING_CALL_QUEUE_REF, 4);
}

static void
test_record (void)
{
  fail_each (TARN_TESTING_CALL_EVENT_RECORD, 10);
}

static void
test_record_all (void)
{
  fail_each (TARN_TESTING_CALL_EVENT_RECORD_ALL, 1);
}

static void
test_wait (void)
{
  fail_each (TARN_TESTING_CALL_EVENT_WAIT, 5);
}

static void
test_host_wait (void)
{
  fail_each (TARN_TESTING_CALL_HOST_WAIT, 3);
}

static void
test_check_queue (void)
{
  fail_each (TARN_TESTING_CALL_CHECK_QUEUE, 3);
}

static void
test_any (void)
{
  fail_each (TARN_TESTING_CALL_ANY, 30);
}

/* A pool with one queue records events for what goes back, not for what it holds, also after one
 * has failed: or else what is held would seem to be done with what comes after that event. */
static void
test_exact_size (Order *order, gconstpointer unused)
{
  guint handler;
  Run run = { .n_errors = 0 };
  TarnBlock *held, *block;

  (void) unused;
  tarn_testing_device_set_max_size (tarn_testing_queues_get_device (order->queues), OTHER_SIZE + 1);
  order_hold (order, SIZE, order->a, 1);
  handler = g_log_set_handler ("Tarn", G_LOG_LEVEL_MESSAGE, count_message, &run);
  for (guint i = 0; i < 2; i++)
    {
      block = order_take (order, OTHER_SIZE + 1, order->a);
      g_assert_cmpuint (tarn_block_get_alloc_size (block), ==, OTHER_SIZE + 1);
      tarn_testing_queues_fail (order->queues, TARN_TESTING_CALL_EVENT_RECORD, i == 0, FALSE);
      tarn_block_free (block);
      tarn_testing_queues_fail (order->queues, TARN_TESTING_CALL_ANY, 0, FALSE);
      assert_valid (order->pool);
    }
  g_log_remove_handler ("Tarn", handler);
  g_assert_cmpuint (run.n_messages, ==, 1);

  held = order_take (order, SIZE, order->a);
  block = order_take (order, OTHER_SIZE, order->b);
  order_hand_on (order, SIZE);
  tarn_block_free (held);
  g_assert_true (order_take (order, SIZE, order->b) == held);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 1);
  tarn_block_free (held);
  tarn_block_free (block);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(path, func) g_test_add_func ("/core/order/failures/" path, func)
  ADD ("queue-ref", test_queue_ref);
  ADD ("event", test_record);
  ADD ("event-all", test_record_all);
  ADD ("wait", test_wait);
  ADD ("host-wait", test_host_wait);
  ADD ("check-queue", test_check_queue);
  ADD ("any", test_any);
  g_test_add ("/core/order/failures/exact-size", Order, NULL, order_set_up, test_exact_size,
              order_tear_down);
  return g_test_run ();
}
