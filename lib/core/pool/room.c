/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Requests that wait until other threads free memory.  Frees usually take no lock, and wake no
 * thread.  So while a request waits for memory of a pool, the pool's door is closed: threads cache
 * no blocks, and each request and free takes the lock, where it sees that a request waits.
 *
 * A request may wait for several pools, those of a group, and sleeps without any of their locks.
 * It notes the pools' counts of frees before it tries to allocate, so it misses no free during the
 * attempt.  It does not count memory that it frees itself, as by a reclaim function, as a reason to
 * try again. */

#include "pool/cache-private.h"

/* All waiting threads sleep here. */
static TarnMutex lock = TARN_MUTEX_INIT;
static TarnCond freed; /* signalled after a free in any pool */
static TarnOnce once = TARN_ONCE_INIT;

/* The wait of the calling thread, while it tries to allocate; else NULL. */
static _Thread_local TarnRoomWait *current;

static void
init (void)
{
  _tarn_cond_init (&freed);
}

/* Makes frees of a pool take the lock from now on.  The lock is held. */
static void
begin (TarnPool *pool)
{
  _tarn_assert_locked (&pool->lock);
  if (pool->room.n_waiting++ > 0)
    return;
  pool->room.was_open = _tarn_pool_close (pool);
  if (pool->room.was_open)
    _tarn_pool_flush_closed (pool);
}

/* Lets frees of a pool do without the lock again.  If other requests wait, too, it wakes them: they
 * may have seen memory in use that this request had for a while.  The lock is held. */
static void
end (TarnPool *pool)
{
  _tarn_assert_locked (&pool->lock);
  g_assert (pool->room.n_waiting > 0);
  if (--pool->room.n_waiting == 0)
    _tarn_pool_open (pool, pool->room.was_open);
  else
    _tarn_pool_tell_waiting (pool);
}

/* Calls a function for each of the pools, with its lock held. */
static void
for_each (const TarnRoomWait *wait, void (*func) (TarnPool *pool))
{
  for (guint i = 0; i < wait->pools->len; i++)
    {
      TarnPool *pool = g_ptr_array_index (wait->pools, i);

      _tarn_mutex_lock (&pool->lock);
      func (pool);
      _tarn_pool_check_if_full_debug (pool);
      _tarn_mutex_unlock (&pool->lock);
    }
}

/* Adds up the pools' counts of frees. */
static guint
count_freed (const TarnRoomWait *wait)
{
  guint n = 0;

  for (guint i = 0; i < wait->pools->len; i++)
    n += __atomic_load_n (&((const TarnPool *) g_ptr_array_index (wait->pools, i))->room.n_freed,
                          __ATOMIC_ACQUIRE);
  return n;
}

/* Returns TRUE if any memory of the pools may be freed later: because it is in use as a block or as
 * a charge, or on its way from upstream or back. */
static gboolean
is_any_in_use (const TarnRoomWait *wait)
{
  TarnPoolStats stats;
  gboolean is_any = FALSE;

  for (guint i = 0; i < wait->pools->len && !is_any; i++)
    {
      TarnPool *pool = g_ptr_array_index (wait->pools, i);

      _tarn_mutex_lock (&pool->lock);
      _tarn_pool_count (pool, &stats);
      is_any = stats.active_blocks > 0 || pool->limit.reserved_bytes > 0
               || pool->limit.charged_bytes > 0 || pool->returning.calls.oldest != NULL;
      _tarn_mutex_unlock (&pool->lock);
    }
  return is_any;
}

/* Returns TRUE if other threads have freed memory since the attempt began. */
static gboolean
has_news (const TarnRoomWait *wait)
{
  return count_freed (wait) - wait->n_seen != wait->n_own;
}

/* Begins to wait for memory of some pools, on which the caller has references.  The thread holds no
 * lock. */
void
_tarn_room_begin (TarnRoomWait *wait, GPtrArray *pools)
{
  _tarn_once (&once, init);
  *wait = (TarnRoomWait){ .pools = pools };
  for_each (wait, begin);
}

/* Begins an attempt to allocate memory.  No free from here on is missed. */
void
_tarn_room_begin_attempt (TarnRoomWait *wait)
{
  wait->n_own = 0;
  wait->n_seen = count_freed (wait);
  current = wait;
}

/* Ends an attempt to allocate memory. */
void
_tarn_room_end_attempt (void)
{
  current = NULL;
}

/* Waits until other threads have freed memory since the attempt began.  Returns FALSE if @end_time
 * has passed (as g_get_monotonic_time (); G_MAXINT64: never), or no memory is in use that could be
 * freed. */
gboolean
_tarn_room_await (const TarnRoomWait *wait, gint64 end_time)
{
  gboolean is_early = TRUE, is_any = is_any_in_use (wait);

  _tarn_mutex_lock (&lock);
  while (is_any && is_early && !has_news (wait))
    if (end_time == G_MAXINT64)
      _tarn_cond_wait (&freed, &lock);
    else
      is_early = _tarn_cond_wait_until (&freed, &lock, end_time);
  _tarn_mutex_unlock (&lock);
  return has_news (wait);
}

/* Ends a wait. */
void
_tarn_room_end (const TarnRoomWait *wait)
{
  for_each (wait, end);
}

/* Wakes the requests that wait for memory of a pool, because there may be some now.  The lock is
 * held. */
void
_tarn_pool_tell_waiting (TarnPool *pool)
{
  _tarn_assert_locked (&pool->lock);
  if (current != NULL && g_ptr_array_find (current->pools, pool, NULL))
    current->n_own++;
  __atomic_store_n (&pool->room.n_freed, pool->room.n_freed + 1, __ATOMIC_RELEASE);
  _tarn_mutex_lock (&lock);
  _tarn_cond_broadcast (&freed);
  _tarn_mutex_unlock (&lock);
}
