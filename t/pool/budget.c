/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * How much memory a pool can have: tarn_pool_get_budget (). */

#include <tarn/debug.h>
#include <tarn/heap.h>

#include "lib/pool-fixture.h"

#define DEVICE (64 << 20)
#define UNKNOWN G_MAXUINT64
#define HEAP_LIMIT (24 << 20)

/* A device that says how much memory it has. */
typedef struct
{
  TarnTestingDevice *device;
  TarnAllocator *allocator;
  guint64 device_bytes, free_bytes; /* what it says */
  gboolean fails;
} World;

static World *world; /* of the test that runs */

static gboolean
get_memory (gpointer unused, guint64 *device_bytes, guint64 *free_bytes, GError **error)
{
  (void) unused;
  if (world->fails)
    {
      g_set_error_literal (error, TARN_ERROR, TARN_ERROR_FAILED, "the driver does not answer");
      return FALSE;
    }
  *device_bytes = world->device_bytes;
  *free_bytes = world->free_bytes;
  return TRUE;
}

static void
set_up (World *w, gconstpointer says_nothing)
{
  g_autoptr (TarnAllocator) plain = NULL;
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;

  world = w;
  w->device = tarn_testing_device_new (DEVICE);
  w->device_bytes = DEVICE;
  w->free_bytes = DEVICE / 2;
  plain = tarn_testing_device_allocator_new (w->device);
  tarn_allocator_get_ops (plain, &ops);
  ops.get_memory = says_nothing != NULL ? NULL : get_memory;
  w->allocator = tarn_allocator_new (&ops, tarn_allocator_get_user_data (plain), NULL);
}

static void
tear_down (World *w, gconstpointer unused)
{
  (void) unused;
  tarn_allocator_unref (w->allocator);
  tarn_testing_device_free (w->device);
}

static TarnBudget
get_budget (TarnPool *pool)
{
  g_autoptr (GError) error = NULL;
  TarnBudget budget = TARN_BUDGET_INIT;

  g_assert_true (tarn_pool_get_budget (pool, &budget, &error));
  g_assert_no_error (error);
  return budget;
}

static void
assert_budget (TarnPool *pool, guint64 taken, guint64 used, guint64 most)
{
  TarnBudget budget = get_budget (pool);

  g_assert_cmpuint (budget.taken_bytes, ==, taken);
  g_assert_cmpuint (budget.used_bytes, ==, used);
  g_assert_cmpuint (budget.budget_bytes, ==, most);
}

/* What is held is taken, but not used; the limit and the device are bounds. */
static void
test_plain (World *w, gconstpointer unused)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnPool) pool = NULL;
  TarnBlock *one, *other;

  (void) unused;
  options.leading_bits_in_bin_id = 26;
  pool = tarn_pool_new (w->allocator, &options, NULL);
  assert_budget (pool, 0, 0, DEVICE / 2);
  one = tarn_pool_allocate (pool, 1 << 20, NULL);
  other = tarn_pool_allocate (pool, 2 << 20, NULL);
  g_assert_cmpuint (get_budget (pool).device_bytes, ==, DEVICE);
  g_assert_cmpuint (get_budget (pool).free_bytes, ==, DEVICE / 2);
  assert_budget (pool, 3 << 20, 3 << 20, DEVICE / 2 + (3 << 20));
  tarn_block_free (other);
  assert_budget (pool, 3 << 20, 1 << 20, DEVICE / 2 + (3 << 20));
  g_assert_true (tarn_pool_charge (pool, 5, NULL));
  assert_budget (pool, (3 << 20) + 5, (1 << 20) + 5, DEVICE / 2 + (3 << 20) + 5);
  w->free_bytes = DEVICE; /* others may have given back meanwhile */
  assert_budget (pool, (3 << 20) + 5, (1 << 20) + 5, DEVICE);
  tarn_pool_set_limit_bytes (pool, 8 << 20);
  assert_budget (pool, (3 << 20) + 5, (1 << 20) + 5, 8 << 20);
  tarn_pool_uncharge (pool, 5);
  tarn_block_free (one);
}

/* Makes an allocator of @pages that also tells how much memory the device has, and how much of it
 * is free. */
static TarnAllocator *
allocator_of_pages_new (TarnTestingPages *pages)
{
  g_autoptr (TarnAllocator) plain = tarn_testing_pages_allocator_new (pages);
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;

  tarn_allocator_get_ops (plain, &ops);
  ops.get_memory = get_memory;
  return tarn_allocator_new (&ops, tarn_allocator_get_user_data (plain), NULL);
}

