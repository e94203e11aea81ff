/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Buffers: OpenCL 3.0 specification, sections 5.2.1, "Creating Buffer Objects", and 5.5.1,
 * "Retaining and Releasing Memory Objects". */

#include "layer-private.h"

typedef struct
{
  void (CL_CALLBACK *notify) (cl_mem, void *);
  void *user_data;
} LayerCallback;

static void
buffer_finalize (gpointer record)
{
  LayerBuffer *self = record;

  _tarn_layer_buffer_forget_uses (self);
  g_slist_free_full (self->callbacks, g_free);
  if (self->maps != NULL)
    g_array_unref (self->maps);
  _tarn_layer_unref (self->whole);
  _tarn_layer_unref (self->context);
  _tarn_mutex_clear (&self->lock);
  g_free (self);
}

/* Makes the record of a handle, with a reference that it has until it is gone. */
static LayerBuffer *
buffer_new (cl_mem handle, LayerContext *context, gsize offset, gsize size, cl_mem_flags asked)
{
  LayerBuffer *self = g_new0 (LayerBuffer, 1);

  self->base = (LayerObject){ LAYER_BUFFER, 1, 1, handle, buffer_finalize };
  self->context = _tarn_layer_ref (context);
  self->offset = offset;
  self->size = size;
  self->asked = asked;
  _tarn_mutex_init (&self->lock);
  return self;
}

cl_mem
_tarn_layer_buffer_find_piece (const LayerBuffer *self, gsize *offset)
{
  const LayerBuffer *whole = self->whole != NULL ? self->whole : self;
  cl_mem piece = _tarn_layer_find_piece (whole->context, whole->block, offset);

  if (self->whole != NULL)
    *offset += self->offset;
  return piece;
}

/* The end */

static void end (LayerBuffer *self);

static void
let_go (LayerBuffer *self)
{
  if (_tarn_layer_let_go (self))
    end (self);
}

LayerBuffer *
_tarn_layer_buffer_find_held (cl_mem handle)
{
  LAYER_AUTO LayerBuffer *self = _tarn_layer_find (LAYER_BUFFER, handle);

  return self != NULL && _tarn_layer_try_hold (self) ? g_steal_pointer (&self) : NULL;
}

void
_tarn_layer_buffer_let_go (LayerBuffer *self)
{
  let_go (self);
  _tarn_layer_unref (self);
}

static void
call_back (LayerBuffer *self)
{
  for (GSList *link = self->callbacks; link != NULL; link = link->next)
    {
      const LayerCallback *callback = link->data;

      callback->notify (self->base.handle, callback->user_data);
    }
}

static void
release_handle (LayerBuffer *self)
{
  static gboolean once;

  if (_tarn_layer_driver->clReleaseMemObject (self->base.handle) != CL_SUCCESS)
    _tarn_layer_warn (&once, "clReleaseMemObject failed: a sub-buffer may be lost");
}

static void
part_go (LayerBuffer *self)
{
  release_handle (self);
  __atomic_sub_fetch (&self->whole->parts, 1, __ATOMIC_RELAXED);
  let_go (self->whole);
}

static void
give_back (gpointer data)
{
  LAYER_AUTO LayerBuffer *self = data;

  if (self->is_image)
    _tarn_layer_image_free (self->context, self->block, self->was_mapped);
  else
    {
      release_handle (self);
      tarn_block_free (self->block);
    }
  if (_tarn_layer_is_blind ())
    _tarn_layer_context_trim (self->context);
}

/* Frees a buffer that is no part.  Its sub-buffer is not kept if it is still mapped, because the
 * driver may know the map by it, nor if commands may use it that the layer does not see.  serve ()
 * sees to it that nobody else gets such memory. */
static void
whole_go (LayerBuffer *self)
{
  if (_tarn_layer_is_debugged (self->context))
    _tarn_layer_debug_defer (give_back, _tarn_layer_ref (self));
  else if (!self->is_image && !self->was_mapped && !_tarn_layer_is_blind ())
    {
      _tarn_layer_keep_spare (self->context, self);
      tarn_block_free (self->block);
    }
  else
    give_back (_tarn_layer_ref (self));
}

/* Nobody has a reference, and the commands are done as far as that matters. */
static void
go (LayerBuffer *self)
{
  call_back (self);
  if (self->whole != NULL)
    part_go (self);
  else
    whole_go (self);
  _tarn_layer_unref (self);
}

