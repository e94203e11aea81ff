/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Functions by which a pool uses the heap below it, and arenas, from which threads allocate without
 * the heap's lock.  Each queue of a heap has one arena, or several if threads wait for each other.
 *
 * A thread may use the ranges of an arena in two cases:
 *
 *     it is in a read section of the heap's door, and has the arena's lock
 *     it has the heap's lock, and the heap's door is closed
 *
 * The thread has already begun the read section for a pool's door.  A thread has one counter for
 * all doors (base/thread-private.h), so it only has to check the second door as well. */

#ifndef TARN_ARENA_PRIVATE_H
#define TARN_ARENA_PRIVATE_H

#include "allocator/allocator-private.h"
#include "base/thread-private.h"

typedef struct _TarnHeap TarnHeap;
typedef struct _TarnHeapQueue TarnHeapQueue;
typedef struct _TarnExtent TarnExtent;

/* Names the cached blocks that a pool returns to a heap before a request. */
typedef enum
{
  TARN_SPARING_HELD,  /* those of the request's queue in the pool's bins */
  TARN_SPARING_QUEUE, /* also those of the queue in thread caches */
  TARN_SPARING_ALL
} TarnSparing;

/* The arenas of a queue at the time that a caller got this reference.  If the queue's number has
 * changed since, they belong to another queue.  The struct lives as long as the heap. */
typedef struct
{
  TarnHeap *heap;
  TarnHeapQueue *queue; /* NULL: there is none */
  guint64 number;
} TarnArenaRef;

TarnHeap *_tarn_heap_of (TarnAllocator *allocator);

/* Constants of a heap. */
gboolean _tarn_heap_has_addresses (const TarnHeap *heap);
gsize _tarn_heap_get_alignment (const TarnHeap *heap);
gsize _tarn_heap_get_max_held (const TarnHeap *heap);

/* Gets the largest request whose memory can serve other requests once it is free.  Takes the
 * lock. */
gsize _tarn_heap_get_max_shared (TarnHeap *heap);

/* For tarn_pool_get_generation ().  Needs no lock. */
guint64 _tarn_heap_get_generation (const TarnHeap *heap);

/* These take the heap's lock.  @handle: the handle of an in-order queue, or NULL. */
gboolean _tarn_heap_allocate_own (TarnHeap *heap, gsize size, gpointer handle, TarnMemory *memory,
                                  guint64 *owner);
gboolean _tarn_heap_allocate_for (TarnHeap *heap, gsize size, gsize alignment, gpointer handle,
                                  TarnMemory *memory, guint64 *owner, GError **error);
gboolean _tarn_heap_free_for (TarnHeap *heap, TarnMemory memory, guint64 owner);
gboolean _tarn_heap_knows_owner (TarnHeap *heap, gpointer handle, guint64 owner);
TarnSparing _tarn_heap_choose_sparing (TarnHeap *heap, gsize size, gboolean keeps);
gboolean _tarn_heap_set_pool_limit (TarnHeap *heap, gsize limit_bytes);
gboolean _tarn_heap_forget_queue (TarnHeap *heap, gpointer handle, GError **error);
gboolean _tarn_heap_await_door (TarnHeap *heap);
gboolean _tarn_heap_meet_arena (TarnHeap *heap, gpointer handle, TarnArenaRef *ref, GError **error);
void _tarn_heap_look_after (TarnHeap *heap, gpointer handle);
TarnExtent *_tarn_arena_adopt (const TarnArenaRef *ref, TarnMemory memory);
void _tarn_arena_name (TarnHeap *heap, TarnExtent *extent, TarnMemory memory);

/* If the driver makes parts, the pool asks for an extent's part after it took the extent, and
 * releases the part before it frees the extent.  Not to be called in a read section. */
gboolean _tarn_heap_make_part (TarnHeap *heap, const TarnExtent *extent, TarnMemory *memory,
                               GError **error);
void _tarn_heap_release_part (TarnHeap *heap, const TarnExtent *extent, TarnMemory memory);
void _tarn_arena_return (TarnHeap *heap, TarnExtent *extent);

TarnExtent *_tarn_arena_take_with_lock (const TarnArenaRef *ref, gsize size, TarnMemory *memory,
                                        gboolean *is_due);

/* The first takes the heap's lock if it returns TRUE.  The second needs the lock, and may be called
 * any number of times.  The last releases it. */
gboolean _tarn_arena_begin_put (const TarnArenaRef *ref);
void _tarn_arena_put_with_lock (TarnExtent *extent);
void _tarn_arena_end_put (const TarnArenaRef *ref);

/* These need no lock. */

gboolean _tarn_heap_refuses_visits (const TarnHeap *heap);
gboolean _tarn_arena_is_met (const TarnArenaRef *ref);

/* In a read section. */
gboolean _tarn_arena_is_due (const TarnArenaRef *ref);
TarnExtent *_tarn_arena_take (const TarnArenaRef *ref, gsize size, TarnMemory *memory,
                              gboolean *is_due);
gboolean _tarn_arena_put (const TarnArenaRef *ref, TarnExtent *extent);
gboolean _tarn_arena_begin_part (const TarnArenaRef *ref, TarnExtent *extent, TarnMemory memory);
gboolean _tarn_arena_end_part (const TarnArenaRef *ref, TarnExtent *extent);
gboolean _tarn_arena_put_without_part (const TarnHeap *heap, TarnExtent *extent);

#endif
