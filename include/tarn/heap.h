/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Heaps: allocators that split large pieces of memory, and join what is freed.
 */

#ifndef TARN_HEAP_H
#define TARN_HEAP_H

#include <tarn/allocator.h>

G_BEGIN_DECLS

/**
 * The options of a heap, for tarn_heap_allocator_new(). They are copied.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnHeapOptions), as TARN_HEAP_OPTIONS_INIT sets it */

  const gchar *name; /**< how messages call the heap; nullable; copied */

  /**
   * The most bytes that the heap has of its upstream allocator at a time; 0, the default: no limit.
   * A request that would exceed it, whatever is idle, is TARN_ERROR_LIMIT.
   */
  gsize limit_bytes;

  /**
   * TRUE: the limit of a pool over the heap is the heap's limit as well, if that is less than
   * limit_bytes. So it bounds the memory that the heap allocates from the device. Where there are
   * several such pools, the limit of the one counts that was made, or was given a limit, last. The
   * heap rounds it up to the granularity of virtual memory. Default: FALSE.
   */
  gboolean follows_pool_limit;

  /**
   * The least bytes of a piece, whatever the request; 0, the default: as many as the heap has
   * already, within bounds, so that a program which needs little has little, and one that needs
   * much calls the driver seldom. Where pieces cannot move, a heap near its limit takes smaller
   * ones.
   */
  gsize growth_bytes;

  /**
   * The alignment of blocks: bytes, a power of two. Sizes of blocks are rounded up to a multiple of
   * it. Addresses of blocks are multiples of it, or else their offsets in the memory that upstream
   * allocated. 0, the default: 512, or more where the backend's parts need that.
   */
  gsize alignment;

  /**
   * For how many seconds a piece is kept that nothing is in use of; the next request of the heap
   * after that gives it back. 0, the default: 10; G_MAXSIZE: for ever, or until tarn_pool_trim() or
   * its like is called, memory runs out, or a limit is reached. tarn_heap_set_idle_seconds()
   * changes it.
   *
   * A CUDA graph uses the addresses that it was captured with, also after the blocks were freed.
   * Blocks that are kept in use as long as the graph keep their memory. If they were freed, the
   * heap may unmap the memory after so many seconds, and a launch of the graph then faults. With
   * G_MAXSIZE memory still goes for the other reasons, and pieces move: tarn_pool_get_generation()
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
  gsize peak_upstream_bytes; /**< the most that upstream_bytes was */
  gsize used_bytes;          /**< in use: what was asked for, rounded up to the alignment */
  gsize peak_used_bytes;     /**< the most that used_bytes was */
  gsize free_bytes;          /**< neither in use nor on its way to or from upstream */
  gsize largest_free_bytes;  /**< the most of these that lie side by side */
  gsize pieces;              /**< allocated from its upstream allocator */
  gsize idle_pieces;         /**< pieces without a block in use, which can be freed */

  guint64 driver_calls;   /**< calls of the driver for pieces, also those that failed */
  guint64 upstream_frees; /**< pieces that went back */
  guint64 moves;          /**< idle pieces that went to other addresses, or to another queue */
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
        0                   /* moves */                                                            \
  }

/**
 * Makes a heap over an allocator. It takes large pieces from there, makes blocks of any sizes of
 * them, and joins what is freed, so that memory which had one size can have another later. Where
 * the allocator has virtual memory (TarnAllocatorOps.virtual_granularity), pieces that are not used
 * move to where memory is needed; else blocks are parts of pieces (TarnAllocatorOps.part_new()).
 *
 * A pool over a heap is quicker for sizes that come again, and knows about queues. The heap has
 * memory for each of them apart, so that what one queue has freed it can have again at once, in any
 * size; others have it when the commands that used it are done. A heap by itself takes memory that
 * is freed for unused.
 *
 * @param upstream  where pieces come from; the heap keeps a reference
 * @param options   nullable: the defaults; start from TARN_HEAP_OPTIONS_INIT
 * @param error     return location, or NULL: TARN_ERROR_NOT_SUPPORTED if @p upstream has neither
 *                  parts nor virtual memory; TARN_ERROR_INVALID_ARGUMENT for an option outside its
 *                  range, or one that this version of the library does not have;
 *                  TARN_ERROR_FORKED in a child of fork ()
 * @return (transfer full): the heap, which any thread may use, or NULL with @p error set. Its
 *         memory goes back to @p upstream with its last reference, and its last block.
 * @since 0.1
 */
TarnAllocator *tarn_heap_allocator_new (TarnAllocator *upstream, const TarnHeapOptions *options,
                                        GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Gets what a heap has, all at one moment.
 *
 * @param heap   an allocator; any thread may call it
 * @param stats  out: start from TARN_HEAP_STATS_INIT; what this version of the library does not
 *               know becomes 0, and in a child of fork () largest_free_bytes does
 * @return FALSE, with @p stats as it was: @p heap is no heap
 * @since 0.1
 */
gboolean tarn_heap_get_stats (TarnAllocator *heap, TarnHeapStats *stats);

/**
 * Sets for how many seconds a heap keeps idle memory from now on. It changes
 * TarnHeapOptions.idle_seconds. What has been idle for longer goes back at once, unless a queue may
 * still use it.
 *
 *     tarn_heap_set_idle_seconds (tarn_pool_get_upstream (pool), G_MAXSIZE);
 *
 * @param heap          an allocator; any thread may call it. In a child of fork () it does nothing.
 * @param idle_seconds  seconds. 0: 10; G_MAXSIZE: for ever, or until memory is asked to go back
 * @return FALSE, and nothing was done: @p heap is no heap, as where a pool stands straight on the
 *         driver
 * @since 0.1
 */
gboolean tarn_heap_set_idle_seconds (TarnAllocator *heap, gsize idle_seconds);

G_END_DECLS

#endif
