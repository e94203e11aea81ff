/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Queues that a program forgets, or destroys without a word: the next queue takes over their
 * memory in a heap, also where several pools over the heap forget a queue at different times. */

#include <tarn/clock.h>

#include "queues-fixture.h"

#include "lib/conformance.h"

static void
use (QueuesFixture *fixture, gpointer queue, guint i)
{
  TarnBlock *blocks[4];

  for (guint j = 0; j < G_N_ELEMENTS (blocks); j++)
    blocks[j] = queues_take_unchecked (fixture, (1 + j) * MIB + i * TARN_TESTING_ORDER_GRANULE / 16,
                                       queue);
  for (guint j = 0; j < G_N_ELEMENTS (blocks); j++)
    tarn_block_free (blocks[j]);
  tarn_testing_queues_run_all (fixture->queues);
  queues_assert_valid (fixture);
}

/* Runs a task on a queue of its own, which stays. */
static gpointer
run_task (QueuesFixture *fixture, guint i)
{
  gpointer queue = tarn_testing_queue_new (fixture->queues, TRUE);

  use (fixture, queue, i);
  return queue;
}

/* A program that makes a queue for each task, which it forgets, has one task's memory: the next
 * takes it over as it is. */
static void
test_task_after_task (QueuesFixture *fixture, gconstpointer unused)
{
  guint allocations = 0;

  (void) unused;
  for (guint i = 0; i < 300; i++)
    {
      gpointer queue = run_task (fixture, i);

      g_assert_true (tarn_pool_forget_queue (fixture->pool, queue, NULL));
      tarn_testing_queue_destroy (fixture->queues, queue);
      queues_assert_valid (fixture);
      if (i == 30)
        allocations = tarn_testing_pages_get_allocations (fixture->pages);
    }
  g_assert_cmpuint (tarn_testing_pages_get_allocations (fixture->pages), <=, allocations + 2);
  g_assert_cmpuint (queues_get_heap_stats (fixture).upstream_bytes, <=, 80 * MIB);
  g_assert_cmpuint (_tarn_heap_of (fixture->heap)->all_queues.length, <=, 8);
}

/* Where queues are kept alive, one that is never forgotten is not kept for ever. */
static void
test_never_forgotten (QueuesFixture *fixture, gconstpointer data)
{
  const QueuesWay *way = data;

  if ((way->flags & TARN_TESTING_QUEUES_RECORDS_ALL) != 0)
    {
      g_test_skip ("such queues have to be forgotten");
      return;
    }
  for (guint i = 0; i < 300; i++)
    {
      gpointer queue = run_task (fixture, i);

      tarn_testing_queue_destroy (fixture->queues, queue);
    }
  g_assert_cmpuint (queues_get_heap_stats (fixture).upstream_bytes, <=, 400 * MIB);
  g_assert_cmpuint (tarn_testing_queues_get_refs (fixture->queues), <=, 80);
  g_assert_cmpuint (_tarn_heap_of (fixture->heap)->all_queues.length, <=, 40);
}

static gint64 test_time = G_TIME_SPAN_SECOND;

static gint64
get_test_time (void)
{
  return test_time;
}

/* Uses a queue for small blocks. */
static void
use_small (QueuesFixture *fixture, gpointer queue)
{
  for (guint i = 1; i <= 4; i++)
    tarn_block_free (queues_take_unchecked (fixture, i * 10000, queue));
  test_time += 25 * G_TIME_SPAN_MILLISECOND;
  tarn_testing_queues_run_all (fixture->queues);
  queues_assert_valid (fixture);
}

/* Queues that are used once, for small blocks, and are never forgotten: their segments go to other
 * queues, also if nothing keeps the queues alive. */
static void
test_small_tasks (QueuesFixture *fixture, gconstpointer data)
{
  const QueuesWay *way = data;
  gboolean records_all = (way->flags & TARN_TESTING_QUEUES_RECORDS_ALL) != 0;

  tarn_clock_set (get_test_time);
  for (guint i = 0; i < 1000; i++)
    use_small (fixture, tarn_testing_queue_new (fixture->queues, TRUE));
  tarn_clock_set (NULL);
  g_assert_cmpuint (queues_get_heap_stats (fixture).upstream_bytes, <=,
                    (records_all ? 1000 : 400) * MIB);
}

