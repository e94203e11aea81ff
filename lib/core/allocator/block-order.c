/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Keeps track of the queues that use a block that belongs to no pool.  (The folder order/ does the
 * same for blocks of pools.)  Tarn never reuses the memory of a block without a pool.  So the
 * block's queues matter only when the program frees the block, or moves it to another queue. */

#include "allocator/allocator-private.h"
#include "allocator/block-private.h"
#include "base/fork-private.h"
#include "common/argument-private.h"
#include "common/lock-private.h"
#include "record/record-private.h"

const gchar _tarn_no_share = 0;

/* Adds a queue to the queues that use a block.  If the block belongs to a pool, the caller holds
 * the pool's lock. */
void
_tarn_block_add_use (TarnBlock *block, TarnQueue *queue)
{
  if (block->n_uses > 0 || block->uses == NULL)
    block->uses = g_renew (TarnUse, block->uses, block->n_uses + 1);
  block->uses[block->n_uses++] = (TarnUse){ queue, NULL };
  queue->n_refs++;
  _tarn_block_update_share (block);
}

/* Returns TRUE if a queue is among those that use a block. */
static gboolean
uses (const TarnBlock *block, gpointer handle)
{
  for (guint i = 0; i < block->n_uses; i++)
    if (block->uses[i].queue->handle == handle)
      return TRUE;
  return FALSE;
}

/* Makes the TarnQueue by which a block without a pool refers to a queue.  The backend keeps the
 * queue alive until _tarn_direct_queue_free (). */
TarnQueue *
_tarn_direct_queue_new (const TarnAllocator *direct, gpointer handle, GError **error)
{
  gboolean in_order;
  TarnQueue *queue;

  if (!_tarn_allocator_ref_queue (direct, handle, &in_order, error))
    return NULL;
  queue = g_new0 (TarnQueue, 1);
  queue->handle = handle;
  queue->in_order = in_order;
  return queue;
}

/* Frees a TarnQueue of a block without a pool, and tells the backend that it need not keep the
 * queue alive any longer. */
void
_tarn_direct_queue_free (const TarnAllocator *direct, TarnQueue *queue)
{
  _tarn_allocator_unref_queue (direct, queue->handle);
  g_free (queue);
}

/* Guards TarnBlock.uses of blocks that belong to no pool and have several references (state
 * SHARED).  Several threads may use and free such a block at the same time. */
static TarnMutex uses_lock = TARN_MUTEX_INIT;

/* Adds @queue, whose handle is @handle, to the queues that use a block without a pool.  If a queue
 * with this handle uses the block already, returns FALSE and adds nothing.  If @queue is NULL, only
 * asks: returns TRUE if a queue with the handle @handle uses the block. */
static gboolean
add_use (TarnBlock *block, gpointer handle, TarnQueue *queue)
{
  gboolean is_there;

  _tarn_mutex_lock (&uses_lock);
  is_there = uses (block, handle);
  if (!is_there && queue != NULL)
    _tarn_block_add_use (block, queue);
  _tarn_mutex_unlock (&uses_lock);
  return queue != NULL ? !is_there : is_there;
}

/* Adds a queue to the queues that use a block without a pool.  Returns FALSE with an error if the
 * backend refuses the queue. */
gboolean
_tarn_direct_record_use (TarnBlock *block, gpointer handle, GError **error)
{
  TarnQueue *queue;

  if (add_use (block, handle, NULL))
    return TRUE;
  queue = _tarn_direct_queue_new (block->source->direct, handle, error);
  if (queue == NULL)
    return FALSE;
  /* add_use () returns FALSE if another thread has added the same queue meanwhile. */
  if (!add_use (block, handle, queue))
    _tarn_direct_queue_free (block->source->direct, queue);
  return TRUE;
}

gboolean
_tarn_block_use_last (TarnBlock *block, gpointer queue, GError **error)
{
  /* Do not read the field share of a block with several owners (state SHARED): another owner may be
   * changing the field now. */
  return queue == NULL || (block->state != TARN_BLOCK_SHARED && block->share == queue)
         || tarn_block_record_use (block, queue, error);
}

