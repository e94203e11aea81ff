/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The struct of a pool, and the functions that the files of this folder share:
 *
 *     pool.c        takes blocks from bins and thread caches, and puts them there, under the lock
 *     bins.c        bins: the free lists of held (cached) blocks
 *     ages.c        lists of the blocks in bins, ordered by age
 *     retire.c      chooses the held blocks to return to the upstream allocator
 *     largest.c     finds the bin with the largest blocks
 *     bin.c         the size classes
 *     cache.c       thread caches
 *     count.c       adds up the counters of a pool and its thread caches
 *     arenas.c      allocates from a heap's arenas (memory for one queue) without a lock
 *     made-parts.c  allocates from arenas for which upstream makes an object for each block
 *     stock.c       supplies threads with unused structs and grants of bytes, for arenas.c
 *     arena-table.c lists the queues to whose arenas a pool has references
 *     transfer.c    hands blocks over from thread to thread
 *     block-chunk.c arrays of block structs, from which pools take structs
 *     index.c       finds a block in use by the address of its memory
 *     room.c        makes requests wait until other threads free memory
 *     bare.c        allocates memory without a block, for allocators built on a pool
 *     stats.c       the public counters
 *     describe.c    describes a pool to recordings and snapshots
 *     pool-check.c  checks the invariants
 *
 * Most hits and frees run in read sections of the pool: a thread enters and leaves these without
 * the pool's lock (base/thread-private.h).  A thread that has to exclude all of them holds the lock
 * and stops read sections: no thread can enter one any more, and the thread waits until no other
 * thread is in one.  TarnPool.door tells whether read sections are stopped (closed) or allowed
 * (open).
 *
 * The folder upstream/ calls the upstream allocator for the pool.  The folder order/ serves
 * requests and frees, which wait for queues if necessary. */

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

typedef struct _TarnCache TarnCache;       /* defined in cache-private.h */
typedef struct _TarnMetQueue TarnMetQueue; /* defined in cache-private.h */
typedef struct _TarnRedirect TarnRedirect; /* defined in order/redirect.c */

#define TARN_TRANSFER_BINS 32
/* The number of transfer bins (bins in which threads hand over blocks to others) for one size and
 * queue.  There are several, so that threads seldom wait for each other. */
#define TARN_TRANSFER_SHARDS 8
#define TARN_TRANSFER_BATCHES 6 /* the most batches in a transfer bin */

typedef struct
{
  /* A chain of blocks linked by TarnBlock.below, from the block that was freed last to the oldest
   * one. */
  TarnBlock *first, *last;
} TarnTransfer;

/* A transfer bin: batches of blocks of one size and one queue that threads hand over to others
 * (transfer.c).  These blocks are in no thread cache, and in none of the pool's own bins. */
typedef struct
{
  /* Atomic: the lock of this transfer bin.  A thread may access the fields below if it holds this
   * lock, or if it holds the pool's lock and has stopped the pool's read sections. */
  gboolean is_locked;
  guint n_batches; /* number of batches; atomic, because threads read it without the bin's lock */
  guint32 number;
  gpointer handle; /* the queue's handle; NULL: no queue has used the blocks */
  /* The batches, the oldest first.  Each has TarnPoolPolicy.transfer_blocks blocks. */
  TarnTransfer batches[TARN_TRANSFER_BATCHES];
} __attribute__ ((aligned (TARN_CACHE_LINES))) TarnTransferBin;

typedef struct
{
  TarnTransferBin bins[TARN_TRANSFER_BINS];
  /* The most bytes in all transfer bins (for blocks that threads hand over), or G_MAXSIZE if there
   * is no bound.  Does not change while threads may enter read sections. */
  gsize max_bytes;
  /* Atomic: the number of bytes in all transfer bins (for blocks that threads hand over).  Not
   * counted if max_bytes is G_MAXSIZE. */
  gsize bytes;
  guint n_batches; /* atomic: number of batches in all transfer bins */
} TarnTransfers;

/* One call that is returning blocks to the upstream allocator.  The struct is on the stack of the
 * calling thread.  A request that runs out of memory waits for such calls, because upstream will
 * soon have the memory that they return. */
