/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Computes spreads. */

#include "spread.h"

#include <stdlib.h>

static gint
compare (gconstpointer a, gconstpointer b)
{
  gdouble left = *(const gdouble *) a, right = *(const gdouble *) b;

  return left < right ? -1 : left > right;
}

Spread
spread_of (gdouble *values, guint n)
{
  g_assert (n > 0);
  qsort (values, n, sizeof *values, compare);
  return (Spread){ .median = (values[(n - 1) / 2] + values[n / 2]) / 2,
                   .min = values[0],
                   .max = values[n - 1] };
}

Spread
spread_of_one (gdouble value)
{
  return (Spread){ value, value, value };
}
