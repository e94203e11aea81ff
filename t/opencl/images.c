/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Pools of images on every OpenCL device: which images are the same, what is refused, limits that
 * are shared with buffers, queues, threads, and any order of release. */

#include <string.h>

#include "allocator/allocator-private.h"
#include "lib/pool-fixture.h"
#include "opencl/image-kinds-private.h"
#include "queues.h"

#define FLOATS ((cl_image_format){ CL_RGBA, CL_FLOAT })
#define BYTES ((cl_image_format){ CL_R, CL_UNSIGNED_INT8 })
#define WORDS ((cl_image_format){ CL_R, CL_UNSIGNED_INT32 })

static cl_image_desc
plane (gsize width, gsize height)
{
  return (cl_image_desc){ .image_type = CL_MEM_OBJECT_IMAGE2D,
                          .image_width = width,
                          .image_height = height };
}

/* Tests that the device has images; the test is skipped if not. */
static gboolean
have_images (const OpenclState *state)
{
  cl_bool has_images = CL_FALSE;

  clGetDeviceInfo (opencl_get_device (state), CL_DEVICE_IMAGE_SUPPORT, sizeof has_images,
                   &has_images, NULL);
  if (!has_images)
    g_test_skip ("the device has no images");
  return has_images;
}

static TarnOpenclImagePool *
pool_new (OpenclState *state, TarnPool *buffers, const TarnPoolOptions *options)
{
  g_autoptr (GError) error = NULL;
  TarnOpenclImagePool *pool = tarn_opencl_image_pool_new (state->queue, buffers, options, &error);

  g_assert_no_error (error);
  return pool;
}

static TarnPool *
pool_of (TarnOpenclImagePool *pool)
{
  return tarn_opencl_image_pool_get_pool (pool);
}

static TarnBlock *
take_desc (TarnOpenclImagePool *pool, cl_mem_flags flags, cl_image_format format,
           const cl_image_desc *desc, cl_command_queue queue)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_opencl_image_pool_allocate (pool, flags, &format, desc, queue, &error);

  g_assert_no_error (error);
  assert_valid (pool_of (pool));
  return block;
}

static TarnBlock *
take (TarnOpenclImagePool *pool, cl_image_format format, gsize width, gsize height,
      cl_command_queue queue)
{
  cl_image_desc desc = plane (width, height);

  return take_desc (pool, 0, format, &desc, queue);
}

static void
assert_refused (TarnOpenclImagePool *pool, const cl_image_desc *desc, GQuark domain, gint code,
                const gchar *text)
{
  const cl_image_format format = FLOATS;
  g_autoptr (GError) error = NULL;

  g_assert_null (tarn_opencl_image_pool_allocate (pool, 0, &format, desc, NULL, &error));
  g_assert_error (error, domain, code);
  if (strstr (error->message, text) == NULL)
    g_error ("'%s' does not say '%s'", error->message, text);
}

/* Which images are the same */

static void
test_reuse (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnOpenclImagePool) pool = NULL;
  TarnBlock *block, *other;
  TarnPoolStats stats;
  cl_mem image;

  (void) device;
  if (!have_images (state))
    return;
  pool = pool_new (state, NULL, NULL);
  block = take (pool, FLOATS, 64, 32, NULL);
  image = tarn_opencl_block_get_image (block);
  g_assert_cmpuint (tarn_block_get_size (block), ==, 64 * 32 * 16);
  g_assert_cmpuint (tarn_block_get_alloc_size (block), ==, 64 * 32 * 16);
  tarn_block_free (block);

  /* The same bytes, and still another kind. */
  other = take (pool, FLOATS, 32, 64, NULL);
  g_assert_true (tarn_opencl_block_get_image (other) != image);
  g_assert_cmpuint (tarn_block_get_size (other), >, 64 * 32 * 16);
  g_assert_cmpuint (tarn_block_get_size (other), <=, 64 * 32 * 16 + 64);
  tarn_block_free (other);
  other = take (pool, WORDS, 64, 32, NULL);
  g_assert_true (tarn_opencl_block_get_image (other) != image);
  tarn_block_free (other);

  block = take (pool, FLOATS, 64, 32, NULL);
  g_assert_true (tarn_opencl_block_get_image (block) == image);
  tarn_block_free (block);
  stats = get_stats (pool_of (pool));
  g_assert_cmpuint (stats.hits, ==, 1);
  g_assert_cmpuint (stats.misses, ==, 3);
  g_assert_cmpuint (stats.held_blocks, ==, 3);
}

