/* Tarn: memory pools for OpenCL and CUDA.
 *
 * A line that a program printed, split into text and numbers. */

#ifndef LINE_H
#define LINE_H

#include <glib.h>

/* They stand for a number that can be compared, and for one that cannot. */
#define LINE_NUMBER '\x1e'
#define LINE_OPAQUE '\x1f'

typedef struct
{
  gchar *text; /* as printed */
  gdouble value;
  gboolean is_decimal; /* it has a point or an exponent, and is finite */
} LineNumber;

typedef struct
{
  guint number;    /* from 1 */
  gchar *text;     /* as printed */
  gchar *key;      /* the text; spaces count as one, opaque numbers as LINE_OPAQUE */
  gchar *skeleton; /* the key, with LINE_NUMBER for each of the numbers */
  GArray *numbers; /* of LineNumber: those that are not opaque */
} Line;

/* Splits a line.  Opaque numbers are times of day, dates, times since 1970 that are within a day of
 * now, and what a word beside them calls a duration or a rate. */
Line *line_new (guint number, const gchar *text);
void line_free (Line *line);

/* Splits output into lines; an array of Line. */
GPtrArray *lines_new (const GString *output);

#endif
