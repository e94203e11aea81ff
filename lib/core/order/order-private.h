/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Order: while commands on a queue still use memory, the pool hands the memory to no other queue.
 *
 * A block knows which queues use it (TarnUse).  A pool meets a queue, which means that it adds the
 * queue to its table, when a call first names the queue, or when the backend makes fresh memory
 * ready on it.  The queue stays in the table as long as a block or a call has a reference to it,
 * unless the program makes the pool forget it.  If the backend's reference does not keep a queue
 * alive, some queues stay in the table for a while after their last reference (queue.c).
 *
 * An in-order queue can reuse at once the memory that it alone has used, because its next commands
 * run after its earlier ones.  So a free puts such memory into the queue's share, the free lists
 * that the pool keeps for this queue, without any call of the driver; or into a thread's cache in
 * front of the share, without a lock (pool/cache-private.h).
 *
 * Memory changes queues in two ways.
 *
 *     timely events  The free records an event on every queue that uses the block, at once.  It
 *                    does so if several queues use the block, if the block was moved to its queue,
 *                    if the queue is out of order, if blocks of that size are often handed over
 *                    from queue to queue, or if the pool returns the memory to upstream at once.  A
 *                    later request of another queue makes that queue wait for these events, but not
 *                    for commands that were put on the first queue after the free.
 *
 *     late events    A request may find suitable blocks only in the shares of other queues.  Then
 *                    it takes fresh memory, and asks for an event on those queues.  The next
 *                    request or free that names such a queue and takes the lock records one event
 *                    for all blocks of its share that are wanted, because the queue is alive then.
 *                    If the backend keeps queues alive, the request that asks records the event
 *                    itself.  The event may also stand for commands that came after the free.
 *
 * A request does not make its queue wait for a late event.  The event may stand for commands that
 * came after the free.  These commands may wait for the host, and the host may wait for the
 * request's queue, which would be a deadlock.  The request only asks the driver whether the event
 * is completed.  If it is, the memory is idle.
 *
 * Only these wait for a late event:
 *
 *     the host       if no memory is left, and before the pool returns memory to upstream
 *     a queue        if the program moves a block in use to this queue, or if the late event is on
 *                    the queue that makes fresh memory ready
 *
 * A heap keeps free memory for each queue.  A pool over a heap may return a block that only its own
 * queue has used to the heap at any time, without an event; the heap then serves requests of that
 * queue from this memory.  If a block was handed over from queue to queue, its free records events,
 * and the pool returns the block when these events have completed.
 *
 * If no event can be recorded, as on a stream that captures a graph, the pool cannot tell when
 * memory is idle.  The memory then stays in its queue's share.  If the pool was about to return it
 * to upstream, the memory is stuck: the pool keeps it and tries to return it later.
 *
 * The pool never calls the driver with its lock held.  So a function that uses queues and events
 * without the lock has references to them, or owns a block that has.  When an event or a queue
 * loses its last reference, the pool puts it on a list; the next call of
 * _tarn_pool_unlock_and_sweep () releases the lock, and then all that are on the list.
 *
 *     request.c      serves requests
 *     timeout.c      requests that wait for memory
 *     reserve.c      reserves memory for later requests
 *     held.c         serves requests from held blocks
 *     others.c       makes blocks in other queues' shares available
 *     redirect.c     lets other pools serve requests
 *     arena.c        meets the arenas from which threads take memory without a lock
 *     use.c          records which queues use a block, as the program says
 *     free.c         frees blocks
 *     watch.c        frees blocks in pools that inspect each freed block
 *     release.c      returns memory to upstream while commands may still use it
 *     wait.c         decides who has to wait for a block, and waits
 *     event.c        counts references to events, and records events
 *     queue.c        the table of queues that a pool has met
 *     hold.c         sets how much a pool holds
 *     environment.c  reads settings from the environment, and prints counters
 *     life.c         makes and ends pools */

#ifndef TARN_ORDER_PRIVATE_H
#define TARN_ORDER_PRIVATE_H

#include "heap/arena-private.h"
#include "pool/pool-private.h"

/* An event of the backend, and what the pool knows of its state.  Several blocks may share one
 * TarnEvent. */
