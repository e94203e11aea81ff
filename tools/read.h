/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Texts that the tools read, up to a maximal size. */

#ifndef READ_H
#define READ_H

#include <gio/gio.h>

/* Largest text in bytes.  The data that the tools make of a longer text would not fit into memory.
 * A compressed file may expand to a thousand times its own size. */
#define READ_MAX_TEXT ((gsize) 256 << 20)

/* Functions that read all of a file or stream, and add a zero byte.  They return NULL if the text
 * cannot be read or is too long.  The error does not name the file. */
gchar *read_text_file (const gchar *path, gsize *length, GError **error);
gchar *read_stream (GInputStream *stream, gsize *length, GError **error);

#endif
