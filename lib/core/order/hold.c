/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The bound of a pool: the most bytes of freed blocks that the pool holds (caches).  This file sets
 * the bound when the pool is made (TarnPoolOptions.hold_bytes), and when the program changes the
 * bound later.
 *
 * A pool over a heap caches freed memory in one of two ways.  If the program sets no bound, threads
 * allocate from the heap's arenas and free to them, and the pool itself caches little.  An arena is
 * a set of ranges of the heap's memory for one queue.  If the program sets a bound, the pool caches
 * blocks in bins (free lists) and in thread caches.  When the program sets a bound, the blocks that
 * belong to arenas become ordinary blocks of the pool.  They keep the numbers of their bins,
 * because a bin's number stands for the same sizes with and without a bound.
 *
 * Threads read some settings of a pool in read sections, without the lock.  These settings change
 * only while the pool's door (a readers-writer lock) is closed, because then no thread is in a read
 * section.  One setting is also read outside read sections: the number of blocks that a thread
 * hands over to other threads at a time.  So this number never changes, and does not depend on the
 * bound. */

#include "base/fork-private.h"
#include "order/order-private.h"
#include "pool/bin-private.h"
#include "pool/cache-private.h"
#include "upstream/upstream-private.h"

/* The most bytes in each thread's cache of a pool that is over a heap and has no bound on cached
 * bytes.  The program may ask for fewer.  The cache then has room for a few blocks of each small
 * size, so most small requests do not need the heap's arenas. */
#define HEAP_THREAD_CACHE_BYTES ((gsize) 4 << 20)

/* Bounds for the blocks in a thread's cache, in a pool that is over a heap and has no bound on
 * cached bytes.  The largest block in the cache has HEAP_MAX_KEPT bytes, or half of the cache's
 * bytes if that is less: a larger block would take the place of many others.  Temporaries (blocks
 * that a thread frees before it allocates the next) may have HEAP_MAX_TEMPORARY bytes.  Blocks that
 * belong to arenas have another bound, TARN_HEAP_MAX_ROUNDED. */
#define HEAP_MAX_KEPT ((gsize) 512 << 10)
#define HEAP_MAX_TEMPORARY ((gsize) 1 << 20)

/* Returns TRUE if threads allocate from the arenas of the heap below the pool.  For this, the pool
 * must be over a heap and have no bound on cached bytes (@hold_bytes is 0).  The pool's options
 * must also give each thread a cache. */
static gboolean
is_for_arenas (const TarnPool *pool, gsize hold_bytes)
{
  return pool->heap != NULL && hold_bytes == 0 && pool->policy.thread_cache_blocks > 0
         && pool->policy.asked_cache_bytes > 0;
}

/* Sets the most bytes that the pool caches, and the most bytes and the largest block in each
 * thread's cache.  Call this before other threads use the pool, or later with the pool's lock held
 * and its door closed, so that no thread is in a read section. */
static void
set_bounds (TarnPool *pool, gsize hold_bytes)
{
  TarnPoolPolicy *policy = &pool->policy;

  policy->asked_hold_bytes = hold_bytes;
  policy->max_held = policy->max_kept = policy->max_temporary = G_MAXSIZE;
  policy->thread_cache_bytes = policy->asked_cache_bytes;
  if (pool->heap != NULL && hold_bytes == 0)
    {
      policy->thread_cache_bytes = MIN (policy->asked_cache_bytes, HEAP_THREAD_CACHE_BYTES);
      policy->max_held = _tarn_heap_get_max_held (pool->heap);
      policy->max_kept
          = MIN (policy->max_held, MIN (policy->thread_cache_bytes / 2, HEAP_MAX_KEPT));
      policy->max_temporary = HEAP_MAX_TEMPORARY;
    }
  else if (hold_bytes == 0)
    hold_bytes = G_MAXSIZE;
  __atomic_store_n (&policy->hold_bytes, hold_bytes, __ATOMIC_RELAXED);
}

/* Makes the bins of a new pool: the free lists of idle blocks, which no queue uses, and of recorded
 * blocks, whose uses have events. */
static void
make_bins (TarnPool *pool)
{
  TarnStore *store = &pool->store;

  store->idle_bins = _tarn_bins_new (store, TARN_BINS_IDLE, NULL, NULL);
  store->recorded_bins = _tarn_bins_new (store, TARN_BINS_RECORDED, NULL, NULL);
}

/* Makes the lists that have the cached blocks in order of age.  Does nothing if the pool has no
 * bound on cached bytes, or has such lists already.  If the program removes the bound later, the
 * lists stay. */
static void
ensure_ages (TarnPool *pool)
{
  gboolean frees_in_order = !_tarn_pool_waits_before_free (pool);

  if (pool->policy.hold_bytes == G_MAXSIZE || pool->store.share_ages != NULL)
    return;
  _tarn_pool_list_by_age (pool, frees_in_order ? &pool->store.ready : &pool->store.recorded,
                          pool->heap != NULL || frees_in_order ? &pool->store.ready
                                                               : &pool->store.shares);
}

