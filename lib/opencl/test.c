/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Adds tests (g_test).  A test runs once for each chosen device, or once for each platform that has
 * chosen devices. */

#define _GNU_SOURCE 1 /* makes <stdlib.h> declare secure_getenv () */

#include <tarn/opencl.h>

#include "common/device-tests-private.h"
#include "driver-private.h"
#include "status-private.h"

typedef struct
{
  TarnOpenclTest test;
  TarnOpenclTestFunc func;
  gconstpointer data;
} Case;

static gboolean
is_same (gconstpointer first, gconstpointer second)
{
  const TarnOpenclDevice *a = first, *b = second;

  return a->platform_index == b->platform_index && a->device_index == b->device_index;
}

/* Returns the TarnDeviceTests for OpenCL, which lists the chosen devices.  If there are no devices
 * because OpenCL cannot be loaded, the struct contains OpenCL's error as the reason. */
static TarnDeviceTests *
get_tests (void)
{
  static TarnDeviceTests tests = { .root = "opencl", .title = "OpenCL" };
  g_autoptr (GError) error = NULL;
  GPtrArray *devices;

  if (tests.devices != NULL)
    return &tests;
  devices = tarn_opencl_select_test_devices (NULL, &error);
  if (devices != NULL && devices->len == 0)
    _tarn_opencl_load (&error);
  _tarn_device_tests_choose (&tests, devices, is_same, error);
  return &tests;
}

static void
run_case (gconstpointer data)
{
  const Case *item = data;

  item->func (&item->test, item->data);
}

/* Adds a test case that runs on @devices.  Takes over the array @devices. */
static void
add_case (const gchar *selector, const gchar *path, GArray *devices, const TarnOpenclDevice *info,
          TarnOpenclTestFunc func, gconstpointer data)
{
  Case *item = g_new0 (Case, 1);

  item->func = func;
  item->data = data;
  item->test.platform = info->platform;
  item->test.device = info->device;
  item->test.info = info;
  item->test.n_devices = devices->len;
  item->test.devices = (const cl_device_id *) (gpointer) g_array_free (devices, FALSE);
  _tarn_device_tests_add (get_tests (), selector, path, run_case, item);
}

void
tarn_opencl_test_add (const gchar *path, TarnOpenclTestFunc func, gconstpointer data)
{
  const GPtrArray *chosen;

  g_return_if_fail (path != NULL && path[0] != '\0');
  g_return_if_fail (func != NULL);

  if (!_tarn_device_tests_have_any (get_tests ()))
    return;
  chosen = get_tests ()->devices;
  for (guint i = 0; i < chosen->len; i++)
    {
      const TarnOpenclDevice *info = g_ptr_array_index (chosen, i);
      g_autofree gchar *selector
          = g_strdup_printf ("%u:%u", info->platform_index, info->device_index);
      GArray *devices = g_array_new (FALSE, FALSE, sizeof (cl_device_id));

      g_array_append_val (devices, info->device);
      add_case (selector, path, devices, info, func, data);
    }
}

/* Returns the chosen devices of a platform, in the order in which they were chosen. */
static GArray *
devices_of (const GPtrArray *chosen, guint platform)
{
  GArray *devices = g_array_new (FALSE, FALSE, sizeof (cl_device_id));

  for (guint i = 0; i < chosen->len; i++)
    {
      const TarnOpenclDevice *info = g_ptr_array_index (chosen, i);

      if (info->platform_index == platform)
        g_array_append_val (devices, info->device);
    }
  return devices;
}

void
tarn_opencl_test_add_per_platform (const gchar *path, TarnOpenclTestFunc func, gconstpointer data)
{
  const GPtrArray *chosen;
  g_autoptr (GHashTable) seen = g_hash_table_new (NULL, NULL);

  g_return_if_fail (path != NULL && path[0] != '\0');
  g_return_if_fail (func != NULL);

  if (!_tarn_device_tests_have_any (get_tests ()))
    return;
  chosen = get_tests ()->devices;
  for (guint i = 0; i < chosen->len; i++)
    {
      const TarnOpenclDevice *info = g_ptr_array_index (chosen, i);
      g_autofree gchar *selector = g_strdup_printf ("%u", info->platform_index);

      if (g_hash_table_add (seen, GUINT_TO_POINTER (info->platform_index)))
        add_case (selector, path, devices_of (chosen, info->platform_index), info, func, data);
    }
}

cl_context
tarn_opencl_test_create_context (const TarnOpenclTest *test, GError **error)
{
  cl_context_properties properties[] = { CL_CONTEXT_PLATFORM, 0, 0 };
  cl_context context;
  cl_int status;

  g_return_val_if_fail (test != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!_tarn_opencl_load (error))
    return NULL;
  tarn_memo_clear_all ();
  properties[1] = (cl_context_properties) test->platform;
  context
      = _tarn_cl.clCreateContext (properties, test->n_devices, test->devices, NULL, NULL, &status);
  if (status == CL_SUCCESS)
    return context;
  _tarn_opencl_set_error (error, "clCreateContext", status);
  return NULL;
}
