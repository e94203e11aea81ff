/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The limit of a pool: the most bytes that the pool may have from its upstream allocator.  A pool
 * without a limit may have as many bytes as a gsize can count.
 *
 * A request reserves its bytes within the limit before it asks upstream for them.  Bytes that
 * threads are returning to upstream count toward the limit until upstream has them.  To reserve
 * bytes, a request takes in one critical section:
 *
 *     1. bytes that are left within the limit
 *     2. bytes that other threads are returning; the request then waits for these threads
 *     3. cached blocks, the largest first; the request then returns these blocks to upstream
 *
 * If all of these are not enough, the request reserves nothing, and waits until a reservation of
 * another thread ends.  Then it tries again, because upstream may have had no memory for that
 * reservation.  The request fails at once if all reservations together have too few bytes for it.
 *
 * Each such wait ends, because of two rules (base/duty-private.h).  A call that returns memory
 * waits for no other thread of the same pool.  A thread that has a reservation waits for no other
 * reservation of the same pool.  The second rule also holds if the pool had no limit when the
 * thread made its reservation, because the program may set a limit meanwhile.
 *
 * Bytes that the program allocates without the pool and charges to it (charge.c) count in the same
 * way as the pool's own bytes.
 *
 * If the program lowers the limit, the pool returns as many cached blocks as needed.  The blocks in
 * use may then exceed the limit.  A request that needs upstream fits within the limit only if the
 * bytes in use and the request's bytes together do not exceed the limit. */

#include "base/fork-private.h"
#include "common/limit-private.h"
#include "debug/debug-private.h"
#include "pool/cache-private.h"
#include "record/record-private.h"
#include "upstream/upstream-private.h"

/* The most times that one request waits for reservations of other threads to end.  Without this
 * limit it might wait forever, because these threads may make new reservations. */
#define MAX_WAITS 100

/* The bytes that a request gets in other ways, if too few bytes are left within the limit: bytes
 * that calls of other threads are returning to upstream, and bytes of cached blocks. */
typedef struct
{
  /* TRUE if the request took cached blocks.  The field give_back then has these blocks, which the
   * request returns to upstream. */
  gboolean has_taken;
  TarnGiveBack give_back;
  /* A request may take bytes that calls of other threads are still returning to upstream.  This is
   * the serial number of the latest of these calls; 0 if there is none.  The request waits until
   * this call and all older ones have ended. */
  guint64 last_awaited;
} Taken;

/* Gets the pool's limit in bytes, or G_MAXSIZE if the pool has no limit. */
static gsize
get_limit (const TarnPool *pool)
{
  return pool->limit.bytes != 0 ? pool->limit.bytes : G_MAXSIZE;
}

/* Returns the number of bytes that must become free before @size more bytes fit within the limit.
 * Returns G_MAXSIZE if a gsize cannot count them.  The caller holds the pool's lock. */
static gsize
bytes_above (const TarnPool *pool, gsize size)
{
  gsize limit = get_limit (pool);
  gsize total
      = _tarn_pool_get_committed (pool) + pool->limit.reserved_bytes + pool->returning.bytes;

  _tarn_assert_locked (&pool->lock);
  if (total <= limit)
    return size - MIN (size, limit - total);
  return size <= G_MAXSIZE - (total - limit) ? size + (total - limit) : G_MAXSIZE;
}

/* Sets the ceiling, the limit that the pool enforces now.  The ceiling is the limit, or the number
 * of bytes that the pool has now if this number is higher.  The caller holds the pool's lock. */
void
_tarn_pool_fit_ceiling (TarnPool *pool)
{
  pool->limit.ceiling_bytes = get_limit (pool) + bytes_above (pool, 0);
}

/* Reserves @bytes bytes for a request.  The bytes are some of those that the call @give_back is
 * returning to upstream now, and that no request has reserved yet. */
static void
take_from (TarnPool *pool, TarnGiveBack *give_back, gsize bytes)
{
  _tarn_assert_locked (&pool->lock);
  g_assert (bytes <= give_back->unreserved_bytes);
  give_back->unreserved_bytes -= bytes;
  pool->returning.bytes -= bytes;
}

/* Reserves @bytes bytes for a request.  The bytes are some of those that calls of other threads are
 * returning to upstream now, first those of the oldest call. */
