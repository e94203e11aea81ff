/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Pools of images with a layer above the driver that runs out of memory, has calls fail, and has
 * devices say that they are others. */

#include <string.h>

#include "queues.h"

static const OpenclLayer *layer;

static cl_image_desc
plane (gsize width, gsize height)
{
  return (cl_image_desc){ .image_type = CL_MEM_OBJECT_IMAGE2D,
                          .image_width = width,
                          .image_height = height };
}

static TarnBlock *
take (TarnOpenclImagePool *pool, gsize width, gsize height, cl_command_queue queue, GError **error)
{
  const cl_image_format format = { CL_RGBA, CL_FLOAT };
  const cl_image_desc desc = plane (width, height);

  return tarn_opencl_image_pool_allocate (pool, 0, &format, &desc, queue, error);
}

/* A block that there is. */
static TarnBlock *
take_sure (TarnOpenclImagePool *pool, gsize width, gsize height, cl_command_queue queue)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = take (pool, width, height, queue, &error);

  g_assert_no_error (error);
  return block;
}

static TarnOpenclImagePool *
pool_new (OpenclState *state, TarnPool *buffers)
{
  g_autoptr (GError) error = NULL;
  TarnOpenclImagePool *pool = tarn_opencl_image_pool_new (state->queue, buffers, NULL, &error);

  g_assert_no_error (error);
  return pool;
}

static TarnPool *
buffers_new (OpenclState *state)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (GError) error = NULL;
  TarnPool *buffers;

  options.flags = TARN_POOL_WHOLE_BUFFERS;
  options.limit_bytes = 1 << 20;
  buffers = tarn_opencl_pool_new (state->queue, 0, &options, &error);
  g_assert_no_error (error);
  return buffers;
}

/* To how the layer is at first.  FALSE, and the test is skipped: the device has no images. */
static gboolean
begin (const OpenclState *state)
{
  cl_bool has_images = CL_FALSE;

  layer->reset ();
  clGetDeviceInfo (opencl_get_device (state), CL_DEVICE_IMAGE_SUPPORT, sizeof has_images,
                   &has_images, NULL);
  if (!has_images)
    g_test_skip ("the device has no images");
  return has_images;
}

static void
pretend_nvidia (void)
{
  const cl_uint vendor = 0x10de;

  layer->set_device_info (CL_DEVICE_VENDOR_ID, &vendor, sizeof vendor);
  layer->set_platform_info (CL_PLATFORM_NAME, "NVIDIA CUDA", 12);
}

/* Releases what a release that failed has left, and ends the test if anything else was. */
static void
assert_nothing_left (const OpenclState *state, gboolean may_leave)
{
  gpointer lost[10];
  guint n = layer->get_live (OPENCL_LAYER_IMAGE, lost, G_N_ELEMENTS (lost));

  g_assert_true (may_leave || n == 0);
  for (guint i = 0; i < n; i++)
    g_assert_cmpint (clReleaseMemObject (lost[i]), ==, CL_SUCCESS);
  n = layer->get_live (OPENCL_LAYER_EVENT, lost, G_N_ELEMENTS (lost));
  g_assert_true (may_leave || n == 0);
  for (guint i = 0; i < n; i++)
    g_assert_cmpint (clReleaseEvent (lost[i]), ==, CL_SUCCESS);
  while (may_leave && layer->get_references (state->context) > 1)
    clReleaseContext (state->context);
  while (may_leave && layer->get_references (state->queue) > 1)
    clReleaseCommandQueue (state->queue);
  g_assert_cmpuint (layer->get_references (state->context), ==, 1);
  g_assert_cmpuint (layer->get_references (state->queue), ==, 1);
}

/* What a program does, each step of which may fail. */
static void
run_program (OpenclState *state, cl_command_queue other, TarnPool *buffers)
{
  g_autoptr (TarnOpenclImagePool) pool
      = tarn_opencl_image_pool_new (state->queue, buffers, NULL, NULL);
  TarnBlock *blocks[3];

  if (pool == NULL)
    return;
  for (guint round = 0; round < 3; round++)
    {
      for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
        blocks[i] = take (pool, 16, 16 + i / 2, i == 1 ? other : state->queue, NULL);
      for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
        {
          if (blocks[i] != NULL && i == 2)
            tarn_opencl_block_record_use (blocks[i], other, NULL);
          tarn_block_free (blocks[i]);
        }
    }
  tarn_block_free (take (pool, 200, 200, other, NULL));
  assert_valid (tarn_opencl_image_pool_get_pool (pool));
}

