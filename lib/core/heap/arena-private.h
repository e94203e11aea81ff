/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Arenas: what threads do with a heap's memory without its lock.  Each queue of a heap has one, and
 * several where threads wait for each other.
 *
 * Who may use the ranges of an arena:
 *
 *     a thread in a visit by the heap's door, which has the arena's lock
 *     a thread that has the heap's lock, which has the door closed
 *
 * A visit is one that the thread has begun anyway, by a pool's door: it has one counter for all
 * doors (base/thread-private.h), so that it is enough to look at the second door as well. */

#ifndef TARN_ARENA_PRIVATE_H
#define TARN_ARENA_PRIVATE_H

#include "allocator/allocator-private.h"
#include "base/thread-private.h"

typedef struct _TarnHeap TarnHeap;
typedef struct _TarnHeapQueue TarnHeapQueue;
typedef struct _TarnExtent TarnExtent;

/* The arenas of a queue as somebody met them.  They are another queue's if its number has changed;
 * its struct lives as long as the heap. */
typedef struct
{
  TarnHeap *heap;
  TarnHeapQueue *queue; /* NULL: there is none */
  guint64 number;
} TarnArenaRef;

/* The heap's lock is not held in these. */
gboolean _tarn_heap_await_door (TarnAllocator *heap);
gboolean _tarn_heap_meet_arena (TarnAllocator *heap, gpointer handle, TarnArenaRef *ref,
                                GError **error);
void _tarn_heap_look_after (TarnAllocator *heap, gpointer handle);
TarnExtent *_tarn_arena_adopt (const TarnArenaRef *ref, TarnMemory memory);
void _tarn_arena_name (TarnAllocator *heap, TarnExtent *extent, TarnMemory memory);

/* If the driver makes parts, the pool asks for the part of an extent after it took the extent, and
 * releases the part before it puts the extent back.  Not to be called in a visit. */
gboolean _tarn_arena_make_part (TarnAllocator *heap, TarnExtent *extent, TarnMemory *memory);
void _tarn_arena_release_part (TarnAllocator *heap, TarnExtent *extent, TarnMemory memory);
void _tarn_arena_return (TarnAllocator *heap, TarnExtent *extent);

TarnExtent *_tarn_arena_take_with_lock (const TarnArenaRef *ref, gsize size, TarnMemory *memory,
                                        gboolean *is_due);
gboolean _tarn_arena_begin_put (const TarnArenaRef *ref);
void _tarn_arena_put_with_lock (TarnExtent *extent); /* but in these two it is */
void _tarn_arena_end_put (const TarnArenaRef *ref);

gboolean _tarn_heap_is_closed (TarnAllocator *heap);
gboolean _tarn_arena_is_met (const TarnArenaRef *ref);

/* In a visit. */
gboolean _tarn_arena_is_due (const TarnArenaRef *ref);
TarnExtent *_tarn_arena_take (const TarnArenaRef *ref, gsize size, TarnMemory *memory,
                              gboolean *is_due);
gboolean _tarn_arena_put (const TarnArenaRef *ref, TarnExtent *extent);
gboolean _tarn_arena_begin_part (const TarnArenaRef *ref, TarnExtent *extent, TarnMemory memory);
gboolean _tarn_arena_end_part (const TarnArenaRef *ref, TarnExtent *extent);
gboolean _tarn_arena_put_without_part (TarnAllocator *heap, TarnExtent *extent);

#endif
