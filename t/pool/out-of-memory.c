/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What happens when memory runs out: who is asked, in which order, how often, and what comes of
 * it.  Sizes such as 1023 are the largest of their bins, so that rounding adds nothing. */

#include <string.h>

#include "common/lock-private.h"
#include "lib/pool-fixture.h"
#include "pool/pool-private.h"

typedef PoolFixture Fixture;

static void
set_up (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  pool_fixture_init (fixture, 0);
}

/* Fills the device with held blocks of the given sizes, in a device of exactly that size. */
static void
hold (Fixture *fixture, const gsize *sizes, guint n)
{
  gsize total = 0;

  for (guint i = 0; i < n; i++)
    total += sizes[i];
  tarn_testing_device_set_budget (fixture->device, total);
  pool_hold (fixture->pool, sizes, n);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (fixture->pool), ==, total);
}

/* Reclaim functions */

static gboolean
log_upstream (gpointer data)
{
  g_string_append_c (data, 'U');
  return FALSE;
}

static gboolean
log_a (TarnPool *pool, gsize wanted, gpointer data)
{
  (void) pool;
  g_assert_cmpuint (wanted, ==, 1023);
  g_string_append_c (data, 'A');
  return FALSE;
}

static gboolean
log_b (TarnPool *pool, gsize wanted, gpointer data)
{
  (void) pool;
  (void) wanted;
  g_string_append_c (data, 'B');
  return TRUE;
}

static void
log_gone (gpointer data)
{
  g_string_append_c (data, '.');
}

static void
test_reclaim_order (Fixture *fixture, gconstpointer unused)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  guint a, b;

  (void) unused;
  tarn_testing_device_set_reclaim (fixture->device, log_upstream, fixture->log);
  a = tarn_pool_add_reclaim_func (fixture->pool, log_a, fixture->log, log_gone);
  assert_fails (fixture->pool, 1023, TARN_ERROR_OUT_OF_MEMORY);
  g_assert_cmpstr (fixture->log->str, ==, "UA");
  g_assert_cmpuint (tarn_testing_device_get_allocate_calls (fixture->device), ==, 1);

  b = tarn_pool_add_reclaim_func (fixture->pool, log_b, fixture->log, log_gone);
  g_assert_cmpuint (a, !=, 0);
  g_assert_cmpuint (a, !=, b);
  assert_fails (fixture->pool, 1023, TARN_ERROR_OUT_OF_MEMORY);
  g_assert_cmpstr (fixture->log->str, ==, "UAUAB");
  g_assert_cmpuint (tarn_testing_device_get_allocate_calls (fixture->device), ==, 3);

  g_assert_true (tarn_pool_remove_reclaim_func (fixture->pool, a));
  g_assert_false (tarn_pool_remove_reclaim_func (fixture->pool, a));
  assert_fails (fixture->pool, 1023, TARN_ERROR_OUT_OF_MEMORY);
  g_assert_cmpstr (fixture->log->str, ==, "UAUAB.UB");
  tarn_pool_get_stats (fixture->pool, &stats);
  g_assert_cmpuint (stats.reclaims, ==, 3);
  g_assert_cmpuint (stats.upstream_failures, ==, 5);
  tarn_pool_unref (g_steal_pointer (&fixture->pool));
  g_assert_cmpstr (fixture->log->str, ==, "UAUAB.UB.");
}

typedef struct
{
  TarnBlock *blocks[2];
  guint n_calls;
} Cache;

static gboolean
empty_cache (TarnPool *pool, gsize wanted, gpointer data)
{
  Cache *cache = data;

  (void) pool;
  (void) wanted;
  cache->n_calls++;
  if (cache->blocks[0] == NULL)
    return FALSE;
  tarn_block_free (g_steal_pointer (&cache->blocks[0]));
  return TRUE;
}

