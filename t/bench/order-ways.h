/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The ways in which threads use queues while the clock runs. */

#ifndef ORDER_WAYS_H
#define ORDER_WAYS_H

#include "order-rows.h"

typedef enum
{
  SIZES_ONE,  /* REQUEST_SIZE */
  SIZES_OWN,  /* a bin for each queue */
  SIZES_MIXED /* 256 bytes to 4 MiB, evenly spread on a logarithmic scale, shuffled */
} Sizes;

typedef enum
{
  POOL_NONE,
  POOL_ONE,      /* one for all threads */
  POOL_LIMITED,  /* ... with a limit of one block */
  POOL_FOR_EACH, /* one for each thread */
} Pools;

/* A way.  Its rows differ in the number of threads or queues. */
typedef struct
{
  const gchar *label; /* NULL: the backend's own */
  Round round;        /* NULL: the backend's own */
  Sizes sizes;
  Pools pools;
  gboolean has_threads; /* 1, 2, 4... threads with a queue each; else one thread with 1, 2, 8...
                           queues */
  guint min_queues;
  guint max_queues;
} Way;

/* The ways; the first one is the yardstick, malloc (). */
extern const Way ways[];
extern const gsize n_ways;

void order_fill_sizes (gsize *sizes, Sizes which, guint thread, guint n_queues);

#endif