/* Each call failing in turn, once and for ever: nothing is lost or counted twice. */
static void
test_each_call (const TarnOpenclDevice *device, OpenclState *state)
{
  guint n_failures = 0;

  (void) device;
  if (!begin (state))
    return;
  for (guint i = 0; i < 4; i++)
    for (guint nth = 1;; nth++)
      {
        cl_command_queue other = opencl_queue_new (state, FALSE);
        TarnPool *buffers = buffers_new (state);
        const gchar *failed;

        layer->fail (NULL, nth, i % 2 != 0, i < 2 ? CL_OUT_OF_RESOURCES : CL_INVALID_OPERATION);
        run_program (state, other, buffers);
        failed = layer->get_failed ();
        layer->fail (NULL, 0, FALSE, CL_SUCCESS);
        g_assert_cmpuint (tarn_pool_get_charged_bytes (buffers), ==, 0);
        assert_valid (buffers);
        tarn_pool_unref (buffers);
        while (layer->get_references (other) > 1)
          {
            g_assert_nonnull (failed);
            clReleaseCommandQueue (other);
          }
        opencl_finish (other);
        clReleaseCommandQueue (other);
        assert_nothing_left (state, failed != NULL);
        if (failed == NULL)
          break;
        n_failures++;
      }
  g_assert_cmpuint (n_failures, >, 50);
}

/* Each call that making a pool needs: the error says which one it was. */
static void
test_constructor (const TarnOpenclDevice *device, OpenclState *state)
{
  guint n_failures = 0;

  (void) device;
  if (!begin (state))
    return;
  for (guint nth = 1;; nth++)
    {
      g_autoptr (GError) error = NULL;
      TarnOpenclImagePool *pool;

      layer->fail (NULL, nth, FALSE, CL_INVALID_OPERATION);
      pool = tarn_opencl_image_pool_new (state->queue, NULL, NULL, &error);
      if (layer->get_failed () == NULL)
        {
          g_assert_no_error (error);
          layer->fail (NULL, 0, FALSE, CL_SUCCESS);
          tarn_opencl_image_pool_unref (pool);
          break;
        }
      n_failures++;
      g_assert_null (pool);
      g_assert_error (error, TARN_OPENCL_ERROR, CL_INVALID_OPERATION);
      g_assert_true (g_str_has_prefix (error->message, layer->get_failed ()));
      assert_nothing_left (state, FALSE);
    }
  g_assert_cmpuint (n_failures, >=, 10);
  assert_nothing_left (state, FALSE);
}

/* The call that finds out that there is no memory is named, with the image. */
static void
test_statuses (const TarnOpenclDevice *device, OpenclState *state)
{
  static const gchar *const functions[]
      = { "clCreateImage", "clEnqueueMigrateMemObjects", "clEnqueueFillImage" };

  (void) device;
  if (!begin (state))
    return;
  for (guint i = 0; i < G_N_ELEMENTS (functions); i++)
    {
      g_autofree gchar *text
          = g_strdup_printf ("%s: CL_OUT_OF_RESOURCES (-5): a 30 x 20 2D image", functions[i]);
      g_autoptr (TarnOpenclImagePool) pool = NULL;
      g_autoptr (GError) error = NULL;

      layer->reset ();
      if (i > 0) /* or the device is NVIDIA's */
        layer->set_device_info (CL_DEVICE_VENDOR_ID, &(cl_uint){ i == 2 ? 0x10de : 1 },
                                sizeof (cl_uint));
      pool = pool_new (state, NULL);
      layer->fail (functions[i], 1, TRUE, CL_OUT_OF_RESOURCES);
      g_assert_null (take (pool, 30, 20, NULL, &error));
      g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
      g_assert_nonnull (strstr (error->message, text));
      g_assert_cmpuint (layer->get_live (OPENCL_LAYER_IMAGE, NULL, 0), ==, 0);
      layer->fail (NULL, 0, FALSE, CL_SUCCESS);
      tarn_block_free (take_sure (pool, 30, 20, NULL));
    }
  layer->reset ();
}

