/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The queues that a pool has met, each as long as anything remembers it; and marks on them: making
 * them, waiting for them, giving back memory that is still used. */

#include "base/fork-private.h"
#include "order/order-private.h"
#include "pool/cache-private.h"

/* References.  The lock is held; what nobody has any more is left to _tarn_pool_sweep (). */

static TarnMark *
mark_new (gpointer event)
{
  TarnMark *mark = g_new0 (TarnMark, 1);

  mark->event = event;
  mark->n_refs = 1;
  return mark;
}

static TarnMark *
mark_ref (TarnMark *mark)
{
  g_assert (mark->n_refs > 0);
  mark->n_refs++;
  return mark;
}

static void
mark_unref (TarnPool *pool, TarnMark *mark)
{
  _tarn_assert_locked (&pool->lock);
  g_assert (mark->n_refs > 0);
  if (--mark->n_refs == 0)
    pool->gone_marks = g_slist_prepend (pool->gone_marks, mark);
}

/* Gives back what nobody has any more; the lock is not held. */
void
_tarn_pool_sweep (TarnPool *pool)
{
  TarnAllocator *direct = pool->upstream->direct;
  GSList *queues, *marks;

  _tarn_assert_not_locked (&pool->lock);
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

/* Queues */

/* While there is one queue only, it is the one that threads' caches are for. */
static void
set_latest (TarnPool *pool, TarnQueue *queue)
{
  _tarn_assert_locked (&pool->lock);
  pool->latest_queue = queue;
  if (!pool->is_ordered)
    _tarn_pool_set_fast_queue (pool, queue != NULL ? queue->handle : NULL);
}

/* In no table any more: a queue with the same handle is another one from now on. */
static void
make_unknown (TarnPool *pool, TarnQueue *queue)
{
  _tarn_assert_locked (&pool->lock);
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
  _tarn_assert_locked (&pool->lock);
  g_assert (queue->n_refs > 0);
  if (--queue->n_refs > 0)
    return;
  make_unknown (pool, queue);
  pool->gone_queues = g_slist_prepend (pool->gone_queues, queue);
}

/* Uses */

/* The lock is held. */
static void
clear_uses (TarnPool *pool, TarnBlock *block)
{
  _tarn_assert_locked (&pool->lock);
  for (guint i = 0; i < block->n_uses; i++)
    {
      if (block->uses[i].mark != NULL)
        mark_unref (pool, block->uses[i].mark);
      _tarn_queue_unref (pool, block->uses[i].queue);
    }
  block->n_uses = 0;
}

/* For a queue alone from now on, or for nobody.  The lock is held. */
void
_tarn_block_set_queue (TarnPool *pool, TarnBlock *block, TarnQueue *queue)
{
  if (block->n_uses == 1 && block->uses[0].queue == queue && block->uses[0].mark == NULL)
    return;
  clear_uses (pool, block);
  if (queue != NULL)
    _tarn_block_add_use (block, queue);
}

/* Marking */

static gboolean
is_marked (const TarnUse *use)
{
  return use->mark != NULL && g_atomic_pointer_get (&use->mark->event) != NULL;
}

/* Where memory cannot be marked it stays with its queue. */
static void
report_unmarked (const TarnPool *pool, const GError *error)
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
  TarnMark *mark = mark_new (event);

  _tarn_mutex_lock (&pool->lock);
  if (!is_marked (use))
    {
      TarnMark *before = use->mark;

      use->mark = mark;
      mark = before;
    }
  if (mark != NULL)
    mark_unref (pool, mark);
  _tarn_mutex_unlock (&pool->lock);
}

static gboolean
is_marked_already (TarnPool *pool, const TarnUse *use)
{
  gboolean is_so;

  _tarn_mutex_lock (&pool->lock);
  is_so = is_marked (use);
  _tarn_mutex_unlock (&pool->lock);
  return is_so;
}

/* Of a block that no other request has. */
static gboolean
mark_use (TarnPool *pool, TarnUse *use, gboolean is_named, GError **error)
{
  gpointer event;

  _tarn_assert_not_locked (&pool->lock);
  if (is_marked_already (pool, use))
    return TRUE;
  event = _tarn_allocator_mark (pool->upstream->direct, use->queue->handle, is_named, error);
  if (event != NULL)
    set_mark (pool, use, event);
  return event != NULL;
}

