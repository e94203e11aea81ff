/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Blocks: their struct, their states, and their uses by queues.
 *
 * A pool caches ("holds") freed blocks.  A queue's share is the cached blocks that only this queue
 * used, and that it reuses without waiting.  A retired block is one that the pool returns upstream.
 * In a pool's read section, threads use their own caches without the pool's lock. */

#ifndef TARN_BLOCK_PRIVATE_H
#define TARN_BLOCK_PRIVATE_H

#include <tarn/block.h>

#include "base/aligned-private.h"
#include "common/whole-private.h"

/* The states of a block.  The numbers are unlikely to be in memory by chance, so that Tarn can tell
 * a stray pointer from a block. */
typedef enum
{
  TARN_BLOCK_VACANT = 0,          /* a struct that has not been used yet */
  TARN_BLOCK_ACTIVE = 0x7461726e, /* in use: it belongs to whoever allocated it */
  TARN_BLOCK_SHARED = 0x73686172, /* in use, with several references: each holder frees it; it stays
                                     SHARED until one reference is left */
  TARN_BLOCK_ENDING = 0x656e6473, /* a thread is freeing it; the pool still counts it as in use */
  TARN_BLOCK_HELD = 0x68656c64,   /* cached, in a bin of its pool */
  TARN_BLOCK_RETIRED = 0x64656164 /* being returned upstream */
} TarnBlockState;

typedef struct _TarnQueue TarnQueue;
typedef struct _TarnEvent TarnEvent; /* pools only: order/ */
typedef struct _TarnBins TarnBins;   /* pools only: pool/ */

/* A queue that uses blocks.  A pool keeps one such struct for each queue, as long as anything in
 * the pool refers to the queue; each block without a pool has structs of its own. */
struct _TarnQueue
{
  gpointer handle;   /* the backend keeps the queue alive */
  gboolean in_order; /* its commands run one after the other */

  /* Guarded by the pool's lock */
  guint n_refs;       /* blocks and running calls that refer to the queue */
  guint n_recording;  /* running calls that record an event on the queue, and keep it alive */
  gboolean is_known;  /* it is in the pool's table */
  gboolean is_wanted; /* other queues need blocks of this queue's share: the next call that names
                         this queue records events, after which others can use the blocks */
  gboolean has_unrecorded; /* the pool could not record an event when some of the cached blocks were
                              freed; the queue is in the pool's list of such queues */
  GList unrecorded_link;
  guint64 owner;   /* the queue's number in the heap that last gave it memory; 0: no heap did */
  TarnBins *bins;  /* owned: the queue's share; NULL: it never had blocks */
  TarnQueue *next; /* in the list of unreferenced queues */
};

/* A use of a block by a queue.  The queue's commands before the event use the block.  If there is
 * no event, any command may use it, up to the queue's latest one. */
typedef struct
{
  TarnQueue *queue; /* a reference */
  TarnEvent *event; /* a reference; NULL: none yet */
} TarnUse;

/* The value of TarnBlock.share for a block that will join no queue's share when it is freed.  It
 * differs from every queue's handle, and from NULL. */
extern const gchar _tarn_no_share __attribute__ ((visibility ("hidden")));
#define TARN_NO_SHARE ((gpointer) &_tarn_no_share)

/* A block: the handle of an allocation, which the program gets.  A pool keeps the struct with the
 * memory when the block is freed, and hands out the same struct again, so that a hit allocates
 * nothing.
 *
 * Invariants: size <= alloc_size, except that in a pool a block of size 0 has alloc_size 1.  In a
 * pool, share is the result of _tarn_block_get_share ().
 *
 * state is not among the first words, because malloc overwrites these when the struct is freed, and
 * a double free is detected by state.  Each block has a cache line of its own, because the thread
 * that uses the block writes to it. */
