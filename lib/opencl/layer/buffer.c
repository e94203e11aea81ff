/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Buffers and sub-buffers of the program: OpenCL 3.0 specification, sections 5.2.1, "Creating
 * Buffer Objects", and 5.5.1, "Retaining and Releasing Memory Objects".  A buffer from a pool has a
 * block of the pool's memory, and is a sub-buffer of a piece, a large buffer that the layer got
 * from the driver.  A buffer is released, or ended, when the program has dropped its last reference
 * to the buffer.  The layer destroys a released buffer when the commands that use the buffer are
 * done, or at once if it need not wait for these commands. */

#include "layer-private.h"

/* A destructor callback that the program has registered. */
typedef struct
{
  void (CL_CALLBACK *notify) (cl_mem, void *);
  void *user_data;
} LayerCallback;

/* Frees the record of a buffer or image. */
static void
buffer_finalize (gpointer record)
{
  LayerBuffer *self = record;

  _tarn_layer_buffer_forget_uses (self);
  g_assert (self->sub == NULL);
  if (self->callbacks != NULL)
    g_slist_free_full (self->callbacks, g_free);
  if (self->maps != NULL)
    g_array_unref (self->maps);
  _tarn_layer_unref (self->whole);
  _tarn_layer_unref (self->context);
  _tarn_mutex_clear (&self->lock);
  g_free (self);
}

/* Makes the record of a buffer or image that has the driver's handle @handle.  Returns the record
 * with one reference, which destroy () drops. */
