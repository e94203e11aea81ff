/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Images of 16 x 16 pixels, for promises. */

#include "promises-pixels.h"

const cl_image_format rgba = { CL_RGBA, CL_UNSIGNED_INT8 };
const size_t origin[3] = { 0, 0, 0 }, region[3] = { SIDE, SIDE, 1 };

cl_mem
image_new (World *world, cl_mem_flags flags)
{
  cl_image_desc desc
      = { .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = SIDE, .image_height = SIDE };
  cl_int status = 99;
  cl_mem image = clCreateImage (world->context, flags, &rgba, &desc, NULL, &status);

  promise_check (status, "clCreateImage");
  return image;
}

void
image_fill (cl_command_queue queue, cl_mem image, cl_uint value, const cl_event *gate)
{
  const cl_uint colour[4] = { value, value, value, value };

  OK (clEnqueueFillImage (queue, image, colour, origin, region, gate != NULL, gate, NULL));
}

gsize
count_others (const guchar *bytes, cl_uint value)
{
  gsize n = 0;

  for (guint i = 0; i < BYTES; i++)
    n += bytes[i] != value;
  return n;
}

gsize
image_count_others (cl_command_queue queue, cl_mem image, cl_uint value)
{
  guchar bytes[BYTES] = { 0 };

  OK (clEnqueueReadImage (queue, image, CL_TRUE, origin, region, 0, 0, bytes, 0, NULL, NULL));
  return count_others (bytes, value);
}

gsize
buffer_count_others (cl_command_queue queue, cl_mem buffer, cl_uint value)
{
  guchar bytes[BYTES] = { 0 };

  OK (clEnqueueReadBuffer (queue, buffer, CL_TRUE, 0, BYTES, bytes, 0, NULL, NULL));
  return count_others (bytes, value);
}
