/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A heap takes large pieces of memory from another allocator, and makes extents of them: stretches
 * that are in use, or free.
 *
 *     heap.c          the allocator that it is: requests and frees
 *     take.c          extents for requests
 *     arena.c         ... which threads make without the lock, where they can
 *     heap-door.c     the lock, and the door that keeps those threads out
 *     share-out.c     ... of memory that a queue's arenas share out
 *     extent.c        splitting and joining; which piece is idle
 *     free-index.c    free extents by their sizes
 *     heap-queue.c    the queues that it has ranges for
 *     heap-event.c    events that tell when no command uses an idle piece any more
 *     grow.c          where the next piece comes from
 *     grow-virtual.c  ... pieces of virtual memory, which can move to other addresses
 *     churn.c         ... unless others moved too often
 *     alias.c         ... and stay mapped at the old ones while commands use those
 *     grow-parts.c    ... pieces as the upstream allocator gives them
 *     spare.c         ... how much of them may be stranded near a limit
 *     heap-stats.c    what it says of itself
 *     heap-describe.c what recordings and snapshots say of it
 *     heap-check.c    the invariants, executed
 *
 * Small requests have a range of their own, so that their extents do not lie between large ones.
 * Each range serves a request from the smallest free extent that is large enough, at the lowest
 * address where several are, and splits it unless it fits.
 *
 * Pieces of virtual memory are mapped one behind the other, so that extents go on from one to the
 * next.  A piece without an extent in use is idle: it can move to the end of the range that needs
 * memory, or of another one, and leaves a gap behind.  That is why a heap hardly ever has more than
 * was in use at most: what is free in pieces that are in use is all that it can lose.
 *
 * A piece moves within its queue before the queue is done with it: it stays mapped at its old
 * address, which commands may still use, until an event says that they do not: alias.c.
 *
 * Each in-order queue that requests name has ranges of its own: an arena, and several of them where
 * threads that use the queue wait for each other.  What is free there commands on that queue may
 * still use, and others do not: so the queue has it again at once, and whoever frees memory that
 * only its own queue used waits for nothing.  Another queue, and upstream, get idle pieces that are
 * quiet: an event that was recorded after they became idle is done.  Where memory has run out the
 * host waits for that. */

#ifndef TARN_HEAP_PRIVATE_H
#define TARN_HEAP_PRIVATE_H

#include <tarn/heap.h>

#include "base/clock-private.h"
#include "common/lock-private.h"
#include "common/whole-private.h"
#include "heap/arena-private.h"

typedef struct _TarnArena TarnArena;
typedef struct _TarnHeapRange TarnHeapRange;
typedef struct _TarnHeapRegion TarnHeapRegion;
typedef struct _TarnPiece TarnPiece;

/* A stretch of memory, in a cache line of its own, as threads work on neighbours.
 *
 * Invariants: size > 0, and a multiple of the alignment, or of what its piece's address is a
 * multiple of if that is less, unless it ends where its piece does; two neighbours are not both
 * free. */
struct _TarnExtent
{
  union /* first: the table finds an extent by its memory */
  {
    TarnMemory memory; /* in use: what the user has */
    TarnExtent *less;  /* free: in a treap of its range's, with greater */
    TarnExtent *next;  /* in use, and left for others to put back; or spare */
  };
  guint64 start; /* its address; of parts a number of the heap's own */
  gsize size;
  TarnPiece *piece;           /* that has its first byte */
  TarnExtent *before, *after; /* neighbours without a gap; NULL: none */
  guint8 is_free;
  guint8 has_memory; /* in use: memory is what its user has */
  guint32 priority;  /* in a treap; constant, by chance */
  TarnExtent *greater;
} __attribute__ ((aligned (TARN_CACHE_LINE)));

/* Where extents' structs are. */
#define TARN_SLAB_EXTENTS 63

typedef struct _TarnExtentSlab TarnExtentSlab;
struct _TarnExtentSlab
{
  TarnExtentSlab *next;
  TarnExtent extents[TARN_SLAB_EXTENTS];
};

/* A piece: memory that came from upstream in one call.
 *
 * Invariants: n_used is the number of extents in use that have bytes in it; it is in its heap's
 * idle pieces if that is 0. */