struct _TarnEvent
{
  gpointer handle;  /* atomic: the backend's event; NULL: not recorded yet, or recording failed; a
                       use with such an event counts as a use without one */
  guint n_refs;     /* behind the pool's lock */
  gint is_done;     /* atomic: the backend has reported it as completed */
  gboolean is_late; /* constant: the event may also stand for commands that were put on the queue
                       after the free */
  TarnEvent *next;  /* the next in the pool's list of unreferenced events */
};

/* The number of frees that record an event after a block was handed over to another queue: the next
 * frees of blocks of the same size. */
#define TARN_RECORDED_FREES 32

/* TARN_MAX_ASKED: the most events that one request asks the driver about.  TARN_MAX_OTHERS: the
 * most other queues on which one request records events.  (A request does so only if the backend
 * keeps queues alive.) */
#define TARN_MAX_ASKED 8
#define TARN_MAX_OTHERS 4

/* A request that its thread's cache did not serve, and the held blocks that it may use after the
 * driver was asked.  The pool fills this in while it holds its lock. */
typedef struct
{
  gsize size;
  gsize alignment;  /* bytes; an alignment that only fresh memory of a heap has; 0: the alignment
                       that all memory has */
  guint32 number;   /* the number of the bin for the size */
  TarnQueue *queue; /* a reference; NULL: the request is for the host, or for a queue that is not in
                       the pool's table yet */

  gboolean finds_unready; /* there are idle blocks of the size, but their memory is fresh, and the
                             queue that makes it ready may not have done so yet */
  gboolean others_have;   /* other queues have blocks of the size in their shares */
  gboolean asks_recorded; /* the pool exceeds its bound, or has held recorded blocks for long: ask
                             the driver about these blocks before allocating */
  guint n_events;
  guint n_others;

  /* events: references to the events for which the queue would have to wait to use recorded blocks,
   * with a NULL after the events of each block.  others: references to the queues on which this
   * request records an event. */
  TarnEvent *events[TARN_MAX_ASKED];
  TarnQueue *others[TARN_MAX_OTHERS];
} TarnRequest;

/* held.c.  Callers hold the lock for these two functions. */
TarnBlock *_tarn_pool_take_at_once (TarnPool *pool, TarnCache *cache, TarnRequest *request);
void _tarn_pool_clear_request (TarnPool *pool, TarnRequest *request);
/* Callers do not hold it for these. */
TarnBlock *_tarn_pool_take_held (TarnPool *pool, TarnRequest *request, GError **error);
TarnBlock *_tarn_pool_move_or_put_back (TarnPool *pool, TarnBlock *block,
                                        const TarnRequest *request, gboolean may_be_late,
                                        GError **error);
void _tarn_pool_count_failure (TarnPool *pool);

/* others.c.  Callers hold the lock for these functions. */
gboolean _tarn_pool_wants_event (const TarnPool *pool, const TarnQueue *queue);
void _tarn_pool_hand_on (TarnPool *pool, guint32 number);
void _tarn_pool_want_others (TarnPool *pool, TarnRequest *request);
void _tarn_pool_want_next (TarnPool *pool, TarnRequest *request);
void _tarn_pool_end_wants (TarnPool *pool, TarnRequest *request);
/* Callers do not hold it for these. */
void _tarn_pool_record_share (TarnPool *pool, TarnQueue *queue, TarnBlock *freed,
                              gboolean is_named);
void _tarn_pool_record_others (TarnPool *pool, TarnRequest *request);

/* use.c.  Callers do not hold the lock. */
gboolean _tarn_pool_record_use (TarnBlock *block, gpointer handle, GError **error);
gboolean _tarn_pool_move_to_queue (TarnBlock *block, gpointer handle, GError **error);

/* event.c.  Callers hold the lock for these functions. */
TarnEvent *_tarn_event_new (gpointer handle, gboolean is_late);
TarnEvent *_tarn_event_ref (TarnEvent *event);
void _tarn_event_unref (TarnPool *pool, TarnEvent *event);
gboolean _tarn_use_has_event (const TarnUse *use);
void _tarn_use_clear_event (TarnPool *pool, TarnUse *use);
void _tarn_block_record_free (TarnPool *pool, TarnBlock *block); /* releases the lock meanwhile */
void _tarn_block_share_event (TarnPool *pool, TarnBlock *block, const TarnQueue *queue,
                              TarnEvent *event);
void _tarn_pool_unlock_and_sweep (TarnPool *pool); /* releases the lock */
/* Callers do not hold it for these. */
gboolean _tarn_block_record_use (TarnPool *pool, TarnBlock *block, TarnUse *use, gboolean is_named,
                                 GError **error);
