/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memory that commands on a queue still use is not handed to another queue before they are done.
 *
 * A block knows which queues use it.  While its pool has met one queue only, and that runs what is
 * put on it in order, nothing else is to be done: what uses the memory next comes after what used
 * it before.  From the second queue on (an out-of-order one is a second one to itself, and so is
 * the host, where a request names no queue), a free marks every queue that used the block, there
 * and then; a later request of another queue makes that wait for the marks, and for nothing that
 * was put there after the free.  What was held when the second queue appeared is marked then.
 *
 * The driver is never called under the pool's lock.  A call that looks at queues and marks without
 * it has references on them. */

#include "bin-private.h"
#include "fork-private.h"
#include "pool-private.h"

/* What a backend calls an event.  Blocks that were marked together share one. */
struct _TarnMark
{
  gpointer event;  /* atomic; NULL: not made yet, which is as good as no mark */
  guint n_refs;    /* behind the pool's lock */
  gint is_reached; /* atomic: the backend said so once */
};

/* How many blocks of a bin the driver is asked about before one is taken that has to be waited for.
 */
#define MAX_ASKED 4

static const TarnAllocatorOps *
get_ops (const TarnPool *pool)
{
  return &pool->upstream->direct->ops;
}

static gpointer
get_user_data (const TarnPool *pool)
{
  return pool->upstream->direct->user_data;
}

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
  mark->n_refs++;
  return mark;
}

static void
mark_unref (TarnPool *pool, TarnMark *mark)
{
  if (--mark->n_refs == 0)
    pool->gone_marks = g_slist_prepend (pool->gone_marks, mark);
}

/* In no table any more: a queue with the same handle is another one from now on. */
static void
make_unknown (TarnPool *pool, TarnQueue *queue)
{
  if (!queue->is_known)
    return;
  queue->is_known = FALSE;
  g_hash_table_remove (pool->queues, queue->handle);
  if (pool->latest_queue == queue)
    pool->latest_queue = NULL;
}

static void
queue_unref (TarnPool *pool, TarnQueue *queue)
{
  if (--queue->n_refs > 0)
    return;
  make_unknown (pool, queue);
  pool->gone_queues = g_slist_prepend (pool->gone_queues, queue);
}

/* Gives back what nobody has any more; the lock is not held. */
void
_tarn_pool_sweep (TarnPool *pool)
{
  const TarnAllocatorOps *ops = get_ops (pool);
  GSList *queues, *marks;

  _tarn_mutex_lock (&pool->lock);
  queues = g_steal_pointer (&pool->gone_queues);
  marks = g_steal_pointer (&pool->gone_marks);
  _tarn_mutex_unlock (&pool->lock);

  for (GSList *link = marks; link != NULL; link = link->next)
    {
      ops->unmark (get_user_data (pool), ((TarnMark *) link->data)->event);
      g_free (link->data);
    }
  for (GSList *link = queues; link != NULL; link = link->next)
    {
      ops->queue_unref (get_user_data (pool), ((TarnQueue *) link->data)->handle);
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
        mark_unref (pool, block->uses[i].mark);
      queue_unref (pool, block->uses[i].queue);
    }
  block->n_uses = 0;
}

/* The lock is held. */
static gboolean
is_used_by (const TarnBlock *block, const TarnQueue *queue)
{
  for (guint i = 0; i < block->n_uses; i++)
    if (block->uses[i].queue == queue)
      return TRUE;
  return FALSE;
}

/* For a queue alone from now on, or for nobody.  The lock is held. */
static void
claim (TarnPool *pool, TarnBlock *block, TarnQueue *queue)
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

/* Everything put on a queue so far.  Not every backend can keep a queue alive, and then only the
 * one that this call has named is asked. */
