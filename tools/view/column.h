/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A page's data: columns of numbers, which a browser makes arrays of.  Each number is LEB128, most
 * of them a byte, and what is compressed. */

#ifndef COLUMN_H
#define COLUMN_H

#include <glib.h>

typedef enum
{
  COLUMN_PLAIN,       /* numbers */
  COLUMN_RISING,      /* differences; none is below 0 */
  COLUMN_DIFFERENCES, /* ... whose signs are moved into the lowest bit */
  COLUMN_SIGNED       /* numbers, with such signs */
} ColumnCode;

typedef struct
{
  const gchar *name;
  ColumnCode code;
  guint64 n;
  guint64 latest, max;
  GByteArray *bytes;
} Column;

void column_init (Column *self, const gchar *name, ColumnCode code);
void column_clear (Column *self);
void column_add (Column *self, guint64 number);

/* Adds {"name":...,"code":...,"n":...,"bytes":...,"width":...}: how many bytes a browser takes for
 * a number; 8: a floating point one. */
void column_describe (const Column *self, GString *json);

#endif
