/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Heaps: blocks are split and merged, each call of the device fails in turn, and the backend
 * calls back meanwhile. */

#include <string.h>

#include "heap-fixture.h"
#include "lib/in-child.h"
#include "lib/nothing.h"

#define SIZE (1 * MIB)

/* Takes so many blocks that lie side by side. */
static void
take_row (HeapFixture *fixture, TarnMemory *row, guint n)
{
  for (guint i = 0; i < n; i++)
    row[i] = heap_take (fixture, SIZE);
  for (guint i = 1; i < n; i++)
    g_assert_cmpuint (heap_get_extent (fixture, row[i])->start, ==,
                      heap_get_extent (fixture, row[i - 1])->start + SIZE);
}

static guint64
get_start (HeapFixture *fixture, TarnMemory memory)
{
  return heap_get_extent (fixture, memory)->start;
}

static void
test_joined (HeapFixture *fixture, gconstpointer unused)
{
  static const guint orders[][4]
      = { { 0, 1, 2, 3 }, { 3, 2, 1, 0 }, { 0, 2, 1, 3 }, { 1, 3, 0, 2 } };

  (void) unused;
  for (guint order = 0; order < G_N_ELEMENTS (orders); order++)
    {
      TarnMemory row[4], whole;
      gsize pieces;
      guint64 start;

      heap_put (fixture, heap_take (fixture, 64 * MIB), 64 * MIB); /* there is enough in one */
      take_row (fixture, row, 4);
      start = get_start (fixture, row[0]);
      pieces = heap_get_stats (fixture).pieces;
      for (guint i = 0; i < 4; i++)
        heap_put (fixture, row[orders[order][i]], SIZE);
      whole = heap_take (fixture, 4 * SIZE);
      g_assert_cmpuint (get_start (fixture, whole), ==, start);
      g_assert_cmpuint (heap_get_stats (fixture).pieces, ==, pieces);
      heap_put (fixture, whole, 4 * SIZE);
    }
}

/* The smallest that is large enough, and of two that are the same the first. */
static void
test_best_fit (HeapFixture *fixture, gconstpointer unused)
{
  TarnMemory row[12], again;

  (void) unused;
  heap_put (fixture, heap_take (fixture, 64 * MIB), 64 * MIB);
  take_row (fixture, row, 12);
  heap_put (fixture, row[1], SIZE); /* three in a row, and twice two */
  heap_put (fixture, row[2], SIZE);
  heap_put (fixture, row[3], SIZE);
  heap_put (fixture, row[8], SIZE);
  heap_put (fixture, row[9], SIZE);
  heap_put (fixture, row[5], SIZE);
  heap_put (fixture, row[6], SIZE);
  again = heap_take (fixture, 2 * SIZE - 4 * KIB);
  g_assert_cmpuint (get_start (fixture, again), ==, get_start (fixture, row[4]) + SIZE);
  heap_put (fixture, again, 2 * SIZE - 4 * KIB);
  again = heap_take (fixture, 3 * SIZE);
  g_assert_cmpuint (get_start (fixture, again), ==, get_start (fixture, row[0]) + SIZE);
  heap_put (fixture, again, 3 * SIZE);
  for (guint i = 0; i < 12; i++)
    if (i == 0 || i == 4 || i == 7 || i > 9)
      heap_put (fixture, row[i], SIZE);
}

/* Small ones do not lie between large ones. */
static void
test_small (HeapFixture *fixture, gconstpointer unused)
{
  TarnMemory large[2], small[2];

  (void) unused;
  large[0] = heap_take (fixture, SIZE);
  small[0] = heap_take (fixture, 1000);
  large[1] = heap_take (fixture, SIZE);
  small[1] = heap_take (fixture, 0);
  g_assert_cmpuint (get_start (fixture, large[1]), ==, get_start (fixture, large[0]) + SIZE);
  g_assert_cmpuint (get_start (fixture, small[1]), ==, get_start (fixture, small[0]) + 1024);
  g_assert_true (heap_get_extent (fixture, small[0])->piece
                 != heap_get_extent (fixture, large[0])->piece);
  g_assert_cmpuint (heap_get_stats (fixture).used_bytes, ==, 2 * SIZE + 1024 + 512);
  heap_put (fixture, large[0], SIZE);
  heap_put (fixture, large[1], SIZE);
  heap_put (fixture, small[0], 1000);
  heap_put (fixture, small[1], 0);
}

