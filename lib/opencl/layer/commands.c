/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Commands that name the buffers that they use; launches of kernels are in kernel.c.  A command is
 * noted after the driver has taken it: nobody can have released its buffers for good before that,
 * and who finishes the queue meanwhile may or may not find it done. */

#include "layer-private.h"

/* What is known before a command is given to the driver. */
typedef struct
{
  LayerQueue *queue; /* a reference; NULL: not known */
  guint64 number;    /* of its latest command */
} Command;

static Command
begin (cl_command_queue handle)
{
  LayerQueue *queue = _tarn_layer_find (LAYER_QUEUE, handle);

  return (Command){ queue, queue != NULL ? _tarn_layer_queue_get_enqueued (queue) : 0 };
}

static void
note (LayerQueue *queue, const cl_mem *objects, guint n)
{
  guint64 number = 0;

  for (guint i = 0; i < n; i++)
    {
      LAYER_AUTO LayerBuffer *buffer = _tarn_layer_find (LAYER_BUFFER, objects[i]);

      if (buffer == NULL)
        continue;
      if (number == 0)
        number = _tarn_layer_queue_count (queue);
      _tarn_layer_buffer_use (buffer, queue, number);
    }
}

/* After it, whatever came of it.  @blocking: the host has waited for it, so that it is done, and so
 * is what was before it on a queue in order. */
static void
finish (Command *self, cl_int status, gboolean blocking, const cl_mem *objects, guint n)
{
  if (self->queue == NULL)
    return;
  if (status == CL_SUCCESS && !blocking)
    note (self->queue, objects, n);
  else if (status == CL_SUCCESS && __atomic_load_n (&self->queue->in_order, __ATOMIC_ACQUIRE))
    _tarn_layer_queue_set_done (self->queue, self->number);
  _tarn_layer_unref (self->queue);
}

#define SPLICE(...) __VA_ARGS__

/* A command that uses the objects named last. */
#define COMMAND(name, blocking, parameters, arguments, ...)                                        \
  cl_int CL_API_CALL layer_##name (cl_command_queue queue, SPLICE parameters, cl_uint n_waits,     \
                                   const cl_event *waits, cl_event *event)                         \
  {                                                                                                \
    const cl_mem objects[] = { __VA_ARGS__ };                                                      \
    Command command = begin (queue);                                                               \
    cl_int status = _tarn_layer_driver->name (queue, SPLICE arguments, n_waits, waits, event);     \
                                                                                                   \
    finish (&command, status, blocking, objects, G_N_ELEMENTS (objects));                          \
    return status;                                                                                 \
  }

COMMAND (clEnqueueReadBuffer, wait,
         (cl_mem buffer, cl_bool wait, size_t offset, size_t size, void *host),
         (buffer, wait, offset, size, host), buffer)
COMMAND (clEnqueueWriteBuffer, wait,
         (cl_mem buffer, cl_bool wait, size_t offset, size_t size, const void *host),
         (buffer, wait, offset, size, host), buffer)
COMMAND (clEnqueueReadBufferRect, wait,
         (cl_mem buffer, cl_bool wait, const size_t *origin, const size_t *host_origin,
          const size_t *region, size_t row, size_t slice, size_t host_row, size_t host_slice,
          void *host),
         (buffer, wait, origin, host_origin, region, row, slice, host_row, host_slice, host),
         buffer)
COMMAND (clEnqueueWriteBufferRect, wait,
         (cl_mem buffer, cl_bool wait, const size_t *origin, const size_t *host_origin,
          const size_t *region, size_t row, size_t slice, size_t host_row, size_t host_slice,
          const void *host),
         (buffer, wait, origin, host_origin, region, row, slice, host_row, host_slice, host),
         buffer)
COMMAND (clEnqueueFillBuffer, FALSE,
         (cl_mem buffer, const void *pattern, size_t pattern_size, size_t offset, size_t size),
         (buffer, pattern, pattern_size, offset, size), buffer)
COMMAND (clEnqueueCopyBuffer, FALSE,
         (cl_mem from, cl_mem to, size_t from_offset, size_t to_offset, size_t size),
         (from, to, from_offset, to_offset, size), from, to)
