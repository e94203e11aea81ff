/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What threads keep of a pool for themselves: that nobody else can tell, and that nothing is lost
 * by it.  thread-cache-end.c: ends of pools, children, queues; threads at random. */

#include "lib/conformance.h"
#include "lib/players.h"
#include "pool/cache-private.h"

#define SIZE 1023 /* of its bin, the largest */
#define MANY ((gsize) -1)

typedef Players Fixture;

static void
test_no_lock (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[32], *others[32];
  Turn turn = { fixture->pool, 1000, NULL, blocks, 32 };
  Player *first = &fixture->players[0], *second = &fixture->players[1];

  (void) unused;
  player_keep (first, fixture->pool, SIZE, 32);
  player_keep (first, fixture->pool, SIZE, 32);
  for (guint i = 0; i < 3; i++)
    {
      player_run_locked (first, fixture->pool, take_all, &turn);
      player_run_locked (first, fixture->pool, drop_all, &turn);
    }
  /* Freed by another thread, which keeps them then, as it has kept as many before. */
  player_take (first, fixture->pool, SIZE, blocks, 32);
  player_keep (second, fixture->pool, SIZE, 32);
  player_take (second, fixture->pool, SIZE, others, 32);
  player_run_locked (second, fixture->pool, drop_all, &turn);
  player_run_locked (second, fixture->pool, take_all, &turn);
  g_assert_cmpuint (players_get_misses (fixture), ==, 64);
  g_assert_cmpuint (get_stats (fixture->pool).hits, ==, 32 * 7);
  g_assert_cmpuint (tarn_pool_get_active_bytes (fixture->pool), ==, 32 * (1000 + SIZE));
  player_drop (second, blocks, 32);
  player_drop (second, others, 32);
}

#define N_POWERS 16
#define N_ROWS 100

typedef struct
{
  TarnPool *pool;
  gboolean are_rows; /* sizes are multiples of 64 KiB, else powers of two */
  TarnBlock *blocks[N_ROWS];
} Sizes;

static guint
count_sizes (const Sizes *sizes)
{
  return sizes->are_rows ? N_ROWS : N_POWERS;
}

static void
take_sizes (gpointer data)
{
  Sizes *sizes = data;

  for (guint i = 0; i < count_sizes (sizes); i++)
    sizes->blocks[i]
        = take (sizes->pool, sizes->are_rows ? (gsize) (i + 1) << 16 : (gsize) 16 << i, NULL);
}

static void
drop_sizes (gpointer data)
{
  Sizes *sizes = data;

  for (guint i = 0; i < count_sizes (sizes); i++)
    tarn_block_free (sizes->blocks[i]);
}

/* Where all sizes have bins of their own, the round ones that programs like do not share a few
 * places in a thread's cache. */
static void
test_round_sizes (Fixture *fixture, gconstpointer unused)
{
  static const guint n_bits[] = { 4, 5, 8, 16, 26 };

  (void) unused;
  for (guint i = 0; i < 2 * G_N_ELEMENTS (n_bits); i++)
    {
      TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
      g_autoptr (TarnPool) pool = NULL;
      Sizes sizes = { .are_rows = i % 2 != 0 };

      options.leading_bits_in_bin_id = n_bits[i / 2];
      pool = sizes.pool = tarn_pool_new (fixture->allocator, &options, NULL);
      player_run (&fixture->players[0], take_sizes, &sizes);
      player_run (&fixture->players[0], drop_sizes, &sizes);
      if (sizes.are_rows && n_bits[i / 2] == 4) /* there are 16 bins for 50 of them */
        continue;
      player_run_locked (&fixture->players[0], pool, take_sizes, &sizes);
      player_run_locked (&fixture->players[0], pool, drop_sizes, &sizes);
    }
}

/* Counters */

typedef struct
{
  TarnTestingDevice *device;
  TarnPool *pool;
  GRand *rand;
  GPtrArray *active;
  gsize active_bytes, alloc_bytes; /* of them */
  gsize peak_managed, peak_active;
  guint64 requests;
} Model;

