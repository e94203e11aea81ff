/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The pool in one line: driver, heap and pool. */

#include "device.h"
#include "lib/null-argument.h"

#define N_BLOCKS 12
#define N_ROUNDS 600
#define MAX_WORDS (1 << 16)

static const OpenclLayer *layer; /* NULL: there is none */

static TarnPool *
pool_new (OpenclState *state)
{
  g_autoptr (GError) error = NULL;
  TarnPool *pool = tarn_opencl_pool_new (state->queue, 0, NULL, &error);

  g_assert_no_error (error);
  return pool;
}

typedef struct
{
  TarnBlock *block;
  cl_command_queue queue;
  cl_uint n_words, value;
} Live;

static void
begin (TarnPool *pool, Live *live, cl_command_queue queue, cl_uint value)
{
  cl_uint n_words = (cl_uint) g_random_int_range (1, MAX_WORDS);
  g_autoptr (GError) error = NULL;

  *live = (Live){ tarn_opencl_pool_allocate (pool, n_words * sizeof value, queue, &error), queue,
                  n_words, value };
  g_assert_no_error (error);
  g_assert_cmpint (clEnqueueFillBuffer (queue, tarn_opencl_block_get_buffer (live->block), &value,
                                        sizeof value, 0, n_words * sizeof value, 0, NULL, NULL),
                   ==, CL_SUCCESS);
}

/* The first and the last word are still there. */
static void
end (Live *live)
{
  cl_mem buffer = tarn_opencl_block_get_buffer (live->block);
  gsize at[2] = { 0, (live->n_words - 1) * sizeof live->value };
  cl_uint word;

  for (guint i = 0; i < 2; i++)
    {
      g_assert_cmpint (clEnqueueReadBuffer (live->queue, buffer, CL_TRUE, at[i], sizeof word, &word,
                                            0, NULL, NULL),
                       ==, CL_SUCCESS);
      g_assert_cmpuint (word, ==, live->value);
    }
  tarn_block_free (live->block);
}

/* Sizes that never come again, on two queues: contents stay, and the driver has few calls. */
static void
test_sizes (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnPool) pool = NULL;
  cl_command_queue queues[2] = { state->queue, NULL };
  Live live[N_BLOCKS] = { { NULL, NULL, 0, 0 } };
  cl_int status;

  if (layer != NULL)
    layer->reset ();
  queues[1] = clCreateCommandQueue (state->context, device->device, 0, &status);
  g_assert_cmpint (status, ==, CL_SUCCESS);
  pool = pool_new (state);
  for (guint i = 0; i < N_ROUNDS; i++)
    {
      Live *one = &live[g_random_int_range (0, N_BLOCKS)];

      if (one->block != NULL)
        end (one);
      begin (pool, one, queues[i % 2], i + 1);
    }
  for (guint i = 0; i < N_BLOCKS; i++)
    if (live[i].block != NULL)
      end (&live[i]);
  if (layer != NULL)
    g_assert_cmpuint (layer->get_calls ("clCreateBuffer"), <, 100);
  g_clear_pointer (&pool, tarn_pool_unref);
  clReleaseCommandQueue (queues[1]);
  if (layer != NULL)
    g_assert_cmpuint (layer->get_live (OPENCL_LAYER_BUFFER, NULL, 0), ==, 0);
}

