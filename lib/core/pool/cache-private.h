/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Thread caches: free lists of cached blocks that each thread has for itself, in front of the
 * pool's bins.  Most hits and frees take no lock, and write only to memory that other threads
 * seldom read.
 *
 * A thread uses its own cache in a read section of the pool (base/thread-private.h), or while it
 * holds the pool's lock.  Another thread may use the cache if it holds the lock and has stopped the
 * pool's read sections (_tarn_pool_close ()), so that no thread is in one.  In three cases, this
 * other thread needs only the lock:
 *
 * - The cache is abandoned: its thread has ended.
 * - The other thread only reads the fields length, hits and active_bytes, which are atomic for
 *   this reason.
 * - The other thread only reads the fields number and handle of a bin, which a thread changes only
 *   while it holds the lock.
 *
 * When a thread ends, its cache is abandoned.  If the pool already has TARN_MAX_ABANDONED abandoned
 * caches, the pool frees the cache instead, and moves its blocks to the pool's bins.  The blocks of
 * an abandoned cache stay there until a thread that holds the lock takes them.  A thread without a
 * cache takes over an abandoned one if there is one.  In a child of fork (), the only thread has
 * lost its record (TarnThread), so its requests and frees find no cache (base/fork.c).
 *
 * A cache has a bin for each size and queue.  A block may be in a cache only if at most one
 * in-order queue has used it, because this queue can use the block again at once, from any thread
 * (order/order-private.h).  A block that commands of several queues use, or whose free recorded an
 * event, is in no cache.  If TarnPoolOptions turns thread caches off, or after the program has told
 * the pool to cache no blocks at all, read sections stay stopped, and every cache is empty.
 *
 * In a pool over a heap, a thread whose cache has no block for a request allocates from the arenas
 * of the request's queue (arenas.c).
 *
 * If blocks do not fit into a thread's cache, the thread hands them over to threads whose bin for
 * the size and the queue is empty (transfer.c), or moves them to the pool's bin.
 *
 * A cache has the blocks that its thread freed last, and serves requests with the newest of these
 * blocks first.  Blocks that do not fit leave the cache oldest first.  So if only one thread uses a
 * pool, the block that it freed first is the last that it reuses. */

#ifndef TARN_POOL_CACHE_PRIVATE_H
#define TARN_POOL_CACHE_PRIVATE_H

#include "base/thread-private.h"
#include "common/whole-private.h"
#include "heap/arena-private.h"
#include "pool/bin-private.h"
#include "pool/pool-private.h"

/* The size of the hash table of bins in a thread cache.  The hash of a bin gives its home slot.
 * The number of home slots is a power of two.  A bin stands in its home slot, or in one of the
 * TARN_CACHE_PROBES - 1 slots after it.  If all these slots are taken, a new bin replaces the bin
 * in its home slot. */
#define TARN_CACHE_HOME_BITS 9
#define TARN_CACHE_HOMES (1U << TARN_CACHE_HOME_BITS)
#define TARN_CACHE_PROBES 4
#define TARN_CACHE_BINS (TARN_CACHE_HOMES + TARN_CACHE_PROBES - 1)
#define TARN_CACHE_WORDS ((TARN_CACHE_BINS + 63) / 64)

/* The factors of the hash of a bin's number and its queue's handle (_tarn_hash ()).  They are odd,
 * and no small multiple of one is near a small multiple of the other modulo 2^32.  They are
 * constants, because a pair of a hit and a free took a tenth longer when each request loaded a
 * factor from the thread's cache. */
#define TARN_HASH_NUMBER 0x9e3779b1U
#define TARN_HASH_HANDLE 0xc2b2ae3dU

/* The most bytes that a thread moves at a time from a pool's bin to its cache, or that it hands
 * over to other threads in one batch. */
#define TARN_MAX_BYTES_AT_A_TIME ((gsize) 2 << 20)

/* A time in microseconds.  A thread remembers when it has first read the present values of another
 * cache's counters.  If the counters have not changed for TARN_IDLE_TIME since then, the cache's
 * thread counts as idle, and other threads take its blocks.  If this time were 0, a busy thread
 * would count as idle when two threads read its counters right after each other.  The busy thread
 * would lose its blocks, and would then take blocks from other threads itself. */
