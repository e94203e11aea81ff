/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A crew: threads that run a loop at the same time, while the clock runs. */

#ifndef CREW_H
#define CREW_H

#include "kinds.h"
#include "loops.h"

/* The sizes of the blocks that a loop allocates. */
typedef enum
{
  SIZES_ONE,  /* all blocks have ONE_SIZE bytes */
  SIZES_MIXED /* N_MIXED_SIZES sizes, each equally often; their logarithms are evenly spaced */
} Sizes;

#define ONE_SIZE ((gsize) 64 << 10)
#define N_MIXED_SIZES 64
#define MIN_MIXED_SIZE ((gsize) 256)
#define MAX_MIXED_SIZE ((gsize) 4 << 20) /* a small size, so that blocks do not fill a device */

/* A job: the loop that is measured. */
typedef struct
{
  const Source *source;
  TarnPool *pool; /* NULL if the subject is not a pool */
  Subject subject;
  /* With PATTERN_PRODUCE, threads 0, 2, ... produce, and threads 1, 3, ... consume. */
  Pattern pattern;
  Sizes sizes;
  guint n_threads;
  gdouble seconds;
  gboolean has_one_queue; /* all threads share one queue */
  /* Only for SUBJECT_TURNS, which has one thread: the number of queues that the thread's requests
   * name in turn; a power of two */
  guint n_queues;
} Job;

/* Runs a job.  Every thread first runs its loop once, to fill pools and caches.  Then all threads
 * start the timed loop together, and stop after job->seconds.
 *
 * Stores in @ns the nanoseconds that a thread takes for one block.  If one thread allocates a block
 * and another one frees it, the two count as one thread.  Call crew_run () in the thread that
 * called source_open (). */
gboolean crew_run (const Job *job, gdouble *ns, GError **error);

/* Computes the most bytes that a thread of a PATTERN_WINDOW job has allocated at a time. */
guint64 crew_get_window_peak (const Job *job, guint thread);

/* Gets the monotonic time in nanoseconds. */
gint64 clock_now (void);

#endif
