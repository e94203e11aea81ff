/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The struct of a pool, and the functions that the files of this folder share:
 *
 *     pool.c        takes blocks out of the pool and puts them into it, with the lock
 *     bins.c        the bins of held blocks
 *     ages.c        ... ordered by age
 *     retire.c      chooses the held blocks to return to upstream
 *     bin.c         the size classes
 *     cache.c       thread caches
 *     count.c       ... and their counters
 *     arenas.c      allocates from a heap without a lock
 *     made-parts.c  ... if upstream makes parts of the heap's memory
 *     stock.c       ... and the structs and grants that threads need for that
 *     arena-table.c ... and the queues whose arenas a pool has references to
 *     transfer.c    hands blocks over from thread to thread
 *     block-chunk.c the memory of block structs
 *     index.c       finds the block in use that has some memory
 *     room.c        requests that wait until other threads free memory
 *     bare.c        memory without a block, for allocators built on a pool
 *     stats.c       the public counters
 *     describe.c    describes a pool to recordings and snapshots
 *     pool-check.c  checks the invariants
 *
 * On top of this folder are the calls of the upstream allocator (upstream/), and requests and
 * frees, which wait for queues if necessary (order/). */

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
  TarnBlock *first, *last; /* first is the block freed last; linked by TarnBlock.below */
} TarnTransfer;

/* A transfer bin: batches of one size and one queue that threads hand over to others: transfer.c.
 * These blocks are in no thread cache, nor in the pool's bins. */
typedef struct
{
  gboolean is_locked; /* atomic: guards the other fields, as a closed door does, too */
  guint n_batches;    /* atomic, because threads read it without the lock */
  guint32 number;
  gpointer handle;                             /* NULL: no queue */
  TarnTransfer batches[TARN_TRANSFER_BATCHES]; /* transfer_blocks each; the oldest batch first */
} __attribute__ ((aligned (TARN_CACHE_LINES))) TarnTransferBin;

typedef struct
{
  TarnTransferBin bins[TARN_TRANSFER_BINS];
  gsize
      max_bytes; /* constant while the door is open: over all bins; G_MAXSIZE: there is no bound */
  gsize bytes;   /* atomic: bytes in all bins, if there is a bound */
  guint n_batches; /* atomic: batches in all bins */
} TarnTransfers;

/* A call that is returning blocks to the upstream allocator, on the stack of its thread.  A request
 * that runs out of memory meanwhile waits for it, because the memory is as good as free. */
typedef struct
{
  TarnTicket ticket;       /* first: the call's ticket in the pool's list */
  TarnTicket group_ticket; /* its ticket in the group's list, if there is a group */
  TarnReclaimGroup *group; /* a reference; NULL: none */
  TarnBlock *blocks;       /* retired blocks; linked by TarnBlock.below */
  TarnBlock *stuck;        /* blocks that could not be returned to upstream */
  gsize n_untold;          /* stuck blocks that no message has reported yet, */
  gsize untold_bytes;      /* and their bytes */
  gsize unreserved_bytes;  /* bytes of blocks that no waiting request has reserved */
  gboolean is_foreign;     /* the call has no reference on the pool */
} TarnGiveBack;

/* A pool's constants. order/life.c sets them from the pool's options and its upstream allocator.
 * Those that say how much it holds are set by order/hold.c, which changes them with the lock held
 * and the door closed. */
typedef struct
{
  gboolean moves_blocks;  /* blocks of one queue's share may go to another; not over a heap, which
                             moves memory instead */
  gboolean has_addresses; /* the heap's memory is addresses, not parts that upstream makes */
  gboolean is_findable;   /* blocks in use are in the index */
  gboolean prints_stats;  /* print the counters when the last reference is gone, or at exit */
  gboolean asks_retained; /* ask whether the program retains the memory of a block that is freed */
  gboolean is_debugged;   /* blocks have exactly the requested size, and are never held */
  guint check_interval;   /* requests from one check to the next; 0: there are none */
  gsize asked_hold_bytes; /* TarnPoolOptions.hold_bytes, or what was set later, */
  gsize hold_bytes; /* and its effective value: G_MAXSIZE: no bound; 0: by managed_bytes. Atomic:
                       some code reads it without the lock */
  gsize max_held;   /* the largest block in bytes that bins hold, */
  gsize max_kept;   /* and that threads keep, unless they have temporaries */
  gsize asked_cache_bytes;  /* TarnPoolOptions.thread_cache_bytes, */
  gsize thread_cache_bytes; /* and the most that a thread keeps */
  guint thread_cache_blocks;
  guint transfer_blocks; /* the length of a batch that threads hand over; 0: they hand over none */
  guint32 spread;        /* the factor by which a bin's number gives its home in caches */
} TarnPoolPolicy;

