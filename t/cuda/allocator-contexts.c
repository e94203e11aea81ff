/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The contexts of CUDA's allocators, the same tests on a real driver and on the fake one: which one
 * is current around a call, primary ones, and those that are destroyed before their memory is
 * freed. */

#include "driver.h"

static const TarnTestingCuda *fake;

static gpointer
use_without_context (gpointer data)
{
  TarnAllocator *allocator = data;
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_allocator_allocate (allocator, 1000, &error);

  g_assert_no_error (error);
  g_assert_null (cuda_get_current ());
  return block;
}

/* Whatever is current where memory is allocated or freed is so afterwards. */
static void
test_current (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TarnAllocator) allocator = tarn_cuda_device_allocator_new (NULL, &error);
  CUcontext other = cuda_context_new (test->device), popped;
  TarnBlock *block, *second;

  (void) unused;
  g_assert_no_error (error);
  g_assert_cmpuint (cuda_get_driver ()->cuCtxPushCurrent (other), ==, 0);
  block = tarn_allocator_allocate (allocator, 1000, &error);
  g_assert_no_error (error);
  g_assert_true (cuda_get_current () == other);
  second = g_thread_join (g_thread_new ("other", use_without_context, allocator));
  tarn_block_free (block);
  tarn_block_free (second);
  g_assert_true (cuda_get_current () == other);
  g_assert_cmpuint (cuda_get_driver ()->cuCtxPopCurrent (&popped), ==, 0);
  cuda_context_destroy (other);
  if (fake != NULL)
    {
      g_assert_cmpuint (fake->get_strangers_freed (NULL, 0), ==, 0);
      g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_DEVICE_MEMORY), ==, 0);
    }
}

static void
test_no_context (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;
  CUcontext popped;

  (void) unused;
  g_assert_cmpuint (cuda_get_driver ()->cuCtxPopCurrent (&popped), ==, 0);
  g_assert_null (tarn_cuda_device_allocator_new (NULL, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NO_CONTEXT);
  g_assert_cmpuint (cuda_get_driver ()->cuCtxPushCurrent (test->context), ==, 0);
}

/* An allocator keeps a primary context, and no other. */
static void
test_primary (const TarnCudaTest *test, gconstpointer unused)
{
  const TarnCudaDriver *driver = cuda_get_driver ();
  g_autoptr (GError) error = NULL;
  TarnAllocator *allocator = tarn_cuda_device_allocator_new (NULL, &error);
  CUcontext primary;
  unsigned int flags;
  int is_active;
  TarnBlock *block;

  (void) unused;
  g_assert_no_error (error);
  driver->cuDevicePrimaryCtxGetState (test->device, &flags, &is_active);
  g_assert_false (is_active); /* the question has not made it active */
  tarn_allocator_unref (allocator);

  g_assert_cmpuint (driver->cuDevicePrimaryCtxRetain (&primary, test->device), ==, 0);
  allocator = tarn_cuda_device_allocator_new (test->context, &error);
  g_assert_no_error (error);
  if (fake != NULL)
    g_assert_cmpuint (fake->get_primary_references (test->device), ==, 1);
  tarn_allocator_unref (allocator);
  allocator = tarn_cuda_device_allocator_new (primary, &error);
  g_assert_no_error (error);
  block = tarn_allocator_allocate (allocator, 1000, &error);
  g_assert_no_error (error);
  tarn_allocator_unref (allocator);
  driver->cuDevicePrimaryCtxRelease (test->device);
  driver->cuDevicePrimaryCtxGetState (test->device, &flags, &is_active);
  g_assert_true (is_active);
  tarn_block_free (block);
  driver->cuDevicePrimaryCtxGetState (test->device, &flags, &is_active);
  g_assert_false (is_active);
  if (fake != NULL)
    g_assert_cmpuint (fake->get_primary_references (test->device), ==, 0);
}

/* FALSE: the test is skipped, and the context is gone. */
static gboolean
can_tell_contexts (CUcontext doomed)
{
  if (cuda_can_tell_contexts ())
    return TRUE;
  cuda_context_destroy (doomed);
  return FALSE;
}

/* After the context of a block was destroyed, nobody else's memory is freed in its place. */
static void
test_lost (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;
  CUcontext doomed = cuda_context_new (test->device), next;
  g_autoptr (TarnAllocator) allocator = tarn_cuda_device_allocator_new (doomed, &error);
  g_autoptr (TarnAllocator) heir = NULL;
  TarnBlock *first, *second, *stranger;

  (void) unused;
  g_assert_no_error (error);
  if (!can_tell_contexts (doomed))
    return;
  first = tarn_allocator_allocate (allocator, 1000, &error);
  second = tarn_allocator_allocate (allocator, 2000, &error);
  g_assert_no_error (error);
  cuda_context_destroy (doomed);
  next = cuda_context_new (test->device);
  heir = tarn_cuda_device_allocator_new (next, &error);
  stranger = tarn_allocator_allocate (heir, 1000, &error);
  g_assert_no_error (error);
  g_test_message (
      "the next context has %s address, its memory %s", next == doomed ? "the same" : "another",
      tarn_cuda_block_get_device_pointer (stranger) == tarn_cuda_block_get_device_pointer (first)
          ? "the same"
          : "another");

  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_MESSAGE,
                         "*1000 bytes*context was destroyed*once*");
  tarn_block_free (first);
  g_test_assert_expected_messages ();
  tarn_block_free (second); /* and no message */
  g_assert_cmpuint (tarn_cuda_allocator_get_lost_bytes (allocator), ==, 3000);
  g_assert_null (tarn_allocator_allocate (allocator, 1000, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST);
  if (fake != NULL)
    {
      g_assert_cmpuint (fake->get_strangers_freed (NULL, 0), ==, 0);
      g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_DEVICE_MEMORY), ==, 1);
    }
  tarn_block_free (stranger);
  g_assert_cmpuint (tarn_cuda_allocator_get_lost_bytes (heir), ==, 0);
  cuda_context_destroy (next);
}

