/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * An epoch of the stress test: it chooses its settings, makes a context, an allocator and pools,
 * runs the workers, and leaves nothing behind. */

#include "stress.h"

#include <string.h>

#define BUDGET (24 * MIB) /* of the device, where it is to run out */

static TarnAllocator *
allocator_new (const Epoch *epoch)
{
  TarnCudaDeviceOptions options = TARN_CUDA_DEVICE_OPTIONS_INIT;
  g_autoptr (TarnAllocator) direct = NULL;
  g_autoptr (GError) error = NULL;

  options.plain_memory = epoch->is_plain;
  direct = tarn_cuda_device_allocator_new_with_options (epoch->context, &options, &error);
  g_assert_no_error (error);
  return epoch->heaps == SHARED_HEAP ? tarn_heap_allocator_new (direct, NULL, NULL)
                                     : g_steal_pointer (&direct);
}

static TarnPool *
pool_new (const Epoch *epoch, gsize hold_bytes, GRand *rand)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (GError) error = NULL;
  TarnPool *pool;

  options.hold_bytes = hold_bytes;
  options.debug = epoch->debug;
  options.limit_bytes = epoch->has_limit ? FIRST_LIMIT * MIB : 0;
  if (g_rand_int_range (rand, 0, 3) == 0)
    options.thread_cache_blocks = (guint) g_rand_int_range (rand, 0, 4);
  pool = epoch->heaps == OWN_HEAPS ? tarn_cuda_pool_new (epoch->context, &options, &error)
                                   : tarn_pool_new (epoch->allocator, &options, &error);
  g_assert_no_error (error);
  return pool;
}

static gboolean
toss (GRand *rand)
{
  return g_rand_boolean (rand);
}

static void
choose_epoch (Epoch *epoch, GRand *rand)
{
  static const gchar *const debug[] = { "", "", "", "guards,poison", "check=100" };
  static const Failing failing[]
      = { FAILS_NEVER, FAILS_NEVER, FAILS_NEVER, FAILS_NEVER, FAILS_SOFTLY, FAILS_HARD };

  epoch->heaps = (Heaps) g_rand_int_range (rand, NO_HEAP, OWN_HEAPS + 1);
  epoch->is_plain = epoch->heaps != OWN_HEAPS && toss (rand);
  epoch->has_limit = toss (rand);
  epoch->has_budget = g_rand_int_range (rand, 0, 3) == 0;
  epoch->failing = failing[g_rand_int_range (rand, 0, G_N_ELEMENTS (failing))];
  epoch->captures = toss (rand);
  epoch->debug = debug[g_rand_int_range (rand, 0, G_N_ELEMENTS (debug))];
  /* Guards are read on the legacy stream, which ends a capture of a blocking stream that begins at
   * that moment. */
  epoch->may_block = strstr (epoch->debug, "guards") == NULL && toss (rand);
}

static void
make_pools (Epoch *epoch, TarnReclaimGroup *group, GRand *rand)
{
  static const gsize hold_bytes[] = { 0, 0, 0, 1, 64 * KIB, MIB, 4 * MIB, G_MAXSIZE };

  epoch->allocator = allocator_new (epoch);
  for (guint i = 0; i < N_POOLS; i++)
    {
      epoch->hold_bytes[i] = hold_bytes[g_rand_int_range (rand, 0, G_N_ELEMENTS (hold_bytes))];
      epoch->pools[i] = pool_new (epoch, epoch->hold_bytes[i], rand);
      epoch->max_limit_mib[i] = FIRST_LIMIT;
      tarn_pool_set_reclaim_group (epoch->pools[i], group);
    }
}

/* Counts the bytes that the driver has given. */
gsize
count_given (void)
{
  return (gsize) (fake->get_live_bytes (TARN_TESTING_CUDA_DEVICE_MEMORY)
                  + fake->get_live_bytes (TARN_TESTING_CUDA_BACKING));
}

