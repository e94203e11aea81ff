/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Makes each call that the layer can have fail, with arguments that are none, and prints its name
 * and what it answers: whatever passed would be seen by that.  What the loader does not have is
 * left out. */

#include <CL/cl.h>
#include <stdio.h>

#define OBJECT(name, call)                                                                         \
  {                                                                                                \
    cl_int status = 1;                                                                             \
    const void *object = call;                                                                     \
                                                                                                   \
    printf (#name " %d%s\n", status, object != NULL ? " and an object" : "");                      \
  }

#define STATUS(name, call) printf (#name " %d\n", call);

int
main (void)
{
  OBJECT (clCreateContext, clCreateContext (NULL, 0, NULL, NULL, NULL, &status))
  OBJECT (clCreateContextFromType, clCreateContextFromType (NULL, 0, NULL, NULL, &status))
  OBJECT (clCreateCommandQueue, clCreateCommandQueue (NULL, NULL, 0, &status))
  OBJECT (clCreateCommandQueueWithProperties,
          clCreateCommandQueueWithProperties (NULL, NULL, NULL, &status))
  OBJECT (clCreateBuffer, clCreateBuffer (NULL, 0, 0, NULL, &status))
  OBJECT (clCreateBufferWithProperties,
          clCreateBufferWithProperties (NULL, NULL, 0, 0, NULL, &status))
  OBJECT (clCreateImage, clCreateImage (NULL, 0, NULL, NULL, NULL, &status))
  OBJECT (clCreateImageWithProperties,
          clCreateImageWithProperties (NULL, NULL, 0, NULL, NULL, NULL, &status))
  OBJECT (clCreateImage2D, clCreateImage2D (NULL, 0, NULL, 0, 0, 0, NULL, &status))
  OBJECT (clCreateImage3D, clCreateImage3D (NULL, 0, NULL, 0, 0, 0, 0, 0, NULL, &status))
  OBJECT (clCreatePipe, clCreatePipe (NULL, 0, 0, 0, NULL, &status))
  OBJECT (clCreateSubBuffer, clCreateSubBuffer (NULL, 0, 0, NULL, &status))
  OBJECT (clCreateSampler, clCreateSampler (NULL, 0, 0, 0, &status))
  OBJECT (clCreateSamplerWithProperties, clCreateSamplerWithProperties (NULL, NULL, &status))
  OBJECT (clCreateProgramWithSource, clCreateProgramWithSource (NULL, 0, NULL, NULL, &status))
  OBJECT (clCreateProgramWithBinary,
          clCreateProgramWithBinary (NULL, 0, NULL, NULL, NULL, NULL, &status))
  OBJECT (clCreateProgramWithBuiltInKernels,
          clCreateProgramWithBuiltInKernels (NULL, 0, NULL, NULL, &status))
  OBJECT (clCreateProgramWithIL, clCreateProgramWithIL (NULL, NULL, 0, &status))
  OBJECT (clLinkProgram, clLinkProgram (NULL, 0, NULL, NULL, 0, NULL, NULL, NULL, &status))
  STATUS (clBuildProgram, clBuildProgram (NULL, 0, NULL, NULL, NULL, NULL))
  STATUS (clCompileProgram, clCompileProgram (NULL, 0, NULL, NULL, 0, NULL, NULL, NULL, NULL))
  OBJECT (clCreateKernel, clCreateKernel (NULL, NULL, &status))
  OBJECT (clCloneKernel, clCloneKernel (NULL, &status))
  STATUS (clSetKernelArg, clSetKernelArg (NULL, 0, 0, NULL))
  STATUS (clSetKernelArgSVMPointer, clSetKernelArgSVMPointer (NULL, 0, NULL))
  STATUS (clSetKernelExecInfo, clSetKernelExecInfo (NULL, 0, 0, NULL))
  OBJECT (clCreateUserEvent, clCreateUserEvent (NULL, &status))
  STATUS (clSetEventCallback, clSetEventCallback (NULL, 0, NULL, NULL))
  STATUS (clSetMemObjectDestructorCallback, clSetMemObjectDestructorCallback (NULL, NULL, NULL))
  STATUS (clWaitForEvents, clWaitForEvents (0, NULL))
  STATUS (clFlush, clFlush (NULL))
  STATUS (clFinish, clFinish (NULL))
  STATUS (clEnqueueReadBuffer, clEnqueueReadBuffer (NULL, NULL, 0, 0, 0, NULL, 0, NULL, NULL))
  STATUS (clEnqueueReadBufferRect, clEnqueueReadBufferRect (NULL, NULL, 0, NULL, NULL, NULL, 0, 0,
                                                            0, 0, NULL, 0, NULL, NULL))
  STATUS (clEnqueueWriteBuffer, clEnqueueWriteBuffer (NULL, NULL, 0, 0, 0, NULL, 0, NULL, NULL))
  STATUS (clEnqueueWriteBufferRect, clEnqueueWriteBufferRect (NULL, NULL, 0, NULL, NULL, NULL, 0, 0,
                                                              0, 0, NULL, 0, NULL, NULL))
  STATUS (clEnqueueFillBuffer, clEnqueueFillBuffer (NULL, NULL, NULL, 0, 0, 0, 0, NULL, NULL))
  STATUS (clEnqueueCopyBuffer, clEnqueueCopyBuffer (NULL, NULL, NULL, 0, 0, 0, 0, NULL, NULL))
  STATUS (clEnqueueCopyBufferRect,
          clEnqueueCopyBufferRect (NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, NULL, NULL))
  STATUS (clEnqueueReadImage,
          clEnqueueReadImage (NULL, NULL, 0, NULL, NULL, 0, 0, NULL, 0, NULL, NULL))
  STATUS (clEnqueueWriteImage,
          clEnqueueWriteImage (NULL, NULL, 0, NULL, NULL, 0, 0, NULL, 0, NULL, NULL))
  STATUS (clEnqueueFillImage, clEnqueueFillImage (NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL))
  STATUS (clEnqueueCopyImage,
          clEnqueueCopyImage (NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL))
  STATUS (clEnqueueCopyImageToBuffer,
          clEnqueueCopyImageToBuffer (NULL, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL))
  STATUS (clEnqueueCopyBufferToImage,
          clEnqueueCopyBufferToImage (NULL, NULL, NULL, 0, NULL, NULL, 0, NULL, NULL))
  STATUS (clEnqueueMigrateMemObjects, clEnqueueMigrateMemObjects (NULL, 0, NULL, 0, 0, NULL, NULL))
  OBJECT (clEnqueueMapBuffer, clEnqueueMapBuffer (NULL, NULL, 0, 0, 0, 0, 0, NULL, NULL, &status))
  OBJECT (clEnqueueMapImage,
          clEnqueueMapImage (NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, 0, NULL, NULL, &status))
  STATUS (clEnqueueUnmapMemObject, clEnqueueUnmapMemObject (NULL, NULL, NULL, 0, NULL, NULL))
  STATUS (clEnqueueNDRangeKernel,
          clEnqueueNDRangeKernel (NULL, NULL, 0, NULL, NULL, NULL, 0, NULL, NULL))
  STATUS (clEnqueueTask, clEnqueueTask (NULL, NULL, 0, NULL, NULL))
  STATUS (clEnqueueNativeKernel,
          clEnqueueNativeKernel (NULL, NULL, NULL, 0, 0, NULL, NULL, 0, NULL, NULL))
  STATUS (clEnqueueMarker, clEnqueueMarker (NULL, NULL))
  STATUS (clEnqueueMarkerWithWaitList, clEnqueueMarkerWithWaitList (NULL, 0, NULL, NULL))
  STATUS (clEnqueueBarrierWithWaitList, clEnqueueBarrierWithWaitList (NULL, 0, NULL, NULL))
  STATUS (clEnqueueSVMMemcpy, clEnqueueSVMMemcpy (NULL, 0, NULL, NULL, 0, 0, NULL, NULL))
  STATUS (clEnqueueSVMMemFill, clEnqueueSVMMemFill (NULL, NULL, NULL, 0, 0, 0, NULL, NULL))
  STATUS (clEnqueueSVMMap, clEnqueueSVMMap (NULL, 0, 0, NULL, 0, 0, NULL, NULL))
  STATUS (clEnqueueSVMUnmap, clEnqueueSVMUnmap (NULL, NULL, 0, NULL, NULL))
  STATUS (clEnqueueSVMMigrateMem, clEnqueueSVMMigrateMem (NULL, 0, NULL, NULL, 0, 0, NULL, NULL))
  STATUS (clEnqueueBarrier, clEnqueueBarrier (NULL))
  STATUS (clEnqueueWaitForEvents, clEnqueueWaitForEvents (NULL, 0, NULL))
  STATUS (clCreateKernelsInProgram, clCreateKernelsInProgram (NULL, 0, NULL, NULL))
  OBJECT (clSVMAlloc, clSVMAlloc (NULL, 0, 0, 0))
  STATUS (clEnqueueSVMFree, clEnqueueSVMFree (NULL, 0, NULL, NULL, NULL, 0, NULL, NULL))
  return 0;
}
