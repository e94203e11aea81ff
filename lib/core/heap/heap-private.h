/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A heap allocates large segments of memory (TarnPiece, called pieces here) from another allocator,
 * called upstream, and divides them into extents, each of which is in use or free.
 *
 *     heap.c          the heap's allocator functions: requests and frees
 *     take.c          gets extents for requests, with the heap's lock
 *     arena.c         gets extents for requests without the heap's lock, if that is possible
 *     heap-door.c     the lock, and the door, which keeps out threads without the lock
 *     share-out.c     moves pieces between the arenas of a queue
 *     extent.c        splits and merges extents; tracks which pieces are idle
 *     free-index.c    finds free extents by size
 *     heap-queue.c    the queues for which the heap has ranges
 *     heap-event.c    events that tell when no command uses an idle piece any more
 *     grow.c          gets pieces from upstream, and returns them
 *     grow-virtual.c  pieces of virtual memory, which can move to other addresses
 *     churn.c         bounds how often pieces move
 *     alias.c         mappings of moved pieces at old addresses that commands may still use
 *     grow-parts.c    pieces of memory that cannot move
 *     spare.c         bounds the free memory in pieces that cannot move, near the heap's limit
 *     heap-stats.c    the heap's counters
 *     heap-describe.c describes a heap to recordings and snapshots
 *     heap-check.c    checks the invariants
 *
 * A range is a set of pieces that serve requests of similar size.  Small requests have a range of
 * their own, so that their extents do not lie between large ones.  Each range is best fit: it
 * serves a request from the smallest free extent that is large enough (if several have that size,
 * from the one at the lowest address), and splits off the rest.
 *
 * The heap maps pieces of virtual memory at adjacent addresses, so an extent can span several
 * pieces.  A piece without an extent in use is idle: it can move to the end of a range that needs
 * memory, and then leaves a gap at its old address.  So a heap seldom has more memory than was in
 * use at its peak, plus the free extents of pieces that are in use, because these cannot move.
 *
 * A piece can move within its queue while the queue's commands still use the piece.  It then also
 * stays mapped at its old address, until an event shows that these commands are done: alias.c.
 *
 * The heap has separate ranges for each in-order queue that requests name.  A set of such ranges is
 * an arena; a queue has one arena, or several if threads that use the queue wait for each other.
 * Commands on the queue may still use its free extents.  So a thread can free memory without a wait
 * if only the memory's own queue used it, and only that queue can reuse the memory at once.
 * Another queue, and upstream, get only pieces that are quiet: idle pieces for which an event that
 * was recorded after they became idle is done.  If memory has run out, the host waits for that
 * event. */

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
 * Invariants: size > 0.  The size is a multiple of the heap's alignment, or of the largest power of
 * two that divides the address of the extent's piece if that power is less.  Only the size of an
 * extent that ends at its piece's end need not be such a multiple.  No two neighbours are both
 * free. */
struct _TarnExtent
{
  union /* the first field, because TarnHeap.table hashes an extent by its memory */
  {
    TarnMemory memory; /* the user's memory, if the extent is in use */
    TarnExtent *less;  /* the left child in a treap of free extents, if the extent is free */
    TarnExtent *next;  /* the next extent in TarnArena.left_extents or TarnArena.spare */
  };
  guint64 start;    /* the address of the first byte; or, if pieces cannot move (grow-parts.c), a
                       number that the heap assigns instead of an address */
  gsize size;       /* in bytes */
  TarnPiece *piece; /* the piece that has the extent's first byte */
  TarnExtent *before, *after; /* the extents at adjacent addresses; NULL: there is none */
  guint8 is_free;
  guint8 has_memory;   /* TRUE: the extent is in use, and the field memory is set */
  guint32 priority;    /* the struct's priority in treaps: pseudo-random, constant */
  TarnExtent *greater; /* the right child in a treap of free extents, if the extent is free */
} __attribute__ ((aligned (TARN_CACHE_LINE)));

/* The number of structs in a TarnExtentSlab. */
#define TARN_SLAB_EXTENTS 63

/* TarnExtent structs that an arena allocates from the host's memory in one call. */
typedef struct _TarnExtentSlab TarnExtentSlab;
struct _TarnExtentSlab
{
  TarnExtentSlab *next;
  TarnExtent extents[TARN_SLAB_EXTENTS];
};

/* A segment: memory that upstream allocated in one call.
 *
 * Invariants: n_used is the number of extents in use that have bytes in the piece.  If n_used is 0,
 * the piece is idle, and in its arena's list of idle pieces. */
