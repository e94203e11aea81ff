/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Allocators: the code that all three kinds share (direct allocators, heaps and pools), and the
 * direct allocators, which call a backend's functions for every block.  Nothing in this file
 * takes a lock, because the only field that threads change is an allocator's reference count,
 * which is atomic. */

#include "allocator/allocator-private.h"

#include <tarn/block.h>
#include <tarn/version.h>

#include "allocator/block-private.h"
#include "allocator/faults-private.h"
#include "base/fork-private.h"
#include "common/argument-private.h"
#include "common/shorten-private.h"
#include "common/struct-private.h"
#include "record/record-private.h"

/* TRUE while this thread runs a reclaim function: TarnAllocatorOps.reclaim of a backend, or a
 * function that the program has added to a pool.  If the thread makes another request meanwhile,
 * that request calls no reclaim function. */
static _Thread_local gboolean in_reclaim = FALSE;

/* Marks this thread as one that calls reclaim functions, of a backend or of the program.  Returns
 * FALSE if the thread is marked already, because it is inside a reclaim function.  After TRUE, the
 * caller must call _tarn_reclaim_end (). */
gboolean
_tarn_reclaim_begin (void)
{
  if (in_reclaim)
    return FALSE;
  in_reclaim = TRUE;
  return TRUE;
}

/* Removes the mark that _tarn_reclaim_begin () set: this thread calls no reclaim function now. */
void
_tarn_reclaim_end (void)
{
  g_assert (in_reclaim);
  in_reclaim = FALSE;
}

gchar *
_tarn_allocator_make_label (const gchar *kind, const gchar *name)
{
  g_autofree gchar *quoted = name != NULL ? _tarn_shorten (name) : NULL;

  return quoted != NULL ? g_strdup_printf ("%s '%s'", kind, quoted)
                        : g_strdup_printf ("an unnamed %s", kind);
}

/* Initializes the fields that all allocators share. */
void
_tarn_allocator_init (TarnAllocator *allocator, const TarnAllocatorClass *klass,
                      const TarnAllocatorOps *ops, gpointer user_data, GDestroyNotify destroy,
                      TarnAllocator *direct)
{
  _tarn_watch_fork ();
  allocator->klass = klass;
  allocator->ops = *ops;
  allocator->ops.name = g_strdup (ops->name);
  allocator->label = _tarn_allocator_make_label (klass->kind, ops->name);
  allocator->user_data = allocator->queue_data = user_data;
  allocator->destroy = destroy;
  allocator->direct = direct;
  g_atomic_int_set (&allocator->ref_count, 1);
}

/* Frees the fields that all allocators share. */
void
_tarn_allocator_clear (TarnAllocator *allocator)
{
  if (allocator->destroy != NULL)
    allocator->destroy (allocator->user_data);
  g_free ((gchar *) allocator->ops.name);
  g_free (allocator->label);
}

void
_tarn_allocator_refuse_size (const TarnAllocator *allocator, gsize size, GError **error)
{
  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_SIZE,
               "%s: %" G_GSIZE_FORMAT " bytes are more than any memory has", allocator->label,
               size);
}

/* Returns TRUE if a request may be served.  Returns FALSE with an error in a child of fork (), or
 * if @size is more than G_MAXSSIZE. */
static gboolean
check_request (const TarnAllocator *allocator, gsize size, GError **error)
{
  if (_tarn_forked () && !tarn_check_fork (error))
    return FALSE;
  if (_tarn_size_is_valid (size))
    return TRUE;
  _tarn_allocator_refuse_size (allocator, size, error);
  return FALSE;
}

/* Returns TRUE for a direct allocator that the program made.  Returns FALSE for pools, for heaps,
 * and for the direct allocators of the folder debug/ (TARN_DEBUG). */
static gboolean
is_direct (const TarnAllocator *allocator)
{
  return allocator->direct == allocator && allocator->given == NULL;
}

/* Returns TRUE if TARN_FAULTS counts the requests of a direct allocator.  Returns FALSE for an
 * adaptor, which gets its memory from another allocator (TarnAllocatorOps.below): the requests of
 * that allocator count. */
static gboolean
meets_faults (const TarnAllocator *allocator)
{
  return _tarn_faults_are_on && !allocator->ops.is_hidden && allocator->level == 0;
}

