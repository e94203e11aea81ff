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
opencl_close (gpointer data)
{
  OpenclState *state = data;

  g_assert_cmpint (clFinish (state->queue), ==, CL_SUCCESS);
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

/* Seen of PoCL 3.1: threads that enqueue on one queue of its "basic" device run one another's
 * commands, and one waits for a lock that it has itself. */
const gchar *
opencl_no_threads_on_queue (gconstpointer data)
{
  const TarnOpenclDevice *device = data;

  if (g_str_has_prefix (device->name, "basic"))
    return "PoCL's basic device deadlocks where threads share a queue";
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

/* The loader looks for layers when it is first called, and the test must have the same object. */
const OpenclLayer *
opencl_layer_load (void)
{
  g_autofree gchar *path
      = g_test_build_filename (G_TEST_BUILT, "..", "opencl", ".libs", "layer.so", NULL);
  const OpenclLayer *(*get_layer) (void);
  void *object;
  cl_uint n_platforms = 0;

  g_setenv ("OPENCL_LAYERS", path, TRUE);
  if (clGetPlatformIDs (0, NULL, &n_platforms) != CL_SUCCESS
      || (object = dlopen (path, RTLD_NOW)) == NULL)
    return NULL;
  *(void **) &get_layer = dlsym (object, "tarn_opencl_layer");
  g_assert_nonnull (get_layer);
  return get_layer ()->is_loaded () ? get_layer () : NULL;
}
