/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Allocators of device memory, page-locked host memory, managed memory, and memory of CUDA's own
 * pools (async-memory.c).  The four kinds share one implementation, and differ in the pair of
 * driver calls that allocate and free. */

#include "common/other-block-private.h"
#include "graph-pieces-private.h"
#include "memory-private.h"

/* The alignment of suballocations, in bytes.  It is enough for any use.  On an H200, textures and
 * memory of cuMemAlloc () begin at multiples of 512 bytes; other uses of device memory need at most
 * 256.  On the host, no type needs more than a cache line, 64 bytes.  Each suballocation begins a
 * new cache line, because two threads should not write to the same cache line, and because
 * write-combined memory is written a cache line at a time. */
#define DEVICE_ALIGNMENT 512
#define HOST_ALIGNMENT 64

/* The alignment of suballocations of memory from CUDA's own pools.  These pools promise only the
 * alignment of cudaMalloc (): 256 bytes. */
#define ASYNC_ALIGNMENT 256

static const struct
{
  const gchar *name, *allocate, *free;
  gsize alignment; /* the alignment of suballocations, in bytes */
} kinds[] = {
  [TARN_CUDA_DEVICE_MEMORY] = { "cuda-device", "cuMemAlloc", "cuMemFree", DEVICE_ALIGNMENT },
  [TARN_CUDA_HOST_MEMORY] = { "cuda-host", "cuMemHostAlloc", "cuMemFreeHost", HOST_ALIGNMENT },
  [TARN_CUDA_MANAGED_MEMORY]
  = { "cuda-managed", "cuMemAllocManaged", "cuMemFree", DEVICE_ALIGNMENT },
  [TARN_CUDA_ASYNC_MEMORY] = { "cuda-async", "cuMemAllocAsync", "cuMemFreeAsync", ASYNC_ALIGNMENT },
};

static unsigned int
call_allocate (const TarnCudaMemoryAllocator *self, gsize size, TarnMemory *memory)
{
  const TarnCudaDriver *driver = self->home.context.driver;
  CUdeviceptr address = 0;
  unsigned int status;

  switch (self->kind)
    {
    case TARN_CUDA_HOST_MEMORY:
      return driver->cuMemHostAlloc (&memory->pointer, size, self->flags);
    case TARN_CUDA_MANAGED_MEMORY:
      status = driver->cuMemAllocManaged (&address, size, self->flags);
      break;
    case TARN_CUDA_DEVICE_MEMORY:
    /* unreachable: memory_allocate () calls _tarn_cuda_async_allocate () instead */
    case TARN_CUDA_ASYNC_MEMORY:
    default:
      status = driver->cuMemAlloc (&address, size);
      break;
    }
  if (status == TARN_CUDA_SUCCESS)
    memory->address = address;
  return status;
}

static gboolean
memory_allocate (gpointer user_data, gsize size, TarnMemory *memory, GError **error)
{
  TarnCudaMemoryAllocator *self = user_data;
  gboolean is_allocated;
  TarnCudaScope scope;
  unsigned int status;

  /* CUDA cannot allocate 0 bytes, so a block of 0 bytes has no memory. */
  if (size == 0)
    return TRUE;
  if (!_tarn_cuda_context_enter (&self->home.context, &scope, error))
    return FALSE;
  if (self->kind == TARN_CUDA_ASYNC_MEMORY)
    {
      is_allocated = _tarn_cuda_async_allocate (self, size, memory, error);
      _tarn_cuda_context_leave (&self->home.context, &scope);
      return is_allocated;
    }
  status = call_allocate (self, size, memory);
  _tarn_cuda_context_leave (&self->home.context, &scope);
  if (status == TARN_CUDA_SUCCESS)
    return TRUE;
  _tarn_cuda_set_error_for_size (error, self->home.context.driver, kinds[self->kind].allocate,
                                 status, size);
  return FALSE;
}

/* Counts bytes that Tarn cannot free because their context is gone.  The driver has freed the
 * memory with the context.  Tarn must not free the memory again, because other memory may have the
 * same address by now. */
static void
count_lost (TarnCudaMemoryAllocator *self, gsize size, const GError *error)
{
  __atomic_add_fetch (&self->lost_bytes, size, __ATOMIC_RELAXED);
  if (g_atomic_int_compare_and_exchange (&self->is_told, FALSE, TRUE))
    g_message ("%s: %" G_GSIZE_FORMAT " bytes are not freed: %s; this is said once",
               kinds[self->kind].free, size, error->message);
}

static unsigned int
call_free (const TarnCudaMemoryAllocator *self, TarnMemory memory)
{
  const TarnCudaDriver *driver = self->home.context.driver;

  switch (self->kind)
    {
    case TARN_CUDA_HOST_MEMORY:
      return driver->cuMemFreeHost (memory.pointer);
    case TARN_CUDA_ASYNC_MEMORY:
      return _tarn_cuda_async_free (self, memory);
    case TARN_CUDA_DEVICE_MEMORY:
    case TARN_CUDA_MANAGED_MEMORY:
    default:
      return driver->cuMemFree ((CUdeviceptr) memory.address);
    }
}

