/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A heap gets large segments of memory (TarnPiece, called pieces here) from another allocator, and
 * divides them into extents, each of which is in use or free.
 *
 *     heap.c          the heap's allocator functions: requests and frees
 *     take.c          gets extents for requests
 *     arena.c         ... without the heap's lock, where possible
 *     heap-door.c     the lock, and the door that keeps out threads without the lock
 *     share-out.c     moves pieces between the arenas of a queue
 *     extent.c        splits and merges extents; tracks which pieces are idle
 *     free-index.c    finds free extents by size
 *     heap-queue.c    the queues for which the heap has ranges
 *     heap-event.c    events that tell when no command uses an idle piece any more
 *     grow.c          gets pieces, and returns them
 *     grow-virtual.c  ... of virtual memory, which can move to other addresses
 *     churn.c         ... but not too often
 *     alias.c         ... and stay mapped at the old ones while commands use those
 *     grow-parts.c    ... of memory that upstream allocates, which cannot move
 *     spare.c         ... and bounds how much of it may be stranded near a limit
 *     heap-stats.c    the heap's counters
 *     heap-describe.c describes a heap to recordings and snapshots
 *     heap-check.c    checks the invariants
 *
 * Small requests have a range of their own, so that their extents do not lie between large ones.
 * Each range is best fit: it serves a request from the smallest free extent that is large enough,
 * at the lowest address if there are several, and splits off the rest.
 *
 * Pieces of virtual memory are mapped one behind the other, so an extent can span several.  A piece
 * without an extent in use is idle: it can move to the end of a range that needs memory, and leaves
 * a gap behind.  So a heap seldom has more memory than was in use at its peak: it loses only the
 * free extents of pieces that are in use.
 *
 * A piece can move within its queue before the queue's commands on it are done.  It then stays
 * mapped at its old address, which those commands may still use, until an event says that they are
 * done: alias.c.
 *
 * Each in-order queue that requests name has ranges of its own: an arena, or several if threads
 * that use the queue wait for each other.  Commands on that queue may still use the free memory
 * there, so only that queue can reuse it at once, and a free of memory that only its own queue used
 * waits for nothing.  Another queue, and upstream, get only idle pieces that are quiet: an event
 * that was recorded after they became idle is done.  When memory has run out, the host waits for
 * that event. */

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

/* A contiguous part of a heap's memory, in use or free.  The struct has a cache line of its own,
 * because different threads work on neighbouring extents.
 *
 * Invariants: size > 0.  It is a multiple of the heap's alignment (or of the largest power of two
 * that divides its piece's address, if that is less), unless the extent ends where its piece does.
 * Two neighbours are not both free. */
struct _TarnExtent
{
  union /* first: the table hashes an extent by its memory */
  {
    TarnMemory memory; /* in use: the user's memory */
    TarnExtent *less;  /* free: a link in its range's treap, as is greater */
    TarnExtent *next;  /* in use, and left for another thread to free; or a spare struct */
  };
  guint64 start; /* its address; in a heap of parts, a number that the heap assigns */
  gsize size;
  TarnPiece *piece;           /* the piece that has its first byte */
  TarnExtent *before, *after; /* adjacent neighbours; NULL: none */
  guint8 is_free;
  guint8 has_memory; /* in use: memory is set */
  guint32 priority;  /* in the treap; constant, pseudo-random */
  TarnExtent *greater;
} __attribute__ ((aligned (TARN_CACHE_LINE)));

/* A slab of extents' structs. */
#define TARN_SLAB_EXTENTS 63

typedef struct _TarnExtentSlab TarnExtentSlab;
struct _TarnExtentSlab
{
  TarnExtentSlab *next;
  TarnExtent extents[TARN_SLAB_EXTENTS];
};

/* A segment: memory that came from upstream in one call.
 *
 * Invariants: n_used is the number of extents in use that have bytes in it.  If that is 0, the
 * piece is in its arena's list of idle pieces. */
