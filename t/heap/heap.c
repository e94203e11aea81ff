/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Heaps: what is split and joined, where requests go, how a heap grows and gives back. */

#include <string.h>
#include <tarn/testing.h>

#include "heap-fixture.h"
#include "lib/in-child.h"
#include "lib/nothing.h"

#define SIZE (1 * MIB)

/* Takes so many blocks that lie side by side. */
static void
take_row (HeapFixture *fixture, TarnMemory *row, guint n)
{
  for (guint i = 0; i < n; i++)
    row[i] = heap_take (fixture, SIZE);
  for (guint i = 1; i < n; i++)
    g_assert_cmpuint (heap_get_extent (fixture, row[i])->start, ==,
                      heap_get_extent (fixture, row[i - 1])->start + SIZE);
}

static guint64
get_start (HeapFixture *fixture, TarnMemory memory)
{
  return heap_get_extent (fixture, memory)->start;
}

/* Splitting and joining */

static void
test_joined (HeapFixture *fixture, gconstpointer unused)
{
  static const guint orders[][4]
      = { { 0, 1, 2, 3 }, { 3, 2, 1, 0 }, { 0, 2, 1, 3 }, { 1, 3, 0, 2 } };

  (void) unused;
  for (guint order = 0; order < G_N_ELEMENTS (orders); order++)
    {
      TarnMemory row[4], whole;
      gsize pieces;
      guint64 start;

      heap_put (fixture, heap_take (fixture, 64 * MIB), 64 * MIB); /* there is enough in one */
      take_row (fixture, row, 4);
      start = get_start (fixture, row[0]);
      pieces = heap_get_stats (fixture).pieces;
      for (guint i = 0; i < 4; i++)
        heap_put (fixture, row[orders[order][i]], SIZE);
      whole = heap_take (fixture, 4 * SIZE);
      g_assert_cmpuint (get_start (fixture, whole), ==, start);
      g_assert_cmpuint (heap_get_stats (fixture).pieces, ==, pieces);
      heap_put (fixture, whole, 4 * SIZE);
    }
}

/* The smallest that is large enough, and of two that are the same the first. */
static void
test_best_fit (HeapFixture *fixture, gconstpointer unused)
{
  TarnMemory row[12], again;

  (void) unused;
  heap_put (fixture, heap_take (fixture, 64 * MIB), 64 * MIB);
  take_row (fixture, row, 12);
  heap_put (fixture, row[1], SIZE); /* three in a row, and twice two */
  heap_put (fixture, row[2], SIZE);
  heap_put (fixture, row[3], SIZE);
  heap_put (fixture, row[8], SIZE);
  heap_put (fixture, row[9], SIZE);
  heap_put (fixture, row[5], SIZE);
  heap_put (fixture, row[6], SIZE);
  again = heap_take (fixture, 2 * SIZE - 4 * KIB);
  g_assert_cmpuint (get_start (fixture, again), ==, get_start (fixture, row[4]) + SIZE);
  heap_put (fixture, again, 2 * SIZE - 4 * KIB);
  again = heap_take (fixture, 3 * SIZE);
  g_assert_cmpuint (get_start (fixture, again), ==, get_start (fixture, row[0]) + SIZE);
  heap_put (fixture, again, 3 * SIZE);
  for (guint i = 0; i < 12; i++)
    if (i == 0 || i == 4 || i == 7 || i > 9)
      heap_put (fixture, row[i], SIZE);
}

/* Small ones do not lie between large ones. */
static void
test_small (HeapFixture *fixture, gconstpointer unused)
{
  TarnMemory large[2], small[2];

  (void) unused;
  large[0] = heap_take (fixture, SIZE);
  small[0] = heap_take (fixture, 1000);
  large[1] = heap_take (fixture, SIZE);
  small[1] = heap_take (fixture, 0);
  g_assert_cmpuint (get_start (fixture, large[1]), ==, get_start (fixture, large[0]) + SIZE);
  g_assert_cmpuint (get_start (fixture, small[1]), ==, get_start (fixture, small[0]) + 1024);
  g_assert_true (heap_get_extent (fixture, small[0])->piece
                 != heap_get_extent (fixture, large[0])->piece);
  g_assert_cmpuint (heap_get_stats (fixture).used_bytes, ==, 2 * SIZE + 1024 + 512);
  heap_put (fixture, large[0], SIZE);
  heap_put (fixture, large[1], SIZE);
  heap_put (fixture, small[0], 1000);
  heap_put (fixture, small[1], 0);
}

/* Growing */

/* A program that needs little has little, and one that needs much calls the driver seldom. */
static void
test_growth (HeapFixture *fixture, gconstpointer unused)
{
  TarnMemory memory[1000];

  (void) unused;
  memory[0] = heap_take (fixture, 100 * KIB);
  g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, <=, 2 * MIB);
  for (guint i = 1; i < G_N_ELEMENTS (memory); i++)
    memory[i] = heap_take (fixture, 4 * MIB);
  g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, <=, (guint64) 4300 * MIB);
  g_assert_cmpuint (heap_get_stats (fixture).driver_calls, <=, 180);
  for (guint i = 0; i < G_N_ELEMENTS (memory); i++)
    heap_put (fixture, memory[i], i == 0 ? 100 * KIB : 4 * MIB);
}

