/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The allocator of images, below a pool of images.  clCreateImage (), like clCreateBuffer (), may
 * succeed before the driver has allocated memory on a device.  So the allocator moves each new
 * image to its queue's device at once, which makes the driver allocate the memory. */

#include "image-allocator-private.h"

#include "common/other-block-private.h"
#include "device-private.h"
#include "driver-private.h"
#include "memory-object-private.h"
#include "order-private.h"
#include "status-private.h"

/* The user data of an allocator of images; constant. */
typedef struct
{
  TarnOpenclHome home; /* must be the first field: see order-private.h */
  TarnOpenclTraits traits;
  TarnOpenclImageKinds *kinds; /* a reference to the kinds of the images */
  /* a reference to the pool towards whose limit the images count; NULL if there is none */
  TarnPool *buffers;
} ImageAllocator;

static void
set_error (GError **error, const gchar *call, cl_int status, const TarnOpenclImageKind *kind)
{
  g_autofree gchar *text = _tarn_opencl_image_kind_describe (kind);

  _tarn_opencl_set_error_with_text (error, call, status, text);
}

/* Makes the driver allocate a new image's memory, by a command that leaves the content undefined.
 * Does not wait for the command: the call that enqueues it already fails if there is no memory. */
static gboolean
make_resident (const ImageAllocator *self, cl_mem image, const TarnOpenclImageKind *kind,
               GError **error)
{
  /* The color black for any type of channel: 0 has the same bits as an integer and as a float. */
  static const cl_uint color[4];
  static const size_t origin[3], region[3] = { 1, 1, 1 };
  gboolean fills = self->traits.command == TARN_OPENCL_FILL;
  cl_int status;

  if (fills)
    status = _tarn_cl.clEnqueueFillImage (self->home.queue, image, color, origin, region, 0, NULL,
                                          NULL);
  else
    status = _tarn_cl.clEnqueueMigrateMemObjects (
        self->home.queue, 1, &image, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, NULL, NULL);
  if (status == CL_SUCCESS)
    return TRUE;
  set_error (error, fills ? "clEnqueueFillImage" : "clEnqueueMigrateMemObjects", status, kind);
  return FALSE;
}

static cl_mem
create (const ImageAllocator *self, const TarnOpenclImageKind *kind, gsize bytes, GError **error)
{
  cl_image_desc desc = _tarn_opencl_image_kind_get_desc (kind);
  cl_int status;
  cl_mem image = _tarn_cl.clCreateImage (self->home.context, kind->flags, &kind->format, &desc,
                                         NULL, &status);

  if (status != CL_SUCCESS)
    {
      set_error (error, "clCreateImage", status, kind);
      return NULL;
    }
  if (make_resident (self, image, kind, error))
    return image;
  _tarn_opencl_release_memory (image, "an image", bytes);
  return NULL;
}

/* Counts an image's bytes towards the limit of the pool of buffers, if the allocator has such a
 * pool.  Fails if the limit leaves no room for them. */
static gboolean
charge (const ImageAllocator *self, gsize bytes, GError **error)
{
  return self->buffers == NULL || tarn_pool_charge (self->buffers, bytes, error);
}

static void
uncharge (const ImageAllocator *self, gsize bytes)
{
  if (self->buffers != NULL)
    tarn_pool_uncharge (self->buffers, bytes);
}

static cl_mem
create_charged (const ImageAllocator *self, const TarnOpenclImageKind *kind, gsize bytes,
                GError **error)
{
  cl_mem image;

  if (!charge (self, bytes, error))
    return NULL;
  image = create (self, kind, bytes, error);
  if (image == NULL)
    uncharge (self, bytes);
  return image;
}

static gboolean
image_allocate (gpointer user_data, gsize bytes, TarnMemory *memory, GError **error)
{
  const ImageAllocator *self = user_data;
  TarnOpenclImageKind kind;
  cl_mem image;

  if (!_tarn_opencl_image_kinds_acquire_by_bytes (self->kinds, bytes, &kind))
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_SIZE,
                   "no image has %" G_GSIZE_FORMAT
                   " bytes: tarn_opencl_image_pool_allocate() allocates images",
                   bytes);
      return FALSE;
    }
  image = create_charged (self, &kind, bytes, error);
  if (image != NULL)
    memory->pointer = image;
  else
    _tarn_opencl_image_kinds_release (self->kinds, bytes);
  return image != NULL;
}

