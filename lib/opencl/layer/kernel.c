/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Kernels of the program: records which of their arguments are buffers from a pool, so that a
 * launch is recorded as a use of these buffers.  The layer takes an argument for a buffer if the
 * argument has the same bytes as a buffer's handle.  The bytes may be equal by chance.  The only
 * effect is that this buffer, after its release, waits for a command that does not use it.  A
 * kernel's record has a reference to a buffer's record, but none to the buffer, because kernels in
 * OpenCL do not retain their arguments (OpenCL 3.0 specification, section 5.9.2,
 * clSetKernelArg). */

#include "layer-private.h"

#include <string.h>

/* The record of a kernel of the program's. */
typedef struct
{
  LayerObject base;

  TarnMutex lock; /* guards @buffers */
  /* For each argument of the kernel that is a buffer, a reference to its LayerBuffer.  NULL for
   * each other argument. */
  GPtrArray *buffers;
} LayerKernel;

static void
kernel_finalize (gpointer record)
{
  LayerKernel *self = record;

  g_ptr_array_unref (self->buffers);
  _tarn_mutex_clear (&self->lock);
  g_free (self);
}

/* Makes the record of a kernel that the driver has made.  @handle: the driver's handle, or NULL if
 * the driver failed.  If it is NULL, makes no record.  Returns @handle. */
static cl_kernel
add_kernel (cl_kernel handle)
{
  LayerKernel *self;

  if (handle == NULL)
    return NULL;
  self = g_new0 (LayerKernel, 1);
  self->base = (LayerObject){ LAYER_KERNEL, 1, 1, handle, kernel_finalize };
  _tarn_mutex_init (&self->lock);
  self->buffers = g_ptr_array_new_with_free_func (_tarn_layer_unref);
  _tarn_layer_list (self);
  _tarn_layer_unref (self);
  return handle;
}

/* Functions that create OpenCL programs */

/* Returns TRUE if the source of an OpenCL program contains image1d_buffer_t, the type of images
 * that are made of buffers. */
static gboolean
names_images_of_buffers (guint n, const gchar *const *strings, const size_t *lengths)
{
  for (guint i = 0; strings != NULL && i < n; i++)
    {
      gssize length = lengths != NULL && lengths[i] > 0 ? (gssize) lengths[i] : -1;

      if (strings[i] != NULL && g_strstr_len (strings[i], length, "image1d_buffer_t") != NULL)
        return TRUE;
    }
  return FALSE;
}

/* Checks if the source uses images that are made of buffers, and then passes
 * clCreateProgramWithSource () on to the driver.  If the source uses such images, and the driver
 * cannot make images of sub-buffers, all new buffers of the context come from the driver from now
 * on, not from a pool. */
cl_program CL_API_CALL
layer_clCreateProgramWithSource (cl_context handle, cl_uint n, const char **strings,
                                 const size_t *lengths, cl_int *status)
{
  LAYER_AUTO LayerContext *context = _tarn_layer_find (LAYER_CONTEXT, handle);

  if (context != NULL && names_images_of_buffers (n, (const gchar *const *) strings, lengths)
      && !_tarn_layer_ask_images (context))
    __atomic_store_n (&context->wants_images, TRUE, __ATOMIC_RELEASE);
  return _tarn_layer_driver->clCreateProgramWithSource (handle, n, strings, lengths, status);
}

/* Functions that create and free kernels, set their arguments and launch them */

cl_kernel CL_API_CALL
layer_clCreateKernel (cl_program program, const char *name, cl_int *status)
{
  return add_kernel (_tarn_layer_driver->clCreateKernel (program, name, status));
}

cl_int CL_API_CALL
layer_clCreateKernelsInProgram (cl_program program, cl_uint n, cl_kernel *kernels, cl_uint *n_ret)
{
  cl_uint n_made = 0;
  cl_int status = _tarn_layer_driver->clCreateKernelsInProgram (program, n, kernels, &n_made);

  for (cl_uint i = 0; status == CL_SUCCESS && kernels != NULL && i < MIN (n, n_made); i++)
    add_kernel (kernels[i]);
  if (n_ret != NULL && status == CL_SUCCESS)
    *n_ret = n_made;
  return status;
}

/* Returns an array with a reference to the buffer of each argument, or NULL for an argument that is
 * no buffer. */
static GPtrArray *
list_buffers (LayerKernel *self)
{
  TARN_LOCKED (&self->lock);
  GPtrArray *buffers = g_ptr_array_new_full (self->buffers->len, _tarn_layer_unref);

  for (guint i = 0; i < self->buffers->len; i++)
    {
      gpointer buffer = g_ptr_array_index (self->buffers, i);

      g_ptr_array_add (buffers, buffer != NULL ? _tarn_layer_ref (buffer) : NULL);
    }
  return buffers;
}

