/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The shared pools: one for each device, which all code of the process may use.  A pool's memory is
 * in the device's primary context.  CUDA's runtime uses this context, too, and so do PyTorch and
 * CuPy, which call the runtime. */

#define _GNU_SOURCE 1 /* makes <stdlib.h> declare secure_getenv () */

#include "shared-pool-private.h"

#include <string.h>

#include "common/heap-pool-private.h"
#include "common/limit-private.h"
#include "common/lock-private.h"
#include "common/variable-private.h"
#include "memory-private.h"

#define MAX_DEVICES 64 /* more devices than any known machine has */

static TarnCudaShared *shared_pools[MAX_DEVICES]; /* atomic: the newest pool of each device */

/* Functions that read the settings from the environment */

/* The settings that this file reads from the environment, once.  A set-user-ID program does not
 * read them. */
typedef struct
{
  gchar *limit; /* the value of TARN_CUDA_LIMIT; NULL if it is not set */
  gboolean prints_stats;
} Settings;

static Settings settings;

static void
read_settings (void)
{
  settings.limit = g_strdup (_tarn_get_variable ("TARN_CUDA_LIMIT"));
  settings.prints_stats = _tarn_get_switch ("TARN_CUDA_STATS", FALSE);
}

static const Settings *
get_settings (void)
{
  static TarnOnce once = TARN_ONCE_INIT;

  _tarn_once (&once, read_settings);
  return &settings;
}

/* Functions that print statistics at exit */

static void
print_row (TarnCudaShared *shared)
{
  TarnPoolStats pool = TARN_POOL_STATS_INIT;
  TarnHeapStats heap = TARN_HEAP_STATS_INIT;
  guint64 n;

  tarn_pool_get_stats (shared->pool, &pool);
  if (!tarn_heap_get_stats (tarn_pool_get_upstream (shared->pool), &heap))
    {
      heap.peak_upstream_bytes = pool.peak_managed_bytes;
      heap.driver_calls = pool.driver_calls;
    }
  n = pool.hits + pool.misses;
  g_printerr ("%6d %14" G_GUINT64_FORMAT " %7.1f %12.1f %12.1f %10" G_GUINT64_FORMAT
              " %8" G_GUINT64_FORMAT "\n",
              shared->context.device, n,
              n > 0 ? 100 * (gdouble) pool.served_without_driver / (gdouble) n : 0,
              (gdouble) pool.peak_active_bytes / (1 << 20),
              (gdouble) heap.peak_upstream_bytes / (1 << 20), heap.driver_calls, pool.failures);
}

static void
print_stats (void)
{
  if (!tarn_check_fork (NULL))
    return;
  g_printerr ("Tarn: memory of CUDA devices, in MiB\n");
  g_printerr ("%6s %14s %7s %12s %12s %10s %8s\n", "device", "requests", "hits %", "peak in use",
              "peak taken", "driver", "failures");
  _tarn_cuda_shared_foreach (print_row);
}

static void
have_stats_printed (void)
{
  atexit (print_stats);
}

static void
print_stats_at_exit (void)
{
  static TarnOnce once = TARN_ONCE_INIT;

  if (get_settings ()->prints_stats)
    _tarn_once (&once, have_stats_printed);
}

/* Functions that make and find the shared pools */

static gboolean
retain (TarnCudaContext *context, CUdevice device, GError **error)
{
  *context = (TarnCudaContext){ .driver = _tarn_cuda_get_driver (error), .device = device };
  if (context->driver == NULL
      || !_tarn_cuda_check (context->driver, "cuDevicePrimaryCtxRetain",
                            context->driver->cuDevicePrimaryCtxRetain (&context->handle, device),
                            error))
    return FALSE;
  context->is_primary = TRUE;
  if (_tarn_cuda_context_identify (context, error))
    return TRUE;
  _tarn_cuda_context_clear (context);
  return FALSE;
}

static gboolean
can_use (const TarnCudaDriver *driver, CUdevice peer, CUdevice device)
{
  int can = FALSE;

  return driver->cuDeviceCanAccessPeer (&can, peer, device) == TARN_CUDA_SUCCESS && can;
}

/* Lists the devices that can access memory of the context's device. */
static gsize
list_peers (const TarnCudaContext *context, CUdevice *peers)
{
  const TarnCudaDriver *driver = context->driver;
  gsize n_peers = 0;
  int n = 0;

  if (driver->cuDeviceCanAccessPeer == NULL || driver->cuDeviceGetCount (&n) != TARN_CUDA_SUCCESS)
    return 0;
  for (CUdevice device = 0; device < MIN (n, MAX_DEVICES); device++)
    if (device != context->device && can_use (driver, device, context->device))
      peers[n_peers++] = device;
  return n_peers;
}

/* Makes an allocator of memory that the device's peers can access, too, because CUDA's runtime
 * expects this access when it copies from device to device.  For memory of cuMemAlloc (), the
 * program enables the access.  For virtual memory, Tarn must set the access.  If Tarn cannot make
 * such an allocator, makes one of memory that only the device itself can access. */
