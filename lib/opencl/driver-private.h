/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The functions of OpenCL that Tarn calls.  Tarn does not link with the OpenCL library, but opens
 * it when a program first needs OpenCL.  So a program that uses Tarn also starts without OpenCL. */

#ifndef TARN_OPENCL_DRIVER_PRIVATE_H
#define TARN_OPENCL_DRIVER_PRIVATE_H

#include <tarn/opencl.h>

/* The functions that Tarn requires, as a list X (name).  The header of OpenCL 1.2 declares these
 * functions.  If the OpenCL library lacks one of them, _tarn_opencl_load () fails. */
#define TARN_OPENCL_REQUIRED(X)                                                                    \
  X (clBuildProgram)                                                                               \
  X (clCreateBuffer)                                                                               \
  X (clCreateCommandQueue)                                                                         \
  X (clCreateContext)                                                                              \
  X (clCreateKernel)                                                                               \
  X (clCreateProgramWithSource)                                                                    \
  X (clCreateSubBuffer)                                                                            \
  X (clEnqueueBarrierWithWaitList)                                                                 \
  X (clEnqueueCopyBuffer)                                                                          \
  X (clEnqueueFillBuffer)                                                                          \
  X (clEnqueueMarkerWithWaitList)                                                                  \
  X (clEnqueueMigrateMemObjects)                                                                   \
  X (clEnqueueNDRangeKernel)                                                                       \
  X (clEnqueueReadBuffer)                                                                          \
  X (clEnqueueWriteBuffer)                                                                         \
  X (clFinish)                                                                                     \
  X (clFlush)                                                                                      \
  X (clGetCommandQueueInfo)                                                                        \
  X (clGetContextInfo)                                                                             \
  X (clGetDeviceIDs)                                                                               \
  X (clGetDeviceInfo)                                                                              \
  X (clGetEventInfo)                                                                               \
  X (clGetEventProfilingInfo)                                                                      \
  X (clGetKernelInfo)                                                                              \
  X (clGetKernelWorkGroupInfo)                                                                     \
  X (clGetMemObjectInfo)                                                                           \
  X (clGetPlatformIDs)                                                                             \
  X (clGetPlatformInfo)                                                                            \
  X (clGetProgramBuildInfo)                                                                        \
  X (clReleaseCommandQueue)                                                                        \
  X (clReleaseContext)                                                                             \
  X (clReleaseDevice)                                                                              \
  X (clReleaseEvent)                                                                               \
  X (clReleaseKernel)                                                                              \
  X (clReleaseMemObject)                                                                           \
  X (clReleaseProgram)                                                                             \
  X (clRetainCommandQueue)                                                                         \
  X (clRetainContext)                                                                              \
  X (clRetainDevice)                                                                               \
  X (clRetainKernel)                                                                               \
  X (clRetainMemObject)                                                                            \
  X (clRetainProgram)                                                                              \
  X (clSetEventCallback)                                                                           \
  X (clSetKernelArg)                                                                               \
  X (clSetMemObjectDestructorCallback)                                                             \
  X (clWaitForEvents)

/* The functions that Tarn can do without, as a list X (result, name, arguments): those for images,
 * and those of OpenCL 2.0.  If OpenCL lacks one of them, its pointer in _tarn_cl is NULL. */
#define TARN_OPENCL_OPTIONAL(X)                                                                    \
  X (cl_mem, clCreateImage,                                                                        \
     (cl_context context, cl_mem_flags flags, const cl_image_format *format,                       \
      const cl_image_desc *desc, gpointer host, cl_int *status))                                   \
  X (cl_int, clEnqueueFillImage,                                                                   \
     (cl_command_queue queue, cl_mem image, gconstpointer color, const size_t *origin,             \
      const size_t *region, cl_uint n_events, const cl_event *events, cl_event *event))            \
  X (gpointer, clSVMAlloc,                                                                         \
     (cl_context context, cl_bitfield flags, size_t size, cl_uint alignment))                      \
  X (void, clSVMFree, (cl_context context, gpointer pointer))                                      \
  X (cl_int, clEnqueueSVMFree,                                                                     \
     (cl_command_queue queue, cl_uint n_pointers, gpointer pointers[],                             \
      void (CL_CALLBACK * callback) (cl_command_queue, cl_uint, gpointer[], gpointer),             \
      gpointer user_data, cl_uint n_events, const cl_event *events, cl_event *event))              \
  X (cl_int, clEnqueueSVMMemcpy,                                                                   \
     (cl_command_queue queue, cl_bool is_blocking, gpointer to, gconstpointer from, size_t size,   \
      cl_uint n_events, const cl_event *events, cl_event *event))

typedef struct
{
#define X(name) __typeof__ (&(name)) name;
  TARN_OPENCL_REQUIRED (X)
#undef X
#define X(result, name, arguments) result (*name) arguments;
  TARN_OPENCL_OPTIONAL (X)
#undef X
} TarnOpenclDriver;

/* The table of OpenCL's functions, through which Tarn calls OpenCL.  The table must not be used
 * before _tarn_opencl_load () has returned TRUE, and is constant afterwards.  So each public
 * function that calls OpenCL first calls _tarn_opencl_load ().  A function that takes one of Tarn's
 * objects need not call it, because the function that made the object has loaded OpenCL. */
extern TarnOpenclDriver _tarn_cl;

/* Loads OpenCL if it is not loaded.  Returns FALSE with TARN_ERROR_NO_DRIVER if this fails.  Later
 * calls do not try again: they return FALSE with the same error, until tarn_opencl_set_functions ()
 * succeeds.  Fails with TARN_ERROR_FORKED in a child of fork (). */
gboolean _tarn_opencl_load (GError **error);

/* Returns TRUE if an error means that this machine has no OpenCL library, which is normal. */
gboolean _tarn_opencl_is_absent (const GError *error);

#endif
