/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The device that the user means, on the fake driver with four devices. */

#include <glib/gstdio.h>
#include <pthread.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <tarn/cuda.h>
#include <unistd.h>

#include "driver.h"

static const TarnTestingCuda *fake;

#define N_DEVICES 4

static void
set_or_unset (const gchar *variable, const gchar *value)
{
  if (value != NULL)
    g_setenv (variable, value, TRUE);
  else
    g_unsetenv (variable);
}

static void
write_home (const gchar *name, const gchar *text)
{
  g_autofree gchar *path = g_build_filename (g_get_home_dir (), name, NULL);

  if (text != NULL)
    g_assert_true (g_file_set_contents (path, text, -1, NULL));
  else
    g_remove (path);
}

static void
set_up (void)
{
  static const gchar *const variables[] = { "CUDA_DEVICE", "OMPI_COMM_WORLD_LOCAL_RANK",
                                            "MPI_LOCALRANKID", "SLURM_LOCALID", "PMI_LOCAL_RANK" };

  for (gsize i = 0; i < G_N_ELEMENTS (variables); i++)
    g_unsetenv (variables[i]);
  write_home (".cuda_device", NULL);
  write_home (".cuda-device", NULL);
  fake->reset ();
}

/* Which one it is; it is current and referenced once, and neither after its release. */
static CUdevice
open_default (void)
{
  g_autoptr (GError) error = NULL;
  CUdevice device = -1;
  CUcontext context = tarn_cuda_make_default_context (&device, &error);

  g_assert_no_error (error);
  g_assert_true (cuda_get_current () == context);
  g_assert_cmpuint (fake->get_primary_references (device), ==, 1);
  tarn_cuda_context_release (context);
  g_assert_null (cuda_get_current ());
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_CONTEXT), ==, 0);
  return device;
}

static void
assert_refused (gint code, const gchar *text)
{
  g_autoptr (GError) error = NULL;
  CUdevice device = -1;

  g_assert_null (tarn_cuda_make_default_context (&device, &error));
  g_test_message ("%s", error->message);
  g_assert_error (error, TARN_ERROR, code);
  g_assert_nonnull (strstr (error->message, text));
  g_assert_cmpint (device, ==, -1);
  g_assert_null (cuda_get_current ());
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_CONTEXT), ==, 0);
}

static void
test_variable (void)
{
  static const struct
  {
    const gchar *value;
    gint code;
    const gchar *text;
  } rows[] = {
    { "abc", TARN_ERROR_INVALID_ARGUMENT, "CUDA_DEVICE: 'abc' is not" },
    { "", TARN_ERROR_INVALID_ARGUMENT, "CUDA_DEVICE: '' is not" },
    { "-1", TARN_ERROR_INVALID_ARGUMENT, "CUDA_DEVICE: '-1' is not" },
    { "1x", TARN_ERROR_INVALID_ARGUMENT, "there are 4 CUDA devices" },
    { "4", TARN_ERROR_NO_DEVICE, "CUDA_DEVICE: there is no CUDA device 4; there are 4" },
    { "99999999999999999999", TARN_ERROR_INVALID_ARGUMENT, "'99999999999999999999'" },
  };

  set_up ();
  g_assert_cmpint (open_default (), ==, 0);
  g_setenv ("CUDA_DEVICE", "2", TRUE);
  g_assert_cmpint (open_default (), ==, 2);
  g_setenv ("CUDA_DEVICE", " 3\n", TRUE);
  g_assert_cmpint (open_default (), ==, 3);
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_setenv ("CUDA_DEVICE", rows[i].value, TRUE);
      assert_refused (rows[i].code, rows[i].text);
    }
}

/* What PyCUDA's code reads goes before what its documentation says, and a variable before both. */
static void
test_file (void)
{
  set_up ();
  write_home (".cuda-device", "1\n");
  g_assert_cmpint (open_default (), ==, 1);
  write_home (".cuda_device", "2\n");
  g_assert_cmpint (open_default (), ==, 2);
  g_setenv ("CUDA_DEVICE", "3", TRUE);
  g_assert_cmpint (open_default (), ==, 3);
  g_unsetenv ("CUDA_DEVICE");
  write_home (".cuda_device", "two");
  assert_refused (TARN_ERROR_INVALID_ARGUMENT, "/.cuda_device: 'two' is not");
  set_up ();
}

