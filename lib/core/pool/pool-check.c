/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Checks the invariants of a pool (pool-private.h).
 *
 * The share of a block (TarnBlock.share) tells which commands may still use the block:
 *
 *     NULL             No queue uses the block. Its bin is an idle bin.
 *     a queue's handle Only commands of this queue may use the block. The bin is a queue's bin.
 *     TARN_NO_SHARE    Several queues may use the block, or its use has an event. The bin is a
 *                      recorded bin.
 *
 * A queue's bin is wanted (TarnBin.is_wanted) if a request of another queue has asked for an event,
 * which tells when the queue no longer uses the bin's blocks. */

#include "base/check-private.h"
#include "pool/cache-private.h"

#define FORMAT G_GSIZE_FORMAT

/* The state of one check of a pool.  The numbers are sums over the pool's blocks.  The pool's
 * counters must be equal to these sums. */
typedef struct
{
  TarnPool *pool;
  gsize held_blocks, active_blocks, held_bytes, active_bytes, managed_bytes, binned_blocks;
  gsize listed_blocks, listed_bytes; /* sums over the blocks that must be in lists by age */
  gchar *violation;                  /* the first violation found; NULL if there is none */
} Walk;

/* Checks that a counter of the pool, @counter, equals @counted, the value computed from the
 * blocks. */
static void
demand_equal (Walk *walk, const gchar *name, gsize counted, gsize counter)
{
  TARN_DEMAND (walk, counted == counter, "%s is %" FORMAT ", the blocks say %" FORMAT, name,
               counter, counted);
}

/* Checks that each block in the pool's chunks belongs to the pool.  Adds up the numbers and bytes
 * of these blocks in @walk, so that other checks can compare the sums with the pool's counters. */
static void
sum_blocks (Walk *walk)
{
  TARN_FOR_EACH_BLOCK (block, &walk->pool->blocks.chunks)
    {
      gboolean held = block->state == TARN_BLOCK_HELD;

      TARN_DEMAND (walk,
                   block->source == &walk->pool->base
                       && (held || _tarn_block_state_is_in_use (block->state)),
                   "block %p is none of the pool's", (void *) block);
      TARN_DEMAND (walk,
                   held
                       || (block->size <= block->alloc_size
                           && block->share == _tarn_block_get_share (block)),
                   "block %p of %" FORMAT " bytes for %" FORMAT " is not what it should be",
                   (void *) block, block->alloc_size, block->size);
      *(held ? &walk->held_blocks : &walk->active_blocks) += 1;
      *(held ? &walk->held_bytes : &walk->active_bytes) += held ? block->alloc_size : block->size;
      walk->managed_bytes += block->alloc_size;
    }
}

/* Returns TRUE if a batch has the number of blocks that it should have: the chain from @top, the
 * first block of the batch, to batch->last has batch->n blocks. */
static gboolean
is_batch (const TarnBlock *top, const TarnBatch *batch)
{
  const TarnBlock *block = top;
  gsize n = 1;

  while (block != NULL && block != batch->last)
    {
      block = block->below;
      n++;
    }
  return block != NULL && n == batch->n;
}

/* Checks the batches of a bin, from the topmost batch down. */
static void
check_batches (Walk *walk, const TarnBin *bin)
{
  const TarnBlock *top = bin->top;

  for (gsize i = bin->n_batches; i-- > 0;)
    {
      const TarnBatch *batch = &bin->batches[i];

      TARN_DEMAND (walk, is_batch (top, batch),
                   "a batch of %" FORMAT " blocks is not what its bin has", batch->n);
      if (walk->violation != NULL)
        return;
      top = batch->last->below;
    }
}

/* Returns TRUE if a block is cached and belongs in a bin with the number @number, and if
 * _tarn_block_get_share () returns @share for the block. */
static gboolean
belongs_in_bin (const TarnBlock *block, guint32 number, gconstpointer share)
{
  return block->state == TARN_BLOCK_HELD && block->bin == number && !block->exact
         && _tarn_block_get_share (block) == share;
}

static gboolean
has_size_of (const TarnPool *pool, const TarnBlock *block, guint32 number)
{
  if (pool->heap != NULL)
    return _tarn_bin_alloc_size (number, pool->leading_bits) == block->alloc_size;
  return _tarn_bin_number (block->alloc_size, pool->leading_bits) == number;
}

