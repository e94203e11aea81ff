/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A heap allocates large segments of memory (struct TarnPiece) from another allocator, called
 * upstream, and divides them into extents.  An extent is a contiguous range of addresses, in use or
 * free.
 *
 *     heap.c          the heap's allocator functions: allocate and free memory
 *     take.c          finds extents for requests, with the heap's lock
 *     arena.c         finds extents for requests without the heap's lock, in read sections
 *     heap-door.c     the heap's lock; forbids and allows read sections
 *     share-out.c     moves segments between the arenas of a queue
 *     extent.c        splits and merges extents; tracks which segments are idle
 *     free-index.c    finds free extents by size
 *     heap-queue.c    the queues that have memory in the heap
 *     heap-event.c    events that tell when no command uses an idle segment any more
 *     grow.c          gets segments from upstream, and returns them
 *     grow-virtual.c  segments of virtual memory, which can move to other addresses
 *     churn.c         bounds how often segments move
 *     alias.c         mappings of moved segments at old addresses that commands may still use
 *     grow-parts.c    segments of memory that cannot move
 *     spare.c         bounds the free memory in segments that cannot move, near the heap's limit
 *     heap-stats.c    the heap's counters
 *     heap-describe.c describes a heap to recordings and snapshots
 *     heap-check.c    checks the invariants
 *
 * A range is a set of segments that serve requests of similar size.  Small requests have a range of
 * their own, so that their extents do not lie between large ones.  Each range is best fit: a
 * request gets the smallest free extent that is large enough.  If several extents have that size,
 * the request gets the one at the lowest address.  The heap splits off the bytes that the request
 * does not need.
 *
 * The heap maps segments of virtual memory at adjacent addresses, so an extent can span several
 * segments.  A segment is idle if it has no extent in use.  An idle segment can move to the end of
 * a range that needs memory, and leaves a gap at its old address.  A segment in use cannot move, so
 * its free extents stay where they are.  A heap therefore seldom has more memory than its peak of
 * bytes in use, plus the free extents of segments in use.
 *
 * A segment can move within its queue while the queue's commands still use the segment.  The
 * segment then also stays mapped at its old address, until an event shows that these commands are
 * done: alias.c.
 *
 * The heap has separate ranges for each in-order queue that requests name.  An arena is a set of
 * such ranges.  A queue has one arena, or several if threads that use the queue wait for each
 * other.  Commands on the queue may still use the arena's free extents.  So a thread can free
 * memory without waiting for commands if only the memory's own queue used the memory, and only that
 * queue can reuse the memory at once.
 *
 * Another queue, and upstream, get only quiet segments.  An idle segment is quiet if an event that
 * the heap recorded after the segment became idle is done.  If memory has run out, the host waits
 * for that event.
 *
 * A read section is a time in which a thread uses arenas without the heap's lock.  Other threads
 * may use the heap in read sections at the same time, but not while a thread forbids read sections
 * (heap-door.c). */

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

/* An extent: a contiguous range of addresses in a heap's memory, in use or free.  The struct has a
 * cache line of its own, because different threads work on neighbouring extents.
 *
 * Invariants:
 * - size > 0.
 * - size is a multiple of the heap's alignment.  If the address of the extent's segment is aligned
 *   to less, size is a multiple of the largest power of two that divides that address.
 * - An extent that ends at its segment's end may have any size.
 * - Two neighbours are never both free. */
struct _TarnExtent
{
  union /* must be first: TarnHeap.table hashes an extent by its memory */
  {
    TarnMemory memory; /* if the extent is in use: the memory that the user got */
    TarnExtent *less;  /* if the extent is free: its left child in a treap of free extents */
    TarnExtent *next;  /* the next extent in the list TarnArena.left_extents or TarnArena.spare */
  };
  guint64 start;    /* the address of the first byte; or, if segments cannot move (grow-parts.c), a
                       number that the heap uses instead of an address */
  gsize size;       /* in bytes */
  TarnPiece *piece; /* the segment that has the extent's first byte */
  /* The neighbours, which are the extents at adjacent addresses; NULL: none. */
  TarnExtent *before, *after;
  guint8 is_free;
  guint8 has_memory; /* TRUE: the extent is in use, and the field memory is set */
  /* The priority of this struct in treaps of free extents: pseudo-random, constant. */
  guint32 priority;
  TarnExtent *greater; /* if the extent is free: its right child in a treap of free extents */
} __attribute__ ((aligned (TARN_CACHE_LINE)));

/* The number of structs in a TarnExtentSlab. */
#define TARN_SLAB_EXTENTS 63

/* A slab: TarnExtent structs for which an arena allocates host memory in one call. */
typedef struct _TarnExtentSlab TarnExtentSlab;
struct _TarnExtentSlab
{
  TarnExtentSlab *next;
  TarnExtent extents[TARN_SLAB_EXTENTS];
};

/* A segment: memory that upstream allocated in one call.
 *
 * Invariants: n_used is the number of extents in use that have bytes in the segment.  If n_used is
 * 0, the segment is idle, and in its arena's list of idle segments. */
