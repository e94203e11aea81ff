/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Heaps that run out of memory: of the device, of their limit, of what the driver allocates at
 * once, or of what a gsize counts; other heaps of a reclaim group; errors. */

#include <string.h>

#include "heap-fixture.h"

/* The device has no more than what a request needs, down to the granularity. */
static void
test_full (HeapFixture *fixture, gconstpointer unused)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  TarnMemory first, second;

  (void) unused;
  options.growth_bytes = 2 * MIB; /* no two share a piece */
  heap_renew (fixture, &options);
  tarn_testing_pages_set_budget (fixture->pages, 202 * MIB);
  first = heap_take (fixture, 100 * MIB);
  second = heap_take (fixture, 100 * MIB);
  heap_assert_fails (fixture, 4 * MIB, TARN_ERROR_OUT_OF_MEMORY);
  heap_put (fixture, heap_take (fixture, 2 * MIB), 2 * MIB);
  heap_put (fixture, first, 100 * MIB);
  first = heap_take (fixture, 102 * MIB); /* with what the last one had, which is idle */
  heap_put (fixture, first, 102 * MIB);
  heap_put (fixture, second, 100 * MIB);
  second = heap_take (fixture, 202 * MIB);
  heap_put (fixture, second, 202 * MIB);
  heap_assert_fails (fixture, 203 * MIB, TARN_ERROR_OUT_OF_MEMORY);
  heap_put (fixture, heap_take (fixture, 202 * MIB), 202 * MIB);
}

/* A request that fails keeps nothing of what the heap got for it. */
static void
test_returned (HeapFixture *fixture, gconstpointer unused)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  TarnMemory first;
  gsize before;

  (void) unused;
  options.limit_bytes = 150 * MIB;
  for (guint i = 0; i < 2; i++)
    {
      heap_renew (fixture, i > 0 ? &options : NULL);
      tarn_testing_pages_set_budget (fixture->pages, 200 * MIB);
      first = heap_take (fixture, 50 * MIB);
      before = heap_get_stats (fixture).upstream_bytes;
      heap_assert_fails (fixture, 180 * MIB, i > 0 ? TARN_ERROR_LIMIT : TARN_ERROR_OUT_OF_MEMORY);
      g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, <=, before);
      g_assert_cmpuint (tarn_testing_pages_get_used_bytes (fixture->pages), <=, before);
      heap_put (fixture, first, 50 * MIB);
    }
}

/* That a request does not fit is said with a few calls of the device, not by filling it each time
 * that somebody asks; what fits is served all the same, also if some of it has to move. */
static void
test_short (HeapFixture *fixture, gconstpointer unused)
{
  const gsize unit = MIN (GIB, G_MAXSIZE / 32 + 1);
  TarnMemory kept;
  guint calls;

  (void) unused;
  if (!fixture->is_virtual)
    {
      g_test_skip ("a heap of parts asks for what a request needs");
      return;
    }
  tarn_testing_pages_set_budget (fixture->pages, 8 * unit);
  heap_assert_fails (fixture, 9 * unit, TARN_ERROR_OUT_OF_MEMORY);
  for (guint i = 0; i < 4; i++)
    {
      fixture->heap->klass->trim (fixture->heap, 0);
      calls = tarn_testing_pages_get_calls (fixture->pages);
      heap_assert_fails (fixture, (9 + i) * unit, TARN_ERROR_OUT_OF_MEMORY);
      g_assert_cmpuint (tarn_testing_pages_get_calls (fixture->pages) - calls, <=, 6);
    }
  heap_put (fixture, heap_take (fixture, 3 * unit), 3 * unit);
  kept = heap_take (fixture, unit);
  heap_assert_fails (fixture, 8 * unit, TARN_ERROR_OUT_OF_MEMORY);
  heap_put (fixture, heap_take (fixture, 7 * unit), 7 * unit);
  heap_put (fixture, kept, unit);
  heap_put (fixture, heap_take (fixture, 8 * unit), 8 * unit);
}

