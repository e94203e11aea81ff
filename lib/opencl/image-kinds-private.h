/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Kinds of images.  A kind is a set of arguments of clCreateImage (), and has a number of bytes
 * that no other kind has.  Nothing here calls OpenCL, because lib/opencl/layer uses it, too. */

#ifndef TARN_OPENCL_IMAGE_KINDS_PRIVATE_H
#define TARN_OPENCL_IMAGE_KINDS_PRIVATE_H

#include <tarn/opencl.h>

/* A kind of image: images of one kind can replace each other.  Fields that the image's type does
 * not use are 0. */
typedef struct
{
  cl_mem_flags flags;
  cl_image_format format;
  cl_mem_object_type type;
  gsize width, height, depth, array_size; /* in pixels; array_size: images in the array */
} TarnOpenclImageKind;

/* Makes a kind from the program's arguments; does not change the flags.  Returns FALSE with
 * TARN_ERROR_INVALID_ARGUMENT if a pool cannot have such images. */
gboolean _tarn_opencl_image_kind_init (TarnOpenclImageKind *kind, cl_mem_flags flags,
                                       const cl_image_format *format, const cl_image_desc *desc,
                                       GError **error);

/* Returns the kind as an argument of clCreateImage (). */
cl_image_desc _tarn_opencl_image_kind_get_desc (const TarnOpenclImageKind *kind);

/* Describes a kind for messages, transfer full. */
gchar *_tarn_opencl_image_kind_describe (const TarnOpenclImageKind *kind);

/* The kinds of which a pool has images or requests in progress.  Any thread may call the functions
 * below.  They take no lock other than their own. */
typedef struct _TarnOpenclImageKinds TarnOpenclImageKinds;

TarnOpenclImageKinds *_tarn_opencl_image_kinds_new (void);
TarnOpenclImageKinds *_tarn_opencl_image_kinds_ref (TarnOpenclImageKinds *kinds);
void _tarn_opencl_image_kinds_unref (TarnOpenclImageKinds *kinds);

/* Finds the number of bytes of a kind, which the kind keeps until the caller calls
 * _tarn_opencl_image_kinds_release ().  @pool: a pool that has a bin for each number of bytes.
 * Returns FALSE with TARN_ERROR_INVALID_SIZE if the image is too large. */
gboolean _tarn_opencl_image_kinds_acquire (TarnOpenclImageKinds *kinds, TarnPool *pool,
                                           const TarnOpenclImageKind *kind, gsize *bytes,
                                           GError **error);

/* Finds and acquires the kind that has a number of bytes.  Returns FALSE if no kind has it. */
gboolean _tarn_opencl_image_kinds_acquire_by_bytes (TarnOpenclImageKinds *kinds, gsize bytes,
                                                    TarnOpenclImageKind *kind);
void _tarn_opencl_image_kinds_release (TarnOpenclImageKinds *kinds, gsize bytes);

guint _tarn_opencl_image_kinds_get_n (TarnOpenclImageKinds *kinds);

#endif
