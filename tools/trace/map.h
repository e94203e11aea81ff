/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Files that the tools read from a mapping. */

#ifndef TRACE_MAP_H
#define TRACE_MAP_H

#include <glib.h>

/* Maps a file.  If another program cuts the file later, the first access beyond the file's new end
 * ends this program with status 1 and a message that names the file.  Call map_file () from one
 * thread only. */
GBytes *map_file (const gchar *path, GError **error);

#endif