static gpointer
make_event (TarnPool *pool, const TarnQueue *queue, gboolean is_named, GError **error)
{
  const TarnAllocatorOps *ops = get_ops (pool);

  return is_named || ops->mark_all == NULL ? ops->mark (get_user_data (pool), queue->handle, error)
                                           : ops->mark_all (get_user_data (pool), error);
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

/* Marks what is to be marked of a block that no other request has. */
static void
mark_uses (TarnPool *pool, TarnBlock *block, gboolean are_named)
{
  for (guint i = 0; i < block->n_uses; i++)
    {
      g_autoptr (GError) error = NULL;
      gpointer event;

      if (is_marked_already (pool, &block->uses[i]))
        continue;
      event = make_event (pool, block->uses[i].queue, are_named, &error);
      if (event != NULL)
        set_mark (pool, &block->uses[i], event);
      else
        report_unmarked (pool, error);
    }
}

/* For a block that is being freed: its queues are alive, the caller says. */
void
_tarn_pool_mark_block (TarnPool *pool, TarnBlock *block)
{
  mark_uses (pool, block, TRUE);
}

/* Whether what uses the block is done, or comes before whatever is put on the queue from now on.
 * The lock is held here and in what follows. */
static gboolean
is_done_for (const TarnUse *use, const TarnQueue *queue)
{
  return (queue != NULL && queue->in_order && use->queue == queue)
         || (is_marked (use) && g_atomic_int_get (&use->mark->is_reached));
}

static gboolean
is_ready_for (const TarnBlock *block, const TarnQueue *queue)
{
  for (guint i = 0; i < block->n_uses; i++)
    if (!is_done_for (&block->uses[i], queue))
      return FALSE;
  return TRUE;
}

/* Whether the queue can be made to wait for it. */
static gboolean
can_be_awaited (const TarnBlock *block, const TarnQueue *queue)
{
  for (guint i = 0; i < block->n_uses; i++)
    if (!is_marked (&block->uses[i]) && !is_done_for (&block->uses[i], queue))
      return FALSE;
  return TRUE;
}

/* References on the marks that stand between the queue and the block. */
static void
add_marks (GPtrArray *marks, const TarnBlock *block, const TarnQueue *queue)
{
  for (guint i = 0; i < block->n_uses; i++)
    if (!is_done_for (&block->uses[i], queue))
      g_ptr_array_add (marks, mark_ref (block->uses[i].mark));
}

/* Takes the references; those that are NULL are none. */
static void
unref_marks (TarnPool *pool, GPtrArray *marks)
{
  for (guint i = 0; i < marks->len; i++)
    if (g_ptr_array_index (marks, i) != NULL)
      mark_unref (pool, g_ptr_array_index (marks, i));
  g_ptr_array_unref (marks);
}

/* NULL if some of what uses the block is not marked.  The lock is not held from here on. */
static GPtrArray *
list_marks_of (TarnPool *pool, const TarnBlock *block, const TarnQueue *queue, GError **error)
{
  GPtrArray *marks = NULL;

  _tarn_mutex_lock (&pool->lock);
  if (can_be_awaited (block, queue))
    {
      marks = g_ptr_array_new ();
      add_marks (marks, block, queue);
    }
  _tarn_mutex_unlock (&pool->lock);
  if (marks == NULL)
    g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
                 "pool '%s': what uses the memory cannot be waited for now", pool->base.ops.name);
  return marks;
}

/* Makes a queue, or the host, wait for whatever else uses a block that no other request has. */
static gboolean
await_uses (TarnPool *pool, TarnBlock *block, const TarnQueue *queue, GError **error)
{
  const TarnAllocatorOps *ops = get_ops (pool);
  gpointer handle = queue != NULL ? queue->handle : NULL;
  GPtrArray *marks;
  guint n_waits = 0;
  gboolean is_fine;

  mark_uses (pool, block, FALSE);
  if ((marks = list_marks_of (pool, block, queue, error)) == NULL)
    return FALSE;
  while (n_waits < marks->len
         && ops->wait (get_user_data (pool),
                       ((TarnMark *) g_ptr_array_index (marks, n_waits))->event, handle, error))
    n_waits++;
  _tarn_mutex_lock (&pool->lock);
  for (guint i = 0; i < n_waits && handle == NULL; i++)
    g_atomic_int_set (&((TarnMark *) g_ptr_array_index (marks, i))->is_reached, TRUE);
  pool->stats.queue_waits += n_waits;
  is_fine = n_waits == marks->len;
  unref_marks (pool, marks);
  _tarn_mutex_unlock (&pool->lock);
  return is_fine;
}

/* Whether memory must not go back to where it came from while commands use it. */
gboolean
_tarn_pool_waits_before_free (const TarnPool *pool)
{
  return !get_ops (pool)->frees_in_order || pool->upstream->direct != pool->upstream;
}

