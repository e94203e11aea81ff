/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Threads' caches (pool-cache-private.h): making them, and moving blocks between them and the
 * pool's bins.  A block in either is held, so no counter changes but for which of the two counts
 * it. */

#include "pool-cache-private.h"

#include <stdlib.h>
#include <string.h>

#include "fork-private.h"

/* A thread that has not used its cache for so long, in microseconds, is idle.  One that is busy
 * must not be taken for that because several others look at once: it would come for its blocks
 * again, and take them from the next. */
#define IDLE_TIME (10 * G_TIME_SPAN_MILLISECOND)

/* What one visit to a pool's bin may bring along beside the block that was asked for. */
#define MAX_BYTES_AT_A_TIME ((gsize) 1 << 20)

/* Life */

void
_tarn_pool_init_caches (TarnPool *pool, const TarnPoolOptions *options)
{
  pool->is_closed = TRUE;
  if (_tarn_forked ())
    return;
  pool->slot = _tarn_threads_take_slot ();
  pool->thread_cache_blocks = options->thread_cache_blocks;
  pool->thread_cache_bytes = options->thread_cache_bytes;
  pool->is_closed = pool->thread_cache_blocks == 0 || pool->thread_cache_bytes == 0;
}

static TarnCache *
cache_new (TarnPool *pool, TarnThread *thread)
{
  TarnCache *cache = _tarn_aligned_new0 (TarnCache);

  cache->seen = G_MAXUINT64;
  cache->pool = pool;
  cache->thread = thread;
  _tarn_mutex_lock (&pool->lock);
  /* The peak of a thread that had the pool for itself until now. */
  if (pool->caches != NULL && pool->caches->next == NULL)
    _tarn_pool_count (pool);
  cache->next = pool->caches;
  pool->caches = cache;
  _tarn_mutex_unlock (&pool->lock);
  _tarn_thread_set_cache (thread, pool->slot, cache);
  return cache;
}

/* This thread's; NULL: it has none, and the door is closed, most likely for good. */
TarnCache *
_tarn_pool_get_cache (TarnPool *pool)
{
  TarnCache *cache = _tarn_cache_of (_tarn_current_thread, pool);

  if (cache != NULL || __atomic_load_n (&pool->is_closed, __ATOMIC_RELAXED))
    return cache;
  return cache_new (pool, _tarn_thread_self ());
}

/* At the pool's end.  Threads may be ending meanwhile, and returning theirs. */
void
_tarn_pool_free_caches (TarnPool *pool)
{
  TarnCache *cache;

  while ((cache = pool->caches) != NULL)
    {
      _tarn_thread_set_cache (cache->thread, pool->slot, NULL);
      _tarn_mutex_lock (&pool->lock);
      pool->caches = cache->next;
      _tarn_mutex_unlock (&pool->lock);
      free (cache);
    }
  _tarn_threads_give_slot (pool->slot);
}

/* The door */

/* Whether it was open before; then _tarn_pool_open () must follow. */
gboolean
_tarn_pool_close (TarnPool *pool)
{
  if (pool->is_closed)
    return FALSE;
  _tarn_door_close (&pool->is_closed);
  return TRUE;
}

void
_tarn_pool_open (TarnPool *pool, gboolean was_open)
{
  if (was_open && !pool->is_ordered && !pool->stop_holding)
    _tarn_door_open (&pool->is_closed);
}

/* Counters */

/* What is active at this moment; while other threads call, about so much. */
void
_tarn_pool_note_peak (TarnPool *pool)
{
  gsize active = pool->stats.active_bytes;

  for (TarnCache *cache = pool->caches; cache != NULL; cache = cache->next)
    active += __atomic_load_n (&cache->active_bytes, __ATOMIC_RELAXED);
  /* A thread's that was read too early may be missing from what another has freed. */
  if ((gssize) active > (gssize) pool->stats.peak_active_bytes)
    pool->stats.peak_active_bytes = active;
}