static LayerBuffer *
buffer_new (cl_mem handle, LayerContext *context, gsize offset, gsize size, cl_mem_flags asked)
{
  LayerBuffer *self = g_new (LayerBuffer, 1); /* g_new0 () takes five times as long */

  *self = (LayerBuffer){ .base = { LAYER_BUFFER, 1, 1, handle, buffer_finalize },
                         .context = _tarn_layer_ref (context),
                         .offset = offset,
                         .size = size,
                         .asked = asked };
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

/* Functions that release and destroy buffers */

static void end_buffer (LayerBuffer *self);

/* Drops one of the program's references to a buffer.  If it was the last one, the layer destroys
 * the buffer, now or after the commands that use the buffer. */
static void
release (LayerBuffer *self)
{
  if (_tarn_layer_release (self))
    end_buffer (self);
}

LayerBuffer *
_tarn_layer_buffer_find_retained (cl_mem handle)
{
  LAYER_AUTO LayerBuffer *self = _tarn_layer_find (LAYER_BUFFER, handle);

  if (self != NULL && _tarn_layer_try_retain (self))
    return g_steal_pointer (&self);
  _tarn_layer_debug_report_use (handle);
  return NULL;
}

void
_tarn_layer_buffer_release (LayerBuffer *self)
{
  release (self);
  _tarn_layer_unref (self);
}

/* Calls the program's destructor callbacks, the latest first. */
static void
call_back (LayerBuffer *self)
{
  _tarn_assert_no_locks ();
  for (GSList *link = self->callbacks; link != NULL; link = link->next)
    {
      const LayerCallback *callback = link->data;

      callback->notify (self->base.handle, callback->user_data);
    }
}

/* Destroys a part of a buffer, that is, a sub-buffer that the program made, or an image that is
 * made of the buffer.  Releases the part's handle, and drops the part's reference to the buffer. */
static void
destroy_part (LayerBuffer *self)
{
  guint n;

  _tarn_layer_release_object (self->base.handle);
  n = __atomic_fetch_sub (&self->whole->parts, 1, __ATOMIC_RELAXED);
  g_assert (n > 0);
  (void) n;
  release (self->whole);
}

/* Returns TRUE if no buffer comes from the context's pools any more: see destroy_whole (). */
static gboolean
serves_no_more (const LayerContext *context)
{
  return _tarn_layer_is_blind () || __atomic_load_n (&context->ended, __ATOMIC_ACQUIRE);
}

/* Frees the memory of a buffer or an image from a pool.  For a buffer, also releases the driver's
 * sub-buffer.  @data: the record of the buffer or image.  Drops a reference to the record. */
static void
free_memory (gpointer data)
{
  LAYER_AUTO LayerBuffer *self = data;

  _tarn_layer_debug_forget_end (self);
  if (self->is_image)
    _tarn_layer_image_free (self->context, self->block, self->was_mapped);
  else
    {
      _tarn_layer_sub_free (self->context, g_steal_pointer (&self->sub));
      tarn_block_free (self->block);
    }
  if (serves_no_more (self->context))
    _tarn_layer_context_trim (self->context);
}

/* Destroys a buffer or an image from a pool.  Keeps a buffer's sub-buffer as a spare for a later
 * buffer, except in four cases:
 * - TARN_DEBUG checks the context's buffers: the debug thread then releases the sub-buffer.
 * - The buffer was still mapped when the program released it.  The driver may have recorded the map
 *   with the sub-buffer.
 * - The layer is blind, that is, the program uses functions of extensions that the layer does not
 *   know.  Commands that the layer did not see may use the sub-buffer.  From then on, new buffers
 *   come from the driver, not from a pool.
 * - The program has released the context. */
static void
destroy_whole (LayerBuffer *self)
{
  if (_tarn_layer_is_debugged (self->context))
    _tarn_layer_debug_defer (free_memory, _tarn_layer_ref (self));
  else if (!self->is_image && !self->was_mapped && !serves_no_more (self->context))
    {
      _tarn_layer_sub_keep (self->context, g_steal_pointer (&self->sub));
      tarn_block_free (self->block);
    }
  else
    free_memory (_tarn_layer_ref (self));
}

/* Destroys a buffer to which the program has no reference.  The caller makes sure that the commands
 * that use the buffer are done, or that nobody needs to wait for them. */
static void
destroy (LayerBuffer *self)
{
  g_assert (self->ended && __atomic_load_n (&self->waits, __ATOMIC_ACQUIRE) == 0);
  g_assert ((self->block != NULL) == (self->whole == NULL));
  call_back (self);
  if (self->whole != NULL)
    destroy_part (self);
  else
    destroy_whole (self);
  _tarn_layer_unref (self);
}

void
_tarn_layer_buffer_commands_done (LayerBuffer *self)
{
  LAYER_AUTO LayerContext *context = NULL;
  gsize size = self->size;
  guint n = __atomic_fetch_sub (&self->waits, 1, __ATOMIC_ACQ_REL);

  g_assert (n > 0);
  if (n > 1)
    return;
  context = _tarn_layer_ref (self->context);
  destroy (self);
  __atomic_fetch_sub (&context->pending_bytes, size, __ATOMIC_RELAXED);
  n = __atomic_fetch_sub (&context->pending, 1, __ATOMIC_ACQ_REL);
  g_assert (n > 0);
}

/* Postpones the destruction of a released buffer until a command that uses the buffer is done, and
 * returns TRUE.  The layer waits for the command's event.  @use: the record of the command.
 * @notify: TRUE if the driver shall call the layer back when the command is done.
 *
 * If @use has no event, or if the command is known to be done, does nothing and returns FALSE.  The
 * caller then calls wait_for_queue (), which also does nothing if the command is done. */
static gboolean
wait_for_event (LayerBuffer *self, LayerUse *use, gboolean notify)
{
  if (use->event == NULL || _tarn_layer_queue_is_done (use->queue, use->number))
    return FALSE;
  __atomic_add_fetch (&self->waits, 1, __ATOMIC_ACQ_REL);
  _tarn_layer_wait_for_event (use, notify);
  return TRUE;
}

/* Postpones the destruction of a released buffer until all commands that are now in one queue are
 * done.  @use: the record of a command on this queue that uses the buffer.  If this command and all
 * earlier ones are done already, does nothing. */
static void
wait_for_queue (LayerBuffer *self, LayerUse *use, gboolean notify)
{
  __atomic_add_fetch (&self->waits, 1, __ATOMIC_ACQ_REL);
  if (!_tarn_layer_queue_add_waiting (use))
    /* The buffer is destroyed when @waits becomes 0.  This subtraction does not make it 0, because
     * @waits includes a 1 that destroy_after_commands () subtracts only at its end. */
    __atomic_sub_fetch (&self->waits, 1, __ATOMIC_ACQ_REL);
  else if (notify)
    _tarn_layer_queue_put_marker (use->queue, TRUE);
  else
    _tarn_layer_queue_put_marker_if_many (use->queue);
}

/* Destroys a released buffer as soon as all commands that use it are done: at once, or later, when
 * the layer sees that the last of them is done. */
static void
destroy_after_commands (LayerBuffer *self)
{
  gboolean notify
      = self->callbacks != NULL || __atomic_load_n (&self->context->ended, __ATOMIC_ACQUIRE);
  G_GNUC_UNUSED LAYER_AUTO LayerBuffer *kept = _tarn_layer_ref (self);

  __atomic_add_fetch (&self->context->pending_bytes, self->size, __ATOMIC_RELAXED);
  __atomic_add_fetch (&self->context->pending, 1, __ATOMIC_ACQ_REL);
  __atomic_store_n (&self->waits, 1, __ATOMIC_RELEASE);
  for (guint i = 0; i < self->n_uses; i++)
    {
      LayerUse *use = &_tarn_layer_buffer_get_uses (self)[i];

      use->buffer = self;
      use->link.data = use;
      if (!wait_for_event (self, use, notify))
        wait_for_queue (self, use, notify);
    }
  _tarn_layer_buffer_commands_done (self);
}

/* Copies the uses of @self (records of commands) to the buffer of which @self is made.  @self is a
 * sub-buffer or an image, so the commands that use it also use that buffer's memory. */
static void
pass_uses_to_whole (LayerBuffer *self)
{
  for (guint i = 0; i < self->n_uses; i++)
    {
      const LayerUse *use = &_tarn_layer_buffer_get_uses (self)[i];

      _tarn_layer_buffer_use (self->whole, use->queue, use->number, use->event, FALSE);
    }
}

/* Marks a buffer as ended, that is, released by the program.  Returns TRUE if the buffer has
 * destructor callbacks. */
static gboolean
set_ended (LayerBuffer *self)
{
  TARN_LOCKED (&self->lock);

  g_assert (!self->ended);
  self->ended = TRUE;
  return self->callbacks != NULL;
}

/* Returns TRUE if a released buffer or image may be destroyed before the commands that use it are
 * done.  A sub-buffer, or an image that the driver made of a buffer, always may: its uses count as
 * uses of the buffer from now on (pass_uses_to_whole ()).  An image that the layer made over the
 * host address of a buffer (is_disguised) must wait for its commands: the driver does not know that
 * they use the buffer's memory, and PoCL 3.1 reads the image's object in a kernel even after the
 * object was released. */
static gboolean
may_end_early (const LayerBuffer *self)
{
  return self->whole != NULL ? !self->is_disguised
                             : _tarn_layer_context_try_early_reuse (self->context);
}

/* Destroys a buffer that the program has released, now or after the commands that use it. */
static void
end_buffer (LayerBuffer *self)
{
  gboolean calls_back = set_ended (self);

  _tarn_layer_unlist (self);
  _tarn_layer_debug_note_end (self);
  self->was_mapped = _tarn_layer_forget_maps (self);
  if (self->whole != NULL)
    pass_uses_to_whole (self);
  if (calls_back || !may_end_early (self))
    destroy_after_commands (self);
  else
    destroy (self);
}

/* Functions that make buffers */

/* Allocates a block from a pool.  If the pool has no memory, asks the driver which commands that
 * use released buffers are done, and retries.  If the pool still has no memory, waits for the
 * commands that use released buffers, returns cached memory to the driver, and retries again. */
static TarnBlock *
allocate (LayerContext *context, TarnPool *pool, gsize size, GError **error)
{
  TarnBlock *block = tarn_pool_allocate (pool, size, NULL);

  if (block != NULL)
    return block;
  /* Some released buffers may wait for commands that are done already.  So retry once without a
   * wait. */
  _tarn_layer_context_poll (context);
  block = tarn_pool_allocate (pool, size, NULL);
  if (block != NULL)
    return block;
  _tarn_layer_context_make_room (context);
  return tarn_pool_allocate (pool, size, error);
}

/* A request for a buffer of at least LARGE bytes always polls, that is, asks the driver whether the
 * commands of released buffers are done.  Such a request takes long anyway, and the poll frees the
 * memory of large released buffers sooner. */
#define LARGE ((gsize) 256 << 10)

/* The size in bytes of the largest buffers whose size the layer rounds up, so that buffers of
 * nearly equal size get blocks of equal size.  Rounding adds at most 511 bytes, or at most an
 * eighth of the size if that is more.  The fewer sizes there are, the more often a cached block
 * still has the sub-buffer of an earlier buffer, so that the layer need not make a new one. */
#define MAX_ROUNDED ((gsize) 64 << 10)

/* Returns the size of the block for a buffer of @size bytes. */
static gsize
round_size (gsize size)
{
  gsize step = MAX (512, (gsize) 1 << (g_bit_storage (size) - 1) >> 3);

  return size > MAX_ROUNDED || !_tarn_layer_get_settings ()->rounds_sizes
             ? size
             : (size + step - 1) / step * step;
}

/* Allocates a block for a buffer of @size bytes.  Before that, asks the driver which commands that
 * use released buffers are done, if @size is at least LARGE or if a poll is due.  Also returns to
 * the driver the cached memory that the pool does not need.  @memory: the kind of memory that @pool
 * has. */
static TarnBlock *
get_block (LayerContext *context, TarnPool *pool, LayerMemory memory, gsize size, GError **error)
{
  gint64 now = g_get_monotonic_time ();

  if (size >= LARGE)
    _tarn_layer_context_poll (context);
  else
    _tarn_layer_context_poll_if_due (context, now);
  if (_tarn_layer_is_debugged (context))
    _tarn_layer_debug_keep_up ();
  _tarn_layer_drop_unneeded (context, pool, &context->idle[memory], now);
  return allocate (context, pool, round_size (size), error);
}

/* Writes the bytes at @host into a new buffer's block, and waits until they are written.  Returns
 * FALSE if that fails. */
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

/* Returns the driver's sub-buffer for a block.  If @host is not NULL, also writes the bytes at
 * @host to the block.  Returns NULL if the layer cannot get a sub-buffer, or if the write fails. */
static LayerSub *
get (LayerContext *context, const TarnBlock *block, cl_mem_flags flags, gconstpointer host)
{
  LayerSub *got = _tarn_layer_sub_get (context, block, flags);

  if (got == NULL || host == NULL || set_contents (context, block, host))
    return got;
  _tarn_layer_sub_free (context, got);
  return NULL;
}

/* Makes a buffer of the program's with memory from a pool, and returns the buffer's handle.  If the
 * pool does not serve the buffer, returns NULL and does not change *status, which is CL_SUCCESS:
 * the caller then lets the driver make the buffer.  If the program must get an error, returns NULL
 * and sets *status to the error. */
static cl_mem
serve (cl_context handle, cl_mem_flags flags, gsize size, gconstpointer host, cl_int *status)
{
  g_autoptr (GError) error = NULL;
  TarnPool *pool = NULL;
  LAYER_AUTO LayerContext *context = NULL;
  g_autoptr (TarnBlock) block = NULL;
  LayerSub *got = NULL;
  LayerBuffer *self;

  if ((host != NULL) != ((flags & CL_MEM_COPY_HOST_PTR) != 0))
    return NULL;
  context = _tarn_layer_context_find_pool (handle, flags, size, &pool);
  if (context != NULL)
    block
        = get_block (context, pool, (flags & CL_MEM_ALLOC_HOST_PTR) != 0 ? LAYER_HOST : LAYER_PLAIN,
                     size, &error);
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
  self->sub = got;
  self->flags = got->flags;
  _tarn_layer_list (self);
  LAYER_COUNT (served);
  LAYER_COUNT_BYTES (buffer_bytes, size);
  return got->handle;
}

/* Sets *status_ret to @status, if @status_ret is not NULL.  Returns @buffer. */
static cl_mem
answer (cl_mem buffer, cl_int status, cl_int *status_ret)
{
  if (status_ret != NULL)
    *status_ret = status;
  return buffer;
}

/* Answers a request for a new buffer as answer () does.  Also counts the request if it failed for
 * lack of memory. */
static cl_mem
answer_new (cl_mem buffer, cl_int status, cl_int *status_ret)
{
  if (buffer == NULL && _tarn_layer_is_no_memory (status))
    LAYER_COUNT (failed);
  return answer (buffer, status, status_ret);
}

gboolean
_tarn_layer_try_make_room (cl_context handle, cl_int status)
{
  LAYER_AUTO LayerContext *context = NULL;

  if (!_tarn_layer_is_no_memory (status))
    return FALSE;
  context = _tarn_layer_find (LAYER_CONTEXT, handle);
  if (context == NULL || context->device == NULL)
    return FALSE;
  _tarn_layer_context_make_room (context);
  return TRUE;
}

/* Counts a request for a buffer that the layer passed on to the driver.  @buffer: the driver's
 * buffer, or NULL if the driver refused.  @reason: the reason why the layer passed the request on.
 * If @buffer is not NULL, also counts the buffer's bytes and the reason. */
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
    return answer_new (buffer, status, status_ret);
  buffer = _tarn_layer_driver->clCreateBuffer (context, flags, size, host, &status);
  if (buffer == NULL && _tarn_layer_try_make_room (context, status))
    buffer = _tarn_layer_driver->clCreateBuffer (context, flags, size, host, &status);
  count_passed_on (_tarn_layer_context_find_reason (context, flags, size), buffer, size);
  return answer_new (buffer, status, status_ret);
}

