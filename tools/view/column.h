/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Columns: the numbers of a page.  A browser makes an array from each column.  Each number is
 * written as LEB128, usually in one byte.  The bytes of all columns are compressed. */

#ifndef COLUMN_H
#define COLUMN_H

#include <glib.h>

/* The encoding of a column's numbers. */
typedef enum
{
  COLUMN_PLAIN,       /* each number as it is */
  COLUMN_RISING,      /* each number minus the previous one; the numbers never decrease */
  COLUMN_DIFFERENCES, /* each number minus the previous one, with the sign in the lowest bit */
  COLUMN_SIGNED       /* each number as it is, with its sign in the lowest bit */
} ColumnCode;

/* A column.
 *
 * Invariant: latest <= max, and latest never decreases with COLUMN_RISING. */
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

/* Appends {"name":...,"code":...,"n":...,"bytes":...,"width":...}.  The width is the number of
 * bytes of a number in the browser's array; 8 stands for floating point. */
void column_describe (const Column *self, GString *json);

#endif
