/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The pool in one line: driver, heap and pool. */

#include "driver.h"

#define MIB ((gsize) 1 << 20)
#define N_BLOCKS 12
#define N_ROUNDS 600

static const TarnTestingCuda *fake;

static void
assert_nothing_is_alive (void)
{
  if (fake == NULL)
    return;
  for (TarnTestingCudaKind kind = TARN_TESTING_CUDA_ADDRESSES; kind <= TARN_TESTING_CUDA_MAPPING;
       kind++)
    g_assert_cmpuint (fake->get_live (kind), ==, 0);
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_DEVICE_MEMORY), ==, 0);
}

static TarnPool *
pool_new (const TarnCudaTest *test)
{
  g_autoptr (GError) error = NULL;
  TarnPool *pool;

  if (fake != NULL)
    fake->reset ();
  pool = tarn_cuda_pool_new (test->context, NULL, &error);
  g_assert_no_error (error);
  return pool;
}

/* Sizes that never come again: blocks do not overlap, and little more is managed than is in use. */
static void
test_sizes (const TarnCudaTest *test, gconstpointer unused)
{
  TarnPool *pool = pool_new (test);
  TarnBlock *blocks[N_BLOCKS] = { NULL };
  gsize active_bytes = 0;

  (void) unused;
  for (guint i = 0; i < N_ROUNDS; i++)
    {
      guint slot = (guint) g_random_int_range (0, N_BLOCKS);
      gsize size = (gsize) g_random_int_range (1, 4 * MIB);
      g_autoptr (GError) error = NULL;
      CUdeviceptr from;

      tarn_block_free (g_steal_pointer (&blocks[slot]));
      blocks[slot] = tarn_cuda_pool_allocate (pool, size, NULL, &error);
      g_assert_no_error (error);
      from = tarn_cuda_block_get_device_pointer (blocks[slot]);
      g_assert_cmpuint (from % 512, ==, 0);
      for (guint j = 0; j < N_BLOCKS; j++)
        if (j != slot && blocks[j] != NULL)
          {
            CUdeviceptr other = tarn_cuda_block_get_device_pointer (blocks[j]);

            g_assert_true (from + size <= other || other + tarn_block_get_size (blocks[j]) <= from);
          }
      active_bytes = MAX (active_bytes, tarn_pool_get_active_bytes (pool));
      g_assert_cmpuint (tarn_pool_get_managed_bytes (pool), <=, active_bytes + 13 * MIB);
    }
  for (guint i = 0; i < N_BLOCKS; i++)
    tarn_block_free (blocks[i]);
  tarn_pool_unref (pool);
  assert_nothing_is_alive ();
}

