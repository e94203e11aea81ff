/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Programs that are recorded, for tarn-bench to replay: record-program KIND FILE.  What they ask
 * for is random, and the same each time; devices are tables. */

#include <stdlib.h>
#include <tarn/testing.h>

#include "common/lock-private.h"

#define KIB ((gsize) 1 << 10)
#define MIB ((gsize) 1 << 20)
#define N_SLOTS 64
#define N_STEPS 6000
#define N_THREADS 3

static gboolean
is_failing (const GError *error)
{
  return g_error_matches (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY)
         || g_error_matches (error, TARN_ERROR, TARN_ERROR_LIMIT);
}

static TarnBlock *
ask (TarnPool *pool, gsize size, gpointer queue)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_pool_allocate_ordered (pool, size, queue, &error);

  g_assert_true (error == NULL || is_failing (error));
  return block;
}

/* From 1 byte to 4 MiB, as many of each power of two. */
static gsize
choose_size (GRand *rand)
{
  return (gsize) 1 << g_rand_int_range (rand, 0, 22) | (gsize) g_rand_int_range (rand, 0, 4096);
}

/* Now and then another limit, or less that is held. */
static void
bother (TarnPool *pool, GRand *rand, guint step)
{
  if (step % 701 == 700)
    tarn_pool_set_limit_bytes (pool, (gsize) g_rand_int_range (rand, 8, 24) * MIB);
  if (step % 499 == 498)
    tarn_pool_trim (pool, (gsize) g_rand_int_range (rand, 0, 8) * MIB);
}

/* Leaves some blocks in use. */
static void
use_pool (TarnPool *pool, TarnBlock **blocks, guint seed)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (seed);

  for (guint i = 0; i < N_STEPS; i++)
    {
      guint slot = (guint) g_rand_int_range (rand, 0, N_SLOTS);

      if (blocks[slot] != NULL)
        g_clear_pointer (&blocks[slot], tarn_block_free);
      else
        blocks[slot] = ask (pool, choose_size (rand), NULL);
      bother (pool, rand, i);
    }
}

static void
free_all (TarnBlock **blocks, gsize n)
{
  for (gsize i = 0; i < n; i++)
    g_clear_pointer (&blocks[i], tarn_block_free);
}

static void
start (const gchar *path)
{
  g_autoptr (GError) error = NULL;

  if (!tarn_trace_start (path, NULL, &error))
    g_error ("%s", error->message);
}

static void
stop (void)
{
  g_autoptr (GError) error = NULL;

  if (!tarn_trace_stop (&error))
    g_error ("%s", error->message);
}

/* A pool with bins, over memory that runs out. */
static void
record_bins (const gchar *path)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (20 * MIB);
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnAllocator) allocator = NULL;
  g_autoptr (TarnPool) pool = NULL;
  TarnBlock *blocks[N_SLOTS] = { NULL };

  start (path);
  allocator = tarn_testing_device_allocator_new (device);
  options.leading_bits_in_bin_id = 2;
  options.thread_cache_blocks = 3;
  options.name = "bins";
  pool = tarn_pool_new (allocator, &options, NULL);
  use_pool (pool, blocks, 1);
  stop ();
  free_all (blocks, N_SLOTS);
}

/* Two pools over a heap; one of them ends. */
static void
record_heap (const gchar *path, TarnTestingPagesKind kind)
{
  g_autoptr (TarnTestingPages) pages = tarn_testing_pages_new (48 * MIB, kind);
  TarnHeapOptions heap_options = TARN_HEAP_OPTIONS_INIT;
  TarnPoolOptions pool_options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnAllocator) allocator = NULL, heap = NULL;
  g_autoptr (TarnPool) first = NULL, second = NULL;
  TarnBlock *blocks[2 * N_SLOTS] = { NULL };

  start (path);
  allocator = tarn_testing_pages_allocator_new (pages);
  heap_options.growth_bytes = 4 * MIB;
  heap_options.alignment = 1024;
  heap_options.follows_pool_limit = TRUE;
  heap = tarn_heap_allocator_new (allocator, &heap_options, NULL);
  first = tarn_pool_new (heap, NULL, NULL);
  use_pool (first, blocks, 2);
  pool_options.hold_bytes = 6 * MIB;
  second = tarn_pool_new (heap, &pool_options, NULL);
  use_pool (second, blocks + N_SLOTS, 3);
  free_all (blocks, N_SLOTS);
  g_clear_pointer (&first, tarn_pool_unref);
  stop ();
  free_all (blocks, 2 * N_SLOTS);
}

