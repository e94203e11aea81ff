/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Pools: an allocator over another one, which holds freed blocks in bins and hands them out again.
 * Threads share a pool behind one lock, which is held for a few instructions at a time; what each
 * keeps for itself stands in front of it (pool-cache-private.h), so that most hits take none. */

#include <stdlib.h>
#include <tarn/version.h>

#include "base/fork-private.h"
#include "common/struct-private.h"
#include "pool/cache-private.h"
#include "upstream/reclaim-group-private.h"

/* Blocks in and out of threads' caches.  The lock is held. */

/* The cache is this thread's; NULL: it has none. */
static void
hold (TarnPool *pool, TarnCache *cache, TarnBlock *block)
{
  block->state = TARN_BLOCK_HELD;
  if (cache == NULL || !_tarn_cache_keep (cache, block))
    _tarn_pool_put_block (pool, block);
}

/* As _tarn_pool_take_held (), for a thread whose cache, if it has one, has no block for the
 * request, or could not be asked. */
TarnBlock *
_tarn_pool_take_shared (TarnPool *pool, TarnCache *cache, guint32 number, gsize size)
{
  TarnCacheBin *own;

  if (_tarn_door_is_closed (&pool->door))
    return _tarn_pool_take_held (pool, number, size);
  _tarn_pool_count_own (pool);
  own = _tarn_cache_get_bin (cache, number);
  if (own->number == number && own->top != NULL)
    return _tarn_cache_pop (cache, own, size);
  if (_tarn_pool_is_empty (pool, number) && !_tarn_pool_take_from_left (pool, number)
      && !_tarn_pool_take_from_idle (pool, number))
    return NULL;
  if (_tarn_cache_fill (cache, number))
    return _tarn_cache_pop (cache, own, size);
  return _tarn_pool_take_held (pool, number, size);
}

/* The end of a block in use */

/* In a child of fork () a free is counted, and no more. */
static gboolean
is_ignored (TarnPool *pool)
{
  if (!_tarn_forked ())
    return FALSE;
  g_atomic_int_inc (&pool->ignored_frees);
  return TRUE;
}

/* Ends the use of a block that is being freed: TRUE if it goes back to upstream.  The lock is held.
 */
static gboolean
end_use (TarnPool *pool, TarnCache *cache, TarnBlock *block, TarnGiveBack *give_back)
{
  if (_tarn_door_is_closed (&pool->door))
    cache = NULL;
  _tarn_pool_count_own (pool);
  pool->stats.active_bytes -= block->size;
  if (!pool->stop_holding && !block->exact)
    {
      hold (pool, cache, block);
      return FALSE;
    }
  _tarn_pool_retire (pool, block);
  block->below = NULL;
  _tarn_pool_begin_give_back (pool, give_back, block);
  return TRUE;
}

/* Whether commands that may not be done are to be told from those that come after.  The lock is
 * held. */
static gboolean
needs_marks (const TarnPool *pool, const TarnBlock *block)
{
  if (block->n_uses == 0)
    return FALSE;
  return pool->stop_holding || block->exact ? _tarn_pool_waits_before_free (pool)
                                            : pool->is_ordered;
}

/* Apart from what is there for every hit. */
static __attribute__ ((noinline)) void
free_with_lock (TarnPool *pool, TarnBlock *block)
{
  gboolean goes_back = FALSE;
  TarnGiveBack give_back;
  TarnCache *cache;
  gint state;

  if (is_ignored (pool) || _tarn_pool_put_fenced (pool, block))
    return;
  cache = _tarn_pool_lock (pool);
  state = block->state;
  if (state == TARN_BLOCK_ACTIVE && needs_marks (pool, block))
    {
      block->state = TARN_BLOCK_ENDING;
      _tarn_mutex_unlock (&pool->lock);
      _tarn_pool_mark_block (pool, block);
      _tarn_mutex_lock (&pool->lock);
    }
  if (state == TARN_BLOCK_ACTIVE)
    goes_back = end_use (pool, cache, block, &give_back);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);

  if (state != TARN_BLOCK_ACTIVE)
    _tarn_block_report_double_free (block, state);
  else if (goes_back)
    _tarn_pool_give_back (pool, &give_back, FALSE);
}

