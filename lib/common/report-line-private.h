/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Appends lines to a file in which a program reports to the process that started it.  Opens the
 * file for each line, because a program may close a descriptor that the library keeps open.  Writes
 * each line with one write () at the file's end, so that the lines of several processes do not
 * mix. */

#ifndef TARN_REPORT_LINE_PRIVATE_H
#define TARN_REPORT_LINE_PRIVATE_H

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <string.h>
#include <unistd.h>

/* Appends a line to the report.  @line ends with a newline.  Ignores errors.  Does not create the
 * file: if it does not exist, nobody reads the report any more. */
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
