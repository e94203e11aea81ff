/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Runs a program once for each call that can fail, makes that call fail, and prints as TAP how the
 * program handled it. */

#ifndef EVERY_H
#define EVERY_H

#include <glib.h>

/* The settings of --every, from the command line. */
typedef struct
{
  gchar **program;     /* the program and its arguments */
  gchar **environment; /* the program's environment, which has the layer's path */
  gchar **calls;       /* names of calls; NULL: all calls that the program makes */
  gchar *budget;       /* the memory budget of each run, in bytes; nullable */
  gchar *debug;        /* value of TARN_DEBUG in each run; nullable */
  gboolean all;        /* all later calls of the name fail as well */
  gint jobs;           /* the most runs at a time */
  gint max;            /* the most runs in all; 0: no limit */
  gdouble timeout;     /* time limit of each run, in seconds; 0: none */
  GArray *statuses;    /* gints: exit statuses that are right; NULL: any */
  gboolean ignores_leaks;
} EverySettings;

/* Runs the trials and prints them.  Returns tarn-run's exit status. */
gint every_run (const EverySettings *settings);

#endif
