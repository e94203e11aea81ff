/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Images: OpenCL 3.0 specification, section 5.3.1, "Creating Image Objects".
 *
 * The program's buffers are sub-buffers of the driver's buffers.  A driver that makes images of
 * buffers may refuse to make images of sub-buffers (PoCL), or make images that read the wrong
 * bytes.  If PoCL's device is the host's processor, the layer makes a buffer over the sub-buffer's
 * host address (CL_MEM_USE_HOST_PTR), and then the image of this buffer.  The buffer has the same
 * memory as the sub-buffer.  So nothing is copied, and the program's handles stay valid.  Queries
 * do not show the buffer: see describe.c. */

#include "layer-private.h"

/* The OpenCL functions by which a program makes an image. */
typedef enum
{
  LAYER_CREATE_IMAGE,
  LAYER_CREATE_WITH_PROPERTIES,
  LAYER_CREATE_2D, /* clCreateImage2D () of OpenCL 1.1 */
  LAYER_CREATE_3D  /* clCreateImage3D () of OpenCL 1.1 */
} LayerFunction;

/* The arguments of a program's call that makes an image. */
typedef struct
{
  cl_context context;
  LayerFunction function;
  const cl_mem_properties *properties; /* the properties that the program passed, or NULL */
  cl_mem_flags flags;
  const cl_image_format *format;
  const cl_image_desc *desc;
  void *host;
} Request;

/* Makes an image with the OpenCL function that the program called. */
static cl_mem
create (const Request *request, const cl_image_desc *desc, cl_int *status)
{
  switch (request->function)
    {
    case LAYER_CREATE_WITH_PROPERTIES:
      return _tarn_layer_driver->clCreateImageWithProperties (request->context, request->properties,
                                                              request->flags, request->format, desc,
                                                              request->host, status);
    case LAYER_CREATE_2D:
      return _tarn_layer_driver->clCreateImage2D (request->context, request->flags, request->format,
                                                  desc->image_width, desc->image_height,
                                                  desc->image_row_pitch, request->host, status);
    case LAYER_CREATE_3D:
      return _tarn_layer_driver->clCreateImage3D (
          request->context, request->flags, request->format, desc->image_width, desc->image_height,
          desc->image_depth, desc->image_row_pitch, desc->image_slice_pitch, request->host, status);
    case LAYER_CREATE_IMAGE:
    default:
      return _tarn_layer_driver->clCreateImage (request->context, request->flags, request->format,
                                                desc, request->host, status);
    }
}

/* Makes an image.  If memory runs out, returns the pools' cached memory to the driver, and retries.
 */
static cl_mem
create_with_room (const Request *request, const cl_image_desc *desc, cl_int *status)
{
  cl_mem image = create (request, desc, status);

  if (image == NULL && _tarn_layer_try_make_room (request->context, *status))
    image = create (request, desc, status);
  return image;
}

/* Functions that make OpenCL images of the program's buffers */

/* Makes a stand-in for the pooled buffer @whole: another buffer, of which the driver can make an
 * image.  If possible, the stand-in shares the memory of @whole, and *shares becomes TRUE.
 * Otherwise the stand-in has the size of @whole, but its own memory, and *shares becomes FALSE. */
static cl_mem
make_stand_in (LayerBuffer *whole, gboolean *shares)
{
  cl_mem_flags flags = whole->flags & ~(cl_mem_flags) CL_MEM_COPY_HOST_PTR;
  gsize offset;
  cl_mem piece = _tarn_layer_buffer_find_piece (whole, &offset);
  guchar *address = _tarn_layer_find_address (whole->context, piece);
  cl_int status;

  *shares = address != NULL && _tarn_layer_ask_addresses (whole->context);
  if (*shares)
    flags = (flags & ~(cl_mem_flags) CL_MEM_ALLOC_HOST_PTR) | CL_MEM_USE_HOST_PTR;
  return _tarn_layer_driver->clCreateBuffer (whole->context->base.handle, flags, whole->size,
                                             *shares ? address + offset : NULL, &status);
}

/* Makes the record of an image that the layer made over the host address of the program's buffer
 * @whole.  The flags in the record hide from the program that the image has a host address. */
