/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Threads that run a loop at the same time, and the clock. */

#ifndef CREW_H
#define CREW_H

#include "kinds.h"
#include "loops.h"

typedef enum
{
  SIZES_ONE,  /* ONE_SIZE */
  SIZES_MIXED /* N_MIXED_SIZES, evenly spread on a logarithmic scale, each as often as any other */
} Sizes;

#define ONE_SIZE ((gsize) 64 << 10)
#define N_MIXED_SIZES 64
#define MIN_MIXED_SIZE ((gsize) 256)
#define MAX_MIXED_SIZE ((gsize) 4 << 20) /* so that no device is filled */

/* What is to be measured. */
typedef struct
{
  const Source *source;
  TarnPool *pool; /* NULL where the subject is another */
  Subject subject;
  Pattern pattern; /* PATTERN_PRODUCE: by every other thread, for the one after it that consumes */
  Sizes sizes;
  guint n_threads;
  gdouble seconds;
  gboolean has_one_queue; /* for all threads */
} Job;

/* In the thread that opened the source.  Every thread runs its loop once, to fill pools and caches;
 * then all start together, and stop after so many seconds.  Stores the nanoseconds of one block, as
 * a thread sees it, or as a pair of threads does that hand blocks on. */
gboolean crew_run (const Job *job, gdouble *ns, GError **error);

/* Reckons the most bytes that a thread has in its window. */
guint64 crew_get_window_peak (const Job *job, guint thread);

gint64 clock_now (void); /* nanoseconds */

#endif
