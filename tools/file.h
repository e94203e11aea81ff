/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Files that the programs write what they found out to. */

#ifndef FILE_H
#define FILE_H

#include <glib.h>

/* Whether it can be written, to be asked before hours of work, not after; the error names the
 * option that gave the path. */
gboolean file_check_writable (const gchar *option, const gchar *path, GError **error);

/* A file is written whole or not at all: what a link points to, and with the mode that it has. */
gboolean file_write (const gchar *path, const gchar *text, GError **error);

#endif