/* Only a thread that has the pool for itself knows what was active at each moment. */
static void
add_counts (const TarnCache *cache, TarnPoolStats *stats)
{
  gsize hits = (gsize) (cache->hits - cache->counted_hits);
  gsize frees = (gsize) (cache->frees - cache->counted_frees);

  if (cache->pool->caches == cache && cache->next == NULL)
    stats->peak_active_bytes
        = MAX (stats->peak_active_bytes, stats->active_bytes + (gsize) cache->peak);
  stats->hits += hits;
  stats->active_blocks += hits - frees;
  stats->held_blocks -= hits - frees;
  stats->active_bytes += cache->active_bytes;
  stats->held_bytes += cache->held_bytes - cache->counted_bytes;
}

/* The counters as they are, in a child of fork (), where no lock is to be had. */
void
_tarn_pool_count_forked (const TarnPool *pool, TarnPoolStats *stats)
{
  *stats = pool->stats;
  for (const TarnCache *cache = pool->caches; cache != NULL; cache = cache->next)
    add_counts (cache, stats);
}

/* The door is closed, or the cache is this thread's. */
void
_tarn_cache_count (TarnCache *cache)
{
  add_counts (cache, &cache->pool->stats);
  cache->counted_hits = cache->hits;
  cache->counted_frees = cache->frees;
  cache->counted_bytes = cache->held_bytes;
  __atomic_store_n (&cache->active_bytes, 0, __ATOMIC_RELAXED);
  cache->peak = 0;
}

/* The door is closed. */
void
_tarn_pool_count_closed (TarnPool *pool)
{
  for (TarnCache *cache = pool->caches; cache != NULL; cache = cache->next)
    _tarn_cache_count (cache);
  _tarn_pool_note_peak (pool);
}

/* Makes the pool's counters exact. */
void
_tarn_pool_count (TarnPool *pool)
{
  gboolean was_open = _tarn_pool_close (pool);

  if (was_open)
    _tarn_pool_count_closed (pool);
  _tarn_pool_open (pool, was_open);
}

/* Blocks, from a cache to the pool's bin; the door is closed, or the cache is this thread's */

/* All but the first so many, which may be 0. */
static void
move_rest (TarnCache *cache, TarnCacheBin *bin, guint n_kept)
{
  TarnBlock *top = bin->top, *first, *last;
  TarnBlock **link = &top;
  gsize bytes = 0;

  for (guint i = 0; i < n_kept; i++)
    link = &(*link)->below;
  first = *link;
  *link = NULL;
  for (TarnBlock *block = last = first; block != NULL; block = block->below)
    {
      bytes += block->alloc_size;
      last = block;
    }
  _tarn_pool_put_below (cache->pool, bin->number, first, last, bin->length - n_kept);
  cache->held_bytes -= bytes;
  cache->counted_bytes -= bytes;
  _tarn_cache_bin_set (bin, top, n_kept);
}

void
_tarn_cache_empty_bin (TarnCache *cache, TarnCacheBin *bin)
{
  if (bin->top != NULL)
    move_rest (cache, bin, 0);
}

static void
empty (TarnCache *cache)
{
  for (guint i = 0; i < TARN_CACHE_BINS && cache->held_bytes > 0; i++)
    _tarn_cache_empty_bin (cache, &cache->bins[i]);
}

/* The door is closed. */
void
_tarn_pool_gather_closed (TarnPool *pool)
{
  _tarn_pool_count_closed (pool);
  for (TarnCache *cache = pool->caches; cache != NULL; cache = cache->next)
    empty (cache);
}

/* Takes everything out of all caches; the counters are exact afterwards.  If the pool is not to
 * have caches any more, the door stays closed. */
void
_tarn_pool_gather (TarnPool *pool)
{
  gboolean was_open = _tarn_pool_close (pool);

  if (was_open)
    _tarn_pool_gather_closed (pool);
  _tarn_pool_open (pool, was_open);
}

/* Requests that are served without the lock are for this queue alone from now on. */
void
_tarn_pool_set_fast_queue (TarnPool *pool, gpointer handle)
{
  gboolean was_open;

  if (pool->fast_queue == handle)
    return;
  was_open = _tarn_pool_close (pool);
  if (was_open)
    _tarn_pool_gather_closed (pool);
  pool->fast_queue = handle;
  pool->n_fast_uses = handle != NULL;
  _tarn_pool_open (pool, was_open);
}

