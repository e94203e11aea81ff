/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The bound of what a pool caches changes: a lower one frees the oldest blocks at once, except
 * those that may still be in use; threads meanwhile. */

#include "hold-fixture.h"

/* Frees blocks that were used on a queue, by two of them, and by the host. */
static void
hold_all_kinds (HoldFixture *fixture, const gpointer *queues)
{
  TarnBlock *blocks[60];

  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    {
      blocks[i] = hold_take (fixture, 40000 + i * 1000, i % 3 == 0 ? NULL : queues[i % 2]);
      if (i % 3 == 2)
        g_assert_true (tarn_block_record_use (blocks[i], queues[1], NULL));
    }
  hold_free_some (blocks, G_N_ELEMENTS (blocks));
  assert_valid (fixture->pool);
}

/* Over a heap, threads take memory from its arenas only as long as nobody sets a bound, and then
 * small sizes share blocks. */
static void
assert_is_as_new (HoldFixture *fixture, guint thread_cache_blocks)
{
  gboolean has_arenas
      = fixture->way->has_heap && fixture->hold_bytes == 0 && thread_cache_blocks > 0;
  TarnBlock *block = hold_take (fixture, 1000, NULL);
  gsize alloc_size = tarn_block_get_alloc_size (block);

  g_assert_cmpint (fixture->pool->has_arenas, ==, has_arenas);
  if (fixture->way->has_heap)
    g_assert_cmpuint (alloc_size, ==, has_arenas ? 1024 : 1000);
  tarn_block_free (block);
}

static void
check_changes (const HoldWay *way, gsize first_bound, guint thread_cache_blocks)
{
  const gsize bounds[] = { 0, 64 * KIB, G_MAXSIZE, 256 * KIB, 0, G_MAXSIZE, 0, MIB, 1, 0 };
  gpointer queues[2];
  HoldFixture fixture;

  hold_begin (&fixture, way, first_bound, thread_cache_blocks);
  g_assert_cmpuint (tarn_pool_get_hold_bytes (fixture.pool), ==, first_bound);
  assert_is_as_new (&fixture, thread_cache_blocks);
  for (guint i = 0; i < 2; i++)
    queues[i] = tarn_testing_queue_new (fixture.queues, TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (bounds); i++)
    {
      hold_all_kinds (&fixture, queues);
      hold_set_bound (&fixture, bounds[i]);
      g_assert_cmpuint (get_stats (fixture.pool).held_bytes, <=, hold_get_bound (&fixture, 1));
      assert_is_as_new (&fixture, thread_cache_blocks);
      hold_all_kinds (&fixture, queues);
      if (bounds[i] == G_MAXSIZE) /* each is of another size */
        g_assert_cmpuint (get_stats (fixture.pool).held_blocks, >=, 60);
      if (bounds[i] > 200000)
        g_assert_cmpuint (get_stats (fixture.pool).held_blocks, >, 0);
    }
  hold_end (&fixture);
}

/* A lower bound frees what is above it at once, a higher one lets the pool hold more; and all of
 * the three kinds of bounds follow on each other. */
static void
test_changed (gconstpointer way)
{
  const gsize bounds[] = { 0, MIB, G_MAXSIZE };

  for (guint i = 0; i < G_N_ELEMENTS (bounds); i++)
    {
      check_changes (way, bounds[i], 0);
      check_changes (way, bounds[i], 32);
    }
}

/* The blocks that were held for longest go first. */
static void
test_changed_oldest_first (gconstpointer way)
{
  TarnBlock *old[4], *young[4];
  HoldFixture fixture;
  guint64 misses;

  hold_begin (&fixture, way, 40 * 1024, 0);
  hold_take_some (&fixture, 1000, old, 4);
  hold_take_some (&fixture, 3000, young, 4);
  hold_free_some (old, 4);
  hold_free_some (young, 4);
  hold_set_bound (&fixture, 15 * 1024);
  misses = get_stats (fixture.pool).misses;
  hold_take_some (&fixture, 3000, young, 4);
  g_assert_cmpuint (get_stats (fixture.pool).misses, ==, misses);
  hold_take_some (&fixture, 1000, old, 4);
  g_assert_cmpuint (get_stats (fixture.pool).misses, >, misses);
  hold_free_some (old, 4);
  hold_free_some (young, 4);
  hold_end (&fixture);
}

