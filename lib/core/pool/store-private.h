/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The store of a pool: the held (cached) blocks that are in the pool's own bins (bins.c), their
 * ages (ages.c), and the choice of blocks to return to upstream (retire.c).  Thread caches hold
 * blocks, too, which are not in the store. */

#ifndef TARN_POOL_STORE_PRIVATE_H
#define TARN_POOL_STORE_PRIVATE_H

#include <tarn/pool.h>

#include "allocator/block-private.h"

/* A batch: blocks of one bin that a thread cache flushed together.  Another thread takes all of
 * them at once, if its cache may keep as many.  Because the blocks' structs are in another
 * processor's caches, the thread reads the structs only after it has released the lock. */
typedef struct
{
  TarnBlock *last;
  gsize n;
} TarnBatch;

/* A bin: a free list of blocks of one size, last in first out.  A pool has three kinds of bins, for
 * the commands that may still use a block:
 *
 *     idle bins       no known command may use the blocks
 *     a queue's bins  only commands of this in-order queue may use the blocks, and no event covers
 *                     these commands; the queue itself can reuse the blocks without a wait.  The
 *                     bins of a queue are the queue's share
 *     recorded bins   all other blocks: each use has an event, or no other queue can have the block
 *                     yet
 *
 * A recorded bin also has fields for all blocks of its size, in whatever bin they are.
 *
 * Invariants: batches are on top of a bin; recorded bins have none.  If blocks move between queues,
 * a recorded bin counts in n_shares the queues' bins of its number that have blocks, and lists in
 * unasked those of them that are not wanted. */
typedef struct _TarnBin TarnBin;

struct _TarnBin
{
  guint32 number;
  TarnBlock *top; /* the block freed last; the others are linked by TarnBlock.below */
  gsize length;
  TarnBatch *batches; /* a stack: the last batch has the topmost blocks */
  gsize n_batches;
  gsize max_batches; /* the allocated length of batches */

  TarnBins *bins; /* the table that has this bin */

  /* Fields of a queue's bin */
  TarnQueue *queue;   /* the queue; NULL: this is an idle or a recorded bin */
  gboolean is_wanted; /* other queues have asked for an event that covers these blocks */
  TarnBin *next;      /* the next bin in the list unasked */
  TarnBin **link;     /* the pointer in the list unasked that points here; NULL: not listed */

  /* Fields of a recorded bin.  The next n_to_record frees of this size record events, because
   * blocks of this size are handed over from queue to queue. */
  guint n_to_record;
  guint n_shares;   /* the number of queues' bins of this number that have blocks */
  TarnBin *unasked; /* a list of these bins, except the wanted ones */
};

/* A list of the blocks in some bins by age, the oldest first.  TarnAge has the links. */
typedef struct
{
  TarnBlock *oldest, *newest; /* NULL: the list is empty */
  TarnBlock *asked_next;      /* the block whose event to ask the driver about next; NULL: oldest */
  gsize bytes;                /* the sum of alloc_size over the list */
} TarnAges;

/* A table of bins by their numbers.  It remembers the bin that was looked up last, because a
 * request or free looks up the same bin several times. */
struct _TarnBins
{
  TarnQueue *queue;      /* the queue whose share this table is; NULL: idle or recorded bins */
  GHashTable *table;     /* maps the number to the TarnBin, which it owns */
  guint32 latest_number; /* the number that was looked up last */
  TarnBin *latest;       /* the bin with latest_number; NULL: the table has none */
  guint n_empty;         /* the number of bins without blocks */
  guint many_empty;      /* the value of n_empty at which to free unused bins */
  TarnAges *ages;        /* the pool's list by age for these blocks; NULL: they are in none */
};

#define TARN_RECORDED_COUNTS 64

/* The store of a pool.  The pool's lock guards all fields that are not atomic.
 *
 * Invariants; _tarn_pool_check () checks them:
 *
 *     each block in a bin has the bin's size, and uses that fit the kind of bin
 *     no block of an exact size is in a bin, and no block at all after has_ended is set
 *     each block in a bin is in one of the lists by age if there is a bound on the held bytes
 *     n_recorded counts the blocks in recorded bins */
typedef struct
{
  TarnBins *idle_bins;
  TarnBins *recorded_bins;

  /* The lists by age have all blocks in bins, if there is a bound on the bytes that the pool holds.
   *
   * ready: blocks that the pool can return at any time.  These are the blocks of no queue.  Over a
   * heap they are also the blocks in queues' shares, because the heap itself makes other queues
   * wait.  If upstream frees memory in the order of commands, they are also the blocks in queues'
   * shares and the recorded blocks. */
  TarnAges ready;
  /* Blocks in queues' shares, if not in ready.  To return one, the host must wait for its queue. */
  TarnAges shares;
  /* Recorded blocks, if not in ready.  The pool can return one when its events have completed. */
  TarnAges recorded;
  /* The list for blocks in queues' shares: ready or shares.  NULL: there never was a bound. */
  TarnAges *share_ages;
  /* Numbers of blocks in recorded bins, by the bin's number modulo TARN_RECORDED_COUNTS. Atomic: a
   * request reads one without a lock, and takes the lock if such a block might serve it. */
  guint n_recorded[TARN_RECORDED_COUNTS];
  /* Atomic: asks threads that take no lock to call _tarn_pool_look_after (), because the pool
   * exceeds its bound, and events of recorded blocks may have completed. */
  gboolean has_late;
  gboolean has_done; /* TRUE: the events of some recorded blocks may have completed */
  gint64 look_at;    /* the time at which to check next for blocks that were held for too long */
  /* Held blocks in no bin, which the pool could not return, because the driver could not tell
   * whether commands still use them.  The next call that returns blocks tries these again. */
  TarnBlock *stuck;
  gsize n_stuck;
  gboolean has_ended; /* TRUE: the pool must not hold blocks any more, except stuck ones */
} TarnStore;

/* ages.c: the caller holds the pool's lock. */
void _tarn_ages_add (TarnAges *ages, TarnBlock *first, const TarnBlock *last);
void _tarn_ages_add_back (TarnAges *ages, TarnBlock *block);
void _tarn_ages_remove (TarnAges *ages, TarnBlock *block);

/* bins.c: the caller holds the pool's lock. */
TarnBins *_tarn_bins_new (TarnQueue *queue, TarnAges *ages);
void _tarn_bin_want (TarnBin *bin);
void _tarn_bin_unwant (TarnPool *pool, TarnBin *bin);
void _tarn_bins_free (TarnBins *bins);
void _tarn_pool_list_by_age (TarnPool *pool, TarnAges *recorded, TarnAges *shares);
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

/* retire.c: the caller holds the pool's lock. */
TarnBlock *_tarn_pool_take_stuck (TarnPool *pool);
TarnBlock *_tarn_pool_retire_idle (TarnPool *pool, gsize keep_bytes);
TarnBlock *_tarn_pool_take_share (TarnPool *pool, const TarnBins *share);
TarnBlock *_tarn_pool_take_sparable (TarnPool *pool, const TarnBins *share);
TarnBlock *_tarn_pool_take_excess (TarnPool *pool);
TarnBlock *_tarn_pool_take_excess_after (TarnPool *pool, TarnBlock *blocks);
gsize _tarn_pool_get_room (const TarnPool *pool);
gsize _tarn_pool_get_room_for_caches (const TarnPool *pool);
gboolean _tarn_pool_has_excess (const TarnPool *pool);
gboolean _tarn_pool_needs_recorded (const TarnPool *pool);
TarnBlock *_tarn_pool_take_largest (TarnPool *pool, gsize wanted);

#endif