void
_tarn_layer_buffer_commands_done (LayerBuffer *self)
{
  LAYER_AUTO LayerContext *context = NULL;

  if (__atomic_sub_fetch (&self->waits, 1, __ATOMIC_ACQ_REL) > 0)
    return;
  context = _tarn_layer_ref (self->context);
  go (self);
  __atomic_sub_fetch (&context->pending, 1, __ATOMIC_ACQ_REL);
}

/* Has the buffer wait for a command, whose event that takes over; FALSE: it has to wait for the
 * queue. */
static gboolean
wait_for_event (LayerBuffer *self, LayerUse *use, gboolean notify)
{
  if (use->event == NULL || _tarn_layer_queue_is_done (use->queue, use->number))
    return FALSE;
  __atomic_add_fetch (&self->waits, 1, __ATOMIC_ACQ_REL);
  _tarn_layer_wait_for_event (self, use->queue, use->number, g_steal_pointer (&use->event), notify);
  return TRUE;
}

static void
wait_for_queue (LayerBuffer *self, const LayerUse *use, gboolean notify)
{
  __atomic_add_fetch (&self->waits, 1, __ATOMIC_ACQ_REL);
  if (!_tarn_layer_queue_add_waiting (use->queue, self, use->number))
    /* It is not the last: the one is left that was counted first. */
    __atomic_sub_fetch (&self->waits, 1, __ATOMIC_ACQ_REL);
  else if (notify)
    _tarn_layer_queue_mark (use->queue, TRUE);
  else
    _tarn_layer_queue_mark_now_and_then (use->queue);
}

/* Goes once all queues are done with it; it has ended. */
static void
go_after_commands (LayerBuffer *self)
{
  gboolean notify
      = self->callbacks != NULL || __atomic_load_n (&self->context->ended, __ATOMIC_ACQUIRE);
  G_GNUC_UNUSED LAYER_AUTO LayerBuffer *kept = _tarn_layer_ref (self);

  __atomic_add_fetch (&self->context->pending, 1, __ATOMIC_ACQ_REL);
  __atomic_store_n (&self->waits, 1, __ATOMIC_RELEASE);
  for (guint i = 0; i < self->n_uses; i++)
    if (!wait_for_event (self, &self->uses[i], notify))
      wait_for_queue (self, &self->uses[i], notify);
  _tarn_layer_buffer_commands_done (self);
}

/* Notes the uses of a part as uses of the whole, whose memory they use. */
static void
hand_uses_on (LayerBuffer *self)
{
  for (guint i = 0; i < self->n_uses; i++)
    _tarn_layer_buffer_use (self->whole, self->uses[i].queue, self->uses[i].number,
                            self->uses[i].event, FALSE);
}

static gboolean
has_callbacks (LayerBuffer *self)
{
  LAYER_LOCKED (&self->lock);

  self->ended = TRUE;
  return self->callbacks != NULL;
}

/* Nobody has a reference any more. */
static void
end (LayerBuffer *self)
{
  gboolean calls_back = has_callbacks (self);

  _tarn_layer_unlist (self);
  _tarn_layer_debug_note_end (self);
  self->was_mapped = _tarn_layer_forget_maps (self);
  if (self->whole != NULL)
    hand_uses_on (self);
  if (calls_back || (self->whole == NULL && !_tarn_layer_context_gives_on (self->context)))
    go_after_commands (self);
  else
    go (self);
}

/* The beginning */

/* Gets memory, after making room for it if that helps. */
static TarnBlock *
allocate (LayerContext *context, TarnPool *pool, gsize size, GError **error)
{
  TarnBlock *block = tarn_pool_allocate (pool, size, NULL);

  if (block != NULL)
    return block;
  /* Buffers whose commands are done already may be enough: try that first, without a wait. */
  _tarn_layer_context_look (context, TRUE);
  block = tarn_pool_allocate (pool, size, NULL);
  if (block != NULL)
    return block;
  _tarn_layer_context_make_room (context);
  return tarn_pool_allocate (pool, size, error);
}

/* Makes the driver's sub-buffer that the program gets; FALSE: it does not. */
static gboolean
make (LayerContext *context, const TarnBlock *block, LayerSpare *made)
{
  cl_buffer_region region = { 0, made->place.size };
  cl_mem piece = _tarn_layer_find_piece (context, block, &region.origin);
  cl_mem_flags asked = made->place.asked & (LAYER_ACCESS_FLAGS | LAYER_HOST_FLAGS);
  cl_int status;

  made->handle = _tarn_layer_driver->clCreateSubBuffer (piece, asked, CL_BUFFER_CREATE_TYPE_REGION,
                                                        &region, &status);
  if (made->handle == NULL)
    return FALSE;
  LAYER_COUNT (sub_buffers);
  return _tarn_layer_ask_flags (context, made->place.asked, &made->flags) == CL_SUCCESS;
}