/* Adds an event to the recording: a backend was asked for memory.  @start: the time when the call
 * to the backend began, or 0 if recording was off then.  @error: why the call failed, or NULL if it
 * succeeded. */
static void
record_call (const TarnAllocator *allocator, gsize size, TarnMemory memory, const GError *error,
             guint64 start)
{
  TARN_EVENT_SINCE (start, allocated, TARN_TRACE_ALLOCATED, allocator->id, size, memory.address,
                    _tarn_record_get_code (error));
}

/* Adds an event to the recording: a backend has freed @size bytes.  Tells fault injection that
 * these bytes are no longer in use.  @start: the time when the call to the backend began, or 0 if
 * recording was off then. */
static void
record_free (const TarnAllocator *allocator, gsize size, TarnMemory memory, guint64 start)
{
  if (meets_faults (allocator))
    _tarn_fault_settle (size);
  TARN_EVENT_SINCE (start, freed, TARN_TRACE_FREED, allocator->id, size, memory.address);
}

/* Calls the backend's function that frees memory. */
void
_tarn_direct_call_free (TarnAllocator *allocator, TarnMemory memory, gsize size)
{
  guint64 start = is_direct (allocator) ? _tarn_record_begin_call () : 0;

  _tarn_call (allocator, free, memory, size);
  if (is_direct (allocator))
    record_free (allocator, size, memory, start);
}

/* Asks the backend to free memory after all commands that are in a queue now.  Returns FALSE if the
 * backend cannot do this.  Then the memory stays allocated, and the caller must free it. */
gboolean
_tarn_direct_call_free_on_queue (TarnAllocator *allocator, TarnMemory memory, gsize size,
                                 gpointer queue)
{
  guint64 start = _tarn_record_begin_call ();
  gboolean is_freed = _tarn_call (allocator, free_on_queue, memory, size, queue);

  if (is_freed)
    record_free (allocator, size, memory, start);
  return is_freed;
}

/* The number of times that this thread has called a driver for memory. */
static _Thread_local guint64 n_calls = 0;

guint64
_tarn_direct_get_calls (void)
{
  return n_calls;
}

/* Adds one to this thread's number of driver calls for memory, because a direct allocator calls its
 * backend.  Adds nothing for a direct allocator of debug/ (TARN_DEBUG): the allocator below does
 * the real call, and that call is counted. */
void
_tarn_direct_count_call (const TarnAllocator *allocator)
{
  if (allocator->given == NULL)
    n_calls++;
}

/* The type of the functions allocate () and backing_new () of TarnAllocatorOps. */
typedef gboolean (*DirectFunc) (gpointer user_data, gsize size, TarnMemory *memory, GError **error);

/* Calls @func, a function of a direct allocator's backend that allocates memory.  Adds exactly one
 * to this thread's number of driver calls, even if the backend itself allocates memory through Tarn
 * during the call. */
static gboolean
call_and_count (const TarnAllocator *allocator, DirectFunc func, gsize size, TarnMemory *memory,
                GError **error)
{
  guint64 n_before = n_calls;
  gboolean has_memory;

  _tarn_record_nest (1);
  has_memory = func (allocator->user_data, size, memory, error);
  _tarn_record_nest (-1);
  if (allocator->given == NULL)
    n_calls = n_before + 1;
  return has_memory;
}

/* Calls @func, a function of a direct allocator's backend that allocates memory.  Sets an error
 * without calling @func if TARN_FAULTS, the variable for fault injection, makes this request
 * fail. */
static gboolean
call_direct (const TarnAllocator *allocator, DirectFunc func, gsize size, TarnMemory *memory,
             GError **error)
{
  _tarn_assert_may_call ();
  if (!meets_faults (allocator))
    return call_and_count (allocator, func, size, memory, error);
  if (!_tarn_fault_admit (allocator, size, error))
    return FALSE;
  if (call_and_count (allocator, func, size, memory, error))
    return TRUE;
  _tarn_fault_settle (size);
  return FALSE;
}

/* Asks a direct allocator's backend for a backing: memory that has no address until the backend
 * maps the memory to an address. */
