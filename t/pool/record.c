/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Recordings of pools and heaps, read back: what is in the file is what was done.  Requests,
 * counters, heaps, stacks and tags. */

#include <unistd.h>

#include "base/clock-private.h"
#include "lib/pool-fixture.h"
#include "record-fixture.h"

static guint64
get_property (const RecordedEvent *event, TarnTraceProperty property)
{
  for (gsize i = 0; i < event->n_properties; i++)
    if (event->properties[i].property == property)
      return event->properties[i].number;
  g_assert_not_reached ();
}

/* Each sort of request, one after the other */
static void
test_requests (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (4096);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = pool_new_named (allocator, "things");
  g_autoptr (Recording) recording = NULL;
  g_autofree gchar *log = NULL;
  g_auto (Place) place = { NULL, NULL };
  TarnBlock *first, *second;

  place_init (&place, "trace");
  first = pool_take (pool, 100);
  second = pool_take (pool, 200);
  tarn_block_free (second);
  record_start (&place, NULL);
  tarn_block_free (first);
  tarn_tag_push ("outer");
  second = pool_take (pool, 201);
  {
    TARN_TAG_SCOPE ("inner");
    first = pool_take (pool, 1000);
  }
  tarn_block_free (second);
  tarn_tag_pop ();
  second = pool_take (pool, 202);
  g_assert_null (tarn_pool_allocate (pool, 4000, NULL));
  tarn_block_free (first);
  tarn_pool_free_held (pool);
  record_stop ();
  tarn_block_free (second);

  recording = record_open (&place);
  g_assert_true (recording_is_complete (recording));
  g_assert_cmpuint (recording_get_pid (recording), ==, getpid ());
  log = record_read_log (recording);
  g_assert_cmpstr (log, ==,
                   "block a 100 103 in use\n"
                   "block b 0 207 held\n"
                   "free a\n"
                   "hit b 201 outer\n"
                   "miss c 1000 1023 inner\n"
                   "free b\n"
                   "hit b 202 -\n"
                   "gone a\n"
                   "out of memory 4000\n"
                   "fail 4000 1\n"
                   "free c\n"
                   "trim 0\n"
                   "gone c\n");
}

/* A limit is not the end of the device's memory. */
static void
test_limit (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = pool_new_named (allocator, "limited");
  g_autoptr (Recording) recording = NULL;
  g_autofree gchar *log = NULL;
  g_auto (Place) place = { NULL, NULL };

  place_init (&place, "trace");
  tarn_pool_set_limit_bytes (pool, 3000);
  record_start (&place, NULL);
  g_assert_null (tarn_pool_allocate (pool, 4000, NULL));
  record_stop ();

  recording = record_open (&place);
  log = record_read_log (recording);
  g_assert_cmpstr (log, ==, "limit reached 4000\nfail 4000 9\n");
}

static gboolean
allocate_below (gpointer below, gsize size, TarnMemory *memory, GError **error)
{
  TarnBlock *block = tarn_pool_allocate (below, size, error);

  memory->pointer = block;
  return block != NULL;
}

static void
free_below (gpointer below, TarnMemory memory, gsize size)
{
  (void) below, (void) size;
  tarn_block_free (memory.pointer);
}

/* A pool whose backend gets its memory from another pool: the requests of the backend are nested.
 */
static void
test_nested (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) driver = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) below = pool_new_named (driver, "below");
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  g_autoptr (TarnAllocator) allocator = NULL;
  g_autoptr (TarnPool) above = NULL;
  g_autoptr (Recording) recording = NULL;
  g_auto (Place) place = { NULL, NULL };
  RecordedEvent event;
  guint n_nested = 0, n_others = 0;

  ops.allocate = allocate_below;
  ops.free = free_below;
  allocator = tarn_allocator_new (&ops, below, NULL);
  above = pool_new_named (allocator, "above");
  place_init (&place, "trace");
  record_start (&place, NULL);
  tarn_block_free (pool_take (above, 1000));
  tarn_block_free (pool_take (below, 1000));
  record_stop ();

  recording = record_open (&place);
  while (record_next (recording, &event))
    if (event.kind == TARN_TRACE_MISS)
      {
        n_nested += event.is_nested;
        n_others += !event.is_nested;
        g_assert_true (n_nested == 1); /* the first one */
      }
  g_assert_cmpuint (n_nested, ==, 1);
  g_assert_cmpuint (n_others, ==, 2);
}

