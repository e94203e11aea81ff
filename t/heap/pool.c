/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Pools over heaps: they cache little, and nothing while the heap would have to grow. */

#include "heap-fixture.h"
#include "lib/pool-fixture.h"
#include "pool/pool-private.h"

#define N_THREADS 8
#define HALF (512 * KIB)

static TarnPool *
pool_new (TarnAllocator *upstream, gsize hold_bytes, guint thread_cache_blocks)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;

  options.hold_bytes = hold_bytes;
  options.thread_cache_blocks = thread_cache_blocks;
  return tarn_pool_new (upstream, &options, NULL);
}

/* So many sizes, the least and a little more each. */
typedef struct
{
  gsize least, step;
  guint n;
} Sizes;

static gsize
get_size (const Sizes *sizes, guint i)
{
  return sizes->least + i * sizes->step;
}

/* Sizes that a pool holds blocks of, together far more than it may. */
static const Sizes *
get_sizes (const HeapFixture *fixture)
{
  static const Sizes of_virtual = { HALF, 4 * KIB, 100 }, of_parts = { 32 * KIB, 32, 1000 };

  return fixture->is_virtual ? &of_virtual : &of_parts;
}

/* Takes and frees blocks of these sizes. */
static void
hold (TarnPool *pool, const Sizes *sizes)
{
  g_autofree TarnBlock **blocks = g_new (TarnBlock *, sizes->n);

  for (guint i = 0; i < sizes->n; i++)
    blocks[i] = allocate (pool, get_size (sizes, i));
  for (guint i = 0; i < sizes->n; i++)
    tarn_block_free (blocks[i]);
  assert_valid (pool);
}

/* What was held for longest has gone. */
static void
test_bound (HeapFixture *fixture, gconstpointer unused)
{
  const Sizes *sizes = get_sizes (fixture);
  g_autoptr (TarnPool) pool = pool_new (fixture->heap, 0, 0);
  TarnPoolStats stats;

  (void) unused;
  hold (pool, sizes);
  stats = get_stats (pool);
  g_assert_cmpuint (stats.held_bytes, <=, 8 * MIB);
  g_assert_cmpuint (stats.held_bytes, >=, 6 * MIB);
  for (guint i = sizes->n - (guint) stats.held_blocks; i < sizes->n; i++)
    tarn_block_free (allocate (pool, get_size (sizes, i)));
  g_assert_cmpuint (get_stats (pool).hits, ==, stats.hits + stats.held_blocks);
  g_assert_cmpuint (get_stats (pool).misses, ==, stats.misses);
  tarn_block_free (allocate (pool, sizes->least));
  g_assert_cmpuint (get_stats (pool).misses, ==, stats.misses + 1);
}

/* What is used again has not been held for long. */
static void
test_used_again (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = pool_new (fixture->heap, 10 * MIB, 0);
  guint64 misses;

  (void) unused;
  hold (pool, &(Sizes){ MIB, 4 * KIB, 8 });
  tarn_block_free (allocate (pool, MIB));
  misses = get_stats (pool).misses;
  tarn_block_free (allocate (pool, 4 * MIB)); /* two go */
  g_assert_cmpuint (get_stats (pool).misses, ==, misses + 1);
  tarn_block_free (allocate (pool, MIB));
  g_assert_cmpuint (get_stats (pool).misses, ==, misses + 1);
  tarn_block_free (allocate (pool, MIB + 4 * KIB));
  g_assert_cmpuint (get_stats (pool).misses, ==, misses + 2);
}

/* A two-hundredth, where that is more. */
static void
test_share (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = pool_new (fixture->heap, 0, 0);
  gsize bytes = (gsize) MIN ((guint64) 4 * GIB, G_MAXSIZE / 2 - MIB);
  TarnBlock *large = allocate (pool, bytes);

  (void) unused;
  hold (pool, get_sizes (fixture));
  g_assert_cmpuint (get_stats (pool).held_bytes, <=, bytes / 195);
  g_assert_cmpuint (get_stats (pool).held_bytes, >, bytes / 256);
  tarn_block_free (large); /* which is too much itself */
  g_assert_cmpuint (get_stats (pool).held_bytes, <=, 8 * MIB);
}

static void
test_hold_bytes (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = pool_new (fixture->heap, 5 * MIB, 0);
  g_autoptr (TarnPool) endless = pool_new (fixture->heap, G_MAXSIZE, 0);

  (void) unused;
  hold (pool, &(Sizes){ MIB, 4 * KIB, 100 });
  g_assert_cmpuint (get_stats (pool).held_bytes, <=, 5 * MIB);
  g_assert_cmpuint (get_stats (pool).held_bytes, >=, 3 * MIB);
  hold (endless, &(Sizes){ MIB, 4 * KIB, 100 });
  g_assert_cmpuint (get_stats (endless).held_blocks, ==, 100);
}