/* The host does not wait for queues that are used in turn. */
static void
test_in_turn (QueuesFixture *fixture, gconstpointer way)
{
  gpointer queues[64];
  guint64 host_waits = 0;

  for (guint i = 0; i < G_N_ELEMENTS (queues); i++)
    queues[i] = tarn_testing_queue_new (fixture->queues, TRUE);
  tarn_clock_set (get_test_time);
  for (guint round = 0; round < 4; round++)
    for (guint i = 0; i < G_N_ELEMENTS (queues); i++)
      {
        use (fixture, queues[i], i);
        test_time += 25 * G_TIME_SPAN_MILLISECOND;
        if (round == 0 && i == 0)
          host_waits = queues_get_heap_stats (fixture).host_waits;
      }
  tarn_clock_set (NULL);
  if (((const QueuesWay *) way)->is_virtual) /* fresh memory needs no wait */
    g_assert_cmpuint (queues_get_heap_stats (fixture).host_waits, ==, host_waits);
}

/* Queues that stay, and that are used now and then between tasks on queues that do not stay, get
 * memory for themselves only. */
static void
test_beside_others (QueuesFixture *fixture, gconstpointer data)
{
  const QueuesWay *way = data;
  gpointer stay[8];

  if ((way->flags & TARN_TESTING_QUEUES_RECORDS_ALL) != 0)
    {
      g_test_skip ("such queues have to be forgotten");
      return;
    }
  for (guint i = 0; i < G_N_ELEMENTS (stay); i++)
    stay[i] = tarn_testing_queue_new (fixture->queues, TRUE);
  for (guint i = 0; i < 600; i++)
    {
      tarn_testing_queue_destroy (fixture->queues, run_task (fixture, i));
      for (guint j = 0; i % 20 == 0 && j < G_N_ELEMENTS (stay); j++)
        use (fixture, stay[j], i);
    }
  g_assert_cmpuint (queues_get_heap_stats (fixture).upstream_bytes, <=, 320 * MIB);
  g_assert_cmpuint (_tarn_heap_of (fixture->heap)->all_queues.length, <=, 60);
}

/* A queue with the handle of one that was forgotten has none of its memory before that is done. */
static void
test_same_handle (QueuesFixture *fixture, gconstpointer unused)
{
  gpointer queue = tarn_testing_queue_new (fixture->queues, TRUE), next;

  (void) unused;
  queues_put (fixture, queues_take (fixture, 20 * MIB, queue));
  g_assert_true (tarn_pool_forget_queue (fixture->pool, queue, NULL));
  tarn_testing_queue_destroy (fixture->queues, queue);
  next = tarn_testing_queue_new (fixture->queues, TRUE);
  queues_put (fixture, queues_take (fixture, 20 * MIB, next));
  queues_put (fixture, queues_take (fixture, 10 * MIB, next));
}

/* A queue that one pool over the heap has forgotten may go on with the memory of another one. */
static void
test_two_pools (QueuesFixture *fixture, gconstpointer unused)
{
  TarnPool *forgetting = tarn_pool_new (fixture->heap, NULL, NULL);
  TarnBlock *block = queues_take (fixture, 20 * MIB, fixture->first);

  (void) unused;
  tarn_block_free (tarn_pool_allocate_ordered (forgetting, MIB, fixture->first, NULL));
  g_assert_true (tarn_pool_forget_queue (forgetting, fixture->first, NULL));
  tarn_pool_unref (forgetting);
  tarn_testing_queues_run_all (fixture->queues);
  tarn_testing_order_put (fixture->order, fixture->first, tarn_block_get_memory (block), 20 * MIB,
                          TARN_TESTING_COMMAND_CHECK, 1);
  queues_put (fixture, block);
  for (guint i = 0; i < 3; i++)
    queues_put (fixture,
                queues_take (fixture, 20 * MIB, i == 2 ? fixture->first : fixture->second));
}

static void
count_wait (gpointer n_waits)
{
  ++*(guint *) n_waits;
}

/* Two pools have memory of a queue that is busy, and are told to forget it.  The host waits for
 * neither. */
