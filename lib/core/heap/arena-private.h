/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Functions by which a pool uses the heap below it.
 *
 * A heap has arenas for each queue.  An arena is a set of memory ranges, which the heap divides
 * into extents.  An extent is a contiguous part of a range, in use or free.  Threads allocate
 * extents from an arena without the heap's lock.  A queue has one arena at first, and gets more if
 * threads often wait for the arena's lock.
 *
 * A thread that does not take the heap's lock uses arenas in a read section, while the heap allows
 * read sections (heap-door.c).  A thread may use the ranges of an arena in two cases:
 * - The thread is in a read section, the heap allows read sections, and the thread holds the
 *   arena's lock.
 * - The thread holds the heap's lock, and the heap forbids read sections.
 *
 * The pool begins a read section before it calls a function below that needs one.  The function
 * does not begin another read section, because each thread has only one counter of read sections,
 * for all objects (base/thread-private.h).  The function only checks that the heap allows read
 * sections. */

#ifndef TARN_ARENA_PRIVATE_H
#define TARN_ARENA_PRIVATE_H

#include "allocator/allocator-private.h"
#include "base/thread-private.h"

typedef struct _TarnHeap TarnHeap;
typedef struct _TarnHeapQueue TarnHeapQueue;
typedef struct _TarnExtent TarnExtent;

/* Sets of cached blocks.  Before the heap serves a request with fresh memory, it chooses one of
 * these sets, and the pool returns the cached blocks in the set to the heap. */
typedef enum
{
  TARN_SPARING_HELD,  /* the blocks of the request's queue in the pool's bins (lists of cached
                         blocks) */
  TARN_SPARING_QUEUE, /* the cached blocks of the request's queue, in bins and in thread caches */
  TARN_SPARING_ALL    /* the cached blocks of all queues */
} TarnSparing;

/* A reference to the arenas of a queue (heap-private.h).  @number is the number that the queue had
 * when the caller got the reference.  If TarnHeapQueue.number has another value now, the arenas do
 * not belong to that queue any more.  The struct *queue lives as long as the heap. */
typedef struct
{
  TarnHeap *heap;
  TarnHeapQueue *queue; /* NULL if the reference names no arenas */
  guint64 number;
} TarnArenaRef;

TarnHeap *_tarn_heap_of (TarnAllocator *allocator);

/* The next four functions return values that stay the same as long as the heap exists.  So the
 * caller needs no lock. */
gboolean _tarn_heap_has_addresses (const TarnHeap *heap);
gsize _tarn_heap_get_alignment (const TarnHeap *heap);
gsize _tarn_heap_get_max_held (const TarnHeap *heap);
gboolean _tarn_heap_follows_pool (const TarnHeap *heap);

/* Functions that count the pools over a heap.  A pool adds itself when it is made, and removes
 * itself when it is freed.  The caller needs no lock. */
void _tarn_heap_add_pool (TarnHeap *heap);
void _tarn_heap_remove_pool (TarnHeap *heap);
guint _tarn_heap_count_pools (const TarnHeap *heap);

/* Gets the size of the largest request that may share a segment (memory that the heap got from
 * upstream in one call) with other requests.  A larger request may get a segment of its own.  Such
 * a segment later usually serves only other large requests.  Takes the heap's lock. */
gsize _tarn_heap_get_max_shared (TarnHeap *heap);

/* Gets the heap's generation (tarn_pool_get_generation ()): a counter that grows when the heap
 * begins to unmap memory, or to return memory to upstream.  The caller needs no lock. */
guint64 _tarn_heap_get_generation (const TarnHeap *heap);

/* The next functions take the heap's lock.  The parameter @handle is the backend's handle of an
 * in-order queue, or NULL for requests that name no queue. */
gboolean _tarn_heap_allocate_own (TarnHeap *heap, gsize size, gpointer handle, TarnMemory *memory,
                                  guint64 *owner);
