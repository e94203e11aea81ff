/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Where the heaps of captured graphs have their memory from.  What they give back waits until no
 * capture is under way and the device is idle, as graphs may still use it. */

#ifndef TARN_CUDA_GRAPH_PIECES_PRIVATE_H
#define TARN_CUDA_GRAPH_PIECES_PRIVATE_H

#include <tarn/allocator.h>
#include <tarn/pool.h>

/* Makes an adaptor over a pool of CUDA memory.  What is allocated of it counts for the limit of
 * that pool.  As long as it is not released nothing that a heap has of it moves, or goes back. */
TarnAllocator *_tarn_cuda_graph_pieces_new (TarnPool *pool);

/* Has all of which nothing is in use go back, now and from now on. */
void _tarn_cuda_graph_pieces_release (TarnAllocator *pieces);

/* Gives back what graphs that are gone had, unless somebody captures.  The host waits for the
 * device, which may still run them.  If it cannot, it tries again at the next call. */
void _tarn_cuda_graph_pieces_settle (void);

/* Tells whether an allocator is such an adaptor. */
gboolean _tarn_cuda_is_graph_pieces (TarnAllocator *allocator);

/* Gets the allocator of the pool that such an adaptor is over; another one is that itself. */
TarnAllocator *_tarn_cuda_graph_pieces_get_direct (TarnAllocator *allocator);

/* Counts captures that have begun, or are over (less than 0). */
void _tarn_cuda_count_captures (gint change);

/* Tells whether somebody captures, so that nothing may be waited for. */
gboolean _tarn_cuda_is_anything_captured (void);

#endif
