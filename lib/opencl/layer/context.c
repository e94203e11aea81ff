/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Contexts.  One of several devices is left to the driver, which may move a whole piece where only
 * a part of it changed devices. */

#include "layer-private.h"

#include <string.h>

/* The flags that a sub-buffer can have, or inherit from a piece. */
#define SERVED_FLAGS (LAYER_ACCESS_FLAGS | LAYER_HOST_FLAGS | CL_MEM_ALLOC_HOST_PTR)

/* Pools, and whether buffers may have memory from one */

TarnPool *
_tarn_layer_context_get_pool (LayerContext *self, LayerMemory memory)
{
  TarnPool *made;

  {
    LAYER_LOCKED (&self->lock);

    if (self->pools[memory] != NULL)
      return self->pools[memory];
  }
  made = _tarn_layer_pool_new (&self->sources[memory]);
  if (made == NULL)
    return NULL;
  {
    LAYER_LOCKED (&self->lock);

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

  _tarn_layer_drop_spares (self, 0);
  {
    LAYER_LOCKED (&self->lock);

    memcpy (pools, self->pools, sizeof self->pools); /* each is there as long as the context is */
    pools[LAYER_N_KINDS] = self->images;
  }
  for (guint i = 0; i < G_N_ELEMENTS (pools); i++)
    if (pools[i] != NULL)
      tarn_pool_trim (pools[i], 0);
}

/* One queue, or many */

gboolean
_tarn_layer_context_gives_on (LayerContext *self)
{
  LAYER_LOCKED (&self->lock);

  if (_tarn_layer_is_debugged (self))
    return FALSE;
  self->gave_on |= self->order == LAYER_ONE_QUEUE;
  return self->order <= LAYER_ONE_QUEUE;
}

/* Gets what stands for all commands of the only queue so far; NULL: they are done. */
static cl_event
record_end (LayerQueue *queue)
{
  cl_event event = NULL;

  if (_tarn_layer_queue_is_done (queue, _tarn_layer_queue_get_enqueued (queue)))
    return NULL;
  if (_tarn_layer_driver->clEnqueueMarkerWithWaitList (queue->base.handle, 0, NULL, &event)
      == CL_SUCCESS)
    {
      /* Another queue is to wait for it. */
      _tarn_layer_driver->clFlush (queue->base.handle);
      return event;
    }
  /* Nothing that the program has to do first is on the queue. */
  _tarn_layer_driver->clFinish (queue->base.handle);
  return NULL;
}

/* Takes the queue of a context that had no other, if another has to wait for it; NULL: it need not.
 */
static LayerQueue *
begin_many (LayerContext *self, const LayerQueue *queue)
{
  LAYER_LOCKED (&self->lock);
  LayerQueue *only = NULL;

  while (self->order == LAYER_BECOMING_MANY)
    _tarn_cond_wait (&self->changed, &self->lock);
  if (queue != NULL && queue != self->only_queue)
    return NULL;
  if (self->order == LAYER_ONE_QUEUE && self->gave_on)
    {
      only = _tarn_layer_ref (self->only_queue);
      self->order = LAYER_BECOMING_MANY;
    }
  else
    self->order = LAYER_MANY_QUEUES;
  self->only_queue = NULL;
  return only;
}

void
_tarn_layer_context_end_one_queue (LayerContext *self, const LayerQueue *queue)
{
  LAYER_AUTO LayerQueue *only = begin_many (self, queue);
  cl_event event;

  if (only == NULL)
    return;
  event = record_end (only);
  {
    LAYER_LOCKED (&self->lock);

    self->only_end = event;
    self->order = LAYER_MANY_QUEUES;
    _tarn_cond_broadcast (&self->changed);
  }
}

/* Has a new queue wait for what memory was given on from one buffer to the next behind. */
static void
wait_for_only (LayerContext *self, LayerQueue *queue)
{
  cl_event event;

  {
    LAYER_LOCKED (&self->lock);

    event = self->only_end; /* it stays as it is */
  }
  if (event != NULL
      && _tarn_layer_driver->clEnqueueBarrierWithWaitList (queue->base.handle, 1, &event, NULL)
             != CL_SUCCESS)
    _tarn_layer_driver->clWaitForEvents (1, &event);
}

/* Adds a queue.  TRUE: it is the first one, in order, and remains the only one for now. */
static gboolean
set_only (LayerContext *self, LayerQueue *queue, gboolean in_order)
{
  LAYER_LOCKED (&self->lock);

  g_ptr_array_add (self->queues, _tarn_layer_ref (queue));
  if (self->order != LAYER_NO_QUEUE || !in_order)
    return FALSE;
  self->order = LAYER_ONE_QUEUE;
  self->only_queue = queue;
  return TRUE;
}

void
_tarn_layer_context_add_queue (LayerContext *self, LayerQueue *queue, gboolean in_order)
{
  _tarn_layer_context_look (self, TRUE);
  if (set_only (self, queue, in_order))
    return;
  _tarn_layer_context_end_one_queue (self, NULL);
  wait_for_only (self, queue);
}

void
_tarn_layer_context_drop_queue (LayerContext *self, LayerQueue *queue)
{
  gboolean had;

  {
    LAYER_LOCKED (&self->lock);

    had = g_ptr_array_remove_fast (self->queues, queue);
  }
  if (!had)
    return;
  _tarn_layer_queue_leave (queue);
  _tarn_layer_unref (queue);
}

cl_event CL_API_CALL
layer_clCreateUserEvent (cl_context handle, cl_int *status)
{
  LAYER_AUTO LayerContext *self = _tarn_layer_find (LAYER_CONTEXT, handle);

  if (self != NULL)
    {
      _tarn_layer_context_end_one_queue (self, NULL);
      __atomic_store_n (&self->has_user_events, TRUE, __ATOMIC_RELEASE);
    }
  return _tarn_layer_driver->clCreateUserEvent (handle, status);
}

/* Waiting */

/* Gets a reference to the queue whose turn it is; NULL: there is none. */
static LayerQueue *
next_queue (LayerContext *self)
{
  LAYER_LOCKED (&self->lock);

  if (self->queues->len == 0)
    return NULL;
  self->turn = (self->turn + 1) % self->queues->len;
  return _tarn_layer_ref (g_ptr_array_index (self->queues, self->turn));
}

/* The driver is asked, which may take longer than all else that an allocation does. */
#define LOOK_EVERY (G_TIME_SPAN_MILLISECOND / 10)

void
_tarn_layer_context_look (LayerContext *self, gboolean now)
{
  gint64 time;

  if (__atomic_load_n (&self->pending, __ATOMIC_ACQUIRE) == 0)
    return;
  time = g_get_monotonic_time ();
  if (!now && time - __atomic_load_n (&self->looked, __ATOMIC_RELAXED) < LOOK_EVERY)
    return;
  __atomic_store_n (&self->looked, time, __ATOMIC_RELAXED);
  for (guint i = 0; i < 2; i++)
    {
      LAYER_AUTO LayerQueue *queue = next_queue (self);

      if (queue != NULL)
        _tarn_layer_queue_look (queue);
    }
}

static GPtrArray *
list_queues (LayerContext *self)
{
  LAYER_LOCKED (&self->lock);
  GPtrArray *queues = g_ptr_array_new_with_free_func (_tarn_layer_unref);

  for (guint i = 0; i < self->queues->len; i++)
    g_ptr_array_add (queues, _tarn_layer_ref (g_ptr_array_index (self->queues, i)));
  return queues;
}

/* A command that waits for a user event may wait for the very thread that asks here. */
static gboolean
may_wait (LayerContext *self)
{
  return !__atomic_load_n (&self->has_user_events, __ATOMIC_ACQUIRE);
}

/* The longest wait: work that depends on the program may never be done. */
#define MAX_FINISH G_TIME_SPAN_SECOND

void
_tarn_layer_context_finish (LayerContext *self)
{
  g_autoptr (GPtrArray) queues = list_queues (self);
  gint64 end = g_get_monotonic_time () + MAX_FINISH;

  for (guint i = 0; may_wait (self) && i < queues->len; i++)
    _tarn_layer_queue_finish (g_ptr_array_index (queues, i));
  while (__atomic_load_n (&self->pending, __ATOMIC_ACQUIRE) > 0 && g_get_monotonic_time () < end)
    {
      for (guint i = 0; i < queues->len; i++)
        _tarn_layer_queue_look (g_ptr_array_index (queues, i));
      g_usleep (100);
    }
}

gboolean
_tarn_layer_context_wait (LayerContext *self)
{
  g_autoptr (GPtrArray) queues = NULL;
  gboolean waited = FALSE;

  if (!may_wait (self) || __atomic_load_n (&self->pending, __ATOMIC_ACQUIRE) == 0)
    return FALSE;
  queues = list_queues (self);
  for (guint i = 0; i < queues->len; i++)
    waited |= _tarn_layer_queue_wait (g_ptr_array_index (queues, i));
  return waited;
}

void
_tarn_layer_context_make_room (LayerContext *self)
{
  g_autoptr (GPtrArray) queues = list_queues (self);
  g_autoptr (GPtrArray) contexts = _tarn_layer_list_all (LAYER_CONTEXT);

  _tarn_layer_context_wait (self);
  for (guint i = 0; i < queues->len; i++)
    _tarn_layer_queue_look (g_ptr_array_index (queues, i));
  _tarn_layer_debug_drain ();
  for (guint i = 0; i < contexts->len; i++)
    _tarn_layer_context_trim (g_ptr_array_index (contexts, i));
}

/* The program's contexts */

/* Frees what the allocators of a context's memory use. */
static void
free_rest (LayerContext *self)
{
  if (self->own_queue != NULL)
    _tarn_layer_driver->clReleaseCommandQueue (self->own_queue);
  if (self->only_end != NULL)
    _tarn_layer_driver->clReleaseEvent (self->only_end);
  if (self->where != NULL)
    _tarn_layer_driver->clReleaseProgram (self->where);
  if (self->image_kinds != NULL)
    _tarn_opencl_image_kinds_unref (self->image_kinds);
  g_ptr_array_unref (self->queues);
  g_ptr_array_unref (self->pieces);
  g_hash_table_unref (self->addresses);
  _tarn_layer_spares_clear (self);
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
  if (__atomic_sub_fetch (&self->n_users, 1, __ATOMIC_ACQ_REL) == 0)
    free_rest (self);
}

/* Ends the pools.  tarn_debug_check (), called by another thread, may keep an allocator longer. */
static void
finalize_now (gpointer data)
{
  LayerContext *self = data;

  _tarn_layer_images_clear (self);
  for (guint i = 0; i < LAYER_N_KINDS; i++)
    tarn_pool_unref (self->pools[i]);
  _tarn_layer_context_drop_user (self);
}

/* With its pools end those that look at what was freed. */
static void
context_finalize (gpointer record)
{
  if (!_tarn_layer_is_debugged (record))
    {
      finalize_now (record);
      return;
    }
  _tarn_layer_debug_end (record);
  _tarn_layer_debug_defer (finalize_now, record);
}

/* Gets the device of a context that has one; NULL: it has several. */
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
  _tarn_layer_spares_init (self);
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
    _tarn_layer_hold (self);
  return status;
}