gboolean
_tarn_direct_take_backing (const TarnAllocator *allocator, gsize size, TarnMemory *backing,
                           GError **error)
{
  guint64 start = _tarn_record_begin_call ();
  GError *local = NULL;
  gboolean has_memory = call_direct (allocator, allocator->ops.backing_new, size, backing, &local);

  record_call (allocator, size, *backing, local, start);
  if (local != NULL)
    g_propagate_error (error, local);
  return has_memory;
}

/* Frees a backing (physical memory) that the caller has unmapped. */
void
_tarn_direct_release_backing (const TarnAllocator *allocator, gsize size, TarnMemory backing)
{
  guint64 start = _tarn_record_begin_call ();

  _tarn_call (allocator, backing_release, backing, size);
  record_free (allocator, size, backing, start);
}

static gboolean
call_allocate (const TarnAllocator *allocator, gsize size, TarnMemory *memory, GError **error)
{
  if (is_direct (allocator))
    return call_direct (allocator, allocator->ops.allocate, size, memory, error);
  return _tarn_call (allocator, allocate, size, memory, error);
}

/* Asks the backend once for memory.  Neither retries nor calls a reclaim function after a
 * failure. */
gboolean
_tarn_allocator_try (TarnAllocator *allocator, gsize size, TarnMemory *memory, GError **error)
{
  guint64 start = is_direct (allocator) ? _tarn_record_begin_call () : 0;
  TarnMemory fresh = { .address = 0 };
  GError *local = NULL;

  if (call_allocate (allocator, size, &fresh, &local))
    {
      if (local != NULL)
        g_critical ("%s gave memory and an error: %s", allocator->label, local->message);
      g_clear_error (&local);
      if (is_direct (allocator))
        record_call (allocator, size, fresh, NULL, start);
      *memory = fresh;
      return TRUE;
    }
  if (local == NULL)
    g_set_error (&local, TARN_ERROR, TARN_ERROR_FAILED,
                 "%s failed without saying why, for " TARN_BYTES_FORMAT, allocator->label,
                 TARN_BYTES (size));
  if (is_direct (allocator))
    record_call (allocator, size, fresh, local, start);
  g_propagate_error (error, local);
  return FALSE;
}

/* Asks the backend to free memory that the backend itself caches.  Returns TRUE if the backend
 * freed some.  The caller has called _tarn_reclaim_begin (), and calls _tarn_reclaim_end ()
 * later. */
gboolean
_tarn_allocator_reclaim (TarnAllocator *allocator)
{
  g_assert (in_reclaim);
  return allocator->ops.reclaim != NULL && _tarn_call_plain (allocator, reclaim);
}

/* Returns the queue for requests in which the program names no queue.  Returns NULL if the backend
 * has no default queue. */
gpointer
_tarn_allocator_get_default_queue (TarnAllocator *direct)
{
  return direct->ops.frees_in_order ? NULL : _tarn_allocator_get_fresh_queue (direct);
}

/* Functions that allocate and free blocks of direct allocators, which call a backend for every
 * block.  Heaps also use these functions. */

/* Allocates memory from a direct allocator.  If the backend is out of memory, calls its reclaim
 * function and retries once. */
gboolean
_tarn_direct_allocate_memory (TarnAllocator *allocator, gsize size, TarnMemory *memory,
                              GError **error)
{
  g_autoptr (GError) local = NULL;

  if (_tarn_allocator_try (allocator, size, memory, &local))
    return TRUE;
  if (!_tarn_is_out_of_memory (local) || !_tarn_reclaim_begin ())
    {
      g_propagate_error (error, g_steal_pointer (&local));
      return FALSE;
    }
  _tarn_allocator_reclaim (allocator);
  _tarn_reclaim_end ();
  return _tarn_allocator_try (allocator, size, memory, error);
}

/* Records the result of a request for a block. */
static void
record_block (const TarnAllocator *allocator, gsize size, const TarnBlock *block,
              const GError *error)
{
  if (block != NULL)
    _tarn_record_request (TARN_TRACE_MISS, allocator->id, NULL, _tarn_stack_take (),
                          (const guint64[]){ GPOINTER_TO_SIZE (block), size, block->alloc_size,
                                             block->memory.address });
  else
    _tarn_record_request (TARN_TRACE_FAIL, allocator->id, NULL, _tarn_stack_take (),
                          (const guint64[]){ size, _tarn_record_get_code (error) });
}

