/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The program's calls that create, retain, release and finish a queue.  This file makes and frees
 * the record of a queue (LayerQueue); queue.c finds out which of the queue's commands are done. */

#include "layer-private.h"

static void
queue_finalize (gpointer record)
{
  LayerQueue *self = record;

  g_assert (self->waiters.length == 0);
  /* If the driver refused a marker, uses may remain in the queue's lists.  (A use is a record: it
   * says that a command uses a buffer.)  The layer never destroys the buffers of these uses,
   * because it cannot find out when the commands are done. */
  _tarn_layer_queue_clear_markers (self);
  _tarn_layer_unref (self->context);
  _tarn_mutex_clear (&self->lock);
  g_free (self);
}

/* Makes the record of a queue that the driver has made.  Makes no record for a device-side queue,
 * or if the layer does not serve the queue's context. */
static void
add_queue (cl_command_queue handle, cl_context context_handle)
{
  LAYER_AUTO LayerContext *context = _tarn_layer_find_context (context_handle);
  LAYER_AUTO LayerQueue *self = NULL;
  cl_command_queue_properties properties = 0;

  if (context == NULL || context->device == NULL)
    return;
  /* If the driver does not report the queue's properties, assume that the queue is out of order,
   * which is always safe. */
  if (_tarn_layer_driver->clGetCommandQueueInfo (handle, CL_QUEUE_PROPERTIES, sizeof properties,
                                                 &properties, NULL)
      != CL_SUCCESS)
    properties = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
  if ((properties & CL_QUEUE_ON_DEVICE) != 0)
    return;
  self = g_new0 (LayerQueue, 1);
  self->base = (LayerObject){ LAYER_QUEUE, 1, 1, handle, queue_finalize };
  self->users = 1;
  self->context = _tarn_layer_ref (context);
  self->in_order = (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0;
  _tarn_mutex_init (&self->lock);
  g_queue_init (&self->waiting);
  g_queue_init (&self->markers);
  g_queue_init (&self->waiters);
  _tarn_layer_list (self);
  _tarn_layer_context_add_queue (context, self, self->in_order);
}

cl_command_queue CL_API_CALL
layer_clCreateCommandQueue (cl_context context, cl_device_id device,
                            cl_command_queue_properties properties, cl_int *status)
{
  cl_command_queue queue
      = _tarn_layer_driver->clCreateCommandQueue (context, device, properties, status);

  if (queue != NULL)
    add_queue (queue, context);
  return queue;
}

cl_command_queue CL_API_CALL
layer_clCreateCommandQueueWithProperties (cl_context context, cl_device_id device,
                                          const cl_queue_properties *properties, cl_int *status)
{
  cl_command_queue queue = _tarn_layer_driver->clCreateCommandQueueWithProperties (
      context, device, properties, status);

  if (queue != NULL)
    add_queue (queue, context);
  return queue;
}

/* Passes a change of a queue's properties on to the driver, for example a change to out of order.
 * Only drivers of OpenCL 1.0 accept such a change. */
cl_int CL_API_CALL
layer_clSetCommandQueueProperty (cl_command_queue queue, cl_command_queue_properties properties,
                                 cl_bool enable, cl_command_queue_properties *old)
{
  LAYER_AUTO LayerQueue *self = _tarn_layer_find (LAYER_QUEUE, queue);

  if (self != NULL && (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0)
    {
      _tarn_layer_context_end_one_queue (self->context, self);
      __atomic_store_n (&self->in_order, FALSE, __ATOMIC_RELEASE);
    }
  return _tarn_layer_driver->clSetCommandQueueProperty (queue, properties, enable, old);
}

cl_int CL_API_CALL
layer_clRetainCommandQueue (cl_command_queue queue)
{
  cl_int status = _tarn_layer_driver->clRetainCommandQueue (queue);
  LAYER_AUTO LayerQueue *self = _tarn_layer_find (LAYER_QUEUE, queue);

  if (self != NULL && status == CL_SUCCESS)
    _tarn_layer_retain (self);
  return status;
}

/* Closes a queue when the program has released it, so that the queue takes no more commands.  First
 * puts the last marker on the queue, because the driver takes no marker later. */
static void
close_queue (LayerQueue *self)
{
  _tarn_layer_context_end_one_queue (self->context, self);
  if (!_tarn_layer_queue_is_done (self, _tarn_layer_queue_get_enqueued (self)))
    _tarn_layer_queue_put_last_marker (self);
  /* clReleaseCommandQueue () implies a flush.  The layer calls the driver's function only later,
   * when the commands are done and no call uses the queue.  So it flushes the queue now. */
  _tarn_layer_driver->clFlush (self->base.handle);
  {
    TARN_LOCKED (&self->lock);

    g_assert (!self->closed);
    __atomic_store_n (&self->closed, TRUE, __ATOMIC_RELEASE);
  }
  _tarn_layer_queue_poll (self);
}

cl_int CL_API_CALL
layer_clReleaseCommandQueue (cl_command_queue queue)
{
  LAYER_AUTO LayerQueue *self = _tarn_layer_find (LAYER_QUEUE, queue);

  if (self == NULL || !_tarn_layer_release (self))
    return _tarn_layer_driver->clReleaseCommandQueue (queue);
  _tarn_layer_unlist (self);
  close_queue (self);
  return CL_SUCCESS;
}

cl_int CL_API_CALL
layer_clFinish (cl_command_queue queue)
{
  LAYER_AUTO LayerQueue *self = _tarn_layer_find (LAYER_QUEUE, queue);
  guint64 number = self != NULL ? _tarn_layer_queue_get_enqueued (self) : 0;
  cl_int status = _tarn_layer_driver->clFinish (queue);

  if (self != NULL && status == CL_SUCCESS)
    {
      _tarn_layer_queue_set_done (self, number);
      _tarn_layer_debug_check_guards (self->context);
    }
  return status;
}
