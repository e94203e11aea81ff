/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Chunks: arrays of TarnBlock structs, from which a pool takes the structs of its blocks.  A thread
 * often writes to the structs of its own blocks.  If malloc allocated the structs, structs of two
 * threads could be in one cache line, or in a pair of lines that processors fetch together.  These
 * threads would then slow each other down.  So each struct has a cache line of its own, and no two
 * threads take new structs from the same chunk at the same time. */

#ifndef TARN_BLOCK_CHUNK_PRIVATE_H
#define TARN_BLOCK_CHUNK_PRIVATE_H

#include "allocator/block-private.h"

/* The number of block structs in a chunk.  With cache lines of 64 bytes, these structs and the
 * chunk's other fields, which have a cache line of their own, fill a page of 4 KiB. */
#define TARN_CHUNK_BLOCKS 63

/* The age of a cached block: the time at which the block came to its bin, and its neighbours in the
 * bin and in the list by age.  Only pools with a bound on the bytes of cached blocks need this
 * (ages.c). */
typedef struct
{
  TarnBlock *older, *newer; /* the neighbours in the list by age; NULL: there is none */
  /* the block above this one in its bin, or NULL if this block is the topmost */
  TarnBlock *above;
  /* the time, from _tarn_clock_now (), at which the block came to its bin */
  gint64 since;
} TarnAge;

/* A chunk of block structs.  A struct is vacant if it belongs to no block.
 *
 * Invariants:
 * - n_used is the number of structs that are not vacant.  The vacant ones are in the list vacant.
 * - A pool has at most one chunk whose structs are all vacant and from which no thread takes
 *   structs. */
typedef struct
{
  /* The link of this chunk in the pool's list of chunks.  The list begins with the chunks that any
   * thread may take. */
  GList link;
  guint n_used;
  gboolean is_taken; /* TRUE if a thread takes its structs from this chunk */
  TarnBlock *vacant; /* vacant structs, linked by TarnBlock.below */
  /* Atomic: the origins of the blocks (which request got each), indexed by TarnBlock.number.  NULL
   * if no block of this chunk was traced. */
  TarnOrigin *origins;
  /* The ages of the cached blocks, indexed by TarnBlock.number.  NULL until the pool needs the age
   * of a block of this chunk. */
  TarnAge *ages;
  TarnBlock blocks[TARN_CHUNK_BLOCKS];
} __attribute__ ((aligned (TARN_CACHE_LINES))) TarnBlockChunk;

G_STATIC_ASSERT (sizeof (TarnBlock) == TARN_CACHE_LINE);
G_STATIC_ASSERT (TARN_CHUNK_BLOCKS <= G_MAXUINT16);

/* Functions of block-chunk.c.  The caller holds the pool's lock.  The parameter @own of
 * _tarn_block_chunks_take () is the address of the pointer that the calling thread has to its
 * chunk.  The pointer is NULL until the thread takes its first struct. */
TarnBlock *_tarn_block_chunks_take (GQueue *chunks, TarnBlockChunk **own);
void _tarn_block_chunks_leave (GQueue *chunks, TarnBlockChunk *own);
void _tarn_block_chunks_put (GQueue *chunks, TarnBlock *block);
TarnBlock *_tarn_block_chunks_next (const GQueue *chunks, const TarnBlock *block);
void _tarn_block_chunks_clear (GQueue *chunks);
TarnAge *_tarn_block_get_age (const TarnBlock *block);

/* Functions that set and clear a block's origin: the request that got the block.  The caller is the
 * thread that has the block, and does not hold the pool's lock.  This thread sets the origin before
 * another thread can get the block, and clears the origin before it frees the block. */
void _tarn_block_set_origin (TarnBlock *block, guint64 time, guint32 stack);
void _tarn_block_forget_origin (TarnBlock *block);
/* Gets a block's origin: the time, thread, call stack and tag of the request that got the block.
 * Returns FALSE if they are unknown.  The caller makes sure that the block is in use, and stays in
 * use until this function returns. */
gboolean _tarn_block_get_origin (const TarnBlock *block, TarnOrigin *origin);

/* Iterates over the blocks of a list of chunks, except structs that no block uses (vacant) and
 * blocks that the pool is returning to upstream (retired).  The caller holds the pool's lock. */
#define TARN_FOR_EACH_BLOCK(block, chunks)                                                         \
  for (TarnBlock *block = _tarn_block_chunks_next (chunks, NULL); block != NULL;                   \
       block = _tarn_block_chunks_next (chunks, block))

#endif
