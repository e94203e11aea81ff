/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * For programs that have handles: references on blocks, blocks by their memory, and alignment. */

#include <string.h>
#include <tarn/debug.h>
#include <tarn/heap.h>

#include "lib/pool-fixture.h"

#define SIZE 5000
#define N_THREADS 4

typedef struct
{
  TarnTestingDevice *device;
  TarnTestingPages *pages[3]; /* of heaps: parts that are made, virtual memory, addresses */
  TarnAllocator *allocator;
} World;

static void
set_up (World *w, gconstpointer unused)
{
  (void) unused;
  w->device = tarn_testing_device_new (1 << 20);
  w->pages[0] = tarn_testing_pages_new (256 << 20, TARN_TESTING_PAGES_PARTS);
  w->pages[1] = tarn_testing_pages_new (256 << 20, TARN_TESTING_PAGES_VIRTUAL);
  w->pages[2] = tarn_testing_pages_new (256 << 20, TARN_TESTING_PAGES_ADDRESSES);
  w->allocator = tarn_testing_device_allocator_new (w->device);
}

static void
tear_down (World *w, gconstpointer unused)
{
  (void) unused;
  tarn_allocator_unref (w->allocator);
  tarn_testing_assert_no_leaks (w->device);
  tarn_testing_device_free (w->device);
  for (guint i = 0; i < G_N_ELEMENTS (w->pages); i++)
    {
      g_assert_cmpuint (tarn_testing_pages_get_used_bytes (w->pages[i]), ==, 0);
      tarn_testing_pages_free (w->pages[i]);
    }
}

static TarnPool *
new_pool (TarnAllocator *upstream, TarnPoolFlags flags)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (GError) error = NULL;
  TarnPool *pool;

  options.flags = flags;
  pool = tarn_pool_new (upstream, &options, &error);
  g_assert_no_error (error);
  return pool;
}

static TarnPool *
new_heap_pool (World *w, guint kind, TarnPoolFlags flags)
{
  g_autoptr (TarnAllocator) pages = tarn_testing_pages_allocator_new (w->pages[kind]);
  g_autoptr (TarnAllocator) heap = tarn_heap_allocator_new (pages, NULL, NULL);

  return new_pool (heap, flags);
}

static TarnBlock *
take (TarnPool *pool, gsize size)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_pool_allocate (pool, size, &error);

  g_assert_no_error (error);
  return block;
}

static void
expect_critical (const gchar *pattern)
{
  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, pattern);
}

/* References */

/* All but the last free change nothing; what comes after the last is a mistake as ever. */
static void
check_references (TarnPool *pool, gsize size)
{
  TarnBlock *block = take (pool, size);

  g_assert_true (tarn_block_ref (block) == block);
  g_assert_true (tarn_block_ref (block) == block);
  for (guint i = 0; i < 2; i++)
    {
      tarn_block_free (block);
      g_assert_cmpuint (tarn_pool_get_active_blocks (pool), ==, 1);
      g_assert_cmpuint (tarn_block_get_size (block), ==, size);
    }
  tarn_block_ref (block);
  tarn_block_free (block);
  tarn_block_free (block);
  g_assert_cmpuint (tarn_pool_get_active_blocks (pool), ==, 0);
}

static void
test_references (World *w, gconstpointer unused)
{
  static const gsize sizes[] = { 0, 1, SIZE, 1 << 18, 3 << 18 };
  TarnPool *pools[] = { new_pool (w->allocator, 0),
                        new_heap_pool (w, 0, 0),
                        new_heap_pool (w, 1, 0),
                        new_pool (w->allocator, TARN_POOL_FINDABLE),
                        new_heap_pool (w, 0, TARN_POOL_FINDABLE),
                        new_heap_pool (w, 1, TARN_POOL_FINDABLE) };

  (void) unused;
  for (guint i = 0; i < G_N_ELEMENTS (pools); i++)
    {
      for (guint j = 0; j < 3 * G_N_ELEMENTS (sizes); j++)
        check_references (pools[i], sizes[j % G_N_ELEMENTS (sizes)]);
      tarn_pool_unref (pools[i]);
    }
}

