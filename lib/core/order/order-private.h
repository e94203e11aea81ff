/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Order: while commands on a queue may still use memory, the pool does not hand the memory to
 * another queue without a wait.
 *
 * A block knows which queues use it (TarnUse).  A pool has a table of the queues that it knows.  It
 * adds a queue to the table when a call first names the queue, or when the backend makes fresh
 * memory ready on it: with some backends, commands on a queue still have to make memory ready after
 * the driver has allocated it.  The queue stays in the table as long as a block or a call has a
 * reference to it, unless the program makes the pool forget it.  If the backend's reference does
 * not keep a queue alive, a queue may stay in the table for a while after its last reference was
 * dropped (queue.c).
 *
 * An in-order queue can at once reuse memory that no other queue has used, because its later
 * commands run after its earlier ones.  So a free puts a block that only an in-order queue has used
 * into the queue's share, the free lists that the pool keeps for this queue.  Or it puts the block
 * into the thread's cache, without a lock (pool/cache-private.h).  Neither calls the driver.
 *
 * Memory changes queues in two ways: by timely events or by late events.
 *
 * Timely events: in these cases, the free at once records an event on every queue that uses the
 * block:
 *
 *     several queues use the block, or its queue is out of order
 *     the program has moved the block from another queue to its present one
 *     blocks of that size are often handed over from queue to queue
 *     the pool returns the memory to upstream at once, or would exceed its bound on cached bytes
 *
 * A later request of another queue makes that queue wait for these events, but not for commands
 * that were put on the first queue after the free.
 *
 * Late events: a request may find suitable blocks only in the shares of other queues.  Then it
 * takes fresh memory, and marks these queues as wanted.  The next request or free that names such a
 * queue and takes the lock knows that the queue is alive, so it records an event, one for all
 * wanted blocks of the share.  If the backend keeps queues alive, the request that marks the queue
 * records the event itself.  The event may also cover commands that came after the free: it
 * completes only after these commands.
 *
 * A request does not make its queue wait for a late event, because this could be a deadlock: the
 * commands after the free may wait for the host, and the host may wait for the request's queue.
 * The request only asks the driver whether the event has completed.  If it has, the memory is idle.
 *
 * In a few cases, the host or a queue does wait for a late event:
 *
 *     the host       if no memory is left, and before the pool returns memory to upstream
 *     a queue        if the program moves a block in use to this queue, or if the late event is on
 *                    the queue that makes fresh memory ready
 *
 * A heap keeps free memory for each queue.  So a pool over a heap may at any time return to the
 * heap a block that only one queue has used, without an event; the heap then serves requests of
 * that queue from this memory.  If a block was handed over from queue to queue, its free records
 * events, and the pool returns the block when these events have completed.
 *
 * If no event can be recorded, as on a stream that captures a graph, the pool cannot tell when
 * memory is idle.  The memory then stays in its queue's share.  If the pool was about to return the
 * memory to upstream, the memory is stuck: the pool keeps it and tries to return it later.
 *
 * The pool never calls the driver while it holds its lock.  So a function that uses queues and
 * events without the lock has references to them, or owns a block that has references.  When the
 * last reference to an event or a queue is dropped, the pool puts the event or queue on a list.
 * The next call of _tarn_pool_unlock_and_sweep () releases the lock, and then frees all events and
 * queues on the list.
 *
 *     request.c      serves requests
 *     timeout.c      requests that wait for memory
 *     reserve.c      reserves memory for later requests
 *     held.c         serves requests from held (cached) blocks
 *     others.c       makes blocks in other queues' shares available
 *     redirect.c     lets other pools serve requests
 *     arena.c        adds arenas, from which threads allocate without a lock, to the pool's table
 *     use.c          records which queues use a block, as the program says
 *     free.c         frees blocks
 *     watch.c        frees blocks in pools that inspect each freed block
 *     release.c      returns memory to upstream while commands may still use it
 *     wait.c         decides who has to wait for a block, and waits
 *     event.c        counts references to events, and records events
 *     queue.c        the table of the queues that a pool knows
 *     hold.c         sets the most bytes that a pool holds (caches)
 *     environment.c  reads settings from the environment, and prints counters
 *     life.c         makes, disposes of and frees pools */

