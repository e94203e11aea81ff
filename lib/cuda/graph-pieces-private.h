/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The memory below the heaps of captured graphs.  When they free it, it waits until no capture is
 * in progress and the device is idle, because graphs may still use it. */

#ifndef TARN_CUDA_GRAPH_PIECES_PRIVATE_H
#define TARN_CUDA_GRAPH_PIECES_PRIVATE_H

#include <tarn/allocator.h>
#include <tarn/pool.h>

/* Makes an adaptor over a pool of CUDA memory.  Its memory counts for the limit of that pool.
 * Until it is released, no memory that a heap has from it is moved or returned. */
TarnAllocator *_tarn_cuda_graph_pieces_new (TarnPool *pool);

/* Releases an adaptor: returns its memory that is not in use, now and from now on. */
void _tarn_cuda_graph_pieces_release (TarnAllocator *pieces);

/* Returns the memory of graphs that are gone, unless a capture is in progress.  The host waits for
 * the device, which may still run them.  If it cannot wait, the next call tries again. */
void _tarn_cuda_graph_pieces_settle (void);

/* Returns TRUE if an allocator is such an adaptor. */
gboolean _tarn_cuda_is_graph_pieces (TarnAllocator *allocator);

/* Returns the allocator of the pool below an adaptor, or any other allocator itself. */
TarnAllocator *_tarn_cuda_graph_pieces_get_direct (TarnAllocator *allocator);

/* Adds to the number of captures in progress.  @change: may be negative. */
void _tarn_cuda_count_captures (gint change);

/* Returns TRUE if a capture is in progress, so that the host may not wait. */
gboolean _tarn_cuda_is_anything_captured (void);

#endif
