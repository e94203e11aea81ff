/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Thread caches (cache-private.h): how blocks move between them and the pool's bins, and the
 * capacity of each bin of a cache (the number of blocks for which it has room).  Cached blocks
 * count as held, whether they are in a thread cache or in the pool's bins.  So a move changes the
 * count of the cache and the count of the bins, but not their sum.  For how the pool makes and
 * frees caches see caches.c. */

#include "pool/arenas-private.h"

/* Constants of get_bytes_among_pools (), which bounds the capacity of a thread's caches if several
 * pools are over one heap.  BYTES_OF_POOLS: the bytes that the caches of one thread share.
 * LEAST_BYTES: the bytes that each cache may have in any case.  MANAGED_SHARE: each cache may also
 * have the managed bytes of its pool divided by this number. */
#define BYTES_OF_POOLS ((gsize) 16 << 20)
#define LEAST_BYTES ((gsize) 256 << 10)
#define MANAGED_SHARE 8

static void set_capacity (TarnCache *cache, TarnCacheBin *bin, guint capacity);

/* Functions that move blocks from a cache to the pool's bins.  The caller holds the pool's lock.
 * If the cache belongs to another thread that has not ended, the caller has also stopped the
 * pool's read sections. */

/* Moves the blocks of a cache's bin, except the @n_kept topmost ones, to the pool's bin as one
 * batch.  But first returns the blocks that belong to an arena of the heap (is_own) to the arena,
 * if it can take them now. */
static void
move_rest (TarnCache *cache, TarnCacheBin *bin, guint n_kept)
{
  TarnBlock *top = bin->top, *first, *last;
  TarnBlock **link = &top;
  guint n = 1;

  _tarn_assert_locked (&cache->pool->lock);
  g_assert (n_kept < bin->length);
  for (guint i = 0; i < n_kept; i++)
    link = &(*link)->below;
  first = *link;
  *link = NULL;
  _tarn_cache_bin_set (bin, top, n_kept);
  if (cache->pool->has_arenas)
    first = _tarn_cache_return_own (cache, first);
  if (first == NULL)
    return;
  for (last = first; last->below != NULL; last = last->below)
    n++;
  _tarn_pool_put_batch (cache->pool, first, last, n);
}

/* Moves all blocks of a cache's bin to the pool's bin, in batches that are small enough for another
 * thread's cache.  Before that, moves the blocks of the same size and queue that are in transfer
 * bins (for blocks that threads hand over): these blocks are older, so they must be lower in the
 * pool's bin.  If the program has set a bound on held bytes, also sets the capacity of the cache's
 * bin to 0. */
void
_tarn_cache_empty_bin (TarnCache *cache, TarnCacheBin *bin)
{
  guint most = MAX (1, cache->pool->policy.thread_cache_blocks / 2);

  _tarn_assert_locked (&cache->pool->lock);
  if (bin->top != NULL)
    _tarn_pool_take_from_transfer (cache->pool, bin->number, bin->handle);
  while (bin->length > most)
    move_rest (cache, bin, bin->length - most);
  if (bin->top != NULL)
    move_rest (cache, bin, 0);
  /* The moved blocks still count against the pool's bound on held bytes.  If the cache's bin kept
   * its capacity, the thread could fill it with other blocks, and the pool would exceed the
   * bound. */
  if (_tarn_pool_counts_room (cache->pool))
    set_capacity (cache, bin, 0);
}

/* Moves all blocks of a cache to the pool's bins, or to the arenas of the heap from which they
 * came. */
void
_tarn_cache_empty (TarnCache *cache)
{
  TARN_FOR_EACH_BIN_WITH_ROOM (i, cache)
  _tarn_cache_empty_bin (cache, &cache->bins[i]);
  _tarn_cache_return_all_kept (cache);
}

/* Moves the blocks of all caches and transfer bins (for blocks that threads hand over) to the
 * pool's bins, or to the arenas of the heap from which they came.  The caller holds the pool's lock
 * and has stopped the pool's read sections. */
void
_tarn_pool_flush_closed (TarnPool *pool)
{
  _tarn_assert_locked (&pool->lock);
  g_assert (_tarn_door_is_closed (&pool->door));
  _tarn_pool_count_closed (pool);
  _tarn_pool_empty_transfers (pool);
  for (TarnCache *cache = pool->caches.first; cache != NULL; cache = cache->next)
    _tarn_cache_empty (cache);
  _tarn_pool_end_grants (pool);
}