static void
take_returning (TarnPool *pool, gsize bytes, Taken *taken)
{
  _tarn_assert_locked (&pool->lock);
  g_assert (bytes <= pool->returning.bytes);
  for (TarnTicket *ticket = pool->returning.calls.oldest; bytes > 0; ticket = ticket->next)
    {
      TarnGiveBack *give_back = (TarnGiveBack *) ticket;
      gsize part = MIN (bytes, give_back->unreserved_bytes);

      take_from (pool, give_back, part);
      bytes -= part;
      taken->last_awaited = ticket->serial;
    }
}

/* Takes cached blocks out of the free lists for a request, and reserves their bytes for it.  The
 * request then returns these blocks to upstream. */
static void
take_from_held (TarnPool *pool, gsize bytes, Taken *taken)
{
  _tarn_assert_locked (&pool->lock);
  g_assert (bytes <= pool->stats.held_bytes);
  taken->has_taken = TRUE;
  _tarn_pool_begin_give_back (pool, &taken->give_back, _tarn_pool_take_largest (pool, bytes));
  take_from (pool, &taken->give_back, bytes);
}

/* Returns the number of bytes that other threads are returning to upstream, at most @wanted.
 * Returns 0 if this thread must not wait for these threads. */
static gsize
get_returning (const TarnPool *pool, gsize wanted)
{
  gboolean may_wait = wanted > 0 && _tarn_may_await (pool->base.level, TARN_DUTY_GIVE_BACK);

  return may_wait ? MIN (wanted, pool->returning.bytes) : 0;
}

/* Reserves bytes within the limit for a request, and returns 0.  If too few bytes are available,
 * reserves none, and returns the number of missing bytes.  The caller holds the pool's lock. */
static gsize
try_reserve (TarnPool *pool, gsize size, Taken *taken)
{
  gsize wanted = bytes_above (pool, size);
  gsize returning, held;

  _tarn_assert_locked (&pool->lock);
  if (wanted > get_returning (pool, wanted))
    {
      _tarn_pool_flush (pool);
      wanted = bytes_above (pool, size);
    }
  returning = get_returning (pool, wanted);
  held = wanted - returning;
  if (held > pool->stats.held_bytes)
    return held - pool->stats.held_bytes;
  take_returning (pool, returning, taken);
  if (held > 0)
    take_from_held (pool, held, taken);
  pool->limit.reserved_bytes += size;
  pool->limit.ceiling_bytes = get_limit (pool);
  return 0;
}

/* Waits until some thread's reservation ends.  Returns FALSE without waiting if the pool has no
 * limit, if all reservations together have less than @wanted bytes, or if this thread must not
 * wait.  The caller holds the pool's lock; this function releases the lock while it waits. */
static gboolean
await_reservation (TarnPool *pool, gsize wanted)
{
  guint64 ended = pool->limit.ended_reservations;

  _tarn_assert_locked (&pool->lock);
  if (pool->limit.bytes == 0 || wanted > pool->limit.reserved_bytes
      || !_tarn_may_await (pool->base.level, TARN_DUTY_ASK))
    return FALSE;
  pool->limit.n_awaiting++;
  while (pool->limit.ended_reservations == ended)
    _tarn_cond_wait (&pool->limit.reservation_ended, &pool->lock);
  pool->limit.n_awaiting--;
  return TRUE;
}

/* Reserves bytes within the limit for a request.  If too few bytes are left, waits until a
 * reservation of another thread ends, and tries again.  Returns FALSE if a wait cannot help, or
 * after MAX_WAITS waits.  The caller holds the pool's lock. */
static gboolean
reserve_or_wait (TarnPool *pool, gsize size, Taken *taken)
{
  guint waits = 0;
  gsize wanted;

  _tarn_assert_locked (&pool->lock);
  while ((wanted = try_reserve (pool, size, taken)) > 0)
    if (waits++ == MAX_WAITS || !await_reservation (pool, wanted))
      return FALSE;
  return TRUE;
}

/* Returns a part of an error message: the number of charged bytes, which the program allocated
 * without the pool, or "" if there are none.  The caller holds the pool's lock. */
static gchar *
describe_charge (const TarnPool *pool)
{
  if (pool->limit.charged_bytes == 0)
    return g_strdup ("");
  return g_strdup_printf (" and %" G_GSIZE_FORMAT " charged", pool->limit.charged_bytes);
}

