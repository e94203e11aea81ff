/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Marks: making them, waiting for them, and giving back memory that is still used. */

#include "order/order-private.h"

/* References.  The lock is held; what nobody has any more is left to _tarn_pool_sweep (). */

TarnMark *
_tarn_mark_new (gpointer event)
{
  TarnMark *mark = g_new0 (TarnMark, 1);

  mark->event = event;
  mark->n_refs = 1;
  return mark;
}

TarnMark *
_tarn_mark_ref (TarnMark *mark)
{
  mark->n_refs++;
  return mark;
}

void
_tarn_mark_unref (TarnPool *pool, TarnMark *mark)
{
  if (--mark->n_refs == 0)
    pool->gone_marks = g_slist_prepend (pool->gone_marks, mark);
}

/* Gives back what nobody has any more; the lock is not held. */
void
_tarn_pool_sweep (TarnPool *pool)
{
  TarnAllocator *direct = pool->upstream->direct;
  GSList *queues, *marks;

  _tarn_mutex_lock (&pool->lock);
  queues = g_steal_pointer (&pool->gone_queues);
  marks = g_steal_pointer (&pool->gone_marks);
  _tarn_mutex_unlock (&pool->lock);

  for (GSList *link = marks; link != NULL; link = link->next)
    {
      gpointer event = ((TarnMark *) link->data)->event;

      if (event != NULL)
        direct->ops.unmark (direct->user_data, event);
      g_free (link->data);
    }
  for (GSList *link = queues; link != NULL; link = link->next)
    {
      _tarn_allocator_unref_queue (direct, ((TarnQueue *) link->data)->handle);
      g_free (link->data);
    }
  g_slist_free (marks);
  g_slist_free (queues);
}

/* Uses */

/* The lock is held. */
static void
clear_uses (TarnPool *pool, TarnBlock *block)
{
  for (guint i = 0; i < block->n_uses; i++)
    {
      if (block->uses[i].mark != NULL)
        _tarn_mark_unref (pool, block->uses[i].mark);
      _tarn_queue_unref (pool, block->uses[i].queue);
    }
  block->n_uses = 0;
}

/* For a queue alone from now on, or for nobody.  The lock is held. */
void
_tarn_block_claim (TarnPool *pool, TarnBlock *block, TarnQueue *queue)
{
  if (block->n_uses == 1 && block->uses[0].queue == queue && block->uses[0].mark == NULL)
    return;
  clear_uses (pool, block);
  if (queue != NULL)
    _tarn_block_add_use (block, queue);
}

/* Marking */

gboolean
_tarn_use_is_marked (const TarnUse *use)
{
  return use->mark != NULL && g_atomic_pointer_get (&use->mark->event) != NULL;
}

/* Where memory cannot be marked it stays with its queue. */
void
_tarn_pool_report_unmarked (const TarnPool *pool, const GError *error)
{
  if (!g_error_matches (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED)
      && !g_error_matches (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST))
    g_message ("pool '%s': %s: memory can be used again on its own queue only", pool->base.ops.name,
               error->message);
}

/* Another thread may have marked it meanwhile, because its queue is to be forgotten: then the event
 * is one too many. */
static void
set_mark (TarnPool *pool, TarnUse *use, gpointer event)
{
  TarnMark *mark = _tarn_mark_new (event);

  _tarn_mutex_lock (&pool->lock);
  if (!_tarn_use_is_marked (use))
    {
      TarnMark *before = use->mark;

      use->mark = mark;
      mark = before;
    }
  if (mark != NULL)
    _tarn_mark_unref (pool, mark);
  _tarn_mutex_unlock (&pool->lock);
}

static gboolean
is_marked_already (TarnPool *pool, const TarnUse *use)
{
  gboolean is_so;

  _tarn_mutex_lock (&pool->lock);
  is_so = _tarn_use_is_marked (use);
  _tarn_mutex_unlock (&pool->lock);
  return is_so;
}

