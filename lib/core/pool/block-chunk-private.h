/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Chunks of memory for the structs of a pool's blocks.  Threads often write to the structs of their
 * own blocks.  If malloc allocated the structs, those of two threads would share a cache line, or a
 * pair of lines that processors fetch together.  So each struct has a cache line of its own, and
 * its neighbours in the chunk are structs that the same thread was the first to use. */

#ifndef TARN_BLOCK_CHUNK_PRIVATE_H
#define TARN_BLOCK_CHUNK_PRIVATE_H

#include "allocator/block-private.h"

/* The number of block structs in a chunk.  With the cache line of the chunk's own fields they fill
 * a page. */
#define TARN_CHUNK_BLOCKS 63

/* The time at which a block came to a bin, and its neighbours there.  Only blocks of a pool with a
 * bound on the bytes of its held blocks need this: ages.c. */
typedef struct
{
  TarnBlock *older, *newer; /* the neighbours in the list by age; NULL: there is none */
  TarnBlock *above;         /* the block above it in its bin; NULL: the block is the topmost */
  gint64 since;             /* the time at which the block came to the bin, as _tarn_clock_now () */
} TarnAge;

/* A chunk of block structs.
 *
 * Invariants: n_used of the structs are taken; the others are in the list of vacant structs.  Of a
 * pool's chunks that are not taken by a thread, at most one has an n_used of 0. */
typedef struct
{
  GList link; /* in the pool's list of chunks: chunks that any thread may take come first */
  guint n_used;
  gboolean is_taken;   /* a thread takes its structs from this chunk */
  TarnBlock *vacant;   /* vacant structs, linked by TarnBlock.below */
  TarnOrigin *origins; /* atomic: an array indexed by TarnBlock.number; NULL: no block was traced */
  TarnAge *ages;       /* an array indexed by TarnBlock.number; NULL: not needed yet */
  TarnBlock blocks[TARN_CHUNK_BLOCKS];
} __attribute__ ((aligned (TARN_CACHE_LINES))) TarnBlockChunk;

G_STATIC_ASSERT (sizeof (TarnBlock) == TARN_CACHE_LINE);
G_STATIC_ASSERT (TARN_CHUNK_BLOCKS <= G_MAXUINT16);

/* The caller holds the pool's lock.  @own points to the calling thread's chunk, which is NULL until
 * the thread takes its first struct. */
TarnBlock *_tarn_block_chunks_take (GQueue *chunks, TarnBlockChunk **own);
void _tarn_block_chunks_leave (GQueue *chunks, TarnBlockChunk *own);
void _tarn_block_chunks_put (GQueue *chunks, TarnBlock *block);
TarnBlock *_tarn_block_chunks_next (const GQueue *chunks, const TarnBlock *block);
void _tarn_block_chunks_clear (GQueue *chunks);
TarnAge *_tarn_block_get_age (const TarnBlock *block);

/* The caller does not hold the pool's lock.  It is the thread that has the block: it sets the
 * origin before another thread can get the block, and forgets the origin before it frees the
 * block. */
void _tarn_block_set_origin (TarnBlock *block, guint64 time, guint32 stack);
void _tarn_block_forget_origin (TarnBlock *block);
/* Gets the origin of a block.  Returns FALSE if the origin is unknown.  The caller makes sure that
 * the block is in use, and stays in use until this returns. */
gboolean _tarn_block_get_origin (const TarnBlock *block, TarnOrigin *origin);

/* Iterates over the blocks that are neither vacant nor retired.  The caller holds the pool's
 * lock. */
#define TARN_FOR_EACH_BLOCK(block, chunks)                                                         \
  for (TarnBlock *block = _tarn_block_chunks_next (chunks, NULL); block != NULL;                   \
       block = _tarn_block_chunks_next (chunks, block))

#endif
