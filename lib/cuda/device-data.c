/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Fills in a TarnCudaDeviceData from the driver's attributes, and aligns sizes as PyCUDA's
 * DeviceData does. */

#include "common/struct-private.h"
#include "occupancy-private.h"

typedef enum
{
  MAJOR,
  MINOR,
  THREADS_PER_BLOCK,
  THREADS_PER_MP,
  WARP_SIZE,
  BLOCKS_PER_MP,
  REGISTERS_PER_BLOCK,
  REGISTERS_PER_MP,
  SHARED_PER_BLOCK,
  SHARED_PER_BLOCK_OPTIN,
  SHARED_PER_MP,
  SHARED_RESERVED,
  N_ATTRIBUTES
} Attribute;

/* The device attributes (CUdevice_attribute) that this file reads.  A driver that has all functions
 * that Tarn requires may still be too old to know the attributes whose is_recent is TRUE. */
static const struct
{
  unsigned int number;
  const gchar *name;
  /* the lowest valid value of the attribute: a lower answer of the driver is an error */
  gint least;
  gboolean is_recent;
} attributes[N_ATTRIBUTES] = {
  [MAJOR] = { 75, "COMPUTE_CAPABILITY_MAJOR", 1, FALSE },
  [MINOR] = { 76, "COMPUTE_CAPABILITY_MINOR", 0, FALSE },
  [THREADS_PER_BLOCK] = { 1, "MAX_THREADS_PER_BLOCK", 1, FALSE },
  [THREADS_PER_MP] = { 39, "MAX_THREADS_PER_MULTIPROCESSOR", 1, FALSE },
  [WARP_SIZE] = { 10, "WARP_SIZE", 1, FALSE },
  [BLOCKS_PER_MP] = { 106, "MAX_BLOCKS_PER_MULTIPROCESSOR", 1, TRUE },
  [REGISTERS_PER_BLOCK] = { 12, "MAX_REGISTERS_PER_BLOCK", 1, FALSE },
  [REGISTERS_PER_MP] = { 82, "MAX_REGISTERS_PER_MULTIPROCESSOR", 1, FALSE },
  [SHARED_PER_BLOCK] = { 8, "MAX_SHARED_MEMORY_PER_BLOCK", 1, FALSE },
  [SHARED_PER_BLOCK_OPTIN] = { 97, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", 0, TRUE },
  [SHARED_PER_MP] = { 81, "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR", 1, FALSE },
  [SHARED_RESERVED] = { 111, "RESERVED_SHARED_MEMORY_PER_BLOCK", 0, TRUE },
};

#define UNKNOWN (-1)

static gboolean
ask (const TarnCudaDriver *driver, CUdevice device, Attribute attribute, gint *value,
     GError **error)
{
  g_autofree gchar *call
      = g_strdup_printf ("cuDeviceGetAttribute (CU_DEVICE_ATTRIBUTE_%s, device %d)",
                         attributes[attribute].name, device);
  unsigned int status = driver->cuDeviceGetAttribute (value, attributes[attribute].number, device);

  if (status == TARN_CUDA_ERROR_INVALID_VALUE && attributes[attribute].is_recent)
    {
      *value = UNKNOWN;
      return TRUE;
    }
  if (status != TARN_CUDA_SUCCESS)
    {
      _tarn_cuda_set_error (error, driver, call, status);
      return FALSE;
    }
  if (*value < attributes[attribute].least)
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_FAILED, "%s: the driver says %d", call, *value);
      return FALSE;
    }
  return TRUE;
}

/* Returns the largest number of blocks that a multiprocessor of an architecture runs at a time.
 * Tarn uses this number if the driver has no attribute for it.  Returns 0 if the architecture is
 * unknown, or if all drivers for the architecture have the attribute. */
static guint
find_old_blocks_per_mp (gint major, gint minor)
{
  const TarnCudaArchitecture *known = _tarn_cuda_find_architecture (major, minor);

  return known != NULL ? known->old_blocks_per_mp : 0;
}

