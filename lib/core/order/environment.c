/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads the environment variables TARN_LIMIT, a limit on the bytes of each pool, and TARN_STATS,
 * which makes each pool print its counters.  Ignores both variables in a set-user-ID program.  Also
 * prints the counters of pools. */

#define _GNU_SOURCE 1 /* for secure_getenv (), which common/variable-private.h calls */

#include <stdlib.h>
#include <string.h>

#include "base/fork-private.h"
#include "common/limit-private.h"
#include "common/lock-private.h"
#include "common/variable-private.h"
#include "order/order-private.h"
#include "upstream/upstream-private.h"

static struct
{
  gchar *limit; /* the value of TARN_LIMIT; NULL if TARN_LIMIT is not set */
  gboolean prints_stats;
} settings; /* the settings do not change after read_settings () */

static void
read_settings (void)
{
  settings.limit = g_strdup (_tarn_get_variable ("TARN_LIMIT"));
  settings.prints_stats = _tarn_get_switch ("TARN_STATS", FALSE);
}

/* Reads the limit that TARN_LIMIT sets for a pool which allocates from @upstream.  TARN_LIMIT may
 * be a percentage of the device's memory.  Sets *limit to 0, which means no limit, if the variable
 * is a percentage and the backend does not know the size of the device's memory. */
static gboolean
read_limit (TarnAllocator *upstream, gsize *limit, GError **error)
{
  guint64 device_bytes = G_MAXUINT64, free_bytes;

  *limit = 0;
  if (strchr (settings.limit, '%') == NULL)
    return _tarn_parse_limit ("TARN_LIMIT", settings.limit, 0, limit, error);
  if (!_tarn_pool_get_device_memory (upstream, &device_bytes, &free_bytes, error))
    return FALSE;
  if (!_tarn_parse_limit ("TARN_LIMIT", settings.limit, (gsize) MIN (device_bytes, G_MAXSIZE),
                          limit, error))
    return FALSE;
  if (device_bytes == G_MAXUINT64)
    *limit = 0;
  return TRUE;
}

gboolean
_tarn_pool_read_environment (TarnAllocator *upstream, TarnPoolOptions *options, gsize *user_limit,
                             GError **error)
{
  static TarnOnce once = TARN_ONCE_INIT;

  _tarn_once (&once, read_settings);
  if (settings.prints_stats)
    options->flags |= TARN_POOL_PRINTS_STATS;
  *user_limit = 0;
  return settings.limit == NULL || read_limit (upstream, user_limit, error);
}

/* Functions that print the counters of pools */

void
_tarn_pool_print_stats (TarnPool *pool)
{
  g_autofree gchar *line = NULL;

  if (!pool->policy.prints_stats)
    return;
  line = _tarn_pool_make_report (pool);
  g_printerr ("%s", line);
}

/* Appends the counters of a pool to @lines, the text to print when the process exits.  Skips a pool
 * whose last reference was dropped, because such a pool has already printed its counters. */
static void
add_line (TarnAllocator *allocator, gpointer lines)
{
  TarnPool *pool = _tarn_pool_of (allocator);
  g_autofree gchar *line = NULL;
  gboolean is_dropped;

  if (!pool->policy.prints_stats)
    return;
  _tarn_mutex_lock (&pool->lock);
  is_dropped = pool->orphaned;
  _tarn_mutex_unlock (&pool->lock);
  if (is_dropped)
    return;
  line = _tarn_pool_make_report (pool);
  g_string_append (lines, line);
}

static void
print_at_exit (void)
{
  g_autoptr (GString) lines = g_string_new (NULL);

  if (_tarn_forked ())
    return;
  _tarn_allocators_foreach_pool (add_line, lines);
  g_printerr ("%s", lines->str);
}

void
_tarn_pool_print_stats_at_exit (void)
{
  static gint is_registered; /* atomic: TRUE if print_at_exit () is registered */

  if (g_atomic_int_compare_and_exchange (&is_registered, FALSE, TRUE))
    atexit (print_at_exit);
}