static void
pool_free_block (TarnBlock *block)
{
  TarnPool *pool = _tarn_pool_of (block->source);

  /* Not afterwards: what is held does not keep the pool alive. */
  if (!_tarn_forked ())
    _tarn_pool_check_fast_if_full_debug (pool);
  if (TARN_UNLIKELY (!_tarn_pool_put_fast (pool, block)))
    free_with_lock (pool, block);
}

/* A request came to nothing: its block is held again, as if it had not been taken.  The lock is not
 * held. */
void
_tarn_pool_put_back (TarnPool *pool, TarnBlock *block)
{
  gboolean goes_back;
  TarnGiveBack give_back;

  _tarn_mutex_lock (&pool->lock);
  pool->stats.failures++;
  *(block->is_hit ? &pool->stats.hits : &pool->stats.misses) -= 1;
  goes_back = end_use (pool, NULL, block, &give_back);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);
  if (goes_back)
    _tarn_pool_give_back (pool, &give_back, FALSE);
}

/* Gives back held blocks, the largest first, until at most so many bytes are held, and on request
 * holds none from now on. */
static void
trim (TarnPool *pool, gsize keep_bytes, gboolean stop_holding)
{
  TarnBlock *blocks = NULL;
  TarnGiveBack give_back;

  _tarn_mutex_lock (&pool->lock);
  pool->stop_holding |= stop_holding;
  _tarn_pool_gather (pool);
  if (pool->stats.held_bytes > keep_bytes)
    blocks = _tarn_pool_take_largest (pool, pool->stats.held_bytes - keep_bytes);
  _tarn_pool_begin_give_back (pool, &give_back, blocks);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);
  _tarn_pool_give_back (pool, &give_back, FALSE);
}

/* Life */

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

  if (!is_ignored (pool))
    _tarn_pool_free_bare (pool, memory, size);
}

/* The last reference is gone, so nobody can allocate; blocks may still be in use.  What reclaim
 * functions own may be among them, so they go first.  Guests have no reference, and what they took
 * must be gone, too, when this returns; but one that calls from inside its own visit cannot wait
 * for itself. */
static void
pool_finalize (TarnAllocator *allocator)
{
  TarnPool *pool = _tarn_pool_of (allocator);
  TarnGiveBack give_back;

  g_ptr_array_unref (pool->reclaim_funcs);
  _tarn_pool_leave_group (pool, &give_back);

  _tarn_mutex_lock (&pool->lock);
  while (pool->n_guests > 0 && !_tarn_is_giving_back ())
    _tarn_cond_wait (&pool->give_backs.changed, &pool->lock);
  pool->orphaned = TRUE;
  _tarn_mutex_unlock (&pool->lock);
  _tarn_pool_give_back (pool, &give_back, FALSE);
}

/* The last reference, block and call are gone. */
void
_tarn_pool_die (TarnPool *pool)
{
  g_assert (pool->n_blocks == 0 && pool->stats.managed_bytes == 0);
  _tarn_pool_sweep (pool);
  _tarn_pool_free_caches (pool);
  _tarn_slabs_clear (&pool->slabs); /* which threads that were ending looked at in checked builds */
  g_clear_pointer (&pool->queues, g_hash_table_unref);
  g_hash_table_unref (pool->bins);
  g_hash_table_unref (pool->bare);
  _tarn_cond_clear (&pool->reservation_ended);
  _tarn_cond_clear (&pool->give_backs.changed);
  _tarn_mutex_clear (&pool->lock);
  _tarn_allocator_clear (&pool->base);
  tarn_allocator_unref (pool->upstream);
  free (pool);
}

static const TarnAllocatorClass pool_class = {
  .allocate_block = pool_allocate_block,
  .free_block = pool_free_block,
  .allocate_memory = pool_allocate_memory,
  .free_memory = pool_free_memory,
  .finalize = pool_finalize,
  .record_use = _tarn_pool_record_use,
  .move_to_queue = _tarn_pool_move_to_queue,
};