/* Each call that can fail does, once and from then on: the error says so, and nothing is lost. */
static void
test_failures (HeapFixture *fixture, gconstpointer unused)
{
  (void) unused;
  for (guint for_ever = 0; for_ever < 2; for_ever++)
    for (guint nth = 1, n_failed = 1; n_failed > 0; nth++)
      {
        TarnMemory memory[6] = { { .address = 0 } };
        guint n;

        heap_renew (fixture, NULL);
        tarn_testing_pages_fail (fixture->pages, nth, for_ever != 0);
        for (n = 0; n < 6; n++)
          {
            g_autoptr (GError) error = NULL;

            if (!tarn_allocator_allocate_memory (fixture->heap, (n * 30 + 1) * MIB, &memory[n],
                                                 &error))
              g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
            heap_assert_valid (fixture);
            if (n == 4 && memory[3].address != 0)
              {
                heap_put (fixture, memory[3], 91 * MIB);
                memory[3].address = 0;
              }
          }
        n_failed = tarn_testing_pages_has_failed (fixture->pages);
        tarn_testing_pages_fail (fixture->pages, 0, FALSE);
        for (n = 0; n < 6; n++)
          if (memory[n].address != 0)
            heap_put (fixture, memory[n], (n * 30 + 1) * MIB);
        heap_put (fixture, heap_take (fixture, 200 * MIB), 200 * MIB);
      }
}

static void
test_blocks (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnAllocator) heap = tarn_allocator_ref (fixture->heap);
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_allocator_allocate (heap, 1000, &error);

  (void) unused;
  g_assert_no_error (error);
  g_assert_cmpuint (tarn_block_get_size (block), ==, 1000);
  g_assert_true (tarn_block_get_allocator (block) == fixture->upstream);
  g_assert_false (tarn_block_record_use (block, heap, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
  tarn_allocator_unref (g_steal_pointer (&heap));
  tarn_allocator_unref (g_steal_pointer (&fixture->heap));
  tarn_block_free (block); /* the last one to have it */
}

static void
test_pool (HeapFixture *fixture, gconstpointer unused)
{
  TarnPool *pool = tarn_pool_new (fixture->heap, NULL, NULL);
  TarnBlock *blocks[50];

  (void) unused;
  for (guint round = 0; round < 3; round++)
    {
      for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
        {
          blocks[i] = tarn_pool_allocate (pool, 3000 * (i + 1) * (i + 1), NULL);
          g_assert_true (tarn_testing_pages_is_usable (fixture->pages,
                                                       tarn_block_get_memory (blocks[i]),
                                                       tarn_block_get_alloc_size (blocks[i])));
        }
      for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
        tarn_block_free (blocks[i]);
      heap_assert_valid (fixture);
    }
  g_assert_cmpuint (heap_get_stats (fixture).used_bytes, >, 0);
  tarn_pool_free_held (pool);
  g_assert_cmpuint (heap_get_stats (fixture).used_bytes, ==, 0);
  g_assert_cmpuint (tarn_testing_pages_get_used_bytes (fixture->pages), ==, 0);
  tarn_pool_unref (pool);
}

static void
test_not_in_use (HeapFixture *fixture, gconstpointer unused)
{
  TarnMemory memory = heap_take (fixture, SIZE);

  (void) unused;
  heap_put (fixture, memory, SIZE);
  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, "*1048576 bytes is not in use");
  heap_put (fixture, memory, SIZE);
  g_test_assert_expected_messages ();
}

static void
test_alignment (HeapFixture *fixture, gconstpointer unused)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  TarnMemory memory[10];
  g_autoptr (GError) error = NULL;

  (void) unused;
  options.alignment = 64 * KIB;
  heap_renew (fixture, &options);
  for (guint i = 0; i < 10; i++)
    {
      const TarnExtent *extent;

      memory[i] = heap_take (fixture, 1 + i * 10000);
      extent = heap_get_extent (fixture, memory[i]);
      g_assert_cmpuint ((extent->start - extent->piece->start) % (64 * KIB), ==, 0);
    }
  for (guint i = 0; i < 10; i++)
    heap_put (fixture, memory[i], 1 + i * 10000);
  options.alignment = 1000;
  g_assert_null (tarn_heap_allocator_new (fixture->upstream, &options, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "1000"));
}

