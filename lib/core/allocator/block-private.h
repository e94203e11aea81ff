/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Blocks: their struct, their states, and the queues that use them.
 *
 * Terms of this file:
 *
 *     to hold a block    the pool caches the freed block
 *     a bin              a pool's list of cached blocks of one size class
 *     a queue's share    the cached blocks that only this queue has used, and can reuse at once
 *     a retired block    the pool is returning it upstream, to the allocator below the pool
 *     a read section     in it, a thread uses its own cache without taking the pool's lock */

#ifndef TARN_BLOCK_PRIVATE_H
#define TARN_BLOCK_PRIVATE_H

#include <tarn/block.h>

#include "base/aligned-private.h"
#include "common/whole-private.h"

/* The states of a block.  Arbitrary memory is unlikely to contain these numbers (except 0), so Tarn
 * can tell a stray pointer from a pointer to a block. */
typedef enum
{
  TARN_BLOCK_VACANT = 0,          /* the struct has not been used for a block yet */
  TARN_BLOCK_ACTIVE = 0x7461726e, /* the block is in use by the code that allocated it */
  /* The block is in use, and has or had several references.  Each free releases a reference.  The
   * block stays SHARED until the last reference is released. */
  TARN_BLOCK_SHARED = 0x73686172,
  /* A thread is freeing the block.  Or the pool has set the freed block aside, because the program
   * still retains its memory (upstream/aside.c).  The pool still counts the block as in use. */
  TARN_BLOCK_ENDING = 0x656e6473,
  TARN_BLOCK_HELD = 0x68656c64,   /* the pool caches the block in a bin (a list for one size) */
  TARN_BLOCK_RETIRED = 0x64656164 /* the memory has been returned upstream, or is about to be */
} TarnBlockState;

typedef struct _TarnQueue TarnQueue;
typedef struct _TarnEvent TarnEvent; /* an event that a pool records (folder order/) */
typedef struct _TarnBins TarnBins;   /* free lists of blocks that a pool caches (folder pool/) */

/* A queue that uses blocks.  A pool has one such struct for each queue, and keeps it while anything
 * in the pool refers to the queue.  A block that belongs to no pool has structs of its own. */
struct _TarnQueue
{
  /* The queue's handle in the backend.  queue_ref () of the backend keeps the queue alive, if the
   * driver can keep queues alive. */
  gpointer handle;
  gboolean in_order; /* TRUE if the queue's commands run one after the other */

  /* The pool's lock guards all fields from here on. */
  guint n_refs; /* the number of blocks and running calls that refer to the queue */
  /* The number of running calls that record an event on the queue.  Before the pool forgets the
   * queue, it waits for these calls. */
  guint n_recording;
  gboolean is_known; /* TRUE if the queue is in the pool's table of queues */
  /* TRUE if other queues need blocks of this queue's share, the cached blocks that only this queue
   * has used.  The next call that takes the pool's lock and names this queue records an event on
   * it.  When the event has completed, the other queues can use the blocks. */
  gboolean is_wanted;
  /* TRUE if the pool could not record an event on this queue when some of the queue's blocks
   * were freed.  The pool keeps a list of such queues; unrecorded_link is the link in that list. */
  gboolean has_unrecorded;
  GList unrecorded_link;
  /* The queue's number in the heap from which the queue last got memory.  0 if the queue never got
   * memory from a heap. */
  guint64 owner;
  /* TRUE if the heap has lacked free memory for a request of the queue at least once.  The first
   * such request of a queue does not count as a shortage (_tarn_pool_note_turn ()). */
  gboolean has_had_turn;
  TarnBins *bins;  /* owned: bins of the blocks that only this queue uses; nullable */
  TarnQueue *next; /* the next queue in the list of unreferenced queues */
};

/* A use of a block by a queue: the queue's commands before the event may use the block.  If there
 * is no event, all commands that are in the queue now may use the block. */
typedef struct
{
  TarnQueue *queue; /* the queue, to which the use has a reference */
  /* The event, to which the use has a reference.  NULL if no event is recorded yet. */
  TarnEvent *event;
} TarnUse;

/* The value of TarnBlock.share that means: the block joins no queue's share of cached blocks when
 * it is freed.  The value differs from NULL and from every queue's handle. */
extern const gchar _tarn_no_share __attribute__ ((visibility ("hidden")));
#define TARN_NO_SHARE ((gpointer) &_tarn_no_share)

