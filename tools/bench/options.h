/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The command line of tarn-bench. */

#ifndef OPTIONS_H
#define OPTIONS_H

#include "measures.h"

#define PROGRAM "tarn-bench"

/* The options, as given and as parsed. */
typedef struct
{
  /* NULL: an environment variable selects the devices */
  gchar *selection;
  gchar *kind_list, *measure_list, *thread_list; /* as given; nullable */
  gdouble seconds;
  gint repetitions;
  gchar **trace_paths;
  gboolean queues, one_queue, weave;
  gint64 late;
  gboolean what_if;
  gchar *what_if_list; /* NULL: --what-if has no list */
  gchar *plot;         /* the path of the plot; nullable */
  gboolean json, csv, version;
  gchar **surplus;

  /* The options as parsed */
  gboolean *has_kind;      /* for each of kinds[], TRUE if it is chosen */
  gboolean *has_measure;   /* for each of measures[], TRUE if it is chosen */
  GArray *threads;         /* guints: the numbers of threads */
  GPtrArray *traces;       /* the Traces that were read; with --weave only the woven trace */
  GPtrArray *recordings;   /* recorded programs: elements of type Recorded */
  GPtrArray *alternatives; /* Alternatives; NULL: none */
} Options;

/* Reads the command line, and the traces that it names.  If it has --version, checks no other
 * option and reads no trace. */
gboolean options_parse (Options *options, gint *argc, gchar ***argv, GError **error);
/* Tells whether what-if, the measure that replays recordings, is the only chosen measure. */
gboolean options_have_only_what_if (const Options *options);
void options_clear (Options *options);

#endif