/* Moves the blocks of all caches to the pool's bins, and makes the pool's counters exact.  Stops
 * the pool's read sections meanwhile.  If the pool has stopped holding blocks, read sections stay
 * stopped.  The caller holds the pool's lock. */
void
_tarn_pool_flush (TarnPool *pool)
{
  gboolean was_open = _tarn_pool_close (pool);

  _tarn_assert_locked (&pool->lock);
  if (was_open)
    _tarn_pool_flush_closed (pool);
  _tarn_pool_open (pool, was_open);
}

/* Returns TRUE if a cache may have blocks of a queue: in a bin that has a capacity above 0, or in
 * TarnCache.kept.  The caller holds the pool's lock. */
static gboolean
has_any_of (const TarnCache *cache, gconstpointer handle)
{
  /* A block of another queue in TarnCache.kept counts, too.  The reason: the cache's thread may be
   * in a read section now, and may replace this block by a block of the queue @handle. */
  for (guint i = 0; i < TARN_CACHE_KEPT; i++)
    if (__atomic_load_n (&cache->kept[i], __ATOMIC_RELAXED) != NULL)
      return TRUE;
  TARN_FOR_EACH_BIN_WITH_ROOM (i, cache)
  if (cache->bins[i].handle == handle)
    return TRUE;
  return FALSE;
}

/* Moves the blocks of a queue from all caches and transfer bins (for blocks that threads hand over)
 * to the pool's bins for this queue.  If @handle is NULL, moves the blocks that no queue has used.
 * Stops read sections only if another thread's cache may have such blocks, or if any transfer bin
 * has blocks.  The caller holds the pool's lock. */
void
_tarn_pool_flush_queue (TarnPool *pool, gpointer handle)
{
  const TarnCache *own = _tarn_cache_of (_tarn_current_thread, pool);
  gboolean was_open = FALSE;

  _tarn_assert_locked (&pool->lock);
  if (_tarn_pool_has_transfers (pool))
    {
      was_open = _tarn_pool_close (pool);
      _tarn_pool_empty_transfers (pool);
    }
  for (TarnCache *cache = pool->caches.first; cache != NULL; cache = cache->next)
    {
      if (!has_any_of (cache, handle))
        continue;
      if (cache != own)
        was_open = _tarn_pool_close (pool) || was_open;
      TARN_FOR_EACH_BIN_WITH_ROOM (i, cache)
      if (cache->bins[i].handle == handle)
        _tarn_cache_empty_bin (cache, &cache->bins[i]);
      _tarn_cache_return_kept (cache, handle);
    }
  _tarn_pool_open (pool, was_open);
}

/* Functions for the capacity of a cache's bins: the number of blocks for which a bin has room.  A
 * bin keeps its capacity when its blocks leave it, because a thread that had many blocks will
 * usually have as many again.  A bin loses its capacity if another bin needs its bytes or its slot,
 * or if the next use of the bin should take the pool's lock.  The caller of each function holds the
 * pool's lock. */

/* Sets the capacity of a bin.  The caller makes sure that the new capacity is not below the bin's
 * length. */
static void
set_capacity (TarnCache *cache, TarnCacheBin *bin, guint capacity)
{
  gsize alloc_size = _tarn_cache_get_alloc_size (cache, bin->number);
  gsize i = (gsize) (bin - cache->bins);
  guint64 bit = (guint64) 1 << i % 64;

  _tarn_assert_locked (&cache->pool->lock);
  g_assert (capacity >= bin->length);
  if (capacity > 0)
    cache->has_room[i / 64] |= bit;
  else
    cache->has_room[i / 64] &= ~bit;
  cache->reserved_bytes += alloc_size * capacity - alloc_size * bin->capacity;
  cache->pool->caches.room_bytes += alloc_size * capacity - alloc_size * bin->capacity;
  bin->capacity = capacity;
}

/* Finds a slot for a new bin in the cache's hash table.  Of the slots that the bin may have,
 * returns the first one whose present bin has a capacity of 0.  If there is no such slot, returns
 * the new bin's home slot, and the caller replaces the bin that is there. */