/* Options are the pool's, and what they say that is wrong is said. */
static void
test_options (const TarnCudaTest *test, gconstpointer unused)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (GError) error = NULL;
  TarnPool *pool;

  (void) unused;
  if (fake != NULL)
    fake->reset ();
  options.name = "weights";
  options.limit_bytes = MIB;
  pool = tarn_cuda_pool_new (test->context, &options, &error);
  g_assert_no_error (error);
  g_assert_null (tarn_pool_allocate (pool, 2 * MIB, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
  g_assert_nonnull (strstr (error->message, "'weights'"));
  g_clear_error (&error);
  tarn_pool_unref (pool);
  options.leading_bits_in_bin_id = 99;
  g_assert_null (tarn_cuda_pool_new (test->context, &options, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  assert_nothing_is_alive ();
}

/* No context is the current one, and the pool keeps that alive. */
static void
test_current (const TarnCudaTest *test, gconstpointer unused)
{
  const TarnCudaDriver *driver = cuda_get_driver ();
  g_autoptr (GError) error = NULL;
  CUcontext primary, popped;
  unsigned int flags;
  int is_active;
  TarnPool *pool;

  (void) unused;
  if (fake != NULL)
    fake->reset ();
  g_assert_cmpuint (driver->cuDevicePrimaryCtxRetain (&primary, test->device), ==, 0);
  g_assert_cmpuint (driver->cuCtxPushCurrent (primary), ==, 0);
  pool = tarn_cuda_pool_new (NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (driver->cuCtxPopCurrent (&popped), ==, 0);
  g_assert_cmpuint (driver->cuDevicePrimaryCtxRelease (test->device), ==, 0);
  tarn_block_free (tarn_cuda_pool_allocate (pool, 5000, NULL, &error));
  g_assert_no_error (error);
  driver->cuDevicePrimaryCtxGetState (test->device, &flags, &is_active);
  g_assert_true (is_active);
  tarn_pool_unref (pool);
  driver->cuDevicePrimaryCtxGetState (test->device, &flags, &is_active);
  g_assert_false (is_active);
  assert_nothing_is_alive ();
}

static void
test_no_context (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;
  CUcontext popped;

  (void) unused;
  g_assert_cmpuint (cuda_get_driver ()->cuCtxPopCurrent (&popped), ==, 0);
  g_assert_null (tarn_cuda_pool_new (NULL, NULL, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NO_CONTEXT);
  g_assert_cmpuint (cuda_get_driver ()->cuCtxPushCurrent (test->context), ==, 0);
}

/* Each call of the driver fails in turn: an error that names it, or a way round it, and nothing is
 * left. */
static void
test_failures (const TarnCudaTest *test, gconstpointer unused)
{
  guint failures = 0;

  (void) unused;
  tarn_pool_unref (pool_new (test)); /* so that virtual memory is known to work */
  for (guint nth = 1;; nth++)
    {
      g_autoptr (GError) error = NULL;
      TarnBlock *block = NULL;
      const gchar *failed;
      gboolean has_failed;
      TarnPool *pool;

      fake->reset ();
      fake->fail (NULL, nth, FALSE, FAKE_CUDA_OUT_OF_MEMORY);
      pool = tarn_cuda_pool_new (test->context, NULL, &error);
      if (pool != NULL)
        block = tarn_cuda_pool_allocate (pool, 5000, NULL, &error);
      failed = fake->get_failed ();
      has_failed = failed != NULL;
      fake->fail (NULL, 0, FALSE, 0);
      g_assert_true (has_failed || block != NULL);
      g_assert_true ((block == NULL) == (error != NULL));
      if (error != NULL)
        cuda_assert_blamed (error, failed, FAKE_CUDA_OUT_OF_MEMORY, FALSE);
      failures += has_failed;
      tarn_block_free (block);
      tarn_pool_unref (pool);
      assert_nothing_is_alive ();
      if (!has_failed)
        break;
    }
  g_assert_cmpuint (failures, >, 5);
  fake->reset ();
}

/* The device has virtual memory by its attribute, but one call always fails: then the pool uses
 * plain memory.  A message says so once, with the error of the driver. */
static void
check_fallback (CUcontext context, const gchar *call, guint status, const gchar *message)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block;
  TarnPool *pool;

  fake->reset ();
  fake->fail (call, 1, TRUE, status);
  if (message != NULL)
    g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_MESSAGE, message);
  pool = tarn_cuda_pool_new (context, NULL, &error);
  g_assert_no_error (error);
  g_test_assert_expected_messages ();
  block = tarn_cuda_pool_allocate (pool, 5000, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_DEVICE_MEMORY), ==, 1);
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_MAPPING), ==, 0);
  tarn_block_free (block);
  tarn_pool_unref (pool);
  assert_nothing_is_alive ();
}

/* Runs the test again in a process of its own, which knows nothing of the device yet.  TRUE: it
 * did; FALSE: this is that process. */
static gboolean
runs_alone (void)
{
  if (g_test_subprocess ())
    return FALSE;
  g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
  g_test_trap_assert_passed ();
  return TRUE;
}

static void
test_fallback (const TarnCudaTest *test, gconstpointer unused)
{
  static const gchar *const functions[]
      = { "cuMemCreate", "cuMemSetAccess", "cuMemAddressReserve", "cuMemMap" };
  static const guint statuses[]
      = { FAKE_CUDA_NOT_SUPPORTED, FAKE_CUDA_INVALID_VALUE, FAKE_CUDA_OUT_OF_MEMORY };
  const gchar *message = "cuMemCreate: CUDA_ERROR_NOT_SUPPORTED (801) for 2097152 bytes: *plain*";

  (void) unused;
  if (cuda_get_driver ()->cuMemCreate == NULL)
    {
      g_test_skip ("there is no virtual memory");
      return;
    }
  if (runs_alone ())
    return;
  for (guint i = 0; i < G_N_ELEMENTS (functions); i++)
    for (guint j = 0; j < G_N_ELEMENTS (statuses); j++)
      {
        check_fallback (test->context, functions[i], statuses[j], message);
        message = NULL;
      }
  fake->reset ();
}

