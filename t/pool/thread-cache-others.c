/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What a thread sees of the caches that others have: which are idle, and how much was active at
 * most. */

#include "lib/conformance.h"
#include "lib/players.h"
#include "pool/cache-private.h"

#define SIZE 1023 /* of its bin, the largest */
#define LARGE_SIZE 65535

typedef Players Fixture;

/* Time goes by where a test says so. */
static gint64 clock_time = G_TIME_SPAN_DAY;

static gint64
get_clock_time (void)
{
  return __atomic_load_n (&clock_time, __ATOMIC_RELAXED);
}

static void
let_time_go_by (void)
{
  __atomic_fetch_add (&clock_time, TARN_IDLE_TIME, __ATOMIC_RELAXED);
}

/* What threads keep that do not call any more is found by one that needs it. */
static void
test_idle (Fixture *fixture, gconstpointer unused)
{
  static const gsize sizes[] = { SIZE, 70000 };
  TarnBlock *blocks[N_PLAYERS * 30];
  guint misses;

  (void) unused;
  for (guint i = 1; i < N_PLAYERS; i++)
    for (guint j = 0; j < 2; j++)
      player_take (&fixture->players[i], fixture->pool, sizes[j], blocks + (2 * i + j) * 10, 10);
  for (guint i = 1; i < N_PLAYERS; i++)
    player_drop (&fixture->players[i], blocks + i * 20, 20);
  for (guint j = 0; j < 2; j++)
    {
      misses = players_get_misses (fixture);
      player_take (&fixture->players[0], fixture->pool, sizes[j], blocks, 1);
      let_time_go_by ();
      player_take (&fixture->players[0], fixture->pool, sizes[j], blocks + 1,
                   (N_PLAYERS - 1) * 10 - 1);
      g_assert_cmpuint (players_get_misses (fixture), <=, misses + 1);
      player_drop (&fixture->players[0], blocks, (N_PLAYERS - 1) * 10);
    }
}

/* A thread that is idle is not busy because somebody has looked at the counters. */
static void
test_idle_watched (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[9];

  (void) unused;
  player_keep (&fixture->players[2], fixture->pool, 70000, 1);
  player_keep (&fixture->players[0], fixture->pool, SIZE, 8);
  player_take (&fixture->players[1], fixture->pool, SIZE, blocks, 1);
  get_stats (fixture->pool);
  let_time_go_by ();
  player_take (&fixture->players[1], fixture->pool, SIZE, blocks + 1, 8);
  g_assert_cmpuint (players_get_misses (fixture), ==, 10);
  player_drop (&fixture->players[1], blocks, 9);
}

/* A thread that has just called is not idle, whether or not it had the pool for itself before. */
static void
test_not_idle (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *block;

  (void) unused;
  player_keep (&fixture->players[0], fixture->pool, SIZE, 8);
  player_take (&fixture->players[1], fixture->pool, SIZE, &block, 1);
  g_assert_cmpuint (players_get_misses (fixture), ==, 9);
  player_drop (&fixture->players[1], &block, 1);
}

/* Nor is one that took over what an ended thread has left, whenever that one was last seen. */
static void
test_idle_taken_over (Fixture *fixture, gconstpointer unused)
{
  Player *first = &fixture->players[0], *second = &fixture->players[1];
  TarnBlock *blocks[2];

  (void) unused;
  player_keep (first, fixture->pool, SIZE, 1);
  player_take (second, fixture->pool, SIZE, &blocks[0], 1);
  player_end (first);
  let_time_go_by ();
  player_begin (first);
  player_keep (first, fixture->pool, 5000, 1);
  player_take (second, fixture->pool, SIZE, &blocks[1], 1);
  g_assert_cmpuint (players_get_misses (fixture), ==, 4);
  player_drop (second, blocks, 2);
}

/* Another thread looks for a block in it, having seen so much of it so long ago; it is kept again
 * afterwards. */
