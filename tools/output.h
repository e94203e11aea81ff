/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Standard output, of which nothing is lost silently. */

#ifndef OUTPUT_H
#define OUTPUT_H

#include <glib.h>

/* Ends the program with status 1, and a message that names it, where standard output is closed now,
 * or where not all could be written to it by the end.  Called first in main (), before a driver
 * opens a file in the place of a closed one. */
void output_guard (const gchar *program);

#endif
