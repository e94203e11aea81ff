/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The report of tarn-test: runs printed as one TAP stream on standard output, and counted. */

#ifndef REPORT_H
#define REPORT_H

#include "run.h"

/* The settings of a report, and its counts.
 *
 * Invariant: the numbers only grow. */
typedef struct
{
  gboolean is_flat;    /* prints every point at the top, for readers without subtests */
  gboolean is_verbose; /* prints also the lines of good runs that are no points */
  gboolean has_color;
  guint n_top; /* points at the top */
  guint n[3];  /* points of all runs with each TapResult */
} Report;

/* Print the beginning, a run that has ended, and the end.  The end has the plan and the sums. */
void report_begin (Report *report);
void report_run (Report *report, const Run *run);
void report_end (Report *report);

#endif
