/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The number by which a program learns that memory of a pool went back: as long as it is the same,
 * all memory that the pool has handed out since is there, whoever has it now.  --seed=SEED, as it
 * is printed, brings a random run back. */

#include <tarn/testing.h>

#include "heap-fixture.h"
#include "lib/pool-fixture.h"

#define N_QUEUES 3
#define N_BLOCKS 24
#define N_OPERATIONS 3000
#define MAX_BYTES (3 * MIB)

/* The fake's clock, for memory that is idle for long. */
static gint64 now = G_TIME_SPAN_HOUR;

static gint64
get_time (void)
{
  return now;
}

/* Without a heap */

/* The number is the same as long as blocks are only held and taken again, and another one whenever
 * something goes back. */
static void
test_blocks (PoolFixture *fixture, gconstpointer unused)
{
  guint64 first = tarn_pool_get_generation (fixture->pool), last;
  TarnBlock *block;

  (void) unused;
  tarn_pool_free_held (fixture->pool); /* which holds nothing */
  for (gsize size = 1; size <= MIB; size *= 2)
    for (guint i = 0; i < 3; i++)
      tarn_block_free (allocate (fixture->pool, size));
  g_assert_cmpuint (tarn_pool_get_generation (fixture->pool), ==, first);

  tarn_pool_trim (fixture->pool, MIB);
  last = tarn_pool_get_generation (fixture->pool);
  g_assert_cmpuint (last, !=, first);
  tarn_pool_trim (fixture->pool, MIB); /* which is no more than it holds */
  g_assert_cmpuint (tarn_pool_get_generation (fixture->pool), ==, last);

  block = allocate (fixture->pool, 100);
  tarn_pool_stop_holding (fixture->pool);
  last = tarn_pool_get_generation (fixture->pool);
  tarn_block_free (block);
  g_assert_cmpuint (tarn_pool_get_generation (fixture->pool), !=, last);
}

typedef struct
{
  PoolFixture *fixture;
  guint64 seen;
} FreeHook;

static void
note_generation (gpointer data)
{
  FreeHook *hook = data;

  hook->seen = tarn_pool_get_generation (hook->fixture->pool);
}

/* It is another one before the driver has the memory, so that nobody takes memory for there that is
 * just going. */
static void
test_before (PoolFixture *fixture, gconstpointer unused)
{
  guint64 first = tarn_pool_get_generation (fixture->pool);
  FreeHook hook = { fixture, first };

  (void) unused;
  tarn_testing_device_set_free_hook (fixture->device, note_generation, &hook);
  tarn_block_free (allocate (fixture->pool, 1000));
  tarn_pool_free_held (fixture->pool);
  g_assert_cmpuint (hook.seen, !=, first);
  tarn_testing_device_set_free_hook (fixture->device, NULL, NULL);
}

static void
set_up_pool (PoolFixture *fixture, gconstpointer unused)
{
  (void) unused;
  pool_fixture_init (fixture, G_MAXUINT64);
}

/* Over a heap, from which pools have one number */

static void
test_two_pools (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = tarn_pool_new (fixture->heap, NULL, NULL);
  g_autoptr (TarnPool) other = tarn_pool_new (fixture->heap, NULL, NULL);
  guint64 first = tarn_pool_get_generation (pool);

  (void) unused;
  for (guint i = 0; i < 10; i++)
    tarn_block_free (allocate (pool, 3 * MIB + i * 100 * KIB));
  g_assert_cmpuint (tarn_pool_get_generation (pool), ==, first);
  tarn_pool_free_held (other);
  g_assert_cmpuint (heap_get_stats (fixture).pieces, ==, 0);
  g_assert_cmpuint (tarn_pool_get_generation (pool), !=, first);
  g_assert_cmpuint (tarn_pool_get_generation (pool), ==, tarn_pool_get_generation (other));
}

/* Memory that nobody has used for long goes back in some other request. */
static void
test_idle (HeapFixture *fixture, gconstpointer unused)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnPool) pool = NULL;
  g_autoptr (TarnBlock) small = NULL;
  guint64 first;

  (void) unused;
  tarn_clock_set (get_time);
  options.thread_cache_blocks = 0; /* each request comes to the heap */
  pool = tarn_pool_new (fixture->heap, &options, NULL);
  small = allocate (pool, 100);
  first = tarn_pool_get_generation (pool);
  tarn_block_free (allocate (pool, 64 * MIB));
  for (guint i = 0; i < 3; i++)
    tarn_block_free (allocate (pool, 1000));
  g_assert_cmpuint (tarn_pool_get_generation (pool), ==, first);
  for (guint i = 0; i < 3; i++)
    {
      now += 60 * G_TIME_SPAN_SECOND;
      tarn_block_free (allocate (pool, (i + 1) * 2000));
    }
  tarn_clock_set (NULL);
  g_assert_cmpuint (heap_get_stats (fixture).upstream_frees, >, 0);
  g_assert_cmpuint (tarn_pool_get_generation (pool), !=, first);
}

/* Random operations */