struct _TarnPiece
{
  guint64 start;             /* the address of the first byte, or a number: TarnExtent.start */
  gsize size;                /* in bytes */
  TarnMemory memory;         /* the memory from upstream; if virtual, the physical memory */
  TarnHeapRange *range;      /* the range that has the piece */
  TarnHeapRegion *region;    /* the region that has the piece; NULL: the memory is not virtual */
  TarnPiece *before, *after; /* the pieces at adjacent addresses; NULL: there is none */
  TarnExtent *extent;        /* the extent that has the piece's first byte */
  guint n_used;
  gboolean was_used;  /* TRUE: an extent of the piece has been in use at some time */
  guint n_aliases;    /* the number of old addresses at which the piece is still mapped */
  guint64 idle_since; /* if the piece is idle: the value that TarnHeapQueue.n_begun had when the
                         piece became idle */
  gint64 idle_at;  /* if the piece is idle: the time when it became idle; 0: no thread has set the
                      time yet */
  GList link;      /* the link in TarnHeapRange.pieces */
  GList idle_link; /* the link in TarnArena.idle, if the piece is idle */
};

/* A mapping of a piece at an address from which the piece has moved away.  Commands of the piece's
 * queue may use that old address until an event is done whose recording began after the move. */
typedef struct
{
  TarnPiece *piece;
  TarnHeapRegion *region; /* the region that has the old address */
  guint64 start;          /* the old address */
  guint64 moved_at;       /* TarnHeapQueue.n_begun when the piece moved */
} TarnAlias;

/* Contiguous addresses of virtual memory that the heap has reserved.  One TarnHeapRange adds pieces
 * at the address in the field end.  The addresses from end on were never used, or the heap has
 * removed the pieces that were mapped there.
 *
 * Invariants: no piece is beyond end; last_piece and last_extent end at end. */
struct _TarnHeapRegion
{
  /* The range that adds pieces to the region, or did so before it got a newer region; constant.
   * Other ranges of the same queue may have pieces in the region, but last_piece always belongs to
   * this range.  In a read section, the lock of this range's arena guards last_piece and
   * last_extent, so a thread with the lock of another arena must not read these two fields. */
  TarnHeapRange *range;
  TarnMemory addresses; /* the first address */
  gsize size;           /* in bytes */
  guint64 end;
  guint n_pieces;    /* the number of pieces and aliases in the region */
  gboolean has_lost; /* TRUE: a piece stays mapped here for ever, so the heap must not release the
                        addresses */
  TarnPiece *last_piece;   /* the piece that ends at end; NULL: there is none */
  TarnExtent *last_extent; /* the extent that ends at end; NULL: there is none */
};

/* The kinds of ranges, by the size of the requests that they serve. */
typedef enum
{
  TARN_RANGE_SMALL,
  TARN_RANGE_LARGE,
  TARN_RANGE_HUGE, /* has pieces only if pieces cannot move (grow-parts.c) */
  TARN_N_RANGES
} TarnRangeKind;

/* An upper bound on the number of size classes of free extents, whose sizes have 64 bits. */
#define TARN_FREE_CLASSES 896

/* Sizes below 512 << TARN_SUB_BITS bytes have one size class for each multiple of 512 bytes.
 * Larger sizes have 1 << TARN_SUB_BITS classes between each power of two and the next. */
#define TARN_SUB_BITS 4

/* Gets the size class of a size in bytes.  A larger size never has a lower class. */
static inline guint
_tarn_free_index_get_class (gsize size)
{
  guint64 units = size >> 9;
  guint exponent = 63 - (guint) __builtin_clzll (units | 1 << TARN_SUB_BITS);

  return ((exponent - TARN_SUB_BITS) << TARN_SUB_BITS)
         + (guint) (units >> (exponent - TARN_SUB_BITS));
}

/* An index of the free extents of a range by size: free-index.c.  Each size class has a treap.
 *
 * Invariants: bit c % 64 of bits[c / 64] is set if and only if roots[c] is not NULL.  Bit i of
 * words is set if and only if bits[i] is not 0. */
typedef struct
{
  guint64 words;
  guint64 bits[TARN_FREE_CLASSES / 64];
  TarnExtent *roots[TARN_FREE_CLASSES]; /* the root of each class's treap; NULL: no extent */
} TarnFreeIndex;

/* A set of pieces that serve the small, large or huge requests of one arena. */
struct _TarnHeapRange
{
  TarnHeap *heap;
  TarnArena *arena;
  TarnRangeKind kind;
  gsize used_bytes;       /* the sum of the sizes of the range's extents in use */
  TarnFreeIndex free;     /* all free extents of the range */
  GQueue pieces;          /* all pieces of the range, linked by TarnPiece.link */
  gsize bytes;            /* the sum of the sizes of all these pieces */
  gsize idle_bytes;       /* the sum of the sizes of the idle pieces */
  TarnHeapRegion *region; /* the region where the range adds pieces; NULL: the memory is not
                             virtual, or the range has never had a piece */
  GList *old_regions;     /* the regions where the range added pieces earlier; they may still have
                             pieces */
};