static gchar *
make_home_path (const gchar *name)
{
  return g_build_filename (g_get_home_dir (), name, NULL);
}

/* A file is read only if it is small and regular: anything may be in the home folder. */
static void
test_odd_files (void)
{
  g_autofree gchar *path = make_home_path (".cuda_device");
  g_autofree gchar *large = g_strnfill (65, ' ');
  g_autofree gchar *just_fits = g_strdup_printf ("%*s", 64, "1");

  set_up ();
  g_assert_cmpint (mkfifo (path, 0600), ==, 0);
  assert_refused (TARN_ERROR_INVALID_ARGUMENT, "~/.cuda_device: must be a file");
  g_unlink (path);
  g_assert_cmpint (symlink ("/dev/zero", path), ==, 0);
  assert_refused (TARN_ERROR_INVALID_ARGUMENT, "~/.cuda_device: must be a file");
  g_unlink (path);
  g_assert_cmpint (g_mkdir (path, 0700), ==, 0);
  assert_refused (TARN_ERROR_INVALID_ARGUMENT, "~/.cuda_device: must be a file");
  g_rmdir (path);
  write_home (".cuda_device", large);
  assert_refused (TARN_ERROR_INVALID_ARGUMENT, "~/.cuda_device: must be a file");
  write_home (".cuda_device", just_fits);
  g_assert_cmpint (open_default (), ==, 1);
  write_home (".cuda_device", "\x1b]0;x\a");
  assert_refused (TARN_ERROR_INVALID_ARGUMENT, "~/.cuda_device: '\\x1b]0;x\\x07' is not");
  set_up ();
}

/* A message quotes a variable's value, shortened. */
static void
test_odd_variable (void)
{
  g_autofree gchar *large = g_strnfill (100000, 'x');
  g_autoptr (GError) error = NULL;

  set_up ();
  g_setenv ("CUDA_DEVICE", "\x1b[2J", TRUE);
  assert_refused (TARN_ERROR_INVALID_ARGUMENT, "CUDA_DEVICE: '\\x1b[2J' is not");
  g_setenv ("CUDA_DEVICE", large, TRUE);
  g_assert_null (tarn_cuda_make_default_context (NULL, &error));
  g_assert_cmpuint (strlen (error->message), <, 200);
  set_up ();
}

/* A set-user-ID program takes nothing from its user's environment.  Changing the effective group
 * makes the test one for the kernel. */
static void
test_secure (void)
{
  gid_t group = getegid ();

  if (g_test_subprocess ())
    {
      g_assert_cmpint ((int) getauxval (AT_SECURE), ==, 1);
      g_assert_cmpint (open_default (), ==, 0);
      return;
    }
  set_up ();
  if (setegid (65534) != 0 || getgid () == 65534)
    {
      g_test_skip ("only root can change its group");
      return;
    }
  g_assert_cmpint (setegid (group), ==, 0);
  for (guint i = 0; i < 2; i++)
    {
      write_home (".cuda_device", i == 0 ? "secret" : NULL);
      set_or_unset ("CUDA_DEVICE", i == 0 ? NULL : "secret");
      assert_refused (TARN_ERROR_INVALID_ARGUMENT, "'secret'");
      g_assert_cmpint (setegid (65534), ==, 0);
      g_test_trap_subprocess (NULL, 0, 0);
      g_assert_cmpint (setegid (group), ==, 0);
      g_test_trap_assert_passed ();
      g_test_trap_assert_stderr_unmatched ("*secret*");
    }
  set_up ();
}

/* The next one is tried only where nobody has named one. */
static void
test_refusals (void)
{
  set_up ();
  fake->refuse_contexts (0, FAKE_CUDA_DEVICE_UNAVAILABLE);
  fake->refuse_contexts (1, FAKE_CUDA_OUT_OF_MEMORY);
  g_assert_cmpint (open_default (), ==, 2);
  g_setenv ("CUDA_DEVICE", "1", TRUE);
  assert_refused (TARN_ERROR_OUT_OF_MEMORY, "CUDA_DEVICE: device 1: cuDevicePrimaryCtxRetain");
  g_unsetenv ("CUDA_DEVICE");
  fake->refuse_contexts (2, FAKE_CUDA_DEVICE_UNAVAILABLE);
  fake->refuse_contexts (3, FAKE_CUDA_DEVICE_UNAVAILABLE);
  assert_refused (TARN_ERROR_NO_CONTEXT, "device 0: cuDevicePrimaryCtxRetain: CUDA_ERROR");
  assert_refused (TARN_ERROR_NO_CONTEXT, "; device 1: cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF");
  assert_refused (TARN_ERROR_NO_CONTEXT, "; device 3: ");
  set_up ();
}

