/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Allocates blocks from a heap's arenas if the upstream allocator must make an object for each
 * extent.  An extent is a range of the heap's memory, and its object is called a part: for example,
 * an OpenCL sub-buffer.  A request takes an extent in one read section.  Then it leaves the read
 * section, and asks upstream to make the part.  In a second read section it makes the block.  A
 * free takes the same steps in reverse (order/arena.c).  The block's state is ENDING until upstream
 * has released the part. */

#include "pool/arenas-private.h"

/* Makes a block from an extent (a range of the heap's memory), after upstream has made the extent's
 * part (its object, such as a sub-buffer).  The calling thread is in a read section.  Returns NULL
 * in one of these cases:
 * - The extent's arena belongs to another queue by now.
 * - The heap's read sections are stopped.
 * - The thread has no unused block struct.
 * - The thread may allocate no more bytes without the pool's lock. */
static TarnBlock *
make_block_of_part (TarnPool *pool, TarnCache *cache, const TarnWanted *wanted,
                    const TarnTaken *taken, TarnMemory memory)
{
  const TarnMetQueue *met = _tarn_pool_find_met (pool, wanted->handle);
  TarnBlock *block;

  if (met == NULL || met->ref.number != taken->ref.number || cache->spare == NULL
      || !_tarn_cache_is_granted (pool, cache, wanted->alloc_size)
      || !_tarn_arena_begin_part (&taken->ref, taken->extent, memory))
    return NULL;
  block = _tarn_cache_make_block (pool, cache, wanted, taken->extent, memory);
  cache->latest_own = block;
  return block;
}

/* Asks upstream to make the part (an object, such as a sub-buffer) of the extent that a request has
 * taken.  Makes a block from the extent and the part.  On failure frees the extent and returns
 * NULL.  The caller then has to take the pool's lock.  The calling thread is not in a read
 * section. */
TarnBlock *
_tarn_pool_finish_part (TarnPool *pool, TarnCache *cache, const TarnWanted *wanted,
                        const TarnTaken *taken)
{
  TarnVisits visits = { .pool = pool };
  TarnBlock *block = NULL;
  gboolean is_shut = TRUE;
  TarnMemory memory;

  if (!_tarn_heap_make_part (pool->heap, taken->extent, &memory, NULL))
    {
      _tarn_arena_return (pool->heap, taken->extent);
      return NULL;
    }
  while (block == NULL && is_shut && _tarn_visits_begin (&visits))
    {
      block = make_block_of_part (pool, cache, wanted, taken, memory);
      is_shut = _tarn_heap_refuses_visits (pool->heap);
      _tarn_visits_end (&visits);
    }
  if (block != NULL)
    return block;
  _tarn_heap_release_part (pool->heap, taken->extent, memory);
  _tarn_arena_return (pool->heap, taken->extent);
  return NULL;
}

/* Starts the free of @block in a read section.  Chooses the block that returns to its arena (the
 * heap's memory for the block's queue), stores it in *goes, and sets its state to ENDING.  Usually
 * this block is @block.  But the thread's cache may keep @block for the next request
 * (_tarn_cache_choose_to_go ()).  Then *goes is the block that the cache kept until now, or NULL if
 * the cache kept none.
 *
 * The pool counts *goes as active until it has returned to its arena.  Returns FALSE if the caller
 * has to take the pool's lock. */
static gboolean
begin_to_go (const TarnPool *pool, TarnCache *cache, TarnBlock *block, TarnBlock **goes)
{
  const TarnMetQueue *met = _tarn_cache_find_met_for (pool, cache, block);

  *goes = met != NULL ? _tarn_cache_choose_to_go (cache, block) : NULL;
  if (*goes != NULL && (*goes)->share != block->share)
    *goes = block;
  if (met == NULL || (*goes != NULL && !_tarn_arena_end_part (&met->ref, (*goes)->extent)))
    return FALSE;
  cache->n_own_temporaries = block == cache->latest_own ? cache->n_own_temporaries + 1 : 0;
  if (*goes != block)
    {
      _tarn_block_set_state (block, TARN_BLOCK_HELD);
      __atomic_store_n (_tarn_cache_get_kept_place (cache, block->share), block, __ATOMIC_RELAXED);
      _tarn_cache_count_free (cache, block);
    }
  if (*goes != NULL && *goes != block)
    {
      _tarn_block_set_state (*goes, TARN_BLOCK_ACTIVE);
      __atomic_store_n (&cache->active_bytes, cache->active_bytes + (*goes)->size,
                        __ATOMIC_RELAXED);
    }
  if (*goes != NULL)
    _tarn_block_set_state (*goes, TARN_BLOCK_ENDING);
  return TRUE;
}

/* Starts the free of @block.  Stores in *goes the block whose memory is to return to its arena, and
 * sets the state of *goes to ENDING.  Usually this block is @block.  But the thread's cache may
 * keep @block for the next request.  Then *goes is the block that the cache kept until now, or NULL
 * if the cache kept none (begin_to_go ()).
 *
 * If *goes is not NULL, the caller then asks upstream to release the part of *goes (its object,
 * such as a sub-buffer), and calls _tarn_pool_go_without_part ().
 *
 * Returns FALSE, and frees nothing, if the caller has to take the pool's lock to free @block. */
gboolean
_tarn_pool_begin_to_go (TarnCache *cache, TarnBlock *block, TarnBlock **goes)
{
  return _tarn_cache_free_in_visits (cache, block, begin_to_go, goes);
}

/* Returns a block to its arena, after upstream has released the block's part (its object, such as a
 * sub-buffer).  Returns FALSE if read sections of the pool or the heap stay stopped. */
gboolean
_tarn_pool_go_without_part (TarnPool *pool, TarnCache *cache, TarnBlock *block)
{
  TarnVisits visits = { .pool = pool };
  gboolean is_back = FALSE;

  while (!is_back && _tarn_visits_begin (&visits))
    {
      is_back = _tarn_arena_put_without_part (pool->heap, block->extent);
      if (is_back)
        {
          _tarn_cache_count_free (cache, block);
          _tarn_cache_end_block (cache, block);
        }
      _tarn_visits_end (&visits);
    }
  return is_back;
}
