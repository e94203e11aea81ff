/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Files that the tools read.  gzip may have compressed them. */

#ifndef READ_H
#define READ_H

#include <gio/gio.h>

/* Largest text in bytes.  The data that the tools make of a longer text would not fit into memory.
 * A compressed file may expand to a thousand times its own size. */
#define READ_MAX_TEXT ((gsize) 256 << 20)

/* Gets the first bytes of a regular file, at most @n of them, and expands them if gzip has
 * compressed the file.  Returns their number, which is 0 if the file cannot be read. */
gsize read_start (const gchar *path, gpointer start, gsize n);

/* Gets the bytes of a recording or a snapshot: maps the file, or expands it if gzip has compressed
 * it.  The error names the file. */
GBytes *read_file (const gchar *path, GError **error);

/* Functions that read all of a file or stream, and add a zero byte.  read_text_file () also expands
 * what gzip has compressed.  They return NULL if the text cannot be read or is too long.  The error
 * does not name the file. */
gchar *read_text_file (const gchar *path, gsize *length, GError **error);
gchar *read_stream (GInputStream *stream, gsize *length, GError **error);

#endif
