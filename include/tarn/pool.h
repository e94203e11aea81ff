/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Pools: allocators that hold what is freed and hand it out again.
 */

#ifndef TARN_POOL_H
#define TARN_POOL_H

#include <tarn/allocator.h>
#include <tarn/block.h>
#include <tarn/heap.h>

G_BEGIN_DECLS

/**
 * An allocator that holds freed blocks and hands them out again. It is over another one, its
 * upstream: freed blocks are held in bins by size, and handed out again without a call of the
 * driver. Any function of a pool may be called from any thread at any time.
 *
 * @since 0.1
 */
typedef struct _TarnPool TarnPool;

#ifndef __cplusplus
/**
 * Casts a pool to the allocator that it is. This is for code that works with a pool or without one.
 * No reference is taken.
 *
 * @since 0.1
 */
#define TARN_ALLOCATOR(pool) ((TarnAllocator *) (1 ? (pool) : (TarnPool *) NULL))
#else
#define TARN_ALLOCATOR(pool)                                                                       \
  (reinterpret_cast<TarnAllocator *> (1 ? (pool) : static_cast<TarnPool *> (NULL)))
#endif

/**
 * Abilities that a pool has on request.
 *
 * @since 0.1
 */
typedef enum
{
  TARN_POOL_NO_FLAGS = 0, /**< nothing */

  /**
   * tarn_pool_find() and tarn_pool_free_memory() find the pool's blocks in use by their memory. A
   * request and its free take about 100 ns more then in one thread, and up to a microsecond in many
   * threads that keep blocks of mixed sizes. The pool takes about 450 KiB of host memory.
   */
  TARN_POOL_FINDABLE = 1 << 0,

  /**
   * The pool takes it that the program has no references of its own on memory that it frees. Where
   * memory is a handle with a reference count (a cl_mem), a pool else asks for the count when a
   * block is freed, and keeps the block aside as long as the program retains the handle: see
   * tarn_opencl_immediate_allocator_new().
   */
  TARN_POOL_TRUSTS_HANDLES = 1 << 1,

  /**
   * For tarn_opencl_pool_new(), tarn_cuda_pool_new() and their like; it means nothing to
   * tarn_pool_new(). The pool stands straight on the driver's allocator, and on no heap. Each block
   * is memory of its own then, which clCreateSubBuffer and cuIpcGetMemHandle () take. It costs more
   * memory, and more calls of the driver, where sizes vary.
   */
  TARN_POOL_WHOLE_BUFFERS = 1 << 2,

  /**
   * The pool writes a line to standard error when its last reference is gone, or at exit: its name,
   * what tarn_pool_stats_to_string() says of it, and the most bytes that it had. TARN_STATS=1 in
   * the environment does it for all pools.
   */
  TARN_POOL_PRINTS_STATS = 1 << 3
} TarnPoolFlags;

