/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Pools hold no more than their bound, over a heap and without one, including what threads hold.
 * They free the block first that was held for longest.  The fake sees whether memory is used too
 * early.
 * --seed=SEED, as it is printed, repeats a random run. */

#include <tarn/testing.h>

#include "common/lock-private.h"
#include "heap-fixture.h"
#include "lib/pool-fixture.h"
#include "pool/pool-private.h"

#define N_QUEUES 4
#define N_BLOCKS 24
#define N_WORKERS 3
#define N_OPERATIONS 300
#define MAX_BYTES (MIB + MIB / 2)

/* As documented: a pool over a heap with the default bound lets each thread keep so much beside it.
 */
#define THREAD_BYTES (5 * MIB)

typedef struct
{
  gboolean is_virtual;
  gboolean has_heap;
  guint flags;
} Way;

typedef struct
{
  const Way *way;
  gsize hold_bytes;
  TarnTestingOrder *order; /* NULL: there is no heap */
  TarnTestingQueues *queues;
  TarnAllocator *upstream;
  TarnPool *pool;
} Fixture;

static void
make_heap (Fixture *fixture)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  g_autoptr (TarnAllocator) device = NULL;

  fixture->order
      = tarn_testing_order_new (G_MAXUINT64, fixture->way->is_virtual, fixture->way->flags);
  fixture->queues = tarn_testing_order_get_queues (fixture->order);
  device = tarn_testing_order_allocator_new (fixture->order);
  options.alignment = TARN_TESTING_ORDER_GRANULE;
  fixture->upstream = tarn_heap_allocator_new (device, &options, NULL);
}

static void
make_device (Fixture *fixture)
{
  fixture->order = NULL;
  fixture->queues = tarn_testing_queues_new (G_MAXUINT64, fixture->way->flags);
  fixture->upstream = tarn_testing_queues_allocator_new (fixture->queues);
}

static void
begin (Fixture *fixture, const Way *way, gsize hold_bytes, guint thread_cache_blocks)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;

  fixture->way = way;
  fixture->hold_bytes = hold_bytes;
  if (way->has_heap)
    make_heap (fixture);
  else
    make_device (fixture);
  options.hold_bytes = hold_bytes;
  options.thread_cache_blocks = thread_cache_blocks;
  fixture->pool = tarn_pool_new (fixture->upstream, &options, NULL);
}

static void
end (Fixture *fixture)
{
  g_autofree gchar *fault = tarn_testing_queues_steal_fault (fixture->queues);

  g_assert_cmpstr (fault, ==, NULL);
  tarn_pool_unref (fixture->pool);
  tarn_allocator_unref (fixture->upstream);
  tarn_testing_queues_run_all (fixture->queues);
  if (fixture->order != NULL)
    tarn_testing_order_free (fixture->order);
  else
    tarn_testing_queues_free (fixture->queues);
}

/* Has a queue, or the host (NULL), write to memory of its own from now on. */
static void
use (Fixture *fixture, TarnMemory memory, gsize size, gpointer queue)
{
  TarnTestingCommand command = TARN_TESTING_COMMAND_WRITE;

  if (fixture->order != NULL)
    tarn_testing_order_own (fixture->order, memory, size);
  else
    tarn_testing_queues_own (fixture->queues, memory);
  if (fixture->order != NULL && queue != NULL)
    tarn_testing_order_put (fixture->order, queue, memory, size, command, 1);
  else if (fixture->order != NULL)
    tarn_testing_order_touch (fixture->order, memory, size);
  else if (queue != NULL)
    tarn_testing_queue_put (fixture->queues, queue, memory, command, 1);
  else
    tarn_testing_queues_touch (fixture->queues, memory);
}

/* A block with a command on it, or that the host uses. */
static TarnBlock *
take (Fixture *fixture, gsize size, gpointer queue)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_pool_allocate_ordered (fixture->pool, size, queue, &error);

  g_assert_no_error (error);
  use (fixture, tarn_block_get_memory (block), size, queue);
  return block;
}

