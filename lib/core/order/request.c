/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Serves requests.  Each request tries these sources of memory, one after another:
 *
 *     1. the thread's cache            pool/cache-private.h, without a lock
 *     2. the arena of the queue        pool/arenas.c, without a lock; only if the pool is over a
 *                                      heap
 *     3. the pool's free lists         held.c
 *     4. memory of other queues        others.c: asks for events on these queues, so that a later
 *                                      request can use the memory
 *     5. new memory from upstream      upstream/miss.c: reserves bytes, then allocates; if that
 *                                      fails, frees cached blocks and retries, until it succeeds
 *                                      or no block is cached
 *
 * A thread uses its cache and the arenas in read sections, usually without the pool's lock. */

#include "base/fork-private.h"
#include "common/argument-private.h"
#include "debug/debug-private.h"
#include "order/order-private.h"
#include "pool/cache-private.h"
#include "record/record-private.h"
#include "upstream/upstream-private.h"

/* Records the result of a request in the trace, and stores the request's call stack in the block.
 * The record of a hit does not have the block's address: a reader of the trace knows the address
 * from the record of the first request that the block served. */
static void
note_request (const TarnPool *pool, gsize size, gpointer handle, TarnBlock *block, gboolean is_hit,
              const GError *error)
{
  guint32 stack = _tarn_stack_take ();
  guint64 time = 0;
  TarnTraceKind kind = TARN_TRACE_FAIL;
  guint64 numbers[4] = { size, _tarn_record_get_code (error) };

  if (block != NULL)
    {
      kind = is_hit ? TARN_TRACE_HIT : TARN_TRACE_MISS;
      numbers[0] = GPOINTER_TO_SIZE (block);
      numbers[1] = size;
      numbers[2] = block->alloc_size;
      numbers[3] = block->memory.address;
    }
  if (_tarn_records ())
    time = _tarn_record_request (kind, pool->base.id, handle, stack, numbers);
  if (block != NULL)
    _tarn_block_set_origin (block, time != 0 ? time : _tarn_record_get_time (), stack);
}

/* Fires the static probe (USDT) "hit" or "miss" for a request that the fast path did not serve. */
static inline __attribute__ ((always_inline)) void
probe_served (const TarnPool *pool, gsize size, gpointer handle, const TarnBlock *block,
              gboolean is_hit)
{
  if (is_hit)
    TARN_PROBE_HIT (hit, pool->base.id, block, size, handle);
  else
    TARN_PROBE (miss, pool->base.id, block, size, block->alloc_size, block->memory.address, handle);
}

/* Fires the static probe (USDT) "fail", "hit" or "miss" for a request that needed the lock. */
static void
probe_request (const TarnPool *pool, gsize size, gpointer handle, const TarnBlock *block,
               const GError *error)
{
  if (block == NULL)
    TARN_PROBE (fail, pool->base.id, size, _tarn_record_get_code (error), handle);
  else
    probe_served (pool, size, handle, block, block->is_hit);
}

/* Serves a request from the thread's cache in the cases that the fast path excludes.  In these
 * cases blocks are traced, or the read section needs a fence: the system has no membarrier (), or
 * the pool has a redirect function (redirect.c).  Returns NULL if the caller has to take the lock.
 */
static __attribute__ ((noinline)) TarnBlock *
take_unusually (TarnPool *pool, gsize size, gpointer handle)
{
  guint32 bin = _tarn_pool_get_bin (pool, size);
  TarnBlock *block = NULL;

  if (_tarn_door_needs_fence (&pool->door))
    return _tarn_pool_take (pool, size, bin, handle, _tarn_thread_begin_fenced_visit);
  if (!_tarn_door_is_followed (&pool->door))
    return NULL;
  block = _tarn_pool_take (pool, size, bin, handle, _tarn_thread_begin_followed_visit);
  if (block == NULL)
    block = _tarn_pool_take_received (pool, size, handle, TRUE);
  if (block != NULL && _tarn_follows ())
    note_request (pool, size, handle, block, TRUE, NULL);
  return block;
}

