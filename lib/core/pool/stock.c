/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The resources that a thread needs to make blocks without the lock (arenas.c): unused structs and,
 * in a pool with a limit, a grant of bytes that it may allocate. */

#include "pool/arenas-private.h"

/* In a pool with a limit, the grant of a thread: the limit divided by GRANT_SHARE, and at most
 * MAX_GRANT bytes.  When it is used up, the thread has to take the lock. */
#define GRANT_SHARE 64
#define MAX_GRANT ((gsize) 64 << 20)

/* The number of structs that a thread gets at a time. */
#define N_SPARE 32

/* Structs.  The lock is held, and the cache is this thread's, or the door is closed. */

/* Puts unused structs back until a cache has @n_kept. */
void
_tarn_cache_give_spare (TarnCache *cache, guint n_kept)
{
  while (cache->n_spare > n_kept)
    {
      TarnBlock *block = cache->spare;

      cache->spare = block->below;
      cache->n_spare--;
      block->uses = NULL;
      block->state = TARN_BLOCK_RETIRED;
      _tarn_block_chunks_put (&cache->pool->blocks.chunks, block);
    }
}

/* Makes sure that a thread has unused structs, but not too many. */
void
_tarn_cache_refill_spare (TarnCache *cache)
{
  _tarn_assert_locked (&cache->pool->lock);
  _tarn_cache_give_spare (cache, TARN_MAX_SPARE / 2);
  while (cache->n_spare < N_SPARE)
    {
      TarnBlock *block = _tarn_block_chunks_take (&cache->pool->blocks.chunks, &cache->chunk);

      block->below = cache->spare;
      cache->spare = block;
      cache->n_spare++;
    }
}

/* Sizes.  The lock is held. */

/* Gives each size its own bin from now on, because memory is short, or lets small sizes share bins
 * again. */
void
_tarn_pool_set_exact (TarnPool *pool, gboolean is_exact)
{
  guint bits = is_exact ? TARN_HEAP_EXACT_BINS : TARN_HEAP_BINS;

  _tarn_assert_locked (&pool->lock);
  if (pool->has_arenas)
    __atomic_store_n (&pool->leading_bits, bits, __ATOMIC_RELAXED);
}

/* Grants.  In a pool with a limit, a thread gets a grant: the number of bytes that it may allocate
 * before it has to take the lock again.  The lock is held in these functions. */

/* Ends all grants, so that threads take the lock to get new ones. */
void
_tarn_pool_end_grants (TarnPool *pool)
{
  gboolean was_open;

  if (!pool->has_arenas)
    return;
  was_open = _tarn_pool_close (pool);
  for (TarnCache *cache = pool->caches.first; cache != NULL; cache = cache->next)
    cache->granted_bytes = (gssize) cache->managed_bytes;
  _tarn_pool_open (pool, was_open);
}

/* Grants this thread some of the bytes that are left below the limit; nothing if the door is
 * closed, because other requests wait for memory. */
void
_tarn_cache_grant (TarnCache *cache)
{
  const TarnPool *pool = cache->pool;
  gssize managed = (gssize) cache->managed_bytes;
  gsize most = MIN (pool->limit.bytes / GRANT_SHARE, MAX_GRANT), committed, left;

  if (!pool->has_arenas || pool->limit.bytes == 0 || _tarn_door_is_closed (&pool->door)
      || cache->granted_bytes - managed >= (gssize) most)
    return;
  cache->granted_bytes = managed;
  committed = _tarn_pool_get_committed (pool) + pool->limit.reserved_bytes + pool->returning.bytes;
  left = pool->limit.bytes - MIN (committed, pool->limit.bytes);
  cache->granted_bytes += (gssize) MIN (most, left / 2);
}

/* The lock is not held. */

/* Gets structs for a thread that has none left, or puts some back if it has too many.  A thread
 * whose blocks other threads free needs this again and again.  The thread is in no read section. */
void
_tarn_cache_change_spare (TarnCache *cache)
{
  _tarn_mutex_lock (&cache->pool->lock);
  _tarn_cache_refill_spare (cache);
  _tarn_mutex_unlock (&cache->pool->lock);
}
