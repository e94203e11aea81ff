/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The store of a pool: the held (cached) blocks that are in the pool's own bins (bins.c), their
 * ages (ages.c), and the choice of blocks to return to upstream (largest.c, retire.c).  Thread
 * caches hold blocks, too, which are not in the store. */

#ifndef TARN_POOL_STORE_PRIVATE_H
#define TARN_POOL_STORE_PRIVATE_H

#include <tarn/pool.h>

#include "allocator/block-private.h"

/* A batch: blocks of one bin that a thread moved from its cache to the bin together.  Another
 * thread takes the whole batch at once if its own cache has room for it.  If the pool has no lists
 * by age, this other thread need not walk the batch while it holds the pool's lock.  A walk would
 * be slow, because the block structs are still in another processor's caches. */
typedef struct
{
  TarnBlock *last;
  gsize n;
} TarnBatch;

/* A bin: a free list of cached blocks of one size, last in first out.  A pool has three kinds of
 * bins, which differ in the queues whose commands may still use the blocks:
 *
 *     idle bins       No queue is known to use the blocks.
 *     a queue's bins  Only this in-order queue may use the blocks, and no event has been recorded
 *                     after its commands. The queue can reuse the blocks without a wait. All of
 *                     these blocks together are called the queue's share.
 *     recorded bins   All other blocks. Usually the pool has recorded an event after the commands
 *                     that use such a block. Without this event, no other queue can get the
 *                     block.
 *
 * The recorded bin of a size also has fields that describe the queues' bins of the same size.
 *
 * Invariants:
 * - The blocks of batches are on top of a bin.  Recorded bins have no batches.
 * - If the pool may move blocks from one queue's share to another's, the recorded bin of a size
 *   stores in n_shares how many queues' bins of this size have blocks.  Its list unasked
 *   has those queues' bins whose field is_wanted is FALSE. */
typedef struct _TarnBin TarnBin;

struct _TarnBin
{
  guint32 number;
  /* The topmost block, which was freed last.  The others follow by TarnBlock.below. */
  TarnBlock *top;
  gsize length;
  TarnBatch *batches; /* a stack of batches: the last element has the topmost blocks */
  gsize n_batches;
  gsize max_batches; /* the number of elements for which the array batches has room */

  TarnBins *bins; /* the table that has this bin */
  gsize place;    /* the bin's index in TarnLargest.bins plus 1; 0: the bin is not there */

  /* Fields of a queue's bin */
  TarnQueue *queue; /* the queue; NULL: this is an idle or a recorded bin */
  /* TRUE if a request of another queue has asked for an event on this bin's queue.  When the event
   * completes, this queue no longer uses the bin's blocks. */
  gboolean is_wanted;
  TarnBin *next; /* the next bin in the list unasked */
  /* The pointer in the list unasked that points to this bin, or NULL if the bin is not in the
   * list. */
  TarnBin **link;

  /* Fields of a recorded bin */
  /* Each of the next n_to_record frees of blocks of this size records an event.  The number is
   * above 0 if blocks of this size are handed over from queue to queue. */
  guint n_to_record;
  guint n_shares; /* the number of queues that have blocks of this size in a bin of their own */
  /* The list of the queues' bins that have blocks of this size, except bins whose is_wanted is
   * TRUE. */
  TarnBin *unasked;
};

/* A list of the blocks in some bins, ordered by the time at which each came to its bin, the oldest
 * first.  The links of the list are in TarnAge. */
typedef struct
{
  TarnBlock *oldest, *newest; /* the two ends of the list; NULL: the list is empty */
  /* The block for which the pool next asks the driver whether the block's event has completed, or
   * NULL to begin with the oldest block of the list. */
  TarnBlock *asked_next;
  /* The block at which the present search for blocks with completed events continues, or NULL: no
   * search is under way. */
  TarnBlock *searched_next;
  gsize bytes; /* the sum of alloc_size over the list */
} TarnAges;

/* The bins of a pool in a binary heap: the first bin has the largest blocks (largest.c).
 *
 * Invariants: the binary heap has each bin that has blocks, and perhaps some bins without blocks.
 * No bin comes before its parent.  The parent of the bin at index i is at index (i - 1) / 2. */
typedef struct
{
  TarnBin **bins;
  gsize n;
  gsize max; /* the number of elements for which the array bins has room */
} TarnLargest;

/* The kinds of tables of bins (TarnBin).  A pool returns blocks of one size to upstream in the
 * order of these kinds. */
typedef enum
{
  TARN_BINS_IDLE,
  TARN_BINS_RECORDED,
  TARN_BINS_OF_QUEUE
} TarnBinsKind;

/* A table that finds a bin by its number, which stands for a size class (bin-private.h).  It
 * remembers the bin that was looked up last, because a request or free looks up the same bin
 * several times. */