/* Fields that a type of image does not use, and access that is not asked for, do not matter; flags
 * that differ do. */
static void
test_same_kind (const TarnOpenclDevice *device, OpenclState *state)
{
  cl_image_desc line = { .image_type = CL_MEM_OBJECT_IMAGE1D, .image_width = 100 };
  g_autoptr (TarnOpenclImagePool) pool = NULL;
  TarnBlock *block;
  cl_mem image;

  (void) device;
  if (!have_images (state))
    return;
  pool = pool_new (state, NULL, NULL);
  block = take_desc (pool, 0, FLOATS, &line, NULL);
  image = tarn_opencl_block_get_image (block);
  tarn_block_free (block);
  line.image_height = line.image_depth = line.image_array_size = 7;
  block = take_desc (pool, CL_MEM_READ_WRITE, FLOATS, &line, NULL);
  g_assert_true (tarn_opencl_block_get_image (block) == image);
  tarn_block_free (block);
  block = take_desc (pool, CL_MEM_READ_ONLY, FLOATS, &line, NULL);
  g_assert_true (tarn_opencl_block_get_image (block) != image);
  tarn_block_free (block);
}

static gsize
get_image_size (cl_mem image, cl_image_info info)
{
  size_t size = 0;

  g_assert_cmpint (clGetImageInfo (image, info, sizeof size, &size, NULL), ==, CL_SUCCESS);
  return size;
}

/* Each type of image is what was asked for. */
static void
test_types (const TarnOpenclDevice *device, OpenclState *state)
{
  static const struct
  {
    cl_mem_object_type type;
    gsize height, depth, array_size; /* 0: it has none */
  } rows[] = {
    { CL_MEM_OBJECT_IMAGE1D, 0, 0, 0 },  { CL_MEM_OBJECT_IMAGE1D_ARRAY, 0, 0, 5 },
    { CL_MEM_OBJECT_IMAGE2D, 20, 0, 0 }, { CL_MEM_OBJECT_IMAGE2D_ARRAY, 20, 0, 5 },
    { CL_MEM_OBJECT_IMAGE3D, 20, 3, 0 },
  };
  g_autoptr (TarnOpenclImagePool) pool = NULL;

  (void) device;
  if (!have_images (state))
    return;
  pool = pool_new (state, NULL, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      const cl_image_desc desc = { .image_type = rows[i].type,
                                   .image_width = 40,
                                   .image_height = 20,
                                   .image_depth = 3,
                                   .image_array_size = 5 };
      TarnBlock *block = take_desc (pool, CL_MEM_WRITE_ONLY, FLOATS, &desc, state->queue);
      cl_mem image = tarn_opencl_block_get_image (block);
      cl_mem_object_type type = 0;
      cl_mem_flags flags = 0;

      g_assert_cmpint (clGetMemObjectInfo (image, CL_MEM_TYPE, sizeof type, &type, NULL), ==,
                       CL_SUCCESS);
      g_assert_cmphex (type, ==, rows[i].type);
      g_assert_cmpint (clGetMemObjectInfo (image, CL_MEM_FLAGS, sizeof flags, &flags, NULL), ==,
                       CL_SUCCESS);
      g_assert_cmphex (flags, ==, CL_MEM_WRITE_ONLY);
      g_assert_cmpuint (get_image_size (image, CL_IMAGE_WIDTH), ==, 40);
      if (rows[i].height != 0)
        g_assert_cmpuint (get_image_size (image, CL_IMAGE_HEIGHT), ==, rows[i].height);
      if (rows[i].depth != 0)
        g_assert_cmpuint (get_image_size (image, CL_IMAGE_DEPTH), ==, rows[i].depth);
      if (rows[i].array_size != 0)
        g_assert_cmpuint (get_image_size (image, CL_IMAGE_ARRAY_SIZE), ==, rows[i].array_size);
      g_assert_cmpuint (tarn_block_get_size (block), ==,
                        40 * MAX (rows[i].height, 1) * MAX (rows[i].depth, 1)
                            * MAX (rows[i].array_size, 1) * 16);
      tarn_block_free (block);
    }
}