/* Appends an item that counts toward the limit, such as "blocks in use take 4096", to the list
 * @parts of an error message.  Appends nothing if @bytes is 0.  Adds @bytes to *sum. */
static void
append_part (GString *parts, const gchar *name, gsize bytes, gsize *sum)
{
  *sum += bytes;
  if (bytes > 0)
    g_string_append_printf (parts, "%s%s %" G_GSIZE_FORMAT, parts->len > 0 ? ", " : "", name,
                            bytes);
}

/* Lists, for an error message, the items that count toward the limit and leave no room for a
 * request.  Returns the sum of the items' bytes.  @is_stuck: TRUE if the pool could not return its
 * cached blocks; then the list includes these blocks.  The numbers may not fit together exactly,
 * because threads change the counters of their caches while the pool reads these counters one by
 * one.  The caller holds the pool's lock. */
static gsize
describe_parts (TarnPool *pool, gboolean is_stuck, GString *parts)
{
  gsize managed = _tarn_pool_get_managed (pool), held = pool->stats.held_bytes;
  gsize active = pool->stats.active_bytes, used = _tarn_subtract (managed, held), sum = 0;
  gsize asking
      = _tarn_subtract (_tarn_pool_get_committed (pool), managed + pool->limit.charged_bytes)
        + pool->limit.reserved_bytes;
  gsize returning = pool->returning.bytes - get_returning (pool, G_MAXSIZE);

  _tarn_assert_locked (&pool->lock);
  append_part (parts, "blocks in use take", used, &sum);
  if (used > active)
    g_string_append_printf (parts, " (%" G_GSIZE_FORMAT " active, and rounding)", active);
  append_part (parts, "charges take", pool->limit.charged_bytes, &sum);
  append_part (parts, "requests of other threads take", asking, &sum);
  append_part (parts, "blocks that are being returned take", returning, &sum);
  append_part (parts, "held blocks that cannot be returned now take", is_stuck ? held : 0, &sum);
  return sum;
}

/* Sets the error of a request that would exceed the limit.  The numbers in the message add up: the
 * sum of all listed items and of the bytes that are left is the limit.  @is_stuck: TRUE if the pool
 * could not return its cached blocks.  The caller holds the pool's lock. */
static void
set_limit_error (TarnPool *pool, gsize size, gboolean is_stuck, GError **error)
{
  g_autoptr (GString) parts = g_string_new (NULL), held = g_string_new (NULL);
  gsize limit = pool->limit.bytes, taken = describe_parts (pool, is_stuck, parts);
  gsize left = _tarn_subtract (limit, taken);

  _tarn_assert_locked (&pool->lock);
  if (!is_stuck && left > 0 && pool->stats.held_bytes > 0)
    g_string_printf (held, " (%" G_GSIZE_FORMAT " of them held)",
                     MIN (left, pool->stats.held_bytes));
  g_set_error (error, TARN_ERROR, TARN_ERROR_LIMIT,
               "%s: " TARN_BYTES_FORMAT " asked for, but %" G_GSIZE_FORMAT
               "%s %s left of the limit of " TARN_BYTES_FORMAT "%s%s",
               pool->base.label, TARN_BYTES (size), left, held->str, left == 1 ? "is" : "are",
               TARN_BYTES (limit), parts->len > 0 ? ": " : "", parts->str);
}

/* Sets the error of a request with so many bytes that the pool's counters would overflow.  The
 * caller holds the pool's lock. */
static void
set_size_error (const TarnPool *pool, gsize size, GError **error)
{
  g_autofree gchar *charge = describe_charge (pool);

  _tarn_assert_locked (&pool->lock);
  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_SIZE,
               "%" G_GSIZE_FORMAT " bytes beside the %" G_GSIZE_FORMAT
               " that the pool manages%s are more than a size can count",
               size, _tarn_pool_get_managed (pool), charge);
}

/* Wakes the threads that wait until a reservation ends.  The caller holds the pool's lock. */
static void
tell_awaiting (TarnPool *pool)
{
  _tarn_assert_locked (&pool->lock);
  pool->limit.ended_reservations++;
  if (pool->limit.n_awaiting > 0)
    _tarn_cond_broadcast (&pool->limit.reservation_ended);
}

/* Wakes the requests that wait until reservations end, and the requests that wait for memory.  Call
 * this if there is more room within the limit.  The caller holds the pool's lock. */
