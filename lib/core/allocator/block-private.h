/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Blocks: their struct, their states, and their uses by queues. */

#ifndef TARN_BLOCK_PRIVATE_H
#define TARN_BLOCK_PRIVATE_H

#include <tarn/block.h>

#include "base/aligned-private.h"
#include "common/whole-private.h"

/* The states of a block: numbers that memory hardly has by chance, so that a stray pointer can be
 * told from a block. */
typedef enum
{
  TARN_BLOCK_VACANT = 0,          /* a struct that was no block yet */
  TARN_BLOCK_ACTIVE = 0x7461726e, /* in use: it belongs to whoever allocated it */
  TARN_BLOCK_SHARED = 0x73686172, /* in use by several, of whom each will free it; it stays so until
                                     the last one does */
  TARN_BLOCK_ENDING = 0x656e6473, /* being freed; it counts as active until it is */
  TARN_BLOCK_HELD = 0x68656c64,   /* in a bin of its pool */
  TARN_BLOCK_RETIRED = 0x64656164 /* its memory is being returned */
} TarnBlockState;

typedef struct _TarnQueue TarnQueue;
typedef struct _TarnEvent TarnEvent; /* a pool's: order/ */
typedef struct _TarnBins TarnBins;   /* a pool's: pool/ */

/* A queue that uses blocks: of one pool, while anything there refers to it; or of one block without
 * a pool. */
struct _TarnQueue
{
  gpointer handle;   /* a reference of the backend's */
  gboolean in_order; /* its commands run one after the other */

  /* Behind the pool's lock */
  guint n_refs;       /* uses of blocks, and calls that name it */
  guint n_recording;  /* calls that record an event on it, for which it has to live */
  gboolean is_known;  /* it is in the pool's table */
  gboolean is_wanted; /* other queues need blocks of its share: the next call that names it records
                         an event for these */
  gboolean has_unrecorded; /* no event could be recorded for some held blocks when they were freed:
                              it is in the pool's list of such queues */
  GList unrecorded_link;
  guint64 owner;   /* its number in the heap that last gave it memory; 0: none did */
  TarnBins *bins;  /* owned: its share; NULL: it never had any */
  TarnQueue *next; /* in the list of unreferenced queues */
};

/* A use of a block by commands on a queue: by those before the event, or if there is none, possibly
 * even by the queue's latest. */
typedef struct
{
  TarnQueue *queue; /* a reference */
  TarnEvent *event; /* a reference; NULL: none yet */
} TarnUse;

/* TarnBlock.share of a block that goes to no share when it is freed: no queue's handle. */
extern const gchar _tarn_no_share __attribute__ ((visibility ("hidden")));
#define TARN_NO_SHARE ((gpointer) &_tarn_no_share)

/* A block lives as long as its memory: a pool holds the very structs that it handed out, so that
 * a hit allocates nothing.
 *
 * Invariants: size <= alloc_size, except for size 0 in a pool, whose alloc_size is 1.  In a pool
 * share is what _tarn_block_get_share () says.
 *
 * state stands behind the first words, which malloc overwrites when a block is destroyed.  A block
 * has a cache line of its own, because the thread that uses it writes to it. */
struct _TarnBlock
{
  TarnMemory memory;
  union
  {
    gsize size;       /* in use: bytes asked for */
    TarnBlock *below; /* the next one in its bin, in a list being returned, or vacant */
  };
  gsize alloc_size;      /* bytes behind it */
  TarnAllocator *source; /* the pool (no reference: its active_blocks keep it alive), or the direct
                            allocator (a reference) */
  gint state;  /* TarnBlockState; behind a pool's lock, or its door and then one thread's; without a
                  pool atomic */
  guint32 bin; /* pools only, as is_hit, is_handed_on, is_away, number and share */
  guint n_uses;             /* 0: no known command uses it */
  guint8 exact : 1;         /* alloc_size is not the bin's; never held */
  guint8 is_hit : 1;        /* the request that it serves was counted as a hit */
  guint8 called_driver : 1; /* the driver was called for memory before that request was served */
  guint8 is_unready : 1;    /* no queue has waited yet for the one that makes it ready */
  guint8 is_handed_on : 1;  /* it was moved to its queue while in use */
  guint8 is_told : 1;       /* a message has said that it could not be returned */
  guint8 is_away : 1; /* memory of a heap that has it for another queue than the block's, or for
                         none, so that it can be returned only when no queue uses it */
  guint8 is_own;      /* atomic: an arena's: pool/arenas.c */
  guint16 number;     /* in its chunk, constant */
  gpointer share; /* handle of the queue whose share gets it when it is freed; NULL: of no queue;
                     TARN_NO_SHARE */
  union
  {
    TarnUse *uses;              /* room for one is kept */
    struct _TarnExtent *extent; /* if it is an arena's own */
  };
} __attribute__ ((aligned (TARN_CACHE_LINE)));