static void
warn_if_deferred (TarnPool *pool)
{
  gboolean upstream_is_direct = pool->upstream->direct == pool->upstream;

  /* A message, because g_test makes warnings fatal, and this is legal. */
  if (upstream_is_direct && tarn_allocator_is_deferred (pool->upstream))
    g_message ("pool '%s' is over the deferred allocator '%s': memory may run out in a later "
               "command, where the pool cannot give back what it holds",
               pool->base.ops.name, pool->upstream->ops.name);
}

/**
 * Makes a pool over an allocator. Over a deferred allocator it says in one g_message() that it
 * cannot see memory run out.
 *
 * @param upstream  where memory comes from; the pool keeps a reference. Another pool does all that
 *                  tarn_pool_allocate() says whenever this one asks it, each time it asks.
 * @param options   nullable: the defaults; start from TARN_POOL_OPTIONS_INIT
 * @param error     return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for an option outside its
 *                  range, or one that this version of the library does not have
 * @return (transfer full): an empty pool, which any thread may use, or NULL with @p error set
 * @since 0.1
 */
TarnPool *
tarn_pool_new (TarnAllocator *upstream, const TarnPoolOptions *options, GError **error)
{
  TarnPoolOptions known = TARN_POOL_OPTIONS_INIT;
  gsize first_size = G_STRUCT_OFFSET (TarnPoolOptions, name) + sizeof known.name;
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  TarnPool *pool;

  g_return_val_if_fail (upstream != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (options != NULL && !_tarn_struct_read (&known, sizeof known, first_size, options))
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                   "TarnPoolOptions of struct_size %" G_GSIZE_FORMAT
                   " is not initialized, or sets options that Tarn %s does not have",
                   options->struct_size, tarn_get_version ());
      return NULL;
    }
  if (known.leading_bits_in_bin_id > TARN_MAX_LEADING_BITS)
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                   "leading_bits_in_bin_id is %u, but must be from 0 to %d",
                   known.leading_bits_in_bin_id, TARN_MAX_LEADING_BITS);
      return NULL;
    }

  pool = _tarn_aligned_new0 (TarnPool);
  ops.name = known.name != NULL ? known.name : "unnamed";
  ops.deferred = upstream->ops.deferred;
  ops.allocate = _tarn_pool_allocate_bare;
  ops.free = _tarn_pool_free_bare;
  _tarn_allocator_init (&pool->base, &pool_class, &ops, pool, NULL, upstream->direct);
  pool->upstream = tarn_allocator_ref (upstream);
  pool->leading_bits = known.leading_bits_in_bin_id;
  pool->default_queue = _tarn_allocator_get_default_queue (upstream->direct);
  pool->limit_bytes = known.limit_bytes;
  _tarn_pool_init_caches (pool, &known);
  _tarn_mutex_init (&pool->lock);
  _tarn_cond_init (&pool->give_backs.changed);
  _tarn_cond_init (&pool->reservation_ended);
  pool->bins = _tarn_bins_new ();
  pool->bare = _tarn_bare_table_new ();
  pool->reclaim_funcs = _tarn_reclaim_funcs_new ();
  warn_if_deferred (pool);
  return pool;
}

/**
 * Takes a reference.
 *
 * @param pool  a pool; any thread may call it
 * @return (transfer full): @p pool
 * @since 0.1
 */
TarnPool *
tarn_pool_ref (TarnPool *pool)
{
  g_return_val_if_fail (pool != NULL, NULL);
  tarn_allocator_ref (&pool->base);
  return pool;
}

/**
 * Drops a reference. With the last one the pool gives back what it holds; blocks in use stay
 * valid, and go straight back to the upstream allocator when they are freed.
 *
 * @param pool  a pool; NULL is allowed. Any thread may call it.
 * @since 0.1
 */
void
tarn_pool_unref (TarnPool *pool)
{
  if (pool != NULL)
    tarn_allocator_unref (&pool->base);
}

/* Requests */

