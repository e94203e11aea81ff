/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "queues.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE (20 * G_TIME_SPAN_SECOND)

/* Functions of OpenCL 2.0 */

typedef cl_int (*SvmFill) (cl_command_queue queue, gpointer pointer, gconstpointer pattern,
                           size_t pattern_size, size_t size, cl_uint n_waits, const cl_event *waits,
                           cl_event *event);
typedef cl_int (*SvmCopy) (cl_command_queue queue, cl_bool is_blocking, gpointer target,
                           gconstpointer source, size_t size, cl_uint n_waits,
                           const cl_event *waits, cl_event *event);

gpointer
opencl_find_function (const gchar *name)
{
  gpointer function = dlsym (RTLD_DEFAULT, name);

  g_assert_nonnull (function);
  return function;
}

TarnAllocator *
opencl_svm_unbound_new (gpointer data, GError **error)
{
  OpenclState *state = data;

  return tarn_opencl_svm_allocator_new (state->context, 0, 0, NULL, error);
}

TarnAllocator *
opencl_svm_bound_new (gpointer data, GError **error)
{
  OpenclState *state = data;

  return tarn_opencl_svm_allocator_new (state->context, 0, 0, state->queue, error);
}

/* What devices have */

/* Whoever flushes a queue runs its commands, and waits for what they wait for (seen of Oclgrind
 * 21.10); or nobody waits for those that cannot run yet, not even in clFinish () (of PoCL's device
 * of that kind, and with 3.1 the call that opens the gate does not return). */
static const gchar *
why_no_gate (const TarnOpenclDevice *device)
{
  if (opencl_runs_in_caller (device))
    return "the device runs commands in the thread that flushes them, which is to open the gate";
  if (g_str_equal (device->platform_name, "Oclgrind"))
    return "Oclgrind never returns where a queue waits for a user event";
  return NULL;
}

/* Seen of rusticl 22.3. */
static gchar *
why_no_out_of_order (const OpenclState *state)
{
  cl_int status;
  cl_command_queue queue = clCreateCommandQueue (state->context, opencl_get_device (state),
                                                 CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &status);

  if (status == CL_SUCCESS)
    {
      clReleaseCommandQueue (queue);
      return NULL;
    }
  g_assert_cmpint (status, ==, CL_INVALID_QUEUE_PROPERTIES);
  return g_strdup_printf ("no out-of-order queues: %s (%d)", tarn_opencl_status_name (status),
                          status);
}

static gchar *
why_no_svm (const TarnOpenclDevice *device)
{
  gboolean has_svm = FALSE;

  tarn_opencl_has_coarse_grain_buffer_svm (device->device, &has_svm, NULL);
  return has_svm ? NULL : g_strdup ("the device has no shared virtual memory");
}

gchar *
opencl_why_not (const TarnOpenclDevice *device, const OpenclState *state, guint needs)
{
  gchar *reason = NULL;

  if ((needs & OPENCL_NEEDS_GATE) != 0)
    reason = g_strdup (why_no_gate (device));
  if (reason == NULL && (needs & OPENCL_NEEDS_THREADS) != 0)
    reason = g_strdup (opencl_no_threads_on_queue (device));
  if (reason == NULL && (needs & OPENCL_NEEDS_SVM) != 0)
    reason = why_no_svm (device);
  if (reason == NULL && (needs & OPENCL_NEEDS_OUT_OF_ORDER) != 0)
    reason = why_no_out_of_order (state);
  return reason;
}

/* Tests for each kind of memory */

static const OpenclMemory memories[] = {
  { "deferred", FALSE, opencl_deferred_new },
  { "immediate", FALSE, opencl_immediate_new },
  { "svm", TRUE, opencl_svm_unbound_new },
  { "svm-bound", TRUE, opencl_svm_bound_new },
};

typedef struct
{
  const OpenclQueueCase *item;
  const OpenclMemory *memory; /* nullable */
} Case;

static void
run_case (const TarnOpenclTest *test, gconstpointer data)
{
  const Case *self = data;
  gboolean is_svm = self->memory != NULL && self->memory->is_svm;
  guint needs = self->item->needs | (is_svm ? OPENCL_NEEDS_SVM : 0);
  g_autofree gchar *reason = NULL;
  OpenclState *state = opencl_open (test->info, &reason);

  if (state != NULL)
    reason = opencl_why_not (test->info, state, needs);
  if (reason != NULL)
    g_test_skip (reason);
  else
    self->item->func (state, self->memory, self->item->data);
  if (state != NULL)
    opencl_close (state);
}