struct _TarnPiece
{
  guint64 start;
  gsize size;
  TarnMemory memory;         /* the allocated memory; the backing if it is virtual memory */
  TarnHeapRange *range;      /* the range that it is in */
  TarnHeapRegion *region;    /* the region that it is mapped in, if it is virtual memory */
  TarnPiece *before, *after; /* adjacent neighbours; NULL: none */
  TarnExtent *extent;        /* the extent that has its first byte */
  guint n_used;
  gboolean was_used;  /* a request has had bytes of it */
  guint n_aliases;    /* old addresses at which it is still mapped */
  guint64 idle_since; /* if it is idle: TarnHeapQueue.n_begun when it became so, */
  gint64 idle_at;     /* and the time; 0: not noted yet */
  GList link;         /* in its range's pieces */
  GList idle_link;    /* in its arena's idle pieces */
};

/* A mapping of a piece at an address from which it has moved.  Commands of its queue may use that
 * address until an event is done whose recording began after the move. */
typedef struct
{
  TarnPiece *piece;
  TarnHeapRegion *region; /* the region that has the address */
  guint64 start;
  guint64 moved_at; /* TarnHeapQueue.n_begun at the move */
} TarnAlias;

/* Reserved addresses.  Those from end on were never used, or the piece there has gone.
 *
 * Invariants: no piece is beyond end; last_piece and last_extent end there. */
struct _TarnHeapRegion
{
  TarnHeapRange *range; /* constant: grows here, or once did. Other ranges of its queue may have
                           pieces here, except the last one. Only its arena's lock guards the end,
                           so other ranges must not read last_piece and last_extent */
  TarnMemory addresses;
  gsize size;
  guint64 end;
  guint n_pieces;          /* and aliases */
  gboolean has_lost;       /* a piece here could not be returned, so the addresses stay reserved */
  TarnPiece *last_piece;   /* the piece that ends at end; NULL: none */
  TarnExtent *last_extent; /* the extent that ends at end; NULL: none */
};

typedef enum
{
  TARN_RANGE_SMALL,
  TARN_RANGE_LARGE,
  TARN_RANGE_HUGE, /* only used if pieces cannot move */
  TARN_N_RANGES
} TarnRangeKind;

/* An upper bound on the number of size classes, for 64-bit sizes. */
#define TARN_FREE_CLASSES 896

/* Below 512 << TARN_SUB_BITS there is a size class for each number of 512-byte units; above, 1 <<
 * TARN_SUB_BITS classes for each power of two. */
#define TARN_SUB_BITS 4

/* Gets the size class of a size.  A larger size never has a lower class. */
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
 * Invariants: the bit of a class in @bits is set if and only if its root is not NULL.  The bit of a
 * word of @bits in @words is set if and only if that word is not 0. */
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
  gsize used_bytes;       /* the sum of the sizes of the extents in use in its pieces */
  TarnFreeIndex free;     /* all extents that are free */
  GQueue pieces;          /* of TarnPiece, by link */
  gsize bytes;            /* the sum of the sizes of its pieces, */
  gsize idle_bytes;       /* and of those that are idle */
  TarnHeapRegion *region; /* the region that it grows in; NULL: none yet */
  GList *old_regions;     /* regions that it no longer grows in, but that still have pieces */
};

/* An event that covers all commands given to a queue before it. */
typedef struct
{
  gpointer handle; /* the backend's */
  guint64 number;  /* TarnHeapQueue.n_begun before it was recorded */
  guint n_refs;    /* the queue's, until it is done, and those of calls that query it */
} TarnHeapEvent;

/* Ranges from which threads allocate without the heap's lock: arena-private.h.
 *
 * A queue has one arena.  If threads that use the same queue wait for each other, it gets several,
 * and each thread allocates from its own arena until that has no fitting extent.  Any request of
 * the queue can reuse the free extents of all its arenas at once, because the queue executes its
 * commands in order.
 *
 * Invariants: n_used is the number of extents in use in its pieces. */
