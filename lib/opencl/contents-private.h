/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#ifndef TARN_OPENCL_CONTENTS_PRIVATE_H
#define TARN_OPENCL_CONTENTS_PRIVATE_H

#include "order-private.h"

/* Reads of a buffer that was made with these flags; it waits until that is done. */
gboolean _tarn_opencl_read_buffer (const TarnOpenclHome *home, cl_mem_flags flags, cl_mem buffer,
                                   gsize offset, gsize size, gpointer bytes, GError **error);
/* The bytes are there for what comes later on the home's queue; without one, for all. */
gboolean _tarn_opencl_fill_buffer (const TarnOpenclHome *home, cl_mem buffer, gsize offset,
                                   gsize size, guint8 byte, GError **error);

/* The same of shared virtual memory, which is filled when it returns. */
gboolean _tarn_opencl_read_svm (const TarnOpenclHome *home, gconstpointer memory, gsize size,
                                gpointer bytes, GError **error);
gboolean _tarn_opencl_fill_svm (const TarnOpenclHome *home, gpointer memory, gsize size,
                                guint8 byte, GError **error);

#endif
