/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * How much threads keep of a pool, and what moves from one to another. */

#include "lib/conformance.h"
#include "lib/players.h"
#include "pool/pool-private.h"

#define SIZE 1023 /* of its bin, the largest */
#define MANY ((gsize) -1)

typedef Players Fixture;

typedef struct
{
  guint blocks;
  gsize bytes;
  guint kept; /* of blocks of SIZE */
} Bounds;

static const Bounds all_bounds[]
    = { { 3, MANY, 3 }, { 1, MANY, 1 },      { 32, 5000, 4 }, { 0, MANY, 0 },
        { 32, 0, 0 },   { 32, SIZE - 1, 0 }, { 32, SIZE, 1 }, { 32, 40 * SIZE, 32 } };

/* What a thread may not keep, others find at once. */
static void
test_bounds (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[60];

  (void) unused;
  for (guint i = 0; i < G_N_ELEMENTS (all_bounds); i++)
    {
      const Bounds *bounds = &all_bounds[i];
      guint misses;

      players_renew (fixture, bounds->blocks, bounds->bytes, 0);
      player_keep (&fixture->players[0], fixture->pool, SIZE, 60);
      player_take (&fixture->players[0], fixture->pool, SIZE, blocks, 20);
      player_drop (&fixture->players[0], blocks, 20);
      assert_valid (fixture->pool);
      misses = players_get_misses (fixture);
      player_take (&fixture->players[1], fixture->pool, SIZE, blocks, 60 - bounds->kept);
      g_assert_cmpuint (players_get_misses (fixture), ==, misses);
      player_drop (&fixture->players[1], blocks, 60 - bounds->kept);
    }
}

/* Room that other sizes have taken once, and do not use any more, is to be had again. */
static void
test_room_moves (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[8];
  Turn turn = { fixture->pool, SIZE, NULL, blocks, G_N_ELEMENTS (blocks) };
  Player *first = &fixture->players[0];

  (void) unused;
  players_renew (fixture, 32, 33 * SIZE, 0);
  turn.pool = fixture->pool;
  player_keep (first, fixture->pool, SIZE, 1);
  for (guint i = 0; i < 2; i++)
    player_keep (first, fixture->pool, SIZE + 1, 30);
  for (guint i = 0; i < 1000; i++)
    player_keep (first, fixture->pool, SIZE, turn.n);
  player_run_locked (first, fixture->pool, take_all, &turn);
  player_run_locked (first, fixture->pool, drop_all, &turn);
}

/* The same for a thread that allocates what others free. */
static void
test_room_to_fill (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[16];
  Turn turn = { .size = SIZE, .blocks = blocks, .n = 4 };
  Player *first = &fixture->players[0], *second = &fixture->players[1];

  (void) unused;
  players_renew (fixture, 32, 33 * SIZE, 0);
  turn.pool = fixture->pool;
  for (guint i = 0; i < 2; i++)
    player_keep (first, fixture->pool, SIZE + 1, 31);
  tarn_pool_free_held (fixture->pool);
  for (guint i = 0; i < 1000; i++)
    {
      player_take (first, fixture->pool, SIZE, blocks, 16);
      player_drop (second, blocks, 16);
    }
  tarn_pool_trim (fixture->pool, G_MAXSIZE);               /* to where all can have it */
  player_take (first, fixture->pool, SIZE, blocks + 4, 1); /* and brings more along */
  player_run_locked (first, fixture->pool, take_all, &turn);
  player_drop (first, blocks, 5);
}

/* What came to the pool from one thread's cache goes to another's as it came, though it is all that
 * there is. */
static void
test_batch (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[48];
  Turn turn = { fixture->pool, SIZE, NULL, blocks + 1, 15 };
  Player *first = &fixture->players[0], *second = &fixture->players[1];

  (void) unused;
  g_assert_cmpuint (fixture->pool->policy.thread_cache_blocks, ==, 32);
  for (guint i = 0; i < 3; i++)
    {
      player_take (first, fixture->pool, SIZE, blocks, 48);
      player_drop (second, blocks, 48); /* who keeps 32 */
      player_take (first, fixture->pool, SIZE, blocks, 1);
      player_run_locked (first, fixture->pool, take_all, &turn);
      assert_valid (fixture->pool);
      player_drop (second, blocks, 16);
      tarn_pool_trim (fixture->pool, G_MAXSIZE);
    }
  g_assert_cmpuint (players_get_misses (fixture), ==, 48);
}

