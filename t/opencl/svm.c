/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Shared virtual memory on every OpenCL device, through the drivers as they are. */

#include <string.h>

#include "queues.h"

/* Later than OpenCL 1.2. */
#define MEM_SVM_FINE_GRAIN_BUFFER (1 << 10)

#define SIZE 4096

/* The allocators as backends of the conformance tests */

static gpointer
open_svm (gconstpointer device, gchar **reason)
{
  OpenclState *state = opencl_open (device, reason);

  if (state == NULL || (*reason = opencl_why_not (device, state, OPENCL_NEEDS_SVM)) == NULL)
    return state;
  opencl_close (state);
  return NULL;
}

static const Backend unbound = {
  .add = opencl_add_conformance,
  .open = open_svm,
  .close = opencl_close,
  .allocator_new = opencl_svm_unbound_new,
  .no_threads = opencl_no_threads,
};

static const Backend bound = {
  .add = opencl_add_conformance,
  .open = open_svm,
  .close = opencl_close,
  .allocator_new = opencl_svm_bound_new,
  .no_threads = opencl_no_threads_on_queue,
};

/* PyOpenCL's test_allocator and zero sizes, through allocator and pool. */
static void
test_empty (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  TarnAllocator *allocators[]
      = { opencl_svm_unbound_new (state, NULL), opencl_svm_bound_new (state, NULL) };

  (void) memory;
  (void) data;
  for (guint i = 0; i < G_N_ELEMENTS (allocators); i++)
    {
      g_autoptr (TarnAllocator) allocator = allocators[i];
      g_autoptr (TarnPool) pool = tarn_pool_new (allocator, NULL, NULL);
      g_autoptr (TarnBlock) none = tarn_allocator_allocate (allocator, 0, NULL);
      g_autoptr (TarnBlock) one_byte = tarn_pool_allocate (pool, 0, NULL);

      g_assert_nonnull (none);
      g_assert_null (tarn_opencl_block_get_svm (none));
      /* Of no bytes, and yet bound as any other. */
      g_assert_true (tarn_opencl_block_get_queue (none) == (i == 0 ? NULL : state->queue));
      g_assert_true (tarn_opencl_block_move_to_queue (none, state->queue, NULL));
      g_assert_true (tarn_opencl_block_get_queue (none) == state->queue);
      g_assert_nonnull (tarn_opencl_block_get_svm (one_byte));
      g_assert_cmpuint (tarn_block_get_size (one_byte), ==, 0);
      g_assert_false (tarn_allocator_is_deferred (allocator));
    }
}

/* PyOpenCL's tests of coarse- and fine-grain memory: 3,000 items, which a kernel doubles. */

#define N_ITEMS 3000
#define ALIGNMENT 64

static cl_kernel
build_twice (const OpenclState *state)
{
  const gchar *source = "kernel void twice (global float *items)\n"
                        "{\n"
                        "  items[get_global_id (0)] *= 2;\n"
                        "}\n";
  cl_int status;
  cl_program program = clCreateProgramWithSource (state->context, 1, &source, NULL, &status);
  cl_kernel kernel;

  g_assert_cmpint (status, ==, CL_SUCCESS);
  g_assert_cmpint (clBuildProgram (program, 0, NULL, NULL, NULL, NULL), ==, CL_SUCCESS);
  kernel = clCreateKernel (program, "twice", &status);
  g_assert_cmpint (status, ==, CL_SUCCESS);
  clReleaseProgram (program);
  return kernel;
}

static void
double_items (const OpenclState *state, float *items)
{
  cl_kernel kernel = build_twice (state);
  const size_t n_items = N_ITEMS;
  cl_int (*set_svm) (cl_kernel, cl_uint, gconstpointer);

  *(gpointer *) &set_svm = opencl_find_function ("clSetKernelArgSVMPointer");
  g_assert_cmpint (set_svm (kernel, 0, items), ==, CL_SUCCESS);
  g_assert_cmpint (
      clEnqueueNDRangeKernel (state->queue, kernel, 1, NULL, &n_items, NULL, 0, NULL, NULL), ==,
      CL_SUCCESS);
  g_assert_cmpint (clFinish (state->queue), ==, CL_SUCCESS);
  clReleaseKernel (kernel);
}