static void
image_free (gpointer user_data, TarnMemory memory, gsize bytes)
{
  const ImageAllocator *self = user_data;

  _tarn_opencl_release_memory (memory.pointer, "an image", bytes);
  uncharge (self, bytes);
  _tarn_opencl_image_kinds_release (self->kinds, bytes);
}

static gboolean
image_is_retained (gpointer user_data, TarnMemory memory)
{
  const ImageAllocator *self = user_data;

  return _tarn_opencl_is_retained (memory.pointer, &self->traits);
}

static void
image_allocator_free (gpointer user_data)
{
  ImageAllocator *self = user_data;

  _tarn_opencl_home_clear (&self->home);
  _tarn_opencl_image_kinds_unref (self->kinds);
  tarn_pool_unref (self->buffers);
  g_free (self);
}

static void
set_no_images (GError **error, const gchar *why)
{
  g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED, "there are no images: %s", why);
}

/* Fails if the device or the OpenCL library does not support images. */
static gboolean
check_support (cl_device_id device, const TarnOpenclTraits *traits, GError **error)
{
  cl_bool has_images = CL_FALSE;

  if (_tarn_cl.clCreateImage == NULL || _tarn_cl.clEnqueueFillImage == NULL)
    set_no_images (error, "the OpenCL library has no clCreateImage or no clEnqueueFillImage");
  else if (traits->command == TARN_OPENCL_WRITE)
    set_no_images (error, "the queue's device is older than OpenCL 1.2");
  else if (!_tarn_opencl_get_device_value (device, CL_DEVICE_IMAGE_SUPPORT, &has_images,
                                           sizeof has_images, error))
    return FALSE;
  else if (!has_images)
    set_no_images (error, "CL_DEVICE_IMAGE_SUPPORT of the queue's device is CL_FALSE");
  return has_images == CL_TRUE;
}

/* Makes an allocator.  Tarn may release an image before the commands that use it are done, because
 * OpenCL keeps the image until then (OpenCL 3.0 specification, section 5.5.1,
 * clReleaseMemObject). */
static TarnAllocator *
allocator_new (const ImageAllocator *made)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  ImageAllocator *self = g_new (ImageAllocator, 1);

  *self = *made;
  _tarn_opencl_image_kinds_ref (self->kinds);
  if (self->buffers != NULL)
    {
      tarn_pool_ref (self->buffers);
      ops.below = TARN_ALLOCATOR (self->buffers);
    }
  ops.name = "opencl-image";
  ops.allocate = image_allocate;
  ops.free = image_free;
  ops.frees_in_order = TRUE;
  if (self->traits.trusts_whole)
    ops.is_retained = image_is_retained;
  ops.get_memory = _tarn_opencl_get_memory;
  _tarn_opencl_set_order (&ops);
  return tarn_allocator_new (&ops, self, image_allocator_free);
}

TarnAllocator *
_tarn_opencl_image_allocator_new (cl_command_queue queue, TarnOpenclImageKinds *kinds,
                                  TarnPool *buffers, GError **error)
{
  ImageAllocator made = { .home = { NULL, queue }, .kinds = kinds, .buffers = buffers };
  cl_device_id device;

  if (!_tarn_opencl_get_queue_value (queue, CL_QUEUE_CONTEXT, &made.home.context,
                                     sizeof made.home.context, error)
      || !_tarn_opencl_get_queue_value (queue, CL_QUEUE_DEVICE, &device, sizeof device, error)
      || !_tarn_opencl_find_traits (device, &made.traits, error)
      || !check_support (device, &made.traits, error)
      || !_tarn_opencl_home_init (&made.home, made.home.context, queue, error))
    return NULL;
  return allocator_new (&made);
}

gboolean
_tarn_opencl_is_image (const TarnBlock *block)
{
  return tarn_allocator_is_of (tarn_block_get_allocator (block), image_free);
}

cl_mem
tarn_opencl_block_get_image (const TarnBlock *block)
{
  g_return_val_if_fail (block != NULL, NULL);
  if (!_tarn_opencl_is_image (block))
    {
      _tarn_report_other_block (G_STRFUNC, block, "'opencl-image'");
      return NULL;
    }

  return tarn_block_get_memory (block).pointer;
}