typedef struct
{
  /* The link in the list TarnReturning.calls.  This is the first field, so that a cast of the link
   * gives the struct. */
  TarnTicket ticket;
  /* The link in the list of the pool's reclaim group, if the pool has a group. */
  TarnTicket group_ticket;
  TarnReclaimGroup *group; /* the pool's reclaim group, with a reference; NULL: none */
  /* The list of the blocks that the call returns to the upstream allocator.  These blocks are in
   * state RETIRED, which means that they no longer belong to the pool.  TarnBlock.below links
   * them. */
  TarnBlock *blocks;
  /* The blocks that the call could not return, because the driver cannot tell whether commands use
   * them. */
  TarnBlock *stuck;
  /* The number of stuck blocks (TarnStore.stuck: the pool could not return them) that no message
   * has reported yet. */
  gsize n_untold;
  gsize untold_bytes; /* the sum of alloc_size over these n_untold blocks */
  /* The number of bytes that the call returns, less those that waiting requests have reserved. */
  gsize unreserved_bytes;
  /* TRUE if a request to another pool makes this call, to return blocks of this pool.  Both pools
   * are in one reclaim group: they free memory for each other.  The request need not have a
   * reference to this pool, so this pool waits for the call before it is freed. */
  gboolean is_foreign;
} TarnGiveBack;

/* The settings of a pool. order/life.c sets them from the pool's options and its upstream
 * allocator.  Later only order/hold.c changes some of them: the bounds on the bytes that the pool
 * holds.  For such a change, a thread holds the pool's lock and has stopped the pool's read
 * sections. */
typedef struct
{
  /* TRUE if the pool may move a cached block from one queue's share (the blocks that only this
   * queue uses) to another queue's share.  FALSE over a heap, because a heap moves memory between
   * queues itself. */
  gboolean moves_blocks;
  /* TRUE if the heap's memory has addresses.  FALSE if upstream makes an object, such as a
   * sub-buffer, for each range of the memory. */
  gboolean has_addresses;
  gboolean is_findable; /* TRUE if the pool adds each block in use to its index */
  /* TRUE if the pool prints its counters when the program drops the last reference, or at exit. */
  gboolean prints_stats;
  /* TRUE if each free asks the backend whether the program still retains the block's memory.  If
   * so, the pool sets the block aside, and frees it later (upstream/aside.c). */
  gboolean asks_retained;
  /* TRUE if blocks have exactly the requested size, and the pool never caches them. */
  gboolean is_debugged;
  /* The number of requests from one check of the invariants to the next, or 0 if the pool does not
   * check them. */
  guint check_interval;
  /* The bound on held bytes that the program asked for: TarnPoolOptions.hold_bytes, or the value
   * that the program has set since. */
  gsize asked_hold_bytes;
  /* The effective bound on held (cached) bytes.  G_MAXSIZE if there is no bound.  0 if the bound
   * depends on managed_bytes (retire.c).  Atomic, because some code reads it without the pool's
   * lock. */
  gsize hold_bytes;
  gsize max_held; /* the size, in bytes, of the largest block that the pool may hold (cache) */
  /* The field max_kept is the size, in bytes, of the largest block that a thread cache takes.  The
   * field max_temporary is the same for temporaries, which are blocks that a thread frees before it
   * allocates another block. */
  gsize max_kept, max_temporary;
  gsize asked_cache_bytes; /* the value of TarnPoolOptions.thread_cache_bytes */
  /* The most bytes in a thread cache: asked_cache_bytes, or fewer if the pool is over a heap. */
  gsize thread_cache_bytes;
  guint thread_cache_blocks;
  /* The number of blocks in a batch that a thread hands over, or 0 if threads hand over no
   * blocks. */
  guint transfer_blocks;
} TarnPoolPolicy;

