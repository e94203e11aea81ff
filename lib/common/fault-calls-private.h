/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The OpenCL functions in which the OpenCL layer can inject failures. */

#ifndef TARN_FAULT_CALLS_PRIVATE_H
#define TARN_FAULT_CALLS_PRIVATE_H

/* A table of the OpenCL functions in which the OpenCL layer can inject failures.  Each function has
 * a row.  A row has the function's name; the resource that the function needs, such as the device
 * or a queue (FaultPlace); the status that drivers return when this resource has run out; and the
 * kind of object that the function makes (FaultKind). */
#define FAULT_CALLS(F)                                                                             \
  F (clCreateContext, DEVICE, CL_OUT_OF_HOST_MEMORY, CONTEXT)                                      \
  F (clCreateContextFromType, DEVICE, CL_OUT_OF_HOST_MEMORY, CONTEXT)                              \
  F (clCreateCommandQueue, DEVICE, CL_OUT_OF_HOST_MEMORY, COMMAND_QUEUE)                           \
  F (clCreateCommandQueueWithProperties, DEVICE, CL_OUT_OF_HOST_MEMORY, COMMAND_QUEUE)             \
  F (clCreateBuffer, DEVICE, CL_MEM_OBJECT_ALLOCATION_FAILURE, MEMORY)                             \
  F (clCreateBufferWithProperties, DEVICE, CL_MEM_OBJECT_ALLOCATION_FAILURE, MEMORY)               \
  F (clCreateImage, DEVICE, CL_MEM_OBJECT_ALLOCATION_FAILURE, MEMORY)                              \
  F (clCreateImageWithProperties, DEVICE, CL_MEM_OBJECT_ALLOCATION_FAILURE, MEMORY)                \
  F (clCreateImage2D, DEVICE, CL_MEM_OBJECT_ALLOCATION_FAILURE, MEMORY)                            \
  F (clCreateImage3D, DEVICE, CL_MEM_OBJECT_ALLOCATION_FAILURE, MEMORY)                            \
  F (clCreatePipe, DEVICE, CL_MEM_OBJECT_ALLOCATION_FAILURE, MEMORY)                               \
  F (clCreateSubBuffer, HOST, CL_MEM_OBJECT_ALLOCATION_FAILURE, MEMORY)                            \
  F (clCreateSampler, HOST, CL_OUT_OF_HOST_MEMORY, SAMPLER)                                        \
  F (clCreateSamplerWithProperties, HOST, CL_OUT_OF_HOST_MEMORY, SAMPLER)                          \
  F (clCreateProgramWithSource, HOST, CL_OUT_OF_HOST_MEMORY, PROGRAM)                              \
  F (clCreateProgramWithBinary, HOST, CL_OUT_OF_HOST_MEMORY, PROGRAM)                              \
  F (clCreateProgramWithBuiltInKernels, HOST, CL_OUT_OF_HOST_MEMORY, PROGRAM)                      \
  F (clCreateProgramWithIL, HOST, CL_OUT_OF_HOST_MEMORY, PROGRAM)                                  \
  F (clLinkProgram, HOST, CL_OUT_OF_HOST_MEMORY, PROGRAM)                                          \
  F (clBuildProgram, HOST, CL_OUT_OF_HOST_MEMORY, NOTHING)                                         \
  F (clCompileProgram, HOST, CL_OUT_OF_HOST_MEMORY, NOTHING)                                       \
  F (clCreateKernel, HOST, CL_OUT_OF_HOST_MEMORY, KERNEL)                                          \
  F (clCloneKernel, HOST, CL_OUT_OF_HOST_MEMORY, KERNEL)                                           \
  F (clSetKernelArg, HOST, CL_OUT_OF_RESOURCES, NOTHING)                                           \
  F (clSetKernelArgSVMPointer, HOST, CL_OUT_OF_RESOURCES, NOTHING)                                 \
  F (clSetKernelExecInfo, HOST, CL_OUT_OF_RESOURCES, NOTHING)                                      \
  F (clCreateUserEvent, HOST, CL_OUT_OF_HOST_MEMORY, EVENT)                                        \
  F (clSetEventCallback, HOST, CL_OUT_OF_HOST_MEMORY, NOTHING)                                     \
  F (clSetMemObjectDestructorCallback, HOST, CL_OUT_OF_HOST_MEMORY, NOTHING)                       \
  F (clWaitForEvents, EVENTS, CL_OUT_OF_RESOURCES, NOTHING)                                        \
  F (clFlush, QUEUE, CL_OUT_OF_RESOURCES, NOTHING)                                                 \
  F (clFinish, QUEUE, CL_OUT_OF_RESOURCES, NOTHING)                                                \
  F (clEnqueueReadBuffer, QUEUE, CL_MEM_OBJECT_ALLOCATION_FAILURE, NOTHING)                        \
  F (clEnqueueReadBufferRect, QUEUE, CL_MEM_OBJECT_ALLOCATION_FAILURE, NOTHING)                    \
  F (clEnqueueWriteBuffer, QUEUE, CL_MEM_OBJECT_ALLOCATION_FAILURE, NOTHING)                       \
  F (clEnqueueWriteBufferRect, QUEUE, CL_MEM_OBJECT_ALLOCATION_FAILURE, NOTHING)                   \
  F (clEnqueueFillBuffer, QUEUE, CL_MEM_OBJECT_ALLOCATION_FAILURE, NOTHING)                        \
  F (clEnqueueCopyBuffer, QUEUE, CL_MEM_OBJECT_ALLOCATION_FAILURE, NOTHING)                        \
  F (clEnqueueCopyBufferRect, QUEUE, CL_MEM_OBJECT_ALLOCATION_FAILURE, NOTHING)                    \
  F (clEnqueueReadImage, QUEUE, CL_MEM_OBJECT_ALLOCATION_FAILURE, NOTHING)                         \
  F (clEnqueueWriteImage, QUEUE, CL_MEM_OBJECT_ALLOCATION_FAILURE, NOTHING)                        \
  F (clEnqueueFillImage, QUEUE, CL_MEM_OBJECT_ALLOCATION_FAILURE, NOTHING)                         \
  F (clEnqueueCopyImage, QUEUE, CL_MEM_OBJECT_ALLOCATION_FAILURE, NOTHING)                         \
  F (clEnqueueCopyImageToBuffer, QUEUE, CL_MEM_OBJECT_ALLOCATION_FAILURE, NOTHING)                 \
  F (clEnqueueCopyBufferToImage, QUEUE, CL_MEM_OBJECT_ALLOCATION_FAILURE, NOTHING)                 \
  F (clEnqueueMigrateMemObjects, QUEUE, CL_MEM_OBJECT_ALLOCATION_FAILURE, NOTHING)                 \
  F (clEnqueueMapBuffer, QUEUE, CL_MAP_FAILURE, NOTHING)                                           \
  F (clEnqueueMapImage, QUEUE, CL_MAP_FAILURE, NOTHING)                                            \
  F (clEnqueueUnmapMemObject, QUEUE, CL_OUT_OF_RESOURCES, NOTHING)                                 \
  F (clEnqueueNDRangeKernel, QUEUE, CL_OUT_OF_RESOURCES, NOTHING)                                  \
  F (clEnqueueTask, QUEUE, CL_OUT_OF_RESOURCES, NOTHING)                                           \
  F (clEnqueueNativeKernel, QUEUE, CL_OUT_OF_RESOURCES, NOTHING)                                   \
  F (clEnqueueMarker, QUEUE, CL_OUT_OF_RESOURCES, NOTHING)                                         \
  F (clEnqueueMarkerWithWaitList, QUEUE, CL_OUT_OF_RESOURCES, NOTHING)                             \
  F (clEnqueueBarrierWithWaitList, QUEUE, CL_OUT_OF_RESOURCES, NOTHING)                            \
  F (clEnqueueSVMMemcpy, QUEUE, CL_OUT_OF_RESOURCES, NOTHING)                                      \
  F (clEnqueueSVMMemFill, QUEUE, CL_OUT_OF_RESOURCES, NOTHING)                                     \
  F (clEnqueueSVMMap, QUEUE, CL_OUT_OF_RESOURCES, NOTHING)                                         \
  F (clEnqueueSVMUnmap, QUEUE, CL_OUT_OF_RESOURCES, NOTHING)                                       \
  F (clEnqueueSVMMigrateMem, QUEUE, CL_OUT_OF_RESOURCES, NOTHING)                                  \
  F (clEnqueueBarrier, QUEUE, CL_OUT_OF_RESOURCES, NOTHING)                                        \
  F (clEnqueueWaitForEvents, QUEUE, CL_OUT_OF_RESOURCES, NOTHING)                                  \
  F (clCreateKernelsInProgram, HOST, CL_OUT_OF_HOST_MEMORY, KERNEL)                                \
  F (clSVMAlloc, DEVICE, CL_OUT_OF_RESOURCES, SVM)                                                 \
  F (clEnqueueSVMFree, QUEUE, CL_OUT_OF_RESOURCES, NOTHING)

#endif
