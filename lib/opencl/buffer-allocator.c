/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Allocators of OpenCL buffers (cl_mem).  When clCreateBuffer () succeeds, the driver may not have
 * allocated memory on any device yet.  It may allocate the memory later, when a command uses the
 * buffer.  The command then fails if the device has no memory (OpenCL 3.0 specification, section
 * 5.2.1, "Creating Buffer Objects").  The immediate allocator prevents this: it moves each new
 * buffer to the device of the allocator's queue at once.  The deferred allocator does not. */

#include "common/argument-private.h"
#include "common/other-block-private.h"
#include "contents-private.h"
#include "device-private.h"
#include "driver-private.h"
#include "memory-object-private.h"
#include "order-private.h"
#include "status-private.h"

/* The flags that may be passed to clCreateSubBuffer ().  A sub-buffer inherits its buffer's other
 * flags (OpenCL 3.0 specification, section 5.2.1, clCreateSubBuffer). */
#define PART_FLAGS                                                                                 \
  (CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY | CL_MEM_HOST_WRITE_ONLY               \
   | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS)

/* The user data of an allocator of buffers; constant. */
typedef struct
{
  /* must be the first field (order-private.h); home.queue is NULL in the deferred allocator */
  TarnOpenclHome home;
  cl_mem_flags flags;
  /* the properties of the driver of the queue's device; all 0 in the deferred allocator */
  TarnOpenclTraits traits;
} BufferAllocator;

/* Makes the driver allocate a new buffer's memory, by a command that leaves the content undefined.
 * Does not wait for the command: the call that enqueues it already fails if there is no memory. */
static gboolean
make_resident (const BufferAllocator *self, cl_mem buffer, gsize size, GError **error)
{
  static const guint8 zeros[4]; /* static, because the array must outlive the command */
  gsize few = MIN (size, sizeof zeros);
  const gchar *call = NULL;
  cl_int status = CL_SUCCESS;

  switch (self->traits.command)
    {
    case TARN_OPENCL_MIGRATE:
      call = "clEnqueueMigrateMemObjects";
      status = _tarn_cl.clEnqueueMigrateMemObjects (
          self->home.queue, 1, &buffer, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, NULL, NULL);
      break;
    case TARN_OPENCL_FILL:
      call = "clEnqueueFillBuffer";
      status = _tarn_cl.clEnqueueFillBuffer (self->home.queue, buffer, zeros, 1, 0, few, 0, NULL,
                                             NULL);
      break;
    case TARN_OPENCL_WRITE:
      call = "clEnqueueWriteBuffer";
      status = _tarn_cl.clEnqueueWriteBuffer (self->home.queue, buffer, CL_FALSE, 0, few, zeros, 0,
                                              NULL, NULL);
      break;
    }
  if (status == CL_SUCCESS)
    return TRUE;
  _tarn_opencl_set_error_for_size (error, call, status, size);
  return FALSE;
}

/* Returns the most bytes that clCreateBuffer () accepts: the greatest CL_DEVICE_MAX_MEM_ALLOC_SIZE
 * of the context's devices.  Returns 0 if no device states it. */
static cl_ulong
get_max_size (cl_context context)
{
  g_autoptr (GArray) devices = _tarn_opencl_list_devices (context, NULL);
  cl_ulong max = 0, size;

  for (guint i = 0; devices != NULL && i < devices->len; i++)
    if (_tarn_opencl_get_device_value (g_array_index (devices, cl_device_id, i),
                                       CL_DEVICE_MAX_MEM_ALLOC_SIZE, &size, sizeof size, NULL))
      max = MAX (max, size);
  return max;
}

static void
set_create_error (const BufferAllocator *self, cl_int status, gsize size, GError **error)
{
  cl_ulong max = status == CL_INVALID_BUFFER_SIZE ? get_max_size (self->home.context) : 0;
  g_autofree gchar *text = NULL;

  if (max == 0)
    {
      _tarn_opencl_set_error_for_size (error, "clCreateBuffer", status, size);
      return;
    }
  text = g_strdup_printf ("%" G_GSIZE_FORMAT " bytes, where CL_DEVICE_MAX_MEM_ALLOC_SIZE is "
                          "%" G_GUINT64_FORMAT,
                          size, (guint64) max);
  _tarn_opencl_set_error_with_text (error, "clCreateBuffer", status, text);
}

