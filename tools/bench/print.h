/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Results on standard output, as they come. */

#ifndef PRINT_H
#define PRINT_H

#include "results.h"

typedef struct
{
  gdouble seconds;
  guint n_repetitions;
  gboolean has_queues; /* traces were replayed with theirs */
  gboolean has_color;
  gboolean has_tables_only; /* nothing else was to be measured */
} PrintHead;

/* A form of output: its beginning, each row and table, and its end, after which nothing is printed.
 */
typedef struct
{
  void (*begin) (const PrintHead *head);
  void (*row) (const PrintHead *head, const Result *row, const Result *last /* NULL: the first */);
  void (*table) (const PrintHead *head, const WhatIf *table, gboolean is_first);
  void (*end) (const PrintHead *head, const Results *results);
} Printer;

/* In print-what-if.c */
void print_table_text (const PrintHead *head, const WhatIf *table, gboolean is_first);
void print_table_head_csv (void);
void print_table_csv (const PrintHead *head, const WhatIf *table, gboolean is_first);

extern const Printer text_printer;
extern const Printer json_printer;
extern const Printer csv_printer;

#endif
