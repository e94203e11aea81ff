/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A pool over a heap, on a device with queues. */

#ifndef QUEUES_FIXTURE_H
#define QUEUES_FIXTURE_H

#include <tarn/testing.h>

#include "heap-fixture.h"

typedef struct
{
  TarnTestingOrder *order;
  TarnTestingQueues *queues;
  TarnTestingPages *pages;
  TarnAllocator *heap;
  TarnPool *pool;
  gpointer first, second;
} QueuesFixture;

typedef struct
{
  gboolean is_virtual;
  guint flags;
} QueuesWay;

/* @data: a QueuesWay.  Another fixture; queues_add () sets up the first one. */
void queues_set_up (QueuesFixture *fixture, gconstpointer data);

/* Ends the test if an invariant of the pool or of the heap does not hold. */
void queues_assert_valid (QueuesFixture *fixture);

/* Allocates a block that its queue writes, or the host if @queue is NULL.  Does not check the pool.
 */
TarnBlock *queues_take_unchecked (QueuesFixture *fixture, gsize size, gpointer queue);

/* ... and checks that pool and heap are valid. */
TarnBlock *queues_take (QueuesFixture *fixture, gsize size, gpointer queue);

/* Frees a block.  Pool and heap are valid afterwards. */
void queues_put (QueuesFixture *fixture, TarnBlock *block);

TarnHeapStats queues_get_heap_stats (QueuesFixture *fixture);

/* Counts the waits of queues and of the host. */
guint queues_get_waits (QueuesFixture *fixture);

/* Gets what the heap knows of a queue; NULL: nothing. */
TarnHeapQueue *queues_find (QueuesFixture *fixture, gpointer handle);

/* Skips the test if the backend frees memory in order: then the heap returns it without a wait, and
 * nothing has to stay where it is. */
gboolean queues_skip_in_order (const QueuesWay *way);

/* Names a queue, until a call does so that calls the driver for what its queue has freed. */
void queues_name (QueuesFixture *fixture, gpointer queue);

/* Skips the test if memory can always be freed at once: virtual memory is ready without a command,
 * and some backends free in order. */
gboolean queues_skip_always_ready (const QueuesWay *way);

/* Adds a test for each way to grow, and each kind of queues. */
void queues_add (const gchar *name, void (*test) (QueuesFixture *, gconstpointer));

#endif
