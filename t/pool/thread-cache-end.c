/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What threads keep of a pool for themselves when the pool ends, or the program forks, or there are
 * queues; and everything at random. */

#include "lib/conformance.h"
#include "lib/in-child.h"
#include "lib/order-fixture.h"
#include "lib/players.h"
#include "pool/cache-private.h"

#define SIZE 1023 /* of its bin, the largest */

/* Ends */

/* While other threads that live keep blocks, and have others, which go straight back. */
static void
test_pool_ends (Players *players, gconstpointer unused)
{
  TarnBlock *blocks[N_PLAYERS][3];
  guint slot = players->pool->slot;

  (void) unused;
  for (guint round = 0; round < 5; round++)
    {
      for (guint i = 0; i < N_PLAYERS; i++)
        {
          player_take (&players->players[i], players->pool, SIZE, blocks[i], 3);
          player_keep (&players->players[i], players->pool, 500, 10);
        }
      tarn_pool_unref (players->pool);
      g_assert_cmpuint (tarn_testing_device_get_live (players->device), ==, 3 * N_PLAYERS);
      for (guint i = 0; i < N_PLAYERS; i++)
        {
          player_drop (&players->players[i], blocks[i], 3);
          g_assert_cmpuint (tarn_testing_device_get_live (players->device), ==,
                            3 * (N_PLAYERS - 1 - i));
        }
      players->pool = tarn_pool_new (players->allocator, NULL, NULL);
      g_assert_cmpuint (players->pool->slot, ==, slot);
      if (round % 2 == 0)
        {
          player_end (&players->players[round % N_PLAYERS]);
          player_begin (&players->players[round % N_PLAYERS]);
        }
    }
}

#define N_POOLS 300

static void
unref_pool (gpointer pool)
{
  tarn_pool_unref (pool);
}

/* Used by several threads, and dropped in any order by any of them. */
static void
test_many_pools (Players *players, gconstpointer unused)
{
  TarnPool *pools[N_POOLS];
  TarnBlock *blocks[N_POOLS];
  guint first_slot = players->pool->slot;

  (void) unused;
  for (guint round = 0; round < 3; round++)
    {
      for (guint i = 0; i < N_POOLS; i++)
        {
          pools[i] = tarn_pool_new (players->allocator, NULL, NULL);
          g_assert_cmpuint (pools[i]->slot, <=, first_slot + N_POOLS);
          for (guint j = 0; j < 3; j++)
            player_keep (&players->players[j], pools[i], SIZE << j, 2);
          player_take (&players->players[i % 3], pools[i], 100, &blocks[i], 1);
        }
      for (guint i = 0; i < N_POOLS; i++)
        {
          guint misses = tarn_testing_device_get_allocate_calls (players->device);

          player_keep (&players->players[i % 3], pools[i], SIZE << i % 3, 2);
          g_assert_cmpuint (tarn_testing_device_get_allocate_calls (players->device), ==, misses);
          g_assert_cmpuint (tarn_pool_get_held_blocks (pools[i]), ==, 6);
        }
      for (guint n = N_POOLS; n > 0; n--)
        {
          guint i = (guint) g_test_rand_int_range (0, (gint32) n);
          Player *player = &players->players[g_test_rand_int_range (0, N_PLAYERS)];

          player_run (player, unref_pool, pools[i]);
          if (g_test_rand_bit ())
            tarn_block_free (blocks[i]);
          else
            player_drop (player, &blocks[i], 1);
          pools[i] = pools[n - 1];
          blocks[i] = blocks[n - 1];
        }
      g_assert_cmpuint (tarn_testing_device_get_live (players->device), ==, 0);
    }
}

/* At the very moment when threads end that keep blocks of it. */
static void
test_ends_meet (Players *players, gconstpointer unused)
{
  (void) unused;
  for (guint i = 0; i < 200; i++)
    {
      TarnPool *pool = tarn_pool_new (players->allocator, NULL, NULL);

      player_keep (&players->players[0], pool, SIZE, 3);
      player_keep (&players->players[1], pool, SIZE, 3);
      player_keep (&players->players[1], players->pool, SIZE, 3);
      player_start (&players->players[0], unref_pool, pool);
      player_end (&players->players[1]);
      player_await (&players->players[0]);
      player_begin (&players->players[1]);
    }
}