/* Tries to serve a request without the lock, after the fast path failed: from the thread's cache,
 * or from blocks that other threads have handed over.  Returns NULL if the caller has to take the
 * lock. */
static inline TarnBlock *
take_without_lock (TarnPool *pool, gsize size, gpointer handle)
{
  TarnBlock *block = NULL;

  if (TARN_UNLIKELY (_tarn_door_is_unusual (&pool->door)))
    block = take_unusually (pool, size, handle);
  if (block == NULL && _tarn_pool_has_transfers (pool))
    block = _tarn_pool_take_received (pool, size, handle, FALSE);
  return block;
}

/* Serves a request from the arena of its queue (the heap's memory for the queue).  Sets *is_due to
 * TRUE if periodic work is due; the caller then calls _tarn_pool_look_after ().  Returns NULL if
 * the caller has to take the lock. */
static inline TarnBlock *
take_from_arena (TarnPool *pool, gsize size, gpointer handle, gboolean *is_due)
{
  gboolean is_followed = _tarn_follows ();
  TarnBlock *block = _tarn_pool_take_from_arena (pool, size, handle, is_followed, is_due);

  if (block != NULL && is_followed)
    note_request (pool, size, handle, block, block->is_hit, NULL);
  return block;
}

/* Adds the queue @fresh, on which the backend makes fresh memory ready, to a new block's queues. */
static void
add_use (TarnPool *pool, TarnBlock *block, TarnQueue *fresh)
{
  TARN_LOCKED (&pool->lock);

  _tarn_block_add_use (block, fresh);
}

/* Sets is_unready of a new block that was allocated without a queue, if the backend makes fresh
 * memory ready on some queue.  A queue that gets the block later must first wait for the queue that
 * makes the memory ready. */
static void
set_unready (TarnPool *pool, TarnBlock *block)
{
  if (_tarn_pool_get_fresh_queue (pool) == NULL)
    return;
  _tarn_mutex_lock (&pool->lock);
  block->is_unready = TRUE;
  _tarn_mutex_unlock (&pool->lock);
}

/* Allocates a block from upstream for a request that no cached block serves.  If upstream is a
 * heap, first tries free memory that the heap has for @queue (NULL: for no queue). */
static TarnBlock *
allocate_miss (TarnPool *pool, const TarnRequest *request, TarnQueue *queue, gboolean *was_short,
               GError **error)
{
  TarnBlock *block;

  if (request->asks_recorded)
    _tarn_pool_ask_recorded (pool);
  if (pool->heap != NULL && request->alignment == 0)
    {
      block = _tarn_pool_allocate_own (pool, request->size, request->number, queue);
      if (block != NULL)
        return block;
      _tarn_pool_spare_heap (pool, request->number, queue);
    }
  return _tarn_pool_allocate_miss (pool, request->size, request->alignment, request->number, queue,
                                   was_short, error);
}

/* Allocates a block from upstream for a request that no cached block serves.  The request's queue
 * then waits for the queue on which the backend makes fresh memory ready.  If upstream has run out
 * of memory, but another thread has just freed a block of the size, takes this block instead.  The
 * request's queue then waits for the queues that used the block.
 *
 * Looks up the queue for fresh memory before it allocates, because the lookup may fail.  If the
 * lookup failed after the allocation, the pool would cache the new block as idle, although the
 * block's memory may not be ready yet. */
static TarnBlock *
allocate_fresh (TarnPool *pool, const TarnRequest *request, gboolean *was_short, GError **error)
{
  TarnQueue *fresh = NULL;
  TarnBlock *block;

  _tarn_assert_not_locked (&pool->lock);
  if (request->queue != NULL && !_tarn_pool_enter_fresh (pool, &fresh, error))
    {
      _tarn_pool_count_failure (pool);
      return NULL;
    }
  block = allocate_miss (pool, request,
                         request->queue != NULL && request->queue->in_order ? request->queue : NULL,
                         was_short, error);
  if (block != NULL && !block->is_hit && fresh != NULL)
    add_use (pool, block, fresh);
  else if (block != NULL && !block->is_hit && request->queue == NULL)
    set_unready (pool, block);
  if (fresh != NULL)
    _tarn_pool_leave_queue (pool, fresh);
  if (block == NULL || (block->n_uses == 0 && request->queue == NULL))
    return block;
  return _tarn_pool_move_or_put_back (pool, block, request, !block->is_hit, error);
}

