/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What is OpenCL's, but is not tested once for each device: choosing devices, by the environment,
 * by a text, and with drivers that answer with errors; names of statuses; blocks of another kind.
 */

#include <string.h>

#include "device.h"
#include "lib/nothing.h"

static const OpenclLayer *layer;

/* "0:0 0:1", or the error's message */
static gchar *
choose (const gchar *selection)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) devices = tarn_opencl_select_test_devices (selection, &error);
  g_autoptr (GString) text = g_string_new (NULL);

  g_assert_true ((devices == NULL) == (error != NULL));
  if (devices == NULL)
    return g_strdup (error->message);
  for (guint i = 0; i < devices->len; i++)
    {
      const TarnOpenclDevice *device = g_ptr_array_index (devices, i);

      g_assert_nonnull (device->platform);
      g_assert_nonnull (device->device);
      g_assert_nonnull (device->name);
      g_assert_nonnull (device->platform_name);
      g_string_append_printf (text, "%s%u:%u", i > 0 ? " " : "", device->platform_index,
                              device->device_index);
    }
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static void
assert_chosen (const gchar *selection, const gchar *expected)
{
  g_autofree gchar *chosen = choose (selection);

  g_assert_cmpstr (chosen, ==, expected);
}

typedef struct
{
  gchar *tarn_test, *pyopencl_test; /* of whoever runs this; nullable */
} Environment;

static void
set_or_unset (const gchar *variable, const gchar *value)
{
  if (value != NULL)
    g_setenv (variable, value, TRUE);
  else
    g_unsetenv (variable);
}

static void
set_environment (const gchar *tarn_test, const gchar *pyopencl_test)
{
  set_or_unset ("TARN_TEST", tarn_test);
  set_or_unset ("PYOPENCL_TEST", pyopencl_test);
}

static void
set_up (Environment *environment, gconstpointer unused)
{
  (void) unused;
  environment->tarn_test = g_strdup (g_getenv ("TARN_TEST"));
  environment->pyopencl_test = g_strdup (g_getenv ("PYOPENCL_TEST"));
  set_environment (NULL, NULL);
  if (layer != NULL)
    layer->reset ();
}

static void
tear_down (Environment *environment, gconstpointer unused)
{
  (void) unused;
  set_environment (environment->tarn_test, environment->pyopencl_test);
  g_free (environment->tarn_test);
  g_free (environment->pyopencl_test);
}

static void
test_environment (Environment *environment, gconstpointer unused)
{
  g_autofree gchar *everything = choose (NULL);
  g_autofree gchar *error = NULL;

  (void) environment;
  (void) unused;
  assert_chosen ("", everything);
  assert_chosen ("*", everything);
  set_environment (NULL, "0:0;0:0");
  assert_chosen (NULL, "0:0 0:0");
  assert_chosen ("*", everything);
  set_environment ("0:-1,0", "0:0");
  g_assert_cmpstr (g_getenv ("TARN_TEST"), ==, "0:-1,0");
  assert_chosen ("0:0", "0:0");
  set_environment ("0:0", "nosuch");
  assert_chosen (NULL, "0:0");
  set_environment ("", "nosuch");
  assert_chosen (NULL, everything);
  /* What is for CUDA is not for this library. */
  set_environment ("cuda:0", NULL);
  assert_chosen (NULL, "");

  set_environment ("nosuch", "0:0");
  error = choose (NULL);
  g_assert_true (
      g_str_has_prefix (error, "TARN_TEST: no platform matches 'nosuch'; platforms: 0 = '"));
  set_environment (NULL, "0:99");
  g_free (error);
  error = choose (NULL);
  g_assert_true (
      g_str_has_prefix (error, "PYOPENCL_TEST: index out of range: device 99; devices of '"));
}