/* Returns the bytes of shared memory that CUDA reserves in each block, for drivers that have no
 * attribute for this number.  From compute capability 8.0 on, a block can opt in to all of a
 * multiprocessor's shared memory except the reserved bytes.  Before 8.0 CUDA reserved none. */
static gsize
find_old_reserved (const TarnCudaDeviceData *data)
{
  if (data->major < 8 || data->shared_per_mp < data->shared_per_block_optin)
    return 0;
  return data->shared_per_mp - data->shared_per_block_optin;
}

static void
fill_data (TarnCudaDeviceData *data, const gint *values)
{
  data->major = values[MAJOR];
  data->minor = values[MINOR];
  data->max_threads_per_block = (guint) values[THREADS_PER_BLOCK];
  data->warp_size = (guint) values[WARP_SIZE];
  data->warps_per_mp = (guint) (values[THREADS_PER_MP] / values[WARP_SIZE]);
  data->blocks_per_mp = values[BLOCKS_PER_MP] != UNKNOWN
                            ? (guint) values[BLOCKS_PER_MP]
                            : find_old_blocks_per_mp (data->major, data->minor);
  data->registers_per_block = (guint) values[REGISTERS_PER_BLOCK];
  data->registers_per_mp = (guint) values[REGISTERS_PER_MP];
  data->shared_per_block = (gsize) values[SHARED_PER_BLOCK];
  data->shared_per_block_optin = (gsize) MAX (values[SHARED_PER_BLOCK_OPTIN], 0);
  data->shared_per_mp = (gsize) values[SHARED_PER_MP];
  data->shared_reserved_per_block = values[SHARED_RESERVED] != UNKNOWN
                                        ? (gsize) values[SHARED_RESERVED]
                                        : find_old_reserved (data);
  _tarn_cuda_complete_device_data (data);
}

gboolean
_tarn_cuda_ask_device_data (const TarnCudaDriver *driver, CUdevice device, TarnCudaDeviceData *data,
                            GError **error)
{
  TarnCudaDeviceData found = TARN_CUDA_DEVICE_DATA_INIT;
  gint values[N_ATTRIBUTES] = { 0 };

  if (driver->cuDeviceGetAttribute == NULL)
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
                   "the CUDA driver has no cuDeviceGetAttribute");
      return FALSE;
    }
  for (Attribute i = 0; i < N_ATTRIBUTES; i++)
    if (!ask (driver, device, i, &values[i], error))
      return FALSE;
  if (values[THREADS_PER_MP] < values[WARP_SIZE])
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_FAILED,
                   "CUDA device %d: the driver says %d threads per multiprocessor, and warps of %d",
                   device, values[THREADS_PER_MP], values[WARP_SIZE]);
      return FALSE;
    }
  fill_data (&found, values);
  _tarn_struct_write (data, &found, sizeof found);
  return TRUE;
}

gboolean
tarn_cuda_device_data_init (TarnCudaDeviceData *data, CUdevice device, GError **error)
{
  const TarnCudaDriver *driver;

  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  if (!_tarn_struct_has_size_or_set_error (data, "TarnCudaDeviceData", error))
    return FALSE;

  driver = _tarn_cuda_get_driver (error);
  return driver != NULL && _tarn_cuda_ask_device_data (driver, device, data, error);
}

/* Fails if a caller that was compiled for a newer version of Tarn has set a field of @data that
 * this version does not know.  The field might change the result.  The functions that call
 * check_data () need no other check of @data, because their results are the same for all devices.
 */
static gboolean
check_data (const TarnCudaDeviceData *data, GError **error)
{
  TarnCudaDeviceData known;

  return _tarn_cuda_read_device_data (&known, data, error);
}

/* Returns the best alignment, in bytes, for the rows of an array whose words (elements) have
 * @word_size bytes.  Returns 0 if @word_size is not 4, 8 or 16. */
static gsize
find_align_bytes (guint word_size)
{
  if (word_size == 4)
    return 64;
  return word_size == 8 || word_size == 16 ? 128 : 0;
}

static gboolean
check_word_size (guint word_size, GError **error)
{
  if (find_align_bytes (word_size) != 0)
    return TRUE;
  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
               "words of %u bytes: there are those of 4, 8 and 16", word_size);
  return FALSE;
}