/* Allocates a block for a request that no cached block serves.  First records the events that the
 * request has asked for on other queues.  If memory was short while other queues had blocks of the
 * requested size, makes the next frees of this size record events, so that later requests can take
 * such blocks from other queues. */
static TarnBlock *
allocate_beside_others (TarnPool *pool, TarnRequest *request, GError **error)
{
  gboolean was_short = FALSE;
  TarnBlock *block;

  _tarn_assert_not_locked (&pool->lock);
  _tarn_pool_record_others (pool, request);
  block = allocate_fresh (pool, request, &was_short, error);
  if (request->others_have && was_short)
    {
      _tarn_mutex_lock (&pool->lock);
      _tarn_pool_hand_on (pool, request->number);
      _tarn_mutex_unlock (&pool->lock);
    }
  return block;
}

/* Adds a request's queue to the pool's table of queues, and then serves the request if there is a
 * block that the queue can use at once.  Returns NULL without an error if there is none. */
static TarnBlock *
meet_queue (TarnPool *pool, TarnRequest *request, gpointer handle, GError **error)
{
  TarnCache *cache = _tarn_cache_of (_tarn_current_thread, pool);
  gboolean in_order;
  TarnBlock *block;

  _tarn_assert_not_locked (&pool->lock);
  if (!_tarn_allocator_ref_queue (pool->upstream->direct, handle, &in_order, error))
    {
      _tarn_pool_count_failure (pool);
      return NULL;
    }
  _tarn_mutex_lock (&pool->lock);
  request->queue = _tarn_pool_meet_queue (pool, handle, in_order);
  block = _tarn_pool_take_at_once (pool, cache, request);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_pool_unlock_and_sweep (pool);
  return block;
}

/* Takes the lock, and serves a request of the host, or of a queue in the pool's table, if there is
 * a block that the request can use at once.  Sets *has_excess to TRUE if the caller has to check
 * whether the pool exceeds its bound on cached bytes. */
static TarnBlock *
lock_and_take (TarnPool *pool, TarnRequest *request, gpointer handle, gboolean *has_excess)
{
  TarnQueue *wanted = NULL;
  TarnBlock *block = NULL;
  TarnCache *cache;

  request->number = _tarn_pool_get_bin (pool, request->size);
  cache = _tarn_pool_lock (pool);
  if (handle != NULL)
    request->queue = _tarn_pool_find_queue (pool, handle);
  if (_tarn_pool_wants_event (pool, request->queue))
    wanted = _tarn_pool_find_queue (pool, handle);
  if (handle == NULL || request->queue != NULL)
    block = _tarn_pool_take_at_once (pool, cache, request);
  _tarn_cache_note_latest (cache, block);
  *has_excess = block == NULL || _tarn_pool_has_excess (pool);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_pool_unlock_and_sweep (pool);
  if (wanted != NULL)
    {
      _tarn_pool_record_share (pool, wanted, NULL, TRUE);
      _tarn_pool_leave_queue (pool, wanted);
    }
  return block;
}

/* Drops a request's references to queues and events. */
static void
end_request (TarnPool *pool, TarnRequest *request)
{
  if (request->queue == NULL && request->n_events == 0 && request->n_others == 0)
    return;
  _tarn_mutex_lock (&pool->lock);
  _tarn_pool_clear_request (pool, request);
  _tarn_pool_end_wants (pool, request);
  _tarn_pool_unlock_and_sweep (pool);
}

/* Serves a request that needs the lock.  First tries cached blocks that it can use at once, then
 * cached blocks about whose events it asks the driver, then fresh memory from upstream.  If
 * upstream has run out of memory, the pool returns cached blocks to upstream first
 * (upstream/miss.c). */