/* The bytes of pixels are those that the driver says, except where it pads three channels. */
static void
test_pixels (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnOpenclImagePool) pool = NULL;
  cl_image_format formats[200];
  cl_uint n = 0;

  (void) device;
  if (!have_images (state))
    return;
  pool = pool_new (state, NULL, NULL);
  g_assert_cmpint (clGetSupportedImageFormats (state->context, CL_MEM_READ_WRITE,
                                               CL_MEM_OBJECT_IMAGE2D, G_N_ELEMENTS (formats),
                                               formats, &n),
                   ==, CL_SUCCESS);
  for (cl_uint i = 0; i < MIN (n, G_N_ELEMENTS (formats)); i++)
    {
      TarnBlock *block = take (pool, formats[i], 16, 16, NULL);
      gsize bytes = get_image_size (tarn_opencl_block_get_image (block), CL_IMAGE_ELEMENT_SIZE);

      g_assert_cmpuint (tarn_block_get_size (block), >=, 16 * 16 * bytes);
      g_assert_cmpuint (tarn_block_get_size (block), <=, 16 * 16 * bytes + 4096);
      tarn_block_free (block);
    }
}

/* What is refused */

static void
test_refused (const TarnOpenclDevice *device, OpenclState *state)
{
  const cl_image_format format = FLOATS;
  g_autoptr (TarnOpenclImagePool) pool = NULL;
  g_autoptr (GError) error = NULL;
  cl_image_desc desc;

  (void) device;
  if (!have_images (state))
    return;
  pool = pool_new (state, NULL, NULL);
#define REFUSED(field, value, text)                                                                \
  desc = plane (10, 20);                                                                           \
  desc.field = value;                                                                              \
  assert_refused (pool, &desc, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT, text)
  REFUSED (image_row_pitch, 160, "image_row_pitch is 160");
  REFUSED (image_slice_pitch, 3200, "image_slice_pitch 3200");
  REFUSED (num_mip_levels, 2, "num_mip_levels is 2");
  REFUSED (num_samples, 4, "num_samples 4");
  REFUSED (buffer, (cl_mem) &desc, "buffer");
  REFUSED (image_type, CL_MEM_OBJECT_IMAGE1D_BUFFER, "image_type is 0x10f6");
  REFUSED (image_type, CL_MEM_OBJECT_BUFFER, "image_type is 0x10f0");
  REFUSED (image_width, 0, "a 0 x 20 2D image");
  REFUSED (image_height, 0, "no pixels");
#undef REFUSED
  desc = plane (G_MAXSIZE / 16, 2);
  assert_refused (pool, &desc, TARN_ERROR, TARN_ERROR_INVALID_SIZE, "more bytes than can be");
  for (guint i = 0; i < 2; i++)
    {
      desc = plane (10, 20);
      g_assert_null (tarn_opencl_image_pool_allocate (
          pool, i == 0 ? CL_MEM_USE_HOST_PTR : CL_MEM_COPY_HOST_PTR, &format, &desc, NULL, &error));
      g_assert_error (error, TARN_OPENCL_ERROR, CL_INVALID_VALUE);
      g_clear_error (&error);
    }
  g_assert_cmpuint (get_stats (pool_of (pool)).failures, ==, 0);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (pool_of (pool)), ==, 0);
}

/* The driver's own refusal says which image it was. */
static void
test_unsupported (const TarnOpenclDevice *device, OpenclState *state)
{
  const cl_image_format format = { 0x9999, CL_FLOAT };
  const cl_image_desc desc = plane (10, 20);
  g_autoptr (TarnOpenclImagePool) pool = NULL;
  g_autoptr (GError) error = NULL;

  (void) device;
  if (!have_images (state))
    return;
  pool = pool_new (state, NULL, NULL);
  g_assert_null (tarn_opencl_image_pool_allocate (pool, 0, &format, &desc, NULL, &error));
  g_assert_true (error->domain == TARN_OPENCL_ERROR);
  g_assert_nonnull (strstr (error->message, "clCreateImage: CL_"));
  g_assert_nonnull (strstr (
      error->message, "a 10 x 20 2D image of channel order 0x9999 and type 0x10de, flags 0x1"));
  g_assert_cmpuint (tarn_pool_get_managed_bytes (pool_of (pool)), ==, 0);
}

