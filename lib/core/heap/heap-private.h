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
 *     place.c         finds places for segments of virtual memory
 *     alias.c         mappings of moved segments at old addresses that commands may still use
 *     grow-parts.c    segments of memory that cannot move
 *     spare.c         bounds the free memory in segments that cannot move, near the heap's limit
 *     lend.c          lends virtual memory to another heap
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
 * its free extents stay where they are.  Because idle segments move to where memory is needed, a
 * heap seldom has more memory than its peak of bytes in use, plus the free extents of segments in
 * use.
 *
 * A segment can move within its queue even while the queue's commands still use the segment.  The
 * segment then also stays mapped at its old address, until an event shows that these commands are
 * done (alias.c).
 *
 * A request can name the in-order queue whose commands will use the memory.  The heap has separate
 * arenas for each queue that requests name.  An arena is a set of ranges.  A queue has one arena at
 * first, and gets more if threads often wait for the arena's lock.  Earlier commands on the queue
 * may still use an arena's free extents.  Another request for the same queue can nevertheless reuse
 * these extents at once, because the new request's commands run after the earlier commands.  So a
 * thread need not wait for commands when it frees memory that no other queue has used.
 *
 * Another queue gets only quiet segments.  An idle segment is quiet if the heap recorded an event
 * after the segment became idle, and that event is done.  The heap also returns only quiet segments
 * to upstream, except to an upstream allocator that accepts memory which commands still use.  If
 * memory has run out, the host waits for the events, so that idle segments become quiet.
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

/* An extent: a contiguous range of addresses in a heap's memory, in use or free.  The struct shares
 * no cache line with other data, because different threads work on neighbouring extents.
 *
 * Invariants:
 * - size > 0.
 * - size is a multiple of the heap's alignment, or of the largest power of two that divides the
 *   segment's address, if this power is less.  An extent that ends where its segment ends can have
 *   any size.
 * - Two extents that are neighbours (the fields before and after) are never both free. */
struct _TarnExtent
{
  union /* must be first, because TarnHeap.table hashes the first 8 bytes of an extent: the field
           memory */
  {
    TarnMemory memory; /* if the extent is in use: the memory that the user got */
    TarnExtent *less;  /* while the extent is free: its left child in a treap (search tree) of free
                          extents */
    TarnExtent *next;  /* while the extent is in the list TarnArena.left_extents or TarnArena.spare:
                          the next extent in this list */
  };
  guint64 start;    /* the address of the extent's first byte; in a heap whose segments cannot move
                       (grow-parts.c), a number that the heap uses instead of an address */
  gsize size;       /* the size of the extent in bytes */
  TarnPiece *piece; /* the segment that has the extent's first byte */
  /* The neighbours: the extents at the adjacent lower (before) and higher (after) addresses.  NULL
   * if there is none, or if the heap has separated the segments of the two extents. */
  TarnExtent *before, *after;
  guint8 is_free;
  guint8 has_memory; /* TRUE if the extent is in use and the field memory is set */
  /* The extent's priority in a treap (search tree) of free extents: a constant pseudo-random
   * number. */
  guint32 priority;
  TarnExtent *greater; /* while the extent is free: its right child in a treap (search tree) of free
                          extents */
} __attribute__ ((aligned (TARN_CACHE_LINE)));

/* The number of structs in a TarnExtentSlab. */
#define TARN_SLAB_EXTENTS 63

/* A slab: TarnExtent structs that an arena allocates together, in one call for host memory. */
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
  /* The address of the segment's first byte.  In a heap whose segments cannot move, a number that
   * the heap uses instead of an address (TarnExtent.start). */
  guint64 start;
  gsize size; /* the size of the segment in bytes */
  /* The memory that upstream allocated for the segment, as a handle or an address.  In a heap of
   * virtual memory, this is the handle of the physical memory. */
  TarnMemory memory;
  guint64 number;         /* the value of TarnHeap.n_made when the heap had made the segment */
  TarnHeapRange *range;   /* the range to which the segment belongs */
  TarnHeapRegion *region; /* the region (reserved addresses) where the segment is mapped; NULL if
                             the memory is not virtual */
  /* The neighbours: the segments at the adjacent lower (before) and higher (after) addresses.  NULL
   * if there is none, or if the heap has separated the two segments (share-out.c). */
  TarnPiece *before, *after;
  TarnExtent *extent; /* the extent that has the segment's first byte */
  guint n_used;
  gboolean was_used; /* TRUE if a request has ever used the segment; upstream can forbid the return
                        of such segments (_tarn_heap_stays ()) */
  /* The number of the segment's aliases (TarnAlias), that is, of old addresses where it is
   * mapped. */
  guint n_aliases;
  /* If the segment is idle: the number of the first event that the heap begins to record on the
   * segment's queue after the segment became idle.  When that event is done, no command uses the
   * segment. */
  guint64 idle_since;
  gint64 idle_at; /* if the segment is idle: the time when the segment became idle, or 0 if the heap
                     has not set the time yet */
  GList link;     /* the link in TarnHeapRange.pieces */
  GList idle_link; /* the link in TarnArena.idle, if the segment is idle */
};

/* An alias: the mapping of a segment at an old address, from which the segment has moved away.
 * Commands that the segment's queue got before the move may still use the old address.  The heap
 * records an event on the queue after the move, and removes the alias when that event is done. */
typedef struct
{
  TarnPiece *piece;
  TarnHeapRegion *region; /* the region (reserved addresses) that has the old address */
  guint64 start;          /* the old address of the segment */
  /* The number of the first event that the heap begins to record on the segment's queue after the
   * move.  When that event is done, no command uses the old address. */
  guint64 moved_at;
} TarnAlias;

/* A region: contiguous addresses of virtual memory that the heap has reserved.  A range (set of
 * segments) maps its segments there, one after another.  The field end is the address where the
 * range maps the next segment.  No segment is mapped at end or at a higher address: either these
 * addresses were never used, or the heap has unmapped the segments that were there.
 *
 * Invariant: the segment last_piece and the extent last_extent, if not NULL, end at the address in
 * the field end. */
