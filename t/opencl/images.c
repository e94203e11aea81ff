/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Pools of images on every OpenCL device: which images are the same, what is refused, options, and
 * any order of release.  image-*.c test the rest. */

#include <string.h>

#include "image-pools.h"

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

int
main (int argc, char **argv)
{
  static const OpenclCase cases[] = {
    { "images/reuse", test_reuse },     { "images/same-kind", test_same_kind },
    { "images/types", test_types },     { "images/pixels", test_pixels },
    { "images/refused", test_refused }, { "images/unsupported", test_unsupported },
    { "images/no-kind", test_no_kind }, { "images/other-blocks", test_other_blocks },
    { "images/release", test_release }, { "images/options", test_options },
  };

  g_test_init (&argc, &argv, NULL);
  opencl_add (cases, G_N_ELEMENTS (cases));
  return g_test_run ();
}