/* Checks the blocks of a bin.  Each block must have the size of the bin, and must belong in a bin
 * of the share @share (_tarn_block_get_share ()). */
static void
check_bin (Walk *walk, guint32 number, const TarnBin *bin, gconstpointer share)
{
  gsize length = 0;

  for (TarnBlock *block = bin->top; walk->violation == NULL && block != NULL;
       block = block->below, length++)
    TARN_DEMAND (walk,
                 belongs_in_bin (block, number, share) && has_size_of (walk->pool, block, number),
                 "block %p of %" FORMAT " bytes is not one of bin %u", (void *) block,
                 block->alloc_size, number);
  demand_equal (walk, "a bin's length", length, bin->length);
  check_batches (walk, bin);
}

/* Counts the blocks in a list by age.  Returns 0 if a block's link to the next older or newer block
 * of the list, or to the block above it in its bin, is wrong. */
static gsize
count_listed (const TarnAges *ages)
{
  const TarnBlock *older = NULL;
  gsize n = 0;

  for (const TarnBlock *block = ages->oldest; block != NULL;
       older = block, block = _tarn_block_get_age (block)->newer, n++)
    {
      const TarnAge *age = _tarn_block_get_age (block);

      if (age->older != older || (age->above != NULL && age->above->below != block))
        return 0;
    }
  return ages->newest == older ? n : 0;
}

/* Checks the bins of a table, and adds up their lengths.  If the table's blocks are in lists by
 * age, also adds up the number and the bytes of these blocks, to compare them with the lists
 * later.  @share: the share to which each block must belong (_tarn_block_get_share ()).  Does
 * nothing if @bins is NULL. */
static void
check_table (Walk *walk, const TarnBins *bins, gconstpointer share)
{
  GHashTableIter iter;
  gpointer key, value;
  gsize n_empty = 0;

  if (bins == NULL)
    return;
  TARN_DEMAND (walk,
               bins->latest
                   == g_hash_table_lookup (bins->table, GUINT_TO_POINTER (bins->latest_number)),
               "bin %u is not what was looked up last", bins->latest_number);
  g_hash_table_iter_init (&iter, bins->table);
  while (walk->violation == NULL && g_hash_table_iter_next (&iter, &key, &value))
    {
      const TarnBin *bin = value;

      check_bin (walk, GPOINTER_TO_UINT (key), bin, share);
      walk->binned_blocks += bin->length;
      n_empty += bin->length == 0;
      TARN_DEMAND (walk, bin->length == 0 || bin->place > 0, "bin %u is not among the largest",
                   bin->number);
      if (bins->ages == NULL)
        continue;
      walk->listed_blocks += bin->length;
      walk->listed_bytes
          += bin->length * _tarn_bin_alloc_size (bin->number, walk->pool->leading_bits);
    }
  demand_equal (walk, "a table's empty bins", n_empty, bins->n_empty);
}

/* Checks TarnStore.n_recorded, the numbers of blocks in recorded bins.  (Other queues can reuse
 * blocks of these bins after an event.) */
static void
check_recorded (Walk *walk)
{
  const TarnStore *store = &walk->pool->store;
  guint n_recorded[TARN_RECORDED_COUNTS] = { 0 };
  GHashTableIter iter;
  gpointer bin;

  g_hash_table_iter_init (&iter, store->recorded_bins->table);
  while (g_hash_table_iter_next (&iter, NULL, &bin))
    n_recorded[((const TarnBin *) bin)->number % TARN_RECORDED_COUNTS]
        += (guint) ((const TarnBin *) bin)->length;
  for (guint i = 0; i < TARN_RECORDED_COUNTS; i++)
    demand_equal (walk, "n_recorded", n_recorded[i], store->n_recorded[i]);
}

/* Checks all bins of the pool. */
static void
check_bins (Walk *walk)
{
  GHashTableIter iter;
  gpointer handle, queue;

  check_table (walk, walk->pool->store.idle_bins, NULL);
  check_table (walk, walk->pool->store.recorded_bins, TARN_NO_SHARE);
  g_hash_table_iter_init (&iter, walk->pool->queues.table);
  while (g_hash_table_iter_next (&iter, &handle, &queue))
    check_table (walk, ((TarnQueue *) queue)->bins, handle);
  check_recorded (walk);
  TARN_DEMAND (walk, _tarn_largest_is_ordered (&walk->pool->store.largest),
               "the largest bins are not in order");
}

