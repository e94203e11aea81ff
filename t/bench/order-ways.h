/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What threads do with queues while the clock runs. */

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
  POOL_ONE,      /* for all threads */
  POOL_LIMITED,  /* ... with a limit of one block */
  POOL_FOR_EACH, /* thread */
} Pools;

/* Rows that differ in how many threads or queues there are. */
typedef struct
{
  const gchar *label; /* NULL: the backend's own */
  Round round;        /* NULL: the backend's own */
  Sizes sizes;
  Pools pools;
  gboolean has_threads; /* 1, 2, 4... of them with a queue each, not one with 1, 2, 8... */
  guint min_queues;
  guint max_queues;
} Way;

/* The first is malloc's, the yardstick. */
extern const Way ways[];
extern const gsize n_ways;

void order_fill_sizes (gsize *sizes, Sizes which, guint thread, guint n_queues);

#endif
