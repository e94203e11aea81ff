/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Results on standard output. */

#ifndef PRINT_H
#define PRINT_H

#include "results.h"

typedef struct
{
  gdouble seconds;
  guint n_repetitions;
} PrintHead;

void print_text (const Results *results, const PrintHead *head, gboolean has_color);
void print_json (const Results *results, const PrintHead *head);
void print_csv (const Results *results);

#endif