struct _TarnHeapRegion
{
  /* The range for which the heap reserved this region; constant.  The range maps new segments here
   * until it gets a newer region.  The region can also have segments of other ranges of the same
   * queue, but last_piece always belongs to this range.  A thread in a read section uses the fields
   * last_piece and last_extent only while it holds the lock of the arena to which this range
   * belongs. */
  TarnHeapRange *range;
  TarnMemory addresses; /* the start of the reserved addresses */
  gsize size;           /* the size of the reserved addresses in bytes */
  guint64 end;
  guint n_pieces;    /* the number of segments and aliases (TarnAlias) in the region */
  gboolean has_lost; /* TRUE if the heap was freed while commands could still use a segment in the
                        region: the segment then stays mapped, and the heap does not release the
                        region's addresses */
  /* the segment whose last byte is just before the field end; NULL: none */
  TarnPiece *last_piece;
  TarnExtent *last_extent; /* the extent whose last byte is just before the field end; NULL: none */
};

/* A place where the heap can map a segment for a request: free addresses at the end of a region
 * (reserved addresses), or in a gap between mapped segments (place.c). */
typedef struct
{
  TarnHeapRegion *region;
  guint64 start, end; /* the first free address, and the address after the last one */
  /* The range's segments that are mapped right before and right after the free addresses; NULL if
   * there is none. */
  TarnPiece *before, *after;
  /* The extents right before (below) and right after (above) the free addresses.  If such an extent
   * is free, the request uses this extent too, and the extent's segments stay where they are.  NULL
   * if there is no such extent, or if the request does not use the extent. */
  const TarnExtent *below, *above;
  gboolean is_gap;    /* TRUE if the place is not the end of the region */
  gboolean goes_down; /* TRUE if the heap maps the segment at the end of the free addresses, and not
                         at their start */
  gsize missing;      /* the bytes that the heap must map for the request */
  gsize left_over;    /* the bytes that stay free beside the request's extent if the heap uses this
                         place */
} TarnPlace;

/* The kinds of ranges (sets of segments).  A range serves only requests of its kind: small, large
 * or huge ones. */
typedef enum
{
  TARN_RANGE_SMALL,
  TARN_RANGE_LARGE,
  TARN_RANGE_HUGE, /* used only in heaps whose segments cannot move (grow-parts.c) */
  TARN_N_RANGES
} TarnRangeKind;

/* The number of size classes (_tarn_free_index_get_class ()), into which free extents are sorted.
 * The classes cover every 64-bit size. */
#define TARN_FREE_CLASSES 896

/* Free extents are sorted into size classes.  From 512 << TARN_SUB_BITS bytes on, there are
 * 2^TARN_SUB_BITS classes between one power of two and the next.  Smaller extents have one class
 * for each multiple of 512 bytes. */
#define TARN_SUB_BITS 4

/* Computes the size class of a free extent of @size bytes.  A larger size never has a lower
 * class. */
static inline guint
_tarn_free_index_get_class (gsize size)
{
  guint64 units = size >> 9;
  guint exponent = 63 - (guint) __builtin_clzll (units | 1 << TARN_SUB_BITS);

  return ((exponent - TARN_SUB_BITS) << TARN_SUB_BITS)
         + (guint) (units >> (exponent - TARN_SUB_BITS));
}

/* An index of the free extents of a range by size (free-index.c).  Each size class has a treap, a
 * search tree that random priorities keep balanced.  Two levels of bits tell which classes have a
 * free extent.
 *
 * Invariants: bit c % 64 of bits[c / 64] is set if and only if roots[c] is not NULL.  Bit i of
 * words is set if and only if bits[i] is not 0. */
typedef struct
{
  guint64 words;
  guint64 bits[TARN_FREE_CLASSES / 64];
  TarnExtent *roots[TARN_FREE_CLASSES]; /* the root of each class's treap; NULL if the class has no
                                           extent */
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
  /* The region (reserved addresses) where the range maps new segments.  NULL if the memory is not
   * virtual, or if the range has never had a segment. */
  TarnHeapRegion *region;
  GList *old_regions; /* the regions (reserved addresses) where the range mapped new segments
                         earlier; segments may still be mapped there */
};

/* An event that the heap recorded on a queue.  The event is done when all commands are done that
 * the queue got before the event. */
typedef struct
{
  gpointer handle; /* the backend's event */
  /* The event's number.  The heap numbers a queue's events in the order in which it began to record
   * them (TarnHeapQueue.n_begun).  The last event of a queue that the heap forgets has the number
   * G_MAXUINT64 - 1. */
  guint64 number;
  /* The number of references to the event.  The queue has one reference while the event is in
   * TarnHeapQueue.events.  Each call that waits for the event, or asks the driver whether the event
   * is done, also has one. */
  guint n_refs;
} TarnHeapEvent;

/* An arena: the ranges from which some threads allocate for one queue.  A queue has one arena at
 * first, and gets more if threads often wait for the arena's lock.  Each thread then has one of the
 * queue's arenas as its own, and allocates from its own arena as long as that arena has an extent
 * that fits.  Any request that names the queue can reuse the free extents of all the queue's arenas
 * at once, because the queue executes its commands in order.
 *
 * Invariant: n_used is the number of extents in use in the arena's segments. */
struct _TarnArena
{
  /* The fields slabs and spare keep their values when the heap reuses the struct for another
   * queue. */
  TarnExtentSlab *slabs; /* the slabs of TarnExtent structs that the arena has allocated */
  TarnExtent *spare;     /* unused TarnExtent structs, linked by TarnExtent.next */

  TarnHeapQueue *queue; /* the queue to which the arena belongs; constant */
  TarnHeap *heap;       /* the heap to which the arena belongs; constant */

