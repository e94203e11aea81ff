/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A pool's bins, and what its counters know of blocks that come and go.  The lock is held in all of
 * this. */

#include <stdlib.h>

#include "pool/cache-private.h"

/* Bins */

static void
bin_free (gpointer data)
{
  TarnBin *bin = data;

  g_free (bin->batches);
  g_free (bin);
}

GHashTable *
_tarn_bins_new (void)
{
  return g_hash_table_new_full (NULL, NULL, NULL, bin_free);
}

/* Gets a bin by its number; NULL: it was empty when the pool last gave blocks back. */
TarnBin *
_tarn_pool_get_bin (const TarnPool *pool, guint32 number)
{
  return g_hash_table_lookup (pool->bins, GUINT_TO_POINTER (number));
}

/* Tells whether a bin has no block. */
gboolean
_tarn_pool_is_empty (const TarnPool *pool, guint32 number)
{
  const TarnBin *bin = _tarn_pool_get_bin (pool, number);

  return bin == NULL || bin->top == NULL;
}

/* Gets a bin by its number, and makes it if there is none. */
static TarnBin *
ensure_bin (TarnPool *pool, guint32 number)
{
  TarnBin *bin = _tarn_pool_get_bin (pool, number);

  _tarn_assert_locked (&pool->lock);
  if (bin == NULL)
    {
      bin = g_new0 (TarnBin, 1);
      g_hash_table_insert (pool->bins, GUINT_TO_POINTER (number), bin);
    }
  return bin;
}

/* Gets the batch that the first blocks of a bin are in; NULL: they are in none. */
static TarnBatch *
get_newest_batch (TarnBin *bin)
{
  return bin->n_batches > 0 ? &bin->batches[bin->n_batches - 1] : NULL;
}

/* Notes that so many blocks came to a bin together. */
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

/* Counts blocks that came to a bin; below 0: that left it. */
static void
count_held (TarnPool *pool, TarnBin *bin, gsize alloc_size, gssize n)
{
  _tarn_assert_locked (&pool->lock);
  g_assert (n >= 0 || bin->length >= (gsize) -n);
  bin->length += (gsize) n;
  pool->stats.held_blocks += (gsize) n;
  pool->stats.held_bytes += (gsize) n * alloc_size;
}

/* Puts a chain of blocks on top of a bin. */
static void
push (TarnPool *pool, TarnBin *bin, TarnBlock *first, TarnBlock *last, gsize n)
{
  last->below = bin->top;
  bin->top = first;
  count_held (pool, bin, first->alloc_size, (gssize) n);
}

/* Puts a single block on top of its bin. */
void
_tarn_pool_put_block (TarnPool *pool, TarnBlock *block)
{
  TarnBin *bin = ensure_bin (pool, block->bin);

  _tarn_assert_locked (&pool->lock);
  g_assert (block->state == TARN_BLOCK_HELD && !block->exact && !pool->stop_holding);
  bin->n_batches = 0;
  push (pool, bin, block, block, 1);
}

/* Puts a chain of blocks from a thread's cache on top of their bin. */
void
_tarn_pool_put_batch (TarnPool *pool, guint32 number, TarnBlock *first, TarnBlock *last, gsize n)
{
  TarnBin *bin = ensure_bin (pool, number);

  g_assert (n > 0 && first->bin == number && last->bin == number);
  add_batch (bin, last, n);
  push (pool, bin, first, last, n);
}

/* Takes the block at a place in a bin out of it. */
static TarnBlock *
pop (TarnPool *pool, TarnBin *bin, TarnBlock **link)
{
  TarnBatch *batch = get_newest_batch (bin);
  TarnBlock *block = *link;

  _tarn_assert_locked (&pool->lock);
  g_assert (*link != NULL && bin->length > 0);
  if (link != &bin->top)
    bin->n_batches = 0;
  else if (batch != NULL && --batch->n == 0)
    bin->n_batches--;
  *link = block->below;
  block->below = NULL;
  count_held (pool, bin, block->alloc_size, -1);
  return block;
}

/* Takes blocks from the top of a bin for a thread's cache, which has taken so many already and
 * may take max more: a batch; or else a single block, unless that made more than half of those
 * there were. Gets their number; 0: none. Their chain begins at **end, which is where it ends
 * afterwards. */