/* A thread that kept more gives them as batches that others take. */
static void
test_two_batches (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[2][16];

  (void) unused;
  player_keep (&fixture->players[0], fixture->pool, SIZE, 32);
  tarn_pool_trim (fixture->pool, G_MAXSIZE);
  g_assert_cmpuint (
      _tarn_bins_get (fixture->pool->store.idle_bins, tarn_pool_bin_number (fixture->pool, SIZE))
          ->n_batches,
      ==, 2);
  for (guint i = 0; i < 2; i++)
    {
      Turn turn = { fixture->pool, SIZE, NULL, blocks[i] + 1, 15 };

      player_take (&fixture->players[i], fixture->pool, SIZE, blocks[i], 1);
      player_run_locked (&fixture->players[i], fixture->pool, take_all, &turn);
    }
  g_assert_cmpuint (players_get_misses (fixture), ==, 32);
  for (guint i = 0; i < 2; i++)
    player_drop (&fixture->players[i], blocks[i], 16);
}

/* Blocks that threads have handed over and nobody has taken yet. */
static guint
count_handed_over (const TarnPool *pool)
{
  guint n = 0;

  for (guint i = 0; i < TARN_TRANSFER_BINS; i++)
    n += pool->transfers.bins[i].n_batches * pool->policy.transfer_blocks;
  return n;
}

/* What a thread has too many of goes to one that has none, without the pool's lock; where there is
 * no more room for that, to the pool. */
static void
test_handed_over (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[16 * (TARN_TRANSFER_BATCHES + 3)];
  const guint n_all = G_N_ELEMENTS (blocks), n_given = 16 * TARN_TRANSFER_BATCHES;
  Player *first = &fixture->players[0], *second = &fixture->players[1];
  Turn turn = { fixture->pool, SIZE, NULL, blocks + 32, n_given };

  (void) unused;
  player_take (first, fixture->pool, SIZE, blocks, n_all);
  player_drop (second, blocks, 32); /* which it keeps */
  for (guint i = 0; i < 3; i++)
    {
      player_run_locked (second, fixture->pool, drop_all, &turn);
      g_assert_cmpuint (count_handed_over (fixture->pool), ==, n_given);
      g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), ==, 32 + n_given);
      player_drop (second, &blocks[n_all - 16], 16); /* one batch too many */
      g_assert_cmpuint (count_handed_over (fixture->pool), ==, 0);
      player_take (first, fixture->pool, SIZE, &blocks[n_all - 16], 16);
      player_take (first, fixture->pool, SIZE, blocks + 32, n_given);
      assert_valid (fixture->pool);

      player_run_locked (second, fixture->pool, drop_all, &turn);
      player_run_locked (first, fixture->pool, take_all, &turn);
      g_assert_cmpuint (count_handed_over (fixture->pool), ==, 0);
      assert_valid (fixture->pool);
    }
  g_assert_cmpuint (players_get_misses (fixture), ==, n_all);
  player_drop (first, blocks + 32, n_all - 32);
}

/* ... and to whoever asks: threads that never had any, requests of other sizes that there is no
 * memory for, and upstream. */
static void
test_handed_over_to_all (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[64], *other;

  (void) unused;
  players_renew (fixture, 32, MANY, 100 * (SIZE + 1));
  for (guint i = 0; i < 3; i++)
    {
      player_keep (&fixture->players[0], fixture->pool, SIZE, 64);
      g_assert_cmpuint (count_handed_over (fixture->pool), ==, 32);
      player_take (&fixture->players[1], fixture->pool, SIZE, blocks, 32);
      g_assert_cmpuint (players_get_misses (fixture), ==, 64);
      player_drop (&fixture->players[1], blocks, 32);
      tarn_pool_trim (fixture->pool, G_MAXSIZE); /* to where all can have them */
    }
  player_keep (&fixture->players[0], fixture->pool, SIZE, 64);
  player_take (&fixture->players[2], fixture->pool, 90 * SIZE, &other, 1);
  assert_valid (fixture->pool);
  player_drop (&fixture->players[2], &other, 1);
  player_keep (&fixture->players[0], fixture->pool, SIZE, 64);
  player_take (&fixture->players[0], fixture->pool, SIZE, blocks, 32); /* that it kept */
  g_assert_cmpuint (count_handed_over (fixture->pool), ==, 32);
  tarn_pool_free_held (fixture->pool);
  g_assert_cmpuint (count_handed_over (fixture->pool), ==, 0);
  g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), ==, 0);
  player_drop (&fixture->players[0], blocks, 32);
}

