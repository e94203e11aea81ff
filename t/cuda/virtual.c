/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What a heap makes blocks of: virtual memory of CUDA devices, and parts of all kinds of memory.
 * The same tests on a real driver and on fake ones, which are asked for more. */

#include <string.h>

#include "virtual-fixture.h"

/* Two backings side by side are one piece of memory; one that moves takes its bytes along. */
static void
test_bytes (const TarnCudaTest *test, gconstpointer unused)
{
  Memory memory;

  (void) unused;
  if (!fill_or_skip (&memory, test->context, NULL))
    return;
  g_assert_cmpuint (memory.addresses.address % memory.unit, ==, 0);
  map_surely (&memory, 0, 0);
  map_surely (&memory, 1, 1);
  SUCCEED (cuda.cuMemsetD8 (pointer_at (&memory, 0), '.', 3 * memory.unit));
  SUCCEED (cuda.cuMemcpyHtoD (pointer_at (&memory, 1) - 2, "abcd", 4));
  assert_bytes (pointer_at (&memory, 1) - 3, ".abcd.");
  memory_unmap (&memory, 1, 1);
  map_surely (&memory, 1, 5);
  assert_bytes (pointer_at (&memory, 5), "cd..");
  assert_bytes (pointer_at (&memory, 7) - 2, "..");
  assert_bytes (pointer_at (&memory, 1) - 3, ".ab");
  memory_unmap (&memory, 0, 0);
  map_surely (&memory, 0, 4);
  assert_bytes (pointer_at (&memory, 5) - 3, ".abcd.");
  memory_unmap (&memory, 0, 4);
  memory_unmap (&memory, 1, 5);
  memory_clear (&memory);
  assert_nothing_is_alive ();
}

static gpointer
use_without_context (gpointer data)
{
  Memory *memory = data;

  g_assert_null (cuda_get_current ());
  g_assert_true (memory_fill (memory, NULL));
  map_surely (memory, 1, 3);
  g_assert_null (cuda_get_current ());
  return NULL;
}

/* Any thread may call, whatever is current there, and it stays so. */
static void
test_contexts (const TarnCudaTest *test, gconstpointer unused)
{
  Memory memory;

  (void) unused;
  if (!open_or_skip (&memory, test->context, NULL))
    return;
  g_thread_join (g_thread_new ("other", use_without_context, &memory));
  SUCCEED (cuda.cuMemsetD8 (pointer_at (&memory, 3), 7, 2 * memory.unit));
  assert_bytes (pointer_at (&memory, 5) - 2, "\a\a"); /* it is not done before */
  memory_unmap (&memory, 1, 3);
  memory_clear (&memory);
  g_assert_true (cuda_get_current () == test->context);
  assert_nothing_is_alive ();
}

/* New memory of a context that is gone is refused; what there is stays, and is given back. */
static void
test_lost (const TarnCudaTest *test, gconstpointer unused)
{
  CUcontext doomed = cuda_context_new (test->device);
  TarnMemory other = { .address = 0 };
  GError *errors[3] = { NULL };
  Memory memory;

  (void) unused;
  if (!fill_or_skip (&memory, doomed, NULL))
    {
      SUCCEED (cuda_get_driver ()->cuCtxDestroy (doomed));
      return;
    }
  map_surely (&memory, 0, 0);
  SUCCEED (cuda.cuMemcpyHtoD (pointer_at (&memory, 0), "abcd", 4));
  SUCCEED (cuda_get_driver ()->cuCtxDestroy (doomed));
  if (cuda_get_driver ()->cuCtxGetId != NULL)
    {
      g_assert_false (memory_map (&memory, 1, 1, &errors[0]));
      g_assert_false (memory.ops->backing_new (memory.data, memory.unit, &other, &errors[1]));
      g_assert_false (memory.ops->addresses_reserve (memory.data, memory.unit, &other, &errors[2]));
      for (gsize i = 0; i < G_N_ELEMENTS (errors); i++)
        g_assert_error (errors[i], TARN_ERROR, TARN_ERROR_CONTEXT_LOST);
      for (gsize i = 0; i < G_N_ELEMENTS (errors); i++)
        g_clear_error (&errors[i]);
    }
  g_assert_cmpuint (other.address, ==, 0);
  assert_bytes (pointer_at (&memory, 0), "abcd");
  memory_unmap (&memory, 0, 0);
  memory_clear (&memory);
  assert_nothing_is_alive ();
}

