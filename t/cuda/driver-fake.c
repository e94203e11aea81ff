/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * cuda.c on the fake driver. */

#include "driver.h"

const TarnTestingCuda *
cuda_get_fake (void)
{
  return tarn_fake_cuda ();
}