  gboolean is_taken;     /* atomic; the arena's lock: TRUE if a thread holds it */
  gboolean is_touched;   /* atomic; TRUE if the arena is in the list TarnHeap.touched */
  gsize uncounted_bytes; /* atomic; the change of the arena's bytes in use that the heap has not
                            added to TarnHeap.stats yet; a negative change wraps around */
  gssize noted_bytes;    /* a threshold: when uncounted_bytes exceeds noted_bytes, a thread computes
                            the heap's peak of bytes in use again */
  /* The part of TarnHeap.n_unnamed that the heap has not added to that field yet: the number of
   * extents that threads in read sections have taken from the arena, minus the number that they
   * have freed.  A negative number wraps around. */
  gsize n_unnamed;
  /* Atomic; a list, linked by TarnExtent.next.  A thread that frees an extent while another thread
   * holds the arena's lock adds the extent to this list.  A later holder of the lock frees the
   * extents. */
  TarnExtent *left_extents;
  TarnArena *next_touched; /* the next arena in the list TarnHeap.touched */
  GQueue idle; /* the arena's idle segments, linked by TarnPiece.idle_link; longest idle first */
  gsize unrecorded_bytes; /* the bytes of segments that became idle in this arena since a request to
                             the arena last asked the heap to record an event */
  guint n_taken; /* the number of extents taken from this arena since a request to the arena last
                    asked the heap to record an event */
  /* A copy of TarnHeap.n_growths, the number of times that the heap began to grow.  A thread makes
   * the copy when a request to this arena asks the heap to record an event, and when
   * _tarn_heap_look_after () runs for this arena.  If n_growths has another value now, the heap has
   * grown since. */
  guint seen_growths;
  guint n_takes;       /* the number of requests to this arena that threads made in read sections */
  guint n_waits;       /* the number of recent requests to this arena that waited for its lock */
  gboolean is_crowded; /* TRUE if so many requests waited for the arena's lock that the queue needs
                          more arenas */
  guint n_poor;        /* the number of recent requests for which the arena had no extent */
  guint poor_since;    /* the value that n_takes had when n_poor last began to count from 0 */
  guint n_shared; /* the number of times that the arena got segments from the queue's other arenas;
                     counts up to MAX_SHARED */
  guint helper;   /* atomic; an index in TarnHeapQueue.arenas: the arena that last served a request
                     for which this arena had no extent */
  TarnHeapRange ranges[TARN_N_RANGES];
  gsize n_used;
  gsize n_pieces; /* the number of segments in all ranges of the arena */
  GList link;     /* the link in TarnHeap.arenas */
} __attribute__ ((aligned (TARN_CACHE_LINES)));

/* The largest number of arenas that a queue can have. */
#define TARN_QUEUE_ARENAS 16

/* A queue that requests have named, such as a CUDA stream, and the arenas from which the heap
 * serves these requests.  The struct TarnHeap.nobody serves requests that name no queue.  No
 * command uses the free memory in the arenas of TarnHeap.nobody.
 *
 * When the program tells the heap to forget a queue, the heap records a last event on the queue.
 * The heap keeps the queue's arenas until a new queue takes them over, or until the arenas have no
 * segment left.
 *
 * Invariants:
 * - An idle segment of the queue is quiet (no command uses it) if both are true: its idle_since is
 *   less than n_done, and it has no alias (a mapping at an old address).
 * - n_done <= n_begun if handle is not NULL.
 * - n_done is G_MAXUINT64 for TarnHeap.nobody, and for a forgotten queue after its last event is
 *   done. */
struct _TarnHeapQueue
{
  /* Atomic; the queue's number, which no other queue of the heap has or had.  The number is 0 if
   * handle is NULL, or while a call is making the heap forget the queue.  Any thread may read this
   * field at any time, because the heap frees the struct only when the heap itself is freed.
   * Before that, the heap may reuse the struct for another queue. */
  guint64 number;

  TarnHeap *heap;
  gpointer handle; /* the backend's queue, to which the heap has a reference; NULL if the heap has
                      forgotten the queue, or if this struct is TarnHeap.nobody */
  /* If the heap has forgotten the queue: the backend's queue, to which the heap still has a
   * reference.  The heap releases this reference when the queue's last event is done and no call
   * uses the queue. */
  gpointer left;

  /* A thread changes arenas, n_arenas, has_shared_arena and threads only while it holds the heap's
   * lock and forbids read sections. */
  TarnArena *arenas[TARN_QUEUE_ARENAS];
  guint n_arenas;            /* atomic: the number of arenas, at least 1 */
  gboolean has_shared_arena; /* TRUE if two threads that use the queue have the same arena */
  /* A bit mask of the threads that use the queue: thread number n sets bit n % 64. */
  guint64 threads;

  /* The number of calls in progress that use the queue.  Such a call may release the heap's lock
   * and use the queue again later, so the heap does not free the queue meanwhile.  The field begins
   * a new cache line, because threads in read sections often read the fields above. */
  guint n_calls __attribute__ ((aligned (TARN_CACHE_LINES)));
  guint n_forgetting; /* the number of calls in progress that make the heap forget the queue */
  /* A copy of the field number, which is 0 while a call makes the heap forget the queue.  If the
   * call fails, it sets the field number to this copy again. */
  guint64 former_number;
  /* The number that the queue's next event will get.  It grows by 1 when the heap begins to record
   * an event, or when a new queue takes over the struct of a forgotten queue.  It changes only
   * while the heap forbids read sections. */
  guint64 n_begun;
  guint64 n_done; /* the number of the latest event that the heap knows to be done, plus 1 */
  gboolean has_unrecorded; /* atomic; TRUE if a segment became idle or moved since the heap last
                              began to record an event on the queue */
  /* The number of calls that named the queue while has_unrecorded was TRUE.  A call that finds a
   * multiple of PASSES (or of PASSES_OF_ALIASES) here may record an event (heap-event.c).
   * _tarn_heap_look_after () sets the number to 0, so that its own call may record one. */
  guint n_passed;
  /* The events (TarnHeapEvent) on the queue that may not be done yet, oldest first. */
  GQueue events;
  /* The aliases (TarnAlias: mappings at old addresses) of the queue's segments, oldest first. */
  GQueue aliases;

  gboolean is_watched;  /* TRUE if the queue is in the list TarnHeap.watched */
  GList link;           /* the link in TarnHeap.all_queues */
  GList watched_link;   /* the link in TarnHeap.watched */
  GList forgotten_link; /* the link in TarnHeap.forgotten_queues while the heap has forgotten the
                           queue */
};

/* The decision whether the heap moves idle segments for a request that needs more memory
 * (TARN_MOVES_PIECES), or allocates fresh ones (TARN_MOVES_NONE).  churn.c makes the decision at
 * most once for each request; until then the value is TARN_MOVES_UNDECIDED. */
typedef enum
{
  TARN_MOVES_UNDECIDED,
  TARN_MOVES_PIECES,
  TARN_MOVES_NONE
} TarnHeapMoves;

/* The state of one request for which the heap grows.  The heap may add several segments for the
 * request, one after another. */