struct _TarnArena
{
  /* These stay when the struct is reused for another queue. */
  TarnExtentSlab *slabs; /* the slabs that it has allocated */
  TarnExtent *spare;     /* unused structs; linked by TarnExtent.next */

  TarnHeapQueue *queue; /* constant */
  TarnHeap *heap;       /* constant */

  gboolean is_taken;     /* atomic: its lock */
  gsize uncounted_bytes; /* atomic: bytes in use that the heap has not counted yet, modulo 2^64 */
  gssize noted_bytes;    /* the uncounted_bytes at which to check for a new peak */
  gsize n_unnamed;       /* as TarnHeap.n_unnamed, not counted there yet; modulo 2^64 */
  TarnExtent *left_extents; /* atomic: extents that the next holder of the lock frees; linked by
                               TarnExtent.next */
  GQueue idle;              /* of TarnPiece, by idle_link: idle for the longest time first */
  gsize unrecorded_bytes;   /* bytes that became idle since a thread was last told to look after the
                               heap, */
  guint n_taken;            /* and extents taken since then */
  guint seen_growths;       /* TarnHeap.n_growths at that time */
  guint n_takes;            /* requests, and how many recent ones waited for the lock */
  guint n_waits;
  gboolean is_crowded; /* too many requests waited */
  guint n_poor;        /* recent requests for which it had no extent, */
  guint poor_since;    /* counted since n_takes was this */
  guint n_shared;      /* how often it got pieces of the queue's other arenas */
  guint helper; /* atomic: index of the arena that last served a request for which this one had no
                   extent */
  TarnHeapRange ranges[TARN_N_RANGES];
  gsize n_used;
  gsize n_pieces;
  GList link; /* in the heap's arenas */
} __attribute__ ((aligned (TARN_CACHE_LINES)));

/* The most arenas of a queue. */
#define TARN_QUEUE_ARENAS 16

/* A queue and its arenas; or, for requests that name no queue, the arenas of memory that no command
 * uses.
 *
 * When a queue is forgotten its arenas stay, with a last event, until another queue takes them
 * over, or they have no piece left.
 *
 * Invariants: a piece that became idle when n_begun was n is quiet if n < n_done. n_done <= n_begun
 * as long as the queue is not forgotten. */
struct _TarnHeapQueue
{
  /* Atomic: unique to the queue; 0 as long as there is no handle.  The field stays valid in a
   * struct that is reused. */
  guint64 number;

  TarnHeap *heap;
  gpointer handle; /* the backend's queue, a reference; NULL: no queue, or a forgotten one */
  gpointer left;   /* the same of a forgotten queue; it is dropped once no call uses the queue */

  /* These change only while the door is closed. */
  TarnArena *arenas[TARN_QUEUE_ARENAS];
  guint n_arenas;            /* atomic: at least 1 */
  gboolean has_shared_arena; /* two threads use the same arena */
  guint64 threads;           /* the threads that use it: a bit for each thread number, modulo 64 */

  /* Calls that use the queue, and may release the lock meanwhile.  On another cache line than the
   * fields that read sections read. */
  guint n_calls __attribute__ ((aligned (TARN_CACHE_LINES)));
  guint n_forgetting;    /* calls that are forgetting it; number is 0 meanwhile, */
  guint64 former_number; /* and was this before */
  guint64 n_begun; /* events whose recording has begun; changes only while the door is closed */
  guint64 n_done;  /* the number of the last event that is done, plus 1 */
  gboolean has_unrecorded; /* atomic: a piece became idle since the last recording began */
  guint n_passed;          /* calls that named the queue since then, and recorded no event */
  GQueue events;           /* TarnHeapEvents that are not known to be done */
  GQueue aliases;          /* of TarnAlias, owned: the aliases of its pieces, ordered by moved_at */

