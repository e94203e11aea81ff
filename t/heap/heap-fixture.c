/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "heap-fixture.h"

/* Others have the lock while the heap calls upstream: the invariants hold then, too. */
static void
check_meanwhile (gpointer fixture)
{
  if (((HeapFixture *) fixture)->heap != NULL)
    heap_assert_valid (fixture);
}

void
heap_set_up (HeapFixture *fixture, gconstpointer is_virtual)
{
  fixture->is_virtual = GPOINTER_TO_INT (is_virtual);
  fixture->pages = tarn_testing_pages_new (G_MAXUINT64, fixture->is_virtual);
  tarn_testing_pages_set_hook (fixture->pages, check_meanwhile, fixture);
  fixture->heap = NULL;
  heap_renew (fixture, NULL);
}

void
heap_tear_down (HeapFixture *fixture, gconstpointer unused)
{
  (void) unused;
  tarn_allocator_unref (fixture->heap);
  tarn_testing_pages_free (fixture->pages);
}

void
heap_renew (HeapFixture *fixture, const TarnHeapOptions *options)
{
  g_autoptr (TarnAllocator) upstream = tarn_testing_pages_allocator_new (fixture->pages);
  g_autoptr (GError) error = NULL;

  tarn_allocator_unref (fixture->heap);
  fixture->upstream = upstream;
  fixture->heap = tarn_heap_allocator_new (upstream, options, &error);
  g_assert_no_error (error);
}

void
heap_assert_valid (HeapFixture *fixture)
{
  TarnHeap *heap = _tarn_heap_of (fixture->heap);

  _tarn_heap_lock (heap);
  _tarn_heap_assert_valid (heap);
  _tarn_heap_unlock (heap);
}

TarnHeapStats
heap_get_stats (HeapFixture *fixture)
{
  TarnHeapStats stats = TARN_HEAP_STATS_INIT;

  g_assert_true (tarn_heap_get_stats (fixture->heap, &stats));
  return stats;
}

TarnMemory
heap_take (HeapFixture *fixture, gsize size)
{
  TarnMemory memory = { .address = 0 };
  g_autoptr (GError) error = NULL;

  tarn_allocator_allocate_memory (fixture->heap, size, &memory, &error);
  g_assert_no_error (error);
  heap_assert_valid (fixture);
  g_assert_true (tarn_testing_pages_is_usable (fixture->pages, memory, size));
  return memory;
}

void
heap_put (HeapFixture *fixture, TarnMemory memory, gsize size)
{
  tarn_allocator_free_memory (fixture->heap, memory, size);
  heap_assert_valid (fixture);
}

void
heap_assert_fails (HeapFixture *fixture, gsize size, gint code)
{
  TarnMemory memory = { .address = 42 };
  g_autoptr (GError) error = NULL;

  g_assert_false (tarn_allocator_allocate_memory (fixture->heap, size, &memory, &error));
  g_assert_error (error, TARN_ERROR, code);
  g_assert_cmpuint (memory.address, ==, 42);
  heap_assert_valid (fixture);
}

const TarnExtent *
heap_get_extent (HeapFixture *fixture, TarnMemory memory)
{
  const TarnExtent *extent
      = g_hash_table_lookup (_tarn_heap_of (fixture->heap)->table, &memory.address);

  g_assert_nonnull (extent);
  return extent;
}

static gint64 stopped_time;

static gint64
get_stopped_time (void)
{
  return stopped_time;
}

void
heap_stop_clock (gint64 time)
{
  stopped_time = time;
  tarn_clock_set (get_stopped_time);
}

void
heap_pass_time (gint64 span)
{
  stopped_time += span;
}

void
heap_add (const gchar *path, void (*test) (HeapFixture *, gconstpointer))
{
  static const gchar *const ways[] = { "parts", "virtual" };

  for (gint i = 0; i < 2; i++)
    {
      g_autofree gchar *full = g_strdup_printf ("/core/heap/%s/%s", ways[i], path);

      g_test_add (full, HeapFixture, GINT_TO_POINTER (i), heap_set_up, test, heap_tear_down);
    }
}