/* Sizes of blocks that threads keep are rounded a little, and no others. */
static void
test_exact (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = tarn_pool_new (fixture->heap, NULL, NULL);

  (void) unused;
  for (gsize size = 1; size < 64 * MIB; size = size * 3 + 1)
    {
      TarnBlock *block = allocate (pool, size);

      g_assert_cmpuint (tarn_block_get_alloc_size (block), >=, size);
      if (size > 256 * KIB || !pool->has_arenas)
        g_assert_cmpuint (tarn_block_get_alloc_size (block), ==, size);
      else
        g_assert_cmpuint (tarn_block_get_alloc_size (block), <=, size + MAX (size / 8, 512));
      tarn_block_free (block);
    }
}

/* What the time is where a test sets it. */
static gint64 test_time = G_TIME_SPAN_SECOND;

static gint64
get_test_time (void)
{
  return test_time;
}

static void
pass_seconds (guint seconds)
{
  test_time += seconds * G_TIME_SPAN_SECOND;
}

/* What nobody has used for seconds goes back as others go on, all the way, and what threads keep as
 * well. */
static void
test_expire (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = pool_new (fixture->heap, 0, 32);

  (void) unused;
  tarn_clock_set (get_test_time);
  tarn_block_free (allocate (pool, 8 * MIB)); /* so that the heap need not grow */
  hold (pool, &(Sizes){ 32 * KIB, 32, 8 });
  tarn_block_free (allocate (pool, 64 * KIB)); /* which this thread keeps */
  pass_seconds (9);
  tarn_block_free (allocate (pool, 3 * MIB));
  g_assert_cmpuint (get_stats (pool).held_blocks, >, 4);
  for (guint i = 0; i < 4; i++)
    {
      pass_seconds (11);
      for (guint j = 0; j < 300; j++) /* one of so many requests looks after the pool */
        tarn_block_free (allocate (pool, 5 * MIB));
      assert_valid (pool);
    }
  g_assert_cmpuint (get_stats (pool).held_blocks, <=, 1);
  g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, <=, 16 * MIB);
  heap_assert_valid (fixture);
  tarn_clock_set (NULL);
}

/* Counts the bins of a table that have blocks. */
static guint
count_filled (const TarnBins *bins)
{
  return g_hash_table_size (bins->table) - bins->n_empty;
}

/* A pool forgets the sizes that do not come again. */
static void
check_sizes (HeapFixture *fixture, guint thread_cache_blocks)
{
  g_autoptr (TarnPool) pool = pool_new (fixture->heap, 0, thread_cache_blocks);
  Sizes sizes = { 32 * KIB, fixture->is_virtual ? 512 : 32, 20 };
  guint n;

  for (guint i = 0; i < 50; i++, sizes.least += sizes.n * sizes.step)
    hold (pool, &sizes);
  n = g_hash_table_size (pool->store.idle_bins->table);
  if (!pool->has_arenas) /* else it has no bins for them */
    g_assert_cmpuint (n, >=, sizes.n);
  g_assert_cmpuint (n, <=, count_filled (pool->store.idle_bins) + 256);
}

static void
test_sizes (HeapFixture *fixture, gconstpointer unused)
{
  (void) unused;
  check_sizes (fixture, 0);
  check_sizes (fixture, 32);
}

/* Where the heap makes parts, what is larger than 64 KiB goes back at once, unless the program says
 * how much is to be held, or a thread has temporaries of the size. */
static void
test_large (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = pool_new (fixture->heap, 0, 0);
  g_autoptr (TarnPool) holding = pool_new (fixture->heap, 5 * MIB, 0);

  g_autoptr (TarnPool) keeping = tarn_pool_new (fixture->heap, NULL, NULL);
  TarnBlock *blocks[2] = { allocate (pool, 64 * KIB), allocate (pool, 64 * KIB + 1) };

  (void) unused;
  for (guint i = 0; i < 2; i++)
    tarn_block_free (blocks[i]);
  g_assert_cmpuint (get_stats (pool).held_blocks, ==, fixture->is_virtual ? 2 : 1);
  for (guint i = 0; i < 10; i++)
    tarn_block_free (allocate (keeping, HALF));
  g_assert_cmpuint (get_stats (keeping).served_without_driver, >=, fixture->is_virtual ? 9 : 8);
  if (!keeping->has_arenas) /* else the heap serves them as quickly */
    g_assert_cmpuint (get_stats (keeping).hits, ==, fixture->is_virtual ? 9 : 8);
  tarn_block_free (allocate (holding, MIB + 1));
  g_assert_cmpuint (get_stats (holding).held_blocks, ==, 1);
}

