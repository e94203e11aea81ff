/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What threads do while the clock runs: patterns of allocating and freeing, compiled once for each
 * subject that is measured, so that nothing stands between a loop and the calls. */

#ifndef LOOPS_H
#define LOOPS_H

#include <tarn/tarn.h>

#include "ring.h"

typedef enum
{
  SUBJECT_MALLOC, /* malloc (64) and free () whatever the size: the yardstick */
  SUBJECT_POOL,
  SUBJECT_ORDERED, /* a pool, with requests that name the thread's queue */
  SUBJECT_DRIVER,  /* the functions of a direct allocator */
  N_SUBJECTS
} Subject;

typedef enum
{
  PATTERN_PAIRS,   /* each block is freed before the next is allocated */
  PATTERN_WINDOW,  /* the oldest of WINDOW_BLOCKS makes place for the next */
  PATTERN_ROUNDS,  /* ROUND_BLOCKS are allocated, freed, and given back to the driver */
  PATTERN_PRODUCE, /* blocks go into the ring, and at the end NULL */
  PATTERN_CONSUME, /* ... are taken out and freed, until that comes */
  N_PATTERNS
} Pattern;

#define N_SIZES 1024 /* that a loop takes in turn; a power of two */
#define WINDOW_BLOCKS 64
#define ROUND_BLOCKS 16

/* What a loop works on, of one thread alone but for what is pointed to. */
typedef struct
{
  TarnPool *pool;
  gpointer queue;        /* of SUBJECT_ORDERED */
  TarnAllocator *driver; /* for calls of the driver without a pool */
  const gsize *sizes;    /* N_SIZES of them */
  guint chunk;           /* allocations between two looks at stop */
  const gint *stop;      /* atomic */
  Ring *ring;
  TarnMemory window[WINDOW_BLOCKS]; /* start from all zero bytes */
  guint next;                       /* size */
  GError *error;                    /* that ended the loop */
} Lane;

/* Returns how many blocks were allocated, or consumed, and freed.  It looks at stop only after
 * chunk of them. */
typedef guint64 (*Loop) (Lane *lane);

/* NULL: there is no such loop. */
extern const Loop loops[N_PATTERNS][N_SUBJECTS];

/* What is in the window. */
void loops_clear_window (Lane *lane, Subject subject);

#endif