struct _TarnPiece
{
  guint64 start;
  gsize size;
  TarnMemory memory;         /* the allocated memory; the backing if it is virtual memory */
  TarnHeapRange *range;      /* the range that it is in */
  TarnHeapRegion *region;    /* the region that it is mapped in, if it is virtual memory */
  TarnPiece *before, *after; /* neighbours without a gap; NULL: none */
  TarnExtent *extent;        /* that has its first byte */
  guint n_used;
  gboolean was_used;  /* somebody had bytes of it */
  guint n_aliases;    /* addresses that it has moved away from, and is still mapped at */
  guint64 idle_since; /* if it is idle: TarnHeapQueue.n_begun then, */
  gint64 idle_at;     /* and the time; 0: nobody has said so yet */
  GList link;         /* in its range's pieces */
  GList idle_link;    /* in its queue's idle ones */
};

/* A mapping of a piece at an address that it has moved away from.  Commands of its queue may use
 * that address until an event is done which was begun after it moved. */
typedef struct
{
  TarnPiece *piece;
  TarnHeapRegion *region; /* that has the address */
  guint64 start;
  guint64 moved_at; /* TarnHeapQueue.n_begun then */
} TarnAlias;

/* Addresses that were reserved.  Those from end on were never used, or the piece there has gone.
 *
 * Invariants: no piece is beyond end; last_piece ends there, and last_extent. */
struct _TarnHeapRegion
{
  TarnHeapRange *range; /* constant: grows here, or did.  Other ranges of its queue may have pieces
                           here, except the last.  Only its arena's lock guards the end, so other
                           ranges must not read last_piece and last_extent */
  TarnMemory addresses;
  gsize size;
  guint64 end;
  guint n_pieces;    /* and aliases */
  gboolean has_lost; /* a piece is there that could not be given back: the addresses stay, too */
  TarnPiece *last_piece;   /* NULL: there is none that ends at end */
  TarnExtent *last_extent; /* as well */
};

typedef enum
{
  TARN_RANGE_SMALL,
  TARN_RANGE_LARGE,
  TARN_RANGE_HUGE, /* where pieces cannot move */
  TARN_N_RANGES
} TarnRangeKind;

/* More than there are sizes' classes, of 64 bits. */
#define TARN_FREE_CLASSES 896

/* Sizes below 512 << TARN_SUB_BITS have a class for each number of units of 512 bytes; the next
 * ones 1 << TARN_SUB_BITS for each power of two. */
#define TARN_SUB_BITS 4

/* Gets the class of a size.  A larger size never has a lower class. */
static inline guint
_tarn_free_index_get_class (gsize size)
{
  guint64 units = size >> 9;
  guint exponent = 63 - (guint) __builtin_clzll (units | 1 << TARN_SUB_BITS);

  return ((exponent - TARN_SUB_BITS) << TARN_SUB_BITS)
         + (guint) (units >> (exponent - TARN_SUB_BITS));
}

/* The free extents of a range by their sizes: free-index.c.
 *
 * Invariants: a class has its bit in @bits if and only if its root is not NULL; and a word of these
 * its bit in @words if and only if it is not 0. */
typedef struct
{
  guint64 words;
  guint64 bits[TARN_FREE_CLASSES / 64];
  TarnExtent *roots[TARN_FREE_CLASSES]; /* the roots of treaps */
} TarnFreeIndex;

/* Pieces that serve requests of the same kind. */
struct _TarnHeapRange
{
  TarnHeap *heap;
  TarnArena *arena;
  TarnRangeKind kind;
  TarnFreeIndex free;     /* all extents that are free */
  GQueue pieces;          /* of TarnPiece, by link */
  TarnHeapRegion *region; /* that it grows in; NULL: none as yet */
  GList *old_regions;     /* that still have pieces */
};

/* An event that stands for all commands that a queue had before. */
typedef struct
{
  gpointer handle; /* the backend's */
  guint64 number;  /* TarnHeapQueue.n_begun before it was recorded */
  guint n_refs;    /* its queue, until it is done, and calls that ask about it */
} TarnHeapEvent;