static void
model_take (Model *model)
{
  static const gsize sizes[] = { 1, 1000, 1023, 1024, 4000, 4 << 8, 70000 };
  TarnBlock *block
      = take (model->pool, sizes[g_rand_int_range (model->rand, 0, G_N_ELEMENTS (sizes))], NULL);

  g_ptr_array_add (model->active, block);
  model->requests++;
  model->active_bytes += tarn_block_get_size (block);
  model->alloc_bytes += tarn_block_get_alloc_size (block);
  model->peak_active = MAX (model->peak_active, model->active_bytes);
  model->peak_managed
      = MAX (model->peak_managed, (gsize) tarn_testing_device_get_used_bytes (model->device));
}

static void
model_drop (Model *model)
{
  guint i = (guint) g_rand_int_range (model->rand, 0, (gint32) model->active->len);
  TarnBlock *block = g_ptr_array_steal_index_fast (model->active, i);

  model->active_bytes -= tarn_block_get_size (block);
  model->alloc_bytes -= tarn_block_get_alloc_size (block);
  tarn_block_free (block);
}

static void
model_turn (gpointer data)
{
  Model *model = data;
  gint n = g_rand_int_range (model->rand, 1, 60);
  gboolean is_growing = g_rand_boolean (model->rand);

  for (gint i = 0; i < n; i++)
    if (g_rand_int_range (model->rand, 0, 4) == 0 ? !is_growing : is_growing)
      model_take (model);
    else if (model->active->len > 0)
      model_drop (model);
}

static void
model_check_getter (const Model *model)
{
  gsize managed = (gsize) tarn_testing_device_get_used_bytes (model->device);
  gsize live = tarn_testing_device_get_live (model->device);

  switch (g_rand_int_range (model->rand, 0, 5))
    {
    case 0:
      g_assert_cmpuint (tarn_pool_get_held_blocks (model->pool), ==, live - model->active->len);
      break;
    case 1:
      g_assert_cmpuint (tarn_pool_get_active_blocks (model->pool), ==, model->active->len);
      break;
    case 2:
      g_assert_cmpuint (tarn_pool_get_managed_bytes (model->pool), ==, managed);
      break;
    case 3:
      g_assert_cmpuint (tarn_pool_get_active_bytes (model->pool), ==, model->active_bytes);
      break;
    default:
      assert_valid (model->pool);
    }
}

static void
model_check (const Model *model, gboolean is_alone)
{
  TarnPoolStats stats = get_stats (model->pool);
  gsize managed = (gsize) tarn_testing_device_get_used_bytes (model->device);
  gsize live = tarn_testing_device_get_live (model->device);

  g_assert_cmpuint (stats.held_blocks, ==, live - model->active->len);
  g_assert_cmpuint (stats.active_blocks, ==, model->active->len);
  g_assert_cmpuint (stats.managed_bytes, ==, managed);
  g_assert_cmpuint (stats.active_bytes, ==, model->active_bytes);
  g_assert_cmpuint (stats.held_bytes, ==, managed - model->alloc_bytes);
  g_assert_cmpuint (stats.peak_managed_bytes, ==, model->peak_managed);
  g_assert_cmpuint (stats.peak_active_bytes, <=, model->peak_active);
  g_assert_cmpuint (stats.peak_active_bytes, >=,
                    is_alone ? model->peak_active : stats.active_bytes);
  g_assert_cmpuint (stats.misses, ==, tarn_testing_device_get_allocate_calls (model->device));
  g_assert_cmpuint (stats.hits, ==, model->requests - stats.misses);
  g_assert_cmpuint (stats.failures, ==, 0);
  g_assert_cmpuint (stats.driver_calls, ==, stats.misses);
  g_assert_cmpuint (stats.served_without_driver, ==, stats.hits);
  g_assert_cmpuint (stats.upstream_failures, ==, 0);
  g_assert_cmpuint (stats.upstream_frees, ==, tarn_testing_device_get_free_calls (model->device));
}

/* Whatever threads keep, and whoever asks. */
static void
test_counters (Fixture *fixture, gconstpointer data)
{
  gint n_players = GPOINTER_TO_INT (data);
  g_autoptr (GRand) rand = g_rand_new_with_seed (g_test_rand_int ());
  g_autoptr (GPtrArray) active = g_ptr_array_new ();
  Model model = { .device = fixture->device, .rand = rand, .active = active };

  players_renew (fixture, g_rand_boolean (rand) ? 32 : 2, g_rand_boolean (rand) ? MANY : 20000, 0);
  model.pool = fixture->pool;
  for (guint i = 0; i < 2000; i++)
    {
      player_run (&fixture->players[g_rand_int_range (rand, 0, n_players)], model_turn, &model);
      if (g_rand_int_range (rand, 0, 4) == 0)
        model_check_getter (&model);
      if (g_rand_int_range (rand, 0, 4) == 0)
        model_check (&model, n_players == 1);
      if (g_rand_int_range (rand, 0, 50) == 0)
        tarn_pool_trim (fixture->pool, (gsize) g_rand_int_range (rand, 0, 100000));
    }
  while (active->len > 0)
    model_drop (&model);
  model_check (&model, n_players == 1);
}