/* Of a block that no other request has. */
static gboolean
mark_use (TarnPool *pool, TarnUse *use, gboolean is_named, GError **error)
{
  gpointer event;

  if (is_marked_already (pool, use))
    return TRUE;
  event = _tarn_allocator_mark (pool->upstream->direct, use->queue->handle, is_named, error);
  if (event != NULL)
    set_mark (pool, use, event);
  return event != NULL;
}

/* The lock is held. */
void
_tarn_block_mark_uses_of (TarnPool *pool, TarnBlock *block, const TarnQueue *queue, TarnMark *mark)
{
  for (guint i = 0; i < block->n_uses; i++)
    if (block->uses[i].queue == queue && !_tarn_use_is_marked (&block->uses[i]))
      {
        if (block->uses[i].mark != NULL)
          _tarn_mark_unref (pool, block->uses[i].mark);
        block->uses[i].mark = _tarn_mark_ref (mark);
      }
}

/* What could not be marked when it was freed comes before a later mark of the same queue, too.
 * Where there is no order only what goes back is marked, and what is held must not be.  The lock is
 * held.
 */
static void
mark_left_over (TarnPool *pool, const TarnUse *use)
{
  if (!pool->is_ordered)
    return;
  if (!_tarn_use_is_marked (use))
    {
      use->queue->has_left_over = TRUE;
      return;
    }
  if (!use->queue->has_left_over)
    return;
  use->queue->has_left_over = FALSE;
  TARN_FOR_EACH_BLOCK (block, &pool->slabs)
    if (block->state == TARN_BLOCK_HELD)
      _tarn_block_mark_uses_of (pool, block, use->queue, use->mark);
}

/* For a block that is being freed: its queues are alive, the caller says. */
void
_tarn_pool_mark_block (TarnPool *pool, TarnBlock *block)
{
  for (guint i = 0; i < block->n_uses; i++)
    {
      g_autoptr (GError) error = NULL;

      if (!mark_use (pool, &block->uses[i], TRUE, &error))
        _tarn_pool_report_unmarked (pool, error);
    }
  _tarn_mutex_lock (&pool->lock);
  for (guint i = 0; i < block->n_uses; i++)
    mark_left_over (pool, &block->uses[i]);
  _tarn_mutex_unlock (&pool->lock);
}

/* Whether what uses the block is done, or comes before whatever is put on the queue from now on.
 * The lock is held here and in what follows. */
static gboolean
is_done_for (const TarnUse *use, const TarnQueue *queue)
{
  return (queue != NULL && queue->in_order && use->queue == queue)
         || (_tarn_use_is_marked (use) && g_atomic_int_get (&use->mark->is_reached));
}

gboolean
_tarn_block_is_ready_for (const TarnBlock *block, const TarnQueue *queue)
{
  for (guint i = 0; i < block->n_uses; i++)
    if (!is_done_for (&block->uses[i], queue))
      return FALSE;
  return TRUE;
}

/* Whether the queue can be made to wait for it. */
gboolean
_tarn_block_can_be_awaited (const TarnBlock *block, const TarnQueue *queue)
{
  for (guint i = 0; i < block->n_uses; i++)
    if (!_tarn_use_is_marked (&block->uses[i]) && !is_done_for (&block->uses[i], queue))
      return FALSE;
  return TRUE;
}

/* References on the marks that stand between the queue and the block. */
void
_tarn_block_add_marks (GPtrArray *marks, const TarnBlock *block, const TarnQueue *queue)
{
  for (guint i = 0; i < block->n_uses; i++)
    if (!is_done_for (&block->uses[i], queue))
      g_ptr_array_add (marks, _tarn_mark_ref (block->uses[i].mark));
}

/* Takes the references; those that are NULL are none. */
void
_tarn_pool_unref_marks (TarnPool *pool, GPtrArray *marks)
{
  for (guint i = 0; i < marks->len; i++)
    if (g_ptr_array_index (marks, i) != NULL)
      _tarn_mark_unref (pool, g_ptr_array_index (marks, i));
  g_ptr_array_unref (marks);
}

static gboolean
is_done_already (TarnPool *pool, const TarnUse *use, const TarnQueue *queue)
{
  gboolean is_so;

  _tarn_mutex_lock (&pool->lock);
  is_so = is_done_for (use, queue);
  _tarn_mutex_unlock (&pool->lock);
  return is_so;
}

