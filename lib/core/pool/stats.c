/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Public functions that return a pool's counters and other properties. */

#include <tarn/heap.h>

#include "base/fork-private.h"
#include "common/struct-private.h"
#include "pool/cache-private.h"

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

/* Appends a number and a noun to a text: "1 request" or "2 requests". */
static void
append_count (GString *line, guint64 n, const gchar *noun)
{
  g_string_append_printf (line, "%" G_GUINT64_FORMAT " %s%s", n, noun, n == 1 ? "" : "s");
}

/* Appends a label and a number of bytes, in units such as MiB, to a text. The format is the same in
 * every locale. */
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

/* Makes a line of text, with a newline, that summarizes a pool's work so far.  The memory that a
 * heap below the pool keeps for later requests counts as held. */
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
  stats.held_bytes += heap.free_bytes;
  counters = tarn_pool_stats_to_string (&stats);
  g_string_append_printf (line, "%s: %s; at most ", pool->base.label, counters);
  append_bytes (line, stats.peak_active_bytes, "in use, ");
  append_bytes (line, heap.peak_upstream_bytes, "taken\n");
  return g_string_free (line, FALSE);
}

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

TarnAllocator *
tarn_pool_get_upstream (TarnPool *pool)
{
  g_return_val_if_fail (pool != NULL, NULL);
  return pool->upstream->given != NULL ? pool->upstream->given : pool->upstream;
}

const gchar *
tarn_pool_get_name (TarnPool *pool)
{
  g_return_val_if_fail (pool != NULL, NULL);

  return pool->base.ops.name;
}

guint64
tarn_pool_get_generation (TarnPool *pool)
{
  g_return_val_if_fail (pool != NULL, 0);

  return pool->heap != NULL ? _tarn_heap_get_generation (pool->heap)
                            : __atomic_load_n (&pool->generation, __ATOMIC_ACQUIRE);
}

/* Gets the counters of a pool, all at one moment. */
static TarnPoolStats
get_stats (TarnPool *pool)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;

  tarn_pool_get_stats (pool, &stats);
  return stats;
}

gsize
tarn_pool_get_held_blocks (TarnPool *pool)
{
  return get_stats (pool).held_blocks;
}

gsize
tarn_pool_get_active_blocks (TarnPool *pool)
{
  return get_stats (pool).active_blocks;
}

gsize
tarn_pool_get_managed_bytes (TarnPool *pool)
{
  return get_stats (pool).managed_bytes;
}

gsize
tarn_pool_get_active_bytes (TarnPool *pool)
{
  return get_stats (pool).active_bytes;
}

guint32
tarn_pool_bin_number (TarnPool *pool, gsize size)
{
  g_return_val_if_fail (pool != NULL, 0);
  return _tarn_bin_number (size, _tarn_pool_get_leading_bits (pool));
}

gsize
tarn_pool_alloc_size (TarnPool *pool, guint32 bin)
{
  g_return_val_if_fail (pool != NULL, 0);
  return _tarn_bin_alloc_size (bin, _tarn_pool_get_leading_bits (pool));
}