cl_mem CL_API_CALL
layer_clCreateBufferWithProperties (cl_context context, const cl_mem_properties *properties,
                                    cl_mem_flags flags, size_t size, void *host, cl_int *status_ret)
{
  cl_int status = CL_SUCCESS;
  cl_mem buffer = properties == NULL ? serve (context, flags, size, host, &status) : NULL;

  LAYER_COUNT (created);
  if (buffer != NULL || status != CL_SUCCESS)
    return answer_new (buffer, status, status_ret);
  buffer = _tarn_layer_driver->clCreateBufferWithProperties (context, properties, flags, size, host,
                                                             &status);
  if (buffer == NULL && _tarn_layer_try_make_room (context, status))
    buffer = _tarn_layer_driver->clCreateBufferWithProperties (context, properties, flags, size,
                                                               host, &status);
  count_passed_on (properties != NULL ? LAYER_FLAGS
                                      : _tarn_layer_context_find_reason (context, flags, size),
                   buffer, size);
  return answer_new (buffer, status, status_ret);
}

/* Functions that make parts: sub-buffers and images of a buffer */

/* Makes @part refer to @whole, and adds @part to the table of records.  @part is the record of a
 * new sub-buffer or image, @whole the record of the buffer of which it is made. */
static void
add_part (LayerBuffer *whole, LayerBuffer *part)
{
  part->whole = _tarn_layer_ref (whole);
  _tarn_layer_retain (whole);
  __atomic_add_fetch (&whole->parts, 1, __ATOMIC_RELAXED);
  _tarn_layer_list (part);
}

