/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Needs no <cuda.h>, and may stand before or after it: what both declare is the same. */

#ifndef TARN_CUDA_H
#define TARN_CUDA_H

#include <tarn/tarn.h>

G_BEGIN_DECLS

typedef int CUdevice;

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

G_END_DECLS

#endif
