/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Callers of heaps that were compiled with other versions of their structs. */

#include "lib/struct-sizes.h"

#include "heap-fixture.h"

/* All but the last field of each */

typedef struct
{
  gsize struct_size;
  const gchar *name;
  gsize limit_bytes;
  gboolean follows_pool_limit;
  gsize growth_bytes;
  gsize alignment;
} OldTarnHeapOptions;

STRUCT_SIZES_VERSIONS (TarnHeapOptions, gsize idle_seconds, idle_seconds);

typedef struct
{
  gsize struct_size;
  gsize upstream_bytes;
  gsize peak_upstream_bytes;
  gsize used_bytes;
  gsize peak_used_bytes;
  gsize free_bytes;
  gsize largest_free_bytes;
  gsize pieces;
  gsize idle_pieces;
  guint64 driver_calls;
  guint64 upstream_frees;
  guint64 moves;
} OldTarnHeapStats;

STRUCT_SIZES_VERSIONS (TarnHeapStats, guint64 host_waits, host_waits);

static void
test_defaults (void)
{
  struct_sizes_check_defaults (TarnHeapOptions, TARN_HEAP_OPTIONS_INIT);
  struct_sizes_check_defaults (TarnHeapStats, TARN_HEAP_STATS_INIT);
}

static void
test_options (HeapFixture *fixture, gconstpointer unused)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  g_autoptr (GError) error = NULL;
  OlderTarnHeapOptions older;
  NewerTarnHeapOptions newer;

  (void) unused;
  options.limit_bytes = 7 * MIB;
  struct_sizes_begin_from (&older, &options);
  heap_renew (fixture, (gpointer) &older);
  g_assert_cmpuint (_tarn_heap_of (fixture->heap)->limit_bytes, ==, 7 * MIB);
  struct_sizes_begin_from (&newer, &options);
  heap_renew (fixture, &newer.as.known);
  g_assert_cmpuint (_tarn_heap_of (fixture->heap)->limit_bytes, ==, 7 * MIB);
  newer.as.later = &newer;
  g_assert_null (tarn_heap_allocator_new (fixture->upstream, &newer.as.known, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "TarnHeapOptions"));
}

static void
test_stats (HeapFixture *fixture, gconstpointer unused)
{
  TarnMemory memory = heap_take (fixture, MIB);
  OlderTarnHeapStats older;
  NewerTarnHeapStats newer;

  (void) unused;
  struct_sizes_begin (&older);
  g_assert_true (tarn_heap_get_stats (fixture->heap, (gpointer) &older));
  struct_sizes_check (&older);
  g_assert_cmpuint (older.as.used_bytes, ==, MIB);
  g_assert_cmpuint (older.as.upstream_frees, ==, 0);
  struct_sizes_begin (&newer);
  g_assert_true (tarn_heap_get_stats (fixture->heap, &newer.as.known));
  struct_sizes_check (&newer);
  g_assert_cmpuint (newer.as.known.used_bytes, ==, MIB);
  g_assert_null (newer.as.later);
  heap_put (fixture, memory, MIB);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/core/heap/struct-sizes/defaults", test_defaults);
  heap_add ("struct-sizes/options", test_options);
  heap_add ("struct-sizes/stats", test_stats);
  return g_test_run ();
}