/* An event that the heap recorded on a queue.  The event is done when all commands are done that
 * the queue got before the event. */
typedef struct
{
  gpointer handle; /* the backend's event */
  guint64 number;  /* the value of TarnHeapQueue.n_begun before the heap recorded the event; or
                      G_MAXUINT64 - 1 for a forgotten queue's last event */
  guint n_refs;    /* the number of references: the queue has one while the event is in
                      TarnHeapQueue.events, and so has each call that waits for the event or asks
                      whether it is done */
} TarnHeapEvent;

/* A set of ranges from which threads allocate without the heap's lock: arena-private.h.
 *
 * A queue has one arena at first.  If threads that use the queue wait for each other, the queue
 * gets several arenas, and each thread allocates from its own arena as long as that has an extent
 * that fits.  Any request that names the queue can reuse the free extents of all the queue's arenas
 * at once, because the queue executes its commands in order.
 *
 * Invariants: n_used is the number of extents in use in the arena's pieces. */
struct _TarnArena
{
  /* These two fields keep their values when the heap reuses the struct for another queue. */
  TarnExtentSlab *slabs; /* the slabs that the arena has allocated */
  TarnExtent *spare;     /* unused TarnExtent structs, linked by TarnExtent.next */

  TarnHeapQueue *queue; /* constant */
  TarnHeap *heap;       /* constant */

  gboolean is_taken;     /* atomic: the arena's lock; TRUE: a thread holds it */
  gsize uncounted_bytes; /* atomic: the change of the arena's bytes in use since TarnHeap.stats last
                            counted them, modulo 2^64 */
  gssize noted_bytes; /* if uncounted_bytes exceeds this, a thread computes the heap's peak again */
  gsize n_unnamed; /* the change of the arena's extents that are in use but not in the heap's table,
                      since TarnHeap.n_unnamed last counted them, modulo 2^64 */
  TarnExtent *left_extents; /* atomic: extents that the next holder of the arena's lock frees,
                               linked by TarnExtent.next */
  GQueue idle;              /* the idle pieces, linked by TarnPiece.idle_link; longest idle first */
  gsize unrecorded_bytes;   /* the bytes of pieces that became idle since a request of this arena
                               last asked for an event */
  guint n_taken;            /* the number of extents taken since a request of this arena last asked
                               for an event */
  guint seen_growths;  /* the value that TarnHeap.n_growths had when a request of this arena last
                          asked for an event, or a thread last called _tarn_heap_look_after () */
  guint n_takes;       /* the number of requests that threads made in read sections */
  guint n_waits;       /* the number of recent requests that waited for the arena's lock */
  gboolean is_crowded; /* TRUE: so many requests waited that the queue needs more arenas */
  guint n_poor;        /* the number of recent requests for which the arena had no extent */
  guint poor_since;    /* the value of n_takes when the count n_poor began */
  guint n_shared;      /* how often the arena got pieces of the queue's other arenas */
  guint helper; /* atomic: the index of the arena that last served a request for which this arena
                   had no extent */
  TarnHeapRange ranges[TARN_N_RANGES];
  gsize n_used;
  gsize n_pieces; /* the number of pieces in all ranges */
  GList link;     /* the link in TarnHeap.arenas */
} __attribute__ ((aligned (TARN_CACHE_LINES)));

/* The most arenas of a queue. */
#define TARN_QUEUE_ARENAS 16

/* A queue of the backend and its arenas.  The struct TarnHeap.nobody serves requests that
 * name no queue; no command uses the free memory in that struct's arenas.
 *
 * When the program tells the heap to forget a queue, the heap records a last event on the queue and
 * keeps the queue's arenas, until a new queue takes over the arenas or they have no piece left.
 *
 * Invariants: a piece that became idle when n_begun was n is quiet if n < n_done and the piece has
 * no alias.  n_done <= n_begun if handle is not NULL.  n_done of TarnHeap.nobody is G_MAXUINT64,
 * and so is n_done of a forgotten queue after its last event is done. */
struct _TarnHeapQueue
{
  /* Atomic: a number that no other queue of the heap has or had; 0 if handle is NULL, or while a
   * call is forgetting the queue.  Threads may read this field at any time: the heap reuses a
   * TarnHeapQueue struct for another queue, but frees the struct only when the heap itself ends. */
  guint64 number;

  TarnHeap *heap;
  gpointer handle; /* the backend's queue, to which the heap has a reference; NULL: the heap has
                      forgotten the queue, or this is TarnHeap.nobody */
  gpointer left;   /* the handle that a forgotten queue had; the heap releases its reference to the
   backend's queue when the last event is done and no call uses the queue */

  /* These fields change only while the heap's door is closed. */
  TarnArena *arenas[TARN_QUEUE_ARENAS];
  guint n_arenas;            /* atomic: the number of arenas, at least 1 */
  gboolean has_shared_arena; /* TRUE: two of the threads that use the queue use the same arena */
  guint64 threads;           /* the threads that use the queue: thread n sets bit n % 64 */

