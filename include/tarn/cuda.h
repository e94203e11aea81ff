/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Needs no <cuda.h>, and may stand before or after it: what both declare is the same (C11 or C++ is
 * needed then, as C99 allows no typedef twice). */

#ifndef TARN_CUDA_H
#define TARN_CUDA_H

#include <tarn/tarn.h>

G_BEGIN_DECLS

/* As <cuda.h> has them. */
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
#if defined(__LP64__) || defined(_WIN64)
typedef unsigned long long CUdeviceptr;
#else
typedef unsigned int CUdeviceptr;
#endif

/** The domain of errors whose code is CUDA's own status, a CUresult. */
#define TARN_CUDA_ERROR (tarn_cuda_error_quark ())
GQuark tarn_cuda_error_quark (void);

/** A device that was chosen; the strings are its own. */
typedef struct
{
  CUdevice device;
  guint device_index; /**< its place among the devices, as cuDeviceGet() takes it */
  gchar *name;
  gchar *uuid;     /**< nullable; as nvidia-smi writes it: "GPU-9f2c5c3a-..." */
  gchar *pci;      /**< nullable; "0000:65:00.0" */
  gchar *selector; /**< chooses it, and goes on to: tarn_selection_make_selector() */
  gpointer reserved[4];
} TarnCudaDevice;

GPtrArray *tarn_cuda_select_test_devices (const gchar *selection, GError **error);

/** What a test is to run on. */
typedef struct
{
  CUdevice device;
  CUcontext context;          /**< of the test alone; current in its thread */
  const TarnCudaDevice *info; /**< of device */
  gpointer reserved[4];
} TarnCudaTest;

/** A test; @p data is what it was added with. */
typedef void (*TarnCudaTestFunc) (const TarnCudaTest *test, gconstpointer data);

void tarn_cuda_test_add (const gchar *path, TarnCudaTestFunc func, gconstpointer data);

/* Contexts */

CUcontext tarn_cuda_make_default_context (CUdevice *device, GError **error);
void tarn_cuda_context_release (CUcontext context);
gboolean tarn_cuda_autoinit (CUdevice *device, CUcontext *context, GError **error);
gboolean tarn_cuda_get_default_device (gint fallback, CUdevice *device, GError **error);

/* Memory */

TarnAllocator *tarn_cuda_device_allocator_new (CUcontext context, GError **error);
TarnAllocator *tarn_cuda_host_allocator_new (CUcontext context, guint flags, GError **error);
TarnAllocator *tarn_cuda_managed_allocator_new (CUcontext context, guint flags, GError **error);
guint64 tarn_cuda_allocator_get_lost_bytes (TarnAllocator *allocator);
CUdeviceptr tarn_cuda_block_get_device_pointer (const TarnBlock *block);
gpointer tarn_cuda_block_get_host_pointer (const TarnBlock *block);

/** An array in host memory. */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnCudaHostArray), as TARN_CUDA_HOST_ARRAY_INIT sets it */
  TarnBlock *block;  /**< whose memory it is: its own */
  gpointer data;     /**< the element at [0, 0, ...] */
  guint rank;
  gsize *shape;   /**< elements along each axis; its own */
  gsize *strides; /**< bytes from one element to the next along each axis; its own */
  gsize item_size;
  gsize size; /**< bytes of all elements */
} TarnCudaHostArray;

#define TARN_CUDA_HOST_ARRAY_INIT                                                                  \
  {                                                                                                \
    sizeof (TarnCudaHostArray), /* struct_size */                                                  \
        NULL,                   /* block */                                                        \
        NULL,                   /* data */                                                         \
        0,                      /* rank */                                                         \
        NULL,                   /* shape */                                                        \
        NULL,                   /* strides */                                                      \
        0,                      /* item_size */                                                    \
        0                       /* size */                                                         \
  }

gboolean tarn_cuda_host_array_allocate (TarnPool *pool, guint rank, const gsize *shape,
                                        gsize item_size, gchar order, TarnCudaHostArray *array,
                                        GError **error);
void tarn_cuda_host_array_clear (TarnCudaHostArray *array);

G_END_DECLS

#endif
