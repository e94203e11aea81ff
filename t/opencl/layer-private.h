/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What the parts of the layer share:
 *
 *     layer.c        settings, the ledger, most functions, what the loader and tests call
 *     layer-info.c   the answers of clGet...Info () that a test pretends; the time of commands
 *     layer-order.c  how queues wait for each other; shared virtual memory */

#ifndef TARN_OPENCL_LAYER_PRIVATE_H
#define TARN_OPENCL_LAYER_PRIVATE_H

/* Tests may be compiled for an older one, which has newer functions as void * in cl_icd_dispatch.
 * Of the functions that are deprecated by now, nothing but that table's members is used. */
#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300

#include "layer.h"

#include <CL/cl_layer.h>
#include <pthread.h>

#define FUNCTIONS(F)                                                                               \
  F (clBuildProgram)                                                                               \
  F (clCreateBuffer)                                                                               \
  F (clCreateCommandQueue)                                                                         \
  F (clCreateCommandQueueWithProperties)                                                           \
  F (clCreateContext)                                                                              \
  F (clCreateContextFromType)                                                                      \
  F (clCreateImage)                                                                                \
  F (clCreateKernel)                                                                               \
  F (clCreateProgramWithSource)                                                                    \
  F (clCreateSubBuffer)                                                                            \
  F (clEnqueueBarrierWithWaitList)                                                                 \
  F (clEnqueueFillBuffer)                                                                          \
  F (clEnqueueFillImage)                                                                           \
  F (clEnqueueMarkerWithWaitList)                                                                  \
  F (clEnqueueMigrateMemObjects)                                                                   \
  F (clEnqueueNDRangeKernel)                                                                       \
  F (clEnqueueReadBuffer)                                                                          \
  F (clEnqueueSVMFree)                                                                             \
  F (clEnqueueWriteBuffer)                                                                         \
  F (clFinish)                                                                                     \
  F (clFlush)                                                                                      \
  F (clGetCommandQueueInfo)                                                                        \
  F (clGetContextInfo)                                                                             \
  F (clGetDeviceIDs)                                                                               \
  F (clGetDeviceInfo)                                                                              \
  F (clGetEventInfo)                                                                               \
  F (clGetEventProfilingInfo)                                                                      \
  F (clGetKernelInfo)                                                                              \
  F (clGetKernelWorkGroupInfo)                                                                     \
  F (clGetMemObjectInfo)                                                                           \
  F (clGetPlatformInfo)                                                                            \
  F (clGetProgramBuildInfo)                                                                        \
  F (clReleaseCommandQueue)                                                                        \
  F (clReleaseContext)                                                                             \
  F (clReleaseEvent)                                                                               \
  F (clReleaseKernel)                                                                              \
  F (clReleaseMemObject)                                                                           \
  F (clReleaseProgram)                                                                             \
  F (clRetainCommandQueue)                                                                         \
  F (clRetainContext)                                                                              \
  F (clRetainEvent)                                                                                \
  F (clRetainKernel)                                                                               \
  F (clRetainMemObject)                                                                            \
  F (clRetainProgram)                                                                              \
  F (clSVMAlloc)                                                                                   \
  F (clSVMFree)                                                                                    \
  F (clSetEventCallback)                                                                           \
  F (clSetKernelArg)                                                                               \
  F (clWaitForEvents)

#define INDEX(name) FUNCTION_##name,

typedef enum
{
  FUNCTIONS (INDEX) N_FUNCTIONS, /* also: any of them */
} Function;

typedef struct
{
  OpenclLayerKind kind;
  gsize size;           /* 0 but for memory */
  gboolean is_resident; /* counts against the budget */
  guint references;     /* at least 1 in the ledger */
  gconstpointer whole;  /* of a part: the buffer that it is of */
} Object;

extern const cl_icd_dispatch *_layer_driver; /* set before any call, and constant */

pthread_mutex_t *_layer_lock (void);
void _layer_unlock (pthread_mutex_t **locked);