static void
test_limit (HeapFixture *fixture, gconstpointer unused)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  TarnMemory first;

  (void) unused;
  options.limit_bytes = 100 * MIB;
  heap_renew (fixture, &options);
  heap_assert_fails (fixture, 101 * MIB, TARN_ERROR_LIMIT);
  first = heap_take (fixture, 60 * MIB);
  heap_assert_fails (fixture, 42 * MIB, TARN_ERROR_LIMIT);
  heap_put (fixture, heap_take (fixture, 40 * MIB), 40 * MIB);
  heap_put (fixture, first, 60 * MIB);
  heap_put (fixture, heap_take (fixture, 100 * MIB), 100 * MIB);
  g_assert_cmpuint (heap_get_stats (fixture).peak_upstream_bytes, <=, 100 * MIB);
}

/* A request for more than there is does not first take all that there is. */
static void
test_much_too_large (HeapFixture *fixture, gconstpointer unused)
{
  (void) unused;
  if (sizeof (gsize) < sizeof (guint64))
    {
      g_test_skip ("there are 4 GiB of addresses");
      return;
    }
  tarn_testing_pages_set_budget (fixture->pages, 64 * GIB);
  heap_put (fixture, heap_take (fixture, 20 * MIB), 20 * MIB);
  for (guint i = 0; i < 3; i++)
    heap_assert_fails (fixture, 65 * GIB, TARN_ERROR_OUT_OF_MEMORY);
  g_assert_cmpuint (heap_get_stats (fixture).peak_upstream_bytes, <=, 256 * MIB);
  heap_put (fixture, heap_take (fixture, 60 * GIB), 60 * GIB);
}

