/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Callers of libtarn-cuda that were compiled with other versions of its structs, on the fake
 * driver. */

#include <tarn/cuda.h>

#include "lib/struct-sizes.h"
#include "multiprocessor.h"
#include "testing/cuda/fake-cuda.h"

/* All but the last field of each */

typedef struct
{
  gsize struct_size;
  GBytes *image;
} OldTarnCudaFunctionKey;

STRUCT_SIZES_VERSIONS (TarnCudaFunctionKey, const gchar *name, name);

typedef struct
{
  gsize struct_size;
  TarnBlock *block;
  gpointer data;
  guint rank;
  gsize *shape;
  gsize *strides;
  gsize item_size;
} OldTarnCudaHostArray;

STRUCT_SIZES_VERSIONS (TarnCudaHostArray, gsize size, size);

typedef struct
{
  gsize struct_size;
  gint major;
  gint minor;
  guint max_threads_per_block;
  guint warp_size;
  guint warps_per_mp;
  guint blocks_per_mp;
  guint registers_per_block;
  guint registers_per_mp;
  guint registers_per_thread;
  gsize shared_per_block;
  gsize shared_per_block_optin;
  gsize shared_per_mp;
  gsize shared_reserved_per_block;
  guint register_allocation_unit;
  guint warp_allocation_granularity;
} OldTarnCudaDeviceData;

STRUCT_SIZES_VERSIONS (TarnCudaDeviceData, gsize shared_allocation_unit, shared_allocation_unit);

typedef struct
{
  gsize struct_size;
  guint blocks_per_mp;
  guint warps_per_mp;
  gdouble occupancy;
} OldTarnCudaOccupancy;

STRUCT_SIZES_VERSIONS (TarnCudaOccupancy, TarnCudaLimit limited_by; guint reserved, reserved);

typedef struct
{
  gsize struct_size;
  gboolean plain_memory;
  gboolean exportable;
  const CUdevice *peers;
} OldTarnCudaDeviceOptions;

STRUCT_SIZES_VERSIONS (TarnCudaDeviceOptions, gsize n_peers, n_peers);

/* Nor is there any between the fields. */
G_STATIC_ASSERT (sizeof (TarnCudaDeviceOptions)
                 == 2 * sizeof (gsize) + 2 * sizeof (gboolean) + sizeof (gpointer));

static void
test_defaults (void)
{
  struct_sizes_check_defaults (TarnCudaDeviceOptions, TARN_CUDA_DEVICE_OPTIONS_INIT);
  struct_sizes_check_defaults (TarnCudaFunctionKey, TARN_CUDA_FUNCTION_KEY_INIT);
  struct_sizes_check_defaults (TarnCudaHostArray, TARN_CUDA_HOST_ARRAY_INIT);
  struct_sizes_check_defaults (TarnCudaDeviceData, TARN_CUDA_DEVICE_DATA_INIT);
  struct_sizes_check_defaults (TarnCudaOccupancy, TARN_CUDA_OCCUPANCY_INIT);
}

/* Function keys */

static void
refuse (TarnMemo *functions, gconstpointer key, const gchar *text)
{
  g_autoptr (GError) error = NULL;
  gpointer function = NULL;

  g_assert_false (tarn_memo_get (functions, NULL, key, &function, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, text));
  g_assert_null (function);
}

