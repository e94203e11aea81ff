/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Keeps blocks that the program has freed while it still has references to their memory.  This is
 * possible if a block's memory is a handle with a reference count, such as a cl_mem.  The pool sets
 * such a block aside: the block has the state "ending", and counts as active, until the program has
 * dropped its references to the handle.
 *
 * A pool checks a few of these blocks in each free, and in each request that no fast path serves.
 * It checks all of them when it has run out of memory, and when it trims, that is, returns its
 * cached blocks to upstream. */

#include "pool/cache-private.h"
#include "upstream/upstream-private.h"

/* The number of set-aside blocks that one free or one request checks.  The pool sets a block aside
 * if the program freed the block, but still had references to the block's memory. */
#define ASKED_AT_A_TIME 2

gboolean
_tarn_pool_is_retained (const TarnPool *pool, const TarnBlock *block)
{
  const TarnAllocator *backend = _tarn_allocator_get_backend (pool->upstream);

  return block->memory.address != 0 && _tarn_call (backend, is_retained, block->memory);
}

static void
add (TarnPool *pool, TarnBlock *block)
{
  TarnBlocks *blocks = &pool->blocks;

  _tarn_assert_locked (&pool->lock);
  if (blocks->aside == NULL)
    blocks->aside = g_ptr_array_new ();
  g_ptr_array_add (blocks->aside, block);
  __atomic_store_n (&blocks->n_aside, blocks->aside->len, __ATOMIC_RELAXED);
}

/* Sets aside a block that is being freed, because the program still has references to its memory.
 * Returns FALSE if the block is not active, or if the pool's last reference was dropped; the
 * caller then frees the block. */
gboolean
_tarn_pool_set_aside (TarnPool *pool, TarnBlock *block)
{
  gboolean is_aside;
  TARN_LOCKED (&pool->lock);

  is_aside = block->state == TARN_BLOCK_ACTIVE && !pool->orphaned;
  if (is_aside)
    {
      _tarn_pool_settle (pool, block);
      _tarn_block_set_state (block, TARN_BLOCK_ENDING);
      add (pool, block);
      /* Wake the requests that wait for memory: from now on they have to check whether the program
       * still has references to this block's memory. */
      _tarn_pool_note_room (pool);
    }
  _tarn_pool_check_if_full_debug (pool);
  return is_aside;
}

/* Removes a block from the array of blocks that are set aside (freed while the program still had
 * references to their memory).  Returns the block, for the caller to check.  Returns NULL if no
 * block is set aside. */
static TarnBlock *
take (TarnPool *pool)
{
  TarnBlocks *blocks = &pool->blocks;
  TarnBlock *block = NULL;
  TARN_LOCKED (&pool->lock);

  if (blocks->aside != NULL && blocks->aside->len > 0)
    {
      block = g_ptr_array_remove_index_fast (blocks->aside,
                                             blocks->next_aside++ % blocks->aside->len);
      __atomic_store_n (&blocks->n_aside, blocks->aside->len, __ATOMIC_RELAXED);
    }
  return block;
}

/* Sets a block aside again if the program still has references to its memory (@is_retained).
 * Otherwise, or if the pool's last reference was dropped, changes the block's state from "ending"
 * to "active" and returns FALSE; the caller then frees the block. */
static gboolean
put_back (TarnPool *pool, TarnBlock *block, gboolean is_retained)
{
  gboolean is_aside;
  TARN_LOCKED (&pool->lock);

  is_aside = is_retained && !pool->orphaned;
  if (is_aside)
    add (pool, block);
  else
    _tarn_block_set_state (block, TARN_BLOCK_ACTIVE);
  return is_aside;
}

/* Checks @n blocks that are set aside (freed while the program still had references to their
 * memory).  Frees each block whose memory the program does not refer to any more.  Returns TRUE if
 * it has freed a block. */
static gboolean
free_some (TarnPool *pool, guint n, TarnFreeBlock free_block)
{
  gboolean is_freed = FALSE;
  TarnBlock *block;

  for (; n > 0 && (block = take (pool)) != NULL; n--)
    if (!put_back (pool, block, _tarn_pool_is_retained (pool, block)))
      {
        free_block (block);
        is_freed = TRUE;
      }
  return is_freed;
}

gboolean
_tarn_pool_free_aside (TarnPool *pool)
{
  guint n = __atomic_load_n (&pool->blocks.n_aside, __ATOMIC_RELAXED);

  return n > 0 && free_some (pool, n, tarn_block_free);
}

void
_tarn_pool_look_aside (TarnPool *pool, TarnFreeBlock free_block)
{
  if (TARN_UNLIKELY (__atomic_load_n (&pool->blocks.n_aside, __ATOMIC_RELAXED) > 0))
    free_some (pool, ASKED_AT_A_TIME, free_block);
}

/* Removes a block from the array of blocks that are set aside (freed while the program still had
 * references to their memory), and returns the block.  Returns NULL if no block is set aside.  Even
 * if the program still has these references, the caller frees the block, because the pool ends: the
 * driver keeps the memory for these references. */
TarnBlock *
_tarn_pool_end_aside (TarnPool *pool)
{
  TarnBlock *block = take (pool);

  if (block != NULL)
    put_back (pool, block, FALSE);
  return block;
}