/* What the pool holds is joined before the heap takes more, threads' caches included. */
static void
test_joined_first (HeapFixture *fixture, gconstpointer unused)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  gboolean is_virtual = fixture->is_virtual;
  guint n = is_virtual ? 10 : 64;
  guint n_wholes = is_virtual ? 1 : 17; /* more than what the thread does not keep */
  TarnBlock *blocks[64], *wholes[17];
  guint64 n_allocations;
  TarnPool *pool;

  (void) unused;
  options.growth_bytes = is_virtual ? 10 * MIB : 2 * MIB;
  heap_renew (fixture, &options);
  pool = tarn_pool_new (fixture->heap, NULL, NULL);
  for (guint i = 0; i < n; i++)
    blocks[i] = allocate (pool, is_virtual ? HALF : 32 * KIB);
  for (guint i = 0; i < n; i++)
    tarn_block_free (blocks[i]);
  g_assert_cmpuint (get_stats (pool).held_blocks, ==, is_virtual ? 0 : n / 2);
  n_allocations = heap_get_stats (fixture).driver_calls;
  for (guint i = 0; i < n_wholes; i++)
    wholes[i] = allocate (pool, is_virtual ? 9 * MIB : 64 * KIB);
  g_assert_cmpuint (heap_get_stats (fixture).driver_calls, ==, n_allocations);
  g_assert_cmpuint (get_stats (pool).held_blocks, ==, 0);
  for (guint i = 0; i < n_wholes; i++)
    tarn_block_free (wholes[i]);
  tarn_pool_unref (pool);
}

/* Over another allocator. */
static void
test_device (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  TarnAllocator *allocator = tarn_testing_device_allocator_new (device);
  TarnPool *bounded = pool_new (allocator, 5 * MIB, 0), *usual = pool_new (allocator, 0, 0);

  hold (bounded, &(Sizes){ MIB, 4 * KIB, 20 });
  g_assert_cmpuint (get_stats (bounded).held_bytes, <=, 5 * MIB);
  hold (usual, &(Sizes){ MIB, 4 * KIB, 20 });
  g_assert_cmpuint (get_stats (usual).held_blocks, ==, 20);
  tarn_pool_unref (bounded);
  tarn_pool_unref (usual);
  tarn_allocator_unref (allocator);
}

typedef struct
{
  TarnPool *pool;
  guint32 seed;
} Thread;

static gpointer
run_thread (gpointer data)
{
  Thread *thread = data;
  g_autoptr (GRand) random = g_rand_new_with_seed (thread->seed);
  TarnBlock *blocks[10] = { NULL };

  for (guint i = 0; i < 5000; i++)
    {
      TarnBlock **block = &blocks[g_rand_int_range (random, 0, 10)];

      if (*block == NULL)
        *block = tarn_pool_allocate (
            thread->pool,
            (gsize) g_rand_int_range (random, 1, 10) << g_rand_int_range (random, 8, 20), NULL);
      else
        g_clear_pointer (block, tarn_block_free);
    }
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    tarn_block_free (blocks[i]);
  return NULL;
}

static void
test_threads (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = tarn_pool_new (fixture->heap, NULL, NULL);
  Thread threads[N_THREADS];
  GThread *running[N_THREADS];

  (void) unused;
  tarn_testing_pages_set_budget (fixture->pages, 256 * MIB);
  for (guint i = 0; i < N_THREADS; i++)
    {
      threads[i] = (Thread){ pool, (guint32) g_test_rand_int () };
      running[i] = g_thread_new ("user", run_thread, &threads[i]);
    }
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (running[i]);
  assert_valid (pool);
  heap_assert_valid (fixture);
  g_assert_cmpuint (get_stats (pool).active_blocks, ==, 0);
  g_assert_cmpuint (get_stats (pool).held_bytes, <=, (8 + 5 * N_THREADS) * MIB);
  g_assert_cmpuint (heap_get_stats (fixture).used_bytes, >=, get_stats (pool).held_bytes);
}

/* Counts the device's calls for memory while a pool serves requests whose sizes vary, some of which
 * fail. */
