/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * OpenCL commands whose call names the buffers that they use.  (Kernel launches are in kernel.c.)
 * After the driver has accepted a command, the layer gives the command a number, and records for
 * each of its buffers that the command uses the buffer.  During the driver's call, the layer has
 * references to the buffers, so they do not end before the command is recorded.  If another thread
 * calls clFinish () during the driver's call, clFinish () may or may not wait for the command.  So
 * when clFinish () returns, the layer counts as done only the commands that had a number before
 * clFinish () was called. */

#include "layer-private.h"

/* Returns TRUE if the layer needs the command's event.  There are two such cases.  If the queue is
 * out of order, only the event shows when the command is done.  If one of the command's buffers has
 * destructor callbacks, the layer must call them without delay when the command is done. */
static gboolean
wants_event (LayerCommand *self)
{
  gboolean wants = !__atomic_load_n (&self->queue->in_order, __ATOMIC_ACQUIRE);

  for (guint i = 0; i < self->n && !wants; i++)
    {
      LayerBuffer *buffer = _tarn_layer_command_get (self, i);

      wants = buffer != NULL && __atomic_load_n (&buffer->is_watched, __ATOMIC_RELAXED);
    }
  return wants;
}

/* Stores the number of the queue's latest command in self->number.  Then chooses where the driver
 * writes the event of the new command.  If the program asks for the event, the driver writes to the
 * program's *event.  If only the layer needs the event, the driver writes to self->own.  Otherwise
 * it writes no event.  Does nothing if the layer has no record of the queue.  Call this after the
 * layer has taken references to the command's buffers. */
static void
prepare (LayerCommand *self, cl_event **event)
{
  if (self->queue == NULL)
    return;
  self->number = _tarn_layer_queue_get_enqueued (self->queue);
  if (*event == NULL && wants_event (self))
    *event = &self->own;
  self->event = *event;
}

void
_tarn_layer_command_begin (LayerCommand *self, cl_command_queue handle, const cl_mem *objects,
                           guint n, cl_event **event)
{
  *self = (LayerCommand){ .queue = _tarn_layer_find (LAYER_QUEUE, handle) };
  self->n = objects != NULL ? n : 0;
  self->many = self->n > LAYER_FEW ? g_new (LayerBuffer *, n) : NULL;
  for (guint i = 0; i < self->n; i++)
    (self->many != NULL ? self->many : self->few)[i]
        = _tarn_layer_buffer_find_retained (objects[i]);
  prepare (self, event);
}

void
_tarn_layer_command_begin_retained (LayerCommand *self, cl_command_queue handle,
                                    LayerBuffer **buffers, guint n, cl_event **event)
{
  *self
      = (LayerCommand){ .queue = _tarn_layer_find (LAYER_QUEUE, handle), .n = n, .many = buffers };
  prepare (self, event);
}

/* Records the command as a use of each of its buffers.  If only the layer wanted the command's
 * event (self->own), the record of the last buffer takes over the layer's reference to the event.
 */
static void
note_uses (LayerCommand *self)
{
  cl_event event = self->event != NULL ? *self->event : NULL;
  guint64 number = 0;
  guint last = self->n;

  while (last > 0 && _tarn_layer_command_get (self, last - 1) == NULL)
    last--;
  for (guint i = 0; i < last; i++)
    {
      LayerBuffer *buffer = _tarn_layer_command_get (self, i);

      if (buffer == NULL)
        continue;
      if (number == 0)
        number = _tarn_layer_queue_count (self->queue);
      _tarn_layer_buffer_use (buffer, self->queue, number, event,
                              i + 1 == last && self->own != NULL);
    }
  if (last > 0)
    self->own = NULL;
}

void
_tarn_layer_command_end (LayerCommand *self, cl_int status, gboolean blocking)
{
  gboolean known = self->queue != NULL && status == CL_SUCCESS;

  g_assert (self->queue == NULL || self->number <= _tarn_layer_queue_get_enqueued (self->queue));
  if (known && !blocking)
    note_uses (self);
  else if (known && __atomic_load_n (&self->queue->in_order, __ATOMIC_ACQUIRE))
    _tarn_layer_queue_set_done (self->queue, self->number);
  if (self->own != NULL)
    _tarn_layer_release_event (self->own);
  for (guint i = 0; i < self->n; i++)
    if (_tarn_layer_command_get (self, i) != NULL)
      _tarn_layer_buffer_release (_tarn_layer_command_get (self, i));
  g_free (self->many);
  _tarn_layer_unref (self->queue);
}

#define SPLICE(...) __VA_ARGS__

/* Returns TRUE if the range that a command uses is within a buffer.  The driver's own check does
 * not suffice: its sub-buffer may be larger than the program's buffer, and some drivers do not
 * check ranges.  A buffer from a pool is followed by other buffers' memory, so the range must end
 * within the buffer.  A sub-buffer that the program made is followed by the rest of the program's
 * buffer, so it suffices that the range ends within that buffer.  The driver checks the rest. */