#define TARN_IDLE_TIME (10 * G_TIME_SPAN_MILLISECOND)

/* A pool keeps at most this many abandoned caches: caches of ended threads, for new threads. */
#define TARN_MAX_ABANDONED 4

/* A bin of a thread cache: cached blocks of one size and one queue. */
typedef struct
{
  /* The handle of the only queue that has used the blocks, or NULL if no queue has used them. */
  gpointer handle;
  TarnBlock *top; /* the block freed last; the others follow by TarnBlock.below */
  /* The number of the pool's bin for the same size.  Only the cache's thread changes number and
   * handle, while it holds the pool's lock. */
  guint32 number;
  /* The number of blocks.  Atomic, because other threads read it without stopping read sections. */
  guint32 length;
  /* The most blocks that the bin may have.  A thread changes this number only while it holds the
   * pool's lock. */
  guint32 capacity;
} __attribute__ ((aligned (32))) TarnCacheBin;

/* Notes about a bin of a cache, which tell how much of its capacity the thread uses.  The thread
 * updates the notes about all bins each time that the cache has no room for a freed block of an
 * arena (_tarn_cache_keep_own ()).  SEEN_PER_WINDOW updates are called a window.  At the end of a
 * window, bins give up the capacity that they did not use, and the notes begin anew. */
typedef struct
{
  /* Bits of the address of the block that was on top of the bin at the last update of these notes.
   * If they have changed at the next update, the thread uses the bin. */
  guint32 top;
  guint16 most;       /* the most blocks that the bin had at an update in the present window */
  guint8 has_changed; /* TRUE if the block on top has changed in the present window */
  /* The number of windows in succession, at most 255, in which the block on top has not changed. */
  guint8 n_unchanged;
} TarnSeenBin;

/* A temporary is a block that a thread frees before it allocates another block.  After
 * TARN_FEW_TEMPORARIES temporaries in succession, the thread's cache takes larger blocks than
 * otherwise (TarnPoolPolicy.max_temporary).  Only blocks count that the thread allocates and frees
 * while it holds the pool's lock. */
#define TARN_FEW_TEMPORARIES 2

/* The bits of TarnMetQueue.used.  TARN_USED_SINCE_FULL is set if a thread has used the queue since
 * the table was last full.  TARN_USED_IN_PERIOD is set if a thread has used the queue in the
 * present period.  A period ends after a number of shortages (TarnMet.n_shortages); the pool then
 * adapts the largest number of queues in the table. */
#define TARN_USED_SINCE_FULL 1U
#define TARN_USED_IN_PERIOD 2U
#define TARN_MET_USED (TARN_USED_SINCE_FULL | TARN_USED_IN_PERIOD)

/* A slot in the table of queues whose arenas the pool may use (arena-table.c).  An arena is memory
 * of a heap from which threads allocate for one queue without a lock. */
struct _TarnMetQueue
{
  gpointer handle;  /* the queue's handle; NULL: for requests that name no queue */
  TarnQueue *queue; /* the queue, with a reference; NULL: for requests that name no queue */
  TarnArenaRef ref; /* the queue's arenas; ref.queue is NULL if this slot of the table is free */
  /* Atomic: TARN_USED_SINCE_FULL and TARN_USED_IN_PERIOD.  Each lookup for a request sets both
   * bits. */
  guint used;
  /* The pool's lock guards the fields below. */
  /* TRUE if threads used the queue in the period before the present one (a period is a number of
   * shortages, see TARN_USED_IN_PERIOD) */
  gboolean was_used;
  gboolean is_new; /* TRUE if the table has not been full since the queue was inserted */
  /* Each time that the table becomes full, the pool adds 1 to this field if no thread has used the
   * queue since the table was last full, and sets it to 0 otherwise. */
  guint n_unused;
  /* TRUE if the table is about to remove the queue.  A thread that reads or writes this field holds
   * the pool's lock and has stopped the pool's read sections. */
  gboolean is_going;
};

/* The most blocks that a cache keeps in TarnCache.kept, each for the requests of a different queue.
 */
