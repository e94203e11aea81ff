/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memory of a heap that moves to another address, or from queue to queue: when it does, how
 * often, and how long it can be used at its old address. */

#include "queues-fixture.h"

/* A queue takes memory that another queue has freed once the other one is done with it, not before.
 */
static void
test_moves (QueuesFixture *fixture, gconstpointer data)
{
  TarnHeapStats before;

  if (queues_skip_in_order (data))
    return;
  for (guint i = 0; i < 2; i++)
    queues_put (fixture, queues_take (fixture, 300 * MIB, fixture->first));
  tarn_block_free (queues_take (fixture, 300 * MIB, fixture->second));
  before = queues_get_heap_stats (fixture);
  g_assert_cmpuint (before.moves, ==, 0);
  g_assert_cmpuint (before.upstream_bytes, >=, 600 * MIB);
  tarn_pool_free_held (fixture->pool); /* and so the host waits */
  g_assert_cmpuint (queues_get_heap_stats (fixture).upstream_bytes, ==, 0);
  g_assert_cmpuint (queues_get_heap_stats (fixture).host_waits, >, 0);
  g_assert_cmpuint (queues_get_heap_stats (fixture).host_waits, ==, queues_get_waits (fixture));

  queues_put (fixture, queues_take (fixture, 300 * MIB, fixture->first));
  tarn_testing_queues_run_all (fixture->queues);
  queues_name (fixture, fixture->first);
  tarn_testing_queues_run_all (fixture->queues);
  tarn_block_free (queues_take (fixture, 300 * MIB, fixture->second));
  g_assert_cmpuint (queues_get_heap_stats (fixture).moves, >, 0);
  g_assert_cmpuint (queues_get_heap_stats (fixture).upstream_bytes, <, 500 * MIB);
}

/* Memory that a queue has freed serves its next request at once, wherever that is: commands that
 * use it are still to run.  It stays where they use it until they have.  Returns the old address.
 */
static TarnMemory
move_early (QueuesFixture *fixture, TarnBlock **moved)
{
  TarnBlock *block = queues_take (fixture, 100 * MIB, fixture->first);
  TarnMemory memory = tarn_block_get_memory (block);
  TarnBlock *between = queues_take (fixture, MIB, fixture->first);

  queues_put (fixture, block);
  *moved = queues_take (fixture, 150 * MIB, fixture->first);
  queues_put (fixture, between);
  return memory;
}

static void
test_moves_early (QueuesFixture *fixture, gconstpointer data)
{
  TarnTestingPages *pages = tarn_testing_order_get_pages (fixture->order);
  TarnMemory memory;
  TarnBlock *block;
  TarnHeapStats stats;

  if (!((const QueuesWay *) data)->is_virtual)
    {
      g_test_skip ("parts do not move");
      return;
    }
  memory = move_early (fixture, &block);
  stats = queues_get_heap_stats (fixture);
  g_assert_cmpuint (stats.moves, >=, 3); /* pieces of 16 or 32 MiB */
  g_assert_cmpuint (stats.upstream_bytes, <=, 165 * MIB);
  g_assert_cmpuint (tarn_testing_queues_get_calls (fixture->queues, TARN_TESTING_CALL_EVENT_WAIT),
                    ==, 0);
  g_assert_true (tarn_testing_pages_is_usable (pages, memory, 64 * MIB));
  queues_put (fixture, block);

  /* Others wait for both. */
  queues_put (fixture, queues_take (fixture, 100 * MIB, fixture->second));
  g_assert_cmpuint (queues_get_heap_stats (fixture).moves, ==, stats.moves);
  tarn_testing_queues_run_all (fixture->queues);
  queues_name (fixture, fixture->first);
  tarn_testing_queues_run_all (fixture->queues);
  queues_put (fixture, queues_take (fixture, 300 * MIB, fixture->second));
  g_assert_cmpuint (queues_get_heap_stats (fixture).moves, >, stats.moves);
  g_assert_false (tarn_testing_pages_is_usable (pages, memory, 64 * MIB));
}

static gint64
get_later_time (void)
{
  return g_get_monotonic_time () + 2 * G_TIME_SPAN_SECOND;
}

/* The number by which a program learns that memory went is the same as long as memory that has
 * moved can be used at its old address as well, and another one once it cannot. */
