/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Lends virtual memory from one heap, the lender, to a second heap.  An adaptor, which is an
 * allocator between the two heaps, calls the functions here.  The lent memory comes from the
 * lender's upstream allocator, and the lender counts the lent memory as its own.  So the lender's
 * limit bounds the memory of both heaps.  If memory runs out when the second heap needs some, the
 * lender returns its own idle memory to upstream.
 *
 * The user_data of each callback here is the lender. */

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

/* Adds @bytes to the counters of a lender (a heap that lends memory to another heap): the lent
 * bytes, and the bytes from upstream.  To subtract n bytes, the caller passes -n, which wraps
 * around.  The caller holds the lender's lock. */
static void
count_lent (TarnHeap *heap, gsize bytes)
{
  _tarn_assert_locked (&heap->lock);
  heap->lent_bytes += bytes;
  heap->stats.upstream_bytes += bytes;
}

/* Allocates physical memory (a backing) of @size bytes from upstream.  Returns FALSE if the lender
 * (the heap that lends the memory) would then exceed its limit, or if upstream fails.  The caller
 * holds the lender's lock.  The function releases the lock during the driver call. */
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
    {
      _tarn_heap_note_peak (heap);
      heap->peak_with_lent = MAX (heap->peak_with_lent, heap->stats.used_bytes + heap->lent_bytes);
    }
  else
    count_lent (heap, -size);
  return has_memory;
}

/* Allocates physical memory (a backing) of @size bytes from upstream.  If memory has run out,
 * returns idle segments of the lender (the heap that lends the memory) to upstream and tries once
 * more.  Does not return idle segments that commands may still use, because the host would have to
 * wait for these commands.  The host must not wait: the heap that borrows the memory may serve a
 * stream that is being captured. */
static gboolean
take_or_give_back (TarnHeap *heap, gsize size, TarnMemory *backing, GError **error)
{
  g_autoptr (GError) local = NULL;

  if (take (heap, size, backing, &local))
    return TRUE;
  if (tarn_error_is_no_memory (local))
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

/* Stores the functions of this file in @ops, the callbacks of a new heap over @upstream.  These
 * callbacks let the new heap lend virtual memory to another heap.  Does nothing if @upstream has no
 * virtual memory. */
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
