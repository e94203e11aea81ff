/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Which queues use a block.  What a pool makes of that is in order/; a block without a pool
 * is of no other request, so it is only waited for at its end. */

#include "allocator/allocator-private.h"
#include "allocator/block-private.h"
#include "base/fork-private.h"

/* Adds a queue to those that use a block. The pool's lock is held, or there is no pool. */
void
_tarn_block_add_use (TarnBlock *block, TarnQueue *queue)
{
  if (block->n_uses > 0 || block->uses == NULL)
    block->uses = g_renew (TarnUse, block->uses, block->n_uses + 1);
  block->uses[block->n_uses++] = (TarnUse){ queue, NULL };
  queue->n_refs++;
}

/* Tells whether a queue is among those that use a block. */
static gboolean
uses (const TarnBlock *block, gpointer handle)
{
  for (guint i = 0; i < block->n_uses; i++)
    if (block->uses[i].queue->handle == handle)
      return TRUE;
  return FALSE;
}

/* Adds a queue to those that use a block without a pool. */
gboolean
_tarn_direct_record_use (TarnBlock *block, gpointer handle, GError **error)
{
  gboolean in_order;
  TarnQueue *queue;

  if (uses (block, handle))
    return TRUE;
  if (!_tarn_allocator_ref_queue (block->source, handle, &in_order, error))
    return FALSE;
  queue = g_new0 (TarnQueue, 1);
  queue->handle = handle;
  queue->in_order = in_order;
  _tarn_block_add_use (block, queue);
  return TRUE;
}

/* Drops one of the queues that use a block. */
static void
drop_use (TarnBlock *block, guint i)
{
  TarnQueue *queue = block->uses[i].queue;

  g_assert (i < block->n_uses);
  block->uses[i] = block->uses[--block->n_uses];
  _tarn_allocator_unref_queue (block->source, queue->handle);
  g_free (queue);
}

/* Drops the queues that use a block, but for one; NULL: all. */
static void
drop_uses_but (TarnBlock *block, gpointer handle)
{
  for (guint i = block->n_uses; i-- > 0;)
    if (block->uses[i].queue->handle != handle)
      drop_use (block, i);
}

/* Makes a queue, or the host, wait for one of those that use a block. */
static gboolean
await_used_queue (const TarnBlock *block, const TarnQueue *used, gpointer handle, GError **error)
{
  TarnAllocator *direct = block->source;
  gboolean is_fine;
  gpointer event;

  g_assert (used->n_refs > 0);
  if (used->handle == handle && used->in_order)
    return TRUE;
  event = _tarn_allocator_record_event (direct, used->handle, TRUE, error);
  if (event == NULL)
    return FALSE;
  is_fine = _tarn_allocator_wait (direct, event, handle, error);
  direct->ops.event_release (direct->user_data, event);
  return is_fine;
}

/* Makes a queue, or the host, wait for all that use a block. */
static gboolean
await_all (const TarnBlock *block, gpointer handle, GError **error)
{
  for (guint i = 0; i < block->n_uses; i++)
    if (!await_used_queue (block, block->uses[i].queue, handle, error))
      return FALSE;
  return TRUE;
}

/* Gives a block without a pool to a queue alone; NULL: the host waits, and the block is nobody's.
 * Where that fails nothing has changed, but for waits that were in vain. */
gboolean
_tarn_direct_move_to_queue (TarnBlock *block, gpointer handle, GError **error)
{
  guint n_before = block->n_uses;

  if (handle != NULL && !_tarn_direct_record_use (block, handle, error))
    return FALSE;
  for (guint i = 0; i < n_before; i++)
    if (!await_used_queue (block, block->uses[i].queue, handle, error))
      {
        while (block->n_uses > n_before)
          drop_use (block, block->n_uses - 1);
        return FALSE;
      }
  drop_uses_but (block, handle);
  return TRUE;
}

/* Frees a block's memory as the last thing on one of its queues. FALSE: the backend cannot. */
static gboolean
free_on_used_queue (const TarnBlock *block)
{
  const TarnAllocatorOps *ops = &block->source->ops;
  gpointer handle = block->uses[0].queue->handle;
  g_autoptr (GError) error = NULL;

  g_assert (block->n_uses > 0);
  if (ops->free_on_queue == NULL)
    return FALSE;
  if (await_all (block, handle, &error))
    return ops->free_on_queue (block->source->user_data, block->memory, block->size, handle);
  if (!g_error_matches (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST))
    g_message ("%s: %s: the host waits instead", block->source->label, error->message);
  return FALSE;
}

