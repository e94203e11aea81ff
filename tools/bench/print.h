/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Prints results on standard output, as they come. */

#ifndef PRINT_H
#define PRINT_H

#include "results.h"

/* Settings that are printed, or change how results are printed. */
typedef struct
{
  gdouble seconds;
  guint n_repetitions;
  gboolean has_queues; /* traces were replayed with their queues */
  gboolean has_color;
  gboolean has_tables_only; /* only recordings are measured */
} PrintHead;

/* A format of output.  The functions print the beginning, each row and table, and the end.  @last
 * is the previous row. */
typedef struct
{
  void (*begin) (const PrintHead *head);
  void (*row) (const PrintHead *head, const Result *row, const Result *last /* nullable */);
  void (*table) (const PrintHead *head, const WhatIf *table, gboolean is_first);
  void (*end) (const PrintHead *head, const Results *results);
} Printer;

/* These functions are in print-what-if.c. */
void print_table_text (const PrintHead *head, const WhatIf *table, gboolean is_first);
void print_table_head_csv (void);
void print_table_csv (const PrintHead *head, const WhatIf *table, gboolean is_first);

extern const Printer text_printer;
extern const Printer json_printer;
extern const Printer csv_printer;

#endif
