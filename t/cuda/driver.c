/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "driver.h"

#include <string.h>

const TarnCudaDriver *
cuda_get_driver (void)
{
  g_autoptr (GError) error = NULL;
  const TarnCudaDriver *driver = _tarn_cuda_get_driver (&error);

  g_assert_no_error (error);
  return driver;
}

CUcontext
cuda_get_current (void)
{
  CUcontext current = NULL;

  g_assert_cmpuint (cuda_get_driver ()->cuCtxGetCurrent (&current), ==, 0);
  return current;
}

CUcontext
cuda_context_new (CUdevice device)
{
  CUcontext context, popped;

  g_assert_cmpuint (cuda_get_driver ()->cuCtxCreate (&context, 0, device), ==, 0);
  g_assert_cmpuint (cuda_get_driver ()->cuCtxPopCurrent (&popped), ==, 0);
  return context;
}

void
cuda_context_destroy (CUcontext context)
{
  g_assert_cmpuint (cuda_get_driver ()->cuCtxDestroy (context), ==, 0);
}

gboolean
cuda_can_tell_contexts (void)
{
  if (cuda_get_driver ()->cuCtxGetId != NULL)
    return TRUE;
  g_test_skip ("this driver cannot tell a context from a later one at its address");
  return FALSE;
}

gsize
cuda_memo_count_entries (TarnMemo *memo)
{
  TarnMemoStats stats = TARN_MEMO_STATS_INIT;

  tarn_memo_get_stats (memo, &stats);
  return stats.entries;
}

TarnAllocator *
cuda_allocator_new (TarnTestingCudaKind kind, CUcontext context, GError **error)
{
  switch (kind)
    {
    case TARN_TESTING_CUDA_HOST_MEMORY:
      return tarn_cuda_host_allocator_new (context, 0, error);
    case TARN_TESTING_CUDA_MANAGED_MEMORY:
      return tarn_cuda_managed_allocator_new (context, 0, error);
    default:
      return tarn_cuda_device_allocator_new (context, error);
    }
}

gboolean
cuda_is_wait (const gchar *function)
{
  static const gchar *before; /* atomic */
  const gchar *previous = __atomic_exchange_n (&before, function, __ATOMIC_RELAXED);

  if (g_str_equal (function, "cuMemFree"))
    return g_strcmp0 (previous, "cuMemAlloc") == 0;
  if (g_str_equal (function, "cuMemFreeHost"))
    return g_strcmp0 (previous, "cuMemHostAlloc") == 0;
  return g_str_equal (function, "cuEventSynchronize");
}

void
cuda_assert_blamed (const GError *error, const gchar *failed, guint status, gboolean for_ever)
{
  g_assert_nonnull (failed);
  if (status == FAKE_CUDA_OUT_OF_MEMORY)
    g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
  else
    g_assert_error (error, TARN_CUDA_ERROR, (gint) status);
  g_assert_cmpint (tarn_error_is_no_memory (error), ==, status == FAKE_CUDA_OUT_OF_MEMORY);
  if (!for_ever) /* no other call can be the reason */
    g_assert_nonnull (strstr (error->message, failed));
}
