/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Makes a context current in any thread while Tarn calls the driver, and afterwards makes the
 * thread's former context current again.
 *
 * The owner of a context may destroy the context while Tarn still has memory there.  After that,
 * cuCtxPushCurrent () still accepts the context's handle.  A new context may get the same handle,
 * and the new context's memory the same addresses.  Then a late free would free memory of the new
 * context.  So before Tarn calls the driver in a context, it asks for the id of the context that
 * has the handle now.  The driver never gives an id twice, so a different id means that Tarn's
 * context was destroyed. */

#include "context-private.h"

#define CAPTURE_MODE_RELAXED 2 /* CU_STREAM_CAPTURE_MODE_RELAXED of <cuda.h> */

static gboolean
set_lost (GError **error)
{
  g_set_error_literal (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST,
                       "the CUDA context was destroyed, and its memory with it");
  return FALSE;
}

gboolean
_tarn_cuda_context_check (const TarnCudaContext *context, GError **error)
{
  unsigned long long id;
  unsigned int status;

  if (context->driver->cuCtxGetId == NULL)
    return TRUE;
  status = context->driver->cuCtxGetId (context->handle, &id);
  if (status == TARN_CUDA_SUCCESS && id == context->id)
    return TRUE;
  if (status == TARN_CUDA_SUCCESS || status == TARN_CUDA_ERROR_INVALID_CONTEXT
      || status == TARN_CUDA_ERROR_CONTEXT_IS_DESTROYED)
    return set_lost (error);
  return _tarn_cuda_check (context->driver, "cuCtxGetId", status, error);
}

/* Returns TRUE if a context is the current context of the calling thread, and was not destroyed. */
static gboolean
is_current (const TarnCudaContext *context)
{
  const TarnCudaDriver *driver = context->driver;
  unsigned long long id;
  CUcontext current;

  if (driver->cuCtxGetId != NULL) /* cuCtxGetId () takes NULL for the current context */
    return driver->cuCtxGetId (NULL, &id) == TARN_CUDA_SUCCESS && id == context->id;
  return driver->cuCtxGetCurrent (&current) == TARN_CUDA_SUCCESS && current == context->handle;
}

static gboolean
push (const TarnCudaContext *context, gboolean *is_pushed, GError **error)
{
  const TarnCudaDriver *driver = context->driver;
  unsigned int status;

  *is_pushed = FALSE;
  if (is_current (context))
    return TRUE;
  if (!_tarn_cuda_context_check (context, error))
    return FALSE;
  status = driver->cuCtxPushCurrent (context->handle);
  if (status == TARN_CUDA_ERROR_INVALID_CONTEXT)
    return set_lost (error);
  *is_pushed = status == TARN_CUDA_SUCCESS;
  return _tarn_cuda_check (driver, "cuCtxPushCurrent", status, error);
}

gboolean
_tarn_cuda_context_enter (const TarnCudaContext *context, TarnCudaScope *scope, GError **error)
{
  if (!push (context, &scope->is_pushed, error))
    return FALSE;
  scope->mode = CAPTURE_MODE_RELAXED;
  scope->is_relaxed
      = context->driver->cuThreadExchangeStreamCaptureMode != NULL
        && context->driver->cuThreadExchangeStreamCaptureMode (&scope->mode) == TARN_CUDA_SUCCESS;
  return TRUE;
}

void
_tarn_cuda_context_leave (const TarnCudaContext *context, const TarnCudaScope *scope)
{
  unsigned int mode = scope->mode;

  if (scope->is_relaxed)
    context->driver->cuThreadExchangeStreamCaptureMode (&mode);
  if (scope->is_pushed)
    _tarn_cuda_pop_context (context->driver);
}

/* Checks the status of the free in _tarn_cuda_context_await (), which allocates and frees 1 byte to
 * make the host wait.  If the free failed, returns FALSE with an error, and logs a message.  Logs
 * no message if the context or the driver is gone, because then the byte is gone, too. */
static gboolean
check_freed (const TarnCudaContext *context, const gchar *function, unsigned int status,
             GError **error)
{
  g_autoptr (GError) local = NULL;

  if (_tarn_cuda_check (context->driver, function, status, &local))
    return TRUE;
  if (status != TARN_CUDA_ERROR_DEINITIALIZED && status != TARN_CUDA_ERROR_CONTEXT_IS_DESTROYED)
    g_message ("%s: 1 byte may be lost", local->message);
  g_propagate_error (error, g_steal_pointer (&local));
  return FALSE;
}

/* Makes the host wait for all streams of the context: allocates 1 byte of device memory, and frees
 * the byte by cuMemFree (), which first waits for these streams.  If no device memory is left, uses
 * 1 byte of page-locked host memory and cuMemFreeHost () instead.
 *
 * Tarn uses neither of two simpler ways, cuCtxSynchronize () and cuCtxRecordEvent (), because each
 * would end all captures in the context, whatever their mode.  The driver has no query that tells
 * Tarn whether the context has captures. */
gboolean
_tarn_cuda_context_await (const TarnCudaContext *context, GError **error)
{
  const TarnCudaDriver *driver = context->driver;
  CUdeviceptr address;
  void *pointer;
  unsigned int status = driver->cuMemAlloc (&address, 1);

  if (status == TARN_CUDA_SUCCESS)
    return check_freed (context, "cuMemFree", driver->cuMemFree (address), error);
  if (status != TARN_CUDA_ERROR_OUT_OF_MEMORY)
    return _tarn_cuda_check (driver, "cuMemAlloc", status, error);
  status = driver->cuMemHostAlloc (&pointer, 1, 0);
  return _tarn_cuda_check (driver, "cuMemHostAlloc", status, error)
         && check_freed (context, "cuMemFreeHost", driver->cuMemFreeHost (pointer), error);
}

