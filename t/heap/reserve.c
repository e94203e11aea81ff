/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memory for requests to come: whom it serves, how long it stays, and what happens where there is
 * not enough. */

#include <tarn/testing.h>

#include "heap-fixture.h"
#include "lib/pool-fixture.h"

typedef struct
{
  TarnTestingPagesKind kind;
  TarnTestingOrder *order;
  TarnTestingPages *pages;
  TarnTestingQueues *queues;
  TarnAllocator *heap;
  TarnPool *pool;
  gpointer queue;
} Fixture;

static gint64 now = G_TIME_SPAN_DAY;

static gint64
get_time (void)
{
  return now;
}

static void
begin (Fixture *fixture, TarnTestingPagesKind kind, const TarnPoolOptions *options)
{
  g_autoptr (TarnAllocator) device = NULL;

  fixture->kind = kind;
  fixture->order = tarn_testing_order_new (G_MAXUINT64, kind, 0);
  fixture->pages = tarn_testing_order_get_pages (fixture->order);
  fixture->queues = tarn_testing_order_get_queues (fixture->order);
  device = tarn_testing_order_allocator_new (fixture->order);
  fixture->heap = tarn_heap_allocator_new (device, NULL, NULL);
  fixture->pool = tarn_pool_new (fixture->heap, options, NULL);
  fixture->queue = tarn_testing_queue_new (fixture->queues, TRUE);
}

static void
end (Fixture *fixture)
{
  g_autofree gchar *fault = tarn_testing_queues_steal_fault (fixture->queues);

  g_assert_cmpstr (fault, ==, NULL);
  assert_valid (fixture->pool);
  tarn_pool_unref (fixture->pool);
  tarn_allocator_unref (fixture->heap);
  tarn_testing_queues_run_all (fixture->queues);
  tarn_testing_order_free (fixture->order);
}

/* Makes a heap that has the limit of the pool over it. */
static TarnAllocator *
new_following_heap (Fixture *fixture)
{
  g_autoptr (TarnAllocator) device = tarn_testing_order_allocator_new (fixture->order);
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;

  options.follows_pool_limit = TRUE;
  return tarn_heap_allocator_new (device, &options, NULL);
}

static TarnHeapStats
get_heap_stats (Fixture *fixture)
{
  TarnHeapStats stats = TARN_HEAP_STATS_INIT;

  g_assert_true (tarn_heap_get_stats (fixture->heap, &stats));
  return stats;
}

static void
reserve (Fixture *fixture, gsize bytes, gpointer queue)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (tarn_pool_reserve (fixture->pool, bytes, queue, &error));
  g_assert_no_error (error);
  assert_valid (fixture->pool);
  g_assert_cmpuint (get_stats (fixture->pool).active_blocks, ==, 0);
}

static void
assert_not_reserved (TarnPool *pool, gsize bytes, gint code)
{
  g_autoptr (GError) error = NULL;

  g_assert_false (tarn_pool_reserve (pool, bytes, NULL, &error));
  g_assert_error (error, TARN_ERROR, code);
  assert_valid (pool);
}

/* Takes blocks of a queue that have so many bytes, and frees them. */
static void
use (Fixture *fixture, gsize size, guint n, gpointer queue)
{
  g_autoptr (GPtrArray) blocks = g_ptr_array_new_with_free_func ((GDestroyNotify) tarn_block_free);

  for (guint i = 0; i < n; i++)
    {
      g_autoptr (GError) error = NULL;

      g_ptr_array_add (blocks, tarn_pool_allocate_ordered (fixture->pool, size, queue, &error));
      g_assert_no_error (error);
    }
}

