/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The store: the blocks that a pool itself holds (bins.c), their ages (ages.c), and the choice of
 * blocks to return to upstream (retire.c).  The blocks that threads keep are in their caches
 * instead. */

#ifndef TARN_POOL_STORE_PRIVATE_H
#define TARN_POOL_STORE_PRIVATE_H

#include <tarn/pool.h>

#include "allocator/block-private.h"

/* A batch: blocks of a bin that a thread cache flushed together.  Another thread that may keep as
 * many takes all of them at once.  Their structs are in another processor's caches, so the thread
 * reads them only after it has released the lock. */
typedef struct
{
  TarnBlock *last;
  gsize n;
} TarnBatch;

/* A bin: a free list of blocks of one size, last in first out.  A pool keeps separate bins
 * depending on the commands that may still use a block:
 *
 *     idle bins       no known command may use them
 *     a queue's bins  its share: only commands of that in-order queue may use them, for which it
 *                     never has to wait, and no event covers them
 *     recorded bins   all others: each use has an event, or else no other queue can have the block
 *                     yet
 *
 * A recorded bin also has the pool's information on the size as a whole.
 *
 * Invariants: the topmost blocks may be in batches; in recorded bins none are.  If blocks move
 * between queues, the recorded bin of the same number counts each queue's bin that has blocks, and
 * lists it unless it is wanted. */
typedef struct _TarnBin TarnBin;

struct _TarnBin
{
  guint32 number;
  TarnBlock *top; /* the block freed last; the others follow by TarnBlock.below */
  gsize length;
  TarnBatch *batches; /* a stack: the last batch has the topmost blocks */
  gsize n_batches;
  gsize max_batches; /* the allocated length of batches */

  TarnBins *bins; /* the table that it is in */

  /* Only in bins of a queue */
  TarnQueue *queue;   /* NULL: it is no queue's bin */
  gboolean is_wanted; /* other queues have asked for an event on these blocks */
  TarnBin *next;      /* the next in unasked, below */
  TarnBin **link;     /* the pointer to this bin in that list; NULL: it is not there */

  /* Only in recorded bins */
  guint n_to_record; /* the number of next frees that record events, because blocks of the size are
                        handed over from queue to queue */
  guint n_shares;    /* the number of queues' bins of this size that have blocks, */
  TarnBin *unasked;  /* and a list of those that no request has asked for */
};

/* A list of the blocks in bins, the oldest first.  TarnAge has the links. */
typedef struct
{
  TarnBlock *oldest, *newest; /* NULL: there are none */
  TarnBlock *asked_next;      /* the block to ask the driver about next; NULL: the oldest */
  gsize bytes;                /* the sum of their alloc_size */
} TarnAges;

/* A table of bins by their numbers.  It remembers the latest bin, because a request or free looks
 * it up several times. */
struct _TarnBins
{
  TarnQueue *queue;      /* the queue that they are the share of; NULL: none */
  GHashTable *table;     /* number -> TarnBin, owned */
  guint32 latest_number; /* the number that was looked up last, */
  TarnBin *latest;       /* and its bin in the table; NULL: none */
  guint n_empty;         /* bins that have no blocks */
  guint many_empty;      /* the n_empty at which to look for useless bins */
  TarnAges *ages;        /* the pool's list of their blocks; NULL: they are in none */
};

#define TARN_RECORDED_COUNTS 64

/* The store of a pool.  The pool's lock guards all fields that are not atomic.
 *
 * Invariants; _tarn_pool_check () checks them:
 *
 *     a block in bin b has the size and the uses of that bin
 *     a block of an exact size is in no bin, and none is once has_ended is set
 *     each block in a bin is in one of the lists by age if there is a bound on the held bytes
 *     n_recorded counts the blocks in recorded bins */
typedef struct
{
  TarnBins *idle_bins;
  TarnBins *recorded_bins;

  /* All blocks in bins, if there is a bound on the bytes that the pool holds. */
  TarnAges ready;  /* blocks that can be returned at any time: those of no queue. Also those of
                      queues, over a heap, which orders frees itself, or if upstream does; then
                      recorded blocks, too */
  TarnAges shares; /* other queues' blocks, which can be returned after the host has waited for the
                      queues */
  TarnAges recorded; /* other recorded blocks, which can be returned once their events are done */
  TarnAges *share_ages; /* the list with queues' blocks: ready or shares; NULL: none, because there
                           never was a bound */
  /* The number of blocks in recorded bins.  The counts are indexed by the bin's number, modulo
   * TARN_RECORDED_COUNTS.  Atomic: a request reads its count without a lock, and takes the lock if
   * such a block might serve it. */
  guint n_recorded[TARN_RECORDED_COUNTS];
  gboolean has_late; /* atomic: the pool exceeds its bound, and events may be done by now: tells
                        requests without the lock to take it */
  gboolean has_done; /* the events of some recorded blocks may be done */
  gint64 look_at;   /* the time of the next check for blocks that have not been used for too long */
  TarnBlock *stuck; /* held in no bin: could not be returned, because the pool could not tell
                       whether they are still used; the next call that returns blocks tries again */
  gsize n_stuck;
  gboolean has_ended; /* the pool holds no blocks any more */
} TarnStore;

/* ages.c.  The lock is held. */
void _tarn_ages_add (TarnAges *ages, TarnBlock *first, const TarnBlock *last);
void _tarn_ages_add_back (TarnAges *ages, TarnBlock *block);
void _tarn_ages_remove (TarnAges *ages, TarnBlock *block);

/* bins.c.  The lock is held. */
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

/* retire.c.  The lock is held. */
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
