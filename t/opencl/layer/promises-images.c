/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Images that are of no buffer: queries, what is refused, references, contexts, maps, threads.
 * promises-image-contents.c has their contents. */

#define CL_USE_DEPRECATED_OPENCL_1_1_APIS

#include "promises-pixels.h"

/* Questions about images */

static const cl_image_desc descs[] = {
  { .image_type = CL_MEM_OBJECT_IMAGE1D, .image_width = 33 },
  { .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 33, .image_height = 7 },
  { .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 7, .image_height = 33 },
  { .image_type = CL_MEM_OBJECT_IMAGE3D, .image_width = 33, .image_height = 7, .image_depth = 3 },
  { .image_type = CL_MEM_OBJECT_IMAGE1D_ARRAY, .image_width = 33, .image_array_size = 7 },
  { .image_type = CL_MEM_OBJECT_IMAGE2D_ARRAY,
    .image_width = 33,
    .image_height = 7,
    .image_array_size = 3 }
};
static const cl_image_format formats[] = { { CL_R, CL_UNSIGNED_INT8 },
                                           { CL_RGBA, CL_UNSIGNED_INT8 },
                                           { CL_RGBA, CL_UNORM_INT8 },
                                           { CL_RGBA, CL_FLOAT },
                                           { CL_RGBA, CL_HALF_FLOAT } };

static void
print_image (World *world, cl_mem image)
{
  static const cl_image_info numbers[]
      = { CL_IMAGE_ELEMENT_SIZE,   CL_IMAGE_ROW_PITCH,   CL_IMAGE_SLICE_PITCH,
          CL_IMAGE_WIDTH,          CL_IMAGE_HEIGHT,      CL_IMAGE_DEPTH,
          CL_IMAGE_NUM_MIP_LEVELS, CL_IMAGE_NUM_SAMPLES, CL_IMAGE_ARRAY_SIZE };
  cl_image_format format = { 0, 0 };
  cl_mem_object_type type = 0;
  cl_mem_flags flags = 0;
  cl_mem of = NULL, associated = NULL;
  cl_context context = NULL;
  gpointer host = NULL;
  size_t bytes = 0;
  cl_uint maps = 99;
  g_autofree gchar *named = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    {
      size_t value = 0; /* two of them are narrower */

      OK (clGetImageInfo (image, numbers[i], sizeof value, &value, NULL));
      printf ("%zu ", value);
    }
  OK (clGetImageInfo (image, CL_IMAGE_FORMAT, sizeof format, &format, NULL));
  OK (clGetImageInfo (image, CL_IMAGE_BUFFER, sizeof of, &of, NULL));
  OK (clGetMemObjectInfo (image, CL_MEM_TYPE, sizeof type, &type, NULL));
  OK (clGetMemObjectInfo (image, CL_MEM_FLAGS, sizeof flags, &flags, NULL));
  OK (clGetMemObjectInfo (image, CL_MEM_SIZE, sizeof bytes, &bytes, NULL));
  OK (clGetMemObjectInfo (image, CL_MEM_HOST_PTR, sizeof host, &host, NULL));
  OK (clGetMemObjectInfo (image, CL_MEM_MAP_COUNT, sizeof maps, &maps, NULL));
  OK (clGetMemObjectInfo (image, CL_MEM_CONTEXT, sizeof context, &context, NULL));
  OK (clGetMemObjectInfo (image, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof associated, &associated,
                          NULL));
  named = promise_flags (flags);
  printf ("%#x %#x %#x %s, %zu bytes, %s, %u maps, %s, of %s and %s, counts %u\n",
          format.image_channel_order, format.image_channel_data_type, type, named, bytes,
          host == NULL ? "no host pointer" : "a host pointer", maps,
          context == world->context ? "the context" : "another context",
          of == NULL ? "none" : "a buffer", associated == NULL ? "none" : "an object",
          promise_get_count (image));
}

