/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Chooses the cached ("held") blocks whose memory the pool returns to upstream.  The functions here
 * only take the blocks out of the pool: they remove the blocks from bins and counters, set their
 * state to RETIRED, and link them by TarnBlock.below in the order of their return.  The caller
 * holds the pool's lock.  The caller then releases the lock, and returns the memory of the blocks
 * to upstream (upstream/give-back.c).
 *
 * A recorded block is a cached block that commands may still use, and whose events tell when these
 * commands have completed. */

#include "base/clock-private.h"
#include "pool/cache-private.h"

/* The bound on the bytes that a pool over a heap holds, if the program sets none: the managed bytes
 * divided by HOLD_SHARE, or MIN_HOLD_BYTES if that is more.  With this bound, a language model took
 * 1.033 times as many bytes as it had in use.  With a bound twice as high, it took 1.086 times as
 * many. */
#define MIN_HOLD_BYTES ((gsize) 8 << 20)
#define HOLD_SHARE 200

/* The most recorded blocks that one call of take_oldest () looks at and cannot take, because
 * commands still use them. */
#define MAX_UNDONE 32

/* Marks a block as retired, and appends it to a list of blocks to return to upstream.  The caller
 * has removed the block from its bin.  *end points to the list's last link, which is NULL. */
static void
retire (TarnPool *pool, TarnBlock *block, TarnBlock ***end)
{
  _tarn_pool_retire (pool, block);
  **end = block;
  *end = &block->below;
}

/* Appends the list @second to the list @first, and returns the whole list.  Both may be empty. */
TarnBlock *
_tarn_blocks_concat (TarnBlock *first, TarnBlock *second)
{
  TarnBlock **end = &first;

  while (*end != NULL)
    end = &(*end)->below;
  *end = second;
  return first;
}

/* Takes the stuck blocks out of the pool: cached blocks whose memory an earlier call could not
 * return to upstream.  Returns them as a list, so that the caller tries again. */
TarnBlock *
_tarn_pool_take_stuck (TarnPool *pool)
{
  TarnBlock *blocks = g_steal_pointer (&pool->store.stuck);

  _tarn_assert_locked (&pool->lock);
  for (TarnBlock *block = blocks; block != NULL; block = block->below)
    {
      pool->stats.held_blocks--;
      pool->stats.held_bytes -= block->alloc_size;
      _tarn_pool_retire (pool, block);
    }
  pool->store.n_stuck = 0;
  return blocks;
}

/* Takes a block out of the pool: removes it from its bin and its list by age, marks it as retired,
 * and appends it to a list of blocks to return to upstream. */
static void
take (TarnPool *pool, TarnBlock *block, TarnBlock ***end)
{
  _tarn_pool_remove_block (pool, block);
  retire (pool, block, end);
}

/* Searches the list of recorded blocks, from @block to newer ones, for the first block that no
 * command uses any more.  Returns NULL if there is no such block, or if @block is NULL. */
static TarnBlock *
find_done (const TarnPool *pool, TarnBlock *block)
{
  while (block != NULL && !pool->base.klass->is_done (block))
    block = _tarn_block_get_age (block)->newer;
  return block;
}

/* Continues the present search of the list of recorded blocks, which goes from the oldest block to
 * newer ones.  Returns the first block whose commands have completed.  Returns NULL at the end of
 * the list, or when @n_left, which it counts down, is 0.  Stores in searched_next the block at
 * which the search stops. */
static TarnBlock *
search_on (TarnPool *pool, guint *n_left)
{
  TarnAges *recorded = &pool->store.recorded;

  while (recorded->searched_next != NULL && *n_left > 0)
    {
      if (pool->base.klass->is_done (recorded->searched_next))
        return recorded->searched_next;
      recorded->searched_next = _tarn_block_get_age (recorded->searched_next)->newer;
      --*n_left;
    }
  return NULL;
}

/* Returns the older one of two blocks.  If one of them is NULL, returns the other.  @ready is a
 * block that the pool can return to upstream at any time.  @done is a recorded block that the pool
 * can return because the commands that use it have completed. */
static TarnBlock *
get_oldest (TarnBlock *ready, TarnBlock *done)
{
  if (ready == NULL || done == NULL)
    return ready != NULL ? ready : done;
  return _tarn_block_get_age (done)->since < _tarn_block_get_age (ready)->since ? done : ready;
}

/* Takes cached blocks out of the pool, the oldest block first, and appends them to a list.  Takes
 * only blocks that the pool can return to upstream without a wait.  Stops when the pool caches at
 * most @keep_bytes bytes, when the next of these blocks came to its bin after the time @since, or
 * when none of them is left.
 *
 * If the queues are far behind, there are many recorded blocks, and almost each free calls this
 * function.  So a call skips at most MAX_UNDONE recorded blocks that commands still use, and the
 * next call continues the search after these.  A new search begins if events may have completed
 * since the last search began. */
