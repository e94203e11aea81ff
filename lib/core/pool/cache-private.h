/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Thread caches: free lists that a thread keeps for itself, in front of the pool's bins.  Most hits
 * and frees take no lock, and write only to memory that other threads seldom read.
 *
 * Threads that may use a cache:
 *
 *     its own thread       in a read section of the pool's door (base/thread-private.h); or holding
 *                          the pool's lock, whether the door is open or not.
 *     any other thread     holding the lock, after closing the door, so that no thread is in a read
 *                          section; or, if the cache is abandoned, holding the lock alone.
 *
 * Another thread that holds only the lock may read these fields: length, hits and active_bytes,
 * which are atomic for this reason; and number and handle of bins, which change with the lock only.
 *
 * When a thread ends, its cache is abandoned.  If the pool already has TARN_MAX_ABANDONED abandoned
 * caches, the cache is freed instead, and its blocks go to the pool's bins.  The blocks of an
 * abandoned cache stay in it until a thread with the lock takes them.  A thread without a cache
 * takes over an abandoned one if there is one.  In a child of fork (), hits and frees find no
 * cache, because the thread has no record (base/fork.c).
 *
 * A cache has blocks of any number of queues, in a bin for each size and queue: blocks that only
 * one in-order queue has used can be used again by that queue at once, from any thread
 * (order/order-private.h).  A block is in no cache if commands of several queues use it, or if its
 * free recorded an event.
 *
 * After the pool is told to hold no more blocks, or if TarnPoolOptions gives threads no cache, the
 * door stays closed and caches are empty.
 *
 * In a pool over a heap, a thread whose cache has no block allocates from the arenas of its queue:
 * arenas.c.
 *
 * If blocks do not fit into a thread's cache, the thread hands them over to threads whose bin for
 * the size and the queue is empty (transfer.c), or moves them to the pool's bin.
 *
 * Order of reuse: a cache has the blocks that its thread freed last, newest first.  Blocks that do
 * not fit leave the cache oldest first.  So if only one thread uses a pool, it reuses last the
 * block that it freed first. */

#ifndef TARN_POOL_CACHE_PRIVATE_H
#define TARN_POOL_CACHE_PRIVATE_H

#include "base/thread-private.h"
#include "common/whole-private.h"
#include "heap/arena-private.h"
#include "pool/bin-private.h"
#include "pool/pool-private.h"

/* The hash table of bins in a cache.  The number of home slots is a power of two.  A bin stands in
 * its home slot, or in one of the TARN_CACHE_PROBES - 1 slots after it.  With four leading bits and
 * a single queue, each bin of sizes below 4 GiB has a home slot of its own.  If all slots for a new
 * bin are taken, it replaces the bin in its home slot. */
#define TARN_CACHE_HOME_BITS 9
#define TARN_CACHE_HOMES (1U << TARN_CACHE_HOME_BITS)
#define TARN_CACHE_PROBES 4
#define TARN_CACHE_BINS (TARN_CACHE_HOMES + TARN_CACHE_PROBES - 1)
#define TARN_CACHE_WORDS ((TARN_CACHE_BINS + 63) / 64)

/* The shift that leaves the top TARN_CACHE_HOME_BITS bits of a 32-bit product: the hash of a
 * bin's number and queue, times TarnPoolPolicy.spread.  These bits are the index of the bin's
 * home slot. */
#define TARN_SPREAD_SHIFT (32 - TARN_CACHE_HOME_BITS)

/* The most bytes that a thread moves from a pool's bin to its cache at a time, or hands over to
 * other threads in one batch. */
#define TARN_MAX_BYTES_AT_A_TIME ((gsize) 2 << 20)

/* Microseconds for which a cache's counters must not change before other threads take its thread
 * for idle, and take its blocks.  The time begins when another thread first sees the counters.
 * Without this time, several threads that look at the same moment would take a busy thread for
 * idle.  The busy thread would then need its blocks again, and take them from the next thread. */
#define TARN_IDLE_TIME (10 * G_TIME_SPAN_MILLISECOND)

/* The most caches of ended threads that a pool keeps for new threads. */
#define TARN_MAX_ABANDONED 4

