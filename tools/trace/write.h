/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Formats values for output. */

#ifndef WRITE_H
#define WRITE_H

#include <glib.h>
#include <stdio.h>

/* Writes a text as a JSON string; NULL as null.  It escapes all characters that a terminal acts
 * on. */
void write_json_text (FILE *file, const gchar *text);

/* Writes nanoseconds as microseconds with three decimals. */
void write_microseconds (FILE *file, guint64 nanoseconds);

/* Formats bytes for people, such as "12.3 MiB".  Free it with g_free (). */
gchar *format_bytes (guint64 bytes);

/* Formats a text of a recording: on one line, without characters that a terminal acts on.  Free it
 * with g_free (). */
gchar *format_text (const gchar *text);

/* Formats a number with commas, such as "12,345".  Free it with g_free (). */
gchar *format_count (guint64 n);

#endif
