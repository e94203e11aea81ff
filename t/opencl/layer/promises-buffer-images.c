/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Images of buffers, of one dimension and of two: what they show, also if nothing announced them,
 * and copies between other images and buffers. */

#include "promises.h"

static const cl_image_format rgba = { CL_RGBA, CL_UNSIGNED_INT8 };

/* Also, there is a program that uses images of buffers: that may be what tells a layer so. */
static void
need_images (World *world)
{
  const gchar *text = "kernel void look (read_only image1d_buffer_t image, global uint4 *pixels)\n"
                      "{ pixels[get_global_id (0)] = read_imageui (image, get_global_id (0)); }\n";
  cl_int status = 99;
  cl_program program;

  promise_need_images (world);
  program = clCreateProgramWithSource (world->context, 1, &text, NULL, &status);
  promise_check (status, "clCreateProgramWithSource");
  OK (clReleaseProgram (program));
}

/* Also, the program asks which images of buffers there are: that may be what tells a layer so. */
static void
need_images_that_are_asked_about (World *world)
{
  cl_image_format formats[256];
  cl_uint n = 0;

  promise_need_images (world);
  OK (clGetSupportedImageFormats (world->context, CL_MEM_READ_WRITE, CL_MEM_OBJECT_IMAGE1D_BUFFER,
                                  G_N_ELEMENTS (formats), formats, &n));
  printf ("%u formats\n", n);
  if (n == 0)
    promise_skip ("the device has no images of buffers");
}

static cl_mem
image_of (World *world, cl_mem buffer, gsize width, gsize height, cl_int *status)
{
  cl_image_desc desc
      = { .image_type = height == 0 ? CL_MEM_OBJECT_IMAGE1D_BUFFER : CL_MEM_OBJECT_IMAGE2D,
          .image_width = width,
          .image_height = height,
          .image_row_pitch = height == 0 ? 0 : 4 * width };

  desc.buffer = buffer;
  *status = 99;
  return clCreateImage (world->context, 0, &rgba, &desc, NULL, status);
}

static void
print_image (World *world, cl_mem image, cl_mem buffer, cl_uint count)
{
  cl_mem associated = NULL, of_image = NULL;
  cl_mem_object_type type = 0;
  size_t size = 0, offset = 99;
  cl_context context = NULL;

  OK (clGetMemObjectInfo (image, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof associated, &associated,
                          NULL));
  OK (clGetMemObjectInfo (image, CL_MEM_TYPE, sizeof type, &type, NULL));
  OK (clGetMemObjectInfo (image, CL_MEM_SIZE, sizeof size, &size, NULL));
  OK (clGetMemObjectInfo (image, CL_MEM_OFFSET, sizeof offset, &offset, NULL));
  OK (clGetMemObjectInfo (image, CL_MEM_CONTEXT, sizeof context, &context, NULL));
  OK (clGetImageInfo (image, CL_IMAGE_BUFFER, sizeof of_image, &of_image, NULL));
  printf ("%#x, %zu bytes at %zu, %s, %s, %s, counts %u and %u\n", type, size, offset,
          associated == buffer ? "of the buffer"
          : associated == NULL ? "of none"
                               : "of another",
          of_image == buffer ? "the buffer"
          : of_image == NULL ? "none"
                             : "another",
          context == world->context ? "context" : "another context", promise_wait_count (image, 1),
          promise_wait_count (buffer, count));
}

/* What is written to the image, the @count-th holder of the buffer, is in the buffer, and the other
 * way round; the buffer may go first.
 */
