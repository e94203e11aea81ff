/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Threads that have ended, which nobody looks at any more, and closing a door that threads are
 * inside of (base/thread-private.h). */

#define _GNU_SOURCE 1 /* RUSAGE_THREAD, pthread_setaffinity_np () */

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/lock-private.h"
#include "lib/conformance.h"
#include "lib/last-round.h"
#include "lib/players.h"
#include "pool/cache-private.h"

#define SIZE 1023   /* of its bin, the largest */
#define TOO_LONG 20 /* seconds, for what would take for ever */

typedef Players Fixture;

/* Records */

static void
get_record (gpointer record)
{
  *(TarnThread **) record = _tarn_thread_self ();
}

/* What an ended thread has left is not looked at by one that closes a door: it would wait for
 * ever for the visit that the test makes up. */
static void
test_ended (Fixture *fixture, gconstpointer unused)
{
  Player *first = &fixture->players[0];
  TarnThread *record, *another;

  (void) unused;
  player_run (first, get_record, &record);
  player_end (first);
  _tarn_thread_enter (record, &fixture->pool->door, FALSE);
  alarm (TOO_LONG);
  get_stats (fixture->pool);
  alarm (0);
  _tarn_thread_leave (record);
  player_begin (first);
  player_run (first, get_record, &another);
  g_assert_true (another == record); /* a later one has it */
}

static gpointer
use_once (gpointer data)
{
  Players *players = data;

  tarn_block_free (take (players->pool, SIZE, NULL));
  return NULL;
}

/* Numbers are as small as the most threads that there were at a time. */
static void
test_numbers (Fixture *fixture, gconstpointer unused)
{
  TarnThread *record;

  (void) unused;
  for (guint i = 0; i < 50; i++)
    g_thread_join (g_thread_new ("short", use_once, fixture));
  for (guint i = 0; i < N_PLAYERS; i++)
    {
      player_run (&fixture->players[i], get_record, &record);
      g_assert_cmpuint (record->number, <, N_PLAYERS + 2); /* this thread, and one of those */
    }
}

/* Caches */

#define N_BURST 200
#define N_EACH 5

typedef struct
{
  TarnPool *pool;
  gint n_there; /* atomic */
} Burst;

static gpointer
use_together (gpointer data)
{
  TarnBlock *blocks[N_EACH];
  Burst *self = data;

  for (guint round = 0; round < 3; round++)
    {
      for (guint i = 0; i < N_EACH; i++)
        blocks[i] = take (self->pool, SIZE, NULL);
      if (round == 0)
        g_atomic_int_inc (&self->n_there);
      while (g_atomic_int_get (&self->n_there) < N_BURST)
        g_thread_yield ();
      for (guint i = 0; i < N_EACH; i++)
        tarn_block_free (blocks[i]);
    }
  return NULL;
}

static guint
count_caches (const TarnPool *pool)
{
  guint n = 0;

  for (const TarnCache *cache = pool->caches.first; cache != NULL; cache = cache->next)
    n++;
  return n;
}

/* Of threads that were there together little is left when they have ended, but for their blocks and
 * what they have counted. */
static void
test_burst (Fixture *fixture, gconstpointer unused)
{
  TarnPool *pool = fixture->pool;
  Burst burst = { .pool = pool };
  TarnBlock *blocks[N_BURST * N_EACH];
  GThread *threads[N_BURST];
  TarnPoolStats stats;

  (void) unused;
  for (guint i = 0; i < N_BURST; i++)
    threads[i] = g_thread_new ("burst", use_together, &burst);
  for (guint i = 0; i < N_BURST; i++)
    g_thread_join (threads[i]);
  g_assert_cmpuint (count_caches (pool), <=, TARN_MAX_ABANDONED);
  assert_valid (pool);
  stats = get_stats (pool);
  g_assert_cmpuint (stats.misses, >=, N_BURST * N_EACH);
  g_assert_cmpuint (stats.hits, ==, 3 * N_BURST * N_EACH - stats.misses);
  g_assert_cmpuint (stats.held_blocks, ==, stats.misses);
  g_assert_cmpuint (stats.active_bytes, ==, 0);
  g_assert_cmpuint (stats.peak_active_bytes, <=, N_BURST * N_EACH * SIZE);
  player_take (&fixture->players[0], pool, SIZE, blocks, N_BURST * N_EACH);
  g_assert_cmpuint (players_get_misses (fixture), ==, stats.misses);
  player_drop (&fixture->players[0], blocks, N_BURST * N_EACH);
}

/* The last round of destructors */

typedef struct
{
  TarnPool *pool;
  TarnBlock *block;
} Late;

static void
take_early (gpointer data)
{
  Late *late = data;

  late->block = take (late->pool, SIZE, NULL);
}

static void
use_late (gpointer data)
{
  Late *late = data;

  tarn_block_free (late->block);
  tarn_block_free (take (late->pool, SIZE, NULL));
}

