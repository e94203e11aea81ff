/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The allocator below the heaps that serve captured CUDA graphs.  (A heap splits large segments of
 * memory into blocks.)  The allocator gets its memory from a pool.  When a heap frees memory, its
 * graph may still use the memory.  So the allocator queues freed memory, and returns it to the pool
 * when no capture is in progress and the host has waited for the device. */

#ifndef TARN_CUDA_GRAPH_PIECES_PRIVATE_H
#define TARN_CUDA_GRAPH_PIECES_PRIVATE_H

#include <tarn/allocator.h>
#include <tarn/pool.h>

/* Makes an allocator over a pool of CUDA memory, for heaps that serve captured CUDA graphs.  The
 * allocator's memory counts towards the pool's limit.  Until the caller calls
 * _tarn_cuda_graph_pieces_release (), the memory stays at its address, and the allocator does not
 * return it to the pool. */
TarnAllocator *_tarn_cuda_graph_pieces_new (TarnPool *pool);

/* Tells an allocator that its graphs are gone.  Queues the allocator's unused memory, so that Tarn
 * returns it to the pool.  When a heap frees more of the memory later, the allocator queues that
 * memory, too. */
void _tarn_cuda_graph_pieces_release (TarnAllocator *pieces);

/* Two functions that return queued memory (freed memory of captured CUDA graphs) to the pools.
 * First they make the host wait for the device, because the device may still run graphs that the
 * program has released.
 *     - While a capture is in progress, they return nothing.
 *     - If the host cannot wait, the memory stays queued, and the next call tries again.
 *     - Only one thread at a time returns memory, including the memory that other threads have
 *       queued.  If another thread is returning memory, _tarn_cuda_graph_pieces_settle () does
 *       nothing, and _tarn_cuda_graph_pieces_settle_and_wait () waits until that thread has
 *       finished.  After this wait, the other thread no longer uses the context of a released
 *       graph, so the program may destroy the context. */
void _tarn_cuda_graph_pieces_settle (void);
void _tarn_cuda_graph_pieces_settle_and_wait (void);

/* Returns TRUE if an allocator was made by _tarn_cuda_graph_pieces_new (). */
gboolean _tarn_cuda_is_graph_pieces (TarnAllocator *allocator);

/* Returns the allocator that calls the driver.  If @allocator is from
 * _tarn_cuda_graph_pieces_new (), returns the allocator at the bottom of the pool from which
 * @allocator gets its memory.  If not, returns @allocator itself. */
TarnAllocator *_tarn_cuda_graph_pieces_get_direct (TarnAllocator *allocator);

/* Adds @change, which may be negative, to the number of captures in progress. */
void _tarn_cuda_count_captures (gint change);

/* Returns TRUE if a capture is in progress.  Then the host must not wait for the device. */
gboolean _tarn_cuda_is_anything_captured (void);

#endif
