/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Times threads that go the same way at the same time, in several repetitions. */

#ifndef ORDER_CREW_H
#define ORDER_CREW_H

#include "order-ways.h"

#define MAX_THREADS 64
#define MAX_REPETITIONS 101

typedef struct
{
  const OrderBackend *backend;
  TarnAllocator *allocator;
  gdouble seconds; /* for each repetition; the current rounds are finished */
  guint n_rounds;  /* each thread makes them in each repetition, without a clock; 0: use seconds */
  guint n_repetitions;
} OrderBench;

/* A result.  Times are nanoseconds of a request and its free, as seen by a thread. */
typedef struct
{
  gdouble median, least, most;
  gboolean has_pool, has_calls;
  gdouble waits, misses; /* of the pools, per request */
  gdouble calls;         /* of the driver, per request */
} OrderResult;

/* Measures a way.  Every thread makes a round before the first repetition, to warm up. */
gboolean order_measure (const OrderBench *bench, const Way *way, guint n_threads, guint n_queues,
                        OrderResult *result, GError **error);

#endif