gboolean
_tarn_layer_is_within (const LayerBuffer *buffer, gsize offset, gsize size)
{
  gsize all;

  if (buffer == NULL || buffer->is_image)
    return TRUE;
  all = buffer->whole != NULL ? buffer->whole->size - buffer->offset : buffer->size;
  return offset <= all && size <= all - offset;
}

#define IS_WITHIN(i, offset, size)                                                                 \
  _tarn_layer_is_within (_tarn_layer_command_get (&command, i), offset, size)

/* Defines the layer's function for a command.  The last arguments of the macro are the memory
 * objects that the command uses.  @right: a condition; if it is FALSE, the function returns
 * CL_INVALID_VALUE and does not call the driver.  @blocking: TRUE if the driver's call returns only
 * after the command is done. */
#define COMMAND(name, right, blocking, parameters, arguments, ...)                                 \
  cl_int CL_API_CALL layer_##name (cl_command_queue queue, SPLICE parameters, cl_uint n_waits,     \
                                   const cl_event *waits, cl_event *event)                         \
  {                                                                                                \
    const cl_mem objects[] = { __VA_ARGS__ };                                                      \
    LayerCommand command;                                                                          \
    cl_int status = CL_INVALID_VALUE;                                                              \
                                                                                                   \
    _tarn_layer_command_begin (&command, queue, objects, G_N_ELEMENTS (objects), &event);          \
    if (right)                                                                                     \
      status = _tarn_layer_driver->name (queue, SPLICE arguments, n_waits, waits, event);          \
    _tarn_layer_command_end (&command, status, blocking);                                          \
    return status;                                                                                 \
  }

COMMAND (clEnqueueReadBuffer, IS_WITHIN (0, offset, size), wait,
         (cl_mem buffer, cl_bool wait, size_t offset, size_t size, void *host),
         (buffer, wait, offset, size, host), buffer)
COMMAND (clEnqueueWriteBuffer, IS_WITHIN (0, offset, size), wait,
         (cl_mem buffer, cl_bool wait, size_t offset, size_t size, const void *host),
         (buffer, wait, offset, size, host), buffer)
COMMAND (clEnqueueFillBuffer, IS_WITHIN (0, offset, size), FALSE,
         (cl_mem buffer, const void *pattern, size_t pattern_size, size_t offset, size_t size),
         (buffer, pattern, pattern_size, offset, size), buffer)
COMMAND (clEnqueueCopyBuffer, IS_WITHIN (0, from_offset, size) && IS_WITHIN (1, to_offset, size),
         FALSE, (cl_mem from, cl_mem to, size_t from_offset, size_t to_offset, size_t size),
         (from, to, from_offset, to_offset, size), from, to)
COMMAND (clEnqueueReadImage, TRUE, wait,
         (cl_mem image, cl_bool wait, const size_t *origin, const size_t *region, size_t row,
          size_t slice, void *host),
         (image, wait, origin, region, row, slice, host), image)
COMMAND (clEnqueueWriteImage, TRUE, wait,
         (cl_mem image, cl_bool wait, const size_t *origin, const size_t *region, size_t row,
          size_t slice, const void *host),
         (image, wait, origin, region, row, slice, host), image)
COMMAND (clEnqueueFillImage, TRUE, FALSE,
         (cl_mem image, const void *colour, const size_t *origin, const size_t *region),
         (image, colour, origin, region), image)
COMMAND (clEnqueueCopyImage, TRUE, FALSE,
         (cl_mem from, cl_mem to, const size_t *from_origin, const size_t *to_origin,
          const size_t *region),
         (from, to, from_origin, to_origin, region), from, to)

/* Returns TRUE if one of @objects is from a pool, or is made of an object from a pool. */
static gboolean
has_ours (const cl_mem *objects, guint n)
{
  gboolean found = FALSE;

  for (guint i = 0; objects != NULL && i < n && !found; i++)
    {
      LAYER_AUTO LayerBuffer *buffer = _tarn_layer_find (LAYER_BUFFER, objects[i]);

      found = buffer != NULL;
    }
  return found;
}

/* Passes clEnqueueMigrateMemObjects () on to the driver.  If an object is from a pool, drops the
 * flag CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, because the driver might apply it to the whole
 * piece, a large buffer that contains other buffers of the program, too.  The flag is only a hint,
 * so the layer may drop it. */
cl_int CL_API_CALL
layer_clEnqueueMigrateMemObjects (cl_command_queue queue, cl_uint n, const cl_mem *objects,
                                  cl_mem_migration_flags flags, cl_uint n_waits,
                                  const cl_event *waits, cl_event *event)
{
  LayerCommand command;
  cl_int status;

  _tarn_layer_command_begin (&command, queue, objects, n, &event);
  if (has_ours (objects, n))
    flags &= ~(cl_mem_migration_flags) CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED;
  status = _tarn_layer_driver->clEnqueueMigrateMemObjects (queue, n, objects, flags, n_waits, waits,
                                                           event);
  _tarn_layer_command_end (&command, status, FALSE);
  return status;
}
