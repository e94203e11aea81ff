/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Transfer bins: batches of cached blocks on their way from threads that free to threads that
 * allocate.  If a thread's cache bin for a size and a queue is full, the thread puts the bin's
 * oldest blocks into a transfer bin.  A thread whose cache bin is empty takes them from there.
 * Neither thread takes the pool's lock.  So threads that hand over blocks do not all wait for one
 * lock.
 *
 * There are several transfer bins for each size and queue.  A thread puts blocks into one of them,
 * which it chooses by its own thread number, and takes blocks from any of them.
 *
 * Each transfer bin has a lock.  A thread in a read section holds this lock for a few instructions
 * only, because a thread that stops read sections waits for the end of that read section.  If the
 * thread does not get the lock soon, it does not use the transfer bin.  If a thread that holds the
 * pool's lock does not get the bin's lock, it stops the pool's read sections.  After that, no other
 * thread has the bin's lock. */

#include "pool/cache-private.h"

/* The most blocks in a batch.  If the pool's batches would have more blocks, threads hand over no
 * blocks.  The reason: a thread walks a batch in a read section, and a thread that stops read
 * sections has to wait for the end of that walk. */
#define MAX_BATCH 256

/* The bound on the bytes in all transfer bins (for blocks that threads hand over) is the pool's
 * bound on held bytes, divided by TRANSFER_SHARE.  If the pool has no fixed bound on held bytes,
 * because this bound depends on the managed bytes, the bound for transfer bins is
 * TRANSFER_BYTES. */
#define TRANSFER_SHARE 8
#define TRANSFER_BYTES ((gsize) 1 << 20)

/* Computes the most bytes in all transfer bins (for blocks that threads hand over) from the pool's
 * bound on held bytes.  Call this only while the transfer bins are empty: for a new pool; or if you
 * hold the pool's lock and have stopped its read sections. */
void
_tarn_pool_bound_transfers (TarnPool *pool)
{
  const TarnPoolPolicy *policy = &pool->policy;

  g_assert (pool->transfers.n_batches == 0 && pool->transfers.bytes == 0);
  if (policy->hold_bytes == G_MAXSIZE)
    pool->transfers.max_bytes = G_MAXSIZE;
  else if (policy->transfer_blocks == 0 || policy->thread_cache_bytes == 0)
    pool->transfers.max_bytes = 0;
  else
    pool->transfers.max_bytes
        = policy->hold_bytes != 0 ? policy->hold_bytes / TRANSFER_SHARE : TRANSFER_BYTES;
}

/* Sets the number of blocks in a batch that threads hand over: the number that a thread's cache
 * takes at once from the pool's bin.  If that number is more than MAX_BATCH, sets 0 instead, and
 * threads hand over no blocks. */
void
_tarn_pool_init_transfers (TarnPool *pool)
{
  guint n = pool->policy.thread_cache_blocks / 2;

  pool->policy.transfer_blocks = n <= MAX_BATCH ? n : 0;
  _tarn_pool_bound_transfers (pool);
}

/* Adds the bytes of a batch to the number of bytes in transfer bins.  Returns FALSE, and adds
 * nothing, if the sum would be more than the bound on these bytes. */
static gboolean
begin_transfer (TarnPool *pool, gsize bytes)
{
  if (pool->transfers.max_bytes == G_MAXSIZE)
    return TRUE;
  if (__atomic_add_fetch (&pool->transfers.bytes, bytes, __ATOMIC_RELAXED)
      <= pool->transfers.max_bytes)
    return TRUE;
  __atomic_sub_fetch (&pool->transfers.bytes, bytes, __ATOMIC_RELAXED);
  return FALSE;
}

/* Subtracts the bytes of a batch, which has left its transfer bin, from the number of bytes in
 * transfer bins. */
static void
end_transfer (TarnPool *pool, gsize bytes)
{
  if (pool->transfers.max_bytes != G_MAXSIZE)
    __atomic_sub_fetch (&pool->transfers.bytes, bytes, __ATOMIC_RELAXED);
}

