/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What memory contains, for TARN_DEBUG.  Device memory is read and filled on the default stream,
 * behind what the program has put on streams that wait for that one, while nothing captures it. */

#include "memory-private.h"

#include <string.h>

#define CAPTURE_MODE_RELAXED 2 /* CU_STREAM_CAPTURE_MODE_RELAXED */

/* Has calls that a thread must not make while it captures be made all the same: they are of no
 * stream that is captured. */
static unsigned int
exchange_mode (const TarnCudaDriver *driver, unsigned int mode)
{
  if (driver->cuThreadExchangeStreamCaptureMode != NULL)
    driver->cuThreadExchangeStreamCaptureMode (&mode);
  return mode;
}

/* A copy to the host waits for what is before it on the stream, and is done when it returns. */
static gboolean
copy_from_device (const TarnCudaMemoryAllocator *self, CUdeviceptr from, gsize size, gpointer bytes,
                  GError **error)
{
  const TarnCudaDriver *driver = self->home.context.driver;

  return _tarn_cuda_check (driver, "cuMemcpyDtoH", driver->cuMemcpyDtoH (bytes, from, size), error);
}

static gboolean
fill_device (const TarnCudaMemoryAllocator *self, CUdeviceptr to, gsize size, guint8 byte,
             GError **error)
{
  const TarnCudaDriver *driver = self->home.context.driver;
  guint8 last;

  return _tarn_cuda_check (driver, "cuMemsetD8", driver->cuMemsetD8 (to, byte, size), error)
         && copy_from_device (self, to + size - 1, 1, &last, error);
}

gboolean
_tarn_cuda_memory_read (gpointer user_data, TarnMemory memory, gsize offset, gsize size,
                        gpointer bytes, GError **error)
{
  const TarnCudaMemoryAllocator *self = user_data;
  const TarnCudaContext *context = &self->home.context;
  gboolean is_pushed, is_read;
  unsigned int mode;

  if (self->kind == TARN_CUDA_HOST_MEMORY)
    {
      memcpy (bytes, (const guint8 *) memory.pointer + offset, size);
      return TRUE;
    }
  if (!_tarn_cuda_context_enter (context, &is_pushed, error))
    return FALSE;
  mode = exchange_mode (context->driver, CAPTURE_MODE_RELAXED);
  is_read = copy_from_device (self, (CUdeviceptr) (memory.address + offset), size, bytes, error);
  exchange_mode (context->driver, mode);
  _tarn_cuda_context_leave (context, is_pushed);
  return is_read;
}

gboolean
_tarn_cuda_memory_fill (gpointer user_data, TarnMemory memory, gsize offset, gsize size,
                        guint8 byte, GError **error)
{
  const TarnCudaMemoryAllocator *self = user_data;
  const TarnCudaContext *context = &self->home.context;
  gboolean is_pushed, is_filled;
  unsigned int mode;

  if (self->kind == TARN_CUDA_HOST_MEMORY)
    {
      memset ((guint8 *) memory.pointer + offset, byte, size);
      return TRUE;
    }
  if (!_tarn_cuda_context_enter (context, &is_pushed, error))
    return FALSE;
  mode = exchange_mode (context->driver, CAPTURE_MODE_RELAXED);
  is_filled = fill_device (self, (CUdeviceptr) (memory.address + offset), size, byte, error);
  exchange_mode (context->driver, mode);
  _tarn_cuda_context_leave (context, is_pushed);
  return is_filled;
}