/* Children */

typedef struct
{
  TarnPool *pool;
  TarnPoolStats stats;
  TarnBlock **blocks; /* N_PLAYERS + 1 */
} Forked;

static void
use_in_child (gpointer data)
{
  Forked *forked = data;
  TarnPoolStats stats;

  for (guint i = 0; i < N_PLAYERS + 1; i++)
    {
      stats = get_stats (forked->pool);
      STEP (1, stats.ignored_frees == i);
      STEP (2, stats.held_blocks == forked->stats.held_blocks);
      STEP (3, stats.active_blocks == forked->stats.active_blocks);
      STEP (4, stats.managed_bytes == forked->stats.managed_bytes);
      STEP (5, stats.active_bytes == forked->stats.active_bytes);
      STEP (6, stats.held_bytes == forked->stats.held_bytes);
      STEP (7, stats.hits == forked->stats.hits && stats.misses == forked->stats.misses);
      STEP (8, stats.peak_managed_bytes == forked->stats.peak_managed_bytes);
      STEP (9, stats.peak_active_bytes >= stats.active_bytes);
      STEP (10, tarn_pool_get_held_blocks (forked->pool) == stats.held_blocks);
      STEP (11, tarn_pool_get_active_blocks (forked->pool) == stats.active_blocks);
      STEP (12, tarn_pool_get_managed_bytes (forked->pool) == stats.managed_bytes);
      STEP (13, tarn_pool_get_active_bytes (forked->pool) == stats.active_bytes);
      tarn_block_free (forked->blocks[i]);
      STEP (14, tarn_pool_allocate (forked->pool, SIZE, NULL) == NULL);
      tarn_pool_free_held (forked->pool);
    }
  tarn_pool_trim (forked->pool, 1);
  tarn_pool_stop_holding (forked->pool);
  STEP (15, get_stats (forked->pool).held_blocks == forked->stats.held_blocks);
  tarn_pool_unref (forked->pool);
}

static void
test_fork (Players *players, gconstpointer unused)
{
  TarnBlock *blocks[N_PLAYERS + 1];
  Forked forked = { players->pool, get_stats (players->pool), blocks };
  guint misses;

  (void) unused;
  for (guint i = 0; i < N_PLAYERS; i++)
    {
      player_keep (&players->players[i], players->pool, (gsize) SIZE << i, 5);
      player_take (&players->players[i], players->pool, ((gsize) SIZE << i) - 1, &blocks[i], 1);
    }
  tarn_block_free (take (players->pool, 100, NULL)); /* this thread, too, keeps something */
  tarn_block_free (take (players->pool, 100, NULL));
  blocks[N_PLAYERS] = take (players->pool, 99, NULL);
  tarn_block_free (take (players->pool, 200, NULL));
  misses = tarn_testing_device_get_allocate_calls (players->device);
  forked.stats = get_stats (players->pool);
  player_keep (&players->players[0], players->pool, SIZE, 3); /* yet to be counted */
  forked.stats.hits += 3;
  in_child (use_in_child, &forked);

  assert_valid (players->pool);
  for (guint i = 0; i < N_PLAYERS; i++)
    {
      player_keep (&players->players[i], players->pool, (gsize) SIZE << i, 4);
      player_drop (&players->players[i], &blocks[i], 1);
    }
  tarn_block_free (blocks[N_PLAYERS]);
  g_assert_cmpuint (tarn_testing_device_get_allocate_calls (players->device), ==, misses);
  g_assert_cmpuint (get_stats (players->pool).ignored_frees, ==, 0);
}

/* Queues */

typedef struct
{
  Order order; /* first */
  Player players[N_PLAYERS];
  gint n_uses; /* atomic */
} Queued;

