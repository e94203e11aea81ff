/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Allocators of memory.  Only device memory of cuMemAlloc () can also be virtual memory. */

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

/* The properties of a device's virtual memory.  All zero: there is none. */
typedef struct
{
  gsize granularity; /* 0: none */
  unsigned int handle_types;
  gint has_rdma;          /* atomic: until cuMemCreate refuses it */
  TarnCudaAccess *access; /* for the device itself and its peers; owned, nullable */
  gsize n_access;
} TarnCudaVirtual;

/* The finder of bytes in a device's memory, made when it is first needed. */
typedef struct
{
  TarnMutex lock;
  gboolean is_made; /* or cannot be made */
  CUmodule module;  /* NULL: there is none */
  CUfunction function;
  CUdeviceptr first; /* 8 bytes on the device, for the result */
} TarnCudaFinder;

typedef struct
{
  TarnCudaHome home; /* first: see order-private.h */
  TarnCudaKind kind; /* constant, as are the next two, except atomic fields */
  guint flags;
  TarnCudaVirtual virtual_memory;
  CUmemoryPool pool; /* for TARN_CUDA_ASYNC_MEMORY; NULL: the device's current pool */
  CUstream stream;   /* for the same: the allocator's own; see async-memory.c */
  TarnCudaFinder finder;
  guint64 lost_bytes TARN_WHOLE; /* atomic: lost with the context */
  gint is_told;                  /* atomic: a message was logged */
} TarnCudaMemoryAllocator;

/* Finds out what virtual memory the device has.  It is no error by itself if there is none.  In any
 * case, _tarn_cuda_virtual_clear () frees the result. */
gboolean _tarn_cuda_virtual_init (TarnCudaVirtual *self, const TarnCudaContext *context,
                                  const TarnCudaDeviceOptions *options, GError **error);
void _tarn_cuda_virtual_clear (TarnCudaVirtual *self);

/* Makes and maps a little virtual memory, and releases it.  Returns FALSE if the driver refuses a
 * step.  Returns TRUE also if the device has no virtual memory. */
gboolean _tarn_cuda_virtual_try (TarnCudaMemoryAllocator *allocator, GError **error);

/* Makes an allocator as tarn_cuda_device_allocator_new_with_options () does (pool.c).  It has plain
 * memory if the environment asks for that, or if plain memory works and virtual memory does not. */
TarnAllocator *_tarn_cuda_pool_allocator_new (CUcontext context,
                                              const TarnCudaDeviceOptions *options, GError **error);

/* async-memory.c.  The allocator's home is set; to allocate and to free, the context is current. */
gboolean _tarn_cuda_async_init (TarnCudaMemoryAllocator *self, CUmemoryPool pool, GError **error);
void _tarn_cuda_async_clear (TarnCudaMemoryAllocator *self);
gboolean _tarn_cuda_async_allocate (const TarnCudaMemoryAllocator *self, gsize size,
                                    TarnMemory *memory, GError **error);
unsigned int _tarn_cuda_async_free (const TarnCudaMemoryAllocator *self, TarnMemory memory);
gboolean _tarn_cuda_async_free_on_queue (gpointer user_data, TarnMemory memory, gsize size,
                                         gpointer queue);

/* contents.c */
gboolean _tarn_cuda_memory_read (gpointer user_data, TarnMemory memory, gsize offset, gsize size,
                                 gpointer bytes, GError **error);
gboolean _tarn_cuda_memory_fill (gpointer user_data, TarnMemory memory, gsize offset, gsize size,
                                 guint8 byte, GError **error);
gboolean _tarn_cuda_memory_find_other (gpointer user_data, TarnMemory memory, gsize offset,
                                       gsize size, guint8 byte, gsize *first, GError **error);
void _tarn_cuda_finder_init (TarnCudaFinder *self);
void _tarn_cuda_finder_clear (TarnCudaFinder *self, const TarnCudaContext *context);

/* Sets the functions for virtual memory, if there is some. */
void _tarn_cuda_virtual_set_ops (const TarnCudaVirtual *self, TarnAllocatorOps *ops);

#endif
