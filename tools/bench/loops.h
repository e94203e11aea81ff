/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Loops that threads run while the clock runs: patterns of allocating and freeing.  Each loop is
 * compiled once for each subject, so that no indirect call stands between a loop and the measured
 * functions. */

#ifndef LOOPS_H
#define LOOPS_H

#include <tarn/tarn.h>

#include "ring.h"

/* The subject of a measurement: the functions that allocate and free the blocks. */
typedef enum
{
  SUBJECT_MALLOC, /* the yardstick: malloc (64) and free (), whatever the size is */
  SUBJECT_POOL,
  SUBJECT_ORDERED, /* a pool, with requests that name the thread's queue */
  SUBJECT_TURNS,   /* a pool, with requests that name many queues in turn */
  SUBJECT_DRIVER,  /* the functions of an allocator, without a pool */
  N_SUBJECTS
} Subject;

/* The pattern of allocating and freeing. */
typedef enum
{
  PATTERN_PAIRS,  /* frees each block before the next one is allocated */
  PATTERN_WINDOW, /* keeps WINDOW_BLOCKS blocks; frees the oldest before it allocates another */
  /* Allocates ROUND_BLOCKS blocks, and frees them all.  A pool then returns them to the driver. */
  PATTERN_ROUNDS,
  PATTERN_PRODUCE, /* puts blocks into a ring, and NULL at the end */
  PATTERN_CONSUME, /* takes blocks from a ring and frees them, until NULL comes */
  N_PATTERNS
} Pattern;

/* The length of the list of sizes that a loop requests in turn; a power of two */
#define N_SIZES 1024
#define WINDOW_BLOCKS 64
#define ROUND_BLOCKS 16

/* The data of a loop.  It belongs to one thread; objects that it points to are shared. */
typedef struct
{
  TarnPool *pool;
  gpointer queue;        /* the thread's queue; only for SUBJECT_ORDERED */
  gpointer *queues;      /* the n_queues queues; only for SUBJECT_TURNS */
  guint n_queues;        /* a power of two */
  guint next_queue;      /* index of the next queue, modulo n_queues */
  TarnAllocator *driver; /* only for SUBJECT_DRIVER */
  const gsize *sizes;    /* the sizes to request in turn: N_SIZES elements */
  guint chunk;           /* number of allocations between two reads of stop */
  const gint *stop;      /* atomic; nonzero tells the loop to stop */
  Ring *ring;
  TarnMemory window[WINDOW_BLOCKS]; /* all zero bytes at first */
  guint next;                       /* the index, in sizes, of the next size */
  GError *error;                    /* the error that ended the loop; nullable */
} Lane;

/* Runs a pattern until lane->stop is set, or an error occurs.  Returns the number of blocks that
 * the loop allocated or, if it only frees blocks, took from the ring. */
typedef guint64 (*Loop) (Lane *lane);

/* The loops.  NULL stands for a pattern that a subject does not have. */
extern const Loop loops[N_PATTERNS][N_SUBJECTS];

/* Frees the blocks in the window. */
void loops_clear_window (Lane *lane, Subject subject);

#endif
