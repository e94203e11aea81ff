/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Chunks of memory for the structs of a pool's blocks.  Threads often write to the structs of their
 * own blocks, and malloc would put those of two threads into one cache line, or into two that
 * processors fetch together.  So each struct has a cache line of its own, next to structs that the
 * same thread was the first to use. */

#ifndef TARN_BLOCK_CHUNK_PRIVATE_H
#define TARN_BLOCK_CHUNK_PRIVATE_H

#include "allocator/block-private.h"

/* Together with the chunk's own cache line, this is a page. */
#define TARN_CHUNK_BLOCKS 63

/* The age of a block in the bins of a pool that has a bound on the bytes that it holds: ages.c. */
typedef struct
{
  TarnBlock *older, *newer; /* in the list by age; NULL: none */
  TarnBlock *above;         /* in the bin; NULL: the block is the topmost */
  gint64 since;             /* the time at which it came to the bin */
} TarnAge;

/* A chunk of block structs.
 *
 * Invariant: n_used of the blocks are in use or retired; the others are in the list of vacant
 * ones.  Of a pool's chunks that no thread has, at most one has no block in use. */
typedef struct
{
  GList link; /* among the pool's chunks: those that any thread may take come first */
  guint n_used;
  gboolean is_taken;   /* a thread has it */
  TarnBlock *vacant;   /* through TarnBlock.below */
  TarnOrigin *origins; /* atomic: indexed by TarnBlock.number; NULL: none was traced */
  TarnAge *ages;       /* indexed by TarnBlock.number; NULL: not needed yet */
  TarnBlock blocks[TARN_CHUNK_BLOCKS];
} __attribute__ ((aligned (TARN_CACHE_LINES))) TarnBlockChunk;

G_STATIC_ASSERT (sizeof (TarnBlock) == TARN_CACHE_LINE);
G_STATIC_ASSERT (TARN_CHUNK_BLOCKS <= G_MAXUINT16);

/* The pool's lock is held in all of these.  @own is the thread's chunk; NULL before its first. */
TarnBlock *_tarn_block_chunks_take (GQueue *chunks, TarnBlockChunk **own);
void _tarn_block_chunks_leave (GQueue *chunks, TarnBlockChunk *own);
void _tarn_block_chunks_put (GQueue *chunks, TarnBlock *block);
TarnBlock *_tarn_block_chunks_next (const GQueue *chunks, const TarnBlock *block);
void _tarn_block_chunks_clear (GQueue *chunks);
TarnAge *_tarn_block_get_age (const TarnBlock *block);

/* Called without the lock, by the thread that has the block: before another thread can get it, and
 * before it is freed. */
void _tarn_block_set_origin (TarnBlock *block, guint64 time, guint32 stack);
void _tarn_block_forget_origin (TarnBlock *block);
/* Returns FALSE if the origin is unknown.  The block is in use, and stays in use meanwhile. */
gboolean _tarn_block_get_origin (const TarnBlock *block, TarnOrigin *origin);

/* Iterates over the blocks that are neither vacant nor retired. */
#define TARN_FOR_EACH_BLOCK(block, chunks)                                                         \
  for (TarnBlock *block = _tarn_block_chunks_next (chunks, NULL); block != NULL;                   \
       block = _tarn_block_chunks_next (chunks, block))

#endif
