/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A line that a program printed, split into text and numbers. */

#ifndef LINE_H
#define LINE_H

#include <glib.h>

/* The characters that stand for numbers.  LINE_NUMBER stands for a number that is compared, and
 * LINE_OPAQUE for one that is not (an opaque number). */
#define LINE_NUMBER '\x1e'
#define LINE_OPAQUE '\x1f'

/* A number of a line. */
typedef struct
{
  gchar *text; /* as printed */
  gdouble value;
  gboolean is_decimal; /* it has a point or an exponent, and is finite */
} LineNumber;

/* A line of output.
 *
 * Invariant: the skeleton has as many LINE_NUMBERs as there are numbers. */
typedef struct
{
  guint number;    /* the line number in the output, from 1 */
  gchar *text;     /* as printed */
  gchar *key;      /* the text, with single spaces, and LINE_OPAQUE for each opaque number */
  gchar *skeleton; /* the key, with LINE_NUMBER for each of the numbers */
  GArray *numbers; /* LineNumbers: those that are not opaque */
} Line;

/* Splits a line.  These numbers are opaque: times of day, dates, times since 1970 that are within a
 * day of now, and numbers that a word beside them calls a duration or a rate. */
Line *line_new (guint number, const gchar *text);
void line_free (Line *line);

/* Splits output into an array of Lines. */
GPtrArray *lines_new (const GString *output);

#endif
