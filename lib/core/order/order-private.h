/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Order: memory that commands on a queue still use is not handed to another queue before they are
 * done.
 *
 * A block knows which queues use it (TarnUse).  A pool meets a queue when a call first names it, or
 * when fresh memory is made ready on it, and knows it as long as a block or a call has a reference.
 * While it has met one only, and that runs its commands in order, nothing is to be done: what uses
 * the memory next comes after what used it before.
 *
 * A pool becomes ordered, for good, when it meets a second queue while it knows the first one; when
 * it meets an out-of-order queue, whose commands may overtake one another; when a request names no
 * queue, so that the host will use the memory, while it knows one; and when a queue is forgotten.
 * From then on each free records an event on every queue that used the block, there and then.  A
 * later request of another queue makes that queue wait for these events, and for nothing that was
 * put on the first one after the free. What was held when the second queue appeared shares an event
 * that is recorded at that moment.
 *
 * The driver is never called with the pool's lock held.  So a call that uses queues and events
 * without the lock has references on them; what nobody has any more waits in the pool's lists of
 * what has gone, until somebody who does not hold the lock sweeps it away.
 *
 *     allocate.c  requests: the public ones, and what serves nearly all of them
 *     order.c     requests that may have to wait, and what the caller says of blocks in use
 *     queue.c     the queues that a pool has met, and the events recorded on them
 *     free.c      the end of a block in use
 *     life.c      a pool's beginning and end */

#ifndef TARN_ORDER_PRIVATE_H
#define TARN_ORDER_PRIVATE_H

#include "pool/pool-private.h"

/* A backend's event, with what is known of it.  Blocks may share one. */
struct _TarnEvent
{
  gpointer
      handle; /* atomic: the backend's; NULL: not recorded, or not yet, which is as good as none */
  guint n_refs; /* behind the pool's lock */
  gint is_done; /* atomic: the backend said so once */
};

/* order.c.  The lock is held in the first, not in the others. */
TarnBlock *_tarn_pool_take_at_once (TarnPool *pool, TarnCache *cache, gsize size, guint32 number,
                                    gpointer handle);
TarnBlock *_tarn_pool_allocate_slowly (TarnPool *pool, gsize size, guint32 bin, gpointer handle,
                                       GError **error);
TarnBlock *_tarn_pool_move_to_host (TarnPool *pool, TarnBlock *block, GError **error);
gboolean _tarn_pool_record_use (TarnBlock *block, gpointer handle, GError **error);
gboolean _tarn_pool_move_to_queue (TarnBlock *block, gpointer handle, GError **error);

/* queue.c.  The lock is held in these; what nobody has any more is left to _tarn_pool_sweep (). */
TarnQueue *_tarn_pool_look_up_queue (TarnPool *pool, gpointer handle);
void _tarn_queue_unref (TarnPool *pool, TarnQueue *queue);
void _tarn_pool_begin_order (TarnPool *pool);
void _tarn_pool_unref_events (TarnPool *pool, GPtrArray *events);
void _tarn_block_set_queue (TarnPool *pool, TarnBlock *block, TarnQueue *queue);
gboolean _tarn_block_is_ready_for (const TarnBlock *block, const TarnQueue *queue);
gboolean _tarn_block_can_be_awaited (const TarnBlock *block, const TarnQueue *queue);
void _tarn_block_add_events (GPtrArray *events, const TarnBlock *block, const TarnQueue *queue);
void _tarn_pool_unlock_and_sweep (TarnPool *pool); /* and then it is not held */

/* And not in these. */
void _tarn_pool_sweep (TarnPool *pool);
TarnQueue *_tarn_pool_enter_queue (TarnPool *pool, gpointer handle, GError **error);
void _tarn_pool_leave_queue (TarnPool *pool, TarnQueue *queue);
void _tarn_pool_record_events (TarnPool *pool, TarnBlock *block);
gboolean _tarn_pool_await_uses (TarnPool *pool, TarnBlock *block, const TarnQueue *queue,
                                GError **error);
void _tarn_pool_drop_events (TarnPool *pool, TarnBlock *block);
gboolean _tarn_pool_waits_before_free (const TarnPool *pool);
void _tarn_pool_give_back_used (TarnBlock *block, gboolean is_wanted);

/* free.c */
gboolean _tarn_pool_ignores_free (TarnPool *pool);
void _tarn_pool_free_block (TarnBlock *block);
void _tarn_pool_put_back (TarnPool *pool, TarnBlock *block);

#endif
