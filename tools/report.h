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
  /* Prints all points without indentation, for readers that do not know subtests. */
  gboolean is_flat;
  /* Also prints the lines that are no points, even if the run is good. */
  gboolean is_verbose;
  gboolean has_color;
  guint n_top; /* points without indentation */
  guint n[3];  /* for each TapResult, the number of points in all runs */
} Report;

/* Print the beginning of the report, a run that has ended, and the end of the report.  The end has
 * the plan, and the numbers of passed, failed and skipped points. */
void report_begin (Report *report);
void report_run (Report *report, const Run *run);
void report_end (Report *report);

#endif
