/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Makes, disposes of and frees pools.
 *
 * A pool is an allocator over another allocator, called upstream.  It caches freed blocks in bins
 * and hands them out again.  One lock guards a pool, and each thread holds it only for a few
 * instructions.  A request first tries its thread's cache, without the lock (pool/cache-private.h),
 * so most cache hits do not take the lock. */

#include <stdlib.h>

#include <tarn/debug.h>

#include "base/fork-private.h"
#include "common/argument-private.h"
#include "common/limit-private.h"
#include "common/struct-private.h"
#include "debug/debug-private.h"
#include "order/order-private.h"
#include "pool/cache-private.h"
#include "upstream/reclaim-group-private.h"
#include "upstream/upstream-private.h"

/* A pool with TARN_POOL_FINDABLE has an index, which finds a block in use by its memory.  This is
 * the number of parts of the index.  Each part has its own lock, so with many parts threads rarely
 * wait for each other. */
#define FINDABLE_PARTS 1024

#define ALL_FLAGS                                                                                  \
  ((guint) (TARN_POOL_FINDABLE | TARN_POOL_TRUSTS_HANDLES | TARN_POOL_WHOLE_BUFFERS                \
            | TARN_POOL_PRINTS_STATS))

static TarnBlock *
pool_allocate_block (TarnAllocator *allocator, gsize size, GError **error)
{
  return tarn_pool_allocate (_tarn_pool_of (allocator), size, error);
}

static gboolean
pool_allocate_memory (TarnAllocator *allocator, gsize size, TarnMemory *memory, GError **error)
{
  return _tarn_pool_allocate_bare (allocator, size, memory, error);
}

static void
pool_free_memory (TarnAllocator *allocator, TarnMemory memory, gsize size)
{
  TarnPool *pool = _tarn_pool_of (allocator);

  if (!_tarn_pool_ignore_free (pool))
    _tarn_pool_free_bare (pool, memory, size);
}

/* Ends the use of a pool whose last reference was dropped.  No thread can allocate from the pool
 * any more, but the program may still use some of its blocks.  Frees the reclaim functions first,
 * because they may own blocks.
 *
 * Other pools of the reclaim group may be returning cached blocks of this pool to upstream, without
 * a reference to this pool.  So this function waits until they have returned these blocks.  If this
 * thread is itself in a call that returns memory, the function does not wait, because the wait
 * could be a deadlock (base/duty-private.h). */
static void
pool_dispose (TarnAllocator *allocator)
{
  TarnPool *pool = _tarn_pool_of (allocator);
  TarnGiveBack give_back;
  TarnBlock *block;

  _tarn_pool_print_stats (pool);
  g_ptr_array_unref (pool->reclaim.funcs);
  _tarn_pool_end_redirect (pool);
  _tarn_pool_end_limit (pool);
  _tarn_pool_leave_group (pool, &give_back);
  if (pool->policy.is_debugged)
    {
      /* Threads that use other pools of the reclaim group may wait until this thread has returned
       * the pool's memory.  Meanwhile this thread must not wait for such threads
       * (base/duty-private.h). */
      _tarn_duty_begin (pool->base.level, TARN_DUTY_GIVE_BACK);
      _tarn_debug_end_pool (pool->upstream);
      _tarn_duty_end (pool->base.level, TARN_DUTY_GIVE_BACK);
    }

  _tarn_mutex_lock (&pool->lock);
  while (pool->returning.n_foreign > 0 && _tarn_may_await (pool->base.level, TARN_DUTY_GIVE_BACK))
    _tarn_tickets_wait (&pool->returning.calls, &pool->lock);
  pool->orphaned = TRUE;
  _tarn_mutex_unlock (&pool->lock);
  while ((block = _tarn_pool_end_aside (pool)) != NULL)
    _tarn_pool_free_block (block);
  _tarn_pool_give_back (pool, &give_back, FALSE);
}

/* Gives up the stuck blocks: cached blocks that the pool could not return to upstream, because the
 * driver cannot tell if commands still use them.  A message has reported them; their memory is
 * lost.  Then no block of the pool is left, so the function also drops all queues. */