static TarnBlock *
serve_with_lock (TarnPool *pool, gsize size, gpointer handle, GError **error)
{
  TarnRequest request = { .size = size };
  GError *local = NULL;
  gboolean has_excess;
  TarnBlock *block;

  block = lock_and_take (pool, &request, handle, &has_excess);
  if (block == NULL && handle != NULL && request.queue == NULL)
    block = meet_queue (pool, &request, handle, &local);
  if (block == NULL && local == NULL)
    block = _tarn_pool_take_held (pool, &request, &local);
  if (block == NULL && local == NULL)
    block = allocate_beside_others (pool, &request, &local);
  if (block != NULL)
    _tarn_pool_record_others (pool, &request);
  end_request (pool, &request);
  if (has_excess && _tarn_pool_get_hold_bound (pool) != G_MAXSIZE)
    _tarn_pool_give_back_excess (pool);
  if (local != NULL)
    g_propagate_error (error, local);
  return block;
}

/* Fails a request whose size exceeds the largest valid size.  Does not return cached blocks to
 * upstream, because that cannot help. */
static TarnBlock *
refuse_size (TarnPool *pool, gsize size, GError **error)
{
  _tarn_pool_count_failure (pool);
  _tarn_allocator_refuse_size (&pool->base, size, error);
  return NULL;
}

/* Checks a pool's invariants in every check_interval-th call.  A violation means that the library
 * has a bug, or that the program has overwritten the library's memory. */
static void
check_now_and_then (TarnPool *pool)
{
  g_autofree gchar *violation = NULL, *text = NULL;

  if (__atomic_add_fetch (&pool->n_unchecked, 1, __ATOMIC_RELAXED) % pool->policy.check_interval
      != 0)
    return;
  violation = _tarn_pool_check (pool);
  if (violation == NULL)
    return;
  text = g_strdup_printf ("%s: %s", pool->base.label, violation);
  _tarn_finding_count (FALSE, text);
  g_critical ("%s", text);
}

/* Serves a request that no fast path served; takes the lock only if needed. */
static TarnBlock *
serve_slowly (TarnPool *pool, gsize size, gpointer handle, GError **error)
{
  gboolean is_due = FALSE, is_hit;
  GError *local = NULL;
  TarnBlock *block;

  if (_tarn_forked () && !tarn_check_fork (error))
    return NULL;
  if (TARN_UNLIKELY (pool->policy.check_interval != 0))
    check_now_and_then (pool);
  block = take_without_lock (pool, size, handle);
  is_hit = block != NULL;
  if (block == NULL)
    {
      block = take_from_arena (pool, size, handle, &is_due);
      is_hit = block != NULL && block->is_hit;
    }
  if (block != NULL)
    {
      probe_served (pool, size, handle, block, is_hit);
      if (is_due)
        _tarn_pool_look_after (pool, handle);
      _tarn_pool_check_fast_if_full_debug (pool);
      return block;
    }
  block = _tarn_size_is_valid (size) ? serve_with_lock (pool, size, handle, &local)
                                     : refuse_size (pool, size, &local);
  probe_request (pool, size, handle, block, local);
  if (_tarn_follows ())
    note_request (pool, size, handle, block, block != NULL && block->is_hit, local);
  if (block != NULL)
    _tarn_pool_meet_arena (pool, handle, block);
  if (local != NULL)
    g_propagate_error (error, local);
  return block;
}

/* Allocates a block for a request that no fast path served. */
static __attribute__ ((noinline)) TarnBlock *
allocate_slowly (TarnPool *pool, gsize size, gpointer handle, GError **error)
{
  TarnBlock *block;

  if (TARN_UNLIKELY (_tarn_pool_is_redirected (pool))
      && _tarn_pool_allocate_redirected (pool, size, 0, handle, &block, error))
    return block;
  if (pool->policy.asks_retained && !_tarn_forked ())
    _tarn_pool_look_aside (pool, _tarn_pool_free_block);
  block = serve_slowly (pool, size, handle, error);
  if (block != NULL && pool->policy.is_findable)
    _tarn_index_add (&pool->index, block);
  return block;
}

/* Returns TRUE in the usual case: blocks are not traced, read sections need no fence, no thread has
 * handed blocks over, and the pool does not check its invariants. */
