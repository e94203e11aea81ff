/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The allocator below the heaps that serve captured graphs.  It gets its memory from a pool.
 * Graphs may still use memory that a heap frees.  So the allocator queues that memory, and returns
 * it when no capture is in progress and the host has waited for the device. */

#ifndef TARN_CUDA_GRAPH_PIECES_PRIVATE_H
#define TARN_CUDA_GRAPH_PIECES_PRIVATE_H

#include <tarn/allocator.h>
#include <tarn/pool.h>

/* Makes an allocator to be put below heaps of captured graphs, over a pool of CUDA memory.  Its
 * memory counts towards the pool's limit, and is neither moved nor returned before the caller calls
 * _tarn_cuda_graph_pieces_release (). */
TarnAllocator *_tarn_cuda_graph_pieces_new (TarnPool *pool);

/* Queues an allocator's unused memory to be returned to the pool, and from now on also memory that
 * becomes unused.  Call this when the graphs that use the allocator are gone. */
void _tarn_cuda_graph_pieces_release (TarnAllocator *pieces);

/* Return the queued memory, unless a capture is in progress.  Before that the host waits for the
 * device, which may still run graphs that are gone.  If the host cannot wait, the memory stays
 * queued, and the next call tries again.  Only one thread returns memory at a time: if another
 * thread does so, it also returns what the caller has queued, and _tarn_cuda_graph_pieces_settle ()
 * leaves that to it.  The other function waits until that thread has ended, so that afterwards no
 * thread uses a context whose graphs the program has released. */
void _tarn_cuda_graph_pieces_settle (void);
void _tarn_cuda_graph_pieces_settle_and_wait (void);

/* Returns TRUE if an allocator was made by _tarn_cuda_graph_pieces_new (). */
gboolean _tarn_cuda_is_graph_pieces (TarnAllocator *allocator);

/* Returns the allocator that calls the driver: the one below the pool of an allocator from
 * _tarn_cuda_graph_pieces_new (), or any other allocator itself. */
TarnAllocator *_tarn_cuda_graph_pieces_get_direct (TarnAllocator *allocator);

/* Adds to the number of captures in progress.  @change: may be negative. */
void _tarn_cuda_count_captures (gint change);

/* Returns TRUE if a capture is in progress, so that the host may not wait. */
gboolean _tarn_cuda_is_anything_captured (void);

#endif
