/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * An allocator for PyTorch: the two functions that a program passes to
 * torch.cuda.memory.CUDAPluggableAllocator, and the hooks, whose addresses the program sets in that
 * allocator.  If a C++ exception leaves one of these C functions, g_autoptr frees nothing.  So a
 * function frees everything before it throws. */

#include "frameworks-private.h"

/* Returns a number of bytes as text, such as "1.50 GiB".  The caller frees the text. */
static gchar *
format (gsize bytes)
{
  static const gchar *const units[] = { "KiB", "MiB", "GiB" };
  gchar text[G_ASCII_DTOSTR_BUF_SIZE];
  gdouble value = (gdouble) bytes / 1024;
  guint i = 0;

  for (; i + 1 < G_N_ELEMENTS (units) && value >= 1024; i++)
    value /= 1024;
  g_ascii_formatd (text, sizeof text, "%.2f", value); /* writes a decimal point in every locale */
  return g_strdup_printf ("%s %s", text, units[i]);
}

/* Returns a sentence for the message of an exception: how many bytes of a device's shared pool are
 * in use, and how large the largest free range is.  The caller frees the text. */
static gchar *
describe (CUdevice device)
{
  TarnCudaShared *shared = _tarn_cuda_shared_get (device, NULL);
  TarnPoolStats pool = TARN_POOL_STATS_INIT;
  TarnHeapStats heap = TARN_HEAP_STATS_INIT;
  g_autofree gchar *active = NULL, *taken = NULL, *largest = NULL, *total = NULL;

  if (shared == NULL)
    return g_strdup ("");
  tarn_pool_get_stats (shared->pool, &pool);
  if (!tarn_heap_get_stats (tarn_pool_get_upstream (shared->pool), &heap))
    heap.upstream_bytes = pool.managed_bytes;
  active = format (pool.active_bytes);
  taken = format (heap.upstream_bytes);
  largest = format (heap.largest_free_bytes);
  total = format (shared->total_bytes);
  return g_strdup_printf (" %s are in use by %" G_GSIZE_FORMAT
                          " tensors of this process, which has %s of the device's %s; the largest "
                          "free piece of these is %s.",
                          active, pool.active_blocks, taken, total, largest);
}

/* Makes the message of an exception, and frees the error.  If memory has run out, the message
 * begins like the message of PyTorch's own allocator, because programs search for these words. */
static gchar *
make_message (gsize size, CUdevice device, GError *error)
{
  g_autofree gchar *wanted = format (size), *state = describe (device);
  gchar *message
      = tarn_error_is_no_memory (error)
            ? g_strdup_printf ("CUDA out of memory. Tried to allocate %s on device %d.%s "
                               "(Tarn: %s)",
                               wanted, device, state, error->message)
            : g_strdup_printf ("Tarn: %s", error->message);

  g_error_free (error);
  return message;
}

/* Throws an exception of PyTorch for an error, and frees the error. */
static void
throw_error (gsize size, CUdevice device, GError *error)
{
  gboolean is_memory = tarn_error_is_no_memory (error);

  _tarn_cuda_torch_throw (is_memory, make_message (size, device, error));
}

void *
tarn_cuda_torch_malloc (gssize size, int device, CUstream stream)
{
  GError *error = NULL;
  TarnBlock *block;

  if (size <= 0)
    return NULL;
  block = _tarn_cuda_framework_allocate ((gsize) size, device, stream, &error);
  if (block != NULL)
    return _tarn_cuda_framework_address (block);
  throw_error ((gsize) size, device, error);
  return NULL;
}

void
tarn_cuda_torch_free (void *memory, gssize size, int device, CUstream stream)
{
  (void) size;
  (void) device;
  (void) stream;
  _tarn_cuda_framework_free (G_STRFUNC, memory);
}

void
tarn_cuda_torch_record_stream (void *memory, CUstream stream)
{
  GError *error = NULL;
  TarnBlock *block;

  if (memory == NULL || !tarn_check_fork (NULL))
    return;
  block = _tarn_cuda_framework_find (memory);
  if (block == NULL)
    g_critical ("%s: %p is not in use", G_STRFUNC, memory);
  else if (!_tarn_cuda_graph_memory_record (block)
           && !tarn_cuda_block_record_use (block, stream, &error))
    throw_error (0, 0, error);
}

static void
free_held (TarnCudaShared *shared)
{
  tarn_pool_free_held (shared->pool);
}

void
tarn_cuda_torch_empty_cache (void)
{
  if (tarn_check_fork (NULL) && !_tarn_cuda_is_anything_captured ())
    _tarn_cuda_shared_foreach (free_held);
}

/* Computes a fraction of a device's memory, in bytes.  Returns 0 with an error if the fraction is
 * not between 0 and 1, or if the driver did not report the size of the memory. */
static gsize
get_share (const TarnCudaShared *shared, double fraction, GError **error)
{
  if (!(fraction > 0 && fraction <= 1))
    g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                 "a fraction of %g of the device's memory is not between 0 and 1", fraction);
  else if (shared->total_bytes == 0)
    g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
                 "a fraction of %g of the device's memory: the driver does not say how much there "
                 "is",
                 fraction);
  else
    return MAX (1, (gsize) (fraction * (gdouble) shared->total_bytes));
  return 0;
}

void
tarn_cuda_torch_set_memory_fraction (double fraction, int device)
{
  GError *error = NULL;
  TarnCudaShared *shared
      = tarn_check_fork (&error) ? _tarn_cuda_shared_renew (device, &error) : NULL;
  gsize limit_bytes = shared != NULL ? get_share (shared, fraction, &error) : 0;

  if (limit_bytes > 0)
    tarn_pool_set_limit_bytes (shared->pool, limit_bytes);
  else
    throw_error (0, device, error);
}

void
tarn_cuda_torch_begin_allocate_to_pool (int device, TarnCudaTorchPoolId id, void *filter)
{
  GError *error = NULL;

  (void) filter;
  if (!tarn_check_fork (&error) || !_tarn_cuda_graph_memory_begin (device, id, &error))
    throw_error (0, device, error);
}

void
tarn_cuda_torch_end_allocate_to_pool (int device, TarnCudaTorchPoolId id)
{
  if (tarn_check_fork (NULL))
    _tarn_cuda_graph_memory_end (device, id);
}

void
tarn_cuda_torch_release_pool (int device, TarnCudaTorchPoolId id)
{
  if (tarn_check_fork (NULL))
    _tarn_cuda_graph_memory_release (device, id);
}
