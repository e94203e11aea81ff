/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The functions by which pools and other callers allocate and free memory of a heap.  A heap
 * divides segments of memory, which come from its upstream allocator, into extents.  In a heap of
 * virtual memory, a user gets the address of an extent.  In other heaps, the backend's function
 * part_new () makes an object for each extent in use, called a part of the segment.  The user gets
 * this part: for example, an OpenCL sub-buffer, or an address. */

#include "common/argument-private.h"
#include "heap/heap-private.h"

#include "allocator/block-private.h"
#include "base/fork-private.h"
#include "base/message-private.h"
#include "common/struct-private.h"
#include "record/record-private.h"

/* The default alignment of extents in bytes.  The program can set another alignment, and the
 * backend can require a larger one.  CUDA's own allocations have the same alignment as this
 * default. */
#define USUAL_ALIGNMENT 512

/* Returns TRUE if the backend makes a part, such as an OpenCL sub-buffer, for each of the heap's
 * extents in use. */
static gboolean
makes_parts (const TarnHeap *heap)
{
  return heap->growth == &_tarn_heap_parts_growth;
}

/* Stores in an extent in use the memory (address or sub-buffer) that the user gets, and adds the
 * extent to the heap's table of extents in use.  The caller holds the heap's lock. */
void
_tarn_heap_remember (TarnExtent *extent, TarnMemory memory)
{
  TarnHeap *heap = extent->piece->range->heap;

  _tarn_assert_locked (&heap->lock);
  extent->memory = memory;
  extent->has_memory = TRUE;
  g_hash_table_add (heap->table, extent);
  if (_tarn_records ())
    _tarn_heap_record_part (extent);
  heap->n_unnamed--;
  _tarn_heap_check_if_full_debug (heap);
}

/* Makes the backend create the part (such as an OpenCL sub-buffer) for an extent in use, and stores
 * the part in *memory.  The part covers the extent's bytes in their segment.  The caller does not
 * hold the heap's lock. */
gboolean
_tarn_heap_make_part (TarnHeap *heap, const TarnExtent *extent, TarnMemory *memory, GError **error)
{
  const TarnAllocator *direct = heap->base.direct;
  const TarnPiece *piece = extent->piece;
  gsize offset = (gsize) (extent->start - piece->start);
  TarnMemory part = { .address = 0 };

  _tarn_assert_not_locked (&heap->lock);
  if (_tarn_call (direct, part_new, piece->memory, offset, extent->size, &part, error))
    {
      *memory = part;
      return TRUE;
    }
  if (error != NULL && *error == NULL)
    g_set_error (error, TARN_ERROR, TARN_ERROR_FAILED,
                 "part_new () of %s failed without saying why", direct->label);
  return FALSE;
}

/* Releases the part (such as an OpenCL sub-buffer) that _tarn_heap_make_part () made for an extent.
 * The caller frees the extent only afterwards, and does not hold the heap's lock. */
void
_tarn_heap_release_part (TarnHeap *heap, const TarnExtent *extent, TarnMemory memory)
{
  const TarnAllocator *direct = heap->base.direct;

  _tarn_assert_not_locked (&heap->lock);
  if (direct->ops.part_release != NULL)
    _tarn_call (direct, part_release, memory, extent->size);
}

/* Makes the part (such as an OpenCL sub-buffer) for an extent, and adds the extent to the heap's
 * table of extents in use.  If the backend cannot make the part, frees the extent and returns
 * FALSE.  The caller does not hold the heap's lock. */
static gboolean
name_part (TarnHeap *heap, TarnExtent *extent, TarnMemory *memory, GError **error)
{
  gboolean is_made = _tarn_heap_make_part (heap, extent, memory, error);

  _tarn_heap_lock_open (heap);
  if (is_made)
    _tarn_heap_remember (extent, *memory);
  else
    _tarn_heap_put (heap, extent);
  _tarn_heap_unlock (heap);
  return is_made;
}

/* Finishes a request that named @queue.  @extent is the extent that the request got, or NULL if the
 * request failed.  Stores the extent's memory in *memory.  Sets *owner to the number of @queue if
 * the extent is in an arena of @queue, and to 0 otherwise.  Decrements the queue's n_calls, the
 * number of calls that use the queue.  Releases the heap's lock, which the caller holds. */
