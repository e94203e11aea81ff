/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "device.h"

#include <dlfcn.h>
#include <stdlib.h>

void
opencl_assert_sole_reference (cl_context context)
{
  gint64 deadline = g_get_monotonic_time () + 20 * G_TIME_SPAN_SECOND;
  cl_uint references = 0;

  while (references != 1 && g_get_monotonic_time () < deadline)
    {
      g_assert_cmpint (clGetContextInfo (context, CL_CONTEXT_REFERENCE_COUNT, sizeof references,
                                         &references, NULL),
                       ==, CL_SUCCESS);
      g_thread_yield ();
    }
  g_assert_cmpuint (references, ==, 1);
}

cl_context
opencl_context_new (const TarnOpenclDevice *device)
{
  cl_int status;
  cl_context context = clCreateContext (NULL, 1, &device->device, NULL, NULL, &status);

  g_assert_cmpint (status, ==, CL_SUCCESS);
  return context;
}

void
opencl_context_release (cl_context context)
{
  opencl_assert_sole_reference (context);
  g_assert_cmpint (clReleaseContext (context), ==, CL_SUCCESS);
}

gpointer
opencl_open (gconstpointer data, gchar **reason)
{
  const TarnOpenclDevice *device = data;
  OpenclState *state = g_new0 (OpenclState, 1);
  cl_int status;

  state->context = clCreateContext (NULL, 1, &device->device, NULL, NULL, &status);
  if (status == CL_SUCCESS)
    {
      state->queue = clCreateCommandQueue (state->context, device->device, 0, &status);
      if (status == CL_SUCCESS)
        return state;
      clReleaseContext (state->context);
    }
  g_free (state);
  *reason
      = g_strdup_printf ("no context and queue: %s (%d)", tarn_opencl_status_name (status), status);
  return NULL;
}

void
opencl_finish (cl_command_queue queue)
{
  cl_int execution = CL_QUEUED;
  cl_event event;

  g_assert_cmpint (clEnqueueMarkerWithWaitList (queue, 0, NULL, &event), ==, CL_SUCCESS);
  g_assert_cmpint (clFlush (queue), ==, CL_SUCCESS);
  while (execution > CL_COMPLETE) /* tests count other calls that wait */
    {
      g_thread_yield ();
      g_assert_cmpint (clGetEventInfo (event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof execution,
                                       &execution, NULL),
                       ==, CL_SUCCESS);
    }
  g_assert_cmpint (clReleaseEvent (event), ==, CL_SUCCESS);
  g_assert_cmpint (clFinish (queue), ==, CL_SUCCESS);
}

void
opencl_close (gpointer data)
{
  OpenclState *state = data;

  opencl_finish (state->queue);
  g_assert_cmpint (clReleaseCommandQueue (state->queue), ==, CL_SUCCESS);
  opencl_context_release (state->context);
  g_free (state);
}

/* Seen of Oclgrind 21.10: threads that create and release buffers end in an assertion of its own.
 */
const gchar *
opencl_no_threads (gconstpointer data)
{
  const TarnOpenclDevice *device = data;

  return g_str_equal (device->platform_name, "Oclgrind")
             ? "Oclgrind aborts where threads create buffers"
             : NULL;
}

/* Which thread runs a device's commands */

static void CL_CALLBACK
note_thread (gpointer data)
{
  GThread **runner = *(GThread ***) data;

  g_atomic_pointer_set (runner, g_thread_self ());
}

static gboolean
probe_thread (cl_device_id device)
{
  GThread *runner = NULL; /* atomic */
  GThread **argument = &runner;
  cl_int status;
  cl_context context = clCreateContext (NULL, 1, &device, NULL, NULL, &status);
  cl_command_queue queue = clCreateCommandQueue (context, device, 0, &status);
  gboolean is_caller;

  g_assert_cmpint (status, ==, CL_SUCCESS);
  g_assert_cmpint (clEnqueueNativeKernel (queue, note_thread, &argument, sizeof argument, 0, NULL,
                                          NULL, 0, NULL, NULL),
                   ==, CL_SUCCESS);
  g_assert_cmpint (clFlush (queue), ==, CL_SUCCESS);
  is_caller = g_atomic_pointer_get (&runner) == g_thread_self ();
  opencl_finish (queue);
  g_assert_cmpint (clReleaseCommandQueue (queue), ==, CL_SUCCESS);
  g_assert_cmpint (clReleaseContext (context), ==, CL_SUCCESS);
  return is_caller;
}

/* Told by what it does, once for each device, since the name depends on the version: PoCL's device
 * of one thread is "basic" in 3.1 and "cpu-minimal" in 5.0 and 6.0.  A function of the host's is a
 * command that says who runs it; a device that takes none is taken for one with threads of its own.
 */