static void
show_image (World *world, cl_mem buffer, gsize width, gsize height, cl_uint count, gboolean release)
{
  const size_t origin[3] = { 0, 0, 0 }, region[3] = { width, MAX (height, 1), 1 };
  gsize size = 4 * width * MAX (height, 1);
  g_autofree guchar *bytes = promise_pattern (5, size), *read = g_malloc0 (size);
  cl_int status;
  cl_mem image = image_of (world, buffer, width, height, &status), associated = NULL;

  printf ("%zu x %zu: %s%s\n", width, height, promise_status (status),
          image == NULL ? " NULL" : "");
  if (image == NULL)
    return;
  print_image (world, image, buffer, count);
  OK (clEnqueueWriteImage (world->queue, image, CL_TRUE, origin, region, 0, 0, bytes, 0, NULL,
                           NULL));
  printf ("%zu wrong, ", promise_read_wrong (world->queue, buffer, 0, size, 5, 0));
  promise_write (world->queue, buffer, 0, size, 6);
  if (release)
    OK (clReleaseMemObject (buffer));
  OK (clReleaseMemObject (promise_filled (world, size, 7)));
  OK (clEnqueueReadImage (world->queue, image, CL_TRUE, origin, region, 0, 0, read, 0, NULL, NULL));
  OK (clGetMemObjectInfo (image, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof associated, &associated,
                          NULL));
  printf ("%zu wrong, %s\n", promise_count_wrong (read, size, 6, 0),
          associated == buffer ? "of the buffer" : "of another");
  OK (clReleaseMemObject (image));
}

static void
show_images (World *world)
{
  gsize alignment = promise_get_alignment (world);

  for (guint i = 0; i < 3; i++)
    {
      cl_mem before = promise_filled (world, 4096, 1), buffer = promise_filled (world, 4096, 2);
      cl_mem after = promise_filled (world, 4096, 3), part;

      part = promise_part (buffer, 0, alignment, 1024);
      show_image (world, buffer, 1024, 0, 3, FALSE);
      show_image (world, buffer, 1025, 0, 3, FALSE);
      show_image (world, buffer, 1, 0, 3, FALSE);
      show_image (world, part, 256, 0, 2, FALSE);
      show_image (world, part, 257, 0, 2, FALSE);
      show_image (world, buffer, 1024, 0, 3, i == 2);
      OK (clReleaseMemObject (part));
      printf ("neighbours %zu, %zu\n", promise_read_wrong (world->queue, before, 0, 4096, 1, 0),
              promise_read_wrong (world->queue, after, 0, 4096, 3, 0));
      if (i != 2)
        OK (clReleaseMemObject (buffer));
      OK (clReleaseMemObject (before));
      OK (clReleaseMemObject (after));
    }
}

static void
images (World *world)
{
  need_images (world);
  show_images (world);
}

/* Also, the program asks how large they can be. */
static void
images_measured (World *world)
{
  size_t most = 0;

  promise_need_images (world);
  OK (clGetDeviceInfo (world->device, CL_DEVICE_IMAGE_MAX_BUFFER_SIZE, sizeof most, &most, NULL));
  show_images (world);
}

static void
images_asked_about (World *world)
{
  need_images_that_are_asked_about (world);
  show_images (world);
}

/* Asks all about an image, with each flags that a buffer can have. */
static void
show_image_flags (World *world, cl_mem_flags flags, cl_mem buffer)
{
  cl_image_desc desc = { .image_type = CL_MEM_OBJECT_IMAGE1D_BUFFER, .image_width = 1024 };

  desc.buffer = buffer;
  for (guint i = 0; i < ACCESS_FLAGS; i++)
    for (guint k = 0; k < HOST_FLAGS; k++)
      {
        cl_mem_flags asked = promise_access[i] | promise_host_access[k], seen = 0;
        g_autofree gchar *of_buffer = promise_flags (flags), *of_image = promise_flags (asked);
        g_autofree gchar *answer = NULL;
        gpointer host = NULL;
        cl_int status = 99;
        cl_mem image = clCreateImage (world->context, asked, &rgba, &desc, NULL, &status);

        printf ("%s of %s: %s", of_image, of_buffer, promise_status (status));
        if (image != NULL)
          {
            OK (clGetMemObjectInfo (image, CL_MEM_FLAGS, sizeof seen, &seen, NULL));
            OK (clGetMemObjectInfo (image, CL_MEM_HOST_PTR, sizeof host, &host, NULL));
            answer = promise_flags (seen);
            printf (", %s, %s", answer, host == NULL ? "no host pointer" : "a host pointer");
            OK (clReleaseMemObject (image));
          }
        printf ("\n");
      }
}

