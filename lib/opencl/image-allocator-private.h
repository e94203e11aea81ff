/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The allocator of images. */

#ifndef TARN_OPENCL_IMAGE_ALLOCATOR_PRIVATE_H
#define TARN_OPENCL_IMAGE_ALLOCATOR_PRIVATE_H

#include "image-kinds-private.h"

/* Makes an allocator of images, which moves each new image to the device of @queue at once.  A
 * request to the allocator states only a number of bytes.  The allocator finds in @kinds the kind
 * of image (flags, format, type and sizes) that has this number.  So the caller has to acquire the
 * kind in @kinds before the request.  @buffers: the pool of buffers towards whose limit the images
 * count, or NULL.  Takes references to all arguments.  Returns NULL with an error if, for example,
 * the device does not support images. */
TarnAllocator *_tarn_opencl_image_allocator_new (cl_command_queue queue,
                                                 TarnOpenclImageKinds *kinds, TarnPool *buffers,
                                                 GError **error);

#endif
