/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A queue's memory in a heap: the queue reuses it at once, in any size, and other queues get it
 * when the commands that use it are done.  Captures, many queues, several queues that use a
 * block, and calls that fail. */

#include "queues-fixture.h"

#include "lib/pool-fixture.h"
#include "lib/step.h"
#include "pool/pool-private.h"

/* A pool has the first number of queues in its table at once, and the second after some rounds. */
#define N_REMEMBERED 64
#define N_MANY 200
#define N_IN_TURN 80

/* Sizes that never come again are no reason to take memory for ever, nor to call the driver: what
 * a queue has freed it has again in any size, although nothing it was given has run. */
static void
test_any_size (QueuesFixture *fixture, gconstpointer unused)
{
  guint calls;

  (void) unused;
  for (guint i = 0; i < 40; i++)
    queues_put (fixture,
                queues_take (fixture, MIB + i * TARN_TESTING_ORDER_GRANULE, fixture->first));
  calls = queues_get_waits (fixture);
  for (guint i = 0; i < 400; i++)
    queues_put (fixture, queues_take (fixture, 4 * MIB - i * TARN_TESTING_ORDER_GRANULE / 8,
                                      fixture->first));
  g_assert_cmpuint (get_stats (fixture->pool).managed_bytes, <=, 16 * MIB);
  g_assert_cmpuint (queues_get_heap_stats (fixture).upstream_bytes, <=, 24 * MIB);
  g_assert_cmpuint (queues_get_waits (fixture) - calls, <=, 2);
  g_assert_cmpuint (tarn_testing_queue_get_pending (fixture->queues, fixture->first), >=, 440);
}

/* A block is its queue's, wherever its memory is from. */
static void
test_named (QueuesFixture *fixture, gconstpointer unused)
{
  const gpointer queues[] = { fixture->first, NULL, fixture->second };

  (void) unused;
  for (guint i = 0; i < 30; i++)
    {
      TarnBlock *block = queues_take (fixture, 1000 << i % 8, queues[i % 3]);

      g_assert_true (tarn_block_get_queue (block) == queues[i % 3]);
      if (i % 3 == 0 && i > 10)
        {
          g_assert_true (tarn_block_record_use (block, fixture->second, NULL));
          g_assert_true (tarn_block_get_queue (block) == fixture->first);
        }
      queues_put (fixture, block);
    }
}

/* A request that names a queue is the occasion to record an event for what it has freed, and a free
 * calls the driver for nothing, as its queue may be capturing. */
static void
test_marked (QueuesFixture *fixture, gconstpointer data)
{
  TarnBlock *block;
  guint64 n_begun;
  guint calls;

  if (queues_skip_in_order (data))
    return;
  block = queues_take (fixture, 20 * MIB, fixture->first);
  calls = tarn_testing_queues_get_calls (fixture->queues, TARN_TESTING_CALL_ANY);
  queues_put (fixture, block);
  g_assert_cmpuint (tarn_testing_queues_get_calls (fixture->queues, TARN_TESTING_CALL_ANY), ==,
                    calls);
  g_assert_cmpuint (
      tarn_testing_queues_get_calls (fixture->queues, TARN_TESTING_CALL_EVENT_IS_DONE), ==, 0);
  n_begun = queues_find (fixture, fixture->first)->n_begun;
  for (guint i = 0; i < 16; i++)
    queues_put (fixture, queues_take (fixture, 32 * KIB, fixture->first));
  g_assert_cmpuint (queues_find (fixture, fixture->first)->n_begun, >, n_begun);
}

/* Where there is no more memory the host waits for another queue, as often as it takes. */
static void
test_out_of_memory (QueuesFixture *fixture, gconstpointer unused)
{
  TarnBlock *small;

  (void) unused;
  tarn_testing_pages_set_budget (fixture->pages, 64 * MIB);
  queues_put (fixture, queues_take (fixture, 60 * MIB, fixture->first));
  queues_put (fixture, queues_take (fixture, 60 * MIB, fixture->second));
  small = queues_take (fixture, TARN_TESTING_ORDER_GRANULE, fixture->second);
  queues_put (fixture, queues_take (fixture, 50 * MIB, fixture->first));
  queues_put (fixture, queues_take (fixture, 50 * MIB, NULL));
  queues_put (fixture, small);
  g_assert_cmpuint (queues_get_heap_stats (fixture).peak_upstream_bytes, <=, 64 * MIB);
}

/* What the time is where a test sets it. */
static gint64 test_time = G_TIME_SPAN_SECOND;

static gint64
get_test_time (void)
{
  return test_time;
}