static void
add_case (const gchar *path, const OpenclQueueCase *item, const OpenclMemory *memory)
{
  static GPtrArray *cases; /* for the rest of the process */
  Case *made = g_new (Case, 1);

  *made = (Case){ item, memory };
  if (cases == NULL)
    cases = g_ptr_array_new ();
  g_ptr_array_add (cases, made);
  tarn_opencl_test_add (path, run_case, made);
}

void
opencl_add_for_memories (const OpenclQueueCase *cases, gsize n_cases)
{
  for (gsize i = 0; i < n_cases; i++)
    for (gsize j = 0; j < G_N_ELEMENTS (memories); j++)
      {
        g_autofree gchar *path = g_strdup_printf ("%s/%s", cases[i].path, memories[j].name);

        if ((cases[i].needs & (memories[j].is_svm ? OPENCL_NEEDS_BUFFERS : OPENCL_NEEDS_SVM)) != 0)
          continue;
        add_case (path, &cases[i], &memories[j]);
      }
}

void
opencl_add_for_devices (const OpenclQueueCase *cases, gsize n_cases)
{
  for (gsize i = 0; i < n_cases; i++)
    add_case (cases[i].path, &cases[i], NULL);
}

TarnPool *
opencl_pool_new (OpenclState *state, const OpenclMemory *memory)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TarnAllocator) allocator = memory->allocator_new (state, &error);
  TarnPool *pool;

  g_assert_no_error (error);
  pool = tarn_pool_new (allocator, NULL, &error);
  g_assert_no_error (error);
  return pool;
}

/* Queues */

cl_device_id
opencl_get_device (const OpenclState *state)
{
  cl_device_id device = NULL;

  g_assert_cmpint (
      clGetCommandQueueInfo (state->queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL), ==,
      CL_SUCCESS);
  return device;
}

gboolean
opencl_counts_references (const OpenclState *state)
{
  gchar name[100] = "";
  cl_platform_id platform;

  clGetDeviceInfo (opencl_get_device (state), CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
  clGetPlatformInfo (platform, CL_PLATFORM_NAME, sizeof name, name, NULL);
  return strcmp (name, "Portable Computing Language") == 0 || strcmp (name, "NVIDIA CUDA") == 0;
}

cl_command_queue
opencl_queue_new (const OpenclState *state, gboolean out_of_order)
{
  cl_int status;
  cl_command_queue queue
      = clCreateCommandQueue (state->context, opencl_get_device (state),
                              out_of_order ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0, &status);

  g_assert_cmpint (status, ==, CL_SUCCESS);
  return queue;
}

/* A driver's own threads may drop what a command used a moment after clFinish () has returned. */
void
opencl_queue_free (cl_command_queue queue)
{
  gint64 deadline = g_get_monotonic_time () + PATIENCE;
  cl_uint references = 0;

  opencl_finish (queue);
  while (references != 1 && g_get_monotonic_time () < deadline)
    {
      g_assert_cmpint (clGetCommandQueueInfo (queue, CL_QUEUE_REFERENCE_COUNT, sizeof references,
                                              &references, NULL),
                       ==, CL_SUCCESS);
      g_thread_yield ();
    }
  g_assert_cmpuint (references, ==, 1);
  g_assert_cmpint (clReleaseCommandQueue (queue), ==, CL_SUCCESS);
}

TarnBlock *
opencl_allocate (TarnPool *pool, gsize size, cl_command_queue queue)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_opencl_pool_allocate (pool, size, queue, &error);

  g_assert_no_error (error);
  assert_valid (pool);
  return block;
}

/* The gate, and time */

cl_event
opencl_gate_new (const OpenclState *state)
{
  cl_int status;
  cl_event gate = clCreateUserEvent (state->context, &status);

  g_assert_cmpint (status, ==, CL_SUCCESS);
  alarm (120);
  return gate;
}

void
opencl_gate_open (cl_event gate)
{
  g_assert_cmpint (clSetUserEventStatus (gate, CL_COMPLETE), ==, CL_SUCCESS);
  g_assert_cmpint (clReleaseEvent (gate), ==, CL_SUCCESS);
  alarm (0);
}

