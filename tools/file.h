/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Files that the tools write their results to. */

#ifndef FILE_H
#define FILE_H

#include <glib.h>

/* Tells whether two names are names of the same existing file. */
gboolean file_is_same (const gchar *left, const gchar *right);

/* Checks that a file can be written.  Tools call it before hours of work, not after.  The error
 * names the option that gave the path. */
gboolean file_check_writable (const gchar *option, const gchar *path, GError **error);

/* Writes a file whole or not at all.  Follows a link, and keeps the mode of an existing file. */
gboolean file_write (const gchar *path, const gchar *text, GError **error);

#endif
