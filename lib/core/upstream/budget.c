/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Tells a pool's budget: how many bytes the device has, and how many of them the pool can have. */

#include <tarn/heap.h>

#include "base/fork-private.h"
#include "common/argument-private.h"
#include "common/struct-private.h"
#include "pool/pool-private.h"
#include "upstream/upstream-private.h"

/* Adds two numbers of bytes.  G_MAXUINT64 means unknown, or no limit: if one of the numbers is
 * unknown, the sum is unknown, too. */
static guint64
add (guint64 left, guint64 right)
{
  return left > G_MAXUINT64 - right ? G_MAXUINT64 : left + right;
}

gboolean
_tarn_pool_get_device_memory (TarnAllocator *upstream, guint64 *device_bytes, guint64 *free_bytes,
                              GError **error)
{
  const TarnAllocator *backend = _tarn_allocator_get_backend (upstream);

  *device_bytes = *free_bytes = G_MAXUINT64;
  return backend->ops.get_memory == NULL
         || _tarn_call (backend, get_memory, device_bytes, free_bytes, error);
}

/* Gets the most bytes that the limits of the pool and of the heap below it allow, with the charged
 * bytes, which count only for the pool.  Returns G_MAXUINT64 if there is no limit. */
static guint64
get_limit (TarnPool *pool, guint64 charged)
{
  TarnHeap *heap = _tarn_pool_get_given_heap (pool);
  gsize limit = tarn_pool_get_limit_bytes (pool);
  gsize heap_limit = heap != NULL ? _tarn_heap_read_limit (heap) : 0;
  guint64 most = heap_limit != 0 ? add (heap_limit, charged) : G_MAXUINT64;

  return limit != 0 ? MIN (most, limit) : most;
}

gboolean
tarn_pool_get_budget (TarnPool *pool, TarnBudget *budget, GError **error)
{
  TarnBudget now = TARN_BUDGET_INIT;
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  TarnHeapStats heap = TARN_HEAP_STATS_INIT;
  guint64 charged, limit, most;

  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (pool, FALSE);
  if (!_tarn_struct_has_size_or_set_error (budget, "TarnBudget", error))
    return FALSE;

  if (!tarn_check_fork (error)
      || !_tarn_pool_get_device_memory (pool->upstream, &now.device_bytes, &now.free_bytes, error))
    return FALSE;
  charged = tarn_pool_get_charged_bytes (pool);
  tarn_pool_get_stats (pool, &stats);
  if (!tarn_heap_get_stats (tarn_pool_get_upstream (pool), &heap))
    heap.upstream_bytes = stats.managed_bytes;
  now.taken_bytes = add (heap.upstream_bytes, charged);
  now.used_bytes = stats.managed_bytes - stats.held_bytes + charged;
  limit = get_limit (pool, charged);
  most = add (now.taken_bytes, now.free_bytes);
  now.budget_bytes = MIN (MIN (now.device_bytes, limit), most);
  _tarn_struct_write (budget, &now, sizeof now);
  return TRUE;
}