/* Gets one of the transfer bins for a size and a queue.  @spread is the hash of the size's bin
 * number and the queue.  @shard selects one of the TARN_TRANSFER_SHARDS transfer bins.  It may be
 * any number.  To hand over blocks, a thread passes its own number.  The transfer bin may have
 * blocks of another size or queue at present, because all sizes and queues share the transfer
 * bins. */
static inline TarnTransferBin *
get_bin (TarnPool *pool, guint32 spread, guint shard)
{
  return &pool->transfers.bins[(spread + shard % TARN_TRANSFER_SHARDS) % TARN_TRANSFER_BINS];
}

static inline gboolean
has_any (const TarnTransferBin *bin)
{
  return __atomic_load_n (&bin->n_batches, __ATOMIC_RELAXED) > 0;
}

static gboolean
is_for (const TarnTransferBin *bin, guint32 number, gpointer handle)
{
  return bin->number == number && bin->handle == handle;
}

/* Takes the lock of a transfer bin (for blocks that threads hand over).  Returns FALSE if another
 * thread has the lock, and does not release it soon. */
static gboolean
lock (TarnTransferBin *bin)
{
  for (guint pause = 1; pause <= TARN_MAX_PAUSE; pause *= 2)
    {
      if (!__atomic_load_n (&bin->is_locked, __ATOMIC_RELAXED)
          && !__atomic_exchange_n (&bin->is_locked, TRUE, __ATOMIC_ACQUIRE))
        return TRUE;
      _tarn_pause (pause);
    }
  return FALSE;
}

static void
unlock (TarnTransferBin *bin)
{
  __atomic_store_n (&bin->is_locked, FALSE, __ATOMIC_RELEASE);
}

static void
set_n_batches (TarnPool *pool, TarnTransferBin *bin, guint n)
{
  __atomic_add_fetch (&pool->transfers.n_batches, n - bin->n_batches, __ATOMIC_RELAXED);
  __atomic_store_n (&bin->n_batches, n, __ATOMIC_RELAXED);
}

/* Gets the pointer in a chain of blocks that points to the block after the first @n ones. */
static TarnBlock **
skip (TarnBlock **link, guint n)
{
  while (n-- > 0)
    link = &(*link)->below;
  return link;
}

/* Functions that a thread calls in a read section */

/* Hands over the oldest blocks of a full bin of the calling thread's cache to other threads.
 * Returns FALSE, and does nothing, if the cache's bin is not full, if its blocks are too large, if
 * the transfer bin has no room, or if another thread holds the lock of the transfer bin. */
static gboolean
hand_over (TarnCache *cache, TarnCacheBin *bin)
{
  TarnPool *pool = cache->pool;
  guint n = pool->policy.transfer_blocks;
  TarnTransferBin *place;
  TarnTransfer transfer;
  TarnBlock **oldest;
  gboolean has_room;

  if (n == 0 || bin->length < pool->policy.thread_cache_blocks
      || bin->top->alloc_size > TARN_MAX_BYTES_AT_A_TIME / n)
    return FALSE;
  place = get_bin (pool, _tarn_spread (bin->number, bin->handle), _tarn_current_thread->number);
  oldest = skip (&bin->top, bin->length - n);
  transfer = (TarnTransfer){ *oldest, *skip (oldest, n - 1) };
  if (!lock (place))
    return FALSE;
  has_room
      = (place->n_batches == 0
         || (place->n_batches < TARN_TRANSFER_BATCHES && is_for (place, bin->number, bin->handle)))
        && begin_transfer (pool, n * bin->top->alloc_size);
  if (has_room)
    {
      place->number = bin->number;
      place->handle = bin->handle;
      place->batches[place->n_batches] = transfer;
      *oldest = NULL;
      set_n_batches (pool, place, place->n_batches + 1);
    }
  unlock (place);
  if (has_room)
    _tarn_cache_bin_set (bin, bin->top, bin->length - n);
  return has_room;
}

/* Takes the newest batch for a size and a queue from a transfer bin (for blocks that threads hand
 * over).  Returns NULL if the transfer bin has no such batch, or if another thread holds the lock
 * of the transfer bin. */