/* What was asked for first is served at once by one that is larger than all pieces. */
static void
test_larger_than_pieces (HeapFixture *fixture, gconstpointer unused)
{
  TarnMemory memory = heap_take (fixture, 3 * GIB / 2), small = heap_take (fixture, 3000);
  TarnHeapStats stats = heap_get_stats (fixture);

  (void) unused;
  g_assert_cmpuint (stats.upstream_bytes - 3 * GIB / 2, <=, 16 * MIB);
  g_assert_cmpuint (stats.driver_calls, <=, 60);
  heap_put (fixture, memory, 3 * GIB / 2);
  heap_put (fixture, small, 3000);
}

static void
test_growth_bytes (HeapFixture *fixture, gconstpointer unused)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  TarnMemory memory[3];

  (void) unused;
  options.growth_bytes = 10 * MIB + 1;
  heap_renew (fixture, &options);
  memory[0] = heap_take (fixture, SIZE);
  g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, >, 10 * MIB);
  g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, <=, 12 * MIB);
  g_assert_cmpuint (heap_get_stats (fixture).pieces, ==, 1);
  memory[1] = heap_take (fixture, 9 * MIB);
  g_assert_cmpuint (heap_get_stats (fixture).pieces, ==, 1);
  memory[2] = heap_take (fixture, 40 * MIB); /* in one piece, too */
  g_assert_cmpuint (heap_get_stats (fixture).pieces, ==, 2);
  heap_put (fixture, memory[0], SIZE);
  heap_put (fixture, memory[1], 9 * MIB);
  heap_put (fixture, memory[2], 40 * MIB);
}

/* What was used for one size serves another, and takes no more memory for it. */
static void
test_sizes_change (HeapFixture *fixture, gconstpointer unused)
{
  gsize peak = 0;

  (void) unused;
  for (guint round = 0; round < 20; round++)
    {
      TarnMemory memory[40];
      gsize size = (20 + round) * MIB;

      for (guint i = 0; i < 800 * MIB / size; i++)
        memory[i] = heap_take (fixture, size);
      peak = MAX (peak, heap_get_stats (fixture).used_bytes);
      for (guint i = 0; i < 800 * MIB / size; i++)
        heap_put (fixture, memory[i], size);
    }
  g_assert_cmpuint (heap_get_stats (fixture).peak_upstream_bytes, <=,
                    peak + peak / (fixture->is_virtual ? 10 : 3));
}

/* Virtual memory: what is not used goes to where it is needed, in as many pieces as it has. */
static void
test_moves (HeapFixture *fixture, gconstpointer unused)
{
  TarnMemory memory[64], whole;
  TarnHeapStats stats;

  (void) unused;
  if (!fixture->is_virtual)
    return;
  for (guint i = 0; i < 64; i++)
    memory[i] = heap_take (fixture, 32 * MIB);
  for (guint i = 0; i < 64; i += 4)
    for (guint j = 0; j < 2; j++)
      heap_put (fixture, memory[i + j], 32 * MIB);
  stats = heap_get_stats (fixture);
  whole = heap_take (fixture, 500 * MIB);
  g_assert_cmpuint (heap_get_stats (fixture).moves, >, 0);
  g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, <=, stats.upstream_bytes + 100 * MIB);
  for (guint i = 0; i < 64; i++)
    if (i % 4 > 1)
      {
        g_assert_true (tarn_testing_pages_is_usable (fixture->pages, memory[i], 32 * MIB));
        heap_put (fixture, memory[i], 32 * MIB);
      }
  heap_put (fixture, whole, 500 * MIB);
}

/* Where addresses come to an end, there are others, and those that nothing is at any more go back.
 */
static void
test_addresses (HeapFixture *fixture, gconstpointer unused)
{
  TarnMemory memory[16];

  (void) unused;
  if (!fixture->is_virtual)
    return;
  tarn_testing_pages_set_max_addresses (fixture->pages, 256 * MIB);
  for (guint round = 0; round < 30; round++)
    {
      gsize size = (40 + round) * MIB;

      for (guint i = 0; i < 16; i++)
        memory[i] = heap_take (fixture, size);
      g_assert_cmpuint (tarn_testing_pages_get_reserved (fixture->pages), <=, 9);
      for (guint i = 0; i < 16; i++)
        heap_put (fixture, memory[i], size);
    }
  heap_assert_fails (fixture, 257 * MIB, TARN_ERROR_OUT_OF_MEMORY);
}

