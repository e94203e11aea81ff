/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The contents of images that are of no buffer: each may be one that was released before, whose
 * contents nobody is to see. */

#include "promises-pixels.h"

/* An image that is filled from the host has that, whatever an image before it had. */
static void
from_host (World *world)
{
  static const cl_mem_flags flags[] = { CL_MEM_COPY_HOST_PTR, CL_MEM_USE_HOST_PTR };
  cl_image_desc desc
      = { .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = SIDE, .image_height = SIDE };

  promise_need_images (world);
  for (guint i = 0; i < 8; i++)
    {
      cl_mem before = image_new (world, 0), image;
      guchar bytes[BYTES];
      cl_int status = 99;

      image_fill (world->queue, before, 200, NULL);
      OK (clFinish (world->queue));
      OK (clReleaseMemObject (before));
      memset (bytes, (gint) i, sizeof bytes);
      image = clCreateImage (world->context, flags[i % 2], &rgba, &desc, bytes, &status);
      promise_check (status, "clCreateImage");
      printf ("%zu wrong\n", image_count_others (world->queue, image, i));
      OK (clReleaseMemObject (image));
    }
}

/* An image is released as soon as a command has it: what comes next must not have it before. */
static void
released_early (World *world)
{
  gsize wrong = 0;

  promise_need_images (world);
  for (guint i = 0; i < 100; i++)
    {
      cl_mem to[2]
          = { promise_buffer (world, 0, BYTES, NULL), promise_buffer (world, 0, BYTES, NULL) };

      for (guint k = 0; k < 2; k++)
        {
          cl_mem image = image_new (world, 0);

          image_fill (world->queue, image, 10 * k + i, NULL);
          OK (clEnqueueCopyImageToBuffer (world->queue, image, to[k], origin, region, 0, 0, NULL,
                                          NULL));
          OK (clReleaseMemObject (image));
        }
      for (guint k = 0; k < 2; k++)
        {
          wrong += buffer_count_others (world->queue, to[k], 10 * k + i);
          OK (clReleaseMemObject (to[k]));
        }
    }
  printf ("%zu wrong\n", wrong);
}

/* Commands on one queue have yet to read an image that is released, while other queues go on. */
static void
released_elsewhere (World *world)
{
  cl_command_queue others[2];
  gsize wrong = 0;

  promise_need_images (world);
  others[0] = promise_queue (world, 0);
  others[1] = promise_queue (world, 0);
  for (guint i = 0; i < 20; i++)
    {
      cl_event gate = promise_gate (world);
      cl_mem to = promise_buffer (world, 0, BYTES, NULL), image = image_new (world, 0);

      image_fill (world->queue, image, 1, NULL);
      OK (clFinish (world->queue));
      OK (clEnqueueCopyImageToBuffer (world->queue, image, to, origin, region, 0, 1, &gate, NULL));
      OK (clFlush (world->queue));
      OK (clReleaseMemObject (image));
      for (guint k = 0; k < 4; k++)
        {
          image = image_new (world, 0);
          image_fill (others[k % 2], image, 2 + k, NULL);
          wrong += image_count_others (others[k % 2], image, 2 + k);
          OK (clReleaseMemObject (image));
        }
      promise_open (gate);
      wrong += buffer_count_others (world->queue, to, 1);
      OK (clReleaseMemObject (to));
    }
  OK (clReleaseCommandQueue (others[0]));
  OK (clReleaseCommandQueue (others[1]));
  printf ("%zu wrong\n", wrong);
}