/* The thread has ended. */
void
_tarn_cache_return (TarnCache *cache)
{
  TarnPool *pool = cache->pool;

  _tarn_mutex_lock (&pool->lock);
  _tarn_cache_count (cache);
  empty (cache);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);
}

/* Makes room in this thread's cache for a block that is being freed, and keeps it; FALSE if it is
 * too large.  The pool's counters have it as held already. */
gboolean
_tarn_cache_keep (TarnCache *cache, TarnBlock *block)
{
  TarnPool *pool = cache->pool;
  TarnCacheBin *bin = _tarn_cache_get_bin (cache, block->bin);

  if (block->n_uses != pool->n_fast_uses || block->alloc_size > pool->thread_cache_bytes)
    return FALSE;
  if (bin->top != NULL && bin->number != block->bin)
    _tarn_cache_empty_bin (cache, bin);
  if (bin->length >= pool->thread_cache_blocks)
    move_rest (cache, bin, pool->thread_cache_blocks / 2);
  if (block->alloc_size > pool->thread_cache_bytes - cache->held_bytes)
    empty (cache);
  _tarn_cache_push (cache, bin, block);
  cache->counted_bytes += block->alloc_size;
  return TRUE;
}

/* And to a cache */

/* Brings along what this thread will ask for next, if it goes on as it does, but no more than half
 * of what the pool's bin has left. */
void
_tarn_cache_fill (TarnCache *cache, guint32 number)
{
  TarnPool *pool = cache->pool;
  TarnCacheBin *bin = _tarn_cache_get_bin (cache, number);
  gsize room = MIN (pool->thread_cache_bytes - cache->held_bytes, MAX_BYTES_AT_A_TIME);
  TarnBlock *top, *block;
  TarnBlock **end = &top;
  guint max = pool->thread_cache_blocks / 2, n = 0;

  _tarn_cache_empty_bin (cache, bin);
  while (n < max && (block = _tarn_pool_take_for_cache (pool, number, n, room)) != NULL)
    {
      room -= block->alloc_size;
      cache->held_bytes += block->alloc_size;
      cache->counted_bytes += block->alloc_size;
      *end = block;
      end = &block->below;
      n++;
    }
  *end = NULL;
  if (n == 0)
    return;
  __atomic_store_n (&bin->number, number, __ATOMIC_RELAXED);
  _tarn_cache_bin_set (bin, top, n);
}

static gboolean
is_idle (TarnCache *cache, gint64 now)
{
  guint64 visits = __atomic_load_n (&cache->hits, __ATOMIC_RELAXED)
                   + __atomic_load_n (&cache->frees, __ATOMIC_RELAXED);

  if (visits == cache->seen)
    return now - cache->seen_at >= IDLE_TIME;
  cache->seen = visits;
  cache->seen_at = now;
  return FALSE;
}

/* Before upstream is asked: what idle threads keep goes to the pool's bin. */
gboolean
_tarn_pool_take_from_idle (TarnPool *pool, guint32 number)
{
  gint64 now = pool->caches->next != NULL ? g_get_monotonic_time () : 0;
  gboolean is_any = FALSE, was_open = FALSE;

  for (TarnCache *cache = pool->caches; cache != NULL; cache = cache->next)
    {
      TarnCacheBin *bin = _tarn_cache_get_bin (cache, number);

      if (!is_idle (cache, now) || __atomic_load_n (&bin->length, __ATOMIC_RELAXED) == 0
          || __atomic_load_n (&bin->number, __ATOMIC_RELAXED) != number)
        continue;
      was_open = _tarn_pool_close (pool) || was_open;
      if (bin->number == number && bin->top != NULL)
        {
          _tarn_cache_empty_bin (cache, bin);
          is_any = TRUE;
        }
    }
  _tarn_pool_open (pool, was_open);
  return is_any;
}
