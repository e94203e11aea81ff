/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The pool that most programs want, and functions for its blocks, by handle. */

#include <string.h>

#include "common/argument-private.h"
#include "common/heap-pool-private.h"
#include "driver-private.h"
#include "order-private.h"
#include "status-private.h"

/**
 * Makes a pool of buffers as most programs want it. It is over a heap, which is over
 * tarn_opencl_immediate_allocator_new(), and has little more than what is in use, whatever sizes
 * the program asks for, and seldom calls the driver.
 *
 * Its buffers are sub-buffers of larger ones. To kernels and commands they are buffers as any
 * other; but clCreateSubBuffer makes none of them, their CL_MEM_ASSOCIATED_MEMOBJECT is the larger
 * buffer, and they are aligned to CL_DEVICE_MEM_BASE_ADDR_ALIGN only. Some drivers fail at copies
 * between sub-buffers and images (PoCL 3.1 to 6.0, also at clEnqueueCopyBufferRect; rusticl of Mesa
 * 22.3). For a program to which that matters, TARN_POOL_WHOLE_BUFFERS makes a pool straight over
 * the allocator, and tarn_opencl_block_create_sub_buffer() makes a part of any block. In a context
 * of several devices name a queue in each request (tarn_opencl_pool_allocate()): then no buffer has
 * blocks of two queues in it, which some drivers would move as a whole.
 *
 * @param queue    a queue of the device; retained, as its context is. It makes memory ready.
 * @param flags    for clCreateBuffer, as tarn_opencl_immediate_allocator_new() takes them; 0 for
 *                 CL_MEM_READ_WRITE
 * @param options  nullable: the defaults; start from TARN_POOL_OPTIONS_INIT. A limit is the
 *                 heap's, too: no more is taken of the driver. tarn_pool_set_limit_bytes()
 *                 changes both. TarnPoolOptions.heap has other options of the heap.
 * @param error    return location, or NULL: as tarn_opencl_immediate_allocator_new(),
 *                 tarn_heap_allocator_new() and tarn_pool_new()
 * @return (transfer full): an empty pool, which any thread may use, or NULL with @p error set
 * @since 0.1
 */
TarnPool *
tarn_opencl_pool_new (cl_command_queue queue, cl_mem_flags flags, const TarnPoolOptions *options,
                      GError **error)
{
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  TARN_REFUSE_NULL (queue, NULL);

  return _tarn_pool_new_over_heap (tarn_opencl_immediate_allocator_new (queue, flags, error),
                                   options, error);
}

/**
 * Makes a pool for a device, without a queue of the program's. Otherwise it is as
 * tarn_opencl_pool_new(). The pool has a queue of its own, on which it makes fresh memory ready:
 * other queues wait for that when they first use it.
 *
 * @param context  where buffers belong; retained
 * @param device   a device of the context, where memory is to be
 * @param flags    as for tarn_opencl_pool_new()
 * @param options  as for tarn_opencl_pool_new()
 * @param error    return location, or NULL: as tarn_opencl_pool_new(); TARN_OPENCL_ERROR where no
 *                 queue can be made, such as for a device of another context
 * @return (transfer full): an empty pool, which any thread may use, or NULL with @p error set
 * @since 0.1
 */
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

/**
 * Finds the block in use that has a buffer. It is tarn_pool_find() for a cl_mem.
 *
 * @param pool    a pool with TARN_POOL_FINDABLE, over an allocator of buffers
 * @param buffer  the result of tarn_opencl_block_get_buffer()
 * @return (transfer none): the block, or NULL where no block in use has that buffer; valid until
 *         tarn_block_free(). Any thread may call it.
 * @since 0.1
 */
TarnBlock *
tarn_opencl_pool_find (TarnPool *pool, cl_mem buffer)
{
  TarnMemory memory = { .address = 0 }; /* a pointer may be half of it */

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

/* Frees a copy of the program's bytes once a command has read it.  Later commands on the queue come
 * after that one. */
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

/* Fills a block from a copy of bytes, which the program may change afterwards. */
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

/**
 * Allocates a block and fills it with bytes of the host. It does what CL_MEM_COPY_HOST_PTR does in
 * clCreateBuffer. The bytes are copied before it returns, and the caller may change them; the host
 * waits for no command that is on the queue. Commands that come later on the queue find them in the
 * block; another queue has to wait for this one.
 *
 * @param pool   a pool over one of libtarn-opencl's allocators; any thread may call it
 * @param bytes  the block's contents; may be NULL for 0 bytes
 * @param size   bytes
 * @param queue  for which the block is allocated, and which fills it
 * @param error  return location, or NULL: as tarn_opencl_pool_allocate(), and what OpenCL says of
 *               the command, such as CL_INVALID_OPERATION where the pool's flags are
 *               CL_MEM_HOST_READ_ONLY or CL_MEM_HOST_NO_ACCESS
 * @return (transfer full): the block, for tarn_block_free(), or NULL with @p error set
 * @since 0.1
 */
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

/* Finds the buffer that a sub-buffer is made of, and its offset there; for any other buffer,
 * itself. */
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

/* Retains a block's buffer for as long as a sub-buffer of it exists. */
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

/* Makes a sub-buffer of a region within the block. */
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

/**
 * Makes a cl_mem of a part of a block. It also does so of a block that is a sub-buffer itself:
 * clCreateSubBuffer takes no sub-buffer, so the part is made of the larger buffer. The caller
 * releases the part before freeing the block. A pool that asks for reference counts
 * (tarn_opencl_immediate_allocator_new()) keeps the block aside until the part is released.
 *
 * @param block   a block in use, of an allocator of buffers or of a pool over one; any thread may
 *                call it
 * @param flags   for clCreateSubBuffer; 0: the larger buffer's
 * @param origin  bytes from the beginning of the block: a multiple of
 *                CL_DEVICE_MEM_BASE_ADDR_ALIGN, which is in bits
 * @param size    bytes, more than 0
 * @param error   return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for a part that is not
 * within the block; TARN_OPENCL_ERROR with clCreateSubBuffer's status; TARN_ERROR_OUT_OF_MEMORY;
 * TARN_ERROR_FORKED
 * @return (transfer full): the part, for clReleaseMemObject (), or NULL with @p error set
 * @since 0.1
 */
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