/* The same, out of order, where only its event tells when a command is done. */
static void
released_out_of_order (World *world)
{
  cl_command_queue_properties can = 0;
  cl_command_queue queue;
  gsize wrong = 0;

  promise_need_images (world);
  OK (clGetDeviceInfo (world->device, CL_DEVICE_QUEUE_PROPERTIES, sizeof can, &can, NULL));
  if (!(can & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE))
    promise_skip ("the device has no queues out of order");
  queue = promise_queue (world, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
  for (guint i = 0; i < 20; i++)
    {
      cl_event gate = promise_gate (world);
      cl_mem to = promise_buffer (world, 0, BYTES, NULL), image = image_new (world, 0);

      image_fill (world->queue, image, 1, NULL);
      OK (clFinish (world->queue));
      OK (clEnqueueCopyImageToBuffer (queue, image, to, origin, region, 0, 1, &gate, NULL));
      OK (clFlush (queue));
      OK (clReleaseMemObject (image));
      for (guint k = 0; k < 4; k++)
        {
          image = image_new (world, 0);
          image_fill (world->queue, image, 2 + k, NULL);
          wrong += image_count_others (world->queue, image, 2 + k);
          OK (clReleaseMemObject (image));
        }
      promise_open (gate);
      OK (clFinish (queue));
      wrong += buffer_count_others (queue, to, 1);
      OK (clReleaseMemObject (to));
    }
  OK (clReleaseCommandQueue (queue));
  printf ("%zu wrong\n", wrong);
}

/* Each way by which a command uses an image; all are behind a gate. */
static void
used (World *world)
{
  static const gchar *const names[]
      = { "read", "write", "copy", "to a buffer", "from a buffer", "fill", "map" };

  promise_need_images (world);
  for (guint i = 0; i < 3 * G_N_ELEMENTS (names); i++)
    {
      guint way = i % G_N_ELEMENTS (names);
      cl_command_queue other = promise_queue (world, 0);
      cl_event gate = promise_gate (world);
      cl_mem image = image_new (world, 0), second = image_new (world, 0);
      cl_mem buffer = promise_buffer (world, 0, BYTES, NULL);
      guchar bytes[BYTES] = { 0 };
      gsize wrong = 0;
      gpointer mapped = NULL;
      size_t row = 0;
      cl_int status = 99;

      image_fill (world->queue, image, 1, NULL);
      OK (clFinish (world->queue));
      OK (clEnqueueBarrierWithWaitList (world->queue, 1, &gate, NULL));
      if (way == 0)
        OK (clEnqueueReadImage (world->queue, image, CL_FALSE, origin, region, 0, 0, bytes, 0, NULL,
                                NULL));
      else if (way == 1)
        OK (clEnqueueWriteImage (world->queue, image, CL_FALSE, origin, region, 0, 0, bytes, 0,
                                 NULL, NULL));
      else if (way == 2)
        OK (clEnqueueCopyImage (world->queue, image, second, origin, origin, region, 0, NULL,
                                NULL));
      else if (way == 3)
        OK (clEnqueueCopyImageToBuffer (world->queue, image, buffer, origin, region, 0, 0, NULL,
                                        NULL));
      else if (way == 4)
        OK (clEnqueueCopyBufferToImage (world->queue, buffer, image, 0, origin, region, 0, NULL,
                                        NULL));
      else if (way == 5)
        image_fill (world->queue, image, 9, NULL);
      else
        {
          mapped = clEnqueueMapImage (world->queue, image, CL_FALSE, CL_MAP_READ, origin, region,
                                      &row, NULL, 0, NULL, NULL, &status);
          promise_check (status, "clEnqueueMapImage");
          OK (clEnqueueUnmapMemObject (world->queue, image, mapped, 0, NULL, NULL));
        }
      OK (clFlush (world->queue));
      OK (clReleaseMemObject (image));
      image = image_new (world, 0);
      image_fill (other, image, 7, NULL);
      OK (clFinish (other));
      promise_open (gate);
      OK (clFinish (world->queue));
      wrong += image_count_others (other, image, 7);
      if (way == 0)
        wrong += count_others (bytes, 1);
      else if (way == 2)
        wrong += image_count_others (world->queue, second, 1);
      else if (way == 3)
        wrong += buffer_count_others (world->queue, buffer, 1);
      printf ("%s: %zu wrong\n", names[way], wrong);
      OK (clReleaseMemObject (image));
      OK (clReleaseMemObject (second));
      OK (clReleaseMemObject (buffer));
      OK (clReleaseCommandQueue (other));
    }
}

/* Kernels */

static cl_kernel
make_kernel (World *world, cl_program *program)
{
  const gchar *text = "kernel void look (read_only image2d_t image, global uint4 *pixels)\n"
                      "{\n"
                      "  const sampler_t sampler = CLK_ADDRESS_NONE | CLK_FILTER_NEAREST;\n"
                      "  int x = get_global_id (0), y = get_global_id (1);\n"
                      "  pixels[y * get_global_size (0) + x]\n"
                      "    = read_imageui (image, sampler, (int2) (x, y));\n"
                      "}\n";
  cl_int status = 99;
  cl_kernel kernel;

  *program = clCreateProgramWithSource (world->context, 1, &text, NULL, &status);
  promise_check (status, "clCreateProgramWithSource");
  OK (clBuildProgram (*program, 0, NULL, "", NULL, NULL));
  kernel = clCreateKernel (*program, "look", &status);
  promise_check (status, "clCreateKernel");
  return kernel;
}

/* A kernel behind a gate reads an image that the program has released. */
static void
kernels (World *world)
{
  const size_t global[2] = { SIDE, SIDE }, local[2] = { SIDE, 1 };
  cl_command_queue other;
  cl_program program;
  cl_kernel kernel;

  promise_need_images (world);
  other = promise_queue (world, 0);
  kernel = make_kernel (world, &program);
  for (guint i = 0; i < 10; i++)
    {
      cl_event gate = promise_gate (world);
      cl_mem image = image_new (world, CL_MEM_READ_WRITE);
      cl_mem pixels = promise_buffer (world, 0, 4 * BYTES, NULL);
      cl_uint read[BYTES] = { 0 };
      gsize wrong = 0;

      image_fill (world->queue, image, 1 + i, NULL);
      OK (clFinish (world->queue));
      OK (clSetKernelArg (kernel, 0, sizeof image, &image));
      OK (clSetKernelArg (kernel, 1, sizeof pixels, &pixels));
      OK (clEnqueueNDRangeKernel (world->queue, kernel, 2, NULL, global, local, 1, &gate, NULL));
      OK (clFlush (world->queue));
      OK (clReleaseMemObject (image));
      image = image_new (world, CL_MEM_READ_WRITE);
      image_fill (other, image, 99, NULL);
      OK (clFinish (other));
      promise_open (gate);
      OK (clEnqueueReadBuffer (world->queue, pixels, CL_TRUE, 0, sizeof read, read, 0, NULL, NULL));
      for (guint k = 0; k < BYTES; k++)
        wrong += read[k] != 1 + i;
      printf ("%zu wrong\n", wrong);
      OK (clReleaseMemObject (image));
      OK (clReleaseMemObject (pixels));
    }
  OK (clReleaseKernel (kernel));
  OK (clReleaseProgram (program));
  OK (clReleaseCommandQueue (other));
}

const Promise promises_image_contents[]
    = { { "pooled-images-from-host", from_host, FALSE },
        { "pooled-images-early", released_early, FALSE },
        { "pooled-images-elsewhere", released_elsewhere, FALSE },
        { "pooled-images-out-of-order", released_out_of_order, FALSE },
        { "pooled-images-used", used, FALSE },
        { "pooled-images-kernels", kernels, FALSE },
        { NULL, NULL, FALSE } };