/**
 * The options of a pool, for tarn_pool_new(). They are copied.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnPoolOptions), as TARN_POOL_OPTIONS_INIT sets it */

  /**
   * How finely sizes are told apart, 0 to 26 bits; 4 by default. A request is rounded up, by less
   * than 1 / 2^leading_bits_in_bin_id of its size, to the largest size of its bin: the sizes whose
   * first 1 bit is followed by the same bits, as many as this says. More bits waste less memory,
   * and find a held block that fits less often. Over a heap, which has memory of any size, this
   * does not matter: requests of more than 128 KiB are not rounded, and smaller ones are rounded up
   * to a multiple of 512 bytes, or by less than 1/32 of their size where that is more. With a
   * limit, and once memory has run out, no request is rounded there.
   */
  guint leading_bits_in_bin_id;

  TarnPoolFlags flags; /**< none by default */

  const gchar *name; /**< how messages call the pool; nullable; copied */

  /**
   * The most bytes that the pool has of its upstream allocator at a time, for held blocks and
   * blocks in use; 0, the default: no limit. A request that would exceed it gives held blocks back
   * if these are enough; else it asks reclaim functions, and is TARN_ERROR_LIMIT if that does not
   * help: see tarn_pool_allocate(). It may wait for requests of other threads that are in a call of
   * the upstream allocator, which must not wait for it in turn. tarn_pool_set_limit_bytes() changes
   * it. TARN_LIMIT in the environment is another limit for each pool, and the lower one counts: in
   * bytes, such as 8G, or as a share of the device's memory, such as 80%, which is none for pools
   * of the host's memory.
   */
  gsize limit_bytes;

  /**
   * How many freed blocks of one size each thread may keep for itself: 32 by default, 65535 at
   * most. A thread allocates and frees without a lock as long as its own blocks suffice, so that
   * threads do not hold each other up. Take more for threads that free many blocks of a size (of a
   * bin, to be exact) before they ask for them again. With 0, threads keep nothing: each request
   * takes the pool's lock, and each freed block is there for every thread at once.
   *
   * Blocks that threads keep count as held. They are taken back when memory runs out, before
   * limit_bytes would be exceeded, and by tarn_pool_free_held() and its like. A thread that needs a
   * block may be given one that another thread keeps, if that thread has ended or has not used the
   * pool for 10 ms. They are kept apart for each in-order queue.
   */
  guint thread_cache_blocks;

  /**
   * The most bytes that each thread may keep for itself, in blocks of all sizes; by default 16 GiB,
   * or 1 GiB where pointers have 32 bits. With 0, threads keep nothing, as with
   * thread_cache_blocks.
   */
  gsize thread_cache_bytes;

  /**
   * The most bytes that the pool holds, whoever holds them: threads may keep half of the bytes
   * for themselves, in equal parts. When there is more, the pool frees the blocks that were held
   * for longest. It does not wait for queues: it frees memory that a queue still uses once the
   * queue is done with it. To learn that, the pool asks the driver in requests that take its lock,
   * and when it forgets a queue, but not when a block is freed. Over a heap it need not ask, except
   * about memory that several queues used. If a block is freed while its queue is being captured,
   * the pool frees its memory only after the next call that names the queue and takes the lock.
   *
   * 0, the default: there is no bound, except over a heap. There the pool frees early, because
   * blocks that it holds cannot be joined:
   *
   * - It holds at most 0.5 % of what it manages, or 8 MiB if that is more.
   * - Each thread keeps up to 1 MiB beside that, or 3 MiB where memory is an address; and of each
   *   queue one block of up to 4 MiB if its large blocks are temporaries. None of this is more than
   *   thread_cache_bytes.
   * - The pool frees what it can of all this before the heap takes more memory from its own
   *   upstream allocator.
   * - It frees blocks that were held for ten seconds. It looks for them mostly when a block is
   *   freed.
   * - Where the heap makes parts, it holds no block of more than 64 KiB, except for temporaries
   * that threads keep.
   *
   * G_MAXSIZE: there is no bound, even over a heap.
   *
   * tarn_pool_set_hold_bytes() changes it.
   */
  gsize hold_bytes;

  /**
   * Mistakes to look for in the use of the pool's blocks, such as "guards,leaks": words of
   * TARN_DEBUG, see tarn(7), except "exit" and "stacks". "": none. NULL, the default: the words of
   * TARN_DEBUG in the environment, which hold for all pools. Read once.
   */
  const gchar *debug;

  /**
   * For tarn_opencl_pool_new(), tarn_cuda_pool_new() and their like; it means nothing to
   * tarn_pool_new(). Options of the heap below the pool: its name, the alignment of blocks, for how
   * many seconds it keeps idle memory. NULL, the default: all at their defaults. The heap follows
   * the pool's limit in any case. Where there is no heap, as with TARN_POOL_WHOLE_BUFFERS, these
   * options are not read. They are copied.
   */
  const TarnHeapOptions *heap;
} TarnPoolOptions;

/**
 * A TarnPoolOptions to start from: every field at its default.
 *
 * @since 0.1
 */
#define TARN_POOL_OPTIONS_INIT                                                                     \
  {                                                                                                \
    sizeof (TarnPoolOptions),                       /* struct_size */                              \
        4,                                          /* leading_bits_in_bin_id */                   \
        TARN_POOL_NO_FLAGS,                         /* flags */                                    \
        NULL,                                       /* name */                                     \
        0,                                          /* limit_bytes */                              \
        32,                                         /* thread_cache_blocks */                      \
        G_MAXSIZE >> (sizeof (gsize) > 4 ? 30 : 2), /* thread_cache_bytes */                       \
        0,                                          /* hold_bytes */                               \
        NULL,                                       /* debug */                                    \
        NULL                                        /* heap */                                     \
  }

