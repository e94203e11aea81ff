/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * CUDA's own pools, which tests of memory from them make and ask: the driver's functions for that,
 * with which Tarn has no business. */

#ifndef CUDA_ASYNC_POOLS_H
#define CUDA_ASYNC_POOLS_H

#include "order-fixture.h"

/* X (name, "symbol", arguments) */
#define ASYNC_FUNCTIONS(X)                                                                         \
  X (cuMemAllocAsync, "cuMemAllocAsync", (CUdeviceptr * address, size_t size, CUstream stream))    \
  X (cuMemFreeAsync, "cuMemFreeAsync", (CUdeviceptr address, CUstream stream))                     \
  X (cuMemPoolCreate, "cuMemPoolCreate", (CUmemoryPool * pool, const CUmemPoolProps *props))       \
  X (cuMemPoolDestroy, "cuMemPoolDestroy", (CUmemoryPool pool))                                    \
  X (cuMemPoolGetAttribute, "cuMemPoolGetAttribute",                                               \
     (CUmemoryPool pool, unsigned int attribute, void *value))                                     \
  X (cuDeviceGetMemPool, "cuDeviceGetMemPool", (CUmemoryPool * pool, CUdevice device))             \
  X (cuDeviceSetMemPool, "cuDeviceSetMemPool", (CUdevice device, CUmemoryPool pool))

typedef struct
{
#define X(name, symbol, arguments) unsigned int (*name) arguments;
  ASYNC_FUNCTIONS (X)
#undef X
} AsyncDriver;

extern AsyncDriver pools; /* NULL where the driver has none */

/* Finds both these functions and those of order-fixture.h. */
void async_load (void);

CUmemoryPool async_pool_create (CUdevice device);

#endif