/* Sizes of which there is no image, as of a program that takes the pool for one of buffers. */
static void
test_no_kind (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnOpenclImagePool) pool = NULL;

  (void) device;
  if (!have_images (state))
    return;
  pool = pool_new (state, NULL, NULL);
  assert_fails (pool_of (pool), 4711, TARN_ERROR_INVALID_SIZE);
  assert_fails (pool_of (pool), 0, TARN_ERROR_INVALID_SIZE);
}

/* A block of one kind of memory is refused where another is wanted. */
static void
test_other_blocks (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnAllocator) allocator = opencl_allocator (state);
  g_autoptr (TarnOpenclImagePool) pool = NULL;
  TarnBlock *image, *buffer;

  (void) device;
  if (!have_images (state))
    return;
  pool = pool_new (state, NULL, NULL);
  image = take (pool, FLOATS, 10, 10, NULL);
  buffer = tarn_allocator_allocate (allocator, 1600, NULL);
  g_test_expect_message ("Tarn-OpenCL", G_LOG_LEVEL_CRITICAL,
                         "*get_buffer: the block is from allocator 'opencl-image', but must be*");
  g_assert_null (tarn_opencl_block_get_buffer (image));
  g_test_expect_message ("Tarn-OpenCL", G_LOG_LEVEL_CRITICAL,
                         "*get_image: the block is from allocator 'opencl-immediate', but must*");
  g_assert_null (tarn_opencl_block_get_image (buffer));
  g_test_expect_message ("Tarn-OpenCL", G_LOG_LEVEL_CRITICAL, "*get_svm*'opencl-image'*");
  g_assert_null (tarn_opencl_block_get_svm (image));
  g_test_assert_expected_messages ();
  tarn_block_free (image);
  tarn_block_free (buffer);
}

/* Beside buffers */

#define LIMIT ((gsize) 1 << 20)

static TarnPool *
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
  g_assert_nonnull (strstr (error->message, "524288 charged"));
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

/* Orders of release */

typedef struct
{
  TarnOpenclImagePool *pool;
  TarnPool *inner, *buffers;
  TarnBlock *block;
} Things;

#define N_THINGS 4

static void
release (Things *things, guint which)
{
  switch (which)
    {
    case 0:
      tarn_opencl_image_pool_unref (things->pool);
      break;
    case 1:
      tarn_pool_unref (things->inner);
      break;
    case 2:
      tarn_pool_unref (things->buffers);
      break;
    default:
      tarn_block_free (things->block);
    }
}

/* Releases things in the order that a number says. */
static void
release_all (Things *things, guint order)
{
  guint left[N_THINGS] = { 0, 1, 2, 3 };

  for (guint n = N_THINGS; n > 0; order /= n, n--)
    {
      guint i = order % n;

      release (things, left[i]);
      memmove (&left[i], &left[i + 1], (N_THINGS - 1 - i) * sizeof *left);
    }
}

/* The context, which opencl_close () asks about, has no reference of theirs afterwards. */
static void
test_release (const TarnOpenclDevice *device, OpenclState *state)
{
  (void) device;
  if (!have_images (state))
    return;
  tarn_opencl_image_pool_unref (NULL);
  for (guint order = 0; order < 24; order++)
    {
      Things things = { .buffers = buffers_new (state, order % 2 == 0) };

      things.pool = pool_new (state, things.buffers, NULL);
      g_assert_true (tarn_opencl_image_pool_ref (things.pool) == things.pool);
      tarn_opencl_image_pool_unref (things.pool);
      things.inner = tarn_pool_ref (pool_of (things.pool));
      things.block = take (things.pool, FLOATS, 20, 20, state->queue);
      tarn_block_free (take (things.pool, FLOATS, 30, 30, state->queue)); /* held */
      release_all (&things, order);
    }
}

