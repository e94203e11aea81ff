/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What a pool is, and what its parts on this floor share:
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
#include "heap/arena-private.h"
#include "pool/block-chunk-private.h"

typedef struct _TarnCache TarnCache;       /* cache-private.h */
typedef struct _TarnMetQueue TarnMetQueue; /* there, too */

/* So many blocks of a bin that came from a thread's cache together.  Another thread that may keep
 * as many takes them as they came, and looks at them, in the caches of another processor, when it
 * has given up the lock. */
typedef struct
{
  TarnBlock *last;
  gsize n;
} TarnBatch;

/* Blocks of one size that wait to be handed out, last in first out.  A pool has them apart by what
 * commands may still use them:
 *
 *     idle bins       nobody's: no command that anybody knows of
 *     a queue's bins  its share: commands of that in-order queue alone, which it never has to wait
 *                     for, and no event stands for them
 *     recorded bins   all others: each use has an event, or else no other queue can have the block
 *                     as yet
 *
 * A recorded bin also has what the pool knows of the size as a whole.
 *
 * Invariants: the topmost blocks may be in batches, in recorded bins none are.  A queue's bin that
 * has blocks is counted by the recorded bin of its number, and is in that one's list unless it is
 * wanted; but only if blocks move. */
typedef struct _TarnBin TarnBin;

struct _TarnBin
{
  guint32 number;
  TarnBlock *top; /* the one freed last; through TarnBlock.below */
  gsize length;
  TarnBatch *batches; /* a stack: the last one has the topmost blocks */
  gsize n_batches;
  gsize max_batches; /* that there is room for */

  TarnBins *bins; /* that it is one of */

  /* Of a queue's */
  TarnQueue *queue;   /* NULL: it is none */
  gboolean is_wanted; /* others have asked for an event on these blocks */
  TarnBin *next;      /* among those that have blocks which nobody has asked for */
  TarnBin **link;     /* what points to it there; NULL: it is not */

  /* Of the recorded */
  guint n_to_record; /* frees that are yet to record events, because blocks of the size are handed
                        on from queue to queue */
  guint n_shares;    /* queues' bins of the number that have blocks, */
  TarnBin *unasked;  /* and those of them that nobody has asked for */
};

/* Blocks in bins, the oldest first.  Their links are in TarnAge. */
typedef struct
{
  TarnBlock *oldest, *newest; /* NULL: there are none */
  TarnBlock *asked_next;      /* the block to ask the driver about next; NULL: the oldest */
  gsize bytes;                /* of them all */
} TarnAges;

/* Bins by their numbers.  A request, and a free, look for the same one several times. */
struct _TarnBins
{
  TarnQueue *queue;      /* whose share they are; NULL: they are no queue's */
  GHashTable *table;     /* number -> TarnBin, owned */
  guint32 latest_number; /* that was looked for last, */
  TarnBin *latest;       /* and what is in the table for it; NULL: nothing */
  guint n_empty;         /* of them: that have no blocks */
  guint many_empty;      /* so many that it is worth looking for some that are of no use */
  TarnAges *ages;        /* the pool's list of their blocks; NULL: they are in none */
};

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
  TarnTransfer batches[TARN_TRANSFER_BATCHES]; /* of transfer_blocks, the oldest batch first */
} __attribute__ ((aligned (TARN_CACHE_LINES))) TarnTransferBin;

/* One call that is giving blocks back to the upstream allocator, on the stack of its thread.
 * Whoever runs out of memory meanwhile waits for it, because the memory is as good as free. */
typedef struct
{
  TarnTicket ticket;       /* first: in the pool's list */
  TarnTicket group_ticket; /* in the group's, if there is one */
  TarnReclaimGroup *group; /* a reference; NULL: none */
  TarnBlock *blocks;       /* retired; through TarnBlock.below */
  TarnBlock *stuck;        /* of them: that could not go back */
  gsize n_untold;          /* of these: that no message has named before, */
  gsize untold_bytes;      /* and their bytes */
  gsize unreserved_bytes;  /* of them; the others are reserved by a request that waits */
  gboolean is_foreign;     /* of a call that has no reference on the pool */
} TarnGiveBack;