  /* The number of calls that use the queue.  Such a call may release the heap's lock, so the heap
   * does not free a queue that a call uses.  The field begins a new cache line, because threads in
   * read sections often read the fields above. */
  guint n_calls __attribute__ ((aligned (TARN_CACHE_LINES)));
  guint n_forgetting;    /* the number of calls that are forgetting the queue */
  guint64 former_number; /* the queue's number, saved while calls that forget the queue have set the
                            field number to 0 */
  guint64 n_begun;       /* the number of the queue's next event; grows by 1 when the heap begins to
                            record an event; changes only while the door is closed */
  guint64 n_done;        /* the number of the latest event that is known to be done, plus 1 */
  gboolean has_unrecorded; /* atomic; TRUE: a piece became idle or moved since the heap last began
                              to record an event */
  guint n_passed; /* the number of calls that named the queue while has_unrecorded was TRUE; one in
                     several such calls may record an event; only _tarn_heap_look_after () sets it
                     to 0 */
  GQueue events;  /* the TarnHeapEvents that are not known to be done, oldest first */
  GQueue aliases; /* the TarnAlias structs of the queue's pieces, by the field moved_at */

  GList link;           /* the link in TarnHeap.all_queues */
  GList forgotten_link; /* the link in TarnHeap.forgotten_queues, if the queue is forgotten */
};

/* Says whether the heap moves idle pieces for a request, or allocates fresh ones.  churn.c decides
 * this once for each request. */
typedef enum
{
  TARN_MOVES_UNDECIDED,
  TARN_MOVES_PIECES,
  TARN_MOVES_NONE
} TarnHeapMoves;

/* The state of a request for which the heap grows, possibly by several pieces in turn. */
typedef struct
{
  TarnHeapMoves moves;
  gboolean has_probed; /* TRUE: a test allocation showed that upstream has all missing bytes */
} TarnHeapAttempt;

/* The budgets of churn.c, which grow as time passes and as the heap's peak rises, and the extra
 * memory that the heap may have if a budget is spent. */
typedef struct
{
  guint n_moves;   /* the number of requests that may still move pieces */
  guint n_flushes; /* the number of requests that may still make pools flush thread caches */
  gint64 at;       /* the time up to which both budgets have grown */
  guint64 peak;    /* the peak of bytes in use up to which both budgets have grown */
  guint64 extra;   /* the bytes by which the heap's room has grown (room: churn.c) */
  guint n_beyond;  /* the number of requests that needed more room than the room's bound */
} TarnHeapChurn;

/* The functions and constants of one way to get memory from upstream.  There are two ways:
 * grow-virtual.c for virtual memory, and grow-parts.c for memory that cannot move. */
typedef struct
{
  gsize max_small; /* the size of the largest request that the small range serves, in bytes */
  gsize max_held;  /* the size of the largest block that a pool over the heap may cache, in bytes */
  /* Chooses the range for a request.  NULL: max_small alone decides. */
  TarnRangeKind (*choose) (const TarnHeap *heap, gsize size);
  /* Gets the size of the largest request whose piece also serves other requests.  NULL: there is no
   * bound. */
  gsize (*get_max_shared) (const TarnHeap *heap);
  /* Computes the most bytes that the heap should have while it serves a request.  A heap that has
   * that many bytes uses idle pieces instead of fresh memory. */
  gsize (*get_target) (const TarnHeap *heap, gsize size);
  /* Adds a piece to a range that has no free extent for a request.  Returns TRUE if the caller
   * should search the range again.  The caller holds the heap's lock; the function releases it
   * during driver calls. */
  gboolean (*grow) (TarnHeapRange *range, gsize size, TarnHeapAttempt *attempt, GError **error);
  /* Returns TRUE if a request should use @extent, which is free and large enough.  If not, the heap
   * searches elsewhere or grows.  NULL: any such extent suits. */
  gboolean (*suits) (const TarnHeapRange *range, const TarnExtent *extent, gsize size);
  /* Returns a piece, which the caller has removed from its range, to upstream.  The caller does not
   * hold the heap's lock. */
  void (*release) (TarnHeap *heap, TarnPiece *piece);
  /* Releases the addresses that a range does not need any more after the heap has removed pieces.
   * The caller holds the heap's lock; the function releases it during driver calls. */
  void (*tidy) (TarnHeapRange *range);
  /* Releases all addresses of a range.  The range's queue must have no piece, and the caller has
   * removed the queue's arenas from TarnHeap.arenas.  The caller does not hold the heap's lock. */
  void (*clear) (TarnHeapRange *range);
} TarnHeapGrowth;