static TarnCacheBin *
find_place (TarnCache *cache, guint32 number, gpointer handle)
{
  TarnCacheBin *home = _tarn_cache_get_home (cache, number, handle);

  for (guint i = 0; i < TARN_CACHE_PROBES; i++)
    if (home[i].capacity == 0)
      return &home[i];
  return home;
}

/* Gets a cache's bin for a size and a queue.  If the cache has no such bin, adds the bin.  If
 * another bin is in the slot for the new bin, first moves the blocks of that other bin to the
 * pool's own bins. */
static TarnCacheBin *
assign_place (TarnCache *cache, guint32 number, gpointer handle)
{
  TarnCacheBin *bin = _tarn_cache_find_bin (cache, number, handle);

  _tarn_assert_locked (&cache->pool->lock);
  if (bin != NULL)
    return bin;
  bin = find_place (cache, number, handle);
  cache->n_replaced += bin->length > 0 ? 1 : 0;
  _tarn_cache_empty_bin (cache, bin);
  set_capacity (cache, bin, 0);
  bin->number = number;
  bin->handle = handle;
  return bin;
}

/* Returns the largest capacity, in bytes, that a thread's cache may have in one of several pools
 * over a heap.  The pools cannot use each other's cached blocks.  So the caches that a thread has
 * in these pools share BYTES_OF_POOLS equally.  But each cache may have at least LEAST_BYTES, or
 * the pool's managed bytes divided by MANAGED_SHARE if that is more. */
static gsize
get_bytes_among_pools (const TarnPool *pool)
{
  gsize bytes = BYTES_OF_POOLS / _tarn_heap_count_pools (pool->heap);
  gsize managed = _tarn_pool_get_managed (pool) / MANAGED_SHARE;

  return MAX (MAX (bytes, LEAST_BYTES), managed);
}

/* Returns the largest capacity, in bytes, that a thread's cache may have.  Usually this is the
 * pool's thread_cache_bytes.  There are two exceptions:
 * - If the program has set a bound on the bytes that the pool holds, all caches together may use
 *   half of that bound, in equal shares.  Then the result is such a share, or thread_cache_bytes if
 *   that is less.
 * - If there is no such bound, and other pools are over the same heap: get_bytes_among_pools (). */
static gsize
get_most_bytes (const TarnPool *pool)
{
  gsize bytes = pool->policy.thread_cache_bytes, most = bytes;

  if (_tarn_pool_counts_room (pool))
    most = pool->policy.hold_bytes / 2 / pool->caches.n;
  else if (pool->policy.hold_bytes == 0 && _tarn_heap_count_pools (pool->heap) > 1)
    most = get_bytes_among_pools (pool);
  return MIN (bytes, most);
}

/* Returns the highest capacity, in blocks, that a bin may have while the capacity of the other bins
 * does not change. */
static guint
get_max_capacity (const TarnCache *cache, const TarnCacheBin *bin)
{
  const TarnPool *pool = cache->pool;
  gsize most = get_most_bytes (pool), left = _tarn_subtract (most, cache->reserved_bytes);
  gsize n;

  /* If hold_bytes is 0, the cache may have reserved more bytes than it may now have (most).  The
   * reason: a new pool over the same heap reduces that number, but does not make caches smaller. */
  g_assert (cache->reserved_bytes <= most || pool->policy.hold_bytes == 0);
  if (_tarn_pool_counts_room (pool))
    left = MIN (left, _tarn_pool_get_room_for_caches (pool));
  n = bin->capacity + left / _tarn_cache_get_alloc_size (cache, bin->number);
  return (guint) MIN (n, pool->policy.thread_cache_blocks);
}

/* Reduces the capacity of each bin in a cache to the number of blocks that the bin has. */
void
_tarn_cache_give_up_unused_room (TarnCache *cache)
{
  TARN_FOR_EACH_BIN_WITH_ROOM (i, cache)
  set_capacity (cache, &cache->bins[i], cache->bins[i].length);
}

/* Sets the capacity of all bins in all caches to 0.  The caller has emptied the caches, and has
 * stopped the pool's read sections. */