/* The counters in the file are the pool's, at the end of the recording, or its own. */
static void
test_counters (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = NULL;
  g_autoptr (Recording) recording = NULL;
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  guint64 n_events[TARN_TRACE_N_KINDS] = { 0 };
  g_auto (Place) place = { NULL, NULL };
  TarnBlock *blocks[50];
  RecordedEvent event;
  guint n_reports = 0;

  place_init (&place, "trace");
  record_start (&place, NULL);
  pool = pool_new_named (allocator, "counted");
  for (guint round = 0; round < 20; round++)
    {
      for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
        blocks[i] = pool_take (pool, 1 + (i * 37 + round * 11) % 500);
      for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
        tarn_block_free (blocks[i]);
    }
  tarn_pool_trim (pool, 1000);
  tarn_pool_get_stats (pool, &stats);
  record_stop ();

  recording = record_open (&place);
  while (record_next (recording, &event))
    {
      n_events[event.kind]++;
      if (event.kind == TARN_TRACE_OBJECT && event.object_class == TARN_TRACE_POOL)
        {
          g_assert_cmpstr (event.name, ==, "counted");
          g_assert_cmpuint (get_property (&event, TARN_TRACE_LEADING_BITS), ==, 4);
        }
      if (event.kind != TARN_TRACE_STATS)
        continue;
      n_reports++;
      g_assert_cmpuint (get_property (&event, TARN_TRACE_HITS), ==, stats.hits);
      g_assert_cmpuint (get_property (&event, TARN_TRACE_MISSES), ==, stats.misses);
      g_assert_cmpuint (get_property (&event, TARN_TRACE_DRIVER_CALLS), ==, stats.driver_calls);
      g_assert_cmpuint (get_property (&event, TARN_TRACE_HELD_BYTES), ==, stats.held_bytes);
      g_assert_cmpuint (get_property (&event, TARN_TRACE_PEAK_MANAGED_BYTES), ==,
                        stats.peak_managed_bytes);
    }
  g_assert_cmpuint (n_reports, ==, 1);
  g_assert_cmpuint (n_events[TARN_TRACE_HIT], ==, stats.hits);
  g_assert_cmpuint (n_events[TARN_TRACE_MISS], ==, stats.misses);
  g_assert_cmpuint (n_events[TARN_TRACE_GONE], ==, stats.upstream_frees);
  g_assert_cmpuint (n_events[TARN_TRACE_FREE], ==, stats.hits + stats.misses);
  g_assert_cmpuint (n_events[TARN_TRACE_ALLOCATED], ==,
                    tarn_testing_device_get_allocate_calls (device));
  g_assert_cmpuint (n_events[TARN_TRACE_FREED], ==, tarn_testing_device_get_free_calls (device));
  g_assert_cmpuint (recording_get_n_lost (recording), ==, 0);
}

/* Follows where memory is: a block's address is that of an extent in use, or the other one that a
 * PART gives it.  @parts: the extents' addresses by those others. */
static void
follow_address (const RecordedEvent *event, GHashTable *extents, GHashTable *parts)
{
  const guint64 *extent;

  if (event->kind == TARN_TRACE_EXTENT)
    g_hash_table_add (extents, record_copy_number (event->address));
  else if (event->kind == TARN_TRACE_EXTENT_FREE)
    g_assert_true (g_hash_table_remove (extents, &event->address));
  else if (event->kind == TARN_TRACE_PART)
    g_hash_table_insert (parts, record_copy_number (event->other),
                         record_copy_number (event->address));
  else if (event->kind == TARN_TRACE_MISS)
    {
      extent = g_hash_table_lookup (parts, &event->address);
      g_assert_true (g_hash_table_contains (extents, extent != NULL ? extent : &event->address));
    }
}

/* What a heap says of its memory adds up to its counters, at its busiest as at its end; so do the
 * calls of the backend. */
static void
check_heap (TarnTestingPagesKind kind)
{
  TarnTestingPages *device = tarn_testing_pages_new (G_MAXUINT64, kind);
  TarnAllocator *allocator = tarn_testing_pages_allocator_new (device);
  TarnAllocator *heap = tarn_heap_allocator_new (allocator, NULL, NULL);
  TarnPool *pool = tarn_pool_new (heap, NULL, NULL);
  TarnHeapStats stats = TARN_HEAP_STATS_INIT;
  gint64 pieces = 0, in_pieces = 0, in_extents = 0, most_in_extents = 0;
  guint64 n_allocated = 0, n_freed = 0;
  g_autoptr (GHashTable) extents
      = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  g_autoptr (GHashTable) parts
      = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, g_free);
  g_autoptr (Recording) recording = NULL;
  g_auto (Place) place = { NULL, NULL };
  TarnBlock *blocks[100];
  RecordedEvent event;

  place_init (&place, "trace");
  record_start (&place, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = pool_take (pool, 1 + i * i * 1999);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i += 2)
    tarn_block_free (blocks[i]);
  tarn_pool_free_held (pool);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i += 2)
    blocks[i] = pool_take (pool, 5000 + i * 100);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    tarn_block_free (blocks[i]);
  tarn_pool_free_held (pool);
  tarn_heap_get_stats (heap, &stats);
  record_stop ();

  recording = record_open (&place);
  while (record_next (recording, &event))
    {
      gint64 size = (gint64) event.size;

      follow_address (&event, extents, parts);
      pieces += event.kind == TARN_TRACE_PIECE ? 1 : event.kind == TARN_TRACE_PIECE_GONE ? -1 : 0;
      in_pieces += event.kind == TARN_TRACE_PIECE        ? size
                   : event.kind == TARN_TRACE_PIECE_GONE ? -size
                                                         : 0;
      in_extents += event.kind == TARN_TRACE_EXTENT        ? size
                    : event.kind == TARN_TRACE_EXTENT_FREE ? -size
                                                           : 0;
      most_in_extents = MAX (most_in_extents, in_extents);
      g_assert_cmpint (in_extents, <=, in_pieces);
      n_allocated += event.kind == TARN_TRACE_ALLOCATED && event.other == 0;
      n_freed += event.kind == TARN_TRACE_FREED;
    }
  g_assert_cmpint (pieces, ==, (gint64) stats.pieces);
  g_assert_cmpint (in_pieces, ==, (gint64) stats.upstream_bytes);
  g_assert_cmpint (in_extents, ==, (gint64) stats.used_bytes);
  g_assert_cmpint (most_in_extents, ==, (gint64) stats.peak_used_bytes);
  g_assert_cmpuint (n_allocated, ==, stats.driver_calls);
  g_assert_cmpuint (n_freed, ==, stats.upstream_frees);
  g_assert_cmpuint (n_freed, >, 0);
  tarn_pool_unref (pool);
  tarn_allocator_unref (heap);
  tarn_allocator_unref (allocator);
  tarn_testing_pages_free (device);
}

