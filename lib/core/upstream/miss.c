/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Allocates from the upstream allocator.  A request that no cached block serves asks upstream for
 * as many bytes as blocks of its bin have, which may be more than the request asked for (rounding).
 * If upstream is out of memory or at its limit:
 *
 *     1. the pool calls its reclaim functions, once, and asks upstream again if they freed memory
 *     2. the pool checks if its own bin of the size has a block now
 *     3. the pool returns cached blocks of about the request's size to upstream, the largest first,
 *        and asks upstream again.  It returns its own blocks first, then those of its group
 *        (reclaim-group.c).  It repeats this step until upstream succeeds or no block is cached
 *     4. the pool asks for the exact size, if rounding had added bytes
 *
 * If upstream fails with any other error, rounding may be the cause, so the pool asks for the exact
 * size at once.  If upstream is out of memory for the exact size, the pool does steps 1 to 3 for
 * the exact size.
 *
 * A request that would exceed the pool's own limit (limit.c) does not ask upstream.  The pool calls
 * its reclaim functions, once.  Then it checks if its own bin of the size has a block now, and
 * checks the limit again.  At last it tries the exact size. */

#include "pool/bin-private.h"
#include "pool/cache-private.h"
#include "record/record-private.h"
#include "snapshot/snapshot-private.h"
#include "upstream/reclaim-group-private.h"
#include "upstream/upstream-private.h"

/* The most times that a request asks upstream again after it has returned all cached blocks.  Other
 * threads may free and return more blocks, and one more attempt is nearly always enough.  Without
 * this limit, a request that can never be served would retry, and would empty the pool, as long as
 * other threads are busy. */
#define MAX_ROUNDS 100

typedef struct
{
  gsize size;         /* the number of bytes that the program asked for */
  gsize rounded_size; /* the bytes of each block in the bin (free list) for @size bytes: @size,
                         rounded up */
  /* The alignment in bytes that the memory must have; 0 if any alignment will do.  A request for an
   * alignment needs fresh memory from upstream, because cached blocks may not have this
   * alignment. */
  gsize alignment;
  guint32 bin;
  /* The request's queue, to which the caller has a reference.  NULL if the request names no queue,
   * or a queue that does not run its commands in order. */
  TarnQueue *queue;
  TarnReservation reservation; /* the reservation of the last attempt */
  /* TRUE if the last attempt would have exceeded the pool's limit, so the pool did not ask
   * upstream. */
  gboolean exceeds_limit;
  /* TRUE if an attempt to get memory failed, or the pool first returned cached blocks */
  gboolean was_short;
  guint64 n_driver_calls; /* the number of calls to the driver for memory, in all attempts */
  /* The number of driver calls in the last attempt.  The pool adds this number to the pool's
   * counter of driver calls when the attempt has ended. */
  guint64 n_uncounted;
} Request;

/* Returns cached blocks of about @wanted bytes to upstream.  Takes blocks of the pool.  If none of
 * these can be returned, takes blocks of another pool of its reclaim group.  Returns the number of
 * returned bytes. */
static gsize
give_back_held (TarnPool *pool, gsize wanted)
{
  gsize bytes = _tarn_pool_give_back_held (pool, wanted);
  g_autoptr (TarnReclaimGroup) group = bytes == 0 ? _tarn_pool_get_group (pool) : NULL;

  return group != NULL ? _tarn_group_give_back_held (group, wanted) : bytes;
}

/* Returns the number of bytes that the pool has from upstream.  If the pool is in a reclaim group,
 * returns the number for all pools of the group.  give_back_held () cannot return more bytes in
 * total, unless other threads free more blocks. */
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

/* Waits until all threads that are now returning blocks to upstream have done so, because the
 * request may get the memory of these blocks.  Returns TRUE if any thread has returned blocks since
 * the request last asked upstream. */
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

/* Returns TRUE if @error says that upstream is out of memory, or at a limit of its own.  Returns
 * FALSE if the pool's own limit was exceeded. */
