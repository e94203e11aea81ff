/* Tarn: memory pools for OpenCL and CUDA.
 *
 * Runs a program once for each call that can fail, makes that call fail, and prints as TAP how the
 * program handled it. */

#ifndef EVERY_H
#define EVERY_H

#include <glib.h>

/* Settings from the command line. */
typedef struct
{
  gchar **program;     /* with its arguments */
  gchar **environment; /* has the layer's path */
  gchar **calls;       /* names; NULL: all that the program calls */
  gchar *budget;       /* bytes of each run; nullable */
  gchar *debug;        /* value of TARN_DEBUG in each run; nullable */
  gboolean all;        /* all later calls of the name fail as well */
  gint jobs;           /* runs at once */
  gint max;            /* runs in all; 0: no limit */
  gdouble timeout;     /* seconds of each run; 0: none */
  GArray *statuses;    /* gints: exit statuses that are right; NULL: any */
  gboolean ignores_leaks;
} EverySettings;

/* Runs the trials and prints them.  Returns tarn-run's exit status. */
gint every_run (const EverySettings *settings);

#endif
