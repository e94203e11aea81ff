/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The fake driver itself, but for its streams: what other tests rely on.  What a driver does by
 * itself was seen on an H200; where that crashed, the fake ends a child. */

#include "cuda-fixture.h"

#include <sys/wait.h>
#include <unistd.h>

static void
test_before_init (void)
{
  CUdeviceptr address = 7;
  CUcontext context;
  const char *name;
  int n;

  ASSERT_STATUS (cuDeviceGetCount (&n), FAKE_CUDA_NOT_INITIALIZED);
  ASSERT_STATUS (cuCtxGetCurrent (&context), FAKE_CUDA_NOT_INITIALIZED);
  ASSERT_STATUS (cuMemAlloc_v2 (&address, 1), FAKE_CUDA_NOT_INITIALIZED);
  ASSERT_STATUS (cuStreamQuery (NULL), FAKE_CUDA_NOT_INITIALIZED);
  g_assert_cmpuint (address, ==, 7);
  SUCCEED (cuDriverGetVersion (&n));
  g_assert_cmpint (n, >=, 12000);
  SUCCEED (cuGetErrorName (709, &name));
  g_assert_cmpstr (name, ==, "CUDA_ERROR_CONTEXT_IS_DESTROYED");
  SUCCEED (cuGetErrorString (709, &name));
  g_assert_cmpstr (name, ==, "context is destroyed");
  ASSERT_STATUS (cuGetErrorName (98765, &name), FAKE_CUDA_INVALID_VALUE);
  g_assert_null (name);
  ASSERT_STATUS (cuInit (1), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuDeviceGetCount (&n), FAKE_CUDA_NOT_INITIALIZED);
}

static gint
get_attribute (guint attribute, CUdevice device)
{
  gint value;

  SUCCEED (cuDeviceGetAttribute (&value, attribute, device));
  return value;
}

static void
test_devices (void)
{
  int value;
  size_t bytes;

  fake->set_device_count (3);
  SUCCEED (cuDeviceGetCount (&value));
  g_assert_cmpint (value, ==, 3);
  g_assert_cmpint (get_attribute (75, 2), ==, 9);
  g_assert_cmpint (get_attribute (111, 2), ==, 1024);
  g_assert_cmpint (get_attribute (33, 2), ==, 0xfc);
  fake->set_attribute (2, 75, 6);
  fake->set_attribute (2, 9999, -1);
  g_assert_cmpint (get_attribute (75, 2), ==, 6);
  g_assert_cmpint (get_attribute (75, 1), ==, 9);
  g_assert_cmpint (get_attribute (9999, 2), ==, -1);
  ASSERT_STATUS (cuDeviceGetAttribute (&value, 9999, 1), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuDeviceGetAttribute (&value, 75, 3), FAKE_CUDA_INVALID_DEVICE);
  ASSERT_STATUS (cuDeviceGet (&value, 3), FAKE_CUDA_INVALID_DEVICE);
  ASSERT_STATUS (cuDeviceGet (&value, -1), FAKE_CUDA_INVALID_DEVICE);
  fake->set_total_memory (1, 12345);
  SUCCEED (cuDeviceTotalMem_v2 (&bytes, 1));
  g_assert_cmpuint (bytes, ==, 12345);
  fake->reset ();
  g_assert_cmpint (get_attribute (75, 1), ==, 9);
  SUCCEED (cuDeviceTotalMem_v2 (&bytes, 1));
  g_assert_cmpuint (bytes, ==, FAKE_CUDA_MEMORY_SIZE);
}

/* Contexts */

