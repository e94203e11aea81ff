/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * CUDA's memory on each device, the same tests on a real driver and on the fake one, which is asked
 * for more: it runs out of memory without harm, has calls fail, and keeps a ledger. */

#include <dlfcn.h>
#include <string.h>

#include "driver.h"
#include "lib/pool-fixture.h"

static const TarnTestingCuda *fake;

/* The kinds of memory as backends of the conformance tests */

typedef struct
{
  const TarnCudaTest *test;
  TarnTestingCudaKind kind;
  gboolean is_async; /* of a pool of CUDA's */
  CUmemoryPool pool; /* of which one; NULL: the device's */
} State;

static gpointer
find_optional (const gchar *symbol)
{
  gpointer library = dlopen ("libcuda.so.1", RTLD_NOW);

  g_assert_nonnull (library);
  return dlsym (library, symbol);
}

static gpointer
open_kind (gconstpointer test, TarnTestingCudaKind kind)
{
  State *state = g_new (State, 1);

  *state = (State){ test, kind, FALSE, NULL };
  if (fake != NULL)
    fake->reset ();
  return state;
}

static gpointer
open_device (gconstpointer test, gchar **reason)
{
  (void) reason;
  return open_kind (test, TARN_TESTING_CUDA_DEVICE_MEMORY);
}

static gpointer
open_host (gconstpointer test, gchar **reason)
{
  (void) reason;
  return open_kind (test, TARN_TESTING_CUDA_HOST_MEMORY);
}

static gpointer
open_managed (gconstpointer test, gchar **reason)
{
  (void) reason;
  return open_kind (test, TARN_TESTING_CUDA_MANAGED_MEMORY);
}

static gboolean
has_pools (CUdevice device)
{
  int value = 0;

  if (find_optional ("cuMemAllocAsync") == NULL)
    return FALSE;
  g_assert_cmpuint (cuda_get_driver ()->cuDeviceGetAttribute (
                        &value, TARN_CUDA_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device),
                    ==, 0);
  return value != 0;
}

static gpointer
open_async (gconstpointer test, gchar **reason)
{
  State *state;

  if (!has_pools (((const TarnCudaTest *) test)->device))
    {
      *reason = g_strdup ("there are no memory pools of CUDA's");
      return NULL;
    }
  state = open_kind (test, TARN_TESTING_CUDA_DEVICE_MEMORY);
  state->is_async = TRUE;
  return state;
}

static gpointer
open_async_pool (gconstpointer test, gchar **reason)
{
  unsigned int (*create) (CUmemoryPool *, const CUmemPoolProps *);
  State *state = open_async (test, reason);
  CUmemPoolProps props = { .allocType = 1, .location = { .type = 1 } };

  if (state == NULL)
    return NULL;
  *(gpointer *) &create = find_optional ("cuMemPoolCreate");
  props.location.id = state->test->device;
  g_assert_cmpuint (create (&state->pool, &props), ==, 0);
  return state;
}

static void
destroy_pool (CUmemoryPool pool)
{
  unsigned int (*get_attribute) (CUmemoryPool, unsigned int, void *);
  unsigned int (*destroy) (CUmemoryPool);
  guint64 used = 1;

  *(gpointer *) &get_attribute = find_optional ("cuMemPoolGetAttribute");
  g_assert_cmpuint (get_attribute (pool, 7 /* CU_MEMPOOL_ATTR_USED_MEM_CURRENT */, &used), ==, 0);
  g_assert_cmpuint (used, ==, 0);
  *(gpointer *) &destroy = find_optional ("cuMemPoolDestroy");
  g_assert_cmpuint (destroy (pool), ==, 0);
}

static void
close_state (gpointer data)
{
  State *state = data;

  if (state->pool != NULL)
    destroy_pool (state->pool);
  g_assert_true (cuda_get_current () == state->test->context);
  if (fake != NULL)
    {
      g_assert_cmpuint (fake->get_live (state->kind), ==, 0);
      g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_STREAM), ==, 0);
      g_assert_cmpuint (fake->get_context_stack_depth (), ==, 1);
      g_assert_cmpuint (fake->get_strangers_freed (NULL, 0), ==, 0);
    }
  g_free (state);
}