/* Ranges that threads take memory of without the heap's lock: arena-private.h.
 *
 * A queue has one arena.  Where threads that use the same queue wait for each other it gets
 * several, and each thread has its own, until it finds nothing there.  What is free in one of them
 * any request of the queue can have at once, as the queue's commands come one after the other.
 *
 * Invariants: n_used is the number of extents in use in its pieces. */
struct _TarnArena
{
  /* These stay when it becomes another queue's. */
  TarnExtentSlab *slabs; /* that it has allocated */
  TarnExtent *spare;     /* structs that are not used; through TarnExtent.next */

  TarnHeapQueue *queue; /* constant */
  TarnHeap *heap;       /* constant */

  gboolean is_taken;        /* atomic: its lock */
  gsize uncounted_bytes;    /* atomic: in use, and not counted in the heap, modulo 2^64 */
  gssize noted_bytes;       /* uncounted_bytes at which to look for a new peak */
  gsize n_unnamed;          /* as the heap's, not counted there; modulo 2^64 */
  TarnExtent *left_extents; /* atomic: to be put back; through TarnExtent.next */
  GQueue idle;              /* of TarnPiece, by idle_link: idle for longest first */
  gsize idle_bytes;         /* the sum of their sizes */
  gsize unrecorded_bytes;   /* that became idle since a thread was last told to look, */
  guint n_taken;            /* and extents that were taken since */
  guint seen_growths;       /* TarnHeap.n_growths as it was then */
  guint n_takes;            /* requests, and those of them that had to wait for the lock lately */
  guint n_waits;
  gboolean is_crowded; /* too many had to */
  guint n_poor;        /* requests that it had nothing for lately, since so many had come */
  guint poor_since;
  guint n_shared; /* times that it got memory of the queue's others */
  guint helper;   /* atomic: which arena of the queue had memory when this one had none */
  TarnHeapRange ranges[TARN_N_RANGES];
  gsize n_used;
  gsize n_pieces;
  gsize bytes; /* the sum over its pieces */
  GList link;  /* in the heap's arenas */
} __attribute__ ((aligned (TARN_CACHE_LINES)));

/* The most arenas of a queue. */
#define TARN_QUEUE_ARENAS 16

/* A queue that has arenas, or nobody, who has arenas of what no command uses.
 *
 * When a queue is forgotten its arenas stay, with a last event, until another queue takes them
 * over, or they have no piece left.
 *
 * Invariants: a piece that became idle when n_begun was n is quiet if n < n_done; n_done <= n_begun
 * as long as it is not forgotten. */
struct _TarnHeapQueue
{
  /* Atomic: no other queue ever has it; 0: as long as there is no handle.  It stays in a struct
   * that is used again. */
  guint64 number;

  TarnHeap *heap;
  gpointer handle; /* a reference of the backend's; NULL: nobody, or it is forgotten */
  gpointer left;   /* the same reference in a forgotten queue, until nobody uses it */

  /* The door is closed while these change. */
  TarnArena *arenas[TARN_QUEUE_ARENAS];
  guint n_arenas;            /* atomic: at least 1 */
  gboolean has_shared_arena; /* two of the threads use the same one */
  guint64 threads;           /* that use it: a bit for each of their numbers, modulo 64 */

  /* Calls that use it, and may give up the lock meanwhile; on another cache line than the fields
   * that visits read. */
  guint n_calls __attribute__ ((aligned (TARN_CACHE_LINES)));
  guint n_forgetting;      /* calls that are forgetting it; its number is 0 meanwhile, */
  guint64 former_number;   /* and was this before */
  guint64 n_begun;         /* events whose recording has begun; the door is closed meanwhile */
  guint64 n_done;          /* the number of the last one that is done, and one more */
  gboolean has_unrecorded; /* atomic: a piece became idle since the last one was begun */
  guint n_passed;          /* calls that named it since, and recorded none */
  GQueue events;           /* TarnHeapEvents that are not known to be done */
  GQueue aliases;          /* of TarnAlias, owned: of its pieces, by moved_at */

  GList link;           /* in the heap's all_queues */
  GList forgotten_link; /* in its forgotten_queues */
};

/* Tells whether a request moves pieces.  churn.c decides that once for each request. */
typedef enum
{
  TARN_MOVES_UNDECIDED,
  TARN_MOVES_PIECES,
  TARN_MOVES_NONE
} TarnHeapMoves;