typedef struct
{
  TarnHeapMoves moves;
  gboolean has_begun;  /* TRUE if the heap has added memory for this request before, or tried to */
  gboolean has_probed; /* TRUE if a test allocation for this request has shown that upstream has all
                          the bytes that idle segments cannot supply */
  gboolean skips_gaps; /* TRUE if the idle segments did not fit into the best gap (place.c), so the
                          heap maps memory only at the end of the region */
  gboolean
      has_awaited; /* TRUE if the host has waited for queues that the program no longer names */
} TarnHeapAttempt;

/* Two budgets, which bound how often segments move and how often pools flush thread caches
 * (churn.c).  They grow as time passes and as the heap's peak of bytes in use rises.  While a
 * budget is spent, the heap may use extra memory instead. */
typedef struct
{
  /* The budget of moves.  A request that moves segments subtracts 1, or in virtual memory the
   * number of queues (get_cost_of_moves ()). */
  guint n_moves;
  /* The budget of flushes: the number of requests that may still make pools flush thread caches. */
  guint n_flushes;
  gint64 at; /* the time when both budgets last grew because time had passed */
  /* The peak of bytes in use that the heap had when the budgets were last updated because of the
   * peak.  The next such update is due when the peak exceeds this value by PEAK_STEP or more
   * (churn.c). */
  guint64 peak;
  /* The bytes by which the heap may exceed its usual maximum.  A request can raise this number if
   * too little is left of the budget that it needs, n_moves or n_flushes. */
  guint64 extra;
  /* The number of requests that needed more extra bytes (the field extra) than the usual bound
   * allows.  Counted only in a heap with more than two arenas (go_beyond ()). */
  guint n_beyond;
  guint turns; /* the number of queues that need memory by turns (_tarn_heap_note_turns ()) */
} TarnHeapChurn;

/* The functions and constants that tell how a heap gets memory from upstream.  grow-virtual.c
 * defines them for heaps of virtual memory, and grow-parts.c for heaps whose segments cannot
 * move. */
typedef struct
{
  gsize max_small; /* the size in bytes of the largest small request */
  gsize max_held;  /* the size in bytes of the largest block that a pool over the heap may cache */
  /* A callback that returns the kind of a request: small, large or huge.  An arena has a range (set
   * of segments) for requests of each kind.  If this field is NULL, requests of at most max_small
   * bytes are small, and all others are large. */
  TarnRangeKind (*choose) (const TarnHeap *heap, gsize size);
  /* A callback that returns the size of the largest request whose segment may also serve other
   * requests.  If this field is NULL, there is no upper bound. */
  gsize (*get_max_shared) (const TarnHeap *heap);
  /* A callback that computes the most bytes that the heap should have while it serves a request of
   * @size bytes.  If the heap has that many bytes, it uses idle segments instead of fresh
   * memory. */
  gsize (*get_target) (const TarnHeap *heap, gsize size);
  /* A callback that adds a segment to @range, which has no free extent for a request of @size
   * bytes.  Returns TRUE if the caller should search the range again.  The caller holds the heap's
   * lock.  The callback releases the lock during driver calls. */
  gboolean (*grow) (TarnHeapRange *range, gsize size, TarnHeapAttempt *attempt, GError **error);
  /* A callback that returns TRUE if a request should use @extent, which is free and large enough.
   * If the callback returns FALSE, the heap searches elsewhere or grows.  If this field is NULL,
   * each extent that is large enough suits. */
  gboolean (*suits) (const TarnHeapRange *range, const TarnExtent *extent, gsize size);
  /* A callback that returns a segment's memory to upstream, and frees the struct.  The caller has
   * removed the segment from its range, and does not hold the heap's lock. */
  void (*release) (TarnHeap *heap, TarnPiece *piece);
} TarnHeapGrowth;

extern const TarnHeapGrowth _tarn_heap_virtual_growth __attribute__ ((visibility ("hidden")));
extern const TarnHeapGrowth _tarn_heap_parts_growth __attribute__ ((visibility ("hidden")));

/* A heap.  _tarn_heap_assert_valid () checks the invariants below, and those of extents, segments,
 * regions, arenas and queues.  All of them hold when a thread has just taken the heap's lock and
 * forbidden read sections:
 *
 *     stats.upstream_bytes == stats.used_bytes + stats.free_bytes + lent_bytes, plus, while
 *                             is_changing is set, bytes on their way to or from upstream
 *     stats.used_bytes     == sum of size over extents in use
 *     stats.free_bytes     == sum of size over free extents
 *     stats.pieces         == number of segments
 *     the field table contains each extent in use, except n_unnamed of them, and nothing else
 *
 * The lock guards all fields that are not constant:
 * - To change arenas, or anything else that threads in read sections use, a thread holds the heap's
 *   lock and forbids read sections; or it is in a read section and holds the arena's lock.
 * - To change the table, the queues and their events, a thread holds the heap's lock, but need not
 *   forbid read sections (_tarn_heap_lock_open ()).
 * - A thread that adds or removes segments sets is_changing before, and clears it afterwards.  No
 *   other thread adds or removes segments meanwhile.
 * - No thread holds the lock while it calls a function of upstream, except backing_stays (). */
struct _TarnHeap
{
  TarnAllocator base;      /* must be first, so that the heap can be cast to an allocator */
  TarnAllocator *upstream; /* the allocator of the segments, to which the heap has a reference */
  const TarnHeapGrowth *growth;
  gsize alignment;   /* the alignment of extents' sizes and addresses in bytes: a power of two */
  gsize limit_bytes; /* the limit that the program set for the heap; 0 if there is none */
  gboolean follows_pool; /* TRUE if the limit of the pool over the heap (pool_limit) bounds the heap
                            as well */
  gboolean has_addresses;  /* TRUE if a user's memory is an address, which the heap computes; FALSE
                              if the driver makes a sub-buffer of a segment for each extent */
  gboolean frees_in_order; /* TRUE if the heap may return segments to upstream while commands still
                              use them */
  gsize growth_bytes; /* the least size of a segment in bytes that the program set; 0 if the heap
                         chooses the size */
  guint n_pools;      /* atomic: the number of pools over the heap */
  gint64 idle_time;   /* the time in microseconds after which the heap returns an idle segment to
                         upstream; G_MAXINT64 if it never does */

