/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Adds tests that run once on each chosen CUDA device.  Each run has its own context. */

#define _GNU_SOURCE 1 /* makes <stdlib.h> declare secure_getenv () */

#include "common/device-tests-private.h"
#include "context-private.h"

typedef struct
{
  const TarnCudaDevice *info;
  TarnCudaTestFunc func;
  gconstpointer data;
} Case;

static gboolean
is_same (gconstpointer a, gconstpointer b)
{
  return ((const TarnCudaDevice *) a)->device_index == ((const TarnCudaDevice *) b)->device_index;
}

/* Returns the TarnDeviceTests for CUDA, which lists the chosen devices.  If there are no devices
 * because there is no driver, the struct contains the driver's error as the reason. */
static TarnDeviceTests *
get_tests (void)
{
  static TarnDeviceTests tests = { .root = "cuda", .title = "CUDA" };
  g_autoptr (GError) error = NULL;
  GPtrArray *devices;

  if (tests.devices != NULL)
    return &tests;
  devices = tarn_cuda_select_test_devices (NULL, &error);
  if (devices != NULL && devices->len == 0)
    _tarn_cuda_get_driver (&error);
  _tarn_device_tests_choose (&tests, devices, is_same, error);
  return &tests;
}

/* Destroys the context of a test.  Before that, clears the memos of contexts, because the test may
 * have left values in them, and pops the context if it is current. */
static void
close_context (const TarnCudaDriver *driver, CUcontext context)
{
  CUcontext current = NULL;
  g_autoptr (GError) error = NULL;

  tarn_cuda_clear_context_caches ();
  if (driver->cuCtxGetCurrent (&current) == TARN_CUDA_SUCCESS && current == context)
    _tarn_cuda_pop_context (driver);
  if (!_tarn_cuda_check (driver, "cuCtxDestroy", driver->cuCtxDestroy (context), &error))
    {
      g_test_message ("%s", error->message);
      g_test_fail ();
    }
}

static void
run_case (gconstpointer data)
{
  const Case *item = data;
  TarnCudaTest test = { .device = item->info->device, .info = item->info };
  g_autoptr (GError) error = NULL;
  const TarnCudaDriver *driver = _tarn_cuda_get_driver (&error);

  if (driver == NULL
      || !_tarn_cuda_check (driver, "cuCtxCreate",
                            driver->cuCtxCreate (&test.context, 0, test.device), &error))
    {
      g_test_message ("%s", error->message);
      g_test_fail ();
      return;
    }
  item->func (&test, item->data);
  close_context (driver, test.context);
}

void
tarn_cuda_test_add (const gchar *path, TarnCudaTestFunc func, gconstpointer data)
{
  TarnDeviceTests *tests;

  g_return_if_fail (path != NULL && path[0] != '\0');
  g_return_if_fail (func != NULL);

  tests = get_tests ();
  if (!_tarn_device_tests_have_any (tests))
    return;
  for (guint i = 0; i < tests->devices->len; i++)
    {
      const TarnCudaDevice *info = g_ptr_array_index (tests->devices, i);
      g_autofree gchar *selector = g_strdup_printf ("%u", info->device_index);
      Case *item = g_new (Case, 1);

      *item = (Case){ info, func, data };
      _tarn_device_tests_add (tests, selector, path, run_case, item);
    }
}