static void
lose_stuck_and_queues (TarnPool *pool)
{
  TarnBlock *blocks, *block;

  _tarn_mutex_lock (&pool->lock);
  blocks = _tarn_pool_take_stuck (pool);
  while ((block = blocks) != NULL)
    {
      blocks = block->below;
      _tarn_mutex_unlock (&pool->lock);
      _tarn_allocator_lose (pool->upstream, block->memory, block->alloc_size);
      _tarn_mutex_lock (&pool->lock);
      _tarn_block_clear_uses (pool, block);
      _tarn_block_chunks_put (&pool->blocks.chunks, block);
    }
  _tarn_pool_drop_unused_queues (pool);
  _tarn_pool_unlock_and_sweep (pool);
}

/* Frees a pool.  Call this only after the last reference to the pool was dropped and its last block
 * was freed, and when no call is still returning blocks of the pool to upstream. */
static void
pool_finalize (TarnAllocator *allocator)
{
  TarnPool *pool = _tarn_pool_of (allocator);
  TarnPool *finder = pool->finder;

  lose_stuck_and_queues (pool);
  _tarn_allocator_withdraw (allocator);
  g_assert (pool->blocks.n == 0 && pool->stats.managed_bytes == 0 && !pool->has_arenas);
  _tarn_pool_free_caches (pool);
  /* Free the chunks (arrays of block structs) after the caches: as long as a cache exists, a thread
   * that ends may read the chunks (in checked builds). */
  _tarn_block_chunks_clear (&pool->blocks.chunks);
  g_assert (g_hash_table_size (pool->queues.table) == 0);
  g_hash_table_unref (pool->queues.table);
  g_free (pool->met.places);
  g_ptr_array_unref (pool->queues.released);
  _tarn_bins_free (pool->store.recorded_bins);
  _tarn_bins_free (pool->store.idle_bins);
  _tarn_largest_clear (&pool->store.largest);
  _tarn_index_clear (&pool->index);
  g_clear_pointer (&pool->blocks.shared, g_hash_table_unref);
  g_clear_pointer (&pool->blocks.aside, g_ptr_array_unref);
  _tarn_cond_clear (&pool->limit.reservation_ended);
  _tarn_cond_clear (&pool->queues.recording_ended);
  _tarn_cond_clear (&pool->returning.calls.changed);
  _tarn_mutex_clear (&pool->lock);
  _tarn_allocator_clear (&pool->base);
  if (pool->heap != NULL)
    _tarn_heap_remove_pool (pool->heap);
  tarn_allocator_unref (pool->upstream);
  free (pool);
  tarn_pool_unref (finder);
}

#define POOL_CLASS(free_function)                                                                  \
  {                                                                                                \
    .kind = "pool", .trace_class = TARN_TRACE_POOL, .allocate_block = pool_allocate_block,         \
    .free_block = free_function, .ref_block = _tarn_pool_ref_block,                                \
    .allocate_memory = pool_allocate_memory, .free_memory = pool_free_memory,                      \
    .dispose = pool_dispose, .finalize = pool_finalize, .record_use = _tarn_pool_record_use,       \
    .move_to_queue = _tarn_pool_move_to_queue, .is_done = _tarn_block_is_done,                     \
    .record_returning = _tarn_pool_record_returning, .give_back_used = _tarn_pool_give_back_used,  \
    .get_origin = _tarn_block_get_origin, .freeze = _tarn_pool_freeze, .thaw = _tarn_pool_thaw,    \
    .tell = _tarn_pool_tell, .tell_counters = _tarn_pool_tell_counters,                            \
  }

static const TarnAllocatorClass pool_class = POOL_CLASS (_tarn_pool_free_block);

/* The allocator class of pools that inspect each freed block (watch.c).  Such a pool removes the
 * block from an index, or checks whether the program still has references to the block's memory. */
static const TarnAllocatorClass watched_class = POOL_CLASS (_tarn_pool_free_watched);

/* Logs a message if the pool's upstream is a deferred allocator.  Such an allocator may succeed
 * even if there is no memory; a later command then fails, which the pool cannot notice. */
static void
warn_if_deferred (TarnPool *pool)
{
  gboolean upstream_is_direct = pool->upstream->direct == pool->upstream;

  /* Logs a message and not a warning, because a pool over a deferred allocator is legal, and g_test
   * makes warnings fatal. */
  if (upstream_is_direct && tarn_allocator_is_deferred (pool->upstream))
    g_message ("%s is over %s, which is deferred: memory may run out in a later command, where "
               "the pool cannot give back what it holds",
               pool->base.label, pool->upstream->label);
}

