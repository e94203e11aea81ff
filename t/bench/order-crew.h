/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Threads that go a way at the same time, again and again, and the clock. */

#ifndef ORDER_CREW_H
#define ORDER_CREW_H

#include "order-ways.h"

#define MAX_THREADS 64
#define MAX_REPETITIONS 101

typedef struct
{
  const OrderBackend *backend;
  TarnAllocator *allocator;
  gdouble seconds; /* of each repetition; after which rounds are ended */
  guint n_rounds;  /* of each thread in each repetition, without a clock; 0: for so many seconds */
  guint n_repetitions;
} OrderBench;

/* Times are in nanoseconds of a request and its free, as a thread sees them. */
typedef struct
{
  gdouble median, least, most;
  gboolean has_pool, has_calls;
  gdouble waits, misses; /* of the pools, for each request */
  gdouble calls;         /* of the driver, for each request */
} OrderResult;

/* Every thread makes a round of its own before the first repetition. */
gboolean order_measure (const OrderBench *bench, const Way *way, guint n_threads, guint n_queues,
                        OrderResult *result, GError **error);

#endif