/* Frees memory in its context.  Returns FALSE with an error if the memory cannot be freed. */
static gboolean
free_in_context (const TarnCudaMemoryAllocator *self, TarnMemory memory, GError **error)
{
  TarnCudaScope scope;
  unsigned int status;

  if (!_tarn_cuda_context_enter (&self->home.context, &scope, error))
    return FALSE;
  status = call_free (self, memory);
  _tarn_cuda_context_leave (&self->home.context, &scope);
  return _tarn_cuda_check (self->home.context.driver, kinds[self->kind].free, status, error);
}

static void
memory_free (gpointer user_data, TarnMemory memory, gsize size)
{
  TarnCudaMemoryAllocator *self = user_data;
  g_autoptr (GError) error = NULL;

  if (memory.address == 0 || free_in_context (self, memory, &error))
    return;
  if (g_error_matches (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST))
    count_lost (self, size, error);
  /* At exit the driver may be gone already, and all memory with it.  In this case this function
   * logs no message. */
  else if (!g_error_matches (error, TARN_CUDA_ERROR, TARN_CUDA_ERROR_DEINITIALIZED))
    g_message ("%s: %" G_GSIZE_FORMAT " bytes may be lost", error->message, size);
}

/* Makes a suballocation: computes an address within @memory.  No driver call makes a suballocation
 * or releases it. */
static gboolean
part_new (gpointer user_data, TarnMemory memory, gsize offset, gsize size, TarnMemory *part,
          GError **error)
{
  const TarnCudaMemoryAllocator *self = user_data;

  (void) size;
  (void) error;
  if (self->kind == TARN_CUDA_HOST_MEMORY)
    part->pointer = (guint8 *) memory.pointer + offset;
  else
    part->address = memory.address + offset;
  return TRUE;
}

static gboolean
memory_get (gpointer user_data, guint64 *device_bytes, guint64 *free_bytes, GError **error)
{
  TarnCudaMemoryAllocator *self = user_data;
  const TarnCudaContext *context = &self->home.context;
  size_t available, total;
  TarnCudaScope scope;
  unsigned int status;

  if (!_tarn_cuda_context_enter (context, &scope, error))
    return FALSE;
  status = context->driver->cuMemGetInfo (&available, &total);
  _tarn_cuda_context_leave (context, &scope);
  if (!_tarn_cuda_check (context->driver, "cuMemGetInfo", status, error))
    return FALSE;
  *device_bytes = total;
  *free_bytes = available;
  return TRUE;
}

static void
memory_allocator_free (gpointer user_data)
{
  TarnCudaMemoryAllocator *self = user_data;

  _tarn_cuda_finder_clear (&self->finder, &self->home.context);
  _tarn_cuda_virtual_clear (&self->virtual_memory);
  _tarn_cuda_async_clear (self);
  _tarn_cuda_home_clear (&self->home);
  g_free (self);
}

/* Makes the TarnAllocator that has @self as its user data, and takes ownership of @self.  The
 * caller has set all fields of @self. */
static TarnAllocator *
make_allocator (TarnCudaMemoryAllocator *self)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;

  ops.name = kinds[self->kind].name;
  ops.allocate = memory_allocate;
  ops.free = memory_free;
  ops.part_alignment = kinds[self->kind].alignment;
  ops.part_new = part_new;
  ops.read = _tarn_cuda_memory_read;
  ops.fill = _tarn_cuda_memory_fill;
  if (self->kind != TARN_CUDA_HOST_MEMORY && self->home.context.driver->cuMemGetInfo != NULL)
    ops.get_memory = memory_get;
  if (self->kind != TARN_CUDA_HOST_MEMORY && self->home.context.driver->cuLaunchKernel != NULL)
    ops.find_other = _tarn_cuda_memory_find_other;
  if (self->kind == TARN_CUDA_ASYNC_MEMORY)
    ops.free_on_queue = _tarn_cuda_async_free_on_queue;
  _tarn_cuda_set_order (&ops);
  _tarn_cuda_virtual_set_ops (&self->virtual_memory, &ops);
  return tarn_allocator_new (&ops, self, memory_allocator_free);
}

/* Makes the user data of an allocator: a TarnCudaMemoryAllocator for memory of the kind @kind.
 * Returns NULL with an error if the context cannot be used. */
static TarnCudaMemoryAllocator *
memory_allocator_new (TarnCudaKind kind, CUcontext context, guint flags, GError **error)
{
  TarnCudaMemoryAllocator *self = g_new0 (TarnCudaMemoryAllocator, 1);

  self->kind = kind;
  self->flags = flags;
  _tarn_cuda_finder_init (&self->finder);
  if (_tarn_cuda_home_init (&self->home, context, error))
    return self;
  _tarn_mutex_clear (&self->finder.lock);
  g_free (self);
  return NULL;
}