static gboolean
hand_out (TarnHeapQueue *queue, TarnExtent *extent, TarnMemory *memory, guint64 *owner,
          GError **error)
{
  TarnHeap *heap = queue->heap;

  _tarn_assert_locked (&heap->lock);
  if (extent != NULL)
    *owner = extent->piece->range->arena->queue == queue ? queue->number : 0;
  if (extent != NULL && !makes_parts (heap))
    {
      memory->address = extent->start;
      _tarn_heap_remember (extent, *memory);
    }
  _tarn_queue_record_if_idle (queue);
  queue->n_calls--;
  _tarn_heap_expire (heap);
  _tarn_heap_unlock (heap);
  if (extent == NULL || !makes_parts (heap))
    return extent != NULL;
  return name_part (heap, extent, memory, error);
}

/* Computes the number of bytes, at least 1, that an extent for a request of @size bytes must have.
 * In a heap of virtual memory, rounds up to a multiple of the heap's alignment.  In a heap whose
 * backend makes parts (such as sub-buffers), does not round up, because the request may get a
 * segment of exactly its size.  Returns 0 if @size is too large. */
static gsize
get_needed (const TarnHeap *heap, gsize size)
{
  gsize rounded = _tarn_round_up (MAX (size, 1), heap->alignment);

  if (rounded < size || !_tarn_size_is_valid (rounded))
    return 0;
  return makes_parts (heap) ? MAX (size, 1) : rounded;
}

/* Allocates memory for commands on the queue @handle, or for a request without a queue if @handle
 * is NULL.  @alignment is a power of two, or 0 for the heap's alignment.  Sets *owner to the
 * queue's number.  With this number the caller can later free the memory by _tarn_heap_free_for (),
 * even while commands on the queue still use the memory.  Sets *owner to 0 if
 * _tarn_heap_free_for () cannot free the memory, because the request names no queue, or because the
 * memory is in an arena of another queue. */
gboolean
_tarn_heap_allocate_for (TarnHeap *heap, gsize size, gsize alignment, gpointer handle,
                         TarnMemory *memory, guint64 *owner, GError **error)
{
  gsize bytes = get_needed (heap, size);
  TarnHeapQueue *queue;
  TarnExtent *extent;

  if (bytes == 0 || !_tarn_size_is_valid (alignment) || !_tarn_size_is_valid (bytes + alignment))
    {
      _tarn_allocator_refuse_size (&heap->base, size, error);
      return FALSE;
    }
  _tarn_heap_lock (heap);
  queue = _tarn_heap_enter_queue (heap, handle, error);
  if (queue == NULL)
    {
      _tarn_heap_unlock (heap);
      return FALSE;
    }
  extent = alignment == 0 ? _tarn_heap_take (queue, bytes, 0, error)
                          : _tarn_heap_take_aligned (queue, bytes, alignment, error);
  return hand_out (queue, extent, memory, owner, error);
}

/* Implements TarnAllocatorOps.allocate for a heap. */
static gboolean
heap_allocate (gpointer user_data, gsize size, TarnMemory *memory, GError **error)
{
  guint64 owner;

  return _tarn_heap_allocate_for (user_data, size, 0, NULL, memory, &owner, error);
}

static gboolean
heap_allocate_aligned (TarnAllocator *allocator, gsize size, gsize alignment, TarnMemory *memory,
                       GError **error)
{
  guint64 owner;

  return _tarn_heap_allocate_for (_tarn_heap_of (allocator), size, alignment, NULL, memory, &owner,
                                  error);
}

static gsize
heap_get_alignment (const TarnAllocator *allocator)
{
  const TarnHeap *self = (gconstpointer) allocator;

  return self->alignment;
}

/* Allocates memory as _tarn_heap_allocate_for () does, but only from the arenas of the queue
 * @handle: the heap neither grows nor takes memory from another queue.  Returns FALSE without an
 * error if no free extent in these arenas suits the request. */