/* Drops one of the queues that use a block. */
static void
drop_use (TarnBlock *block, guint i)
{
  TarnQueue *queue = block->uses[i].queue;

  g_assert (i < block->n_uses);
  block->uses[i] = block->uses[--block->n_uses];
  _tarn_direct_queue_free (block->source->direct, queue);
}

/* Removes all queues from those that use a block, except the queue @handle.  If @handle is NULL,
 * removes all. */
static void
drop_uses_but (TarnBlock *block, gpointer handle)
{
  for (guint i = block->n_uses; i-- > 0;)
    if (block->uses[i].queue->handle != handle)
      drop_use (block, i);
}

/* Makes the queue @handle (NULL: the host) wait for the commands that are now in @used, a queue
 * that uses a block.  Does not wait if @used is an in-order queue with the handle @handle. */
static gboolean
await_used_queue (const TarnBlock *block, const TarnQueue *used, gpointer handle, GError **error)
{
  TarnAllocator *direct = block->source->direct;
  gboolean is_fine;
  gpointer event;

  g_assert (used->n_refs > 0);
  if (used->handle == handle && used->in_order)
    return TRUE;
  event = _tarn_allocator_record_event (direct, used->handle, TRUE, error);
  if (event == NULL)
    return FALSE;
  is_fine = _tarn_allocator_wait (direct, event, handle, error);
  if (!is_fine && handle == NULL && _tarn_call_queue (direct, event_is_done, event))
    {
      /* The wait failed because one of the commands failed.  But all the commands are done, so they
       * do not use the block any more. */
      g_clear_error (error);
      is_fine = TRUE;
    }
  _tarn_call_queue (direct, event_release, event);
  return is_fine;
}

/* If commands on a queue make a block's new memory ready, as in an asynchronous allocation, adds
 * this queue to the queues that use the block.  Does nothing if another queue has already waited
 * for these commands. */
static gboolean
use_fresh_queue (TarnBlock *block, GError **error)
{
  if (!block->is_unready)
    return TRUE;
  return _tarn_direct_record_use (block, _tarn_allocator_get_fresh_queue (block->source), error);
}

/* Makes the queue @handle wait for all other queues that use a block without a pool.  Afterwards
 * @handle is the only queue that uses the block.  If @handle is NULL, the host waits instead, and
 * then no queue uses the block.  Returns FALSE with an error on failure: the block has the same
 * queues as before, but @handle may already wait for some of them. */
gboolean
_tarn_direct_move_to_queue (TarnBlock *block, gpointer handle, GError **error)
{
  guint n_used = block->n_uses, n_before;
  gboolean is_fine = handle == NULL || use_fresh_queue (block, error);

  n_before = block->n_uses;
  is_fine = is_fine && (handle == NULL || _tarn_direct_record_use (block, handle, error));
  for (guint i = 0; is_fine && i < n_before; i++)
    is_fine = await_used_queue (block, block->uses[i].queue, handle, error);
  if (!is_fine)
    {
      while (block->n_uses > n_used)
        drop_use (block, block->n_uses - 1);
      return FALSE;
    }
  if (handle != NULL)
    block->is_unready = FALSE;
  drop_uses_but (block, handle);
  return TRUE;
}

/* Makes the first queue that uses a block wait for the block's other queues, and then free the
 * block's memory.  Returns FALSE, and frees nothing, if the backend cannot do that. */
static gboolean
free_on_used_queue (const TarnBlock *block)
{
  const TarnAllocatorOps *ops = &block->source->ops;
  gpointer handle = block->uses[0].queue->handle;
  g_autoptr (GError) error = NULL;

  g_assert (block->n_uses > 0);
  if (ops->free_on_queue == NULL) /* NULL in heaps and in some backends */
    return FALSE;
  for (guint i = 0; i < block->n_uses && error == NULL; i++)
    await_used_queue (block, block->uses[i].queue, handle, &error);
  if (error == NULL)
    return _tarn_direct_call_free_on_queue (block->source, block->memory, block->size, handle);
  if (!g_error_matches (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST))
    g_message ("%s: %s: the host waits instead", block->source->label, error->message);
  return FALSE;
}