static TarnCudaFunctionKey
make_key (void)
{
  static const gchar ptx[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
                             ".visible .entry one ()\n{\n  ret;\n}\n";
  TarnCudaFunctionKey key = TARN_CUDA_FUNCTION_KEY_INIT;

  key.image = g_bytes_new_static (ptx, sizeof ptx);
  key.name = "one";
  return key;
}

static void
test_older_key (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (TarnMemo) functions = tarn_cuda_function_memo_new (NULL);
  TarnCudaFunctionKey key = make_key ();
  OlderTarnCudaFunctionKey older;
  g_autoptr (GError) error = NULL;
  CUfunction function = NULL;

  (void) unused;
  struct_sizes_begin_from (&older, &key);
  refuse (functions, &older, "no name");
  g_assert_false (
      tarn_cuda_function_memo_get (functions, test->context, (gpointer) &older, &function, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_null (function);
  g_bytes_unref (key.image);
}

static void
test_newer_key (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (TarnMemo) functions = tarn_cuda_function_memo_new (NULL);
  TarnCudaFunctionKey key = make_key ();
  TarnMemoStats stats = TARN_MEMO_STATS_INIT;
  g_autoptr (GError) error = NULL;
  NewerTarnCudaFunctionKey newer;
  gpointer value = NULL;
  CUfunction function = NULL;

  (void) unused;
  /* The same entry as that of a caller of this version. */
  struct_sizes_begin_from (&newer, &key);
  g_assert_true (tarn_memo_get (functions, NULL, &newer, &value, NULL));
  g_assert_true (tarn_cuda_function_memo_get (functions, test->context, &key, &function, NULL));
  g_assert_true (value == function);

  newer.as.later = &newer;
  refuse (functions, &newer, "TarnCudaFunctionKey");
  function = NULL;
  g_assert_false (
      tarn_cuda_function_memo_get (functions, NULL, &newer.as.known, &function, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_null (function);
  newer.as.known.struct_size = 0;
  refuse (functions, &newer, "TarnCudaFunctionKey");
  tarn_memo_get_stats (functions, &stats);
  g_assert_cmpuint (stats.entries, ==, 1);
  g_bytes_unref (key.image);
}

/* Options of device memory */

/* Whoever cannot say how many peers there are has none. */
static void
test_older_options (const TarnCudaTest *test, gconstpointer unused)
{
  TarnCudaDeviceOptions options = TARN_CUDA_DEVICE_OPTIONS_INIT;
  CUdevice peer = 1 - test->device;
  OlderTarnCudaDeviceOptions older;
  g_autoptr (GError) error = NULL;
  TarnAllocator *allocator;

  (void) unused;
  options.plain_memory = TRUE;
  options.peers = &peer;
  struct_sizes_begin_from (&older, &options);
  allocator = tarn_cuda_device_allocator_new_with_options (NULL, (gpointer) &older, &error);
  g_assert_no_error (error);
  tarn_allocator_unref (allocator);
  older.as.exportable = TRUE; /* it was read */
  g_assert_null (tarn_cuda_device_allocator_new_with_options (NULL, (gpointer) &older, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
}

static void
test_newer_options (const TarnCudaTest *test, gconstpointer unused)
{
  TarnCudaDeviceOptions options = TARN_CUDA_DEVICE_OPTIONS_INIT;
  NewerTarnCudaDeviceOptions newer;
  g_autoptr (GError) error = NULL;
  TarnAllocator *allocator;

  (void) test;
  (void) unused;
  struct_sizes_begin_from (&newer, &options);
  allocator = tarn_cuda_device_allocator_new_with_options (NULL, &newer.as.known, &error);
  g_assert_no_error (error);
  tarn_allocator_unref (allocator);
  newer.as.later = &newer;
  g_assert_null (tarn_cuda_device_allocator_new_with_options (NULL, &newer.as.known, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "TarnCudaDeviceOptions"));
}

/* Arrays */

static gboolean
allocate (TarnPool *pool, gpointer array)
{
  const gsize shape[] = { 3, 5 };

  return tarn_cuda_host_array_allocate (pool, 2, shape, 8, 'C', array, NULL);
}

static void
test_host_array (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (TarnAllocator) allocator = tarn_cuda_host_allocator_new (test->context, 0, NULL);
  g_autoptr (TarnPool) pool = tarn_pool_new (allocator, NULL, NULL);
  OlderTarnCudaHostArray older;
  NewerTarnCudaHostArray newer;

  (void) unused;
  struct_sizes_begin (&older);
  g_assert_true (allocate (pool, &older));
  struct_sizes_check (&older);
  g_assert_cmpuint (older.as.item_size, ==, 8);
  g_assert_cmpuint (older.as.strides[0], ==, 40);
  tarn_cuda_host_array_clear ((gpointer) &older);
  struct_sizes_check (&older);
  g_assert_null (older.as.block);
  g_assert_cmpuint (older.as.item_size, ==, 0);
  tarn_cuda_host_array_clear ((gpointer) &older);

  struct_sizes_begin (&newer);
  g_assert_true (allocate (pool, &newer));
  struct_sizes_check (&newer);
  g_assert_cmpuint (newer.as.known.size, ==, 120);
  g_assert_null (newer.as.later);
  newer.as.later = &newer;
  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_CRITICAL, "*is_read*");
  tarn_cuda_host_array_clear (&newer.as.known);
  g_test_assert_expected_messages ();
  g_assert_nonnull (newer.as.known.block);
  newer.as.later = NULL;
  tarn_cuda_host_array_clear (&newer.as.known);
  struct_sizes_check (&newer);
  g_assert_null (newer.as.known.block);
  g_assert_cmpuint (tarn_pool_get_active_blocks (pool), ==, 0);
}

/* Without what it owns, nobody could give it back. */
static void
test_no_array (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (TarnAllocator) allocator = tarn_cuda_host_allocator_new (test->context, 0, NULL);
  g_autoptr (TarnPool) pool = tarn_pool_new (allocator, NULL, NULL);
  TarnCudaHostArray array = TARN_CUDA_HOST_ARRAY_INIT;

  (void) unused;
  array.struct_size = G_STRUCT_OFFSET (TarnCudaHostArray, strides);
  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_CRITICAL, "*has_owners*");
  g_assert_false (allocate (pool, &array));
  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_CRITICAL, "*has_owners*");
  tarn_cuda_host_array_clear (&array);
  g_test_assert_expected_messages ();
}

/* Occupancy */

static void
test_occupancy (void)
{
  TarnCudaDeviceData data = cuda_make_data (cuda_find_device (9, 0));
  OlderTarnCudaOccupancy older;
  NewerTarnCudaOccupancy newer;

  struct_sizes_begin (&older);
  g_assert_true (
      tarn_cuda_occupancy (&data, 32, 0, 16, TARN_CUDA_OCCUPANCY_EXACT, (gpointer) &older, NULL));
  struct_sizes_check (&older);
  g_assert_cmpuint (older.as.blocks_per_mp, ==, 32);
  g_assert_cmpfloat (older.as.occupancy, >, 0);
  struct_sizes_begin (&newer);
  g_assert_true (
      tarn_cuda_occupancy (&data, 32, 0, 16, TARN_CUDA_OCCUPANCY_EXACT, &newer.as.known, NULL));
  struct_sizes_check (&newer);
  g_assert_cmpuint (newer.as.known.blocks_per_mp, ==, 32);
  g_assert_cmpint (newer.as.known.limited_by, ==, TARN_CUDA_LIMIT_DEVICE);
  g_assert_cmpuint (newer.as.known.reserved, ==, 0);
  g_assert_null (newer.as.later);
}

/* Every function that reads what a device has: those that can say so refuse what they do not know.
 */
static void
check_readers (gconstpointer data, gboolean can_read)
{
  TarnCudaOccupancy occupancy = TARN_CUDA_OCCUPANCY_INIT;
  GError *errors[7] = { NULL };
  gboolean answers[7];
  gsize bytes;
  guint n;

  answers[0]
      = tarn_cuda_occupancy (data, 32, 0, 16, TARN_CUDA_OCCUPANCY_EXACT, &occupancy, &errors[0]);
  answers[1] = tarn_cuda_device_data_align_bytes (data, 4, &bytes, &errors[1]);
  answers[2] = tarn_cuda_device_data_align (data, 5, 4, &bytes, &errors[2]);
  answers[3] = tarn_cuda_device_data_align_words (data, 4, &bytes, &errors[3]);
  answers[4] = tarn_cuda_device_data_align_dtype (data, 5, 4, &bytes, &errors[4]);
  answers[5] = tarn_cuda_device_data_coalesce (data, 5, &n, &errors[5]);
  answers[6] = tarn_cuda_device_data_make_valid_tex_channel_count (data, 3, &n, &errors[6]);
  for (guint i = 0; i < G_N_ELEMENTS (answers); i++)
    {
      g_assert_cmpint (answers[i], ==, can_read);
      if (can_read)
        g_assert_no_error (errors[i]);
      else
        g_assert_error (errors[i], TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
      g_clear_error (&errors[i]);
    }
}

static void
test_device_data (void)
{
  TarnCudaDeviceData data = cuda_make_data (cuda_find_device (9, 0));
  OlderTarnCudaDeviceData older;
  NewerTarnCudaDeviceData newer;

  struct_sizes_begin_from (&older, &data);
  check_readers (&older, TRUE);
  g_assert_cmpuint (tarn_cuda_device_data_smem_granularity ((gpointer) &older), ==, 32);
  struct_sizes_begin_from (&newer, &data);
  check_readers (&newer, TRUE);
  g_assert_cmpuint (tarn_cuda_device_data_smem_alloc_granularity (&newer.as.known), ==, 128);
  newer.as.later = &newer;
  check_readers (&newer, FALSE);
  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_CRITICAL, "*is_read*");
  g_assert_cmpuint (tarn_cuda_device_data_smem_granularity (&newer.as.known), ==, 0);
  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_CRITICAL, "*is_read*");
  g_assert_cmpuint (tarn_cuda_device_data_smem_alloc_granularity (&newer.as.known), ==, 0);
  g_test_assert_expected_messages ();
}

static void
test_asked_device_data (const TarnCudaTest *test, gconstpointer unused)
{
  TarnCudaDeviceData data = TARN_CUDA_DEVICE_DATA_INIT;
  OlderTarnCudaDeviceData older;
  NewerTarnCudaDeviceData newer;

  (void) unused;
  g_assert_true (tarn_cuda_device_data_init (&data, test->device, NULL));
  struct_sizes_begin (&older);
  g_assert_true (tarn_cuda_device_data_init ((gpointer) &older, test->device, NULL));
  struct_sizes_check (&older);
  g_assert_cmpuint (older.as.warp_size, ==, data.warp_size);
  g_assert_cmpuint (older.as.warp_allocation_granularity, ==, data.warp_allocation_granularity);
  struct_sizes_begin (&newer);
  g_assert_true (tarn_cuda_device_data_init (&newer.as.known, test->device, NULL));
  struct_sizes_check (&newer);
  g_assert_cmpuint (newer.as.known.shared_allocation_unit, ==, data.shared_allocation_unit);
  g_assert_null (newer.as.later);
}

int
main (int argc, char **argv)
{
  tarn_fake_cuda ();
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda/struct-sizes/defaults", test_defaults);
  g_test_add_func ("/cuda/struct-sizes/occupancy", test_occupancy);
  g_test_add_func ("/cuda/struct-sizes/device-data", test_device_data);
  tarn_cuda_test_add ("struct-sizes/asked-device-data", test_asked_device_data, NULL);
  tarn_cuda_test_add ("struct-sizes/older-options", test_older_options, NULL);
  tarn_cuda_test_add ("struct-sizes/newer-options", test_newer_options, NULL);
  tarn_cuda_test_add ("struct-sizes/older-key", test_older_key, NULL);
  tarn_cuda_test_add ("struct-sizes/newer-key", test_newer_key, NULL);
  tarn_cuda_test_add ("struct-sizes/host-array", test_host_array, NULL);
  tarn_cuda_test_add ("struct-sizes/no-array", test_no_array, NULL);
  return g_test_run ();
}
