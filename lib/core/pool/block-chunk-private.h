/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Where the structs of a pool's blocks are.  Threads write to theirs all the time, and malloc would
 * put those of two threads into one cache line, or into two that processors fetch together.  So a
 * block has a line of its own, beside others that the same thread was the first to ask for. */

#ifndef TARN_BLOCK_CHUNK_PRIVATE_H
#define TARN_BLOCK_CHUNK_PRIVATE_H

#include "allocator/block-private.h"

/* With the chunk's own line, a page. */
#define TARN_CHUNK_BLOCKS 63

/* The age of a block in the bins of a pool that has a bound on the bytes that it holds: ages.c. */
typedef struct
{
  TarnBlock *older, *newer; /* in the list; NULL: there is none */
  TarnBlock *above;         /* in the bin; NULL: it is the topmost */
  gint64 since;             /* the time at which it came to the bins */
} TarnAge;

/* Invariant: n_used of the blocks are in use or retired; the others make up the list of vacant
 * ones.  Of a pool's chunks that no thread has, at most one has no block that is used. */
typedef struct
{
  GList link; /* among the pool's chunks: what any thread may have comes first */
  guint n_used;
  gboolean is_taken;   /* some thread's */
  TarnBlock *vacant;   /* through TarnBlock.below */
  TarnOrigin *origins; /* atomic: by the numbers of blocks; NULL: none was followed */
  TarnAge *ages;       /* by the numbers of blocks; NULL: nobody has asked for one */
  TarnBlock blocks[TARN_CHUNK_BLOCKS];
} __attribute__ ((aligned (TARN_CACHE_LINES))) TarnBlockChunk;

G_STATIC_ASSERT (sizeof (TarnBlock) == TARN_CACHE_LINE);
G_STATIC_ASSERT (TARN_CHUNK_BLOCKS <= G_MAXUINT16);

/* The pool's lock is held in all of these; @own is the thread's chunk, NULL before its first. */
TarnBlock *_tarn_block_chunks_take (GQueue *chunks, TarnBlockChunk **own);
void _tarn_block_chunks_leave (GQueue *chunks, TarnBlockChunk *own);
void _tarn_block_chunks_put (GQueue *chunks, TarnBlock *block);
TarnBlock *_tarn_block_chunks_next (const GQueue *chunks, const TarnBlock *block);
void _tarn_block_chunks_clear (GQueue *chunks);
TarnAge *_tarn_block_get_age (const TarnBlock *block);

/* Without the lock, by who has the block: before anybody else has it, and before it is freed. */
void _tarn_block_set_origin (TarnBlock *block, guint64 time, guint32 stack);
void _tarn_block_forget_origin (TarnBlock *block);
/* Returns FALSE if nobody knows.  The block is in use, and stays so meanwhile. */
gboolean _tarn_block_get_origin (const TarnBlock *block, TarnOrigin *origin);

/* Each block that is neither vacant nor retired. */
#define TARN_FOR_EACH_BLOCK(block, chunks)                                                         \
  for (TarnBlock *block = _tarn_block_chunks_next (chunks, NULL); block != NULL;                   \
       block = _tarn_block_chunks_next (chunks, block))

#endif