/* A large piece does not move to where small ones have used up nearly all addresses. */
static void
test_last_addresses (HeapFixture *fixture, gconstpointer unused)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  TarnMemory large, small[252];

  (void) unused;
  if (!fixture->is_virtual)
    return;
  options.growth_bytes = 2 * MIB;
  heap_renew (fixture, &options);
  tarn_testing_pages_set_max_addresses (fixture->pages, 64 * MIB);
  large = heap_take (fixture, 64 * MIB);
  for (guint i = 0; i < 248; i++)
    small[i] = heap_take (fixture, 256 * KIB);
  heap_put (fixture, large, 64 * MIB);
  tarn_testing_pages_set_budget (fixture->pages, 126 * MIB);
  for (guint i = 248; i < 252; i++)
    small[i] = heap_take (fixture, 256 * KIB);
  for (guint i = 0; i < 252; i++)
    heap_put (fixture, small[i], 256 * KIB);
}

/* Giving back */

static void
test_reclaim (HeapFixture *fixture, gconstpointer unused)
{
  TarnMemory memory[3];

  (void) unused;
  for (guint i = 0; i < 3; i++)
    memory[i] = heap_take (fixture, 100 * MIB);
  heap_put (fixture, memory[1], 100 * MIB);
  g_assert_cmpuint (tarn_testing_pages_get_used_bytes (fixture->pages), >=, 300 * MIB);
  g_assert_cmpuint (heap_get_stats (fixture).idle_pieces, >, 0);
  fixture->heap->klass->trim (fixture->heap);
  heap_assert_valid (fixture);
  g_assert_cmpuint (heap_get_stats (fixture).idle_pieces, ==, 0);
  g_assert_cmpuint (tarn_testing_pages_get_used_bytes (fixture->pages), ==,
                    heap_get_stats (fixture).upstream_bytes);
  g_assert_cmpuint (tarn_testing_pages_get_used_bytes (fixture->pages), <=, 330 * MIB);
  g_assert_true (tarn_testing_pages_is_usable (fixture->pages, memory[0], 100 * MIB));
  g_assert_true (tarn_testing_pages_is_usable (fixture->pages, memory[2], 100 * MIB));
  heap_put (fixture, memory[0], 100 * MIB);
  heap_put (fixture, memory[2], 100 * MIB);
  fixture->heap->klass->trim (fixture->heap);
  g_assert_cmpuint (tarn_testing_pages_get_used_bytes (fixture->pages), ==, 0);
}

/* The device has no more than what a request needs, down to the granularity. */
static void
test_full (HeapFixture *fixture, gconstpointer unused)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  TarnMemory first, second;

  (void) unused;
  options.growth_bytes = 2 * MIB; /* no two share a piece */
  heap_renew (fixture, &options);
  tarn_testing_pages_set_budget (fixture->pages, 202 * MIB);
  first = heap_take (fixture, 100 * MIB);
  second = heap_take (fixture, 100 * MIB);
  heap_assert_fails (fixture, 4 * MIB, TARN_ERROR_OUT_OF_MEMORY);
  heap_put (fixture, heap_take (fixture, 2 * MIB), 2 * MIB);
  heap_put (fixture, first, 100 * MIB);
  first = heap_take (fixture, 102 * MIB); /* with what the last one had, which is idle */
  heap_put (fixture, first, 102 * MIB);
  heap_put (fixture, second, 100 * MIB);
  second = heap_take (fixture, 202 * MIB);
  heap_put (fixture, second, 202 * MIB);
  heap_assert_fails (fixture, 203 * MIB, TARN_ERROR_OUT_OF_MEMORY);
  heap_put (fixture, heap_take (fixture, 202 * MIB), 202 * MIB);
}

/* That a request does not fit is said with a few calls of the device, not by filling it each time
 * that somebody asks; what fits is served all the same, also if some of it has to move. */
static void
test_short (HeapFixture *fixture, gconstpointer unused)
{
  const gsize unit = MIN (GIB, G_MAXSIZE / 32 + 1);
  TarnMemory kept;
  guint calls;

  (void) unused;
  if (!fixture->is_virtual)
    {
      g_test_skip ("a heap of parts asks for what a request needs");
      return;
    }
  tarn_testing_pages_set_budget (fixture->pages, 8 * unit);
  heap_assert_fails (fixture, 9 * unit, TARN_ERROR_OUT_OF_MEMORY);
  for (guint i = 0; i < 4; i++)
    {
      fixture->heap->klass->trim (fixture->heap);
      calls = tarn_testing_pages_get_calls (fixture->pages);
      heap_assert_fails (fixture, (9 + i) * unit, TARN_ERROR_OUT_OF_MEMORY);
      g_assert_cmpuint (tarn_testing_pages_get_calls (fixture->pages) - calls, <=, 6);
    }
  heap_put (fixture, heap_take (fixture, 3 * unit), 3 * unit);
  kept = heap_take (fixture, unit);
  heap_assert_fails (fixture, 8 * unit, TARN_ERROR_OUT_OF_MEMORY);
  heap_put (fixture, heap_take (fixture, 7 * unit), 7 * unit);
  heap_put (fixture, kept, unit);
  heap_put (fixture, heap_take (fixture, 8 * unit), 8 * unit);
}

