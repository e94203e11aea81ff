/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The struct of a pool, and what its parts in this folder share:
 *
 *     pool.c        blocks out of and into it, with the lock
 *     bins.c        what it holds
 *     ages.c        ... and since when
 *     retire.c      which of them go back to upstream
 *     bin.c         which sizes belong together
 *     cache.c       what a thread keeps for itself
 *     count.c       ... what it counts for itself
 *     arenas.c      ... and has from a heap without a lock
 *     made-parts.c  ... where its memory is parts that upstream makes
 *     stock.c       ... and what a thread needs for that
 *     arena-table.c ... for which the pool knows queues
 *     transfer.c    what threads hand over to each other
 *     block-chunk.c where the structs of blocks are
 *     index.c       which block in use has which memory
 *     room.c        requests that wait until others free memory
 *     bare.c        memory without a block, for allocators built on a pool
 *     stats.c       what it says of itself
 *     describe.c    what recordings and snapshots say of it
 *     pool-check.c  the invariants, executed
 *
 * Above are the ways to the upstream allocator and back (upstream/), and requests and frees, which
 * wait for queues where they have to (order/). */

#ifndef TARN_POOL_PRIVATE_H
#define TARN_POOL_PRIVATE_H

#include <tarn/pool.h>

#include "allocator/allocator-private.h"
#include "allocator/block-private.h"
#include "base/clock-private.h"
#include "base/thread-private.h"
#include "base/ticket-private.h"
#include "common/lock-private.h"
#include "common/whole-private.h"
#include "heap/arena-private.h"
#include "pool/block-chunk-private.h"
#include "pool/index-private.h"
#include "pool/store-private.h"

typedef struct _TarnCache TarnCache;       /* cache-private.h */
typedef struct _TarnMetQueue TarnMetQueue; /* there, too */
typedef struct _TarnRedirect TarnRedirect; /* order/redirect.c */

#define TARN_TRANSFER_BINS 32
#define TARN_TRANSFER_SHARDS 8  /* bins for one size and one queue, so that not all threads meet */
#define TARN_TRANSFER_BATCHES 6 /* the most in a bin */

typedef struct
{
  TarnBlock *first, *last; /* first the one freed last; through TarnBlock.below */
} TarnTransfer;

/* Batches of one size and one queue that threads hand over to others: transfer.c.  In no thread's
 * cache, nor in the pool's bins. */
typedef struct
{
  gboolean is_locked; /* atomic: guards the others, which a closed door does, too */
  guint n_batches;    /* atomic, because others look without the lock */
  guint32 number;
  gpointer handle;                             /* NULL: nobody's */
  TarnTransfer batches[TARN_TRANSFER_BATCHES]; /* transfer_blocks each; the oldest batch first */
} __attribute__ ((aligned (TARN_CACHE_LINES))) TarnTransferBin;

typedef struct
{
  TarnTransferBin bins[TARN_TRANSFER_BINS];
  gsize
      max_bytes; /* constant while the door is open: in all of them; G_MAXSIZE: there is no bound */
  gsize bytes;   /* atomic: in all of them, if there is a bound */
  guint n_batches; /* atomic: in all of them */
} TarnTransfers;

/* One call that is giving blocks back to the upstream allocator, on the stack of its thread.
 * Whoever runs out of memory meanwhile waits for it, because the memory is as good as free. */
typedef struct
{
  TarnTicket ticket;       /* first: in the pool's list */
  TarnTicket group_ticket; /* in the group's, if there is one */
  TarnReclaimGroup *group; /* a reference; NULL: none */
  TarnBlock *blocks;       /* retired; through TarnBlock.below */
  TarnBlock *stuck;        /* those that could not go back to upstream */
  gsize n_untold;          /* stuck blocks that no message has named before, */
  gsize untold_bytes;      /* and their bytes */
  gsize unreserved_bytes;  /* those of blocks that no waiting request has reserved */
  gboolean is_foreign;     /* the call has no reference on the pool */
} TarnGiveBack;

/* A pool's constants.  order/life.c chooses them from its options and from what it stands on; those
 * of how much it holds order/hold.c, which changes them with the lock held and the door closed. */
