/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The program's contexts: their pools, and the waits of released buffers for commands.  For the
 * order of a context's queues see context-order.c.
 *
 * Buffers come from pools only if their context has a single device, because a buffer from a pool
 * is a range of a piece, a large buffer of the driver.  With several devices, when one buffer is
 * used on a device, the driver may move the whole piece there, together with buffers that are used
 * on another device. */

#include "layer-private.h"

#include <string.h>

/* The flags that a buffer from a pool may have.  Such a buffer is the driver's sub-buffer of a
 * piece, a large buffer.  So the list has only flags that clCreateSubBuffer () accepts, and flags
 * that a sub-buffer inherits from its piece. */
#define SERVED_FLAGS (LAYER_ACCESS_FLAGS | LAYER_HOST_FLAGS | CL_MEM_ALLOC_HOST_PTR)

/* Functions that make and trim a context's pools, and choose the buffers that come from them */

TarnPool *
_tarn_layer_context_get_pool (LayerContext *self, LayerMemory memory)
{
  TarnPool *made;

  {
    TARN_LOCKED (&self->lock);

    if (self->pools[memory] != NULL)
      return self->pools[memory];
  }
  made = _tarn_layer_pool_new (&self->sources[memory]);
  if (made == NULL)
    return NULL;
  {
    TARN_LOCKED (&self->lock);

    if (self->pools[memory] == NULL)
      self->pools[memory] = g_steal_pointer (&made);
  }
  tarn_pool_unref (made);
  return self->pools[memory];
}

gboolean
_tarn_layer_context_may_serve (LayerContext *self)
{
  return _tarn_layer_get_settings ()->uses_pool && !_tarn_layer_is_blind ()
         && tarn_check_fork (NULL) && self->device != NULL
         && !__atomic_load_n (&self->ended, __ATOMIC_ACQUIRE);
}

/* Returns TRUE if a buffer with these flags and this size may come from a pool. */
static gboolean
can_serve (const LayerContext *self, cl_mem_flags flags, gsize size)
{
  return self != NULL && self->device != NULL && (flags & ~(cl_mem_flags) SERVED_FLAGS) == 0
         && size > 0 && size <= self->max_bytes
         && !__atomic_load_n (&self->wants_images, __ATOMIC_ACQUIRE)
         && !__atomic_load_n (&self->ended, __ATOMIC_ACQUIRE);
}

LayerContext *
_tarn_layer_context_find_pool (cl_context handle, cl_mem_flags flags, gsize size, TarnPool **pool)
{
  cl_mem_flags real, plain = flags & ~(cl_mem_flags) CL_MEM_COPY_HOST_PTR;
  LAYER_AUTO LayerContext *self = NULL;

  if (!_tarn_layer_get_settings ()->uses_pool || _tarn_layer_is_blind () || !tarn_check_fork (NULL)
      || (plain != flags && !_tarn_layer_get_settings ()->may_debug))
    return NULL;
  self = _tarn_layer_find (LAYER_CONTEXT, handle);
  if (self != NULL)
    _tarn_layer_expect_images_if_asked (self);
  if (!can_serve (self, plain, size) || _tarn_layer_ask_flags (self, flags, &real) != CL_SUCCESS)
    return NULL;
  *pool = _tarn_layer_context_get_pool (self, (flags & CL_MEM_ALLOC_HOST_PTR) != 0 ? LAYER_HOST
                                                                                   : LAYER_PLAIN);
  if (*pool == NULL || (plain != flags && !_tarn_layer_is_debugged (self)))
    return NULL;
  return g_steal_pointer (&self);
}

LayerReason
_tarn_layer_context_find_reason (cl_context handle, cl_mem_flags flags, gsize size)
{
  LAYER_AUTO LayerContext *self = _tarn_layer_find (LAYER_CONTEXT, handle);

  if ((flags & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR)) != 0)
    return LAYER_OF_HOST;
  if (self == NULL)
    return LAYER_NO_POOL;
  if (self->device == NULL)
    return LAYER_OF_DEVICES;
  if ((flags & ~(cl_mem_flags) SERVED_FLAGS) != 0)
    return LAYER_FLAGS;
  if (size > self->max_bytes)
    return LAYER_TOO_LARGE;
  return __atomic_load_n (&self->wants_images, __ATOMIC_ACQUIRE) ? LAYER_FOR_IMAGES : LAYER_NO_POOL;
}

void
_tarn_layer_context_trim (LayerContext *self)
{
  TarnPool *pools[LAYER_N_KINDS + 1];

  _tarn_layer_drop_spares (self);
  {
    TARN_LOCKED (&self->lock);

    /* The pools stay alive without the lock and without a reference: a pool lives as long as its
     * context. */
    memcpy (pools, self->pools, sizeof self->pools);
    pools[LAYER_N_KINDS] = self->images;
  }
  for (guint i = 0; i < G_N_ELEMENTS (pools); i++)
    if (pools[i] != NULL)
      tarn_pool_trim (pools[i], 0);
}