/* Returns TRUE if the backend makes new memory ready by commands on a queue, as cuMemAllocAsync ()
 * does.  These commands may still be running when the backend returns the memory. */
static gboolean
is_made_ready (TarnAllocator *allocator)
{
  return _tarn_allocator_get_fresh_queue (allocator) != NULL;
}

/* Allocates a block.  If the backend has a default queue, takes a reference to this queue first,
 * and only then allocates the memory.  In the opposite order, the backend could refuse the
 * reference after the allocation.  Then the memory would have to be freed while the queue may still
 * use it. */
static TarnBlock *
allocate_block (TarnAllocator *allocator, gsize size, GError **error)
{
  gpointer handle = _tarn_allocator_get_default_queue (allocator);
  TarnQueue *queue = NULL;
  TarnMemory memory;
  TarnBlock *block;

  if (handle != NULL && (queue = _tarn_direct_queue_new (allocator->direct, handle, error)) == NULL)
    return NULL;
  if (!_tarn_direct_allocate_memory (allocator, size, &memory, error))
    {
      if (queue != NULL)
        _tarn_direct_queue_free (allocator->direct, queue);
      return NULL;
    }
  block = _tarn_block_new (tarn_allocator_ref (allocator), memory, size);
  if (queue != NULL)
    _tarn_block_add_use (block, queue);
  block->is_unready = queue == NULL && is_made_ready (allocator);
  return block;
}

/* Allocates a block of a direct allocator, and records the result.  If the backend has a default
 * queue, the block counts as used by this queue, because the queue makes the memory ready. */
TarnBlock *
_tarn_direct_allocate_block (TarnAllocator *allocator, gsize size, GError **error)
{
  GError *local = NULL;
  TarnBlock *block = allocate_block (allocator, size, &local);

  if (block != NULL)
    TARN_PROBE (miss, allocator->id, block, size, block->alloc_size, block->memory.address, NULL);
  else
    TARN_PROBE (fail, allocator->id, size, _tarn_record_get_code (local), NULL);
  if (_tarn_records ())
    record_block (allocator, size, block, local);
  if (local != NULL)
    g_propagate_error (error, local);
  return block;
}

/* Frees a block of a direct allocator.  If other parts of the program have a reference to the block
 * (tarn_block_ref ()), only drops the caller's reference. */
void
_tarn_direct_free_block (TarnBlock *block)
{
  TarnAllocator *allocator = block->source;

  if (_tarn_forked ())
    return;
  if (!_tarn_block_retire (block))
    return;
  TARN_PROBE_HIT (free, allocator->id, block, block->size);
  if (_tarn_records ())
    _tarn_record_numbers (TARN_TRACE_FREE, allocator->id, GPOINTER_TO_SIZE (block));
  if (block->n_uses > 0)
    _tarn_direct_free_used (block);
  else
    _tarn_direct_call_free (allocator, block->memory, block->size);
  _tarn_block_destroy (block);
  tarn_allocator_unref (allocator);
}

void
_tarn_direct_free_memory (TarnAllocator *allocator, TarnMemory memory, gsize size)
{
  if (!_tarn_forked ())
    _tarn_direct_call_free (allocator, memory, size);
}

/* Frees a direct allocator whose last block has been freed. */
static void
direct_finalize (TarnAllocator *allocator)
{
  _tarn_allocator_withdraw (allocator);
  _tarn_allocator_clear (allocator);
  g_free (allocator);
}

static void
direct_tell (TarnAllocator *allocator, TarnListener *listener)
{
  const TarnAllocatorOps *ops = &allocator->ops;
  const guint64 properties[] = {
    TARN_TRACE_GRANULARITY,    ops->virtual_granularity,
    TARN_TRACE_HAS_QUEUES,     ops->queue_ref != NULL,
    TARN_TRACE_PART_ALIGNMENT, ops->part_new != NULL ? ops->part_alignment : 0,
    TARN_TRACE_RELEASES_PARTS, ops->part_release != NULL,
    TARN_TRACE_FREES_IN_ORDER, (guint64) ops->frees_in_order,
    TARN_TRACE_RECORDS_ALL,    ops->event_record_all != NULL,
  };

  listener->object (listener, allocator, NULL, properties, G_N_ELEMENTS (properties) / 2);
}

