/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#ifndef TARN_OPENCL_IMAGE_ALLOCATOR_PRIVATE_H
#define TARN_OPENCL_IMAGE_ALLOCATOR_PRIVATE_H

#include "image-kinds-private.h"

/* Makes an allocator of images that are on a queue's device at once.  A size says which kind an
 * image is of: only kinds that are acquired have one.  @buffers: to which bytes are charged; NULL:
 * none.  It retains the queue, and takes references on the others. */
TarnAllocator *_tarn_opencl_image_allocator_new (cl_command_queue queue,
                                                 TarnOpenclImageKinds *kinds, TarnPool *buffers,
                                                 GError **error);

#endif