static void
use_in_child (gpointer data)
{
  HeapFixture *fixture = data;
  TarnHeapStats stats = TARN_HEAP_STATS_INIT;
  TarnMemory memory;
  GError *error = NULL;

  STEP (1, !tarn_allocator_allocate_memory (fixture->heap, SIZE, &memory, &error));
  STEP (2, take_forked (&error));
  STEP (3, tarn_heap_get_stats (fixture->heap, &stats) && stats.pieces > 0);
  tarn_allocator_unref (fixture->heap);
}

static void
test_fork (HeapFixture *fixture, gconstpointer unused)
{
  TarnMemory memory = heap_take (fixture, SIZE);
  TarnHeap *heap = _tarn_heap_of (fixture->heap);

  (void) unused;
  _tarn_heap_lock (heap); /* as another thread might at that moment */
  in_child (use_in_child, fixture);
  _tarn_heap_unlock (heap);
  heap_put (fixture, memory, SIZE);
}

static void
test_not_supported (void)
{
  TarnAllocatorOps ops;
  g_autoptr (TarnAllocator) allocator = NULL;
  TarnHeapStats stats = TARN_HEAP_STATS_INIT;
  g_autoptr (GError) error = NULL;

  nothing_ops_init (&ops);
  ops.name = "rock";
  allocator = tarn_allocator_new (&ops, NULL, NULL);
  g_assert_null (tarn_heap_allocator_new (allocator, NULL, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
  g_assert_nonnull (strstr (error->message, "'rock'"));
  stats.pieces = 42;
  g_assert_false (tarn_heap_get_stats (allocator, &stats));
  g_assert_cmpuint (stats.pieces, ==, 42);
}

/* What a backend does while it is asked for memory, or to give some back. */
typedef struct
{
  HeapFixture *fixture;
  TarnPool *pool;
  guint n_calls, n_failed;
  gboolean is_inside;
} Visitor;

static void
come_back (gpointer data)
{
  Visitor *visitor = data;
  TarnMemory memory = { .address = 0 };
  g_autoptr (GError) error = NULL;

  if (visitor->is_inside)
    return;
  visitor->is_inside = TRUE;
  visitor->n_calls++;
  tarn_pool_free_held (visitor->pool);
  if (tarn_allocator_allocate_memory (visitor->fixture->heap, GIB, &memory, &error))
    tarn_allocator_free_memory (visitor->fixture->heap, memory, GIB);
  else
    {
      g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
      visitor->n_failed++;
    }
  visitor->is_inside = FALSE;
}

/* A backend that comes back for memory while the heap asks it for some, or has the pool over the
 * heap give back, waits for nobody: it would be for itself. */
static void
test_comes_back (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = tarn_pool_new (fixture->heap, NULL, NULL);
  Visitor visitor = { fixture, pool, 0, 0, FALSE };
  TarnBlock *blocks[8];

  (void) unused;
  tarn_testing_pages_set_hook (fixture->pages, come_back, &visitor);
  for (guint i = 0; i < 8; i++)
    blocks[i] = tarn_pool_allocate (pool, (1 + i) * 20 * MIB, NULL);
  for (guint i = 0; i < 8; i++)
    tarn_block_free (blocks[i]);
  tarn_pool_free_held (pool);
  tarn_testing_pages_set_hook (fixture->pages, NULL, NULL);
  g_assert_cmpuint (visitor.n_calls, >, 8);
  g_assert_cmpuint (visitor.n_failed, >, 0);
  heap_assert_valid (fixture);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  heap_add ("joined", test_joined);
  heap_add ("best-fit", test_best_fit);
  heap_add ("small", test_small);
  heap_add ("failures", test_failures);
  heap_add ("blocks", test_blocks);
  heap_add ("pool", test_pool);
  heap_add ("not-in-use", test_not_in_use);
  heap_add ("alignment", test_alignment);
  heap_add ("fork", test_fork);
  heap_add ("comes-back", test_comes_back);
  g_test_add_func ("/core/heap/not-supported", test_not_supported);
  return g_test_run ();
}
