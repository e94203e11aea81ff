/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Lets an OpenCL queue wait for another queue.  To make queue B wait for queue A, Tarn enqueues a
 * marker on A, whose event is complete as soon as A's earlier commands are done.  Tarn then
 * enqueues a barrier on B that waits for this event (OpenCL 3.0 specification, section 5.12,
 * "Markers, Barriers and Waiting for Events").  Tarn retains the queues, so it can enqueue markers
 * and barriers on them at any time. */

#include "common/argument-private.h"
#include "driver-private.h"
#include "order-private.h"

#include "common/other-block-private.h"
#include "device-private.h"
#include "status-private.h"

gboolean
_tarn_opencl_home_init (TarnOpenclHome *home, cl_context context, cl_command_queue queue,
                        GError **error)
{
  /* Register the error domain now: the first call of tarn_opencl_error_quark () may hang if it
   * takes place in a child of fork (). */
  tarn_opencl_error_quark ();
  if (!_tarn_opencl_check (_tarn_cl.clRetainContext (context), "clRetainContext", error))
    return FALSE;
  if (queue != NULL
      && !_tarn_opencl_check (_tarn_cl.clRetainCommandQueue (queue), "clRetainCommandQueue", error))
    {
      _tarn_opencl_report_release ("clReleaseContext", _tarn_cl.clReleaseContext (context));
      return FALSE;
    }
  *home = (TarnOpenclHome){ context, queue };
  return TRUE;
}

void
_tarn_opencl_home_clear (TarnOpenclHome *home)
{
  if (home->queue != NULL)
    _tarn_opencl_report_release ("clReleaseCommandQueue",
                                 _tarn_cl.clReleaseCommandQueue (home->queue));
  _tarn_opencl_report_release ("clReleaseContext", _tarn_cl.clReleaseContext (home->context));
}

gboolean
_tarn_opencl_get_queue_value (cl_command_queue queue, cl_command_queue_info info, gpointer value,
                              gsize size, GError **error)
{
  return _tarn_opencl_check (_tarn_cl.clGetCommandQueueInfo (queue, info, size, value, NULL),
                             "clGetCommandQueueInfo", error);
}

static gboolean
is_in_order (cl_command_queue queue, gboolean *in_order, GError **error)
{
  cl_command_queue_properties properties = 0;

  if (!_tarn_opencl_get_queue_value (queue, CL_QUEUE_PROPERTIES, &properties, sizeof properties,
                                     error))
    return FALSE;
  *in_order = (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0;
  return TRUE;
}

gboolean
_tarn_opencl_check_in_order (cl_command_queue queue, GError **error)
{
  gboolean in_order = FALSE;

  if (!is_in_order (queue, &in_order, error))
    return FALSE;
  if (in_order)
    return TRUE;
  g_set_error (error, TARN_OPENCL_ERROR, CL_INVALID_VALUE,
               "command queue %p: CL_INVALID_VALUE (%d): it is out of order", (gpointer) queue,
               CL_INVALID_VALUE);
  return FALSE;
}

gboolean
_tarn_opencl_check_queue (cl_command_queue queue, cl_context context, GError **error)
{
  cl_context own = NULL;

  if (!_tarn_opencl_get_queue_value (queue, CL_QUEUE_CONTEXT, &own, sizeof own, error))
    return FALSE;
  if (own == context)
    return TRUE;
  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
               "command queue %p is of another context than the memory", (gpointer) queue);
  return FALSE;
}

/* Fails if the device is older than OpenCL 1.2, and so has no barriers that wait for events. */
static gboolean
check_version (cl_command_queue queue, GError **error)
{
  cl_device_id device = NULL;
  guint major, minor;

  if (!_tarn_opencl_get_queue_value (queue, CL_QUEUE_DEVICE, &device, sizeof device, error)
      || !_tarn_opencl_get_device_version (device, &major, &minor, error))
    return FALSE;
  if (major > 1 || minor >= 2)
    return TRUE;
  g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
               "OpenCL %u.%u: the queue's device cannot order memory, which needs OpenCL 1.2",
               major, minor);
  return FALSE;
}

static gboolean
queue_ref (gpointer user_data, gpointer queue, gboolean *in_order, GError **error)
{
  const TarnOpenclHome *home = user_data;

  return _tarn_opencl_check_queue (queue, home->context, error) && check_version (queue, error)
         && is_in_order (queue, in_order, error)
         && _tarn_opencl_check (_tarn_cl.clRetainCommandQueue (queue), "clRetainCommandQueue",
                                error);
}

