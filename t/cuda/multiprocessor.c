/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A multiprocessor that is filled block by block, warp by warp: no formula of the library's is
 * here. */

#include "multiprocessor.h"

const CudaDevice cuda_devices[] = {
  { 3, 0, 64, 16, 65536, 65536, 49152, 49152, 0 },
  { 3, 5, 64, 16, 65536, 65536, 49152, 49152, 0 },
  { 3, 7, 64, 16, 65536, 131072, 49152, 114688, 0 },
  { 5, 2, 64, 32, 65536, 65536, 49152, 98304, 0 },
  { 5, 3, 64, 32, 32768, 65536, 49152, 65536, 0 },
  { 6, 0, 64, 32, 65536, 65536, 49152, 65536, 0 },
  { 6, 1, 64, 32, 65536, 65536, 49152, 98304, 0 },
  { 7, 0, 64, 32, 65536, 65536, 98304, 98304, 0 },
  { 7, 5, 32, 16, 65536, 65536, 65536, 65536, 0 },
  { 8, 0, 64, 32, 65536, 65536, 166912, 167936, 1024 },
  { 8, 6, 48, 16, 65536, 65536, 101376, 102400, 1024 },
  { 8, 9, 48, 24, 65536, 65536, 101376, 102400, 1024 },
  { 9, 0, 64, 32, 65536, 65536, 232448, 233472, 1024 },
  { 10, 0, 64, 32, 65536, 65536, 232448, 233472, 1024 },
  { 12, 0, 48, 24, 65536, 65536, 101376, 102400, 1024 },
};

const gsize cuda_n_devices = G_N_ELEMENTS (cuda_devices);

TarnCudaDeviceData
cuda_make_data (const CudaDevice *device)
{
  TarnCudaDeviceData data = TARN_CUDA_DEVICE_DATA_INIT;

  data.major = device->major;
  data.minor = device->minor;
  data.max_threads_per_block = 1024;
  data.warp_size = 32;
  data.warps_per_mp = device->warps_per_mp;
  data.blocks_per_mp = device->blocks_per_mp;
  data.registers_per_block = device->registers_per_block;
  data.registers_per_mp = device->registers_per_mp;
  data.shared_per_block = 49152;
  data.shared_per_block_optin = device->shared_per_block_optin;
  data.shared_per_mp = device->shared_per_mp;
  data.shared_reserved_per_block = device->shared_reserved_per_block;
  return data;
}

const CudaDevice *
cuda_find_device (gint major, gint minor)
{
  for (gsize i = 0; i < cuda_n_devices; i++)
    if (cuda_devices[i].major == major && cuda_devices[i].minor == minor)
      return &cuda_devices[i];
  g_assert_not_reached ();
}

/* What is left of it. */
typedef struct
{
  guint n_parts;
  guint registers[4]; /* in each part */
  guint blocks, warps;
  gsize shared_bytes;
} Multiprocessor;

/* Each warp goes where most registers are left; FALSE if there are not enough anywhere. */
static gboolean
place_warp (Multiprocessor *mp, guint registers)
{
  guint best = 0;

  for (guint i = 1; i < mp->n_parts; i++)
    if (mp->registers[i] > mp->registers[best])
      best = i;
  if (mp->registers[best] < registers)
    return FALSE;
  mp->registers[best] -= registers;
  return TRUE;
}

static gboolean
place_block (Multiprocessor *mp, guint warps, guint registers, gsize shared_bytes)
{
  if (mp->blocks == 0 || mp->warps < warps || mp->shared_bytes < shared_bytes)
    return FALSE;
  mp->blocks--;
  mp->warps -= warps;
  mp->shared_bytes -= shared_bytes;
  for (guint i = 0; i < warps; i++)
    if (!place_warp (mp, registers))
      return FALSE;
  return TRUE;
}

static Multiprocessor
make_multiprocessor (const CudaDevice *device, guint registers, guint blocks, guint n_parts)
{
  Multiprocessor mp = { n_parts, { 0 }, blocks, device->warps_per_mp, device->shared_per_mp };

  for (guint i = 0; i < mp.n_parts; i++)
    mp.registers[i] = registers / mp.n_parts;
  return mp;
}

guint
cuda_simulate (const CudaDevice *device, guint threads, gsize shared_bytes, guint registers)
{
  const guint n_parts = device->major == 6 && device->minor == 0 ? 2 : 4;
  Multiprocessor mp
      = make_multiprocessor (device, device->registers_per_mp, device->blocks_per_mp, n_parts);
  Multiprocessor alone = make_multiprocessor (device, device->registers_per_block, 1, 4);
  guint warps = 0, warp_registers = 0, blocks = 0;
  gsize bytes = 0;

  if (threads > 1024 || registers > (device->major == 3 && device->minor == 0 ? 63 : 255)
      || shared_bytes > device->shared_per_block_optin)
    return 0;
  while (warps * 32 < threads)
    warps++;
  while (warp_registers < registers * 32)
    warp_registers += 256;
  while (bytes < shared_bytes + device->shared_reserved_per_block)
    bytes += device->major < 8 ? 256 : 128;
  if (!place_block (&alone, warps, warp_registers, bytes))
    return 0;
  while (place_block (&mp, warps, warp_registers, bytes))
    blocks++;
  return blocks;
}