struct _TarnPiece
{
  /* The address of the first byte, or a number that replaces it: see TarnExtent.start. */
  guint64 start;
  gsize size; /* in bytes */
  /* The memory as upstream names it; if the memory is virtual: the physical memory. */
  TarnMemory memory;
  TarnHeapRange *range;   /* the range to which the segment belongs */
  TarnHeapRegion *region; /* the region (reserved addresses) where the segment is mapped; NULL: the
                             memory is not virtual */
  TarnPiece *before, *after; /* the segments at adjacent addresses; NULL: none */
  TarnExtent *extent;        /* the extent that has the segment's first byte */
  guint n_used;
  gboolean was_used;  /* TRUE: a request has used the segment at some time */
  guint n_aliases;    /* the number of old addresses at which the segment is still mapped */
  guint64 idle_since; /* if the segment is idle: the number of its queue's next event
                         (TarnHeapQueue.n_begun) at the time when the segment became idle */
  gint64 idle_at;  /* if the segment is idle: the time when it became idle; 0: no thread has set the
                      time yet */
  GList link;      /* the link in TarnHeapRange.pieces */
  GList idle_link; /* the link in TarnArena.idle, if the segment is idle */
};

/* An alias: the mapping of a segment at an old address, from which the segment has moved away.
 * Commands that the segment's queue got before the move may still use the old address.  The heap
 * removes the alias when an event is done that the heap began to record after the move. */
typedef struct
{
  TarnPiece *piece;
  TarnHeapRegion *region; /* the region (reserved addresses) that has the old address */
  guint64 start;          /* the old address */
  guint64 moved_at; /* the number of the queue's next event (TarnHeapQueue.n_begun) when the segment
                       moved */
} TarnAlias;

/* A region: contiguous addresses of virtual memory that the heap has reserved.  A range maps
 * segments there, one after another.  The field end is the address where the range maps the next
 * segment.  No segment is mapped at the addresses from end on: the range never used them, or the
 * heap has removed the segments that were mapped there.
 *
 * Invariants: no segment is beyond end; last_piece and last_extent end at end. */
struct _TarnHeapRegion
{
  /* The range that maps new segments in this region, or that did so before it got a newer region;
   * constant.  Other ranges of the same queue may have segments in the region, but last_piece
   * always belongs to this range.  In a read section, the lock of this range's arena guards
   * last_piece and last_extent, so a thread that holds the lock of another arena must not read
   * these two fields. */
  TarnHeapRange *range;
  TarnMemory addresses; /* the start of the reserved addresses */
  gsize size;           /* in bytes */
  guint64 end;
  guint n_pieces;    /* the number of segments and aliases (TarnAlias) in the region */
  gboolean has_lost; /* TRUE: a segment stays mapped in the region for ever, so the heap must not
                        release the region's addresses */
  TarnPiece *last_piece;   /* the segment that ends at the address end; NULL: none */
  TarnExtent *last_extent; /* the extent that ends at the address end; NULL: none */
};

/* The kinds of ranges, by the size of the requests that they serve. */
typedef enum
{
  TARN_RANGE_SMALL,
  TARN_RANGE_LARGE,
  TARN_RANGE_HUGE, /* used only in heaps whose segments cannot move (grow-parts.c) */
  TARN_N_RANGES
} TarnRangeKind;

/* The number of size classes of free extents: enough for all sizes of 64 bits. */
#define TARN_FREE_CLASSES 896

/* The binary logarithm of the number of size classes between each power of two and the next.  Sizes
 * below 512 << TARN_SUB_BITS bytes have one class for each multiple of 512 bytes instead. */
#define TARN_SUB_BITS 4

/* Computes the size class for a size in bytes.  A larger size never has a lower class. */
static inline guint
_tarn_free_index_get_class (gsize size)
{
  guint64 units = size >> 9;
  guint exponent = 63 - (guint) __builtin_clzll (units | 1 << TARN_SUB_BITS);

  return ((exponent - TARN_SUB_BITS) << TARN_SUB_BITS)
         + (guint) (units >> (exponent - TARN_SUB_BITS));
}

/* An index of the free extents of a range by size: free-index.c.  Each size class has a treap, a
 * search tree that random priorities keep balanced.
 *
 * Invariants: bit c % 64 of bits[c / 64] is set if and only if roots[c] is not NULL.  Bit i of
 * words is set if and only if bits[i] is not 0. */
typedef struct
{
  guint64 words;
  guint64 bits[TARN_FREE_CLASSES / 64];
  TarnExtent *roots[TARN_FREE_CLASSES]; /* the root of each class's treap; NULL: no extent */
} TarnFreeIndex;

