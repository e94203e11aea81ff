/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Frees blocks: into the thread's cache, the queue's arena or the pool's free lists.  A thread uses
 * its cache and the arenas in read sections, usually without the pool's lock. */

#include <tarn/debug.h>

#include "base/fork-private.h"
#include "debug/debug-private.h"
#include "order/order-private.h"
#include "pool/cache-private.h"
#include "record/record-private.h"
#include "upstream/upstream-private.h"

/* In a child of fork (), in which Tarn frees nothing, counts a free as ignored and returns TRUE;
 * the caller then returns at once.  In any other process, returns FALSE. */
gboolean
_tarn_pool_ignore_free (TarnPool *pool)
{
  if (!_tarn_forked ())
    return FALSE;
  g_atomic_int_inc (&pool->ignored_frees);
  return TRUE;
}

/* Returns TRUE if the pool would exceed its bound on cached bytes by caching a block that the
 * block's queue may still use.  The free then records an event on that queue, so that the pool
 * later knows when it can return the block without a wait.  The caller holds the pool's lock. */
static gboolean
exceeds_room (const TarnPool *pool, const TarnBlock *block)
{
  gsize room;

  if (pool->policy.hold_bytes == G_MAXSIZE || pool->store.share_ages != &pool->store.shares
      || block->share == NULL)
    return FALSE;
  room = _tarn_pool_get_room (pool);
  return block->alloc_size > room || pool->stats.held_bytes > room - block->alloc_size;
}

/* Returns TRUE if the free of a block has to record an event on each queue that uses the block.
 * The events tell other queues or the host when the memory is idle.  The caller holds the pool's
 * lock. */
static gboolean
needs_events (TarnPool *pool, const TarnBlock *block)
{
  _tarn_assert_locked (&pool->lock);
  if (block->n_uses == 0 || _tarn_pool_can_go_at_once (pool, block))
    return FALSE;
  if (pool->store.has_ended || block->exact)
    return _tarn_pool_waits_before_free (pool);
  return block->share == TARN_NO_SHARE || _tarn_pool_records_frees (pool, block->bin)
         || exceeds_room (pool, block);
}

/* Notes that a free has recorded its event: decrements TarnBin.n_to_record.  This field is the
 * number of frees of the bin's size that still have to record an event. */
static void
count_recorded (TarnPool *pool, guint32 number)
{
  TarnBin *bin = _tarn_bins_get (pool->store.recorded_bins, number);

  _tarn_assert_locked (&pool->lock);
  if (bin != NULL && bin->n_to_record > 0)
    bin->n_to_record--;
}

/* Returns the queue of a block that is being freed, with a reference, if this free has to record an
 * event that also covers cached blocks of the queue.  Otherwise returns NULL.  The free has to
 * record such an event in two cases:
 * - Requests of other queues want these cached blocks.
 * - The pool exceeds its bound on cached bytes, and an earlier attempt to record an event on the
 *   queue failed (others.c). */
static TarnQueue *
get_wanted_queue (const TarnPool *pool, const TarnBlock *block)
{
  TarnQueue *queue = block->n_uses > 0 ? block->uses->queue : NULL;

  if (!_tarn_pool_wants_event (pool, queue))
    return NULL;
  queue->n_refs++;
  return queue;
}

/* Records an event on the queue @wanted, which get_wanted_queue () returned, and drops the caller's
 * reference to this queue.  The event is for the queue's cached blocks, and for @block, which is
 * being freed.  The pool cannot be freed meanwhile, because @block keeps it alive.  The caller
 * holds the pool's lock; this function releases the lock while it records, and takes it again. */
static void
record_wanted (TarnPool *pool, TarnQueue *wanted, TarnBlock *block)
{
  _tarn_mutex_unlock (&pool->lock);
  _tarn_pool_record_share (pool, wanted, block, TRUE);
  _tarn_mutex_lock (&pool->lock);
  _tarn_queue_unref (pool, wanted);
}

/* Takes a reference to a block of a pool. */
void
_tarn_pool_ref_block (TarnBlock *block)
{
  TarnPool *pool = _tarn_pool_of (block->source);
  TARN_LOCKED (&pool->lock);

  if (block->state == TARN_BLOCK_ACTIVE)
    _tarn_block_set_state (block, TARN_BLOCK_SHARED);
  if (block->state == TARN_BLOCK_SHARED)
    _tarn_block_count_reference (&pool->blocks.shared, block);
  else
    g_critical ("tarn_block_ref: %p is not a block in use", (void *) block);
}

/* Drops one of the references to a block (state TARN_BLOCK_SHARED).  Returns TRUE if the block has
 * references left.  Returns FALSE if it was the last reference; the caller then frees the block. */
