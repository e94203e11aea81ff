/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Kinds of images.  A kind is a combination of arguments of clCreateImage ().  A pool distinguishes
 * cached blocks only by their number of bytes.  So for each kind in use, the functions here choose
 * a number of bytes that no other kind has.  They do not call OpenCL, because the OpenCL layer
 * (lib/opencl/layer) uses them too, and the layer calls the driver by its own table of
 * functions. */

#ifndef TARN_OPENCL_IMAGE_KINDS_PRIVATE_H
#define TARN_OPENCL_IMAGE_KINDS_PRIVATE_H

#include <tarn/opencl.h>

/* A kind of image: the arguments of clCreateImage () in which two images must be equal so that one
 * can be used in place of the other.  Fields that the image's type does not use are 0. */
typedef struct
{
  cl_mem_flags flags;
  cl_image_format format;
  cl_mem_object_type type;
  gsize width, height, depth, array_size; /* in pixels; array_size: a number of images */
} TarnOpenclImageKind;

/* Fills in a kind from the program's arguments of clCreateImage ().  Returns FALSE with
 * TARN_ERROR_INVALID_ARGUMENT if a pool cannot have such an image.  Does not add the default flag
 * CL_MEM_READ_WRITE to @flags: the caller may do that before (_tarn_opencl_add_access ()). */
gboolean _tarn_opencl_image_kind_init (TarnOpenclImageKind *kind, cl_mem_flags flags,
                                       const cl_image_format *format, const cl_image_desc *desc,
                                       GError **error);

/* Returns the cl_image_desc of a kind, for clCreateImage (). */
cl_image_desc _tarn_opencl_image_kind_get_desc (const TarnOpenclImageKind *kind);

/* Describes a kind for messages, transfer full. */
gchar *_tarn_opencl_image_kind_describe (const TarnOpenclImageKind *kind);

/* The set of the kinds of images that are in use in one pool.  A kind is in use while the pool has
 * an image of this kind, or while a request for such an image is in progress.  The functions below
 * are thread-safe.  They take only the set's own lock. */
typedef struct _TarnOpenclImageKinds TarnOpenclImageKinds;

TarnOpenclImageKinds *_tarn_opencl_image_kinds_new (void);
TarnOpenclImageKinds *_tarn_opencl_image_kinds_ref (TarnOpenclImageKinds *kinds);
void _tarn_opencl_image_kinds_unref (TarnOpenclImageKinds *kinds);

/* Acquires a kind for a request: adds the kind to the set if the set lacks it, and sets *bytes to
 * the size of the kind's blocks.  No other kind in the set has blocks of this size.  The kind keeps
 * this size at least until the caller calls _tarn_opencl_image_kinds_release ().  @pool: the pool
 * of images, which must never use a cached block of one size for a request of another size.
 * Returns FALSE with TARN_ERROR_INVALID_SIZE if the image is too large. */
gboolean _tarn_opencl_image_kinds_acquire (TarnOpenclImageKinds *kinds, TarnPool *pool,
                                           const TarnOpenclImageKind *kind, gsize *bytes,
                                           GError **error);

/* Finds the kind whose blocks have @bytes bytes, and acquires it.  The caller releases it by
 * _tarn_opencl_image_kinds_release ().  Returns FALSE if no kind in the set has blocks of this
 * size. */
gboolean _tarn_opencl_image_kinds_acquire_by_bytes (TarnOpenclImageKinds *kinds, gsize bytes,
                                                    TarnOpenclImageKind *kind);
void _tarn_opencl_image_kinds_release (TarnOpenclImageKinds *kinds, gsize bytes);

guint _tarn_opencl_image_kinds_get_n (TarnOpenclImageKinds *kinds);

#endif
