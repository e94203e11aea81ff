/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Fault injection: for each OpenCL call, a function that the program reaches in place of the
 * layer's or the driver's function.  Most of these functions return an error if TARN_LAYER_FAULTS
 * says so.  The functions that retain or release objects, or that set user events, return no such
 * errors: they only count. */

#include "faults-private.h"

cl_icd_dispatch _tarn_layer_behind_faults;

/* Functions and macros that many calls use */

/* Counts a failed call for a buffer, an image or SVM, if the program gets an error that means a
 * lack of memory.  The layer counts failed calls, too, but does not see those that fault injection
 * makes fail. */
static void
count_failure (FaultCall call, cl_int status)
{
  const gchar *name = _tarn_layer_fault_calls[call].name;

  if (!_tarn_layer_is_no_memory (status))
    return;
  if (g_str_has_prefix (name, "clCreateBuffer"))
    LAYER_COUNT (failed);
  else if (g_str_has_prefix (name, "clCreateImage"))
    LAYER_COUNT (images_failed);
  else if (call == FAULT_clSVMAlloc)
    LAYER_COUNT (svm_failed);
}

/* Counts a call.  Returns TRUE if the call shall go on to the layer or the driver.  Returns FALSE,
 * and sets *errcode_ret, if fault injection makes the call fail. */
static gboolean
let_pass (FaultCall call, cl_int *errcode_ret)
{
  cl_int status = _tarn_layer_fault_strike (call);

  if (status == CL_SUCCESS)
    return TRUE;
  count_failure (call, status);
  if (errcode_ret != NULL)
    *errcode_ret = status;
  return FALSE;
}

/* Counts the object that a call has made, and returns it.  If the program's memory, with this
 * object, exceeds the budget, releases the object, sets *errcode_ret and returns NULL.  @object:
 * NULL if the call failed. */
static gpointer
accept (FaultCall call, gpointer object, cl_int *errcode_ret)
{
  const FaultCallFacts *facts = &_tarn_layer_fault_calls[call];

  if (object == NULL)
    return NULL;
  if (facts->kind == FAULT_MEMORY && !_tarn_layer_fault_charge (object))
    {
      _tarn_layer_fault_note_refusal (call);
      count_failure (call, facts->error);
      BEHIND (clReleaseMemObject) (object);
      if (errcode_ret != NULL)
        *errcode_ret = facts->error;
      return NULL;
    }
  _tarn_layer_fault_count (facts->kind, 1);
  return object;
}

/* Counts the event of a command as an object of the program's.  @was_made: TRUE if the driver
 * accepted the command.  @event: NULL if the program wants no event. */
static void
note_event (gboolean was_made, const cl_event *event)
{
  if (was_made && event != NULL)
    _tarn_layer_fault_count (FAULT_EVENT, 1);
}