static gboolean
is_found (Fixture *fixture, gint hits, gint bytes, gint64 age)
{
  TarnPool *pool = fixture->pool;
  TarnCache *cache = pool->caches.first->next;
  guint32 bin = tarn_pool_bin_number (pool, SIZE);
  gboolean is_found;

  player_keep (&fixture->players[0], pool, SIZE, 1);
  _tarn_mutex_lock (&pool->lock);
  cache->seen_hits = cache->hits + (guint64) hits;
  cache->seen_bytes = cache->counted_bytes + cache->active_bytes + (gsize) bytes;
  cache->seen_at = get_clock_time () - age;
  is_found = _tarn_pool_take_from_idle_threads (pool, bin, NULL);
  _tarn_mutex_unlock (&pool->lock);
  return is_found;
}

/* It is idle that has done nothing for so long, as far as its hits tell, or its frees. */
static void
test_who_is_idle (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *block;

  (void) unused;
  player_take (&fixture->players[0], fixture->pool, 4000, &block, 1); /* to have counted some */
  player_keep (&fixture->players[1], fixture->pool, 70000, 1);
  g_assert_null (fixture->pool->caches.first->next->next);
  g_assert_true (is_found (fixture, 0, 0, TARN_IDLE_TIME));
  g_assert_false (is_found (fixture, 0, 0, 0));
  g_assert_false (is_found (fixture, 0, 0, TARN_IDLE_TIME - 1));
  g_assert_false (is_found (fixture, 1, 0, TARN_IDLE_TIME));
  g_assert_false (is_found (fixture, 0, 1, TARN_IDLE_TIME));
  g_assert_false (is_found (fixture, 1, 1, TARN_IDLE_TIME));
  g_assert_true (is_found (fixture, 0, 0, 2 * TARN_IDLE_TIME));
  g_assert_cmpuint (players_get_misses (fixture), ==, 3);
  player_drop (&fixture->players[1], &block, 1);
}

/* The most that was active */

/* A thread that has the pool for itself has had so many blocks at once, of which the pool's
 * counters know nothing. */
static void
have_had (Fixture *fixture, TarnBlock **blocks, guint n)
{
  Turn turn = { fixture->pool, SIZE, NULL, blocks, n };
  Player *first = &fixture->players[0];

  for (guint i = 0; i < 2; i++)
    player_keep (first, fixture->pool, SIZE - 20, n);
  player_run_locked (first, fixture->pool, take_all, &turn);
  player_run_locked (first, fixture->pool, drop_all, &turn);
}

/* That is not forgotten when another one comes. */
static void
test_peak_before (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[20];

  (void) unused;
  have_had (fixture, blocks, 20);
  player_keep (&fixture->players[1], fixture->pool, SIZE, 1);
  g_assert_cmpuint (get_stats (fixture->pool).peak_active_bytes, ==, 20 * SIZE);
}

#if defined(__linux__) && !defined(TARN_THREAD_SANITIZER)
#define MUTEX_IS_AWAITED 2 /* GLib's futexes */

/* Nor is it counted on top of what that one has, which came when the door was shut, because
 * somebody was looking at the counters. */
static void
test_peak_at_door (Fixture *fixture, gconstpointer unused)
{
  TarnPool *pool = fixture->pool;
  TarnBlock *blocks[20], *block;
  Turn turn = { pool, SIZE, NULL, &block, 1 };

  (void) unused;
  have_had (fixture, blocks, 20);
  _tarn_mutex_lock (&pool->lock);
  g_assert_true (_tarn_pool_close (pool));
  player_start (&fixture->players[1], take_all, &turn);
  while (__atomic_load_n (&pool->lock.plain.i[0], __ATOMIC_RELAXED) != MUTEX_IS_AWAITED)
    g_thread_yield ();
  _tarn_pool_open (pool, TRUE);
  _tarn_mutex_unlock (&pool->lock);
  player_await (&fixture->players[1]);
  g_assert_cmpuint (get_stats (pool).peak_active_bytes, ==, 20 * SIZE);
  player_drop (&fixture->players[1], &block, 1);
}
#endif

