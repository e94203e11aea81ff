/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Cells of comma-separated values. */

#ifndef PRINT_CSV_H
#define PRINT_CSV_H

#include <glib.h>

/* With the comma behind it. */
void csv_print_text (const gchar *text);
/* With a point, whatever the locale; empty: there is none. */
void csv_print_number (gdouble value, const gchar *end);

#endif
