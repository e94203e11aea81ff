/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Kinds of images: 100,000 have bytes of their own, and are forgotten; huge ones; a program whose
 * images all differ, on every OpenCL device. */

#include "image-pools.h"
#include "opencl/image-kinds-private.h"

#define N_KINDS 100000

static TarnOpenclImageKind
kind_of (gsize width, gsize height)
{
  const cl_image_format format = BYTES;
  const cl_image_desc desc = plane (width, height);
  TarnOpenclImageKind kind;

  g_assert_true (_tarn_opencl_image_kind_init (&kind, 0, &format, &desc, NULL));
  return kind;
}

/* Kinds have bytes of their own, near those of the pixels, each the size of a bin; also if many
 * have the same pixels.  They are forgotten with their last use. */
static void
check_kinds (TarnPool *pool, gsize (*get_width) (guint i), gsize (*get_height) (guint i))
{
  TarnOpenclImageKinds *kinds = _tarn_opencl_image_kinds_new ();
  g_autofree gsize *bytes = g_new (gsize, N_KINDS);
  g_autoptr (GHashTable) seen = g_hash_table_new (NULL, NULL);

  for (guint i = 0; i < N_KINDS; i++)
    {
      TarnOpenclImageKind kind = kind_of (get_width (i), get_height (i)), found;

      g_assert_true (_tarn_opencl_image_kinds_acquire (kinds, pool, &kind, &bytes[i], NULL));
      g_assert_true (g_hash_table_add (seen, GSIZE_TO_POINTER (bytes[i])));
      g_assert_cmpuint (tarn_pool_alloc_size (pool, tarn_pool_bin_number (pool, bytes[i])), ==,
                        bytes[i]);
      g_assert_cmpuint (bytes[i], >=, kind.width * kind.height);
      g_assert_true (_tarn_opencl_image_kinds_acquire_by_bytes (kinds, bytes[i], &found));
      g_assert_cmpuint (found.width, ==, kind.width);
      g_assert_cmpuint (found.height, ==, kind.height);
      _tarn_opencl_image_kinds_release (kinds, bytes[i]);
    }
  g_assert_cmpuint (_tarn_opencl_image_kinds_get_n (kinds), ==, N_KINDS);
  for (guint i = 0; i < N_KINDS; i++)
    _tarn_opencl_image_kinds_release (kinds, bytes[i]);
  g_assert_cmpuint (_tarn_opencl_image_kinds_get_n (kinds), ==, 0);
  _tarn_opencl_image_kinds_unref (kinds);
}

static gsize
count_up (guint i)
{
  return i + 1;
}

static gsize
one (guint i)
{
  (void) i;
  return 1;
}

static gsize
some (guint i)
{
  return 1 + i % 317;
}

static gsize
others (guint i)
{
  return 1 + i / 317;
}

static void
test_kinds (void)
{
  TarnTestingDevice *device = tarn_testing_device_new (1000);
  TarnAllocator *allocator = tarn_testing_device_allocator_new (device);
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  TarnPool *pool;

  options.leading_bits_in_bin_id = 26;
  pool = tarn_pool_new (allocator, &options, NULL);
  check_kinds (pool, count_up, one);
  check_kinds (pool, some, others);
  tarn_pool_unref (pool);
  tarn_allocator_unref (allocator);
  tarn_testing_device_free (device);
}

/* Kinds of nearly the most bytes, where one bin has many sizes, have bytes of their own, too. */
static void
test_huge_kinds (void)
{
  TarnTestingDevice *device = tarn_testing_device_new (1000);
  TarnAllocator *allocator = tarn_testing_device_allocator_new (device);
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  TarnOpenclImageKinds *kinds = _tarn_opencl_image_kinds_new ();
  g_autoptr (GHashTable) seen = g_hash_table_new (NULL, NULL);
  gsize most = G_MAXSIZE / 16 + 1;
  gsize bytes[16];
  TarnPool *pool;

  options.leading_bits_in_bin_id = 26;
  pool = tarn_pool_new (allocator, &options, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (bytes); i++)
    {
      const TarnOpenclImageKind kind = kind_of (most >> i, (gsize) 1 << i);

      g_assert_true (_tarn_opencl_image_kinds_acquire (kinds, pool, &kind, &bytes[i], NULL));
      g_assert_cmpuint (bytes[i], >=, most);
      g_assert_cmpuint (bytes[i], <, G_MAXSIZE / 2);
      g_assert_true (g_hash_table_add (seen, GSIZE_TO_POINTER (bytes[i])));
    }
  for (guint i = 0; i < G_N_ELEMENTS (bytes); i++)
    _tarn_opencl_image_kinds_release (kinds, bytes[i]);
  _tarn_opencl_image_kinds_unref (kinds);
  tarn_pool_unref (pool);
  tarn_allocator_unref (allocator);
  tarn_testing_device_free (device);
}

/* A program whose images are all of different sizes: little is held, and it comes to an end. */
static void
test_varying (const TarnOpenclDevice *device, OpenclState *state)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnOpenclImagePool) pool = NULL;
  guint n = g_str_has_prefix (device->platform_name, "Portable") ? N_KINDS : 2000;
  TarnPoolStats stats;

  if (!have_images (state))
    return;
  options.hold_bytes = 100000;
  pool = pool_new (state, NULL, &options);
  for (guint i = 0; i < n; i++)
    {
      cl_image_format format = BYTES;
      cl_image_desc desc = plane (some (i), others (i));
      g_autoptr (GError) error = NULL;

      tarn_block_free (
          tarn_opencl_image_pool_allocate (pool, 0, &format, &desc, state->queue, &error));
      g_assert_no_error (error);
    }
  assert_valid (pool_of (pool));
  stats = get_stats (pool_of (pool));
  g_assert_cmpuint (stats.held_bytes, <=, 100000);
  g_assert_cmpuint (stats.misses, ==, n);
}

int
main (int argc, char **argv)
{
  static const OpenclCase cases[] = {
    { "images/varying", test_varying },
  };

  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/opencl/images/kinds", test_kinds);
  g_test_add_func ("/opencl/images/huge-kinds", test_huge_kinds);
  opencl_add (cases, G_N_ELEMENTS (cases));
  return g_test_run ();
}
