/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * How a heap grows: the sizes of its segments, virtual memory that moves instead, and addresses
 * that come to an end. */

#include "heap-fixture.h"

/* A program that needs little has little, and one that needs much calls the driver seldom. */
static void
test_growth (HeapFixture *fixture, gconstpointer unused)
{
  TarnMemory memory[1000];

  (void) unused;
  memory[0] = heap_take (fixture, 100 * KIB);
  g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, <=, 2 * MIB);
  for (guint i = 1; i < G_N_ELEMENTS (memory); i++)
    memory[i] = heap_take (fixture, 4 * MIB);
  g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, <=, (guint64) 4300 * MIB);
  g_assert_cmpuint (heap_get_stats (fixture).driver_calls, <=, 180);
  for (guint i = 0; i < G_N_ELEMENTS (memory); i++)
    heap_put (fixture, memory[i], i == 0 ? 100 * KIB : 4 * MIB);
}

/* The first request, which is larger than all usual pieces, gets one piece of about its size. */
static void
test_larger_than_pieces (HeapFixture *fixture, gconstpointer unused)
{
  TarnMemory memory = heap_take (fixture, 3 * GIB / 2), small = heap_take (fixture, 3000);
  TarnHeapStats stats = heap_get_stats (fixture);

  (void) unused;
  g_assert_cmpuint (stats.upstream_bytes - 3 * GIB / 2, <=, 16 * MIB);
  g_assert_cmpuint (stats.driver_calls, <=, 60);
  heap_put (fixture, memory, 3 * GIB / 2);
  heap_put (fixture, small, 3000);
}

static void
test_growth_bytes (HeapFixture *fixture, gconstpointer unused)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  TarnMemory memory[3];

  (void) unused;
  options.growth_bytes = 10 * MIB + 1;
  heap_renew (fixture, &options);
  memory[0] = heap_take (fixture, MIB);
  g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, >, 10 * MIB);
  g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, <=, 12 * MIB);
  g_assert_cmpuint (heap_get_stats (fixture).pieces, ==, 1);
  memory[1] = heap_take (fixture, 9 * MIB);
  g_assert_cmpuint (heap_get_stats (fixture).pieces, ==, 1);
  memory[2] = heap_take (fixture, 40 * MIB); /* in one piece, too */
  g_assert_cmpuint (heap_get_stats (fixture).pieces, ==, 2);
  heap_put (fixture, memory[0], MIB);
  heap_put (fixture, memory[1], 9 * MIB);
  heap_put (fixture, memory[2], 40 * MIB);
}

/* Memory that had one size of blocks serves blocks of another size; the heap does not grow. */
static void
test_sizes_change (HeapFixture *fixture, gconstpointer unused)
{
  gsize peak = 0;

  (void) unused;
  for (guint round = 0; round < 20; round++)
    {
      TarnMemory memory[40];
      gsize size = (20 + round) * MIB;

      for (guint i = 0; i < 800 * MIB / size; i++)
        memory[i] = heap_take (fixture, size);
      peak = MAX (peak, heap_get_stats (fixture).used_bytes);
      for (guint i = 0; i < 800 * MIB / size; i++)
        heap_put (fixture, memory[i], size);
    }
  g_assert_cmpuint (heap_get_stats (fixture).peak_upstream_bytes, <=,
                    peak + peak / (fixture->is_virtual ? 10 : 3));
}

/* Virtual memory: what is not used goes to where it is needed, in as many pieces as it has. */
static void
test_moves (HeapFixture *fixture, gconstpointer unused)
{
  TarnMemory memory[64], whole;
  TarnHeapStats stats;

  (void) unused;
  if (!fixture->is_virtual)
    return;
  for (guint i = 0; i < 64; i++)
    memory[i] = heap_take (fixture, 32 * MIB);
  for (guint i = 0; i < 64; i += 4)
    for (guint j = 0; j < 2; j++)
      heap_put (fixture, memory[i + j], 32 * MIB);
  stats = heap_get_stats (fixture);
  whole = heap_take (fixture, 500 * MIB);
  g_assert_cmpuint (heap_get_stats (fixture).moves, >, 0);
  g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, <=, stats.upstream_bytes + 100 * MIB);
  for (guint i = 0; i < 64; i++)
    if (i % 4 > 1)
      {
        g_assert_true (tarn_testing_pages_is_usable (fixture->pages, memory[i], 32 * MIB));
        heap_put (fixture, memory[i], 32 * MIB);
      }
  heap_put (fixture, whole, 500 * MIB);
}

/* Virtual memory: a block that is a little larger than a freed one uses the freed bytes, and a
 * small segment beside them.  So a vector that grows a little each time seldom calls the driver. */
