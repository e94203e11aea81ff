/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Allocators of memory.  Host and managed memory has no virtual memory. */

#ifndef TARN_CUDA_MEMORY_PRIVATE_H
#define TARN_CUDA_MEMORY_PRIVATE_H

#include "common/whole-private.h"
#include "order-private.h"

typedef enum
{
  TARN_CUDA_DEVICE_MEMORY,
  TARN_CUDA_HOST_MEMORY,
  TARN_CUDA_MANAGED_MEMORY
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

typedef struct
{
  TarnCudaHome home; /* first: see order-private.h */
  TarnCudaKind kind; /* constant, as are the next two, but for what says so */
  guint flags;
  TarnCudaVirtual virtual_memory;
  guint64 lost_bytes TARN_WHOLE; /* atomic: that went with the context */
  gint is_told;       /* atomic: whether somebody was told */
} TarnCudaMemoryAllocator;

/* Finds out what virtual memory the device has; that it has none is no error by itself.  FALSE or
 * not, _tarn_cuda_virtual_clear () gives back what it has. */
gboolean _tarn_cuda_virtual_init (TarnCudaVirtual *self, const TarnCudaContext *context,
                                  const TarnCudaDeviceOptions *options, GError **error);
void _tarn_cuda_virtual_clear (TarnCudaVirtual *self);

/* Sets the functions for virtual memory, of an allocator that has some. */
void _tarn_cuda_virtual_set_ops (const TarnCudaVirtual *self, TarnAllocatorOps *ops);

#endif