gboolean
opencl_is_complete (cl_event event)
{
  cl_int state = CL_QUEUED;

  g_assert_cmpint (
      clGetEventInfo (event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL), ==,
      CL_SUCCESS);
  g_assert_cmpint (state, >=, CL_COMPLETE);
  return state == CL_COMPLETE;
}

void
opencl_await (cl_event event)
{
  gint64 deadline = g_get_monotonic_time () + PATIENCE;

  while (!opencl_is_complete (event) && g_get_monotonic_time () < deadline)
    g_thread_yield ();
  g_assert_true (opencl_is_complete (event));
  g_assert_cmpint (clReleaseEvent (event), ==, CL_SUCCESS);
}

void
opencl_settle (cl_command_queue queue)
{
  cl_event event;

  g_assert_cmpint (clEnqueueMarkerWithWaitList (queue, 0, NULL, &event), ==, CL_SUCCESS);
  g_assert_cmpint (clFlush (queue), ==, CL_SUCCESS);
  opencl_await (event);
}

void
opencl_pass_time (const OpenclState *state)
{
  cl_command_queue queue = opencl_queue_new (state, FALSE);
  const cl_uint zero = 0;
  cl_int status;
  cl_mem buffer = clCreateBuffer (state->context, 0, 4096, NULL, &status);

  g_assert_cmpint (status, ==, CL_SUCCESS);
  for (guint i = 0; i < 20; i++)
    {
      cl_event event;

      g_assert_cmpint (
          clEnqueueFillBuffer (queue, buffer, &zero, sizeof zero, 0, 4096, 0, NULL, &event), ==,
          CL_SUCCESS);
      g_assert_cmpint (clFlush (queue), ==, CL_SUCCESS);
      opencl_await (event);
    }
  g_assert_cmpint (clReleaseMemObject (buffer), ==, CL_SUCCESS);
  opencl_queue_free (queue);
}

/* What memory holds */

static gboolean
is_svm (const TarnBlock *block)
{
  return strcmp (tarn_allocator_get_name (tarn_block_get_allocator (block)), "opencl-svm") == 0;
}

static cl_int
enqueue_fill (cl_command_queue queue, TarnBlock *block, guint32 value, cl_uint n_waits,
              const cl_event *waits, cl_event *event)
{
  gsize size = tarn_block_get_size (block);
  SvmFill fill;

  if (!is_svm (block))
    return clEnqueueFillBuffer (queue, tarn_opencl_block_get_buffer (block), &value, sizeof value,
                                0, size, n_waits, waits, event);
  *(gpointer *) &fill = opencl_find_function ("clEnqueueSVMMemFill");
  return fill (queue, tarn_opencl_block_get_svm (block), &value, sizeof value, size, n_waits, waits,
               event);
}

cl_event
opencl_fill (cl_command_queue queue, TarnBlock *block, guint32 value, cl_event gate)
{
  cl_event event = NULL;

  g_assert_cmpint (
      enqueue_fill (queue, block, value, gate != NULL, gate != NULL ? &gate : NULL, &event), ==,
      CL_SUCCESS);
  g_assert_cmpint (clFlush (queue), ==, CL_SUCCESS);
  return event;
}

void
opencl_assert_content (cl_command_queue queue, TarnBlock *block, guint32 value)
{
  gsize size = tarn_block_get_size (block);
  g_autofree guint32 *words = g_malloc (size);
  SvmCopy copy;
  cl_int status;

  g_assert_cmpint (clFinish (queue), ==, CL_SUCCESS);
  if (is_svm (block))
    {
      *(gpointer *) &copy = opencl_find_function ("clEnqueueSVMMemcpy");
      status = copy (queue, CL_TRUE, words, tarn_opencl_block_get_svm (block), size, 0, NULL, NULL);
    }
  else
    status = clEnqueueReadBuffer (queue, tarn_opencl_block_get_buffer (block), CL_TRUE, 0, size,
                                  words, 0, NULL, NULL);
  g_assert_cmpint (status, ==, CL_SUCCESS);
  for (gsize i = 0; i < size / sizeof *words; i++)
    g_assert_cmphex (words[i], ==, value);
}