#define TARN_RECORDED_COUNTS 64

/* Invariants, whenever the lock can be taken, the door is closed and everything is counted;
 * _tarn_pool_check () executes them:
 *
 *     managed_bytes == sum of alloc_size over held and active blocks
 *     active_bytes  == sum of size over active blocks
 *     n_blocks      == number of held and active blocks
 *     held_blocks   == sum of the lengths of bins, of threads' and transfer ones, too, and n_stuck
 *     held_bytes    == sum of alloc_size over the blocks there
 *     every block in bin b satisfies bin_number (alloc_size) == b, and is used as its bins say
 *     an exact-size block is in no bin, and none is once stop_holding is set
 *     every block in use has the share that _tarn_block_get_share () says
 *     peak_managed_bytes >= managed_bytes, peak_active_bytes >= active_bytes
 *     returning_bytes == sum of unreserved_bytes over the calls that are giving back
 *     managed_bytes + reserved_bytes + returning_bytes <= ceiling_bytes
 *     ceiling_bytes >= the limit, or G_MAXSIZE if there is none
 *     room_bytes    == sum of reserved_bytes over the caches
 *
 * A pool lives until its last reference is gone (orphaned), and its last block, and the last call
 * that gives blocks back.  Blocks hold no reference: active_blocks counts them.
 *
 * The lock guards all that is not constant, but for what hits read, which changes behind the door,
 * too, and what is atomic.  No driver call and no callback happens under it, so blocks that go back
 * are taken out of everything first. */
struct _TarnPool
{
  TarnAllocator base; /* first: see TARN_ALLOCATOR () */

  /* What every hit reads, apart from what is written, such as references.  These are constant, */
  TarnAllocator *upstream __attribute__ ((aligned (TARN_CACHE_LINES))); /* a reference */
  TarnHeap *heap;         /* that upstream is; NULL: it is none */
  gpointer default_queue; /* of requests that name none; NULL: none */
  gsize thread_cache_bytes;
  guint thread_cache_blocks;
  guint leading_bits;    /* atomic */
  guint transfer_blocks; /* of a batch that threads hand over; 0: they do not */
  guint slot;            /* of threads' caches: cache-private.h */
  guint32 spread;        /* what bins' numbers are multiplied by for their homes there */
  /* and these are while the door is open. */
  guint met_mask;    /* places in the table, less 1 */
  TarnMetQueue *met; /* queues whose arenas it has met: arena-table.c; NULL: none ever */
  TarnDoor door;

  /* Behind the lock, and seldom written */
  TarnBins *idle_bins;
  TarnBins *recorded_bins;

  /* If there is a bound on what the pool holds: all blocks in bins. */
  TarnAges ready;    /* those that can go back at any time: nobody's; queues' as well, over a heap,
                        which orders what it is given, or where upstream does; then also recorded
                        ones */
  TarnAges shares;   /* other queues' blocks, which go back when the host has waited for them */
  TarnAges recorded; /* other recorded blocks, which can go back once their events are done */
  TarnAges *share_ages; /* constant: where queues' blocks are, of the first two; NULL: in none */
  /* Of blocks in recorded bins, by their numbers modulo this: atomic, for requests that take no
   * lock, which leave those to others that such a block could serve. */
  guint n_recorded[TARN_RECORDED_COUNTS];
  gboolean has_late; /* atomic: more is held than may be, and the driver may say that it is done:
                        for requests that take no lock */
  gboolean has_done; /* the events of some of the recorded may be done */
  gint64 look_at;    /* the time at which to see whether some were not used for too long */
  TarnCache *caches;
  guint n_abandoned;      /* of them: their threads have ended */
  guint n_met;            /* queues whose arenas it has met */
  gboolean moves_blocks;  /* constant: blocks of one queue's share may go to another; not over a
                             heap,  whose memory does */
  gboolean has_addresses; /* constant: what the heap has is addresses, not parts of upstream's */
  gboolean has_arenas;    /* threads take memory from the heap's: arenas.c; once FALSE, for good */
  gboolean is_debugged;   /* constant: blocks are what was asked for, and never held */
  guint check_interval;   /* constant: requests from one check to the next; 0: there are none */
  guint n_unchecked;      /* atomic: requests since the last one */
  gboolean stop_holding;
  gboolean orphaned;