static void
test_heap (void)
{
  check_heap (TARN_TESTING_PAGES_VIRTUAL);
  check_heap (TARN_TESTING_PAGES_PARTS);
  check_heap (TARN_TESTING_PAGES_ADDRESSES);
}

/* A backend without a pool: what fails says why. */
static void
test_direct (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (100);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (Recording) recording = NULL;
  g_autofree gchar *log = NULL;
  g_auto (Place) place = { NULL, NULL };

  place_init (&place, "trace");
  record_start (&place, NULL);
  tarn_block_free (tarn_allocator_allocate (allocator, 60, NULL));
  g_assert_null (tarn_allocator_allocate (allocator, 101, NULL));
  record_stop ();
  recording = record_open (&place);
  log = record_read_log (recording);
  g_assert_cmpstr (log, ==, "miss a 60 60 -\nfree a\nfail 101 1\n");
}

static void
test_stacks (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = pool_new_named (allocator, NULL);
  g_autoptr (GHashTable) stacks = g_hash_table_new (NULL, NULL);
  g_autoptr (Recording) recording = NULL;
  TarnTraceOptions options = TARN_TRACE_OPTIONS_INIT;
  g_auto (Place) place = { NULL, NULL };
  RecordedEvent event;
  guint n = 0;

  place_init (&place, "trace");
  options.stack_depth = 12;
  record_start (&place, &options);
  for (guint i = 0; i < 1000; i++)
    tarn_block_free (pool_take (pool, 64));
  tarn_block_free (tarn_pool_allocate (pool, 64, NULL));
  record_stop ();
  recording = record_open (&place);
  while (record_next (recording, &event))
    if (event.kind == TARN_TRACE_HIT || event.kind == TARN_TRACE_MISS)
      {
        gsize n_frames = 0;
        const guint64 *frames = recording_get_stack (recording, event.stack, &n_frames);

        n++;
        g_assert_nonnull (frames);
        g_assert_cmpuint (n_frames, >=, 1);
        g_assert_cmpuint (n_frames, <=, 12);
        for (gsize i = 0; i < n_frames; i++)
          g_assert_nonnull (recording_get_frame (recording, frames[i]));
        g_hash_table_add (stacks, GSIZE_TO_POINTER (event.stack));
      }
  g_assert_cmpuint (n, ==, 1001);
  g_assert_cmpuint (g_hash_table_size (stacks), >=, 2);  /* a loop has one */
  g_assert_cmpuint (g_hash_table_size (stacks), <=, 50); /* or a few, where it is unrolled */
}

static void
test_tags (void)
{
  tarn_tag_push ("a");
  tarn_tag_pop ();
  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, "*tarn_tag_pop*");
  tarn_tag_pop ();
  g_test_assert_expected_messages ();
  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, "*tag != NULL*");
  tarn_tag_push (NULL);
  g_test_assert_expected_messages ();
}

/* The clock of pools and heaps, which shows the time of this thread's latest step while events are
 * recorded, does not show a step of an earlier recording. */
static void
test_clock_again (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = pool_new_named (allocator, NULL);

  for (guint i = 0; i < 2; i++)
    {
      gint64 before = g_get_monotonic_time ();
      g_auto (Place) place = { NULL, NULL };

      place_init (&place, "trace");
      record_start (&place, NULL);
      g_assert_cmpint (_tarn_clock_now (), >=, before);
      tarn_block_free (pool_take (pool, 64));
      g_assert_cmpint (_tarn_clock_now (), >=, before);
      record_stop ();
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/core/record/requests", test_requests);
  g_test_add_func ("/core/record/limit", test_limit);
  g_test_add_func ("/core/record/nested", test_nested);
  g_test_add_func ("/core/record/counters", test_counters);
  g_test_add_func ("/core/record/heap", test_heap);
  g_test_add_func ("/core/record/direct", test_direct);
  g_test_add_func ("/core/record/stacks", test_stacks);
  g_test_add_func ("/core/record/tags", test_tags);
  g_test_add_func ("/core/record/clock-again", test_clock_again);
  return g_test_run ();
}