/* Allocates blocks of a size. */
static void
take_some (Fixture *fixture, gsize size, TarnBlock **blocks, guint n)
{
  for (guint i = 0; i < n; i++)
    blocks[i] = take (fixture, size, NULL);
}

static void
free_some (TarnBlock **blocks, guint n)
{
  for (guint i = 0; i < n; i++)
    tarn_block_free (blocks[i]);
}

static void
forget (Fixture *fixture, gpointer queue)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (tarn_pool_forget_queue (fixture->pool, queue, &error));
  g_assert_no_error (error);
  tarn_testing_queue_destroy (fixture->queues, queue);
}

/* The most bytes that may be held, with so many threads that have used the pool. */
static gsize
get_bound (Fixture *fixture, guint n_threads)
{
  if (fixture->hold_bytes != 0)
    return fixture->hold_bytes;
  if (!fixture->way->has_heap)
    return G_MAXSIZE;
  return MAX (8 * MIB, get_stats (fixture->pool).managed_bytes / 200) + n_threads * THREAD_BYTES;
}

/* A program makes a queue for each task, and forgets it. */
static void
run_task (Fixture *fixture, guint i)
{
  gpointer queue = tarn_testing_queue_new (fixture->queues, TRUE);
  TarnBlock *blocks[8];

  for (guint round = 0; round < 4; round++)
    {
      for (guint j = 0; j < 8; j++)
        blocks[j] = take (fixture, (1 + (i * 37 + round * 11 + j * 5) % 100) * 10007, queue);
      for (guint j = 0; j < 8; j++)
        tarn_block_free (blocks[j]);
    }
  tarn_testing_queues_run_all (fixture->queues);
  forget (fixture, queue);
}

static void
check_tasks (const Way *way, gsize hold_bytes)
{
  Fixture fixture;

  begin (&fixture, way, hold_bytes, 32);
  for (guint i = 0; i < 100; i++)
    {
      run_task (&fixture, i);
      g_assert_cmpuint (get_stats (fixture.pool).held_bytes, <=, get_bound (&fixture, 0));
      assert_valid (fixture.pool);
    }
  end (&fixture);
}

static void
test_tasks (gconstpointer way)
{
  check_tasks (way, 0);
  check_tasks (way, 1);
  check_tasks (way, MIB);
}

/* Several queues used some blocks, and are done with most of them.  The pool frees those, although
 * it holds older ones whose queue is still busy. */
static void
test_behind_long_work (gconstpointer way)
{
  gpointer queues[2], busy;
  TarnBlock *block;
  Fixture fixture;

  begin (&fixture, way, MIB, 0);
  busy = tarn_testing_queue_new (fixture.queues, TRUE);
  for (guint i = 0; i < 2; i++)
    queues[i] = tarn_testing_queue_new (fixture.queues, TRUE);
  for (guint i = 0; i < 200; i++)
    {
      block = take (&fixture, 100000 + i * 1000, i < 20 ? busy : queues[0]);
      g_assert_true (tarn_block_record_use (block, queues[1], NULL));
      tarn_block_free (block);
      for (guint j = 0; j < 2; j++)
        tarn_testing_queue_run (fixture.queues, queues[j]);
    }
  if (fixture.way->has_heap) /* else the queues wait for the busy one */
    g_assert_cmpuint (get_stats (fixture.pool).held_bytes, <=, 8 * MIB);
  tarn_testing_queues_run_all (fixture.queues);
  tarn_block_free (take (&fixture, 12345, NULL));
  g_assert_cmpuint (get_stats (fixture.pool).held_bytes, <=, MIB);
  end (&fixture);
}

/* Frees blocks that two queues used, of which one is being captured: no event can be recorded
 * there.  The next call that names the queue records one. */