static __attribute__ ((noinline)) TarnBlock *
allocate_with_lock (TarnPool *pool, gsize size, GError **error)
{
  TarnBlock *block;
  gboolean is_slow = FALSE;
  TarnCache *cache;
  guint32 bin;

  if (_tarn_forked () && !tarn_check_fork (error))
    return NULL;
  if (pool->default_queue != NULL)
    return tarn_pool_allocate_ordered (pool, size, pool->default_queue, error);
  block = _tarn_pool_take_fenced (pool, size, NULL);
  if (block != NULL)
    return block;

  bin = _tarn_bin_number (size, pool->leading_bits);
  cache = _tarn_pool_lock (pool);
  if (pool->latest_queue == NULL && !pool->is_ordered)
    block = _tarn_pool_take_shared (pool, cache, bin, size);
  else
    is_slow = TRUE;
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);
  if (block != NULL)
    return block;
  if (is_slow)
    return _tarn_pool_allocate_slowly (pool, size, bin, NULL, error);
  block = _tarn_pool_allocate_miss (pool, size, bin, error);
  return block != NULL ? _tarn_pool_settle_for_host (pool, block, error) : NULL;
}

/**
 * Allocates a block of at least @p size bytes: one that the pool holds, or else a fresh one from
 * the upstream allocator, as large as every size of its bin needs.
 *
 * When upstream is out of memory, its own reclaim function and then the pool's are asked once; then
 * held blocks are given back, the largest first, until there is room; last, the exact size is tried
 * where rounding had added bytes. Any other error upstream leads to the exact size at once. A block
 * of an exact size is given back when it is freed.
 *
 * A request that would exceed the pool's limit does not ask upstream. Held blocks are given back,
 * the largest first, as many as it takes, if that is enough; else the pool's reclaim functions are
 * asked once, and the exact size is tried where rounding had added bytes. What other threads are
 * giving back, or asking upstream for, is waited for.
 *
 * @param pool   a pool; any thread may call it
 * @param size   bytes; 0 is allowed
 * @param error  return location, or NULL: TARN_ERROR_OUT_OF_MEMORY, saying how many bytes are
 *               active and held; TARN_ERROR_LIMIT, saying so too, if the pool's limit would be
 *               exceeded; TARN_ERROR_INVALID_SIZE if the pool's bytes could not be counted any
 *               more; TARN_ERROR_FORKED in a child of fork (); or what the backend says, where
 *               TARN_ERROR_CONTEXT_LOST makes the pool stop holding
 * @return (transfer full): the block, for tarn_block_free(), or NULL with @p error set
 * @since 0.1
 */
TarnBlock *
tarn_pool_allocate (TarnPool *pool, gsize size, GError **error)
{
  TarnBlock *block;

  g_return_val_if_fail (pool != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  block = _tarn_pool_take_fast (pool, size, pool->default_queue);
  if (TARN_UNLIKELY (block == NULL))
    return allocate_with_lock (pool, size, error);
  _tarn_pool_check_fast_if_full_debug (pool);
  return block;
}

/**
 * Gives every held block back to the upstream allocator.
 *
 * @param pool  a pool; any thread may call it. In a child of fork () it does nothing.
 * @since 0.1
 */
void
tarn_pool_free_held (TarnPool *pool)
{
  g_return_if_fail (pool != NULL);

  if (!_tarn_forked ())
    trim (pool, 0, FALSE);
}

/**
 * Gives held blocks back to the upstream allocator, the largest first, until at most so many bytes
 * are held.
 *
 * @param pool        a pool; any thread may call it. In a child of fork () it does nothing.
 * @param keep_bytes  bytes that may stay held; 0: as tarn_pool_free_held()
 * @since 0.1
 */
void
tarn_pool_trim (TarnPool *pool, gsize keep_bytes)
{
  g_return_if_fail (pool != NULL);

  if (!_tarn_forked ())
    trim (pool, keep_bytes, FALSE);
}

/**
 * Gives every held block back to the upstream allocator, and from now on each block when it is
 * freed.
 *
 * @param pool  a pool; any thread may call it. In a child of fork () it does nothing.
 * @since 0.1
 */
void
tarn_pool_stop_holding (TarnPool *pool)
{
  g_return_if_fail (pool != NULL);

  if (!_tarn_forked ())
    trim (pool, 0, TRUE);
}