static cl_uint
count_pieces (LayerContext *self)
{
  LAYER_LOCKED (&self->lock);
  cl_uint n = self->own_queue != NULL;

  for (guint i = 0; i < self->pieces->len; i++)
    n += g_ptr_array_index (self->pieces, i) != NULL;
  return n;
}

/* Counts what the layer has made of it for itself. */
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

/* Ends a context.  Its buffers' memory keeps it alive in the driver, so the rest of it ends with
 * them. */
static void
end (LayerContext *self)
{
  g_autoptr (GPtrArray) queues = NULL;

  __atomic_store_n (&self->ended, TRUE, __ATOMIC_RELEASE);
  _tarn_layer_drop_spares (self, 0);
  _tarn_layer_trim_images (self);
  queues = list_queues (self);
  for (guint i = 0; i < queues->len; i++)
    {
      _tarn_layer_queue_look (g_ptr_array_index (queues, i));
      _tarn_layer_queue_mark (g_ptr_array_index (queues, i), TRUE);
    }
}

cl_int CL_API_CALL
layer_clReleaseContext (cl_context handle)
{
  LAYER_AUTO LayerContext *self = _tarn_layer_find (LAYER_CONTEXT, handle);

  if (self != NULL && _tarn_layer_let_go (self))
    {
      _tarn_layer_unlist (self);
      end (self);
    }
  _tarn_layer_clear (&self);
  self = NULL;
  return _tarn_layer_driver->clReleaseContext (handle);
}
