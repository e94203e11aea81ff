/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Standard output: a tool fails if its output cannot be written. */

#ifndef OUTPUT_H
#define OUTPUT_H

#include <glib.h>

/* Guards standard output.  Ends the program with status 1 and a message that begins with @program
 * if standard output is closed now, or if not everything was written at the end.  Call it first in
 * main ().  Otherwise a driver may open a file that gets the number of the closed standard
 * output. */
void output_guard (const gchar *program);

#endif
