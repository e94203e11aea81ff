/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A program that makes pools and then goes into a sandbox, which keeps it from membarrier(2): what
 * was open when that worked has to be closed all the same.  One that is kept from it from the start
 * is thread-cache-fenced.t. */

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/lock-private.h"
#include "lib/conformance.h"
#include "lib/players.h"
#include "pool/cache-private.h"

#define SIZE 1023 /* of its bin, the largest */
#define N_POOLS 50
#define N_KEPT 8

/* Has the kernel refuse a call to all threads from now on.  FALSE: it does not do such things. */
static gboolean
refuse (guint call)
{
  struct sock_filter filter[] = {
    BPF_STMT (BPF_LD | BPF_W | BPF_ABS, offsetof (struct seccomp_data, nr)),
    BPF_JUMP (BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
    BPF_STMT (BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    BPF_STMT (BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = { G_N_ELEMENTS (filter), filter };

  return prctl (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
         && syscall (SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)
                == 0;
}

typedef struct
{
  Players players; /* first */
  TarnPool *pools[N_POOLS];
  gint n_closing;  /* atomic: pools whose doors were closed, or are being */
  guint64 n_pairs; /* atomic */
} Sandbox;

static void
sandbox_set_up (Sandbox *self)
{
  players_set_up (&self->players, NULL);
  for (guint i = 0; i < N_POOLS; i++)
    {
      self->pools[i] = tarn_pool_new (self->players.allocator, NULL, NULL);
      for (guint round = 0; round < 3; round++)
        {
          TarnBlock *blocks[N_PLAYERS][N_KEPT];

          for (guint j = 0; j < N_PLAYERS; j++)
            player_take (&self->players.players[j], self->pools[i], SIZE, blocks[j], N_KEPT);
          for (guint j = 0; j < N_PLAYERS; j++)
            player_drop (&self->players.players[j], blocks[j], N_KEPT);
        }
    }
}

static void
sandbox_tear_down (Sandbox *self)
{
  for (guint i = 0; i < N_POOLS; i++)
    tarn_pool_unref (self->pools[i]);
  players_tear_down (&self->players, NULL);
}

/* Is inside of the pool that is to be closed next, nearly all the time. */
static void
hit_next (gpointer data)
{
  Sandbox *self = data;
  guint i;

  while ((i = (guint) g_atomic_int_get (&self->n_closing)) < N_POOLS)
    {
      tarn_block_free (take (self->pools[i], SIZE, NULL));
      __atomic_add_fetch (&self->n_pairs, 1, __ATOMIC_RELAXED);
    }
}

static void
await_pairs (Sandbox *self, guint64 n)
{
  guint64 end = __atomic_load_n (&self->n_pairs, __ATOMIC_RELAXED) + n;

  while (__atomic_load_n (&self->n_pairs, __ATOMIC_RELAXED) < end)
    g_thread_yield ();
}

static TarnDoorState
get_state (const TarnPool *pool)
{
  return (TarnDoorState) __atomic_load_n (&pool->door, __ATOMIC_RELAXED);
}

/* Closes the doors of all pools while threads hit; each was open to all, and then is to those that
 * order their loads themselves. */
static void
close_all (Sandbox *self)
{
  for (guint i = 0; i < N_PLAYERS; i++)
    player_start (&self->players.players[i], hit_next, self);
  for (guint i = 0; i < N_POOLS; i++)
    {
      await_pairs (self, 100);
      g_assert_cmpint (get_state (self->pools[i]), ==, TARN_DOOR_OPEN);
      tarn_pool_free_held (self->pools[i]);
      g_assert_cmpint (get_state (self->pools[i]), ==, TARN_DOOR_OPEN_WITH_FENCE);
      g_atomic_int_inc (&self->n_closing);
    }
  for (guint i = 0; i < N_PLAYERS; i++)
    player_await (&self->players.players[i]);
  for (guint i = 0; i < N_POOLS; i++)
    {
      assert_valid (self->pools[i]);
      g_assert_cmpuint (tarn_pool_get_active_blocks (self->pools[i]), ==, 0);
    }
}

/* Pools that come later work, too, and hits take no lock. */
static void
use_later (Sandbox *self)
{
  TarnBlock *blocks[N_KEPT];
  Turn turn = { self->pools[0], SIZE, NULL, blocks, N_KEPT };
  TarnPool *later = tarn_pool_new (self->players.allocator, NULL, NULL);

  for (guint i = 0; i < 2; i++)
    player_keep (&self->players.players[i], later, SIZE, N_KEPT);
  g_assert_cmpint (get_state (later), ==, TARN_DOOR_OPEN_WITH_FENCE);
  g_assert_cmpuint (get_stats (later).held_blocks, ==, 2 * N_KEPT);
  tarn_pool_unref (later);
  player_keep (&self->players.players[0], turn.pool, SIZE, N_KEPT);
  player_run_locked (&self->players.players[0], turn.pool, take_all, &turn);
  player_run_locked (&self->players.players[0], turn.pool, drop_all, &turn);
}

/* A door that is open to all each time, however it has to be closed */

typedef struct
{
  TarnDoor door;
  gint is_changing; /* atomic */
  gint is_over;     /* atomic */
} Litmus;

static void
visit_often (gpointer data)
{
  TarnThread *thread = _tarn_thread_self ();
  Litmus *litmus = data;

  while (!g_atomic_int_get (&litmus->is_over))
    if (_tarn_thread_begin_visit (thread, thread->visits + 1, &litmus->door))
      {
        for (guint i = 0; i < 20; i++)
          g_assert_cmpint (__atomic_load_n (&litmus->is_changing, __ATOMIC_RELAXED), ==, 0);
        _tarn_thread_leave (thread);
      }
}

/* Nobody is inside of a door that is closed, whose store no fence of its own has followed. */
static void
close_often (Sandbox *self)
{
  Litmus litmus = { .door = TARN_DOOR_CLOSED };
  gint64 end = g_get_monotonic_time () + G_USEC_PER_SEC;

  player_start (&self->players.players[0], visit_often, &litmus);
  while (g_get_monotonic_time () < end)
    {
      __atomic_store_n (&litmus.door, TARN_DOOR_OPEN, __ATOMIC_RELEASE);
      for (gint i = g_test_rand_int_range (0, 2000); i > 0; i--)
        __atomic_signal_fence (__ATOMIC_SEQ_CST); /* it is not always at the same place */
      _tarn_door_close (&litmus.door);
      __atomic_store_n (&litmus.is_changing, 1, __ATOMIC_RELAXED);
      for (gint i = 0; i < 100; i++)
        __atomic_signal_fence (__ATOMIC_SEQ_CST);
      __atomic_store_n (&litmus.is_changing, 0, __ATOMIC_RELEASE);
    }
  g_atomic_int_set (&litmus.is_over, TRUE);
  player_await (&self->players.players[0]);
}

/* In this order: what is refused stays so. */
static struct
{
  Sandbox sandbox;
  guint call; /* that is refused, too */
} worlds[] = { { .call = SYS_membarrier }, { .call = SYS_sched_setaffinity } };

static void
test_refused (gconstpointer number)
{
  Sandbox *self = &worlds[GPOINTER_TO_UINT (number)].sandbox;
  guint call = worlds[GPOINTER_TO_UINT (number)].call;

  if (get_state (self->pools[0]) != TARN_DOOR_OPEN)
    g_test_skip ("there is no membarrier to be refused");
  else if (players_pools_are_checked ())
    g_test_skip ("pools are checked all the time, for which they are closed");
  else if (!refuse (SYS_membarrier) || !refuse (call))
    g_test_skip ("the kernel knows no filters of system calls");
  else
    {
      close_all (self);
      use_later (self);
      close_often (self);
    }
}

int
main (int argc, char **argv)
{
  gint result;

  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (worlds); i++)
    sandbox_set_up (&worlds[i].sandbox);
  g_test_add_data_func ("/core/sandbox/membarrier", GUINT_TO_POINTER (0), test_refused);
  g_test_add_data_func ("/core/sandbox/affinity", GUINT_TO_POINTER (1), test_refused);
  result = g_test_run ();
  for (guint i = 0; i < G_N_ELEMENTS (worlds); i++)
    sandbox_tear_down (&worlds[i].sandbox);
  return result;
}
