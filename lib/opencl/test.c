/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Tests that run once for each chosen device, or platform: one g_test for each, so that a report
 * names the device that a test failed on.
 *
 * What is chosen is found once in a process, when the first test is added, and stays for the rest
 * of it: g_test runs the tests later. */

#include <string.h>
#include <tarn/opencl.h>

#include "status-private.h"

typedef struct
{
  GPtrArray *devices; /* of TarnOpenclDevice, each once: g_test has one test for a path */
  gchar *reason;      /* why there is none; NULL if there are some */
  gboolean is_error;  /* then the choice itself could not be made */
} Chosen;

typedef struct
{
  TarnOpenclTest test;
  TarnOpenclTestFunc func;
  gconstpointer data;
} Case;

static gboolean
is_listed (const GPtrArray *devices, const TarnOpenclDevice *wanted)
{
  for (guint i = 0; i < devices->len; i++)
    {
      const TarnOpenclDevice *device = g_ptr_array_index (devices, i);

      if (device->platform_index == wanted->platform_index
          && device->device_index == wanted->device_index)
        return TRUE;
    }
  return FALSE;
}

/* Says so if a variable has left none, and not the machine. */
static gchar *
explain_none (void)
{
  const gchar *variable = g_getenv ("TARN_TEST") != NULL ? "TARN_TEST" : "PYOPENCL_TEST";
  const gchar *value = g_getenv (variable);

  if (value == NULL || value[0] == '\0')
    return g_strdup ("there is no OpenCL device");
  return g_strdup_printf ("%s='%s' chooses no OpenCL device", variable, value);
}

static const Chosen *
get_chosen (void)
{
  static GPtrArray *all; /* owns what the array below has */
  static Chosen chosen;
  g_autoptr (GError) error = NULL;

  if (chosen.devices != NULL)
    return &chosen;
  chosen.devices = g_ptr_array_new ();
  all = tarn_opencl_select_test_devices (NULL, &error);
  for (guint i = 0; all != NULL && i < all->len; i++)
    if (!is_listed (chosen.devices, g_ptr_array_index (all, i)))
      g_ptr_array_add (chosen.devices, g_ptr_array_index (all, i));
  chosen.is_error = error != NULL;
  if (chosen.devices->len == 0)
    chosen.reason = error != NULL ? g_strdup (error->message) : explain_none ();
  return &chosen;
}

static void
run_without_device (void)
{
  const Chosen *chosen = get_chosen ();

  if (!chosen->is_error)
    {
      g_test_skip (chosen->reason);
      return;
    }
  g_test_message ("%s", chosen->reason);
  g_test_fail ();
}

/* Whether there is anything to run on; if not, one test of the whole program says why. */
static gboolean
has_devices (void)
{
  static gboolean was_said;
  const Chosen *chosen = get_chosen ();

  if (chosen->devices->len > 0)
    return TRUE;
  if (!was_said)
    g_test_add_func (chosen->is_error ? "/opencl/selection-error" : "/opencl/no-device",
                     run_without_device);
  was_said = TRUE;
  return FALSE;
}

static void
run_case (gconstpointer data)
{
  const Case *item = data;

  item->func (&item->test, item->data);
}

/* Takes over @devices. */
static void
add_case (const gchar *selector, const gchar *path, GArray *devices, const TarnOpenclDevice *info,
          TarnOpenclTestFunc func, gconstpointer data)
{
  g_autofree gchar *full
      = g_strdup_printf ("/opencl/%s%s%s", selector, path[0] == '/' ? "" : "/", path);
  static GPtrArray *cases; /* for the rest of the process: g_test frees only what it has run */
  Case *item = g_new0 (Case, 1);

  item->func = func;
  item->data = data;
  item->test.platform = info->platform;
  item->test.device = info->device;
  item->test.info = info;
  item->test.n_devices = devices->len;
  item->test.devices = (const cl_device_id *) (gpointer) g_array_free (devices, FALSE);
  if (cases == NULL)
    cases = g_ptr_array_new ();
  g_ptr_array_add (cases, item);
  g_test_add_data_func (full, item, run_case);
}

