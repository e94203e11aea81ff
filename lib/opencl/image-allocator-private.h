/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The allocator of images. */

#ifndef TARN_OPENCL_IMAGE_ALLOCATOR_PRIVATE_H
#define TARN_OPENCL_IMAGE_ALLOCATOR_PRIVATE_H

#include "image-kinds-private.h"

/* Makes an allocator of images, which moves each new image to the device of @queue at once.  A
 * request to the allocator states only a number of bytes.  The allocator looks this number up in
 * @kinds, to find the kind of image (flags, format, type and sizes).  So the caller has to acquire
 * the kind in @kinds before the request.  @buffers: a pool of buffers or NULL; the images count
 * towards this pool's limit.  Takes references to all arguments.  Returns NULL with an error if,
 * for example, the device does not support images. */
TarnAllocator *_tarn_opencl_image_allocator_new (cl_command_queue queue,
                                                 TarnOpenclImageKinds *kinds, TarnPool *buffers,
                                                 GError **error);

#endif