/* The lock is held. */
static void
mark_uses_of (TarnPool *pool, TarnBlock *block, const TarnQueue *queue, TarnMark *mark)
{
  _tarn_assert_locked (&pool->lock);
  for (guint i = 0; i < block->n_uses; i++)
    if (block->uses[i].queue == queue && !is_marked (&block->uses[i]))
      {
        if (block->uses[i].mark != NULL)
          mark_unref (pool, block->uses[i].mark);
        block->uses[i].mark = mark_ref (mark);
      }
}

/* What could not be marked when it was freed comes before a later mark of the same queue, too.
 * Where there is no order only what goes back is marked, and what is held must not be.  The lock is
 * held.
 */
static void
mark_unmarked (TarnPool *pool, const TarnUse *use)
{
  _tarn_assert_locked (&pool->lock);
  if (!pool->is_ordered)
    return;
  if (!is_marked (use))
    {
      use->queue->has_unmarked = TRUE;
      return;
    }
  if (!use->queue->has_unmarked)
    return;
  use->queue->has_unmarked = FALSE;
  TARN_FOR_EACH_BLOCK (block, &pool->chunks)
    if (block->state == TARN_BLOCK_HELD)
      mark_uses_of (pool, block, use->queue, use->mark);
}

/* For a block that is being freed: its queues are alive, the caller says. */
void
_tarn_pool_mark_block (TarnPool *pool, TarnBlock *block)
{
  g_assert (block->state == TARN_BLOCK_ENDING || block->state == TARN_BLOCK_ACTIVE);
  for (guint i = 0; i < block->n_uses; i++)
    {
      g_autoptr (GError) error = NULL;

      if (!mark_use (pool, &block->uses[i], TRUE, &error))
        report_unmarked (pool, error);
    }
  _tarn_mutex_lock (&pool->lock);
  for (guint i = 0; i < block->n_uses; i++)
    mark_unmarked (pool, &block->uses[i]);
  _tarn_mutex_unlock (&pool->lock);
}

/* Whether what uses the block is done, or comes before whatever is put on the queue from now on.
 * The lock is held here and in what follows. */
static gboolean
is_done_for (const TarnUse *use, const TarnQueue *queue)
{
  return (queue != NULL && queue->in_order && use->queue == queue)
         || (is_marked (use) && g_atomic_int_get (&use->mark->is_reached));
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
    if (!is_marked (&block->uses[i]) && !is_done_for (&block->uses[i], queue))
      return FALSE;
  return TRUE;
}

/* References on the marks that stand between the queue and the block. */
void
_tarn_block_add_marks (GPtrArray *marks, const TarnBlock *block, const TarnQueue *queue)
{
  for (guint i = 0; i < block->n_uses; i++)
    if (!is_done_for (&block->uses[i], queue))
      g_ptr_array_add (marks, mark_ref (block->uses[i].mark));
}

/* Takes the references; those that are NULL are none. */
void
_tarn_pool_unref_marks (TarnPool *pool, GPtrArray *marks)
{
  _tarn_assert_locked (&pool->lock);
  for (guint i = 0; i < marks->len; i++)
    if (g_ptr_array_index (marks, i) != NULL)
      mark_unref (pool, g_ptr_array_index (marks, i));
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

  _tarn_assert_not_locked (&pool->lock);
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
      mark_unref (pool, g_steal_pointer (&block->uses[i].mark));
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
  _tarn_assert_not_locked (&pool->lock);
  for (guint i = 0; i < block->n_uses && _tarn_pool_waits_before_free (pool); i++)
    await_end (pool, &block->uses[i]);
  tarn_allocator_free_memory (pool->upstream, block->memory, block->alloc_size);
}

/* Gives the memory of a retired block back; at once, so that there is room for other memory, or as
 * soon as what uses it is done. */
