/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads the layer's settings from these environment variables, which a set-user-ID program ignores:
 *
 *     TARN_LAYER_POOL=0       the driver makes all buffers and images; the layer only counts them
 *     TARN_LAYER_LIMIT=SIZE   the most bytes that a context's pool allocates from the driver
 *     TARN_LAYER_STATS=1      the layer prints a table to standard error at exit
 *     TARN_LAYER_FAULTS=LIST  the calls into which the layer injects failures: see faults.c
 *     TARN_LAYER_REPORT=FILE  an existing file, to which report.c adds lines
 *     TARN_DEBUG              some values make the layer check buffers: see debug.c */

#define _GNU_SOURCE 1 /* makes <stdlib.h> declare secure_getenv () */

#include "layer-private.h"

#include "common/variable-private.h"

static LayerSettings settings;

/* The variables that turn off rounding.  If one of them is set, the layer does not round up the
 * sizes of small buffers.  Then the program can use its limit to the last byte, and reports show
 * the sizes that the program asked for. */
static const gchar *const exact_size_variables[] = { "TARN_LAYER_LIMIT",     "TARN_LIMIT",
                                                     "TARN_DEBUG",           "TARN_TRACE",
                                                     "TARN_SNAPSHOT_ON_OOM", NULL };

/* Returns TRUE if any of the environment variables in a list is set. */
static gboolean
has_any (const gchar *const *names)
{
  while (*names != NULL && _tarn_get_variable (*names) == NULL)
    names++;
  return *names != NULL;
}

void
_tarn_layer_read_settings (void)
{
  settings.uses_pool = _tarn_get_switch ("TARN_LAYER_POOL", TRUE);
  settings.limit = g_strdup (_tarn_get_variable ("TARN_LAYER_LIMIT"));
  settings.prints_stats = _tarn_get_switch ("TARN_LAYER_STATS", FALSE);
  settings.faults = g_strdup (_tarn_get_variable ("TARN_LAYER_FAULTS"));
  settings.may_debug = _tarn_get_variable ("TARN_DEBUG") != NULL;
  settings.rounds_sizes = !has_any (exact_size_variables);
  settings.report = g_strdup (_tarn_get_variable ("TARN_LAYER_REPORT"));
}

const LayerSettings *
_tarn_layer_get_settings (void)
{
  return &settings;
}
