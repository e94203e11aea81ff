/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Pools of images.  A pool of images is an ordinary pool over an allocator of images, so it has all
 * features of pools.  Each kind of image (its flags, format, type and sizes) has its own number of
 * bytes, and so its own bin in the pool.  From a requested number of bytes, the allocator finds the
 * kind, and creates an image of this kind. */

#include "common/argument-private.h"
#include "common/lock-private.h"
#include "common/struct-private.h"
#include "device-private.h"
#include "driver-private.h"
#include "image-allocator-private.h"
#include "memory-object-private.h"
#include "order-private.h"

/* The value of the option leading_bits_in_bin_id for pools of images.  With this value, each number
 * of bytes has its own bin (a list of cached blocks of one size). */
#define LEADING_BITS 26

/* By default, a pool of images caches at most the device's memory divided by this number. */
#define HELD_SHARE 8

/* A link from a pool of buffers to a pool of images, through which the pool of buffers frees cached
 * images.  The pool of images may be freed before the link; the link then points to no pool. */
typedef struct
{
  TarnMutex lock;
  TarnPool *images; /* borrowed; NULL if the pool of images was freed */
} Link;

struct _TarnOpenclImagePool
{
  gint ref_count;              /* atomic */
  TarnPool *pool;              /* a reference to the pool of images */
  TarnOpenclImageKinds *kinds; /* a reference to the kinds of the pool's images */
  TarnPool *buffers;           /* a reference to the pool of buffers; NULL if there is none */
  /* the user data of free_images (), a function that the pool of buffers calls to free memory;
   * owned by the pool of buffers; NULL if there is no such pool */
  Link *link;
  /* the ID that tarn_pool_add_reclaim_func () returned for free_images () */
  guint reclaim_id;
};

/* Functions that connect a pool of images and a pool of buffers
 *
 * Buffers and images count towards one limit, that of the pool of buffers.  Cached images are freed
 * in two cases.  If a request for a buffer or an image would exceed the limit, the pool of buffers
 * calls free_images ().  If the device runs out of memory for one of the two pools, both pools free
 * cached memory, because they are in one reclaim group (TarnReclaimGroup). */

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

/* Frees cached images of about @wanted bytes. */
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

/* Puts two pools into one reclaim group, so that each pool frees cached memory when the other runs
 * out of memory.  Several pools of images may share a pool of buffers, and must be in one group.
 * The lock ensures this: without it, two threads could each make a group for the pool of buffers,
 * and only the later group would contain the buffers. */
static void
join (TarnPool *images, TarnPool *buffers)
{
  static TarnMutex lock = TARN_MUTEX_INIT;
  TarnReclaimGroup *group;

  _tarn_mutex_lock (&lock);
  group = tarn_pool_get_reclaim_group (buffers);
  if (group == NULL)
    {
      group = tarn_reclaim_group_new ();
      tarn_pool_set_reclaim_group (buffers, group);
    }
  tarn_pool_set_reclaim_group (images, group);
  _tarn_mutex_unlock (&lock);
  tarn_reclaim_group_unref (group);
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

/* Reads the program's options.  If they do not limit the cached bytes, sets a default limit. */
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

static TarnPool *
make_pool (cl_command_queue queue, TarnOpenclImageKinds *kinds, TarnPool *buffers,
           const TarnPoolOptions *options, GError **error)
{
  g_autoptr (TarnAllocator) allocator
      = _tarn_opencl_image_allocator_new (queue, kinds, buffers, error);

  return allocator != NULL ? tarn_pool_new (allocator, options, error) : NULL;
}

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

TarnOpenclImagePool *
tarn_opencl_image_pool_ref (TarnOpenclImagePool *pool)
{
  g_return_val_if_fail (pool != NULL, NULL);
  g_return_val_if_fail (g_atomic_int_get (&pool->ref_count) > 0, NULL);

  g_atomic_int_inc (&pool->ref_count);
  return pool;
}

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

TarnPool *
tarn_opencl_image_pool_get_pool (TarnOpenclImagePool *pool)
{
  g_return_val_if_fail (pool != NULL, NULL);
  return pool->pool;
}