static void
take_oldest (TarnPool *pool, gint64 since, gsize keep_bytes, TarnBlock ***end)
{
  TarnStore *store = &pool->store;
  TarnBlock *ready = store->ready.oldest, *done, *block;
  guint n_left = MAX_UNDONE;

  _tarn_assert_locked (&pool->lock);
  if (store->recorded.searched_next == NULL && store->has_done)
    {
      store->recorded.searched_next = store->recorded.oldest;
      store->has_done = FALSE;
    }
  done = search_on (pool, &n_left);
  while ((block = get_oldest (ready, done)) != NULL && pool->stats.held_bytes > keep_bytes
         && _tarn_block_get_age (block)->since <= since)
    {
      TarnBlock *newer = _tarn_block_get_age (block)->newer;

      /* If the search of recorded blocks stopped at this block, take () makes it continue at the
       * next newer one. */
      take (pool, block, end);
      if (block == ready)
        ready = newer;
      else
        done = search_on (pool, &n_left);
    }
}

/* Takes cached blocks out of the pool, the oldest block first, and returns them as a list.  Takes
 * only blocks that the pool can return to upstream without a wait.  Stops when the pool caches at
 * most @keep_bytes bytes, or when none of these blocks is left. */
TarnBlock *
_tarn_pool_retire_idle (TarnPool *pool, gsize keep_bytes)
{
  TarnBlock *blocks = NULL;
  TarnBlock **end = &blocks;

  take_oldest (pool, G_MAXINT64, keep_bytes, &end);
  return blocks;
}

/* Takes all cached blocks of a queue's share (blocks that only this queue uses) out of the pool,
 * and appends them to a list.  @share is the table with these blocks, or NULL if the queue has no
 * table. */
static void
take_share (TarnPool *pool, const TarnBins *share, TarnBlock ***end)
{
  GHashTableIter iter;
  gpointer item;

  _tarn_assert_locked (&pool->lock);
  if (share == NULL)
    return;
  g_hash_table_iter_init (&iter, share->table);
  while (g_hash_table_iter_next (&iter, NULL, &item))
    for (TarnBin *bin = item; bin->top != NULL;)
      retire (pool, _tarn_pool_pop_block (pool, bin, &bin->top), end);
}

/* Takes all cached blocks of a queue's share (blocks that only this queue uses) out of the pool.
 * Returns them as a list, so that the caller returns their memory to upstream.  @share is the
 * table with these blocks, or NULL if the queue has no table. */
TarnBlock *
_tarn_pool_take_share (TarnPool *pool, const TarnBins *share)
{
  TarnBlock *blocks = NULL;
  TarnBlock **end = &blocks;

  take_share (pool, share, &end);
  return blocks;
}

/* Takes two kinds of cached blocks out of the pool: recorded blocks whose events have completed, so
 * that no command uses them any more; and all blocks of a queue's share (which only this queue
 * uses).  Returns a list of the blocks, so that the caller returns their memory to upstream.
 * @share is the table with the queue's share, or NULL if the queue has no table. */
TarnBlock *
_tarn_pool_take_sparable (TarnPool *pool, const TarnBins *share)
{
  TarnStore *store = &pool->store;
  gboolean is_found = store->has_done || store->recorded.searched_next != NULL;
  TarnBlock *blocks = NULL, *newer;
  TarnBlock **end = &blocks;

  for (TarnBlock *done = is_found ? store->recorded.oldest : NULL;
       (done = find_done (pool, done)) != NULL; done = newer)
    {
      newer = _tarn_block_get_age (done)->newer;
      take (pool, done, &end);
    }
  store->recorded.searched_next = NULL;
  store->has_done = FALSE;
  take_share (pool, share, &end);
  return blocks;
}

/* Returns the most bytes that the pool may hold in its bins, thread caches and transfer bins
 * (blocks on their way between threads). */
static gsize
get_bound (const TarnPool *pool)
{
  return pool->policy.hold_bytes != 0
             ? pool->policy.hold_bytes
             : MAX (MIN_HOLD_BYTES, _tarn_pool_get_managed (pool) / HOLD_SHARE);
}

/* Returns the most bytes that the pool's own bins may hold.  This is the bound on held bytes, less
 * the most bytes in transfer bins (for blocks that threads hand over).  If the program has set the
 * bound, the function also subtracts the bytes for which thread caches have capacity. */
gsize
_tarn_pool_get_room (const TarnPool *pool)
{
  gsize bound = get_bound (pool);

  if (bound == G_MAXSIZE)
    return bound;
  bound = _tarn_subtract (bound, pool->transfers.max_bytes);
  return pool->policy.hold_bytes != 0 ? _tarn_subtract (bound, pool->caches.room_bytes) : bound;
}

/* Returns the number of bytes by which the capacity of thread caches may grow.  This is the number
 * of bytes that the pool's own bins may hold, less the bytes of held blocks that the pool can
 * return to upstream only after a wait.  Held blocks that need no wait (TarnStore.ready) are not
 * subtracted, because the pool returns them when threads fill the new capacity. */