static gboolean
use_held (TarnPool *pool, gsize wanted, gpointer data)
{
  Turn turn = { pool, SIZE, NULL, data, 20 };

  (void) wanted;
  take_all (&turn);
  drop_all (&turn);
  return TRUE;
}

/* Nor is what a reclaim function has had while the request waited for it. */
static void
test_peak_of_reclaim (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[20], *block;

  (void) unused;
  player_keep (&fixture->players[0], fixture->pool, SIZE - 20, 20);
  tarn_pool_add_reclaim_func (fixture->pool, use_held, blocks, NULL);
  tarn_testing_device_fail (fixture->device, 1, FALSE);
  player_take (&fixture->players[0], fixture->pool, 4000, &block, 1);
  g_assert_cmpuint (get_stats (fixture->pool).reclaims, ==, 1);
  g_assert_cmpuint (get_stats (fixture->pool).peak_active_bytes, ==, 20 * SIZE);
  player_drop (&fixture->players[0], &block, 1);
}

/* One thread's counter that was read before another one freed what that one had taken. */
static void
test_peak_read_early (Fixture *fixture, gconstpointer unused)
{
  TarnPool *pool = fixture->pool;
  TarnPoolStats before;
  TarnCache *cache;

  (void) unused;
  player_keep (&fixture->players[0], pool, SIZE, 1);
  before = get_stats (pool);
  _tarn_mutex_lock (&pool->lock);
  cache = pool->caches.first;
  cache->active_bytes -= SIZE;
  _tarn_pool_note_peak (pool);
  cache->active_bytes += SIZE;
  _tarn_mutex_unlock (&pool->lock);
  g_assert_cmpuint (get_stats (pool).peak_active_bytes, ==, before.peak_active_bytes);
}

/* One thread frees, behind the lock, what another one's hits took: as long as those are not
 * counted, the pool's own count is less than nothing. */
static void
test_peak_below_nothing (Fixture *fixture, gconstpointer unused)
{
  Player *first = &fixture->players[0], *second = &fixture->players[1];
  TarnBlock *blocks[100];

  (void) unused;
  for (guint i = 0; i < 2; i++)
    player_keep (first, fixture->pool, SIZE, 32);
  player_keep (second, fixture->pool, 5000, 1);
  player_take (first, fixture->pool, SIZE, blocks, 20);
  player_drop (second, blocks, 20);
  player_take (second, fixture->pool, 70000, blocks, 100);
  player_drop (second, blocks, 100);
  g_assert_cmpuint (get_stats (fixture->pool).peak_active_bytes, >=, (100 - 32) * 70000);
  g_assert_cmpuint (get_stats (fixture->pool).peak_active_bytes, <=, 100 * 70000);
}

/* What two threads have at once, of blocks that are fresh and then of held ones, whose requests are
 * larger: but for what they keep for themselves. */
static void
test_peak_of_two (Fixture *fixture, gconstpointer unused)
{
  enum
  {
    N = 400,
    KEPT = 2 * 32,
    SMALL = 520,
    LARGE = 1000
  };
  static const gsize sizes[] = { SMALL, LARGE };
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  TarnBlock *blocks[2 * N];

  (void) unused;
  options.leading_bits_in_bin_id = 0;
  tarn_pool_unref (fixture->pool);
  fixture->pool = tarn_pool_new (fixture->allocator, &options, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      for (guint j = 0; j < 2; j++)
        player_take (&fixture->players[j], fixture->pool, sizes[i], blocks + j * N, N);
      for (guint j = 0; j < 2; j++)
        player_drop (&fixture->players[j], blocks + j * N, N);
      g_assert_cmpuint (get_stats (fixture->pool).peak_active_bytes, <=, 2 * N * sizes[i]);
      g_assert_cmpuint (get_stats (fixture->pool).peak_active_bytes, >=,
                        (2 * N - (i == 0 ? 0 : KEPT)) * sizes[i]);
    }
  g_assert_cmpuint (players_get_misses (fixture), ==, 2 * N);
}

