/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Parts of memory, made by an allocator's own functions, and what commands do with them: buffers
 * and shared virtual memory alike. */

#ifndef TARN_OPENCL_REGIONS_H
#define TARN_OPENCL_REGIONS_H

#include "queues.h"

/* A whole piece of memory, or a part of one. */
typedef struct
{
  gboolean is_svm;
  TarnMemory memory;
  gsize size; /* bytes, whole words */
} OpenclRegion;

/* What offsets of an allocator's parts are multiples of. */
gsize opencl_get_part_alignment (TarnAllocator *allocator);

/* The least multiple of that which is no less than @bytes. */
gsize opencl_align_part (TarnAllocator *allocator, gsize bytes);

/* Without an error; a part is released before what it is of is freed. */
OpenclRegion opencl_whole_new (TarnAllocator *allocator, const OpenclMemory *memory, gsize size);
void opencl_whole_free (TarnAllocator *allocator, const OpenclRegion *whole);
OpenclRegion opencl_part_new (TarnAllocator *allocator, const OpenclRegion *whole, gsize offset,
                              gsize size);
void opencl_part_release (TarnAllocator *allocator, const OpenclRegion *part);

/* The allocator's functions as they are. */
gboolean opencl_part_try (TarnAllocator *allocator, const OpenclRegion *whole, gsize offset,
                          gsize size, OpenclRegion *part, GError **error);

/* Puts a command on the queue; what @first and @n count are words.  Those of the host do not wait
 * for it, but for opencl_read () and opencl_write (). */
void opencl_fill_words (cl_command_queue queue, const OpenclRegion *region, gsize first, gsize n,
                        guint32 value);
void opencl_copy_words (cl_command_queue queue, const OpenclRegion *from, gsize from_first,
                        const OpenclRegion *to, gsize to_first, gsize n);
void opencl_write (cl_command_queue queue, const OpenclRegion *region, const guint32 *words);
void opencl_read (cl_command_queue queue, const OpenclRegion *region, guint32 *words);

/* Has a kernel add a value to each word, which takes its time with each: @n_turns of a loop.  The
 * kernel is one of opencl_adder_new ()'s. */
void opencl_add_value (cl_command_queue queue, cl_kernel adder, const OpenclRegion *region,
                       guint32 value, guint32 n_turns);
cl_kernel opencl_adder_new (cl_context context);

#endif