#define TARN_CACHE_KEPT 8

/* The value of TarnCache.granted_bytes that means: the thread may allocate nothing from arenas
 * without the pool's lock, not even as many bytes as it has just freed.  This value has an effect
 * only in a pool with a limit. */
#define TARN_NO_GRANT G_MINSSIZE

/* A thread cache: the cached blocks that one thread has of one pool.
 *
 * Invariants, whenever a thread holds the pool's lock and has stopped the pool's read
 * sections; _tarn_pool_check () checks them:
 *
 *     reserved_bytes == sum of capacity * alloc_size over the bins
 *     reserved_bytes <= thread_cache_bytes of the pool
 *     length of each bin <= its capacity <= thread_cache_blocks
 *     has_room has the bit of each bin whose capacity is not 0.
 *     If several slots have bins of the same number and queue, only the first of these bins has a
 *     capacity above 0.
 *     Each block is in state HELD.  The block's field share is the queue of the bin that has the
 *     block.
 *     If frees of a bin's blocks record events, the capacity of the bin is 0. */
struct _TarnCache
{
  /* The bins.  They stand at the beginning of the struct, because the address of a bin is then the
   * address of the cache and a shifted hash. */
  TarnCacheBin bins[TARN_CACHE_BINS];

  /* The fields active_bytes and peak describe changes of the pool's counters that the cache has not
   * reported to the pool yet.  _tarn_cache_count_active () reports these changes. */
  /* Atomic: an unreported change of the pool's active bytes, modulo 2^64.  Negative if the thread
   * freed more bytes than it allocated. */
  gsize active_bytes;
  /* The highest value of active_bytes since the cache last reported this peak to the pool; 0 if
   * active_bytes was never positive since then. */
  gssize peak;

  /* Atomic: the number of requests that this cache has ever served.  The pool's own counter of hits
   * does not include them. */
  guint64 hits TARN_WHOLE;
  /* Atomic: the number of requests that arenas of the heap have served with new blocks, for the
   * threads that have had this cache. */
  guint64 misses TARN_WHOLE;

  /* The pool's lock guards the fields from here to chunk.  The field pool is constant. */
  /* The value of hits when another thread last read it, to find out whether this cache is idle. */
  guint64 seen_hits;
  /* The value of counted_bytes + active_bytes when another thread last read it, to find out whether
   * this cache is idle. */
  gsize seen_bytes;
  /* The time, from _tarn_clock_now (), at which another thread first read the values in seen_hits
   * and seen_bytes. */
  gint64 seen_at;
  gboolean is_abandoned; /* TRUE if the cache's thread has ended */
  gsize reserved_bytes;  /* the bytes of the blocks in the cache if all bins were full */
  /* The sum of all values of active_bytes that the cache has reported to the pool, modulo 2^64.  A
   * report adds active_bytes to this field and sets active_bytes to 0, so it does not change the
   * sum counted_bytes + active_bytes.  Only an allocation or a free changes this sum.  So if
   * another thread reads a new value of the sum, the cache is in use. */
  gsize counted_bytes;

  TarnPool *pool;
  TarnCache *next;  /* the next cache in the pool's list of caches */
  TarnCache **link; /* the pointer in the pool's list of caches that points to this cache */
  /* The chunk (an array of block structs) from which the structs of the thread's new blocks come.
   * NULL until the thread takes its first struct. */
  TarnBlockChunk *chunk;

