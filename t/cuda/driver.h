/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The driver under a CUDA test: the fake one or a real one.  cuda.c is linked twice. */

#ifndef CUDA_DRIVER_H
#define CUDA_DRIVER_H

#include "fake-cuda/fake-cuda.h"

/* NULL: it is a real one. */
const FakeCuda *cuda_get_fake (void);

#endif
