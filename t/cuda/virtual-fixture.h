/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Shared by the tests of virtual memory of CUDA devices (virtual.c, virtual-options.c): that memory
 * as a heap sees it, and the driver's functions with which Tarn has no business. */

#ifndef CUDA_VIRTUAL_FIXTURE_H
#define CUDA_VIRTUAL_FIXTURE_H

#include "allocator/allocator-private.h"
#include "driver.h"

/* X (name, "symbol", arguments) */
#define VIRTUAL_FUNCTIONS(X)                                                                       \
  X (cuMemsetD8, "cuMemsetD8_v2", (CUdeviceptr to, unsigned char value, size_t n))                 \
  X (cuMemcpyHtoD, "cuMemcpyHtoD_v2", (CUdeviceptr to, const void *from, size_t size))             \
  X (cuMemcpyDtoH, "cuMemcpyDtoH_v2", (void *to, CUdeviceptr from, size_t size))                   \
  X (cuMemGetAccess, "cuMemGetAccess",                                                             \
     (unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address))              \
  X (cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle",                                   \
     (CUmemGenericAllocationHandle * handle, void *address))                                       \
  X (cuMemGetAllocationPropertiesFromHandle, "cuMemGetAllocationPropertiesFromHandle",             \
     (CUmemAllocationProp * properties, CUmemGenericAllocationHandle handle))                      \
  X (cuMemExportToShareableHandle, "cuMemExportToShareableHandle",                                 \
     (void *shared, CUmemGenericAllocationHandle handle, unsigned int type,                        \
      unsigned long long flags))

typedef struct
{
#define X(name, symbol, arguments) unsigned int (*name) arguments;
  VIRTUAL_FUNCTIONS (X)
#undef X
} VirtualDriver;

extern const TarnTestingCuda *fake; /* NULL: it is a real one */
extern VirtualDriver cuda;          /* NULL where the driver has none */

#define SUCCEED(call) g_assert_cmpuint (call, ==, 0)

/* In main (), before the tests run. */
void virtual_init (const TarnTestingCuda *driver);

typedef struct
{
  TarnAllocator *allocator; /* a reference */
  const TarnAllocatorOps *ops;
  gpointer data;
  gsize unit;            /* the granularity */
  TarnMemory addresses;  /* UNITS of them, or none */
  TarnMemory backing[2]; /* of one unit, and of two; or none */
} Memory;

#define UNITS 8

/* FALSE with an error.  If memory_fill () fails, the memory must still be cleared. */
gboolean memory_open (Memory *memory, CUcontext context, const TarnCudaDeviceOptions *options,
                      GError **error);
gboolean memory_fill (Memory *memory, GError **error);

/* When nothing is mapped any more. */
void memory_clear (Memory *memory);

/* The same without an error.  FALSE, and the test is skipped: the device has no virtual memory. */
gboolean open_or_skip (Memory *memory, CUcontext context, const TarnCudaDeviceOptions *options);
gboolean fill_or_skip (Memory *memory, CUcontext context, const TarnCudaDeviceOptions *options);

/* The address of a unit. */
TarnMemory memory_at (const Memory *memory, gsize unit);
CUdeviceptr pointer_at (const Memory *memory, gsize unit);

gboolean memory_map (Memory *memory, gsize backing, gsize unit, GError **error);
void map_surely (Memory *memory, gsize backing, gsize unit);
void memory_unmap (Memory *memory, gsize backing, gsize unit);

void assert_bytes (CUdeviceptr address, const gchar *expected);
void assert_out_of_memory (GError **error, const gchar *call, gsize size);

/* Virtual memory that is alive on the fake driver: all of it, and as much of it as calls have kept
 * that were to give it back, and failed. */
guint count_live (void);
extern guint n_left;
void assert_nothing_is_alive (void);

#endif
