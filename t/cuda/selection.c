/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Choosing CUDA devices, on the fake driver that this program is linked with.  A driver is loaded
 * once in a process, so what differs in that is a child's. */

#include <sys/wait.h>
#include <tarn/cuda.h>
#include <unistd.h>

#include "testing/cuda/fake-cuda.h"

/* "0 1", or the error's message */
static gchar *
choose (const gchar *selection)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) devices = tarn_cuda_select_test_devices (selection, &error);
  g_autoptr (GString) text = g_string_new (NULL);

  g_assert_true ((devices == NULL) == (error != NULL));
  if (devices == NULL)
    return g_strdup (error->message);
  for (guint i = 0; i < devices->len; i++)
    g_string_append_printf (text, "%s%u", i > 0 ? " " : "",
                            ((TarnCudaDevice *) g_ptr_array_index (devices, i))->device_index);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static void
assert_chosen (const gchar *selection, const gchar *expected)
{
  g_autofree gchar *chosen = choose (selection);

  g_test_message ("%s", selection);
  g_assert_cmpstr (chosen, ==, expected);
}

static void
set_environment (const gchar *tarn_test, const gchar *pyopencl_test)
{
  g_unsetenv ("TARN_TEST");
  g_unsetenv ("PYOPENCL_TEST");
  if (tarn_test != NULL)
    g_setenv ("TARN_TEST", tarn_test, TRUE);
  if (pyopencl_test != NULL)
    g_setenv ("PYOPENCL_TEST", pyopencl_test, TRUE);
}

