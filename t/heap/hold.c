/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Pools cache no more than their bound, over a heap and without one, including what threads
 * cache.  They free the block first that was cached for longest.  The fake sees whether memory is
 * used too early. */

#include "hold-fixture.h"

/* A program makes a queue for each task, and forgets it. */
static void
run_task (HoldFixture *fixture, guint i)
{
  gpointer queue = tarn_testing_queue_new (fixture->queues, TRUE);
  TarnBlock *blocks[8];

  for (guint round = 0; round < 4; round++)
    {
      for (guint j = 0; j < 8; j++)
        blocks[j] = hold_take (fixture, (1 + (i * 37 + round * 11 + j * 5) % 100) * 10007, queue);
      for (guint j = 0; j < 8; j++)
        tarn_block_free (blocks[j]);
    }
  tarn_testing_queues_run_all (fixture->queues);
  hold_forget_queue (fixture, queue);
}

static void
check_tasks (const HoldWay *way, gsize hold_bytes)
{
  HoldFixture fixture;

  hold_begin (&fixture, way, hold_bytes, 32);
  for (guint i = 0; i < 100; i++)
    {
      run_task (&fixture, i);
      g_assert_cmpuint (get_stats (fixture.pool).held_bytes, <=, hold_get_bound (&fixture, 0));
      assert_valid (fixture.pool);
    }
  hold_end (&fixture);
}

static void
test_tasks (gconstpointer way)
{
  check_tasks (way, 0);
  check_tasks (way, 1);
  check_tasks (way, MIB);
}

/* Several queues used some blocks, and are done with most of them.  The pool frees those, although
 * it holds older ones whose queue is still busy. */
static void
test_behind_long_work (gconstpointer way)
{
  gpointer queues[2], busy;
  TarnBlock *block;
  HoldFixture fixture;

  hold_begin (&fixture, way, MIB, 0);
  busy = tarn_testing_queue_new (fixture.queues, TRUE);
  for (guint i = 0; i < 2; i++)
    queues[i] = tarn_testing_queue_new (fixture.queues, TRUE);
  for (guint i = 0; i < 200; i++)
    {
      block = hold_take (&fixture, 100000 + i * 1000, i < 20 ? busy : queues[0]);
      g_assert_true (tarn_block_record_use (block, queues[1], NULL));
      tarn_block_free (block);
      for (guint j = 0; j < 2; j++)
        tarn_testing_queue_run (fixture.queues, queues[j]);
    }
  if (fixture.way->has_heap) /* else the queues wait for the busy one */
    g_assert_cmpuint (get_stats (fixture.pool).held_bytes, <=, 8 * MIB);
  tarn_testing_queues_run_all (fixture.queues);
  tarn_block_free (hold_take (&fixture, 12345, NULL));
  g_assert_cmpuint (get_stats (fixture.pool).held_bytes, <=, MIB);
  hold_end (&fixture);
}

/* Frees blocks that two queues used, of which one is being captured: no event can be recorded
 * there.  The next call that names the queue records one. */
