/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Replays the steps of a recorded program, with one thread for each thread of the program.  If a
 * request fails that was served in the program, all steps of its block are left out.  If a request
 * is served that failed in the program, its block is freed at once. */

#ifndef RECORDED_REPLAY_H
#define RECORDED_REPLAY_H

#include "rebuilt.h"

/* A replay.
 *
 * Invariant: active <= peak_active. */
typedef struct
{
  Rebuilt *rebuilt;
  gboolean is_timed;   /* counts nothing, and keeps objects until the end */
  gboolean has_failed; /* set after error; atomic */
  gpointer *blocks;    /* by Step.block; NULL: not allocated yet; FAILED: the request failed, or the
                          block was freed */
  GError *error;       /* the error of the thread that failed first; nullable */

  /* Only in the recorded order */
  gint64 *times; /* microseconds: the time of each thread's latest step; 0: none yet */
  guint next_reach, next_room;
  guint64 n_failures;       /* requests that failed */
  guint64 n_backend_blocks; /* requests that the backend itself served */
  gsize backend_bytes; /* bytes in use of blocks from the backend itself; not needed with a meter */
  gsize active, peak_active; /* requested bytes of blocks in use */
  gsize peak;                /* most bytes of the backend so far */
  gsize active_at_peak;
} RecordedReplay;

/* Makes all steps in their order.  Keeps counters in @rebuilt.  Blocks that are left stay in use
 * until recorded_replay_clear (). */
gboolean recorded_replay_in_order (RecordedReplay *self, Rebuilt *rebuilt, GError **error);

/* Makes the steps of all threads at the same time.  A thread waits only for blocks that another one
 * allocates.  Stores the nanoseconds of a step. */
gboolean recorded_replay_time (RecordedReplay *self, Rebuilt *rebuilt, gdouble *ns, GError **error);

/* Frees all blocks that are left. */
void recorded_replay_clear (RecordedReplay *self);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (RecordedReplay, recorded_replay_clear)

#endif
