/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Results as a drawing in SVG. */

#ifndef PLOT_H
#define PLOT_H

#include "print.h"

/* Draws a chart for each kind of memory, and a chart for each trace.  A kind's chart has the costs
 * by the number of threads.  A trace's chart has the managed and active bytes over time.  The
 * caption names settings and machine.  Free it with g_free (). */
gchar *plot_format (const Results *results, const PrintHead *head);

#endif
