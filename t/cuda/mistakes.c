/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Mistakes with CUDA's memory that TARN_DEBUG finds: of a device, over a heap and without one, of
 * the host, and managed. */

#define _GNU_SOURCE 1 /* RTLD_DEFAULT */

#include "lib/mistakes.h"

#include "allocator/allocator-private.h"

#include "driver.h"

#include <dlfcn.h>

/* What makes pools of a kind. */
typedef struct
{
  CUcontext context;
  TarnTestingCudaKind
      kind;          /* TARN_TESTING_CUDA_ADDRESSES: virtual memory of the device, with a heap */
  gboolean has_gaps; /* there */
} State;

static TarnPool *
pool_new (gpointer data, const TarnPoolOptions *options)
{
  const State *state = data;
  TarnPoolOptions with_gaps = *options;
  g_autoptr (GError) error = NULL;
  g_autoptr (TarnAllocator) allocator = NULL;
  TarnPool *pool;

  if (options->debug == NULL)
    with_gaps.debug = "gaps,poison,leaks";
  if (state->kind == TARN_TESTING_CUDA_ADDRESSES)
    pool = tarn_cuda_pool_new (state->context, state->has_gaps ? &with_gaps : options, &error);
  else
    {
      allocator = cuda_allocator_new (state->kind, state->context, &error);
      g_assert_no_error (error);
      pool = tarn_pool_new (allocator, options, &error);
    }
  g_assert_no_error (error);
  return pool;
}

static void
put (gpointer data, TarnMemory memory, gssize offset, guint8 byte)
{
  const TarnCudaDriver *driver = cuda_get_driver ();
  const State *state = data;
  guint8 written;

  if (state->kind == TARN_TESTING_CUDA_HOST_MEMORY)
    ((guint8 *) memory.pointer)[offset] = byte;
  else
    {
      g_assert_cmpuint (
          driver->cuMemsetD8 ((CUdeviceptr) (memory.address + (guint64) offset), byte, 1), ==, 0);
      g_assert_cmpuint (
          driver->cuMemcpyDtoH (&written, (CUdeviceptr) (memory.address + (guint64) offset), 1), ==,
          0);
    }
}

static guint8
get (gpointer data, TarnMemory memory, gssize offset)
{
  const State *state = data;
  guint8 byte;

  if (state->kind == TARN_TESTING_CUDA_HOST_MEMORY)
    return ((const guint8 *) memory.pointer)[offset];
  g_assert_cmpuint (cuda_get_driver ()->cuMemcpyDtoH (
                        &byte, (CUdeviceptr) (memory.address + (guint64) offset), 1),
                    ==, 0);
  return byte;
}

static const MistakesMemory memory = { pool_new, put, get, FALSE };
static const MistakesMemory memory_with_gaps = { pool_new, put, get, TRUE };

static void
run_with (const TarnCudaTest *test, const Mistake *mistake, TarnTestingCudaKind kind,
          gboolean has_gaps)
{
  const TarnTestingCuda *fake = cuda_get_fake ();
  State state = { test->context, kind, has_gaps };

  if (fake != NULL)
    fake->reset ();
  mistake->func (has_gaps ? &memory_with_gaps : &memory, &state);
  for (TarnTestingCudaKind i = TARN_TESTING_CUDA_ADDRESSES;
       fake != NULL && i <= TARN_TESTING_CUDA_MAPPING; i++)
    g_assert_cmpuint (fake->get_live (i), ==, 0);
}

static void
run (const TarnCudaTest *test, const Mistake *mistake, TarnTestingCudaKind kind)
{
  run_with (test, mistake, kind, FALSE);
}

static void
run_with_gaps (const TarnCudaTest *test, gconstpointer mistake)
{
  run_with (test, mistake, TARN_TESTING_CUDA_ADDRESSES, TRUE);
}

static void
run_with_heap (const TarnCudaTest *test, gconstpointer mistake)
{
  run (test, mistake, TARN_TESTING_CUDA_ADDRESSES);
}

static void
run_on_device (const TarnCudaTest *test, gconstpointer mistake)
{
  run (test, mistake, TARN_TESTING_CUDA_DEVICE_MEMORY);
}

static void
run_on_host (const TarnCudaTest *test, gconstpointer mistake)
{
  run (test, mistake, TARN_TESTING_CUDA_HOST_MEMORY);
}

static void
run_on_managed (const TarnCudaTest *test, gconstpointer mistake)
{
  run (test, mistake, TARN_TESTING_CUDA_MANAGED_MEMORY);
}