/* Checks the arguments of clCreateSubBuffer () for a buffer from a pool.  Returns CL_SUCCESS, or
 * the error that the program gets.  Sets *flags to the flags that queries report for the
 * sub-buffer. */
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

/* Returns the flags for the driver's clCreateSubBuffer () when the program makes a sub-buffer of
 * @whole.  If the program passes no flag for the access of kernels, or none for the access of the
 * host, the sub-buffer has to inherit the flag of @whole.  But the driver makes the sub-buffer from
 * the piece, a large buffer that contains @whole, so the sub-buffer would inherit the flags of the
 * piece.  To prevent this, adds the flags of @whole. */
static cl_mem_flags
inherit (const LayerBuffer *whole, cl_mem_flags asked)
{
  if ((asked & LAYER_ACCESS_FLAGS) == 0)
    asked |= whole->asked & LAYER_ACCESS_FLAGS;
  if ((asked & LAYER_HOST_FLAGS) == 0)
    asked |= whole->asked & LAYER_HOST_FLAGS;
  return asked;
}

/* Makes a sub-buffer of @whole, and the record of the sub-buffer.  @whole is a buffer that the
 * program got from a pool. */
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

  /* If @buffer is not from a pool, the driver makes the sub-buffer.  If @buffer is a sub-buffer or
   * an image, the driver gets the call, too, and refuses it. */
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

