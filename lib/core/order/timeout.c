/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Requests with a timeout: if there is no memory, such a request waits until other threads free
 * some, or until the time is over. */

#include "common/argument-private.h"
#include "order/order-private.h"
#include "upstream/reclaim-group-private.h"
#include "upstream/upstream-private.h"

/* Returns TRUE if this thread may wait until other threads free memory.  Returns FALSE inside a
 * function of the backend or a reclaim function, because the other threads may be waiting until
 * that function returns. */
static gboolean
may_wait (void)
{
  if (!_tarn_may_await (TARN_MAX_LEVEL, TARN_DUTY_ASK) || !_tarn_reclaim_begin ())
    return FALSE;
  _tarn_reclaim_end ();
  return TRUE;
}

/* Returns TRUE if a request is larger than the pool's limit, so that no free by another thread can
 * help. */
static gboolean
is_above_limit (TarnPool *pool, gsize size)
{
  gsize limit_bytes = tarn_pool_get_limit_bytes (pool);

  return limit_bytes != 0 && size > limit_bytes;
}

/* Adds @pool and all other pools of its reclaim group to @pools, with references, unless @pools has
 * @pool already. */
static void
add_group (GPtrArray *pools, TarnPool *pool)
{
  g_autoptr (TarnReclaimGroup) group = NULL;

  if (g_ptr_array_find (pools, pool, NULL))
    return;
  group = _tarn_pool_get_group (pool);
  if (group != NULL)
    _tarn_group_list (group, pools);
  /* Add the pool itself if it has no group, or if it has just left its group. */
  if (!g_ptr_array_find (pools, pool, NULL))
    g_ptr_array_add (pools, tarn_pool_ref (pool));
}

/* Adds the pools for whose frees a request waits.  These are the pool that got the request, the
 * pool that is to serve it, and all pools of the reclaim groups of these two. */
static void
add_pools (GPtrArray *pools, TarnPool *pool, const TarnServer *server)
{
  add_group (pools, pool);
  if (server->other != NULL)
    add_group (pools, server->other);
}

/* Returns TRUE if @pools has the pool that a redirect function chose for a request's last attempt,
 * or if no redirect function chose a pool for this attempt. */
static gboolean
is_listed (GPtrArray *pools, const TarnServer *server)
{
  return server->other == NULL || g_ptr_array_find (pools, server->other, NULL);
}

/* Tries to serve a request.  Sets *server to the pool that served it, or that counted its failure.
 * The caller has set *server to zeros before the first attempt, and clears server->other after the
 * last attempt. */
static TarnBlock *
attempt (TarnPool *pool, gsize size, gpointer queue, TarnServer *server, GError **error)
{
  TarnServer *before;
  TarnBlock *block;

  g_clear_pointer (&server->other, tarn_pool_unref);
  server->asked = pool;
  before = _tarn_server_follow (server);
  block = tarn_pool_allocate_ordered (pool, size, queue, error);
  _tarn_server_follow (before);
  return block;
}

/* Decrements the counter of failures of the pool that was to serve a failed request.  Call this
 * before the request tries again, so that all attempts count as one request. */
static void
uncount_failure (TarnPool *pool)
{
  TARN_LOCKED (&pool->lock);

  if (pool->stats.failures > 0)
    pool->stats.failures--;
}

/* The most times that a request lists the pools for which it waits.  The request lists them again
 * when a redirect function has chosen a pool that is not in the list. */
#define MAX_LISTINGS 16

/* Returns TRUE if a request has failed because memory is short, and may succeed after other threads
 * have freed memory. */
static gboolean
may_try_again (TarnPool *server, gsize size, const TarnBlock *block, const GError *error)
{
  return block == NULL && tarn_error_is_no_memory (error) && !is_above_limit (server, size);
}

/* The time in microseconds between two checks of the blocks that a pool has set aside.  The program
 * freed these blocks while it still had references to their memory.  When the program drops these
 * references, it calls no function of Tarn, so nothing wakes a waiting request, and the request has
 * to check the blocks itself. */