static void
unmake (LayerSpare *made)
{
  if (made->handle != NULL)
    _tarn_layer_driver->clReleaseMemObject (made->handle);
  g_free (made);
}

/* Makes a sub-buffer of new memory; NULL: it cannot be. */
static LayerSpare *
make_new (LayerContext *context, const TarnBlock *block, const LayerPlace *place)
{
  LayerSpare *made = g_new0 (LayerSpare, 1);

  made->place = *place;
  /* After it was allocated: what commands that the layer does not see use has been free since. */
  if (!_tarn_layer_is_blind () && make (context, block, made))
    return made;
  unmake (made);
  return NULL;
}

/* The least bytes of a request that asks the driver at once whether released buffers are free. Such
 * a request takes as long anyway, and without the question as many bytes would be in use for
 * nothing. */
#define LARGE ((gsize) 256 << 10)

/* Small buffers of about the same size share blocks, which have less than an eighth more: the fewer
 * sizes, the more often a block is held that has a sub-buffer. */
#define MAX_ROUNDED ((gsize) 64 << 10)

static gsize
round_size (gsize size)
{
  gsize step = MAX (512, (gsize) 1 << (g_bit_storage (size) - 1) >> 3);

  return size > MAX_ROUNDED || !_tarn_layer_get_settings ()->rounds_sizes
             ? size
             : (size + step - 1) / step * step;
}

static TarnBlock *
get_block (LayerContext *context, TarnPool *pool, gsize size, GError **error)
{
  LayerMemory memory = pool == context->pools[LAYER_HOST] ? LAYER_HOST : LAYER_PLAIN;

  _tarn_layer_context_look (context, size >= LARGE);
  if (_tarn_layer_is_debugged (context))
    _tarn_layer_debug_keep_up ();
  _tarn_layer_drop_unneeded (context, pool, &context->idle[memory]);
  return allocate (context, pool, round_size (size), error);
}

/* Puts there what a buffer is to contain, before the program's first command; FALSE: it does not.
 */
static gboolean
set_contents (LayerContext *context, const TarnBlock *block, gconstpointer host)
{
  cl_command_queue queue = _tarn_layer_context_get_queue (context);
  gsize offset;
  cl_mem piece = _tarn_layer_find_piece (context, block, &offset);
  cl_event event;

  return queue != NULL
         && _tarn_layer_await (_tarn_layer_driver->clEnqueueWriteBuffer (
                                   queue, piece, CL_FALSE, offset, tarn_block_get_size (block),
                                   host, 0, NULL, &event),
                               &event)
                == CL_SUCCESS;
}

/* Gets what a buffer has besides its block, with contents if there are any; NULL: it cannot be. */
static LayerSpare *
get (LayerContext *context, const TarnBlock *block, cl_mem_flags flags, gconstpointer host)
{
  LayerPlace place = _tarn_layer_get_place (context, block, flags);
  LayerSpare *got = _tarn_layer_take_spare (context, &place);

  if (got == NULL)
    got = make_new (context, block, &place);
  if (got == NULL || host == NULL || set_contents (context, block, host))
    return got;
  unmake (got);
  return NULL;
}

/* Serves a buffer of a pool; NULL: the driver is to make it, unless *status says that there is to
 * be none. */
static cl_mem
serve (cl_context handle, cl_mem_flags flags, gsize size, gconstpointer host, cl_int *status)
{
  g_autoptr (GError) error = NULL;
  TarnPool *pool = NULL;
  LAYER_AUTO LayerContext *context = NULL;
  g_autoptr (TarnBlock) block = NULL;
  g_autofree LayerSpare *got = NULL;
  LayerBuffer *self;

  if ((host != NULL) != ((flags & CL_MEM_COPY_HOST_PTR) != 0))
    return NULL;
  context = _tarn_layer_context_find_pool (handle, flags, size, &pool);
  if (context != NULL)
    block = get_block (context, pool, size, &error);
  if (block != NULL)
    got = get (context, block, flags, host);
  if (got == NULL)
    {
      if (g_error_matches (error, TARN_ERROR, TARN_ERROR_LIMIT))
        *status = CL_MEM_OBJECT_ALLOCATION_FAILURE;
      return NULL;
    }
  self = buffer_new (got->handle, context, 0, size, flags);
  self->block = g_steal_pointer (&block);
  self->flags = got->flags;
  _tarn_layer_list (self);
  LAYER_COUNT (served);
  LAYER_COUNT_BYTES (buffer_bytes, size);
  return got->handle;
}

