/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Arrays in page-locked memory, such as PyCUDA's PageLockedMemoryPool.allocate (shape, dtype,
 * order) makes. */

#include <string.h>
#include <tarn/cuda.h>

#include "common/argument-private.h"
#include "common/struct-private.h"

static gboolean
check_arguments (gsize item_size, gchar order, GError **error)
{
  if (order != 'C' && order != 'F')
    g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                 "the order '%c' is neither 'C', rows first, nor 'F', columns first", order);
  else if (item_size == 0)
    g_set_error_literal (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                         "the items have a size of 0 bytes");
  else
    return TRUE;
  return FALSE;
}

/* Computes the strides (the bytes from one element to the next along each axis), and the bytes of
 * the whole array.  For the strides, an axis of length 0 counts as if its length were 1 (as in
 * NumPy). */
static gboolean
find_strides (guint rank, const gsize *shape, gsize item_size, gchar order, gsize *strides,
              gsize *size, GError **error)
{
  gsize bytes = item_size, all = item_size;

  for (guint i = 0; i < rank; i++)
    {
      guint axis = order == 'C' ? rank - 1 - i : i;

      strides[axis] = bytes;
      if (!g_size_checked_mul (&bytes, bytes, MAX (shape[axis], 1)))
        {
          g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_SIZE,
                       "an array with %" G_GSIZE_FORMAT " elements along axis %u has more bytes "
                       "than a size can hold",
                       shape[axis], axis);
          return FALSE;
        }
      all = shape[axis] == 0 ? 0 : all;
    }
  *size = all == 0 ? 0 : bytes;
  return TRUE;
}

/* Returns TRUE if the caller's version of TarnCudaHostArray has all fields that own memory.  Fields
 * that later versions add must own no memory, because callers with an older version of the struct
 * could not free it. */
static gboolean
has_owners (const TarnCudaHostArray *array)
{
  return array->struct_size >= G_STRUCT_OFFSET (TarnCudaHostArray, strides) + sizeof array->strides;
}

gboolean
tarn_cuda_host_array_allocate (TarnPool *pool, guint rank, const gsize *shape, gsize item_size,
                               gchar order, TarnCudaHostArray *array, GError **error)
{
  g_autofree gsize *strides = g_new (gsize, (gsize) rank + 1);
  TarnCudaHostArray made = TARN_CUDA_HOST_ARRAY_INIT;

  g_return_val_if_fail (rank < G_MAXUINT, FALSE);
  g_return_val_if_fail (array != NULL, FALSE);
  g_return_val_if_fail (rank == 0 || shape != NULL, FALSE);
  g_return_val_if_fail (has_owners (array), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (pool, FALSE);

  if (!check_arguments (item_size, order, error)
      || !find_strides (rank, shape, item_size, order, strides, &made.size, error)
      || (made.block = tarn_pool_allocate (pool, made.size, error)) == NULL)
    return FALSE;
  made.data = tarn_cuda_block_get_host_pointer (made.block);
  if (made.data == NULL && tarn_block_get_alloc_size (made.block) > 0)
    {
      /* The host cannot access the memory; tarn_cuda_block_get_host_pointer () has logged that. */
      tarn_block_free (made.block);
      return FALSE;
    }
  made.rank = rank;
  made.shape = g_new (gsize, (gsize) rank + 1);
  if (rank > 0)
    memcpy (made.shape, shape, rank * sizeof *shape);
  made.strides = g_steal_pointer (&strides);
  made.item_size = item_size;
  _tarn_struct_write (array, &made, sizeof made);
  return TRUE;
}

void
tarn_cuda_host_array_clear (TarnCudaHostArray *array)
{
  const TarnCudaHostArray none = TARN_CUDA_HOST_ARRAY_INIT;
  TarnCudaHostArray known = none;
  gboolean is_read;

  g_return_if_fail (array != NULL && has_owners (array));
  is_read = _tarn_struct_read (&known, sizeof known, array);
  g_return_if_fail (is_read);

  tarn_block_free (known.block);
  g_free (known.shape);
  g_free (known.strides);
  _tarn_struct_write (array, &none, sizeof none);
}
