/* Tarn: memory pools for OpenCL and CUDA.
 *
 * Runs a program once for each call that can fail, with that one failing, and prints as TAP how it
 * took it. */

#ifndef EVERY_H
#define EVERY_H

#include <glib.h>

typedef struct
{
  gchar **program;     /* with its arguments */
  gchar **environment; /* that has the layer's path */
  gchar **calls;       /* names; NULL: all that the program makes */
  gchar *budget;       /* nullable: in each run */
  gchar *debug;        /* nullable: what is looked for in each run */
  gboolean all;        /* all later calls of the name fail as well */
  gint jobs;           /* runs at once */
  gint max;            /* runs; 0: all */
  gdouble timeout;     /* seconds of a run; 0: any */
  GArray *statuses;    /* of gint: exit statuses that are right; NULL: any */
  gboolean ignores_leaks;
} EverySettings;

/* Gets our exit status. */
gint every_run (const EverySettings *settings);

#endif