static gboolean
has_run_out (const Request *request, const GError *error)
{
  return _tarn_is_out_of_memory (error)
         || (!request->exceeds_limit && g_error_matches (error, TARN_ERROR, TARN_ERROR_LIMIT));
}

/* Makes the struct of a block for fresh memory.  @owner: the heap's number for the request's queue
 * if the memory belongs to this queue; 0 if the memory belongs to no queue.  The caller holds the
 * pool's lock. */
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

/* Asks upstream for the bytes of the request's reservation.  Counts the driver calls that upstream
 * makes to get them. */
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

/* Increases the pool's counter of driver calls by the calls of the request's last attempt.  The
 * caller holds the pool's lock. */
static void
count_driver_calls (TarnPool *pool, const Request *request)
{
  _tarn_assert_locked (&pool->lock);
  pool->stats.driver_calls += request->n_uncounted;
}

/* Sets block->called_driver to TRUE if the request that @block serves needed a call to the driver.
 * Counts such requests.  The caller holds the pool's lock. */
static void
note_served (TarnPool *pool, const Request *request, TarnBlock *block)
{
  _tarn_assert_locked (&pool->lock);
  block->called_driver = request->n_driver_calls > 0;
  pool->n_after_driver_calls += block->called_driver;
}

/* Adds an active block of fresh memory to the pool, and ends the reservation of its bytes. */
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

/* Reserves @alloc_size bytes within the pool's limit, and asks upstream once for them. */
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
  _tarn_pool_drop_reservation (pool, reservation);
  pool->stats.upstream_failures++;
  count_driver_calls (pool, request);
  _tarn_mutex_unlock (&pool->lock);
  request->was_short = TRUE;
  return NULL;
}

/* Asks upstream again, after an attempt that failed with *error.  If the new attempt fails, too,
 * replaces *error by the new error. */
static TarnBlock *
ask_upstream_again (TarnPool *pool, Request *request, gsize alloc_size, GError **error)
{
  g_clear_error (error);
  return ask_upstream (pool, request, alloc_size, error);
}

/* Takes a block from the request's bin, if other threads or reclaim functions have freed a block of
 * this bin since the request began.  Returns NULL if the bin is empty. */
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

/* Returns cached blocks to upstream and asks upstream again, until upstream succeeds or no pool of
 * the reclaim group has a cached block (step 3 of the list at the top of this file).  *error: the
 * error of upstream's last attempt. */
