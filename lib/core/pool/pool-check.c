/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Checks the invariants of a pool (pool-private.h). */

#include "pool/cache-private.h"

#define FORMAT G_GSIZE_FORMAT

/* The values that the pool's counters should have.  The checks compute them from the pool's
 * blocks. */
typedef struct
{
  gsize held_blocks, active_blocks, held_bytes, active_bytes, managed_bytes, binned_blocks;
  gsize listed_blocks, listed_bytes; /* blocks in the lists by age */
} Sums;

/* Returns TRUE and sets *violation if a counter of the pool, @counter, differs from @counted, the
 * value computed from the blocks. */
static gboolean
differs (const gchar *name, gsize counted, gsize counter, gchar **violation)
{
  if (counted == counter)
    return FALSE;
  *violation
      = g_strdup_printf ("%s is %" FORMAT ", the blocks say %" FORMAT, name, counter, counted);
  return TRUE;
}

/* Checks that each block in the pool's chunks belongs to the pool, and adds it to *sums. */
static gboolean
sum_blocks (TarnPool *pool, Sums *sums, gchar **violation)
{
  TARN_FOR_EACH_BLOCK (block, &pool->blocks.chunks)
    {
      gboolean held = block->state == TARN_BLOCK_HELD;

      if (block->source != &pool->base || (!held && !_tarn_block_state_is_in_use (block->state)))
        {
          *violation = g_strdup_printf ("block %p is none of the pool's", (void *) block);
          return FALSE;
        }
      if (!held
          && (block->size > block->alloc_size || block->share != _tarn_block_get_share (block)))
        {
          *violation = g_strdup_printf ("block %p of %" FORMAT " bytes for %" FORMAT
                                        " is not what it should be",
                                        (void *) block, block->alloc_size, block->size);
          return FALSE;
        }
      *(held ? &sums->held_blocks : &sums->active_blocks) += 1;
      *(held ? &sums->held_bytes : &sums->active_bytes) += held ? block->alloc_size : block->size;
      sums->managed_bytes += block->alloc_size;
    }
  return TRUE;
}

/* Returns TRUE if the last block of a batch (batch->last) is where it should be: @top is the first
 * block of the batch, so the last one is number batch->n of the chain that begins there. */
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

/* Checks the batches of a bin, from the topmost down. */
static gboolean
check_batches (const TarnBin *bin, gchar **violation)
{
  const TarnBlock *top = bin->top;

  for (gsize i = bin->n_batches; i-- > 0;)
    {
      const TarnBatch *batch = &bin->batches[i];

      if (!is_batch (top, batch))
        {
          *violation
              = g_strdup_printf ("a batch of %" FORMAT " blocks is not what its bin has", batch->n);
          return FALSE;
        }
      top = batch->last->below;
    }
  return TRUE;
}

static gboolean
has_size_of (const TarnPool *pool, const TarnBlock *block, guint32 number)
{
  if (pool->heap != NULL)
    return _tarn_bin_alloc_size (number, pool->leading_bits) == block->alloc_size;
  return _tarn_bin_number (block->alloc_size, pool->leading_bits) == number;
}

/* Checks the blocks of a bin.  @share is the share that each block of this bin must have.  It is
 * the handle of the only queue that uses the blocks, NULL in an idle bin (no queue uses its
 * blocks), or TARN_NO_SHARE in a recorded bin. */
static gboolean
check_bin (TarnPool *pool, guint32 number, const TarnBin *bin, gpointer share, gchar **violation)
{
  gsize length = 0;

  for (TarnBlock *block = bin->top; block != NULL; block = block->below, length++)
    if (block->state != TARN_BLOCK_HELD || block->bin != number || block->exact
        || !has_size_of (pool, block, number) || _tarn_block_get_share (block) != share)
      {
        *violation = g_strdup_printf ("block %p of %" FORMAT " bytes is not one of bin %u",
                                      (void *) block, block->alloc_size, number);
        return FALSE;
      }
  return !differs ("a bin's length", length, bin->length, violation)
         && check_batches (bin, violation);
}