COMMAND (clEnqueueCopyBufferRect, FALSE,
         (cl_mem from, cl_mem to, const size_t *from_origin, const size_t *to_origin,
          const size_t *region, size_t from_row, size_t from_slice, size_t to_row, size_t to_slice),
         (from, to, from_origin, to_origin, region, from_row, from_slice, to_row, to_slice), from,
         to)
COMMAND (clEnqueueReadImage, wait,
         (cl_mem image, cl_bool wait, const size_t *origin, const size_t *region, size_t row,
          size_t slice, void *host),
         (image, wait, origin, region, row, slice, host), image)
COMMAND (clEnqueueWriteImage, wait,
         (cl_mem image, cl_bool wait, const size_t *origin, const size_t *region, size_t row,
          size_t slice, const void *host),
         (image, wait, origin, region, row, slice, host), image)
COMMAND (clEnqueueFillImage, FALSE,
         (cl_mem image, const void *colour, const size_t *origin, const size_t *region),
         (image, colour, origin, region), image)
COMMAND (clEnqueueCopyImage, FALSE,
         (cl_mem from, cl_mem to, const size_t *from_origin, const size_t *to_origin,
          const size_t *region),
         (from, to, from_origin, to_origin, region), from, to)
COMMAND (clEnqueueCopyImageToBuffer, FALSE,
         (cl_mem from, cl_mem to, const size_t *origin, const size_t *region, size_t offset),
         (from, to, origin, region, offset), from, to)
COMMAND (clEnqueueCopyBufferToImage, FALSE,
         (cl_mem from, cl_mem to, size_t offset, const size_t *origin, const size_t *region),
         (from, to, offset, origin, region), from, to)
COMMAND (clEnqueueUnmapMemObject, FALSE, (cl_mem object, void *mapped), (object, mapped), object)

void *CL_API_CALL
layer_clEnqueueMapBuffer (cl_command_queue queue, cl_mem buffer, cl_bool wait, cl_map_flags flags,
                          size_t offset, size_t size, cl_uint n_waits, const cl_event *waits,
                          cl_event *event, cl_int *status_ret)
{
  Command command = begin (queue);
  cl_int status = CL_SUCCESS;
  void *mapped = _tarn_layer_driver->clEnqueueMapBuffer (queue, buffer, wait, flags, offset, size,
                                                         n_waits, waits, event, &status);

  finish (&command, status, wait, &buffer, 1);
  if (status_ret != NULL)
    *status_ret = status;
  return mapped;
}

void *CL_API_CALL
layer_clEnqueueMapImage (cl_command_queue queue, cl_mem image, cl_bool wait, cl_map_flags flags,
                         const size_t *origin, const size_t *region, size_t *row, size_t *slice,
                         cl_uint n_waits, const cl_event *waits, cl_event *event,
                         cl_int *status_ret)
{
  Command command = begin (queue);
  cl_int status = CL_SUCCESS;
  void *mapped = _tarn_layer_driver->clEnqueueMapImage (queue, image, wait, flags, origin, region,
                                                        row, slice, n_waits, waits, event, &status);

  finish (&command, status, wait, &image, 1);
  if (status_ret != NULL)
    *status_ret = status;
  return mapped;
}

cl_int CL_API_CALL
layer_clEnqueueMigrateMemObjects (cl_command_queue queue, cl_uint n, const cl_mem *objects,
                                  cl_mem_migration_flags flags, cl_uint n_waits,
                                  const cl_event *waits, cl_event *event)
{
  Command command = begin (queue);
  cl_int status = _tarn_layer_driver->clEnqueueMigrateMemObjects (queue, n, objects, flags, n_waits,
                                                                  waits, event);

  finish (&command, status, FALSE, objects, n);
  return status;
}

cl_int CL_API_CALL
layer_clEnqueueNativeKernel (cl_command_queue queue, void (CL_CALLBACK *function) (void *),
                             void *arguments, size_t size, cl_uint n, const cl_mem *objects,
                             const void **places, cl_uint n_waits, const cl_event *waits,
                             cl_event *event)
{
  Command command = begin (queue);
  cl_int status = _tarn_layer_driver->clEnqueueNativeKernel (
      queue, function, arguments, size, n, objects, places, n_waits, waits, event);

  finish (&command, status, FALSE, objects, n);
  return status;
}