static void
test_stack (void)
{
  CUcontext a, b, c;
  CUdevice device;

  g_assert_null (get_current ());
  ASSERT_STATUS (cuCtxPopCurrent_v2 (&c), FAKE_CUDA_INVALID_CONTEXT);
  ASSERT_STATUS (cuCtxGetDevice (&device), FAKE_CUDA_INVALID_CONTEXT);
  ASSERT_STATUS (cuCtxSynchronize (), FAKE_CUDA_INVALID_CONTEXT);
  ASSERT_STATUS (cuCtxPushCurrent_v2 (NULL), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuCtxCreate_v2 (&a, 3, 0), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuCtxCreate_v2 (&a, 0, 2), FAKE_CUDA_INVALID_DEVICE);
  a = create_context ();
  SUCCEED (cuCtxCreate_v2 (&b, 4, 1));
  g_assert_cmpuint (fake->get_context_stack_depth (), ==, 2);
  SUCCEED (cuCtxGetDevice (&device));
  g_assert_cmpint (device, ==, 1);
  SUCCEED (cuCtxSetCurrent (a));
  g_assert_cmpuint (fake->get_context_stack_depth (), ==, 2);
  SUCCEED (cuCtxPopCurrent_v2 (&c));
  g_assert_true (c == a);
  SUCCEED (cuCtxSetCurrent (NULL));
  g_assert_null (get_current ());
  SUCCEED (cuCtxSetCurrent (b));
  SUCCEED (cuCtxPushCurrent_v2 (b));
  SUCCEED (cuCtxDestroy_v2 (b)); /* leaves this stack once only */
  g_assert_true (get_current () == b);
  SUCCEED (cuCtxPopCurrent_v2 (NULL));
  SUCCEED (cuCtxDestroy_v2 (a));
  ASSERT_STATUS (cuCtxDestroy_v2 (a), FAKE_CUDA_CONTEXT_IS_DESTROYED);
}

static void
assert_destroyed_is_current (void)
{
  CUdeviceptr address;
  CUstream stream;
  CUevent event;
  size_t bytes;
  void *pointer;

  ASSERT_STATUS (cuMemAlloc_v2 (&address, 1), FAKE_CUDA_CONTEXT_IS_DESTROYED);
  ASSERT_STATUS (cuMemAllocManaged (&address, 1, 1), FAKE_CUDA_CONTEXT_IS_DESTROYED);
  ASSERT_STATUS (cuMemHostAlloc (&pointer, 1, 0), FAKE_CUDA_CONTEXT_IS_DESTROYED);
  ASSERT_STATUS (cuMemFree_v2 (0), FAKE_CUDA_CONTEXT_IS_DESTROYED);
  ASSERT_STATUS (cuMemFreeHost (NULL), FAKE_CUDA_CONTEXT_IS_DESTROYED);
  ASSERT_STATUS (cuMemGetInfo_v2 (&bytes, &bytes), FAKE_CUDA_CONTEXT_IS_DESTROYED);
  ASSERT_STATUS (cuCtxSynchronize (), FAKE_CUDA_CONTEXT_IS_DESTROYED);
  ASSERT_STATUS (cuCtxGetId (NULL, (unsigned long long *) &address),
                 FAKE_CUDA_CONTEXT_IS_DESTROYED);
  ASSERT_STATUS (cuStreamCreate (&stream, 0), FAKE_CUDA_CONTEXT_IS_DESTROYED);
  ASSERT_STATUS (cuEventCreate (&event, 0), FAKE_CUDA_CONTEXT_IS_DESTROYED);
  ASSERT_STATUS (cuStreamQuery (NULL), FAKE_CUDA_CONTEXT_IS_DESTROYED);
}

static void
test_destroyed (void)
{
  CUcontext a = create_context (), b;
  CUdeviceptr late = allocate (100);
  unsigned long long id = get_id (a), unchanged = 7;
  CUdevice device;

  b = create_context ();
  SUCCEED (cuCtxDestroy_v2 (a));
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_DEVICE_MEMORY), ==, 0);
  ASSERT_STATUS (cuCtxGetId (a, &unchanged), FAKE_CUDA_CONTEXT_IS_DESTROYED);
  g_assert_cmpuint (unchanged, ==, 7);
  ASSERT_STATUS (cuMemFree_v2 (late), FAKE_CUDA_INVALID_VALUE);
  SUCCEED (cuCtxDestroy_v2 (b));
  g_assert_true (get_current () == a); /* it was below b */
  assert_destroyed_is_current ();
  SUCCEED (cuCtxGetDevice (&device));
  b = create_context ();
  g_assert_true (b != a);
  SUCCEED (cuCtxDestroy_v2 (b));
  SUCCEED (cuCtxPopCurrent_v2 (NULL));
  SUCCEED (cuCtxPushCurrent_v2 (a)); /* nothing says no */
  assert_destroyed_is_current ();
  b = create_context ();
  g_assert_true (b == a);
  g_assert_cmpuint (get_id (b), !=, id);
  g_assert_cmpuint (allocate (100), ==, late);
  SUCCEED (cuMemFree_v2 (late)); /* a stranger's */
  SUCCEED (cuCtxDestroy_v2 (b));
  b = create_context ();
  SUCCEED (cuCtxPopCurrent_v2 (NULL));
  SUCCEED (cuCtxPopCurrent_v2 (NULL)); /* what lay there first, while b lies there */
  SUCCEED (cuCtxDestroy_v2 (b));
}

