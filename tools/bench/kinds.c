/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include <config.h>

#include "kinds-private.h"

static TarnAllocator *
make_null (gpointer unused, GError **error)
{
  (void) unused;
  (void) error;
  return counter_new (0);
}

const Kind kinds[] = {
  { "null", NULL, make_null, NULL, FALSE },
#ifdef HAVE_OPENCL
  { "opencl-deferred", &opencl_backend, make_opencl_deferred, NULL, FALSE },
  { "opencl-immediate", &opencl_backend, make_opencl_immediate, NULL, FALSE },
  { "opencl-svm", &opencl_backend, make_opencl_svm, NULL, FALSE },
#endif
#ifdef HAVE_CUDA
  { "cuda-device", &cuda_backend, make_cuda_device, NULL, FALSE },
  { "cuda-host", &cuda_backend, make_cuda_host, NULL, FALSE },
  { "cuda-managed", &cuda_backend, make_cuda_managed, NULL, FALSE },
  { "cuda-async", &cuda_backend, make_cuda_async, enter_cuda_async, TRUE },
#endif
};
const gsize n_kinds = G_N_ELEMENTS (kinds);

Source *
source_open (const Kind *kind, const Device *device, GError **error)
{
  g_autoptr (Source) source = g_new0 (Source, 1);

  source->kind = kind;
  source->device = device;
  if (kind->backend != NULL && !kind->backend->open (device, &source->handle, error))
    return NULL;
  if ((source->allocator = kind->make (source->handle, error)) == NULL)
    return NULL;
  return g_steal_pointer (&source);
}

void
source_close (Source *source)
{
  g_clear_pointer (&source->allocator, tarn_allocator_unref);
  if (source->handle != NULL)
    source->kind->backend->close (source->handle);
  g_free (source);
}

const gchar *
source_get_place (const Source *source)
{
  return source->device != NULL ? source->device->place : "none";
}

/* A counter */

typedef struct
{
  gsize budget; /* bytes; 0: no end */
  gsize used;   /* bytes; atomic */
} Counter;

static gboolean
counter_allocate (gpointer user_data, gsize size, TarnMemory *memory, GError **error)
{
  Counter *counter = user_data;
  gsize used = __atomic_add_fetch (&counter->used, size, __ATOMIC_RELAXED);

  if (counter->budget == 0 || used <= counter->budget)
    {
      memory->address = used;
      return TRUE;
    }
  __atomic_sub_fetch (&counter->used, size, __ATOMIC_RELAXED);
  g_set_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY,
               "%" G_GSIZE_FORMAT " bytes are more than is left", size);
  return FALSE;
}

static void
counter_free (gpointer user_data, TarnMemory memory, gsize size)
{
  Counter *counter = user_data;

  (void) memory;
  __atomic_sub_fetch (&counter->used, size, __ATOMIC_RELAXED);
}

TarnAllocator *
counter_new (gsize budget)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  Counter *counter = g_new0 (Counter, 1);

  counter->budget = budget;
  ops.name = "null";
  ops.allocate = counter_allocate;
  ops.free = counter_free;
  return tarn_allocator_new (&ops, counter, g_free);
}