#ifndef TARN_ORDER_PRIVATE_H
#define TARN_ORDER_PRIVATE_H

#include "heap/arena-private.h"
#include "pool/pool-private.h"

/* An event of the backend, together with the data that a pool has about the event.  Several blocks
 * may share one TarnEvent. */
struct _TarnEvent
{
  /* Atomic: the backend's event.  NULL if the event is not recorded yet, or could not be recorded.
   * While this field is NULL, each use of a block that refers to this struct (TarnUse.event) counts
   * as a use without an event. */
  gpointer handle;
  guint n_refs; /* the number of references; guarded by the pool's lock */
  gint is_done; /* atomic: TRUE if the backend has reported the event as completed */
  /* Constant: TRUE if the event may also cover commands that were put on the queue after the free
   * of a block with this event. */
  gboolean is_late;
  TarnEvent *next; /* the next event in the pool's list of unreferenced events */
};

/* After a block was handed over from one queue to another, the next TARN_RECORDED_FREES frees of
 * blocks of the same size record events. */
#define TARN_RECORDED_FREES 32

/* The maximum number of events about which one request asks the driver. */
#define TARN_MAX_ASKED 8
/* The maximum number of queues on which one request records an event, not counting the request's
 * own queue.  A request records events on other queues only if the backend keeps queues alive. */
#define TARN_MAX_OTHERS 4

/* A request that the thread's cache did not serve, with its next steps: the events about which to
 * ask the driver, and the queues on which to record events.  A thread changes these fields while it
 * holds the pool's lock. */
typedef struct
{
  gsize size;
  /* The alignment in bytes that the memory must have; 0 if any alignment will do.  A request for an
   * alignment needs fresh memory, because cached blocks may not have this alignment. */
  gsize alignment;
  guint32 number; /* the number of the bin (free list) for the size */
  /* The request's queue, with a reference.  NULL if the request is for the host, or if its queue is
   * not in the pool's table yet. */
  TarnQueue *queue;

  /* TRUE if there are idle blocks of the size, all of which are fresh memory that may not be ready
   * yet.  The request's queue must first wait for the queue on which the backend makes fresh memory
   * ready. */
  gboolean finds_unready;
  gboolean others_have; /* TRUE if other queues have blocks of the size in their free lists */
  /* TRUE if the request asks the driver about the events of cached blocks before it allocates.  It
   * does so if the pool exceeds its bound on cached bytes, or if a block with events has been
   * cached for a long time. */
  gboolean asks_recorded;
  guint n_events;
  guint n_others;

  /* The events, with references, about which the request asks the driver.  They belong to some
   * cached blocks: if the request took one of these blocks, its queue would have to wait for the
   * block's events.  A NULL stands after the events of each block. */
  TarnEvent *events[TARN_MAX_ASKED];
  TarnQueue *others[TARN_MAX_OTHERS]; /* the queues, with references, on which this request itself
                                         records an event */
} TarnRequest;

/* Functions of held.c, for cached blocks.  Their callers hold the pool's lock. */
TarnBlock *_tarn_pool_take_at_once (TarnPool *pool, TarnCache *cache, TarnRequest *request);
void _tarn_pool_clear_request (TarnPool *pool, TarnRequest *request);
/* More functions of held.c.  Their callers do not hold the pool's lock. */
TarnBlock *_tarn_pool_take_held (TarnPool *pool, TarnRequest *request, GError **error);
TarnBlock *_tarn_pool_move_or_put_back (TarnPool *pool, TarnBlock *block,
                                        const TarnRequest *request, gboolean may_be_late,
                                        GError **error);
void _tarn_pool_count_failure (TarnPool *pool);

/* Functions of others.c, for cached blocks of other queues than a request's.  Their callers hold
 * the pool's lock. */
gboolean _tarn_pool_wants_event (const TarnPool *pool, const TarnQueue *queue);
void _tarn_pool_hand_on (TarnPool *pool, guint32 number);
void _tarn_pool_want_others (TarnPool *pool, TarnRequest *request);
void _tarn_pool_want_next (TarnPool *pool, TarnRequest *request);
void _tarn_pool_end_wants (TarnPool *pool, TarnRequest *request);
/* More functions of others.c.  Their callers do not hold the pool's lock. */
void _tarn_pool_record_share (TarnPool *pool, TarnQueue *queue, TarnBlock *freed,
                              gboolean is_named);