static TarnBlock *
take_batch (TarnPool *pool, TarnTransferBin *place, guint32 number, gpointer handle)
{
  TarnBlock *first = NULL;

  if (!has_any (place) || !lock (place))
    return NULL;
  if (place->n_batches > 0 && is_for (place, number, handle))
    {
      first = place->batches[place->n_batches - 1].first;
      set_n_batches (pool, place, place->n_batches - 1);
    }
  unlock (place);
  return first;
}

/* Fills an empty bin of the calling thread's cache with a batch that any thread has handed over.
 * Returns FALSE if the cache's bin has no room for a batch, if no transfer bin has a batch for the
 * size and the queue, or if other threads hold the locks of the transfer bins that have one. */
static gboolean
receive (TarnCache *cache, TarnCacheBin *bin)
{
  TarnPool *pool = cache->pool;
  guint32 spread = _tarn_spread (bin->number, bin->handle);
  guint own = _tarn_current_thread->number;
  TarnBlock *first = NULL;

  if (bin->capacity < pool->policy.transfer_blocks)
    return FALSE;
  for (guint i = 0; first == NULL && i < TARN_TRANSFER_SHARDS; i++)
    first = take_batch (pool, get_bin (pool, spread, own + i), bin->number, bin->handle);
  if (first == NULL)
    return FALSE;
  end_transfer (pool, pool->policy.transfer_blocks * first->alloc_size);
  _tarn_cache_bin_set (bin, first, pool->policy.transfer_blocks);
  return TRUE;
}

/* Functions for requests and frees that the thread's cache could not serve at once: they take
 * blocks from transfer bins, or put blocks there */

/* Serves a request with a block that a thread has handed over, if there is one.  Returns NULL if
 * the caller has to take the pool's lock.  @is_followed is TRUE if the request is traced. */
TarnBlock *
_tarn_pool_take_received (TarnPool *pool, gsize size, gpointer handle, gboolean is_followed)
{
  TarnThread *thread = _tarn_current_thread;
  TarnCache *cache = _tarn_cache_of (thread, pool);
  guint32 number = _tarn_bin_number (size, _tarn_pool_get_leading_bits (pool));
  TarnBlock *block = NULL;
  TarnCacheBin *bin;

  if (cache == NULL || pool->policy.transfer_blocks == 0
      || !_tarn_thread_enter (thread, &pool->door, is_followed))
    return NULL;
  bin = _tarn_cache_find_bin (cache, number, handle);
  if (bin != NULL && (bin->top != NULL || receive (cache, bin)))
    block = _tarn_cache_pop (cache, bin, size);
  _tarn_thread_leave (thread);
  return block;
}

/* Puts a block that is being freed into the calling thread's cache.  If the cache's bin is full,
 * first hands over other blocks of the bin to other threads.  Returns FALSE, and does nothing, if
 * the caller has to take the pool's lock.  @is_followed is TRUE if the free is traced. */
gboolean
_tarn_pool_put_handing_over (TarnPool *pool, TarnBlock *block, gboolean is_followed)
{
  TarnThread *thread = _tarn_current_thread;
  TarnCache *cache = _tarn_cache_of (thread, pool);
  gboolean is_held;
  TarnCacheBin *bin;

  if (cache == NULL || pool->policy.transfer_blocks == 0
      || !_tarn_thread_enter (thread, &pool->door, is_followed))
    return FALSE;
  bin = _tarn_cache_find_bin (cache, block->bin, block->share);
  is_held = bin != NULL && block->state == TARN_BLOCK_ACTIVE && bin->length == bin->capacity
            && hand_over (cache, bin);
  if (is_held)
    _tarn_cache_put (cache, bin, block);
  _tarn_thread_leave (thread);
  return is_held;
}

/* Functions whose caller holds the pool's lock */

/* Moves the blocks of a transfer bin (for blocks that threads hand over) to the pool's bins.  The
 * caller holds the lock of the transfer bin, or has stopped the pool's read sections. */