/* The error of a request that fails says what is free in the heap. */
static void
test_limit_message (HeapFixture *fixture, gconstpointer unused)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  TarnMemory memory[2] = { { .address = 0 } };
  g_autoptr (GError) error = NULL;
  g_autofree gchar *expected = NULL;
  TarnHeapStats stats;

  (void) unused;
  options.limit_bytes = options.growth_bytes = 256 * MIB;
  heap_renew (fixture, &options);
  g_assert_false (tarn_allocator_allocate_memory (fixture->heap, 300 * MIB, &memory[0], &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
  stats = heap_get_stats (fixture); /* virtual memory may have segments by now */
  g_assert_cmpint (strstr (error->message, "are free") != NULL, ==, stats.pieces > 0);
  g_clear_error (&error);
  heap_renew (fixture, &options);
  memory[0] = heap_take (fixture, 20 * MIB);
  memory[1] = heap_take (fixture, 20 * MIB);
  heap_put (fixture, memory[0], 20 * MIB);
  g_assert_false (tarn_allocator_allocate_memory (fixture->heap, 250 * MIB, &memory[0], &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
  stats = heap_get_stats (fixture);
  g_assert_cmpuint (stats.pieces, ==, 1);
  expected = g_strdup_printf ("%" G_GSIZE_FORMAT " bytes are free in %" G_GSIZE_FORMAT
                              " segment, and the largest free range has %" G_GSIZE_FORMAT,
                              stats.free_bytes, stats.pieces, stats.largest_free_bytes);
  g_assert_nonnull (strstr (error->message, expected));
  heap_put (fixture, memory[1], 20 * MIB);
}

/* An allocator that refuses requests above a size of its own, as clCreateBuffer does, although
 * there is memory. */
#define MAX_BUFFER (5 * MIB + 512)

static gboolean
picky_allocate (gpointer unused, gsize size, TarnMemory *memory, GError **error)
{
  (void) unused;
  if (size > MAX_BUFFER)
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_FAILED, "%" G_GSIZE_FORMAT " bytes", size);
      return FALSE;
    }
  memory->pointer = g_malloc (size);
  return TRUE;
}

static void
picky_free (gpointer unused, TarnMemory memory, gsize size)
{
  (void) unused;
  (void) size;
  g_free (memory.pointer);
}

static gboolean
picky_part_new (gpointer unused, TarnMemory memory, gsize offset, gsize size, TarnMemory *part,
                GError **error)
{
  (void) unused;
  (void) size;
  (void) error;
  part->pointer = (guint8 *) memory.pointer + offset;
  return TRUE;
}

/* A request succeeds that the driver can serve, even if the heap would rather have a larger piece.
 */
static void
test_largest_buffer (HeapFixture *fixture, gconstpointer unused)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  g_autoptr (TarnAllocator) picky = NULL, heap = NULL;
  g_autoptr (GError) error = NULL;
  TarnMemory memory[9] = { { .address = 0 } };

  (void) fixture;
  (void) unused;
  ops.allocate = picky_allocate;
  ops.free = picky_free;
  ops.part_alignment = 1;
  ops.part_new = picky_part_new;
  picky = tarn_allocator_new (&ops, NULL, NULL);
  heap = tarn_heap_allocator_new (picky, NULL, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (memory); i++)
    {
      tarn_allocator_allocate_memory (heap, MAX_BUFFER - i % 2, &memory[i], &error);
      g_assert_no_error (error);
    }
  g_assert_false (tarn_allocator_allocate_memory (heap, MAX_BUFFER + 1, &memory[0], &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_FAILED);
  for (guint i = 0; i < G_N_ELEMENTS (memory); i++)
    tarn_allocator_free_memory (heap, memory[i], MAX_BUFFER - i % 2);
}

static void
test_too_large (HeapFixture *fixture, gconstpointer unused)
{
  (void) unused;
  heap_assert_fails (fixture, G_MAXSIZE, TARN_ERROR_INVALID_SIZE);
  heap_assert_fails (fixture, G_MAXSIZE - 511, TARN_ERROR_INVALID_SIZE);
  heap_assert_fails (fixture, G_MAXSSIZE, TARN_ERROR_INVALID_SIZE); /* with rounding */
  tarn_testing_pages_set_budget (fixture->pages, GIB / 2);
  tarn_testing_pages_set_max_addresses (fixture->pages, GIB / 2);
  heap_assert_fails (fixture, G_MAXSSIZE / 4 * 3, TARN_ERROR_OUT_OF_MEMORY);
  heap_assert_fails (fixture, G_MAXSIZE / 4 + 1, TARN_ERROR_OUT_OF_MEMORY);
}

/* More than a gsize counts is not there, however much the device has. */
static void
test_too_many_bytes (HeapFixture *fixture, gconstpointer unused)
{
  const gsize half = G_MAXSIZE / 2 - 64 * MIB;
  TarnMemory first, second;

  (void) unused;
  if (fixture->is_virtual)
    {
      g_test_skip ("addresses come to an end before");
      return;
    }
  first = heap_take (fixture, half);
  second = heap_take (fixture, half);
  heap_assert_fails (fixture, 256 * MIB, TARN_ERROR_OUT_OF_MEMORY);
  heap_put (fixture, first, half);
  heap_put (fixture, second, half);
}

/* If the heap of a pool runs out of memory, the heaps of the other pools in its group return
 * theirs, whether or not these pools hold blocks. */
static void
check_group (HeapFixture *fixture, const gchar *debug)
{
  g_autoptr (TarnReclaimGroup) group = tarn_reclaim_group_new ();
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  TarnPool *pools[2];

  options.debug = debug;
  tarn_testing_pages_set_budget (fixture->pages, 256 * MIB);
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (TarnAllocator) heap = tarn_heap_allocator_new (fixture->upstream, NULL, NULL);

      pools[i] = tarn_pool_new (heap, &options, NULL);
      tarn_pool_set_reclaim_group (pools[i], group);
    }
  tarn_pool_stop_holding (pools[0]); /* its heap does */
  for (guint i = 0; i < 6; i++)
    {
      TarnBlock *block = tarn_pool_allocate (pools[i % 2], 200 * MIB, NULL);

      g_assert_nonnull (block);
      tarn_block_free (block);
      if (i % 3 == 1) /* its heap has that then */
        {
          block = tarn_pool_allocate (pools[i % 2], 250 * MIB, NULL);
          g_assert_nonnull (block);
          tarn_block_free (block);
        }
    }
  for (guint i = 0; i < 2; i++)
    tarn_pool_unref (pools[i]);
  g_assert_cmpuint (tarn_testing_pages_get_used_bytes (fixture->pages), ==, 0);
}

