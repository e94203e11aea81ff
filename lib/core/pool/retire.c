/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Which of the blocks that a pool holds go back to upstream, and in which order.  They are retired
 * here, and given back without the lock (upstream/give-back.c). */

#include "base/clock-private.h"
#include "pool/cache-private.h"

/* What a pool over a heap holds at most: one byte in HOLD_SHARE of what it manages.  Twice as much
 * cost a language model 5 % of its memory. */
#define MIN_HOLD_BYTES ((gsize) 8 << 20)
#define HOLD_SHARE 200

/* How many bins of recorded blocks are looked at for some that can go back. */
#define MAX_RECORDED_BINS 8

/* Adds a retired block to the end of a list. */
static void
append (TarnBlock ***end, TarnBlock *block)
{
  **end = block;
  *end = &block->below;
}

/* Retires what is stuck, for another attempt to give it back.  Gets it as a list. */
TarnBlock *
_tarn_pool_take_stuck (TarnPool *pool)
{
  TarnBlock *blocks = g_steal_pointer (&pool->stuck);

  _tarn_assert_locked (&pool->lock);
  for (TarnBlock *block = blocks; block != NULL; block = block->below)
    {
      pool->stats.held_blocks--;
      pool->stats.held_bytes -= block->alloc_size;
      _tarn_pool_retire (pool, block);
    }
  pool->n_stuck = 0;
  return blocks;
}

/* Retires blocks of a bin that can go, until so many bytes are held at most. */
static void
take_from_bin (TarnPool *pool, TarnBin *bin, gsize keep_bytes, TarnBlock ***end)
{
  TarnBlock **link = &bin->top;

  while (*link != NULL && pool->stats.held_bytes > keep_bytes)
    if (bin->bins != pool->recorded_bins || pool->base.klass->is_done (*link))
      {
        TarnBlock *block = _tarn_pool_pop_block (pool, bin, link);

        _tarn_pool_retire (pool, block);
        append (end, block);
      }
    else
      link = &(*link)->below;
}

/* Does so for bins of a list that were used longest ago, and for so many at most.  One that keeps
 * blocks becomes the last. */
static void
take_by_use (TarnPool *pool, GQueue *by_use, guint max, gsize keep_bytes, TarnBlock ***end)
{
  for (guint n = MIN (max, by_use->length); n > 0 && pool->stats.held_bytes > keep_bytes; n--)
    {
      TarnBin *bin = by_use->head->data;

      take_from_bin (pool, bin, keep_bytes, end);
      _tarn_bin_note_use (bin);
    }
}

/* Retires blocks that can go back without a wait, of bins that were used longest ago, until so many
 * bytes are held at most, or none of these are.  Gets them as a list. */
TarnBlock *
_tarn_pool_take_idle (TarnPool *pool, gsize keep_bytes)
{
  TarnBlock *blocks = NULL;
  TarnBlock **end = &blocks;

  _tarn_assert_locked (&pool->lock);
  if (pool->has_done)
    take_by_use (pool, &pool->recorded_by_use, MAX_RECORDED_BINS, keep_bytes, &end);
  pool->has_done = FALSE;
  take_by_use (pool, &pool->bins_by_use, G_MAXUINT, keep_bytes, &end);
  return blocks;
}

/* Retires all blocks of a share (NULL: there is none), and recorded ones that are done.  Gets them
 * as a list.  For a pool that has its bins by their use. */
TarnBlock *
_tarn_pool_take_share (TarnPool *pool, const TarnBins *share)
{
  TarnBlock *blocks = NULL;
  TarnBlock **end = &blocks;
  GList *next;

  _tarn_assert_locked (&pool->lock);
  if (pool->has_done)
    take_by_use (pool, &pool->recorded_by_use, MAX_RECORDED_BINS, 0, &end);
  pool->has_done = FALSE;
  for (GList *link = pool->bins_by_use.head; link != NULL; link = next)
    {
      TarnBin *bin = link->data;

      next = link->next;
      if (bin->bins == share)
        take_from_bin (pool, bin, 0, &end);
    }
  return blocks;
}

/* Reckons how many bytes the pool may hold. */
static gsize
get_bound (const TarnPool *pool)
{
  return pool->hold_bytes != 0 ? pool->hold_bytes
                               : MAX (MIN_HOLD_BYTES, pool->stats.managed_bytes / HOLD_SHARE);
}

/* Tells whether a pool over a heap gives back what was not used for long. */
static gboolean
is_to_expire (const TarnPool *pool)
{
  return pool->is_over_heap && pool->hold_bytes == 0;
}

