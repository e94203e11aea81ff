/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The layer's functions by which queues wait for each other, and for shared virtual memory. */

#include "layer-private.h"

/* Those that have nothing to list. */
#define PASS(name, parameters, arguments)                                                          \
  cl_int layer_##name parameters                                                                   \
  {                                                                                                \
    cl_int status = _layer_enter (FUNCTION_##name);                                                \
                                                                                                   \
    return status == CL_SUCCESS ? _layer_driver->name arguments : status;                          \
  }

/* Those whose event is listed. */
#define ENQUEUE(name)                                                                              \
  cl_int layer_##name (cl_command_queue queue, cl_uint n, const cl_event *waits, cl_event *event)  \
  {                                                                                                \
    const Object object = { .kind = OPENCL_LAYER_EVENT };                                          \
    cl_int status = _layer_enter (FUNCTION_##name);                                                \
                                                                                                   \
    if (status == CL_SUCCESS)                                                                      \
      status = _layer_driver->name (queue, n, waits, event);                                       \
    if (status == CL_SUCCESS && event != NULL)                                                     \
      _layer_leave_create (*event, &object, status, NULL);                                         \
    return status;                                                                                 \
  }

PASS (clFinish, (cl_command_queue queue), (queue))
PASS (clFlush, (cl_command_queue queue), (queue))
PASS (clGetContextInfo,
      (cl_context context, cl_context_info name, size_t size, void *value, size_t *size_ret),
      (context, name, size, value, size_ret))
PASS (clGetEventInfo,
      (cl_event event, cl_event_info name, size_t size, void *value, size_t *size_ret),
      (event, name, size, value, size_ret))
ENQUEUE (clEnqueueBarrierWithWaitList)
ENQUEUE (clEnqueueMarkerWithWaitList)

/* A test whose budget was not spent did not expect the driver to have no more: what fails then is
 * easier to understand where that is known. */
static void
tell_refusal (size_t size)
{
  const OpenclLayer *self = tarn_opencl_layer ();

  g_test_message ("the driver itself refuses %" G_GSIZE_FORMAT " bytes of shared virtual memory, "
                  "beside %u pieces; with buffers, %" G_GUINT64_FORMAT " bytes",
                  (gsize) size, self->get_live (OPENCL_LAYER_SVM, NULL, 0),
                  self->get_live_bytes ());
}

void *
layer_clSVMAlloc (cl_context context, cl_svm_mem_flags flags, size_t size, cl_uint alignment)
{
  Object object = { .kind = OPENCL_LAYER_SVM, .size = size };
  cl_int status = _layer_enter_create (FUNCTION_clSVMAlloc, &object);
  void *pointer
      = status == CL_SUCCESS ? _layer_driver->clSVMAlloc (context, flags, size, alignment) : NULL;

  if (status == CL_SUCCESS && pointer == NULL)
    tell_refusal (size);
  return _layer_leave_create (pointer, &object, status, NULL);
}

void
layer_clSVMFree (cl_context context, void *pointer)
{
  _layer_count (FUNCTION_clSVMFree);
  if (pointer == NULL)
    return;
  if (_layer_drop_reference (pointer).references == 0)
    g_error ("clSVMFree of %p, which is not allocated", pointer);
  _layer_driver->clSVMFree (context, pointer);
}

/* When the command runs. */
static void CL_CALLBACK
free_pointers (cl_command_queue queue, cl_uint n, void *pointers[], void *context)
{
  (void) queue;
  for (cl_uint i = 0; i < n; i++)
    {
      if (_layer_drop_reference (pointers[i]).references == 0)
        g_error ("clEnqueueSVMFree of %p, which is not allocated", pointers[i]);
      _layer_driver->clSVMFree (context, pointers[i]);
    }
}

/* Has the driver call back to free the memory, so that the ledger has it for as long as it lasts;
 * the caller's own function comes by clSVMFree. */
cl_int
layer_clEnqueueSVMFree (cl_command_queue queue, cl_uint n, void *pointers[],
                        void (CL_CALLBACK *notify) (cl_command_queue, cl_uint, void *[], void *),
                        void *user_data, cl_uint n_waits, const cl_event *waits, cl_event *event)
{
  const Object object = { .kind = OPENCL_LAYER_EVENT };
  cl_int status = _layer_enter (FUNCTION_clEnqueueSVMFree);
  cl_context context = NULL;

  if (status == CL_SUCCESS && notify == NULL)
    status = _layer_driver->clGetCommandQueueInfo (queue, CL_QUEUE_CONTEXT, sizeof context,
                                                   &context, NULL);
  if (status == CL_SUCCESS)
    status = _layer_driver->clEnqueueSVMFree (
        queue, n, pointers, notify != NULL ? notify : free_pointers,
        notify != NULL ? user_data : context, n_waits, waits, event);
  if (status == CL_SUCCESS && event != NULL)
    _layer_leave_create (*event, &object, status, NULL);
  return status;
}
