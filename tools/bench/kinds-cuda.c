/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Measures CUDA's kinds of memory, in the device's primary context.  For comparison, also measures
 * the driver's own pool (cuMemAllocAsync) without Tarn.  Tarn does not export the driver's
 * functions, so they are looked up here. */

#include <dlfcn.h>
#include <tarn/cuda.h>

#include "kinds-private.h"

/* Driver functions that this file calls */

/* X (name, "symbol", arguments) */
#define STREAM_FUNCTIONS(X)                                                                        \
  X (cuStreamCreate, "cuStreamCreate", (CUstream * stream, unsigned int flags))                    \
  X (cuStreamDestroy, "cuStreamDestroy_v2", (CUstream stream))

/* Drivers before CUDA 11.2 do not have the functions for memory pools. */
#define POOL_FUNCTIONS(X)                                                                          \
  X (cuCtxSetCurrent, "cuCtxSetCurrent", (CUcontext context))                                      \
  X (cuCtxGetDevice, "cuCtxGetDevice", (CUdevice * device))                                        \
  X (cuMemAllocAsync, "cuMemAllocAsync", (CUdeviceptr * pointer, size_t size, CUstream stream))    \
  X (cuMemFreeAsync, "cuMemFreeAsync", (CUdeviceptr pointer, CUstream stream))                     \
  X (cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool",                                       \
     (CUmemoryPool * pool, CUdevice device))                                                       \
  X (cuMemPoolSetAttribute, "cuMemPoolSetAttribute",                                               \
     (CUmemoryPool pool, unsigned int attribute, void *value))                                     \
  X (cuMemPoolTrimTo, "cuMemPoolTrimTo", (CUmemoryPool pool, size_t bytes))

#define NON_BLOCKING 1      /* CU_STREAM_NON_BLOCKING in <cuda.h> */
#define RELEASE_THRESHOLD 4 /* CU_MEMPOOL_ATTR_RELEASE_THRESHOLD in <cuda.h> */
#define OUT_OF_MEMORY 2     /* CUDA_ERROR_OUT_OF_MEMORY */
#define NOT_SUPPORTED 801   /* CUDA_ERROR_NOT_SUPPORTED */

static struct
{
#define X(name, symbol, arguments) unsigned int (*name) arguments;
  STREAM_FUNCTIONS (X)
  POOL_FUNCTIONS (X)
#undef X
} cuda;

/* Opens the driver's library, and returns a handle that nobody closes.  The library stays open in
 * any case: Tarn opened it when it made the context. */
static gpointer
open_library (void)
{
  return dlopen ("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
}

static gboolean
check_missing (const gchar *missing, GError **error)
{
  if (missing == NULL)
    return TRUE;
  g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED, "the driver has no %s", missing);
  return FALSE;
}

#define X(name, symbol, arguments)                                                                 \
  if (library == NULL || (*(gpointer *) &cuda.name = dlsym (library, symbol)) == NULL)             \
    missing = missing != NULL ? missing : symbol;

static gboolean
load_stream_functions (GError **error)
{
  gpointer library = open_library ();
  const gchar *missing = NULL;

  STREAM_FUNCTIONS (X)
  return check_missing (missing, error);
}

static gboolean
load_pool_functions (GError **error)
{
  gpointer library = open_library ();
  const gchar *missing = NULL;

  POOL_FUNCTIONS (X)
  return check_missing (missing, error);
}
#undef X

static gboolean
check_status (unsigned int status, const gchar *call, GError **error)
{
  if (status == 0)
    return TRUE;
  if (status == NOT_SUPPORTED)
    g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED, "%s: the device does not support it",
                 call);
  else if (status == OUT_OF_MEMORY)
    g_set_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY, "%s: out of memory (%u)", call,
                 status);
  else
    g_set_error (error, TARN_CUDA_ERROR, (gint) status, "%s: status %u", call, status);
  return FALSE;
}

/* Functions that open devices and create streams */