/* Tells whether a bin was not used for long. */
static gboolean
is_expired (const TarnBin *bin, gint64 now)
{
  return now - bin->used_at >= TARN_USUAL_IDLE_TIME;
}

/* Tells whether it pays to ask whether recorded blocks are done, because more is held than may be,
 * or they have been for long. */
gboolean
_tarn_pool_needs_recorded (const TarnPool *pool)
{
  const GList *link = pool->recorded_by_use.head;

  return link != NULL
         && (pool->stats.held_bytes > get_bound (pool)
             || (is_to_expire (pool) && is_expired (link->data, _tarn_clock_now ())));
}

/* Retires blocks that can go of those bins of a list that were not used for long. */
static void
take_expired_of (TarnPool *pool, const GQueue *by_use, gint64 now, TarnBlock ***end)
{
  GList *next;

  for (GList *link = by_use->head; link != NULL && is_expired (link->data, now); link = next)
    {
      next = link->next;
      take_from_bin (pool, link->data, 0, end);
    }
}

/* Retires the blocks of bins that were not used for long, which keep a heap's pieces from being
 * idle, and has those that threads keep be in the bins when it looks again.  Gets them as a list;
 * NULL: there are none, or nobody has to look as yet. */
static TarnBlock *
take_expired (TarnPool *pool)
{
  gint64 now = _tarn_clock_now ();
  TarnBlock *blocks = NULL;
  TarnBlock **end = &blocks;

  if (now < pool->look_at)
    return NULL;
  pool->look_at = now + TARN_USUAL_IDLE_TIME / TARN_LOOKS;
  take_expired_of (pool, &pool->recorded_by_use, now, &end);
  take_expired_of (pool, &pool->bins_by_use, now, &end);
  _tarn_pool_flush (pool);
  return blocks;
}

/* Retires what is held beyond what the pool may hold.  Gets it as a list; NULL: nothing. */
TarnBlock *
_tarn_pool_take_excess (TarnPool *pool)
{
  gsize bound = get_bound (pool);

  /* Some more, so that not each free has to give something back. */
  if (pool->stats.held_bytes > bound)
    return _tarn_pool_take_idle (pool, bound - bound / 8);
  return is_to_expire (pool) ? take_expired (pool) : NULL;
}

typedef struct
{
  TarnBin *bin;
  guint32 number;
} NumberedBin;

/* Lists a table's bins, and frees those that are of no use. */
static void
list_bins (GArray *list, TarnBins *bins)
{
  GHashTableIter iter;
  gpointer number, bin;

  if (bins == NULL)
    return;
  _tarn_bins_drop_empty (bins);
  g_hash_table_iter_init (&iter, bins->table);
  while (g_hash_table_iter_next (&iter, &number, &bin))
    {
      NumberedBin item = { bin, GPOINTER_TO_UINT (number) };

      g_array_append_val (list, item);
    }
}

/* Compares bins, for those of the largest sizes to come first. */
static gint
compare_descending (gconstpointer a, gconstpointer b)
{
  guint32 left = ((const NumberedBin *) a)->number, right = ((const NumberedBin *) b)->number;

  return left > right ? -1 : left < right;
}

/* Lists all bins, those of the largest sizes first, and of one size nobody's. */
static GArray *
list_largest_first (TarnPool *pool)
{
  GArray *list = g_array_new (FALSE, FALSE, sizeof (NumberedBin));
  GHashTableIter iter;
  gpointer queue;

  list_bins (list, pool->idle_bins);
  list_bins (list, pool->recorded_bins);
  g_hash_table_iter_init (&iter, pool->queues);
  while (g_hash_table_iter_next (&iter, NULL, &queue))
    list_bins (list, ((TarnQueue *) queue)->bins);
  g_array_sort (list, compare_descending);
  return list;
}

/* Retires held blocks, the largest first, until they make up the wanted bytes or none is held.
 * Gets them as a list, with what is stuck. */
TarnBlock *
_tarn_pool_take_largest (TarnPool *pool, gsize wanted)
{
  g_autoptr (GArray) list = list_largest_first (pool);
  TarnBlock *blocks = _tarn_pool_take_stuck (pool), *block;
  TarnBlock **end = &blocks;
  gsize taken = 0;

  _tarn_assert_locked (&pool->lock);
  while (*end != NULL)
    end = &(*end)->below;
  for (guint i = 0; i < list->len; i++)
    {
      TarnBin *bin = g_array_index (list, NumberedBin, i).bin;

      for (; bin->top != NULL && taken < wanted; taken += block->alloc_size)
        {
          block = _tarn_pool_pop_block (pool, bin, &bin->top);
          _tarn_pool_retire (pool, block);
          append (&end, block);
        }
    }
  return blocks;
}
