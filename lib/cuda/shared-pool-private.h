/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The shared pools: one for each CUDA device, which all code of a process may use. */

#ifndef TARN_CUDA_SHARED_POOL_PRIVATE_H
#define TARN_CUDA_SHARED_POOL_PRIVATE_H

#include "context-private.h"

typedef struct _TarnCudaShared TarnCudaShared;

/* The shared pool of a device.  The struct is constant after it is made, and never freed, because
 * any thread may call the pool at any time, also at exit.  After a reset of the device, a new
 * struct becomes the device's shared pool.  Its field "older" links to the old struct, which stays
 * because its blocks may still be in use. */
struct _TarnCudaShared
{
  TarnCudaContext context; /* the device's primary context; the reference is never released */
  TarnPool *pool;
  gsize total_bytes; /* bytes of the device's memory; 0 if the driver cannot say */
  TarnCudaShared *older;
};

/* These functions return the shared pool of a device.  The first call makes the pool.  If the pool
 * cannot be made, they return NULL with @error.  The functions differ only after the pool's context
 * was lost.  In this case _tarn_cuda_shared_renew () makes a new pool.  _tarn_cuda_shared_get ()
 * does not notice the loss, because it does not call the driver if there is a pool: it returns the
 * old pool, whose requests fail with TARN_ERROR_CONTEXT_LOST. */
TarnCudaShared *_tarn_cuda_shared_get (CUdevice device, GError **error);
TarnCudaShared *_tarn_cuda_shared_renew (CUdevice device, GError **error);

/* Calls a function for each shared pool. */
void _tarn_cuda_shared_foreach (void (*func) (TarnCudaShared *shared));

#endif