/* One that was destroyed when it was made current. */
static void
make_destroyed_current (void)
{
  CUcontext context = create_context ();

  SUCCEED (cuCtxDestroy_v2 (context));
  SUCCEED (cuCtxPushCurrent_v2 (context));
}

static void
test_pop_destroyed (void)
{
  if (!g_test_subprocess ())
    {
      assert_crash ("*cuCtxPopCurrent: context 0x* was destroyed before it was made current*");
      return;
    }
  make_destroyed_current ();
  cuCtxPopCurrent_v2 (NULL);
}

static void
test_set_over_destroyed (void)
{
  if (!g_test_subprocess ())
    {
      assert_crash ("*cuCtxSetCurrent: context 0x* was destroyed before it was made current*");
      return;
    }
  make_destroyed_current ();
  cuCtxSetCurrent (NULL);
}

static gpointer
use_context_that_is_destroyed (gpointer data)
{
  Turns *turns = data;
  CUdevice device;

  g_assert_null (get_current ());
  SUCCEED (cuCtxPushCurrent_v2 (turns->context));
  give_turn (turns, 1);
  take_turn (turns, 2);
  g_assert_true (get_current () == turns->context);
  assert_destroyed_is_current ();
  SUCCEED (cuCtxGetDevice (&device));
  SUCCEED (cuCtxPushCurrent_v2 (turns->context));
  SUCCEED (cuCtxPopCurrent_v2 (NULL));
  g_assert_cmpuint (fake->get_context_stack_depth (), ==, 1);
  return NULL; /* it leaves with the thread */
}

static void
test_other_thread (void)
{
  Turns turns;
  CUcontext other;
  GThread *thread;

  turns_init (&turns);
  turns.context = create_context ();
  thread = g_thread_new ("user", use_context_that_is_destroyed, &turns);
  take_turn (&turns, 1);
  SUCCEED (cuCtxDestroy_v2 (turns.context));
  other = create_context ();
  g_assert_true (other != turns.context);
  SUCCEED (cuCtxDestroy_v2 (other));
  give_turn (&turns, 2);
  g_thread_join (thread);
  other = create_context ();
  g_assert_true (other == turns.context);
  SUCCEED (cuCtxDestroy_v2 (other));
  turns_clear (&turns);
}

static gboolean
is_active (CUdevice device)
{
  unsigned int flags;
  int active;

  SUCCEED (cuDevicePrimaryCtxGetState (device, &flags, &active));
  return active;
}

static void
test_primary (void)
{
  CUcontext a, b;
  guint64 id;

  ASSERT_STATUS (cuDevicePrimaryCtxRelease_v2 (1), FAKE_CUDA_INVALID_CONTEXT);
  ASSERT_STATUS (cuDevicePrimaryCtxRetain (&a, 2), FAKE_CUDA_INVALID_DEVICE);
  g_assert_false (is_active (1));
  SUCCEED (cuDevicePrimaryCtxRetain (&a, 1));
  SUCCEED (cuDevicePrimaryCtxRetain (&b, 1));
  g_assert_true (a == b && get_current () == NULL);
  g_assert_true (is_active (1) && !is_active (0));
  g_assert_cmpuint (fake->get_primary_references (1), ==, 2);
  ASSERT_STATUS (cuCtxDestroy_v2 (a), FAKE_CUDA_INVALID_CONTEXT);
  id = get_id (a);
  SUCCEED (cuCtxPushCurrent_v2 (a));
  allocate (10);
  SUCCEED (cuDevicePrimaryCtxRelease_v2 (1));
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_DEVICE_MEMORY), ==, 1);
  SUCCEED (cuDevicePrimaryCtxRelease_v2 (1));
  g_assert_false (is_active (1));
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_DEVICE_MEMORY), ==, 0);
  assert_destroyed_is_current ();
  SUCCEED (cuDevicePrimaryCtxRetain (&b, 1));
  g_assert_true (a == b);
  g_assert_cmpuint (get_id (a), !=, id);
  SUCCEED (cuDevicePrimaryCtxReset_v2 (1));
  g_assert_true (!is_active (1) && fake->get_primary_references (1) == 1);
  SUCCEED (cuCtxPopCurrent_v2 (NULL));
  SUCCEED (cuCtxPushCurrent_v2 (a));
  SUCCEED (cuCtxPopCurrent_v2 (NULL)); /* its handle is always one */
  SUCCEED (cuDevicePrimaryCtxRelease_v2 (1));
  g_assert_cmpuint (fake->get_primary_references (1), ==, 0);
}