static void
test_moved_generation (QueuesFixture *fixture, gconstpointer data)
{
  guint64 generation = tarn_pool_get_generation (fixture->pool);
  TarnMemory memory;
  TarnBlock *block;
  TarnHeapStats stats;

  if (!((const QueuesWay *) data)->is_virtual)
    {
      g_test_skip ("parts do not move");
      return;
    }
  memory = move_early (fixture, &block);
  stats = queues_get_heap_stats (fixture);
  g_assert_cmpuint (stats.moves, >=, 3);
  g_assert_true (tarn_testing_pages_is_usable (fixture->pages, memory, 64 * MIB));
  g_assert_cmpuint (tarn_pool_get_generation (fixture->pool), ==, generation);

  queues_put (fixture, block);
  queues_name (fixture, fixture->first);
  tarn_testing_queues_run_all (fixture->queues);
  tarn_clock_set (get_later_time); /* when the heap looks for what has been idle for long */
  queues_name (fixture, fixture->first);
  tarn_clock_set (NULL);
  g_assert_cmpuint (queues_get_heap_stats (fixture).moves, ==, stats.moves);
  g_assert_cmpuint (queues_get_heap_stats (fixture).upstream_frees, ==, 0);
  g_assert_false (tarn_testing_pages_is_usable (fixture->pages, memory, 64 * MIB));
  g_assert_cmpuint (tarn_pool_get_generation (fixture->pool), !=, generation);
}

/* Addresses that memory has moved away from go back, however often it moves. */
static void
test_moves_on (QueuesFixture *fixture, gconstpointer data)
{
  TarnTestingPages *pages = tarn_testing_order_get_pages (fixture->order);
  guint64 moves = 0;

  if (!((const QueuesWay *) data)->is_virtual)
    {
      g_test_skip ("parts do not move");
      return;
    }
  tarn_testing_pages_set_max_addresses (pages, 400 * MIB);
  for (guint i = 0; i < 40; i++)
    {
      TarnBlock *block = queues_take (fixture, 100 * MIB, fixture->first), *between, *moved;

      between = queues_take (fixture, (12 + i) * MIB, fixture->first); /* a size that no gap has */
      queues_put (fixture, block);
      moved = queues_take (fixture, (150 + i) * MIB, fixture->first);
      queues_put (fixture, between);
      queues_put (fixture, moved);
      tarn_testing_queues_run_all (fixture->queues);
    }
  moves = queues_get_heap_stats (fixture).moves;
  g_assert_cmpuint (moves, >=, 60);
  g_test_message ("%u reservations", tarn_testing_pages_get_reserved (pages));
  g_assert_cmpuint (tarn_testing_pages_get_reserved (pages), <=, 8);
}

/* A driver that cannot have memory at two addresses is asked for that once. */
static void
test_moves_refused (QueuesFixture *fixture, gconstpointer data)
{
  TarnTestingPages *pages = tarn_testing_order_get_pages (fixture->order);
  TarnBlock *block;
  guint calls;

  if (!((const QueuesWay *) data)->is_virtual)
    {
      g_test_skip ("parts do not move");
      return;
    }
  tarn_testing_pages_refuse_aliases (pages);
  move_early (fixture, &block);
  g_assert_cmpuint (queues_get_heap_stats (fixture).moves, ==, 0);
  queues_put (fixture, block);
  calls = tarn_testing_pages_get_calls (pages);
  block = queues_take (fixture, 200 * MIB, fixture->first);
  g_assert_cmpuint (tarn_testing_pages_get_calls (pages) - calls, <=, 2 * (200 / 32 + 1));
  queues_put (fixture, block);
  queues_assert_valid (fixture);
}

static gint64 now;

static gint64
get_now (void)
{
  return now;
}

/* A driver that once has no memory to map a segment at two addresses is asked for that again, after
 * some time. */