/* A bin of a thread cache: the blocks of one size and one queue. */
typedef struct
{
  gpointer handle; /* the handle of the only queue that has used the blocks; NULL: no queue has */
  TarnBlock *top;  /* the block freed last; the others follow by TarnBlock.below */
  guint32 number; /* the number of the pool's bin; the cache's thread writes number and handle, with
                     the lock */
  guint16 length; /* the number of blocks; atomic, because other threads read it without closing the
                     door */
  guint16 capacity; /* the most blocks that it may have; changed with the lock only */
} TarnCacheBin;

/* The number of temporaries in succession after which a thread is expected to have more of them.  A
 * temporary is a block that the thread frees before it allocates another.  Only blocks that the
 * thread allocates and frees with the lock count. */
#define TARN_FEW_TEMPORARIES 2

/* A slot in the table of queues to whose arenas the pool has a reference (arena-table.c). */
struct _TarnMetQueue
{
  gpointer handle;  /* the queue's handle; NULL: for requests that name no queue */
  TarnQueue *queue; /* a reference; NULL: for requests that name no queue */
  TarnArenaRef ref; /* if ref.queue is NULL, the slot is free */
  gboolean is_used; /* atomic: a thread has used the queue since the table was full the last time */
  gboolean is_going; /* the queue is about to be removed; a thread that reads or writes this field
                        holds the pool's lock, and has closed the pool's door */
};

/* The most blocks that a cache keeps for temporaries (TarnCache.kept), each of a different
 * queue. */
#define TARN_CACHE_KEPT 8

/* A thread cache: the blocks that one thread keeps of one pool.
 *
 * Invariants, whenever a thread holds the lock and has closed the door; _tarn_pool_check () checks
 * them:
 *
 *     reserved_bytes == sum of capacity * alloc_size over the bins
 *     reserved_bytes <= thread_cache_bytes of the pool
 *     length of each bin <= its capacity <= thread_cache_blocks
 *     has_room has the bit of each bin whose capacity is not 0.
 *     If several slots of one home have the same number and queue, only the first has a capacity.
 *     The blocks are HELD, and their share is that of their bin's queue.
 *     No bin whose blocks' frees record events has a capacity. */
struct _TarnCache
{
  /* Changes that the pool's own counters do not include yet.  _tarn_cache_count_active () adds
   * them. */
  gsize active_bytes; /* atomic: the change of the pool's active bytes, modulo 2^64; negative if the
                         thread freed more bytes than it allocated */
  gssize peak; /* the highest value of active_bytes since the pool's counters last included it; 0 if
                  it was never positive */

  guint64 hits
      TARN_WHOLE; /* atomic: all requests that this cache served; the pool's counter lacks them */
  guint64 misses TARN_WHOLE; /* atomic: the requests that arenas have ever served through it */

  /* Guarded by the lock */
  guint64 seen_hits;     /* the hits when another thread last looked for blocks here */
  gsize seen_bytes;      /* counted_bytes + active_bytes at that time: look_whether_idle () */
  gint64 seen_at;        /* when a thread first saw seen_hits and seen_bytes: _tarn_clock_now () */
  gboolean is_abandoned; /* the cache's thread has ended */
  gsize reserved_bytes;  /* the bytes of all blocks for which the bins have capacity */
  gsize counted_bytes; /* the sum of all active_bytes that were added to the pool's counters, modulo
                          2^64.  Together with active_bytes it tells whether the cache was used,
                          even if another thread has added them since */

  TarnPool *pool;
  TarnCache *next;       /* the next one in the pool's list */
  TarnCache **link;      /* the pointer to this cache in the list */
  TarnBlockChunk *chunk; /* the chunk from which the structs of the thread's new blocks come; NULL
                            before the first */
  guint32 spread;        /* a copy of TarnPoolPolicy.spread */