gsize
_tarn_pool_get_room_for_caches (const TarnPool *pool)
{
  return _tarn_subtract (_tarn_pool_get_room (pool),
                         pool->stats.held_bytes - pool->store.ready.bytes);
}

/* Returns TRUE if the pool's bins hold more bytes than they may. */
gboolean
_tarn_pool_has_excess (const TarnPool *pool)
{
  return pool->stats.held_bytes > _tarn_pool_get_room (pool);
}

/* Returns TRUE if the pool returns blocks to upstream after it has held them for a long time.  A
 * pool over a heap does so, if the program has set no bound on held bytes. */
static gboolean
is_to_expire (const TarnPool *pool)
{
  return pool->policy.hold_bytes == 0;
}

/* Returns TRUE if a block has been in its bin for TARN_USUAL_IDLE_TIME. */
static gboolean
is_expired (const TarnBlock *block, gint64 now)
{
  return now - _tarn_block_get_age (block)->since >= TARN_USUAL_IDLE_TIME;
}

/* Returns TRUE if the pool should ask the driver which recorded blocks' events have completed, so
 * that it can return these blocks to upstream.  It should if the bins hold more bytes than they
 * may, or if the pool has held the oldest recorded block for a long time. */
gboolean
_tarn_pool_needs_recorded (const TarnPool *pool)
{
  const TarnBlock *oldest = pool->store.recorded.oldest;

  return oldest != NULL
         && (_tarn_pool_has_excess (pool)
             || (is_to_expire (pool) && is_expired (oldest, _tarn_clock_now ())));
}

/* Removes from the pool the blocks that it has held for a long time, and appends them to a list, so
 * that the caller returns their memory to the heap.  While the pool holds such a block, nobody else
 * can use its memory.
 *
 * Also moves the blocks in thread caches to the bins, where their age counts.  If they stay in the
 * bins for a long time, a later call removes them.
 *
 * Lets sizes share bins again, if memory has not run out for some time.
 *
 * Does nothing if less than TARN_USUAL_IDLE_TIME / TARN_LOOKS has passed since the function last
 * looked for such blocks. */
static void
take_expired (TarnPool *pool, TarnBlock ***end)
{
  gint64 now = _tarn_clock_now ();

  if (now < pool->store.look_at)
    return;
  pool->store.look_at = now + TARN_USUAL_IDLE_TIME / TARN_LOOKS;
  take_oldest (pool, now - TARN_USUAL_IDLE_TIME, 0, end);
  _tarn_pool_flush (pool);
  _tarn_pool_forget_short (pool, now);
}

/* Removes blocks from the pool: those that it has held for a long time, and also the oldest ones if
 * the bins hold more bytes than they may.  Returns these blocks as a list, so that the caller
 * returns their memory to upstream.  Returns NULL if there are none. */
TarnBlock *
_tarn_pool_take_excess (TarnPool *pool)
{
  TarnBlock *blocks = NULL;
  TarnBlock **end = &blocks;
  gsize room;

  _tarn_assert_locked (&pool->lock);
  if (is_to_expire (pool))
    take_expired (pool, &end);
  room = _tarn_pool_get_room (pool);
  /* Takes blocks until the bins hold an eighth less than they may, so that not every free has to
   * return a block. */
  if (pool->stats.held_bytes > room)
    take_oldest (pool, G_MAXINT64, room - room / 8, &end);
  return blocks;
}

/* Removes blocks from the pool: those that it has held for a long time, and also the oldest ones if
 * the bins hold more bytes than they may.  Returns a list of these blocks, followed by the blocks
 * of the list @blocks, which the caller has already taken out of the pool. */
TarnBlock *
_tarn_pool_take_excess_after (TarnPool *pool, TarnBlock *blocks)
{
  return _tarn_blocks_concat (_tarn_pool_take_excess (pool), blocks);
}

/* Takes blocks out of the pool: first all stuck blocks, which an earlier call could not return to
 * upstream; then cached blocks, the largest first, until these have @wanted bytes or none is left.
 * Returns all of them as a list, so that the caller returns their memory to upstream. */
TarnBlock *
_tarn_pool_take_largest (TarnPool *pool, gsize wanted)
{
  TarnBlock *stuck = _tarn_pool_take_stuck (pool), *blocks = NULL, *block;
  TarnBlock **end = &blocks;
  gsize taken = 0;
  TarnBin *bin;

  _tarn_assert_locked (&pool->lock);
  for (; taken < wanted && (bin = _tarn_largest_get (&pool->store.largest)) != NULL;
       taken += block->alloc_size)
    {
      block = _tarn_pool_pop_block (pool, bin, &bin->top);
      retire (pool, block, &end);
    }
  return _tarn_blocks_concat (stuck, blocks);
}
