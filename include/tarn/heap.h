/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Heaps: allocators that split large pieces of memory, and merge the free parts.
 */

#ifndef TARN_HEAP_H
#define TARN_HEAP_H

#include <tarn/allocator.h>

G_BEGIN_DECLS

/**
 * The options of a heap, for tarn_heap_allocator_new(). It copies them.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnHeapOptions), as TARN_HEAP_OPTIONS_INIT sets it */

  const gchar *name; /**< the heap's name in messages; nullable; copied */

  /**
   * The most bytes that the heap allocates from its upstream allocator at a time; 0, the default:
   * no limit. A request that would exceed it even after the heap has freed its idle pieces fails
   * with TARN_ERROR_LIMIT.
   */
  gsize limit_bytes;

  /**
   * TRUE: the limit of a pool over the heap is the heap's limit as well, if it is less than
   * limit_bytes. So it bounds the memory that the heap allocates from the device. If there are
   * several such pools, the heap uses the limit of the pool that was made, or was given a limit,
   * last. The heap rounds it up to the granularity of virtual memory. Default: FALSE.
   */
  gboolean follows_pool_limit;

  /**
   * The least size of a piece in bytes, for any request; 0, the default: as many as the heap has
   * already, within bounds, so that a program which needs little memory gets little, and one that
   * needs much calls the driver seldom. If pieces cannot move, a heap near its limit allocates
   * smaller ones.
   */
  gsize growth_bytes;

  /**
   * The alignment of blocks: bytes, a power of two. The heap rounds sizes of blocks up to a
   * multiple of it. Addresses of blocks are multiples of it, or else their offsets in the memory
   * that upstream allocated. 0, the default: 512, or more if the backend requires more for parts of
   * memory.
   */
  gsize alignment;

  /**
   * The number of seconds for which the heap keeps a piece without a block in use; the next request
   * of the heap after that frees it. 0, the default: 10; G_MAXSIZE: for ever, or until
   * tarn_pool_trim() or a similar function is called, memory runs out, or a limit is reached.
   * tarn_heap_set_idle_seconds() changes it.
   *
   * A CUDA graph uses the addresses that it was captured with, even after the blocks were freed.
   * Blocks that stay in use as long as the graph keep their memory. If they were freed, the heap
   * may unmap the memory after this time, and a launch of the graph then faults. With G_MAXSIZE the
   * heap still frees memory for the other reasons, and pieces move: tarn_pool_get_generation()
   * tells whether any did. Memory of tarn_cuda_pool_begin_graph() stays where it is until the graph
   * is released.
   */
  gsize idle_seconds;
} TarnHeapOptions;

/**
 * A TarnHeapOptions to start from: every field at its default.
 *
 * @since 0.1
 */
#define TARN_HEAP_OPTIONS_INIT                                                                     \
  {                                                                                                \
    sizeof (TarnHeapOptions), /* struct_size */                                                    \
        NULL,                 /* name */                                                           \
        0,                    /* limit_bytes */                                                    \
        FALSE,                /* follows_pool_limit */                                             \
        0,                    /* growth_bytes */                                                   \
        0,                    /* alignment */                                                      \
        0                     /* idle_seconds */                                                   \
  }

/**
 * The counters of a heap, all at one moment.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnHeapStats), as TARN_HEAP_STATS_INIT sets it */

  gsize upstream_bytes;      /**< allocated from its upstream allocator */
  gsize peak_upstream_bytes; /**< the highest value of upstream_bytes */
  gsize used_bytes;          /**< in use: the sizes of requests, rounded up to the alignment */
  gsize peak_used_bytes;     /**< the highest value of used_bytes */
  gsize free_bytes;          /**< neither in use nor on its way to or from upstream */
  gsize largest_free_bytes;  /**< the largest contiguous part of free_bytes */
  gsize pieces;              /**< allocated from its upstream allocator */
  gsize idle_pieces;         /**< pieces without a block in use, which can be freed */

  guint64 driver_calls;   /**< calls of the driver for pieces, also those that failed */
  guint64 upstream_frees; /**< pieces that were returned to upstream */
  guint64 moves;          /**< idle pieces that moved to other addresses, or to another queue */
  guint64 host_waits;     /**< times that the host waited until a queue was done: for fresh memory
                               that a queue makes ready, or for memory that commands may use */
} TarnHeapStats;