gboolean
_tarn_heap_allocate_own (TarnHeap *heap, gsize size, gpointer handle, TarnMemory *memory,
                         guint64 *owner)
{
  gsize bytes = get_needed (heap, size);
  TarnHeapQueue *queue;
  TarnExtent *extent = NULL;

  if (bytes == 0)
    return FALSE;
  _tarn_heap_lock (heap);
  queue = _tarn_heap_find_queue (heap, handle);
  if (queue != NULL)
    extent = _tarn_heap_take_own (queue, bytes, FALSE);
  if (extent == NULL)
    {
      _tarn_heap_unlock (heap);
      return FALSE;
    }
  queue->n_calls++;
  return hand_out (queue, extent, memory, owner, NULL);
}

/* Frees an extent that the caller has removed from the heap's table of extents in use.  First
 * releases the extent's part (such as an OpenCL sub-buffer) if there is one.  The caller holds the
 * heap's lock.  The function releases the lock during the driver call. */
static void
end_use (TarnHeap *heap, TarnExtent *extent)
{
  const TarnAllocator *direct = heap->base.direct;
  TarnMemory memory = extent->memory;

  _tarn_assert_locked (&heap->lock);
  heap->n_unnamed++;
  if (makes_parts (heap) && direct->ops.part_release != NULL)
    {
      _tarn_heap_unlock (heap);
      _tarn_heap_release_part (heap, extent, memory);
      _tarn_heap_lock_open (heap);
    }
  _tarn_heap_put (heap, extent);
}

/* Frees memory although commands of one queue may still use it.  @owner is that queue's number,
 * from _tarn_heap_allocate_for ().  Returns FALSE, and does nothing, if the memory is in an arena
 * of another queue, or if the heap has forgotten the queue. */
gboolean
_tarn_heap_free_for (TarnHeap *heap, TarnMemory memory, guint64 owner)
{
  TarnExtent *extent;
  gboolean is_owner;

  _tarn_heap_lock_open (heap);
  extent = g_hash_table_lookup (heap->table, &memory);
  is_owner = extent != NULL && owner != 0 && extent->piece->range->arena->queue->number == owner;
  if (is_owner)
    {
      g_hash_table_remove (heap->table, extent);
      end_use (heap, extent);
    }
  _tarn_heap_unlock (heap);
  return is_owner;
}

/* Returns TRUE if the queue @handle still has the number @owner.  Then _tarn_heap_free_for () can
 * free memory that the heap allocated with that number. */
gboolean
_tarn_heap_knows_owner (TarnHeap *heap, gpointer handle, guint64 owner)
{
  const TarnHeapQueue *queue;
  gboolean knows;

  if (owner == 0)
    return FALSE;
  _tarn_heap_lock_open (heap);
  queue = _tarn_heap_find_queue (heap, handle);
  knows = queue != NULL && queue->number == owner;
  _tarn_heap_unlock (heap);
  return knows;
}

/* Implements TarnAllocatorOps.free for a heap.  The caller ensures that no command uses the memory
 * any more. */
static void
heap_free (gpointer user_data, TarnMemory memory, gsize size)
{
  TarnHeap *heap = user_data;
  gpointer extent;
  gboolean is_used;

  _tarn_heap_lock_open (heap);
  is_used = g_hash_table_steal_extended (heap->table, &memory, &extent, NULL);
  if (is_used)
    end_use (heap, extent);
  _tarn_heap_unlock (heap);
  if (!is_used)
    g_critical ("%s: memory 0x%" G_GINT64_MODIFIER "x of " TARN_BYTES_FORMAT " is not in use",
                heap->base.label, memory.address, TARN_BYTES (size));
}

/* Counts memory as lost: its user will never free it. */
static void
heap_lose (TarnAllocator *allocator, TarnMemory memory, gsize size)
{
  TarnHeap *heap = _tarn_heap_of (allocator);
  const TarnExtent *extent;

  (void) size;
  _tarn_heap_lock_open (heap);
  extent = g_hash_table_lookup (heap->table, &memory);
  if (extent != NULL)
    heap->lost_bytes += extent->size;
  _tarn_heap_unlock (heap);
}

static gsize
heap_trim (TarnAllocator *allocator, gsize keep_bytes)
{
  TarnHeap *heap = _tarn_heap_of (allocator);
  gsize bytes;

  _tarn_heap_lock (heap);
  bytes = _tarn_heap_trim (heap, keep_bytes);
  _tarn_heap_check_if_full_debug (heap);
  _tarn_heap_unlock (heap);
  return bytes;
}