/* Opens a device.  For a moment, sets the environment variable CUDA_DEVICE, by which
 * tarn_cuda_make_default_context () chooses the device.  Changing the environment is safe, because
 * only one device is open at a time, by one thread. */
static gboolean
handle_open (const Device *device, gpointer *handle, GError **error)
{
  const TarnCudaDevice *found = device->cuda;
  g_autofree gchar *index = g_strdup_printf ("%u", found->device_index);
  g_autofree gchar *before = g_strdup (g_getenv ("CUDA_DEVICE"));

  g_setenv ("CUDA_DEVICE", index, TRUE);
  *handle = tarn_cuda_make_default_context (NULL, error);
  if (before != NULL)
    g_setenv ("CUDA_DEVICE", before, TRUE);
  else
    g_unsetenv ("CUDA_DEVICE");
  return *handle != NULL;
}

static void
handle_close (gpointer handle)
{
  tarn_cuda_context_release (handle);
}

/* Creates a stream in the current context.  Call it in the thread that opened the device. */
static gpointer
stream_new (gpointer unused, GError **error)
{
  CUstream stream;

  (void) unused;
  if (!load_stream_functions (error)
      || !check_status (cuda.cuStreamCreate (&stream, NON_BLOCKING), "cuStreamCreate", error))
    return NULL;
  return stream;
}

static void
stream_free (gpointer unused, gpointer stream)
{
  (void) unused;
  cuda.cuStreamDestroy (stream);
}

const Backend cuda_backend = { "cuda", handle_open, handle_close, stream_new, stream_free };

/* Functions that create the allocator of each kind of memory */

TarnAllocator *
make_cuda_device (gpointer handle, GError **error)
{
  return tarn_cuda_device_allocator_new (handle, error);
}

TarnAllocator *
make_cuda_host (gpointer handle, GError **error)
{
  return tarn_cuda_host_allocator_new (handle, 0, error);
}

TarnAllocator *
make_cuda_managed (gpointer handle, GError **error)
{
  return tarn_cuda_managed_allocator_new (handle, 1 /* CU_MEM_ATTACH_GLOBAL */, error);
}

/* Functions for memory from the driver's own pool */

/* Allocates on the default stream.  free_async () frees on the same stream. */
static gboolean
allocate_async (gpointer unused, gsize size, TarnMemory *memory, GError **error)
{
  CUdeviceptr pointer;

  (void) unused;
  if (!check_status (cuda.cuMemAllocAsync (&pointer, size, NULL), "cuMemAllocAsync", error))
    return FALSE;
  memory->address = pointer;
  return TRUE;
}

static void
free_async (gpointer unused, TarnMemory memory, gsize size)
{
  (void) unused;
  (void) size;
  cuda.cuMemFreeAsync ((CUdeviceptr) memory.address, NULL);
}

/* Returns cached memory to the device, for the kinds that are measured next. */
static void
trim_async (gpointer pool)
{
  cuda.cuMemPoolTrimTo (pool, 0);
}

void
enter_cuda_async (gpointer handle)
{
  cuda.cuCtxSetCurrent (handle);
}

/* Creates an allocator over the driver's own pool.  Sets that pool to keep freed memory, as Tarn's
 * pools do. */
TarnAllocator *
make_cuda_async (gpointer handle, GError **error)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  guint64 threshold = G_MAXUINT64;
  CUmemoryPool pool = NULL;
  CUdevice device;

  (void) handle; /* not needed: the context is current in this thread */
  if (!load_pool_functions (error)
      || !check_status (cuda.cuCtxGetDevice (&device), "cuCtxGetDevice", error)
      || !check_status (cuda.cuDeviceGetDefaultMemPool (&pool, device), "cuDeviceGetDefaultMemPool",
                        error)
      || !check_status (cuda.cuMemPoolSetAttribute (pool, RELEASE_THRESHOLD, &threshold),
                        "cuMemPoolSetAttribute", error))
    return NULL;
  ops.name = "cuda-async";
  ops.allocate = allocate_async;
  ops.free = free_async;
  return tarn_allocator_new (&ops, pool, trim_async);
}
