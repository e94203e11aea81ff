/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A trial: one run of a program in which one call fails, or no call fails, and the results of the
 * run. */

#ifndef TRIAL_H
#define TRIAL_H

#include "../process.h"
#include "faults.h"

typedef struct _Trial Trial;

/* A run of the program.
 *
 * Invariant: process is not NULL only while the program runs.  is_done is set when the program
 * ends, or could not be started.  If call is not NULL, number >= 1. */
struct _Trial
{
  /* The call that fails.  NULL: none fails, and all are counted. */
  gchar *call;
  guint64 number;
  gboolean all; /* all later calls of that name fail as well */

  Process *process; /* the program's process; NULL unless it runs */
  /* The file into which the OpenCL layer and Tarn's core library report; NULL after it was read */
  gchar *report;
  gboolean is_done;

  /* The results.  Pointers are NULL before the trial was started. */
  ProcessEnd end;
  gint code;
  gchar *error; /* why the program could not be run; nullable */
  gint error_code;
  GString *output;     /* the program's standard output; NULL when it is not needed any more */
  gchar *difference;   /* a line of output that differs from good runs; nullable */
  GString *errors;     /* the program's standard error */
  gboolean has_failed; /* the call that was to fail has failed */
  gchar *mistake;      /* the first mistake that TARN_DEBUG found; nullable */
  gchar *leak;         /* the first leak that TARN_DEBUG found; nullable */
  gboolean has_layer;  /* the program loaded the layer */
  guint64 n_buffers;   /* number of buffers that the program created, as the layer reported */
  guint64 n_served;    /* number of buffers that the layer's pool served, as the layer reported */
  gboolean has_pool;   /* the layer's pool served something, so Tarn's counts include that pool's
                          requests and bytes */
  /* Maps a call's name to a guint64 *: how many times the call was made, in the process that made
   * it most often */
  GHashTable *calls;
  /* Maps a kind of object to a guint64 *: how many objects of the kind all processes together left
   * at the end */
  GHashTable *left;

  void (*ended) (Trial *trial, gpointer user_data);
  gpointer user_data;
};

/* Creates a trial in which call @number of the name @call fails.  If @all, all later calls of the
 * name fail, too. */
Trial *trial_new (const gchar *call, guint64 number, gboolean all);
void trial_free (Trial *trial);

/* Frees the program's standard output, which may be long. */
void trial_drop_output (Trial *trial);

/* Settings that all trials of a program have in common. */
typedef struct
{
  gchar **program;     /* the program and its arguments */
  gchar **environment; /* the program's environment, which has the layer's path */
  const gchar *budget; /* nullable */
  const gchar *debug;  /* value of TARN_DEBUG for the layer's pool; NULL: no pool */
  gdouble timeout;     /* seconds; 0: none */
} TrialSettings;

/* Starts the program.  Layer and core report into the file @report, which must not exist.  Calls
 * @ended when the results are complete, which may be before trial_start () returns. */
void trial_start (Trial *trial, const TrialSettings *settings, const gchar *report,
                  void (*ended) (Trial *trial, gpointer user_data), gpointer user_data);

/* Gets the fault in the form of the option --fail, such as "clCreateBuffer:3".  Free it with
 * g_free (). */
gchar *trial_get_fault (const Trial *trial);

/* Gets the count that trial->calls or trial->left has for a name.  Returns 0 if the table does not
 * have the name. */
guint64 trial_get_count (GHashTable *counts, const gchar *name);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Trial, trial_free)

#endif
