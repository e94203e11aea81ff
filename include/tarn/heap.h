/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Heaps: allocators that split large segments of memory, and merge free neighbours.
 */

#ifndef TARN_HEAP_H
#define TARN_HEAP_H

#include <tarn/allocator.h>

G_BEGIN_DECLS

/**
 * The options of a heap. tarn_heap_allocator_new() copies them.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnHeapOptions), as TARN_HEAP_OPTIONS_INIT sets it */

  /**
   * The heap's name in messages; copied. NULL: it has none, but the heap of tarn_opencl_pool_new()
   * or tarn_cuda_pool_new() has the name of its pool.
   */
  const gchar *name;

  /**
   * The most bytes that the heap has from its upstream allocator at any time; 0, the default: no
   * limit. If a request would exceed the limit, the heap frees idle segments. If this is not
   * enough, the request fails with TARN_ERROR_LIMIT.
   */
  gsize limit_bytes;

  /**
   * TRUE: the limit of a pool over the heap is the heap's limit as well, if it is less than
   * limit_bytes. So the pool's limit bounds the memory that the heap allocates from the device. If
   * several pools are over the heap, only one of their limits counts: that of the pool that was
   * made last, or whose limit was set last. If this pool has no limit, or its last reference is
   * dropped, only limit_bytes counts. The heap rounds the limit up to the granularity of virtual
   * memory. Default: FALSE.
   */
  gboolean follows_pool_limit;

  /**
   * The least size of a new segment in bytes. 0, the default: about as many bytes as the heap
   * already has, within bounds. Then a program that needs little memory takes little, and one that
   * needs much seldom calls the driver. If segments cannot move, a heap with a limit may allocate
   * smaller segments.
   */
  gsize growth_bytes;

  /**
   * The alignment of blocks: bytes, a power of two. The heap rounds sizes of blocks up to a
   * multiple of it. In virtual memory, a block's address is a multiple of it; otherwise, the
   * block's offset in its segment is. 0, the default: 512, or TarnAllocatorOps.part_alignment if
   * that is more.
   */
  gsize alignment;

  /**
   * The number of seconds for which the heap keeps a segment without a block in use. A later
   * request of the heap then frees it. 0, the default: 10; G_MAXSIZE: the heap keeps it until
   * tarn_pool_trim() or a similar function is called, memory runs out, or a limit is reached.
   * tarn_heap_set_idle_seconds() changes it.
   *
   * A CUDA graph uses the addresses of its capture, even after the program has freed the blocks. As
   * long as the blocks are in use, they keep their memory. After they are freed, the heap may unmap
   * the memory when this time is over, and a launch of the graph then faults. With G_MAXSIZE the
   * heap still frees memory for the other reasons, and moves segments: see
   * tarn_pool_get_generation(). Memory of tarn_cuda_pool_begin_graph() stays where it is until the
   * graph is released.
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

  gsize upstream_bytes;      /**< bytes that the heap has from its upstream allocator */
  gsize peak_upstream_bytes; /**< the highest value of upstream_bytes */
  /** bytes in use: the sizes of requests, rounded up to the alignment */
  gsize used_bytes;
  gsize peak_used_bytes;    /**< the highest value of used_bytes */
  gsize free_bytes;         /**< bytes neither in use nor on the way to or from upstream */
  gsize largest_free_bytes; /**< the largest contiguous part of free_bytes */
  gsize pieces;             /**< segments that the heap has from its upstream allocator */
  gsize idle_pieces;        /**< segments without a block in use */

  guint64 driver_calls;   /**< driver calls to allocate segments, also those that failed */
  guint64 upstream_frees; /**< segments that the heap returned to upstream */
  guint64 moves;          /**< idle segments that moved to other addresses, or to another queue */
  guint64 host_waits;     /**< waits of the host for a queue: until the queue had made fresh memory
                               ready, or until no command used idle memory any more */
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
 * Makes a heap over an allocator. The heap allocates large segments from the allocator, splits them
 * into blocks of any size, and merges free neighbours, so that freed memory can serve requests of
 * other sizes. If the allocator has virtual memory (TarnAllocatorOps.virtual_granularity), unused
 * segments move to where memory is needed. Otherwise blocks are parts of segments
 * (TarnAllocatorOps.part_new()).
 *
 * Use a pool over the heap: it is faster for repeated sizes, and orders the use of memory on
 * several queues. Then the heap keeps separate memory for each queue. A queue can reuse its own
 * freed memory at once, in any size. Other queues get this memory when the commands that used it
 * are done. Without a pool, the free of a block makes the host wait for the queues that Tarn knows
 * to use the block (tarn_block_record_use()). The heap assumes that no other command uses freed
 * memory.
 *
 * @param upstream  the allocator of the segments; the heap keeps a reference
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
 * @param stats  out: start from TARN_HEAP_STATS_INIT. Fields that this version of the library does
 *               not know become 0. In a child of fork () largest_free_bytes is 0.
 * @return TRUE; or FALSE, and @p stats is unchanged, if @p heap is no heap
 * @since 0.1
 */
gboolean tarn_heap_get_stats (TarnAllocator *heap, TarnHeapStats *stats);

/**
 * Sets for how many seconds a heap keeps idle segments. This replaces TarnHeapOptions.idle_seconds.
 * The heap at once frees segments that have been idle for longer, unless a queue may still use
 * them.
 *
 *     tarn_heap_set_idle_seconds (tarn_pool_get_upstream (pool), G_MAXSIZE);
 *
 * @param heap          an allocator; any thread may call it. In a child of fork () it does nothing.
 * @param idle_seconds  seconds. 0: 10; G_MAXSIZE: until the heap frees memory for another reason
 * @return TRUE; or FALSE, and nothing was done, if @p heap is no heap, for example the upstream
 *         allocator of a pool without a heap
 * @since 0.1
 */
gboolean tarn_heap_set_idle_seconds (TarnAllocator *heap, gsize idle_seconds);

G_END_DECLS

#endif