TarnPool *
tarn_pool_new (TarnAllocator *upstream, const TarnPoolOptions *options, GError **error)
{
  TarnPoolOptions known = TARN_POOL_OPTIONS_INIT;
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  TarnDebugSettings debug;
  gboolean is_watched;
  gsize user_limit;
  TarnPool *pool;

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  TARN_REFUSE_NULL (upstream, NULL);

  if (_tarn_forked () && !tarn_check_fork (error))
    return NULL;
  if (options != NULL
      && !_tarn_struct_read_or_set_error (&known, sizeof known, options, "TarnPoolOptions", error))
    return NULL;
  if (known.leading_bits_in_bin_id > TARN_MAX_LEADING_BITS)
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                   "leading_bits_in_bin_id is %u, but must be from 0 to %d",
                   known.leading_bits_in_bin_id, TARN_MAX_LEADING_BITS);
      return NULL;
    }

  if ((known.flags & ~ALL_FLAGS) != 0)
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                   "flags are 0x%x, of which Tarn %s has only 0x%x", known.flags,
                   tarn_get_version (), ALL_FLAGS);
      return NULL;
    }
  if (!_tarn_debug_read (known.debug, &debug, error)
      || !_tarn_pool_read_environment (upstream, &known, &user_limit, error))
    return NULL;
  known.limit_bytes = _tarn_limit_get_lower (known.limit_bytes, user_limit);

  upstream = _tarn_debug_stand_on (upstream, known.name, &debug);
  pool = _tarn_aligned_new0 (TarnPool);
  pool->policy.is_debugged = _tarn_allocator_is_debugged (upstream);
  pool->policy.is_findable = (known.flags & TARN_POOL_FINDABLE) != 0;
  pool->policy.asks_retained = _tarn_allocator_get_backend (upstream)->ops.is_retained != NULL
                               && (known.flags & TARN_POOL_TRUSTS_HANDLES) == 0;
  pool->policy.prints_stats = (known.flags & TARN_POOL_PRINTS_STATS) != 0;
  if (pool->policy.prints_stats)
    _tarn_pool_print_stats_at_exit ();
  is_watched = pool->policy.is_findable || pool->policy.asks_retained;
  pool->policy.check_interval = _tarn_debug_get_check_interval (&debug);
  ops.name = known.name;
  ops.deferred = upstream->ops.deferred;
  ops.allocate = _tarn_pool_allocate_bare;
  ops.free = _tarn_pool_free_bare;
  _tarn_allocator_init (&pool->base, is_watched ? &watched_class : &pool_class, &ops, pool, NULL,
                        upstream->direct);
  pool->upstream = upstream;
  pool->base.level = upstream->level + 1;
  pool->heap = _tarn_heap_of (upstream);
  if (pool->heap != NULL)
    _tarn_heap_add_pool (pool->heap);
  _tarn_pool_init_hold (pool, &known);
  pool->default_queue = _tarn_allocator_get_default_queue (upstream->direct);
  pool->limit.bytes = known.limit_bytes;
  pool->limit.user_bytes = user_limit;
  pool->limit.ceiling_bytes = known.limit_bytes != 0 ? known.limit_bytes : G_MAXSIZE;
  _tarn_pool_init_caches (pool);
  _tarn_mutex_init (&pool->lock);
  _tarn_cond_init (&pool->returning.calls.changed);
  _tarn_cond_init (&pool->limit.reservation_ended);
  _tarn_cond_init (&pool->queues.recording_ended);
  pool->queues.table = g_hash_table_new (NULL, NULL);
  pool->queues.released = g_ptr_array_new ();
  _tarn_index_init (&pool->index, pool->policy.is_findable ? FINDABLE_PARTS : 1);
  pool->reclaim.funcs = _tarn_reclaim_funcs_new ();
  _tarn_pool_tell_limit (pool, TRUE);
  warn_if_deferred (pool);
  _tarn_allocator_publish (&pool->base);
  return pool;
}

gboolean
tarn_pool_is_debugged (TarnPool *pool)
{
  g_return_val_if_fail (pool != NULL, FALSE);
  return pool->policy.is_debugged;
}

TarnPool *
tarn_pool_ref (TarnPool *pool)
{
  g_return_val_if_fail (pool != NULL, NULL);
  tarn_allocator_ref (&pool->base);
  return pool;
}

void
tarn_pool_unref (TarnPool *pool)
{
  if (pool != NULL)
    tarn_allocator_unref (&pool->base);
}
