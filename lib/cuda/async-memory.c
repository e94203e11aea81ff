/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memory of CUDA's own pools (cuMemAllocAsync, since CUDA 11.2).  The driver allocates and frees
 * this memory in the order of a stream.
 *
 * A request to an allocator of Tarn names no stream, and the program may use the memory on any
 * stream.  So each allocator has its own stream, on which it puts only allocations and frees.
 * After it has put an allocation on its stream, the host waits until the stream has reached the
 * allocation.  The allocator's stream waits for another stream in only one case: CUDA's pool has no
 * other memory left, and reuses memory whose free is still pending on that other stream
 * (CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES).  The allocator's stream is non-blocking, so
 * no default stream waits for it, and no capture includes it. */

#include "memory-private.h"

/* Checks that the driver has all functions for stream-ordered memory.  Returns the name of a
 * missing function, or NULL if none is missing. */
static const gchar *
find_missing (const TarnCudaDriver *driver, gboolean has_pool)
{
  if (has_pool && driver->cuMemAllocFromPoolAsync == NULL)
    return "cuMemAllocFromPoolAsync";
  if (!has_pool && driver->cuMemAllocAsync == NULL)
    return "cuMemAllocAsync";
  if (driver->cuMemFreeAsync == NULL)
    return "cuMemFreeAsync";
  if (driver->cuDeviceGetAttribute == NULL)
    return "cuDeviceGetAttribute";
  if (driver->cuStreamCreate == NULL)
    return "cuStreamCreate";
  if (driver->cuStreamDestroy == NULL)
    return "cuStreamDestroy";
  return driver->cuStreamSynchronize == NULL ? "cuStreamSynchronize" : NULL;
}

static gboolean
check_support (const TarnCudaContext *context, gboolean has_pool, GError **error)
{
  const TarnCudaDriver *driver = context->driver;
  const gchar *missing = find_missing (driver, has_pool);
  int value = 0;

  if (missing != NULL)
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
                   "the CUDA driver is too old for memory in the order of streams: it has no "
                   "function %s",
                   missing);
      return FALSE;
    }
  if (!_tarn_cuda_check (
          driver, "cuDeviceGetAttribute",
          driver->cuDeviceGetAttribute (&value, TARN_CUDA_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
                                        context->device),
          error))
    return FALSE;
  if (value != 0)
    return TRUE;
  g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
               "CUDA device %d has no memory pools (cuMemAllocAsync)", context->device);
  return FALSE;
}

gboolean
_tarn_cuda_async_init (TarnCudaMemoryAllocator *self, CUmemoryPool pool, GError **error)
{
  const TarnCudaContext *context = &self->home.context;
  CUstream stream = NULL;
  TarnCudaScope scope;
  gboolean is_made;

  self->pool = pool;
  if (!check_support (context, pool != NULL, error)
      || !_tarn_cuda_context_enter (context, &scope, error))
    return FALSE;
  is_made = _tarn_cuda_check (
      context->driver, "cuStreamCreate",
      context->driver->cuStreamCreate (&stream, TARN_CUDA_STREAM_NON_BLOCKING), error);
  _tarn_cuda_context_leave (context, &scope);
  if (is_made)
    self->stream = stream;
  return is_made;
}

/* Logs that an allocator's stream could not be destroyed.  Logs nothing if the context or the
 * driver is gone, because the stream no longer exists. */
static void
report_lost_stream (const GError *error)
{
  if (!g_error_matches (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST)
      && !g_error_matches (error, TARN_CUDA_ERROR, TARN_CUDA_ERROR_DEINITIALIZED))
    g_message ("%s: a CUDA stream may be lost", error->message);
}

void
_tarn_cuda_async_clear (TarnCudaMemoryAllocator *self)
{
  const TarnCudaContext *context = &self->home.context;
  g_autoptr (GError) error = NULL;
  TarnCudaScope scope;

  if (self->stream == NULL)
    return;
  if (_tarn_cuda_context_enter (context, &scope, &error))
    {
      _tarn_cuda_check (context->driver, "cuStreamDestroy",
                        context->driver->cuStreamDestroy (self->stream), &error);
      _tarn_cuda_context_leave (context, &scope);
    }
  if (error != NULL)
    report_lost_stream (error);
}

/* Frees memory that was just allocated, after the host's wait for the allocation has failed.  Puts
 * the free on the allocator's stream, so that the free comes after the allocation. */
