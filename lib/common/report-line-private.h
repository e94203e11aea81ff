/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Lines for a file by which whoever started a program is told what became of it.  The file is
 * opened for each line: a program may close what it has not opened, and change its identity.  Each
 * line is one write () at the end, so that those of several processes do not mix. */

#ifndef TARN_REPORT_LINE_PRIVATE_H
#define TARN_REPORT_LINE_PRIVATE_H

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <string.h>
#include <unistd.h>

/* Adds a line, which ends with a newline.  Errors are ignored.  The file is not created: if it is
 * gone, so is its reader. */
static inline void
_tarn_report_add_line (const gchar *path, const gchar *line)
{
  gint fd = open (path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK);

  if (fd < 0)
    return;
  if (write (fd, line, strlen (line)) < 0)
    g_debug ("%s: %s", path, g_strerror (errno));
  close (fd);
}

#endif