static TarnBlock *
make_room_upstream (TarnPool *pool, Request *request, gsize alloc_size, GError **error)
{
  /* The bytes that the loop below can still return to upstream, if other threads free no more
   * blocks meanwhile. */
  gsize expected = get_managed_bytes (pool);
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

/* Serves a request after upstream has run out of memory: calls the reclaim functions, looks again
 * for a cached block of the size, then returns cached blocks to upstream and asks again. */
static TarnBlock *
recover (TarnPool *pool, Request *request, gsize alloc_size, GError **error)
{
  TarnBlock *block = NULL;

  _tarn_mutex_lock (&pool->lock);
  _tarn_pool_note_short (pool);
  _tarn_mutex_unlock (&pool->lock);
  if (_tarn_pool_reclaim (pool, alloc_size, TRUE))
    block = ask_upstream_again (pool, request, alloc_size, error);
  if (block == NULL)
    block = look_again (pool, request);
  if (block == NULL)
    block = make_room_upstream (pool, request, alloc_size, error);
  return block;
}

/* Serves a request that would exceed the pool's limit: calls the reclaim functions, looks again for
 * a cached block of the size, and then checks the limit again. */
static TarnBlock *
recover_from_limit (TarnPool *pool, Request *request, gsize alloc_size, GError **error)
{
  TarnBlock *block;

  _tarn_pool_reclaim (pool, alloc_size, FALSE);
  block = look_again (pool, request);
  return block != NULL ? block : ask_upstream_again (pool, request, alloc_size, error);
}

/* Adds the pool's name and the number of requested bytes to the error of a request.  If upstream
 * has run out of memory, also adds the pool's active and held bytes.  If the request would have
 * exceeded the pool's own limit, adds nothing, because the error has all these data already. */
static void
prefix_error (const TarnPool *pool, const Request *request, const TarnPoolStats *stats,
              GError **error)
{
  if (has_run_out (request, *error))
    g_prefix_error (error,
                    "%s: " TARN_BYTES_FORMAT " asked for, %" G_GSIZE_FORMAT
                    " active, %" G_GSIZE_FORMAT " held: ",
                    pool->base.label, TARN_BYTES (request->size), stats->active_bytes,
                    stats->held_bytes);
  else if (!g_error_matches (*error, TARN_ERROR, TARN_ERROR_LIMIT))
    g_prefix_error (error, "%s: " TARN_BYTES_FORMAT " asked for: ", pool->base.label,
                    TARN_BYTES (request->size));
}

/* Adds to the error of a request or charge, for which there is too little memory, a list of the
 * tags with the most bytes of the pool.  (A tag is the program's name for requests.)  Also writes a
 * snapshot if TARN_SNAPSHOT_ON_OOM is set.  Does nothing if blocks are not traced, because untraced
 * blocks have no tags. */
void
_tarn_pool_tell_holders (TarnPool *pool, GError *error)
{
  if (!_tarn_follows ())
    return;
  _tarn_holders_append (&pool->base, error);
  _tarn_snapshot_note_out_of_memory (error->message);
}

/* Makes the heap below the pool do its periodic work, after a request that exceeds the pool's
 * limit: such a request asks the heap for nothing, but the heap's idle segments have to expire. */
static void
look_after_heap (const TarnPool *pool, const Request *request)
{
  TarnHeap *heap = _tarn_pool_get_given_heap (pool);

  if (heap != NULL && request->exceeds_limit)
    _tarn_heap_look_after (heap, request->queue != NULL ? request->queue->handle : NULL);
}

/* Fails a request with the last error of upstream.  If the error says that the context is lost, the
 * memory of all cached blocks is lost, too.  In this case, also makes the pool return its cached
 * blocks, and cache no more blocks. */
static void
fail_request (TarnPool *pool, const Request *request, GError *upstream_error, GError **error)
{
  TarnPoolStats stats;
  gboolean is_short;

  _tarn_assert_not_locked (&pool->lock);
  _tarn_mutex_lock (&pool->lock);
  pool->stats.failures++;
  _tarn_pool_count (pool, &stats);
  _tarn_mutex_unlock (&pool->lock);

  look_after_heap (pool, request);
  is_short = request->exceeds_limit || has_run_out (request, upstream_error);
  if (is_short)
    TARN_EVENT (out_of_memory,
                g_error_matches (upstream_error, TARN_ERROR, TARN_ERROR_LIMIT)
                    ? TARN_TRACE_LIMIT_REACHED
                    : TARN_TRACE_OUT_OF_MEMORY,
                pool->base.id, request->size, stats.active_bytes, stats.held_bytes);
  prefix_error (pool, request, &stats, &upstream_error);
  if (is_short)
    _tarn_pool_tell_holders (pool, upstream_error);
  if (g_error_matches (upstream_error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST))
    _tarn_pool_trim (pool, 0, TRUE);
  g_propagate_error (error, upstream_error);
}

/* Allocates a block for a request that no cached block serves.  The memory is free memory that the
 * pool's heap has for the queue @queue, or for no queue if @queue is NULL.  Returns NULL if the
 * heap has no such memory of the size, or if the pool's limit forbids the request.  The caller does
 * not hold the pool's lock. */
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
  _tarn_pool_drop_reservation (pool, &request.reservation);
  _tarn_mutex_unlock (&pool->lock);
  return NULL;
}

/* Allocates a block from upstream, for a request that the pool did not serve with a cached block.
 * (Other queues may have cached blocks of the size.)  If @alignment is not 0, the block has
 * exactly the requested size, and the pool returns the block to upstream when the program frees it.
 * @queue: the request's queue if this queue runs its commands in order, else NULL.  Sets
 * *was_short to TRUE if upstream failed, or if the pool first had to return cached blocks because
 * of its limit.  The caller does not hold the pool's lock. */
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
