/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Runs, printed as one TAP stream on standard output, and counted. */

#ifndef REPORT_H
#define REPORT_H

#include "run.h"

typedef struct
{
  gboolean is_flat;    /* every point at the top, for readers that do not see subtests */
  gboolean is_verbose; /* what good runs say beside their points, too */
  gboolean has_color;
  guint n_top; /* points at the top */
  guint n[3];  /* of each TapResult, in all */
} Report;

void report_begin (Report *report);
void report_run (Report *report, const Run *run);
void report_end (Report *report);

#endif