static void
test_captured (gconstpointer way)
{
  TarnBlock *blocks[20];
  gpointer queues[2];
  HoldFixture fixture;

  hold_begin (&fixture, way, 64 * KIB, 0);
  for (guint i = 0; i < 2; i++)
    queues[i] = tarn_testing_queue_new (fixture.queues, TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    {
      blocks[i] = hold_take (&fixture, 10000 * (i + 1), queues[0]);
      if (i % 2 == 0)
        g_assert_true (tarn_block_record_use (blocks[i], queues[1], NULL));
    }
  tarn_testing_queue_set_capturing (fixture.queues, queues[0], TRUE);
  hold_free_some (blocks, G_N_ELEMENTS (blocks));
  tarn_testing_queue_set_capturing (fixture.queues, queues[0], FALSE);
  assert_valid (fixture.pool);
  tarn_block_free (hold_take (&fixture, 12345, queues[0]));
  tarn_testing_queues_run_all (fixture.queues);
  tarn_block_free (hold_take (&fixture, 54321, NULL));
  g_assert_cmpuint (get_stats (fixture.pool).held_bytes, <=, 64 * KIB);
  assert_valid (fixture.pool);
  hold_end (&fixture);
}

static void
check_threads (const HoldWay *way, gsize hold_bytes, gboolean has_queues)
{
  GThread *threads[6];
  HoldThread parts[6];
  HoldFixture fixture;

  hold_begin (&fixture, way, hold_bytes, 32);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    {
      parts[i] = (HoldThread){ &fixture, NULL, (gsize) 1000 << 2 * i };
      if (has_queues)
        parts[i].queue = tarn_testing_queue_new (fixture.queues, TRUE);
      threads[i] = g_thread_new ("filler", hold_fill_cache, &parts[i]);
    }
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
  /* Queues wait for each other's memory where threads really run at a time; and one request frees
   * so many of the blocks that are held until then. */
  tarn_testing_queues_run_all (fixture.queues);
  for (guint i = 0; i < 10; i++)
    tarn_block_free (hold_take (&fixture, 12345, NULL));
  g_assert_cmpuint (get_stats (fixture.pool).held_bytes, <=, hold_get_bound (&fixture, 7));
  assert_valid (fixture.pool);
  hold_end (&fixture);
}

static void
test_threads (gconstpointer way)
{
  const gsize bounds[] = { 0, 1, 64 * KIB, MIB, GIB };

  for (guint i = 0; i < G_N_ELEMENTS (bounds); i++)
    {
      check_threads (way, bounds[i], FALSE);
      check_threads (way, bounds[i], TRUE);
    }
}

/* A single thread may keep enough of the bound for its working set: after some rounds it has no
 * misses. */
static void
test_hits (gconstpointer way)
{
  TarnBlock *blocks[8];
  HoldFixture fixture;
  guint64 misses = 0;

  hold_begin (&fixture, way, 4 * MIB, 32);
  for (guint round = 0; round < 20; round++)
    {
      if (round == 4)
        misses = get_stats (fixture.pool).misses;
      for (guint i = 0; i < 8; i++)
        blocks[i] = hold_take (&fixture, 50000 * (1 + i % 4), NULL);
      for (guint i = 0; i < 8; i++)
        tarn_block_free (blocks[i]);
    }
  g_assert_cmpuint (get_stats (fixture.pool).misses, ==, misses);
  hold_end (&fixture);
}

/* A pool frees the oldest blocks one by one, all of one size, although some of that size went
 * earlier. */
static void
test_oldest_first (gconstpointer way)
{
  TarnBlock *old[6], *later[2], *small, *large;
  HoldFixture fixture;
  guint64 hits;

  hold_begin (&fixture, way, 10 * 1024, 0);
  hold_take_some (&fixture, 1000, old, 6);
  hold_take_some (&fixture, 2000, later, 2);
  hold_take_some (&fixture, 500, &small, 1);
  hold_take_some (&fixture, 2100, &large, 1);
  hold_free_some (old, 6);
  hold_free_some (later, 2);
  tarn_block_free (small);
  tarn_block_free (large);
  g_assert_cmpuint (get_stats (fixture.pool).held_bytes, <=, 10 * 1024);
  assert_valid (fixture.pool);
  hits = get_stats (fixture.pool).hits;
  hold_take_some (&fixture, 2000, later, 2);
  g_assert_cmpuint (get_stats (fixture.pool).hits, ==, hits + 2);
  hold_take_some (&fixture, 1000, old, 6);
  g_assert_cmpuint (get_stats (fixture.pool).hits, <, hits + 8);
  hold_free_some (old, 6);
  hold_free_some (later, 2);
  hold_end (&fixture);
}

/* Blocks of one size are used again and again, and one below them is not.  It stays as old as it
 * was. */
static void
test_oldest_of_a_size (gconstpointer way)
{
  TarnBlock *blocks[4], *other;
  HoldFixture fixture;
  guint64 misses;

  hold_begin (&fixture, way, 8 * 1024, 0);
  hold_take_some (&fixture, 1000, blocks, 4);
  hold_take_some (&fixture, 3000, &other, 1);
  hold_free_some (blocks, 4);
  tarn_block_free (other);
  for (guint i = 0; i < 5; i++)
    tarn_block_free (hold_take (&fixture, 1000, NULL));
  tarn_block_free (hold_take (&fixture, 1500, NULL)); /* two of 1,000 bytes go */
  misses = get_stats (fixture.pool).misses;
  tarn_block_free (hold_take (&fixture, 3000, NULL));
  tarn_block_free (hold_take (&fixture, 1000, NULL));
  g_assert_cmpuint (get_stats (fixture.pool).misses, ==, misses);
  hold_end (&fixture);
}

/* What the time is where a test sets it. */
static gint64 test_time = G_TIME_SPAN_SECOND;

static gint64
get_test_time (void)
{
  return test_time;
}

/* A pool frees a block after ten seconds, even if others of its size are used all the time. */
static void
test_cold (gconstpointer data)
{
  const HoldWay *way = data;
  TarnBlock *blocks[8];
  HoldFixture fixture;

  if (!way->has_heap)
    {
      g_test_skip ("what is held does not expire");
      return;
    }
  tarn_clock_set (get_test_time);
  hold_begin (&fixture, way, 0, 0);
  hold_take_some (&fixture, 30000, blocks, 8);
  hold_free_some (blocks, 8);
  for (guint i = 0; i < 12; i++)
    {
      test_time += G_TIME_SPAN_SECOND + G_TIME_SPAN_SECOND / 2;
      tarn_block_free (hold_take (&fixture, 30000, NULL));
      g_assert_cmpuint (get_stats (fixture.pool).held_blocks, ==, i < 6 ? 8 : 1);
    }
  tarn_clock_set (NULL);
  hold_end (&fixture);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  hold_add ("tasks", test_tasks);
  hold_add ("behind-long-work", test_behind_long_work);
  hold_add ("captured", test_captured);
  hold_add ("threads", test_threads);
  hold_add ("hits", test_hits);
  hold_add ("oldest-first", test_oldest_first);
  hold_add ("oldest-of-a-size", test_oldest_of_a_size);
  hold_add ("cold", test_cold);
  return g_test_run ();
}