static void
add_disguised (LayerBuffer *whole, cl_mem image)
{
  LayerBuffer *part = _tarn_layer_buffer_add_image (whole, image);

  _tarn_layer_driver->clGetMemObjectInfo (image, CL_MEM_FLAGS, sizeof part->flags, &part->flags,
                                          NULL);
  part->flags &= ~(cl_mem_flags) CL_MEM_USE_HOST_PTR;
  part->flags |= whole->flags & CL_MEM_ALLOC_HOST_PTR;
  part->is_disguised = TRUE;
}

/* Makes an image of a buffer from a pool, if the driver makes no correct images of sub-buffers.
 * *status is the error that the driver returned for an image of the sub-buffer.  The function makes
 * an image of another buffer, a stand-in (see make_stand_in ()):
 * - If the driver does not make the stand-in, returns NULL, and does not change *status.
 * - If the driver refuses the image, it would refuse the same image of any other buffer.  Sets
 *   *status to the driver's error, and returns NULL.
 * - If the stand-in shares the memory of the program's buffer, sets *status to CL_SUCCESS, and
 *   returns the image.
 * - If the stand-in has its own memory, releases the image, warns, and returns NULL.  Does not
 *   change *status.
 *
 * In the last two cases, the driver itself makes all new buffers of the context from now on,
 * because the program makes images of buffers, and the driver can make them of its own whole
 * buffers. */
static cl_mem
create_of_stand_in (const Request *request, LayerBuffer *whole, cl_int *status)
{
  static gboolean once;
  cl_image_desc desc = *request->desc;
  gboolean shares;
  cl_int without = CL_SUCCESS;
  cl_mem image;

  desc.mem_object = make_stand_in (whole, &shares);
  if (desc.mem_object == NULL)
    return NULL;
  image = create (request, &desc, &without);
  _tarn_layer_driver->clReleaseMemObject (desc.mem_object); /* the image retains this buffer */
  if (image == NULL || shares)
    *status = without;
  if (image == NULL)
    return NULL;
  __atomic_store_n (&whole->context->wants_images, TRUE, __ATOMIC_RELEASE);
  if (shares)
    {
      add_disguised (whole, image);
      return image;
    }
  _tarn_layer_driver->clReleaseMemObject (image);
  _tarn_layer_warn (&once,
                    "this driver makes no image of a buffer that is from a pool (%d): those "
                    "made from now on are the driver's, as all are with TARN_LAYER_POOL=0",
                    *status);
  return NULL;
}

/* Returns TRUE if an image that was made of a buffer needs at most @size bytes of the buffer. */
static gboolean
is_within (cl_mem image, gsize size)
{
  size_t element = 0, width = 0, height = 0, row = 0;

  _tarn_layer_driver->clGetImageInfo (image, CL_IMAGE_ELEMENT_SIZE, sizeof element, &element, NULL);
  _tarn_layer_driver->clGetImageInfo (image, CL_IMAGE_WIDTH, sizeof width, &width, NULL);
  _tarn_layer_driver->clGetImageInfo (image, CL_IMAGE_HEIGHT, sizeof height, &height, NULL);
  _tarn_layer_driver->clGetImageInfo (image, CL_IMAGE_ROW_PITCH, sizeof row, &row, NULL);
  return MAX (row, width * element) * MAX (height, 1) <= size;
}

/* Checks that @image fits in @whole, the program's buffer of which it was made.  The driver cannot
 * check this, because the layer made the image of a sub-buffer that may be larger than @whole.  If
 * the image does not fit, the function makes a sub-buffer of exactly the size of @whole, and an
 * image of that sub-buffer, to get the driver's error.  If the driver refuses one of these, sets
 * *status, releases @image and returns NULL.  In all other cases, returns @image. */
static cl_mem
refuse_too_large (const Request *request, LayerBuffer *whole, cl_mem image, cl_int *status)
{
  cl_buffer_region region = { 0, whole->size };
  cl_image_desc desc = *request->desc;
  cl_int without = CL_SUCCESS;
  cl_mem exact, of_exact;

  if (is_within (image, whole->size))
    return image;
  exact = _tarn_layer_driver->clCreateSubBuffer (
      _tarn_layer_buffer_find_piece (whole, &region.origin),
      whole->asked & (LAYER_ACCESS_FLAGS | LAYER_HOST_FLAGS), CL_BUFFER_CREATE_TYPE_REGION, &region,
      &without);
  desc.mem_object = exact;
  of_exact = exact != NULL ? create (request, &desc, &without) : NULL;
  if (exact != NULL)
    _tarn_layer_driver->clReleaseMemObject (exact);
  if (of_exact == NULL)
    *status = without;
  _tarn_layer_driver->clReleaseMemObject (of_exact != NULL ? of_exact : image);
  return of_exact != NULL ? image : NULL;
}