/* Makes a queue, or the host, wait for what uses a block that no other request has.  A mark that is
 * made stays what it is as long as the block is nobody else's.  The lock is not held from here on.
 */
static gboolean
await_use (TarnPool *pool, TarnUse *use, const TarnQueue *queue, GError **error)
{
  gpointer handle = queue != NULL ? queue->handle : NULL;

  if (is_done_already (pool, use, queue))
    return TRUE;
  if (!mark_use (pool, use, FALSE, error)
      || !_tarn_allocator_wait (pool->upstream->direct, use->mark->event, handle, error))
    return FALSE;
  _tarn_mutex_lock (&pool->lock);
  pool->stats.queue_waits++;
  if (queue == NULL)
    g_atomic_int_set (&use->mark->is_reached, TRUE);
  _tarn_mutex_unlock (&pool->lock);
  return TRUE;
}

gboolean
_tarn_pool_await_uses (TarnPool *pool, TarnBlock *block, const TarnQueue *queue, GError **error)
{
  for (guint i = 0; i < block->n_uses; i++)
    if (!await_use (pool, &block->uses[i], queue, error))
      return FALSE;
  return TRUE;
}

/* A block in use stays on its queues because a move has failed: what comes after the move's marks
 * uses it, too.  A queue that was forgotten is not used any more. */
void
_tarn_pool_unmark_uses (TarnPool *pool, TarnBlock *block)
{
  _tarn_mutex_lock (&pool->lock);
  for (guint i = 0; i < block->n_uses; i++)
    if (block->uses[i].mark != NULL && block->uses[i].queue->is_known)
      _tarn_mark_unref (pool, g_steal_pointer (&block->uses[i].mark));
  _tarn_mutex_unlock (&pool->lock);
}

/* Whether memory must not go back to where it came from while commands use it. */
gboolean
_tarn_pool_waits_before_free (const TarnPool *pool)
{
  return !pool->upstream->direct->ops.frees_in_order || pool->upstream->direct != pool->upstream;
}

/* As the last thing on one of its queues, if the backend can; else the host waits. */
static gboolean
free_on_queue (TarnPool *pool, TarnBlock *block)
{
  TarnAllocator *direct = pool->upstream->direct;
  TarnQueue *queue = block->uses[0].queue;
  g_autoptr (GError) error = NULL;

  if (direct->ops.free_on_queue == NULL || direct != pool->upstream)
    return FALSE;
  if (_tarn_pool_await_uses (pool, block, queue, &error))
    return direct->ops.free_on_queue (direct->user_data, block->memory, block->alloc_size,
                                      queue->handle);
  if (!g_error_matches (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST))
    g_message ("pool '%s': %s: the host waits instead", pool->base.ops.name, error->message);
  return FALSE;
}

static void
await_end (TarnPool *pool, TarnUse *use)
{
  g_autoptr (GError) error = NULL;

  if (!await_use (pool, use, NULL, &error)
      && !g_error_matches (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST))
    g_message ("pool '%s': %s: memory goes back all the same", pool->base.ops.name, error->message);
}

/* The host waits.  What cannot be waited for, because the context is gone or a command has failed,
 * does not use the memory any more. */
static void
free_after_wait (TarnPool *pool, TarnBlock *block)
{
  for (guint i = 0; i < block->n_uses && _tarn_pool_waits_before_free (pool); i++)
    await_end (pool, &block->uses[i]);
  tarn_allocator_free_memory (pool->upstream, block->memory, block->alloc_size);
}

/* Gives the memory of a retired block back; at once, so that there is room for other memory, or as
 * soon as what uses it is done. */
void
_tarn_pool_free_used (TarnPool *pool, TarnBlock *block, gboolean is_wanted)
{
  if (is_wanted || !_tarn_pool_waits_before_free (pool) || !free_on_queue (pool, block))
    free_after_wait (pool, block);
  _tarn_mutex_lock (&pool->lock);
  clear_uses (pool, block);
  _tarn_mutex_unlock (&pool->lock);
  _tarn_pool_sweep (pool);
}
