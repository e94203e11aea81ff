/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Functions that device-data.c, occupancy.c and occupancy-driver.c share.  Those that ask a driver
 * have it as an argument, so that tests can pass a fake one. */

#ifndef TARN_CUDA_OCCUPANCY_PRIVATE_H
#define TARN_CUDA_OCCUPANCY_PRIVATE_H

#include "driver-private.h"

/* Facts about an architecture that no attribute states, or that drivers older than the attribute do
 * not. */
typedef struct
{
  gint major;
  gint first_minor, last_minor;
  guint registers_per_thread;
  guint warp_allocation_granularity;
  gsize shared_allocation_unit;
  guint old_blocks_per_mp; /* 0: no driver that knows the device is that old */
} TarnCudaArchitecture;

/* Returns the architecture of a compute capability.  Returns NULL if it is not known. */
const TarnCudaArchitecture *_tarn_cuda_find_architecture (gint major, gint minor);

/* Sets fields that are 0 and that no attribute states.  Does nothing if the architecture is not
 * known. */
void _tarn_cuda_complete_device_data (TarnCudaDeviceData *data);

/* Reads a caller's struct, which may be of another version. */
gboolean _tarn_cuda_read_device_data (TarnCudaDeviceData *ours, const TarnCudaDeviceData *theirs,
                                      GError **error);

/* Implements tarn_cuda_device_data_init(). */
gboolean _tarn_cuda_ask_device_data (const TarnCudaDriver *driver, CUdevice device,
                                     TarnCudaDeviceData *data, GError **error);

/* Implements tarn_cuda_occupancy_for_function(). */
gboolean _tarn_cuda_ask_occupancy (const TarnCudaDriver *driver, CUfunction function, guint threads,
                                   gsize dynamic_shared_bytes, TarnCudaOccupancy *occupancy,
                                   GError **error);

/* Implements tarn_cuda_suggest_block_size(). */
gboolean _tarn_cuda_ask_block_size (const TarnCudaDriver *driver, CUfunction function,
                                    gsize dynamic_shared_bytes, guint *min_grid_size,
                                    guint *block_size, GError **error);

#endif
