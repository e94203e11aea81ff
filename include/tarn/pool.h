/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Pools: allocators that hold freed blocks and hand them out again.
 */

#ifndef TARN_POOL_H
#define TARN_POOL_H

#include <tarn/allocator.h>
#include <tarn/block.h>
#include <tarn/heap.h>

G_BEGIN_DECLS

/**
 * An allocator that holds freed blocks and hands them out again. A pool allocates from another
 * allocator, its upstream. It holds freed blocks in bins by size, and hands them out again without
 * a driver call. Any thread may call any function of a pool at any time.
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
   * The pool assumes that the program has no references of its own to memory that it frees.
   * Without this flag, if memory is a handle with a reference count (a cl_mem), the pool reads the
   * count when a block is freed. It keeps the block aside as long as the program retains the
   * handle: see tarn_opencl_immediate_allocator_new().
   */
  TARN_POOL_TRUSTS_HANDLES = 1 << 1,

  /**
   * For tarn_opencl_pool_new(), tarn_cuda_pool_new() and similar functions; tarn_pool_new() ignores
   * it. The pool is straight over the driver's allocator, without a heap. Each block is then a
   * buffer or an allocation of its own, which clCreateSubBuffer and cuIpcGetMemHandle () accept. If
   * sizes vary, this takes more memory and more driver calls.
   */
  TARN_POOL_WHOLE_BUFFERS = 1 << 2,

  /**
   * The pool prints a line to standard error when its last reference is gone, or at exit: its name,
   * the text of tarn_pool_stats_to_string(), and its peaks of memory in use and memory taken.
   * TARN_STATS=1 in the environment sets this flag for all pools.
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
   * The number of bits after the first 1 bit of a size that select its bin: 0 to 26; 4 by default.
   * The pool rounds a request up to the largest size of its bin, by less than
   * 1 / 2^leading_bits_in_bin_id of its size. More bits waste less memory, but a held block fits
   * less often.
   *
   * A pool over a heap ignores this. There, requests of more than 128 KiB are not rounded, and
   * smaller ones are rounded up to a multiple of 512 bytes, or by less than 1/32 of their size if
   * that is more. With a limit, and after memory has run out, no request is rounded there.
   */
  guint leading_bits_in_bin_id;

  TarnPoolFlags flags; /**< none by default */

  const gchar *name; /**< how messages call the pool; nullable; copied */

  /**
   * The most bytes that the pool has from its upstream allocator at a time, for held blocks and
   * blocks in use; 0, the default: no limit. If a request would exceed the limit, the pool returns
   * held blocks to the upstream allocator, if these are enough; if not, it calls its reclaim
   * functions. If there is still no room, the request fails with TARN_ERROR_LIMIT: see
   * tarn_pool_allocate(). The request may wait for requests of other threads that are in a call of
   * the upstream allocator; such a call must not wait for this request.
   *
   * tarn_pool_set_limit_bytes() changes the limit. TARN_LIMIT in the environment is another limit
   * for each pool, and the lower one counts. It is a number of bytes, such as 8G, or a share of the
   * device's memory, such as 80%. Pools of host memory ignore a share.
   */
  gsize limit_bytes;

  /**
   * The number of freed blocks of one size that each thread may cache: 32 by default, 65535 at
   * most. A thread allocates and frees without a lock as long as its cache suffices, so threads do
   * not wait for each other. Set a larger number if threads free many blocks of a size (of a bin,
   * to be exact) before they request them again. With 0, threads cache nothing: each request takes
   * the pool's lock, and every thread can get each freed block at once.
   *
   * Blocks that threads cache count as held. The pool frees them when memory runs out, when
   * limit_bytes would be exceeded, and in tarn_pool_free_held() and similar functions. If a thread
   * has ended, or has not used the pool for 10 ms, another thread that needs its blocks gets them.
   * Each thread has a separate cache for each in-order queue.
   */
  guint thread_cache_blocks;

  /**
   * The most bytes that each thread may cache, in blocks of all sizes; by default 16 GiB, or 1 GiB
   * if pointers have 32 bits. With 0, threads cache nothing, as with thread_cache_blocks.
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
   *   that threads keep.
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
  gsize managed_bytes;      /**< allocated from upstream for held and active blocks */
  gsize active_bytes;       /**< the requested bytes of active blocks */
  gsize held_bytes;         /**< allocated for held blocks */
  gsize peak_managed_bytes; /**< the highest managed_bytes: see tarn_pool_reset_peaks() */
  /**
   * The highest active_bytes. If several threads use the pool, this may be too small, by up to the
   * bytes of the blocks that they cache.
   */
  gsize peak_active_bytes;

  guint64 hits;     /**< requests that a held block served */
  guint64 misses;   /**< requests that the upstream allocator served: a heap, or the driver */
  guint64 failures; /**< requests that failed */
  /**
   * Requests that a held block, or the heap below the pool, served without a driver call for
   * memory. They also count as hits or misses.
   */
  guint64 served_without_driver;
  /**
   * Driver calls for memory that requests of this pool caused, also through a heap or another pool
   * below it, and also those that failed. The driver is the allocator at the bottom: the backend.
   */
  guint64 driver_calls;
  guint64 upstream_failures; /**< times that the upstream allocator failed to allocate */
  guint64 upstream_frees;    /**< blocks returned to the upstream allocator */
  guint64 reclaims;          /**< times that the pool called reclaim functions */
  guint64 ignored_frees;     /**< blocks freed in a child of fork (), where a free does nothing */
  /**
   * Times that the pool made a queue, or the host, wait for another queue. Waits of a heap below
   * the pool do not count.
   */
  guint64 queue_waits;
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