static void
queued_set_up (Queued *queued, gconstpointer flags)
{
  order_set_up (&queued->order, flags);
  for (guint i = 0; i < N_PLAYERS; i++)
    player_begin (&queued->players[i]);
}

static void
queued_tear_down (Queued *queued, gconstpointer flags)
{
  for (guint i = 0; i < N_PLAYERS; i++)
    player_end (&queued->players[i]);
  order_tear_down (&queued->order, flags);
}

static guint
get_misses (Queued *queued)
{
  return tarn_testing_device_get_allocate_calls (
      tarn_testing_queues_get_device (queued->order.queues));
}

typedef struct
{
  Queued *queued;
  gpointer queue;    /* NULL: the host */
  guint n_rounds, n; /* so many at a time */
} Use;

static void
use_block (Queued *queued, TarnBlock *block, gpointer queue)
{
  TarnMemory memory = tarn_block_get_memory (block);

  tarn_testing_queues_own (queued->order.queues, memory);
  if (queue != NULL)
    tarn_testing_queue_put (queued->order.queues, queue, memory, TARN_TESTING_COMMAND_USE, 0);
  else
    tarn_testing_queues_touch (queued->order.queues, memory);
}

static void
use_queue (gpointer data)
{
  Use *use = data;
  TarnBlock *blocks[10];

  for (guint round = 0; round < use->n_rounds; round++)
    {
      for (guint i = 0; i < use->n; i++)
        {
          blocks[i] = take (use->queued->order.pool, SIZE, use->queue);
          use_block (use->queued, blocks[i], use->queue);
        }
      for (guint i = 0; i < use->n; i++)
        tarn_block_free (blocks[i]);
      g_atomic_int_inc (&use->queued->n_uses);
    }
}

static void
test_one_queue (Queued *queued, gconstpointer unused)
{
  TarnBlock *blocks[8];
  Turn turn = { queued->order.pool, SIZE, queued->order.a, blocks, 8 };
  Use use = { queued, queued->order.a, 3, 8 };

  (void) unused;
  for (guint i = 0; i < 2; i++)
    {
      player_run (&queued->players[i], use_queue, &use);
      player_run_locked (&queued->players[i], queued->order.pool, take_all, &turn);
      for (guint j = 0; j < 8; j++)
        use_block (queued, blocks[j], queued->order.a);
      player_run_locked (&queued->players[i], queued->order.pool, drop_all, &turn);
    }
  g_assert_cmpuint (get_misses (queued), <=, 16); /* each thread's own, at most */
  g_assert_cmpuint (order_get_stats (&queued->order).queue_waits, ==, 0);
}

/* That no thread missed more than its own blocks for either queue, and two others, tells something
 * only where none was taken for idle, as on a machine that is busy with others: what it kept has
 * gone to another one then. */
static void
assert_misses_are_own (Queued *queued, gint64 since)
{
  guint misses = get_misses (queued);

  if (g_get_monotonic_time () - since < TARN_IDLE_TIME)
    g_assert_cmpuint (misses, <=, N_PLAYERS * (10 + 10 + 2));
  else
    g_test_message ("this machine is so busy that threads were idle: %u misses", misses);
}

/* What threads keep when another queue appears was used on the first one: it is not for that
 * queue just so. */
