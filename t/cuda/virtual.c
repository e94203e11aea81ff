/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What a heap makes blocks of: virtual memory of CUDA devices, and parts of all kinds of memory.
 * The same tests on a real driver and on fake ones, which are asked for more. */

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "allocator/allocator-private.h"
#include "driver.h"

static const TarnTestingCuda *fake;
static guint n_left; /* what calls kept that were to give it back, and failed: on the fake driver */

/* What Tarn has no business with.  X (name, "symbol", arguments) */
#define FUNCTIONS(X)                                                                               \
  X (cuMemsetD8, "cuMemsetD8_v2", (CUdeviceptr to, unsigned char value, size_t n))                 \
  X (cuMemcpyHtoD, "cuMemcpyHtoD_v2", (CUdeviceptr to, const void *from, size_t size))             \
  X (cuMemcpyDtoH, "cuMemcpyDtoH_v2", (void *to, CUdeviceptr from, size_t size))                   \
  X (cuMemGetAccess, "cuMemGetAccess",                                                             \
     (unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address))              \
  X (cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle",                                   \
     (CUmemGenericAllocationHandle * handle, void *address))                                       \
  X (cuMemGetAllocationPropertiesFromHandle, "cuMemGetAllocationPropertiesFromHandle",             \
     (CUmemAllocationProp * properties, CUmemGenericAllocationHandle handle))                      \
  X (cuMemExportToShareableHandle, "cuMemExportToShareableHandle",                                 \
     (void *shared, CUmemGenericAllocationHandle handle, unsigned int type,                        \
      unsigned long long flags))

static struct
{
#define X(name, symbol, arguments) unsigned int (*name) arguments;
  FUNCTIONS (X)
#undef X
} cuda; /* NULL where the driver has none */

#define LOCATION_TYPE_DEVICE 1
#define HANDLE_TYPE_POSIX_FILE_DESCRIPTOR 1
#define ACCESS_FLAGS_PROT_READWRITE 3

#define SUCCEED(call) g_assert_cmpuint (call, ==, 0)

static void
load (void)
{
  gpointer library = dlopen ("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

  if (library == NULL) /* there is no device, and no test */
    return;
#define X(name, symbol, arguments) *(gpointer *) &cuda.name = dlsym (library, symbol);
  FUNCTIONS (X)
#undef X
}

/* Memory of a device, seen as a heap sees it */

typedef struct
{
  TarnAllocator *allocator; /* a reference */
  const TarnAllocatorOps *ops;
  gpointer data;
  gsize unit;            /* the granularity */
  TarnMemory addresses;  /* UNITS of them, or none */
  TarnMemory backing[2]; /* of one unit, and of two; or none */
} Memory;

#define UNITS 8

static gboolean
memory_open (Memory *memory, CUcontext context, const TarnCudaDeviceOptions *options,
             GError **error)
{
  *memory = (Memory){ .allocator
                      = tarn_cuda_device_allocator_new_with_options (context, options, error) };
  if (memory->allocator == NULL)
    return FALSE;
  memory->ops = &memory->allocator->ops;
  memory->data = memory->allocator->user_data;
  memory->unit = memory->ops->virtual_granularity;
  return TRUE;
}

static gboolean
memory_fill (Memory *memory, GError **error)
{
  const TarnAllocatorOps *ops = memory->ops;

  if (!ops->addresses_reserve (memory->data, UNITS * memory->unit, &memory->addresses, error))
    return FALSE;
  for (gsize i = 0; i < 2; i++)
    if (!ops->backing_new (memory->data, (i + 1) * memory->unit, &memory->backing[i], error))
      return FALSE;
  return TRUE;
}

/* Nothing is mapped any more. */
static void
memory_clear (Memory *memory)
{
  for (gsize i = 0; i < 2; i++)
    if (memory->backing[i].address != 0)
      memory->ops->backing_release (memory->data, memory->backing[i], (i + 1) * memory->unit);
  if (memory->addresses.address != 0)
    memory->ops->addresses_release (memory->data, memory->addresses, UNITS * memory->unit);
  tarn_allocator_unref (memory->allocator);
  *memory = (Memory){ .allocator = NULL };
}

/* The address of a unit. */
static TarnMemory
memory_at (const Memory *memory, gsize unit)
{
  return (TarnMemory){ .address = memory->addresses.address + unit * memory->unit };
}

static CUdeviceptr
pointer_at (const Memory *memory, gsize unit)
{
  return (CUdeviceptr) memory_at (memory, unit).address;
}

static gboolean
map (Memory *memory, gsize backing, gsize unit, GError **error)
{
  return memory->ops->backing_map (memory->data, memory->backing[backing],
                                   (backing + 1) * memory->unit, memory_at (memory, unit), error);
}

static void
unmap (Memory *memory, gsize backing, gsize unit)
{
  memory->ops->backing_unmap (memory->data, memory_at (memory, unit), (backing + 1) * memory->unit);
}

static guint
count_live (void)
{
  guint n = 0;

  for (TarnTestingCudaKind kind = TARN_TESTING_CUDA_ADDRESSES; kind <= TARN_TESTING_CUDA_MAPPING;
       kind++)
    n += fake->get_live (kind);
  return n;
}

static void
assert_nothing_is_alive (void)
{
  if (fake == NULL)
    return;
  g_assert_cmpuint (count_live (), ==, n_left);
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_DEVICE_MEMORY), ==, 0);
}