void
_tarn_pool_give_up_room (TarnPool *pool)
{
  _tarn_assert_locked (&pool->lock);
  g_assert (_tarn_door_is_closed (&pool->door));
  for (TarnCache *cache = pool->caches.first; cache != NULL; cache = cache->next)
    _tarn_cache_give_up_unused_room (cache);
  g_assert (pool->caches.room_bytes == 0);
}

/* Makes room for a block in a full bin of a cache.  Returns FALSE if the cache's bound on bytes
 * does not allow the bin even one block.
 * - If the bin has fewer blocks than a bin may have, doubles its capacity, so that the bin is
 *   seldom full.  If the cache's bound on bytes does not allow that, first takes the unused
 *   capacity from the other bins.  If there is no room for one more block even then, moves all
 *   blocks out of the cache, also those of this bin.
 * - If the bin has as many blocks as a bin may have, moves the oldest half of them to the pool's
 *   bin. */
static gboolean
make_room_in_bin (TarnCache *cache, TarnCacheBin *bin)
{
  guint most = cache->pool->policy.thread_cache_blocks;
  guint wanted = MIN (MAX (1, 2U * bin->capacity), most);

  _tarn_assert_locked (&cache->pool->lock);
  g_assert (bin->length == bin->capacity);
  if (get_max_capacity (cache, bin) < wanted)
    _tarn_cache_give_up_unused_room (cache);
  if (bin->length < most && get_max_capacity (cache, bin) == bin->length)
    {
      _tarn_cache_empty (cache);
      _tarn_cache_give_up_unused_room (cache);
    }
  set_capacity (cache, bin, MIN (wanted, get_max_capacity (cache, bin)));
  if (bin->length < bin->capacity)
    return TRUE;
  if (bin->length == 0)
    return FALSE;
  /* First moves the blocks in transfer bins to the pool's bin: they are older than those in the
   * cache's bin, so they must be lower in the pool's bin. */
  _tarn_pool_take_from_transfer (cache->pool, bin->number, bin->handle);
  move_rest (cache, bin, bin->capacity / 2);
  return TRUE;
}

/* Puts a block that is being freed into the calling thread's cache.  Returns FALSE, and does not
 * change the block, if the block is too large, if the cache has no room for it, or if blocks of its
 * size are handed over between queues.  The caller holds the pool's lock. */
gboolean
_tarn_cache_keep (TarnCache *cache, TarnBlock *block)
{
  const TarnPool *pool = cache->pool;
  TarnCacheBin *bin;

  _tarn_assert_locked (&cache->pool->lock);
  g_assert (!block->exact && block->source == &pool->base && block->share != TARN_NO_SHARE);
  if (block->alloc_size > get_most_bytes (pool) || _tarn_pool_records_frees (pool, block->bin))
    return FALSE;
  bin = assign_place (cache, block->bin, block->share);
  if (bin->length == bin->capacity && !make_room_in_bin (cache, bin))
    return FALSE;
  _tarn_cache_push (bin, block);
  return TRUE;
}

/* Clears each bin of a cache for which the function @is_it returns TRUE: moves the bin's blocks to
 * the pool's bins, and sets the bin's capacity to 0. */
static void
clear_bins (TarnCache *cache, gboolean (*is_it) (const TarnCacheBin *bin, gconstpointer data),
            gconstpointer data)
{
  TARN_FOR_EACH_BIN_WITH_ROOM (i, cache)
  if (is_it (&cache->bins[i], data))
    {
      _tarn_cache_empty_bin (cache, &cache->bins[i]);
      set_capacity (cache, &cache->bins[i], 0);
    }
}

/* Moves the blocks of one size from a cache to the pool's bins for their queues. */
void
_tarn_cache_empty_bins_of_size (TarnCache *cache, guint32 number)
{
  _tarn_assert_locked (&cache->pool->lock);
  TARN_FOR_EACH_BIN_WITH_ROOM (i, cache)
  if (cache->bins[i].number == number)
    _tarn_cache_empty_bin (cache, &cache->bins[i]);
}

/* Clears each bin of any cache for which the function @is_it returns TRUE: moves the bin's blocks
 * to the pool's bins, and sets the bin's capacity to 0.  The next request for such a block, and the
 * next free of such a block, cannot use the cache, so they take the pool's lock. */