/* Checks the number of stuck blocks, and the lists by age.  A stuck block is a cached block that is
 * in no bin, and that the pool could not return to upstream. */
static void
check_lists (Walk *walk)
{
  const TarnStore *store = &walk->pool->store;
  gsize n_stuck = 0;

  for (const TarnBlock *block = store->stuck; block != NULL; block = block->below)
    n_stuck++;
  walk->binned_blocks += n_stuck;
  demand_equal (walk, "n_stuck", n_stuck, store->n_stuck);
  demand_equal (walk, "blocks by age", walk->listed_blocks,
                count_listed (&store->ready) + count_listed (&store->shares)
                    + count_listed (&store->recorded));
  demand_equal (walk, "bytes by age", walk->listed_bytes,
                store->ready.bytes + store->shares.bytes + store->recorded.bytes);
}

/* Counts the bins in the list of_all->unasked, except bins that should not be in this list.  It
 * should have only queues' bins with the number @number that have blocks, that are not wanted, and
 * whose queues have references. */
static gsize
count_unasked (const TarnBin *of_all, guint32 number)
{
  gsize n = 0;

  for (const TarnBin *bin = of_all->unasked; bin != NULL; bin = bin->next)
    n += bin->number == number && !bin->is_wanted && bin->length > 0 && bin->queue->n_refs > 0;
  return n;
}

/* Counts the queues' bins that have the number @number and have blocks.  Sets *n_unasked to the
 * number of these bins whose is_wanted is FALSE. */
static gsize
count_shares (const TarnPool *pool, guint32 number, gsize *n_unasked)
{
  GHashTableIter iter;
  gpointer queue;
  gsize n = 0;

  *n_unasked = 0;
  g_hash_table_iter_init (&iter, pool->queues.table);
  while (g_hash_table_iter_next (&iter, NULL, &queue))
    {
      const TarnBin *bin = _tarn_bins_get (((TarnQueue *) queue)->bins, number);

      if (bin == NULL || bin->length == 0)
        continue;
      n++;
      *n_unasked += !bin->is_wanted;
    }
  return n;
}

/* Checks the fields n_shares and unasked of each recorded bin (TarnBin).  These fields describe the
 * queues' bins of the same size.  Does nothing if the pool must not move blocks between queues. */
static void
check_shares (Walk *walk)
{
  GHashTableIter iter;
  gpointer key, value;

  if (!walk->pool->policy.moves_blocks)
    return;
  g_hash_table_iter_init (&iter, walk->pool->store.recorded_bins->table);
  while (walk->violation == NULL && g_hash_table_iter_next (&iter, &key, &value))
    {
      const TarnBin *of_all = value;
      guint32 number = GPOINTER_TO_UINT (key);
      gsize n_unasked, n = count_shares (walk->pool, number, &n_unasked);

      demand_equal (walk, "n_shares", n, of_all->n_shares);
      demand_equal (walk, "unasked", n_unasked, count_unasked (of_all, number));
    }
}

/* Checks the table of queues.  Also checks that the pool counts a reference to each queue that a
 * block uses. */
static void
check_uses (Walk *walk)
{
  const TarnQueues *queues = &walk->pool->queues;
  GHashTableIter iter;
  gpointer queue;
  gsize n_unused = 0, n_unrecorded = 0;

  g_hash_table_iter_init (&iter, queues->table);
  while (g_hash_table_iter_next (&iter, NULL, &queue))
    {
      n_unused += ((TarnQueue *) queue)->n_refs == 0;
      n_unrecorded += (gsize) ((TarnQueue *) queue)->has_unrecorded;
      TARN_DEMAND (walk, ((TarnQueue *) queue)->is_known, "queue %p is in the table, and not known",
                   queue);
    }
  demand_equal (walk, "n_unused_queues", n_unused, queues->n_unused);
  demand_equal (walk, "unrecorded_queues", n_unrecorded, queues->unrecorded.length);
  TARN_FOR_EACH_BLOCK (block, &walk->pool->blocks.chunks)
    for (guint i = 0; i < block->n_uses; i++)
      TARN_DEMAND (walk, block->uses[i].queue->n_refs > 0, "what uses block %p is wrong",
                   (const void *) block);
}

