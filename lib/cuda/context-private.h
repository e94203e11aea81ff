/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Functions that make a CUDA context current in the calling thread while Tarn calls the driver. */

#ifndef TARN_CUDA_CONTEXT_PRIVATE_H
#define TARN_CUDA_CONTEXT_PRIVATE_H

#include "driver-private.h"

/* A CUDA context in which Tarn has memory or other objects.  The struct is constant after it was
 * filled in. */
typedef struct
{
  const TarnCudaDriver *driver;
  CUcontext handle;
  CUdevice device;
  /* TRUE if this is the device's primary context; then Tarn has a reference to the context.  FALSE
   * if this is another context, which its owner may destroy at any time. */
  gboolean is_primary;
  /* the id that the driver gave this context, and gives no other context; 0 if the driver has no
   * cuCtxGetId () */
  unsigned long long id;
} TarnCudaContext;

/* Fills in the struct of a context.  If the context is a primary context, takes a reference to it.
 * @handle: the context, or NULL for the thread's current context. */
gboolean _tarn_cuda_context_init (TarnCudaContext *context, CUcontext handle, GError **error);
void _tarn_cuda_context_clear (TarnCudaContext *context);

/* Asks the driver for the id of the context that has the handle context->handle now, and stores the
 * id in context->id.  Does nothing if the driver has no cuCtxGetId (). */
gboolean _tarn_cuda_context_identify (TarnCudaContext *context, GError **error);

/* Fails with TARN_ERROR_CONTEXT_LOST if the driver says that the context was destroyed.  A driver
 * without cuCtxGetId () cannot say that, so the check then succeeds. */
gboolean _tarn_cuda_context_check (const TarnCudaContext *context, GError **error);

/* The state of a thread before it entered a context. */
typedef struct
{
  /* TRUE if Tarn pushed a context, which _tarn_cuda_context_leave () must pop */
  gboolean is_pushed;
  /* TRUE if Tarn changed the thread's stream capture mode; the field "mode" has the former capture
   * mode */
  gboolean is_relaxed;
  unsigned int mode;
} TarnCudaScope;

/* Makes a context current in this thread, until the caller passes the same scope to
 * _tarn_cuda_context_leave ().  Until then the thread's stream capture mode is relaxed, so that no
 * call of this thread ends the capture of a stream that the call does not use.  If the context
 * cannot be made current, returns FALSE with an error (TARN_ERROR_CONTEXT_LOST if the context was
 * destroyed).  Then the caller must not call _tarn_cuda_context_leave (). */
gboolean _tarn_cuda_context_enter (const TarnCudaContext *context, TarnCudaScope *scope,
                                   GError **error);
void _tarn_cuda_context_leave (const TarnCudaContext *context, const TarnCudaScope *scope);

/* Makes the host wait for all streams of a context, and ends no capture.  The caller has made the
 * context current by _tarn_cuda_context_enter (). */
gboolean _tarn_cuda_context_await (const TarnCudaContext *context, GError **error);

/* Fails with TARN_ERROR_NOT_SUPPORTED if @stream is being captured.  Also fails if @stream is
 * CU_STREAM_LEGACY, and a stream for which CU_STREAM_LEGACY would wait is being captured.  The
 * caller has made the context current by _tarn_cuda_context_enter (). */
gboolean _tarn_cuda_context_check_capture (const TarnCudaContext *context, CUstream stream,
                                           GError **error);

/* Stores this thread's current context in *handle.  Fails with TARN_ERROR_NO_CONTEXT if this thread
 * has none. */
gboolean _tarn_cuda_find_current (const TarnCudaDriver *driver, CUcontext *handle, GError **error);

/* Pops the thread's current context.  Logs a g_message() if that fails. */
void _tarn_cuda_pop_context (const TarnCudaDriver *driver);

/* Releases a reference to a primary context.  Logs a g_message() if that fails. */
void _tarn_cuda_release_primary (const TarnCudaDriver *driver, CUdevice device);

#endif
