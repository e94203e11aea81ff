/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The counters of a pool: peaks, calls of the driver, callers of other versions, and counters
 * as text. */

#include <string.h>

#include "lib/pool-fixture.h"
#include "pool/pool-private.h"

typedef PoolFixture Fixture;

static void
set_up (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  pool_fixture_init (fixture, G_MAXUINT64);
}

/* The peak of a pool whose threads keep nothing, which count for themselves otherwise. */
static void
test_large_peak (Fixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnAllocator) upstream = tarn_testing_device_allocator_new (fixture->device);
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnPool) pool = NULL;
  TarnBlock *first, *second;

  (void) unused;
  options.thread_cache_blocks = 0;
  pool = tarn_pool_new (upstream, &options, NULL);
  first = allocate (pool, G_MAXSIZE / 2);
  second = allocate (pool, 1024);
  g_assert_cmpuint (get_stats (pool).peak_active_bytes, ==,
                    tarn_block_get_alloc_size (first) + 1024);
  tarn_block_free (first);
  tarn_block_free (second);
}

static void
test_stats_of_other_versions (Fixture *fixture, gconstpointer unused)
{
  struct
  {
    TarnPoolStats stats;
    guint64 later;
  } newer = { TARN_POOL_STATS_INIT, 77 };
  TarnPoolStats older = TARN_POOL_STATS_INIT;
  TarnBlock *block = allocate (fixture->pool, 1000);

  (void) unused;
  newer.stats.struct_size = sizeof newer;
  tarn_pool_get_stats (fixture->pool, &newer.stats);
  g_assert_cmpuint (newer.stats.struct_size, ==, sizeof newer);
  g_assert_cmpuint (newer.stats.misses, ==, 1);
  g_assert_cmpuint (newer.later, ==, 0);

  older.struct_size = G_STRUCT_OFFSET (TarnPoolStats, managed_bytes);
  older.managed_bytes = 4711;
  tarn_pool_get_stats (fixture->pool, &older);
  g_assert_cmpuint (older.active_blocks, ==, 1);
  g_assert_cmpuint (older.managed_bytes, ==, 4711);
  tarn_block_free (block);
}

static void
assert_peaks (TarnPool *pool, gsize managed_bytes, gsize active_bytes)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;

  tarn_pool_get_stats (pool, &stats);
  g_assert_cmpuint (stats.peak_managed_bytes, ==, managed_bytes);
  g_assert_cmpuint (stats.peak_active_bytes, ==, active_bytes);
  assert_valid (pool);
}

static void
test_reset_peaks (Fixture *fixture, gconstpointer unused)
{
  TarnPool *pool = fixture->pool;
  TarnBlock *block;

  (void) unused;
  tarn_pool_reset_peaks (pool);
  assert_peaks (pool, 0, 0);
  tarn_block_free (allocate (pool, 1000));
  block = allocate (pool, 100);
  assert_peaks (pool, 1023 + 103, 1000);
  tarn_pool_reset_peaks (pool);
  assert_peaks (pool, 1023 + 103, 100);
  tarn_pool_free_held (pool);
  tarn_pool_reset_peaks (pool);
  assert_peaks (pool, 103, 100);

  /* Hits, which count what is active for themselves, and misses. */
  tarn_block_free (block);
  tarn_pool_reset_peaks (pool);
  assert_peaks (pool, 103, 0);
  tarn_block_free (allocate (pool, 101));
  assert_peaks (pool, 103, 101);
  tarn_block_free (allocate (pool, 103));
  tarn_pool_reset_peaks (pool);
  tarn_block_free (allocate (pool, 102));
  assert_peaks (pool, 103, 102);
  tarn_block_free (allocate (pool, 2000));
  assert_peaks (pool, 103 + 2047, 2000);
}

static gpointer
use_often (gpointer pool)
{
  for (guint i = 0; i < 3000; i++)
    {
      TarnBlock *block = allocate (pool, 1000);

      tarn_block_free (allocate (pool, 1 + i % 4000));
      tarn_block_free (block);
    }
  return NULL;
}

/* Peaks that begin anew while threads have what they keep are never less than what there is, and
 * those of before are gone. */
