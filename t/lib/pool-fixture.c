/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "pool-fixture.h"

#include "pool/pool-private.h"

void
pool_fixture_init (PoolFixture *fixture, guint64 bytes)
{
  g_autoptr (TarnAllocator) allocator = NULL;

  fixture->device = tarn_testing_device_new (bytes);
  allocator = tarn_testing_device_allocator_new (fixture->device);
  fixture->pool = tarn_pool_new (allocator, NULL, NULL);
  fixture->log = g_string_new (NULL);
}

void
pool_fixture_tear_down (PoolFixture *fixture, gconstpointer unused)
{
  (void) unused;
  if (fixture->pool != NULL)
    assert_valid (fixture->pool);
  tarn_pool_unref (fixture->pool);
  tarn_testing_device_free (fixture->device);
  g_string_free (fixture->log, TRUE);
}

TarnPool *
pool_new_limited (TarnAllocator *upstream, gsize limit_bytes)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (GError) error = NULL;
  TarnPool *pool;

  options.name = "small";
  options.limit_bytes = limit_bytes;
  pool = tarn_pool_new (upstream, &options, &error);
  g_assert_no_error (error);
  return pool;
}

TarnPool *
pool_new_named (TarnAllocator *upstream, const gchar *name)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;

  options.name = name;
  return tarn_pool_new (upstream, &options, NULL);
}

TarnBlock *
pool_take (TarnPool *pool, gsize size)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_pool_allocate (pool, size, &error);

  g_assert_no_error (error);
  return block;
}

void
pool_fixture_init_limited (PoolFixture *fixture, gsize bytes)
{
  g_autoptr (TarnAllocator) allocator = NULL;

  fixture->device = tarn_testing_device_new (bytes);
  allocator = tarn_testing_device_allocator_new (fixture->device);
  fixture->pool = pool_new_limited (allocator, bytes);
  fixture->log = g_string_new (NULL);
}

void
pool_fixture_tear_down_limited (PoolFixture *fixture, gconstpointer unused)
{
  g_assert_cmpuint (fixture->pool->limit.reserved_bytes, ==, 0);
  g_assert_cmpuint (fixture->pool->returning.bytes, ==, 0);
  g_assert_cmpuint (get_stats (fixture->pool).active_blocks, ==, 0);
  pool_fixture_tear_down (fixture, unused);
}

void
pool_hold (TarnPool *pool, const gsize *sizes, guint n)
{
  g_autofree TarnBlock **blocks = g_new (TarnBlock *, n);

  for (guint i = 0; i < n; i++)
    blocks[i] = allocate (pool, sizes[i]);
  for (guint i = 0; i < n; i++)
    tarn_block_free (blocks[i]);
}

void
pool_slide_window (TarnPool *pool, gsize size)
{
  TarnBlock *window[10] = { NULL };

  for (guint i = 0; i < 100; i++)
    {
      g_autoptr (GError) error = NULL;

      tarn_block_free (g_steal_pointer (&window[i % 10]));
      window[i % 10] = tarn_pool_allocate (pool, size, &error);
      g_assert_no_error (error);
    }
  for (guint i = 0; i < 10; i++)
    tarn_block_free (window[i]);
}

void
pool_have_at_once (TarnPool *pool, gsize size, guint n)
{
  g_autofree TarnBlock **blocks = g_new (TarnBlock *, n);

  for (guint i = 0; i < n; i++)
    blocks[i] = allocate (pool, size);
  for (guint i = 0; i < n; i++)
    tarn_block_free (blocks[i]);
}

guint
pool_fill (TarnPool *pool, gsize size)
{
  g_autoptr (GPtrArray) blocks = g_ptr_array_new_with_free_func ((GDestroyNotify) tarn_block_free);
  g_autoptr (GError) error = NULL;
  TarnBlock *block;

  while ((block = tarn_pool_allocate (pool, size, &error)) != NULL)
    g_ptr_array_add (blocks, block);
  g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
  g_test_message ("%s", error->message);
  return blocks->len;
}

TarnPoolStats
get_stats (TarnPool *pool)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;

  tarn_pool_get_stats (pool, &stats);
  return stats;
}
