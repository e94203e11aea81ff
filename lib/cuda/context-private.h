/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#ifndef TARN_CUDA_CONTEXT_PRIVATE_H
#define TARN_CUDA_CONTEXT_PRIVATE_H

#include "driver-private.h"

/* A context that something of ours lives in.  Constant after it is made. */
typedef struct
{
  const TarnCudaDriver *driver;
  CUcontext handle;
  CUdevice device;
  gboolean is_primary;   /* then a reference on it is ours; any other is its owner's */
  unsigned long long id; /* of this context and no later one at its address; if the driver has it */
} TarnCudaContext;

/* @handle is nullable: the current one. */
gboolean _tarn_cuda_context_init (TarnCudaContext *context, CUcontext handle, GError **error);
void _tarn_cuda_context_clear (TarnCudaContext *context);

/* Sets the id that the handle has now. */
gboolean _tarn_cuda_context_identify (TarnCudaContext *context, GError **error);

/* TARN_ERROR_CONTEXT_LOST if it was destroyed, as far as the driver can tell. */
gboolean _tarn_cuda_context_check (const TarnCudaContext *context, GError **error);

/* The thread's state from before it entered a context. */
typedef struct
{
  gboolean is_pushed;  /* then its current context comes back when ours is popped */
  gboolean is_relaxed; /* then @mode is its stream capture mode */
  unsigned int mode;
} TarnCudaScope;

/* Makes a context current in this thread until _tarn_cuda_context_leave (), which takes the same
 * scope.  Meanwhile the thread's stream capture mode is relaxed, so that no call ends the capture
 * of another stream.  FALSE, with an error and nothing to leave, if that fails:
 * TARN_ERROR_CONTEXT_LOST if the context was destroyed. */
gboolean _tarn_cuda_context_enter (const TarnCudaContext *context, TarnCudaScope *scope,
                                   GError **error);
void _tarn_cuda_context_leave (const TarnCudaContext *context, const TarnCudaScope *scope);

/* Has the host wait for all streams of a context, which this thread has entered.  No capture ends.
 */
gboolean _tarn_cuda_context_await (const TarnCudaContext *context, GError **error);

/* TARN_ERROR_NOT_SUPPORTED while a stream (CU_STREAM_LEGACY included) is being captured, or while
 * the legacy stream would wait for one that is.  This thread has entered the context. */
gboolean _tarn_cuda_context_check_capture (const TarnCudaContext *context, CUstream stream,
                                           GError **error);

/* TARN_ERROR_NO_CONTEXT if none is current in this thread. */
gboolean _tarn_cuda_find_current (const TarnCudaDriver *driver, CUcontext *handle, GError **error);

/* The thread's current context is what was current before it; a failure is a g_message(). */
void _tarn_cuda_pop_context (const TarnCudaDriver *driver);

/* Gives back a reference on a primary context; a failure is a g_message(). */
void _tarn_cuda_release_primary (const TarnCudaDriver *driver, CUdevice device);

#endif