/* Functions that poll queues, and wait for commands */

/* Returns a reference to the context's queue that the layer polls next.  Successive calls of this
 * function return the context's queues one after another, and then begin again.  Returns NULL if
 * the context has no queue. */
static LayerQueue *
next_queue (LayerContext *self)
{
  TARN_LOCKED (&self->lock);

  if (self->queues->len == 0)
    return NULL;
  self->turn = (self->turn + 1) % self->queues->len;
  return _tarn_layer_ref (g_ptr_array_index (self->queues, self->turn));
}

/* The shortest time between two polls by _tarn_layer_context_poll_if_due (), in microseconds.  A
 * poll asks the driver about commands, which may take longer than the rest of an allocation. */
#define POLL_EVERY (G_TIME_SPAN_MILLISECOND / 10)

/* The layer does not poll until more than MAX_UNPOLLED released buffers wait for their commands, or
 * buffers of more than MAX_UNPOLLED_BYTES in all.  The program often calls clFinish () before that.
 * Then all commands are done, and the layer need not ask the driver about each of them. */
#define MAX_UNPOLLED 1000
#define MAX_UNPOLLED_BYTES ((gsize) 4 << 20)

/* Returns TRUE if the released buffers that wait for commands exceed a limit in number or in size.
 * Then the layer should ask the driver whether the commands are done. */
static gboolean
has_many_pending (LayerContext *self)
{
  return __atomic_load_n (&self->pending, __ATOMIC_ACQUIRE) > MAX_UNPOLLED
         || __atomic_load_n (&self->pending_bytes, __ATOMIC_RELAXED) > MAX_UNPOLLED_BYTES;
}

void
_tarn_layer_context_poll_if_due (LayerContext *self, gint64 now)
{
  if (!has_many_pending (self)
      || now - __atomic_load_n (&self->polled_at, __ATOMIC_RELAXED) < POLL_EVERY)
    return;
  __atomic_store_n (&self->polled_at, now, __ATOMIC_RELAXED);
  _tarn_layer_context_poll (self);
}

void
_tarn_layer_context_poll (LayerContext *self)
{
  if (__atomic_load_n (&self->pending, __ATOMIC_ACQUIRE) == 0)
    return;
  for (guint i = 0; i < 2; i++)
    {
      LAYER_AUTO LayerQueue *queue = next_queue (self);

      if (queue != NULL)
        _tarn_layer_queue_poll (queue);
    }
}

/* Returns references to all queues of the context. */
static GPtrArray *
list_queues (LayerContext *self)
{
  TARN_LOCKED (&self->lock);
  GPtrArray *queues = g_ptr_array_new_with_free_func (_tarn_layer_unref);

  for (guint i = 0; i < self->queues->len; i++)
    g_ptr_array_add (queues, _tarn_layer_ref (g_ptr_array_index (self->queues, i)));
  return queues;
}

gboolean
_tarn_layer_context_may_wait (LayerContext *self)
{
  return __atomic_load_n (&self->n_user_events, __ATOMIC_ACQUIRE) == 0;
}

/* The longest time for which _tarn_layer_context_finish () polls, in microseconds.  It needs a
 * limit, because a command may wait for a user event that the program never completes. */
#define MAX_FINISH G_TIME_SPAN_SECOND

void
_tarn_layer_context_finish (LayerContext *self)
{
  g_autoptr (GPtrArray) queues = list_queues (self);
  gint64 end = g_get_monotonic_time () + MAX_FINISH;

  for (guint i = 0; _tarn_layer_context_may_wait (self) && i < queues->len; i++)
    _tarn_layer_queue_finish (g_ptr_array_index (queues, i));
  while (__atomic_load_n (&self->pending, __ATOMIC_ACQUIRE) > 0 && g_get_monotonic_time () < end)
    {
      for (guint i = 0; i < queues->len; i++)
        _tarn_layer_queue_poll (g_ptr_array_index (queues, i));
      g_usleep (100);
    }
}

gboolean
_tarn_layer_context_wait (LayerContext *self)
{
  g_autoptr (GPtrArray) queues = NULL;
  gboolean waited = FALSE;

  if (!_tarn_layer_context_may_wait (self)
      || __atomic_load_n (&self->pending, __ATOMIC_ACQUIRE) == 0)
    return FALSE;
  queues = list_queues (self);
  for (guint i = 0; i < queues->len; i++)
    waited |= _tarn_layer_queue_wait (g_ptr_array_index (queues, i));
  return waited;
}