/* One request for which the heap grows, maybe by several pieces. */
typedef struct
{
  TarnHeapMoves moves;
  gboolean has_probed; /* upstream had as much as was missing, at once */
} TarnHeapAttempt;

/* How many more requests may move pieces, or have pools give back what threads keep, and what the
 * heap may have instead.
 *
 * Invariant: both are for time up to @at, and for a peak up to @peak. */
typedef struct
{
  guint n_moves;
  guint n_flushes;
  gint64 at;
  guint64 peak;
  guint64 extra;  /* bytes that the room is larger by */
  guint n_beyond; /* requests that needed a larger room than its bound */
} TarnHeapChurn;

/* How a heap grows. */
typedef struct
{
  gsize max_small; /* the largest request in the range of small ones */
  gsize max_held;  /* the largest block that a pool above may hold, as _tarn_heap_get_max_held () */
  /* Chooses the range for a request.  NULL: its size alone does, by max_small. */
  TarnRangeKind (*choose) (const TarnHeap *heap, gsize size);
  /* Gets the largest request whose piece serves others, too.  NULL: there is no such bound. */
  gsize (*get_max_shared) (const TarnHeap *heap);
  /* Computes how many bytes the heap may have for a request before it takes what queues do not use.
   */
  gsize (*get_target) (const TarnHeap *heap, gsize size);
  /* Adds a piece to a range that has no free extent for a request.  Returns TRUE if to look again
   * may help.  The lock is released meanwhile. */
  gboolean (*grow) (TarnHeapRange *range, gsize size, TarnHeapAttempt *attempt, GError **error);
  /* Returns TRUE if a free extent suits a request that could also get another one.  NULL: any
   * suits. */
  gboolean (*suits) (const TarnHeapRange *range, const TarnExtent *extent, gsize size);
  /* Gives a piece back that was cut out.  The lock is not held. */
  void (*release) (TarnHeap *heap, TarnPiece *piece);
  /* Gives back what a range does not need any more since pieces have gone from it.  The lock is
   * released meanwhile. */
  void (*tidy) (TarnHeapRange *range);
  /* Gives back what a range has besides pieces.  Nobody else uses the heap. */
  void (*clear) (TarnHeapRange *range);
} TarnHeapGrowth;

extern const TarnHeapGrowth _tarn_heap_virtual_growth __attribute__ ((visibility ("hidden")));
extern const TarnHeapGrowth _tarn_heap_parts_growth __attribute__ ((visibility ("hidden")));

/* Invariants, whenever the lock can be taken; _tarn_heap_check () executes them:
 *
 *     upstream_bytes == sum of size over pieces, and over those on their way to or from upstream
 *     used_bytes     == sum of size over extents in use
 *     free_bytes     == sum of size over free extents
 *     pieces         == number of pieces
 *     every extent in use is in the table by its memory, except n_unnamed; nothing else is
 *     those of extents, pieces, regions
 *
 * The lock guards all that is not constant.  The closed door guards as well what visits use: arenas
 * with all that they have.  The lock alone (_tarn_heap_lock_open ()) guards the table, the queues
 * and their events.  It is not held during calls of upstream.  is_changing says that some thread is
 * in one.  No other thread adds or removes pieces meanwhile. */
struct _TarnHeap
{
  TarnAllocator base;      /* first */
  TarnAllocator *upstream; /* a reference */
  const TarnHeapGrowth *growth;
  gsize alignment;         /* that extents have: a power of two */
  gsize limit_bytes;       /* 0: none */
  gboolean follows_pool;   /* has its limit as well */
  gboolean has_addresses;  /* users' memory is TarnMemory.address, which the heap reckons; else
                              upstream makes a part of a piece of each extent */
  gboolean frees_in_order; /* pieces may go back while commands use them */
  gsize growth_bytes;      /* the least of a piece; 0: it depends on the heap's size */
  gint64 idle_time;        /* after which idle pieces go back: microseconds; G_MAXINT64: never */