typedef struct
{
  TarnPool *pool;
  gpointer block; /* atomic; NULL: the other one has freed it */
  gint is_over;   /* atomic */
} HandOn;

static void
hand_over_one (gpointer data)
{
  HandOn *self = data;
  gint64 end = g_get_monotonic_time () + G_USEC_PER_SEC / 2;

  while (g_get_monotonic_time () < end)
    {
      __atomic_store_n (&self->block, take (self->pool, LARGE_SIZE, NULL), __ATOMIC_RELEASE);
      while (__atomic_load_n (&self->block, __ATOMIC_ACQUIRE) != NULL)
        g_thread_yield ();
    }
  g_atomic_int_set (&self->is_over, TRUE);
}

static void
take_over (gpointer data)
{
  HandOn *self = data;
  gpointer block;

  while (!g_atomic_int_get (&self->is_over))
    if ((block = __atomic_load_n (&self->block, __ATOMIC_ACQUIRE)) != NULL)
      {
        tarn_block_free (block);
        __atomic_store_n (&self->block, NULL, __ATOMIC_RELEASE);
      }
    else
      g_thread_yield ();
}

/* One block that a thread allocates and another one frees is never two, whoever looks meanwhile. */
static void
test_peak_of_one (Fixture *fixture, gconstpointer unused)
{
  HandOn self = { .pool = fixture->pool };

  (void) unused;
  player_start (&fixture->players[0], hand_over_one, &self);
  player_start (&fixture->players[1], take_over, &self);
  while (!g_atomic_int_get (&self.is_over))
    {
      _tarn_mutex_lock (&self.pool->lock);
      _tarn_pool_note_peak (self.pool);
      g_assert_cmpuint (self.pool->stats.peak_active_bytes, <=, LARGE_SIZE);
      _tarn_mutex_unlock (&self.pool->lock);
    }
  for (guint i = 0; i < 2; i++)
    player_await (&fixture->players[i]);
  g_assert_cmpuint (get_stats (self.pool).peak_active_bytes, ==, LARGE_SIZE);
}

/* A pool where no thread keeps anything. */
static void
test_peak_without_caches (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *block;

  (void) unused;
  players_renew (fixture, 0, G_MAXSIZE, 0);
  for (guint i = 0; i < 2; i++)
    {
      block = take (fixture->pool, i == 0 ? SIZE : SIZE - 1, NULL);
      g_assert_cmpuint (get_stats (fixture->pool).peak_active_bytes, ==, SIZE);
      tarn_block_free (block);
    }
}

int
main (int argc, char **argv)
{
#define ADD(path, func)                                                                            \
  g_test_add ("/core/thread-cache/" path, Fixture, NULL, players_set_up, func, players_tear_down)
  g_test_init (&argc, &argv, NULL);
  tarn_clock_set (get_clock_time);
  ADD ("idle", test_idle);
  ADD ("idle/watched", test_idle_watched);
  ADD ("not-idle", test_not_idle);
  ADD ("who-is-idle", test_who_is_idle);
  ADD ("idle/taken-over", test_idle_taken_over);
  ADD ("peak/before", test_peak_before);
#if defined(__linux__) && !defined(TARN_THREAD_SANITIZER)
  ADD ("peak/at-door", test_peak_at_door);
#endif
  ADD ("peak/of-reclaim", test_peak_of_reclaim);
  ADD ("peak/read-early", test_peak_read_early);
  ADD ("peak/of-two", test_peak_of_two);
  ADD ("peak/of-one", test_peak_of_one);
  ADD ("peak/below-nothing", test_peak_below_nothing);
  ADD ("peak/without-caches", test_peak_without_caches);
  return g_test_run ();
}