static void
empty (TarnPool *pool, TarnTransferBin *bin)
{
  g_assert (bin->n_batches <= TARN_TRANSFER_BATCHES);
  if (bin->n_batches == 0)
    return;
  for (guint i = 0; i < bin->n_batches; i++)
    {
      end_transfer (pool, pool->policy.transfer_blocks * bin->batches[i].first->alloc_size);
      _tarn_pool_put_batch (pool, bin->batches[i].first, bin->batches[i].last,
                            pool->policy.transfer_blocks);
    }
  set_n_batches (pool, bin, 0);
}

/* Moves the blocks of a transfer bin (for blocks that threads hand over) to the pool's bins, if
 * they have the given size and queue.  @handle points to the queue's handle, which is NULL for
 * blocks that no queue has used.  If @handle itself is NULL, moves blocks of any queue.  Returns
 * TRUE if the transfer bin had such blocks. */
static gboolean
take_from (TarnPool *pool, TarnTransferBin *place, guint32 number, const gpointer *handle)
{
  gboolean was_open = FALSE, is_any, is_mine;

  _tarn_assert_locked (&pool->lock);
  if (!has_any (place))
    return FALSE;
  is_mine = lock (place);
  if (!is_mine)
    /* while read sections are stopped, no other thread holds the bin's lock */
    was_open = _tarn_pool_close (pool);
  is_any = place->n_batches > 0 && is_for (place, number, handle != NULL ? *handle : place->handle);
  if (is_any)
    empty (pool, place);
  if (is_mine)
    unlock (place);
  _tarn_pool_open (pool, was_open);
  return is_any;
}

/* Moves the blocks of one size and one queue from all transfer bins (for blocks that threads hand
 * over) to the pool's bin for this size and queue.  Moves the blocks of the calling thread's own
 * transfer bin last, so that they lie on top.  Returns TRUE if there were any such blocks. */
gboolean
_tarn_pool_take_from_transfer (TarnPool *pool, guint32 number, gpointer handle)
{
  guint32 spread = _tarn_spread (number, handle);
  guint own = _tarn_current_thread->number;
  gboolean is_any = FALSE;

  _tarn_assert_locked (&pool->lock);
  for (guint i = 1; i <= TARN_TRANSFER_SHARDS; i++)
    {
      TarnTransferBin *place = get_bin (pool, spread, own + i);

      if (has_any (place)) /* avoids the call: most transfer bins are empty */
        is_any = take_from (pool, place, number, &handle) || is_any;
    }
  return is_any;
}

/* Moves the blocks of one size from all transfer bins (for blocks that threads hand over) to the
 * pool's bins for their queues. */
void
_tarn_pool_take_from_transfers (TarnPool *pool, guint32 number)
{
  for (guint i = 0; i < TARN_TRANSFER_BINS; i++)
    take_from (pool, &pool->transfers.bins[i], number, NULL);
}

/* Moves the blocks of all transfer bins (for blocks that threads hand over) to the pool's bins.
 * The caller has stopped the pool's read sections. */
void
_tarn_pool_empty_transfers (TarnPool *pool)
{
  _tarn_assert_locked (&pool->lock);
  g_assert (_tarn_door_is_closed (&pool->door));
  for (guint i = 0; i < TARN_TRANSFER_BINS; i++)
    empty (pool, &pool->transfers.bins[i]);
}

/* Adds the blocks in transfer bins (for blocks that threads hand over) to *stats.  The caller has
 * stopped the pool's read sections, or runs in a child of fork (). */
void
_tarn_pool_add_transfers (const TarnPool *pool, TarnPoolStats *stats)
{
  for (guint i = 0; i < TARN_TRANSFER_BINS; i++)
    {
      const TarnTransferBin *bin = &pool->transfers.bins[i];
      gsize n = (gsize) bin->n_batches * pool->policy.transfer_blocks;

      stats->held_blocks += n;
      stats->held_bytes
          += n * _tarn_bin_alloc_size (bin->number, _tarn_pool_get_leading_bits (pool));
    }
}