/* The limit of a pool: the bytes that it may have from upstream: upstream/limit.c.
 *
 * Invariants, whenever the lock can be taken, and everything is counted:
 *
 *     managed_bytes + charged_bytes + reserved_bytes + the bytes that are returning
 *         <= ceiling_bytes
 *     ceiling_bytes >= bytes, or G_MAXSIZE if there is no limit */
typedef struct
{
  gsize bytes;          /* 0: there is no limit */
  gsize ceiling_bytes;  /* the limit; or the bytes that there were when it was lowered, or when
                           memory could not be returned; until a request fits in again */
  gsize reserved_bytes; /* bytes that calls of upstream are allocating */
  gsize charged_bytes;  /* bytes that the program allocates beside the pool */
  guint64 n_came_back;  /* calls after which memory that could not be returned came back */
  guint64 ended_reservations;
  guint n_awaiting; /* calls that wait for a reservation to end, or for another limit */
  TarnCond reservation_ended;
} TarnLimit;

/* The calls that are returning blocks: upstream/give-back.c.
 *
 * Invariant: bytes == sum of unreserved_bytes over the calls. */
typedef struct
{
  TarnTickets calls; /* those of TarnGiveBack */
  gsize bytes;
  guint n_foreign; /* calls on behalf of another pool of the group */
} TarnReturning;

/* The functions and the group that free memory when none is left: upstream/reclaim.c,
 * reclaim-group.c. */
typedef struct
{
  GPtrArray *funcs; /* in the order in which they were added */
  guint last_id;
  TarnReclaimGroup *group; /* a reference; NULL: none */
} TarnReclaim;

/* The requests that wait until memory of a pool is freed: room.c.
 *
 * Invariant: the door is closed if any request waits. */
typedef struct
{
  guint n_waiting;   /* waiting requests, of this pool or of others of its group */
  gboolean was_open; /* the door was open before the first of them closed it */
  guint n_freed;     /* atomic: how often they were told to look again; modulo 2^32 */
} TarnRoom;

/* A request that waits for memory, on the stack of its thread. */
typedef struct
{
  GPtrArray *pools; /* of TarnPool: memory of any of them will do */
  guint n_seen;     /* the sum of their n_freed before the last attempt, */
  guint n_own;      /* and how often the attempt itself freed something */
} TarnRoomWait;

/* The queues that a pool knows: order/queue.c.
 *
 * Invariants: a queue is in the table as long as it is_known. unrecorded has the queues whose
 * has_unrecorded is set. */
typedef struct
{
  GHashTable *table;   /* handle -> TarnQueue */
  TarnQueue *latest;   /* the queue that was named last; NULL: none */
  guint n_unused;      /* queues without a reference */
  GQueue unrecorded;   /* of TarnQueue, by unrecorded_link */
  GPtrArray *released; /* of TarnQueue: references of TarnMet to drop */
  TarnQueue *gone;     /* queues that are not used any more, for _tarn_pool_unlock_and_sweep () */
  TarnEvent *gone_events;
  TarnCond recording_ended; /* signalled when n_recording of a forgotten queue becomes 0 */
} TarnQueues;

/* The table of queues to whose arenas the pool has references: arena-table.c. */
typedef struct
{
  TarnMetQueue *places; /* a power of two of them; NULL: no queue was ever added */
  guint mask;           /* their number minus 1 */
  guint n;              /* places in use */
} TarnMet;

/* The caches of all threads: caches.c.
 *
 * Invariants, whenever the lock is held; _tarn_pool_check () checks them:
 *
 *     n == the number of caches in the list
 *     n_abandoned == the number of those that are abandoned
 *     room_bytes == sum of reserved_bytes over the caches */
typedef struct
{
  TarnCache *first;
  guint n;
  guint n_abandoned; /* caches whose threads have ended: at most TARN_MAX_ABANDONED */
  gsize room_bytes;
} TarnCaches;

/* The structs of all blocks: block-chunk.c.
 *
 * Invariants, whenever the lock can be taken:
 *
 *     each block in aside is ENDING, and n_aside is their number
 *     each block in shared is SHARED; a SHARED block that is not there has one reference left */
typedef struct
{
  GQueue chunks;         /* of TarnBlockChunk: each held or active block is in one */
  TarnBlockChunk *chunk; /* for threads that have no cache */
  gsize n;               /* held and active blocks */
  GPtrArray *aside;      /* of TarnBlock: freed, but the program retains its memory; ENDING */
  guint n_aside;         /* atomic: their number, for threads without the lock */
  guint next_aside;      /* the index in aside of the next block to ask about */
  GHashTable *shared;    /* TarnBlock -> references beyond the first; NULL: no block ever had any */
} TarnBlocks;

