/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Prints cells of comma-separated values. */

#ifndef PRINT_CSV_H
#define PRINT_CSV_H

#include <glib.h>

/* Prints a text and a comma. */
void csv_print_text (const gchar *text);
/* Prints a number and then @end.  Writes a decimal point in every locale.  If the number is not
 * finite, prints only @end. */
void csv_print_number (gdouble value, const gchar *end);

#endif