static void
test_limit (HeapFixture *fixture, gconstpointer unused)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  TarnMemory first;

  (void) unused;
  options.limit_bytes = 100 * MIB;
  heap_renew (fixture, &options);
  heap_assert_fails (fixture, 101 * MIB, TARN_ERROR_LIMIT);
  first = heap_take (fixture, 60 * MIB);
  heap_assert_fails (fixture, 42 * MIB, TARN_ERROR_LIMIT);
  heap_put (fixture, heap_take (fixture, 40 * MIB), 40 * MIB);
  heap_put (fixture, first, 60 * MIB);
  heap_put (fixture, heap_take (fixture, 100 * MIB), 100 * MIB);
  g_assert_cmpuint (heap_get_stats (fixture).peak_upstream_bytes, <=, 100 * MIB);
}

/* The fake has addresses for 2^64 bytes, and then refuses. */
static void
test_addresses_end (HeapFixture *fixture, gconstpointer unused)
{
  (void) unused;
  if (!fixture->is_virtual || sizeof (gsize) < sizeof (guint64))
    {
      g_test_skip ("addresses do not come to an end");
      return;
    }
  tarn_testing_pages_set_budget (fixture->pages, 1024 * GIB);
  for (guint i = 0; i < 3; i++)
    heap_assert_fails (fixture, G_MAXSIZE / 4 + 1 + i * 2 * MIB, TARN_ERROR_OUT_OF_MEMORY);
  heap_put (fixture, heap_take (fixture, 4 * GIB), 4 * GIB);
}

/* A request for more than there is does not first take all that there is. */
static void
test_much_too_large (HeapFixture *fixture, gconstpointer unused)
{
  (void) unused;
  if (sizeof (gsize) < sizeof (guint64))
    {
      g_test_skip ("there are 4 GiB of addresses");
      return;
    }
  tarn_testing_pages_set_budget (fixture->pages, 64 * GIB);
  heap_put (fixture, heap_take (fixture, 20 * MIB), 20 * MIB);
  for (guint i = 0; i < 3; i++)
    heap_assert_fails (fixture, 65 * GIB, TARN_ERROR_OUT_OF_MEMORY);
  g_assert_cmpuint (heap_get_stats (fixture).peak_upstream_bytes, <=, 256 * MIB);
  heap_put (fixture, heap_take (fixture, 60 * GIB), 60 * GIB);
}

/* The error of a request that fails says what is free in the heap. */
static void
test_limit_message (HeapFixture *fixture, gconstpointer unused)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  TarnMemory memory[2] = { { .address = 0 } };
  g_autoptr (GError) error = NULL;
  g_autofree gchar *expected = NULL;
  TarnHeapStats stats;

  (void) unused;
  options.limit_bytes = options.growth_bytes = 256 * MIB;
  heap_renew (fixture, &options);
  memory[0] = heap_take (fixture, 20 * MIB);
  memory[1] = heap_take (fixture, 20 * MIB);
  heap_put (fixture, memory[0], 20 * MIB);
  g_assert_false (tarn_allocator_allocate_memory (fixture->heap, 250 * MIB, &memory[0], &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
  stats = heap_get_stats (fixture);
  expected = g_strdup_printf ("%" G_GSIZE_FORMAT " bytes are free in %" G_GSIZE_FORMAT
                              " segments, and the largest free stretch has %" G_GSIZE_FORMAT,
                              stats.free_bytes, stats.pieces, stats.largest_free_bytes);
  g_assert_nonnull (strstr (error->message, expected));
  heap_put (fixture, memory[1], 20 * MIB);
}

/* An allocator that refuses requests above a size of its own, as clCreateBuffer does, although
 * there is memory. */
#define MAX_BUFFER (5 * MIB + 512)

static gboolean
picky_allocate (gpointer unused, gsize size, TarnMemory *memory, GError **error)
{
  (void) unused;
  if (size > MAX_BUFFER)
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_FAILED, "%" G_GSIZE_FORMAT " bytes", size);
      return FALSE;
    }
  memory->pointer = g_malloc (size);
  return TRUE;
}

static void
picky_free (gpointer unused, TarnMemory memory, gsize size)
{
  (void) unused;
  (void) size;
  g_free (memory.pointer);
}

static gboolean
picky_part_new (gpointer unused, TarnMemory memory, gsize offset, gsize size, TarnMemory *part,
                GError **error)
{
  (void) unused;
  (void) size;
  (void) error;
  part->pointer = (guint8 *) memory.pointer + offset;
  return TRUE;
}

/* A request succeeds that the driver can serve, even if the heap would rather have a larger piece.
 */
