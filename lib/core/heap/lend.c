/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Lends virtual memory to another heap, through an adaptor between the two.  The memory comes from
 * the upstream allocator of this heap, and counts as this heap's.  So one limit bounds both, and
 * this heap returns idle memory if the other needs it. */

#include "heap/heap-private.h"

static gboolean
lend_addresses_reserve (gpointer user_data, gsize size, TarnMemory *addresses, GError **error)
{
  const TarnHeap *heap = user_data;

  return _tarn_call (heap->upstream, addresses_reserve, size, addresses, error);
}

static void
lend_addresses_release (gpointer user_data, TarnMemory addresses, gsize size)
{
  const TarnHeap *heap = user_data;

  _tarn_call (heap->upstream, addresses_release, addresses, size);
}

static gboolean
lend_map (gpointer user_data, TarnMemory backing, gsize size, TarnMemory address, GError **error)
{
  const TarnHeap *heap = user_data;

  return _tarn_call (heap->upstream, backing_map, backing, size, address, error);
}

static void
lend_unmap (gpointer user_data, TarnMemory address, gsize size)
{
  const TarnHeap *heap = user_data;

  _tarn_call (heap->upstream, backing_unmap, address, size);
}

static gboolean
lend_stays (gpointer user_data)
{
  return _tarn_heap_stays (user_data);
}

static void
count_lent (TarnHeap *heap, gsize bytes)
{
  _tarn_assert_locked (&heap->lock);
  heap->lent_bytes += bytes;
  heap->stats.upstream_bytes += bytes;
}

/* Allocates a backing from upstream.  Releases the lock meanwhile. */
static gboolean
take (TarnHeap *heap, gsize size, TarnMemory *backing, GError **error)
{
  gboolean has_memory;

  if (!_tarn_heap_has_room (heap, size, error))
    return FALSE;
  count_lent (heap, size);
  _tarn_heap_unlock (heap);
  has_memory = _tarn_direct_take_backing (heap->upstream, size, backing, error);
  _tarn_heap_lock (heap);
  if (has_memory)
    _tarn_heap_note_peak (heap);
  else
    count_lent (heap, -size);
  return has_memory;
}

/* Allocates a backing from upstream.  If upstream has none left, returns idle pieces and tries
 * again.  Does not wait for queues: the other heap may serve a capture, in which the host must not
 * wait. */
static gboolean
take_or_give_back (TarnHeap *heap, gsize size, TarnMemory *backing, GError **error)
{
  g_autoptr (GError) local = NULL;

  if (take (heap, size, backing, &local))
    return TRUE;
  if (_tarn_heap_has_run_out (local))
    {
      _tarn_heap_poll_events (heap);
      if (_tarn_heap_release_idle (heap, NULL) > 0)
        return take (heap, size, backing, error);
    }
  g_propagate_error (error, g_steal_pointer (&local));
  return FALSE;
}

static gboolean
lend_backing_new (gpointer user_data, gsize size, TarnMemory *backing, GError **error)
{
  TarnHeap *heap = user_data;
  gboolean has_memory = FALSE;

  _tarn_heap_lock (heap);
  if (_tarn_heap_begin_change (heap, size, error))
    {
      has_memory = take_or_give_back (heap, size, backing, error);
      _tarn_heap_end_change (heap);
    }
  _tarn_heap_unlock (heap);
  return has_memory;
}

static void
lend_backing_release (gpointer user_data, TarnMemory backing, gsize size)
{
  TarnHeap *heap = user_data;

  _tarn_direct_release_backing (heap->upstream, size, backing);
  _tarn_heap_lock (heap);
  count_lent (heap, -size);
  _tarn_heap_unlock (heap);
}

/* Sets the functions by which a heap over @upstream lends virtual memory. */
void
_tarn_heap_set_lending (const TarnAllocator *upstream, TarnAllocatorOps *ops)
{
  if (upstream->ops.virtual_granularity == 0)
    return;
  ops->virtual_granularity = upstream->ops.virtual_granularity;
  ops->addresses_reserve = lend_addresses_reserve;
  ops->addresses_release = lend_addresses_release;
  ops->backing_new = lend_backing_new;
  ops->backing_release = lend_backing_release;
  ops->backing_map = lend_map;
  ops->backing_aliases = upstream->ops.backing_aliases;
  ops->backing_unmap = lend_unmap;
  if (upstream->ops.backing_stays != NULL)
    ops->backing_stays = lend_stays;
}
