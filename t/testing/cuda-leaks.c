/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What the fake CUDA driver says is left, by the way that users have to it. */

#include <string.h>

#include "testing/cuda/fake-cuda.h"

#define SUCCEED(call) g_assert_cmpuint (call, ==, FAKE_CUDA_SUCCESS)

static void
test_get (void)
{
  const TarnTestingCuda *fake = tarn_testing_cuda_get ();

  g_assert_true (fake == tarn_fake_cuda ());
  g_assert_cmpuint (fake->struct_size, ==, sizeof (TarnTestingCuda));
  fake->set_device_count (3);
  g_assert_null (fake->describe_live ());
  tarn_testing_cuda_assert_no_leaks ();
  fake->reset ();
}

static void
test_describe (void)
{
  const TarnTestingCuda *fake = tarn_testing_cuda_get ();
  g_autofree gchar *text = NULL, *expected = NULL;
  CUdeviceptr first, second;
  gboolean is_ascending;
  CUcontext context;
  CUstream stream;

  SUCCEED (cuInit (0));
  SUCCEED (cuCtxCreate_v2 (&context, 0, 1));
  SUCCEED (cuMemAlloc_v2 (&first, 1000));
  SUCCEED (cuMemAlloc_v2 (&second, 24));
  is_ascending = first < second; /* not always in a process of 32 bits */
  SUCCEED (cuStreamCreate (&stream, 0));
  text = fake->describe_live ();
  expected = g_strdup_printf (
      "device memory 0x%" G_GINT64_MODIFIER "x of %d bytes of device 1, device memory "
      "0x%" G_GINT64_MODIFIER "x of %d bytes of device 1, 1 stream, 1 context",
      (guint64) MIN (first, second), is_ascending ? 1000 : 24, (guint64) MAX (first, second),
      is_ascending ? 24 : 1000);
  g_assert_cmpstr (text, ==, expected);
  SUCCEED (cuMemFree_v2 (first));
  SUCCEED (cuCtxDestroy_v2 (context)); /* and what was left in it */
  g_assert_null (fake->describe_live ());
}

static void
test_many (void)
{
  const TarnTestingCuda *fake = tarn_testing_cuda_get ();
  g_autofree gchar *text = NULL;
  CUdeviceptr address;
  CUcontext context;

  SUCCEED (cuInit (0));
  SUCCEED (cuCtxCreate_v2 (&context, 0, 0));
  for (guint i = 0; i < 12; i++)
    SUCCEED (cuMemAlloc_v2 (&address, 8));
  text = fake->describe_live ();
  g_assert_nonnull (strstr (text, " of 8 bytes of device 0 and 2 more, 1 context"));
  SUCCEED (cuCtxDestroy_v2 (context));
}

static void
test_ending (void)
{
  CUcontext context;
  void *memory;

  if (g_test_subprocess ())
    {
      SUCCEED (cuInit (0));
      SUCCEED (cuCtxCreate_v2 (&context, 0, 0));
      SUCCEED (cuMemHostAlloc (&memory, 100, 0));
      tarn_testing_cuda_assert_no_leaks ();
      return;
    }
  g_test_trap_subprocess (NULL, 0, 0);
  g_test_trap_assert_failed ();
  g_test_trap_assert_stderr (
      "*tarn_testing_cuda_assert_no_leaks: the program did not release: page-locked memory "
      "0x* of 100 bytes of device 0, 1 context*");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/testing/cuda-leaks/get", test_get);
  g_test_add_func ("/testing/cuda-leaks/describe", test_describe);
  g_test_add_func ("/testing/cuda-leaks/many", test_many);
  g_test_add_func ("/testing/cuda-leaks/ends", test_ending);
  return g_test_run ();
}