static void
info (World *world)
{
  static const cl_mem_flags flags[] = { 0,
                                        CL_MEM_READ_WRITE,
                                        CL_MEM_READ_ONLY,
                                        CL_MEM_WRITE_ONLY,
                                        CL_MEM_ALLOC_HOST_PTR,
                                        CL_MEM_HOST_READ_ONLY,
                                        CL_MEM_HOST_WRITE_ONLY,
                                        CL_MEM_HOST_NO_ACCESS,
                                        CL_MEM_READ_ONLY | CL_MEM_ALLOC_HOST_PTR,
                                        CL_MEM_READ_WRITE | CL_MEM_READ_ONLY,
                                        CL_MEM_USE_HOST_PTR,
                                        CL_MEM_COPY_HOST_PTR };

  promise_need_images (world);
  for (guint round = 0; round < 2; round++)
    for (guint f = 0; f < G_N_ELEMENTS (flags); f++)
      for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
        for (guint k = 0; k < G_N_ELEMENTS (descs); k++)
          {
            cl_int status = 99;
            cl_mem image
                = clCreateImage (world->context, flags[f], &formats[i], &descs[k], NULL, &status);

            printf ("%u %u %u: %s ", f, i, k, promise_status (status));
            if (image != NULL)
              {
                print_image (world, image);
                OK (clReleaseMemObject (image));
              }
            else
              printf ("\n");
          }
}

static void
show_status (cl_mem image, cl_int status, const gchar *what)
{
  printf ("%s: %s%s\n", what, promise_status (status), image == NULL ? "" : ", an image");
  if (image != NULL)
    OK (clReleaseMemObject (image));
}

/* The driver refuses a wrong image, also after right ones that are nearly the same. */
static void
refused (World *world)
{
  const cl_image_format wrong = { CL_RGBA, CL_UNORM_SHORT_565 };
  cl_image_desc desc
      = { .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = SIDE, .image_height = SIDE };
  cl_image_desc empty = desc, pitched = desc, wide = desc, other = desc;
  cl_mem_flags unknown = (cl_mem_flags) 1 << 40;
  guchar bytes[BYTES] = { 0 };
  cl_int status = 99;
  cl_mem image;

  promise_need_images (world);
  empty.image_height = 0;
  pitched.image_row_pitch = 4 * SIDE;
  wide.image_width = (size_t) 1 << 28;
  other.image_type = CL_MEM_OBJECT_BUFFER;
  for (guint i = 0; i < 2; i++)
    {
      OK (clReleaseMemObject (image_new (world, 0)));
#define SHOW(what, flags, format, desc, host)                                                      \
  image = clCreateImage (world->context, flags, format, desc, host, &status);                      \
  show_status (image, status, what);
      SHOW ("no height", 0, &rgba, &empty, NULL)
      SHOW ("a pitch", 0, &rgba, &pitched, NULL)
      SHOW ("too wide", 0, &rgba, &wide, NULL)
      SHOW ("no image", 0, &rgba, &other, NULL)
      SHOW ("no format", 0, NULL, &desc, NULL)
      SHOW ("no descriptor", 0, &rgba, NULL, NULL)
      SHOW ("a wrong format", 0, &wrong, &desc, NULL)
      SHOW ("flags that there are not", unknown, &rgba, &desc, NULL)
      SHOW ("bytes without a flag", 0, &rgba, &desc, bytes)
#undef SHOW
      OK (clReleaseMemObject (image_new (world, 0)));
    }
  image = clCreateImage (NULL, 0, &rgba, &desc, NULL, &status);
  show_status (image, status, "no context");
  image = clCreateImage (world->context, 0, &rgba, &desc, NULL, NULL);
  show_status (image, CL_SUCCESS, "no status");
}

/* PoCL ends the process. */
static void
levels (World *world)
{
  cl_image_desc desc = { .image_type = CL_MEM_OBJECT_IMAGE2D,
                         .image_width = SIDE,
                         .image_height = SIDE,
                         .num_mip_levels = 3 };
  cl_int status = 99;
  cl_mem image;

  promise_need_images (world);
  OK (clReleaseMemObject (image_new (world, 0)));
  image = clCreateImage (world->context, 0, &rgba, &desc, NULL, &status);
  show_status (image, status, "levels");
}