TarnAllocator *
tarn_cuda_device_allocator_new (CUcontext context, GError **error)
{
  return tarn_cuda_device_allocator_new_with_options (context, NULL, error);
}

TarnAllocator *
tarn_cuda_device_allocator_new_with_options (CUcontext context,
                                             const TarnCudaDeviceOptions *options, GError **error)
{
  TarnCudaMemoryAllocator *self;

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  self = memory_allocator_new (TARN_CUDA_DEVICE_MEMORY, context, 0, error);
  if (self == NULL)
    return NULL;
  if (_tarn_cuda_virtual_init (&self->virtual_memory, &self->home.context, options, error))
    return make_allocator (self);
  memory_allocator_free (self);
  return NULL;
}

TarnAllocator *
tarn_cuda_host_allocator_new (CUcontext context, guint flags, GError **error)
{
  TarnCudaMemoryAllocator *self;

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  self = memory_allocator_new (TARN_CUDA_HOST_MEMORY, context, flags, error);
  return self != NULL ? make_allocator (self) : NULL;
}

TarnAllocator *
tarn_cuda_managed_allocator_new (CUcontext context, guint flags, GError **error)
{
  const TarnCudaDriver *driver;
  TarnCudaMemoryAllocator *self;

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if ((driver = _tarn_cuda_get_driver (error)) == NULL)
    return NULL;
  if (driver->cuMemAllocManaged == NULL)
    {
      g_set_error_literal (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
                           "the CUDA driver is too old for managed memory: it has no function "
                           "cuMemAllocManaged");
      return NULL;
    }
  self = memory_allocator_new (TARN_CUDA_MANAGED_MEMORY, context,
                               flags != 0 ? flags : TARN_CUDA_MEM_ATTACH_GLOBAL, error);
  return self != NULL ? make_allocator (self) : NULL;
}

TarnAllocator *
tarn_cuda_async_allocator_new (CUcontext context, CUmemoryPool pool, GError **error)
{
  TarnCudaMemoryAllocator *self;

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  self = memory_allocator_new (TARN_CUDA_ASYNC_MEMORY, context, 0, error);
  if (self == NULL)
    return NULL;
  if (_tarn_cuda_async_init (self, pool, error))
    return make_allocator (self);
  memory_allocator_free (self);
  return NULL;
}

/* Returns the data of an allocator of CUDA memory.  For an allocator of graph-pieces.c, which gets
 * its memory from a pool, returns the data of the allocator below that pool.  Returns NULL for an
 * allocator of other memory. */
static TarnCudaMemoryAllocator *
get_memory_allocator (TarnAllocator *allocator)
{
  TarnAllocator *direct = _tarn_cuda_graph_pieces_get_direct (allocator);

  if (!tarn_allocator_is_of (direct, memory_free))
    return NULL;
  return tarn_allocator_get_user_data (direct);
}

const TarnCudaContext *
_tarn_cuda_pool_get_context (TarnPool *pool)
{
  const TarnCudaMemoryAllocator *self
      = get_memory_allocator (tarn_allocator_get_direct (TARN_ALLOCATOR (pool)));

  return self != NULL ? &self->home.context : NULL;
}

gboolean
_tarn_cuda_check_block (const gchar *function, const TarnBlock *block)
{
  if (get_memory_allocator (tarn_block_get_allocator (block)) != NULL)
    return TRUE;
  _tarn_report_other_block (function, block, "an allocator of libtarn-cuda's");
  return FALSE;
}

guint64
tarn_cuda_allocator_get_lost_bytes (TarnAllocator *allocator)
{
  TarnCudaMemoryAllocator *self;

  g_return_val_if_fail (allocator != NULL, 0);
  self = get_memory_allocator (allocator);
  g_return_val_if_fail (self != NULL, 0);

  return __atomic_load_n (&self->lost_bytes, __ATOMIC_RELAXED);
}

CUdeviceptr
tarn_cuda_block_get_device_pointer (const TarnBlock *block)
{
  const TarnCudaMemoryAllocator *self;

  g_return_val_if_fail (block != NULL, 0);
  self = get_memory_allocator (tarn_block_get_allocator (block));
  if (self == NULL || self->kind == TARN_CUDA_HOST_MEMORY)
    {
      _tarn_report_other_block (G_STRFUNC, block, "'cuda-device', 'cuda-managed' or 'cuda-async'");
      return 0;
    }

  return (CUdeviceptr) tarn_block_get_memory (block).address;
}

gpointer
tarn_cuda_block_get_host_pointer (const TarnBlock *block)
{
  const TarnCudaMemoryAllocator *self;

  g_return_val_if_fail (block != NULL, NULL);
  self = get_memory_allocator (tarn_block_get_allocator (block));
  if (self == NULL
      || (self->kind != TARN_CUDA_HOST_MEMORY && self->kind != TARN_CUDA_MANAGED_MEMORY))
    {
      _tarn_report_other_block (G_STRFUNC, block, "'cuda-host' or 'cuda-managed'");
      return NULL;
    }

  return (gpointer) (guintptr) tarn_block_get_memory (block).address;
}