void _tarn_pool_report_unrecorded (const TarnPool *pool, const GError *error);

/* wait.c.  Callers hold the lock for these functions. */
gboolean _tarn_block_is_ready_for (const TarnBlock *block, const TarnQueue *queue);
gboolean _tarn_block_is_recorded (const TarnBlock *block, const TarnQueue *queue);
gboolean _tarn_block_can_be_awaited (const TarnBlock *block, const TarnQueue *queue);
void _tarn_request_add_events (TarnRequest *request, const TarnBlock *block);
void _tarn_block_clear_uses (TarnPool *pool, TarnBlock *block);
void _tarn_block_use_fresh (TarnBlock *block, TarnQueue *fresh);
void _tarn_block_set_queue (TarnPool *pool, TarnBlock *block, TarnQueue *queue);
/* Callers do not hold it for these. */
gboolean _tarn_block_move (TarnPool *pool, TarnBlock *block, TarnQueue *queue, gboolean may_be_late,
                           GError **error);
gboolean _tarn_block_await (TarnPool *pool, TarnBlock *block, const TarnQueue *queue,
                            gboolean may_be_late, GError **error);

/* release.c.  Callers hold the lock for these two functions. */
gboolean _tarn_pool_can_go_at_once (const TarnPool *pool, const TarnBlock *block);
gboolean _tarn_pool_heap_knows (const TarnPool *pool, const TarnQueue *queue); /* the second */
/* Callers do not hold it for these. */
void _tarn_pool_record_returning (TarnAllocator *pool, TarnBlock *blocks, gboolean is_wanted);
gboolean _tarn_pool_give_back_used (TarnBlock *block, gboolean is_wanted, GError **error);
gboolean _tarn_block_is_done (const TarnBlock *block);
gboolean _tarn_pool_waits_before_free (const TarnPool *pool);
gboolean _tarn_pool_ask_recorded (TarnPool *pool);
void _tarn_pool_give_back_excess (TarnPool *pool);
void _tarn_pool_look_after (TarnPool *pool, gpointer handle);
void _tarn_pool_spare_heap (TarnPool *pool, guint32 number, const TarnQueue *queue);

/* queue.c.  Callers hold the lock for these functions. */
TarnQueue *_tarn_pool_find_queue (TarnPool *pool, gpointer handle);
TarnQueue *_tarn_pool_meet_queue (TarnPool *pool, gpointer handle, gboolean in_order);
void _tarn_queue_unref (TarnPool *pool, TarnQueue *queue);
void _tarn_queue_set_unrecorded (TarnPool *pool, TarnQueue *queue, gboolean has_unrecorded);
void _tarn_queue_begin_recording (TarnPool *pool, TarnQueue *queue);
void _tarn_queue_end_recording (TarnPool *pool, TarnQueue *queue);
void _tarn_pool_drop_released_queues (TarnPool *pool);
void _tarn_pool_drop_unused_queues (TarnPool *pool);
/* Callers do not hold it for these. */
TarnQueue *_tarn_pool_enter_queue (TarnPool *pool, gpointer handle, GError **error);
gpointer _tarn_pool_get_fresh_queue (const TarnPool *pool);
gboolean _tarn_pool_enter_fresh (TarnPool *pool, TarnQueue **fresh, GError **error);
void _tarn_pool_leave_queue (TarnPool *pool, TarnQueue *queue);

/* redirect.c.  Callers do not hold the lock. */
gboolean _tarn_pool_allocate_redirected (TarnPool *pool, gsize size, gsize alignment,
                                         gpointer handle, TarnBlock **block, GError **error);
void _tarn_pool_end_redirect (TarnPool *pool);

/* Returns TRUE if the pool has a redirect function, which a request has to ask which pool serves
 * it. */
static inline gboolean
_tarn_pool_is_redirected (const TarnPool *pool)
{
  return __atomic_load_n (&pool->redirect, __ATOMIC_RELAXED) != NULL;
}

/* arena.c.  Callers do not hold the lock. */
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

/* Returns TRUE if the backend's reference keeps a queue alive.  If so, any function of the pool may
 * use the queue, not only one for which the program has just named the queue. */
static inline gboolean
_tarn_pool_keeps_queues_alive (const TarnPool *pool)
{
  return pool->upstream->direct->ops.event_record_all == NULL;
}

#endif