static void
queue_unref (gpointer user_data, gpointer queue)
{
  (void) user_data;
  _tarn_opencl_report_release ("clReleaseCommandQueue", _tarn_cl.clReleaseCommandQueue (queue));
}

static void
event_release (gpointer user_data, gpointer event)
{
  (void) user_data;
  _tarn_opencl_report_release ("clReleaseEvent", _tarn_cl.clReleaseEvent (event));
}

/* Records an event: enqueues a marker.  Also flushes the queue, because a driver need not begin a
 * queue's commands before a flush.  Without the flush, a queue that waits for the event could wait
 * for ever. */
static gpointer
event_record (gpointer user_data, gpointer queue, GError **error)
{
  cl_event event = NULL;

  if (!_tarn_opencl_check (_tarn_cl.clEnqueueMarkerWithWaitList (queue, 0, NULL, &event),
                           "clEnqueueMarkerWithWaitList", error))
    return NULL;
  if (_tarn_opencl_check (_tarn_cl.clFlush (queue), "clFlush", error))
    return event;
  event_release (user_data, event);
  return NULL;
}

/* Returns TRUE if the event's command is over: it is complete, or it has failed. */
static gboolean
event_is_done (gpointer user_data, gpointer event)
{
  cl_int state = CL_QUEUED;

  (void) user_data;
  return _tarn_cl.clGetEventInfo (event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state,
                                  NULL)
             == CL_SUCCESS
         && state <= CL_COMPLETE;
}

static gboolean
event_wait (gpointer user_data, gpointer handle, gpointer queue, GError **error)
{
  cl_event event = handle;
  cl_int status;

  (void) user_data;
  if (queue != NULL)
    return _tarn_opencl_check (_tarn_cl.clEnqueueBarrierWithWaitList (queue, 1, &event, NULL),
                               "clEnqueueBarrierWithWaitList", error);
  status = _tarn_cl.clWaitForEvents (1, &event);
  return status == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
         || _tarn_opencl_check (status, "clWaitForEvents", error);
}

static gpointer
get_fresh_queue (gpointer user_data)
{
  return ((const TarnOpenclHome *) user_data)->queue;
}

void
_tarn_opencl_set_order (TarnAllocatorOps *ops)
{
  ops->queue_ref = queue_ref;
  ops->queue_unref = queue_unref;
  ops->event_record = event_record;
  ops->event_is_done = event_is_done;
  ops->event_wait = event_wait;
  ops->event_release = event_release;
  ops->fresh_queue = get_fresh_queue;
}

/* Returns TRUE if a block comes from an OpenCL allocator.  Otherwise logs a g_critical (). */
static gboolean
check_block (const gchar *function, const TarnBlock *block)
{
  if (_tarn_opencl_is_buffer (block) || _tarn_opencl_is_svm (block)
      || _tarn_opencl_is_image (block))
    return TRUE;
  _tarn_report_other_block (function, block, "an allocator of libtarn-opencl's");
  return FALSE;
}

TarnBlock *
tarn_opencl_pool_allocate (TarnPool *pool, gsize size, cl_command_queue queue, GError **error)
{
  return tarn_pool_allocate_ordered (pool, size, queue, error);
}

gboolean
tarn_opencl_block_record_use (TarnBlock *block, cl_command_queue queue, GError **error)
{
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (block, FALSE);
  TARN_REFUSE_NULL (queue, FALSE);
  if (!check_block (G_STRFUNC, block))
    return FALSE;

  return tarn_block_record_use (block, queue, error);
}

void
tarn_opencl_block_free_on (TarnBlock *block, cl_command_queue queue)
{
  if (block == NULL || check_block (G_STRFUNC, block))
    tarn_block_free_on (block, queue);
}

gboolean
tarn_opencl_block_move_to_queue (TarnBlock *block, cl_command_queue queue, GError **error)
{
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (block, FALSE);
  TARN_REFUSE_NULL (queue, FALSE);
  if (!check_block (G_STRFUNC, block))
    return FALSE;

  if (_tarn_opencl_is_svm (block)
      && (!_tarn_opencl_load (error) || !_tarn_opencl_check_in_order (queue, error)))
    return FALSE;
  return tarn_block_move_to_queue (block, queue, error);
}

cl_command_queue
tarn_opencl_block_get_queue (const TarnBlock *block)
{
  g_return_val_if_fail (block != NULL, NULL);
  if (!check_block (G_STRFUNC, block))
    return NULL;

  return tarn_block_get_queue (block);
}
