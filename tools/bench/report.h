/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Results that are printed as soon as they are known, so that whoever loses patience loses nothing
 * that was measured. */

#ifndef REPORT_H
#define REPORT_H

#include <pthread.h>

#include "print.h"

/* All fields are the lock's. */
typedef struct
{
  pthread_mutex_t lock;
  const Printer *printer; /* NULL: it has not begun */
  PrintHead head;
  const gchar *plot; /* a file; nullable */
  Results *results;  /* all that was printed */
  gboolean has_ended;
  gboolean is_plotted; /* or there was nothing to draw */
} Report;

void report_init (Report *report);
void report_begin (Report *report, const Printer *printer, const PrintHead *head,
                   const gchar *plot);

/* Prints what was measured, and takes it out of @measured, which the caller's thread alone has. */
void report_take (Report *report, Results *measured);

/* Prints what comes last and draws the plot, once; what begins or is taken later is not printed.
 * Any thread may call it.  FALSE: the plot could not be written, which was said. */
gboolean report_end (Report *report);

#endif
