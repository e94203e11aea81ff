/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Asks the driver how many blocks of a function a multiprocessor can run at a time.  The driver
 * does not say what limits this number: registers, for example, or shared memory.  So Tarn also
 * computes the number by the rules of occupancy.c.  If both numbers are equal, Tarn reports the
 * limit that these rules find. */

#include "common/argument-private.h"
#include "common/struct-private.h"
#include "occupancy-private.h"

/* An attribute of a CUDA function (kernel).  The list has the attributes that this file reads, with
 * the numbers of <cuda.h> (CUfunction_attribute). */
typedef enum
{
  MAX_THREADS_PER_BLOCK = 0,
  SHARED_SIZE_BYTES = 1,
  NUM_REGS = 4,
  MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
} FunctionAttribute;

/* A launch of a function, and the driver's facts about the function and its device. */
typedef struct
{
  TarnCudaDeviceData device;
  guint threads;
  gsize dynamic_shared_bytes;
  gint blocks_per_mp;
  /* the most threads in a block of this function; the function's source may set this limit */
  gint max_threads_per_block;
  gint shared_bytes;             /* the static shared memory that the function declares */
  gint max_dynamic_shared_bytes; /* the most bytes that a launch may have; G_MAXINT if unknown */
  gint registers;
} Launch;

static gboolean
fail_with_status (const TarnCudaDriver *driver, const gchar *call, unsigned int status,
                  GError **error)
{
  if (status == TARN_CUDA_ERROR_INVALID_CONTEXT)
    g_set_error (error, TARN_ERROR, TARN_ERROR_NO_CONTEXT, "%s: no context is current", call);
  else
    _tarn_cuda_set_error (error, driver, call, status);
  return FALSE;
}

static gboolean
check_answer (const gchar *call, gint answer, GError **error)
{
  if (answer >= 0)
    return TRUE;
  g_set_error (error, TARN_ERROR, TARN_ERROR_FAILED, "%s: the driver says %d", call, answer);
  return FALSE;
}

static gboolean
ask_function (const TarnCudaDriver *driver, CUfunction function, FunctionAttribute attribute,
              gint *value, GError **error)
{
  g_autofree gchar *call = g_strdup_printf ("cuFuncGetAttribute (%d)", (gint) attribute);
  unsigned int status = driver->cuFuncGetAttribute (value, attribute, function);

  if (status == TARN_CUDA_ERROR_INVALID_VALUE && attribute == MAX_DYNAMIC_SHARED_SIZE_BYTES)
    {
      *value = G_MAXINT;
      return TRUE;
    }
  if (status != TARN_CUDA_SUCCESS)
    return fail_with_status (driver, call, status, error);
  return check_answer (call, *value, error);
}

static gboolean
ask_blocks (const TarnCudaDriver *driver, CUfunction function, Launch *launch, GError **error)
{
  const gchar *call = "cuOccupancyMaxActiveBlocksPerMultiprocessor";
  unsigned int status = driver->cuOccupancyMaxActiveBlocksPerMultiprocessor (
      &launch->blocks_per_mp, function, (int) launch->threads, launch->dynamic_shared_bytes);

  if (status != TARN_CUDA_SUCCESS)
    return fail_with_status (driver, call, status, error);
  return check_answer (call, launch->blocks_per_mp, error);
}

static gboolean
ask_launch (const TarnCudaDriver *driver, CUfunction function, Launch *launch, GError **error)
{
  CUdevice device;
  unsigned int status = driver->cuCtxGetDevice (&device);

  if (status != TARN_CUDA_SUCCESS)
    return fail_with_status (driver, "cuCtxGetDevice", status, error);
  return ask_blocks (driver, function, launch, error)
         && _tarn_cuda_ask_device_data (driver, device, &launch->device, error)
         && ask_function (driver, function, MAX_THREADS_PER_BLOCK, &launch->max_threads_per_block,
                          error)
         && ask_function (driver, function, SHARED_SIZE_BYTES, &launch->shared_bytes, error)
         && ask_function (driver, function, NUM_REGS, &launch->registers, error)
         && ask_function (driver, function, MAX_DYNAMIC_SHARED_SIZE_BYTES,
                          &launch->max_dynamic_shared_bytes, error);
}

/* Finds the limit on the number of blocks that a multiprocessor can run.  First computes this
 * number by the rules of occupancy.c.  If the driver's number is the same, returns the limit that
 * these rules find.  If not, compares the launch with the function's own maxima.  The maxima come
 * last, because the driver may have derived the maximum of threads from the function's registers:
 * then the registers are the real limit. */
