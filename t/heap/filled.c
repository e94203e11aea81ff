/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Pools over heaps of one device, which is full (pool/reclaim-group-gpu.c does so on a GPU). */

#include <stdlib.h>

#include "heap-fixture.h"
#include "lib/filled.h"

#define N_REQUESTS 2000
#define N_GRANULES 700

#define SMALL (256 * KIB)
#define N_SMALL 256
#define N_NEIGHBOURS 12
#define N_ROUNDS 300

/* @tight: or NULL (FilledPart.tight). */
static void
check_requests_that_fit (HeapFixture *fixture, TarnTestingPages *tight)
{
  g_autoptr (TarnReclaimGroup) group = tarn_reclaim_group_new ();
  FilledPart parts[3];

  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    {
      filled_part_init (&parts[i], tarn_testing_pages_allocator_new (fixture->pages), group,
                        N_GRANULES * FILLED_GRANULE);
      parts[i].tight = tight;
    }
  tarn_testing_pages_set_budget (fixture->pages, N_GRANULES * FILLED_GRANULE);
  filled_run (parts, G_N_ELEMENTS (parts), N_GRANULES, N_REQUESTS);
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    filled_part_clear (&parts[i]);
}

static void
test_requests_that_fit (HeapFixture *fixture, gconstpointer unused)
{
  (void) unused;
  check_requests_that_fit (fixture, NULL);
}

/* With few addresses, idle segments are often larger than those that are left in a region. */
static void
test_few_addresses (HeapFixture *fixture, gconstpointer unused)
{
  (void) unused;
  check_requests_that_fit (fixture, fixture->pages);
}

static guint64
address_of (const TarnBlock *block)
{
  return tarn_block_get_memory (block).address;
}

static gint
compare_addresses (gconstpointer a, gconstpointer b)
{
  guint64 left = address_of (*(TarnBlock *const *) a), right = address_of (*(TarnBlock *const *) b);

  return (left > right) - (left < right);
}

/* Frees neighbours, requests as much of their memory as is there in any case, and fills the device
 * again. */
static void
replace_neighbours (TarnPool *pool, TarnBlock **blocks, gsize alignment)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block;

  for (guint i = 0; i < N_NEIGHBOURS; i++)
    tarn_block_free (blocks[i]);
  if (alignment == 0)
    block = tarn_pool_allocate (pool, N_NEIGHBOURS * SMALL, &error);
  else
    block = tarn_pool_allocate_aligned (pool, N_NEIGHBOURS * SMALL + SMALL - alignment, alignment,
                                        NULL, &error);
  g_assert_no_error (error);
  if (alignment != 0)
    g_assert_cmpuint (address_of (block) % alignment, ==, 0);
  tarn_block_free (block);
  for (guint i = 0; i < N_NEIGHBOURS; i++)
    {
      blocks[i] = tarn_pool_allocate (pool, SMALL, &error);
      g_assert_no_error (error);
    }
}

static void
check_small (TarnTestingPagesKind kind, gsize alignment)
{
  TarnTestingPages *pages = tarn_testing_pages_new (N_SMALL * SMALL, kind);
  TarnAllocator *allocator = tarn_testing_pages_allocator_new (pages);
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  TarnBlock *blocks[N_SMALL];
  TarnAllocator *heap;
  TarnPool *pool;

  options.growth_bytes = N_SMALL * SMALL; /* a single segment, of neighbours only */
  heap = tarn_heap_allocator_new (allocator, &options, NULL);
  pool = tarn_pool_new (heap, NULL, NULL);
  for (guint i = 0; i < N_SMALL; i++)
    g_assert_nonnull (blocks[i] = tarn_pool_allocate (pool, SMALL, NULL));
  for (guint i = 0; i < N_ROUNDS; i++)
    {
      guint first = (guint) g_test_rand_int_range (0, N_SMALL - N_NEIGHBOURS + 1);

      qsort (blocks, N_SMALL, sizeof *blocks, compare_addresses);
      replace_neighbours (pool, &blocks[first], alignment);
    }
  for (guint i = 0; i < N_SMALL; i++)
    tarn_block_free (blocks[i]);
  tarn_pool_unref (pool);
  tarn_allocator_unref (heap);
  tarn_allocator_unref (allocator);
  tarn_testing_pages_free (pages);
}

/* Blocks that a thread caches are as good as free ones.  With 32-bit addresses, small blocks in
 * virtual memory are in regions of 8 MiB, so neighbours may be apart. */
static void
test_small (void)
{
  if (sizeof (gsize) > 4)
    check_small (TARN_TESTING_PAGES_VIRTUAL, 0);
  check_small (TARN_TESTING_PAGES_ADDRESSES, 0);
}

/* A request for aligned memory is served if it fits at an address that is aligned. */
static void
test_aligned (void)
{
  if (sizeof (gsize) > 4)
    check_small (TARN_TESTING_PAGES_VIRTUAL, 2 * MIB);
  check_small (TARN_TESTING_PAGES_ADDRESSES, 2 * MIB);
}

/* All memory of a device, or of a limit, is served with an alignment that a whole segment has. */
static void
test_aligned_whole (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TarnPool) pool = tarn_pool_new (fixture->heap, NULL, NULL);
  TarnBlock *block;

  (void) unused;
  tarn_testing_pages_set_budget (fixture->pages, 64 * MIB);
  block = tarn_pool_allocate_aligned (pool, 64 * MIB, 2 * MIB, NULL, &error);
  g_assert_no_error (error);
  tarn_block_free (block);

  tarn_pool_free_held (pool);
  tarn_testing_pages_set_budget (fixture->pages, G_MAXUINT64);
  tarn_pool_set_limit_bytes (pool, 32 * MIB);
  block = tarn_pool_allocate_aligned (pool, 32 * MIB, 2 * MIB, NULL, &error);
  g_assert_no_error (error);
  tarn_block_free (block);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  heap_add ("filled", test_requests_that_fit);
  g_test_add_func ("/core/heap/filled/small", test_small);
  g_test_add_func ("/core/heap/filled/aligned", test_aligned);
  heap_add ("filled/few-addresses", test_few_addresses);
  heap_add ("filled/aligned-whole", test_aligned_whole);
  return g_test_run ();
}
