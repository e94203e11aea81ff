/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "opencl-device.h"

#include <dlfcn.h>
#include <stdlib.h>

typedef struct
{
  const TarnOpenclDevice *device;
  OpenclTestFunc func;
} Case;

static gboolean
is_listed (const GPtrArray *devices, const TarnOpenclDevice *wanted)
{
  for (guint i = 0; i < devices->len; i++)
    if (((const TarnOpenclDevice *) g_ptr_array_index (devices, i))->device == wanted->device)
      return TRUE;
  return FALSE;
}

GPtrArray *
opencl_devices (void)
{
  static GPtrArray *devices, *chosen;
  g_autoptr (GError) error = NULL;

  if (devices != NULL)
    return devices;
  chosen = tarn_opencl_select_test_devices (NULL, &error);
  if (chosen == NULL)
    {
      g_print ("Bail out! %s\n", error->message);
      exit (1);
    }
  /* g_test has one test for a path. */
  devices = g_ptr_array_new ();
  for (guint i = 0; i < chosen->len; i++)
    if (!is_listed (devices, g_ptr_array_index (chosen, i)))
      g_ptr_array_add (devices, g_ptr_array_index (chosen, i));
  return devices;
}

gchar *
opencl_path (const TarnOpenclDevice *device, const gchar *rest)
{
  return g_strdup_printf ("/opencl/%u:%u/%s", device->platform_index, device->device_index, rest);
}

/* Ends the test if anything but the caller holds on to a context.  A driver's own threads may
 * release what a command used a moment after clFinish () has returned. */
static void
assert_sole_reference (cl_context context)
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
  assert_sole_reference (state->context);
  g_assert_cmpint (clReleaseContext (state->context), ==, CL_SUCCESS);
  g_free (state);
}

/* Seen of PoCL 3.1: threads that enqueue on one queue of its "basic" device run one another's
 * commands, and one waits for a lock that it has itself. */
const gchar *
opencl_no_threads (gconstpointer data)
{
  const TarnOpenclDevice *device = data;
  gchar name[256] = "";

  if (clGetDeviceInfo (device->device, CL_DEVICE_NAME, sizeof name, name, NULL) == CL_SUCCESS
      && g_str_has_prefix (name, "basic"))
    return "PoCL's basic device deadlocks where threads share a queue";
  return NULL;
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
run_case (gconstpointer data)
{
  const Case *test = data;
  g_autofree gchar *reason = NULL;
  OpenclState *state = opencl_open (test->device, &reason);

  if (state == NULL)
    {
      g_test_skip (reason);
      return;
    }
  test->func (test->device, state);
  opencl_close (state);
}

void
opencl_add (const TarnOpenclDevice *device, const gchar *rest, OpenclTestFunc func)
{
  g_autofree gchar *path = opencl_path (device, rest);
  Case *test = g_new (Case, 1);

  *test = (Case){ device, func };
  g_test_add_data_func_full (path, test, run_case, g_free);
}

/* The loader looks for layers when it is first called, and the test must have the same object. */
const OpenclLayer *
opencl_layer_load (void)
{
  g_autofree gchar *path = g_test_build_filename (G_TEST_BUILT, ".libs", "opencl-layer.so", NULL);
  const OpenclLayer *(*get_layer) (void);
  void *object;

  g_setenv ("OPENCL_LAYERS", path, TRUE);
  if (opencl_devices ()->len == 0 || (object = dlopen (path, RTLD_NOW)) == NULL)
    return NULL;
  *(void **) &get_layer = dlsym (object, "tarn_opencl_layer");
  g_assert_nonnull (get_layer);
  return get_layer ()->is_loaded () ? get_layer () : NULL;
}

static void
no_device (void)
{
  g_test_skip ("there is no OpenCL device");
}

void
opencl_add_no_device (void)
{
  g_test_add_func ("/opencl/no-device", no_device);
}