static void
test_each (Environment *environment, gconstpointer unused)
{
  g_autoptr (GPtrArray) devices = tarn_opencl_select_test_devices (NULL, NULL);

  (void) environment;
  (void) unused;
  for (guint i = 0; i < devices->len; i++)
    {
      const TarnOpenclDevice *device = g_ptr_array_index (devices, i);
      g_autofree gchar *selector
          = g_strdup_printf ("%u:%u", device->platform_index, device->device_index);
      g_autofree gchar *by_name
          = g_strdup_printf ("%u:\"%s\"", device->platform_index, device->name);
      g_autoptr (GPtrArray) found = tarn_opencl_select_test_devices (selector, NULL);
      g_autoptr (GPtrArray) named = tarn_opencl_select_test_devices (by_name, NULL);
      g_autoptr (GPtrArray) lasting = tarn_opencl_select_test_devices (device->selector, NULL);

      g_assert_cmpuint (found->len, ==, 1);
      g_assert_true (((TarnOpenclDevice *) g_ptr_array_index (found, 0))->device == device->device);
      g_assert_cmpuint (lasting->len, ==, 1);
      g_assert_true (((TarnOpenclDevice *) g_ptr_array_index (lasting, 0))->device
                     == device->device);
      g_assert_cmpuint (named->len, ==, 1);
      g_assert_cmpstr (((TarnOpenclDevice *) g_ptr_array_index (named, 0))->name, ==, device->name);
    }
}

/* Run by the test below in a process of its own, because a loader asks once what there is. */
static void
test_no_platform_child (void)
{
  g_autofree gchar *error = choose ("0:0");

  assert_chosen (NULL, "");
  assert_chosen ("*", "");
  g_assert_cmpstr (error, ==, "there is no platform 0; platforms: none");
}

static void
test_no_platform (void)
{
  g_autofree gchar *vendors = g_strdup (g_getenv ("OCL_ICD_VENDORS"));
  g_autofree gchar *tarn_test = g_strdup (g_getenv ("TARN_TEST"));
  g_autofree gchar *pyopencl_test = g_strdup (g_getenv ("PYOPENCL_TEST"));

  set_environment (NULL, NULL);
  g_setenv ("OCL_ICD_VENDORS", "/nonexistent", TRUE);
  g_test_trap_subprocess ("/opencl/selection/no-platform/subprocess/child", 0, 0);
  set_or_unset ("OCL_ICD_VENDORS", vendors);
  set_environment (tarn_test, pyopencl_test);
  g_test_trap_assert_passed ();
}

/* With a driver that answers with errors */

static void
count_message (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer data)
{
  (void) domain;
  (void) level;
  g_assert_nonnull (strstr (message, "OpenCL platform "));
  g_assert_nonnull (strstr (message, "CL_OUT_OF_HOST_MEMORY (-6)"));
  ++*(guint *) data;
}

/* Every question, answered with an error in turn: what is left is a part of all, and each error is
 * reported once. */
static void
test_failing_queries (Environment *environment, gconstpointer unused)
{
  g_autofree gchar *everything = choose (NULL);
  guint n_messages = 0, n_failures = 0;
  guint handler
      = g_log_set_handler ("Tarn-OpenCL", G_LOG_LEVEL_MESSAGE, count_message, &n_messages);

  (void) environment;
  (void) unused;
  for (guint nth = 1;; nth++)
    {
      g_autofree gchar *chosen = NULL;

      layer->fail (NULL, nth, FALSE, CL_OUT_OF_HOST_MEMORY);
      chosen = choose (NULL);
      if (layer->get_failed () == NULL)
        {
          g_assert_cmpstr (chosen, ==, everything);
          break;
        }
      n_failures++;
      g_assert_cmpuint (strlen (chosen), <=, strlen (everything));
      g_assert_cmpuint (n_messages, <=, n_failures);
    }
  g_log_remove_handler ("Tarn-OpenCL", handler);
  g_assert_cmpuint (n_messages, >, 10);
  layer->reset ();
}

