/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A layer below Tarn's, in place of a driver that has no memory: the command by which Tarn's layer
 * makes the driver allocate a new piece fails, after it was put on the queue.  When the program
 * ends, the layer prints how many commands failed, and how often their events were used after they
 * were released. */

#include <CL/cl_icd.h>
#include <CL/cl_layer.h>
#include <stdio.h>
#include <string.h>

static const cl_icd_dispatch *driver;
static cl_icd_dispatch dispatch;
static cl_event failing; /* with a reference of this layer's; NULL: none */
static unsigned int is_released, n_failed, n_misused;

static cl_int CL_API_CALL
below_read (cl_command_queue queue, cl_mem buffer, cl_bool blocks, size_t offset, size_t size,
            void *bytes, cl_uint n_events, const cl_event *events, cl_event *event)
{
  cl_int status = driver->clEnqueueReadBuffer (queue, buffer, blocks, offset, size, bytes, n_events,
                                               events, event);

  if (status != CL_SUCCESS || blocks || event == NULL || size > 4)
    return status;
  if (failing != NULL)
    driver->clReleaseEvent (failing);
  failing = *event;
  is_released = 0;
  n_failed++;
  return driver->clRetainEvent (failing);
}

static cl_int CL_API_CALL
below_get_info (cl_event event, cl_event_info name, size_t size, void *value, size_t *size_needed)
{
  if (event != failing || name != CL_EVENT_COMMAND_EXECUTION_STATUS)
    return driver->clGetEventInfo (event, name, size, value, size_needed);
  n_misused += is_released;
  *(cl_int *) value = CL_OUT_OF_RESOURCES;
  return CL_SUCCESS;
}

static cl_int CL_API_CALL
below_release (cl_event event)
{
  if (event == failing && is_released)
    {
      n_misused++;
      return CL_INVALID_EVENT;
    }
  is_released |= event == failing;
  return driver->clReleaseEvent (event);
}

static void __attribute__ ((destructor)) print (void)
{
  fprintf (stderr, "failed %u misused %u\n", n_failed, n_misused);
}

CL_API_ENTRY cl_int CL_API_CALL
clGetLayerInfo (cl_layer_info name, size_t size, void *value, size_t *size_needed)
{
  if (name != CL_LAYER_API_VERSION || size < sizeof (cl_layer_api_version))
    return CL_INVALID_VALUE;
  *(cl_layer_api_version *) value = CL_LAYER_API_VERSION_100;
  if (size_needed != NULL)
    *size_needed = sizeof (cl_layer_api_version);
  return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL
clInitLayer (cl_uint n_entries, const cl_icd_dispatch *target, cl_uint *n_returned,
             const cl_icd_dispatch **returned)
{
  size_t size = n_entries * sizeof (void *);

  driver = target;
  memcpy (&dispatch, target, size < sizeof dispatch ? size : sizeof dispatch);
  dispatch.clEnqueueReadBuffer = below_read;
  dispatch.clGetEventInfo = below_get_info;
  dispatch.clReleaseEvent = below_release;
  *n_returned = n_entries;
  *returned = &dispatch;
  return CL_SUCCESS;
}
