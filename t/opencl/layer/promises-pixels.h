/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Images of 16 x 16 pixels, for promises: a program fills each with one number. */

#ifndef PROMISES_PIXELS_H
#define PROMISES_PIXELS_H

#include "promises.h"

#define SIDE 16
#define BYTES (SIDE * SIDE * 4)

extern const cl_image_format rgba;
extern const size_t origin[3], region[3]; /* all of an image */

/* An image of no buffer, which is the caller's. */
cl_mem image_new (World *world, cl_mem_flags flags);

/* Fills an image with one number in all bytes, when a gate is open, unless there is none. */
void image_fill (cl_command_queue queue, cl_mem image, cl_uint value, const cl_event *gate);

/* Count the bytes that have another value: of BYTES on the host, an image, a buffer. */
gsize count_others (const guchar *bytes, cl_uint value);
gsize image_count_others (cl_command_queue queue, cl_mem image, cl_uint value);
gsize buffer_count_others (cl_command_queue queue, cl_mem buffer, cl_uint value);

#endif
