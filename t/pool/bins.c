/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Bins: numbers that other implementations computed, and what holds for all of them. */

#include <stdio.h>
#include <string.h>
#include <tarn/testing.h>

#include "lib/data.h"
#include "pool/bin-private.h"

typedef struct
{
  TarnTestingDevice *device;
  TarnPool *pools[TARN_MAX_LEADING_BITS + 1]; /* one for each value of leading bits */
} Pools;

static TarnPool *
pool_new (TarnTestingDevice *device, guint leading_bits, GError **error)
{
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;

  options.leading_bits_in_bin_id = leading_bits;
  return tarn_pool_new (allocator, &options, error);
}

static void
set_up (Pools *pools, gconstpointer unused)
{
  (void) unused;
  pools->device = tarn_testing_device_new (G_MAXUINT64);
  for (guint bits = 0; bits <= TARN_MAX_LEADING_BITS; bits++)
    {
      g_autoptr (GError) error = NULL;

      pools->pools[bits] = pool_new (pools->device, bits, &error);
      g_assert_no_error (error);
    }
}

static void
tear_down (Pools *pools, gconstpointer unused)
{
  (void) unused;
  for (guint bits = 0; bits <= TARN_MAX_LEADING_BITS; bits++)
    tarn_pool_unref (pools->pools[bits]);
  tarn_testing_device_free (pools->device);
}

/* What every size satisfies. */
static void
check_size (TarnPool *pool, gsize size, guint leading_bits)
{
  guint32 bin = tarn_pool_bin_number (pool, size);
  gsize alloc_size = tarn_pool_alloc_size (pool, bin);

  g_assert_cmpuint (alloc_size, >=, size);
  g_assert_cmpuint (tarn_pool_bin_number (pool, alloc_size), ==, bin);
  if (size >= 1)
    g_assert_true ((alloc_size - size) < (gdouble) size / (gdouble) (1u << leading_bits));
}

static void
check_row (const gchar *row, gpointer data)
{
  Pools *pools = data;
  guint64 size, alloc_size;
  guint leading_bits, bin;

  g_assert_cmpint (sscanf (row, "%" G_GUINT64_FORMAT " %u %u %" G_GUINT64_FORMAT, &size,
                           &leading_bits, &bin, &alloc_size),
                   ==, 4);
  if (size > G_MAXSIZE || alloc_size > G_MAXSIZE)
    return;
  g_assert_cmpuint (tarn_pool_bin_number (pools->pools[leading_bits], size), ==, bin);
  g_assert_cmpuint (tarn_pool_alloc_size (pools->pools[leading_bits], bin), ==, alloc_size);
  check_size (pools->pools[leading_bits], size, leading_bits);
}

static void
test_data (Pools *pools, gconstpointer unused)
{
  (void) unused;
  g_assert_cmpuint (data_for_each_row ("bins.tsv", check_row, pools), ==, 1046);
}

/* PyOpenCL's test_mempool_2: 2,000 random sizes up to 2^30. */
static void
test_random (Pools *pools, gconstpointer unused)
{
  (void) unused;
  for (guint bits = 0; bits <= TARN_MAX_LEADING_BITS; bits++)
    {
      for (guint i = 0; i < 2000; i++)
        check_size (pools->pools[bits], (gsize) g_test_rand_int_range (1, 1 << 30), bits);
      check_size (pools->pools[bits], (gsize) 1 << 30, bits);
      check_size (pools->pools[bits], G_MAXSIZE, bits);
    }
}

/* Bin by bin: sizes rise with numbers, and a number without a size gives 0. */
static void
test_every_bin (Pools *pools, gconstpointer unused)
{
  (void) unused;
  for (guint bits = 0; bits <= 8; bits++)
    {
      guint32 n_bins = (guint32) (8 * sizeof (gsize)) << bits;
      gsize largest = 0;

      for (guint32 bin = 0; bin < n_bins; bin++)
        {
          gsize alloc_size = tarn_pool_alloc_size (pools->pools[bits], bin);

          if (alloc_size == 0)
            {
              g_assert_cmpuint (bin >> bits, <, bits);
              continue;
            }
          g_assert_cmpuint (tarn_pool_bin_number (pools->pools[bits], alloc_size), ==, bin);
          g_assert_cmpuint (tarn_pool_bin_number (pools->pools[bits], largest + 1), ==, bin);
          g_assert_cmpuint (alloc_size, >, largest);
          largest = alloc_size;
        }
      g_assert_cmpuint (largest, ==, G_MAXSIZE);
      g_assert_cmpuint (tarn_pool_alloc_size (pools->pools[bits], n_bins), ==, 0);
      g_assert_cmpuint (tarn_pool_alloc_size (pools->pools[bits], G_MAXUINT32), ==, 0);
    }
}

/* PyOpenCL's test_mempool_32bit_issues: sizes about 2^30 to 2^34 on a device that grants all. */
static void
test_beyond_32_bits (Pools *pools, gconstpointer unused)
{
  TarnPool *pool = pools->pools[4];

  (void) unused;
#if GLIB_SIZEOF_SIZE_T < 8
  g_test_skip ("sizes have 32 bits here");
  return;
#endif
  for (guint i = 30; i <= 34; i++)
    for (gint offset = -5; offset <= 4; offset++)
      {
        g_autoptr (GError) error = NULL;
        guint64 size = ((guint64) 1 << i) + (guint64) offset;
        g_autoptr (TarnBlock) block = tarn_pool_allocate (pool, (gsize) size, &error);

        g_assert_no_error (error);
        g_assert_cmpuint (tarn_block_get_size (block), ==, size);
        g_assert_cmpuint (tarn_block_get_alloc_size (block), >=, size);
        g_assert_cmpuint (tarn_pool_get_active_bytes (pool), ==, size);
      }
}

static void
test_options (void)
{
  struct
  {
    TarnPoolOptions options;
    gint later[2];
  } newer = { TARN_POOL_OPTIONS_INIT, { 0, 0 } };
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (GError) error = NULL;
  TarnPool *pool;

  pool = pool_new (device, 27, &error);
  g_assert_null (pool);
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "27"));
  g_clear_error (&error);

  newer.options.struct_size = sizeof newer;
  pool = tarn_pool_new (allocator, &newer.options, &error);
  g_assert_no_error (error);
  tarn_pool_unref (pool);

  newer.later[1] = 1;
  g_assert_null (tarn_pool_new (allocator, &newer.options, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);

  newer.options.struct_size = 0;
  g_assert_null (tarn_pool_new (allocator, &newer.options, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add ("/core/bins/data", Pools, NULL, set_up, test_data, tear_down);
  g_test_add ("/core/bins/random", Pools, NULL, set_up, test_random, tear_down);
  g_test_add ("/core/bins/every-bin", Pools, NULL, set_up, test_every_bin, tear_down);
  g_test_add ("/core/bins/beyond-32-bits", Pools, NULL, set_up, test_beyond_32_bits, tear_down);
  g_test_add_func ("/core/bins/options", test_options);
  return g_test_run ();
}