/* Makes an image of a memory object, and the record of the image.  The memory object is from a
 * pool, or is made of an object from a pool. */
static cl_mem
create_of_buffer (const Request *request, LayerBuffer *whole, cl_int *status)
{
  gboolean is_ours = whole->whole == NULL && !whole->is_image;
  cl_mem image = create_with_room (request, request->desc, status);

  if (is_ours && !_tarn_layer_ask_images (whole->context))
    {
      if (image != NULL)
        {
          _tarn_layer_driver->clReleaseMemObject (image);
          *status = CL_INVALID_MEM_OBJECT;
        }
      return create_of_stand_in (request, whole, status);
    }
  if (image != NULL && is_ours)
    image = refuse_too_large (request, whole, image, status);
  if (image != NULL)
    _tarn_layer_buffer_add_image (whole, image);
  return image;
}

/* Functions that make images for the program's calls */

/* Counts an image that the layer asked the driver to make.  @image: the driver's image, or NULL if
 * the driver refused. */
static void
count_passed_on (cl_mem image)
{
  size_t bytes = 0;

  LAYER_COUNT (images_passed_on);
  if (image != NULL
      && _tarn_layer_driver->clGetMemObjectInfo (image, CL_MEM_SIZE, sizeof bytes, &bytes, NULL)
             == CL_SUCCESS)
    LAYER_COUNT_BYTES (image_bytes, bytes);
}

/* Takes an image for the program from the pool, and counts it.  If the pool does not serve the
 * image, returns NULL and does not change *status, which is CL_SUCCESS: the caller then lets the
 * driver make the image.  If the program must get an error, returns NULL and sets *status to the
 * error. */
static cl_mem
serve (const Request *request, cl_int *status)
{
  cl_mem image = _tarn_layer_serve_image (request->context, request->flags, request->format,
                                          request->desc, status);
  size_t bytes = 0;

  if (image == NULL)
    return NULL;
  LAYER_COUNT (images_served);
  _tarn_layer_driver->clGetMemObjectInfo (image, CL_MEM_SIZE, sizeof bytes, &bytes, NULL);
  LAYER_COUNT_BYTES (image_bytes, bytes);
  return image;
}

/* Makes an image for the program that is not made of another memory object. */
static cl_mem
create_new (const Request *request, cl_int *status)
{
  cl_mem image = NULL;

  LAYER_COUNT (images_created);
  if (request->properties == NULL && request->host == NULL)
    image = serve (request, status);
  if (image != NULL || *status != CL_SUCCESS)
    return image;
  image = create_with_room (request, request->desc, status);
  count_passed_on (image);
  return image;
}

/* Makes an image of any kind for a call of the program. */
static cl_mem
create_any (const Request *request, cl_int *status_ret)
{
  cl_int status = CL_SUCCESS;
  LayerBuffer *whole = request->desc != NULL && request->desc->mem_object != NULL
                           ? _tarn_layer_buffer_find_retained (request->desc->mem_object)
                           : NULL;
  cl_mem image;

  if (whole != NULL)
    {
      image = create_of_buffer (request, whole, &status);
      _tarn_layer_buffer_release (whole);
    }
  else if (request->desc != NULL && request->desc->mem_object != NULL)
    image = create_with_room (request, request->desc, &status);
  else
    image = create_new (request, &status);
  if (image == NULL && _tarn_layer_is_no_memory (status))
    LAYER_COUNT (images_failed);
  if (status_ret != NULL)
    *status_ret = status;
  return image;
}

cl_mem CL_API_CALL
layer_clCreateImage (cl_context context, cl_mem_flags flags, const cl_image_format *format,
                     const cl_image_desc *desc, void *host, cl_int *status)
{
  const Request request = { context, LAYER_CREATE_IMAGE, NULL, flags, format, desc, host };

  return create_any (&request, status);
}