static cl_mem
answer (cl_mem buffer, cl_int status, cl_int *status_ret)
{
  if (status_ret != NULL)
    *status_ret = status;
  return buffer;
}

gboolean
_tarn_layer_made_room (cl_context handle, cl_int status)
{
  LAYER_AUTO LayerContext *context = NULL;

  if (status != CL_MEM_OBJECT_ALLOCATION_FAILURE && status != CL_OUT_OF_RESOURCES
      && status != CL_OUT_OF_HOST_MEMORY)
    return FALSE;
  context = _tarn_layer_find (LAYER_CONTEXT, handle);
  if (context == NULL || context->device == NULL)
    return FALSE;
  _tarn_layer_context_make_room (context);
  return TRUE;
}

/* Counts a buffer that the driver is asked for; of what it refuses nobody asks why. */
static void
count_passed_on (LayerReason reason, cl_mem buffer, gsize size)
{
  LAYER_COUNT (passed_on);
  if (buffer == NULL)
    return;
  LAYER_COUNT (reasons[reason]);
  LAYER_COUNT_BYTES (buffer_bytes, size);
}

cl_mem CL_API_CALL
layer_clCreateBuffer (cl_context context, cl_mem_flags flags, size_t size, void *host,
                      cl_int *status_ret)
{
  cl_int status = CL_SUCCESS;
  cl_mem buffer = serve (context, flags, size, host, &status);

  LAYER_COUNT (created);
  if (buffer != NULL || status != CL_SUCCESS)
    return answer (buffer, status, status_ret);
  buffer = _tarn_layer_driver->clCreateBuffer (context, flags, size, host, &status);
  if (buffer == NULL && _tarn_layer_made_room (context, status))
    buffer = _tarn_layer_driver->clCreateBuffer (context, flags, size, host, &status);
  count_passed_on (_tarn_layer_context_find_reason (context, flags, size), buffer, size);
  return answer (buffer, status, status_ret);
}

cl_mem CL_API_CALL
layer_clCreateBufferWithProperties (cl_context context, const cl_mem_properties *properties,
                                    cl_mem_flags flags, size_t size, void *host, cl_int *status_ret)
{
  cl_int status = CL_SUCCESS;
  cl_mem buffer = properties == NULL ? serve (context, flags, size, host, &status) : NULL;

  LAYER_COUNT (created);
  if (buffer != NULL || status != CL_SUCCESS)
    return answer (buffer, status, status_ret);
  buffer = _tarn_layer_driver->clCreateBufferWithProperties (context, properties, flags, size, host,
                                                             &status);
  if (buffer == NULL && _tarn_layer_made_room (context, status))
    buffer = _tarn_layer_driver->clCreateBufferWithProperties (context, properties, flags, size,
                                                               host, &status);
  count_passed_on (properties != NULL ? LAYER_FLAGS
                                      : _tarn_layer_context_find_reason (context, flags, size),
                   buffer, size);
  return answer (buffer, status, status_ret);
}

/* Parts */

static void
add_part (LayerBuffer *whole, LayerBuffer *part)
{
  part->whole = _tarn_layer_ref (whole);
  _tarn_layer_hold (whole);
  __atomic_add_fetch (&whole->parts, 1, __ATOMIC_RELAXED);
  _tarn_layer_list (part);
}

/* Checks what clCreateSubBuffer is asked for against the buffer as the program knows it. */
static cl_int
check_part (const LayerBuffer *whole, cl_mem_flags asked, cl_buffer_create_type type,
            const cl_buffer_region *region, cl_mem_flags *flags)
{
  if (type != CL_BUFFER_CREATE_TYPE_REGION || region == NULL)
    return CL_INVALID_VALUE;
  if (region->size == 0)
    return CL_INVALID_BUFFER_SIZE;
  if (region->origin > whole->size || region->size > whole->size - region->origin)
    return CL_INVALID_VALUE;
  return _tarn_layer_ask_part_flags (whole->context, whole->asked, asked, flags);
}

/* Adds the flags that a part inherits from the program's buffer if it asks for none.  It cannot
 * inherit them from a piece. */
static cl_mem_flags
inherit (const LayerBuffer *whole, cl_mem_flags asked)
{
  if ((asked & LAYER_ACCESS_FLAGS) == 0)
    asked |= whole->asked & LAYER_ACCESS_FLAGS;
  if ((asked & LAYER_HOST_FLAGS) == 0)
    asked |= whole->asked & LAYER_HOST_FLAGS;
  return asked;
}