static void
test_forgotten_by_both (QueuesFixture *fixture, gconstpointer unused)
{
  TarnPool *other = tarn_pool_new (fixture->heap, NULL, NULL);
  TarnBlock *block = queues_take (fixture, MIB, fixture->first), *others;
  guint n_waits = 0;

  (void) unused;
  others = tarn_pool_allocate_ordered (other, MIB, fixture->first, NULL);
  tarn_testing_order_own (fixture->order, tarn_block_get_memory (others), MIB);
  tarn_testing_order_put (fixture->order, fixture->first, tarn_block_get_memory (others), MIB,
                          TARN_TESTING_COMMAND_WRITE, 1);
  queues_put (fixture, block);
  tarn_block_free (others);
  tarn_testing_queues_set_hook (fixture->queues, TARN_TESTING_CALL_HOST_WAIT, count_wait, &n_waits);
  g_assert_true (tarn_pool_forget_queue (fixture->pool, fixture->first, NULL));
  g_assert_true (tarn_pool_forget_queue (other, fixture->first, NULL));
  tarn_testing_queues_set_hook (fixture->queues, TARN_TESTING_CALL_HOST_WAIT, NULL, NULL);
  g_assert_cmpuint (n_waits, ==, 0);
  assert_valid (other);
  queues_put (fixture, queues_take (fixture, MIB, fixture->second));
  tarn_pool_unref (other);
}

typedef struct
{
  QueuesFixture *fixture;
  TarnPool *other;
  TarnBlock *block; /* of the second queue */
} Meanwhile;

static void
forget_and_take_over (gpointer data)
{
  Meanwhile *meanwhile = data;
  QueuesFixture *fixture = meanwhile->fixture;

  g_assert_true (tarn_pool_forget_queue (meanwhile->other, fixture->first, NULL));
  tarn_testing_queues_run_all (fixture->queues);
  meanwhile->block = queues_take (fixture, 20 * MIB, fixture->second);
}

/* A queue that two pools forget at once is taken over while one of them is yet to record its last
 * event: that is not the next queue's. */
static void
test_forgotten_twice (QueuesFixture *fixture, gconstpointer unused)
{
  Meanwhile meanwhile = { fixture, tarn_pool_new (fixture->heap, NULL, NULL), NULL };
  gpointer third = tarn_testing_queue_new (fixture->queues, TRUE);

  (void) unused;
  queues_put (fixture, queues_take (fixture, 20 * MIB, fixture->first));
  tarn_testing_queues_set_hook (fixture->queues, TARN_TESTING_CALL_EVENT_RECORD,
                                forget_and_take_over, &meanwhile);
  g_assert_true (tarn_pool_forget_queue (fixture->pool, fixture->first, NULL));
  g_assert_nonnull (meanwhile.block);
  tarn_testing_pages_set_budget (fixture->pages,
                                 tarn_testing_pages_get_used_bytes (fixture->pages));
  queues_put (fixture, meanwhile.block);
  queues_put (fixture, queues_take (fixture, 20 * MIB, third));
  tarn_pool_unref (meanwhile.other);
}

static void
take_meanwhile (gpointer data)
{
  Meanwhile *meanwhile = data;

  tarn_testing_queues_set_hook (meanwhile->fixture->queues, TARN_TESTING_CALL_EVENT_RECORD, NULL,
                                NULL);
  meanwhile->block = queues_take (meanwhile->fixture, 20 * MIB, meanwhile->fixture->first);
}

/* A pool begins to use a queue while another pool has the heap forget it: it does not take for the
 * queue's own what is left behind. */
static void
test_used_while_forgotten (QueuesFixture *fixture, gconstpointer unused)
{
  Meanwhile meanwhile = { fixture, tarn_pool_new (fixture->heap, NULL, NULL), NULL };

  (void) unused;
  tarn_block_free (tarn_pool_allocate_ordered (meanwhile.other, MIB, fixture->first, NULL));
  tarn_testing_queues_set_hook (fixture->queues, TARN_TESTING_CALL_EVENT_RECORD, take_meanwhile,
                                &meanwhile);
  g_assert_true (tarn_pool_forget_queue (meanwhile.other, fixture->first, NULL));
  g_assert_nonnull (meanwhile.block);
  queues_put (fixture, meanwhile.block);
  queues_put (fixture, queues_take (fixture, 10 * MIB, fixture->first));
  tarn_pool_unref (meanwhile.other);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  queues_add ("task-after-task", test_task_after_task);
  queues_add ("never-forgotten", test_never_forgotten);
  queues_add ("small-tasks", test_small_tasks);
  queues_add ("used-in-turn", test_in_turn);
  queues_add ("beside-others", test_beside_others);
  queues_add ("same-handle", test_same_handle);
  queues_add ("two-pools", test_two_pools);
  queues_add ("forgotten-by-both", test_forgotten_by_both);
  queues_add ("forgotten-twice", test_forgotten_twice);
  queues_add ("used-while-forgotten", test_used_while_forgotten);
  return g_test_run ();
}
