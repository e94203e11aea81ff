/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Lists of the blocks in a pool's bins, ordered by the time at which they came there.  A pool with
 * a bound on the bytes that it holds frees the oldest blocks first.  The lock is held in all
 * functions here. */

#include "pool/pool-private.h"

/* Gets the link that points from the older block (NULL: there is none) to the next newer one. */
static TarnBlock **
get_link_to_newer (TarnAges *ages, const TarnBlock *older)
{
  return older != NULL ? &_tarn_block_get_age (older)->newer : &ages->oldest;
}

/* Gets the link that points from the newer block (NULL: there is none) to the next older one. */
static TarnBlock **
get_link_to_older (TarnAges *ages, const TarnBlock *newer)
{
  return newer != NULL ? &_tarn_block_get_age (newer)->older : &ages->newest;
}

/* Adds a block before a newer one (NULL: adds it as the newest). */
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

/* Adds a chain of blocks that come to a bin now.  Its first block is the newest. */
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

/* Adds a block that has been in a bin before, at its place by age. */
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

/* Removes a block. */
void
_tarn_ages_remove (TarnAges *ages, TarnBlock *block)
{
  const TarnAge *age = _tarn_block_get_age (block);

  if (ages->asked_next == block)
    ages->asked_next = age->newer;
  *get_link_to_newer (ages, age->older) = age->newer;
  *get_link_to_older (ages, age->newer) = age->older;
  g_assert (ages->bytes >= block->alloc_size);
  ages->bytes -= block->alloc_size;
}
