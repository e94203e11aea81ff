/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Pools that give back for one another: who gives, in which order, and when it is not enough.
 * Sizes such as 1023 are the largest of their bins, so that rounding adds nothing. */

#include <tarn/testing.h>

#include "lib/conformance.h"
#include "lib/in-child.h"
#include "lib/pool-fixture.h"
#include "pool/pool-private.h"

#define N_POOLS 4

typedef struct
{
  TarnTestingDevice *device;
  TarnReclaimGroup *group; /* no reference after it was given up */
  TarnPool *pools[N_POOLS];
} Fixture;

static TarnPool *
new_pool (TarnTestingDevice *device, gsize limit_bytes)
{
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;

  options.limit_bytes = limit_bytes;
  return tarn_pool_new (allocator, &options, NULL);
}

static void
set_up (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  fixture->device = tarn_testing_device_new (G_MAXUINT64);
  fixture->group = tarn_reclaim_group_new ();
  for (guint i = 0; i < N_POOLS; i++)
    {
      fixture->pools[i] = new_pool (fixture->device, 0);
      tarn_pool_set_reclaim_group (fixture->pools[i], fixture->group);
    }
  tarn_reclaim_group_unref (fixture->group);
}

static void
tear_down (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  for (guint i = 0; i < N_POOLS; i++)
    if (fixture->pools[i] != NULL)
      {
        assert_valid (fixture->pools[i]);
        tarn_pool_unref (fixture->pools[i]);
      }
  tarn_testing_device_free (fixture->device);
}

/* No room is left beside what is allocated. */
static void
fill (const Fixture *fixture)
{
  tarn_testing_device_set_budget (fixture->device,
                                  tarn_testing_device_get_used_bytes (fixture->device));
}

static void
assert_held (const Fixture *fixture, gsize first, gsize second, gsize third, gsize fourth)
{
  gsize expected[N_POOLS] = { first, second, third, fourth };

  for (guint i = 0; i < N_POOLS; i++)
    if (fixture->pools[i] != NULL)
      g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pools[i]), ==, expected[i]);
}

static void
test_richest_first (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *block;

  (void) unused;
  pool_have_at_once (fixture->pools[1], 1023, 3);
  pool_have_at_once (fixture->pools[2], 511, 2);
  pool_have_at_once (fixture->pools[2], 2047, 2);
  pool_have_at_once (fixture->pools[3], 4095, 1);
  fill (fixture);

  block = allocate (fixture->pools[0], 1023);
  assert_held (fixture, 0, 3, 3, 1); /* one of the third pool's largest: it holds 5116 bytes */
  tarn_block_free (block);
  block = allocate (fixture->pools[1], 8191);
  assert_held (fixture, 1, 0, 0, 0); /* its own, the fourth's, all of the third's */
  tarn_block_free (block);
}

/* One call after the other, of which each frees what is wanted, and no more driver calls. */
static void
test_few_driver_calls (Fixture *fixture, gconstpointer unused)
{
  guint allocations, frees;
  TarnBlock *block;

  (void) unused;
  pool_have_at_once (fixture->pools[1], 1023, 10);
  pool_have_at_once (fixture->pools[2], 511, 1);
  fill (fixture);
  allocations = tarn_testing_device_get_allocate_calls (fixture->device);
  frees = tarn_testing_device_get_free_calls (fixture->device);
  block = allocate (fixture->pools[0], 4095);
  g_assert_cmpuint (tarn_testing_device_get_allocate_calls (fixture->device) - allocations, <=, 2);
  g_assert_cmpuint (tarn_testing_device_get_free_calls (fixture->device) - frees, <=, 5);
  tarn_block_free (block);
}

static void
test_own_first (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *block;

  (void) unused;
  pool_have_at_once (fixture->pools[0], 511, 4);
  pool_have_at_once (fixture->pools[1], 1023, 8);
  fill (fixture);
  block = allocate (fixture->pools[0], 1023);
  assert_held (fixture, 1, 8, 0, 0);
  tarn_block_free (block);
}

/* Only when nobody holds anything, rounding is left out. */
static void
test_exact_size_last (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *block;

  (void) unused;
  pool_have_at_once (fixture->pools[1], 1023, 1);
  tarn_testing_device_set_budget (fixture->device, 1025);
  block = allocate (fixture->pools[0], 1025); /* the bin's size is 1087 */
  g_assert_cmpuint (tarn_block_get_alloc_size (block), ==, 1025);
  assert_held (fixture, 0, 0, 0, 0);
  tarn_block_free (block);
}

