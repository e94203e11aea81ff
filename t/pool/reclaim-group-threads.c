/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Pools that give back for one another in several threads: nothing that is on its way back is
 * missed, nobody waits for ever, and a pool may come, go and end meanwhile. */

#include <tarn/testing.h>

#include "lib/conformance.h"
#include "pool/pool-private.h"

#define N_POOLS 3
#define N_THREADS 6
#define LARGEST 65535 /* of its bin, too */

typedef struct
{
  TarnTestingDevice *device;
  TarnReclaimGroup *group;
  TarnPool *pools[N_POOLS];
  gint is_over;   /* atomic */
  gint is_inside; /* atomic: a hook has been called, */
  gint may_go;    /* atomic: which waits for this */
} Fixture;

static TarnPool *
new_pool (Fixture *fixture)
{
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (fixture->device);
  TarnPool *pool = tarn_pool_new (allocator, NULL, NULL);

  tarn_pool_set_reclaim_group (pool, fixture->group);
  return pool;
}

static void
set_up (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  fixture->device = tarn_testing_device_new (G_MAXUINT64);
  fixture->group = tarn_reclaim_group_new ();
  for (guint i = 0; i < N_POOLS; i++)
    fixture->pools[i] = new_pool (fixture);
}

static void
tear_down (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  for (guint i = 0; i < N_POOLS; i++)
    {
      if (fixture->pools[i] != NULL)
        assert_valid (fixture->pools[i]);
      tarn_pool_unref (fixture->pools[i]);
    }
  tarn_reclaim_group_unref (fixture->group);
  tarn_testing_device_free (fixture->device);
}

static void
await (const gint *flag)
{
  while (!g_atomic_int_get (flag))
    g_thread_yield ();
}

/* Called where memory goes back, by the first thread that comes. */
static void
hold_up (gpointer data)
{
  Fixture *fixture = data;

  if (!g_atomic_int_compare_and_exchange (&fixture->is_inside, FALSE, TRUE))
    return;
  await (&fixture->may_go);
}

static gpointer
free_held (gpointer data)
{
  Fixture *fixture = data;

  tarn_pool_free_held (fixture->pools[1]);
  return NULL;
}

static gpointer
allocate_and_free (gpointer data)
{
  Fixture *fixture = data;

  tarn_block_free (allocate (fixture->pools[0], 1023));
  return NULL;
}

static gpointer
drop_second (gpointer data)
{
  Fixture *fixture = data;

  tarn_pool_unref (g_steal_pointer (&fixture->pools[1]));
  g_atomic_int_set (&fixture->is_over, TRUE);
  return NULL;
}

/* A held block of the second pool, and no room for another one. */
static void
hold_one (Fixture *fixture)
{
  tarn_block_free (allocate (fixture->pools[1], 1023));
  tarn_testing_device_set_budget (fixture->device, 1023);
  tarn_testing_device_set_free_hook (fixture->device, hold_up, fixture);
}

/* Until a request in another thread has asked the device, and must be waiting, or have failed. */
static void
await_request (const Fixture *fixture)
{
  while (tarn_testing_device_get_allocate_calls (fixture->device) < 2)
    g_thread_yield ();
}

typedef struct
{
  const gchar *path;
  GThreadFunc give_back;
} Way;

static const Way ways[] = { { "free-held", free_held }, { "last-reference", drop_second } };

/* What another pool is giving back at this moment is as good as free. */
static void
test_wait_for_give_back (Fixture *fixture, gconstpointer data)
{
  const Way *way = data;
  GThread *giver, *taker;

  hold_one (fixture);
  giver = g_thread_new ("giver", way->give_back, fixture);
  await (&fixture->is_inside);
  taker = g_thread_new ("taker", allocate_and_free, fixture);
  await_request (fixture);
  g_atomic_int_set (&fixture->may_go, TRUE);
  g_thread_join (giver);
  g_thread_join (taker);
}

/* When the last reference is gone, so is what the pool held, whoever is giving it back. */
static void
test_unref_waits_for_member (Fixture *fixture, gconstpointer unused)
{
  GThread *member, *owner;

  (void) unused;
  hold_one (fixture);
  member = g_thread_new ("member", allocate_and_free, fixture);
  await (&fixture->is_inside);
  owner = g_thread_new ("owner", drop_second, fixture);
  for (guint i = 0; i < 1000; i++) /* which must not be long enough */
    {
      g_thread_yield ();
      g_assert_false (g_atomic_int_get (&fixture->is_over));
    }
  g_atomic_int_set (&fixture->may_go, TRUE);
  g_thread_join (owner);
  g_thread_join (member);
}

