/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The steps of a recorded program, made again by a thread for each of its threads.  A request that
 * fails where the program's did not leaves its block out, and all that is done with it; one that
 * succeeds where the program's failed is freed at once. */

#ifndef RECORDED_REPLAY_H
#define RECORDED_REPLAY_H

#include "rebuilt.h"

typedef struct
{
  Rebuilt *rebuilt;
  gboolean is_timed;   /* nothing is counted meanwhile, and objects stay until the end */
  gboolean has_failed; /* with @error, of the thread that failed first; atomic */
  gpointer *blocks;    /* by block; FAILED: it could not be had */
  GError *error;

  /* In the recorded order only */
  gint64 *times; /* microseconds of each thread's latest step; 0: none yet */
  guint next_reach, next_room;
  guint64 n_failures;        /* requests */
  guint64 n_backend_blocks;  /* requests that the backend itself served */
  gsize backend_bytes;       /* in use by such blocks, where there is no meter */
  gsize active, peak_active; /* bytes that were asked for and are in use */
  gsize peak;                /* bytes of the backend */
  gsize active_at_peak;
} RecordedReplay;

/* Makes all steps in their order; counters are kept in @rebuilt, and blocks that are left are in
 * use until recorded_replay_clear (). */
gboolean recorded_replay_in_order (RecordedReplay *self, Rebuilt *rebuilt, GError **error);

/* Makes them with all threads at once, which wait for each other only for blocks that go from one
 * to another.  Stores nanoseconds for each step. */
gboolean recorded_replay_time (RecordedReplay *self, Rebuilt *rebuilt, gdouble *ns, GError **error);

/* Frees all blocks that are left. */
void recorded_replay_clear (RecordedReplay *self);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (RecordedReplay, recorded_replay_clear)

#endif
