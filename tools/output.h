/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Standard output: a tool fails if its output cannot be written. */

#ifndef OUTPUT_H
#define OUTPUT_H

#include <glib.h>

/* Guards standard output: ends the program with status 1 and a message that names it if standard
 * output is closed now, or if not everything was written at the end.  Call it first in main (),
 * before a driver opens a file with the number of a closed one. */
void output_guard (const gchar *program);

#endif