static void
test_largest_buffer (HeapFixture *fixture, gconstpointer unused)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  g_autoptr (TarnAllocator) picky = NULL, heap = NULL;
  g_autoptr (GError) error = NULL;
  TarnMemory memory[9] = { { .address = 0 } };

  (void) fixture;
  (void) unused;
  ops.allocate = picky_allocate;
  ops.free = picky_free;
  ops.part_alignment = 1;
  ops.part_new = picky_part_new;
  picky = tarn_allocator_new (&ops, NULL, NULL);
  heap = tarn_heap_allocator_new (picky, NULL, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (memory); i++)
    {
      tarn_allocator_allocate_memory (heap, MAX_BUFFER - i % 2, &memory[i], &error);
      g_assert_no_error (error);
    }
  g_assert_false (tarn_allocator_allocate_memory (heap, MAX_BUFFER + 1, &memory[0], &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_FAILED);
  for (guint i = 0; i < G_N_ELEMENTS (memory); i++)
    tarn_allocator_free_memory (heap, memory[i], MAX_BUFFER - i % 2);
}

static void
test_too_large (HeapFixture *fixture, gconstpointer unused)
{
  (void) unused;
  heap_assert_fails (fixture, G_MAXSIZE, TARN_ERROR_INVALID_SIZE);
  heap_assert_fails (fixture, G_MAXSIZE - 511, TARN_ERROR_INVALID_SIZE);
  heap_assert_fails (fixture, G_MAXSSIZE, TARN_ERROR_INVALID_SIZE); /* with rounding */
  tarn_testing_pages_set_budget (fixture->pages, GIB / 2);
  tarn_testing_pages_set_max_addresses (fixture->pages, GIB / 2);
  heap_assert_fails (fixture, G_MAXSSIZE / 4 * 3, TARN_ERROR_OUT_OF_MEMORY);
  heap_assert_fails (fixture, G_MAXSIZE / 4 + 1, TARN_ERROR_OUT_OF_MEMORY);
}

/* More than a gsize counts is not there, however much the device has. */
static void
test_too_many_bytes (HeapFixture *fixture, gconstpointer unused)
{
  const gsize half = G_MAXSIZE / 2 - 64 * MIB;
  TarnMemory first, second;

  (void) unused;
  if (fixture->is_virtual)
    {
      g_test_skip ("addresses come to an end before");
      return;
    }
  first = heap_take (fixture, half);
  second = heap_take (fixture, half);
  heap_assert_fails (fixture, 256 * MIB, TARN_ERROR_OUT_OF_MEMORY);
  heap_put (fixture, first, half);
  heap_put (fixture, second, half);
}

/* Each call that can fail does, once and from then on: the error says so, and nothing is lost. */
static void
test_failures (HeapFixture *fixture, gconstpointer unused)
{
  (void) unused;
  for (guint for_ever = 0; for_ever < 2; for_ever++)
    for (guint nth = 1, n_failed = 1; n_failed > 0; nth++)
      {
        TarnMemory memory[6] = { { .address = 0 } };
        guint n;

        heap_renew (fixture, NULL);
        tarn_testing_pages_fail (fixture->pages, nth, for_ever != 0);
        for (n = 0; n < 6; n++)
          {
            g_autoptr (GError) error = NULL;

            if (!tarn_allocator_allocate_memory (fixture->heap, (n * 30 + 1) * MIB, &memory[n],
                                                 &error))
              g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
            heap_assert_valid (fixture);
            if (n == 4 && memory[3].address != 0)
              {
                heap_put (fixture, memory[3], 91 * MIB);
                memory[3].address = 0;
              }
          }
        n_failed = tarn_testing_pages_has_failed (fixture->pages);
        tarn_testing_pages_fail (fixture->pages, 0, FALSE);
        for (n = 0; n < 6; n++)
          if (memory[n].address != 0)
            heap_put (fixture, memory[n], (n * 30 + 1) * MIB);
        heap_put (fixture, heap_take (fixture, 200 * MIB), 200 * MIB);
      }
}

/* Blocks, and what is none */

