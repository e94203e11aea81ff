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

/* The properties of a device's virtual memory.  All fields are 0 if the device has none. */
typedef struct
{
  gsize granularity; /* bytes; 0: the device has no virtual memory */
  unsigned int handle_types;
  /* TRUE: ask cuMemCreate () for memory with GPUDirect RDMA; FALSE: the device does not support
   * RDMA, or the driver has refused such memory; atomic */
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
  gboolean is_made; /* TRUE also if the driver cannot compile the kernel */
  CUmodule module;  /* NULL: not made, or cannot be made */
  CUfunction function;
  CUdeviceptr first; /* 8 bytes on the device, for the result */
} TarnCudaFinder;

typedef struct
{
  TarnCudaHome home; /* must be the first field: see order-private.h */
  /* kind, flags and virtual_memory are constant, except virtual_memory.has_rdma */
  TarnCudaKind kind;
  guint flags;
  TarnCudaVirtual virtual_memory;
  CUmemoryPool pool; /* for TARN_CUDA_ASYNC_MEMORY; NULL: the device's current pool */
  /* for TARN_CUDA_ASYNC_MEMORY: the stream on which the allocator allocates and frees
   * (async-memory.c) */
  CUstream stream;
  TarnCudaFinder finder;
  guint64 lost_bytes TARN_WHOLE; /* atomic: bytes lost with a destroyed context */
  gint is_told;                  /* atomic; TRUE: a message about lost bytes was logged */
} TarnCudaMemoryAllocator;

/* Finds the properties of the device's virtual memory.  A device without virtual memory is an error
 * only if the options need it.  The caller calls _tarn_cuda_virtual_clear () even if this fails. */
gboolean _tarn_cuda_virtual_init (TarnCudaVirtual *self, const TarnCudaContext *context,
                                  const TarnCudaDeviceOptions *options, GError **error);
void _tarn_cuda_virtual_clear (TarnCudaVirtual *self);

/* Tests virtual memory: makes and maps as little as possible, and releases it.  Returns FALSE if
 * the driver refuses a step.  Returns TRUE also if the device has no virtual memory. */
gboolean _tarn_cuda_virtual_try (TarnCudaMemoryAllocator *allocator, GError **error);

/* Makes an allocator of device memory (pool.c).  It is like one from
 * tarn_cuda_device_allocator_new_with_options (), except that it calls cuMemAlloc () instead of
 * using virtual memory if TARN_CUDA_PLAIN asks for that, or if a test shows that cuMemAlloc ()
 * works and virtual memory does not. */
TarnAllocator *_tarn_cuda_pool_allocator_new (CUcontext context,
                                              const TarnCudaDeviceOptions *options, GError **error);

/* Functions of async-memory.c.  The caller sets the allocator's home before it calls any of them,
 * and makes the home's context current before it allocates or frees. */
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

/* Sets an allocator's functions for virtual memory, unless the device has no virtual memory. */
void _tarn_cuda_virtual_set_ops (const TarnCudaVirtual *self, TarnAllocatorOps *ops);

#endif