static void
test_refused (void)
{
  CUcontext context;

  fake->refuse_contexts (0, FAKE_CUDA_DEVICE_UNAVAILABLE);
  ASSERT_STATUS (cuCtxCreate_v2 (&context, 0, 0), FAKE_CUDA_DEVICE_UNAVAILABLE);
  ASSERT_STATUS (cuDevicePrimaryCtxRetain (&context, 0), FAKE_CUDA_DEVICE_UNAVAILABLE);
  SUCCEED (cuDevicePrimaryCtxRetain (&context, 1));
  SUCCEED (cuDevicePrimaryCtxRelease_v2 (1));
}

/* Memory */

static void
test_memory (void)
{
  CUcontext context;
  CUdeviceptr address = 7, other;
  TarnTestingCudaMemory memory;

  ASSERT_STATUS (cuMemAlloc_v2 (&address, 1), FAKE_CUDA_INVALID_CONTEXT);
  context = create_context ();
  ASSERT_STATUS (cuMemAlloc_v2 (&address, 0), FAKE_CUDA_INVALID_VALUE);
  g_assert_cmpuint (address, ==, 7);
  address = allocate (1000);
  other = allocate (1);
  g_assert_true (address % 512 == 0 && other % 512 == 0);
  g_assert_cmpuint (fake->get_live_bytes (TARN_TESTING_CUDA_DEVICE_MEMORY), ==, 1001);
  g_assert_true (fake->find_memory (address + 999, &memory));
  g_assert_false (fake->find_memory (address + 1000, &memory));
  g_assert_true (memory.address == address && memory.size == 1000 && memory.device == 0
                 && memory.context_id == get_id (context));
  ASSERT_STATUS (cuMemFree_v2 (address + 256), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuMemFree_v2 (4096), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuMemFreeHost ((void *) (guintptr) address), FAKE_CUDA_INVALID_VALUE);
  SUCCEED (cuMemFree_v2 (0));
  SUCCEED (cuMemFree_v2 (address));
  ASSERT_STATUS (cuMemFree_v2 (address), FAKE_CUDA_INVALID_VALUE);
  SUCCEED (cuCtxPopCurrent_v2 (NULL));
  SUCCEED (cuMemFree_v2 (other)); /* with none current, as on an H200 */
  SUCCEED (cuCtxDestroy_v2 (context));
}

static void
test_bytes (void)
{
  CUcontext context = create_context ();
  CUdeviceptr a = allocate (1000), b = allocate (1000);
  guint8 bytes[1000] = { 0 };
  guint32 word;

  SUCCEED (cuMemsetD8_v2 (a, 1, 1000));
  SUCCEED (cuMemsetD32_v2 (a + 4, GUINT32_FROM_LE (0x04030201), 2));
  SUCCEED (cuMemcpyDtoD_v2 (b + 10, a, 990));
  SUCCEED (cuMemcpyDtoH_v2 (bytes, b + 10, 990));
  g_assert_cmpmem (bytes, 13, "\1\1\1\1\1\2\3\4\1\2\3\4\1", 13);
  SUCCEED (cuMemcpyHtoD_v2 (b + 996, "abcd", 4));
  SUCCEED (cuMemcpyDtoH_v2 (&word, b + 996, 4));
  g_assert_cmpmem (&word, 4, "abcd", 4);
  ASSERT_STATUS (cuMemsetD8_v2 (a, 1, 1001), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuMemsetD8_v2 (a + 1000, 1, 1), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuMemsetD32_v2 (a + 2, 1, 1), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuMemcpyHtoD_v2 (b + 997, "abcd", 4), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuMemcpyDtoH_v2 (bytes, a - 1, 1), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuMemcpyDtoD_v2 (a, b + 1, 1000), FAKE_CUDA_INVALID_VALUE);
  SUCCEED (cuMemsetD8_v2 (5, 1, 0));
  SUCCEED (cuCtxDestroy_v2 (context));
}