static void
test_blocks (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnAllocator) heap = tarn_allocator_ref (fixture->heap);
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_allocator_allocate (heap, 1000, &error);

  (void) unused;
  g_assert_no_error (error);
  g_assert_cmpuint (tarn_block_get_size (block), ==, 1000);
  g_assert_true (tarn_block_get_allocator (block) == fixture->upstream);
  g_assert_false (tarn_block_record_use (block, heap, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
  tarn_allocator_unref (g_steal_pointer (&heap));
  tarn_allocator_unref (g_steal_pointer (&fixture->heap));
  tarn_block_free (block); /* the last one to have it */
}

static void
test_pool (HeapFixture *fixture, gconstpointer unused)
{
  TarnPool *pool = tarn_pool_new (fixture->heap, NULL, NULL);
  TarnBlock *blocks[50];

  (void) unused;
  for (guint round = 0; round < 3; round++)
    {
      for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
        {
          blocks[i] = tarn_pool_allocate (pool, 3000 * (i + 1) * (i + 1), NULL);
          g_assert_true (tarn_testing_pages_is_usable (fixture->pages,
                                                       tarn_block_get_memory (blocks[i]),
                                                       tarn_block_get_alloc_size (blocks[i])));
        }
      for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
        tarn_block_free (blocks[i]);
      heap_assert_valid (fixture);
    }
  g_assert_cmpuint (heap_get_stats (fixture).used_bytes, >, 0);
  tarn_pool_free_held (pool);
  g_assert_cmpuint (heap_get_stats (fixture).used_bytes, ==, 0);
  g_assert_cmpuint (tarn_testing_pages_get_used_bytes (fixture->pages), ==, 0);
  tarn_pool_unref (pool);
}

/* What the heaps of other pools of a group have, and hold no longer, is there for one that has run
 * out, whether or not their pools hold anything. */
static void
test_group (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnReclaimGroup) group = tarn_reclaim_group_new ();
  TarnPool *pools[2];

  (void) unused;
  tarn_testing_pages_set_budget (fixture->pages, 256 * MIB);
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (TarnAllocator) heap = tarn_heap_allocator_new (fixture->upstream, NULL, NULL);

      pools[i] = tarn_pool_new (heap, NULL, NULL);
      tarn_pool_set_reclaim_group (pools[i], group);
    }
  tarn_pool_stop_holding (pools[0]); /* its heap does */
  for (guint i = 0; i < 6; i++)
    {
      TarnBlock *block = tarn_pool_allocate (pools[i % 2], 200 * MIB, NULL);

      g_assert_nonnull (block);
      tarn_block_free (block);
      if (i % 3 == 1) /* its heap has that then */
        {
          block = tarn_pool_allocate (pools[i % 2], 250 * MIB, NULL);
          g_assert_nonnull (block);
          tarn_block_free (block);
        }
    }
  for (guint i = 0; i < 2; i++)
    tarn_pool_unref (pools[i]);
  g_assert_cmpuint (tarn_testing_pages_get_used_bytes (fixture->pages), ==, 0);
}

/* ... and no more of what is held goes back than is needed. */
static void
test_group_holds_on (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnReclaimGroup) group = tarn_reclaim_group_new ();
  g_autoptr (TarnAllocator) other = NULL;
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  TarnPoolOptions pool_options = TARN_POOL_OPTIONS_INIT;
  TarnPool *pool, *rich;
  TarnBlock *blocks[10];

  (void) unused;
  tarn_testing_pages_set_budget (fixture->pages, 256 * MIB);
  options.growth_bytes = 2 * MIB; /* no two share a piece */
  heap_renew (fixture, &options);
  other = tarn_heap_allocator_new (fixture->upstream, NULL, NULL);
  pool_options.hold_bytes = G_MAXSIZE;
  rich = tarn_pool_new (fixture->heap, &pool_options, NULL);
  pool = tarn_pool_new (other, NULL, NULL);
  tarn_pool_set_reclaim_group (rich, group);
  tarn_pool_set_reclaim_group (pool, group);
  for (guint i = 0; i < 10; i++)
    blocks[i] = tarn_pool_allocate (rich, 20 * MIB, NULL);
  for (guint i = 0; i < 10; i++)
    tarn_block_free (blocks[i]);
  blocks[0] = tarn_pool_allocate (pool, 80 * MIB, NULL);
  g_assert_nonnull (blocks[0]);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (rich), >=, 100 * MIB);
  tarn_block_free (blocks[0]);
  tarn_pool_unref (rich);
  tarn_pool_unref (pool);
}

static void
test_not_in_use (HeapFixture *fixture, gconstpointer unused)
{
  TarnMemory memory = heap_take (fixture, SIZE);

  (void) unused;
  heap_put (fixture, memory, SIZE);
  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, "*1048576 bytes is not in use");
  heap_put (fixture, memory, SIZE);
  g_test_assert_expected_messages ();
}

static void
test_alignment (HeapFixture *fixture, gconstpointer unused)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  TarnMemory memory[10];
  g_autoptr (GError) error = NULL;

  (void) unused;
  options.alignment = 64 * KIB;
  heap_renew (fixture, &options);
  for (guint i = 0; i < 10; i++)
    {
      const TarnExtent *extent;

      memory[i] = heap_take (fixture, 1 + i * 10000);
      extent = heap_get_extent (fixture, memory[i]);
      g_assert_cmpuint ((extent->start - extent->piece->start) % (64 * KIB), ==, 0);
    }
  for (guint i = 0; i < 10; i++)
    heap_put (fixture, memory[i], 1 + i * 10000);
  options.alignment = 1000;
  g_assert_null (tarn_heap_allocator_new (fixture->upstream, &options, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "1000"));
}

/* Children of fork () */

static void
use_in_child (gpointer data)
{
  HeapFixture *fixture = data;
  TarnHeapStats stats = TARN_HEAP_STATS_INIT;
  TarnMemory memory;
  GError *error = NULL;

  STEP (1, !tarn_allocator_allocate_memory (fixture->heap, SIZE, &memory, &error));
  STEP (2, take_forked (&error));
  STEP (3, tarn_heap_get_stats (fixture->heap, &stats) && stats.pieces > 0);
  tarn_allocator_unref (fixture->heap);
}

