/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The queues that a pool has met, each as long as anything remembers it; and the events recorded on
 * them: recording them, waiting for them, giving back memory that is still used. */

#include "base/fork-private.h"
#include "order/order-private.h"
#include "pool/cache-private.h"

/* References on events and queues.  The lock is held; _tarn_pool_sweep () frees what nobody has any
 * more, without it. */

/* Makes an event of a backend's handle, with one reference; NULL: it is yet to be recorded. */
static TarnEvent *
event_new (gpointer handle)
{
  TarnEvent *event = g_new0 (TarnEvent, 1);

  event->handle = handle;
  event->n_refs = 1;
  return event;
}

static TarnEvent *
event_ref (TarnEvent *event)
{
  g_assert (event->n_refs > 0);
  event->n_refs++;
  return event;
}

/* Drops a reference; an event that nobody has any more is left to _tarn_pool_sweep (). */
static void
event_unref (TarnPool *pool, TarnEvent *event)
{
  _tarn_assert_locked (&pool->lock);
  g_assert (event->n_refs > 0);
  if (--event->n_refs == 0)
    pool->gone_events = g_slist_prepend (pool->gone_events, event);
}

/* Gives back to the driver what nobody has any more.  The lock is not held. */
void
_tarn_pool_sweep (TarnPool *pool)
{
  TarnAllocator *direct = pool->upstream->direct;
  GSList *queues, *events;

  _tarn_assert_not_locked (&pool->lock);
  _tarn_mutex_lock (&pool->lock);
  queues = g_steal_pointer (&pool->gone_queues);
  events = g_steal_pointer (&pool->gone_events);
  _tarn_mutex_unlock (&pool->lock);

  for (GSList *link = events; link != NULL; link = link->next)
    {
      gpointer handle = ((TarnEvent *) link->data)->handle;

      if (handle != NULL)
        direct->ops.event_release (direct->user_data, handle);
      g_free (link->data);
    }
  for (GSList *link = queues; link != NULL; link = link->next)
    {
      _tarn_allocator_unref_queue (direct, ((TarnQueue *) link->data)->handle);
      g_free (link->data);
    }
  g_slist_free (events);
  g_slist_free (queues);
}

/* Queues */

/* Notes the queue that was named last.  While the pool has met one only, threads' caches are for
 * it. */
static void
set_latest (TarnPool *pool, TarnQueue *queue)
{
  _tarn_assert_locked (&pool->lock);
  pool->latest_queue = queue;
  if (!pool->is_ordered)
    _tarn_pool_set_fast_queue (pool, queue != NULL ? queue->handle : NULL);
}

/* Takes a queue out of the pool's table: a queue with the same handle is another one from now on.
 */
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

/* Drops a reference; a queue that nobody has any more leaves the pool's table, which may flush the
 * caches that were for it, and is left to _tarn_pool_sweep (). */
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

/* Drops all that a block knows of queues.  The lock is held. */
static void
clear_uses (TarnPool *pool, TarnBlock *block)
{
  _tarn_assert_locked (&pool->lock);
  for (guint i = 0; i < block->n_uses; i++)
    {
      if (block->uses[i].event != NULL)
        event_unref (pool, block->uses[i].event);
      _tarn_queue_unref (pool, block->uses[i].queue);
    }
  block->n_uses = 0;
}

/* Makes a block used by a queue alone; NULL: by nobody.  Nobody waits: the block's uses are done,
 * or were waited for.  The lock is held.  The caller has a reference on the queue, because the
 * block's may be the last one. */
void
_tarn_block_set_queue (TarnPool *pool, TarnBlock *block, TarnQueue *queue)
{
  _tarn_assert_locked (&pool->lock);
  if (block->n_uses == 1 && block->uses[0].queue == queue && block->uses[0].event == NULL)
    return;
  clear_uses (pool, block);
  g_assert (queue == NULL || queue->n_refs > 0);
  if (queue != NULL)
    _tarn_block_add_use (block, queue);
}

/* Recording */

/* Tells whether an event was recorded for a use. */
static gboolean
has_event (const TarnUse *use)
{
  return use->event != NULL && g_atomic_pointer_get (&use->event->handle) != NULL;
}

/* Says that no event could be recorded, unless that is to be expected: the memory stays with its
 * queue. */
static void
report_unrecorded (const TarnPool *pool, const GError *error)
{
  if (!g_error_matches (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED)
      && !g_error_matches (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST))
    g_message ("%s: %s: memory can be used again on its own queue only", pool->base.label,
               error->message);
}

