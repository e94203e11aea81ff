/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A crew: threads that run a loop at the same time, while the clock runs. */

#ifndef CREW_H
#define CREW_H

#include "kinds.h"
#include "loops.h"

/* The sizes of blocks. */
typedef enum
{
  SIZES_ONE,  /* ONE_SIZE */
  SIZES_MIXED /* N_MIXED_SIZES, evenly spread on a logarithmic scale, equally often */
} Sizes;

#define ONE_SIZE ((gsize) 64 << 10)
#define N_MIXED_SIZES 64
#define MIN_MIXED_SIZE ((gsize) 256)
#define MAX_MIXED_SIZE ((gsize) 4 << 20) /* fills no device */

/* A job: the loop that is measured. */
typedef struct
{
  const Source *source;
  TarnPool *pool; /* NULL if the subject is not a pool */
  Subject subject;
  Pattern pattern; /* PATTERN_PRODUCE: of every other thread; the next one consumes */
  Sizes sizes;
  guint n_threads;
  gdouble seconds;
  gboolean has_one_queue; /* all threads share it */
} Job;

/* Runs a job; call it in the thread that opened the source.  Every thread first runs its loop once,
 * to fill pools and caches.  Then all start together, and stop after job->seconds.  Stores the
 * nanoseconds of one block as seen by a thread, or by a pair of threads if one allocates and the
 * other frees. */
gboolean crew_run (const Job *job, gdouble *ns, GError **error);

/* Computes the most bytes that a thread has in its window. */
guint64 crew_get_window_peak (const Job *job, guint thread);

/* Gets the monotonic time in nanoseconds. */
gint64 clock_now (void);

#endif