static void
test_not_enough (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *block = allocate (fixture->pools[2], 1023);
  TarnPoolStats stats = TARN_POOL_STATS_INIT;

  (void) unused;
  pool_have_at_once (fixture->pools[1], 1023, 2);
  fill (fixture);
  assert_fails (fixture->pools[0], 3069, TARN_ERROR_OUT_OF_MEMORY);
  assert_held (fixture, 0, 0, 0, 0);
  tarn_pool_get_stats (fixture->pools[1], &stats);
  g_assert_cmpuint (stats.upstream_frees, ==, 2);
  tarn_block_free (block);
}

/* Neither a pool outside the group, nor one that has left it. */
static void
test_strangers (Fixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnReclaimGroup) other = tarn_reclaim_group_new ();
  TarnBlock *block;

  (void) unused;
  tarn_pool_set_reclaim_group (fixture->pools[1], NULL);
  tarn_pool_set_reclaim_group (fixture->pools[1], NULL);
  tarn_pool_set_reclaim_group (fixture->pools[2], other);
  tarn_pool_set_reclaim_group (fixture->pools[2], other);
  pool_have_at_once (fixture->pools[1], 1023, 1);
  pool_have_at_once (fixture->pools[2], 1023, 1);
  fill (fixture);
  assert_fails (fixture->pools[0], 1023, TARN_ERROR_OUT_OF_MEMORY);
  assert_fails (fixture->pools[1], 2046, TARN_ERROR_OUT_OF_MEMORY);
  assert_held (fixture, 0, 0, 1, 0);
  fill (fixture);

  tarn_pool_set_reclaim_group (fixture->pools[0], other);
  block = allocate (fixture->pools[0], 1023);
  assert_held (fixture, 0, 0, 0, 0);
  tarn_block_free (block);
}

/* What its own limit does not allow is nobody else's matter; what is left of the device is. */
static void
test_limit (Fixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnReclaimGroup) group = tarn_reclaim_group_new ();
  g_autoptr (TarnPool) pool = new_pool (fixture->device, 2046);
  TarnBlock *first, *second;

  (void) unused;
  tarn_pool_set_reclaim_group (pool, group);
  tarn_pool_set_reclaim_group (fixture->pools[0], group);
  pool_have_at_once (fixture->pools[0], 1023, 4);
  fill (fixture);
  assert_fails (pool, 4095, TARN_ERROR_LIMIT);
  assert_held (fixture, 4, 0, 0, 0);
  first = allocate (pool, 1023);
  second = allocate (pool, 1023);
  assert_held (fixture, 2, 0, 0, 0);
  assert_fails (pool, 1, TARN_ERROR_LIMIT);
  assert_held (fixture, 2, 0, 0, 0);
  tarn_block_free (first);
  tarn_block_free (second);
}

/* A pool over another one of the group, which asks on its behalf. */
static void
test_pool_over_pool (Fixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = tarn_pool_new (TARN_ALLOCATOR (fixture->pools[0]), NULL, NULL);
  TarnBlock *block;

  (void) unused;
  tarn_pool_set_reclaim_group (pool, fixture->group);
  pool_have_at_once (pool, 1023, 2); /* active in the first pool */
  pool_have_at_once (fixture->pools[1], 1023, 2);
  fill (fixture);
  block = allocate (pool, 4091);
  assert_held (fixture, 0, 0, 0, 0);
  tarn_block_free (block);
}

/* The last reference: nothing is held there any more. */
static void
test_last_reference (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *block = allocate (fixture->pools[1], 1023);

  (void) unused;
  pool_have_at_once (fixture->pools[1], 1023, 1);
  fill (fixture);
  tarn_pool_unref (g_steal_pointer (&fixture->pools[1]));
  g_assert_cmpuint (tarn_testing_device_get_used_bytes (fixture->device), ==, 1023);
  assert_fails (fixture->pools[0], 2046, TARN_ERROR_OUT_OF_MEMORY);
  tarn_block_free (block);
  g_assert_cmpuint (tarn_testing_device_get_used_bytes (fixture->device), ==, 0);
}

/* What a reclaim function owned may need memory of another pool to be given up: when a pool ends,
 * that comes before it announces what it gives back, or it would wait for itself. */
static void
allocate_elsewhere (gpointer data)
{
  Fixture *fixture = data;

  assert_fails (fixture->pools[0], 4095, TARN_ERROR_OUT_OF_MEMORY);
}

static gboolean
give_nothing (TarnPool *pool, gsize wanted, gpointer unused)
{
  (void) pool;
  (void) wanted;
  (void) unused;
  return FALSE;
}