static void
test_moves_again (QueuesFixture *fixture, gconstpointer data)
{
  if (!((const QueuesWay *) data)->is_virtual)
    {
      g_test_skip ("parts do not move");
      return;
    }
  now = G_TIME_SPAN_DAY;
  tarn_clock_set (get_now);
  for (guint i = 0; i < 3; i++)
    {
      guint64 moves = queues_get_heap_stats (fixture).moves;
      TarnBlock *block = queues_take (fixture, 100 * MIB, fixture->first);
      TarnBlock *between = queues_take (fixture, 12 * MIB, fixture->first);

      queues_put (fixture, block);
      if (i == 0)
        tarn_testing_pages_fail (fixture->pages, 1, FALSE);
      block = queues_take (fixture, 150 * MIB, fixture->first);
      moves = queues_get_heap_stats (fixture).moves - moves;
      g_assert_true (tarn_testing_pages_has_failed (fixture->pages));
      g_assert_cmpint (moves > 0, ==, i == 2); /* not within the next ten seconds */
      queues_put (fixture, between);
      queues_put (fixture, block);
      tarn_pool_free_held (fixture->pool);
      g_assert_cmpuint (queues_get_heap_stats (fixture).upstream_bytes, ==, 0);
      now += i == 0 ? G_TIME_SPAN_SECOND : 10 * G_TIME_SPAN_SECOND;
    }
  tarn_clock_set (NULL);
}

/* Queues in turn, of which each has ever other blocks: memory moves between them at first, and not
 * again and again. */
static void
test_turns (QueuesFixture *fixture, gconstpointer unused)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (1);
  TarnBlock *blocks[64] = { NULL };
  gpointer queues[8];
  guint64 moves = 0;

  (void) unused;
  for (guint i = 0; i < G_N_ELEMENTS (queues); i++)
    queues[i] = tarn_testing_queue_new (fixture->queues, TRUE);
  for (guint i = 0; i < 40000; i++)
    {
      TarnBlock **block = &blocks[i % G_N_ELEMENTS (blocks)];
      gsize size = (gsize) 256 << g_rand_int_range (random, 0, 14);

      tarn_block_free (*block);
      size += (gsize) g_rand_int_range (random, 0, (gint32) size);
      *block = tarn_pool_allocate_ordered (fixture->pool, size,
                                           queues[g_rand_int_range (random, 0, 8)], NULL);
      if (i % 64 == 0)
        tarn_testing_queues_run_all (fixture->queues);
      if (i == 20000)
        moves = queues_get_heap_stats (fixture).moves;
    }
  g_test_message ("%" G_GUINT64_FORMAT " moves, then %" G_GUINT64_FORMAT, moves,
                  queues_get_heap_stats (fixture).moves - moves);
  g_assert_cmpuint (queues_get_heap_stats (fixture).moves - moves, <=, 100);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    tarn_block_free (blocks[i]);
}

static gint64
get_same_time (void)
{
  return G_TIME_SPAN_SECOND;
}

/* Many queues, each with a window of blocks of its own.  Each move of virtual memory makes the
 * threads of all queues wait, so the heap makes fewer of them than with one queue. */
static void
test_windows (QueuesFixture *fixture, gconstpointer data)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (1);
  TarnBlock *blocks[16][64] = { { NULL } };
  gpointer queues[16];
  guint64 moves;

  if (!((const QueuesWay *) data)->is_virtual)
    {
      g_test_skip ("parts do not move");
      return;
    }
  if (sizeof (gpointer) < 8)
    {
      g_test_skip ("a heap reserves fewer addresses here, so memory moves more often");
      return;
    }
  tarn_clock_set (get_same_time);
  for (guint i = 0; i < G_N_ELEMENTS (queues); i++)
    queues[i] = tarn_testing_queue_new (fixture->queues, TRUE);
  for (guint i = 0; i < 100000; i++)
    {
      guint place = (guint) g_rand_int_range (random, 0, 16);
      TarnBlock **block = &blocks[place][g_rand_int_range (random, 0, 64)];
      gsize size = (gsize) 256 << g_rand_int_range (random, 0, 14);

      tarn_block_free (*block);
      size += (gsize) g_rand_int_range (random, 0, (gint32) size);
      *block = tarn_pool_allocate_ordered (fixture->pool, size, queues[place], NULL);
      if (i % 64 == 0)
        tarn_testing_queues_run_all (fixture->queues);
    }
  moves = queues_get_heap_stats (fixture).moves;
  g_test_message ("%" G_GUINT64_FORMAT " moves", moves);
  g_assert_cmpuint (moves, <=, 140);
  tarn_clock_set (NULL);
  for (guint i = 0; i < G_N_ELEMENTS (queues); i++)
    for (guint j = 0; j < 64; j++)
      tarn_block_free (blocks[i][j]);
}

/* A vector that grows again and again needs the same segments each time.  After some rounds the
 * heap keeps them. */