/* A range: a set of segments that serve the small, the large or the huge requests of one arena. */
struct _TarnHeapRange
{
  TarnHeap *heap;
  TarnArena *arena;
  TarnRangeKind kind;
  gsize used_bytes;   /* the sum of the sizes of the range's extents in use */
  TarnFreeIndex free; /* all free extents of the range */
  GQueue pieces;      /* all segments of the range, linked by TarnPiece.link */
  gsize bytes;        /* the sum of the sizes of the range's segments */
  gsize idle_bytes;   /* the sum of the sizes of the range's idle segments */
  /* The region (reserved addresses) where the range maps new segments; NULL: the memory is not
   * virtual, or the range has never had a segment. */
  TarnHeapRegion *region;
  GList *old_regions; /* the regions where the range mapped new segments earlier; segments may still
                         be mapped there */
};

/* An event that the heap recorded on a queue.  The event is done when all commands are done that
 * the queue got before the event. */
typedef struct
{
  gpointer handle; /* the backend's event */
  /* The event's number: the value that TarnHeapQueue.n_begun had before the heap recorded the
   * event; or G_MAXUINT64 - 1 for the last event of a forgotten queue. */
  guint64 number;
  guint n_refs; /* the number of references: one of the queue while the event is in
                   TarnHeapQueue.events, and one of each call that waits for the event or asks
                   whether it is done */
} TarnHeapEvent;

/* An arena: a set of ranges of a queue, from which threads allocate without the heap's lock:
 * arena-private.h.
 *
 * A queue has one arena at first.  If threads that use the queue wait for each other, the queue
 * gets several arenas.  Each thread then has one of them as its own arena, and allocates from
 * that arena as long as the arena has an extent that fits.  Any request that names the queue can
 * reuse the free extents of all the queue's arenas at once, because the queue executes its commands
 * in order.
 *
 * Invariants: n_used is the number of extents in use in the arena's segments. */
struct _TarnArena
{
  /* These two fields keep their values when the heap reuses the struct for another queue. */
  TarnExtentSlab *slabs; /* the slabs of TarnExtent structs that the arena has allocated */
  TarnExtent *spare;     /* unused TarnExtent structs, linked by TarnExtent.next */

  TarnHeapQueue *queue; /* constant */
  TarnHeap *heap;       /* constant */

  gboolean is_taken;     /* atomic: the arena's lock; TRUE: a thread holds it */
  gsize uncounted_bytes; /* atomic: the change of the arena's bytes in use that the heap has not yet
                            added to TarnHeap.stats; wraps around if negative */
  gssize noted_bytes; /* the value of uncounted_bytes above which a thread computes the heap's peak
                         of bytes in use again */
  gsize n_unnamed; /* the number of extents in use but not in the heap's table: its change in this
                      arena that the heap has not yet added to TarnHeap.n_unnamed; wraps around if
                      negative */
  TarnExtent *left_extents; /* atomic: a list of extents that threads put here instead of waiting
                               for the arena's lock; a later holder of that lock frees them; linked
                               by TarnExtent.next */
  GQueue idle; /* the arena's idle segments, linked by TarnPiece.idle_link; longest idle first */
  gsize unrecorded_bytes; /* the bytes of segments that became idle since a request of this arena
                             last asked the heap to record an event */
  guint n_taken; /* the number of extents taken from this arena since a request of this arena last
                    asked the heap to record an event */
  guint seen_growths;  /* the value that TarnHeap.n_growths had when a request of this arena last
                          asked the heap to record an event, or when a thread last called
                          _tarn_heap_look_after () */
  guint n_takes;       /* the number of requests to this arena that threads made in read sections */
  guint n_waits;       /* the number of recent requests that waited for the arena's lock */
  gboolean is_crowded; /* TRUE: so many requests waited that the queue needs more arenas */
  guint n_poor;        /* the number of recent requests for which the arena had no extent */
  guint poor_since;    /* the value that n_takes had when n_poor began to count */
  guint n_shared; /* the number of times that the arena got segments of the queue's other arenas, at
                     most MAX_SHARED */
  guint helper; /* atomic: the index of the queue's arena that last served a request for which this
                   arena had no extent */
  TarnHeapRange ranges[TARN_N_RANGES];
  gsize n_used;
  gsize n_pieces; /* the number of segments in all ranges of the arena */
  GList link;     /* the link in TarnHeap.arenas */
} __attribute__ ((aligned (TARN_CACHE_LINES)));

/* The largest number of arenas that a queue can have. */
#define TARN_QUEUE_ARENAS 16

/* A queue of the backend, and the arenas from which the heap serves requests that name the queue.
 * The struct TarnHeap.nobody serves requests that name no queue; no command uses the free memory in
 * its arenas.
 *
 * When the program tells the heap to forget a queue, the heap records a last event on the queue.
 * It keeps the queue's arenas until a new queue takes over the arenas, or they have no segment
 * left.
 *
 * Invariants:
 * - A segment that became idle when n_begun was n is quiet (no command uses it) if n < n_done and
 *   the segment has no alias (TarnAlias).
 * - n_done <= n_begun if handle is not NULL.
 * - n_done is G_MAXUINT64 for TarnHeap.nobody, and for a forgotten queue after its last event is
 *   done. */