/* A block: the program's handle of an allocation.  When the program frees a block, a pool keeps the
 * struct together with the memory.  A later request gets the same struct again, so a cache hit need
 * not allocate a struct.
 *
 * Invariants: size <= alloc_size, except that in a pool a block of size 0 has alloc_size 1.  In a
 * pool, share is the result of _tarn_block_get_share ().
 *
 * The field state must not be in the first words of the struct.  Tarn detects a double free by the
 * state, even if the struct has been freed, and malloc overwrites the first words of freed memory.
 * Each block has a cache line of its own, because the thread that uses the block writes to it. */
struct _TarnBlock
{
  TarnMemory memory;
  union
  {
    gsize size;       /* if the block is in use: the bytes that the program asked for */
    TarnBlock *below; /* if the block is cached, retired or vacant: the next block in a list */
  };
  gsize alloc_size; /* the size of the block's memory in bytes */
  /* The block's pool or direct allocator.  A block of a direct allocator has a reference to the
   * allocator.  A block of a pool has no reference: the pool counts its blocks (TarnBlocks.n), and
   * lives until none is left. */
  TarnAllocator *source;
  /* A TarnBlockState.  Atomic if the block belongs to no pool.  If it belongs to a pool, the pool's
   * lock guards the state, but a thread in a read section writes the state of its own block without
   * the lock. */
  gint state;
  /* The index of the block's bin.  This field and is_hit, is_handed_on, is_away, number and share
   * are for blocks of pools only. */
  guint32 bin;
  guint n_uses; /* the number of queues that are known to use the block */
  /* TRUE if the pool never caches the block, for example because alloc_size is not the bin's
   * size. */
  guint8 exact : 1;
  guint8 is_hit : 1;        /* TRUE if the pool counted the latest request for the block as a hit */
  guint8 called_driver : 1; /* TRUE if the latest request for the block needed a driver call */
  /* TRUE if no queue has waited yet for the commands that make the block's memory ready. */
  guint8 is_unready : 1;
  guint8 is_handed_on : 1; /* TRUE if the program moved the block, while in use, to another queue */
  guint8 is_told : 1;      /* TRUE if Tarn has logged that it cannot return the block's memory */
  /* TRUE if the heap below the pool may not know which queue uses the block, because the heap may
   * have allocated the memory for another queue, or for no queue.  The pool can return such memory
   * to the heap only when no queue uses the block. */
  guint8 is_away : 1;
  guint8 is_own;  /* atomic; TRUE if the block is in its queue's arena (pool/arenas.c) */
  guint16 number; /* the struct's index in its TarnBlockChunk, an array of structs; constant */
  /* The handle of the queue whose share the block joins when it is freed.  (A queue's share: the
   * cached blocks that only this queue has used.)  NULL if the block joins the blocks that no queue
   * uses.  TARN_NO_SHARE if the block joins no share. */
  gpointer share;
  union
  {
    TarnUse *uses; /* the block's own array of uses; NULL until the first use */
    /* If is_own is TRUE: the extent of a heap that is the block's memory. */
    struct _TarnExtent *extent;
  };
} __attribute__ ((aligned (TARN_CACHE_LINE)));

/* Returns TRUE if a pool's block may change from state @before to state @after. */
static inline gboolean
_tarn_block_state_may_follow (gint before, TarnBlockState after)
{
  switch (after)
    {
    /* A block becomes active in these cases:
     * - A request gets a cached block.
     * - A request gets a struct for a new block or for an arena's block.  The struct is vacant, or
     *   retired if it was used before.
     * - The program releases the last reference to a shared block.  The block becomes active, and
     *   Tarn frees it.
     * - The pool begins to free a block that it set aside earlier (upstream/aside.c). */
    case TARN_BLOCK_ACTIVE:
      return before == TARN_BLOCK_HELD || before == TARN_BLOCK_VACANT
             || before == TARN_BLOCK_RETIRED || before == TARN_BLOCK_SHARED
             || before == TARN_BLOCK_ENDING;
    case TARN_BLOCK_SHARED:
      return before == TARN_BLOCK_ACTIVE;
    case TARN_BLOCK_ENDING:
      return before == TARN_BLOCK_ACTIVE;
    /* If the pool could not return a RETIRED block's memory upstream, it caches the block again. */
    case TARN_BLOCK_HELD:
      return before == TARN_BLOCK_ACTIVE || before == TARN_BLOCK_ENDING
             || before == TARN_BLOCK_RETIRED;
    case TARN_BLOCK_RETIRED:
      return before != TARN_BLOCK_VACANT && before != TARN_BLOCK_RETIRED;
    case TARN_BLOCK_VACANT:
    default:
      return FALSE;
    }
}

