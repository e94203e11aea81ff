/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Pools: allocators that hold (cache) freed blocks, and reuse them for later requests.
 */

#ifndef TARN_POOL_H
#define TARN_POOL_H

#include <tarn/allocator.h>
#include <tarn/block.h>
#include <tarn/heap.h>

G_BEGIN_DECLS

/**
 * An allocator that holds (caches) freed blocks, and reuses them for later requests. A pool
 * allocates from another allocator, its upstream. It holds freed blocks in bins by size, and serves
 * later requests from them without a driver call. Any thread may call any function of a pool at any
 * time.
 *
 * @since 0.1
 */
typedef struct _TarnPool TarnPool;

#ifndef __cplusplus
/**
 * Casts a pool to TarnAllocator. This is for code that works with any allocator. It takes no
 * reference.
 *
 * @since 0.1
 */
#define TARN_ALLOCATOR(pool) ((TarnAllocator *) (1 ? (pool) : (TarnPool *) NULL))
#else
#define TARN_ALLOCATOR(pool)                                                                       \
  (reinterpret_cast<TarnAllocator *> (1 ? (pool) : static_cast<TarnPool *> (NULL)))
#endif

/**
 * Options of a pool that are on or off.
 *
 * @since 0.1
 */
typedef enum
{
  TARN_POOL_NO_FLAGS = 0, /**< nothing */

  /**
   * tarn_pool_find() and tarn_pool_free_memory() can find the pool's blocks in use by their handle
   * or address. A request and its free then take about 100 ns more in one thread, and up to a
   * microsecond more in many threads that keep blocks of mixed sizes. The pool takes about 450 KiB
   * of host memory more.
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
   * The pool allocates from the driver's allocator, without a heap. Each block is then a buffer or
   * an allocation of its own, which clCreateSubBuffer and cuIpcGetMemHandle () accept. If sizes
   * vary, this takes more memory and more driver calls. The flag is for tarn_opencl_pool_new(),
   * tarn_cuda_pool_new() and similar functions; tarn_pool_new() ignores it.
   */
  TARN_POOL_WHOLE_BUFFERS = 1 << 2,

  /**
   * The pool prints a line to standard error when its last reference is gone, or at exit. The line
   * has the pool's name, the text of tarn_pool_stats_to_string(), and two peaks: of memory in use,
   * and of memory that the pool, or the heap below it, had from upstream. TARN_STATS=1 in the
   * environment sets this flag for all pools.
   */
  TARN_POOL_PRINTS_STATS = 1 << 3
} TarnPoolFlags;