/**
 * The counters of a pool, all at one moment. Every request of a block is counted once: as a hit, a
 * miss or a failure.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnPoolStats), as TARN_POOL_STATS_INIT sets it */

  gsize held_blocks;        /**< freed, and kept to be handed out again */
  gsize active_blocks;      /**< in use */
  gsize managed_bytes;      /**< allocated for held and active blocks */
  gsize active_bytes;       /**< asked for by active blocks */
  gsize held_bytes;         /**< allocated for held blocks */
  gsize peak_managed_bytes; /**< the most that managed_bytes was: see tarn_pool_reset_peaks() */
  /**
   * The most that active_bytes was. Where several threads use the pool, this may be too small,
   * by up to the bytes of the blocks that they keep for themselves.
   */
  gsize peak_active_bytes;

  guint64 hits;     /**< requests that a block held by the pool served */
  guint64 misses;   /**< requests that the upstream allocator served: a heap, or the driver */
  guint64 failures; /**< requests that ended in an error */
  /**
   * Requests that were served without a call of the driver for memory, by a held block or by the
   * heap below the pool. They are among hits and misses.
   */
  guint64 served_without_driver;
  /**
   * Calls of the driver for memory that requests of this pool led to, also through a heap or
   * another pool below it, and also those that failed. The driver is the allocator at the bottom:
   * the backend.
   */
  guint64 driver_calls;
  guint64 upstream_failures; /**< times that the upstream allocator gave no memory */
  guint64 upstream_frees;    /**< blocks returned to the upstream allocator */
  guint64 reclaims;          /**< times that reclaim functions were asked */
  guint64 ignored_frees;     /**< blocks freed in a child of fork (), where nothing is done */
  guint64 queue_waits;       /**< times that a queue, or the host, was made to wait for another */
} TarnPoolStats;

/**
 * A TarnPoolStats to start from: every field at its default.
 *
 * @since 0.1
 */
#define TARN_POOL_STATS_INIT                                                                       \
  {                                                                                                \
    sizeof (TarnPoolStats), /* struct_size */                                                      \
        0,                  /* held_blocks */                                                      \
        0,                  /* active_blocks */                                                    \
        0,                  /* managed_bytes */                                                    \
        0,                  /* active_bytes */                                                     \
        0,                  /* held_bytes */                                                       \
        0,                  /* peak_managed_bytes */                                               \
        0,                  /* peak_active_bytes */                                                \
        0,                  /* hits */                                                             \
        0,                  /* misses */                                                           \
        0,                  /* failures */                                                         \
        0,                  /* served_without_driver */                                            \
        0,                  /* driver_calls */                                                     \
        0,                  /* upstream_failures */                                                \
        0,                  /* upstream_frees */                                                   \
        0,                  /* reclaims */                                                         \
        0,                  /* ignored_frees */                                                    \
        0                   /* queue_waits */                                                      \
  }

/**
 * How much memory a pool can have, in bytes. See tarn_pool_get_budget().
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnBudget), as TARN_BUDGET_INIT sets it */

  /** Bytes of the device. G_MAXUINT64: the driver does not say, as for memory of the host. */
  guint64 device_bytes;
  /**
   * Bytes of the device that nobody has allocated, neither this process nor another one.
   * G_MAXUINT64: the driver does not say, as most drivers of OpenCL.
   */
  guint64 free_bytes;
  /**
   * Bytes that the pool, with the heap below it, has allocated from the driver, and those of
   * tarn_pool_charge().
   */
  guint64 taken_bytes;
  /**
   * Bytes of blocks in use, and those of tarn_pool_charge(). The pool can use the others of
   * taken_bytes again.
   */
  guint64 used_bytes;
  /**
   * The most that the pool can have at this moment: what it has taken and what is free, but not
   * more than the device has, nor than the pool's limit. G_MAXUINT64: nothing is known of it.
   */
  guint64 budget_bytes;
} TarnBudget;

/**
 * A TarnBudget to start from: every field at its default.
 *
 * @since 0.1
 */
#define TARN_BUDGET_INIT                                                                           \
  {                                                                                                \
    sizeof (TarnBudget), /* struct_size */                                                         \
        0,               /* device_bytes */                                                        \
        0,               /* free_bytes */                                                          \
        0,               /* taken_bytes */                                                         \
        0,               /* used_bytes */                                                          \
        0                /* budget_bytes */                                                        \
  }

TarnPool *tarn_pool_new (TarnAllocator *upstream, const TarnPoolOptions *options,
                         GError **error) G_GNUC_WARN_UNUSED_RESULT;
TarnPool *tarn_pool_ref (TarnPool *pool);
void tarn_pool_unref (TarnPool *pool);

TarnBlock *tarn_pool_allocate (TarnPool *pool, gsize size,
                               GError **error) G_GNUC_WARN_UNUSED_RESULT;
TarnBlock *tarn_pool_allocate_ordered (TarnPool *pool, gsize size, gpointer queue,
                                       GError **error) G_GNUC_WARN_UNUSED_RESULT;
TarnBlock *tarn_pool_allocate_aligned (TarnPool *pool, gsize size, gsize alignment, gpointer queue,
                                       GError **error) G_GNUC_WARN_UNUSED_RESULT;
TarnBlock *tarn_pool_allocate_timeout (TarnPool *pool, gsize size, gpointer queue,
                                       gint64 microseconds,
                                       GError **error) G_GNUC_WARN_UNUSED_RESULT;