#define ASIDE_TIME (10 * G_TIME_SPAN_MILLISECOND)

/* Frees each block that the pools have set aside, if the program has dropped its references to the
 * block's memory.  Returns TRUE if other blocks are still set aside afterwards. */
static gboolean
free_aside (const GPtrArray *pools)
{
  gboolean has_aside = FALSE;

  for (guint i = 0; i < pools->len; i++)
    {
      TarnPool *pool = g_ptr_array_index (pools, i);

      _tarn_pool_free_aside (pool);
      has_aside |= __atomic_load_n (&pool->blocks.n_aside, __ATOMIC_RELAXED) > 0;
    }
  return has_aside;
}

/* Waits until other threads have freed memory of the pools, or until the program has dropped its
 * references to memory that the pools have set aside.  Returns FALSE if @end_time is reached, or if
 * no memory is in use that other threads could free. */
static gboolean
await_memory (const TarnRoomWait *wait, gint64 end_time)
{
  gint64 until;
  gboolean has_news;

  do
    {
      until = free_aside (wait->pools) ? MIN (end_time, g_get_monotonic_time () + ASIDE_TIME)
                                       : end_time;
      has_news = _tarn_room_await (wait, until);
    }
  while (!has_news && until < end_time);
  return has_news;
}

/* Repeats a failed request each time that a thread has freed memory, until it succeeds or @end_time
 * is reached.  The caller passes the *server and *error of the failed attempt, and each further
 * attempt replaces them. */
static TarnBlock *
allocate_waiting (TarnPool *pool, gsize size, gpointer queue, gint64 end_time, TarnServer *server,
                  GError **error)
{
  g_autoptr (GPtrArray) pools = g_ptr_array_new_with_free_func ((GDestroyNotify) tarn_pool_unref);
  guint n_listings = 0;
  /* FALSE if the list @pools lacks the pool that was to serve the last attempt, and the request may
   * extend the list again (MAX_LISTINGS). */
  gboolean waits_for_all;
  TarnBlock *block;
  TarnRoomWait wait;

  do
    {
      add_pools (pools, pool, server);
      n_listings++;
      _tarn_room_begin (&wait, pools);
      do
        {
          g_clear_error (error);
          uncount_failure (_tarn_server_get (server));
          _tarn_room_begin_attempt (&wait);
          block = attempt (pool, size, queue, server, error);
          _tarn_room_end_attempt (&wait);
          waits_for_all = is_listed (pools, server) || n_listings == MAX_LISTINGS;
        }
      while (may_try_again (_tarn_server_get (server), size, block, *error) && waits_for_all
             && await_memory (&wait, end_time));
      _tarn_room_end (&wait);
    }
  while (may_try_again (_tarn_server_get (server), size, block, *error) && !waits_for_all
         && g_get_monotonic_time () < end_time);
  return block;
}

/* Returns the time (g_get_monotonic_time ()) that is @microseconds from now.  Returns G_MAXINT64,
 * which means that the wait never ends, if @microseconds is negative or too large. */
static gint64
get_end_time (gint64 microseconds)
{
  gint64 now = g_get_monotonic_time ();

  return microseconds < 0 || microseconds > G_MAXINT64 - now ? G_MAXINT64 : now + microseconds;
}

TarnBlock *
tarn_pool_allocate_timeout (TarnPool *pool, gsize size, gpointer queue, gint64 microseconds,
                            GError **error)
{
  gint64 end_time = microseconds != 0 ? get_end_time (microseconds) : 0;
  TarnServer server = { NULL, NULL };
  GError *local = NULL;
  TarnBlock *block;

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  TARN_REFUSE_NULL (pool, NULL);

  block = attempt (pool, size, queue, &server, &local);
  if (microseconds != 0 && may_try_again (_tarn_server_get (&server), size, block, local)
      && may_wait ())
    block = allocate_waiting (pool, size, queue, end_time, &server, &local);
  g_clear_pointer (&server.other, tarn_pool_unref);
  if (local != NULL)
    g_propagate_error (error, local);
  return block;
}