  /* Fields for blocks that the thread takes from arenas (arenas.c) */
  /* Atomic: the number of bytes that this thread has added to the pool's managed bytes and has not
   * yet reported to the pool, modulo 2^64.  Negative if the thread has subtracted more bytes than
   * it has added. */
  gsize managed_bytes;
  gssize managed_peak;
  /* In a pool with a limit: the value that managed_bytes may reach before the thread has to take
   * the pool's lock, or TARN_NO_GRANT. */
  gssize granted_bytes;
  /* The number of blocks that this thread has added to the pool and has not yet reported to the
   * pool, modulo 2^64.  Negative if the thread has removed more blocks than it has added. */
  gsize n_blocks;
  TarnBlock *spare; /* unused block structs, linked by TarnBlock.below */
  guint n_spare;
  /* The number of small blocks that the thread will return to their arenas before it again tries to
   * put one into the cache.  The thread sets this to LOOKS_FOR_ROOM (order/free.c) when the cache
   * has no room for a small block. */
  guint n_to_pass;
  /* Guarded by the pool's lock: the number of times that a new bin replaced, in a slot of this
   * cache, another bin that had blocks.  If this happens, the thread uses more sizes than the cache
   * has slots. */
  guint n_replaced;
  /* The number of blocks that the thread took from arenas (memory of the heap for one queue each)
   * since it last checked the clock. */
  guint n_taken_in_turn;
  /* The time, from _tarn_clock_now (), at which the thread last did the periodic work for the pool
   * and the heap. */
  gint64 looked_at;
  guint n_taken_kept; /* the number of requests that blocks of TarnCache.kept have served */
  /* The block that the thread last took from an arena of the heap.  The thread only compares this
   * pointer, because another thread may have freed the block. */
  const TarnBlock *latest_own;
  /* The number of temporaries in succession that the thread took from arenas of the heap.  A
   * temporary is a block that the thread frees before it takes the next one. */
  guint n_own_temporaries;
  /* Atomic: blocks that the cache keeps for the next requests of their queues, at most one of each
   * queue.  The thread allocates and frees such a block again and again.  A block serves requests
   * of its queue for at most the block's size.  The index is a hash of the queue.  An element is
   * NULL if the cache keeps no such block. */
  TarnBlock *kept[TARN_CACHE_KEPT];

  /* Guarded by the pool's lock: a bit for each bin, which is set if the bin's capacity is not 0. */
  guint64 has_room[TARN_CACHE_WORDS];

  /* Guarded by the pool's lock: the notes about each bin, and the number of times that a block of
   * an arena found no room in the cache. */
  TarnSeenBin seen[TARN_CACHE_BINS];
  guint n_seen;

  /* Guarded by the pool's lock: the block that the thread last allocated while it held the lock.
   * Only for comparison of pointers, because another thread may have freed the block. */
  const TarnBlock *latest;
  /* Guarded by the pool's lock: the number of the thread's temporaries in succession.  A temporary
   * is a block that the thread frees before it allocates the next one. */
  guint n_temporaries;
} __attribute__ ((aligned (TARN_CACHE_LINES)));

/* Functions of caches.c, cache.c and count.c.  The callers of _tarn_pool_init_caches (),
 * _tarn_pool_lock () and _tarn_pool_free_caches () must not hold the pool's lock. */
void _tarn_pool_init_caches (TarnPool *pool);
/* Takes the pool's lock.  Returns the calling thread's cache, or NULL if the thread can have none
 * now. */
TarnCache *_tarn_pool_lock (TarnPool *pool);
void _tarn_pool_free_caches (TarnPool *pool);
/* The caller of _tarn_pool_sum () holds the pool's lock and has stopped the pool's read sections,
 * or runs in a child of fork (). */
void _tarn_pool_sum (const TarnPool *pool, TarnPoolStats *stats);
/* Functions of caches.c, cache.c and count.c whose caller holds the pool's lock */
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

/* Functions of arenas.c.  The caller does not hold the pool's lock. */
TarnBlock *_tarn_pool_take_from_arena (TarnPool *pool, gsize size, gpointer handle,
                                       gboolean is_followed, gboolean *is_due);
TarnBlock *_tarn_pool_take_from_arena_at_once (TarnPool *pool, gsize size, guint32 bin,
                                               gpointer handle, gboolean *is_due);
gboolean _tarn_pool_put_to_arena (TarnPool *pool, TarnCache *cache, TarnBlock *block,
                                  gboolean is_followed);
gboolean _tarn_pool_put_to_arena_at_once (TarnPool *pool, TarnCache *cache, TarnBlock *block);
/* Functions of made-parts.c.  The caller does not hold the pool's lock. */
gboolean _tarn_pool_begin_to_go (TarnCache *cache, TarnBlock *block, TarnBlock **goes);
gboolean _tarn_pool_go_without_part (TarnPool *pool, TarnCache *cache, TarnBlock *block);

