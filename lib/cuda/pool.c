/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Makes the pool of device memory that most programs want.  The pool's allocator uses virtual
 * memory or cuMemAlloc (), whichever works. */

#define _GNU_SOURCE 1 /* makes <stdlib.h> declare secure_getenv () */

#include <stdlib.h>
#include <tarn/cuda.h>

#include "common/heap-pool-private.h"
#include "common/variable-private.h"
#include "memory-private.h"

#define MAX_DEVICES 64 /* more devices than any known machine has */

/* Atomic; for each device, TRUE if a test has found that the device's virtual memory works, as long
 * as no other device has to access it.  For memory that peer devices can access, too, Tarn repeats
 * the test for each allocator, because the result may depend on the peers. */
static gint is_known_to_work[MAX_DEVICES];

/* TRUE if TARN_CUDA_PLAIN asks for cuMemAlloc () instead of virtual memory; always FALSE in a
 * set-user-ID program */
static gboolean wants_plain;

static void
read_wants_plain (void)
{
  wants_plain = _tarn_get_switch ("TARN_CUDA_PLAIN", FALSE);
}

static TarnAllocator *
plain_allocator_new (CUcontext context, GError **error)
{
  TarnCudaDeviceOptions options = TARN_CUDA_DEVICE_OPTIONS_INIT;

  options.plain_memory = TRUE;
  return tarn_cuda_device_allocator_new_with_options (context, &options, error);
}

/* Returns TRUE if an allocator that calls cuMemAlloc () can allocate @size bytes.  The caller has
 * found that virtual memory of this device does not work. */
static gboolean
plain_works (TarnAllocator *allocator, gsize size)
{
  TarnMemory memory = { .address = 0 };

  if (!tarn_allocator_allocate_memory (allocator, size, &memory, NULL))
    return FALSE;
  tarn_allocator_free_memory (allocator, memory, size);
  return TRUE;
}

static void
tell_why_plain (const TarnCudaMemoryAllocator *self, const GError *reason)
{
  static gint is_told; /* atomic; TRUE if this function has logged its message */

  if (g_atomic_int_compare_and_exchange (&is_told, FALSE, TRUE))
    g_message ("%s: pools of CUDA device %d have plain memory, because its virtual memory does not "
               "work; this is said once",
               reason->message, self->home.context.device);
}

/* Returns TRUE if virtual memory works.  A call may fail by chance, so virtual memory counts as not
 * working only if two tests fail. */
static gboolean
virtual_works (TarnCudaMemoryAllocator *self, GError **error)
{
  CUdevice device = self->home.context.device;
  gboolean is_kept = self->virtual_memory.n_access == 1 && device >= 0 && device < MAX_DEVICES;

  if (is_kept && g_atomic_int_get (&is_known_to_work[device]))
    return TRUE;
  if (!_tarn_cuda_virtual_try (self, NULL) && !_tarn_cuda_virtual_try (self, error))
    return FALSE;
  if (is_kept)
    g_atomic_int_set (&is_known_to_work[device], TRUE);
  return TRUE;
}

/* Makes an allocator.  If virtual memory works, the allocator uses virtual memory.  If not, it
 * calls cuMemAlloc ().  Some drivers state that a device has virtual memory, and then refuse to
 * make or map such memory, for example in a container or on some boards.  So this function tests
 * virtual memory.  If the test fails, it also tests cuMemAlloc ().  If cuMemAlloc () fails, too,
 * the device probably just has too little free memory now, so the allocator uses virtual memory. */
TarnAllocator *
_tarn_cuda_pool_allocator_new (CUcontext context, const TarnCudaDeviceOptions *options,
                               GError **error)
{
  static TarnOnce once = TARN_ONCE_INIT;
  g_autoptr (TarnAllocator) allocator = NULL, plain = NULL;
  g_autoptr (GError) reason = NULL;
  TarnCudaMemoryAllocator *self;

  if (!tarn_check_fork (error))
    return NULL;
  _tarn_once (&once, read_wants_plain);
  if (wants_plain)
    return plain_allocator_new (context, error);
  allocator = tarn_cuda_device_allocator_new_with_options (context, options, error);
  if (allocator == NULL)
    return NULL;
  self = tarn_allocator_get_user_data (allocator);
  if (virtual_works (self, &reason))
    return g_steal_pointer (&allocator);
  plain = plain_allocator_new (context, NULL);
  if (plain == NULL || !plain_works (plain, self->virtual_memory.granularity))
    return g_steal_pointer (&allocator);
  tell_why_plain (self, reason);
  return g_steal_pointer (&plain);
}

TarnPool *
tarn_cuda_pool_new (CUcontext context, const TarnPoolOptions *options, GError **error)
{
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  return _tarn_pool_new_over_heap (_tarn_cuda_pool_allocator_new (context, NULL, error), options,
                                   error);
}