static void
clear_bins_of_all (TarnPool *pool, gboolean (*is_it) (const TarnCacheBin *bin, gconstpointer data),
                   gconstpointer data)
{
  gboolean was_open = _tarn_pool_close (pool);

  _tarn_assert_locked (&pool->lock);
  _tarn_pool_empty_transfers (pool);
  for (TarnCache *cache = pool->caches.first; cache != NULL; cache = cache->next)
    clear_bins (cache, is_it, data);
  _tarn_pool_open (pool, was_open);
}

static gboolean
is_of_queue (const TarnCacheBin *bin, gconstpointer handle)
{
  return bin->handle == handle;
}

/* Moves the blocks of a queue from all caches to the pool's bins for this queue.  The next request
 * of the queue, and the next free of a block of the queue, then take the pool's lock.  Only with
 * the lock can they record an event on the queue. */
void
_tarn_pool_empty_bins_of_queue (TarnPool *pool, gpointer handle)
{
  clear_bins_of_all (pool, is_of_queue, handle);
}

static gboolean
is_of_size (const TarnCacheBin *bin, gconstpointer number)
{
  return bin->number == *(const guint32 *) number;
}

/* Moves the blocks of a size from all caches to the pool's bins.  The next request for the size,
 * and the next free of a block of the size, then take the pool's lock.  Only with the lock can a
 * free record an event. */
void
_tarn_pool_empty_bins_of_size (TarnPool *pool, guint32 number)
{
  clear_bins_of_all (pool, is_of_size, &number);
}

/* Functions that move blocks from the pool's bin to a cache, or from other threads' caches to the
 * pool's bin */

/* Moves blocks of a size to the calling thread's cache, after a request found no such block in the
 * cache.  @share is the table of the pool's bins for the request's queue, from which the blocks
 * come.  Moves whole batches if possible, otherwise single blocks, up to about half of the blocks
 * in the pool's bin.  Returns TRUE if the cache now has such blocks.  The caller holds the pool's
 * lock. */
gboolean
_tarn_cache_fill (TarnCache *cache, guint32 number, gpointer handle, TarnBins *share)
{
  TarnPool *pool = cache->pool;
  gsize alloc_size = _tarn_cache_get_alloc_size (cache, number);
  TarnCacheBin *bin;
  TarnBin *from;
  TarnBlock *top;
  TarnBlock **end = &top;
  guint max, taken, n = 0;

  _tarn_assert_locked (&pool->lock);
  if (!_tarn_bins_have (share, number)
      || alloc_size > MIN (TARN_MAX_BYTES_AT_A_TIME, get_most_bytes (pool))
      || _tarn_pool_records_frees (pool, number))
    return FALSE;
  bin = assign_place (cache, number, handle);
  /* Looks up the pool's bin only now, because assign_place () may add bins to the table and free
   * empty ones. */
  from = _tarn_bins_get (share, number);
  /* If the cache's bin had blocks, _tarn_cache_bin_set () below would lose them. */
  g_assert (bin->top == NULL);
  if (get_max_capacity (cache, bin) == 0)
    _tarn_cache_give_up_unused_room (cache);
  max = MIN (pool->policy.thread_cache_blocks / 2, get_max_capacity (cache, bin));
  max = (guint) MIN (max, TARN_MAX_BYTES_AT_A_TIME / alloc_size);
  while (n < max && (taken = _tarn_pool_take_for_cache (pool, from, n, max - n, &end)) > 0)
    n += taken;
  *end = NULL;
  set_capacity (cache, bin, MAX (bin->capacity, n));
  _tarn_cache_bin_set (bin, top, n);
  return n > 0;
}

/* Returns TRUE if a cache of another thread was not used for TARN_IDLE_TIME.  The first call for a
 * cache only stores the cache's counters, and returns FALSE.  Later calls compare the counters with
 * the stored ones.  The caller holds the pool's lock. */
static gboolean
look_whether_idle (TarnCache *cache, gint64 now)
{
  guint64 hits = __atomic_load_n (&cache->hits, __ATOMIC_RELAXED);
  gsize bytes = cache->counted_bytes + __atomic_load_n (&cache->active_bytes, __ATOMIC_RELAXED);

  if (hits == cache->seen_hits && bytes == cache->seen_bytes)
    return now - cache->seen_at >= TARN_IDLE_TIME;
  cache->seen_hits = hits;
  cache->seen_bytes = bytes;
  cache->seen_at = now;
  return FALSE;
}