/* Writes to a buffer by a kernel, and to an image of it by a map: each is seen in the other. */
static void
use_beside (World *world, cl_mem buffer, cl_mem image, cl_kernel add)
{
  const size_t origin[3] = { 0, 0, 0 }, region[3] = { 1024, 1, 1 };
  gsize wrong[3] = { 1, 1, 1 };
  guchar read[4096];
  guchar *mapped;
  size_t row = 0;
  cl_int status = 99;

  promise_write (world->queue, buffer, 0, 4096, 9);
  promise_run (world->queue, add, buffer, 4096, 3);
  OK (clEnqueueReadImage (world->queue, image, CL_TRUE, origin, region, 0, 0, read, 0, NULL, NULL));
  wrong[0] = promise_count_wrong (read, 4096, 9, 3);
  mapped = clEnqueueMapImage (world->queue, image, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, origin,
                              region, &row, NULL, 0, NULL, NULL, &status);
  if (mapped != NULL)
    {
      wrong[1] = promise_count_wrong (mapped, 4096, 9, 3);
      for (guint i = 0; i < 4096; i++)
        mapped[i]++;
      OK (clEnqueueUnmapMemObject (world->queue, image, mapped, 0, NULL, NULL));
      wrong[2] = promise_read_wrong (world->queue, buffer, 0, 4096, 9, 4);
    }
  printf ("%zu wrong, mapped: %s, %zu wrong, %zu wrong\n", wrong[0], promise_status (status),
          wrong[1], wrong[2]);
  promise_expect (world, wrong[0] + wrong[1] + wrong[2] == 0);
}

/* Nothing has told that images of buffers will come until there are buffers, with parts, maps and
 * commands that wait. */
static void
images_unannounced (World *world)
{
  gsize alignment = promise_get_alignment (world);
  cl_mem buffers[2][ACCESS_FLAGS][HOST_FLAGS], filled[5], part, image;
  cl_kernel add = promise_kernel (world, "add");
  cl_event gate = promise_gate (world);
  cl_int status = 99;
  gpointer mapped;

  promise_need_images (world);
  for (guint i = 0; i < 2; i++)
    for (guint k = 0; k < ACCESS_FLAGS; k++)
      for (guint l = 0; l < HOST_FLAGS; l++)
        buffers[i][k][l] = promise_buffer (world,
                                           (i == 0 ? 0 : CL_MEM_ALLOC_HOST_PTR) | promise_access[k]
                                               | promise_host_access[l],
                                           4096, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (filled); i++)
    filled[i] = promise_filled (world, 4096, i + 1);
  part = promise_part (filled[1], 0, alignment, 1024);
  mapped = clEnqueueMapBuffer (world->queue, filled[1], CL_TRUE, CL_MAP_READ, 0, 4096, 0, NULL,
                               NULL, &status);
  promise_check (status, "clEnqueueMapBuffer");
  OK (clEnqueueBarrierWithWaitList (world->queue, 1, &gate, NULL));
  promise_set (add, filled[4], 4096, 0);
  promise_launch (world->queue, add, 0, NULL, NULL);
  image = image_of (world, filled[1], 1024, 0, &status);
  printf ("while commands wait: %s\n", promise_status (status));
  OK (clEnqueueUnmapMemObject (world->queue, filled[1], mapped, 0, NULL, NULL));
  promise_open (gate);
  if (image != NULL)
    {
      print_image (world, image, filled[1], 3);
      use_beside (world, filled[1], image, add);
      OK (clReleaseMemObject (image));
    }
  show_image (world, filled[1], 1024, 0, 3, FALSE);
  show_image (world, filled[1], 1025, 0, 3, FALSE);
  show_image (world, part, 256, 0, 2, FALSE);
  OK (clReleaseMemObject (part));
  show_image (world, filled[3], 1024, 0, 2, TRUE);
  printf ("neighbours %zu, %zu, %zu\n", promise_read_wrong (world->queue, filled[0], 0, 4096, 1, 0),
          promise_read_wrong (world->queue, filled[2], 0, 4096, 3, 0),
          promise_read_wrong (world->queue, filled[4], 0, 4096, 5, 0));
  for (guint i = 0; i < 2; i++)
    for (guint k = 0; k < ACCESS_FLAGS; k++)
      for (guint l = 0; l < HOST_FLAGS; l++)
        {
          show_image_flags (world,
                            (i == 0 ? 0 : CL_MEM_ALLOC_HOST_PTR) | promise_access[k]
                                | promise_host_access[l],
                            buffers[i][k][l]);
          OK (clReleaseMemObject (buffers[i][k][l]));
        }
  show_image (world, filled[2], 64, 16, 2, FALSE);
  for (guint i = 0; i < G_N_ELEMENTS (filled); i++)
    if (i != 3)
      OK (clReleaseMemObject (filled[i]));
  OK (clReleaseKernel (add));
}

