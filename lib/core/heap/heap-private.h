/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A heap takes large pieces of memory from another allocator, and makes extents of them: stretches
 * that are in use, or free.
 *
 *     heap.c          the allocator that it is: requests and frees
 *     extent.c        splitting and joining; which piece is idle
 *     tree.c          free extents by their sizes
 *     grow.c          where the next piece comes from
 *     grow-virtual.c  ... pieces of virtual memory, which can move to other addresses
 *     grow-parts.c    ... pieces as the upstream allocator gives them
 *     heap-stats.c    what it says of itself
 *     heap-check.c    the invariants, executed
 *
 * Small requests have a range of their own, so that their extents do not lie between large ones.
 * Each range serves a request from the smallest free extent that is large enough, at the lowest
 * address where several are, and always splits it.
 *
 * Pieces of virtual memory are mapped one behind the other, so that extents go on from one to the
 * next.  A piece without an extent in use is idle: it can move to the end of the range that needs
 * memory, or of another one, and leaves a gap behind.  That is why a heap hardly ever has more than
 * was in use at most: what is free in pieces that are in use is all that it can lose. */

#ifndef TARN_HEAP_PRIVATE_H
#define TARN_HEAP_PRIVATE_H

#include <tarn/heap.h>

#include "allocator/allocator-private.h"
#include "common/lock-private.h"

typedef struct _TarnHeap TarnHeap;
typedef struct _TarnHeapRange TarnHeapRange;
typedef struct _TarnHeapRegion TarnHeapRegion;
typedef struct _TarnPiece TarnPiece;
typedef struct _TarnExtent TarnExtent;

/* A stretch of memory.
 *
 * Invariants: size > 0; two neighbours are not both free. */
struct _TarnExtent
{
  guint64 start; /* its address; of parts a number of the heap's own */
  gsize size;
  TarnPiece *piece; /* that has its first byte */
  TarnExtent *before,
      *after; /* neighbours without a gap; NULL: none.  after also links spare ones */
  gboolean is_free;
  guint32 priority;           /* in the tree; constant, by chance */
  TarnExtent *less, *greater; /* in the tree of its range, if it is free */
  TarnMemory memory;          /* in use: what the user has */
};

/* What came from upstream in one call.
 *
 * Invariants: n_used is the number of extents in use that have bytes in it; it is in its heap's
 * idle pieces if that is 0. */
struct _TarnPiece
{
  guint64 start;
  gsize size;
  TarnMemory memory;         /* what was allocated; of virtual memory the backing */
  TarnHeapRange *range;      /* that it is in */
  TarnHeapRegion *region;    /* of virtual memory */
  TarnPiece *before, *after; /* neighbours without a gap; NULL: none */
  TarnExtent *extent;        /* that has its first byte */
  guint n_used;
  GList link;      /* in its range's pieces */
  GList idle_link; /* in the heap's */
};

/* Addresses that were reserved.  Those from end on were never used, or the piece there has gone.
 *
 * Invariants: no piece is beyond end; last_piece ends there, and last_extent. */
