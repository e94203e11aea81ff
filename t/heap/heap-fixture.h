/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A heap over a device that is a table, with virtual memory or with parts. */

#ifndef HEAP_FIXTURE_H
#define HEAP_FIXTURE_H

#include <tarn/testing.h>

#include "heap/heap-private.h"

#define KIB ((gsize) 1 << 10)
#define MIB ((gsize) 1 << 20)
#define GIB ((gsize) 1 << 30)

typedef struct
{
  gboolean is_virtual;
  TarnTestingPages *pages;
  TarnAllocator *upstream; /* no reference: the heap's */
  TarnAllocator *heap;
} HeapFixture;

/* @is_virtual as a pointer.  The device never runs out.  Whatever is left at the end ends the test.
 */
void heap_set_up (HeapFixture *fixture, gconstpointer is_virtual);
void heap_tear_down (HeapFixture *fixture, gconstpointer is_virtual);

/* Another heap, with these options. */
void heap_renew (HeapFixture *fixture, const TarnHeapOptions *options);

/* Ends the test if an invariant does not hold. */
void heap_assert_valid (HeapFixture *fixture);
TarnHeapStats heap_get_stats (HeapFixture *fixture);

/* Memory that can be used, from a heap that is valid afterwards. */
TarnMemory heap_take (HeapFixture *fixture, gsize size);
void heap_put (HeapFixture *fixture, TarnMemory memory, gsize size);
/* There is none, for a reason of TARN_ERROR's. */
void heap_assert_fails (HeapFixture *fixture, gsize size, gint code);

/* The extent behind memory in use. */
const TarnExtent *heap_get_extent (HeapFixture *fixture, TarnMemory memory);

/* Stops the clock of Tarn at this time, until tarn_clock_set (NULL). */
void heap_stop_clock (gint64 time);
void heap_pass_time (gint64 span);

/* Adds a test for each way to grow. */
void heap_add (const gchar *path, void (*test) (HeapFixture *, gconstpointer));

#endif