/* A thread that is ending works by the lock alone: nothing of it is there for good. */
static void
test_last_round (Fixture *fixture, gconstpointer unused)
{
  TarnThread *record;
  TarnBlock *block;

  (void) unused;
  player_keep (&fixture->players[0], fixture->pool, 5000, 1);
  for (guint i = 0; i < 100; i++)
    {
      Late late = { .pool = fixture->pool };

      if (!in_last_round (take_early, use_late, &late))
        return;
    }
  player_run (&fixture->players[1], get_record, &record);
  g_assert_cmpuint (record->number, <, N_PLAYERS + 2);
  g_assert_cmpuint (players_get_misses (fixture), ==, 2);
  player_take (&fixture->players[0], fixture->pool, SIZE, &block, 1);
  g_assert_cmpuint (players_get_misses (fixture), ==, 2);
  g_assert_cmpuint (get_stats (fixture->pool).hits, ==, 200);
  g_assert_cmpuint (get_stats (fixture->pool).peak_active_bytes, ==, 5000);
  player_drop (&fixture->players[0], &block, 1);
}

#ifdef __linux__

/* Waiting for a visitor */

typedef struct
{
  TarnPool *pool;
  gint is_inside;  /* atomic */
  gint is_closing; /* atomic */
  glong n_sleeps;  /* of the thread that closes the door */
} Visit;

static gboolean
run_on (gint cpu)
{
  cpu_set_t set;

  CPU_ZERO (&set);
  CPU_SET (cpu, &set);
  return pthread_setaffinity_np (pthread_self (), sizeof set, &set) == 0;
}

static gboolean
run_first (gboolean is_first)
{
  struct sched_param param = { .sched_priority = is_first };

  return pthread_setschedparam (pthread_self (), is_first ? SCHED_FIFO : SCHED_OTHER, &param) == 0;
}

static glong
count_sleeps (void)
{
  struct rusage usage;

  g_assert_cmpint (getrusage (RUSAGE_THREAD, &usage), ==, 0);
  return usage.ru_nvcsw;
}

static gpointer
visit (gpointer data)
{
  Visit *self = data;
  TarnThread *thread = _tarn_thread_self ();

  g_assert_true (run_on (sched_getcpu ()));
  g_assert_true (_tarn_thread_enter (thread, &self->pool->door, FALSE));
  g_atomic_int_set (&self->is_inside, 1 + sched_getcpu ());
  while (!g_atomic_int_get (&self->is_closing))
    continue;
  _tarn_thread_leave (thread);
  return NULL;
}

static gpointer
close_first (gpointer data)
{
  Visit *self = data;
  glong n_sleeps;

  g_assert_true (run_on (g_atomic_int_get (&self->is_inside) - 1));
  g_assert_true (run_first (TRUE));
  _tarn_mutex_lock (&self->pool->lock);
  g_atomic_int_set (&self->is_closing, TRUE);
  n_sleeps = count_sleeps ();
  g_assert_true (_tarn_pool_close (self->pool));
  self->n_sleeps = count_sleeps () - n_sleeps;
  _tarn_pool_open (self->pool, TRUE);
  _tarn_mutex_unlock (&self->pool->lock);
  return NULL;
}

static gpointer
may_run_first (gpointer unused)
{
  (void) unused;
  return GINT_TO_POINTER (run_first (TRUE));
}

/* A thread that comes first on its processor sleeps while it waits for one of lower priority there,
 * which cannot come out otherwise; or only because the kernel keeps back time for such threads. */
static void
test_fifo (Fixture *fixture, gconstpointer unused)
{
  Visit self = { .pool = fixture->pool };
  GThread *visitor, *closer;

  (void) unused;
  if (!GPOINTER_TO_INT (g_thread_join (g_thread_new ("may", may_run_first, NULL))))
    {
      g_test_skip ("this process may not use SCHED_FIFO");
      return;
    }
  alarm (TOO_LONG);
  visitor = g_thread_new ("visitor", visit, &self);
  while (!g_atomic_int_get (&self.is_inside))
    g_thread_yield ();
  closer = g_thread_new ("closer", close_first, &self);
  g_thread_join (closer);
  g_thread_join (visitor);
  alarm (0);
  g_assert_cmpint (self.n_sleeps, >, 0);
}
#endif

int
main (int argc, char **argv)
{
#define ADD(path, func)                                                                            \
  g_test_add ("/core/threads/" path, Fixture, NULL, players_set_up, func, players_tear_down)
  g_test_init (&argc, &argv, NULL);
  ADD ("ended", test_ended);
  ADD ("numbers", test_numbers);
  ADD ("last-round", test_last_round);
#ifdef __linux__
  ADD ("fifo", test_fifo);
#endif
  ADD ("burst", test_burst); /* last: it leaves records */
  return g_test_run ();
}