/* Requests of the queue are served from what was reserved, in any sizes. */
static void
check_served (TarnTestingPagesKind kind, gsize hold_bytes)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  Fixture fixture;
  guint64 calls;

  options.hold_bytes = hold_bytes;
  begin (&fixture, kind, &options);
  reserve (&fixture, 0, fixture.queue);
  g_assert_cmpuint (get_heap_stats (&fixture).upstream_bytes, ==, 0);
  reserve (&fixture, 256 * MIB, fixture.queue);
  g_assert_cmpuint (get_heap_stats (&fixture).free_bytes, >=, 256 * MIB);
  g_assert_cmpuint (get_stats (fixture.pool).held_blocks, ==, 0);
  calls = get_heap_stats (&fixture).driver_calls;
  use (&fixture, 32 * MIB, 8, fixture.queue);
  if (hold_bytes != G_MAXSIZE) /* or the pool holds those blocks */
    {
      use (&fixture, 8 * MIB, 32, fixture.queue);
      use (&fixture, 3 * MIB, 64, fixture.queue);
    }
  g_assert_cmpuint (get_heap_stats (&fixture).driver_calls, ==, calls);
  tarn_pool_free_held (fixture.pool);

  /* What is there already counts. */
  reserve (&fixture, 64 * MIB, NULL);
  calls = get_heap_stats (&fixture).driver_calls;
  reserve (&fixture, 64 * MIB, NULL);
  reserve (&fixture, 20 * MIB, NULL);
  use (&fixture, 16 * MIB, 4, NULL);
  g_assert_cmpuint (get_heap_stats (&fixture).driver_calls, ==, calls);
  end (&fixture);
}

static void
test_served (gconstpointer kind)
{
  check_served ((TarnTestingPagesKind) GPOINTER_TO_UINT (kind), 0);
  check_served ((TarnTestingPagesKind) GPOINTER_TO_UINT (kind), 1);
  check_served ((TarnTestingPagesKind) GPOINTER_TO_UINT (kind), G_MAXSIZE);
}

/* It goes like all that nobody uses. */
static void
test_idle (gconstpointer kind)
{
  Fixture fixture;

  tarn_clock_set (get_time);
  begin (&fixture, (TarnTestingPagesKind) GPOINTER_TO_UINT (kind), NULL);
  g_assert_true (tarn_heap_set_idle_seconds (fixture.heap, 60));
  reserve (&fixture, 100 * MIB, NULL);
  now += 50 * G_TIME_SPAN_SECOND;
  g_assert_true (tarn_heap_set_idle_seconds (fixture.heap, 60));
  g_assert_cmpuint (get_heap_stats (&fixture).free_bytes, >=, 100 * MIB);
  now += 20 * G_TIME_SPAN_SECOND;
  g_assert_true (tarn_heap_set_idle_seconds (fixture.heap, 60));
  g_assert_cmpuint (get_heap_stats (&fixture).upstream_bytes, ==, 0);
  end (&fixture);
  tarn_clock_set (NULL);
}

/* The limit holds, to the last byte; what was taken before that was seen stays free. */
static void
test_limit (gconstpointer kind)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  Fixture fixture;
  TarnBlock *block;

  options.limit_bytes = 64 * MIB;
  begin (&fixture, (TarnTestingPagesKind) GPOINTER_TO_UINT (kind), &options);
  reserve (&fixture, 64 * MIB, fixture.queue);
  tarn_pool_free_held (fixture.pool);
  block = allocate (fixture.pool, 2 * MIB);
  assert_not_reserved (fixture.pool, 63 * MIB, TARN_ERROR_LIMIT);
  assert_not_reserved (fixture.pool, 65 * MIB, TARN_ERROR_LIMIT);
  g_assert_cmpuint (get_stats (fixture.pool).active_blocks, ==, 1);
  g_assert_cmpuint (get_stats (fixture.pool).peak_managed_bytes, <=, 64 * MIB);
  g_assert_true (tarn_pool_reserve (fixture.pool, 62 * MIB, NULL, NULL));
  assert_not_reserved (fixture.pool, G_MAXSIZE, TARN_ERROR_INVALID_SIZE);
  tarn_block_free (block);
  end (&fixture);
}

/* Where the device has no stretch as large, there are several. */
static void
test_full (gconstpointer kind)
{
  Fixture fixture;
  TarnBlock *block;

  begin (&fixture, (TarnTestingPagesKind) GPOINTER_TO_UINT (kind), NULL);
  tarn_testing_pages_set_budget (fixture.pages, 200 * MIB);
  block = allocate (fixture.pool, 50 * MIB);
  assert_not_reserved (fixture.pool, 180 * MIB, TARN_ERROR_OUT_OF_MEMORY);
  g_assert_cmpuint (get_stats (fixture.pool).active_blocks, ==, 1);
  g_assert_true (tarn_pool_reserve (fixture.pool, 140 * MIB, NULL, NULL));
  tarn_block_free (block);
  end (&fixture);
}