  /* Threads in read sections read the fields from door to peak_in_visits.  These fields have their
   * own cache lines, because threads often write other fields of the heap. */
  TarnDoor door __attribute__ ((aligned (TARN_CACHE_LINES)));
  gboolean has_visitors; /* TRUE if threads use read sections; a thread that releases the heap's
                            lock then allows read sections again */
  /* A thread in a read section asks the heap to record an event on an arena's queue only if
   * segments of the arena have become idle since the last time, and these have at least this number
   * of bytes in all. */
  gsize event_bytes;
  guint n_growths; /* the number of times that the heap began to grow because a request found no
                      extent */
  /* The size of the largest request that may take any free extent.  For a larger request, the heap
   * first checks how many bytes the request would strand, that is, leave free but not returnable
   * to upstream (spare.c). */
  gsize max_unchecked;
  /* The most bytes that the heap should still get from upstream (_tarn_heap_get_room ()).  If a
   * request finds no extent in its thread's own arena, it usually takes one from its queue's other
   * arenas.  But if several threads use the queue, and the request needs at most this many bytes,
   * the heap grows instead. */
  gsize room_bytes;
  guint64 peak_in_visits
      TARN_WHOLE; /* atomic: the most bytes in use that threads in read sections have computed since
                     read sections were last forbidden; 0 if no thread has computed any */
  /* Atomic; a list, linked by TarnArena.next_touched: the arenas that threads in read sections have
   * changed since read sections were last forbidden.  Empty while they are forbidden.  The fields
   * uncounted_bytes, n_unnamed and left_extents of all other arenas are 0. */
  TarnArena *touched;

  /* The heap's lock.  A thread that holds it usually forbids read sections too. */
  TarnMutex lock __attribute__ ((aligned (TARN_CACHE_LINES)));
  TarnCond changed; /* the condition variable that is signalled when is_changing becomes FALSE */
  gboolean is_changing; /* TRUE if a call that adds or removes segments is in progress */
  /* The number of threads that wait until is_changing is FALSE.  If no thread waits, the heap does
   * not broadcast to them, and so saves a system call. */
  guint n_waiting;
  TarnHeapQueue *nobody;       /* the TarnHeapQueue for requests that name no queue */
  GHashTable *queues;          /* maps TarnHeapQueue.handle to the TarnHeapQueue */
  TarnHeapQueue *latest_queue; /* the queue that a call looked up last; NULL if there is none, or if
                                  the heap has forgotten or freed that queue */
  /* All queues, also the forgotten ones and the struct "nobody".  Only the thread that has set
   * is_changing removes a queue. */
  GQueue all_queues;
  /* The queues that the heap looks through when it grows, linked by TarnHeapQueue.watched_link.
   * Each queue that has an idle segment, an alias, an event, or no segment at all is in the list.
   * A queue that need not be in the list may stay there until the heap has grown.  A heap can have
   * thousands of queues, but usually only few of them are in the list.  Only the thread that has
   * set is_changing removes a queue. */
  GQueue watched;
  GQueue forgotten_queues; /* the forgotten queues, in the order in which the heap will ask whether
                              their last events are done */
  GQueue arenas;           /* the arenas of all queues, linked by TarnArena.link */
  /* Unused TarnHeapQueue structs.  The heap frees them only when the heap itself is freed, because
   * pools may still have references (TarnArenaRef) to them. */
  GSList *dead_queues;
  GSList *dead_arenas; /* unused TarnArena structs; the heap frees them only when the heap itself is
                          freed, because other arenas may use TarnExtent structs from slabs of these
                          arenas */
  guint64 last_number; /* the number (TarnHeapQueue.number) of the queue that the heap added last */
  GHashTable *table;   /* the set of TarnExtents in use, hashed by TarnExtent.memory */
  /* The number of extents in use that the field table does not have.  Such an extent was taken
   * by a thread in a read section, or a thread is about to add it to the table or to free it. */
  gsize n_unnamed;
  guint64 n_made; /* the number of segments that the heap has made, including those returned */
  guint n_reservations; /* the number of reservations (tarn_pool_reserve ()) in progress */
  gsize lost_bytes; /* the bytes of lost extents: extents in use that the program will never free */
  gsize lent_bytes; /* the bytes that the heap has lent to other heaps (lend.c) */
  gsize peak_with_lent; /* the highest sum of stats.used_bytes and lent_bytes */
  gsize pool_limit; /* the limit in bytes that comes from the pool followed_pool; 0 if none does */
  /* The pool over the heap whose limit bounds the heap as well: the pool that the program made
   * last, or whose limit it set last.  NULL if the program has released this pool, or if
   * follows_pool is FALSE.  The heap has no reference to the pool: it only compares the pointer. */
  gconstpointer followed_pool;
  gsize full_bytes;  /* a limit that the heap learnt when upstream refused memory (spare.c): the
                        bytes that the heap had, plus the bytes that upstream refused; G_MAXSIZE if
                        there is none */
  gsize peak_lately; /* the peak of bytes in use since peak_at */
  gsize peak_before; /* the peak of bytes in use in the period that ended at peak_at */
  gint64 peak_at; /* the time when the heap last began a new period for its peak of bytes in use; a
                     period lasts for idle_time or longer (spare.c) */
  TarnHeapChurn churn;
  gint64 aliases_at;   /* the time from which the heap maps segments at a second address; later than
                          now if upstream failed to do so (_tarn_heap_note_no_alias ()) */
  gboolean is_short;   /* TRUE if upstream ran out of memory when the heap last grew; in a heap of
                          virtual memory, stays TRUE until a test allocation succeeds.  The heap
                          ignores this field TARN_SHORT_TIME after short_at. */
  gint64 short_at;     /* the time when upstream last ran out of memory */
  gboolean is_unready; /* TRUE if upstream allocated memory, but the host failed to wait until the
                          memory was ready; only the thread that set is_changing uses this field */
  gint64 look_at; /* the time of the next check for segments that have been idle for idle_time */
  guint64 next_start; /* if segments cannot move: the number that the heap's next segment gets as
                         its TarnPiece.start */
  guint64 generation TARN_WHOLE; /* atomic: the number of times that the heap began to unmap memory
                                    or to return memory to upstream */
  TarnHeapStats stats;
};