/* The longest time for which a request for memory waits while the debug thread checks released
 * buffers (TARN_DEBUG), in microseconds.  Without this limit, a request in a callback of the driver
 * could wait for ever: the check waits for commands, and the driver may run no command until the
 * callback returns. */
#define MAX_DRAIN G_TIME_SPAN_SECOND

void
_tarn_layer_context_make_room (LayerContext *self)
{
  g_autoptr (GPtrArray) queues = list_queues (self);
  g_autoptr (GPtrArray) contexts = _tarn_layer_list_all (LAYER_CONTEXT);

  _tarn_layer_context_wait (self);
  for (guint i = 0; i < queues->len; i++)
    _tarn_layer_queue_poll (g_ptr_array_index (queues, i));
  _tarn_layer_debug_drain (MAX_DRAIN);
  for (guint i = 0; i < contexts->len; i++)
    _tarn_layer_context_trim (g_ptr_array_index (contexts, i));
}

/* Functions that make and free the records of the program's contexts */

/* Frees the record of a context that has no user any more.  The users of a record are the context
 * itself and the allocators of the context's pools.  So the pools are freed already. */
static void
free_rest (LayerContext *self)
{
  if (self->own_queue != NULL)
    _tarn_layer_driver->clReleaseCommandQueue (self->own_queue);
  if (self->only_event != NULL)
    _tarn_layer_driver->clReleaseEvent (self->only_event);
  if (self->address_program != NULL)
    _tarn_layer_driver->clReleaseProgram (self->address_program);
  if (self->image_kinds != NULL)
    _tarn_opencl_image_kinds_unref (self->image_kinds);
  g_ptr_array_unref (self->queues);
  g_ptr_array_unref (self->pieces);
  g_hash_table_unref (self->addresses);
  _tarn_layer_subs_clear (self);
  g_hash_table_unref (self->answers);
  _tarn_cond_clear (&self->changed);
  _tarn_mutex_clear (&self->lock);
  g_free (self);
}

LayerContext *
_tarn_layer_context_add_user (LayerContext *self)
{
  __atomic_add_fetch (&self->n_users, 1, __ATOMIC_RELAXED);
  return self;
}

void
_tarn_layer_context_drop_user (LayerContext *self)
{
  guint n = __atomic_fetch_sub (&self->n_users, 1, __ATOMIC_ACQ_REL);

  g_assert (n > 0);
  if (n == 1)
    free_rest (self);
}

/* Releases a context's pools, and then subtracts the 1 that LayerContext.n_users counts for the
 * context itself.  This usually frees the context's record.  The record lives longer if another
 * thread that runs tarn_debug_check () still uses an allocator of the context. */
static void
finalize_now (gpointer data)
{
  LayerContext *self = data;

  g_assert (self->queues->len == 0 && self->pending == 0);
  _tarn_layer_images_clear (self);
  for (guint i = 0; i < LAYER_N_KINDS; i++)
    tarn_pool_unref (self->pools[i]);
  _tarn_layer_context_drop_user (self);
}

/* Frees the record of a context, to which nothing refers any more.  If TARN_DEBUG checks the
 * context's buffers, the debug thread frees the record, after it has checked the released buffers.
 */
static void
context_finalize (gpointer record)
{
  _tarn_layer_unlist_ended (record);
  if (!_tarn_layer_is_debugged (record))
    {
      finalize_now (record);
      return;
    }
  _tarn_layer_debug_end (record);
  _tarn_layer_debug_defer (finalize_now, record);
}

/* Returns the device of a context that has exactly one.  Returns NULL for any other context. */
static cl_device_id
get_only_device (cl_context handle)
{
  cl_device_id devices[2];
  size_t size = 0;

  if (_tarn_layer_driver->clGetContextInfo (handle, CL_CONTEXT_DEVICES, sizeof devices, devices,
                                            &size)
          != CL_SUCCESS
      || size != sizeof *devices)
    return NULL;
  return *devices;
}

/* Makes the record of a context that the driver has made.  @handle: the driver's handle, or NULL if
 * the driver failed.  If it is NULL, makes no record.  Returns @handle. */
