/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Calling the driver in a context, from any thread, and leaving the thread's own as it was.
 *
 * A context may be destroyed by its owner while memory of it lives.  The driver then pushes its
 * handle all the same, and the next context may have its address, and its memory the addresses of
 * the dead one's: a late free would hit a stranger's.  So whether it is still the same context is
 * asked before every call, by the id that is never given twice. */

#include "context-private.h"

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

/* Tells whether a context is the calling thread's, and alive. */
static gboolean
is_current (const TarnCudaContext *context)
{
  const TarnCudaDriver *driver = context->driver;
  unsigned long long id;
  CUcontext current;

  if (driver->cuCtxGetId != NULL) /* NULL is the current one */
    return driver->cuCtxGetId (NULL, &id) == TARN_CUDA_SUCCESS && id == context->id;
  return driver->cuCtxGetCurrent (&current) == TARN_CUDA_SUCCESS && current == context->handle;
}

gboolean
_tarn_cuda_context_enter (const TarnCudaContext *context, gboolean *is_pushed, GError **error)
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

void
_tarn_cuda_context_leave (const TarnCudaContext *context, gboolean is_pushed)
{
  if (is_pushed)
    _tarn_cuda_pop_context (context->driver);
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

  /* At exit the driver may be gone before us. */
  if (status == TARN_CUDA_ERROR_DEINITIALIZED
      || _tarn_cuda_check (driver, "cuDevicePrimaryCtxRelease", status, &error))
    return;
  g_message ("%s: the context of device %d may live on", error->message, device);
}

/* Primary contexts are the ones that are shared and counted: without a reference of ours the last
 * other owner would take it away.  Whether there is one is asked before it is retained, because to
 * retain one is to make it. */
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
  /* If the last other reference went meanwhile, this is a new one in its place. */
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

/* Its device can only be asked while it is current. */
static gboolean
find_device (TarnCudaContext *context, GError **error)
{
  gboolean is_pushed, is_found;

  if (!_tarn_cuda_context_enter (context, &is_pushed, error))
    return FALSE;
  is_found = _tarn_cuda_check (context->driver, "cuCtxGetDevice",
                               context->driver->cuCtxGetDevice (&context->device), error);
  _tarn_cuda_context_leave (context, is_pushed);
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