/* Constants that bound the extra memory that a heap may have for its arenas.  Without extra memory,
 * arenas that need little would take memory from each other again and again.  The bound is the
 * larger one of two numbers:
 * - TARN_ARENA_ROOM bytes for each arena (_tarn_heap_count_for_room ()) after the second, but at
 *   most the heap's peak of bytes in use divided by TARN_ARENA_ROOM_SHARE.  So this number is 0 in
 *   a heap that has only the arena of one queue and the arena for requests without a queue.
 * - TARN_ARENA_ROOM bytes for each of the queues that need memory by turns (TarnHeapChurn.turns),
 *   or for each queue that the heap has not forgotten if these are fewer. */
#define TARN_ARENA_ROOM ((gsize) 12 << 20)
#define TARN_ARENA_ROOM_SHARE 2

/* The first arena of each queue counts as one arena when the heap computes how much memory it may
 * have.  The further arenas of the queues count less, because the arenas of a queue can use each
 * other's memory: TARN_FURTHER_ARENAS of them count as one arena. */
#define TARN_FURTHER_ARENAS 4

/* Computes the number of arenas for which the heap may have extra memory: one for each queue, plus
 * the number of the other arenas divided by TARN_FURTHER_ARENAS. */
static inline guint
_tarn_heap_count_for_room (const TarnHeap *heap)
{
  guint n_queues = heap->all_queues.length;

  return n_queues + (heap->arenas.length - n_queues) / TARN_FURTHER_ARENAS;
}

/* Returns the number of the heap's queues that it has not forgotten.  Leaves out heap->nobody, the
 * struct for requests without a queue. */
static inline guint
_tarn_heap_count_queues (const TarnHeap *heap)
{
  return heap->all_queues.length - 1 - heap->forgotten_queues.length;
}

/* Computes the extra bytes that a heap may have for its arenas (TARN_ARENA_ROOM). */
static inline guint64
_tarn_heap_get_room_of_arenas (const TarnHeap *heap, guint64 peak)
{
  /* The number n also counts the arena for requests without a queue. */
  guint64 n = _tarn_heap_count_for_room (heap);
  guint64 n_extra = n > 2 ? n - 2 : 0;
  guint n_queues = _tarn_heap_count_queues (heap);

  return MAX (MIN (n_queues, heap->churn.turns) * TARN_ARENA_ROOM,
              MIN (n_extra * TARN_ARENA_ROOM, peak / TARN_ARENA_ROOM_SHARE));
}

/* Computes the most bytes that a heap should have.  These are the sum of:
 * - the heap's peak of bytes in use, which includes a new request of @size bytes
 * - this peak divided by @share
 * - @room bytes
 * - extra bytes for the heap's arenas (TARN_ARENA_ROOM)
 * - the extra bytes that the heap may use to move fewer segments (TarnHeapChurn.extra)
 * - the bytes lent to other heaps */
static inline gsize
_tarn_heap_get_target (const TarnHeap *heap, gsize size, gsize share, gsize room)
{
  guint64 used = heap->stats.used_bytes;
  guint64 peak = MAX ((guint64) heap->stats.peak_used_bytes, used + size);
  guint64 of_arenas = _tarn_heap_get_room_of_arenas (heap, peak);
  guint64 more = peak / share + room + of_arenas + heap->churn.extra + heap->lent_bytes;

  return (gsize) MIN (peak + MIN (more, G_MAXUINT64 - peak), G_MAXSIZE);
}

/* A divisor of the heap's limit.  A request for much of the limit (spare.c) is a request for more
 * bytes than the limit divided by TARN_MUCH_SHARE. */
#define TARN_MUCH_SHARE 512

/* Functions of take.c, which find extents for requests.  The caller holds the heap's lock.
 * _tarn_heap_take () and _tarn_heap_take_aligned () release the lock during driver calls and
 * waits. */
void _tarn_heap_put (TarnHeap *heap, TarnExtent *extent);
TarnExtent *_tarn_heap_take_own (TarnHeapQueue *queue, gsize size, gboolean takes_any);
TarnExtent *_tarn_heap_take (TarnHeapQueue *queue, gsize size, gsize alignment, GError **error);
TarnExtent *_tarn_heap_take_aligned (TarnHeapQueue *queue, gsize size, gsize alignment,
                                     GError **error);

/* A function of heap.c that adds an extent to TarnHeap.table.  The caller holds the heap's lock. */
void _tarn_heap_remember (TarnExtent *extent, TarnMemory memory);

/* Functions of heap-door.c, for the heap's lock and read sections.  The caller of the first three
 * functions does not hold the heap's lock. */
void _tarn_heap_lock (TarnHeap *heap);
void _tarn_heap_lock_open (TarnHeap *heap);
gboolean _tarn_heap_trylock (TarnHeap *heap);
/* The caller of the next five functions holds the heap's lock. */
void _tarn_heap_close (TarnHeap *heap);
void _tarn_heap_unlock (TarnHeap *heap);
void _tarn_heap_wait (TarnHeap *heap);
void _tarn_arena_count (TarnArena *arena);
void _tarn_arena_count_unnamed (TarnArena *arena);
/* The caller of _tarn_arena_drain () holds the heap's lock, or it holds the arena's lock in a read
 * section. */
void _tarn_arena_drain (TarnArena *arena);

/* Functions of arena.c, for the arenas of queues.  The caller holds the heap's lock. */
TarnExtent *_tarn_queue_take (TarnArena *arena, gsize size, gboolean takes_any);
/* The caller of _tarn_arena_note_wait () holds the heap's lock, or it holds the arena's lock in a
 * read section. */
gboolean _tarn_arena_note_wait (TarnArena *arena);
void _tarn_arena_relieve (TarnArena *arena);

/* Functions of extent.c, which split and merge extents.  The caller holds the heap's lock and has
 * forbidden read sections, or it holds the arena's lock in a read section. */
TarnExtent *_tarn_range_take_quickly (TarnHeapRange *range, gsize size);
void _tarn_range_put_quickly (TarnHeapRange *range, TarnExtent *extent);

/* A function of lend.c, for heaps that lend virtual memory. */
void _tarn_heap_set_lending (const TarnAllocator *upstream, TarnAllocatorOps *ops);