/* Moves the blocks of a size and a queue from abandoned caches (whose threads have ended) to the
 * pool's bin.  Returns TRUE if there were any such blocks.  The caller holds the pool's lock. */
gboolean
_tarn_pool_take_from_abandoned (TarnPool *pool, guint32 number, gpointer handle)
{
  gboolean is_any = FALSE;

  _tarn_assert_locked (&pool->lock);
  if (pool->caches.n_abandoned == 0)
    return FALSE;
  for (TarnCache *cache = pool->caches.first; cache != NULL; cache = cache->next)
    {
      TarnCacheBin *bin = cache->is_abandoned ? _tarn_cache_find_bin (cache, number, handle) : NULL;

      if (bin == NULL || bin->top == NULL)
        continue;
      _tarn_cache_empty_bin (cache, bin);
      is_any = TRUE;
    }
  return is_any;
}

/* Moves the blocks of a size and a queue from the caches of idle threads to the pool's bin.  The
 * pool calls this before it asks the upstream allocator for memory.  Returns TRUE if there were any
 * such blocks.  The caller holds the pool's lock. */
gboolean
_tarn_pool_take_from_idle_threads (TarnPool *pool, guint32 number, gpointer handle)
{
  const TarnCache *own = _tarn_cache_of (_tarn_current_thread, pool);
  gboolean is_any = FALSE, was_open = FALSE;
  gint64 now;

  _tarn_assert_locked (&pool->lock);
  if (pool->caches.first == NULL || (pool->caches.first == own && own->next == NULL))
    return FALSE; /* no other thread has a cache */
  if (_tarn_pool_records_frees (pool, number))
    return FALSE; /* while frees of a size record events, no cache has blocks of this size */
  now = _tarn_clock_now ();

  for (TarnCache *cache = pool->caches.first; cache != NULL; cache = cache->next)
    {
      TarnCacheBin *bin = _tarn_cache_find_bin (cache, number, handle);

      if (cache->is_abandoned || !look_whether_idle (cache, now) || bin == NULL
          || __atomic_load_n (&bin->length, __ATOMIC_RELAXED) == 0)
        continue;
      was_open = _tarn_pool_close (pool) || was_open;
      if (bin->top != NULL)
        {
          _tarn_cache_empty_bin (cache, bin);
          is_any = TRUE;
        }
    }
  _tarn_pool_open (pool, was_open);
  return is_any;
}

/* A thread looks at all bins of its cache each time that the cache has no room for a freed block of
 * an arena.  Without looking, it then returns the next LOOKS_FOR_ROOM small blocks to their arenas
 * (order/free.c).  SEEN_PER_WINDOW looks are called a window.  At the end of a window, bins give up
 * the capacity that they did not use in the window. */
#define SEEN_PER_WINDOW 16

/* If each look of a thread at its cache finds a bin empty, and the bin's capacity is too small for
 * the block that found no room, the bin keeps its capacity for this many windows.  The thread may
 * use such a bin between two looks: for example, it may free a block and allocate it again. */
#define MANY_WINDOWS 8

/* Gets a number that stands for the block on top of a bin: some bits of its address.  If two calls
 * return different numbers, the thread has used the bin between them. */
static guint32
get_top (const TarnCacheBin *bin)
{
  return (guint32) (GPOINTER_TO_SIZE (bin->top) / sizeof (TarnBlock));
}

/* Updates the notes about a bin (TarnSeenBin): the most blocks that the thread has seen in the bin
 * in the present window, and whether it has seen different blocks on top. */
static void
see_bin (const TarnCacheBin *bin, TarnSeenBin *seen)
{
  guint32 top = get_top (bin);

  seen->has_changed |= seen->top != top;
  seen->top = top;
  seen->most = MAX (seen->most, bin->length);
}

/* Reduces the capacity of a bin at the end of a window (TarnSeenBin) to the most blocks that the
 * thread has seen in the bin in this window.
 *
 * If each look in the window found the same block on top, the bin may be unused, so the function
 * moves all its blocks to the pool's bin.  But the bin usually keeps the capacity for these blocks,
 * because a thread that uses a single block of a size again and again leaves the same block on top,
 * too.  (If the program has set a bound on held bytes, the bin loses the capacity:
 * _tarn_cache_empty_bin ().)
 *
 * If each look found the bin empty, the bin gives up its whole capacity.  But suppose that this
 * capacity has fewer bytes than @needed, the size of the block that found no room in the cache.
 * Then the bin keeps its capacity until the block on top has stayed the same for MANY_WINDOWS
 * windows in succession. */