/**
 * The options of a pool. tarn_pool_new() copies them.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnPoolOptions), as TARN_POOL_OPTIONS_INIT sets it */

  /**
   * The number of bits, after the first 1 bit of a size, that select the size's bin: 0 to 26; 4 by
   * default. The pool rounds a request up to the largest size of its bin, by less than 1 /
   * 2^leading_bits_in_bin_id of its size. More bits waste less memory, but a held block fits less
   * often.
   *
   * A pool over a heap ignores this. It rounds requests of up to 256 KiB up to a multiple of 512
   * bytes, or by less than 1/32 of their size if that is more. It does not round larger requests.
   * It rounds no request if it has a limit or hold_bytes, if threads cache nothing
   * (thread_cache_blocks), or if memory has run out before. Exception: if the heap has the limit,
   * too (TarnHeapOptions.follows_pool_limit), and the limit is at least 128 MiB, the pool rounds
   * requests of up to 16 KiB up to a multiple of 512 bytes, as the heap does.
   */
  guint leading_bits_in_bin_id;

  TarnPoolFlags flags; /**< none by default */

  const gchar *name; /**< the pool's name in messages; nullable; copied */

  /**
   * The most bytes that the pool has from its upstream allocator at any time, for held blocks and
   * blocks in use; 0, the default: no limit. If a request would exceed the limit, the pool returns
   * held blocks to the upstream allocator. If all of them together are not enough, it calls its
   * reclaim functions instead. If there is still no room, the request fails with TARN_ERROR_LIMIT:
   * see tarn_pool_allocate(). The request may wait for other threads that are in a function of the
   * upstream allocator. So such a function must not wait for the request.
   *
   * TARN_LIMIT in the environment is a limit for each new pool: a number of bytes, such as 8G, or a
   * share of the device's memory, such as 80%. The lower one of limit_bytes and TARN_LIMIT counts.
   * Pools of host memory ignore a share. tarn_pool_set_limit_bytes() replaces limit_bytes, and the
   * limit of TARN_LIMIT stays.
   */
  gsize limit_bytes;

  /**
   * The number of freed blocks of one size that each thread may cache: 32 by default, 65535 at
   * most. A thread whose cache has a block, or room for one, allocates and frees without a lock, so
   * threads do not wait for each other. Set a larger number if threads free many blocks of a size
   * (more exactly: of a bin) before they request them again. With 0, threads cache nothing: each
   * request takes the pool's lock, and any thread can get any freed block at once.
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
   * The most bytes that the pool holds, including those in thread caches. The thread caches
   * together may have half of these bytes, in equal shares. If the pool holds more, it frees the
   * blocks that were held longest. It does not wait for queues: if commands of a queue still use a
   * block, the pool frees it later. To find out whether the commands are done, the pool asks the
   * driver in requests that take its lock, and when it forgets a queue, but not when a block is
   * freed. Over a heap it asks only about memory that several queues used. If a block is freed
   * while its queue is being captured, the pool frees the memory only after the next call that
   * names the queue and takes the lock.
   *
   * 0, the default: there is no bound, except over a heap. Over a heap the pool holds little,
   * because the heap cannot merge blocks that the pool holds:
   *
   * - It holds at most 0.5 % of its managed_bytes, or 8 MiB if that is more.
   * - Each thread also caches up to 4 MiB, in blocks of up to 256 KiB. Besides, it caches one block
   *   of up to 4 MiB for each queue, if it frees each large block before it requests the next.
   *   Neither is more than thread_cache_bytes. If more than four pools are over the heap, the 4 MiB
   *   become 16 MiB divided by the number of pools, or an eighth of the pool's managed_bytes if
   *   that is more, but at least 256 KiB.
   * - Before the heap allocates more memory from its own upstream allocator, the pool frees as many
   *   of these blocks as it can.
   * - It frees blocks that were held for ten seconds. It looks for them mostly when a block is
   *   freed.
   * - If the heap makes parts (TarnAllocatorOps.part_new()), the pool holds no block of more than
   *   64 KiB, except those that threads cache, or have cached shortly before.
   *
   * G_MAXSIZE: there is no bound, even over a heap.
   *
   * Over a heap, the default is the fastest value: a thread then takes the pool's lock only if the
   * heap has to grow. With any other value, requests that no thread caches take the lock, and a
   * program that keeps blocks of mixed sizes is about ten times as slow.
   *
   * tarn_pool_set_hold_bytes() changes it.
   */
  gsize hold_bytes;

  /**
   * The mistakes that Tarn looks for in the use of the pool's blocks: words of TARN_DEBUG such as
   * "guards,leaks" (see tarn(7)), but not "exit" and "stacks". "": none. NULL, the default: the
   * words of the environment variable TARN_DEBUG. Tarn reads the text only when it makes the pool.
   */
  const gchar *debug;

  /**
   * The options of the heap below the pool, such as its name, the alignment of blocks, or how long
   * it keeps idle memory. NULL, the default: all at their defaults. Tarn copies the options. The
   * heap always follows the pool's limit. The field is for tarn_opencl_pool_new(),
   * tarn_cuda_pool_new() and similar functions; tarn_pool_new() ignores it, and so does a pool
   * without a heap (TARN_POOL_WHOLE_BUFFERS).
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
 * A pool over a heap, as tarn_opencl_pool_new() and tarn_cuda_pool_new() make it, holds few or no
 * blocks, because the heap keeps the memory of freed blocks: TarnHeapStats.free_bytes of
 * tarn_heap_get_stats() says how much the heap holds for later requests.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnPoolStats), as TARN_POOL_STATS_INIT sets it */

  gsize held_blocks;        /**< freed blocks that the pool keeps for later requests */
  gsize active_blocks;      /**< blocks in use */
  gsize managed_bytes;      /**< bytes allocated from upstream for held and active blocks */
  gsize active_bytes;       /**< the requested bytes of active blocks */
  gsize held_bytes;         /**< bytes of held blocks, without the memory that a heap below keeps */
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
   * G_MAXUINT64: the driver does not say; most OpenCL drivers do not.
   */
  guint64 free_bytes;
  /**
   * Bytes that the pool, or the heap below it, has from its upstream allocator, plus charged bytes
   * (tarn_pool_charge()).
   */
  guint64 taken_bytes;
  /**
   * Bytes of blocks in use, plus charged bytes. The pool can reuse the rest of taken_bytes.
   */
  guint64 used_bytes;
  /**
   * The most bytes that the pool can have now: taken_bytes + free_bytes, but at most device_bytes,
   * and at most the limits of the pool and of the heap below it. G_MAXUINT64: it is unknown.
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
 * Makes a pool over an allocator. Directly over a deferred allocator it logs a g_message(), because
 * the pool cannot notice that memory runs out: see tarn_allocator_is_deferred().
 *
 * @param upstream  the allocator from which the pool gets memory; the pool keeps a reference. If @p
 *                  upstream is a pool, too, it serves the requests of the new pool that reach it as
 *                  tarn_pool_allocate() says.
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
 * Drops a reference on a pool. When the last reference is dropped, the pool returns its held blocks
 * to the upstream allocator. Blocks in use stay valid. The pool returns each of them to upstream
 * when the program frees it.
 *
 * @param pool  a pool; NULL is allowed. Any thread may call it.
 * @since 0.1
 */