/* Random */

typedef struct
{
  Fixture *fixture;
  guint32 seed;
} Worker;

static gpointer
allocate_at_random (gpointer data)
{
  Worker *worker = data;
  g_autoptr (GRand) rand = g_rand_new_with_seed (worker->seed);

  for (guint i = 0; i < 2000; i++)
    {
      TarnPool *pool = worker->fixture->pools[g_rand_int_range (rand, 0, N_POOLS)];
      g_autoptr (GError) error = NULL;
      gsize size = (gsize) g_rand_int_range (rand, 1024, LARGEST + 1);
      TarnBlock *block = tarn_pool_allocate (pool, size, &error);

      g_assert_no_error (error);
      tarn_block_free (block);
    }
  return NULL;
}

/* Pools that come and hold something, and go. */
static gpointer
come_and_go (gpointer data)
{
  Fixture *fixture = data;

  while (!g_atomic_int_get (&fixture->is_over))
    {
      TarnPool *pool = new_pool (fixture);

      tarn_block_free (allocate (pool, LARGEST));
      tarn_pool_unref (pool);
    }
  return NULL;
}

static gpointer
leave_and_join (gpointer data)
{
  Fixture *fixture = data;
  g_autoptr (TarnReclaimGroup) other = tarn_reclaim_group_new ();

  while (!g_atomic_int_get (&fixture->is_over))
    {
      TarnPool *pool = new_pool (fixture);

      tarn_pool_set_reclaim_group (pool, other);
      tarn_pool_set_reclaim_group (pool, fixture->group);
      tarn_block_free (allocate (pool, LARGEST));
      tarn_pool_set_reclaim_group (pool, NULL);
      tarn_pool_unref (pool);
    }
  return NULL;
}

typedef struct
{
  const gchar *path;
  GThreadFunc meanwhile; /* of another thread with a share; NULL: nothing */
} Company;

static const Company companies[]
    = { { "alone", NULL }, { "come-and-go", come_and_go }, { "leave-and-join", leave_and_join } };

/* Each thread uses at most its share of a device that has room for the shares and no byte more:
 * whatever others hold and give back meanwhile, in whatever pool, no request fails. */
static void
test_shares (Fixture *fixture, gconstpointer data)
{
  const Company *company = data;
  GThread *threads[N_THREADS], *other = NULL;
  Worker workers[N_THREADS];
  guint64 reclaims = 0;

  tarn_testing_device_set_budget (fixture->device,
                                  (N_THREADS + (company->meanwhile != NULL)) * LARGEST);
  if (company->meanwhile != NULL)
    other = g_thread_new ("meanwhile", company->meanwhile, fixture);
  for (guint i = 0; i < N_THREADS; i++)
    {
      workers[i] = (Worker){ fixture, g_test_rand_int () };
      threads[i] = g_thread_new ("share", allocate_at_random, &workers[i]);
    }
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  g_atomic_int_set (&fixture->is_over, TRUE);
  if (other != NULL)
    g_thread_join (other);
  for (guint i = 0; i < N_POOLS; i++)
    {
      TarnPoolStats stats = TARN_POOL_STATS_INIT;

      tarn_pool_get_stats (fixture->pools[i], &stats);
      g_assert_cmpuint (stats.failures, ==, 0);
      reclaims += stats.reclaims;
    }
  g_test_message ("%" G_GUINT64_FORMAT " requests were out of memory", reclaims);
  g_assert_cmpuint (reclaims, >, 0);
}

int
main (int argc, char **argv)
{
#define ADD(path, data, func) g_test_add (path, Fixture, data, set_up, func, tear_down)
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (ways); i++)
    {
      g_autofree gchar *path
          = g_strdup_printf ("/core/reclaim-group/threads/wait-for/%s", ways[i].path);

      ADD (path, &ways[i], test_wait_for_give_back);
    }
  ADD ("/core/reclaim-group/threads/unref-waits-for-member", NULL, test_unref_waits_for_member);
  for (guint i = 0; i < G_N_ELEMENTS (companies); i++)
    {
      g_autofree gchar *path
          = g_strdup_printf ("/core/reclaim-group/threads/shares/%s", companies[i].path);

      ADD (path, &companies[i], test_shares);
    }
  return g_test_run ();
}