  /* For blocks from arenas: arenas.c */
  gsize managed_bytes; /* atomic: the change of the pool's managed bytes that its counters do not
                          include yet, modulo 2^64 */
  gssize managed_peak;
  gssize granted_bytes; /* the most that managed_bytes may become, in a pool with a limit */
  gsize n_blocks; /* the change of the pool's number of blocks that its counters do not include yet,
                     modulo 2^64 */
  TarnBlock *spare; /* unused block structs, linked by TarnBlock.below */
  guint n_spare;
  guint n_to_pass; /* the number of small own blocks that the thread still frees without checking
                      whether the cache has room for them */
  guint n_taken_in_turn; /* blocks that the thread took from arenas since it checked the clock */
  gint64 looked_at;      /* when the thread last looked after the pool: _tarn_clock_now () */
  guint n_taken_kept;    /* the number of requests that blocks in kept have served */
  const TarnBlock *latest_own; /* the block that the thread took last from an arena; only to
                                  compare, because it may be gone */
  guint n_own_temporaries; /* the number of own blocks in succession that the thread freed before it
                              took the next one */
  TarnBlock *kept[TARN_CACHE_KEPT]; /* atomic: held blocks for temporaries (arenas-private.h), at an
                                       index by a hash of their queue; NULL: none.  Each serves
                                       requests of its queue for at most its size */

  TarnCacheBin bins[TARN_CACHE_BINS]; /* near the beginning of the struct: small offsets make
                                         instructions short */
  guint64 has_room[TARN_CACHE_WORDS]; /* guarded by the lock: a bit for each bin, set if its
                                         capacity is not 0 */

  const TarnBlock *latest; /* guarded by the lock: the block that the thread last allocated with the
                              lock; only to compare, because it may be gone */
  guint n_temporaries; /* guarded by the lock: the number of latest blocks in succession that the
                          thread freed before it allocated the next */
} __attribute__ ((aligned (TARN_CACHE_LINES)));

/* caches.c, cache.c and count.c.  The caller of the first three does not hold the pool's lock. */
void _tarn_pool_init_caches (TarnPool *pool);
TarnCache *_tarn_pool_lock (TarnPool *pool); /* takes the lock, and keeps it */
void _tarn_pool_free_caches (TarnPool *pool);
/* The caller holds the lock and has closed the door to read sections, or is a child of fork (). */
void _tarn_pool_sum (const TarnPool *pool, TarnPoolStats *stats);
/* The caller of the following functions holds the lock. */
gboolean _tarn_pool_close (TarnPool *pool);
void _tarn_pool_open_door (TarnPool *pool);
void _tarn_pool_open (TarnPool *pool, gboolean was_open);
void _tarn_pool_flush (TarnPool *pool);
void _tarn_pool_flush_closed (TarnPool *pool);
void _tarn_pool_give_up_room (TarnPool *pool);
void _tarn_pool_flush_queue (TarnPool *pool, gpointer handle);
void _tarn_pool_count (TarnPool *pool, TarnPoolStats *stats);
gsize _tarn_pool_get_managed (const TarnPool *pool);
void _tarn_pool_note_managed_peak (TarnPool *pool);
gsize _tarn_pool_get_committed (const TarnPool *pool);
void _tarn_pool_count_own (TarnPool *pool);
void _tarn_cache_count_active (TarnCache *cache);
void _tarn_pool_count_closed (TarnPool *pool);
void _tarn_pool_note_peak (TarnPool *pool);
void _tarn_pool_empty_bins_of_queue (TarnPool *pool, gpointer handle);
void _tarn_pool_empty_bins_of_size (TarnPool *pool, guint32 number);
void _tarn_cache_empty (TarnCache *cache);
void _tarn_cache_empty_bin (TarnCache *cache, TarnCacheBin *bin);
void _tarn_cache_give_up_unused_room (TarnCache *cache);
void _tarn_cache_empty_bins_of_size (TarnCache *cache, guint32 number);
gboolean _tarn_cache_fill (TarnCache *cache, guint32 number, gpointer handle, TarnBins *share);
gboolean _tarn_cache_keep (TarnCache *cache, TarnBlock *block);
gboolean _tarn_cache_keep_own (TarnCache *cache, TarnBlock *block);
void _tarn_cache_note_latest (TarnCache *cache, const TarnBlock *block);
gboolean _tarn_cache_note_free (TarnCache *cache, const TarnBlock *block);
gboolean _tarn_pool_take_from_abandoned (TarnPool *pool, guint32 number, gpointer handle);
gboolean _tarn_pool_take_from_idle_threads (TarnPool *pool, guint32 number, gpointer handle);

/* arenas.c.  The caller does not hold the pool's lock. */
TarnBlock *_tarn_pool_take_from_arena (TarnPool *pool, gsize size, gpointer handle,
                                       gboolean is_followed, gboolean *is_due);
