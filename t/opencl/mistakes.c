/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Mistakes with OpenCL's memory, made by a kernel, that TARN_DEBUG finds. */

#include <dlfcn.h>

#include "lib/mistakes.h"

#include "device.h"
#include "opencl/contents-private.h"

#define SIZE 1000
#define FAULTS_SIZE ((gsize) 100 << 10)
#define LOST_MAX 100

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
  /* Fresh: both kinds of bytes, before and behind them; freed: the same of the bytes, and before
   * guards on both sides, and before a look at the bytes. */
  g_assert_cmpuint (count_finishes (queue), >=, 2 * 3 + 3);
  clReleaseCommandQueue (queue);
}

/* Calls that fail, in turn, of all that a pool's blocks need while they are looked at.  Nothing
 * that is said is about a mistake, and nothing is lost; nor is memory used after it has gone back,
 * as sanitizers see. */

typedef TarnAllocator *(*MakeAllocator) (const OpenclState *state, GError **error);

static TarnAllocator *
make_buffers (const OpenclState *state, GError **error)
{
  return tarn_opencl_immediate_allocator_new (state->queue, 0, error);
}

static TarnAllocator *
make_svm (const OpenclState *state, GError **error)
{
  return tarn_opencl_svm_allocator_new (state->context, 0, 0, state->queue, error);
}

static TarnAllocator *
make_unbound_svm (const OpenclState *state, GError **error)
{
  return tarn_opencl_svm_allocator_new (state->context, 0, 0, NULL, error);
}

static void
use_pool (TarnPool *pool)
{
  TarnBlock *blocks[2];

  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = tarn_pool_allocate (pool, FAULTS_SIZE, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    tarn_block_free (blocks[i]);
}

/* Releases what is left where calls were made to fail, but for the test's own queue; gives how much
 * it was.  That is what could not be released, and memory of which nobody could find out that it is
 * not used any more. */
static guint
release_lost (const OpenclState *state)
{
  void (*svm_free) (cl_context, gpointer);
  gpointer lost[LOST_MAX];
  guint n = 0, n_queues = layer->get_live (OPENCL_LAYER_QUEUE, lost, LOST_MAX);

  for (guint i = 0; i < n_queues; i++)
    for (; layer->get_references (lost[i]) > (lost[i] == state->queue ? 1 : 0); n++)
      clReleaseCommandQueue (lost[i]);
  for (; layer->get_live (OPENCL_LAYER_EVENT, lost, 1) > 0; n++)
    clReleaseEvent (lost[0]);
  for (; layer->get_live (OPENCL_LAYER_PART, lost, 1) > 0; n++)
    clReleaseMemObject (lost[0]);
  for (; layer->get_live (OPENCL_LAYER_BUFFER, lost, 1) > 0; n++)
    clReleaseMemObject (lost[0]);
  *(gpointer *) &svm_free = dlsym (RTLD_DEFAULT, "clSVMFree");
  for (; layer->get_live (OPENCL_LAYER_SVM, lost, 1) > 0; n++)
    svm_free (state->context, lost[0]);
  for (; layer->get_references (state->context) > 1; n++)
    clReleaseContext (state->context);
  return n;
}

/* FALSE: the call has not been made. */
static gboolean
fail_nth (const OpenclState *state, MakeAllocator make, const gchar *debug, guint nth,
          gboolean for_ever)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  TarnAllocator *allocator = make (state, NULL);
  const gchar *failed;
  TarnPool *pool;
  guint n_lost;

  options.debug = debug;
  pool = tarn_pool_new (allocator, &options, NULL);
  tarn_allocator_unref (allocator);
  layer->fail (NULL, nth, for_ever, CL_OUT_OF_RESOURCES);
  use_pool (pool);
  tarn_pool_unref (pool);
  failed = layer->get_failed ();
  layer->fail (NULL, 0, FALSE, CL_SUCCESS);
  g_assert_cmpint (clFinish (state->queue), ==, CL_SUCCESS);
  n_lost = release_lost (state);
  if (failed == NULL || (!for_ever && !g_str_has_prefix (failed, "clRelease")))
    g_assert_cmpuint (n_lost, ==, 0);
  return failed != NULL;
}

static void
test_faults (const TarnOpenclDevice *device, OpenclState *state)
{
  static const MakeAllocator makers[] = { make_buffers, make_svm, make_unbound_svm };
  static const gchar *const words[]
      = { "guards,poison", "guards,poison,quarantine=1", "poison,quarantine=1" };

  (void) device;
  if (layer == NULL)
    {
      g_test_skip ("the OpenCL loader takes no layers");
      return;
    }
  opencl_ignore_messages ();
  layer->reset ();
  for (guint i = 0; i < G_N_ELEMENTS (makers); i++)
    {
      TarnAllocator *allocator = makers[i](state, NULL);

      tarn_allocator_unref (allocator);
      for (guint j = 0; allocator != NULL && j < G_N_ELEMENTS (words); j++)
        for (guint for_ever = 0; for_ever < 2; for_ever++)
          for (guint nth = 1; fail_nth (state, makers[i], words[j], nth, for_ever == 1); nth++)
            ;
    }
}

int
main (int argc, char **argv)
{
  static const OpenclCase cases[] = {
    { "mistakes/out-of-order", test_out_of_order },
    { "mistakes/faults", test_faults },
  };

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