/* Every call that opening makes, failing in turn, leaves nothing behind. */
static void
test_failures (void)
{
  static const gchar *const calls[]
      = { "cuDeviceGetCount", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent" };

  set_up ();
  g_setenv ("CUDA_DEVICE", "1", TRUE);
  for (gsize i = 0; i < G_N_ELEMENTS (calls); i++)
    {
      g_autoptr (GError) error = NULL;

      fake->fail (calls[i], 1, FALSE, FAKE_CUDA_INVALID_HANDLE);
      g_assert_null (tarn_cuda_make_default_context (NULL, &error));
      g_assert_error (error, TARN_CUDA_ERROR, FAKE_CUDA_INVALID_HANDLE);
      g_assert_nonnull (strstr (error->message, calls[i]));
      g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_CONTEXT), ==, 0);
    }
  fake->fail (NULL, 0, FALSE, 0);
  g_assert_cmpint (open_default (), ==, 1);
  set_up ();
}

static void
test_local_rank (void)
{
  set_up ();
  g_setenv ("PMI_LOCAL_RANK", "1", TRUE);
  g_assert_cmpint (open_default (), ==, 1);
  g_setenv ("SLURM_LOCALID", "2", TRUE);
  g_assert_cmpint (open_default (), ==, 2);
  g_setenv ("MPI_LOCALRANKID", "3", TRUE);
  g_assert_cmpint (open_default (), ==, 3);
  g_setenv ("OMPI_COMM_WORLD_LOCAL_RANK", "5", TRUE);
  g_assert_cmpint (open_default (), ==, 1);
  g_setenv ("OMPI_COMM_WORLD_LOCAL_RANK", "garbage", TRUE);
  g_assert_cmpint (open_default (), ==, 3);
  fake->refuse_contexts (3, FAKE_CUDA_DEVICE_UNAVAILABLE);
  g_assert_cmpint (open_default (), ==, 0);
  g_setenv ("CUDA_DEVICE", "2", TRUE);
  g_assert_cmpint (open_default (), ==, 2);
  set_up ();
}

