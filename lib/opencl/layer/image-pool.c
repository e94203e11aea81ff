/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The pool of a context's images.  A pool distinguishes cached blocks only by their number of
 * bytes.  So for each kind of image (its format, size and flags), the layer chooses a number of
 * bytes that no other kind has (see image-kinds-private.h).  Then a bin, a list of cached blocks of
 * one size, has only images of one kind.  The layer releases images, and records the commands that
 * use them, in the same way as for buffers.
 *
 * The bytes of all images count as bytes of the pool of plain buffers, too, so that one limit holds
 * for both pools.  Near the limit, or when memory runs out, a request for a buffer frees cached
 * images, and a request for an image frees cached buffers.
 *
 * A block of this pool is a LayerImage, which has the handle of the driver's image.  The handle may
 * be NULL: for example, if the program left an image mapped, the layer releases the driver's image
 * but keeps the block.  The next allocation of the block makes a new image. */

#include "layer-private.h"

/* The option leading_bits_in_bin_id of the pool of images.  It is so large that blocks of different
 * numbers of bytes are never in the same bin, a list of cached blocks. */
#define LEADING_BITS 26

/* The pool of images caches at most the device's memory divided by HELD_SHARE. */
#define HELD_SHARE 8

/* The flags that an image from the pool may have.  Images with other flags come from the driver.
 * Flags that forbid the host to read are not in the list, because make_ready () reads a pixel of
 * each image. */
#define SERVED_FLAGS                                                                               \
  (LAYER_ACCESS_FLAGS | CL_MEM_KERNEL_READ_AND_WRITE | CL_MEM_HOST_READ_ONLY                       \
   | CL_MEM_ALLOC_HOST_PTR)

/* An image of the pool. */
typedef struct
{
  TarnOpenclImageKind kind;
  cl_mem handle; /* a reference to the driver's image; NULL if the block has none now */
} LayerImage;

/* Functions that allocate and free blocks of the pool of images */

/* Sets @error, which says that the driver failed to make an image.  Returns FALSE. */
static gboolean
fail (cl_int status, const TarnOpenclImageKind *kind, GError **error)
{
  g_autofree gchar *text = _tarn_opencl_image_kind_describe (kind);

  g_set_error (error, TARN_ERROR,
               _tarn_layer_is_no_memory (status) ? TARN_ERROR_OUT_OF_MEMORY : TARN_ERROR_FAILED,
               "OpenCL makes no such image (%d): %s", status, text);
  return FALSE;
}

/* Makes the driver allocate the memory of a new image on the device now, by a command that reads a
 * pixel.  Otherwise the driver might allocate the memory only at the program's first command that
 * uses the image.  See make_ready () in pieces.c.  Does nothing if the device is the host's
 * processor: the host's system provides memory page by page at its first use, so a read of one
 * pixel would prove nothing, and the wait for the read takes 0.1 ms or more. */
static cl_int
make_ready (LayerContext *context, cl_mem image)
{
  static const size_t origin[3], region[3] = { 1, 1, 1 };
  /* The driver writes the pixel, of at most 16 bytes, to this array. */
  static guint8 nowhere[16];
  cl_command_queue queue = _tarn_layer_context_get_queue (context);
  cl_event event = NULL;
  cl_int status = CL_OUT_OF_RESOURCES;

  if (context->is_processor)
    return CL_SUCCESS;
  if (queue != NULL)
    status = _tarn_layer_driver->clEnqueueReadImage (queue, image, CL_FALSE, origin, region, 0, 0,
                                                     nowhere, 0, NULL, &event);
  if (status == CL_SUCCESS)
    status = _tarn_layer_wait_briefly (queue, event);
  /* A status above 0 is no error: it says that the read is not done yet. */
  return MIN (status, CL_SUCCESS);
}

/* Creates the driver's image of the block @image, which has no image yet.  Returns FALSE with an
 * error on failure. */
static gboolean
make (LayerContext *context, LayerImage *image, GError **error)
{
  cl_image_desc desc = _tarn_opencl_image_kind_get_desc (&image->kind);
  cl_int status = CL_SUCCESS;

  LAYER_COUNT (pool_images);
  image->handle = _tarn_layer_driver->clCreateImage (context->base.handle, image->kind.flags,
                                                     &image->kind.format, &desc, NULL, &status);
  if (image->handle == NULL)
    return fail (status, &image->kind, error);
  status = make_ready (context, image->handle);
  if (status == CL_SUCCESS)
    {
      __atomic_add_fetch (&context->spare_images, 1, __ATOMIC_RELAXED);
      return TRUE;
    }
  _tarn_layer_release_object (g_steal_pointer (&image->handle));
  return fail (status, &image->kind, error);
}

/* Releases the driver's image of a block, if the block has one.  The caller makes sure that the
 * program does not use the image. */
