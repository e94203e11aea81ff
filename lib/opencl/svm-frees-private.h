/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What queues have been told to free, as far as they have not got to it. */

#ifndef TARN_OPENCL_SVM_FREES_PRIVATE_H
#define TARN_OPENCL_SVM_FREES_PRIVATE_H

#include <CL/cl.h>
#include <glib.h>

typedef struct _TarnOpenclFrees TarnOpenclFrees;
typedef struct _TarnOpenclFreeQueue TarnOpenclFreeQueue;

TarnOpenclFrees *_tarn_opencl_frees_new (void);
void _tarn_opencl_frees_unref (TarnOpenclFrees *frees);

/* A command that frees memory is about to be put on the queue; _tarn_opencl_frees_end () must
 * follow, from whatever thread, with what this gives.  It has a reference until then. */
TarnOpenclFreeQueue *_tarn_opencl_frees_begin (TarnOpenclFrees *frees, cl_command_queue queue);

/* Memory is free again; or there was no such command. */
void _tarn_opencl_frees_end (TarnOpenclFrees *frees, TarnOpenclFreeQueue *queue);

/* How often memory has come to be free. */
guint64 _tarn_opencl_frees_count (TarnOpenclFrees *frees);

/* Waits for what is to be freed now.  Whether any memory has come to be free since there were
 * @count. */
gboolean _tarn_opencl_frees_await (TarnOpenclFrees *frees, guint64 count);

#endif