static TarnAllocator *
allocator_new (gpointer data, GError **error)
{
  State *state = data;

  if (state->is_async)
    return tarn_cuda_async_allocator_new (NULL, state->pool, error);
  switch (state->kind)
    {
    case TARN_TESTING_CUDA_HOST_MEMORY:
      return tarn_cuda_host_allocator_new (state->test->context, 0, error);
    case TARN_TESTING_CUDA_MANAGED_MEMORY:
      return tarn_cuda_managed_allocator_new (NULL, 0, error);
    default:
      return tarn_cuda_device_allocator_new (NULL, error);
    }
}

static void
set_budget (gpointer data, guint64 bytes)
{
  fake->set_budget (((State *) data)->test->device, bytes);
}

static void
fail_allocation (gpointer data, guint nth, gboolean for_ever)
{
  static const gchar *const functions[] = {
    [TARN_TESTING_CUDA_DEVICE_MEMORY] = "cuMemAlloc",
    [TARN_TESTING_CUDA_HOST_MEMORY] = "cuMemHostAlloc",
    [TARN_TESTING_CUDA_MANAGED_MEMORY] = "cuMemAllocManaged",
  };

  const State *state = data;
  const gchar *function = functions[state->kind];

  if (state->is_async)
    function = state->pool != NULL ? "cuMemAllocFromPoolAsync" : "cuMemAllocAsync";
  fake->fail (function, nth, for_ever, FAKE_CUDA_OUT_OF_MEMORY);
}

static gboolean
stop_failing (gpointer unused)
{
  gboolean failed = fake->get_failed () != NULL;

  (void) unused;
  fake->fail (NULL, 0, FALSE, 0);
  return failed;
}

static guint
live (gpointer data)
{
  return fake->get_live (((State *) data)->kind);
}

static void
run_conformance (const TarnCudaTest *test, gconstpointer data)
{
  conformance_run (data, test);
}

static void
add_conformance (const gchar *path, gconstpointer test)
{
  tarn_cuda_test_add (path, run_conformance, test);
}

static void
add_backends (void)
{
  static Backend backends[] = {
    { .open = open_device, .set_budget = set_budget },
    { .open = open_host },
    { .open = open_managed, .set_budget = set_budget },
    { .open = open_async, .set_budget = set_budget },
    { .open = open_async_pool, .set_budget = set_budget },
  };
  static const gchar *const names[] = { "device", "host", "managed", "async", "async-pool" };
  static const gchar *const with_heaps[]
      = { "device-heap", "host-heap", "managed-heap", "async-heap", "async-pool-heap" };

  for (gsize i = 0; i < G_N_ELEMENTS (backends); i++)
    {
      backends[i].add = add_conformance;
      backends[i].close = close_state;
      backends[i].allocator_new = allocator_new;
      backends[i].fail = fake != NULL ? fail_allocation : NULL;
      backends[i].stop_failing = stop_failing;
      backends[i].live = fake != NULL ? live : NULL;
      if (fake == NULL)
        backends[i].set_budget = NULL;
      conformance_add (names[i], &backends[i]);
      conformance_add_over_heap (with_heaps[i], &backends[i]);
    }
}

/* With calls that fail, on the fake driver */

static gboolean
use_everything (CUcontext context, GError **error)
{
  g_autoptr (TarnAllocator) allocator = tarn_cuda_device_allocator_new (context, error);
  g_autoptr (TarnPool) pool = NULL;
  g_autoptr (TarnBlock) first = NULL;
  g_autoptr (TarnBlock) second = NULL;
  g_autoptr (TarnBlock) direct = NULL;

  if (allocator == NULL)
    return FALSE;
  pool = tarn_pool_new (allocator, NULL, NULL);
  if ((first = tarn_pool_allocate (pool, 1000, error)) == NULL)
    return FALSE;
  tarn_block_free (g_steal_pointer (&first));
  tarn_pool_free_held (pool);
  if ((second = tarn_pool_allocate (pool, 2000, error)) == NULL)
    return FALSE;
  direct = tarn_allocator_allocate (allocator, 3000, error);
  return direct != NULL;
}

static void
count_message (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer data)
{
  (void) domain;
  (void) level;
  (void) message;
  ++*(guint *) data;
}

