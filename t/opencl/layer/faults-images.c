/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The layer over a driver that fails: images of buffers, and images from a pool, which it hands out
 * again without the driver, and releases when they are idle. */

#include "faults.h"

/* Images of buffers */

static void
make_image_of (Program *self, guint i, cl_int *status)
{
  const cl_image_format format = { CL_R, CL_UNSIGNED_INT8 };
  cl_image_desc desc = { .image_type = CL_MEM_OBJECT_IMAGE1D_BUFFER, .image_width = SIZE };

  desc.buffer = self->buffers[i];
  if (*status == CL_SUCCESS)
    self->part = clCreateImage (self->context, CL_MEM_READ_WRITE, &format, &desc, NULL, status);
}

/* An image of a buffer that the context's pool has served. */
static cl_int
run_image (Program *self, cl_device_id device)
{
  const size_t origin[3] = { 0, 0, 0 }, region[3] = { SIZE, 1, 1 };
  guint8 bytes[SIZE] = { 0 };
  cl_int status = CL_SUCCESS;

  self->context = clCreateContext (NULL, 1, &device, NULL, NULL, &status);
  make_queue (self, 0, device, &status);
  make_buffer (self, 0, SIZE, &status);
  make_buffer (self, 1, SIZE, &status);
  program_fill (self, 0, 1, SIZE, 7, &status);
  make_image_of (self, 1, &status);
  if (status == CL_SUCCESS)
    status = clEnqueueReadImage (self->queues[0], self->part, CL_TRUE, origin, region, 0, 0, bytes,
                                 0, NULL, NULL);
  for (guint i = 0; status == CL_SUCCESS && i < SIZE; i++)
    g_assert_cmpint (bytes[i], ==, 7);
  return status;
}

/* Tells whether a device makes them.  FALSE: it does not, and the test is skipped. */
static gboolean
has_images_of_buffers (const TarnOpenclDevice *device)
{
  Program program = { .context = NULL };
  cl_bool has = CL_FALSE;
  cl_int status;

  layer->reset ();
  g_assert_cmpint (
      clGetDeviceInfo (device->device, CL_DEVICE_IMAGE_SUPPORT, sizeof has, &has, NULL), ==,
      CL_SUCCESS);
  status = has ? run_image (&program, device->device) : CL_INVALID_OPERATION;
  program_end (&program);
  if (status != CL_SUCCESS)
    g_test_skip ("the driver makes no images of buffers that are from a pool");
  return status == CL_SUCCESS;
}

static void
image_once (const TarnOpenclDevice *device, OpenclState *state)
{
  (void) state;
  if (has_images_of_buffers (device))
    fail_each (device, FALSE, run_image);
}

static void
image_for_ever (const TarnOpenclDevice *device, OpenclState *state)
{
  (void) state;
  if (has_images_of_buffers (device))
    fail_each (device, TRUE, run_image);
}

/* A driver that makes no images of sub-buffers, for a device that is not the host's processor: the
 * program has its error, and from then on buffers of which there are images. */
static void
image_later (const TarnOpenclDevice *device, OpenclState *state)
{
  const cl_device_type type = CL_DEVICE_TYPE_GPU;
  cl_int status = CL_SUCCESS;
  Program program = { .context = NULL };

  (void) state;
  if (!has_images_of_buffers (device))
    return;
  layer->set_device_info (CL_DEVICE_TYPE, &type, sizeof type);
  program.context = opencl_context_new (device);
  make_buffer (&program, 0, SIZE, &status);
  g_assert_cmpint (status, ==, CL_SUCCESS);
  make_image_of (&program, 0, &status);
  if (status == CL_SUCCESS)
    g_test_skip ("the driver makes images of sub-buffers");
  else
    {
      g_assert_cmpint (status, ==, CL_INVALID_MEM_OBJECT);
      g_assert_null (program.part);
      status = CL_SUCCESS;
      make_buffer (&program, 1, SIZE, &status);
      make_image_of (&program, 1, &status);
      g_assert_cmpint (status, ==, CL_SUCCESS);
    }
  program_end (&program);
  layer->reset ();
}

/* Images from a pool */

/* Fills an image, reads a pixel, and releases it if it is to be. */
static void
use_image (Program *self, guint queue, guint value, cl_mem image, cl_int *status)
{
  const size_t origin[3] = { 0, 0, 0 }, region[3] = { 16, 16, 1 }, one[3] = { 1, 1, 1 };
  const cl_uint colour[4] = { value, value, value, value };
  guint8 pixel[4] = { 0 };

  if (*status == CL_SUCCESS)
    *status
        = clEnqueueFillImage (self->queues[queue], image, colour, origin, region, 0, NULL, NULL);
  if (*status == CL_SUCCESS)
    *status = clEnqueueReadImage (self->queues[queue], image, CL_TRUE, origin, one, 0, 0, pixel, 0,
                                  NULL, NULL);
  if (*status == CL_SUCCESS)
    g_assert_cmpint (pixel[0], ==, value);
}

/* Images that the context's pool serves, on two queues. */
static cl_int
run_pooled_images (Program *self, cl_device_id device)
{
  cl_int status = CL_SUCCESS;

  self->context = clCreateContext (NULL, 1, &device, NULL, NULL, &status);
  make_queue (self, 0, device, &status);
  make_queue (self, 1, device, &status);
  for (guint i = 0; i < 6 && status == CL_SUCCESS; i++)
    {
      self->buffers[i % 2] = make_image (self, 16 + i / 2 % 2, &status);
      use_image (self, i % 2, 1 + i, self->buffers[i % 2], &status);
      program_release (&self->buffers[i % 2], &status);
    }
  self->part = make_image (self, 18, &status);
  use_image (self, 1, 9, self->part, &status);
  return status;
}

