/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Averages frames by image pyramids: each level has half the width and height of the one before,
 * and the last one is a single pixel.  All images come from a pool, so that only the first frame
 * makes images.
 *
 *     image-pyramid [FRAMES] */

#define CL_TARGET_OPENCL_VERSION 120
#include <stdlib.h>
#include <tarn/opencl.h>

#define SIDE 256 /* pixels of a frame */

typedef struct
{
  cl_context context;
  cl_command_queue queue;
  cl_program program;
  cl_kernel halve;
  TarnOpenclImagePool *images;
} Session;

static const char *source
    = "constant sampler_t nearest = CLK_FILTER_NEAREST | CLK_ADDRESS_CLAMP_TO_EDGE;\n"
      "kernel void halve (read_only image2d_t from, write_only image2d_t to)\n"
      "{\n"
      "  int2 at = (int2) (get_global_id (0), get_global_id (1));\n"
      "  write_imagef (to, at,\n"
      "                (read_imagef (from, nearest, 2 * at)\n"
      "                 + read_imagef (from, nearest, 2 * at + (int2) (1, 0))\n"
      "                 + read_imagef (from, nearest, 2 * at + (int2) (0, 1))\n"
      "                 + read_imagef (from, nearest, 2 * at + (int2) (1, 1))) / 4);\n"
      "}\n";

static gboolean
check (cl_int status, const char *call, GError **error)
{
  if (status == CL_SUCCESS)
    return TRUE;
  g_set_error (error, TARN_OPENCL_ERROR, status, "%s: %s (%d)", call,
               tarn_opencl_status_name (status), status);
  return FALSE;
}

/* Gets an image from the pool, for the session's queue. */
static TarnBlock *
make_image (Session *session, size_t side, GError **error)
{
  const cl_image_format format = { CL_RGBA, CL_FLOAT };
  const cl_image_desc desc
      = { .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = side, .image_height = side };

  return tarn_opencl_image_pool_allocate (session->images, CL_MEM_READ_WRITE, &format, &desc,
                                          session->queue, error);
}

/* Makes a level from the one before it. */
static gboolean
halve (Session *session, TarnBlock *from, TarnBlock *to, size_t side, GError **error)
{
  const cl_mem images[2] = { tarn_opencl_block_get_image (from), tarn_opencl_block_get_image (to) };
  const size_t global[2] = { side, side };

  return check (clSetKernelArg (session->halve, 0, sizeof images[0], &images[0]), "clSetKernelArg",
                error)
         && check (clSetKernelArg (session->halve, 1, sizeof images[1], &images[1]),
                   "clSetKernelArg", error)
         && check (clEnqueueNDRangeKernel (session->queue, session->halve, 2, NULL, global, NULL, 0,
                                           NULL, NULL),
                   "clEnqueueNDRangeKernel", error);
}

/* Replaces a level by the next one, until a single pixel is left.  A level can be freed as soon as
 * the command that reads it is on the queue: the pool knows the queue. */
static gboolean
reduce (Session *session, TarnBlock **level, GError **error)
{
  for (size_t side = SIDE / 2; side > 0; side /= 2)
    {
      TarnBlock *next = make_image (session, side, error);

      if (next == NULL || !halve (session, *level, next, side, error))
        {
          tarn_block_free (next);
          return FALSE;
        }
      tarn_block_free (*level);
      *level = next;
    }
  return TRUE;
}

/* Averages a frame of which all pixels have one value. */
static gboolean
average (Session *session, float value, float *result, GError **error)
{
  const size_t origin[3] = { 0 }, all[3] = { SIDE, SIDE, 1 }, one[3] = { 1, 1, 1 };
  const float color[4] = { value, 0, 0, 1 };
  g_autoptr (TarnBlock) level = make_image (session, SIDE, error);
  float pixel[4];

  if (level == NULL
      || !check (clEnqueueFillImage (session->queue, tarn_opencl_block_get_image (level), color,
                                     origin, all, 0, NULL, NULL),
                 "clEnqueueFillImage", error)
      || !reduce (session, &level, error)
      || !check (clEnqueueReadImage (session->queue, tarn_opencl_block_get_image (level), CL_TRUE,
                                     origin, one, 0, 0, pixel, 0, NULL, NULL),
                 "clEnqueueReadImage", error))
    return FALSE;
  *result = pixel[0];
  return TRUE;
}

static gboolean
begin (Session *session, GError **error)
{
  cl_platform_id platform;
  cl_device_id device;
  cl_int status;

  if (!check (clGetPlatformIDs (1, &platform, NULL), "clGetPlatformIDs", error)
      || !check (clGetDeviceIDs (platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs",
                 error))
    return FALSE;
  session->context = clCreateContext (NULL, 1, &device, NULL, NULL, &status);
  if (!check (status, "clCreateContext", error))
    return FALSE;
  session->queue = clCreateCommandQueue (session->context, device, 0, &status);
  if (!check (status, "clCreateCommandQueue", error))
    return FALSE;
  session->program = clCreateProgramWithSource (session->context, 1, &source, NULL, &status);
  if (!check (status, "clCreateProgramWithSource", error)
      || !check (clBuildProgram (session->program, 1, &device, NULL, NULL, NULL), "clBuildProgram",
                 error))
    return FALSE;
  session->halve = clCreateKernel (session->program, "halve", &status);
  if (!check (status, "clCreateKernel", error))
    return FALSE;
  session->images = tarn_opencl_image_pool_new (session->queue, NULL, NULL, error);
  return session->images != NULL;
}

static void
end (Session *session)
{
  tarn_opencl_image_pool_unref (session->images);
  if (session->halve != NULL)
    clReleaseKernel (session->halve);
  if (session->program != NULL)
    clReleaseProgram (session->program);
  if (session->queue != NULL)
    clReleaseCommandQueue (session->queue);
  if (session->context != NULL)
    clReleaseContext (session->context);
}

static gboolean
run (Session *session, int n_frames, GError **error)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  float result;

  for (int i = 0; i < n_frames; i++)
    {
      if (!average (session, (float) i, &result, error))
        return FALSE;
      if (result < (float) i || result > (float) i)
        {
          g_set_error (error, TARN_ERROR, TARN_ERROR_FAILED, "frame %d has an average of %g", i,
                       (double) result);
          return FALSE;
        }
    }
  tarn_pool_get_stats (tarn_opencl_image_pool_get_pool (session->images), &stats);
  g_printerr ("%d frames of %d images: %" G_GUINT64_FORMAT " calls of clCreateImage\n", n_frames, 9,
              stats.driver_calls);
  return TRUE;
}

int
main (int argc, char **argv)
{
  Session session = { .context = NULL };
  GError *error = NULL;
  gboolean is_done
      = begin (&session, &error) && run (&session, argc > 1 ? atoi (argv[1]) : 10, &error);

  end (&session);
  if (!is_done)
    g_printerr ("image-pyramid: %s\n", error->message);
  g_clear_error (&error);
  return is_done ? EXIT_SUCCESS : EXIT_FAILURE;
}
