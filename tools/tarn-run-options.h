/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The command line of tarn-run. */

#ifndef TARN_RUN_OPTIONS_H
#define TARN_RUN_OPTIONS_H

#include "every/every.h"
#include "every/faults.h"

/* The options.  A text that is NULL was not given, and the environment decides. */
typedef struct
{
  gchar *limit; /* nullable */
  gchar *trace; /* nullable */
  gchar *debug; /* value of TARN_DEBUG; nullable */
  Faults faults;
  gboolean no_pool, stats, help, version;
  gboolean every;
  gchar *every_calls; /* names with commas between them; nullable */
  gchar *expected;    /* exit statuses; nullable */
  EverySettings each; /* settings for --every */
  gchar **program;    /* the program and its arguments */
} Options;

/* Reads the command line.  Returns FALSE with an error if it is wrong.  Call options_clear () in
 * any case. */
gboolean options_read (Options *options, gint *argc, gchar ***argv, GError **error);
void options_clear (Options *options);

/* Prints the version or the help.  Returns the exit status. */
gint options_print_about (Options *options);

/* Tells whether the program is run with --every. */
gboolean options_run_every (const Options *options);

#endif