/* Eleven seconds pass. */
static void
age (void)
{
  test_time += 11 * G_TIME_SPAN_SECOND;
}

/* What several queues have used goes back after seconds as well, though some of it is in use for
 * long: the driver is asked about what was freed first. */
static void
test_shared_expires (QueuesFixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[3];

  (void) unused;
  tarn_clock_set (get_test_time);
  for (guint i = 0; i < 3; i++)
    {
      blocks[i] = queues_take (fixture, 2 * MIB, fixture->first);
      g_assert_true (tarn_block_record_use (blocks[i], fixture->second, NULL));
    }
  for (guint i = 0; i < 3; i++)
    {
      queues_put (fixture, blocks[i]);
      if (i == 1)
        tarn_testing_queues_run_all (fixture->queues);
      tarn_testing_order_put (fixture->order, fixture->first, tarn_block_get_memory (blocks[2]),
                              MIB, TARN_TESTING_COMMAND_USE, 0);
    }
  for (guint i = 0; i < 4; i++)
    {
      age ();
      queues_put (fixture, queues_take (fixture, (6 + i) * MIB, NULL));
      queues_name (fixture, NULL); /* one of so many requests looks after the pool */
    }
  g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), >=, 1);
  g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), <=,
                    2); /* one that this thread keeps */
  tarn_testing_queues_run_all (fixture->queues);
  for (guint i = 0; i < 4; i++)
    {
      age ();
      queues_put (fixture, queues_take (fixture, (6 + i) * MIB, NULL));
      queues_name (fixture, NULL); /* one of so many requests looks after the pool */
    }
  /* That one, and of parts the one that it kept when somebody looked last. */
  g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), <=,
                    fixture->pool->policy.has_addresses ? 1 : 2);
  tarn_clock_set (NULL);
}

/* What lies between blocks of another queue is had as well, and goes back there. */
static void
test_between (QueuesFixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[8], *other;

  (void) unused;
  tarn_testing_pages_set_budget (fixture->pages, 16 * MIB);
  queues_put (fixture, queues_take (fixture, 16 * MIB, fixture->first)); /* one piece */
  for (guint i = 0; i < 8; i++)
    blocks[i] = queues_take (fixture, 2 * MIB - TARN_TESTING_ORDER_GRANULE, fixture->first);
  for (guint i = 0; i < 8; i += 2)
    queues_put (fixture, g_steal_pointer (&blocks[i]));
  other = queues_take (fixture, MIB, fixture->second);
  g_assert_cmpuint (queues_find (fixture, fixture->first)->arenas[0]->n_used, >=,
                    5); /* what is held as well */
  queues_put (fixture, other);
  for (guint i = 1; i < 8; i += 2)
    queues_put (fixture, blocks[i]);
  tarn_pool_free_held (fixture->pool);
  g_assert_cmpuint (queues_get_heap_stats (fixture).used_bytes, ==, 0);
}