static gsize
direct_trim (TarnAllocator *allocator, gsize keep_bytes)
{
  return allocator->trim != NULL ? allocator->trim (allocator->user_data, keep_bytes) : 0;
}

static const TarnAllocatorClass direct_class = {
  .kind = "allocator",
  .trace_class = TARN_TRACE_DIRECT,
  .allocate_block = _tarn_direct_allocate_block,
  .free_block = _tarn_direct_free_block,
  .ref_block = _tarn_direct_ref_block,
  .allocate_memory = _tarn_direct_allocate_memory,
  .free_memory = _tarn_direct_free_memory,
  /* dispose () may free the allocator at once, and finalize () is not needed.  The reason: no block
   * exists when dispose () runs, because each block has a reference to the allocator. */
  .dispose = direct_finalize,
  .record_use = _tarn_direct_record_use,
  .move_to_queue = _tarn_direct_move_to_queue,
  .trim = direct_trim,
  .tell = direct_tell,
};

/* Returns TRUE if a backend has either all functions for queues and events, or none of them. */
static gboolean
ordering_is_all_or_none (const TarnAllocatorOps *ops)
{
  gboolean all = ops->queue_ref != NULL && ops->queue_unref != NULL && ops->event_record != NULL
                 && ops->event_is_done != NULL && ops->event_wait != NULL
                 && ops->event_release != NULL;
  gboolean none = ops->queue_ref == NULL && ops->queue_unref == NULL && ops->event_record == NULL
                  && ops->event_is_done == NULL && ops->event_wait == NULL
                  && ops->event_release == NULL;

  return all || none;
}

static gboolean
contents_are_whole (const TarnAllocatorOps *ops)
{
  return (ops->read == NULL) == (ops->fill == NULL)
         && ((ops->find_other == NULL && ops->find_host == NULL) || ops->read != NULL);
}

/* Returns TRUE if the fields of @ops that heaps use fit together.  Either virtual_granularity is a
 * power of two and all functions for virtual memory are set, or it is 0 and none of them is set.
 * Either part_new () is set and part_alignment is a power of two, or neither part_new () nor
 * part_release () is set and part_alignment is 0. */
static gboolean
heap_functions_are_whole (const TarnAllocatorOps *ops)
{
  gboolean all = ops->addresses_reserve != NULL && ops->addresses_release != NULL
                 && ops->backing_new != NULL && ops->backing_release != NULL
                 && ops->backing_map != NULL && ops->backing_unmap != NULL;
  gboolean none = ops->addresses_reserve == NULL && ops->addresses_release == NULL
                  && ops->backing_new == NULL && ops->backing_release == NULL
                  && ops->backing_map == NULL && ops->backing_unmap == NULL;

  if (ops->part_new == NULL ? ops->part_release != NULL || ops->part_alignment != 0
                            : !_tarn_is_power_of_two (ops->part_alignment))
    return FALSE;
  return ops->virtual_granularity == 0 ? none
                                       : all && _tarn_is_power_of_two (ops->virtual_granularity);
}

/* Copies the caller's functions to @known.  Returns FALSE with a message if ops->struct_size shows
 * that @ops does not point to a TarnAllocatorOps. */
static gboolean
read_ops (const TarnAllocatorOps *ops, TarnAllocatorOps *known)
{
  if (_tarn_struct_read (known, sizeof *known, ops))
    return TRUE;
  g_critical ("tarn_allocator_new: struct_size of TarnAllocatorOps is %" G_GSIZE_FORMAT
              ", but Tarn %s takes %" G_GSIZE_FORMAT " to %" G_GSIZE_FORMAT
              " bytes, and more where all that follows is 0: start from TARN_ALLOCATOR_OPS_INIT",
              ops->struct_size, tarn_get_version (), sizeof ops->struct_size, sizeof *known);
  return FALSE;
}

