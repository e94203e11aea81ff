/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What a queue freed is its own: it has it again for nothing, and nobody waits for what the queue
 * was given since then, which may itself wait for the host, which waits for the others. */

#include "lib/order-fixture.h"

#include "common/lock-private.h"
#include "lib/conformance.h"

#define SIZE 1023
#define OTHER_SIZE 4095

/* A queue frees a block, and is then given a command that the host lets go later, or never: the
 * last one on it.  The program, whose host waits for the other queue first, is a legal one. */
static void
free_and_block (Order *order, gpointer queue)
{
  TarnBlock *block = order_take (order, SIZE, queue);
  TarnBlock *other = order_take (order, OTHER_SIZE, queue);

  tarn_block_free (block);
  order_put (order, other, queue);
  tarn_block_free (other);
}

static void
assert_runs (Order *order, gpointer queue)
{
  tarn_testing_queue_run (order->queues, queue);
  assert_pending (order, queue, 0);
}

/* Nothing was called before the second queue came, so nothing tells where the block's end was. */
static void
test_second_queue (Order *order, gconstpointer unused)
{
  TarnBlock *block;

  (void) unused;
  free_and_block (order, order->a);
  block = order_take (order, SIZE, order->b);
  assert_runs (order, order->b);
  assert_calls (order, TARN_TESTING_CALL_HOST_WAIT, 0);
  assert_pending (order, order->a, 3);
  tarn_block_free (block);
}

/* ... although it is reached. */
static void
test_reached (Order *order, gconstpointer unused)
{
  TarnBlock *block;

  (void) unused;
  free_and_block (order, order->a);
  g_assert_true (tarn_testing_queue_run_one (order->queues, order->a));
  g_assert_true (tarn_testing_queue_run_one (order->queues, order->a));
  block = order_take (order, SIZE, order->b);
  assert_runs (order, order->b);
  assert_pending (order, order->a, 1);
  tarn_block_free (block);
}

/* The same between queues that were met before. */
static void
test_met_queues (Order *order, gconstpointer unused)
{
  gpointer queues[] = { order->b, order->c, order->loose };

  (void) unused;
  for (guint i = 0; i < G_N_ELEMENTS (queues); i++)
    tarn_block_free (order_take (order, 15, queues[i]));
  tarn_testing_queues_run_all (order->queues);
  for (guint i = 0; i < G_N_ELEMENTS (queues); i++)
    {
      TarnBlock *block;

      free_and_block (order, order->a);
      block = order_take (order, SIZE, queues[i]);
      tarn_testing_queue_run_one (order->queues,
                                  order->a); /* the block's end, but not the last command */
      tarn_testing_queue_run_one (order->queues, order->a);
      assert_runs (order, queues[i]);
      assert_calls (order, TARN_TESTING_CALL_HOST_WAIT, 0);
      tarn_block_free (block);
      tarn_testing_queues_run_all (order->queues);
    }
}

/* What is reached is handed on once the other queue has asked for it and the first one was named
 * again, and then nobody waits. */
static void
test_handed_on (Order *order, gconstpointer unused)
{
  TarnBlock *first, *second;
  guint64 hits;

  (void) unused;
  order_hold (order, SIZE, order->a, 2);
  first = order_take (order, SIZE, order->b);
  tarn_block_free (order_take (order, SIZE, order->a));
  tarn_testing_queues_run_all (order->queues);
  hits = order_get_stats (order).hits;
  second = order_take (order, SIZE, order->b);
  g_assert_cmpuint (order_get_stats (order).hits, ==, hits + 1);
  assert_runs (order, order->b);
  tarn_block_free (first);
  tarn_block_free (second);
}

/* Where nothing else is left the host waits, and no queue. */
static void
test_nothing_left (Order *order, gconstpointer unused)
{
  TarnTestingDevice *device = tarn_testing_queues_get_device (order->queues);
  TarnBlock *block;

  (void) unused;
  free_and_block (order, order->a);
  tarn_testing_device_set_budget (device, SIZE + OTHER_SIZE);
  block = order_take (order, SIZE, order->b);
  assert_calls (order, TARN_TESTING_CALL_EVENT_WAIT, 0);
  g_assert_cmpuint (tarn_testing_queues_get_calls (order->queues, TARN_TESTING_CALL_HOST_WAIT), >=,
                    1);
  assert_runs (order, order->b);
  tarn_block_free (block);
}

/* Pairs */

#if defined(TARN_DEBUG_LEVEL) && TARN_DEBUG_LEVEL >= 2
#define N_PAIRS 50000 /* the pool is checked after each */
#else
#define N_PAIRS 1000000
#endif
#define N_QUEUES 8
#define N_THREADS 4
#define ALL_READY (2 * N_THREADS)
#define N_CALLS (TARN_TESTING_CALL_EVENT_RELEASE + 1)
#define N_BEFORE 100 /* rounds in which the pool learns what each queue has */

typedef struct
{
  guint calls[N_CALLS];
  guint64 misses;
} Counts;

static Counts
count (Order *order)
{
  Counts counts = { .misses = order_get_stats (order).misses };

  for (guint i = 0; i < N_CALLS; i++)
    counts.calls[i] = tarn_testing_queues_get_calls (order->queues, i);
  return counts;
}