  TarnTransferBin transfer_bins[TARN_TRANSFER_BINS];
  gsize max_transfer_bytes; /* constant: in all of them; G_MAXSIZE: there is no bound */
  gsize transfer_bytes;     /* atomic: in all of them, if there is a bound */
  guint n_batches;          /* atomic: in all of them */

  /* Apart from what it guards, because threads that wait for it write to it. */
  TarnMutex lock __attribute__ ((aligned (TARN_CACHE_LINES)));

  /* stats.active_bytes that it takes to look for a new peak */
  gsize noted_bytes __attribute__ ((aligned (TARN_CACHE_LINES)));
  TarnPoolStats stats; /* what caches have counted, and hold, is yet to be added: _tarn_pool_sum ();
                          active_blocks is never set */
  guint64 n_after_driver_calls; /* of hits and misses: those that called the driver for memory */
  gsize n_blocks;
  TarnBlock *stuck; /* held in no bin: they were to go back, and go with the next ones that do,
                       because nobody could tell whether they are still used */
  gsize n_stuck;

  GQueue chunks;            /* of TarnBlockChunk: every held or active block is in one */
  TarnBlockChunk *chunk;    /* of threads that have no cache */
  GHashTable *bare;         /* memory that tarn_allocator_allocate_memory () handed out -> GSList of
                               TarnBlock, which are owned by users */
  GPtrArray *reclaim_funcs; /* in the order they were added */
  guint last_reclaim_id;

  /* order/ */
  GHashTable *queues;         /* handle -> TarnQueue */
  TarnQueue *latest_queue;    /* of them, the one named last; NULL: none */
  guint n_unused_queues;      /* of them: that nothing has a reference on */
  GQueue unrecorded_queues;   /* of them: that have TarnQueue.has_unrecorded, by unrecorded_link */
  GPtrArray *released_queues; /* of TarnQueue: references to drop for that */
  TarnQueue *gone_queues;     /* nobody's any more, for _tarn_pool_unlock_and_sweep () */
  TarnEvent *gone_events;
  TarnCond recording_ended; /* TarnQueue.n_recording of one that was forgotten is 0 */

  TarnReclaimGroup *group; /* a reference; NULL: none */

  TarnTickets give_backs; /* of TarnGiveBack */
  gboolean was_open;      /* the door, before reclaim-group.c or a snapshot closed it */
  guint n_foreign;        /* of them: on behalf of another pool of the group */

  gsize asked_cache_bytes; /* constant: TarnPoolOptions.thread_cache_bytes */
  gsize hold_bytes;        /* constant; G_MAXSIZE: no bound; 0: by managed_bytes */
  gsize room_bytes;        /* sum of reserved_bytes over the caches */
  guint n_caches;
  gsize max_held;      /* constant: bytes of a block, above which bins do not hold it, */
  gsize max_kept;      /* constant: nor do threads, unless they have temporaries */
  gsize limit_bytes;   /* 0: none */
  gsize ceiling_bytes; /* the limit; or what there was when that was lowered, or when memory could
                          not go and came back, as long as no request has fitted in again */
  guint64 n_came_back; /* calls after which some did */
  gsize returning_bytes;
  gsize reserved_bytes; /* being asked for upstream */
  guint64 ended_reservations;
  guint n_awaiting; /* calls that wait for one to end, or for another limit */
  TarnCond reservation_ended;

  guint ignored_frees; /* atomic: counted in a child of fork (), where the lock is not to be had */
};

