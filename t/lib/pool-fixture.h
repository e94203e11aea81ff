/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A pool over a device that is a table, and what tests do with this pool, or with any. */

#ifndef TARN_POOL_FIXTURE_H
#define TARN_POOL_FIXTURE_H

#include <tarn/testing.h>

#include "conformance.h"

typedef struct
{
  TarnTestingDevice *device;
  TarnPool *pool; /* NULL: it was dropped */
  GString *log;   /* a letter for each function that was asked */
} PoolFixture;

/* A device of so many bytes, and a pool with the usual options. */
void pool_fixture_init (PoolFixture *fixture, guint64 bytes);
void pool_fixture_tear_down (PoolFixture *fixture, gconstpointer unused);

/* A pool that has a limit, and a name. */
TarnPool *pool_new_limited (TarnAllocator *upstream, gsize limit_bytes);

/* A device of so many bytes, and a pool that may have as many: if the device ever runs out, there
 * were more.  Nothing is in use or on its way at the end. */
void pool_fixture_init_limited (PoolFixture *fixture, gsize bytes);
void pool_fixture_tear_down_limited (PoolFixture *fixture, gconstpointer unused);

/* A pool with this name, or without one. */
TarnPool *pool_new_named (TarnAllocator *upstream, const gchar *name);

/* Allocates a block, as allocate () does, but does not check the pool: that takes its locks. */
TarnBlock *pool_take (TarnPool *pool, gsize size);

/* Has the pool hold a block of each size, in addition to what it holds of others. */
void pool_hold (TarnPool *pool, const gsize *sizes, guint n);

/* PyCUDA's test_mempool: allocates 100 blocks, of which the last 10 are active at any time. */
void pool_slide_window (TarnPool *pool, gsize size);

/* Allocates @n blocks, and frees them. */
void pool_have_at_once (TarnPool *pool, gsize size, guint n);

/* Allocates blocks until memory runs out, and frees them; gives their number. */
guint pool_fill (TarnPool *pool, gsize size);

TarnPoolStats get_stats (TarnPool *pool);

#endif