static void
unmake (LayerContext *context, LayerImage *image)
{
  if (image->handle == NULL)
    return;
  __atomic_sub_fetch (&context->spare_images, 1, __ATOMIC_RELAXED);
  _tarn_layer_release_object (g_steal_pointer (&image->handle));
}

/* Allocates an image for the pool.  See TarnAllocatorOps.allocate. */
static gboolean
image_allocate (gpointer user_data, gsize bytes, TarnMemory *memory, GError **error)
{
  LayerContext *context = user_data;
  g_autofree LayerImage *image = g_new0 (LayerImage, 1);

  if (!_tarn_opencl_image_kinds_acquire_by_bytes (context->image_kinds, bytes, &image->kind))
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_SIZE,
                   "no image has %" G_GSIZE_FORMAT " bytes", bytes);
      return FALSE;
    }
  if (tarn_pool_charge (context->pools[LAYER_PLAIN], bytes, error))
    {
      if (make (context, image, error))
        {
          memory->pointer = g_steal_pointer (&image);
          return TRUE;
        }
      tarn_pool_uncharge (context->pools[LAYER_PLAIN], bytes);
    }
  _tarn_opencl_image_kinds_release (context->image_kinds, bytes);
  return FALSE;
}

/* Frees an image of the pool.  See TarnAllocatorOps.free. */
static void
image_free (gpointer user_data, TarnMemory memory, gsize bytes)
{
  LayerContext *context = user_data;
  LayerImage *image = memory.pointer;

  unmake (context, image);
  g_free (image);
  tarn_pool_uncharge (context->pools[LAYER_PLAIN], bytes);
  _tarn_opencl_image_kinds_release (context->image_kinds, bytes);
}

/* Functions that make and find the pool of images */

/* Returns the context's pool of images, or NULL if it has not been made. */
static TarnPool *
find_images (LayerContext *context)
{
  TARN_LOCKED (&context->lock);

  return context->images;
}

/* Frees cached images, about @wanted bytes in all, and returns TRUE.  Returns FALSE if no image is
 * cached.  The pool of buffers calls this function when it needs memory: see
 * tarn_pool_add_reclaim_func (). */
static gboolean
reclaim_images (TarnPool *buffers, gsize wanted, gpointer context)
{
  TarnPool *images = find_images (context);
  gsize held = images != NULL ? _tarn_layer_get_held_bytes (images) : 0;

  (void) buffers;
  if (held == 0)
    return FALSE;
  tarn_pool_trim (images, held - MIN (held, wanted));
  return TRUE;
}

/* Drops the references that pool_new () took for the allocator of the images: one to the pool of
 * buffers, and one to the context. */
static void
end_images (gpointer data)
{
  LayerContext *context = data;

  tarn_pool_unref (context->pools[LAYER_PLAIN]);
  _tarn_layer_context_drop_user (context);
}

/* Makes the pool of images.  The images' bytes count as bytes of the pool @buffers, too. */
static TarnPool *
pool_new (LayerContext *context, TarnPool *buffers)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnAllocator) allocator = NULL;
  g_autoptr (GError) error = NULL;
  static gboolean once;
  cl_ulong bytes = 0;
  TarnPool *pool;

  ops.name = "layer-image";
  ops.allocate = image_allocate;
  ops.free = image_free;
  ops.below = TARN_ALLOCATOR (buffers);
  ops.is_hidden = TRUE;
  tarn_pool_ref (buffers);
  allocator = tarn_allocator_new (&ops, _tarn_layer_context_add_user (context), end_images);
  _tarn_layer_driver->clGetDeviceInfo (context->device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof bytes,
                                       &bytes, NULL);
  options.name = "images";
  options.leading_bits_in_bin_id = LEADING_BITS;
  options.hold_bytes = (gsize) MIN (MAX (bytes / HELD_SHARE, 1), G_MAXSIZE);
  pool = tarn_pool_new (allocator, &options, &error);
  if (pool == NULL)
    _tarn_layer_warn (&once, "%s", error->message);
  return pool;
}

/* Sets the context's pool of images.  Returns FALSE if the context already has one. */
static gboolean
list_pool (LayerContext *context, TarnPool *pool)
{
  TARN_LOCKED (&context->lock);

  if (context->images != NULL)
    return FALSE;
  context->images = pool;
  return TRUE;
}

/* Makes the table of image kinds (format, size, flags), if the context has none. */
static void
make_kinds (LayerContext *context)
{
  TARN_LOCKED (&context->lock);

  if (context->image_kinds == NULL)
    context->image_kinds = _tarn_opencl_image_kinds_new ();
}

/* Returns the context's pool of images.  The first call makes the pool.  Returns NULL if that
 * fails. */
