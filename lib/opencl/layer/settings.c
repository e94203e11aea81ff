/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads settings from the environment, except in a set-user-ID program:
 *
 *     TARN_LAYER_POOL=0       everything is passed on to the driver; counting goes on
 *     TARN_LAYER_LIMIT=SIZE   the most that a context's pool allocates from the driver
 *     TARN_LAYER_STATS=1      a table on standard error at exit
 *     TARN_LAYER_FAULTS=LIST  the calls that fail: see faults.c
 *     TARN_LAYER_REPORT=FILE  a file that is there, to which report.c adds lines
 *     TARN_DEBUG              is Tarn's: see debug.c */

#define _GNU_SOURCE 1 /* secure_getenv () */

#include "layer-private.h"

#include "common/variable-private.h"

static LayerSettings settings;

/* With one of these set, blocks have exactly the bytes that the program asks for: the limit can be
 * used to the last byte, and sizes in a report are the program's. */
static const gchar *const exact_size_variables[] = { "TARN_LAYER_LIMIT",     "TARN_LIMIT",
                                                     "TARN_DEBUG",           "TARN_TRACE",
                                                     "TARN_SNAPSHOT_ON_OOM", NULL };

/* Returns TRUE if any of the variables is set. */
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
