/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The allocator of images. */

#ifndef TARN_OPENCL_IMAGE_ALLOCATOR_PRIVATE_H
#define TARN_OPENCL_IMAGE_ALLOCATOR_PRIVATE_H

#include "image-kinds-private.h"

/* Makes an allocator of images, which are on a queue's device at once.  The size of a block
 * determines its kind of image, so only kinds that are acquired can be allocated.  @buffers: the
 * pool to which bytes are charged.  Returns NULL if there is none.  Retains the queue, and takes
 * references to the others. */
TarnAllocator *_tarn_opencl_image_allocator_new (cl_command_queue queue,
                                                 TarnOpenclImageKinds *kinds, TarnPool *buffers,
                                                 GError **error);

#endif