gboolean
_tarn_cuda_context_check_capture (const TarnCudaContext *context, CUstream stream, GError **error)
{
  const TarnCudaDriver *driver = context->driver;
  unsigned int capturing = 0, status;

  if (driver->cuStreamIsCapturing == NULL)
    return TRUE;
  status = driver->cuStreamIsCapturing (stream, &capturing);
  if (capturing == 0 && status != TARN_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
    return _tarn_cuda_check (driver, "cuStreamIsCapturing", status, error);
  g_set_error_literal (
      error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
      "the CUDA stream, or one that the default stream waits for, captures a graph: call "
      "tarn_cuda_pool_begin_graph (), or allocate before that, and free after the last launch");
  return FALSE;
}

void
_tarn_cuda_pop_context (const TarnCudaDriver *driver)
{
  CUcontext popped;
  g_autoptr (GError) error = NULL;

  if (!_tarn_cuda_check (driver, "cuCtxPopCurrent", driver->cuCtxPopCurrent (&popped), &error))
    g_message ("%s: this thread may be left with another context", error->message);
}

void
_tarn_cuda_release_primary (const TarnCudaDriver *driver, CUdevice device)
{
  unsigned int status = driver->cuDevicePrimaryCtxRelease (device);
  g_autoptr (GError) error = NULL;

  /* At exit the driver may be gone already.  In this case this function logs no message. */
  if (status == TARN_CUDA_ERROR_DEINITIALIZED
      || _tarn_cuda_check (driver, "cuDevicePrimaryCtxRelease", status, &error))
    return;
  g_message ("%s: the context of device %d may live on", error->message, device);
}

/* Takes a reference to a context if it is the device's primary context.  Primary contexts are
 * shared and reference-counted: without a reference of Tarn's, the context would be destroyed when
 * the last other owner releases its reference.  First asks whether the device has a primary context
 * now, because cuDevicePrimaryCtxRetain () makes a primary context if the device has none. */
static gboolean
retain_if_primary (TarnCudaContext *context, GError **error)
{
  const TarnCudaDriver *driver = context->driver;
  unsigned int flags;
  int is_active = 0;
  CUcontext primary = NULL;

  if (!_tarn_cuda_check (driver, "cuDevicePrimaryCtxGetState",
                         driver->cuDevicePrimaryCtxGetState (context->device, &flags, &is_active),
                         error))
    return FALSE;
  if (!is_active)
    return TRUE;
  if (!_tarn_cuda_check (driver, "cuDevicePrimaryCtxRetain",
                         driver->cuDevicePrimaryCtxRetain (&primary, context->device), error))
    return FALSE;
  context->is_primary = primary == context->handle;
  if (!context->is_primary)
    _tarn_cuda_release_primary (driver, context->device);
  /* The last other owner may have released its reference just before Tarn took a reference.  Then
   * the driver has destroyed the context, and has made a new one with the same handle for Tarn.
   * The check of the id detects that. */
  else if (!_tarn_cuda_context_check (context, error))
    {
      _tarn_cuda_release_primary (driver, context->device);
      context->is_primary = FALSE;
      return FALSE;
    }
  return TRUE;
}

gboolean
_tarn_cuda_find_current (const TarnCudaDriver *driver, CUcontext *handle, GError **error)
{
  if (!_tarn_cuda_check (driver, "cuCtxGetCurrent", driver->cuCtxGetCurrent (handle), error))
    return FALSE;
  if (*handle != NULL)
    return TRUE;
  g_set_error_literal (error, TARN_ERROR, TARN_ERROR_NO_CONTEXT,
                       "no CUDA context is current in this thread, and none was given");
  return FALSE;
}

gboolean
_tarn_cuda_context_identify (TarnCudaContext *context, GError **error)
{
  const TarnCudaDriver *driver = context->driver;

  return driver->cuCtxGetId == NULL
         || _tarn_cuda_check (driver, "cuCtxGetId",
                              driver->cuCtxGetId (context->handle, &context->id), error);
}

/* Finds the device of a context.  Makes the context current meanwhile, because the driver states
 * only the device of the current context. */
static gboolean
find_device (TarnCudaContext *context, GError **error)
{
  TarnCudaScope scope;
  gboolean is_found;

  if (!_tarn_cuda_context_enter (context, &scope, error))
    return FALSE;
  is_found = _tarn_cuda_check (context->driver, "cuCtxGetDevice",
                               context->driver->cuCtxGetDevice (&context->device), error);
  _tarn_cuda_context_leave (context, &scope);
  return is_found;
}

gboolean
_tarn_cuda_context_init (TarnCudaContext *context, CUcontext handle, GError **error)
{
  const TarnCudaDriver *driver = _tarn_cuda_get_driver (error);

  *context = (TarnCudaContext){ .driver = driver, .handle = handle };
  if (driver == NULL
      || (handle == NULL && !_tarn_cuda_find_current (driver, &context->handle, error)))
    return FALSE;
  return _tarn_cuda_context_identify (context, error) && find_device (context, error)
         && retain_if_primary (context, error);
}

void
_tarn_cuda_context_clear (TarnCudaContext *context)
{
  if (context->is_primary)
    _tarn_cuda_release_primary (context->driver, context->device);
}
