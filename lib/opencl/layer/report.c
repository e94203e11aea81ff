/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What the layer tells whoever started the program, by lines at the end of a file that
 * TARN_LAYER_REPORT names, as tarn-run does:
 *
 *     loaded PID                                     the layer has been loaded
 *     buffers PID MADE SERVED DRIVERS-OWN POOLS-OWN  at exit: numbers of buffers, as LayerCounts
 *
 * A process that was killed, or that has become another program, leaves the first alone.  The file
 * is opened for each line: a program may close what it has not opened, and change its identity.
 * Each line is one write () at the end, so that those of several processes do not mix. */

#include "layer-private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pid_t loaded_by;

/* What fails is nothing to the program.  Nor is the file made here: where it is gone, so is the one
 * who wanted to know. */
static void
add_line (const gchar *line)
{
  const gchar *path = _tarn_layer_get_settings ()->report;
  gint fd = open (path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK);

  if (fd < 0)
    return;
  if (write (fd, line, strlen (line)) < 0)
    g_debug ("TARN_LAYER_REPORT: %s", g_strerror (errno));
  close (fd);
}

static gsize
get_count (const gsize *count)
{
  return __atomic_load_n (count, __ATOMIC_RELAXED);
}

/* A child of fork () has the counts of its parent, who reports them. */
static void
report_end (void)
{
  const LayerCounts *counts = &_tarn_layer_counts;
  g_autofree gchar *line = NULL;

  if (getpid () != loaded_by)
    return;
  line = g_strdup_printf ("buffers %ld %" G_GSIZE_FORMAT " %" G_GSIZE_FORMAT " %" G_GSIZE_FORMAT
                          " %" G_GSIZE_FORMAT "\n",
                          (glong) loaded_by, get_count (&counts->created),
                          get_count (&counts->served), get_count (&counts->passed_on),
                          get_count (&counts->pieces));
  add_line (line);
}

void
_tarn_layer_report_begin (void)
{
  g_autofree gchar *line = NULL;

  if (_tarn_layer_get_settings ()->report == NULL)
    return;
  loaded_by = getpid ();
  line = g_strdup_printf ("loaded %ld\n", (glong) loaded_by);
  add_line (line);
  atexit (report_end);
}
