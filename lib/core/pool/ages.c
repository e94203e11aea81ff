/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Lists of the cached blocks in a pool's bins, ordered by the time at which each block came to its
 * bin.  A pool with a bound on the bytes of its cached blocks returns the oldest of these blocks
 * first to the upstream allocator.
 *
 * The caller of each function here holds the pool's lock. */

#include "pool/pool-private.h"

/* Returns a pointer to the link from @older to the next newer block in a list by age.  If @older is
 * NULL, returns a pointer to the list's field oldest. */
static TarnBlock **
get_link_to_newer (TarnAges *ages, const TarnBlock *older)
{
  return older != NULL ? &_tarn_block_get_age (older)->newer : &ages->oldest;
}

/* Returns a pointer to the link from @newer to the next older block in a list by age.  If @newer is
 * NULL, returns a pointer to the list's field newest. */
static TarnBlock **
get_link_to_older (TarnAges *ages, const TarnBlock *newer)
{
  return newer != NULL ? &_tarn_block_get_age (newer)->older : &ages->newest;
}

/* Inserts a block into a list by age, as the next older neighbour of @newer.  If @newer is NULL,
 * the block becomes the newest. */
static void
add_before (TarnAges *ages, TarnBlock *block, TarnBlock *newer)
{
  TarnAge *age = _tarn_block_get_age (block);
  TarnBlock **link = get_link_to_older (ages, newer);

  age->newer = newer;
  age->older = *link;
  *link = block;
  *get_link_to_newer (ages, age->older) = block;
  ages->bytes += block->alloc_size;
}

/* Adds a chain of blocks, linked by TarnBlock.below, to a list by age.  The blocks have just come
 * to a bin, so their age counts from now.  The first block of the chain becomes the newest of the
 * list. */
void
_tarn_ages_add (TarnAges *ages, TarnBlock *first, const TarnBlock *last)
{
  gint64 now = _tarn_clock_now ();
  TarnBlock *newer = NULL;

  for (TarnBlock *block = first; newer != last; block = block->below)
    {
      _tarn_block_get_age (block)->since = now;
      add_before (ages, block, newer);
      newer = block;
    }
}

/* Adds a block to a list by age, after the block has moved from one bin to another.  The block's
 * age still counts from the time at which it came to its first bin.  So the block need not be the
 * newest of the list. */
void
_tarn_ages_add_back (TarnAges *ages, TarnBlock *block)
{
  gint64 since = _tarn_block_get_age (block)->since;
  TarnBlock *newer = NULL, *older = ages->newest;

  while (older != NULL && _tarn_block_get_age (older)->since > since)
    {
      newer = older;
      older = _tarn_block_get_age (older)->older;
    }
  add_before (ages, block, newer);
}

/* Removes a block from @ages, the list by age in which the block is. */
void
_tarn_ages_remove (TarnAges *ages, TarnBlock *block)
{
  const TarnAge *age = _tarn_block_get_age (block);

  if (ages->asked_next == block)
    ages->asked_next = age->newer;
  if (ages->searched_next == block)
    ages->searched_next = age->newer;
  *get_link_to_newer (ages, age->older) = age->newer;
  *get_link_to_older (ages, age->newer) = age->older;
  g_assert (ages->bytes >= block->alloc_size);
  ages->bytes -= block->alloc_size;
}