static void
test_grows_a_little (HeapFixture *fixture, gconstpointer unused)
{
  gsize size = 20 * MIB;
  TarnMemory vector;
  TarnHeapStats stats;

  (void) unused;
  if (!fixture->is_virtual)
    return;
  vector = heap_take (fixture, size);
  for (guint i = 0; i < 8000; i++)
    {
      TarnMemory larger = heap_take (fixture, size + KIB);

      heap_put (fixture, vector, size);
      size += KIB;
      vector = larger;
      g_assert_true (tarn_testing_pages_is_usable (fixture->pages, vector, size));
    }
  stats = heap_get_stats (fixture);
  g_test_message ("%" G_GUINT64_FORMAT " moves, %" G_GUINT64_FORMAT " calls", stats.moves,
                  stats.driver_calls);
  g_assert_cmpuint (stats.moves + stats.driver_calls, <, 100);
  g_assert_cmpuint (stats.peak_upstream_bytes, <=, 2 * size + 12 * MIB);
  heap_put (fixture, vector, size);
}

/* Where addresses come to an end, there are others, and those that nothing is at any more go back.
 */
static void
test_addresses (HeapFixture *fixture, gconstpointer unused)
{
  TarnMemory memory[16];

  (void) unused;
  if (!fixture->is_virtual)
    return;
  tarn_testing_pages_set_max_addresses (fixture->pages, 256 * MIB);
  for (guint round = 0; round < 30; round++)
    {
      gsize size = (40 + round) * MIB;

      for (guint i = 0; i < 16; i++)
        memory[i] = heap_take (fixture, size);
      g_assert_cmpuint (tarn_testing_pages_get_reserved (fixture->pages), <=, 9);
      for (guint i = 0; i < 16; i++)
        heap_put (fixture, memory[i], size);
    }
  heap_assert_fails (fixture, 257 * MIB, TARN_ERROR_OUT_OF_MEMORY);
}

/* A large piece does not move to where small ones have used up nearly all addresses. */
static void
test_last_addresses (HeapFixture *fixture, gconstpointer unused)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  TarnMemory large, small[252];

  (void) unused;
  if (!fixture->is_virtual)
    return;
  options.growth_bytes = 2 * MIB;
  heap_renew (fixture, &options);
  tarn_testing_pages_set_max_addresses (fixture->pages, 64 * MIB);
  large = heap_take (fixture, 64 * MIB);
  for (guint i = 0; i < 248; i++)
    small[i] = heap_take (fixture, 256 * KIB);
  heap_put (fixture, large, 64 * MIB);
  tarn_testing_pages_set_budget (fixture->pages, 126 * MIB);
  for (guint i = 248; i < 252; i++)
    small[i] = heap_take (fixture, 256 * KIB);
  for (guint i = 0; i < 252; i++)
    heap_put (fixture, small[i], 256 * KIB);
}

/* The fake has addresses for 2^64 bytes, and then refuses. */
static void
test_addresses_end (HeapFixture *fixture, gconstpointer unused)
{
  (void) unused;
  if (!fixture->is_virtual || sizeof (gsize) < sizeof (guint64))
    {
      g_test_skip ("addresses do not come to an end");
      return;
    }
  tarn_testing_pages_set_budget (fixture->pages, 1024 * GIB);
  for (guint i = 0; i < 3; i++)
    heap_assert_fails (fixture, G_MAXSIZE / 4 + 1 + i * 2 * MIB, TARN_ERROR_OUT_OF_MEMORY);
  heap_put (fixture, heap_take (fixture, 4 * GIB), 4 * GIB);
}

/* Makes the device refuse addresses as long as some are reserved. */
static void
refuse_second (gpointer user_data)
{
  TarnTestingPages *pages = user_data;

  tarn_testing_pages_set_max_addresses (
      pages, tarn_testing_pages_get_reserved (pages) == 0 ? G_MAXSIZE : 0);
}

/* A heap that needs addresses releases those in which it has no memory. */
static void
test_addresses_of_others (HeapFixture *fixture, gconstpointer unused)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;

  (void) unused;
  if (!fixture->is_virtual)
    return;
  options.idle_seconds = 3;
  heap_stop_clock (G_TIME_SPAN_DAY);
  heap_renew (fixture, &options);
  tarn_testing_pages_set_hook (fixture->pages, refuse_second, fixture->pages);
  heap_put (fixture, heap_take (fixture, 100 * KIB), 100 * KIB);
  heap_pass_time (10 * G_TIME_SPAN_SECOND);
  g_assert_true (tarn_heap_set_idle_seconds (fixture->heap, 1)); /* looks for idle segments */
  g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, ==, 0);
  heap_put (fixture, heap_take (fixture, 60 * MIB), 60 * MIB);
  fixture->heap->klass->trim (fixture->heap, 0);
  g_assert_cmpuint (tarn_testing_pages_get_reserved (fixture->pages), ==, 0);
  heap_assert_valid (fixture);
  tarn_clock_set (NULL);
  tarn_testing_pages_set_hook (fixture->pages, NULL, NULL);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  heap_add ("growth", test_growth);
  heap_add ("larger-than-pieces", test_larger_than_pieces);
  heap_add ("growth-bytes", test_growth_bytes);
  heap_add ("sizes-change", test_sizes_change);
  heap_add ("moves", test_moves);
  heap_add ("grows-a-little", test_grows_a_little);
  heap_add ("addresses", test_addresses);
  heap_add ("last-addresses", test_last_addresses);
  heap_add ("addresses-end", test_addresses_end);
  heap_add ("addresses-of-others", test_addresses_of_others);
  return g_test_run ();
}