void tarn_pool_unref (TarnPool *pool);

/**
 * Allocates a block from a pool. The block has at least @p size bytes. It is a held block of the
 * pool if one fits. Otherwise it is fresh memory of the upstream allocator, of the largest size of
 * its bin.
 *
 * If upstream is out of memory, or is a pool at its limit, the pool takes these steps:
 *
 * - It calls upstream's reclaim function and then its own, once.
 * - It returns held blocks to upstream, the largest first, until there is room.
 * - If rounding had added bytes, it requests the exact size from upstream.
 *
 * After any other error of upstream, the pool requests the exact size at once.
 *
 * A request that would exceed the pool's limit first makes room. If the held blocks are enough, the
 * pool returns as many as needed to upstream, the largest first. If not, it calls its reclaim
 * functions once, and then tries the exact size if rounding had added bytes. The request waits for
 * other threads that are returning memory to upstream, or requesting memory from it.
 *
 * If a block has its exact size for one of these reasons, the pool returns it to upstream when the
 * program frees it.
 *
 * @param pool   a pool; any thread may call it
 * @param size   bytes; 0 is allowed
 * @param error  return location, or NULL: TARN_ERROR_OUT_OF_MEMORY; TARN_ERROR_LIMIT if the pool's
 *               limit would be exceeded (both messages have the bytes that are active and held);
 *               TARN_ERROR_INVALID_SIZE for more than G_MAXSSIZE bytes, or if the sum of the pool's
 *               bytes would overflow; TARN_ERROR_FORKED in a child of fork (); or an error of the
 *               backend. After TARN_ERROR_CONTEXT_LOST the pool does as tarn_pool_stop_holding()
 *               says.
 * @return (transfer full): the block, for tarn_block_free(), or NULL with @p error set
 * @since 0.1
 */
