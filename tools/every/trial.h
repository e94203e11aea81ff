/* Tarn: memory pools for OpenCL and CUDA.
 *
 * One run of a program in which one thing fails, or nothing, and what came of it. */

#ifndef TRIAL_H
#define TRIAL_H

#include "../process.h"
#include "faults.h"

typedef struct _Trial Trial;

struct _Trial
{
  /* What is to fail; NULL: nothing, and all is counted. */
  gchar *call;
  guint64 number;
  gboolean all; /* and all later ones of that name */

  Process *process; /* while it runs */
  gchar *report;    /* the file by which the program is reported on, until it was read */
  gboolean is_done;

  /* Then, and NULL before it was started: */
  ProcessEnd end;
  gint code;
  gchar *error; /* why it could not be run; nullable */
  gint error_code;
  GString *output;     /* its standard output; NULL where nobody compares it */
  gchar *difference;   /* of it from what good runs print; nullable */
  GString *errors;     /* its standard error */
  gboolean has_failed; /* what was to fail did */
  gchar *mistake;      /* the first that TARN_DEBUG found; nullable */
  gchar *leak;         /* ... of leaks; nullable */
  gboolean has_layer;  /* it was loaded */
  guint64 n_buffers;   /* that the program made, as far as the layer has told */
  guint64 n_served;    /* of these, from the layer's pool */
  gboolean has_pool;   /* the layer has a pool: requests and bytes of Tarn's are that one's, too */
  GHashTable *calls; /* name -> guint64 *: how often it was called, by the process that did most */
  GHashTable *left;  /* kind -> guint64 *: what is left at the end, in all processes */

  void (*ended) (Trial *trial, gpointer user_data);
  gpointer user_data;
};

Trial *trial_new (const gchar *call, guint64 number, gboolean all);
void trial_free (Trial *trial);

/* Frees its standard output, of which there may be much. */
void trial_drop_output (Trial *trial);

typedef struct
{
  gchar **program;
  gchar **environment; /* that has the layer's path */
  const gchar *budget; /* nullable */
  const gchar *debug;  /* what the layer looks for, in buffers of its pool; NULL: no pool */
  gdouble timeout;     /* seconds; 0: any */
} TrialSettings;

/* Runs the program; @report: a file that is not there.  Calls @ended when all in it is final. */
void trial_start (Trial *trial, const TrialSettings *settings, const gchar *report,
                  void (*ended) (Trial *trial, gpointer user_data), gpointer user_data);

/* "clCreateBuffer:3", as --fail takes it; free it with g_free (). */
gchar *trial_get_fault (const Trial *trial);

guint64 trial_get_count (GHashTable *counts, const gchar *name);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Trial, trial_free)

#endif