/**
 * A TarnHeapStats to start from: every field at its default.
 *
 * @since 0.1
 */
#define TARN_HEAP_STATS_INIT                                                                       \
  {                                                                                                \
    sizeof (TarnHeapStats), /* struct_size */                                                      \
        0,                  /* upstream_bytes */                                                   \
        0,                  /* peak_upstream_bytes */                                              \
        0,                  /* used_bytes */                                                       \
        0,                  /* peak_used_bytes */                                                  \
        0,                  /* free_bytes */                                                       \
        0,                  /* largest_free_bytes */                                               \
        0,                  /* pieces */                                                           \
        0,                  /* idle_pieces */                                                      \
        0,                  /* driver_calls */                                                     \
        0,                  /* upstream_frees */                                                   \
        0,                  /* moves */                                                            \
        0                   /* host_waits */                                                       \
  }

/**
 * Makes a heap over an allocator. It allocates large pieces from there, splits them into blocks of
 * any size, and merges free neighbours, so that memory which had one size can have another later.
 * If the allocator has virtual memory (TarnAllocatorOps.virtual_granularity), unused pieces move to
 * where memory is needed; if not, blocks are parts of pieces (TarnAllocatorOps.part_new()).
 *
 * A pool over a heap is faster for sizes that come again, and knows about queues. The heap keeps
 * separate memory for each queue, so that a queue can reuse memory that it has freed at once, in
 * any size; other queues get it when the commands that used it are done. A heap without a pool
 * assumes that freed memory is not used any more.
 *
 * @param upstream  the allocator of the pieces; the heap keeps a reference
 * @param options   nullable: the defaults; start from TARN_HEAP_OPTIONS_INIT
 * @param error     return location, or NULL: TARN_ERROR_NOT_SUPPORTED if @p upstream has neither
 *                  parts nor virtual memory; TARN_ERROR_INVALID_ARGUMENT for an option outside its
 *                  range, or one that this version of the library does not have;
 *                  TARN_ERROR_FORKED in a child of fork ()
 * @return (transfer full): the heap, which any thread may use, or NULL with @p error set. Its
 *         memory is returned to @p upstream when its last reference and its last block are gone.
 * @since 0.1
 */
TarnAllocator *tarn_heap_allocator_new (TarnAllocator *upstream, const TarnHeapOptions *options,
                                        GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Gets the counters of a heap, all at one moment.
 *
 * @param heap   an allocator; any thread may call it
 * @param stats  out: start from TARN_HEAP_STATS_INIT; fields that this version of the library does
 *               not know become 0, and in a child of fork () largest_free_bytes does
 * @return TRUE; or FALSE, and @p stats is unchanged, if @p heap is no heap
 * @since 0.1
 */
gboolean tarn_heap_get_stats (TarnAllocator *heap, TarnHeapStats *stats);

/**
 * Sets for how many seconds a heap keeps idle pieces. It changes TarnHeapOptions.idle_seconds. The
 * heap frees pieces that have been idle for longer at once, unless a queue may still use them.
 *
 *     tarn_heap_set_idle_seconds (tarn_pool_get_upstream (pool), G_MAXSIZE);
 *
 * @param heap          an allocator; any thread may call it. In a child of fork () it does nothing.
 * @param idle_seconds  seconds. 0: 10; G_MAXSIZE: for ever, or until the heap frees memory for
 *                      another reason
 * @return TRUE; or FALSE, and nothing was done, if @p heap is no heap, as when a pool has no heap
 *         below it
 * @since 0.1
 */
gboolean tarn_heap_set_idle_seconds (TarnAllocator *heap, gsize idle_seconds);

G_END_DECLS

#endif
