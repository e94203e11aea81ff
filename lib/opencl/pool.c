/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Makes the usual pool of OpenCL buffers.  The pool gets its blocks from a heap.  The heap gets
 * large buffers from the immediate allocator, and divides them into suballocations.  Other
 * functions of this file find a block by its buffer, allocate a block with a copy of the program's
 * bytes, and make a sub-buffer of a block. */

#include <string.h>

#include "common/argument-private.h"
#include "common/heap-pool-private.h"
#include "driver-private.h"
#include "order-private.h"
#include "status-private.h"

TarnPool *
tarn_opencl_pool_new (cl_command_queue queue, cl_mem_flags flags, const TarnPoolOptions *options,
                      GError **error)
{
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  TARN_REFUSE_NULL (queue, NULL);

  return _tarn_pool_new_over_heap (tarn_opencl_immediate_allocator_new (queue, flags, error),
                                   options, error);
}

TarnPool *
tarn_opencl_pool_new_for_device (cl_context context, cl_device_id device, cl_mem_flags flags,
                                 const TarnPoolOptions *options, GError **error)
{
  cl_command_queue queue;
  cl_int status;
  TarnPool *pool;

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  TARN_REFUSE_NULL (context, NULL);
  TARN_REFUSE_NULL (device, NULL);

  if (!_tarn_opencl_load (error))
    return NULL;
  queue = _tarn_cl.clCreateCommandQueue (context, device, 0, &status);
  if (!_tarn_opencl_check (status, "clCreateCommandQueue", error))
    return NULL;
  pool = tarn_opencl_pool_new (queue, flags, options, error);
  _tarn_opencl_report_release ("clReleaseCommandQueue", _tarn_cl.clReleaseCommandQueue (queue));
  return pool;
}

TarnBlock *
tarn_opencl_pool_find (TarnPool *pool, cl_mem buffer)
{
  /* A TarnMemory is a union.  On a 32-bit machine, its pointer has fewer bytes than its address, so
   * set the address to 0 first. */
  TarnMemory memory = { .address = 0 };

  memory.pointer = buffer;
  return tarn_pool_find (pool, memory);
}

static void CL_CALLBACK
free_copy (cl_event event, cl_int state, gpointer copy)
{
  (void) event;
  (void) state;
  g_free (copy);
}

/* Frees @copy when the write that reads it is complete.  Makes later commands on the queue wait for
 * the write, even if the queue is out of order.  @event: the event of the write, which this
 * function releases. */
static gboolean
free_after (cl_command_queue queue, cl_event event, gpointer copy, GError **error)
{
  gboolean is_ordered
      = _tarn_opencl_check_in_order (queue, NULL)
        || _tarn_opencl_check (_tarn_cl.clEnqueueBarrierWithWaitList (queue, 1, &event, NULL),
                               "clEnqueueBarrierWithWaitList", error);

  if (_tarn_cl.clSetEventCallback (event, CL_COMPLETE, free_copy, copy) != CL_SUCCESS)
    {
      _tarn_cl.clWaitForEvents (1, &event);
      g_free (copy);
    }
  _tarn_opencl_report_release ("clReleaseEvent", _tarn_cl.clReleaseEvent (event));
  return is_ordered;
}

/* Writes the program's bytes to a block.  The write reads a copy of the bytes, so that the program
 * may change its own bytes during the write. */
static gboolean
write_copy (TarnBlock *block, gconstpointer bytes, gsize size, cl_command_queue queue,
            GError **error)
{
  TarnMemory memory = tarn_block_get_memory (block);
  gpointer copy = memcpy (g_malloc (size), bytes, size);
  cl_event event;
  gboolean is_written;

  if (_tarn_opencl_is_svm (block))
    is_written = _tarn_opencl_check (
        _tarn_cl.clEnqueueSVMMemcpy (queue, CL_FALSE, memory.pointer, copy, size, 0, NULL, &event),
        "clEnqueueSVMMemcpy", error);
  else
    is_written = _tarn_opencl_check (_tarn_cl.clEnqueueWriteBuffer (queue, memory.pointer, CL_FALSE,
                                                                    0, size, copy, 0, NULL, &event),
                                     "clEnqueueWriteBuffer", error);
  if (is_written)
    return free_after (queue, event, copy, error);
  g_free (copy);
  return FALSE;
}

