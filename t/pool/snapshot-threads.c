/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Snapshots while threads allocate and free: each shows one moment, and waits for no thread
 * that runs out of memory. */

#include "lib/pool-fixture.h"
#include "snapshot-fixture.h"

/* One moment: each thread has a block of one of two pools at any time, and of both at some.  To
 * tell of the pools between them takes so long that whoever does not hold them still has other
 * blocks then. */

#define N_THREADS 4
#define N_BETWEEN 10
#define N_HELD 100

typedef struct
{
  TarnPool *pools[2];
  gint n_ready; /* atomic */
  gint is_over; /* atomic */
} Traffic;

static gpointer
go_to_and_fro (gpointer data)
{
  Traffic *traffic = data;
  TarnBlock *has = pool_take (traffic->pools[0], 64);
  guint n = 0;

  g_atomic_int_inc (&traffic->n_ready);
  while (!g_atomic_int_get (&traffic->is_over))
    {
      TarnBlock *next = pool_take (traffic->pools[++n % 2], 64);

      tarn_block_free (has);
      has = next;
    }
  tarn_block_free (has);
  return NULL;
}

static TarnPool *
pool_new_full (TarnAllocator *allocator)
{
  TarnPool *pool = pool_new_named (allocator, "between");
  TarnBlock *blocks[N_HELD];

  for (guint i = 0; i < N_HELD; i++)
    blocks[i] = pool_take (pool, 64);
  for (guint i = 0; i < N_HELD; i++)
    tarn_block_free (blocks[i]);
  return pool;
}

static void
test_one_moment (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) left = pool_new_named (allocator, "left");
  g_autoptr (GPtrArray) between = g_ptr_array_new_with_free_func ((GDestroyNotify) tarn_pool_unref);
  g_autoptr (TarnPool) right = NULL;
  g_auto (Place) place = { NULL, NULL };
  Traffic traffic = { .pools = { left } };
  GThread *threads[N_THREADS];

  for (guint i = 0; i < N_BETWEEN; i++)
    g_ptr_array_add (between, pool_new_full (allocator));
  traffic.pools[1] = right = pool_new_named (allocator, "right");
  place_init (&place, "snapshot.json");
  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("traffic", go_to_and_fro, &traffic);
  while (g_atomic_int_get (&traffic.n_ready) < N_THREADS)
    g_thread_yield ();
  for (guint round = 0; round < 200; round++)
    {
      g_autoptr (JsonNode) snapshot = NULL;
      guint64 n;

      if (round % 50 == 0)
        tarn_snapshot_set_follow (round % 100 == 0);
      snapshot = snapshot_take (&place);
      n = snapshot_sum (snapshot_find (snapshot, "left"), "blocks", NULL, 1)
          + snapshot_sum (snapshot_find (snapshot, "right"), "blocks", NULL, 1);
      snapshot_check_pool (snapshot_find (snapshot, "left"));
      snapshot_check_pool (snapshot_find (snapshot, "right"));
      g_assert_cmpuint (n, >=, N_THREADS);
      g_assert_cmpuint (n, <=, 2 * N_THREADS);
    }
  g_atomic_int_set (&traffic.is_over, TRUE);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  tarn_snapshot_set_follow (FALSE);
}

/* Pools of one group have all their locks taken by whoever runs out of memory, and so has whoever
 * takes a snapshot: in the same order, whatever that was in which they joined. */

typedef struct
{
  TarnPool *pool;
  gint *is_over; /* atomic */
} Hungry;

static gpointer
run_out (gpointer data)
{
  const Hungry *self = data;

  while (!g_atomic_int_get (self->is_over))
    {
      TarnBlock *block = tarn_pool_allocate (self->pool, 600, NULL);

      if (block != NULL)
        tarn_block_free (block);
    }
  return NULL;
}

static void
test_group (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (1000);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnReclaimGroup) group = tarn_reclaim_group_new ();
  g_autoptr (TarnPool) first = pool_new_named (allocator, "first");
  g_autoptr (TarnPool) second = pool_new_named (allocator, "second");
  g_auto (Place) place = { NULL, NULL };
  gint is_over = FALSE;
  Hungry hungry[] = { { first, &is_over }, { second, &is_over } };
  GThread *threads[2];

  place_init (&place, "snapshot.json");
  tarn_pool_set_reclaim_group (second, group);
  tarn_pool_set_reclaim_group (first, group);
  for (guint i = 0; i < 2; i++)
    threads[i] = g_thread_new ("hungry", run_out, &hungry[i]);
  for (guint round = 0; round < 300; round++)
    {
      g_autoptr (JsonNode) snapshot = snapshot_take (&place);

      snapshot_check_pool (snapshot_find (snapshot, "first"));
      snapshot_check_pool (snapshot_find (snapshot, "second"));
    }
  g_atomic_int_set (&is_over, TRUE);
  for (guint i = 0; i < 2; i++)
    g_thread_join (threads[i]);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/core/snapshot/one-moment", test_one_moment);
  g_test_add_func ("/core/snapshot/group", test_group);
  return g_test_run ();
}
