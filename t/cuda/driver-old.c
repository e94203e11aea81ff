/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * cuda.c on a fake driver of CUDA 10.1, which cannot tell a context from a later one at its address
 * (CUDA 12.0 can), and gives a part of a GPU the UUID of all (as before 11.4). */

#include "cuda/driver-private.h"
#include "driver.h"

const TarnTestingCuda *
cuda_get_fake (void)
{
  const TarnCudaDriver *driver = _tarn_cuda_get_driver (NULL);
  int version = 0;

  g_assert_nonnull (driver);
  g_assert_cmpuint (driver->cuDriverGetVersion (&version), ==, 0);
  g_assert_cmpint (version, ==, 10010);
  g_assert_null (driver->cuCtxGetId);
  g_assert_null (driver->cuDeviceGetUuid);
  g_assert_nonnull (driver->cuDeviceGetUuid_v1);
  return tarn_fake_cuda ();
}