/* FALSE, and the test is skipped: the device has no virtual memory. */
static gboolean
open_or_skip (Memory *memory, CUcontext context, const TarnCudaDeviceOptions *options)
{
  g_autoptr (TarnAllocator) plain = NULL;
  g_autoptr (GError) error = NULL;

  if (fake != NULL)
    fake->reset ();
  plain = tarn_cuda_device_allocator_new (context, &error);
  g_assert_no_error (error);
  if (plain->ops.virtual_granularity == 0)
    {
      g_test_skip ("the device has no virtual memory");
      return FALSE;
    }
  g_assert_true (memory_open (memory, context, options, &error));
  g_assert_no_error (error);
  return TRUE;
}

static gboolean
fill_or_skip (Memory *memory, CUcontext context, const TarnCudaDeviceOptions *options)
{
  g_autoptr (GError) error = NULL;

  if (!open_or_skip (memory, context, options))
    return FALSE;
  g_assert_true (memory_fill (memory, &error));
  g_assert_no_error (error);
  return TRUE;
}

static void
map_surely (Memory *memory, gsize backing, gsize unit)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (map (memory, backing, unit, &error));
  g_assert_no_error (error);
}

static void
assert_bytes (CUdeviceptr address, const gchar *expected)
{
  gchar bytes[8];
  gsize n = strlen (expected);

  g_assert_cmpuint (n, <=, sizeof bytes);
  SUCCEED (cuda.cuMemcpyDtoH (bytes, address, n));
  g_assert_cmpmem (bytes, n, expected, n);
}

/* Virtual memory */

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
  unmap (&memory, 1, 1);
  map_surely (&memory, 1, 5);
  assert_bytes (pointer_at (&memory, 5), "cd..");
  assert_bytes (pointer_at (&memory, 7) - 2, "..");
  assert_bytes (pointer_at (&memory, 1) - 3, ".ab");
  unmap (&memory, 0, 0);
  map_surely (&memory, 0, 4);
  assert_bytes (pointer_at (&memory, 5) - 3, ".abcd.");
  unmap (&memory, 0, 4);
  unmap (&memory, 1, 5);
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
  unmap (&memory, 1, 3);
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
      g_assert_false (map (&memory, 1, 1, &errors[0]));
      g_assert_false (memory.ops->backing_new (memory.data, memory.unit, &other, &errors[1]));
      g_assert_false (memory.ops->addresses_reserve (memory.data, memory.unit, &other, &errors[2]));
      for (gsize i = 0; i < G_N_ELEMENTS (errors); i++)
        g_assert_error (errors[i], TARN_ERROR, TARN_ERROR_CONTEXT_LOST);
      for (gsize i = 0; i < G_N_ELEMENTS (errors); i++)
        g_clear_error (&errors[i]);
    }
  g_assert_cmpuint (other.address, ==, 0);
  assert_bytes (pointer_at (&memory, 0), "abcd");
  unmap (&memory, 0, 0);
  memory_clear (&memory);
  assert_nothing_is_alive ();
}

