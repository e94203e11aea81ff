/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * CUDA's own pools, for tests. */

#include "async-pools.h"

#define LOCATION_TYPE_DEVICE 1 /* CU_MEM_LOCATION_TYPE_DEVICE */

AsyncDriver pools;

void
async_load (void)
{
  order_load ();
#define X(name, symbol, arguments) *(gpointer *) &pools.name = order_find_function (symbol);
  ASYNC_FUNCTIONS (X)
#undef X
}

CUmemoryPool
async_pool_create (CUdevice device)
{
  CUmemPoolProps props = { .allocType = 1, .location = { LOCATION_TYPE_DEVICE, device } };
  CUmemoryPool pool = NULL;

  SUCCEED (pools.cuMemPoolCreate (&pool, &props));
  return pool;
}