/* Giving back */

static void
test_give_back (Fixture *fixture, gconstpointer unused)
{
  TarnPool *pool = fixture->pool;
  TarnBlock *blocks[N_PLAYERS][3];

  (void) unused;
  for (guint i = 0; i < N_PLAYERS; i++)
    {
      player_take (&fixture->players[i], pool, SIZE, blocks[i], 3);
      player_keep (&fixture->players[i], pool, (gsize) 4095 << i, 5);
    }
  tarn_pool_trim (pool, 5 * 4095 + 2 * 8190); /* the largest first: sizes are 4,095 and above */
  g_assert_cmpuint (get_stats (pool).held_bytes, <=, 5 * 4095 + 2 * 8190 + 64);
  g_assert_cmpuint (get_stats (pool).held_bytes, >=, 5 * 4095 + 8190);
  g_assert_cmpuint (tarn_testing_device_get_live (fixture->device), ==,
                    3 * N_PLAYERS + tarn_pool_get_held_blocks (pool));
  tarn_pool_free_held (pool);
  g_assert_cmpuint (tarn_testing_device_get_live (fixture->device), ==, 3 * N_PLAYERS);
  assert_valid (pool);

  for (guint i = 0; i < N_PLAYERS; i++)
    player_keep (&fixture->players[i], pool, 500, 2);
  tarn_pool_stop_holding (pool);
  g_assert_cmpuint (tarn_testing_device_get_live (fixture->device), ==, 3 * N_PLAYERS);
  for (guint i = 0; i < N_PLAYERS; i++)
    {
      player_drop (&fixture->players[i], blocks[i], 3);
      player_keep (&fixture->players[i], pool, 500, 2);
      g_assert_cmpuint (tarn_testing_device_get_live (fixture->device), ==,
                        3 * (N_PLAYERS - 1 - i));
    }
  g_assert_cmpuint (get_stats (pool).managed_bytes, ==, 0);
}

#define LARGEST 65535 /* of its bin, too */
#define BUSY ((gpointer) 1)

typedef struct
{
  TarnPool *pool;
  guint32 seed;
  gpointer *places; /* atomic; as many blocks as there may be at a time */
} Share;

static void
use_shares (gpointer data)
{
  Share *share = data;
  g_autoptr (GRand) rand = g_rand_new_with_seed (share->seed);

  for (guint i = 0; i < 2000; i++)
    {
      gpointer *place = &share->places[g_rand_int_range (rand, 0, N_PLAYERS)], block;

      while ((block = __atomic_exchange_n (place, BUSY, __ATOMIC_ACQ_REL)) == BUSY)
        g_thread_yield ();
      tarn_block_free (block);
      block = take (share->pool, (gsize) g_rand_int_range (rand, 1024, LARGEST + 1), NULL);
      __atomic_store_n (place, block, __ATOMIC_RELEASE);
    }
}

/* With room for the shares and no byte more, on the device or in the pool, no request fails:
 * others' caches are emptied first. */