/* What a reclaim function frees in the very pool that asks is found in the pool's bins. */
static void
test_reclaim_same_pool (Fixture *fixture, gconstpointer unused)
{
  Cache cache = { { NULL, NULL }, 0 };
  TarnBlock *block;

  (void) unused;
  tarn_testing_device_set_budget (fixture->device, 1023);
  cache.blocks[0] = block = allocate (fixture->pool, 1023);
  tarn_pool_add_reclaim_func (fixture->pool, empty_cache, &cache, NULL);
  g_assert_true (allocate (fixture->pool, 1000) == block);
  g_assert_cmpuint (cache.n_calls, ==, 1);
  g_assert_cmpuint (tarn_testing_device_get_allocate_calls (fixture->device), ==, 3);
  tarn_block_free (block);

  /* And of another bin: given back. */
  cache.blocks[0] = allocate (fixture->pool, 1023);
  block = allocate (fixture->pool, 511);
  tarn_block_free (block);
}

static gboolean
allocate_more (TarnPool *pool, gsize wanted, gpointer data)
{
  Cache *cache = data;

  g_assert_cmpuint (wanted, ==, 1023);
  cache->n_calls++;
  assert_fails (pool, 511, TARN_ERROR_OUT_OF_MEMORY);
  return FALSE;
}

static void
test_reclaim_is_not_nested (Fixture *fixture, gconstpointer unused)
{
  Cache cache = { { NULL, NULL }, 0 };

  (void) unused;
  tarn_testing_device_set_reclaim (fixture->device, log_upstream, fixture->log);
  tarn_pool_add_reclaim_func (fixture->pool, allocate_more, &cache, NULL);
  assert_fails (fixture->pool, 1023, TARN_ERROR_OUT_OF_MEMORY);
  g_assert_cmpuint (cache.n_calls, ==, 1);
  g_assert_cmpstr (fixture->log->str, ==, "U");
  assert_fails (fixture->pool, 1023, TARN_ERROR_OUT_OF_MEMORY);
  g_assert_cmpuint (cache.n_calls, ==, 2);
}

typedef struct
{
  guint first, second;
  gboolean is_running;
  GString *log;
} Removal;

static gboolean
remove_both (TarnPool *pool, gsize wanted, gpointer data)
{
  Removal *removal = data;

  (void) wanted;
  removal->is_running = TRUE;
  g_assert_true (tarn_pool_remove_reclaim_func (pool, removal->first));
  g_assert_true (tarn_pool_remove_reclaim_func (pool, removal->second));
  removal->is_running = FALSE;
  return FALSE;
}

static void
removed (gpointer data)
{
  Removal *removal = data;

  g_assert_false (removal->is_running);
  g_string_append_c (removal->log, 'x');
}

/* A function may remove itself and one that is still to be asked, which is then not asked. */
static void
test_remove_while_asked (Fixture *fixture, gconstpointer unused)
{
  Removal removal = { 0, 0, FALSE, fixture->log };

  (void) unused;
  removal.first = tarn_pool_add_reclaim_func (fixture->pool, remove_both, &removal, removed);
  removal.second = tarn_pool_add_reclaim_func (fixture->pool, log_a, fixture->log, NULL);
  assert_fails (fixture->pool, 1023, TARN_ERROR_OUT_OF_MEMORY);
  g_assert_cmpstr (fixture->log->str, ==, "x");
}

static void
cache_gone (gpointer data)
{
  Cache *cache = data;

  tarn_block_free (g_steal_pointer (&cache->blocks[0]));
  tarn_block_free (g_steal_pointer (&cache->blocks[1]));
}

/* A cache that a reclaim function owns holds blocks of the pool: the last reference ends both. */
static void
test_reclaim_owns_blocks (Fixture *fixture, gconstpointer unused)
{
  Cache cache = { { NULL, NULL }, 0 };

  (void) unused;
  tarn_testing_device_set_budget (fixture->device, 4096);
  cache.blocks[0] = allocate (fixture->pool, 1023);
  cache.blocks[1] = allocate (fixture->pool, 1023);
  tarn_pool_add_reclaim_func (fixture->pool, empty_cache, &cache, cache_gone);
  tarn_pool_unref (g_steal_pointer (&fixture->pool));
  g_assert_null (cache.blocks[0]);
  g_assert_cmpuint (tarn_testing_device_get_live (fixture->device), ==, 0);
}

/* Giving back */