/* Sets the event of a use.  Another thread may have set one meanwhile, because the queue is to be
 * forgotten: then this one is one too many. */
static void
set_event (TarnPool *pool, TarnUse *use, gpointer handle)
{
  TarnEvent *event = event_new (handle);

  _tarn_mutex_lock (&pool->lock);
  if (!has_event (use))
    {
      TarnEvent *before = use->event;

      use->event = event;
      event = before;
    }
  if (event != NULL)
    event_unref (pool, event);
  _tarn_mutex_unlock (&pool->lock);
}

/* Tells the same as has_event () where the lock is not held. */
static gboolean
has_event_already (TarnPool *pool, const TarnUse *use)
{
  gboolean is_so;

  _tarn_assert_not_locked (&pool->lock);
  _tarn_mutex_lock (&pool->lock);
  is_so = has_event (use);
  _tarn_mutex_unlock (&pool->lock);
  return is_so;
}

/* Records an event for a use, unless it has one, of a block that no other call works on. @is_named:
 * the caller vouches that the queue lives.  The lock is not held. */
static gboolean
record_event (TarnPool *pool, TarnUse *use, gboolean is_named, GError **error)
{
  gpointer handle;

  _tarn_assert_not_locked (&pool->lock);
  if (has_event_already (pool, use))
    return TRUE;
  handle
      = _tarn_allocator_record_event (pool->upstream->direct, use->queue->handle, is_named, error);
  if (handle != NULL)
    set_event (pool, use, handle);
  return handle != NULL;
}

/* Has a block share an event for its uses of a queue that have none.  The lock is held. */
static void
share_event_with (TarnPool *pool, TarnBlock *block, const TarnQueue *queue, TarnEvent *event)
{
  _tarn_assert_locked (&pool->lock);
  for (guint i = 0; i < block->n_uses; i++)
    if (block->uses[i].queue == queue && !has_event (&block->uses[i]))
      {
        if (block->uses[i].event != NULL)
          event_unref (pool, block->uses[i].event);
        block->uses[i].event = event_ref (event);
      }
}

/* Notes that no event could be recorded for a use; or has held blocks for which that was noted
 * before share the event that could, of the same queue, which comes after what they were used for,
 * too.  In a pool without order only what goes back has events, and what is held must have none.
 * The lock is held. */
static void
share_with_unrecorded (TarnPool *pool, const TarnUse *use)
{
  _tarn_assert_locked (&pool->lock);
  if (!pool->is_ordered)
    return;
  if (!has_event (use))
    {
      use->queue->has_unrecorded = TRUE;
      return;
    }
  if (!use->queue->has_unrecorded)
    return;
  use->queue->has_unrecorded = FALSE;
  TARN_FOR_EACH_BLOCK (block, &pool->chunks)
    if (block->state == TARN_BLOCK_HELD)
      share_event_with (pool, block, use->queue, use->event);
}

/* Records events for all uses of a block that is being freed: its user vouches that the queues
 * live. The lock is not held. */
void
_tarn_pool_record_events (TarnPool *pool, TarnBlock *block)
{
  g_assert (block->state == TARN_BLOCK_ENDING || block->state == TARN_BLOCK_ACTIVE);
  for (guint i = 0; i < block->n_uses; i++)
    {
      g_autoptr (GError) error = NULL;

      if (!record_event (pool, &block->uses[i], TRUE, &error))
        report_unrecorded (pool, error);
    }
  _tarn_mutex_lock (&pool->lock);
  for (guint i = 0; i < block->n_uses; i++)
    share_with_unrecorded (pool, &block->uses[i]);
  _tarn_mutex_unlock (&pool->lock);
}

/* Tells whether a use is done, or comes before whatever is put on a queue from now on.  The lock is
 * held here and in what follows. */
static gboolean
is_done_for (const TarnUse *use, const TarnQueue *queue)
{
  return (queue != NULL && queue->in_order && use->queue == queue)
         || (has_event (use) && g_atomic_int_get (&use->event->is_done));
}

/* Tells whether a queue (NULL: the host) can use a block without a wait. */
gboolean
_tarn_block_is_ready_for (const TarnBlock *block, const TarnQueue *queue)
{
  for (guint i = 0; i < block->n_uses; i++)
    if (!is_done_for (&block->uses[i], queue))
      return FALSE;
  return TRUE;
}

/* Tells whether a queue can use a block, if it is made to wait. */
gboolean
_tarn_block_can_be_awaited (const TarnBlock *block, const TarnQueue *queue)
{
  for (guint i = 0; i < block->n_uses; i++)
    if (!has_event (&block->uses[i]) && !is_done_for (&block->uses[i], queue))
      return FALSE;
  return TRUE;
}