/* Returns TRUE if a state is that of a block in use. */
static inline gboolean
_tarn_block_state_is_in_use (gint state)
{
  return state == TARN_BLOCK_ACTIVE || state == TARN_BLOCK_SHARED || state == TARN_BLOCK_ENDING;
}

/* Sets the state of a pool's block.  The caller holds the pool's lock, or is in the pool's read
 * section.  In a read section, the block must belong to the calling thread, or be in that thread's
 * cache. */
static inline void
_tarn_block_set_state (TarnBlock *block, TarnBlockState state)
{
  g_assert (_tarn_block_state_may_follow (block->state, state));
  block->state = (gint) state;
}

/* Returns the value of TarnBlock.share for a block.  A block in a queue's arena keeps its value.
 * For other blocks, the first of these cases that applies decides:
 * - TARN_NO_SHARE if the block is never cached, if the program has handed it over between queues,
 *   or if several queues use it
 * - NULL if no queue uses the block
 * - TARN_NO_SHARE if the only queue that uses the block is out of order or not in the pool's table,
 *   if this use has an event, or if is_away is TRUE
 * - otherwise the handle of the only queue that uses the block */
static inline gpointer
_tarn_block_get_share (const TarnBlock *block)
{
  const TarnUse *use = block->uses;

  if (block->is_own)
    return block->share;
  if (block->exact || block->is_handed_on || block->n_uses > 1)
    return TARN_NO_SHARE;
  if (block->n_uses == 0)
    return NULL;
  if (use->event != NULL || !use->queue->in_order || !use->queue->is_known || block->is_away)
    return TARN_NO_SHARE;
  return use->queue->handle;
}

static inline void
_tarn_block_update_share (TarnBlock *block)
{
  block->share = _tarn_block_get_share (block);
}

/* The time, thread, stack and tag of the request that got a block.  Tarn knows the origin only of
 * requests that were made while it traced blocks. */
typedef struct _TarnOrigin TarnOrigin;
struct _TarnOrigin
{
  /* the request's time in nanoseconds on the recording's clock; 0 if unknown */
  guint64 time TARN_WHOLE;
  guint32 tag, stack, thread;
};

/* In an array of this struct, the field time of each element must be aligned. */
G_STATIC_ASSERT (sizeof (TarnOrigin) % sizeof (guint64) == 0);

TarnBlock *_tarn_block_new (TarnAllocator *source, TarnMemory memory, gsize size);
void _tarn_block_destroy (TarnBlock *block);
gboolean _tarn_block_retire (TarnBlock *block);
void _tarn_direct_ref_block (TarnBlock *block);

/* Functions that count the references to blocks in a hash table, @shared.  A block that has one
 * reference is not in the table.  For a block with more references, the table has the number of
 * references minus 1.
 *
 * _tarn_block_count_reference () adds 1 to a block's number.  _tarn_block_drop_reference ()
 * subtracts 1 and returns TRUE, or returns FALSE if the block is not in the table.  The caller
 * holds the table's lock. */
void _tarn_block_count_reference (GHashTable **shared, TarnBlock *block);
gboolean _tarn_block_drop_reference (GHashTable *shared, TarnBlock *block);

/* Functions of block-order.c.  All except _tarn_block_add_use () are for blocks of direct
 * allocators. */
void _tarn_block_add_use (TarnBlock *block, TarnQueue *queue);
TarnQueue *_tarn_direct_queue_new (const TarnAllocator *direct, gpointer handle, GError **error);
void _tarn_direct_queue_free (const TarnAllocator *direct, TarnQueue *queue);
gboolean _tarn_direct_record_use (TarnBlock *block, gpointer handle, GError **error);
gboolean _tarn_direct_move_to_queue (TarnBlock *block, gpointer handle, GError **error);
void _tarn_direct_free_used (TarnBlock *block);

/* Adds @queue to the queues that use a block, right before the program frees the block.  Does
 * nothing if @queue is NULL. */
gboolean _tarn_block_use_last (TarnBlock *block, gpointer queue, GError **error);

/* A function of recording-listener.c: writes a block to the recording. */
void _tarn_block_record (const TarnBlock *block, gboolean is_active);

void _tarn_block_report_double_free (const TarnBlock *block, gint state);

#endif
