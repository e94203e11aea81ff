/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Public information on a pool: its counters, and the bins that sizes belong to. */

#include <tarn/heap.h>

#include "base/fork-private.h"
#include "common/struct-private.h"
#include "pool/cache-private.h"

/**
 * Stores all counters of a pool as they were at one moment. In a child of fork () they are those of
 * the fork, as far as no other thread was changing them, and ignored_frees.
 *
 * @param pool   a pool; any thread may call it
 * @param stats  out: start from TARN_POOL_STATS_INIT, whose struct_size says how much is filled
 * @since 0.1
 */
void
tarn_pool_get_stats (TarnPool *pool, TarnPoolStats *stats)
{
  TarnPoolStats now;

  g_return_if_fail (pool != NULL);
  g_return_if_fail (_tarn_struct_has_size (stats));

  if (_tarn_forked ())
    _tarn_pool_sum (pool, &now);
  else
    {
      _tarn_mutex_lock (&pool->lock);
      _tarn_pool_count (pool, &now);
      _tarn_mutex_unlock (&pool->lock);
    }
  now.ignored_frees = (guint) g_atomic_int_get (&pool->ignored_frees);
  _tarn_struct_write (stats, &now, sizeof now);
}

/* Appends "1 request" or "2 requests". */
static void
append_count (GString *line, guint64 n, const gchar *noun)
{
  g_string_append_printf (line, "%" G_GUINT64_FORMAT " %s%s", n, noun, n == 1 ? "" : "s");
}

/* Appends bytes as people read them, alike in every locale. */
static void
append_bytes (GString *line, gsize bytes, const gchar *label)
{
  static const gchar *const units[] = { "bytes", "KiB", "MiB", "GiB" };
  gsize unit = 0;

  for (; bytes >= 10240 && unit + 1 < G_N_ELEMENTS (units); unit++)
    bytes = bytes / 1024 + (bytes % 1024 >= 512);
  g_string_append_printf (line, "%" G_GSIZE_FORMAT " %s %s", bytes,
                          bytes == 1 ? "byte" : units[unit], label);
}

/**
 * Makes a line of a pool's counters for people to read. An example: "101 requests: 98 served
 * without the driver, 3 driver calls; 782 KiB in use, 1172 KiB held". Requests that failed are in
 * it if there are any. What the line says may be worded otherwise in later versions.
 *
 * @param stats  as tarn_pool_get_stats() has filled it; any thread may call it
 * @return (transfer full): the line, without a newline; for g_free()
 * @since 0.1
 */
gchar *
tarn_pool_stats_to_string (const TarnPoolStats *stats)
{
  TarnPoolStats known = TARN_POOL_STATS_INIT;
  GString *line;

  g_return_val_if_fail (stats != NULL, NULL);
  g_return_val_if_fail (_tarn_struct_read (&known, sizeof known, stats), NULL);

  line = g_string_new (NULL);
  append_count (line, known.hits + known.misses + known.failures, "request");
  g_string_append_printf (line, ": %" G_GUINT64_FORMAT " served without the driver, ",
                          known.served_without_driver);
  if (known.failures > 0)
    g_string_append_printf (line, "%" G_GUINT64_FORMAT " failed, ", known.failures);
  append_count (line, known.driver_calls, "driver call");
  g_string_append (line, "; ");
  append_bytes (line, known.active_bytes, "in use, ");
  append_bytes (line, known.held_bytes, "held");
  return g_string_free (line, FALSE);
}

/* Makes a line, with a newline, of what a pool did until now. */
gchar *
_tarn_pool_make_report (TarnPool *pool)
{
  GString *line = g_string_new ("Tarn: ");
  g_autofree gchar *counters = NULL;
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  TarnHeapStats heap = TARN_HEAP_STATS_INIT;

  tarn_pool_get_stats (pool, &stats);
  if (!tarn_heap_get_stats (tarn_pool_get_upstream (pool), &heap))
    heap.peak_upstream_bytes = stats.peak_managed_bytes;
  counters = tarn_pool_stats_to_string (&stats);
  g_string_append_printf (line, "%s: %s; at most ", pool->base.label, counters);
  append_bytes (line, stats.peak_active_bytes, "in use, ");
  append_bytes (line, heap.peak_upstream_bytes, "taken\n");
  return g_string_free (line, FALSE);
}

/**
 * Begins the peaks of a pool anew. Its peak_managed_bytes and peak_active_bytes are what there is
 * now.
 *
 * @param pool  a pool; any thread may call it. In a child of fork () it does nothing.
 * @since 0.1
 */