/* Makes the host wait for all queues that use a block.  Returns FALSE with a message if the driver
 * cannot tell when one of the queues is done.  Treats commands of a lost context as done. */
static gboolean
await_all (const TarnBlock *block)
{
  gboolean are_done = TRUE;

  for (guint i = 0; i < block->n_uses; i++)
    {
      g_autoptr (GError) error = NULL;

      if (await_used_queue (block, block->uses[i].queue, NULL, &error)
          || g_error_matches (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST))
        continue;
      g_message ("%s: %s: the allocator does not free a block of %" G_GSIZE_FORMAT
                 " bytes, because commands may still use it",
                 block->source->label, error->message, block->size);
      are_done = FALSE;
      break;
    }
  return are_done;
}

/* Makes the host wait for the queues that use a block, and then frees the block's memory.  If the
 * driver cannot tell when one of the queues is done, never frees the memory, and tells the
 * allocator that the memory is lost. */
static void
free_or_lose (TarnBlock *block)
{
  if (await_all (block))
    _tarn_direct_call_free (block->source, block->memory, block->size);
  else
    _tarn_allocator_lose (block->source, block->memory, block->size);
}

/* Frees the memory of a block after the queues that use it are done.  If the driver cannot tell
 * when they are done, never frees the memory, and tells the allocator that the memory is lost. */
void
_tarn_direct_free_used (TarnBlock *block)
{
  const TarnAllocatorOps *ops = &block->source->ops;

  g_assert (block->state == TARN_BLOCK_RETIRED && block->n_uses > 0);
  if (ops->frees_in_order)
    _tarn_direct_call_free (block->source, block->memory, block->size);
  else if (!free_on_used_queue (block))
    free_or_lose (block);
  drop_uses_but (block, NULL);
}

gboolean
tarn_block_record_use (TarnBlock *block, gpointer queue, GError **error)
{
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (block, FALSE);
  TARN_REFUSE_NULL (queue, FALSE);

  if (_tarn_forked () && !tarn_check_fork (error))
    return FALSE;
  TARN_EVENT (record_use, TARN_TRACE_RECORD_USE, block->source->id, GPOINTER_TO_SIZE (block),
              GPOINTER_TO_SIZE (queue));
  return block->source->klass->record_use (block, queue, error);
}

gboolean
tarn_block_move_to_queue (TarnBlock *block, gpointer queue, GError **error)
{
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (block, FALSE);
  TARN_REFUSE_NULL (queue, FALSE);

  if (_tarn_forked () && !tarn_check_fork (error))
    return FALSE;
  TARN_EVENT (move, TARN_TRACE_MOVE, block->source->id, GPOINTER_TO_SIZE (block),
              GPOINTER_TO_SIZE (queue));
  return block->source->klass->move_to_queue (block, queue, error);
}

gboolean
tarn_block_wait (TarnBlock *block, GError **error)
{
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (block, FALSE);

  if (_tarn_forked () && !tarn_check_fork (error))
    return FALSE;
  TARN_EVENT (move, TARN_TRACE_MOVE, block->source->id, GPOINTER_TO_SIZE (block), (guint64) 0);
  return block->source->klass->move_to_queue (block, NULL, error);
}

gpointer
tarn_block_get_queue (const TarnBlock *block)
{
  g_return_val_if_fail (block != NULL, NULL);

  /* A block in a queue's arena (memory of a heap for one queue) has no array of uses: the field
   * share has the queue's handle. */
  if (__atomic_load_n (&block->is_own, __ATOMIC_RELAXED))
    return block->share;
  return block->n_uses > 0 ? block->uses[0].queue->handle : NULL;
}