static void
test_out_of_memory (const TarnCudaTest *test, gconstpointer unused)
{
  const gsize size = CUDA_TOO_MANY_BYTES;
  TarnMemory none = { .address = 0 }, reserved[3] = { { .address = 0 } };
  gsize most = sizeof (gsize) > 4 ? 0 : 2; /* that a process has addresses for */
  GError *error = NULL;
  gsize n = 0;
  Memory memory;

  (void) unused;
  if (!open_or_skip (&memory, test->context, NULL))
    return;
  g_assert_false (memory.ops->backing_new (memory.data, size, &none, &error));
  assert_out_of_memory (&error, "cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY", size);
  g_assert_cmpuint (none.address, ==, 0);
  while (n <= most && memory.ops->addresses_reserve (memory.data, size, &reserved[n], &error))
    n++;
  g_assert_cmpuint (n, <=, most);
  assert_out_of_memory (&error, "cuMemAddressReserve: CUDA_ERROR_OUT_OF_MEMORY", size);
  g_assert_cmpuint (reserved[n].address, ==, 0);
  while (n > 0)
    memory.ops->addresses_release (memory.data, reserved[--n], size);
  memory_clear (&memory);
}

/* Calls that fail, on the fake driver */

static gboolean
use_mapping (Memory *memory, GError **error)
{
  if (!memory_fill (memory, error) || !memory_map (memory, 0, 0, error))
    return FALSE;
  if (memory_map (memory, 1, 1, error))
    {
      memory_unmap (memory, 1, 1);
      memory_unmap (memory, 0, 0);
      return TRUE;
    }
  memory_unmap (memory, 0, 0);
  return FALSE;
}

static gboolean
use_everything (const TarnCudaTest *test, GError **error)
{
  CUdevice peer = 1 - test->device;
  TarnCudaDeviceOptions options = TARN_CUDA_DEVICE_OPTIONS_INIT;
  Memory memory;
  gboolean is_used;

  options.exportable = TRUE;
  options.peers = &peer;
  options.n_peers = 1;
  if (!memory_open (&memory, NULL, &options, error))
    return FALSE;
  is_used = use_mapping (&memory, error);
  memory_clear (&memory);
  return is_used;
}

static void
count_message (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer data)
{
  (void) domain;
  (void) level;
  g_assert_nonnull (strstr (message, "("));
  ++*(guint *) data;
}

/* FALSE: there are not so many calls. */
static gboolean
fail_nth (const TarnCudaTest *test, guint nth, gboolean for_ever, guint status)
{
  guint n_messages = 0, n_lost;
  guint handler = g_log_set_handler ("Tarn-CUDA", G_LOG_LEVEL_MESSAGE, count_message, &n_messages);
  g_autoptr (GError) error = NULL;
  const gchar *failed;
  gboolean ok;

  fake->fail (NULL, nth, for_ever, status);
  ok = use_everything (test, &error);
  failed = fake->get_failed ();
  fake->fail (NULL, 0, FALSE, 0);
  g_log_remove_handler ("Tarn-CUDA", handler);
  n_lost = count_live () - n_left;
  n_left += n_lost;
  g_test_message ("%u%s (%u): %s: %s; %u lost, %u messages", nth, for_ever ? " and all others" : "",
                  status, failed != NULL ? failed : "none", ok ? "no error" : error->message,
                  n_lost, n_messages);
  g_assert_true (ok == (error == NULL));
  if (!ok)
    cuda_assert_blamed (error, failed, status, for_ever);
  g_assert_true (n_lost == 0 || n_messages > 0);
  g_assert_true (use_everything (test, NULL)); /* all is well again */
  assert_nothing_is_alive ();
  return failed != NULL;
}

static void
test_failures (const TarnCudaTest *test, gconstpointer unused)
{
  Memory memory;
  guint nth;

  (void) unused;
  if (!open_or_skip (&memory, test->context, NULL))
    return;
  memory_clear (&memory);
  for (gint for_ever = FALSE; for_ever <= TRUE; for_ever++)
    for (guint i = 0; i < 2; i++)
      {
        guint status = i == 0 ? FAKE_CUDA_INVALID_HANDLE : FAKE_CUDA_OUT_OF_MEMORY;

        for (nth = 1; fail_nth (test, nth, for_ever, status); nth++)
          ;
        g_test_message ("%u calls", nth - 1);
        g_assert_cmpuint (nth, >, 20);
      }
}

