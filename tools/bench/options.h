/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What the command line of tarn-bench says. */

#ifndef OPTIONS_H
#define OPTIONS_H

#include "measures.h"

#define PROGRAM "tarn-bench"

typedef struct
{
  gchar *selection;                              /* nullable: the environment */
  gchar *kind_list, *measure_list, *thread_list; /* as they were given; nullable */
  gdouble seconds;
  gint repetitions;
  gchar **trace_paths;
  gboolean queues, one_queue, weave;
  gint64 late;
  gboolean what_if;
  gchar *what_if_list; /* NULL: none was given */
  gchar *plot;         /* a file; nullable */
  gboolean json, csv, version;
  gchar **surplus;

  /* What that means */
  gboolean *has_kind;    /* of each of kinds[] */
  gboolean *has_measure; /* of each of measures[] */
  GArray *threads;       /* of guint */
  GPtrArray *traces;     /* of Trace: those that were read, or the one that they were woven into */
  GPtrArray *recordings; /* of Recorded */
  GPtrArray *alternatives; /* of Alternative; NULL: none */
} Options;

/* Nothing but --version is left to do where that was given. */
gboolean options_parse (Options *options, gint *argc, gchar ***argv, GError **error);
/* Whether recordings are all that is to be replayed or measured. */
gboolean options_have_only_what_if (const Options *options);
void options_clear (Options *options);

#endif
