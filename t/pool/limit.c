/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The limit of a pool: which memory the pool returns, and whom it asks, before it refuses a
 * request.  Sizes such as 1023 are the largest of their bins, so that rounding adds nothing. */

#include <time.h>

#include "lib/pool-fixture.h"
#include "pool/pool-private.h"

#define LIMIT 4096

typedef PoolFixture Fixture;

static void
set_up (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  pool_fixture_init_limited (fixture, LIMIT);
}

static void
hold (Fixture *fixture, const gsize *sizes, guint n)
{
  pool_hold (fixture->pool, sizes, n);
  g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), ==, n);
}

/* Upstream is left alone, and the message says it all. */
static void
test_refused (Fixture *fixture, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *blocks[3];
  TarnPoolStats stats;

  (void) unused;
  for (guint i = 0; i < 3; i++)
    blocks[i] = allocate (fixture->pool, 1000);
  tarn_block_free (allocate (fixture->pool, 100));
  g_assert_null (tarn_pool_allocate (fixture->pool, 3333, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
  g_assert_cmpstr (
      error->message, ==,
      "pool 'small': 3333 bytes asked for, but 1027 (103 of them held) are left of the "
      "limit of 4096 bytes: blocks in use take 3069 (3000 active, and rounding)");
  stats = get_stats (fixture->pool);
  g_assert_cmpuint (stats.failures, ==, 1);
  g_assert_cmpuint (stats.upstream_failures, ==, 0);
  g_assert_cmpuint (stats.held_blocks, ==, 1);
  g_assert_cmpuint (tarn_testing_device_get_allocate_calls (fixture->device), ==, 4);
  for (guint i = 0; i < 3; i++)
    tarn_block_free (blocks[i]);
}

static void
test_to_the_last_byte (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[5];

  (void) unused;
  for (guint i = 0; i < 4; i++)
    blocks[i] = allocate (fixture->pool, 1023);
  assert_fails (fixture->pool, 5, TARN_ERROR_LIMIT);
  blocks[4] = allocate (fixture->pool, 4);
  assert_fails (fixture->pool, 1, TARN_ERROR_LIMIT);
  assert_fails (fixture->pool, G_MAXSSIZE, TARN_ERROR_LIMIT);
  assert_fails (fixture->pool, G_MAXSIZE, TARN_ERROR_INVALID_SIZE);
  g_assert_cmpuint (get_stats (fixture->pool).peak_managed_bytes, ==, LIMIT);
  for (guint i = 0; i < 5; i++)
    tarn_block_free (blocks[i]);
}

static void
test_held_largest_first (Fixture *fixture, gconstpointer unused)
{
  static const gsize sizes[] = { 127, 1023, 255, 2047, 511 };
  TarnBlock *block;

  (void) unused;
  hold (fixture, sizes, 5); /* 3,963 */
  block = allocate (fixture->pool, 1919);
  g_assert_cmpuint (tarn_testing_device_get_free_calls (fixture->device), ==, 1);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (fixture->pool), ==, 127 + 1023 + 255 + 511 + 1919);
  tarn_block_free (block);
  block = allocate (fixture->pool, 3071); /* beside at most 1,025 */
  g_assert_cmpuint (tarn_testing_device_get_free_calls (fixture->device), ==, 3);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (fixture->pool), ==, 127 + 255 + 511 + 3071);
  g_assert_cmpuint (get_stats (fixture->pool).upstream_failures, ==, 0);
  tarn_block_free (block);
}

/* Where all of it would not be enough, held blocks stay. */
static void
test_held_is_not_enough (Fixture *fixture, gconstpointer unused)
{
  static const gsize sizes[] = { 127, 1023, 255 };
  TarnBlock *block = allocate (fixture->pool, 1023);

  (void) unused;
  hold (fixture, sizes, 3);
  assert_fails (fixture->pool, 3583, TARN_ERROR_LIMIT);
  g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), ==, 3);
  g_assert_cmpuint (tarn_testing_device_get_free_calls (fixture->device), ==, 0);
  tarn_block_free (block);
}

static void
test_exact_size (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[2];

  (void) unused;
  tarn_block_free (allocate (fixture->pool, 127));
  blocks[0] = allocate (fixture->pool, 3071);
  blocks[1] = allocate (fixture->pool, 1000); /* 1,023 beside 3,071 and no byte more */
  g_assert_cmpuint (tarn_block_get_alloc_size (blocks[1]), ==, 1023);
  tarn_block_free (blocks[1]);
  tarn_pool_free_held (fixture->pool);

  blocks[1] = allocate (fixture->pool, 1025);
  g_assert_cmpuint (tarn_block_get_alloc_size (blocks[1]), ==, 1025);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (fixture->pool), ==, LIMIT);
  tarn_block_free (blocks[1]);
  g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), ==, 0);
  assert_fails (fixture->pool, 1026, TARN_ERROR_LIMIT);
  tarn_block_free (blocks[0]);
}

