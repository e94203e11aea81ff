/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A test program's run on one device, and what came of it. */

#ifndef RUN_H
#define RUN_H

#include "devices.h"
#include "process.h"
#include "tap.h"

typedef struct _Run Run;

struct _Run
{
  const gchar *program; /* as it was given */
  const gchar *path;    /* what is run */
  const Device *device; /* NULL: there is none, so it is not run */
  gchar *name;          /* "t/opencl/opencl.t on 0:0" */

  Process *process; /* while it runs */
  gdouble timeout;  /* seconds; 0: none */
  Tap *tap;
  GString *errors;  /* standard error, as it came */
  GDateTime *start; /* nullable: not yet */
  gdouble seconds;
  gchar *problem; /* what went wrong beside its points; nullable */
  void (*ended) (Run *run, gpointer user_data);
  gpointer user_data;
};

Run *run_new (const gchar *program, const gchar *path, const Device *device);
void run_free (Run *run);

/* Calls @ended when everything in it is final. */
void run_start (Run *run, gdouble timeout, void (*ended) (Run *run, gpointer user_data),
                gpointer user_data);

/* What is left to do where there is nothing to run it on: one point that is skipped. */
void run_skip (Run *run, const gchar *reason);

/* What it printed is not asked for again. */
void run_forget_output (Run *run);

gboolean run_has_failed (const Run *run);

/* Why all of it was skipped; NULL: it was not. */
const gchar *run_get_skip_reason (const Run *run);

#endif
