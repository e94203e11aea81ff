/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Makes a request wait until other threads free memory of a pool.  Usually a free takes no lock,
 * and wakes no thread.  So a waiting request stops the pool's read sections.  From then on threads
 * cache no blocks, and every request and free takes the pool's lock.  While a free holds the lock,
 * it sees that a request waits, and wakes it.
 *
 * A request may wait for all pools of a reclaim group.  It sleeps without the lock of any pool.
 * Before each attempt to allocate, it reads the pools' counts of frees, so that it notices a free
 * that happens during the attempt.  A free by the waiting thread itself, for example in a reclaim
 * function, does not make the request try again.
 *
 * A request also waits while another thread's call is allocating memory from upstream or returning
 * memory to upstream.  If such a call fails, it frees no block, but upstream may afterwards have
 * more free memory than during the call.  So the end of such a call counts as a free. */

#include "pool/cache-private.h"

/* The lock of the condition @freed, on which all waiting threads sleep. */
static TarnMutex lock = TARN_MUTEX_INIT;
/* Signalled after a free in any pool for which a request waits. */
static TarnCond freed = TARN_COND_INIT;

/* Describes the calling thread's request that waits until pools have free memory.  The thread sets
 * this variable only while it tries again to allocate, so that a free by the thread itself is not
 * mistaken for a free by another thread.  NULL at other times. */
static _Thread_local TarnRoomWait *current;

/* Stops a pool's read sections for a waiting request, so that each free takes the pool's lock and
 * wakes the request.  The caller holds the pool's lock. */
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

/* Ends the wait of one request that waited for memory of @pool.  If no other request waits, allows
 * the pool's read sections again.  If others wait, wakes them: while this request tried to
 * allocate, it may have had some memory for a short time, so that other requests failed.  When it
 * gave that memory up, it woke no request (_tarn_pool_note_failed_call ()).  The caller holds the
 * pool's lock. */
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

/* Calls @func for each pool whose memory a request waits for.  Holds the lock of this pool during
 * the call. */
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

/* Adds up the counts of frees (TarnRoom.n_freed) of the pools for which a request waits, modulo
 * 2^32. */
static guint
count_freed (const TarnRoomWait *wait)
{
  guint n = 0;

  for (guint i = 0; i < wait->pools->len; i++)
    n += __atomic_load_n (&((const TarnPool *) g_ptr_array_index (wait->pools, i))->room.n_freed,
                          __ATOMIC_ACQUIRE);
  return n;
}

/* Returns TRUE if memory of the pools that a request waits for may become free later: if a block is
 * in use, if the program has charged bytes to the limit, or if a thread is allocating memory from
 * upstream or returning memory to upstream. */
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

/* Returns TRUE if other threads have freed memory of the pools for which a request waits, since the
 * request began its latest attempt to allocate. */
static gboolean
has_news (const TarnRoomWait *wait)
{
  return count_freed (wait) - wait->n_seen != wait->n_own;
}

/* Prepares a request that is to wait until another thread frees memory of any of @pools.  From now
 * on each free in these pools wakes the request.  The caller has a reference to each pool, and
 * holds no lock. */
void
_tarn_room_begin (TarnRoomWait *wait, GPtrArray *pools)
{
  *wait = (TarnRoomWait){ .pools = pools };
  for_each (wait, begin);
}

/* Reads the counts of frees of the pools for which a request waits.  Call this just before a
 * waiting request tries to allocate: _tarn_room_await () then notices each free after this call. */
void
_tarn_room_begin_attempt (TarnRoomWait *wait)
{
  wait->n_own = 0;
  wait->n_seen = count_freed (wait);
  wait->outer = current;
  current = wait;
}

/* Notes that the calling thread's latest attempt to allocate memory, begun by
 * _tarn_room_begin_attempt (), has ended.  From now on a free by this thread counts as if another
 * thread had freed the memory. */
void
_tarn_room_end_attempt (const TarnRoomWait *wait)
{
  g_assert (current == wait);
  current = wait->outer;
}

/* Waits until another thread frees memory of one of the pools for which the request waits.  If
 * another thread has freed memory since the beginning of the latest attempt to allocate, returns
 * TRUE at once.  Returns FALSE if @end_time passes without a free, or if no memory is in use that
 * other threads could free.  @end_time is a time of g_get_monotonic_time (), or G_MAXINT64 to wait
 * without end. */
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

/* Ends the wait of a request.  If no other request waits for one of the pools, threads can free
 * blocks of this pool without the lock again. */
void
_tarn_room_end (const TarnRoomWait *wait)
{
  for_each (wait, end);
}

/* Wakes the requests that wait for memory of a pool, so that they try again.  The caller holds the
 * pool's lock. */
void
_tarn_pool_tell_waiting (TarnPool *pool)
{
  _tarn_assert_locked (&pool->lock);
  for (TarnRoomWait *wait = current; wait != NULL; wait = wait->outer)
    if (g_ptr_array_find (wait->pools, pool, NULL))
      wait->n_own++;
  __atomic_store_n (&pool->room.n_freed, pool->room.n_freed + 1, __ATOMIC_RELEASE);
  _tarn_mutex_lock (&lock);
  _tarn_cond_broadcast (&freed);
  _tarn_mutex_unlock (&lock);
}

/* Wakes the requests that wait for memory of a pool, because a call to upstream has ended without
 * success.  While the call ran, upstream may have had too little free memory for these requests,
 * and may have enough now.
 *
 * Does nothing if the calling thread itself waits for memory of the pool, and made the call in its
 * latest attempt to allocate.  Otherwise waiting requests that all fail would wake each other for
 * ever.  When such a request gives up, it wakes the others (end ()).  The caller holds the pool's
 * lock. */
void
_tarn_pool_note_failed_call (TarnPool *pool)
{
  _tarn_assert_locked (&pool->lock);
  for (const TarnRoomWait *wait = current; wait != NULL; wait = wait->outer)
    if (g_ptr_array_find (wait->pools, pool, NULL))
      return;
  _tarn_pool_note_room (pool);
}