TarnBlock *_tarn_pool_take_from_arena_at_once (TarnPool *pool, gsize size, guint32 bin,
                                               gpointer handle, gboolean *is_due);
gboolean _tarn_pool_put_to_arena (TarnPool *pool, TarnCache *cache, TarnBlock *block,
                                  gboolean is_followed);
gboolean _tarn_pool_put_to_arena_at_once (TarnPool *pool, TarnCache *cache, TarnBlock *block);
/* made-parts.c.  The caller does not hold the pool's lock. */
gboolean _tarn_pool_begin_to_go (TarnCache *cache, TarnBlock *block, TarnBlock **goes);
gboolean _tarn_pool_go_without_part (TarnPool *pool, TarnCache *cache, TarnBlock *block);

/* stock.c and arenas.c.  The caller holds the pool's lock. */
void _tarn_cache_refill_spare (TarnCache *cache);
void _tarn_cache_grant (TarnCache *cache);
void _tarn_pool_end_grants (TarnPool *pool);
void _tarn_pool_set_exact (TarnPool *pool, gboolean is_exact);
TarnBlock *_tarn_cache_get_kept (const TarnCache *cache, gpointer handle);
void _tarn_cache_return_kept (TarnCache *cache, gpointer handle);
void _tarn_cache_return_all_kept (TarnCache *cache);
TarnBlock *_tarn_cache_return_own (TarnCache *cache, TarnBlock *blocks);

/* arena-table.c.  The caller holds the pool's lock. */
void _tarn_pool_settle (TarnPool *pool, TarnBlock *block);
void _tarn_pool_add_met (TarnPool *pool, gpointer handle, TarnQueue *queue,
                         const TarnArenaRef *ref);
void _tarn_pool_drop_met (TarnPool *pool, gpointer handle);
void _tarn_pool_end_arenas (TarnPool *pool);

/* transfer.c.  The caller of the first three does not hold the pool's lock. */
void _tarn_pool_init_transfers (TarnPool *pool);
TarnBlock *_tarn_pool_take_received (TarnPool *pool, gsize size, gpointer handle,
                                     gboolean is_followed);
gboolean _tarn_pool_put_handing_over (TarnPool *pool, TarnBlock *block, gboolean is_followed);
/* The caller of the others holds the pool's lock. */
void _tarn_pool_bound_transfers (TarnPool *pool);
gboolean _tarn_pool_take_from_transfer (TarnPool *pool, guint32 number, gpointer handle);
void _tarn_pool_take_from_transfers (TarnPool *pool, guint32 number);
void _tarn_pool_empty_transfers (TarnPool *pool);
void _tarn_pool_add_transfers (const TarnPool *pool, TarnPoolStats *stats);

/* Returns TRUE if the pool's bound on the bytes of held blocks also counts bytes for which thread
 * caches have room.  That is so if the program has set the bound. */
static inline gboolean
_tarn_pool_counts_room (const TarnPool *pool)
{
  return pool->policy.hold_bytes != 0 && pool->policy.hold_bytes != G_MAXSIZE;
}

/* Returns TRUE if transfer bins have any blocks, which a thread has handed over and no other thread
 * has taken yet.  Needs no lock. */
static inline gboolean
_tarn_pool_has_transfers (const TarnPool *pool)
{
  return __atomic_load_n (&pool->transfers.n_batches, __ATOMIC_RELAXED) > 0;
}

/* Hashes a bin number and a queue's handle.  Handles are usually addresses, whose low bits are
 * alike.  The factor, 2^64 divided by the golden ratio, spreads the addresses. */
static inline guint32
_tarn_spread (guint32 number, gpointer handle)
{
  guint64 spread = (guint64) GPOINTER_TO_SIZE (handle) * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);

  return number + (guint32) (spread >> 40);
}

/* Finds a queue in the table of queues to whose arenas the pool has references.  @handle: the
 * queue's handle; NULL: for requests that name no queue.  Returns NULL if the table does not have
 * the queue.  The caller holds the pool's lock, or is in a read section of its door. */
static inline TarnMetQueue *
_tarn_pool_find_met (const TarnPool *pool, gpointer handle)
{
  if (pool->met.places == NULL)
    return NULL;
  for (guint i = _tarn_spread (0, handle);; i++)
    {
      TarnMetQueue *met = &pool->met.places[i & pool->met.mask];

      if (met->ref.queue == NULL)
        return NULL;
      if (TARN_LIKELY (met->handle == handle))
        return met;
    }
}