TarnBlock *tarn_pool_find (TarnPool *pool, TarnMemory memory);
gboolean tarn_pool_free_memory (TarnPool *pool, TarnMemory memory, gpointer queue, GError **error);
gboolean tarn_pool_reserve (TarnPool *pool, gsize bytes, gpointer queue, GError **error);
gboolean tarn_pool_forget_queue (TarnPool *pool, gpointer queue, GError **error);
void tarn_pool_free_held (TarnPool *pool);
void tarn_pool_trim (TarnPool *pool, gsize keep_bytes);
void tarn_pool_stop_holding (TarnPool *pool);

gsize tarn_pool_get_held_blocks (TarnPool *pool);
gsize tarn_pool_get_active_blocks (TarnPool *pool);
gsize tarn_pool_get_managed_bytes (TarnPool *pool);
gsize tarn_pool_get_active_bytes (TarnPool *pool);
void tarn_pool_get_stats (TarnPool *pool, TarnPoolStats *stats);
gchar *tarn_pool_stats_to_string (const TarnPoolStats *stats) G_GNUC_WARN_UNUSED_RESULT;
void tarn_pool_reset_peaks (TarnPool *pool);
const gchar *tarn_pool_get_name (TarnPool *pool);
TarnAllocator *tarn_pool_get_upstream (TarnPool *pool);
guint64 tarn_pool_get_generation (TarnPool *pool);
gsize tarn_pool_get_limit_bytes (TarnPool *pool);
void tarn_pool_set_limit_bytes (TarnPool *pool, gsize limit_bytes);
gboolean tarn_pool_get_budget (TarnPool *pool, TarnBudget *budget, GError **error);
gboolean tarn_pool_charge (TarnPool *pool, gsize bytes, GError **error);
void tarn_pool_uncharge (TarnPool *pool, gsize bytes);
gsize tarn_pool_get_charged_bytes (TarnPool *pool);
gsize tarn_pool_get_hold_bytes (TarnPool *pool);
void tarn_pool_set_hold_bytes (TarnPool *pool, gsize hold_bytes);

/**
 * A function that may name another pool for a request. Several threads may call it at once. Tarn
 * holds no lock then, so it may call any function of either pool. It must not request memory of @p
 * pool for the same queue, because that would call it again.
 *
 * @param pool       the pool that was asked
 * @param queue      the queue of the request, alive during the call; never NULL
 * @param user_data  as given to tarn_pool_set_redirect_func()
 * @param error      return location for why the request fails, if it does
 * @return (transfer full): the pool that serves the request; or NULL: @p pool does, unless @p error
 *         is set
 * @since 0.1
 */
typedef TarnPool *(*TarnPoolRedirectFunc) (TarnPool *pool, gpointer queue, gpointer user_data,
                                           GError **error);

void tarn_pool_set_redirect_func (TarnPool *pool, TarnPoolRedirectFunc func, gpointer user_data,
                                  GDestroyNotify destroy);

guint32 tarn_pool_bin_number (TarnPool *pool, gsize size);
gsize tarn_pool_alloc_size (TarnPool *pool, guint32 bin);

/**
 * A function that gives memory back when a pool has run out of it. It does so by freeing blocks of
 * @p pool or of another pool, for instance. It is called with no lock held, possibly by several
 * threads at once. What it allocates itself never asks reclaim functions again. It must return, not
 * leave by pthread_exit (), longjmp () or cancellation: the request that it is asked for would
 * never end, and others may wait for it.
 *
 * @param pool       the pool that ran out
 * @param wanted     bytes that could not be allocated
 * @param user_data  as given to tarn_pool_add_reclaim_func()
 * @return TRUE if something was given back
 * @since 0.1
 */
typedef gboolean (*TarnReclaimFunc) (TarnPool *pool, gsize wanted, gpointer user_data);

guint tarn_pool_add_reclaim_func (TarnPool *pool, TarnReclaimFunc func, gpointer user_data,
                                  GDestroyNotify destroy);
gboolean tarn_pool_remove_reclaim_func (TarnPool *pool, guint id);

/**
 * Pools that give back what they hold when one of them runs out of memory. Any function of a group
 * may be called from any thread at any time.
 *
 * @since 0.1
 */
typedef struct _TarnReclaimGroup TarnReclaimGroup;

TarnReclaimGroup *tarn_reclaim_group_new (void) G_GNUC_WARN_UNUSED_RESULT;
TarnReclaimGroup *tarn_reclaim_group_ref (TarnReclaimGroup *group);
void tarn_reclaim_group_unref (TarnReclaimGroup *group);
void tarn_pool_set_reclaim_group (TarnPool *pool, TarnReclaimGroup *group);
TarnReclaimGroup *tarn_pool_get_reclaim_group (TarnPool *pool) G_GNUC_WARN_UNUSED_RESULT;

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnReclaimGroup, tarn_reclaim_group_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnPool, tarn_pool_unref)

G_END_DECLS

#endif
