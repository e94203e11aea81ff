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
  /* The upstream of the pool.  If there is no pool, this allocator serves the requests itself. */
  TarnAllocator *allocator;
  TarnPool *pool; /* nullable */
  /* The heap if the object is one, or the heap that the alternative added below the pool;
   * nullable */
  TarnAllocator *heap;
  gboolean is_made; /* the object was created; it may have ended since */
  /* Neither a pool nor a heap serves the requests: the blocks come from the backend itself, which
   * has no counters. */
  gboolean is_backend;

  /* The last counters; rebuilt_end () and rebuilt_count () fill them in */
  TarnPoolStats pool_stats;
  TarnHeapStats heap_stats;
} RebuiltObject;

/* All rebuilt objects of a recording. */
typedef struct
{
  const Recorded *recorded;
  const Source *source;
  const Alternative *alternative;
  /* The peak of each pool's managed bytes in an earlier replay, without the alternative.  Indexed
   * like objects; nullable. */
  const gsize *peaks;
  RebuiltObject *objects;     /* indexed like the recorded objects */
  gpointer *queues;           /* indexed by the queue's number, which begins at 1 */
  SimulatedQueues *simulated; /* NULL: the device's own queues are used */
  Meter *meter;               /* NULL: the device's memory is used */
} Rebuilt;

/* Initialises @self without making objects.  Call rebuilt_clear () even if it fails.  If the
 * alternative sets limits as shares of peaks, they are computed from @peaks; if @peaks is NULL,
 * they are not set. */
gboolean rebuilt_init (Rebuilt *self, const Recorded *recorded, const Source *source,
                       const Alternative *alternative, const gsize *peaks, GError **error);
void rebuilt_clear (Rebuilt *self);

/* Makes an object if it was not made before, and its upstreams first. */
gboolean rebuilt_make (Rebuilt *self, guint object, GError **error);
gboolean rebuilt_make_all (Rebuilt *self, GError **error);

/* Sets the budget of the counter that stands for a recorded backend to @room->bytes, the most bytes
 * that the backend could have allocated from this step on.  Does nothing if this number never
 * varied, because the counter then has a constant budget.  Also does nothing if the replay uses a
 * device's memory, because then there are no counters. */
void rebuilt_set_room (Rebuilt *self, const Room *room);

/* Saves the counters of an object, and releases the object. */
void rebuilt_end (Rebuilt *self, guint object);
/* Saves the counters of all objects that are left. */
void rebuilt_count (Rebuilt *self);

/* Returns the bytes that the backend has allocated now.  If there is no meter, adds up the bytes of
 * pools and heaps, which leaves out blocks that come from the backend itself. */
gsize rebuilt_get_bytes (const Rebuilt *self);

/* Adds up, from the saved counters, the calls by which pools and heaps asked the backend for
 * memory, and the moves of segments.  Leaves out blocks that come from the backend itself. */
guint64 rebuilt_get_calls (const Rebuilt *self);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Rebuilt, rebuilt_clear)

#endif