struct _TarnHeapQueue
{
  /* The queue's number; atomic: no other queue of the heap has or had the same number.  0 if handle
   * is NULL, or while a call is forgetting the queue.  Threads may read this field at any time,
   * because the heap reuses a TarnHeapQueue struct for another queue, but frees it only when the
   * heap itself ends. */
  guint64 number;

  TarnHeap *heap;
  gpointer handle; /* the backend's queue, to which the heap has a reference; NULL: the heap has
                      forgotten the queue, or this struct is TarnHeap.nobody */
  gpointer left;   /* the handle that a forgotten queue had; the heap releases its reference to the
                      backend's queue when the last event is done and no call uses the queue */

  /* A thread changes these fields only while it holds the heap's lock and forbids read sections. */
  TarnArena *arenas[TARN_QUEUE_ARENAS];
  guint n_arenas;            /* atomic: the number of arenas, at least 1 */
  gboolean has_shared_arena; /* TRUE: at least two threads that use the queue have the same arena */
  /* The threads that use the queue, as a bit mask: thread number n sets bit n % 64. */
  guint64 threads;

  /* The number of calls that use the queue.  The heap does not free a queue while a call uses it,
   * because such a call may release the heap's lock and go on to use the queue later.  The field
   * begins a new cache line, because threads in read sections often read the fields above. */
  guint n_calls __attribute__ ((aligned (TARN_CACHE_LINES)));
  guint n_forgetting;    /* the number of calls that are making the heap forget the queue */
  guint64 former_number; /* a copy of the queue's number: calls that forget the queue set the field
                            number to 0, and restore it from this copy if they fail */
  guint64 n_begun; /* the number that the queue's next event gets; grows by 1 when the heap begins
                      to record an event; changes only while the heap forbids read sections */
  guint64 n_done;  /* the number of the latest event that the heap knows is done, plus 1 */
  gboolean has_unrecorded; /* atomic; TRUE: a segment became idle or moved since the heap last began
                              to record an event on the queue */
  guint n_passed; /* the number of calls that named the queue while has_unrecorded was TRUE; only
                     one in several such calls may record an event; only _tarn_heap_look_after ()
                     resets the number to 0 */
  /* The events (TarnHeapEvent) on the queue that may not be done yet, oldest first. */
  GQueue events;
  /* The aliases (TarnAlias) of the queue's segments, sorted by the field moved_at. */
  GQueue aliases;

  GList link;           /* the link in TarnHeap.all_queues */
  GList forgotten_link; /* the link in TarnHeap.forgotten_queues, if the queue is forgotten */
};

/* A choice: for a request, the heap either moves idle segments or allocates fresh ones.  churn.c
 * chooses only once for each request. */
typedef enum
{
  TARN_MOVES_UNDECIDED,
  TARN_MOVES_PIECES,
  TARN_MOVES_NONE
} TarnHeapMoves;

/* The state of a request for which the heap grows.  The heap may add several segments for one
 * request. */
typedef struct
{
  TarnHeapMoves moves;
  gboolean has_probed; /* TRUE: a test allocation for this request showed that upstream has all
                          missing bytes */
} TarnHeapAttempt;

/* The budgets of moves and of thread cache flushes (churn.c), which grow as time passes and as the
 * heap's peak rises; and the extra memory that the heap may have if a budget is spent. */
typedef struct
{
  guint n_moves;   /* the number of requests that may still move pieces */
  guint n_flushes; /* the number of requests that may still make pools flush thread caches */
  gint64 at;       /* the time at which both budgets last grew with the passing of time */
  guint64 peak;    /* the peak of bytes in use at which both budgets last grew with the peak */
  guint64 extra;   /* the bytes by which the heap's room has grown; the room is the memory that the
                      heap may have besides its peak (churn.c) */
  /* The number of requests that needed more room than the upper bound of the room. */
  guint n_beyond;
} TarnHeapChurn;

/* The functions and constants of one way to get memory from upstream.  There are two ways:
 * grow-virtual.c for virtual memory, and grow-parts.c for memory that cannot move. */
