/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Texts that the programs read, of a size that has a bound. */

#ifndef READ_H
#define READ_H

#include <gio/gio.h>

/* The most bytes of a text that the programs read.  What they make of a longer one would not fit
 * into memory.  A compressed file may hold a thousand times its own size. */
#define READ_MAX_TEXT ((gsize) 256 << 20)

/* Reads all of a file, or of a stream, with a zero byte behind it: NULL with an error, which does
 * not name the file, if it cannot be read or is longer. */
gchar *read_text_file (const gchar *path, gsize *length, GError **error);
gchar *read_stream (GInputStream *stream, gsize *length, GError **error);

#endif