static void
assert_out_of_memory (GError **error, const gchar *call, gsize size)
{
  g_autofree gchar *text = g_strdup_printf (" (2) for %" G_GSIZE_FORMAT " bytes", size);

  g_assert_error (*error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
  g_assert_true (g_str_has_prefix ((*error)->message, call));
  g_assert_nonnull (strstr ((*error)->message, text));
  g_clear_error (error);
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
  if (!memory_fill (memory, error) || !map (memory, 0, 0, error))
    return FALSE;
  if (map (memory, 1, 1, error))
    {
      unmap (memory, 1, 1);
      unmap (memory, 0, 0);
      return TRUE;
    }
  unmap (memory, 0, 0);
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
  g_assert_false (map (&memory, 1, 2, &error));
  assert_out_of_memory (&error, "cuMemSetAccess", 2 * memory.unit);
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_MAPPING), ==, n_mapped);
  map_surely (&memory, 1, 2);
  unmap (&memory, 1, 2);
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
  unmap (&memory, 0, 0);
  memory_clear (&memory);
  fake->fail (NULL, 0, FALSE, 0);
  g_log_remove_handler ("Tarn-CUDA", handler);
  g_assert_cmpuint (n_messages, ==, 0);
  n_left = count_live ();
}

/* GPUDirect RDMA */

static gboolean
has_rdma (TarnMemory backing)
{
  CUmemAllocationProp properties;

  SUCCEED (cuda.cuMemGetAllocationPropertiesFromHandle (&properties, backing.address));
  return properties.allocFlags.gpuDirectRDMACapable != 0;
}

static gboolean
make_one (Memory *memory, gboolean *is_capable, GError **error)
{
  TarnMemory backing = { .address = 0 };

  if (!memory->ops->backing_new (memory->data, memory->unit, &backing, error))
    return FALSE;
  *is_capable = has_rdma (backing);
  memory->ops->backing_release (memory->data, backing, memory->unit);
  return TRUE;
}

/* Where the driver refuses it in spite of what the device says, memory is made without. */
static void
test_rdma (const TarnCudaTest *test, gconstpointer unused)
{
  gboolean is_capable;
  GError *error = NULL;
  Memory memory;

  (void) unused;
  if (!open_or_skip (&memory, test->context, NULL))
    return;
  g_assert_true (make_one (&memory, &is_capable, &error));
  g_assert_true (is_capable);

  fake->fail ("cuMemCreate", 1, FALSE, FAKE_CUDA_OUT_OF_MEMORY);
  g_assert_false (make_one (&memory, &is_capable, &error)); /* without would be no better */
  assert_out_of_memory (&error, "cuMemCreate", memory.unit);
  fake->fail ("cuMemCreate", 1, TRUE, FAKE_CUDA_NOT_SUPPORTED);
  g_assert_false (make_one (&memory, &is_capable, &error)); /* nor is it */
  g_assert_error (error, TARN_CUDA_ERROR, FAKE_CUDA_NOT_SUPPORTED);
  g_clear_error (&error);
  fake->fail (NULL, 0, FALSE, 0);
  g_assert_true (make_one (&memory, &is_capable, &error));
  g_assert_true (is_capable);

  fake->fail ("cuMemCreate", 1, FALSE, FAKE_CUDA_NOT_SUPPORTED);
  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_MESSAGE,
                         "cuMemCreate: CUDA_ERROR_NOT_SUPPORTED (801): *without GPUDirect RDMA");
  g_assert_true (make_one (&memory, &is_capable, &error));
  g_test_assert_expected_messages ();
  g_assert_false (is_capable);
  g_assert_true (make_one (&memory, &is_capable, &error)); /* and no message */
  g_assert_false (is_capable);
  g_assert_cmpuint (fake->get_calls ("cuMemCreate"), ==, 8);
  memory_clear (&memory);
  assert_nothing_is_alive ();
}

static void
test_no_rdma (const TarnCudaTest *test, gconstpointer unused)
{
  gboolean is_capable;
  Memory memory;

  (void) unused;
  if (!open_or_skip (&memory, test->context, NULL))
    return;
  memory_clear (&memory);
  fake->set_attribute (test->device, 110, 0);
  g_assert_true (memory_open (&memory, test->context, NULL, NULL));
  g_assert_true (make_one (&memory, &is_capable, NULL));
  g_assert_false (is_capable);
  memory_clear (&memory);
}

