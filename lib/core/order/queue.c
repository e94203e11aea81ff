/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The queues that a pool has met, each as long as anything remembers it. */

#include "base/fork-private.h"
#include "order/order-private.h"
#include "pool/cache-private.h"

/* While there is one queue only, it is the one that threads' caches are for. */
static void
set_latest (TarnPool *pool, TarnQueue *queue)
{
  pool->latest_queue = queue;
  if (!pool->is_ordered)
    _tarn_pool_set_fast_queue (pool, queue != NULL ? queue->handle : NULL);
}

/* In no table any more: a queue with the same handle is another one from now on. */
void
_tarn_queue_make_unknown (TarnPool *pool, TarnQueue *queue)
{
  if (!queue->is_known)
    return;
  queue->is_known = FALSE;
  g_hash_table_remove (pool->queues, queue->handle);
  if (pool->latest_queue == queue)
    set_latest (pool, NULL);
}

void
_tarn_queue_unref (TarnPool *pool, TarnQueue *queue)
{
  if (--queue->n_refs > 0)
    return;
  _tarn_queue_make_unknown (pool, queue);
  pool->gone_queues = g_slist_prepend (pool->gone_queues, queue);
}

/* The mark that everything held shares from now on; NULL if nothing is.  The lock is held. */
static TarnMark *
share_mark (TarnPool *pool)
{
  TarnMark *mark = _tarn_mark_new (NULL);

  TARN_FOR_EACH_BLOCK (block, &pool->slabs)
    if (block->state == TARN_BLOCK_HELD && block->n_uses > 0)
      block->uses[0].mark = _tarn_mark_ref (mark);
  if (mark->n_refs > 1)
    return mark;
  g_free (mark);
  return NULL;
}

/* From now on what is freed is marked.  What is held was all used on one queue: one mark is enough
 * for it, which is made when the lock is given up.  Until then it can be used on its own queue, and
 * if it cannot be made, after that, too.  The lock is held, and is so again afterwards. */
void
_tarn_pool_begin_order (TarnPool *pool)
{
  TarnQueue *queue = pool->latest_queue;
  g_autoptr (GError) error = NULL;
  gpointer event;
  TarnMark *mark;

  pool->is_ordered = TRUE;
  _tarn_pool_gather (pool);
  if (queue == NULL || (mark = share_mark (pool)) == NULL)
    return;
  queue->n_refs++;
  _tarn_mutex_unlock (&pool->lock);
  event = _tarn_allocator_mark (pool->upstream->direct, queue->handle, FALSE, &error);
  if (event == NULL)
    _tarn_pool_report_unmarked (pool, error);
  _tarn_mutex_lock (&pool->lock);
  g_atomic_pointer_set (&mark->event, event);
  _tarn_mark_unref (pool, mark);
  _tarn_queue_unref (pool, queue);
}

/* The lock is held. */
static TarnQueue *
look_up_queue (TarnPool *pool, gpointer handle)
{
  if (pool->latest_queue != NULL && pool->latest_queue->handle == handle)
    return pool->latest_queue;
  return pool->queues != NULL ? g_hash_table_lookup (pool->queues, handle) : NULL;
}

/* Takes the backend's reference.  The lock is held. */
static TarnQueue *
add_queue (TarnPool *pool, gpointer handle, gboolean in_order)
{
  TarnQueue *queue = g_new0 (TarnQueue, 1);

  queue->handle = handle;
  queue->in_order = in_order;
  queue->is_known = TRUE;
  if (pool->queues == NULL)
    pool->queues = g_hash_table_new (NULL, NULL);
  g_hash_table_insert (pool->queues, handle, queue);
  return queue;
}

/* Takes in a queue that the backend has just given a reference on; another thread may have been
 * faster, and then that is one too many. */
