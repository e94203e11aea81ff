/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Results as a drawing. */

#ifndef PLOT_H
#define PLOT_H

#include "print.h"

/* SVG: for each kind of memory what its measures cost over the number of threads, and for each
 * trace its managed and active bytes over time; what it was measured with and on.  Free it with
 * g_free (). */
gchar *plot_format (const Results *results, const PrintHead *head);

#endif