void
tarn_pool_reset_peaks (TarnPool *pool)
{
  TarnPoolStats *stats;
  gboolean was_open;

  g_return_if_fail (pool != NULL);

  if (_tarn_forked ())
    return;
  stats = &pool->stats;
  _tarn_mutex_lock (&pool->lock);
  was_open = _tarn_pool_close (pool);
  _tarn_pool_count_closed (pool);
  stats->peak_managed_bytes = stats->managed_bytes;
  stats->peak_active_bytes = pool->noted_bytes = stats->active_bytes;
  _tarn_pool_open (pool, was_open);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);
}

/**
 * Gets the allocator that a pool is over. With one that was made in one line it is the heap, for
 * tarn_heap_get_stats().
 *
 * @param pool  a pool; any thread may call it
 * @return (transfer none): valid as long as @p pool
 * @since 0.1
 */
TarnAllocator *
tarn_pool_get_upstream (TarnPool *pool)
{
  g_return_val_if_fail (pool != NULL, NULL);
  return pool->upstream->given != NULL ? pool->upstream->given : pool->upstream;
}

/**
 * Gets the name that a pool was given for messages.
 *
 * @param pool  a pool; any thread may call it
 * @return (transfer none): valid as long as @p pool; NULL: it was given none
 * @since 0.1
 */
const gchar *
tarn_pool_get_name (TarnPool *pool)
{
  g_return_val_if_fail (pool != NULL, NULL);

  return pool->base.ops.name;
}

/**
 * Gets a number that changes when memory of a pool goes back to the driver. It is for programs
 * that keep addresses longer than blocks, as a CUDA graph does. Such a program gets the number
 * before it allocates what the graph uses. As long as the number stays the same, that memory is
 * mapped where it was, although the blocks may have been freed. Once it is another one, some memory
 * of the pool has gone, and the program makes its graphs again.
 *
 * Over a heap the number changes when the heap frees a segment, or moves one to other addresses. It
 * is one number for all pools over the heap, and counts what they free. Without a heap it changes
 * when blocks go back to the upstream allocator, which may be another pool.
 *
 * Memory of blocks in use never goes. Memory that was freed may serve another request, whatever
 * this says: see to it that a graph and that request do not run at a time. If another thread uses
 * the pool, the number may change right after this returns.
 *
 * @param pool  a pool; any thread may call it
 * @return a number that never comes again
 * @since 0.1
 */
guint64
tarn_pool_get_generation (TarnPool *pool)
{
  g_return_val_if_fail (pool != NULL, 0);

  return pool->heap != NULL ? _tarn_heap_get_generation (pool->heap)
                            : __atomic_load_n (&pool->generation, __ATOMIC_ACQUIRE);
}

/* Gets the counters as they are at one moment. */
static TarnPoolStats
get_stats (TarnPool *pool)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;

  tarn_pool_get_stats (pool, &stats);
  return stats;
}

/**
 * Gets the number of blocks that were freed and are kept for later.
 *
 * @param pool  a pool; any thread may call it
 * @return a number of blocks, exact when no call is in flight
 * @since 0.1
 */
gsize
tarn_pool_get_held_blocks (TarnPool *pool)
{
  return get_stats (pool).held_blocks;
}

/**
 * Gets the number of blocks in use.
 *
 * @param pool  a pool; any thread may call it
 * @return a number of blocks, exact when no call is in flight
 * @since 0.1
 */
gsize
tarn_pool_get_active_blocks (TarnPool *pool)
{
  return get_stats (pool).active_blocks;
}

/**
 * Gets the bytes that a pool has allocated. They are those of held blocks and of blocks in use.
 *
 * @param pool  a pool; any thread may call it
 * @return bytes, exact when no call is in flight
 * @since 0.1
 */
gsize
tarn_pool_get_managed_bytes (TarnPool *pool)
{
  return get_stats (pool).managed_bytes;
}

/**
 * Gets the bytes that were asked for by the blocks in use.
 *
 * @param pool  a pool; any thread may call it
 * @return bytes, exact when no call is in flight
 * @since 0.1
 */
gsize
tarn_pool_get_active_bytes (TarnPool *pool)
{
  return get_stats (pool).active_bytes;
}

/**
 * Gets the bin that a size belongs to. Sizes of one bin are served by the same blocks.
 *
 * @param pool  a pool; any thread may call it
 * @param size  bytes
 * @return the bin's number
 * @since 0.1
 */
guint32
tarn_pool_bin_number (TarnPool *pool, gsize size)
{
  g_return_val_if_fail (pool != NULL, 0);
  return _tarn_bin_number (size, _tarn_pool_get_leading_bits (pool));
}

/**
 * Gets the size that is allocated for every size of a bin. It is the largest of them.
 *
 * @param pool  a pool; any thread may call it
 * @param bin   a bin's number
 * @return bytes; 0 for a number that no size has
 * @since 0.1
 */
gsize
tarn_pool_alloc_size (TarnPool *pool, guint32 bin)
{
  g_return_val_if_fail (pool != NULL, 0);
  return _tarn_bin_alloc_size (bin, _tarn_pool_get_leading_bits (pool));
}