/* Out of memory, held buffers go for an image, and held images for a buffer. */
static void
check_out_of_memory (OpenclState *state, OpenclLayerPoint point)
{
  g_autoptr (TarnPool) buffers = buffers_new (state);
  g_autoptr (TarnOpenclImagePool) pool = NULL;
  g_autoptr (GError) error = NULL;
  TarnPool *images;
  TarnBlock *block;

  tarn_pool_set_limit_bytes (buffers, 0);
  pool = pool_new (state, buffers);
  images = tarn_opencl_image_pool_get_pool (pool);
  layer->set_budget (600000, point, CL_MEM_OBJECT_ALLOCATION_FAILURE);

  tarn_block_free (allocate (buffers, 400000));
  block = take_sure (pool, 160, 160, state->queue); /* 409,600 */
  g_assert_cmpuint (tarn_pool_get_held_blocks (buffers), ==, 0);
  g_assert_null (take (pool, 160, 161, state->queue, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
  tarn_block_free (block);

  block = allocate (buffers, 400000);
  g_assert_cmpuint (tarn_pool_get_held_blocks (images), ==, 0);
  g_assert_cmpuint (tarn_pool_get_charged_bytes (buffers), ==, 0);
  tarn_block_free (block);

  /* An image that is held goes for one of another kind. */
  tarn_block_free (take_sure (pool, 170, 160, state->queue));
  tarn_block_free (take_sure (pool, 160, 170, state->queue));
  g_assert_cmpuint (tarn_pool_get_held_blocks (images), ==, 1);
  layer->reset ();
}

static void
test_out_of_memory (const TarnOpenclDevice *device, OpenclState *state)
{
  (void) device;
  if (!begin (state))
    return;
  check_out_of_memory (state, OPENCL_LAYER_AT_CREATION);
  check_out_of_memory (state, OPENCL_LAYER_AT_MIGRATION);
  assert_nothing_left (state, FALSE);
}

/* A release that fails is a message; the bytes are not charged any more. */
static void
test_failing_release (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnPool) buffers = NULL;
  g_autoptr (TarnOpenclImagePool) pool = NULL;
  gpointer lost = NULL;

  (void) device;
  if (!begin (state))
    return;
  buffers = buffers_new (state);
  pool = pool_new (state, buffers);
  tarn_block_free (take_sure (pool, 10, 10, NULL));
  layer->fail ("clReleaseMemObject", 1, FALSE, CL_INVALID_MEM_OBJECT);
  g_test_expect_message ("Tarn-OpenCL", G_LOG_LEVEL_MESSAGE,
                         "clReleaseMemObject: CL_INVALID_MEM_OBJECT (-38)*an image of 1600 bytes*");
  tarn_pool_free_held (tarn_opencl_image_pool_get_pool (pool));
  g_test_assert_expected_messages ();
  g_assert_cmpuint (tarn_pool_get_charged_bytes (buffers), ==, 0);
  g_assert_cmpuint (layer->get_live (OPENCL_LAYER_IMAGE, &lost, 1), ==, 1);
  g_assert_cmpint (clReleaseMemObject (lost), ==, CL_SUCCESS);
}

/* Where the driver counts the program's references alone, an image that the program retains is
 * handed to nobody else. */
static void
test_retained (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnOpenclImagePool) pool = NULL;
  TarnBlock *block, *other;
  cl_mem image;

  (void) device;
  if (!begin (state))
    return;
  pretend_nvidia ();
  pool = pool_new (state, NULL);
  block = take_sure (pool, 10, 10, state->queue);
  image = tarn_opencl_block_get_image (block);
  opencl_settle (state->queue); /* other drivers count that a command uses it */
  g_assert_cmpint (clRetainMemObject (image), ==, CL_SUCCESS);
  tarn_block_free (block);
  other = take_sure (pool, 10, 10, state->queue);
  g_assert_true (tarn_opencl_block_get_image (other) != image);
  opencl_settle (state->queue);
  g_assert_cmpint (clReleaseMemObject (image), ==, CL_SUCCESS);
  tarn_block_free (other);
  g_assert_cmpuint (tarn_pool_get_held_blocks (tarn_opencl_image_pool_get_pool (pool)), ==, 2);
  layer->reset ();
}

/* On NVIDIA's devices a pixel is filled in place of a migration; also where the host has no access.
 */