guint
_tarn_pool_take_for_cache (TarnPool *pool, TarnBin *bin, guint n_taken, guint max, TarnBlock ***end)
{
  TarnBatch *batch = get_newest_batch (bin);
  TarnBlock *first, *last;
  guint n = 1;

  _tarn_assert_locked (&pool->lock);
  if (bin->top == NULL || bin->top->n_uses != pool->n_fast_uses)
    return 0;
  if (batch != NULL && batch->n <= max)
    {
      first = bin->top;
      last = batch->last;
      n = (guint) batch->n;
      bin->n_batches--;
      bin->top = last->below;
      count_held (pool, bin, first->alloc_size, -(gssize) n);
    }
  else if (bin->length > n_taken)
    first = last = pop (pool, bin, &bin->top);
  else
    return 0;
  **end = first;
  *end = &last->below;
  return n;
}

/* Blocks that come, become active, and go */

/* Makes a block active for a request. */
static void
activate (TarnPool *pool, TarnBlock *block, gsize size)
{
  _tarn_assert_locked (&pool->lock);
  _tarn_block_set_state (block, TARN_BLOCK_ACTIVE);
  block->size = size;
  pool->stats.active_bytes += size;
}

/* Takes the block at a place in a bin for a request. */
TarnBlock *
_tarn_pool_take_block (TarnPool *pool, TarnBin *bin, TarnBlock **link, gsize size)
{
  TarnBlock *block = pop (pool, bin, link);

  activate (pool, block, size);
  block->is_hit = TRUE;
  pool->stats.hits++;
  return block;
}

/* Takes the block of a bin that was freed last for a request; NULL: there is none. */
TarnBlock *
_tarn_pool_take_held (TarnPool *pool, guint32 number, gsize size)
{
  TarnBin *bin = _tarn_pool_get_bin (pool, number);

  _tarn_assert_locked (&pool->lock);
  return bin != NULL && bin->top != NULL ? _tarn_pool_take_block (pool, bin, &bin->top, size)
                                         : NULL;
}

/* Adds a fresh block from upstream, which is active from now on. */
void
_tarn_pool_add_fresh (TarnPool *pool, TarnBlock *block)
{
  TarnPoolStats *stats = &pool->stats;

  _tarn_assert_locked (&pool->lock);
  _tarn_pool_count_own (pool); /* which reclaim functions may have used since the request began */
  pool->n_blocks++;
  stats->managed_bytes += block->alloc_size;
  stats->peak_managed_bytes = MAX (stats->peak_managed_bytes, stats->managed_bytes);
  activate (pool, block, block->size);
  stats->misses++;
  stats->upstream_allocations++;
}

/* Takes a block out of the pool's sight that is neither held nor active any more. */
void
_tarn_pool_retire (TarnPool *pool, TarnBlock *block)
{
  _tarn_assert_locked (&pool->lock);
  g_assert (pool->n_blocks > 0 && pool->stats.managed_bytes >= block->alloc_size);
  _tarn_block_set_state (block, TARN_BLOCK_RETIRED);
  pool->n_blocks--;
  pool->stats.managed_bytes -= block->alloc_size;
  pool->stats.upstream_frees++;
}

/* Compares bin numbers, for the largest sizes to come first. */
static gint
compare_descending (gconstpointer a, gconstpointer b)
{
  guint left = GPOINTER_TO_UINT (*(const gpointer *) a);
  guint right = GPOINTER_TO_UINT (*(const gpointer *) b);

  return left > right ? -1 : left < right;
}

/* Tells whether a bin of the table has no block. */
static gboolean
bin_is_empty (gpointer number, gpointer bin, gpointer unused)
{
  (void) number;
  (void) unused;
  return ((TarnBin *) bin)->top == NULL;
}

/* Retires held blocks, the largest first, until they make up the wanted bytes or none is held.
 * Gets them as a list. */
TarnBlock *
_tarn_pool_take_largest (TarnPool *pool, gsize wanted)
{
  guint n_bins;
  g_autofree gpointer *numbers = g_hash_table_get_keys_as_array (pool->bins, &n_bins);
  TarnBlock *first = NULL;
  TarnBlock **end = &first;
  gsize taken = 0;

  _tarn_assert_locked (&pool->lock);
  qsort (numbers, n_bins, sizeof *numbers, compare_descending);
  for (guint i = 0; i < n_bins; i++)
    {
      TarnBin *bin = g_hash_table_lookup (pool->bins, numbers[i]);

      while (bin->top != NULL && (taken < wanted || first == NULL))
        {
          TarnBlock *block = pop (pool, bin, &bin->top);

          _tarn_pool_retire (pool, block);
          taken += block->alloc_size;
          *end = block;
          end = &block->below;
        }
    }
  g_hash_table_foreach_remove (pool->bins, bin_is_empty, NULL);
  return first;
}