static void
second_queue (Queued *queued, gpointer second)
{
  Order *order = &queued->order;
  Use on_first = { queued, order->a, 2, 10 }, on_second = { queued, second, 2, 10 };
  TarnBlock *mine[N_PLAYERS], *more[N_PLAYERS];
  gint64 start = g_get_monotonic_time ();

  for (guint i = 0; i < N_PLAYERS; i++)
    {
      Turn turn = { order->pool, SIZE, order->a, &more[i], 1 };

      player_run (&queued->players[i], use_queue, &on_first);
      player_run (&queued->players[i], take_all, &turn);
      use_block (queued, more[i], order->a);
    }
  for (guint i = 0; i < G_N_ELEMENTS (mine); i++)
    {
      Turn turn = { order->pool, SIZE, second, &mine[i], 1 };

      /* The last one first: it has taken what the others kept. */
      player_run (&queued->players[N_PLAYERS - 1 - i], take_all, &turn);
      use_block (queued, mine[i], second);
      assert_valid (order->pool);
    }
  for (guint i = 0; i < N_PLAYERS; i++)
    {
      player_drop (&queued->players[i], &more[i], 1);
      player_run (&queued->players[i], use_queue, i % 2 == 0 ? &on_first : &on_second);
    }
  for (guint i = 0; i < G_N_ELEMENTS (mine); i++)
    tarn_block_free (mine[i]);
  tarn_testing_queues_run_all (order->queues);
  for (guint i = 0; i < N_PLAYERS; i++)
    player_run (&queued->players[i], use_queue, i % 2 == 0 ? &on_second : &on_first);
  assert_misses_are_own (queued, start);
  for (guint i = 0; i < N_PLAYERS; i++)
    {
      player_run (&queued->players[i], use_queue, &on_first);
      player_run (&queued->players[i], use_queue, &on_second);
    }
  assert_misses_are_own (queued, start);
}

static void
test_second_queue (Queued *queued, gconstpointer unused)
{
  (void) unused;
  second_queue (queued, queued->order.b);
}

static void
test_host (Queued *queued, gconstpointer unused)
{
  (void) unused;
  second_queue (queued, NULL);
}

/* What was kept while no request named a queue is of no use to the first one that does, unless that
 * is known to use it from then on. */
static void
test_host_first (Queued *queued, gconstpointer unused)
{
  Use uses[3] = { { queued, NULL, 2, 5 },
                  { queued, queued->order.a, 2, 5 },
                  { queued, queued->order.b, 2, 5 } };

  (void) unused;
  for (guint i = 0; i < 3; i++)
    for (guint j = 0; j < N_PLAYERS; j++)
      player_run (&queued->players[j], use_queue, &uses[i]);
}

/* ... also where the thread that kept it is not the one that names the queue first: its next
 * request must not get what nobody says is used. */
static void
test_host_first_elsewhere (Queued *queued, gconstpointer unused)
{
  Order *order = &queued->order;
  Use on_host = { queued, NULL, 1, 5 };
  TarnBlock *blocks[3];

  (void) unused;
  for (guint i = 0; i < N_PLAYERS; i++)
    player_run (&queued->players[i], use_queue, &on_host);
  tarn_block_free (take (order->pool, SIZE, order->a));
  for (guint i = 0; i < N_PLAYERS; i++)
    {
      Turn turn = { order->pool, SIZE, order->a, blocks, G_N_ELEMENTS (blocks) };

      player_run (&queued->players[i], take_all, &turn);
      for (guint j = 0; j < G_N_ELEMENTS (blocks); j++)
        {
          g_assert_true (tarn_block_get_queue (blocks[j]) == order->a);
          tarn_block_free (blocks[j]);
        }
    }
}

/* A queue that is gone; the next one may have its handle. */
static void
test_forget_queue (Queued *queued, gconstpointer unused)
{
  Order *order = &queued->order;
  Use use = { queued, order->a, 2, 5 };

  (void) unused;
  for (guint i = 0; i < N_PLAYERS; i++)
    player_run (&queued->players[i], use_queue, &use);
  g_assert_true (tarn_pool_forget_queue (order->pool, order->a, NULL));
  tarn_testing_queue_destroy (order->queues, order->a);
  use.queue = order->a = tarn_testing_queue_new (order->queues, TRUE);
  for (guint i = 0; i < N_PLAYERS; i++)
    player_run (&queued->players[i], use_queue, &use);
}

/* While others hit. */
static void
test_second_queue_meanwhile (Queued *queued, gconstpointer unused)
{
  Use on_first = { queued, queued->order.a, 300, 3 },
      on_second = { queued, queued->order.b, 30, 3 };

  (void) unused;
  for (guint i = 0; i < N_PLAYERS; i++)
    player_start (&queued->players[i], use_queue, &on_first);
  while (g_atomic_int_get (&queued->n_uses) < 100)
    g_thread_yield ();
  use_queue (&on_second);
  for (guint i = 0; i < N_PLAYERS; i++)
    player_await (&queued->players[i]);
  assert_valid (queued->order.pool);
}

