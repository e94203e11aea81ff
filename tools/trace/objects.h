/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The pools, heaps and allocators of a recording, and what they have at a time: events are given to
 * objects_apply () in their order.
 *
 * Nothing is taken for granted of the events either: some may be lost, so that a block is freed
 * that nobody asked for, or is asked for twice. */

#ifndef OBJECTS_H
#define OBJECTS_H

#include "recording.h"

typedef struct
{
  guint64 number;
  TarnTraceClass object_class; /* 0: the recording does not say */
  guint64 upstream;
  const gchar *kind,
      *name; /* the recording's; kind is "" and name NULL, where they are not known */
  guint64 hits, misses, failures, frees;
  guint64 extents;                         /* that a heap was asked for */
  guint64 active_bytes, peak_active_bytes; /* asked for by blocks in use; a heap's: by extents */
  guint64 held_bytes, managed_bytes;       /* of blocks as they are; managed, a heap's: of pieces */
  GHashTable *blocks;                      /* by their numbers; nullable: it never had one */
} Object;

/* A block that an object has. */
typedef struct
{
  guint64 number;
  guint64 size;       /* as it was asked for last */
  guint64 alloc_size; /* of its memory */
  guint64 address;
  guint64 time;                      /* of the request; 0: it was in use at the start */
  guint64 thread, queue, tag, stack; /* the request's */
  guint64 life;                      /* of all requests: which one; from 1 */
  gboolean is_active;
  gboolean is_lent;   /* it is gone when it is freed: older recordings have such */
  gboolean is_marked; /* the caller's, since the request */
} Block;

/* What an event did to a block.  What was freed or is gone, is told as it was before. */
typedef struct
{
  Object *object; /* NULL: the event is of none */
  Block freed;    /* life 0: none was */
  Block gone;     /* its memory; life 0 may be one that was never asked for */
  gboolean has_gone;
  Block *used;     /* by a request, or as it was found at the start; NULL: none */
  gboolean is_new; /* and it was not held before */
} Change;

typedef struct _Objects Objects;

/* Those of all of the recording, which is rewound before and behind; they have nothing yet.
 * @end_time, nullable: of its last event.  An error is of recording_next (). */
Objects *objects_new (Recording *recording, guint64 *end_time, GError **error);
void objects_free (Objects *self);

/* Forgets all that they have and have done. */
void objects_reset (Objects *self);

/* What is in the change lasts until the next call. */
void objects_apply (Objects *self, const RecordedEvent *event, Change *change);

/* NULL: there is no such object. */
Object *objects_find (const Objects *self, guint64 number);

/* In the order of their numbers; an array of Object. */
const GPtrArray *objects_get_all (const Objects *self);

/* Whether what it is asked for is what the program asks for: it is a pool, or there is none and it
 * is an allocator of a backend, or is not known. */
gboolean objects_is_asked (const Objects *self, const Object *object);

/* Calls @func for each block, in the order of their requests. */
typedef void (*BlockFunc) (Object *object, Block *block, gpointer user_data);
void objects_for_each_active (Objects *self, BlockFunc func, gpointer user_data);
void object_for_each_block (Object *object, BlockFunc func, gpointer user_data);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Objects, objects_free)

#endif
