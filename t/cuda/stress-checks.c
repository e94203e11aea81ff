/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The checks of the stress test between two rounds, while no call is in flight. */

#include "stress.h"

#include <tarn/debug.h>

/* The most that a pool over a heap holds with the default hold_bytes, as <tarn/pool.h> has it, and
 * how much of that each thread may keep beside the rest. */
#define HOLD_BYTES (8 * MIB)
#define HOLD_SHARE 200
#define THREAD_BYTES (5 * MIB)

/* A heap takes virtual memory up to the limit rounded up to the driver's granularity. */
static void
assert_within_limits (Epoch *epoch)
{
  gsize most = epoch->heaps == OWN_HEAPS ? N_POOLS * FAKE_CUDA_GRANULARITY : 0;

  for (gint i = 0; i < N_POOLS && epoch->has_limit; i++)
    {
      g_assert_cmpuint (tarn_pool_get_managed_bytes (epoch->pools[i]), <=,
                        get_highest_limit (epoch, i));
      most += get_highest_limit (epoch, i);
    }
  if (epoch->has_limit && epoch->heaps != SHARED_HEAP && epoch->failing == FAILS_NEVER)
    g_assert_cmpuint (count_given () - epoch->lost_bytes, <=, most);
}

/* Gets the most bytes that a pool may hold. */
static gsize
get_hold_bound (const Epoch *epoch, guint pool)
{
  gsize managed = tarn_pool_get_managed_bytes (epoch->pools[pool]);

  if (epoch->hold_bytes[pool] != 0)
    return epoch->hold_bytes[pool];
  if (epoch->heaps == NO_HEAP)
    return G_MAXSIZE;
  return MAX (HOLD_BYTES, managed / HOLD_SHARE) + ((gsize) n_threads + 1) * THREAD_BYTES;
}

/* Makes a request for each stream.  Only then a pool can record an event for memory that was freed
 * while the stream was being captured. */
static void
name_streams (TarnPool *pool)
{
  for (gint i = 0; i < n_threads; i++)
    for (guint k = 0; k < N_STREAMS; k++)
      if (workers[i].streams[k] != NULL)
        tarn_block_free (tarn_cuda_pool_allocate (pool, 5 * MIB, workers[i].streams[k], NULL));
}

/* Checks that a pool holds no more than it may.  First it makes the pool ask the driver what is
 * done: by a request for a new stream, and by forgetting that. */
static void
assert_holds_little (const Epoch *epoch, guint i)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  CUstream stream = NULL;

  if (epoch->captures)
    name_streams (epoch->pools[i]);
  g_assert_cmpuint (cuStreamCreate (&stream, NON_BLOCKING), ==, FAKE_CUDA_SUCCESS);
  tarn_block_free (tarn_cuda_pool_allocate (epoch->pools[i], 20000, stream, NULL));
  g_assert_true (tarn_cuda_pool_forget_stream (epoch->pools[i], stream, NULL));
  destroy_stream (&stream);
  tarn_pool_get_stats (epoch->pools[i], &stats);
  if (stats.held_bytes > get_hold_bound (epoch, i))
    g_error ("pool %u holds %" G_GSIZE_FORMAT " bytes, and may hold %" G_GSIZE_FORMAT, i,
             (gsize) stats.held_bytes, get_hold_bound (epoch, i));
}

/* Ends the test if a request at a limit got a wrong answer. */
static void
check_answer (const Epoch *epoch, TarnBlock *block, GError *error, gboolean may_be_limited)
{
  if (block == NULL
      && !(epoch->has_budget && g_error_matches (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY))
      && !(may_be_limited && g_error_matches (error, TARN_ERROR, TARN_ERROR_LIMIT)))
    g_error ("a request %s: %s", may_be_limited ? "at the limit" : "in a raised limit",
             error->message);
  g_clear_error (&error);
  tarn_block_free (block);
}

/* Checks that a pool keeps to a limit of what it has now, and serves a request once the limit is
 * raised. */
static void
check_limit (Epoch *epoch, gint i)
{
  gsize limit = MAX (tarn_pool_get_managed_bytes (epoch->pools[i]), 1), size = 3 * MIB + 1;
  GError *error = NULL;
  TarnBlock *block;

  tarn_pool_set_limit_bytes (epoch->pools[i], limit);
  block = tarn_cuda_pool_allocate (epoch->pools[i], size, NULL, &error);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (epoch->pools[i]), <=, limit);
  check_answer (epoch, block, g_steal_pointer (&error), TRUE);
  limit = MAX (limit, count_given ()) + 16 * MIB;
  tarn_pool_set_limit_bytes (epoch->pools[i], limit);
  block = tarn_cuda_pool_allocate (epoch->pools[i], size, NULL, &error);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (epoch->pools[i]), <=, limit);
  check_answer (epoch, block, error, FALSE);
}

/* Checks what is true between two rounds.  Where calls have failed, memory may be lost, or held
 * because nobody can tell whether it is still used. */
void
check_quiet (Epoch *epoch, gboolean is_last)
{
  fake->fail (NULL, 0, FALSE, 0);
  g_assert_cmpuint (cuCtxSetCurrent (epoch->context), ==, FAKE_CUDA_SUCCESS);
  assert_within_limits (epoch);
  fake->finish_all_work ();
  for (gint i = 0; i < N_POOLS && epoch->failing == FAILS_NEVER; i++)
    assert_holds_little (epoch, (guint) i);
  assert_within_limits (epoch);
  for (gint i = 0; i < N_POOLS && epoch->failing == FAILS_NEVER && is_last; i++)
    check_limit (epoch, i);
  tarn_debug_check ();
  run_child (&workers[0], may_make_errors ());
  leave_context ();
}
