/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "opencl-device.h"

#define MAX_PLATFORMS 32
#define MAX_DEVICES 64

typedef struct
{
  const OpenclDevice *device;
  OpenclTestFunc func;
} Case;

static void
add_devices (GPtrArray *devices, cl_platform_id platform, guint platform_index)
{
  cl_device_id ids[MAX_DEVICES];
  cl_uint n_ids = 0;
  cl_int status = clGetDeviceIDs (platform, CL_DEVICE_TYPE_ALL, MAX_DEVICES, ids, &n_ids);

  if (status != CL_SUCCESS)
    g_test_message ("platform %u has no devices: clGetDeviceIDs: %s (%d)", platform_index,
                    tarn_opencl_status_name (status), status);
  for (guint i = 0; status == CL_SUCCESS && i < MIN (n_ids, MAX_DEVICES); i++)
    {
      OpenclDevice *device = g_new (OpenclDevice, 1);

      *device = (OpenclDevice){ platform_index, i, ids[i] };
      g_ptr_array_add (devices, device);
    }
}

GPtrArray *
opencl_devices (void)
{
  static GPtrArray *devices;
  cl_platform_id platforms[MAX_PLATFORMS];
  cl_uint n_platforms = 0;

  if (devices != NULL)
    return devices;
  devices = g_ptr_array_new ();
  if (clGetPlatformIDs (MAX_PLATFORMS, platforms, &n_platforms) == CL_SUCCESS)
    for (guint i = 0; i < MIN (n_platforms, MAX_PLATFORMS); i++)
      add_devices (devices, platforms[i], i);
  return devices;
}

gchar *
opencl_path (const OpenclDevice *device, const gchar *rest)
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
  const OpenclDevice *device = data;
  OpenclState *state = g_new0 (OpenclState, 1);
  cl_int status;

  state->context = clCreateContext (NULL, 1, &device->id, NULL, NULL, &status);
  if (status == CL_SUCCESS)
    {
      state->queue = clCreateCommandQueue (state->context, device->id, 0, &status);
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
  const OpenclDevice *device = data;
  gchar name[256] = "";

  if (clGetDeviceInfo (device->id, CL_DEVICE_NAME, sizeof name, name, NULL) == CL_SUCCESS
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
opencl_add (const OpenclDevice *device, const gchar *rest, OpenclTestFunc func)
{
  g_autofree gchar *path = opencl_path (device, rest);
  Case *test = g_new (Case, 1);

  *test = (Case){ device, func };
  g_test_add_data_func_full (path, test, run_case, g_free);
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