void _tarn_pool_record_others (TarnPool *pool, TarnRequest *request);

/* Functions of use.c, by which the program tells which queues use a block.  Their callers do not
 * hold the pool's lock. */
gboolean _tarn_pool_record_use (TarnBlock *block, gpointer handle, GError **error);
gboolean _tarn_pool_move_to_queue (TarnBlock *block, gpointer handle, GError **error);

/* Functions of event.c, for events on queues.  Their callers hold the pool's lock. */
TarnEvent *_tarn_event_new (gpointer handle, gboolean is_late);
TarnEvent *_tarn_event_ref (TarnEvent *event);
void _tarn_event_unref (TarnPool *pool, TarnEvent *event);
gboolean _tarn_use_has_event (const TarnUse *use);
void _tarn_use_clear_event (TarnPool *pool, TarnUse *use);
void _tarn_block_record_free (TarnPool *pool, TarnBlock *block); /* releases the lock for a time */
void _tarn_block_share_event (TarnPool *pool, TarnBlock *block, const TarnQueue *queue,
                              TarnEvent *event);
void _tarn_pool_unlock_and_sweep (TarnPool *pool); /* releases the lock */
/* More functions of event.c.  Their callers do not hold the pool's lock. */
gboolean _tarn_block_record_use (TarnPool *pool, TarnBlock *block, TarnUse *use, gboolean is_named,
                                 GError **error);
void _tarn_pool_report_unrecorded (const TarnPool *pool, const GError *error);

/* Functions of wait.c, for waits until a block can be used.  Their callers hold the pool's lock. */
gboolean _tarn_block_is_ready_for (const TarnBlock *block, const TarnQueue *queue);
gboolean _tarn_block_is_recorded (const TarnBlock *block, const TarnQueue *queue);
gboolean _tarn_block_can_be_awaited (const TarnBlock *block, const TarnQueue *queue);
void _tarn_request_add_events (TarnRequest *request, const TarnBlock *block);
void _tarn_block_clear_uses (TarnPool *pool, TarnBlock *block);
void _tarn_block_use_fresh (TarnBlock *block, TarnQueue *fresh);
void _tarn_block_set_queue (TarnPool *pool, TarnBlock *block, TarnQueue *queue);
/* More functions of wait.c.  Their callers do not hold the pool's lock. */
gboolean _tarn_block_move (TarnPool *pool, TarnBlock *block, TarnQueue *queue, gboolean may_be_late,
                           GError **error);
gboolean _tarn_block_await (TarnPool *pool, TarnBlock *block, const TarnQueue *queue,
                            gboolean may_be_late, GError **error);

/* Functions of release.c, which returns memory to upstream.  Their callers hold the pool's lock. */
gboolean _tarn_pool_can_go_at_once (const TarnPool *pool, const TarnBlock *block);
gboolean _tarn_pool_heap_knows (const TarnPool *pool, const TarnQueue *queue);
/* More functions of release.c.  Their callers do not hold the pool's lock, except where a comment
 * says that they do. */
void _tarn_pool_record_returning (TarnAllocator *pool, TarnBlock *blocks, gboolean is_wanted);
gboolean _tarn_pool_give_back_used (TarnBlock *block, gboolean is_wanted, GError **error);
gboolean _tarn_block_is_done (const TarnBlock *block);        /* the caller holds the pool's lock */
gboolean _tarn_pool_waits_before_free (const TarnPool *pool); /* the caller needs no lock */
gboolean _tarn_pool_ask_recorded (TarnPool *pool);
void _tarn_pool_give_back_excess (TarnPool *pool);
void _tarn_pool_look_after (TarnPool *pool, gpointer handle);
void _tarn_pool_spare_heap (TarnPool *pool, guint32 number, TarnQueue *queue);