/* Blocks by their images; a pool that looks for mistakes; a pool without a queue's name. */
static void
test_options (const TarnOpenclDevice *device, OpenclState *state)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnOpenclImagePool) pool = NULL, debugged = NULL;
  g_autoptr (GError) error = NULL;
  TarnBlock *block;

  (void) device;
  if (!have_images (state))
    return;
  options.flags = TARN_POOL_FINDABLE;
  pool = pool_new (state, NULL, &options);
  block = take (pool, FLOATS, 20, 20, state->queue);
  g_assert_true (tarn_opencl_pool_find (pool_of (pool), tarn_opencl_block_get_image (block))
                 == block);
  tarn_opencl_block_free_on (block, state->queue);

  options.debug = "guards,poison,leaks";
  debugged = pool_new (state, NULL, &options);
  for (guint i = 0; i < 3; i++)
    tarn_block_free (take (debugged, FLOATS, 20, 20, state->queue));
  tarn_debug_check ();

  options.struct_size = 3;
  g_assert_null (tarn_opencl_image_pool_new (state->queue, NULL, &options, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
}

/* Queues and threads */

#define SIDE 32
#define N_STEPS 200

/* Fills an image by commands on a queue, reads it back, and frees it: what another queue does with
 * the memory meanwhile, or afterwards, must not be seen. */
static void
use_image (TarnOpenclImagePool *pool, cl_command_queue queue, guint i, cl_uint *words)
{
  static const size_t origin[3], region[3] = { SIDE, SIDE, 1 };
  const cl_uint color[4] = { i, 0, 0, 0 };
  TarnBlock *block = take (pool, WORDS, SIDE, SIDE, queue);
  cl_mem image = tarn_opencl_block_get_image (block);

  g_assert_cmpint (clEnqueueFillImage (queue, image, color, origin, region, 0, NULL, NULL), ==,
                   CL_SUCCESS);
  g_assert_cmpint (
      clEnqueueReadImage (queue, image, CL_FALSE, origin, region, 0, 0, words, 0, NULL, NULL), ==,
      CL_SUCCESS);
  tarn_block_free (block);
}

static void
assert_words (const cl_uint *words, guint value)
{
  for (guint i = 0; i < SIDE * SIDE; i++)
    g_assert_cmpuint (words[i], ==, value);
}

/* Images go from queue to queue, and each queue finds what it has put there. */
static void
test_queues (const TarnOpenclDevice *device, OpenclState *state)
{
  cl_command_queue queues[3];
  g_autoptr (TarnOpenclImagePool) pool = NULL;
  cl_uint (*words)[SIDE * SIDE];

  (void) device;
  if (!have_images (state))
    return;
  words = g_malloc_n (N_STEPS, sizeof *words);
  pool = pool_new (state, NULL, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (queues); i++)
    queues[i] = opencl_queue_new (state, FALSE);
  for (guint i = 0; i < N_STEPS; i++)
    use_image (pool, queues[g_test_rand_int_range (0, G_N_ELEMENTS (queues))], i, words[i]);
  for (guint i = 0; i < G_N_ELEMENTS (queues); i++)
    opencl_settle (queues[i]);
  for (guint i = 0; i < N_STEPS; i++)
    assert_words (words[i], i);
  g_assert_cmpuint (get_stats (pool_of (pool)).hits, >, N_STEPS / 2);
  g_clear_pointer (&pool, tarn_opencl_image_pool_unref);
  for (guint i = 0; i < G_N_ELEMENTS (queues); i++)
    opencl_queue_free (queues[i]);
  g_free (words);
}

#define N_THREADS 4

typedef struct
{
  TarnOpenclImagePool *pool;
  cl_command_queue queue;
} Worker;

/* Takes an image that may find no room while others hold some.  What all have in use at a time fits
 * within the limit, so that the small ones do, too. */
static void
try_large (const Worker *worker, guint i)
{
  const cl_image_format format = FLOATS;
  const cl_image_desc desc = plane (128, 40 + i % 19);
  g_autoptr (GError) error = NULL;

  tarn_block_free (
      tarn_opencl_image_pool_allocate (worker->pool, 0, &format, &desc, worker->queue, &error));
  if (error != NULL)
    g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
}

static gpointer
work (gpointer data)
{
  Worker *worker = data;
  cl_uint words[SIDE * SIDE];

  for (guint i = 0; i < N_STEPS / 4; i++)
    {
      use_image (worker->pool, worker->queue, i, words);
      try_large (worker, i);
      tarn_block_free (take (worker->pool, BYTES, 1 + i % 9, 1 + i % 5, worker->queue));
      opencl_settle (worker->queue);
      assert_words (words, i);
    }
  return NULL;
}

static void
use_buffers (TarnPool *buffers)
{
  for (guint i = 0; i < 2 * N_STEPS; i++)
    {
      g_autoptr (GError) error = NULL;

      tarn_block_free (tarn_pool_allocate (buffers, LIMIT / 2 - 1000 * (i % 50), &error));
      if (error != NULL)
        g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
      if (i % 10 == 0)
        assert_valid (buffers);
    }
}

static void
use_together (OpenclState *state, gboolean has_heap)
{
  g_autoptr (TarnPool) buffers = buffers_new (state, has_heap);
  g_autoptr (TarnOpenclImagePool) pool = pool_new (state, buffers, NULL);
  Worker workers[N_THREADS];
  GThread *threads[N_THREADS];

  for (guint i = 0; i < N_THREADS; i++)
    {
      workers[i] = (Worker){ pool, opencl_queue_new (state, FALSE) };
      threads[i] = g_thread_new ("images", work, &workers[i]);
    }
  use_buffers (buffers);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  assert_valid (buffers);
  assert_valid (pool_of (pool));
  g_assert_cmpuint (tarn_pool_get_charged_bytes (buffers), ==,
                    tarn_pool_get_managed_bytes (pool_of (pool)));
  g_clear_pointer (&pool, tarn_opencl_image_pool_unref);
  g_assert_cmpuint (tarn_pool_get_charged_bytes (buffers), ==, 0);
  for (guint i = 0; i < N_THREADS; i++)
    opencl_queue_free (workers[i].queue);
}

/* Threads that have a limit together with buffers, straight from the driver or of a heap */
static void
test_threads (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  (void) memory;
  (void) data;
  if (!have_images (state))
    return;
  use_together (state, FALSE);
  use_together (state, TRUE);
}

#define N_POOLS 200

typedef struct
{
  TarnPool *buffers;
  gboolean is_ending; /* atomic */
} Maker;

/* Has held images go, time and again. */
static gpointer
make_buffers (gpointer data)
{
  Maker *maker = data;

  while (!g_atomic_int_get (&maker->is_ending))
    {
      tarn_block_free (tarn_pool_allocate (maker->buffers, LIMIT, NULL));
      tarn_pool_free_held (maker->buffers);
    }
  return NULL;
}

/* Pools of images end while requests of buffers ask them to free some. */
static void
test_end_meanwhile (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  Maker maker = { .is_ending = FALSE };
  GThread *thread;

  (void) memory;
  (void) data;
  if (!have_images (state))
    return;
  maker.buffers = buffers_new (state, FALSE);
  thread = g_thread_new ("buffers", make_buffers, &maker);
  for (guint i = 0; i < N_POOLS; i++)
    {
      g_autoptr (TarnOpenclImagePool) pool = pool_new (state, maker.buffers, NULL);
      const cl_image_format format = BYTES;
      const cl_image_desc desc = plane (40, 40);

      for (guint j = 0; j < 5; j++)
        tarn_block_free (tarn_opencl_image_pool_allocate (pool, 0, &format, &desc, NULL, NULL));
    }
  g_atomic_int_set (&maker.is_ending, TRUE);
  g_thread_join (thread);
  g_assert_cmpuint (tarn_pool_get_charged_bytes (maker.buffers), ==, 0);
  tarn_pool_unref (maker.buffers);
}

/* Kinds */

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
    { "images/reuse", test_reuse },
    { "images/same-kind", test_same_kind },
    { "images/types", test_types },
    { "images/pixels", test_pixels },
    { "images/refused", test_refused },
    { "images/unsupported", test_unsupported },
    { "images/no-kind", test_no_kind },
    { "images/other-blocks", test_other_blocks },
    { "images/shared-limit", test_shared_limit },
    { "images/group", test_group },
    { "images/own-limit", test_own_limit },
    { "images/release", test_release },
    { "images/options", test_options },
    { "images/queues", test_queues },
    { "images/varying", test_varying },
  };
  static const OpenclQueueCase queue_cases[] = {
    { "images/threads", test_threads, OPENCL_NEEDS_THREADS, NULL },
    { "images/end-meanwhile", test_end_meanwhile, OPENCL_NEEDS_THREADS, NULL },
  };

  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/opencl/images/kinds", test_kinds);
  opencl_add (cases, G_N_ELEMENTS (cases));
  opencl_add_for_devices (queue_cases, G_N_ELEMENTS (queue_cases));
  return g_test_run ();
}
