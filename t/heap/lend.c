/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A heap over virtual memory that another heap lends, by way of an adaptor
 * (tarn_allocator_get_ops ()); and memory that has to stay where it is
 * (TarnAllocatorOps.backing_stays). */

#include <string.h>

#include <tarn/tarn.h>
#include <tarn/testing.h>

#define MIB ((gsize) 1 << 20)
#define DEVICE_BYTES (256 * MIB)
#define N_BLOCKS 8

typedef struct
{
  TarnTestingPages *pages;
  TarnAllocator *lender, *borrower; /* heaps */
  gint stays;                       /* atomic */
} Fixture;

/* The adaptor's data. */
typedef struct
{
  Fixture *fixture;
  TarnAllocator *lender; /* a reference */
  TarnAllocatorOps ops;
  gpointer data;
} Adaptor;

static gboolean
reserve (gpointer user_data, gsize size, TarnMemory *addresses, GError **error)
{
  Adaptor *adaptor = user_data;

  return adaptor->ops.addresses_reserve (adaptor->data, size, addresses, error);
}

static void
release_addresses (gpointer user_data, TarnMemory addresses, gsize size)
{
  Adaptor *adaptor = user_data;

  adaptor->ops.addresses_release (adaptor->data, addresses, size);
}

static gboolean
take (gpointer user_data, gsize size, TarnMemory *backing, GError **error)
{
  Adaptor *adaptor = user_data;

  return adaptor->ops.backing_new (adaptor->data, size, backing, error);
}

static void
give_back (gpointer user_data, TarnMemory backing, gsize size)
{
  Adaptor *adaptor = user_data;

  adaptor->ops.backing_release (adaptor->data, backing, size);
}

static gboolean
map (gpointer user_data, TarnMemory backing, gsize size, TarnMemory address, GError **error)
{
  Adaptor *adaptor = user_data;

  return adaptor->ops.backing_map (adaptor->data, backing, size, address, error);
}

static void
unmap (gpointer user_data, TarnMemory address, gsize size)
{
  Adaptor *adaptor = user_data;

  adaptor->ops.backing_unmap (adaptor->data, address, size);
}

static gboolean
stays (gpointer user_data)
{
  return g_atomic_int_get (&((Adaptor *) user_data)->fixture->stays);
}

static gboolean
allocate_nothing (gpointer user_data, gsize size, TarnMemory *memory, GError **error)
{
  (void) user_data;
  (void) size;
  (void) memory;
  g_set_error_literal (error, TARN_ERROR, TARN_ERROR_FAILED, "there is virtual memory only");
  return FALSE;
}

static void
free_nothing (gpointer user_data, TarnMemory memory, gsize size)
{
  (void) user_data;
  (void) memory;
  (void) size;
  g_assert_not_reached ();
}

static void
end_adaptor (gpointer user_data)
{
  Adaptor *adaptor = user_data;

  tarn_allocator_unref (adaptor->lender);
  g_free (adaptor);
}

static TarnAllocator *
adaptor_new (Fixture *fixture)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  Adaptor *adaptor = g_new0 (Adaptor, 1);

  adaptor->fixture = fixture;
  adaptor->lender = tarn_allocator_ref (fixture->lender);
  adaptor->ops = ops;
  tarn_allocator_get_ops (fixture->lender, &adaptor->ops);
  adaptor->data = tarn_allocator_get_user_data (fixture->lender);
  ops.allocate = allocate_nothing;
  ops.free = free_nothing;
  ops.below = fixture->lender;
  ops.virtual_granularity = adaptor->ops.virtual_granularity;
  g_assert_cmpuint (ops.virtual_granularity, >, 0);
  ops.addresses_reserve = reserve;
  ops.addresses_release = release_addresses;
  ops.backing_new = take;
  ops.backing_release = give_back;
  ops.backing_map = map;
  ops.backing_unmap = unmap;
  ops.backing_stays = stays;
  return tarn_allocator_new (&ops, adaptor, end_adaptor);
}

static TarnAllocator *
heap_new (TarnAllocator *upstream, gsize limit)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  g_autoptr (GError) error = NULL;
  TarnAllocator *heap;

  options.limit_bytes = limit;
  options.idle_seconds = G_MAXSIZE;
  heap = tarn_heap_allocator_new (upstream, &options, &error);
  g_assert_no_error (error);
  return heap;
}

