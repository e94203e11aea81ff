/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reserves memory for later requests: allocates blocks and frees them at once, so that the pool, or
 * the heap below it, caches the memory. */

#include "common/argument-private.h"
#include "order/order-private.h"
#include "pool/cache-private.h"

/* If a reservation in a pool over a heap cannot allocate a block, it halves the size until a block
 * can be allocated.  This is the smallest size in bytes that it tries. */
#define MIN_PART ((gsize) 2 << 20)

/* Returns TRUE if an allocation that failed with @error may succeed with a smaller size: if memory
 * is short, or if the driver refused the request. */
static gboolean
may_be_smaller (const GError *error)
{
  return error->domain != TARN_ERROR || tarn_error_is_no_memory (error);
}

/* Allocates blocks of @bytes bytes in total, as few blocks as possible, and adds them to @blocks.
 * Returns FALSE with an error if there is too little memory. */
static gboolean
take (TarnPool *pool, gsize bytes, gpointer queue, GPtrArray *blocks, GError **error)
{
  TarnHeap *heap = _tarn_pool_get_given_heap (pool);
  gsize part = heap != NULL ? _tarn_heap_get_max_shared (heap) : G_MAXSIZE;

  while (bytes > 0)
    {
      g_autoptr (GError) local = NULL;
      TarnBlock *block;

      part = MIN (part, bytes);
      block = tarn_pool_allocate_ordered (pool, part, queue, &local);
      if (block != NULL)
        {
          g_ptr_array_add (blocks, block);
          bytes -= part;
          continue;
        }
      if (heap == NULL || part <= MIN_PART || !may_be_smaller (local))
        {
          g_propagate_error (error, g_steal_pointer (&local));
          return FALSE;
        }
      part = MAX (MIN_PART, _tarn_round_up (part / 2, MIN_PART));
    }
  return TRUE;
}

/* Makes the next free of a block return the block's memory to the heap, where it can serve requests
 * of any size.  In a bin of the pool, the block would serve only requests of its own size. */
static void
set_exact (TarnBlock *block)
{
  TarnPool *pool = _tarn_pool_of (block->source);
  TARN_LOCKED (&pool->lock);

  _tarn_pool_settle (pool, block);
  block->exact = pool->heap != NULL || block->exact;
  _tarn_block_update_share (block);
  _tarn_pool_check_if_full_debug (pool);
}

/* Returns TRUE if a pool that is not over a heap will cache a block when the block is freed.
 * Otherwise returns FALSE with an error.  A debugged pool (TARN_DEBUG) never caches blocks.  For
 * such a pool, returns TRUE nevertheless, because a reservation then only checks that there is
 * enough memory. */
static gboolean
is_to_be_held (TarnPool *pool, const TarnBlock *block, GError **error)
{
  gboolean has_limit;
  gsize room;

  if (pool->policy.is_debugged)
    return TRUE;
  _tarn_mutex_lock (&pool->lock);
  has_limit = pool->limit.bytes != 0;
  room = pool->store.has_ended ? 0 : _tarn_pool_get_room (pool);
  _tarn_mutex_unlock (&pool->lock);
  if (block->alloc_size <= room && !block->exact)
    return TRUE;
  if (room == 0 || block->alloc_size > room)
    g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                 "%s holds " TARN_BYTES_FORMAT " at most, and %" G_GSIZE_FORMAT
                 " %s to be reserved",
                 pool->base.label, TARN_BYTES (room), block->alloc_size,
                 block->alloc_size == 1 ? "is" : "are");
  else
    g_set_error (error, TARN_ERROR, has_limit ? TARN_ERROR_LIMIT : TARN_ERROR_OUT_OF_MEMORY,
                 "%s: there %s " TARN_BYTES_FORMAT ", but not the %" G_GSIZE_FORMAT
                 " of a block that can be held",
                 pool->base.label, block->alloc_size == 1 ? "is" : "are",
                 TARN_BYTES (block->alloc_size),
                 _tarn_bin_alloc_size (block->bin, _tarn_pool_get_leading_bits (pool)));
  return FALSE;
}

/* Moves the blocks of a queue from the caches of all threads to the pool's bins, so that any thread
 * can take them. */
static void
flush (TarnPool *pool, gpointer queue)
{
  TARN_LOCKED (&pool->lock);

  _tarn_pool_flush_queue (pool, queue);
  _tarn_pool_check_if_full_debug (pool);
}

/* Frees the blocks of a reservation, so that the pool, or the heap below it, caches their
 * memory. */
static void
free_all (TarnPool *pool, GPtrArray *blocks, gpointer queue)
{
  for (guint i = 0; i < blocks->len; i++)
    {
      if (pool->heap != NULL)
        set_exact (g_ptr_array_index (blocks, i));
      tarn_block_free (g_ptr_array_index (blocks, i));
    }
  if (pool->heap == NULL && blocks->len > 0)
    flush (pool, queue != NULL ? queue : pool->default_queue);
}

gboolean
tarn_pool_reserve (TarnPool *pool, gsize bytes, gpointer queue, GError **error)
{
  g_autoptr (GPtrArray) blocks = NULL;
  TarnHeap *heap;
  gboolean is_there;
  guint64 n_made;

  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (pool, FALSE);

  if (!tarn_check_fork (error))
    return FALSE;
  if (!_tarn_size_is_valid (bytes))
    {
      _tarn_allocator_refuse_size (&pool->base, bytes, error);
      return FALSE;
    }
  blocks = g_ptr_array_new ();
  heap = _tarn_pool_get_given_heap (pool);
  n_made = heap != NULL ? _tarn_heap_begin_reservation (heap) : 0;
  is_there = take (pool, bytes, queue, blocks, error);
  if (is_there && pool->heap == NULL && blocks->len > 0)
    is_there = is_to_be_held (pool, g_ptr_array_index (blocks, 0), error);
  free_all (pool, blocks, queue);
  if (heap != NULL)
    _tarn_heap_end_reservation (heap, n_made, !is_there);
  return is_there;
}
