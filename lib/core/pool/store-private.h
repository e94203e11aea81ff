/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The store: the blocks that a pool itself holds (bins.c), since when it has held them (ages.c),
 * and which of them go back to upstream (retire.c).  What threads keep is in their caches instead.
 */

#ifndef TARN_POOL_STORE_PRIVATE_H
#define TARN_POOL_STORE_PRIVATE_H

#include <tarn/pool.h>

#include "allocator/block-private.h"

/* Blocks of a bin that came from a thread's cache together.  Another thread that may keep as many
 * takes all of them at once.  They are in another processor's caches, so it looks at them only
 * after it has given up the lock. */
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

  /* In bins of a queue */
  TarnQueue *queue;   /* NULL: it is none */
  gboolean is_wanted; /* others have asked for an event on these blocks */
  TarnBin *next;      /* among those that have blocks which nobody has asked for */
  TarnBin **link;     /* the pointer to it there; NULL: it is not there */

  /* In recorded bins */
  guint n_to_record; /* frees that are yet to record events, because blocks of the size are handed
                        over from queue to queue */
  guint n_shares;    /* queues' bins of the number that have blocks, */
  TarnBin *unasked;  /* and those of them that nobody has asked for */
};

/* Blocks in bins, the oldest first.  Their links are in TarnAge. */
typedef struct
{
  TarnBlock *oldest, *newest; /* NULL: there are none */
  TarnBlock *asked_next;      /* the block to ask the driver about next; NULL: the oldest */
  gsize bytes;                /* the sum over all of them */
} TarnAges;

/* Bins by their numbers.  A request, and a free, look for the same one several times. */
struct _TarnBins
{
  TarnQueue *queue;      /* the queue that they are the share of; NULL: none */
  GHashTable *table;     /* number -> TarnBin, owned */
  guint32 latest_number; /* that was looked for last, */
  TarnBin *latest;       /* and its bin in the table; NULL: none */
  guint n_empty;         /* bins that have no blocks */
  guint many_empty;      /* the n_empty at which to look for useless bins */
  TarnAges *ages;        /* the pool's list of their blocks; NULL: they are in none */
};

#define TARN_RECORDED_COUNTS 64

/* The store of a pool.  The pool's lock guards all of it that is not atomic.
 *
 * Invariants; _tarn_pool_check () executes them:
 *
 *     a block in bin b has the size and the uses of that bin
 *     a block of an exact size is in no bin, and none is once has_ended is set
 *     each block in a bin is in one of the lists by age if there is a bound on what the pool holds
 *     n_recorded counts the blocks in recorded bins */
typedef struct
{
  TarnBins *idle_bins;
  TarnBins *recorded_bins;

  /* If there is a bound on what the pool holds: all blocks in bins. */
  TarnAges ready;    /* those that can go back at any time: nobody's; queues' as well, over a heap,
                        which orders what it is given, or where upstream does; then also recorded
                        ones */
  TarnAges shares;   /* other queues' blocks, which go back when the host has waited for them */
  TarnAges recorded; /* other recorded blocks, which can go back once their events are done */
  TarnAges *share_ages; /* where queues' blocks are, of the first two; NULL: in none, as there never
                           was a bound */
  /* The number of blocks in recorded bins, by the number of the bin modulo this.  Atomic: a request
   * looks at it without a lock, and takes the lock if such a block might serve it. */
  guint n_recorded[TARN_RECORDED_COUNTS];
  gboolean has_late; /* atomic: more is held than may be, and the driver may say that it is done:
                        for requests that take no lock */
  gboolean has_done; /* the events of some of the recorded may be done */
  gint64 look_at;    /* the time at which to see whether some were not used for too long */
  TarnBlock *stuck;  /* held in no bin: they were to go back, and go with the next ones that do,
                        because nobody could tell whether they are still used */
  gsize n_stuck;
  gboolean has_ended; /* nothing is held any more */
} TarnStore;

/* ages.c; the lock is held */
void _tarn_ages_add (TarnAges *ages, TarnBlock *first, const TarnBlock *last);
void _tarn_ages_add_back (TarnAges *ages, TarnBlock *block);
void _tarn_ages_remove (TarnAges *ages, TarnBlock *block);

/* bins.c; the lock is held */
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

/* retire.c; the lock is held */
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