cl_mem CL_API_CALL
layer_clCreateImageWithProperties (cl_context context, const cl_mem_properties *properties,
                                   cl_mem_flags flags, const cl_image_format *format,
                                   const cl_image_desc *desc, void *host, cl_int *status)
{
  const Request request
      = { context, LAYER_CREATE_WITH_PROPERTIES, properties, flags, format, desc, host };

  return create_any (&request, status);
}

cl_mem CL_API_CALL
layer_clCreateImage2D (cl_context context, cl_mem_flags flags, const cl_image_format *format,
                       size_t width, size_t height, size_t row, void *host, cl_int *status)
{
  const cl_image_desc desc = { .image_type = CL_MEM_OBJECT_IMAGE2D,
                               .image_width = width,
                               .image_height = height,
                               .image_row_pitch = row };
  const Request request = { context, LAYER_CREATE_2D, NULL, flags, format, &desc, host };

  return create_any (&request, status);
}

cl_mem CL_API_CALL
layer_clCreateImage3D (cl_context context, cl_mem_flags flags, const cl_image_format *format,
                       size_t width, size_t height, size_t depth, size_t row, size_t slice,
                       void *host, cl_int *status)
{
  const cl_image_desc desc = { .image_type = CL_MEM_OBJECT_IMAGE3D,
                               .image_width = width,
                               .image_height = height,
                               .image_depth = depth,
                               .image_row_pitch = row,
                               .image_slice_pitch = slice };
  const Request request = { context, LAYER_CREATE_3D, NULL, flags, format, &desc, host };

  return create_any (&request, status);
}

/* Functions that detect programs that are likely to make images of buffers */

/* Atomic: TRUE if the program has asked a device for CL_DEVICE_IMAGE_MAX_BUFFER_SIZE. */
static gboolean asks_how_large;

/* Makes the driver, not a pool, allocate all new buffers of the context from now on, if images
 * cannot be made of a pool's buffers.  A pool's buffers are sub-buffers.  Images of them can be
 * made if the driver makes images of sub-buffers, or of buffers over their host addresses.  Call
 * this function when the program seems to want images of buffers, before it makes these buffers. */
static void
expect_images (LayerContext *context)
{
  if (!__atomic_load_n (&context->wants_images, __ATOMIC_ACQUIRE)
      && _tarn_layer_context_may_serve (context)
      && !(context->notes_addresses && _tarn_layer_ask_addresses (context))
      && !_tarn_layer_ask_images (context))
    __atomic_store_n (&context->wants_images, TRUE, __ATOMIC_RELEASE);
}

void
_tarn_layer_expect_images_if_asked (LayerContext *context)
{
  if (__atomic_load_n (&asks_how_large, __ATOMIC_ACQUIRE))
    expect_images (context);
}

cl_int CL_API_CALL
layer_clGetDeviceInfo (cl_device_id device, cl_device_info name, size_t size, void *value,
                       size_t *size_ret)
{
  if (name == CL_DEVICE_IMAGE_MAX_BUFFER_SIZE)
    __atomic_store_n (&asks_how_large, TRUE, __ATOMIC_RELEASE);
  return _tarn_layer_driver->clGetDeviceInfo (device, name, size, value, size_ret);
}

cl_int CL_API_CALL
layer_clGetSupportedImageFormats (cl_context handle, cl_mem_flags flags, cl_mem_object_type type,
                                  cl_uint n, cl_image_format *formats, cl_uint *n_ret)
{
  LAYER_AUTO LayerContext *context
      = type == CL_MEM_OBJECT_IMAGE1D_BUFFER ? _tarn_layer_find (LAYER_CONTEXT, handle) : NULL;

  if (context != NULL)
    expect_images (context);
  return _tarn_layer_driver->clGetSupportedImageFormats (handle, flags, type, n, formats, n_ret);
}

cl_int CL_API_CALL
layer_clGetImageInfo (cl_mem image, cl_image_info name, size_t size, void *value, size_t *size_ret)
{
  LAYER_AUTO LayerBuffer *self
      = name == CL_IMAGE_BUFFER ? _tarn_layer_find (LAYER_BUFFER, image) : NULL;

  if (self != NULL && self->is_disguised)
    return _tarn_layer_answer (&self->whole->base.handle, sizeof self->whole->base.handle, size,
                               value, size_ret);
  return _tarn_layer_driver->clGetImageInfo (image, name, size, value, size_ret);
}