/* Checks the pool's limit.  TarnReturning.bytes must be the sum of TarnGiveBack.unreserved_bytes
 * over the calls that are returning blocks to upstream.  The ceiling (TarnLimit.ceiling_bytes) must
 * not be below the sum of four numbers: the managed bytes, the bytes that are reserved for
 * requests, the bytes that are being returned, and the bytes that the program has charged.
 * Subtracts the four numbers from the ceiling one after another, because their sum may overflow. */
static void
check_limit (Walk *walk)
{
  const TarnPool *pool = walk->pool;
  gsize limit = pool->limit.bytes != 0 ? pool->limit.bytes : G_MAXSIZE;
  gsize left = pool->limit.ceiling_bytes;
  gsize parts[] = { pool->stats.managed_bytes, pool->limit.reserved_bytes, pool->returning.bytes,
                    pool->limit.charged_bytes };
  gsize returning_bytes = 0;

  for (const TarnTicket *call = pool->returning.calls.oldest; call != NULL; call = call->next)
    returning_bytes += ((const TarnGiveBack *) call)->unreserved_bytes;
  demand_equal (walk, "returning_bytes", returning_bytes, pool->returning.bytes);
  TARN_DEMAND (walk, pool->limit.ceiling_bytes >= limit,
               "the limit, %" FORMAT ", is above the ceiling, %" FORMAT, limit,
               pool->limit.ceiling_bytes);
  for (guint i = 0; i < G_N_ELEMENTS (parts); left -= parts[i++])
    TARN_DEMAND (walk, parts[i] <= left,
                 "%" FORMAT " managed, %" FORMAT " reserved, %" FORMAT " returning, %" FORMAT
                 " charged bytes are above the ceiling, %" FORMAT,
                 parts[0], parts[1], parts[2], parts[3], pool->limit.ceiling_bytes);
}

/* Checks the bin with index @i in a thread's cache. */
static void
check_cache_bin (Walk *walk, const TarnCache *cache, guint i)
{
  const TarnCacheBin *bin = &cache->bins[i];
  gsize length = 0;

  for (TarnBlock *block = bin->top; walk->violation == NULL && block != NULL;
       block = block->below, length++)
    TARN_DEMAND (walk, belongs_in_bin (block, bin->number, bin->handle),
                 "block %p does not belong in a thread's bin %u", (void *) block, bin->number);
  demand_equal (walk, "the length of a thread's bin", length, bin->length);
  TARN_DEMAND (walk,
               length <= bin->capacity && bin->capacity <= walk->pool->policy.thread_cache_blocks,
               "a thread keeps %" FORMAT " blocks of a bin", length);
  if (bin->capacity == 0)
    return;
  TARN_DEMAND (walk, _tarn_cache_find_bin ((TarnCache *) cache, bin->number, bin->handle) == bin,
               "a thread's bin %u is not where it is looked for", bin->number);
  TARN_DEMAND (walk, !_tarn_pool_records_frees (walk->pool, bin->number),
               "a thread keeps bin %u, which is recorded", bin->number);
  TARN_DEMAND (walk, (cache->has_room[i / 64] >> i % 64 & 1) != 0,
               "a thread's bin %u is not known to have blocks", bin->number);
}

/* Returns TRUE if a bin of a thread's cache has no blocks and a capacity of 0.  Most of the
 * TARN_CACHE_BINS bins of a cache are such unused bins. */
static gboolean
is_unused (const TarnCacheBin *bin)
{
  return bin->top == NULL && bin->length == 0 && bin->capacity == 0;
}

/* Checks a thread's cache.  The caller has stopped the pool's read sections. */
static void
check_cache (Walk *walk, const TarnCache *cache)
{
  const TarnPool *pool = walk->pool;
  gsize reserved_bytes = 0;

  for (guint i = 0; walk->violation == NULL && i < TARN_CACHE_BINS; i++)
    {
      const TarnCacheBin *bin = &cache->bins[i];

      if (is_unused (bin))
        continue;
      check_cache_bin (walk, cache, i);
      walk->binned_blocks += bin->length;
      if (bin->capacity > 0)
        reserved_bytes += bin->capacity * _tarn_bin_alloc_size (bin->number, pool->leading_bits);
    }
  TARN_DEMAND (walk, reserved_bytes <= pool->policy.thread_cache_bytes,
               "a thread may keep %" FORMAT " bytes", reserved_bytes);
  demand_equal (walk, "what a thread may keep", reserved_bytes, cache->reserved_bytes);
}