void
_tarn_pool_note_limit_room (TarnPool *pool)
{
  tell_awaiting (pool);
  _tarn_pool_note_room (pool);
}

/* Ends a reservation, after the caller has asked upstream for the memory.  If upstream has
 * allocated the memory, the caller counts the bytes as managed in the same critical section.  The
 * caller holds the pool's lock. */
void
_tarn_pool_end_reservation (TarnPool *pool, const TarnReservation *reservation)
{
  _tarn_assert_locked (&pool->lock);
  pool->limit.reserved_bytes -= reservation->size;
  _tarn_duty_end (pool->base.level, TARN_DUTY_ASK);
  tell_awaiting (pool);
}

/* Ends the reservation of a caller that has got no memory.  The caller holds the pool's lock. */
void
_tarn_pool_drop_reservation (TarnPool *pool, const TarnReservation *reservation)
{
  _tarn_pool_end_reservation (pool, reservation);
  _tarn_pool_note_failed_call (pool);
}

/* Ends a request's reservation, and sets an error.  The request had reserved bytes of cached
 * blocks, but the pool could not return these blocks to upstream, so the pool's limit leaves no
 * room for the request.  The caller holds the pool's lock. */
static void
give_up_reservation (TarnPool *pool, const TarnReservation *reservation, GError **error)
{
  _tarn_assert_locked (&pool->lock);
  _tarn_pool_drop_reservation (pool, reservation);
  _tarn_pool_fit_ceiling (pool);
  set_limit_error (pool, reservation->size, TRUE, error);
}

/* Reserves bytes within the limit, before the caller asks the upstream allocator for them.  The
 * caller ends the reservation by _tarn_pool_end_reservation ().  If the bytes would exceed the
 * limit, returns FALSE with TARN_ERROR_LIMIT.  If the pool has no limit, but a gsize cannot count
 * all its bytes, returns FALSE with TARN_ERROR_INVALID_SIZE.  The caller does not hold the pool's
 * lock. */
gboolean
_tarn_pool_reserve (TarnPool *pool, TarnReservation *reservation, GError **error)
{
  Taken taken = { .has_taken = FALSE };
  guint64 n_came_back;
  gboolean reserved;

  _tarn_assert_not_locked (&pool->lock);
  _tarn_mutex_lock (&pool->lock);
  reserved = reserve_or_wait (pool, reservation->size, &taken);
  if (reserved)
    _tarn_duty_begin (pool->base.level, TARN_DUTY_ASK);
  n_came_back = pool->limit.n_came_back;
  reservation->is_limited = pool->limit.bytes != 0;
  reservation->ended_give_backs = _tarn_pool_get_ended (pool);
  if (!reserved && reservation->is_limited)
    set_limit_error (pool, reservation->size, FALSE, error);
  else if (!reserved)
    set_size_error (pool, reservation->size, error);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);

  reservation->was_short |= !reserved || taken.has_taken;
  if (!reserved || (!taken.has_taken && taken.last_awaited == 0))
    return reserved;
  if (taken.has_taken && _tarn_pool_give_back (pool, &taken.give_back, TRUE) > 0)
    _tarn_pool_give_back_held (pool, G_MAXSIZE); /* some blocks are stuck, so return all others */

  _tarn_mutex_lock (&pool->lock);
  _tarn_tickets_await (&pool->returning.calls, taken.last_awaited, &pool->lock);
  reservation->ended_give_backs = _tarn_pool_get_ended (pool);
  if (pool->limit.n_came_back != n_came_back && bytes_above (pool, 0) > 0)
    reserved = FALSE;
  if (!reserved)
    give_up_reservation (pool, reservation, error);
  _tarn_mutex_unlock (&pool->lock);
  return reserved;
}

/* Asks upstream once for the bytes of a reservation.  @queue: the request's queue if this queue
 * runs its commands in order, else NULL.  If upstream is a heap, asks the heap for memory of
 * @queue.  If the heap's memory then belongs to @queue, sets *owner to the heap's number for this
 * queue.  The caller does not hold the pool's lock. */