/* Implements TarnAllocatorOps.reclaim for a heap: returns the heap's idle segments to upstream.  If
 * the heap can return none, makes the upstream allocator reclaim memory.  Returns TRUE if memory
 * was returned or reclaimed. */
static gboolean
heap_reclaim (gpointer user_data)
{
  TarnHeap *heap = user_data;

  return heap_trim (&heap->base, 0) > 0 || _tarn_allocator_reclaim (heap->upstream);
}

/* Frees the structs of all idle segments, but does not return the segments' memory to upstream,
 * because commands may still use it.  The caller ensures that no other thread uses the heap. */
static void
lose_idle (TarnHeap *heap)
{
  TarnPiece *piece;
  gsize bytes = 0;

  while ((piece = _tarn_heap_next_idle (heap, NULL)) != NULL)
    {
      bytes += piece->size;
      _tarn_range_cut_piece (piece, FALSE);
      if (piece->region != NULL)
        piece->region->has_lost = TRUE;
      g_free (piece);
    }
  if (bytes > 0)
    _tarn_message ("%s: the heap does not return " TARN_BYTES_FORMAT
                   " to its allocator, because commands may still use them",
                   heap->base.label, TARN_BYTES (bytes));
}

/* Frees all extents in use, so that their segments become idle.  Call this only if the users of all
 * these extents will never free them. */
static void
put_lost (TarnHeap *heap)
{
  GHashTableIter iter;
  gpointer extent;

  g_hash_table_iter_init (&iter, heap->table);
  while (g_hash_table_iter_next (&iter, &extent, NULL))
    {
      g_hash_table_iter_remove (&iter);
      heap->n_unnamed++;
      _tarn_heap_put (heap, extent);
    }
}

/* Frees all queues of a heap that is about to be freed, with their arenas, events and reserved
 * addresses.  Does nothing if an extent in use is not lost (heap_lose ()), because its user may
 * still free it. */
static void
free_queues (TarnHeap *heap)
{
  TarnHeapQueue *queue;

  if (heap->stats.used_bytes > heap->lost_bytes)
    return;
  _tarn_messages_hold ();
  _tarn_heap_lock (heap);
  put_lost (heap);
  lose_idle (heap);
  while ((queue = g_queue_peek_tail (&heap->all_queues)) != NULL)
    {
      _tarn_queue_lose_aliases (queue);
      _tarn_heap_free_queue (heap, queue);
    }
  _tarn_heap_unlock (heap);
  _tarn_messages_release ();
  g_hash_table_unref (heap->queues);
}

/* Frees a heap.  The program must have freed all memory from the heap before, except memory that
 * heap_lose () has counted as lost. */
static void
heap_finalize (TarnAllocator *allocator)
{
  TarnHeap *heap = _tarn_heap_of (allocator);

  heap_trim (allocator, 0);
  _tarn_allocator_withdraw (allocator);
  if (heap->stats.used_bytes > heap->lost_bytes)
    g_critical ("%s ends with " TARN_BYTES_FORMAT " in use", heap->base.label,
                TARN_BYTES (heap->stats.used_bytes - heap->lost_bytes));
  free_queues (heap);
  for (GSList *link = heap->dead_arenas; link != NULL; link = link->next)
    _tarn_arena_free_slabs (link->data);
  g_slist_free_full (heap->dead_arenas, free);
  g_slist_free_full (heap->dead_queues, free);
  g_hash_table_unref (heap->table);
  _tarn_cond_clear (&heap->changed);
  _tarn_mutex_clear (&heap->lock);
  tarn_allocator_unref (heap->upstream);
  _tarn_allocator_clear (&heap->base);
  free (heap);
}

/* The class of all heaps.  A heap has the same block functions as a direct allocator (an allocator
 * that calls the driver for every block).  They get the memory of each block by the functions in
 * TarnAllocatorOps: here heap_allocate () and heap_free (). */
