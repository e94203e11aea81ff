/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Computes how many blocks of a kernel a multiprocessor can run at a time.  Uses only numbers that
 * the caller passes, and does not call the driver. */

#include "occupancy-private.h"

#include "common/struct-private.h"

/* The architectures, as of November 2026, from NVIDIA's publications: the occupancy calculator, and
 * the technical specifications of each compute capability in the programming guide.  Architectures
 * below 3.0 have other rules, and are not in this table.  Add a new architecture only when NVIDIA
 * has published the architecture's numbers, because nobody would notice a wrong guess. */
static const TarnCudaArchitecture architectures[] = {
  { 3, 0, 0, 63, 4, 256, 16 },  { 3, 2, 7, 255, 4, 256, 16 }, { 5, 0, 3, 255, 4, 256, 32 },
  { 6, 0, 0, 255, 2, 256, 32 }, { 6, 1, 2, 255, 4, 256, 32 }, { 7, 0, 2, 255, 4, 256, 32 },
  { 7, 5, 5, 255, 4, 256, 16 }, { 8, 0, 0, 255, 4, 128, 0 },  { 8, 6, 9, 255, 4, 128, 0 },
  { 9, 0, 0, 255, 4, 128, 0 },  { 10, 0, 3, 255, 4, 128, 0 }, { 11, 0, 0, 255, 4, 128, 0 },
  { 12, 0, 1, 255, 4, 128, 0 },
};

/* The number of registers of a warp is rounded up to a multiple of this number, on all
 * architectures. */
#define REGISTER_ALLOCATION_UNIT 256

const TarnCudaArchitecture *
_tarn_cuda_find_architecture (gint major, gint minor)
{
  for (gsize i = 0; i < G_N_ELEMENTS (architectures); i++)
    if (architectures[i].major == major && architectures[i].first_minor <= minor
        && minor <= architectures[i].last_minor)
      return &architectures[i];
  return NULL;
}

void
_tarn_cuda_complete_device_data (TarnCudaDeviceData *data)
{
  const TarnCudaArchitecture *known = _tarn_cuda_find_architecture (data->major, data->minor);

  if (known == NULL)
    return;
  if (data->registers_per_thread == 0)
    data->registers_per_thread = known->registers_per_thread;
  if (data->register_allocation_unit == 0)
    data->register_allocation_unit = REGISTER_ALLOCATION_UNIT;
  if (data->warp_allocation_granularity == 0)
    data->warp_allocation_granularity = known->warp_allocation_granularity;
  if (data->shared_allocation_unit == 0)
    data->shared_allocation_unit = known->shared_allocation_unit;
}

gboolean
_tarn_cuda_read_device_data (TarnCudaDeviceData *ours, const TarnCudaDeviceData *theirs,
                             GError **error)
{
  *ours = (TarnCudaDeviceData) TARN_CUDA_DEVICE_DATA_INIT;
  return _tarn_struct_read_or_set_error (ours, sizeof *ours, theirs, "TarnCudaDeviceData", error);
}

/* The lowest limit among the limits considered so far: its kind, and the number of blocks that it
 * allows. */
typedef struct
{
  guint64 blocks;
  TarnCudaLimit by;
} Least;

#define NO_LIMIT G_MAXUINT64

/* Updates @least if a limit allows fewer blocks than all limits considered so far. */
static void
consider_limit (Least *least, TarnCudaLimit by, guint64 blocks)
{
  if (blocks < least->blocks)
    *least = (Least){ blocks, by };
}

static guint64
divide_up (guint64 a, guint64 b)
{
  return a / b + (a % b != 0);
}

static void
fill_occupancy (TarnCudaOccupancy *occupancy, const Least *least, guint64 warps_per_block,
                guint warps_per_mp)
{
  TarnCudaOccupancy found = TARN_CUDA_OCCUPANCY_INIT;

  found.blocks_per_mp = (guint) least->blocks;
  found.warps_per_mp = (guint) (least->blocks * warps_per_block);
  found.occupancy = (gdouble) found.warps_per_mp / warps_per_mp;
  found.limited_by = least->by;
  _tarn_struct_write (occupancy, &found, sizeof found);
}