/* A queue that captures cannot be asked: what it has stays, and others do without. */
static void
test_capture (QueuesFixture *fixture, gconstpointer data)
{
  g_autoptr (GError) error = NULL;

  if (queues_skip_in_order (data))
    return;
  tarn_testing_pages_set_budget (fixture->pages, 64 * MIB);
  queues_put (fixture, queues_take (fixture, 60 * MIB, fixture->first));
  tarn_testing_queue_set_capturing (fixture->queues, fixture->first, TRUE);
  g_assert_null (tarn_pool_allocate_ordered (fixture->pool, 60 * MIB, fixture->second, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
  queues_assert_valid (fixture);
  tarn_testing_queue_set_capturing (fixture->queues, fixture->first, FALSE);
  queues_put (fixture, queues_take (fixture, 60 * MIB, fixture->second));
}

/* A request for aligned memory is refused, too, even if the pool has a block of the size, which is
 * not aligned. */
static void
test_capture_aligned (QueuesFixture *fixture, gconstpointer data)
{
  TarnBlock *aligned = queues_take (fixture, KIB, fixture->first);
  TarnBlock *block = queues_take (fixture, KIB, fixture->first);
  g_autoptr (GError) error = NULL;
  TarnPoolStats stats;
  guint n_calls;

  if ((((const QueuesWay *) data)->flags & TARN_TESTING_QUEUES_CHECKS_QUEUES) == 0)
    {
      g_test_skip ("this backend does not check queues");
      tarn_block_free (block);
      tarn_block_free (aligned);
      return;
    }
  queues_put (fixture, block);
  tarn_testing_queue_set_capturing (fixture->queues, fixture->first, TRUE);
  stats = get_stats (fixture->pool);
  n_calls = tarn_testing_pages_get_calls (fixture->pages);
  g_assert_null (tarn_pool_allocate_aligned (fixture->pool, KIB, 32 * MIB, fixture->first, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
  g_assert_cmpuint (tarn_testing_pages_get_calls (fixture->pages), ==, n_calls);
  g_assert_cmpuint (get_stats (fixture->pool).failures, ==, stats.failures + 1);
  queues_assert_valid (fixture);
  tarn_testing_queue_set_capturing (fixture->queues, fixture->first, FALSE);
  block = tarn_pool_allocate_aligned (fixture->pool, KIB, 32 * MIB, fixture->first, NULL);
  g_assert_nonnull (block);
  queues_put (fixture, block);
  queues_put (fixture, aligned);
}

/* A block of each of many queues, some of which stay in use meanwhile. */
static void
use_each (QueuesFixture *fixture, gpointer *queues, guint n)
{
  TarnBlock *blocks[N_MANY];

  for (guint i = 0; i < n; i++)
    blocks[i] = tarn_pool_allocate_ordered (fixture->pool, 256 * KIB, queues[i], NULL);
  queues_assert_valid (fixture);
  for (guint i = 0; i < n; i++)
    tarn_block_free (blocks[i]);
  queues_assert_valid (fixture);
}

/* The number of requests that the pool served with its lock. */
static guint64
count_with_lock (const QueuesFixture *fixture)
{
  return fixture->pool->stats.hits + fixture->pool->stats.misses;
}

/* A thread takes no lock for memory of tens of queues, or of hundreds once the pool has seen that
 * all of them are in use; and each queue keeps its memory. */
static void
test_many (QueuesFixture *fixture, gconstpointer unused)
{
  gpointer queues[N_MANY];
  guint64 n_with_lock, n_growths;

  (void) unused;
  if (!fixture->pool->has_arenas)
    {
      g_test_skip ("this heap makes parts one by one");
      return;
    }
  for (guint i = 0; i < N_MANY; i++)
    queues[i] = tarn_testing_queue_new (fixture->queues, TRUE);
  use_each (fixture, queues, N_REMEMBERED);
  n_with_lock = count_with_lock (fixture);
  g_assert_cmpuint (n_with_lock, >=, N_REMEMBERED);
  for (guint round = 0; round < 3; round++)
    use_each (fixture, queues, N_REMEMBERED);
  g_assert_cmpuint (count_with_lock (fixture), ==, n_with_lock);

  for (guint round = 0; round < 12; round++)
    use_each (fixture, queues, N_MANY);
  n_with_lock = count_with_lock (fixture);
  n_growths = _tarn_heap_of (fixture->heap)->n_growths;
  for (guint round = 0; round < 3; round++)
    use_each (fixture, queues, N_MANY);
  g_assert_cmpuint (count_with_lock (fixture), ==, n_with_lock);
  g_assert_cmpuint (_tarn_heap_of (fixture->heap)->n_growths, ==, n_growths);
  tarn_testing_queues_run_all (fixture->queues);
  tarn_pool_free_held (fixture->pool);
  g_assert_cmpuint (queues_get_heap_stats (fixture).used_bytes, ==, 0);
}

/* Hundreds of queues that need little, one after the other, seldom take memory from each other
 * after some rounds. */
static void
test_in_turn (QueuesFixture *fixture, gconstpointer unused)
{
  gpointer queues[N_IN_TURN];
  guint64 n_growths = 0;

  (void) unused;
  for (guint i = 0; i < N_IN_TURN; i++)
    queues[i] = tarn_testing_queue_new (fixture->queues, TRUE);
  for (guint round = 0; round < 30; round++)
    {
      for (guint i = 0; i < N_IN_TURN; i++)
        {
          tarn_block_free (queues_take_unchecked (fixture, 40 * KIB, queues[i]));
          tarn_block_free (queues_take_unchecked (fixture, 300 * KIB, queues[i]));
          tarn_testing_queues_run_all (fixture->queues);
        }
      queues_assert_valid (fixture);
      if (round == 25)
        n_growths = _tarn_heap_of (fixture->heap)->n_growths;
    }
  g_assert_cmpuint (_tarn_heap_of (fixture->heap)->n_growths - n_growths, <, N_IN_TURN);
}

static guint64
get_target (const QueuesFixture *fixture)
{
  const TarnHeap *heap = _tarn_heap_of (fixture->heap);

  return heap->growth->get_target (heap, 0);
}

/* A heap has room for queues in turn as long as there are so many, and for some time. */
static void
test_room (QueuesFixture *fixture, gconstpointer unused)
{
  TarnHeap *heap = _tarn_heap_of (fixture->heap);
  gpointer queues[N_IN_TURN];
  guint64 before;

  (void) unused;
  tarn_clock_set (get_test_time);
  heap->churn.at = test_time;
  for (guint i = 0; i < N_IN_TURN; i++)
    {
      queues[i] = tarn_testing_queue_new (fixture->queues, TRUE);
      queues_put (fixture, queues_take (fixture, 40 * KIB, queues[i]));
    }
  before = get_target (fixture);
  _tarn_heap_note_turns (heap, N_MANY);
  g_assert_cmpuint (get_target (fixture), >, before + N_IN_TURN / 2 * TARN_ARENA_ROOM);
  for (guint i = 0; i < N_IN_TURN / 2; i++)
    g_assert_true (tarn_pool_forget_queue (fixture->pool, queues[i], NULL));
  g_assert_cmpuint (get_target (fixture), <=, before + N_IN_TURN / 2 * TARN_ARENA_ROOM);

  for (guint i = 0; i < 60; i++)
    {
      age ();
      _tarn_heap_note_turns (heap, 0);
    }
  g_assert_cmpuint (heap->churn.turns, ==, 0);
  tarn_clock_set (NULL);
}

/* Uses a queue that is made for this.  Queues of @data's way that have to be forgotten stay. */
static void
use_new_one (QueuesFixture *fixture, gconstpointer data)
{
  const QueuesWay *way = data;
  gpointer queue = tarn_testing_queue_new (fixture->queues, TRUE);

  tarn_block_free (tarn_pool_allocate_ordered (fixture->pool, MIB, queue, NULL));
  if ((way->flags & TARN_TESTING_QUEUES_RECORDS_ALL) == 0)
    tarn_testing_queue_destroy (fixture->queues, queue);
}

/* A pool has no references to all queues of a program that makes one after the other, although it
 * has room for hundreds. */
static void
test_new_ones (QueuesFixture *fixture, gconstpointer data)
{
  if (!fixture->pool->has_arenas)
    {
      g_test_skip ("this heap makes parts one by one");
      return;
    }
  for (guint i = 0; i < 3 * N_MANY; i++)
    {
      use_new_one (fixture, data);
      g_assert_cmpuint (fixture->pool->met.n, <=, 2 * N_REMEMBERED);
    }
  queues_assert_valid (fixture);
}

/* Nor does it keep room for hundreds if the program once used so many. */
static void
test_fewer (QueuesFixture *fixture, gconstpointer data)
{
  const QueuesWay *way = data;
  gpointer queues[N_MANY];
  guint most;

  if (!fixture->pool->has_arenas || (way->flags & TARN_TESTING_QUEUES_RECORDS_ALL) != 0)
    {
      g_test_skip ("this heap makes parts one by one, or such queues have to be forgotten");
      return;
    }
  for (guint i = 0; i < N_MANY; i++)
    queues[i] = tarn_testing_queue_new (fixture->queues, TRUE);
  for (guint round = 0; round < 24; round++)
    use_each (fixture, queues, N_MANY);
  most = fixture->pool->met.most;
  g_assert_cmpuint (most, >=, N_MANY);
  for (guint i = 0; i < 9 * most; i++)
    use_new_one (fixture, data);
  g_assert_cmpuint (fixture->pool->met.most, <, most);
  queues_assert_valid (fixture);
}

/* Blocks of ever other sizes, one after the other, have the memory of few, although two pools hold
 * some in turn; one takes the locks for each, as where parts are made one by one. */
static void
test_one_after_another (QueuesFixture *fixture, gconstpointer unused)
{
  TarnPool *locking = tarn_pool_new (fixture->heap, NULL, NULL);

  (void) unused;
  locking->has_arenas = FALSE;
  for (guint i = 0; i < 1000; i++)
    tarn_block_free (tarn_pool_allocate_ordered (i % 2 == 0 ? fixture->pool : locking,
                                                 MIB - i * TARN_TESTING_ORDER_GRANULE / 64,
                                                 fixture->first, NULL));
  queues_assert_valid (fixture);
  assert_valid (locking);
  g_assert_cmpuint (queues_get_heap_stats (fixture).peak_upstream_bytes, <=, 32 * MIB);
  tarn_pool_unref (locking);
}

/* What several queues used goes back once all are done, and is no reason for more memory. */
static void
test_shared (QueuesFixture *fixture, gconstpointer unused)
{
  (void) unused;
  for (guint i = 0; i < 400; i++)
    {
      TarnBlock *block
          = queues_take (fixture, 2 * MIB + i * TARN_TESTING_ORDER_GRANULE / 4, fixture->first);

      tarn_testing_queue_follow (fixture->queues, fixture->second, fixture->first);
      g_assert_true (tarn_block_record_use (block, fixture->second, NULL));
      tarn_testing_order_put (fixture->order, fixture->second, tarn_block_get_memory (block),
                              2 * MIB, TARN_TESTING_COMMAND_USE, 0);
      queues_put (fixture, block);
      tarn_testing_queues_run_all (fixture->queues);
    }
  g_assert_cmpuint (get_stats (fixture->pool).managed_bytes, <=, 40 * MIB);
  g_assert_cmpuint (queues_get_heap_stats (fixture).upstream_bytes, <=, 80 * MIB);
}

/* Each call that can fail does: nothing is lost, and nothing used too early. */
static void
test_failures (QueuesFixture *fixture, gconstpointer unused)
{
  guint n_failed = 0, round = 0;

  (void) unused;
  tarn_testing_pages_set_budget (fixture->pages, 48 * MIB);
  for (guint nth = 1; nth < 60; nth += get_step ())
    {
      tarn_testing_queues_fail (fixture->queues, TARN_TESTING_CALL_ANY, nth, ++round % 3 == 0);
      for (guint i = 0; i < 12; i++)
        {
          gpointer queue = i % 2 == 0 ? fixture->first : fixture->second;
          g_autoptr (GError) error = NULL;
          TarnBlock *block
              = tarn_pool_allocate_ordered (fixture->pool, (10 + i) * MIB, queue, &error);

          if (block == NULL)
            {
              g_assert_true (g_error_matches (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY)
                             || g_error_matches (error, TARN_ERROR, TARN_ERROR_FAILED));
              continue;
            }
          tarn_testing_order_own (fixture->order, tarn_block_get_memory (block), (10 + i) * MIB);
          tarn_testing_order_put (fixture->order, queue, tarn_block_get_memory (block),
                                  (10 + i) * MIB, TARN_TESTING_COMMAND_WRITE, i);
          queues_put (fixture, block);
        }
      n_failed += tarn_testing_queues_get_failed (fixture->queues);
      tarn_testing_queues_fail (fixture->queues, TARN_TESTING_CALL_ANY, 0, FALSE);
      g_assert_null (tarn_testing_queues_steal_fault (fixture->queues));
      if (round % 4 == 0)
        tarn_pool_free_held (fixture->pool);
    }
  g_assert_cmpuint (n_failed, >, 0);
  queues_put (fixture, queues_take (fixture, 40 * MIB, fixture->first));
  queues_put (fixture, queues_take (fixture, 40 * MIB, fixture->second));
}

/* A heap that grows has nothing to do with queues whose segments are all in use. */
static void
test_in_use (QueuesFixture *fixture, gconstpointer unused)
{
  const GQueue *watched = &_tarn_heap_of (fixture->heap)->watched;
  TarnBlock *blocks[100];

  (void) unused;
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = queues_take (fixture, KIB, tarn_testing_queue_new (fixture->queues, TRUE));
  queues_put (fixture, queues_take (fixture, 40 * MIB, fixture->first));
  g_assert_cmpuint (watched->length, <=, 4);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    queues_put (fixture, blocks[i]);
}

/* A heap has no memory for a queue out of order, and does not keep it. */
static void
test_out_of_order (QueuesFixture *fixture, gconstpointer unused)
{
  gpointer queue = tarn_testing_queue_new (fixture->queues, FALSE);

  (void) unused;
  for (guint i = 0; i < 4; i++)
    {
      queues_put (fixture, queues_take (fixture, (1 + i) * MIB, queue));
      g_assert_null (queues_find (fixture, queue));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  queues_add ("any-size", test_any_size);
  queues_add ("named", test_named);
  queues_add ("marked", test_marked);
  queues_add ("out-of-memory", test_out_of_memory);
  queues_add ("between", test_between);
  queues_add ("capture", test_capture);
  queues_add ("capture-aligned", test_capture_aligned);
  queues_add ("one-after-another", test_one_after_another);
  queues_add ("many", test_many);
  queues_add ("in-turn", test_in_turn);
  queues_add ("room", test_room);
  queues_add ("new-ones", test_new_ones);
  queues_add ("fewer", test_fewer);
  queues_add ("shared", test_shared);
  queues_add ("shared-expires", test_shared_expires);
  queues_add ("failures", test_failures);
  queues_add ("in-use", test_in_use);
  queues_add ("out-of-order", test_out_of_order);
  return g_test_run ();
}
