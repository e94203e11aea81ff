/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The spread of several repetitions of a measurement. */

#ifndef SPREAD_H
#define SPREAD_H

#include <glib.h>

/* A spread: the median, the least and the greatest of several values.
 *
 * Invariant: min <= median <= max. */
typedef struct
{
  gdouble median, min, max;
} Spread;

/* Computes the spread of at least one value.  Sorts the values. */
Spread spread_of (gdouble *values, guint n);
Spread spread_of_one (gdouble value);

#endif