/* One call after the other, whichever it is: an error that names it, nothing lost without a word,
 * and the thread's contexts as they were, but for the call that was to put them back. */
static gboolean
fail_nth (const TarnCudaTest *test, CUcontext context, guint nth, gboolean for_ever)
{
  guint n_messages = 0, n_before = fake->get_live (TARN_TESTING_CUDA_DEVICE_MEMORY);
  guint handler = g_log_set_handler ("Tarn-CUDA", G_LOG_LEVEL_MESSAGE, count_message, &n_messages);
  g_autoptr (GError) error = NULL;
  const gchar *failed;
  CUcontext popped;
  gboolean ok;

  fake->fail (NULL, nth, for_ever, FAKE_CUDA_INVALID_HANDLE);
  ok = use_everything (context, &error);
  failed = fake->get_failed ();
  fake->fail (NULL, 0, FALSE, 0);
  g_log_remove_handler ("Tarn-CUDA", handler);

  g_assert_true (ok == (error == NULL));
  if (failed == NULL)
    g_assert_true (ok);
  if (!ok)
    {
      g_assert_error (error, TARN_CUDA_ERROR, FAKE_CUDA_INVALID_HANDLE);
      g_assert_nonnull (strstr (error->message, "(400)"));
    }
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_DEVICE_MEMORY), <=, n_before + n_messages);
  if (n_messages == 0)
    g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_DEVICE_MEMORY), ==, n_before);
  while (fake->get_context_stack_depth () > 1)
    {
      g_assert_cmpuint (n_messages, >, 0);
      g_assert_cmpuint (cuda_get_driver ()->cuCtxPopCurrent (&popped), ==, 0);
    }
  g_assert_true (cuda_get_current () == test->context);
  g_assert_cmpuint (fake->get_strangers_freed (NULL, 0), ==, 0);
  return failed != NULL;
}

static void
test_failures (const TarnCudaTest *test, gconstpointer unused)
{
  CUcontext context = cuda_context_new (test->device);
  guint nth;

  (void) unused;
  for (gint for_ever = FALSE; for_ever <= TRUE; for_ever++)
    {
      for (nth = 1; fail_nth (test, context, nth, for_ever); nth++)
        ;
      g_test_message ("%u calls", nth - 1);
      g_assert_cmpuint (nth, >, 20);
    }
  cuda_context_destroy (context);
}

/* Memory */

static gpointer
find_function (const gchar *symbol)
{
  gpointer library = dlopen ("libcuda.so.1", RTLD_NOW);
  gpointer function = library != NULL ? dlsym (library, symbol) : NULL;

  g_assert_nonnull (function);
  return function;
}

static void
test_pointers (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (TarnAllocator) device = tarn_cuda_device_allocator_new (test->context, NULL);
  g_autoptr (TarnAllocator) host = tarn_cuda_host_allocator_new (test->context, 0, NULL);
  g_autoptr (TarnAllocator) managed = tarn_cuda_managed_allocator_new (test->context, 0, NULL);
  g_autoptr (TarnBlock) on_device = tarn_allocator_allocate (device, 100, NULL);
  g_autoptr (TarnBlock) on_host = tarn_allocator_allocate (host, 100, NULL);
  g_autoptr (TarnBlock) on_both = tarn_allocator_allocate (managed, 100, NULL);
  g_autoptr (TarnBlock) empty = tarn_allocator_allocate (device, 0, NULL);
  unsigned int (*to_device) (CUdeviceptr, const void *, size_t);
  unsigned int (*to_host) (void *, CUdeviceptr, size_t);
  guint8 read[100];

  (void) unused;
  *(gpointer *) &to_device = find_function ("cuMemcpyHtoD_v2");
  *(gpointer *) &to_host = find_function ("cuMemcpyDtoH_v2");
  memset (tarn_cuda_block_get_host_pointer (on_host), 42, 100);
  g_assert_cmpuint (to_device (tarn_cuda_block_get_device_pointer (on_device),
                               tarn_cuda_block_get_host_pointer (on_host), 100),
                    ==, 0);
  g_assert_cmpuint (to_host (read, tarn_cuda_block_get_device_pointer (on_device), 100), ==, 0);
  g_assert_cmpmem (read, 100, tarn_cuda_block_get_host_pointer (on_host), 100);
  memset (tarn_cuda_block_get_host_pointer (on_both), 17, 100);
  g_assert_cmpuint (to_host (read, tarn_cuda_block_get_device_pointer (on_both), 100), ==, 0);
  g_assert_cmpmem (read, 100, tarn_cuda_block_get_host_pointer (on_both), 100);
  g_assert_cmpuint (tarn_cuda_block_get_device_pointer (empty), ==, 0);

  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_CRITICAL,
                         "tarn_cuda_block_get_host_pointer: the block is from allocator "
                         "'cuda-device', but must be from 'cuda-host' or 'cuda-managed'");
  g_assert_null (tarn_cuda_block_get_host_pointer (on_device));
  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_CRITICAL,
                         "tarn_cuda_block_get_device_pointer: the block is from allocator "
                         "'cuda-host', but must be from 'cuda-device', 'cuda-managed' "
                         "or 'cuda-async'");
  g_assert_cmpuint (tarn_cuda_block_get_device_pointer (on_host), ==, 0);
  g_test_assert_expected_messages ();
}

