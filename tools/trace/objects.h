/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The objects of a recording at a time: its pools, heaps and allocators, with their blocks and
 * counters.  objects_apply () takes the events one after the other.
 *
 * An extent is a range of a heap's segment that serves one request to the heap.  A request is
 * nested if another allocator makes it, to get memory for its own block.  Both blocks have the same
 * bytes, which must not be counted twice.
 *
 * If events were lost, the recording may free a block that was never requested, or request a
 * block twice.  objects_apply () handles both cases. */

#ifndef OBJECTS_H
#define OBJECTS_H

#include "recording.h"

/* A pool, a heap or an allocator.
 *
 * Invariant: active_bytes <= peak_active_bytes.  Texts are owned by the recording. */
typedef struct _Object Object;
struct _Object
{
  guint64 number;
  TarnTraceClass object_class; /* 0: unknown */
  guint64 upstream;
  const gchar *kind; /* "": unknown */
  const gchar *name; /* NULL: the object has no name, or its name is unknown */
  /* A miss is a request for which the pool called the driver.  A hit needed no such call. */
  guint64 hits, misses, failures, frees;
  guint64 extents; /* a heap's number of requests that got an extent */
  /* Requested bytes of blocks in use; for a heap, the bytes of its extents */
  guint64 active_bytes, peak_active_bytes;
  guint64 nested_bytes; /* the part of active_bytes that nested requests got */
  /* held: bytes of cached blocks; managed: bytes of all blocks, or of a heap's segments */
  guint64 held_bytes, managed_bytes;
  GHashTable *blocks; /* Blocks by their numbers; NULL: the object never had a block */
  /* the object has blocks; a heap has some only if the program uses it without a pool */
  gboolean has_requests;
  /* For a heap: an object for the blocks that the program requested from the heap without a
   * pool; nullable */
  Object *own;
};

/* A block of an object. */
typedef struct
{
  guint64 number;
  guint64 size;       /* bytes of the latest request */
  guint64 alloc_size; /* bytes of the block's memory */
  guint64 address;
  guint64 time;                      /* time of the request; 0: the block was in use at the start */
  guint64 thread, queue, tag, stack; /* those of the request */
  /* the number of the block's latest request; the requests of all objects are numbered from 1 */
  guint64 life;
  gboolean is_active;
  /* only in older recordings: a range of another block; it is not cached when it is freed */
  gboolean is_lent;
  /* the request is nested: the same bytes are in a block of another allocator */
  gboolean is_nested;
  gboolean is_marked; /* callers of objects_apply () may set this; each request clears it */
} Block;

/* A change: the effect of an event on blocks.  freed and gone are copies of blocks as they were
 * before the event. */
typedef struct
{
  Object *object; /* NULL: the event has none */
  /* The block that was freed.  If its life is 0, no block was freed. */
  Block freed;
  /* If has_gone, the block that was removed.  Its life is 0 if it never served a request. */
  Block gone;
  gboolean has_gone;
  /* The block that serves the event's request.  If the event is a BLOCK, the block that was in
   * use when recording began.  NULL for other events. */
  Block *used;
  gboolean is_new; /* the event has added the block */
} Change;

typedef struct _Objects Objects;

/* Collects the objects of the whole recording, without blocks, and rewinds the recording.  If
 * @end_time is not NULL, sets it to the time of the last event.  Returns NULL with an error of
 * recording_next (). */
Objects *objects_new (Recording *recording, guint64 *end_time, GError **error);
void objects_free (Objects *self);

/* Removes all blocks and resets all counters. */
void objects_reset (Objects *self);

/* Applies an event.  The change is valid until the next call. */
void objects_apply (Objects *self, const RecordedEvent *event, Change *change);

/* Finds an object.  Returns NULL if there is none. */
Object *objects_find (const Objects *self, guint64 number);

/* Gets all Objects in the order of their numbers. */
const GPtrArray *objects_get_all (const Objects *self);

/* Gets the most bytes that allocators had from the driver at once.  Leaves out bytes that an
 * allocator had before recording began, and bytes that it got from another allocator. */
guint64 objects_get_peak_driver_bytes (const Objects *self);

/* Tells whether an object serves requests of the program.  Pools and allocators count as if they
 * did; a heap counts only if the program uses it without a pool. */
gboolean objects_serves_program (const Object *object);

/* Gets the requested bytes of the blocks in use that the program requested from an object.
 * Leaves out the bytes of nested requests. */
guint64 objects_get_program_bytes (const Object *object);

/* Gets an object's name.  If it has none, returns "over NAME" with the name of the next object
 * below that has one.  Free the text with g_free (). */
gchar *objects_describe (const Objects *self, const Object *object);

/* Call @func for each block in use of each object, or for each block of one object.  The blocks of
 * an object come in the order of their requests. */
typedef void (*BlockFunc) (Object *object, Block *block, gpointer user_data);
void objects_for_each_active (Objects *self, BlockFunc func, gpointer user_data);
void object_for_each_block (Object *object, BlockFunc func, gpointer user_data);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Objects, objects_free)

#endif