/* Until the end of the block that it stands in. */
#define LOCKED                                                                                     \
  __attribute__ ((cleanup (_layer_unlock), unused)) pthread_mutex_t *locked = _layer_lock ()

/* The function of that name, which must be one of these; NULL: any of them, N_FUNCTIONS. */
Function _layer_find_function (const gchar *name);

/* Counts a call; returns what it is to fail with, or CL_SUCCESS. */
cl_int _layer_enter (Function function);

/* Counts a call that cannot fail. */
void _layer_count (Function function);

/* Around a call that creates an object: what it is to fail with; then what it has given, if
 * anything, and with which status. */
cl_int _layer_enter_create (Function function, Object *object);
gpointer _layer_leave_create (gpointer handle, const Object *object, cl_int status,
                              cl_int *errcode_ret);

/* Comes before the driver's release: after it, another thread may create an object with the same
 * handle.  Returns the object as it was, with no references if it is not known. */
Object _layer_drop_reference (gpointer handle);

/* layer-info.c: OpenclLayer's functions for answers.  The first one is called locked. */
void _layer_forget_answers (void);
void _layer_set_info (const gchar *function, cl_uint name, gconstpointer value, gsize size);
void _layer_refuse_info (const gchar *function, cl_uint name, cl_int status);
void _layer_set_device_info (cl_device_info name, gconstpointer value, gsize size);
void _layer_set_platform_info (cl_platform_info name, gconstpointer value, gsize size);
void _layer_set_clock (OpenclLayerClock clock);

/* Answers a query as OpenCL's clGet...Info () do. */
cl_int _layer_answer (gconstpointer from, gsize from_size, gsize size, gpointer value,
                      size_t *size_ret);

cl_int layer_clGetDeviceInfo (cl_device_id device, cl_device_info name, size_t size, void *value,
                              size_t *size_ret);
cl_int layer_clGetEventProfilingInfo (cl_event event, cl_profiling_info name, size_t size,
                                      void *value, size_t *size_ret);
cl_int layer_clGetKernelInfo (cl_kernel kernel, cl_kernel_info name, size_t size, void *value,
                              size_t *size_ret);
cl_int layer_clGetKernelWorkGroupInfo (cl_kernel kernel, cl_device_id device,
                                       cl_kernel_work_group_info name, size_t size, void *value,
                                       size_t *size_ret);
cl_int layer_clGetMemObjectInfo (cl_mem object, cl_mem_info name, size_t size, void *value,
                                 size_t *size_ret);
cl_int layer_clGetPlatformInfo (cl_platform_id platform, cl_platform_info name, size_t size,
                                void *value, size_t *size_ret);
cl_int layer_clGetProgramBuildInfo (cl_program program, cl_device_id device,
                                    cl_program_build_info name, size_t size, void *value,
                                    size_t *size_ret);
cl_int layer_clSetKernelArg (cl_kernel kernel, cl_uint index, size_t size, const void *value);

/* layer-order.c */
cl_int layer_clEnqueueBarrierWithWaitList (cl_command_queue queue, cl_uint n, const cl_event *waits,
                                           cl_event *event);
cl_int layer_clEnqueueMarkerWithWaitList (cl_command_queue queue, cl_uint n, const cl_event *waits,
                                          cl_event *event);
cl_int
layer_clEnqueueSVMFree (cl_command_queue queue, cl_uint n, void *pointers[],
                        void (CL_CALLBACK *notify) (cl_command_queue, cl_uint, void *[], void *),
                        void *user_data, cl_uint n_waits, const cl_event *waits, cl_event *event);
cl_int layer_clFinish (cl_command_queue queue);
cl_int layer_clFlush (cl_command_queue queue);
cl_int layer_clGetContextInfo (cl_context context, cl_context_info name, size_t size, void *value,
                               size_t *size_ret);
cl_int layer_clGetEventInfo (cl_event event, cl_event_info name, size_t size, void *value,
                             size_t *size_ret);
void *layer_clSVMAlloc (cl_context context, cl_svm_mem_flags flags, size_t size, cl_uint alignment);
void layer_clSVMFree (cl_context context, void *pointer);

#endif