/**
 * Adds a test to g_test's once for each chosen OpenCL device. Devices are chosen by TARN_TEST, else
 * by PYOPENCL_TEST, else they are all: see tarn_opencl_select_test_devices(). The path says which
 * one it is: test "pool/reuse" is "/opencl/0:1/pool/reuse" on device 1 of platform 0. A device that
 * is named twice is one test.
 *
 * Where no device is chosen, one test of the whole program, "/opencl/no-device", is skipped and
 * says so; a choice that cannot be made is one that fails and says why.
 *
 * Call it in the thread that calls g_test_run (), after g_test_init ().
 *
 * @param path  where the test stands among those of its device; a `/` before it changes nothing
 * @param func  the test
 * @param data  for @p func; nullable, not freed
 * @since 0.1
 */
void
tarn_opencl_test_add (const gchar *path, TarnOpenclTestFunc func, gconstpointer data)
{
  const GPtrArray *chosen;

  g_return_if_fail (path != NULL && path[0] != '\0');
  g_return_if_fail (func != NULL);

  if (!has_devices ())
    return;
  chosen = get_chosen ()->devices;
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

/* The devices of a platform that were chosen, in the order in which they were. */
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

/**
 * Adds a test once for each platform with a chosen device. Otherwise it is as
 * tarn_opencl_test_add(). The path has the platform alone, as in "/opencl/0/pool/reuse"; the test
 * is given all chosen devices of it.
 *
 * Call it in the thread that calls g_test_run (), after g_test_init ().
 *
 * @param path  where the test stands among those of its platform; a `/` before it changes nothing
 * @param func  the test
 * @param data  for @p func; nullable, not freed
 * @since 0.1
 */
void
tarn_opencl_test_add_per_platform (const gchar *path, TarnOpenclTestFunc func, gconstpointer data)
{
  const GPtrArray *chosen;
  g_autoptr (GHashTable) seen = g_hash_table_new (NULL, NULL);

  g_return_if_fail (path != NULL && path[0] != '\0');
  g_return_if_fail (func != NULL);

  if (!has_devices ())
    return;
  chosen = get_chosen ()->devices;
  for (guint i = 0; i < chosen->len; i++)
    {
      const TarnOpenclDevice *info = g_ptr_array_index (chosen, i);
      g_autofree gchar *selector = g_strdup_printf ("%u", info->platform_index);

      if (g_hash_table_add (seen, GUINT_TO_POINTER (info->platform_index)))
        add_case (selector, path, devices_of (chosen, info->platform_index), info, func, data);
    }
}

/**
 * Makes a context on all devices of a test. What earlier tests have left in memos is cleared
 * before, as tarn_memo_clear_all() does: some drivers have few contexts.
 *
 * @param test   what the test was given
 * @param error  return location, or NULL: TARN_OPENCL_ERROR with the driver's status;
 *               TARN_ERROR_FORKED in a child of fork ()
 * @return (transfer full): for clReleaseContext (), or NULL with @p error set. Any thread may call
 * it.
 * @since 0.1
 */
cl_context
tarn_opencl_test_create_context (const TarnOpenclTest *test, GError **error)
{
  cl_context_properties properties[] = { CL_CONTEXT_PLATFORM, 0, 0 };
  cl_context context;
  cl_int status;

  g_return_val_if_fail (test != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!tarn_check_fork (error))
    return NULL;
  tarn_memo_clear_all ();
  properties[1] = (cl_context_properties) test->platform;
  context = clCreateContext (properties, test->n_devices, test->devices, NULL, NULL, &status);
  if (status == CL_SUCCESS)
    return context;
  _tarn_opencl_set_error (error, "clCreateContext", status);
  return NULL;
}