/* If a reservation fails, the heap returns to the device what it allocated for the reservation,
 * even if the queue still has commands. */
static void
check_returned (TarnTestingPagesKind kind, gboolean has_queue)
{
  Fixture fixture;
  gpointer queue;
  TarnBlock *block;
  gsize before;

  begin (&fixture, kind, NULL);
  queue = has_queue ? fixture.queue : NULL;
  tarn_testing_pages_set_budget (fixture.pages, 200 * MIB);
  block = tarn_pool_allocate_ordered (fixture.pool, 50 * MIB, queue, NULL);
  g_assert_nonnull (block);
  if (has_queue)
    tarn_testing_order_put (fixture.order, queue, tarn_block_get_memory (block), 50 * MIB,
                            TARN_TESTING_COMMAND_WRITE, 1);
  before = get_heap_stats (&fixture).upstream_bytes;
  g_assert_false (tarn_pool_reserve (fixture.pool, 180 * MIB, queue, NULL));
  g_assert_cmpuint (get_heap_stats (&fixture).upstream_bytes, <=, before);
  tarn_pool_set_limit_bytes (fixture.pool, 150 * MIB);
  g_assert_false (tarn_pool_reserve (fixture.pool, 130 * MIB, queue, NULL));
  g_assert_cmpuint (get_heap_stats (&fixture).upstream_bytes, <=, before);
  assert_valid (fixture.pool);
  tarn_pool_set_limit_bytes (fixture.pool, 0);
  g_assert_true (tarn_pool_reserve (fixture.pool, 140 * MIB, queue, NULL));
  tarn_block_free (block);
  end (&fixture);
}

static void
test_returned (gconstpointer kind)
{
  check_returned ((TarnTestingPagesKind) GPOINTER_TO_UINT (kind), FALSE);
  check_returned ((TarnTestingPagesKind) GPOINTER_TO_UINT (kind), TRUE);
}

/* Reserves memory in a new pool.  Returns the number of the heap's segments. */
static gsize
count_pieces (TarnTestingPagesKind kind, gsize limit_bytes, gsize bytes)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  Fixture fixture;
  gsize n;

  options.limit_bytes = limit_bytes;
  begin (&fixture, kind, NULL);
  tarn_pool_unref (fixture.pool);
  tarn_allocator_unref (fixture.heap);
  fixture.heap = new_following_heap (&fixture);
  fixture.pool = tarn_pool_new (fixture.heap, &options, NULL);
  reserve (&fixture, bytes, NULL);
  n = get_heap_stats (&fixture).pieces;
  end (&fixture);
  return n;
}

/* Few bytes are no reason for many segments, nor is a low limit. */
static void
test_few_bytes (gconstpointer data)
{
  TarnTestingPagesKind kind = (TarnTestingPagesKind) GPOINTER_TO_UINT (data);

  for (gsize limit = 4096; limit <= MIB; limit *= 2)
    for (gsize bytes = 1; bytes <= limit; bytes = bytes * 3 + 1)
      g_assert_cmpuint (count_pieces (kind, limit, bytes), <=, 1 + bytes / 4096);
  g_assert_cmpuint (count_pieces (kind, 64 * KIB, 64 * KIB), <=, 16);
  g_assert_cmpuint (count_pieces (kind, 0, 1), ==, 1);
}

/* A reservation takes as much memory as it has bytes, and a little. */
static void
test_exact (gconstpointer data)
{
  TarnTestingPagesKind kind = (TarnTestingPagesKind) GPOINTER_TO_UINT (data);
  static const gsize sizes[]
      = { 1, 100 * KIB, 20 * MIB, 64 * MIB + 1, 200 * MIB, 256 * MIB + 3, 300 * MIB, 1000 * MIB };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      Fixture fixture;

      begin (&fixture, kind, NULL);
      reserve (&fixture, sizes[i], NULL);
      g_assert_cmpuint (get_heap_stats (&fixture).upstream_bytes, >=, sizes[i]);
      g_assert_cmpuint (get_heap_stats (&fixture).upstream_bytes, <=, sizes[i] + 4 * MIB);
      end (&fixture);
    }
}