/* TARN_CUDA_PLAIN asks for plain memory. */
static void
test_plain (const TarnCudaTest *test, gconstpointer unused)
{
  TarnPool *pool;
  TarnBlock *block;

  (void) unused;
  g_setenv ("TARN_CUDA_PLAIN", "1", TRUE);
  if (runs_alone ())
    {
      g_unsetenv ("TARN_CUDA_PLAIN");
      return;
    }
  pool = pool_new (test);
  block = tarn_cuda_pool_allocate (pool, 5000, NULL, NULL);
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_DEVICE_MEMORY), ==, 1);
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_ADDRESSES), ==, 0);
  tarn_block_free (block);
  tarn_pool_unref (pool);
  assert_nothing_is_alive ();
}

/* The driver says what the device has, and what is free; memory of the host has no such bound. */
static void
test_budget (const TarnCudaTest *test, gconstpointer unused)
{
  TarnPool *pool = pool_new (test);
  g_autoptr (GError) error = NULL;
  TarnBudget budget = TARN_BUDGET_INIT;
  TarnBlock *block = tarn_cuda_pool_allocate (pool, 5 * MIB, NULL, &error);

  (void) unused;
  g_assert_no_error (error);
  g_assert_true (tarn_pool_get_budget (pool, &budget, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (budget.used_bytes, ==, 5 * MIB);
  g_assert_cmpuint (budget.taken_bytes, >=, 5 * MIB);
  g_assert_cmpuint (budget.device_bytes, <, G_MAXUINT64);
  g_assert_cmpuint (budget.free_bytes, <, budget.device_bytes);
  g_assert_cmpuint (budget.budget_bytes, ==, budget.free_bytes + budget.taken_bytes);
  if (fake != NULL)
    {
      fake->fail ("cuMemGetInfo", 1, FALSE, FAKE_CUDA_INVALID_VALUE);
      g_assert_false (tarn_pool_get_budget (pool, &budget, &error));
      g_assert_error (error, TARN_CUDA_ERROR, FAKE_CUDA_INVALID_VALUE);
      fake->fail (NULL, 0, FALSE, 0);
    }
  tarn_block_free (block);
  tarn_pool_unref (pool);
}

static void
test_host_budget (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (TarnAllocator) allocator = tarn_cuda_host_allocator_new (test->context, 0, NULL);
  g_autoptr (TarnPool) pool = tarn_pool_new (allocator, NULL, NULL);
  TarnBudget budget = TARN_BUDGET_INIT;

  (void) unused;
  g_assert_true (tarn_pool_get_budget (pool, &budget, NULL));
  g_assert_cmpuint (budget.device_bytes, ==, G_MAXUINT64);
  g_assert_cmpuint (budget.budget_bytes, ==, G_MAXUINT64);
}

int
main (int argc, char **argv)
{
  fake = cuda_get_fake ();
  g_test_init (&argc, &argv, NULL);
  tarn_cuda_test_add ("pool/sizes", test_sizes, NULL);
  tarn_cuda_test_add ("pool/options", test_options, NULL);
  tarn_cuda_test_add ("pool/current", test_current, NULL);
  tarn_cuda_test_add ("pool/no-context", test_no_context, NULL);
  tarn_cuda_test_add ("pool/budget", test_budget, NULL);
  tarn_cuda_test_add ("pool/host-budget", test_host_budget, NULL);
  if (fake != NULL)
    {
      tarn_cuda_test_add ("pool/failures", test_failures, NULL);
      tarn_cuda_test_add ("pool/fallback", test_fallback, NULL);
      tarn_cuda_test_add ("pool/plain", test_plain, NULL);
    }
  return g_test_run ();
}