/* Functions of OpenCL 1.1. */
static void
older (World *world)
{
  cl_int status = 99;
  cl_mem image;

  promise_need_images (world);
  for (guint i = 0; i < 3; i++)
    {
      OK (clReleaseMemObject (image_new (world, 0)));
      image = clCreateImage2D (world->context, 0, &rgba, SIDE, SIDE, 0, NULL, &status);
      promise_check (status, "clCreateImage2D");
      print_image (world, image);
      image_fill (world->queue, image, 3 + i, NULL);
      printf ("%zu wrong\n", image_count_others (world->queue, image, 3 + i));
      OK (clReleaseMemObject (image));
      image = clCreateImage3D (world->context, 0, &rgba, SIDE, SIDE, 3, 0, 0, NULL, &status);
      promise_check (status, "clCreateImage3D");
      print_image (world, image);
      OK (clReleaseMemObject (image));
      image = clCreateImage2D (world->context, 0, &rgba, SIDE, 0, 0, NULL, &status);
      show_status (image, status, "no height");
      image = clCreateImage2D (world->context, 0, &rgba, SIDE, SIDE, 3, NULL, &status);
      show_status (image, status, "a pitch");
    }
}

/* References and ends */

static gint n_destroyed; /* atomic */

static void CL_CALLBACK
on_destroyed (cl_mem image, void *counter)
{
  (void) image;
  g_atomic_int_inc ((gint *) counter);
}

static gint
wait_destroyed (gint expected)
{
  gint64 end = g_get_monotonic_time () + 2 * G_TIME_SPAN_SECOND;

  while (g_atomic_int_get (&n_destroyed) < expected && g_get_monotonic_time () < end)
    g_thread_yield ();
  return g_atomic_int_get (&n_destroyed);
}

/* References are counted, and callbacks come once for each image: not before its commands are done,
 * and none of another image's. */
static void
references (World *world)
{
  promise_need_images (world);
  for (guint i = 0; i < 20; i++)
    {
      cl_event gate = promise_gate (world);
      cl_mem image = image_new (world, 0);

      g_atomic_int_set (&n_destroyed, 0);
      printf ("counts %u, ", promise_get_count (image));
      OK (clRetainMemObject (image));
      OK (clRetainMemObject (image));
      printf ("%u, ", promise_get_count (image));
      OK (clReleaseMemObject (image));
      OK (clReleaseMemObject (image));
      printf ("%u; ", promise_get_count (image));
      OK (clSetMemObjectDestructorCallback (image, on_destroyed, &n_destroyed));
      OK (clSetMemObjectDestructorCallback (image, on_destroyed, &n_destroyed));
      image_fill (world->queue, image, 1, &gate);
      OK (clFlush (world->queue));
      OK (clReleaseMemObject (image));
      printf ("%d, ", g_atomic_int_get (&n_destroyed));
      promise_expect (world, g_atomic_int_get (&n_destroyed) == 0);
      promise_open (gate);
      OK (clFinish (world->queue));
      printf ("%d, ", wait_destroyed (2));
      OK (clReleaseMemObject (image_new (world, 0)));
      OK (clFinish (world->queue));
      printf ("%d destroyed\n", g_atomic_int_get (&n_destroyed));
    }
}

/* Waits until a context has so many references: drivers, and a layer, may let go a moment later. */
static cl_uint
wait_context (World *world, cl_uint expected)
{
  gint64 end = g_get_monotonic_time () + 2 * G_TIME_SPAN_SECOND;
  cl_uint count = 0;

  do
    OK (clGetContextInfo (world->context, CL_CONTEXT_REFERENCE_COUNT, sizeof count, &count, NULL));
  while (count != expected && g_get_monotonic_time () < end);
  return count;
}

/* A context's references include its images, and none that the program does not have. */
static void
contexts (World *world)
{
  cl_mem images[3];
  cl_uint first = 0;

  promise_need_images (world);
  OK (clGetContextInfo (world->context, CL_CONTEXT_REFERENCE_COUNT, sizeof first, &first, NULL));
  for (guint i = 0; i < 5; i++)
    {
      for (guint k = 0; k < 3; k++)
        images[k] = image_new (world, 0);
      printf ("%u more, ", wait_context (world, first + 3) - first);
      for (guint k = 0; k < 3; k++)
        OK (clReleaseMemObject (images[k]));
      printf ("%u more\n", wait_context (world, first) - first);
    }
}