/* The limit of a pool: the most bytes that the pool may have from upstream (upstream/limit.c).
 *
 * Invariants, at each moment when no thread holds the pool's lock, if all thread caches have
 * reported their counts to the pool:
 *
 *     managed_bytes + charged_bytes + reserved_bytes + TarnReturning.bytes <= ceiling_bytes
 *     ceiling_bytes >= bytes, or ceiling_bytes is G_MAXSIZE if there is no limit */
typedef struct
{
  gsize bytes; /* the limit; 0: there is none */
  /* Constant: the limit that the environment variable TARN_LIMIT sets, or 0 if it sets none.  The
   * field bytes never exceeds this limit. */
  gsize user_bytes;
  /* The limit that the pool enforces now.  It is higher than the field bytes if the program has
   * lowered the limit below the bytes that the pool had, or if the pool could not return blocks to
   * upstream.  It stays higher until a request fits within the field bytes again. */
  gsize ceiling_bytes;
  gsize reserved_bytes; /* bytes that threads are just now allocating from upstream */
  /* The number of bytes that the program allocates without the pool, and has told the pool to count
   * against the limit (tarn_pool_charge ()). */
  gsize charged_bytes;
  /* The number of calls that could not return some blocks to upstream, and cached them again.  If
   * this number rises while a request waits for such calls, the request checks the limit again. */
  guint64 n_came_back;
  guint64 ended_reservations;
  /* The number of threads that wait until another thread's reservation ends or the limit
   * changes. */
  guint n_awaiting;
  TarnCond reservation_ended;
} TarnLimit;

/* The calls that are returning blocks to upstream (upstream/give-back.c).
 *
 * Invariant: bytes == sum of TarnGiveBack.unreserved_bytes over the calls. */
typedef struct
{
  TarnTickets calls; /* a list of the running calls, linked by TarnGiveBack.ticket */
  /* The number of blocks that threads returned to arenas while they held the pool's lock.  Such a
   * return is not in the list of calls.  If a request runs out of memory, and this number has risen
   * since the request last asked upstream, the request asks upstream again. */
  guint64 n_to_arenas;
  gsize bytes;
  /* The number of calls whose is_foreign is TRUE.  After the program has dropped the pool's last
   * reference, the pool waits for these calls. */
  guint n_foreign;
} TarnReturning;

/* The reclaim functions and the reclaim group of a pool.  They free memory when upstream has none
 * left (upstream/reclaim.c, upstream/reclaim-group.c). */
typedef struct
{
  GPtrArray *funcs; /* the reclaim functions, in the order in which the program added them */
  guint last_id;
  TarnReclaimGroup *group; /* the pool's reclaim group, with a reference; NULL: none */
} TarnReclaim;

/* The requests that wait until a thread frees memory of a pool (room.c).
 *
 * Invariant: the pool's read sections are stopped as long as any request waits. */
typedef struct
{
  /* The number of requests that wait for memory of this pool: requests to this pool, or to another
   * pool of its reclaim group. */
  guint n_waiting;
  /* TRUE if read sections were allowed when the first waiting request stopped them. */
  gboolean was_open;
  /* Atomic: the number of times that the pool has told waiting requests to try again, modulo
   * 2^32. */
  guint n_freed;
} TarnRoom;

/* A request that waits for memory.  The struct is on the stack of the requesting thread. */
typedef struct _TarnRoomWait
{
  GPtrArray *pools; /* an array of TarnPool: a free in any of these pools wakes the request */
  /* The sum of TarnRoom.n_freed over the pools before the latest attempt to allocate. */
  guint n_seen;
  /* The number of times that the requesting thread itself has incremented n_freed in its latest
   * attempt to allocate. */
  guint n_own;
  /* Usually NULL.  While a thread tries to allocate for a waiting request, it may call a function
   * of the program, and this function may make another request that waits.  In the struct of this
   * other request, outer is the struct of the first request. */
  struct _TarnRoomWait *outer;
} TarnRoomWait;

/* The queues that a pool knows (order/queue.c).
 *
 * Invariants: the field table contains each queue whose is_known is set.  The list unrecorded
 * contains each queue whose has_unrecorded is set. */