  GList link;           /* in the heap's all_queues */
  GList forgotten_link; /* in its forgotten_queues */
};

/* Says whether a request moves pieces. churn.c decides that once for each request. */
typedef enum
{
  TARN_MOVES_UNDECIDED,
  TARN_MOVES_PIECES,
  TARN_MOVES_NONE
} TarnHeapMoves;

/* A request for which the heap grows, possibly by several pieces. */
typedef struct
{
  TarnHeapMoves moves;
  gboolean has_probed; /* upstream had all missing bytes in one allocation */
} TarnHeapAttempt;

/* The number of requests that may still move pieces, or make pools return cached blocks, and the
 * extra memory that the heap may have instead: churn.c.
 *
 * Invariant: both numbers are up to date for the time @at and for the peak @peak. */
typedef struct
{
  guint n_moves;
  guint n_flushes;
  gint64 at;
  guint64 peak;
  guint64 extra;  /* bytes by which the room is larger */
  guint n_beyond; /* requests that needed more room than its bound */
} TarnHeapChurn;

/* The functions and constants of a way to grow: grow-virtual.c, grow-parts.c. */
typedef struct
{
  gsize max_small; /* the largest request that the small range serves */
  gsize max_held;  /* the largest block that a pool above may cache: _tarn_heap_get_max_held () */
  /* Chooses the range for a request.  NULL: max_small alone decides. */
  TarnRangeKind (*choose) (const TarnHeap *heap, gsize size);
  /* Gets the largest request whose piece also serves other requests.  NULL: there is no bound. */
  gsize (*get_max_shared) (const TarnHeap *heap);
  /* Computes how many bytes the heap may have for a request before it uses idle pieces instead. */
  gsize (*get_target) (const TarnHeap *heap, gsize size);
  /* Adds a piece to a range that has no free extent for a request.  Returns TRUE if the caller
   * should search the range again.  Releases the lock meanwhile. */
  gboolean (*grow) (TarnHeapRange *range, gsize size, TarnHeapAttempt *attempt, GError **error);
  /* Returns TRUE if a request should use this free extent, rather than get another one.  NULL: any
   * extent suits. */
  gboolean (*suits) (const TarnHeapRange *range, const TarnExtent *extent, gsize size);
  /* Returns a piece that was cut out to upstream.  The lock is not held. */
  void (*release) (TarnHeap *heap, TarnPiece *piece);
  /* Returns what a range does not need any more after pieces have gone from it.  Releases the lock
   * meanwhile. */
  void (*tidy) (TarnHeapRange *range);
  /* Returns everything that a range has besides pieces.  No other thread uses the heap. */
  void (*clear) (TarnHeapRange *range);
} TarnHeapGrowth;

extern const TarnHeapGrowth _tarn_heap_virtual_growth __attribute__ ((visibility ("hidden")));
extern const TarnHeapGrowth _tarn_heap_parts_growth __attribute__ ((visibility ("hidden")));

/* The heap.  Invariants, whenever the lock can be taken; _tarn_heap_check () checks them:
 *
 *     upstream_bytes == sum of size over pieces, and over those on their way to or from upstream
 *     used_bytes     == sum of size over extents in use
 *     free_bytes     == sum of size over free extents
 *     pieces         == number of pieces
 *     every extent in use is in the table by its memory, except n_unnamed; nothing else is
 *     those of extents, pieces, regions
 *
 * The lock guards all fields that are not constant.  To change what read sections use (arenas and
 * all that they have), a thread must hold the lock and close the door.  The lock alone
 * (_tarn_heap_lock_open ()) guards the table, the queues and their events.  It is not held during
 * calls of upstream. is_changing is set while a thread is in a call that changes the set of
 * pieces.  No other thread adds or removes pieces meanwhile. */