/* The program releases context and queue before its images, whose commands may still run. */
static void
contexts_first (World *world)
{
  promise_need_images (world);
  for (guint i = 0; i < 20; i++)
    {
      World own = { .device = world->device };
      cl_mem image, kept;

      own.context = promise_context (world);
      own.queue = promise_queue (&own, 0);
      image = image_new (&own, 0);
      kept = image_new (&own, 0);
      OK (clReleaseMemObject (image_new (&own, 0)));
      image_fill (own.queue, image, 1, NULL);
      OK (clFlush (own.queue));
      OK (clReleaseContext (own.context));
      OK (clReleaseMemObject (image));
      image_fill (own.queue, kept, 2, NULL);
      printf ("%zu wrong\n", image_count_others (own.queue, kept, 2));
      OK (clReleaseCommandQueue (own.queue));
      OK (clReleaseMemObject (kept));
    }
}

/* An image that the program leaves mapped: the next one is not that. */
static void
left_mapped (World *world)
{
  promise_need_images (world);
  for (guint i = 0; i < 10; i++)
    {
      cl_mem image = image_new (world, 0);
      size_t row = 0;
      cl_int status = 99;
      cl_uint maps = 99;
      guchar *mapped = clEnqueueMapImage (world->queue, image, CL_TRUE, CL_MAP_WRITE, origin,
                                          region, &row, NULL, 0, NULL, NULL, &status);

      promise_check (status, "clEnqueueMapImage");
      mapped[0] = 1;
      OK (clReleaseMemObject (image));
      image = image_new (world, 0);
      OK (clGetMemObjectInfo (image, CL_MEM_MAP_COUNT, sizeof maps, &maps, NULL));
      image_fill (world->queue, image, 1 + i, NULL);
      printf ("%zu wrong, %u maps\n", image_count_others (world->queue, image, 1 + i), maps);
      OK (clReleaseMemObject (image));
    }
}

/* Threads */

static gpointer
work (gpointer data)
{
  World own = *(World *) data;
  gsize wrong = 0;

  own.queue = promise_queue (&own, 0);
  for (guint i = 0; i < 200; i++)
    {
      cl_mem image = image_new (&own, i % 2 == 0 ? 0 : CL_MEM_READ_ONLY);
      cl_uint value = (cl_uint) (i % 250);

      image_fill (own.queue, image, value, NULL);
      wrong += image_count_others (own.queue, image, value);
      if (i % 3 == 0)
        image_fill (own.queue, image, 255, NULL);
      OK (clReleaseMemObject (image));
    }
  OK (clFinish (own.queue));
  OK (clReleaseCommandQueue (own.queue));
  return GSIZE_TO_POINTER (wrong);
}

static void
threads (World *world)
{
  GThread *all[4];
  gsize wrong = 0;

  promise_need_images (world);
  for (guint i = 0; i < G_N_ELEMENTS (all); i++)
    all[i] = g_thread_new ("images", work, world);
  for (guint i = 0; i < G_N_ELEMENTS (all); i++)
    wrong += GPOINTER_TO_SIZE (g_thread_join (all[i]));
  printf ("%zu wrong\n", wrong);
}

const Promise promises_images[] = { { "pooled-images-info", info, FALSE },
                                    { "pooled-images-refused", refused, FALSE },
                                    { "pooled-images-levels", levels, TRUE },
                                    { "pooled-images-older", older, FALSE },
                                    { "pooled-images-references", references, FALSE },
                                    { "pooled-images-contexts", contexts, FALSE },
                                    { "pooled-images-contexts-first", contexts_first, FALSE },
                                    { "pooled-images-mapped", left_mapped, TRUE },
                                    { "pooled-images-threads", threads, FALSE },
                                    { NULL, NULL, FALSE } };