static cl_context
add_context (cl_context handle)
{
  cl_device_id device = handle != NULL ? get_only_device (handle) : NULL;
  LayerContext *self;

  if (handle == NULL)
    return NULL;
  self = g_new0 (LayerContext, 1);
  self->base = (LayerObject){ LAYER_CONTEXT, 1, 1, handle, context_finalize };
  self->n_users = 1;
  self->device = device != NULL && _tarn_layer_ask_device (self, device) ? device : NULL;
  _tarn_mutex_init (&self->lock);
  _tarn_cond_init (&self->changed);
  self->queues = g_ptr_array_new ();
  self->pieces = g_ptr_array_new ();
  self->addresses = g_hash_table_new (NULL, NULL);
  self->answers = g_hash_table_new (NULL, NULL);
  _tarn_layer_subs_init (self);
  self->counts_parts = self->counts_maps = self->has_images = self->shares_addresses = -1;
  for (guint i = 0; i < LAYER_N_KINDS; i++)
    self->sources[i] = (LayerSource){ self, (LayerMemory) i };
  _tarn_layer_list (self);
  _tarn_layer_unref (self);
  return handle;
}

cl_context CL_API_CALL
layer_clCreateContext (const cl_context_properties *properties, cl_uint n,
                       const cl_device_id *devices,
                       void (CL_CALLBACK *notify) (const char *, const void *, size_t, void *),
                       void *user_data, cl_int *status)
{
  return add_context (
      _tarn_layer_driver->clCreateContext (properties, n, devices, notify, user_data, status));
}

cl_context CL_API_CALL
layer_clCreateContextFromType (const cl_context_properties *properties, cl_device_type type,
                               void (CL_CALLBACK *notify) (const char *, const void *, size_t,
                                                           void *),
                               void *user_data, cl_int *status)
{
  return add_context (
      _tarn_layer_driver->clCreateContextFromType (properties, type, notify, user_data, status));
}

cl_int CL_API_CALL
layer_clRetainContext (cl_context handle)
{
  cl_int status = _tarn_layer_driver->clRetainContext (handle);
  LAYER_AUTO LayerContext *self = _tarn_layer_find (LAYER_CONTEXT, handle);

  if (self != NULL && status == CL_SUCCESS)
    _tarn_layer_retain (self);
  return status;
}

/* Returns the number of the driver's objects that the layer has made in a context for itself: its
 * pieces, large buffers that contain the program's buffers, and a queue for its own commands. */
static cl_uint
count_pieces (LayerContext *self)
{
  TARN_LOCKED (&self->lock);
  cl_uint n = self->own_queue != NULL;

  for (guint i = 0; i < self->pieces->len; i++)
    n += g_ptr_array_index (self->pieces, i) != NULL;
  return n;
}

/* Returns the number of references to the context that the driver counts for objects which the
 * layer has made for itself.  The program must not see these references. */
static cl_uint
count_own (LayerContext *self)
{
  return self->own_references + count_pieces (self) + _tarn_layer_count_spares (self)
         + __atomic_load_n (&self->spare_images, __ATOMIC_RELAXED);
}

cl_int CL_API_CALL
layer_clGetContextInfo (cl_context handle, cl_context_info name, size_t size, void *value,
                        size_t *size_ret)
{
  LAYER_AUTO LayerContext *self = _tarn_layer_find (LAYER_CONTEXT, handle);
  cl_uint own = self != NULL && self->counts_objects ? count_own (self) : 0;
  cl_int status = _tarn_layer_driver->clGetContextInfo (handle, name, size, value, size_ret);

  if (status == CL_SUCCESS && name == CL_CONTEXT_REFERENCE_COUNT && value != NULL)
    *(cl_uint *) value -= own;
  return status;
}

/* Prepares the record of a context for the time after the program has released the context.  The
 * context's buffers, queues and kernels keep the context alive in the driver, so the layer keeps
 * the context's record until they are gone.  The pools serve no more requests, so they return their
 * cached memory now.  If a buffer ends later, free_memory () in buffer.c returns the buffer's
 * memory.  The layer polls queues during calls of the program.  The program may make no more calls,
 * so this function makes the driver call back when the commands of the queues are done. */
static void
end_context (LayerContext *self)
{
  g_autoptr (GPtrArray) queues = NULL;

  __atomic_store_n (&self->ended, TRUE, __ATOMIC_RELEASE);
  _tarn_layer_context_trim (self);
  queues = list_queues (self);
  for (guint i = 0; i < queues->len; i++)
    {
      _tarn_layer_queue_poll (g_ptr_array_index (queues, i));
      _tarn_layer_queue_put_marker (g_ptr_array_index (queues, i), TRUE);
    }
}

cl_int CL_API_CALL
layer_clReleaseContext (cl_context handle)
{
  LAYER_AUTO LayerContext *self = _tarn_layer_find (LAYER_CONTEXT, handle);

  if (self != NULL && _tarn_layer_release (self))
    {
      _tarn_layer_list_ended (self);
      _tarn_layer_unlist (self);
      end_context (self);
    }
  _tarn_layer_clear (&self);
  self = NULL;
  return _tarn_layer_driver->clReleaseContext (handle);
}
