/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Queues of memory that needs no device.
 *
 * The device is always so many steps behind the host, on every queue, where a step is one
 * allocation or free of a trace, whichever thread makes it.  So what was put on a queue is done
 * once so many steps have begun after it, or once the host has waited for it, or for what was put
 * on the same queue later.  A queue that waits for another one loses nothing by it: what comes
 * before in the trace is done before.  It is the same in every replay that makes the same steps in
 * the same order. */

#ifndef SIMULATED_QUEUES_H
#define SIMULATED_QUEUES_H

#include <tarn/tarn.h>

/* Steps, where nobody says how many: of the order of what a driver lets a program be ahead. */
#define SIMULATED_LAG 1000

typedef struct _SimulatedQueues SimulatedQueues;

SimulatedQueues *simulated_queues_new (guint64 lag);
void simulated_queues_free (SimulatedQueues *queues);

/* An in-order queue, which belongs to @queues. */
gpointer simulated_queues_add (SimulatedQueues *queues);

/* A replay by so many threads begins.  Nobody has an event of an earlier one. */
void simulated_queues_begin (SimulatedQueues *queues, guint n_threads);

/* The thread of this number begins a step. */
void simulated_queues_step (SimulatedQueues *queues, guint thread);

/* All that was put on a queue by the end of so many steps is done, as far as they have begun. */
void simulated_queues_reach (gpointer queue, guint64 n_steps);

/* An event of all queues, as TarnAllocatorOps.event_record_all makes it. */
gpointer simulated_queues_record_all (SimulatedQueues *queues);

/* What an allocator needs to order memory on such queues, whatever its user_data is. */
void simulated_queues_set_ops (TarnAllocatorOps *ops);

#endif