static void
test_selection (void)
{
  static const struct
  {
    const gchar *selection, *expected;
  } rows[] = {
    { "", "0 1 2" },
    { "cuda", "0 1 2" },
    { "cuda:1", "1" },
    { "CUDA:-1,0,0", "2 0 0" },
    { "cuda:gpu b", "1" },
    { "cuda:nvidia", "0" },
    { "*", "0 1 2" },
    { "*:*", "0 1 2" },
    { "0:0", "" },
    { "0:0;cuda:2;pocl", "2" },
    { "cuda:uuid=GPU-01122334-4556-6778-899a-abbccddeef00", "1" },
    { "cuda:pci=0000:fb:00.0", "1" },
    { "cuda:3", "there is no device 3; devices of 'CUDA': 0 = 'Fake GPU A', 1 = 'Fake GPU B', 2 = "
                "'Fake GPU C'" },
    { "cudda:0", "no platform matches 'cudda'; did you mean 'cuda'?" },
    { "cuda:0;CUAD", "no platform matches 'CUAD'; did you mean 'cuda'?" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    assert_chosen (rows[i].selection, rows[i].expected);
}

static void
test_environment (void)
{
  set_environment (NULL, NULL);
  assert_chosen (NULL, "0 1 2");
  set_environment (NULL, "0:0");
  assert_chosen (NULL, "");
  assert_chosen ("cuda", "0 1 2");
  set_environment ("cuda:1", "0:0");
  assert_chosen (NULL, "1");
  set_environment ("cuda:x", NULL);
  assert_chosen (NULL, "TARN_TEST: no device matches 'x'; devices of 'CUDA': 0 = 'Fake GPU A', 1 = "
                       "'Fake GPU B', 2 = 'Fake GPU C'");
  set_environment (NULL, NULL);
}

static void
test_device (void)
{
  g_autoptr (GPtrArray) devices = tarn_cuda_select_test_devices ("cuda:1", NULL);
  const TarnCudaDevice *device = g_ptr_array_index (devices, 0);

  g_assert_cmpint (device->device, ==, 1);
  g_assert_cmpstr (device->name, ==, "Fake GPU B");
  g_assert_cmpstr (device->uuid, ==, "GPU-01122334-4556-6778-899a-abbccddeef00");
  g_assert_cmpstr (device->pci, ==, "0000:fb:00.0");
  g_assert_cmpstr (device->selector, ==, "cuda:uuid=GPU-01122334-4556-6778-899a-abbccddeef00");
}

static void
assert_uuid (guint index, const gchar *expected)
{
  g_autofree gchar *selection = g_strdup_printf ("cuda:%u", index);
  g_autofree gchar *selector = g_strconcat ("cuda:uuid=", expected, NULL);
  g_autofree gchar *number = g_strdup_printf ("%u", index);
  g_autoptr (GPtrArray) devices = tarn_cuda_select_test_devices (selection, NULL);
  const TarnCudaDevice *device = g_ptr_array_index (devices, 0);

  g_assert_cmpstr (device->uuid, ==, expected);
  g_assert_cmpstr (device->selector, ==, selector);
  assert_chosen (selector, number);
}

/* A part of a GPU has a UUID of its own, which older functions do not know of: nvidia-smi and
 * CUDA_VISIBLE_DEVICES write it with another prefix. */
static void
test_part (void)
{
  const TarnTestingCuda *fake = tarn_fake_cuda ();

  fake->set_part (1, TRUE);
  assert_uuid (0, "GPU-00112233-4455-6677-8899-aabbccddeeff");
  assert_uuid (1, "MIG-fe122334-4556-6778-899a-abbccddeef00");
  assert_uuid (2, "GPU-02132435-4657-6879-8a9b-acbdcedff001");
  assert_chosen ("cuda:uuid=FE122334-4556-6778-899A-ABBCCDDEEF00", "1");

  /* Without one of the two there is nothing to compare. */
  fake->fail ("cuDeviceGetUuid_v2", 1, TRUE, FAKE_CUDA_INVALID_DEVICE);
  assert_uuid (1, "GPU-01122334-4556-6778-899a-abbccddeef00");
  fake->fail ("cuDeviceGetUuid", 1, TRUE, FAKE_CUDA_INVALID_DEVICE);
  assert_uuid (1, "GPU-fe122334-4556-6778-899a-abbccddeef00");
  fake->reset ();
}

/* Drivers that answer with errors */

static void
test_child (gconstpointer expected)
{
  /* A message would end the process. */
  g_log_set_always_fatal (G_LOG_LEVEL_CRITICAL | G_LOG_FATAL_MASK);
  g_assert_cmpint (g_setenv ("TARN_TESTING_CUDA_DEVICES", g_getenv ("CHILD_DEVICES"), TRUE), ==,
                   TRUE);
  assert_chosen ("cuda", expected);
}

static void
assert_child (const gchar *devices, const gchar *failure, const gchar *chosen, const gchar *message)
{
  g_autofree gchar *path = g_strdup_printf ("/cuda/selection/subprocess/%s", chosen);

  g_setenv ("CHILD_DEVICES", devices, TRUE);
  g_setenv ("CHILD_FAIL", failure, TRUE);
  g_test_trap_subprocess (path, 0, 0);
  g_test_trap_assert_passed ();
  if (message != NULL)
    g_test_trap_assert_stderr (message);
  else
    g_test_trap_assert_stderr_unmatched ("*CUDA*:*");
}

static void
test_failures (void)
{
  assert_child ("0", "", "none", NULL);
  assert_child ("2", "cuInit:100", "none", NULL);
  assert_child ("2", "cuInit:1", "none", "*cuInit: CUDA_ERROR_INVALID_VALUE (1)*");
  assert_child ("2", "cuInit:2", "none", "*cuInit: *(2)*");
  assert_child ("2", "cuInit:998", "none", "*cuInit: unknown status (998)*");
  assert_child ("2", "cuDeviceGetCount:1", "none",
                "*cuDeviceGetCount: CUDA_ERROR_INVALID_VALUE (1)*");
  assert_child ("2", "cuDeviceGet:101", "none", "*device 1: cuDeviceGet: CUDA_ERROR_INVALID*");
  assert_child ("2", "cuDeviceGetName:101", "none", "*device 0: cuDeviceGetName: CUDA_ERROR_INV*");
  assert_child ("2", "cuDeviceGetUuid_v2:101", "both", NULL);
  assert_child ("2", "cuDeviceGetPCIBusId:101", "both", NULL);
}

/* The parent has called the driver: the child is told, and does not. */
static void
test_fork (void)
{
  g_autofree gchar *chosen = choose ("cuda");
  gint status = -1;
  pid_t child;

  g_assert_cmpstr (chosen, ==, "0 1 2");
  child = fork ();
  g_assert_cmpint (child, >=, 0);
  if (child == 0)
    {
      GError *error = NULL;
      gboolean is_told = tarn_cuda_select_test_devices ("cuda", &error) == NULL;

      _exit (is_told && g_error_matches (error, TARN_ERROR, TARN_ERROR_FORKED) ? 0 : 1);
    }
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_cmpint (status, ==, 0);
}

int
main (int argc, char **argv)
{
  g_setenv ("TARN_TESTING_CUDA_DEVICES", "3", TRUE);
  g_unsetenv ("TARN_TESTING_CUDA_FAIL");
  if (g_getenv ("CHILD_FAIL") != NULL)
    g_setenv ("TARN_TESTING_CUDA_FAIL", g_getenv ("CHILD_FAIL"), TRUE);
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda/selection/choices", test_selection);
  g_test_add_func ("/cuda/selection/environment", test_environment);
  g_test_add_func ("/cuda/selection/device", test_device);
  g_test_add_func ("/cuda/selection/part", test_part);
  g_test_add_func ("/cuda/selection/failures", test_failures);
  g_test_add_func ("/cuda/selection/fork", test_fork);
  g_test_add_data_func ("/cuda/selection/subprocess/none", "", test_child);
  g_test_add_data_func ("/cuda/selection/subprocess/both", "0 1", test_child);
  return g_test_run ();
}
