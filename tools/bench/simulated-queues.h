/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Simulated queues, for memory that needs no device.
 *
 * A step is an event of a trace, or a step of a recorded program, in any thread.  On every queue
 * the device is a fixed number of steps behind the host: the lag.  So work is complete when that
 * many steps have begun after the work was put on its queue.  Work is also complete when the host
 * has waited for it, or for later work on the same queue, or when simulated_queues_reach () says
 * so.  A queue is not delayed when it waits for another queue.  The simulation is the same in every
 * replay that makes the same steps in the same order. */

#ifndef SIMULATED_QUEUES_H
#define SIMULATED_QUEUES_H

#include <tarn/tarn.h>

/* The default lag in steps: about as far as a driver lets a program run ahead. */
#define SIMULATED_LAG 1000

typedef struct _SimulatedQueues SimulatedQueues;

SimulatedQueues *simulated_queues_new (guint64 lag);
void simulated_queues_free (SimulatedQueues *queues);

/* Adds an in-order queue, which @queues owns. */
gpointer simulated_queues_add (SimulatedQueues *queues);

/* Begins a replay by @n_threads threads.  The caller must have released all events of earlier
 * replays. */
void simulated_queues_begin (SimulatedQueues *queues, guint n_threads);

/* Counts a step that a thread begins. */
void simulated_queues_step (SimulatedQueues *queues, guint thread);

/* Completes all work that was put on a queue within the first @n_steps steps. */
void simulated_queues_reach (gpointer queue, guint64 n_steps);

/* Records an event on all queues, for TarnAllocatorOps.event_record_all. */
gpointer simulated_queues_record_all (SimulatedQueues *queues);

/* Sets the functions of @ops for queues and events, so that an allocator works with simulated
 * queues.  The functions ignore the allocator's user_data. */
void simulated_queues_set_ops (TarnAllocatorOps *ops);

#endif