static void
begin_epoch (Epoch *epoch, gint64 number, GRand *rand)
{
  static const gchar *const heaps[] = { "", " heap", " heaps" };
  static const gchar *const failing[] = { "", " fails softly", " fails" };
  g_autoptr (TarnReclaimGroup) group = toss (rand) ? tarn_reclaim_group_new () : NULL;
  CUcontext popped;

  memset (epoch, 0, sizeof *epoch);
  epoch->number = number;
  epoch->lost_bytes = count_given ();
  choose_epoch (epoch, rand);
  _tarn_mutex_init (&epoch->lock);
  fake->set_budget (0, epoch->has_budget ? epoch->lost_bytes + BUDGET : G_MAXUINT64);
  g_assert_cmpuint (cuCtxCreate_v2 (&epoch->context, 0, 0), ==, FAKE_CUDA_SUCCESS);
  make_pools (epoch, group, rand);
  cuCtxPopCurrent_v2 (&popped);
  g_test_message ("epoch %" G_GINT64_FORMAT ":%s%s%s%s%s%s%s%s hold=%zd,%zd %s", number,
                  heaps[epoch->heaps], epoch->is_plain ? " plain" : "",
                  epoch->has_limit ? " limit" : "", epoch->has_budget ? " budget" : "",
                  failing[epoch->failing], epoch->captures ? " captures" : "",
                  epoch->may_block ? " blocking" : "", group != NULL ? " group" : "",
                  (gssize) epoch->hold_bytes[0], (gssize) epoch->hold_bytes[1], epoch->debug);
}

static void
run_workers (Epoch *epoch)
{
  for (gint i = 0; i < n_threads; i++)
    {
      Worker *worker = &workers[i];

      worker->epoch = epoch;
      worker->number = (guint) i + 1;
      worker->rand = g_rand_new_with_seed ((guint32) (seed * 1000003 + epoch->number * 64 + i));
      worker->thread = g_thread_new ("worker", work, worker);
    }
  for (guint round = 0; round < ROUNDS; round++)
    {
      wait_for_workers ();
      check_quiet (epoch, round == ROUNDS - 1);
      begin_next_round ();
    }
  for (gint i = 0; i < n_threads; i++)
    g_thread_join (workers[i].thread);
}

/* Frees all blocks, and ends all commands on streams. */
static void
quiesce (Epoch *epoch)
{
  for (gint i = 0; i < n_threads; i++)
    for (guint k = 0; k < N_SLOTS; k++)
      free_item (epoch, &workers[i].items[k]);
  for (guint i = 0; i < N_SHARED; i++)
    free_item (epoch, &epoch->shared[i]);
  fake->finish_all_work ();
  for (gint i = 0; i < n_threads; i++)
    end_checks (&workers[i]);
}

static void
assert_all_goes_back (Epoch *epoch)
{
  for (guint i = 0; i < N_POOLS; i++)
    {
      g_assert_cmpuint (tarn_pool_get_active_blocks (epoch->pools[i]), ==, 0);
      tarn_pool_free_held (epoch->pools[i]);
      if (epoch->failing != FAILS_HARD)
        g_assert_cmpuint (tarn_pool_get_managed_bytes (epoch->pools[i]), ==, 0);
    }
}

static void
end_epoch (Epoch *epoch)
{
  g_assert_cmpuint (fake->get_calls_after_fork (), ==, 0);
  g_assert_cmpuint (cuCtxSetCurrent (epoch->context), ==, FAKE_CUDA_SUCCESS);
  quiesce (epoch);
  assert_all_goes_back (epoch);
  for (guint i = 0; i < N_POOLS; i++)
    tarn_pool_unref (epoch->pools[i]);
  tarn_allocator_unref (epoch->allocator);
  for (gint i = 0; i < n_threads; i++)
    {
      for (guint k = 0; k < N_STREAMS; k++)
        destroy_stream (&workers[i].streams[k]);
      g_rand_free (workers[i].rand);
    }
  leave_context ();
  _tarn_mutex_clear (&epoch->lock);
}

/* Checks that nothing is left after an epoch.  Memory that was lost to failed calls goes with the
 * context, except virtual memory. */
static void
assert_nothing_is_left (const Epoch *epoch)
{
  static guint lost[FAKE_CUDA_N_KINDS];

  for (guint i = 0; i < FAKE_CUDA_N_KINDS && epoch->failing != FAILS_HARD; i++)
    if (i != TARN_TESTING_CUDA_CONTEXT && fake->get_live (i) != lost[i])
      g_error ("%u of kind %u are left: %s", fake->get_live (i) - lost[i], i,
               fake->describe_live ());
  g_assert_cmpuint (cuCtxDestroy_v2 (epoch->context), ==, FAKE_CUDA_SUCCESS);
  for (guint i = 0; i < FAKE_CUDA_N_KINDS; i++)
    lost[i] = fake->get_live (i);
  g_assert_cmpuint (lost[TARN_TESTING_CUDA_CONTEXT], ==, 0);
}

void
run_epoch (gint64 number)
{
  GRand *rand = g_rand_new_with_seed ((guint32) (seed * 7919 + number));
  Epoch epoch;

  begin_epoch (&epoch, number, rand);
  run_workers (&epoch);
  end_epoch (&epoch);
  assert_nothing_is_left (&epoch);
  g_rand_free (rand);
}