/* A capture keeps the pool from finding out whether blocks are idle.  So they stay, although they
 * are above the bound, and a message says so.  The next change of the bound frees them. */
static void
test_changed_while_captured (gconstpointer data)
{
  const HoldWay *way = data;
  TarnBlock *blocks[8];
  HoldFixture fixture;
  gpointer queue;

  hold_begin (&fixture, way, G_MAXSIZE, 0);
  queue = tarn_testing_queue_new (fixture.queues, TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = hold_take (&fixture, 10000 * (i + 1), queue);
  hold_free_some (blocks, G_N_ELEMENTS (blocks));
  tarn_testing_queue_set_capturing (fixture.queues, queue, TRUE);
  if (!way->has_heap && way->flags == 0)
    g_test_expect_message ("Tarn", G_LOG_LEVEL_MESSAGE, "*does not return * bytes in 8 blocks*");
  hold_set_bound (&fixture, 1);
  g_test_assert_expected_messages ();
  if (!way->has_heap && way->flags == 0)
    g_assert_cmpuint (get_stats (fixture.pool).held_blocks, ==, 8);
  tarn_testing_queue_set_capturing (fixture.queues, queue, FALSE);
  hold_set_bound (&fixture, 1);
  g_assert_cmpuint (get_stats (fixture.pool).held_blocks, ==, 0);
  hold_end (&fixture);
}

/* A pool that is to hold nothing any more does not begin again. */
static void
test_changed_at_end (gconstpointer way)
{
  HoldFixture fixture;

  hold_begin (&fixture, way, 0, 32);
  tarn_block_free (hold_take (&fixture, 1000, NULL));
  tarn_pool_stop_holding (fixture.pool);
  hold_set_bound (&fixture, MIB);
  tarn_block_free (hold_take (&fixture, 1000, NULL));
  g_assert_cmpuint (get_stats (fixture.pool).held_blocks, ==, 0);
  hold_set_bound (&fixture, 0);
  tarn_block_free (hold_take (&fixture, 1000, NULL));
  g_assert_cmpuint (get_stats (fixture.pool).held_blocks, ==, 0);
  g_assert_false (fixture.pool->has_arenas);
  hold_end (&fixture);
}

static gpointer
change_bounds (gpointer data)
{
  static const gsize bounds[] = { 0, 64 * KIB, G_MAXSIZE, MIB, 1 };
  TarnPool *pool = data;

  for (guint i = 0; i < 100; i++)
    {
      tarn_pool_set_hold_bytes (pool, bounds[i % G_N_ELEMENTS (bounds)]);
      g_thread_yield ();
    }
  return NULL;
}

/* One thread changes the bound while others allocate and free. */
static void
test_changed_meanwhile (gconstpointer way)
{
  GThread *threads[4];
  HoldThread parts[4];
  HoldFixture fixture;

  hold_begin (&fixture, way, MIB, 32);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    {
      parts[i] = (HoldThread){ &fixture, NULL, (gsize) 1000 << 2 * i };
      if (i % 2 == 0)
        parts[i].queue = tarn_testing_queue_new (fixture.queues, TRUE);
      threads[i] = g_thread_new ("filler", hold_fill_cache, &parts[i]);
    }
  change_bounds (fixture.pool);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
  hold_set_bound (&fixture, 64 * KIB);
  g_assert_cmpuint (get_stats (fixture.pool).held_bytes, <=, 64 * KIB);
  hold_end (&fixture);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  hold_add ("changed", test_changed);
  hold_add ("changed-oldest-first", test_changed_oldest_first);
  hold_add ("changed-while-captured", test_changed_while_captured);
  hold_add ("changed-at-end", test_changed_at_end);
  hold_add ("changed-meanwhile", test_changed_meanwhile);
  return g_test_run ();
}