/* Nothing but errors: no device, and no crash. */
static void
test_dead_drivers (Environment *environment, gconstpointer unused)
{
  guint n_messages = 0;
  guint handler
      = g_log_set_handler ("Tarn-OpenCL", G_LOG_LEVEL_MESSAGE, count_message, &n_messages);

  (void) environment;
  (void) unused;
  layer->fail (NULL, 1, TRUE, CL_OUT_OF_HOST_MEMORY);
  assert_chosen (NULL, "");
  layer->fail ("clGetDeviceInfo", 1, TRUE, CL_OUT_OF_HOST_MEMORY);
  assert_chosen (NULL, "");
  g_log_remove_handler ("Tarn-OpenCL", handler);
  g_assert_cmpuint (n_messages, >, 0);
  layer->fail (NULL, 0, FALSE, CL_SUCCESS);

  /* A platform without a device is normal, and no message. */
  layer->fail ("clGetDeviceIDs", 1, TRUE, CL_DEVICE_NOT_FOUND);
  assert_chosen (NULL, "");
  layer->reset ();
}

static void
test_properties (Environment *environment, gconstpointer unused)
{
  static const gchar khr[] = "cl_khr_device_uuid cl_khr_pci_bus_info";
  static const cl_uint address[4] = { 0, 0x65, 0x1f, 7 };
  g_autofree gchar *everything = choose (NULL);
  g_autoptr (GPtrArray) devices = NULL;
  const TarnOpenclDevice *first;
  guint8 uuid[16];

  (void) environment;
  (void) unused;
  for (guint i = 0; i < sizeof uuid; i++)
    uuid[i] = (guint8) (i * 16 + i);
  layer->set_device_info (CL_DEVICE_EXTENSIONS, khr, sizeof khr);
  layer->set_device_info (0x106A, uuid, sizeof uuid);
  layer->set_device_info (0x410F, address, sizeof address);
  assert_chosen ("*:uuid=00112233-4455-6677-8899-aabbccddeeff", everything);
  assert_chosen ("*:pci=0000:65:1f.7", everything);
  devices = tarn_opencl_select_test_devices (NULL, NULL);
  first = g_ptr_array_index (devices, 0);
  g_assert_cmpstr (first->uuid, ==, "00112233-4455-6677-8899-aabbccddeeff");
  g_assert_cmpstr (first->pci, ==, "0000:65:1f.7");
  layer->reset ();
}

static void
no_device (void)
{
  g_test_skip ("there is no OpenCL device");
}

/* A name with a character that a terminal would act on. */
#define NAME "theirs\x1b"
#define QUOTED_NAME "theirs\\x1b"

static void
expect_other_kind (const gchar *function, const gchar *name, const gchar *expected)
{
  g_autofree gchar *from
      = g_strdup (name != NULL ? "allocator '" QUOTED_NAME "'" : "an unnamed allocator");
  g_autofree gchar *message = g_strdup_printf (
      "tarn_opencl_block_%s: the block is from %s, but must be from %s", function, from, expected);

  g_test_expect_message ("Tarn-OpenCL", G_LOG_LEVEL_CRITICAL, message);
}

/* Another backend's block: it is said whose it is. */
static void
test_other_kind (gconstpointer name)
{
  const gchar *buffers = "'opencl-deferred' or 'opencl-immediate'";
  const gchar *any = "an allocator of libtarn-opencl's";
  TarnAllocatorOps ops;
  g_autoptr (TarnAllocator) allocator = NULL;
  g_autoptr (TarnBlock) block = NULL;

  nothing_ops_init (&ops);
  ops.name = name;
  allocator = tarn_allocator_new (&ops, NULL, NULL);
  block = tarn_allocator_allocate (allocator, 10, NULL);
  expect_other_kind ("get_buffer", name, buffers);
  g_assert_null (tarn_opencl_block_get_buffer (block));
  expect_other_kind ("get_svm", name, "'opencl-svm'");
  g_assert_null (tarn_opencl_block_get_svm (block));
  expect_other_kind ("get_queue", name, any);
  g_assert_null (tarn_opencl_block_get_queue (block));
  expect_other_kind ("move_to_queue", name, any);
  g_assert_false (tarn_opencl_block_move_to_queue (block, (cl_command_queue) &ops, NULL));
  expect_other_kind ("record_use", name, any);
  g_assert_false (tarn_opencl_block_record_use (block, (cl_command_queue) &ops, NULL));
  g_test_assert_expected_messages ();
}

