/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The fake driver's virtual memory.  What each call says was seen on an H200, but for what ends the
 * test here. */

#include "cuda-fixture.h"

#include <fcntl.h>
#include <unistd.h>

#define G FAKE_CUDA_GRANULARITY

static CUmemAllocationProp
make_properties (CUdevice device)
{
  return (CUmemAllocationProp){ .type = 1, .location = { 1, device } };
}

static CUdeviceptr
reserve (gsize n)
{
  CUdeviceptr address;

  SUCCEED (cuMemAddressReserve (&address, n * G, 0, 0, 0));
  g_assert_cmpuint (address % G, ==, 0);
  return address;
}

static CUmemGenericAllocationHandle
create_on (CUdevice device, gsize n)
{
  CUmemAllocationProp properties = make_properties (device);
  CUmemGenericAllocationHandle handle;

  SUCCEED (cuMemCreate (&handle, n * G, &properties, 0));
  return handle;
}

static CUmemGenericAllocationHandle
create (gsize n)
{
  return create_on (0, n);
}

static guint
set_access (CUdeviceptr address, gsize n, CUdevice device, guint flags)
{
  CUmemAccessDesc access = { { 1, device }, flags };

  return cuMemSetAccess (address, n * G, &access, 1);
}

static void
map (CUdeviceptr address, gsize n, CUmemGenericAllocationHandle handle)
{
  SUCCEED (cuMemMap (address, n * G, 0, handle, 0));
  SUCCEED (set_access (address, n, 0, 3));
}

static void
assert_live (guint addresses, guint backings, guint mappings)
{
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_ADDRESSES), ==, addresses);
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_BACKING), ==, backings);
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_MAPPING), ==, mappings);
}

/* A backing that moves keeps its bytes; what is written across a seam is in both. */
static void
test_bytes (void)
{
  CUcontext context = create_context ();
  CUdeviceptr at = reserve (8);
  CUmemGenericAllocationHandle a = create (1), b = create (2);
  guint8 bytes[4] = { 0 };

  map (at, 1, a);
  map (at + G, 2, b);
  assert_live (1, 2, 2);
  g_assert_cmpuint (fake->get_live_bytes (TARN_TESTING_CUDA_ADDRESSES), ==, 8 * G);
  g_assert_cmpuint (fake->get_live_bytes (TARN_TESTING_CUDA_BACKING), ==, 3 * G);
  SUCCEED (cuMemcpyDtoH_v2 (bytes, at + G, 1));
  g_assert_cmpuint (bytes[0], !=, 0); /* nobody is promised a zero */
  SUCCEED (cuMemsetD8_v2 (at, 7, 3 * G));
  SUCCEED (cuMemcpyHtoD_v2 (at + G - 2, "abcd", 4));
  SUCCEED (cuMemcpyDtoH_v2 (bytes, at + G - 2, 4));
  g_assert_cmpmem (bytes, 4, "abcd", 4);
  g_assert_cmpint (*(gchar *) (guintptr) (at + G), ==, 'c');
  SUCCEED (cuMemUnmap (at + G, 2 * G));
  map (at + 4 * G, 2, b);
  SUCCEED (cuMemcpyDtoH_v2 (bytes, at + 4 * G, 3));
  g_assert_cmpmem (bytes, 3, "cd\7", 3);
  SUCCEED (cuMemUnmap (at, G));
  SUCCEED (cuMemUnmap (at + 4 * G, 2 * G));
  SUCCEED (cuMemRelease (a));
  SUCCEED (cuMemRelease (b));
  SUCCEED (cuMemAddressFree (at, 8 * G));
  SUCCEED (cuCtxDestroy_v2 (context));
}

/* None is needed, and it goes with none. */
static void
test_contexts (void)
{
  CUdeviceptr at = reserve (1);
  CUmemGenericAllocationHandle handle = create (1);
  CUcontext first, second, owner;
  guint8 byte = 0;

  map (at, 1, handle);
  ASSERT_STATUS (cuMemsetD8_v2 (at, 7, 1), FAKE_CUDA_INVALID_CONTEXT);
  first = create_context ();
  SUCCEED (cuMemsetD8_v2 (at, 7, 1));
  SUCCEED (cuPointerGetAttribute (&owner, 1, at));
  g_assert_null (owner);
  SUCCEED (cuCtxDestroy_v2 (first));
  second = create_context ();
  SUCCEED (cuMemcpyDtoH_v2 (&byte, at, 1));
  g_assert_cmpuint (byte, ==, 7);
  ASSERT_STATUS (cuMemFree_v2 (at), FAKE_CUDA_INVALID_VALUE);
  SUCCEED (cuCtxDestroy_v2 (second));
  assert_live (1, 1, 1);
  SUCCEED (cuMemUnmap (at, G));
  SUCCEED (cuMemRelease (handle));
  SUCCEED (cuMemAddressFree (at, G));
}