  /* Fields that visits read, on cache lines of their own: others are written often. */
  TarnDoor door __attribute__ ((aligned (TARN_CACHE_LINES)));
  gboolean has_visitors; /* there may be some: while nobody has the lock, the door is open */
  gsize event_bytes;     /* the bytes that must become idle before a thread looks after the queue */
  guint n_growths;       /* requests that took more than there was in their queue's ranges */
  gsize max_unchecked;   /* requests up to this are served from any free extent */
  gsize room_bytes;      /* that it may take of upstream rather than of a thread's other arenas */
  guint64 peak_in_visits
      TARN_WHOLE; /* atomic: the most bytes in use that visits have seen; 0: none looked */

  TarnMutex lock
      __attribute__ ((aligned (TARN_CACHE_LINES))); /* with which the door is mostly closed */
  TarnCond changed;                                 /* is_changing is FALSE again */
  gboolean is_changing;
  guint n_waiting;       /* threads, for changed; to wake none takes a call of the system, too */
  TarnHeapQueue *nobody; /* serves requests that name no queue */
  GHashTable *queues;    /* handle -> TarnHeapQueue */
  TarnHeapQueue *latest_queue; /* the one of queues that was named last; NULL: none */
  GQueue all_queues;           /* these, nobody, and those that are forgotten; only who changes what
                                  pieces there are takes one out */
  GQueue forgotten_queues;     /* forgotten for longest first */
  GQueue arenas;               /* of TarnArena: those of all queues */
  GSList *dead_queues;         /* structs that pools may still have references to, */
  GSList *dead_arenas;         /* and that extents may be in */
  guint64 last_number;         /* the latest number of a queue */
  GHashTable *table;           /* memory -> TarnExtent in use */
  gsize n_unnamed;  /* extents in use that are not there: they are on their way there or back */
  gsize lost_bytes; /* in extents in use that are not going to be freed */
  gsize lent_bytes; /* that other heaps have: lend.c */
  gsize pool_limit; /* bytes; 0: none */
  gsize
      full_bytes; /* upstream had less than that; G_MAXSIZE: it never ran out, or has more by now */
  gsize peak_lately; /* the most bytes in use since peak_at */
  gsize peak_before; /* the same of the period before that */
  gint64 peak_at;
  TarnHeapChurn churn;
  gboolean refuses_aliases; /* upstream did not map a piece at a second address */
  gboolean is_short;        /* upstream ran out, and has not given much at once since */
  gboolean is_unready; /* upstream gave memory that nobody could wait for: for who is_changing */
  gint64 look_at;      /* the time at which to see whether some were idle for too long */
  guint64 next_start;  /* the start of the next piece, if pieces are parts */
  guint64 generation TARN_WHOLE; /* atomic: how often memory was unmapped, or went back; counted
                                    before it does */
  TarnHeapStats stats;
};

/* Some room for what each arena beyond the first has free, as long as that is no more than one byte
 * in so many of what was in use: else arenas that need little take it from each other in turn. */
#define TARN_ARENA_ROOM ((gsize) 12 << 20)
#define TARN_ARENA_ROOM_SHARE 2

/* The arenas of a queue share their memory, so these many further ones count as one. */
#define TARN_FURTHER_ARENAS 4

/* Counts arenas, as far as each of them may have memory that is of no use to others. */
static inline guint
_tarn_heap_count_for_room (const TarnHeap *heap)
{
  guint n_queues = heap->all_queues.length;

  return n_queues + (heap->arenas.length - n_queues) / TARN_FURTHER_ARENAS;
}

/* Computes what a heap may have: what was in use at most, also with a request of @size bytes, one
 * byte in a share of that, and some room. */
static inline gsize
_tarn_heap_get_target (const TarnHeap *heap, gsize size, gsize share, gsize room)
{
  guint64 used = heap->stats.used_bytes;
  guint64 peak = MAX ((guint64) heap->stats.peak_used_bytes, used + size);
  guint64 n = _tarn_heap_count_for_room (heap); /* with nobody's */
  guint64 of_arenas = n > 2 ? MIN ((n - 2) * TARN_ARENA_ROOM, peak / TARN_ARENA_ROOM_SHARE) : 0;
  guint64 more = peak / share + room + of_arenas + heap->churn.extra + heap->lent_bytes;

  return (gsize) MIN (peak + MIN (more, G_MAXUINT64 - peak), G_MAXSIZE);
}