static void
test_status_names (void)
{
  g_assert_cmpstr (tarn_opencl_status_name (CL_SUCCESS), ==, "CL_SUCCESS");
  g_assert_cmpstr (tarn_opencl_status_name (-61), ==, "CL_INVALID_BUFFER_SIZE");
  g_assert_cmpstr (tarn_opencl_status_name (-72), ==, "CL_MAX_SIZE_RESTRICTION_EXCEEDED");
  g_assert_cmpstr (tarn_opencl_status_name (-1001), ==, "CL_PLATFORM_NOT_FOUND_KHR");
  g_assert_cmpstr (tarn_opencl_status_name (-9999), ==, "unknown status");
}

static gboolean
has_devices (void)
{
  g_autoptr (GPtrArray) devices = tarn_opencl_select_test_devices ("", NULL);

  return devices->len > 0;
}

/* Each of Tarn's errors has a status that is none of success. */
static void
test_error_to_status (void)
{
  g_autoptr (GError) opencl
      = g_error_new_literal (TARN_OPENCL_ERROR, CL_INVALID_QUEUE_PROPERTIES, "");
  g_autoptr (GError) other = g_error_new_literal (G_FILE_ERROR, TARN_ERROR_INVALID_SIZE, "");
  g_autoptr (GError) size = g_error_new_literal (TARN_ERROR, TARN_ERROR_INVALID_SIZE, "");
  g_autoptr (GError) limit = g_error_new_literal (TARN_ERROR, TARN_ERROR_LIMIT, "");
  g_autoptr (GError) driver = g_error_new_literal (TARN_ERROR, TARN_ERROR_NO_DRIVER, "");
  g_autoptr (GError) failed = g_error_new_literal (TARN_ERROR, TARN_ERROR_FAILED, "");

  g_assert_cmpint (tarn_opencl_error_to_status (NULL), ==, CL_SUCCESS);
  g_assert_cmpint (tarn_opencl_error_to_status (opencl), ==, CL_INVALID_QUEUE_PROPERTIES);
  g_assert_cmpint (tarn_opencl_error_to_status (other), ==, CL_OUT_OF_RESOURCES);
  g_assert_cmpint (tarn_opencl_error_to_status (size), ==, CL_INVALID_BUFFER_SIZE);
  g_assert_cmpint (tarn_opencl_error_to_status (limit), ==, CL_MEM_OBJECT_ALLOCATION_FAILURE);
  g_assert_cmpint (tarn_opencl_error_to_status (driver), ==, -1001);
  g_assert_cmpint (tarn_opencl_error_to_status (failed), ==, CL_OUT_OF_RESOURCES);
  for (gint code = TARN_ERROR_OUT_OF_MEMORY; code < TARN_ERROR_FAILED; code++)
    {
      g_autoptr (GError) own = g_error_new_literal (TARN_ERROR, code, "");

      g_assert_cmpint (tarn_opencl_error_to_status (own), !=, CL_SUCCESS);
      g_assert_cmpint (tarn_opencl_error_to_status (own), !=, CL_OUT_OF_RESOURCES);
    }
}

int
main (int argc, char **argv)
{
#define ADD(path, func)                                                                            \
  g_test_add ("/opencl/selection/" path, Environment, NULL, set_up, func, tear_down)
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/opencl/selection/no-platform", test_no_platform);
  g_test_add_func ("/opencl/selection/no-platform/subprocess/child", test_no_platform_child);
  g_test_add_data_func ("/opencl/other-kind/named", NAME, test_other_kind);
  g_test_add_data_func ("/opencl/other-kind/unnamed", NULL, test_other_kind);
  g_test_add_func ("/opencl/status-names", test_status_names);
  g_test_add_func ("/opencl/error-to-status", test_error_to_status);
  layer = opencl_layer_load ();
  if (has_devices ())
    {
      ADD ("environment", test_environment);
      ADD ("each", test_each);
    }
  else
    g_test_add_func ("/opencl/selection/no-device", no_device);
  if (layer != NULL && has_devices ())
    {
      ADD ("failing-queries", test_failing_queries);
      ADD ("dead-drivers", test_dead_drivers);
      ADD ("properties", test_properties);
    }
  else if (has_devices ())
    opencl_add_no_layer ("/opencl/selection/no-layer");
  return g_test_run ();
}