static void
test_default_device (void)
{
  g_autoptr (GError) error = NULL;
  CUdevice device = -1;

  set_up ();
  g_assert_true (tarn_cuda_get_default_device (3, &device, &error));
  g_assert_cmpint (device, ==, 3);
  g_setenv ("CUDA_DEVICE", "1", TRUE);
  g_assert_true (tarn_cuda_get_default_device (3, &device, &error));
  g_assert_cmpint (device, ==, 1);
  g_setenv ("CUDA_DEVICE", "x", TRUE);
  g_assert_false (tarn_cuda_get_default_device (3, &device, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);
  set_up ();
  g_assert_false (tarn_cuda_get_default_device (4, &device, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NO_DEVICE);
  g_clear_error (&error);
  g_assert_false (tarn_cuda_get_default_device (-1, &device, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_cmpint (device, ==, 1);
  g_assert_cmpuint (fake->get_calls ("cuDevicePrimaryCtxRetain"), ==, 0);
}

static gpointer
initialize (gpointer unused)
{
  g_autoptr (GError) error = NULL;
  CUcontext context = NULL;
  CUdevice device = -1;

  (void) unused;
  for (guint i = 0; i < 2; i++)
    {
      g_assert_true (tarn_cuda_autoinit (&device, &context, &error));
      g_assert_no_error (error);
      g_assert_cmpint (device, ==, 2);
      g_assert_true (cuda_get_current () == context);
      g_assert_cmpuint (fake->get_context_stack_depth (), ==, 1);
    }
  return context;
}

static void
test_autoinit (void)
{
  GThread *threads[4];
  gpointer context;

  set_up ();
  g_setenv ("CUDA_DEVICE", "2", TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("initialize", initialize, NULL);
  context = initialize (NULL);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_assert_true (g_thread_join (threads[i]) == context);
  g_assert_cmpuint (fake->get_primary_references (2), ==, 1);
  g_unsetenv ("CUDA_DEVICE");
}

/* The same error each time, also where it would go well now. */
static void
test_failing_autoinit (void)
{
  if (!g_test_subprocess ())
    {
      g_test_trap_subprocess (NULL, 0, 0);
      g_test_trap_assert_passed ();
      return;
    }
  set_up ();
  g_setenv ("CUDA_DEVICE", "x", TRUE);
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_false (tarn_cuda_autoinit (NULL, NULL, &error));
      g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
      g_unsetenv ("CUDA_DEVICE");
    }
}

/* Threads that all wait for the last of them, so that none is done before another starts. */
#define N_FAILING 8

static pthread_barrier_t start;

/* The error's message, which is the caller's; nothing else is stored. */
static gpointer
fail_to_initialize (gpointer unused)
{
  g_autoptr (GError) error = NULL;
  CUcontext context = NULL;
  CUdevice device = -1;

  (void) unused;
  pthread_barrier_wait (&start);
  g_assert_false (tarn_cuda_autoinit (&device, &context, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NO_CONTEXT);
  g_assert_cmpint (device, ==, -1);
  g_assert_null (context);
  g_assert_null (cuda_get_current ());
  return g_strdup (error->message);
}

/* One of them tries each device once; the others wait for it, and are told the same. */
static void
test_failing_autoinit_threads (void)
{
  GThread *threads[N_FAILING];
  g_autofree gchar *message = NULL;

  if (!g_test_subprocess ())
    {
      g_test_trap_subprocess (NULL, 0, 0);
      g_test_trap_assert_passed ();
      return;
    }
  set_up ();
  for (CUdevice i = 0; i < N_DEVICES; i++)
    fake->refuse_contexts (i, FAKE_CUDA_DEVICE_UNAVAILABLE);
  pthread_barrier_init (&start, NULL, N_FAILING);
  for (guint i = 0; i < N_FAILING; i++)
    threads[i] = g_thread_new ("fail", fail_to_initialize, NULL);
  for (guint i = 0; i < N_FAILING; i++)
    {
      g_autofree gchar *its = g_thread_join (threads[i]);

      if (message == NULL)
        message = g_strdup (its);
      g_assert_cmpstr (its, ==, message);
    }
  pthread_barrier_destroy (&start);
  g_assert_cmpuint (fake->get_calls ("cuDevicePrimaryCtxRetain"), ==, N_DEVICES);
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_CONTEXT), ==, 0);
}

static void
test_no_device (void)
{
  g_autoptr (GError) error = NULL;

  if (!g_test_subprocess ())
    {
      g_test_trap_subprocess (NULL, 0, 0);
      g_test_trap_assert_passed ();
      return;
    }
  set_or_unset ("CUDA_DEVICE", "0");
  fake->set_device_count (0);
  g_assert_null (tarn_cuda_make_default_context (NULL, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NO_DEVICE);
  tarn_cuda_context_release (NULL);
}

int
main (int argc, char **argv)
{
  g_autofree gchar *home = g_dir_make_tmp ("tarn-test-XXXXXX", NULL);
  gint status;

  g_setenv ("HOME", home, TRUE);
  g_setenv ("TARN_TESTING_CUDA_DEVICES", G_STRINGIFY (N_DEVICES), TRUE);
  fake = tarn_fake_cuda ();
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda/default/variable", test_variable);
  g_test_add_func ("/cuda/default/file", test_file);
  g_test_add_func ("/cuda/default/odd-files", test_odd_files);
  g_test_add_func ("/cuda/default/odd-variable", test_odd_variable);
  g_test_add_func ("/cuda/default/secure", test_secure);
  g_test_add_func ("/cuda/default/refusals", test_refusals);
  g_test_add_func ("/cuda/default/failures", test_failures);
  g_test_add_func ("/cuda/default/local-rank", test_local_rank);
  g_test_add_func ("/cuda/default/device", test_default_device);
  g_test_add_func ("/cuda/default/autoinit", test_autoinit);
  g_test_add_func ("/cuda/default/failing-autoinit", test_failing_autoinit);
  g_test_add_func ("/cuda/default/failing-autoinit-threads", test_failing_autoinit_threads);
  g_test_add_func ("/cuda/default/no-device", test_no_device);
  status = g_test_run ();
  g_rmdir (home);
  return status;
}
