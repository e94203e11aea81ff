/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Rounding up, as PyCUDA's DeviceData does. */

#include <string.h>
#include <tarn/cuda.h>

/* 0: an error */
static void
check_alignment (guint word_size, gsize align_bytes, gsize align_words)
{
  TarnCudaDeviceData data = TARN_CUDA_DEVICE_DATA_INIT;
  gsize found = 7;
  gboolean is_valid = align_bytes > 0;
  g_autoptr (GError) error = NULL;
  g_autofree gchar *number = g_strdup_printf (" %u ", word_size);

  g_assert_true (tarn_cuda_device_data_align_bytes (&data, word_size, &found, &error) == is_valid);
  g_assert_cmpuint (found, ==, is_valid ? align_bytes : 7);
  if (!is_valid)
    {
      g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
      g_assert_nonnull (strstr (error->message, number));
    }
  g_assert_true (tarn_cuda_device_data_align_words (&data, word_size, &found, NULL) == is_valid);
  g_assert_cmpuint (found, ==, is_valid ? align_words : 7);
  g_assert_true (tarn_cuda_device_data_align (&data, 129, word_size, &found, NULL) == is_valid);
  g_assert_cmpuint (found, ==, is_valid ? (128 / align_bytes + 1) * align_bytes : 7);
  g_assert_true (tarn_cuda_device_data_align_dtype (&data, 33, word_size, &found, NULL)
                 == is_valid);
  g_assert_cmpuint (found, ==, is_valid ? (32 / align_words + 1) * align_words : 7);
}

static void
test_alignment (void)
{
  TarnCudaDeviceData data = TARN_CUDA_DEVICE_DATA_INIT;
  gsize found = 7;
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < 70; i++)
    check_alignment (i, i == 4 ? 64 : i == 8 || i == 16 ? 128 : 0, i == 16 ? 8 : 16);
  g_assert_true (tarn_cuda_device_data_align (&data, 0, 4, &found, NULL));
  g_assert_cmpuint (found, ==, 0);
  g_assert_true (tarn_cuda_device_data_align (&data, 256, 8, &found, NULL));
  g_assert_cmpuint (found, ==, 256);
  g_assert_true (tarn_cuda_device_data_align (&data, G_MAXSIZE - 63, 4, &found, NULL));
  g_assert_cmpuint (found, ==, G_MAXSIZE - 63);
  g_assert_false (tarn_cuda_device_data_align (&data, G_MAXSIZE - 62, 4, &found, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_false (tarn_cuda_device_data_align_dtype (&data, G_MAXSIZE, 16, &found, NULL));
  g_assert_cmpuint (found, ==, G_MAXSIZE - 63);
}

static void
test_coalesce (void)
{
  static const guint rows[][2] = { { 0, 0 }, { 1, 16 }, { 16, 16 }, { 17, 32 }, { 333, 336 } };
  TarnCudaDeviceData data = TARN_CUDA_DEVICE_DATA_INIT;
  guint found = 7;
  g_autoptr (GError) error = NULL;

  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_assert_true (tarn_cuda_device_data_coalesce (&data, rows[i][0], &found, NULL));
      g_assert_cmpuint (found, ==, rows[i][1]);
    }
  g_assert_false (tarn_cuda_device_data_coalesce (&data, G_MAXUINT - 14, &found, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "4294967281"));
  g_assert_cmpuint (found, ==, 336);
}

static void
test_channels (void)
{
  static const guint valid[] = { 1, 1, 2, 4, 4 };
  TarnCudaDeviceData data = TARN_CUDA_DEVICE_DATA_INIT;
  guint found = 7;
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (valid); i++)
    {
      g_assert_true (tarn_cuda_device_data_make_valid_tex_channel_count (&data, i, &found, NULL));
      g_assert_cmpuint (found, ==, valid[i]);
    }
  g_assert_false (tarn_cuda_device_data_make_valid_tex_channel_count (&data, 5, &found, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "5"));
  g_assert_cmpuint (found, ==, 4);
}

static void
test_granularities (void)
{
  TarnCudaDeviceData data = TARN_CUDA_DEVICE_DATA_INIT;

  data.major = 1;
  data.minor = 3;
  g_assert_cmpuint (tarn_cuda_device_data_smem_granularity (&data), ==, 16);
  g_assert_cmpuint (tarn_cuda_device_data_smem_alloc_granularity (&data), ==, 512);
  data.major = 2;
  data.minor = 0;
  g_assert_cmpuint (tarn_cuda_device_data_smem_granularity (&data), ==, 32);
  g_assert_cmpuint (tarn_cuda_device_data_smem_alloc_granularity (&data), ==, 128);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda/align/bytes", test_alignment);
  g_test_add_func ("/cuda/align/coalesce", test_coalesce);
  g_test_add_func ("/cuda/align/channels", test_channels);
  g_test_add_func ("/cuda/align/granularities", test_granularities);
  return g_test_run ();
}