/* 200 MiB serve three requests of 64 MiB, the largest of which several fit into segments. */
static void
test_large_blocks (gconstpointer data)
{
  TarnTestingPagesKind kind = (TarnTestingPagesKind) GPOINTER_TO_UINT (data);
  TarnBlock *blocks[3];
  Fixture fixture;
  gsize before;

  begin (&fixture, kind, NULL);
  reserve (&fixture, 200 * MIB, NULL);
  before = get_heap_stats (&fixture).upstream_bytes;
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = tarn_pool_allocate (fixture.pool, 64 * MIB, NULL);
  g_assert_cmpuint (get_heap_stats (&fixture).upstream_bytes, ==, before);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    tarn_block_free (blocks[i]);
  end (&fixture);
}

/* A device without so many addresses in one stretch has them in several. */
static void
test_stretches (void)
{
  Fixture fixture;

  begin (&fixture, TARN_TESTING_PAGES_VIRTUAL, NULL);
  tarn_testing_pages_set_max_addresses (fixture.pages, 100 * MIB);
  reserve (&fixture, 256 * MIB, fixture.queue);
  g_assert_cmpuint (get_heap_stats (&fixture).free_bytes, >=, 256 * MIB);
  end (&fixture);
}

/* Nor is one stretch needed where memory is only looked for. */
static void
test_debugged_stretches (void)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  Fixture fixture;

  options.debug = "leaks";
  begin (&fixture, TARN_TESTING_PAGES_VIRTUAL, &options);
  tarn_testing_pages_set_max_addresses (fixture.pages, 100 * MIB);
  tarn_testing_pages_set_budget (fixture.pages, 300 * MIB);
  g_assert_true (tarn_pool_reserve (fixture.pool, 256 * MIB, fixture.queue, NULL));
  assert_not_reserved (fixture.pool, 350 * MIB, TARN_ERROR_OUT_OF_MEMORY);
  end (&fixture);
}

/* Reserves memory while a call fails.  TRUE: some call did. */
static gboolean
reserve_failing (TarnTestingPagesKind kind, guint nth, gboolean of_queues, guint *n_errors)
{
  g_autoptr (GError) error = NULL;
  gboolean has_failed;
  Fixture fixture;

  begin (&fixture, kind, NULL);
  if (of_queues)
    tarn_testing_queues_fail (fixture.queues, TARN_TESTING_CALL_ANY, nth, FALSE);
  else
    tarn_testing_pages_fail (fixture.pages, nth, TRUE);
  if (!tarn_pool_reserve (fixture.pool, 80 * MIB, fixture.queue, &error))
    {
      g_assert_nonnull (error);
      ++*n_errors;
    }
  else
    g_assert_no_error (error);
  has_failed = of_queues ? tarn_testing_queues_get_failed (fixture.queues) > 0
                         : tarn_testing_pages_has_failed (fixture.pages);
  tarn_testing_queues_fail (fixture.queues, TARN_TESTING_CALL_ANY, 0, FALSE);
  g_assert_cmpuint (get_stats (fixture.pool).active_blocks, ==, 0);
  end (&fixture);
  return has_failed;
}

/* Each call of the device fails, from one on, and each that is for the queue. */
static void
test_faults (gconstpointer data)
{
  TarnTestingPagesKind kind = (TarnTestingPagesKind) GPOINTER_TO_UINT (data);
  guint n_errors = 0, n_of_queues = 0;

  for (guint nth = 1; reserve_failing (kind, nth, FALSE, &n_errors);)
    nth++;
  for (guint nth = 1; reserve_failing (kind, nth, TRUE, &n_of_queues);)
    nth++;
  g_assert_cmpuint (n_errors, >, 0);
  g_assert_cmpuint (n_of_queues, >, 0);
}

/* Without a heap */

/* A pool holds one block, which serves a request of its size, in any thread. */
static gpointer
allocate_and_free (gpointer pool)
{
  tarn_block_free (allocate (pool, 100000));
  return NULL;
}

