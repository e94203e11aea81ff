/* Tarn: memory pools for OpenCL and CUDA.
 *
 * What is wrong with how a program took it that something failed. */

#ifndef VERDICT_H
#define VERDICT_H

#include "trial.h"

typedef struct
{
  GArray *statuses; /* of gint: exit statuses that are right, 128+N of signal N; NULL: see
                       verdict_find () */
  gboolean ignores_leaks;
  gdouble timeout; /* seconds, for messages */
  const Trial *good;
} Verdict;

/* Whether it is wrong if the trial printed something else than good runs: without statuses of its
 * own, any is right, but 0 says that all went well. */
gboolean verdict_compares_output (const Verdict *verdict, const Trial *trial);

/* NULL: nothing.  Its difference must have been found by then.  Free it with g_free (). */
gchar *verdict_find (const Verdict *verdict, const Trial *trial);

/* What is wrong with the run in which nothing is to fail; nullable, as above. */
gchar *verdict_find_in_good (const Verdict *verdict, const Trial *trial);

#endif
