/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Idle segments of a heap, which it returns to the driver on demand, or when they have been
 * idle for seconds. */

#include "heap-fixture.h"

static void
test_reclaim (HeapFixture *fixture, gconstpointer unused)
{
  TarnMemory memory[3];

  (void) unused;
  for (guint i = 0; i < 3; i++)
    memory[i] = heap_take (fixture, 100 * MIB);
  heap_put (fixture, memory[1], 100 * MIB);
  g_assert_cmpuint (tarn_testing_pages_get_used_bytes (fixture->pages), >=, 300 * MIB);
  g_assert_cmpuint (heap_get_stats (fixture).idle_pieces, >, 0);
  fixture->heap->klass->trim (fixture->heap, 0);
  heap_assert_valid (fixture);
  g_assert_cmpuint (heap_get_stats (fixture).idle_pieces, ==, 0);
  g_assert_cmpuint (tarn_testing_pages_get_used_bytes (fixture->pages), ==,
                    heap_get_stats (fixture).upstream_bytes);
  g_assert_cmpuint (tarn_testing_pages_get_used_bytes (fixture->pages), <=, 330 * MIB);
  g_assert_true (tarn_testing_pages_is_usable (fixture->pages, memory[0], 100 * MIB));
  g_assert_true (tarn_testing_pages_is_usable (fixture->pages, memory[2], 100 * MIB));
  heap_put (fixture, memory[0], 100 * MIB);
  heap_put (fixture, memory[2], 100 * MIB);
  fixture->heap->klass->trim (fixture->heap, 0);
  g_assert_cmpuint (tarn_testing_pages_get_used_bytes (fixture->pages), ==, 0);
}

/* tarn_pool_trim () lets the heap keep idle pieces of at most so many bytes. */
static void
test_trim_keeps (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = tarn_pool_new (fixture->heap, NULL, NULL);
  TarnBlock *blocks[8];
  TarnHeapStats stats;
  guint64 frees;

  (void) unused;
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = tarn_pool_allocate (pool, 100 * MIB, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    tarn_block_free (blocks[i]);
  g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, >=, 800 * MIB);
  frees = heap_get_stats (fixture).upstream_frees;
  tarn_pool_trim (pool, 2000 * MIB);
  g_assert_cmpuint (heap_get_stats (fixture).upstream_frees, ==, frees);
  tarn_pool_trim (pool, 350 * MIB);
  stats = heap_get_stats (fixture);
  heap_assert_valid (fixture);
  g_assert_cmpuint (stats.upstream_bytes, <=, 350 * MIB);
  g_assert_cmpuint (stats.upstream_bytes, >, 200 * MIB);
  tarn_pool_trim (pool, 0);
  g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, ==, 0);
}

/* Idle pieces go back after as many seconds as the options say, and others stay. */
static void
test_idle_seconds (HeapFixture *fixture, gconstpointer unused)
{
  static const gsize seconds[] = { 3, 0, G_MAXSIZE };
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;

  (void) unused;
  for (guint i = 0; i < G_N_ELEMENTS (seconds); i++)
    {
      gint64 usual = seconds[i] == 0 ? 10 : (gint64) MIN (seconds[i], 100);
      TarnMemory used, idle;

      options.idle_seconds = seconds[i];
      options.growth_bytes = 64 * MIB;
      heap_stop_clock (G_TIME_SPAN_DAY);
      heap_renew (fixture, &options);
      used = heap_take (fixture, 60 * MIB);
      idle = heap_take (fixture, 60 * MIB);
      heap_put (fixture, idle, 60 * MIB);
      g_assert_cmpuint (heap_get_stats (fixture).idle_pieces, ==, 1);
      heap_pass_time (usual * G_TIME_SPAN_SECOND - 1);
      heap_put (fixture, heap_take (fixture, MIB), MIB);
      g_assert_cmpuint (heap_get_stats (fixture).pieces, ==, 2);
      heap_pass_time (1);
      heap_put (fixture, heap_take (fixture, MIB), MIB); /* nobody looks all the time */
      g_assert_cmpuint (heap_get_stats (fixture).pieces, ==, 2);
      heap_pass_time (usual * G_TIME_SPAN_SECOND / 8);
      heap_put (fixture, heap_take (fixture, MIB), MIB);
      g_assert_cmpuint (heap_get_stats (fixture).pieces, ==, seconds[i] == G_MAXSIZE ? 2 : 1);
      heap_put (fixture, used, 60 * MIB);
    }
  tarn_clock_set (NULL);
}

/* The time can be changed: what has been idle for longer goes at once. */
static void
test_set_idle_seconds (HeapFixture *fixture, gconstpointer unused)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  TarnMemory used, idle;

  (void) unused;
  options.growth_bytes = 64 * MIB;
  heap_stop_clock (G_TIME_SPAN_DAY);
  heap_renew (fixture, &options);
  used = heap_take (fixture, 60 * MIB);
  idle = heap_take (fixture, 60 * MIB);
  heap_put (fixture, idle, 60 * MIB);
  g_assert_cmpuint (heap_get_stats (fixture).idle_pieces, ==, 1);
  g_assert_true (tarn_heap_set_idle_seconds (fixture->heap, G_MAXSIZE));
  heap_pass_time (G_TIME_SPAN_DAY);
  heap_put (fixture, heap_take (fixture, MIB), MIB);
  g_assert_cmpuint (heap_get_stats (fixture).pieces, ==, 2);

  g_assert_true (tarn_heap_set_idle_seconds (fixture->heap, 2 * 24 * 3600));
  g_assert_cmpuint (heap_get_stats (fixture).pieces, ==, 2);
  heap_pass_time (G_TIME_SPAN_SECOND); /* before the heap would look of itself */
  heap_assert_valid (fixture);
  g_assert_true (tarn_heap_set_idle_seconds (fixture->heap, 0));
  g_assert_cmpuint (heap_get_stats (fixture).pieces, ==, 1);
  heap_assert_valid (fixture);

  heap_put (fixture, used, 60 * MIB);
  g_assert_cmpuint (heap_get_stats (fixture).pieces, ==, 1);
  heap_pass_time (10 * G_TIME_SPAN_SECOND);
  g_assert_true (tarn_heap_set_idle_seconds (fixture->heap, 0));
  g_assert_cmpuint (heap_get_stats (fixture).pieces, ==, 0);
  g_assert_false (tarn_heap_set_idle_seconds (fixture->upstream, 1));
  tarn_clock_set (NULL);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  heap_add ("reclaim", test_reclaim);
  heap_add ("trim-keeps", test_trim_keeps);
  heap_add ("idle-seconds", test_idle_seconds);
  heap_add ("set-idle-seconds", test_set_idle_seconds);
  return g_test_run ();
}