struct _TarnHeapRegion
{
  TarnMemory addresses;
  gsize size;
  guint64 end;
  guint n_pieces;
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

/* Pieces that serve requests of the same kind. */
struct _TarnHeapRange
{
  TarnHeap *heap;
  TarnRangeKind kind;
  TarnExtent *root;       /* of the tree of free extents: by size, then by start */
  GQueue pieces;          /* of TarnPiece, by link */
  TarnHeapRegion *region; /* that it grows in; NULL: none as yet */
  GList *old_regions;     /* that still have pieces */
};

/* How a heap grows. */
typedef struct
{
  /* Chooses the range for a request. */
  TarnRangeKind (*choose) (const TarnHeap *heap, gsize size);
  /* Adds a piece to a range that has no free extent for a request.  TRUE: to look again may help.
   * The lock is given up meanwhile. */
  gboolean (*grow) (TarnHeapRange *range, gsize size, GError **error);
  /* Gives a piece back that was cut out.  The lock is not held. */
  void (*release) (TarnHeap *heap, TarnPiece *piece);
  /* Gives back what a range does not need any more since pieces have gone from it.  The lock is
   * given up meanwhile. */
  void (*tidy) (TarnHeapRange *range);
  /* Gives back what a range has besides pieces.  Nobody else uses the heap. */
  void (*clear) (TarnHeapRange *range);
} TarnHeapGrowth;

extern const TarnHeapGrowth _tarn_heap_virtual_growth __attribute__ ((visibility ("hidden")));
extern const TarnHeapGrowth _tarn_heap_parts_growth __attribute__ ((visibility ("hidden")));

/* Invariants, whenever the lock can be taken; _tarn_heap_check () executes them:
 *
 *     upstream_bytes == sum of size over pieces, and what is on its way to or from upstream
 *     used_bytes     == sum of size over extents in use
 *     free_bytes     == sum of size over free extents
 *     pieces         == number of pieces; idle.length of them are idle
 *     every extent in use is in the table by its memory, but for n_unnamed; nothing else is
 *     those of extents, pieces, regions
 *
 * The lock guards all that is not constant.  It is not held during calls of upstream.  is_changing
 * says that some thread is in one: no other adds or takes away pieces meanwhile. */
struct _TarnHeap
{
  TarnAllocator base;      /* first */
  TarnAllocator *upstream; /* a reference */
  const TarnHeapGrowth *growth;
  gsize alignment;    /* of extents: a power of two */
  gsize limit_bytes;  /* 0: none */
  gsize growth_bytes; /* of a piece, where a request needs no more; 0: by what there is */

  TarnMutex lock;
  TarnCond changed; /* is_changing is FALSE again */
  gboolean is_changing;
  TarnHeapRange ranges[TARN_N_RANGES];
  GHashTable *table; /* memory in use -> TarnExtent */
  gsize n_unnamed;   /* extents in use that are not there: they are on their way there or back */
  GQueue idle;       /* of TarnPiece, by idle_link: idle for longest first */
  TarnExtent *spare; /* structs */
  guint32 chance;
  guint64 next_start; /* of parts: for the next piece */
  TarnHeapStats stats;
};

static inline gsize
_tarn_round_up (gsize size, gsize unit)
{
  return (size + unit - 1) & ~(unit - 1);
}

/* heap.c */
TarnHeap *_tarn_heap_of (TarnAllocator *allocator);

/* tree.c */
void _tarn_tree_insert (TarnExtent **root, TarnExtent *extent);
void _tarn_tree_remove (TarnExtent **root, TarnExtent *extent);
TarnExtent *_tarn_tree_find (TarnExtent *root, gsize size);

/* extent.c; the lock is held */
TarnExtent *_tarn_range_take (TarnHeapRange *range, gsize size);
void _tarn_range_put (TarnHeapRange *range, TarnExtent *extent);
void _tarn_range_add_piece (TarnHeapRange *range, TarnPiece *piece);
void _tarn_range_cut_piece (TarnPiece *piece);
void _tarn_heap_free_spare (TarnHeap *heap);

/* grow.c; the lock is held, and given up meanwhile */
gboolean _tarn_heap_grow (TarnHeapRange *range, gsize size, GError **error);
gsize _tarn_heap_trim (TarnHeap *heap);
/* and for the ways to grow */
gboolean _tarn_heap_has_room (const TarnHeap *heap, gsize size, GError **error);
void _tarn_heap_count_upstream (TarnHeap *heap, gsize size);
gsize _tarn_heap_release_idle (TarnHeap *heap, TarnPiece *piece);

/* heap-check.c; the lock is held */
gboolean _tarn_heap_check (TarnHeap *heap, gchar **violation);
void _tarn_heap_assert_valid (TarnHeap *heap);

/* After every operation, under the lock, in builds with --enable-debug=full. */
static inline void
_tarn_heap_check_if_full_debug (TarnHeap *heap)
{
#if defined(TARN_DEBUG_LEVEL) && TARN_DEBUG_LEVEL >= 2
  _tarn_heap_assert_valid (heap);
#else
  (void) heap;
#endif
}

#endif
