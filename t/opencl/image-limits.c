/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Limits of pools of images on every OpenCL device: shared with a pool of buffers, whose group they
 * join, and their own. */

#include <string.h>

#include "allocator/allocator-private.h"
#include "image-pools.h"

/* Images and buffers have one limit, and what one holds makes room for the other. */
static void
check_shared_limit (OpenclState *state, gboolean has_heap)
{
  g_autoptr (TarnPool) buffers = buffers_new (state, has_heap);
  g_autoptr (TarnOpenclImagePool) pool = pool_new (state, buffers, NULL);
  g_autoptr (GError) error = NULL;
  const cl_image_format format = FLOATS;
  const cl_image_desc large = plane (256, 256); /* the limit */
  TarnBlock *image, *buffer;

  image = take (pool, FLOATS, 256, 128, NULL);
  g_assert_cmpuint (tarn_pool_get_charged_bytes (buffers), ==, LIMIT / 2);
  g_assert_null (tarn_opencl_image_pool_allocate (pool, 0, &format, &large, NULL, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
  g_assert_nonnull (strstr (error->message, "'buffers'"));
  g_assert_nonnull (strstr (error->message, "charges take 524288"));
  assert_fails (buffers, LIMIT / 2 + 1, TARN_ERROR_LIMIT);
  buffer = allocate (buffers, LIMIT / 2 - 32768);

  /* A held image goes for a buffer, */
  tarn_block_free (image);
  g_assert_cmpuint (tarn_pool_get_charged_bytes (buffers), ==, LIMIT / 2);
  tarn_block_free (allocate (buffers, LIMIT / 4));
  g_assert_cmpuint (tarn_pool_get_charged_bytes (buffers), ==, 0);
  g_assert_cmpuint (tarn_pool_get_held_blocks (pool_of (pool)), ==, 0);
  tarn_block_free (buffer);

  /* held buffers for an image, */
  image = take (pool, FLOATS, 256, 255, NULL);
  g_assert_cmpuint (tarn_pool_get_charged_bytes (buffers), ==, 256 * 255 * 16);
  assert_valid (buffers);
  tarn_block_free (image);

  /* and held images for one of another kind. */
  image = take (pool, FLOATS, 255, 256, NULL);
  g_assert_cmpuint (tarn_pool_get_charged_bytes (buffers), >=, 256 * 255 * 16);
  g_assert_cmpuint (tarn_pool_get_charged_bytes (buffers), <=, LIMIT);
  tarn_block_free (image);
  tarn_pool_free_held (pool_of (pool));
  g_assert_cmpuint (tarn_pool_get_charged_bytes (buffers), ==, 0);
}

static void
test_shared_limit (const TarnOpenclDevice *device, OpenclState *state)
{
  (void) device;
  if (!have_images (state))
    return;
  check_shared_limit (state, FALSE);
  check_shared_limit (state, TRUE);
}

/* The pools are in one group: the buffers', or a new one. */
static void
test_group (const TarnOpenclDevice *device, OpenclState *state)
{
  (void) device;
  if (!have_images (state))
    return;
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (TarnPool) buffers = buffers_new (state, TRUE);
      g_autoptr (TarnReclaimGroup) given = i == 0 ? tarn_reclaim_group_new () : NULL;
      g_autoptr (TarnOpenclImagePool) pool = NULL;
      g_autoptr (TarnReclaimGroup) group = NULL, other = NULL;

      tarn_pool_set_reclaim_group (buffers, given);
      pool = pool_new (state, buffers, NULL);
      group = tarn_pool_get_reclaim_group (buffers);
      other = tarn_pool_get_reclaim_group (pool_of (pool));
      g_assert_nonnull (group);
      g_assert_true (group == other);
      g_assert_true (given == NULL || group == given);
      /* A thread that makes an image may wait for threads that make buffers, and not the other way
       * round. */
      g_assert_cmpuint (tarn_pool_get_upstream (pool_of (pool))->level, >,
                        TARN_ALLOCATOR (buffers)->level);
    }
}

/* A limit of images alone, and what they hold at most. */
static void
test_own_limit (const TarnOpenclDevice *device, OpenclState *state)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  const cl_image_format format = FLOATS;
  const cl_image_desc large = plane (256, 256);
  g_autoptr (TarnOpenclImagePool) pool = NULL, bounded = NULL;
  g_autoptr (GError) error = NULL;
  TarnBlock *blocks[8];

  (void) device;
  if (!have_images (state))
    return;
  options.limit_bytes = LIMIT - 1;
  options.leading_bits_in_bin_id = 2; /* means nothing */
  pool = pool_new (state, NULL, &options);
  g_assert_null (tarn_opencl_image_pool_allocate (pool, 0, &format, &large, NULL, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);

  options.limit_bytes = 0;
  options.hold_bytes = LIMIT;
  bounded = pool_new (state, NULL, &options);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = take (bounded, FLOATS, 128, 128 + i, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    tarn_block_free (blocks[i]);
  g_assert_cmpuint (get_stats (pool_of (bounded)).held_bytes, <=, LIMIT);
  g_assert_cmpuint (get_stats (pool_of (bounded)).held_blocks, >, 0);
}

int
main (int argc, char **argv)
{
  static const OpenclCase cases[] = {
    { "images/shared-limit", test_shared_limit },
    { "images/group", test_group },
    { "images/own-limit", test_own_limit },
  };

  g_test_init (&argc, &argv, NULL);
  opencl_add (cases, G_N_ELEMENTS (cases));
  return g_test_run ();
}