static void
set_up (Fixture *fixture, gconstpointer limit)
{
  g_autoptr (TarnAllocator) direct = NULL, adaptor = NULL;

  fixture->pages = tarn_testing_pages_new (DEVICE_BYTES, TARN_TESTING_PAGES_VIRTUAL);
  direct = tarn_testing_pages_allocator_new (fixture->pages);
  fixture->lender = heap_new (direct, GPOINTER_TO_SIZE (limit));
  adaptor = adaptor_new (fixture);
  fixture->borrower = heap_new (adaptor, 0);
  fixture->stays = TRUE;
}

/* All is back. */
static void
tear_down (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  g_atomic_int_set (&fixture->stays, FALSE);
  tarn_allocator_unref (fixture->borrower);
  tarn_allocator_unref (fixture->lender);
  g_assert_cmpuint (tarn_testing_pages_get_used_bytes (fixture->pages), ==, 0);
  g_assert_cmpuint (tarn_testing_pages_get_reserved (fixture->pages), ==, 0);
  tarn_testing_pages_free (fixture->pages);
}

static TarnHeapStats
get_stats (TarnAllocator *heap)
{
  TarnHeapStats stats = TARN_HEAP_STATS_INIT;

  g_assert_true (tarn_heap_get_stats (heap, &stats));
  return stats;
}

static TarnBlock *
allocate (TarnAllocator *heap, gsize size)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_allocator_allocate (heap, size, &error);

  g_assert_no_error (error);
  return block;
}

static void
assert_refused (TarnAllocator *heap, gsize size, gint code)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (tarn_allocator_allocate (heap, size, &error));
  g_assert_error (error, TARN_ERROR, code);
}

/* The lender's peak stays when the lent memory is back, and is of one moment. */
static void
test_peak (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *block = allocate (fixture->borrower, 20 * MIB);
  gsize peak = get_stats (fixture->lender).used_bytes;

  (void) unused;
  g_assert_cmpuint (peak, >=, 20 * MIB);
  tarn_block_free (block);
  g_atomic_int_set (&fixture->stays, FALSE);
  g_clear_pointer (&fixture->borrower, tarn_allocator_unref);
  g_assert_cmpuint (get_stats (fixture->lender).used_bytes, ==, 0);
  g_assert_cmpuint (get_stats (fixture->lender).peak_used_bytes, ==, peak);
  tarn_block_free (allocate (fixture->lender, 10 * MIB));
  g_assert_cmpuint (get_stats (fixture->lender).peak_used_bytes, ==, peak);
  tarn_block_free (allocate (fixture->lender, 30 * MIB));
  g_assert_cmpuint (get_stats (fixture->lender).peak_used_bytes, ==, 30 * MIB);
}

/* ... with memory of both heaps in use. */
static void
test_peak_of_both (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *other = allocate (fixture->borrower, 20 * MIB);
  TarnBlock *own = allocate (fixture->lender, 10 * MIB);
  gsize peak = get_stats (fixture->lender).used_bytes;

  (void) unused;
  g_assert_cmpuint (peak, >=, 30 * MIB);
  tarn_block_free (own);
  g_assert_cmpuint (get_stats (fixture->lender).peak_used_bytes, ==, peak);
  tarn_block_free (other);
}

/* The memory of the other heap counts as the lender's. */
static void
test_counts (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *own = allocate (fixture->lender, 10 * MIB);
  TarnBlock *other = allocate (fixture->borrower, 20 * MIB);
  TarnHeapStats lender = get_stats (fixture->lender), borrower = get_stats (fixture->borrower);

  (void) unused;
  g_assert_cmpuint (borrower.upstream_bytes, >=, 20 * MIB);
  g_assert_cmpuint (lender.used_bytes, ==, 10 * MIB + borrower.upstream_bytes);
  g_assert_cmpuint (lender.upstream_bytes, ==, tarn_testing_pages_get_used_bytes (fixture->pages));
  g_assert_cmpuint (lender.upstream_bytes, ==, lender.used_bytes + lender.free_bytes);
  tarn_block_free (own);
  tarn_block_free (other);
}

/* A limit of the lender is for both. */
static void
test_limit (Fixture *fixture, gconstpointer limit)
{
  TarnBlock *own = allocate (fixture->lender, 40 * MIB);
  TarnBlock *other = allocate (fixture->borrower, 16 * MIB);

  assert_refused (fixture->borrower, 16 * MIB, TARN_ERROR_LIMIT);
  assert_refused (fixture->lender, 16 * MIB, TARN_ERROR_LIMIT);
  g_assert_cmpuint (get_stats (fixture->lender).upstream_bytes, <=, GPOINTER_TO_SIZE (limit));
  tarn_block_free (own);
  tarn_block_free (other);
}

