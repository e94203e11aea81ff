/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The report of tarn-bench: results are printed as soon as they are known, so that an interrupted
 * run loses none. */

#ifndef REPORT_H
#define REPORT_H

#include <pthread.h>

#include "print.h"

/* A report.  The lock protects all fields. */
typedef struct
{
  pthread_mutex_t lock;
  const Printer *printer; /* NULL before report_begin () */
  PrintHead head;
  const gchar *plot; /* the path of the plot; nullable */
  Results *results;  /* all results that were printed */
  gboolean has_ended;
  gboolean is_plotted; /* FALSE: the plot could not be written */
} Report;

void report_init (Report *report);
void report_begin (Report *report, const Printer *printer, const PrintHead *head,
                   const gchar *plot);

/* Prints the results in @measured, and moves them to the report.  @measured belongs to the caller's
 * thread. */
void report_take (Report *report, Results *measured);

/* Prints the end and draws the plot, once.  Later calls print nothing.  Any thread may call it.
 * Returns FALSE, after a message, if the plot could not be written. */
gboolean report_end (Report *report);

#endif
