/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Players: threads that do what they are told, one at a time where a test has them take turns, and
 * live on; and a pool that they use. */

#ifndef PLAYERS_H
#define PLAYERS_H

#include "common/lock-private.h"
#include "pool-fixture.h"

#define N_PLAYERS 4

typedef struct
{
  GThread *thread;
  TarnMutex lock;
  TarnCond changed;
  void (*func) (gpointer); /* NULL: it waits */
  gpointer data;
} Player;

typedef struct
{
  TarnTestingDevice *device; /* that never runs out */
  TarnAllocator *allocator;
  TarnPool *pool; /* with the usual options */
  Player players[N_PLAYERS];
} Players;

/* The test may drop the pool and set that to NULL.  Memory that is left ends the test. */
void players_set_up (Players *players, gconstpointer unused);
void players_tear_down (Players *players, gconstpointer unused);

/* Another pool, with these options. */
void players_renew (Players *players, guint thread_cache_blocks, gsize thread_cache_bytes,
                    gsize limit_bytes);
guint players_get_misses (const Players *players);

void player_begin (Player *player);
void player_end (Player *player); /* its thread, after what it does */
void player_start (Player *player, void (*func) (gpointer), gpointer data);
void player_await (Player *player); /* until it has done that */
void player_run (Player *player, void (*func) (gpointer), gpointer data);

/* Whether every pool is checked after every operation (--enable-debug=full). */
gboolean players_pools_are_checked (void);

/* The same with the pool's lock held by this thread: a player that needs it would hang, and the
 * test ends.  (With --enable-debug=full it does, to check the pool, and may.) */
void player_run_locked (Player *player, TarnPool *pool, void (*func) (gpointer), gpointer data);

/* What players do. */
typedef struct
{
  TarnPool *pool;
  gsize size;
  gpointer queue; /* NULL: none is named */
  TarnBlock **blocks;
  guint n;
} Turn;

void take_all (gpointer turn);
void drop_all (gpointer turn);
void player_take (Player *player, TarnPool *pool, gsize size, TarnBlock **blocks, guint n);
void player_drop (Player *player, TarnBlock **blocks, guint n);
void player_keep (Player *player, TarnPool *pool, gsize size, guint n); /* takes, and drops */

/* A block that there is; the pool is left alone besides. */
TarnBlock *take (TarnPool *pool, gsize size, gpointer queue);

#endif
