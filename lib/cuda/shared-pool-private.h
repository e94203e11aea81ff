/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The pool that a process shares on each device. */

#ifndef TARN_CUDA_SHARED_POOL_PRIVATE_H
#define TARN_CUDA_SHARED_POOL_PRIVATE_H

#include "context-private.h"

typedef struct _TarnCudaShared TarnCudaShared;

/* The pool that a process shares on a device.  Constant after it is made, and never freed: any
 * thread may call the pool at any time, also at exit.  After a reset of its device there is a new
 * one; the older one stays in the list for its blocks. */
struct _TarnCudaShared
{
  TarnCudaContext context; /* primary; its reference is never released */
  TarnPool *pool;
  gsize total_bytes; /* the device's; 0: the driver does not say */
  TarnCudaShared *older;
};

/* Returns the pool of a device, which the first request makes; later ones do not call the driver.
 * Returns NULL with @error if there can be none.  If its context was lost, requests fail with that,
 * and _tarn_cuda_shared_renew () makes another. */
TarnCudaShared *_tarn_cuda_shared_get (CUdevice device, GError **error);
TarnCudaShared *_tarn_cuda_shared_renew (CUdevice device, GError **error);

/* Calls a function for each shared pool. */
void _tarn_cuda_shared_foreach (void (*func) (TarnCudaShared *shared));

#endif