typedef struct
{
  gboolean moves_blocks;    /* blocks of one queue's share may go to another; not over a heap, whose
                               memory does */
  gboolean has_addresses;   /* the heap's memory is addresses, not parts that upstream makes */
  gboolean is_findable;     /* blocks in use are in the index */
  gboolean prints_stats;    /* when its last reference is gone, or at exit */
  gboolean asks_retained;   /* whether the program retains the memory of a block that is freed */
  gboolean is_debugged;     /* blocks are what was asked for, and never held */
  guint check_interval;     /* requests from one check to the next; 0: there are none */
  gsize asked_hold_bytes;   /* TarnPoolOptions.hold_bytes, or what was set later, */
  gsize hold_bytes;         /* and what that means here: G_MAXSIZE: no bound; 0: by managed_bytes.
                               Atomic: some look at it without the lock */
  gsize max_held;           /* bytes of a block, above which bins do not hold it, */
  gsize max_kept;           /* nor do threads, unless they have temporaries */
  gsize asked_cache_bytes;  /* TarnPoolOptions.thread_cache_bytes, */
  gsize thread_cache_bytes; /* and what threads keep at most */
  guint thread_cache_blocks;
  guint transfer_blocks; /* the length of a batch that threads hand over; 0: they do not */
  guint32 spread;        /* the factor by which a bin's number gives its home in caches */
} TarnPoolPolicy;

/* The bytes that a pool may have of upstream: upstream/limit.c.
 *
 * Invariants, whenever the lock can be taken, and everything is counted:
 *
 *     managed_bytes + charged_bytes + reserved_bytes + the bytes that are returning
 *         <= ceiling_bytes
 *     ceiling_bytes >= bytes, or G_MAXSIZE if there is no limit */
typedef struct
{
  gsize bytes;          /* 0: there is no limit */
  gsize ceiling_bytes;  /* the limit; or what there was when that was lowered, or when memory could
                           not go and came back, as long as no request has fitted in again */
  gsize reserved_bytes; /* being asked for upstream */
  gsize charged_bytes;  /* that the program takes beside the pool */
  guint64 n_came_back;  /* calls after which memory came back that could not go */
  guint64 ended_reservations;
  guint n_awaiting; /* calls that wait for one to end, or for another limit */
  TarnCond reservation_ended;
} TarnLimit;

/* The calls that are giving blocks back: upstream/give-back.c.
 *
 * Invariant: bytes == sum of unreserved_bytes over the calls. */
typedef struct
{
  TarnTickets calls; /* those of TarnGiveBack */
  gsize bytes;
  guint n_foreign; /* calls on behalf of another pool of the group */
} TarnReturning;

/* The functions and the group that give memory back when none is left: upstream/reclaim.c,
 * reclaim-group.c. */
typedef struct
{
  GPtrArray *funcs; /* in the order they were added */
  guint last_id;
  TarnReclaimGroup *group; /* a reference; NULL: none */
} TarnReclaim;

/* The requests that wait until memory of a pool is freed: room.c.
 *
 * Invariant: the door is closed if anybody does. */
typedef struct
{
  guint n_waiting;   /* requests, of this pool or of others of its group */
  gboolean was_open; /* the door, before the first of them closed it */
  guint n_freed;     /* atomic: how often there was news for them; modulo 2^32 */
} TarnRoom;

/* A request that waits for memory, on the stack of its thread. */
typedef struct
{
  GPtrArray *pools; /* of TarnPool: their memory will do */
  guint n_seen;     /* the sum of their n_freed before the last attempt, */
  guint n_own;      /* and how often the attempt itself freed something */
} TarnRoomWait;

/* The queues that a pool has met: order/queue.c.
 *
 * Invariants: a queue is in the table as long as it is_known; unrecorded has those that have
 * TarnQueue.has_unrecorded. */
typedef struct
{
  GHashTable *table;   /* handle -> TarnQueue */
  TarnQueue *latest;   /* the queue that was named last; NULL: none */
  guint n_unused;      /* queues that nothing has a reference on */
  GQueue unrecorded;   /* of TarnQueue, by unrecorded_link */
  GPtrArray *released; /* of TarnQueue: references to drop for that */
  TarnQueue *gone;     /* nobody's any more, for _tarn_pool_unlock_and_sweep () */
  TarnEvent *gone_events;
  TarnCond recording_ended; /* TarnQueue.n_recording of one that was forgotten is 0 */
} TarnQueues;