/* The host's turn with coarse-grain memory. */
static void
map (const OpenclState *state, float *items, cl_map_flags flags)
{
  cl_int (*enqueue) (cl_command_queue, cl_bool, cl_map_flags, gpointer, size_t, cl_uint,
                     const cl_event *, cl_event *);

  *(gpointer *) &enqueue = opencl_find_function ("clEnqueueSVMMap");
  g_assert_cmpint (
      enqueue (state->queue, CL_TRUE, flags, items, N_ITEMS * sizeof *items, 0, NULL, NULL), ==,
      CL_SUCCESS);
}

static void
unmap (const OpenclState *state, float *items)
{
  cl_int (*enqueue) (cl_command_queue, gpointer, cl_uint, const cl_event *, cl_event *);

  *(gpointer *) &enqueue = opencl_find_function ("clEnqueueSVMUnmap");
  g_assert_cmpint (enqueue (state->queue, items, 0, NULL, NULL), ==, CL_SUCCESS);
}

static void
use_block (const OpenclState *state, TarnBlock *block, gboolean is_coarse)
{
  float *items = tarn_opencl_block_get_svm (block);

  g_assert_cmpuint (GPOINTER_TO_SIZE (items) % ALIGNMENT, ==, 0);
  if (is_coarse)
    map (state, items, CL_MAP_WRITE);
  for (guint i = 0; i < N_ITEMS; i++)
    items[i] = (float) i;
  if (is_coarse)
    unmap (state, items);
  double_items (state, items);
  if (is_coarse)
    map (state, items, CL_MAP_READ);
  for (guint i = 0; i < N_ITEMS; i++)
    g_assert_cmpfloat (items[i], ==, 2 * (float) i);
  if (is_coarse)
    unmap (state, items);
  g_assert_cmpint (clFinish (state->queue), ==, CL_SUCCESS);
}

static void
use_memory (OpenclState *state, cl_bitfield flags, gboolean is_coarse, cl_command_queue queue)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TarnAllocator) allocator
      = tarn_opencl_svm_allocator_new (state->context, ALIGNMENT, flags, queue, &error);
  g_autoptr (TarnPool) pool = NULL;

  g_assert_no_error (error);
  pool = tarn_pool_new (allocator, NULL, &error);
  for (guint i = 0; i < 3; i++)
    {
      TarnBlock *block = tarn_allocator_allocate (i == 0 ? allocator : TARN_ALLOCATOR (pool),
                                                  N_ITEMS * sizeof (float), &error);

      g_assert_no_error (error);
      use_block (state, block, is_coarse);
      tarn_block_free (block);
    }
}

static void
test_coarse_grain (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  (void) memory;
  (void) data;
  use_memory (state, 0, TRUE, NULL);
  use_memory (state, CL_MEM_READ_WRITE, TRUE, state->queue);
}

static void
test_fine_grain (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  gboolean has_fine = FALSE;

  (void) memory;
  (void) data;
  tarn_opencl_has_fine_grain_buffer_svm (opencl_get_device (state), &has_fine, NULL);
  if (!has_fine)
    {
      g_test_skip ("the device has no fine-grain shared virtual memory");
      return;
    }
  use_memory (state, CL_MEM_READ_WRITE | MEM_SVM_FINE_GRAIN_BUFFER, FALSE, NULL);
  use_memory (state, CL_MEM_READ_WRITE | MEM_SVM_FINE_GRAIN_BUFFER, FALSE, state->queue);
}

/* What a device has not is named, and no function of the driver's that might not return is called.
 */
