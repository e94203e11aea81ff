/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Sets how many bytes a pool holds at most (its bound): when the pool is made, by
 * TarnPoolOptions.hold_bytes, and when the program changes the bound.
 *
 * A pool over a heap holds blocks in one of two ways.  If the program sets no bound, threads take
 * memory from the heap's arenas and return it to the arenas, and the pool holds little elsewhere.
 * With a bound, the pool's bins hold blocks, and thread caches hold some of them.  A change from
 * one way to the other turns the arenas' own blocks into ordinary ones; later blocks are of the new
 * kind.  A bin's number means the same size in both ways.
 *
 * The fields that a thread reads in a read section change only with the pool's door closed, so that
 * no thread is in a read section.  The number of blocks that a thread hands over together never
 * changes and does not depend on the bound, because threads read that number before they enter a
 * read section. */

#include "base/fork-private.h"
#include "order/order-private.h"
#include "pool/bin-private.h"
#include "pool/cache-private.h"
#include "upstream/upstream-private.h"

/* The most bytes that a thread cache of a pool over a heap holds, unless the program asks for
 * fewer.  ARENA_THREAD_CACHE_BYTES is for threads that use arenas of a heap whose memory is
 * addresses: the cache then has room for a few blocks of each small size, so that most small
 * requests need no arena. */
#define HEAP_THREAD_CACHE_BYTES ((gsize) 1 << 20)
#define ARENA_THREAD_CACHE_BYTES ((gsize) 3 << 20)

/* The largest block in bytes that a thread cache of a pool over a heap holds, unless the block is a
 * temporary.  A block must not be larger than half of the cache's bound either.  A larger block
 * would take the place of many others. */
#define HEAP_MAX_KEPT ((gsize) 512 << 10)

/* Returns TRUE if threads take memory from the arenas of the heap below the pool.  They do if
 * @hold_bytes is 0, so that there is no bound, and the program's options give threads a cache. */
static gboolean
is_for_arenas (const TarnPool *pool, gsize hold_bytes)
{
  return pool->heap != NULL && hold_bytes == 0 && pool->policy.thread_cache_blocks > 0
         && pool->policy.asked_cache_bytes > 0;
}

/* Sets the most bytes that the pool holds, and the most that each thread cache holds of them.  Call
 * this only before other threads use the pool, or with the pool's lock held and its door closed. */
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

/* Makes the lists that order the blocks in bins by age, if there is a bound on the bytes that the
 * pool holds and no lists exist yet.  The lists stay if the program removes the bound later. */
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

/* Returns the leading bits of bin numbers for a new pool over a heap: small sizes share bins
 * (TARN_HEAP_BINS) if threads use arenas and there is no limit; else each size has its own bin.  If
 * the options give threads no cache, the pool never uses arenas. */
static guint
choose_heap_bins (const TarnPool *pool, const TarnPoolOptions *options)
{
  if (options->thread_cache_blocks == 0 || options->thread_cache_bytes == 0)
    return TARN_MAX_LEADING_BITS;
  return pool->has_arenas && options->limit_bytes == 0 ? TARN_HEAP_BINS : TARN_HEAP_EXACT_BINS;
}

/* Sets the bounds and the bins of a new pool by its options and its upstream allocator.  If
 * upstream is no heap, the pool's bins hold all free blocks, and the pool hands blocks over from
 * queue to queue. */
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

/* Lets threads take memory from arenas, or makes them stop doing so.  The caller holds the pool's
 * lock and has closed its door. */
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

/* Retires held blocks until the pool is within its bound: first blocks that can be returned without
 * a wait, the oldest first; if these are not enough, then the largest blocks.  Returns the retired
 * blocks as a list. */
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

/* Changes the bound of a pool.  Retires held blocks that exceed the new bound, and returns them as
 * a list. */
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