gboolean
_tarn_pool_drop_reference (TarnPool *pool, TarnBlock *block)
{
  gboolean has_others;
  TARN_LOCKED (&pool->lock);

  has_others = _tarn_block_drop_reference (pool->blocks.shared, block);
  if (!has_others)
    _tarn_block_set_state (block, TARN_BLOCK_ACTIVE);
  return has_others;
}

/* Records in the trace that a block is being freed.  Call this before the free, because another
 * thread may allocate the block right after the free. */
static void
note_free (const TarnPool *pool, TarnBlock *block)
{
  _tarn_block_forget_origin (block);
  if (_tarn_records ())
    _tarn_record_numbers (TARN_TRACE_FREE, pool->base.id, GPOINTER_TO_SIZE (block));
}

/* Puts a freed block into the thread's cache in the cases that the fast path excludes.  In these
 * cases blocks are traced, or the read section needs a fence: the system has no membarrier (), or
 * the pool has a redirect function (redirect.c).  Sets *is_noted to TRUE if it has recorded the
 * free in the trace.  Returns FALSE if the cache did not take the block; the caller then frees the
 * block in another way. */
static __attribute__ ((noinline)) gboolean
put_unusually (TarnPool *pool, TarnBlock *block, gboolean *is_noted)
{
  if (_tarn_door_needs_fence (&pool->door))
    return _tarn_pool_put (pool, block, _tarn_thread_begin_fenced_visit);
  if (!_tarn_door_is_followed (&pool->door))
    return FALSE;
  *is_noted = _tarn_follows ();
  if (*is_noted)
    note_free (pool, block);
  return _tarn_pool_put (pool, block, _tarn_thread_begin_followed_visit)
         || _tarn_pool_put_handing_over (pool, block, TRUE);
}

/* If a thread's cache has no room, or no place for another size, the thread returns this many small
 * freed blocks to their arenas.  Its next free then checks whether the cache has room again. */
#define LOOKS_FOR_ROOM 64

/* Puts a freed block that belongs to an arena (the heap's memory for one queue) into the thread's
 * cache.  Returns FALSE if the cache does not take the block. */
static gboolean
keep_own (TarnPool *pool, TarnBlock *block)
{
  TarnCache *cache = _tarn_cache_of (_tarn_current_thread, pool);
  gboolean is_kept;
  guint n_replaced;

  if (cache == NULL || block->alloc_size > TARN_HEAP_MAX_ROUNDED || cache->n_to_pass > 0)
    return FALSE;
  _tarn_mutex_lock (&pool->lock);
  n_replaced = cache->n_replaced;
  is_kept = block->is_own && block->state == TARN_BLOCK_ACTIVE
            && !_tarn_door_is_closed (&pool->door) && _tarn_cache_keep_own (cache, block);
  /* The next frees bypass the cache if the cache did not take the block.  They also bypass the
   * cache if the block has replaced blocks of another size there: then the thread uses more sizes
   * than the cache has places for. */
  cache->n_to_pass = is_kept && cache->n_replaced == n_replaced ? 0 : LOOKS_FOR_ROOM;
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);
  return is_kept;
}

/* Frees a block that belongs to an arena (the heap's memory for one queue): returns it to the
 * arena.  Returns FALSE if the caller has to free the block with the pool's lock. */
static gboolean
put_to_arena (TarnPool *pool, TarnBlock *block, gboolean is_noted)
{
  TarnCache *cache = _tarn_cache_of (_tarn_current_thread, pool);

  if (cache == NULL)
    return FALSE;
  if (is_noted || pool->policy.has_addresses)
    return _tarn_pool_put_to_arena (pool, cache, block, is_noted);
  return _tarn_pool_put_part (pool, cache, block);
}

/* Frees a block that no fast path took, without the pool's lock if possible.  If blocks are traced,
 * records the free in the trace before another thread can allocate the block.  If tracing has begun
 * or ended during this call, uses the lock. */
