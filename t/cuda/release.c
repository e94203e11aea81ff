/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Giving a default context back: once, by whoever has it, and whatever became of it meanwhile.  On
 * the fake driver with two devices. */

#include <tarn/cuda.h>

#include "driver.h"

static const TarnTestingCuda *fake;

static CUcontext
open_default (void)
{
  g_autoptr (GError) error = NULL;
  CUdevice device = -1;
  CUcontext context = tarn_cuda_make_default_context (&device, &error);

  g_assert_no_error (error);
  g_assert_cmpint (device, ==, 0);
  g_assert_true (cuda_get_current () == context);
  return context;
}

static void
assert_all_gone (void)
{
  g_assert_cmpuint (fake->get_primary_references (0), ==, 0);
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_CONTEXT), ==, 0);
}

/* It is refused, and no driver call is made for it. */
static void
assert_not_released (CUcontext context)
{
  guint calls = fake->get_calls (NULL);

  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_CRITICAL, "*is not from*or was released already");
  tarn_cuda_context_release (context);
  g_test_assert_expected_messages ();
  g_assert_cmpuint (fake->get_calls (NULL), ==, calls);
}

static void
test_twice (void)
{
  CUcontext context = open_default ();

  g_assert_true (open_default () == context);
  tarn_cuda_context_release (context);
  g_assert_cmpuint (fake->get_primary_references (0), ==, 1);
  tarn_cuda_context_release (context);
  assert_all_gone ();
  g_assert_null (cuda_get_current ());
  assert_not_released (context);
}

/* Somebody else's, and the one that every caller of autoinit shares. */
static void
test_strangers (void)
{
  const TarnCudaDriver *driver = _tarn_cuda_get_driver (NULL);
  CUcontext own, primary;

  g_assert_cmpuint (driver->cuCtxCreate (&own, 0, 1), ==, 0);
  assert_not_released (own);
  g_assert_cmpuint (driver->cuDevicePrimaryCtxRetain (&primary, 0), ==, 0);
  assert_not_released (primary);
  g_assert_cmpuint (fake->get_primary_references (0), ==, 1);
  g_assert_true (cuda_get_current () == own);
  g_assert_cmpuint (driver->cuDevicePrimaryCtxRelease (0), ==, 0);
  g_assert_cmpuint (driver->cuCtxDestroy (own), ==, 0);
  assert_all_gone ();
}

/* What is current in its place stays so. */
static void
test_another_current (void)
{
  const TarnCudaDriver *driver = _tarn_cuda_get_driver (NULL);
  CUcontext context = open_default (), own;

  g_assert_cmpuint (driver->cuCtxCreate (&own, 0, 1), ==, 0);
  tarn_cuda_context_release (context);
  g_assert_true (cuda_get_current () == own);
  g_assert_cmpuint (fake->get_primary_references (0), ==, 0);
  g_assert_cmpuint (driver->cuCtxDestroy (own), ==, 0);
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_CONTEXT), ==, 0);
  _tarn_cuda_get_driver (NULL)->cuCtxPopCurrent (&own);
}

static gpointer
release (gpointer context)
{
  tarn_cuda_context_release (context);
  g_assert_null (cuda_get_current ());
  return NULL;
}

static void
test_another_thread (void)
{
  CUcontext context = open_default (), popped;

  g_thread_join (g_thread_new ("release", release, context));
  assert_all_gone ();
  g_assert_cmpuint (_tarn_cuda_get_driver (NULL)->cuCtxPopCurrent (&popped), ==, 0);
}

#define N_THREADS 8
#define N_ROUNDS 200

static gpointer
open_and_release (gpointer unused)
{
  (void) unused;
  for (guint i = 0; i < N_ROUNDS; i++)
    tarn_cuda_context_release (open_default ());
  g_assert_cmpuint (fake->get_context_stack_depth (), ==, 0);
  return NULL;
}

static void
test_threads (void)
{
  GThread *threads[N_THREADS];

  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("release", open_and_release, NULL);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  assert_all_gone ();
}

static void
reset_device (void)
{
  g_assert_cmpuint (cuDevicePrimaryCtxReset_v2 (0), ==, 0);
}

