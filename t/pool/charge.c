/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Bytes that the program takes beside a pool, within the pool's limit: what makes room for them,
 * and that they and blocks together never pass it. */

#include <string.h>

#include "common/lock-private.h"
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
charge (TarnPool *pool, gsize bytes)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (tarn_pool_charge (pool, bytes, &error));
  g_assert_no_error (error);
}

static void
assert_refused (TarnPool *pool, gsize bytes, gint code)
{
  gsize before = tarn_pool_get_charged_bytes (pool);
  g_autoptr (GError) error = NULL;

  g_assert_false (tarn_pool_charge (pool, bytes, &error));
  g_assert_error (error, TARN_ERROR, code);
  g_assert_cmpuint (tarn_pool_get_charged_bytes (pool), ==, before);
}

static void
test_to_the_last_byte (Fixture *fixture, gconstpointer unused)
{
  TarnPool *pool = fixture->pool;
  TarnBlock *block = allocate (pool, 1023);

  (void) unused;
  charge (pool, 0);
  charge (pool, LIMIT - 1023 - 4);
  assert_refused (pool, 5, TARN_ERROR_LIMIT);
  charge (pool, 4);
  g_assert_cmpuint (tarn_pool_get_charged_bytes (pool), ==, LIMIT - 1023);
  assert_refused (pool, 1, TARN_ERROR_LIMIT);
  assert_refused (pool, G_MAXSIZE, TARN_ERROR_LIMIT);
  assert_fails (pool, 1, TARN_ERROR_LIMIT);
  assert_valid (pool);
  tarn_pool_uncharge (pool, LIMIT - 1023);
  g_assert_cmpuint (tarn_pool_get_charged_bytes (pool), ==, 0);
  tarn_block_free (block);
  block = allocate (pool, LIMIT - 1);
  tarn_block_free (block);
}

/* A request that the charge leaves no room for names it. */
static void
test_message (Fixture *fixture, gconstpointer unused)
{
  g_autoptr (GError) error = NULL, refused = NULL;
  TarnBlock *block = allocate (fixture->pool, 1023);

  (void) unused;
  charge (fixture->pool, 2500);
  g_assert_null (tarn_pool_allocate (fixture->pool, 600, &error));
  g_assert_cmpstr (
      error->message, ==,
      "pool 'small': 600 bytes asked for, but 573 are left of the limit of 4096 bytes: "
      "blocks in use take 1023, charges take 2500");
  g_assert_false (tarn_pool_charge (fixture->pool, 601, &refused));
  g_assert_cmpstr (
      refused->message, ==,
      "pool 'small': 601 bytes asked for, but 573 are left of the limit of 4096 bytes: "
      "blocks in use take 1023, charges take 2500");
  g_assert_cmpuint (get_stats (fixture->pool).failures, ==, 1);
  tarn_pool_uncharge (fixture->pool, 2500);
  tarn_block_free (block);
}

/* Held blocks go for a charge, the largest first, if they are enough, and else stay. */
static void
test_held (Fixture *fixture, gconstpointer unused)
{
  static const gsize sizes[] = { 127, 1023, 255, 2047, 511 }; /* 3,963 */

  (void) unused;
  pool_hold (fixture->pool, sizes, G_N_ELEMENTS (sizes));
  charge (fixture->pool, 133);
  g_assert_cmpuint (tarn_testing_device_get_free_calls (fixture->device), ==, 0);
  charge (fixture->pool, 1);
  g_assert_cmpuint (tarn_testing_device_get_free_calls (fixture->device), ==, 1);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (fixture->pool), ==, 3963 - 2047);
  assert_refused (fixture->pool, LIMIT - 133, TARN_ERROR_LIMIT);
  g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), ==, 4);
  assert_valid (fixture->pool);
  tarn_pool_uncharge (fixture->pool, 134);
}

typedef struct
{
  guint n;
  gsize wanted;
  TarnBlock *block;
} Cache;

static gboolean
empty_cache (TarnPool *pool, gsize wanted, gpointer data)
{
  Cache *cache = data;

  (void) pool;
  cache->n++;
  cache->wanted = wanted;
  tarn_block_free (g_steal_pointer (&cache->block));
  return TRUE;
}

static gboolean
uncharge_some (TarnPool *pool, gsize wanted, gpointer data)
{
  (void) data;
  tarn_pool_uncharge (pool, wanted);
  return TRUE;
}

/* Reclaim functions are asked, once; one may lower the charge. */
static void
test_reclaim (Fixture *fixture, gconstpointer unused)
{
  TarnPool *pool = fixture->pool;
  Cache cache = { .block = allocate (pool, 2047) };
  guint id = tarn_pool_add_reclaim_func (pool, empty_cache, &cache, NULL);

  (void) unused;
  charge (pool, 2048);
  g_assert_cmpuint (cache.n, ==, 0);
  charge (pool, 2);
  g_assert_cmpuint (cache.n, ==, 1);
  g_assert_cmpuint (cache.wanted, ==, 2);
  assert_refused (pool, 3000, TARN_ERROR_LIMIT);
  g_assert_cmpuint (cache.n, ==, 2);
  tarn_pool_remove_reclaim_func (pool, id);

  tarn_pool_add_reclaim_func (pool, uncharge_some, NULL, NULL);
  tarn_block_free (allocate (pool, 2047)); /* beside 2,050: one too many */
  g_assert_cmpuint (tarn_pool_get_charged_bytes (pool), ==, 3);
  tarn_pool_uncharge (pool, 3);
}

