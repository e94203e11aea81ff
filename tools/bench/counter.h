/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memory that is a counter: what a pool over it costs is the pool's own. */

#ifndef COUNTER_H
#define COUNTER_H

#include <tarn/tarn.h>

#include "simulated-queues.h"

/* Bytes that counters have given, of all that share it. */
typedef struct
{
  gsize used; /* atomic */
  gsize peak; /* atomic */
} Meter;

typedef struct
{
  gsize budget;                /* bytes; 0: as many as are asked for */
  gsize granularity;           /* of virtual memory; 0: it has parts instead */
  gsize part_alignment;        /* 0: the usual one */
  gboolean releases_parts;     /* parts have to be given back, as OpenCL's do */
  gboolean frees_in_order;     /* memory may be given back while queues use it */
  gboolean has_queues;         /* simulated ones */
  Meter *meter;                /* nullable; of the caller's, and lives longer */
  SimulatedQueues *all_queues; /* events are recorded of all of them; nullable */
} CounterOptions;

/* What virtual memory of most devices is given in. */
#define COUNTER_GRANULARITY ((gsize) 2 << 20)

/* Bytes that a counter has from now on; 0: as many as are asked for. */
void counter_set_budget (TarnAllocator *counter, gsize budget);

TarnAllocator *counter_new (const CounterOptions *options);

#endif
