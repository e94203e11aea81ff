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

/* Records that the caller is about to put a command that frees memory on a queue.  When the command
 * has freed it, call _tarn_opencl_frees_end () with the result, in any thread. */
TarnOpenclFreeQueue *_tarn_opencl_frees_begin (TarnOpenclFrees *frees, cl_command_queue queue);

/* Records that the memory is free, or that the command could not be put on the queue. */
void _tarn_opencl_frees_end (TarnOpenclFrees *frees, TarnOpenclFreeQueue *queue);

/* Returns how many times queues have freed memory until now. */
guint64 _tarn_opencl_frees_count (TarnOpenclFrees *frees);

/* Makes the host wait for memory that queues are to free at the time of the call, unless they are
 * stuck.  Returns TRUE if memory became free after _tarn_opencl_frees_count () returned @count. */
gboolean _tarn_opencl_frees_await (TarnOpenclFrees *frees, guint64 count);

#endif