static __attribute__ ((noinline)) void
free_slowly (TarnPool *pool, TarnBlock *block)
{
  TarnQueue *wanted;
  TarnBlock *retired;
  gboolean records_free;
  gboolean is_noted = FALSE;
  TarnCache *cache;
  gint state;

  if (_tarn_pool_ignore_free (pool))
    return;
  if (TARN_UNLIKELY (block->state == TARN_BLOCK_SHARED) && _tarn_pool_drop_reference (pool, block))
    return;
  if (TARN_UNLIKELY (_tarn_door_is_unusual (&pool->door)) && put_unusually (pool, block, &is_noted))
    return;
  if (__atomic_load_n (&block->is_own, __ATOMIC_RELAXED) && is_noted == _tarn_follows ()
      && (keep_own (pool, block) || put_to_arena (pool, block, is_noted)))
    return;
  if (_tarn_pool_put_handing_over (pool, block, FALSE))
    return;
  cache = _tarn_pool_lock (pool);
  if (!is_noted && _tarn_follows ())
    note_free (pool, block);
  state = block->state;
  if (state != TARN_BLOCK_ACTIVE)
    {
      _tarn_mutex_unlock (&pool->lock);
      if (!pool->policy.is_debugged
          || !_tarn_debug_report_double_free (pool->upstream, block->memory))
        _tarn_block_report_double_free (block, state);
      return;
    }
  records_free = needs_events (pool, block);
  wanted = get_wanted_queue (pool, block);
  if (records_free || wanted != NULL)
    _tarn_block_set_state (block, TARN_BLOCK_ENDING);
  if (records_free)
    {
      _tarn_block_record_free (pool, block);
      count_recorded (pool, block->bin);
    }
  if (wanted != NULL)
    record_wanted (pool, wanted, block);
  retired = _tarn_pool_end_use (pool, wanted == NULL ? cache : NULL, block);
  if (pool->has_arenas && _tarn_pool_needs_recorded (pool))
    __atomic_store_n (&pool->store.has_late, TRUE, __ATOMIC_RELAXED);
  _tarn_pool_unlock_and_give_back (pool, retired, FALSE);
}

/* Frees a block without the pool's lock by returning it to its arena.  Returns FALSE if
 * free_slowly () has to free the block: for example, because the block belongs to no arena, because
 * blocks are traced, or because the free has to check the cache for room (LOOKS_FOR_ROOM). */
static inline gboolean
free_at_once (TarnPool *pool, TarnBlock *block)
{
  TarnCache *cache = _tarn_cache_of (_tarn_current_thread, pool);
  gboolean is_small = block->alloc_size <= TARN_HEAP_MAX_ROUNDED;

  if (cache == NULL || !__atomic_load_n (&block->is_own, __ATOMIC_RELAXED) || _tarn_follows ()
      || (is_small && cache->n_to_pass == 0))
    return FALSE;
  /* Decrements n_to_pass before the free, because the pool and its caches may be gone after the
   * free. */
  cache->n_to_pass -= (guint) is_small;
  return pool->policy.has_addresses ? _tarn_pool_put_to_arena_at_once (pool, cache, block)
                                    : _tarn_pool_put_part (pool, cache, block);
}

/* Frees a block that the thread's cache did not take.  Not inlined, so that the code of
 * _tarn_pool_free_block (), which usually puts the block into the cache, stays short. */
static __attribute__ ((noinline)) void
free_elsewhere (TarnPool *pool, TarnBlock *block)
{
  if (!free_at_once (pool, block))
    free_slowly (pool, block);
}

/* Frees a block of a pool. */
void
_tarn_pool_free_block (TarnBlock *block)
{
  TarnPool *pool = _tarn_pool_of (block->source);

  TARN_PROBE_HIT (free, pool->base.id, block, block->size);
  /* Check the pool's invariants before the free, not after it: cached blocks do not keep the pool
   * alive, so the pool may be gone after the free. */
  if (!_tarn_forked ())
    _tarn_pool_check_fast_if_full_debug (pool);
  if (TARN_UNLIKELY (!_tarn_pool_put_fast (pool, block)))
    free_elsewhere (pool, block);
}

/* Puts back into the pool a block that the caller took or allocated for a request which then
 * failed.  Counts the request as a failure, no longer as a hit or miss.  The caller does not hold
 * the pool's lock. */
void
_tarn_pool_put_back (TarnPool *pool, TarnBlock *block)
{
  _tarn_assert_not_locked (&pool->lock);
  _tarn_mutex_lock (&pool->lock);
  if (!block->is_hit && _tarn_records ())
    _tarn_block_record (block, FALSE);
  pool->stats.failures++;
  *(block->is_hit ? &pool->stats.hits : &pool->stats.misses) -= 1;
  pool->n_after_driver_calls -= block->called_driver;
  _tarn_pool_unlock_and_give_back (pool, _tarn_pool_end_use (pool, NULL, block), FALSE);
}

/* Gets the allocator that debugs a block, or NULL if the block is not debugged. */
static TarnAllocator *
get_debugger (const TarnBlock *block)
{
  const TarnPool *pool;

  if (block == NULL || block->source->klass->trace_class != TARN_TRACE_POOL || _tarn_forked ())
    return NULL;
  pool = _tarn_pool_of (block->source);
  return pool->policy.is_debugged ? pool->upstream : NULL;
}

void
tarn_debug_note_free (TarnBlock *block)
{
  TarnAllocator *debugger = get_debugger (block);

  if (debugger != NULL)
    _tarn_debug_note_free (debugger, block->memory);
}

void
tarn_debug_report_use (TarnBlock *block)
{
  TarnAllocator *debugger = get_debugger (block);

  if (debugger != NULL)
    _tarn_debug_report_use (debugger, block->memory);
}