static void
test_no_svm (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  gboolean has_svm = FALSE;
  gchar name[1000] = "";

  (void) memory;
  (void) data;
  tarn_opencl_has_coarse_grain_buffer_svm (opencl_get_device (state), &has_svm, NULL);
  if (has_svm)
    {
      g_test_skip ("the device has shared virtual memory");
      return;
    }
  clGetDeviceInfo (opencl_get_device (state), CL_DEVICE_NAME, sizeof name, name, NULL);
  g_assert_null (tarn_opencl_svm_allocator_new (state->context, 0, 0, NULL, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
  g_assert_nonnull (strstr (error->message, name));
  g_assert_nonnull (strstr (error->message, "has no shared virtual memory"));
}

static void
test_out_of_order (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  cl_command_queue queue = opencl_queue_new (state, TRUE);
  g_autoptr (GError) error = NULL;

  (void) memory;
  (void) data;
  g_assert_null (tarn_opencl_svm_allocator_new (state->context, 0, 0, queue, &error));
  g_assert_error (error, TARN_OPENCL_ERROR, CL_INVALID_VALUE);
  opencl_queue_free (queue);
}

/* As in PyOpenCL: it stays with the queue that it had. */
static void
check_refused (TarnBlock *block, cl_command_queue queue)
{
  cl_command_queue before = tarn_opencl_block_get_queue (block);
  g_autoptr (GError) error = NULL;

  g_assert_false (tarn_opencl_block_move_to_queue (block, queue, &error));
  g_assert_error (error, TARN_OPENCL_ERROR, CL_INVALID_VALUE);
  g_assert_true (tarn_opencl_block_get_queue (block) == before);
  tarn_block_free (block);
}

static void
test_bind_out_of_order (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  cl_command_queue queue = opencl_queue_new (state, TRUE);
  g_autoptr (TarnAllocator) svm = memory->allocator_new (state, NULL);
  g_autoptr (TarnAllocator) buffers = opencl_immediate_new (state, NULL);
  g_autoptr (TarnPool) pool = tarn_pool_new (svm, NULL, NULL);
  TarnBlock *buffer = tarn_allocator_allocate (buffers, SIZE, NULL);

  (void) data;
  check_refused (tarn_allocator_allocate (svm, SIZE, NULL), queue);
  check_refused (tarn_allocator_allocate (svm, 0, NULL), queue);
  check_refused (opencl_allocate (pool, SIZE, NULL), queue);
  check_refused (opencl_allocate (pool, SIZE, state->queue), queue);
  g_assert_true (tarn_opencl_block_move_to_queue (buffer, queue, NULL));
  tarn_block_free (buffer);
  opencl_queue_free (queue);
}

/* A block of the other kind: it is said whose it is. */
static void
test_other_kind (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  g_autoptr (TarnAllocator) svm = memory->allocator_new (state, NULL);
  g_autoptr (TarnAllocator) buffers = opencl_immediate_new (state, NULL);
  g_autoptr (TarnBlock) in_svm = tarn_allocator_allocate (svm, SIZE, NULL);
  g_autoptr (TarnBlock) buffer = tarn_allocator_allocate (buffers, SIZE, NULL);

  (void) data;
  g_test_expect_message ("Tarn-OpenCL", G_LOG_LEVEL_CRITICAL, "*get_buffer: * 'opencl-svm', *");
  g_assert_null (tarn_opencl_block_get_buffer (in_svm));
  g_test_expect_message ("Tarn-OpenCL", G_LOG_LEVEL_CRITICAL, "*get_svm: * 'opencl-immediate', *");
  g_assert_null (tarn_opencl_block_get_svm (buffer));
  g_test_assert_expected_messages ();
}

static void
test_other_context (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  cl_device_id device = opencl_get_device (state);
  g_autoptr (GError) error = NULL;
  cl_int status;
  cl_context other = clCreateContext (NULL, 1, &device, NULL, NULL, &status);

  (void) memory;
  (void) data;
  g_assert_cmpint (status, ==, CL_SUCCESS);
  g_assert_null (tarn_opencl_svm_allocator_new (other, 0, 0, state->queue, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_cmpint (clReleaseContext (other), ==, CL_SUCCESS);
}

/* PyOpenCL's bind_to_queue and unbind_from_queue. */
static void
check_binding (TarnBlock *block, cl_command_queue first, cl_command_queue queue)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (tarn_opencl_block_get_queue (block) == first);
  g_assert_true (tarn_opencl_block_move_to_queue (block, queue, &error));
  g_assert_true (tarn_opencl_block_get_queue (block) == queue);
  g_assert_true (tarn_opencl_block_move_to_queue (block, queue, &error));
  g_assert_true (tarn_opencl_block_get_queue (block) == queue);
  g_assert_true (tarn_block_wait (block, &error));
  g_assert_null (tarn_opencl_block_get_queue (block));
  g_assert_true (tarn_block_wait (block, &error));
  g_assert_null (tarn_opencl_block_get_queue (block));
  g_assert_no_error (error);
  tarn_block_free (block);
}

static void
test_binding (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  cl_command_queue other = opencl_queue_new (state, FALSE);
  TarnAllocator *free_one = opencl_svm_unbound_new (state, NULL);
  TarnAllocator *bound_one = opencl_svm_bound_new (state, NULL);
  TarnPool *free_pool = tarn_pool_new (free_one, NULL, NULL);
  TarnPool *bound_pool = tarn_pool_new (bound_one, NULL, NULL);

  (void) memory;
  (void) data;
  for (guint i = 0; i < 3; i++)
    {
      check_binding (tarn_allocator_allocate (free_one, SIZE, NULL), NULL, other);
      check_binding (tarn_allocator_allocate (bound_one, SIZE, NULL), state->queue, other);
      check_binding (opencl_allocate (free_pool, SIZE, NULL), NULL, other);
      check_binding (opencl_allocate (bound_pool, SIZE, NULL), state->queue, other);
      check_binding (opencl_allocate (bound_pool, SIZE, other), other, state->queue);
    }
  tarn_pool_unref (free_pool);
  tarn_pool_unref (bound_pool);
  tarn_allocator_unref (free_one);
  tarn_allocator_unref (bound_one);
  opencl_queue_free (other);
}

/* PyOpenCL's pools across two queues: each block is written and read on the queue that has it. */
static void
test_two_queues (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  const OpenclMemory kinds[]
      = { { "svm", TRUE, opencl_svm_unbound_new }, { "svm-bound", TRUE, opencl_svm_bound_new } };
  cl_command_queue queues[] = { state->queue, opencl_queue_new (state, FALSE) };

  (void) memory;
  (void) data;
  for (guint kind = 0; kind < G_N_ELEMENTS (kinds); kind++)
    {
      TarnPool *pool = opencl_pool_new (state, &kinds[kind]);

      for (guint32 i = 0; i < 100; i++)
        {
          TarnBlock *block = opencl_allocate (pool, SIZE, queues[i % 2]);

          g_assert_true (tarn_opencl_block_get_queue (block) == queues[i % 2]);
          clReleaseEvent (opencl_fill (queues[i % 2], block, i, NULL));
          if (i % 10 == 0)
            opencl_assert_content (queues[i % 2], block, i);
          tarn_block_free (block);
        }
      tarn_pool_unref (pool);
    }
  opencl_queue_free (queues[1]);
}

int
main (int argc, char **argv)
{
  static const OpenclQueueCase cases[] = {
    { "svm/empty", test_empty, OPENCL_NEEDS_SVM, NULL },
    { "svm/coarse-grain", test_coarse_grain, OPENCL_NEEDS_SVM, NULL },
    { "svm/fine-grain", test_fine_grain, OPENCL_NEEDS_SVM, NULL },
    { "svm/no-svm", test_no_svm, 0, NULL },
    { "svm/out-of-order", test_out_of_order, OPENCL_NEEDS_SVM | OPENCL_NEEDS_OUT_OF_ORDER, NULL },
    { "svm/other-context", test_other_context, OPENCL_NEEDS_SVM, NULL },
    { "svm/binding", test_binding, OPENCL_NEEDS_SVM, NULL },
    { "svm/two-queues", test_two_queues, OPENCL_NEEDS_SVM, NULL },
  };
  static const OpenclQueueCase of_each_kind[] = {
    { "svm/bind-out-of-order", test_bind_out_of_order, OPENCL_NEEDS_SVM | OPENCL_NEEDS_OUT_OF_ORDER,
      NULL },
    { "svm/other-kind", test_other_kind, OPENCL_NEEDS_SVM, NULL },
  };

  g_test_init (&argc, &argv, NULL);
  conformance_add ("svm/unbound", &unbound);
  conformance_add ("svm/bound", &bound);
  conformance_add_over_heap ("svm-heap/unbound", &unbound);
  conformance_add_over_heap ("svm-heap/bound", &bound);
  opencl_add_for_devices (cases, G_N_ELEMENTS (cases));
  opencl_add_for_memories (of_each_kind, G_N_ELEMENTS (of_each_kind));
  return g_test_run ();
}
