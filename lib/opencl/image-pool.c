/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Pools of images: a plain pool, in which each kind of image is a size with its own bin, over an
 * allocator that makes images of the kind that a size stands for.  So images have all features of
 * pools. */

#include "common/argument-private.h"
#include "common/lock-private.h"
#include "common/struct-private.h"
#include "device-private.h"
#include "driver-private.h"
#include "image-allocator-private.h"
#include "memory-object-private.h"
#include "order-private.h"

/* Enough bits for each size of an image to have its own bin. */
#define LEADING_BITS 26

/* At most this part of the device's memory is cached, unless the program chooses it. */
#define HELD_SHARE 8

/* A link from a pool of buffers to a pool of images, which may end meanwhile. */
typedef struct
{
  TarnMutex lock;
  TarnPool *images; /* borrowed; NULL: it has ended */
} Link;

struct _TarnOpenclImagePool
{
  gint ref_count;              /* atomic */
  TarnPool *pool;              /* the pool of images, a reference */
  TarnOpenclImageKinds *kinds; /* a reference */
  TarnPool *buffers;           /* a reference; NULL: none */
  Link *link;                  /* owned by the reclaim function; NULL: there is none */
  guint reclaim_id;            /* in the pool of buffers */
};

/* Cached images are freed for a request of buffers, or of images, that would exceed their common
 * limit.  Out of memory they are freed because both pools are in one reclaim group. */

static TarnPool *
ref_images (Link *link)
{
  TarnPool *images;

  _tarn_mutex_lock (&link->lock);
  images = link->images != NULL ? tarn_pool_ref (link->images) : NULL;
  _tarn_mutex_unlock (&link->lock);
  return images;
}

static void
end_link (Link *link)
{
  _tarn_mutex_lock (&link->lock);
  link->images = NULL;
  _tarn_mutex_unlock (&link->lock);
}

static void
link_free (gpointer data)
{
  Link *link = data;

  _tarn_mutex_clear (&link->lock);
  g_free (link);
}

static gsize
get_held_bytes (TarnPool *pool)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;

  tarn_pool_get_stats (pool, &stats);
  return stats.held_bytes;
}

/* Frees cached images of about as many bytes as are wanted. */
static gboolean
free_images (TarnPool *buffers, gsize wanted, gpointer data)
{
  g_autoptr (TarnPool) images = NULL;
  gsize held;

  if (tarn_pool_get_limit_bytes (buffers) == 0 || (images = ref_images (data)) == NULL)
    return FALSE;
  held = get_held_bytes (images);
  if (held == 0)
    return FALSE;
  tarn_pool_trim (images, held - MIN (held, wanted));
  return TRUE;
}

/* Makes two pools free cached memory for each other. */
static void
join (TarnPool *images, TarnPool *buffers)
{
  g_autoptr (TarnReclaimGroup) group = tarn_pool_get_reclaim_group (buffers);

  if (group == NULL)
    {
      group = tarn_reclaim_group_new ();
      tarn_pool_set_reclaim_group (buffers, group);
    }
  tarn_pool_set_reclaim_group (images, group);
}

static void
link_to_buffers (TarnOpenclImagePool *pool, TarnPool *buffers)
{
  pool->buffers = tarn_pool_ref (buffers);
  pool->link = g_new0 (Link, 1);
  _tarn_mutex_init (&pool->link->lock);
  pool->link->images = pool->pool;
  pool->reclaim_id = tarn_pool_add_reclaim_func (buffers, free_images, pool->link, link_free);
  join (pool->pool, buffers);
}

/* Fills in the options that the program leaves open: the bytes that the pool caches. */
static gboolean
read_options (cl_command_queue queue, const TarnPoolOptions *options, TarnPoolOptions *known,
              GError **error)
{
  cl_ulong bytes = 0;
  cl_device_id device;

  if (options != NULL
      && !_tarn_struct_read_or_set_error (known, sizeof *known, options, "TarnPoolOptions", error))
    return FALSE;
  known->leading_bits_in_bin_id = LEADING_BITS;
  if (known->hold_bytes != 0)
    return TRUE;
  if (!_tarn_opencl_get_queue_value (queue, CL_QUEUE_DEVICE, &device, sizeof device, error)
      || !_tarn_opencl_get_device_value (device, CL_DEVICE_GLOBAL_MEM_SIZE, &bytes, sizeof bytes,
                                         error))
    return FALSE;
  known->hold_bytes = (gsize) MIN (MAX (bytes / HELD_SHARE, 1), G_MAXSIZE);
  return TRUE;
}