/* Blocks from before there was a queue: a thread does not keep them as if the queue used them, so
 * that who gets them for the queue has blocks that are known to be used there. */
static void
test_host_blocks (Queued *queued, gconstpointer unused)
{
  Order *order = &queued->order;
  TarnBlock *before[20], *after[30];

  (void) unused;
  for (guint i = 0; i < G_N_ELEMENTS (before); i++)
    before[i] = take (order->pool, SIZE, NULL);
  for (guint round = 0; round < 2; round++) /* so that there is room */
    {
      for (guint i = 0; i < G_N_ELEMENTS (after); i++)
        after[i] = order_take (order, SIZE, order->a);
      for (guint i = 0; i < G_N_ELEMENTS (after); i++)
        tarn_block_free (after[i]);
    }
  for (guint i = 0; i < 10; i++)
    after[i] = order_take (order, SIZE, order->a);
  for (guint i = 0; i < G_N_ELEMENTS (before); i++)
    tarn_block_free (before[i]);
  assert_valid (order->pool);
  for (guint i = 10; i < G_N_ELEMENTS (after); i++)
    after[i] = order_take (order, SIZE, order->a);
  for (guint i = 0; i < G_N_ELEMENTS (after); i++)
    tarn_block_free (after[i]);
}

/* Random */

#define N_THREADS 8
#define N_PLACES 100
#define N_SIZES 6

typedef struct
{
  TarnPool *pool;
  gsize sizes[N_SIZES];
  TarnBlock *places[N_PLACES]; /* atomic; where threads leave blocks to one another */
  gint is_over;                /* atomic */
  guint64 n_requests;          /* atomic */
} Stress;

static TarnPool *
random_pool (TarnAllocator *allocator, guint round)
{
  static const guint lengths[] = { 1, 2, 32 };
  static const gsize bytes[] = { 2000, 100000, 1 << 30 };
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;

  options.leading_bits_in_bin_id = g_test_rand_bit () ? 4 : 8;
  options.thread_cache_blocks = lengths[round % 3];
  options.thread_cache_bytes = bytes[g_test_rand_int_range (0, 3)];
  options.limit_bytes = g_test_rand_bit () ? 0 : (gsize) g_test_rand_int_range (200000, 2000000);
  return tarn_pool_new (allocator, &options, NULL);
}

static gpointer
live_shortly (gpointer data)
{
  Stress *stress = data;
  g_autoptr (GRand) rand = g_rand_new ();
  TarnBlock *own[20] = { NULL };
  gint n = g_rand_int_range (rand, 1, 2000);

  for (gint i = 0; i < n && !g_atomic_int_get (&stress->is_over); i++)
    {
      TarnBlock **place = &own[g_rand_int_range (rand, 0, G_N_ELEMENTS (own))];
      gint what = g_rand_int_range (rand, 0, 2000);

      if (what == 0)
        tarn_pool_free_held (stress->pool);
      else if (what == 1)
        tarn_pool_trim (stress->pool, 10000);
      else if (what < 10)
        g_assert_cmpuint (tarn_pool_get_active_blocks (stress->pool), <=,
                          N_PLACES + N_THREADS * G_N_ELEMENTS (own));
      if (*place == NULL)
        {
          __atomic_add_fetch (&stress->n_requests, 1, __ATOMIC_RELAXED);
          *place = tarn_pool_allocate (stress->pool,
                                       stress->sizes[g_rand_int_range (rand, 0, N_SIZES)], NULL);
        }
      else if (what < 500)
        *place = __atomic_exchange_n (&stress->places[g_rand_int_range (rand, 0, N_PLACES)], *place,
                                      __ATOMIC_ACQ_REL);
      else
        tarn_block_free (g_steal_pointer (place));
    }
  for (guint i = 0; i < G_N_ELEMENTS (own); i++)
    tarn_block_free (own[i]);
  return NULL;
}

