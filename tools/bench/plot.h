/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Results as a drawing in SVG. */

#ifndef PLOT_H
#define PLOT_H

#include "print.h"

/* Draws a chart for each kind of memory, and a chart for each trace.  The chart of a kind shows how
 * the costs depend on the number of threads.  The chart of a trace shows the managed and active
 * bytes over time.  The caption names the settings and the machine.  Returns SVG; free it with
 * g_free (). */
gchar *plot_format (const Results *results, const PrintHead *head);

#endif
