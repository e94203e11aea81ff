/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Makes the default pools of the backends: an allocator for the driver, a heap and a pool. */

#ifndef TARN_HEAP_POOL_PRIVATE_H
#define TARN_HEAP_POOL_PRIVATE_H

#include <tarn/heap.h>
#include <tarn/pool.h>

#include "common/struct-private.h"

/* Makes a pool whose upstream is a new heap, whose upstream is @allocator.  Takes ownership of
 * @allocator.  Makes the pool directly over @allocator if the program wants whole buffers, or if
 * @allocator has neither sub-buffers nor virtual memory, one of which a heap needs.  Returns NULL
 * with an error on failure; if @allocator is NULL, the caller has set @error. */
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
  heap_options.follows_pool_limit = TRUE;
  heap = tarn_heap_allocator_new (driver, &heap_options, &reason);
  if (heap != NULL || g_error_matches (reason, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED))
    return tarn_pool_new (heap != NULL ? heap : driver, options, error);
  g_propagate_error (error, g_steal_pointer (&reason));
  return NULL;
}

#endif