typedef struct
{
  TarnMemory memory;
  gsize size;
  guint64 generation; /* before it was allocated */
} Kept;

typedef struct
{
  TarnTestingOrder *order;
  TarnTestingPages *pages;
  TarnTestingQueues *queues;
  TarnAllocator *heap;
  TarnPool *pool;
  gpointer all[N_QUEUES];
  TarnBlock *live[N_BLOCKS];
  GArray *kept; /* of Kept: whatever was handed out since the number changed last */
  guint n_changes;
} Trace;

/* All memory that was handed out since the number became what it is can be used. */
static void
check_kept (Trace *trace)
{
  guint64 generation = tarn_pool_get_generation (trace->pool);

  for (guint i = 0; i < trace->kept->len; i++)
    {
      const Kept *kept = &g_array_index (trace->kept, Kept, i);

      if (kept->generation == generation)
        {
          g_assert_true (tarn_testing_pages_is_usable (trace->pages, kept->memory, kept->size));
          continue;
        }
      g_array_remove_index_fast (trace->kept, i--);
      trace->n_changes++;
    }
}

static void
allocate_one (Trace *trace, TarnBlock **block)
{
  guint i = (guint) g_test_rand_int_range (0, N_QUEUES + 1);
  gpointer queue = i < N_QUEUES ? trace->all[i] : NULL;
  Kept kept = { .generation = tarn_pool_get_generation (trace->pool) };

  kept.size = (gsize) g_test_rand_int_range (1, MAX_BYTES);
  *block = tarn_pool_allocate_ordered (trace->pool, kept.size, queue, NULL);
  if (*block == NULL)
    return;
  kept.memory = tarn_block_get_memory (*block);
  g_array_append_val (trace->kept, kept);
  tarn_testing_order_own (trace->order, kept.memory, kept.size);
  if (queue != NULL)
    tarn_testing_order_put (trace->order, queue, kept.memory, kept.size, TARN_TESTING_COMMAND_WRITE,
                            1);
}

static void
step (Trace *trace)
{
  TarnBlock **block = &trace->live[g_test_rand_int_range (0, N_BLOCKS)];

  if (g_test_rand_int_range (0, 300) == 0)
    tarn_pool_free_held (trace->pool);
  else if (g_test_rand_int_range (0, 100) == 0)
    now += 4 * G_TIME_SPAN_SECOND;
  else if (g_test_rand_int_range (0, 4) == 0)
    tarn_testing_queues_run_one (trace->queues);
  else if (*block == NULL)
    allocate_one (trace, block);
  else
    tarn_block_free (g_steal_pointer (block));
}

static void
run (TarnTestingPagesKind kind, guint64 budget)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  g_autoptr (TarnAllocator) device = NULL;
  Trace trace = { .kept = g_array_new (FALSE, FALSE, sizeof (Kept)) };

  trace.order = tarn_testing_order_new (budget, kind, 0);
  trace.pages = tarn_testing_order_get_pages (trace.order);
  trace.queues = tarn_testing_order_get_queues (trace.order);
  device = tarn_testing_order_allocator_new (trace.order);
  options.alignment = TARN_TESTING_ORDER_GRANULE;
  trace.heap = tarn_heap_allocator_new (device, &options, NULL);
  trace.pool = tarn_pool_new (trace.heap, NULL, NULL);
  for (guint i = 0; i < N_QUEUES; i++)
    trace.all[i] = tarn_testing_queue_new (trace.queues, TRUE);
  for (guint i = 0; i < N_OPERATIONS; i++)
    {
      step (&trace);
      check_kept (&trace);
    }
  g_test_message ("%u pieces of memory were there before a change", trace.n_changes);
  g_assert_cmpuint (trace.n_changes, >, 0);
  for (guint i = 0; i < N_BLOCKS; i++)
    tarn_block_free (trace.live[i]);
  tarn_testing_queues_run_all (trace.queues);
  tarn_pool_unref (trace.pool);
  tarn_allocator_unref (trace.heap);
  g_array_unref (trace.kept);
  tarn_allocator_unref (g_steal_pointer (&device));
  tarn_testing_order_free (trace.order);
}

static void
test_random (gconstpointer kind)
{
  tarn_clock_set (get_time);
  run (GPOINTER_TO_UINT (kind), G_MAXUINT64);
  run (GPOINTER_TO_UINT (kind), 24 * MIB);
  tarn_clock_set (NULL);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(path, func)                                                                            \
  g_test_add ("/core/generation/" path, PoolFixture, NULL, set_up_pool, func,                      \
              pool_fixture_tear_down)
  ADD ("blocks", test_blocks);
  ADD ("before", test_before);
  heap_add ("generation/two-pools", test_two_pools);
  heap_add ("generation/idle", test_idle);
  g_test_add_data_func ("/core/heap/virtual/generation/random",
                        GUINT_TO_POINTER (TARN_TESTING_PAGES_VIRTUAL), test_random);
  g_test_add_data_func ("/core/heap/addresses/generation/random",
                        GUINT_TO_POINTER (TARN_TESTING_PAGES_ADDRESSES), test_random);
  return g_test_run ();
}
