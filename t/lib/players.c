/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "players.h"

#include <unistd.h>

#include "conformance.h"
#include "pool/pool-private.h"

static gpointer
play (gpointer data)
{
  Player *player = data;
  gboolean is_over = FALSE;

  while (!is_over)
    {
      _tarn_mutex_lock (&player->lock);
      while (player->func == NULL)
        _tarn_cond_wait (&player->changed, &player->lock);
      _tarn_mutex_unlock (&player->lock);
      is_over = player->data == player;
      player->func (player->data);
      _tarn_mutex_lock (&player->lock);
      player->func = NULL;
      _tarn_cond_broadcast (&player->changed);
      _tarn_mutex_unlock (&player->lock);
    }
  return NULL;
}

void
player_begin (Player *player)
{
  _tarn_mutex_init (&player->lock);
  _tarn_cond_init (&player->changed);
  player->func = NULL;
  player->thread = g_thread_new ("player", play, player);
}

void
player_start (Player *player, void (*func) (gpointer), gpointer data)
{
  _tarn_mutex_lock (&player->lock);
  player->func = func;
  player->data = data;
  _tarn_cond_broadcast (&player->changed);
  _tarn_mutex_unlock (&player->lock);
}

void
player_await (Player *player)
{
  _tarn_mutex_lock (&player->lock);
  while (player->func != NULL)
    _tarn_cond_wait (&player->changed, &player->lock);
  _tarn_mutex_unlock (&player->lock);
}

void
player_run (Player *player, void (*func) (gpointer), gpointer data)
{
  player_start (player, func, data);
  player_await (player);
}

static void
nothing (gpointer unused)
{
  (void) unused;
}

void
player_end (Player *player)
{
  player_run (player, nothing, player);
  g_thread_join (player->thread);
  _tarn_mutex_clear (&player->lock);
  _tarn_cond_clear (&player->changed);
}

TarnBlock *
take (TarnPool *pool, gsize size, gpointer queue)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = queue != NULL ? tarn_pool_allocate_ordered (pool, size, queue, &error)
                                   : tarn_pool_allocate (pool, size, &error);

  g_assert_no_error (error);
  return block;
}

void
take_all (gpointer data)
{
  Turn *turn = data;

  for (guint i = 0; i < turn->n; i++)
    turn->blocks[i] = take (turn->pool, turn->size, turn->queue);
}

void
drop_all (gpointer data)
{
  Turn *turn = data;

  for (guint i = 0; i < turn->n; i++)
    tarn_block_free (turn->blocks[i]);
}

void
player_take (Player *player, TarnPool *pool, gsize size, TarnBlock **blocks, guint n)
{
  Turn turn = { pool, size, NULL, blocks, n };

  player_run (player, take_all, &turn);
}

void
player_drop (Player *player, TarnBlock **blocks, guint n)
{
  Turn turn = { .blocks = blocks, .n = n };

  player_run (player, drop_all, &turn);
}

void
player_keep (Player *player, TarnPool *pool, gsize size, guint n)
{
  g_autofree TarnBlock **blocks = g_new (TarnBlock *, n);

  player_take (player, pool, size, blocks, n);
  player_drop (player, blocks, n);
}

gboolean
players_pools_are_checked (void)
{
#if defined(TARN_DEBUG_LEVEL) && TARN_DEBUG_LEVEL >= 2
  return TRUE;
#else
  return FALSE;
#endif
}

void
player_run_locked (Player *player, TarnPool *pool, void (*func) (gpointer), gpointer data)
{
  if (players_pools_are_checked ())
    {
      player_run (player, func, data); /* which takes the lock, to check */
      return;
    }
  alarm (60);
  _tarn_mutex_lock (&pool->lock);
  player_run (player, func, data);
  _tarn_mutex_unlock (&pool->lock);
  alarm (0);
}

void
players_set_up (Players *players, gconstpointer unused)
{
  (void) unused;
  players->device = tarn_testing_device_new (G_MAXUINT64);
  players->allocator = tarn_testing_device_allocator_new (players->device);
  players->pool = tarn_pool_new (players->allocator, NULL, NULL);
  for (guint i = 0; i < N_PLAYERS; i++)
    player_begin (&players->players[i]);
}

void
players_renew (Players *players, guint thread_cache_blocks, gsize thread_cache_bytes,
               gsize limit_bytes)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;

  options.thread_cache_blocks = thread_cache_blocks;
  options.thread_cache_bytes = thread_cache_bytes;
  options.limit_bytes = limit_bytes;
  tarn_pool_unref (players->pool);
  players->pool = tarn_pool_new (players->allocator, &options, NULL);
  g_assert_nonnull (players->pool);
}

guint
players_get_misses (const Players *players)
{
  return tarn_testing_device_get_allocate_calls (players->device);
}

void
players_tear_down (Players *players, gconstpointer unused)
{
  (void) unused;
  if (players->pool != NULL)
    {
      assert_valid (players->pool);
      g_assert_cmpuint (tarn_pool_get_active_blocks (players->pool), ==, 0);
    }
  tarn_pool_unref (players->pool);
  g_assert_cmpuint (tarn_testing_device_get_live (players->device), ==, 0);
  for (guint i = 0; i < N_PLAYERS; i++)
    player_end (&players->players[i]);
  tarn_allocator_unref (players->allocator);
  tarn_testing_device_free (players->device);
}