static void
test_block (PoolFixture *fixture, gconstpointer unused)
{
  guint calls;

  (void) unused;
  tarn_block_free (allocate (fixture->pool, 100000)); /* so that this thread keeps some */
  tarn_pool_free_held (fixture->pool);
  g_assert_true (tarn_pool_reserve (fixture->pool, 100000, NULL, NULL));
  assert_valid (fixture->pool);
  g_assert_cmpuint (get_stats (fixture->pool).held_blocks, ==, 1);
  calls = tarn_testing_device_get_allocate_calls (fixture->device);
  g_thread_join (g_thread_new ("other", allocate_and_free, fixture->pool));
  g_assert_true (tarn_pool_reserve (fixture->pool, 100000, NULL, NULL));
  g_assert_cmpuint (tarn_testing_device_get_allocate_calls (fixture->device), ==, calls);
}

/* A pool that would not hold it says so. */
static void
test_not_held (PoolFixture *fixture, gconstpointer unused)
{
  (void) unused;
  tarn_pool_set_hold_bytes (fixture->pool, 50000);
  assert_not_reserved (fixture->pool, 100000, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_true (tarn_pool_reserve (fixture->pool, 40000, NULL, NULL));
  g_assert_cmpuint (get_stats (fixture->pool).held_blocks, ==, 1);
  tarn_pool_set_hold_bytes (fixture->pool, 0);
  g_assert_true (tarn_pool_reserve (fixture->pool, 100000, NULL, NULL));
  tarn_pool_free_held (fixture->pool);

  tarn_pool_set_limit_bytes (fixture->pool, 100000); /* a block that can be held has more */
  assert_not_reserved (fixture->pool, 100000, TARN_ERROR_LIMIT);
  tarn_pool_set_limit_bytes (fixture->pool, 0);
  tarn_testing_device_set_budget (fixture->device, 100000);
  assert_not_reserved (fixture->pool, 100000, TARN_ERROR_OUT_OF_MEMORY);
  assert_not_reserved (fixture->pool, 200000, TARN_ERROR_OUT_OF_MEMORY);
  g_assert_cmpuint (get_stats (fixture->pool).managed_bytes, ==, 0);
  tarn_pool_stop_holding (fixture->pool);
  assert_not_reserved (fixture->pool, 1000, TARN_ERROR_INVALID_ARGUMENT);
}

/* A pool that is debugged holds nothing. */
static void
test_debugged (PoolFixture *fixture, gconstpointer unused)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnPool) pool = NULL;

  (void) unused;
  options.debug = "leaks";
  pool = tarn_pool_new (tarn_pool_get_upstream (fixture->pool), &options, NULL);
  g_assert_true (tarn_pool_is_debugged (pool));
  g_assert_true (tarn_pool_reserve (pool, 100000, NULL, NULL));
  g_assert_cmpuint (get_stats (pool).held_blocks, ==, 0);
}

static void
set_up_pool (PoolFixture *fixture, gconstpointer unused)
{
  (void) unused;
  pool_fixture_init (fixture, G_MAXUINT64);
}

static void
add (const gchar *name, GTestDataFunc test)
{
  static const struct
  {
    const gchar *name;
    TarnTestingPagesKind kind;
  } kinds[] = { { "virtual", TARN_TESTING_PAGES_VIRTUAL },
                { "parts", TARN_TESTING_PAGES_PARTS },
                { "addresses", TARN_TESTING_PAGES_ADDRESSES } };

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/core/heap/reserve/%s/%s", name, kinds[i].name);

      g_test_add_data_func (path, GUINT_TO_POINTER (kinds[i].kind), test);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  add ("served", test_served);
  add ("idle", test_idle);
  add ("limit", test_limit);
  add ("full", test_full);
  add ("returned", test_returned);
  add ("few-bytes", test_few_bytes);
  add ("exact", test_exact);
  add ("large-blocks", test_large_blocks);
  add ("faults", test_faults);
  g_test_add_func ("/core/heap/reserve/stretches/virtual", test_stretches);
  g_test_add_func ("/core/heap/reserve/stretches/debugged", test_debugged_stretches);
#define ADD(path, func)                                                                            \
  g_test_add ("/core/reserve/" path, PoolFixture, NULL, set_up_pool, func, pool_fixture_tear_down)
  ADD ("block", test_block);
  ADD ("not-held", test_not_held);
  ADD ("debugged", test_debugged);
  return g_test_run ();
}