static void
test_few_driver_calls (Fixture *fixture, gconstpointer unused)
{
  gsize sizes[100];
  TarnBlock *block;

  (void) unused;
  for (guint i = 0; i < 100; i++)
    sizes[i] = 1023;
  hold (fixture, sizes, 100);
  block = allocate (fixture->pool, 32767);
  g_assert_cmpuint (tarn_testing_device_get_allocate_calls (fixture->device), <=, 100 + 2);
  g_assert_cmpuint (tarn_testing_device_get_free_calls (fixture->device), ==, 33);
  g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), ==, 67);
  tarn_block_free (block);
}

static void
test_largest_first (Fixture *fixture, gconstpointer unused)
{
  static const gsize sizes[] = { 1023, 8191, 2047, 4095 };
  TarnBlock *block;

  (void) unused;
  hold (fixture, sizes, 4);
  block = allocate (fixture->pool, 6143);
  g_assert_cmpuint (tarn_testing_device_get_free_calls (fixture->device), ==, 1);
  g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), ==, 3);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (fixture->pool), ==, 6143 + 1023 + 2047 + 4095);
  tarn_block_free (block);
}

static void
test_exact_size_last (Fixture *fixture, gconstpointer unused)
{
  static const gsize sizes[] = { 255, 511 };
  TarnBlock *block;

  (void) unused;
  hold (fixture, sizes, 2);
  tarn_testing_device_set_budget (fixture->device, 1000);
  block = allocate (fixture->pool, 1000);
  g_assert_cmpuint (tarn_block_get_alloc_size (block), ==, 1000);
  g_assert_cmpuint (tarn_testing_device_get_last_size (fixture->device), ==, 1000);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (fixture->pool), ==, 1000);
  tarn_block_free (block);
  g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), ==, 0);
  g_assert_cmpuint (tarn_testing_device_get_live (fixture->device), ==, 0);
}

/* An error that is not out-of-memory gives nothing back. */
static void
test_too_large (Fixture *fixture, gconstpointer unused)
{
  static const gsize sizes[] = { 255, 511 };
  TarnBlock *block;

  (void) unused;
  hold (fixture, sizes, 2);
  tarn_testing_device_set_budget (fixture->device, 10000);
  tarn_testing_device_set_max_size (fixture->device, 2048);
  block = allocate (fixture->pool, 2048);
  g_assert_cmpuint (tarn_block_get_alloc_size (block), ==, 2048);
  g_assert_cmpuint (tarn_testing_device_get_allocate_calls (fixture->device), <=, 2 + 2);
  tarn_block_free (block);

  assert_fails (fixture->pool, 2049, TARN_ERROR_NOT_SUPPORTED);
  g_assert_cmpuint (tarn_testing_device_get_allocate_calls (fixture->device), <=, 4 + 2);
  g_assert_cmpuint (tarn_testing_device_get_last_size (fixture->device), ==, 2049);
  g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), ==, 2);
}

/* Too large when rounded, out of memory when not: then held blocks make room for the exact size. */
static void
test_too_large_and_full (Fixture *fixture, gconstpointer unused)
{
  static const gsize sizes[] = { 1023, 511 };
  TarnBlock *block;

  (void) unused;
  hold (fixture, sizes, 2);
  tarn_testing_device_set_budget (fixture->device, 2048);
  tarn_testing_device_set_max_size (fixture->device, 2048);
  block = allocate (fixture->pool, 2048);
  g_assert_cmpuint (tarn_block_get_alloc_size (block), ==, 2048);
  g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), ==, 0);
  tarn_block_free (block);
}

/* Without a pool */

static gboolean
give_budget (gpointer data)
{
  tarn_testing_device_set_budget (data, 1000);
  return TRUE;
}