struct _TarnHeap
{
  TarnAllocator base;      /* first */
  TarnAllocator *upstream; /* a reference */
  const TarnHeapGrowth *growth;
  gsize alignment;         /* that extents have: a power of two */
  gsize limit_bytes;       /* 0: none */
  gboolean follows_pool;   /* also obeys the limit of the pool above */
  gboolean has_addresses;  /* users' memory is TarnMemory.address, which the heap computes; else
                              upstream makes a part of a piece for each extent */
  gboolean frees_in_order; /* pieces may be returned while commands use them */
  gsize growth_bytes;      /* the least size of a piece; 0: it depends on the heap's size */
  gint64 idle_time; /* after which idle pieces are returned, in microseconds; G_MAXINT64: never */

  /* Fields that read sections read, on their own cache lines, because others are written often. */
  TarnDoor door __attribute__ ((aligned (TARN_CACHE_LINES)));
  gboolean has_visitors; /* threads may use read sections: the door is open while no thread has the
                            lock */
  gsize event_bytes;     /* the bytes that must become idle before a thread looks after the queue */
  guint n_growths;       /* requests for which the ranges of their queue had no extent */
  gsize max_unchecked;   /* requests up to this size may use any free extent */
  gsize room_bytes; /* the bytes that it may take from upstream before a thread uses its queue's
                       other arenas */
  guint64 peak_in_visits
      TARN_WHOLE; /* atomic: the most bytes in use that a read section has seen; 0: none checked */

  TarnMutex lock
      __attribute__ ((aligned (TARN_CACHE_LINES))); /* its holder usually closes the door */
  TarnCond changed;                                 /* signalled when is_changing becomes FALSE */
  gboolean is_changing;
  guint n_waiting; /* threads that wait for changed; a broadcast costs a system call even if there
                      are none */
  TarnHeapQueue *nobody;       /* serves requests that name no queue */
  GHashTable *queues;          /* handle -> TarnHeapQueue */
  TarnHeapQueue *latest_queue; /* the queue that was named last; NULL: none */
  GQueue all_queues; /* all of these, nobody, and the forgotten ones; only the thread that has set
                        is_changing removes one */
  GQueue forgotten_queues; /* forgotten for the longest time first */
  GQueue arenas;           /* of TarnArena: the arenas of all queues */
  GSList *dead_queues;     /* structs to which pools may still have references, */
  GSList *dead_arenas;     /* and in which extents may be */
  guint64 last_number;     /* the latest number given to a queue */
  GHashTable *table;       /* memory -> TarnExtent in use */
  gsize n_unnamed;  /* extents in use that are not in the table: a read section took them, or they
                       are about to be added or freed */
  gsize lost_bytes; /* in extents in use that will never be freed */
  gsize lent_bytes; /* lent to other heaps: lend.c */
  gsize pool_limit; /* the pool's limit in bytes; 0: none */
  gsize
      full_bytes; /* upstream had less than this; G_MAXSIZE: it never ran out, or has more by now */
  gsize peak_lately; /* the most bytes in use since peak_at */
  gsize peak_before; /* the same for the period before that */
  gint64 peak_at;
  TarnHeapChurn churn;
  gboolean refuses_aliases; /* upstream failed to map a piece at a second address */
  gboolean is_short;        /* upstream ran out, and has not allocated much at once since */
  gboolean is_unready; /* upstream allocated memory for which the host could not wait; guarded by
                          is_changing */
  gint64 look_at;      /* the time of the next check for pieces that have been idle too long */
  guint64 next_start;  /* the start of the next piece, in a heap of parts */
  guint64 generation TARN_WHOLE; /* atomic: how often memory was unmapped or returned; incremented
                                    before that happens */
  TarnHeapStats stats;
};

/* Room for the free memory of each arena beyond the first: TARN_ARENA_ROOM, but in all at most the
 * peak of bytes in use divided by TARN_ARENA_ROOM_SHARE.  Without it, arenas that need little
 * memory take it from each other in turn. */
#define TARN_ARENA_ROOM ((gsize) 12 << 20)
#define TARN_ARENA_ROOM_SHARE 2