/* Adds references on the events that stand between a queue and a block to a list. */
void
_tarn_block_add_events (GPtrArray *events, const TarnBlock *block, const TarnQueue *queue)
{
  for (guint i = 0; i < block->n_uses; i++)
    if (!is_done_for (&block->uses[i], queue))
      g_ptr_array_add (events, event_ref (block->uses[i].event));
}

/* Drops a list of references, among which may be NULLs. */
void
_tarn_pool_unref_events (TarnPool *pool, GPtrArray *events)
{
  _tarn_assert_locked (&pool->lock);
  for (guint i = 0; i < events->len; i++)
    if (g_ptr_array_index (events, i) != NULL)
      event_unref (pool, g_ptr_array_index (events, i));
  g_ptr_array_unref (events);
}

/* Tells the same as is_done_for () where the lock is not held. */
static gboolean
is_done_already (TarnPool *pool, const TarnUse *use, const TarnQueue *queue)
{
  gboolean is_so;

  _tarn_assert_not_locked (&pool->lock);
  _tarn_mutex_lock (&pool->lock);
  is_so = is_done_for (use, queue);
  _tarn_mutex_unlock (&pool->lock);
  return is_so;
}

/* Makes a queue, or the host, wait for a use of a block that no other call has.  An event that is
 * recorded stays the use's as long as the block is nobody else's.  The lock is not held from here
 * on. */
static gboolean
await_use (TarnPool *pool, TarnUse *use, const TarnQueue *queue, GError **error)
{
  gpointer handle = queue != NULL ? queue->handle : NULL;

  _tarn_assert_not_locked (&pool->lock);
  if (is_done_already (pool, use, queue))
    return TRUE;
  if (!record_event (pool, use, FALSE, error)
      || !_tarn_allocator_wait (pool->upstream->direct, use->event->handle, handle, error))
    return FALSE;
  _tarn_mutex_lock (&pool->lock);
  pool->stats.queue_waits++;
  if (queue == NULL)
    g_atomic_int_set (&use->event->is_done, TRUE);
  _tarn_mutex_unlock (&pool->lock);
  return TRUE;
}

/* Makes a queue, or the host, wait for all uses of a block. */
gboolean
_tarn_pool_await_uses (TarnPool *pool, TarnBlock *block, const TarnQueue *queue, GError **error)
{
  for (guint i = 0; i < block->n_uses; i++)
    if (!await_use (pool, &block->uses[i], queue, error))
      return FALSE;
  return TRUE;
}

/* Drops the events that a move has recorded, the only ones that a block in use has, because it
 * failed and the block stays on its queues: what comes after these events uses it, too.  A queue
 * that was forgotten is not used any more, so its event stays. */
void
_tarn_pool_drop_events (TarnPool *pool, TarnBlock *block)
{
  _tarn_mutex_lock (&pool->lock);
  for (guint i = 0; i < block->n_uses; i++)
    if (block->uses[i].event != NULL && block->uses[i].queue->is_known)
      event_unref (pool, g_steal_pointer (&block->uses[i].event));
  _tarn_mutex_unlock (&pool->lock);
}

/* Tells whether memory must not go back to upstream while commands use it. */
gboolean
_tarn_pool_waits_before_free (const TarnPool *pool)
{
  return !pool->upstream->direct->ops.frees_in_order || pool->upstream->direct != pool->upstream;
}

/* Frees a block's memory as the last thing on one of its queues.  FALSE: the backend cannot, or the
 * queue cannot be made to wait for the others. */
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
    g_message ("%s: %s: the host waits instead", pool->base.label, error->message);
  return FALSE;
}

/* Has the host wait for a use of a block whose memory goes back in any case. */
static void
await_end (TarnPool *pool, TarnUse *use)
{
  g_autoptr (GError) error = NULL;

  if (!await_use (pool, use, NULL, &error)
      && !g_error_matches (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST))
    g_message ("%s: %s: memory goes back all the same", pool->base.label, error->message);
}

/* Frees a block's memory after the host has waited for its uses, unless upstream frees in order.
 * What cannot be waited for, because the context is gone or a command has failed, does not use the
 * memory any more. */
static void
free_after_wait (TarnPool *pool, TarnBlock *block)
{
  _tarn_assert_not_locked (&pool->lock);
  for (guint i = 0; i < block->n_uses && _tarn_pool_waits_before_free (pool); i++)
    await_end (pool, &block->uses[i]);
  tarn_allocator_free_memory (pool->upstream, block->memory, block->alloc_size);
}