/* Sets the buffer of an argument.  @buffer: NULL if the argument is no buffer. */
static void
set_buffer (LayerKernel *self, guint index, LayerBuffer *buffer)
{
  LayerBuffer *older = NULL;

  {
    TARN_LOCKED (&self->lock);

    if (index >= self->buffers->len && buffer != NULL)
      g_ptr_array_set_size (self->buffers, (gint) index + 1);
    if (index < self->buffers->len)
      {
        older = g_ptr_array_index (self->buffers, index);
        g_ptr_array_index (self->buffers, index) = buffer != NULL ? _tarn_layer_ref (buffer) : NULL;
      }
  }
  _tarn_layer_unref (older);
}

cl_kernel CL_API_CALL
layer_clCloneKernel (cl_kernel source, cl_int *status)
{
  LAYER_AUTO LayerKernel *original = _tarn_layer_find (LAYER_KERNEL, source);
  cl_kernel handle = add_kernel (_tarn_layer_driver->clCloneKernel (source, status));
  LAYER_AUTO LayerKernel *clone = handle != NULL ? _tarn_layer_find (LAYER_KERNEL, handle) : NULL;

  if (original != NULL && clone != NULL)
    {
      g_autoptr (GPtrArray) buffers = list_buffers (original);

      for (guint i = 0; i < buffers->len; i++)
        set_buffer (clone, i, g_ptr_array_index (buffers, i));
    }
  return handle;
}

cl_int CL_API_CALL
layer_clRetainKernel (cl_kernel handle)
{
  cl_int status = _tarn_layer_driver->clRetainKernel (handle);
  LAYER_AUTO LayerKernel *self = _tarn_layer_find (LAYER_KERNEL, handle);

  if (self != NULL && status == CL_SUCCESS)
    _tarn_layer_retain (self);
  return status;
}

cl_int CL_API_CALL
layer_clReleaseKernel (cl_kernel handle)
{
  LAYER_AUTO LayerKernel *self = _tarn_layer_find (LAYER_KERNEL, handle);

  if (self != NULL && _tarn_layer_release (self))
    _tarn_layer_unlist (self);
  return _tarn_layer_driver->clReleaseKernel (handle);
}

cl_int CL_API_CALL
layer_clSetKernelArg (cl_kernel handle, cl_uint index, size_t size, const void *value)
{
  cl_int status = _tarn_layer_driver->clSetKernelArg (handle, index, size, value);
  LAYER_AUTO LayerKernel *self = NULL;
  LAYER_AUTO LayerBuffer *buffer = NULL;

  if (status != CL_SUCCESS)
    return status;
  self = _tarn_layer_find (LAYER_KERNEL, handle);
  if (self == NULL)
    return status;
  if (size == sizeof (cl_mem) && value != NULL)
    {
      cl_mem object;

      memcpy (&object, value, sizeof object);
      buffer = object != NULL ? _tarn_layer_find (LAYER_BUFFER, object) : NULL;
      if (buffer == NULL)
        _tarn_layer_debug_report_use (object);
    }
  set_buffer (self, index, buffer);
  return status;
}

/* Prepares the launch of a kernel: takes references to the buffers among the kernel's arguments, so
 * that they live until the layer has recorded the launch. */
static void
begin_launch (LayerCommand *command, cl_command_queue queue, cl_kernel kernel, cl_event **event)
{
  LAYER_AUTO LayerKernel *self = _tarn_layer_find (LAYER_KERNEL, kernel);
  g_autoptr (GPtrArray) listed = self != NULL ? list_buffers (self) : NULL;
  LayerBuffer **retained = listed != NULL ? g_new (LayerBuffer *, listed->len) : NULL;
  guint n = 0;

  for (guint i = 0; listed != NULL && i < listed->len; i++)
    {
      LayerBuffer *buffer = g_ptr_array_index (listed, i);

      if (buffer != NULL && _tarn_layer_try_retain (buffer))
        retained[n++] = _tarn_layer_ref (buffer);
      else if (buffer != NULL)
        _tarn_layer_debug_report_use (buffer->base.handle);
    }
  _tarn_layer_command_begin_retained (command, queue, retained, n, event);
}

cl_int CL_API_CALL
layer_clEnqueueNDRangeKernel (cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                              const size_t *offset, const size_t *global, const size_t *local,
                              cl_uint n_waits, const cl_event *waits, cl_event *event)
{
  LayerCommand command;
  cl_int status;

  begin_launch (&command, queue, kernel, &event);
  status = _tarn_layer_driver->clEnqueueNDRangeKernel (queue, kernel, dimensions, offset, global,
                                                       local, n_waits, waits, event);
  _tarn_layer_command_end (&command, status, FALSE);
  return status;
}

cl_int CL_API_CALL
layer_clEnqueueTask (cl_command_queue queue, cl_kernel kernel, cl_uint n_waits,
                     const cl_event *waits, cl_event *event)
{
  LayerCommand command;
  cl_int status;

  begin_launch (&command, queue, kernel, &event);
  status = _tarn_layer_driver->clEnqueueTask (queue, kernel, n_waits, waits, event);
  _tarn_layer_command_end (&command, status, FALSE);
  return status;
}