static cl_mem
make_part (LayerBuffer *whole, cl_mem_flags asked, const cl_buffer_region *region,
           cl_mem_flags flags, cl_int *status)
{
  cl_buffer_region real;
  cl_mem piece = _tarn_layer_buffer_find_piece (whole, &real.origin);
  LayerBuffer *self;
  cl_mem part;

  real.origin += region->origin;
  real.size = region->size;
  part = _tarn_layer_driver->clCreateSubBuffer (piece, inherit (whole, asked),
                                                CL_BUFFER_CREATE_TYPE_REGION, &real, status);
  if (part == NULL)
    return NULL;
  self = buffer_new (part, whole->context, region->origin, region->size, asked);
  self->flags = flags;
  add_part (whole, self);
  return part;
}

cl_mem CL_API_CALL
layer_clCreateSubBuffer (cl_mem buffer, cl_mem_flags asked, cl_buffer_create_type type,
                         const void *info, cl_int *status_ret)
{
  LAYER_AUTO LayerBuffer *whole = _tarn_layer_find (LAYER_BUFFER, buffer);
  cl_mem_flags flags;
  cl_mem part = NULL;
  cl_int status;

  /* The driver makes no sub-buffers of a sub-buffer or an image. */
  if (whole == NULL || whole->whole != NULL || whole->is_image)
    return _tarn_layer_driver->clCreateSubBuffer (buffer, asked, type, info, status_ret);
  status = check_part (whole, asked, type, info, &flags);
  if (status == CL_SUCCESS)
    part = make_part (whole, asked, info, flags, &status);
  return answer (part, status, status_ret);
}

LayerBuffer *
_tarn_layer_buffer_add_pooled_image (LayerContext *context, TarnBlock *block, cl_mem image)
{
  LayerBuffer *self = buffer_new (image, context, 0, tarn_block_get_size (block), 0);

  self->is_image = TRUE;
  self->block = block;
  _tarn_layer_list (self);
  return self;
}

LayerBuffer *
_tarn_layer_buffer_add_image (LayerBuffer *whole, cl_mem image)
{
  LayerBuffer *part = buffer_new (image, whole->context, 0, 0, 0);

  part->is_image = TRUE;
  add_part (whole, part);
  return part;
}

/* SVM is the driver's, which may need what is held here. */
void *CL_API_CALL
layer_clSVMAlloc (cl_context context, cl_svm_mem_flags flags, size_t size, cl_uint alignment)
{
  void *memory = _tarn_layer_driver->clSVMAlloc (context, flags, size, alignment);

  if (memory == NULL && size > 0 && _tarn_layer_made_room (context, CL_OUT_OF_RESOURCES))
    memory = _tarn_layer_driver->clSVMAlloc (context, flags, size, alignment);
  return memory;
}

/* References */

cl_int CL_API_CALL
layer_clRetainMemObject (cl_mem object)
{
  LAYER_AUTO LayerBuffer *self = _tarn_layer_find (LAYER_BUFFER, object);

  if (self == NULL)
    return _tarn_layer_driver->clRetainMemObject (object);
  _tarn_layer_hold (self);
  return CL_SUCCESS;
}

cl_int CL_API_CALL
layer_clReleaseMemObject (cl_mem object)
{
  LAYER_AUTO LayerBuffer *self = _tarn_layer_find (LAYER_BUFFER, object);

  if (self == NULL)
    return _tarn_layer_driver->clReleaseMemObject (object);
  let_go (self);
  return CL_SUCCESS;
}

cl_int CL_API_CALL
layer_clSetMemObjectDestructorCallback (cl_mem object, void (CL_CALLBACK *notify) (cl_mem, void *),
                                        void *user_data)
{
  LAYER_AUTO LayerBuffer *self = _tarn_layer_find (LAYER_BUFFER, object);
  LayerCallback *callback;

  if (self == NULL || notify == NULL)
    return _tarn_layer_driver->clSetMemObjectDestructorCallback (object, notify, user_data);
  callback = g_new (LayerCallback, 1);
  *callback = (LayerCallback){ notify, user_data };
  {
    LAYER_LOCKED (&self->lock);

    self->callbacks = g_slist_prepend (self->callbacks, callback);
    __atomic_store_n (&self->is_watched, TRUE, __ATOMIC_RELAXED);
  }
  return CL_SUCCESS;
}