typedef struct
{
  gsize max_small; /* the size of the largest request that the small range serves, in bytes */
  gsize max_held;  /* the size of the largest block that a pool over the heap may cache, in bytes */
  /* Chooses which of an arena's two ranges, the small or the large one, serves a request.  NULL:
   * the small range serves the requests of at most max_small bytes. */
  TarnRangeKind (*choose) (const TarnHeap *heap, gsize size);
  /* Gets the size of the largest request whose segment may also serve other requests.  NULL: there
   * is no upper bound. */
  gsize (*get_max_shared) (const TarnHeap *heap);
  /* Computes the most bytes that the heap should have while it serves a request.  If the heap has
   * that many bytes, it uses idle segments instead of fresh memory. */
  gsize (*get_target) (const TarnHeap *heap, gsize size);
  /* Adds a segment to a range that has no free extent for a request.  Returns TRUE if the caller
   * should search the range again.  The caller holds the heap's lock; the function releases the
   * lock during driver calls. */
  gboolean (*grow) (TarnHeapRange *range, gsize size, TarnHeapAttempt *attempt, GError **error);
  /* Returns TRUE if a request should use @extent, which is free and large enough.  If not, the heap
   * searches elsewhere or grows.  NULL: each large enough extent suits. */
  gboolean (*suits) (const TarnHeapRange *range, const TarnExtent *extent, gsize size);
  /* Returns a segment to upstream.  The caller has removed the segment from its range, and does not
   * hold the heap's lock. */
  void (*release) (TarnHeap *heap, TarnPiece *piece);
  /* Releases the reserved addresses that a range does not need any more, after the heap has removed
   * segments.  The caller holds the heap's lock; the function releases the lock during driver
   * calls. */
  void (*tidy) (TarnHeapRange *range);
  /* Releases all reserved addresses of a range.  The range's queue must have no segment, and the
   * caller has removed the queue's arenas from TarnHeap.arenas.  The caller does not hold the
   * heap's lock. */
  void (*clear) (TarnHeapRange *range);
} TarnHeapGrowth;

extern const TarnHeapGrowth _tarn_heap_virtual_growth __attribute__ ((visibility ("hidden")));
extern const TarnHeapGrowth _tarn_heap_parts_growth __attribute__ ((visibility ("hidden")));

/* A heap.  The invariants below hold when a thread has just taken the heap's lock and forbidden
 * read sections.  _tarn_heap_check () checks them, and those of extents, segments, regions, arenas
 * and queues:
 *
 *     stats.upstream_bytes == stats.used_bytes + stats.free_bytes + lent_bytes, plus, while
 *                             is_changing is set, bytes on their way to or from upstream
 *     stats.used_bytes     == sum of size over extents in use
 *     stats.free_bytes     == sum of size over free extents
 *     stats.pieces         == number of segments
 *     the field table has all extents in use except n_unnamed of them, and nothing else
 *
 * The lock guards all fields that are not constant:
 * - To change arenas, or anything else that threads in read sections use, a thread holds the heap's
 *   lock and forbids read sections; or it is in a read section and holds the arena's lock.
 * - To change the table, the queues and their events, a thread holds the heap's lock, but need not
 *   forbid read sections: _tarn_heap_lock_open ().
 * - A thread that adds or removes segments first sets is_changing, and clears it afterwards.  No
 *   other thread adds or removes segments meanwhile.
 * - No thread holds the lock while it calls a function of upstream, except backing_stays (). */
struct _TarnHeap
{
  TarnAllocator base;      /* must be first, so that the heap can be cast to an allocator */
  TarnAllocator *upstream; /* the allocator of the segments, to which the heap has a reference */
  const TarnHeapGrowth *growth;
  gsize alignment;   /* the alignment of extents' sizes and addresses in bytes: a power of two */
  gsize limit_bytes; /* the limit that the program set for the heap; 0: none */
  gboolean follows_pool;   /* TRUE: the limit of the pool over the heap (pool_limit) bounds the heap
                              as well */
  gboolean has_addresses;  /* TRUE: a user's memory is an address, which the heap computes; FALSE:
                              the driver makes a sub-buffer of a segment for each extent in use */
  gboolean frees_in_order; /* TRUE: the heap may return segments to upstream while commands still
                              use them */
  gsize growth_bytes;      /* the least size of a segment in bytes; 0: the heap chooses the size */
  gint64 idle_time;        /* the time for which the heap keeps an idle segment, in microseconds;
                              G_MAXINT64: for ever */

  /* Threads in read sections read the fields from door to peak_in_visits.  These fields have their
   * own cache lines, because threads often write other fields of the heap. */
  TarnDoor door __attribute__ ((aligned (TARN_CACHE_LINES)));
  gboolean has_visitors; /* TRUE: threads use read sections, so a thread that releases the heap's
                            lock allows read sections again */
  gsize event_bytes; /* the bytes of segments that must become idle in an arena before a thread in a
                        read section asks the heap to record an event */
  guint n_growths;   /* the number of times that the heap began to grow because a request found no
                        extent */
  gsize max_unchecked; /* the size of the largest request that may use each free extent that is
                          large enough (spare.c) */
  gsize room_bytes;    /* the bytes that the heap may still allocate from upstream before a request
                          uses the free memory of its queue's other arenas */
  guint64 peak_in_visits
      TARN_WHOLE; /* atomic: the most bytes in use that threads in read sections have computed since
                     read sections were last forbidden; 0: no thread has computed them */