/* Of what is no batch, half is left to others. */
static void
test_half (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[20];

  (void) unused;
  player_keep (&fixture->players[0], fixture->pool, SIZE, 20);
  tarn_pool_trim (fixture->pool, G_MAXSIZE); /* more at once than a thread takes */
  player_take (&fixture->players[0], fixture->pool, SIZE, blocks, 1);
  player_take (&fixture->players[1], fixture->pool, SIZE, blocks + 1, 10);
  g_assert_cmpuint (players_get_misses (fixture), ==, 20);
  player_drop (&fixture->players[0], blocks, 11);
}

/* Lengths are numbers of 16 bits. */
static void
test_longest (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  players_renew (fixture, G_MAXUINT16 + 6, MANY, 0);
  g_assert_cmpuint (fixture->pool->policy.thread_cache_blocks, ==, G_MAXUINT16);
  player_keep (&fixture->players[0], fixture->pool, SIZE, 20);
  assert_valid (fixture->pool);
}

#define RING 64
#define N_PAIRS 100000

typedef struct
{
  TarnPool *pool;
  gpointer places[RING]; /* atomic */
} Ring;

static void
produce (gpointer data)
{
  Ring *ring = data;

  for (guint i = 0; i < N_PAIRS; i++)
    {
      TarnBlock *block = take (ring->pool, SIZE, NULL);

      while (__atomic_load_n (&ring->places[i % RING], __ATOMIC_ACQUIRE) != NULL)
        g_thread_yield ();
      __atomic_store_n (&ring->places[i % RING], block, __ATOMIC_RELEASE);
    }
}

static void
consume (gpointer data)
{
  Ring *ring = data;

  for (guint i = 0; i < N_PAIRS; i++)
    {
      TarnBlock *block;

      while ((block = __atomic_load_n (&ring->places[i % RING], __ATOMIC_ACQUIRE)) == NULL)
        g_thread_yield ();
      __atomic_store_n (&ring->places[i % RING], NULL, __ATOMIC_RELEASE);
      tarn_block_free (block);
    }
}

/* One thread only allocates, and another one only frees. */
static void
test_producer (Fixture *fixture, gconstpointer unused)
{
  Ring ring = { fixture->pool, { NULL } };
  TarnPoolStats stats;

  (void) unused;
  player_start (&fixture->players[0], produce, &ring);
  player_run (&fixture->players[1], consume, &ring);
  player_await (&fixture->players[0]);
  stats = get_stats (fixture->pool);
  g_test_message ("%" G_GUINT64_FORMAT " misses, %" G_GSIZE_FORMAT " blocks at most", stats.misses,
                  stats.peak_managed_bytes / SIZE);
  g_assert_cmpuint (stats.hits + stats.misses, ==, N_PAIRS);
  g_assert_cmpuint (stats.misses, <, N_PAIRS / 100);
  g_assert_cmpuint (stats.peak_managed_bytes, <=, (RING + 2 + 2 * 32) * SIZE);
}

int
main (int argc, char **argv)
{
#define ADD(path, func)                                                                            \
  g_test_add ("/core/thread-cache/" path, Fixture, NULL, players_set_up, func, players_tear_down)
  g_test_init (&argc, &argv, NULL);
  ADD ("bounds", test_bounds);
  ADD ("longest", test_longest);
  ADD ("room-moves", test_room_moves);
  ADD ("room-to-fill", test_room_to_fill);
  ADD ("batch", test_batch);
  ADD ("two-batches", test_two_batches);
  ADD ("handed-over", test_handed_over);
  ADD ("handed-over/to-all", test_handed_over_to_all);
  ADD ("half", test_half);
  ADD ("producer", test_producer);
  return g_test_run ();
}