/* Makes the allocator, and the pool over it. */
static TarnPool *
make_pool (cl_command_queue queue, TarnOpenclImageKinds *kinds, TarnPool *buffers,
           const TarnPoolOptions *options, GError **error)
{
  g_autoptr (TarnAllocator) allocator
      = _tarn_opencl_image_allocator_new (queue, kinds, buffers, error);

  return allocator != NULL ? tarn_pool_new (allocator, options, error) : NULL;
}

/**
 * Makes a pool of images. Freed images are held, and handed out again where a request has the same
 * flags, format and descriptor. Queues, threads, limits, out of memory, recordings and snapshots
 * are as with a pool of buffers: see tarn_opencl_image_pool_get_pool().
 *
 * A new image is made by clCreateImage, and moved to the queue's device at once by
 * clEnqueueMigrateMemObjects; on NVIDIA's devices, where that is not safe in threads, by filling
 * one pixel. The host waits for neither.
 *
 * The bytes of an image are those of its pixels, and a few more where kinds of images would have
 * the same number. A driver may take more, for rows that it pads or images that it tiles: OpenCL
 * does not say how much.
 *
 * @param queue    a queue of the device, which must have images; retained, as its context is. It
 * makes memory ready.
 * @param buffers  nullable: a pool with which the images share a limit and a reclaim group; a
 *                 reference is taken. The bytes of all images, held ones included, are charged to
 *                 it (tarn_pool_charge()), so that its limit is that of both. Near the limit, and
 *                 out of memory, held buffers make room for images, and held images for buffers. If
 *                 the pool is in no group, it and the images are put in a new one.
 * @param options  nullable: the defaults; start from TARN_POOL_OPTIONS_INIT. limit_bytes is a limit
 *                 of the images alone. hold_bytes is, where it is 0, an eighth of the device's
 *                 memory (CL_DEVICE_GLOBAL_MEM_SIZE), since images of a size that does not come
 *                 again are of no use; G_MAXSIZE: there is no bound. leading_bits_in_bin_id means
 *                 nothing.
 * @param error    return location, or NULL: TARN_ERROR_NOT_SUPPORTED for a device without images or
 *                 older than OpenCL 1.2; TARN_ERROR_FORKED; TARN_ERROR_NO_DRIVER;
 *                 TARN_ERROR_INVALID_ARGUMENT; or TARN_OPENCL_ERROR
 * @return (transfer full): an empty pool, which any thread may use, or NULL with @p error set
 * @since 0.1
 */
TarnOpenclImagePool *
tarn_opencl_image_pool_new (cl_command_queue queue, TarnPool *buffers,
                            const TarnPoolOptions *options, GError **error)
{
  TarnPoolOptions known = TARN_POOL_OPTIONS_INIT;
  TarnOpenclImageKinds *kinds;
  TarnOpenclImagePool *self;
  TarnPool *pool;

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  TARN_REFUSE_NULL (queue, NULL);

  if (!_tarn_opencl_load (error) || !read_options (queue, options, &known, error))
    return NULL;
  kinds = _tarn_opencl_image_kinds_new ();
  pool = make_pool (queue, kinds, buffers, &known, error);
  if (pool == NULL)
    {
      _tarn_opencl_image_kinds_unref (kinds);
      return NULL;
    }
  self = g_new0 (TarnOpenclImagePool, 1);
  self->ref_count = 1;
  self->pool = pool;
  self->kinds = kinds;
  if (buffers != NULL)
    link_to_buffers (self, buffers);
  return self;
}

/**
 * Takes a reference on a pool of images.
 *
 * @param pool  a pool of images; any thread may call it
 * @return (transfer full): @p pool
 * @since 0.1
 */
TarnOpenclImagePool *
tarn_opencl_image_pool_ref (TarnOpenclImagePool *pool)
{
  g_return_val_if_fail (pool != NULL, NULL);
  g_return_val_if_fail (g_atomic_int_get (&pool->ref_count) > 0, NULL);

  g_atomic_int_inc (&pool->ref_count);
  return pool;
}