static void
free_unready (const TarnCudaMemoryAllocator *self, CUdeviceptr address, gsize size)
{
  const TarnCudaDriver *driver = self->home.context.driver;
  unsigned int status = driver->cuMemFreeAsync (address, self->stream);
  g_autoptr (GError) error = NULL;

  if (status == TARN_CUDA_SUCCESS || status == TARN_CUDA_ERROR_CONTEXT_IS_DESTROYED
      || status == TARN_CUDA_ERROR_DEINITIALIZED)
    return;
  _tarn_cuda_set_error (&error, driver, "cuMemFreeAsync", status);
  g_message ("%s: %" G_GSIZE_FORMAT " bytes may be lost", error->message, size);
}

gboolean
_tarn_cuda_async_allocate (const TarnCudaMemoryAllocator *self, gsize size, TarnMemory *memory,
                           GError **error)
{
  const TarnCudaDriver *driver = self->home.context.driver;
  CUdeviceptr address = 0;
  unsigned int status
      = self->pool != NULL
            ? driver->cuMemAllocFromPoolAsync (&address, size, self->pool, self->stream)
            : driver->cuMemAllocAsync (&address, size, self->stream);

  if (status != TARN_CUDA_SUCCESS)
    {
      _tarn_cuda_set_error_for_size (
          error, driver, self->pool != NULL ? "cuMemAllocFromPoolAsync" : "cuMemAllocAsync", status,
          size);
      return FALSE;
    }
  if (!_tarn_cuda_check (driver, "cuStreamSynchronize", driver->cuStreamSynchronize (self->stream),
                         error))
    {
      free_unready (self, address, size);
      return FALSE;
    }
  memory->address = address;
  return TRUE;
}

/* Frees memory on the allocator's own stream.  The caller ensures that no command uses the memory
 * any more. */
unsigned int
_tarn_cuda_async_free (const TarnCudaMemoryAllocator *self, TarnMemory memory)
{
  return self->home.context.driver->cuMemFreeAsync ((CUdeviceptr) memory.address, self->stream);
}

/* Puts a free of memory on the stream that @handle names.  The driver frees the memory after the
 * commands that are on the stream now.  Fails if the stream is being captured, because the free
 * would become part of the graph.  If @handle is another thread's default stream, this thread has
 * no CUstream for that stream, and puts the free on the legacy stream instead.  The legacy stream
 * waits for all threads' default streams.
 *
 * Another thread may begin a capture between this function's check for captures and the free:
 * - If the thread captures the same stream, the driver refuses the free with
 *   CUDA_ERROR_INVALID_VALUE, because the graph did not allocate the memory.  The capture goes on
 *   (seen on an H200).  So after this status, the function checks for a capture again.  If there is
 *   one, the error names the capture as the reason.
 * - If the thread captures a blocking stream, and the free is on the legacy stream, the free ends
 *   the capture. */
static gboolean
free_on_stream (const TarnCudaMemoryAllocator *self, TarnMemory memory, gpointer handle,
                GError **error)
{
  const TarnCudaContext *context = &self->home.context;
  CUstream stream = _tarn_cuda_stream_of_handle (handle);
  unsigned int status;

  if (!_tarn_cuda_context_check_capture (context, stream, error))
    return FALSE;
  status = context->driver->cuMemFreeAsync ((CUdeviceptr) memory.address, stream);
  if (status == TARN_CUDA_ERROR_INVALID_VALUE
      && !_tarn_cuda_context_check_capture (context, stream, error))
    return FALSE;
  return _tarn_cuda_check (context->driver, "cuMemFreeAsync", status, error);
}

/* Implements TarnAllocatorOps.free_on_queue: frees memory in the order of a stream.  Returns FALSE
 * if the free fails: the caller then makes the host wait, and frees the memory itself.  Logs a
 * message, except if the context or the driver is gone, or the stream is being captured.  The
 * caller reports a lost context and a capture. */
gboolean
_tarn_cuda_async_free_on_queue (gpointer user_data, TarnMemory memory, gsize size, gpointer queue)
{
  const TarnCudaMemoryAllocator *self = user_data;
  g_autoptr (GError) error = NULL;
  TarnCudaScope scope;
  gboolean is_freed = FALSE;

  if (memory.address == 0)
    return TRUE;
  if (_tarn_cuda_context_enter (&self->home.context, &scope, &error))
    {
      is_freed = free_on_stream (self, memory, queue, &error);
      _tarn_cuda_context_leave (&self->home.context, &scope);
    }
  if (!is_freed && error->domain == TARN_CUDA_ERROR && error->code != TARN_CUDA_ERROR_DEINITIALIZED)
    g_message ("%s: the host waits instead, for %" G_GSIZE_FORMAT " bytes", error->message, size);
  return is_freed;
}