struct _TarnBins
{
  TarnBinsKind kind;
  TarnLargest *largest; /* the pool's TarnStore.largest */
  /* The queue whose share (the cached blocks that only this queue has used) is in this table, or
   * NULL if the table has the pool's idle or recorded bins. */
  TarnQueue *queue;
  GHashTable *table;     /* maps a bin's number to the TarnBin, which the table owns */
  guint32 latest_number; /* the number of the bin that was looked up last */
  TarnBin *latest;       /* the bin with the number latest_number; NULL: there is no such bin */
  guint n_empty;         /* the number of bins without blocks */
  guint many_empty;      /* the table frees unused bins when n_empty reaches this number */
  /* The list by age that has the blocks of this table; NULL if they are in no such list. */
  TarnAges *ages;
};

#define TARN_RECORDED_COUNTS 64

/* The store of a pool: the cached blocks in the pool's own bins.  The pool's lock guards all fields
 * that are not atomic.
 *
 * Invariants, which _tarn_pool_check () checks:
 *
 *     Each block in a bin has the bin's size, and fits the kind of the bin (see TarnBin).
 *     No block with the field exact set is in a bin. After has_ended is set, no block is in a bin.
 *     If the bytes of held blocks are bounded, each block in a bin is in one of the lists by age.
 *     n_recorded counts the blocks in recorded bins. */
typedef struct
{
  TarnBins *idle_bins;
  TarnBins *recorded_bins;
  TarnLargest largest; /* the bins of all tables, also of queues */

  /* If the bytes that the pool holds are bounded, each block in a bin is in one of three lists by
   * age: ready, shares or recorded.  The list ready has the blocks whose memory the pool can return
   * to upstream at any time, without a wait:
   * - the blocks that no queue uses
   * - over a heap, also the blocks in queues' shares, because the heap itself makes other queues
   *   wait
   * - if upstream frees memory in the order of commands, also the blocks in queues' shares and the
   *   recorded blocks (whose events tell when no queue uses them any more) */
  TarnAges ready;
  /* The list by age of the blocks in queues' shares (a queue's share is the cached blocks that only
   * this queue has used).  Before the pool returns such a block to upstream, the host must wait for
   * the block's queue.  In a pool whose list ready has these blocks, this list is empty. */
  TarnAges shares;
  /* The list by age of the recorded blocks, whose events tell when no queue uses them any more.
   * The pool can return such a block to upstream when the block's events have completed.  In a pool
   * whose list ready has these blocks, this list is empty. */
  TarnAges recorded;
  /* The list by age to which the pool adds blocks of queues' shares: &ready or &shares.  NULL if
   * the bytes of held blocks were never bounded. */
  TarnAges *share_ages;
  /* Atomic: the numbers of blocks in recorded bins.  The element for a bin is n_recorded[number %
   * TARN_RECORDED_COUNTS], so several bins share an element.  A request reads the element for its
   * size without the pool's lock.  If it is not 0, the request takes the pool's lock, because a
   * recorded block might serve it. */
  guint n_recorded[TARN_RECORDED_COUNTS];
  /* Atomic: TRUE if a free has found that the pool should return recorded blocks (whose frees
   * recorded an event) to upstream, and must first ask the driver about their events.  The next
   * thread that allocates from an arena without the pool's lock then calls
   * _tarn_pool_look_after (), which does this. */
  gboolean has_late;
  /* TRUE: the events of some recorded blocks may have completed since the last search for such
   * blocks began (TarnAges.searched_next) */
  gboolean has_done;
  /* The time at which the pool next looks for blocks that it has held for too long. */
  gint64 look_at;
  /* In a pool over a heap: the time when memory last ran out (_tarn_pool_note_short ()). */
  gint64 short_at;
  /* A list of held blocks that are in no bin.  The pool could not return them to upstream, because
   * the driver could not tell whether commands still use them.  The next call that returns blocks
   * tries these again. */
  TarnBlock *stuck;
  gsize n_stuck;
  /* TRUE if the pool must not cache blocks any more, except those in the list stuck. */
  gboolean has_ended;
} TarnStore;

/* Functions of ages.c.  The caller holds the pool's lock. */
void _tarn_ages_add (TarnAges *ages, TarnBlock *first, const TarnBlock *last);
void _tarn_ages_add_back (TarnAges *ages, TarnBlock *block);
void _tarn_ages_remove (TarnAges *ages, TarnBlock *block);

/* Functions of bins.c.  The caller holds the pool's lock. */
TarnBins *_tarn_bins_new (TarnStore *store, TarnBinsKind kind, TarnQueue *queue, TarnAges *ages);
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
void _tarn_pool_remove_block (TarnPool *pool, TarnBlock *block);

/* Functions of largest.c.  The caller holds the pool's lock. */
void _tarn_largest_add (TarnLargest *self, TarnBin *bin);
void _tarn_largest_remove (TarnLargest *self, TarnBin *bin);
TarnBin *_tarn_largest_get (TarnLargest *self);
gboolean _tarn_largest_is_ordered (const TarnLargest *self);
void _tarn_largest_clear (TarnLargest *self);

/* Functions of retire.c.  The caller holds the pool's lock. */
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
TarnBlock *_tarn_blocks_concat (TarnBlock *first, TarnBlock *second);

#endif