/* Returns TRUE if a block of a pool may go from one state to another. */
static inline gboolean
_tarn_block_state_may_follow (gint before, TarnBlockState after)
{
  switch (after)
    {
    case TARN_BLOCK_ACTIVE: /* handed out; or fresh or lent, in a struct that may have been
                               another's; or about to be freed after all */
      return before == TARN_BLOCK_HELD || before == TARN_BLOCK_VACANT
             || before == TARN_BLOCK_RETIRED || before == TARN_BLOCK_SHARED
             || before == TARN_BLOCK_ENDING;
    case TARN_BLOCK_SHARED:
      return before == TARN_BLOCK_ACTIVE;
    case TARN_BLOCK_ENDING:
      return before == TARN_BLOCK_ACTIVE;
    case TARN_BLOCK_HELD: /* also a block that could not be returned */
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

/* Sets the state of a block.  The caller holds the pool's lock; or is inside its door, and is the
 * block's or the cache's own thread. */
static inline void
_tarn_block_set_state (TarnBlock *block, TarnBlockState state)
{
  g_assert (_tarn_block_state_may_follow (block->state, state));
  block->state = (gint) state;
}

/* Gets the share that a block goes to when it is freed: that of the in-order queue that alone uses
 * it, if that use has no event; NULL if no queue uses it; else TARN_NO_SHARE. */
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

/* The origin of a block's request, while blocks are traced. */
typedef struct _TarnOrigin TarnOrigin;
struct _TarnOrigin
{
  guint64 time TARN_WHOLE; /* nanoseconds of the clock of events; 0: unknown */
  guint32 tag, stack, thread;
};

G_STATIC_ASSERT (sizeof (TarnOrigin) % sizeof (guint64) == 0); /* they stand in arrays */

TarnBlock *_tarn_block_new (TarnAllocator *source, TarnMemory memory, gsize size);
void _tarn_block_destroy (TarnBlock *block);
gboolean _tarn_block_retire (TarnBlock *block);
void _tarn_direct_ref_block (TarnBlock *block);

/* Add and drop references to blocks beyond the first, in a table whose lock is held.  The drop
 * returns FALSE if there was none. */
void _tarn_block_count_reference (GHashTable **shared, TarnBlock *block);
gboolean _tarn_block_drop_reference (GHashTable *shared, TarnBlock *block);

/* block-order.c; all but the first are for blocks of direct allocators */
void _tarn_block_add_use (TarnBlock *block, TarnQueue *queue);
TarnQueue *_tarn_direct_queue_new (const TarnAllocator *direct, gpointer handle, GError **error);
void _tarn_direct_queue_free (const TarnAllocator *direct, TarnQueue *queue);
gboolean _tarn_direct_record_use (TarnBlock *block, gpointer handle, GError **error);
gboolean _tarn_direct_move_to_queue (TarnBlock *block, gpointer handle, GError **error);
void _tarn_direct_free_used (TarnBlock *block);

/* Adds a queue (NULL: none) to the uses of a block that is about to be freed. */
gboolean _tarn_block_use_last (TarnBlock *block, gpointer queue, GError **error);

/* recording-listener.c */
void _tarn_block_record (const TarnBlock *block, gboolean is_active);

void _tarn_block_report_double_free (const TarnBlock *block, gint state);

#endif
