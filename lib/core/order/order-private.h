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
 * it has references on them.
 *
 *     pool-mark.c   marks: making them, waiting for them, giving back what is still used
 *     pool-queue.c  the queues that a pool has met
 *     pool-order.c  requests */

#ifndef TARN_POOL_ORDER_PRIVATE_H
#define TARN_POOL_ORDER_PRIVATE_H

#include "pool/pool-private.h"

/* What a backend calls an event.  Blocks that were marked together share one. */
struct _TarnMark
{
  gpointer event;  /* atomic; NULL: not made yet, which is as good as no mark */
  guint n_refs;    /* behind the pool's lock */
  gint is_reached; /* atomic: the backend said so once */
};

/* pool-mark.c.  The lock is held, where it is not said otherwise; what nobody has any more is left
 * to _tarn_pool_sweep (). */
TarnMark *_tarn_mark_new (gpointer event);
TarnMark *_tarn_mark_ref (TarnMark *mark);
void _tarn_mark_unref (TarnPool *pool, TarnMark *mark);
void _tarn_pool_unref_marks (TarnPool *pool, GPtrArray *marks);
gboolean _tarn_use_is_marked (const TarnUse *use);
void _tarn_block_claim (TarnPool *pool, TarnBlock *block, TarnQueue *queue);
void _tarn_block_mark_uses_of (TarnPool *pool, TarnBlock *block, const TarnQueue *queue,
                               TarnMark *mark);
gboolean _tarn_block_is_ready_for (const TarnBlock *block, const TarnQueue *queue);
gboolean _tarn_block_can_be_awaited (const TarnBlock *block, const TarnQueue *queue);
void _tarn_block_add_marks (GPtrArray *marks, const TarnBlock *block, const TarnQueue *queue);

/* The lock is not held in these. */
void _tarn_pool_report_unmarked (const TarnPool *pool, const GError *error);
gboolean _tarn_pool_await_uses (TarnPool *pool, TarnBlock *block, const TarnQueue *queue,
                                GError **error);
void _tarn_pool_unmark_uses (TarnPool *pool, TarnBlock *block);

/* pool-queue.c.  The lock is held in the first three, not in the others. */
void _tarn_queue_make_unknown (TarnPool *pool, TarnQueue *queue);
void _tarn_queue_unref (TarnPool *pool, TarnQueue *queue);
void _tarn_pool_begin_order (TarnPool *pool);
TarnQueue *_tarn_pool_enter_queue (TarnPool *pool, gpointer handle, GError **error);
void _tarn_pool_leave_queue (TarnPool *pool, TarnQueue *queue);

#endif
