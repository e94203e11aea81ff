/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Pools of images and of buffers beside them, for the tests of images on each device. */

#ifndef TARN_OPENCL_IMAGE_POOLS_H
#define TARN_OPENCL_IMAGE_POOLS_H

#include "lib/pool-fixture.h"
#include "queues.h"

#define FLOATS ((cl_image_format){ CL_RGBA, CL_FLOAT })
#define BYTES ((cl_image_format){ CL_R, CL_UNSIGNED_INT8 })
#define WORDS ((cl_image_format){ CL_R, CL_UNSIGNED_INT32 })

cl_image_desc plane (gsize width, gsize height);

/* FALSE: the device has no images, and the test is skipped. */
gboolean have_images (const OpenclState *state);

/* Without an error.  @buffers and @options may be NULL. */
TarnOpenclImagePool *pool_new (OpenclState *state, TarnPool *buffers,
                               const TarnPoolOptions *options);

TarnPool *pool_of (TarnOpenclImagePool *pool);

/* An image that there is, from a pool that is valid afterwards; for a queue, or for none. */
TarnBlock *take_desc (TarnOpenclImagePool *pool, cl_mem_flags flags, cl_image_format format,
                      const cl_image_desc *desc, cl_command_queue queue);
TarnBlock *take (TarnOpenclImagePool *pool, cl_image_format format, gsize width, gsize height,
                 cl_command_queue queue);

#define LIMIT ((gsize) 1 << 20)

/* A pool of buffers with that limit, which caches whatever it can. */
TarnPool *buffers_new (OpenclState *state, gboolean has_heap);

#endif