static void
test_nvidia (const TarnOpenclDevice *device, OpenclState *state)
{
  const cl_image_format format = { CL_R, CL_UNSIGNED_INT8 };
  cl_image_desc desc = plane (1, 1);
  g_autoptr (TarnOpenclImagePool) pool = NULL;
  g_autoptr (GError) error = NULL;

  (void) device;
  if (!begin (state))
    return;
  pretend_nvidia ();
  pool = pool_new (state, NULL);
  for (guint i = 1; i <= 3; i++)
    {
      desc = plane (i, 1);
      tarn_block_free (tarn_opencl_image_pool_allocate (pool, CL_MEM_HOST_NO_ACCESS, &format, &desc,
                                                        state->queue, &error));
      g_assert_no_error (error);
    }
  g_assert_cmpuint (layer->get_calls ("clEnqueueFillImage"), ==, 3);
  g_assert_cmpuint (layer->get_calls ("clEnqueueMigrateMemObjects"), ==, 0);
  layer->reset ();
}

static guint
count_calls_but_questions (void)
{
  return layer->get_calls (NULL) - layer->get_calls ("clGetMemObjectInfo");
}

/* A hit asks the driver for nothing but who retains the image. */
static void
test_hits (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnOpenclImagePool) pool = NULL;
  guint n_calls;

  (void) device;
  if (!begin (state))
    return;
  pool = pool_new (state, NULL);
  tarn_block_free (take_sure (pool, 10, 10, NULL));
  n_calls = count_calls_but_questions ();
  for (guint i = 0; i < 100; i++)
    tarn_block_free (take_sure (pool, 10, 10, NULL));
  g_assert_cmpuint (layer->get_calls ("clCreateImage"), ==, 1);
  g_assert_cmpuint (count_calls_but_questions (), ==, n_calls);
}

/* An eighth of the device's memory is held at most, unless the program says how much. */
static void
test_held (const TarnOpenclDevice *device, OpenclState *state)
{
  const cl_ulong bytes = 8 << 20;
  g_autoptr (TarnOpenclImagePool) pool = NULL;
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  TarnBudget budget = TARN_BUDGET_INIT;

  (void) device;
  if (!begin (state))
    return;
  layer->set_device_info (CL_DEVICE_GLOBAL_MEM_SIZE, &bytes, sizeof bytes);
  pool = pool_new (state, NULL);
  for (guint i = 0; i < 8; i++) /* more than 256 KiB each */
    tarn_block_free (take_sure (pool, 128, 128 + i, NULL));
  tarn_pool_get_stats (tarn_opencl_image_pool_get_pool (pool), &stats);
  g_assert_cmpuint (stats.held_blocks, ==, 3);
  g_assert_true (tarn_pool_get_budget (tarn_opencl_image_pool_get_pool (pool), &budget, NULL));
  g_assert_cmpuint (budget.device_bytes, ==, bytes);
  layer->reset ();
}

static void
assert_not_supported (OpenclState *state, const gchar *text)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (tarn_opencl_image_pool_new (state->queue, NULL, NULL, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
  g_assert_nonnull (strstr (error->message, text));
}

static void
test_not_supported (const TarnOpenclDevice *device, OpenclState *state)
{
  const cl_bool no = CL_FALSE;

  (void) device;
  layer->reset ();
  layer->set_device_info (CL_DEVICE_IMAGE_SUPPORT, &no, sizeof no);
  assert_not_supported (state, "CL_DEVICE_IMAGE_SUPPORT");
  layer->reset ();
  layer->set_device_info (CL_DEVICE_VERSION, "OpenCL 1.1 of old", 18);
  assert_not_supported (state, "older than OpenCL 1.2");
  layer->reset ();
  assert_nothing_left (state, FALSE);
}

int
main (int argc, char **argv)
{
  static const OpenclCase cases[] = {
    { "image-faults/each-call", test_each_call },
    { "image-faults/constructor", test_constructor },
    { "image-faults/statuses", test_statuses },
    { "image-faults/out-of-memory", test_out_of_memory },
    { "image-faults/retained", test_retained },
    { "image-faults/nvidia", test_nvidia },
    { "image-faults/held", test_held },
    { "image-faults/hits", test_hits },
    { "image-faults/not-supported", test_not_supported },
    { "image-faults/failing-release", test_failing_release },
  };

  g_test_init (&argc, &argv, NULL);
  layer = opencl_layer_load ();
  if (layer == NULL)
    {
      opencl_add_no_layer ("/opencl/no-layer");
      return g_test_run ();
    }
  opencl_ignore_messages ();
  opencl_add (cases, G_N_ELEMENTS (cases));
  return g_test_run ();
}