static void
test_references_without_pool (World *w, gconstpointer unused)
{
  TarnBlock *block = tarn_allocator_allocate (w->allocator, SIZE, NULL);

  (void) unused;
  tarn_block_ref (block);
  tarn_block_ref (block);
  tarn_block_free (block);
  tarn_block_free (block);
  g_assert_cmpuint (tarn_testing_device_get_live (w->device), ==, 1);
  tarn_block_free (block);
  g_assert_cmpuint (tarn_testing_device_get_live (w->device), ==, 0);
}

static void
test_not_in_use (World *w, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = new_pool (w->allocator, 0);
  TarnBlock *block = take (pool, SIZE);

  (void) unused;
  tarn_block_free (block);
  expect_critical ("tarn_block_ref: * is not a block in use");
  tarn_block_ref (block);
  g_test_assert_expected_messages ();
  expect_critical ("tarn_block_free: block * was freed already");
  tarn_block_free (block);
  g_test_assert_expected_messages ();
}

typedef struct
{
  TarnPool *pool;
  TarnBlock *block;
  gint n_ready; /* atomic */
} Crowd;

static gpointer
use_and_free (gpointer data)
{
  Crowd *crowd = data;
  TarnBlock *block = crowd->block;

  g_atomic_int_inc (&crowd->n_ready);
  while (g_atomic_int_get (&crowd->n_ready) < N_THREADS)
    g_thread_yield ();
  tarn_block_free (tarn_block_ref (block));
  g_assert_cmpuint (tarn_block_get_size (block), ==, SIZE);
  tarn_block_free (block);
  tarn_block_free (take (crowd->pool, SIZE));
  return NULL;
}

/* Each thread has a reference, and the last that frees ends the block. */
static void
share_among_threads (World *w, guint kind)
{
  Crowd crowd = { .pool = new_heap_pool (w, kind, 0) };
  GThread *threads[N_THREADS];

  for (guint round = 0; round < 200; round++)
    {
      crowd.n_ready = 0;
      crowd.block = take (crowd.pool, SIZE);
      for (guint i = 1; i < N_THREADS; i++)
        tarn_block_ref (crowd.block);
      for (guint i = 0; i < N_THREADS; i++)
        threads[i] = g_thread_new ("holder", use_and_free, &crowd);
      for (guint i = 0; i < N_THREADS; i++)
        g_thread_join (threads[i]);
      g_assert_cmpuint (tarn_pool_get_active_blocks (crowd.pool), ==, 0);
    }
  tarn_pool_unref (crowd.pool);
}

static void
test_reference_threads (World *w, gconstpointer unused)
{
  (void) unused;
  share_among_threads (w, 0);
  share_among_threads (w, 1);
}

/* Blocks by their memory */

static void
check_found (TarnPool *pool, gsize size)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = take (pool, size), *other = take (pool, size);
  TarnMemory memory = tarn_block_get_memory (block);

  g_assert_true (tarn_pool_find (pool, memory) == block);
  g_assert_true (tarn_pool_find (pool, tarn_block_get_memory (other)) == other);
  tarn_block_ref (other);
  tarn_block_free (other);
  g_assert_true (tarn_pool_find (pool, tarn_block_get_memory (other)) == other);
  tarn_block_free (other);
  tarn_pool_free_memory (pool, memory, NULL, &error);
  g_assert_no_error (error);
  g_assert_null (tarn_pool_find (pool, memory));
  g_assert_false (tarn_pool_free_memory (pool, memory, NULL, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "is that of no block in use"));
}

static void
test_find (World *w, gconstpointer unused)
{
  static const gsize sizes[] = { 1, SIZE, 1 << 18 };
  TarnPool *pools[]
      = { new_pool (w->allocator, TARN_POOL_FINDABLE), new_heap_pool (w, 0, TARN_POOL_FINDABLE),
          new_heap_pool (w, 1, TARN_POOL_FINDABLE) };
  TarnMemory nowhere = { .address = 12345 }, none = { .address = 0 };

  (void) unused;
  for (guint i = 0; i < G_N_ELEMENTS (pools); i++)
    {
      for (guint j = 0; j < 30; j++)
        check_found (pools[i], sizes[j % G_N_ELEMENTS (sizes)]);
      g_assert_null (tarn_pool_find (pools[i], nowhere));
      g_assert_null (tarn_pool_find (pools[i], none));
      tarn_pool_unref (pools[i]);
    }
}