gboolean _tarn_heap_allocate_for (TarnHeap *heap, gsize size, gsize alignment, gpointer handle,
                                  TarnMemory *memory, guint64 *owner, GError **error);
gboolean _tarn_heap_free_for (TarnHeap *heap, TarnMemory memory, guint64 owner);
gboolean _tarn_heap_knows_owner (TarnHeap *heap, gpointer handle, guint64 owner);
TarnSparing _tarn_heap_choose_sparing (TarnHeap *heap, gsize size, gboolean keeps);
void _tarn_heap_note_turns (TarnHeap *heap, guint n);
gboolean _tarn_heap_set_pool_limit (TarnHeap *heap, gconstpointer pool, gboolean is_latest,
                                    gsize limit_bytes);
void _tarn_heap_end_pool_limit (TarnHeap *heap, gconstpointer pool);
gsize _tarn_heap_read_limit (TarnHeap *heap);
guint64 _tarn_heap_begin_reservation (TarnHeap *heap);
void _tarn_heap_end_reservation (TarnHeap *heap, guint64 n_made, gboolean has_failed);
gboolean _tarn_heap_forget_queue (TarnHeap *heap, gpointer handle, GError **error);
gboolean _tarn_heap_await_door (TarnHeap *heap);
gboolean _tarn_heap_meet_arena (TarnHeap *heap, gpointer handle, TarnArenaRef *ref, GError **error);
void _tarn_heap_look_after (TarnHeap *heap, gpointer handle);
TarnExtent *_tarn_arena_adopt (const TarnArenaRef *ref, TarnMemory memory);
void _tarn_arena_name (TarnHeap *heap, TarnExtent *extent, TarnMemory memory);

/* Functions that make and release sub-buffers, for heaps whose users get no addresses.  The
 * driver's sub-buffer for an extent (a range of the heap's memory) is called a part.  The pool
 * makes the part after it has taken the extent, and releases the part before it frees the extent.
 * The caller must be in no read section, and must not hold the heap's lock. */
gboolean _tarn_heap_make_part (TarnHeap *heap, const TarnExtent *extent, TarnMemory *memory,
                               GError **error);
void _tarn_heap_release_part (TarnHeap *heap, const TarnExtent *extent, TarnMemory memory);
void _tarn_arena_return (TarnHeap *heap, TarnExtent *extent);

TarnExtent *_tarn_arena_take_with_lock (const TarnArenaRef *ref, gsize size, TarnMemory *memory,
                                        gboolean *is_due);

/* Functions that free extents (ranges of the heap's memory) while the caller holds the heap's lock.
 * _tarn_arena_begin_put () takes the lock.  If it returns TRUE, the caller frees extents by
 * _tarn_arena_put_with_lock (), and then releases the lock by _tarn_arena_end_put (). */
gboolean _tarn_arena_begin_put (const TarnArenaRef *ref);
void _tarn_arena_put_with_lock (TarnExtent *extent);
void _tarn_arena_end_put (const TarnArenaRef *ref);

/* The caller of the next two functions need not hold a lock. */

gboolean _tarn_heap_refuses_visits (const TarnHeap *heap);
gboolean _tarn_arena_is_met (const TarnArenaRef *ref);

/* The caller of the next functions is in a read section. */
gboolean _tarn_arena_is_due (const TarnArenaRef *ref);
TarnExtent *_tarn_arena_take (const TarnArenaRef *ref, gsize size, TarnMemory *memory,
                              gboolean *is_due);
gboolean _tarn_arena_put (const TarnArenaRef *ref, TarnExtent *extent);
gboolean _tarn_arena_begin_part (const TarnArenaRef *ref, TarnExtent *extent, TarnMemory memory);
gboolean _tarn_arena_end_part (const TarnArenaRef *ref, TarnExtent *extent);
gboolean _tarn_arena_put_without_part (const TarnHeap *heap, TarnExtent *extent);

#endif