extern const TarnHeapGrowth _tarn_heap_virtual_growth __attribute__ ((visibility ("hidden")));
extern const TarnHeapGrowth _tarn_heap_parts_growth __attribute__ ((visibility ("hidden")));

/* A heap.  These invariants hold whenever a thread can take the lock; _tarn_heap_check () checks
 * them, and those of extents, pieces, regions, arenas and queues (stats is the field):
 *
 *     stats.upstream_bytes == used_bytes + free_bytes + lent_bytes, plus, while is_changing is set,
 *                             bytes on their way to or from upstream
 *     stats.used_bytes     == sum of size over extents in use
 *     stats.free_bytes     == sum of size over free extents
 *     stats.pieces         == number of pieces
 *     the field table has all extents in use except n_unnamed of them, and nothing else
 *
 * The lock guards all fields that are not constant.  To change the arenas, or anything else that
 * read sections use, a thread must hold the lock and close the door; or, in a read section, hold
 * the arena's lock.  To change the table, the queues and their events, a thread must hold the lock,
 * but may leave the door open: _tarn_heap_lock_open ().  No thread holds the lock while it calls a
 * function of upstream, except backing_stays ().  A thread that adds or removes pieces sets
 * is_changing before and clears it after that; no other thread adds or removes pieces meanwhile. */
struct _TarnHeap
{
  TarnAllocator base;      /* the first field, so that the heap can be cast to an allocator */
  TarnAllocator *upstream; /* the allocator of the pieces, to which the heap has a reference */
  const TarnHeapGrowth *growth;
  gsize alignment;   /* the alignment of extents' sizes and addresses in bytes: a power of two */
  gsize limit_bytes; /* the limit that the program set for the heap; 0: none */
  gboolean follows_pool;   /* TRUE: pool_limit bounds the heap as well */
  gboolean has_addresses;  /* TRUE: a user's memory is an address, which the heap computes; FALSE:
                              the driver makes a sub-buffer of a piece for each extent in use */
  gboolean frees_in_order; /* TRUE: the heap may return pieces while commands still use them */
  gsize growth_bytes;      /* the least size of a piece in bytes; 0: the heap chooses it */
  gint64 idle_time;        /* the time for which the heap keeps an idle piece, in microseconds;
                              G_MAXINT64: for ever */

  /* Threads in read sections read the fields from door to peak_in_visits.  These fields have their
   * own cache lines, because threads often write other fields of the heap. */
  TarnDoor door __attribute__ ((aligned (TARN_CACHE_LINES)));
  gboolean has_visitors; /* TRUE: threads use read sections, so a thread that releases the lock
                            opens the door */
  gsize event_bytes;     /* the bytes of an arena that must become idle before a thread in a read
                            section asks for an event */
  guint n_growths; /* the number of times that the heap began to grow, because a request found no
                      extent */
  gsize max_unchecked; /* the size of the largest request that may use any free extent */
  gsize room_bytes;    /* the bytes that the heap may still allocate from upstream before a request
                          uses the free memory of its queue's other arenas */
  guint64 peak_in_visits
      TARN_WHOLE; /* atomic: the most bytes in use that threads in read sections have computed since
                     the door was last closed; 0: no thread has computed them */

  TarnMutex lock
      __attribute__ ((aligned (TARN_CACHE_LINES))); /* the holder usually closes the door too */
  TarnCond changed;                                 /* signalled when is_changing becomes FALSE */
  gboolean is_changing; /* TRUE: a call that changes the set of pieces is in progress */
  guint n_waiting; /* the number of threads that wait for changed; if 0, the heap saves the system
                      call of a broadcast */
  TarnHeapQueue *nobody;       /* the TarnHeapQueue for requests that name no queue */
  GHashTable *queues;          /* maps TarnHeapQueue.handle to the TarnHeapQueue */
  TarnHeapQueue *latest_queue; /* the queue that a call looked up last; NULL: none, or it was
                                  forgotten or freed */
  GQueue all_queues; /* all queues, with the forgotten ones and nobody; only the thread that has set
                        is_changing removes a queue */
  GQueue forgotten_queues; /* the forgotten queues, in the order in which the heap next asks whether
                              their last events are done */
  GQueue arenas;           /* the arenas of all queues, linked by TarnArena.link */
  GSList *dead_queues; /* unused TarnHeapQueue structs; the heap must not free them, because pools
                          may still have references (TarnArenaRef) to them */
  GSList *dead_arenas; /* unused TarnArena structs; the heap must not free them, because other
                          arenas may use structs from their slabs */
  guint64 last_number; /* the TarnHeapQueue.number that the heap gave to a queue last */
  GHashTable *table;   /* the set of TarnExtents in use, hashed by TarnExtent.memory */
  gsize n_unnamed;  /* the number of extents in use that are not in the table: a thread took them in
                       a read section, or is about to add them to the table or to free them */
  gsize lost_bytes; /* the bytes of extents in use that the program will never free */
  gsize lent_bytes; /* the bytes that the heap has lent to other heaps: lend.c */
  gsize pool_limit; /* the limit of the pool over the heap, in bytes; 0: none */
  gsize
      full_bytes; /* total in bytes that the heap failed to get from upstream; G_MAXSIZE: not set */
  gsize peak_lately; /* the most bytes in use since the time peak_at */
  gsize peak_before; /* the most bytes in use in the period before peak_at */
  gint64 peak_at;    /* the time when the present period of peak_lately began: spare.c */
  TarnHeapChurn churn;
  gboolean refuses_aliases; /* TRUE: upstream failed to map a piece at a second address */
  gboolean is_short;   /* TRUE: upstream ran out of memory when the heap last grew; if memory is
                          virtual, stays TRUE until a test allocation succeeds */
  gboolean is_unready; /* TRUE: upstream allocated memory, but the host failed to wait until the
                          memory was ready; used only by the thread that set is_changing */
  gint64 look_at;      /* the time of the next check for pieces that have been idle for idle_time */
  guint64 next_start;  /* the TarnPiece.start of the next piece, if pieces cannot move */
  guint64 generation TARN_WHOLE; /* atomic: the number of times that the heap began to unmap memory
                                    or to return memory to upstream */
  TarnHeapStats stats;
};

