/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The pools, heaps and allocators of a recorded program, rebuilt over some kind of memory, as they
 * were or with changes. */

#ifndef REBUILT_H
#define REBUILT_H

#include "alternative.h"
#include "counter.h"
#include "kinds.h"

/* A rebuilt object: it stands for a recorded one. */
typedef struct
{
  TarnAllocator *allocator; /* serves requests if there is no pool; a pool's upstream */
  TarnPool *pool;           /* nullable */
  TarnAllocator *heap;      /* the heap that it is, or that a pool has for itself; nullable */
  gboolean is_made;         /* it was made; it may have ended since */
  gboolean is_backend;      /* blocks come from the backend itself, which does not count */

  /* Set when it has ended, or all have */
  TarnPoolStats pool_stats;
  TarnHeapStats heap_stats;
} RebuiltObject;

/* All rebuilt objects of a recording. */
typedef struct
{
  const Recorded *recorded;
  const Source *source;
  const Alternative *alternative;
  const gsize *peaks;         /* each pool's peak of managed bytes, as recorded; nullable */
  RebuiltObject *objects;     /* by the index of the recorded one */
  gpointer *queues;           /* by number, from 1 */
  SimulatedQueues *simulated; /* NULL: queues are the device's */
  Meter *meter;               /* NULL: memory is the device's */
} Rebuilt;

/* Initialises without making objects.  Clear it even if this fails.  Limits that are shares refer
 * to @peaks; without them (NULL), such limits are not set. */
gboolean rebuilt_init (Rebuilt *self, const Recorded *recorded, const Source *source,
                       const Alternative *alternative, const gsize *peaks, GError **error);
void rebuilt_clear (Rebuilt *self);

/* Makes an object, and its upstreams first, unless they were made before. */
gboolean rebuilt_make (Rebuilt *self, guint object, GError **error);
gboolean rebuilt_make_all (Rebuilt *self, GError **error);

/* Sets the budget of a counter whose backend had not always the same room. */
void rebuilt_set_room (Rebuilt *self, const Room *room);

/* Keeps the counters of an object, and releases it. */
void rebuilt_end (Rebuilt *self, guint object);
/* Keeps the counters of all objects that are left. */
void rebuilt_count (Rebuilt *self);

/* Gets the current bytes of the backend, without blocks that come from the backend itself if there
 * is no meter. */
gsize rebuilt_get_bytes (const Rebuilt *self);

/* Counts calls of the backend for memory, and moves of segments, of objects whose counters are
 * kept.  Blocks that come from the backend itself are not counted. */
guint64 rebuilt_get_calls (const Rebuilt *self);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Rebuilt, rebuilt_clear)

#endif