static void
use_and_count (HeapFixture *fixture, TarnPool *pool, guint64 *n_without, guint64 *n_calls)
{
  TarnBlock *blocks[10] = { NULL };

  for (guint i = 0; i < 300; i++)
    {
      TarnBlock **block = &blocks[g_test_rand_int_range (0, G_N_ELEMENTS (blocks))];
      gsize size = (gsize) g_test_rand_int_range (1, 10) << g_test_rand_int_range (8, 22);
      guint64 before = heap_get_stats (fixture).driver_calls;

      if (i % 100 == 50)
        tarn_testing_pages_fail (fixture->pages, 1, FALSE);
      g_clear_pointer (block, tarn_block_free);
      *block = tarn_pool_allocate (pool, size, NULL);
      *n_calls += heap_get_stats (fixture).driver_calls - before;
      *n_without += *block != NULL && heap_get_stats (fixture).driver_calls == before;
    }
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    tarn_block_free (blocks[i]);
}

/* A pool counts its driver calls right: requests that the heap serves and requests of another pool
 * do not count. */
static void
test_driver_calls (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = tarn_pool_new (fixture->heap, NULL, NULL);
  g_autoptr (TarnPool) other = tarn_pool_new (fixture->heap, NULL, NULL);
  g_autoptr (TarnPool) above = tarn_pool_new (TARN_ALLOCATOR (other), NULL, NULL);
  guint64 n_without = 0, n_calls = 0, n_of_other = 0, n_without_other = 0;
  TarnPoolStats stats;

  (void) unused;
  tarn_testing_pages_set_budget (fixture->pages, 128 * MIB);
  use_and_count (fixture, pool, &n_without, &n_calls);
  use_and_count (fixture, above, &n_without_other, &n_of_other);
  stats = get_stats (pool);
  g_assert_cmpuint (stats.driver_calls, ==, n_calls);
  g_assert_cmpuint (stats.served_without_driver, ==, n_without);
  g_assert_cmpuint (stats.served_without_driver, >=, stats.hits);
  g_assert_cmpuint (get_stats (above).driver_calls, ==, n_of_other);
  g_assert_cmpuint (get_stats (above).served_without_driver, ==, n_without_other);
  g_assert_cmpuint (get_stats (other).driver_calls, ==, n_of_other);
  g_assert_cmpuint (heap_get_stats (fixture).driver_calls, ==, n_calls + n_of_other);
}

/* Many pools over a heap, each with few blocks in use: together they cache no more than they use.
 */
static void
test_many_pools (HeapFixture *fixture, gconstpointer unused)
{
  TarnPool *pools[64];
  TarnBlock *blocks[G_N_ELEMENTS (pools)][8] = { { NULL } };
  TarnHeapStats stats;
  guint32 chance = 1;

  (void) unused;
  for (guint i = 0; i < G_N_ELEMENTS (pools); i++)
    pools[i] = tarn_pool_new (fixture->heap, NULL, NULL);
  for (guint i = 0; i < 150 * G_N_ELEMENTS (pools); i++)
    {
      guint pool = i % G_N_ELEMENTS (pools), slot = i / G_N_ELEMENTS (pools) % 8;

      chance = chance * 1664525 + 1013904223;
      tarn_block_free (blocks[pool][slot]);
      blocks[pool][slot]
          = allocate (pools[pool], (gsize) (256 + (chance >> 16) % 256) << (chance >> 24) % 12);
    }
  stats = heap_get_stats (fixture);
  for (guint i = 0; i < G_N_ELEMENTS (pools); i++)
    {
      TarnPoolStats of_pool = get_stats (pools[i]);

      assert_valid (pools[i]);
      g_assert_cmpuint (of_pool.held_bytes, <=, MIB / 2);
      for (guint slot = 0; slot < G_N_ELEMENTS (blocks[i]); slot++)
        tarn_block_free (blocks[i][slot]);
      tarn_pool_unref (pools[i]);
    }
  g_assert_cmpuint (stats.peak_used_bytes, <=, 100 * MIB);
  g_assert_cmpuint (_tarn_heap_count_pools (_tarn_heap_of (fixture->heap)), ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  heap_add ("pool/driver-calls", test_driver_calls);
  heap_add ("pool/bound", test_bound);
  heap_add ("pool/used-again", test_used_again);
  heap_add ("pool/share", test_share);
  heap_add ("pool/hold-bytes", test_hold_bytes);
  heap_add ("pool/exact", test_exact);
  heap_add ("pool/large", test_large);
  heap_add ("pool/sizes", test_sizes);
  heap_add ("pool/expire", test_expire);
  heap_add ("pool/joined-first", test_joined_first);
  heap_add ("pool/threads", test_threads);
  heap_add ("pool/many", test_many_pools);
  g_test_add_func ("/core/heap/pool/device", test_device);
  return g_test_run ();
}