/**
 * Makes a pool over an allocator. Over a deferred allocator it says in one g_message() that it
 * cannot see memory run out.
 *
 * @param upstream  where memory comes from; the pool keeps a reference. Another pool does all that
 *                  tarn_pool_allocate() says whenever this one asks it, each time it asks.
 * @param options   nullable: the defaults; start from TARN_POOL_OPTIONS_INIT
 * @param error     return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for an option outside its
 *                  range, or one that this version of the library does not have, or a TARN_LIMIT
 *                  that cannot be read; the backend's, if TARN_LIMIT is a share of the device's
 *                  memory and the driver fails to say how much that is;
 *                  TARN_ERROR_FORKED in a child of fork ()
 * @return (transfer full): an empty pool, which any thread may use, or NULL with @p error set
 * @since 0.1
 */
TarnPool *tarn_pool_new (TarnAllocator *upstream, const TarnPoolOptions *options,
                         GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Takes a reference on a pool.
 *
 * @param pool  a pool; any thread may call it
 * @return (transfer full): @p pool
 * @since 0.1
 */
TarnPool *tarn_pool_ref (TarnPool *pool);

/**
 * Drops a reference on a pool. With the last one the pool returns its held blocks to the upstream
 * allocator; blocks in use stay valid, and are returned there as soon as they are freed.
 *
 * @param pool  a pool; NULL is allowed. Any thread may call it.
 * @since 0.1
 */
void tarn_pool_unref (TarnPool *pool);

/**
 * Allocates a block from a pool. The block has at least @p size bytes. It is a held block of the
 * pool, or else a fresh one from the upstream allocator, with the largest size of its bin.
 *
 * If upstream is out of memory, or is a pool at its limit, the pool takes these steps:
 *
 * - It calls upstream's reclaim function and then its own, once.
 * - It returns held blocks to upstream, the largest first, until there is room.
 * - If rounding had added bytes, it requests the exact size.
 *
 * After any other error of upstream, the pool requests the exact size at once. When a block of an
 * exact size is freed, the pool returns it to upstream.
 *
 * A request that would exceed the pool's limit does not call upstream. The pool returns held
 * blocks, the largest first, as many as needed, if these are enough. If not, it calls its reclaim
 * functions once, and tries the exact size if rounding had added bytes. The request waits for other
 * threads that are returning memory to upstream or requesting some from it.
 *
 * @param pool   a pool; any thread may call it
 * @param size   bytes; 0 is allowed
 * @param error  return location, or NULL: TARN_ERROR_OUT_OF_MEMORY; TARN_ERROR_LIMIT if the pool's
 *               limit would be exceeded (both messages have the bytes that are active and held);
 *               TARN_ERROR_INVALID_SIZE for more than G_MAXSSIZE bytes, or if the pool's bytes
 *               could not be counted any more; TARN_ERROR_FORKED in a child of fork (); or an
 *               error of the backend. After TARN_ERROR_CONTEXT_LOST the pool stops holding.
 * @return (transfer full): the block, for tarn_block_free(), or NULL with @p error set
 * @since 0.1
 */
TarnBlock *tarn_pool_allocate (TarnPool *pool, gsize size,
                               GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Allocates a block as tarn_pool_allocate() does, for use on a queue. The queue is a
 * cl_command_queue or a CUstream. If other queues used the memory before, they are done with it, or
 * the queue waits for them. If the block is used on further queues, call tarn_block_record_use().
 *
 * An in-order queue reuses memory that only this queue has used. That needs no driver call, and no
 * lock as long as the thread caches some (TarnPoolOptions.thread_cache_blocks). Other queues get
 * that memory when the commands that use it are done, and fresh memory until then. The queue waits
 * only for memory that is handed over between queues:
 *
 * - memory that several queues used
 * - memory that was moved to its queue (tarn_block_move_to_queue())
 * - memory of a size of which there was not enough for each queue
 *
 * The host waits if there is no other memory left. It also waits if a heap of OpenCL buffers gets
 * memory from the driver, until a queue has made this memory ready: see tarn_opencl_pool_new().
 *
 * In the cases in which this call makes the queue wait, a request that names no queue makes the
 * host wait. The pool treats memory that was neither allocated nor recorded with a queue as idle as
 * soon as it is freed.
 *
 * @param pool   a pool; any thread may call it
 * @param size   bytes; 0 is allowed
 * @param queue  the queue, alive during the call; NULL: as tarn_pool_allocate(). A backend has a
 *               function with its own type, such as tarn_opencl_pool_allocate().
 * @param error  return location, or NULL: as tarn_pool_allocate(), TARN_ERROR_NOT_SUPPORTED if the
 *               allocator has no queues, or what the backend says of the queue
 * @return (transfer full): the block, for tarn_block_free(), which the caller calls while the queue
 *         lives; or NULL with @p error set
 * @since 0.1
 */
TarnBlock *tarn_pool_allocate_ordered (TarnPool *pool, gsize size, gpointer queue,
                                       GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Allocates a block whose memory is aligned. It is tarn_pool_allocate_ordered() for code that needs
 * a larger alignment than the pool's memory has, such as 4 KiB or 2 MiB. When a block with a larger
 * alignment is freed, the pool does not hold it, but returns it. Use such blocks for data that
 * lives long.
 *
 * Over a heap the block's address is a multiple of the alignment. A cl_mem has no address on the
 * host, so its offset in the larger buffer is such a multiple; without a heap the cl_mem is a whole
 * buffer. Other memory has the driver's alignment without a heap.
 *
 * @param pool       a pool; any thread may call it
 * @param size       bytes; 0 is allowed
 * @param alignment  bytes, a power of two
 * @param queue      nullable: as for tarn_pool_allocate_ordered()
 * @param error      return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for an alignment that is
 *                   no power of two; TARN_ERROR_NOT_SUPPORTED where the pool is over no heap, and
 *                   the driver's memory is aligned to less; as tarn_pool_allocate_ordered()
 * @return (transfer full): the block, for tarn_block_free(), or NULL with @p error set
 * @since 0.1
 */
TarnBlock *tarn_pool_allocate_aligned (TarnPool *pool, gsize size, gsize alignment, gpointer queue,
                                       GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Allocates a block, and waits until other threads have freed enough. It is
 * tarn_pool_allocate_ordered() for programs whose threads share a device that has not enough for
 * all of them at a time. Where there is no memory (tarn_error_is_no_memory()), the request is tried
 * again whenever a block of the pool is freed, or of another pool of its reclaim group, or the
 * pool's limit is raised, or less is charged to it (tarn_pool_uncharge()).
 *
 * The call fails at once, as without a timeout, if a wait is of no use: if none of these pools has
 * a block in use or a charge, if @p size is more than the pool's limit, and inside reclaim
 * functions and functions of a backend. It does not notice memory that is freed elsewhere, by other
 * programs or by pools outside the group. If the calling thread itself has the missing memory,
 * nobody can free it, and the call waits until the timeout.
 *
 * Waiting threads do not take turns: the first request after a free may get the memory. While a
 * request waits, all requests and frees of these pools take a lock.
 *
 * @param pool          a pool; any thread may call it, and threads may wait at a time
 * @param size          bytes; 0 is allowed
 * @param queue         nullable: as for tarn_pool_allocate_ordered()
 * @param microseconds  the longest wait, of which the last attempt may take a little more; 0: none;
 *                      below 0: as long as it takes
 * @param error         return location, or NULL: as tarn_pool_allocate_ordered(), of the last
 *                      attempt
 * @return (transfer full): the block, for tarn_block_free(), or NULL with @p error set
 * @since 0.1
 */
TarnBlock *tarn_pool_allocate_timeout (TarnPool *pool, gsize size, gpointer queue,
                                       gint64 microseconds,
                                       GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Finds the block in use that has a piece of memory. It is for programs that hand on a cl_mem or an
 * address and have no place for the block. It takes constant time.
 *
 * @param pool    a pool with TARN_POOL_FINDABLE; without it the call is a programming error
 * @param memory  as tarn_block_get_memory() returns it: an address within a block is not found
 * @return (transfer none): the block, or NULL where no block in use has that memory; valid until
 *         tarn_block_free(). Any thread may call it.
 * @since 0.1
 */
TarnBlock *tarn_pool_find (TarnPool *pool, TarnMemory memory);

/**
 * Frees the block in use that has a piece of memory. It is tarn_pool_find() and
 * tarn_block_free_on() in one, for programs that have no place for blocks.
 *
 *     tarn_pool_free_memory (pool, (TarnMemory) { .pointer = buffer }, queue, &error);
 *
 * @param pool    a pool with TARN_POOL_FINDABLE; any thread may call it
 * @param memory  as tarn_block_get_memory() returned it
 * @param queue   nullable: as for tarn_block_free_on()
 * @param error   return location, or NULL: TARN_ERROR_INVALID_ARGUMENT where no block in use has
 *                that memory, for it was freed before; TARN_ERROR_NOT_SUPPORTED for a pool without
 *                TARN_POOL_FINDABLE; as tarn_block_record_use() for the queue
 * @return TRUE, or FALSE with @p error set and nothing freed; in a child of fork () TRUE, and
 *         nothing is done
 * @since 0.1
 */
gboolean tarn_pool_free_memory (TarnPool *pool, TarnMemory memory, gpointer queue, GError **error);

/**
 * Reserves memory in a pool. Later requests of up to @p bytes in all then need no driver call. The
 * function counts memory that the pool has already. It does not wait until other threads free
 * memory.
 *
 * Over a heap the memory is the heap's, in one segment or several, and serves requests of any
 * sizes of that queue. The heap keeps it, like all unused memory, for TarnHeapOptions.idle_seconds.
 * If memory is to stay unused for longer, raise that with tarn_heap_set_idle_seconds(). Requests of
 * up to 256 KiB have segments of their own. If segments cannot move (OpenCL, page-locked and
 * managed memory), they have up to 64 MiB each, or 1/512 of the limit if that is less, and larger
 * requests have segments of their own too.
 *
 * Without a heap the pool holds one block, which serves one request of the same bin. Call this once
 * for each block that is needed, while the others are in use.
 *
 * The bytes count within the pool's limit during the call, and in its peaks. A pool under
 * TARN_DEBUG holds nothing, so the call only checks that there is enough memory.
 *
 * @param pool   a pool; any thread may call it
 * @param bytes  how many; 0: nothing is done
 * @param queue  nullable: the queue whose requests get the memory, as for
 *               tarn_pool_allocate_ordered(); NULL: requests that name no queue. Other queues
 *               get it when it is idle.
 * @param error  return location, or NULL: as tarn_pool_allocate_ordered(), where there is no memory
 *               for so many bytes; TARN_ERROR_INVALID_ARGUMENT if a pool without a heap would not
 *               hold them: see TarnPoolOptions.hold_bytes
 * @return TRUE, or FALSE with @p error set
 * @since 0.1
 */
gboolean tarn_pool_reserve (TarnPool *pool, gsize bytes, gpointer queue, GError **error);

/**
 * Tells a pool that a queue will be destroyed before its commands are done. They may still use
 * memory of the pool, held or not, and a later queue may get the same handle. The call is needed
 * only if a backend cannot keep queues alive, as on CUDA; OpenCL retains them. If the commands are
 * done, you may leave it out. But then other queues get memory that was freed on this one only when
 * memory runs out, or a limit is reached. Over a heap the pool holds none of the queue's memory
 * afterwards, except memory that other queues used, too, and memory of a heap that has already
 * forgotten the queue for another pool. The call waits for other threads that are
 * freeing blocks of the queue, because they may need the queue.
 *
 * @param pool   a pool; any thread may call it. In a child of fork () it does nothing.
 * @param queue  the queue, alive, which is given no more commands that use the pool's memory
 * @param error  return location, or NULL: what the backend says when no event can be recorded on
 *               the queue; TARN_ERROR_RECURSION from inside a function of the backend, where the
 *               call would have to wait for a call that may be waiting for this one
 * @return TRUE, also for a queue that the pool has never met, or FALSE with @p error set: then the
 *         queue must not be destroyed yet, and the call can be made again
 * @since 0.1
 */
gboolean tarn_pool_forget_queue (TarnPool *pool, gpointer queue, GError **error);

/**
 * Returns every held block to the upstream allocator. A heap below the pool then also returns the
 * segments without a block in use to the driver. The host may have to wait for commands that still
 * use this memory.
 *
 * @param pool  a pool; any thread may call it. In a child of fork () it does nothing.
 * @since 0.1
 */
void tarn_pool_free_held (TarnPool *pool);

/**
 * Returns held blocks to the upstream allocator until at most @p keep_bytes are held. It begins
 * with the largest. A heap below the pool then returns segments without a block in use to the
 * driver, until they and the held blocks have at most @p keep_bytes together. If several pools use
 * the heap, it also returns segments that another pool's blocks have left.
 *
 * @param pool        a pool; any thread may call it. In a child of fork () it does nothing.
 * @param keep_bytes  bytes that may stay allocated without being used; 0: as tarn_pool_free_held()
 * @since 0.1
 */
void tarn_pool_trim (TarnPool *pool, gsize keep_bytes);

/**
 * Returns held blocks to the upstream allocator. From now on it returns each block when it is
 * freed. A heap below the pool returns its segments without a block in use to the driver, as for
 * tarn_pool_free_held(). It keeps the memory of blocks that are freed later, as
 * TarnHeapOptions.idle_seconds says; tarn_pool_free_held() returns that, too.
 *
 * @param pool  a pool; any thread may call it. In a child of fork () it does nothing.
 * @since 0.1
 */
void tarn_pool_stop_holding (TarnPool *pool);

/**
 * Gets the number of blocks that were freed and are kept for later.
 *
 * @param pool  a pool; any thread may call it
 * @return a number of blocks, exact when no call is in flight
 * @since 0.1
 */
gsize tarn_pool_get_held_blocks (TarnPool *pool);

/**
 * Gets the number of blocks in use.
 *
 * @param pool  a pool; any thread may call it
 * @return a number of blocks, exact when no call is in flight
 * @since 0.1
 */
gsize tarn_pool_get_active_blocks (TarnPool *pool);

/**
 * Gets the bytes that a pool has allocated. They are those of held blocks and of blocks in use.
 *
 * @param pool  a pool; any thread may call it
 * @return bytes, exact when no call is in flight
 * @since 0.1
 */
gsize tarn_pool_get_managed_bytes (TarnPool *pool);

/**
 * Gets the bytes that were asked for by the blocks in use.
 *
 * @param pool  a pool; any thread may call it
 * @return bytes, exact when no call is in flight
 * @since 0.1
 */
gsize tarn_pool_get_active_bytes (TarnPool *pool);

/**
 * Stores all counters of a pool as they were at one moment. In a child of fork () they are those of
 * the fork, as far as no other thread was changing them, and ignored_frees.
 *
 * @param pool   a pool; any thread may call it
 * @param stats  out: start from TARN_POOL_STATS_INIT, whose struct_size says how much is filled
 * @since 0.1
 */
void tarn_pool_get_stats (TarnPool *pool, TarnPoolStats *stats);

/**
 * Makes a line of a pool's counters for people to read. An example: "101 requests: 98 served
 * without the driver, 3 driver calls; 782 KiB in use, 1172 KiB held". The line has the number of
 * failed requests if there are any. Over a heap, few bytes are held, because the heap keeps most
 * freed memory: see tarn_heap_get_stats(). Later versions may change the wording.
 *
 * @param stats  as tarn_pool_get_stats() has filled it; any thread may call it
 * @return (transfer full): the line, without a newline; for g_free()
 * @since 0.1
 */
gchar *tarn_pool_stats_to_string (const TarnPoolStats *stats) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Resets the peaks of a pool. It sets peak_managed_bytes and peak_active_bytes to the present
 * values of managed_bytes and active_bytes.
 *
 * @param pool  a pool; any thread may call it. In a child of fork () it does nothing.
 * @since 0.1
 */
void tarn_pool_reset_peaks (TarnPool *pool);

/**
 * Gets the name that a pool was given for messages.
 *
 * @param pool  a pool; any thread may call it
 * @return (transfer none): valid as long as @p pool; NULL: it was given none
 * @since 0.1
 */
const gchar *tarn_pool_get_name (TarnPool *pool);

/**
 * Gets the upstream allocator of a pool. For tarn_opencl_pool_new(), tarn_cuda_pool_new() and
 * similar functions it is the heap, for tarn_heap_get_stats().
 *
 * @param pool  a pool; any thread may call it
 * @return (transfer none): valid as long as @p pool
 * @since 0.1
 */
TarnAllocator *tarn_pool_get_upstream (TarnPool *pool);

/**
 * Gets a number that changes when a pool returns memory to the driver. It is for programs that keep
 * addresses longer than blocks, as a CUDA graph does. Such a program gets the number before it
 * allocates the memory of the graph. As long as the number stays the same, that memory is mapped at
 * the same addresses, although the blocks may have been freed. When the number has changed, the
 * pool has returned or moved some memory, and the program makes its graphs again.
 *
 * Over a heap the number changes when the heap frees a segment, or moves one to other addresses.
 * All pools over the heap share the number, and a change may come from any of them. Without a heap
 * it changes when the pool returns blocks to its upstream allocator, which may be another pool.
 *
 * The pool never returns or moves memory of blocks in use. Freed memory may serve another request,
 * even if the number stays the same: make sure that a graph and that request do not run at the same
 * time. If another thread uses the pool, the number may change right after this returns.
 *
 * @param pool  a pool; any thread may call it
 * @return a number that never comes again
 * @since 0.1
 */
guint64 tarn_pool_get_generation (TarnPool *pool);

/**
 * Gets the limit of a pool. tarn_pool_set_limit_bytes(), or else TarnPoolOptions, has set it.
 *
 * @param pool  a pool; any thread may call it
 * @return bytes; 0: no limit
 * @since 0.1
 */
gsize tarn_pool_get_limit_bytes (TarnPool *pool);

/**
 * Sets the limit of a pool. If the pool manages more bytes, it returns held blocks to the upstream
 * allocator, the largest first, until it has no more than the limit. Blocks in use stay. Requests
 * that no held block serves fail with TARN_ERROR_LIMIT until there is room for them. For requests
 * that are in a call of the upstream allocator at that time, the former limit holds.
 *
 * A heap may follow the limit (TarnHeapOptions.follows_pool_limit). If it has more memory, the pool
 * returns all held blocks, waiting for the queues that use them, and the heap returns idle pieces.
 *
 * @param pool         a pool; any thread may call it. In a child of fork () it does nothing.
 * @param limit_bytes  bytes; 0: no limit
 * @since 0.1
 */
void tarn_pool_set_limit_bytes (TarnPool *pool, gsize limit_bytes);

/**
 * Stores how much memory a pool can have. These are the bytes of the device, the free ones, those
 * that the pool has taken, and the most that it can have now. A program can choose the size of its
 * tiles by them. Other processes take memory at any time, so a request may still fail
 * (tarn_error_is_no_memory()).
 *
 * The bytes of a device are from CUDA's cuMemGetInfo, and for OpenCL CL_DEVICE_GLOBAL_MEM_SIZE, of
 * the context's device with the least memory if it has several. Of OpenCL's drivers AMD's say how
 * much is free (cl_amd_device_attribute_query).
 *
 * @param pool    a pool; any thread may call it
 * @param budget  out: start from TARN_BUDGET_INIT, whose struct_size says how much is filled.
 *                Written on success only.
 * @param error   return location, or NULL: the backend's, if the driver fails; TARN_ERROR_FORKED in
 *                a child of fork ()
 * @return TRUE, or FALSE with @p error set. That the driver does not say something is no error.
 * @since 0.1
 */
gboolean tarn_pool_get_budget (TarnPool *pool, TarnBudget *budget, GError **error);

/**
 * Charges memory that the program allocates itself to a pool's limit. The pool then has as many
 * bytes less for its blocks. If the limit leaves no room, the pool frees held blocks, the largest
 * first, or calls its reclaim functions, as tarn_pool_allocate() does. The caller allocates
 * the memory itself, by clCreateBuffer for example, after charging it, and calls
 * tarn_pool_uncharge() when it has freed the memory, or could not allocate it. In a pool without a
 * limit the bytes count as soon as tarn_pool_set_limit_bytes() sets one. They are not part of
 * TarnPoolStats: tarn_pool_get_charged_bytes() gets them. A heap that follows the pool's limit
 * (TarnHeapOptions.follows_pool_limit) gets as much less memory too.
 *
 * @param pool   a pool; any thread may call it. The caller keeps a reference until it has
 *               uncharged the bytes.
 * @param bytes  bytes to add to the charge; 0: nothing is done
 * @param error  return location, or NULL: TARN_ERROR_LIMIT if the pool's limit leaves no room, even
 *               after reclaim functions were asked; TARN_ERROR_INVALID_SIZE if a size cannot count
 *               so many bytes; TARN_ERROR_FORKED in a child of fork ()
 * @return TRUE, or FALSE with @p error set and nothing charged
 * @since 0.1
 */
gboolean tarn_pool_charge (TarnPool *pool, gsize bytes, GError **error);

/**
 * Takes back what tarn_pool_charge() counted. Requests that wait for room within the limit look
 * again.
 *
 * @param pool   a pool; any thread may call it. In a child of fork () it does nothing.
 * @param bytes  bytes to take off the charge, at most tarn_pool_get_charged_bytes(); more is a
 *               programming error
 * @since 0.1
 */
void tarn_pool_uncharge (TarnPool *pool, gsize bytes);

/**
 * Gets the bytes that count within a pool's limit beside its blocks.
 *
 * @param pool  a pool; any thread may call it
 * @return bytes: what tarn_pool_charge() added, less what tarn_pool_uncharge() took back
 * @since 0.1
 */
gsize tarn_pool_get_charged_bytes (TarnPool *pool);

/**
 * Gets the most bytes that a pool holds. tarn_pool_set_hold_bytes(), or else TarnPoolOptions, has
 * set the number.
 *
 * @param pool  a pool; any thread may call it
 * @return bytes; 0 and G_MAXSIZE as TarnPoolOptions.hold_bytes has them
 * @since 0.1
 */
gsize tarn_pool_get_hold_bytes (TarnPool *pool);

/**
 * Sets the most bytes that a pool holds from now on. It changes TarnPoolOptions.hold_bytes. If the
 * pool holds more, it frees blocks at once: those that nobody uses, the oldest first, and if these
 * are not enough the largest others, for which the call waits as tarn_pool_trim() does. Threads
 * give up what they keep for themselves, and begin anew. A pool that tarn_pool_stop_holding() was
 * called for goes on to hold nothing.
 *
 * @param pool        a pool; any thread may call it. In a child of fork () it does nothing.
 * @param hold_bytes  bytes. 0: no bound, except over a heap, where the pool holds little;
 *                    G_MAXSIZE: no bound, even over a heap
 * @since 0.1
 */
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

/**
 * Sets the function that may name another pool for requests of queues. It is for backends: those
 * that have memory apart for some commands, such as a graph's. tarn_cuda_pool_begin_graph() sets
 * one, and tarn_cuda_pool_end_graph() removes it.
 *
 * The function is asked before any memory is looked for, by tarn_pool_allocate_ordered() and its
 * like. A block of the other pool is that pool's: it is counted, recorded and freed there, and what
 * the allocator of tarn_block_get_allocator() offers is that pool's as well. tarn_pool_find() of @p
 * pool finds it if both pools have TARN_POOL_FINDABLE, and the other one serves no third pool; then
 * the other one keeps a reference on @p pool.
 *
 * While there is a function, requests and frees of the pool take a slower way. Requests that began
 * before this returns may be served without it.
 *
 * @param pool       a pool; any thread may call it, but not from within @p func
 * @param func       nullable: every request is the pool's own again
 * @param user_data  for @p func. If it holds a reference on @p pool, neither is ever released
 *                   unless the function is removed.
 * @param destroy    nullable; called with @p user_data once another function was set, or the pool's
 *                   last reference is gone, and no call of @p func is running. In a child of fork
 *                   () nothing is set, and it is not called.
 * @since 0.1
 */
void tarn_pool_set_redirect_func (TarnPool *pool, TarnPoolRedirectFunc func, gpointer user_data,
                                  GDestroyNotify destroy);

/**
 * Gets the bin that a size belongs to. Sizes of one bin are served by the same blocks.
 *
 * @param pool  a pool; any thread may call it
 * @param size  bytes
 * @return the bin's number
 * @since 0.1
 */
guint32 tarn_pool_bin_number (TarnPool *pool, gsize size);

/**
 * Gets the size that is allocated for every size of a bin. It is the largest of them.
 *
 * @param pool  a pool; any thread may call it
 * @param bin   a bin's number
 * @return bytes; 0 for a number that no size has
 * @since 0.1
 */
gsize tarn_pool_alloc_size (TarnPool *pool, guint32 bin);

/**
 * A function that frees memory when a pool has run out of it. It frees blocks of @p pool or of
 * another pool, for instance. It is called with no lock held, possibly by several threads at once.
 * What it allocates itself never asks reclaim functions again. It must return, not leave by
 * pthread_exit (), longjmp () or cancellation: the request that it is asked for would never end,
 * and others may wait for it.
 *
 * @param pool       the pool that ran out
 * @param wanted     bytes that could not be allocated
 * @param user_data  as given to tarn_pool_add_reclaim_func()
 * @return TRUE if it freed something
 * @since 0.1
 */
typedef gboolean (*TarnReclaimFunc) (TarnPool *pool, gsize wanted, gpointer user_data);

/**
 * Adds a function that is asked to free memory when memory has run out. It is asked when the
 * upstream allocator is out of memory, after the allocator's own reclaim function and the functions
 * added before; and where a request would exceed the pool's limit, after the functions added
 * before.
 *
 * @param pool       a pool; any thread may call it
 * @param func       the function to ask; any thread that allocates may call it
 * @param user_data  for @p func. If it holds a reference on @p pool, neither is ever released
 *                   unless the function is removed.
 * @param destroy    nullable; called with @p user_data once @p func was removed, or the pool's last
 *                   reference is gone, and no call of it is running
 * @return the function's number, never 0, but in a child of fork (), where nothing is added and
 *         @p destroy is not called
 * @since 0.1
 */
guint tarn_pool_add_reclaim_func (TarnPool *pool, TarnReclaimFunc func, gpointer user_data,
                                  GDestroyNotify destroy);

/**
 * Removes a reclaim function from a pool. A call of it that another thread is in may still be
 * running afterwards; none begins.
 *
 * @param pool  a pool; any thread may call it, also from inside a reclaim function
 * @param id    the number that tarn_pool_add_reclaim_func() returned
 * @return FALSE if the pool has no such function, or not any more, and in a child of fork ()
 * @since 0.1
 */
gboolean tarn_pool_remove_reclaim_func (TarnPool *pool, guint id);

/**
 * A group of pools that return held blocks when one of them runs out of memory. Any function of a
 * group may be called from any thread at any time.
 *
 * @since 0.1
 */
typedef struct _TarnReclaimGroup TarnReclaimGroup;

/**
 * Makes a group of pools that return held blocks for one another. It is for pools whose memory is
 * one device's, whatever allocators they are over: see tarn_pool_set_reclaim_group().
 *
 * @return (transfer full): a group without pools, which any thread may use
 * @since 0.1
 */
TarnReclaimGroup *tarn_reclaim_group_new (void) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Takes a reference on a reclaim group.
 *
 * @param group  a group; any thread may call it
 * @return (transfer full): @p group
 * @since 0.1
 */
TarnReclaimGroup *tarn_reclaim_group_ref (TarnReclaimGroup *group);

/**
 * Drops a reference on a reclaim group. The pools of a group keep it alive.
 *
 * @param group  a group; NULL is allowed; any thread may call it
 * @since 0.1
 */
void tarn_reclaim_group_unref (TarnReclaimGroup *group);

/**
 * Puts a pool in a reclaim group, in place of the one it was in. When a pool runs out of memory and
 * holds no block any more, the other pools of its group return held blocks, the one that holds most
 * first, and its largest blocks first, until the request succeeds or no pool holds a block. Reclaim
 * functions of other pools are not asked, and limits are each pool's own.
 *
 * Put pools in one group if memory that one returns is room for another, as on one device: OpenCL
 * buffers, shared virtual memory and CUDA's device memory of one GPU, say. A pool leaves its group
 * with its last reference.
 *
 * @param pool   a pool; any thread may call it. In a child of fork () it does nothing.
 * @param group  nullable: none from now on; the pool keeps a reference
 * @since 0.1
 */
void tarn_pool_set_reclaim_group (TarnPool *pool, TarnReclaimGroup *group);

/**
 * Gets the group of pools that return held blocks for a pool.
 *
 * @param pool  a pool; any thread may call it
 * @return (transfer full): what tarn_pool_set_reclaim_group() set, for tarn_reclaim_group_unref(),
 *         or NULL: there is none, or this is a child of fork ()
 * @since 0.1
 */
TarnReclaimGroup *tarn_pool_get_reclaim_group (TarnPool *pool) G_GNUC_WARN_UNUSED_RESULT;

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnReclaimGroup, tarn_reclaim_group_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnPool, tarn_pool_unref)

G_END_DECLS

#endif