/* A block that takes all that there is has no guards, and the next one has them again. */
static void
test_no_room (const TarnCudaTest *test, gconstpointer unused)
{
  const TarnTestingCuda *fake = cuda_get_fake ();
  State state = { test->context, TARN_TESTING_CUDA_DEVICE_MEMORY, FALSE };
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnPool) pool = NULL;
  g_autoptr (GError) error = NULL;
  TarnBlock *block;

  (void) unused;
  if (fake == NULL)
    {
      g_test_skip ("the device has too much memory");
      return;
    }
  fake->reset ();
  pool = pool_new (&state, &options);
  fake->set_budget (test->device, 100000);
  tarn_block_free (tarn_pool_allocate (pool, 50000, &error)); /* which stays in quarantine */
  g_assert_no_error (error);
  block = tarn_pool_allocate (pool, 100000, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (get (&state, tarn_block_get_memory (block), 99999), ==, 0xff);
  tarn_block_free (block);
  g_assert_null (tarn_pool_allocate (pool, 100001, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
  g_clear_error (&error);
  block = tarn_pool_allocate (pool, 1000, &error);
  g_assert_no_error (error);
  put (&state, tarn_block_get_memory (block), 1000, 7);
  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, "*written behind its end, at offset 1000*");
  tarn_block_free (block);
  g_test_assert_expected_messages ();
}

#define LIMIT ((gsize) 32 << 20)

static gsize
get_available (void)
{
  unsigned int (*get_info) (size_t *, size_t *);
  size_t available = 0, total = 0;

  *(gpointer *) &get_info = dlsym (RTLD_DEFAULT, "cuMemGetInfo_v2");
  g_assert_nonnull (get_info);
  g_assert_cmpuint (get_info (&available, &total), ==, 0);
  return available;
}

/* Allocates until the pool refuses.  Never is more than the limit allocated from the device. */
static void
fill (TarnPool *pool, gsize size, gsize available, GPtrArray *blocks)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block;

  while ((block = tarn_pool_allocate (pool, size, &error)) != NULL)
    {
      g_ptr_array_add (blocks, block);
      g_assert_cmpuint (available - get_available (), <=, LIMIT);
    }
  g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
  g_assert_cmpuint (available - get_available (), <=, LIMIT);
}

static void
check_limit (const TarnCudaTest *test, TarnTestingCudaKind kind, const gchar *words)
{
  g_autoptr (GPtrArray) blocks = g_ptr_array_new_with_free_func ((GDestroyNotify) tarn_block_free);
  State state = { test->context, kind, FALSE };
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnPool) pool = NULL;
  gsize available;

  g_test_message ("%s", words);
  cuda_get_fake ()->reset ();
  cuda_get_fake ()->set_budget (test->device, 8 * LIMIT);
  available = get_available ();
  options.limit_bytes = LIMIT;
  options.debug = words;
  pool = pool_new (&state, &options);
  for (gsize size = 50000; size < LIMIT; size *= 5)
    {
      fill (pool, size, available, blocks);
      g_assert_cmpuint (blocks->len, >, 0);
      g_ptr_array_set_size (blocks, 0);
    }
  fill (pool, 100000, available, blocks);
  tarn_pool_set_limit_bytes (pool, 3 * LIMIT);
  g_ptr_array_add (blocks, tarn_pool_allocate (pool, LIMIT, NULL));
  g_assert_nonnull (g_ptr_array_index (blocks, blocks->len - 1));
  g_ptr_array_set_size (blocks, 0);
  tarn_pool_set_limit_bytes (pool, LIMIT);
  g_assert_cmpuint (available - get_available (), <=, LIMIT);
}

/* A limit bounds the device's memory, whatever TARN_DEBUG looks for: guards and quarantine count.
 */
static void
test_limit (const TarnCudaTest *test, gconstpointer unused)
{
  static const gchar *const words[]
      = { "",     "check",  "leaks",           "guards",
          "gaps", "poison", "quarantine=100M", "guards,gaps,quarantine=100M,leaks" };

  (void) unused;
  if (cuda_get_fake () == NULL)
    {
      g_test_skip ("others use the device's memory, too");
      return;
    }
  for (gsize i = 0; i < G_N_ELEMENTS (words); i++)
    {
      check_limit (test, TARN_TESTING_CUDA_ADDRESSES, words[i]);
      check_limit (test, TARN_TESTING_CUDA_DEVICE_MEMORY, words[i]);
    }
}

/* What other pools of a group have in quarantine, which hold nothing, is room for one that has run
 * out. */
static void
test_group (const TarnCudaTest *test, gconstpointer unused)
{
  const TarnTestingCuda *fake = cuda_get_fake ();
  State state = { test->context, TARN_TESTING_CUDA_DEVICE_MEMORY, FALSE };
  g_autoptr (TarnReclaimGroup) group = tarn_reclaim_group_new ();
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  TarnPool *pools[2];

  (void) unused;
  if (fake == NULL)
    {
      g_test_skip ("the device has too much memory");
      return;
    }
  fake->reset ();
  fake->set_budget (test->device, 100000);
  for (guint i = 0; i < 2; i++)
    {
      pools[i] = pool_new (&state, &options);
      tarn_pool_set_reclaim_group (pools[i], group);
    }
  for (guint i = 0; i < 10; i++)
    {
      g_autoptr (GError) error = NULL;

      tarn_block_free (tarn_pool_allocate (pools[i % 2], 60000, &error));
      g_assert_no_error (error);
    }
  for (guint i = 0; i < 2; i++)
    tarn_pool_unref (pools[i]);
}

