/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The verdict on a trial: how the program handled the failed call, and what is wrong with that. */

#ifndef VERDICT_H
#define VERDICT_H

#include "trial.h"

/* Settings and data by which trials are judged. */
typedef struct
{
  GArray *statuses; /* gints: right exit statuses, 128+N for signal N; NULL: all are right, except
                       those of crashes */
  gboolean ignores_leaks;
  gdouble timeout;   /* seconds, for messages */
  const Trial *good; /* a run without a fault */
} Verdict;

/* Tells whether the trial must print the same as good runs.  The trial must do so if no statuses
 * are given and its exit status is 0, because 0 means that all went well. */
gboolean verdict_compares_output (const Verdict *verdict, const Trial *trial);

/* Describes what is wrong with a trial.  Set trial->difference before the call.  Returns NULL if
 * nothing is wrong.  Free it with g_free (). */
gchar *verdict_find (const Verdict *verdict, const Trial *trial);

/* Describes what is wrong with a run without a fault, as verdict_find () does. */
gchar *verdict_find_in_good (const Verdict *verdict, const Trial *trial);

#endif
