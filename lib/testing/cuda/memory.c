/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The functions of the fake CUDA driver that allocate, free, copy and set memory. ledger.c keeps
 * the memory. */

#include "testing/cuda/fake-private.h"

#include <string.h>

#define ATTRIBUTE_CONTEXT 1
#define ATTRIBUTE_MEMORY_TYPE 2
#define ATTRIBUTE_IS_MANAGED 8
#define ATTRIBUTE_DEVICE_ORDINAL 9

Status
cuMemGetInfo_v2 (size_t *available, size_t *total)
{
  Context *context;
  Status status;
  ENTER (cuMemGetInfo);
  LOCKED;
  REQUIRE (available != NULL && total != NULL, FAKE_CUDA_INVALID_VALUE);

  status = fake_get_context (&context);
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  *available = (size_t) fake_count_available (context->device);
  *total = (size_t) fake_get_settings (context->device)->total_memory;
  return FAKE_CUDA_SUCCESS;
}

Status
cuMemAlloc_v2 (CUdeviceptr *address, size_t size)
{
  Status status;
  ENTER (cuMemAlloc);
  LOCKED;
  REQUIRE (address != NULL, FAKE_CUDA_INVALID_VALUE);

  status = fake_end_captures ();
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  return fake_allocate (TARN_TESTING_CUDA_DEVICE_MEMORY, size, address);
}

Status
cuMemFree_v2 (CUdeviceptr address)
{
  ENTER (cuMemFree);
  LOCKED;

  return fake_release (address, FALSE);
}

/* Allocates host memory.  Valid flags: CU_MEMHOSTALLOC_PORTABLE, _DEVICEMAP, _WRITECOMBINED.
 * Succeeds for 0 bytes, with the address NULL. */
Status
cuMemHostAlloc (void **pointer, size_t size, unsigned int flags)
{
  CUdeviceptr address;
  Context *context;
  Status status;
  ENTER (cuMemHostAlloc);
  LOCKED;
  REQUIRE (pointer != NULL && (flags & ~7u) == 0, FAKE_CUDA_INVALID_VALUE);

  status = fake_end_captures ();
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  if (size == 0)
    {
      *pointer = NULL;
      return fake_get_context (&context);
    }
  status = fake_allocate (TARN_TESTING_CUDA_HOST_MEMORY, size, &address);
  if (status == FAKE_CUDA_SUCCESS)
    *pointer = (void *) (guintptr) address;
  return status;
}

Status
cuMemFreeHost (void *pointer)
{
  ENTER (cuMemFreeHost);
  LOCKED;

  return fake_release ((CUdeviceptr) (guintptr) pointer, TRUE);
}

/* Returns the host's address as the device's address, because host and devices share one address
 * space. */
Status
cuMemHostGetDevicePointer_v2 (CUdeviceptr *address, void *pointer, unsigned int flags)
{
  TarnTestingCudaMemory memory;
  Context *context;
  Status status;
  ENTER (cuMemHostGetDevicePointer);
  LOCKED;
  REQUIRE (address != NULL && flags == 0, FAKE_CUDA_INVALID_VALUE);

  status = fake_get_context (&context);
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  REQUIRE (fake_find_memory ((CUdeviceptr) (guintptr) pointer, &memory)
               && memory.kind == TARN_TESTING_CUDA_HOST_MEMORY,
           FAKE_CUDA_INVALID_VALUE);
  *address = (CUdeviceptr) (guintptr) pointer;
  return FAKE_CUDA_SUCCESS;
}

/* Allocates managed memory.  Valid flags: CU_MEM_ATTACH_GLOBAL or _HOST. */
Status
cuMemAllocManaged (CUdeviceptr *address, size_t size, unsigned int flags)
{
  Status status;
  ENTER (cuMemAllocManaged);
  LOCKED;
  REQUIRE (address != NULL && (flags == 1 || flags == 2), FAKE_CUDA_INVALID_VALUE);

  status = fake_end_captures ();
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  return fake_allocate (TARN_TESTING_CUDA_MANAGED_MEMORY, size, address);
}

