/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memory that queues are to free, and have not freed yet. */

#ifndef TARN_OPENCL_SVM_FREES_PRIVATE_H
#define TARN_OPENCL_SVM_FREES_PRIVATE_H

#include <CL/cl.h>
#include <glib.h>

typedef struct _TarnOpenclFrees TarnOpenclFrees;
typedef struct _TarnOpenclFreeQueue TarnOpenclFreeQueue;

TarnOpenclFrees *_tarn_opencl_frees_new (void);
void _tarn_opencl_frees_unref (TarnOpenclFrees *frees);

/* Notes that a command which frees memory is about to be put on the queue.  Call
 * _tarn_opencl_frees_end () after it, in any thread, with the result, which has a reference until
 * then. */
TarnOpenclFreeQueue *_tarn_opencl_frees_begin (TarnOpenclFrees *frees, cl_command_queue queue);

/* Notes that the memory is free, or that there is no such command. */
void _tarn_opencl_frees_end (TarnOpenclFrees *frees, TarnOpenclFreeQueue *queue);

/* Returns the number of times that memory became free. */
guint64 _tarn_opencl_frees_count (TarnOpenclFrees *frees);

/* Waits for memory that is to be freed now.  Returns TRUE if any memory has become free since there
 * were @count. */
gboolean _tarn_opencl_frees_await (TarnOpenclFrees *frees, guint64 count);

#endif
