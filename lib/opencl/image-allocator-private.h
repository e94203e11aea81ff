/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The allocator of images. */

#ifndef TARN_OPENCL_IMAGE_ALLOCATOR_PRIVATE_H
#define TARN_OPENCL_IMAGE_ALLOCATOR_PRIVATE_H

#include "image-kinds-private.h"

/* Makes an allocator of images.  Each new image is moved to the queue's device at once.  The size
 * of a block determines its kind of image, so only kinds that a caller has acquired can be
 * allocated.  @buffers: the pool towards whose limit the images count, or NULL.  Takes references
 * to all arguments.  Returns NULL with an error if, for example, the device has no images. */
TarnAllocator *_tarn_opencl_image_allocator_new (cl_command_queue queue,
                                                 TarnOpenclImageKinds *kinds, TarnPool *buffers,
                                                 GError **error);

#endif