/* More than one byte in so many of the limit is much for one request. */
#define TARN_MUCH_SHARE 512

/* take.c; the lock is held, and released meanwhile but in the first two */
void _tarn_heap_put (TarnHeap *heap, TarnExtent *extent);
TarnExtent *_tarn_heap_take_own (TarnHeapQueue *queue, gsize size, gboolean takes_any);
TarnExtent *_tarn_heap_take (TarnHeapQueue *queue, gsize size, GError **error);
TarnExtent *_tarn_heap_take_aligned (TarnHeapQueue *queue, gsize size, gsize alignment,
                                     GError **error);

/* heap.c; the lock is held */
void _tarn_heap_remember (TarnExtent *extent, TarnMemory memory);

/* heap-door.c; the lock is not held in the first three, */
void _tarn_heap_lock (TarnHeap *heap);
void _tarn_heap_lock_open (TarnHeap *heap);
gboolean _tarn_heap_trylock (TarnHeap *heap);
/* and is in these; */
void _tarn_heap_close (TarnHeap *heap);
void _tarn_heap_unlock (TarnHeap *heap);
void _tarn_heap_wait (TarnHeap *heap);
void _tarn_arena_count (TarnArena *arena);
void _tarn_arena_count_unnamed (TarnArena *arena);
void _tarn_arena_drain (TarnArena *arena); /* or the arena's in a visit */

/* arena.c; the lock is held */
TarnExtent *_tarn_queue_take (TarnArena *arena, gsize size, gboolean takes_any);
gboolean _tarn_arena_note_wait (TarnArena *arena); /* or the arena's in a visit */
void _tarn_arena_relieve (TarnArena *arena);

/* extent.c; with the lock, or the arena's in a visit */
TarnExtent *_tarn_range_take_quickly (TarnHeapRange *range, gsize size);
void _tarn_range_put_quickly (TarnHeapRange *range, TarnExtent *extent);

/* lend.c */
void _tarn_heap_set_lending (const TarnAllocator *upstream, TarnAllocatorOps *ops);

/* spare.c; the lock is held */
gsize _tarn_heap_get_most (const TarnHeap *heap);
gsize _tarn_heap_get_share (const TarnHeap *heap, gsize share);
gboolean _tarn_heap_is_much (const TarnHeap *heap, gsize size);
gsize _tarn_heap_get_spare (const TarnHeap *heap, gsize size);
gboolean _tarn_heap_may_share (const TarnHeap *heap, gsize size);
gsize _tarn_heap_get_max_unchecked (const TarnHeap *heap);
void _tarn_heap_age_peaks (TarnHeap *heap);
void _tarn_heap_note_full (TarnHeap *heap, gsize size);
void _tarn_heap_note_growth (TarnHeap *heap);

/* free-index.c */
void _tarn_free_index_add (TarnFreeIndex *index, TarnExtent *extent);
void _tarn_free_index_remove (TarnFreeIndex *index, TarnExtent *extent);
TarnExtent *_tarn_free_index_find (TarnFreeIndex *index, gsize size);
TarnExtent *_tarn_free_index_take (TarnFreeIndex *index, gsize size);
gboolean _tarn_free_index_may_have (const TarnFreeIndex *index,
                                    gsize size); /* without a lock, too */
const TarnExtent *_tarn_free_index_get_largest (const TarnFreeIndex *index);

/* heap-queue.c; the lock is held, and released meanwhile by those that have an error */
TarnHeapQueue *_tarn_heap_queue_new (TarnHeap *heap, gpointer handle);
void _tarn_queue_note_thread (TarnHeapQueue *queue);
void _tarn_queue_add_arenas (TarnHeapQueue *queue);
gboolean _tarn_queue_has_pieces (const TarnHeapQueue *queue);
TarnHeapQueue *_tarn_heap_find_queue (TarnHeap *heap, gpointer handle);
TarnHeapQueue *_tarn_heap_enter_queue (TarnHeap *heap, gpointer handle, GError **error);
void _tarn_heap_drop_queues (TarnHeap *heap); /* and so does this one */
void _tarn_heap_free_queue (TarnHeap *heap, TarnHeapQueue *queue);