static void
pooled_once (const TarnOpenclDevice *device, OpenclState *state)
{
  (void) state;
  if (has_images (device))
    fail_each (device, FALSE, run_pooled_images);
}

static void
pooled_for_ever (const TarnOpenclDevice *device, OpenclState *state)
{
  (void) state;
  if (has_images (device))
    fail_each (device, TRUE, run_pooled_images);
}

static guint
wait_images (guint expected)
{
  gint64 deadline = g_get_monotonic_time () + WAIT;

  while (layer->get_live (OPENCL_LAYER_IMAGE, NULL, 0) > expected
         && g_get_monotonic_time () < deadline)
    g_thread_yield ();
  return layer->get_live (OPENCL_LAYER_IMAGE, NULL, 0);
}

/* The same images are made again without the driver, and are all released with their context. */
static void
pooled_again (const TarnOpenclDevice *device, OpenclState *state)
{
  Program program = { .context = NULL };
  cl_int status = CL_SUCCESS;
  guint before, n_images;

  (void) state;
  if (!has_images (device))
    return;
  before = count_live ();
  n_images = layer->get_live (OPENCL_LAYER_IMAGE, NULL, 0);
  program.context = opencl_context_new (device);
  make_queue (&program, 0, device->device, &status);
  layer->reset ();
  for (guint i = 0; i < 100; i++)
    {
      program.buffers[0] = make_image (&program, 16 + i % 2, &status);
      use_image (&program, 0, i, program.buffers[0], &status);
      program_release (&program.buffers[0], &status);
      g_assert_cmpint (status, ==, CL_SUCCESS);
    }
  g_assert_cmpuint (layer->get_calls ("clCreateImage"), ==, 2);
  make_buffer (&program, 0, SIZE, &status);
  g_assert_cmpint (clReleaseContext (g_steal_pointer (&program.context)), ==, CL_SUCCESS);
  g_assert_cmpuint (wait_images (n_images), ==, n_images); /* though the buffer has the context */
  program_end (&program);
  g_assert_cmpuint (wait_live (before, WAIT), ==, before);
}

static void
make_and_release (Program *program, gsize width)
{
  cl_int status = CL_SUCCESS;
  cl_mem image = make_image (program, width, &status);

  g_assert_cmpint (status, ==, CL_SUCCESS);
  g_assert_cmpint (clReleaseMemObject (image), ==, CL_SUCCESS);
}

/* Images that are not needed for long go back, those that are do not. */
static void
pooled_idle (const TarnOpenclDevice *device, OpenclState *state)
{
  guint n_images = layer->get_live (OPENCL_LAYER_IMAGE, NULL, 0);
  Program program = { .context = state->context };

  if (!has_images (device))
    return;
  layer->reset ();
  for (guint i = 0; i < 10; i++)
    make_and_release (&program, 16 + i);
  g_assert_cmpuint (layer->get_calls ("clCreateImage"), ==, 10);
  for (guint i = 0; i < 4; i++)
    {
      faults_advance_clock (6 * G_TIME_SPAN_SECOND);
      make_and_release (&program, 16);
    }
  g_assert_cmpuint (layer->get_calls ("clCreateImage"), ==, 10);
  g_assert_cmpuint (wait_images (n_images + 1), ==, n_images + 1);
}

/* On a driver whose maps hold no references, an image that is released while it is mapped is not
 * handed out again. */
static void
pooled_mapped (const TarnOpenclDevice *device, OpenclState *state)
{
  const size_t origin[3] = { 0, 0, 0 }, region[3] = { 16, 16, 1 };
  const cl_uint one = 1;
  Program program = { .context = NULL };
  cl_int status = CL_SUCCESS;
  gpointer pointer;
  size_t row;
  cl_mem image;

  (void) state;
  if (!has_images (device))
    return;
  layer->reset ();
  program.context = opencl_context_new (device);
  make_queue (&program, 0, device->device, &status);
  layer->set_info ("clGetMemObjectInfo", CL_MEM_REFERENCE_COUNT, &one, sizeof one);
  for (guint i = 0; i < 3; i++)
    {
      image = make_image (&program, 16, &status);
      g_assert_cmpint (status, ==, CL_SUCCESS);
      pointer = clEnqueueMapImage (program.queues[0], image, CL_TRUE, CL_MAP_READ, origin, region,
                                   &row, NULL, 0, NULL, NULL, &status);
      g_assert_cmpint (status, ==, CL_SUCCESS);
      if (i == 2)
        g_assert_cmpint (clEnqueueUnmapMemObject (program.queues[0], image, pointer, 0, NULL, NULL),
                         ==, CL_SUCCESS);
      g_assert_cmpint (clReleaseMemObject (image), ==, CL_SUCCESS);
    }
  g_assert_cmpuint (layer->get_calls ("clCreateImage"), ==, 3);
  program.part = make_image (&program, 16, &status);
  g_assert_cmpint (status, ==, CL_SUCCESS);
  g_assert_cmpuint (layer->get_calls ("clCreateImage"), ==, 3);
  program_end (&program);
  layer->reset ();
}

static const OpenclCase cases[] = { { "/layer/faults/image-once", image_once },
                                    { "/layer/faults/image-for-ever", image_for_ever },
                                    { "/layer/faults/image-later", image_later },
                                    { "/layer/faults/pooled-images-once", pooled_once },
                                    { "/layer/faults/pooled-images-for-ever", pooled_for_ever },
                                    { "/layer/pooled-images-again", pooled_again },
                                    { "/layer/pooled-images-idle", pooled_idle },
                                    { "/layer/pooled-images-mapped", pooled_mapped } };

void
faults_add_images (void)
{
  opencl_add (cases, G_N_ELEMENTS (cases));
}
