/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Order: memory that commands on a queue still use is not handed to another queue before they are
 * done.
 *
 * A block knows which queues use it (TarnUse).  A pool meets a queue when a call first names it, or
 * when fresh memory is made ready on it, and knows it as long as a block or a call has a reference,
 * unless it is told to forget the queue.  Where a reference keeps no queue alive, a pool knows some
 * that nothing refers to for longer (queue.c).
 *
 * An in-order queue can reuse memory at once that it alone has used, because its next commands run
 * after the earlier ones.  So when such memory is freed, it goes to the queue's share of the pool,
 * without any call of the driver; or to a thread's cache in front of that, without a lock
 * (pool/cache-private.h).
 *
 * Memory changes queues in two ways.
 *
 *     timely events  The free records an event on every queue that uses the block, at once.  It
 *                    does so if several queues use the block, if the block was moved to its queue,
 *                    if the queue is out of order, if blocks of that size are handed over from
 *                    queue to queue all the time, or if the memory goes straight back.  A later
 *                    request of another queue makes that queue wait for these events, and for
 *                    nothing that was put on the first queue after the free.
 *
 *     late events    A request may find what it needs only in the shares of other queues.  Then it
 *                    takes fresh memory, and asks for an event on those queues.  The next request
 *                    or free for such a queue that takes the lock records one event for all that is
 *                    wanted of its share, because the queue lives then.  If the backend keeps
 *                    queues alive, the request that asks records it.  The event may stand for more
 *                    than was on the queue when the memory was freed.
 *
 * A request does not make its queue wait for a late event.  The event may stand for commands that
 * came after the free; these may wait for the host, and the host for this queue: a deadlock.  The
 * request only asks the driver whether the event is completed, so that the memory is idle.
 *
 * These do wait for a late event:
 *
 *     the host       where no memory is left, and where memory is returned
 *     a queue        where the caller says so, by moving a block in use; and for the queue that
 * makes fresh memory ready
 *
 * A heap keeps memory for each queue.  Over a heap, a block that only its own queue has used is
 * returned at any time without an event, and requests of that queue get memory from there.  A block
 * that is handed over from queue to queue records events when it is freed, and is returned when
 * they have completed.
 *
 * If no event can be recorded, as on a stream that captures a graph, the pool cannot tell when
 * memory is idle.  It stays with its queue, or is stuck in the pool if it was to be returned.
 *
 * The pool never calls the driver with its lock held.  So a call that uses queues and events
 * without the lock has references on them, or owns a block that does.  Unreferenced events and
 * queues are put on lists of the pool; the next call of _tarn_pool_unlock_and_sweep () releases
 * them afterwards.
 *
 *     request.c  requests, from top to bottom
 *     timeout.c  ... that wait for memory
 *     reserve.c  ... ahead of those to come
 *     held.c     ... served from what the pool holds
 *     others.c   ... and from the shares of other queues
 *     arena.c    meeting the arenas from which threads take memory without a lock
 *     use.c      what the caller says of blocks in use
 *     free.c     the end of a block in use
 *     watch.c    ... in pools that look at each one
 *     release.c  returning memory that is still used
 *     wait.c     who has to wait for a block, and waiting
 *     event.c    events, and recording them
 *     queue.c    the queues that a pool has met
 *     hold.c     how much a pool holds, and changing that
 *     life.c     a pool's beginning and end */

#ifndef TARN_ORDER_PRIVATE_H
#define TARN_ORDER_PRIVATE_H

#include "heap/arena-private.h"
#include "pool/pool-private.h"

/* A backend's event and its known state.  Blocks may share one. */
struct _TarnEvent
{
  gpointer handle;  /* atomic: the backend's; NULL: not recorded (yet), which counts as none */
  guint n_refs;     /* behind the pool's lock */
  gint is_done;     /* atomic: the backend has reported it as completed */
  gboolean is_late; /* constant: it may stand for commands that came after the free */
  TarnEvent *next;  /* in the list of unreferenced events */
};

/* After a block was handed over to another queue, this many frees of its size record events. */
#define TARN_RECORDED_FREES 32

/* One request asks the driver about at most this many events, and records events on at most this
 * many queues, if the backend keeps queues alive. */
#define TARN_MAX_ASKED 8
#define TARN_MAX_OTHERS 4