/* A pool.  Invariants, whenever the lock can be taken, the door is closed and everything is
 * counted; _tarn_pool_check () checks them, and those of the structs above:
 *
 *     managed_bytes == sum of alloc_size over held and active blocks
 *     active_bytes  == sum of size over active blocks
 *     held_blocks   == sum of the lengths of bins, of threads' and transfer ones, too, and n_stuck
 *     held_bytes    == sum of alloc_size over the blocks there
 *     every block in use has the share that _tarn_block_get_share () says
 *     peak_managed_bytes >= managed_bytes, peak_active_bytes >= active_bytes
 *
 * A pool lives until its last reference is gone (orphaned), and its last block, and the last call
 * that returns blocks.  Blocks hold no reference: active_blocks counts them.
 *
 * The lock guards all fields that are not constant or atomic.  To change the fields that hits read,
 * a thread must also close the door.  No driver call and no callback happens under the lock, so
 * blocks are removed from all lists before they are returned. */
struct _TarnPool
{
  TarnAllocator base; /* first: see TARN_ALLOCATOR () */

  /* Every hit reads these.  They share no cache line with fields that are written often, such as
   * the reference count.  The first ones are constant while the door is open, */
  guint slot __attribute__ ((aligned (TARN_CACHE_LINES))); /* in threads' caches: cache-private.h */
  guint leading_bits;                                      /* atomic: it may change at any time */
  TarnDoor door;
  TarnMet met;
  /* and these are always constant. */
  gpointer default_queue;  /* for requests that name none; NULL: none */
  TarnAllocator *upstream; /* a reference */
  TarnHeap *heap;          /* upstream, cast to a heap; NULL: it is none */
  TarnPoolPolicy policy;

  /* Guarded by the lock, and seldom written */
  gboolean has_arenas; /* atomic: threads allocate from the heap's arenas: arenas.c */
  gboolean orphaned;
  gboolean was_open; /* the door was open before reclaim-group.c or a snapshot closed it */
  guint n_unchecked; /* atomic: counts requests, of which one in check_interval checks the
                        invariants */
  TarnStore store;
  TarnCaches caches;
  /* Atomic: the redirect that requests ask first; NULL: none.  While there is one, the door is open
   * to fenced read sections only, so that no request passes it by. */
  TarnRedirect *redirect;
  TarnPool *finder; /* atomic: a reference on the pool whose index also has this one's blocks in
                       use, because it redirects requests here; NULL: none yet */

  TarnTransfers transfers;

  /* Apart from the fields that it guards, because threads that wait for it write to it. */
  TarnMutex lock __attribute__ ((aligned (TARN_CACHE_LINES)));

  /* stats.active_bytes above which to check for a new peak */
  gsize noted_bytes __attribute__ ((aligned (TARN_CACHE_LINES)));
  TarnPoolStats stats; /* without the counts and blocks of caches, which _tarn_pool_sum () adds;
                          active_blocks is never set */
  guint64 generation TARN_WHOLE; /* atomic: how often memory was returned to upstream; counted
                                    before it is. Over a heap the heap's counter is used instead */
  guint64 n_after_driver_calls;  /* hits and misses for which the driver was called */
  TarnBlocks blocks;
  TarnIndex index; /* all blocks in use if policy.is_findable, else those from
                      tarn_allocator_allocate_memory (). It has locks of its own. */
  TarnQueues queues;
  TarnLimit limit;
  TarnReturning returning;
  TarnRoom room;
  TarnReclaim reclaim;

  guint ignored_frees; /* atomic: counted in a child of fork (), which cannot take the lock */
};

static inline TarnPool *
_tarn_pool_of (TarnAllocator *base)
{
  gpointer pool = base; /* it is aligned as a pool is */

  return pool;
}

/* Gets the bound on the bytes that a pool holds.  Needs no lock. */
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

/* pool.c.  The lock is held. */
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

/* Tells waiting requests that there may be memory for them. */
static inline void
_tarn_pool_note_room (TarnPool *pool)
{
  if (TARN_UNLIKELY (pool->room.n_waiting > 0))
    _tarn_pool_tell_waiting (pool);
}

/* pool-check.c */
gboolean _tarn_pool_check (TarnPool *pool, gchar **violation);
void _tarn_pool_assert_valid (TarnPool *pool);

/* Checks the invariants, in builds with --enable-debug=full.  Called after every operation, with
 * the lock held. */
static inline void
_tarn_pool_check_if_full_debug (TarnPool *pool)
{
#if defined(TARN_DEBUG_LEVEL) && TARN_DEBUG_LEVEL >= 2
  _tarn_pool_assert_valid (pool);
#else
  (void) pool;
#endif
}

/* Does the same, called without the lock. */
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