static gboolean
has_virtual_memory (CUcontext context)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TarnAllocator) allocator = tarn_cuda_device_allocator_new (context, &error);

  g_assert_no_error (error);
  return allocator->ops.virtual_granularity > 0;
}

static gboolean
can_write (CUdeviceptr address)
{
  return cuda_get_driver ()->cuMemsetD8 (address, 7, 1) == 0;
}

/* Behind a block, up to where the next one of that alignment would be, there is nothing at all; nor
 * is there where it was. */
static void
test_gap (const TarnCudaTest *test, gconstpointer unused)
{
  static const gsize sizes[] = { 1, 512, 1000, 2 << 20, (6 << 20) - 5 };
  State state = { test->context, TARN_TESTING_CUDA_ADDRESSES, TRUE };
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnPool) pool = NULL;

  (void) unused;
  if (cuda_get_fake () != NULL)
    cuda_get_fake ()->reset ();
  if (!has_virtual_memory (test->context))
    {
      g_test_skip ("the device has no virtual memory");
      return;
    }
  options.debug = "gaps";
  pool = pool_new (&state, &options);
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      g_autoptr (GError) error = NULL;
      TarnBlock *block = tarn_pool_allocate (pool, sizes[i], &error);
      CUdeviceptr start, end;

      g_assert_no_error (error);
      start = (CUdeviceptr) tarn_block_get_memory (block).address;
      end = start + (sizes[i] + 511) / 512 * 512;
      g_assert_cmpuint (start % 512, ==, 0);
      g_assert_true (can_write (start));
      g_assert_true (can_write (start + sizes[i] - 1));
      g_assert_false (can_write (end));
      g_assert_false (can_write (end + sizes[i]));
      tarn_block_free (block);
      g_assert_false (can_write (start));
    }
}

/* A heap's alignment, and one that is asked for, are kept whatever TARN_DEBUG looks for. */
static void
check_aligned (const TarnCudaTest *test, gsize alignment, const gchar *words)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TarnAllocator) device
      = cuda_allocator_new (TARN_TESTING_CUDA_ADDRESSES, test->context, &error);
  TarnHeapOptions heap_options = TARN_HEAP_OPTIONS_INIT;
  g_autoptr (TarnAllocator) heap = NULL;
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnPool) pool = NULL;
  State state = { test->context, TARN_TESTING_CUDA_ADDRESSES, FALSE };
  TarnBlock *blocks[20];
  gsize n_before = tarn_debug_check ();

  g_test_message ("%" G_GSIZE_FORMAT " %s", alignment, words);
  heap_options.alignment = alignment;
  heap = tarn_heap_allocator_new (device, &heap_options, &error);
  g_assert_no_error (error);
  options.debug = words;
  pool = tarn_pool_new (heap, &options, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    {
      gsize wanted = (gsize) 1 << i;

      blocks[i] = i % 2 == 0 ? tarn_pool_allocate_aligned (pool, 1000, wanted, NULL, &error)
                             : tarn_pool_allocate (pool, 1000, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (tarn_block_get_memory (blocks[i]).address % alignment, ==, 0);
      if (i % 2 == 0)
        g_assert_cmpuint (tarn_block_get_memory (blocks[i]).address % wanted, ==, 0);
      put (&state, tarn_block_get_memory (blocks[i]), 0, 7);
      put (&state, tarn_block_get_memory (blocks[i]), 999, 7);
    }
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    tarn_block_free (blocks[i]);
  g_assert_cmpuint (tarn_debug_check (), ==, n_before);
}

static void
test_aligned (const TarnCudaTest *test, gconstpointer unused)
{
  static const gchar *const words[] = { "", "leaks", "guards", "guards,poison", "gaps" };

  (void) unused;
  if (cuda_get_fake () != NULL)
    cuda_get_fake ()->reset ();
  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    {
      check_aligned (test, 512, words[i]);
      check_aligned (test, 4096, words[i]);
    }
}

int
main (int argc, char **argv)
{
  static const struct
  {
    const gchar *prefix;
    TarnCudaTestFunc func;
  } kinds[] = {
    { "heap/", run_with_heap }, { "gaps/", run_with_gaps },     { "device/", run_on_device },
    { "host/", run_on_host },   { "managed/", run_on_managed },
  };

  g_setenv ("TARN_DEBUG", MISTAKES_TARN_DEBUG, TRUE);
  g_test_init (&argc, &argv, NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (kinds); i++)
    for (gsize j = 0; j < n_mistakes; j++)
      {
        g_autofree gchar *path = g_strconcat (kinds[i].prefix, mistakes[j].path, NULL);

        tarn_cuda_test_add (path, kinds[i].func, &mistakes[j]);
      }
  tarn_cuda_test_add ("mistakes/no-room", test_no_room, NULL);
  tarn_cuda_test_add ("mistakes/group", test_group, NULL);
  tarn_cuda_test_add ("mistakes/limit", test_limit, NULL);
  tarn_cuda_test_add ("mistakes/gap", test_gap, NULL);
  tarn_cuda_test_add ("mistakes/aligned", test_aligned, NULL);
  return g_test_run ();
}