/* Over a heap it is the heap that has taken memory. */
static void
test_heap (World *w, gconstpointer unused)
{
  TarnTestingPages *pages = tarn_testing_pages_new (DEVICE, TARN_TESTING_PAGES_ADDRESSES);
  g_autoptr (TarnAllocator) allocator = allocator_of_pages_new (pages);
  g_autoptr (TarnAllocator) heap = NULL;
  TarnHeapStats stats = TARN_HEAP_STATS_INIT;
  TarnBudget budget;
  TarnBlock *block;
  TarnPool *pool;

  (void) w;
  (void) unused;
  heap = tarn_heap_allocator_new (allocator, NULL, NULL);
  pool = tarn_pool_new (heap, NULL, NULL);
  block = tarn_pool_allocate (pool, 1 << 20, NULL);
  budget = get_budget (pool);
  g_assert_true (tarn_heap_get_stats (heap, &stats));
  g_assert_cmpuint (stats.upstream_bytes, >, 1 << 20);
  g_assert_cmpuint (budget.taken_bytes, ==, stats.upstream_bytes);
  g_assert_cmpuint (budget.used_bytes, ==, 1 << 20);
  g_assert_cmpuint (budget.budget_bytes, ==, stats.upstream_bytes + DEVICE / 2);
  g_assert_true (tarn_pool_charge (pool, G_MAXSIZE - (1 << 20), NULL));
  if (sizeof (gsize) > 4) /* otherwise the sum fits into 64 bits */
    g_assert_cmpuint (get_budget (pool).taken_bytes, ==, G_MAXUINT64);
  tarn_pool_uncharge (pool, G_MAXSIZE - (1 << 20));
  tarn_block_free (block);
  tarn_pool_unref (pool);
  g_clear_pointer (&heap, tarn_allocator_unref);
  g_clear_pointer (&allocator, tarn_allocator_unref);
  tarn_testing_pages_free (pages);
}

/* The limit of the heap counts, as well as the pool's.  Charged bytes do not count for the heap. */
static void
test_heap_limit (World *w, gconstpointer unused)
{
  TarnTestingPages *pages = tarn_testing_pages_new (DEVICE, TARN_TESTING_PAGES_ADDRESSES);
  g_autoptr (TarnAllocator) allocator = allocator_of_pages_new (pages);
  g_autoptr (TarnAllocator) heap = NULL;
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  TarnPool *pool;

  (void) unused;
  options.limit_bytes = HEAP_LIMIT;
  heap = tarn_heap_allocator_new (allocator, &options, NULL);
  pool = tarn_pool_new (heap, NULL, NULL);
  assert_budget (pool, 0, 0, HEAP_LIMIT);
  g_assert_true (tarn_pool_charge (pool, 4096, NULL));
  assert_budget (pool, 4096, 4096, HEAP_LIMIT + 4096);
  tarn_pool_set_limit_bytes (pool, HEAP_LIMIT / 2);
  assert_budget (pool, 4096, 4096, HEAP_LIMIT / 2);
  tarn_pool_set_limit_bytes (pool, 0);
  tarn_pool_uncharge (pool, 4096);
  w->free_bytes = 4096;
  assert_budget (pool, 0, 0, 4096);
  tarn_pool_unref (pool);
  g_clear_pointer (&heap, tarn_allocator_unref);
  g_clear_pointer (&allocator, tarn_allocator_unref);
  tarn_testing_pages_free (pages);
}

/* What a driver does not say is unknown, and a sum with it, too. */
static void
test_unknown (World *w, gconstpointer says_nothing)
{
  g_autoptr (TarnPool) pool = tarn_pool_new (w->allocator, NULL, NULL);
  TarnBlock *block = tarn_pool_allocate (pool, 1 << 20, NULL);
  guint64 most = says_nothing != NULL ? UNKNOWN : DEVICE;

  w->free_bytes = UNKNOWN;
  g_assert_cmpuint (get_budget (pool).device_bytes, ==, most);
  g_assert_cmpuint (get_budget (pool).free_bytes, ==, UNKNOWN);
  g_assert_cmpuint (get_budget (pool).budget_bytes, ==, most);
  tarn_pool_set_limit_bytes (pool, 2 << 20);
  g_assert_cmpuint (get_budget (pool).budget_bytes, ==, 2 << 20);
  tarn_block_free (block);
}

/* Nothing is written where the driver fails; a caller may know fewer fields. */
static void
test_failure (World *w, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = tarn_pool_new (w->allocator, NULL, NULL);
  g_autoptr (GError) error = NULL;
  TarnBudget budget = TARN_BUDGET_INIT;

  (void) unused;
  w->fails = TRUE;
  budget.taken_bytes = 99;
  g_assert_false (tarn_pool_get_budget (pool, &budget, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_FAILED);
  g_assert_cmpuint (budget.taken_bytes, ==, 99);
  w->fails = FALSE;
  budget.struct_size = G_STRUCT_OFFSET (TarnBudget, free_bytes);
  g_assert_true (tarn_pool_get_budget (pool, &budget, NULL));
  g_assert_cmpuint (budget.device_bytes, ==, DEVICE);
  g_assert_cmpuint (budget.taken_bytes, ==, 99);
  g_clear_error (&error);
  g_assert_false (tarn_pool_get_budget (NULL, &budget, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);
  budget.struct_size = 0;
  g_assert_false (tarn_pool_get_budget (pool, &budget, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
}

int
main (int argc, char **argv)
{
#define ADD(path, says_nothing, func)                                                              \
  g_test_add ("/core/budget/" path, World, says_nothing, set_up, func, tear_down)
  g_test_init (&argc, &argv, NULL);
  ADD ("plain", NULL, test_plain);
  ADD ("heap", NULL, test_heap);
  ADD ("heap-limit", NULL, test_heap_limit);
  ADD ("unknown", NULL, test_unknown);
  ADD ("says-nothing", "", test_unknown);
  ADD ("failure", NULL, test_failure);
  return g_test_run ();
}
