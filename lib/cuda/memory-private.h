/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Allocators of CUDA memory, of four kinds.  An allocator of device memory calls cuMemAlloc (), or
 * uses virtual memory (cuMemCreate, cuMemMap).  The other kinds never use virtual memory. */

#ifndef TARN_CUDA_MEMORY_PRIVATE_H
#define TARN_CUDA_MEMORY_PRIVATE_H

#include "common/lock-private.h"
#include "common/whole-private.h"
#include "order-private.h"

typedef enum
{
  TARN_CUDA_DEVICE_MEMORY,
  TARN_CUDA_HOST_MEMORY,
  TARN_CUDA_MANAGED_MEMORY,
  TARN_CUDA_ASYNC_MEMORY
} TarnCudaKind;

/* The properties of a device's virtual memory. */
typedef struct
{
  gsize granularity; /* granularity of virtual memory in bytes; 0 if the allocator uses none */
  unsigned int handle_types;
  /* atomic; TRUE if Tarn asks cuMemCreate () for memory that GPUDirect RDMA can access; FALSE if
   * the device does not support RDMA, or the driver has refused such memory */
  gint has_rdma;
  /* the devices that can access the memory: first the device itself, then its peers; owned,
   * nullable */
  TarnCudaAccess *access;
  gsize n_access;
} TarnCudaVirtual;

/* A kernel that finds the first byte of device memory that differs from a given value
 * (contents.c).  Tarn compiles the kernel at its first use. */
typedef struct
{
  TarnMutex lock;
  gboolean is_made; /* TRUE if Tarn has tried to compile the kernel */
  CUmodule module;  /* the module of the compiled kernel; NULL if Tarn has compiled none */
  CUfunction function;
  CUdeviceptr first; /* 8 bytes on the device, to which the kernel writes its result */
} TarnCudaFinder;

typedef struct
{
  /* must be the first field, because order.c uses this struct as a TarnCudaHome */
  TarnCudaHome home;
  /* kind, flags and virtual_memory are constant, except virtual_memory.has_rdma */
  TarnCudaKind kind;
  guint flags;
  TarnCudaVirtual virtual_memory;
  /* for TARN_CUDA_ASYNC_MEMORY: CUDA's pool, from which the allocator allocates; NULL for the
   * device's current pool */
  CUmemoryPool pool;
  /* for TARN_CUDA_ASYNC_MEMORY: the stream on which the allocator allocates and frees
   * (async-memory.c) */
  CUstream stream;
  TarnCudaFinder finder;
  guint64 lost_bytes TARN_WHOLE; /* atomic: bytes lost with a destroyed context */
  gint is_told;                  /* atomic; TRUE if a message about lost bytes was logged */
} TarnCudaMemoryAllocator;

/* Finds the properties of the device's virtual memory, unless the options ask for cuMemAlloc ().
 * If the device has no virtual memory, fails only if the options need virtual memory.  The caller
 * calls _tarn_cuda_virtual_clear () even if this function fails. */
gboolean _tarn_cuda_virtual_init (TarnCudaVirtual *self, const TarnCudaContext *context,
                                  const TarnCudaDeviceOptions *options, GError **error);
void _tarn_cuda_virtual_clear (TarnCudaVirtual *self);

/* Tests virtual memory: makes and maps as little memory as possible, and releases this memory.
 * Returns FALSE if the driver refuses a step.  Returns TRUE if the allocator uses no virtual
 * memory. */
gboolean _tarn_cuda_virtual_try (TarnCudaMemoryAllocator *allocator, GError **error);

/* Makes an allocator of device memory for a pool (pool.c).  The allocator calls cuMemAlloc () in
 * two cases: if TARN_CUDA_PLAIN asks for it, or if tests show that virtual memory does not work and
 * cuMemAlloc () does.  In all other cases, the allocator is the one that
 * tarn_cuda_device_allocator_new_with_options () makes. */
TarnAllocator *_tarn_cuda_pool_allocator_new (CUcontext context,
                                              const TarnCudaDeviceOptions *options, GError **error);

/* Functions of async-memory.c.  The caller sets @self->home, which has the allocator's context,
 * before it calls any of these functions.  The caller makes this context current before it calls
 * _tarn_cuda_async_allocate () or _tarn_cuda_async_free (). */
gboolean _tarn_cuda_async_init (TarnCudaMemoryAllocator *self, CUmemoryPool pool, GError **error);
void _tarn_cuda_async_clear (TarnCudaMemoryAllocator *self);
gboolean _tarn_cuda_async_allocate (const TarnCudaMemoryAllocator *self, gsize size,
                                    TarnMemory *memory, GError **error);
unsigned int _tarn_cuda_async_free (const TarnCudaMemoryAllocator *self, TarnMemory memory);
gboolean _tarn_cuda_async_free_on_queue (gpointer user_data, TarnMemory memory, gsize size,
                                         gpointer queue);

/* Functions of contents.c, which read, fill and search memory. */
gboolean _tarn_cuda_memory_read (gpointer user_data, TarnMemory memory, gsize offset, gsize size,
                                 gpointer bytes, GError **error);
gboolean _tarn_cuda_memory_fill (gpointer user_data, TarnMemory memory, gsize offset, gsize size,
                                 guint8 byte, GError **error);
gboolean _tarn_cuda_memory_find_other (gpointer user_data, TarnMemory memory, gsize offset,
                                       gsize size, guint8 byte, gsize *first, GError **error);
void _tarn_cuda_finder_init (TarnCudaFinder *self);
void _tarn_cuda_finder_clear (TarnCudaFinder *self, const TarnCudaContext *context);

/* Sets an allocator's functions for virtual memory.  Does nothing if the allocator uses no virtual
 * memory. */
void _tarn_cuda_virtual_set_ops (const TarnCudaVirtual *self, TarnAllocatorOps *ops);

#endif
