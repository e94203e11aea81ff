/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Mistakes with OpenCL's memory, made by a kernel, that TARN_DEBUG finds. */

#include "lib/mistakes.h"

#include "device.h"
#include "opencl/contents-private.h"

#define SIZE 1000

static const OpenclLayer *layer; /* NULL: there is none */

static const gchar source[] = "kernel void put (global uchar *bytes, long at, uchar byte)\n"
                              "{\n"
                              "  bytes[at] = byte;\n"
                              "}\n";

static cl_kernel
make_kernel (const OpenclState *state)
{
  const gchar *text = source;
  cl_kernel kernel;
  cl_int status;
  cl_program program = clCreateProgramWithSource (state->context, 1, &text, NULL, &status);

  g_assert_cmpint (status, ==, CL_SUCCESS);
  g_assert_cmpint (clBuildProgram (program, 0, NULL, "", NULL, NULL), ==, CL_SUCCESS);
  kernel = clCreateKernel (program, "put", &status);
  g_assert_cmpint (status, ==, CL_SUCCESS);
  clReleaseProgram (program);
  return kernel;
}

static TarnPool *
pool_new (gpointer data, const TarnPoolOptions *options)
{
  OpenclState *state = data;
  g_autoptr (GError) error = NULL;
  TarnPool *pool = tarn_opencl_pool_new (state->queue, 0, options, &error);

  g_assert_no_error (error);
  return pool;
}

static void
put (gpointer data, TarnMemory memory, gssize offset, guint8 byte)
{
  const OpenclState *state = data;
  cl_kernel kernel = make_kernel (state);
  cl_mem buffer = memory.pointer;
  cl_long at = offset;
  gsize one = 1;

  g_assert_cmpint (clSetKernelArg (kernel, 0, sizeof buffer, &buffer), ==, CL_SUCCESS);
  g_assert_cmpint (clSetKernelArg (kernel, 1, sizeof at, &at), ==, CL_SUCCESS);
  g_assert_cmpint (clSetKernelArg (kernel, 2, sizeof byte, &byte), ==, CL_SUCCESS);
  g_assert_cmpint (
      clEnqueueNDRangeKernel (state->queue, kernel, 1, NULL, &one, NULL, 0, NULL, NULL), ==,
      CL_SUCCESS);
  g_assert_cmpint (clFinish (state->queue), ==, CL_SUCCESS);
  clReleaseKernel (kernel);
}

static guint8
get (gpointer data, TarnMemory memory, gssize offset)
{
  const OpenclState *state = data;
  guint8 byte;

  g_assert_cmpint (clEnqueueReadBuffer (state->queue, memory.pointer, CL_TRUE, (gsize) offset, 1,
                                        &byte, 0, NULL, NULL),
                   ==, CL_SUCCESS);
  return byte;
}

static const MistakesMemory buffers = { pool_new, put, get, FALSE };

/* Shared virtual memory */

static TarnPool *
svm_pool_new (gpointer data, const TarnPoolOptions *options)
{
  OpenclState *state = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (TarnAllocator) allocator
      = tarn_opencl_svm_allocator_new (state->context, 0, 0, state->queue, &error);
  TarnPool *pool;

  g_assert_no_error (error);
  pool = tarn_pool_new (allocator, options, &error);
  g_assert_no_error (error);
  return pool;
}

/* By the library's functions, which look the driver's up: tests are compiled for OpenCL 1.2. */
static void
svm_put (gpointer data, TarnMemory memory, gssize offset, guint8 byte)
{
  const OpenclState *state = data;
  const TarnOpenclHome home = { state->context, state->queue };
  g_autoptr (GError) error = NULL;

  _tarn_opencl_fill_svm (&home, (guint8 *) memory.pointer + offset, 1, byte, &error);
  g_assert_no_error (error);
  g_assert_cmpint (clFinish (state->queue), ==, CL_SUCCESS);
}

static guint8
svm_get (gpointer data, TarnMemory memory, gssize offset)
{
  const OpenclState *state = data;
  const TarnOpenclHome home = { state->context, state->queue };
  g_autoptr (GError) error = NULL;
  guint8 byte = 0;

  _tarn_opencl_read_svm (&home, (const guint8 *) memory.pointer + offset, 1, &byte, &error);
  g_assert_no_error (error);
  return byte;
}

static const MistakesMemory svm = { svm_pool_new, svm_put, svm_get, FALSE };

static void
run_on_buffers (const TarnOpenclTest *test, gconstpointer data)
{
  const Mistake *mistake = data;
  g_autofree gchar *reason = NULL;
  gpointer state = opencl_open (test->info, &reason);

  g_assert_nonnull (state);
  mistake->func (&buffers, state);
  opencl_close (state);
}

static void
run_on_svm (const TarnOpenclTest *test, gconstpointer data)
{
  const Mistake *mistake = data;
  g_autofree gchar *reason = NULL;
  g_autoptr (GError) error = NULL;
  OpenclState *state = opencl_open (test->info, &reason);
  TarnAllocator *allocator;

  g_assert_nonnull (state);
  allocator = tarn_opencl_svm_allocator_new (state->context, 0, 0, NULL, &error);
  tarn_allocator_unref (allocator);
  if (allocator == NULL)
    g_test_skip (error->message);
  else
    mistake->func (&svm, state);
  opencl_close (state);
}

/* Counts waits of the host for a queue while a block is made and given back. */
static guint
count_finishes (cl_command_queue queue)
{
  g_autoptr (GError) error = NULL;
  TarnPool *pool;
  TarnBlock *block;

  layer->reset ();
  pool = tarn_opencl_pool_new (queue, 0, NULL, &error);
  g_assert_no_error (error);
  block = tarn_pool_allocate (pool, SIZE, &error);
  g_assert_no_error (error);
  tarn_block_free (block);
  tarn_pool_unref (pool);
  return layer->get_calls ("clFinish");
}

/* What fills and reads blocks is in order with the program's commands on an in-order queue; on
 * another one it waits for what is there before, and is done before what comes. */
static void
test_out_of_order (const TarnOpenclDevice *device, OpenclState *state)
{
  cl_command_queue queue;
  cl_int status;

  if (layer == NULL)
    {
      g_test_skip ("the OpenCL loader takes no layers");
      return;
    }
  queue = clCreateCommandQueue (state->context, device->device,
                                CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &status);
  if (status != CL_SUCCESS)
    {
      g_test_skip ("the device has no out-of-order queues");
      return;
    }
  g_assert_cmpuint (count_finishes (state->queue), ==, 0);
  /* Fresh: both kinds of bytes; freed: guards on both sides, the bytes, and a look at them. */
  g_assert_cmpuint (count_finishes (queue), >=, 2 * 6);
  clReleaseCommandQueue (queue);
}

int
main (int argc, char **argv)
{
  static const OpenclCase cases[] = { { "mistakes/out-of-order", test_out_of_order } };

  g_setenv ("TARN_DEBUG", MISTAKES_TARN_DEBUG, TRUE);
  g_test_init (&argc, &argv, NULL);
  layer = opencl_layer_load ();
  for (gsize i = 0; i < n_mistakes; i++)
    {
      g_autofree gchar *path = g_strconcat ("svm/", mistakes[i].path, NULL);

      tarn_opencl_test_add (mistakes[i].path, run_on_buffers, &mistakes[i]);
      tarn_opencl_test_add (path, run_on_svm, &mistakes[i]);
    }
  opencl_add (cases, G_N_ELEMENTS (cases));
  return g_test_run ();
}