/* Gets the home slot of a bin: the first slot in which the bin can stand. */
static inline TarnCacheBin *
_tarn_cache_get_home (TarnCache *cache, guint32 number, gpointer handle)
{
  return &cache->bins[_tarn_spread (number, handle) * cache->spread >> TARN_SPREAD_SHIFT];
}

static inline gboolean
_tarn_cache_bin_is_for (const TarnCacheBin *bin, guint32 number, gpointer handle)
{
  return bin->number == number && bin->handle == handle;
}

/* Gets the number of the bin for a size. */
static inline __attribute__ ((always_inline)) guint32
_tarn_pool_get_bin (const TarnPool *pool, gsize size)
{
  return _tarn_bin_number (size, _tarn_pool_get_leading_bits (pool));
}

/* Gets the allocation size of the blocks of a bin. */
static inline gsize
_tarn_cache_get_alloc_size (const TarnCache *cache, guint32 number)
{
  return _tarn_bin_alloc_size (number, _tarn_pool_get_leading_bits (cache->pool));
}

/* Finds the first bin from index @i on that has a capacity above 0.  Returns TARN_CACHE_BINS if
 * there is none. */
static inline guint
_tarn_cache_find_bin_with_room (const TarnCache *cache, guint i)
{
  for (; i < TARN_CACHE_BINS; i = (i / 64 + 1) * 64)
    {
      guint64 bits = cache->has_room[i / 64] >> i % 64;

      if (bits != 0)
        return i + (guint) __builtin_ctzll (bits);
    }
  return TARN_CACHE_BINS;
}

#define TARN_FOR_EACH_BIN_WITH_ROOM(i, cache)                                                      \
  for (guint i = _tarn_cache_find_bin_with_room (cache, 0); i < TARN_CACHE_BINS;                   \
       i = _tarn_cache_find_bin_with_room (cache, i + 1))

/* Finds the cache's bin for blocks of a size and a queue.  Returns NULL if there is none. */
static inline __attribute__ ((always_inline)) TarnCacheBin *
_tarn_cache_find_bin (TarnCache *cache, guint32 number, gpointer handle)
{
  TarnCacheBin *bin = _tarn_cache_get_home (cache, number, handle);

  if (TARN_LIKELY (_tarn_cache_bin_is_for (bin, number, handle)))
    return bin;
  for (const TarnCacheBin *last = bin + TARN_CACHE_PROBES - 1; bin < last;)
    if (_tarn_cache_bin_is_for (++bin, number, handle))
      return bin;
  return NULL;
}

/* Replaces the blocks of a bin: sets its topmost block and its number of blocks. */
static inline void
_tarn_cache_bin_set (TarnCacheBin *bin, TarnBlock *top, guint length)
{
  bin->top = top;
  __atomic_store_n (&bin->length, (guint16) length, __ATOMIC_RELAXED);
}

/* Gets the cache that a thread has of a pool.  Returns NULL if the thread has none. */
static inline TarnCache *
_tarn_cache_of (const TarnThread *thread, const TarnPool *pool)
{
  return TARN_LIKELY (pool->slot < thread->n_items) ? thread->items[pool->slot] : NULL;
}

/* Makes a block active for a request of @size bytes, and counts its bytes.  The thread is in a read
 * section, or holds the pool's lock. */
static inline __attribute__ ((always_inline)) void
_tarn_cache_activate (TarnCache *cache, TarnBlock *block, gsize size)
{
  gsize active;

  _tarn_block_set_state (block, TARN_BLOCK_ACTIVE);
  block->size = size;
  active = cache->active_bytes + size;
  __atomic_store_n (&cache->active_bytes, active, __ATOMIC_RELAXED);
  if ((gssize) active > cache->peak)
    cache->peak = (gssize) active;
}

/* Takes the block that was freed last from a bin, makes it active, and counts the hit.  The caller
 * makes sure that the bin is not empty.  The thread is in a read section, or holds the pool's
 * lock. */