/* Other errors than the limit are what they are without one. */
static void
test_below_the_limit (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *block;

  (void) unused;
  tarn_block_free (allocate (fixture->pool, 511));
  tarn_testing_device_set_budget (fixture->device, 1100);
  assert_fails (fixture->pool, 2047, TARN_ERROR_OUT_OF_MEMORY);
  g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), ==, 0);
  tarn_testing_device_set_max_size (fixture->device, 1024);
  assert_fails (fixture->pool, 2047, TARN_ERROR_NOT_SUPPORTED);

  /* Whatever upstream said, nothing is reserved any more. */
  tarn_testing_device_set_max_size (fixture->device, LIMIT);
  tarn_testing_device_set_budget (fixture->device, LIMIT);
  block = allocate (fixture->pool, LIMIT - 1);
  tarn_block_free (block);
}

typedef struct
{
  GString *log;
  TarnBlock *block;
} Cache;

static gboolean
empty_cache (TarnPool *pool, gsize wanted, gpointer data)
{
  Cache *cache = data;

  (void) pool;
  g_assert_cmpuint (wanted, >, 0);
  g_string_append_c (cache->log, 'A');
  if (cache->block == NULL)
    return FALSE;
  tarn_block_free (g_steal_pointer (&cache->block));
  return TRUE;
}

static gboolean
log_upstream (gpointer log)
{
  g_string_append_c (log, 'U');
  return FALSE;
}

/* Asked once, before the exact size is tried; the allocator's own is not: it has not run out. */
static void
test_reclaim (Fixture *fixture, gconstpointer unused)
{
  Cache cache = { fixture->log, NULL };
  TarnBlock *block, *other;

  (void) unused;
  tarn_testing_device_set_reclaim (fixture->device, log_upstream, fixture->log);
  tarn_pool_add_reclaim_func (fixture->pool, empty_cache, &cache, NULL);
  other = allocate (fixture->pool, 2047);
  assert_fails (fixture->pool, 2050, TARN_ERROR_LIMIT);
  g_assert_cmpstr (fixture->log->str, ==, "A");
  g_assert_cmpuint (get_stats (fixture->pool).reclaims, ==, 1);

  cache.block = allocate (fixture->pool, 1023);
  block = allocate (fixture->pool, 2047);
  g_assert_cmpstr (fixture->log->str, ==, "AA");
  g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), ==, 0);
  tarn_block_free (block);

  /* A block of the very bin is not given back. */
  cache.block = block = allocate (fixture->pool, 2047);
  g_assert_true (allocate (fixture->pool, 2000) == block);
  g_assert_cmpstr (fixture->log->str, ==, "AAA");
  g_assert_cmpuint (get_stats (fixture->pool).driver_calls, ==, 3);
  tarn_block_free (block);

  /* The limit's are asked, and then, out of memory, all. */
  tarn_pool_free_held (fixture->pool);
  tarn_testing_device_set_budget (fixture->device, 2047);
  assert_fails (fixture->pool, 2049, TARN_ERROR_OUT_OF_MEMORY);
  g_assert_cmpstr (fixture->log->str, ==, "AAAAUA");
  tarn_block_free (other);
}

/* Callers that were compiled before there was a limit */
static void
test_older_options (Fixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (fixture->device);
  g_autoptr (TarnPool) pool = NULL;
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  TarnBlock *block;

  (void) unused;
  g_assert_cmpuint (options.limit_bytes, ==, 0);
  options.struct_size = G_STRUCT_OFFSET (TarnPoolOptions, limit_bytes);
  options.limit_bytes = 1;
  pool = tarn_pool_new (allocator, &options, NULL);
  g_assert_nonnull (pool);
  block = allocate (pool, 1000);
  tarn_block_free (block);
}