/* Checks TarnCache.kept: large blocks that the thread allocates and frees again and again.  The
 * caller has stopped the pool's read sections. */
static void
check_kept (Walk *walk, const TarnCache *cache)
{
  for (guint i = 0; i < TARN_CACHE_KEPT; i++)
    {
      const TarnBlock *kept = cache->kept[i];

      if (kept == NULL)
        continue;
      walk->binned_blocks++;
      TARN_DEMAND (walk,
                   kept->state == TARN_BLOCK_HELD && kept->is_own
                       && _tarn_cache_get_kept (cache, kept->share) == kept
                       && _tarn_pool_find_met (cache->pool, kept->share) != NULL,
                   "block %p is kept wrongly", (const void *) kept);
    }
}

/* Checks the table of queues whose arenas (memory of a heap for one queue) the pool may use. */
static void
check_met (Walk *walk)
{
  const TarnPool *pool = walk->pool;
  guint n_met = 0;

  for (guint i = 0; pool->met.places != NULL && i <= pool->met.mask; i++)
    {
      const TarnMetQueue *met = &pool->met.places[i];

      if (met->ref.queue == NULL)
        continue;
      n_met++;
      TARN_DEMAND (walk,
                   _tarn_pool_find_met (pool, met->handle) == met && !met->is_going
                       && (met->handle == NULL) == (met->ref.number == 0)
                       && (met->handle == NULL) == (met->queue == NULL),
                   "queue %p stands wrongly in the table", met->handle);
    }
  TARN_DEMAND (walk, n_met == 0 || n_met <= pool->met.mask,
               "the table of queues has no free slot for %u queues", n_met + 1);
  demand_equal (walk, "n_met", n_met, pool->met.n);
}

/* Checks the caches of all threads. */
static void
check_caches (Walk *walk)
{
  const TarnCaches *caches = &walk->pool->caches;
  gsize room_bytes = 0, n_caches = 0, n_abandoned = 0;

  for (const TarnCache *cache = caches->first; cache != NULL; cache = cache->next, n_caches++)
    {
      room_bytes += cache->reserved_bytes;
      n_abandoned += cache->is_abandoned;
    }
  demand_equal (walk, "room_bytes", room_bytes, caches->room_bytes);
  demand_equal (walk, "n_caches", n_caches, caches->n);
  demand_equal (walk, "n_abandoned", n_abandoned, caches->n_abandoned);
  for (TarnCache *cache = caches->first; walk->violation == NULL && cache != NULL;
       cache = cache->next)
    {
      check_cache (walk, cache);
      check_kept (walk, cache);
    }
}

/* Returns TRUE if each block of a batch on its way between threads belongs in the batch's transfer
 * bin, and the batch has the right length. */
static gboolean
is_transfer (const TarnPool *pool, const TarnTransferBin *bin, const TarnTransfer *transfer)
{
  guint n = 0;

  for (const TarnBlock *block = transfer->first; block != NULL; block = block->below, n++)
    if (!belongs_in_bin (block, bin->number, bin->handle)
        || (block->below == NULL && block != transfer->last))
      return FALSE;
  return n == pool->policy.transfer_blocks;
}

/* Checks the transfer bins, with blocks on their way between threads.  The caller has stopped the
 * pool's read sections. */
static void
check_transfers (Walk *walk)
{
  const TarnPool *pool = walk->pool;

  for (guint i = 0; i < TARN_TRANSFER_BINS; i++)
    {
      const TarnTransferBin *bin = &pool->transfers.bins[i];

      for (guint batch = 0; batch < bin->n_batches; batch++)
        TARN_DEMAND (walk,
                     is_transfer (pool, bin, &bin->batches[batch])
                         && !_tarn_pool_records_frees (pool, bin->number),
                     "a batch of bin %u was handed over wrongly", bin->number);
      walk->binned_blocks += bin->n_batches * (gsize) pool->policy.transfer_blocks;
    }
}

/* Checks the blocks in TarnBlocks.aside, which the program has freed although it still retains
 * their memory, and the blocks in TarnBlocks.shared, which have several references. */