/* The table of queues whose arenas the pool has met: arena-table.c. */
typedef struct
{
  TarnMetQueue *places; /* a power of two; NULL: there was no queue ever */
  guint mask;           /* that number less 1 */
  guint n;              /* places that are taken */
} TarnMet;

/* The caches of all threads: cache.c.
 *
 * Invariant: room_bytes == sum of reserved_bytes over the caches. */
typedef struct
{
  TarnCache *first;
  guint n;
  guint n_abandoned; /* caches whose threads have ended */
  gsize room_bytes;
} TarnCaches;

/* Where the structs of all blocks are: block-chunk.c.
 *
 * Invariants, whenever the lock can be taken:
 *
 *     each block in aside is ENDING, and n_aside is their number
 *     each block in shared is SHARED; a SHARED block that is not there has one reference left */
typedef struct
{
  GQueue chunks;         /* of TarnBlockChunk: every held or active block is in one */
  TarnBlockChunk *chunk; /* for threads that have no cache */
  gsize n;               /* held and active blocks */
  GPtrArray *aside;      /* of TarnBlock: freed, but the program retains its memory; ENDING */
  guint n_aside;         /* atomic: their number, for those who have not the lock */
  guint next_aside;      /* the index in aside of the next block to ask about */
  GHashTable *shared;    /* TarnBlock -> references beyond the first; NULL: there never were any */
} TarnBlocks;

/* Invariants, whenever the lock can be taken, the door is closed and everything is counted;
 * _tarn_pool_check () executes them, and those of its parts:
 *
 *     managed_bytes == sum of alloc_size over held and active blocks
 *     active_bytes  == sum of size over active blocks
 *     held_blocks   == sum of the lengths of bins, of threads' and transfer ones, too, and n_stuck
 *     held_bytes    == sum of alloc_size over the blocks there
 *     every block in use has the share that _tarn_block_get_share () says
 *     peak_managed_bytes >= managed_bytes, peak_active_bytes >= active_bytes
 *
 * A pool lives until its last reference is gone (orphaned), and its last block, and the last call
 * that gives blocks back.  Blocks hold no reference: active_blocks counts them.
 *
 * The lock guards all that is not constant or atomic.  The fields that hits read change only with
 * the door closed as well.  No driver call and no callback happens under the lock, so blocks that
 * are returned are taken out of everything first. */
struct _TarnPool
{
  TarnAllocator base; /* first: see TARN_ALLOCATOR () */

  /* Every hit reads these.  They share no cache line with what is written often, such as the
   * reference count.  The first are constant while the door is open, */
  guint slot __attribute__ ((aligned (TARN_CACHE_LINES))); /* in threads' caches: cache-private.h */
  guint leading_bits;                                      /* atomic: it may change at any time */
  TarnDoor door;
  TarnMet met;
  /* and these always. */
  gpointer default_queue;  /* for requests that name none; NULL: none */
  TarnAllocator *upstream; /* a reference */
  TarnHeap *heap;          /* that upstream is; NULL: it is none */
  TarnPoolPolicy policy;

  /* Under the lock, and seldom written */
  gboolean has_arenas; /* atomic: threads take memory from the heap's: arenas.c */
  gboolean orphaned;
  gboolean was_open; /* the door, before reclaim-group.c or a snapshot closed it */
  guint n_unchecked; /* atomic: requests, of which one in check_interval checks */
  TarnStore store;
  TarnCaches caches;
  TarnRedirect *redirect; /* atomic: whom requests ask first; NULL: nobody.  While there is one, the
                             door is open to fenced visits only, so that no request passes it by */
  TarnPool *finder;       /* atomic: a reference on the pool whose index has blocks in use of this
                             one, too, because it redirects requests here; NULL: none yet */

  TarnTransfers transfers;

  /* Apart from what it guards, because threads that wait for it write to it. */
  TarnMutex lock __attribute__ ((aligned (TARN_CACHE_LINES)));

