/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Finds the device address of each piece, so that the program's buffers are aligned as the device
 * states (CL_DEVICE_MEM_BASE_ADDR_ALIGN).  A piece is a large buffer of the driver.  Each buffer of
 * the program is a sub-buffer of a piece, and is only as aligned as the piece.
 *
 * OpenCL 3.0 demands in section 5.2.1 that drivers refuse sub-buffers at unaligned offsets
 * (CL_MISALIGNED_SUB_BUFFER_OFFSET).  A driver that refuses unaligned offsets also aligns its
 * buffers as stated.  rusticl of Mesa 22.3 accepts unaligned offsets: it states 512 bytes, but
 * aligns its buffers to 64 bytes only.  So if a driver accepts an unaligned offset, the layer runs
 * a kernel that reads the address of each new piece, and uses the piece only from its first aligned
 * address on. */

#include "layer-private.h"

/* Returns TRUE if the driver accepts a sub-buffer at an unaligned offset. */
static gboolean
takes_any_offset (const LayerContext *context)
{
  const cl_buffer_region region = { context->alignment / 2, 1 };
  cl_int status;
  cl_mem part, buffer = _tarn_layer_driver->clCreateBuffer (context->base.handle, CL_MEM_READ_WRITE,
                                                            context->alignment, NULL, &status);

  if (buffer == NULL)
    return FALSE;
  part = _tarn_layer_driver->clCreateSubBuffer (buffer, 0, CL_BUFFER_CREATE_TYPE_REGION, &region,
                                                &status);
  if (part != NULL)
    _tarn_layer_driver->clReleaseMemObject (part);
  _tarn_layer_driver->clReleaseMemObject (buffer);
  return part != NULL;
}

void
_tarn_layer_address_begin (LayerContext *context)
{
  const gchar *source = "kernel void where (global uchar *piece, global ulong *answer)"
                        "{ *answer = (ulong) piece; }";
  cl_program program;
  cl_int status;

  if (context->alignment < 2 || !takes_any_offset (context))
    return;
  program = _tarn_layer_driver->clCreateProgramWithSource (context->base.handle, 1, &source, NULL,
                                                           &status);
  if (program == NULL)
    return;
  if (_tarn_layer_driver->clBuildProgram (program, 1, &context->device, "", NULL, NULL)
      == CL_SUCCESS)
    context->address_program = program;
  else
    _tarn_layer_driver->clReleaseProgram (program);
}

/* Enqueues a kernel that writes the device address of @piece to the buffer @answer.  Makes a new
 * kernel object for each call, because threads that share a kernel object would overwrite each
 * other's arguments. */
static gboolean
enqueue (const LayerContext *context, cl_command_queue queue, cl_mem piece, cl_mem answer,
         cl_event *event)
{
  const size_t one = 1;
  cl_int status;
  cl_kernel kernel
      = _tarn_layer_driver->clCreateKernel (context->address_program, "where", &status);

  if (kernel == NULL)
    return FALSE;
  status = _tarn_layer_driver->clSetKernelArg (kernel, 0, sizeof piece, &piece);
  if (status == CL_SUCCESS)
    status = _tarn_layer_driver->clSetKernelArg (kernel, 1, sizeof answer, &answer);
  if (status == CL_SUCCESS)
    status = _tarn_layer_driver->clEnqueueNDRangeKernel (queue, kernel, 1, NULL, &one, &one, 0,
                                                         NULL, event);
  _tarn_layer_driver->clReleaseKernel (kernel);
  return status == CL_SUCCESS;
}

/* Reads the address from the buffer @answer.  Returns 0 if the driver fails. */
static cl_ulong
read_answer (cl_command_queue queue, cl_mem answer)
{
  cl_ulong *read = g_new0 (cl_ulong, 1);
  cl_ulong address;
  cl_event event;
  cl_int status = _tarn_layer_driver->clEnqueueReadBuffer (queue, answer, CL_FALSE, 0, sizeof *read,
                                                           read, 0, NULL, &event);

  if (_tarn_layer_await (status, &event) != CL_SUCCESS)
    {
      _tarn_layer_keep_for_ever (read);
      return 0;
    }
  address = *read;
  g_free (read);
  return address;
}

/* Returns the device address of a piece, a large buffer of the driver.  Returns 0 if the driver
 * fails, or if the kernel that reads the address is not done after 0.2 s. */
static cl_ulong
ask (LayerContext *context, cl_mem piece, cl_mem answer)
{
  cl_command_queue queue = _tarn_layer_context_get_queue (context);
  cl_event event;

  if (queue == NULL || !enqueue (context, queue, piece, answer, &event)
      || _tarn_layer_wait_briefly (queue, event) != CL_COMPLETE)
    return 0;
  return read_answer (queue, answer);
}

gsize
_tarn_layer_find_shift (LayerContext *context, cl_mem piece)
{
  cl_ulong address;
  cl_int status;
  cl_mem answer;

  if (context->address_program == NULL)
    return 0;
  answer = _tarn_layer_driver->clCreateBuffer (context->base.handle, CL_MEM_READ_WRITE,
                                               sizeof address, NULL, &status);
  if (answer == NULL)
    return 0;
  address = ask (context, piece, answer);
  _tarn_layer_driver->clReleaseMemObject (answer);
  return (gsize) (-address & (context->alignment - 1));
}