/* heap-event.c; the lock is held; all but the first release it meanwhile */
gboolean _tarn_piece_is_quiet (const TarnPiece *piece);
gboolean _tarn_queue_record_last_event (TarnHeapQueue *queue, GError **error);
void _tarn_queue_drop_events (TarnHeapQueue *queue);
void _tarn_queue_record_if_idle (TarnHeapQueue *queue);
void _tarn_queue_ask (TarnHeapQueue *queue);
gboolean _tarn_queue_await (TarnHeapQueue *queue);
void _tarn_heap_poll_events (TarnHeap *heap);
gboolean _tarn_heap_await_idle (TarnHeap *heap);

/* churn.c; the lock is held */
void _tarn_heap_init_churn (TarnHeap *heap);
gboolean _tarn_heap_pay_for_moves (TarnHeap *heap, gsize missing, gsize target);
gsize _tarn_heap_get_room (const TarnHeap *heap);

/* alias.c; the lock is held, and released meanwhile by the last */
gboolean _tarn_piece_can_move_to (const TarnPiece *piece, const TarnHeapRange *range);
void _tarn_piece_add_alias (TarnPiece *piece, TarnHeapQueue *queue, TarnHeapRegion *region,
                            guint64 start);
void _tarn_queue_lose_aliases (TarnHeapQueue *queue);
void _tarn_heap_end_aliases (TarnHeap *heap);

/* extent.c; the lock is held */
TarnExtent *_tarn_range_take (TarnHeapRange *range, gsize size, gboolean takes_any);
void _tarn_range_put (TarnHeapRange *range, TarnExtent *extent);
TarnExtent *_tarn_range_narrow (TarnExtent *extent, gsize offset, gsize size);
void _tarn_range_add_piece (TarnHeapRange *range, TarnPiece *piece);
void _tarn_range_add_busy_piece (TarnHeapRange *range, TarnPiece *piece);
void _tarn_range_cut_piece (TarnPiece *piece);
void _tarn_range_cut_mapped_piece (TarnPiece *piece);
void _tarn_range_take_over (TarnHeapRange *range, TarnPiece *first, TarnPiece *last);
void _tarn_arena_free_slabs (TarnArena *arena);
TarnPiece *_tarn_heap_next_idle (const TarnHeap *heap, const TarnPiece *piece);
gsize _tarn_heap_get_idle_bytes (const TarnHeap *heap);
guint _tarn_heap_count_idle (const TarnHeap *heap);

/* share-out.c; the lock is held */
void _tarn_arena_share_out (TarnArena *arena);

/* grow.c; the lock is held, and released meanwhile */
gboolean _tarn_heap_grow (TarnHeapRange *range, gsize size, TarnHeapAttempt *attempt,
                          GError **error);
gboolean _tarn_heap_await_more (TarnHeap *heap, const GError *error);
gsize _tarn_heap_trim (TarnHeap *heap);
void _tarn_heap_expire (TarnHeap *heap);
gboolean _tarn_heap_begin_change (TarnHeap *heap, gsize size, GError **error);
void _tarn_heap_end_change (TarnHeap *heap);
gsize _tarn_heap_get_limit (const TarnHeap *heap); /* but not in these two */
/* and for the ways to grow */
gboolean _tarn_heap_has_room (const TarnHeap *heap, gsize size, GError **error);
gboolean _tarn_heap_has_run_out (const GError *error);
void _tarn_heap_note_peak (TarnHeap *heap);
TarnPiece *_tarn_piece_new (TarnMemory memory, gsize size);
gboolean _tarn_piece_can_go (const TarnPiece *piece);
gsize _tarn_heap_release_idle (TarnHeap *heap, TarnPiece *piece);

/* heap-stats.c; the lock is held */
void _tarn_heap_describe_free (const TarnHeap *heap, GError **error);

/* heap-describe.c; the lock is held */
void _tarn_heap_record_piece (const TarnPiece *piece);
void _tarn_heap_record_part (const TarnExtent *extent);
/* ... but for the others see TarnAllocatorClass */
void _tarn_heap_freeze (TarnAllocator *heap);
void _tarn_heap_thaw (TarnAllocator *heap);
void _tarn_heap_tell (TarnAllocator *heap, TarnListener *listener);
void _tarn_heap_tell_counters (TarnAllocator *heap, TarnListener *listener);

