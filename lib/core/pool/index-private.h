/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * An index that finds a block in use by the address of its memory, for callers that have only the
 * memory and no pointer to the block (index.c). */

#ifndef TARN_POOL_INDEX_PRIVATE_H
#define TARN_POOL_INDEX_PRIVATE_H

#include <tarn/block.h>

#include "base/aligned-private.h"
#include "common/lock-private.h"

/* A part of the index of blocks: a hash table with its own lock.  The address of a block's memory
 * decides which part contains the block.  Threads that look up different blocks usually lock
 * different parts, so they seldom wait for each other. */
typedef struct
{
  TarnMutex lock;
  GHashTable *blocks; /* a set of this part's blocks; lock guards it; NULL before the first use */
} __attribute__ ((aligned (TARN_CACHE_LINES))) TarnIndexPart;

typedef struct
{
  TarnIndexPart *parts;
  guint n_parts; /* the number of elements of the array parts, a power of two */
} TarnIndex;

void _tarn_index_init (TarnIndex *index, guint n_parts);
void _tarn_index_clear (TarnIndex *index);
void _tarn_index_add (TarnIndex *index, TarnBlock *block);
void _tarn_index_remove (TarnIndex *index, TarnBlock *block);

/* Finds a block by its memory.  Returns NULL if the index has no such block. */
TarnBlock *_tarn_index_find (TarnIndex *index, TarnMemory memory);

/* Finds a block by its memory and size, and removes it from the index.  Returns NULL if the index
 * has no such block. */
TarnBlock *_tarn_index_steal (TarnIndex *index, TarnMemory memory, gsize size);

#endif