static void
test_shares (Fixture *fixture, gconstpointer has_limit)
{
  const gsize room = N_PLAYERS * LARGEST;
  gpointer places[N_PLAYERS] = { NULL };
  Share shares[N_PLAYERS];
  TarnPoolStats stats;

  if (has_limit != NULL)
    players_renew (fixture, 32, MANY, room);
  tarn_testing_device_set_budget (fixture->device, room);
  for (guint i = 0; i < N_PLAYERS; i++)
    player_keep (&fixture->players[i], fixture->pool, SIZE, 32);
  tarn_block_free (take (fixture->pool, room, NULL)); /* all in one, while they live */
  for (guint i = 0; i < N_PLAYERS; i++)
    player_keep (&fixture->players[i], fixture->pool, LARGEST - i, 1);
  for (guint i = 0; i < N_PLAYERS; i++)
    {
      shares[i] = (Share){ fixture->pool, g_test_rand_int (), places };
      player_start (&fixture->players[i], use_shares, &shares[i]);
    }
  for (guint i = 0; i < N_PLAYERS; i++)
    player_await (&fixture->players[i]);
  for (guint i = 0; i < N_PLAYERS; i++)
    tarn_block_free (places[i]);
  for (guint i = 0; i < N_PLAYERS; i++)
    player_keep (&fixture->players[i], fixture->pool, (gsize) g_test_rand_int_range (1, 2000), 30);
  tarn_block_free (take (fixture->pool, room, NULL));
  stats = get_stats (fixture->pool);
  g_assert_cmpuint (stats.failures, ==, 0);
  if (has_limit != NULL)
    g_assert_cmpuint (stats.upstream_failures, ==, 0);
  else
    g_assert_cmpuint (stats.reclaims, >, 0);
}

typedef struct
{
  Fixture *fixture;
  TarnBlock *block;
} Meanwhile;

static void
drop_meanwhile (gpointer data)
{
  Meanwhile *meanwhile = data;

  tarn_testing_device_set_free_hook (meanwhile->fixture->device, NULL, NULL);
  player_drop (&meanwhile->fixture->players[0], &meanwhile->block, 1);
}

/* What others begin to keep while one gives back is taken back, too. */
static void
test_keep_meanwhile (Fixture *fixture, gconstpointer unused)
{
  Meanwhile meanwhile = { .fixture = fixture };

  (void) unused;
  tarn_testing_device_set_budget (fixture->device, SIZE + 511);
  player_take (&fixture->players[0], fixture->pool, 511, &meanwhile.block, 1);
  player_keep (&fixture->players[1], fixture->pool, SIZE, 1);
  tarn_testing_device_set_free_hook (fixture->device, drop_meanwhile, &meanwhile);
  tarn_block_free (take (fixture->pool, SIZE + 511, NULL));
  g_assert_cmpuint (get_stats (fixture->pool).failures, ==, 0);
}

/* Who gets what */

static void
test_exit (Fixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnPool) other = tarn_pool_new (fixture->allocator, NULL, NULL);
  TarnBlock *blocks[20];

  (void) unused;
  for (guint i = 0; i < 5; i++)
    {
      player_keep (&fixture->players[0], fixture->pool, SIZE, 20);
      player_keep (&fixture->players[0], other, 5000, 20);
      player_end (&fixture->players[0]);
      assert_valid (fixture->pool);
      player_take (&fixture->players[1], other, 5000, blocks, 20);
      player_drop (&fixture->players[2], blocks, 20);
      player_take (&fixture->players[1], fixture->pool, SIZE, blocks, 20);
      player_begin (&fixture->players[0]);
      player_drop (&fixture->players[0], blocks, 20);
      player_end (&fixture->players[2]);
      player_begin (&fixture->players[2]);
    }
  g_assert_cmpuint (players_get_misses (fixture), ==, 40);
}

static gpointer
use_once (gpointer pool)
{
  tarn_block_free (take (pool, SIZE, NULL));
  return NULL;
}

/* Threads that come one after the other have one cache. */
static void
test_exit_often (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  for (guint i = 0; i < 100; i++)
    g_thread_join (g_thread_new ("once", use_once, fixture->pool));
  g_assert_null (fixture->pool->caches.first->next);
  g_assert_cmpuint (players_get_misses (fixture), ==, 1);
}

static void
get_record (gpointer unused)
{
  (void) unused;
  _tarn_thread_self ();
}

/* Nobody has asked for it meanwhile: it is all there for the thread that comes next, and for one
 * only. */
