/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Giving memory back that commands may still use. */

#include "order/order-private.h"

/* Tells whether memory must not go back to upstream while commands use it. */
gboolean
_tarn_pool_waits_before_free (const TarnPool *pool)
{
  return !pool->upstream->direct->ops.frees_in_order || pool->upstream->direct != pool->upstream;
}

/* Tells whether memory can go back as the last thing on a queue, which the backend keeps alive. Not
 * in a pool with a limit, which would count bytes as gone that are not yet. */
static gboolean
frees_on_queue (TarnPool *pool, gboolean is_wanted)
{
  const TarnAllocator *direct = pool->upstream->direct;
  gsize limit_bytes;

  if (is_wanted || direct->ops.free_on_queue == NULL || !_tarn_pool_keeps_queues_alive (pool)
      || direct != pool->upstream)
    return FALSE;
  _tarn_mutex_lock (&pool->lock);
  limit_bytes = pool->limit_bytes;
  _tarn_mutex_unlock (&pool->lock);
  return limit_bytes == 0;
}

/* Finds the event for what a queue was given, of those that this call has recorded; else records
 * it. NULL: that cannot be done. */
static TarnEvent *
ensure_event (TarnPool *pool, GHashTable *events, TarnQueue *queue)
{
  TarnAllocator *direct = pool->upstream->direct;
  gpointer key = _tarn_pool_keeps_queues_alive (pool) ? queue : NULL;
  TarnEvent *event = g_hash_table_lookup (events, key);
  gpointer handle;

  _tarn_assert_not_locked (&pool->lock);
  if (event != NULL || g_hash_table_contains (events, key))
    return event;
  handle = _tarn_allocator_record_event (direct, queue->handle, FALSE, NULL);
  event = handle != NULL ? _tarn_event_new (handle, TRUE) : NULL;
  g_hash_table_insert (events, key, event);
  return event;
}

/* Gives each use of a block that has no event the one of its queue. */
static void
record_block (TarnPool *pool, GHashTable *events, TarnBlock *block)
{
  for (guint i = 0; i < block->n_uses; i++)
    {
      TarnUse *use = &block->uses[i];
      gboolean has_event;
      TarnEvent *event;

      _tarn_mutex_lock (&pool->lock);
      has_event = _tarn_use_has_event (use);
      _tarn_mutex_unlock (&pool->lock);
      event = has_event ? NULL : ensure_event (pool, events, use->queue);
      if (event == NULL)
        continue;
      _tarn_mutex_lock (&pool->lock);
      _tarn_block_share_event (pool, block, use->queue, event);
      _tarn_mutex_unlock (&pool->lock);
    }
}

/* Records events for a list of retired blocks that the host is going to wait for: one for each
 * queue, or one for all.  Where that fails, _tarn_pool_give_back_used () tries again, and says so.
 */
void
_tarn_pool_record_returning (TarnAllocator *allocator, TarnBlock *blocks, gboolean is_wanted)
{
  TarnPool *pool = _tarn_pool_of (allocator);
  g_autoptr (GHashTable) events = NULL;
  GHashTableIter iter;
  gpointer event;

  if (!_tarn_pool_waits_before_free (pool) || frees_on_queue (pool, is_wanted))
    return;
  events = g_hash_table_new (NULL, NULL);
  for (TarnBlock *block = blocks; block != NULL; block = block->below)
    record_block (pool, events, block);
  _tarn_mutex_lock (&pool->lock);
  g_hash_table_iter_init (&iter, events);
  while (g_hash_table_iter_next (&iter, NULL, &event))
    if (event != NULL)
      _tarn_event_unref (pool, event);
  _tarn_pool_unlock_and_sweep (pool);
}

/* Frees a block's memory as the last thing on one of its queues, after the others: the queue waits
 * for timely events, and the host for late ones.  FALSE: the backend cannot, or nobody can wait. */
static gboolean
free_on_queue (TarnPool *pool, TarnBlock *block)
{
  TarnAllocator *direct = pool->upstream->direct;
  TarnQueue *queue = block->uses[0].queue;
  g_autoptr (GError) error = NULL;

  _tarn_assert_not_locked (&pool->lock);
  if (_tarn_block_await (pool, block, queue, FALSE, &error))
    return direct->ops.free_on_queue (direct->user_data, block->memory, block->alloc_size,
                                      queue->handle);
  if (!g_error_matches (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST))
    g_message ("%s: %s: the host waits instead", pool->base.label, error->message);
  return FALSE;
}

/* Has the host wait for all uses of a block.  FALSE: nobody can tell when they are done.  What went
 * with its context does not use memory any more. */
static gboolean
await_end (TarnPool *pool, TarnBlock *block)
{
  g_autoptr (GError) error = NULL;

  _tarn_assert_not_locked (&pool->lock);
  if (_tarn_block_await (pool, block, NULL, FALSE, &error)
      || g_error_matches (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST))
    return TRUE;
  g_message ("%s: %s: %" G_GSIZE_FORMAT " bytes that may still be used are not given back",
             pool->base.label, error->message, block->alloc_size);
  return FALSE;
}

/* Gives the memory of a retired block back that commands may still use.  @is_wanted: there has to
 * be room when this returns; else it may go as soon as they are done.  FALSE: nothing was done,
 * because nobody can tell when they are. */
gboolean
_tarn_pool_give_back_used (TarnBlock *block, gboolean is_wanted)
{
  TarnPool *pool = _tarn_pool_of (block->source);

  g_assert (block->state == TARN_BLOCK_RETIRED && block->n_uses > 0);
  if (!_tarn_pool_waits_before_free (pool) || !frees_on_queue (pool, is_wanted)
      || !free_on_queue (pool, block))
    {
      if (_tarn_pool_waits_before_free (pool) && !await_end (pool, block))
        return FALSE;
      tarn_allocator_free_memory (pool->upstream, block->memory, block->alloc_size);
    }
  _tarn_mutex_lock (&pool->lock);
  _tarn_block_clear_uses (pool, block);
  _tarn_pool_unlock_and_sweep (pool);
  return TRUE;
}