static gboolean
buffer_allocate (gpointer user_data, gsize size, TarnMemory *memory, GError **error)
{
  BufferAllocator *self = user_data;
  cl_int status;
  cl_mem buffer;

  /* OpenCL has no empty buffers, so a block of 0 bytes has no buffer. */
  if (size == 0)
    return TRUE;

  buffer = _tarn_cl.clCreateBuffer (self->home.context, self->flags, size, NULL, &status);
  if (status != CL_SUCCESS)
    {
      set_create_error (self, status, size, error);
      return FALSE;
    }
  if (self->home.queue != NULL && !make_resident (self, buffer, size, error))
    {
      _tarn_opencl_release_memory (buffer, "a buffer", size);
      return FALSE;
    }
  memory->pointer = buffer;
  return TRUE;
}

static void
buffer_free (gpointer user_data, TarnMemory memory, gsize size)
{
  (void) user_data;
  if (memory.pointer != NULL)
    _tarn_opencl_release_memory (memory.pointer, "a buffer", size);
}

static void
set_part_error (cl_int status, gsize offset, gsize size, GError **error)
{
  g_autofree gchar *text
      = g_strdup_printf ("%" G_GSIZE_FORMAT " bytes at offset %" G_GSIZE_FORMAT, size, offset);

  _tarn_opencl_set_error_with_text (error, "clCreateSubBuffer", status, text);
}

/* Makes a sub-buffer.  Does not move it to a device, because the immediate allocator has already
 * moved the whole buffer.
 *
 * Commands, kernels and queries treat a sub-buffer like any buffer, except that:
 *
 * - it cannot have sub-buffers: clCreateSubBuffer () returns CL_INVALID_MEM_OBJECT;
 * - queries show the whole buffer (CL_MEM_ASSOCIATED_MEMOBJECT) and the offset in it
 *   (CL_MEM_OFFSET);
 * - it is aligned only to CL_DEVICE_MEM_BASE_ADDR_ALIGN, and a new buffer is often aligned better;
 * - if one command uses the sub-buffer while another uses the whole buffer, the results are
 *   undefined unless both commands only read;
 * - if a command uses the sub-buffer on a device that shares no memory with the buffer's device,
 *   the driver may move the whole buffer to the other device.  PoCL before 7.0 does so.
 *   According to its source, PoCL then waits only for the latest command on the whole buffer, not
 *   for earlier commands on other queues of the same device. */
static gboolean
buffer_part_new (gpointer user_data, TarnMemory memory, gsize offset, gsize size, TarnMemory *part,
                 GError **error)
{
  const BufferAllocator *self = user_data;
  const cl_buffer_region region = { offset, size };
  cl_int status;
  cl_mem buffer;

  /* OpenCL has no empty sub-buffers, so a block of 0 bytes has no sub-buffer. */
  if (size == 0)
    return TRUE;
  buffer = _tarn_cl.clCreateSubBuffer (memory.pointer, self->flags & PART_FLAGS,
                                       CL_BUFFER_CREATE_TYPE_REGION, &region, &status);
  if (status != CL_SUCCESS)
    {
      set_part_error (status, offset, size, error);
      return FALSE;
    }
  part->pointer = buffer;
  return TRUE;
}

static gboolean
buffer_is_retained (gpointer user_data, TarnMemory memory)
{
  const BufferAllocator *self = user_data;

  return _tarn_opencl_is_retained (memory.pointer, &self->traits);
}

static gboolean
buffer_read (gpointer user_data, TarnMemory memory, gsize offset, gsize size, gpointer bytes,
             GError **error)
{
  const BufferAllocator *self = user_data;

  return _tarn_opencl_read_buffer (&self->home, self->flags, memory.pointer, offset, size, bytes,
                                   error);
}

static gboolean
buffer_fill (gpointer user_data, TarnMemory memory, gsize offset, gsize size, guint8 byte,
             GError **error)
{
  const BufferAllocator *self = user_data;

  return _tarn_opencl_fill_buffer (&self->home, memory.pointer, offset, size, byte, error);
}

static void
buffer_allocator_free (gpointer user_data)
{
  BufferAllocator *self = user_data;

  _tarn_opencl_home_clear (&self->home);
  g_free (self);
}

/* Fails if a device is older than OpenCL 1.1, and so has no sub-buffers. */
static gboolean
check_version (cl_device_id device, GError **error)
{
  guint major, minor;

  if (!_tarn_opencl_get_device_version (device, &major, &minor, error))
    return FALSE;
  if (major > 1 || minor >= 1)
    return TRUE;
  g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
               "OpenCL %u.%u: buffers of this device need OpenCL 1.1", major, minor);
  return FALSE;
}