/* The arenas of a queue share their memory, so this many further ones count as one. */
#define TARN_FURTHER_ARENAS 4

/* Counts the arenas whose free memory may be of no use to the others. */
static inline guint
_tarn_heap_count_for_room (const TarnHeap *heap)
{
  guint n_queues = heap->all_queues.length;

  return n_queues + (heap->arenas.length - n_queues) / TARN_FURTHER_ARENAS;
}

/* Computes how many bytes a heap may have: its peak of bytes in use (also counting a request of
 * @size bytes), the peak divided by @share, and some room. */
static inline gsize
_tarn_heap_get_target (const TarnHeap *heap, gsize size, gsize share, gsize room)
{
  guint64 used = heap->stats.used_bytes;
  guint64 peak = MAX ((guint64) heap->stats.peak_used_bytes, used + size);
  guint64 n = _tarn_heap_count_for_room (heap); /* heap->nobody counts as one */
  guint64 of_arenas = n > 2 ? MIN ((n - 2) * TARN_ARENA_ROOM, peak / TARN_ARENA_ROOM_SHARE) : 0;
  guint64 more = peak / share + room + of_arenas + heap->churn.extra + heap->lent_bytes;

  return (gsize) MIN (peak + MIN (more, G_MAXUINT64 - peak), G_MAXSIZE);
}

/* A request for more than this share of the limit counts as much. */
#define TARN_MUCH_SHARE 512

/* take.c.  The lock is held.  All except the first two release it meanwhile. */
void _tarn_heap_put (TarnHeap *heap, TarnExtent *extent);
TarnExtent *_tarn_heap_take_own (TarnHeapQueue *queue, gsize size, gboolean takes_any);
TarnExtent *_tarn_heap_take (TarnHeapQueue *queue, gsize size, GError **error);
TarnExtent *_tarn_heap_take_aligned (TarnHeapQueue *queue, gsize size, gsize alignment,
                                     GError **error);

/* heap.c.  The lock is held. */
void _tarn_heap_remember (TarnExtent *extent, TarnMemory memory);

/* heap-door.c.  The lock is not held in the first three, */
void _tarn_heap_lock (TarnHeap *heap);
void _tarn_heap_lock_open (TarnHeap *heap);
gboolean _tarn_heap_trylock (TarnHeap *heap);
/* and is held in these. */
void _tarn_heap_close (TarnHeap *heap);
void _tarn_heap_unlock (TarnHeap *heap);
void _tarn_heap_wait (TarnHeap *heap);
void _tarn_arena_count (TarnArena *arena);
void _tarn_arena_count_unnamed (TarnArena *arena);
void _tarn_arena_drain (TarnArena *arena); /* or the arena's in a read section */

/* arena.c.  The lock is held. */
TarnExtent *_tarn_queue_take (TarnArena *arena, gsize size, gboolean takes_any);
gboolean _tarn_arena_note_wait (TarnArena *arena); /* or the arena's in a read section */
void _tarn_arena_relieve (TarnArena *arena);

/* extent.c.  The heap's lock is held, or the arena's lock in a read section. */
TarnExtent *_tarn_range_take_quickly (TarnHeapRange *range, gsize size);
void _tarn_range_put_quickly (TarnHeapRange *range, TarnExtent *extent);

/* lend.c */
void _tarn_heap_set_lending (const TarnAllocator *upstream, TarnAllocatorOps *ops);

/* spare.c.  The lock is held. */
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
                                    gsize size); /* safe without a lock */
const TarnExtent *_tarn_free_index_get_largest (const TarnFreeIndex *index);