/* Options are the pool's, and what they say that is wrong is said. */
static void
test_options (const TarnOpenclDevice *device, OpenclState *state)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnPool) pool = NULL;
  g_autoptr (GError) error = NULL;

  (void) device;
  options.name = "weights";
  options.limit_bytes = 1 << 20;
  pool = tarn_opencl_pool_new (state->queue, CL_MEM_READ_ONLY, &options, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (tarn_pool_get_limit_bytes (pool), ==, 1 << 20);
  g_assert_null (tarn_pool_allocate (pool, 2 << 20, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
  g_assert_nonnull (strstr (error->message, "'weights'"));
  g_clear_error (&error);
  g_assert_null (tarn_opencl_pool_new (state->queue, CL_MEM_USE_HOST_PTR, NULL, &error));
  g_assert_error (error, TARN_OPENCL_ERROR, CL_INVALID_VALUE);
  g_clear_error (&error);
  options.leading_bits_in_bin_id = 99;
  g_assert_null (tarn_opencl_pool_new (state->queue, 0, &options, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
}

/* The pool alone keeps its queue and context alive, and no longer than it lives. */
static void
test_alone (const TarnOpenclDevice *device, OpenclState *state)
{
  OpenclState own = { opencl_context_new (device), NULL };
  cl_context context = NULL;
  g_autoptr (GError) error = NULL;
  TarnBlock *block;
  TarnPool *pool;
  cl_int status;

  (void) state;
  own.queue = clCreateCommandQueue (own.context, device->device, 0, &status);
  g_assert_cmpint (status, ==, CL_SUCCESS);
  pool = pool_new (&own);
  clReleaseCommandQueue (own.queue);
  g_assert_cmpint (clReleaseContext (own.context), ==, CL_SUCCESS);
  block = tarn_pool_allocate (pool, 5000, &error);
  g_assert_no_error (error);
  g_assert_cmpint (clGetMemObjectInfo (tarn_opencl_block_get_buffer (block), CL_MEM_CONTEXT,
                                       sizeof context, &context, NULL),
                   ==, CL_SUCCESS);
  g_assert_true (context == own.context);
  tarn_pool_unref (pool);
  if (layer != NULL)
    g_assert_cmpuint (layer->get_references (own.queue), >=, 1);
  tarn_block_free (block);
  if (layer != NULL)
    {
      g_assert_cmpuint (layer->get_references (own.queue), ==, 0);
      g_assert_cmpuint (layer->get_references (own.context), ==, 0);
    }
}

/* What of OpenCL a pool and its first block call, but for releases, whose objects are lost where
 * they fail. */
static const gchar *const calls[] = { "clCreateBuffer",        "clCreateSubBuffer",
                                      "clEnqueueFillBuffer",   "clEnqueueMigrateMemObjects",
                                      "clGetCommandQueueInfo", "clGetContextInfo",
                                      "clGetDeviceInfo",       "clWaitForEvents",
                                      "clRetainCommandQueue",  "clRetainContext" };

/* Has the nth call of a function fail, or that and all later ones.  FALSE: there were not as many.
 */
static gboolean
fail_from (OpenclState *state, const gchar *function, guint nth, gboolean for_ever)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = NULL;
  gboolean has_failed;
  TarnPool *pool;

  layer->reset ();
  layer->fail (function, nth, for_ever, CL_OUT_OF_HOST_MEMORY);
  pool = tarn_opencl_pool_new (state->queue, 0, NULL, &error);
  if (pool != NULL)
    block = tarn_opencl_pool_allocate (pool, 5000, state->queue, &error);
  has_failed = layer->get_failed () != NULL;
  layer->fail (NULL, 0, FALSE, CL_SUCCESS);
  g_assert_true (has_failed || block != NULL);
  g_assert_true ((block == NULL) == (error != NULL));
  if (error != NULL)
    {
      g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
      g_assert_nonnull (strstr (error->message, function));
    }
  tarn_block_free (block);
  tarn_pool_unref (pool);
  g_assert_cmpuint (layer->get_live (OPENCL_LAYER_BUFFER, NULL, 0), ==, 0);
  g_assert_cmpuint (layer->get_references (state->context), ==, 1);
  g_assert_cmpuint (layer->get_references (state->queue), ==, 1);
  return has_failed;
}

/* Each call of the driver fails in turn: an error that names it, or a way round it, and nothing is
 * left. */
static void
test_failures (const TarnOpenclDevice *device, OpenclState *state)
{
  guint failures = 0;

  (void) device;
  if (layer == NULL)
    {
      g_test_skip ("the OpenCL loader takes no layers");
      return;
    }
  for (guint i = 0; i < G_N_ELEMENTS (calls); i++)
    for (guint nth = 1; fail_from (state, calls[i], nth, FALSE); nth++)
      {
        g_assert_true (fail_from (state, calls[i], nth, TRUE));
        failures++;
      }
  g_assert_cmpuint (failures, >, 8);
  layer->reset ();
}

static void
test_null_arguments (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnPool) pool = pool_new (state);
  g_autoptr (TarnBlock) block = tarn_pool_allocate (pool, 1, NULL);
  g_autoptr (TarnMemo) memo = tarn_opencl_kernel_memo_new ();
  TarnOpenclKernelKey key = TARN_OPENCL_KERNEL_KEY_INIT;
  cl_kernel kernel;

  key.device = device->device;
  key.source = key.kernel_name = "";
  REFUSES_NULL (tarn_opencl_deferred_allocator_new (NULL, 0, &error) != NULL, "context");
  REFUSES_NULL (tarn_opencl_immediate_allocator_new (NULL, 0, &error) != NULL, "queue");
  REFUSES_NULL (tarn_opencl_svm_allocator_new (NULL, 0, 0, NULL, &error) != NULL, "context");
  REFUSES_NULL (tarn_opencl_pool_new (NULL, 0, NULL, &error) != NULL, "queue");
  REFUSES_NULL (tarn_opencl_pool_allocate (NULL, 1, state->queue, &error) != NULL, "pool");
  REFUSES_NULL (tarn_opencl_block_record_use (NULL, state->queue, &error), "block");
  REFUSES_NULL (tarn_opencl_block_record_use (block, NULL, &error), "queue");
  REFUSES_NULL (tarn_opencl_block_move_to_queue (NULL, state->queue, &error), "block");
  REFUSES_NULL (tarn_opencl_block_move_to_queue (block, NULL, &error), "queue");
  REFUSES_NULL (tarn_opencl_kernel_memo_get (NULL, state->context, &key, &kernel, &error), "memo");
  REFUSES_NULL (tarn_opencl_kernel_memo_get (memo, NULL, &key, &kernel, &error), "context");
  key.device = NULL;
  REFUSES_NULL (tarn_opencl_kernel_memo_get (memo, state->context, &key, &kernel, &error),
                "no device");
}

int
main (int argc, char **argv)
{
  static const OpenclCase cases[] = {
    { "pool/null-arguments", test_null_arguments },
    { "pool/sizes", test_sizes },
    { "pool/options", test_options },
    { "pool/alone", test_alone },
    { "pool/failures", test_failures },
  };

  g_test_init (&argc, &argv, NULL);
  layer = opencl_layer_load ();
  opencl_add (cases, G_N_ELEMENTS (cases));
  return g_test_run ();
}
