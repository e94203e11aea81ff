/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Functions that device-data.c, occupancy.c and occupancy-driver.c share.  A function that calls
 * the CUDA driver takes the driver as an argument, so that tests can pass a fake driver. */

#ifndef TARN_CUDA_OCCUPANCY_PRIVATE_H
#define TARN_CUDA_OCCUPANCY_PRIVATE_H

#include "driver-private.h"

/* Facts about an architecture of GPUs.  Tarn cannot ask every driver for them: for some facts the
 * driver has no attribute, and for others only newer drivers have one. */
typedef struct
{
  gint major;
  gint first_minor, last_minor;
  guint registers_per_thread;
  guint warp_allocation_granularity;
  gsize shared_allocation_unit;
  /* the largest number of blocks that a multiprocessor runs at a time, for drivers without an
   * attribute for this number; 0 if all drivers of the architecture have the attribute */
  guint old_blocks_per_mp;
} TarnCudaArchitecture;

/* Returns the facts about the architecture of GPUs with the compute capability @major.@minor.
 * Returns NULL if Tarn does not know the architecture. */
const TarnCudaArchitecture *_tarn_cuda_find_architecture (gint major, gint minor);

/* Sets the fields that no attribute of the driver states, such as registers_per_thread.  Does not
 * change fields that are set already.  Does nothing if Tarn does not know the architecture. */
void _tarn_cuda_complete_device_data (TarnCudaDeviceData *data);

/* Copies a caller's struct, which may be of an older or newer version, to @ours.  Returns FALSE
 * with an error if this version of Tarn cannot read it. */
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