TarnBlock *
tarn_opencl_pool_allocate_copy (TarnPool *pool, gconstpointer bytes, gsize size,
                                cl_command_queue queue, GError **error)
{
  TarnBlock *block;

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  TARN_REFUSE_NULL (pool, NULL);
  TARN_REFUSE_NULL (queue, NULL);
  g_return_val_if_fail (bytes != NULL || size == 0, NULL);

  block = tarn_opencl_pool_allocate (pool, size, queue, error);
  if (block == NULL || size == 0 || write_copy (block, bytes, size, queue, error))
    return block;
  tarn_block_free (block);
  return NULL;
}

/* Finds the whole buffer from which a sub-buffer was made, and the sub-buffer's offset in the whole
 * buffer.  If @buffer is no sub-buffer, sets *whole to @buffer and *offset to 0. */
static gboolean
get_whole (cl_mem buffer, cl_mem *whole, gsize *offset, GError **error)
{
  cl_mem parent = NULL;

  if (!_tarn_opencl_check (_tarn_cl.clGetMemObjectInfo (buffer, CL_MEM_ASSOCIATED_MEMOBJECT,
                                                        sizeof parent, &parent, NULL),
                           "clGetMemObjectInfo", error)
      || !_tarn_opencl_check (
          _tarn_cl.clGetMemObjectInfo (buffer, CL_MEM_OFFSET, sizeof *offset, offset, NULL),
          "clGetMemObjectInfo", error))
    return FALSE;
  *whole = parent != NULL ? parent : buffer;
  return TRUE;
}

static void CL_CALLBACK
release_buffer (cl_mem sub_buffer, gpointer buffer)
{
  (void) sub_buffer;
  _tarn_cl.clReleaseMemObject (buffer);
}

/* Retains a block's buffer until @sub_buffer, which lies within the block, is destroyed. */
static gboolean
retain_for (cl_mem buffer, cl_mem sub_buffer, GError **error)
{
  if (!_tarn_opencl_check (_tarn_cl.clRetainMemObject (buffer), "clRetainMemObject", error))
    return FALSE;
  if (_tarn_opencl_check (
          _tarn_cl.clSetMemObjectDestructorCallback (sub_buffer, release_buffer, buffer),
          "clSetMemObjectDestructorCallback", error))
    return TRUE;
  _tarn_cl.clReleaseMemObject (buffer);
  return FALSE;
}

/* Makes a sub-buffer of @size bytes that begins @origin bytes after the start of @buffer.  @buffer
 * is a block's buffer.  If it is a sub-buffer itself, makes the new sub-buffer from the whole
 * buffer, because OpenCL allows no sub-buffers of sub-buffers. */
static cl_mem
create_sub_buffer (cl_mem buffer, cl_mem_flags flags, gsize origin, gsize size, GError **error)
{
  cl_buffer_region region = { .size = size };
  cl_mem whole, sub_buffer;
  cl_int status;

  if (!get_whole (buffer, &whole, &region.origin, error))
    return NULL;
  region.origin += origin;
  sub_buffer
      = _tarn_cl.clCreateSubBuffer (whole, flags, CL_BUFFER_CREATE_TYPE_REGION, &region, &status);
  if (status != CL_SUCCESS)
    {
      g_autofree gchar *text
          = g_strdup_printf ("%" G_GSIZE_FORMAT " bytes at %" G_GSIZE_FORMAT
                             " of a block, which is %" G_GSIZE_FORMAT " of its buffer",
                             size, origin, (gsize) region.origin);

      _tarn_opencl_set_error_with_text (error, "clCreateSubBuffer", status, text);
      return NULL;
    }
  if (retain_for (buffer, sub_buffer, error))
    return sub_buffer;
  _tarn_opencl_report_release ("clReleaseMemObject", _tarn_cl.clReleaseMemObject (sub_buffer));
  return NULL;
}

cl_mem
tarn_opencl_block_create_sub_buffer (TarnBlock *block, cl_mem_flags flags, gsize origin, gsize size,
                                     GError **error)
{
  gsize bytes;

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  TARN_REFUSE_NULL (block, NULL);
  g_return_val_if_fail (_tarn_opencl_is_buffer (block), NULL);

  if (!_tarn_opencl_load (error))
    return NULL;
  bytes = tarn_block_get_alloc_size (block);
  if (size > 0 && origin <= bytes && size <= bytes - origin)
    return create_sub_buffer (tarn_opencl_block_get_buffer (block), flags, origin, size, error);
  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
               "a part of %" G_GSIZE_FORMAT " bytes at %" G_GSIZE_FORMAT
               " is not within a block of %" G_GSIZE_FORMAT " bytes",
               size, origin, bytes);
  return NULL;
}