/* As the last thing on one of its queues, if the backend can. */
static gboolean
free_on_queue (TarnPool *pool, TarnBlock *block)
{
  const TarnAllocatorOps *ops = get_ops (pool);
  TarnQueue *queue = block->uses[0].queue;

  return ops->free_on_queue != NULL && pool->upstream->direct == pool->upstream
         && await_uses (pool, block, queue, NULL)
         && ops->free_on_queue (get_user_data (pool), block->memory, block->alloc_size,
                                queue->handle);
}

/* The host waits.  If it cannot, because the context is gone or a command has failed, nothing uses
 * the memory any more. */
static void
free_after_wait (TarnPool *pool, TarnBlock *block)
{
  g_autoptr (GError) error = NULL;

  if (_tarn_pool_waits_before_free (pool) && !await_uses (pool, block, NULL, &error)
      && !g_error_matches (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST))
    g_message ("pool '%s': %s: memory goes back all the same", pool->base.ops.name, error->message);
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

/* Queues */

/* The mark that everything held shares from now on; NULL if nothing is.  The lock is held. */
static TarnMark *
share_mark (TarnPool *pool)
{
  TarnMark *mark = mark_new (NULL);

  for (TarnBlock *block = pool->blocks; block != NULL; block = block->next)
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
static void
begin_order (TarnPool *pool)
{
  TarnQueue *queue = pool->latest_queue;
  g_autoptr (GError) error = NULL;
  gpointer event;
  TarnMark *mark;

  pool->is_ordered = TRUE;
  if (queue == NULL || (mark = share_mark (pool)) == NULL)
    return;
  queue->n_refs++;
  _tarn_mutex_unlock (&pool->lock);
  event = make_event (pool, queue, FALSE, &error);
  if (event == NULL)
    report_unmarked (pool, error);
  _tarn_mutex_lock (&pool->lock);
  g_atomic_pointer_set (&mark->event, event);
  mark_unref (pool, mark);
  queue_unref (pool, queue);
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
    begin_order (pool);
  queue = look_up_queue (pool, handle);
  is_known = queue != NULL;
  if (!is_known)
    queue = add_queue (pool, handle, in_order);
  queue->n_refs++;
  pool->latest_queue = queue;
  _tarn_mutex_unlock (&pool->lock);

  if (is_known)
    get_ops (pool)->queue_unref (get_user_data (pool), handle);
  return queue;
}

/* With a reference of the caller's. */
static TarnQueue *
enter (TarnPool *pool, gpointer handle, GError **error)
{
  const TarnAllocatorOps *ops = get_ops (pool);
  gboolean in_order = FALSE;
  TarnQueue *queue;

  _tarn_mutex_lock (&pool->lock);
  queue = look_up_queue (pool, handle);
  if (queue != NULL)
    {
      queue->n_refs++;
      pool->latest_queue = queue;
    }
  _tarn_mutex_unlock (&pool->lock);
  if (queue != NULL)
    return queue;
  if (ops->queue_ref == NULL)
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
                   "allocator '%s' knows nothing of queues", ops->name);
      return NULL;
    }
  return ops->queue_ref (get_user_data (pool), handle, &in_order, error)
             ? meet (pool, handle, in_order)
             : NULL;
}

static void
leave (TarnPool *pool, TarnQueue *queue)
{
  gboolean is_clean;

  _tarn_mutex_lock (&pool->lock);
  if (queue != NULL)
    queue_unref (pool, queue);
  is_clean = pool->gone_queues == NULL && pool->gone_marks == NULL;
  _tarn_mutex_unlock (&pool->lock);
  if (!is_clean)
    _tarn_pool_sweep (pool);
}

/* Requests */

static TarnBin *
get_bin (const TarnPool *pool, guint32 number)
{
  return g_hash_table_lookup (pool->bins, GUINT_TO_POINTER (number));
}

typedef gboolean (*Suits) (const TarnBlock *block, const TarnQueue *queue);

/* The first block of the bin that suits, of those that are worth a look, active for a request of
 * the queue; NULL if there is none.  The lock is held. */
