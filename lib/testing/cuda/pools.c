/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * CUDA's own memory pools in the fake driver, and stream-ordered allocations and frees. ledger.c
 * keeps the memory, and identifies a pool by its number, because memory may outlive its pool. */

#include "testing/cuda/fake-private.h"

#if FAKE_CUDA_VERSION >= 11020

#define ATTRIBUTE_RESERVED_CURRENT 5 /* CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT */
#define ATTRIBUTE_USED_CURRENT 7     /* CU_MEMPOOL_ATTR_USED_MEM_CURRENT */
#define ATTRIBUTE_POOLS_SUPPORTED 115

typedef struct
{
  CUmemoryPool handle;
  guint number; /* no other pool gets this number */
  CUdevice device;
  gboolean is_default;
  guint64 max_bytes; /* the most bytes that the pool may have allocated; G_MAXUINT64 for no limit */
} Pool;

/* The lock of the fake driver guards these variables. */
static HandleTable handles = { .base = FAKE_HANDLES (10) };
static guint last_number;
/* the default pool of each device; never freed; NULL until first needed */
static Pool *defaults[TARN_TESTING_CUDA_MAX_DEVICES];
/* the current pool of each device; not owned; NULL for the default pool */
static Pool *currents[TARN_TESTING_CUDA_MAX_DEVICES];

/* Functions that only the fake driver calls.  The caller of each of these functions holds the
 * lock. */

static Pool *
pool_new (CUdevice device)
{
  Pool *pool = g_new0 (Pool, 1);

  pool->handle = fake_handle_new (&handles, pool);
  pool->number = ++last_number;
  pool->device = device;
  pool->max_bytes = G_MAXUINT64;
  return pool;
}

static Pool *
get_default (CUdevice device)
{
  if (defaults[device] == NULL)
    {
      defaults[device] = pool_new (device);
      defaults[device]->is_default = TRUE;
    }
  return defaults[device];
}

static Pool *
get_current (CUdevice device)
{
  return currents[device] != NULL ? currents[device] : get_default (device);
}

static gboolean
has_pools (CUdevice device)
{
  gint value = 0;

  return fake_get_attribute (&value, ATTRIBUTE_POOLS_SUPPORTED, device) && value != 0;
}

static Status
check_device (CUdevice device)
{
  REQUIRE (fake_is_device (device), FAKE_CUDA_INVALID_DEVICE);
  REQUIRE (has_pools (device), FAKE_CUDA_NOT_SUPPORTED);
  return FAKE_CUDA_SUCCESS;
}

/* Finds the stream on which a call allocates or frees memory.  The call fails, and invalidates
 * captures, if the stream is a legacy default stream and a blocking stream of its context is being
 * captured. */
static Status
find_stream (const gchar *function, CUstream handle, Stream **stream)
{
  Status status = fake_find_stream (function, handle, stream);

  return status == FAKE_CUDA_SUCCESS ? fake_check_legacy (*stream) : status;
}

/* Allocates memory of a pool.  @handle: the pool, or NULL for the current pool of the stream's
 * device. */
static Status
allocate (const gchar *function, CUdeviceptr *address, gsize size, CUmemoryPool handle,
          CUstream stream_handle)
{
  const Context *context;
  const Pool *pool;
  Stream *stream;
  Status status = find_stream (function, stream_handle, &stream);

  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  if (fake_get_capture (stream) != NULL)
    g_error ("%s: stream %p is captured: this driver has no memory of graphs", function,
             stream_handle);
  context = fake_find_context (stream->context_id);
  g_assert (context != NULL);
  REQUIRE (has_pools (context->device), FAKE_CUDA_NOT_SUPPORTED);
  pool = handle != NULL ? fake_handle_get (&handles, handle) : get_current (context->device);
  REQUIRE (pool != NULL, FAKE_CUDA_INVALID_VALUE);
  REQUIRE (size <= pool->max_bytes && fake_count_pool (pool->number) <= pool->max_bytes - size,
           FAKE_CUDA_OUT_OF_MEMORY);
  if (fake_is_legacy (stream))
    fake_wait_for_blocking (stream);
  return fake_allocate_ordered (pool->number, pool->device, size, stream, address);
}

/* Functions of CUDA's driver API, which the program calls */