static void
test_reset_peaks_meanwhile (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *huge = allocate (fixture->pool, 1 << 20);
  TarnBlock *block = allocate (fixture->pool, 500);
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  GThread *threads[4];

  (void) unused;
  tarn_block_free (huge);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("use", use_often, fixture->pool);
  for (guint i = 0; i < 1000; i++)
    {
      tarn_pool_reset_peaks (fixture->pool);
      tarn_pool_get_stats (fixture->pool, &stats);
      g_assert_cmpuint (stats.peak_active_bytes, >=, stats.active_bytes);
      g_assert_cmpuint (stats.peak_managed_bytes, >=, stats.managed_bytes);
      g_assert_cmpuint (stats.peak_active_bytes, <, 1 << 20);
    }
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
  tarn_pool_free_held (fixture->pool);
  tarn_pool_reset_peaks (fixture->pool);
  assert_peaks (fixture->pool, 511, 500);
  tarn_block_free (block);
}

/* Also for a pool that looks for mistakes: the allocator that does so does not count as a driver.
 */
static void
test_driver_calls (Fixture *fixture, gconstpointer unused)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (fixture->device);
  g_autoptr (TarnPool) pool = NULL;
  TarnPoolStats stats;

  (void) unused;
  options.debug = "leaks";
  pool = tarn_pool_new (allocator, &options, NULL);
  tarn_testing_device_fail (fixture->device, 2, FALSE);
  for (guint i = 0; i < 5; i++)
    tarn_block_free (tarn_pool_allocate (pool, 1000, NULL));
  tarn_testing_device_fail (fixture->device, 0, FALSE);
  stats = get_stats (pool);
  g_assert_cmpuint (stats.hits + stats.misses + stats.failures, ==, 5);
  g_assert_cmpuint (stats.driver_calls, ==,
                    tarn_testing_device_get_allocate_calls (fixture->device));
}

static void
assert_line (const TarnPoolStats *stats, const gchar *expected)
{
  g_autofree gchar *line = tarn_pool_stats_to_string (stats);

  g_assert_cmpstr (line, ==, expected);
}

static void
test_stats_to_string (void)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;

  assert_line (&stats, "0 requests: 0 served without the driver, 0 driver calls; 0 bytes in use, "
                       "0 bytes held");
  stats.misses = stats.driver_calls = stats.active_bytes = 1;
  assert_line (&stats, "1 request: 0 served without the driver, 1 driver call; 1 byte in use, "
                       "0 bytes held");
  stats.hits = 7;
  stats.misses = 5;
  stats.served_without_driver = 9;
  stats.driver_calls = 4;
  stats.active_bytes = 10239;
  stats.held_bytes = (gsize) 20 << 20;
  assert_line (&stats, "12 requests: 9 served without the driver, 4 driver calls; 10239 bytes in "
                       "use, 20 MiB held");
  stats.failures = 2;
  stats.active_bytes = G_MAXSIZE;
  stats.held_bytes = 10240 + 511;
  assert_line (&stats, sizeof (gsize) > 4
                           ? "14 requests: 9 served without the driver, 2 failed, 4 driver calls; "
                             "17179869184 GiB in use, 10 KiB held"
                           : "14 requests: 9 served without the driver, 2 failed, 4 driver calls; "
                             "4096 MiB in use, 10 KiB held");
  stats.struct_size = 0;
  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, "*_tarn_struct_read*");
  g_assert_null (tarn_pool_stats_to_string (&stats));
  g_test_assert_expected_messages ();
}

int
main (int argc, char **argv)
{
#define ADD(path, func)                                                                            \
  g_test_add ("/core/pool/" path, Fixture, NULL, set_up, func, pool_fixture_tear_down)
  g_test_init (&argc, &argv, NULL);
  ADD ("driver-calls", test_driver_calls);
  g_test_add_func ("/core/pool/stats-to-string", test_stats_to_string);
  ADD ("reset-peaks", test_reset_peaks);
  ADD ("reset-peaks-meanwhile", test_reset_peaks_meanwhile);
  ADD ("large-peak", test_large_peak);
  ADD ("stats-of-other-versions", test_stats_of_other_versions);
  return g_test_run ();
}