/* Passes clSVMAlloc () on to the driver.  If that fails, returns cached memory of the pools to the
 * driver, and retries. */
void *CL_API_CALL
layer_clSVMAlloc (cl_context context, cl_svm_mem_flags flags, size_t size, cl_uint alignment)
{
  void *memory = _tarn_layer_driver->clSVMAlloc (context, flags, size, alignment);

  if (memory == NULL && size > 0 && _tarn_layer_try_make_room (context, CL_OUT_OF_RESOURCES))
    memory = _tarn_layer_driver->clSVMAlloc (context, flags, size, alignment);
  if (memory == NULL && size > 0)
    LAYER_COUNT (svm_failed);
  return memory;
}

/* Functions that retain and release buffers, and add destructor callbacks */

cl_int CL_API_CALL
layer_clRetainMemObject (cl_mem object)
{
  LAYER_AUTO LayerBuffer *self = _tarn_layer_find (LAYER_BUFFER, object);

  if (self == NULL)
    return _tarn_layer_debug_report_use (object) ? CL_INVALID_MEM_OBJECT
                                                 : _tarn_layer_driver->clRetainMemObject (object);
  _tarn_layer_retain (self);
  return CL_SUCCESS;
}

cl_int CL_API_CALL
layer_clReleaseMemObject (cl_mem object)
{
  LAYER_AUTO LayerBuffer *self = _tarn_layer_find (LAYER_BUFFER, object);

  if (self == NULL)
    return _tarn_layer_debug_report_use (object) ? CL_INVALID_MEM_OBJECT
                                                 : _tarn_layer_driver->clReleaseMemObject (object);
  release (self);
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
    TARN_LOCKED (&self->lock);

    self->callbacks = g_slist_prepend (self->callbacks, callback);
    __atomic_store_n (&self->is_watched, TRUE, __ATOMIC_RELAXED);
  }
  return CL_SUCCESS;
}
