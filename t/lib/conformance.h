/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What every kind of memory must do, with a pool and without one: the same tests over the callback
 * fake, over a driver with a layer or a fake in between, and over drivers as they are. */

#ifndef TARN_CONFORMANCE_H
#define TARN_CONFORMANCE_H

#include <tarn/tarn.h>

/* One kind of memory on one device, as a test sees it.  What a backend cannot do is NULL, and what
 * needs it is left to a backend that can. */
typedef struct
{
  /* Has conformance_run () run @test under @path, once for each device; NULL: once, with none. */
  void (*add) (const gchar *path, gconstpointer test);
  /* Makes what the allocators below need (a context, say); NULL with a reason: skip. */
  gpointer (*open) (gconstpointer device, gchar **reason);
  /* Releases it, and ends the test if any memory is still allocated. */
  void (*close) (gpointer state);
  TarnAllocator *(*allocator_new) (gpointer state, GError **error);

  /* Why this driver cannot be called by several threads at a time; NULL where it can. */
  const gchar *(*no_threads) (gconstpointer device);
  /* G_MAXUINT64: as much as there is. */
  void (*set_budget) (gpointer state, guint64 bytes);
  /* The nth driver call from now on fails with out-of-memory; if @for_ever, the ones after it too.
   */
  void (*fail) (gpointer state, guint nth, gboolean for_ever);
  gboolean (*has_failed) (gpointer state); /* whether that came to pass; ends it */
  guint (*live) (gpointer state);          /* pieces of memory allocated from the driver */

  gboolean has_heap; /* set by conformance_add_over_heap () */
} Backend;

/* Ends the test if an invariant of the pool does not hold. */
void assert_valid (TarnPool *pool);

/* A block that there is, from a pool that is valid afterwards. */
TarnBlock *allocate (TarnPool *pool, gsize size);

/* From here on frees of a size record events, as where blocks of it were handed on from queue to
 * queue: other queues are made to wait for these, instead of having fresh memory. */
void hand_on (TarnPool *pool, gsize size);

/* There is none, for a reason of TARN_ERROR's, and the pool is valid afterwards. */
void assert_fails (TarnPool *pool, gsize size, gint code);

/* Adds the tests under @prefix, such as "immediate". */
void conformance_add (const gchar *prefix, const Backend *backend);

/* The same with a heap over the backend's allocators, but for what counts a pool's blocks; they are
 * skipped where there can be none. */
void conformance_add_over_heap (const gchar *prefix, const Backend *backend);
void conformance_run (gconstpointer test, gconstpointer device);

#endif