static inline gboolean
is_usual (const TarnPool *pool)
{
  return !_tarn_door_is_unusual (&pool->door) && !_tarn_follows ()
         && !_tarn_pool_has_transfers (pool) && pool->policy.check_interval == 0;
}

/* Allocates a block for a request that the thread's cache did not serve, usually from the queue's
 * arena (the heap's memory for the queue).  Not inlined, so that the code for requests that the
 * cache serves stays short. */
static __attribute__ ((noinline)) TarnBlock *
allocate_missing (TarnPool *pool, gsize size, guint32 bin, gpointer handle, GError **error)
{
  gboolean is_due = FALSE;
  TarnBlock *block = NULL;

  if (is_usual (pool))
    block = _tarn_pool_take_from_arena_at_once (pool, size, bin, handle, &is_due);
  if (TARN_UNLIKELY (block == NULL))
    return allocate_slowly (pool, size, handle, error);
  probe_served (pool, size, handle, block, block->is_hit);
  if (TARN_UNLIKELY (is_due))
    _tarn_pool_look_after (pool, handle);
  _tarn_pool_check_fast_if_full_debug (pool);
  return block;
}

TarnBlock *
tarn_pool_allocate (TarnPool *pool, gsize size, GError **error)
{
  TarnBlock *block;
  guint32 bin;

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  TARN_REFUSE_NULL (pool, NULL);

  bin = _tarn_pool_get_bin (pool, size);
  block = _tarn_pool_take_fast (pool, size, bin, pool->default_queue);
  if (TARN_UNLIKELY (block == NULL))
    return allocate_missing (pool, size, bin, pool->default_queue, error);
  TARN_PROBE_HIT (hit, pool->base.id, block, size, pool->default_queue);
  _tarn_pool_check_fast_if_full_debug (pool);
  return block;
}

TarnBlock *
tarn_pool_allocate_ordered (TarnPool *pool, gsize size, gpointer queue, GError **error)
{
  TarnBlock *block;
  guint32 bin;

  if (queue == NULL)
    return tarn_pool_allocate (pool, size, error);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  TARN_REFUSE_NULL (pool, NULL);

  bin = _tarn_pool_get_bin (pool, size);
  block = _tarn_pool_take_fast (pool, size, bin, queue);
  if (TARN_UNLIKELY (block == NULL))
    return allocate_missing (pool, size, bin, queue, error);
  TARN_PROBE_HIT (hit, pool->base.id, block, size, queue);
  _tarn_pool_check_fast_if_full_debug (pool);
  return block;
}

/* Returns TRUE if a block's memory is known to be aligned to @alignment bytes.  This is so in these
 * cases:
 *
 * - The memory has an address, and @alignment divides the address.
 * - The memory is a handle from a heap without addresses, and the heap's alignment is at least
 *   @alignment.
 * - The memory is any other handle, and the pool is not debugged (TARN_DEBUG).
 * - The memory is any other handle, the pool is debugged, and @alignment is at most the backend's
 *   part_alignment.  (In a debugged pool, guard bytes precede the memory.) */
static gboolean
is_aligned (const TarnPool *pool, const TarnBlock *block, gsize alignment)
{
  const TarnAllocator *backend = _tarn_allocator_get_backend (pool->upstream);
  const TarnHeap *heap = _tarn_pool_get_given_heap (pool);

  if (heap != NULL && !_tarn_heap_has_addresses (heap))
    return alignment <= _tarn_heap_get_alignment (heap);
  if (backend->ops.part_release != NULL)
    return !pool->policy.is_debugged || alignment <= backend->ops.part_alignment;
  return (block->memory.address & (alignment - 1)) == 0;
}

/* Returns TRUE if allocate_aligned () can allocate memory for a pool.  This is so if the pool is
 * over a heap.  It is also so if the pool is debugged (TARN_DEBUG) and its memory is a handle: the
 * number of guard bytes before the memory is then a multiple of the alignment. */
static gboolean
can_align (const TarnPool *pool)
{
  return _tarn_pool_get_given_heap (pool) != NULL
         || (pool->policy.is_debugged
             && _tarn_allocator_get_backend (pool->upstream)->ops.part_release != NULL);
}