static gboolean
refuse_launch (GError **error, const gchar *what, guint64 value, guint64 most)
{
  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
               "%s: %" G_GUINT64_FORMAT ", and there are %" G_GUINT64_FORMAT, what, value, most);
  return FALSE;
}

/* Returns the greatest number of warps that a multiprocessor can run at a time, as PyCUDA assumes
 * it. */
static guint
find_pycuda_warps_per_mp (const TarnCudaDeviceData *data)
{
  if (data->major >= 3)
    return 64;
  if (data->major == 2)
    return 48;
  return data->major == 1 && data->minor >= 2 ? 32 : 24;
}

/* Computes the occupancy by PyCUDA's rules.  These rules use the device's limits for a block, and
 * none of the device's limits for a multiprocessor. */
static gboolean
find_as_pycuda (const TarnCudaDeviceData *data, guint threads, gsize shared_bytes, guint registers,
                TarnCudaOccupancy *occupancy, GError **error)
{
  const guint warp_size = 32, blocks_per_mp = 8;
  guint warps_per_mp = find_pycuda_warps_per_mp (data);
  guint64 warps = divide_up (threads, warp_size);
  guint64 register_rows = data->major >= 2 ? warps * 2 : divide_up (warps * 2, 4) * 4;
  guint64 block_registers = register_rows * 16 * registers;
  gsize shared_unit = tarn_cuda_device_data_smem_alloc_granularity (data);
  guint64 shared_units = divide_up (shared_bytes, shared_unit);
  Least least = { NO_LIMIT, TARN_CUDA_LIMIT_DEVICE };

  if (threads > data->max_threads_per_block)
    return refuse_launch (error, "too many threads", threads, data->max_threads_per_block);
  if (block_registers > data->registers_per_block)
    return refuse_launch (error, "too many registers", block_registers, data->registers_per_block);
  if (shared_units > data->shared_per_block / shared_unit)
    return refuse_launch (error, "too much smem", shared_bytes, data->shared_per_block);
  consider_limit (&least, TARN_CUDA_LIMIT_DEVICE, blocks_per_mp);
  if (block_registers > 0)
    consider_limit (&least, TARN_CUDA_LIMIT_REGISTERS, data->registers_per_block / block_registers);
  if (shared_units > 0)
    consider_limit (&least, TARN_CUDA_LIMIT_SHARED,
                    data->shared_per_block / shared_unit / shared_units);
  consider_limit (&least, TARN_CUDA_LIMIT_WARPS, warps_per_mp / warps);
  fill_occupancy (occupancy, &least, warps, warps_per_mp);
  return TRUE;
}

/* Returns the number of warps for which @registers registers are enough.  The registers are divided
 * equally among the parts of a multiprocessor, and all registers of a warp are in one part. */
static guint64
count_warps (guint registers, guint parts, guint64 warp_registers)
{
  return registers / parts / warp_registers * parts;
}

static guint64
count_blocks_by_registers (const TarnCudaDeviceData *data, guint64 warps, guint registers)
{
  const guint parts = data->warp_allocation_granularity;
  /* A multiprocessor of compute capability 6.0 has two parts.  But it runs a block only if the
   * registers of this block would fit into a multiprocessor with four parts, too. */
  const guint block_parts = parts == 2 ? 4 : parts;
  guint64 warp_registers
      = divide_up ((guint64) registers * data->warp_size, data->register_allocation_unit)
        * data->register_allocation_unit;

  if (registers > data->registers_per_thread)
    return 0;
  if (registers == 0)
    return NO_LIMIT;
  if (count_warps (data->registers_per_block, block_parts, warp_registers) < warps)
    return 0;
  return count_warps (data->registers_per_mp, parts, warp_registers) / warps;
}

