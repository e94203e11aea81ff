/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Prints cells of comma-separated values. */

#ifndef PRINT_CSV_H
#define PRINT_CSV_H

#include <glib.h>

/* Prints a text and a comma. */
void csv_print_text (const gchar *text);
/* Prints a number with a point in every locale, and then @end.  A number that is not finite is left
 * empty. */
void csv_print_number (gdouble value, const gchar *end);

#endif