/* Functions of queue.c, for the pool's table of queues.  Their callers hold the pool's lock. */
TarnQueue *_tarn_pool_find_queue (TarnPool *pool, gpointer handle);
TarnQueue *_tarn_pool_meet_queue (TarnPool *pool, gpointer handle, gboolean in_order);
void _tarn_queue_unref (TarnPool *pool, TarnQueue *queue);
void _tarn_queue_set_unrecorded (TarnPool *pool, TarnQueue *queue, gboolean has_unrecorded);
void _tarn_queue_begin_recording (TarnPool *pool, TarnQueue *queue);
void _tarn_queue_end_recording (TarnPool *pool, TarnQueue *queue);
void _tarn_pool_drop_released_queues (TarnPool *pool);
void _tarn_pool_drop_unused_queues (TarnPool *pool);
/* More functions of queue.c.  Their callers do not hold the pool's lock. */
TarnQueue *_tarn_pool_enter_queue (TarnPool *pool, gpointer handle, GError **error);
gpointer _tarn_pool_get_fresh_queue (const TarnPool *pool);
gboolean _tarn_pool_enter_fresh (TarnPool *pool, TarnQueue **fresh, GError **error);
void _tarn_pool_leave_queue (TarnPool *pool, TarnQueue *queue);

/* The record of a request, which tells what pool serves the request.  After a call of
 * _tarn_server_follow (), redirections store that pool here. */
typedef struct
{
  TarnPool *asked; /* the pool that gets the request; borrowed */
  /* A reference to the pool that serves the request in place of @asked.  NULL if @asked serves
   * it. */
  TarnPool *other;
} TarnServer;

/* Returns the pool that serves a request: the pool that a redirection has stored in the record, or
 * else the pool that got the request. */
static inline TarnPool *
_tarn_server_get (const TarnServer *server)
{
  return server->other != NULL ? server->other : server->asked;
}

/* Functions of redirect.c, for requests that other pools serve.  Their callers do not hold the
 * pool's lock. */
TarnServer *_tarn_server_follow (TarnServer *server);
gboolean _tarn_pool_allocate_redirected (TarnPool *pool, gsize size, gsize alignment,
                                         gpointer handle, TarnBlock **block, GError **error);
void _tarn_pool_end_redirect (TarnPool *pool);

/* Returns TRUE if the program has set a redirect function, which chooses the pool that serves a
 * request of this pool. */
static inline gboolean
_tarn_pool_is_redirected (const TarnPool *pool)
{
  return __atomic_load_n (&pool->redirect, __ATOMIC_RELAXED) != NULL;
}

/* Functions of arena.c, for blocks in the arenas of the heap below the pool.  Their callers do not
 * hold the pool's lock. */
void _tarn_pool_meet_arena (TarnPool *pool, gpointer handle, TarnBlock *block);
gboolean _tarn_pool_put_part (TarnPool *pool, TarnCache *cache, TarnBlock *block);

/* Functions of environment.c, which read settings from the environment, and print the counters of
 * pools.  _tarn_pool_read_environment () sets *user_limit to the limit that TARN_LIMIT sets for a
 * pool over @upstream, or to 0. */
gboolean _tarn_pool_read_environment (TarnAllocator *upstream, TarnPoolOptions *options,
                                      gsize *user_limit, GError **error);
void _tarn_pool_print_stats (TarnPool *pool);
void _tarn_pool_print_stats_at_exit (void);
/* A function of hold.c, for a new pool that no other thread uses yet */
void _tarn_pool_init_hold (TarnPool *pool, const TarnPoolOptions *options);

/* Functions of free.c, which frees blocks.  Their callers do not hold the pool's lock. */
gboolean _tarn_pool_ignore_free (TarnPool *pool);
void _tarn_pool_ref_block (TarnBlock *block);
gboolean _tarn_pool_drop_reference (TarnPool *pool, TarnBlock *block);
void _tarn_pool_free_block (TarnBlock *block);
/* A function of watch.c that frees a block of a pool that inspects each freed block */
void _tarn_pool_free_watched (TarnBlock *block);
void _tarn_pool_put_back (TarnPool *pool, TarnBlock *block);

/* Returns TRUE if the backend keeps a queue alive as long as the pool has a reference to it.  Then
 * any function of the pool may use the queue at any time.  Otherwise the pool may use the queue
 * only in a call in which the program names the queue, or names a block in use that the queue
 * uses. */
static inline gboolean
_tarn_pool_keeps_queues_alive (const TarnPool *pool)
{
  return pool->upstream->direct->ops.event_record_all == NULL;
}

#endif