static void
test_group (HeapFixture *fixture, gconstpointer unused)
{
  (void) unused;
  check_group (fixture, NULL);
}

static void
test_group_debugged (HeapFixture *fixture, gconstpointer unused)
{
  (void) unused;
  check_group (fixture, "leaks");
}

/* ... and no more of what is held goes back than is needed. */
static void
test_group_holds_on (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnReclaimGroup) group = tarn_reclaim_group_new ();
  g_autoptr (TarnAllocator) other = NULL;
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  TarnPoolOptions pool_options = TARN_POOL_OPTIONS_INIT;
  TarnPool *pool, *rich;
  TarnBlock *blocks[10];

  (void) unused;
  tarn_testing_pages_set_budget (fixture->pages, 256 * MIB);
  options.growth_bytes = 2 * MIB; /* no two share a piece */
  heap_renew (fixture, &options);
  other = tarn_heap_allocator_new (fixture->upstream, NULL, NULL);
  pool_options.hold_bytes = G_MAXSIZE;
  rich = tarn_pool_new (fixture->heap, &pool_options, NULL);
  pool = tarn_pool_new (other, NULL, NULL);
  tarn_pool_set_reclaim_group (rich, group);
  tarn_pool_set_reclaim_group (pool, group);
  for (guint i = 0; i < 10; i++)
    blocks[i] = tarn_pool_allocate (rich, 20 * MIB, NULL);
  for (guint i = 0; i < 10; i++)
    tarn_block_free (blocks[i]);
  blocks[0] = tarn_pool_allocate (pool, 80 * MIB, NULL);
  g_assert_nonnull (blocks[0]);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (rich), >=, 100 * MIB);
  tarn_block_free (blocks[0]);
  tarn_pool_unref (rich);
  tarn_pool_unref (pool);
}

/* Upstream runs out once, as where another process has the device for a while.  Later the heap does
 * not go on to make a segment of just its size for each request. */
static void
test_out_of_memory_once (HeapFixture *fixture, gconstpointer unused)
{
  TarnMemory memory[200];
  guint64 calls;

  (void) unused;
  heap_stop_clock (G_TIME_SPAN_DAY);
  heap_renew (fixture, NULL);
  tarn_testing_pages_set_budget (fixture->pages, 100 * MIB);
  heap_put (fixture, heap_take (fixture, 90 * MIB), 90 * MIB);
  heap_assert_fails (fixture, 110 * MIB, TARN_ERROR_OUT_OF_MEMORY);
  tarn_testing_pages_set_budget (fixture->pages, G_MAXUINT64);
  heap_pass_time (G_TIME_SPAN_HOUR);
  heap_put (fixture, heap_take (fixture, MIB), MIB);
  calls = heap_get_stats (fixture).driver_calls;
  for (guint i = 0; i < G_N_ELEMENTS (memory); i++)
    memory[i] = heap_take (fixture, 300 * KIB + i * KIB);
  g_assert_cmpuint (heap_get_stats (fixture).driver_calls, <=, calls + 40);
  for (guint i = 0; i < G_N_ELEMENTS (memory); i++)
    heap_put (fixture, memory[i], 300 * KIB + i * KIB);
  tarn_clock_set (NULL);
}

/* Ten seconds after upstream has run out, the heap gets memory as before, and does not have the
 * cached blocks of all queues first. */
