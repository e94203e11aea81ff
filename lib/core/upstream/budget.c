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

/* Adds two numbers of bytes.  G_MAXUINT64 means unknown: if one of the numbers is unknown, the sum
 * is unknown, too. */
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

gboolean
tarn_pool_get_budget (TarnPool *pool, TarnBudget *budget, GError **error)
{
  TarnBudget now = TARN_BUDGET_INIT;
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  TarnHeapStats heap = TARN_HEAP_STATS_INIT;
  guint64 charged, limit;

  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (pool, FALSE);
  if (!_tarn_struct_has_size_or_set_error (budget, "TarnBudget", error))
    return FALSE;

  if (!tarn_check_fork (error)
      || !_tarn_pool_get_device_memory (pool->upstream, &now.device_bytes, &now.free_bytes, error))
    return FALSE;
  charged = tarn_pool_get_charged_bytes (pool);
  limit = tarn_pool_get_limit_bytes (pool);
  tarn_pool_get_stats (pool, &stats);
  if (!tarn_heap_get_stats (tarn_pool_get_upstream (pool), &heap))
    heap.upstream_bytes = stats.managed_bytes;
  now.taken_bytes = add (heap.upstream_bytes, charged);
  now.used_bytes = stats.managed_bytes - stats.held_bytes + charged;
  now.budget_bytes = MIN (now.device_bytes, add (now.taken_bytes, now.free_bytes));
  if (limit != 0)
    now.budget_bytes = MIN (now.budget_bytes, limit);
  _tarn_struct_write (budget, &now, sizeof now);
  return TRUE;
}
