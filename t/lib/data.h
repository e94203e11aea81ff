/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The files in t/data. */

#ifndef TARN_TEST_DATA_H
#define TARN_TEST_DATA_H

#include <glib.h>

/* Calls @func with each line of a file except comments and empty ones.  Returns the number of
 * lines. */
guint data_for_each_row (const gchar *name, void (*func) (const gchar *row, gpointer),
                         gpointer user_data);

#endif
