/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The report of tarn-test: runs printed as one TAP stream on standard output, and counted. */

#ifndef REPORT_H
#define REPORT_H

#include "run.h"

/* The settings of a report, and its counts.
 *
 * Invariant: the counts never decrease. */
typedef struct
{
  /* Prints all points without indentation, for readers of TAP that do not know subtests. */
  gboolean is_flat;
  /* Also prints the other lines of a program's output, even if all of its points passed. */
  gboolean is_verbose;
  gboolean has_color;
  guint n_top; /* number of points that were printed without indentation */
  guint n[3];  /* for each TapResult, the number of points in all runs */
} Report;

/* Print the beginning of the report, a run that has ended, and the end of the report.  The end has
 * the plan, and the numbers of passed, failed and skipped points. */
void report_begin (Report *report);
void report_run (Report *report, const Run *run);
void report_end (Report *report);

#endif