/* The lender gives idle memory back if the other heap needs it. */
static void
test_makes_room (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *own = allocate (fixture->lender, 200 * MIB), *other;

  (void) unused;
  assert_refused (fixture->borrower, 200 * MIB, TARN_ERROR_OUT_OF_MEMORY);
  tarn_block_free (own);
  g_assert_cmpuint (get_stats (fixture->lender).upstream_bytes, >=, 200 * MIB);
  other = allocate (fixture->borrower, 200 * MIB);
  tarn_block_free (other);
}

/* A request that fails leaves nothing behind, although nothing that was used may go back. */
static void
test_refused_has_nothing (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *other = allocate (fixture->borrower, 20 * MIB);
  gsize before = get_stats (fixture->lender).upstream_bytes;

  (void) unused;
  for (gsize size = 240; size < 2048; size *= 2) /* what a program of 32 bits can ask for, too */
    {
      assert_refused (fixture->borrower, size * MIB, TARN_ERROR_OUT_OF_MEMORY);
      g_assert_cmpuint (get_stats (fixture->lender).upstream_bytes, ==, before);
    }
  tarn_block_free (other);
}

/* Whatever is freed keeps its memory behind its addresses, and is had again. */
static void
test_stays (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[N_BLOCKS];
  TarnMemory memory[N_BLOCKS];
  gsize most = 0;

  (void) unused;
  for (guint round = 0; round < 30; round++)
    {
      gsize size = MIB * (1 + round * 7 % 11), all = 0;

      for (guint i = 0; i < N_BLOCKS; i++)
        blocks[i] = allocate (fixture->borrower, size);
      for (guint i = 0; i < N_BLOCKS; i++)
        memory[i] = tarn_block_get_memory (blocks[i]);
      for (guint i = 0; i < N_BLOCKS; i++)
        tarn_block_free (blocks[i]);
      for (guint i = 0; i < N_BLOCKS; i++)
        g_assert_true (tarn_testing_pages_is_usable (fixture->pages, memory[i], size));
      all = get_stats (fixture->borrower).upstream_bytes;
      most = MAX (most, N_BLOCKS * size);
      g_assert_cmpuint (all, <=, most + most / 64 + 24 * MIB);
    }
  g_assert_cmpuint (get_stats (fixture->borrower).moves, ==, 0);
  g_assert_cmpuint (get_stats (fixture->borrower).upstream_frees, ==, 0);
}

/* Idle memory does not move to another address. */
static void
test_does_not_move (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *first = allocate (fixture->borrower, 40 * MIB);
  TarnBlock *between = allocate (fixture->borrower, 2 * MIB), *large;
  TarnMemory memory = tarn_block_get_memory (first);

  (void) unused;
  tarn_block_free (first);
  large = allocate (fixture->borrower, 60 * MIB);
  g_assert_true (tarn_testing_pages_is_usable (fixture->pages, memory, 40 * MIB));
  g_assert_cmpuint (get_stats (fixture->borrower).moves, ==, 0);
  first = allocate (fixture->borrower, 40 * MIB);
  g_assert_cmpuint (tarn_block_get_memory (first).address, ==, memory.address);
  tarn_block_free (first);
  tarn_block_free (between);
  tarn_block_free (large);
}

/* Once it need not stay, what is idle makes room. */
static void
test_ends (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *small, *large;
  g_autoptr (TarnPool) pool = tarn_pool_new (fixture->borrower, NULL, NULL);

  (void) unused;
  small = tarn_pool_allocate (pool, 1000, NULL);
  large = tarn_pool_allocate (pool, 200 * MIB, NULL);
  g_assert_nonnull (small);
  g_assert_nonnull (large);
  tarn_block_free (large);
  tarn_pool_free_held (pool);
  g_assert_cmpuint (get_stats (fixture->borrower).upstream_bytes, >=, 200 * MIB);
  g_atomic_int_set (&fixture->stays, FALSE);
  tarn_pool_stop_holding (pool);
  g_assert_cmpuint (get_stats (fixture->borrower).upstream_bytes, <=, 4 * MIB);
  tarn_block_free (small);
}

#define ADD(name, limit, func)                                                                     \
  g_test_add ("/core/heap/lend/" name, Fixture, GSIZE_TO_POINTER (limit), set_up, func, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("counts", 0, test_counts);
  ADD ("peak", 0, test_peak);
  ADD ("peak-of-both", 0, test_peak_of_both);
  ADD ("limit", 64 * MIB, test_limit);
  ADD ("makes-room", 0, test_makes_room);
  ADD ("refused-has-nothing", 0, test_refused_has_nothing);
  ADD ("stays", 0, test_stays);
  ADD ("does-not-move", 0, test_does_not_move);
  ADD ("ends", 0, test_ends);
  return g_test_run ();
}