/* Returns leading_bits for a new pool over a heap.  This value determines which sizes share one of
 * the pool's bins (free lists).  Checks these cases in this order:
 *
 * - If the pool's options give threads no cache, threads never use arenas of the heap.  Returns
 *   TARN_MAX_LEADING_BITS.
 * - If threads use arenas, returns what _tarn_pool_choose_bins () chooses.
 * - In all other cases, each size has its own bin.  Returns TARN_HEAP_EXACT_BINS. */
static guint
choose_heap_bins (const TarnPool *pool, const TarnPoolOptions *options)
{
  if (options->thread_cache_blocks == 0 || options->thread_cache_bytes == 0)
    return TARN_MAX_LEADING_BITS;
  return pool->has_arenas ? _tarn_pool_choose_bins (pool, options->limit_bytes)
                          : TARN_HEAP_EXACT_BINS;
}

/* Sets the bounds on cached bytes of a new pool, and makes the pool's bins (free lists).  Uses the
 * pool's options and upstream allocator.  A pool over a heap does not give cached blocks of one
 * queue to another queue (moves_blocks is FALSE), because the heap itself moves memory between
 * queues. */
void
_tarn_pool_init_hold (TarnPool *pool, const TarnPoolOptions *options)
{
  pool->policy.asked_cache_bytes = options->thread_cache_bytes;
  pool->policy.thread_cache_blocks = MIN (options->thread_cache_blocks, G_MAXUINT16);
  pool->policy.moves_blocks = pool->heap == NULL;
  pool->policy.has_addresses = pool->heap != NULL && _tarn_heap_has_addresses (pool->heap);
  pool->has_arenas = is_for_arenas (pool, options->hold_bytes);
  pool->leading_bits
      = pool->heap != NULL ? choose_heap_bins (pool, options) : options->leading_bits_in_bin_id;
  set_bounds (pool, options->hold_bytes);
  make_bins (pool);
  ensure_ages (pool);
}

/* Sets whether threads allocate from the heap's arenas.  The caller holds the pool's lock, and has
 * closed the pool's door, so that no thread is in a read section. */
static void
set_arenas (TarnPool *pool, gboolean has_arenas)
{
  _tarn_assert_locked (&pool->lock);
  if (pool->has_arenas && !has_arenas)
    {
      _tarn_pool_set_bins (pool, TARN_HEAP_EXACT_BINS);
      _tarn_pool_end_arenas (pool);
    }
  else if (!pool->has_arenas && has_arenas && !pool->store.has_ended)
    {
      __atomic_store_n (&pool->has_arenas, TRUE, __ATOMIC_RELAXED);
      _tarn_pool_end_grants (pool);
      _tarn_pool_set_bins (pool, _tarn_pool_choose_bins (pool, pool->limit.bytes));
    }
}

/* Takes cached blocks out of the bins until the pool is within its bound, and returns them as a
 * list that the caller returns to upstream.  First takes blocks that the pool can return without a
 * wait, the oldest first.  If these are not enough, takes the largest of the other blocks. */
static TarnBlock *
take_above_bound (TarnPool *pool)
{
  TarnBlock *blocks = _tarn_pool_take_excess (pool);
  gsize room = _tarn_pool_get_room (pool);

  _tarn_assert_locked (&pool->lock);
  if (pool->stats.held_bytes <= room)
    return blocks;
  return _tarn_blocks_concat (blocks,
                              _tarn_pool_take_largest (pool, pool->stats.held_bytes - room));
}

/* Changes the bound on the bytes that a pool caches.  Takes cached blocks that exceed the new bound
 * out of the bins, and returns them as a list that the caller returns to upstream. */
static TarnBlock *
change_bound (TarnPool *pool, gsize hold_bytes)
{
  gboolean was_open = _tarn_pool_close (pool);

  _tarn_assert_locked (&pool->lock);
  set_arenas (pool, is_for_arenas (pool, hold_bytes));
  _tarn_pool_flush_closed (pool);
  _tarn_pool_give_up_room (pool);
  set_bounds (pool, hold_bytes);
  _tarn_pool_bound_transfers (pool);
  ensure_ages (pool);
  _tarn_pool_open (pool, was_open);
  return take_above_bound (pool);
}

gsize
tarn_pool_get_hold_bytes (TarnPool *pool)
{
  gsize hold_bytes;

  g_return_val_if_fail (pool != NULL, 0);

  if (_tarn_forked ())
    return pool->policy.asked_hold_bytes;
  _tarn_mutex_lock (&pool->lock);
  hold_bytes = pool->policy.asked_hold_bytes;
  _tarn_mutex_unlock (&pool->lock);
  return hold_bytes;
}

void
tarn_pool_set_hold_bytes (TarnPool *pool, gsize hold_bytes)
{
  TarnGiveBack give_back;
  TarnBlock *blocks;

  g_return_if_fail (pool != NULL);

  if (_tarn_forked ())
    return;
  _tarn_mutex_lock (&pool->lock);
  blocks = change_bound (pool, hold_bytes);
  if (blocks != NULL)
    _tarn_pool_begin_give_back (pool, &give_back, blocks);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_pool_unlock_and_sweep (pool);
  if (blocks != NULL)
    _tarn_pool_give_back (pool, &give_back, FALSE);
}