typedef struct
{
  GHashTable *table; /* maps a queue's handle to the TarnQueue */
  TarnQueue *latest; /* the queue that was looked up last; NULL: none */
  guint n_unused;    /* number of queues in the table that have no references */
  GQueue unrecorded; /* a list of TarnQueue, linked by unrecorded_link */
  /* An array of TarnQueue: queues that the pool has removed from its table of arenas (TarnMet).
   * _tarn_pool_drop_released_queues () drops the references to them. */
  GPtrArray *released;
  /* A list of queues (gone) and a list of events (gone_events) that _tarn_pool_unlock_and_sweep ()
   * releases. */
  TarnQueue *gone;
  TarnEvent *gone_events;
  /* Signalled when no thread is recording an event any more on a queue that the pool has removed
   * from the table. */
  TarnCond recording_ended;
} TarnQueues;

/* A hash table of the queues whose arenas (memory of a heap for one queue) the pool may use
 * (arena-table.c). */
typedef struct
{
  /* The slots, whose number is a power of two.  NULL if the pool never added a queue. */
  TarnMetQueue *places;
  guint mask; /* the number of the table's slots minus 1 */
  guint n;    /* the number of slots that have a queue */
  guint most; /* the most queues that the table may have; 0 while places is NULL */
  /* The number of shortages in the present period (arena-table.c).  There are two kinds:
   * - The heap had no free memory for a request, and the previous such request was of another
   *   queue (_tarn_pool_note_turn ()).
   * - A queue was inserted into this table while was_full was TRUE, so the table is too small. */
  guint n_shortages;
  /* TRUE if this table has been full in the present period, that is, since n_shortages was last
   * set to 0 */
  gboolean was_full;
  /* The queue of the latest request for which the heap had no free memory.  The pool only compares
   * this pointer, because the queue may have been freed since then. */
  const TarnQueue *in_turn;
} TarnMet;

/* The caches of all threads (caches.c).
 *
 * Invariants, whenever a thread holds the lock; _tarn_pool_check () checks them:
 *
 *     n == the number of caches in the list that begins with first
 *     n_abandoned == the number of caches in that list with is_abandoned set
 *     room_bytes == sum of TarnCache.reserved_bytes over that list */
typedef struct
{
  TarnCache *first;
  guint n;
  guint n_abandoned; /* number of caches whose threads have ended: at most TARN_MAX_ABANDONED */
  gsize room_bytes;
} TarnCaches;

/* The structs of all blocks (block-chunk.c).
 *
 * Invariants, at each moment when no thread holds the lock:
 *
 *     each block in aside is in state ENDING, and n_aside is the length of aside
 *     each block in the table shared is in state SHARED
 *     each other block in state SHARED has one reference */
typedef struct
{
  GQueue chunks;         /* chunks with the structs of all held and active blocks */
  TarnBlockChunk *chunk; /* the chunk from which threads without a cache take structs */
  gsize n;               /* number of held and active blocks */
  /* An array of TarnBlock: blocks that were freed while the program still retains their memory
   * (aside.c). */
  GPtrArray *aside;
  guint n_aside; /* atomic: the length of aside; threads read it without the pool's lock */
  /* This number modulo n_aside is the index, in the array aside, of the block that the pool checks
   * next: it asks the backend whether the program still retains the block's memory. */
  guint next_aside;
  /* A table that maps each TarnBlock with several references to the number of its references minus
   * 1.  NULL if no block ever had several references. */
  GHashTable *shared;
} TarnBlocks;

/* A pool.  The following invariants hold if three conditions are met: no thread holds the pool's
 * lock; the pool's read sections are stopped; and all thread caches have reported their counts.
 * _tarn_pool_check () checks these invariants, and those of the structs above.
 *
 *     managed_bytes == sum of alloc_size over held and active blocks
 *     active_bytes  == sum of size over active blocks
 *     held_blocks   == number of blocks in the pool's, threads' and transfer bins, plus n_stuck
 *     held_bytes    == sum of alloc_size over these blocks
 *     every block in use has the share that _tarn_block_get_share () returns for it
 *     peak_managed_bytes >= managed_bytes, peak_active_bytes >= active_bytes
 *
 * A pool lives until three things have happened: the program has dropped the last reference
 * (orphaned), the last block was freed, and the last call that returns blocks to upstream has
 * ended.  Blocks have no reference to the pool, but the pool counts them (TarnBlocks.n).
 *
 * The lock guards all fields that are neither constant nor atomic.  Some fields are read
 * by requests that a thread's cache serves without the lock.  To change such a field, a thread must
 * also stop the pool's read sections.  No thread calls the driver or a callback
 * while it holds the lock.  So to return memory, a thread removes the blocks from all lists,
 * releases the lock, and then returns the memory of the blocks. */