static inline TarnPool *
_tarn_pool_of (TarnAllocator *base)
{
  gpointer pool = base; /* which is aligned as a pool is */

  return pool;
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

/* ages.c; the lock is held */
void _tarn_ages_add (TarnAges *ages, TarnBlock *first, const TarnBlock *last);
void _tarn_ages_add_back (TarnAges *ages, TarnBlock *block);
void _tarn_ages_remove (TarnAges *ages, TarnBlock *block);

/* bins.c; the lock is held */
TarnBins *_tarn_bins_new (TarnQueue *queue, TarnAges *ages);
void _tarn_bin_want (TarnBin *bin);
void _tarn_bin_unwant (TarnPool *pool, TarnBin *bin);
void _tarn_bins_free (TarnBins *bins);
TarnBin *_tarn_bins_get (TarnBins *bins, guint32 number);
gboolean _tarn_bins_have (TarnBins *bins, guint32 number);
TarnBins *_tarn_pool_get_share (const TarnPool *pool, const TarnQueue *queue);
gboolean _tarn_pool_records_frees (const TarnPool *pool, guint32 number);
void _tarn_pool_set_to_record (TarnPool *pool, guint32 number, guint n);
void _tarn_pool_put_block (TarnPool *pool, TarnBlock *block);
void _tarn_pool_put_batch (TarnPool *pool, TarnBlock *first, TarnBlock *last, gsize n);
void _tarn_bin_move (TarnPool *pool, TarnBin *bin);
void _tarn_bins_move (TarnPool *pool, TarnBins *bins);
TarnBlock *_tarn_pool_pop_block (TarnPool *pool, TarnBin *bin, TarnBlock **link);
guint _tarn_pool_take_for_cache (TarnPool *pool, TarnBin *bin, guint n_taken, guint max,
                                 TarnBlock ***end);
TarnBlock *_tarn_pool_take_block (TarnPool *pool, TarnBin *bin, TarnBlock **link, gsize size);
TarnBlock *_tarn_pool_take_top (TarnPool *pool, TarnBins *bins, guint32 number, gsize size);
TarnBlock *_tarn_pool_take_any (TarnPool *pool, guint32 number, gsize size);
void _tarn_pool_add_fresh (TarnPool *pool, TarnBlock *block);
void _tarn_pool_retire (TarnPool *pool, TarnBlock *block);
void _tarn_pool_hold_stuck (TarnPool *pool, TarnBlock *block);
void _tarn_bins_drop_empty (TarnBins *bins);
void _tarn_pool_remove_block (TarnPool *pool, TarnBlock *block);

/* retire.c; the lock is held */
TarnBlock *_tarn_pool_take_stuck (TarnPool *pool);
TarnBlock *_tarn_pool_take_idle (TarnPool *pool, gsize keep_bytes);
TarnBlock *_tarn_pool_take_share (TarnPool *pool, const TarnBins *share);
TarnBlock *_tarn_pool_take_sparable (TarnPool *pool, const TarnBins *share);
TarnBlock *_tarn_pool_take_excess (TarnPool *pool);
TarnBlock *_tarn_pool_take_excess_after (TarnPool *pool, TarnBlock *blocks);
gsize _tarn_pool_get_room (const TarnPool *pool);
gsize _tarn_pool_get_room_for_caches (const TarnPool *pool);
gboolean _tarn_pool_has_excess (const TarnPool *pool);
gboolean _tarn_pool_needs_recorded (const TarnPool *pool);
TarnBlock *_tarn_pool_take_largest (TarnPool *pool, gsize wanted);

/* describe.c; see TarnAllocatorClass */
void _tarn_pool_freeze (TarnAllocator *pool);
void _tarn_pool_thaw (TarnAllocator *pool);
void _tarn_pool_tell (TarnAllocator *pool, TarnListener *listener);
void _tarn_pool_tell_counters (TarnAllocator *pool, TarnListener *listener);

/* bare.c */
GHashTable *_tarn_bare_table_new (void);
gboolean _tarn_pool_allocate_bare (gpointer pool, gsize size, TarnMemory *memory, GError **error);
void _tarn_pool_free_bare (gpointer pool, TarnMemory memory, gsize size);

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