/* Most requests are hits, and take no lock of the pool's. */
static void
test_find_hits (World *w, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = new_pool (w->allocator, TARN_POOL_FINDABLE);

  (void) unused;
  for (guint i = 0; i < 100; i++)
    tarn_block_free (take (pool, SIZE));
  g_assert_cmpuint (get_stats (pool).hits, ==, 99);
  g_assert_cmpuint (tarn_testing_device_get_allocate_calls (w->device), ==, 1);
}

/* One that is hidden is not found, nor freed by its memory, until it is handed out again. */
static void
test_hide (World *w, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = new_pool (w->allocator, TARN_POOL_FINDABLE);
  g_autoptr (TarnPool) other = new_pool (w->allocator, 0);
  TarnBlock *block = take (pool, SIZE), *plain = take (other, SIZE);
  TarnBlock *direct = tarn_allocator_allocate (w->allocator, SIZE, NULL);
  TarnMemory memory = tarn_block_get_memory (block);
  g_autoptr (GError) error = NULL;

  (void) unused;
  for (guint i = 0; i < 2; i++)
    {
      tarn_block_hide (block);
      tarn_block_hide (plain);
      tarn_block_hide (direct);
      g_assert_null (tarn_pool_find (pool, memory));
    }
  g_assert_false (tarn_pool_free_memory (pool, memory, NULL, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  tarn_block_free (block);
  g_assert_true (take (pool, SIZE) == block);
  g_assert_true (tarn_pool_find (pool, memory) == block);
  tarn_block_free (block);
  tarn_block_free (plain);
  tarn_block_free (direct);
}

static void
test_not_findable (World *w, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = new_pool (w->allocator, 0);
  TarnBlock *block = take (pool, SIZE);
  g_autoptr (GError) error = NULL;

  (void) unused;
  g_assert_false (tarn_pool_free_memory (pool, tarn_block_get_memory (block), NULL, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
  expect_critical ("*is_findable*");
  g_assert_null (tarn_pool_find (pool, tarn_block_get_memory (block)));
  g_test_assert_expected_messages ();
  tarn_block_free (block);
}

static void
test_unknown_flags (World *w, gconstpointer unused)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (GError) error = NULL;

  (void) unused;
  options.flags = 1 << 30;
  g_assert_null (tarn_pool_new (w->allocator, &options, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "0x40000000"));
}

/* The index also has blocks that an allocator over the pool has allocated. */
static void
test_find_bare (World *w, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = new_pool (w->allocator, TARN_POOL_FINDABLE);
  g_autoptr (TarnPool) above = new_pool (TARN_ALLOCATOR (pool), 0);
  TarnBlock *block = take (above, SIZE);
  TarnMemory memory = tarn_block_get_memory (block);

  (void) unused;
  g_assert_nonnull (tarn_pool_find (pool, memory));
  tarn_block_free (block);
  tarn_pool_free_held (above);
  g_assert_null (tarn_pool_find (pool, memory));
}

static gpointer
find_at_random (gpointer data)
{
  TarnPool *pool = data;
  g_autoptr (GRand) random = g_rand_new_with_seed (GPOINTER_TO_UINT (g_thread_self ()));
  TarnMemory live[16] = { { .address = 0 } };
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < 4000; i++)
    {
      TarnMemory *one = &live[g_rand_int_range (random, 0, G_N_ELEMENTS (live))];

      if (one->address != 0)
        {
          g_assert_nonnull (tarn_pool_find (pool, *one));
          tarn_pool_free_memory (pool, *one, NULL, &error);
          g_assert_no_error (error);
        }
      *one = tarn_block_get_memory (take (pool, (gsize) g_rand_int_range (random, 1, 1 << 17)));
    }
  for (guint i = 0; i < G_N_ELEMENTS (live); i++)
    if (live[i].address != 0)
      tarn_pool_free_memory (pool, live[i], NULL, NULL);
  return NULL;
}

static void
test_find_threads (World *w, gconstpointer unused)
{
  GThread *threads[N_THREADS];

  (void) unused;
  for (guint kind = 0; kind < G_N_ELEMENTS (w->pages); kind++)
    {
      g_autoptr (TarnPool) pool = new_heap_pool (w, kind, TARN_POOL_FINDABLE);

      for (guint i = 0; i < N_THREADS; i++)
        threads[i] = g_thread_new ("finder", find_at_random, pool);
      for (guint i = 0; i < N_THREADS; i++)
        g_thread_join (threads[i]);
      g_assert_cmpuint (tarn_pool_get_active_blocks (pool), ==, 0);
    }
}

/* Alignment */

static TarnBlock *
take_aligned (TarnPool *pool, gsize size, gsize alignment)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_pool_allocate_aligned (pool, size, alignment, NULL, &error);

  g_assert_no_error (error);
  g_assert_cmpuint (tarn_block_get_size (block), ==, size);
  return block;
}

/* Beside blocks of other sizes, which come and go; what lies beside an aligned block is free. */
static void
align_at_random (World *w, guint kind)
{
  g_autoptr (TarnPool) pool = new_heap_pool (w, kind, TARN_POOL_FINDABLE);
  TarnBlock *live[32] = { NULL };

  for (guint i = 0; i < 2000; i++)
    {
      TarnBlock **one = &live[g_test_rand_int_range (0, G_N_ELEMENTS (live))];
      gsize size = (gsize) g_test_rand_int_range (1, 200000);
      gsize alignment = (gsize) 1 << g_test_rand_int_range (0, 22);

      tarn_block_free (*one);
      if (i % 3 != 0)
        {
          *one = take (pool, size);
          continue;
        }
      *one = take_aligned (pool, size, alignment);
      if (kind > 0) /* else it is a handle */
        g_assert_cmpuint (tarn_block_get_memory (*one).address % alignment, ==, 0);
      g_assert_true (tarn_pool_find (pool, tarn_block_get_memory (*one)) == *one);
      g_assert_true (
          tarn_testing_pages_is_usable (w->pages[kind], tarn_block_get_memory (*one), size));
    }
  for (guint i = 0; i < G_N_ELEMENTS (live); i++)
    tarn_block_free (live[i]);
  g_assert_cmpuint (tarn_pool_get_active_blocks (pool), ==, 0);
}

static void
test_aligned (World *w, gconstpointer unused)
{
  (void) unused;
  for (guint kind = 0; kind < G_N_ELEMENTS (w->pages); kind++)
    align_at_random (w, kind);
}

/* Also if mistakes are looked for. */
static void
test_aligned_debugged (World *w, gconstpointer unused)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;

  (void) unused;
  options.debug = "leaks";
  for (guint kind = 0; kind < G_N_ELEMENTS (w->pages); kind++)
    {
      g_autoptr (TarnAllocator) pages = tarn_testing_pages_allocator_new (w->pages[kind]);
      g_autoptr (TarnAllocator) heap = tarn_heap_allocator_new (pages, NULL, NULL);
      g_autoptr (TarnPool) pool = tarn_pool_new (heap, &options, NULL);
      TarnBlock *blocks[22];

      for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
        {
          blocks[i] = take_aligned (pool, 1000, (gsize) 1 << i);
          if (kind > 0) /* else it is a handle */
            g_assert_cmpuint (tarn_block_get_memory (blocks[i]).address % ((gsize) 1 << i), ==, 0);
        }
      for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
        tarn_block_free (blocks[i]);
    }
}

