/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A run: a test program on one device, and its results. */

#ifndef RUN_H
#define RUN_H

#include "devices.h"
#include "process.h"
#include "tap.h"

typedef struct _Run Run;

/* A run of a test program.
 *
 * Invariant: process is NULL before run_start (), and after the program has ended. */
struct _Run
{
  const gchar *program; /* the program's name, as on the command line */
  const gchar *path;    /* the file that is executed */
  const Device *device; /* NULL: there is no device, and the run is skipped */
  gchar *name;          /* program and device, such as "t/opencl/opencl.t on 0:0" */

  Process *process; /* the program's process; NULL unless it runs */
  gdouble timeout;  /* seconds; 0: none */
  Tap *tap;
  GString *errors;  /* the program's standard error */
  GDateTime *start; /* NULL before the start */
  gdouble seconds;
  gchar *problem; /* the problem with the run itself, such as a crash; nullable */
  void (*ended) (Run *run, gpointer user_data);
  gpointer user_data;
};

/* Creates a run.  The texts and the device are borrowed. */
Run *run_new (const gchar *program, const gchar *path, const Device *device);
void run_free (Run *run);

/* Starts the program.  Calls @ended when the results are complete. */
void run_start (Run *run, gdouble timeout, void (*ended) (Run *run, gpointer user_data),
                gpointer user_data);

/* Skips the run: adds one point that is skipped for @reason. */
void run_skip (Run *run, const gchar *reason);

/* Frees the output, which is not needed any more. */
void run_forget_output (Run *run);

/* Tells whether any point failed. */
gboolean run_has_failed (const Run *run);

/* Gets the reason why the whole run was skipped.  Returns NULL if it was not. */
const gchar *run_get_skip_reason (const Run *run);

#endif