/* Gives the memory of a retired block back that commands may still use.  @is_wanted: there has to
 * be room when this returns; else it may go as soon as they are done, unless a limit counts what is
 * there. */
void
_tarn_pool_give_back_used (TarnBlock *block, gboolean is_wanted)
{
  TarnPool *pool = _tarn_pool_of (block->source);

  g_assert (block->state == TARN_BLOCK_RETIRED && block->n_uses > 0);
  if (is_wanted || !_tarn_pool_waits_before_free (pool) || tarn_pool_get_limit_bytes (pool) != 0
      || !free_on_queue (pool, block))
    free_after_wait (pool, block);
  _tarn_mutex_lock (&pool->lock);
  clear_uses (pool, block);
  _tarn_mutex_unlock (&pool->lock);
  _tarn_pool_sweep (pool);
}

/* Meeting queues */

/* Makes the event that every held block which a queue has used shares, and which is yet to be
 * recorded; NULL: there is no such block.  Until now the pool was not ordered, so each has one use,
 * without an event.  The lock is held. */
static TarnEvent *
share_event (TarnPool *pool)
{
  TarnEvent *event = event_new (NULL);

  _tarn_assert_locked (&pool->lock);
  TARN_FOR_EACH_BLOCK (block, &pool->chunks)
    if (block->state == TARN_BLOCK_HELD && block->n_uses > 0)
      block->uses[0].event = event_ref (event);
  if (event->n_refs > 1)
    return event;
  g_free (event);
  return NULL;
}

/* Makes a pool ordered: events are recorded when blocks are freed from now on.  All that is held
 * was used on one queue, so one event is enough for it, which is recorded while the lock is given
 * up. Until then these blocks can be used on their own queue only, and after that, too, if it
 * cannot be recorded.  The lock is held, and is so again afterwards. */
void
_tarn_pool_begin_order (TarnPool *pool)
{
  TarnQueue *queue = pool->latest_queue;
  g_autoptr (GError) error = NULL;
  gpointer handle;
  TarnEvent *event;

  _tarn_assert_locked (&pool->lock);
  g_assert (!pool->is_ordered);
  pool->is_ordered = TRUE;
  _tarn_pool_flush (pool);
  if (queue == NULL || (event = share_event (pool)) == NULL)
    return;
  queue->n_refs++;
  _tarn_mutex_unlock (&pool->lock);
  handle = _tarn_allocator_record_event (pool->upstream->direct, queue->handle, FALSE, &error);
  if (handle == NULL)
    report_unrecorded (pool, error);
  _tarn_mutex_lock (&pool->lock);
  g_atomic_pointer_set (&event->handle, handle);
  event_unref (pool, event);
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

/* Adds a queue to the pool's table, with the backend's reference.  The table has no reference of
 * its own: the caller takes the first one.  The lock is held. */
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

/* Meets a queue that the backend has just given a reference on, and gets it with a reference of the
 * caller's.  Another thread may have been faster: then the backend's is one too many. */
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

/* Tells whether a queue can be met now: to meet a second one is to record an event for what is
 * held, which a capture forbids. */
static gboolean
can_meet (TarnPool *pool, gpointer handle, gboolean in_order, GError **error)
{
  gboolean is_second;

  _tarn_mutex_lock (&pool->lock);
  is_second = !pool->is_ordered && (!in_order || pool->latest_queue != NULL);
  _tarn_mutex_unlock (&pool->lock);
  return !is_second || _tarn_allocator_check_queue (pool->upstream->direct, handle, error);
}

/* Gets a queue, with a reference of the caller's; the pool meets it if it does not know it yet. */
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
  gboolean is_clean = pool->gone_queues == NULL && pool->gone_events == NULL;

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
 * Tells a pool that a queue will be destroyed before its commands are done. They may still use
 * memory of the pool, held or not, and a later queue may have the same handle. The call is needed
 * only where a backend cannot keep queues alive: OpenCL retains them.
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
  gpointer handle;
  TarnEvent *event;

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
  handle = _tarn_allocator_record_event (pool->upstream->direct, queue, TRUE, error);
  if (handle != NULL)
    {
      _tarn_mutex_lock (&pool->lock);
      pool->is_ordered = TRUE;
      _tarn_pool_flush (pool);
      event = event_new (handle);
      TARN_FOR_EACH_BLOCK (block, &pool->chunks)
        share_event_with (pool, block, known, event);
      event_unref (pool, event);
      make_unknown (pool, known);
      _tarn_mutex_unlock (&pool->lock);
    }
  _tarn_pool_leave_queue (pool, known);
  return handle != NULL;
}