gboolean
_tarn_pool_try_upstream (TarnPool *pool, const TarnReservation *reservation, gsize alignment,
                         const TarnQueue *queue, TarnMemory *memory, guint64 *owner, GError **error)
{
  guint64 nobody;

  _tarn_assert_not_locked (&pool->lock);
  if (pool->heap != NULL && queue != NULL)
    return _tarn_heap_allocate_for (pool->heap, reservation->size, alignment, queue->handle, memory,
                                    owner, error);
  if (pool->heap != NULL && alignment != 0)
    return _tarn_heap_allocate_for (pool->heap, reservation->size, alignment, NULL, memory, &nobody,
                                    error);
  if (pool->policy.is_debugged && alignment != 0)
    return _tarn_debug_allocate_aligned (pool->upstream, reservation->size, alignment, memory,
                                         error);
  return _tarn_allocator_try (pool->upstream, reservation->size, memory, error);
}

gsize
tarn_pool_get_limit_bytes (TarnPool *pool)
{
  gsize limit_bytes;

  g_return_val_if_fail (pool != NULL, 0);

  if (_tarn_forked ())
    return pool->limit.bytes;
  _tarn_mutex_lock (&pool->lock);
  limit_bytes = pool->limit.bytes;
  _tarn_mutex_unlock (&pool->lock);
  return limit_bytes;
}

/* If the pool has more bytes than its limit, takes cached blocks for the excess out of the free
 * lists, the largest first.  The excess does not include bytes that threads are already returning
 * to upstream.  If the cached blocks are not enough, takes all of them.  Returns a list of the
 * blocks.  The caller holds the pool's lock. */
static TarnBlock *
take_above_limit (TarnPool *pool)
{
  gsize above = bytes_above (pool, 0);

  _tarn_assert_locked (&pool->lock);
  if (above <= pool->returning.bytes)
    return NULL;
  _tarn_pool_flush (pool);
  above = bytes_above (pool, 0);
  return above > pool->returning.bytes && pool->stats.held_bytes > 0
             ? _tarn_pool_take_largest (pool, above - pool->returning.bytes)
             : NULL;
}

/* Computes the pool's limit minus the bytes that are charged to the pool.  Sets this number as the
 * limit of the heap and of the debug allocator (TARN_DEBUG) from which the pool allocates, if there
 * are any.  If @is_latest is TRUE, the heap takes its limit from this pool from now on, because the
 * program has just made the pool or set its limit.  Returns TRUE if the heap or the debug allocator
 * already exceeds the new limit. */
gboolean
_tarn_pool_tell_limit (TarnPool *pool, gboolean is_latest)
{
  TarnHeap *heap = _tarn_pool_get_given_heap (pool);
  gsize limit = pool->limit.bytes;
  gboolean has_more;

  if (limit != 0) /* the new limit is at least 1, because 0 would mean no limit */
    limit -= MIN (pool->limit.charged_bytes, limit - 1);
  has_more = pool->policy.is_debugged && _tarn_debug_set_limit (pool->upstream, limit);
  return (heap != NULL && _tarn_heap_set_pool_limit (heap, pool, is_latest, limit)) || has_more;
}

/* Ends the heap's limit that comes from a pool whose last reference was dropped. */
void
_tarn_pool_end_limit (TarnPool *pool)
{
  TarnHeap *heap = _tarn_pool_get_given_heap (pool);

  if (heap != NULL)
    _tarn_heap_end_pool_limit (heap, pool);
}

void
tarn_pool_set_limit_bytes (TarnPool *pool, gsize limit_bytes)
{
  gboolean has_more, was_open;

  g_return_if_fail (pool != NULL);

  if (_tarn_forked ())
    return;
  limit_bytes = _tarn_limit_get_lower (limit_bytes, pool->limit.user_bytes);
  TARN_EVENT (limit, TARN_TRACE_LIMIT, pool->base.id, limit_bytes);
  _tarn_mutex_lock (&pool->lock);
  was_open = _tarn_pool_close (pool);
  pool->limit.bytes = limit_bytes;
  _tarn_pool_set_bins (pool, _tarn_pool_choose_bins (pool, limit_bytes));
  _tarn_pool_end_grants (pool);
  _tarn_pool_open (pool, was_open);
  has_more = _tarn_pool_tell_limit (pool, TRUE);
  _tarn_pool_fit_ceiling (pool);
  _tarn_pool_note_limit_room (pool);
  _tarn_pool_unlock_and_give_back (
      pool, _tarn_pool_take_excess_after (pool, take_above_limit (pool)), FALSE);
  if (has_more) /* return all cached blocks, because they keep the heap's segments in use */
    _tarn_pool_trim (pool, 0, FALSE);
}