TarnAllocator *
tarn_allocator_new (const TarnAllocatorOps *ops, gpointer user_data, GDestroyNotify destroy)
{
  TarnAllocatorOps known = TARN_ALLOCATOR_OPS_INIT;
  TarnAllocator *allocator;

  g_return_val_if_fail (ops != NULL, NULL);
  if (!read_ops (ops, &known))
    return NULL;
  g_return_val_if_fail (known.allocate != NULL && known.free != NULL, NULL);
  g_return_val_if_fail (ordering_is_all_or_none (&known), NULL);
  g_return_val_if_fail (heap_functions_are_whole (&known), NULL);
  g_return_val_if_fail (contents_are_whole (&known), NULL);

  _tarn_faults_from_environment ();
  allocator = g_new0 (TarnAllocator, 1);
  _tarn_allocator_init (allocator, &direct_class, &known, user_data, destroy, allocator);
  if (known.below != NULL)
    allocator->level = known.below->level + 1;
  allocator->ops.below = NULL;
  _tarn_allocator_publish (allocator);
  return allocator;
}

/* Makes a direct allocator for the folder debug/ (TARN_DEBUG).  It stands between a pool and
 * @given, the allocator that the program gave the pool as upstream.  Recordings and snapshots do
 * not show the new allocator. */
TarnAllocator *
_tarn_allocator_new_between (const TarnAllocatorOps *ops, gpointer user_data,
                             GDestroyNotify destroy, TarnAllocator *given)
{
  TarnAllocator *allocator = g_new0 (TarnAllocator, 1);

  _tarn_allocator_init (allocator, &direct_class, ops, user_data, destroy, allocator);
  allocator->given = given;
  return allocator;
}

TarnAllocator *
tarn_allocator_ref (TarnAllocator *allocator)
{
  g_return_val_if_fail (allocator != NULL, NULL);
  g_atomic_int_inc (&allocator->ref_count);
  return allocator;
}

void
tarn_allocator_unref (TarnAllocator *allocator)
{
  if (allocator == NULL || !g_atomic_int_dec_and_test (&allocator->ref_count))
    return;
  /* In a child of fork (), do not dispose of the allocator: dispose () would call the driver, which
   * does not work in the child. */
  if (!_tarn_forked ())
    allocator->klass->dispose (allocator);
}

gboolean
tarn_allocator_is_deferred (TarnAllocator *allocator)
{
  g_return_val_if_fail (allocator != NULL, FALSE);
  return allocator->ops.deferred;
}

gboolean
tarn_allocator_is_of (TarnAllocator *allocator, TarnAllocatorFreeFunc func)
{
  g_return_val_if_fail (allocator != NULL, FALSE);
  g_return_val_if_fail (func != NULL, FALSE);
  return allocator->ops.free == func;
}

TarnAllocator *
tarn_allocator_get_direct (TarnAllocator *allocator)
{
  g_return_val_if_fail (allocator != NULL, NULL);
  return _tarn_allocator_get_backend (allocator);
}

const gchar *
tarn_allocator_get_name (TarnAllocator *allocator)
{
  g_return_val_if_fail (allocator != NULL, NULL);
  return allocator->ops.name;
}

gpointer
tarn_allocator_get_user_data (TarnAllocator *allocator)
{
  g_return_val_if_fail (allocator != NULL, NULL);
  return allocator->user_data;
}

void
tarn_allocator_get_ops (TarnAllocator *allocator, TarnAllocatorOps *ops)
{
  g_return_if_fail (allocator != NULL);
  g_return_if_fail (_tarn_struct_has_size (ops));
  _tarn_struct_write (ops, &allocator->ops, sizeof allocator->ops);
}

TarnBlock *
tarn_allocator_allocate (TarnAllocator *allocator, gsize size, GError **error)
{
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  TARN_REFUSE_NULL (allocator, NULL);

  if (!check_request (allocator, size, error))
    return NULL;
  return allocator->klass->allocate_block (allocator, size, error);
}

gboolean
tarn_allocator_allocate_memory (TarnAllocator *allocator, gsize size, TarnMemory *memory,
                                GError **error)
{
  g_return_val_if_fail (memory != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (allocator, FALSE);

  if (!check_request (allocator, size, error))
    return FALSE;
  return allocator->klass->allocate_memory (allocator, size, memory, error);
}

void
tarn_allocator_free_memory (TarnAllocator *allocator, TarnMemory memory, gsize size)
{
  g_return_if_fail (allocator != NULL);

  allocator->klass->free_memory (allocator, memory, size);
}