static void
check_handles (Walk *walk)
{
  const TarnBlocks *blocks = &walk->pool->blocks;
  guint n = blocks->aside != NULL ? blocks->aside->len : 0;
  GHashTableIter iter;
  gpointer block;

  demand_equal (walk, "n_aside", blocks->n_aside, n);
  for (guint i = 0; i < n; i++)
    TARN_DEMAND (walk,
                 ((const TarnBlock *) g_ptr_array_index (blocks->aside, i))->state
                     == TARN_BLOCK_ENDING,
                 "a block that was set aside is not ending");
  if (blocks->shared == NULL)
    return;
  g_hash_table_iter_init (&iter, blocks->shared);
  while (g_hash_table_iter_next (&iter, &block, NULL))
    TARN_DEMAND (walk, ((const TarnBlock *) block)->state == TARN_BLOCK_SHARED,
                 "block %p has several references, and is not shared", block);
}

/* Compares the pool's counters with the sums that the earlier checks have computed, and with each
 * other. */
static void
check_counters (Walk *walk)
{
  TarnPoolStats stats;

  _tarn_pool_sum (walk->pool, &stats);
  demand_equal (walk, "held_blocks", walk->held_blocks, stats.held_blocks);
  demand_equal (walk, "held_blocks", walk->binned_blocks, stats.held_blocks);
  demand_equal (walk, "active_blocks", walk->active_blocks, stats.active_blocks);
  demand_equal (walk, "held_bytes", walk->held_bytes, stats.held_bytes);
  demand_equal (walk, "active_bytes", walk->active_bytes, stats.active_bytes);
  demand_equal (walk, "managed_bytes", walk->managed_bytes, stats.managed_bytes);
  TARN_DEMAND (walk, !walk->pool->store.has_ended || stats.held_blocks <= walk->pool->store.n_stuck,
               "a pool that does not hold blocks holds some");
  TARN_DEMAND (walk,
               stats.peak_managed_bytes >= stats.managed_bytes
                   && stats.peak_active_bytes >= stats.active_bytes,
               "a peak is below what it is the peak of");
  TARN_DEMAND (
      walk, walk->pool->n_after_driver_calls <= MIN (stats.hits + stats.misses, stats.driver_calls),
      "more requests called the driver than were served, or than calls were");
}

/* The checks of a pool, in the order in which find_violation () calls them.  A check may rely on
 * the invariants that earlier checks have checked. */
static void (*const checks[]) (Walk *walk)
    = { sum_blocks,     check_bins, check_lists,  check_met,   check_caches, check_transfers,
        check_counters, check_uses, check_shares, check_limit, check_handles };

/* Checks every invariant of the pool.  Stops the pool's read sections meanwhile.  Returns a text
 * about the first invariant that does not hold, which the caller frees, or NULL if all hold.  The
 * caller holds the pool's lock. */
static gchar *
find_violation (TarnPool *pool)
{
  gboolean was_open = _tarn_pool_close (pool);
  Walk walk = { .pool = pool };

  _tarn_assert_locked (&pool->lock);
  if (was_open)
    _tarn_pool_count_closed (pool);
  g_assert (_tarn_door_is_closed (&pool->door));
  for (guint i = 0; walk.violation == NULL && i < G_N_ELEMENTS (checks); i++)
    checks[i](&walk);
  TARN_DEMAND (&walk, !was_open || pool->room.n_waiting == 0,
               "the door is open, although somebody waits for memory");
  if (was_open)
    _tarn_pool_open_door (pool);
  return walk.violation;
}

/* Checks every invariant of a pool.  Returns NULL if all hold, else a text about one that does not
 * hold, which the caller frees.  Any thread may call this at any time.  The time that it takes is
 * proportional to the number of blocks. */
gchar *
_tarn_pool_check (TarnPool *pool)
{
  TARN_LOCKED (&pool->lock);

  return find_violation (pool);
}

/* Checks every invariant of the pool.  Ends the program with a message if one does not hold.  The
 * caller holds the pool's lock. */
void
_tarn_pool_assert_valid (TarnPool *pool)
{
  g_autofree gchar *found = find_violation (pool);

  if (found != NULL)
    g_error ("%s: %s", pool->base.label, found);
}
