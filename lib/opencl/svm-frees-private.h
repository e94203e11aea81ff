/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Lets a request wait for memory that enqueued commands will free. */

#ifndef TARN_OPENCL_SVM_FREES_PRIVATE_H
#define TARN_OPENCL_SVM_FREES_PRIVATE_H

#include <CL/cl.h>
#include <glib.h>

typedef struct _TarnOpenclFrees TarnOpenclFrees;
typedef struct _TarnOpenclFreeQueue TarnOpenclFreeQueue;

TarnOpenclFrees *_tarn_opencl_frees_new (void);
void _tarn_opencl_frees_unref (TarnOpenclFrees *frees);

/* Records that the caller is about to enqueue a command that frees memory.  When the command has
 * freed the memory, or could not be enqueued, the caller passes this function's return value to
 * _tarn_opencl_frees_end (), in any thread. */
TarnOpenclFreeQueue *_tarn_opencl_frees_begin (TarnOpenclFrees *frees, cl_command_queue queue);

/* Records that the command for which _tarn_opencl_frees_begin () returned @queue has freed its
 * memory, or could not be enqueued.  Wakes the threads that wait for memory. */
void _tarn_opencl_frees_end (TarnOpenclFrees *frees, TarnOpenclFreeQueue *queue);

/* Returns how many times queues have freed memory until now. */
guint64 _tarn_opencl_frees_count (TarnOpenclFrees *frees);

/* Makes the host wait until all commands that free memory, and that are on queues when the function
 * is called, have run.  Waits only briefly for a stuck queue: a queue that has freed no memory for
 * a long time (see svm-frees.c).  Returns TRUE if any memory became free after
 * _tarn_opencl_frees_count () returned @count. */
gboolean _tarn_opencl_frees_await (TarnOpenclFrees *frees, guint64 count);

#endif