/* Functions of spare.c, for free bytes in segments in use.  The caller holds the heap's lock. */
gsize _tarn_heap_get_most (const TarnHeap *heap);
gsize _tarn_heap_get_share (const TarnHeap *heap, gsize share);
gboolean _tarn_heap_is_much (const TarnHeap *heap, gsize size);
gsize _tarn_heap_get_spare (const TarnHeap *heap, gsize size);
gboolean _tarn_heap_may_share (const TarnHeap *heap, gsize size);
gboolean _tarn_heap_may_share_piece (const TarnHeap *heap, const TarnPiece *piece, gsize size);
gsize _tarn_heap_get_max_unchecked (const TarnHeap *heap);
void _tarn_heap_age_peaks (TarnHeap *heap);
void _tarn_heap_note_short (TarnHeap *heap);
void _tarn_heap_note_full (TarnHeap *heap, gsize size);
void _tarn_heap_note_growth (TarnHeap *heap);

/* Functions of free-index.c, which finds free extents by size. */
void _tarn_free_index_add (TarnFreeIndex *index, TarnExtent *extent);
void _tarn_free_index_remove (TarnFreeIndex *index, TarnExtent *extent);
TarnExtent *_tarn_free_index_take (TarnFreeIndex *index, gsize size);
TarnExtent *_tarn_free_index_take_aligned (TarnFreeIndex *index, gsize size, gsize alignment);
gboolean _tarn_free_index_may_have (const TarnFreeIndex *index,
                                    gsize size); /* _tarn_free_index_may_have () needs no lock */
const TarnExtent *_tarn_free_index_get_largest (const TarnFreeIndex *index);

/* Functions of heap-queue.c, for the heap's queues.  The caller holds the heap's lock.  The
 * functions that enter, drop or free queues release the lock during driver calls. */
TarnHeapQueue *_tarn_heap_queue_new (TarnHeap *heap, gpointer handle);
void _tarn_queue_watch (TarnHeapQueue *queue);
TarnPiece *_tarn_heap_next_idle (const TarnHeap *heap, const TarnPiece *piece);
void _tarn_queue_note_thread (TarnHeapQueue *queue);
void _tarn_queue_add_arenas (TarnHeapQueue *queue);
TarnHeapQueue *_tarn_heap_find_queue (TarnHeap *heap, gpointer handle);
TarnHeapQueue *_tarn_heap_enter_queue (TarnHeap *heap, gpointer handle, GError **error);
void _tarn_heap_drop_queues (TarnHeap *heap);
void _tarn_heap_free_queue (TarnHeap *heap, TarnHeapQueue *queue);

/* Functions of heap-event.c, for events on queues.  The caller holds the heap's lock.  The
 * functions release the lock during driver calls.  Three functions make no driver calls:
 * _tarn_piece_is_quiet (), _tarn_queue_has_idle () and _tarn_heap_count_unrecorded (). */
gboolean _tarn_piece_is_quiet (const TarnPiece *piece);
gboolean _tarn_queue_has_idle (const TarnHeapQueue *queue);
gboolean _tarn_queue_record_last_event (TarnHeapQueue *queue, GError **error);
void _tarn_queue_drop_events (TarnHeapQueue *queue);
void _tarn_queue_record_if_idle (TarnHeapQueue *queue);
void _tarn_queue_ask (TarnHeapQueue *queue);
gboolean _tarn_queue_await (TarnHeapQueue *queue);
void _tarn_heap_poll_events (TarnHeap *heap);
gboolean _tarn_heap_await_idle (TarnHeap *heap);
gsize _tarn_heap_count_unrecorded (const TarnHeap *heap);

/* Functions of churn.c, which bound how often segments move.  The caller of the last two
 * functions holds the heap's lock. */
void _tarn_heap_init_churn (TarnHeap *heap);
gboolean _tarn_heap_pay_for_moves (TarnHeap *heap, gsize missing, gsize target);
gsize _tarn_heap_get_room (const TarnHeap *heap);

/* Functions of alias.c, for segments mapped at two addresses.  The caller holds the heap's lock.
 * _tarn_heap_end_aliases () releases the lock during driver calls. */
gboolean _tarn_piece_can_move_to (const TarnPiece *piece, const TarnHeapRange *range);
void _tarn_piece_add_alias (TarnPiece *piece, TarnHeapQueue *queue, TarnHeapRegion *region,
                            guint64 start);
void _tarn_queue_lose_aliases (TarnHeapQueue *queue);
void _tarn_heap_note_no_alias (TarnHeap *heap, const GError *error);
void _tarn_heap_end_aliases (TarnHeap *heap);

/* More functions of extent.c.  The caller holds the heap's lock and has forbidden read sections. */
TarnExtent *_tarn_range_take (TarnHeapRange *range, gsize size, gboolean takes_any);
TarnExtent *_tarn_range_take_aligned (TarnHeapRange *range, gsize size, gsize alignment);
void _tarn_range_put (TarnHeapRange *range, TarnExtent *extent);
TarnExtent *_tarn_range_narrow (TarnExtent *extent, gsize offset, gsize size);
void _tarn_range_add_piece (TarnHeapRange *range, TarnPiece *piece, const TarnPlace *place);
void _tarn_range_add_busy_piece (TarnHeapRange *range, TarnPiece *piece, const TarnPlace *place);
void _tarn_range_cut_piece (TarnPiece *piece, gboolean stays_mapped);
void _tarn_range_take_over (TarnHeapRange *range, TarnPiece *first, TarnPiece *last);
TarnExtent *_tarn_piece_get_last_extent (const TarnPiece *piece);
void _tarn_arena_free_slabs (TarnArena *arena);
gsize _tarn_heap_get_idle_bytes (const TarnHeap *heap);
gsize _tarn_heap_get_stranded_by_huge (const TarnHeap *heap);
gsize _tarn_arena_get_bytes (const TarnArena *arena);
guint _tarn_heap_count_idle (const TarnHeap *heap);

/* A function of share-out.c, which moves segments between the arenas of a queue.  The caller holds
 * the heap's lock and has forbidden read sections. */
void _tarn_arena_share_out (TarnArena *arena);

/* Functions of grow.c, which add and return segments.  The caller holds the heap's lock.  The first
 * seven functions release the lock during driver calls and waits. */
gboolean _tarn_heap_grow (TarnHeapRange *range, gsize size, TarnHeapAttempt *attempt,
                          GError **error);
