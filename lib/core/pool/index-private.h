/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Blocks by their memory, for those who have no block: index.c. */

#ifndef TARN_POOL_INDEX_PRIVATE_H
#define TARN_POOL_INDEX_PRIVATE_H

#include <tarn/block.h>

#include "base/aligned-private.h"
#include "common/lock-private.h"

/* Threads take the lock of a part only, by the memory that they look for. */
#define TARN_INDEX_PARTS 16

typedef struct
{
  TarnMutex lock;
  GHashTable *blocks; /* memory -> GSList of TarnBlock; behind the lock */
} __attribute__ ((aligned (TARN_CACHE_LINES))) TarnIndexPart;

typedef struct
{
  TarnIndexPart parts[TARN_INDEX_PARTS];
} TarnIndex;

void _tarn_index_init (TarnIndex *index);
void _tarn_index_clear (TarnIndex *index);
void _tarn_index_add (TarnIndex *index, TarnBlock *block);
void _tarn_index_remove (TarnIndex *index, TarnBlock *block);

/* Finds a block by its memory; of several that which was added last.  NULL: there is none. */
TarnBlock *_tarn_index_find (TarnIndex *index, TarnMemory memory);

/* Finds one of that size, and takes it out. */
TarnBlock *_tarn_index_steal (TarnIndex *index, TarnMemory memory, gsize size);

#endif