/* An aligned block takes no more than its size. */
static void
test_aligned_bytes (World *w, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = new_heap_pool (w, 1, 0);
  TarnBlock *blocks[10];
  TarnHeapStats stats = TARN_HEAP_STATS_INIT;

  (void) unused;
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = take_aligned (pool, 1000, 1 << 16);
  tarn_pool_free_held (pool);
  tarn_heap_get_stats (tarn_pool_get_upstream (pool), &stats);
  g_assert_cmpuint (stats.used_bytes, ==, G_N_ELEMENTS (blocks) * 1024);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    tarn_block_free (blocks[i]);
}

static void
test_aligned_refused (World *w, gconstpointer unused)
{
  static const gsize wrong[] = { 0, 3, 4097 };
  g_autoptr (TarnPool) pool = new_pool (w->allocator, 0);
  g_autoptr (TarnPool) over_heap = new_heap_pool (w, 1, 0);
  g_autoptr (GError) error = NULL;

  (void) unused;
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_assert_null (tarn_pool_allocate_aligned (pool, 1, wrong[i], NULL, &error));
      g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
      g_clear_error (&error);
    }
  g_assert_null (tarn_pool_allocate_aligned (pool, 1, 1 << 30, NULL, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
  g_clear_error (&error);
  g_assert_null (tarn_pool_allocate_aligned (over_heap, 1, (gsize) 1 << (8 * sizeof (gsize) - 1),
                                             NULL, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_SIZE);
  g_clear_error (&error);
  g_assert_null (tarn_pool_allocate_aligned (over_heap, 1, 1 << 30, NULL, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
  g_assert_cmpuint (tarn_pool_get_active_blocks (over_heap), ==, 0);
}

static guint64
count_requests (TarnPool *pool)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;

  assert_valid (pool);
  tarn_pool_get_stats (pool, &stats);
  g_assert_cmpuint (stats.served_without_driver, <=, stats.hits + stats.misses);
  return stats.hits + stats.misses + stats.failures;
}

/* Each request counts once, whether a block of the size is there that is not aligned, or none. */
static void
count_aligned (TarnPool *pool, TarnTestingPages *pages)
{
  TarnBlock *first = take (pool, 1000), *second = take (pool, 1000), *aligned;
  guint64 n = count_requests (pool);

  for (guint i = 0; i < 3; i++)
    {
      if (i == 1)
        tarn_block_free (second);
      aligned = take_aligned (pool, 1000, 1 << 16);
      g_assert_cmpuint (count_requests (pool), ==, ++n);
      tarn_block_free (aligned);
    }
  /* so that a handle has no fresh segment, whose first byte has any alignment */
  tarn_pool_free_held (pool);
  tarn_testing_pages_set_budget (pages, tarn_testing_pages_get_used_bytes (pages));
  for (guint i = 0; i < 2; i++)
    {
      g_assert_null (tarn_pool_allocate_aligned (pool, 1000, 1 << 30, NULL, NULL));
      g_assert_cmpuint (count_requests (pool), ==, ++n);
    }
  tarn_block_free (first);
}

static void
test_aligned_counted (World *w, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = new_pool (w->allocator, 0);
  TarnBlock *block = take (pool, 1);

  (void) unused;
  for (guint kind = 0; kind < G_N_ELEMENTS (w->pages); kind++)
    {
      g_autoptr (TarnPool) over_heap = new_heap_pool (w, kind, 0);

      count_aligned (over_heap, w->pages[kind]);
    }
  tarn_block_free (block);
  g_assert_null (tarn_pool_allocate_aligned (pool, 1, 1 << 30, NULL, NULL));
  g_assert_cmpuint (count_requests (pool), ==, 2);
}

#define ADD(path, func) g_test_add ("/core/handles/" path, World, NULL, set_up, func, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("references", test_references);
  ADD ("references/no-pool", test_references_without_pool);
  ADD ("references/not-in-use", test_not_in_use);
  ADD ("references/threads", test_reference_threads);
  ADD ("find", test_find);
  ADD ("find/hits", test_find_hits);
  ADD ("find/hide", test_hide);
  ADD ("find/not-findable", test_not_findable);
  ADD ("find/flags", test_unknown_flags);
  ADD ("find/bare", test_find_bare);
  ADD ("find/threads", test_find_threads);
  ADD ("aligned", test_aligned);
  ADD ("aligned/debugged", test_aligned_debugged);
  ADD ("aligned/bytes", test_aligned_bytes);
  ADD ("aligned/refused", test_aligned_refused);
  ADD ("aligned/counted", test_aligned_counted);
  return g_test_run ();
}