/* A heap may have TARN_ARENA_ROOM more bytes for each arena beyond the first one, not counting an
 * arena of heap->nobody.  These bytes are in all at most its peak of bytes in use divided by
 * TARN_ARENA_ROOM_SHARE.  Without them, arenas that need little memory would take it from each
 * other again and again. */
#define TARN_ARENA_ROOM ((gsize) 12 << 20)
#define TARN_ARENA_ROOM_SHARE 2

/* When the heap computes how much memory it may have, this number of arenas count as one arena.
 * The first arena of each queue counts in full.  The others count less because the arenas of a
 * queue can use each other's memory. */
#define TARN_FURTHER_ARENAS 4

/* Computes the number of arenas for which the heap may have more memory: one for each queue, and
 * one for each TARN_FURTHER_ARENAS other arenas. */
static inline guint
_tarn_heap_count_for_room (const TarnHeap *heap)
{
  guint n_queues = heap->all_queues.length;

  return n_queues + (heap->arenas.length - n_queues) / TARN_FURTHER_ARENAS;
}

/* Computes the most bytes that a heap should have: the sum of its peak of bytes in use (which
 * includes a new request of @size bytes), the peak divided by @share, @room bytes, the bytes for
 * its arenas, the extra bytes of churn.c, and the bytes lent to other heaps. */
static inline gsize
_tarn_heap_get_target (const TarnHeap *heap, gsize size, gsize share, gsize room)
{
  guint64 used = heap->stats.used_bytes;
  guint64 peak = MAX ((guint64) heap->stats.peak_used_bytes, used + size);
  guint64 n = _tarn_heap_count_for_room (heap); /* one of these is heap->nobody's */
  guint64 of_arenas = n > 2 ? MIN ((n - 2) * TARN_ARENA_ROOM, peak / TARN_ARENA_ROOM_SHARE) : 0;
  guint64 more = peak / share + room + of_arenas + heap->churn.extra + heap->lent_bytes;

  return (gsize) MIN (peak + MIN (more, G_MAXUINT64 - peak), G_MAXSIZE);
}

/* A request for more bytes than the heap's limit divided by TARN_MUCH_SHARE is a request for much
 * of the limit: spare.c. */
#define TARN_MUCH_SHARE 512

/* take.c.  The caller holds the heap's lock.  _tarn_heap_take () and _tarn_heap_take_aligned ()
 * release it during driver calls and waits. */
void _tarn_heap_put (TarnHeap *heap, TarnExtent *extent);
TarnExtent *_tarn_heap_take_own (TarnHeapQueue *queue, gsize size, gboolean takes_any);
TarnExtent *_tarn_heap_take (TarnHeapQueue *queue, gsize size, GError **error);
TarnExtent *_tarn_heap_take_aligned (TarnHeapQueue *queue, gsize size, gsize alignment,
                                     GError **error);

/* heap.c.  The caller holds the heap's lock. */
void _tarn_heap_remember (TarnExtent *extent, TarnMemory memory);

/* heap-door.c.  The caller of the first three functions does not hold the heap's lock. */
void _tarn_heap_lock (TarnHeap *heap);
void _tarn_heap_lock_open (TarnHeap *heap);
gboolean _tarn_heap_trylock (TarnHeap *heap);
/* The caller of the next five functions holds the heap's lock. */
void _tarn_heap_close (TarnHeap *heap);
void _tarn_heap_unlock (TarnHeap *heap);
void _tarn_heap_wait (TarnHeap *heap);
void _tarn_arena_count (TarnArena *arena);
void _tarn_arena_count_unnamed (TarnArena *arena);
/* The caller of this function holds the heap's lock; or, in a read section, the arena's lock. */
void _tarn_arena_drain (TarnArena *arena);