static void
test_destroy_allocates (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  pool_have_at_once (fixture->pools[1], 1023, 1);
  fill (fixture);
  tarn_pool_add_reclaim_func (fixture->pools[1], give_nothing, fixture, allocate_elsewhere);
  tarn_pool_unref (g_steal_pointer (&fixture->pools[1]));
}

/* A backend that drops the pool whose memory it is given. */
static void
drop_second (gpointer data)
{
  Fixture *fixture = data;

  tarn_testing_device_set_free_hook (fixture->device, NULL, NULL);
  tarn_pool_unref (g_steal_pointer (&fixture->pools[1]));
}

static void
test_dropped_by_member (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *block;

  (void) unused;
  pool_have_at_once (fixture->pools[1], 1023, 2);
  fill (fixture);
  tarn_testing_device_set_free_hook (fixture->device, drop_second, fixture);
  block = allocate (fixture->pools[0], 1023);
  g_assert_null (fixture->pools[1]);
  g_assert_cmpuint (tarn_testing_device_get_used_bytes (fixture->device), ==, 1023);
  tarn_block_free (block);
}

/* A backend's free () that runs out of memory in another pool of the group does not wait for
 * itself. */
static void
test_allocate_in_free (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *block;

  (void) unused;
  pool_have_at_once (fixture->pools[1], 1023, 1);
  fill (fixture);
  tarn_testing_device_set_free_hook (fixture->device, allocate_elsewhere, fixture);
  block = allocate (fixture->pools[2], 1023);
  tarn_testing_device_set_free_hook (fixture->device, NULL, NULL);
  tarn_block_free (block);
}

/* At random states, against the sum of what is in use: a request succeeds exactly if it fits. */
static void
test_exactly_what_fits (Fixture *fixture, gconstpointer unused)
{
  g_autoptr (GPtrArray) blocks = g_ptr_array_new_with_free_func ((GDestroyNotify) tarn_block_free);
  const gsize budget = 100000;
  guint n_failed = 0;

  (void) unused;
  tarn_testing_device_set_budget (fixture->device, budget);
  for (guint i = 0; i < 20000; i++)
    {
      gsize size = (gsize) g_test_rand_int_range (1, 20000), active = 0;
      TarnPool *pool = fixture->pools[g_test_rand_int_range (0, N_POOLS)];
      g_autoptr (GError) error = NULL;
      TarnBlock *block;

      for (guint j = 0; j < blocks->len; j++)
        active += tarn_block_get_alloc_size (g_ptr_array_index (blocks, j));
      block = tarn_pool_allocate (pool, size, &error);
      g_assert_true ((block != NULL) == (size <= budget - active));
      if (block != NULL)
        g_ptr_array_add (blocks, block);
      else
        n_failed++;
      while (blocks->len > 0 && (block == NULL || g_test_rand_int_range (0, 3) == 0))
        {
          g_ptr_array_remove_index_fast (blocks,
                                         (guint) g_test_rand_int_range (0, (gint32) blocks->len));
          block = blocks->pdata[0];
        }
    }
  g_test_message ("%u of 20000 requests failed", n_failed);
  g_assert_cmpuint (n_failed, >, 100);
}

static void
check_child (gpointer data)
{
  Fixture *fixture = data;

  tarn_pool_set_reclaim_group (fixture->pools[0], NULL);
  STEP (1, fixture->pools[0]->reclaim.group == fixture->group);
  tarn_reclaim_group_unref (tarn_reclaim_group_new ());
  STEP (2, tarn_pool_allocate (fixture->pools[0], 1, NULL) == NULL);
}

static void
test_fork (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  in_child (check_child, fixture);
  test_own_first (fixture, NULL);
}

int
main (int argc, char **argv)
{
#define ADD(path, func)                                                                            \
  g_test_add ("/core/reclaim-group/" path, Fixture, NULL, set_up, func, tear_down)
  g_test_init (&argc, &argv, NULL);
  ADD ("richest-first", test_richest_first);
  ADD ("few-driver-calls", test_few_driver_calls);
  ADD ("own-first", test_own_first);
  ADD ("exact-size-last", test_exact_size_last);
  ADD ("not-enough", test_not_enough);
  ADD ("strangers", test_strangers);
  ADD ("limit", test_limit);
  ADD ("pool-over-pool", test_pool_over_pool);
  ADD ("last-reference", test_last_reference);
  ADD ("destroy-allocates", test_destroy_allocates);
  ADD ("dropped-by-member", test_dropped_by_member);
  ADD ("allocate-in-free", test_allocate_in_free);
  ADD ("exactly-what-fits", test_exactly_what_fits);
  ADD ("fork", test_fork);
  return g_test_run ();
}