  /* The thread that holds the lock usually forbids read sections too. */
  TarnMutex lock __attribute__ ((aligned (TARN_CACHE_LINES)));
  TarnCond changed;     /* signalled when is_changing becomes FALSE */
  gboolean is_changing; /* TRUE: a call that adds or removes segments is in progress */
  guint n_waiting;      /* the number of threads that wait for the condition changed; if 0, the heap
                           saves the system call of a broadcast */
  TarnHeapQueue *nobody;       /* the TarnHeapQueue for requests that name no queue */
  GHashTable *queues;          /* maps TarnHeapQueue.handle to the TarnHeapQueue */
  TarnHeapQueue *latest_queue; /* the queue that a call looked up last; NULL: none, or the heap has
                                  forgotten or freed that queue */
  GQueue all_queues; /* all queues, including the forgotten ones and nobody; only the thread that
                        has set is_changing removes a queue */
  GQueue forgotten_queues; /* the forgotten queues, in the order in which the heap will ask whether
                              their last events are done */
  GQueue arenas;           /* the arenas of all queues, linked by TarnArena.link */
  /* Unused TarnHeapQueue structs; the heap frees them only when it ends itself, because pools may
   * still have references (TarnArenaRef) to them. */
  GSList *dead_queues;
  GSList *dead_arenas; /* unused TarnArena structs; the heap frees them only when it ends itself,
                          because other arenas may use TarnExtent structs from their slabs */
  guint64 last_number; /* the TarnHeapQueue.number of the queue that the heap added last */
  GHashTable *table;   /* the set of TarnExtents in use, hashed by TarnExtent.memory */
  /* The number of extents in use that are not in the table: a thread took them in a read section,
   * or a thread is about to add them to the table or to free them. */
  gsize n_unnamed;
  gsize lost_bytes; /* the bytes of lost extents: extents in use that the program will never free */
  gsize lent_bytes; /* the bytes that the heap has lent to other heaps: lend.c */
  gsize pool_limit; /* the limit of the pool over the heap, in bytes; 0: none */
  gsize full_bytes; /* the total size in bytes that the heap failed to reach, because upstream
                       refused memory; G_MAXSIZE: not set */
  gsize peak_lately; /* the peak of bytes in use since the time peak_at */
  gsize peak_before; /* the peak of bytes in use in the period before peak_at */
  gint64 peak_at;    /* the time when the present period of peak_lately began (spare.c) */
  TarnHeapChurn churn;
  gboolean refuses_aliases; /* TRUE: upstream failed to map a segment at a second address */
  gboolean is_short;   /* TRUE: upstream ran out of memory when the heap last grew; if memory is
                          virtual, the field stays TRUE until a test allocation succeeds */
  gboolean is_unready; /* TRUE: upstream allocated memory, but the host failed to wait until the
                          memory was ready; only the thread that set is_changing uses this field */
  gint64 look_at; /* the time of the next check for segments that have been idle for idle_time */
  guint64 next_start; /* if segments cannot move: the number that the next segment gets as its
                         TarnPiece.start */
  guint64 generation TARN_WHOLE; /* atomic: the number of times that the heap began to unmap memory
                                    or to return memory to upstream */
  TarnHeapStats stats;
};

/* The extra bytes that a heap may have for its arenas.  Arenas that need little memory would
 * otherwise take it from each other again and again.  TARN_ARENA_ROOM is the number of bytes for
 * each arena beyond the first one, not counting an arena of heap->nobody.  In all, the extra bytes
 * are at most the heap's peak of bytes in use divided by TARN_ARENA_ROOM_SHARE. */
#define TARN_ARENA_ROOM ((gsize) 12 << 20)
#define TARN_ARENA_ROOM_SHARE 2

/* The number of further arenas of queues that count as one arena when the heap computes how much
 * memory it may have.  The first arena of each queue counts in full.  The others count less,
 * because the arenas of a queue can use each other's memory. */
#define TARN_FURTHER_ARENAS 4

/* Computes the number of arenas for which the heap may have more memory.  Counts one arena for each
 * queue, and one for each TARN_FURTHER_ARENAS of the other arenas. */
static inline guint
_tarn_heap_count_for_room (const TarnHeap *heap)
{
  guint n_queues = heap->all_queues.length;

  return n_queues + (heap->arenas.length - n_queues) / TARN_FURTHER_ARENAS;
}

/* Computes the most bytes that a heap should have.  These are the sum of:
 * - the heap's peak of bytes in use, which includes a new request of @size bytes
 * - this peak divided by @share
 * - @room bytes
 * - bytes for the heap's arenas
 * - the extra bytes of churn.c
 * - the bytes lent to other heaps */
static inline gsize
_tarn_heap_get_target (const TarnHeap *heap, gsize size, gsize share, gsize room)
{
  guint64 used = heap->stats.used_bytes;
  guint64 peak = MAX ((guint64) heap->stats.peak_used_bytes, used + size);
  guint64 n = _tarn_heap_count_for_room (heap); /* one of the @n arenas belongs to heap->nobody */
  guint64 of_arenas = n > 2 ? MIN ((n - 2) * TARN_ARENA_ROOM, peak / TARN_ARENA_ROOM_SHARE) : 0;
  guint64 more = peak / share + room + of_arenas + heap->churn.extra + heap->lent_bytes;

  return (gsize) MIN (peak + MIN (more, G_MAXUINT64 - peak), G_MAXSIZE);
}