/* What is mapped and cannot be made accessible is not mapped. */
static void
test_no_access (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;
  guint n_mapped = fake->get_live (TARN_TESTING_CUDA_MAPPING);
  Memory memory;

  (void) unused;
  if (!fill_or_skip (&memory, test->context, NULL))
    return;
  fake->fail ("cuMemSetAccess", 1, FALSE, FAKE_CUDA_OUT_OF_MEMORY);
  g_assert_false (memory_map (&memory, 1, 2, &error));
  assert_out_of_memory (&error, "cuMemSetAccess", 2 * memory.unit);
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_MAPPING), ==, n_mapped);
  map_surely (&memory, 1, 2);
  memory_unmap (&memory, 1, 2);
  memory_clear (&memory);
  assert_nothing_is_alive ();
}

/* A driver that is gone at exit has taken everything along, and there is nothing to tell. */
static void
test_deinitialized (const TarnCudaTest *test, gconstpointer unused)
{
  guint n_messages = 0, handler;
  Memory memory;

  (void) unused;
  if (!fill_or_skip (&memory, test->context, NULL))
    return;
  map_surely (&memory, 0, 0);
  handler = g_log_set_handler ("Tarn-CUDA", G_LOG_LEVEL_MESSAGE, count_message, &n_messages);
  fake->fail (NULL, 1, TRUE, FAKE_CUDA_DEINITIALIZED);
  memory_unmap (&memory, 0, 0);
  memory_clear (&memory);
  fake->fail (NULL, 0, FALSE, 0);
  g_log_remove_handler ("Tarn-CUDA", handler);
  g_assert_cmpuint (n_messages, ==, 0);
  n_left = count_live ();
}

/* Parts */

static void
check_part (const TarnAllocatorOps *ops, gpointer data, TarnMemory memory, gboolean is_host)
{
  const gsize offset = 3 * ops->part_alignment;
  TarnMemory part = { .address = 0 };
  gchar bytes[4];

  g_assert_true (ops->part_new (data, memory, offset, 100, &part, NULL));
  g_assert_cmpuint (part.address, ==, memory.address + offset);
  if (is_host)
    {
      memcpy (part.pointer, "abcd", 4);
      g_assert_cmpmem ((gchar *) memory.pointer + offset, 4, "abcd", 4);
      return;
    }
  SUCCEED (cuda.cuMemcpyHtoD ((CUdeviceptr) part.address, "abcd", 4));
  SUCCEED (cuda.cuMemcpyDtoH (bytes, (CUdeviceptr) memory.address + offset, 4));
  g_assert_cmpmem (bytes, 4, "abcd", 4);
}

static void
test_parts (const TarnCudaTest *test, gconstpointer unused)
{
  (void) unused;
  for (TarnTestingCudaKind kind = TARN_TESTING_CUDA_DEVICE_MEMORY;
       kind <= TARN_TESTING_CUDA_MANAGED_MEMORY; kind++)
    {
      g_autoptr (TarnAllocator) allocator = cuda_allocator_new (kind, test->context, NULL);
      const TarnAllocatorOps *ops = &allocator->ops;
      TarnMemory memory;
      gsize size = 4 * ops->part_alignment;

      g_assert_cmpuint (ops->part_alignment, ==, kind == TARN_TESTING_CUDA_HOST_MEMORY ? 64 : 512);
      g_assert_null (ops->part_release);
      g_assert_true (tarn_allocator_allocate_memory (allocator, size, &memory, NULL));
      g_assert_cmpuint (memory.address % ops->part_alignment, ==, 0);
      check_part (ops, allocator->user_data, memory, kind == TARN_TESTING_CUDA_HOST_MEMORY);
      tarn_allocator_free_memory (allocator, memory, size);
      g_assert_true (kind == TARN_TESTING_CUDA_DEVICE_MEMORY || ops->virtual_granularity == 0);
    }
}

static void
add_virtual_tests (void)
{
  tarn_cuda_test_add ("virtual/bytes", test_bytes, NULL);
  tarn_cuda_test_add ("virtual/contexts", test_contexts, NULL);
  tarn_cuda_test_add ("virtual/lost", test_lost, NULL);
  tarn_cuda_test_add ("virtual/out-of-memory", test_out_of_memory, NULL);
  if (fake == NULL)
    return;
  tarn_cuda_test_add ("virtual/no-access", test_no_access, NULL);
  tarn_cuda_test_add ("virtual/failures", test_failures, NULL);
  tarn_cuda_test_add ("virtual/deinitialized", test_deinitialized, NULL);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  virtual_init (cuda_get_fake ());
  tarn_cuda_test_add ("virtual/parts", test_parts, NULL);
  if (fake == NULL || cuda_get_driver ()->cuMemCreate != NULL)
    add_virtual_tests ();
  return g_test_run ();
}