static const TarnAllocatorClass heap_class = {
  .kind = "heap",
  .trace_class = TARN_TRACE_HEAP,
  .allocate_block = _tarn_direct_allocate_block,
  .free_block = _tarn_direct_free_block,
  .ref_block = _tarn_direct_ref_block,
  .allocate_memory = _tarn_direct_allocate_memory,
  .free_memory = _tarn_direct_free_memory,
  .get_alignment = heap_get_alignment,
  .allocate_aligned = heap_allocate_aligned,
  .lose_memory = heap_lose,
  /* A heap can be freed in dispose (): each of its blocks has a reference to it, so no block exists
   * any more.  (Pools are freed later, in finalize (), because blocks of a pool may outlive the
   * last reference to the pool.) */
  .dispose = heap_finalize,
  .record_use = _tarn_direct_record_use,
  .move_to_queue = _tarn_direct_move_to_queue,
  .trim = heap_trim,
  .freeze = _tarn_heap_freeze,
  .thaw = _tarn_heap_thaw,
  .tell = _tarn_heap_tell,
  .tell_counters = _tarn_heap_tell_counters,
};

/* Casts an allocator to a heap.  Returns NULL if the allocator is not a heap. */
TarnHeap *
_tarn_heap_of (TarnAllocator *allocator)
{
  gpointer heap = allocator;

  return allocator->klass == &heap_class ? heap : NULL;
}

/* Returns TRUE if a user's memory is an address (TarnMemory.address), which the heap computes
 * without the backend.  Returns FALSE if the backend makes a part of a segment for each extent in
 * use, such as an OpenCL sub-buffer. */
gboolean
_tarn_heap_has_addresses (const TarnHeap *heap)
{
  return heap->has_addresses;
}

void
_tarn_heap_add_pool (TarnHeap *heap)
{
  __atomic_fetch_add (&heap->n_pools, 1, __ATOMIC_RELAXED);
}

void
_tarn_heap_remove_pool (TarnHeap *heap)
{
  __atomic_fetch_sub (&heap->n_pools, 1, __ATOMIC_RELAXED);
}

guint
_tarn_heap_count_pools (const TarnHeap *heap)
{
  return __atomic_load_n (&heap->n_pools, __ATOMIC_RELAXED);
}

/* Returns TRUE if the limit of the pool over the heap is the heap's limit, too. */
gboolean
_tarn_heap_follows_pool (const TarnHeap *heap)
{
  return heap->follows_pool;
}

/* Returns the alignment of all extents in bytes.  In a heap that has no addresses, the extents'
 * offsets in their segments have this alignment. */
gsize
_tarn_heap_get_alignment (const TarnHeap *heap)
{
  return heap->alignment;
}

/* Returns the size in bytes of the largest block that a pool over the heap should cache.  The pool
 * should free a larger block to the heap at once. */
gsize
_tarn_heap_get_max_held (const TarnHeap *heap)
{
  return heap->growth->max_held;
}

gsize
_tarn_heap_get_max_shared (TarnHeap *heap)
{
  gsize bytes = G_MAXSIZE;

  _tarn_heap_lock (heap);
  if (heap->growth->get_max_shared != NULL)
    bytes = heap->growth->get_max_shared (heap);
  _tarn_heap_unlock (heap);
  return bytes;
}

/* Chooses the kind of memory that a heap gets from @upstream.  This is virtual memory if @upstream
 * has it and is not a heap itself.  (To get virtual memory from a heap, the program puts an adaptor
 * between the two heaps, lend.c.)  Otherwise the heap allocates segments of which the backend makes
 * parts, such as OpenCL sub-buffers.  Returns NULL if the backend cannot make parts. */
static const TarnHeapGrowth *
choose_growth (const TarnAllocator *upstream)
{
  if (upstream->ops.virtual_granularity > 0 && upstream->klass != &heap_class)
    return &_tarn_heap_virtual_growth;
  return upstream->direct->ops.part_new != NULL ? &_tarn_heap_parts_growth : NULL;
}

/* Converts TarnHeapOptions.idle_seconds to microseconds, for TarnHeap.idle_time. */
static gint64
get_idle_time (guint64 seconds)
{
  if (seconds == G_MAXSIZE || seconds > G_MAXINT64 / G_TIME_SPAN_SECOND)
    return G_MAXINT64;
  return seconds != 0 ? (gint64) seconds * G_TIME_SPAN_SECOND : TARN_USUAL_IDLE_TIME;
}

/* Checks the options that the program passed, and stores them in a heap.  The caller has set the
 * field upstream of the heap. */