static TarnBlock *
take_first (TarnPool *pool, guint32 number, gsize size, const TarnQueue *queue, Suits suits)
{
  TarnBin *bin = get_bin (pool, number);
  guint n_asked = 0;

  if (bin == NULL)
    return NULL;
  for (TarnBlock **link = &bin->top; *link != NULL && n_asked < MAX_ASKED; link = &(*link)->below)
    if (suits (*link, queue))
      return _tarn_pool_take_block (pool, bin, link, size);
    else
      n_asked += can_be_awaited (*link, queue);
  return NULL;
}

/* References on the marks that stand between the queue and blocks of the bin; NULL after those of
 * one block.  The lock is held. */
static GPtrArray *
list_marks (TarnPool *pool, guint32 number, const TarnQueue *queue)
{
  TarnBin *bin = get_bin (pool, number);
  GPtrArray *marks = g_ptr_array_new ();
  guint n_asked = 0;

  for (TarnBlock *block = bin != NULL ? bin->top : NULL; block != NULL && n_asked < MAX_ASKED;
       block = block->below)
    {
      if (!can_be_awaited (block, queue))
        continue;
      n_asked++;
      add_marks (marks, block, queue);
      g_ptr_array_add (marks, NULL);
    }
  return marks;
}

/* Asks the driver until one block is found whose marks are all reached. */
static void
ask_marks (TarnPool *pool, const GPtrArray *marks)
{
  gboolean are_reached = TRUE;

  for (guint i = 0; i < marks->len; i++)
    {
      TarnMark *mark = g_ptr_array_index (marks, i);

      if (mark == NULL && are_reached)
        return;
      if (mark == NULL)
        are_reached = TRUE;
      else if (are_reached && get_ops (pool)->reached (get_user_data (pool), mark->event))
        g_atomic_int_set (&mark->is_reached, TRUE);
      else
        are_reached = FALSE;
    }
}

/* Whether the block is the queue's now, without anybody being made to wait. */
static gboolean
claim_if_ready (TarnPool *pool, TarnBlock *block, TarnQueue *queue)
{
  gboolean is_ready;

  _tarn_mutex_lock (&pool->lock);
  is_ready = is_ready_for (block, queue);
  if (is_ready)
    claim (pool, block, queue);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);
  return is_ready;
}

/* Makes a block that no other request has the queue's, which waits where it has to. */
static gboolean
move_to_queue (TarnPool *pool, TarnBlock *block, TarnQueue *queue, GError **error)
{
  if (claim_if_ready (pool, block, queue))
    return TRUE;
  if (!await_uses (pool, block, queue, error))
    return FALSE;
  _tarn_mutex_lock (&pool->lock);
  claim (pool, block, queue);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);
  return TRUE;
}

/* NULL with an error, and the block back in its bin, if the queue cannot be made to wait. */
static TarnBlock *
settle (TarnPool *pool, TarnBlock *block, TarnQueue *queue, GError **error)
{
  if (move_to_queue (pool, block, queue, error))
    return block;
  _tarn_pool_put_back (pool, block);
  return NULL;
}

/* One that no driver has to be asked about.  The lock is held. */
static TarnBlock *
take_ready (TarnPool *pool, gsize size, guint32 number, TarnQueue *queue)
{
  TarnBlock *block = take_first (pool, number, size, queue, is_ready_for);

  if (block != NULL)
    claim (pool, block, queue);
  return block;
}

/* NULL without an error: nothing is held for the queue. */
static TarnBlock *
take_held (TarnPool *pool, gsize size, guint32 number, TarnQueue *queue, GError **error)
{
  GPtrArray *marks = NULL;
  TarnBlock *block;

  _tarn_mutex_lock (&pool->lock);
  block = take_ready (pool, size, number, queue);
  if (block == NULL)
    marks = list_marks (pool, number, queue);
  _tarn_mutex_unlock (&pool->lock);
  if (block != NULL)
    return block;

  ask_marks (pool, marks);
  _tarn_mutex_lock (&pool->lock);
  block = take_ready (pool, size, number, queue);
  if (block == NULL)
    block = take_first (pool, number, size, queue, can_be_awaited);
  unref_marks (pool, marks);
  _tarn_mutex_unlock (&pool->lock);
  return block != NULL ? settle (pool, block, queue, error) : NULL;
}

