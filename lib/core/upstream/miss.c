/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Allocates from the upstream allocator.  A request that no held block serves asks upstream for the
 * size of its bin.  If upstream is out of memory or at its limit:
 *
 *     1. the pool asks its reclaim functions, once
 *     2. it checks the size's own bin again
 *     3. it returns held blocks of the bytes asked for, the largest first: its own, then those of
 *        its group (reclaim-group.c); and asks upstream again, until upstream succeeds or no block
 *        is held
 *     4. it asks for the exact size, if rounding had added bytes
 *
 * After any other error of upstream, which rounding may have caused, the pool asks for the exact
 * size at once.  If memory runs out for that, the steps above are for the exact size.
 *
 * A request that would exceed the pool's limit (limit.c) does not ask upstream: the pool asks its
 * reclaim functions, once; checks the size's own bin and the limit again; then tries the exact
 * size. */

#include "pool/bin-private.h"
#include "pool/cache-private.h"
#include "record/record-private.h"
#include "snapshot/snapshot-private.h"
#include "upstream/reclaim-group-private.h"
#include "upstream/upstream-private.h"

/* A request retries this often after it has returned all that it could, because other threads free
 * and return more.  Once is nearly always enough.  The bound is for a request that can never be
 * served: it would retry, and empty the pool, for as long as other threads are busy. */
#define MAX_ROUNDS 100

typedef struct
{
  gsize size;         /* bytes asked for */
  gsize rounded_size; /* the alloc_size of its bin */
  gsize alignment;    /* alignment that the request wants of a heap's memory; 0: any, so that a
                         held block will do, too */
  guint32 bin;
  TarnQueue *queue;            /* in order, that the caller has a reference on; NULL: nobody */
  TarnReservation reservation; /* the last attempt's */
  gboolean exceeds_limit;      /* that did, so that upstream was not asked */
  gboolean was_short;          /* bytes left were not enough */
  guint64 n_driver_calls;      /* calls for memory that were made for it */
  guint64 n_uncounted;         /* the latest of these calls, not yet counted */
} Request;

/* Returns held blocks of about the wanted bytes to upstream: the pool's, or if it holds none, those
 * of another pool of its group.  Returns the number of bytes, 0 if no pool held any. */
static gsize
give_back_held (TarnPool *pool, gsize wanted)
{
  gsize bytes = _tarn_pool_give_back_held (pool, wanted);
  g_autoptr (TarnReclaimGroup) group = bytes == 0 ? _tarn_pool_get_group (pool) : NULL;

  return group != NULL ? _tarn_group_give_back_held (group, wanted) : bytes;
}

/* Counts the most bytes that give_back_held () could return, if no other thread interfered. */
static gsize
get_managed_bytes (TarnPool *pool)
{
  g_autoptr (TarnReclaimGroup) group = _tarn_pool_get_group (pool);
  gsize bytes;

  if (group != NULL)
    return _tarn_group_get_managed_bytes (group);
  _tarn_mutex_lock (&pool->lock);
  bytes = _tarn_pool_get_managed (pool);
  _tarn_mutex_unlock (&pool->lock);
  return bytes;
}

/* Waits for the other threads that took blocks out of the bins before this call, because memory
 * that the request needs may be among them.  Returns TRUE if any has returned memory since the
 * request last asked upstream. */
static gboolean
await_give_backs (TarnPool *pool, const Request *request)
{
  g_autoptr (TarnReclaimGroup) group = _tarn_pool_get_group (pool);
  gboolean given_back;

  if (group != NULL)
    _tarn_group_await_give_backs (group);
  _tarn_mutex_lock (&pool->lock);
  if (_tarn_may_await (pool->base.level, TARN_DUTY_GIVE_BACK))
    _tarn_tickets_await (&pool->returning.calls, pool->returning.calls.last, &pool->lock);
  given_back = _tarn_pool_get_ended (pool) != request->reservation.ended_give_backs;
  _tarn_mutex_unlock (&pool->lock);
  return given_back;
}

/* Returns TRUE if upstream is out of memory or at its limit.  The pool's own limit does not count.
 */