/* Frees the memory of a block that queues use. If nobody can wait for them, because the context
 * is gone or a command has failed, they do not use it any more. */
void
_tarn_direct_free_used (TarnBlock *block)
{
  const TarnAllocatorOps *ops = &block->source->ops;
  g_autoptr (GError) error = NULL;

  g_assert (block->state == TARN_BLOCK_RETIRED && block->n_uses > 0);
  if (ops->frees_in_order || !free_on_used_queue (block))
    {
      if (!ops->frees_in_order && !await_all (block, NULL, &error)
          && !g_error_matches (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST))
        g_message ("%s: %s: memory goes back all the same", block->source->label, error->message);
      ops->free (block->source->user_data, block->memory, block->size);
    }
  drop_uses_but (block, NULL);
}

/**
 * Records that commands on a queue use a block. The queue is another one than the block was
 * allocated for: when the block is freed, its memory is not used again before everything that is on
 * the queue by then is done.
 *
 * @param block  a block in use
 * @param queue  a cl_command_queue or CUstream, alive until the block is freed; a backend has a
 *               function with its own type, such as tarn_opencl_block_record_use()
 * @param error  return location, or NULL: TARN_ERROR_NOT_SUPPORTED if its allocator has no queues;
 *               what the backend says of the queue; TARN_ERROR_FORKED in a child of fork ()
 * @return TRUE, or FALSE with @p error set and nothing changed; any thread may call it, one at a
 *         time for a block
 * @since 0.1
 */
gboolean
tarn_block_record_use (TarnBlock *block, gpointer queue, GError **error)
{
  g_return_val_if_fail (block != NULL, FALSE);
  g_return_val_if_fail (queue != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  if (_tarn_forked () && !tarn_check_fork (error))
    return FALSE;
  return block->source->klass->record_use (block, queue, error);
}

/**
 * Moves a block to one queue, which waits for the others. It waits for everything that
 * they have been given so far; the block is that queue's alone afterwards. For the host there is
 * tarn_block_wait().
 *
 * @param block  a block in use
 * @param queue  as for tarn_block_record_use(); a backend has a function with its own type, such as
 *               tarn_cuda_block_move_to_stream()
 * @param error  return location, or NULL: as tarn_block_record_use()
 * @return TRUE, or FALSE with @p error set; any thread may call it, one at a time for a block
 * @since 0.1
 */
gboolean
tarn_block_move_to_queue (TarnBlock *block, gpointer queue, GError **error)
{
  g_return_val_if_fail (block != NULL, FALSE);
  g_return_val_if_fail (queue != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  if (_tarn_forked () && !tarn_check_fork (error))
    return FALSE;
  return block->source->klass->move_to_queue (block, queue, error);
}

/**
 * Has the host wait for the queues that use a block. It waits for everything that they were given
 * so far; the block is no queue's afterwards.
 *
 * @param block  a block in use
 * @param error  return location, or NULL: what the backend says; TARN_ERROR_FORKED in a child of
 *               fork ()
 * @return TRUE, also for a block that was no queue's, or FALSE with @p error set; any thread may
 *         call it, one at a time for a block
 * @since 0.1
 */
gboolean
tarn_block_wait (TarnBlock *block, GError **error)
{
  g_return_val_if_fail (block != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  if (_tarn_forked () && !tarn_check_fork (error))
    return FALSE;
  return block->source->klass->move_to_queue (block, NULL, error);
}

/**
 * Gets the queue that a block is used on.
 *
 * @param block  a block in use; any thread may call it, while none moves the block or records a use
 * @return (transfer none): what it was allocated for, moved to or first recorded with; NULL: none.
 *         What it is of CUDA's default streams only tarn_cuda_block_get_stream() can tell.
 * @since 0.1
 */
gpointer
tarn_block_get_queue (const TarnBlock *block)
{
  g_return_val_if_fail (block != NULL, NULL);

  return block->n_uses > 0 ? block->uses[0].queue->handle : NULL;
}