static void
test_host_access (void)
{
  if (!g_test_subprocess ())
    {
      assert_crash (NULL);
      return;
    }
  create_context ();
  *(volatile guint8 *) (guintptr) allocate (1) = 0;
}

static void
test_strangers (void)
{
  CUcontext a = create_context (), b;
  CUdeviceptr address = allocate (1000), again;
  guint64 a_id = get_id (a);
  TarnTestingCudaMemory memory;

  SUCCEED (cuMemFree_v2 (allocate (1)));
  b = create_context ();
  SUCCEED (cuMemFree_v2 (address));
  g_assert_cmpuint (fake->get_strangers_freed (&memory, 1), ==, 1);
  g_assert_true (memory.address == address && memory.context_id == a_id
                 && memory.freed_by == get_id (b));
  again = allocate (999);
  g_assert_cmpuint (again, ==, address);
  g_assert_true (fake->find_memory (again, &memory) && memory.context_id == get_id (b));
  SUCCEED (cuCtxDestroy_v2 (b));
  SUCCEED (cuCtxDestroy_v2 (a));
  fake->reset ();
  g_assert_cmpuint (fake->get_strangers_freed (NULL, 0), ==, 0);
}

static guint
ask_pointer (guint attribute, gconstpointer pointer)
{
  guint value = 0;

  SUCCEED (cuPointerGetAttribute (&value, attribute, (CUdeviceptr) (guintptr) pointer));
  return value;
}

static void
test_host_and_managed (void)
{
  CUcontext context = create_context (), of_pointer;
  CUdeviceptr device = allocate (1), managed, address;
  guint8 *host;

  ASSERT_STATUS (cuMemHostAlloc ((void **) &host, 10, 8), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuMemAllocManaged (&managed, 10, 0), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuMemAllocManaged (&managed, 0, 1), FAKE_CUDA_INVALID_VALUE);
  SUCCEED (cuMemHostAlloc ((void **) &host, 0, 0));
  SUCCEED (cuMemHostAlloc ((void **) &host, 10, 7));
  SUCCEED (cuMemAllocManaged (&managed, 10, 1));
  memset (host, 3, 10);
  SUCCEED (cuMemcpyHtoD_v2 (managed, host, 10));
  g_assert_cmpint (((guint8 *) (guintptr) managed)[9], ==, 3);
  SUCCEED (cuMemHostGetDevicePointer_v2 (&address, host + 8, 0));
  g_assert_true (address == (guintptr) (host + 8));
  ASSERT_STATUS (cuMemHostGetDevicePointer_v2 (&address, (void *) (guintptr) device, 0),
                 FAKE_CUDA_INVALID_VALUE);
  g_assert_cmpuint (ask_pointer (2, host), ==, 1);
  g_assert_cmpuint (ask_pointer (2, (void *) (guintptr) managed), ==, 2);
  g_assert_cmpuint (ask_pointer (8, (void *) (guintptr) managed), ==, 1);
  g_assert_cmpuint (ask_pointer (2, (void *) (guintptr) device), ==, 2);
  SUCCEED (cuPointerGetAttribute (&of_pointer, 1, device));
  g_assert_true (of_pointer == context);
  ASSERT_STATUS (cuPointerGetAttribute (&of_pointer, 1, (CUdeviceptr) (guintptr) &context),
                 FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuMemFree_v2 ((CUdeviceptr) (guintptr) host), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuMemFreeHost ((void *) (guintptr) managed), FAKE_CUDA_INVALID_VALUE);
  SUCCEED (cuMemFreeHost (host));
  ASSERT_STATUS (cuMemFreeHost (host), FAKE_CUDA_INVALID_VALUE);
  SUCCEED (cuMemFree_v2 (managed));
  SUCCEED (cuCtxDestroy_v2 (context));
}

