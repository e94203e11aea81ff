/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Functions that read and fill the memory of blocks, for the checks of TARN_DEBUG. */

#ifndef TARN_OPENCL_CONTENTS_PRIVATE_H
#define TARN_OPENCL_CONTENTS_PRIVATE_H

#include "order-private.h"

/* Reads bytes of a buffer to @bytes.  The host waits until they are read.  @flags: the flags with
 * which the buffer was created. */
gboolean _tarn_opencl_read_buffer (const TarnOpenclHome *home, cl_mem_flags flags, cl_mem buffer,
                                   gsize offset, gsize size, gpointer bytes, GError **error);
/* Fills bytes of a buffer.  If the buffer's allocator (@home) has a queue, later commands on this
 * queue see the new bytes.  If it has no queue, later commands on every queue see them. */
gboolean _tarn_opencl_fill_buffer (const TarnOpenclHome *home, cl_mem buffer, gsize offset,
                                   gsize size, guint8 byte, GError **error);

/* These two functions read and fill shared virtual memory.  The host waits for the read or the
 * fill. */
gboolean _tarn_opencl_read_svm (const TarnOpenclHome *home, gconstpointer memory, gsize size,
                                gpointer bytes, GError **error);
gboolean _tarn_opencl_fill_svm (const TarnOpenclHome *home, gpointer memory, gsize size,
                                guint8 byte, GError **error);

#endif
