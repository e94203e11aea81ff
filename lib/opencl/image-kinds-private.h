/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Kinds of images: what clCreateImage takes, each with a number of bytes that no other kind has.
 * The layer (lib/opencl/layer) has them, too, so that nothing here calls OpenCL. */

#ifndef TARN_OPENCL_IMAGE_KINDS_PRIVATE_H
#define TARN_OPENCL_IMAGE_KINDS_PRIVATE_H

#include <tarn/opencl.h>

/* Images of one kind can take each other's place.  Fields that the image's type does not use are 0.
 */
typedef struct
{
  cl_mem_flags flags;
  cl_image_format format;
  cl_mem_object_type type;
  gsize width, height, depth, array_size; /* pixels; images of an array */
} TarnOpenclImageKind;

/* Takes a kind from the program's arguments, the flags as they are.  FALSE with
 * TARN_ERROR_INVALID_ARGUMENT: a pool has no such images. */
gboolean _tarn_opencl_image_kind_init (TarnOpenclImageKind *kind, cl_mem_flags flags,
                                       const cl_image_format *format, const cl_image_desc *desc,
                                       GError **error);

/* Gets what clCreateImage takes for it. */
cl_image_desc _tarn_opencl_image_kind_get_desc (const TarnOpenclImageKind *kind);

/* Describes it for people; the caller frees the text. */
gchar *_tarn_opencl_image_kind_describe (const TarnOpenclImageKind *kind);

/* The kinds that a pool has images or requests of.  Any thread may call these.  None takes another
 * lock. */
typedef struct _TarnOpenclImageKinds TarnOpenclImageKinds;

TarnOpenclImageKinds *_tarn_opencl_image_kinds_new (void);
TarnOpenclImageKinds *_tarn_opencl_image_kinds_ref (TarnOpenclImageKinds *kinds);
void _tarn_opencl_image_kinds_unref (TarnOpenclImageKinds *kinds);

/* Gets the bytes of a kind, which stay its own until _tarn_opencl_image_kinds_release ().  @pool:
 * which has a bin for each number of bytes.  FALSE with TARN_ERROR_INVALID_SIZE: the image is too
 * large to be counted. */
gboolean _tarn_opencl_image_kinds_acquire (TarnOpenclImageKinds *kinds, TarnPool *pool,
                                           const TarnOpenclImageKind *kind, gsize *bytes,
                                           GError **error);

/* Gets the kind that has a number of bytes, once more until it is released.  FALSE: none has it. */
gboolean _tarn_opencl_image_kinds_acquire_by_bytes (TarnOpenclImageKinds *kinds, gsize bytes,
                                                    TarnOpenclImageKind *kind);
void _tarn_opencl_image_kinds_release (TarnOpenclImageKinds *kinds, gsize bytes);

/* Counts them. */
guint _tarn_opencl_image_kinds_get_n (TarnOpenclImageKinds *kinds);

#endif
