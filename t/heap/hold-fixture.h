/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A pool with a bound of what it caches, over a heap or without one, on a device with queues. */

#ifndef HOLD_FIXTURE_H
#define HOLD_FIXTURE_H

#include <tarn/testing.h>

#include "heap-fixture.h"
#include "lib/pool-fixture.h"
#include "pool/pool-private.h"

typedef struct
{
  gboolean is_virtual;
  gboolean has_heap;
  guint flags;
} HoldWay;

typedef struct
{
  const HoldWay *way;
  gsize hold_bytes;
  TarnTestingOrder *order; /* NULL: there is no heap */
  TarnTestingQueues *queues;
  TarnAllocator *upstream;
  TarnPool *pool;
} HoldFixture;

/* Makes a device, and a pool over it or over a heap. */
void hold_begin (HoldFixture *fixture, const HoldWay *way, gsize hold_bytes,
                 guint thread_cache_blocks);

/* Frees all of it.  Ends the test if memory was used too early. */
void hold_end (HoldFixture *fixture);

/* Allocates a block that its queue writes, or the host if @queue is NULL. */
TarnBlock *hold_take (HoldFixture *fixture, gsize size, gpointer queue);

/* Allocates blocks of a size. */
void hold_take_some (HoldFixture *fixture, gsize size, TarnBlock **blocks, guint n);

void hold_free_some (TarnBlock **blocks, guint n);

/* Has the pool forget a queue, and destroys it. */
void hold_forget_queue (HoldFixture *fixture, gpointer queue);

/* The most bytes that the pool may cache, with so many threads that have used it. */
gsize hold_get_bound (HoldFixture *fixture, guint n_threads);

/* A thread that caches blocks, of multiples of a size. */
typedef struct
{
  HoldFixture *fixture;
  gpointer queue;
  gsize step;
} HoldThread;

/* Allocates and frees blocks of ten sizes.  @data: a HoldThread. */
gpointer hold_fill_cache (gpointer data);

/* Sets the bound of a valid pool, which is valid afterwards. */
void hold_set_bound (HoldFixture *fixture, gsize hold_bytes);

/* Adds a test for each kind of heap and of queues, and without a heap. */
void hold_add (const gchar *name, void (*test) (gconstpointer way));

#endif