/* A request that its thread's cache did not serve, and what the pool found for it under the lock:
 * what it can use once the driver was asked. */
typedef struct
{
  gsize size;
  gsize alignment;  /* one that only fresh memory of a heap has; 0: that of all memory */
  guint32 number;   /* the bin's */
  TarnQueue *queue; /* a reference; NULL: the host, or a queue that the pool has not met yet */

  gboolean finds_unready; /* idle blocks that no queue has made ready */
  gboolean others_have;   /* other queues, of the size */
  gboolean asks_recorded; /* it pays to ask about recorded blocks */
  guint n_events;
  guint n_others;

  /* References: on the events that the queue would have to wait for to use recorded blocks, with a
   * NULL after the events of each block; and on the queues on which this request records an event.
   */
  TarnEvent *events[TARN_MAX_ASKED];
  TarnQueue *others[TARN_MAX_OTHERS];
} TarnRequest;

/* held.c.  The lock is held in the first two, */
TarnBlock *_tarn_pool_take_at_once (TarnPool *pool, TarnCache *cache, TarnRequest *request);
void _tarn_pool_clear_request (TarnPool *pool, TarnRequest *request);
/* not in these. */
TarnBlock *_tarn_pool_take_held (TarnPool *pool, TarnRequest *request, GError **error);
TarnBlock *_tarn_pool_move_or_put_back (TarnPool *pool, TarnBlock *block,
                                        const TarnRequest *request, gboolean may_be_late,
                                        GError **error);
void _tarn_pool_count_failure (TarnPool *pool);

/* others.c.  The lock is held in these, */
gboolean _tarn_pool_wants_event (const TarnPool *pool, const TarnQueue *queue);
void _tarn_pool_hand_on (TarnPool *pool, guint32 number);
void _tarn_pool_want_others (TarnPool *pool, TarnRequest *request);
void _tarn_pool_want_next (TarnPool *pool, TarnRequest *request);
void _tarn_pool_end_wants (TarnPool *pool, TarnRequest *request);
/* not in these. */
void _tarn_pool_record_share (TarnPool *pool, TarnQueue *queue, TarnBlock *freed,
                              gboolean is_named);
void _tarn_pool_record_others (TarnPool *pool, TarnRequest *request);

/* use.c.  The lock is not held. */
gboolean _tarn_pool_record_use (TarnBlock *block, gpointer handle, GError **error);
gboolean _tarn_pool_move_to_queue (TarnBlock *block, gpointer handle, GError **error);

/* event.c.  The lock is held in these, */
TarnEvent *_tarn_event_new (gpointer handle, gboolean is_late);
TarnEvent *_tarn_event_ref (TarnEvent *event);
void _tarn_event_unref (TarnPool *pool, TarnEvent *event);
gboolean _tarn_use_has_event (const TarnUse *use);
void _tarn_use_clear_event (TarnPool *pool, TarnUse *use);
void _tarn_block_record_free (TarnPool *pool, TarnBlock *block); /* and given up meanwhile */
void _tarn_block_share_event (TarnPool *pool, TarnBlock *block, const TarnQueue *queue,
                              TarnEvent *event);
void _tarn_pool_unlock_and_sweep (TarnPool *pool); /* and then it is not held */
/* not in these. */
gboolean _tarn_block_record_use (TarnPool *pool, TarnBlock *block, TarnUse *use, gboolean is_named,
                                 GError **error);
void _tarn_pool_report_unrecorded (const TarnPool *pool, const GError *error);

/* wait.c.  The lock is held in these, */
gboolean _tarn_block_is_ready_for (const TarnBlock *block, const TarnQueue *queue);
gboolean _tarn_block_is_recorded (const TarnBlock *block, const TarnQueue *queue);
gboolean _tarn_block_can_be_awaited (const TarnBlock *block, const TarnQueue *queue);
void _tarn_request_add_events (TarnRequest *request, const TarnBlock *block);
void _tarn_block_clear_uses (TarnPool *pool, TarnBlock *block);
void _tarn_block_use_fresh (TarnBlock *block, TarnQueue *fresh);
void _tarn_block_set_queue (TarnPool *pool, TarnBlock *block, TarnQueue *queue);
/* not in these. */
gboolean _tarn_block_move (TarnPool *pool, TarnBlock *block, TarnQueue *queue, gboolean may_be_late,
                           GError **error);