/* A pool that finds out hands nothing out any more. */
static void
test_lost_pool (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;
  CUcontext doomed = cuda_context_new (test->device);
  g_autoptr (TarnAllocator) allocator = tarn_cuda_device_allocator_new (doomed, &error);
  g_autoptr (TarnPool) pool = NULL;

  (void) unused;
  g_assert_no_error (error);
  if (!can_tell_contexts (doomed))
    return;
  pool = tarn_pool_new (allocator, NULL, &error);
  tarn_block_free (tarn_pool_allocate (pool, 1000, &error));
  g_assert_no_error (error);
  cuda_context_destroy (doomed);
  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_MESSAGE, "*1023 bytes*context was destroyed*");
  g_assert_null (tarn_pool_allocate (pool, 5000, &error));
  g_test_assert_expected_messages ();
  g_assert_error (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST);
  g_clear_error (&error);
  g_assert_cmpuint (tarn_pool_get_held_blocks (pool), ==, 0);
  g_assert_null (tarn_pool_allocate (pool, 1000, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST);
  g_assert_cmpuint (tarn_cuda_allocator_get_lost_bytes (allocator), ==, 1023);
}

int
main (int argc, char **argv)
{
  fake = cuda_get_fake ();
  g_test_init (&argc, &argv, NULL);
  tarn_cuda_test_add ("contexts/current", test_current, NULL);
  tarn_cuda_test_add ("contexts/none", test_no_context, NULL);
  tarn_cuda_test_add ("contexts/primary", test_primary, NULL);
  tarn_cuda_test_add ("contexts/lost", test_lost, NULL);
  tarn_cuda_test_add ("contexts/lost-pool", test_lost_pool, NULL);
  return g_test_run ();
}