/* Two allocators with the memory of one device. */
static void
record_shared (const gchar *path)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (30 * MIB);
  TarnPool *pools[2];
  TarnBlock *blocks[2][N_SLOTS] = { { NULL } };

  start (path);
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);

      pools[i] = tarn_pool_new (allocator, NULL, NULL);
    }
  for (guint i = 0; i < 10; i++)
    use_pool (pools[i % 2], blocks[i % 2], i);
  stop ();
  for (guint i = 0; i < 2; i++)
    {
      free_all (blocks[i], N_SLOTS);
      tarn_pool_unref (pools[i]);
    }
}

/* A heap that gives back what is idle for a second, while the program goes on with less. */
static void
record_time (const gchar *path)
{
  g_autoptr (TarnTestingPages) pages = tarn_testing_pages_new (64 * MIB, TARN_TESTING_PAGES_PARTS);
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  g_autoptr (TarnAllocator) allocator = NULL, heap = NULL;
  g_autoptr (TarnPool) pool = NULL;

  start (path);
  allocator = tarn_testing_pages_allocator_new (pages);
  options.growth_bytes = MIB;
  options.idle_seconds = 1;
  heap = tarn_heap_allocator_new (allocator, &options, NULL);
  pool = tarn_pool_new (heap, NULL, NULL);
  for (gsize i = 0; i < 1500; i++)
    {
      tarn_block_free (ask (pool, i < 500 ? (2 + i % 7) * MIB : MIB + i % 50 * 4 * KIB, NULL));
      g_usleep (2 * G_TIME_SPAN_MILLISECOND);
    }
  stop ();
}

/* Recording begins while blocks are in use. */
static void
record_late (const gchar *path)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = tarn_pool_new (allocator, NULL, NULL);
  TarnBlock *blocks[N_SLOTS] = { NULL };

  use_pool (pool, blocks, 4);
  start (path);
  use_pool (pool, blocks, 5);
  stop ();
  free_all (blocks, N_SLOTS);
}

/* One block, which a heap would have to get in one call, too. */
static void
record_one (const gchar *path)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = NULL;
  g_autoptr (TarnPool) pool = NULL;
  TarnBlock *block;

  start (path);
  allocator = tarn_testing_device_allocator_new (device);
  pool = tarn_pool_new (allocator, NULL, NULL);
  block = tarn_pool_allocate (pool, 100 * MIB, NULL);
  stop ();
  tarn_block_free (block);
}

/* One thread and three queues, which run at random. */
static void
record_queues (const gchar *path)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (6);
  TarnTestingQueues *queues = tarn_testing_queues_new (G_MAXUINT64, 0);
  TarnAllocator *allocator;
  TarnBlock *blocks[N_SLOTS] = { NULL };
  gpointer queue[3];
  TarnPool *pool;

  start (path);
  allocator = tarn_testing_queues_allocator_new (queues);
  pool = tarn_pool_new (allocator, NULL, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (queue); i++)
    queue[i] = tarn_testing_queue_new (queues, TRUE);
  for (guint i = 0; i < N_STEPS; i++)
    {
      guint slot = (guint) g_rand_int_range (rand, 0, N_SLOTS);
      gpointer chosen = queue[g_rand_int_range (rand, 0, G_N_ELEMENTS (queue))];

      if (blocks[slot] != NULL && g_rand_boolean (rand))
        {
          tarn_block_record_use (blocks[slot], chosen, NULL);
          tarn_testing_queue_put (queues, chosen, tarn_block_get_memory (blocks[slot]),
                                  TARN_TESTING_COMMAND_USE, 0);
        }
      if (blocks[slot] != NULL)
        g_clear_pointer (&blocks[slot], tarn_block_free);
      else
        blocks[slot] = ask (pool, (gsize) 1 << g_rand_int_range (rand, 12, 15), chosen);
      if (g_rand_int_range (rand, 0, 4) == 0)
        tarn_testing_queue_run (queues, chosen);
    }
  stop ();
  free_all (blocks, N_SLOTS);
  tarn_testing_queues_run_all (queues);
  tarn_pool_unref (pool);
  tarn_allocator_unref (allocator);
  tarn_testing_queues_free (queues);
}