static guint64
count_blocks_by_shared (const TarnCudaDeviceData *data, gsize shared_bytes)
{
  gsize most = MAX (data->shared_per_block, data->shared_per_block_optin);
  gsize bytes;

  if (shared_bytes > most || data->shared_reserved_per_block > data->shared_per_mp
      || shared_bytes > data->shared_per_mp - data->shared_reserved_per_block)
    return 0;
  bytes = shared_bytes + data->shared_reserved_per_block;
  if (bytes == 0)
    return NO_LIMIT;
  return data->shared_per_mp / data->shared_allocation_unit
         / divide_up (bytes, data->shared_allocation_unit);
}

/* Fails if Tarn cannot compute the occupancy, because it does not know the architecture, or a field
 * of @data is not set. */
static gboolean
check_device_data (const TarnCudaDeviceData *data, GError **error)
{
  const struct
  {
    const gchar *name;
    gsize value;
    gboolean is_by_capability;
  } fields[] = {
    { "registers_per_thread", data->registers_per_thread, TRUE },
    { "register_allocation_unit", data->register_allocation_unit, TRUE },
    { "warp_allocation_granularity", data->warp_allocation_granularity, TRUE },
    { "shared_allocation_unit", data->shared_allocation_unit, TRUE },
    { "max_threads_per_block", data->max_threads_per_block, FALSE },
    { "warp_size", data->warp_size, FALSE },
    { "warps_per_mp", data->warps_per_mp, FALSE },
    { "blocks_per_mp", data->blocks_per_mp, FALSE },
    { "registers_per_block", data->registers_per_block, FALSE },
    { "registers_per_mp", data->registers_per_mp, FALSE },
    { "shared_per_block", data->shared_per_block, FALSE },
    { "shared_per_mp", data->shared_per_mp, FALSE },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (fields); i++)
    if (fields[i].value == 0 && fields[i].is_by_capability)
      {
        g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
                     "%s of compute capability %d.%d is not known", fields[i].name, data->major,
                     data->minor);
        return FALSE;
      }
    else if (fields[i].value == 0)
      {
        g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT, "the device's %s is 0",
                     fields[i].name);
        return FALSE;
      }
  return TRUE;
}

static gboolean
find_exactly (TarnCudaDeviceData *data, guint threads, gsize shared_bytes, guint registers,
              TarnCudaOccupancy *occupancy, GError **error)
{
  Least least = { NO_LIMIT, TARN_CUDA_LIMIT_DEVICE };
  guint64 warps;

  _tarn_cuda_complete_device_data (data);
  if (!check_device_data (data, error))
    return FALSE;
  warps = divide_up (threads, data->warp_size);
  consider_limit (&least, TARN_CUDA_LIMIT_DEVICE,
                  threads <= data->max_threads_per_block ? data->blocks_per_mp : 0);
  consider_limit (&least, TARN_CUDA_LIMIT_REGISTERS,
                  count_blocks_by_registers (data, warps, registers));
  consider_limit (&least, TARN_CUDA_LIMIT_SHARED, count_blocks_by_shared (data, shared_bytes));
  consider_limit (&least, TARN_CUDA_LIMIT_WARPS, data->warps_per_mp / warps);
  fill_occupancy (occupancy, &least, warps, data->warps_per_mp);
  return TRUE;
}

gboolean
tarn_cuda_occupancy (const TarnCudaDeviceData *data, guint threads, gsize shared_bytes,
                     guint registers, TarnCudaOccupancyMode mode, TarnCudaOccupancy *occupancy,
                     GError **error)
{
  TarnCudaDeviceData known;

  g_return_val_if_fail (data != NULL, FALSE);
  g_return_val_if_fail (mode == TARN_CUDA_OCCUPANCY_EXACT || mode == TARN_CUDA_OCCUPANCY_PYCUDA,
                        FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  if (!_tarn_struct_has_size_or_set_error (occupancy, "TarnCudaOccupancy", error))
    return FALSE;

  if (!_tarn_cuda_read_device_data (&known, data, error))
    return FALSE;
  if (threads == 0)
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT, "a block of 0 threads");
      return FALSE;
    }
  if (mode == TARN_CUDA_OCCUPANCY_PYCUDA)
    return find_as_pycuda (&known, threads, shared_bytes, registers, occupancy, error);
  return find_exactly (&known, threads, shared_bytes, registers, occupancy, error);
}
