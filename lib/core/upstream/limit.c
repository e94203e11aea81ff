/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The limit of a pool, kept as if the upstream allocator had so many bytes and no more: what is
 * being asked for there is reserved, and what goes back counts until it has gone.  Whether a
 * request may ask upstream is decided in one stretch under the lock, which takes
 *
 *     1. bytes that are left
 *     2. bytes that other threads are giving back, for which the request then waits
 *     3. held blocks, the largest first, which it then gives back
 *
 * or nothing, where all of them are not enough.  Then upstream may yet refuse what other threads
 * are asking for, so the request waits for them before it gives up.
 *
 * Who waits for whom, so that it always ends: a call that gives back waits for nobody; a thread
 * that waits for another's reservation has none itself. */

#include "pool/cache-private.h"
#include "upstream/upstream-private.h"

/* How often a request waits for reservations of other threads, who may make new ones for ever. */
#define MAX_WAITS 100

/* Calls of this thread that are asking upstream allocators of pools with a limit. */
static _Thread_local guint asking = 0;

/* What a request has taken beside bytes that were left. */
typedef struct
{
  gboolean has_taken; /* held blocks, to give back */
  TarnGiveBack give_back;
  guint64 last_awaited; /* serial of the last call of another thread to wait for; 0: none */
} Reservation;

static gsize
bytes_left (const TarnPool *pool)
{
  return pool->limit_bytes - pool->stats.managed_bytes - pool->reserved_bytes
         - pool->returning_bytes;
}

static void
reserve_from (TarnPool *pool, TarnGiveBack *give_back, gsize bytes)
{
  _tarn_assert_locked (&pool->lock);
  g_assert (bytes <= give_back->unreserved_bytes);
  give_back->unreserved_bytes -= bytes;
  pool->returning_bytes -= bytes;
}

/* Of the calls that are giving back, the oldest first. */
static void
reserve_returning (TarnPool *pool, gsize bytes, Reservation *reservation)
{
  _tarn_assert_locked (&pool->lock);
  g_assert (bytes <= pool->returning_bytes);
  for (TarnTicket *ticket = pool->give_backs.oldest; bytes > 0; ticket = ticket->next)
    {
      TarnGiveBack *give_back = (TarnGiveBack *) ticket;
      gsize part = MIN (bytes, give_back->unreserved_bytes);

      reserve_from (pool, give_back, part);
      bytes -= part;
      reservation->last_awaited = ticket->serial;
    }
}

static void
reserve_held (TarnPool *pool, gsize bytes, Reservation *reservation)
{
  _tarn_assert_locked (&pool->lock);
  g_assert (bytes <= pool->stats.held_bytes);
  reservation->has_taken = TRUE;
  _tarn_pool_begin_give_back (pool, &reservation->give_back, _tarn_pool_take_largest (pool, bytes));
  reserve_from (pool, &reservation->give_back, bytes);
}

/* Reserves so many bytes, and returns 0, or else how many more there would have to be.  The lock is
 * held. */
static gsize
try_reserve (TarnPool *pool, gsize size, Reservation *reservation)
{
  gsize wanted = size - MIN (size, bytes_left (pool));
  gsize returning = _tarn_is_giving_back () ? 0 : MIN (wanted, pool->returning_bytes);
  gsize held = wanted - returning;

  _tarn_assert_locked (&pool->lock);
  if (held > 0)
    _tarn_pool_flush (pool);
  if (held > pool->stats.held_bytes)
    return held - pool->stats.held_bytes;
  reserve_returning (pool, returning, reservation);
  if (held > 0)
    reserve_held (pool, held, reservation);
  pool->reserved_bytes += size;
  return 0;
}

/* Waits until a reservation has come to its end.  FALSE at once where all of them would not make up
 * the bytes wanted, or where a thread must not wait.  The lock is held. */
static gboolean
await_reservation (TarnPool *pool, gsize wanted)
{
  guint64 ended = pool->ended_reservations;

  _tarn_assert_locked (&pool->lock);
  if (wanted > pool->reserved_bytes || asking > 0 || _tarn_is_giving_back ())
    return FALSE;
  while (pool->ended_reservations == ended)
    _tarn_cond_wait (&pool->reservation_ended, &pool->lock);
  return TRUE;
}

static gboolean
reserve_or_wait (TarnPool *pool, gsize size, Reservation *reservation)
{
  guint waits = 0;
  gsize wanted;

  while ((wanted = try_reserve (pool, size, reservation)) > 0)
    if (waits++ == MAX_WAITS || !await_reservation (pool, wanted))
      return FALSE;
  return TRUE;
}

static void
set_limit_error (TarnPool *pool, gsize size, GError **error)
{
  _tarn_assert_locked (&pool->lock);
  g_set_error (error, TARN_ERROR, TARN_ERROR_LIMIT,
               "pool '%s': %" G_GSIZE_FORMAT " bytes asked for, %" G_GSIZE_FORMAT
               " active, %" G_GSIZE_FORMAT " held: more than the limit of %" G_GSIZE_FORMAT
               " bytes allows",
               pool->base.ops.name, size, pool->stats.active_bytes, pool->stats.held_bytes,
               pool->limit_bytes);
}

/* Before the upstream allocator of a pool with a limit is asked for so many bytes, which are the
 * caller's until _tarn_pool_end_reservation ().  FALSE with TARN_ERROR_LIMIT, and nothing given
 * back, if there cannot be so many.  Stores _tarn_pool_get_ended () as it is then. */
gboolean
_tarn_pool_reserve (TarnPool *pool, gsize size, guint64 *ended_give_backs, GError **error)
{
  Reservation reservation = { .has_taken = FALSE };
  gboolean reserved;

  _tarn_assert_not_locked (&pool->lock);
  _tarn_mutex_lock (&pool->lock);
  reserved = reserve_or_wait (pool, size, &reservation);
  if (!reserved)
    set_limit_error (pool, size, error);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);

  if (!reserved)
    return FALSE;
  if (reservation.has_taken)
    _tarn_pool_give_back (pool, &reservation.give_back, TRUE);

  _tarn_mutex_lock (&pool->lock);
  _tarn_tickets_await (&pool->give_backs, reservation.last_awaited, &pool->lock);
  *ended_give_backs = _tarn_pool_get_ended (pool);
  _tarn_mutex_unlock (&pool->lock);
  return TRUE;
}

/* The bytes are allocated, and counted as managed in the same stretch under the lock, which is
 * held; or they are not to be had. */
void
_tarn_pool_end_reservation (TarnPool *pool, gsize size)
{
  _tarn_assert_locked (&pool->lock);
  if (pool->limit_bytes == 0)
    return;
  pool->reserved_bytes -= size;
  pool->ended_reservations++;
  _tarn_cond_broadcast (&pool->reservation_ended);
}

/* Asks upstream for what is reserved, where there is a limit. */
gboolean
_tarn_pool_try_upstream (TarnPool *pool, gsize size, TarnMemory *memory, GError **error)
{
  gboolean has_limit = pool->limit_bytes != 0;
  gboolean allocated;

  _tarn_assert_not_locked (&pool->lock);
  asking += has_limit;
  allocated = _tarn_allocator_try (pool->upstream, size, memory, error);
  asking -= has_limit;
  return allocated;
}