/* Functions of stock.c and arenas.c.  The caller holds the pool's lock. */
void _tarn_cache_refill_spare (TarnCache *cache);
void _tarn_cache_grant (TarnCache *cache);
void _tarn_pool_end_grants (TarnPool *pool);
guint _tarn_pool_choose_bins (const TarnPool *pool, gsize limit_bytes);
void _tarn_pool_set_bins (TarnPool *pool, guint leading_bits);
void _tarn_pool_note_short (TarnPool *pool);
void _tarn_pool_forget_short (TarnPool *pool, gint64 now);
TarnBlock *_tarn_cache_get_kept (const TarnCache *cache, gpointer handle);
void _tarn_cache_return_kept (TarnCache *cache, gpointer handle);
void _tarn_cache_return_all_kept (TarnCache *cache);
TarnBlock *_tarn_cache_return_own (TarnCache *cache, TarnBlock *blocks);

/* Functions of arena-table.c.  The caller holds the pool's lock, but the caller of
 * _tarn_pool_note_turn () does not. */
void _tarn_pool_settle (TarnPool *pool, TarnBlock *block);
void _tarn_pool_add_met (TarnPool *pool, gpointer handle, TarnQueue *queue,
                         const TarnArenaRef *ref);
void _tarn_pool_drop_met (TarnPool *pool, gpointer handle);
void _tarn_pool_note_turn (TarnPool *pool, TarnQueue *queue); /* takes the pool's lock */
void _tarn_pool_end_arenas (TarnPool *pool);

/* Functions of transfer.c.  The caller of the first three functions does not hold the pool's
 * lock. */
void _tarn_pool_init_transfers (TarnPool *pool);
TarnBlock *_tarn_pool_take_received (TarnPool *pool, gsize size, gpointer handle,
                                     gboolean is_followed);
gboolean _tarn_pool_put_handing_over (TarnPool *pool, TarnBlock *block, gboolean is_followed);
/* The caller of the other functions of transfer.c holds the pool's lock. */
void _tarn_pool_bound_transfers (TarnPool *pool);
gboolean _tarn_pool_take_from_transfer (TarnPool *pool, guint32 number, gpointer handle);
void _tarn_pool_take_from_transfers (TarnPool *pool, guint32 number);
void _tarn_pool_empty_transfers (TarnPool *pool);
void _tarn_pool_add_transfers (const TarnPool *pool, TarnPoolStats *stats);

/* Returns TRUE if the program has set a bound on the bytes of cached blocks.  Then the capacity of
 * thread caches counts against this bound, even while the caches are empty. */
static inline gboolean
_tarn_pool_counts_room (const TarnPool *pool)
{
  return pool->policy.hold_bytes != 0 && pool->policy.hold_bytes != G_MAXSIZE;
}

/* Returns TRUE if any transfer bin has blocks: blocks that a thread has handed over, and that no
 * other thread has taken yet.  Needs no lock. */
static inline gboolean
_tarn_pool_has_transfers (const TarnPool *pool)
{
  return __atomic_load_n (&pool->transfers.n_batches, __ATOMIC_RELAXED) > 0;
}

/* Hashes a bin number and a queue's handle to 32 bits.  The high bits vary most, so use these.  The
 * hashes of similar inputs are far apart.  Such inputs are neighbouring numbers, multiples of a
 * large power of two, and handles (addresses, whose low bits are alike). */
static inline guint32
_tarn_hash (guint32 number, gpointer handle)
{
  return number * TARN_HASH_NUMBER + (guint32) GPOINTER_TO_SIZE (handle) * TARN_HASH_HANDLE;
}

/* Hashes a bin number and a queue's handle to 16 bits, the high ones of _tarn_hash (). */
static inline guint32
_tarn_spread (guint32 number, gpointer handle)
{
  return _tarn_hash (number, handle) >> 16;
}

/* Finds a queue in the table of queues whose arenas the pool may use (arena-table.c).  @handle is
 * the queue's handle, or NULL for requests that name no queue.  Returns NULL if the queue is not in
 * the table.  The caller holds the pool's lock, or is in a read section of the pool. */
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