struct _TarnPool
{
  TarnAllocator base; /* the first field, because TARN_ALLOCATOR () requires this */

  /* Fields that every hit (a request that a cached block serves) reads.  They share no cache line
   * with fields that threads write often, such as the reference count.  The table of queues in the
   * field met changes only while read sections are stopped. */
  /* The index of this pool's thread caches in TarnThread.items. */
  guint slot __attribute__ ((aligned (TARN_CACHE_LINES)));
  /* The parameter that selects the size classes of the pool's bins (bin.c).  Atomic, because a
   * thread with the pool's lock may change it without stopping the read sections. */
  guint leading_bits;
  TarnDoor door;
  TarnMet met;
  /* Fields that do not change, except the bounds in policy, which change while read sections are
   * stopped */
  /* The handle of the queue that a request uses if the request names no queue, or NULL if there is
   * no such queue. */
  gpointer default_queue;
  TarnAllocator *upstream; /* the upstream allocator, with a reference */
  TarnHeap *heap;          /* upstream, cast to a heap; NULL: upstream is no heap */
  TarnPoolPolicy policy;

  /* Fields that the lock guards, and that threads seldom write */
  gboolean has_arenas; /* atomic: TRUE if threads allocate from the heap's arenas (arenas.c) */
  gboolean orphaned;
  /* TRUE if read sections were allowed when a snapshot or reclaim-group.c stopped them. */
  gboolean was_open;
  /* Atomic: the number of requests so far.  After each policy.check_interval requests, the pool
   * checks its invariants. */
  guint n_unchecked;
  TarnStore store;
  TarnCaches caches;
  /* Atomic: the function that chooses the pool for a request, or NULL if there is none.  While this
   * field is not NULL, threads can enter read sections only by a slower path (fenced read
   * sections), so that no request bypasses the function. */
  TarnRedirect *redirect;
  /* Atomic: another pool, which redirects its requests to this pool, or NULL if there is none yet.
   * This pool has a reference to the other pool.  The other pool's index also contains the blocks
   * in use of this pool. */
  TarnPool *finder;

  TarnTransfers transfers;

  /* The lock stands in a cache line of its own, because threads that wait for it write there. */
  TarnMutex lock __attribute__ ((aligned (TARN_CACHE_LINES)));

  /* The peak of active bytes when the pool last looked for a new peak, or stats.active_bytes at
   * that time if that was higher.  _tarn_pool_count_own () looks for a new peak if
   * stats.active_bytes exceeds this field. */
  gsize noted_bytes __attribute__ ((aligned (TARN_CACHE_LINES)));
  /* The pool's own counters, without those of thread caches.  _tarn_pool_sum () adds up the
   * counters of the pool and the caches.  It also computes active_blocks, which is never set
   * here. */
  TarnPoolStats stats;
  /* Atomic: the number of times that threads returned memory to upstream.  A thread increments it
   * before it returns the memory.  A program reads it to find out if memory may no longer be
   * mapped at its addresses (tarn_pool_get_generation ()).  A pool over a heap uses the heap's
   * counter instead. */
  guint64 generation TARN_WHOLE;
  guint64 n_after_driver_calls; /* number of hits and misses that needed a call to the driver */
  TarnBlocks blocks;
  /* The index that finds blocks by their memory.  If policy.is_findable is set, the index contains
   * all blocks in use.  Otherwise it contains only the blocks whose callers got the memory without
   * the block (bare.c).  The index has its own locks. */
  TarnIndex index;
  TarnQueues queues;
  TarnLimit limit;
  TarnReturning returning;
  TarnRoom room;
  TarnReclaim reclaim;