static void
test_budget (void)
{
  CUcontext a = create_context (), b;
  CUdeviceptr address, managed;
  size_t available, total;

  fake->set_budget (0, 1000);
  address = allocate (600);
  b = create_context ();
  ASSERT_STATUS (cuMemAlloc_v2 (&managed, 401), FAKE_CUDA_OUT_OF_MEMORY);
  SUCCEED (cuMemAllocManaged (&managed, 399, 1));
  SUCCEED (cuMemGetInfo_v2 (&available, &total));
  g_assert_true (available == 1 && total == FAKE_CUDA_MEMORY_SIZE);
  SUCCEED (cuMemFree_v2 (managed));
  fake->set_budget (0, G_MAXUINT64);
  address = allocate (FAKE_CUDA_MEMORY_SIZE / 2); /* more than this machine has, or may have */
  SUCCEED (cuMemFree_v2 (address));
  ASSERT_STATUS (cuMemAlloc_v2 (&address, (gsize) FAKE_CUDA_MEMORY_SIZE + 1),
                 FAKE_CUDA_OUT_OF_MEMORY);
  ASSERT_STATUS (cuMemAlloc_v2 (&address, G_MAXSIZE), FAKE_CUDA_OUT_OF_MEMORY);
  SUCCEED (cuCtxDestroy_v2 (b));
  SUCCEED (cuCtxDestroy_v2 (a));
}

/* Control */

static void
test_failures (void)
{
  CUcontext context = create_context ();
  CUdeviceptr address;

  fake->reset ();
  fake->fail ("cuMemAlloc", 2, FALSE, 999);
  address = allocate (1);
  g_assert_null (fake->get_failed ());
  ASSERT_STATUS (cuMemAlloc_v2 (&address, 1), 999);
  g_assert_cmpstr (fake->get_failed (), ==, "cuMemAlloc");
  allocate (1);
  g_assert_cmpuint (fake->get_calls ("cuMemAlloc"), ==, 3);
  fake->fail (NULL, 2, TRUE, 700);
  SUCCEED (cuCtxSynchronize ());
  ASSERT_STATUS (cuMemFree_v2 (address), 700);
  ASSERT_STATUS (cuCtxSynchronize (), 700);
  g_assert_cmpstr (fake->get_failed (), ==, "cuMemFree");
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_DEVICE_MEMORY), ==, 2);
  fake->fail (NULL, 0, FALSE, 0);
  g_assert_cmpuint (fake->get_calls (NULL), ==, 6);
  SUCCEED (cuCtxDestroy_v2 (context));
}

static void
test_latency (void)
{
  gint64 start = g_get_monotonic_time ();

  fake->set_latency ("cuCtxGetCurrent", 20000);
  get_current ();
  g_assert_cmpint (g_get_monotonic_time () - start, >=, 20000);
}

static void
test_unknown_name (void)
{
  if (!g_test_subprocess ())
    {
      assert_crash ("*the fake driver has no function cuMemAlloc_v2*");
      return;
    }
  fake->get_calls ("cuMemAlloc_v2");
}

static void
test_environment (void)
{
  CUcontext context;
  size_t bytes;
  int n;

  if (!g_test_subprocess ())
    {
      g_setenv ("TARN_TESTING_CUDA_DEVICES", "4", TRUE);
      g_setenv ("TARN_TESTING_CUDA_FAIL", "cuDeviceGetName:101;cuCtxSynchronize:719", TRUE);
      g_setenv ("TARN_TESTING_CUDA_TOTAL_MEMORY", "1000000", TRUE);
      g_setenv ("TARN_TESTING_CUDA_REFUSE_CONTEXTS", "0,2", TRUE);
      g_test_trap_subprocess (NULL, 0, 0);
      g_unsetenv ("TARN_TESTING_CUDA_DEVICES");
      g_unsetenv ("TARN_TESTING_CUDA_FAIL");
      g_unsetenv ("TARN_TESTING_CUDA_TOTAL_MEMORY");
      g_unsetenv ("TARN_TESTING_CUDA_REFUSE_CONTEXTS");
      g_test_trap_assert_passed ();
      return;
    }
  SUCCEED (cuDeviceGetCount (&n));
  g_assert_cmpint (n, ==, 4);
  ASSERT_STATUS (cuDeviceGetName ((char *) &n, 4, 0), 101);
  ASSERT_STATUS (cuCtxSynchronize (), 719);
  SUCCEED (cuDeviceTotalMem_v2 (&bytes, 3));
  g_assert_cmpuint (bytes, ==, 1000000);
  ASSERT_STATUS (cuCtxCreate_v2 (&context, 0, 0), FAKE_CUDA_DEVICE_UNAVAILABLE);
  ASSERT_STATUS (cuCtxCreate_v2 (&context, 0, 2), FAKE_CUDA_DEVICE_UNAVAILABLE);
  SUCCEED (cuCtxCreate_v2 (&context, 0, 1));
  SUCCEED (cuCtxDestroy_v2 (context));
}