static gboolean
has_run_out (const Request *request, const GError *error)
{
  return _tarn_is_out_of_memory (error)
         || (!request->exceeds_limit && g_error_matches (error, TARN_ERROR, TARN_ERROR_LIMIT));
}

/* Makes a block of fresh memory.  @owner: a heap's number for the request's queue, if the memory
 * belongs to it; 0: it belongs to no queue.  The caller holds the pool's lock. */
static TarnBlock *
block_new (TarnPool *pool, const Request *request, TarnMemory memory, guint64 owner)
{
  gsize alloc_size = request->reservation.size;
  TarnCache *cache = _tarn_cache_of (_tarn_current_thread, pool);
  TarnBlock *block = _tarn_block_chunks_take (&pool->blocks.chunks,
                                              cache != NULL ? &cache->chunk : &pool->blocks.chunk);

  _tarn_assert_locked (&pool->lock);
  block->memory = memory;
  block->size = request->size;
  block->alloc_size = alloc_size;
  block->source = &pool->base;
  block->bin = request->bin;
  block->exact
      = pool->policy.is_debugged || alloc_size != request->rounded_size || request->alignment != 0;
  block->is_away = FALSE;
  _tarn_block_update_share (block);
  if (owner == 0)
    return block;
  request->queue->owner = owner;
  _tarn_block_add_use (block, request->queue);
  return block;
}

/* Asks upstream for the reserved bytes, and counts the calls of the driver that this takes. */
static gboolean
try_upstream (TarnPool *pool, Request *request, TarnMemory *memory, guint64 *owner, GError **error)
{
  guint64 n_before = _tarn_direct_get_calls ();
  gboolean has_memory = _tarn_pool_try_upstream (pool, &request->reservation, request->alignment,
                                                 request->queue, memory, owner, error);

  request->n_uncounted = _tarn_direct_get_calls () - n_before;
  request->n_driver_calls += request->n_uncounted;
  return has_memory;
}

/* Counts a request's latest calls of the driver.  The caller holds the pool's lock. */
static void
count_driver_calls (TarnPool *pool, const Request *request)
{
  _tarn_assert_locked (&pool->lock);
  pool->stats.driver_calls += request->n_uncounted;
}

/* Notes that a block serves a request, and whether the driver was called for that.  The caller
 * holds the pool's lock. */
static void
note_served (TarnPool *pool, const Request *request, TarnBlock *block)
{
  _tarn_assert_locked (&pool->lock);
  block->called_driver = request->n_driver_calls > 0;
  pool->n_after_driver_calls += block->called_driver;
}

/* Adds fresh memory, whose bytes are reserved, to the pool as an active block. */
static TarnBlock *
add_fresh (TarnPool *pool, const Request *request, TarnMemory memory, guint64 owner)
{
  TarnBlock *block;

  _tarn_mutex_lock (&pool->lock);
  _tarn_pool_end_reservation (pool, &request->reservation);
  block = block_new (pool, request, memory, owner);
  _tarn_pool_add_fresh (pool, block);
  count_driver_calls (pool, request);
  note_served (pool, request, block);
  _tarn_cache_note_latest (_tarn_cache_of (_tarn_current_thread, pool), block);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);
  return block;
}

/* Asks upstream once for alloc_size bytes on behalf of a request. */
static TarnBlock *
ask_upstream (TarnPool *pool, Request *request, gsize alloc_size, GError **error)
{
  TarnReservation *reservation = &request->reservation;
  gboolean is_reserved;
  guint64 owner = 0;
  TarnMemory memory;

  _tarn_assert_not_locked (&pool->lock);
  reservation->size = alloc_size;
  is_reserved = _tarn_pool_reserve (pool, reservation, error);
  request->exceeds_limit = !is_reserved && reservation->is_limited;
  request->was_short |= reservation->was_short;
  if (!is_reserved)
    return NULL;
  if (try_upstream (pool, request, &memory, &owner, error))
    return add_fresh (pool, request, memory, owner);

  _tarn_mutex_lock (&pool->lock);
  _tarn_pool_end_reservation (pool, reservation);
  pool->stats.upstream_failures++;
  count_driver_calls (pool, request);
  _tarn_mutex_unlock (&pool->lock);
  request->was_short = TRUE;
  return NULL;
}

