/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A pool's bins, which are free lists of blocks of one size, and the counters that change when
 * blocks come to the pool or leave it.
 *
 * A pool has three kinds of tables of bins (store-private.h):
 * - one table for the blocks that no queue uses
 * - a table for each in-order queue, for the blocks that only this queue uses (the queue's share)
 * - one table of recorded bins, for all other blocks; usually events tell when queues no longer use
 *   these blocks
 *
 * The caller of each function here holds the pool's lock. */

#include "pool/cache-private.h"
#include "record/record-private.h"

/* A table keeps its empty bins while it has fewer than MANY_EMPTY of them, because the next block
 * of such a size would need the bin again.  When it has more empty bins, the table frees them. */
#define MANY_EMPTY 256

/* Functions that make tables of bins, find bins in them, and note a bin's batches */

static void
bin_free (gpointer data)
{
  TarnBin *bin = data;

  g_assert (bin->length == 0 && bin->link == NULL && bin->n_shares == 0);
  bin->bins->n_empty--;
  _tarn_largest_remove (bin->bins->largest, bin);
  g_free (bin->batches);
  g_free (bin);
}

/* Makes an empty table of bins.  @queue is the queue whose share (the blocks that only this queue
 * uses) is in the table, or NULL if @kind is not TARN_BINS_OF_QUEUE.  @ages is the list by age to
 * which blocks in these bins are added, or NULL if there is no such list. */
TarnBins *
_tarn_bins_new (TarnStore *store, TarnBinsKind kind, TarnQueue *queue, TarnAges *ages)
{
  TarnBins *bins = g_new0 (TarnBins, 1);

  bins->kind = kind;
  bins->largest = &store->largest;
  bins->queue = queue;
  bins->ages = ages;
  bins->many_empty = MANY_EMPTY;
  bins->table = g_hash_table_new_full (NULL, NULL, NULL, bin_free);
  return bins;
}

/* Frees a table of bins, which may be NULL.  The caller makes sure that the bins are empty. */
void
_tarn_bins_free (TarnBins *bins)
{
  if (bins == NULL)
    return;
  g_hash_table_unref (bins->table);
  g_free (bins);
}

static void
look_up (TarnBins *bins, guint32 number)
{
  bins->latest_number = number;
  bins->latest = g_hash_table_lookup (bins->table, GUINT_TO_POINTER (number));
}

/* Gets a bin by its number.  Returns NULL if the table has no such bin, because no block of this
 * size has come to the table yet, or because the pool freed the empty bin. */
TarnBin *
_tarn_bins_get (TarnBins *bins, guint32 number)
{
  if (bins == NULL)
    return NULL;
  if (bins->latest_number != number)
    look_up (bins, number);
  return bins->latest;
}

/* Returns TRUE if the table has a bin with this number, and if the bin has a block. */
gboolean
_tarn_bins_have (TarnBins *bins, guint32 number)
{
  const TarnBin *bin = _tarn_bins_get (bins, number);

  return bin != NULL && bin->top != NULL;
}

/* Returns TRUE if the pool may free a bin: the bin has no blocks, and its counts n_to_record and
 * n_shares, which are stored nowhere else, are 0. */
static gboolean
bin_is_empty (gpointer number, gpointer bin, gpointer unused)
{
  const TarnBin *of_table = bin;

  (void) number;
  (void) unused;
  return of_table->top == NULL && of_table->n_to_record == 0 && of_table->n_shares == 0;
}

/* Frees each bin of a table that has no blocks, and whose counts n_to_record and n_shares are 0. */
static void
drop_empty (TarnBins *bins)
{
  g_hash_table_foreach_remove (bins->table, bin_is_empty, NULL);
  bins->many_empty = MAX (MANY_EMPTY, 2 * bins->n_empty);
  /* g_hash_table_foreach_remove () may have freed the bin to which bins->latest points. */
  look_up (bins, bins->latest_number);
}

/* Gets a bin by its number.  Makes the bin if the table has none. */
static TarnBin *
ensure_bin (TarnBins *bins, guint32 number)
{
  if (_tarn_bins_get (bins, number) == NULL)
    {
      if (bins->n_empty >= bins->many_empty)
        drop_empty (bins);
      bins->latest_number = number;
      bins->latest = g_new0 (TarnBin, 1);
      bins->n_empty++;
      bins->latest->number = number;
      bins->latest->bins = bins;
      bins->latest->queue = bins->queue;
      g_hash_table_insert (bins->table, GUINT_TO_POINTER (number), bins->latest);
    }
  return bins->latest;
}

/* Gets the table of bins with a queue's share: the blocks that only this queue uses.  If @queue is
 * NULL, gets the table with the blocks that no queue uses.  Returns NULL if the queue has no
 * table. */
TarnBins *
_tarn_pool_get_share (const TarnPool *pool, const TarnQueue *queue)
{
  return queue != NULL ? queue->bins : pool->store.idle_bins;
}

/* Gets the table of bins in which a cached block belongs.  If the block's queue has no table yet,
 * makes one. */
static TarnBins *
ensure_bins_of (TarnPool *pool, const TarnBlock *block)
{
  TarnQueue *queue;

  if (_tarn_block_get_share (block) == TARN_NO_SHARE)
    return pool->store.recorded_bins;
  if (block->n_uses == 0)
    return pool->store.idle_bins;
  queue = block->uses->queue;
  if (queue->bins == NULL)
    queue->bins = _tarn_bins_new (&pool->store, TARN_BINS_OF_QUEUE, queue, pool->store.share_ages);
  return queue->bins;
}

/* Returns TRUE if a free of a block should record an event, because blocks of the block's size are
 * handed over between queues.  @number is the number of the bin for this size. */
gboolean
_tarn_pool_records_frees (const TarnPool *pool, guint32 number)
{
  const TarnBin *bin = _tarn_bins_get (pool->store.recorded_bins, number);

  return bin != NULL && bin->n_to_record > 0;
}

/* Arranges that each of the next @n frees of blocks of one size records an event.  @number is the
 * number of the bin for this size. */
void
_tarn_pool_set_to_record (TarnPool *pool, guint32 number, guint n)
{
  _tarn_assert_locked (&pool->lock);
  ensure_bin (pool->store.recorded_bins, number)->n_to_record = n;
}

/* Gets a bin's newest batch: the topmost blocks, which came to the bin together.  Returns NULL if
 * the topmost blocks are in no batch. */
static TarnBatch *
get_newest_batch (TarnBin *bin)
{
  return bin->n_batches > 0 ? &bin->batches[bin->n_batches - 1] : NULL;
}

/* Adds a batch to a bin's list of batches: @n blocks that came to the bin together.  @last is the
 * lowest of these blocks in the bin. */
static void
add_batch (TarnBin *bin, TarnBlock *last, gsize n)
{
  if (bin->n_batches == bin->max_batches)
    {
      bin->max_batches = 2 * bin->max_batches + 4;
      bin->batches = g_renew (TarnBatch, bin->batches, bin->max_batches);
    }
  bin->batches[bin->n_batches++] = (TarnBatch){ last, n };
}

/* Functions that update the fields n_shares and unasked of a recorded bin (TarnBin).  These fields
 * describe the queues' bins of the same size. */

/* Removes a queue's bin from the list TarnBin.unasked, if the bin is in this list.  The list has
 * the queues' bins of one size that have blocks and are not wanted (_tarn_bin_want ()). */
static void
unlist (TarnBin *bin)
{
  if (bin->link == NULL)
    return;
  *bin->link = bin->next;
  if (bin->next != NULL)
    bin->next->link = bin->link;
  bin->link = NULL;
}

static void
list (TarnBin *bin, TarnBin *of_all)
{
  g_assert (bin->link == NULL && !bin->is_wanted);
  bin->next = of_all->unasked;
  bin->link = &of_all->unasked;
  if (bin->next != NULL)
    bin->next->link = &bin->next;
  of_all->unasked = bin;
}

/* Updates the fields n_shares and unasked of the recorded bin for the size of @bin, a queue's bin.
 * Call this after @bin got its first block or lost its last one.  The field n_shares counts the
 * queues' bins of the size that have blocks.  The list unasked has these bins, except those that
 * are wanted (_tarn_bin_want ()). */
static void
count_share (TarnPool *pool, TarnBin *bin)
{
  TarnBin *of_all = ensure_bin (pool->store.recorded_bins, bin->number);

  if (bin->length == 0)
    {
      of_all->n_shares--;
      unlist (bin);
      return;
    }
  of_all->n_shares++;
  if (!bin->is_wanted)
    list (bin, of_all);
}

/* Marks a queue's bin as wanted: a request of another queue has asked for an event on the bin's
 * queue.  When the event completes, the bin's queue no longer uses the blocks.  Later requests need
 * not ask for this event again. */
void
_tarn_bin_want (TarnBin *bin)
{
  g_assert (bin->queue != NULL);
  bin->is_wanted = TRUE;
  unlist (bin);
}

/* Undoes _tarn_bin_want (), because the request that asked for an event ended without recording it.
 * Requests of other queues can then ask for such an event again. */
void
_tarn_bin_unwant (TarnPool *pool, TarnBin *bin)
{
  _tarn_assert_locked (&pool->lock);
  if (!bin->is_wanted)
    return;
  bin->is_wanted = FALSE;
  if (bin->length > 0)
    list (bin, ensure_bin (pool->store.recorded_bins, bin->number));
}

/* Functions that put blocks into bins, or take blocks out of bins */

/* Updates the number of empty bins in the table that has @bin, and lists @bin among the bins that
 * have blocks.  Call this after @bin got its first block or lost its last one.  If @bin is a
 * queue's bin and the pool may move blocks between queues, also updates the number of queues that
 * have blocks of this size. */
static void
note_change (TarnPool *pool, TarnBin *bin)
{
  if (bin->length > 0)
    {
      bin->bins->n_empty--;
      _tarn_largest_add (bin->bins->largest, bin);
    }
  else
    bin->bins->n_empty++;
  if (bin->queue != NULL && pool->policy.moves_blocks)
    count_share (pool, bin);
}

/* Adds @n to the number of blocks in a bin.  If @n is negative, the blocks have left the bin. */
static void
count_held (TarnPool *pool, TarnBin *bin, gsize alloc_size, gssize n)
{
  gboolean was_empty = bin->length == 0;

  _tarn_assert_locked (&pool->lock);
  g_assert (n >= 0 || bin->length >= (gsize) -n);
  bin->length += (gsize) n;
  if (was_empty != (bin->length == 0))
    note_change (pool, bin);
  if (bin->bins == pool->store.recorded_bins)
    __atomic_add_fetch (&pool->store.n_recorded[bin->number % TARN_RECORDED_COUNTS], (guint) n,
                        __ATOMIC_RELAXED);
  pool->stats.held_blocks += (gsize) n;
  pool->stats.held_bytes += (gsize) n * alloc_size;
}

/* Sets TarnAge.above, which points to the next higher block in the bin, in each block of a chain
 * that the caller has put on top of a bin.  Also sets it in the block below the chain, if there is
 * one.  @last is the lowest block of the chain. */
static void
link_above (const TarnBin *bin, const TarnBlock *last)
{
  TarnBlock *above = NULL;

  for (TarnBlock *block = bin->top; above != last; block = block->below)
    {
      _tarn_block_get_age (block)->above = above;
      above = block;
    }
  if (last->below != NULL)
    _tarn_block_get_age (last->below)->above = above;
}

/* Removes a chain of blocks, from @first down to @last, from the list by age, and updates
 * TarnAge.above of the block below the chain.  The caller also takes the chain out of its bin.
 * @above is the block above the chain, or NULL if the chain is at the top of the bin. */
static void
unlink_chain (const TarnBin *bin, TarnBlock *first, TarnBlock *last, TarnBlock *above)
{
  TarnAges *ages = bin->bins->ages;

  if (ages == NULL)
    return;
  if (last->below != NULL)
    _tarn_block_get_age (last->below)->above = above;
  for (TarnBlock *block = first; block != last; block = block->below)
    _tarn_ages_remove (ages, block);
  _tarn_ages_remove (ages, last);
}

/* Sets TarnStore.has_done if @block, which has just come to @bin, is a recorded block whose events
 * have completed.  The pool may then be able to return recorded blocks to upstream. */
static void
note_recorded (TarnPool *pool, const TarnBin *bin, const TarnBlock *block)
{
  if (bin->bins->ages == &pool->store.recorded && !pool->store.has_done)
    pool->store.has_done = pool->base.klass->is_done (block);
}

/* Puts a chain of blocks, from @first down to @last, on top of a bin.  The caller adds the blocks
 * to the list by age. */
static void
place (TarnPool *pool, TarnBin *bin, TarnBlock *first, TarnBlock *last, gsize n)
{
  last->below = bin->top;
  bin->top = first;
  count_held (pool, bin, first->alloc_size, (gssize) n);
  if (bin->bins->ages == NULL)
    return;
  link_above (bin, last);
  note_recorded (pool, bin, first);
}

/* Puts a chain of blocks, from @first down to @last, on top of a bin, and adds them to the list by
 * age. */
static void
push (TarnPool *pool, TarnBin *bin, TarnBlock *first, TarnBlock *last, gsize n)
{
  place (pool, bin, first, last, n);
  if (bin->bins->ages != NULL)
    _tarn_ages_add (bin->bins->ages, first, last);
}

/* Gets the bin for a single cached block, which the caller then puts on top of the bin.  Clears the
 * bin's list of batches, because only the topmost blocks of a bin may be in batches. */
static TarnBin *
get_bin_for (TarnPool *pool, const TarnBlock *block)
{
  TarnBin *bin = ensure_bin (ensure_bins_of (pool, block), block->bin);

  _tarn_assert_locked (&pool->lock);
  g_assert (block->state == TARN_BLOCK_HELD && !block->exact && !pool->store.has_ended);
  bin->n_batches = 0;
  return bin;
}

/* Adds the blocks in all bins of a table to a list by age.  The caller makes sure that the blocks
 * are not in such a list yet.  @bins may be NULL. */
static void
list_bins_by_age (TarnBins *bins, TarnAges *ages)
{
  GHashTableIter iter;
  gpointer item;

  if (bins == NULL)
    return;
  g_assert (bins->ages == NULL);
  bins->ages = ages;
  g_hash_table_iter_init (&iter, bins->table);
  while (g_hash_table_iter_next (&iter, NULL, &item))
    {
      const TarnBin *bin = item;
      const TarnBlock *last = bin->top;

      if (last == NULL)
        continue;
      while (last->below != NULL)
        last = last->below;
      link_above (bin, last);
      _tarn_ages_add (ages, bin->top, last);
    }
}

/* Makes the pool keep the blocks of all bins in lists by age from now on.  The age of the present
 * blocks counts from now.  The list TarnStore.ready gets the blocks that no queue uses.  The list
 * @recorded gets the blocks in recorded bins.  The list @shares gets the blocks in queues' shares
 * (used by only one queue). */
void
_tarn_pool_list_by_age (TarnPool *pool, TarnAges *recorded, TarnAges *shares)
{
  TarnStore *store = &pool->store;
  GHashTableIter iter;
  gpointer queue;

  store->share_ages = shares;
  list_bins_by_age (store->idle_bins, &store->ready);
  list_bins_by_age (store->recorded_bins, recorded);
  store->has_done = TRUE;
  if (pool->queues.table == NULL) /* a new pool has no table of queues yet */
    return;
  g_hash_table_iter_init (&iter, pool->queues.table);
  while (g_hash_table_iter_next (&iter, NULL, &queue))
    list_bins_by_age (((TarnQueue *) queue)->bins, shares);
}

/* Puts a single held block on top of the bin where it belongs. */
void
_tarn_pool_put_block (TarnPool *pool, TarnBlock *block)
{
  g_assert (!block->is_own);
  push (pool, get_bin_for (pool, block), block, block, 1);
}

/* Puts a single block, which the caller took from another bin, on top of the bin where it belongs.
 * The block's age still counts from the time at which it came to its first bin. */
static void
put_moved (TarnPool *pool, TarnBlock *block)
{
  TarnBin *bin = get_bin_for (pool, block);

  place (pool, bin, block, block, 1);
  if (bin->bins->ages != NULL)
    _tarn_ages_add_back (bin->bins->ages, block);
}

/* Puts a chain of @n held blocks from a thread's cache, as a batch, on top of the bin where the
 * blocks belong.  All blocks of the chain have the same size and queue. */
void
_tarn_pool_put_batch (TarnPool *pool, TarnBlock *first, TarnBlock *last, gsize n)
{
  TarnBin *bin;

  g_assert (n > 0 && first->bin == last->bin && first->share == last->share);
  for (TarnBlock *block = first; block != last; block = block->below)
    _tarn_pool_settle (pool, block);
  _tarn_pool_settle (pool, last);
  bin = ensure_bin (ensure_bins_of (pool, first), first->bin);
  add_batch (bin, last, n);
  push (pool, bin, first, last, n);
}

/* Removes a block from its bin, and returns the block.  @link is the pointer in the bin that points
 * to the block. */
TarnBlock *
_tarn_pool_pop_block (TarnPool *pool, TarnBin *bin, TarnBlock **link)
{
  TarnBatch *batch = get_newest_batch (bin);
  TarnBlock *block = *link;

  _tarn_assert_locked (&pool->lock);
  g_assert (*link != NULL && bin->length > 0);
  if (link != &bin->top)
    bin->n_batches = 0;
  else if (batch != NULL && --batch->n == 0)
    bin->n_batches--;
  if (bin->bins->ages != NULL)
    unlink_chain (bin, block, block, _tarn_block_get_age (block)->above);
  *link = block->below;
  block->below = NULL;
  count_held (pool, bin, block->alloc_size, -1);
  return block;
}

/* Removes a block from its bin.  The block must be in a list by age: only then is TarnAge.above
 * valid, which points to the block above this one in the bin. */
void
_tarn_pool_remove_block (TarnPool *pool, TarnBlock *block)
{
  TarnBin *bin = _tarn_bins_get (ensure_bins_of (pool, block), block->bin);
  TarnBlock *above = _tarn_block_get_age (block)->above;

  _tarn_pool_pop_block (pool, bin, above != NULL ? &above->below : &bin->top);
}

/* Moves each block of a bin to the bin where the block belongs now, which may be the same bin.
 * Call this after a change of the blocks' uses or events.  Keeps the order of the blocks. */
void
_tarn_bin_move (TarnPool *pool, TarnBin *bin)
{
  g_autoptr (GPtrArray) blocks = g_ptr_array_new ();

  _tarn_assert_locked (&pool->lock);
  while (bin->top != NULL)
    g_ptr_array_add (blocks, _tarn_pool_pop_block (pool, bin, &bin->top));
  for (guint i = blocks->len; i-- > 0;)
    put_moved (pool, g_ptr_array_index (blocks, i));
}

/* Moves each block in the bins of a table to the bin where the block belongs now.  Call this after
 * a change of the blocks' uses or events.  @bins may be NULL. */
void
_tarn_bins_move (TarnPool *pool, TarnBins *bins)
{
  GHashTableIter iter;
  gpointer bin;

  if (bins == NULL)
    return;
  g_hash_table_iter_init (&iter, bins->table);
  while (g_hash_table_iter_next (&iter, NULL, &bin))
    _tarn_bin_move (pool, bin);
}

/* Takes blocks from the top of a bin for a thread's cache.  If the newest batch (blocks that came
 * to the bin together) has at most @max blocks, takes the whole batch.  Otherwise takes a single
 * block, if more than @n_taken blocks are in the bin.  @n_taken is the number of blocks that the
 * thread has already taken from the bin, so about half of the blocks stay there.  Appends the
 * blocks to the chain whose end is *end, and updates *end.  Returns the number of blocks taken. */
guint
_tarn_pool_take_for_cache (TarnPool *pool, TarnBin *bin, guint n_taken, guint max, TarnBlock ***end)
{
  TarnBatch *batch = get_newest_batch (bin);
  TarnBlock *first, *last;
  guint n = 1;

  _tarn_assert_locked (&pool->lock);
  if (bin->top == NULL)
    return 0;
  if (batch != NULL && batch->n <= max)
    {
      first = bin->top;
      last = batch->last;
      n = (guint) batch->n;
      bin->n_batches--;
      unlink_chain (bin, first, last, NULL);
      bin->top = last->below;
      count_held (pool, bin, first->alloc_size, -(gssize) n);
    }
  else if (bin->length > n_taken)
    first = last = _tarn_pool_pop_block (pool, bin, &bin->top);
  else
    return 0;
  **end = first;
  *end = &last->below;
  return n;
}

/* Functions that add blocks to the pool, make them active, or remove them from the pool */

/* Makes a block active (in use) for a request of @size bytes, and adds these bytes to the active
 * bytes. */
static void
activate (TarnPool *pool, TarnBlock *block, gsize size)
{
  _tarn_assert_locked (&pool->lock);
  _tarn_block_set_state (block, TARN_BLOCK_ACTIVE);
  /* While the block was cached, an event may have been recorded for a use of the block.  Then the
   * block belongs to no queue's share any more. */
  _tarn_block_update_share (block);
  block->size = size;
  pool->stats.active_bytes += size;
}

/* Takes a block from a bin for a request of @size bytes.  @link is the pointer in the bin that
 * points to the block. */
TarnBlock *
_tarn_pool_take_block (TarnPool *pool, TarnBin *bin, TarnBlock **link, gsize size)
{
  TarnBlock *block = _tarn_pool_pop_block (pool, bin, link);

  activate (pool, block, size);
  block->is_hit = TRUE;
  block->called_driver = FALSE;
  pool->stats.hits++;
  return block;
}

/* Takes the most recently freed block of a bin for a request of @size bytes.  Returns NULL if the
 * bin has no block. */
TarnBlock *
_tarn_pool_take_top (TarnPool *pool, TarnBins *bins, guint32 number, gsize size)
{
  TarnBin *bin = _tarn_bins_get (bins, number);

  _tarn_assert_locked (&pool->lock);
  return bin != NULL && bin->top != NULL ? _tarn_pool_take_block (pool, bin, &bin->top, size)
                                         : NULL;
}

/* Takes a cached block of any queue for a request of @size bytes, from a bin with the given number.
 * Commands on queues may still use the block.  Returns NULL if there is no such block. */
TarnBlock *
_tarn_pool_take_any (TarnPool *pool, guint32 number, gsize size)
{
  TarnBlock *block = _tarn_pool_take_top (pool, pool->store.idle_bins, number, size);
  GHashTableIter iter;
  gpointer queue;

  if (block == NULL)
    block = _tarn_pool_take_top (pool, pool->store.recorded_bins, number, size);
  g_hash_table_iter_init (&iter, pool->queues.table);
  while (block == NULL && g_hash_table_iter_next (&iter, NULL, &queue))
    block = _tarn_pool_take_top (pool, ((TarnQueue *) queue)->bins, number, size);
  return block;
}

/* Adds a block whose memory the upstream allocator has just allocated, and makes it active. */
void
_tarn_pool_add_fresh (TarnPool *pool, TarnBlock *block)
{
  TarnPoolStats *stats = &pool->stats;

  _tarn_assert_locked (&pool->lock);
  /* The pool counted this thread's cache before it asked upstream for memory.  Since then, reclaim
   * functions of the program may have changed the counters of the cache. */
  _tarn_pool_count_own (pool);
  pool->blocks.n++;
  stats->managed_bytes += block->alloc_size;
  _tarn_pool_note_managed_peak (pool);
  activate (pool, block, block->size);
  stats->misses++;
}

/* Subtracts a block from the counts of the pool's blocks, and sets its state to RETIRED, so that
 * the caller can return the block's memory to upstream.  If the block was cached, the caller has
 * already taken it out of its bin. */
void
_tarn_pool_retire (TarnPool *pool, TarnBlock *block)
{
  _tarn_assert_locked (&pool->lock);
  g_assert (!block->is_own || block->state == TARN_BLOCK_ENDING);
  TARN_PROBE (gone, pool->base.id, block, block->alloc_size);
  if (_tarn_records ())
    _tarn_record_numbers (TARN_TRACE_GONE, pool->base.id, GPOINTER_TO_SIZE (block));
  _tarn_block_set_state (block, TARN_BLOCK_RETIRED);
  pool->blocks.n--;
  pool->stats.managed_bytes -= block->alloc_size;
  pool->stats.upstream_frees++;
}

/* Caches a block again.  The pool wanted to return the block to upstream, but could not, because it
 * cannot find out whether commands still use the memory.  Usually puts the block into its bin.  In
 * two cases, no bin may have the block, and the function adds it to the list TarnStore.stuck
 * instead: the block's field exact is set, or the pool has stopped caching blocks. */
void
_tarn_pool_hold_stuck (TarnPool *pool, TarnBlock *block)
{
  TarnPoolStats *stats = &pool->stats;

  _tarn_assert_locked (&pool->lock);
  _tarn_block_set_state (block, TARN_BLOCK_HELD);
  if (_tarn_records ())
    _tarn_block_record (block, FALSE);
  pool->blocks.n++;
  stats->managed_bytes += block->alloc_size;
  _tarn_pool_note_managed_peak (pool);
  stats->upstream_frees--;
  if (!block->exact && !pool->store.has_ended)
    {
      _tarn_pool_put_block (pool, block);
      return;
    }
  block->below = pool->store.stuck;
  pool->store.stuck = block;
  pool->store.n_stuck++;
  stats->held_blocks++;
  stats->held_bytes += block->alloc_size;
}