/* Adds the number and the bytes of a bin's blocks to two sums in *sums.  A later check compares
 * these with the lists by age, which should contain the blocks. */
static void
add_listed (const TarnPool *pool, const TarnBin *bin, Sums *sums)
{
  sums->listed_blocks += bin->length;
  sums->listed_bytes += bin->length * _tarn_bin_alloc_size (bin->number, pool->leading_bits);
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

/* Checks the bins of a table, and adds up their lengths.  Each block must have @share as its share
 * (see check_bin ()).  Does nothing if @bins is NULL. */
static gboolean
check_table (TarnPool *pool, const TarnBins *bins, gpointer share, Sums *sums, gchar **violation)
{
  GHashTableIter iter;
  gpointer key, value;
  gsize n_empty = 0;

  if (bins == NULL)
    return TRUE;
  if (bins->latest != g_hash_table_lookup (bins->table, GUINT_TO_POINTER (bins->latest_number)))
    {
      *violation = g_strdup_printf ("bin %u is not what was looked up last", bins->latest_number);
      return FALSE;
    }
  g_hash_table_iter_init (&iter, bins->table);
  while (g_hash_table_iter_next (&iter, &key, &value))
    {
      const TarnBin *bin = value;

      if (!check_bin (pool, GPOINTER_TO_UINT (key), bin, share, violation))
        return FALSE;
      sums->binned_blocks += bin->length;
      n_empty += bin->length == 0;
      if (bins->ages != NULL)
        add_listed (pool, bin, sums);
    }
  return !differs ("a table's empty bins", n_empty, bins->n_empty, violation);
}

/* Checks TarnStore.n_recorded, the numbers of blocks in recorded bins. */
static gboolean
check_recorded (const TarnPool *pool, gchar **violation)
{
  guint n_recorded[TARN_RECORDED_COUNTS] = { 0 };
  GHashTableIter iter;
  gpointer bin;

  g_hash_table_iter_init (&iter, pool->store.recorded_bins->table);
  while (g_hash_table_iter_next (&iter, NULL, &bin))
    n_recorded[((const TarnBin *) bin)->number % TARN_RECORDED_COUNTS]
        += (guint) ((const TarnBin *) bin)->length;
  for (guint i = 0; i < TARN_RECORDED_COUNTS; i++)
    if (differs ("n_recorded", n_recorded[i], pool->store.n_recorded[i], violation))
      return FALSE;
  return TRUE;
}

/* Checks all bins of the pool, and the stuck blocks.  A stuck block is a cached block that is in no
 * bin, and that the pool could not return to upstream. */
static gboolean
check_bins (TarnPool *pool, Sums *sums, gchar **violation)
{
  GHashTableIter iter;
  gpointer handle, queue;
  gsize n_stuck = 0;

  if (!check_table (pool, pool->store.idle_bins, NULL, sums, violation)
      || !check_table (pool, pool->store.recorded_bins, TARN_NO_SHARE, sums, violation))
    return FALSE;
  g_hash_table_iter_init (&iter, pool->queues.table);
  while (g_hash_table_iter_next (&iter, &handle, &queue))
    if (!check_table (pool, ((TarnQueue *) queue)->bins, handle, sums, violation))
      return FALSE;
  for (const TarnBlock *block = pool->store.stuck; block != NULL; block = block->below)
    n_stuck++;
  sums->binned_blocks += n_stuck;
  return *violation == NULL && check_recorded (pool, violation)
         && !differs ("n_stuck", n_stuck, pool->store.n_stuck, violation)
         && !differs ("blocks by age", sums->listed_blocks,
                      count_listed (&pool->store.ready) + count_listed (&pool->store.shares)
                          + count_listed (&pool->store.recorded),
                      violation)
         && !differs ("bytes by age", sums->listed_bytes,
                      pool->store.ready.bytes + pool->store.shares.bytes
                          + pool->store.recorded.bytes,
                      violation);
}

/* Counts the bins in the list unasked of a recorded bin that belong there.  A bin belongs there if
 * it has blocks and the same number as the recorded bin, if no other queue has requested a block
 * from it, and if its queue has references. */
static gsize
count_unasked (const TarnBin *of_all, guint32 number)
{
  gsize n = 0;

  for (const TarnBin *bin = of_all->unasked; bin != NULL; bin = bin->next)
    n += bin->number == number && !bin->is_wanted && bin->length > 0 && bin->queue->n_refs > 0;
  return n;
}

/* Counts the queues' bins that have the given number and have blocks.  Sets *n_unasked to the
 * number of these bins from which no other queue has requested a block. */
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

/* Checks the fields n_shares and unasked of the recorded bins, which describe the queues' bins of
 * the same size.  Does nothing if the pool may not move blocks between queues. */
static gboolean
check_shares (const TarnPool *pool, gchar **violation)
{
  GHashTableIter iter;
  gpointer key, value;

  if (!pool->policy.moves_blocks)
    return TRUE;
  g_hash_table_iter_init (&iter, pool->store.recorded_bins->table);
  while (g_hash_table_iter_next (&iter, &key, &value))
    {
      const TarnBin *of_all = value;
      guint32 number = GPOINTER_TO_UINT (key);
      gsize n_unasked, n = count_shares (pool, number, &n_unasked);

      if (differs ("n_shares", n, of_all->n_shares, violation)
          || differs ("unasked", n_unasked, count_unasked (of_all, number), violation))
        return FALSE;
    }
  return TRUE;
}

/* Checks the table of queues.  Also checks that the pool counts a reference to each queue that a
 * block uses. */
static gboolean
check_uses (const TarnPool *pool, gchar **violation)
{
  GHashTableIter iter;
  gpointer queue;
  gsize n_unused = 0, n_unrecorded = 0;

  g_hash_table_iter_init (&iter, pool->queues.table);
  while (g_hash_table_iter_next (&iter, NULL, &queue))
    {
      n_unused += ((TarnQueue *) queue)->n_refs == 0;
      n_unrecorded += (gsize) ((TarnQueue *) queue)->has_unrecorded;
      if (!((TarnQueue *) queue)->is_known)
        *violation = g_strdup_printf ("queue %p is in the table, and not known", queue);
      if (*violation != NULL)
        return FALSE;
    }
  if (differs ("n_unused_queues", n_unused, pool->queues.n_unused, violation)
      || differs ("unrecorded_queues", n_unrecorded, pool->queues.unrecorded.length, violation))
    return FALSE;
  TARN_FOR_EACH_BLOCK (block, &pool->blocks.chunks)
    for (guint i = 0; *violation == NULL && i < block->n_uses; i++)
      if (block->uses[i].queue->n_refs == 0)
        *violation = g_strdup_printf ("what uses block %p is wrong", (const void *) block);
  return *violation == NULL;
}

/* Checks that TarnReturning.bytes is the sum of TarnGiveBack.unreserved_bytes over the running
 * calls.  Also checks that the limit's ceiling (TarnLimit.ceiling_bytes) is not below the pool's
 * bytes: managed, reserved, returning and charged ones.  Subtracts each of these four numbers from
 * the ceiling in turn, because their sum may overflow. */
static gboolean
check_limit (TarnPool *pool, gchar **violation)
{
  gsize limit = pool->limit.bytes != 0 ? pool->limit.bytes : G_MAXSIZE;
  gsize left = pool->limit.ceiling_bytes;
  gsize parts[] = { pool->stats.managed_bytes, pool->limit.reserved_bytes, pool->returning.bytes,
                    pool->limit.charged_bytes };
  gsize returning_bytes = 0;

  for (const TarnTicket *call = pool->returning.calls.oldest; call != NULL; call = call->next)
    returning_bytes += ((const TarnGiveBack *) call)->unreserved_bytes;
  if (differs ("returning_bytes", returning_bytes, pool->returning.bytes, violation))
    return FALSE;
  if (pool->limit.ceiling_bytes < limit)
    *violation = g_strdup_printf ("the limit, %" FORMAT ", is above the ceiling, %" FORMAT, limit,
                                  pool->limit.ceiling_bytes);
  for (guint i = 0; *violation == NULL && i < G_N_ELEMENTS (parts); left -= parts[i++])
    if (parts[i] > left)
      *violation = g_strdup_printf (
          "%" FORMAT " managed, %" FORMAT " reserved, %" FORMAT " returning, %" FORMAT
          " charged bytes are above the ceiling, %" FORMAT,
          parts[0], parts[1], parts[2], parts[3], pool->limit.ceiling_bytes);
  return *violation == NULL;
}

/* Checks the bin with index @i in a thread's cache. */
static gboolean
check_cache_bin (const TarnPool *pool, const TarnCache *cache, guint i, gchar **violation)
{
  const TarnCacheBin *bin = &cache->bins[i];
  gsize length = 0;

  for (TarnBlock *block = bin->top; block != NULL; block = block->below, length++)
    if (block->state != TARN_BLOCK_HELD || block->bin != bin->number || block->exact
        || _tarn_block_get_share (block) != bin->handle)
      {
        *violation = g_strdup_printf ("block %p does not belong in a thread's bin %u",
                                      (void *) block, bin->number);
        return FALSE;
      }
  if (differs ("the length of a thread's bin", length, bin->length, violation))
    return FALSE;
  if (length > bin->capacity || bin->capacity > pool->policy.thread_cache_blocks)
    *violation = g_strdup_printf ("a thread keeps %" FORMAT " blocks of a bin", length);
  else if (bin->capacity > 0
           && _tarn_cache_find_bin ((TarnCache *) cache, bin->number, bin->handle) != bin)
    *violation = g_strdup_printf ("a thread's bin %u is not where it is looked for", bin->number);
  else if (bin->capacity > 0 && _tarn_pool_records_frees (pool, bin->number))
    *violation = g_strdup_printf ("a thread keeps bin %u, which is recorded", bin->number);
  else if (bin->capacity > 0 && (cache->has_room[i / 64] >> i % 64 & 1) == 0)
    *violation = g_strdup_printf ("a thread's bin %u is not known to have blocks", bin->number);
  return *violation == NULL;
}

/* Returns TRUE if a bin of a thread's cache has no blocks and a capacity of 0.  Most of the
 * TARN_CACHE_BINS bins of a cache are such unused bins. */
static gboolean
is_unused (const TarnCacheBin *bin)
{
  return bin->top == NULL && bin->length == 0 && bin->capacity == 0;
}

/* Checks a thread's cache.  The caller has stopped the pool's read sections. */
static gboolean
check_cache (const TarnPool *pool, const TarnCache *cache, Sums *sums, gchar **violation)
{
  gsize reserved_bytes = 0;

  for (guint i = 0; i < TARN_CACHE_BINS; i++)
    {
      const TarnCacheBin *bin = &cache->bins[i];

      if (is_unused (bin))
        continue;
      if (!check_cache_bin (pool, cache, i, violation))
        return FALSE;
      sums->binned_blocks += bin->length;
      if (bin->capacity > 0)
        reserved_bytes += bin->capacity * _tarn_bin_alloc_size (bin->number, pool->leading_bits);
    }
  if (reserved_bytes > pool->policy.thread_cache_bytes)
    *violation = g_strdup_printf ("a thread may keep %" FORMAT " bytes", reserved_bytes);
  return *violation == NULL
         && !differs ("what a thread may keep", reserved_bytes, cache->reserved_bytes, violation);
}

/* Checks the blocks that a thread keeps for temporaries (blocks that it frees before it allocates
 * the next one).  The caller has stopped the pool's read sections. */
static gboolean
check_kept (const TarnCache *cache, Sums *sums, gchar **violation)
{
  for (guint i = 0; i < TARN_CACHE_KEPT; i++)
    {
      const TarnBlock *kept = cache->kept[i];

      if (kept == NULL)
        continue;
      sums->binned_blocks++;
      if (kept->state != TARN_BLOCK_HELD || !kept->is_own
          || _tarn_cache_get_kept (cache, kept->share) != kept
          || _tarn_pool_find_met (cache->pool, kept->share) == NULL)
        {
          *violation = g_strdup_printf ("block %p is kept wrongly", (const void *) kept);
          return FALSE;
        }
    }
  return TRUE;
}

/* Checks the table of queues whose arenas (memory of a heap for one queue) the pool may use. */
static gboolean
check_met (const TarnPool *pool, gchar **violation)
{
  guint n_met = 0;

  for (guint i = 0; pool->met.places != NULL && i <= pool->met.mask; i++)
    {
      const TarnMetQueue *met = &pool->met.places[i];

      if (met->ref.queue == NULL)
        continue;
      n_met++;
      if (_tarn_pool_find_met (pool, met->handle) != met || met->is_going
          || (met->handle == NULL) != (met->ref.number == 0)
          || (met->handle == NULL) != (met->queue == NULL))
        *violation = g_strdup_printf ("queue %p stands wrongly in the table", met->handle);
      if (*violation != NULL)
        return FALSE;
    }
  if (n_met > 0 && n_met > pool->met.mask)
    *violation = g_strdup_printf ("the table of queues has no free slot for %u queues", n_met + 1);
  return *violation == NULL && !differs ("n_met", n_met, pool->met.n, violation);
}

/* Checks the caches of all threads. */
static gboolean
check_caches (const TarnPool *pool, Sums *sums, gchar **violation)
{
  gsize room_bytes = 0, n_caches = 0, n_abandoned = 0;

  for (const TarnCache *cache = pool->caches.first; cache != NULL; cache = cache->next, n_caches++)
    {
      room_bytes += cache->reserved_bytes;
      n_abandoned += cache->is_abandoned;
    }
  if (differs ("room_bytes", room_bytes, pool->caches.room_bytes, violation)
      || differs ("n_caches", n_caches, pool->caches.n, violation)
      || differs ("n_abandoned", n_abandoned, pool->caches.n_abandoned, violation))
    return FALSE;
  for (TarnCache *cache = pool->caches.first; cache != NULL; cache = cache->next)
    if (!check_cache (pool, cache, sums, violation) || !check_kept (cache, sums, violation))
      return FALSE;
  return TRUE;
}

/* Checks the transfer bins, with blocks on their way between threads.  The caller has stopped the
 * pool's read sections. */
static gboolean
check_transfers (const TarnPool *pool, Sums *sums, gchar **violation)
{
  for (guint i = 0; i < TARN_TRANSFER_BINS; i++)
    {
      const TarnTransferBin *bin = &pool->transfers.bins[i];

      for (guint batch = 0; batch < bin->n_batches; batch++)
        {
          const TarnTransfer *transfer = &bin->batches[batch];
          guint n = 0;

          for (TarnBlock *block = transfer->first; block != NULL; block = block->below, n++)
            if (block->state != TARN_BLOCK_HELD || block->bin != bin->number || block->exact
                || _tarn_block_get_share (block) != bin->handle
                || (block->below == NULL && block != transfer->last))
              n = pool->policy.transfer_blocks; /* the loop's n++ then makes n too large */
          if (n != pool->policy.transfer_blocks || _tarn_pool_records_frees (pool, bin->number))
            {
              *violation
                  = g_strdup_printf ("a batch of bin %u was handed over wrongly", bin->number);
              return FALSE;
            }
          sums->binned_blocks += n;
        }
    }
  return TRUE;
}

/* Checks two kinds of blocks: those that were freed while the program still retains their memory
 * (aside), and those with several references (shared). */
static gboolean
check_handles (TarnPool *pool, gchar **violation)
{
  const TarnBlocks *blocks = &pool->blocks;
  guint n = blocks->aside != NULL ? blocks->aside->len : 0;
  GHashTableIter iter;
  gpointer block;

  if (differs ("n_aside", blocks->n_aside, n, violation))
    return FALSE;
  for (guint i = 0; i < n; i++)
    if (((const TarnBlock *) g_ptr_array_index (blocks->aside, i))->state != TARN_BLOCK_ENDING)
      {
        *violation = g_strdup ("a block that was set aside is not ending");
        return FALSE;
      }
  if (blocks->shared == NULL)
    return TRUE;
  g_hash_table_iter_init (&iter, blocks->shared);
  while (g_hash_table_iter_next (&iter, &block, NULL))
    if (((const TarnBlock *) block)->state != TARN_BLOCK_SHARED)
      {
        *violation = g_strdup_printf ("block %p has several references, and is not shared", block);
        return FALSE;
      }
  return TRUE;
}

/* Checks every invariant of the pool.  The caller holds the pool's lock and has stopped its read
 * sections. */
static gboolean
check_closed (TarnPool *pool, gchar **violation)
{
  TarnPoolStats now;
  const TarnPoolStats *stats = &now;
  Sums sums = { 0 };

  _tarn_assert_locked (&pool->lock);
  g_assert (_tarn_door_is_closed (&pool->door));
  _tarn_pool_sum (pool, &now);
  if (!sum_blocks (pool, &sums, violation) || !check_bins (pool, &sums, violation)
      || !check_met (pool, violation) || !check_caches (pool, &sums, violation)
      || !check_transfers (pool, &sums, violation)
      || differs ("held_blocks", sums.held_blocks, stats->held_blocks, violation)
      || differs ("held_blocks", sums.binned_blocks, stats->held_blocks, violation)
      || differs ("active_blocks", sums.active_blocks, stats->active_blocks, violation)
      || differs ("held_bytes", sums.held_bytes, stats->held_bytes, violation)
      || differs ("active_bytes", sums.active_bytes, stats->active_bytes, violation)
      || differs ("managed_bytes", sums.managed_bytes, stats->managed_bytes, violation)
      || !check_uses (pool, violation) || !check_shares (pool, violation)
      || !check_limit (pool, violation) || !check_handles (pool, violation))
    return FALSE;
  if (pool->store.has_ended && stats->held_blocks > pool->store.n_stuck)
    *violation = g_strdup ("a pool that does not hold blocks holds some");
  else if (stats->peak_managed_bytes < stats->managed_bytes
           || stats->peak_active_bytes < stats->active_bytes)
    *violation = g_strdup ("a peak is below what it is the peak of");
  else if (pool->n_after_driver_calls > MIN (stats->hits + stats->misses, stats->driver_calls))
    *violation = g_strdup ("more requests called the driver than were served, or than calls were");
  return *violation == NULL;
}

/* Checks every invariant of the pool.  Stops the pool's read sections meanwhile.  The caller holds
 * the pool's lock. */
static gboolean
check_locked (TarnPool *pool, gchar **violation)
{
  gboolean was_open = _tarn_pool_close (pool);
  gboolean is_valid;

  _tarn_assert_locked (&pool->lock);
  if (was_open)
    _tarn_pool_count_closed (pool);
  is_valid = check_closed (pool, violation);
  if (is_valid && was_open && pool->room.n_waiting > 0)
    {
      *violation = g_strdup ("the door is open, although somebody waits for memory");
      is_valid = FALSE;
    }
  if (was_open)
    _tarn_pool_open_door (pool);
  return is_valid;
}

/* Checks every invariant of a pool.  Returns FALSE if one does not hold, and then sets *violation
 * to a text about it, which the caller frees.  Any thread may call this at any time.  The time that
 * it takes is proportional to the number of blocks. */
gboolean
_tarn_pool_check (TarnPool *pool, gchar **violation)
{
  g_autofree gchar *found = NULL;
  gboolean valid;

  _tarn_mutex_lock (&pool->lock);
  valid = check_locked (pool, &found);
  _tarn_mutex_unlock (&pool->lock);
  if (violation != NULL && !valid)
    *violation = g_steal_pointer (&found);
  return valid;
}

/* Checks every invariant of the pool.  Ends the program with a message if one does not hold.  The
 * caller holds the pool's lock. */
void
_tarn_pool_assert_valid (TarnPool *pool)
{
  g_autofree gchar *found = NULL;

  _tarn_assert_locked (&pool->lock);
  if (!check_locked (pool, &found))
    g_error ("%s: %s", pool->base.label, found);
}