/* The divisor that defines a request for much of the limit (spare.c): a request for more bytes than
 * the heap's limit divided by TARN_MUCH_SHARE. */
#define TARN_MUCH_SHARE 512

/* Functions of take.c, which find extents for requests.  The caller holds the heap's lock.
 * _tarn_heap_take () and _tarn_heap_take_aligned () release the lock during driver calls and
 * waits. */
void _tarn_heap_put (TarnHeap *heap, TarnExtent *extent);
TarnExtent *_tarn_heap_take_own (TarnHeapQueue *queue, gsize size, gboolean takes_any);
TarnExtent *_tarn_heap_take (TarnHeapQueue *queue, gsize size, GError **error);
TarnExtent *_tarn_heap_take_aligned (TarnHeapQueue *queue, gsize size, gsize alignment,
                                     GError **error);

/* A function of heap.c.  The caller holds the heap's lock. */
void _tarn_heap_remember (TarnExtent *extent, TarnMemory memory);

/* Functions of heap-door.c, for the heap's lock and read sections.  The caller of the first three
 * does not hold the heap's lock. */
void _tarn_heap_lock (TarnHeap *heap);
void _tarn_heap_lock_open (TarnHeap *heap);
gboolean _tarn_heap_trylock (TarnHeap *heap);
/* The caller of the next five functions holds the heap's lock. */
void _tarn_heap_close (TarnHeap *heap);
void _tarn_heap_unlock (TarnHeap *heap);
void _tarn_heap_wait (TarnHeap *heap);
void _tarn_arena_count (TarnArena *arena);
void _tarn_arena_count_unnamed (TarnArena *arena);
/* The caller holds the heap's lock, or holds the arena's lock in a read section. */
void _tarn_arena_drain (TarnArena *arena);

/* Functions of arena.c, for the arenas of queues.  The caller holds the heap's lock. */
TarnExtent *_tarn_queue_take (TarnArena *arena, gsize size, gboolean takes_any);
/* The caller of _tarn_arena_note_wait () may instead hold the arena's lock in a read section. */
gboolean _tarn_arena_note_wait (TarnArena *arena);
void _tarn_arena_relieve (TarnArena *arena);

/* Functions of extent.c, which split and merge extents.  The caller holds the heap's lock and has
 * forbidden read sections, or it holds the arena's lock in a read section. */
TarnExtent *_tarn_range_take_quickly (TarnHeapRange *range, gsize size);
void _tarn_range_put_quickly (TarnHeapRange *range, TarnExtent *extent);

/* lend.c */
void _tarn_heap_set_lending (const TarnAllocator *upstream, TarnAllocatorOps *ops);

/* Functions of spare.c, which bound stranded memory.  The caller holds the heap's lock. */
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

/* Functions of heap-queue.c, for the heap's queues.  The caller holds the heap's lock.  The
 * functions that enter, drop or free queues release the lock during driver calls. */
TarnHeapQueue *_tarn_heap_queue_new (TarnHeap *heap, gpointer handle);
void _tarn_queue_note_thread (TarnHeapQueue *queue);
void _tarn_queue_add_arenas (TarnHeapQueue *queue);
gboolean _tarn_queue_has_pieces (const TarnHeapQueue *queue);
TarnHeapQueue *_tarn_heap_find_queue (TarnHeap *heap, gpointer handle);
TarnHeapQueue *_tarn_heap_enter_queue (TarnHeap *heap, gpointer handle, GError **error);
void _tarn_heap_drop_queues (TarnHeap *heap);
void _tarn_heap_free_queue (TarnHeap *heap, TarnHeapQueue *queue);

/* Functions of heap-event.c, for events on queues.  The caller holds the heap's lock.  All
 * functions except the first release the lock during driver calls. */
gboolean _tarn_piece_is_quiet (const TarnPiece *piece);
gboolean _tarn_queue_record_last_event (TarnHeapQueue *queue, GError **error);
void _tarn_queue_drop_events (TarnHeapQueue *queue);
void _tarn_queue_record_if_idle (TarnHeapQueue *queue);
void _tarn_queue_ask (TarnHeapQueue *queue);
gboolean _tarn_queue_await (TarnHeapQueue *queue);
void _tarn_heap_poll_events (TarnHeap *heap);
gboolean _tarn_heap_await_idle (TarnHeap *heap);

/* Functions of churn.c, which bound how often segments move.  The caller of the last two holds the
 * heap's lock. */
void _tarn_heap_init_churn (TarnHeap *heap);
gboolean _tarn_heap_pay_for_moves (TarnHeap *heap, gsize missing, gsize target);
gsize _tarn_heap_get_room (const TarnHeap *heap);

/* Functions of alias.c, for segments mapped at two addresses.  The caller holds the heap's lock.
 * _tarn_heap_end_aliases () releases the lock during driver calls. */
gboolean _tarn_piece_can_move_to (const TarnPiece *piece, const TarnHeapRange *range);
void _tarn_piece_add_alias (TarnPiece *piece, TarnHeapQueue *queue, TarnHeapRegion *region,
                            guint64 start);