static void
test_fork (void)
{
  CUcontext context = create_context ();
  CUdeviceptr address = allocate (1);
  guint calls = fake->get_calls_after_fork ();
  gint status;
  pid_t child = fork ();

  g_assert_cmpint (child, >=, 0);
  if (child == 0)
    _exit (cuMemFree_v2 (address) == FAKE_CUDA_NOT_INITIALIZED
                   && cuInit (0) == FAKE_CUDA_NOT_INITIALIZED
                   && cuDriverGetVersion (&status) == FAKE_CUDA_SUCCESS
                   && fake->get_calls_after_fork () == calls + 3
               ? 0
               : 1);
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_cmpint (status, ==, 0);
  g_assert_cmpuint (fake->get_calls_after_fork (), ==, calls + 3);
  SUCCEED (cuMemFree_v2 (address));
  SUCCEED (cuCtxDestroy_v2 (context));
  g_assert_cmpuint (fake->get_calls_after_fork (), ==, calls + 3);
}

/* Many threads */

static gpointer
allocate_and_free (gpointer shared)
{
  CUcontext own;
  CUdeviceptr blocks[8] = { 0 };

  SUCCEED (cuCtxCreate_v2 (&own, 0, 1));
  for (guint i = 0; i < 2000; i++)
    {
      CUdeviceptr *block = &blocks[i % G_N_ELEMENTS (blocks)];

      SUCCEED (cuCtxPushCurrent_v2 (i % 3 == 0 ? shared : own));
      SUCCEED (cuMemFree_v2 (*block));
      *block = 0;
      if (cuMemAlloc_v2 (block, 1 + i % 1000) == FAKE_CUDA_SUCCESS)
        SUCCEED (cuMemsetD8_v2 (*block, (guint8) i, 1 + i % 1000));
      g_assert_cmpuint (fake->get_live_bytes (TARN_TESTING_CUDA_DEVICE_MEMORY), <=, 20000);
      SUCCEED (cuCtxPopCurrent_v2 (NULL));
    }
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    SUCCEED (cuMemFree_v2 (blocks[i]));
  SUCCEED (cuCtxDestroy_v2 (own));
  return NULL;
}

static void
test_threads (void)
{
  GThread *threads[4];
  CUcontext shared = create_context ();

  fake->set_budget (0, 10000);
  fake->set_budget (1, 10000);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("user", allocate_and_free, shared);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_DEVICE_MEMORY), ==, 0);
  g_assert_cmpuint (fake->get_strangers_freed (NULL, 0), >, 0);
  SUCCEED (cuCtxDestroy_v2 (shared));
}

int
main (int argc, char **argv)
{
  static const Case cases[] = {
    { "/cuda/fake/devices", test_devices },
    { "/cuda/fake/contexts/stack", test_stack },
    { "/cuda/fake/contexts/destroyed", test_destroyed },
    { "/cuda/fake/contexts/pop-destroyed", test_pop_destroyed },
    { "/cuda/fake/contexts/set-over-destroyed", test_set_over_destroyed },
    { "/cuda/fake/contexts/other-thread", test_other_thread },
    { "/cuda/fake/contexts/primary", test_primary },
    { "/cuda/fake/contexts/refused", test_refused },
    { "/cuda/fake/memory/device", test_memory },
    { "/cuda/fake/memory/bytes", test_bytes },
    { "/cuda/fake/memory/host-access", test_host_access },
    { "/cuda/fake/memory/strangers", test_strangers },
    { "/cuda/fake/memory/host-and-managed", test_host_and_managed },
    { "/cuda/fake/memory/budget", test_budget },
    { "/cuda/fake/control/failures", test_failures },
    { "/cuda/fake/control/latency", test_latency },
    { "/cuda/fake/control/unknown-name", test_unknown_name },
    { "/cuda/fake/control/environment", test_environment },
    { "/cuda/fake/fork", test_fork },
    { "/cuda/fake/threads", test_threads },
  };

  fake = tarn_fake_cuda ();
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda/fake/before-init", test_before_init);
  add_cases (cases, G_N_ELEMENTS (cases));
  return g_test_run ();
}