/* heap-check.c; the lock is held */
gboolean _tarn_heap_check (TarnHeap *heap, gchar **violation);
void _tarn_heap_assert_valid (TarnHeap *heap);

/* Checks that nobody else uses the arenas. */
static inline void
_tarn_heap_assert_closed (const TarnHeap *heap)
{
  _tarn_assert_locked (&heap->lock);
  g_assert (_tarn_door_is_closed (&heap->door));
}

/* After every operation, under the lock, in builds with --enable-debug=full. */
static inline void
_tarn_heap_check_if_full_debug (TarnHeap *heap)
{
#if defined(TARN_DEBUG_LEVEL) && TARN_DEBUG_LEVEL >= 2
  _tarn_heap_close (heap);
  _tarn_heap_assert_valid (heap);
#else
  (void) heap;
#endif
}

/* Notes that memory which users may have had is going to be unmapped, or to go back.  The lock is
 * held, and nobody can be given the memory any more. */
static inline void
_tarn_heap_begin_generation (TarnHeap *heap)
{
  _tarn_assert_locked (&heap->lock);
  __atomic_store_n (&heap->generation, heap->generation + 1, __ATOMIC_RELEASE);
}

/* Gets the arena of a queue that the calling thread uses. */
static inline TarnArena *
_tarn_queue_get_arena (const TarnHeapQueue *queue)
{
  guint n = __atomic_load_n (&queue->n_arenas, __ATOMIC_ACQUIRE);

  return queue->arenas[TARN_LIKELY (n == 1) ? 0 : _tarn_current_thread->number % n];
}

/* Gets the range that a request is served from. */
static inline TarnHeapRange *
_tarn_arena_get_range (TarnArena *arena, gsize size)
{
  const TarnHeapGrowth *growth = arena->heap->growth;
  TarnRangeKind kind = size <= growth->max_small ? TARN_RANGE_SMALL : TARN_RANGE_LARGE;

  if (TARN_UNLIKELY (growth->choose != NULL))
    kind = growth->choose (arena->heap, size);
  return &arena->ranges[kind];
}

/* A fresh piece is as large as all that its arena has.  With more arenas than a few it is a share
 * of that, because what each does not use adds up. */
#define TARN_FEW_ARENAS 4
#define TARN_SHARE_OF_ARENA 4

/* Gets the bytes by which an arena is to grow, where nothing else is in the way. */
static inline gsize
_tarn_arena_get_step (const TarnArena *arena)
{
  return arena->bytes
         / (arena->heap->arenas.length > TARN_FEW_ARENAS ? TARN_SHARE_OF_ARENA : (gsize) 1);
}

/* Returns TRUE if pieces have to stay where they are for now, also idle ones. */
static inline gboolean
_tarn_heap_stays (const TarnHeap *heap)
{
  return heap->upstream->ops.backing_stays != NULL
         && heap->upstream->ops.backing_stays (heap->upstream->user_data);
}

static inline TarnArena *
_tarn_arena_at (const GList *link)
{
  return link != NULL ? link->data : NULL;
}

/* Each arena of a heap. */
#define TARN_FOR_EACH_ARENA(arena, heap)                                                           \
  for (TarnArena *arena = _tarn_arena_at ((heap)->arenas.head); arena != NULL;                     \
       arena = _tarn_arena_at (arena->link.next))

/* Each idle piece, of one arena after the other, idle for longest first.  The piece may be cut out
 * meanwhile, because @next is the one after it. */
#define TARN_FOR_EACH_IDLE(piece, next, heap)                                                      \
  for (TarnPiece *piece = _tarn_heap_next_idle (heap, NULL),                                       \
                 *next = piece != NULL ? _tarn_heap_next_idle (heap, piece) : NULL;                \
       piece != NULL;                                                                              \
       piece = next, next = piece != NULL ? _tarn_heap_next_idle (heap, piece) : NULL)

/* Gets an extent's address, in a heap whose memory is addresses; in another one it is of no use. */
static inline guint64
_tarn_extent_get_address (const TarnExtent *extent)
{
  const TarnPiece *piece = extent->piece;

  return piece->region != NULL ? extent->start
                               : piece->memory.address + (extent->start - piece->start);
}

#endif