/* heap-queue.c.  The lock is held.  Functions with a GError release it meanwhile, */
TarnHeapQueue *_tarn_heap_queue_new (TarnHeap *heap, gpointer handle);
void _tarn_queue_note_thread (TarnHeapQueue *queue);
void _tarn_queue_add_arenas (TarnHeapQueue *queue);
gboolean _tarn_queue_has_pieces (const TarnHeapQueue *queue);
TarnHeapQueue *_tarn_heap_find_queue (TarnHeap *heap, gpointer handle);
TarnHeapQueue *_tarn_heap_enter_queue (TarnHeap *heap, gpointer handle, GError **error);
void _tarn_heap_drop_queues (TarnHeap *heap); /* as does this one */
void _tarn_heap_free_queue (TarnHeap *heap, TarnHeapQueue *queue);

/* heap-event.c.  The lock is held.  All except the first release it meanwhile. */
gboolean _tarn_piece_is_quiet (const TarnPiece *piece);
gboolean _tarn_queue_record_last_event (TarnHeapQueue *queue, GError **error);
void _tarn_queue_drop_events (TarnHeapQueue *queue);
void _tarn_queue_record_if_idle (TarnHeapQueue *queue);
void _tarn_queue_ask (TarnHeapQueue *queue);
gboolean _tarn_queue_await (TarnHeapQueue *queue);
void _tarn_heap_poll_events (TarnHeap *heap);
gboolean _tarn_heap_await_idle (TarnHeap *heap);

/* churn.c.  The lock is held. */
void _tarn_heap_init_churn (TarnHeap *heap);
gboolean _tarn_heap_pay_for_moves (TarnHeap *heap, gsize missing, gsize target);
gsize _tarn_heap_get_room (const TarnHeap *heap);

/* alias.c.  The lock is held.  The last one releases it meanwhile. */
gboolean _tarn_piece_can_move_to (const TarnPiece *piece, const TarnHeapRange *range);
void _tarn_piece_add_alias (TarnPiece *piece, TarnHeapQueue *queue, TarnHeapRegion *region,
                            guint64 start);
void _tarn_queue_lose_aliases (TarnHeapQueue *queue);
void _tarn_heap_end_aliases (TarnHeap *heap);

/* extent.c.  The lock is held. */
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
gsize _tarn_heap_get_stranded_by_huge (const TarnHeap *heap);
gsize _tarn_arena_get_bytes (const TarnArena *arena);
guint _tarn_heap_count_idle (const TarnHeap *heap);

/* share-out.c.  The lock is held. */
void _tarn_arena_share_out (TarnArena *arena);

/* grow.c.  The lock is held, and released meanwhile, */
gboolean _tarn_heap_grow (TarnHeapRange *range, gsize size, TarnHeapAttempt *attempt,
                          GError **error);
gboolean _tarn_heap_await_more (TarnHeap *heap, const GError *error);
gsize _tarn_heap_trim (TarnHeap *heap, gsize keep_bytes);
void _tarn_heap_expire (TarnHeap *heap);
gboolean _tarn_heap_begin_change (TarnHeap *heap, gsize size, GError **error);
void _tarn_heap_end_change (TarnHeap *heap);
gsize _tarn_heap_get_limit (const TarnHeap *heap); /* but these two keep it */
/* and in those that only the ways to grow use */
gboolean _tarn_heap_has_room (const TarnHeap *heap, gsize size, GError **error);
gboolean _tarn_heap_has_run_out (const GError *error);
void _tarn_heap_note_peak (TarnHeap *heap);
TarnPiece *_tarn_piece_new (TarnMemory memory, gsize size);
gboolean _tarn_piece_can_go (const TarnPiece *piece);
gsize _tarn_heap_release_idle (TarnHeap *heap, TarnPiece *piece);

/* heap-stats.c.  The lock is held. */
void _tarn_heap_describe_free (const TarnHeap *heap, GError **error);

/* heap-describe.c.  The lock is held in the first two. */
void _tarn_heap_record_piece (const TarnPiece *piece);
void _tarn_heap_record_part (const TarnExtent *extent);
/* For these see TarnAllocatorClass. */
void _tarn_heap_freeze (TarnAllocator *heap);
void _tarn_heap_thaw (TarnAllocator *heap);
void _tarn_heap_tell (TarnAllocator *heap, TarnListener *listener);
void _tarn_heap_tell_counters (TarnAllocator *heap, TarnListener *listener);