static gboolean
round_up (gsize value, gsize unit, gsize most, gsize *rounded, GError **error)
{
  gsize missing = (unit - value % unit) % unit;

  if (value > most || missing > most - value)
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                   "%" G_GSIZE_FORMAT " is too large to be rounded up to a multiple of "
                   "%" G_GSIZE_FORMAT,
                   value, unit);
      return FALSE;
    }
  *rounded = value + missing;
  return TRUE;
}

gboolean
tarn_cuda_device_data_align_bytes (const TarnCudaDeviceData *data, guint word_size, gsize *bytes,
                                   GError **error)
{
  g_return_val_if_fail (data != NULL, FALSE);
  g_return_val_if_fail (bytes != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  if (!check_data (data, error) || !check_word_size (word_size, error))
    return FALSE;
  *bytes = find_align_bytes (word_size);
  return TRUE;
}

gboolean
tarn_cuda_device_data_align (const TarnCudaDeviceData *data, gsize bytes, guint word_size,
                             gsize *aligned, GError **error)
{
  g_return_val_if_fail (data != NULL, FALSE);
  g_return_val_if_fail (aligned != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  return check_data (data, error) && check_word_size (word_size, error)
         && round_up (bytes, find_align_bytes (word_size), G_MAXSIZE, aligned, error);
}

gboolean
tarn_cuda_device_data_align_words (const TarnCudaDeviceData *data, guint word_size, gsize *words,
                                   GError **error)
{
  g_return_val_if_fail (data != NULL, FALSE);
  g_return_val_if_fail (words != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  if (!check_data (data, error) || !check_word_size (word_size, error))
    return FALSE;
  *words = find_align_bytes (word_size) / word_size;
  return TRUE;
}

gboolean
tarn_cuda_device_data_align_dtype (const TarnCudaDeviceData *data, gsize elements, guint word_size,
                                   gsize *aligned, GError **error)
{
  g_return_val_if_fail (data != NULL, FALSE);
  g_return_val_if_fail (aligned != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  return check_data (data, error) && check_word_size (word_size, error)
         && round_up (elements, find_align_bytes (word_size) / word_size, G_MAXSIZE, aligned,
                      error);
}

gboolean
tarn_cuda_device_data_coalesce (const TarnCudaDeviceData *data, guint threads, guint *coalesced,
                                GError **error)
{
  gsize rounded;

  g_return_val_if_fail (data != NULL, FALSE);
  g_return_val_if_fail (coalesced != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  if (!check_data (data, error) || !round_up (threads, 16, G_MAXUINT, &rounded, error))
    return FALSE;
  *coalesced = (guint) rounded;
  return TRUE;
}

gboolean
tarn_cuda_device_data_make_valid_tex_channel_count (const TarnCudaDeviceData *data, guint channels,
                                                    guint *valid, GError **error)
{
  g_return_val_if_fail (data != NULL, FALSE);
  g_return_val_if_fail (valid != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  if (!check_data (data, error))
    return FALSE;
  if (channels > 4)
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                   "%u channels: a texture has at most 4", channels);
      return FALSE;
    }
  *valid = channels <= 1 ? 1 : channels == 2 ? 2 : 4;
  return TRUE;
}

guint
tarn_cuda_device_data_smem_granularity (const TarnCudaDeviceData *data)
{
  TarnCudaDeviceData known = TARN_CUDA_DEVICE_DATA_INIT;
  gboolean is_read = data != NULL && _tarn_struct_read (&known, sizeof known, data);

  g_return_val_if_fail (is_read, 0);

  return known.major >= 2 ? 32 : 16;
}

gsize
tarn_cuda_device_data_smem_alloc_granularity (const TarnCudaDeviceData *data)
{
  TarnCudaDeviceData known = TARN_CUDA_DEVICE_DATA_INIT;
  gboolean is_read = data != NULL && _tarn_struct_read (&known, sizeof known, data);

  g_return_val_if_fail (is_read, 0);

  return known.major >= 2 ? 128 : 512;
}