Status
cuMemcpyHtoD_v2 (CUdeviceptr to, const void *from, size_t size)
{
  guint8 *bytes;
  Status status;
  ENTER (cuMemcpyHtoD);
  LOCKED;

  status = fake_reach (to, size, &bytes);
  if (status == FAKE_CUDA_SUCCESS)
    memcpy (bytes, from, size);
  return status;
}

Status
cuMemcpyDtoH_v2 (void *to, CUdeviceptr from, size_t size)
{
  guint8 *bytes;
  Status status;
  ENTER (cuMemcpyDtoH);
  LOCKED;

  status = fake_reach (from, size, &bytes);
  if (status == FAKE_CUDA_SUCCESS)
    memcpy (to, bytes, size);
  return status;
}

Status
cuMemcpyDtoD_v2 (CUdeviceptr to, CUdeviceptr from, size_t size)
{
  guint8 *to_bytes, *from_bytes;
  Status status;
  ENTER (cuMemcpyDtoD);
  LOCKED;

  status = fake_reach (to, size, &to_bytes);
  if (status == FAKE_CUDA_SUCCESS)
    status = fake_reach (from, size, &from_bytes);
  if (status == FAKE_CUDA_SUCCESS)
    memmove (to_bytes, from_bytes, size);
  return status;
}

Status
cuMemsetD8_v2 (CUdeviceptr to, unsigned char value, size_t n)
{
  guint8 *bytes;
  Status status;
  ENTER (cuMemsetD8);
  LOCKED;

  status = fake_reach (to, n, &bytes);
  if (status == FAKE_CUDA_SUCCESS)
    memset (bytes, value, n);
  return status;
}

Status
cuMemsetD32_v2 (CUdeviceptr to, unsigned int value, size_t n)
{
  guint8 *bytes;
  Status status;
  ENTER (cuMemsetD32);
  LOCKED;
  REQUIRE (to % sizeof value == 0 && n <= G_MAXSIZE / sizeof value, FAKE_CUDA_INVALID_VALUE);

  status = fake_reach (to, n * sizeof value, &bytes);
  for (size_t i = 0; status == FAKE_CUDA_SUCCESS && i < n; i++)
    memcpy (bytes + i * sizeof value, &value, sizeof value);
  return status;
}

/* Returns an attribute of the memory at an address.  The type of memory is CU_MEMORYTYPE_HOST for
 * page-locked memory, and CU_MEMORYTYPE_DEVICE for all other memory, also for managed memory. */
Status
cuPointerGetAttribute (void *value, unsigned int attribute, CUdeviceptr address)
{
  TarnTestingCudaMemory memory;
  Context *context;
  ENTER (cuPointerGetAttribute);
  LOCKED;
  REQUIRE (value != NULL, FAKE_CUDA_INVALID_VALUE);
  REQUIRE (fake_find_memory (address, &memory), FAKE_CUDA_INVALID_VALUE);

  context = fake_find_context (memory.context_id);
  g_assert (context != NULL || memory.kind == TARN_TESTING_CUDA_MAPPING);
  switch (attribute)
    {
    case ATTRIBUTE_CONTEXT:
      *(CUcontext *) value = context != NULL ? context->handle : NULL;
      return FAKE_CUDA_SUCCESS;
    case ATTRIBUTE_MEMORY_TYPE:
      *(guint *) value = memory.kind == TARN_TESTING_CUDA_HOST_MEMORY ? 1 : 2;
      return FAKE_CUDA_SUCCESS;
    case ATTRIBUTE_IS_MANAGED:
      *(guint *) value = memory.kind == TARN_TESTING_CUDA_MANAGED_MEMORY;
      return FAKE_CUDA_SUCCESS;
    case ATTRIBUTE_DEVICE_ORDINAL:
      *(gint *) value = memory.device;
      return FAKE_CUDA_SUCCESS;
    default:
      return FAKE_CUDA_INVALID_VALUE;
    }
}