static void
test_direct (Fixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (fixture->device);
  g_autoptr (GError) error = NULL;
  TarnBlock *block;
  guint n_calls;

  (void) unused;
  g_assert_null (tarn_allocator_allocate (allocator, 1000, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
  n_calls = tarn_testing_device_get_allocate_calls (fixture->device);
  g_assert_cmpuint (n_calls, <=, 2);
  g_clear_error (&error);

  tarn_testing_device_set_reclaim (fixture->device, give_budget, fixture->device);
  block = tarn_allocator_allocate (allocator, 1000, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (tarn_testing_device_get_allocate_calls (fixture->device), ==, n_calls + 2);
  tarn_block_free (block);

  tarn_testing_device_set_max_size (fixture->device, 10);
  g_assert_null (tarn_allocator_allocate (allocator, 11, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
  g_assert_cmpuint (tarn_testing_device_get_allocate_calls (fixture->device), ==, n_calls + 2 + 1);
}

/* A reclaim function frees a block of the very pool, and the allocator finds room elsewhere: what
 * was active before and what is after were never active together. */
static gboolean
free_block (TarnPool *pool, gsize wanted, gpointer block)
{
  (void) pool;
  (void) wanted;
  tarn_block_free (g_steal_pointer ((TarnBlock **) block));
  return TRUE;
}

static gboolean
give_much (gpointer device)
{
  tarn_testing_device_set_budget (device, 10000);
  return TRUE;
}

static void
test_peak (Fixture *fixture, gconstpointer unused)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  TarnBlock *first, *second;

  (void) unused;
  tarn_testing_device_set_budget (fixture->device, 2000);
  tarn_block_free (allocate (fixture->pool, 1));
  first = allocate (fixture->pool, 1023);
  tarn_testing_device_set_reclaim (fixture->device, give_much, fixture->device);
  tarn_pool_add_reclaim_func (fixture->pool, free_block, &first, NULL);
  second = allocate (fixture->pool, 1087);
  g_assert_null (first);
  tarn_block_free (allocate (fixture->pool, 1));
  tarn_pool_get_stats (fixture->pool, &stats);
  g_assert_cmpuint (stats.peak_active_bytes, ==, 1088);
  tarn_block_free (second);
}

/* Threads */

/* Called where a thread gives back: it does not go on before another one has run out of memory. */
static void
await_failure (gpointer data)
{
  Fixture *fixture = data;

  while (tarn_testing_device_get_allocate_calls (fixture->device) < 2)
    g_thread_yield ();
}

static gpointer
free_held (gpointer data)
{
  Fixture *fixture = data;

  tarn_pool_free_held (fixture->pool);
  return NULL;
}

/* What another thread is giving back at this moment is as good as free. */
static void
test_wait_for_give_back (Fixture *fixture, gconstpointer unused)
{
  static const gsize sizes[] = { 1023 };
  TarnBlock *block;
  GThread *thread;

  (void) unused;
  hold (fixture, sizes, 1);
  tarn_testing_device_set_free_hook (fixture->device, await_failure, fixture);
  thread = g_thread_new ("free-held", free_held, fixture);
  while (tarn_pool_get_held_blocks (fixture->pool) > 0)
    g_thread_yield ();
  block = allocate (fixture->pool, 511);
  g_thread_join (thread);
  tarn_block_free (block);
}

/* A free function that allocates from the pool does not wait for itself. */
static void
allocate_in_free (gpointer data)
{
  Fixture *fixture = data;

  tarn_testing_device_set_free_hook (fixture->device, NULL, NULL);
  assert_fails (fixture->pool, 511, TARN_ERROR_OUT_OF_MEMORY);
  g_string_append_c (fixture->log, 'F');
}

static void
test_allocate_in_free (Fixture *fixture, gconstpointer unused)
{
  static const gsize sizes[] = { 1023 };

  (void) unused;
  hold (fixture, sizes, 1);
  tarn_testing_device_set_free_hook (fixture->device, allocate_in_free, fixture);
  tarn_pool_free_held (fixture->pool);
  g_assert_cmpstr (fixture->log->str, ==, "F");
}

/* What is given back is replaced at once, as if other threads were busy: a request that can never
 * be served comes to an end all the same. */
static void
hold_another (gpointer data)
{
  Fixture *fixture = data;

  tarn_block_free (allocate (fixture->pool, 511));
}

static void
test_busy_pool (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  tarn_testing_device_set_budget (fixture->device, 4096);
  tarn_block_free (allocate (fixture->pool, 511));
  tarn_testing_device_set_free_hook (fixture->device, hold_another, fixture);
  assert_fails (fixture->pool, 8191, TARN_ERROR_OUT_OF_MEMORY);
  g_assert_cmpuint (tarn_testing_device_get_allocate_calls (fixture->device), <, 1000);
  tarn_testing_device_set_free_hook (fixture->device, NULL, NULL);
}

#define N_THREADS 4
#define LARGEST 65535 /* of its bin, too */

typedef struct
{
  TarnPool *pool;
  guint32 seed;
} Worker;

static gpointer
allocate_in_turn (gpointer data)
{
  Worker *worker = data;
  g_autoptr (GRand) rand = g_rand_new_with_seed (worker->seed);

  for (guint i = 0; i < 2000; i++)
    {
      g_autoptr (GError) error = NULL;
      gsize size = (gsize) g_rand_int_range (rand, 1024, LARGEST + 1);
      TarnBlock *block = tarn_pool_allocate (worker->pool, size, &error);

      g_assert_no_error (error);
      tarn_block_free (block);
    }
  return NULL;
}

/* Each thread uses at most its share of a device that has room for the shares and no byte more:
 * whatever others hold and give back meanwhile, no request fails. */
static void
test_shares (Fixture *fixture, gconstpointer unused)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  GThread *threads[N_THREADS];
  Worker workers[N_THREADS];

  (void) unused;
  tarn_testing_device_set_budget (fixture->device, N_THREADS * LARGEST);
  for (guint i = 0; i < N_THREADS; i++)
    {
      workers[i] = (Worker){ fixture->pool, g_test_rand_int () };
      threads[i] = g_thread_new ("share", allocate_in_turn, &workers[i]);
    }
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  tarn_pool_get_stats (fixture->pool, &stats);
  g_test_message ("%" G_GUINT64_FORMAT " requests were out of memory", stats.reclaims);
  g_assert_cmpuint (stats.reclaims, >, 0);
  g_assert_cmpuint (stats.failures, ==, 0);
}

/* Of Tarn's own errors two say that there is too little memory; another domain's do not, whatever
 * their numbers. */
static void
test_is_no_memory (void)
{
  g_assert_false (tarn_error_is_no_memory (NULL));
  for (gint code = TARN_ERROR_OUT_OF_MEMORY; code <= TARN_ERROR_FAILED; code++)
    {
      g_autoptr (GError) own = g_error_new_literal (TARN_ERROR, code, "own");
      g_autoptr (GError) other = g_error_new_literal (G_FILE_ERROR, code, "other");

      g_assert_cmpint (tarn_error_is_no_memory (own), ==,
                       code == TARN_ERROR_OUT_OF_MEMORY || code == TARN_ERROR_LIMIT);
      g_assert_false (tarn_error_is_no_memory (other));
    }
}

int
main (int argc, char **argv)
{
#define ADD(path, func)                                                                            \
  g_test_add ("/core/out-of-memory/" path, Fixture, NULL, set_up, func, pool_fixture_tear_down)
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/core/out-of-memory/is-no-memory", test_is_no_memory);
  ADD ("reclaim-order", test_reclaim_order);
  ADD ("reclaim-same-pool", test_reclaim_same_pool);
  ADD ("peak", test_peak);
  ADD ("reclaim-is-not-nested", test_reclaim_is_not_nested);
  ADD ("remove-while-asked", test_remove_while_asked);
  ADD ("reclaim-owns-blocks", test_reclaim_owns_blocks);
  ADD ("few-driver-calls", test_few_driver_calls);
  ADD ("largest-first", test_largest_first);
  ADD ("exact-size-last", test_exact_size_last);
  ADD ("too-large", test_too_large);
  ADD ("too-large-and-full", test_too_large_and_full);
  ADD ("direct", test_direct);
  ADD ("wait-for-give-back", test_wait_for_give_back);
  ADD ("allocate-in-free", test_allocate_in_free);
  ADD ("busy-pool", test_busy_pool);
  ADD ("shares", test_shares);
  return g_test_run ();
}
