/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Measures the cost of a hit and its free if a CUDA pool orders memory on several streams, or
 * several threads have a stream each; beside malloc, a pool for each thread, and the driver's own
 * pool.  Times depend on the machine: read the ratios.
 *
 *     t/bench/order-cost                  on the first device that gives a context
 *     CUDA_DEVICE=1 t/bench/order-cost    on device 1 */

#include <dlfcn.h>
#include <tarn/cuda.h>

#include "order-rows.h"
#include "testing/cuda/fake-cuda.h"

/* The driver */

/* X (name, "symbol", arguments) */
#define REQUIRED(X)                                                                                \
  X (cuStreamCreate, "cuStreamCreate", (CUstream * stream, unsigned int flags))                    \
  X (cuStreamDestroy, "cuStreamDestroy_v2", (CUstream stream))                                     \
  X (cuCtxSetCurrent, "cuCtxSetCurrent", (CUcontext context))                                      \
  X (cuStreamSynchronize, "cuStreamSynchronize", (CUstream stream))

/* Functions that are NULL in a driver before CUDA 11.2. */
#define OPTIONAL(X)                                                                                \
  X (cuMemAllocAsync, "cuMemAllocAsync", (CUdeviceptr * pointer, size_t size, CUstream stream))    \
  X (cuMemFreeAsync, "cuMemFreeAsync", (CUdeviceptr pointer, CUstream stream))                     \
  X (cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool",                                       \
     (CUmemoryPool * pool, CUdevice device))                                                       \
  X (cuMemPoolSetAttribute, "cuMemPoolSetAttribute",                                               \
     (CUmemoryPool pool, unsigned int attribute, void *value))

#define NON_BLOCKING 1              /* CU_STREAM_NON_BLOCKING in <cuda.h> */
#define MEMPOOL_RELEASE_THRESHOLD 4 /* CU_MEMPOOL_ATTR_RELEASE_THRESHOLD */

static struct
{
#define X(name, symbol, arguments) unsigned int (*name) arguments;
  REQUIRED (X)
  OPTIONAL (X)
#undef X
} cuda;

static CUdevice device;
static CUcontext context;
static const TarnTestingCuda *fake; /* NULL: the driver is real */

static void
check (const gchar *call, unsigned int status)
{
  if (G_UNLIKELY (status != 0))
    order_end_with (EXIT_WRONG, "%s: status %u", call, status);
}

#define CHECK(call) check (#call, call)

/* Loads the functions.  Tarn has a context by now, so the library is open already and stays
 * open. */
static void
load_functions (void)
{
  gpointer library = dlopen ("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  const TarnTestingCuda *(*get_fake) (void);
  const gchar *missing = NULL;

  g_assert (library != NULL);
#define X(name, symbol, arguments)                                                                 \
  if ((*(gpointer *) &cuda.name = dlsym (library, symbol)) == NULL)                                \
    missing = symbol;
  OPTIONAL (X)
  missing = NULL; /* optional functions may be missing */
  REQUIRED (X)
#undef X
  if (missing != NULL)
    order_end_with (EXIT_WRONG, "the CUDA driver has no function %s", missing);
  *(gpointer *) &get_fake = dlsym (library, "tarn_fake_cuda");
  fake = get_fake != NULL ? get_fake () : NULL;
}

/* The driver's own pool */

static const gchar *
why_no_async (void)
{
  return cuda.cuMemAllocAsync == NULL || cuda.cuMemFreeAsync == NULL
                 || cuda.cuDeviceGetDefaultMemPool == NULL || cuda.cuMemPoolSetAttribute == NULL
             ? "the driver has no cuMemAllocAsync"
             : NULL;
}

/* Sets the driver's pool to cache all memory, as Tarn's pool does. */
static void
keep_memory (void)
{
  guint64 threshold = G_MAXUINT64;
  CUmemoryPool pool;

  CHECK (cuda.cuDeviceGetDefaultMemPool (&pool, device));
  CHECK (cuda.cuMemPoolSetAttribute (pool, MEMPOOL_RELEASE_THRESHOLD, &threshold));
}

static void
use_async (Lane *lane)
{
  for (guint i = 0; i < ROUND_PAIRS; i++)
    {
      CUdeviceptr pointer;

      CHECK (cuda.cuMemAllocAsync (&pointer, lane->sizes[i], lane->queues[i]));
      CHECK (cuda.cuMemFreeAsync (pointer, lane->queues[i]));
    }
}

/* The device */

static TarnAllocator *
open_device (void)
{
  g_autoptr (GError) error = NULL;
  TarnAllocator *allocator = NULL;

  context = tarn_cuda_make_default_context (&device, &error);
  if (g_error_matches (error, TARN_ERROR, TARN_ERROR_NO_DRIVER)
      || g_error_matches (error, TARN_ERROR, TARN_ERROR_NO_DEVICE))
    order_end_with (EXIT_SKIP, "%s", error->message);
  if (error == NULL)
    allocator = tarn_cuda_device_allocator_new (context, &error);
  if (error != NULL)
    order_end_with (EXIT_WRONG, "%s", error->message);
  load_functions ();
  if (why_no_async () == NULL)
    keep_memory ();
  return allocator;
}

static void
close_device (void)
{
  tarn_cuda_context_release (context);
}

static gpointer
stream_new (void)
{
  CUstream stream;

  CHECK (cuda.cuStreamCreate (&stream, NON_BLOCKING));
  return stream;
}

static void
stream_free (gpointer stream)
{
  CHECK (cuda.cuStreamDestroy (stream));
}

static void
enter (void)
{
  CHECK (cuda.cuCtxSetCurrent (context));
}

static void
settle (gpointer stream)
{
  CHECK (cuda.cuStreamSynchronize (stream));
}

static guint
count_calls (void)
{
  return fake != NULL ? fake->get_calls (NULL) : 0;
}

int
main (int argc, char **argv)
{
  static const OrderBackend backend = {
    .program = "order-cost",
    .summary = "- what the order of CUDA streams costs",
    .description = "CUDA_DEVICE is the number of the device to use [the first that can be used].\n"
                   "Exit status: 77 where there is none.",
    .direct = "cuMemAllocAsync",
    .open = open_device,
    .close = close_device,
    .queue_new = stream_new,
    .queue_free = stream_free,
    .enter = enter,
    .settle = settle,
    .why_no_direct = why_no_async,
    .use_direct = use_async,
    .count_calls = count_calls,
  };

  return order_run (argc, argv, &backend);
}
