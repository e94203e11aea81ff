/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Pools of images, for tests. */

#include "image-pools.h"

cl_image_desc
plane (gsize width, gsize height)
{
  return (cl_image_desc){ .image_type = CL_MEM_OBJECT_IMAGE2D,
                          .image_width = width,
                          .image_height = height };
}

gboolean
have_images (const OpenclState *state)
{
  cl_bool has_images = CL_FALSE;

  clGetDeviceInfo (opencl_get_device (state), CL_DEVICE_IMAGE_SUPPORT, sizeof has_images,
                   &has_images, NULL);
  if (!has_images)
    g_test_skip ("the device has no images");
  return has_images;
}

TarnOpenclImagePool *
pool_new (OpenclState *state, TarnPool *buffers, const TarnPoolOptions *options)
{
  g_autoptr (GError) error = NULL;
  TarnOpenclImagePool *pool = tarn_opencl_image_pool_new (state->queue, buffers, options, &error);

  g_assert_no_error (error);
  return pool;
}

TarnPool *
pool_of (TarnOpenclImagePool *pool)
{
  return tarn_opencl_image_pool_get_pool (pool);
}

TarnBlock *
take_desc (TarnOpenclImagePool *pool, cl_mem_flags flags, cl_image_format format,
           const cl_image_desc *desc, cl_command_queue queue)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_opencl_image_pool_allocate (pool, flags, &format, desc, queue, &error);

  g_assert_no_error (error);
  assert_valid (pool_of (pool));
  return block;
}

TarnBlock *
take (TarnOpenclImagePool *pool, cl_image_format format, gsize width, gsize height,
      cl_command_queue queue)
{
  cl_image_desc desc = plane (width, height);

  return take_desc (pool, 0, format, &desc, queue);
}

TarnPool *
buffers_new (OpenclState *state, gboolean has_heap)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (GError) error = NULL;
  TarnPool *buffers;

  options.limit_bytes = LIMIT;
  options.name = "buffers";
  options.hold_bytes = G_MAXSIZE; /* also over a heap */
  options.flags = has_heap ? 0 : TARN_POOL_WHOLE_BUFFERS;
  buffers = tarn_opencl_pool_new (state->queue, 0, &options, &error);
  g_assert_no_error (error);
  return buffers;
}