/* Asks upstream once more, after an attempt that failed with *error.  Replaces *error if this one
 * fails, too. */
static TarnBlock *
ask_upstream_again (TarnPool *pool, Request *request, gsize alloc_size, GError **error)
{
  g_clear_error (error);
  return ask_upstream (pool, request, alloc_size, error);
}

/* Takes a block that other threads or reclaim functions have freed into the request's bin since
 * the request last looked there. */
static TarnBlock *
look_again (TarnPool *pool, const Request *request)
{
  TarnBlock *block;

  if (request->alignment != 0)
    return NULL;
  _tarn_mutex_lock (&pool->lock);
  _tarn_pool_flush (pool);
  block = _tarn_pool_take_any (pool, request->bin, request->size);
  if (block != NULL)
    note_served (pool, request, block);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);
  return block;
}

/* Returns held blocks and asks upstream again, until it succeeds or no pool holds a block: step 3.
 * *error: upstream's last error. */
static TarnBlock *
make_room_upstream (TarnPool *pool, Request *request, gsize alloc_size, GError **error)
{
  gsize expected = get_managed_bytes (pool); /* more than that comes from other threads */
  TarnBlock *block = NULL;
  guint rounds = 0;

  while (block == NULL && has_run_out (request, *error))
    {
      gsize given = give_back_held (pool, alloc_size);

      expected -= MIN (expected, given);
      if (given == 0 && !await_give_backs (pool, request))
        break;
      if ((given == 0 || expected == 0) && rounds++ == MAX_ROUNDS)
        break;
      block = ask_upstream_again (pool, request, alloc_size, error);
    }
  return block;
}

/* Serves a request after upstream ran out: steps 1 to 3. */
static TarnBlock *
recover (TarnPool *pool, Request *request, gsize alloc_size, GError **error)
{
  TarnBlock *block = NULL;

  _tarn_mutex_lock (&pool->lock);
  _tarn_pool_set_exact (pool, TRUE);
  _tarn_mutex_unlock (&pool->lock);
  if (_tarn_pool_reclaim (pool, alloc_size, TRUE))
    block = ask_upstream_again (pool, request, alloc_size, error);
  if (block == NULL)
    block = look_again (pool, request);
  if (block == NULL)
    block = make_room_upstream (pool, request, alloc_size, error);
  return block;
}

/* Serves a request that would exceed the pool's limit: steps 1 and 2, with the limit in
 * upstream's place. */
static TarnBlock *
recover_from_limit (TarnPool *pool, Request *request, gsize alloc_size, GError **error)
{
  TarnBlock *block;

  _tarn_pool_reclaim (pool, alloc_size, FALSE);
  block = look_again (pool, request);
  return block != NULL ? block : ask_upstream_again (pool, request, alloc_size, error);
}

/* Adds to an error which pool failed, and for how many bytes; and the pool's active and held bytes
 * if upstream has run out.  An error of the pool's own limit has these already. */
static void
prefix_error (const TarnPool *pool, const Request *request, const TarnPoolStats *stats,
              GError **error)
{
  if (has_run_out (request, *error))
    g_prefix_error (error,
                    "%s: %" G_GSIZE_FORMAT " bytes asked for, %" G_GSIZE_FORMAT
                    " active, %" G_GSIZE_FORMAT " held: ",
                    pool->base.label, request->size, stats->active_bytes, stats->held_bytes);
  else if (!g_error_matches (*error, TARN_ERROR, TARN_ERROR_LIMIT))
    g_prefix_error (error, "%s: %" G_GSIZE_FORMAT " bytes asked for: ", pool->base.label,
                    request->size);
}

/* Adds the holders of the pool's memory to an error, and writes a snapshot if one is wanted. */
static void
tell_holders (TarnPool *pool, GError *error)
{
  _tarn_holders_append (&pool->base, error);
  _tarn_snapshot_note_out_of_memory (error->message);
}

