/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Contexts: calls of the driver in a context, from any thread. */

#ifndef TARN_CUDA_CONTEXT_PRIVATE_H
#define TARN_CUDA_CONTEXT_PRIVATE_H

#include "driver-private.h"

/* A context in which objects of Tarn's live.  Constant after it is made. */
typedef struct
{
  const TarnCudaDriver *driver;
  CUcontext handle;
  CUdevice device;
  gboolean is_primary; /* TRUE: we have a reference to it; FALSE: it is its owner's */
  unsigned long long
      id; /* never given to a later context at its address; 0 if the driver has no ids */
} TarnCudaContext;

/* Describes a context, and takes a reference if it is primary.  @handle: nullable: the current
 * one. */
gboolean _tarn_cuda_context_init (TarnCudaContext *context, CUcontext handle, GError **error);
void _tarn_cuda_context_clear (TarnCudaContext *context);

/* Sets the id to the one that the handle has now. */
gboolean _tarn_cuda_context_identify (TarnCudaContext *context, GError **error);

/* Fails with TARN_ERROR_CONTEXT_LOST if the context was destroyed, as far as the driver can
 * tell. */
gboolean _tarn_cuda_context_check (const TarnCudaContext *context, GError **error);

/* The state of a thread before it entered a context. */
typedef struct
{
  gboolean is_pushed;  /* the thread's current context is restored when ours is popped */
  gboolean is_relaxed; /* @mode is the thread's stream capture mode, to restore */
  unsigned int mode;
} TarnCudaScope;

/* Makes a context current in this thread until _tarn_cuda_context_leave () with the same scope.
 * Meanwhile the thread's stream capture mode is relaxed, so that no call ends the capture of
 * another stream.  Returns FALSE with an error, and nothing to leave, if it fails:
 * TARN_ERROR_CONTEXT_LOST if the context was destroyed. */
gboolean _tarn_cuda_context_enter (const TarnCudaContext *context, TarnCudaScope *scope,
                                   GError **error);
void _tarn_cuda_context_leave (const TarnCudaContext *context, const TarnCudaScope *scope);

/* Makes the host wait for all streams of a context, which this thread has entered.  No capture
 * ends. */
gboolean _tarn_cuda_context_await (const TarnCudaContext *context, GError **error);

/* Fails with TARN_ERROR_NOT_SUPPORTED while a stream (CU_STREAM_LEGACY included) is being captured,
 * or while the legacy stream would wait for one that is.  This thread has entered the context. */
gboolean _tarn_cuda_context_check_capture (const TarnCudaContext *context, CUstream stream,
                                           GError **error);

/* Finds the current context.  Fails with TARN_ERROR_NO_CONTEXT if there is none in this thread. */
gboolean _tarn_cuda_find_current (const TarnCudaDriver *driver, CUcontext *handle, GError **error);

/* Pops the thread's current context.  Logs a g_message() if that fails. */
void _tarn_cuda_pop_context (const TarnCudaDriver *driver);

/* Releases a reference to a primary context.  Logs a g_message() if that fails. */
void _tarn_cuda_release_primary (const TarnCudaDriver *driver, CUdevice device);

#endif