struct _TarnBlock
{
  TarnMemory memory;
  union
  {
    gsize size;       /* if in use: the bytes that the program asked for */
    TarnBlock *below; /* if cached, retired or vacant: the next block in its list */
  };
  gsize alloc_size;      /* bytes of its memory */
  TarnAllocator *source; /* the pool, which TarnPool's active_blocks keeps alive, without a
                            reference; or the direct allocator, with a reference */
  gint state;   /* TarnBlockState; in a pool, guarded by the pool's lock, or written by the block's
                   own thread in a read section; without a pool, atomic */
  guint32 bin;  /* pools only, like is_hit, is_handed_on, is_away, number and share */
  guint n_uses; /* number of queues that use it; 0: none is known */
  guint8 exact : 1;         /* alloc_size is not its bin's size, so it is never cached */
  guint8 is_hit : 1;        /* the pool counted the latest request for it as a hit */
  guint8 called_driver : 1; /* the pool called the driver for memory to serve that request */
  guint8 is_unready : 1;    /* no queue has waited yet for the queue that makes it ready */
  guint8 is_handed_on : 1;  /* the program moved it to its queue while it was in use */
  guint8 is_told : 1;       /* Tarn has logged that it cannot return the memory */
  guint8 is_away : 1; /* a heap's memory, which the heap assigns to another queue than the block's,
                         or to none; the pool can return it only when no queue uses it */
  guint8 is_own;      /* atomic; TRUE: it is of its queue's arena (pool/arenas.c) */
  guint16 number;     /* index in its chunk of structs; constant */
  gpointer share;     /* handle of the queue whose share the block joins when it is freed; NULL: the
                         share of blocks that no queue uses; TARN_NO_SHARE: none */
  union
  {
    TarnUse *uses;              /* owned; the array always keeps room for one */
    struct _TarnExtent *extent; /* if is_own */
  };
} __attribute__ ((aligned (TARN_CACHE_LINE)));

/* Returns TRUE if a pool's block may change from state @before to state @after. */
static inline gboolean
_tarn_block_state_may_follow (gint before, TarnBlockState after)
{
  switch (after)
    {
    case TARN_BLOCK_ACTIVE: /* the pool hands out a cached block, or a new or an arena's block in
                               a used struct; or one reference is left; or a free is undone */
      return before == TARN_BLOCK_HELD || before == TARN_BLOCK_VACANT
             || before == TARN_BLOCK_RETIRED || before == TARN_BLOCK_SHARED
             || before == TARN_BLOCK_ENDING;
    case TARN_BLOCK_SHARED:
      return before == TARN_BLOCK_ACTIVE;
    case TARN_BLOCK_ENDING:
      return before == TARN_BLOCK_ACTIVE;
    case TARN_BLOCK_HELD: /* includes a retired block that could not be returned */
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

/* Sets the state of a pool's block.  The caller holds the pool's lock; or it is in the pool's read
 * section, and the block is the calling thread's own, or in that thread's cache. */
static inline void
_tarn_block_set_state (TarnBlock *block, TarnBlockState state)
{
  g_assert (_tarn_block_state_may_follow (block->state, state));
  block->state = (gint) state;
}

/* Gets the share that a block joins when it is freed: the handle of the only queue that uses it, if
 * that queue runs its commands in order and the use has no event; NULL if no queue uses the block;
 * otherwise TARN_NO_SHARE. */
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

/* The origin of a block's request.  Known only while blocks are traced. */
typedef struct _TarnOrigin TarnOrigin;
struct _TarnOrigin
{
  guint64 time TARN_WHOLE; /* nanoseconds of the clock of events; 0: unknown */
  guint32 tag, stack, thread;
};

G_STATIC_ASSERT (sizeof (TarnOrigin) % sizeof (guint64) == 0); /* arrays stay aligned */

TarnBlock *_tarn_block_new (TarnAllocator *source, TarnMemory memory, gsize size);
void _tarn_block_destroy (TarnBlock *block);
gboolean _tarn_block_retire (TarnBlock *block);
void _tarn_direct_ref_block (TarnBlock *block);

/* Add and drop references to a block beyond the first, in a table whose lock the caller holds.
 * _tarn_block_drop_reference () returns FALSE if the table had no reference to the block. */
void _tarn_block_count_reference (GHashTable **shared, TarnBlock *block);
gboolean _tarn_block_drop_reference (GHashTable *shared, TarnBlock *block);

/* block-order.c; all but _tarn_block_add_use () are for blocks of direct allocators */
void _tarn_block_add_use (TarnBlock *block, TarnQueue *queue);
TarnQueue *_tarn_direct_queue_new (const TarnAllocator *direct, gpointer handle, GError **error);
void _tarn_direct_queue_free (const TarnAllocator *direct, TarnQueue *queue);
gboolean _tarn_direct_record_use (TarnBlock *block, gpointer handle, GError **error);
gboolean _tarn_direct_move_to_queue (TarnBlock *block, gpointer handle, GError **error);
void _tarn_direct_free_used (TarnBlock *block);

/* Adds @queue to the queues that use a block, right before the block is freed.  NULL: adds none. */
gboolean _tarn_block_use_last (TarnBlock *block, gpointer queue, GError **error);

/* recording-listener.c */
void _tarn_block_record (const TarnBlock *block, gboolean is_active);

void _tarn_block_report_double_free (const TarnBlock *block, gint state);

#endif
