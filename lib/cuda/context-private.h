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
  /* the driver's id of this context, which no other context ever gets; 0 if the driver has no
   * cuCtxGetId () */
  unsigned long long id;
} TarnCudaContext;

/* Fills in the struct of a context.  If the context is a primary context, takes a reference to it.
 * @handle: the context, or NULL for the thread's current context. */
gboolean _tarn_cuda_context_init (TarnCudaContext *context, CUcontext handle, GError **error);
void _tarn_cuda_context_clear (TarnCudaContext *context);

/* Stores in context->id the id that the driver returns for context->handle.  (The handle may be a
 * destroyed context's old handle, which a new context now has.)  Does nothing if the driver has no
 * cuCtxGetId (). */
gboolean _tarn_cuda_context_identify (TarnCudaContext *context, GError **error);

/* Fails with TARN_ERROR_CONTEXT_LOST if the driver says that the context was destroyed.  If the
 * driver has no cuCtxGetId (), the check succeeds, because Tarn then cannot detect a destroyed
 * context. */
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

/* Makes a context current in this thread, and stores the thread's former state in *scope.  The
 * caller must later pass *scope to _tarn_cuda_context_leave (), which restores that state.  Until
 * then the thread's stream capture mode is relaxed, so that a call such as cuMemAlloc () ends no
 * capture.  If the context cannot be made current, returns FALSE with an error
 * (TARN_ERROR_CONTEXT_LOST if the context was destroyed).  Then the caller must not call
 * _tarn_cuda_context_leave (). */
gboolean _tarn_cuda_context_enter (const TarnCudaContext *context, TarnCudaScope *scope,
                                   GError **error);
void _tarn_cuda_context_leave (const TarnCudaContext *context, const TarnCudaScope *scope);

/* Makes the host wait for all streams of a context.  Ends no capture of a stream.  The caller has
 * made the context current by _tarn_cuda_context_enter (). */
gboolean _tarn_cuda_context_await (const TarnCudaContext *context, GError **error);

/* Fails with TARN_ERROR_NOT_SUPPORTED if @stream is being captured.  If @stream is
 * CU_STREAM_LEGACY, also fails if a blocking stream is being captured, because the legacy stream
 * waits for blocking streams.  The caller has made the context current by
 * _tarn_cuda_context_enter (). */
gboolean _tarn_cuda_context_check_capture (const TarnCudaContext *context, CUstream stream,
                                           GError **error);

/* Stores this thread's current context in *handle.  Fails with TARN_ERROR_NO_CONTEXT if this thread
 * has none. */
gboolean _tarn_cuda_find_current (const TarnCudaDriver *driver, CUcontext *handle, GError **error);

/* Pops the thread's current context.  Logs a g_message() if the driver call fails. */
void _tarn_cuda_pop_context (const TarnCudaDriver *driver);

/* Releases a reference to a primary context.  Logs a g_message() if the driver call fails, except
 * if the driver is gone. */
void _tarn_cuda_release_primary (const TarnCudaDriver *driver, CUdevice device);

#endif
