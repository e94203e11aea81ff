/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Sets how much a pool holds, by TarnPoolOptions.hold_bytes, when a pool is made and when the bound
 * is changed.
 *
 * Over a heap there are two ways to hold.  If the program sets no bound, threads take memory from
 * the heap's arenas and return it there, and the pool holds little elsewhere.  With a bound, bins
 * hold blocks, and threads keep some of them.  A change from one way to the other turns the arenas'
 * own blocks into ordinary ones; later blocks are of the new kind.  The numbers of bins mean the
 * same in both.
 *
 * The fields that a visit reads change with the door closed.  How many blocks threads hand over
 * together does not depend on the bound, and never changes: they look at that before they begin a
 * visit. */

#include "base/fork-private.h"
#include "order/order-private.h"
#include "pool/bin-private.h"
#include "pool/cache-private.h"
#include "upstream/upstream-private.h"

/* The most bytes that each thread keeps for itself of a pool over a heap, unless the program asks
 * for fewer.  The second bound is for heaps whose memory is an address: it has room for a few
 * blocks of each small size, so that most small requests need no arena. */
#define HEAP_THREAD_CACHE_BYTES ((gsize) 1 << 20)
#define ARENA_THREAD_CACHE_BYTES ((gsize) 3 << 20)

/* A thread keeps no larger block there, and none of more than half of its bound, unless the block
 * is a temporary: such a block would take the place of many others. */
#define HEAP_MAX_KEPT ((gsize) 512 << 10)

/* Returns TRUE if threads take memory from the arenas of the heap below: if the program sets no
 * bound, and lets threads keep blocks. */
static gboolean
is_for_arenas (const TarnPool *pool, gsize hold_bytes)
{
  return pool->heap != NULL && hold_bytes == 0 && pool->policy.thread_cache_blocks > 0
         && pool->policy.asked_cache_bytes > 0;
}

/* Sets how much the pool holds, and how much of that threads keep.  No other thread uses the pool
 * yet, or its lock is held and its door closed. */
static void
set_bounds (TarnPool *pool, gsize hold_bytes)
{
  TarnPoolPolicy *policy = &pool->policy;
  gsize most;

  policy->asked_hold_bytes = hold_bytes;
  policy->max_held = policy->max_kept = G_MAXSIZE;
  policy->thread_cache_bytes = policy->asked_cache_bytes;
  if (pool->heap != NULL && hold_bytes == 0)
    {
      most = is_for_arenas (pool, hold_bytes) && policy->has_addresses ? ARENA_THREAD_CACHE_BYTES
                                                                       : HEAP_THREAD_CACHE_BYTES;
      policy->thread_cache_bytes = MIN (policy->asked_cache_bytes, most);
      policy->max_held = _tarn_heap_get_max_held (pool->heap);
      policy->max_kept
          = MIN (policy->max_held, MIN (policy->thread_cache_bytes / 2, HEAP_MAX_KEPT));
    }
  else if (hold_bytes == 0)
    hold_bytes = G_MAXSIZE;
  __atomic_store_n (&policy->hold_bytes, hold_bytes, __ATOMIC_RELAXED);
}

/* Makes the bins of a new pool. */
static void
make_bins (TarnPool *pool)
{
  pool->store.idle_bins = _tarn_bins_new (NULL, NULL);
  pool->store.recorded_bins = _tarn_bins_new (NULL, NULL);
}

/* Makes lists order the blocks in bins by age, if there is a bound on what the pool holds.  They
 * stay if the bound goes. */
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

/* Chooses the kind of bins for a pool over a heap: threads share small blocks of a few sizes, or
 * each size has its own.  Where threads keep nothing, there never are arenas. */
static guint
choose_heap_bins (const TarnPool *pool, const TarnPoolOptions *options)
{
  if (options->thread_cache_blocks == 0 || options->thread_cache_bytes == 0)
    return TARN_MAX_LEADING_BITS;
  return pool->has_arenas && options->limit_bytes == 0 ? TARN_HEAP_BINS : TARN_HEAP_EXACT_BINS;
}

/* Sets how much a new pool holds, and how, by its options and its upstream allocator.  Without a
 * heap, its bins hold all blocks, and blocks are handed over from queue to queue. */
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

/* Lets threads take memory from arenas, or stops them.  The door is closed. */
static void
set_arenas (TarnPool *pool, gboolean has_arenas)
{
  _tarn_assert_locked (&pool->lock);
  if (pool->has_arenas && !has_arenas)
    {
      _tarn_pool_set_exact (pool, TRUE);
      _tarn_pool_end_arenas (pool);
    }
  else if (!pool->has_arenas && has_arenas && !pool->store.has_ended)
    {
      __atomic_store_n (&pool->has_arenas, TRUE, __ATOMIC_RELAXED);
      _tarn_pool_end_grants (pool);
      _tarn_pool_set_exact (pool, pool->limit.bytes != 0);
    }
}

/* Retires held blocks above the bound: those that need no wait, the oldest first; if these are not
 * enough, the largest.  Returns them as a list. */
static TarnBlock *
take_above_bound (TarnPool *pool)
{
  TarnBlock *blocks = _tarn_pool_take_excess (pool), *others;
  gsize room = _tarn_pool_get_room (pool);
  TarnBlock **end;

  _tarn_assert_locked (&pool->lock);
  if (pool->stats.held_bytes <= room)
    return blocks;
  others = _tarn_pool_take_largest (pool, pool->stats.held_bytes - room);
  for (end = &blocks; *end != NULL; end = &(*end)->below)
    ;
  *end = others;
  return blocks;
}

/* Changes the bound of a pool.  Returns the held blocks above it, which it has retired, as a list.
 */
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