/* heap-check.c.  The lock is held. */
gboolean _tarn_heap_check (TarnHeap *heap, gchar **violation);
void _tarn_heap_assert_valid (TarnHeap *heap);

/* Asserts that no other thread can use the arenas. */
static inline void
_tarn_heap_assert_closed (const TarnHeap *heap)
{
  _tarn_assert_locked (&heap->lock);
  g_assert (_tarn_door_is_closed (&heap->door));
}

/* Checks the invariants, in builds with --enable-debug=full.  Called after every operation, with
 * the lock held. */
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

/* Counts that memory which users may have had is about to be unmapped or returned.  The lock is
 * held, and no request can get that memory any more. */
static inline void
_tarn_heap_begin_generation (TarnHeap *heap)
{
  _tarn_assert_locked (&heap->lock);
  __atomic_store_n (&heap->generation, heap->generation + 1, __ATOMIC_RELEASE);
}

/* Gets the arena of a queue that the calling thread allocates from. */
static inline TarnArena *
_tarn_queue_get_arena (const TarnHeapQueue *queue)
{
  guint n = __atomic_load_n (&queue->n_arenas, __ATOMIC_ACQUIRE);

  return queue->arenas[TARN_LIKELY (n == 1) ? 0 : _tarn_current_thread->number % n];
}

/* Gets the range that serves a request. */
static inline TarnHeapRange *
_tarn_arena_get_range (TarnArena *arena, gsize size)
{
  const TarnHeapGrowth *growth = arena->heap->growth;
  TarnRangeKind kind = size <= growth->max_small ? TARN_RANGE_SMALL : TARN_RANGE_LARGE;

  if (TARN_UNLIKELY (growth->choose != NULL))
    kind = growth->choose (arena->heap, size);
  return &arena->ranges[kind];
}

/* A fresh piece is as large as all the memory of its arena.  If the heap has more than a few
 * arenas, it is a share of that, because the unused memory of all arenas adds up. */
#define TARN_FEW_ARENAS 4
#define TARN_SHARE_OF_ARENA 4

/* Gets the bytes by which an arena should grow, before any bound applies. */
static inline gsize
_tarn_arena_get_step (const TarnArena *arena)
{
  return _tarn_arena_get_bytes (arena)
         / (arena->heap->arenas.length > TARN_FEW_ARENAS ? TARN_SHARE_OF_ARENA : (gsize) 1);
}

/* Returns TRUE if even idle pieces have to stay where they are for now. */
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

/* Iterates over the arenas of a heap. */
#define TARN_FOR_EACH_ARENA(arena, heap)                                                           \
  for (TarnArena *arena = _tarn_arena_at ((heap)->arenas.head); arena != NULL;                     \
       arena = _tarn_arena_at (arena->link.next))

/* Iterates over the idle pieces of all arenas, in each arena those that have been idle for the
 * longest time first.  The loop may cut out @piece, because @next is already known. */
#define TARN_FOR_EACH_IDLE(piece, next, heap)                                                      \
  for (TarnPiece *piece = _tarn_heap_next_idle (heap, NULL),                                       \
                 *next = piece != NULL ? _tarn_heap_next_idle (heap, piece) : NULL;                \
       piece != NULL;                                                                              \
       piece = next, next = piece != NULL ? _tarn_heap_next_idle (heap, piece) : NULL)

/* Gets an extent's address.  The result is meaningless in a heap whose memory is not addresses. */
static inline guint64
_tarn_extent_get_address (const TarnExtent *extent)
{
  const TarnPiece *piece = extent->piece;

  return piece->region != NULL ? extent->start
                               : piece->memory.address + (extent->start - piece->start);
}

#endif
