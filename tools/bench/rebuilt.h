/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The pools, heaps and allocators of a recorded program, made again over some kind of memory, as
 * they were or with changes. */

#ifndef REBUILT_H
#define REBUILT_H

#include "alternative.h"
#include "counter.h"
#include "kinds.h"

/* What takes the place of a recorded object. */
typedef struct
{
  TarnAllocator *allocator; /* what is asked for blocks, unless there is a pool */
  TarnPool *pool;           /* nullable */
  TarnAllocator *heap;      /* that it is, or has for itself; nullable */
  gboolean is_made;         /* and may have ended since */
  gboolean is_backend;      /* blocks are the backend's own, which counts nothing */

  /* Once it has ended, or all have */
  TarnPoolStats pool_stats;
  TarnHeapStats heap_stats;
} RebuiltObject;

typedef struct
{
  const Recorded *recorded;
  const Source *source;
  const Alternative *alternative;
  const gsize *peaks;         /* bytes that each pool manages at most, as recorded; nullable */
  RebuiltObject *objects;     /* as the recording's */
  gpointer *queues;           /* by number from 1 on */
  SimulatedQueues *simulated; /* NULL: they are the device's */
  Meter *meter;               /* NULL: the device's memory has none */
} Rebuilt;

/* Makes what they have in common.  Clear it also where this fails.  @peaks is what limits that are
 * shares are shares of; NULL: there are none. */
gboolean rebuilt_init (Rebuilt *self, const Recorded *recorded, const Source *source,
                       const Alternative *alternative, const gsize *peaks, GError **error);
void rebuilt_clear (Rebuilt *self);

/* Makes an object, and before it what it is over, unless that was done. */
gboolean rebuilt_make (Rebuilt *self, guint object, GError **error);
gboolean rebuilt_make_all (Rebuilt *self, GError **error);

/* Has a counter that had more memory at one time than at another have as much as at this one. */
void rebuilt_set_room (Rebuilt *self, const Room *room);

/* Lets go of an object, once its counters are kept. */
void rebuilt_end (Rebuilt *self, guint object);
/* Keeps the counters of those that are left. */
void rebuilt_count (Rebuilt *self);

/* Bytes that there are of the backend, but for blocks that are its own; to be asked now and then.
 */
gsize rebuilt_get_bytes (const Rebuilt *self);

/* How often the backend was asked for memory, counted so far, but for such blocks. */
guint64 rebuilt_get_calls (const Rebuilt *self);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Rebuilt, rebuilt_clear)

#endif
