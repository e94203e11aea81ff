/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Parts of what is written, as it is written. */

#ifndef WRITE_H
#define WRITE_H

#include <glib.h>
#include <stdio.h>

/* A text of a recording in quotation marks, as JSON has it; NULL: null.  No terminal acts on it. */
void write_json_text (FILE *file, const gchar *text);

/* Microseconds with three decimals, of nanoseconds. */
void write_microseconds (FILE *file, guint64 nanoseconds);

/* Bytes for people: "12.3 MiB".  Free it with g_free (). */
gchar *format_bytes (guint64 bytes);

/* A text of a recording in a line of its own: free of what a terminal acts on.  Free it with
 * g_free (). */
gchar *format_text (const gchar *text);

/* "12,345".  Free it with g_free (). */
gchar *format_count (guint64 n);

#endif
