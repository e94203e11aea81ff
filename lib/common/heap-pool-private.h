/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Makes the default pool of a backend.  The pool allocates from a heap, which splits large
 * allocations.  The heap allocates from an allocator that calls the driver. */

#ifndef TARN_HEAP_POOL_PRIVATE_H
#define TARN_HEAP_POOL_PRIVATE_H

#include <tarn/heap.h>
#include <tarn/pool.h>

#include "common/struct-private.h"

/* Makes a pool that allocates from a new heap, which allocates from @allocator.  Takes ownership of
 * @allocator.  In two cases, there is no heap, and the pool allocates from @allocator itself.
 *
 * - The pool's options have the flag TARN_POOL_WHOLE_BUFFERS.
 * - @allocator has neither sub-buffers nor virtual memory.  A heap needs one of them.
 *
 * Returns NULL with an error on failure.  If the caller could not make the allocator, it passes
 * NULL and has set @error already.  The function then returns NULL. */
static inline TarnPool *
_tarn_pool_new_over_heap (TarnAllocator *allocator, const TarnPoolOptions *options, GError **error)
{
  g_autoptr (TarnAllocator) driver = allocator;
  g_autoptr (TarnAllocator) heap = NULL;
  g_autoptr (GError) reason = NULL;
  TarnHeapOptions heap_options = TARN_HEAP_OPTIONS_INIT;
  TarnPoolOptions known = TARN_POOL_OPTIONS_INIT;

  if (driver == NULL
      || (options != NULL
          && !_tarn_struct_read_or_set_error (&known, sizeof known, options, "TarnPoolOptions",
                                              error)))
    return NULL;
  if ((known.flags & TARN_POOL_WHOLE_BUFFERS) != 0)
    return tarn_pool_new (driver, options, error);
  if (known.heap != NULL
      && !_tarn_struct_read_or_set_error (&heap_options, sizeof heap_options, known.heap,
                                          "TarnHeapOptions", error))
    return NULL;
  if (heap_options.name == NULL)
    heap_options.name = known.name;
  heap_options.follows_pool_limit = TRUE;
  heap = tarn_heap_allocator_new (driver, &heap_options, &reason);
  if (heap != NULL || g_error_matches (reason, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED))
    return tarn_pool_new (heap != NULL ? heap : driver, options, error);
  g_propagate_error (error, g_steal_pointer (&reason));
  return NULL;
}

#endif