gboolean _tarn_heap_await_more (TarnHeap *heap, const GError *error);
gsize _tarn_heap_trim (TarnHeap *heap, gsize keep_bytes);
void _tarn_heap_expire (TarnHeap *heap);
gboolean _tarn_heap_begin_change (TarnHeap *heap, gsize size, GError **error);
void _tarn_heap_end_change (TarnHeap *heap);
void _tarn_queue_release_unused (TarnHeapQueue *queue, guint64 n_made);
/* More functions of grow.c.  The caller of these six functions holds the heap's lock.  Only
 * _tarn_heap_release_idle () releases the lock, during driver calls. */
gsize _tarn_heap_get_limit (const TarnHeap *heap);
gboolean _tarn_heap_has_room (const TarnHeap *heap, gsize size, GError **error);
void _tarn_heap_note_peak (TarnHeap *heap);
TarnPiece *_tarn_piece_new (TarnHeap *heap, TarnMemory memory, gsize size);
gboolean _tarn_piece_can_go (const TarnPiece *piece);
gsize _tarn_heap_release_idle (TarnHeap *heap, TarnPiece *piece);

/* A function of place.c, which finds addresses for a segment of virtual memory.  The caller holds
 * the heap's lock, has forbidden read sections, and has set is_changing. */
void _tarn_range_find_place (const TarnHeapRange *range, gsize size, gboolean is_first,
                             TarnPlace *place);

/* Functions of grow-virtual.c that release reserved addresses.  The caller of
 * _tarn_heap_release_regions () holds the heap's lock, and the function releases the lock during
 * driver calls.  The caller of _tarn_range_clear () does not hold the lock, and has removed the
 * range's arena from TarnHeap.arenas. */
void _tarn_heap_release_regions (TarnHeap *heap);
void _tarn_range_clear (TarnHeapRange *range);

/* A function of heap-stats.c that adds numbers to an error.  The caller holds the heap's lock. */
void _tarn_heap_describe_free (const TarnHeap *heap, GError **error);

/* Functions of heap-describe.c, which describe a heap to recordings.  The caller of the first
 * function holds the heap's lock. */
void _tarn_heap_record_part (const TarnExtent *extent);
/* The next four functions are callbacks, which TarnAllocatorClass describes. */
void _tarn_heap_freeze (TarnAllocator *heap);
void _tarn_heap_thaw (TarnAllocator *heap);
void _tarn_heap_tell (TarnAllocator *heap, TarnListener *listener);
void _tarn_heap_tell_counters (TarnAllocator *heap, TarnListener *listener);

/* A function of heap-check.c, which checks the heap's invariants.  The caller holds the heap's lock
 * and has forbidden read sections. */
void _tarn_heap_assert_valid (TarnHeap *heap);

/* Asserts that the caller holds the heap's lock and has forbidden read sections.  Then no other
 * thread can use the heap's arenas. */
static inline void
_tarn_heap_assert_closed (const TarnHeap *heap)
{
  _tarn_assert_locked (&heap->lock);
  g_assert (_tarn_door_is_closed (&heap->door));
}

/* Checks the invariants of a heap in builds with --enable-debug=full, and does nothing in other
 * builds.  The heap's functions call this function at the end of each operation, while they hold
 * the heap's lock. */
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

/* Increments the heap's generation: the number of times that the heap began to unmap memory or to
 * return memory to upstream.  Call this right before the heap unmaps or returns memory that
 * requests may have used.  The caller holds the heap's lock, and has removed that memory from the
 * ranges, so that no later request can get it. */
static inline void
_tarn_heap_begin_generation (TarnHeap *heap)
{
  _tarn_assert_locked (&heap->lock);
  __atomic_store_n (&heap->generation, heap->generation + 1, __ATOMIC_RELEASE);
}

/* Returns the calling thread's own arena of a queue.  The arena's index is the thread's number
 * modulo the number of the queue's arenas, so that threads are spread over the arenas. */
static inline TarnArena *
_tarn_queue_get_arena (const TarnHeapQueue *queue)
{
  guint n = __atomic_load_n (&queue->n_arenas, __ATOMIC_ACQUIRE);

  return queue->arenas[TARN_LIKELY (n == 1) ? 0 : _tarn_current_thread->number % n];
}

/* Returns the range (set of segments) of an arena that serves requests of @size bytes. */
static inline TarnHeapRange *
_tarn_arena_get_range (TarnArena *arena, gsize size)
{
  const TarnHeapGrowth *growth = arena->heap->growth;
  TarnRangeKind kind = size <= growth->max_small ? TARN_RANGE_SMALL : TARN_RANGE_LARGE;

  if (TARN_UNLIKELY (growth->choose != NULL))
    kind = growth->choose (arena->heap, size);
  return &arena->ranges[kind];
}

/* A fresh segment usually has as many bytes as its arena already has.  In a heap with more than
 * TARN_FEW_ARENAS arenas, a fresh segment has only the arena's bytes divided by
 * TARN_SHARE_OF_ARENA, because the unused memory of many arenas adds up. */
#define TARN_FEW_ARENAS 4
#define TARN_SHARE_OF_ARENA 4

/* Gets the number of bytes by which an arena should grow.  The result can be 0 or very large, so
 * the caller must apply a lower and an upper bound. */
static inline gsize
_tarn_arena_get_step (const TarnArena *arena)
{
  return _tarn_arena_get_bytes (arena)
         / (arena->heap->arenas.length > TARN_FEW_ARENAS ? TARN_SHARE_OF_ARENA : (gsize) 1);
}

/* Returns TRUE if upstream has run out of memory lately. */
static inline gboolean
_tarn_heap_is_short (const TarnHeap *heap)
{
  return heap->is_short && _tarn_clock_now () - heap->short_at < TARN_SHORT_TIME;
}

/* Returns TRUE while upstream forbids the heap to unmap, move or return any segment that a request
 * has used, even if the segment is idle now. */
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

/* Iterates over the idle segments of all queues, queue by queue.  In each arena, begins with the
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

/* Returns how many bytes of an extent come before its first aligned byte.  A byte is aligned if its
 * address is a multiple of @alignment.  If the heap does not know addresses, the byte's offset in
 * the segment counts instead. */
static inline gsize
_tarn_extent_get_gap (const TarnExtent *extent, gsize alignment)
{
  const TarnPiece *piece = extent->piece;
  guint64 place = piece->range->heap->has_addresses ? _tarn_extent_get_address (extent)
                                                    : extent->start - piece->start;

  return (gsize) (-place & (alignment - 1));
}

#endif
