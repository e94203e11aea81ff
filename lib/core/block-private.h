/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#ifndef TARN_BLOCK_PRIVATE_H
#define TARN_BLOCK_PRIVATE_H

#include <tarn/block.h>

/* Numbers that memory does not hold by chance, so that a stray pointer is told from a block. */
typedef enum
{
  TARN_BLOCK_ACTIVE = 0x7461726e, /* in use: it belongs to whoever allocated it */
  TARN_BLOCK_HELD = 0x68656c64,   /* in a bin of its pool */
  TARN_BLOCK_RETIRED = 0x64656164 /* its memory goes back to where it came from */
} TarnBlockState;

/* A block lives as long as its memory: a pool holds the very structs that it handed out, so that
 * a hit allocates nothing.
 *
 * Invariant: size <= alloc_size, but for size 0 in a pool, whose alloc_size is 1.
 *
 * state stands behind the first words, which malloc overwrites when a block is destroyed. */
struct _TarnBlock
{
  TarnMemory memory;
  gsize size;            /* bytes asked for */
  gsize alloc_size;      /* bytes behind it */
  TarnAllocator *source; /* the pool (no reference: its active_blocks keep it alive), or the direct
                            allocator (a reference) */
  gint state;            /* TarnBlockState; a pool's lock guards it, else it is atomic */
  guint32 bin;           /* pools only */
  gboolean exact;        /* pools only: alloc_size is not the bin's; never held */
  TarnBlock *below;      /* pools only: the next one in its bin, or in a list being given back */
  TarnBlock *previous;   /* pools only: all blocks of the pool, held and active */
  TarnBlock *next;
};

TarnBlock *_tarn_block_new (TarnAllocator *source, TarnMemory memory, gsize size, gsize alloc_size);
void _tarn_block_destroy (TarnBlock *block);
gboolean _tarn_block_retire (TarnBlock *block);
void _tarn_block_report_double_free (const TarnBlock *block, gint state);

#endif