static void
test_captured (gconstpointer way)
{
  TarnBlock *blocks[20];
  gpointer queues[2];
  Fixture fixture;

  begin (&fixture, way, 64 * KIB, 0);
  for (guint i = 0; i < 2; i++)
    queues[i] = tarn_testing_queue_new (fixture.queues, TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    {
      blocks[i] = take (&fixture, 10000 * (i + 1), queues[0]);
      if (i % 2 == 0)
        g_assert_true (tarn_block_record_use (blocks[i], queues[1], NULL));
    }
  tarn_testing_queue_set_capturing (fixture.queues, queues[0], TRUE);
  free_some (blocks, G_N_ELEMENTS (blocks));
  tarn_testing_queue_set_capturing (fixture.queues, queues[0], FALSE);
  assert_valid (fixture.pool);
  tarn_block_free (take (&fixture, 12345, queues[0]));
  tarn_testing_queues_run_all (fixture.queues);
  tarn_block_free (take (&fixture, 54321, NULL));
  g_assert_cmpuint (get_stats (fixture.pool).held_bytes, <=, 64 * KIB);
  assert_valid (fixture.pool);
  end (&fixture);
}

/* Each thread keeps its own part of the bound, and no more. */
typedef struct
{
  Fixture *fixture;
  gpointer queue;
  gsize step;
} Part;

static gpointer
fill_cache (gpointer data)
{
  const Part *part = data;
  TarnBlock *blocks[40];

  for (guint round = 0; round < 3; round++)
    for (guint size = 1; size <= 10; size++)
      {
        for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
          blocks[i] = tarn_pool_allocate_ordered (part->fixture->pool, size * part->step,
                                                  part->queue, NULL);
        for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
          tarn_block_free (blocks[i]);
      }
  return NULL;
}

static void
check_threads (const Way *way, gsize hold_bytes, gboolean has_queues)
{
  GThread *threads[6];
  Part parts[6];
  Fixture fixture;

  begin (&fixture, way, hold_bytes, 32);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    {
      parts[i] = (Part){ &fixture, NULL, (gsize) 1000 << 2 * i };
      if (has_queues)
        parts[i].queue = tarn_testing_queue_new (fixture.queues, TRUE);
      threads[i] = g_thread_new ("filler", fill_cache, &parts[i]);
    }
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
  /* Queues wait for each other's memory where threads really run at a time; and one request frees
   * so many of the blocks that are held until then. */
  tarn_testing_queues_run_all (fixture.queues);
  for (guint i = 0; i < 10; i++)
    tarn_block_free (take (&fixture, 12345, NULL));
  g_assert_cmpuint (get_stats (fixture.pool).held_bytes, <=, get_bound (&fixture, 7));
  assert_valid (fixture.pool);
  end (&fixture);
}

static void
test_threads (gconstpointer way)
{
  const gsize bounds[] = { 0, 1, 64 * KIB, MIB, GIB };

  for (guint i = 0; i < G_N_ELEMENTS (bounds); i++)
    {
      check_threads (way, bounds[i], FALSE);
      check_threads (way, bounds[i], TRUE);
    }
}

/* A single thread may keep enough of the bound for its working set: after some rounds it has no
 * misses. */
static void
test_hits (gconstpointer way)
{
  TarnBlock *blocks[8];
  Fixture fixture;
  guint64 misses = 0;

  begin (&fixture, way, 4 * MIB, 32);
  for (guint round = 0; round < 20; round++)
    {
      if (round == 4)
        misses = get_stats (fixture.pool).misses;
      for (guint i = 0; i < 8; i++)
        blocks[i] = take (&fixture, 50000 * (1 + i % 4), NULL);
      for (guint i = 0; i < 8; i++)
        tarn_block_free (blocks[i]);
    }
  g_assert_cmpuint (get_stats (fixture.pool).misses, ==, misses);
  end (&fixture);
}

/* Bounds that change */

static void
set_bound (Fixture *fixture, gsize hold_bytes)
{
  fixture->hold_bytes = hold_bytes;
  tarn_pool_set_hold_bytes (fixture->pool, hold_bytes);
  g_assert_cmpuint (tarn_pool_get_hold_bytes (fixture->pool), ==, hold_bytes);
  assert_valid (fixture->pool);
}

/* Frees blocks that were used on a queue, by two of them, and by the host. */
static void
hold_all_kinds (Fixture *fixture, const gpointer *queues)
{
  TarnBlock *blocks[60];

  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    {
      blocks[i] = take (fixture, 40000 + i * 1000, i % 3 == 0 ? NULL : queues[i % 2]);
      if (i % 3 == 2)
        g_assert_true (tarn_block_record_use (blocks[i], queues[1], NULL));
    }
  free_some (blocks, G_N_ELEMENTS (blocks));
  assert_valid (fixture->pool);
}

/* Over a heap, threads take memory from its arenas only as long as nobody sets a bound, and then
 * small sizes share blocks. */
static void
assert_is_as_new (Fixture *fixture, guint thread_cache_blocks)
{
  gboolean has_arenas
      = fixture->way->has_heap && fixture->hold_bytes == 0 && thread_cache_blocks > 0;
  TarnBlock *block = take (fixture, 1000, NULL);
  gsize alloc_size = tarn_block_get_alloc_size (block);

  g_assert_cmpint (fixture->pool->has_arenas, ==, has_arenas);
  if (fixture->way->has_heap)
    g_assert_cmpuint (alloc_size, ==, has_arenas ? 1024 : 1000);
  tarn_block_free (block);
}

static void
check_changes (const Way *way, gsize first_bound, guint thread_cache_blocks)
{
  const gsize bounds[] = { 0, 64 * KIB, G_MAXSIZE, 256 * KIB, 0, G_MAXSIZE, 0, MIB, 1, 0 };
  gpointer queues[2];
  Fixture fixture;

  begin (&fixture, way, first_bound, thread_cache_blocks);
  g_assert_cmpuint (tarn_pool_get_hold_bytes (fixture.pool), ==, first_bound);
  assert_is_as_new (&fixture, thread_cache_blocks);
  for (guint i = 0; i < 2; i++)
    queues[i] = tarn_testing_queue_new (fixture.queues, TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (bounds); i++)
    {
      hold_all_kinds (&fixture, queues);
      set_bound (&fixture, bounds[i]);
      g_assert_cmpuint (get_stats (fixture.pool).held_bytes, <=, get_bound (&fixture, 1));
      assert_is_as_new (&fixture, thread_cache_blocks);
      hold_all_kinds (&fixture, queues);
      if (bounds[i] == G_MAXSIZE) /* each is of another size */
        g_assert_cmpuint (get_stats (fixture.pool).held_blocks, >=, 60);
      if (bounds[i] > 200000)
        g_assert_cmpuint (get_stats (fixture.pool).held_blocks, >, 0);
    }
  end (&fixture);
}

/* A lower bound frees what is above it at once, a higher one lets the pool hold more; and all of
 * the three kinds of bounds follow on each other. */
static void
test_changed (gconstpointer way)
{
  const gsize bounds[] = { 0, MIB, G_MAXSIZE };

  for (guint i = 0; i < G_N_ELEMENTS (bounds); i++)
    {
      check_changes (way, bounds[i], 0);
      check_changes (way, bounds[i], 32);
    }
}

/* The blocks that were held for longest go first. */
static void
test_changed_oldest_first (gconstpointer way)
{
  TarnBlock *old[4], *young[4];
  Fixture fixture;
  guint64 misses;

  begin (&fixture, way, 40 * 1024, 0);
  take_some (&fixture, 1000, old, 4);
  take_some (&fixture, 3000, young, 4);
  free_some (old, 4);
  free_some (young, 4);
  set_bound (&fixture, 15 * 1024);
  misses = get_stats (fixture.pool).misses;
  take_some (&fixture, 3000, young, 4);
  g_assert_cmpuint (get_stats (fixture.pool).misses, ==, misses);
  take_some (&fixture, 1000, old, 4);
  g_assert_cmpuint (get_stats (fixture.pool).misses, >, misses);
  free_some (old, 4);
  free_some (young, 4);
  end (&fixture);
}

/* What nobody can tell to be idle stays above the bound, with a message, and goes the next time. */
static void
test_changed_while_captured (gconstpointer data)
{
  const Way *way = data;
  TarnBlock *blocks[8];
  Fixture fixture;
  gpointer queue;

  begin (&fixture, way, G_MAXSIZE, 0);
  queue = tarn_testing_queue_new (fixture.queues, TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = take (&fixture, 10000 * (i + 1), queue);
  free_some (blocks, G_N_ELEMENTS (blocks));
  tarn_testing_queue_set_capturing (fixture.queues, queue, TRUE);
  if (!way->has_heap && way->flags == 0)
    g_test_expect_message ("Tarn", G_LOG_LEVEL_MESSAGE, "*in 8 blocks that may still*");
  set_bound (&fixture, 1);
  g_test_assert_expected_messages ();
  if (!way->has_heap && way->flags == 0)
    g_assert_cmpuint (get_stats (fixture.pool).held_blocks, ==, 8);
  tarn_testing_queue_set_capturing (fixture.queues, queue, FALSE);
  set_bound (&fixture, 1);
  g_assert_cmpuint (get_stats (fixture.pool).held_blocks, ==, 0);
  end (&fixture);
}

/* A pool that is to hold nothing any more does not begin again. */
static void
test_changed_at_end (gconstpointer way)
{
  Fixture fixture;

  begin (&fixture, way, 0, 32);
  tarn_block_free (take (&fixture, 1000, NULL));
  tarn_pool_stop_holding (fixture.pool);
  set_bound (&fixture, MIB);
  tarn_block_free (take (&fixture, 1000, NULL));
  g_assert_cmpuint (get_stats (fixture.pool).held_blocks, ==, 0);
  set_bound (&fixture, 0);
  tarn_block_free (take (&fixture, 1000, NULL));
  g_assert_cmpuint (get_stats (fixture.pool).held_blocks, ==, 0);
  g_assert_false (fixture.pool->has_arenas);
  end (&fixture);
}

static gpointer
change_bounds (gpointer data)
{
  static const gsize bounds[] = { 0, 64 * KIB, G_MAXSIZE, MIB, 1 };
  TarnPool *pool = data;

  for (guint i = 0; i < 100; i++)
    {
      tarn_pool_set_hold_bytes (pool, bounds[i % G_N_ELEMENTS (bounds)]);
      g_thread_yield ();
    }
  return NULL;
}

/* One thread changes the bound while others allocate and free. */
static void
test_changed_meanwhile (gconstpointer way)
{
  GThread *threads[4];
  Part parts[4];
  Fixture fixture;

  begin (&fixture, way, MIB, 32);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    {
      parts[i] = (Part){ &fixture, NULL, (gsize) 1000 << 2 * i };
      if (i % 2 == 0)
        parts[i].queue = tarn_testing_queue_new (fixture.queues, TRUE);
      threads[i] = g_thread_new ("filler", fill_cache, &parts[i]);
    }
  change_bounds (fixture.pool);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
  set_bound (&fixture, 64 * KIB);
  g_assert_cmpuint (get_stats (fixture.pool).held_bytes, <=, 64 * KIB);
  end (&fixture);
}

/* The order in which blocks go */

/* A pool frees the oldest blocks one by one, all of one size, although some of that size went
 * earlier. */
static void
test_oldest_first (gconstpointer way)
{
  TarnBlock *old[6], *later[2], *small, *large;
  Fixture fixture;
  guint64 hits;

  begin (&fixture, way, 10 * 1024, 0);
  take_some (&fixture, 1000, old, 6);
  take_some (&fixture, 2000, later, 2);
  take_some (&fixture, 500, &small, 1);
  take_some (&fixture, 2100, &large, 1);
  free_some (old, 6);
  free_some (later, 2);
  tarn_block_free (small);
  tarn_block_free (large);
  g_assert_cmpuint (get_stats (fixture.pool).held_bytes, <=, 10 * 1024);
  assert_valid (fixture.pool);
  hits = get_stats (fixture.pool).hits;
  take_some (&fixture, 2000, later, 2);
  g_assert_cmpuint (get_stats (fixture.pool).hits, ==, hits + 2);
  take_some (&fixture, 1000, old, 6);
  g_assert_cmpuint (get_stats (fixture.pool).hits, <, hits + 8);
  free_some (old, 6);
  free_some (later, 2);
  end (&fixture);
}

/* Blocks of one size are used again and again, and one below them is not.  It stays as old as it
 * was. */
static void
test_oldest_of_a_size (gconstpointer way)
{
  TarnBlock *blocks[4], *other;
  Fixture fixture;
  guint64 misses;

  begin (&fixture, way, 8 * 1024, 0);
  take_some (&fixture, 1000, blocks, 4);
  take_some (&fixture, 3000, &other, 1);
  free_some (blocks, 4);
  tarn_block_free (other);
  for (guint i = 0; i < 5; i++)
    tarn_block_free (take (&fixture, 1000, NULL));
  tarn_block_free (take (&fixture, 1500, NULL)); /* two of 1,000 bytes go */
  misses = get_stats (fixture.pool).misses;
  tarn_block_free (take (&fixture, 3000, NULL));
  tarn_block_free (take (&fixture, 1000, NULL));
  g_assert_cmpuint (get_stats (fixture.pool).misses, ==, misses);
  end (&fixture);
}

/* What the time is where a test sets it. */
static gint64 test_time = G_TIME_SPAN_SECOND;

static gint64
get_test_time (void)
{
  return test_time;
}

/* A pool frees a block after ten seconds, even if others of its size are used all the time. */
static void
test_cold (gconstpointer data)
{
  const Way *way = data;
  TarnBlock *blocks[8];
  Fixture fixture;

  if (!way->has_heap)
    {
      g_test_skip ("what is held does not expire");
      return;
    }
  tarn_clock_set (get_test_time);
  begin (&fixture, way, 0, 0);
  take_some (&fixture, 30000, blocks, 8);
  free_some (blocks, 8);
  for (guint i = 0; i < 12; i++)
    {
      test_time += G_TIME_SPAN_SECOND + G_TIME_SPAN_SECOND / 2;
      tarn_block_free (take (&fixture, 30000, NULL));
      g_assert_cmpuint (get_stats (fixture.pool).held_blocks, ==, i < 6 ? 8 : 1);
    }
  tarn_clock_set (NULL);
  end (&fixture);
}

/* Random operations */

typedef struct
{
  Fixture fixture;
  GRand *rand;
  gpointer queues[N_QUEUES];
  TarnBlock *live[N_BLOCKS];
  TarnMutex lock;
  TarnCond changed;
  guint turn; /* behind the lock: whose it is, of N_WORKERS + 1; the last is the test's own */
  gboolean is_over;
  gboolean is_changing; /* the bound changes now and then */
} Trace;

typedef struct
{
  Trace *trace;
  guint number;
  GThread *thread;
} Worker;

static guint
below (Trace *trace, guint end)
{
  return (guint) g_rand_int_range (trace->rand, 0, (gint32) end);
}

static gpointer
random_queue (Trace *trace)
{
  return trace->queues[below (trace, N_QUEUES)];
}

static void
replace_queue (Trace *trace)
{
  gpointer *queue = &trace->queues[below (trace, N_QUEUES)];

  if (below (trace, 2) == 0)
    tarn_testing_queue_run (trace->fixture.queues, *queue);
  forget (&trace->fixture, *queue);
  *queue = tarn_testing_queue_new (trace->fixture.queues, TRUE);
}

/* Half of the sizes are a few that come again. */
static gsize
random_size (Trace *trace)
{
  gsize size = (gsize) 1 << below (trace, 20);

  return below (trace, 2) == 0 ? size : size + below (trace, (guint) MIN (size, MAX_BYTES - size));
}

static void
use_live (Trace *trace, TarnBlock **live)
{
  if (below (trace, 4) == 0)
    g_assert_true (tarn_block_record_use (*live, random_queue (trace), NULL));
  else
    g_clear_pointer (live, tarn_block_free);
}

static void
change_bound (Trace *trace)
{
  const gsize bounds[] = { 0, 1, 64 * KIB, MIB, 16 * MIB, G_MAXSIZE };

  set_bound (&trace->fixture, bounds[below (trace, G_N_ELEMENTS (bounds))]);
  g_assert_cmpuint (get_stats (trace->fixture.pool).held_bytes, <=,
                    get_bound (&trace->fixture, N_WORKERS + 1));
}

static void
operate (Trace *trace)
{
  TarnBlock **live = &trace->live[below (trace, N_BLOCKS)];
  guint kind = below (trace, 100);

  if (kind < 3)
    replace_queue (trace);
  else if (kind < 6 && trace->is_changing)
    change_bound (trace);
  else if (kind < 30)
    tarn_testing_queues_run_one (trace->fixture.queues);
  else if (*live != NULL)
    use_live (trace, live);
  else
    *live = take (&trace->fixture, random_size (trace),
                  below (trace, 5) == 0 ? NULL : random_queue (trace));
}

static gboolean
await_turn (Trace *trace, guint turn)
{
  while (trace->turn != turn && !trace->is_over)
    _tarn_cond_wait (&trace->changed, &trace->lock);
  return !trace->is_over;
}

static void
pass_turn (Trace *trace, guint turn)
{
  trace->turn = turn;
  _tarn_cond_broadcast (&trace->changed);
}

/* No lock is held during an operation. */
static gpointer
work (gpointer data)
{
  Worker *worker = data;
  Trace *trace = worker->trace;

  _tarn_mutex_lock (&trace->lock);
  while (await_turn (trace, worker->number))
    {
      _tarn_mutex_unlock (&trace->lock);
      operate (trace);
      _tarn_mutex_lock (&trace->lock);
      pass_turn (trace, N_WORKERS);
    }
  _tarn_mutex_unlock (&trace->lock);
  return NULL;
}

static void
have_turn (Trace *trace)
{
  guint i = below (trace, N_WORKERS + 1);

  if (i == N_WORKERS)
    {
      operate (trace);
      return;
    }
  _tarn_mutex_lock (&trace->lock);
  pass_turn (trace, i);
  await_turn (trace, N_WORKERS);
  _tarn_mutex_unlock (&trace->lock);
}

/* Checks the bound while no call is in flight.  Before that, a request that takes the lock lets the
 * pool ask the driver. */
static void
check_held (Trace *trace, guint operation)
{
  Fixture *fixture = &trace->fixture;
  gsize bound;

  tarn_testing_queues_run_all (fixture->queues);
  tarn_block_free (take (fixture, 2 * MAX_BYTES, NULL));
  bound = get_bound (fixture, N_WORKERS + 1);
  if (get_stats (fixture->pool).held_bytes > bound)
    g_error ("operation %u: %" G_GSIZE_FORMAT " bytes are held, and may be %" G_GSIZE_FORMAT,
             operation, get_stats (fixture->pool).held_bytes, bound);
}

static void
trace_end (Trace *trace, const Worker *workers)
{
  _tarn_mutex_lock (&trace->lock);
  trace->is_over = TRUE;
  _tarn_cond_broadcast (&trace->changed);
  _tarn_mutex_unlock (&trace->lock);
  for (guint i = 0; i < N_WORKERS; i++)
    g_thread_join (workers[i].thread);
  _tarn_cond_clear (&trace->changed);
  _tarn_mutex_clear (&trace->lock);
  for (guint i = 0; i < N_BLOCKS; i++)
    tarn_block_free (trace->live[i]);
  check_held (trace, N_OPERATIONS);
  end (&trace->fixture);
  g_rand_free (trace->rand);
}

static void
run_trace (const Way *way, gsize hold_bytes, gboolean is_changing)
{
  Trace trace = { .rand = g_rand_new_with_seed ((guint32) g_test_rand_int ()),
                  .turn = N_WORKERS,
                  .is_changing = is_changing };
  Worker workers[N_WORKERS];

  begin (&trace.fixture, way, hold_bytes, 32);
  for (guint i = 0; i < N_QUEUES; i++)
    trace.queues[i] = tarn_testing_queue_new (trace.fixture.queues, TRUE);
  _tarn_mutex_init (&trace.lock);
  _tarn_cond_init (&trace.changed);
  for (guint i = 0; i < N_WORKERS; i++)
    {
      workers[i] = (Worker){ .trace = &trace, .number = i };
      workers[i].thread = g_thread_new ("worker", work, &workers[i]);
    }
  for (guint i = 0; i < N_OPERATIONS; i++)
    {
      have_turn (&trace);
      assert_valid (trace.fixture.pool);
      if (below (&trace, 4) == 0)
        check_held (&trace, i);
    }
  trace_end (&trace, workers);
}

static void
test_random (gconstpointer way)
{
  const gsize bounds[] = { 0, 1, 64 * KIB, MIB, 16 * MIB };

  for (guint i = 0; i < G_N_ELEMENTS (bounds); i++)
    run_trace (way, bounds[i], FALSE);
}

static void
test_random_changes (gconstpointer way)
{
  const gsize bounds[] = { 0, MIB, G_MAXSIZE };

  for (guint i = 0; i < G_N_ELEMENTS (bounds); i++)
    run_trace (way, bounds[i], TRUE);
}

static void
add (const gchar *name, void (*test) (gconstpointer way))
{
  static const struct
  {
    const gchar *name;
    Way way;
  } ways[] = { { "virtual", { TRUE, TRUE, 0 } },
               { "virtual/events-all", { TRUE, TRUE, TARN_TESTING_QUEUES_RECORDS_ALL } },
               { "parts", { FALSE, TRUE, 0 } },
               { "parts/frees-in-order", { FALSE, TRUE, TARN_TESTING_QUEUES_FREES_IN_ORDER } },
               { "no-heap", { FALSE, FALSE, 0 } },
               { "no-heap/events-all", { FALSE, FALSE, TARN_TESTING_QUEUES_RECORDS_ALL } },
               { "no-heap/frees-in-order", { FALSE, FALSE, TARN_TESTING_QUEUES_FREES_IN_ORDER } } };

  for (gsize i = 0; i < G_N_ELEMENTS (ways); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/core/heap/hold/%s/%s", name, ways[i].name);

      g_test_add_data_func (path, &ways[i].way, test);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  add ("tasks", test_tasks);
  add ("behind-long-work", test_behind_long_work);
  add ("captured", test_captured);
  add ("threads", test_threads);
  add ("hits", test_hits);
  add ("changed", test_changed);
  add ("changed-oldest-first", test_changed_oldest_first);
  add ("changed-while-captured", test_changed_while_captured);
  add ("changed-at-end", test_changed_at_end);
  add ("changed-meanwhile", test_changed_meanwhile);
  add ("oldest-first", test_oldest_first);
  add ("oldest-of-a-size", test_oldest_of_a_size);
  add ("cold", test_cold);
  add ("random", test_random);
  add ("random-changes", test_random_changes);
  return g_test_run ();
}