static TarnQueue *
meet (TarnPool *pool, gpointer handle, gboolean in_order)
{
  gboolean is_known;
  TarnQueue *queue;

  _tarn_mutex_lock (&pool->lock);
  if (!pool->is_ordered
      && (!in_order || (pool->latest_queue != NULL && look_up_queue (pool, handle) == NULL)))
    _tarn_pool_begin_order (pool);
  queue = look_up_queue (pool, handle);
  is_known = queue != NULL;
  if (!is_known)
    queue = add_queue (pool, handle, in_order);
  queue->n_refs++;
  set_latest (pool, queue);
  _tarn_mutex_unlock (&pool->lock);

  if (is_known)
    _tarn_allocator_unref_queue (pool->upstream->direct, handle);
  return queue;
}

/* To meet a second queue is to mark what is held. */
static gboolean
can_meet (TarnPool *pool, gpointer handle, gboolean in_order, GError **error)
{
  gboolean is_second;

  _tarn_mutex_lock (&pool->lock);
  is_second = !pool->is_ordered && (!in_order || pool->latest_queue != NULL);
  _tarn_mutex_unlock (&pool->lock);
  return !is_second || _tarn_allocator_check_queue (pool->upstream->direct, handle, error);
}

/* With a reference of the caller's. */
TarnQueue *
_tarn_pool_enter_queue (TarnPool *pool, gpointer handle, GError **error)
{
  TarnAllocator *direct = pool->upstream->direct;
  gboolean in_order;
  TarnQueue *queue;

  _tarn_mutex_lock (&pool->lock);
  queue = look_up_queue (pool, handle);
  if (queue != NULL)
    {
      queue->n_refs++;
      set_latest (pool, queue);
    }
  _tarn_mutex_unlock (&pool->lock);
  if (queue != NULL)
    return queue;
  if (!_tarn_allocator_ref_queue (direct, handle, &in_order, error))
    return NULL;
  if (can_meet (pool, handle, in_order, error))
    return meet (pool, handle, in_order);
  _tarn_allocator_unref_queue (direct, handle);
  return NULL;
}

void
_tarn_pool_leave_queue (TarnPool *pool, TarnQueue *queue)
{
  gboolean is_clean;

  _tarn_mutex_lock (&pool->lock);
  if (queue != NULL)
    _tarn_queue_unref (pool, queue);
  is_clean = pool->gone_queues == NULL && pool->gone_marks == NULL;
  _tarn_mutex_unlock (&pool->lock);
  if (!is_clean)
    _tarn_pool_sweep (pool);
}

/**
 * Tells the pool that a queue will be destroyed while commands on it may still use memory of the
 * pool, held or not, and that a later queue may have the same handle. Needed only where a backend
 * cannot keep queues alive: OpenCL retains them.
 *
 * @param pool   a pool; any thread may call it. In a child of fork () it does nothing.
 * @param queue  the queue, alive
 * @param error  return location, or NULL: what the backend says when the queue cannot be marked
 * @return TRUE, also for a queue that the pool has never met, or FALSE with @p error set and
 * nothing changed
 * @since 0.1
 */
gboolean
tarn_pool_forget_queue (TarnPool *pool, gpointer queue, GError **error)
{
  TarnQueue *known;
  gpointer event;
  TarnMark *mark;

  g_return_val_if_fail (pool != NULL, FALSE);
  g_return_val_if_fail (queue != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  if (_tarn_forked ())
    return TRUE;
  _tarn_mutex_lock (&pool->lock);
  known = look_up_queue (pool, queue);
  if (known != NULL)
    known->n_refs++;
  _tarn_mutex_unlock (&pool->lock);
  if (known == NULL)
    return TRUE;
  event = _tarn_allocator_mark (pool->upstream->direct, queue, TRUE, error);
  if (event != NULL)
    {
      _tarn_mutex_lock (&pool->lock);
      pool->is_ordered = TRUE;
      _tarn_pool_gather (pool);
      mark = _tarn_mark_new (event);
      TARN_FOR_EACH_BLOCK (block, &pool->slabs)
        _tarn_block_mark_uses_of (pool, block, known, mark);
      _tarn_mark_unref (pool, mark);
      _tarn_queue_make_unknown (pool, known);
      _tarn_mutex_unlock (&pool->lock);
    }
  _tarn_pool_leave_queue (pool, known);
  return event != NULL;
}