/* Without a limit a charge counts all the same: one that is set later finds it. */
static void
test_limit_later (Fixture *fixture, gconstpointer unused)
{
  TarnPool *pool = fixture->pool;
  TarnBlock *block;

  (void) unused;
  tarn_pool_set_limit_bytes (pool, 0);
  tarn_block_free (allocate (pool, 1023));
  charge (pool, 10000);
  assert_refused (pool, G_MAXSIZE - 9999, TARN_ERROR_INVALID_SIZE);
  block = allocate (pool, 511);
  tarn_pool_set_limit_bytes (pool, LIMIT);
  g_assert_cmpuint (tarn_pool_get_held_blocks (pool), ==, 0);
  assert_refused (pool, 1, TARN_ERROR_LIMIT);
  assert_valid (pool);
  tarn_pool_uncharge (pool, 10000 - 3500);
  assert_refused (pool, 86, TARN_ERROR_LIMIT);
  charge (pool, 85);
  tarn_pool_uncharge (pool, 3585);
  tarn_block_free (block);
}

/* More than was charged is the caller's mistake, and changes nothing. */
static void
test_too_much (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  charge (fixture->pool, 100);
  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, "*is_charged*");
  tarn_pool_uncharge (fixture->pool, 101);
  g_test_assert_expected_messages ();
  g_assert_cmpuint (tarn_pool_get_charged_bytes (fixture->pool), ==, 100);
  tarn_pool_uncharge (fixture->pool, 100);
}

static void
test_check (Fixture *fixture, gconstpointer unused)
{
  g_autofree gchar *violation = NULL;

  (void) unused;
  fixture->pool->limit.charged_bytes = LIMIT + 1;
  violation = _tarn_pool_check (fixture->pool);
  g_assert_nonnull (violation);
  g_assert_nonnull (strstr (violation, "4097 charged"));
  fixture->pool->limit.charged_bytes = 0;
}

/* Group */

static void
test_group (Fixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnReclaimGroup) group = tarn_reclaim_group_new ();
  g_autoptr (TarnReclaimGroup) got = NULL;

  (void) unused;
  g_assert_null (tarn_pool_get_reclaim_group (fixture->pool));
  tarn_pool_set_reclaim_group (fixture->pool, group);
  got = tarn_pool_get_reclaim_group (fixture->pool);
  g_assert_true (got == group);
}

/* Threads */

#define N_THREADS 4
#define N_STEPS 3000

typedef struct
{
  TarnPool *pool;
  gint *n_bytes; /* atomic: what all threads have of blocks and charges */
  guint32 seed;
} Worker;

static void
count (Worker *worker, gsize bytes)
{
  g_assert_cmpint (g_atomic_int_add (worker->n_bytes, (gint) bytes) + (gint) bytes, <=, LIMIT);
}

static gpointer
share (gpointer data)
{
  Worker *worker = data;
  GRand *rand = g_rand_new_with_seed (worker->seed);

  for (guint i = 0; i < N_STEPS; i++)
    {
      gsize bytes = (gsize) g_rand_int_range (rand, 1, LIMIT);
      TarnBlock *block = NULL;
      gboolean is_charged = FALSE;

      if (g_rand_boolean (rand))
        block = tarn_pool_allocate (worker->pool, bytes, NULL);
      else
        is_charged = tarn_pool_charge (worker->pool, bytes, NULL);
      if (block == NULL && !is_charged)
        continue;
      count (worker, bytes);
      g_thread_yield ();
      g_atomic_int_add (worker->n_bytes, -(gint) bytes);
      if (is_charged)
        tarn_pool_uncharge (worker->pool, bytes);
      tarn_block_free (block);
    }
  g_rand_free (rand);
  return NULL;
}

/* Blocks and charges of all threads are never more than the limit. */
static void
test_threads (Fixture *fixture, gconstpointer unused)
{
  GThread *threads[N_THREADS];
  Worker workers[N_THREADS];
  gint n_bytes = 0;

  (void) unused;
  for (guint i = 0; i < N_THREADS; i++)
    {
      workers[i] = (Worker){ fixture->pool, &n_bytes, g_test_rand_int () };
      threads[i] = g_thread_new ("share", share, &workers[i]);
    }
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  g_assert_cmpuint (tarn_pool_get_charged_bytes (fixture->pool), ==, 0);
  assert_valid (fixture->pool);
}

int
main (int argc, char **argv)
{
#define ADD(path, func)                                                                            \
  g_test_add ("/core/charge/" path, Fixture, NULL, set_up, func, pool_fixture_tear_down_limited)
  g_test_init (&argc, &argv, NULL);
  ADD ("to-the-last-byte", test_to_the_last_byte);
  ADD ("message", test_message);
  ADD ("held", test_held);
  ADD ("reclaim", test_reclaim);
  ADD ("limit-later", test_limit_later);
  ADD ("too-much", test_too_much);
  ADD ("check", test_check);
  ADD ("group", test_group);
  ADD ("threads", test_threads);
  return g_test_run ();
}