/* Options */

static void
refuse (CUcontext context, const TarnCudaDeviceOptions *options, GQuark domain, gint code,
        const gchar *text)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (tarn_cuda_device_allocator_new_with_options (context, options, &error));
  g_assert_error (error, domain, code);
  g_assert_nonnull (strstr (error->message, text));
}

static void
test_plain (const TarnCudaTest *test, gconstpointer unused)
{
  TarnCudaDeviceOptions options = TARN_CUDA_DEVICE_OPTIONS_INIT;
  g_autoptr (GError) error = NULL;
  g_autoptr (TarnBlock) block = NULL;
  Memory memory;

  (void) unused;
  options.plain_memory = TRUE;
  g_assert_true (memory_open (&memory, test->context, &options, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (memory.unit, ==, 0);
  g_assert_null (memory.ops->backing_new);
  g_assert_nonnull (memory.ops->part_new);
  block = tarn_allocator_allocate (memory.allocator, 1000, &error);
  g_assert_no_error (error);
  memory_clear (&memory);
  options.exportable = TRUE;
  refuse (test->context, &options, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT, "plain_memory");
  options.exportable = FALSE;
  options.peers = &test->device;
  options.n_peers = 1;
  refuse (test->context, &options, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT, "plain_memory");
  options.plain_memory = FALSE;
  options.peers = NULL;
  refuse (test->context, &options, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT, "n_peers");
}

/* What a driver, or a device, without virtual memory cannot do; all else goes on. */
static void
check_none (CUcontext context)
{
  TarnCudaDeviceOptions options = TARN_CUDA_DEVICE_OPTIONS_INIT;
  const CUdevice peers[] = { 0, 1 };
  Memory memory;

  g_assert_true (memory_open (&memory, context, &options, NULL));
  g_assert_cmpuint (memory.unit, ==, 0);
  g_assert_null (memory.ops->addresses_reserve);
  memory_clear (&memory);
  options.exportable = TRUE;
  refuse (context, &options, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED, "no virtual memory");
  options.exportable = FALSE;
  options.peers = peers;
  options.n_peers = 2;
  refuse (context, &options, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED, "no virtual memory");
}

static void
test_none (const TarnCudaTest *test, gconstpointer unused)
{
  (void) unused;
  fake->reset ();
  if (cuda_get_driver ()->cuMemCreate == NULL)
    {
      check_none (test->context);
      return;
    }
  fake->set_attribute (test->device, 102, 0);
  check_none (test->context);
  fake->reset ();
  fake->fail ("cuDeviceGetAttribute", 1, TRUE, FAKE_CUDA_INVALID_VALUE); /* it does not know it */
  check_none (test->context);
  fake->reset ();
  fake->fail ("cuMemGetAllocationGranularity", 1, TRUE, FAKE_CUDA_NOT_SUPPORTED);
  check_none (test->context);
  fake->reset ();
}

static guint
get_access (CUdeviceptr address, CUdevice device)
{
  CUmemLocation location = { LOCATION_TYPE_DEVICE, device };
  unsigned long long flags = 0;

  SUCCEED (cuda.cuMemGetAccess (&flags, &location, address));
  return (guint) flags;
}

static gint
count_devices (void)
{
  int n = 0;

  SUCCEED (cuda_get_driver ()->cuDeviceGetCount (&n));
  return n;
}

static void
test_peers (const TarnCudaTest *test, gconstpointer unused)
{
  TarnCudaDeviceOptions options = TARN_CUDA_DEVICE_OPTIONS_INIT;
  CUdevice peers[] = { test->device, 1 - test->device, test->device };
  CUcontext other, popped;
  Memory memory;

  (void) unused;
  if (test->device > 1 || count_devices () < 2)
    {
      g_test_skip ("this is for the first two devices");
      return;
    }
  options.peers = peers;
  options.n_peers = G_N_ELEMENTS (peers);
  if (!fill_or_skip (&memory, test->context, &options))
    return;
  peers[1] = test->device; /* they were copied */
  map_surely (&memory, 0, 0);
  for (CUdevice device = 0; device < 2; device++)
    g_assert_cmpuint (get_access (pointer_at (&memory, 0), device), ==,
                      ACCESS_FLAGS_PROT_READWRITE);
  SUCCEED (cuda.cuMemcpyHtoD (pointer_at (&memory, 0), "abcd", 4));
  other = cuda_context_new (1 - test->device);
  SUCCEED (cuda_get_driver ()->cuCtxPushCurrent (other));
  assert_bytes (pointer_at (&memory, 0), "abcd");
  SUCCEED (cuda_get_driver ()->cuCtxPopCurrent (&popped));
  SUCCEED (cuda_get_driver ()->cuCtxDestroy (other));
  unmap (&memory, 0, 0);
  memory_clear (&memory);
  assert_nothing_is_alive ();
}

static void
test_no_peers (const TarnCudaTest *test, gconstpointer unused)
{
  TarnCudaDeviceOptions options = TARN_CUDA_DEVICE_OPTIONS_INIT;
  CUdevice peer = 1 - test->device;
  Memory memory;

  (void) unused;
  if (!fill_or_skip (&memory, test->context, NULL))
    return;
  map_surely (&memory, 0, 0);
  g_assert_cmpuint (get_access (pointer_at (&memory, 0), test->device), ==,
                    ACCESS_FLAGS_PROT_READWRITE);
  g_assert_cmpuint (get_access (pointer_at (&memory, 0), peer), ==, 0);
  unmap (&memory, 0, 0);
  memory_clear (&memory);

  options.peers = &peer;
  options.n_peers = 1;
  fake->set_part (peer, TRUE);
  refuse (test->context, &options, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED, "cannot use memory of");
  fake->reset ();
  fake->set_attribute (peer, 102, 0);
  refuse (test->context, &options, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED, "no virtual memory");
  fake->reset ();
  peer = 2;
  refuse (test->context, &options, TARN_CUDA_ERROR, FAKE_CUDA_INVALID_DEVICE,
          "cuDeviceCanAccessPeer");
  assert_nothing_is_alive ();
}

/* As TarnCudaDeviceOptions says it is done. */
static void
test_exportable (const TarnCudaTest *test, gconstpointer unused)
{
  TarnCudaDeviceOptions options = TARN_CUDA_DEVICE_OPTIONS_INIT;
  CUmemGenericAllocationHandle handle;
  int shared = -1;
  Memory memory;

  (void) unused;
  options.exportable = TRUE;
  if (!fill_or_skip (&memory, test->context, &options))
    return;
  map_surely (&memory, 1, 1);
  SUCCEED (cuda.cuMemRetainAllocationHandle (&handle,
                                             (void *) (guintptr) (pointer_at (&memory, 3) - 5)));
  SUCCEED (
      cuda.cuMemExportToShareableHandle (&shared, handle, HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  g_assert_cmpint (close (shared), ==, 0);
  SUCCEED (cuda_get_driver ()->cuMemRelease (handle));
  unmap (&memory, 1, 1);
  memory_clear (&memory);
  assert_nothing_is_alive ();
  if (fake == NULL)
    return;
  fake->set_attribute (test->device, 103, 0);
  refuse (test->context, &options, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED, "cannot export memory");
  fake->reset ();
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
  tarn_cuda_test_add ("virtual/peers", test_peers, NULL);
  tarn_cuda_test_add ("virtual/exportable", test_exportable, NULL);
  if (fake == NULL)
    return;
  tarn_cuda_test_add ("virtual/no-peers", test_no_peers, NULL);
  tarn_cuda_test_add ("virtual/rdma", test_rdma, NULL);
  tarn_cuda_test_add ("virtual/no-rdma", test_no_rdma, NULL);
  tarn_cuda_test_add ("virtual/no-access", test_no_access, NULL);
  tarn_cuda_test_add ("virtual/failures", test_failures, NULL);
  tarn_cuda_test_add ("virtual/deinitialized", test_deinitialized, NULL);
}

int
main (int argc, char **argv)
{
  fake = cuda_get_fake ();
  g_test_init (&argc, &argv, NULL);
  load ();
  tarn_cuda_test_add ("virtual/plain", test_plain, NULL);
  tarn_cuda_test_add ("virtual/parts", test_parts, NULL);
  if (fake != NULL)
    tarn_cuda_test_add ("virtual/none", test_none, NULL);
  if (fake == NULL || cuda_get_driver ()->cuMemCreate != NULL)
    add_virtual_tests ();
  return g_test_run ();
}
