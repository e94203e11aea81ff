/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A counter: a fake allocator that only counts bytes.  A counter does no other work, so a pool over
 * a counter spends nearly all of its time in the pool's own code. */

#ifndef COUNTER_H
#define COUNTER_H

#include <tarn/tarn.h>

#include "simulated-queues.h"

/* A meter: counts the bytes that several counters have allocated together: now (used), and at the
 * most (peak).
 *
 * Invariant, between calls: used <= peak. */
typedef struct
{
  gsize used; /* atomic */
  gsize peak; /* atomic */
} Meter;

/* Options of a counter. */
typedef struct
{
  gsize budget; /* the most bytes that may be allocated; 0: no limit */
  /* Granularity of virtual memory, in bytes.  0: the counter has sub-buffers instead. */
  gsize granularity;
  gsize part_alignment;    /* alignment of sub-buffers in bytes; 0: the default */
  gboolean releases_parts; /* sub-buffers must be released, as in OpenCL */
  gboolean frees_in_order; /* memory may be freed while queues use it */
  gboolean has_queues;     /* the counter has simulated queues */
  Meter *meter;            /* nullable; the caller owns it, and frees it after the counter */
  /* The queues on which TarnAllocatorOps.event_record_all records an event; nullable */
  SimulatedQueues *all_queues;
} CounterOptions;

/* The granularity of virtual memory on most devices. */
#define COUNTER_GRANULARITY ((gsize) 2 << 20)

/* Changes the budget of a counter; 0: no limit. */
void counter_set_budget (TarnAllocator *counter, gsize budget);

TarnAllocator *counter_new (const CounterOptions *options);

#endif