gboolean
opencl_runs_in_caller (const TarnOpenclDevice *device)
{
  static GHashTable *known; /* for the rest of the process */
  cl_device_exec_capabilities takes = 0;
  gboolean is_caller;

  if (known == NULL)
    known = g_hash_table_new (NULL, NULL);
  if (g_hash_table_contains (known, device->device))
    return GPOINTER_TO_INT (g_hash_table_lookup (known, device->device));
  g_assert_cmpint (clGetDeviceInfo (device->device, CL_DEVICE_EXECUTION_CAPABILITIES, sizeof takes,
                                    &takes, NULL),
                   ==, CL_SUCCESS);
  is_caller = (takes & CL_EXEC_NATIVE_KERNEL) != 0 && probe_thread (device->device);
  g_hash_table_insert (known, device->device, GINT_TO_POINTER (is_caller));
  return is_caller;
}

/* Seen of such a device, PoCL's: threads that enqueue on one queue run one another's commands. With
 * 3.1 one waits for a lock that it has itself, with 5.0 and 6.0 the program crashes. */
const gchar *
opencl_no_threads_on_queue (gconstpointer data)
{
  const TarnOpenclDevice *device = data;

  if (opencl_runs_in_caller (device))
    return "the device runs commands in the thread that flushes them, whoever's they are";
  return opencl_no_threads (device);
}

TarnAllocator *
opencl_deferred_new (gpointer data, GError **error)
{
  OpenclState *state = data;

  return tarn_opencl_deferred_allocator_new (state->context, 0, error);
}

TarnAllocator *
opencl_immediate_new (gpointer data, GError **error)
{
  OpenclState *state = data;

  return tarn_opencl_immediate_allocator_new (state->queue, 0, error);
}

TarnAllocator *
opencl_allocator (OpenclState *state)
{
  g_autoptr (GError) error = NULL;
  TarnAllocator *allocator = opencl_immediate_new (state, &error);

  g_assert_no_error (error);
  return allocator;
}

static void
run_with_state (const TarnOpenclTest *test, gconstpointer data)
{
  const OpenclCase *item = data;
  g_autofree gchar *reason = NULL;
  OpenclState *state = opencl_open (test->info, &reason);

  if (state == NULL)
    {
      g_test_skip (reason);
      return;
    }
  item->func (test->info, state);
  opencl_close (state);
}

void
opencl_add (const OpenclCase *cases, gsize n_cases)
{
  for (gsize i = 0; i < n_cases; i++)
    tarn_opencl_test_add (cases[i].path, run_with_state, &cases[i]);
}

static void
run_conformance (const TarnOpenclTest *test, gconstpointer data)
{
  conformance_run (data, test->info);
}

void
opencl_add_conformance (const gchar *path, gconstpointer test)
{
  tarn_opencl_test_add (path, run_conformance, test);
}

/* The layer */

static const OpenclLayer *layer; /* NULL: none was loaded */

/* The loader looks for layers when it is first called, and the test must have the same object. */
static const OpenclLayer *
load_layers (const gchar *path, const gchar *layers)
{
  const OpenclLayer *(*get_layer) (void);
  void *object;
  cl_uint n_platforms = 0;

  g_setenv ("OPENCL_LAYERS", layers, TRUE);
  if (clGetPlatformIDs (0, NULL, &n_platforms) != CL_SUCCESS
      || (object = dlopen (path, RTLD_NOW)) == NULL)
    return NULL;
  *(void **) &get_layer = dlsym (object, "tarn_opencl_layer");
  g_assert_nonnull (get_layer);
  if (get_layer ()->is_loaded ())
    layer = get_layer ();
  return layer;
}

static gchar *
get_layer_path (void)
{
  return g_test_build_filename (G_TEST_BUILT, "..", "opencl", ".libs", "layer.so", NULL);
}

const OpenclLayer *
opencl_layer_load (void)
{
  g_autofree gchar *path = get_layer_path ();

  return load_layers (path, path);
}

/* The first one is next to the driver. */
const OpenclLayer *
opencl_layer_load_under (const gchar *library)
{
  g_autofree gchar *path = get_layer_path ();
  g_autofree gchar *over = g_test_build_filename (G_TEST_BUILT, "..", "..", "lib", "opencl",
                                                  "layer", ".libs", library, NULL);
  g_autofree gchar *layers = g_strconcat (path, ":", over, NULL);

  return load_layers (path, layers);
}

gboolean
opencl_layer_stop_failing (gpointer unused)
{
  gboolean failed = layer->get_failed () != NULL;

  (void) unused;
  layer->fail (NULL, 0, FALSE, CL_SUCCESS);
  return failed;
}

static void
no_layer (void)
{
  g_test_skip ("the OpenCL loader takes no layers, or there is no OpenCL device");
}

void
opencl_add_no_layer (const gchar *path)
{
  g_test_add_func (path, no_layer);
}

/* Messages */

static void
ignore_message (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer unused)
{
  (void) domain;
  (void) level;
  (void) message;
  (void) unused;
}

void
opencl_ignore_messages (void)
{
  g_log_set_handler ("Tarn", G_LOG_LEVEL_MESSAGE, ignore_message, NULL);
  g_log_set_handler ("Tarn-OpenCL", G_LOG_LEVEL_MESSAGE, ignore_message, NULL);
}