static gboolean
allocate_other (gpointer unused, gsize size, TarnMemory *memory, GError **error)
{
  (void) unused;
  (void) size;
  (void) error;
  memory->address = 1;
  return TRUE;
}

static void
free_other (gpointer unused, TarnMemory memory, gsize size)
{
  (void) unused;
  (void) memory;
  (void) size;
}

/* Another backend's block: it is said whose it is. */
static void
test_other_kind (const TarnCudaTest *test, gconstpointer unused)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  g_autoptr (TarnAllocator) allocator = NULL;
  g_autoptr (TarnBlock) block = NULL;

  (void) test;
  (void) unused;
  ops.allocate = allocate_other;
  ops.free = free_other;
  allocator = tarn_allocator_new (&ops, NULL, NULL);
  block = tarn_allocator_allocate (allocator, 10, NULL);
  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_CRITICAL,
                         "tarn_cuda_block_get_host_pointer: * an unnamed allocator, *");
  g_assert_null (tarn_cuda_block_get_host_pointer (block));
  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_CRITICAL,
                         "tarn_cuda_block_get_device_pointer: * an unnamed allocator, *");
  g_assert_cmpuint (tarn_cuda_block_get_device_pointer (block), ==, 0);
  g_test_expect_message (
      "Tarn-CUDA", G_LOG_LEVEL_CRITICAL,
      "tarn_cuda_block_record_use: * must be from an allocator of libtarn-cuda's");
  g_assert_false (tarn_cuda_block_record_use (block, NULL, NULL));
  g_test_assert_expected_messages ();
}

/* On a device's own memory it lives on the out-of-memory path. */
static void
test_window (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (TarnAllocator) allocator = tarn_cuda_device_allocator_new (test->context, NULL);
  g_autoptr (TarnPool) pool = tarn_pool_new (allocator, NULL, NULL);
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  unsigned int (*get_info) (size_t *, size_t *);
  size_t available = 0, total = 0;

  (void) unused;
  *(gpointer *) &get_info = find_function ("cuMemGetInfo_v2");
  g_assert_cmpuint (get_info (&available, &total), ==, 0);
  pool_slide_window (pool, available >> 6);
  pool_slide_window (pool, available >> 5);
  tarn_pool_get_stats (pool, &stats);
  g_test_message ("%" G_GSIZE_FORMAT " MiB free; %" G_GUINT64_FORMAT " hits, %" G_GUINT64_FORMAT
                  " misses",
                  available >> 20, stats.hits, stats.misses);
  tarn_pool_stop_holding (pool);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (pool), ==, 0);
}

