/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The options of memory of CUDA devices, TarnCudaDeviceOptions: plain, exportable, and for peers;
 * and GPUDirect RDMA, for which all of it is made.  The same tests on a real driver and on fake
 * ones, which have devices that cannot do these things. */

#include <string.h>
#include <unistd.h>

#include "virtual-fixture.h"

#define LOCATION_TYPE_DEVICE 1
#define HANDLE_TYPE_POSIX_FILE_DESCRIPTOR 1
#define ACCESS_FLAGS_PROT_READWRITE 3

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

/* Without virtual memory, an allocator offers none, and refuses the options that need it. */
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
  memory_unmap (&memory, 0, 0);
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
  memory_unmap (&memory, 0, 0);
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
  memory_unmap (&memory, 1, 1);
  memory_clear (&memory);
  assert_nothing_is_alive ();
  if (fake == NULL)
    return;
  fake->set_attribute (test->device, 103, 0);
  refuse (test->context, &options, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED, "cannot export memory");
  fake->reset ();
}

static void
add_virtual_tests (void)
{
  tarn_cuda_test_add ("virtual/peers", test_peers, NULL);
  tarn_cuda_test_add ("virtual/exportable", test_exportable, NULL);
  if (fake == NULL)
    return;
  tarn_cuda_test_add ("virtual/no-peers", test_no_peers, NULL);
  tarn_cuda_test_add ("virtual/rdma", test_rdma, NULL);
  tarn_cuda_test_add ("virtual/no-rdma", test_no_rdma, NULL);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  virtual_init (cuda_get_fake ());
  tarn_cuda_test_add ("virtual/plain", test_plain, NULL);
  if (fake != NULL)
    tarn_cuda_test_add ("virtual/none", test_none, NULL);
  if (fake == NULL || cuda_get_driver ()->cuMemCreate != NULL)
    add_virtual_tests ();
  return g_test_run ();
}