/* Finds the alignment of sub-buffers in bytes (OpenCL states it in bits): the greatest alignment
 * that any device of the context needs.  clCreateSubBuffer () accepts a smaller alignment if it
 * suffices for one of the devices, but commands on another device's queue would then fail.  Fails
 * if a device has no sub-buffers. */
static gboolean
find_part_alignment (cl_context context, gsize *alignment, GError **error)
{
  g_autoptr (GArray) devices = _tarn_opencl_list_devices (context, error);
  cl_uint max = 0, bits;

  if (devices == NULL)
    return FALSE;
  for (guint i = 0; i < devices->len; i++)
    {
      cl_device_id device = g_array_index (devices, cl_device_id, i);

      if (!check_version (device, error)
          || !_tarn_opencl_get_device_value (device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, &bits,
                                             sizeof bits, error))
        return FALSE;
      max = MAX (max, bits);
    }
  /* lib/core accepts only powers of two, so round the alignment up to a power of two. */
  for (*alignment = 1; *alignment < max / 8; *alignment *= 2)
    ;
  return TRUE;
}

/* Makes an allocator.  Tarn may release a buffer or a sub-buffer before the commands that use it
 * are done, because OpenCL keeps the object until then (OpenCL 3.0 specification, section 5.5.1,
 * clReleaseMemObject).  OpenCL also keeps a buffer until its last sub-buffer is destroyed. */
static TarnAllocator *
buffer_allocator_new (const gchar *name, const BufferAllocator *template, GError **error)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  BufferAllocator made = *template;
  BufferAllocator *self;

  if (!find_part_alignment (template->home.context, &ops.part_alignment, error)
      || !_tarn_opencl_home_init (&made.home, template->home.context, template->home.queue, error))
    return NULL;
  self = g_new (BufferAllocator, 1);
  *self = made;
  ops.name = name;
  ops.deferred = made.home.queue == NULL;
  ops.allocate = buffer_allocate;
  ops.free = buffer_free;
  ops.frees_in_order = TRUE;
  ops.part_new = buffer_part_new;
  ops.part_release = buffer_free;
  if (made.traits.trusts_parts)
    ops.is_retained = buffer_is_retained;
  ops.read = buffer_read;
  ops.get_memory = _tarn_opencl_get_memory;
  ops.fill = buffer_fill;
  _tarn_opencl_set_order (&ops);
  return tarn_allocator_new (&ops, self, buffer_allocator_free);
}

TarnAllocator *
tarn_opencl_deferred_allocator_new (cl_context context, cl_mem_flags flags, GError **error)
{
  BufferAllocator template
      = { .home = { context, NULL }, .flags = _tarn_opencl_add_access (flags) };

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  TARN_REFUSE_NULL (context, NULL);

  if (!_tarn_opencl_load (error) || !_tarn_opencl_check_flags (flags, error))
    return NULL;
  return buffer_allocator_new ("opencl-deferred", &template, error);
}

TarnAllocator *
tarn_opencl_immediate_allocator_new (cl_command_queue queue, cl_mem_flags flags, GError **error)
{
  BufferAllocator template = { .home = { NULL, queue }, .flags = _tarn_opencl_add_access (flags) };
  cl_device_id device;

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  TARN_REFUSE_NULL (queue, NULL);

  if (!_tarn_opencl_load (error) || !_tarn_opencl_check_flags (flags, error)
      || !_tarn_opencl_get_queue_value (queue, CL_QUEUE_CONTEXT, &template.home.context,
                                        sizeof template.home.context, error)
      || !_tarn_opencl_get_queue_value (queue, CL_QUEUE_DEVICE, &device, sizeof device, error)
      || !_tarn_opencl_find_traits (device, &template.traits, error))
    return NULL;
  return buffer_allocator_new ("opencl-immediate", &template, error);
}

gboolean
_tarn_opencl_is_buffer (const TarnBlock *block)
{
  return tarn_allocator_is_of (tarn_block_get_allocator (block), buffer_free);
}

cl_mem
tarn_opencl_block_get_buffer (const TarnBlock *block)
{
  g_return_val_if_fail (block != NULL, NULL);
  if (!_tarn_opencl_is_buffer (block))
    {
      _tarn_report_other_block (G_STRFUNC, block, "'opencl-deferred' or 'opencl-immediate'");
      return NULL;
    }

  return tarn_block_get_memory (block).pointer;
}