/* Subtracts the request that got @block from the pool's counters, because the caller serves or
 * fails the request in another way.  @from_cache: TRUE if the block comes from the thread's cache,
 * which does not set the block's flags. */
static void
uncount_request (TarnPool *pool, const TarnBlock *block, gboolean from_cache)
{
  TARN_LOCKED (&pool->lock);

  *(from_cache || block->is_hit ? &pool->stats.hits : &pool->stats.misses) -= 1;
  pool->n_after_driver_calls -= !from_cache && block->called_driver;
}

/* Serves a request for aligned memory like any other request, and returns the block if the block is
 * aligned by chance.  Otherwise frees the block, and returns NULL without an error. */
static TarnBlock *
allocate_by_chance (TarnPool *pool, gsize size, gsize alignment, gpointer handle, GError **error)
{
  const TarnCache *cache = _tarn_cache_of (_tarn_current_thread, pool);
  guint64 n_hits = cache != NULL ? cache->hits : 0;
  TarnBlock *block = tarn_pool_allocate_ordered (pool, size, handle, error);

  if (block == NULL || is_aligned (_tarn_pool_of (block->source), block, alignment))
    return block;
  /* If the program has just set a redirect function, another pool may have served the request. */
  if (block->source == &pool->base)
    uncount_request (pool, block, cache != NULL && cache->hits != n_hits);
  tarn_block_free (block);
  return NULL;
}

/* Prepares a request that needs fresh memory: looks up the request's queue, and asks the backend
 * whether it can allocate memory for this queue now.  Does nothing if @handle is NULL.  If one of
 * the two fails, counts the request as a failure, and returns FALSE with an error. */
static gboolean
enter_checked_queue (TarnPool *pool, TarnRequest *request, gpointer handle, GError **error)
{
  if (handle == NULL)
    return TRUE;
  request->queue = _tarn_pool_enter_queue (pool, handle, error);
  if (request->queue != NULL && _tarn_allocator_check_queue (pool->upstream->direct, handle, error))
    return TRUE;
  _tarn_pool_count_failure (pool);
  return FALSE;
}

/* Allocates an aligned block of fresh memory. */
static TarnBlock *
allocate_aligned (TarnPool *pool, gsize size, gsize alignment, gpointer handle, GError **error)
{
  TarnRequest request = { .size = size, .alignment = alignment };
  GError *local = NULL;
  gboolean was_short;
  TarnBlock *block = NULL;

  request.number = _tarn_pool_get_bin (pool, size);
  if (enter_checked_queue (pool, &request, handle, &local))
    block = allocate_fresh (pool, &request, &was_short, &local);
  end_request (pool, &request);
  probe_request (pool, size, handle, block, local);
  if (_tarn_follows ())
    note_request (pool, size, handle, block, FALSE, local);
  if (block != NULL && pool->policy.is_findable)
    _tarn_index_add (&pool->index, block);
  if (local != NULL)
    g_propagate_error (error, local);
  return block;
}

TarnBlock *
tarn_pool_allocate_aligned (TarnPool *pool, gsize size, gsize alignment, gpointer queue,
                            GError **error)
{
  GError *local = NULL;
  TarnBlock *block;

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  TARN_REFUSE_NULL (pool, NULL);

  if (!_tarn_is_power_of_two (alignment))
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                   "alignment is %" G_GSIZE_FORMAT ", which is no power of two", alignment);
      return NULL;
    }
  if (queue == NULL)
    queue = pool->default_queue;
  if (_tarn_pool_is_redirected (pool)
      && _tarn_pool_allocate_redirected (pool, size, alignment, queue, &block, error))
    return block;
  block = allocate_by_chance (pool, size, alignment, queue, &local);
  if (local != NULL)
    g_propagate_error (error, local);
  if (block != NULL || local != NULL)
    return block;
  if (can_align (pool))
    return allocate_aligned (pool, size, alignment, queue, error);
  _tarn_pool_count_failure (pool);
  g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
               "%s: memory of %s is not aligned to %" G_GSIZE_FORMAT
               " bytes: a pool over a heap has such memory",
               pool->base.label, pool->upstream->label, alignment);
  return NULL;
}