/* arena.c.  The caller holds the heap's lock. */
TarnExtent *_tarn_queue_take (TarnArena *arena, gsize size, gboolean takes_any);
gboolean _tarn_arena_note_wait (TarnArena *arena); /* or, in a read section, the arena's lock */
void _tarn_arena_relieve (TarnArena *arena);

/* extent.c.  The caller holds the heap's lock and has closed the door; or, in a read section, the
 * caller holds the arena's lock. */
TarnExtent *_tarn_range_take_quickly (TarnHeapRange *range, gsize size);
void _tarn_range_put_quickly (TarnHeapRange *range, TarnExtent *extent);

/* lend.c */
void _tarn_heap_set_lending (const TarnAllocator *upstream, TarnAllocatorOps *ops);

/* spare.c.  The caller holds the heap's lock. */
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
                                    gsize size); /* the caller needs no lock */
const TarnExtent *_tarn_free_index_get_largest (const TarnFreeIndex *index);

/* heap-queue.c.  The caller holds the heap's lock.  The functions that enter, drop or free queues
 * release it during driver calls. */
TarnHeapQueue *_tarn_heap_queue_new (TarnHeap *heap, gpointer handle);
void _tarn_queue_note_thread (TarnHeapQueue *queue);
void _tarn_queue_add_arenas (TarnHeapQueue *queue);
gboolean _tarn_queue_has_pieces (const TarnHeapQueue *queue);
TarnHeapQueue *_tarn_heap_find_queue (TarnHeap *heap, gpointer handle);
TarnHeapQueue *_tarn_heap_enter_queue (TarnHeap *heap, gpointer handle, GError **error);
void _tarn_heap_drop_queues (TarnHeap *heap);
void _tarn_heap_free_queue (TarnHeap *heap, TarnHeapQueue *queue);

/* heap-event.c.  The caller holds the heap's lock.  All functions except the first release it
 * during driver calls. */
gboolean _tarn_piece_is_quiet (const TarnPiece *piece);
gboolean _tarn_queue_record_last_event (TarnHeapQueue *queue, GError **error);
void _tarn_queue_drop_events (TarnHeapQueue *queue);
void _tarn_queue_record_if_idle (TarnHeapQueue *queue);
void _tarn_queue_ask (TarnHeapQueue *queue);
gboolean _tarn_queue_await (TarnHeapQueue *queue);
void _tarn_heap_poll_events (TarnHeap *heap);
gboolean _tarn_heap_await_idle (TarnHeap *heap);

/* churn.c.  The caller of the last two functions holds the heap's lock. */
void _tarn_heap_init_churn (TarnHeap *heap);
gboolean _tarn_heap_pay_for_moves (TarnHeap *heap, gsize missing, gsize target);
gsize _tarn_heap_get_room (const TarnHeap *heap);

/* alias.c.  The caller holds the heap's lock.  _tarn_heap_end_aliases () releases it during driver
 * calls. */
gboolean _tarn_piece_can_move_to (const TarnPiece *piece, const TarnHeapRange *range);
void _tarn_piece_add_alias (TarnPiece *piece, TarnHeapQueue *queue, TarnHeapRegion *region,
                            guint64 start);
void _tarn_queue_lose_aliases (TarnHeapQueue *queue);
void _tarn_heap_end_aliases (TarnHeap *heap);

/* extent.c.  The caller holds the heap's lock and has closed the door. */
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

/* share-out.c.  The caller holds the heap's lock and has closed the door. */
void _tarn_arena_share_out (TarnArena *arena);

/* grow.c.  The caller holds the heap's lock, and the first six functions release it during driver
 * calls and waits. */
gboolean _tarn_heap_grow (TarnHeapRange *range, gsize size, TarnHeapAttempt *attempt,
                          GError **error);
gboolean _tarn_heap_await_more (TarnHeap *heap, const GError *error);
gsize _tarn_heap_trim (TarnHeap *heap, gsize keep_bytes);
void _tarn_heap_expire (TarnHeap *heap);
gboolean _tarn_heap_begin_change (TarnHeap *heap, gsize size, GError **error);
void _tarn_heap_end_change (TarnHeap *heap);
/* The caller of the next seven functions holds the heap's lock.  Only _tarn_heap_release_idle ()
 * releases the lock, during driver calls. */
gsize _tarn_heap_get_limit (const TarnHeap *heap);
gboolean _tarn_heap_has_room (const TarnHeap *heap, gsize size, GError **error);
gboolean _tarn_heap_has_run_out (const GError *error);
void _tarn_heap_note_peak (TarnHeap *heap);
TarnPiece *_tarn_piece_new (TarnMemory memory, gsize size);
gboolean _tarn_piece_can_go (const TarnPiece *piece);
gsize _tarn_heap_release_idle (TarnHeap *heap, TarnPiece *piece);