/* A reset takes the context and leaves the references.  What is on top of the stack then is not
 * touched: the driver would crash. */
static void
test_reset (void)
{
  CUcontext context = open_default ();

  reset_device ();
  tarn_cuda_context_release (context);
  g_assert_cmpuint (fake->get_calls ("cuCtxPopCurrent"), ==, 0);
  assert_all_gone ();
  assert_not_released (context);
}

/* A new one has the handle of the one before it; both are released, each once. */
static void
test_anew_after_reset (void)
{
  CUcontext before = open_default (), after;

  reset_device ();
  after = open_default ();
  g_assert_cmpuint (fake->get_primary_references (0), ==, 2);
  tarn_cuda_context_release (after);
  g_assert_cmpuint (fake->get_primary_references (0), ==, 1);
  tarn_cuda_context_release (before);
  assert_all_gone ();
}

static void
expect_message (const gchar *pattern)
{
  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_MESSAGE, pattern);
}

/* Each call that fails is told of, and the next one is made all the same. */
static void
test_failures (void)
{
  CUcontext context = open_default (), popped;

  fake->fail ("cuCtxPopCurrent", 1, FALSE, FAKE_CUDA_INVALID_HANDLE);
  expect_message ("cuCtxPopCurrent: CUDA_ERROR_INVALID_HANDLE (400): *");
  tarn_cuda_context_release (context);
  g_test_assert_expected_messages ();
  assert_all_gone ();
  g_assert_cmpuint (_tarn_cuda_get_driver (NULL)->cuCtxPopCurrent (&popped), ==, 0);

  context = open_default ();
  fake->fail ("cuDevicePrimaryCtxRelease", 1, FALSE, FAKE_CUDA_INVALID_HANDLE);
  expect_message ("cuDevicePrimaryCtxRelease: CUDA_ERROR_INVALID_HANDLE (400): *");
  tarn_cuda_context_release (context);
  g_test_assert_expected_messages ();
  g_assert_null (cuda_get_current ());
  g_assert_cmpuint (fake->get_primary_references (0), ==, 1);
  assert_not_released (context);
  g_assert_cmpuint (_tarn_cuda_get_driver (NULL)->cuDevicePrimaryCtxRelease (0), ==, 0);
}

/* In a process of its own, because there is one such context for each process. */
static void
test_autoinit_after_reset (void)
{
  g_autoptr (GError) error = NULL;
  CUcontext context = NULL;

  if (!g_test_subprocess ())
    {
      g_test_trap_subprocess (NULL, 0, 0);
      g_test_trap_assert_passed ();
      return;
    }
  g_assert_true (tarn_cuda_autoinit (NULL, &context, NULL));
  assert_not_released (context);
  reset_device ();
  g_assert_false (tarn_cuda_autoinit (NULL, NULL, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST);
}

static gpointer
call (gpointer test)
{
  ((GTestFunc) test) ();
  return NULL;
}

/* In a thread of its own, since a reset leaves a dead context to it. */
static void
run (gconstpointer test)
{
  fake->reset ();
  g_thread_join (g_thread_new ("test", call, (gpointer) test));
}

static void
add (const gchar *name, GTestFunc test)
{
  g_autofree gchar *path = g_strdup_printf ("/cuda/release/%s", name);

  g_test_add_data_func (path, (gconstpointer) test, run);
}

int
main (int argc, char **argv)
{
  g_setenv ("TARN_TESTING_CUDA_DEVICES", "2", TRUE);
  g_setenv ("CUDA_DEVICE", "0", TRUE);
  fake = tarn_fake_cuda ();
  g_test_init (&argc, &argv, NULL);
  add ("twice", test_twice);
  add ("strangers", test_strangers);
  add ("another-current", test_another_current);
  add ("another-thread", test_another_thread);
  add ("threads", test_threads);
  add ("reset", test_reset);
  add ("anew-after-reset", test_anew_after_reset);
  add ("failures", test_failures);
  add ("autoinit-after-reset", test_autoinit_after_reset);
  return g_test_run ();
}