static void
test_fork (HeapFixture *fixture, gconstpointer unused)
{
  TarnMemory memory = heap_take (fixture, SIZE);
  TarnHeap *heap = _tarn_heap_of (fixture->heap);

  (void) unused;
  _tarn_heap_lock (heap); /* as another thread might at that moment */
  in_child (use_in_child, fixture);
  _tarn_heap_unlock (heap);
  heap_put (fixture, memory, SIZE);
}

/* What makes no heap */

static void
test_not_supported (void)
{
  TarnAllocatorOps ops;
  g_autoptr (TarnAllocator) allocator = NULL;
  TarnHeapStats stats = TARN_HEAP_STATS_INIT;
  g_autoptr (GError) error = NULL;

  nothing_ops_init (&ops);
  ops.name = "rock";
  allocator = tarn_allocator_new (&ops, NULL, NULL);
  g_assert_null (tarn_heap_allocator_new (allocator, NULL, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
  g_assert_nonnull (strstr (error->message, "'rock'"));
  stats.pieces = 42;
  g_assert_false (tarn_heap_get_stats (allocator, &stats));
  g_assert_cmpuint (stats.pieces, ==, 42);
}

static gint64 clock_time;

static gint64
get_clock_time (void)
{
  return clock_time;
}

/* Idle pieces go back after as many seconds as the options say, and others stay. */
static void
test_idle_seconds (HeapFixture *fixture, gconstpointer unused)
{
  static const gsize seconds[] = { 3, 0, G_MAXSIZE };
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;

  (void) unused;
  for (guint i = 0; i < G_N_ELEMENTS (seconds); i++)
    {
      gint64 usual = seconds[i] == 0 ? 10 : (gint64) MIN (seconds[i], 100);
      TarnMemory used, idle;

      options.idle_seconds = seconds[i];
      options.growth_bytes = 64 * MIB;
      clock_time = G_TIME_SPAN_DAY;
      tarn_clock_set (get_clock_time);
      heap_renew (fixture, &options);
      used = heap_take (fixture, 60 * MIB);
      idle = heap_take (fixture, 60 * MIB);
      heap_put (fixture, idle, 60 * MIB);
      g_assert_cmpuint (heap_get_stats (fixture).idle_pieces, ==, 1);
      clock_time += usual * G_TIME_SPAN_SECOND - 1;
      heap_put (fixture, heap_take (fixture, MIB), MIB);
      g_assert_cmpuint (heap_get_stats (fixture).pieces, ==, 2);
      clock_time += 1;
      heap_put (fixture, heap_take (fixture, MIB), MIB); /* nobody looks all the time */
      g_assert_cmpuint (heap_get_stats (fixture).pieces, ==, 2);
      clock_time += usual * G_TIME_SPAN_SECOND / 8;
      heap_put (fixture, heap_take (fixture, MIB), MIB);
      g_assert_cmpuint (heap_get_stats (fixture).pieces, ==, seconds[i] == G_MAXSIZE ? 2 : 1);
      heap_put (fixture, used, 60 * MIB);
    }
  tarn_clock_set (NULL);
}

/* The time can be changed: what has been idle for longer goes at once. */
static void
test_set_idle_seconds (HeapFixture *fixture, gconstpointer unused)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  TarnMemory used, idle;

  (void) unused;
  options.growth_bytes = 64 * MIB;
  clock_time = G_TIME_SPAN_DAY;
  tarn_clock_set (get_clock_time);
  heap_renew (fixture, &options);
  used = heap_take (fixture, 60 * MIB);
  idle = heap_take (fixture, 60 * MIB);
  heap_put (fixture, idle, 60 * MIB);
  g_assert_cmpuint (heap_get_stats (fixture).idle_pieces, ==, 1);
  g_assert_true (tarn_heap_set_idle_seconds (fixture->heap, G_MAXSIZE));
  clock_time += G_TIME_SPAN_DAY;
  heap_put (fixture, heap_take (fixture, MIB), MIB);
  g_assert_cmpuint (heap_get_stats (fixture).pieces, ==, 2);

  g_assert_true (tarn_heap_set_idle_seconds (fixture->heap, 2 * 24 * 3600));
  g_assert_cmpuint (heap_get_stats (fixture).pieces, ==, 2);
  clock_time += G_TIME_SPAN_SECOND; /* before the heap would look of itself */
  heap_assert_valid (fixture);
  g_assert_true (tarn_heap_set_idle_seconds (fixture->heap, 0));
  g_assert_cmpuint (heap_get_stats (fixture).pieces, ==, 1);
  heap_assert_valid (fixture);

  heap_put (fixture, used, 60 * MIB);
  g_assert_cmpuint (heap_get_stats (fixture).pieces, ==, 1);
  clock_time += 10 * G_TIME_SPAN_SECOND;
  g_assert_true (tarn_heap_set_idle_seconds (fixture->heap, 0));
  g_assert_cmpuint (heap_get_stats (fixture).pieces, ==, 0);
  g_assert_false (tarn_heap_set_idle_seconds (fixture->upstream, 1));
  tarn_clock_set (NULL);
}

/* What a backend does while it is asked for memory, or to give some back. */
typedef struct
{
  HeapFixture *fixture;
  TarnPool *pool;
  guint n_calls, n_failed;
  gboolean is_inside;
} Visitor;

static void
come_back (gpointer data)
{
  Visitor *visitor = data;
  TarnMemory memory = { .address = 0 };
  g_autoptr (GError) error = NULL;

  if (visitor->is_inside)
    return;
  visitor->is_inside = TRUE;
  visitor->n_calls++;
  tarn_pool_free_held (visitor->pool);
  if (tarn_allocator_allocate_memory (visitor->fixture->heap, GIB, &memory, &error))
    tarn_allocator_free_memory (visitor->fixture->heap, memory, GIB);
  else
    {
      g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
      visitor->n_failed++;
    }
  visitor->is_inside = FALSE;
}

/* Upstream runs out once, as where another process has the device for a while.  Later the heap does
 * not go on to make a segment of just its size for each request. */
static void
test_out_of_memory_once (HeapFixture *fixture, gconstpointer unused)
{
  TarnMemory memory[200];
  guint64 calls;

  (void) unused;
  clock_time = G_TIME_SPAN_DAY;
  tarn_clock_set (get_clock_time);
  heap_renew (fixture, NULL);
  tarn_testing_pages_set_budget (fixture->pages, 100 * MIB);
  heap_put (fixture, heap_take (fixture, 90 * MIB), 90 * MIB);
  heap_assert_fails (fixture, 110 * MIB, TARN_ERROR_OUT_OF_MEMORY);
  tarn_testing_pages_set_budget (fixture->pages, G_MAXUINT64);
  clock_time += G_TIME_SPAN_HOUR;
  heap_put (fixture, heap_take (fixture, MIB), MIB);
  calls = heap_get_stats (fixture).driver_calls;
  for (guint i = 0; i < G_N_ELEMENTS (memory); i++)
    memory[i] = heap_take (fixture, 300 * KIB + i * KIB);
  g_assert_cmpuint (heap_get_stats (fixture).driver_calls, <=, calls + 40);
  for (guint i = 0; i < G_N_ELEMENTS (memory); i++)
    heap_put (fixture, memory[i], 300 * KIB + i * KIB);
  tarn_clock_set (NULL);
}

/* A backend that comes back for memory while the heap asks it for some, or has the pool over the
 * heap give back, waits for nobody: it would be for itself. */
static void
test_comes_back (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = tarn_pool_new (fixture->heap, NULL, NULL);
  Visitor visitor = { fixture, pool, 0, 0, FALSE };
  TarnBlock *blocks[8];

  (void) unused;
  tarn_testing_pages_set_hook (fixture->pages, come_back, &visitor);
  for (guint i = 0; i < 8; i++)
    blocks[i] = tarn_pool_allocate (pool, (1 + i) * 20 * MIB, NULL);
  for (guint i = 0; i < 8; i++)
    tarn_block_free (blocks[i]);
  tarn_pool_free_held (pool);
  tarn_testing_pages_set_hook (fixture->pages, NULL, NULL);
  g_assert_cmpuint (visitor.n_calls, >, 8);
  g_assert_cmpuint (visitor.n_failed, >, 0);
  heap_assert_valid (fixture);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  heap_add ("joined", test_joined);
  heap_add ("best-fit", test_best_fit);
  heap_add ("small", test_small);
  heap_add ("growth", test_growth);
  heap_add ("out-of-memory-once", test_out_of_memory_once);
  heap_add ("larger-than-pieces", test_larger_than_pieces);
  heap_add ("growth-bytes", test_growth_bytes);
  heap_add ("sizes-change", test_sizes_change);
  heap_add ("moves", test_moves);
  heap_add ("addresses", test_addresses);
  heap_add ("last-addresses", test_last_addresses);
  heap_add ("reclaim", test_reclaim);
  heap_add ("full", test_full);
  heap_add ("short", test_short);
  heap_add ("limit", test_limit);
  heap_add ("addresses-end", test_addresses_end);
  heap_add ("much-too-large", test_much_too_large);
  heap_add ("limit-message", test_limit_message);
  heap_add ("largest-buffer", test_largest_buffer);
  heap_add ("too-large", test_too_large);
  heap_add ("too-many-bytes", test_too_many_bytes);
  heap_add ("failures", test_failures);
  heap_add ("blocks", test_blocks);
  heap_add ("pool", test_pool);
  heap_add ("group", test_group);
  heap_add ("group-holds-on", test_group_holds_on);
  heap_add ("not-in-use", test_not_in_use);
  heap_add ("alignment", test_alignment);
  heap_add ("fork", test_fork);
  heap_add ("idle-seconds", test_idle_seconds);
  heap_add ("set-idle-seconds", test_set_idle_seconds);
  heap_add ("comes-back", test_comes_back);
  g_test_add_func ("/core/heap/not-supported", test_not_supported);
  return g_test_run ();
}
