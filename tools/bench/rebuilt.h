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

/* A rebuilt object, which stands for a recorded object. */
typedef struct
{
  TarnAllocator *allocator; /* the pool's upstream; if there is no pool, serves requests itself */
  TarnPool *pool;           /* nullable */
  TarnAllocator *heap; /* the object itself if it is a heap, or the heap that was added below the
                          pool; nullable */
  gboolean is_made;    /* the object was created; it may have ended since */
  gboolean is_backend; /* blocks come from the backend itself, which has no counters */

  /* Set when the object ends, or when all objects are counted */
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
  RebuiltObject *objects;     /* by the index of the recorded object */
  gpointer *queues;           /* by the number of the queue, from 1 */
  SimulatedQueues *simulated; /* NULL: queues are the device's */
  Meter *meter;               /* NULL: memory is the device's */
} Rebuilt;

/* Initialises without making objects.  Call rebuilt_clear () even if it fails.  Limits that are
 * shares are computed from @peaks.  If @peaks is NULL, such limits are not set. */
gboolean rebuilt_init (Rebuilt *self, const Recorded *recorded, const Source *source,
                       const Alternative *alternative, const gsize *peaks, GError **error);
void rebuilt_clear (Rebuilt *self);

/* Makes an object if it was not made before, and its upstreams first. */
gboolean rebuilt_make (Rebuilt *self, guint object, GError **error);
gboolean rebuilt_make_all (Rebuilt *self, GError **error);

/* Sets the budget of a backend's counter, if the backend's room varied. */
void rebuilt_set_room (Rebuilt *self, const Room *room);

/* Saves the counters of an object, and releases the object. */
void rebuilt_end (Rebuilt *self, guint object);
/* Saves the counters of all objects that are left. */
void rebuilt_count (Rebuilt *self);

/* Gets the current bytes of the backend.  If there is no meter, leaves out blocks that come from
 * the backend itself. */
gsize rebuilt_get_bytes (const Rebuilt *self);

/* Counts the backend calls for memory and the moves of segments, from the saved counters.  Leaves
 * out blocks that come from the backend itself. */
guint64 rebuilt_get_calls (const Rebuilt *self);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Rebuilt, rebuilt_clear)

#endif
