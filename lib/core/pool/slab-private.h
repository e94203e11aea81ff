/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Where the structs of a pool's blocks are.  Threads write to theirs all the time, and malloc would
 * put those of two threads into one cache line, or into two that processors fetch together.  So a
 * block has a line of its own, beside others that the same thread was the first to ask for. */

#ifndef TARN_SLAB_PRIVATE_H
#define TARN_SLAB_PRIVATE_H

#include "allocator/block-private.h"

/* With the slab's own line, a page. */
#define TARN_SLAB_BLOCKS 63

/* Invariant: n_used of the blocks are in use or retired; the others make up the list of vacant
 * ones.  Of a pool's slabs that no thread has, at most one has no block that is used. */
typedef struct
{
  GList link; /* among the pool's slabs: what any thread may have comes first */
  guint n_used;
  gboolean is_taken; /* some thread's */
  TarnBlock *vacant; /* through TarnBlock.below */
  TarnBlock blocks[TARN_SLAB_BLOCKS];
} __attribute__ ((aligned (TARN_CACHE_LINES))) TarnSlab;

/* The pool's lock is held in all of these; @own is the thread's slab, NULL before its first. */
TarnBlock *_tarn_slabs_take (GQueue *slabs, TarnSlab **own);
void _tarn_slabs_put (GQueue *slabs, TarnBlock *block);
TarnBlock *_tarn_slabs_next (const GQueue *slabs, const TarnBlock *block);
void _tarn_slabs_clear (GQueue *slabs);

/* Each block that is neither vacant nor retired. */
#define TARN_FOR_EACH_BLOCK(block, slabs)                                                          \
  for (TarnBlock *block = _tarn_slabs_next (slabs, NULL); block != NULL;                           \
       block = _tarn_slabs_next (slabs, block))

#endif