static gboolean
set_options (TarnHeap *heap, const TarnHeapOptions *options, GError **error)
{
  gsize least = makes_parts (heap) ? heap->base.direct->ops.part_alignment : 1;

  if (options->alignment != 0 && !_tarn_is_power_of_two (options->alignment))
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                   "alignment is %" G_GSIZE_FORMAT ", which is no power of two",
                   options->alignment);
      return FALSE;
    }
  if (!makes_parts (heap) && options->alignment > heap->upstream->ops.virtual_granularity)
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                   "alignment is %" G_GSIZE_FORMAT
                   ", but addresses of %s are aligned to %" G_GSIZE_FORMAT " only",
                   options->alignment, heap->upstream->label,
                   heap->upstream->ops.virtual_granularity);
      return FALSE;
    }
  heap->alignment = MAX (options->alignment != 0 ? options->alignment : USUAL_ALIGNMENT, least);
  heap->limit_bytes = options->limit_bytes;
  heap->follows_pool = options->follows_pool_limit;
  heap->growth_bytes = options->growth_bytes;
  heap->idle_time = get_idle_time (options->idle_seconds);
  return TRUE;
}

static TarnHeap *
heap_new (TarnAllocator *upstream, const TarnHeapGrowth *growth, const gchar *name)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  TarnHeap *heap = _tarn_aligned_new0 (TarnHeap);

  ops.name = name;
  ops.deferred = upstream->ops.deferred;
  ops.allocate = heap_allocate;
  ops.free = heap_free;
  ops.reclaim = heap_reclaim;
  _tarn_heap_set_lending (upstream, &ops);
  _tarn_allocator_init (&heap->base, &heap_class, &ops, heap, NULL, upstream->direct);
  heap->upstream = tarn_allocator_ref (upstream);
  heap->base.level = upstream->level + 1;
  heap->growth = growth;
  heap->door = TARN_DOOR_CLOSED;
  _tarn_mutex_init (&heap->lock);
  _tarn_cond_init (&heap->changed);
  heap->queues = g_hash_table_new (NULL, NULL);
  heap->nobody = _tarn_heap_queue_new (heap, NULL);
  heap->frees_in_order = makes_parts (heap) && upstream->ops.frees_in_order;
  heap->has_addresses
      = !makes_parts (heap)
        || (upstream->direct->ops.part_release == NULL && sizeof (gpointer) == sizeof (guint64));
  heap->table = g_hash_table_new (g_int64_hash, g_int64_equal);
  heap->full_bytes = G_MAXSIZE;
  heap->peak_at = _tarn_clock_now ();
  _tarn_heap_init_churn (heap);
  heap->stats = (TarnHeapStats) TARN_HEAP_STATS_INIT;
  return heap;
}

TarnAllocator *
tarn_heap_allocator_new (TarnAllocator *upstream, const TarnHeapOptions *options, GError **error)
{
  TarnHeapOptions known = TARN_HEAP_OPTIONS_INIT;
  const TarnHeapGrowth *growth;
  TarnHeap *heap;

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  TARN_REFUSE_NULL (upstream, NULL);

  if (_tarn_forked () && !tarn_check_fork (error))
    return NULL;
  if (options != NULL
      && !_tarn_struct_read_or_set_error (&known, sizeof known, options, "TarnHeapOptions", error))
    return NULL;
  growth = choose_growth (upstream);
  if (growth == NULL)
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
                   "%s makes no parts of memory, and has no virtual memory", upstream->label);
      return NULL;
    }
  heap = heap_new (upstream, growth, known.name);
  if (set_options (heap, &known, error))
    {
      _tarn_allocator_publish (&heap->base);
      return &heap->base;
    }
  tarn_allocator_unref (&heap->base);
  return NULL;
}

gboolean
tarn_heap_set_idle_seconds (TarnAllocator *heap, gsize idle_seconds)
{
  TarnHeap *known;

  g_return_val_if_fail (heap != NULL, FALSE);

  known = _tarn_heap_of (heap);
  if (known == NULL || _tarn_forked ())
    return known != NULL;
  _tarn_heap_lock (known);
  known->idle_time = get_idle_time (idle_seconds);
  known->look_at = 0;
  _tarn_heap_expire (known);
  _tarn_heap_check_if_full_debug (known);
  _tarn_heap_unlock (known);
  return TRUE;
}