/* Memory that is reserved, mapped without access, or both but for its end. */
static void
test_out_of_reach (void)
{
  CUcontext context = create_context ();
  CUdeviceptr at = reserve (3);
  CUmemGenericAllocationHandle a = create (1), b = create (1);

  ASSERT_STATUS (cuMemsetD8_v2 (at, 7, 1), FAKE_CUDA_INVALID_VALUE);
  SUCCEED (cuMemMap (at, G, 0, a, 0));
  ASSERT_STATUS (cuMemsetD8_v2 (at, 7, 1), FAKE_CUDA_INVALID_VALUE);
  SUCCEED (set_access (at, 1, 0, 3));
  SUCCEED (cuMemsetD8_v2 (at, 7, G));
  ASSERT_STATUS (cuMemsetD8_v2 (at, 7, G + 1), FAKE_CUDA_INVALID_VALUE);
  SUCCEED (cuMemMap (at + G, G, 0, b, 0));
  ASSERT_STATUS (cuMemsetD32Async (at + G - 4, 7, 2, NULL), FAKE_CUDA_INVALID_VALUE);
  SUCCEED (set_access (at, 2, 0, 3)); /* both at once */
  SUCCEED (cuMemsetD32Async (at + G - 4, 7, 2, NULL));
  SUCCEED (set_access (at, 1, 0, 0));
  ASSERT_STATUS (cuMemsetD8_v2 (at, 7, 1), FAKE_CUDA_INVALID_VALUE);
  SUCCEED (cuMemUnmap (at, 2 * G)); /* both at once */
  map (at, 1, a);
  SUCCEED (cuMemUnmap (at, G));
  ASSERT_STATUS (cuMemsetD8_v2 (at, 7, 1), FAKE_CUDA_INVALID_VALUE);
  SUCCEED (cuMemRelease (a));
  SUCCEED (cuMemRelease (b));
  SUCCEED (cuMemAddressFree (at, 3 * G));
  SUCCEED (cuCtxDestroy_v2 (context));
}

static void
test_reservations (void)
{
  CUdeviceptr at = 7, other;

  ASSERT_STATUS (cuMemAddressReserve (&at, G + 1, 0, 0, 0), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuMemAddressReserve (&at, 0, 0, 0, 0), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuMemAddressReserve (&at, G, 3, 0, 0), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuMemAddressReserve (&at, G_MAXSIZE - G + 1, 0, 0, 0), FAKE_CUDA_OUT_OF_MEMORY);
  g_assert_cmpuint (at, ==, 7);
  SUCCEED (cuMemAddressReserve (&at, G, 16 * G, 0, 0));
  g_assert_cmpuint (at % (16 * G), ==, 0);
  other = reserve (sizeof (gsize) > 4 ? 1 << 18 : 8); /* 512 GiB: far more than there is */
  ASSERT_STATUS (cuMemAddressFree (at + G, G), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuMemAddressFree (at, 2 * G), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuMemAddressFree (other, G), FAKE_CUDA_INVALID_VALUE);
  SUCCEED (cuMemAddressFree (other, (sizeof (gsize) > 4 ? 1 << 18 : 8) * G));
  SUCCEED (cuMemAddressFree (at, G));
  ASSERT_STATUS (cuMemAddressFree (at, G), FAKE_CUDA_INVALID_VALUE);
}