void _tarn_queue_lose_aliases (TarnHeapQueue *queue);
void _tarn_heap_end_aliases (TarnHeap *heap);

/* More functions of extent.c.  The caller holds the heap's lock and has forbidden read sections. */
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

/* A function of share-out.c.  The caller holds the heap's lock and has forbidden read sections. */
void _tarn_arena_share_out (TarnArena *arena);

/* Functions of grow.c, which add and return segments.  The caller holds the heap's lock.  The first
 * six release the lock during driver calls and waits. */
gboolean _tarn_heap_grow (TarnHeapRange *range, gsize size, TarnHeapAttempt *attempt,
                          GError **error);
gboolean _tarn_heap_await_more (TarnHeap *heap, const GError *error);
gsize _tarn_heap_trim (TarnHeap *heap, gsize keep_bytes);
void _tarn_heap_expire (TarnHeap *heap);
gboolean _tarn_heap_begin_change (TarnHeap *heap, gsize size, GError **error);
void _tarn_heap_end_change (TarnHeap *heap);
/* More functions of grow.c.  The caller of these seven holds the heap's lock.  Only
 * _tarn_heap_release_idle () releases the lock, during driver calls. */
gsize _tarn_heap_get_limit (const TarnHeap *heap);
gboolean _tarn_heap_has_room (const TarnHeap *heap, gsize size, GError **error);
gboolean _tarn_heap_has_run_out (const GError *error);
void _tarn_heap_note_peak (TarnHeap *heap);
TarnPiece *_tarn_piece_new (TarnMemory memory, gsize size);
gboolean _tarn_piece_can_go (const TarnPiece *piece);
gsize _tarn_heap_release_idle (TarnHeap *heap, TarnPiece *piece);

/* A function of heap-stats.c.  The caller holds the heap's lock. */
void _tarn_heap_describe_free (const TarnHeap *heap, GError **error);

/* Functions of heap-describe.c, which describe a heap to recordings.  The caller of the first two
 * holds the heap's lock. */
void _tarn_heap_record_piece (const TarnPiece *piece);
void _tarn_heap_record_part (const TarnExtent *extent);
/* Callbacks: TarnAllocatorClass describes these four functions. */
void _tarn_heap_freeze (TarnAllocator *heap);
void _tarn_heap_thaw (TarnAllocator *heap);
void _tarn_heap_tell (TarnAllocator *heap, TarnListener *listener);
void _tarn_heap_tell_counters (TarnAllocator *heap, TarnListener *listener);

/* Functions of heap-check.c, which check the heap's invariants.  The caller holds the heap's lock
 * and has forbidden read sections. */
gboolean _tarn_heap_check (TarnHeap *heap, gchar **violation);
void _tarn_heap_assert_valid (TarnHeap *heap);

/* Asserts that the caller holds the heap's lock and has forbidden read sections, so that no other
 * thread can use the arenas. */
static inline void
_tarn_heap_assert_closed (const TarnHeap *heap)
{
  _tarn_assert_locked (&heap->lock);
  g_assert (_tarn_door_is_closed (&heap->door));
}

/* Checks the invariants of a heap in builds with --enable-debug=full.  The heap's functions call
 * this function at the end of each operation, while they hold the heap's lock. */
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

/* Increments the heap's generation, the number of times that the heap began to unmap memory or to
 * return memory to upstream.  The caller holds the heap's lock, and calls this function before it
 * unmaps or returns memory that users may have had.  The caller ensures that no request can get
 * that memory any more. */
static inline void
_tarn_heap_begin_generation (TarnHeap *heap)
{
  _tarn_assert_locked (&heap->lock);
  __atomic_store_n (&heap->generation, heap->generation + 1, __ATOMIC_RELEASE);
}

/* Gets the calling thread's own arena of a queue.  Threads share a queue's arenas out by their
 * numbers: the index of a thread's arena is the thread's number modulo the number of arenas. */
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

/* A fresh segment has as many bytes as its arena already has.  If the heap has more than
 * TARN_FEW_ARENAS arenas, the unused memory of all arenas adds up, so a fresh segment has only
 * these bytes divided by TARN_SHARE_OF_ARENA. */
#define TARN_FEW_ARENAS 4
#define TARN_SHARE_OF_ARENA 4

/* Gets the number of bytes by which an arena should grow.  The caller must apply a lower and an
 * upper bound to the result. */
static inline gsize
_tarn_arena_get_step (const TarnArena *arena)
{
  return _tarn_arena_get_bytes (arena)
         / (arena->heap->arenas.length > TARN_FEW_ARENAS ? TARN_SHARE_OF_ARENA : (gsize) 1);
}

/* Returns TRUE if upstream forbids for now that the heap unmaps, moves or returns segments that
 * requests have used, even if these segments are idle. */
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

/* Iterates over the idle segments of all arenas, arena by arena.  In each arena, begins with the
 * segment that has been idle for the longest time.  The loop's body may remove @piece from its
 * range, because the macro has already computed @next. */
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
