/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Where the heaps of captured graphs have their memory from.  What they give back waits until no
 * capture is under way and the device is idle, as graphs may still use it. */

#ifndef TARN_CUDA_GRAPH_PIECES_PRIVATE_H
#define TARN_CUDA_GRAPH_PIECES_PRIVATE_H

#include <tarn/allocator.h>
#include <tarn/pool.h>

/* Makes an adaptor over a shared pool.  What is allocated of it counts for the limit of that pool.
 * As long as it is not released nothing that a heap has of it moves, or goes back. */
TarnAllocator *_tarn_cuda_graph_pieces_new (TarnPool *shared);

/* Has all of which nothing is in use go back, now and from now on. */
void _tarn_cuda_graph_pieces_release (TarnAllocator *pieces);

/* Tells whether an allocator is such an adaptor. */
gboolean _tarn_cuda_is_graph_pieces (TarnAllocator *allocator);

#endif