static void
test_exit_next (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[20];
  Turn turn = { fixture->pool, SIZE, NULL, blocks + 1, G_N_ELEMENTS (blocks) - 1 };
  Player *first = &fixture->players[0];

  (void) unused;
  for (guint i = 0; i < 3; i++)
    {
      player_keep (first, fixture->pool, SIZE, G_N_ELEMENTS (blocks));
      player_end (first);
      g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), ==, G_N_ELEMENTS (blocks));
      player_begin (first);
      player_run (first, get_record, NULL); /* with which it could take it for its own */
      player_take (first, fixture->pool, SIZE, blocks, 1);
      player_run_locked (first, fixture->pool, take_all, &turn);
      player_run_locked (first, fixture->pool, drop_all, &turn);
      player_drop (first, blocks, 1);
    }
  g_assert_cmpuint (players_get_misses (fixture), ==, G_N_ELEMENTS (blocks));
  g_assert_null (fixture->pool->caches.first->next);
  player_keep (&fixture->players[1], fixture->pool, SIZE, 1);
  g_assert_nonnull (fixture->pool->caches.first->next); /* of its own */
}

static void
go_inside (gpointer data)
{
  TarnPool *pool = data;

  g_assert_true (_tarn_thread_enter (_tarn_thread_self (), &pool->door, FALSE));
}

static void
come_out (gpointer unused)
{
  (void) unused;
  _tarn_thread_leave (_tarn_thread_self ());
}

/* Another thread that has a cache gets it without waiting for those that are busy. */
static void
test_exit_open_door (Fixture *fixture, gconstpointer unused)
{
  TarnPool *pool = fixture->pool;
  TarnBlock *blocks[20];

  (void) unused;
  player_keep (&fixture->players[1], pool, 5000, 1);
  player_keep (&fixture->players[0], pool, SIZE, 20);
  player_end (&fixture->players[0]);
  player_run (&fixture->players[2], go_inside, pool);
  player_take (&fixture->players[1], pool, SIZE, blocks, 20);
  player_run (&fixture->players[2], come_out, NULL);
  g_assert_cmpuint (players_get_misses (fixture), ==, 21);
  player_drop (&fixture->players[1], blocks, 20);
  player_begin (&fixture->players[0]);
}

static void
drop_late (gpointer block)
{
  tarn_block_free (block);
}

static gpointer
leave_block (gpointer pool)
{
  static GPrivate late = G_PRIVATE_INIT (drop_late); /* destroyed after what Tarn has there */

  tarn_block_free (take (pool, SIZE, NULL));
  g_private_set (&late, take (pool, SIZE, NULL));
  return NULL;
}

/* What a thread frees after it was found to end is not kept by one that is gone. */
static void
test_exit_late (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *block;

  (void) unused;
  player_keep (&fixture->players[1], fixture->pool, 5000, 1);
  g_thread_join (g_thread_new ("late", leave_block, fixture->pool));
  player_take (&fixture->players[1], fixture->pool, SIZE, &block, 1);
  g_assert_cmpuint (players_get_misses (fixture), ==, 2);
  player_drop (&fixture->players[1], &block, 1);
}

/* Last in, first out */

#define N_STACKED 200

typedef struct
{
  TarnBlock *blocks[N_STACKED]; /* that were freed, the last one on top */
  guint n;
} Stack;

/* As one thread sees it, in each of two bins that may have one place in its cache. */
static void
test_lifo (Fixture *fixture, gconstpointer unused)
{
  static const guint lengths[] = { 0, 1, 2, 7, 32, 1000 };

  (void) unused;
  for (guint i = 0; i < 4 * G_N_ELEMENTS (lengths); i++)
    {
      TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
      g_autoptr (TarnPool) pool = NULL;
      Stack held[2] = { { .n = 0 }, { .n = 0 } }, active[2] = { { .n = 0 }, { .n = 0 } };

      options.leading_bits_in_bin_id = i % 2 == 0 ? 4 : 8;
      options.thread_cache_blocks = lengths[i / 4];
      options.thread_cache_bytes = i % 4 < 2 ? MANY : 50000;
      pool = tarn_pool_new (fixture->allocator, &options, NULL);
      for (guint j = 0; j < 4000; j++)
        {
          guint bin = (guint) g_test_rand_int_range (0, 8) == 0;
          Stack *from = &active[bin], *to = &held[bin];

          if (g_test_rand_int_range (0, 16) > (j / 300 % 2 == 0 ? 3 : 12))
            {
              TarnBlock *block;

              if (active[bin].n == N_STACKED)
                continue;
              block = take (pool, bin == 0 ? 1024 : 4096, NULL);
              if (held[bin].n > 0)
                g_assert_true (block == held[bin].blocks[--held[bin].n]);
              active[bin].blocks[active[bin].n++] = block;
            }
          else if (from->n > 0)
            {
              to->blocks[to->n++] = from->blocks[--from->n];
              tarn_block_free (to->blocks[to->n - 1]);
            }
        }
      for (guint bin = 0; bin < 2; bin++)
        while (active[bin].n > 0)
          tarn_block_free (active[bin].blocks[--active[bin].n]);
      assert_valid (pool);
    }
}