static TarnPool *
get_pool (LayerContext *context)
{
  TarnPool *images = find_images (context);
  TarnPool *buffers;

  if (images != NULL)
    return images;
  buffers = _tarn_layer_context_get_pool (context, LAYER_PLAIN);
  if (buffers == NULL)
    return NULL;
  make_kinds (context);
  images = pool_new (context, buffers);
  if (images == NULL)
    return NULL;
  if (!list_pool (context, images))
    tarn_pool_unref (images);
  else
    {
      tarn_pool_add_reclaim_func (buffers, reclaim_images, context, NULL);
      if (tarn_pool_is_debugged (images))
        _tarn_layer_debug_begin (context);
    }
  return find_images (context);
}

void
_tarn_layer_images_clear (LayerContext *context)
{
  TarnPool *images = find_images (context);

  {
    TARN_LOCKED (&context->lock);

    context->images = NULL;
  }
  tarn_pool_unref (images);
}

/* Functions that take images from the pool, and free them */

/* Allocates a block from the pool of images.  If there is no memory, waits for the commands that
 * use released buffers and images, returns cached memory to the driver, and retries. */
static TarnBlock *
allocate (LayerContext *context, TarnPool *pool, gsize bytes, GError **error)
{
  g_autoptr (GError) first = NULL;
  TarnBlock *block = tarn_pool_allocate (pool, bytes, &first);

  if (block != NULL)
    return block;
  if (!tarn_error_is_no_memory (first))
    {
      g_propagate_error (error, g_steal_pointer (&first));
      return NULL;
    }
  _tarn_layer_context_make_room (context);
  return tarn_pool_allocate (pool, bytes, error);
}

/* Returns the driver's image of a block that the caller has just allocated.  Makes the image if the
 * block has none.  Returns NULL if the driver refuses. */
static cl_mem
take (LayerContext *context, TarnBlock *block)
{
  LayerImage *image = tarn_block_get_memory (block).pointer;

  if (image->handle == NULL && !make (context, image, NULL))
    return NULL;
  __atomic_sub_fetch (&context->spare_images, 1, __ATOMIC_RELAXED);
  return image->handle;
}

/* Allocates a block with an image of @kind from the pool.  Sets *handle to the driver's image.
 * Returns NULL if that fails. */
static TarnBlock *
get (LayerContext *context, const TarnOpenclImageKind *kind, cl_mem *handle, GError **error)
{
  TarnPool *pool = get_pool (context);
  TarnBlock *block;
  gsize bytes;

  if (pool == NULL
      || !_tarn_opencl_image_kinds_acquire (context->image_kinds, pool, kind, &bytes, error))
    return NULL;
  if (_tarn_layer_is_debugged (context))
    _tarn_layer_debug_keep_up ();
  block = allocate (context, pool, bytes, error);
  _tarn_layer_drop_unneeded (context, pool, &context->image_idle, g_get_monotonic_time ());
  _tarn_opencl_image_kinds_release (context->image_kinds, bytes);
  if (block == NULL)
    return NULL;
  /* The layer is blind if the program may use images by functions that the layer does not know.
   * Check this only after the allocation: the program may have used the block's former image by
   * such a function until it released that image. */
  *handle = _tarn_layer_is_blind () ? NULL : take (context, block);
  if (*handle != NULL)
    return block;
  tarn_block_free (block);
  return NULL;
}

void
_tarn_layer_image_free (LayerContext *context, TarnBlock *block, gboolean ends)
{
  LayerImage *image = tarn_block_get_memory (block).pointer;

  __atomic_add_fetch (&context->spare_images, 1, __ATOMIC_RELAXED);
  if (ends || _tarn_layer_is_blind () || __atomic_load_n (&context->ended, __ATOMIC_ACQUIRE))
    unmake (context, image);
  tarn_block_free (block);
}

cl_mem
_tarn_layer_serve_image (cl_context handle, cl_mem_flags flags, const cl_image_format *format,
                         const cl_image_desc *desc, cl_int *status)
{
  LAYER_AUTO LayerContext *context = NULL;
  g_autoptr (GError) error = NULL;
  TarnOpenclImageKind kind;
  TarnBlock *block;
  cl_mem image = NULL;

  if (format == NULL || desc == NULL || (flags & ~(cl_mem_flags) SERVED_FLAGS) != 0)
    return NULL;
  context = _tarn_layer_find (LAYER_CONTEXT, handle);
  if (context == NULL || !_tarn_layer_context_may_serve (context)
      || !_tarn_opencl_image_kind_init (&kind, flags, format, desc, NULL))
    return NULL;
  _tarn_layer_context_poll (context);
  block = get (context, &kind, &image, &error);
  if (block != NULL)
    _tarn_layer_buffer_add_pooled_image (context, block, image);
  else if (g_error_matches (error, TARN_ERROR, TARN_ERROR_LIMIT))
    *status = CL_MEM_OBJECT_ALLOCATION_FAILURE;
  return image;
}
