/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Conformance tests for every kind of memory, with a pool and without one.  The same tests run over
 * the callback fake, over a driver with a layer or a fake in between, and over real drivers. */

#ifndef TARN_CONFORMANCE_H
#define TARN_CONFORMANCE_H

#include <tarn/tarn.h>

/* A kind of memory on a device.  Functions that a backend does not have are NULL; tests that need
 * them are left out. */
typedef struct
{
  /* Adds a test that calls conformance_run () under @path once for each device.  NULL: once,
   * without a device. */
  void (*add) (const gchar *path, gconstpointer test);
  /* Creates the state that the allocators below need, such as a context.  NULL with a reason: the
   * test is skipped. */
  gpointer (*open) (gconstpointer device, gchar **reason);
  /* Releases it, and ends the test if any memory is still allocated. */
  void (*close) (gpointer state);
  TarnAllocator *(*allocator_new) (gpointer state, GError **error);

  /* Gets the reason why this driver cannot be called by several threads at a time.  Returns NULL if
   * it can. */
  const gchar *(*no_threads) (gconstpointer device);
  /* Sets the memory budget; G_MAXUINT64: no limit. */
  void (*set_budget) (gpointer state, guint64 bytes);
  /* Makes the nth driver call from now on fail with out-of-memory, and if @for_ever all later
   * ones. */
  void (*fail) (gpointer state, guint nth, gboolean for_ever);
  gboolean (*stop_failing) (gpointer state); /* returns whether a call has failed */
  guint (*live) (gpointer state);            /* allocations of the driver that are not freed */

  gboolean has_heap; /* set by conformance_add_over_heap () */
} Backend;

/* Ends the test if an invariant of the pool does not hold. */
void assert_valid (TarnPool *pool);

/* Allocates a block.  Ends the test if that fails, or if the pool is not valid afterwards. */
TarnBlock *allocate (TarnPool *pool, gsize size);

/* From here on frees of a size record events, as where blocks of it were handed on from queue to
 * queue: other queues are made to wait for these, instead of having fresh memory. */
void hand_on (TarnPool *pool, gsize size);

/* Ends the test unless a request fails with this code of TARN_ERROR and the pool is valid
 * afterwards. */
void assert_fails (TarnPool *pool, gsize size, gint code);

/* Adds the tests under @prefix, such as "immediate". */
void conformance_add (const gchar *prefix, const Backend *backend);

/* Adds the same tests with a heap over the backend's allocators, except those that count a pool's
 * blocks.  They are skipped if there can be no heap. */
void conformance_add_over_heap (const gchar *prefix, const Backend *backend);
void conformance_run (gconstpointer test, gconstpointer device);

#endif