gboolean _tarn_block_await (TarnPool *pool, TarnBlock *block, const TarnQueue *queue,
                            gboolean may_be_late, GError **error);

/* release.c.  The lock is held in this one, */
gboolean _tarn_pool_can_go_at_once (const TarnPool *pool, const TarnBlock *block);
gboolean _tarn_pool_heap_knows (const TarnPool *pool, const TarnQueue *queue); /* and this one, */
/* not in these. */
void _tarn_pool_record_returning (TarnAllocator *pool, TarnBlock *blocks, gboolean is_wanted);
gboolean _tarn_pool_give_back_used (TarnBlock *block, gboolean is_wanted, GError **error);
gboolean _tarn_block_is_done (const TarnBlock *block);
gboolean _tarn_pool_waits_before_free (const TarnPool *pool);
gboolean _tarn_pool_ask_recorded (TarnPool *pool);
void _tarn_pool_give_back_excess (TarnPool *pool);
void _tarn_pool_look_after (TarnPool *pool, gpointer handle);
void _tarn_pool_spare_heap (TarnPool *pool, guint32 number, const TarnQueue *queue);

/* queue.c.  The lock is held in these, */
TarnQueue *_tarn_pool_find_queue (TarnPool *pool, gpointer handle);
TarnQueue *_tarn_pool_meet_queue (TarnPool *pool, gpointer handle, gboolean in_order);
void _tarn_queue_unref (TarnPool *pool, TarnQueue *queue);
void _tarn_queue_set_unrecorded (TarnPool *pool, TarnQueue *queue, gboolean has_unrecorded);
void _tarn_queue_begin_recording (TarnPool *pool, TarnQueue *queue);
void _tarn_queue_end_recording (TarnPool *pool, TarnQueue *queue);
void _tarn_pool_drop_released_queues (TarnPool *pool);
void _tarn_pool_drop_unused_queues (TarnPool *pool);
/* not in these. */
TarnQueue *_tarn_pool_enter_queue (TarnPool *pool, gpointer handle, GError **error);
gpointer _tarn_pool_get_fresh_queue (const TarnPool *pool);
gboolean _tarn_pool_enter_fresh (TarnPool *pool, TarnQueue **fresh, GError **error);
void _tarn_pool_leave_queue (TarnPool *pool, TarnQueue *queue);

/* redirect.c; the lock is not held */
gboolean _tarn_pool_allocate_redirected (TarnPool *pool, gsize size, gsize alignment,
                                         gpointer handle, TarnBlock **block, GError **error);
void _tarn_pool_end_redirect (TarnPool *pool);

/* Returns TRUE if a request has to ask which pool serves it. */
static inline gboolean
_tarn_pool_is_redirected (const TarnPool *pool)
{
  return __atomic_load_n (&pool->redirect, __ATOMIC_RELAXED) != NULL;
}

/* arena.c; the lock is not held */
void _tarn_pool_meet_arena (TarnPool *pool, gpointer handle, TarnBlock *block);
gboolean _tarn_pool_put_part (TarnPool *pool, TarnCache *cache, TarnBlock *block);

/* environment.c: reads settings from the environment, and prints the counters of pools */
gboolean _tarn_pool_read_environment (TarnAllocator *upstream, TarnPoolOptions *options,
                                      GError **error);
void _tarn_pool_print_stats (TarnPool *pool);
void _tarn_pool_print_stats_at_exit (void);
/* hold.c */
void _tarn_pool_init_hold (TarnPool *pool, const TarnPoolOptions *options);

/* free.c */
gboolean _tarn_pool_ignore_free (TarnPool *pool);
void _tarn_pool_ref_block (TarnBlock *block);
gboolean _tarn_pool_drop_reference (TarnPool *pool, TarnBlock *block);
void _tarn_pool_free_block (TarnBlock *block);
void _tarn_pool_free_watched (TarnBlock *block); /* watch.c */
void _tarn_pool_put_back (TarnPool *pool, TarnBlock *block);

/* Returns TRUE if a reference keeps a queue alive, so that any call may use the queue. */
static inline gboolean
_tarn_pool_keeps_queues_alive (const TarnPool *pool)
{
  return pool->upstream->direct->ops.event_record_all == NULL;
}

#endif