/* Fails a request with upstream's last error.  If the context is lost, the held memory is gone with
 * it, so the pool stops holding blocks. */
static void
fail_request (TarnPool *pool, const Request *request, GError *upstream_error, GError **error)
{
  TarnPoolStats stats;

  _tarn_assert_not_locked (&pool->lock);
  _tarn_mutex_lock (&pool->lock);
  pool->stats.failures++;
  _tarn_pool_count (pool, &stats);
  _tarn_mutex_unlock (&pool->lock);

  if (request->exceeds_limit || has_run_out (request, upstream_error))
    TARN_EVENT (out_of_memory, TARN_TRACE_OUT_OF_MEMORY, pool->base.id, request->size,
                stats.active_bytes, stats.held_bytes);
  prefix_error (pool, request, &stats, &upstream_error);
  if (_tarn_follows () && (request->exceeds_limit || has_run_out (request, upstream_error)))
    tell_holders (pool, upstream_error);
  if (g_error_matches (upstream_error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST))
    _tarn_pool_trim (pool, 0, TRUE);
  g_propagate_error (error, upstream_error);
}

/* Allocates a block for a request that no held block serves, from memory that the heap has for its
 * queue (NULL: for no queue).  Returns NULL if the heap has none that suits, or if the pool's
 * limit forbids it.  The caller does not hold the pool's lock. */
TarnBlock *
_tarn_pool_allocate_own (TarnPool *pool, gsize size, guint32 bin, TarnQueue *queue)
{
  gsize alloc_size = _tarn_bin_alloc_size (bin, _tarn_pool_get_leading_bits (pool));
  Request request = { .size = size, .rounded_size = alloc_size, .bin = bin, .queue = queue };
  TarnMemory memory = { .address = 0 };
  guint64 owner = 0;

  _tarn_assert_not_locked (&pool->lock);
  request.reservation.size = alloc_size;
  if (!_tarn_pool_reserve (pool, &request.reservation, NULL))
    return NULL;
  if (_tarn_heap_allocate_own (pool->heap, alloc_size, queue != NULL ? queue->handle : NULL,
                               &memory, &owner))
    return add_fresh (pool, &request, memory, owner);
  _tarn_mutex_lock (&pool->lock);
  _tarn_pool_end_reservation (pool, &request.reservation);
  _tarn_mutex_unlock (&pool->lock);
  return NULL;
}

/* Allocates a block for a request that no held block serves, or only blocks of other queues would.
 * An aligned block (@alignment is not 0) has an exact size, and is returned upstream when it is
 * freed.  @queue: the request's queue if it is in order, else NULL.  Sets *was_short if there was
 * too little memory beside the held blocks.  The caller does not hold the pool's lock. */
TarnBlock *
_tarn_pool_allocate_miss (TarnPool *pool, gsize size, gsize alignment, guint32 bin,
                          TarnQueue *queue, gboolean *was_short, GError **error)
{
  gsize alloc_size = pool->policy.is_debugged || alignment != 0
                         ? MAX (size, 1)
                         : _tarn_bin_alloc_size (bin, _tarn_pool_get_leading_bits (pool));
  Request request = {
    .size = size, .rounded_size = alloc_size, .alignment = alignment, .bin = bin, .queue = queue
  };
  GError *local = NULL;
  TarnBlock *block;

  _tarn_assert_not_locked (&pool->lock);
  block = ask_upstream (pool, &request, alloc_size, &local);
  if (block == NULL && request.exceeds_limit)
    block = recover_from_limit (pool, &request, alloc_size, &local);
  if (block == NULL && !has_run_out (&request, local) && size < alloc_size)
    {
      alloc_size = size;
      block = ask_upstream_again (pool, &request, alloc_size, &local);
    }
  if (block == NULL && has_run_out (&request, local))
    block = recover (pool, &request, alloc_size, &local);
  if (block == NULL && size < alloc_size)
    block = ask_upstream_again (pool, &request, size, &local);

  *was_short = request.was_short;
  if (block == NULL)
    fail_request (pool, &request, local, error);
  else
    g_clear_error (&local);
  return block;
}