/* Nothing was called since then, but to keep queues alive. */
static void
assert_no_call (Order *order, const Counts *before)
{
  const Counts now = count (order);
  guint n_refs
      = now.calls[TARN_TESTING_CALL_QUEUE_REF] - before->calls[TARN_TESTING_CALL_QUEUE_REF];

  for (guint i = 0; i < N_CALLS; i++)
    if (i != TARN_TESTING_CALL_QUEUE_REF && i != TARN_TESTING_CALL_QUEUE_UNREF
        && i != TARN_TESTING_CALL_ANY)
      g_assert_cmpuint (now.calls[i], ==, before->calls[i]);
  g_assert_cmpuint (now.calls[TARN_TESTING_CALL_ANY] - before->calls[TARN_TESTING_CALL_ANY], ==,
                    n_refs);
  g_assert_cmpuint (now.misses, ==, before->misses);
}

/* Two pairs, one inside of the other. */
static void
allocate_and_free (TarnPool *pool, gpointer queue)
{
  TarnBlock *first = tarn_pool_allocate_ordered (pool, SIZE, queue, NULL);
  TarnBlock *second = tarn_pool_allocate_ordered (pool, OTHER_SIZE, queue, NULL);

  g_assert_true (first != NULL && second != NULL);
  tarn_block_free (second);
  tarn_block_free (first);
}

/* Queues that one thread uses in turns. */
static void
test_pairs (Order *order, gconstpointer unused)
{
  gpointer queues[N_QUEUES];
  Counts before;

  (void) unused;
  for (guint i = 0; i < N_QUEUES; i++)
    queues[i] = tarn_testing_queue_new (order->queues, TRUE);
  for (guint i = 0; i < N_BEFORE; i++)
    allocate_and_free (order->pool, queues[i % N_QUEUES]);
  before = count (order);
  for (guint i = 0; i < N_PAIRS / 2; i++)
    allocate_and_free (order->pool, queues[i % N_QUEUES]);
  assert_no_call (order, &before);
}

typedef struct
{
  Order *order;
  TarnMutex lock; /* guards what stands below it */
  TarnCond changed;
  guint n_ready;
  gboolean may_go;
} Meeting;

/* Waits until so many threads have come here, and the test lets those go that are the last.  The
 * lock is not held. */
static void
meet (Meeting *meeting, guint n)
{
  _tarn_mutex_lock (&meeting->lock);
  meeting->n_ready++;
  _tarn_cond_broadcast (&meeting->changed);
  while (meeting->n_ready < n || (n == ALL_READY && !meeting->may_go))
    _tarn_cond_wait (&meeting->changed, &meeting->lock);
  _tarn_mutex_unlock (&meeting->lock);
}

/* Uses a queue of its own, alone, beside the others, and beside them again while it is counted what
 * is called.  What the others asked for before is settled by then. */
static gpointer
work (gpointer data)
{
  Meeting *meeting = data;
  Order *order = meeting->order;
  gpointer queue = tarn_testing_queue_new (order->queues, TRUE);

  for (guint i = 0; i < N_BEFORE; i++)
    allocate_and_free (order->pool, queue);
  meet (meeting, N_THREADS);
  for (guint i = 0; i < N_BEFORE; i++)
    allocate_and_free (order->pool, queue);
  meet (meeting, ALL_READY);
  for (guint i = 0; i < N_PAIRS / 2 / N_THREADS; i++)
    allocate_and_free (order->pool, queue);
  return NULL;
}

static void
wait_until_ready (Meeting *meeting)
{
  _tarn_mutex_lock (&meeting->lock);
  while (meeting->n_ready < ALL_READY)
    _tarn_cond_wait (&meeting->changed, &meeting->lock);
  _tarn_mutex_unlock (&meeting->lock);
}

static void
let_go (Meeting *meeting)
{
  _tarn_mutex_lock (&meeting->lock);
  meeting->may_go = TRUE;
  _tarn_cond_broadcast (&meeting->changed);
  _tarn_mutex_unlock (&meeting->lock);
}

/* A queue for each thread. */
static void
test_threads (Order *order, gconstpointer unused)
{
  Meeting meeting = { .order = order };
  GThread *threads[N_THREADS];
  Counts before;

  (void) unused;
  _tarn_mutex_init (&meeting.lock);
  _tarn_cond_init (&meeting.changed);
  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("pairs", work, &meeting);
  wait_until_ready (&meeting);
  before = count (order);
  let_go (&meeting);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  assert_no_call (order, &before);
  assert_valid (order->pool);
  _tarn_cond_clear (&meeting.changed);
  _tarn_mutex_clear (&meeting.lock);
}

int
main (int argc, char **argv)
{
  static const struct
  {
    const gchar *name;
    guint flags;
  } kinds[]
      = { { "retained", 0 },
          { "events-all", TARN_TESTING_QUEUES_RECORDS_ALL | TARN_TESTING_QUEUES_CHECKS_QUEUES } };

  g_test_init (&argc, &argv, NULL);
#define ADD(path, func)                                                                            \
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)                                                 \
    {                                                                                              \
      g_autofree gchar *name = g_strconcat ("/core/order/hang/" path "/", kinds[i].name, NULL);    \
                                                                                                   \
      g_test_add (name, Order, GUINT_TO_POINTER (kinds[i].flags), order_set_up, func,              \
                  order_tear_down);                                                                \
    }
  ADD ("second-queue", test_second_queue)
  ADD ("reached", test_reached)
  ADD ("met-queues", test_met_queues)
  ADD ("handed-on", test_handed_on)
  ADD ("nothing-left", test_nothing_left)
  ADD ("pairs", test_pairs)
  ADD ("threads", test_threads)
  return g_test_run ();
}