TarnBlock *tarn_pool_allocate (TarnPool *pool, gsize size,
                               GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Allocates a block as tarn_pool_allocate() does, for use on a queue. The queue is a
 * cl_command_queue, or what tarn_cuda_stream_get_queue() returns for a CUstream. If other queues
 * used the memory before, their commands are done, or the queue waits for them. If other queues use
 * the block later, call tarn_block_record_use().
 *
 * An in-order queue at once reuses memory that only this queue has used. This takes no driver call,
 * and no lock if the thread has a cached block (TarnPoolOptions.thread_cache_blocks). Other queues
 * get that memory when the commands that use it are done; until then they get other memory. The
 * queue waits only for memory that is handed over between queues:
 *
 * - memory that several queues used
 * - memory that was moved to its queue (tarn_block_move_to_queue())
 * - blocks of a size for which memory ran out: not every queue could have its own
 *
 * The host waits if there is no other memory left. It also waits if a heap of OpenCL buffers gets
 * memory from the driver, until a queue has made this memory ready: see tarn_opencl_pool_new().
 *
 * If a request names no queue, the host waits instead of the queue, unless the backend has a queue
 * for such requests (TarnAllocatorOps.fresh_queue()). If a block was neither allocated nor recorded
 * with a queue, the pool assumes that no command uses it when the program frees it.
 *
 * @param pool   a pool; any thread may call it
 * @param size   bytes; 0 is allowed
 * @param queue  the queue, alive during the call; NULL: as tarn_pool_allocate(). A backend has a
 *               function with its own type, such as tarn_opencl_pool_allocate().
 * @param error  return location, or NULL: as tarn_pool_allocate(), TARN_ERROR_NOT_SUPPORTED if the
 *               allocator has no queues, or the backend's error for the queue
 * @return (transfer full): the block, for tarn_block_free(), which the caller calls before it
 *         destroys the queue; or NULL with @p error set
 * @since 0.1
 */
TarnBlock *tarn_pool_allocate_ordered (TarnPool *pool, gsize size, gpointer queue,
                                       GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Allocates a block whose memory is aligned. This is tarn_pool_allocate_ordered() for code that
 * needs a larger alignment than the pool's usual one, such as 4 KiB or 2 MiB. When such a block is
 * freed, the pool returns it to upstream instead of holding it. So use such blocks for long-lived
 * data.
 *
 * Over a heap the block's address is a multiple of the alignment. A cl_mem has no address on the
 * host, so its offset in the larger buffer is a multiple of the alignment instead. Without a heap,
 * a cl_mem is a whole buffer, so its offset is 0, and other memory has the driver's alignment.
 *
 * @param pool       a pool; any thread may call it
 * @param size       bytes; 0 is allowed
 * @param alignment  bytes, a power of two
 * @param queue      nullable: as for tarn_pool_allocate_ordered()
 * @param error      return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for an alignment that is
 *                   no power of two; TARN_ERROR_NOT_SUPPORTED if the pool is over no heap, and the
 *                   driver's alignment is less; as tarn_pool_allocate_ordered()
 * @return (transfer full): the block, for tarn_block_free(), or NULL with @p error set
 * @since 0.1
 */
TarnBlock *tarn_pool_allocate_aligned (TarnPool *pool, gsize size, gsize alignment, gpointer queue,
                                       GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Allocates a block, and waits until other threads have freed enough. This is
 * tarn_pool_allocate_ordered() for programs whose threads together need more memory than the device
 * has. If there is too little memory (tarn_error_is_no_memory()), the call waits. It tries again
 * after each of these events: a block of the pool, or of another pool of its reclaim group, is
 * freed; the pool's limit is raised; tarn_pool_uncharge() is called; another request fails. If a
 * redirect function has chosen another pool (tarn_pool_set_redirect_func()), the call waits in the
 * same way for that pool and its group, and only the other pool's limit counts.
 *
 * The call fails without waiting if a wait is useless: if none of these pools has a block in use or
 * charged bytes, or if @p size is more than the pool's limit. It also fails without waiting inside
 * reclaim functions and functions of a backend. The call does not notice memory that other
 * programs, or pools outside the group, free. If the calling thread itself uses the missing memory,
 * the call waits until the timeout.
 *
 * Waiting threads do not take turns: the first request after a free may get the memory. While a
 * request waits, all requests and frees of these pools take a lock.
 *
 * @param pool          a pool; any thread may call it, and several threads may wait
 * @param size          bytes; 0 is allowed
 * @param queue         nullable: as for tarn_pool_allocate_ordered()
 * @param microseconds  the longest wait, which the last attempt may exceed a little; 0: no wait;
 *                      negative: no timeout
 * @param error         return location, or NULL: the error of the last attempt, as of
 *                      tarn_pool_allocate_ordered()
 * @return (transfer full): the block, for tarn_block_free(), or NULL with @p error set
 * @since 0.1
 */
TarnBlock *tarn_pool_allocate_timeout (TarnPool *pool, gsize size, gpointer queue,
                                       gint64 microseconds,
                                       GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Finds the block in use that has a given handle or address. The call is for programs that pass on
 * a cl_mem or an address, and have no place to store the block. It takes constant time.
 *
 * @param pool    a pool with TARN_POOL_FINDABLE; without it the call is a programming error
 * @param memory  as tarn_block_get_memory() returns it. An address inside a block is not found.
 * @return (transfer none): the block, or NULL where no block in use has that memory; valid until
 *         tarn_block_free(). Any thread may call it.
 * @since 0.1
 */
TarnBlock *tarn_pool_find (TarnPool *pool, TarnMemory memory);

/**
 * Frees the block in use that has a given handle or address. This is tarn_pool_find() and
 * tarn_block_free_on() in one call, for programs that have no place to store blocks.
 *
 *     tarn_pool_free_memory (pool, (TarnMemory) { .pointer = buffer }, queue, &error);
 *
 * @param pool    a pool with TARN_POOL_FINDABLE; any thread may call it
 * @param memory  as tarn_block_get_memory() returned it
 * @param queue   nullable: as for tarn_block_free_on()
 * @param error   return location, or NULL: TARN_ERROR_INVALID_ARGUMENT if no block in use has that
 *                memory, for example after a free; TARN_ERROR_NOT_SUPPORTED for a pool without
 *                TARN_POOL_FINDABLE; as tarn_block_record_use() for the queue
 * @return TRUE, or FALSE with @p error set and nothing freed; in a child of fork () TRUE, and
 *         nothing is done
 * @since 0.1
 */
gboolean tarn_pool_free_memory (TarnPool *pool, TarnMemory memory, gpointer queue, GError **error);

/**
 * Reserves memory in a pool. Later requests that need up to @p bytes together then need no driver
 * call. Free memory that the pool already has is a part of the reserved bytes. The function does
 * not wait until other threads free memory.
 *
 * Over a heap the memory is the heap's, in one segment or several, and serves requests of any sizes
 * of that queue. The heap keeps it, like all unused memory, for TarnHeapOptions.idle_seconds. If it
 * will stay unused for longer, raise this number with tarn_heap_set_idle_seconds(). The heap keeps
 * separate segments for requests of up to 256 KiB. If segments cannot move (OpenCL, page-locked and
 * managed memory), it keeps separate segments for two kinds of requests instead: those of up to 64
 * KiB (or 1/1024 of the limit, if that is less), and those that are larger than a reserved segment.
 * A reserved segment then has up to 64 MiB, or 1/512 of the limit if that is less, but at least
 * 4 KiB.
 *
 * Without a heap the pool holds one block, which serves one request of the same bin. To reserve
 * several blocks, allocate each one after its reservation, before you reserve the next.
 *
 * If the call fails, the heap returns to the driver what it allocated for the call. Before that,
 * the host may wait for the commands of queues.
 *
 * During the call, the bytes count as in use: within the pool's limit, and in its peaks. The call
 * also counts as a request. A pool under TARN_DEBUG holds nothing, so the call only checks that
 * there is enough memory.
 *
 * @param pool   a pool; any thread may call it
 * @param bytes  how many bytes; 0: nothing is done
 * @param queue  nullable: the queue whose requests get the memory, as for
 *               tarn_pool_allocate_ordered(); NULL: requests that name no queue. Other queues
 *               get the memory when it is idle.
 * @param error  return location, or NULL: as tarn_pool_allocate_ordered(), if there is too little
 *               memory; TARN_ERROR_INVALID_ARGUMENT if a pool without a heap would not hold so many
 *               bytes: see TarnPoolOptions.hold_bytes
 * @return TRUE, or FALSE with @p error set
 * @since 0.1
 */
gboolean tarn_pool_reserve (TarnPool *pool, gsize bytes, gpointer queue, GError **error);

/**
 * Tells a pool that a queue will be destroyed before its commands are done. The commands may still
 * use memory of the pool, held or not, and a later queue may get the same handle. The call is
 * needed only if a backend cannot keep queues alive, as on CUDA; with OpenCL, Tarn retains them. If
 * the commands are done, you may omit the call. But then other queues get memory that was freed on
 * this queue only in three cases, and in each of them the host waits for all queues:
 *
 * - Memory runs out.
 * - A limit is reached.
 * - A heap below the pool has very much of such memory: more than twice the size that the heap aims
 *   at for all its memory. A queue's memory counts only after the heap has got 288 newer queues.
 *
 * The call waits for other threads that are freeing blocks of the queue, because they may need the
 * queue.
 *
 * Over a heap the pool afterwards holds none of the queue's memory, except memory that other queues
 * also used, and memory of a heap that has already forgotten the queue for another pool.
 *
 * @param pool   a pool; any thread may call it. In a child of fork () it does nothing.
 * @param queue  the queue, which must be alive. Afterwards it gets no more commands that use the
 *               pool's memory.
 * @param error  return location, or NULL: the backend's error if no event can be recorded on the
 *               queue; TARN_ERROR_RECURSION inside a function of the backend, if the call would
 *               have to wait for a thread that may be waiting for it
 * @return TRUE, also for a queue that was never used with the pool; or FALSE with @p error set:
 *         then do not destroy the queue yet, and call again
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
 * Returns held blocks to the upstream allocator until at most @p keep_bytes are held. Returns the
 * largest blocks first. A heap below the pool then returns segments without a block in use to the
 * driver, until they and the held blocks have at most @p keep_bytes together. If several pools use
 * the heap, these may be segments that another pool used.
 *
 * @param pool        a pool; any thread may call it. In a child of fork () it does nothing.
 * @param keep_bytes  bytes that may stay allocated without being used; 0: as tarn_pool_free_held()
 * @since 0.1
 */
void tarn_pool_trim (TarnPool *pool, gsize keep_bytes);

/**
 * Returns held blocks to the upstream allocator. From now on the pool returns each block when the
 * program frees it. A heap below the pool returns its segments without a block in use to the
 * driver, as for tarn_pool_free_held(). If blocks are freed later, the heap keeps their memory for
 * TarnHeapOptions.idle_seconds, or until tarn_pool_free_held() is called.
 *
 * @param pool  a pool; any thread may call it. In a child of fork () it does nothing.
 * @since 0.1
 */
void tarn_pool_stop_holding (TarnPool *pool);

/**
 * Gets the number of held blocks. These are freed blocks that the pool keeps for later requests.
 *
 * @param pool  a pool; any thread may call it
 * @return a number of blocks, exact if no other thread uses the pool meanwhile
 * @since 0.1
 */
gsize tarn_pool_get_held_blocks (TarnPool *pool);

/**
 * Gets the number of blocks in use.
 *
 * @param pool  a pool; any thread may call it
 * @return a number of blocks, exact if no other thread uses the pool meanwhile
 * @since 0.1
 */
gsize tarn_pool_get_active_blocks (TarnPool *pool);

/**
 * Gets the bytes that a pool has from its upstream allocator. These are the bytes of held blocks
 * and of blocks in use.
 *
 * @param pool  a pool; any thread may call it
 * @return bytes, exact if no other thread uses the pool meanwhile
 * @since 0.1
 */
gsize tarn_pool_get_managed_bytes (TarnPool *pool);

/**
 * Gets the requested bytes of the blocks in use.
 *
 * @param pool  a pool; any thread may call it
 * @return bytes, exact if no other thread uses the pool meanwhile
 * @since 0.1
 */
gsize tarn_pool_get_active_bytes (TarnPool *pool);

/**
 * Stores all counters of a pool as they were at one moment. In a child of fork () they are the
 * values at the fork, except ignored_frees. Counters that another thread was changing at that time
 * may be wrong.
 *
 * @param pool   a pool; any thread may call it
 * @param stats  out: start from TARN_POOL_STATS_INIT, whose struct_size says how much is filled
 * @since 0.1
 */
void tarn_pool_get_stats (TarnPool *pool, TarnPoolStats *stats);

/**
 * Makes a line of a pool's counters for people to read. An example: "101 requests: 98 served
 * without the driver, 3 driver calls; 782 KiB in use, 1172 KiB held". The line also has the number
 * of failed requests if there are any. The held bytes are held_bytes, without the memory that a
 * heap below the pool keeps. The line of TARN_STATS includes that memory. Later versions may change
 * the wording.
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
 * @return (transfer none): valid as long as @p pool; NULL: the pool has no name
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
 * Gets a number that changes when a pool returns memory to the driver. The number is for programs
 * that keep addresses longer than blocks, as a CUDA graph does. A program that makes a graph gets
 * the number before it allocates the graph's memory. As long as the number stays the same, that
 * memory stays mapped at its addresses, even if the blocks were freed. If the number has changed,
 * the pool has returned or moved some memory, and the program makes its graphs again.
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
 * Gets the limit of a pool. This is the limit that tarn_pool_set_limit_bytes(), or else
 * TarnPoolOptions, has set. If TARN_LIMIT sets a lower limit, the result is that lower limit.
 *
 * @param pool  a pool; any thread may call it
 * @return bytes; 0: no limit
 * @since 0.1
 */
gsize tarn_pool_get_limit_bytes (TarnPool *pool);

/**
 * Sets the limit of a pool. If the pool manages more bytes, it returns held blocks to the upstream
 * allocator, the largest first, until it has no more than the limit. Blocks in use stay. Requests
 * that no held block serves fail with TARN_ERROR_LIMIT until there is room for them. Requests that
 * are in a function of the upstream allocator at that time still have the former limit.
 *
 * A heap may follow the limit (TarnHeapOptions.follows_pool_limit). If such a heap has more memory
 * than the limit, the pool returns all held blocks, after a wait for the queues that use them, and
 * the heap returns idle segments.
 *
 * @param pool         a pool; any thread may call it. In a child of fork () it does nothing.
 * @param limit_bytes  bytes; 0: no limit. If TARN_LIMIT sets a lower limit, that one counts.
 * @since 0.1
 */
void tarn_pool_set_limit_bytes (TarnPool *pool, gsize limit_bytes);

/**
 * Stores how much memory a pool can have. TarnBudget describes the numbers. With them, a program
 * can choose the size of its tiles. Other processes may take memory at any time, so a request may
 * still fail (tarn_error_is_no_memory()).
 *
 * For CUDA, device_bytes and free_bytes are those of cuMemGetInfo. For OpenCL, device_bytes is
 * CL_DEVICE_GLOBAL_MEM_SIZE of the device of the allocator's queue. If the allocator has no queue,
 * it is that of the context's device with the least memory. Of the OpenCL drivers, only AMD's tell
 * free_bytes (cl_amd_device_attribute_query).
 *
 * @param pool    a pool; any thread may call it
 * @param budget  out: start from TARN_BUDGET_INIT, whose struct_size says how much is filled.
 *                Written on success only.
 * @param error   return location, or NULL: the backend's, if the driver fails; TARN_ERROR_FORKED in
 *                a child of fork (); TARN_ERROR_INVALID_ARGUMENT if @p budget is not initialized
 * @return TRUE, or FALSE with @p error set. It is no error if the driver does not state a number.
 * @since 0.1
 */
gboolean tarn_pool_get_budget (TarnPool *pool, TarnBudget *budget, GError **error);

/**
 * Charges memory that the program allocates itself to a pool's limit. The pool then has fewer bytes
 * for its blocks. If the limit leaves no room, the pool frees held blocks, the largest first, or
 * calls its reclaim functions, as tarn_pool_allocate() does. After the charge, the caller allocates
 * the memory itself, by clCreateBuffer for example. It calls tarn_pool_uncharge() when it has freed
 * the memory, or could not allocate it. In a pool without a limit, the bytes count as soon as
 * tarn_pool_set_limit_bytes() sets one. Charged bytes are not part of TarnPoolStats:
 * tarn_pool_get_charged_bytes() gets them. They also reduce the limit of a heap that follows the
 * pool's limit (TarnHeapOptions.follows_pool_limit).
 *
 * @param pool   a pool; any thread may call it. The caller keeps a reference until it has
 *               uncharged the bytes.
 * @param bytes  bytes to add to the charge; 0: nothing is done
 * @param error  return location, or NULL: TARN_ERROR_LIMIT if the pool's limit leaves no room, even
 *               after the reclaim functions were called; TARN_ERROR_INVALID_SIZE if the sum of the
 *               pool's bytes would overflow; TARN_ERROR_FORKED in a child of fork ()
 * @return TRUE, or FALSE with @p error set and nothing charged
 * @since 0.1
 */
gboolean tarn_pool_charge (TarnPool *pool, gsize bytes, GError **error);

/**
 * Subtracts bytes from those that tarn_pool_charge() has charged. Requests that wait for room
 * within the limit try again.
 *
 * @param pool   a pool; any thread may call it. In a child of fork () it does nothing.
 * @param bytes  bytes to take off the charge, at most tarn_pool_get_charged_bytes(); more is a
 *               programming error
 * @since 0.1
 */
void tarn_pool_uncharge (TarnPool *pool, gsize bytes);

/**
 * Gets the bytes that are charged to a pool. They count within its limit, in addition to its
 * blocks.
 *
 * @param pool  a pool; any thread may call it
 * @return bytes of tarn_pool_charge(), less those of tarn_pool_uncharge()
 * @since 0.1
 */
gsize tarn_pool_get_charged_bytes (TarnPool *pool);

/**
 * Gets the most bytes that a pool holds. tarn_pool_set_hold_bytes(), or else TarnPoolOptions, has
 * set the number.
 *
 * @param pool  a pool; any thread may call it
 * @return bytes; 0 and G_MAXSIZE mean the same as in TarnPoolOptions.hold_bytes
 * @since 0.1
 */
gsize tarn_pool_get_hold_bytes (TarnPool *pool);

/**
 * Sets the most bytes that a pool holds from now on. This replaces TarnPoolOptions.hold_bytes. If
 * the pool holds more, it frees blocks at once: first blocks that no command uses, the oldest
 * first. If these are not enough, it frees the largest of the others, and waits for their commands
 * as tarn_pool_trim() does. The caches of all threads are emptied. After tarn_pool_stop_holding(),
 * the pool still holds nothing.
 *
 * @param pool        a pool; any thread may call it. In a child of fork () it does nothing.
 * @param hold_bytes  bytes. 0: no bound, except over a heap, where the pool holds little;
 *                    G_MAXSIZE: no bound, even over a heap
 * @since 0.1
 */
void tarn_pool_set_hold_bytes (TarnPool *pool, gsize hold_bytes);

/**
 * A function that may choose another pool for a request. Several threads may call it at once. Tarn
 * holds no lock during the call, so the function may call any function of both pools. But it must
 * not request memory from @p pool for the same queue, because this would call the function again.
 *
 * @param pool       the pool from which the program requests memory
 * @param queue      the queue of the request, alive during the call; never NULL
 * @param user_data  as given to tarn_pool_set_redirect_func()
 * @param error      return location: set it to make the request fail
 * @return (transfer full): the pool that serves the request; or NULL: @p pool serves it, unless
 *         @p error is set
 * @since 0.1
 */
typedef TarnPool *(*TarnPoolRedirectFunc) (TarnPool *pool, gpointer queue, gpointer user_data,
                                           GError **error);

/**
 * Sets the function that may choose another pool for a queue's requests. Backends use this if some
 * commands need separate memory, such as those of a graph. tarn_cuda_pool_begin_graph() sets one,
 * and tarn_cuda_pool_end_graph() removes it.
 *
 * tarn_pool_allocate_ordered() and similar functions call the function before they look for memory.
 * A block from the other pool belongs to that pool: it is counted, recorded and freed there, and
 * tarn_block_get_allocator() returns that pool's direct allocator. tarn_pool_find() of @p pool
 * finds the block if both pools have TARN_POOL_FINDABLE and the other pool serves no third pool. In
 * that case the other pool keeps a reference on @p pool.
 *
 * While a function is set, requests and frees of the pool are slower. Requests that began before
 * this call returned may be served without the function.
 *
 * @param pool       a pool; any thread may call it, but not from within @p func
 * @param func       nullable: NULL removes the function, so that the pool serves all its requests
 *                   again
 * @param user_data  for @p func. If it holds a reference on @p pool, neither is ever released
 *                   unless the function is removed.
 * @param destroy    nullable; called with @p user_data when no call of @p func is running any more,
 *                   after another function was set or the pool's last reference was dropped. In a
 *                   child of fork () nothing is set, and @p destroy is not called.
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
 * Gets the size of the blocks of a bin. This is the largest size that belongs to the bin.
 *
 * @param pool  a pool; any thread may call it
 * @param bin   a bin's number
 * @return bytes; 0 for a number that is no bin's
 * @since 0.1
 */
gsize tarn_pool_alloc_size (TarnPool *pool, guint32 bin);

/**
 * A function that frees memory when a pool has run out of it. It may free blocks of @p pool or of
 * another pool. Tarn holds no lock during the call. Several threads may call it at once. Requests
 * that the function itself makes call no reclaim functions. The function must return: if a thread
 * leaves it by pthread_exit(), longjmp() or cancellation, the request never ends, and other threads
 * may wait for it for ever.
 *
 * @param pool       the pool that ran out
 * @param wanted     bytes that could not be allocated
 * @param user_data  as given to tarn_pool_add_reclaim_func()
 * @return TRUE if it freed something
 * @since 0.1
 */
typedef gboolean (*TarnReclaimFunc) (TarnPool *pool, gsize wanted, gpointer user_data);

/**
 * Adds a function that frees memory when a pool has run out of it. The pool calls its functions, in
 * the order in which they were added, in two cases: if the upstream allocator is out of memory,
 * after that allocator's own reclaim function; and if a request would exceed the pool's limit.
 *
 * @param pool       a pool; any thread may call it
 * @param func       the function; any thread that allocates may call it
 * @param user_data  for @p func. If it holds a reference on @p pool, neither is ever released
 *                   unless the function is removed.
 * @param destroy    nullable; called with @p user_data when no call of @p func is running any more,
 *                   after @p func was removed or the pool's last reference was dropped
 * @return the function's number, which is never 0. In a child of fork () it is 0: nothing is added,
 *         and @p destroy is not called.
 * @since 0.1
 */
guint tarn_pool_add_reclaim_func (TarnPool *pool, TarnReclaimFunc func, gpointer user_data,
                                  GDestroyNotify destroy);

/**
 * Removes a reclaim function from a pool. A call of the function in another thread may still be
 * running afterwards. No new call begins.
 *
 * @param pool  a pool; any thread may call it, also from inside a reclaim function
 * @param id    the number that tarn_pool_add_reclaim_func() returned
 * @return FALSE if the pool does not have this function (any more), and in a child of fork ()
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
 * Makes a group of pools that return held blocks for one another. Put pools of one device into a
 * group, even if they have different allocators: see tarn_pool_set_reclaim_group().
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
 * Puts a pool in a reclaim group, and removes it from its previous one. When a pool has run out of
 * memory and holds no blocks, the other pools of its group return held blocks, until the request
 * succeeds or no pool holds a block. The pool that holds most bytes returns blocks first, the
 * largest ones first. Reclaim functions of other pools are not called. Each pool keeps its own
 * limit.
 *
 * Put pools in one group if each can use the memory that the others return. For example, put pools
 * of OpenCL buffers, shared virtual memory and CUDA's device memory of one GPU in one group. A pool
 * leaves its group when its last reference is dropped.
 *
 * @param pool   a pool; any thread may call it. In a child of fork () it does nothing.
 * @param group  nullable: NULL: no group from now on; the pool keeps a reference
 * @since 0.1
 */
void tarn_pool_set_reclaim_group (TarnPool *pool, TarnReclaimGroup *group);

/**
 * Gets the group of pools that return held blocks for a pool.
 *
 * @param pool  a pool; any thread may call it
 * @return (transfer full): the group, for tarn_reclaim_group_unref(); NULL if the pool is in no
 *         group, and in a child of fork ()
 * @since 0.1
 */
TarnReclaimGroup *tarn_pool_get_reclaim_group (TarnPool *pool) G_GNUC_WARN_UNUSED_RESULT;

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnReclaimGroup, tarn_reclaim_group_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnPool, tarn_pool_unref)

G_END_DECLS

#endif