/* A device's own memory, really full: what is held makes room, for blocks of every size. */
static void
test_full (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (TarnAllocator) allocator = tarn_cuda_device_allocator_new (test->context, NULL);
  g_autoptr (TarnPool) pool = tarn_pool_new (allocator, NULL, NULL);
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  gsize bytes = test->info->bytes;
  guint n_large, n_small;

  (void) unused;
  n_large = pool_fill (pool, bytes / 16);
  n_small = pool_fill (pool, bytes / 40);
  g_test_message ("%u blocks of 1/16, %u of 1/40", n_large, n_small);
  g_assert_cmpuint (n_large, >=, 12);
  g_assert_cmpuint (n_large, <=, 16);
  g_assert_cmpuint (n_small, >=, 30);
  g_assert_cmpuint (n_small, <=, 40);
  g_assert_cmpuint (pool_fill (pool, bytes / 16), ==, n_large);
  tarn_pool_get_stats (pool, &stats);
  g_assert_cmpuint (stats.failures, ==, 3);
}

static void
test_host_array (const TarnCudaTest *test, gconstpointer unused)
{
  static const gsize shape[] = { 3, 4, 5 }, huge[] = { G_MAXSIZE / 4, 5 }, none[] = { 7, 0, 2 };
  g_autoptr (TarnAllocator) allocator = tarn_cuda_host_allocator_new (test->context, 0, NULL);
  g_autoptr (TarnPool) pool = tarn_pool_new (allocator, NULL, NULL);
  g_autoptr (GError) error = NULL;
  TarnCudaHostArray array = TARN_CUDA_HOST_ARRAY_INIT;

  (void) unused;
  {
    g_auto (TarnCudaHostArray) own = TARN_CUDA_HOST_ARRAY_INIT;

    g_assert_true (tarn_cuda_host_array_allocate (pool, 0, NULL, 8, 'C', &own, NULL));
    g_assert_cmpuint (tarn_pool_get_active_blocks (pool), ==, 1);
  }
  g_assert_cmpuint (tarn_pool_get_active_blocks (pool), ==, 0);
  g_assert_true (tarn_cuda_host_array_allocate (pool, 3, shape, 8, 'C', &array, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (array.size, ==, 480);
  g_assert_cmpmem (array.strides, 3 * sizeof (gsize), ((gsize[]){ 160, 40, 8 }),
                   3 * sizeof (gsize));
  memset (array.data, 1, array.size);
  tarn_cuda_host_array_clear (&array);
  g_assert_null (array.block);
  g_assert_true (tarn_cuda_host_array_allocate (pool, 3, shape, 8, 'F', &array, &error));
  g_assert_cmpmem (array.strides, 3 * sizeof (gsize), ((gsize[]){ 8, 24, 96 }), 3 * sizeof (gsize));
  tarn_cuda_host_array_clear (&array);
  g_assert_true (tarn_cuda_host_array_allocate (pool, 0, NULL, 8, 'C', &array, &error));
  g_assert_cmpuint (array.size, ==, 8);
  tarn_cuda_host_array_clear (&array);
  g_assert_true (tarn_cuda_host_array_allocate (pool, 3, none, 8, 'C', &array, &error));
  g_assert_cmpuint (array.size, ==, 0);
  tarn_cuda_host_array_clear (&array);
  tarn_cuda_host_array_clear (&array);

  g_assert_false (tarn_cuda_host_array_allocate (pool, 2, huge, 4, 'C', &array, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_SIZE);
  g_clear_error (&error);
  g_assert_false (tarn_cuda_host_array_allocate (pool, 3, shape, 8, 'X', &array, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "'X'"));
  g_clear_error (&error);
  g_assert_false (tarn_cuda_host_array_allocate (pool, 3, shape, 0, 'C', &array, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_null (array.block);
  g_assert_cmpuint (tarn_pool_get_active_blocks (pool), ==, 0);
}

int
main (int argc, char **argv)
{
  fake = cuda_get_fake ();
  g_test_init (&argc, &argv, NULL);
  add_backends ();
  if (fake != NULL)
    tarn_cuda_test_add ("failures", test_failures, NULL);
  tarn_cuda_test_add ("memory/pointers", test_pointers, NULL);
  tarn_cuda_test_add ("memory/other-kind", test_other_kind, NULL);
  tarn_cuda_test_add ("memory/window", test_window, NULL);
  /* The fake one has as much memory as the host of a real one, which it is not. */
  if (fake == NULL)
    tarn_cuda_test_add ("memory/full", test_full, NULL);
  tarn_cuda_test_add ("memory/host-array", test_host_array, NULL);
  return g_test_run ();
}