/**
 * Releases a reference on a pool of images. With the last one, held images are released; images in
 * use stay valid until their blocks are freed.
 *
 * @param pool  (transfer full): a pool of images; NULL is allowed. Any thread may call it. In a
 *              child of fork () it does nothing.
 * @since 0.1
 */
void
tarn_opencl_image_pool_unref (TarnOpenclImagePool *pool)
{
  if (pool == NULL || !tarn_check_fork (NULL))
    return;
  g_return_if_fail (g_atomic_int_get (&pool->ref_count) > 0);
  if (!g_atomic_int_dec_and_test (&pool->ref_count))
    return;
  if (pool->buffers != NULL)
    {
      end_link (pool->link);
      tarn_pool_remove_reclaim_func (pool->buffers, pool->reclaim_id);
      tarn_pool_unref (pool->buffers);
    }
  tarn_pool_unref (pool->pool);
  _tarn_opencl_image_kinds_unref (pool->kinds);
  g_free (pool);
}

/**
 * Allocates an image from a pool. Its content is undefined. An image that is held has the same
 * flags, format and descriptor; fields of the descriptor that its type of image does not use, such
 * as the height of a 1D image, do not matter.
 *
 * @param pool    a pool of images; any thread may call it
 * @param flags   for clCreateImage; without CL_MEM_WRITE_ONLY or CL_MEM_READ_ONLY, 0 for example,
 *                with CL_MEM_READ_WRITE
 * @param format  for clCreateImage
 * @param desc    for clCreateImage: a 1D, 2D or 3D image, or an array of 1D or 2D images. Pitches,
 *                num_mip_levels, num_samples and buffer must be 0.
 * @param queue   nullable: that is to use the image, as for tarn_opencl_pool_allocate()
 * @param error   return location, or NULL: as tarn_opencl_pool_allocate();
 *                TARN_ERROR_INVALID_ARGUMENT for a descriptor that a pool cannot serve;
 *                TARN_ERROR_INVALID_SIZE for more bytes than can be counted; TARN_OPENCL_ERROR with
 *                CL_INVALID_VALUE for CL_MEM_USE_HOST_PTR or CL_MEM_COPY_HOST_PTR, and with
 *                clCreateImage's status, such as CL_IMAGE_FORMAT_NOT_SUPPORTED
 * @return (transfer full): a block for tarn_block_free(), whose image is
 *         tarn_opencl_block_get_image(), or NULL with @p error set
 * @since 0.1
 */
TarnBlock *
tarn_opencl_image_pool_allocate (TarnOpenclImagePool *pool, cl_mem_flags flags,
                                 const cl_image_format *format, const cl_image_desc *desc,
                                 cl_command_queue queue, GError **error)
{
  TarnOpenclImageKind kind;
  TarnBlock *block;
  gsize bytes;

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  TARN_REFUSE_NULL (pool, NULL);
  g_return_val_if_fail (format != NULL, NULL);
  g_return_val_if_fail (desc != NULL, NULL);

  if (!tarn_check_fork (error) || !_tarn_opencl_check_flags (flags, error)
      || !_tarn_opencl_image_kind_init (&kind, _tarn_opencl_add_access (flags), format, desc, error)
      || !_tarn_opencl_image_kinds_acquire (pool->kinds, pool->pool, &kind, &bytes, error))
    return NULL;
  block = tarn_opencl_pool_allocate (pool->pool, bytes, queue, error);
  _tarn_opencl_image_kinds_release (pool->kinds, bytes);
  return block;
}

/**
 * Gets the pool behind a pool of images. It is for counters, limits and trimming: all of
 * tarn_pool_get_stats(), tarn_pool_trim(), tarn_pool_set_limit_bytes(), tarn_pool_find() and so on
 * hold for images. It is no pool to allocate from: tarn_pool_allocate() there is
 * TARN_ERROR_INVALID_SIZE, or gives an image that happens to have so many bytes.
 *
 * @param pool  a pool of images; any thread may call it
 * @return (transfer none): valid as long as @p pool; take a reference to keep it longer
 * @since 0.1
 */
TarnPool *
tarn_opencl_image_pool_get_pool (TarnOpenclImagePool *pool)
{
  g_return_val_if_fail (pool != NULL, NULL);
  return pool->pool;
}