Status
cuMemAllocAsync (CUdeviceptr *address, size_t size, CUstream stream)
{
  ENTER (cuMemAllocAsync);
  LOCKED;
  REQUIRE (address != NULL, FAKE_CUDA_INVALID_VALUE);

  return allocate ("cuMemAllocAsync", address, size, NULL, stream);
}

Status
cuMemAllocFromPoolAsync (CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream stream)
{
  ENTER (cuMemAllocFromPoolAsync);
  LOCKED;
  REQUIRE (address != NULL && pool != NULL, FAKE_CUDA_INVALID_VALUE);

  return allocate ("cuMemAllocFromPoolAsync", address, size, pool, stream);
}

Status
cuMemFreeAsync (CUdeviceptr address, CUstream handle)
{
  Stream *stream;
  Status status;
  ENTER (cuMemFreeAsync);
  LOCKED;

  status = find_stream ("cuMemFreeAsync", handle, &stream);
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  /* A stream that is being captured can free only memory that its graph has allocated.  The fake
   * driver has no such memory.  A call that frees other memory fails, but does not end the
   * capture. */
  REQUIRE (fake_get_capture (stream) == NULL, FAKE_CUDA_INVALID_VALUE);
  if (fake_is_legacy (stream))
    fake_wait_for_blocking (stream);
  return fake_release_ordered (address, stream);
}

Status
cuMemPoolCreate (CUmemoryPool *handle, const CUmemPoolProps *props)
{
  Pool *pool;
  Status status;
  ENTER (cuMemPoolCreate);
  LOCKED;
  REQUIRE (handle != NULL && props != NULL && props->allocType == 1 && props->handleTypes <= 1
               && props->location.type == 1,
           FAKE_CUDA_INVALID_VALUE);

  status = check_device (props->location.id);
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  pool = pool_new (props->location.id);
  if (props->maxSize > 0)
    pool->max_bytes = props->maxSize;
  *handle = pool->handle;
  return FAKE_CUDA_SUCCESS;
}

Status
cuMemPoolDestroy (CUmemoryPool handle)
{
  Pool *pool;
  ENTER (cuMemPoolDestroy);
  LOCKED;

  pool = fake_handle_get (&handles, handle);
  REQUIRE (pool != NULL && !pool->is_default, FAKE_CUDA_INVALID_VALUE);
  for (guint i = 0; i < TARN_TESTING_CUDA_MAX_DEVICES; i++)
    if (currents[i] == pool)
      currents[i] = NULL;
  fake_handle_free (&handles, handle);
  g_free (pool);
  return FAKE_CUDA_SUCCESS;
}

Status
cuMemPoolGetAttribute (CUmemoryPool handle, unsigned int attribute, void *value)
{
  const Pool *pool;
  ENTER (cuMemPoolGetAttribute);
  LOCKED;

  pool = fake_handle_get (&handles, handle);
  REQUIRE (pool != NULL && value != NULL
               && (attribute == ATTRIBUTE_RESERVED_CURRENT || attribute == ATTRIBUTE_USED_CURRENT),
           FAKE_CUDA_INVALID_VALUE);
  *(guint64 *) value = fake_count_pool (pool->number);
  return FAKE_CUDA_SUCCESS;
}

Status
cuDeviceGetDefaultMemPool (CUmemoryPool *pool, CUdevice device)
{
  Status status;
  ENTER (cuDeviceGetDefaultMemPool);
  LOCKED;
  REQUIRE (pool != NULL, FAKE_CUDA_INVALID_VALUE);

  status = check_device (device);
  if (status == FAKE_CUDA_SUCCESS)
    *pool = get_default (device)->handle;
  return status;
}

Status
cuDeviceGetMemPool (CUmemoryPool *pool, CUdevice device)
{
  Status status;
  ENTER (cuDeviceGetMemPool);
  LOCKED;
  REQUIRE (pool != NULL, FAKE_CUDA_INVALID_VALUE);

  status = check_device (device);
  if (status == FAKE_CUDA_SUCCESS)
    *pool = get_current (device)->handle;
  return status;
}

Status
cuDeviceSetMemPool (CUdevice device, CUmemoryPool handle)
{
  Pool *pool;
  Status status;
  ENTER (cuDeviceSetMemPool);
  LOCKED;

  status = check_device (device);
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  pool = fake_handle_get (&handles, handle);
  REQUIRE (pool != NULL && pool->device == device, FAKE_CUDA_INVALID_VALUE);
  currents[device] = pool;
  return FAKE_CUDA_SUCCESS;
}

#endif