  /* Atomic: the number of frees that the pool has ignored in a child of fork (), which cannot take
   * the pool's lock. */
  guint ignored_frees;
};

static inline TarnPool *
_tarn_pool_of (TarnAllocator *base)
{
  /* Converts the pointer through a gpointer, which avoids a warning about alignment (-Wcast-align).
   * The pointer is aligned for a pool, because the caller passes a pool. */
  gpointer pool = base;

  return pool;
}

/* Gets the heap that the program gave a pool as upstream.  Returns NULL if the upstream is no heap.
 * If TARN_DEBUG has put an allocator between the pool and the heap, skips that allocator. */
static inline TarnHeap *
_tarn_pool_get_given_heap (const TarnPool *pool)
{
  return _tarn_heap_of (_tarn_allocator_get_given (pool->upstream));
}

/* Returns @bytes minus @less, or 0 if @less is larger. */
static inline gsize
_tarn_subtract (gsize bytes, gsize less)
{
  return bytes - MIN (bytes, less);
}

/* Gets the bound on the bytes that a pool holds (caches).  The caller need not hold the pool's
 * lock. */
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

/* Functions of pool.c.  The caller holds the pool's lock. */
TarnBlock *_tarn_pool_take_from_share (TarnPool *pool, TarnCache *cache, const TarnQueue *queue,
                                       guint32 number, gsize size);
TarnBlock *_tarn_pool_end_use (TarnPool *pool, TarnCache *cache, TarnBlock *block);

gchar *_tarn_pool_make_report (TarnPool *pool); /* a function of stats.c */

/* Functions of describe.c, which implement function pointers of TarnAllocatorClass. */
void _tarn_pool_freeze (TarnAllocator *pool);
void _tarn_pool_thaw (TarnAllocator *pool);
void _tarn_pool_tell (TarnAllocator *pool, TarnListener *listener);
void _tarn_pool_tell_counters (TarnAllocator *pool, TarnListener *listener);

/* Functions of bare.c */
gboolean _tarn_pool_allocate_bare (gpointer pool, gsize size, TarnMemory *memory, GError **error);
void _tarn_pool_free_bare (gpointer pool, TarnMemory memory, gsize size);

/* Functions of room.c.  The caller does not hold the pool's lock. */
void _tarn_room_begin (TarnRoomWait *wait, GPtrArray *pools);
void _tarn_room_begin_attempt (TarnRoomWait *wait);
void _tarn_room_end_attempt (const TarnRoomWait *wait);
gboolean _tarn_room_await (const TarnRoomWait *wait, gint64 end_time);
void _tarn_room_end (const TarnRoomWait *wait);
/* Functions of room.c.  The caller holds the pool's lock. */
void _tarn_pool_tell_waiting (TarnPool *pool);
void _tarn_pool_note_failed_call (TarnPool *pool);

/* Wakes requests that wait for memory of a pool, so that they try again.  The caller holds the
 * pool's lock. */
static inline void
_tarn_pool_note_room (TarnPool *pool)
{
  if (TARN_UNLIKELY (pool->room.n_waiting > 0))
    _tarn_pool_tell_waiting (pool);
}

/* Functions of pool-check.c.  Only the caller of _tarn_pool_assert_valid () holds the pool's
 * lock. */
gchar *_tarn_pool_check (TarnPool *pool);
void _tarn_pool_assert_valid (TarnPool *pool);

/* Checks the invariants, but only in builds with --enable-debug=full.  The caller holds the pool's
 * lock.  Every operation calls this at its end. */
static inline void
_tarn_pool_check_if_full_debug (TarnPool *pool)
{
#if defined(TARN_DEBUG_LEVEL) && TARN_DEBUG_LEVEL >= 2
  _tarn_pool_assert_valid (pool);
#else
  (void) pool;
#endif
}

/* Takes the pool's lock and checks the invariants, but only in builds with --enable-debug=full. */
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