static void
test_check (Fixture *fixture, gconstpointer unused)
{
  TarnPool *pool = fixture->pool;
  TarnBlock *block = allocate (pool, 1023);
  const struct
  {
    gsize *where;
    gssize by;
  } lies[] = {
    { &pool->limit.bytes, 1 },
    { &pool->limit.bytes, -LIMIT }, /* none */
    { &pool->limit.ceiling_bytes, -LIMIT + 1022 },
    { &pool->limit.reserved_bytes, LIMIT - 1022 },
    { &pool->limit.reserved_bytes, -1 },
    { &pool->returning.bytes, 1 },
  };

  (void) unused;
  for (guint i = 0; i < G_N_ELEMENTS (lies); i++)
    {
      g_autofree gchar *violation = NULL;

      *lies[i].where += (gsize) lies[i].by;
      violation = _tarn_pool_check (pool);
      g_assert_nonnull (violation);
      *lies[i].where -= (gsize) lies[i].by;
      assert_valid (pool);
    }
  tarn_block_free (block);
}

static void
test_lowered (Fixture *fixture, gconstpointer unused)
{
  static const gsize sizes[] = { 127, 1023, 255, 2047, 511 };
  TarnPool *pool = fixture->pool;
  TarnBlock *block;

  (void) unused;
  hold (fixture, sizes, 5); /* 3,963 */
  g_assert_cmpuint (tarn_pool_get_limit_bytes (pool), ==, LIMIT);
  tarn_pool_set_limit_bytes (pool, 3963);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (pool), ==, 3963);
  tarn_pool_set_limit_bytes (pool, 3962);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (pool), ==, 3963 - 2047);
  g_assert_cmpuint (tarn_testing_device_get_free_calls (fixture->device), ==, 1);
  assert_valid (pool);
  tarn_pool_set_limit_bytes (pool, 1);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (pool), ==, 0);
  assert_fails (pool, 2, TARN_ERROR_LIMIT);

  tarn_pool_set_limit_bytes (pool, 0);
  g_assert_cmpuint (tarn_pool_get_limit_bytes (pool), ==, 0);
  block = allocate (pool, LIMIT - 1);
  tarn_pool_set_limit_bytes (pool, 2 * LIMIT);
  assert_fails (pool, 2, TARN_ERROR_OUT_OF_MEMORY);
  tarn_block_free (block);
}

/* What is in use stays, and nothing is added to it. */
static void
test_lowered_in_use (Fixture *fixture, gconstpointer unused)
{
  TarnPool *pool = fixture->pool;
  TarnBlock *blocks[2] = { allocate (pool, 1023), allocate (pool, 1023) };
  guint n_calls;

  (void) unused;
  tarn_block_free (allocate (pool, 511));
  tarn_pool_set_limit_bytes (pool, 1200);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (pool), ==, 2 * 1023);
  assert_valid (pool);
  n_calls = tarn_testing_device_get_allocate_calls (fixture->device);
  assert_fails (pool, 127, TARN_ERROR_LIMIT);
  assert_fails (pool, G_MAXSSIZE, TARN_ERROR_LIMIT);

  /* One that is freed is held, and a hit adds nothing. */
  tarn_block_free (blocks[1]);
  g_assert_true (allocate (pool, 1000) == blocks[1]);
  tarn_block_free (blocks[1]);
  assert_fails (pool, 200, TARN_ERROR_LIMIT); /* 1,223 with all that is held given back */
  g_assert_cmpuint (tarn_pool_get_held_blocks (pool), ==, 1);
  g_assert_cmpuint (tarn_testing_device_get_allocate_calls (fixture->device), ==, n_calls);
  blocks[1] = allocate (pool, 127);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (pool), ==, 1023 + 127);
  g_assert_cmpuint (pool->limit.ceiling_bytes, ==, 1200);
  tarn_block_free (blocks[0]);
  tarn_block_free (blocks[1]);
}

/* A count of one is "1 byte". */
static void
test_one_byte (Fixture *fixture, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block;

  (void) unused;
  tarn_pool_set_limit_bytes (fixture->pool, 1);
  block = allocate (fixture->pool, 1);
  g_assert_null (tarn_pool_allocate (fixture->pool, 1, &error));
  g_assert_true (g_str_has_suffix (error->message,
                                   ": 1 byte asked for, but 0 are left of the limit "
                                   "of 1 byte: blocks in use take 1"));
  g_clear_error (&error);
  tarn_pool_set_limit_bytes (fixture->pool, 2);
  g_assert_null (tarn_pool_allocate (fixture->pool, 2, &error));
  g_assert_true (g_str_has_suffix (error->message,
                                   ": 2 bytes asked for, but 1 is left of the limit "
                                   "of 2 bytes: blocks in use take 1"));
  tarn_block_free (block);
}

/* Many sizes, each with a bin of its own */

#define N_SIZES 300
#define MANY 20000
#define FEW 100
#define N_REQUESTS 1000
#if defined(TARN_DEBUG_LEVEL) && TARN_DEBUG_LEVEL >= 2
#define IS_CHECKED TRUE
#else
#define IS_CHECKED FALSE
#endif