/* Gets the home slot of a cache's bin: the first slot of the hash table in which the bin can
 * stand. */
static inline TarnCacheBin *
_tarn_cache_get_home (TarnCache *cache, guint32 number, gpointer handle)
{
  return &cache->bins[_tarn_hash (number, handle) >> (32 - TARN_CACHE_HOME_BITS)];
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

/* Gets the size in bytes of each block of a bin.  @number is the number of the bin. */
static inline gsize
_tarn_cache_get_alloc_size (const TarnCache *cache, guint32 number)
{
  return _tarn_bin_alloc_size (number, _tarn_pool_get_leading_bits (cache->pool));
}

/* Finds the first bin of a cache, from index @i on, whose capacity is above 0.  Returns the bin's
 * index, or TARN_CACHE_BINS if there is no such bin. */
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

/* Replaces the blocks of a cache's bin: sets the topmost block and the number of blocks. */
static inline void
_tarn_cache_bin_set (TarnCacheBin *bin, TarnBlock *top, guint length)
{
  bin->top = top;
  __atomic_store_n (&bin->length, length, __ATOMIC_RELAXED);
}

/* Gets the cache that a thread has of a pool.  Returns NULL if the thread has none. */
static inline TarnCache *
_tarn_cache_of (const TarnThread *thread, const TarnPool *pool)
{
  return TARN_LIKELY (pool->slot < thread->n_items) ? thread->items[pool->slot] : NULL;
}

/* Makes a block active (in use) for a request of @size bytes, and counts these bytes.  The thread
 * is in a read section, or holds the pool's lock. */
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

/* Takes the most recently freed block from a cache's bin, makes it active, and counts a hit.  The
 * caller makes sure that the bin is not empty.  The thread is in a read section, or holds the
 * pool's lock. */
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

/* Serves a request from a bin of the calling thread's cache.  @handle is the request's queue, or
 * NULL if it names none.  Returns NULL if the caller has to take the pool's lock.  @begin is a
 * function that enters a read section.  Callers pass a constant, so the compiler inlines the call
 * of @begin. */
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

/* Puts a block on top of a cache's bin.  The caller makes sure that the bin's length is below its
 * capacity.  The thread is in a read section, or holds the pool's lock. */
static inline void
_tarn_cache_push (TarnCacheBin *bin, TarnBlock *block)
{
  block->below = bin->top;
  _tarn_block_set_state (block, TARN_BLOCK_HELD);
  _tarn_cache_bin_set (bin, block, bin->length + 1);
}

/* Subtracts the bytes of a block that is being freed from the cache's count of active bytes.  The
 * thread is in a read section, or holds the pool's lock. */
static inline __attribute__ ((always_inline)) void
_tarn_cache_count_free (TarnCache *cache, const TarnBlock *block)
{
  __atomic_store_n (&cache->active_bytes, cache->active_bytes - block->size, __ATOMIC_RELAXED);
}

/* Puts a block that is being freed on top of a cache's bin, and subtracts its bytes from the active
 * bytes.  The caller makes sure that the bin has room for another block.  The thread is in a read
 * section, or holds the pool's lock. */
static inline __attribute__ ((always_inline)) void
_tarn_cache_put (TarnCache *cache, TarnCacheBin *bin, TarnBlock *block)
{
  /* Counts the free first, because that needs the field size.  _tarn_cache_push () sets the field
   * below, which has the same place in the struct. */
  _tarn_cache_count_free (cache, block);
  _tarn_cache_push (bin, block);
}

/* Puts a block that is being freed into the calling thread's cache.  If the caller has to take the
 * pool's lock, returns FALSE and changes nothing.  @begin is a function that enters a read
 * section. */
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
  /* Read the field share only if the state is ACTIVE.  If the block has several owners, its state
   * is SHARED, and another owner may be changing share now. */
  bin = TARN_LIKELY (block->state == TARN_BLOCK_ACTIVE)
            ? _tarn_cache_find_bin (cache, block->bin, block->share)
            : NULL;
  if (TARN_LIKELY (bin != NULL && bin->length < bin->capacity))
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
