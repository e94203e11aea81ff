/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What several repetitions of a measurement gave. */

#ifndef SPREAD_H
#define SPREAD_H

#include <glib.h>

typedef struct
{
  gdouble median, min, max;
} Spread;

/* Of at least one value, which it sorts. */
Spread spread_of (gdouble *values, guint n);
Spread spread_of_one (gdouble value);

#endif
