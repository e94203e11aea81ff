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
} PrintHead;

/* A form of output: its beginning, each row, and its end, after which nothing is printed. */
typedef struct
{
  void (*begin) (const PrintHead *head);
  void (*row) (const PrintHead *head, const Result *row, const Result *last /* NULL: the first */);
  void (*end) (const PrintHead *head, const Results *results);
} Printer;

extern const Printer text_printer;
extern const Printer json_printer;
extern const Printer csv_printer;

#endif
