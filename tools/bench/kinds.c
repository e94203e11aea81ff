/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include <config.h>

#include "kinds-private.h"

/* Of virtual memory: bytes. */
#define GRANULARITY ((gsize) 2 << 20)

static TarnAllocator *
make_null (gpointer simulated /* nullable */, GError **error)
{
  (void) error;
  return counter_new (0, TRUE, simulated != NULL);
}

static TarnAllocator *
make_null_plain (gpointer simulated /* nullable */, GError **error)
{
  (void) error;
  return counter_new (0, FALSE, simulated != NULL);
}

/* With a heap, and without. */
#define BOTH(name, backend, make)                                                                  \
  { name, backend, make, NULL, FALSE, FALSE }, { name "+heap", backend, make, NULL, FALSE, TRUE }

const Kind kinds[] = {
  BOTH ("null", NULL, make_null),
  { "null-plain+heap", NULL, make_null_plain, NULL, FALSE, TRUE },
#ifdef HAVE_OPENCL
  BOTH ("opencl-deferred", &opencl_backend, make_opencl_deferred),
  BOTH ("opencl-immediate", &opencl_backend, make_opencl_immediate),
  BOTH ("opencl-svm", &opencl_backend, make_opencl_svm),
#endif
#ifdef HAVE_CUDA
  BOTH ("cuda-device", &cuda_backend, make_cuda_device),
  BOTH ("cuda-host", &cuda_backend, make_cuda_host),
  BOTH ("cuda-managed", &cuda_backend, make_cuda_managed),
  { "cuda-async", &cuda_backend, make_cuda_async, enter_cuda_async, TRUE, FALSE },
#endif
};
const gsize n_kinds = G_N_ELEMENTS (kinds);

TarnAllocator *
source_make_allocator (const Source *source, GError **error)
{
  return source->kind->has_heap ? tarn_heap_allocator_new (source->driver, NULL, error)
                                : tarn_allocator_ref (source->driver);
}

Source *
source_open (const Kind *kind, const Device *device, gboolean has_queues, GError **error)
{
  g_autoptr (Source) source = g_new0 (Source, 1);

  source->kind = kind;
  source->device = device;
  source->queues = g_ptr_array_new ();
  if (kind->backend != NULL && !kind->backend->open (device, &source->handle, error))
    return NULL;
  if (kind->backend == NULL && has_queues)
    source->simulated = simulated_queues_new ();
  source->driver
      = kind->make (kind->backend != NULL ? source->handle : (gpointer) source->simulated, error);
  if (source->driver == NULL)
    return NULL;
  if ((source->allocator = source_make_allocator (source, error)) == NULL)
    return NULL;
  return g_steal_pointer (&source);
}

void
source_close (Source *source)
{
  g_clear_pointer (&source->allocator, tarn_allocator_unref);
  g_clear_pointer (&source->driver, tarn_allocator_unref);
  for (guint i = 0; i < source->queues->len && source->simulated == NULL; i++)
    source->kind->backend->queue_free (source->handle, g_ptr_array_index (source->queues, i));
  g_ptr_array_unref (source->queues);
  g_clear_pointer (&source->simulated, simulated_queues_free);
  if (source->handle != NULL)
    source->kind->backend->close (source->handle);
  g_free (source);
}

gpointer
source_get_queue (const Source *source, guint index, GError **error)
{
  while (source->queues->len <= index)
    {
      gpointer queue = source->simulated != NULL
                           ? simulated_queues_add (source->simulated)
                           : source->kind->backend->queue_new (source->handle, error);

      if (queue == NULL)
        return NULL;
      g_ptr_array_add (source->queues, queue);
    }
  return g_ptr_array_index (source->queues, index);
}

const gchar *
source_get_place (const Source *source)
{
  return source->device != NULL ? source->device->place : "none";
}

/* A counter */

typedef struct
{
  gsize budget;     /* bytes; 0: no end */
  gsize used;       /* bytes; atomic */
  guint64 reserved; /* bytes of addresses, which are never used again; atomic */
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

static gboolean
counter_part_new (gpointer unused, TarnMemory memory, gsize offset, gsize size, TarnMemory *part,
                  GError **error)
{
  static guint64 n_parts = 0; /* pieces are not told apart by their addresses here */

  (void) unused;
  (void) memory;
  (void) offset;
  (void) size;
  (void) error;
  part->address = __atomic_add_fetch (&n_parts, 1, __ATOMIC_RELAXED);
  return TRUE;
}

static gboolean
counter_reserve (gpointer user_data, gsize size, TarnMemory *addresses, GError **error)
{
  Counter *counter = user_data;

  (void) error;
  addresses->address
      = GRANULARITY + __atomic_fetch_add (&counter->reserved, size, __ATOMIC_RELAXED);
  return TRUE;
}

static void
counter_release (gpointer user_data, TarnMemory addresses, gsize size)
{
  (void) user_data;
  (void) addresses;
  (void) size;
}

static gboolean
counter_map (gpointer user_data, TarnMemory backing, gsize size, TarnMemory address, GError **error)
{
  (void) user_data;
  (void) backing;
  (void) size;
  (void) address;
  (void) error;
  return TRUE;
}

TarnAllocator *
counter_new (gsize budget, gboolean is_virtual, gboolean has_queues)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  Counter *counter = g_new0 (Counter, 1);

  counter->budget = budget;
  ops.name = "null";
  ops.allocate = counter_allocate;
  ops.free = counter_free;
  if (is_virtual)
    {
      ops.virtual_granularity = GRANULARITY;
      ops.addresses_reserve = counter_reserve;
      ops.addresses_release = counter_release;
      ops.backing_new = counter_allocate;
      ops.backing_release = counter_free;
      ops.backing_map = counter_map;
      ops.backing_unmap = counter_release;
    }
  else
    {
      ops.part_alignment = 128;
      ops.part_new = counter_part_new;
    }
  if (has_queues)
    simulated_queues_set_ops (&ops);
  return tarn_allocator_new (&ops, counter, g_free);
}