  /* stats.active_bytes that it takes to look for a new peak */
  gsize noted_bytes __attribute__ ((aligned (TARN_CACHE_LINES)));
  TarnPoolStats stats; /* without the counts and blocks of caches, which _tarn_pool_sum () adds;
                          active_blocks is never set */
  guint64 generation TARN_WHOLE; /* atomic: how often memory went back to upstream; counted before
                                    it does.  Over a heap the heap's counts instead */
  guint64 n_after_driver_calls;  /* hits and misses that called the driver for memory */
  TarnBlocks blocks;
  TarnIndex index; /* all blocks in use if policy.is_findable, else those that
                      tarn_allocator_allocate_memory () handed out.  It has locks of its own. */
  TarnQueues queues;
  TarnLimit limit;
  TarnReturning returning;
  TarnRoom room;
  TarnReclaim reclaim;

  guint ignored_frees; /* atomic: counted in a child of fork (), where the lock is not to be had */
};

static inline TarnPool *
_tarn_pool_of (TarnAllocator *base)
{
  gpointer pool = base; /* it is aligned as a pool is */

  return pool;
}

/* Gets how much a pool holds, with the lock or without. */
static inline gsize
_tarn_pool_get_hold_bound (const TarnPool *pool)
{
  return __atomic_load_n (&pool->policy.hold_bytes, __ATOMIC_RELAXED);
}

static inline guint
_tarn_pool_get_leading_bits (const TarnPool *pool)
{
  return __atomic_load_n (&pool->leading_bits, __ATOMIC_RELAXED);
}

/* pool.c; the lock is held */
TarnBlock *_tarn_pool_take_from_share (TarnPool *pool, TarnCache *cache, const TarnQueue *queue,
                                       guint32 number, gsize size);
TarnBlock *_tarn_pool_end_use (TarnPool *pool, TarnCache *cache, TarnBlock *block);

gchar *_tarn_pool_make_report (TarnPool *pool); /* stats.c */

/* describe.c; see TarnAllocatorClass */
void _tarn_pool_freeze (TarnAllocator *pool);
void _tarn_pool_thaw (TarnAllocator *pool);
void _tarn_pool_tell (TarnAllocator *pool, TarnListener *listener);
void _tarn_pool_tell_counters (TarnAllocator *pool, TarnListener *listener);

/* bare.c */
gboolean _tarn_pool_allocate_bare (gpointer pool, gsize size, TarnMemory *memory, GError **error);
void _tarn_pool_free_bare (gpointer pool, TarnMemory memory, gsize size);

/* room.c.  The lock is not held in these, */
void _tarn_room_begin (TarnRoomWait *wait, GPtrArray *pools);
void _tarn_room_begin_attempt (TarnRoomWait *wait);
void _tarn_room_end_attempt (void);
gboolean _tarn_room_await (const TarnRoomWait *wait, gint64 end_time);
void _tarn_room_end (const TarnRoomWait *wait);
/* and is in these. */
void _tarn_pool_tell_waiting (TarnPool *pool);

/* Notes that there may be memory for who waits. */
static inline void
_tarn_pool_note_room (TarnPool *pool)
{
  if (TARN_UNLIKELY (pool->room.n_waiting > 0))
    _tarn_pool_tell_waiting (pool);
}

/* pool-check.c */
gboolean _tarn_pool_check (TarnPool *pool, gchar **violation);
void _tarn_pool_assert_valid (TarnPool *pool);

/* After every operation, under the lock, in builds with --enable-debug=full. */
static inline void
_tarn_pool_check_if_full_debug (TarnPool *pool)
{
#if defined(TARN_DEBUG_LEVEL) && TARN_DEBUG_LEVEL >= 2
  _tarn_pool_assert_valid (pool);
#else
  (void) pool;
#endif
}

/* The same without the lock. */
static inline void
_tarn_pool_check_fast_if_full_debug (TarnPool *pool)
{
#if defined(TARN_DEBUG_LEVEL) && TARN_DEBUG_LEVEL >= 2
  _tarn_mutex_lock (&pool->lock);
  _tarn_pool_assert_valid (pool);
  _tarn_mutex_unlock (&pool->lock);
#else
  (void) pool;
#endif
}

#endif