void
_tarn_pool_give_back_used (TarnBlock *block, gboolean is_wanted)
{
  TarnPool *pool = _tarn_pool_of (block->source);

  g_assert (block->state == TARN_BLOCK_RETIRED && block->n_uses > 0);
  if (is_wanted || !_tarn_pool_waits_before_free (pool) || !free_on_queue (pool, block))
    free_after_wait (pool, block);
  _tarn_mutex_lock (&pool->lock);
  clear_uses (pool, block);
  _tarn_mutex_unlock (&pool->lock);
  _tarn_pool_sweep (pool);
}

/* Meeting queues */

/* The mark that everything held shares from now on; NULL if nothing is.  The lock is held. */
static TarnMark *
share_mark (TarnPool *pool)
{
  TarnMark *mark = mark_new (NULL);

  _tarn_assert_locked (&pool->lock);
  TARN_FOR_EACH_BLOCK (block, &pool->chunks)
    if (block->state == TARN_BLOCK_HELD && block->n_uses > 0)
      block->uses[0].mark = mark_ref (mark);
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

  _tarn_assert_locked (&pool->lock);
  g_assert (!pool->is_ordered);
  pool->is_ordered = TRUE;
  _tarn_pool_flush (pool);
  if (queue == NULL || (mark = share_mark (pool)) == NULL)
    return;
  queue->n_refs++;
  _tarn_mutex_unlock (&pool->lock);
  event = _tarn_allocator_mark (pool->upstream->direct, queue->handle, FALSE, &error);
  if (event == NULL)
    report_unmarked (pool, error);
  _tarn_mutex_lock (&pool->lock);
  g_atomic_pointer_set (&mark->event, event);
  mark_unref (pool, mark);
  _tarn_queue_unref (pool, queue);
}

/* Finds a queue that the pool knows.  The lock is held. */
TarnQueue *
_tarn_pool_look_up_queue (TarnPool *pool, gpointer handle)
{
  _tarn_assert_locked (&pool->lock);
  if (pool->latest_queue != NULL && pool->latest_queue->handle == handle)
    return pool->latest_queue;
  return pool->queues != NULL ? g_hash_table_lookup (pool->queues, handle) : NULL;
}

/* Takes the backend's reference.  The lock is held. */
static TarnQueue *
add_queue (TarnPool *pool, gpointer handle, gboolean in_order)
{
  TarnQueue *queue = g_new0 (TarnQueue, 1);

  _tarn_assert_locked (&pool->lock);
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

  _tarn_assert_not_locked (&pool->lock);
  _tarn_mutex_lock (&pool->lock);
  if (!pool->is_ordered
      && (!in_order
          || (pool->latest_queue != NULL && _tarn_pool_look_up_queue (pool, handle) == NULL)))
    _tarn_pool_begin_order (pool);
  queue = _tarn_pool_look_up_queue (pool, handle);
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
  queue = _tarn_pool_look_up_queue (pool, handle);
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

/* Gives up the lock, and back to the driver what nobody has any more. */
void
_tarn_pool_unlock_and_sweep (TarnPool *pool)
{
  gboolean is_clean = pool->gone_queues == NULL && pool->gone_marks == NULL;

  _tarn_assert_locked (&pool->lock);
  _tarn_mutex_unlock (&pool->lock);
  if (!is_clean)
    _tarn_pool_sweep (pool);
}

/* Drops the caller's reference; NULL: it had none. */
void
_tarn_pool_leave_queue (TarnPool *pool, TarnQueue *queue)
{
  _tarn_mutex_lock (&pool->lock);
  if (queue != NULL)
    _tarn_queue_unref (pool, queue);
  _tarn_pool_unlock_and_sweep (pool);
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
  known = _tarn_pool_look_up_queue (pool, queue);
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
      _tarn_pool_flush (pool);
      mark = mark_new (event);
      TARN_FOR_EACH_BLOCK (block, &pool->chunks)
        mark_uses_of (pool, block, known, mark);
      mark_unref (pool, mark);
      make_unknown (pool, known);
      _tarn_mutex_unlock (&pool->lock);
    }
  _tarn_pool_leave_queue (pool, known);
  return event != NULL;
}