/* Threads that free what others have allocated. */

typedef struct
{
  TarnMutex lock;
  GQueue blocks;
} Exchange;

static void
hand_on (Exchange *exchange, TarnBlock *block)
{
  _tarn_mutex_lock (&exchange->lock);
  g_queue_push_head (&exchange->blocks, block);
  _tarn_mutex_unlock (&exchange->lock);
}

/* NULL: there is none. */
static TarnBlock *
take_over (Exchange *exchange)
{
  TarnBlock *block;

  _tarn_mutex_lock (&exchange->lock);
  block = g_queue_pop_tail (&exchange->blocks);
  _tarn_mutex_unlock (&exchange->lock);
  return block;
}

typedef struct
{
  TarnPool *pool;
  Exchange *exchange;
  guint seed;
  TarnBlock *blocks[N_SLOTS];
} Worker;

static gpointer
work (gpointer data)
{
  Worker *worker = data;
  g_autoptr (GRand) rand = g_rand_new_with_seed (worker->seed);

  for (guint i = 0; i < N_STEPS; i++)
    {
      TarnBlock **block = &worker->blocks[g_rand_int_range (rand, 0, N_SLOTS)];

      if (*block == NULL)
        *block = ask (worker->pool, choose_size (rand), NULL);
      else if (g_rand_boolean (rand))
        hand_on (worker->exchange, g_steal_pointer (block));
      else
        g_clear_pointer (block, tarn_block_free);
      if (g_rand_boolean (rand))
        tarn_block_free (take_over (worker->exchange));
    }
  return NULL;
}

static void
record_threads (const gchar *path)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = NULL;
  g_autoptr (TarnPool) pool = NULL;
  Exchange exchange = { .blocks = G_QUEUE_INIT };
  Worker workers[N_THREADS];
  GThread *threads[N_THREADS];
  TarnBlock *block;

  _tarn_mutex_init (&exchange.lock);
  start (path);
  allocator = tarn_testing_device_allocator_new (device);
  pool = tarn_pool_new (allocator, NULL, NULL);
  for (guint i = 0; i < N_THREADS; i++)
    {
      workers[i] = (Worker){ .pool = pool, .exchange = &exchange, .seed = i };
      threads[i] = g_thread_new ("worker", work, &workers[i]);
    }
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  stop ();
  for (guint i = 0; i < N_THREADS; i++)
    free_all (workers[i].blocks, N_SLOTS);
  while ((block = take_over (&exchange)) != NULL)
    tarn_block_free (block);
  _tarn_mutex_clear (&exchange.lock);
}

gint
main (gint argc, gchar **argv)
{
  const gchar *kind = argc >= 3 ? argv[1] : "";
  gchar *options[] = { argv[0], (gchar *) "--seed=R02S00000000000000000000000000000001", NULL };
  gchar **test = options;
  gint n_options = 2;

  g_test_init (&n_options, &test, NULL); /* the fake queues choose at random */
  if (g_str_equal (kind, "bins"))
    record_bins (argv[2]);
  else if (g_str_equal (kind, "virtual"))
    record_heap (argv[2], TARN_TESTING_PAGES_VIRTUAL);
  else if (g_str_equal (kind, "parts"))
    record_heap (argv[2], TARN_TESTING_PAGES_PARTS);
  else if (g_str_equal (kind, "addresses"))
    record_heap (argv[2], TARN_TESTING_PAGES_ADDRESSES);
  else if (g_str_equal (kind, "shared"))
    record_shared (argv[2]);
  else if (g_str_equal (kind, "time"))
    record_time (argv[2]);
  else if (g_str_equal (kind, "late"))
    record_late (argv[2]);
  else if (g_str_equal (kind, "one"))
    record_one (argv[2]);
  else if (g_str_equal (kind, "queues"))
    record_queues (argv[2]);
  else if (g_str_equal (kind, "threads"))
    record_threads (argv[2]);
  else
    g_error ("usage: record-program "
             "bins|virtual|parts|addresses|shared|time|late|one|queues|threads FILE");
  return EXIT_SUCCESS;
}
