/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Devices as their drivers describe them, and a model of how blocks fill one. */

#ifndef CUDA_MULTIPROCESSOR_H
#define CUDA_MULTIPROCESSOR_H

#include <tarn/cuda.h>

typedef struct
{
  gint major, minor;
  guint warps_per_mp, blocks_per_mp, registers_per_block, registers_per_mp;
  gsize shared_per_block_optin, shared_per_mp, shared_reserved_per_block;
} CudaDevice;

extern const CudaDevice cuda_devices[];
extern const gsize cuda_n_devices;

const CudaDevice *cuda_find_device (gint major, gint minor);

/* What no attribute tells is left to the library. */
TarnCudaDeviceData cuda_make_data (const CudaDevice *device);

/* How many blocks fit, found by putting one after the other. */
guint cuda_simulate (const CudaDevice *device, guint threads, gsize shared_bytes, guint registers);

#endif