static void
test_mappings (void)
{
  CUdeviceptr at = reserve (4);
  CUmemGenericAllocationHandle a = create (1), b = create (2);

  map (at, 2, b);
  ASSERT_STATUS (cuMemMap (at, G, 0, a, 0), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuMemMap (at + G, G, 0, a, 0), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuMemMap (at + 2 * G, G, 0, b, 0), 801); /* not all of it */
  ASSERT_STATUS (cuMemMap (at + 2 * G, 2 * G, 0, a, 0), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuMemMap (at + 2 * G + 4096, G, 0, a, 0), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuMemMap (G, G, 0, a, 0), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (set_access (at, 1, 0, 3), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (set_access (at, 3, 0, 3), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (set_access (at + 2 * G, 1, 0, 3), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuMemUnmap (at, G), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuMemUnmap (at + G, G), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuMemAddressFree (at, 4 * G), FAKE_CUDA_INVALID_VALUE);
  SUCCEED (cuMemMap (at + 2 * G, 2 * G, 0, b, 0)); /* the same again */
  assert_live (1, 2, 2);
  SUCCEED (cuMemRelease (b));
  SUCCEED (cuMemUnmap (at, 2 * G));
  assert_live (1, 2, 1);
  SUCCEED (cuMemUnmap (at + 2 * G, 2 * G));
  assert_live (1, 1, 0);
  ASSERT_STATUS (cuMemRelease (b), FAKE_CUDA_INVALID_VALUE);
  SUCCEED (cuMemRelease (a));
  ASSERT_STATUS (cuMemRelease (a), FAKE_CUDA_INVALID_VALUE);
  g_assert_cmpuint (create (1), ==, a); /* the handle of what was released last */
  SUCCEED (cuMemRelease (a));
  SUCCEED (cuMemAddressFree (at, 4 * G));
}

/* Whatever is asked for that a device lacks. */
static void
test_properties (void)
{
  CUmemAllocationProp properties = make_properties (1);
  CUmemGenericAllocationHandle handle = 7;
  size_t bytes;

  SUCCEED (cuMemGetAllocationGranularity (&bytes, &properties, 0));
  g_assert_cmpuint (bytes, ==, G);
  ASSERT_STATUS (cuMemCreate (&handle, G - 1, &properties, 0), FAKE_CUDA_INVALID_VALUE);
  properties.requestedHandleTypes = 4;
  ASSERT_STATUS (cuMemCreate (&handle, G, &properties, 0), FAKE_CUDA_INVALID_VALUE);
  properties.requestedHandleTypes = 1;
  fake->set_attribute (1, 103, 0);
  ASSERT_STATUS (cuMemCreate (&handle, G, &properties, 0), FAKE_CUDA_NOT_SUPPORTED);
  properties = make_properties (1);
  properties.allocFlags.gpuDirectRDMACapable = 1;
  fake->set_attribute (1, 110, 0);
  ASSERT_STATUS (cuMemCreate (&handle, G, &properties, 0), FAKE_CUDA_NOT_SUPPORTED);
  properties = make_properties (1);
  fake->set_attribute (1, 102, 0);
  ASSERT_STATUS (cuMemCreate (&handle, G, &properties, 0), FAKE_CUDA_NOT_SUPPORTED);
  ASSERT_STATUS (cuMemGetAllocationGranularity (&bytes, &properties, 0), FAKE_CUDA_NOT_SUPPORTED);
  properties = make_properties (2);
  ASSERT_STATUS (cuMemCreate (&handle, G, &properties, 0), FAKE_CUDA_INVALID_DEVICE);
  g_assert_cmpuint (handle, ==, 7);
}

static void
test_exported (void)
{
  CUmemAllocationProp properties = make_properties (1), found;
  CUmemGenericAllocationHandle handle, again;
  CUdeviceptr at = reserve (1);
  int shared = -1;

  properties.requestedHandleTypes = properties.allocFlags.gpuDirectRDMACapable = 1;
  SUCCEED (cuMemCreate (&handle, G, &properties, 0));
  SUCCEED (cuMemMap (at, G, 0, handle, 0));
  SUCCEED (cuMemRelease (handle));
  SUCCEED (cuMemRetainAllocationHandle (&again, (void *) (guintptr) (at + G - 1)));
  SUCCEED (cuMemGetAllocationPropertiesFromHandle (&found, again));
  g_assert_cmpmem (&found, sizeof found, &properties, sizeof properties);
  SUCCEED (cuMemExportToShareableHandle (&shared, again, 1, 0));
  g_assert_cmpint (fcntl (shared, F_GETFD), ==, FD_CLOEXEC);
  close (shared);
  SUCCEED (cuMemRelease (again));
  SUCCEED (cuMemUnmap (at, G));
  ASSERT_STATUS (cuMemRetainAllocationHandle (&again, (void *) (guintptr) at),
                 FAKE_CUDA_INVALID_VALUE);
  again = create (1);
  ASSERT_STATUS (cuMemExportToShareableHandle (&shared, again, 1, 0), FAKE_CUDA_INVALID_VALUE);
  SUCCEED (cuMemRelease (again));
  SUCCEED (cuMemAddressFree (at, G));
}

/* Two devices, each of which needs access. */
static void
test_peers (void)
{
  const CUmemAccessDesc both[] = { { { 1, 0 }, 3 }, { { 1, 1 }, 3 } };
  CUmemLocation other = { 1, 1 };
  CUmemGenericAllocationHandle handle = create (1);
  CUdeviceptr at = reserve (1);
  unsigned long long flags;
  CUcontext context;
  int can_access;

  SUCCEED (cuDeviceCanAccessPeer (&can_access, 1, 0));
  g_assert_true (can_access);
  SUCCEED (cuDeviceCanAccessPeer (&can_access, 1, 1));
  g_assert_false (can_access);
  ASSERT_STATUS (cuDeviceCanAccessPeer (&can_access, 1, 2), FAKE_CUDA_INVALID_DEVICE);
  map (at, 1, handle);
  SUCCEED (cuMemGetAccess (&flags, &other, at));
  g_assert_cmpuint (flags, ==, 0);
  SUCCEED (cuCtxCreate_v2 (&context, 0, 1));
  ASSERT_STATUS (cuMemsetD8_v2 (at, 7, 1), FAKE_CUDA_INVALID_VALUE);
  SUCCEED (cuMemSetAccess (at, G, both, 2));
  SUCCEED (cuMemGetAccess (&flags, &other, at));
  g_assert_cmpuint (flags, ==, 3);
  SUCCEED (cuMemsetD8_v2 (at, 7, 1));
  ASSERT_STATUS (set_access (at, 1, 2, 3), FAKE_CUDA_INVALID_DEVICE);
  fake->set_part (1, TRUE);
  SUCCEED (cuDeviceCanAccessPeer (&can_access, 1, 0));
  g_assert_false (can_access);
  ASSERT_STATUS (set_access (at, 1, 1, 3), FAKE_CUDA_INVALID_DEVICE);
  SUCCEED (cuMemUnmap (at, G));
  SUCCEED (cuMemRelease (handle));
  SUCCEED (cuMemAddressFree (at, G));
  SUCCEED (cuCtxDestroy_v2 (context));
}

static void
test_budget (void)
{
  CUmemAllocationProp properties = make_properties (0);
  CUmemGenericAllocationHandle handle, other;
  CUcontext context = create_context ();
  CUdeviceptr address;
  size_t available, total;

  fake->set_budget (0, 4 * G);
  handle = create (3);
  ASSERT_STATUS (cuMemCreate (&other, 2 * G, &properties, 0), FAKE_CUDA_OUT_OF_MEMORY);
  other = create_on (1, 2); /* another device's */
  SUCCEED (cuMemGetInfo_v2 (&available, &total));
  g_assert_cmpuint (available, ==, G);
  ASSERT_STATUS (cuMemAlloc_v2 (&address, G + 1), FAKE_CUDA_OUT_OF_MEMORY);
  address = allocate (G);
  SUCCEED (cuMemFree_v2 (address));
  SUCCEED (cuMemRelease (handle));
  SUCCEED (cuMemRelease (other));
  SUCCEED (cuMemGetInfo_v2 (&available, &total));
  g_assert_cmpuint (available, ==, 4 * G);
  SUCCEED (cuCtxDestroy_v2 (context));
}

static void
test_failures (void)
{
  CUmemAllocationProp properties = make_properties (0);
  CUmemGenericAllocationHandle handle;

  fake->fail ("cuMemCreate", 2, FALSE, 999);
  handle = create (1);
  ASSERT_STATUS (cuMemCreate (&handle, G, &properties, 0), 999);
  SUCCEED (cuMemRelease (handle));
  assert_live (0, 0, 0);
}

static void
test_captured (void)
{
  CUcontext context = create_context ();
  CUmemGenericAllocationHandle handle;
  CUdeviceptr at;
  CUstream stream;
  CUgraph graph;

  SUCCEED (cuStreamCreate (&stream, 1));
  SUCCEED (cuStreamBeginCapture_v2 (stream, 0));
  at = reserve (1);
  handle = create (1);
  map (at, 1, handle);
  SUCCEED (cuMemUnmap (at, G));
  SUCCEED (cuMemRelease (handle));
  SUCCEED (cuMemAddressFree (at, G));
  SUCCEED (cuStreamEndCapture (stream, &graph));
  SUCCEED (cuGraphDestroy (graph));
  SUCCEED (cuStreamDestroy_v2 (stream));
  SUCCEED (cuCtxDestroy_v2 (context));
}

/* What ends the test */

static void
test_never_a_handle (void)
{
  if (!g_test_subprocess ())
    assert_crash ("*cuMemMap: 0x5 is no handle*");
  else
    cuMemMap (reserve (1), G, 0, 5, 0);
}

static void
test_beyond_end (void)
{
  if (!g_test_subprocess ())
    assert_crash ("*more is mapped than was reserved*");
  else
    cuMemMap (reserve (2) + G, 2 * G, 0, create (2), 0);
}

static void
test_unmapped (void)
{
  if (!g_test_subprocess ())
    assert_crash ("*cuMemUnmap: nothing is mapped there*");
  else
    cuMemUnmap (reserve (1), G);
}

/* A command that comes to memory after it was unmapped. */
static void
test_unmapped_in_use (void)
{
  CUmemGenericAllocationHandle handle;
  CUstream stream;
  CUdeviceptr at;

  if (!g_test_subprocess ())
    {
      assert_crash ("*the memory is gone before the command is done*");
      return;
    }
  create_context ();
  SUCCEED (cuStreamCreate (&stream, 1));
  at = reserve (1);
  handle = create (1);
  map (at, 1, handle);
  fake->put_work (stream);
  SUCCEED (cuMemsetD32Async (at, 7, 1, stream));
  SUCCEED (cuMemUnmap (at, G));
  fake->finish_all_work ();
}

/* The host, too, has nothing there, and what was there is gone. */
static void
test_host_access (void)
{
  if (!g_test_subprocess ())
    {
      assert_crash (NULL);
      return;
    }
  *(volatile guint8 *) (guintptr) reserve (1) = 0;
  _exit (0);
}

static void
test_late_host_access (void)
{
  CUmemGenericAllocationHandle handle;
  CUdeviceptr at;

  if (!g_test_subprocess ())
    {
      assert_crash (NULL);
      return;
    }
  at = reserve (1);
  handle = create (1);
  map (at, 1, handle);
  SUCCEED (cuMemUnmap (at, G));
  *(volatile guint8 *) (guintptr) at = 0;
  _exit (0);
}

int
main (int argc, char **argv)
{
  static const Case cases[] = {
    { "/cuda/fake/virtual/bytes", test_bytes },
    { "/cuda/fake/virtual/contexts", test_contexts },
    { "/cuda/fake/virtual/out-of-reach", test_out_of_reach },
    { "/cuda/fake/virtual/reservations", test_reservations },
    { "/cuda/fake/virtual/mappings", test_mappings },
    { "/cuda/fake/virtual/properties", test_properties },
    { "/cuda/fake/virtual/exported", test_exported },
    { "/cuda/fake/virtual/peers", test_peers },
    { "/cuda/fake/virtual/budget", test_budget },
    { "/cuda/fake/virtual/failures", test_failures },
    { "/cuda/fake/virtual/captured", test_captured },
    { "/cuda/fake/virtual/never-a-handle", test_never_a_handle },
    { "/cuda/fake/virtual/beyond-end", test_beyond_end },
    { "/cuda/fake/virtual/unmapped", test_unmapped },
    { "/cuda/fake/virtual/unmapped-in-use", test_unmapped_in_use },
    { "/cuda/fake/virtual/host-access", test_host_access },
    { "/cuda/fake/virtual/late-host-access", test_late_host_access },
  };

  fake = tarn_fake_cuda ();
  g_test_init (&argc, &argv, NULL);
  add_cases (cases, G_N_ELEMENTS (cases));
  return g_test_run ();
}