static void
test_growing_vectors (QueuesFixture *fixture, gconstpointer unused)
{
  guint64 driver_calls = 0;

  (void) unused;
  for (guint round = 0; round < 80; round++)
    {
      gsize size = KIB;
      TarnBlock *vector = queues_take_unchecked (fixture, size, fixture->first);

      while (size < 64 * MIB)
        {
          TarnBlock *larger;

          size += size / 2;
          larger = queues_take_unchecked (fixture, size, fixture->first);
          tarn_block_free (vector);
          vector = larger;
        }
      tarn_block_free (vector);
      tarn_testing_queues_run_all (fixture->queues);
      if (round == 50)
        driver_calls = queues_get_heap_stats (fixture).driver_calls;
    }
  g_assert_cmpuint (queues_get_heap_stats (fixture).driver_calls, <=, driver_calls + 10);
}

/* A vector that grows a little each time, while the queue's commands still run: its old addresses
 * stay mapped, so nothing else can be there.  Its memory seldom moves nevertheless. */
static void
test_slow_vector (QueuesFixture *fixture, gconstpointer data)
{
  gsize size = 40 * MIB;
  TarnBlock *vector;
  guint64 moves;

  if (!((const QueuesWay *) data)->is_virtual)
    {
      g_test_skip ("parts do not move");
      return;
    }
  vector = queues_take_unchecked (fixture, size, fixture->first);
  for (guint i = 0; i < 2000; i++)
    {
      TarnBlock *larger = queues_take_unchecked (fixture, size += KIB, fixture->first);

      queues_put (fixture, vector);
      vector = larger;
    }
  moves = queues_get_heap_stats (fixture).moves;
  g_test_message ("%" G_GUINT64_FORMAT " moves", moves);
  g_assert_cmpuint (moves, <, 50);
  g_assert_cmpuint (queues_get_heap_stats (fixture).upstream_bytes, <, 2 * size + 20 * MIB);
  queues_put (fixture, vector);
}

/* In a heap that is nearly full, a small request uses free bytes beside blocks of another queue,
 * and the host waits for that queue.  Idle segments stay free for a large request. */
static void
test_fills_holes (QueuesFixture *fixture, gconstpointer data)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  g_autoptr (TarnAllocator) upstream = tarn_testing_order_allocator_new (fixture->order);
  TarnBlock *hole, *rest, *idle;
  guint waits;

  if (!((const QueuesWay *) data)->is_virtual)
    {
      g_test_skip ("parts do not move");
      return;
    }
  g_clear_pointer (&fixture->pool, tarn_pool_unref);
  tarn_allocator_unref (fixture->heap);
  options.alignment = TARN_TESTING_ORDER_GRANULE;
  options.limit_bytes = 32 * MIB;
  fixture->heap = tarn_heap_allocator_new (upstream, &options, NULL);
  tarn_testing_pages_set_hook (fixture->pages, NULL, NULL);
  fixture->pool = tarn_pool_new (fixture->heap, NULL, NULL);

  hole = queues_take (fixture, MIB, fixture->first);
  rest = queues_take (fixture, 27 * MIB, fixture->first);
  idle = queues_take (fixture, 4 * MIB, fixture->first);
  queues_put (fixture, hole);
  queues_put (fixture, idle);
  waits = queues_get_waits (fixture);
  hole = queues_take (fixture, MIB, fixture->second);
  g_assert_cmpuint (queues_get_waits (fixture), ==, waits + 1);
  idle = queues_take (fixture, 4 * MIB, fixture->first);
  g_assert_cmpuint (queues_get_heap_stats (fixture).moves, ==, 0);
  queues_put (fixture, hole);
  queues_put (fixture, rest);
  queues_put (fixture, idle);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  queues_add ("moves", test_moves);
  queues_add ("moves-early", test_moves_early);
  queues_add ("moved-generation", test_moved_generation);
  queues_add ("moves-on", test_moves_on);
  queues_add ("moves-refused", test_moves_refused);
  queues_add ("moves-again", test_moves_again);
  queues_add ("turns", test_turns);
  queues_add ("windows", test_windows);
  queues_add ("growing-vectors", test_growing_vectors);
  queues_add ("slow-vector", test_slow_vector);
  queues_add ("fills-holes", test_fills_holes);
  return g_test_run ();
}