static void
shrink_if_unused (TarnCache *cache, TarnCacheBin *bin, TarnSeenBin *seen, gsize needed)
{
  gsize room = _tarn_cache_get_alloc_size (cache, bin->number) * bin->capacity;

  seen->n_unchanged = (guint8) (seen->has_changed ? 0 : MIN (seen->n_unchanged + 1, G_MAXUINT8));
  if (!seen->has_changed)
    _tarn_cache_empty_bin (cache, bin);
  if (seen->most > 0 || room >= needed || seen->n_unchanged >= MANY_WINDOWS)
    set_capacity (cache, bin, MIN (bin->capacity, seen->most));
  *seen = (TarnSeenBin){ .top = get_top (bin), .n_unchanged = seen->n_unchanged };
}

/* Updates the notes about each bin that has capacity, after a freed block has found no room in the
 * bin @full.  At the end of a window (SEEN_PER_WINDOW calls), also reduces the capacity of the
 * other bins.  Otherwise sizes that the thread used long ago would leave no capacity for sizes that
 * it uses now. */
static void
look_for_unused_room (TarnCache *cache, const TarnCacheBin *full)
{
  gboolean is_end = ++cache->n_seen % SEEN_PER_WINDOW == 0;
  gsize needed = _tarn_cache_get_alloc_size (cache, full->number);

  TARN_FOR_EACH_BIN_WITH_ROOM (i, cache)
  {
    see_bin (&cache->bins[i], &cache->seen[i]);
    if (is_end && &cache->bins[i] != full)
      shrink_if_unused (cache, &cache->bins[i], &cache->seen[i], needed);
  }
}

/* Puts a block of an arena of the heap (is_own), which is being freed, into the calling thread's
 * cache.  Returns FALSE if the block is too large, if blocks of this size are handed over between
 * queues, or if the cache's bin is full and its capacity cannot grow.  In the last case, first
 * tries to take capacity from other bins (look_for_unused_room ()).  A bin gets at most 7/8 of the
 * cache, so that one size leaves room for others.  The caller holds the pool's lock. */
gboolean
_tarn_cache_keep_own (TarnCache *cache, TarnBlock *block)
{
  const TarnPool *pool = cache->pool;
  TarnCacheBin *bin;
  guint wanted;

  _tarn_assert_locked (&pool->lock);
  if (block->alloc_size > get_most_bytes (pool) || _tarn_pool_records_frees (pool, block->bin))
    return FALSE;
  bin = assign_place (cache, block->bin, block->share);
  if (bin->length == bin->capacity)
    {
      if (bin->length == get_max_capacity (cache, bin)
          && bin->length < pool->policy.thread_cache_blocks)
        look_for_unused_room (cache, bin);
      wanted = MIN (MAX (1, 2U * bin->capacity), get_max_capacity (cache, bin));
      wanted = (guint) MIN (wanted, MAX (1, get_most_bytes (pool) / 8 * 7 / block->alloc_size));
      if (wanted <= bin->length)
        return FALSE;
      set_capacity (cache, bin, wanted);
    }
  _tarn_cache_put (cache, bin, block);
  return TRUE;
}

/* Stores which block a thread has allocated last while it held the pool's lock.  If @cache is NULL,
 * the thread has no cache, and the function does nothing. */
void
_tarn_cache_note_latest (TarnCache *cache, const TarnBlock *block)
{
  if (cache != NULL)
    cache->latest = block;
}

/* Counts a free by a thread that holds the pool's lock.  Returns TRUE if the block is one of
 * several temporaries in succession.  A temporary is a block that a thread frees before it
 * allocates another. */
gboolean
_tarn_cache_note_free (TarnCache *cache, const TarnBlock *block)
{
  cache->n_temporaries = block == cache->latest ? cache->n_temporaries + 1 : 0;
  return cache->n_temporaries >= TARN_FEW_TEMPORARIES;
}