static void
images_flat (World *world)
{
  gchar extensions[8192] = "";
  cl_mem buffer;

  need_images (world);
  OK (clGetDeviceInfo (world->device, CL_DEVICE_EXTENSIONS, sizeof extensions, extensions, NULL));
  if (strstr (extensions, "cl_khr_image2d_from_buffer") == NULL)
    promise_skip ("there are no 2D images from buffers");
  buffer = promise_filled (world, 64 * 64 * 4, 1);
  show_image (world, buffer, 64, 64, 2, FALSE);
  show_image (world, buffer, 64, 65, 2, FALSE);
  show_image (world, buffer, 64, 16, 2, TRUE);
}

/* Between images that are not of buffers, and buffers. */
static void
images_copies (World *world)
{
  const size_t origin[3] = { 0, 0, 0 }, region[3] = { 16, 16, 1 };
  cl_image_desc desc
      = { .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 16, .image_height = 16 };
  cl_int status = 99;
  cl_bool has = CL_FALSE;
  cl_mem image, from, to;

  OK (clGetDeviceInfo (world->device, CL_DEVICE_IMAGE_SUPPORT, sizeof has, &has, NULL));
  if (!has)
    promise_skip ("the device has no images");
  image = clCreateImage (world->context, 0, &rgba, &desc, NULL, &status);
  promise_check (status, "clCreateImage");
  for (guint i = 0; i < 20; i++)
    {
      cl_event gate = promise_gate (world);
      cl_int beyond[2];

      from = promise_filled (world, 1024 + i, i);
      to = promise_filled (world, 1024 + i, 50);
      OK (clEnqueueBarrierWithWaitList (world->queue, 1, &gate, NULL));
      OK (clEnqueueCopyBufferToImage (world->queue, from, image, i, origin, region, 0, NULL, NULL));
      OK (clReleaseMemObject (from));
      from = promise_buffer (world, 0, 1024 + i, NULL);
      OK (clEnqueueCopyImageToBuffer (world->queue, image, to, origin, region, 0, 0, NULL, NULL));
      promise_open (gate);
      {
        guchar read[1024];
        gsize wrong = 0;

        OK (clEnqueueReadBuffer (world->queue, to, CL_TRUE, 0, 1024, read, 0, NULL, NULL));
        for (guint k = 0; k < 1024; k++)
          wrong += read[k] != promise_byte (i, i + k);
        printf ("%zu wrong, ", wrong);
        promise_expect (world, wrong == 0);
      }
      beyond[0] = clEnqueueCopyBufferToImage (world->queue, from, image, i + 1, origin, region, 0,
                                              NULL, NULL);
      beyond[1] = clEnqueueCopyImageToBuffer (world->queue, image, to, origin, region, i + 1, 0,
                                              NULL, NULL);
      promise_expect (world, beyond[0] == CL_INVALID_VALUE && beyond[1] == CL_INVALID_VALUE);
      printf ("beyond the end: %s, %s\n", promise_status (beyond[0]), promise_status (beyond[1]));
      OK (clFinish (world->queue));
      OK (clReleaseMemObject (from));
      OK (clReleaseMemObject (to));
    }
  OK (clReleaseMemObject (image));
}

/* An image ends where its buffer does, which may have more memory. */
static void
images_beyond (World *world)
{
  cl_mem buffer = promise_filled (world, 1000, 1);

  promise_need_images (world);
  for (gsize width = 251; width < 260; width++)
    {
      cl_int status;
      cl_mem image = image_of (world, buffer, width, 0, &status);

      printf ("%zu pixels: %s\n", width, promise_status (status));
      if (image != NULL)
        OK (clReleaseMemObject (image));
    }
  OK (clReleaseMemObject (buffer));
}