#define FAULT_OBJECT(type, name, parameters, arguments)                                            \
  static type CL_API_CALL fault_##name parameters                                                  \
  {                                                                                                \
    if (!let_pass (FAULT_##name, errcode_ret))                                                     \
      return NULL;                                                                                 \
    return accept (FAULT_##name, BEHIND (name) arguments, errcode_ret);                            \
  }

#define FAULT_STATUS(name, parameters, arguments)                                                  \
  static cl_int CL_API_CALL fault_##name parameters                                                \
  {                                                                                                \
    cl_int status = _tarn_layer_fault_strike (FAULT_##name);                                       \
                                                                                                   \
    return status != CL_SUCCESS ? status : BEHIND (name) arguments;                                \
  }

#define FAULT_COMMAND(name, parameters, arguments)                                                 \
  static cl_int CL_API_CALL fault_##name parameters                                                \
  {                                                                                                \
    cl_int status = _tarn_layer_fault_strike (FAULT_##name);                                       \
                                                                                                   \
    if (status == CL_SUCCESS)                                                                      \
      status = BEHIND (name) arguments;                                                            \
    note_event (status == CL_SUCCESS, event);                                                      \
    return status;                                                                                 \
  }

#define FAULT_MAP(name, parameters, arguments)                                                     \
  static void *CL_API_CALL fault_##name parameters                                                 \
  {                                                                                                \
    void *address;                                                                                 \
                                                                                                   \
    if (!let_pass (FAULT_##name, errcode_ret))                                                     \
      return NULL;                                                                                 \
    address = BEHIND (name) arguments;                                                             \
    note_event (address != NULL, event);                                                           \
    return address;                                                                                \
  }

#define FAULT_REFERENCE(name, type, kind, n)                                                       \
  static cl_int CL_API_CALL fault_##name (type object)                                             \
  {                                                                                                \
    cl_int status = BEHIND (name) (object);                                                        \
                                                                                                   \
    if (status == CL_SUCCESS)                                                                      \
      _tarn_layer_fault_count (FAULT_##kind, n);                                                   \
    return status;                                                                                 \
  }

FAULT_OBJECT (cl_context, clCreateContext,
              (const cl_context_properties *properties, cl_uint n_devices,
               const cl_device_id *devices,
               void (CL_CALLBACK *notify) (const char *, const void *, size_t, void *),
               void *user_data, cl_int *errcode_ret),
              (properties, n_devices, devices, notify, user_data, errcode_ret))

FAULT_OBJECT (cl_context, clCreateContextFromType,
              (const cl_context_properties *properties, cl_device_type device_type,
               void (CL_CALLBACK *notify) (const char *, const void *, size_t, void *),
               void *user_data, cl_int *errcode_ret),
              (properties, device_type, notify, user_data, errcode_ret))

FAULT_OBJECT (cl_command_queue, clCreateCommandQueue,
              (cl_context context, cl_device_id device, cl_command_queue_properties properties,
               cl_int *errcode_ret),
              (context, device, properties, errcode_ret))

FAULT_OBJECT (cl_command_queue, clCreateCommandQueueWithProperties,
              (cl_context context, cl_device_id device, const cl_queue_properties *properties,
               cl_int *errcode_ret),
              (context, device, properties, errcode_ret))

FAULT_OBJECT (cl_mem, clCreateBuffer,
              (cl_context context, cl_mem_flags flags, size_t size, void *host_ptr,
               cl_int *errcode_ret),
              (context, flags, size, host_ptr, errcode_ret))

FAULT_OBJECT (cl_mem, clCreateBufferWithProperties,
              (cl_context context, const cl_mem_properties *properties, cl_mem_flags flags,
               size_t size, void *host_ptr, cl_int *errcode_ret),
              (context, properties, flags, size, host_ptr, errcode_ret))

FAULT_OBJECT (cl_mem, clCreateImage,
              (cl_context context, cl_mem_flags flags, const cl_image_format *image_format,
               const cl_image_desc *image_desc, void *host_ptr, cl_int *errcode_ret),
              (context, flags, image_format, image_desc, host_ptr, errcode_ret))

FAULT_OBJECT (cl_mem, clCreateImageWithProperties,
              (cl_context context, const cl_mem_properties *properties, cl_mem_flags flags,
               const cl_image_format *image_format, const cl_image_desc *image_desc, void *host_ptr,
               cl_int *errcode_ret),
              (context, properties, flags, image_format, image_desc, host_ptr, errcode_ret))

FAULT_OBJECT (cl_mem, clCreateImage2D,
              (cl_context context, cl_mem_flags flags, const cl_image_format *image_format,
               size_t image_width, size_t image_height, size_t image_row_pitch, void *host_ptr,
               cl_int *errcode_ret),
              (context, flags, image_format, image_width, image_height, image_row_pitch, host_ptr,
               errcode_ret))

FAULT_OBJECT (cl_mem, clCreateImage3D,
              (cl_context context, cl_mem_flags flags, const cl_image_format *image_format,
               size_t image_width, size_t image_height, size_t image_depth, size_t image_row_pitch,
               size_t image_slice_pitch, void *host_ptr, cl_int *errcode_ret),
              (context, flags, image_format, image_width, image_height, image_depth,
               image_row_pitch, image_slice_pitch, host_ptr, errcode_ret))

FAULT_OBJECT (cl_mem, clCreatePipe,
              (cl_context context, cl_mem_flags flags, cl_uint pipe_packet_size,
               cl_uint pipe_max_packets, const cl_pipe_properties *properties, cl_int *errcode_ret),
              (context, flags, pipe_packet_size, pipe_max_packets, properties, errcode_ret))

FAULT_OBJECT (cl_mem, clCreateSubBuffer,
              (cl_mem buffer, cl_mem_flags flags, cl_buffer_create_type buffer_create_type,
               const void *buffer_create_info, cl_int *errcode_ret),
              (buffer, flags, buffer_create_type, buffer_create_info, errcode_ret))

FAULT_OBJECT (cl_sampler, clCreateSampler,
              (cl_context context, cl_bool normalized_coords, cl_addressing_mode addressing_mode,
               cl_filter_mode filter_mode, cl_int *errcode_ret),
              (context, normalized_coords, addressing_mode, filter_mode, errcode_ret))

FAULT_OBJECT (cl_sampler, clCreateSamplerWithProperties,
              (cl_context context, const cl_sampler_properties *sampler_properties,
               cl_int *errcode_ret),
              (context, sampler_properties, errcode_ret))

FAULT_OBJECT (cl_program, clCreateProgramWithSource,
              (cl_context context, cl_uint count, const char **strings, const size_t *lengths,
               cl_int *errcode_ret),
              (context, count, strings, lengths, errcode_ret))

FAULT_OBJECT (cl_program, clCreateProgramWithBinary,
              (cl_context context, cl_uint n_devices, const cl_device_id *devices,
               const size_t *lengths, const unsigned char **binaries, cl_int *binary_status,
               cl_int *errcode_ret),
              (context, n_devices, devices, lengths, binaries, binary_status, errcode_ret))

FAULT_OBJECT (cl_program, clCreateProgramWithBuiltInKernels,
              (cl_context context, cl_uint n_devices, const cl_device_id *devices,
               const char *kernel_names, cl_int *errcode_ret),
              (context, n_devices, devices, kernel_names, errcode_ret))

FAULT_OBJECT (cl_program, clCreateProgramWithIL,
              (cl_context context, const void *il, size_t length, cl_int *errcode_ret),
              (context, il, length, errcode_ret))

FAULT_OBJECT (cl_program, clLinkProgram,
              (cl_context context, cl_uint n_devices, const cl_device_id *devices,
               const char *options, cl_uint num_input_programs, const cl_program *input_programs,
               void (CL_CALLBACK *notify) (cl_program, void *), void *user_data,
               cl_int *errcode_ret),
              (context, n_devices, devices, options, num_input_programs, input_programs, notify,
               user_data, errcode_ret))

FAULT_STATUS (clBuildProgram,
              (cl_program program, cl_uint n_devices, const cl_device_id *devices,
               const char *options, void (CL_CALLBACK *notify) (cl_program, void *),
               void *user_data),
              (program, n_devices, devices, options, notify, user_data))

FAULT_STATUS (clCompileProgram,
              (cl_program program, cl_uint n_devices, const cl_device_id *devices,
               const char *options, cl_uint num_input_headers, const cl_program *input_headers,
               const char **header_include_names, void (CL_CALLBACK *notify) (cl_program, void *),
               void *user_data),
              (program, n_devices, devices, options, num_input_headers, input_headers,
               header_include_names, notify, user_data))

FAULT_OBJECT (cl_kernel, clCreateKernel,
              (cl_program program, const char *kernel_name, cl_int *errcode_ret),
              (program, kernel_name, errcode_ret))

FAULT_OBJECT (cl_kernel, clCloneKernel, (cl_kernel source_kernel, cl_int *errcode_ret),
              (source_kernel, errcode_ret))

FAULT_STATUS (clSetKernelArg,
              (cl_kernel kernel, cl_uint arg_index, size_t arg_size, const void *arg_value),
              (kernel, arg_index, arg_size, arg_value))

FAULT_STATUS (clSetKernelArgSVMPointer,
              (cl_kernel kernel, cl_uint arg_index, const void *arg_value),
              (kernel, arg_index, arg_value))

FAULT_STATUS (clSetKernelExecInfo,
              (cl_kernel kernel, cl_kernel_exec_info param_name, size_t param_value_size,
               const void *param_value),
              (kernel, param_name, param_value_size, param_value))

FAULT_STATUS (clSetEventCallback,
              (cl_event event, cl_int command_exec_callback_type,
               void (CL_CALLBACK *notify) (cl_event, cl_int, void *), void *user_data),
              (event, command_exec_callback_type, notify, user_data))

FAULT_STATUS (clSetMemObjectDestructorCallback,
              (cl_mem memobj, void (CL_CALLBACK *notify) (cl_mem, void *), void *user_data),
              (memobj, notify, user_data))

static cl_event CL_API_CALL
fault_clCreateUserEvent (cl_context context, cl_int *errcode_ret)
{
  cl_event event;

  if (!let_pass (FAULT_clCreateUserEvent, errcode_ret))
    return NULL;
  event = accept (FAULT_clCreateUserEvent, BEHIND (clCreateUserEvent) (context, errcode_ret),
                  errcode_ret);
  if (event != NULL)
    _tarn_layer_fault_count_unset (1);
  return event;
}

static cl_int CL_API_CALL
fault_clSetUserEventStatus (cl_event event, cl_int execution_status)
{
  cl_int status = BEHIND (clSetUserEventStatus) (event, execution_status);

  if (status == CL_SUCCESS)
    _tarn_layer_fault_count_unset (-1);
  return status;
}

static cl_int CL_API_CALL
fault_clWaitForEvents (cl_uint n, const cl_event *events)
{
  cl_int status = _tarn_layer_fault_strike (FAULT_clWaitForEvents);

  if (status == CL_SUCCESS)
    return BEHIND (clWaitForEvents) (n, events);
  _tarn_layer_fault_await (n, events);
  return status;
}

FAULT_STATUS (clFlush, (cl_command_queue queue), (queue))

static cl_int CL_API_CALL
fault_clFinish (cl_command_queue queue)
{
  cl_int status = _tarn_layer_fault_strike (FAULT_clFinish);
  cl_event event;

  if (status == CL_SUCCESS)
    return BEHIND (clFinish) (queue);
  if (BEHIND (clEnqueueMarkerWithWaitList) (queue, 0, NULL, &event) == CL_SUCCESS)
    {
      _tarn_layer_fault_await (1, &event);
      BEHIND (clReleaseEvent) (event);
    }
  return status;
}

FAULT_COMMAND (clEnqueueReadBuffer,
               (cl_command_queue queue, cl_mem buffer, cl_bool blocking_read, size_t offset,
                size_t size, void *ptr, cl_uint n_events, const cl_event *events, cl_event *event),
               (queue, buffer, blocking_read, offset, size, ptr, n_events, events, event))

FAULT_COMMAND (clEnqueueReadBufferRect,
               (cl_command_queue queue, cl_mem buffer, cl_bool blocking_read,
                const size_t *buffer_origin, const size_t *host_origin, const size_t *region,
                size_t buffer_row_pitch, size_t buffer_slice_pitch, size_t host_row_pitch,
                size_t host_slice_pitch, void *ptr, cl_uint n_events, const cl_event *events,
                cl_event *event),
               (queue, buffer, blocking_read, buffer_origin, host_origin, region, buffer_row_pitch,
                buffer_slice_pitch, host_row_pitch, host_slice_pitch, ptr, n_events, events, event))

FAULT_COMMAND (clEnqueueWriteBuffer,
               (cl_command_queue queue, cl_mem buffer, cl_bool blocking_write, size_t offset,
                size_t size, const void *ptr, cl_uint n_events, const cl_event *events,
                cl_event *event),
               (queue, buffer, blocking_write, offset, size, ptr, n_events, events, event))

FAULT_COMMAND (clEnqueueWriteBufferRect,
               (cl_command_queue queue, cl_mem buffer, cl_bool blocking_write,
                const size_t *buffer_origin, const size_t *host_origin, const size_t *region,
                size_t buffer_row_pitch, size_t buffer_slice_pitch, size_t host_row_pitch,
                size_t host_slice_pitch, const void *ptr, cl_uint n_events, const cl_event *events,
                cl_event *event),
               (queue, buffer, blocking_write, buffer_origin, host_origin, region, buffer_row_pitch,
                buffer_slice_pitch, host_row_pitch, host_slice_pitch, ptr, n_events, events, event))

FAULT_COMMAND (clEnqueueFillBuffer,
               (cl_command_queue queue, cl_mem buffer, const void *pattern, size_t pattern_size,
                size_t offset, size_t size, cl_uint n_events, const cl_event *events,
                cl_event *event),
               (queue, buffer, pattern, pattern_size, offset, size, n_events, events, event))

FAULT_COMMAND (clEnqueueCopyBuffer,
               (cl_command_queue queue, cl_mem src_buffer, cl_mem dst_buffer, size_t src_offset,
                size_t dst_offset, size_t size, cl_uint n_events, const cl_event *events,
                cl_event *event),
               (queue, src_buffer, dst_buffer, src_offset, dst_offset, size, n_events, events,
                event))

FAULT_COMMAND (clEnqueueCopyBufferRect,
               (cl_command_queue queue, cl_mem src_buffer, cl_mem dst_buffer,
                const size_t *src_origin, const size_t *dst_origin, const size_t *region,
                size_t src_row_pitch, size_t src_slice_pitch, size_t dst_row_pitch,
                size_t dst_slice_pitch, cl_uint n_events, const cl_event *events, cl_event *event),
               (queue, src_buffer, dst_buffer, src_origin, dst_origin, region, src_row_pitch,
                src_slice_pitch, dst_row_pitch, dst_slice_pitch, n_events, events, event))

FAULT_COMMAND (clEnqueueReadImage,
               (cl_command_queue queue, cl_mem image, cl_bool blocking_read, const size_t *origin,
                const size_t *region, size_t row_pitch, size_t slice_pitch, void *ptr,
                cl_uint n_events, const cl_event *events, cl_event *event),
               (queue, image, blocking_read, origin, region, row_pitch, slice_pitch, ptr, n_events,
                events, event))

FAULT_COMMAND (clEnqueueWriteImage,
               (cl_command_queue queue, cl_mem image, cl_bool blocking_write, const size_t *origin,
                const size_t *region, size_t input_row_pitch, size_t input_slice_pitch,
                const void *ptr, cl_uint n_events, const cl_event *events, cl_event *event),
               (queue, image, blocking_write, origin, region, input_row_pitch, input_slice_pitch,
                ptr, n_events, events, event))

FAULT_COMMAND (clEnqueueFillImage,
               (cl_command_queue queue, cl_mem image, const void *fill_color, const size_t *origin,
                const size_t *region, cl_uint n_events, const cl_event *events, cl_event *event),
               (queue, image, fill_color, origin, region, n_events, events, event))

FAULT_COMMAND (clEnqueueCopyImage,
               (cl_command_queue queue, cl_mem src_image, cl_mem dst_image,
                const size_t *src_origin, const size_t *dst_origin, const size_t *region,
                cl_uint n_events, const cl_event *events, cl_event *event),
               (queue, src_image, dst_image, src_origin, dst_origin, region, n_events, events,
                event))

FAULT_COMMAND (clEnqueueCopyImageToBuffer,
               (cl_command_queue queue, cl_mem src_image, cl_mem dst_buffer,
                const size_t *src_origin, const size_t *region, size_t dst_offset, cl_uint n_events,
                const cl_event *events, cl_event *event),
               (queue, src_image, dst_buffer, src_origin, region, dst_offset, n_events, events,
                event))

FAULT_COMMAND (clEnqueueCopyBufferToImage,
               (cl_command_queue queue, cl_mem src_buffer, cl_mem dst_image, size_t src_offset,
                const size_t *dst_origin, const size_t *region, cl_uint n_events,
                const cl_event *events, cl_event *event),
               (queue, src_buffer, dst_image, src_offset, dst_origin, region, n_events, events,
                event))

FAULT_COMMAND (clEnqueueMigrateMemObjects,
               (cl_command_queue queue, cl_uint n_objects, const cl_mem *objects,
                cl_mem_migration_flags flags, cl_uint n_events, const cl_event *events,
                cl_event *event),
               (queue, n_objects, objects, flags, n_events, events, event))

FAULT_MAP (clEnqueueMapBuffer,
           (cl_command_queue queue, cl_mem buffer, cl_bool blocking_map, cl_map_flags map_flags,
            size_t offset, size_t size, cl_uint n_events, const cl_event *events, cl_event *event,
            cl_int *errcode_ret),
           (queue, buffer, blocking_map, map_flags, offset, size, n_events, events, event,
            errcode_ret))

FAULT_MAP (clEnqueueMapImage,
           (cl_command_queue queue, cl_mem image, cl_bool blocking_map, cl_map_flags map_flags,
            const size_t *origin, const size_t *region, size_t *image_row_pitch,
            size_t *image_slice_pitch, cl_uint n_events, const cl_event *events, cl_event *event,
            cl_int *errcode_ret),
           (queue, image, blocking_map, map_flags, origin, region, image_row_pitch,
            image_slice_pitch, n_events, events, event, errcode_ret))

FAULT_COMMAND (clEnqueueUnmapMemObject,
               (cl_command_queue queue, cl_mem memobj, void *mapped_ptr, cl_uint n_events,
                const cl_event *events, cl_event *event),
               (queue, memobj, mapped_ptr, n_events, events, event))

FAULT_COMMAND (clEnqueueNDRangeKernel,
               (cl_command_queue queue, cl_kernel kernel, cl_uint work_dim,
                const size_t *global_work_offset, const size_t *global_work_size,
                const size_t *local_work_size, cl_uint n_events, const cl_event *events,
                cl_event *event),
               (queue, kernel, work_dim, global_work_offset, global_work_size, local_work_size,
                n_events, events, event))

FAULT_COMMAND (clEnqueueTask,
               (cl_command_queue queue, cl_kernel kernel, cl_uint n_events, const cl_event *events,
                cl_event *event),
               (queue, kernel, n_events, events, event))

FAULT_COMMAND (clEnqueueNativeKernel,
               (cl_command_queue queue, void (CL_CALLBACK *notify) (void *), void *args,
                size_t cb_args, cl_uint n_objects, const cl_mem *mem_list,
                const void **args_mem_loc, cl_uint n_events, const cl_event *events,
                cl_event *event),
               (queue, notify, args, cb_args, n_objects, mem_list, args_mem_loc, n_events, events,
                event))

FAULT_COMMAND (clEnqueueMarker, (cl_command_queue queue, cl_event *event), (queue, event))

FAULT_COMMAND (clEnqueueMarkerWithWaitList,
               (cl_command_queue queue, cl_uint n_events, const cl_event *events, cl_event *event),
               (queue, n_events, events, event))

FAULT_COMMAND (clEnqueueBarrierWithWaitList,
               (cl_command_queue queue, cl_uint n_events, const cl_event *events, cl_event *event),
               (queue, n_events, events, event))

FAULT_COMMAND (clEnqueueSVMMemcpy,
               (cl_command_queue queue, cl_bool blocking_copy, void *dst_ptr, const void *src_ptr,
                size_t size, cl_uint n_events, const cl_event *events, cl_event *event),
               (queue, blocking_copy, dst_ptr, src_ptr, size, n_events, events, event))

FAULT_COMMAND (clEnqueueSVMMemFill,
               (cl_command_queue queue, void *svm_ptr, const void *pattern, size_t pattern_size,
                size_t size, cl_uint n_events, const cl_event *events, cl_event *event),
               (queue, svm_ptr, pattern, pattern_size, size, n_events, events, event))

FAULT_COMMAND (clEnqueueSVMMap,
               (cl_command_queue queue, cl_bool blocking_map, cl_map_flags flags, void *svm_ptr,
                size_t size, cl_uint n_events, const cl_event *events, cl_event *event),
               (queue, blocking_map, flags, svm_ptr, size, n_events, events, event))

FAULT_COMMAND (clEnqueueSVMUnmap,
               (cl_command_queue queue, void *svm_ptr, cl_uint n_events, const cl_event *events,
                cl_event *event),
               (queue, svm_ptr, n_events, events, event))

FAULT_COMMAND (clEnqueueSVMMigrateMem,
               (cl_command_queue queue, cl_uint num_svm_pointers, const void **svm_pointers,
                const size_t *sizes, cl_mem_migration_flags flags, cl_uint n_events,
                const cl_event *events, cl_event *event),
               (queue, num_svm_pointers, svm_pointers, sizes, flags, n_events, events, event))

FAULT_STATUS (clEnqueueBarrier, (cl_command_queue queue), (queue))

FAULT_STATUS (clEnqueueWaitForEvents,
              (cl_command_queue queue, cl_uint num_events, const cl_event *event_list),
              (queue, num_events, event_list))

FAULT_REFERENCE (clRetainContext, cl_context, CONTEXT, 1)
FAULT_REFERENCE (clReleaseContext, cl_context, CONTEXT, -1)
FAULT_REFERENCE (clRetainCommandQueue, cl_command_queue, COMMAND_QUEUE, 1)
FAULT_REFERENCE (clReleaseCommandQueue, cl_command_queue, COMMAND_QUEUE, -1)
FAULT_REFERENCE (clRetainSampler, cl_sampler, SAMPLER, 1)
FAULT_REFERENCE (clReleaseSampler, cl_sampler, SAMPLER, -1)
FAULT_REFERENCE (clRetainProgram, cl_program, PROGRAM, 1)
FAULT_REFERENCE (clReleaseProgram, cl_program, PROGRAM, -1)
FAULT_REFERENCE (clRetainKernel, cl_kernel, KERNEL, 1)
FAULT_REFERENCE (clReleaseKernel, cl_kernel, KERNEL, -1)
FAULT_REFERENCE (clRetainEvent, cl_event, EVENT, 1)
FAULT_REFERENCE (clReleaseEvent, cl_event, EVENT, -1)

/* Functions for OpenCL calls that this file's macros cannot define */

static cl_int CL_API_CALL
fault_clRetainMemObject (cl_mem object)
{
  cl_int status = BEHIND (clRetainMemObject) (object);

  if (status != CL_SUCCESS)
    return status;
  _tarn_layer_fault_retain (object);
  _tarn_layer_fault_count (FAULT_MEMORY, 1);
  return CL_SUCCESS;
}

static cl_int CL_API_CALL
fault_clReleaseMemObject (cl_mem object)
{
  gboolean is_known = _tarn_layer_fault_release (object);
  cl_int status = BEHIND (clReleaseMemObject) (object);

  if (status == CL_SUCCESS)
    _tarn_layer_fault_count (FAULT_MEMORY, -1);
  else if (is_known)
    _tarn_layer_fault_restore (object);
  return status;
}

static cl_int CL_API_CALL
fault_clCreateKernelsInProgram (cl_program program, cl_uint n_kernels, cl_kernel *kernels,
                                cl_uint *n_kernels_ret)
{
  cl_int status = _tarn_layer_fault_strike (FAULT_clCreateKernelsInProgram);
  cl_uint n = 0;

  if (status == CL_SUCCESS)
    status = BEHIND (clCreateKernelsInProgram) (program, n_kernels, kernels, &n);
  if (status != CL_SUCCESS)
    return status;
  if (kernels != NULL)
    _tarn_layer_fault_count (FAULT_KERNEL, (gint) n);
  if (n_kernels_ret != NULL)
    *n_kernels_ret = n;
  return CL_SUCCESS;
}

static void *CL_API_CALL
fault_clSVMAlloc (cl_context context, cl_svm_mem_flags flags, size_t size, cl_uint alignment)
{
  void *address = NULL;

  if (let_pass (FAULT_clSVMAlloc, NULL))
    address = BEHIND (clSVMAlloc) (context, flags, size, alignment);
  if (address == NULL || _tarn_layer_fault_charge_svm (address, size))
    return address;
  _tarn_layer_fault_note_refusal (FAULT_clSVMAlloc);
  count_failure (FAULT_clSVMAlloc, CL_OUT_OF_RESOURCES);
  BEHIND (clSVMFree) (context, address);
  return NULL;
}

static void CL_API_CALL
fault_clSVMFree (cl_context context, void *address)
{
  _tarn_layer_fault_release_svm (address);
  BEHIND (clSVMFree) (context, address);
}

/* Records that a command frees @n allocations of SVM.  Returns an array of their sizes, as
 * _tarn_layer_fault_release_svm () returns them.  The caller frees the array. */
static gsize *
release_svm (cl_uint n, void *addresses[])
{
  gsize *sizes = g_try_new0 (gsize, n);

  for (cl_uint i = 0; sizes != NULL && i < n; i++)
    sizes[i] = _tarn_layer_fault_release_svm (addresses[i]);
  return sizes;
}

static void
restore_svm (cl_uint n, void *addresses[], const gsize *sizes)
{
  for (cl_uint i = 0; sizes != NULL && i < n; i++)
    if (sizes[i] > 0)
      _tarn_layer_fault_restore_svm (addresses[i], sizes[i]);
}

/* Records that the program no longer has the allocations of SVM that the command frees.  Exception:
 * if the program passes a function @func, that function frees the allocations by clSVMFree (), so
 * fault_clSVMFree () records this. */
static cl_int CL_API_CALL
fault_clEnqueueSVMFree (cl_command_queue queue, cl_uint n, void *addresses[],
                        void (CL_CALLBACK *func) (cl_command_queue, cl_uint, void *[], void *),
                        void *user_data, cl_uint n_events, const cl_event *events, cl_event *event)
{
  cl_int status = _tarn_layer_fault_strike (FAULT_clEnqueueSVMFree);
  cl_uint n_freed = func == NULL && addresses != NULL ? n : 0;
  g_autofree gsize *sizes = NULL;

  if (status != CL_SUCCESS)
    return status;
  sizes = release_svm (n_freed, addresses);
  status
      = BEHIND (clEnqueueSVMFree) (queue, n, addresses, func, user_data, n_events, events, event);
  if (status != CL_SUCCESS)
    restore_svm (n_freed, addresses, sizes);
  note_event (status == CL_SUCCESS, event);
  return status;
}

/* Functions that fill in and search the table of functions */

#define FAULT_COUNTED(F)                                                                           \
  F (clRetainContext)                                                                              \
  F (clReleaseContext)                                                                             \
  F (clRetainCommandQueue)                                                                         \
  F (clReleaseCommandQueue)                                                                        \
  F (clRetainMemObject)                                                                            \
  F (clReleaseMemObject)                                                                           \
  F (clRetainSampler)                                                                              \
  F (clReleaseSampler)                                                                             \
  F (clRetainProgram)                                                                              \
  F (clReleaseProgram)                                                                             \
  F (clRetainKernel)                                                                               \
  F (clReleaseKernel)                                                                              \
  F (clRetainEvent)                                                                                \
  F (clReleaseEvent)                                                                               \
  F (clSetUserEventStatus)                                                                         \
  F (clSVMFree)

#define COVER(name, ...)                                                                           \
  if (dispatch->name == NULL)                                                                      \
    dispatch->name = driver->name;                                                                 \
  _tarn_layer_behind_faults.name = dispatch->name;                                                 \
  if (dispatch->name != NULL)                                                                      \
    dispatch->name = fault_##name;

void
_tarn_layer_faults_cover (cl_icd_dispatch *dispatch, const cl_icd_dispatch *driver)
{
  FAULT_CALLS (COVER)
  FAULT_COUNTED (COVER)
  /* Fault injection does not replace these two functions, but calls them through this table.  It
   * calls the layer's own clGetMemObjectInfo ().  The layer has no clGetEventInfo () of its own, so
   * fault injection calls the driver's. */
  _tarn_layer_behind_faults.clGetMemObjectInfo = dispatch->clGetMemObjectInfo;
  _tarn_layer_behind_faults.clGetEventInfo = driver->clGetEventInfo;
}

#define FIND(own, ...)                                                                             \
  if (g_str_equal (name, #own))                                                                    \
    return (void *) fault_##own;

void *
_tarn_layer_find_fault_call (const gchar *name)
{
  FAULT_CALLS (FIND)
  FAULT_COUNTED (FIND)
  return NULL;
}