/* heap-stats.c.  The caller holds the heap's lock. */
void _tarn_heap_describe_free (const TarnHeap *heap, GError **error);

/* heap-describe.c.  The caller of the first two functions holds the heap's lock. */
void _tarn_heap_record_piece (const TarnPiece *piece);
void _tarn_heap_record_part (const TarnExtent *extent);
/* The next four functions are callbacks: see TarnAllocatorClass. */
void _tarn_heap_freeze (TarnAllocator *heap);
void _tarn_heap_thaw (TarnAllocator *heap);
void _tarn_heap_tell (TarnAllocator *heap, TarnListener *listener);
void _tarn_heap_tell_counters (TarnAllocator *heap, TarnListener *listener);

/* heap-check.c.  The caller holds the heap's lock and has closed the door. */
gboolean _tarn_heap_check (TarnHeap *heap, gchar **violation);
void _tarn_heap_assert_valid (TarnHeap *heap);

/* Asserts that the caller holds the heap's lock and that the door is closed, so that no other
 * thread can use the arenas. */
static inline void
_tarn_heap_assert_closed (const TarnHeap *heap)
{
  _tarn_assert_locked (&heap->lock);
  g_assert (_tarn_door_is_closed (&heap->door));
}

/* Checks the invariants of a heap in builds with --enable-debug=full.  The heap's functions call
 * this at the end of each operation, with the heap's lock. */
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

/* Increments the heap's generation.  The caller holds the heap's lock, and calls this before it
 * unmaps memory that users may have had, or returns such memory to upstream.  No request may get
 * that memory any more. */
static inline void
_tarn_heap_begin_generation (TarnHeap *heap)
{
  _tarn_assert_locked (&heap->lock);
  __atomic_store_n (&heap->generation, heap->generation + 1, __ATOMIC_RELEASE);
}

/* Gets the calling thread's arena of a queue.  The arena depends on the thread's number. */
static inline TarnArena *
_tarn_queue_get_arena (const TarnHeapQueue *queue)
{
  guint n = __atomic_load_n (&queue->n_arenas, __ATOMIC_ACQUIRE);

  return queue->arenas[TARN_LIKELY (n == 1) ? 0 : _tarn_current_thread->number % n];
}

/* Gets the range of an arena that serves requests of @size bytes. */
static inline TarnHeapRange *
_tarn_arena_get_range (TarnArena *arena, gsize size)
{
  const TarnHeapGrowth *growth = arena->heap->growth;
  TarnRangeKind kind = size <= growth->max_small ? TARN_RANGE_SMALL : TARN_RANGE_LARGE;

  if (TARN_UNLIKELY (growth->choose != NULL))
    kind = growth->choose (arena->heap, size);
  return &arena->ranges[kind];
}

/* A fresh piece has as many bytes as its arena already has.  If the heap has more than
 * TARN_FEW_ARENAS arenas, the piece has these bytes divided by TARN_SHARE_OF_ARENA, because the
 * unused memory of all arenas adds up. */
#define TARN_FEW_ARENAS 4
#define TARN_SHARE_OF_ARENA 4

/* Gets the number of bytes by which an arena should grow.  The caller must apply bounds to it. */
static inline gsize
_tarn_arena_get_step (const TarnArena *arena)
{
  return _tarn_arena_get_bytes (arena)
         / (arena->heap->arenas.length > TARN_FEW_ARENAS ? TARN_SHARE_OF_ARENA : (gsize) 1);
}

/* Returns TRUE if upstream forbids for now that the heap unmaps, moves or returns pieces that were
 * used, even if they are idle. */
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

/* Iterates over the idle pieces of all arenas, arena by arena.  In each arena, begins with the
 * piece that has been idle for the longest time.  The loop's body may remove @piece from its range,
 * because the macro has already computed @next. */
#define TARN_FOR_EACH_IDLE(piece, next, heap)                                                      \
  for (TarnPiece *piece = _tarn_heap_next_idle (heap, NULL),                                       \
                 *next = piece != NULL ? _tarn_heap_next_idle (heap, piece) : NULL;                \
       piece != NULL;                                                                              \
       piece = next, next = piece != NULL ? _tarn_heap_next_idle (heap, piece) : NULL)

/* Gets the address of an extent's first byte.  The result has a meaning only if
 * TarnHeap.has_addresses is TRUE. */
static inline guint64
_tarn_extent_get_address (const TarnExtent *extent)
{
  const TarnPiece *piece = extent->piece;

  return piece->region != NULL ? extent->start
                               : piece->memory.address + (extent->start - piece->start);
}

#endif