static TarnAllocator *
allocator_new (const TarnCudaContext *context, GError **error)
{
  TarnCudaDeviceOptions options = TARN_CUDA_DEVICE_OPTIONS_INIT;
  CUdevice peers[MAX_DEVICES];
  TarnAllocator *allocator;

  options.peers = peers;
  options.n_peers = list_peers (context, peers);
  if (options.n_peers > 0)
    {
      allocator = _tarn_cuda_pool_allocator_new (context->handle, &options, NULL);
      if (allocator != NULL)
        return allocator;
    }
  return _tarn_cuda_pool_allocator_new (context->handle, NULL, error);
}

static TarnPool *
pool_new (TarnCudaShared *shared, GError **error)
{
  const TarnCudaDriver *driver = shared->context.driver;
  const gchar *limit = get_settings ()->limit;
  g_autofree gchar *name = g_strdup_printf ("CUDA device %d", shared->context.device);
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  size_t bytes;

  options.name = name;
  if (driver->cuDeviceTotalMem != NULL
      && driver->cuDeviceTotalMem (&bytes, shared->context.device) == TARN_CUDA_SUCCESS)
    shared->total_bytes = bytes;
  if (limit != NULL
      && !_tarn_parse_limit ("TARN_CUDA_LIMIT", limit, shared->total_bytes, &options.limit_bytes,
                             error))
    return NULL;
  return _tarn_pool_new_over_heap (allocator_new (&shared->context, error), &options, error);
}

static TarnCudaShared *
shared_new (CUdevice device, GError **error)
{
  TarnCudaShared *shared = g_new0 (TarnCudaShared, 1);

  if (!retain (&shared->context, device, error))
    {
      g_free (shared);
      return NULL;
    }
  shared->pool = pool_new (shared, error);
  if (shared->pool != NULL)
    return shared;
  _tarn_cuda_context_clear (&shared->context);
  g_free (shared);
  return NULL;
}

static void
shared_free (TarnCudaShared *shared)
{
  tarn_pool_unref (shared->pool);
  _tarn_cuda_context_clear (&shared->context);
  g_free (shared);
}

/* Makes a shared pool of a device, and puts it in the place of the older pool.  @older: the older
 * pool, or NULL if the device has had none.  If another thread has made a pool meanwhile, returns
 * that thread's pool.  Takes no lock, because the driver may be slow. */
static TarnCudaShared *
replace (CUdevice device, TarnCudaShared *older, GError **error)
{
  TarnCudaShared *shared = shared_new (device, error);
  TarnCudaShared *found = older;

  if (shared == NULL)
    return NULL;
  shared->older = older;
  if (__atomic_compare_exchange_n (&shared_pools[device], &found, shared, FALSE, __ATOMIC_ACQ_REL,
                                   __ATOMIC_ACQUIRE))
    {
      print_stats_at_exit ();
      return shared;
    }
  shared_free (shared);
  return found;
}

static gboolean
check_number (CUdevice device, GError **error)
{
  if (device >= 0 && device < MAX_DEVICES)
    return TRUE;
  g_set_error (error, TARN_ERROR, TARN_ERROR_NO_DEVICE, "there is no CUDA device %d", device);
  return FALSE;
}

TarnCudaShared *
_tarn_cuda_shared_get (CUdevice device, GError **error)
{
  TarnCudaShared *shared;

  if (!check_number (device, error))
    return NULL;
  shared = __atomic_load_n (&shared_pools[device], __ATOMIC_ACQUIRE);
  return shared != NULL ? shared : replace (device, NULL, error);
}

TarnCudaShared *
_tarn_cuda_shared_renew (CUdevice device, GError **error)
{
  TarnCudaShared *shared = _tarn_cuda_shared_get (device, error);
  g_autoptr (GError) reason = NULL;

  if (shared == NULL || _tarn_cuda_context_check (&shared->context, &reason))
    return shared;
  if (g_error_matches (reason, TARN_ERROR, TARN_ERROR_CONTEXT_LOST))
    return replace (device, shared, error);
  g_propagate_error (error, g_steal_pointer (&reason));
  return NULL;
}

void
_tarn_cuda_shared_foreach (void (*func) (TarnCudaShared *shared))
{
  for (guint i = 0; i < MAX_DEVICES; i++)
    for (TarnCudaShared *shared = __atomic_load_n (&shared_pools[i], __ATOMIC_ACQUIRE);
         shared != NULL; shared = shared->older)
      func (shared);
}

TarnPool *
tarn_cuda_get_shared_pool (CUdevice device, GError **error)
{
  TarnCudaShared *shared;

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!tarn_check_fork (error))
    return NULL;
  shared = _tarn_cuda_shared_renew (device, error);
  return shared != NULL ? tarn_pool_ref (shared->pool) : NULL;
}
