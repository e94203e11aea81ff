/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#ifndef TARN_CUDA_SHARED_POOL_PRIVATE_H
#define TARN_CUDA_SHARED_POOL_PRIVATE_H

#include "context-private.h"

typedef struct _TarnCudaShared TarnCudaShared;

/* The pool that a process shares on a device.  Constant after it is made, and never freed: any
 * thread may call the pool at any time, also at exit.
 *
 * A device that is reset has another one afterwards; the older one stays in the list, for the
 * blocks that are left of it. */
struct _TarnCudaShared
{
  TarnCudaContext context; /* primary; its reference is never given back */
  TarnPool *pool;
  gsize total_bytes; /* of the device; 0: the driver does not say */
  TarnCudaShared *older;
};

/* Gets it, and makes it at the first request; no call of the driver otherwise.  NULL: @error is
 * set. Where its context was lost, requests say so, and _tarn_cuda_shared_renew () makes another.
 */
TarnCudaShared *_tarn_cuda_shared_get (CUdevice device, GError **error);
TarnCudaShared *_tarn_cuda_shared_renew (CUdevice device, GError **error);

/* Calls a function for each that there is. */
void _tarn_cuda_shared_foreach (void (*func) (TarnCudaShared *shared));

#endif
