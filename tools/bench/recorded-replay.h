/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Replays the steps of a recorded program, with one thread for each thread of the program.  If a
 * request succeeded in the program but fails in the replay, the replay leaves out all steps of its
 * block.  If a request failed in the program but succeeds in the replay, the replay frees its block
 * at once. */

#ifndef RECORDED_REPLAY_H
#define RECORDED_REPLAY_H

#include "rebuilt.h"

/* A replay.
 *
 * Invariant: active <= peak_active. */
typedef struct
{
  Rebuilt *rebuilt;
  /* The replay is only timed: it counts nothing, and keeps all objects until its end. */
  gboolean is_timed;
  gboolean has_failed; /* atomic; set after the field error */
  /* TarnBlocks, indexed by Step.block.  NULL: the block is not allocated yet.  FAILED: the request
   * failed, or the block was freed. */
  gpointer *blocks;
  GError *error; /* the error of the thread that failed first; nullable */

  /* The fields below are used only in a replay in the recorded order. */
  gint64 *times; /* microseconds: the time of each thread's latest step; 0: none yet */
  guint next_reach, next_room;
  guint64 n_failures;       /* number of requests that failed */
  guint64 n_backend_blocks; /* number of requests that the backend itself served */
  /* Bytes in use that the backend itself serves; needed only if Rebuilt.meter is NULL */
  gsize backend_bytes;
  gsize active, peak_active; /* requested bytes of blocks in use */
  gsize peak;                /* the most bytes that the backend has allocated so far */
  gsize active_at_peak;
} RecordedReplay;

/* Makes all steps in their order, and saves the objects' counters in @rebuilt.  Blocks that no step
 * frees stay in use until recorded_replay_clear (). */
gboolean recorded_replay_in_order (RecordedReplay *self, Rebuilt *rebuilt, GError **error);

/* Lets all threads make their steps at the same time.  A thread waits for another one only if it
 * needs a block that the other one allocates.  Stores in @ns the time of the whole replay divided
 * by the number of steps. */
gboolean recorded_replay_time (RecordedReplay *self, Rebuilt *rebuilt, gdouble *ns, GError **error);

/* Frees all blocks that are left. */
void recorded_replay_clear (RecordedReplay *self);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (RecordedReplay, recorded_replay_clear)

#endif