static void
test_forgotten (HeapFixture *fixture, gconstpointer unused)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  TarnHeap *heap;
  TarnMemory first, second;

  (void) unused;
  heap_stop_clock (G_TIME_SPAN_DAY);
  options.growth_bytes = 64 * MIB;
  options.idle_seconds = G_MAXSIZE;
  heap_renew (fixture, &options);
  heap = _tarn_heap_of (fixture->heap);
  tarn_testing_pages_set_budget (fixture->pages, 100 * MIB);
  first = heap_take (fixture, 60 * MIB);
  second = heap_take (fixture, 30 * MIB);
  tarn_testing_pages_set_budget (fixture->pages, G_MAXUINT64);
  g_assert_cmpint (_tarn_heap_choose_sparing (heap, MIB, TRUE), ==, TARN_SPARING_ALL);
  heap_pass_time (9 * G_TIME_SPAN_SECOND);
  g_assert_cmpint (_tarn_heap_choose_sparing (heap, MIB, TRUE), ==, TARN_SPARING_ALL);
  heap_pass_time (G_TIME_SPAN_SECOND);
  g_assert_cmpint (_tarn_heap_choose_sparing (heap, MIB, TRUE), !=, TARN_SPARING_ALL);
  heap_put (fixture, second, 30 * MIB);
  heap_put (fixture, first, 60 * MIB);

  /* The limit that it learnt is forgotten, too. */
  tarn_testing_pages_set_budget (fixture->pages, 100 * MIB);
  heap_assert_fails (fixture, 110 * MIB, TARN_ERROR_OUT_OF_MEMORY);
  g_assert_cmpint (heap->full_bytes != G_MAXSIZE, ==, !fixture->is_virtual);
  tarn_testing_pages_set_budget (fixture->pages, G_MAXUINT64);
  heap_pass_time (10 * G_TIME_SPAN_SECOND);
  heap_put (fixture, heap_take (fixture, MIB), MIB);
  g_assert_cmpuint (heap->full_bytes, ==, G_MAXSIZE);
  tarn_clock_set (NULL);
}

/* The same for the bins of a pool: sizes share them again. */
static void
test_bins (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = NULL;

  (void) unused;
  heap_stop_clock (G_TIME_SPAN_DAY);
  tarn_testing_pages_set_budget (fixture->pages, 100 * MIB);
  pool = tarn_pool_new (fixture->heap, NULL, NULL);
  g_assert_cmpuint (tarn_pool_alloc_size (pool, tarn_pool_bin_number (pool, 5000)), ==, 5120);
  g_assert_null (tarn_pool_allocate (pool, 110 * MIB, NULL));
  g_assert_cmpuint (tarn_pool_alloc_size (pool, tarn_pool_bin_number (pool, 5000)), ==, 5000);
  for (guint i = 0; i < 9; i++)
    {
      heap_pass_time (G_TIME_SPAN_SECOND);
      tarn_block_free (tarn_pool_allocate (pool, (i + 1) * MIB, NULL));
      g_assert_cmpuint (tarn_pool_alloc_size (pool, tarn_pool_bin_number (pool, 5000)), ==, 5000);
    }
  heap_pass_time (2 * G_TIME_SPAN_SECOND);
  for (guint i = 0; i < 300; i++) /* requests without the lock look at the clock now and then */
    tarn_block_free (tarn_pool_allocate (pool, MIB + i * KIB, NULL));
  g_assert_cmpuint (tarn_pool_alloc_size (pool, tarn_pool_bin_number (pool, 5000)), ==, 5120);
  tarn_clock_set (NULL);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  heap_add ("out-of-memory-once", test_out_of_memory_once);
  heap_add ("forgotten", test_forgotten);
  heap_add ("bins", test_bins);
  heap_add ("full", test_full);
  heap_add ("returned", test_returned);
  heap_add ("short", test_short);
  heap_add ("limit", test_limit);
  heap_add ("much-too-large", test_much_too_large);
  heap_add ("limit-message", test_limit_message);
  heap_add ("largest-buffer", test_largest_buffer);
  heap_add ("too-large", test_too_large);
  heap_add ("too-many-bytes", test_too_many_bytes);
  heap_add ("group", test_group);
  heap_add ("group/debugged", test_group_debugged);
  heap_add ("group-holds-on", test_group_holds_on);
  return g_test_run ();
}