/* Fresh memory may be in use already, on a queue of the allocator's own. */
static gboolean
add_fresh_use (TarnPool *pool, TarnBlock *block, GError **error)
{
  const TarnAllocatorOps *ops = get_ops (pool);
  gpointer handle = ops->fresh_queue != NULL ? ops->fresh_queue (get_user_data (pool)) : NULL;
  TarnQueue *queue;

  if (handle == NULL)
    return TRUE;
  if ((queue = enter (pool, handle, error)) == NULL)
    return FALSE;
  _tarn_mutex_lock (&pool->lock);
  _tarn_block_add_use (block, queue);
  _tarn_mutex_unlock (&pool->lock);
  leave (pool, queue);
  return TRUE;
}

static void
count_failure (TarnPool *pool)
{
  _tarn_mutex_lock (&pool->lock);
  pool->stats.failures++;
  _tarn_mutex_unlock (&pool->lock);
}

static TarnBlock *
allocate_fresh (TarnPool *pool, gsize size, guint32 number, TarnQueue *queue, GError **error)
{
  const TarnAllocatorOps *ops = get_ops (pool);
  TarnBlock *block;

  if (queue != NULL && ops->check_queue != NULL
      && !ops->check_queue (get_user_data (pool), queue->handle, error))
    {
      count_failure (pool);
      return NULL;
    }
  block = _tarn_pool_allocate_miss (pool, size, number, error);
  if (block == NULL)
    return NULL;
  if (queue != NULL && !block->is_hit && !add_fresh_use (pool, block, error))
    {
      _tarn_pool_put_back (pool, block);
      return NULL;
    }
  return settle (pool, block, queue, error);
}

/* A request with a queue, or without one in a pool that has met some. */
TarnBlock *
_tarn_pool_allocate_slowly (TarnPool *pool, gsize size, guint32 bin, gpointer handle,
                            GError **error)
{
  TarnQueue *queue = handle != NULL ? enter (pool, handle, error) : NULL;
  GError *local = NULL;
  TarnBlock *block;

  if (handle != NULL && queue == NULL)
    {
      count_failure (pool);
      return NULL;
    }
  if (handle == NULL)
    {
      _tarn_mutex_lock (&pool->lock);
      if (!pool->is_ordered)
        begin_order (pool);
      _tarn_mutex_unlock (&pool->lock);
    }
  block = take_held (pool, size, bin, queue, &local);
  if (block == NULL && local == NULL)
    block = allocate_fresh (pool, size, bin, queue, &local);
  if (local != NULL)
    g_propagate_error (error, local);
  leave (pool, queue);
  return block;
}

/* What the caller says of a block in use */

gboolean
_tarn_pool_record_use (TarnBlock *block, gpointer handle, GError **error)
{
  TarnPool *pool = (TarnPool *) block->source;
  TarnQueue *queue = enter (pool, handle, error);

  if (queue == NULL)
    return FALSE;
  _tarn_mutex_lock (&pool->lock);
  if (!is_used_by (block, queue))
    _tarn_block_add_use (block, queue);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);
  leave (pool, queue);
  return TRUE;
}

gboolean
_tarn_pool_move_to_queue (TarnBlock *block, gpointer handle, GError **error)
{
  TarnPool *pool = (TarnPool *) block->source;
  TarnQueue *queue = handle != NULL ? enter (pool, handle, error) : NULL;
  gboolean is_moved;

  if (handle != NULL && queue == NULL)
    return FALSE;
  is_moved = move_to_queue (pool, block, queue, error);
  leave (pool, queue);
  return is_moved;
}

/* The lock is held. */
static void
mark_uses_of (TarnPool *pool, TarnBlock *block, const TarnQueue *queue, TarnMark *mark)
{
  for (guint i = 0; i < block->n_uses; i++)
    if (block->uses[i].queue == queue && !is_marked (&block->uses[i]))
      {
        if (block->uses[i].mark != NULL)
          mark_unref (pool, block->uses[i].mark);
        block->uses[i].mark = mark_ref (mark);
      }
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
  event = make_event (pool, known, TRUE, error);
  if (event != NULL)
    {
      _tarn_mutex_lock (&pool->lock);
      pool->is_ordered = TRUE;
      mark = mark_new (event);
      for (TarnBlock *block = pool->blocks; block != NULL; block = block->next)
        mark_uses_of (pool, block, known, mark);
      mark_unref (pool, mark);
      make_unknown (pool, known);
      _tarn_mutex_unlock (&pool->lock);
    }
  leave (pool, known);
  return event != NULL;
}
