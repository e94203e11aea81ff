/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Lists the kinds of memory that the benchmark can measure, and opens sources.  A source is a
 * device with an allocator of one kind of memory. */

#include <config.h>

#include "counter.h"
#include "kinds-private.h"

static TarnAllocator *
make_null (gpointer simulated /* nullable */, GError **error)
{
  const CounterOptions options
      = { .granularity = COUNTER_GRANULARITY, .has_queues = simulated != NULL };

  (void) error;
  return counter_new (&options);
}

static TarnAllocator *
make_null_plain (gpointer simulated /* nullable */, GError **error)
{
  const CounterOptions options = { .has_queues = simulated != NULL };

  (void) error;
  return counter_new (&options);
}

/* Two elements of kinds[]: a kind without a heap, and the same kind with a heap. */
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
source_open (const Kind *kind, const Device *device, gboolean has_queues, guint64 lag,
             GError **error)
{
  g_autoptr (Source) source = g_new0 (Source, 1);

  source->kind = kind;
  source->device = device;
  source->queues = g_ptr_array_new ();
  if (kind->backend != NULL && !kind->backend->open (device, &source->handle, error))
    return NULL;
  if (kind->backend == NULL && has_queues)
    source->simulated = simulated_queues_new (lag);
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
  g_assert (index < source->queues->len);
  return g_ptr_array_index (source->queues, index);
}

const gchar *
source_get_place (const Source *source)
{
  return source->device != NULL ? source->device->place : "none";
}
