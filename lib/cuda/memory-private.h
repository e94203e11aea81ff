/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Allocators of memory.  Only device memory of cuMemAlloc has virtual memory beside it. */

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

/* How memory of a device is mapped.  All zero: there is no virtual memory. */
typedef struct
{
  gsize granularity; /* 0: none */
  unsigned int handle_types;
  gint has_rdma;          /* atomic: until cuMemCreate refuses it */
  TarnCudaAccess *access; /* for the device itself and its peers; owned, nullable */
  gsize n_access;
} TarnCudaVirtual;

/* What looks for bytes in a device's memory: made when it is first needed. */
typedef struct
{
  TarnMutex lock;
  gboolean is_made; /* or cannot be */
  CUmodule module;  /* NULL: there is none */
  CUfunction function;
  CUdeviceptr first; /* 8 bytes on the device: where it puts what it finds */
} TarnCudaFinder;

typedef struct
{
  TarnCudaHome home; /* first: see order-private.h */
  TarnCudaKind kind; /* constant, as are the next two, but for what says so */
  guint flags;
  TarnCudaVirtual virtual_memory;
  CUmemoryPool pool; /* of TARN_CUDA_ASYNC_MEMORY; NULL: whichever is the device's current one */
  CUstream stream;   /* of that, too: its own; see async-memory.c */
  TarnCudaFinder finder;
  guint64 lost_bytes TARN_WHOLE; /* atomic: that went with the context */
  gint is_told;                  /* atomic: whether somebody was told */
} TarnCudaMemoryAllocator;

/* Finds out what virtual memory the device has; that it has none is no error by itself.  FALSE or
 * not, _tarn_cuda_virtual_clear () gives back what it has. */
gboolean _tarn_cuda_virtual_init (TarnCudaVirtual *self, const TarnCudaContext *context,
                                  const TarnCudaDeviceOptions *options, GError **error);
void _tarn_cuda_virtual_clear (TarnCudaVirtual *self);

/* Makes and maps a little virtual memory, and releases it.  FALSE: the driver refuses one of these
 * steps.  TRUE also if the device has no virtual memory. */
gboolean _tarn_cuda_virtual_try (TarnCudaMemoryAllocator *allocator, GError **error);

/* pool.c: makes an allocator as tarn_cuda_device_allocator_new_with_options () does.  It is one of
 * plain memory if the environment asks for that, or if plain memory works and virtual memory does
 * not. */
TarnAllocator *_tarn_cuda_pool_allocator_new (CUcontext context,
                                              const TarnCudaDeviceOptions *options, GError **error);

/* async-memory.c.  The allocator's home is there; to allocate and to free, the context is current.
 */
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

/* Sets the functions for virtual memory, of an allocator that has some. */
void _tarn_cuda_virtual_set_ops (const TarnCudaVirtual *self, TarnAllocatorOps *ops);

#endif