/* Has threads that live shortly, one at a time. */
static gpointer
have_lives (gpointer data)
{
  Stress *stress = data;

  while (!g_atomic_int_get (&stress->is_over))
    g_thread_join (g_thread_new ("life", live_shortly, stress));
  return NULL;
}

static void
run_at_random (Players *players, guint round)
{
  Stress stress = { .pool = random_pool (players->allocator, round) };
  gint64 end = g_get_monotonic_time () + G_USEC_PER_SEC / 3;
  GThread *threads[N_THREADS];
  TarnPoolStats stats;
  guint n_checks = 0;

  for (guint i = 0; i < N_SIZES; i++)
    stress.sizes[i] = (gsize) g_test_rand_int_range (1, 10000);
  stress.sizes[0] = 1024; /* of bins that have one place in a cache, with eight leading bits */
  stress.sizes[1] = 4096;
  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("lives", have_lives, &stress);
  do
    {
      assert_valid (stress.pool);
      stats = get_stats (stress.pool);
      g_assert_cmpuint (stats.active_blocks + stats.held_blocks, ==,
                        stats.driver_calls - stats.upstream_failures - stats.upstream_frees);
      n_checks++;
      g_usleep (100); /* or the lock is nearly always taken */
    }
  while (g_get_monotonic_time () < end);
  g_atomic_int_set (&stress.is_over, TRUE);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  for (guint i = 0; i < N_PLACES; i++)
    tarn_block_free (stress.places[i]);
  assert_valid (stress.pool);
  stats = get_stats (stress.pool);
  g_test_message ("%" G_GUINT64_FORMAT " hits, %" G_GUINT64_FORMAT " misses, %" G_GUINT64_FORMAT
                  " failures, %u checks",
                  stats.hits, stats.misses, stats.failures, n_checks);
  g_assert_cmpuint (stats.hits + stats.misses + stats.failures, ==, stress.n_requests);
  g_assert_cmpuint (stats.active_bytes, ==, 0);
  g_assert_cmpuint (stats.held_blocks, ==, tarn_testing_device_get_live (players->device));
  g_assert_cmpuint (stats.held_bytes, ==, tarn_testing_device_get_used_bytes (players->device));
  tarn_pool_unref (stress.pool);
}

static void
test_random (Players *players, gconstpointer unused)
{
  (void) unused;
  for (guint round = 0; round < 3; round++)
    run_at_random (players, round);
}

int
main (int argc, char **argv)
{
#define ADD(path, func)                                                                            \
  g_test_add ("/core/thread-cache/" path, Players, NULL, players_set_up, func, players_tear_down)
#define ADD_QUEUED(path, flags, func)                                                              \
  g_test_add ("/core/thread-cache/" path, Queued, GUINT_TO_POINTER (flags), queued_set_up, func,   \
              queued_tear_down)
  g_test_init (&argc, &argv, NULL);
  ADD ("pool-ends", test_pool_ends);
  ADD ("many-pools", test_many_pools);
  ADD ("ends-meet", test_ends_meet);
  ADD ("fork", test_fork);
  ADD_QUEUED ("one-queue", 0, test_one_queue);
  ADD_QUEUED ("host-blocks", 0, test_host_blocks);
  ADD_QUEUED ("second-queue", 0, test_second_queue);
  ADD_QUEUED ("second-queue/events-all", TARN_TESTING_QUEUES_RECORDS_ALL, test_second_queue);
  ADD_QUEUED ("second-queue/meanwhile", 0, test_second_queue_meanwhile);
  ADD_QUEUED ("second-queue/host", 0, test_host);
  ADD_QUEUED ("host-first", 0, test_host_first);
  ADD_QUEUED ("host-first-elsewhere", 0, test_host_first_elsewhere);
  ADD_QUEUED ("forget-queue", TARN_TESTING_QUEUES_RECORDS_ALL, test_forget_queue);
  ADD ("random", test_random);
  return g_test_run ();
}