static TarnPool *
new_exact_pool (const Fixture *fixture)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;

  options.leading_bits_in_bin_id = 26;
  options.thread_cache_blocks = 0;
  tarn_testing_device_set_budget (fixture->device, G_MAXUINT64);
  return tarn_pool_new (tarn_pool_get_upstream (fixture->pool), &options, NULL);
}

/* The program frees blocks of many sizes, in random order, and trims the pool again and again. Each
 * time, the pool returns the largest blocks first. */
static void
test_many_sizes (Fixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = new_exact_pool (fixture);
  TarnBlock *blocks[N_SIZES] = { NULL };

  (void) unused;
  for (guint round = 0; round < 30; round++)
    {
      gsize keep = (gsize) g_test_rand_int_range (0, N_SIZES * N_SIZES / 2), expected = 0;
      gboolean is_held[N_SIZES] = { FALSE };

      for (guint i = 0; i < 3 * N_SIZES; i++)
        {
          TarnBlock **one = &blocks[g_test_rand_int_range (0, N_SIZES)];

          if (*one == NULL)
            *one = allocate (pool, (gsize) (one - blocks) + 1);
          else
            g_clear_pointer (one, tarn_block_free);
        }
      tarn_pool_trim (pool, 0);
      for (guint i = 0; i < N_SIZES; i++)
        {
          is_held[i] = blocks[i] != NULL;
          g_clear_pointer (&blocks[i], tarn_block_free);
        }
      tarn_pool_trim (pool, keep);
      for (guint i = 0; i < N_SIZES && (!is_held[i] || expected + i + 1 <= keep); i++)
        expected += is_held[i] ? i + 1 : 0;
      g_assert_cmpuint (get_stats (pool).held_bytes, ==, expected);
      assert_valid (pool);
    }
}

/* Gets the CPU time of requests, each of which returns held blocks, while @n sizes are held. */
static gdouble
time_requests (const Fixture *fixture, guint n)
{
  g_autoptr (TarnPool) pool = new_exact_pool (fixture);
  g_autofree TarnBlock **blocks = g_new (TarnBlock *, n);
  clock_t least = G_MAXLONG;

  for (guint i = 0; i < n; i++)
    blocks[i] = tarn_pool_allocate (pool, 100000 + i, NULL);
  for (guint i = 0; i < n; i++)
    tarn_block_free (blocks[i]);
  tarn_pool_set_limit_bytes (pool, tarn_pool_get_managed_bytes (pool));
  for (guint round = 0; round < 3; round++)
    {
      clock_t start = clock ();

      for (guint i = 0; i < N_REQUESTS; i++)
        tarn_block_free (tarn_pool_allocate (pool, 200000 + round * N_REQUESTS + i, NULL));
      least = MIN (least, clock () - start);
    }
  g_assert_cmpuint (get_stats (pool).misses, ==, n + 3 * N_REQUESTS);
  return (gdouble) MAX (least, 1);
}

/* A request at the limit does not look at all sizes that are held. */
static void
test_many_sizes_quickly (Fixture *fixture, gconstpointer unused)
{
  gdouble ratio;

  (void) unused;
  if (IS_CHECKED)
    {
      g_test_skip ("the pool is checked after each request");
      return;
    }
  ratio = time_requests (fixture, MANY) / time_requests (fixture, FEW);
  g_test_message ("%d sizes take %.1f times as long as %d", MANY, ratio, FEW);
  g_assert_cmpfloat (ratio, <, 20);
}

int
main (int argc, char **argv)
{
#define ADD(path, func)                                                                            \
  g_test_add ("/core/limit/" path, Fixture, NULL, set_up, func, pool_fixture_tear_down_limited)
  g_test_init (&argc, &argv, NULL);
  ADD ("refused", test_refused);
  ADD ("to-the-last-byte", test_to_the_last_byte);
  ADD ("held-largest-first", test_held_largest_first);
  ADD ("held-is-not-enough", test_held_is_not_enough);
  ADD ("exact-size", test_exact_size);
  ADD ("below-the-limit", test_below_the_limit);
  ADD ("reclaim", test_reclaim);
  ADD ("older-options", test_older_options);
  ADD ("check", test_check);
  ADD ("lowered", test_lowered);
  ADD ("lowered-in-use", test_lowered_in_use);
  ADD ("one-byte", test_one_byte);
  ADD ("many-sizes", test_many_sizes);
  ADD ("many-sizes/quickly", test_many_sizes_quickly);
  return g_test_run ();
}