static TarnCudaLimit
find_limit (const Launch *launch)
{
  TarnCudaOccupancy exact = TARN_CUDA_OCCUPANCY_INIT;
  gsize room = G_MAXSIZE - (gsize) launch->shared_bytes;
  gsize shared = (gsize) launch->shared_bytes + MIN (launch->dynamic_shared_bytes, room);

  if (tarn_cuda_occupancy (&launch->device, launch->threads, shared, (guint) launch->registers,
                           TARN_CUDA_OCCUPANCY_EXACT, &exact, NULL)
      && exact.blocks_per_mp == (guint) launch->blocks_per_mp)
    return exact.limited_by;
  if (launch->blocks_per_mp == 0 && launch->threads > (guint) launch->max_threads_per_block)
    return TARN_CUDA_LIMIT_DEVICE;
  if (launch->blocks_per_mp == 0
      && launch->dynamic_shared_bytes > (gsize) launch->max_dynamic_shared_bytes)
    return TARN_CUDA_LIMIT_SHARED;
  return TARN_CUDA_LIMIT_UNKNOWN;
}

static gboolean
has_functions (const TarnCudaDriver *driver, GError **error)
{
  if (driver->cuDeviceGetAttribute != NULL && driver->cuCtxGetDevice != NULL
      && driver->cuFuncGetAttribute != NULL
      && driver->cuOccupancyMaxActiveBlocksPerMultiprocessor != NULL
      && driver->cuOccupancyMaxPotentialBlockSize != NULL)
    return TRUE;
  g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
               "the CUDA driver cannot be asked for a function's occupancy: it is too old");
  return FALSE;
}

gboolean
_tarn_cuda_ask_occupancy (const TarnCudaDriver *driver, CUfunction function, guint threads,
                          gsize dynamic_shared_bytes, TarnCudaOccupancy *occupancy, GError **error)
{
  TarnCudaOccupancy found = TARN_CUDA_OCCUPANCY_INIT;
  Launch launch = { .device = TARN_CUDA_DEVICE_DATA_INIT,
                    .threads = threads,
                    .dynamic_shared_bytes = dynamic_shared_bytes };
  guint warps;

  if (threads == 0 || threads > G_MAXINT)
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT, "a block of %u threads",
                   threads);
      return FALSE;
    }
  if (!has_functions (driver, error) || !ask_launch (driver, function, &launch, error))
    return FALSE;
  warps = threads / launch.device.warp_size + (threads % launch.device.warp_size != 0);
  found.blocks_per_mp = (guint) launch.blocks_per_mp;
  found.warps_per_mp = found.blocks_per_mp * warps;
  found.occupancy = (gdouble) found.warps_per_mp / launch.device.warps_per_mp;
  found.limited_by = find_limit (&launch);
  _tarn_struct_write (occupancy, &found, sizeof found);
  return TRUE;
}

gboolean
tarn_cuda_occupancy_for_function (CUfunction function, guint threads, gsize dynamic_shared_bytes,
                                  TarnCudaOccupancy *occupancy, GError **error)
{
  const TarnCudaDriver *driver;

  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  if (!_tarn_struct_has_size_or_set_error (occupancy, "TarnCudaOccupancy", error))
    return FALSE;
  TARN_REFUSE_NULL (function, FALSE);

  driver = _tarn_cuda_get_driver (error);
  return driver != NULL
         && _tarn_cuda_ask_occupancy (driver, function, threads, dynamic_shared_bytes, occupancy,
                                      error);
}

gboolean
_tarn_cuda_ask_block_size (const TarnCudaDriver *driver, CUfunction function,
                           gsize dynamic_shared_bytes, guint *min_grid_size, guint *block_size,
                           GError **error)
{
  const gchar *call = "cuOccupancyMaxPotentialBlockSize";
  gint grid = 0, block = 0;
  unsigned int status;

  if (!has_functions (driver, error))
    return FALSE;
  status = driver->cuOccupancyMaxPotentialBlockSize (&grid, &block, function, NULL,
                                                     dynamic_shared_bytes, 0);
  if (status != TARN_CUDA_SUCCESS)
    return fail_with_status (driver, call, status, error);
  if (!check_answer (call, MIN (grid, block), error))
    return FALSE;
  if (min_grid_size != NULL)
    *min_grid_size = (guint) grid;
  if (block_size != NULL)
    *block_size = (guint) block;
  return TRUE;
}

gboolean
tarn_cuda_suggest_block_size (CUfunction function, gsize dynamic_shared_bytes, guint *min_grid_size,
                              guint *block_size, GError **error)
{
  const TarnCudaDriver *driver;

  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (function, FALSE);

  driver = _tarn_cuda_get_driver (error);
  return driver != NULL
         && _tarn_cuda_ask_block_size (driver, function, dynamic_shared_bytes, min_grid_size,
                                       block_size, error);
}