static inline __attribute__ ((always_inline)) TarnBlock *
_tarn_cache_pop (TarnCache *cache, TarnCacheBin *bin, gsize size)
{
  TarnBlock *block = bin->top;

  _tarn_cache_bin_set (bin, block->below, bin->length - 1U);
  _tarn_cache_activate (cache, block, size);
  __atomic_store_n (&cache->hits, cache->hits + 1, __ATOMIC_RELAXED);
  return block;
}

typedef gboolean (*TarnBeginVisit) (TarnThread *thread, guint visit, const TarnDoor *door);

/* Serves a request from a bin of the calling thread's cache.  @handle: the request's queue; NULL:
 * none.  Returns NULL if the caller has to take the lock.  @begin is a compile-time constant, so
 * that the compiler inlines the call of it. */
static inline __attribute__ ((always_inline)) TarnBlock *
_tarn_pool_take (TarnPool *pool, gsize size, guint32 number, gpointer handle, TarnBeginVisit begin)
{
  TarnThread *thread = _tarn_current_thread;
  TarnCache *cache = _tarn_cache_of (thread, pool);
  TarnBlock *block = NULL;
  TarnCacheBin *bin;
  guint visit;

  if (TARN_UNLIKELY (cache == NULL))
    return NULL;
  visit = thread->visits + 1;
  if (TARN_UNLIKELY (!begin (thread, visit, &pool->door)))
    return NULL;
  bin = _tarn_cache_find_bin (cache, number, handle);
  if (TARN_LIKELY (bin != NULL && bin->top != NULL))
    block = _tarn_cache_pop (cache, bin, size);
  _tarn_thread_end_visit (thread, visit);
  return block;
}

static inline __attribute__ ((always_inline)) TarnBlock *
_tarn_pool_take_fast (TarnPool *pool, gsize size, guint32 number, gpointer handle)
{
  return _tarn_pool_take (pool, size, number, handle, _tarn_thread_begin_visit);
}

/* Puts a block on top of a bin.  The caller makes sure that the bin's length is below its capacity.
 * The thread is in a read section, or holds the pool's lock. */
static inline void
_tarn_cache_push (TarnCacheBin *bin, TarnBlock *block)
{
  block->below = bin->top;
  _tarn_block_set_state (block, TARN_BLOCK_HELD);
  _tarn_cache_bin_set (bin, block, bin->length + 1U);
}

/* Subtracts the bytes of a block that stops being active.  The thread is in a read section, or
 * holds the pool's lock. */
static inline __attribute__ ((always_inline)) void
_tarn_cache_count_free (TarnCache *cache, const TarnBlock *block)
{
  __atomic_store_n (&cache->active_bytes, cache->active_bytes - block->size, __ATOMIC_RELAXED);
}

/* Puts a block that is being freed on top of a bin, and counts the free.  The caller makes sure
 * that the bin has room.  The thread is in a read section, or holds the pool's lock. */
static inline __attribute__ ((always_inline)) void
_tarn_cache_put (TarnCache *cache, TarnCacheBin *bin, TarnBlock *block)
{
  _tarn_cache_count_free (cache, block);
  _tarn_cache_push (bin, block);
}

/* Puts a block that is being freed into the calling thread's cache.  Returns FALSE, and changes
 * nothing, if the caller has to take the lock. */
static inline __attribute__ ((always_inline)) gboolean
_tarn_pool_put (TarnPool *pool, TarnBlock *block, TarnBeginVisit begin)
{
  TarnThread *thread = _tarn_current_thread;
  TarnCache *cache = _tarn_cache_of (thread, pool);
  gboolean is_held = FALSE;
  TarnCacheBin *bin;
  guint visit;

  if (TARN_UNLIKELY (cache == NULL))
    return FALSE;
  visit = thread->visits + 1;
  if (TARN_UNLIKELY (!begin (thread, visit, &pool->door)))
    return FALSE;
  bin = _tarn_cache_find_bin (cache, block->bin, block->share);
  if (TARN_LIKELY (bin != NULL && block->state == TARN_BLOCK_ACTIVE && bin->length < bin->capacity))
    {
      _tarn_cache_put (cache, bin, block);
      is_held = TRUE;
    }
  _tarn_thread_end_visit (thread, visit);
  return is_held;
}

static inline __attribute__ ((always_inline)) gboolean
_tarn_pool_put_fast (TarnPool *pool, TarnBlock *block)
{
  return _tarn_pool_put (pool, block, _tarn_thread_begin_visit);
}

#endif
