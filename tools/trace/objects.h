/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The pools, heaps and allocators of a recording, and their blocks at a time.  objects_apply ()
 * takes the events one after the other.
 *
 * If events were lost, the recording may free a block that was never requested, or request a block
 * twice.  objects_apply () handles both cases. */

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
  /* A miss of a pool called the driver for memory.  A hit needed no such call. */
  guint64 hits, misses, failures, frees;
  guint64 extents; /* extents that a heap allocated */
  /* Requested bytes of blocks in use; for a heap, the bytes of its extents */
  guint64 active_bytes, peak_active_bytes;
  guint64 nested_bytes; /* the part of active_bytes that is for other allocators */
  /* held: bytes of cached blocks; managed: bytes of all blocks, or of a heap's segments */
  guint64 held_bytes, managed_bytes;
  GHashTable *blocks;    /* Blocks by their numbers; NULL: the object never had a block */
  gboolean has_requests; /* the recording has requests to the object, also if no pool is over it */
  /* For a heap, the blocks that the program requested from it without a pool; nullable */
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
  guint64 thread, queue, tag, stack; /* as in the request */
  guint64 life;                      /* the request's number among all requests, from 1 */
  gboolean is_active;
  gboolean is_lent;   /* the block is removed when it is freed; only in older recordings */
  gboolean is_nested; /* the block is for another allocator, whose own bytes count instead */
  gboolean is_marked; /* a mark for the caller's use; each request clears it */
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
  /* The block that serves the event's request, or that was in use at the start if the event says
   * so; NULL: none of these */
  Block *used;
  gboolean is_new; /* the block was not there before */
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

/* Gets the most bytes that allocators had from the driver at once.  Leaves out bytes that they had
 * before the recording began, and bytes from other allocators. */
guint64 objects_get_peak_driver_bytes (const Objects *self);

/* Tells whether an object serves requests of the program.  A heap without such requests serves only
 * pools: what a pool gets from the object below it does not count as a request. */
gboolean objects_serves_program (const Object *object);

/* Gets the requested bytes of the blocks in use that the program requested from an object.  Leaves
 * out nested requests. */
guint64 objects_get_program_bytes (const Object *object);

/* Describes an object by its name.  If it has none, says over which object it is. */
gchar *objects_describe (const Objects *self, const Object *object);

/* Call @func for each block in use of each object, or for each block of one object.  The blocks of
 * an object come in the order of their requests. */
typedef void (*BlockFunc) (Object *object, Block *block, gpointer user_data);
void objects_for_each_active (Objects *self, BlockFunc func, gpointer user_data);
void object_for_each_block (Object *object, BlockFunc func, gpointer user_data);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Objects, objects_free)

#endif