static void
test_double_free (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[40];

  (void) unused;
  tarn_block_free (take (fixture->pool, SIZE, NULL));
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = take (fixture->pool, SIZE, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    tarn_block_free (blocks[i]);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    {
      g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, "*freed already*");
      tarn_block_free (blocks[i]);
      g_test_assert_expected_messages ();
    }
  g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), ==, 40);
  g_assert_cmpuint (tarn_pool_get_active_blocks (fixture->pool), ==, 0);
  assert_valid (fixture->pool);
}

/* Somebody looks at the counters again and again, and nobody allocates more for that. */

typedef struct
{
  TarnPool *pool;
  gint is_over; /* atomic */
} Watch;

static gpointer
watch (gpointer data)
{
  Watch *self = data;

  for (guint i = 0; i < 10000; i++)
    g_assert_cmpuint (get_stats (self->pool).misses, <=, 1);
  g_atomic_int_set (&self->is_over, TRUE);
  return NULL;
}

static void
test_watched (Fixture *fixture, gconstpointer unused)
{
  Watch self = { fixture->pool, FALSE };
  GThread *thread = g_thread_new ("watch", watch, &self);

  (void) unused;
  do
    tarn_block_free (take (fixture->pool, SIZE, NULL));
  while (!g_atomic_int_get (&self.is_over));
  g_thread_join (thread);
  g_assert_cmpuint (players_get_misses (fixture), ==, 1);
}

/* Somebody takes everything out again and again while a thread hits: neither has what the other
 * one has, even where processors let loads overtake stores. */

static gpointer
hit (gpointer data)
{
  Watch *self = data;

  while (!g_atomic_int_get (&self->is_over))
    tarn_block_free (take (self->pool, SIZE, NULL));
  return NULL;
}

static void
test_emptied (Fixture *fixture, gconstpointer unused)
{
  Watch self = { fixture->pool, FALSE };
  GThread *thread = g_thread_new ("hit", hit, &self);
  gint64 end = g_get_monotonic_time () + G_USEC_PER_SEC;

  (void) unused;
  do
    {
      tarn_pool_free_held (fixture->pool);
      assert_valid (fixture->pool);
      g_assert_cmpuint (tarn_pool_get_active_blocks (fixture->pool), <=, 1);
      for (gint i = g_test_rand_int_range (0, 2000); i > 0; i--)
        __atomic_signal_fence (__ATOMIC_SEQ_CST); /* it is not always at the same place */
    }
  while (g_get_monotonic_time () < end);
  g_atomic_int_set (&self.is_over, TRUE);
  g_thread_join (thread);
}

int
main (int argc, char **argv)
{
#define ADD(path, data, func)                                                                      \
  g_test_add ("/core/thread-cache/" path, Fixture, data, players_set_up, func, players_tear_down)
  g_test_init (&argc, &argv, NULL);
  ADD ("no-lock", NULL, test_no_lock);
  ADD ("round-sizes", NULL, test_round_sizes);
  ADD ("counters/one-thread", GINT_TO_POINTER (1), test_counters);
  ADD ("counters/threads", GINT_TO_POINTER (N_PLAYERS), test_counters);
  ADD ("give-back", NULL, test_give_back);
  ADD ("shares/out-of-memory", NULL, test_shares);
  ADD ("shares/limit", "", test_shares);
  ADD ("shares/meanwhile", NULL, test_keep_meanwhile);
  ADD ("exit", NULL, test_exit);
  ADD ("exit/often", NULL, test_exit_often);
  ADD ("exit/next", NULL, test_exit_next);
  if (!players_pools_are_checked ()) /* for which the door is closed after each operation */
    ADD ("exit/open-door", NULL, test_exit_open_door);
  ADD ("exit/late", NULL, test_exit_late);
  ADD ("lifo", NULL, test_lifo);
  ADD ("double-free", NULL, test_double_free);
  ADD ("watched", NULL, test_watched);
  ADD ("emptied", NULL, test_emptied);
  return g_test_run ();
}