/* What is no buffer is none, and what is a buffer is no image. */
static void
images_errors (World *world)
{
  const size_t origin[3] = { 0, 0, 0 }, region[3] = { 1, 1, 1 };
  cl_image_desc desc
      = { .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 16, .image_height = 16 };
  cl_buffer_region part = { 0, 16 };
  guchar host[64] = { 0 };
  cl_int status = 99;
  cl_mem image, buffer = promise_filled (world, 1024, 1);
  size_t width = 0;

  need_images (world);
  image = clCreateImage (world->context, 0, &rgba, &desc, NULL, &status);
  promise_check (status, "clCreateImage");
#define SHOW(call) printf (#call ": %s\n", promise_status (call))
  SHOW (clEnqueueReadBuffer (world->queue, image, CL_TRUE, 0, 1, host, 0, NULL, NULL));
  SHOW (clEnqueueWriteBuffer (world->queue, image, CL_TRUE, 0, 1, host, 0, NULL, NULL));
  SHOW (clEnqueueFillBuffer (world->queue, image, host, 1, 0, 1, 0, NULL, NULL));
  SHOW (clEnqueueReadImage (world->queue, buffer, CL_TRUE, origin, region, 0, 0, host, 0, NULL,
                            NULL));
  SHOW (clGetImageInfo (buffer, CL_IMAGE_WIDTH, sizeof width, &width, NULL));
#undef SHOW
  printf ("a part of an image: %s",
          clCreateSubBuffer (image, 0, CL_BUFFER_CREATE_TYPE_REGION, &part, &status) == NULL
              ? "NULL "
              : "a part ");
  printf ("%s\n", promise_status (status));
  OK (clReleaseMemObject (image));
  OK (clReleaseMemObject (buffer));
}

/* An image of a buffer, and the buffer, are released while a command has yet to read the image.
 * Then the program makes too large a request, for which a layer may return all that is free. */
static void
images_released (World *world)
{
  enum
  {
    WIDTH = 1 << 16,
    LARGE = 32 << 20
  };
  const size_t origin[3] = { 0, 0, 0 }, region[3] = { WIDTH, 1, 1 };
  g_autofree guchar *read = g_malloc0 (4 * WIDTH);
  cl_mem buffer, image, slow;
  cl_int status;

  promise_need_images (world);
  slow = promise_buffer (world, 0, LARGE, NULL);
  buffer = promise_filled (world, 4 * WIDTH, 7);
  image = image_of (world, buffer, WIDTH, 0, &status);
  printf ("%s\n", promise_status (status));
  if (image == NULL)
    return;
  for (guint i = 0; i < 50; i++)
    OK (clEnqueueFillBuffer (world->queue, slow, &i, 1, 0, LARGE, 0, NULL, NULL));
  OK (clEnqueueReadImage (world->queue, image, CL_FALSE, origin, region, 0, 0, read, 0, NULL,
                          NULL));
  OK (clFlush (world->queue));
  OK (clReleaseMemObject (image));
  OK (clReleaseMemObject (buffer));
  OK (clReleaseMemObject (slow));
  printf ("%s\n", clSVMAlloc (world->context, CL_MEM_READ_WRITE, (size_t) 1 << 46, 0) == NULL
                      ? "refused"
                      : "allocated");
  OK (clFinish (world->queue));
  printf ("%zu wrong\n", promise_count_wrong (read, 4 * WIDTH, 7, 0));
}

const Promise promises_buffer_images[] = { { "images", images, FALSE },
                                           { "images-asked-about", images_asked_about, FALSE },
                                           { "images-measured", images_measured, FALSE },
                                           { "images-unannounced", images_unannounced, FALSE },
                                           { "images-flat", images_flat, FALSE },
                                           { "images-copies", images_copies, FALSE },
                                           { "images-beyond", images_beyond, FALSE },
                                           { "images-errors", images_errors, FALSE },
                                           { "images-released", images_released, FALSE },
                                           { NULL, NULL, FALSE } };
